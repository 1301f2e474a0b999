/* The router: several parameters, methods, which of two patterns counts, and tables that are wrong.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>

#include "server/http/router.h"

#include "base/banned.h"

#define ROW(method_, pattern_, flags_, name_)                                                      \
    {                                                                                              \
        .method = METHOD_##method_, .pattern = (pattern_), .flags = (flags_), .name = (name_)      \
    }

static const struct route table[] = {
    ROW(GET, "/", 0, "root"),
    ROW(GET, "/chats", 0, "chats"),
    ROW(POST, "/chats", 0, "chat_new"),
    ROW(GET, "/chats/{id}", 0, "chat"),
    ROW(PATCH, "/chats/{id}", 0, "chat_rename"),
    ROW(GET, "/chats/{id}/messages/{message}", 0, "message"),
    ROW(DELETE, "/chats/{id}/messages/{message}", 0, "message_delete"),
    ROW(GET, "/chats/new", 0, "new"),
    ROW(GET, "/chats/new/form", 0, "form"),
    ROW(PUT, "/files/{id}/{path}", ROUTE_REST, "put"),
    ROW(GET, "/files/{id}/list", 0, "list"),
    ROW(GET, "/a/{one}/{two}/{three}/{four}", 0, "four"),
};

static struct router *router;

static int setup(void **state)
{
    struct gb_err err = { 0 };

    (void) state;
    return router_new(table, sizeof table / sizeof *table, &router, &err);
}

static int teardown(void **state)
{
    (void) state;
    router_free(router);
    return 0;
}

/* The route's name, or "" for no such method, or "404"; @params: "name=value " of each. */
static const char *find(enum method method, const char *target, char params[1024])
{
    struct route_match match;
    const char *why = NULL, *name;
    struct url url;
    size_t used = 0;

    assert_int_equal(url_parse(target, &url, &why), 0);
    assert_int_equal(router_match(router, method, &url, &match), 0);
    params[0] = '\0';
    for (size_t i = 0; i < match.params_len; i++)
        used += (size_t) snprintf(params + used, 1024 - used, "%.*s=%s ",
                                  (int) match.params[i].name_len, match.params[i].name,
                                  match.params[i].value);
    assert_int_equal(match.any != NULL, match.methods != 0);
    name = match.route ? match.route->name : match.any ? "" : "404";
    route_match_release(&match);
    url_release(&url);
    return name;
}

static void test_found(void **state)
{
    static const struct {
        enum method method;
        const char *target, *name, *params;
    } cases[] = {
        { METHOD_GET, "/", "root", "" },
        { METHOD_GET, "/chats", "chats", "" },
        { METHOD_GET, "/chats/", "chats", "" },
        { METHOD_POST, "/chats", "chat_new", "" },
        { METHOD_GET, "/chats/7", "chat", "id=7 " },
        { METHOD_HEAD, "/chats/7", "chat", "id=7 " },
        { METHOD_PATCH, "/chats/7", "chat_rename", "id=7 " },
        { METHOD_GET, "/chats/7/messages/8", "message", "id=7 message=8 " },
        { METHOD_DELETE, "/chats/7/messages/8", "message_delete", "id=7 message=8 " },
        { METHOD_GET, "/a/1/2/3/4", "four", "one=1 two=2 three=3 four=4 " },
        /* a literal counts before a parameter, whatever the order of the rows */
        { METHOD_GET, "/chats/new", "new", "" },
        /* but only where its path goes on */
        { METHOD_GET, "/chats/new/messages/8", "message", "id=new message=8 " },
        { METHOD_GET, "/chats/new/form", "form", "" },
        /* and only where it has the method */
        { METHOD_PATCH, "/chats/new", "chat_rename", "id=new " },
        { METHOD_GET, "/files/7/list", "list", "id=7 " },
        { METHOD_PUT, "/files/7/list", "put", "id=7 path=list " },
        { METHOD_PUT, "/files/7/a/b/c", "put", "id=7 path=a/b/c " },
        { METHOD_PUT, "/files/7/a%2Fb/c", "put", "id=7 path=a/b/c " },
        /* an encoded slash does not make two parts of one */
        { METHOD_GET, "/chats/7%2Fmessages%2F8", "chat", "id=7/messages/8 " },
        { METHOD_GET, "/chats/%7Bid%7D", "chat", "id={id} " },
        { METHOD_GET, "/chats/%6eew", "new", "" },
    };

    (void) state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char params[1024];

        assert_string_equal(find(cases[i].method, cases[i].target, params), cases[i].name);
        assert_string_equal(params, cases[i].params);
    }
}

