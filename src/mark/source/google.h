/*
 * Signing in at Google with a service account.
 *
 * The private key stays in this process: it signs a short-lived assertion (RFC 7523), and only that
 * goes to the connector, which changes it for an access token. The connector hands the token back
 * with its last message; it is kept in memory until shortly before it expires, so that not every
 * query asks for one.
 */
#pragma once

#include <jansson.h>
#include <stdint.h>

#include "base/err.h"

#define GOOGLE_CREDENTIALS_MAX (32 * 1024) /* bytes of the JSON text */
#define GOOGLE_TOKEN_MAX       8192
#define GOOGLE_TOKENS_MAX      256 /* that are kept */

/* Whether @credentials are a service account's key file, as Google writes it: type, client_email,
 * private_key (RSA, 2048 to 8192 bits, PEM), private_key_id, token_uri (https, or http of this
 * machine for tests). Other members are ignored. -EINVAL says in @err what is wrong, without any
 * value but the name of the member. */
int google_credentials_check(const json_t *credentials, struct gb_err *err);

/* A signed assertion for the token endpoint, for one hour from @now_s (seconds since 1970). The
 * caller frees it. -EINVAL as above. */
int google_assertion(const json_t *credentials, int64_t now_s, char **ret_assertion,
                     struct gb_err *err);

struct google_tokens;

struct google_tokens *google_tokens_new(void); /* NULL: out of memory */
void google_tokens_free(struct google_tokens *tokens);

/* Adds what a connector needs to sign in to @source, the "source" of an order: token_uri,
 * assertion, token_key, and token if one is kept. */
int google_tokens_fill(struct google_tokens *tokens, const json_t *credentials, json_t *source,
                       struct gb_err *err);
/* Keeps the "token" of @done, a connector's last message, for the credentials of @source, and takes
 * it out of @done. What is not a token is dropped: the connector read it from the network. */
void google_tokens_keep(struct google_tokens *tokens, const json_t *source, json_t *done);
