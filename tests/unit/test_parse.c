#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/text/parse.h"

#include "base/banned.h"

#define MIB   (INT64_C(1) << 20)
#define GIB   (INT64_C(1) << 30)
#define TIB   (INT64_C(1) << 40)
#define UNSET INT64_C(-77)

struct number_case {
    const char *text;
    int result;
    int64_t value;
};

/* What no parser of numbers takes, whatever its units. */
static const char *const never[] = {
    "",      " ",    "-1",  "+1",  "-0",   " 1", "1 ",  "1\n",   "\t1",  "0x10",  "1e99",
    "1e3",   "nan",  "NaN", "inf", "-inf", ".5", "1.",  "1..5",  ".",    "1,5",   "1_000",
    "1.5.5", "512x", "m",   "k",   "one",  "1'", "٣",   "1\xff", "--1",  "0b1",   "infinity",
    "1e-3",  "1/2",  "1%",  "1;2", "$((1", "1d", "1mm", "1kk",   "\x01", "1\x80", "1p",
};

static void check_table(int (*parse)(const char *, int64_t *), const struct number_case *cases,
                        size_t cases_len)
{
    for (size_t i = 0; i < ARRAY_LEN(never); i++) {
        int64_t value = UNSET;

        if (parse(never[i], &value) != -EINVAL || value != UNSET)
            fail_msg("'%s' was not refused", never[i]);
    }
    for (size_t i = 0; i < cases_len; i++) {
        int64_t value = UNSET;
        int r = parse(cases[i].text, &value);

        if (r != cases[i].result || value != (r == 0 ? cases[i].value : UNSET))
            fail_msg("'%s' gave %d and %lld", cases[i].text, r, (long long) value);
    }
}

static void test_int(void **state)
{
    static const struct number_case cases[] = {
        { "0", 0, 0 },
        { "64", 0, 64 },
        { "007", 0, 7 },
        { "9223372036854775807", 0, INT64_MAX },
        { "9223372036854775808", -ERANGE, 0 },
        { "18446744073709551616", -ERANGE, 0 },
        { "99999999999999999999999999999999999999", -ERANGE, 0 },
        { "1.0", -EINVAL, 0 },
        { "1k", -EINVAL, 0 },
    };

    (void) state;
    check_table(parse_int, cases, ARRAY_LEN(cases));
}

static void test_size(void **state)
{
    static const struct number_case cases[] = {
        { "0", 0, 0 },
        { "0m", 0, 0 },
        { "1", 0, 1 },
        { "4096", 0, 4096 },
        { "1k", 0, 1024 },
        { "1K", 0, 1024 },
        { "1kb", 0, 1024 },
        { "1KiB", 0, 1024 },
        { "1kIB", 0, 1024 },
        { "512m", 0, 512 * MIB },
        { "64MiB", 0, 64 * MIB },
        { "64mb", 0, 64 * MIB },
        { "1.5g", 0, GIB + GIB / 2 },
        { "0.5t", 0, TIB / 2 },
        { "2T", 0, 2 * TIB },
        { "0.3k", 0, 307 },
        { "0.333333333333333333333333k", 0, 341 },
        { "8388607t", 0, 8388607 * TIB },
        { "8388608t", -ERANGE, 0 },
        { "9223372036854775807", 0, INT64_MAX },
        { "9223372036854775808", -ERANGE, 0 },
        { "18446744073709551615g", -ERANGE, 0 },
        { "99999999999999999999g", -ERANGE, 0 },
        { "0.0001k", -ERANGE, 0 }, /* not nothing, but less than a byte */
        { "1.5", -EINVAL, 0 },     /* half a byte */
        { "1b", -EINVAL, 0 },
        { "1i", -EINVAL, 0 },
        { "1ki", -EINVAL, 0 },
        { "1kib ", -EINVAL, 0 },
        { "1kbb", -EINVAL, 0 },
        { "1 k", -EINVAL, 0 },
        { "1mib1", -EINVAL, 0 },
        { "99999999999999999999x", -EINVAL, 0 },
    };

    (void) state;
    check_table(parse_size, cases, ARRAY_LEN(cases));
}

