/* The reference as HTML: nothing of a document becomes markup, and nothing of it is lost. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "server/schema/docs.h"

#include "base/banned.h"

#define EVIL "</code><script>alert(1)</script>\"'&<img src=x onerror=alert(2)>"

static size_t count(const char *text, const char *what)
{
    size_t found = 0;

    while ((text = strstr(text, what))) {
        found++;
        text += strlen(what);
    }
    return found;
}

/* An operation in which every text is the same. */
static json_t *operation(const char *text)
{
    json_t *schema = json_pack("{s:s,s:[s],s:s,s:[s]}", "type", "string", "enum", text,
                               "description", text, "examples", text);
    json_t *object = json_pack("{s:s,s:s,s:{s:O},s:[s]}", "type", "object", "description", text,
                               "properties", text, schema, "required", text);

    return json_pack(
        "{s:s,s:s,s:s,s:[s],s:[{s:s,s:s,s:b,s:s,s:o}],s:{s:{s:{s:o}}},s:{s:{s:s,s:{s:{}}}}}",
        "operationId", text, "summary", text, "description", text, "tags", text, "parameters",
        "name", text, "in", text, "required", 1, "description", text, "schema", schema,
        "requestBody", "content", "application/json", "schema", object, "responses", text,
        "description", text, "content", text);
}

static json_t *document(const char *text)
{
    return json_pack("{s:{s:s,s:s,s:s},s:{s:{s:o}},s:{s:{s:{s:s,s:s}},s:{s:{s:s+}}}}", "info",
                     "title", text, "version", text, "description", text, "paths", text, text,
                     operation(text), "components", "schemas", text, "type", text, "description",
                     text, "responses", text, "description", "; problem types: ", text);
}

static void test_escaped(void **state)
{
    json_t *json = document(EVIL);
    char *html = docs_draw(json);

    (void) state;
    assert_non_null(json);
    assert_non_null(html);
    assert_null(strstr(html, "<script"));
    assert_null(strstr(html, "<img"));
    assert_null(strstr(html, "\"'&"));
    assert_true(count(html, "&lt;script&gt;") > 15);
    /* Every quote that is left delimits an attribute of ours. */
    assert_null(strstr(html, "onerror=\""));
    assert_int_equal(count(html, "\"") % 2, 0);
    assert_int_equal(count(html, "<article"), count(html, "</article>"));
    free(html);
    json_decref(json);
}

static void test_whole(void **state)
{
    json_t *json = document("plain");
    char *html = docs_draw(json);

    (void) state;
    assert_non_null(html);
    assert_non_null(strstr(html, "<article class=\"route\" id=\"plain\""));
    assert_non_null(strstr(html, "href=\"#plain\""));
    assert_non_null(strstr(html, "<section class=\"tag\" id=\"tag-plain\">"));
    assert_non_null(strstr(html, "-d &#39;{&quot;plain&quot;: &quot;plain&quot;}&#39;"));
    assert_non_null(strstr(html, "id=\"schema-plain\""));
    assert_non_null(strstr(html, "id=\"problem-plain\""));
    free(html);
    json_decref(json);
}

/* Who may use a route is said as the document has it. */
static void test_access(void **state)
{
    static const struct {
        const char *security, *text;
    } cases[] = {
        { NULL, "Needs a key or a token, except on loopback" },
        { "[]", "Needs no key" },
        { "[{\"password\": []}, {\"bearer\": []}, {\"key\": []}]", "Needs a key or a token<" },
        { "[{\"password\": []}, {\"bearer\": []}]", "Needs the access token of an operator" },
    };

    (void) state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        json_t *json = document("plain");
        json_t *route = json_object_get(json_object_get(json, "paths"), "plain");
        char *html;

        if (cases[i].security)
            (void) json_object_set_new(json_object_get(route, "plain"), "security",
                                       json_loads(cases[i].security, 0, NULL));
        html = docs_draw(json);
        assert_non_null(html);
        assert_non_null(strstr(html, cases[i].text));
        free(html);
        json_decref(json);
    }
}

/* Not of the form that it should have: it is ours, but must not crash. */
static void test_odd(void **state)
{
    static const char *const odd[] = {
        "{}",
        "[]",
        "{\"paths\": 1, \"components\": []}",
        "{\"paths\": {\"/x\": {\"get\": {}}}}",
        "{\"paths\": {\"/x\": {\"get\": {\"tags\": [1, null, \"a\"], \"responses\": 3}}}}",
        "{\"paths\": {\"/x\": {\"get\": {\"tags\": [\"a\"], \"parameters\": [1, {}],"
        " \"requestBody\": {\"content\": {\"application/json\": {\"schema\":"
        " {\"$ref\": \"#/components/schemas/gone\"}}}}}}}}",
    };

    (void) state;
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        json_t *json = json_loads(odd[i], 0, NULL);
        char *html = docs_draw(json);

        assert_non_null(json);
        assert_non_null(html);
        assert_non_null(strstr(html, "</main>"));
        free(html);
        json_decref(json);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_escaped),
        cmocka_unit_test(test_whole),
        cmocka_unit_test(test_access),
        cmocka_unit_test(test_odd),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
