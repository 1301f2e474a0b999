#include "engine/seal/seccomp.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "seccomp_policy.h"

#include "engine/shared/banned_after_clone.h"

#include "base/banned.h"

struct filter {
    const struct sock_filter *insns;
    unsigned short len;
};

#define FILTER(policy)                                                                             \
    {                                                                                              \
        .insns = seccomp_##policy, .len = ARRAY_LEN(seccomp_##policy)                              \
    }

static const struct filter filters[] = {
    [SECCOMP_POLICY_BASE] = FILTER(base),
    [SECCOMP_POLICY_LAST] = FILTER(last),
    [SECCOMP_POLICY_LAST_NOCGROUP] = FILTER(last_nocgroup),
    [SECCOMP_POLICY_INIT] = FILTER(init),
};

_Static_assert(ARRAY_LEN(filters) == SECCOMP_POLICY_INIT + 1, "a filter for every policy");

int seal_seccomp_load(enum seccomp_policy policy)
{
    struct sock_fprog prog;
    int saved = errno, r = 0;

    if ((unsigned) policy >= ARRAY_LEN(filters))
        return -EINVAL;

    /* The kernel only reads it; its struct has no const. */
    prog.filter = (struct sock_filter *) filters[policy].insns;
    prog.len = filters[policy].len;
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog) < 0)
        r = -errno;
    errno = saved;
    return r;
}
