/* Data sources: who may make and use them, what is refused, and where secrets are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/text/strv.h"
#include "mark/source/sources.h"
#include "mark/source/url.h"
#include "mark/source/vault.h"
#include "store/users.h"

#include "store_harness.h"

#include "base/banned.h"

#define SECRET "s3cret & quoted \"x\""

struct fixture {
    char dir[64];
    struct store *store;
    struct sources *sources;
    struct caller local, ann, bob, key; /* ann is an operator */
    struct fault fault;
    struct gb_err err;
};

static void add_user(struct fixture *f, const char *id, struct caller *caller)
{
    struct store_user user = { .created_us = 1, .valid_from_us = 1 };
    bool is_operator;

    snprintf(user.id, sizeof user.id, "%s", id);
    snprintf(user.email, sizeof user.email, "%s@example.com", id);
    snprintf(user.password, sizeof user.password, "x");
    assert_int_equal(store_user_add(f->store, &user, NULL, &is_operator, &f->err), 0);
    assert_int_equal(principal_from_user(id, &caller->principal), 0);
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    struct sources_config config = { 0 };

    assert_non_null(f);
    snprintf(f->dir, sizeof f->dir, "/tmp/gbtest-sources-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    f->store = harness_open(f->dir);
    config.store = f->store;
    config.data_dir = f->dir;
    assert_int_equal(sources_open(&config, &f->sources, &f->err), 0);
    add_user(f, "ann", &f->ann);
    add_user(f, "bob", &f->bob);
    assert_int_equal(principal_from_key("abc123", &f->key.principal), 0);
    *state = f;
    return 0;
}

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void) st;
    (void) type;
    (void) ftw;
    return remove(path);
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    sources_close(f->sources);
    store_close(f->store);
    assert_int_equal(nftw(f->dir, remove_entry, 8, FTW_DEPTH | FTW_PHYS), 0);
    free(f);
    return 0;
}

static json_t *body_of(const char *text)
{
    json_error_t error;
    json_t *json = json_loads(text, JSON_ALLOW_NUL, &error);

    if (!json)
        fail_msg("%s: %s", error.text, text);
    return json;
}

static void add(struct fixture *f, const char *text)
{
    json_t *body = body_of(text), *json = NULL;

    if (source_add(f->sources, &f->ann, body, &json, &f->fault) < 0)
        fail_msg("%s", f->fault.detail);
    json_decref(body);
    json_decref(json);
}

/* What it is refused with. */
static enum problem refused(struct fixture *f, const struct caller *caller, const char *text)
{
    json_t *body = body_of(text), *json = NULL;
    int r = source_add(f->sources, caller, body, &json, &f->fault);

    json_decref(body);
    json_decref(json);
    if (r == 0)
        fail_msg("accepted: %s", text);
    assert_null(strstr(f->fault.detail, "s3cret"));
    assert_null(strstr(f->fault.loc, "s3cret"));
    return f->fault.problem;
}

/* NULL and f->fault, or the grant. */
static json_t *grant_order(struct fixture *f, const struct caller *caller, const char *name)
{
    struct grant grant;
    json_t *copy;

    if (source_grant(f->sources, caller, name, &grant, &f->fault) < 0)
        return NULL;
    copy = json_deep_copy(grant.order);
    grant_release(&grant);
    return copy;
}

static const char *text_at(const json_t *json, const char *a, const char *b)
{
    return json_string_value(json_object_get(json_object_get(json, a), b));
}

#define PG                                                                                         \
    "\"name\":\"shop\",\"kind\":\"postgresql\",\"url\":\"postgresql://mark@db.example.com/shop\""

/* ---- addresses ---- */

