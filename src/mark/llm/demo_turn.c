/*
 * The demo model's part of a conversation: which question it recognises, which program it sends,
 * which story it tells.
 *
 * Theory of operation. Like any model it has no memory but the messages. The last one of the user
 * is the question; the calls after it are what has been done about it so far. About the sample data
 * it knows the topics of the table below, by their words, the first row that fits. A topic has a
 * program and a story (demo/NAME.py, demo/NAME.md), and all need the data, which demo/load.py reads
 * once a chat: later questions use its variables. A program ends with two ways to draw its chart;
 * the second is sent if the box has no plotly. A story has references where the numbers go and no
 * number of its own, so it is true of whatever the program computed.
 *
 * About another file it gives an overview, and about anything else it says what it is.
 *
 * The messages may hold anything: names of files in them go into programs as literals, and nothing
 * else of them does.
 */
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

#include "base/autoclean.h"
#include "mark/llm/demo.h"
#include "mark/llm/demo_texts.h"

#include "base/banned.h"

#define DATA_PATH     "/workspace/data/"
#define MEND_NUMBERS  "Some numbers in your answer were not computed:"
#define BUDGET_ENDED  "The budget for this question is used up."
#define FENCE_END     "\n</data "
#define QUESTION_MAX  2000 /* bytes that are looked at */
#define FILE_NAME_MAX 255

/* What the sample has and hardly any other file does. */
static const char *const sample_columns[] = { "order_id", "region",   "product", "units",
                                              "price",    "discount", "returned" };
static const char *const regions[] = { "North", "South", "East", "West" };

struct topic {
    const char *all[2]; /* words, with "|" between: one of each must begin a word of the question */
    const char *thought, *code, *story; /* without code: what to ask back */
};

enum {
    TOPIC_RETURNS,
    TOPIC_ORDER_VALUE,
    TOPIC_DISCOUNT,
    TOPIC_GROWTH,
    TOPIC_QUARTER,
    TOPIC_MONTH,
    TOPIC_BEST,
    TOPIC_PRODUCTS,
    TOPIC_REGION,
    TOPIC_REVENUE,
    TOPIC_OVERVIEW,
    TOPICS, /* none of them */
};

static const struct topic topics[TOPICS] = {
    [TOPIC_RETURNS] = { { "return|refund|sent back|come back|came back" },
                        "I count what came back, product by product.",
                        demo_returns_py,
                        demo_returns_md },
    [TOPIC_ORDER_VALUE] = { { "average|order value|basket|aov|typical|median" },
                            "An average hides large orders, so I look at the median too.",
                            demo_order_value_py,
                            demo_order_value_md },
    [TOPIC_DISCOUNT] = { { "discount|rebate|price cut" },
                         "I compare orders with and without a discount.",
                         demo_discount_py,
                         demo_discount_md },
    [TOPIC_GROWTH] = { { "grow|grew|increase|increasing|shrink|shrank|declin|fastest|year over "
                         "year" },
                       "I compare the two years, region by region.",
                       demo_growth_py,
                       demo_growth_md },
    [TOPIC_QUARTER] = { { "quarter" }, "The same by quarter.", demo_quarter_py, demo_quarter_md },
    [TOPIC_MONTH] = { { "month|trend|over time|season|december|christmas|timeline" },
                      "I add up the orders of each month.",
                      demo_month_py,
                      demo_month_md },
    [TOPIC_BEST] = { { "best|most important", "product|item" },
                     NULL,
                     NULL,
                     "Best by what: by revenue, or by units sold?" },
    [TOPIC_PRODUCTS] = { { "product|bestsell|best-sell|best sell|item|top" },
                         "I add up the orders of each product.",
                         demo_products_py,
                         demo_products_md },
    [TOPIC_REGION] = { { "region" },
                       "I compare the two years, region by region.",
                       demo_growth_py,
                       demo_growth_md },
    [TOPIC_REVENUE] = { { "revenue|turnover|total|how much|sales|sell|sold" },
                        "I add up the orders of each month.",
                        demo_month_py,
                        demo_month_md },
    [TOPIC_OVERVIEW] = { { "overview|describe|summary|summari|what is in|what's in|what "
                           "do|explore|about|"
                           "look at|column|missing|quality|clean|profile|data|file" },
                         "First what the file has, and what it lacks.",
                         demo_overview_py,
                         demo_overview_md },
};

