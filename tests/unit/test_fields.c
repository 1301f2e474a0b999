/* Tables of fields: what is read, what is refused, and what is told of both. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/text/json_depth.h"
#include "schema_check.h"
#include "server/http/url.h"
#include "server/schema/schemas.h"
#include "server/v1/schemas.h"

#include "base/banned.h"

static int read_execute(const char *text, bool strict, struct body_execute *ret, json_t **ret_json,
                        char first[64])
{
    json_t *json = json_loads(text, JSON_DECODE_ANY, NULL), *errors = json_array();
    int r;

    assert_non_null(json);
    r = fields_read_body(&schema_execute, json, strict, ret, errors);
    if (r < 0) {
        const char *type = json_string_value(json_object_get(json_array_get(errors, 0), "type"));

        assert_non_null(type);
        strncpy(first, type, 63);
    }
    json_decref(errors);
    *ret_json = json;
    return r;
}

static void test_good(void **state)
{
    struct body_execute body;
    char first[64] = "";
    json_t *json;

    (void) state;
    assert_int_equal(read_execute("{\"code\": \"x\", \"timeout\": 1.5, \"reply_bytes\": \"2k\","
                                  "\"mode\": \"script\", \"detach\": true, \"stdin\": null,"
                                  "\"env\": {\"A\": \"b\"}}",
                                  true, &body, &json, first),
                     0);
    assert_string_equal(body.code, "x");
    assert_int_equal(body.timeout_us, 1500000);
    assert_int_equal(body.reply_bytes, 2048);
    assert_int_equal(body.mode, MODE_SCRIPT);
    assert_true(body.detach);
    assert_false(body.cancel);
    assert_null(body.stdin_text);
    assert_int_equal(json_object_size(body.env), 1);
    json_decref(json);

    assert_int_equal(read_execute("{\"code\": \"\"}", true, &body, &json, first), 0);
    assert_true(body.timeout_us == FIELD_ABSENT && body.reply_bytes == FIELD_ABSENT);
    assert_int_equal(body.mode, -1);
    json_decref(json);
    assert_int_equal(read_execute("{\"code\": \"\", \"nonsense\": 1}", false, &body, &json, first),
                     0);
    json_decref(json);
}

static void test_bad(void **state)
{
    static const struct {
        const char *text, *type;
    } cases[] = {
        { "[]", "not_an_object" },
        { "3", "not_an_object" },
        { "{}", "missing" },
        { "{\"code\": null}", "missing" },
        { "{\"code\": 1}", "not_a_text" },
        { "{\"code\": \"\", \"timeout\": \"1\"}", "not_a_number" },
        { "{\"code\": \"\", \"timeout\": true}", "not_a_number" },
        { "{\"code\": \"\", \"timeout\": 0}", "out_of_range" },
        { "{\"code\": \"\", \"timeout\": -1}", "out_of_range" },
        { "{\"code\": \"\", \"timeout\": 1e300}", "out_of_range" },
        { "{\"code\": \"\", \"reply_bytes\": -5}", "out_of_range" },
        { "{\"code\": \"\", \"reply_bytes\": 1.5}", "not_a_size" },
        { "{\"code\": \"\", \"reply_bytes\": \"many\"}", "not_a_size" },
        { "{\"code\": \"\", \"mode\": \"x\"}", "not_a_choice" },
        { "{\"code\": \"\", \"mode\": 1}", "not_a_text" },
        { "{\"code\": \"\", \"detach\": 1}", "not_a_bool" },
        { "{\"code\": \"\", \"limits\": []}", "not_an_object" },
        { "{\"code\": \"\", \"env\": {\"A\": 1}}", "not_a_text" },
        { "{\"code\": \"\", \"env\": []}", "not_an_object" },
        { "{\"code\": \"\", \"filename\": \"\"}", "too_short" },
        { "{\"code\": \"\", \"time_out\": 1}", "unknown_field" },
    };

    (void) state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct body_execute body;
        char first[64] = "";
        json_t *json;

        assert_true(read_execute(cases[i].text, true, &body, &json, first) < 0);
        assert_string_equal(first, cases[i].type);
        json_decref(json);
    }
}

static int read_output(const char *target, struct query_output *ret)
{
    json_t *errors = json_array();
    const char *why;
    struct url url;
    int r;

    assert_int_equal(url_parse(target, &url, &why), 0);
    r = fields_read_query(&schema_output_query, url.params, url.params_len, ret, errors);
    json_decref(errors);
    url_release(&url);
    return r;
}

static void test_query(void **state)
{
    static const char *const bad[] = { "/?stream=x", "/?offset=-1", "/?offset=1.5",
                                       "/?limit=0",  "/?nope=1",    "/?offset=1&offset=2",
                                       "/?offset=" };
    struct query_output query;

    (void) state;
    assert_int_equal(read_output("/?stream=stderr&offset=7", &query), 0);
    assert_int_equal(query.stream, 1);
    assert_int_equal(query.offset, 7);
    assert_true(query.limit == FIELD_ABSENT);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_true(read_output(bad[i], &query) < 0);
}

static void test_depth(void **state)
{
    (void) state;
    assert_false(json_too_deep("[[[]]]", 6, 3));
    assert_true(json_too_deep("[[[[]]]]", 8, 3));
    assert_false(json_too_deep("\"[[[[[\"", 7, 3));
    assert_false(json_too_deep("\"\\\"[[[[[\"", 9, 3));
    assert_true(json_too_deep("{\"a\":[{\"b\":[", 12, 3));
    assert_false(json_too_deep("]]]]", 4, 3));
    assert_false(json_too_deep("\"\\", 2, 3));
    assert_false(json_too_many("[{},[],\"[[[[\"]", 14, 3));
    assert_true(json_too_many("[{},[],{}", 9, 3));
}

static void check_schema(const struct schema *schema, json_t *names)
{
    json_t *json = fields_to_schema(schema), *properties = json_object_get(json, "properties");

    assert_non_null(json);
    assert_string_equal(json_string_value(json_object_get(json, "type")), "object");
    assert_true(json_object_size(properties) > 0);
    assert_null(json_object_get(names, schema->name)); /* each name once */
    assert_int_equal(json_object_set_new(names, schema->name, json_true()), 0);
    for (const struct field *f = schema->fields; f->name; f++) {
        assert_non_null(json_object_get(properties, f->name));
        /* an example that is not JSON would be missing */
        if (f->example)
            assert_non_null(json_object_get(json_object_get(properties, f->name), "examples"));
    }
    json_decref(json);
}