static void test_not_found(void **state)
{
    static const char *const targets[] = {
        "/nothing",     "/chat",    "/chatss",  "/CHATS",       "/chats/7/8", "/chats/7/messages",
        "/files",       "/files/7", "/a/1/2/3", "/a/1/2/3/4/5", "/chats%2F7", "/chats/new/form/x",
        "/chats/{id}/", /* is found: a brace is nothing special in a path */
    };
    size_t last = sizeof targets / sizeof *targets - 1;
    char params[1024];

    (void) state;
    for (size_t i = 0; i < last; i++)
        assert_string_equal(find(METHOD_GET, targets[i], params), "404");
    assert_string_equal(find(METHOD_GET, targets[last], params), "chat");
    assert_string_equal(params, "id={id} ");
    assert_string_equal(find(METHOD_OTHER, "/nothing", params), "404");
}

/* Paths that no pattern is as long as: found or not, nothing breaks. */
static void test_long(void **state)
{
    char target[8192], params[1024];
    size_t used = (size_t) snprintf(target, sizeof target, "/files/7");

    (void) state;
    for (int i = 0; i < 250; i++)
        used += (size_t) snprintf(target + used, sizeof target - used, "/p");
    assert_string_equal(find(METHOD_PUT, target, params), "put");
    assert_int_equal(strlen(params), strlen("id=7 path= ") + 250 * 2 - 1);
    assert_string_equal(find(METHOD_GET, target, params), "");
    memcpy(target, "/other", 6);
    assert_string_equal(find(METHOD_PUT, target, params), "404");
    used = (size_t) snprintf(target, sizeof target, "/chats/");
    memset(target + used, 'x', 900);
    target[used + 900] = '\0';
    assert_string_equal(find(METHOD_GET, target, params), "chat");
    assert_int_equal(strlen(params), strlen("id= ") + 900);
}

static void check_allow(const char *target, const char *expected)
{
    static const enum method others[] = { METHOD_OTHER, METHOD_OPTIONS };
    char allow[ROUTER_ALLOW_MAX];
    const char *why = NULL;
    struct url url;

    assert_int_equal(url_parse(target, &url, &why), 0);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        struct route_match match;

        assert_int_equal(router_match(router, others[i], &url, &match), 0);
        assert_null(match.route);
        assert_non_null(match.any);
        methods_to_allow(match.methods, allow);
        assert_string_equal(allow, expected);
        route_match_release(&match);
    }
    url_release(&url);
}

static void test_allow(void **state)
{
    char allow[ROUTER_ALLOW_MAX];

    (void) state;
    check_allow("/", "GET, HEAD, OPTIONS");
    check_allow("/chats", "GET, HEAD, POST, OPTIONS");
    check_allow("/chats/7", "GET, HEAD, PATCH, OPTIONS");
    check_allow("/chats/new", "GET, HEAD, PATCH, OPTIONS"); /* of both patterns */
    check_allow("/files/7/x", "PUT, OPTIONS");
    check_allow("/files/7/list", "GET, HEAD, PUT, OPTIONS");
    methods_to_allow(~0u, allow);
    assert_string_equal(allow, "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS");
}

static void test_param(void **state)
{
    struct route_match match;
    const char *why = NULL;
    struct url url;

    (void) state;
    assert_int_equal(url_parse("/chats/7/messages/8", &url, &why), 0);
    assert_int_equal(router_match(router, METHOD_GET, &url, &match), 0);
    assert_string_equal(route_match_param(&match, "id"), "7");
    assert_string_equal(route_match_param(&match, "message"), "8");
    assert_null(route_match_param(&match, "mess"));
    assert_null(route_match_param(&match, "messages"));
    assert_null(route_match_param(&match, ""));
    route_match_release(&match);
    assert_null(route_match_param(&match, "id"));
    url_release(&url);
}

