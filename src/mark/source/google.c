#include "mark/source/google.h"

#include <curl/curl.h>
#include <errno.h>
#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <pthread.h>
#include <sodium.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/text/hex.h"

#include "base/banned.h"

#define VARIANT       sodium_base64_VARIANT_URLSAFE_NO_PADDING
#define SCOPE         "https://www.googleapis.com/auth/bigquery"
#define ASSERTION_S   3600 /* the longest that Google takes */
#define KEY_BITS_MIN  2048
#define KEY_BITS_MAX  8192
#define EARLY_US      (120 * USEC_PER_SEC) /* a query with the token must have time to start */
#define LIFE_MAX_S    86400
#define TOKEN_KEY_LEN (2 * crypto_generichash_BYTES)

/* ---- the key file ---- */

static const struct member {
    const char *name;
    size_t max;
} members[] = {
    { "type", 64 },           { "client_email", 320 }, { "private_key_id", 128 },
    { "private_key", 16384 }, { "token_uri", 512 },
};

static const char *text_of(const json_t *credentials, const char *name)
{
    return json_string_value(json_object_get(credentials, name));
}

static bool is_printable(const char *text)
{
    for (; *text; text++)
        if (*text <= ' ' || *text > '~')
            return false;
    return true;
}

static int check_member(const json_t *credentials, const struct member *member, struct gb_err *err)
{
    const json_t *value = json_object_get(credentials, member->name);
    const char *text = json_string_value(value);

    if (!text || !*text)
        return gb_fail_plain(err, EINVAL,
                             "the credentials have no \"%s\"; use the JSON key file of a service "
                             "account as Google made it",
                             member->name);
    if (json_string_length(value) > member->max || strlen(text) != json_string_length(value) ||
        (strcmp(member->name, "private_key") != 0 && !is_printable(text)))
        return gb_fail_plain(err, EINVAL,
                             "\"%s\" in the credentials is too long, or has characters that do not "
                             "belong there",
                             member->name);
    return 0;
}

static bool is_this_machine(const char *host)
{
    return strcasecmp(host, "localhost") == 0 || strcmp(host, "127.0.0.1") == 0 ||
           strcmp(host, "[::1]") == 0;
}

/* https, or http of this machine; no user, no password. */
static bool uri_is_safe(const char *text)
{
    CURLU *url = curl_url();
    char *scheme = NULL, *host = NULL, *user = NULL;
    bool safe;

    safe = url && curl_url_set(url, CURLUPART_URL, text, 0) == CURLUE_OK &&
           curl_url_get(url, CURLUPART_SCHEME, &scheme, 0) == CURLUE_OK &&
           curl_url_get(url, CURLUPART_HOST, &host, 0) == CURLUE_OK &&
           curl_url_get(url, CURLUPART_USER, &user, 0) == CURLUE_NO_USER &&
           (strcmp(scheme, "https") == 0 || (strcmp(scheme, "http") == 0 && is_this_machine(host)));
    curl_free(scheme);
    curl_free(host);
    curl_free(user);
    curl_url_cleanup(url);
    return safe;
}

static int check_members(const json_t *credentials, struct gb_err *err)
{
    int r;

    if (!json_is_object(credentials))
        return gb_fail_plain(err, EINVAL,
                             "the credentials must be an object: the JSON key file of a service "
                             "account");
    for (size_t i = 0; i < ARRAY_LEN(members); i++) {
        r = check_member(credentials, &members[i], err);
        if (r < 0)
            return r;
    }
    if (strcmp(text_of(credentials, "type"), "service_account") != 0)
        return gb_fail_plain(err, EINVAL,
                             "\"type\" in the credentials must be \"service_account\"; keys of "
                             "people and of other kinds are not taken");
    if (!uri_is_safe(text_of(credentials, "token_uri")))
        return gb_fail_plain(err, EINVAL, "\"token_uri\" in the credentials must be an https URL");
    return 0;
}

/* ---- the key ---- */