static void test_urls(void **state)
{
    static const struct {
        const char *url, *host, *user, *dbname, *password, *sslmode;
        int port;
    } cases[] = {
        { "postgresql://u@h.example/d", "h.example", "u", "d", NULL, "verify-full", 5432 },
        { "postgres://u:p%40%2F%3A@h:6543/d?sslmode=verify-ca", "h", "u", "d", "p@/:", "verify-ca",
          6543 },
        { "postgresql://u@[::1]:5433/d", "::1", "u", "d", NULL, "prefer", 5433 },
        { "postgresql://u@[2001:db8::7]/d", "2001:db8::7", "u", "d", NULL, "verify-full", 5432 },
        { "postgresql://u@%2Fvar%2Frun%2Fpg/d", "/var/run/pg", "u", "d", NULL, "prefer", 5432 },
        { "postgresql:///d?host=/tmp&user=u&port=99", "/tmp", "u", "d", NULL, "prefer", 99 },
        { "postgresql://u@localhost", "localhost", "u", "u", NULL, "prefer", 5432 },
        { "postgresql://u:a%20b@127.0.0.9:1/d%20x?sslmode=disable", "127.0.0.9", "u", "d x", "a b",
          "disable", 1 },
        { "postgresql://u:@h/d", "h", "u", "d", NULL, "verify-full", 5432 },
        { "postgresql://us%40er:p@h/d", "h", "us@er", "d", "p", "verify-full", 5432 },
    };
    struct fault fault;

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct pg_url url;

        if (pg_url_parse(cases[i].url, &url, &fault) < 0)
            fail_msg("%s: %s", cases[i].url, fault.detail);
        assert_string_equal(url.host, cases[i].host);
        assert_string_equal(url.user, cases[i].user);
        assert_string_equal(url.dbname, cases[i].dbname);
        assert_string_equal(url.sslmode, cases[i].sslmode);
        assert_int_equal(url.port, cases[i].port);
        if (cases[i].password)
            assert_string_equal(url.password, cases[i].password);
        else
            assert_null(url.password);
        pg_url_release(&url);
    }
}

static void test_bad_urls(void **state)
{
    static const char *const cases[] = {
        "",
        "postgresql",
        "mysql://u@h/d",
        "host=h dbname=d",
        "postgresql://",
        "postgresql://h/d",
        "postgresql://@h/d",
        "postgresql://u@/d",
        "postgresql://u@h,g/d",
        "postgresql://u@h:0/d",
        "postgresql://u@h:65536/d",
        "postgresql://u@h:x/d",
        "postgresql://u@h:5432x/d",
        "postgresql://u@[::1/d",
        "postgresql://u@[::1]x/d",
        "postgresql://u@[1.2.3.4]/d",
        "postgresql://u:p%@h/d",
        "postgresql://u:p%00@h/d",
        "postgresql://u:p%zz@h/d",
        "postgresql://u%0a@h/d",
        "postgresql://u@h/d%01",
        "postgresql://u@h/\xff",
        "postgresql://u@h /d",
        "postgresql://u@h/d#x",
        "postgresql://u@-h/d",
        "postgresql://u@h%2Fx/d",
        "postgresql://u@h;g/d",
        "postgresql://u@h'g/d",
        "postgresql://u@h/d?",
        "postgresql://u@h/d?x",
        "postgresql://u@h/d?sslmode=",
        "postgresql://u@h/d?sslmode=verify",
        "postgresql://u@h/d?host=g",
        "postgresql://u@h/d?options=-crole%3Dpostgres",
        "postgresql://u@h/d?passfile=/etc/passwd",
        "postgresql://u@h/d?sslkey=/etc/key",
        "postgresql://u@h/d?service=x",
        "postgresql://u@h/d?connect_timeout=0",
        "postgresql://u@h/d?connect_timeout=9999",
    };
    static const char *const weak[] = {
        "postgresql://u@h/d?sslmode=require",
        "postgresql://u@h/d?sslmode=disable",
        "postgresql://u@h/d?sslmode=prefer",
        "postgresql://u@128.0.0.1/d?sslmode=allow",
        "postgresql://u@localhost.evil/d?sslmode=disable",
        "postgresql://u@127.0.0.1.evil/d?sslmode=disable",
        "postgresql://u@[::2]/d?sslmode=require",
    };
    struct fault fault;
    struct pg_url url;

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        if (strcmp(cases[i], "postgresql://u@h/d?") == 0)
            continue; /* nothing after the mark is no parameter */
        if (pg_url_parse(cases[i], &url, &fault) == 0)
            fail_msg("accepted: %s", cases[i]);
        assert_int_equal(fault.problem, PROBLEM_SOURCE_MALFORMED);
    }
    for (size_t i = 0; i < ARRAY_LEN(weak); i++) {
        if (pg_url_parse(weak[i], &url, &fault) == 0)
            fail_msg("accepted: %s", weak[i]);
        assert_int_equal(fault.problem, PROBLEM_SOURCE_WEAK);
    }
}

