/*
 * The seal: what a connector gives up before it reads the first byte of a source.
 *
 * A table of steps, tried in order. A step that this kernel does not have is left out (Landlock
 * before 5.13); one that it has and refuses ends the process with an error, because a connector
 * that is half sealed must not meet a hostile server.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "connect/internal.h"
#include "connect_policy.h"

#include "base/banned.h"

#define NOBODY       65534
#define MEMORY_BYTES ((rlim_t) 1 << 30)
#define FILES_MAX    64

#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

/* ---- limits ---- */

static int limit(int resource, rlim_t value)
{
    struct rlimit now;

    if (getrlimit((__rlimit_resource_t) resource, &now) < 0)
        return -errno;
    if (now.rlim_max < value)
        value = now.rlim_max;
    now = (struct rlimit){ .rlim_cur = value, .rlim_max = value };
    return setrlimit((__rlimit_resource_t) resource, &now) < 0 ? -errno : 0;
}

static int step_limits(const struct seal_config *config)
{
    int r;

    if ((r = limit(RLIMIT_CORE, 0)) < 0 || (r = limit(RLIMIT_NOFILE, FILES_MAX)) < 0 ||
        (r = limit(RLIMIT_FSIZE, (rlim_t) config->file_bytes_max)) < 0 ||
        (r = limit(RLIMIT_CPU, (rlim_t) config->seconds_max)) < 0 ||
        (r = limit(RLIMIT_MEMLOCK, 0)) < 0)
        return r;
    /* A sanitizer reserves terabytes of addresses. */
    return SANITIZED ? 0 : limit(RLIMIT_AS, MEMORY_BYTES);
}

/* ---- ids and capabilities ---- */

static int step_bounding(const struct seal_config *config)
{
    (void) config;
    for (unsigned cap = 0; cap < 64; cap++) {
        if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) == 0)
            continue;
        if (errno == EINVAL)
            return 0; /* beyond the last one of this kernel */
        if (geteuid() == 0)
            return -EPERM;
        return 0; /* an ordinary user has none, and no_new_privs keeps it so */
    }
    return 0;
}

/* Root becomes nobody. In a user namespace without that id (a rootless container) root is an
 * ordinary user of the host already. */
static int step_ids(const struct seal_config *config)
{
    (void) config;
    if (geteuid() != 0)
        return 0;
    if (setgroups(0, NULL) < 0 && errno != EPERM)
        return -errno;
    if (setresgid(NOBODY, NOBODY, NOBODY) < 0)
        return errno == EINVAL ? 0 : -errno;
    if (setresuid(NOBODY, NOBODY, NOBODY) < 0)
        return errno == EINVAL ? 0 : -errno;
    return 0;
}

static int step_capabilities(const struct seal_config *config)
{
    struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct none[2] = { 0 };

    (void) config;
    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
        return -errno;
    return syscall(SYS_capset, &header, none) < 0 ? -errno : 0;
}

static int step_privileges(const struct seal_config *config)
{
    (void) config;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return -errno;
    /* Its memory has a password: nobody reads it with ptrace() or from a core file. */
    return prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0 ? -errno : 0;
}

/* ---- Landlock; the numbers are those of landlock(7), newer than Debian 12's header ---- */

struct ruleset_attr {
    uint64_t handled_access_fs;
    uint64_t handled_access_net;
    uint64_t scoped;
};

struct path_beneath_attr {
    uint64_t allowed_access;
    int32_t parent_fd;
} __attribute__((packed));

struct net_port_attr {
    uint64_t allowed_access;
    uint64_t port;
};

enum { LL_VERSION = 1, LL_PATH_BENEATH = 1, LL_NET_PORT = 2 };

#define LL_READ_FILE   (UINT64_C(1) << 2)
#define LL_READ_DIR    (UINT64_C(1) << 3)
#define LL_CONNECT_TCP (UINT64_C(1) << 1)
#define LL_NET_ALL     UINT64_C(3)
#define LL_SCOPE_ALL   UINT64_C(3)

/* All rights on files that an ABI knows: 13, and one more in the ABIs 2, 3 and 5. */
static uint64_t files_all(int abi)
{
    unsigned bits = 13U + (abi >= 2) + (abi >= 3) + (abi >= 5);

    return (UINT64_C(1) << bits) - 1;
}

