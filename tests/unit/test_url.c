/* Request targets: what is a clean path, what is refused, and how queries are read. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "server/http/url.h"

#include "base/banned.h"

static const char *joined(const struct url *url)
{
    static char text[URL_PATH_MAX * 2];
    const char *part = url->parts;
    size_t used = 0;

    for (size_t i = 0; i < url->parts_len; i++, part = url_next_part(part)) {
        memcpy(text + used, part, strlen(part));
        used += strlen(part);
        text[used++] = '|';
    }
    text[used] = '\0';
    return text;
}

static void test_paths(void **state)
{
    static const struct {
        const char *raw, *parts;
    } cases[] = {
        { "/", "" },
        { "/v1/sessions", "v1|sessions|" },
        { "/v1/sessions/", "v1|sessions|" },
        { "/a%20b/%C3%BC", "a b|\xc3\xbc|" },
        { "/a%2Fb", "a/b|" },
        { "/a?x=1", "a|" },
        { "/a+b", "a+b|" },
        { "/...", "...|" },
        { "/a#frag", "a|" },
    };

    (void) state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct url url;
        const char *why;

        assert_int_equal(url_parse(cases[i].raw, &url, &why), 0);
        assert_string_equal(joined(&url), cases[i].parts);
        url_release(&url);
    }
}

static void test_refused(void **state)
{
    static const char *const cases[] = {
        "",     "*",       "http://x/", "a",       "//",      "/a//b",   "/a/../b", "/..",
        "/a/.", "/%2e%2e", "/%2E.",     "/%00",    "/a%00b",  "/%",      "/%4",     "/%zz",
        "/%c3", "/\xff",   "/%ff%fe",   "/?a=%00", "/?%zz=1", "/?a=%ff", "/a//",
    };

    (void) state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *why = NULL;
        struct url url = { 0 };

        assert_int_equal(url_parse(cases[i], &url, &why), 400);
        assert_non_null(why);
        assert_null(url.data);
    }
}

static void test_too_long(void **state)
{
    char *raw = malloc(URL_RAW_MAX + 3);
    const char *why;
    struct url url;

    (void) state;
    assert_non_null(raw);
    memset(raw, 'a', URL_RAW_MAX + 2);
    raw[0] = '/';
    raw[URL_RAW_MAX + 2] = '\0';
    assert_int_equal(url_parse(raw, &url, &why), 414);
    raw[5000] = '\0';
    assert_int_equal(url_parse(raw, &url, &why), 414);
    raw[4000] = '\0';
    assert_int_equal(url_parse(raw, &url, &why), 0);
    url_release(&url);
    for (size_t i = 0; i < 1000; i++)
        raw[i] = i % 2 ? 'a' : '/';
    raw[1000] = '\0';
    assert_int_equal(url_parse(raw, &url, &why), 414);
    free(raw);
}

static void test_query(void **state)
{
    const char *why;
    struct url url;

    (void) state;
    assert_int_equal(url_parse("/x?a=1&b&&c=x+y%26z&d==&a=2", &url, &why), 0);
    assert_int_equal(url.params_len, 5);
    assert_string_equal(url_param(&url, "a"), "1");
    assert_string_equal(url_param(&url, "b"), "");
    assert_string_equal(url_param(&url, "c"), "x y&z");
    assert_string_equal(url_param(&url, "d"), "=");
    assert_null(url_param(&url, "e"));
    url_release(&url);
    assert_int_equal(url_parse("/?1&2&3&4&5&6&7&8&9&10&11&12&13&14&15&16&17", &url, &why), 400);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_paths),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_too_long),
        cmocka_unit_test(test_query),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
