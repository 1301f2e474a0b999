/* The parts of mark/auth: tokens, signing keys, throttles, rules. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "mark/auth/jwt.h"
#include "mark/auth/password.h"
#include "mark/auth/ring.h"
#include "mark/auth/throttle.h"

#include "base/banned.h"

#define SECOND  USEC_PER_SEC
#define NOW     (INT64_C(1800000000) * SECOND)
#define VARIANT sodium_base64_VARIANT_URLSAFE_NO_PADDING

/* ---- tokens ---- */

static const struct jwt_key key = { "0123456789abcdef", "0123456789012345678901234567890" };

static struct jwt_claims claims_of(void)
{
    struct jwt_claims claims = { .iat_s = 1800000000, .exp_s = 1800000900, .stamp = 77 };

    snprintf(claims.sub, sizeof claims.sub, "11111111-2222-4333-8444-555555555555");
    snprintf(claims.jti, sizeof claims.jti, "66666666-7777-4888-8999-aaaaaaaaaaaa");
    return claims;
}

static void make(char token[JWT_TOKEN_MAX])
{
    struct jwt_claims claims = claims_of();

    assert_int_equal(jwt_make(&key, &claims, token), 0);
}

static void test_token(void **state)
{
    struct jwt_claims got = { 0 };
    char token[JWT_TOKEN_MAX], kid[JWT_KID_LEN + 1];

    (void) state;
    make(token);
    assert_true(jwt_kid(token, kid));
    assert_string_equal(kid, key.kid);
    assert_true(jwt_open(token, &key, &got));
    assert_string_equal(got.sub, claims_of().sub);
    assert_string_equal(got.jti, claims_of().jti);
    assert_int_equal(got.iat_s, 1800000000);
    assert_int_equal(got.exp_s, 1800000900);
    assert_int_equal(got.stamp, 77);
}

/* Made by another program: the signature is HMAC-SHA-256 as everybody computes it. */
static void test_token_known(void **state)
{
    static const char known[] =
        "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCIsImtpZCI6IjAxMjM0NTY3ODlhYmNkZWYifQ."
        "eyJpc3MiOiJnbG92ZWJveCIsImF1ZCI6Im1hcmsiLCJzdWIiOiIxMTExMTExMS0yMjIyLTQzMzMtODQ0NC01NTU1"
        "NTU1NTU1NTUiLCJpYXQiOjE4MDAwMDAwMDAsImV4cCI6MTgwMDAwMDkwMCwianRpIjoiNjY2NjY2NjYtNzc3Ny00"
        "ODg4LTg5OTktYWFhYWFhYWFhYWFhIiwic3RhbXAiOjc3fQ."
        "PNAq1mOtdzaHH5AuiwFJaPgJwLeH1hmfcmwZay6dm9U";
    char token[JWT_TOKEN_MAX];

    (void) state;
    make(token);
    assert_string_equal(token, known);
}

/* No byte of it can be changed, left out or added. */
static void test_token_every_byte(void **state)
{
    char token[JWT_TOKEN_MAX], changed[JWT_TOKEN_MAX + 8];
    struct jwt_claims got;
    size_t len;

    (void) state;
    make(token);
    len = strlen(token);
    for (size_t i = 0; i < len; i++) {
        static const char bytes[] = "A.Z0_-=+/ \n\"\x80";

        for (size_t b = 0; b + 1 < sizeof bytes; b++) {
            memcpy(changed, token, len + 1);
            changed[i] = bytes[b];
            if (changed[i] != token[i])
                assert_false(jwt_open(changed, &key, &got));
        }
        memcpy(changed, token, i);
        changed[i] = '\0';
        assert_false(jwt_open(changed, &key, &got));
        memcpy(changed + i, token + i + 1, len - i);
        assert_false(jwt_open(changed, &key, &got));
        changed[i] = 'A';
        memcpy(changed + i + 1, token + i, len + 1 - i);
        assert_false(jwt_open(changed, &key, &got));
    }
}

/* A token with any header and claims, signed with our key if @mac says so. */
static void forge(const char *header, const char *text, bool mac, char token[2048])
{
    uint8_t hash[crypto_auth_hmacsha256_BYTES];
    size_t used;

    sodium_bin2base64(token, 1024, (const uint8_t *) header, strlen(header), VARIANT);
    used = strlen(token);
    token[used++] = '.';
    sodium_bin2base64(token + used, 1024, (const uint8_t *) text, strlen(text), VARIANT);
    used += strlen(token + used);
    crypto_auth_hmacsha256(hash, (const uint8_t *) token, used, key.secret);
    token[used++] = '.';
    token[used] = '\0';
    if (mac)
        sodium_bin2base64(token + used, 64, hash, sizeof hash, VARIANT);
}

