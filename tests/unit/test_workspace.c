/* What changed in a workspace, from hand-made pictures of it: whole ones, and broken ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "engine/supervisor/supervisor.h"

#include "base/banned.h"

#define FILES_MAX 8

struct file {
    const char *path; /* NULL ends a list */
    int64_t size, mtime_ns;
    uint64_t inode;
    uint32_t mode;
};

struct change {
    const char *path; /* NULL ends a list */
    enum file_change change;
    int64_t size;
};

/* Records follow each other without padding, as the builder writes them. */
static void snapshot_add(struct snapshot *snapshot, const struct file *file)
{
    struct scan_record record = { .size = file->size,
                                  .mtime_ns = file->mtime_ns,
                                  .inode = file->inode,
                                  .mode = file->mode,
                                  .path_len = (uint32_t) strlen(file->path) };
    char *data = realloc(snapshot->data, snapshot->len + sizeof record + record.path_len);

    assert_non_null(data);
    memcpy(data + snapshot->len, &record, sizeof record);
    memcpy(data + snapshot->len + sizeof record, file->path, record.path_len);
    snapshot->data = data;
    snapshot->len += sizeof record + record.path_len;
    snapshot->count++;
}

static struct snapshot snapshot_of(const struct file *files)
{
    struct snapshot snapshot = { 0 };

    for (; files->path; files++)
        snapshot_add(&snapshot, files);
    return snapshot;
}

static void files_free(struct file_entry *files, size_t len)
{
    for (size_t i = 0; i < len; i++)
        free(files[i].path);
    free(files);
}

static void assert_changes(const char *name, const struct snapshot *before,
                           const struct snapshot *after, const struct change *expected)
{
    struct file_entry *files = NULL;
    struct gb_err err;
    size_t len = 77, i;

    assert_int_equal(snapshot_diff(before, after, &files, &len, &err), 0);
    assert_non_null(files);
    for (i = 0; i < len && expected[i].path; i++)
        if (strcmp(files[i].path, expected[i].path) != 0 || files[i].size != expected[i].size ||
            files[i].change != expected[i].change)
            fail_msg("%s: entry %zu is '%s', change %d, %lld bytes", name, i, files[i].path,
                     files[i].change, (long long) files[i].size);
    if (i < len || expected[i].path)
        fail_msg("%s: %zu changes", name, len);
    files_free(files, len);
}