static void test_schemas(void **state)
{
    json_t *names = json_object();

    (void) state;
    for (size_t i = 0; schema_lists[i]; i++)
        for (const struct schema *const *one = schema_lists[i]; *one; one++)
            check_schema(*one, names);
    /* A schema that another refers to and no list holds would be a dead link in /openapi.json. */
    for (size_t i = 0; schema_lists[i]; i++)
        for (const struct schema *const *one = schema_lists[i]; *one; one++)
            for (const struct field *f = (*one)->fields; f->name; f++)
                if (f->of)
                    assert_non_null(json_object_get(names, f->of->name));
    json_decref(names);
}

/* ---- a table and its JSON Schema ---- */

struct thing {
    int64_t count, wait_us, any;
    const char *name;
    int kind;
    bool flag;
    const json_t *words;
};

static const char *const kinds[] = { "x", "y", NULL };

static const struct field thing_fields[] = {
    { "count", FIELD_INT, FIELD_REQUIRED, offsetof(struct thing, count), .min = 1, .max = 9 },
    { "any", FIELD_INT, 0, offsetof(struct thing, any), .min = 0, .max = INT64_MAX },
    { "wait", FIELD_SECONDS, 0, offsetof(struct thing, wait_us), .min = FIELD_ABOVE_ZERO,
      .max = 5000000 },
    { "name", FIELD_TEXT, 0, offsetof(struct thing, name), .min = 1, .max = 3 },
    { "kind", FIELD_CHOICE, 0, offsetof(struct thing, kind), .choices = kinds },
    { "flag", FIELD_BOOL, 0, .offset = offsetof(struct thing, flag) },
    { "words", FIELD_LIST, 0, .offset = offsetof(struct thing, words) },
    { 0 },
};