#define HEADER "{\"alg\":\"HS256\",\"typ\":\"JWT\",\"kid\":\"0123456789abcdef\"}"
#define ID     "11111111-2222-4333-8444-555555555555"
#define CLAIMS                                                                                     \
    "{\"iss\":\"glovebox\",\"aud\":\"mark\",\"sub\":\"" ID "\",\"iat\":1,\"exp\":2,\"jti\":\"" ID  \
    "\",\"stamp\":3}"

static void test_token_forged(void **state)
{
    /* The last one is right, so it is the headers that are refused. */
    static const char *const headers[] = {
        "{\"alg\":\"none\",\"typ\":\"JWT\",\"kid\":\"0123456789abcdef\"}",
        "{\"alg\":\"None\",\"typ\":\"JWT\"}",
        "{\"alg\":\"none\"}",
        "{\"alg\":\"HS512\",\"typ\":\"JWT\",\"kid\":\"0123456789abcdef\"}",
        "{\"alg\":\"RS256\",\"typ\":\"JWT\",\"kid\":\"0123456789abcdef\"}",
        "{\"typ\":\"JWT\",\"alg\":\"HS256\",\"kid\":\"0123456789abcdef\"}",
        "{\"alg\":\"HS256\",\"typ\":\"JWT\",\"kid\":\"0123456789ABCDEF\"}",
        "{\"alg\":\"HS256\",\"typ\":\"JWT\",\"kid\":\"../../../../etc/x\"}",
        "{\"alg\":\"HS256\",\"typ\":\"JWT\",\"kid\":\"fedcba9876543210\"}",
        "{\"alg\":\"HS256\",\"typ\":\"JWT\",\"kid\":\"0123456789abcdef\",\"jku\":\"http://x\"}",
        "{\"alg\":\"HS256\",\"typ\":\"JWT\"}",
        "",
        HEADER,
    };
    struct jwt_claims got;
    char token[2048];

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(headers); i++) {
        bool right = i + 1 == ARRAY_LEN(headers);

        forge(headers[i], CLAIMS, true, token);
        assert_int_equal(jwt_open(token, &key, &got), right);
        forge(headers[i], CLAIMS, false, token);
        assert_false(jwt_open(token, &key, &got));
    }
}

static void test_token_claims(void **state)
{
    static const char *const bad[] = {
        "",
        "{}",
        "[]",
        "null",
        "{",
        "\"\"",
        "{\"iss\":\"other\",\"aud\":\"mark\",\"sub\":\"" ID "\",\"iat\":1,\"exp\":2,\"jti\":\"" ID
        "\",\"stamp\":3}",
        "{\"iss\":\"glovebox\",\"aud\":\"x\",\"sub\":\"" ID "\",\"iat\":1,\"exp\":2,\"jti\":\"" ID
        "\",\"stamp\":3}",
        "{\"iss\":\"glovebox\",\"aud\":[\"mark\"],\"sub\":\"" ID
        "\",\"iat\":1,\"exp\":2,\"jti\":\"" ID "\",\"stamp\":3}",
        "{\"iss\":\"glovebox\",\"aud\":\"mark\",\"sub\":\"../x\",\"iat\":1,\"exp\":2,\"jti\":\"" ID
        "\",\"stamp\":3}",
        "{\"iss\":\"glovebox\",\"aud\":\"mark\",\"sub\":\"" ID "\",\"iat\":1,\"jti\":\"" ID
        "\",\"stamp\":3}",
        "{\"iss\":\"glovebox\",\"aud\":\"mark\",\"sub\":\"" ID
        "\",\"iat\":1,\"exp\":1e99,\"jti\":\"" ID "\",\"stamp\":3}",
        "{\"iss\":\"glovebox\",\"aud\":\"mark\",\"sub\":\"" ID
        "\",\"iat\":-1,\"exp\":2,\"jti\":\"" ID "\",\"stamp\":3}",
        "{\"iss\":\"glovebox\",\"aud\":\"mark\",\"sub\":\"" ID
        "\",\"iat\":1,\"exp\":2,\"exp\":9,\"jti\":\"" ID "\",\"stamp\":3}",
        "{\"iss\":\"glovebox\",\"aud\":\"mark\",\"sub\":\"" ID
        "\",\"iat\":1,\"exp\":2,\"jti\":\"" ID "\",\"stamp\":3,\"more\":1}",
    };
    struct jwt_claims got = { .stamp = 5 };
    char token[2048];

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        assert_false(jwt_read_claims(bad[i], strlen(bad[i]), &got));
        forge(HEADER, bad[i], true, token);
        assert_false(jwt_open(token, &key, &got));
    }
    assert_int_equal(got.stamp, 5);
    assert_true(jwt_read_claims(CLAIMS, sizeof CLAIMS - 1, &got));
}