static const struct {
    const char *path;
    bool directory;
} readable[] = {
    { "/etc/ssl/certs", true },
    { "/etc/ssl/cert.pem", false },
    { "/etc/ssl/openssl.cnf", false },
    { "/usr/lib/ssl", true },
    { "/usr/share/ca-certificates", true },
    { "/usr/local/share/ca-certificates", true },
    { "/etc/pki/tls/certs", true },
    { "/etc/pki/ca-trust/extracted", true },
    { "/etc/crypto-policies", true },
    { "/etc/gnutls", true },
    { "/etc/resolv.conf", false },
    { "/run/systemd/resolve", true },
    { "/etc/hosts", false },
    { "/etc/host.conf", false },
    { "/etc/gai.conf", false },
    { "/etc/nsswitch.conf", false },
    { "/etc/services", false },
    { "/etc/protocols", false },
    { "/dev/null", false },
    { "/dev/urandom", false },
};

static int allow_path(int ruleset, const char *path, bool directory)
{
    autoclose int fd = open(path, O_PATH | O_CLOEXEC);
    struct path_beneath_attr rule = { .allowed_access =
                                          LL_READ_FILE | (directory ? LL_READ_DIR : 0) };

    if (fd < 0)
        return 0; /* this distribution has none */
    rule.parent_fd = fd;
    return syscall(SYS_landlock_add_rule, ruleset, LL_PATH_BENEATH, &rule, 0) < 0 ? -errno : 0;
}

static int allow_ports(int ruleset, const struct seal_config *config)
{
    for (size_t i = 0; i < config->ports_len; i++) {
        struct net_port_attr rule = { .allowed_access = LL_CONNECT_TCP, .port = config->ports[i] };

        if (syscall(SYS_landlock_add_rule, ruleset, LL_NET_PORT, &rule, 0) < 0)
            return -errno;
    }
    return 0;
}

static int step_landlock(const struct seal_config *config)
{
    int abi = (int) syscall(SYS_landlock_create_ruleset, NULL, 0, LL_VERSION), r = 0;
    struct ruleset_attr attr = { .handled_access_fs = files_all(abi) };
    size_t size = offsetof(struct ruleset_attr, handled_access_net);
    autoclose int fd = -EBADF;

    if (abi < 1)
        return -EOPNOTSUPP; /* ENOSYS, or switched off at boot */
    if (abi >= 4) {
        attr.handled_access_net = LL_NET_ALL; /* nothing is bound either */
        size = offsetof(struct ruleset_attr, scoped);
    }
    if (abi >= 6) {
        attr.scoped = LL_SCOPE_ALL; /* signals, abstract unix sockets */
        size = sizeof attr;
    }
    fd = (int) syscall(SYS_landlock_create_ruleset, &attr, size, 0);
    if (fd < 0)
        return -errno;
    for (size_t i = 0; i < ARRAY_LEN(readable) && r == 0; i++)
        r = allow_path(fd, readable[i].path, readable[i].directory);
    if (r == 0 && abi >= 4)
        r = allow_ports(fd, config);
    if (r < 0)
        return r;
    return syscall(SYS_landlock_restrict_self, fd, 0) < 0 ? -errno : 0;
}

static int step_seccomp(const struct seal_config *config)
{
    struct sock_fprog prog = { .filter = (struct sock_filter *) seccomp_connector,
                               .len = ARRAY_LEN(seccomp_connector) };

    (void) config;
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog) < 0 ? -errno : 0;
}

/* ---- the steps ---- */

static const struct {
    const char *name;
    int (*step)(const struct seal_config *config);
    bool required; /* else -EOPNOTSUPP is no failure */
} steps[] = {
    { "limits", step_limits, true },
    { "bounding set", step_bounding, true },
    { "ids", step_ids, true },
    { "capabilities", step_capabilities, true },
    { "privileges", step_privileges, true },
    { "landlock", step_landlock, false },
    { "seccomp", step_seccomp, true }, /* last: it forbids the above */
};

int connect_seal(const struct seal_config *config, const char **ret_step)
{
    for (size_t i = 0; i < ARRAY_LEN(steps); i++) {
        int r = steps[i].step(config);

        if (r < 0 && !(r == -EOPNOTSUPP && !steps[i].required)) {
            *ret_step = steps[i].name;
            return r;
        }
    }
    return 0;
}
