/* Executions: events, output, what is kept, the end; with an engine that runs nothing. */
#include "service_harness.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "service/session/files_internal.h"

#include "base/banned.h"

static void check_fault(const struct fault *fault, enum fault_kind kind, const char *type)
{
    if (fault->kind != kind || !fault->type || strcmp(fault->type, type) != 0)
        fail_msg("%d %s: %s", fault->kind, fault->type ? fault->type : "-", fault->detail);
}

static void wait_for_run(struct execution *x)
{
    int64_t give_up = clock_now_us() + PATIENCE_US;

    while (execution_state(x) != EXECUTION_RUNNING)
        assert_true(clock_now_us() < give_up);
}

/* All events of an execution, as text: "stdout:abc;display;receipt;" */
static void events_to_text(struct execution *x, struct event_cursor cursor, size_t buf_size,
                           char *text, size_t size)
{
    struct event event;
    char buf[4096];
    size_t len = 0;
    int r;

    text[0] = 0;
    while ((r = execution_next_event(x, &cursor, buf, buf_size, PATIENCE_US, &event)) == 1) {
        const char *name = event_kind_name(event.kind);

        assert_true(event.text_len <= buf_size);
        if (event.kind == EVENT_STDOUT || event.kind == EVENT_STDERR)
            len += (size_t) snprintf(text + len, size - len, "%s:%.*s;", name, (int) event.text_len,
                                     event.text);
        else
            len += (size_t) snprintf(text + len, size - len, "%s;", name);
        event_release(&event);
    }
    assert_int_equal(r, -1);
}

static void test_events(void **state)
{
    static const struct {
        const char *code, *events;
    } cases[] = {
        { "say hello", "stdout:hello;receipt;" },
        { "say ", "receipt;" },
        { "warn oops", "stderr:oops;receipt;" },
        { "show before", "stdout:before;display;stdout:after;receipt;" },
        { "half", "stdout:a;display;stdout:\xe2\x82\xac z\xef\xbf\xbd;receipt;" },
    };
    struct service *service = service_new(NULL);
    char text[1000];

    (void) state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct execution *x = start(service, &local, NULL, cases[i].code);

        /* While it runs, and once more when it has ended: the same. */
        for (int round = 0; round < 2; round++) {
            events_to_text(x, (struct event_cursor){ 0 }, 4096, text, sizeof text);
            assert_string_equal(text, cases[i].events);
        }
        execution_unref(x);
    }
    service_end(service);
}

/* ---- requests of cells ---- */

static int answer_ask(void *arg, const char *json, size_t len)
{
    int ends[2];

    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_int_equal(strlen(json), len);
    (*(int *) arg)++;
    assert_true(write(ends[1], "answered", 8) == 8);
    (void) close(ends[1]);
    return ends[0];
}

/* What is about packages is the service's, everything else goes to whoever started the execution;
 * without such a one, and of what is no request, there is a refusal. */
static void test_asks(void **state)
{
    static const struct {
        const char *code, *with, *without; /* a part of what is printed */
        int calls;
    } cases[] = {
        { "ask {\"op\": \"query\", \"sql\": \"SELECT 1\"}", "answered", "nobody to ask", 1 },
        { "ask {\"op\": 3}", "answered", "nobody to ask", 1 },
        { "ask {}", "answered", "nobody to ask", 1 },
        { "ask []", "malformed", "malformed", 0 },
        { "ask {\"op\"", "malformed", "malformed", 0 },
        { "ask [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[", "malformed", "malformed", 0 },
        { "ask {\"op\": \"install\"}", "install", "install", 0 },
    };
    struct service *service = service_new(NULL);

    (void) state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        for (int with = 0; with < 2; with++) {
            struct execution_request request;
            struct execution *x = NULL;
            struct fault fault;
            json_t *receipt;
            const char *out;
            int calls = 0;

            execution_request_init(&request);
            request.kind = EXECUTION_CELL;
            request.code = cases[i].code;
            request.code_len = strlen(cases[i].code);
            if (with) {
                request.ask = answer_ask;
                request.ask_arg = &calls;
                request.ask_us = 1000000;
            }
            assert_int_equal(execution_run_here(service, &local, NULL, &request, &x, &fault), 0);
            receipt = receipt_of(x);
            out = json_string_value(json_object_get(receipt, "stdout"));
            /* A service without packages has nobody to ask at all, unless somebody answers. */
            if (out[0] && !strstr(out, with ? cases[i].with : cases[i].without))
                fail_msg("%s: %s", cases[i].code, out);
            assert_true(out[0] || !with);
            assert_int_equal(calls, with ? cases[i].calls : 0);
            json_decref(receipt);
            execution_unref(x);
        }
    }
    service_end(service);
}

