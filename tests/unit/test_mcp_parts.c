/* Parts of the protocol by themselves: outboxes, URIs, subscriptions, state, stdio. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/clock.h"
#include "base/io.h"
#include "fake_service.h"
#include "fixtures.h"
#include "mcp/mcp_internal.h"

#include "base/banned.h"

static struct service *service;
static struct mcp *mcp;
static const struct caller caller = { .listener = "test", .limits = { -1, -1, -1 } };

static int set_up(void **state)
{
    struct mcp_config config;

    (void) state;
    service = fake_service_new();
    mcp_config_default(&config);
    config.service = service;
    config.more = fixtures_register;
    return mcp_open(&config, &mcp, NULL);
}

static int tear_down(void **state)
{
    (void) state;
    mcp_close(mcp);
    fake_service_free(service);
    return 0;
}

/* ---- outboxes ---- */

static void test_outbox(void **state)
{
    struct outbox *o = outbox_new();
    unsigned first = outbox_claim(o), second;
    uint64_t pos = 0, again = 1;
    char *text, small[16];

    (void) state;
    assert_int_equal(outbox_next(o, first, &pos, 0, &text), 0);
    for (int i = 1; i <= 200; i++) {
        snprintf(small, sizeof small, "m%d", i);
        assert_int_equal(outbox_put(o, strdup(small), PUT_MAY), 0);
    }
    for (int i = 1; i <= 200; i++) {
        assert_int_equal(outbox_next(o, first, &pos, 0, &text), 1);
        snprintf(small, sizeof small, "m%d", i);
        assert_string_equal(text, small);
        free(text);
    }
    assert_int_equal(pos, 201);
    assert_false(outbox_has(o, pos));
    /* The last ones are still there; whoever asks for older ones gets the oldest of them. */
    assert_int_equal(outbox_next(o, first, &again, 0, &text), 1);
    assert_string_not_equal(text, "m1");
    assert_true(again > 100);
    free(text);
    second = outbox_claim(o);
    assert_int_equal(outbox_next(o, first, &pos, USEC_PER_SEC, &text), -1);
    assert_int_equal(outbox_put(o, NULL, PUT_WAIT), -1);
    outbox_close(o);
    assert_int_equal(outbox_put(o, strdup("late"), PUT_WAIT), -1);
    assert_int_equal(outbox_next(o, second, &pos, 0, &text), -1);
    outbox_free(o);
}

static void *put_main(void *arg)
{
    return outbox_put(arg, strdup("last"), PUT_WAIT) == 0 ? arg : NULL;
}

/* What may be left out is when it is full; what must not waits. */
static void test_outbox_full(void **state)
{
    struct outbox *o = outbox_new();
    unsigned claim = outbox_claim(o);
    size_t taken = 0;
    pthread_t thread;
    uint64_t pos = 0;
    char *text = NULL;
    void *result;
    bool last = false;

    (void) state;
    while (outbox_put(o, strdup("x"), PUT_MAY) == 0)
        taken++;
    assert_int_equal(taken, 1024);
    assert_int_equal(pthread_create(&thread, NULL, put_main, o), 0);
    while (!last) {
        assert_int_equal(outbox_next(o, claim, &pos, 10 * USEC_PER_SEC, &text), 1);
        last = strcmp(text, "last") == 0;
        free(text);
    }
    pthread_join(thread, &result);
    assert_ptr_equal(result, o);
    outbox_free(o);
}

/* ---- URIs ---- */

static void test_uris(void **state)
{
    static const char *const paths[] = { "a.txt", "dir/b c.csv", "\xc3\xa4%/?#\x01\xff", "..." };
    static const char *const bad[] = {
        "",
        "glovebox://sessions/",
        "glovebox://sessions/s/files/",
        "glovebox://sessions//files/a",
        "glovebox://sessions/s/file/a",
        "glovebox://sessions/s/files/%",
        "glovebox://sessions/s/files/%4",
        "glovebox://sessions/s/files/%zz",
        "glovebox://sessions/s/files/a%00b",
        "glovebox://sessions/s s/files/a",
        "file:///etc/passwd",
    };
    struct uri_file *file = malloc(sizeof *file);
    char id[EXECUTION_ID_MAX], *uri;
    enum stream stream;

    (void) state;
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        uri = uri_of_file("ses_1", paths[i]);
        assert_true(uri_parse_file(uri, file));
        assert_string_equal(file->session_id, "ses_1");
        assert_string_equal(file->path, paths[i]);
        free(uri);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(uri_parse_file(bad[i], file));
    free(file);
    uri = uri_of_output("exec_1", STREAM_ERR);
    assert_true(uri_parse_output(uri, id, &stream));
    assert_string_equal(id, "exec_1");
    assert_int_equal(stream, STREAM_ERR);
    free(uri);
    assert_false(uri_parse_output("glovebox://executions/x/stdin", id, &stream));
    assert_false(uri_parse_output("glovebox://executions/x", id, &stream));
    assert_string_equal(uri_mime("a.CSV"), "text/csv");
    assert_null(uri_mime("csv"));
}

