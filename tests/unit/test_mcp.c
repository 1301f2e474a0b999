/* The protocol core over a fake service: what comes in, and what is said to it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/clock.h"
#include "fake_service.h"
#include "fixtures.h"
#include "mcp/mcp_internal.h"
#include "schema_check.h"

#include "base/banned.h"

static struct service *service;
static struct mcp *mcp;
static struct mcp_peer *peer; /* of the old era, over HTTP, initialized with 2025-11-25 */
static const struct caller caller = { .listener = "test", .limits = { -1, -1, -1 } };
static int last_status;

#define INITIALIZE(version)                                                                        \
    "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"initialize\",\"params\":{\"protocolVersion\":"     \
    "\"" version "\",\"capabilities\":{},\"clientInfo\":{\"name\":\"t\",\"version\":\"1\"}}}"
#define META_OF(version)                                                                           \
    "\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":\"" version                            \
    "\",\"io.modelcontextprotocol/clientCapabilities\":{\"elicitation\":{},\"sampling\":{}}}"
#define META META_OF("2026-07-28")
#define MODERN(method, more)                                                                       \
    "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"" method "\",\"params\":{" META more "}}"

/* ---- asking ---- */

static struct mcp_call *receive_as(const struct mcp_headers *headers, const struct caller *who,
                                   const char *text)
{
    const struct mcp_arrival arrival = { .transport = MCP_HTTP, .caller = who, .headers = headers };

    return mcp_receive(mcp, &arrival, text, strlen(text));
}

static struct mcp_call *receive(const struct mcp_headers *headers, const char *text)
{
    return receive_as(headers, &caller, text);
}

/* Drives it to its end; lets it go. */
static json_t *finish(struct mcp_call *call)
{
    json_t *json = NULL;
    char *text;
    int r;

    while ((r = mcp_call_next(call, USEC_PER_SEC, &text)) >= 0) {
        if (r == 0)
            continue;
        json_decref(json);
        json = json_loads(text, JSON_DECODE_ANY, NULL);
        assert_non_null(json);
        free(text);
    }
    last_status = mcp_call_status(call);
    mcp_call_unref(call);
    return json;
}

/* In the session that every test has. NULL: there was nothing to say. */
static json_t *ask(const char *text)
{
    const struct mcp_headers headers = { .session = mcp_peer_id(peer) };
    struct mcp_call *call = receive(&headers, text);

    return call ? finish(call) : NULL;
}

static json_t *ask_modern(const char *method, const char *name, const char *text)
{
    const struct mcp_headers headers = { .version = "2026-07-28", .method = method, .name = name };
    struct mcp_call *call = receive(&headers, text);

    return call ? finish(call) : NULL;
}

/* The result of a tool; @arguments is JSON text. */
static json_t *call_tool(const char *name, const char *arguments)
{
    json_t *reply, *result;
    char *text;

    assert_true(asprintf(&text,
                         "{\"jsonrpc\":\"2.0\",\"id\":\"t\",\"method\":\"tools/call\",\"params\":"
                         "{\"name\":\"%s\",\"arguments\":%s}}",
                         name, arguments) > 0);
    reply = ask(text);
    free(text);
    result = json_incref(json_object_get(reply, "result"));
    json_decref(reply);
    assert_non_null(result);
    return result;
}

static int code_of(json_t *reply)
{
    int code = (int) json_integer_value(json_object_get(json_object_get(reply, "error"), "code"));

    json_decref(reply);
    return code;
}

static const char *text_at(const json_t *json, const char *a, const char *b)
{
    return json_string_value(json_object_get(b ? json_object_get(json, a) : json, b ? b : a));
}

static int set_up(void **state)
{
    struct mcp_headers headers = { 0 };
    struct mcp_config config;
    struct mcp_call *call;

    (void) state;
    service = fake_service_new();
    mcp_config_default(&config);
    config.service = service;
    config.more = fixtures_register;
    assert_int_equal(mcp_open(&config, &mcp, NULL), 0);
    call = receive(&headers, INITIALIZE("2025-11-25"));
    assert_non_null(mcp_call_new_session(call));
    peer = mcp_peer_find(mcp, &caller, mcp_call_new_session(call), MCP_HTTP);
    assert_non_null(peer);
    json_decref(finish(call));
    return 0;
}