static void test_cursor_from_offset(void **state)
{
    struct service *service = service_new(NULL);
    struct execution *x;
    struct fault fault;
    char text[100];

    (void) state;
    x = run_here(service, &local, NULL, "say 0123456789", &fault);
    events_to_text(x, (struct event_cursor){ .out = 7 }, 4096, text, sizeof text);
    assert_string_equal(text, "stdout:789;receipt;");
    events_to_text(x, (struct event_cursor){ .out = 700 }, 4096, text, sizeof text);
    assert_string_equal(text, "receipt;");
    execution_unref(x);
    service_end(service);
}

static void test_no_event_in_time(void **state)
{
    struct service *service = service_new(NULL);
    struct execution *x = start(service, &local, NULL, "wait");
    struct event_cursor cursor = { 0 };
    struct event event;
    char buf[64];

    (void) state;
    wait_for_run(x);
    assert_int_equal(execution_next_event(x, &cursor, buf, sizeof buf, 0, &event), 0);
    assert_int_equal(execution_next_event(x, &cursor, buf, sizeof buf, 1000, &event), 0);
    assert_false(execution_wait(x, 0));
    gate_open();
    assert_int_equal(execution_next_event(x, &cursor, buf, sizeof buf, PATIENCE_US, &event), 1);
    gate_close();
    assert_int_equal(event.kind, EVENT_RECEIPT);
    check_text(event.json, "status", "ok");
    event_release(&event);
    assert_int_equal(execution_next_event(x, &cursor, buf, sizeof buf, PATIENCE_US, &event), -1);
    execution_unref(x);
    service_end(service);
}

/* Nobody reads while a lot is printed; then all of it is there, on disk and not in memory. */
static void test_flood(void **state)
{
    struct service *service = service_new(NULL);
    struct session *session = session_new(service, &local);
    struct event_cursor cursor = { 0 };
    struct service_stats stats;
    struct execution *x;
    struct event event;
    struct fault fault;
    int64_t total, kept, sum = 0;
    char buf[64 * 1024];
    size_t len;
    bool done;

    (void) state;
    x = run_here(service, &local, session, "flood 20000000", &fault);
    assert_non_null(x);
    while (execution_next_event(x, &cursor, buf, sizeof buf, PATIENCE_US, &event) == 1) {
        if (event.kind == EVENT_STDOUT) {
            assert_int_equal(event.offset, sum);
            sum = event.next;
        }
        event_release(&event);
    }
    assert_int_equal(sum, 20000000);
    assert_int_equal(execution_read_output(x, STREAM_OUT, 19999990, buf, sizeof buf, &len, &total,
                                           &kept, &done, &fault),
                     0);
    assert_int_equal(len, 10);
    assert_int_equal(total, 20000000);
    assert_int_equal(kept, 20000000);
    assert_true(done);
    assert_true(execution_read_output(x, STREAM_OUT, 20000001, buf, sizeof buf, &len, &total, &kept,
                                      &done, &fault) < 0);
    check_fault(&fault, FAULT_INVALID, "offset-beyond-end");
    assert_true(execution_read_output(x, STREAM_OUT, -1, buf, sizeof buf, &len, &total, &kept,
                                      &done, &fault) < 0);
    check_fault(&fault, FAULT_INVALID, "offset-malformed");
    service_get_stats(service, &stats);
    assert_int_equal(stats.kept_disk_bytes, 20000000);
    assert_true(stats.kept_memory_bytes < 3000000);
    execution_unref(x);
    session_unref(session);
    service_end(service);
}