static void test_methods(void **state)
{
    static const char *const bad[] = { "", "get", "GETS", "GE", "PATCH ", "TRACE", "CONNECT" };

    (void) state;
    assert_int_equal(method_from_name("PATCH"), METHOD_PATCH);
    assert_string_equal(method_name(METHOD_PATCH), "PATCH");
    for (enum method m = METHOD_GET; m <= METHOD_OPTIONS; m = (enum method)(m << 1))
        assert_int_equal(method_from_name(method_name(m)), m);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(method_from_name(bad[i]), METHOD_OTHER);
}

static void test_bad_tables(void **state)
{
    static const struct {
        struct route rows[2];
        size_t len;
        int code;
    } cases[] = {
        { { ROW(GET, "chats", 0, "x") }, 1, -EINVAL },
        { { ROW(GET, "", 0, "x") }, 1, -EINVAL },
        { { ROW(GET, "/a//b", 0, "x") }, 1, -EINVAL },
        { { ROW(GET, "/{}", 0, "x") }, 1, -EINVAL },
        { { ROW(GET, "/{a", 0, "x") }, 1, -EINVAL },
        { { ROW(GET, "/a}", 0, "x") }, 1, -EINVAL },
        { { ROW(GET, "/x{a}", 0, "x") }, 1, -EINVAL },
        { { ROW(GET, "/{a}{b}", 0, "x") }, 1, -EINVAL },
        { { ROW(GET, "/{a}/{a}", 0, "x") }, 1, -EINVAL },
        { { ROW(GET, "/{a}/{b}/{c}/{d}/{e}", 0, "x") }, 1, -EINVAL },
        { { ROW(GET, "/{path}/end", ROUTE_REST, "x") }, 1, -EINVAL },
        { { ROW(GET, "/", ROUTE_REST, "x") }, 1, -EINVAL },
        { { ROW(GET, "/a", 0, "x"), ROW(GET, "/a", 0, "y") }, 2, -EEXIST },
        { { ROW(GET, "/{a}", 0, "x"), ROW(GET, "/{b}", 0, "y") }, 2, -EEXIST },
        { { ROW(GET, "/{a}", 0, "x"), ROW(GET, "/{b}", ROUTE_REST, "y") }, 2, 0 },
        { { ROW(GET, "/a", 0, "x"), ROW(PUT, "/a", 0, "y") }, 2, 0 },
    };

    (void) state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct gb_err err = { 0 };
        struct router *made = NULL;

        assert_int_equal(router_new(cases[i].rows, cases[i].len, &made, &err), cases[i].code);
        assert_int_equal(made != NULL, cases[i].code == 0);
        assert_int_equal(err.msg[0] != '\0', cases[i].code != 0);
        router_free(made);
    }
}

/* The server's own table: accepted, and every route is found under its own pattern. */
static void test_own_table(void **state)
{
    struct gb_err err = { 0 };
    struct router *own;

    (void) state;
    assert_int_equal(router_new(routes, routes_len, &own, &err), 0);
    for (size_t i = 0; i < routes_len; i++) {
        struct route_match match;
        const char *why = NULL;
        struct url url;

        assert_int_equal(url_parse(routes[i].pattern, &url, &why), 0);
        assert_int_equal(router_match(own, routes[i].method, &url, &match), 0);
        assert_ptr_equal(match.route, &routes[i]);
        route_match_release(&match);
        url_release(&url);
    }
    router_free(own);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_found),      cmocka_unit_test(test_not_found),
        cmocka_unit_test(test_long),       cmocka_unit_test(test_allow),
        cmocka_unit_test(test_param),      cmocka_unit_test(test_methods),
        cmocka_unit_test(test_bad_tables), cmocka_unit_test(test_own_table),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
