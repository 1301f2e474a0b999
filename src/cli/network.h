/* The network options of `run` and `serve`. */
#pragma once

#include "cli/options/options.h"
#include "egress/egress.h"

/* What the operator permits: @hosts and the other options, as a policy; NULL if nothing is. */
int network_policy(const struct config *cfg, char *const *hosts, struct egress_policy **ret_policy,
                   struct gb_err *err);

/* Fills everything but the log. Strings are borrowed from @cfg. */
struct egress_config network_config(const struct config *cfg);
struct egress_limits network_limits(const struct config *cfg);

/* Disables core dumps: they would contain secrets that pass through this process. */
void network_no_core(void);
