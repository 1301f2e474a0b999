/* The demo model: which questions it recognises, and what it does about them step by step. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/autoclean.h"
#include "mark/llm/demo.h"
#include "mark/llm/demo_texts.h"

#include "base/banned.h"

#define SAMPLE                                                                                     \
    "/workspace/data/sales.csv (text/csv): order_id, date, region, product, category, units, "     \
    "price, discount, returned"

static json_t *conversation(const char *about_files)
{
    json_t *messages = json_array();

    json_array_append_new(messages,
                          json_pack("{s:s, s:s}", "role", "system", "content", about_files));
    return messages;
}

static void ask(json_t *messages, const char *question)
{
    json_array_append_new(messages, json_pack("{s:s, s:s}", "role", "user", "content", question));
}

/* Its turn is added to the conversation; the name of the tool is returned, "" for text. */
static const char *next(json_t *messages, const char *must, char **ret_text)
{
    static const char *const keys[] = { "code", "story", "question", "text" };
    struct demo_turn turn;
    const char *text = NULL;

    assert_int_equal(demo_next(messages, true, must, &turn), 0);
    for (size_t i = 0; i < ARRAY_LEN(keys) && !text; i++)
        text = json_string_value(json_object_get(turn.arguments, keys[i]));
    assert_non_null(text);
    *ret_text = strdup(text);
    json_array_append_new(messages, json_pack("{s:s, s:s, s:[{s:s, s:s, s:o}]}", "role",
                                              "assistant", "content", "", "tool_calls", "id", "1",
                                              "name", turn.tool, "arguments", turn.arguments));
    return turn.tool ? turn.tool : "";
}

static void result(json_t *messages, const char *text, bool failed)
{
    json_array_append_new(messages,
                          json_pack("{s:s, s:s, s:s, s:s, s:b}", "role", "tool", "tool_call_id",
                                    "1", "name", "run_python", "content", text, "error", failed));
}

static void expect(json_t *messages, const char *tool, const char *part)
{
    autofree char *text = NULL;

    assert_string_equal(next(messages, NULL, &text), tool);
    if (!strstr(text, part))
        fail_msg("no '%s' in: %s", part, text);
}

static void test_questions(void **state)
{
    static const struct {
        const char *question, *code;
    } rows[] = {
        { "Which region grew fastest?", "growth" },
        { "which REGION GREW the most", "by_region" },
        { "Show me revenue by month with a chart", "by_month" },
        { "and by quarter?", "by_quarter" },
        { "What are the top 5 products?", "by_product.sort_values(\"revenue\"" },
        { "best-selling products by units", "by_product.sort_values(\"units\"" },
        { "Which products are returned most?", "is_returned" },
        { "what is our average order value", "by_year" },
        { "Do discounts pay?", "by_discount" },
        { "Give me an overview of the file", "missing_" },
        { "how much did we sell in total?", "by_month" },
        { "total revenue", "by_month" },
        { "Sales over time in the South", "sales[sales[\"region\"] == \"South\"]" },
    };

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        json_t *messages = conversation(SAMPLE);

        ask(messages, rows[i].question);
        expect(messages, "run_python", "sales = pd.read_csv(mark.attachment(\"sales.csv\")");
        result(messages, "5 repeated rows dropped", false);
        expect(messages, "run_python", rows[i].code);
        result(messages, "done", false);
        expect(messages, "answer", "{{");
        json_decref(messages);
    }
}

static void test_later_questions_use_the_variables(void **state)
{
    json_t *messages = conversation(SAMPLE);

    (void) state;
    ask(messages, "Show revenue by month");
    expect(messages, "run_python", "pd.read_csv");
    result(messages, "", false);
    expect(messages, "run_python", "by_month");
    result(messages, "", false);
    expect(messages, "answer", "{{best_month}}");
    ask(messages, "and by quarter?");
    expect(messages, "run_python", "chosen = sales\n");
    result(messages, "", false);
    expect(messages, "answer", "{{best_quarter}}");
    ask(messages, "Only for the West, please");
    expect(messages, "run_python", "by_quarter");
    result(messages, "NameError: name 'sales' is not defined", true);
    expect(messages, "run_python", "pd.read_csv"); /* the box was lost */
    result(messages, "", false);
    expect(messages, "run_python", "West");
    json_decref(messages);
}

/* Of earlier questions the agent shows programs as text. */
static void test_earlier_programs(void **state)
{
    json_t *messages = conversation("");

    (void) state;
    ask(messages,
        "<data 1>\n" SAMPLE "\n# program 1\nsales = pd.read_csv(x)\n</data 1>\n\ntotal revenue");
    expect(messages, "run_python", "by_month");
    json_decref(messages);
}

