#include "engine/seal/seal.h"

#include <errno.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "engine/shared/banned_after_clone.h"

#include "base/banned.h"

/* The C library has no wrapper, and libcap allocates, which is not allowed between clone and
 * seal. */
static int caps_set(uint64_t mask)
{
    struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct data[2] = {
        { .effective = (uint32_t) mask, .permitted = (uint32_t) mask },
        { .effective = (uint32_t) (mask >> 32), .permitted = (uint32_t) (mask >> 32) },
    };

    return syscall(SYS_capset, &header, data) < 0 ? -errno : 0;
}

int seal_caps(uint64_t keep)
{
    for (unsigned cap = 0; cap < 64; cap++) {
        if (keep & (UINT64_C(1) << cap))
            continue;
        if (prctl(PR_CAPBSET_DROP, cap, 0, 0, 0) == 0)
            continue;
        if (errno == EINVAL)
            break; /* beyond the last one this kernel knows */
        /* Not permitted: acceptable only if there is nothing left to drop. */
        if (prctl(PR_CAPBSET_READ, cap, 0, 0, 0) != 0)
            return -EPERM;
    }
    if (prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
        return -errno;
    return caps_set(keep);
}

int seal_no_new_privs(void)
{
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? -errno : 0;
}