struct view {
    char question[QUESTION_MAX + 1], before[QUESTION_MAX + 1]; /* this one and the one before it */
    char file[FILE_NAME_MAX + 1];                              /* "": none is attached */
    bool sample, loaded; /* the file is the sample; a program of this chat has read it */
    bool must_answer;    /* no more programs */
    size_t asked;        /* index of the message with the question */
};

/* ---- words ---- */

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Whether one of @words ("a|b") stands in @text at the start of a word. */
static bool has_word(const char *text, const char *words)
{
    while (*words) {
        size_t len = strcspn(words, "|");

        for (const char *p = text; *p; p++)
            if ((p == text || !is_letter(p[-1])) && strncasecmp(p, words, len) == 0)
                return true;
        words += len + (words[len] == '|');
    }
    return false;
}

static const char *region_of(const char *text)
{
    for (size_t i = 0; i < ARRAY_LEN(regions); i++)
        if (has_word(text, regions[i]))
            return regions[i];
    return NULL;
}

/* "revenue" or "units"; NULL if it says neither. */
static const char *measure_of(const char *text)
{
    if (has_word(text, "unit|piece|quantit|how many"))
        return "units";
    return has_word(text, "revenue|money|value|turnover|eur") ? "revenue" : NULL;
}

static size_t topic_by_words(const char *question)
{
    for (size_t i = 0; i < TOPICS; i++) {
        bool fits = has_word(question, topics[i].all[0]) &&
                    (!topics[i].all[1] || has_word(question, topics[i].all[1]));

        if (fits && !(i == TOPIC_BEST && measure_of(question)))
            return i;
    }
    return TOPICS;
}

/* What a question is about; one that only names a region or a measure goes on with the one before.
 */
static size_t topic_of(const struct view *view)
{
    size_t topic = topic_by_words(view->question), before = topic_by_words(view->before);

    if (before == TOPIC_BEST && measure_of(view->question) &&
        (topic == TOPICS || topic == TOPIC_REVENUE || topic == TOPIC_PRODUCTS))
        return TOPIC_PRODUCTS;
    if (topic == TOPICS && region_of(view->question))
        return before == TOPIC_QUARTER ? TOPIC_QUARTER : TOPIC_MONTH;
    return topic;
}

/* ---- reading the messages ---- */

static const char *text_of(const json_t *message, const char *key)
{
    const char *text = json_string_value(json_object_get(message, key));

    return text ? text : "";
}

static bool has_role(const json_t *message, const char *role)
{
    return strcmp(text_of(message, "role"), role) == 0;
}

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* The person's own words: what the agent says about files stands before them, in a fence. */
static void question_copy(const char *content, char *buf)
{
    size_t len;

    for (const char *p = content; (p = strstr(p, FENCE_END)) != NULL;) {
        p += strlen(FENCE_END);
        content = p + strcspn(p, "\n");
    }
    len = strnlen(content, QUESTION_MAX);
    memcpy(buf, content, len);
    buf[len] = '\0';
}

/* The last file that is named by its path in the box; people attach what they ask about. */
static void find_file(const char *content, char *file)
{
    for (const char *p = content; (p = strstr(p, DATA_PATH)) != NULL;) {
        size_t len = 0;

        p += strlen(DATA_PATH);
        while (p[len] && !strchr("\n\r\t\"'`<>", p[len]) && !begins(p + len, " (") &&
               !begins(p + len, ": "))
            len++;
        while (len > 0 && strchr(".,;: ", p[len - 1]))
            len--;
        if (len > 0 && len <= FILE_NAME_MAX) {
            memcpy(file, p, len);
            file[len] = '\0';
        }
    }
}

