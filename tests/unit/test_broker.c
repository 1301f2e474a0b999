/*
 * The query broker with a connector of the test's own: this program once more, which does what the
 * first word of the SQL says. Files of sessions are files of a directory here.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/io.h"
#include "mark/broker/internal.h"
#include "store/chats.h"

#include "fake_connector.h"

#include "base/banned.h"

#define PATIENCE_MS 60000
#define MESSAGE     "11111111-1111-4111-8111-111111111111"
#define CHAT        "22222222-2222-4222-8222-222222222222"

/* ---- the service ---- */

static char workspace[64];
static bool workspace_full;

struct file_upload {
    int fd;
    char path[200], draft[220];
};

static void file_path(const char *name, size_t len, char *buf, size_t size)
{
    (void) snprintf(buf, size, "%s/%.*s", workspace, (int) len, name);
    for (char *p = buf + strlen(workspace) + 1; *p; p++)
        if (*p == '/')
            *p = '_';
}

int files_upload_begin(struct session *session, const char *path, size_t path_len, int64_t expected,
                       struct file_upload **ret_upload, struct fault *fault)
{
    struct file_upload *upload = calloc(1, sizeof *upload);

    (void) session, (void) expected;
    assert_non_null(upload);
    if (workspace_full) {
        free(upload);
        return fault_set(fault, PROBLEM_QUOTA_EXCEEDED, "path", "the workspace is full");
    }
    file_path(path, path_len, upload->path, sizeof upload->path);
    (void) snprintf(upload->draft, sizeof upload->draft, "%s.part", upload->path);
    upload->fd = open(upload->draft, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(upload->fd >= 0);
    *ret_upload = upload;
    return 0;
}

int files_upload_write(struct file_upload *upload, const void *data, size_t len,
                       struct fault *fault)
{
    (void) fault;
    return io_write_all(upload->fd, data, len);
}

void files_upload_abort(struct file_upload *upload)
{
    (void) close(upload->fd);
    (void) unlink(upload->draft);
    free(upload);
}

int files_upload_commit(struct file_upload *upload, bool *ret_created, struct fault *fault)
{
    (void) fault;
    *ret_created = true;
    (void) close(upload->fd);
    assert_int_equal(rename(upload->draft, upload->path), 0);
    free(upload);
    return 0;
}

int files_delete(struct session *session, const char *path, size_t path_len, bool recursive,
                 struct fault *fault)
{
    autoclosedir DIR *dir = opendir(workspace);
    const struct dirent *entry;

    (void) session, (void) path, (void) path_len, (void) fault;
    assert_true(recursive);
    while ((entry = readdir(dir)))
        if (entry->d_name[0] != '.' || strncmp(entry->d_name, ".mark", 5) == 0)
            (void) unlinkat(dirfd(dir), entry->d_name, 0);
    return 0;
}

void service_log(struct service *service, enum log_level level, const char *fmt, ...)
{
    (void) service, (void) level, (void) fmt;
}

/* ---- the sources ---- */

static int64_t bytes_limit;

static int stub_grant(struct sources *sources, const struct caller *caller, const char *name,
                      struct grant *ret_grant, struct fault *fault)
{
    (void) sources, (void) caller;
    if (strcmp(name, "gone") == 0)
        return fault_set(fault, PROBLEM_FILE_UNKNOWN, NULL, "there is no source 'gone' any more");
    *ret_grant = (struct grant){
        .order = json_pack("{s:{s:s, s:s}, s:{s:I, s:I}}", "source", "kind", "postgresql",
                           "password", SECRET, "limits", "ms", (json_int_t) 60000, "bytes",
                           (json_int_t) bytes_limit),
    };
    return 0;
}

static void stub_release(struct grant *grant)
{
    json_decref(grant->order);
    *grant = (struct grant){ 0 };
}

static int stub_get(struct sources *sources, const struct caller *caller, const char *name,
                    json_t **ret_json, struct fault *fault)
{
    (void) sources, (void) caller, (void) fault;
    *ret_json = json_pack("{s:s, s:s, s:s}", "name", name, "kind", "postgresql", "url", SECRET);
    return 0;
}

static int stub_tables(struct sources *sources, const struct caller *caller, const char *name,
                       const char *q, json_t **ret_json, struct fault *fault)
{
    json_t *tables = json_array();

    (void) sources, (void) caller, (void) fault, (void) q, (void) name;
    for (int i = 0; i < 5000; i++)
        (void) json_array_append_new(
            tables, json_pack("{s:s, s:i, s:[{s:s, s:s, s:s}]}", "name", "public.orders", "rows", i,
                              "columns", "name", "id", "type", "int", "samples", "hidden"));
    *ret_json = json_pack("{s:o}", "tables", tables);
    return 0;
}

/* ---- the kit ---- */

struct kit {
    char dir[64];
    struct store *store;
    struct broker *broker;
    struct scope *scope;
};

static char *names[] = { (char *) "shop", (char *) "gone", NULL };
static struct caller local = { .limits = { -1, -1, -1 } };

static int remove_entry(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void) st, (void) flag, (void) ftw;
    return remove(path);
}

