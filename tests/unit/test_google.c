/* Signing in at Google: key files, assertions, tokens that are kept. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <sodium.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "mark/source/google.h"

#include "base/banned.h"

#define VARIANT sodium_base64_VARIANT_URLSAFE_NO_PADDING
#define NOW     INT64_C(1800000000)

static char *pem;           /* of an RSA key, made once */
static gnutls_pubkey_t pub; /* its public half */

static char *make_pem(gnutls_pk_algorithm_t algorithm, unsigned bits, gnutls_pubkey_t to)
{
    gnutls_x509_privkey_t key;
    gnutls_privkey_t half;
    gnutls_datum_t out;
    char *text;

    assert_int_equal(gnutls_x509_privkey_init(&key), 0);
    assert_int_equal(gnutls_x509_privkey_generate(key, algorithm, bits, 0), 0);
    assert_int_equal(
        gnutls_x509_privkey_export2_pkcs8(key, GNUTLS_X509_FMT_PEM, NULL, GNUTLS_PKCS_PLAIN, &out),
        0);
    text = strndup((const char *) out.data, out.size);
    gnutls_free(out.data);
    if (to) {
        assert_int_equal(gnutls_privkey_init(&half), 0);
        assert_int_equal(gnutls_privkey_import_x509(half, key, GNUTLS_PRIVKEY_IMPORT_COPY), 0);
        assert_int_equal(gnutls_pubkey_import_privkey(to, half, 0, 0), 0);
        gnutls_privkey_deinit(half);
    }
    gnutls_x509_privkey_deinit(key);
    return text;
}

static int set_up(void **state)
{
    (void) state;
    assert_true(sodium_init() >= 0);
    assert_int_equal(gnutls_pubkey_init(&pub), 0);
    pem = make_pem(GNUTLS_PK_RSA, 2048, pub);
    return 0;
}

static int tear_down(void **state)
{
    (void) state;
    gnutls_pubkey_deinit(pub);
    free(pem);
    return 0;
}

static json_t *credentials_of(const char *key)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s}", "type", "service_account", "project_id", "p",
                     "client_email", "mark@p.iam.gserviceaccount.com", "private_key_id", "k1",
                     "private_key", key, "token_uri", "https://oauth2.googleapis.com/token");
}

/* ---- assertions ---- */

static json_t *part_of(const char *text, size_t len)
{
    char out[4096];
    size_t out_len;

    assert_int_equal(sodium_base642bin((unsigned char *) out, sizeof out, text, len, NULL, &out_len,
                                       NULL, VARIANT),
                     0);
    return json_loadb(out, out_len, JSON_REJECT_DUPLICATES, NULL);
}

static bool signed_well(const char *token, const char *dot)
{
    unsigned char signature[1024];
    gnutls_datum_t data = { (unsigned char *) token, (unsigned) (dot - token) }, sig;
    size_t len;

    assert_int_equal(sodium_base642bin(signature, sizeof signature, dot + 1, strlen(dot + 1), NULL,
                                       &len, NULL, VARIANT),
                     0);
    sig = (gnutls_datum_t){ signature, (unsigned) len };
    return gnutls_pubkey_verify_data2(pub, GNUTLS_SIGN_RSA_SHA256, 0, &data, &sig) >= 0;
}

static void test_assertion(void **state)
{
    json_t *credentials = credentials_of(pem), *header, *claims, *right;
    struct gb_err err = { 0 };
    char *token = NULL, *one, *two;

    (void) state;
    assert_int_equal(google_credentials_check(credentials, &err), 0);
    assert_int_equal(google_assertion(credentials, NOW, &token, &err), 0);
    one = strchr(token, '.');
    two = strrchr(token, '.');
    assert_true(one && two > one && !memchr(one + 1, '.', (size_t) (two - one - 1)));
    header = part_of(token, (size_t) (one - token));
    claims = part_of(one + 1, (size_t) (two - one - 1));
    right = json_pack("{s:s, s:s, s:s}", "alg", "RS256", "typ", "JWT", "kid", "k1");
    assert_true(json_equal(header, right));
    json_decref(right);
    right = json_pack("{s:s, s:s, s:s, s:I, s:I}", "iss", "mark@p.iam.gserviceaccount.com", "scope",
                      "https://www.googleapis.com/auth/bigquery", "aud",
                      "https://oauth2.googleapis.com/token", "iat", (json_int_t) NOW, "exp",
                      (json_int_t) NOW + 3600);
    assert_true(json_equal(claims, right));
    assert_true(signed_well(token, two));
    one[1] ^= 1; /* another message has another signature */
    assert_false(signed_well(token, two));
    json_decref(right);
    json_decref(header);
    json_decref(claims);
    json_decref(credentials);
    free(token);
}