/* ---- the vault ---- */

static void test_vault(void **state)
{
    struct fixture *f = *state;
    autofree char *sealed = NULL, *again = NULL, *path = NULL;
    char *plain = NULL;
    struct stat st;

    assert_int_equal(vault_seal(f->dir, "a", SECRET, &sealed, &f->err), 0);
    assert_int_equal(vault_seal(f->dir, "a", SECRET, &again, &f->err), 0);
    assert_string_not_equal(sealed, again);
    assert_null(strstr(sealed, "s3cret"));
    assert_int_equal(vault_open(f->dir, "a", sealed, &plain, &f->err), 0);
    assert_string_equal(plain, SECRET);
    vault_wipe(plain);
    assert_int_equal(vault_open(f->dir, "b", sealed, &plain, &f->err), -EBADMSG);
    sealed[strlen(sealed) - 3] ^= 1;
    assert_int_equal(vault_open(f->dir, "a", sealed, &plain, &f->err), -EBADMSG);
    assert_int_equal(vault_open(f->dir, "a", "v1.", &plain, &f->err), -EBADMSG);
    assert_int_equal(vault_open(f->dir, "a", "rubbish", &plain, &f->err), -EBADMSG);

    assert_true(asprintf(&path, "%s/mark/source.key", f->dir) > 0);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_int_equal(chmod(path, 0640), 0);
    assert_int_equal(vault_open(f->dir, "a", again, &plain, &f->err), -EPERM);
    assert_int_equal(chmod(path, 0600), 0);
    assert_int_equal(truncate(path, 10), 0);
    assert_int_equal(vault_open(f->dir, "a", again, &plain, &f->err), -EUCLEAN);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(vault_open(f->dir, "a", again, &plain, &f->err), -EKEYREJECTED);

    /* another key: the text says so, instead of calling the password damaged */
    free(TAKE_PTR(sealed));
    assert_int_equal(vault_seal(f->dir, "a", "x", &sealed, &f->err), 0);
    assert_int_equal(vault_open(f->dir, "a", again, &plain, &f->err), -EKEYREJECTED);
    assert_non_null(strstr(f->err.msg, "another key"));
}

/* ---- making ---- */

static void test_add(void **state)
{
    struct fixture *f = *state;
    json_t *body = body_of("{" PG ",\"password\":\"s3cret\",\"description\":\"The shop\","
                           "\"limits\":{\"rows\":1000,\"cost\":5}}"),
           *json = NULL, *order;
    autofree char *shown = NULL;

    assert_int_equal(source_add(f->sources, &f->ann, body, &json, &f->fault), 0);
    assert_null(strstr(json_string_value(json_object_get(body, "password")), "s3cret"));
    shown = json_dumps(json, 0);
    assert_null(strstr(shown, "s3cret"));
    assert_true(json_is_true(json_object_get(json, "has_secret")));
    assert_string_equal(text_at(json, "settings", "host"), "db.example.com");
    json_decref(body);
    json_decref(json);

    order = grant_order(f, &f->bob, "shop");
    assert_string_equal(text_at(order, "source", "password"), "s3cret");
    assert_string_equal(text_at(order, "source", "user"), "mark");
    assert_string_equal(text_at(order, "source", "sslmode"), "verify-full");
    assert_int_equal(json_integer_value(json_object_get(json_object_get(order, "limits"), "rows")),
                     1000);
    json_decref(order);
}