static int tear_down(void **state)
{
    (void) state;
    mcp_stop(mcp);
    mcp_peer_unref(peer);
    mcp_close(mcp);
    fake_service_free(service);
    return 0;
}

/* ---- eras ---- */

static void test_versions(void **state)
{
    static const char *const asked[][3] = {
        { INITIALIZE("2024-11-05"), "2024-11-05" }, { INITIALIZE("2025-03-26"), "2025-03-26" },
        { INITIALIZE("2025-06-18"), "2025-06-18" }, { INITIALIZE("2025-11-25"), "2025-11-25" },
        { INITIALIZE("1999-01-01"), "2025-11-25" }, { INITIALIZE("2026-07-28"), "2025-11-25" },
    };
    struct mcp_headers headers = { 0 };

    (void) state;
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++) {
        json_t *reply = finish(receive(&headers, asked[i][0]));

        assert_string_equal(text_at(reply, "result", "protocolVersion"), asked[i][1]);
        json_decref(reply);
    }
}

static void test_refusals(void **state)
{
    static const struct {
        const char *version, *method, *name, *body;
        int status, code;
    } rows[] = {
        /* no JSON, or no message */
        { NULL, NULL, NULL, "", 400, -32700 },
        { NULL, NULL, NULL, "{\"jsonrpc\":", 400, -32700 },
        { NULL, NULL, NULL, "\"\xff\"", 400, -32700 },
        { NULL, NULL, NULL, "17", 400, -32600 },
        { NULL, NULL, NULL, "null", 400, -32600 },
        { NULL, NULL, NULL, "{}", 400, -32600 },
        { NULL, NULL, NULL, "{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"ping\"}", 400, -32600 },
        { NULL, NULL, NULL, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":17}", 400, -32600 },
        { NULL, NULL, NULL, "{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\"}", 400, -32600 },
        { NULL, NULL, NULL, "{\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"ping\"}", 400, -32600 },
        { NULL, NULL, NULL, "[]", 400, -32600 },
        /* the old era without a session, or with a header that it does not know */
        { NULL, NULL, NULL, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}", 400,
          -32600 },
        { "2025-01-01", NULL, NULL, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}", 400,
          -32600 },
        { "2026-07-28", NULL, NULL, INITIALIZE("2025-11-25"), 400, -32020 },
        /* the new era: the envelope */
        { "2026-07-28", "tools/list", NULL,
          "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\"}", 400, -32602 },
        { "2026-07-28", "tools/list", NULL,
          "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\",\"params\":{\"_meta\":{"
          "\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\"}}}",
          400, -32602 },
        { "2026-07-28", "tools/list", NULL,
          "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\",\"params\":{\"_meta\":{"
          "\"io.modelcontextprotocol/protocolVersion\":5}}}",
          400, -32602 },
        /* ... its headers */
        { NULL, "tools/list", NULL, MODERN("tools/list", ""), 400, -32020 },
        { "2025-11-25", "tools/list", NULL, MODERN("tools/list", ""), 400, -32020 },
        { "2026-07-28", NULL, NULL, MODERN("tools/list", ""), 400, -32020 },
        { "2026-07-28", "prompts/list", NULL, MODERN("tools/list", ""), 400, -32020 },
        { "2026-07-28", "tools/call", NULL, MODERN("tools/call", ",\"name\":\"interrupt\""), 400,
          -32020 },
        { "2026-07-28", "tools/call", "other", MODERN("tools/call", ",\"name\":\"interrupt\""), 400,
          -32020 },
        { "2026-07-28", "tools/call",
          "=?base64?!!?=", MODERN("tools/call", ",\"name\":\"interrupt\""), 400, -32020 },
        { "2026-07-28", "tools/call", "test_custom_header",
          MODERN("tools/call",
                 ",\"name\":\"test_custom_header\",\"arguments\":{\"region\":\"north\"}"),
          400, -32020 },
        { "v9", "tools/list", NULL,
          "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/list\",\"params\":{" META_OF("v9") "}}",
          400, -32022 },
        /* ... what it does not have any more */
        { "2026-07-28", "ping", NULL, MODERN("ping", ""), 404, -32601 },
        { "2026-07-28", "initialize", NULL, MODERN("initialize", ""), 404, -32601 },
        { "2026-07-28", "resources/subscribe", NULL, MODERN("resources/subscribe", ""), 404,
          -32601 },
        { "2026-07-28", "no/such", NULL, MODERN("no/such", ""), 404, -32601 },
        /* ... parameters */
        { "2026-07-28", "tools/call", "nope", MODERN("tools/call", ",\"name\":\"nope\""), 200,
          -32602 },
        { "2026-07-28", "resources/read", "x://y", MODERN("resources/read", ",\"uri\":\"x://y\""),
          200, -32602 },
        { "2026-07-28", "tools/list", NULL, MODERN("tools/list", ",\"cursor\":\"zz\""), 200,
          -32602 },
        { "2026-07-28", "tools/call", "test_missing_capability",
          "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":"
          "\"test_missing_capability\",\"_meta\":{\"io.modelcontextprotocol/protocolVersion\":"
          "\"2026-07-28\",\"io.modelcontextprotocol/clientCapabilities\":{}}}}",
          400, -32021 },
    };

    (void) state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct mcp_headers headers = { .version = rows[i].version,
                                             .method = rows[i].method,
                                             .name = rows[i].name };
        struct mcp_call *call = receive(&headers, rows[i].body);
        int code;

        assert_non_null(call);
        code = code_of(finish(call));
        if (code != rows[i].code || last_status != rows[i].status)
            fail_msg("row %zu: status %d, code %d", i, last_status, code);
    }
}