static int load_key(const json_t *credentials, gnutls_privkey_t *ret_key, struct gb_err *err)
{
    const char *pem = text_of(credentials, "private_key");
    gnutls_datum_t data = { (unsigned char *) pem, (unsigned) strlen(pem) };
    gnutls_privkey_t key = NULL;
    unsigned bits = 0;

    if (gnutls_privkey_init(&key) < 0)
        return gb_fail(err, ENOMEM, "read the private key");
    if (gnutls_privkey_import_x509_raw(key, &data, GNUTLS_X509_FMT_PEM, NULL, 0) < 0) {
        gnutls_privkey_deinit(key);
        return gb_fail_plain(err, EINVAL,
                             "\"private_key\" in the credentials is no PEM key, or needs a "
                             "password; download a new key for the service account");
    }
    if (gnutls_privkey_get_pk_algorithm(key, &bits) != GNUTLS_PK_RSA || bits < KEY_BITS_MIN ||
        bits > KEY_BITS_MAX) {
        gnutls_privkey_deinit(key);
        return gb_fail_plain(err, EINVAL,
                             "\"private_key\" in the credentials must be an RSA key of %d to %d "
                             "bits",
                             KEY_BITS_MIN, KEY_BITS_MAX);
    }
    *ret_key = key;
    return 0;
}

int google_credentials_check(const json_t *credentials, struct gb_err *err)
{
    gnutls_privkey_t key = NULL;
    int r = check_members(credentials, err);

    if (r == 0)
        r = load_key(credentials, &key, err);
    if (r == 0)
        gnutls_privkey_deinit(key);
    return r;
}

/* ---- the assertion ---- */

/* The base64 of @json as text; takes @json. NULL: out of memory. */
static char *encode_json(json_t *json)
{
    autofree char *text = json ? json_dumps(json, JSON_COMPACT) : NULL;
    size_t size = text ? sodium_base64_encoded_len(strlen(text), VARIANT) : 0;
    char *encoded = text ? malloc(size) : NULL;

    if (encoded)
        (void) sodium_bin2base64(encoded, size, (unsigned char *) text, strlen(text), VARIANT);
    json_decref(json);
    return encoded;
}

/* "header.claims" */
static char *make_message(const json_t *credentials, int64_t now_s)
{
    autofree char *header = encode_json(json_pack("{s:s, s:s, s:s}", "alg", "RS256", "typ", "JWT",
                                                  "kid", text_of(credentials, "private_key_id")));
    autofree char *claims = encode_json(
        json_pack("{s:s, s:s, s:s, s:I, s:I}", "iss", text_of(credentials, "client_email"), "scope",
                  SCOPE, "aud", text_of(credentials, "token_uri"), "iat", (json_int_t) now_s, "exp",
                  (json_int_t) now_s + ASSERTION_S));
    char *message = NULL;

    if (!header || !claims || asprintf(&message, "%s.%s", header, claims) < 0)
        return NULL;
    return message;
}

static char *join(const char *message, const gnutls_datum_t *signature)
{
    size_t size = sodium_base64_encoded_len(signature->size, VARIANT);
    autofree char *encoded = malloc(size);
    char *token = NULL;

    if (!encoded)
        return NULL;
    (void) sodium_bin2base64(encoded, size, signature->data, signature->size, VARIANT);
    return asprintf(&token, "%s.%s", message, encoded) < 0 ? NULL : token;
}

int google_assertion(const json_t *credentials, int64_t now_s, char **ret_assertion,
                     struct gb_err *err)
{
    autofree char *message = NULL;
    gnutls_datum_t data, signature = { 0 };
    gnutls_privkey_t key = NULL;
    char *assertion = NULL;
    int r = check_members(credentials, err);

    if (r == 0)
        r = load_key(credentials, &key, err);
    if (r < 0)
        return r;
    message = make_message(credentials, now_s);
    if (message) {
        data = (gnutls_datum_t){ (unsigned char *) message, (unsigned) strlen(message) };
        if (gnutls_privkey_sign_data2(key, GNUTLS_SIGN_RSA_SHA256, 0, &data, &signature) == 0)
            assertion = join(message, &signature);
        gnutls_free(signature.data);
    }
    gnutls_privkey_deinit(key);
    if (!assertion)
        return gb_fail_plain(err, message ? EINVAL : ENOMEM,
                             "cannot sign with the private key of the credentials");
    *ret_assertion = assertion;
    return 0;
}

/* ---- access tokens ---- */

struct kept {
    char key[TOKEN_KEY_LEN + 1];
    char *token;
    int64_t until_us; /* clock_now_us() */
};

struct google_tokens {
    pthread_mutex_t lock; /* protects the members below */
    struct kept kept[GOOGLE_TOKENS_MAX];
    size_t len;
};

struct google_tokens *google_tokens_new(void)
{
    struct google_tokens *tokens = calloc(1, sizeof *tokens);

    if (tokens)
        pthread_mutex_init(&tokens->lock, NULL);
    return tokens;
}

