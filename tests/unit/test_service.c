/*
 * The service with a real engine and a real store: what only boxes can show. Needs a host that can
 * make boxes; exits 77 without.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <archive.h>
#include <archive_entry.h>
#include <cmocka.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "engine/builder.h"
#include "service/access/audit.h"
#include "service/service.h"
#include "store/audit.h"
#include "store/keys.h"
#include "store/sessions.h"

#include "packages_dir.h"

#include "base/banned.h"

/* PID 1 is a clone of the builder and sealed; with the thread sanitizer's runtime in it, it does
 * not live long enough to wait in a pool. */
#ifdef __SANITIZE_THREAD__
#define POOL 0
#else
#define POOL 2
#endif

#define PATIENCE_US (60 * USEC_PER_SEC)
#define SKIP        77

static const struct caller local = { .listener = "test" };
static char data_dir[] = "/tmp/glovebox-test-XXXXXX";
static struct store *store;
static struct service *service;

/* ---- around the tests ---- */

static struct session *session_new(void)
{
    struct session_request request;
    struct session *session = NULL;
    struct fault fault;

    session_request_init(&request);
    request.env = (const char *const[]){ "COLOUR=blue", NULL };
    if (session_create(service, &local, &request, &session, &fault) < 0)
        fail_msg("%s", fault.detail);
    return session;
}

static void session_done(struct session *session)
{
    struct fault fault;

    assert_int_equal(session_delete(session, &fault), 0);
    session_unref(session);
}

static struct execution_request request_of(enum execution_kind kind, const char *code)
{
    struct execution_request request;

    execution_request_init(&request);
    request.kind = kind;
    request.code = code;
    request.code_len = strlen(code);
    return request;
}

/* The receipt of a run that must not be refused. */
static json_t *run(struct session *session, const struct execution_request *request)
{
    struct execution *x;
    struct fault fault;
    json_t *receipt = NULL;

    if (execution_run_here(service, &local, session, request, &x, &fault) < 0 ||
        execution_receipt(x, &receipt, &fault) < 0)
        fail_msg("%s: %s", request->code, fault.detail);
    execution_unref(x);
    return receipt;
}

static void check(const json_t *receipt, const char *status, const char *out)
{
    const char *is = json_string_value(json_object_get(receipt, "status"));
    const char *text = json_string_value(json_object_get(receipt, "stdout"));

    if (strcmp(is, status) != 0 || (out && strcmp(text, out) != 0))
        fail_msg("%s", json_dumps(receipt, JSON_INDENT(1)));
}

static void check_run(struct session *session, enum execution_kind kind, const char *code,
                      const char *status, const char *out)
{
    struct execution_request request = request_of(kind, code);
    json_t *receipt = run(session, &request);

    check(receipt, status, out);
    json_decref(receipt);
}

/* ---- the tests ---- */

static void test_session_remembers(void **state)
{
    struct session *session = session_new();
    struct execution_request request = request_of(EXECUTION_CELL, "x * 2");
    json_t *receipt;

    (void) state;
    check_run(session, EXECUTION_CELL, "x = 21; import os; print(os.environ['COLOUR'])", "ok",
              "blue\n");
    receipt = run(session, &request);
    check(receipt, "ok", "");
    assert_string_equal(
        json_string_value(json_object_get(json_object_get(receipt, "result"), "text/plain")), "42");
    assert_int_equal(json_integer_value(json_object_get(receipt, "execution_count")), 2);
    json_decref(receipt);
    check_run(session, EXECUTION_CELL, "import sys; sys.exit(3)", "error", NULL);
    request = request_of(EXECUTION_CELL, "print(input(), x)");
    request.input = "typed\n";
    request.input_len = 6;
    receipt = run(session, &request);
    check(receipt, "ok", "typed 21\n");
    json_decref(receipt);
    session_done(session);
}

