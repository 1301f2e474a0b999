/*
 * What a host says about itself: the settings that decide whether a box can be created. They
 * suggest the fix when something failed. A newer kernel may behave differently from a setting, so
 * these facts never decide a verdict.
 */
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/io.h"
#include "engine/cgroup/read.h"
#include "engine/doctor/internal.h"
#include "engine/shared/caller.h"

#include "base/banned.h"

#define LANDLOCK_VERSION_FLAG 1
#define KERNEL_MAJOR          5
#define KERNEL_MINOR          12

static bool setting_is(const char *path, const char *value)
{
    char text[32];

    return io_read_text_at(AT_FDCWD, path, text, sizeof text) > 0 && strcmp(text, value) == 0;
}

static void look_kernel(struct doctor_host *host)
{
    struct utsname name;
    unsigned major, minor;

    if (uname(&name) < 0)
        return;
    snprintf(host->kernel, sizeof host->kernel, "%s", name.release);
    snprintf(host->machine, sizeof host->machine, "%s", name.machine);
    if (sscanf(name.release, "%u.%u", &major, &minor) == 2)
        host->kernel_is_old =
            major < KERNEL_MAJOR || (major == KERNEL_MAJOR && minor < KERNEL_MINOR);
}

static void look_user_namespaces(struct doctor_host *host)
{
    char map[256];
    unsigned inside = 0, outside = 1, count;

    host->userns_off = setting_is("/proc/sys/user/max_user_namespaces", "0");
    host->userns_kept = setting_is("/proc/sys/kernel/unprivileged_userns_clone", "0");
    host->apparmor_keeps =
        setting_is("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1");
    host->in_userns = io_read_text_at(AT_FDCWD, "/proc/self/uid_map", map, sizeof map) > 0 &&
                      (sscanf(map, "%u %u %u", &inside, &outside, &count) != 3 || inside != 0 ||
                       outside != 0 || count != UINT32_MAX);
    host->above_is_root = host->in_userns && host->uid == inside && outside == 0;
}

/* Container runtimes mount over the files they want to hide; binfmt_misc is mounted everywhere. */
static bool proc_is_masked(void)
{
    FILE *file = fopen("/proc/self/mountinfo", "re");
    char *line = NULL;
    bool masked = false;
    size_t size = 0;

    while (file && !masked && getline(&line, &size, file) > 0) {
        char point[64];

        masked = sscanf(line, "%*s %*s %*s %*s %63s", point) == 1 &&
                 strncmp(point, "/proc/", strlen("/proc/")) == 0 &&
                 strcmp(point, "/proc/sys/fs/binfmt_misc") != 0;
    }
    free(line);
    if (file)
        (void) fclose(file);
    return masked;
}

static bool is_filtered(void)
{
    char text[8192];

    return io_read_text_at(AT_FDCWD, "/proc/self/status", text, sizeof text) > 0 &&
           strstr(text, "\nSeccomp:\t2");
}

/* Where the builder looks, whose PATH is fixed. */
static bool has_tool(const char *name)
{
    static const char *const places[] = { "/usr/local/sbin", "/usr/local/bin", "/usr/sbin",
                                          "/usr/bin",        "/sbin",          "/bin" };

    for (size_t i = 0; i < ARRAY_LEN(places); i++) {
        char path[64];

        snprintf(path, sizeof path, "%s/%s", places[i], name);
        if (access(path, X_OK) == 0)
            return true;
    }
    return false;
}

static bool has_swap(void)
{
    char text[4096];
    const char *line;

    /* The first line is the heading. */
    return io_read_text_at(AT_FDCWD, "/proc/swaps", text, sizeof text) > 0 &&
           (line = strchr(text, '\n')) && line[1] != '\0';
}

static void look_cgroups(struct doctor_host *host)
{
    char controllers[512];
    autoclose int v2 = -EBADF, v1 = -EBADF;
    struct statvfs fs;
    unsigned unused;

    if (cgroup_place_open(NULL, PLACE_TOP, &v2, &unused) < 0)
        v2 = -EBADF;
    else if (io_read_text_at(v2, "cgroup.controllers", controllers, sizeof controllers) > 0)
        host->cgroup2_memory = cgroup_list_has(controllers, ' ', "memory");
    if (cgroup_place_open("memory", PLACE_TOP, &v1, &unused) < 0)
        v1 = -EBADF;
    else
        host->cgroup1_memory = true;
    if (host->cgroup2_memory || host->cgroup1_memory)
        host->cgroup_readonly =
            fstatvfs(host->cgroup2_memory ? v2 : v1, &fs) == 0 && fs.f_flag & ST_RDONLY;
}

void doctor_host_look(struct doctor_host *host)
{
    int abi = (int) syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_VERSION_FLAG);

    *host = (struct doctor_host){ .uid = geteuid() };
    host->privileged = caller_is_privileged();
    look_kernel(host);
    look_user_namespaces(host);
    look_cgroups(host);
    host->proc_is_masked = proc_is_masked();
    host->is_filtered = is_filtered();
    host->no_new_privs = prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1;
    host->has_newuidmap = has_tool("newuidmap") && has_tool("newgidmap");
    host->has_subids = caller_has_subids(host->uid);
    host->has_swap = has_swap();
    host->has_python = access(DOCTOR_PYTHON, X_OK) == 0;
    host->landlock_abi = abi > 0 ? abi : 0;
}