static void test_token_too_long(void **state)
{
    autofree char *token = malloc(1 << 20);
    struct jwt_claims got;
    char kid[JWT_KID_LEN + 1];

    (void) state;
    assert_non_null(token);
    memset(token, 'a', 1 << 20);
    token[(1 << 20) - 1] = '\0';
    assert_false(jwt_kid(token, kid));
    memset(token, '.', (1 << 20) - 1);
    assert_false(jwt_kid(token, kid));
    assert_false(jwt_open("", &key, &got));
    assert_false(jwt_open("..", &key, &got));
    assert_false(jwt_open("...", &key, &got));
}

/* ---- signing keys ---- */

struct fixture {
    char dir[64], file[128];
    struct gb_err err;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);

    assert_non_null(f);
    snprintf(f->dir, sizeof f->dir, "/tmp/gbtest-ring-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    snprintf(f->file, sizeof f->file, "%s/mark/signing-keys.json", f->dir);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    static const char *const names[] = { "mark/signing-keys.json", "mark/signing-keys.lock",
                                         "mark" };
    struct fixture *f = *state;
    char path[128];

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        snprintf(path, sizeof path, "%s/%s", f->dir, names[i]);
        (void) remove(path);
    }
    assert_int_equal(rmdir(f->dir), 0);
    free(f);
    return 0;
}

static struct ring *open_ring(struct fixture *f)
{
    struct ring *ring = NULL;

    if (ring_open(f->dir, 100 * SECOND, 20 * SECOND, &ring, &f->err) < 0)
        fail_msg("%s", f->err.msg);
    return ring;
}

static struct jwt_key current(struct fixture *f, struct ring *ring, int64_t after)
{
    struct jwt_key got;

    if (ring_current(ring, NOW + after * SECOND, &got, &f->err) < 0)
        fail_msg("%s", f->err.msg);
    return got;
}

static bool finds(struct ring *ring, const struct jwt_key *wanted, int64_t after)
{
    struct jwt_key got;

    if (!ring_find(ring, wanted->kid, NOW + after * SECOND, &got))
        return false;
    assert_memory_equal(got.secret, wanted->secret, sizeof got.secret);
    return true;
}