/* In the URL it is taken out, and found nowhere in the directory but sealed. */
static void test_no_secret_at_rest(void **state)
{
    struct fixture *f = *state;
    autofree char *command = NULL;

    add(f, "{\"name\":\"shop\",\"kind\":\"postgresql\",\"url\":"
           "\"postgresql://mark:s3cretword@localhost/shop\",\"access\":["
           "{\"who\":\"bob@example.com\",\"login\":\"bob\",\"password\":\"s3cretother\"}]}");
    assert_true(asprintf(&command, "grep -rq s3cret %s", f->dir) > 0);
    assert_int_not_equal(system(command), 0); /* NOLINT(cert-env33-c): a fixed command */
}

static void test_bad_bodies(void **state)
{
    static const char *const cases[] = {
        "[]",
        "{}",
        "{\"name\":\"shop\",\"kind\":\"oracle\",\"url\":\"x\"}",
        "{\"name\":\"shop\",\"kind\":5}",
        "{\"kind\":\"postgresql\",\"url\":\"postgresql://u@localhost/d\"}",
        "{\"name\":\"Shop\",\"kind\":\"postgresql\",\"url\":\"postgresql://u@localhost/d\"}",
        "{\"name\":\"a\\u0000b\",\"kind\":\"postgresql\",\"url\":\"postgresql://u@localhost/d\"}",
        "{\"name\":\"shop\",\"kind\":\"postgresql\"}",
        "{\"name\":\"shop\",\"kind\":\"postgresql\",\"url\":7}",
        "{" PG ",\"nonsense\":\"s3cret\"}",
        "{" PG ",\"credentials\":{}}",
        "{" PG ",\"directory\":\"/usr/share\"}",
        "{" PG ",\"password\":{\"a\":\"s3cret\"}}",
        "{" PG ",\"ca\":\"not a certificate\"}",
        "{" PG ",\"schemas\":[]}",
        "{" PG ",\"schemas\":\"public\"}",
        "{" PG ",\"schemas\":[\"\"]}",
        "{" PG ",\"schemas\":[\"a\\u0000b\"]}",
        "{" PG ",\"role\":\"none\"}",
        "{" PG ",\"role\":\"a\\nb\"}",
        "{" PG ",\"variables\":{\"role\":\"postgres\"}}",
        "{" PG ",\"variables\":{\"app.user\":\"{password}\"}}",
        "{" PG ",\"variables\":{\"app.user\":5}}",
        "{" PG ",\"variables\":{\"app.user; drop\":\"x\"}}",
        "{" PG ",\"variables\":{\".a\":\"x\"}}",
        "{" PG ",\"limits\":{\"rows\":0}}",
        "{" PG ",\"limits\":{\"rows\":99999999999}}",
        "{" PG ",\"limits\":{\"rows\":\"many\"}}",
        "{" PG ",\"limits\":{\"bytes_billed\":1}}",
        "{" PG ",\"limits\":{\"cost\":-1}}",
        "{" PG ",\"limits\":[]}",
        "{" PG ",\"samples\":\"yes\"}",
        "{" PG ",\"access\":{}}",
        "{" PG ",\"access\":[\"ann\"]}",
        "{" PG ",\"access\":[{}]}",
        "{" PG ",\"access\":[{\"who\":\"ann\"}]}",
        "{" PG ",\"access\":[{\"who\":\"key:\"}]}",
        "{" PG ",\"access\":[{\"who\":\"a@b\\u0000\"}]}",
        "{" PG ",\"access\":[{\"who\":\"*\"},{\"who\":\"*\"}]}",
        "{" PG ",\"access\":[{\"who\":\"A@b.c\"},{\"who\":\"a@B.c\"}]}",
        "{" PG ",\"access\":[{\"who\":\"*\",\"password\":\"s3cret\"}]}",
        "{" PG ",\"access\":[{\"who\":\"*\",\"s3cret\":\"s3cret\"}]}",
        "{" PG ",\"joins\":[{\"left\":\"a.b.c\"}]}",
        "{" PG ",\"examples\":[{\"sql\":\"select 1\"}]}",
        "{" PG ",\"examples\":[7]}",
        "{\"name\":\"bq\",\"kind\":\"bigquery\",\"project\":\"p\"}",
        "{\"name\":\"bq\",\"kind\":\"bigquery\",\"credentials\":{\"client_email\":\"a\"}}",
        "{\"name\":\"bq\",\"kind\":\"bigquery\",\"project\":\"p;x\",\"credentials\":{}}",
        "{\"name\":\"bq\",\"kind\":\"bigquery\",\"project\":\"p\",\"credentials\":\"s3cret\"}",
        "{\"name\":\"bq\",\"kind\":\"bigquery\",\"project\":\"p\",\"url\":\"http://evil/\","
        "\"credentials\":{\"client_email\":\"a\",\"private_key\":\"s3cret\"}}",
        "{\"name\":\"f\",\"kind\":\"files\"}",
        "{\"name\":\"f\",\"kind\":\"files\",\"directory\":\"data\"}",
        "{\"name\":\"f\",\"kind\":\"files\",\"directory\":\"/nonexistent/dir\"}",
        "{\"name\":\"f\",\"kind\":\"files\",\"directory\":\"/etc/hostname\"}",
        "{\"name\":\"f\",\"kind\":\"files\",\"directory\":\"/usr/"
        "share\",\"access\":[{\"who\":\"*\","
        "\"role\":\"r\"}]}",
    };
    struct fixture *f = *state;
    json_t *json = NULL;

    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        assert_int_equal(refused(f, &f->ann, cases[i]), PROBLEM_SOURCE_MALFORMED);
    assert_int_equal(source_list(f->sources, &f->ann, &json, &f->fault), 0);
    assert_int_equal(json_array_size(json_object_get(json, "sources")), 0);
    json_decref(json);
}