static void test_modern_results(void **state)
{
    json_t *reply = ask_modern("tools/list", NULL, MODERN("tools/list", "")), *result;

    (void) state;
    result = json_object_get(reply, "result");
    assert_string_equal(text_at(result, "resultType", NULL), "complete");
    assert_string_equal(text_at(result, "cacheScope", NULL), "public");
    assert_true(json_integer_value(json_object_get(result, "ttlMs")) > 0);
    assert_non_null(json_object_get(json_object_get(result, "_meta"), MCP_META "serverInfo"));
    json_decref(reply);
    reply = ask_modern("server/discover", NULL, MODERN("server/discover", ""));
    result = json_object_get(reply, "result");
    assert_int_equal(json_array_size(json_object_get(result, "supportedVersions")), 1);
    json_decref(reply);
    /* Notifications of either era need no answer. */
    assert_null(ask_modern("notifications/x", NULL,
                           "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"}"));
    assert_null(ask("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}"));
}

/* A name that no header can hold comes in base64. */
static void test_encoded_name(void **state)
{
    json_t *reply = ask_modern(
        "tools/call", " =?base64?aW50ZXJydXB0?= ", MODERN("tools/call", ",\"name\":\"interrupt\""));

    (void) state;
    assert_true(json_is_true(json_object_get(json_object_get(reply, "result"), "isError")));
    json_decref(reply);
}

/* ---- sessions of the protocol ---- */

static void test_peers(void **state)
{
    const struct caller other = { .principal = { PRINCIPAL_KEY, "k2" },
                                  .listener = "test",
                                  .limits = { -1, -1, -1 } };
    struct mcp_headers headers = { .session = mcp_peer_id(peer) };
    static const char ping[] = "{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"ping\"}";
    json_t *reply;

    (void) state;
    assert_int_equal(code_of(finish(receive_as(&headers, &other, ping))), -32001);
    assert_int_equal(last_status, 404);
    assert_int_equal(code_of(finish(receive(&headers, INITIALIZE("2025-11-25")))), -32600);
    reply = ask(ping);
    assert_non_null(json_object_get(reply, "result"));
    json_decref(reply);
    assert_null(ask("{\"jsonrpc\":\"2.0\",\"id\":99,\"result\":{}}")); /* nobody waits for it */
    mcp_peer_end(peer);
    assert_int_equal(code_of(ask(ping)), -32001);
}

static void test_batches(void **state)
{
    static const char batch[] = "[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"},"
                                "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"},"
                                "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"nope\"}]";
    struct mcp_headers headers = { 0 };
    struct mcp_call *call;
    char id[MCP_SESSION_ID_MAX];
    json_t *reply;

    (void) state;
    assert_int_equal(code_of(ask(batch)), -32600); /* 2025-11-25 has none */
    call = receive(&headers, INITIALIZE("2025-03-26"));
    snprintf(id, sizeof id, "%s", mcp_call_new_session(call));
    json_decref(finish(call));
    headers.session = id;
    reply = finish(receive(&headers, batch));
    assert_int_equal(json_array_size(reply), 2);
    assert_non_null(json_object_get(json_array_get(reply, 0), "result"));
    assert_non_null(json_object_get(json_array_get(reply, 1), "error"));
    json_decref(reply);
    assert_null(receive(&headers, "[{\"jsonrpc\":\"2.0\",\"method\":\"notifications/x\"}]"));
    assert_int_equal(code_of(finish(receive(&headers, "[]"))), -32600);
    assert_int_equal(code_of(finish(receive(&headers, "[" INITIALIZE("2025-03-26") "]"))), -32600);
}