static void test_ring(void **state)
{
    struct fixture *f = *state;
    struct ring *ring = open_ring(f), *other;
    struct jwt_key first, second;
    struct stat st;

    assert_int_equal(access(f->file, F_OK), -1); /* not before it is needed */
    first = current(f, ring, 0);
    assert_int_equal(stat(f->file, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0600);
    assert_string_equal(current(f, ring, 99).kid, first.kid);
    second = current(f, ring, 100);
    assert_string_not_equal(second.kid, first.kid);
    assert_true(sodium_memcmp(second.secret, first.secret, sizeof first.secret) != 0);
    /* the older one is good for the tokens that it signed, and no longer */
    assert_true(finds(ring, &first, 119));
    assert_false(finds(ring, &first, 120));
    assert_true(finds(ring, &second, 120));
    ring_close(ring);

    other = open_ring(f); /* they stay */
    assert_true(finds(other, &first, 119));
    assert_string_equal(current(f, other, 119).kid, second.kid);
    ring_close(other);
    ring_close(NULL);
}

/* Two processes. */
static void test_ring_shared(void **state)
{
    struct fixture *f = *state;
    struct ring *one = open_ring(f), *two = open_ring(f);
    struct jwt_key first = current(f, one, 0), second;
    struct jwt_key unknown = { .kid = "0000000000000000" };

    assert_true(finds(two, &first, 0));
    assert_string_equal(current(f, two, 0).kid, first.kid);
    second = current(f, two, 100); /* it rotates, */
    assert_true(finds(one, &second, 100));
    assert_string_equal(current(f, one, 100).kid, second.kid); /* and the other takes that */
    assert_false(finds(one, &unknown, 100));
    ring_close(one);
    ring_close(two);
}

struct rotator {
    pthread_t thread;
    struct fixture *f;
    struct jwt_key key;
};

static void *rotate(void *arg)
{
    struct rotator *r = arg;
    struct ring *ring = open_ring(r->f);

    r->key = current(r->f, ring, 100);
    ring_close(ring);
    return NULL;
}

static void test_ring_race(void **state)
{
    struct fixture *f = *state;
    struct ring *ring = open_ring(f);
    struct jwt_key first = current(f, ring, 0);
    struct rotator rotators[8];

    for (size_t i = 0; i < ARRAY_LEN(rotators); i++) {
        rotators[i].f = f;
        assert_int_equal(pthread_create(&rotators[i].thread, NULL, rotate, &rotators[i]), 0);
    }
    for (size_t i = 0; i < ARRAY_LEN(rotators); i++)
        assert_int_equal(pthread_join(rotators[i].thread, NULL), 0);
    for (size_t i = 0; i < ARRAY_LEN(rotators); i++)
        assert_string_equal(rotators[i].key.kid, rotators[0].key.kid);
    assert_true(finds(ring, &first, 100));
    assert_true(finds(ring, &rotators[0].key, 100));
    ring_close(ring);
}

/* A clock that was wrong by years must not stop the rotation. */
static void test_ring_future(void **state)
{
    struct fixture *f = *state;
    struct ring *ring = open_ring(f);
    struct jwt_key late = current(f, ring, 400 * 86400), soon;

    soon = current(f, ring, 0);
    assert_string_not_equal(late.kid, soon.kid);
    assert_string_equal(current(f, ring, -50).kid, soon.kid);
    ring_close(ring);
}

static void write_file(struct fixture *f, const char *text, mode_t mode)
{
    int fd = open(f->file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t) strlen(text));
    assert_int_equal(fchmod(fd, mode), 0);
    assert_int_equal(close(fd), 0);
}

static void test_ring_bad_file(void **state)
{
    static const char *const bad[] = {
        "",
        "{",
        "[]",
        "{}",
        "{\"keys\": 1}",
        "{\"keys\": [1]}",
        "{\"keys\": [{\"kid\": \"x\"}]}",
        "{\"keys\": [{\"kid\": \"0123456789abcdef\", \"secret\": \"00\", \"created_us\": 1}]}",
        "[[[[[[[[[[",
    };
    struct fixture *f = *state;
    struct ring *ring = open_ring(f);

    (void) current(f, ring, 0);
    ring_close(ring);
    ring = NULL;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        write_file(f, bad[i], 0600);
        assert_int_equal(ring_open(f->dir, 1, 1, &ring, &f->err), -EUCLEAN);
        assert_non_null(strstr(f->err.msg, "remove the file"));
    }
    write_file(f, "{\"keys\": []}", 0640);
    assert_int_equal(ring_open(f->dir, 1, 1, &ring, &f->err), -EUCLEAN);
    write_file(f, "{\"keys\": []}", 0600);
    ring_close(open_ring(f));
    assert_null(ring);
}

/* Whoever cannot write the new key goes on with none instead of one that nobody else knows. */
static void test_ring_not_writable(void **state)
{
    struct fixture *f = *state;
    struct ring *ring = open_ring(f);
    struct jwt_key first = current(f, ring, 0), got;
    char part[160];

    snprintf(part, sizeof part, "%s.part", f->file);
    assert_int_equal(mkdir(part, 0700), 0);
    assert_true(ring_current(ring, NOW + 100 * SECOND, &got, &f->err) < 0);
    assert_true(finds(ring, &first, 100));
    assert_int_equal(rmdir(part), 0);
    assert_string_not_equal(current(f, ring, 100).kid, first.kid);
    ring_close(ring);
}

/* ---- throttles ---- */