static bool names_sample(const json_t *messages)
{
    for (size_t c = 0; c < ARRAY_LEN(sample_columns); c++) {
        const json_t *message;
        bool found = false;
        size_t i;

        json_array_foreach (messages, i, message)
            found = found || strstr(text_of(message, "content"), sample_columns[c]) != NULL;
        if (!found)
            return false;
    }
    return true;
}

/* The code of a run_python call in @message, or NULL. */
static const char *code_in(const json_t *message)
{
    const json_t *calls = json_object_get(message, "tool_calls"), *call;
    size_t i;

    json_array_foreach (calls, i, call)
        if (strcmp(text_of(call, "name"), "run_python") == 0)
            return json_string_value(json_object_get(json_object_get(call, "arguments"), "code"));
    return NULL;
}

static bool is_load(const char *code)
{
    return strstr(code, "sales = pd.read_csv") != NULL;
}

static void view_read(const json_t *messages, struct view *view)
{
    const json_t *message;
    size_t i;

    json_array_foreach (messages, i, message) {
        const char *content = text_of(message, "content"), *code = code_in(message);

        if (!has_role(message, "tool"))
            find_file(content, view->file);
        if (has_role(message, "user") && begins(content, BUDGET_ENDED)) {
            view->must_answer = true;
        } else if (has_role(message, "user") && !begins(content, MEND_NUMBERS)) {
            view->must_answer = false;
            memcpy(view->before, view->question, sizeof(view->before));
            question_copy(content, view->question);
            view->asked = i;
        }
        if ((code && is_load(code)) || (has_role(message, "user") && is_load(content)))
            view->loaded = true;
        /* A box that was started anew has none of its variables. */
        if (has_role(message, "tool") && strstr(content, "name 'sales' is not defined"))
            view->loaded = false;
    }
    view->sample = names_sample(messages);
}

/* ---- answering ---- */

static int turn_set(struct demo_turn *turn, const char *tool, const char *key, json_t *value)
{
    turn->tool = tool;
    turn->arguments = json_pack("{s:o}", key, value);
    return turn->arguments ? 0 : -ENOMEM;
}

static int turn_text(struct demo_turn *turn, const char *tool, const char *key, const char *text)
{
    json_t *value = json_string(text);

    return value ? turn_set(turn, tool, key, value) : -ENOMEM;
}

/* @text with every @name replaced by @value. */
static char *replaced(char *text, const char *name, const char *value)
{
    const char *from = text, *at;
    char *made = NULL;
    size_t size = 0;
    FILE *out = text ? open_memstream(&made, &size) : NULL;

    if (out) {
        while ((at = strstr(from, name)) != NULL) {
            (void) fwrite(from, 1, (size_t) (at - from), out);
            (void) fputs(value, out);
            from = at + strlen(name);
        }
        (void) fputs(from, out);
        if (ferror(out) != 0 || fclose(out) != 0) {
            free(made);
            made = NULL;
        }
    }
    free(text);
    return made;
}

/* The common part of a program and one of its two ways to draw. What that imports comes first: if
 * it is not there, nothing has been handed over yet. */
static char *with_chart(const char *program, bool plotly)
{
    static const char first[] = "# ---- plotly\n", second[] = "# ---- matplotlib\n";
    const char *one = strstr(program, first), *two = strstr(program, second), *drawing, *end;
    size_t import;
    char *text = NULL;

    if (!one || !two)
        return strdup(program);
    drawing = plotly ? one + strlen(first) : two + strlen(second);
    end = plotly ? two : program + strlen(program);
    import = begins(drawing, "import ") ? strcspn(drawing, "\n") + 2 : 0; /* and an empty line */
    if (asprintf(&text, "%.*s%.*s%.*s", (int) import, drawing, (int) (one - program), program,
                 (int) (end - drawing - (ptrdiff_t) import), drawing + import) < 0)
        return NULL;
    return text;
}

static int turn_program(const struct view *view, const char *program, bool plotly,
                        struct demo_turn *turn)
{
    const char *region = region_of(view->question), *measure = measure_of(view->question);
    char chosen[64] = "sales", scope[32] = "\"all regions\"";
    json_t *name = json_string(view->file);
    autofree char *file = name ? json_dumps(name, JSON_ENCODE_ANY) : NULL;
    autofree char *text = file ? with_chart(program, plotly) : NULL;