static void test_operators_only(void **state)
{
    struct fixture *f = *state;
    json_t *body = body_of("{\"description\":\"x\"}"), *json = NULL;
    struct caller ghost = { 0 };

    assert_int_equal(refused(f, &f->bob, "{" PG "}"), PROBLEM_NOT_OPERATOR);
    assert_int_equal(refused(f, &f->key, "{" PG "}"), PROBLEM_NOT_OPERATOR);
    assert_int_equal(principal_from_user("gone", &ghost.principal), 0);
    assert_int_equal(refused(f, &ghost, "{" PG "}"), PROBLEM_TOKEN_INVALID);
    add(f, "{" PG "}");
    assert_int_equal(refused(f, &f->ann, "{" PG "}"), PROBLEM_SOURCE_TAKEN);
    assert_true(source_change(f->sources, &f->bob, "shop", body, &json, &f->fault) < 0);
    assert_int_equal(f->fault.problem, PROBLEM_NOT_OPERATOR);
    assert_true(source_remove(f->sources, &f->bob, "shop", &f->fault) < 0);
    assert_int_equal(f->fault.problem, PROBLEM_NOT_OPERATOR);
    assert_int_equal(source_remove(f->sources, &f->local, "shop", &f->fault), 0);
    assert_true(source_remove(f->sources, &f->ann, "shop", &f->fault) < 0);
    assert_int_equal(f->fault.problem, PROBLEM_SOURCE_UNKNOWN);
    json_decref(body);
}

/* ---- who may use it ---- */