/* ---- tools ---- */

static void test_arguments(void **state)
{
    static const struct {
        const char *tool, *arguments, *says;
    } rows[] = {
        { "execute_python", "{}", "code is required" },
        { "execute_python", "{\"code\":5}", "code must be a string" },
        { "execute_python", "{\"code\":\"echo x\",\"timeout\":\"soon\"}", "timeout" },
        { "execute_python", "{\"code\":\"echo x\",\"timeout\":-1}",
          "timeout must be above 0 and at most 120" },
        { "execute_python", "{\"code\":\"echo x\",\"timeout\":1e9}", "at most 120" },
        { "execute_python", "{\"code\":\"echo x\",\"colour\":1}", "colour is not a known field" },
        { "execute_python", "{\"code\":\"echo x\",\"session_id\":\"nope\"}", "no such session" },
        { "execute_python", "{\"code\":\"fault 429\"}", "" },
        { "execute_python", "{\"timeout\":0,\"cod\":\"1\"}",
          "timeout must be above 0 and at most 120; cod is not a known field; did you mean "
          "\"code\"?; code is required" },
        { "run_command", "{\"command\":\"\"}", "command must not be empty" },
        { "create_session", "{\"idle_timeout\":1e12}", "idle_timeout must be" },
        { "read_file", "{\"path\":\"a\",\"offset\":-1}", "offset must be at least 0" },
        { "read_file", "{\"path\":\"a\",\"limit\":1.5}", "limit must be a whole number" },
        { "list_files", "{\"recursive\":\"yes\"}", "recursive must be true or false" },
        { "interrupt", "{\"session_id\":[]}", "session_id must be a string" },
        { "upload_file", "{\"path\":\"a\"}", "content" },
        { "upload_file", "{\"path\":\"a\",\"content\":\"x\",\"content_base64\":\"eA==\"}",
          "either" },
        { "upload_file", "{\"path\":\"a\",\"content_base64\":\"!\"}", "is not valid base64" },
        { "pip_install", "{\"package\":\"-r x\"}", "package" },
        { "pip_install", "{\"package\":\"six\",\"version\":\"; rm\"}", "version" },
        { "pip_install", "{\"package\":\"blocked\"}", "it is blocked" },
        { "pip_install", "{\"package\":\"often\"}", "later" },
        { "pip_install", "{\"package\":\"away\"}", "no index" },
        { "read_file", "{\"path\":\"no\"}", "" },
    };

    (void) state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        json_t *result = call_tool(rows[i].tool, rows[i].arguments);
        const char *text =
            text_at(json_array_get(json_object_get(result, "content"), 0), "text", NULL);

        if (!json_is_true(json_object_get(result, "isError")) || !strstr(text, rows[i].says))
            fail_msg("row %zu: %s", i, text);
        json_decref(result);
    }
    assert_int_equal(
        code_of(ask("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":"
                    "{\"name\":\"execute_python\",\"arguments\":[]}}")),
        -32602);
}