static void test_seconds(void **state)
{
    static const struct number_case cases[] = {
        { "0", 0, 0 },
        { "0.0", 0, 0 },
        { "30", 0, 30000000 },
        { "0.5", 0, 500000 },
        { "0.000001", 0, 1 },
        { "0.0000019", 0, 1 },
        { "0.0000001", -ERANGE, 0 },
        { "0.00000000000000000001", -ERANGE, 0 },
        { "90s", 0, 90000000 },
        { "2m", 0, 120000000 },
        { "1.5H", 0, INT64_C(5400000000) },
        { "9223372036854", 0, INT64_C(9223372036854000000) },
        { "9223372036855", -ERANGE, 0 },
        { "18446744073709551615h", -ERANGE, 0 },
        { "1ms", -EINVAL, 0 },
        { "1k", -EINVAL, 0 },
        { "1sec", -EINVAL, 0 },
    };

    (void) state;
    check_table(parse_seconds, cases, ARRAY_LEN(cases));
}

static void test_utc(void **state)
{
    static const struct number_case cases[] = {
        { "1970-01-01", 0, 0 },
        { "2026-11-15", 0, INT64_C(1794700800000000) },
        { "2026-11-15T08:30Z", 0, INT64_C(1794731400000000) },
        { "2026-11-15T08:30:01Z", 0, INT64_C(1794731401000000) },
        { "2024-02-29", 0, INT64_C(1709164800000000) },
        { "2023-02-29", -EINVAL, 0 },
        { "2026-04-31", -EINVAL, 0 },
        { "2026-00-01", -EINVAL, 0 },
        { "2026-13-01", -EINVAL, 0 },
        { "2026-01-00", -EINVAL, 0 },
        { "2026-01-01T24:00Z", -EINVAL, 0 },
        { "2026-01-01T23:60Z", -EINVAL, 0 },
        { "2026-01-01T23:59:60Z", -EINVAL, 0 },
        { "1969-12-31", -ERANGE, 0 },
        { "2026-11-15T08:30", -EINVAL, 0 },
        { "2026-11-15T08:30+01:00", -EINVAL, 0 },
        { "2026-11-15 08:30Z", -EINVAL, 0 },
        { "2026-11-15x", -EINVAL, 0 },
        { "2026-11-1", -EINVAL, 0 },
        { " 2026-11-15", -EINVAL, 0 },
        { "+026-11-15", -EINVAL, 0 },
        { "", -EINVAL, 0 },
    };
    char text[FORMAT_UTC_MAX];

    (void) state;
    check_table(parse_utc, cases, ARRAY_LEN(cases));
    format_utc(INT64_C(1794731401000042), text);
    assert_string_equal(text, "2026-11-15T08:30:01.000042Z");
    format_utc(0, text);
    assert_string_equal(text, "1970-01-01T00:00:00.000000Z");
    format_utc(-1, text);
    assert_string_equal(text, "-");
    format_utc(INT64_MAX, text);
    assert_string_equal(text, "-");
}

static void test_cpus(void **state)
{
    static const struct number_case cases[] = {
        { "0", 0, 0 },
        { "1", 0, 1000 },
        { "1.0", 0, 1000 },
        { "1.5", 0, 1500 },
        { "0.0019", 0, 1 },
        { "0.0009", -ERANGE, 0 },
        { "9223372036854775", 0, INT64_C(9223372036854775000) },
        { "9223372036854776", -ERANGE, 0 },
        { "1k", -EINVAL, 0 },
        { "1s", -EINVAL, 0 },
    };

    (void) state;
    check_table(parse_cpus, cases, ARRAY_LEN(cases));
}

static void test_bool(void **state)
{
    static const char *const yes[] = { "1", "yes", "YES", "true", "True", "on" };
    static const char *const no[] = { "0", "no", "No", "false", "FALSE", "off" };
    static const char *const bad[] = {
        "", " ", "2", "01", "y", "n", "yes ", "maybe", "truee", "-1"
    };
    bool value;

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(yes); i++) {
        value = false;
        assert_int_equal(parse_bool(yes[i], &value), 0);
        assert_true(value);
        assert_int_equal(parse_bool(no[i], &value), 0);
        assert_false(value);
    }
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        value = true;
        assert_int_equal(parse_bool(bad[i], &value), -EINVAL);
        assert_true(value);
    }
}

