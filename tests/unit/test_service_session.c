/* Sessions, their line, what is lost, who may have them; with an engine that runs nothing. */
#include "service_harness.h"

#include "service/watch/watch.h"

#include "base/banned.h"

static void check_fault(const struct fault *fault, enum fault_kind kind, const char *type)
{
    if (fault->kind != kind || !fault->type || strcmp(fault->type, type) != 0)
        fail_msg("%d %s: %s", fault->kind, fault->type ? fault->type : "-", fault->detail);
}

static void wait_for_line(struct session *session, int64_t len)
{
    int64_t give_up = clock_now_us() + PATIENCE_US;
    struct session_info info;

    do {
        session_get_info(session, &info);
        assert_true(clock_now_us() < give_up);
    } while (info.waiting != len || info.state != SESSION_RUNNING);
}

static void wait_for_run(struct execution *x)
{
    int64_t give_up = clock_now_us() + PATIENCE_US;

    while (execution_state(x) != EXECUTION_RUNNING)
        assert_true(clock_now_us() < give_up);
}

static void test_line_is_in_order(void **state)
{
    struct service *service = service_new(NULL);
    struct session *session = session_new(service, &local);
    struct execution *list[12];
    char code[12][16];

    (void) state;
    list[0] = start(service, &local, session, "wait");
    for (int i = 1; i < 12; i++) {
        (void) snprintf(code[i], sizeof code[i], "say %d", i);
        list[i] = start(service, &local, session, code[i]);
    }
    wait_for_line(session, 11);
    gate_open();
    for (int i = 0; i < 12; i++) {
        assert_true(execution_wait(list[i], PATIENCE_US));
        execution_unref(list[i]);
    }
    gate_close();
    assert_string_equal(order, "wait;say 1;say 2;say 3;say 4;say 5;say 6;say 7;say 8;say 9;say 10;"
                               "say 11;");
    assert_int_equal(atomic_load(&runs_most), 1);
    session_unref(session);
    service_end(service);
}

static void test_line_is_bounded(void **state)
{
    struct service_config config;
    struct service *service;
    struct session *session;
    struct execution *a, *b;
    struct fault fault;

    (void) state;
    config_init(&config);
    config.waiters_max = 1;
    service = service_new(&config);
    session = session_new(service, &local);
    a = start(service, &local, session, "wait");
    wait_for_run(a); /* it has left the line */
    b = start(service, &local, session, "say b");
    assert_null(run_here(service, &local, session, "say c", &fault));
    check_fault(&fault, FAULT_TOO_MANY, "session-busy");
    assert_true(fault.retry_after_s > 0);
    gate_open();
    assert_true(execution_wait(b, PATIENCE_US));
    gate_close();
    execution_unref(a);
    execution_unref(b);
    session_unref(session);
    service_end(service);
}

static void test_interrupt(void **state)
{
    struct service *service = service_new(NULL);
    struct session *session = session_new(service, &local);
    struct execution *a = start(service, &local, session, "wait a"), *b, *c;
    struct fault fault;
    json_t *receipt;

    (void) state;
    b = start(service, &local, session, "say b");
    c = start(service, &local, session, "say c");
    wait_for_line(session, 2);
    /* One that waits leaves the line without having run. */
    assert_int_equal(execution_interrupt(b, &fault), 0);
    assert_true(execution_wait(b, PATIENCE_US));
    receipt = receipt_of(b);
    check_text(receipt, "status", "cancelled");
    json_decref(receipt);
    /* One that runs is stopped, and the next is no worse for it. */
    wait_for_run(a);
    assert_int_equal(execution_interrupt(a, &fault), 0);
    assert_true(execution_wait(a, PATIENCE_US));
    assert_int_equal(status_of(a), RUN_CANCELLED);
    assert_true(execution_wait(c, PATIENCE_US));
    assert_int_equal(status_of(c), RUN_OK);
    assert_true(execution_interrupt(c, &fault) < 0);
    check_fault(&fault, FAULT_CONFLICT, "execution-ended");
    assert_string_equal(order, "wait a;say c;");
    execution_unref(a);
    execution_unref(b);
    execution_unref(c);
    session_unref(session);
    service_end(service);
}

