/* The conformance suite of store/sources.h; see test_store.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "store/sources.h"

#include "store_harness.h"

#include "base/banned.h"

#define THREADS 4
#define EDITS   10

static char settings[] = "{\"host\":\"db\"}", sealed[] = "c2VhbGVk";
static const struct store_access everyone = { .who = "*" };

static struct store_source source_of(const char *id)
{
    struct store_source source = { .settings = settings, .created_us = 10, .updated_us = 10 };

    snprintf(source.id, sizeof source.id, "%s", id);
    snprintf(source.name, sizeof source.name, "%s_name", id);
    snprintf(source.kind, sizeof source.kind, "postgresql");
    return source;
}

static void add(struct harness_store *f, const char *id)
{
    struct store_source source = source_of(id);

    if (store_source_add(f->store, &source, &everyone, 1, &f->err) < 0)
        fail_msg("%s", f->err.msg);
}

static struct store_source get(struct harness_store *f, const char *id)
{
    struct store_source source;

    if (store_source_get(f->store, id, &source, &f->err) < 0)
        fail_msg("%s", f->err.msg);
    return source;
}

/* ---- sources ---- */

static void test_source(void **state)
{
    struct harness_store *f = *state;
    struct store_source source = source_of("a"), got = { .created_us = 7 };

    assert_int_equal(store_source_get(f->store, "a", &got, &f->err), -ENOENT);
    assert_int_equal(got.created_us, 7); /* not written */
    source.secret = sealed;
    assert_int_equal(store_source_add(f->store, &source, &everyone, 1, &f->err), 0);
    got = get(f, "a_name");
    assert_string_equal(got.id, "a");
    assert_string_equal(got.kind, "postgresql");
    assert_string_equal(got.settings, settings);
    assert_string_equal(got.secret, sealed);
    assert_null(got.notes);
    assert_null(got.sync_error);
    assert_int_equal(got.created_us, 10);
    assert_int_equal(got.synced_us, 0);
    store_source_release(&got);

    /* the same name, and the same id */
    source = source_of("b");
    snprintf(source.name, sizeof source.name, "a_name");
    assert_int_equal(store_source_add(f->store, &source, &everyone, 1, &f->err), -EEXIST);
    source = source_of("a");
    snprintf(source.name, sizeof source.name, "other");
    assert_int_equal(store_source_add(f->store, &source, &everyone, 1, &f->err), -EEXIST);

    assert_int_equal(store_source_delete(f->store, "a", &f->err), 0);
    assert_int_equal(store_source_delete(f->store, "a", &f->err), -ENOENT);
    assert_int_equal(store_source_get(f->store, "a", &got, &f->err), -ENOENT);
}

static void test_bad_source(void **state)
{
    static const char *const names[] = { "", "A", "1a", "a-b", "a b", "a;b", "\xc3\xa4", "_a" };
    struct harness_store *f = *state;
    struct store_source source = source_of("a"), got;
    autofree char *large = malloc(STORE_SETTINGS_MAX + 2);

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        source = source_of("a");
        snprintf(source.name, sizeof source.name, "%s", names[i]);
        assert_int_equal(store_source_add(f->store, &source, &everyone, 1, &f->err), -EINVAL);
    }
    source = source_of("a");
    snprintf(source.kind, sizeof source.kind, "oracle");
    assert_true(store_source_add(f->store, &source, &everyone, 1, &f->err) < 0);
    source = source_of("a");
    source.settings = NULL;
    assert_int_equal(store_source_add(f->store, &source, &everyone, 1, &f->err), -EINVAL);
    assert_non_null(large);
    memset(large, 'x', STORE_SETTINGS_MAX + 1);
    large[STORE_SETTINGS_MAX + 1] = '\0';
    source.settings = large;
    assert_int_equal(store_source_add(f->store, &source, &everyone, 1, &f->err), -EINVAL);
    large[1] = '\xff';
    large[2] = '\0';
    assert_int_equal(store_source_add(f->store, &source, &everyone, 1, &f->err), -EINVAL);
    assert_int_equal(store_source_get(f->store, "a_name", &got, &f->err), -ENOENT);
    assert_int_equal(store_source_get(f->store, "a' OR '1'='1", &got, &f->err), -EINVAL);
}