static void test_access(void **state)
{
    struct fixture *f = *state;
    const char *const wanted[] = { "shop", NULL }, *const both[] = { "shop", "open", "shop", NULL };
    json_t *order, *json = NULL;
    char **names = NULL;

    add(f, "{" PG ",\"password\":\"own\",\"role\":\"reader\",\"variables\":{\"app.user\":"
           "\"<{email}|{key}>\"},\"access\":[{\"who\":\"Bob@example.com\",\"login\":\"bob\","
           "\"password\":\"s3cret\"},{\"who\":\"key:abc123\",\"role\":\"robot\"}]}");
    add(f, "{\"name\":\"open\",\"kind\":\"files\",\"directory\":\"/usr/share\"}");

    order = grant_order(f, &f->bob, "shop");
    assert_string_equal(text_at(order, "source", "user"), "bob");
    assert_string_equal(text_at(order, "source", "password"), "s3cret");
    assert_null(text_at(order, "source", "role")); /* the role is for the source's own login */
    json_decref(order);
    order = grant_order(f, &f->key, "shop");
    assert_string_equal(text_at(order, "source", "user"), "mark");
    assert_string_equal(text_at(order, "source", "password"), "own");
    assert_string_equal(text_at(order, "source", "role"), "robot");
    assert_string_equal(
        json_string_value(json_object_get(
            json_object_get(json_object_get(order, "source"), "variables"), "app.user")),
        "<|abc123>");
    json_decref(order);

    /* an operator sees it, but no row says that she may ask it */
    assert_int_equal(source_get(f->sources, &f->ann, "shop", &json, &f->fault), 0);
    assert_true(json_is_false(json_object_get(json, "usable")));
    json_decref(json);
    assert_null(grant_order(f, &f->ann, "shop"));
    assert_int_equal(f->fault.problem, PROBLEM_SOURCE_UNKNOWN);
    assert_int_equal(source_names(f->sources, &f->ann, NULL, &names, &f->fault), 0);
    assert_int_equal(strv_len((const char *const *) names), 1);
    assert_string_equal(names[0], "open");
    strv_free(names);
    assert_true(source_names(f->sources, &f->ann, wanted, &names, &f->fault) < 0);
    assert_int_equal(f->fault.problem, PROBLEM_SOURCE_UNKNOWN);
    assert_int_equal(source_names(f->sources, &f->bob, both, &names, &f->fault), 0);
    assert_int_equal(strv_len((const char *const *) names), 2);
    strv_free(names);

    /* whoever is not named does not see it, and cannot tell it from one that is not there */
    add(f,
        "{\"name\":\"hers\",\"kind\":\"files\",\"directory\":\"/usr/share\",\"access\":[{\"who\":"
        "\"ann@example.com\"}]}");
    assert_true(source_get(f->sources, &f->bob, "hers", &json, &f->fault) < 0);
    assert_int_equal(f->fault.problem, PROBLEM_SOURCE_UNKNOWN);
    assert_int_equal(source_get(f->sources, &f->bob, "shop", &json, &f->fault), 0);
    assert_null(json_object_get(json, "settings"));
    assert_null(json_object_get(json, "access"));
    json_decref(json);
}

static json_t *change(struct fixture *f, const char *text)
{
    json_t *body = body_of(text), *json = NULL;

    if (source_change(f->sources, &f->ann, "shop", body, &json, &f->fault) < 0)
        json = NULL;
    json_decref(body);
    return json;
}

static void test_change(void **state)
{
    struct fixture *f = *state;
    json_t *order;

    add(f, "{" PG ",\"password\":\"own\",\"access\":[{\"who\":\"bob@example.com\",\"login\":"
           "\"bob\",\"password\":\"s3cret\"}]}");
    json_decref(change(f, "{\"description\":\"New\",\"examples\":[{\"question\":\"How many?\"}]}"));

    /* passwords stay where nothing is said */
    json_decref(change(f, "{\"access\":[{\"who\":\"bob@example.com\",\"login\":\"bob\"},"
                          "{\"who\":\"*\"}]}"));
    order = grant_order(f, &f->bob, "shop");
    assert_string_equal(text_at(order, "source", "password"), "s3cret");
    json_decref(order);

    /* but never go to a server that they were not given for */
    assert_null(change(f, "{\"url\":\"postgresql://mark@evil.example/shop\"}"));
    assert_int_equal(f->fault.problem, PROBLEM_SOURCE_MALFORMED);
    assert_null(change(f, "{\"url\":\"postgresql://mark:x@evil.example/shop\"}"));
    assert_null(change(f, "{\"url\":\"postgresql://mark:x@evil.example/shop\",\"access\":["
                          "{\"who\":\"bob@example.com\",\"login\":\"bob\"}]}"));
    json_decref(change(f, "{\"url\":\"postgresql://mark@db.example.com/other\"}"));
    order = grant_order(f, &f->key, "shop");
    assert_string_equal(text_at(order, "source", "dbname"), "other");
    assert_string_equal(text_at(order, "source", "password"), "own");
    json_decref(order);

    assert_null(change(f, "{\"kind\":\"files\"}"));
    assert_null(change(f, "{\"nonsense\":1}"));
    assert_null(change(f, "{\"role\":\"\\u0007\"}"));
    json_decref(change(f, "{\"name\":\"renamed\"}"));
    assert_null(change(f, "{\"description\":\"x\"}"));
    assert_int_equal(f->fault.problem, PROBLEM_SOURCE_UNKNOWN);
}