static void test_loss_is_told_once(void **state)
{
    struct service *service = service_new(NULL);
    struct session *session = session_new(service, &local);
    struct session_info info;
    struct execution *x;
    struct fault fault;
    json_t *receipt;

    (void) state;
    x = run_here(service, &local, session, "lose", &fault);
    receipt = receipt_of(x);
    assert_true(json_is_true(json_object_get(receipt, "session_lost")));
    json_decref(receipt);
    execution_unref(x);
    session_get_info(session, &info);
    assert_int_equal(info.state, SESSION_LOST);
    assert_null(run_here(service, &local, session, "say lost", &fault));
    check_fault(&fault, FAULT_CONFLICT, "session-lost");
    assert_non_null(strstr(fault.detail, "files still exist"));
    x = run_here(service, &local, session, "say again", &fault);
    receipt = receipt_of(x);
    assert_true(json_is_false(json_object_get(receipt, "session_lost")));
    json_decref(receipt);
    execution_unref(x);
    assert_string_equal(order, "lose;say again;");
    session_unref(session);
    service_end(service);
}

/* A command needs no variables; who accepts the loss is not refused. */
static void test_loss_does_not_concern(void **state)
{
    struct service *service = service_new(NULL);
    struct session *session = session_new(service, &local);
    struct execution_request request = request_of("say cmd");
    struct execution *x;
    struct fault fault;

    (void) state;
    execution_unref(run_here(service, &local, session, "lose", &fault));
    request.kind = EXECUTION_COMMAND;
    assert_int_equal(execution_run_here(service, &local, session, &request, &x, &fault), 0);
    execution_unref(x);
    request.kind = EXECUTION_CELL;
    request.accept_loss = true;
    assert_int_equal(execution_run_here(service, &local, session, &request, &x, &fault), 0);
    execution_unref(x);
    x = run_here(service, &local, session, "say on", &fault);
    assert_non_null(x);
    execution_unref(x);
    session_unref(session);
    service_end(service);
}

/* All that were in line when the variables went wrote for variables that are gone. */
static void test_loss_refuses_the_line(void **state)
{
    struct service *service = service_new(NULL);
    struct session *session = session_new(service, &local);
    struct execution *list[4];
    struct fault fault;
    json_t *json;

    (void) state;
    list[0] = start(service, &local, session, "wait");
    list[1] = start(service, &local, session, "lose");
    list[2] = start(service, &local, session, "say 2");
    list[3] = start(service, &local, session, "say 3");
    wait_for_line(session, 3);
    gate_open();
    for (int i = 0; i < 4; i++)
        assert_true(execution_wait(list[i], PATIENCE_US));
    gate_close();
    for (int i = 2; i < 4; i++) {
        assert_true(execution_receipt(list[i], &json, &fault) < 0);
        check_fault(&fault, FAULT_CONFLICT, "session-lost");
    }
    for (int i = 0; i < 4; i++)
        execution_unref(list[i]);
    assert_string_equal(order, "wait;lose;");
    session_unref(session);
    service_end(service);
}

/* An interpreter that ended between two cells. */
static void test_loss_in_between(void **state)
{
    struct service *service = service_new(NULL);
    struct session *session = session_new(service, &local);
    struct execution *x;
    struct fault fault;

    (void) state;
    execution_unref(run_here(service, &local, session, "say 1", &fault));
    assert_null(run_here(service, &local, session, "gone", &fault));
    check_fault(&fault, FAULT_CONFLICT, "session-lost");
    x = run_here(service, &local, session, "say 2", &fault);
    assert_non_null(x);
    execution_unref(x);
    assert_string_equal(order, "say 1;say 2;");
    session_unref(session);
    service_end(service);
}

