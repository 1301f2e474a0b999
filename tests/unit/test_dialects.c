/* The code-session and locals APIs over a fake service: what each receipt becomes. */
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "base/io.h"
#include "base/log.h"
#include "fake_service.h"
#include "server/server.h"

#include "base/banned.h"

static struct service *service;
static struct server *server;
static char reply[1 << 20];

static const char *body_of(void)
{
    const char *body = strstr(reply, "\r\n\r\n");

    return body ? body + 4 : "";
}

/* A request on a connection of its own, to the listener at place @i. */
static int ask_at(size_t i, const char *line, const char *headers, const char *body)
{
    struct sockaddr_in addr = { .sin_family = AF_INET,
                                .sin_port = htons((uint16_t) server_port(server, i)),
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), status = 0;
    char text[16384];
    size_t len = 0;
    ssize_t n;

    assert_int_equal(connect(fd, (struct sockaddr *) &addr, sizeof addr), 0);
    (void) snprintf(text, sizeof text,
                    "%s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: "
                    "%zu\r\n%s\r\n%s",
                    line, strlen(body), headers, body);
    assert_int_equal(io_write_all(fd, text, strlen(text)), 0);
    for (;;) {
        struct pollfd p = { fd, POLLIN, 0 };

        assert_int_equal(poll(&p, 1, 120000), 1); /* a hang is a failure */
        n = read(fd, reply + len, sizeof reply - len - 1);
        if (n <= 0)
            break;
        len += (size_t) n;
    }
    close(fd);
    reply[len] = '\0';
    (void) sscanf(reply, "HTTP/1.%*d %d", &status);
    return status;
}

static int ask(const char *line, const char *headers, const char *body)
{
    return ask_at(0, line, headers, body);
}

/* Runs code that comes to @receipt; with a local_dict if @locals. */
static int execute(const char *receipt, bool locals)
{
    json_t *json = json_pack("{s:s+}", "code", "receipt ", receipt);
    char *body;
    int status;

    if (locals)
        (void) json_object_set_new(json, "local_dict", json_object());
    body = json_dumps(json, 0);
    status = ask("POST /execute_code/", "", body);
    free(body);
    json_decref(json);
    return status;
}

#define NAMES(text)                                                                                \
    "{\"status\":\"ok\",\"result\":{\"application/vnd.glovebox.names+json\":" text "}}"

static void test_names(void **state)
{
    (void) state;
    assert_int_equal(execute(NAMES("\"{\\\"a\\\": 1}\""), false), 200);
    assert_string_equal(body_of(), "\"{\\\"a\\\": 1}\"");
    assert_non_null(strstr(reply, "X-Execution-Id: "));
    assert_int_equal(execute(NAMES("\"{\\\"a\\\": 99999999999999999999}\""), true), 200);
    assert_string_equal(body_of(), "{\"result\":{\"a\": 99999999999999999999},\"success\":true}");
    /* No names, or what cannot be some. */
    assert_int_equal(execute("{\"status\":\"ok\",\"result\":null}", false), 200);
    assert_string_equal(body_of(), "\"{}\"");
    assert_int_equal(execute("{\"status\":\"ok\"}", true), 200);
    assert_string_equal(body_of(), "{\"result\":{},\"success\":true}");
    assert_int_equal(execute(NAMES("[1]"), true), 200);
    assert_int_equal(execute(NAMES("\"{]\""), true), 400);
    assert_int_equal(execute(NAMES("\"1}, {\\\"x\\\": 2\""), true), 400);
}

static void test_failures(void **state)
{
    static const struct {
        const char *receipt, *type, *detail;
    } cases[] = {
        { "{\"status\":\"error\",\"error\":{\"name\":\"KeyError\",\"value\":\"'x'\","
          "\"traceback\":\"T\"}}",
          "KeyError", "'x'" },
        { "{\"status\":\"error\",\"error\":{\"name\":\"AssertionError\",\"value\":\"\"}}",
          "AssertionError", "AssertionError" },
        { "{\"status\":\"error\",\"error\":{\"name\":null,\"value\":null}}", "", "" },
        { "{\"status\":\"error\",\"error\":null,\"exit_code\":3}", "SystemExit",
          "the code ended itself (exit status 3)" },
        { "{\"status\":\"timeout\",\"error\":{\"name\":\"KeyboardInterrupt\",\"value\":\"\"},"
          "\"exit_code\":124}",
          "TimeoutError",
          "the code ran longer than its time limit and was stopped (exit status 124)" },
        { "{\"status\":\"oom\",\"exit_code\":137,\"session_lost\":true}", "MemoryError",
          "the code used more memory than its limit (exit status 137). The variables of the "
          "session "
          "are lost" },
        { "{\"status\":\"disk\",\"error\":{\"name\":\"OSError\",\"value\":\"full\"}}", "OSError",
          "full" },
        { "{\"status\":\"pids\"}", "BlockingIOError", NULL },
        { "{\"status\":\"killed\"}", "ChildProcessError", NULL },
        { "{\"status\":\"output\"}", "OSError", NULL },
        { "{\"status\":\"cancelled\"}", "KeyboardInterrupt", NULL },
    };

    (void) state;
    for (size_t i = 0; i < 2 * (sizeof cases / sizeof *cases); i++) {
        const char *detail = cases[i / 2].detail;
        json_t *json;

        assert_int_equal(execute(cases[i / 2].receipt, i % 2), 400);
        json = json_loads(body_of(), 0, NULL);
        assert_int_equal(json_object_size(json), 5);
        assert_string_equal(json_string_value(json_object_get(json, "error_type")),
                            cases[i / 2].type);
        assert_string_equal(json_string_value(json_object_get(json, "detail")),
                            json_string_value(json_object_get(json, "error")));
        if (detail)
            assert_string_equal(json_string_value(json_object_get(json, "detail")), detail);
        assert_true(json_is_false(json_object_get(json, "success")));
        assert_true(json_is_string(json_object_get(json, "traceback")));
        json_decref(json);
    }
    assert_int_equal(execute("{\"status\":\"system\"}", false), 500);
    assert_int_equal(ask("POST /execute_code", "", "{\"code\": \"fault 429\"}"), 429);
    assert_non_null(strstr(body_of(), "\"success\":false"));
}