static const struct diff_case {
    const char *name;
    struct file before[FILES_MAX], after[FILES_MAX];
    struct change changes[FILES_MAX];
} diff_cases[] = {
    { "nothing at all", { { 0 } }, { { 0 } }, { { 0 } } },
    { "nothing changed", { { "a", 1, 2, 3, 0644 } }, { { "a", 1, 2, 3, 0644 } }, { { 0 } } },
    { "created", { { 0 } }, { { "a", 10, 2, 3, 0644 } }, { { "a", FILE_CREATED, 10 } } },
    { "created empty", { { 0 } }, { { "a", 0, 2, 3, 0644 } }, { { "a", FILE_CREATED, 0 } } },
    { "deleted", { { "a", 10, 2, 3, 0644 } }, { { 0 } }, { { "a", FILE_DELETED, 0 } } },
    { "another size",
      { { "a", 10, 2, 3, 0644 } },
      { { "a", 11, 2, 3, 0644 } },
      { { "a", FILE_MODIFIED, 11 } } },
    { "another time, by a nanosecond",
      { { "a", 10, 2, 3, 0644 } },
      { { "a", 10, 1, 3, 0644 } },
      { { "a", FILE_MODIFIED, 10 } } },
    { "another file of the same name",
      { { "a", 10, 2, 3, 0644 } },
      { { "a", 10, 2, 4, 0644 } },
      { { "a", FILE_MODIFIED, 10 } } },
    { "only the mode", { { "a", 10, 2, 3, 0644 } }, { { "a", 10, 2, 3, 0755 } }, { { 0 } } },
    { "renamed",
      { { "old", 10, 2, 3, 0644 } },
      { { "new", 10, 2, 3, 0644 } },
      { { "new", FILE_CREATED, 10 }, { "old", FILE_DELETED, 0 } } },
    { "negative times and large numbers",
      { { "a", INT64_MAX, INT64_MIN, UINT64_MAX, 0 }, { "b", 1, -1, 1, 0 } },
      { { "a", INT64_MAX, INT64_MIN, UINT64_MAX, 0 }, { "b", 1, 1, 1, 0 } },
      { { "b", FILE_MODIFIED, 1 } } },
    /* The builder lists as the directory does, in any order. */
    { "unsorted",
      { { "c", 1, 1, 1, 0 }, { "a", 1, 1, 2, 0 }, { "d/x", 1, 1, 3, 0 }, { "b", 1, 1, 4, 0 } },
      { { "b", 1, 1, 4, 0 }, { "e", 5, 1, 5, 0 }, { "d/x", 2, 1, 3, 0 }, { "c", 1, 1, 1, 0 } },
      { { "a", FILE_DELETED, 0 }, { "d/x", FILE_MODIFIED, 2 }, { "e", FILE_CREATED, 5 } } },
    { "one name begins the other",
      { { "ab", 1, 1, 1, 0 }, { "abc", 1, 1, 2, 0 } },
      { { "abcd", 4, 1, 3, 0 }, { "abc", 1, 1, 2, 0 }, { "a", 1, 1, 4, 0 } },
      { { "a", FILE_CREATED, 1 }, { "ab", FILE_DELETED, 0 }, { "abcd", FILE_CREATED, 4 } } },
    { "a file became a directory",
      { { "a", 1, 1, 1, 0 } },
      { { "a/b", 1, 1, 2, 0 } },
      { { "a", FILE_DELETED, 0 }, { "a/b", FILE_CREATED, 1 } } },
    { "bytes that are no text, in the order of bytes",
      { { "\xff\xfe", 1, 1, 1, 0 }, { "z", 1, 1, 2, 0 }, { "\x80", 1, 1, 3, 0 } },
      { { "\x80", 2, 1, 3, 0 }, { "\xff", 1, 1, 4, 0 }, { "z", 2, 1, 2, 0 } },
      { { "z", FILE_MODIFIED, 2 },
        { "\x80", FILE_MODIFIED, 2 },
        { "\xff", FILE_CREATED, 1 },
        { "\xff\xfe", FILE_DELETED, 0 } } },
    { "blanks, newlines and controls",
      { { 0 } },
      { { " \n\t", 1, 1, 1, 0 }, { "\x1b[31m", 1, 1, 2, 0 }, { "-rf", 1, 1, 3, 0 } },
      { { "\x1b[31m", FILE_CREATED, 1 },
        { " \n\t", FILE_CREATED, 1 },
        { "-rf", FILE_CREATED, 1 } } },
};

static void test_diffs(void **state)
{
    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(diff_cases); i++) {
        const struct diff_case *c = &diff_cases[i];
        struct snapshot before = snapshot_of(c->before), after = snapshot_of(c->after);

        assert_changes(c->name, &before, &after, c->changes);
        /* Ours are from malloc, not from mmap as snapshot_release() has it. */
        free(before.data);
        free(after.data);
    }
}

/* Two thousand files in an unkind order, every third of them changed. */
static void test_many(void **state)
{
    enum { COUNT = 2000, STRIDE = 7919 }; /* a prime: each number comes once */
    struct snapshot before = { 0 }, after = { 0 };
    struct file_entry *files;
    struct gb_err err;
    size_t len;

    (void) state;
    for (unsigned i = 0; i < COUNT; i++) {
        unsigned there = i * STRIDE % COUNT, back = COUNT - 1 - i;
        char path[32];

        snprintf(path, sizeof path, "dir/%05u", there);
        snapshot_add(&before, &(struct file){ path, 1, 1, there, 0 });
        snprintf(path, sizeof path, "dir/%05u", back);
        snapshot_add(&after, &(struct file){ path, 1, back % 3 != 0, back, 0 });
    }
    assert_int_equal(snapshot_diff(&before, &after, &files, &len, &err), 0);
    assert_int_equal(len, (COUNT + 2) / 3);
    for (size_t i = 0; i < len; i++) {
        assert_int_equal(files[i].change, FILE_MODIFIED);
        if (i > 0)
            assert_true(strcmp(files[i - 1].path, files[i].path) < 0);
    }
    files_free(files, len);
    free(before.data);
    free(after.data);
}

