/*
 * What strangers can write for Mark. The first byte says what the rest is:
 *
 *   t  an access token, as text up to a NUL
 *   c  the claims of one: they are also put into a token with a right MAC, which the fuzzer could
 *      not guess
 *
 * Another letter is for another parser; one that nobody has is ignored.
 */
#include <sodium.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mark/auth/jwt.h"

#include "base/banned.h"

#define VARIANT sodium_base64_VARIANT_URLSAFE_NO_PADDING

static const struct jwt_key key = { "0123456789abcdef", "0123456789012345678901234567890" };

static void must(bool condition)
{
    if (!condition)
        abort();
}

static void check_claims(const struct jwt_claims *claims)
{
    char token[JWT_TOKEN_MAX];
    struct jwt_claims again;

    must(mark_id_valid(claims->sub) && mark_id_valid(claims->jti));
    must(claims->iat_s >= 0 && claims->exp_s >= 0 && claims->stamp >= 0);
    /* What was read is written and read as the same. */
    must(jwt_make(&key, claims, token) == 0);
    must(jwt_open(token, &key, &again));
    must(strcmp(again.sub, claims->sub) == 0 && strcmp(again.jti, claims->jti) == 0 &&
         again.iat_s == claims->iat_s && again.exp_s == claims->exp_s &&
         again.stamp == claims->stamp);
}

static void fuzz_token(const char *text)
{
    char kid[JWT_KID_LEN + 1] = "";
    struct jwt_claims claims;
    bool has_kid = jwt_kid(text, kid);

    must(!has_kid || strlen(kid) == JWT_KID_LEN);
    if (jwt_open(text, &key, &claims)) {
        must(has_kid && strcmp(kid, key.kid) == 0);
        check_claims(&claims);
    }
}

/* A token with any claims and a right MAC is as good as its claims, if it is not too long. */
static void fuzz_claims(const char *text, size_t len)
{
    static const char header[] = "{\"alg\":\"HS256\",\"typ\":\"JWT\",\"kid\":\"0123456789abcdef\"}";
    uint8_t mac[crypto_auth_hmacsha256_BYTES];
    char token[4096];
    struct jwt_claims claims, opened;
    bool good = jwt_read_claims(text, len, &claims);
    size_t used;

    if (good)
        check_claims(&claims);
    if (len > 2048)
        return;
    (void) sodium_bin2base64(token, 256, (const uint8_t *) header, sizeof header - 1, VARIANT);
    used = strlen(token);
    token[used++] = '.';
    (void) sodium_bin2base64(token + used, 3000, (const uint8_t *) text, len, VARIANT);
    used += strlen(token + used);
    (void) crypto_auth_hmacsha256(mac, (const uint8_t *) token, used, key.secret);
    token[used++] = '.';
    (void) sodium_bin2base64(token + used, 64, mac, sizeof mac, VARIANT);
    must(jwt_open(token, &key, &opened) == good);
    token[used] = token[used] == 'A' ? 'B' : 'A';
    must(!jwt_open(token, &key, &opened));
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
    char *text;

    if (size == 0 || sodium_init() < 0 || !(text = malloc(size)))
        return 0;
    memcpy(text, input + 1, size - 1);
    text[size - 1] = '\0';
    if (input[0] == 't')
        fuzz_token(text);
    else if (input[0] == 'c')
        fuzz_claims(text, size - 1);
    free(text);
    return 0;
}