/* What a table accepts is what its schema, as a client reads it, says that it does. */
static void test_schema_says_the_same(void **state)
{
    static const struct schema schema = { .fields = thing_fields, .size = sizeof(struct thing) };
    static const struct {
        const char *value;
        bool good;
    } rows[] = {
        { "{\"count\":1}", true },
        { "{\"count\":9,\"name\":\"abc\"}", true },
        { "{}", false },
        { "[]", false },
        { "{\"count\":0}", false },
        { "{\"count\":10}", false },
        { "{\"count\":1.5}", false },
        { "{\"count\":\"1\"}", false },
        { "{\"count\":1,\"any\":9223372036854775807}", true },
        { "{\"count\":1,\"any\":-1}", false },
        { "{\"count\":1,\"name\":\"\"}", false },
        { "{\"count\":1,\"name\":\"abcd\"}", false },
        { "{\"count\":1,\"name\":5}", false },
        { "{\"count\":1,\"kind\":\"x\"}", true },
        { "{\"count\":1,\"kind\":\"z\"}", false },
        { "{\"count\":1,\"flag\":true}", true },
        { "{\"count\":1,\"flag\":1}", false },
        { "{\"count\":1,\"words\":[\"a\",\"b\"]}", true },
        { "{\"count\":1,\"words\":[1]}", false },
        { "{\"count\":1,\"words\":\"a\"}", false },
        { "{\"count\":1,\"wait\":0}", false },
        { "{\"count\":1,\"wait\":0.1}", true },
        { "{\"count\":1,\"wait\":5}", true },
        { "{\"count\":1,\"wait\":5.1}", false },
        { "{\"count\":1,\"z\":1}", false },
    };
    json_t *json = fields_to_whole_schema(&schema, true);

    (void) state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        json_t *value = json_loads(rows[i].value, 0, NULL), *errors = json_array();
        char why[40] = ""; /* short: it must be cut and not overrun */
        struct thing thing;

        if (schema_check(json, value, why, sizeof why) != rows[i].good)
            fail_msg("the schema, row %zu: %s", i, why);
        assert_true(rows[i].good || why[0]);
        if ((fields_read_body(&schema, value, true, &thing, errors) == 0) != rows[i].good)
            fail_msg("the table, row %zu", i);
        json_decref(errors);
        json_decref(value);
    }
    json_decref(json);
}

/* Members are written out, and may be null. */
static void test_whole_schema(void **state)
{
    static const struct schema inner = { .fields = thing_fields };
    static const struct field fields[] = {
        { "one", FIELD_OBJECT, FIELD_REQUIRED | FIELD_NULLABLE, .of = &inner },
        { "some", FIELD_LIST, .of = &inner },
        { "word", FIELD_TEXT, .flags = FIELD_NULLABLE },
        { 0 },
    };
    static const struct schema outer = { .fields = fields };
    static const struct {
        const char *value;
        bool good;
    } rows[] = {
        { "{\"one\":null,\"word\":null,\"more\":1}", true },
        { "{\"one\":{\"count\":1},\"word\":\"a\"}", true },
        { "{\"one\":{}}", false },
        { "{\"one\":3}", false },
        { "{\"one\":null,\"some\":[{\"count\":2}]}", true },
        { "{\"one\":null,\"some\":[{\"count\":0}]}", false },
        { "{\"one\":null,\"some\":null}", false },
    };
    json_t *json = fields_to_whole_schema(&outer, false);

    (void) state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        json_t *value = json_loads(rows[i].value, 0, NULL);
        char why[100] = "";

        if (schema_check(json, value, why, sizeof why) != rows[i].good)
            fail_msg("row %zu: %s", i, why);
        json_decref(value);
    }
    json_decref(json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),         cmocka_unit_test(test_bad),
        cmocka_unit_test(test_query),        cmocka_unit_test(test_depth),
        cmocka_unit_test(test_schemas),      cmocka_unit_test(test_schema_says_the_same),
        cmocka_unit_test(test_whole_schema),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