static void test_engine_failure_is_a_fault(void **state)
{
    struct service *service = service_new(NULL);
    struct session *session = session_new(service, &local);
    struct session_request request;
    struct service_stats stats;
    struct session *other;
    struct fault fault;

    (void) state;
    assert_null(run_here(service, &local, session, "fail", &fault));
    check_fault(&fault, FAULT_UNAVAILABLE, "engine");
    service_get_stats(service, &stats);
    assert_int_equal(stats.executions[RUN_SYSTEM], 1);
    atomic_store(&boxes_fail, true);
    session_request_init(&request);
    assert_true(session_create(service, &local, &request, &other, &fault) < 0);
    check_fault(&fault, FAULT_UNAVAILABLE, "engine");
    assert_null(run_here(service, &local, NULL, "say x", &fault));
    check_fault(&fault, FAULT_UNAVAILABLE, "engine");
    atomic_store(&boxes_fail, false);
    service_get_stats(service, &stats);
    assert_int_equal(stats.executions_running, 0);
    assert_int_equal(stats.executions_waiting, 0);
    assert_int_equal(stats.sessions_live, 1);
    session_unref(session);
    service_end(service);
}

static void test_sweep(void **state)
{
    struct service *service;
    struct session *idle, *used, *busy, *found;
    struct execution *x;
    struct fault fault;
    char id[SESSION_ID_MAX];

    (void) state;
    atomic_store(&test_now, 1000 * USEC_PER_SEC);
    service = service_new(NULL);
    idle = session_new(service, &local);
    used = session_new(service, &local);
    busy = session_new(service, &local);
    x = start(service, &local, busy, "wait");
    wait_for_run(x);
    atomic_store(&test_now, (1000 + 3599) * USEC_PER_SEC);
    service_sweep(service);
    assert_int_equal(atomic_load(&boxes_live), 3);
    session_touch(used);
    atomic_store(&test_now, (1000 + 3600) * USEC_PER_SEC);
    service_sweep(service);
    memcpy(id, session_id(idle), sizeof id);
    assert_int_equal(atomic_load(&boxes_live), 3); /* we still have it */
    assert_null(run_here(service, &local, idle, "say late", &fault));
    check_fault(&fault, FAULT_NOT_FOUND, "session-expired");
    session_unref(idle);
    assert_int_equal(atomic_load(&boxes_live), 2);
    assert_true(session_find(service, &local, id, &found, &fault) < 0);
    check_fault(&fault, FAULT_NOT_FOUND, "session-expired");
    assert_true(session_find(service, &alice, id, &found, &fault) < 0);
    check_fault(&fault, FAULT_NOT_FOUND, "session-unknown");
    gate_open();
    assert_true(execution_wait(x, PATIENCE_US));
    gate_close();
    execution_unref(x);
    atomic_store(&test_now, (1000 + 7199) * USEC_PER_SEC);
    service_sweep(service);
    assert_int_equal(session_find(service, &local, session_id(busy), &found, &fault), 0);
    session_unref(found);
    atomic_store(&test_now, (1000 + 7200) * USEC_PER_SEC);
    session_unref(used);
    session_unref(busy);
    service_sweep(service);
    assert_int_equal(atomic_load(&boxes_live), 0);
    atomic_store(&test_now, 0);
    service_end(service);
}

static void test_delete(void **state)
{
    struct service *service = service_new(NULL);
    struct session *session = session_new(service, &local), *found;
    struct execution *a = start(service, &local, session, "stubborn"), *b;
    struct fault fault;
    json_t *json;
    char id[SESSION_ID_MAX];

    (void) state;
    memcpy(id, session_id(session), sizeof id);
    wait_for_run(a);
    b = start(service, &local, session, "say b");
    assert_int_equal(session_delete(session, &fault), 0);
    assert_int_equal(status_of(a), RUN_CANCELLED);
    assert_true(execution_wait(b, PATIENCE_US));
    assert_true(execution_receipt(b, &json, &fault) < 0);
    check_fault(&fault, FAULT_NOT_FOUND, "session-deleted");
    assert_true(session_delete(session, &fault) < 0);
    check_fault(&fault, FAULT_NOT_FOUND, "session-deleted");
    session_unref(session);
    assert_true(session_find(service, &local, id, &found, &fault) < 0);
    check_fault(&fault, FAULT_NOT_FOUND, "session-deleted");
    assert_true(session_find(service, &local, "ses_nonsense", &found, &fault) < 0);
    check_fault(&fault, FAULT_NOT_FOUND, "session-unknown");
    execution_unref(a);
    execution_unref(b);
    service_end(service);
}