/* Each byte that is missing at the end takes the last record with it, and never more. The data are
 * copied to a block of just that length, so that the sanitizer sees a read behind it. */
static void test_truncated_data(void **state)
{
    static const struct file files[] = { { "first", 1, 1, 1, 0 }, { "second", 2, 1, 2, 0 }, { 0 } };
    static const struct change both[] = { { "first", FILE_CREATED, 1 },
                                          { "second", FILE_CREATED, 2 },
                                          { 0 } };
    static const struct change one[] = { { "first", FILE_CREATED, 1 }, { 0 } };
    static const struct change none[] = { { 0 } };
    struct snapshot whole = snapshot_of(files), empty = { 0 };
    size_t first_len = sizeof(struct scan_record) + strlen("first");

    (void) state;
    for (size_t len = 0; len <= whole.len; len++) {
        struct snapshot part = { .data = malloc(len + !len), .len = len, .count = whole.count };

        assert_non_null(part.data);
        memcpy(part.data, whole.data, len);
        assert_changes("cut", &empty, &part,
                       len == whole.len   ? both
                       : len >= first_len ? one
                                          : none);
        free(part.data);
    }
    free(whole.data);
}

/* A length that leads out of the data ends the list. */
static void test_huge_path_len(void **state)
{
    static const struct file files[] = { { "first", 1, 1, 1, 0 }, { "second", 2, 1, 2, 0 }, { 0 } };
    static const struct change one[] = { { "first", FILE_CREATED, 1 }, { 0 } };
    static const uint32_t lens[] = { 7, 4096, INT32_MAX, UINT32_MAX - sizeof(struct scan_record),
                                     UINT32_MAX };
    size_t first_len = sizeof(struct scan_record) + strlen("first");
    struct snapshot snapshot = snapshot_of(files), empty = { 0 };

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(lens); i++) {
        memcpy((char *) snapshot.data + first_len + offsetof(struct scan_record, path_len),
               &lens[i], sizeof lens[i]);
        assert_changes("huge", &empty, &snapshot, one);
        assert_changes("huge on both sides", &snapshot, &snapshot, (struct change[]){ { 0 } });
    }
    free(snapshot.data);
}

/* The count and the data come by different ways; neither is trusted to fit the other. */
static void test_wrong_count(void **state)
{
    static const struct file files[] = { { "first", 1, 1, 1, 0 }, { "second", 2, 1, 2, 0 }, { 0 } };
    static const struct change both[] = { { "first", FILE_CREATED, 1 },
                                          { "second", FILE_CREATED, 2 },
                                          { 0 } };
    static const uint32_t more[] = { 3, 1000, UINT32_MAX };
    struct snapshot snapshot = snapshot_of(files), empty = { 0 };

    (void) state;
    snapshot.count = 1;
    assert_changes("fewer", &empty, &snapshot,
                   (struct change[]){ { "first", FILE_CREATED, 1 }, { 0 } });
    for (size_t i = 0; i < ARRAY_LEN(more); i++) {
        snapshot.count = more[i];
        assert_changes("more", &empty, &snapshot, both);
        empty.count = more[i];
        assert_changes("more than none", &empty, &snapshot, both);
        empty.count = 0;
    }
    free(snapshot.data);
}

static void test_largest(void **state)
{
    const struct file_entry files[] = { { "a", 10, FILE_CREATED },
                                        { "b", INT64_MAX, FILE_MODIFIED },
                                        { "c", 0, FILE_DELETED } };

    (void) state;
    assert_int_equal(files_largest(NULL, 0), 0);
    assert_int_equal(files_largest(files, 1), 10);
    assert_int_equal(files_largest(files, 3), INT64_MAX);
    assert_int_equal(files_largest(files + 2, 1), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_diffs),          cmocka_unit_test(test_many),
        cmocka_unit_test(test_truncated_data), cmocka_unit_test(test_huge_path_len),
        cmocka_unit_test(test_wrong_count),    cmocka_unit_test(test_largest),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
