/* What the tests of the store and of what stands on it share. Include after cmocka.h. */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "store/audit.h"

/* Opens the store in @dir; once more is as good as the first time. */
static inline struct store *harness_open(const char *dir)
{
    struct store_config config = { .dir = dir };
    struct store *store = NULL;
    struct gb_err err;

    if (store_open(&config, &store, &err) < 0)
        fail_msg("%s", err.msg);
    return store;
}

/* A store of its own for each test, in a directory that goes afterwards. */
struct harness_store {
    char dir[64];
    struct store *store;
    struct gb_err err;
};

static inline int harness_setup(void **state)
{
    struct harness_store *f = calloc(1, sizeof *f);

    assert_non_null(f);
    snprintf(f->dir, sizeof f->dir, "/tmp/gbtest-store-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    f->store = harness_open(f->dir);
    *state = f;
    return 0;
}

static inline int harness_teardown(void **state)
{
    static const char *const names[] = { "glovebox.db", "glovebox.db-wal", "glovebox.db-shm" };
    struct harness_store *f = *state;
    char path[128];

    store_close(f->store);
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        snprintf(path, sizeof path, "%s/%s", f->dir, names[i]);
        (void) unlink(path);
    }
    assert_int_equal(rmdir(f->dir), 0);
    free(f);
    return 0;
}

/* Entry @seq with a hash that its number tells, so that they follow each other. */
static inline struct store_audit harness_entry(int64_t seq, const char *session_id)
{
    static char fields[] = "{\"n\":1}";
    struct store_audit entry = { .seq = seq, .time_us = seq * 10, .fields = fields };

    snprintf(entry.session_id, sizeof entry.session_id, "%s", session_id);
    memset(entry.hash, (int) seq, sizeof entry.hash);
    memset(entry.prev, (int) seq - 1, sizeof entry.prev);
    return entry;
}

static inline void harness_append(struct store *store, int64_t from, int64_t to,
                                  const char *session_id)
{
    struct gb_err err;

    for (int64_t seq = from; seq <= to; seq++) {
        struct store_audit entry = harness_entry(seq, session_id);

        assert_int_equal(store_audit_append(store, &entry, 1, &err), 0);
    }
}