static void test_commands_and_shell(void **state)
{
    struct session *session = session_new();
    struct execution_request request = request_of(EXECUTION_COMMAND, "echo $COLOUR $SIZE; exit 4");
    json_t *receipt;

    (void) state;
    request.env = (const char *const[]){ "SIZE=big", NULL };
    receipt = run(session, &request);
    check(receipt, "error", "blue big\n");
    assert_int_equal(json_integer_value(json_object_get(receipt, "exit_code")), 4);
    json_decref(receipt);
    check_run(session, EXECUTION_SHELL, "mkdir -p d && cd d && export WHERE=here", "ok", "");
    check_run(session, EXECUTION_SHELL, "pwd; echo $WHERE", "ok", "/workspace/d\nhere\n");
    request = request_of(EXECUTION_SHELL, "exit 0");
    receipt = run(session, &request);
    assert_true(json_is_true(json_object_get(receipt, "shell_lost")));
    json_decref(receipt);
    check_run(session, EXECUTION_SHELL, "pwd", "ok", "/workspace\n");
    session_done(session);
}

static void test_timeout_keeps_the_session(void **state)
{
    struct session *session = session_new();
    struct execution_request request = request_of(EXECUTION_CELL, "import time; time.sleep(100)");
    json_t *receipt;

    (void) state;
    check_run(session, EXECUTION_CELL, "y = 'kept'", "ok", "");
    request.limits.wall_us = USEC_PER_SEC / 5;
    receipt = run(session, &request);
    check(receipt, "timeout", NULL);
    assert_true(json_is_false(json_object_get(receipt, "session_lost")));
    json_decref(receipt);
    check_run(session, EXECUTION_CELL, "print(y)", "ok", "kept\n");
    session_done(session);
}

static void test_loss(void **state)
{
    struct session *session = session_new();
    struct execution_request request =
        request_of(EXECUTION_CELL, "open('f', 'w').write('file'); import os; os._exit(9)");
    struct execution *x;
    struct fault fault;
    json_t *receipt = run(session, &request);

    (void) state;
    assert_true(json_is_true(json_object_get(receipt, "session_lost")));
    json_decref(receipt);
    request = request_of(EXECUTION_CELL, "print(open('f').read())");
    assert_true(execution_run_here(service, &local, session, &request, &x, &fault) < 0);
    assert_int_equal(fault.kind, FAULT_CONFLICT);
    receipt = run(session, &request);
    check(receipt, "ok", "file\n");
    json_decref(receipt);
    session_done(session);
}

static void test_interrupt_and_stream(void **state)
{
    struct session *session = session_new();
    struct execution_request request =
        request_of(EXECUTION_CELL, "import time\nprint('go', flush=True)\ntime.sleep(100)");
    struct event_cursor cursor = { 0 };
    struct execution *x;
    struct event event;
    struct fault fault;
    char buf[4096];

    (void) state;
    assert_int_equal(execution_start(service, &local, session, &request, &x, &fault), 0);
    assert_int_equal(execution_next_event(x, &cursor, buf, sizeof buf, PATIENCE_US, &event), 1);
    assert_int_equal(event.kind, EVENT_STDOUT);
    assert_memory_equal(event.text, "go\n", 3);
    assert_int_equal(execution_interrupt(x, &fault), 0);
    do {
        assert_int_equal(execution_next_event(x, &cursor, buf, sizeof buf, PATIENCE_US, &event), 1);
        if (event.kind == EVENT_RECEIPT) {
            check(event.json, "cancelled", "go\n");
            assert_true(json_is_false(json_object_get(event.json, "session_lost")));
        }
        event_release(&event);
    } while (event.kind != EVENT_RECEIPT);
    execution_unref(x);
    check_run(session, EXECUTION_CELL, "print(1)", "ok", "1\n");
    session_done(session);
}

static void test_display_in_order(void **state)
{
    struct execution_request request =
        request_of(EXECUTION_CELL, "print('a', flush=True); display('b'); print('c')");
    struct session *session = session_new();
    struct event_cursor cursor = { 0 };
    struct execution *x;
    struct event event;
    struct fault fault;
    char buf[4096], kinds[64] = "";
    size_t len = 0;

    (void) state;
    assert_int_equal(execution_start(service, &local, session, &request, &x, &fault), 0);
    while (execution_next_event(x, &cursor, buf, sizeof buf, PATIENCE_US, &event) == 1) {
        len +=
            (size_t) snprintf(kinds + len, sizeof kinds - len, "%s ", event_kind_name(event.kind));
        event_release(&event);
    }
    execution_unref(x);
    /* What was printed before it comes before it; what is printed after it may overtake it, since
     * they come by different ways. */
    assert_memory_equal(kinds, "stdout ", 7);
    assert_non_null(strstr(kinds, " display "));
    assert_string_equal(kinds + strlen(kinds) - 9, " receipt ");
    session_done(session);
}