static void test_list(void **state)
{
    struct harness_store *f = *state;
    struct store_source *sources = NULL, more = source_of("more");
    size_t len = 7;

    assert_int_equal(store_source_list(f->store, &sources, &len, &f->err), 0);
    assert_int_equal(len, 0);
    store_sources_free(sources, len);
    for (int i = STORE_SOURCES_MAX; i > 0; i--) {
        char id[16];

        snprintf(id, sizeof id, "s%03d", i);
        add(f, id);
    }
    assert_int_equal(store_source_add(f->store, &more, &everyone, 1, &f->err), -EDQUOT);
    assert_int_equal(store_source_list(f->store, &sources, &len, &f->err), 0);
    assert_int_equal(len, STORE_SOURCES_MAX);
    assert_string_equal(sources[0].id, "s001");
    assert_string_equal(sources[len - 1].id, "s200");
    store_sources_free(sources, len);
}

static void test_update(void **state)
{
    static char notes[] = "{\"joins\":[]}";
    struct harness_store *f = *state;
    struct store_source source, got;

    add(f, "a");
    add(f, "b");
    source = source_of("a");
    source.notes = notes;
    source.updated_us = 20;
    snprintf(source.name, sizeof source.name, "renamed");
    assert_int_equal(store_source_update(f->store, &source, 10, NULL, 0, &f->err), 0);
    got = get(f, "renamed");
    assert_string_equal(got.notes, notes);
    assert_int_equal(got.updated_us, 20);
    store_source_release(&got);

    /* who has read it before that comes too late, and changes nothing */
    source.notes = NULL;
    assert_int_equal(store_source_update(f->store, &source, 10, NULL, 0, &f->err), -ESTALE);
    got = get(f, "a");
    assert_non_null(got.notes);
    store_source_release(&got);

    /* a clock that stands still does not hide a change */
    assert_int_equal(store_source_update(f->store, &source, 20, NULL, 0, &f->err), 0);
    got = get(f, "a");
    assert_true(got.updated_us > 20);
    source.updated_us = got.updated_us;
    store_source_release(&got);

    snprintf(source.name, sizeof source.name, "b_name");
    assert_int_equal(store_source_update(f->store, &source, source.updated_us, NULL, 0, &f->err),
                     -EEXIST);
    source = source_of("none");
    assert_int_equal(store_source_update(f->store, &source, 10, NULL, 0, &f->err), -ENOENT);
}

static void test_synced(void **state)
{
    struct harness_store *f = *state;
    struct store_source got;

    add(f, "a");
    assert_int_equal(store_source_synced(f->store, "a", 50, NULL, &f->err), 0);
    assert_int_equal(store_source_synced(f->store, "a", 60, "refused", &f->err), 0);
    got = get(f, "a");
    assert_int_equal(got.synced_us, 50); /* what there is is of then */
    assert_string_equal(got.sync_error, "refused");
    store_source_release(&got);
    assert_int_equal(store_source_synced(f->store, "a", 70, NULL, &f->err), 0);
    got = get(f, "a");
    assert_int_equal(got.synced_us, 70);
    assert_null(got.sync_error);
    store_source_release(&got);
    assert_int_equal(store_source_synced(f->store, "b", 70, NULL, &f->err), -ENOENT);
}

/* ---- access ---- */