/* What did not fit the disk is told as a gap, and the rest goes on. */
static void test_gap(void **state)
{
    struct service_config config;
    struct service *service;
    struct event_cursor cursor = { 0 };
    struct execution *x;
    struct event event;
    struct fault fault;
    int64_t text = 0, left_out = 0;
    char buf[4096];

    (void) state;
    config_init(&config);
    config.kept_disk_bytes = 100000;
    service = service_new(&config);
    x = run_here(service, &local, NULL, "flood 1000000", &fault);
    while (execution_next_event(x, &cursor, buf, sizeof buf, PATIENCE_US, &event) == 1) {
        text += (int64_t) event.text_len;
        left_out += event.left_out;
        event_release(&event);
    }
    assert_int_equal(text, 200000);
    assert_int_equal(left_out, 800000);
    execution_unref(x);
    service_end(service);
}

static bool is_kept(struct service *service, const char *id)
{
    struct execution *x;
    struct fault fault;

    if (execution_find(service, &local, id, &x, &fault) < 0)
        return false;
    execution_unref(x);
    return true;
}

static void test_kept(void **state)
{
    struct service_config config;
    struct service *service;
    struct execution *list[4];
    struct fault fault;
    char ids[4][EXECUTION_ID_MAX];

    (void) state;
    atomic_store(&test_now, USEC_PER_SEC);
    config_init(&config);
    config.kept_count = 3;
    service = service_new(&config);
    for (int i = 0; i < 4; i++) {
        list[i] = run_here(service, &local, NULL, "say x", &fault);
        (void) snprintf(ids[i], sizeof ids[i], "%s", execution_id(list[i]));
        execution_unref(list[i]);
    }
    assert_false(is_kept(service, ids[0]));
    assert_true(is_kept(service, ids[1]));
    atomic_fetch_add(&test_now, config.kept_us);
    service_sweep(service);
    assert_true(is_kept(service, ids[3]));
    atomic_fetch_add(&test_now, 1);
    service_sweep(service);
    assert_false(is_kept(service, ids[3]));
    atomic_store(&test_now, 0);
    service_end(service);
}

/* Memory, disk, and the quota of the session push out the oldest. */
static void test_kept_is_bounded(void **state)
{
    struct service_config config;
    struct service *service;
    struct session *session;
    struct service_stats stats;
    struct execution *x;
    struct fault fault;

    (void) state;
    config_init(&config);
    config.kept_disk_bytes = 1000000;
    config.session.disk_bytes = config.session.file_bytes = 1000000;
    service = service_new(&config);
    session = session_new(service, &local);
    for (int i = 0; i < 20; i++) {
        x = run_here(service, &local, i % 2 ? session : NULL, "flood 300000", &fault);
        assert_non_null(x);
        /* All of each is kept, since older ones made way. */
        assert_int_equal(x->logs[STREAM_OUT].kept, 300000);
        execution_unref(x);
        service_get_stats(service, &stats);
        assert_true(stats.kept_disk_bytes <= 1000000);
    }
    session_unref(session);
    service_end(service);
}

static void test_receipt_while_running(void **state)
{
    struct service *service = service_new(NULL);
    struct session *session = session_new(service, &local);
    struct execution *a = start(service, &local, session, "wait"),
                     *b = start(service, &local, session, "say b"), *found;
    struct fault fault;
    json_t *json;

    (void) state;
    wait_for_run(a);
    assert_int_equal(execution_find(service, &local, execution_id(a), &found, &fault), 0);
    json = receipt_of(found);
    check_text(json, "status", "running");
    json_decref(json);
    execution_unref(found);
    json = receipt_of(b);
    check_text(json, "status", "waiting");
    check_text(json, "session_id", session_id(session));
    json_decref(json);
    gate_open();
    assert_true(execution_wait(b, PATIENCE_US));
    gate_close();
    json = receipt_of(b);
    check_text(json, "status", "ok");
    check_text(json, "stdout", "b");
    check_text(json, "execution_id", execution_id(b));
    assert_int_equal(json_integer_value(json_object_get(json, "execution_count")), 2);
    json_decref(json);
    execution_unref(a);
    execution_unref(b);
    session_unref(session);
    service_end(service);
}

struct refused {
    const char *type, *code;
    enum execution_kind kind;
    enum fault_kind fault;
    bool session;
    int64_t wall, memory, reply;
    const char *env[2];
};