static void add_answer(struct kit *kit)
{
    struct store_chat chat = { .created_us = 1, .updated_us = 1 };
    struct store_message question = { .role = STORE_ROLE_USER, .status = STORE_MESSAGE_OK };
    struct store_message answer = { .role = STORE_ROLE_ASSISTANT, .status = STORE_MESSAGE_PENDING };
    struct gb_err err;

    (void) snprintf(chat.id, sizeof chat.id, CHAT);
    (void) snprintf(chat.owner, sizeof chat.owner, "%s", principal_text(&local.principal));
    (void) snprintf(chat.title, sizeof chat.title, "t");
    (void) snprintf(question.id, sizeof question.id, "33333333-3333-4333-8333-333333333333");
    (void) snprintf(question.chat_id, sizeof question.chat_id, CHAT);
    (void) snprintf(answer.id, sizeof answer.id, MESSAGE);
    (void) snprintf(answer.chat_id, sizeof answer.chat_id, CHAT);
    question.parts = answer.parts = (char *) "[]";
    if (store_chat_add(kit->store, &chat, &err) < 0 ||
        store_message_add(kit->store, &question, &answer, &err) < 0)
        fail_msg("%s", err.msg);
}

static void kit_open(struct kit *kit, const struct broker_config *wish)
{
    struct store_config store = { .dir = kit->dir };
    struct broker_config config = wish ? *wish : (struct broker_config){ 0 };
    struct gb_err err;

    (void) snprintf(kit->dir, sizeof kit->dir, "/tmp/gbtest-broker-XXXXXX");
    (void) snprintf(workspace, sizeof workspace, "/tmp/gbtest-space-XXXXXX");
    assert_non_null(mkdtemp(kit->dir));
    assert_non_null(mkdtemp(workspace));
    workspace_full = false;
    bytes_limit = 1 << 20;
    if (store_open(&store, &kit->store, &err) < 0)
        fail_msg("%s", err.msg);
    add_answer(kit);
    config.store = kit->store;
    config.data_dir = kit->dir;
    config.calls = (struct broker_sources){
        .grant = stub_grant, .release = stub_release, .get = stub_get, .tables = stub_tables
    };
    if (broker_open(&config, &kit->broker, &err) < 0)
        fail_msg("%s", err.msg);
}

static void kit_scope(struct kit *kit, const struct scope_config *wish)
{
    struct scope_config config = wish ? *wish : (struct scope_config){ .message_id = MESSAGE };
    struct fault fault;

    config.broker = kit->broker;
    config.caller = local;
    config.names = names;
    assert_int_equal(scope_new(&config, &kit->scope, &fault), 0);
}

