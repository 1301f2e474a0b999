/* Text of models and data on our terminal: what is left of what they try. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "cli/terminal/answer_text.h"
#include "cli/terminal/plain_text.h"

#include "base/banned.h"

static void test_plain(void **state)
{
    static const struct {
        const char *text, *plain;
    } cases[] = {
        { "", "" },
        { "plain\ttext\n", "plain\ttext\n" },
        { "caf\xc3\xa9 \xe6\x97\xa5\xe6\x9c\xac", "caf\xc3\xa9 \xe6\x97\xa5\xe6\x9c\xac" },
        { "\033[31mred\033[0m", "red" },
        { "up\033[1A\033[2Kover", "upover" },
        { "\033]0;title\007x", "x" },
        { "\033]52;c;ZWNobw==\033\\x", "x" },
        { "\033P1$qm\033\\x", "x" },
        { "\033cx", "x" },
        { "line\rover", "lineover" },
        { "back\b\b\bover", "backover" },
        { "c1 \xc2\x9b[31m x", "c1 [31m x" },
        { "bidi \xe2\x80\xaetxt", "bidi txt" },
        { "isolate \xe2\x81\xa6x\xe2\x81\xa9", "isolate x" },
        { "bad \xff\xfe utf8", "bad \xef\xbf\xbd\xef\xbf\xbd utf8" },
        { "\033[", "" },
        { "\033", "" },
    };

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        autofree char *plain = plain_text(cases[i].text, strlen(cases[i].text));

        assert_non_null(plain);
        if (strcmp(plain, cases[i].plain) != 0)
            fail_msg("case %zu: '%s' instead of '%s'", i, plain, cases[i].plain);
    }
}

/* Whatever the bytes, nothing comes out that a terminal acts on. */
static void test_plain_is_plain(void **state)
{
    unsigned seed = 1;

    (void) state;
    for (int round = 0; round < 20000; round++) {
        static const char some[] = "\033[]P\\;0m\x9b\xc2\xe2\x80\xae\xff\r\n\t A\b\x7f";
        char text[24];
        autofree char *plain = NULL;

        for (size_t i = 0; i < sizeof text; i++) {
            seed = seed * 1103515245u + 12345u;
            text[i] = some[(seed >> 16) % (sizeof some - 1)];
        }
        plain = plain_text(text, sizeof text);
        assert_non_null(plain);
        for (const char *p = plain; *p; p++) {
            assert_true((unsigned char) *p >= ' ' || *p == '\n' || *p == '\t');
            assert_true(*p != 0x7f);
        }
        assert_null(strstr(plain, "\xc2\x9b"));
        assert_null(strstr(plain, "\xe2\x80\xae"));
    }
}

static void test_columns(void **state)
{
    (void) state;
    assert_int_equal(plain_columns("abc", 3), 3);
    assert_int_equal(plain_columns("\xe6\x97\xa5", 3), 2); /* wide */
    assert_int_equal(plain_columns("e\xcc\x81", 3), 1);    /* combining */
    assert_int_equal(plain_fit("\xe6\x97\xa5x", 4, 2), 3);
    assert_int_equal(plain_fit("\xe6\x97\xa5x", 4, 1), 0);
    assert_int_equal(plain_fit("abc", 3, 9), 3);
}

static char *story(const char *text, const char *marks, bool styled)
{
    json_t *json = marks ? json_loads(marks, 0, NULL) : NULL;
    char *written = NULL;
    size_t len;
    FILE *out = open_memstream(&written, &len);

    assert_non_null(out);
    assert_int_equal(answer_write_story(out, text, json, styled), 0);
    (void) fclose(out);
    json_decref(json);
    return written;
}

