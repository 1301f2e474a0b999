#pragma once

#include "base/err.h"

struct auth;
struct config;
struct store;

/* Changes or shows the budget of args[0], an address or "key:ID". -ENOENT: there is no such
 * account or key. */
int user_budget(const struct config *cfg, struct store *store, struct auth *auth,
                struct gb_err *err);