/* ---- the new era: listening, and state that the client carries ---- */

#define META                                                                                       \
    "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\","                       \
    "\"io.modelcontextprotocol/clientCapabilities\":{\"elicitation\":{}}}"

static struct mcp_call *receive_modern(const char *method, const char *name, const char *more)
{
    const struct mcp_headers headers = { .version = "2026-07-28", .method = method, .name = name };
    const struct mcp_arrival arrival = { MCP_HTTP, &caller, NULL, &headers };
    struct mcp_call *call;
    char *text;

    assert_true(asprintf(&text,
                         "{\"jsonrpc\":\"2.0\",\"id\":\"L\",\"method\":\"%s\",\"params\":{" META
                         "%s}}",
                         method, more) > 0);
    call = mcp_receive(mcp, &arrival, text, strlen(text));
    free(text);
    return call;
}

static json_t *next_of(struct mcp_call *call)
{
    json_t *json = NULL;
    char *text;

    for (int i = 0; i < 30 && !json; i++)
        if (mcp_call_next(call, USEC_PER_SEC, &text) > 0) {
            json = json_loads(text, 0, NULL);
            free(text);
        }
    assert_non_null(json);
    return json;
}

static void assert_heard(struct mcp_call *call, const char *method)
{
    json_t *json = next_of(call), *params = json_object_get(json, "params");
    json_t *meta = json_object_get(params, "_meta");

    assert_string_equal(json_string_value(json_object_get(json, "method")), method);
    assert_string_equal(json_string_value(json_object_get(meta, MCP_META "subscriptionId")), "L");
    json_decref(json);
}

static void test_listen(void **state)
{
    const struct principal other = { PRINCIPAL_KEY, "other key" };
    struct mcp_call *call = receive_modern("subscriptions/listen", NULL,
                                           ",\"notifications\":{\"toolsListChanged\":true,"
                                           "\"resourceSubscriptions\":[\"glovebox://x\"]}");
    json_t *json;
    char *text;

    (void) state;
    assert_true(mcp_call_takes_time(call));
    assert_heard(call, "notifications/subscriptions/acknowledged");
    change_publish(mcp, CHANGE_PROMPTS, NULL, NULL); /* not asked for */
    change_publish(mcp, CHANGE_FILE, &caller.principal, "glovebox://y");
    change_publish(mcp, CHANGE_FILE, &other, "glovebox://x");
    change_publish(mcp, CHANGE_TOOLS, NULL, NULL);
    change_publish(mcp, CHANGE_FILE, &caller.principal, "glovebox://x");
    assert_heard(call, "notifications/tools/list_changed");
    assert_heard(call, "notifications/resources/updated");
    assert_int_equal(mcp_call_next(call, 0, &text), 0);
    mcp_stop(mcp); /* a graceful end is a response */
    json = next_of(call);
    assert_non_null(json_object_get(json, "result"));
    json_decref(json);
    mcp_call_unref(call);
    call =
        receive_modern("subscriptions/listen", NULL, ",\"notifications\":{\"toolsListChanged\":1}");
    json = next_of(call);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(json, "error"), "code")),
                     -32602);
    json_decref(json);
    mcp_call_unref(call);
}

static json_t *round_of(const char *more)
{
    struct mcp_call *call =
        receive_modern("tools/call", "test_input_required_result_request_state", more);
    json_t *json = next_of(call);

    mcp_call_unref(call);
    return json;
}

#define NAMED ",\"name\":\"test_input_required_result_request_state\""
#define ANSWERS                                                                                    \
    ",\"inputResponses\":{\"confirm\":{\"action\":\"accept\",\"content\":{\"ok\":true}}}"

static void test_request_state(void **state)
{
    json_t *json = round_of(NAMED), *result = json_object_get(json, "result");
    char *sealed = strdup(json_string_value(json_object_get(result, "requestState")));
    char *more, *place;

    (void) state;
    assert_string_equal(json_string_value(json_object_get(result, "resultType")), "input_required");
    json_decref(json);
    assert_true(asprintf(&more, NAMED ANSWERS ",\"requestState\":\"%s\"", sealed) > 0);
    json = round_of(more);
    assert_string_equal(
        json_string_value(json_object_get(json_object_get(json, "result"), "resultType")),
        "complete");
    json_decref(json);
    /* Every byte of it counts. */
    place = strstr(more, sealed);
    for (size_t i = 0; i < strlen(sealed); i += 7) {
        char was = place[i];

        place[i] = was == 'A' ? 'B' : 'A';
        json = round_of(more);
        assert_non_null(json_object_get(json, "error"));
        json_decref(json);
        place[i] = was;
    }
    free(more);
    free(sealed);
    json = round_of(NAMED ",\"inputResponses\":{\"confirm\":5}");
    assert_non_null(json_object_get(json, "error"));
    json_decref(json);
    json = round_of(NAMED ",\"inputResponses\":null");
    assert_non_null(json_object_get(json, "error"));
    json_decref(json);
}

