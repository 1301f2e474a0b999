/* The data directory of the service, for all commands that share it. */
#pragma once

#include "base/err.h"
#include "store/store.h"

/* The default: /var/lib/glovebox for root, otherwise glovebox in the user's state directory. The
 * caller frees the path. */
int data_default_dir(char **ret_dir, struct gb_err *err);

/* Opens the store in @config->dir, or in the default directory when that is NULL. Close it with
 * store_close(). */
int data_open(const struct store_config *config, struct store **ret_store, struct gb_err *err);