static void test_bad_requests(void **state)
{
    static const struct refused cases[] = {
        { .type = "code-missing", .fault = FAULT_INVALID },
        { .type = "limit-above-ceiling", .code = "x", .fault = FAULT_INVALID, .wall = 301000000 },
        { .type = "limit-above-ceiling",
          .code = "x",
          .fault = FAULT_INVALID,
          .session = true,
          .wall = 301000000 },
        { .type = "limit-malformed", .code = "x", .fault = FAULT_INVALID, .wall = 1 },
        { .type = "limit-not-here",
          .code = "x",
          .fault = FAULT_INVALID,
          .session = true,
          .memory = 100000000 },
        { .type = "limit-above-ceiling", .code = "x", .fault = FAULT_INVALID, .memory = INT64_MAX },
        { .type = "reply-too-large", .code = "x", .fault = FAULT_INVALID, .reply = INT64_MAX },
        { .type = "kind-not-in-session",
          .code = "x",
          .kind = EXECUTION_SCRIPT,
          .fault = FAULT_INVALID,
          .session = true },
        { .type = "env-not-here",
          .code = "x",
          .kind = EXECUTION_SHELL,
          .fault = FAULT_INVALID,
          .session = true,
          .env = { "A=b" } },
        { .type = "env-malformed", .code = "x", .fault = FAULT_INVALID, .env = { "A-=b" } },
    };
    struct service *service = service_new(NULL);
    struct session *session = session_new(service, &local);
    struct execution *x;
    struct fault fault;

    (void) state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct execution_request request = request_of(cases[i].code ? cases[i].code : "");

        request.code = cases[i].code;
        request.kind = cases[i].kind;
        request.env = cases[i].env;
        request.limits.wall_us = cases[i].wall ? cases[i].wall : -1;
        request.limits.memory_bytes = cases[i].memory ? cases[i].memory : -1;
        request.reply_bytes = cases[i].reply ? cases[i].reply : -1;
        assert_true(execution_run_here(service, &local, cases[i].session ? session : NULL, &request,
                                       &x, &fault) < 0);
        check_fault(&fault, cases[i].fault, cases[i].type);
    }
    assert_string_equal(order, "");
    session_unref(session);
    service_end(service);
}

static void test_large_and_nul_code(void **state)
{
    struct service *service = service_new(NULL);
    struct execution_request request = request_of("a");
    struct execution *x;
    struct fault fault;

    (void) state;
    request.code = "a\0b";
    request.code_len = 3;
    assert_true(execution_run_here(service, &local, NULL, &request, &x, &fault) < 0);
    check_fault(&fault, FAULT_INVALID, "code-malformed");
    request.code_len = (size_t) service->config.code_bytes_max + 1;
    assert_true(execution_run_here(service, &local, NULL, &request, &x, &fault) < 0);
    check_fault(&fault, FAULT_TOO_LARGE, "code-too-large");
    service_end(service);
}

static void *open_gate_when_draining(void *arg)
{
    struct service *service = arg;
    struct service_stats stats;

    do
        service_get_stats(service, &stats);
    while (!stats.draining);
    gate_open();
    return NULL;
}

static void test_drain_lets_finish(void **state)
{
    struct service *service = service_new(NULL);
    struct session *session = session_new(service, &local), *other;
    struct execution *x = start(service, &local, session, "wait");
    struct session_request request;
    pthread_t thread;
    struct fault fault;

    (void) state;
    wait_for_run(x);
    assert_true(service_is_ready(service));
    assert_int_equal(pthread_create(&thread, NULL, open_gate_when_draining, service), 0);
    service_drain(service);
    pthread_join(thread, NULL);
    gate_close();
    assert_false(service_is_ready(service));
    assert_true(execution_wait(x, PATIENCE_US));
    assert_int_equal(status_of(x), RUN_OK);
    assert_null(run_here(service, &local, NULL, "say x", &fault));
    check_fault(&fault, FAULT_UNAVAILABLE, "draining");
    assert_true(fault.retry_after_s > 0);
    session_request_init(&request);
    assert_true(session_create(service, &local, &request, &other, &fault) < 0);
    check_fault(&fault, FAULT_UNAVAILABLE, "draining");
    assert_true(session_find(service, &local, session_id(session), &other, &fault) < 0);
    check_fault(&fault, FAULT_NOT_FOUND, "session-ended");
    execution_unref(x);
    session_unref(session);
    service_end(service);
}