static void test_asks_back(void **state)
{
    json_t *messages = conversation(SAMPLE);

    (void) state;
    ask(messages, "What is our best product?");
    expect(messages, "ask_user", "by units");
    ask(messages, "by units");
    expect(messages, "run_python", "pd.read_csv");
    result(messages, "", false);
    expect(messages, "run_python", "sort_values(\"units\"");
    json_decref(messages);
}

static void test_no_plotly(void **state)
{
    json_t *messages = conversation(SAMPLE);

    (void) state;
    ask(messages, "revenue by month");
    expect(messages, "run_python", "pd.read_csv");
    result(messages, "", false);
    expect(messages, "run_python", "import plotly.express as px\n\nchosen = sales\n");
    result(messages, "ModuleNotFoundError: No module named 'plotly'", true);
    expect(messages, "run_python", "axes = by_month.plot");
    result(messages, "", false);
    expect(messages, "answer", "{{total}}");
    json_decref(messages);
}

static void test_failures(void **state)
{
    json_t *messages = conversation(SAMPLE);
    autofree char *text = NULL, *story = NULL;

    (void) state;
    ask(messages, "revenue by month");
    expect(messages, "run_python", "pd.read_csv");
    result(messages, "FileNotFoundError", true);
    expect(messages, "answer", demo_failed_md);
    ask(messages, "revenue by month");
    assert_string_equal(next(messages, "answer", &text), "answer"); /* out of budget */
    assert_string_equal(text, demo_failed_md);
    ask(messages, "revenue by month");
    expect(messages, "run_python", "by_month");
    result(messages, "", false);
    assert_string_equal(next(messages, "answer", &story), "answer");
    assert_string_equal(story, demo_month_md);
    ask(messages, "Some numbers in your answer were not computed: 5"); /* not a question */
    expect(messages, "answer", demo_month_md);
    ask(messages, "by quarter");
    ask(messages, "The budget for this question is used up. Answer now.");
    expect(messages, "answer", demo_failed_md);
    json_decref(messages);
}

static void test_other_files(void **state)
{
    json_t *messages = conversation("/workspace/data/it's \"new\".csv\n a, b");

    (void) state;
    ask(messages, "Which region grew fastest?");
    expect(messages, "run_python", "mark.attachment(\"it\")"); /* a quote ends a name */
    result(messages, "", false);
    expect(messages, "answer", "{{rows}}");
    json_decref(messages);

    messages = conversation("Files: /workspace/data/Täglich 2.xlsx (99 KB)");
    ask(messages, "hello");
    expect(messages, "run_python", "mark.attachment(\"Täglich 2.xlsx\")");
    json_decref(messages);
}

static void test_says_what_it_is(void **state)
{
    json_t *messages = conversation("no files");

    (void) state;
    ask(messages, "Which region grew fastest?");
    expect(messages, "answer", "ANTHROPIC_API_KEY");
    json_decref(messages);

    messages = conversation(SAMPLE);
    ask(messages, "Write me a poem");
    expect(messages, "answer", "I only know a few questions");
    json_decref(messages);
}

/* The words of a file's name or profile are not the question. */
static void test_question_begins_where_files_end(void **state)
{
    json_t *messages = conversation("");

    (void) state;
    ask(messages, "<data 1>\n" SAMPLE "\n</data 1>\n\nrevenue by month");
    expect(messages, "run_python", "pd.read_csv");
    result(messages, "", false);
    expect(messages, "run_python", "by_month");
    json_decref(messages);
}

struct heard {
    char text[65536];
    size_t len, pieces;
};

static void hear(void *arg, size_t index, const char *name, const char *text, size_t len)
{
    struct heard *heard = arg;

    assert_int_equal(index, 0);
    assert_string_equal(name, "run_python");
    assert_true(heard->len + len < sizeof(heard->text));
    memcpy(heard->text + heard->len, text, len);
    heard->len += len;
    heard->pieces++;
}

static void test_streams_what_it_returns(void **state)
{
    json_t *messages = conversation(SAMPLE), *tools = json_pack("[{s:s}]", "name", "run_python");
    struct llm_request request = { .messages = messages, .tools = tools };
    struct heard heard = { .len = 0 };
    struct llm_watch watch = { .call = hear, .arg = &heard };
    struct llm_reply reply;
    struct llm_error error;
    json_t *streamed, *call;

    (void) state;
    ask(messages, "revenue by month");
    assert_int_equal(demo_chat(&request, &watch, -1, &reply, &error), 0);
    assert_true(heard.pieces > 3);
    streamed = json_loadb(heard.text, heard.len, 0, NULL);
    call = json_array_get(json_object_get(reply.message, "tool_calls"), 0);
    assert_true(json_equal(streamed, json_object_get(call, "arguments")));
    assert_int_equal(reply.usage.completion, 0);
    assert_true(
        json_equal(json_object_get(json_object_get(reply.trace, "request"), "messages"), messages));
    json_decref(streamed);
    json_decref(reply.message);
    json_decref(reply.trace);

    request.tools = NULL; /* a summary */
    assert_int_equal(demo_chat(&request, NULL, -1, &reply, &error), 0);
    assert_non_null(
        strstr(json_string_value(json_object_get(reply.message, "content")), "revenue by month"));
    json_decref(reply.message);
    json_decref(reply.trace);
    json_decref(messages);
    json_decref(tools);
}

