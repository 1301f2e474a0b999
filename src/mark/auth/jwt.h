/*
 * Access tokens: JSON Web Tokens of exactly one form (RFC 7519, RFC 7515).
 *
 * A token is made of a header, claims and a MAC. What breaks JWT libraries is that the header,
 * which anybody can write, chooses how the token is checked. Here it chooses nothing: the header
 * has to be byte for byte the one that we write, in which only the name of the key varies, and the
 * algorithm is HMAC-SHA-256. Nothing is parsed as JSON before the MAC was found to be right.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mark/ids.h"

#define JWT_KID_LEN      16 /* hexadecimal digits */
#define JWT_SECRET_BYTES 32
#define JWT_TOKEN_MAX    768 /* with its NUL; ours have less than 500 */

struct jwt_key {
    char kid[JWT_KID_LEN + 1];
    uint8_t secret[JWT_SECRET_BYTES];
};

struct jwt_claims {
    char sub[MARK_ID_MAX]; /* the user */
    char jti[MARK_ID_MAX];
    int64_t iat_s, exp_s; /* since 1970 */
    int64_t stamp;        /* the user's valid_from_us, which changes with the password */
};

/* -EMSGSIZE cannot happen with valid ids. */
int jwt_make(const struct jwt_key *key, const struct jwt_claims *claims,
             char ret_token[JWT_TOKEN_MAX]);

/* The name of the key in the header; false if the token has another form. */
bool jwt_kid(const char *token, char ret_kid[JWT_KID_LEN + 1]);

/* Whether @key made the token and its claims are complete. Times are not compared. */
bool jwt_open(const char *token, const struct jwt_key *key, struct jwt_claims *ret_claims);

/* The claims in @text, @len bytes of JSON; false unless they are as we write them. For jwt_open(),
 * and for the fuzzer, which cannot guess a MAC. */
bool jwt_read_claims(const char *text, size_t len, struct jwt_claims *ret_claims);
