#include "mark/auth/jwt.h"

#include <errno.h>
#include <jansson.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "base/text/hex.h"
#include "base/text/json_depth.h"

#include "base/banned.h"

#define VARIANT    sodium_base64_VARIANT_URLSAFE_NO_PADDING
#define ISSUER     "glovebox"
#define AUDIENCE   "mark"
#define CLAIMS_MAX 384

#define HEADER_START "{\"alg\":\"HS256\",\"typ\":\"JWT\",\"kid\":\""
#define HEADER_END   "\"}"
#define HEADER_LEN   (sizeof HEADER_START - 1 + JWT_KID_LEN + sizeof HEADER_END - 1)

/* Without padding; the macro of libsodium counts a NUL too. */
#define ENCODED(len) (sodium_base64_ENCODED_LEN((len), VARIANT) - 1)
#define MAC_BYTES    crypto_auth_hmacsha256_BYTES

_Static_assert(JWT_SECRET_BYTES == crypto_auth_hmacsha256_KEYBYTES, "a key is a key of the MAC");
_Static_assert(ENCODED(HEADER_LEN) + 1 + ENCODED(CLAIMS_MAX) + 1 + ENCODED(MAC_BYTES) <
                   JWT_TOKEN_MAX,
               "every token that is made fits");

/* ---- making ---- */

static void make_mac(const struct jwt_key *key, const char *text, size_t len,
                     uint8_t ret_mac[MAC_BYTES])
{
    (void) crypto_auth_hmacsha256(ret_mac, (const unsigned char *) text, len, key->secret);
}

/* Appends @data in base64 to the token, of which *@used bytes are written. */
static void append(char token[JWT_TOKEN_MAX], size_t *used, const void *data, size_t len)
{
    (void) sodium_bin2base64(token + *used, JWT_TOKEN_MAX - *used, data, len, VARIANT);
    *used += strlen(token + *used);
}

int jwt_make(const struct jwt_key *key, const struct jwt_claims *claims,
             char ret_token[JWT_TOKEN_MAX])
{
    char header[HEADER_LEN + 1], text[CLAIMS_MAX + 1];
    uint8_t mac[MAC_BYTES];
    size_t used = 0;
    int len;

    (void) snprintf(header, sizeof header, HEADER_START "%s" HEADER_END, key->kid);
    len = snprintf(text, sizeof text,
                   "{\"iss\":\"" ISSUER "\",\"aud\":\"" AUDIENCE "\",\"sub\":\"%s\",\"iat\":%lld,"
                   "\"exp\":%lld,\"jti\":\"%s\",\"stamp\":%lld}",
                   claims->sub, (long long) claims->iat_s, (long long) claims->exp_s, claims->jti,
                   (long long) claims->stamp);
    if (len < 0 || (size_t) len >= sizeof text)
        return -EMSGSIZE;
    append(ret_token, &used, header, HEADER_LEN);
    ret_token[used++] = '.';
    append(ret_token, &used, text, (size_t) len);
    make_mac(key, ret_token, used, mac);
    ret_token[used++] = '.';
    append(ret_token, &used, mac, sizeof mac);
    return 0;
}

/* ---- reading ---- */

/* Whether @text is the base64 of at most @size bytes, in its one spelling: libsodium refuses bits
 * that are left over. */
static bool decode(const char *text, size_t len, void *buf, size_t size, size_t *ret_len)
{
    return sodium_base642bin(buf, size, text, len, NULL, ret_len, NULL, VARIANT) == 0;
}

/* A token cut into its three parts. */
struct parts {
    const char *header, *claims, *mac;
    size_t header_len, claims_len, mac_len;
};

static bool cut(const char *token, struct parts *ret)
{
    const char *one, *two;
    size_t len = strnlen(token, JWT_TOKEN_MAX);

    if (len == JWT_TOKEN_MAX)
        return false;
    one = strchr(token, '.');
    two = one ? strchr(one + 1, '.') : NULL;
    if (!two || strchr(two + 1, '.'))
        return false;
    *ret = (struct parts){ token,
                           one + 1,
                           two + 1,
                           (size_t) (one - token),
                           (size_t) (two - one - 1),
                           len - (size_t) (two + 1 - token) };
    return true;
}

static bool read_header(const struct parts *parts, char ret_kid[JWT_KID_LEN + 1])
{
    char header[HEADER_LEN];
    const char *kid = header + sizeof HEADER_START - 1;
    size_t len;

    if (!decode(parts->header, parts->header_len, header, sizeof header, &len) ||
        len != HEADER_LEN || memcmp(header, HEADER_START, sizeof HEADER_START - 1) != 0 ||
        memcmp(kid + JWT_KID_LEN, HEADER_END, sizeof HEADER_END - 1) != 0)
        return false;
    memcpy(ret_kid, kid, JWT_KID_LEN);
    ret_kid[JWT_KID_LEN] = '\0';
    return hex_is(ret_kid, JWT_KID_LEN);
}

bool jwt_kid(const char *token, char ret_kid[JWT_KID_LEN + 1])
{
    struct parts parts;

    return cut(token, &parts) && read_header(&parts, ret_kid);
}

static bool is_word(const json_t *json, const char *name, const char *word)
{
    const char *text = json_string_value(json_object_get(json, name));

    return text && strcmp(text, word) == 0;
}

static bool read_id(const json_t *json, const char *name, char ret_id[MARK_ID_MAX])
{
    const char *text = json_string_value(json_object_get(json, name));

    if (!mark_id_valid(text))
        return false;
    memcpy(ret_id, text, MARK_ID_MAX);
    return true;
}

static bool read_number(const json_t *json, const char *name, int64_t *ret)
{
    const json_t *value = json_object_get(json, name);

    if (!json_is_integer(value) || json_integer_value(value) < 0)
        return false;
    *ret = json_integer_value(value);
    return true;
}

bool jwt_read_claims(const char *text, size_t len, struct jwt_claims *ret_claims)
{
    struct jwt_claims claims = { 0 };
    json_t *json;
    bool good;

    if (len > CLAIMS_MAX || json_too_deep(text, len, 1))
        return false;
    json = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
    good = json_object_size(json) == 7 && is_word(json, "iss", ISSUER) &&
           is_word(json, "aud", AUDIENCE) && read_id(json, "sub", claims.sub) &&
           read_id(json, "jti", claims.jti) && read_number(json, "iat", &claims.iat_s) &&
           read_number(json, "exp", &claims.exp_s) && read_number(json, "stamp", &claims.stamp);
    json_decref(json);
    if (good)
        *ret_claims = claims;
    return good;
}

bool jwt_open(const char *token, const struct jwt_key *key, struct jwt_claims *ret_claims)
{
    uint8_t mac[MAC_BYTES], right[MAC_BYTES];
    char kid[JWT_KID_LEN + 1], text[CLAIMS_MAX];
    struct parts parts;
    size_t len;

    if (!cut(token, &parts) || !read_header(&parts, kid) || strcmp(kid, key->kid) != 0 ||
        !decode(parts.mac, parts.mac_len, mac, sizeof mac, &len) || len != sizeof mac)
        return false;
    make_mac(key, token, parts.header_len + 1 + parts.claims_len, right);
    if (sodium_memcmp(mac, right, sizeof mac) != 0)
        return false;
    return decode(parts.claims, parts.claims_len, text, sizeof text, &len) &&
           jwt_read_claims(text, len, ret_claims);
}
