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
 * The data can also be in a data source, whose tables the agent describes (catalogue_text()): then
 * a program begins with a query, and load.py is replaced by one too. Two topics need a join, and
 * are known only where the other tables are: in the same source, or in files that are attached as
 * well.
 *
 * About another file it gives an overview, and about anything else it says what it is.
 *
 * The messages may hold anything: names of files and sources in them go into programs as literals,
 * names of tables if they are plain identifiers, and nothing else of them does.
 */
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

#include "base/autoclean.h"
#include "mark/llm/demo.h"
#include "mark/llm/demo_texts.h"

#include "base/banned.h"

#define DATA_PATH      "/workspace/data/"
#define MEND_NUMBERS   "Some numbers in your answer were not computed:"
#define BUDGET_ENDED   "The budget for this question is used up."
#define FENCE_END      "\n</data "
#define QUESTION_MAX   2000 /* bytes that are looked at */
#define FILE_NAME_MAX  255
#define NAME_MAX_BYTES 64 /* of a source */
#define TABLE_NAME_MAX 130

/* What the sample has and hardly any other file does. */
static const char *const sample_columns[] = { "order_id", "region",   "product", "units",
                                              "price",    "discount", "returned" };
static const char *const regions[] = { "North", "South", "East", "West" };

struct topic {
    const char *all[2]; /* words, with "|" between: one of each must begin a word of the question */
    const char *thought, *code, *story; /* without code: what to ask back */
    const char *query,
        *files; /* how the program begins, if it needs a join: of a source, of files */
};

enum {
    TOPIC_TARGETS,
    TOPIC_SUPPLIER,
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
    [TOPIC_TARGETS] = { { "target|goal" },
                        "I compare the revenue of each region with its target.",
                        demo_targets_py,
                        demo_targets_md,
                        demo_targets_query_py,
                        demo_targets_files_py },
    [TOPIC_SUPPLIER] = { { "supplier|profit|margin" },
                         "What products cost is in another table, so I join the two.",
                         demo_supplier_py,
                         demo_supplier_md,
                         demo_supplier_query_py,
                         demo_supplier_files_py },
    [TOPIC_RETURNS] = { { "return|refund|sent back|come back|came back" },
                        "I count what came back, product by product.",
                        demo_returns_py,
                        demo_returns_md,
                        NULL,
                        NULL },
    [TOPIC_ORDER_VALUE] = { { "average|order value|basket|aov|typical|median" },
                            "An average hides large orders, so I look at the median too.",
                            demo_order_value_py,
                            demo_order_value_md,
                            NULL,
                            NULL },
    [TOPIC_DISCOUNT] = { { "discount|rebate|price cut" },
                         "I compare orders with and without a discount.",
                         demo_discount_py,
                         demo_discount_md,
                         NULL,
                         NULL },
    [TOPIC_GROWTH] = { { "grow|grew|increase|increasing|shrink|shrank|declin|fastest|year over "
                         "year" },
                       "I compare the two years, region by region.",
                       demo_growth_py,
                       demo_growth_md,
                       NULL,
                       NULL },
    [TOPIC_QUARTER] = { { "quarter" },
                        "The same by quarter.",
                        demo_quarter_py,
                        demo_quarter_md,
                        NULL,
                        NULL },
    [TOPIC_MONTH] = { { "month|trend|over time|season|december|christmas|timeline" },
                      "I add up the orders of each month.",
                      demo_month_py,
                      demo_month_md,
                      NULL,
                      NULL },
    [TOPIC_BEST] = { { "best|most important", "product|item" },
                     NULL,
                     NULL,
                     "Best by what: by revenue, or by units sold?",
                     NULL,
                     NULL },
    [TOPIC_PRODUCTS] = { { "product|bestsell|best-sell|best sell|item|top" },
                         "I add up the orders of each product.",
                         demo_products_py,
                         demo_products_md,
                         NULL,
                         NULL },
    [TOPIC_REGION] = { { "region" },
                       "I compare the two years, region by region.",
                       demo_growth_py,
                       demo_growth_md,
                       NULL,
                       NULL },
    [TOPIC_REVENUE] = { { "revenue|turnover|total|how much|sales|sell|sold" },
                        "I add up the orders of each month.",
                        demo_month_py,
                        demo_month_md,
                        NULL,
                        NULL },
    [TOPIC_OVERVIEW] = { { "overview|describe|summary|summari|what is in|what's in|what "
                           "do|explore|about|"
                           "look at|column|missing|quality|clean|profile|data|file" },
                         "First what the file has, and what it lacks.",
                         demo_overview_py,
                         demo_overview_md,
                         NULL,
                         NULL },
};