static void test_list(void **state)
{
    struct service *service = service_new(NULL);
    struct session *list[5];
    struct session_info infos[5];
    char second[SESSION_ID_MAX];
    struct fault fault;
    size_t len;
    bool more;

    (void) state;
    for (int i = 0; i < 5; i++)
        list[i] = session_new(service, i == 2 ? &bob : &alice);
    memcpy(second, session_id(list[1]), sizeof second);
    assert_int_equal(session_list(service, &alice, NULL, infos, 2, &len, &more, &fault), 0);
    assert_int_equal(len, 2);
    assert_true(more);
    assert_string_equal(infos[1].id, second);
    /* The cursor's session may go meanwhile. */
    assert_int_equal(session_delete(list[1], &fault), 0);
    assert_int_equal(session_list(service, &alice, second, infos, 2, &len, &more, &fault), 0);
    assert_int_equal(len, 2);
    assert_false(more);
    assert_string_equal(infos[0].id, session_id(list[3]));
    assert_string_equal(infos[1].id, session_id(list[4]));
    assert_true(session_list(service, &bob, second, infos, 2, &len, &more, &fault) < 0);
    check_fault(&fault, FAULT_INVALID, "cursor-unknown");
    for (int i = 0; i < 5; i++)
        session_unref(list[i]);
    service_end(service);
}

/* The operator's side: sessions and executions of everybody. */
static void test_watch(void **state)
{
    struct service *service = service_new(NULL);
    struct session *hers = session_new(service, &alice), *his = session_new(service, &bob);
    struct execution *x = start(service, &alice, hers, "wait"), *done;
    struct watch_filter filter = { .status = -1, .max = 10 };
    json_t *json, *list;
    struct fault fault;

    (void) state;
    wait_for_run(x);
    done = run_here(service, &bob, his, "say his", &fault);
    assert_int_equal(watch_sessions(service, NULL, 1, &json, &fault), 0);
    list = json_object_get(json, "sessions");
    assert_int_equal(json_array_size(list), 1);
    assert_true(json_is_true(json_object_get(json, "more")));
    check_text(json_array_get(list, 0), "session_id", session_id(hers));
    check_text(json_array_get(list, 0), "execution_id", execution_id(x));
    check_text(json_array_get(list, 0), "principal", alice.principal.id);
    assert_int_equal(json_integer_value(json_object_get(json_array_get(list, 0), "memory_bytes")),
                     4096);
    json_decref(json);
    assert_true(watch_sessions(service, "ses_nobody", 1, &json, &fault) < 0);
    check_fault(&fault, FAULT_INVALID, "cursor-unknown");
    assert_int_equal(watch_executions(service, &filter, &json, &fault), 0);
    assert_int_equal(json_array_size(json_object_get(json, "executions")), 1);
    check_text(json_array_get(json_object_get(json, "executions"), 0), "status", "running");
    json_decref(json);
    filter.finished = true;
    assert_int_equal(watch_executions(service, &filter, &json, &fault), 0);
    check_text(json_array_get(json_object_get(json, "executions"), 0), "execution_id",
               execution_id(done));
    json_decref(json);
    filter.stopped_only = true;
    assert_int_equal(watch_executions(service, &filter, &json, &fault), 0);
    assert_int_equal(json_array_size(json_object_get(json, "executions")), 0);
    json_decref(json);
    assert_true(watch_session_end(service, "ses_nobody", &fault) < 0);
    check_fault(&fault, FAULT_NOT_FOUND, "session-unknown");
    assert_int_equal(watch_session_end(service, session_id(hers), &fault), 0);
    assert_int_equal(status_of(x), RUN_CANCELLED);
    watch_sessions_end(service, &bob.principal);
    assert_int_equal(watch_sessions(service, NULL, 10, &json, &fault), 0);
    assert_int_equal(json_integer_value(json_object_get(json, "total")), 0);
    json_decref(json);
    assert_int_equal(watch_series(service, 60, &json, &fault), 0);
    assert_true(json_is_array(json_object_get(json, "p95_ms")));
    json_decref(json);
    execution_unref(x);
    execution_unref(done);
    session_unref(hers);
    session_unref(his);
    service_end(service);
}