static void test_drain_stops_the_rest(void **state)
{
    struct service_config config;
    struct service *service;
    struct session *session;
    struct execution *a, *b, *c;

    (void) state;
    config_init(&config);
    config.grace_us = 0;
    service = service_new(&config);
    session = session_new(service, &local);
    a = start(service, &local, session, "wait");
    b = start(service, &local, session, "say b");
    c = start(service, &local, NULL, "wait c");
    wait_for_run(a);
    wait_for_run(c);
    service_drain(service);
    assert_true(execution_wait(a, PATIENCE_US) && execution_wait(b, PATIENCE_US) &&
                execution_wait(c, PATIENCE_US));
    assert_int_equal(status_of(a), RUN_CANCELLED);
    assert_int_equal(status_of(b), RUN_CANCELLED);
    assert_int_equal(status_of(c), RUN_CANCELLED);
    assert_null(strstr(order, "say b"));
    execution_unref(a);
    execution_unref(b);
    execution_unref(c);
    session_unref(session);
    service_end(service);
}

static void test_hangup(void **state)
{
    struct service *service = service_new(NULL);
    struct session *session = session_new(service, &local);
    struct execution_request request = request_of("wait");
    struct execution *x;
    struct fault fault;
    int pair[2];

    (void) state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    request.hangup_fd = pair[0];
    close(pair[1]);
    assert_int_equal(execution_run_here(service, &local, session, &request, &x, &fault), 0);
    assert_int_equal(status_of(x), RUN_CANCELLED);
    execution_unref(x);
    close(pair[0]);
    /* One that stays gets its receipt, pipelined bytes or not. */
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    assert_int_equal(write(pair[1], "GET /", 5), 5);
    request = request_of("say x");
    request.hangup_fd = pair[0];
    assert_int_equal(execution_run_here(service, &local, session, &request, &x, &fault), 0);
    assert_int_equal(status_of(x), RUN_OK);
    execution_unref(x);
    close(pair[0]);
    close(pair[1]);
    session_unref(session);
    service_end(service);
}

static void test_kinds(void **state)
{
    struct service *service = service_new(NULL);
    struct session *session = session_new(service, &local);
    struct execution_request request = request_of("say x");
    struct execution *x;
    struct fault fault;
    json_t *json;

    (void) state;
    request.kind = EXECUTION_SHELL;
    assert_int_equal(execution_run_here(service, &local, session, &request, &x, &fault), 0);
    execution_unref(x);
    assert_int_equal(atomic_load(&shells_live), 1);
    request = request_of("lose");
    request.kind = EXECUTION_SHELL;
    assert_int_equal(execution_run_here(service, &local, session, &request, &x, &fault), 0);
    json = receipt_of(x);
    assert_true(json_is_true(json_object_get(json, "shell_lost")));
    assert_true(json_is_false(json_object_get(json, "session_lost")));
    json_decref(json);
    execution_unref(x);
    assert_int_equal(atomic_load(&shells_live), 0);
    /* The variables are still there. */
    x = run_here(service, &local, session, "say y", &fault);
    assert_non_null(x);
    execution_unref(x);
    request = request_of("say z");
    request.kind = EXECUTION_SCRIPT;
    assert_int_equal(execution_run_here(service, &local, NULL, &request, &x, &fault), 0);
    execution_unref(x);
    session_unref(session);
    service_end(service);
}

struct crowd {
    struct service *service;
    struct session *sessions[4];
    int number;
};

static void *crowd_reader(void *arg)
{
    struct execution *x = arg;
    char text[200];

    events_to_text(x, (struct event_cursor){ 0 }, 64, text, sizeof text);
    assert_non_null(strstr(text, "receipt;"));
    execution_unref(x);
    return NULL;
}