/* What every tool gives is as its schema has it, and the same as text. */
static void test_output_schemas(void **state)
{
    static const char *const rows[][2] = {
        { "execute_python", "{\"code\":\"echo hello\",\"session_id\":null}" },
        { "run_command", "{\"command\":\"echo hello\"}" },
        { "execute_python", "{\"code\":\"receipt {\\\"status\\\":\\\"timeout\\\",\\\"success\\\":"
                            "false}\"}" },
        { "create_session", "{}" },
        { "upload_file", "{\"path\":\"a.txt\",\"content\":\"one\"}" },
        { "read_file", "{\"path\":\"a.txt\"}" },
        { "list_files", "{}" },
        { "interrupt", "{}" },
        { "pip_install", "{\"package\":\"six\"}" },
        { "close_session", "{}" },
    };
    json_t *list = registry_tools_to_json(mcp), *tool;

    (void) state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        json_t *result = call_tool(rows[i][0], rows[i][1]), *structured, *same;
        char why[200] = "";
        size_t k;

        structured = json_object_get(result, "structuredContent");
        same = json_loads(
            text_at(json_array_get(json_object_get(result, "content"), 0), "text", NULL), 0, NULL);
        assert_true(json_equal(structured, same));
        json_array_foreach (list, k, tool)
            if (strcmp(text_at(tool, "name", NULL), rows[i][0]) == 0) {
                if (!schema_check(json_object_get(tool, "outputSchema"), structured, why,
                                  sizeof why))
                    fail_msg("row %zu: %s", i, why);
            }
        json_decref(same);
        json_decref(result);
    }
    json_decref(list);
}

static void test_state_of_a_peer(void **state)
{
    json_t *first = call_tool("execute_python", "{\"code\":\"echo a\"}"), *second;

    (void) state;
    second = call_tool("execute_python", "{\"code\":\"echo b\"}");
    assert_string_equal(text_at(first, "structuredContent", "session_id"),
                        text_at(second, "structuredContent", "session_id"));
    json_decref(first);
    json_decref(second);
    /* The new era has none to keep. */
    first = ask_modern("tools/call", "execute_python",
                       MODERN("tools/call", ",\"name\":\"execute_python\",\"arguments\":{\"code\":"
                                            "\"echo c\"}"));
    assert_true(json_is_null(json_object_get(
        json_object_get(json_object_get(first, "result"), "structuredContent"), "session_id")));
    json_decref(first);
}

/* ---- while it runs ---- */

#define RUN(id, meta, code)                                                                        \
    "{\"jsonrpc\":\"2.0\",\"id\":" id ",\"method\":\"tools/call\",\"params\":{" meta               \
    "\"name\":\"execute_python\",\"arguments\":{\"code\":\"" code "\"}}}"

/* The next message, within reason. */
static json_t *next_of(struct mcp_call *call)
{
    json_t *json;
    char *text;
    int r;

    for (int i = 0; i < 30; i++) {
        r = mcp_call_next(call, USEC_PER_SEC, &text);
        assert_true(r >= 0);
        if (r == 0)
            continue;
        json = json_loads(text, 0, NULL);
        free(text);
        return json;
    }
    fail_msg("nothing comes");
    return NULL;
}

