/*
 * Secrets of data sources, sealed: what the store has of a password or a service account is of no
 * use without a key, which is a file in the data directory and never in the store.
 *
 * The key (mark/source.key, 0600) is made with the first secret, and read for each use, so that it
 * is in memory only for a moment. A sealed text names its key by a short hash, because a store that
 * was moved without its key should say so, instead of "cannot decrypt". What a secret belongs to is
 * authenticated with it: a row that is copied to another source does not open.
 */
#pragma once

#include <stddef.h>

#include "base/err.h"

#define VAULT_PLAIN_MAX 32768

/* @place: what the secret belongs to. @ret_sealed: printable, for free(). */
int vault_seal(const char *data_dir, const char *place, const char *plain, char **ret_sealed,
               struct gb_err *err);

/* -EKEYREJECTED: sealed with another key, or the key is not there; -EBADMSG: it was changed, or
 * belongs to something else. The plain text goes to vault_wipe(). */
int vault_open(const char *data_dir, const char *place, const char *sealed, char **ret_plain,
               struct gb_err *err);

/* Zeroes and frees. Accepts NULL. */
void vault_wipe(char *plain);