/* A store without its key: everything but the secrets works, and the text says what is missing. */
static void test_moved_store(void **state)
{
    struct fixture *f = *state;
    autofree char *path = NULL;
    json_t *json = NULL;

    add(f, "{" PG ",\"password\":\"s3cret\"}");
    assert_true(asprintf(&path, "%s/mark/source.key", f->dir) > 0);
    assert_int_equal(unlink(path), 0);
    assert_null(grant_order(f, &f->bob, "shop"));
    assert_int_equal(f->fault.problem, PROBLEM_SOURCE_SEALED);
    assert_non_null(strstr(f->fault.detail, "source.key"));
    assert_int_equal(source_list(f->sources, &f->ann, &json, &f->fault), 0);
    json_decref(json);
    assert_int_equal(access(path, F_OK), -1); /* nothing that only reads makes a key */
    json_decref(change(f, "{\"password\":\"again\"}"));
    json = grant_order(f, &f->bob, "shop");
    assert_string_equal(text_at(json, "source", "password"), "again");
    json_decref(json);
}

/* ---- tables ---- */

static void sync_tables(struct fixture *f, const char *info)
{
    struct store_table table = { .name = "public.orders", .info = (char *) info };
    struct store_source source;

    assert_int_equal(store_source_get(f->store, "shop", &source, &f->err), 0);
    assert_int_equal(store_table_sync(f->store, source.id, &table, 1, 100, &f->err), 0);
    store_source_release(&source);
}

static json_t *edit(struct fixture *f, const struct caller *caller, const char *table,
                    const char *text)
{
    json_t *body = body_of(text), *json = NULL;

    if (source_table_change(f->sources, caller, "shop", table, body, &json, &f->fault) < 0)
        json = NULL;
    json_decref(body);
    return json;
}

#define INFO                                                                                       \
    "{\"kind\":\"table\",\"readable\":[\"mark\\n\"],\"columns\":[{\"name\":\"id\",\"type\":"       \
    "\"int\"},{\"name\":\"mail\",\"type\":\"text\",\"samples\":[\"eve@example.com\"]}]}"

static void test_notes(void **state)
{
    struct fixture *f = *state;
    json_t *json, *order, *column;

    add(f, "{" PG ",\"access\":[{\"who\":\"*\"},{\"who\":\"key:abc123\",\"role\":\"other\"}]}");
    sync_tables(f, INFO);
    json = edit(f, &f->ann, "public.orders",
                "{\"description\":\"All orders\",\"columns\":[{\"name\":\"id\",\"unit\":\"no\"},"
                "{\"name\":\"mail\",\"masked\":true}]}");
    assert_non_null(json);
    column = json_array_get(json_object_get(json, "columns"), 1);
    assert_true(json_is_true(json_object_get(column, "masked")));
    assert_null(json_object_get(column, "samples"));
    json_decref(json);

    /* what was sampled before is gone from the store too */
    json_decref(
        edit(f, &f->ann, "public.orders", "{\"columns\":[{\"name\":\"mail\",\"masked\":false}]}"));
    assert_int_equal(source_table(f->sources, &f->bob, "shop", "public.orders", &json, &f->fault),
                     0);
    assert_null(json_object_get(json_array_get(json_object_get(json, "columns"), 1), "samples"));
    json_decref(json);
    json_decref(
        edit(f, &f->ann, "public.orders", "{\"columns\":[{\"name\":\"mail\",\"masked\":true}]}"));
    order = grant_order(f, &f->bob, "shop");
    assert_int_equal(json_array_size(json_object_get(order, "masked")), 1);
    json_decref(order);

    /* a sync in which the column is away keeps note and mask */
    sync_tables(f,
                "{\"kind\":\"table\",\"readable\":[\"mark\\n\"],\"columns\":[{\"name\":\"id\"}]}");
    assert_int_equal(source_table(f->sources, &f->bob, "shop", "public.orders", &json, &f->fault),
                     0);
    assert_string_equal(json_string_value(json_object_get(json, "description")), "All orders");
    column = json_array_get(json_object_get(json, "columns"), 1);
    assert_true(json_is_true(json_object_get(column, "gone")));
    json_decref(json);
    order = grant_order(f, &f->bob, "shop");
    assert_int_equal(json_array_size(json_object_get(order, "masked")), 1);
    json_decref(order);

    /* with another role the table is not there */
    assert_true(source_table(f->sources, &f->key, "shop", "public.orders", &json, &f->fault) < 0);
    assert_int_equal(f->fault.problem, PROBLEM_TABLE_UNKNOWN);
    assert_int_equal(source_tables(f->sources, &f->key, "shop", NULL, &json, &f->fault), 0);
    assert_int_equal(json_array_size(json_object_get(json, "tables")), 0);
    json_decref(json);
    assert_int_equal(source_tables(f->sources, &f->bob, "shop", "ORDERS all", &json, &f->fault), 0);
    assert_int_equal(json_array_size(json_object_get(json, "tables")), 1);
    json_decref(json);
    assert_int_equal(source_tables(f->sources, &f->bob, "shop", "nothing", &json, &f->fault), 0);
    assert_int_equal(json_array_size(json_object_get(json, "tables")), 0);
    json_decref(json);
}