static void test_format(void **state)
{
    static const struct number_case sizes[] = {
        { "0", 0, 0 },
        { "1", 0, 1 },
        { "1k", 0, 1024 },
        { "1025", 0, 1025 },
        { "64m", 0, 64 * MIB },
        { "1536m", 0, 3 * GIB / 2 },
        { "1024t", 0, 1024 * TIB },
        { "9223372036854775807", 0, INT64_MAX },
    };
    static const struct {
        int64_t value, one;
        const char *text;
    } fixed[] = {
        { 0, 1000, "0" },
        { 1000, 1000, "1" },
        { 1500, 1000, "1.5" },
        { 10, 1000, "0.01" },
        { 1, 1000000, "0.000001" },
        { 1001, 1000, "1.001" },
        { 17, 1, "17" },
        { INT64_MAX, 1000000, "9223372036854.775807" },
    };
    char buf[FORMAT_NUMBER_MAX];

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
        int64_t back = UNSET;

        format_size(sizes[i].value, buf);
        assert_string_equal(buf, sizes[i].text);
        assert_int_equal(parse_size(buf, &back), 0);
        assert_int_equal(back, sizes[i].value);
    }
    for (size_t i = 0; i < ARRAY_LEN(fixed); i++) {
        format_fixed(fixed[i].value, fixed[i].one, buf);
        assert_string_equal(buf, fixed[i].text);
    }
}

static void test_quoted(void **state)
{
    char buf[FORMAT_QUOTED_MAX], full[FORMAT_QUOTED_MAX * 2];

    (void) state;
    format_quoted("", buf);
    assert_string_equal(buf, "''");
    format_quoted("512x", buf);
    assert_string_equal(buf, "'512x'");
    format_quoted("a\nb\x1b[31m\xc2\x9b", buf);
    assert_string_equal(buf, "'a\\x0ab\\x1b[31m\\xc2\\x9b'");
    /* at every length, of the widest and the narrowest characters: printable, ended, in bounds */
    for (size_t len = 0; len < sizeof full; len++)
        for (int wide = 0; wide < 2; wide++) {
            size_t got;

            memset(full, wide ? 0x1b : 'x', len);
            full[len] = '\0';
            memset(buf, 0x7f, sizeof buf);
            format_quoted(full, buf);
            got = strnlen(buf, sizeof buf);
            assert_true(got >= 2 && got < sizeof buf);
            assert_int_equal(buf[0], '\'');
            assert_int_equal(buf[got - 1], '\'');
            assert_null(strpbrk(buf, "\x1b\x7f"));
        }
}

static void test_near_miss(void **state)
{
    static const struct {
        const char *given, *name;
        bool near;
    } cases[] = {
        { "memory", "memory", true },
        { "memroy", "memory", true },
        { "memry", "memory", true },
        { "memorry", "memory", true },
        { "mem", "memory", true },
        { "Memory", "memory", true },
        { "cpu", "cpus", true },
        { "time", "timeout", true },
        { "m", "memory", false },
        { "", "memory", false },
        { "disk", "file", false },
        { "bogus", "cpus", false },
        { "pid", "disk", false },
        { "zzzzzz", "memory", false },
        { "a-word-that-is-longer-than-any-option-has", "memory", false },
    };

    (void) state;
    assert_int_equal(word_miss("memory", "memory"), 0);
    assert_true(word_miss("cpu", "cpus") < word_miss("cpu", "cpu-time"));
    for (size_t i = 0; i < ARRAY_LEN(cases); i++)
        if ((word_miss(cases[i].given, cases[i].name) <= 2) != cases[i].near)
            fail_msg("'%s' and '%s'", cases[i].given, cases[i].name);
}

static void test_unescape_mount(void **state)
{
    static const struct {
        const char *text, *plain;
    } cases[] = {
        { "", "" },
        { "/srv/data", "/srv/data" },
        { "/a\\040b", "/a b" },
        { "\\134\\011\\012\\040", "\\\t\n " },
        { "\\134040", "\\040" }, /* once is enough */
        { "\\", "\\" },
        { "\\04", "\\04" },
        { "\\08x", "\\08x" },
        { "\\400", "\\400" }, /* no byte */
        { "x\\377", "x\377" },
    };

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char text[32];

        snprintf(text, sizeof text, "%s", cases[i].text);
        parse_unescape_mount(text);
        assert_string_equal(text, cases[i].plain);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_int),       cmocka_unit_test(test_size),
        cmocka_unit_test(test_seconds),   cmocka_unit_test(test_utc),
        cmocka_unit_test(test_cpus),      cmocka_unit_test(test_bool),
        cmocka_unit_test(test_format),    cmocka_unit_test(test_quoted),
        cmocka_unit_test(test_near_miss), cmocka_unit_test(test_unescape_mount),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