static void test_oneshot(void **state)
{
    struct execution_request request = request_of(EXECUTION_CELL, "z = 5\nprint(z)");

    (void) state;
    check_run(NULL, EXECUTION_CELL, request.code, "ok", "5\n");
    check_run(NULL, EXECUTION_CELL, "print('z' in globals())", "ok", "False\n");
    check_run(NULL, EXECUTION_SCRIPT, "print(__name__)", "ok", "__main__\n");
}

static void test_flood(void **state)
{
    struct execution_request request = request_of(
        EXECUTION_CELL, "line = 'x' * 999 + '\\n'\nfor i in range(30000): print(line, end='')");
    struct session *session = session_new();
    struct service_stats before, after;
    struct execution *x;
    struct fault fault;
    int64_t total, kept;
    char buf[100];
    size_t len;
    bool done;

    (void) state;
    service_get_stats(service, &before);
    assert_int_equal(execution_run_here(service, &local, session, &request, &x, &fault), 0);
    service_get_stats(service, &after);
    assert_int_equal(execution_read_output(x, STREAM_OUT, 29999001, buf, sizeof buf, &len, &total,
                                           &kept, &done, &fault),
                     0);
    assert_int_equal(total, 30000000);
    assert_int_equal(kept, 30000000);
    assert_int_equal(len, 100);
    assert_true(after.server_rss_bytes - before.server_rss_bytes < 10000000);
    execution_unref(x);
    session_done(session);
}

/* ---- files ---- */

static void upload(struct session *session, const char *path, const char *text, bool created)
{
    struct file_upload *upload;
    struct fault fault;
    bool is_created = false;

    if (files_upload_begin(session, path, strlen(path), -1, &upload, &fault) < 0 ||
        files_upload_write(upload, text, strlen(text), &fault) < 0 ||
        files_upload_commit(upload, &is_created, &fault) < 0)
        fail_msg("%s: %s", path, fault.detail);
    assert_int_equal(is_created, created);
}

static void test_files(void **state)
{
    struct session *session = session_new();
    struct file_reader reader, again;
    struct file_upload *file;
    struct file_list list;
    struct fault fault;
    char buf[64];

    (void) state;
    upload(session, "in/a.txt", "hello", true);
    check_run(session, EXECUTION_CELL, "print(open('in/a.txt').read())", "ok", "hello\n");
    assert_int_equal(files_open(session, "in/a.txt", 8, &reader, &fault), 0);
    assert_int_equal(reader.size, 5);
    assert_int_equal(read(reader.fd, buf, sizeof buf), 5);
    close(reader.fd);
    upload(session, "in/a.txt", "HELLO!", false);
    assert_int_equal(files_open(session, "in/a.txt", 8, &again, &fault), 0);
    close(again.fd);
    assert_string_not_equal(reader.etag, again.etag);
    /* Nothing of an upload that is given up. */
    assert_int_equal(files_upload_begin(session, "in/b.txt", 8, -1, &file, &fault), 0);
    assert_int_equal(files_upload_write(file, "x", 1, &fault), 0);
    files_upload_abort(file);
    assert_int_equal(files_list(session, "", 0, true, "", 0, 100, &list, &fault), 0);
    assert_int_equal(list.len, 2);
    assert_string_equal(list.items[0].path, "in");
    assert_string_equal(list.items[1].path, "in/a.txt");
    file_list_release(&list);
    assert_int_equal(files_move(session, "in/a.txt", 8, "out/b.txt", 9, false, &fault), 0);
    assert_int_equal(files_mkdir(session, "x/y", 3, &fault), 0);
    assert_true(files_delete(session, "x", 1, false, &fault) < 0);
    assert_int_equal(fault.kind, FAULT_CONFLICT);
    assert_int_equal(files_delete(session, "x", 1, true, &fault), 0);
    assert_true(files_open(session, "in/a.txt", 8, &reader, &fault) < 0);
    assert_int_equal(fault.kind, FAULT_NOT_FOUND);
    assert_true(files_open(session, "../etc/passwd", 13, &reader, &fault) < 0);
    assert_int_equal(fault.kind, FAULT_BAD_REQUEST);
    check_run(session, EXECUTION_CELL,
              "import os; os.symlink('/etc/passwd', 'link'); os.mkfifo('p')", "ok", "");
    assert_true(files_open(session, "link", 4, &reader, &fault) < 0);
    assert_true(files_open(session, "p", 1, &reader, &fault) < 0);
    assert_true(files_open(session, "out", 3, &reader, &fault) < 0);
    session_done(session);
}