static void test_throttle(void **state)
{
    autofree struct throttle *t = malloc(sizeof *t);

    (void) state;
    throttle_init(t, 3, 10 * SECOND);
    assert_false(throttle_used(t, "ada", NOW));
    for (int i = 0; i < 3; i++)
        assert_int_equal(throttle_take(t, "ada", NOW), 0);
    assert_true(throttle_used(t, "ada", NOW));
    assert_int_equal(throttle_take(t, "ada", NOW), 10 * SECOND);
    assert_int_equal(throttle_take(t, "ada", NOW + 4 * SECOND), 6 * SECOND);
    assert_int_equal(throttle_take(t, "bob", NOW), 0);
    assert_int_equal(throttle_take(t, "ada", NOW + 10 * SECOND), 0);
    assert_true(throttle_take(t, "ada", NOW + 10 * SECOND) > 0);
    throttle_give(t, "ada", NOW + 10 * SECOND);
    assert_int_equal(throttle_take(t, "ada", NOW + 10 * SECOND), 0);
    /* after a long time there are as many as at the start, and not more */
    for (int i = 0; i < 3; i++)
        assert_int_equal(throttle_take(t, "ada", NOW + 9000 * SECOND), 0);
    assert_true(throttle_take(t, "ada", NOW + 9000 * SECOND) > 0);
    /* a clock that goes back keeps nobody out for longer than an empty bucket does */
    assert_true(throttle_take(t, "ada", NOW) <= 10 * SECOND);
    throttle_release(t);
}

/* Names without number do not make it forget somebody who is throttled. */
static void test_throttle_flood(void **state)
{
    autofree struct throttle *t = malloc(sizeof *t);
    int out = 0;

    (void) state;
    throttle_init(t, 3, 10 * SECOND);
    while (throttle_take(t, "victim", NOW) == 0)
        ;
    for (int i = 0; i < 100000; i++) {
        char name[32];

        snprintf(name, sizeof name, "n%d", i);
        out += throttle_take(t, name, NOW) > 0;
    }
    assert_int_equal(out, 0); /* strangers are not affected */
    assert_true(throttle_take(t, "victim", NOW) > 0);
    throttle_release(t);
}

/* ---- rules ---- */

static void test_email(void **state)
{
    static const char *const good[] = {
        "a@b",   "ada@example.com", "a.b+c@x-y.example.co.uk", "o'neil@example.com",
        "1@2.3", "ADA@EXAMPLE.COM"
    };
    static const char *const bad[] = {
        "",
        "@",
        "a",
        "a@",
        "@b",
        "a b@c",
        "a@b c",
        "a@b..c",
        "a..b@c",
        ".a@b",
        "a.@b",
        "a@.b",
        "a@b.",
        "a@-b",
        "a@b-",
        "a@b-.c",
        "a@b_c",
        "a@b@c",
        "a\n@b",
        "a@b\n",
        "\"a b\"@c",
        "\xc3\xa4@b",
        "a@\xc3\xa4.de",
        "a@b\x01",
        " a@b",
        "a@b ",
        "a@[127.0.0.1]",
        "<a@b>",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa@b",
        "a@bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb",
    };
    char email[STORE_EMAIL_MAX], huge[5000];
    struct fault fault;

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(good); i++)
        assert_int_equal(email_normalise(good[i], email, &fault), 0);
    assert_string_equal(email, "ada@example.com");
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        if (email_normalise(bad[i], email, &fault) == 0)
            fail_msg("'%s' was accepted", bad[i]);
        assert_string_equal(fault.type, "email-malformed");
        assert_string_equal(fault.loc, "email");
    }
    memset(huge, 'a', sizeof huge);
    huge[1] = '@';
    for (size_t i = 10; i < sizeof huge; i += 10)
        huge[i] = '.';
    huge[sizeof huge - 1] = '\0';
    assert_true(email_normalise(huge, email, &fault) < 0);
}

static void test_password(void **state)
{
    static const char *const good[] = { "correct horse battery", "8 bytes!",
                                        "p\xc3\xa4ssw\xc3\xb6rter", "ada@example.org" };
    static const char *const bad[] = {
        "",         "short 7",      "password",        "PassWord1",
        "12345678", "aaaaaaaaaaaa", "ADA@example.com", "not utf-8 \xff\xfe"
    };
    struct fault fault;
    char huge[1026];

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(good); i++)
        assert_int_equal(password_check(good[i], "ada@example.com", &fault), 0);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        if (password_check(bad[i], "ada@example.com", &fault) == 0)
            fail_msg("'%s' was accepted", bad[i]);
        assert_string_equal(fault.type, "password-weak");
    }
    memset(huge, 'a', sizeof huge);
    huge[0] = 'b';
    huge[1025] = '\0';
    assert_true(password_check(huge, "a@b", &fault) < 0);
    huge[1024] = '\0';
    assert_int_equal(password_check(huge, "a@b", &fault), 0);
}