static void test_access(void **state)
{
    struct harness_store *f = *state;
    struct store_access rows[] = {
        { .who = "key:abc", .role = "analyst" },
        { .who = "ann@example.com", .login = "ann", .secret = sealed },
    };
    struct store_access twice[] = { { .who = "*" }, { .who = "*" } };
    struct store_access *got = NULL;
    struct store_source source;
    size_t len = 0;

    add(f, "a");
    assert_int_equal(store_access_list(f->store, "a", &got, &len, &f->err), 0);
    assert_int_equal(len, 1);
    assert_string_equal(got[0].who, "*");
    assert_string_equal(got[0].role, "");
    assert_null(got[0].secret);
    store_access_free(got, len);

    source = source_of("a");
    assert_int_equal(store_source_update(f->store, &source, 10, rows, 2, &f->err), 0);
    assert_int_equal(store_access_list(f->store, "a", &got, &len, &f->err), 0);
    assert_int_equal(len, 2);
    assert_string_equal(got[0].who, "ann@example.com");
    assert_string_equal(got[0].login, "ann");
    assert_string_equal(got[0].secret, sealed);
    assert_string_equal(got[1].role, "analyst");
    store_access_free(got, len);

    /* all of it or nothing */
    source = get(f, "a");
    assert_int_equal(store_source_update(f->store, &source, source.updated_us, twice, 2, &f->err),
                     -EEXIST);
    store_source_release(&source);
    assert_int_equal(store_access_list(f->store, "a", &got, &len, &f->err), 0);
    assert_int_equal(len, 2);
    store_access_free(got, len);

    assert_int_equal(store_source_delete(f->store, "a", &f->err), 0);
    assert_int_equal(store_access_list(f->store, "a", &got, &len, &f->err), 0);
    assert_int_equal(len, 0);
    store_access_free(got, len);
}

/* ---- tables ---- */

static char info_a[] = "{\"columns\":[]}", info_b[] = "{\"columns\":[1]}";

static void sync_to(struct harness_store *f, const char *const *names, size_t len, char *info,
                    int64_t now_us)
{
    struct store_table tables[4] = { 0 };

    for (size_t i = 0; i < len; i++) {
        snprintf(tables[i].name, sizeof tables[i].name, "%s", names[i]);
        tables[i].info = info;
    }
    if (store_table_sync(f->store, "a", tables, len, now_us, &f->err) < 0)
        fail_msg("%s", f->err.msg);
}

static void test_tables(void **state)
{
    static const char *const first[] = { "public.orders", "public.people", "public.\"od'd\"" },
                             *const second[] = { "public.new" };
    struct harness_store *f = *state;
    struct store_table *tables = NULL, table;
    int64_t count = 0;
    size_t len = 0;

    add(f, "a");
    sync_to(f, first, 3, info_a, 100);
    assert_int_equal(
        store_table_set_notes(f->store, "a", first[0], NULL, "{\"unit\":\"EUR\"}", NULL, &f->err),
        0);

    /* the same moment, so that nothing can be told by the clock */
    sync_to(f, second, 1, info_b, 100);
    assert_int_equal(store_table_list(f->store, "a", false, &tables, &len, &f->err), 0);
    assert_int_equal(len, 1);
    assert_string_equal(tables[0].name, second[0]);
    store_tables_free(tables, len);
    assert_int_equal(store_table_list(f->store, "a", true, &tables, &len, &f->err), 0);
    assert_int_equal(len, 2); /* with notes: kept, without: forgotten */
    assert_string_equal(tables[1].name, first[0]);
    assert_int_equal(tables[1].gone_us, 100);
    store_tables_free(tables, len);

    assert_int_equal(store_table_noted(f->store, "a", &tables, &len, &f->err), 0);
    assert_int_equal(len, 1);
    assert_string_equal(tables[0].notes, "{\"unit\":\"EUR\"}");
    store_tables_free(tables, len);
    assert_int_equal(store_table_count(f->store, "a", &count, &f->err), 0);
    assert_int_equal(count, 1);

    /* it comes back, with its notes */
    sync_to(f, first, 3, info_b, 300);
    assert_int_equal(store_table_get(f->store, "a", first[0], &table, &f->err), 0);
    assert_int_equal(table.gone_us, 0);
    assert_string_equal(table.notes, "{\"unit\":\"EUR\"}");
    assert_string_equal(table.info, info_b);
    store_table_release(&table);
    assert_int_equal(store_table_get(f->store, "a", "public.x", &table, &f->err), -ENOENT);
    assert_int_equal(store_table_sync(f->store, "b", NULL, 0, 1, &f->err), -ENOENT);

    assert_int_equal(store_source_delete(f->store, "a", &f->err), 0);
    assert_int_equal(store_table_list(f->store, "a", true, &tables, &len, &f->err), 0);
    assert_int_equal(len, 0);
    store_tables_free(tables, len);
}

