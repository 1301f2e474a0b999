#include "mark/agent/response.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/clock.h"

#include "base/banned.h"

void ending_release(struct ending *ending)
{
    free(ending->story);
    free(ending->question);
    json_decref(ending->charts);
    json_decref(ending->tables);
    *ending = (struct ending){ 0 };
}

const char *response_status_name(enum store_message_status status)
{
    switch (status) {
    case STORE_MESSAGE_PENDING:
        return "pending";
    case STORE_MESSAGE_OK:
        return "ok";
    case STORE_MESSAGE_STOPPED:
        return "stopped";
    case STORE_MESSAGE_NEEDS_INPUT:
        return "needs_input";
    case STORE_MESSAGE_ERROR:
        break;
    }
    return "error";
}

static json_t *usage_to_json(const struct llm_usage *usage, int64_t wall_us)
{
    int64_t ms = wall_us / 1000;

#define COUNT(n) ((n) < 0 ? json_null() : json_integer(n))
    return json_pack(
        "{s:o, s:o, s:o, s:o, s:f}", "prompt_tokens", COUNT(usage->prompt), "completion_tokens",
        COUNT(usage->completion), "cached_tokens", COUNT(usage->cached), "cost",
        usage->cost < 0 ? json_null() : json_real(usage->cost), "seconds", (double) ms / 1000.0);
#undef COUNT
}

static bool array_has(const json_t *array, const json_t *wanted)
{
    const json_t *item;
    size_t i;

    json_array_foreach (array, i, item)
        if (item == wanted)
            return true;
    return false;
}

/* Each at most once: what was gathered has a bound, and so has what is shown of it. */
json_t *response_choose(const json_t *all, const json_t *numbers)
{
    json_t *chosen = json_array(), *number;
    size_t i;

    if (!json_is_array(numbers)) {
        (void) json_array_extend(chosen, (json_t *) all);
        return chosen;
    }
    json_array_foreach (numbers, i, number) {
        json_int_t n = json_integer_value(number);
        json_t *item = n > 0 ? json_array_get(all, (size_t) (n - 1)) : NULL;

        if (item && i < TABLES_MAX && !array_has(chosen, item))
            (void) json_array_append(chosen, item);
    }
    return chosen;
}

static json_t *response_frame(const struct answer *answer, const char *status, const char *story)
{
    const char *model = answer->model ? llm_model_name(answer->model) : NULL;
    json_t *response =
        json_pack("{s:s, s:s, s:s, s:s, s:s, s:s?}", "chat_id", answer->chat_id, "message_id",
                  answer->message_id, "question_id", answer->question_id, "status", status,
                  "answer_story", story, "model", model);

    if (response && answer->model && llm_model_is_demo(answer->model))
        (void) json_object_set_new(response, "demo", json_true());
    return response;
}

/* Adds what was gathered. */
static void response_fill(json_t *response, const struct gathered *gathered, const json_t *charts,
                          const json_t *tables)
{
    json_t *shown = response_choose(gathered->charts, charts);
    json_t *first = json_array_get(shown, 0);

    (void) json_object_set(response, "visualization", first ? first : json_null());
    (void) json_object_set_new(response, "visualizations", shown);
    (void) json_object_set_new(response, "data", response_choose(gathered->tables, tables));
    (void) json_object_set_new(response, "steps", json_copy(gathered->steps));
    (void) json_object_set_new(response, "values", json_copy(gathered->values));
    (void) json_object_set_new(response, "artifacts", json_copy(gathered->artifacts));
    (void) json_object_set_new(response, "notices", json_copy(gathered->notices));
}

json_t *response_pending(struct answer *answer)
{
    struct llm_usage unknown = { -1, -1, -1, -1 };
    json_t *response = response_frame(answer, "pending", ""), *copy;

    if (!response)
        return NULL;
    response_fill(response, &answer->gathered, NULL, NULL);
    (void) json_object_set_new(response, "question", json_null());
    (void) json_object_set_new(
        response, "numbers", json_pack("{s:i, s:[], s:[]}", "checked", 0, "unsupported", "marks"));
    (void) json_object_set_new(response, "usage", usage_to_json(&unknown, 0));
    /* The answer's thread goes on changing what it shares. */
    copy = json_deep_copy(response);
    json_decref(response);
    return copy;
}

