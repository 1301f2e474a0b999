/*
 * No control groups. Everything succeeds and nothing is limited or counted: the builder sets
 * resource limits instead and watches /proc.
 */
#include <errno.h>

#include "engine/cgroup/internal.h"

#include "base/banned.h"

static int none_open(struct cgroup_root *root, bool reopen, struct gb_err *err)
{
    (void) root, (void) reopen, (void) err;
    return 0;
}

static void none_close(struct cgroup_root *root)
{
    (void) root;
}

static int none_limit(const struct cgroup_root *root, const struct cgroup *cg,
                      const struct limits *limits, struct gb_err *err)
{
    (void) root, (void) cg, (void) limits, (void) err;
    return 0;
}

static int none_usage(const struct cgroup_root *root, const struct cgroup *cg,
                      struct cgroup_usage *usage)
{
    (void) root, (void) cg, (void) usage;
    return 0;
}

const struct cgroup_ops cgroup_none_ops = {
    .mode = CGROUP_OFF,
    .name = "none",
    .clone_into = false,
    .open = none_open,
    .close = none_close,
    .limit = none_limit,
    .usage = none_usage,
};