static void kit_close(struct kit *kit)
{
    scope_free(kit->scope);
    broker_close(kit->broker);
    store_close(kit->store);
    assert_int_equal(rmdir(workspace), 0); /* nothing is left in it */
    (void) nftw(kit->dir, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static json_t *read_answer(int fd)
{
    struct pollfd ready = { .fd = fd, .events = POLLIN };
    char *buf = malloc(ASK_ANSWER_MAX + 1);
    json_t *json;
    ssize_t n;

    assert_non_null(buf);
    assert_int_equal(poll(&ready, 1, PATIENCE_MS), 1);
    n = io_read_all(fd, buf, ASK_ANSWER_MAX + 1);
    assert_true(n > 0 && n <= (ssize_t) ASK_ANSWER_MAX);
    assert_null(memmem(buf, (size_t) n, SECRET, strlen(SECRET)));
    json = json_loadb(buf, (size_t) n, 0, NULL);
    assert_non_null(json);
    free(buf);
    return json;
}

static json_t *ask_text(struct kit *kit, const char *text)
{
    int fd = scope_ask(kit->scope, text, strlen(text));
    json_t *answer;

    assert_true(fd >= 0);
    answer = read_answer(fd);
    (void) close(fd);
    return answer;
}

static json_t *ask(struct kit *kit, const char *sql)
{
    char text[300];

    (void) snprintf(text, sizeof text, "{\"op\": \"query\", \"source\": \"shop\", \"sql\": \"%s\"}",
                    sql);
    return ask_text(kit, text);
}

/* The word of a refusal, and what its message contains. */
static void assert_refused(json_t *answer, const char *word, const char *part)
{
    const char *message = json_string_value(json_object_get(answer, "message"));

    assert_false(json_is_true(json_object_get(answer, "success")));
    assert_string_equal(json_string_value(json_object_get(answer, "word")), word);
    assert_non_null(message);
    if (part && !strstr(message, part))
        fail_msg("%s", message);
    json_decref(answer);
}

static const struct query_record *last_record(struct kit *kit)
{
    const struct query_record *records;
    size_t len = scope_records(kit->scope, &records);
    autofree char *text = NULL;

    assert_true(len > 0);
    text = json_dumps(records[len - 1].json, 0);
    assert_null(strstr(text, SECRET));
    return &records[len - 1];
}

static const char *status_of(const struct query_record *record)
{
    return json_string_value(json_object_get(record->json, "status"));
}

static void read_file(const char *name, char *buf, size_t size)
{
    char path[300];
    autoclose int fd = -1;
    ssize_t n;

    (void) snprintf(path, sizeof path, "%s/%s", workspace, name);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    n = io_read_all(fd, buf, size - 1);
    assert_true(n >= 0);
    buf[n] = '\0';
}

/* ---- queries ---- */

static void test_query(void **state)
{
    struct kit kit = { 0 };
    const struct query_record *record;
    json_t *answer;
    char buf[100];

    (void) state;
    kit_open(&kit, NULL);
    kit_scope(&kit, NULL);
    answer = ask(&kit, "rows hello");
    assert_true(json_is_true(json_object_get(answer, "success")));
    assert_string_equal(json_string_value(json_object_get(answer, "path")), ".mark/q1.gbr");
    assert_int_equal(json_integer_value(json_object_get(answer, "rows")), 2);
    assert_string_equal(json_string_value(json_array_get(json_object_get(answer, "notices"), 0)),
                        "look: ***");
    read_file(".mark_q1.gbr", buf, sizeof buf);
    assert_string_equal(buf, "hello");
    json_decref(answer);
    record = last_record(&kit);
    assert_string_equal(status_of(record), "ok");
    assert_true(record->kept && record->size == 5 && record->n == 1);
    assert_true(json_number_value(
                    json_object_get(json_object_get(record->json, "estimate"), "cost")) == 12.5);
    assert_true(json_is_null(json_object_get(json_object_get(record->json, "estimate"), "bytes")));
    assert_null(json_object_get(record->json, "token"));
    kit_close(&kit);
}

static void test_refusals(void **state)
{
    struct kit kit = { 0 };

    (void) state;
    kit_open(&kit, NULL);
    kit_scope(&kit, NULL);
    assert_refused(ask(&kit, "error"), "denied", "login *** failed ");
    assert_refused(ask(&kit, "costly"), "too-expensive", "no");
    assert_true(json_number_value(json_object_get(
                    json_object_get(last_record(&kit)->json, "estimate"), "money")) == 7);
    assert_refused(ask(&kit, "odd"), "internal", "no reason");
    assert_refused(ask_text(&kit, "{\"op\": \"query\", \"source\": \"other\", \"sql\": \"x\"}"),
                   "no-such-source", "there are: shop, gone");
    assert_refused(ask_text(&kit, "{\"op\": \"query\", \"source\": \"gone\", \"sql\": \"x\"}"),
                   "no-such-source", "any more");
    workspace_full = true;
    assert_refused(ask(&kit, "rows hello"), "too-large", "the workspace is full");
    assert_string_equal(status_of(last_record(&kit)), "too-large");
    kit_close(&kit);
}

static void test_bad_requests(void **state)
{
    static const char *const cases[] = {
        "",
        "[]",
        "{}",
        "{\"op\": 3}",
        "{\"op\": \"drop\"}",
        "{\"op\": \"query\"}",
        "{\"op\": \"query\", \"source\": \"shop\"}",
        "{\"op\": \"query\", \"source\": 3, \"sql\": \"rows\"}",
        "{\"op\": \"query\", \"source\": \"shop\", \"sql\": \"rows\", \"params\": 3}",
        "{\"op\": \"query\", \"source\": \"shop\", \"sql\": \"rows\", \"params\": [[[1]]]}",
        "{\"op\": \"query\", \"source\": \"shop\", \"sql\": \"rows\", \"params\": [{}]}",
        "{\"op\": \"query\", \"source\": \"shop\", \"sql\": \"rows\\u0000\"}",
        "[[[[[[[[[[[[[[[[[[[[[[[[[[",
    };
    struct kit kit = { 0 };
    const struct query_record *records;

    (void) state;
    kit_open(&kit, NULL);
    kit_scope(&kit, NULL);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_refused(ask_text(&kit, cases[i]), "unsupported", NULL);
    assert_int_equal(scope_records(kit.scope, &records), 0);
    kit_close(&kit);
}

static void test_garbage(void **state)
{
    static const char *const cases[] = { "huge",  "empty", "text", "array", "word",
                                         "twice", "deep",  "half", "exit" };
    struct kit kit = { 0 };

    (void) state;
    kit_open(&kit, NULL);
    kit_scope(&kit, NULL);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char sql[40];

        (void) snprintf(sql, sizeof sql, "garbage %s", cases[i]);
        assert_refused(ask(&kit, sql), "broken", NULL);
    }
    kit_close(&kit);
}

static void test_too_large(void **state)
{
    struct kit kit = { 0 };

    (void) state;
    kit_open(&kit, NULL);
    kit_scope(&kit, NULL);
    assert_refused(ask(&kit, "large"), "too-large", NULL);
    kit_close(&kit);
}

static void test_too_many(void **state)
{
    struct kit kit = { 0 };

    (void) state;
    kit_open(&kit, NULL);
    kit_scope(&kit, NULL);
    for (int i = 0; i < 100; i++)
        assert_refused(ask_text(&kit, "{\"op\": \"query\", \"source\": \"other\", \"sql\": \"x\"}"),
                       "no-such-source", NULL);
    assert_refused(ask(&kit, "rows"), "too-large", "at most 100 queries");
    kit_close(&kit);
}

/* Whoever waits for the answer goes away: the query ends, also if the connector does not want to.
 */
static void test_cancel(void **state)
{
    static const char *const cases[] = { "wait", "hang" };
    struct kit kit = { 0 };

    (void) state;
    kit_open(&kit, NULL);
    for (size_t i = 0; i < 2; i++) {
        char text[100];
        int fd;

        kit_scope(&kit, NULL);
        (void) snprintf(text, sizeof text,
                        "{\"op\": \"query\", \"source\": \"shop\", \"sql\": \"%s\"}", cases[i]);
        fd = scope_ask(kit.scope, text, strlen(text));
        assert_true(fd >= 0);
        (void) usleep(50000); /* it may have begun, or not */
        (void) close(fd);
        assert_string_equal(status_of(last_record(&kit)), "cancelled");
        scope_free(kit.scope);
    }
    kit.scope = NULL;
    kit_close(&kit);
}

static int stub_may(void *arg, const struct query_record *record, const json_t *estimate,
                    struct fault *fault)
{
    int *calls = arg;

    calls[0]++;
    assert_string_equal(json_string_value(json_object_get(record->json, "source")), "shop");
    assert_true(json_number_value(json_object_get(estimate, "cost")) == 12.5);
    return calls[0] > 1 ? fault_set(fault, PROBLEM_QUOTA_EXCEEDED, NULL, "it would have cost 12.5")
                        : 0;
}

static void stub_did(void *arg, const struct query_record *record)
{
    int *calls = arg;

    calls[1]++;
    assert_non_null(status_of(record));
}

static void test_budget(void **state)
{
    struct kit kit = { 0 };
    int calls[2] = { 0, 0 };

    (void) state;
    kit_open(&kit, NULL);
    kit_scope(&kit, &(struct scope_config){ .may = stub_may, .did = stub_did, .arg = calls });
    json_decref(ask(&kit, "rows hello"));
    assert_string_equal(status_of(last_record(&kit)), "ok");
    assert_false(last_record(&kit)->kept); /* it belongs to no answer */
    assert_refused(ask(&kit, "rows hello"), "budget", "would have cost");
    assert_string_equal(status_of(last_record(&kit)), "budget");
    assert_int_equal(calls[0], 2);
    assert_int_equal(calls[1], 2);
    kit_close(&kit);
}

static void test_looking(void **state)
{
    struct kit kit = { 0 };
    json_t *answer;

    (void) state;
    kit_open(&kit, NULL);
    kit_scope(&kit, NULL);
    answer = ask_text(&kit, "{\"op\": \"sources\"}");
    assert_int_equal(json_array_size(json_object_get(answer, "sources")), 2);
    json_decref(answer);
    answer = ask_text(&kit, "{\"op\": \"tables\", \"source\": \"shop\"}");
    assert_true(json_array_size(json_object_get(answer, "tables")) > 100);
    assert_true(json_integer_value(json_object_get(answer, "left_out")) > 100);
    json_decref(answer);
    assert_refused(ask_text(&kit, "{\"op\": \"tables\", \"source\": \"other\"}"), "no-such-source",
                   NULL);
    kit_close(&kit);
}

/* ---- recorded ---- */

static void test_replay(void **state)
{
    static const char *const sqls[] = { "rows one", "rows two", "error" };
    struct kit kit = { 0 };
    struct query_record *records = NULL;
    size_t len = 0;
    struct gb_err err;
    json_t *answer;
    char buf[100];

    (void) state;
    kit_open(&kit, NULL);
    kit_scope(&kit, NULL);
    for (size_t i = 0; i < 3; i++)
        json_decref(ask(&kit, sqls[i]));
    scope_free(kit.scope);
    assert_int_equal(query_records_load(kit.store, principal_text(&local.principal), MESSAGE,
                                        &records, &len, &err),
                     0);
    assert_int_equal(len, 3);
    /* As if the same SQL had brought another result the second time. */
    memcpy(records[1].key, records[0].key, sizeof records[1].key);
    kit_scope(&kit,
              &(struct scope_config){ .replay = records, .replay_len = len, .replay_only = true });
    for (int i = 0; i < 3; i++) {
        char name[32];

        answer = ask(&kit, "rows one");
        assert_true(json_is_true(json_object_get(answer, "success")));
        json_decref(answer);
        (void) snprintf(name, sizeof name, ".mark_q%d.gbr", i + 1);
        read_file(name, buf, sizeof buf);
        assert_string_equal(buf, i == 0 ? "one" : "two");
    }
    assert_refused(ask(&kit, "error"), "denied", "***");
    assert_refused(ask(&kit, "rows two"), "not-recorded", NULL);
    query_records_free(records, len);
    kit_close(&kit);
}

static size_t count_results(const struct kit *kit)
{
    char path[128];
    autoclosedir DIR *dir = NULL;
    const struct dirent *entry;
    size_t count = 0;

    (void) snprintf(path, sizeof path, "%s/mark/results", kit->dir);
    dir = opendir(path);
    assert_non_null(dir);
    while ((entry = readdir(dir)))
        count += strlen(entry->d_name) == 2 * STORE_HASH_BYTES;
    return count;
}

static void test_sweep(void **state)
{
    const struct query_record *record;
    struct kit kit = { 0 };
    struct gb_err err;
    bool has = false;
    int fd = -1;
    uint8_t *hashes = NULL;
    size_t len = 0;

    (void) state;
    kit_open(&kit, NULL);
    kit_scope(&kit, NULL);
    json_decref(ask(&kit, "rows same"));
    json_decref(ask(&kit, "rows same"));
    assert_int_equal(count_results(&kit), 1);
    assert_int_equal(results_sweep(kit.broker, &err), 0);
    record = last_record(&kit);
    assert_int_equal(result_open(kit.broker, record->sha256, &fd, &err), 0);
    (void) close(fd);
    assert_int_equal(store_result_has(kit.store, record->sha256, &has, &err), 0);
    assert_true(has);
    assert_int_equal(store_result_of_chat(kit.store, principal_text(&local.principal), CHAT, 0,
                                          &hashes, &len, &err),
                     0);
    assert_int_equal(len, 1);
    assert_int_equal(results_remove(kit.broker, hashes, len, &err), 0);
    assert_int_equal(count_results(&kit), 1); /* it is still somebody's */
    assert_int_equal(store_chat_delete(kit.store, principal_text(&local.principal), CHAT, &err), 0);
    assert_int_equal(results_remove(kit.broker, hashes, len, &err), 0);
    assert_int_equal(count_results(&kit), 0);
    free(hashes);
    assert_int_equal(result_open(kit.broker, record->sha256, &fd, &err), -ENOENT);
    kit_close(&kit);
}

static void test_quota(void **state)
{
    struct kit kit = { 0 };

    (void) state;
    kit_open(&kit, &(struct broker_config){ .owner_bytes_max = 8 });
    kit_scope(&kit, NULL);
    json_decref(ask(&kit, "rows hello"));
    assert_true(last_record(&kit)->kept);
    json_decref(ask(&kit, "rows hello"));
    assert_true(last_record(&kit)->kept); /* the same content costs nothing */
    json_decref(ask(&kit, "rows world"));
    assert_string_equal(status_of(last_record(&kit)), "ok"); /* the program gets it all the same */
    assert_false(last_record(&kit)->kept);
    assert_int_equal(count_results(&kit), 1);
    kit_close(&kit);
}

/* ---- keys: tests/unit/test_mark_query.py has the same ---- */

static void test_keys(void **state)
{
    static const struct {
        const char *source, *sql, *params, *key;
    } cases[] = {
        { "shop", "SELECT 1", NULL,
          "547e796dd314b3511147a7d86cf1eb0a40ce9d97d6e7e1b8f587c3b9fe6be5d0" },
        { "shop", "SELECT $1", "[null, true, -3, 0.5, \"\xc3\xa4\", [1, \"x\"]]",
          "5ff8389b6bf7f629a83e668a17394e513b83443bcd008e36c75dd523b4707c66" },
        { "bq", "SELECT @b", "{\"b\": 1, \"\xc3\xa4\": null, \"a\": \"z\"}",
          "68828fa2663957fb794785f2d64fcc769311900a37e78636f61567e3463f9755" },
    };

    (void) state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *params = cases[i].params ? json_loads(cases[i].params, 0, NULL) : NULL;
        uint8_t key[STORE_HASH_BYTES];
        char text[HASH_TEXT_MAX];

        assert_int_equal(
            query_key(cases[i].source, cases[i].sql, strlen(cases[i].sql), params, key), 0);
        hash_to_text(key, text);
        assert_string_equal(text, cases[i].key);
        json_decref(params);
    }
}