/* Many at once; each gets its own output. */
static void *crowd_main(void *arg)
{
    struct crowd *crowd = arg;

    for (int i = 0; i < 100; i++) {
        char code[40], want[32];
        struct session *session = i % 5 ? crowd->sessions[(crowd->number + i) % 4] : NULL;
        struct execution *x;
        struct fault fault;
        pthread_t reader;
        json_t *json;

        (void) snprintf(want, sizeof want, "%d-%d", crowd->number, i);
        (void) snprintf(code, sizeof code, "say %s", want);
        if (i % 3 == 0) {
            x = start(crowd->service, &local, session, code);
            assert_int_equal(pthread_create(&reader, NULL, crowd_reader, execution_ref(x)), 0);
            assert_true(execution_wait(x, PATIENCE_US));
            pthread_join(reader, NULL);
        } else {
            x = run_here(crowd->service, &local, session, code, &fault);
        }
        assert_non_null(x);
        json = receipt_of(x);
        check_text(json, "stdout", want);
        json_decref(json);
        execution_unref(x);
    }
    return NULL;
}

static void test_crowd(void **state)
{
    struct service_config config;
    struct crowd crowds[8];
    struct session *sessions[4];
    struct service *service;
    struct service_stats stats;
    pthread_t threads[8];

    (void) state;
    config_init(&config);
    config.kept_count = 10;
    config.sweep_us = 1000;
    service = service_new(&config);
    for (int i = 0; i < 4; i++)
        sessions[i] = session_new(service, &local);
    for (int i = 0; i < 8; i++) {
        crowds[i] = (struct crowd){ .service = service, .number = i };
        memcpy(crowds[i].sessions, sessions, sizeof sessions);
        assert_int_equal(pthread_create(&threads[i], NULL, crowd_main, &crowds[i]), 0);
    }
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    service_get_stats(service, &stats);
    assert_int_equal(stats.executions[RUN_OK], 800);
    assert_int_equal(stats.duration_count, 800);
    assert_int_equal(stats.executions_running, 0);
    for (int i = 0; i < 4; i++)
        session_unref(sessions[i]);
    service_end(service);
}

static void test_paths(void **state)
{
    static const struct {
        const char *path;
        size_t len;
        bool good;
    } cases[] = {
        { "a", 1, true },        { "a/b.c/d", 7, true }, { "...", 3, true },   { ".a", 2, true },
        { "\xff\xfe", 2, true }, { "", 0, false },       { ".", 1, false },    { "..", 2, false },
        { "a/../b", 6, false },  { "a/..", 4, false },   { "../a", 4, false }, { "./a", 3, false },
        { "/a", 2, false },      { "a//b", 4, false },   { "a/", 2, false },   { "a\0b", 3, false },
    };
    char path[FILE_PATH_MAX + 1];
    struct fault fault;
    char *copy;

    (void) state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int r = path_copy(cases[i].path, cases[i].len, false, "path", &copy, &fault);

        if ((r == 0) != cases[i].good)
            fail_msg("'%s': %d", cases[i].path, r);
        if (r == 0)
            free(copy);
        else
            check_fault(&fault, FAULT_BAD_REQUEST, "path-malformed");
    }
    assert_int_equal(path_copy("", 0, true, "dir", &copy, &fault), 0);
    free(copy);
    for (size_t i = 0; i < sizeof path; i++)
        path[i] = i % 200 == 199 ? '/' : 'a';
    assert_true(path_copy(path, FILE_PATH_MAX + 1, false, "path", &copy, &fault) < 0);
    assert_int_equal(path_copy(path, FILE_PATH_MAX - 1, false, "path", &copy, &fault), 0);
    free(copy);
    memset(path, 'a', 256);
    assert_true(path_copy(path, 256, false, "path", &copy, &fault) < 0);
    assert_int_equal(path_copy(path, 255, false, "path", &copy, &fault), 0);
    free(copy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_events),
        cmocka_unit_test(test_cursor_from_offset),
        cmocka_unit_test(test_no_event_in_time),
        cmocka_unit_test(test_flood),
        cmocka_unit_test(test_gap),
        cmocka_unit_test(test_kept),
        cmocka_unit_test(test_kept_is_bounded),
        cmocka_unit_test(test_receipt_while_running),
        cmocka_unit_test(test_bad_requests),
        cmocka_unit_test(test_large_and_nul_code),
        cmocka_unit_test(test_drain_lets_finish),
        cmocka_unit_test(test_drain_stops_the_rest),
        cmocka_unit_test(test_hangup),
        cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_asks),
        cmocka_unit_test(test_crowd),
        cmocka_unit_test(test_paths),
    };

    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