static void test_bad_notes(void **state)
{
    static const char *const cases[] = {
        "[]",
        "{\"masked\":true}",
        "{\"description\":5}",
        "{\"description\":\"a\\u0000b\"}",
        "{\"synonyms\":\"x\"}",
        "{\"synonyms\":[5]}",
        "{\"synonyms\":[\"\"]}",
        "{\"columns\":{}}",
        "{\"columns\":[{}]}",
        "{\"columns\":[{\"name\":\"none\"}]}",
        "{\"columns\":[{\"name\":\"id\",\"masked\":\"yes\"}]}",
        "{\"columns\":[{\"name\":\"id\",\"type\":\"text\"}]}",
    };
    struct fixture *f = *state;
    json_t *body = json_object(), *json = NULL, *columns = json_array();
    autofree char *large = malloc(4001);

    add(f, "{" PG "}");
    sync_tables(f, INFO);
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        if ((json = edit(f, &f->ann, "public.orders", cases[i])))
            fail_msg("accepted: %s", cases[i]);
        assert_int_equal(f->fault.problem, PROBLEM_SOURCE_MALFORMED);
    }
    assert_null(edit(f, &f->bob, "public.orders", "{}"));
    assert_int_equal(f->fault.problem, PROBLEM_NOT_OPERATOR);
    assert_null(edit(f, &f->ann, "public.none", "{}"));
    assert_int_equal(f->fault.problem, PROBLEM_TABLE_UNKNOWN);

    /* each text is short enough, all of them together are not */
    assert_non_null(large);
    memset(large, 'x', 4000);
    large[4000] = '\0';
    {
        autofree char *info = NULL;
        json_t *many = json_array();

        for (int i = 0; i < 100; i++) {
            char name[16];

            snprintf(name, sizeof name, "c%d", i);
            json_array_append_new(many, json_pack("{s:s}", "name", name));
            json_array_append_new(columns,
                                  json_pack("{s:s,s:s}", "name", name, "description", large));
        }
        json = json_pack("{s:o}", "columns", many);
        info = json_dumps(json, 0);
        json_decref(json);
        sync_tables(f, info);
    }
    json_object_set_new(body, "columns", columns);
    assert_true(source_table_change(f->sources, &f->ann, "shop", "public.orders", body, &json,
                                    &f->fault) < 0);
    assert_int_equal(f->fault.problem, PROBLEM_SOURCES_QUOTA);
    json_decref(body);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_urls),
        cmocka_unit_test(test_bad_urls),
        TEST(test_vault),
        TEST(test_add),
        TEST(test_no_secret_at_rest),
        TEST(test_bad_bodies),
        TEST(test_operators_only),
        TEST(test_access),
        TEST(test_change),
        TEST(test_moved_store),
        TEST(test_notes),
        TEST(test_bad_notes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