static void test_bad_tables(void **state)
{
    static const char *const names[] = { "public.orders" };
    struct harness_store *f = *state;
    struct store_table bad[] = { { .name = "fine", .info = info_a },
                                 { .name = "\xff", .info = info_a } };
    struct store_table *tables = NULL;
    autofree char *large = malloc(STORE_NOTES_MAX + 2);
    size_t len = 0;

    add(f, "a");
    sync_to(f, names, 1, info_a, 100);
    assert_int_equal(store_table_sync(f->store, "a", bad, 2, 200, &f->err), -EINVAL);
    bad[1].name[0] = '\0';
    assert_int_equal(store_table_sync(f->store, "a", bad, 2, 200, &f->err), -EINVAL);
    assert_int_equal(store_table_sync(f->store, "a", bad, STORE_TABLES_MAX + 1, 200, &f->err),
                     -EINVAL);
    assert_int_equal(store_table_list(f->store, "a", true, &tables, &len, &f->err), 0);
    assert_int_equal(len, 1); /* a sync that fails changes nothing */
    assert_string_equal(tables[0].name, names[0]);
    store_tables_free(tables, len);

    assert_non_null(large);
    memset(large, 'x', STORE_NOTES_MAX + 1);
    large[STORE_NOTES_MAX + 1] = '\0';
    assert_int_equal(store_table_set_notes(f->store, "a", names[0], NULL, large, NULL, &f->err),
                     -EINVAL);
    assert_int_equal(store_table_set_notes(f->store, "a", "none", NULL, "{}", NULL, &f->err),
                     -ENOENT);
    assert_int_equal(
        store_table_set_notes(f->store, "a", names[0], "{\"x\":1}", "{}", NULL, &f->err), -ESTALE);
}

/* Counts up in the notes, as an edit does: read, change, write, again if somebody was faster. */
static void *edit(void *arg)
{
    struct harness_store *f = arg;
    struct gb_err err;

    for (int i = 0; i < EDITS; i++) {
        char next[32];
        int r;

        do {
            struct store_table table;

            if (store_table_get(f->store, "a", "t", &table, &err) < 0)
                return "get";
            snprintf(next, sizeof next, "%ld", table.notes ? strtol(table.notes, NULL, 10) + 1 : 1);
            r = store_table_set_notes(f->store, "a", "t", table.notes, next, NULL, &err);
            store_table_release(&table);
        } while (r == -ESTALE);
        if (r < 0)
            return "set";
    }
    return NULL;
}

static void test_edits(void **state)
{
    static const char *const names[] = { "t" };
    struct harness_store *f = *state;
    pthread_t threads[THREADS];
    struct store_table table;

    add(f, "a");
    sync_to(f, names, 1, info_a, 1);
    for (size_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, edit, f), 0);
    for (size_t i = 0; i < THREADS; i++) {
        void *failed = NULL;

        assert_int_equal(pthread_join(threads[i], &failed), 0);
        assert_null(failed);
    }
    assert_int_equal(store_table_get(f->store, "a", "t", &table, &f->err), 0);
    assert_int_equal(strtol(table.notes, NULL, 10), THREADS * EDITS);
    store_table_release(&table);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, harness_setup, harness_teardown)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TEST(test_source), TEST(test_bad_source), TEST(test_list),
        TEST(test_update), TEST(test_synced),     TEST(test_access),
        TEST(test_tables), TEST(test_bad_tables), TEST(test_edits),
    };

    if (!harness_choose(argc, argv))
        return 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
