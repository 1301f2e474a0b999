/* The conformance suite of the store, continued: results of queries, and files of answers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/artifacts.h"
#include "store/attachments.h"
#include "store/chats.h"
#include "store/results.h"

#include "store_harness.h"

#include "base/banned.h"

#define CHAT "22222222-2222-4222-8222-222222222222"

static void add_answer(struct harness_store *f, const char *chat_id, const char *question_id,
                       const char *answer_id)
{
    struct store_message question = { .role = STORE_ROLE_USER, .status = STORE_MESSAGE_OK };
    struct store_message answer = { .role = STORE_ROLE_ASSISTANT, .status = STORE_MESSAGE_PENDING };

    snprintf(question.id, sizeof question.id, "%s", question_id);
    snprintf(question.chat_id, sizeof question.chat_id, "%s", chat_id);
    snprintf(answer.id, sizeof answer.id, "%s", answer_id);
    snprintf(answer.chat_id, sizeof answer.chat_id, "%s", chat_id);
    question.parts = answer.parts = (char *) "[]";
    assert_int_equal(store_message_add(f->store, &question, &answer, &f->err), 0);
}

static void add_chat(struct harness_store *f)
{
    struct store_chat chat = { .created_us = 1, .updated_us = 1 };

    snprintf(chat.id, sizeof chat.id, CHAT);
    snprintf(chat.owner, sizeof chat.owner, "ann");
    assert_int_equal(store_chat_add(f->store, &chat, &f->err), 0);
    add_answer(f, CHAT, "q1", "a1");
    add_answer(f, CHAT, "q2", "a2");
}

static struct store_result result_of(const char *message_id, int64_t n, int content, int64_t size)
{
    struct store_result result = { .n = n, .size = size, .created_us = 7 };

    snprintf(result.message_id, sizeof result.message_id, "%s", message_id);
    snprintf(result.owner, sizeof result.owner, "ann");
    memset(result.key, 1, sizeof result.key);
    memset(result.sha256, content, sizeof result.sha256);
    result.query = (char *) "{\"sql\":\"SELECT 1\"}";
    return result;
}

static int add(struct harness_store *f, const char *message_id, int64_t n, int content,
               int64_t size)
{
    struct store_result result = result_of(message_id, n, content, size);

    return store_result_add(f->store, &result, 100, &f->err);
}

static bool has(struct harness_store *f, int content)
{
    struct store_result result = result_of("a1", 1, content, 1);
    bool found = false;

    assert_int_equal(store_result_has(f->store, result.sha256, &found, &f->err), 0);
    return found;
}

static void test_results(void **state)
{
    struct harness_store *f = *state;
    struct store_result *rows = NULL;
    uint8_t *hashes = NULL;
    size_t len = 0;

    add_chat(f);
    assert_int_equal(add(f, "a1", 2, 5, 40), 0);
    assert_int_equal(add(f, "a1", 1, 6, 0), 0); /* one that failed */
    assert_int_equal(add(f, "a2", 1, 5, 40), 0);
    assert_int_equal(store_result_list(f->store, "ann", "a1", &rows, &len, &f->err), 0);
    assert_int_equal(len, 2);
    assert_true(rows[0].n == 1 && rows[1].n == 2 && rows[1].size == 40 && rows[1].created_us == 7);
    assert_string_equal(rows[1].query, "{\"sql\":\"SELECT 1\"}");
    assert_int_equal(rows[1].sha256[31], 5);
    assert_int_equal(rows[1].key[0], 1);
    store_results_free(rows, len);
    rows = NULL;
    len = 0;
    assert_int_equal(store_result_list(f->store, "bob", "a1", &rows, &len, &f->err), 0);
    assert_int_equal(len, 0);
    assert_int_equal(store_result_of_chat(f->store, "ann", CHAT, 0, &hashes, &len, &f->err), 0);
    assert_int_equal(len, 1);
    assert_int_equal(hashes[0], 5);
    free(hashes);
    assert_true(has(f, 5));
    assert_false(has(f, 9));
    assert_int_equal(store_result_drop(f->store, "bob", "a1", 2, &f->err), 0); /* not his */
    assert_int_equal(store_result_drop(f->store, "ann", "a1", 2, &f->err), 0);
    assert_int_equal(store_result_drop(f->store, "ann", "a1", 2, &f->err), 0);
    assert_true(has(f, 5));
    assert_int_equal(store_chat_delete(f->store, "ann", CHAT, &f->err), 0);
    assert_false(has(f, 5));
}

static void test_quota(void **state)
{
    struct harness_store *f = *state;

    add_chat(f);
    assert_int_equal(add(f, "a1", 1, 5, 60), 0);
    assert_int_equal(add(f, "a1", 2, 5, 60), 0); /* the same content counts once */
    assert_int_equal(add(f, "a1", 3, 6, 41), -EDQUOT);
    assert_int_equal(add(f, "a1", 3, 6, 40), 0);
    assert_int_equal(add(f, "a1", 4, 7, INT64_MAX), -EDQUOT);
    assert_int_equal(add(f, "a1", 4, 7, 1), -EDQUOT);
    assert_int_equal(add(f, "a1", 4, 7, 0), 0);
}

