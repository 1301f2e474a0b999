/*
 * The system call filters of a box, built into the binary. The policies are in seccomp.def;
 * gen_seccomp compiles that file at build time.
 */
#pragma once

#include <stddef.h>

enum seccomp_policy {
    SECCOMP_POLICY_BASE, /* before the interpreter or shell is executed; inherited by tenants */
    SECCOMP_POLICY_LAST, /* on top of it, as the last step of sealing a tenant */
    SECCOMP_POLICY_LAST_NOCGROUP, /* in place of it on a host without memory cgroups */
    SECCOMP_POLICY_INIT,          /* the box's PID 1 */
};

/* Adds the policy's filter to the calling thread; children inherit it and nothing removes it. For
 * the time between clone and sealed box: async-signal-safe, allocates nothing, leaves errno alone.
 * Returns -errno: -EACCES when the caller has neither no_new_privs nor CAP_SYS_ADMIN, -EPERM when a
 * filter forbids more filters, -EINVAL when the kernel does not support filters or there is no such
 * policy. */
int seal_seccomp_load(enum seccomp_policy policy);