static void test_progress_and_log(void **state)
{
    const struct mcp_headers headers = { .session = mcp_peer_id(peer) };
    bool progress = false, log = false;
    struct mcp_call *call;
    json_t *json;

    (void) state;
    json_decref(ask("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"logging/setLevel\",\"params\":"
                    "{\"level\":\"info\"}}"));
    call = receive(&headers, RUN("2", "\"_meta\":{\"progressToken\":\"p\"},", "ticks 2"));
    assert_true(mcp_call_takes_time(call));
    fake_tick(service);
    while (!progress || !log) {
        const char *method;

        json = next_of(call);
        method = text_at(json, "method", NULL);
        assert_non_null(method);
        progress |= strcmp(method, "notifications/progress") == 0;
        if (strcmp(method, "notifications/message") == 0) {
            log = true;
            assert_string_equal(text_at(json, "params", "logger"), "stdout");
            assert_string_equal(text_at(json, "params", "data"), "tick\n");
        }
        json_decref(json);
    }
    fake_tick(service);
    json = finish(call);
    assert_non_null(json_object_get(json, "result"));
    json_decref(json);
    /* Without a wish, none of both. */
    json_decref(ask("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"logging/setLevel\",\"params\":"
                    "{\"level\":\"emergency\"}}"));
    call = receive(&headers, RUN("3", "", "echo x"));
    json = next_of(call);
    assert_non_null(json_object_get(json, "result"));
    json_decref(json);
    mcp_call_unref(call);
}

static void test_cancel(void **state)
{
    const struct mcp_headers headers = { .session = mcp_peer_id(peer) };
    struct mcp_call *call = receive(&headers, RUN("\"c\"", "", "wait"));

    (void) state;
    /* Its id is taken as long as it runs. */
    assert_int_equal(code_of(ask(RUN("\"c\"", "", "echo x"))), -32600);
    assert_null(ask("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":"
                    "{\"requestId\":\"other\"}}"));
    assert_false(mcp_call_is_cancelled(call));
    assert_null(ask("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\",\"params\":"
                    "{\"requestId\":\"c\"}}"));
    assert_true(mcp_call_is_cancelled(call));
    assert_true(fake_wait_interrupt(service));
    json_decref(finish(call));
    json_decref(ask(RUN("\"c\"", "", "echo x")));
}

static void test_end_of_peer_cancels(void **state)
{
    const struct mcp_headers headers = { .session = mcp_peer_id(peer) };
    struct mcp_call *call = receive(&headers, RUN("1", "", "wait"));

    (void) state;
    mcp_peer_end(peer);
    assert_true(fake_wait_interrupt(service));
    json_decref(finish(call));
}

/* A client that was cut off has the rest elsewhere, and what it missed again. */
static void test_resume(void **state)
{
    const struct mcp_headers headers = { .session = mcp_peer_id(peer) };
    struct mcp_call *call =
                        receive(&headers, RUN("4", "\"_meta\":{\"progressToken\":1},", "ticks 1")),
                    *again;
    unsigned old = mcp_call_claim(call), new;
    int number = mcp_call_keep(call);
    uint64_t pos = 1, other = 1;
    char *first, *text;

    (void) state;
    assert_true(number > 0);
    fake_tick(service);
    assert_int_equal(mcp_call_read(call, old, &pos, 10 * USEC_PER_SEC, &first), 1);
    again = mcp_peer_call(peer, number);
    assert_ptr_equal(again, call);
    new = mcp_call_claim(again);
    assert_int_equal(mcp_call_read(call, old, &pos, 0, &text), -1); /* taken from it */
    assert_int_equal(mcp_call_read(again, new, &other, 0, &text), 1);
    assert_string_equal(first, text);
    free(first);
    free(text);
    while (mcp_call_read(again, new, &other, 10 * USEC_PER_SEC, &text) > 0)
        free(text);
    assert_true(mcp_call_is_done(again));
    other = 1; /* also after its end */
    assert_int_equal(mcp_call_read(again, new, &other, 0, &text), 1);
    free(text);
    mcp_call_unref(call);
    mcp_call_unref(again);
    assert_null(mcp_peer_call(peer, number + 1));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_versions),         TEST(test_refusals),       TEST(test_modern_results),
        TEST(test_encoded_name),     TEST(test_peers),          TEST(test_batches),
        TEST(test_arguments),        TEST(test_output_schemas), TEST(test_state_of_a_peer),
        TEST(test_progress_and_log), TEST(test_cancel),         TEST(test_end_of_peer_cancels),
        TEST(test_resume),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