static void test_hash(void **state)
{
    struct hasher old, hasher;
    char hash[STORE_PASSWORD_MAX], other[STORE_PASSWORD_MAX], again[STORE_PASSWORD_MAX];
    struct fault fault;
    bool right;

    (void) state;
    hasher_init(&old, 8192, 1);
    hasher_init(&hasher, 16384, 2);
    assert_int_equal(hasher_make(&old, "correct horse", hash, &fault), 0);
    assert_int_equal(hasher_make(&old, "correct horse", other, &fault), 0);
    assert_non_null(strstr(hash, "$argon2id$"));
    assert_null(strstr(hash, "correct"));
    assert_string_not_equal(hash, other); /* salted */
    assert_int_equal(hasher_check(&old, "correct horse", hash, &right, again, &fault), 0);
    assert_true(right);
    assert_string_equal(again, "");
    assert_int_equal(hasher_check(&old, "correct hors", hash, &right, again, &fault), 0);
    assert_false(right);
    assert_int_equal(hasher_check(&old, "", NULL, &right, again, &fault), 0);
    assert_false(right);
    /* one of an older release is made again with what is right now */
    assert_int_equal(hasher_check(&hasher, "correct horse", hash, &right, again, &fault), 0);
    assert_true(right);
    assert_non_null(strstr(again, "m=16,t=2"));
    assert_int_equal(hasher_check(&hasher, "correct horse", again, &right, other, &fault), 0);
    assert_true(right);
    assert_string_equal(other, "");
    assert_int_equal(hasher_check(&hasher, "x", "not a hash", &right, again, &fault), 0);
    assert_false(right);
    hasher_release(&old);
    hasher_release(&hasher);
}

/* As many as may wait, and one more. */
struct crowd {
    pthread_t thread;
    struct hasher *hasher;
    int r;
};

static void *hash_once(void *arg)
{
    struct crowd *c = arg;
    char hash[STORE_PASSWORD_MAX];
    struct fault fault = { 0 };

    c->r = hasher_make(c->hasher, "correct horse", hash, &fault);
    if (c->r < 0)
        c->r = fault.problem == PROBLEM_BUSY && fault.retry_after_s > 0 ? 1 : -1;
    return NULL;
}

static void test_hash_crowd(void **state)
{
    struct crowd crowd[80];
    struct hasher hasher;
    int served = 0, refused = 0;

    (void) state;
    hasher_init(&hasher, 8192, 1);
    (void) pthread_mutex_lock(&hasher.lock);
    hasher.running = 2; /* as if two took long */
    (void) pthread_mutex_unlock(&hasher.lock);
    for (size_t i = 0; i < ARRAY_LEN(crowd); i++) {
        crowd[i] = (struct crowd){ .hasher = &hasher };
        assert_int_equal(pthread_create(&crowd[i].thread, NULL, hash_once, &crowd[i]), 0);
    }
    for (;;) { /* until all that may wait do */
        int waiting;

        (void) pthread_mutex_lock(&hasher.lock);
        waiting = hasher.waiting;
        (void) pthread_mutex_unlock(&hasher.lock);
        if (waiting == 64)
            break;
        (void) usleep(1000);
    }
    (void) pthread_mutex_lock(&hasher.lock);
    hasher.running = 0;
    (void) pthread_cond_broadcast(&hasher.freed);
    (void) pthread_mutex_unlock(&hasher.lock);
    for (size_t i = 0; i < ARRAY_LEN(crowd); i++) {
        assert_int_equal(pthread_join(crowd[i].thread, NULL), 0);
        assert_true(crowd[i].r >= 0);
        served += crowd[i].r == 0;
        refused += crowd[i].r == 1;
    }
    assert_true(served >= 64);
    assert_int_equal(served + refused, ARRAY_LEN(crowd));
    assert_int_equal(hasher.running, 0);
    assert_int_equal(hasher.waiting, 0);
    hasher_release(&hasher);
}

#define WITH_DIR(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_token),
        cmocka_unit_test(test_token_known),
        cmocka_unit_test(test_token_every_byte),
        cmocka_unit_test(test_token_forged),
        cmocka_unit_test(test_token_claims),
        cmocka_unit_test(test_token_too_long),
        WITH_DIR(test_ring),
        WITH_DIR(test_ring_shared),
        WITH_DIR(test_ring_race),
        WITH_DIR(test_ring_future),
        WITH_DIR(test_ring_bad_file),
        WITH_DIR(test_ring_not_writable),
        cmocka_unit_test(test_throttle),
        cmocka_unit_test(test_throttle_flood),
        cmocka_unit_test(test_email),
        cmocka_unit_test(test_password),
        cmocka_unit_test(test_hash),
        cmocka_unit_test(test_hash_crowd),
    };

    if (sodium_init() < 0)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