/* ---- key files that are none ---- */

static void refuse(json_t *credentials, const char *why)
{
    struct gb_err err = { 0 };
    char *token = NULL;

    assert_int_equal(google_credentials_check(credentials, &err), -EINVAL);
    assert_non_null(strstr(err.msg, why));
    assert_null(strstr(err.msg, "SECRET"));
    assert_int_equal(google_assertion(credentials, NOW, &token, &err), -EINVAL);
    assert_null(token);
    json_decref(credentials);
}

static json_t *with(const char *name, json_t *value)
{
    json_t *credentials = credentials_of(pem);

    assert_int_equal(json_object_set_new(credentials, name, value), 0);
    return credentials;
}

static void test_bad_members(void **state)
{
    static const char *const names[] = { "type", "client_email", "private_key_id", "private_key",
                                         "token_uri" };
    char big[20001];

    (void) state;
    memset(big, 'x', sizeof big - 1);
    big[sizeof big - 1] = '\0';
    refuse(NULL, "must be an object");
    refuse(json_array(), "must be an object");
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        json_t *credentials = credentials_of(pem);

        json_object_del(credentials, names[i]);
        refuse(credentials, names[i]);
        refuse(with(names[i], json_integer(7)), names[i]);
        refuse(with(names[i], json_string("")), names[i]);
        refuse(with(names[i], json_string(big)), names[i]);
    }
    refuse(with("type", json_string("authorized_user")), "service_account");
    refuse(with("client_email", json_string("a\r\nb: SECRET")), "client_email");
    refuse(with("client_email", json_stringn("a\0SECRET", 8)), "client_email");
}

static void test_bad_uris(void **state)
{
    static const char *const uris[] = {
        "http://oauth2.googleapis.com/token",
        "ftp://127.0.0.1/token",
        "https://SECRET:SECRET@x.example/",
        "file:///etc/passwd",
        "oauth2.googleapis.com",
        "http://127.0.0.1.example/",
    };

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(uris); i++)
        refuse(with("token_uri", json_string(uris[i])), "token_uri");
    for (size_t i = 0; i < 2; i++) {
        json_t *credentials =
            with("token_uri", json_string(i ? "http://[::1]:80/t" : "http://127.0.0.1:9/token"));

        assert_int_equal(google_credentials_check(credentials, NULL), 0);
        json_decref(credentials);
    }
}

static void test_bad_keys(void **state)
{
    autofree char *small = make_pem(GNUTLS_PK_RSA, 1024, NULL);
    autofree char *curve =
        make_pem(GNUTLS_PK_ECDSA, GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), NULL);
    autofree char *cut = strndup(pem, strlen(pem) / 2);

    (void) state;
    refuse(with("private_key", json_string("SECRET")), "no PEM key");
    refuse(with("private_key", json_string(cut)), "no PEM key");
    refuse(with("private_key", json_string(small)), "2048");
    refuse(with("private_key", json_string(curve)), "RSA");
}

/* ---- tokens ---- */

static json_t *fill(struct google_tokens *tokens, const json_t *credentials)
{
    json_t *source = json_object();
    struct gb_err err = { 0 };

    assert_int_equal(google_tokens_fill(tokens, credentials, source, &err), 0);
    assert_non_null(json_string_value(json_object_get(source, "assertion")));
    assert_string_equal(json_string_value(json_object_get(source, "token_uri")),
                        "https://oauth2.googleapis.com/token");
    return source;
}

