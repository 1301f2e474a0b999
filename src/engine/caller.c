#include "engine/caller.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <pwd.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/io.h"

#include "base/banned.h"

bool caller_is_privileged(void)
{
    struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct data[2] = { 0 };
    const uint32_t needed = 1u << CAP_SYS_ADMIN | 1u << CAP_SETUID | 1u << CAP_SETGID |
                            1u << CAP_SYS_CHROOT | 1u << CAP_SYS_PTRACE | 1u << CAP_KILL |
                            1u << CAP_NET_ADMIN;

    if (geteuid() != 0 || syscall(SYS_capget, &header, data) < 0)
        return false;
    return (data[0].effective & needed) == needed;
}

bool caller_subid_range(const char *path, const char *user, uid_t uid, char *first, char *count,
                        size_t size)
{
    FILE *file = fopen(path, "re");
    char line[256], uid_text[16];
    bool found = false;

    if (!file)
        return false;
    snprintf(uid_text, sizeof uid_text, "%u", uid);
    while (!found && fgets(line, sizeof line, file)) {
        char name[64], from[24], many[24];

        if (sscanf(line, "%63[^:]:%23[0-9]:%23[0-9]", name, from, many) != 3)
            continue;
        if (strcmp(name, uid_text) != 0 && (!user || strcmp(name, user) != 0))
            continue;
        snprintf(first, size, "%s", from);
        snprintf(count, size, "%s", many);
        found = true;
    }
    (void) fclose(file);
    return found;
}

bool caller_has_subids(uid_t uid)
{
    struct passwd *pw = getpwuid(uid);
    const char *user = pw ? pw->pw_name : NULL;
    char first[24], count[24];

    return caller_subid_range("/etc/subuid", user, uid, first, count, sizeof first) &&
           caller_subid_range("/etc/subgid", user, uid, first, count, sizeof first);
}

static bool setting_is(const char *path, const char *value)
{
    char text[32];

    return io_read_text_at(AT_FDCWD, path, text, sizeof text) > 0 && strcmp(text, value) == 0;
}

void caller_explain_no_userns(char *buf, size_t size)
{
    const char *why;

    if (setting_is("/proc/sys/user/max_user_namespaces", "0"))
        why = "user namespaces are switched off: sysctl user.max_user_namespaces=16384";
    else if (setting_is("/proc/sys/kernel/unprivileged_userns_clone", "0"))
        why = "ordinary users may not create user namespaces: "
              "sysctl kernel.unprivileged_userns_clone=1";
    else if (setting_is("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1"))
        why = "AppArmor restricts user namespaces: install a profile for glovebox, or "
              "sysctl kernel.apparmor_restrict_unprivileged_userns=0";
    else
        why = "check sysctl user.max_user_namespaces, and in a container its seccomp profile";
    snprintf(buf, size, "%s", why);
}