static void test_keys_own(void **state)
{
    struct service *service = service_new(NULL);
    struct session *session = session_new(service, &alice), *found;
    struct execution *x, *other;
    struct fault fault;

    (void) state;
    x = run_here(service, &alice, session, "say hers", &fault);
    assert_true(session_find(service, &bob, session_id(session), &found, &fault) < 0);
    check_fault(&fault, FAULT_NOT_FOUND, "session-unknown");
    assert_true(session_find(service, &local, session_id(session), &found, &fault) < 0);
    assert_true(execution_find(service, &bob, execution_id(x), &other, &fault) < 0);
    check_fault(&fault, FAULT_NOT_FOUND, "execution-unknown");
    assert_int_equal(execution_find(service, &alice, execution_id(x), &other, &fault), 0);
    execution_unref(other);
    execution_unref(x);
    session_unref(session);
    service_end(service);
}

static void test_key_limits(void **state)
{
    struct caller few = alice;
    struct session_request request;
    struct session *session, *more;
    struct service *service;
    struct execution *x;
    struct fault fault;

    (void) state;
    few.limits = (struct key_limits){ .sessions = 1, .in_flight = 1, .rate_per_minute = -1 };
    service = service_new(NULL);
    session = session_new(service, &few);
    session_request_init(&request);
    assert_true(session_create(service, &few, &request, &more, &fault) < 0);
    check_fault(&fault, FAULT_TOO_MANY, "key-sessions");
    x = start(service, &few, session, "wait");
    assert_null(run_here(service, &few, NULL, "say x", &fault));
    check_fault(&fault, FAULT_TOO_MANY, "key-executions");
    execution_unref(run_here(service, &bob, NULL, "say y", &fault));
    assert_int_equal(fault.kind, FAULT_NONE);
    gate_open();
    assert_true(execution_wait(x, PATIENCE_US));
    gate_close();
    execution_unref(x);
    assert_int_equal(session_delete(session, &fault), 0);
    session_unref(session);
    /* What was given back can be taken again. */
    session_unref(session_new(service, &few));
    service_end(service);
}

static void test_key_rate(void **state)
{
    struct caller slow = alice;
    struct service *service;
    struct fault fault;

    (void) state;
    slow.limits.rate_per_minute = 60; /* and so 10 at once */
    atomic_store(&test_now, USEC_PER_SEC);
    service = service_new(NULL);
    for (int i = 0; i < 10; i++) {
        execution_unref(run_here(service, &slow, NULL, "say x", &fault));
        assert_int_equal(fault.kind, FAULT_NONE);
    }
    assert_null(run_here(service, &slow, NULL, "say x", &fault));
    check_fault(&fault, FAULT_TOO_MANY, "rate-limit");
    assert_int_equal(fault.retry_after_s, 2);
    /* One that asks all the time gets no less than one that waits. */
    for (int i = 0; i < 999; i++) {
        atomic_fetch_add(&test_now, 1000);
        assert_null(run_here(service, &slow, NULL, "say x", &fault));
    }
    atomic_fetch_add(&test_now, 1000);
    execution_unref(run_here(service, &slow, NULL, "say x", &fault));
    assert_int_equal(fault.kind, FAULT_NONE);
    slow.limits.rate_per_minute = 0;
    assert_null(run_here(service, &slow, NULL, "say x", &fault));
    check_fault(&fault, FAULT_TOO_MANY, "rate-limit");
    /* After ten minutes nobody remembers. */
    atomic_fetch_add(&test_now, 601 * USEC_PER_SEC);
    service_sweep(service);
    assert_int_equal(service->accounts.len, 0);
    atomic_store(&test_now, 0);
    service_end(service);
}