/* ---- shares ---- */

struct taker {
    struct broker *broker;
    const char *owner;
    int fd, result;
    pthread_t thread;
    atomic_bool done;
};

static void *take_main(void *arg)
{
    struct taker *taker = arg;

    taker->result = broker_take(taker->broker, taker->owner, taker->fd,
                                clock_now_us() + (int64_t) PATIENCE_MS * 1000);
    atomic_store(&taker->done, true);
    return NULL;
}

static void take_begin(struct taker *taker, struct broker *broker, const char *owner, int fd)
{
    *taker = (struct taker){ .broker = broker, .owner = owner, .fd = fd };
    assert_int_equal(pthread_create(&taker->thread, NULL, take_main, taker), 0);
}

/* Waits until so many wait. */
static void await_waiting(struct broker *broker, int count)
{
    int64_t give_up_us = clock_now_us() + (int64_t) PATIENCE_MS * 1000;

    for (int n = -1; n != count; (void) usleep(1000)) {
        n = 0;
        assert_true(clock_now_us() < give_up_us);
        (void) pthread_mutex_lock(&broker->lock);
        for (const struct waiting *w = broker->waiting; w; w = w->next)
            n++;
        (void) pthread_mutex_unlock(&broker->lock);
    }
}

static void test_shares(void **state)
{
    struct taker greedy, fair, late;
    struct kit kit = { 0 };
    int ends[2];

    (void) state;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    kit_open(&kit, &(struct broker_config){ .connectors_max = 3, .per_owner_max = 2 });
    for (int i = 0; i < 2; i++)
        assert_int_equal(broker_take(kit.broker, "ann", ends[1], INT64_MAX), 0);
    take_begin(&greedy, kit.broker, "ann", ends[1]); /* has her share, though one is free */
    await_waiting(kit.broker, 1);
    assert_int_equal(broker_take(kit.broker, "bob", ends[1], INT64_MAX), 0);
    take_begin(&late, kit.broker, "bob", ends[1]);
    await_waiting(kit.broker, 2);
    take_begin(&fair, kit.broker, "eve", ends[1]);
    await_waiting(kit.broker, 3);
    broker_give(kit.broker, "bob"); /* eve has none, and so has bob now, who came first */
    (void) pthread_join(late.thread, NULL);
    assert_int_equal(late.result, 0);
    broker_give(kit.broker, "ann"); /* ann was first, but eve has fewer */
    (void) pthread_join(fair.thread, NULL);
    assert_int_equal(fair.result, 0);
    assert_false(atomic_load(&greedy.done));
    (void) close(ends[0]); /* nobody waits for ann's query any more */
    (void) pthread_join(greedy.thread, NULL);
    assert_int_equal(greedy.result, -ECANCELED);
    broker_give(kit.broker, "ann");
    broker_give(kit.broker, "bob");
    broker_give(kit.broker, "eve");
    assert_null(kit.broker->holding);
    (void) close(ends[1]);
    kit_close(&kit);
}