static void wipe(char *text)
{
    if (text)
        sodium_memzero(text, strlen(text));
    free(text);
}

void google_tokens_free(struct google_tokens *tokens)
{
    if (!tokens)
        return;
    for (size_t i = 0; i < tokens->len; i++)
        wipe(tokens->kept[i].token);
    pthread_mutex_destroy(&tokens->lock);
    free(tokens);
}

/* Names the credentials without telling anything of them. Other credentials, another key: a token
 * of a key that was replaced is not used. */
static void make_token_key(const json_t *credentials, char ret_key[TOKEN_KEY_LEN + 1])
{
    uint8_t hash[crypto_generichash_BYTES];
    crypto_generichash_state state;

    (void) crypto_generichash_init(&state, NULL, 0, sizeof hash);
    for (size_t i = 0; i < ARRAY_LEN(members); i++) {
        const char *text = text_of(credentials, members[i].name);

        (void) crypto_generichash_update(&state, (const unsigned char *) text, strlen(text) + 1);
    }
    (void) crypto_generichash_final(&state, hash, sizeof hash);
    for (size_t i = 0; i < sizeof hash; i++)
        hex_put(hash[i], ret_key + 2 * i);
    ret_key[TOKEN_KEY_LEN] = '\0';
    sodium_memzero(&state, sizeof state);
}

/* With the lock held; NULL: none. */
static struct kept *find(struct google_tokens *tokens, const char *key)
{
    for (size_t i = 0; i < tokens->len; i++)
        if (strcmp(tokens->kept[i].key, key) == 0)
            return &tokens->kept[i];
    return NULL;
}

int google_tokens_fill(struct google_tokens *tokens, const json_t *credentials, json_t *source,
                       struct gb_err *err)
{
    char key[TOKEN_KEY_LEN + 1];
    char *assertion = NULL;
    struct kept *kept;
    int r = google_assertion(credentials, clock_wall_us() / USEC_PER_SEC, &assertion, err);

    if (r < 0)
        return r;
    make_token_key(credentials, key);
    r = json_object_set_new(source, "assertion", json_string(assertion)) |
        json_object_set_new(source, "token_key", json_string(key)) |
        /* A copy: whoever wipes the credentials must not wipe it here. */
        json_object_set_new(source, "token_uri", json_string(text_of(credentials, "token_uri")));
    wipe(assertion);
    pthread_mutex_lock(&tokens->lock);
    kept = find(tokens, key);
    if (kept && kept->until_us > clock_now_us())
        r |= json_object_set_new(source, "token", json_string(kept->token));
    pthread_mutex_unlock(&tokens->lock);
    return r == 0 ? 0 : gb_fail(err, ENOMEM, "sign in");
}

/* The place for a new token: its own, a free one, or that of the one that expires first. */
static struct kept *place_for(struct google_tokens *tokens, const char *key)
{
    struct kept *place = find(tokens, key);

    if (place)
        return place;
    if (tokens->len < GOOGLE_TOKENS_MAX)
        return &tokens->kept[tokens->len++];
    place = &tokens->kept[0];
    for (size_t i = 1; i < tokens->len; i++)
        if (tokens->kept[i].until_us < place->until_us)
            place = &tokens->kept[i];
    return place;
}

void google_tokens_keep(struct google_tokens *tokens, const json_t *source, json_t *done)
{
    const char *key = json_string_value(json_object_get(source, "token_key"));
    const json_t *text = json_object_get(done, "token");
    const char *token = json_string_value(text);
    int64_t life_s = json_integer_value(json_object_get(done, "expires_in"));

    if (key && hex_is(key, TOKEN_KEY_LEN) && token && *token &&
        json_string_length(text) <= GOOGLE_TOKEN_MAX && strlen(token) == json_string_length(text) &&
        is_printable(token) && life_s > 0 && life_s <= LIFE_MAX_S) {
        char *copy = strdup(token);
        struct kept *place;

        pthread_mutex_lock(&tokens->lock);
        place = copy ? place_for(tokens, key) : NULL;
        if (place) {
            wipe(place->token);
            place->token = copy;
            place->until_us = clock_now_us() + life_s * USEC_PER_SEC - EARLY_US;
            memcpy(place->key, key, sizeof place->key);
        }
        pthread_mutex_unlock(&tokens->lock);
    }
    (void) json_object_del(done, "token");
    (void) json_object_del(done, "expires_in");
}