static void test_sessions_max(void **state)
{
    struct service_config config;
    struct session_request request;
    struct session *a, *b;
    struct service *service;
    struct fault fault;

    (void) state;
    config_init(&config);
    config.sessions_max = 1;
    service = service_new(&config);
    a = session_new(service, &local);
    session_request_init(&request);
    assert_true(session_create(service, &local, &request, &b, &fault) < 0);
    check_fault(&fault, FAULT_TOO_MANY, "sessions-max");
    assert_true(fault.retry_after_s > 0);
    session_unref(a);
    service_end(service);
}

struct refused {
    const char *type;
    const char *template, *network; /* of the second the JSON text */
    const char *env[2];
    bool packages;
    int64_t idle_us, memory;
};

static void test_bad_requests(void **state)
{
    static const char *const bad_packages[] = { "x; rm -rf /", NULL };
    static const struct refused cases[] = {
        { .type = "template-unknown", .template = "r-lang", .idle_us = -1, .memory = -1 },
        { .type = "network-malformed", .network = "\"full\"", .idle_us = -1, .memory = -1 },
        { .type = "network-malformed", .network = "{\"deny\": []}", .idle_us = -1, .memory = -1 },
        { .type = "network-malformed", .network = "{\"allow\": 1}", .idle_us = -1, .memory = -1 },
        { .type = "network-malformed", .network = "{\"allow\": [1]}", .idle_us = -1, .memory = -1 },
        { .type = "network-malformed",
          .network = "{\"allow\": [\"a/b\"]}",
          .idle_us = -1,
          .memory = -1 },
        { .type = "network-malformed",
          .network = "{\"secrets\": [{}]}",
          .idle_us = -1,
          .memory = -1 },
        { .type = "network-not-permitted",
          .network = "{\"allow\": [\"a.example\"]}",
          .idle_us = -1,
          .memory = -1 },
        { .type = "requirement-malformed", .packages = true, .idle_us = -1, .memory = -1 },
        { .type = "env-malformed", .env = { "1A=x" }, .idle_us = -1, .memory = -1 },
        { .type = "env-malformed", .env = { "A" }, .idle_us = -1, .memory = -1 },
        { .type = "env-malformed", .env = { "=x" }, .idle_us = -1, .memory = -1 },
        { .type = "env-malformed", .env = { "A B=x" }, .idle_us = -1, .memory = -1 },
        { .type = "idle-out-of-range", .idle_us = 0, .memory = -1 },
        { .type = "idle-out-of-range", .idle_us = INT64_MAX, .memory = -1 },
        { .type = "limit-above-ceiling", .idle_us = -1, .memory = INT64_MAX },
        { .type = "limit-out-of-range", .idle_us = -1, .memory = 1 },
    };
    struct service *service = service_new(NULL);
    struct session_request request;
    struct session *session;
    struct fault fault;

    (void) state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        session_request_init(&request);
        request.template = cases[i].template;
        request.network =
            cases[i].network ? json_loads(cases[i].network, JSON_DECODE_ANY, NULL) : NULL;
        request.packages = cases[i].packages ? bad_packages : NULL;
        request.env = cases[i].env;
        request.idle_us = cases[i].idle_us;
        request.limits.memory_bytes = cases[i].memory;
        assert_true(session_create(service, &local, &request, &session, &fault) < 0);
        check_fault(&fault,
                    strcmp(cases[i].type, "network-not-permitted") == 0 ? FAULT_FORBIDDEN
                                                                        : FAULT_INVALID,
                    cases[i].type);
        json_decref(request.network);
    }
    assert_int_equal(atomic_load(&boxes_live), 0);
    service_end(service);
}