/* Whether it is silent or says more than anybody wants to know. */
static void test_deadline(void **state)
{
    static const char *const kinds[] = { "wait", "flood" };

    (void) state;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        json_t *order = json_pack("{s:s, s:{}}", "sql", kinds[i], "source");
        struct connector_failure failure;
        json_t *done;
        int fd;

        assert_int_equal(
            connector_run(&(struct connector_call){ .order = order,
                                                    .deadline_us = clock_now_us() + 100000,
                                                    .result_fd = -1,
                                                    .cancel_fd = -1 },
                          &fd, &done, &failure),
            -1);
        assert_string_equal(failure.word, "timeout");
        connector_failure_release(&failure);
        json_decref(order);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_query),     cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_garbage),   cmocka_unit_test(test_bad_requests),
        cmocka_unit_test(test_too_large), cmocka_unit_test(test_too_many),
        cmocka_unit_test(test_cancel),    cmocka_unit_test(test_budget),
        cmocka_unit_test(test_looking),   cmocka_unit_test(test_replay),
        cmocka_unit_test(test_sweep),     cmocka_unit_test(test_quota),
        cmocka_unit_test(test_keys),      cmocka_unit_test(test_shares),
        cmocka_unit_test(test_deadline),
    };

    (void) signal(SIGPIPE, SIG_IGN);
    if (argc == 2 && strcmp(argv[1], CONNECT_COMMAND) == 0)
        return fake_connector_main();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