struct view {
    char question[QUESTION_MAX + 1], before[QUESTION_MAX + 1]; /* this one and the one before it */
    char file[FILE_NAME_MAX + 1];                              /* "": none is attached */
    char products_file[FILE_NAME_MAX + 1], regions_file[FILE_NAME_MAX + 1];
    char source[NAME_MAX_BYTES + 1]; /* one that has the sample; "": none */
    char orders[TABLE_NAME_MAX + 1], products[TABLE_NAME_MAX + 1], regions[TABLE_NAME_MAX + 1];
    bool files_source;   /* its tables are files */
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

/* Whether there is a way to the rows that its join needs. */
static bool can_join(const struct view *view, size_t topic)
{
    if (!topics[topic].query)
        return true;
    if (view->source[0])
        return topic == TOPIC_TARGETS ? view->regions[0] : view->products[0];
    return topic == TOPIC_TARGETS ? view->regions_file[0] : view->products_file[0];
}

static size_t topic_by_words(const struct view *view, const char *question)
{
    for (size_t i = 0; i < TOPICS; i++) {
        bool fits = has_word(question, topics[i].all[0]) &&
                    (!topics[i].all[1] || has_word(question, topics[i].all[1]));

        if (fits && can_join(view, i) && !(i == TOPIC_BEST && measure_of(question)))
            return i;
    }
    return TOPICS;
}

/* What a question is about; one that only names a region or a measure goes on with the one before.
 */
static size_t topic_of(const struct view *view)
{
    size_t topic = topic_by_words(view, view->question);
    size_t before = topic_by_words(view, view->before);

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

/* Which of the sample's files it is called like; the others are only of use with the first. */
static char *place_of_file(struct view *view, const char *name, size_t len)
{
    static const char products[] = "products.csv", regions_name[] = "regions.csv";

    if (len == strlen(products) && strncasecmp(name, products, len) == 0)
        return view->products_file;
    if (len == strlen(regions_name) && strncasecmp(name, regions_name, len) == 0)
        return view->regions_file;
    return view->file;
}

/* The last file that is named by its path in the box; people attach what they ask about. */
static void find_file(const char *content, struct view *view)
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
            char *file = place_of_file(view, p, len);

            memcpy(file, p, len);
            file[len] = '\0';
        }
    }
}

/* ---- sources, as catalogue_text() describes them ---- */

/* Copies what stands up to one of @ends, if it is a name: letters, digits, "_", "." and quotes. */
static size_t name_copy(const char *text, const char *ends, size_t max, char *buf)
{
    size_t len = strcspn(text, ends);

    for (size_t i = 0; i < len; i++)
        if (!is_letter(text[i]) && !(text[i] >= '0' && text[i] <= '9') && !strchr("_.\"", text[i]))
            return 0;
    if (len == 0 || len > max)
        return 0;
    memcpy(buf, text, len);
    buf[len] = '\0';
    return len;
}

/* Whether the last part of a table's name is @word, or the file @word.csv. */
static bool table_is(const char *name, const char *word)
{
    size_t len = strlen(name), word_len = strlen(word);

    len -= len > 0 && name[len - 1] == '"' ? 1 : 0;
    if (len > 4 && strncmp(name + len - 4, ".csv", 4) == 0)
        len -= 4;
    return len >= word_len && strncmp(name + len - word_len, word, word_len) == 0 &&
           (len == word_len || strchr(".\"", name[len - word_len - 1]));
}

static void find_table(const char *line, struct view *view)
{
    char name[TABLE_NAME_MAX + 1];

    if (name_copy(line, ",:; \n", TABLE_NAME_MAX, name) == 0)
        return;
    if (table_is(name, view->files_source ? "sales" : "orders"))
        memcpy(view->orders, name, sizeof name);
    else if (table_is(name, "products"))
        memcpy(view->products, name, sizeof name);
    else if (table_is(name, "regions"))
        memcpy(view->regions, name, sizeof name);
}

/* The first source that has the orders; what comes after its tables is another. */
static void find_source(const char *content, struct view *view)
{
    static const char source[] = "Source ", table[] = "Table ";
    const char *line = content;

    while (line && !(view->orders[0] && begins(line, source))) {
        if (begins(line, source)) {
            size_t len = name_copy(line + strlen(source), ", \n", NAME_MAX_BYTES, view->source);

            view->products[0] = view->regions[0] = '\0';
            view->files_source = len > 0 && begins(line + strlen(source) + len, ", files");
        } else if (begins(line, table) && view->source[0]) {
            find_table(line + strlen(table), view);
        }
        line = strchr(line, '\n');
        line = line ? line + 1 : NULL;
    }
    if (!view->orders[0])
        view->source[0] = '\0';
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
    return strstr(code, "sales = pd.read_csv") != NULL ||
           strstr(code, "sales = mark.query") != NULL;
}