/* ---- looks ---- */

static json_t *look(struct session *session, enum look_op op, const char *code)
{
    const struct look_request request = {
        .op = op, .code = code, .code_len = code ? strlen(code) : 0, .cursor = -1
    };
    struct fault fault = { 0 };
    json_t *reply = NULL;

    if (session_look(session, &request, &reply, &fault) < 0)
        fail_msg("%s", fault.detail);
    assert_non_null(reply);
    return reply;
}

static bool is_busy(json_t *reply)
{
    bool busy = json_is_true(json_object_get(reply, "busy"));

    json_decref(reply);
    return busy;
}

static void *look_waits(void *arg)
{
    return look(arg, LOOK_COMPLETE, "wait");
}

static void wait_for_look(int count)
{
    int64_t give_up = clock_now_us() + PATIENCE_US;

    while (atomic_load(&looks) < count)
        assert_true(clock_now_us() < give_up);
}

static void test_look(void **state)
{
    struct service *service = service_new(NULL);
    struct session *session = session_new(service, &local);
    struct session_info info;
    json_t *reply;

    (void) state;
    reply = look(session, LOOK_VARIABLES, NULL);
    assert_int_equal(json_array_size(json_object_get(reply, "variables")), 0);
    json_decref(reply);
    assert_non_null(strstr(look_json, "variables"));
    reply = look(session, LOOK_COMPLETE, "{\"matches\": [{\"text\": \"x\"}], \"start\": 1}");
    assert_int_equal(json_array_size(json_object_get(reply, "matches")), 1);
    assert_false(is_busy(reply));
    assert_true(is_busy(look(session, LOOK_INSPECT, "busy")));
    session_get_info(session, &info);
    assert_int_equal(info.execution_count, 0);
    assert_int_equal(info.state, SESSION_READY);
    session_info_release(&info);
    assert_string_equal(order, "");
    session_unref(session);
    service_end(service);
}

/* Whoever runs something does not wait for a look, also where nobody may wait at all. */
static void test_look_gives_way(void **state)
{
    struct service_config config;
    struct service *service;
    struct session *session;
    struct session_info info;
    struct fault fault;
    struct execution *x;
    pthread_t thread;
    void *reply;

    (void) state;
    config_init(&config);
    config.waiters_max = 0;
    service = service_new(&config);
    session = session_new(service, &local);
    for (int i = 0; i < 3; i++) {
        int before = atomic_load(&looks);

        assert_int_equal(pthread_create(&thread, NULL, look_waits, session), 0);
        wait_for_look(before + 1);
        session_get_info(session, &info);
        assert_int_equal(info.state, SESSION_READY);
        session_info_release(&info);
        assert_true(is_busy(look(session, LOOK_VARIABLES, NULL))); /* one at a time */
        assert_int_equal(atomic_load(&looks), before + 1);
        x = run_here(service, &local, session, "say hello", &fault);
        assert_non_null(x);
        execution_unref(x);
        assert_int_equal(pthread_join(thread, &reply), 0);
        assert_true(is_busy(reply));
    }
    session_unref(session);
    service_end(service);
}

static void test_look_while_running(void **state)
{
    struct service *service = service_new(NULL);
    struct session *session = session_new(service, &local);
    struct execution *x = start(service, &local, session, "wait");
    int before = atomic_load(&looks);

    (void) state;
    wait_for_run(x);
    assert_true(is_busy(look(session, LOOK_COMPLETE, "x")));
    assert_int_equal(atomic_load(&looks), before);
    gate_open();
    assert_true(execution_wait(x, PATIENCE_US));
    gate_close();
    execution_unref(x);
    session_unref(session);
    service_end(service);
}