/* ---- stdio ---- */

struct pipes {
    int in[2], out[2];
    int result;
};

static void *stdio_main(void *arg)
{
    struct pipes *p = arg;

    p->result = mcp_stdio(mcp, p->in[0], p->out[1], -1, NULL);
    (void) close(p->out[1]);
    return NULL;
}

/* The line that answers @id; others are passed over. */
static json_t *answer_to(FILE *out, const char *id)
{
    char *line = NULL;
    size_t size = 0;

    while (getline(&line, &size, out) > 0) {
        json_t *json = json_loads(line, 0, NULL), *found = json_object_get(json, "id");

        assert_non_null(json);
        if (id ? json_is_string(found) && strcmp(json_string_value(found), id) == 0
               : json_is_null(found)) {
            free(line);
            return json;
        }
        json_decref(json);
    }
    fail_msg("no answer to %s", id ? id : "null");
    return NULL;
}

static void say_line(int fd, const char *text)
{
    assert_int_equal(io_write_all(fd, text, strlen(text)), 0);
    assert_int_equal(io_write_all(fd, "\n", 1), 0);
}

static void test_stdio(void **state)
{
    char *large = malloc(17 * 1024 * 1024);
    struct pipes p;
    pthread_t thread;
    json_t *json;
    FILE *out;

    (void) state;
    assert_int_equal(pipe(p.in), 0);
    assert_int_equal(pipe(p.out), 0);
    out = fdopen(p.out[0], "r");
    assert_int_equal(pthread_create(&thread, NULL, stdio_main, &p), 0);
    say_line(p.in[1], "{\"jsonrpc\":\"2.0\",\"id\":\"early\",\"method\":\"tools/list\"}");
    json = answer_to(out, "early");
    assert_non_null(json_object_get(json, "error")); /* not before initialize */
    json_decref(json);
    say_line(p.in[1], "{\"jsonrpc\":\"2.0\",\"id\":\"i\",\"method\":\"initialize\",\"params\":{"
                      "\"protocolVersion\":\"2025-11-25\",\"capabilities\":{},\"clientInfo\":{"
                      "\"name\":\"t\",\"version\":\"1\"}}}\r");
    json_decref(answer_to(out, "i"));
    say_line(p.in[1], "");
    say_line(p.in[1], "not json");
    json_decref(answer_to(out, NULL));
    memset(large, 'x', 17 * 1024 * 1024 - 1);
    large[17 * 1024 * 1024 - 1] = '\0';
    say_line(p.in[1], large); /* too long; then it goes on */
    json = answer_to(out, NULL);
    assert_int_equal(json_integer_value(json_object_get(json_object_get(json, "error"), "code")),
                     -32600);
    json_decref(json);
    say_line(p.in[1], "{\"jsonrpc\":\"2.0\",\"id\":\"w\",\"method\":\"tools/call\",\"params\":{"
                      "\"name\":\"execute_python\",\"arguments\":{\"code\":\"wait\"}}}");
    say_line(p.in[1], "{\"jsonrpc\":\"2.0\",\"id\":\"e\",\"method\":\"tools/call\",\"params\":{"
                      "\"name\":\"execute_python\",\"arguments\":{\"code\":\"echo hello\"}}}");
    json = answer_to(out, "e"); /* one that runs holds up nobody */
    assert_non_null(json_object_get(json, "result"));
    json_decref(json);
    assert_int_equal(fake_executions(service), 2);
    (void) close(p.in[1]); /* what still runs is cancelled */
    assert_true(fake_wait_interrupt(service));
    pthread_join(thread, NULL);
    assert_int_equal(p.result, 0);
    fclose(out);
    (void) close(p.in[0]);
    free(large);
}

/* A client that never reads and hangs up is no reason to stay. */
static void test_stdio_deaf(void **state)
{
    struct pipes p;
    pthread_t thread;

    (void) state;
    assert_int_equal(pipe(p.in), 0);
    assert_int_equal(pipe(p.out), 0);
    assert_int_equal(pthread_create(&thread, NULL, stdio_main, &p), 0);
    for (int i = 0; i < 1000; i++) /* the answers are more than a pipe holds */
        say_line(p.in[1], "not json, but it is answered all the same, and at some length");
    (void) close(p.in[1]);
    pthread_join(thread, NULL);
    (void) close(p.out[0]);
    (void) close(p.in[0]);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_outbox), cmocka_unit_test(test_outbox_full),
        cmocka_unit_test(test_uris),   TEST(test_listen),
        TEST(test_request_state),      TEST(test_stdio),
        TEST(test_stdio_deaf),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