static const char *token_of(const json_t *source)
{
    return json_string_value(json_object_get(source, "token"));
}

static void keep(struct google_tokens *tokens, const json_t *source, json_t *token, int64_t life)
{
    json_t *done = json_pack("{s:s, s:o, s:I}", "message", "done", "token", token, "expires_in",
                             (json_int_t) life);

    google_tokens_keep(tokens, source, done);
    assert_int_equal(json_object_size(done), 1); /* nothing of it is left for a log */
    json_decref(done);
}

static void test_tokens(void **state)
{
    struct google_tokens *tokens = google_tokens_new();
    json_t *credentials = credentials_of(pem), *other = with("private_key_id", json_string("k2"));
    json_t *source = fill(tokens, credentials), *again;
    char *text = json_dumps(source, 0);

    (void) state;
    assert_null(strstr(text, "PRIVATE KEY"));
    assert_ptr_not_equal(json_object_get(source, "token_uri"),
                         json_object_get(credentials, "token_uri")); /* which are wiped */
    free(text);
    assert_null(token_of(source));
    keep(tokens, source, json_string("ya29.one"), 3600);
    again = fill(tokens, credentials);
    assert_string_equal(token_of(again), "ya29.one");
    json_decref(again);
    again = fill(tokens, other); /* of a key that replaced it */
    assert_null(token_of(again));
    json_decref(again);
    keep(tokens, source, json_string("ya29.two"), 60); /* about to expire */
    again = fill(tokens, credentials);
    assert_null(token_of(again));
    json_decref(again);
    json_decref(source);
    json_decref(other);
    json_decref(credentials);
    google_tokens_free(tokens);
    google_tokens_free(NULL);
}

static void test_bad_tokens(void **state)
{
    struct google_tokens *tokens = google_tokens_new();
    json_t *credentials = credentials_of(pem), *source = fill(tokens, credentials), *again;
    char big[GOOGLE_TOKEN_MAX + 2];

    (void) state;
    memset(big, 'x', sizeof big - 1);
    big[sizeof big - 1] = '\0';
    keep(tokens, source, json_string("a b"), 3600);
    keep(tokens, source, json_string("a\r\nX: y"), 3600);
    keep(tokens, source, json_string(""), 3600);
    keep(tokens, source, json_string(big), 3600);
    keep(tokens, source, json_integer(1), 3600);
    keep(tokens, source, json_string("fine"), 0);
    keep(tokens, source, json_string("fine"), -5);
    keep(tokens, source, json_string("fine"), INT64_MAX);
    again = fill(tokens, credentials);
    assert_null(token_of(again));
    json_decref(again);
    json_decref(source);
    json_decref(credentials);
    google_tokens_free(tokens);
}

static void test_many_tokens(void **state)
{
    struct google_tokens *tokens = google_tokens_new();
    char key[65] = "0000000000000000000000000000000000000000000000000000000000000000";
    json_t *credentials = credentials_of(pem), *source = fill(tokens, credentials), *again;

    (void) state;
    keep(tokens, source, json_string("ours"), 3600);
    for (int i = 0; i < GOOGLE_TOKENS_MAX + 10; i++) { /* those that expire first make room */
        json_t *fake = json_object();

        key[60] = "0123456789abcdef"[i >> 8 & 15];
        key[61] = "0123456789abcdef"[i >> 4 & 15];
        key[62] = "0123456789abcdef"[i & 15];
        json_object_set_new(fake, "token_key", json_string(key));
        keep(tokens, fake, json_string("x"), 1000);
        json_decref(fake);
    }
    again = fill(tokens, credentials);
    assert_string_equal(token_of(again), "ours");
    json_decref(again);
    json_decref(source);
    json_decref(credentials);
    google_tokens_free(tokens);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_assertion),   cmocka_unit_test(test_bad_members),
        cmocka_unit_test(test_bad_uris),    cmocka_unit_test(test_bad_keys),
        cmocka_unit_test(test_tokens),      cmocka_unit_test(test_bad_tokens),
        cmocka_unit_test(test_many_tokens),
    };

    return cmocka_run_group_tests_name("google", tests, set_up, tear_down);
}
