/* Values of BigQuery as text: what is one, what is none, and what it means. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "connect/bigquery.h"

#include "base/banned.h"

struct row {
    const char *text;
    bool good;
    int64_t value;
};

static void test_int(void **state)
{
    static const struct row rows[] = {
        { "0", true, 0 },
        { "-0", true, 0 },
        { "9223372036854775807", true, INT64_MAX },
        { "-9223372036854775808", true, INT64_MIN },
        { "9223372036854775808", false, 0 },
        { "-9223372036854775809", false, 0 },
        { "99999999999999999999", false, 0 },
        { "", false, 0 },
        { "-", false, 0 },
        { "+1", false, 0 },
        { " 1", false, 0 },
        { "1 ", false, 0 },
        { "1.0", false, 0 },
        { "1e3", false, 0 },
        { "0x1", false, 0 },
    };

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        int64_t value = 7;

        assert_int_equal(bigquery_int(rows[i].text, strlen(rows[i].text), &value), rows[i].good);
        if (rows[i].good)
            assert_true(value == rows[i].value);
    }
}

static void test_float(void **state)
{
    static const char *const bad[] = { "",     "-",     ".",      "nan",   "inf",
                                       "-NaN", "1e",    "1e+",    "0x1p3", "1,5",
                                       " 1",   "1e999", "-1e999", "--1",   "Infinityx" };
    double value;

    (void) state;
    assert_true(bigquery_float("1.5", 3, &value) && value == 1.5);
    assert_true(bigquery_float("-0.0", 4, &value) && value == 0 && signbit(value));
    assert_true(bigquery_float("5e-324", 6, &value) && value > 0);
    assert_true(bigquery_float("1.7976931348623157E308", 22, &value) && isfinite(value));
    assert_true(bigquery_float("NaN", 3, &value) && isnan(value));
    assert_true(bigquery_float("Infinity", 8, &value) && value > 0 && isinf(value));
    assert_true(bigquery_float("-Infinity", 9, &value) && value < 0 && isinf(value));
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_false(bigquery_float(bad[i], strlen(bad[i]), &value));
}

static void test_date(void **state)
{
    static const struct row rows[] = {
        { "1970-01-01", true, 0 },       { "1969-12-31", true, -1 },
        { "0001-01-01", true, -719162 }, { "9999-12-31", true, 2932896 },
        { "2000-02-29", true, 11016 },   { "2024-03-01", true, 19783 },
        { "1900-02-29", false, 0 },      { "2023-02-29", false, 0 },
        { "0000-01-01", false, 0 },      { "2023-13-01", false, 0 },
        { "2023-00-01", false, 0 },      { "2023-04-31", false, 0 },
        { "2023-1-01", false, 0 },       { "10000-01-01", false, 0 },
        { "2023-01-01 ", false, 0 },     { "-001-01-01", false, 0 },
    };

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        int64_t value = 7;

        assert_int_equal(bigquery_date(rows[i].text, strlen(rows[i].text), &value), rows[i].good);
        if (rows[i].good)
            assert_true(value == rows[i].value);
    }
}

static void test_times(void **state)
{
    static const char *const bad[] = { "24:00:00",         "23:60:00",  "23:59:60",
                                       "1:00:00",          "12:00",     "12:00:00.",
                                       "12:00:00.1234567", "12:00:00Z", "12:00:00.0000000000000" };
    int64_t us;
    bool cut = false;

    (void) state;
    assert_true(bigquery_time("23:59:59.999999", 15, &us) && us == INT64_C(86399999999));
    assert_true(bigquery_time("00:00:00.5", 10, &us) && us == 500000);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_false(bigquery_time(bad[i], strlen(bad[i]), &us));
    assert_true(bigquery_datetime("1970-01-02T00:00:01", 19, &us, &cut) &&
                us == INT64_C(86401000000));
    assert_true(bigquery_datetime("1969-12-31 23:59:59.999999", 26, &us, &cut) && us == -1);
    assert_false(bigquery_datetime("1970-01-02", 10, &us, &cut));
    assert_false(bigquery_datetime("1970-01-02T00:00:01Z", 20, &us, &cut));
    assert_false(cut);
}

static void test_timestamp(void **state)
{
    bool cut = false;
    int64_t us;

    (void) state;
    assert_true(bigquery_timestamp("-1", 2, false, &us, &cut) && us == -1);
    assert_false(bigquery_timestamp("1.5E9", 5, false, &us, &cut));
    assert_false(bigquery_timestamp("9223372036854775807", 19, false, &us, &cut));
    assert_false(bigquery_timestamp("1970-01-01T00:00:00Z", 20, false, &us, &cut));
    assert_true(bigquery_timestamp("1970-01-01T00:00:00.000001000000Z", 33, true, &us, &cut));
    assert_true(us == 1 && !cut);
    assert_true(bigquery_timestamp("1970-01-01T00:00:00.000001000001Z", 33, true, &us, &cut));
    assert_true(us == 1 && cut);
}

static void test_timestamp_text(void **state)
{
    static const struct row rows[] = {
        { "1970-01-01 00:00:00+00", true, 0 },
        { "1970-01-01 00:00:00.000001+00", true, 1 },
        { "1969-12-31 23:59:59.999999+00", true, -1 },
        { "1969-12-31 23:59:59+00", true, -1000000 },
        { "2026-11-16 18:30:01.500000+00", true, 1794853801500000 },
        { "0001-01-01 00:00:00+00", true, -62135596800000000 },
        { "9999-12-31 23:59:59.999999+00", true, 253402300799999999 },
        { "294247-01-10 04:00:54.775807+00", true, INT64_MAX },
        { "-290308-12-21 19:59:05.224192+00", true, INT64_MIN },
    };

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        char text[BIGQUERY_TIMESTAMP_MAX];

        bigquery_timestamp_text(rows[i].value, text);
        assert_string_equal(text, rows[i].text);
    }
}

static void test_bytes(void **state)
{
    static const char *const bad[] = { "A",    "AA",       "AAA",  "A===", "====",
                                       "AA=A", "AA==AA==", "AA-_", "AA A" };
    char *data;
    size_t len;

    (void) state;
    assert_true(bigquery_bytes("", 0, &data, &len) && len == 0 && data);
    free(data);
    assert_true(bigquery_bytes("AP8=", 4, &data, &len));
    assert_int_equal(len, 2);
    assert_memory_equal(data, "\x00\xff", 2);
    free(data);
    assert_true(bigquery_bytes("+/+/", 4, &data, &len));
    assert_int_equal(len, 3);
    assert_memory_equal(data, "\xfb\xff\xbf", 3);
    free(data);
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        assert_false(bigquery_bytes(bad[i], strlen(bad[i]), &data, &len));
}

/* ---- schemas ---- */

