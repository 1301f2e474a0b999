/* The network options of `run` and `serve`. */
#pragma once

#include "cli/options/options.h"
#include "egress/egress.h"

/* What the operator permits: @hosts and the other options, as a policy; NULL when that is nothing.
 */
int network_policy(const struct config *cfg, char *const *hosts, struct egress_policy **ret_policy,
                   struct gb_err *err);

/* Everything but the log. Strings are those of @cfg. */
struct egress_config network_config(const struct config *cfg);
struct egress_limits network_limits(const struct config *cfg);

/* A core dump of this process would show what passes through it. */
void network_no_core(void);