static void test_upload_too_large(void **state)
{
    struct session_request request;
    struct session *session;
    struct file_upload *file;
    struct fault fault;
    char block[65536] = { 0 };
    int r = 0;

    (void) state;
    session_request_init(&request);
    request.limits.disk_bytes = 1 << 20;
    assert_int_equal(session_create(service, &local, &request, &session, &fault), 0);
    assert_true(files_upload_begin(session, "a", 1, (1 << 20) + 1, &file, &fault) < 0);
    assert_int_equal(fault.kind, FAULT_TOO_LARGE);
    assert_int_equal(files_upload_begin(session, "a", 1, -1, &file, &fault), 0);
    for (int i = 0; r == 0 && i < 100; i++)
        r = files_upload_write(file, block, sizeof block, &fault);
    assert_true(r < 0);
    assert_int_equal(fault.kind, FAULT_TOO_LARGE);
    files_upload_abort(file);
    upload(session, "a", "small", true);
    session_done(session);
}

struct bytes {
    char *data;
    size_t len;
};

static int bytes_add(void *arg, const void *data, size_t len)
{
    struct bytes *bytes = arg;

    bytes->data = realloc(bytes->data, bytes->len + len);
    assert_non_null(bytes->data);
    memcpy(bytes->data + bytes->len, data, len);
    bytes->len += len;
    return 0;
}

static int bytes_refuse(void *arg, const void *data, size_t len)
{
    (void) arg;
    (void) data;
    (void) len;
    return -1;
}

static void test_archive(void **state)
{
    struct session *session = session_new();
    struct bytes bytes = { 0 };
    struct archive_entry *entry;
    struct archive *archive;
    struct fault fault;
    char names[200] = "", text[64];
    size_t len = 0;

    (void) state;
    upload(session, "a.txt", "first", true);
    upload(session, "d/b.txt", "second", true);
    check_run(session, EXECUTION_CELL,
              "import os; os.symlink('/etc/passwd', 'link'); open(b'\\xff', 'w').write('raw')",
              "ok", NULL);
    assert_int_equal(files_archive(session, "", 0, bytes_add, &bytes, &fault), 0);
    archive = archive_read_new();
    archive_read_support_filter_gzip(archive);
    archive_read_support_format_tar(archive);
    assert_int_equal(archive_read_open_memory(archive, bytes.data, bytes.len), ARCHIVE_OK);
    while (archive_read_next_header(archive, &entry) == ARCHIVE_OK) {
        ssize_t n = archive_read_data(archive, text, sizeof text);

        len += (size_t) snprintf(names + len, sizeof names - len, "%s=%.*s;",
                                 archive_entry_pathname(entry), n > 0 ? (int) n : 0, text);
    }
    archive_read_free(archive);
    free(bytes.data);
    assert_string_equal(names, "a.txt=first;d/=;d/b.txt=second;\xff=raw;");
    assert_true(files_archive(session, "", 0, bytes_refuse, NULL, &fault) < 0);
    check_run(session, EXECUTION_CELL,
              "import os; _ = open('big', 'wb').write(os.urandom(1 << 20))", "ok", NULL);
    assert_true(files_archive(session, "", 0, bytes_refuse, NULL, &fault) < 0);
    assert_string_equal(fault.type, "reader-gone");
    assert_true(files_archive(session, "nowhere", 7, bytes_refuse, NULL, &fault) < 0);
    assert_int_equal(fault.kind, FAULT_NOT_FOUND);
    session_done(session);
}