/* Marks name tables by the order in which they were handed over; the wire shows those that the
 * model chose, in its order. */
static void renumber_tables(json_t *marks, const json_t *tables, const json_t *shown)
{
    json_t *mark;
    size_t i, place;

    json_array_foreach (marks, i, mark) {
        const json_t *table = json_object_get(mark, "table"), *item;
        json_int_t found = 0;

        if (!table)
            continue;
        table = json_array_get(tables, (size_t) json_integer_value(table) - 1);
        json_array_foreach (shown, place, item)
            if (found == 0 && item == table)
                found = (json_int_t) place + 1;
        if (found > 0) {
            (void) json_object_set_new(mark, "table", json_integer(found));
            continue;
        }
        (void) json_object_del(mark, "table");
        (void) json_object_del(mark, "row");
        (void) json_object_del(mark, "column");
    }
}

json_t *response_build(struct answer *answer, const struct ending *ending,
                       const struct story *story)
{
    const char *text = story ? story->text : ending->story;
    json_t *response = response_frame(answer, response_status_name(ending->status), text), *numbers;

    if (!response)
        return NULL;
    response_fill(response, &answer->gathered, ending->charts, ending->tables);
    (void) json_object_set_new(response, "question",
                               ending->question ? json_string(ending->question) : json_null());
    if (story)
        renumber_tables(story->marks, answer->gathered.tables, json_object_get(response, "data"));
    if (story)
        numbers = json_pack("{s:I, s:O, s:O}", "checked", (json_int_t) story->checked,
                            "unsupported", story->unsupported, "marks", story->marks);
    else
        numbers = json_pack("{s:i, s:[], s:[]}", "checked", 0, "unsupported", "marks");
    (void) json_object_set_new(response, "numbers", numbers);
    (void) json_object_set_new(response, "usage", usage_to_json(&ending->usage, ending->wall_us));
    return response;
}

int response_store_interrupted(struct agent *agent, const struct store_message *message,
                               struct gb_err *err)
{
    static const char story[] =
        "I was interrupted before I could answer: the service stopped in the middle. Your question "
        "is still here; ask for the answer again.";
    struct store_message finished = { .role = STORE_ROLE_ASSISTANT,
                                      .status = STORE_MESSAGE_ERROR,
                                      .updated_us = clock_wall_us() };
    struct llm_usage unknown = { -1, -1, -1, -1 };
    json_t *parts = json_pack("[{s:s, s:s}]", "type", "text", "text", story);
    json_t *response = json_pack(
        "{s:s, s:s, s:s, s:s, s:s, s:n, s:n, s:[], s:[], s:[], s:[], s:[], s:[], s:n, s:{s:i, "
        "s:[], s:[]}, s:o}",
        "chat_id", message->chat_id, "message_id", message->id, "question_id", message->reply_to,
        "status", "error", "answer_story", story, "model", "visualization", "visualizations",
        "data", "steps", "values", "artifacts", "notices", "question", "numbers", "checked", 0,
        "unsupported", "marks", "usage", usage_to_json(&unknown, 0));
    int r;

    memcpy(finished.id, message->id, sizeof finished.id);
    memcpy(finished.chat_id, message->chat_id, sizeof finished.chat_id);
    finished.parts = parts ? json_dumps(parts, JSON_COMPACT) : NULL;
    finished.response = response ? json_dumps(response, JSON_COMPACT) : NULL;
    r = finished.parts && finished.response
            ? store_message_finish(agent->config.store, &finished, err)
            : gb_fail(err, ENOMEM, "end an answer");
    json_decref(parts);
    json_decref(response);
    free(finished.parts);
    free(finished.response);
    return r;
}