static void test_which_dialect(void **state)
{
    static const char plain[] = "{\"code\": \"receipt {\\\"status\\\": \\\"ok\\\"}\"}";
    static const char null[] =
        "{\"code\": \"receipt {\\\"status\\\": \\\"ok\\\"}\", \"local_dict\": null}";

    (void) state;
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(ask_at(i, "POST /execute_code/", "", plain), 200);
        assert_int_equal(body_of()[0], i == 1 ? '{' : '"');
        assert_int_equal(ask_at(i, "POST /execute_code/", "", null), 200);
        assert_int_equal(body_of()[0], i == 2 ? '"' : '{');
    }
}

static int upload(const char *path, const char *headers, const char *parts)
{
    char line[128], all[512];

    (void) snprintf(line, sizeof line, "POST %s", path);
    (void) snprintf(all, sizeof all, "Content-Type: multipart/form-data; boundary=bound12\r\n%s",
                    headers);
    return ask(line, all, parts);
}

#define PART(name, more, data)                                                                     \
    "--bound12\r\nContent-Disposition: form-data; name=\"" name "\"" more "\r\n\r\n" data "\r\n"
#define LAST "--bound12--\r\n"

static void test_forms(void **state)
{
    (void) state;
    assert_int_equal(upload("/uploadfile/df", "", PART("file", "; filename=\"f\"", "a,b") LAST),
                     200);
    assert_string_equal(body_of(), "{\"message\":\"File df has been uploaded\"}");
    assert_int_equal(upload("/uploadfile/df/", "", PART("x", "", "1") PART("file", "", "") LAST),
                     200);
    assert_int_equal(
        upload("/uploadfile/df", "", PART("file", "", "") PART("x", "; filename=\"y\"", "1") LAST),
        200);
    assert_int_equal(upload("/uploadfile/df", "", PART("x", "", "1") LAST), 422);
    assert_int_equal(upload("/uploadfile/df", "", PART("file", "", "1") PART("file", "", "2") LAST),
                     422);
    assert_int_equal(upload("/uploadfile/df", "", PART("file", "", "1")), 400);
    assert_int_equal(upload("/uploadfile/a/b", "", PART("file", "", "1") LAST), 400);
    assert_int_equal(upload("/uploadfile/a%2fb", "", PART("file", "", "1") LAST), 400);
    assert_int_equal(upload("/uploadfile/9", "", PART("file", "", "1") LAST), 400);
    assert_int_equal(upload("/uploadfile/df", "X-Session-Id: a b\r\n", PART("file", "", "1") LAST),
                     400);
    assert_int_equal(ask("POST /uploadfile/df", "", "x"), 415);
    assert_int_equal(upload("/upload_file/", "X-Session-Id: up\r\n",
                            PART("file", "; filename=\"d.csv\"", "abc") LAST),
                     200);
    assert_non_null(strstr(body_of(), "\"path\":\"d.csv\",\"size\":3"));
    assert_int_equal(upload("/upload_file/", "X-Session-Id: up\r\n", PART("file", "", "abc") LAST),
                     422);
    assert_int_equal(upload("/upload_file/", "", PART("file", "; filename=\"d\"", "abc") LAST),
                     200);
    assert_non_null(strstr(body_of(), "\"session_id\":\"sess_"));
}