/* The last: the service is closed, and the store tells about all of it. */
static void test_end(void **state)
{
    struct session *session = session_new();
    char id[SESSION_ID_MAX];
    struct service_stats stats;
    struct store_session record;
    struct audit_report report;
    struct gb_err err;
    int64_t count = 0;

    (void) state;
    (void) snprintf(id, sizeof id, "%s", session_id(session));
    session_unref(session);
    service_get_stats(service, &stats);
    for (size_t i = 0; i < SERVICE_STATUSES; i++)
        count += stats.executions[i];
    service_close(service);
    service = NULL;
    assert_int_equal(store_session_get(store, id, &record, &err), 0);
    assert_int_equal(record.end, STORE_END_SHUTDOWN);
    assert_int_equal(audit_verify(store, NULL, &report, &err), 0);
    assert_int_equal(report.broken_seq, 0);
    assert_int_equal(report.count, count);
}

/* What the service has to say about a failure. */
static void log_print(void *arg, enum log_level level, const char *line)
{
    (void) arg;
    if (level <= LOG_LEVEL_WARNING)
        fprintf(stderr, "# %s\n", line);
}

/* Whether nothing but empty directories was left. */
static bool dir_remove(void)
{
    DIR *dir = opendir(data_dir);
    struct dirent *entry;

    packages_remove(data_dir);
    while (dir && (entry = readdir(dir)))
        if (unlinkat(dirfd(dir), entry->d_name, 0) < 0)
            (void) unlinkat(dirfd(dir), entry->d_name, AT_REMOVEDIR); /* workspaces, empty by now */
    if (dir)
        (void) closedir(dir);
    return rmdir(data_dir) == 0;
}

/* Of durations that the limits allow there is more to say than that they were long. */
static void test_buckets(void **state)
{
    struct service_config config;

    (void) state;
    service_config_default(&config);
    for (size_t i = 1; i < SERVICE_BUCKETS - 1; i++)
        assert_true(service_bucket_us[i - 1] < service_bucket_us[i]);
    assert_true(service_bucket_us[SERVICE_BUCKETS - 2] >= config.wall_max_us);
    assert_true(service_bucket_us[SERVICE_BUCKETS - 2] >= config.command_wall_max_us);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_session_remembers),
        cmocka_unit_test(test_commands_and_shell),
        cmocka_unit_test(test_timeout_keeps_the_session),
        cmocka_unit_test(test_loss),
        cmocka_unit_test(test_interrupt_and_stream),
        cmocka_unit_test(test_display_in_order),
        cmocka_unit_test(test_oneshot),
        cmocka_unit_test(test_flood),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_upload_too_large),
        cmocka_unit_test(test_archive),
        cmocka_unit_test(test_end),
        cmocka_unit_test(test_buckets),
    };
    struct service_config config;
    struct gb_err err;
    int r;

    if (argc > 1 && strcmp(argv[1], BUILDER_COMMAND) == 0)
        return builder_main(argc, argv); /* the engine executes the program that it is part of */
    (void) signal(SIGPIPE, SIG_IGN);
    if (!mkdtemp(data_dir))
        return 1;
    service_config_default(&config);
    config.data_dir = data_dir;
    config.log = log_print;
    config.engine = (struct engine_config){ .preload = "", .landlock = true, .pool_boxes = POOL };
    r = store_open(&(struct store_config){ .dir = data_dir }, &store, &err);
    if (r == 0) {
        config.store = store;
        r = service_open(&config, &service, &err);
    }
    if (r == 0)
        r = service_wait_ready(service, &err);
    if (r < 0)
        fprintf(stderr, "skipped: %s\n", err.msg);
    r = r < 0 ? SKIP : cmocka_run_group_tests(tests, NULL, NULL);
    service_close(service);
    store_close(store);
    if (!dir_remove()) {
        fprintf(stderr, "%s is not empty\n", data_dir);
        return 1;
    }
    return r;
}