static void test_bad_input(void **state)
{
    struct harness_store *f = *state;
    struct store_result result;

    add_chat(f);
    assert_int_equal(add(f, "nobody", 1, 5, 1), -ENOENT);
    assert_int_equal(add(f, "q1", 1, 5, 1), -ENOENT); /* a question */
    assert_int_equal(add(f, "a1", 0, 5, 1), -EINVAL);
    assert_int_equal(add(f, "a1", 1, 5, -1), -EINVAL);
    result = result_of("a1", 1, 5, 1);
    snprintf(result.owner, sizeof result.owner, "bob");
    assert_int_equal(store_result_add(f->store, &result, 100, &f->err), -ENOENT);
    result = result_of("a1", 1, 5, 1);
    result.query = (char *) "\xff";
    assert_int_equal(store_result_add(f->store, &result, 100, &f->err), -EINVAL);
    result.query = NULL;
    assert_int_equal(store_result_add(f->store, &result, 100, &f->err), -EINVAL);
    assert_int_equal(add(f, "a1", 1, 5, 1), 0);
    assert_true(add(f, "a1", 1, 5, 1) < 0); /* that place is taken */
}

/* ---- files ---- */

static int add_file(struct harness_store *f, const char *message_id, int64_t n, const char *name,
                    int content, int64_t size)
{
    struct store_artifact file = { .n = n, .name = (char *) name, .size = size, .created_us = 7 };

    snprintf(file.message_id, sizeof file.message_id, "%s", message_id);
    snprintf(file.owner, sizeof file.owner, "ann");
    memset(file.sha256, content, sizeof file.sha256);
    return store_artifact_add(f->store, &file, 100, &f->err);
}

static bool has_file(struct harness_store *f, int content)
{
    uint8_t hash[STORE_HASH_BYTES];
    bool found = false;

    memset(hash, content, sizeof hash);
    assert_int_equal(store_attachment_has(f->store, hash, &found, &f->err), 0);
    return found;
}

static void test_files(void **state)
{
    struct harness_store *f = *state;
    struct store_artifact got;
    uint8_t *hashes = NULL;
    size_t len = 0;

    add_chat(f);
    assert_int_equal(add_file(f, "a1", 1, "out/größe.png", 5, 60), 0);
    assert_int_equal(add_file(f, "a2", 1, "x", 5, 60), 0);
    assert_int_equal(add_file(f, "a2", 2, "y", 6, 0), 0);
    assert_int_equal(store_artifact_get(f->store, "ann", "a1", 1, &got, &f->err), 0);
    assert_string_equal(got.name, "out/größe.png");
    assert_true(got.n == 1 && got.size == 60 && got.created_us == 7 && got.sha256[31] == 5);
    store_artifact_release(&got);
    assert_int_equal(store_artifact_get(f->store, "bob", "a1", 1, &got, &f->err), -ENOENT);
    assert_int_equal(store_artifact_get(f->store, "ann", "a1", 2, &got, &f->err), -ENOENT);
    assert_int_equal(store_artifact_get(f->store, "ann", "", 1, &got, &f->err), -EINVAL);
    assert_int_equal(store_artifact_of_chat(f->store, "ann", CHAT, 0, &hashes, &len, &f->err), 0);
    assert_int_equal(len, 2);
    free(hashes);
    assert_int_equal(store_artifact_of_chat(f->store, "ann", CHAT, 5, &hashes, &len, &f->err), 0);
    assert_int_equal(len, 0);
    free(hashes);
    assert_int_equal(store_artifact_of_chat(f->store, "bob", CHAT, 0, &hashes, &len, &f->err), 0);
    assert_int_equal(len, 0);
    free(hashes);
    assert_true(has_file(f, 5));
    assert_int_equal(store_chat_delete(f->store, "ann", CHAT, &f->err), 0);
    assert_false(has_file(f, 5));
}

/* With attachments; the same content counts once. */
static void test_file_quota(void **state)
{
    struct harness_store *f = *state;
    struct store_attachment attached = { .id = "f1",
                                         .owner = "ann",
                                         .name = "x.csv",
                                         .media_type = "text/csv",
                                         .size = 30,
                                         .created_us = 1 };

    add_chat(f);
    assert_int_equal(store_attachment_add(f->store, &attached, -1, -1, &f->err), 0);
    assert_int_equal(add_file(f, "a1", 1, "a", 5, 60), 0);
    assert_int_equal(add_file(f, "a1", 2, "b", 5, 60), 0);
    assert_int_equal(add_file(f, "a1", 3, "c", 6, 11), -EDQUOT);
    assert_int_equal(add_file(f, "a1", 3, "c", 6, 10), 0);
    assert_int_equal(add_file(f, "a1", 4, "d", 7, INT64_MAX), -EDQUOT);
}

static void test_bad_files(void **state)
{
    struct harness_store *f = *state;
    char longest[STORE_ARTIFACT_NAME_MAX + 1];

    add_chat(f);
    memset(longest, 'x', sizeof longest);
    longest[STORE_ARTIFACT_NAME_MAX] = '\0';
    assert_int_equal(add_file(f, "nobody", 1, "a", 5, 1), -ENOENT);
    assert_int_equal(add_file(f, "q1", 1, "a", 5, 1), -ENOENT);
    assert_int_equal(add_file(f, "a1", 0, "a", 5, 1), -EINVAL);
    assert_int_equal(add_file(f, "a1", 1, "a", 5, -1), -EINVAL);
    assert_int_equal(add_file(f, "a1", 1, "", 5, 1), -EINVAL);
    assert_int_equal(add_file(f, "a1", 1, NULL, 5, 1), -EINVAL);
    assert_int_equal(add_file(f, "a1", 1, "\xff", 5, 1), -EINVAL);
    assert_int_equal(add_file(f, "a1", 1, longest, 5, 1), -EINVAL);
    assert_int_equal(add_file(f, "a1", 1, "a", 5, 1), 0);
    assert_true(add_file(f, "a1", 1, "a", 5, 1) < 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_results, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_quota, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_bad_input, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_files, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_file_quota, harness_setup, harness_teardown),
        cmocka_unit_test_setup_teardown(test_bad_files, harness_setup, harness_teardown),
    };

    if (!harness_choose(argc, argv))
        return 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