static void test_around(void **state)
{
    (void) state;
    assert_int_equal(ask("GET /files/", "X-Session-Id: new\r\n", ""), 200);
    assert_string_equal(body_of(), "{\"files\":[]}");
    assert_int_equal(ask("GET /downloadfile/x", "X-Session-Id: new\r\n", ""), 200);
    assert_string_equal(body_of(), "\"[]\"");
    assert_int_equal(fake_executions(service), 0); /* none of these needs a session */
    assert_int_equal(ask("GET /clear_state/", "X-Session-Id: new\r\n", ""), 200);
    assert_int_equal(ask("POST /execute_code", "X-Session-Id: new\r\n",
                         "{\"code\": \"receipt {\\\"status\\\": \\\"ok\\\"}\"}"),
                     200);
    assert_int_equal(ask("GET /files", "X-Session-Id: new\r\n", ""), 200);
    /* The box said that it wrote a file, and did not. */
    assert_int_equal(ask("GET /downloadfile/x", "X-Session-Id: new\r\n", ""), 400);
    assert_int_equal(ask("GET /clear_state", "X-Session-Id: new\r\n", ""), 200);
    assert_string_equal(body_of(), "{\"message\":\"State has been cleared\"}");
    assert_int_equal(ask("GET /clear_state", "X-Session-Id: x y\r\n", ""), 400);
    assert_int_equal(ask("GET /files", "X-Session-Id: a\r\nX-Session-Id: b\r\n", ""), 400);
    assert_int_equal(ask("GET /download_result/exec_0", "", ""), 200);
    assert_int_equal(ask("GET /download_result/nope", "", ""), 404);
    assert_int_equal(ask("POST /pip_install", "", "{\"package\": \"a[b, c]\"}"), 200);
    assert_int_equal(ask("POST /pip_install", "", "{\"package\": \"a[b,]\"}"), 422);
}

static void test_packages(void **state)
{
    (void) state;
    assert_int_equal(ask("POST /pip_install", "",
                         "{\"package\": \"Zope.__Interface[a]\", \"version\": \"6.1\"}"),
                     200);
    assert_non_null(strstr(body_of(), "\"message\":\"Zope.__Interface[a]==6.1\""));
    assert_non_null(strstr(body_of(), "\"installed_version\":\"6.1\""));
    assert_int_equal(
        ask("POST /pip_install", "", "{\"package\": \"zope\", \"version\": \"latest\"}"), 200);
    assert_non_null(strstr(body_of(), "\"message\":\"zope\""));
    assert_non_null(strstr(body_of(), "\"installed_version\":null"));
    assert_int_equal(ask("POST /pip_install", "", "{\"package\": \"blocked\"}"), 200);
    assert_non_null(strstr(body_of(), "\"success\":false"));
    assert_non_null(strstr(body_of(), "Could not install blocked: it is blocked"));
    assert_int_equal(ask("POST /pip_install", "", "{\"package\": \"away\"}"), 200);
    assert_non_null(strstr(body_of(), "no index"));
    assert_int_equal(ask("POST /pip_install", "", "{\"package\": \"often\"}"), 429);
    assert_int_equal(ask("POST /pip_install", "", "{\"package\": \"odd\", \"version\": \"1.x\"}"),
                     422);
    assert_int_equal(ask("POST /pip_install", "", "{\"package\": \"x; rm -rf /\"}"), 422);
    assert_int_equal(ask("POST /pip_install", "", "{\"package\": \"../../etc\"}"), 422);
    assert_int_equal(ask("POST /v1/packages", "", "{\"packages\": [\"blocked\"]}"), 403);
    assert_int_equal(ask("POST /v1/packages", "", "{\"packages\": [\"away\"]}"), 503);
    assert_int_equal(ask("POST /v1/packages", "", "{\"packages\": [\"x\"]}"), 200);
    assert_int_equal(ask("POST /v1/packages", "", "{\"packages\": []}"), 422);
    assert_int_equal(ask("POST /v1/packages", "", "{\"packages\": [1]}"), 422);
    assert_int_equal(ask("POST /v1/packages", "", "{\"packages\": \"x\"}"), 422);
    assert_int_equal(ask("POST /v1/packages", "", "{}"), 422);
    assert_int_equal(ask("GET /v1/packages", "", ""), 200);
    assert_non_null(strstr(body_of(), "default"));
    assert_int_equal(ask("DELETE /v1/packages", "", ""), 204);
    assert_int_equal(ask("GET /v1/sessions/nope/packages", "", ""), 404);
}

static int set_up(void **state)
{
    static char a[] = "127.0.0.1:0", b[] = "127.0.0.1:0,dialect=locals",
                c[] = "127.0.0.1:0,dialect=code-session";
    static char *const listens[] = { a, b, c, NULL };
    struct server_config config;
    struct gb_err err = { 0 };

    (void) state;
    service = fake_service_new();
    server_config_default(&config);
    config.service = service;
    config.listens = listens;
    if (server_open(&config, &server, &err) < 0) {
        (void) fprintf(stderr, "%s\n", err.msg);
        return -1;
    }
    return 0;
}

static int tear_down(void **state)
{
    (void) state;
    server_close(server);
    fake_service_free(service);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_names, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_failures, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_which_dialect, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_forms, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_around, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_packages, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
