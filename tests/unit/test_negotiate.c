/* Accept, entity tags and ranges. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "server/http/negotiate.h"

#include "base/banned.h"

static void test_media(void **state)
{
    static const struct {
        const char *accept;
        enum media media;
    } cases[] = {
        { NULL, MEDIA_JSON },
        { "", MEDIA_JSON },
        { "*/*", MEDIA_JSON },
        { "text/html", MEDIA_JSON },
        { "text/event-stream", MEDIA_SSE },
        { "Text/Event-Stream", MEDIA_SSE },
        { "application/x-ndjson", MEDIA_NDJSON },
        { "application/ndjson", MEDIA_NDJSON },
        { "application/json, text/event-stream", MEDIA_JSON },
        { "text/event-stream, application/json;q=0.9", MEDIA_SSE },
        { "text/event-stream;q=0.1, application/json;q=0.9", MEDIA_JSON },
        { "text/event-stream;q=0.5, application/x-ndjson;q=0.7", MEDIA_NDJSON },
        { "text/event-stream;q=0", MEDIA_JSON },
        { "text/*", MEDIA_JSON },
        { "text/event-stream, */*;q=0.1", MEDIA_SSE },
        { "text/event-stream ; charset=utf-8 ; q=1.000", MEDIA_SSE },
        { "text/event-streams", MEDIA_JSON },
        { ",,;;,text/event-stream;q=bad", MEDIA_SSE },
        { ";q=;q=,", MEDIA_JSON },
    };

    (void) state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(negotiate_media(cases[i].accept), cases[i].media);
}

static void test_html(void **state)
{
    (void) state;
    assert_true(negotiate_html("text/html,application/xhtml+xml;q=0.9,*/*;q=0.8"));
    assert_false(negotiate_html("*/*"));
    assert_false(negotiate_html("text/html;q=0"));
    assert_false(negotiate_html(NULL));
}

static void test_gzip(void **state)
{
    (void) state;
    assert_true(negotiate_gzip("gzip, deflate, br, zstd"));
    assert_true(negotiate_gzip("br;q=1.0, GZip;q=0.001"));
    assert_true(negotiate_gzip("x-gzip"));
    assert_true(negotiate_gzip("identity;q=0, *"));
    assert_false(negotiate_gzip(NULL));
    assert_false(negotiate_gzip(""));
    assert_false(negotiate_gzip("identity"));
    assert_false(negotiate_gzip("gzip;q=0"));
    assert_false(negotiate_gzip("*, gzip;q=0"));
    assert_false(negotiate_gzip("*;q=0"));
    assert_false(negotiate_gzip("gzipped, xgzip, g, , ;q=1"));
}

static void test_etags(void **state)
{
    (void) state;
    assert_true(negotiate_etag("\"a\"", "\"a\""));
    assert_true(negotiate_etag("\"x\", W/\"a\"", "\"a\""));
    assert_true(negotiate_etag("*", "\"a\""));
    assert_false(negotiate_etag("\"ab\"", "\"a\""));
    assert_false(negotiate_etag("a", "\"a\""));
    assert_false(negotiate_etag("\"x", "\"a\""));
    assert_false(negotiate_etag("", "\"a\""));
}

static void test_ranges(void **state)
{
    static const struct {
        const char *header;
        long long size;
        enum range_kind kind;
        long long first, last;
    } cases[] = {
        { NULL, 10, RANGE_NONE, 0, 0 },
        { "bytes=0-3", 10, RANGE_ONE, 0, 3 },
        { "bytes=5-", 10, RANGE_ONE, 5, 9 },
        { "bytes=5-99999999999", 10, RANGE_ONE, 5, 9 },
        { "bytes=-3", 10, RANGE_ONE, 7, 9 },
        { "bytes=-99", 10, RANGE_ONE, 0, 9 },
        { "Bytes=9-9", 10, RANGE_ONE, 9, 9 },
        { "bytes=10-", 10, RANGE_UNSATISFIABLE, 0, 0 },
        { "bytes=-0", 10, RANGE_UNSATISFIABLE, 0, 0 },
        { "bytes=0-", 0, RANGE_UNSATISFIABLE, 0, 0 },
        { "bytes=-5", 0, RANGE_UNSATISFIABLE, 0, 0 },
        { "bytes=3-1", 10, RANGE_NONE, 0, 0 },
        { "bytes=0-1,3-4", 10, RANGE_NONE, 0, 0 },
        { "bytes=", 10, RANGE_NONE, 0, 0 },
        { "bytes=-", 10, RANGE_NONE, 0, 0 },
        { "bytes=a-b", 10, RANGE_NONE, 0, 0 },
        { "lines=1-2", 10, RANGE_NONE, 0, 0 },
        { "bytes=99999999999999999999-", 10, RANGE_NONE, 0, 0 },
    };

    (void) state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        long long first = 0, last = 0;

        assert_int_equal(negotiate_range(cases[i].header, cases[i].size, &first, &last),
                         cases[i].kind);
        assert_true(first == cases[i].first && last == cases[i].last);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_media), cmocka_unit_test(test_html),   cmocka_unit_test(test_gzip),
        cmocka_unit_test(test_etags), cmocka_unit_test(test_ranges),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
