/*
 * Landlock, the second wall. Mounts already make all but a few places read-only; these rules repeat
 * that in another part of the kernel, so that one bug is not enough. Reading is not restricted:
 * mounts decide what a box can see.
 */
#include "engine/seal/seal.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "engine/seal/init.h"

#include "engine/shared/banned_after_clone.h"

#include "base/banned.h"

/* Written out here because Debian 12's header stops at ABI 2; see landlock(7). */
struct ruleset_attr {
    uint64_t handled_access_fs;
    uint64_t handled_access_net;
    uint64_t scoped;
};

struct path_beneath_attr {
    uint64_t allowed_access;
    int32_t parent_fd;
} __attribute__((packed));

enum {
    LL_CREATE_RULESET_VERSION = 1,
    LL_RULE_PATH_BENEATH = 1,
};

#define LL_WRITE_FILE          (UINT64_C(1) << 1)
#define LL_REMOVE_DIR          (UINT64_C(1) << 4)
#define LL_REMOVE_FILE         (UINT64_C(1) << 5)
#define LL_MAKE_CHAR           (UINT64_C(1) << 6)
#define LL_MAKE_DIR            (UINT64_C(1) << 7)
#define LL_MAKE_REG            (UINT64_C(1) << 8)
#define LL_MAKE_SOCK           (UINT64_C(1) << 9)
#define LL_MAKE_FIFO           (UINT64_C(1) << 10)
#define LL_MAKE_BLOCK          (UINT64_C(1) << 11)
#define LL_MAKE_SYM            (UINT64_C(1) << 12)
#define LL_REFER               (UINT64_C(1) << 13) /* ABI 2 */
#define LL_TRUNCATE            (UINT64_C(1) << 14) /* ABI 3 */
#define LL_SCOPE_ABSTRACT_UNIX (UINT64_C(1) << 0)  /* ABI 6 */
#define LL_SCOPE_SIGNAL        (UINT64_C(1) << 1)  /* ABI 6 */

static uint64_t writes_of(int abi)
{
    uint64_t writes = LL_WRITE_FILE | LL_REMOVE_DIR | LL_REMOVE_FILE | LL_MAKE_CHAR | LL_MAKE_DIR |
                      LL_MAKE_REG | LL_MAKE_SOCK | LL_MAKE_FIFO | LL_MAKE_BLOCK | LL_MAKE_SYM;

    if (abi >= 2)
        writes |= LL_REFER;
    if (abi >= 3)
        writes |= LL_TRUNCATE;
    return writes;
}

static int allow_beneath(int ruleset_fd, const char *path, uint64_t access)
{
    autoclose int fd = open(path, O_PATH | O_CLOEXEC);
    struct path_beneath_attr rule = { .allowed_access = access };

    if (fd < 0)
        return -errno;
    rule.parent_fd = fd;
    if (syscall(SYS_landlock_add_rule, ruleset_fd, LL_RULE_PATH_BENEATH, &rule, 0) < 0)
        return -errno;
    return 0;
}

/* Writable volumes; PID 1 has left a link to each. */
static int allow_volumes(int ruleset_fd, uint64_t access)
{
    char path[sizeof VOLUMES_LINKS + 16];
    int r = 0;

    for (int i = 0; i < VOLUMES_MAX && r == 0; i++) {
        snprintf(path, sizeof path, VOLUMES_LINKS "/%d", i);
        r = allow_beneath(ruleset_fd, path, access);
    }
    return r == -ENOENT ? 0 : r;
}

int seal_landlock(bool scoped)
{
    int abi = (int) syscall(SYS_landlock_create_ruleset, NULL, 0, LL_CREATE_RULESET_VERSION);
    uint64_t writes = writes_of(abi);
    uint64_t in_place = LL_WRITE_FILE | (abi >= 3 ? LL_TRUNCATE : 0);
    uint64_t devices = LL_MAKE_CHAR | LL_MAKE_BLOCK;
    struct ruleset_attr attr = { .handled_access_fs = writes };
    size_t attr_size = offsetof(struct ruleset_attr, handled_access_net);
    autoclose int fd = -EBADF;
    int r;

    if (abi < 1)
        return -EOPNOTSUPP;
    if (abi >= 6 && scoped) {
        attr.scoped = LL_SCOPE_ABSTRACT_UNIX | LL_SCOPE_SIGNAL;
        attr_size = sizeof attr;
    }
    fd = (int) syscall(SYS_landlock_create_ruleset, &attr, attr_size, 0);
    if (fd < 0)
        return -errno;
    if ((r = allow_beneath(fd, "/workspace", writes & ~devices)) < 0 ||
        (r = allow_beneath(fd, "/tmp", writes & ~devices)) < 0 ||
        (r = allow_beneath(fd, "/dev/shm", writes & ~devices)) < 0 ||
        (r = allow_beneath(fd, "/dev", in_place)) < 0 ||
        (r = allow_volumes(fd, writes & ~devices)) < 0)
        return r;
    return syscall(SYS_landlock_restrict_self, fd, 0) < 0 ? -errno : 0;
}