    json_decref(name);
    if (region) {
        (void) snprintf(chosen, sizeof(chosen), "sales[sales[\"region\"] == \"%s\"]", region);
        (void) snprintf(scope, sizeof(scope), "\"the %s\"", region);
    }
    text = replaced(TAKE_PTR(text), "@CHOSEN@", chosen);
    text = replaced(TAKE_PTR(text), "@SCOPE@", scope);
    text = replaced(TAKE_PTR(text), "@MEASURE@", measure ? measure : "revenue");
    text = replaced(TAKE_PTR(text), "@FILE@", file ? file : "");
    return text ? turn_text(turn, "run_python", "code", text) : -ENOMEM;
}

/* What was done since the question: the last program, and how it ended. */
static const char *last_program(const json_t *messages, const struct view *view, bool *ret_failed,
                                bool *ret_no_plotly)
{
    const char *code = NULL;
    const json_t *message;
    size_t i;

    json_array_foreach (messages, i, message) {
        if (i <= view->asked)
            continue;
        if (code_in(message))
            code = code_in(message);
        if (has_role(message, "tool") && strcmp(text_of(message, "name"), "run_python") == 0) {
            *ret_failed = json_is_true(json_object_get(message, "error"));
            *ret_no_plotly = *ret_failed && strstr(text_of(message, "content"), "plotly");
        }
    }
    return code;
}

/* @load is sent first, unless a program of this chat has done it. */
static int turn_topic(const json_t *messages, const struct view *view, const struct topic *topic,
                      const char *load, struct demo_turn *turn)
{
    bool failed = false, no_plotly = false;
    const char *last = last_program(messages, view, &failed, &no_plotly);
    bool computed = last && !failed && !(load && is_load(last));

    if (computed)
        return turn_text(turn, "answer", "story", topic->story);
    if (view->must_answer)
        return turn_text(turn, "answer", "story", demo_failed_md);
    if (load && !view->loaded) {
        turn->thought = "I read the file and look at what is missing.";
        return turn_program(view, load, true, turn);
    }
    if (no_plotly && last && strstr(last, "import plotly")) {
        turn->thought = "There is no plotly here; matplotlib can draw this too.";
        return turn_program(view, topic->code, false, turn);
    }
    if (failed)
        return turn_text(turn, "answer", "story", demo_failed_md);
    turn->thought = topic->thought;
    return turn_program(view, topic->code, true, turn);
}

static int turn_without_tools(const struct view *view, struct demo_turn *turn)
{
    autofree char *text = NULL;

    /* Without tools the agent wants a summary of what was said. */
    if (asprintf(&text, "The person asked the demo model: %s", view->question) < 0)
        return -ENOMEM;
    return turn_text(turn, NULL, "text", text);
}

int demo_next(const json_t *messages, bool has_tools, const char *must, struct demo_turn *ret_turn)
{
    static const struct topic other = { { NULL, NULL },
                                        "I have no script for this file; I describe it.",
                                        demo_other_py,
                                        demo_other_md };
    struct view view = { 0 };
    size_t topic;

    *ret_turn = (struct demo_turn){ 0 };
    view_read(messages, &view);
    view.must_answer = view.must_answer || (must && strcmp(must, "answer") == 0);
    if (!has_tools)
        return turn_without_tools(&view, ret_turn);
    topic = topic_of(&view);
    if (!view.file[0] || (view.sample && topic == TOPICS))
        return turn_text(ret_turn, "answer", "story", demo_help_md);
    if (!view.sample)
        return turn_topic(messages, &view, &other, NULL, ret_turn);
    if (!topics[topic].code && !view.must_answer)
        return turn_text(ret_turn, "ask_user", "question", topics[topic].story);
    return turn_topic(messages, &view, &topics[topic == TOPIC_BEST ? TOPIC_PRODUCTS : topic],
                      demo_load_py, ret_turn);
}