static void test_story(void **state)
{
    static const struct {
        const char *text, *marks, *plain, *styled;
    } cases[] = {
        { "It is 42.", NULL, "It is 42.\n", "It is 42.\n" },
        { "It is 42, or 7.",
          "[{\"start\": 6, \"end\": 8, \"kind\": \"value\"},"
          " {\"start\": 13, \"end\": 14, \"kind\": \"unsupported\"}]",
          "It is 42, or 7[?].\n", "It is 42, or 7\033[31m[?]\033[0m.\n" },
        { "# Sales\n\n- **North**: `a`", NULL, "# Sales\n\n- **North**: `a`\n",
          "\033[1mSales\033[0m\n\n• \033[1mNorth\033[0m: \033[2ma\033[0m\n" },
        { "```python\nx = **y**\n```\nend", NULL, "```python\nx = **y**\n```\nend\n",
          "    \033[2mx = **y**\033[0m\nend\n" },
        { "open ** and ` stay", NULL, "open ** and ` stay\n", "open ** and ` stay\n" },
        { "\033[2Jgone **b\033]0;t\007old**", NULL, "gone **bold**\n",
          "gone \033[1mbold\033[0m\n" },
        /* offsets that are not of this text */
        { "short",
          "[{\"end\": 99, \"kind\": \"unsupported\"},"
          " {\"end\": -1, \"kind\": \"unsupported\"}, {\"end\": \"x\"}, 7]",
          "short\n", "short\n" },
    };

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        autofree char *plain = story(cases[i].text, cases[i].marks, false);
        autofree char *styled = story(cases[i].text, cases[i].marks, true);

        assert_string_equal(plain, cases[i].plain);
        assert_string_equal(styled, cases[i].styled);
    }
}

static const char a_table[] =
    "{\"title\": \"Sales\\u001b[2J\", \"row_count\": 5, \"columns\": ["
    "{\"name\": \"region\", \"type\": \"text\"}, {\"name\": \"sum\", \"type\": \"number\"}],"
    " \"rows\": [[\"North\", 12.5], [\"\\u65e5\\u672c\", 1000], [\"two\\nlines, \\\"q\\\"\", "
    "null]]}";

static void test_table(void **state)
{
    json_t *table = json_loads(a_table, 0, NULL);
    autofree char *text = NULL, *csv = NULL;
    size_t len;
    FILE *out = open_memstream(&text, &len);

    (void) state;
    assert_non_null(table);
    assert_int_equal(answer_write_table(out, table, 2, false), 0);
    (void) fclose(out);
    assert_string_equal(text, "Sales\n"
                              "  region   sum\n"
                              "  North   12.5\n"
                              "  \xe6\x97\xa5\xe6\x9c\xac    1000\n"
                              "  … 3 more rows\n");
    out = open_memstream(&csv, &len);
    assert_int_equal(answer_write_csv(out, table), 0);
    (void) fclose(out);
    assert_string_equal(csv, "region,sum\r\nNorth,12.5\r\n\xe6\x97\xa5\xe6\x9c\xac,1000\r\n"
                             "\"two\nlines, \"\"q\"\"\",\r\n");
    json_decref(table);
}

/* Tables that no agent lets through. */
static void test_bad_tables(void **state)
{
    static const char *const cases[] = {
        "{}",
        "{\"columns\": 7, \"rows\": {}}",
        "{\"columns\": [7, {}], \"rows\": [7, [], [[]], [{}, 1, 2, 3]]}",
        "{\"title\": 7, \"columns\": [], \"rows\": [[1]], \"row_count\": -3}",
    };

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        json_t *table = json_loads(cases[i], 0, NULL);
        autofree char *text = NULL;
        size_t len;
        FILE *out = open_memstream(&text, &len);

        assert_non_null(table);
        assert_int_equal(answer_write_table(out, table, 10, true), 0);
        assert_int_equal(answer_write_csv(out, table), 0);
        (void) fclose(out);
        json_decref(table);
    }
}

static void test_a_wide_table(void **state)
{
    json_t *columns = json_array(), *row = json_array();
    json_t *table = json_pack("{s:s, s:i, s:o, s:[o]}", "title", "wide", "row_count", 1, "columns",
                              columns, "rows", row);
    char cell[2001];
    autofree char *text = NULL;
    size_t len;
    FILE *out = open_memstream(&text, &len);

    (void) state;
    memset(cell, 'x', sizeof cell - 1);
    cell[sizeof cell - 1] = '\0';
    for (int i = 0; i < 1000; i++) {
        (void) json_array_append_new(columns, json_pack("{s:s}", "name", "c"));
        (void) json_array_append_new(row, json_string(cell));
    }
    assert_int_equal(answer_write_table(out, table, 10, false), 0);
    (void) fclose(out);
    assert_non_null(strstr(text, "… 976 more columns"));
    assert_true(len < 5000);
    json_decref(table);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain),        cmocka_unit_test(test_plain_is_plain),
        cmocka_unit_test(test_columns),      cmocka_unit_test(test_story),
        cmocka_unit_test(test_table),        cmocka_unit_test(test_bad_tables),
        cmocka_unit_test(test_a_wide_table),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