static void test_cancel(void **state)
{
    json_t *messages = conversation(SAMPLE), *tools = json_pack("[{s:s}]", "name", "run_python");
    struct llm_request request = { .messages = messages, .tools = tools };
    struct llm_reply reply;
    struct llm_error error;
    int pipes[2];

    (void) state;
    ask(messages, "revenue by month");
    assert_int_equal(pipe(pipes), 0);
    assert_int_equal(write(pipes[1], "", 1), 1);
    assert_true(demo_chat(&request, NULL, pipes[0], &reply, &error) < 0);
    assert_int_equal(error.failure, LLM_CANCELLED);
    close(pipes[0]);
    close(pipes[1]);
    json_decref(messages);
    json_decref(tools);
}

#define COLUMNS                                                                                    \
    "  order_id integer, key\n  region text\n  units integer\n  price numeric\n  discount\n  "     \
    "returned\n"
#define SHOP                                                                                       \
    "<data 0>\nSource other, postgresql, 1 tables\nTable public.log\nSource shop, postgresql, 3 "  \
    "tables: \"x\"\nTable shop.orders, about 2000 rows: orders\n" COLUMNS                          \
    "Table shop.products: what\nTable shop.regions\nSource last, files, 1 tables\nTable "          \
    "\"sales.csv\"\n</data 0>\n"

static void test_sources(void **state)
{
    json_t *messages = conversation(SHOP);

    (void) state;
    ask(messages, "Which supplier brings the most profit?");
    expect(messages, "run_python", "mark.query(\"shop\", '''");
    result(messages, "ok", false);
    expect(messages, "answer", "{{supplier}}");
    ask(messages, "How far is each region from its target?");
    expect(messages, "run_python", "FROM shop.regions AS r JOIN shop.orders AS o");
    result(messages, "ok", false);
    expect(messages, "answer", "{{last_gap}}");
    ask(messages, "Which region grew fastest?");
    expect(messages, "run_python", "sales = mark.query(\"shop\"");
    result(messages, "ok", false);
    expect(messages, "run_python", "by_region");
    json_decref(messages);

    /* a file that is attached comes first; it has no suppliers */
    messages = conversation(SHOP SAMPLE);
    ask(messages, "Which region grew fastest?");
    expect(messages, "run_python", "pd.read_csv(mark.attachment(\"sales.csv\")");
    json_decref(messages);

    messages = conversation("Source dir, files, 3 tables\nTable \"sales.csv\"\n" COLUMNS
                            "Table \"products.csv\"\n");
    ask(messages, "Which supplier brings the most profit?");
    expect(messages, "run_python",
           "FROM (SELECT DISTINCT * FROM \"sales.csv\") AS o JOIN \"products.csv\" AS p");
    json_decref(messages);
}

static void test_odd_sources(void **state)
{
    static const char *const odd[] = {
        "Source '''); import os #, postgresql\nTable shop.orders\n" COLUMNS "Table shop.products\n",
        "Source shop, postgresql\nTable '''+x+'''.orders\n" COLUMNS "Table shop.products\n",
        "Source shop, postgresql\nTable shop.orders\n" COLUMNS,
        "Source \nTable orders\nTable products\nSource",
    };

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(odd); i++) {
        json_t *messages = conversation(odd[i]);

        ask(messages, "Which supplier brings the most profit?");
        expect(messages, "answer", "**demo** model");
        json_decref(messages);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_questions),
        cmocka_unit_test(test_later_questions_use_the_variables),
        cmocka_unit_test(test_earlier_programs),
        cmocka_unit_test(test_asks_back),
        cmocka_unit_test(test_no_plotly),
        cmocka_unit_test(test_failures),
        cmocka_unit_test(test_other_files),
        cmocka_unit_test(test_says_what_it_is),
        cmocka_unit_test(test_question_begins_where_files_end),
        cmocka_unit_test(test_sources),
        cmocka_unit_test(test_odd_sources),
        cmocka_unit_test(test_streams_what_it_returns),
        cmocka_unit_test(test_cancel),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