static void test_look_and_the_end(void **state)
{
    const struct look_request request = { .op = LOOK_COMPLETE, .code = "x", .code_len = 1 };
    struct service *service = service_new(NULL);
    struct session *session = session_new(service, &local);
    int before = atomic_load(&looks);
    struct fault fault = { 0 };
    pthread_t thread;
    json_t *json;
    void *reply;

    (void) state;
    assert_int_equal(pthread_create(&thread, NULL, look_waits, session), 0);
    wait_for_look(before + 1);
    assert_int_equal(session_delete(session, &fault), 0);
    assert_int_equal(pthread_join(thread, &reply), 0);
    assert_true(is_busy(reply));
    assert_true(session_look(session, &request, &json, &fault) < 0);
    check_fault(&fault, FAULT_NOT_FOUND, "session-deleted");
    session_unref(session);
    service_end(service);
}

/* An interpreter that a look has ended is told like any other. */
static void test_look_loses(void **state)
{
    const struct look_request fails = { .op = LOOK_COMPLETE, .code = "fail", .code_len = 4 };
    struct service *service = service_new(NULL);
    struct session *session = session_new(service, &local);
    struct execution *x;
    struct fault fault = { 0 };
    json_t *json;

    (void) state;
    assert_false(is_busy(look(session, LOOK_COMPLETE, "lose")));
    assert_int_equal(atomic_load(&residents_live), 0);
    assert_false(is_busy(look(session, LOOK_COMPLETE, "x"))); /* in a new one */
    assert_null(run_here(service, &local, session, "say a", &fault));
    check_fault(&fault, FAULT_CONFLICT, "session-lost");
    x = run_here(service, &local, session, "say b", &fault);
    assert_non_null(x);
    execution_unref(x);
    assert_true(session_look(session, &fails, &json, &fault) < 0);
    session_unref(session);
    service_end(service);
}

static void test_look_bad_requests(void **state)
{
    struct service *service = service_new(NULL);
    struct session *session = session_new(service, &local);
    char *large = calloc(1, LOOK_TEXT_MAX + 1);
    const struct {
        const char *code, *type;
        size_t len;
    } cases[] = { { "a\0b", "code-malformed", 3 },
                  { "\xff", "code-malformed", 1 },
                  { large, "code-too-large", LOOK_TEXT_MAX + 1 } };
    struct fault fault;
    json_t *json;

    (void) state;
    assert_non_null(large);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct look_request request = { .op = LOOK_COMPLETE,
                                        .code = cases[i].code,
                                        .code_len = cases[i].len };

        assert_true(session_look(session, &request, &json, &fault) < 0);
        assert_string_equal(fault.type, cases[i].type);
    }
    free(large);
    session_unref(session);
    service_end(service);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_line_is_in_order),
        cmocka_unit_test(test_line_is_bounded),
        cmocka_unit_test(test_interrupt),
        cmocka_unit_test(test_loss_is_told_once),
        cmocka_unit_test(test_loss_does_not_concern),
        cmocka_unit_test(test_loss_refuses_the_line),
        cmocka_unit_test(test_loss_in_between),
        cmocka_unit_test(test_engine_failure_is_a_fault),
        cmocka_unit_test(test_sweep),
        cmocka_unit_test(test_delete),
        cmocka_unit_test(test_list),
        cmocka_unit_test(test_watch),
        cmocka_unit_test(test_keys_own),
        cmocka_unit_test(test_key_limits),
        cmocka_unit_test(test_key_rate),
        cmocka_unit_test(test_sessions_max),
        cmocka_unit_test(test_bad_requests),
        cmocka_unit_test(test_look),
        cmocka_unit_test(test_look_gives_way),
        cmocka_unit_test(test_look_while_running),
        cmocka_unit_test(test_look_and_the_end),
        cmocka_unit_test(test_look_loses),
        cmocka_unit_test(test_look_bad_requests),
    };

    return cmocka_run_group_tests(tests, group_setup, group_teardown);
}