static int read_schema(const char *text, struct bigquery_field **fields, size_t *len,
                       struct driver_error *error)
{
    json_t *json = json_loads(text, 0, NULL);
    int r;

    assert_non_null(json);
    *error = (struct driver_error){ 0 };
    r = bigquery_schema_read(json, 3, fields, len, error);
    json_decref(json);
    return r;
}

static void test_schema(void **state)
{
    struct bigquery_field *fields = NULL;
    struct driver_error error;
    struct result_column *columns;
    size_t len = 0;

    (void) state;
    assert_int_equal(read_schema("{\"fields\": [{\"name\": \"a\", \"type\": \"INTEGER\", \"mode\": "
                                 "\"REPEATED\"}, {\"name\": \"r\", \"type\": \"RECORD\", "
                                 "\"fields\": [{\"name\": \"b\", \"type\": \"BOOL\"}]}]}",
                                 &fields, &len, &error),
                     0);
    assert_int_equal(len, 2);
    columns = bigquery_columns(fields, len);
    assert_string_equal(columns[0].source_type, "ARRAY<INT64>");
    assert_true(columns[0].repeated && !columns[0].fields);
    assert_string_equal(columns[1].fields, "[{\"name\":\"b\",\"type\":\"bool\",\"source_type\":"
                                           "\"BOOL\",\"repeated\":false}]");
    for (size_t i = 0; i < len; i++) {
        free(columns[i].name);
        free(columns[i].source_type);
        free(columns[i].fields);
    }
    free(columns);
    bigquery_fields_free(fields, len);
}

static void test_bad_schemas(void **state)
{
    static const struct {
        const char *text;
        enum connect_word word;
    } rows[] = {
        { "{}", CONNECT_BROKEN },
        { "{\"fields\": []}", CONNECT_BROKEN },
        { "{\"fields\": [1]}", CONNECT_BROKEN },
        { "{\"fields\": [{\"name\": \"a\"}]}", CONNECT_BROKEN },
        { "{\"fields\": [{\"name\": 1, \"type\": \"BOOL\"}]}", CONNECT_BROKEN },
        { "{\"fields\": [{\"name\": \"a\", \"type\": \"RECORD\"}]}", CONNECT_BROKEN },
        { "{\"fields\": [{\"name\": \"a\", \"type\": \"int64\"}]}", CONNECT_UNSUPPORTED },
        { "{\"fields\": [1, 2, 3, 4]}", CONNECT_TOO_LARGE },
    };
    struct bigquery_field *fields = NULL;
    struct driver_error error;
    size_t len = 0;

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        assert_true(read_schema(rows[i].text, &fields, &len, &error) < 0);
        assert_int_equal(error.word, rows[i].word);
        assert_null(fields);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_int),         cmocka_unit_test(test_float),
        cmocka_unit_test(test_date),        cmocka_unit_test(test_times),
        cmocka_unit_test(test_timestamp),   cmocka_unit_test(test_timestamp_text),
        cmocka_unit_test(test_bytes),       cmocka_unit_test(test_schema),
        cmocka_unit_test(test_bad_schemas),
    };

    return cmocka_run_group_tests_name("bigquery_types", tests, NULL, NULL);
}