static void view_read(const json_t *messages, struct view *view)
{
    const json_t *message;
    size_t i;

    json_array_foreach (messages, i, message) {
        const char *content = text_of(message, "content"), *code = code_in(message);

        if (!has_role(message, "tool"))
            find_file(content, view);
        if (!has_role(message, "tool") && !has_role(message, "assistant") && !view->source[0])
            find_source(content, view);
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
    if (view->file[0]) /* what people attach, they ask about */
        view->source[0] = '\0';
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

/* @text as a literal of Python, for free(). */
static char *literal(const char *text)
{
    json_t *json = json_string(text);
    char *made = json ? json_dumps(json, JSON_ENCODE_ANY) : NULL;

    json_decref(json);
    return made;
}

/* Where the rows come from, in a text of a program. A file may have an order twice. */
static char *with_places(const struct view *view, char *text)
{
    bool source = view->source[0] != '\0';
    autofree char *name = literal(view->source), *file = literal(view->file), *orders = NULL;
    autofree char *products = source ? strdup(view->products) : literal(view->products_file);
    autofree char *regions_name = source ? strdup(view->regions) : literal(view->regions_file);

    if (asprintf(&orders, view->files_source ? "(SELECT DISTINCT * FROM %s)" : "%s", view->orders) <
        0)
        orders = NULL;
    if (!name || !file || !orders || !products || !regions_name) {
        free(text);
        return NULL;
    }
    text = replaced(text, "@SOURCE@", name);
    text = replaced(text, "@ORDERS@", orders);
    text = replaced(text, "@PRODUCTS@", products);
    text = replaced(text, "@REGIONS@", regions_name);
    return replaced(text, "@FILE@", file);
}

static int turn_program(const struct view *view, const struct topic *topic, const char *program,
                        bool plotly, struct demo_turn *turn)
{
    const char *region = region_of(view->question), *measure = measure_of(view->question);
    const char *begin = !topic || !topic->query ? NULL
                        : view->source[0]       ? topic->query
                                                : topic->files;
    char chosen[64] = "sales", scope[32] = "\"all regions\"";
    autofree char *text = with_chart(program, plotly), *whole = NULL;

    if (region) {
        (void) snprintf(chosen, sizeof(chosen), "sales[sales[\"region\"] == \"%s\"]", region);
        (void) snprintf(scope, sizeof(scope), "\"the %s\"", region);
    }
    if (text &&
        asprintf(&whole, "%s%s%s", begin ? "import mark\n\n" : "", begin ? begin : "", text) < 0)
        whole = NULL;
    whole = replaced(TAKE_PTR(whole), "@CHOSEN@", chosen);
    whole = replaced(TAKE_PTR(whole), "@SCOPE@", scope);
    whole = replaced(TAKE_PTR(whole), "@MEASURE@", measure ? measure : "revenue");
    whole = whole ? with_places(view, TAKE_PTR(whole)) : NULL;
    return whole ? turn_text(turn, "run_python", "code", whole) : -ENOMEM;
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
        turn->thought = "I read the data and look at what is missing.";
        return turn_program(view, NULL, load, true, turn);
    }
    if (no_plotly && last && strstr(last, "import plotly")) {
        turn->thought = "There is no plotly here; matplotlib can draw this too.";
        return turn_program(view, topic, topic->code, false, turn);
    }
    if (failed)
        return turn_text(turn, "answer", "story", demo_failed_md);
    turn->thought = topic->thought;
    return turn_program(view, topic, topic->code, true, turn);
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
    static const struct topic other = {
        { NULL, NULL }, "I have no script for this file; I describe it.",
        demo_other_py,  demo_other_md,
        NULL,           NULL
    };
    struct view view = { 0 };
    const char *load;
    size_t topic;

    *ret_turn = (struct demo_turn){ 0 };
    view_read(messages, &view);
    view.must_answer = view.must_answer || (must && strcmp(must, "answer") == 0);
    if (!has_tools)
        return turn_without_tools(&view, ret_turn);
    topic = topic_of(&view);
    if ((!view.file[0] && !view.source[0]) || (view.sample && topic == TOPICS) ||
        (view.source[0] && !view.products[0]))
        return turn_text(ret_turn, "answer", "story", demo_help_md);
    if (!view.sample)
        return turn_topic(messages, &view, &other, NULL, ret_turn);
    if (!topics[topic].code && !view.must_answer)
        return turn_text(ret_turn, "ask_user", "question", topics[topic].story);
    topic = topic == TOPIC_BEST ? TOPIC_PRODUCTS : topic;
    load = view.source[0] ? demo_source_load_py : demo_load_py;
    if (view.source[0] && topics[topic].query) /* a query has all it needs */
        load = NULL;
    return turn_topic(messages, &view, &topics[topic], load, ret_turn);
}
