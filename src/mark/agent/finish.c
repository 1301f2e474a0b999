/* The end of an answer: the story filled in and checked, everything stored. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/text/hex.h"
#include "mark/agent/work.h"

#include "base/banned.h"

#define MEND_SHOWN_MAX  20
#define CELLS_BYTES_MAX ((size_t) 4 * 1024 * 1024)

/* ---- numbers ---- */

static void list_texts(struct text *out, const json_t *list)
{
    const json_t *item;
    size_t i;

    json_array_foreach (list, i, item) {
        if (i == MEND_SHOWN_MAX) {
            text_puts(out, ", ...");
            break;
        }
        text_printf(out, "%s%.60s", i > 0 ? ", " : "", json_string_value(item));
    }
}

static char *mend_words(const struct story *story)
{
    struct text words = { 0 };

    text_puts(&words, "Some numbers in your answer were not computed: ");
    list_texts(&words, story->unsupported);
    text_puts(&words, ".\n");
    if (json_array_size(story->unknown) > 0) {
        text_puts(&words, "No value was handed over for these references: ");
        list_texts(&words, story->unknown);
        text_puts(&words, ".\n");
    }
    text_puts(&words, "Compute them from the data in a program and hand them over with "
                      "mark.value(name, x), then refer to them as {{name}}; or leave them out. "
                      "Answer again, complete, without mentioning this request.");
    return text_take(&words);
}

bool finish_mend(struct work *work, const char *tool_call_id)
{
    autofree char *words = NULL;
    struct story story = { 0 };
    json_t *message;
    bool mend;

    if (work->mended || work->last || !work->ending.story || work->ending.ours ||
        story_check(work->evidence, work->ending.story, &story) < 0)
        return false;
    mend = json_array_size(story.unsupported) + json_array_size(story.unknown) > 0;
    if (mend)
        words = mend_words(&story);
    story_release(&story);
    if (!words)
        return false;
    work->mended = true;
    work_decision(work, "mend_numbers");
    if (tool_call_id) {
        message =
            json_pack("{s:s, s:s, s:s, s:o, s:b}", "role", "tool", "tool_call_id", tool_call_id,
                      "name", "answer", "content", json_text(words), "error", 1);
        (void) json_array_append_new(work->messages, message);
    } else {
        (void) work_say(work, "user", words);
    }
    if (!work->agent->config.strict)
        model_story_void(work);
    /* The first attempt is kept: if no second one comes, it is shown, with its marks. */
    return true;
}

/* ---- what is kept ---- */

static json_t *kept_files(const struct work *work)
{
    json_t *files = json_array();

    for (size_t i = 0; i < work->history.files_len; i++) {
        const struct chat_file *file = &work->history.files[i];
        char hash[2 * STORE_HASH_BYTES + 1] = "";

        for (size_t j = 0; j < STORE_HASH_BYTES; j++)
            hex_put(file->attachment.sha256[j], hash + 2 * j);
        (void) json_array_append_new(
            files, json_pack("{s:s, s:s, s:s, s:s, s:I}", "attachment_id", file->attachment.id,
                             "name", file->attachment.name, "path", file->path, "sha256", hash,
                             "size", (json_int_t) file->attachment.size));
    }
    return files;
}

/* Code of the steps that ended well, for rebuilding the session and for recheck; or of the others,
 * whose literals are still in variables of the session. */
static json_t *kept_cells(const struct gathered *gathered, bool ended_well)
{
    json_t *cells = json_array();
    const json_t *step;
    size_t i, bytes = 0;

    json_array_foreach (gathered->steps, i, step) {
        json_t *code = json_object_get(step, "code");

        bytes += json_string_length(code);
        if (receipt_ok(json_object_get(step, "receipt")) == ended_well && bytes <= CELLS_BYTES_MAX)
            (void) json_array_append(cells, code);
    }
    return cells;
}

static json_t *kept_sources(const struct work *work)
{
    json_t *names = json_array();

    for (size_t i = 0; work->answer->sources[i]; i++)
        (void) json_array_append_new(names, json_string(work->answer->sources[i]));
    return names;
}

static json_t *details_of(const struct work *work)
{
    const struct gathered *gathered = &work->answer->gathered;
    const json_t *step = json_array_get(gathered->steps, 0);
    json_t *details = json_pack(
        "{s:o, s:o, s:O, s:o, s:O?, s:O?, s:O?, s:s, s:s, s:s?, s:O}", "cells",
        kept_cells(gathered, true), "failed_cells", kept_cells(gathered, false), "values",
        gathered->values, "files", kept_files(work), "charts_shown", work->ending.charts,
        "tables_shown", work->ending.tables, "template",
        json_object_get(json_object_get(step, "receipt"), "template"), "packages",
        service_packages_text(work->agent->config.service), "model", llm_model_name(work->model),
        "cause", work->ending.cause, "decisions", work->decisions);

    if (details && !work->ending.ours && work->ending.story) /* with its references */
        (void) json_object_set_new(details, "story", json_text(work->ending.story));
    if (details && json_array_size(gathered->steps) > 0 && work->history.mounts.len > 0)
        (void) json_object_set_new(details, "source_files", mounts_state(&work->history.mounts));
    if (details && work->answer->sources)
        (void) json_object_set_new(details, "sources", kept_sources(work));
    if (details && work->history.summary)
        (void) json_object_set_new(details, "summary",
                                   json_pack("{s:s, s:I}", "text", work->history.summary, "until",
                                             (json_int_t) work->history.summary_seq));
    return details;
}

static void store_answer(struct work *work, const json_t *response, const char *story)
{
    struct store_message message = { .role = STORE_ROLE_ASSISTANT,
                                     .status = work->ending.status,
                                     .updated_us = clock_wall_us() };
    json_t *parts = json_pack("[{s:s, s:s}]", "type", "text", "text", story);
    json_t *details = details_of(work), *usage = json_object_get(response, "usage");
    struct gb_err err = { .msg = "out of memory" };
    int r = -ENOMEM;

    memcpy(message.id, work->answer->message_id, sizeof message.id);
    memcpy(message.chat_id, work->answer->chat_id, sizeof message.chat_id);
    (void) snprintf(message.prompt_version, sizeof message.prompt_version, "%s",
                    work->agent->prompts.version);
    message.parts = parts ? json_dumps(parts, JSON_COMPACT) : NULL;
    message.text = (char *) story;
    message.response = json_dumps(response, JSON_COMPACT);
    message.details = details ? json_dumps(details, JSON_COMPACT) : NULL;
    message.usage = usage ? json_dumps(usage, JSON_COMPACT) : NULL;
    if (message.parts && message.response && message.details)
        r = store_message_finish(work->agent->config.store, &message, &err);
    if (r < 0 && r != -ENOENT) /* else the chat was deleted meanwhile */
        service_log(work->agent->config.service, LOG_LEVEL_ERROR,
                    "mark: answer %s cannot be stored: %s", work->answer->message_id, err.msg);
    json_decref(parts);
    json_decref(details);
    free(message.parts);
    free(message.response);
    free(message.details);
    free(message.usage);
}

/* ---- the end ---- */

/* In strict mode a story with a number that nobody computed is not shown. */
static void withhold(struct work *work, struct story *story)
{
    size_t count = json_array_size(story->unsupported);
    char *words = NULL;

    if (!work->agent->config.strict || count == 0)
        return;
    work_decision(work, "withheld");
    if (asprintf(&words,
                 "I wrote an answer, but %zu number%s in it %s not computed by any program, and "
                 "this service shows only numbers that were. What was computed is below. Please "
                 "ask again, or more precisely.",
                 count, count == 1 ? "" : "s", count == 1 ? "was" : "were") < 0)
        words = NULL;
    free(story->text);
    story->text = words;
    json_decref(story->marks);
    story->marks = json_array();
    story->checked = 0;
    free(work->ending.question);
    work->ending.question = NULL;
    work->ending.status = STORE_MESSAGE_ERROR;
    work->ending.cause = "withheld";
}

/* A question is shown as it was checked, with its references filled in. */
static void take_question(struct ending *ending, const struct story *story)
{
    char *text = ending->question && story->text ? strdup(story->text) : NULL;

    if (!text)
        return;
    free(ending->question);
    ending->question = text;
}

static void count_ending(struct work *work)
{
    struct agent_stats *stats = &work->agent->stats;

    (void) pthread_mutex_lock(&work->agent->lock);
    switch (work->ending.status) {
    case STORE_MESSAGE_OK:
        stats->ok++;
        break;
    case STORE_MESSAGE_STOPPED:
        stats->stopped++;
        break;
    case STORE_MESSAGE_NEEDS_INPUT:
        stats->needs_input++;
        break;
    case STORE_MESSAGE_ERROR:
    case STORE_MESSAGE_PENDING:
        stats->error++;
        break;
    }
    (void) pthread_mutex_unlock(&work->agent->lock);
}

static void notice_dropped(struct work *work)
{
    int64_t dropped = work->answer->gathered.dropped;

    if (dropped > 0)
        work_notice(work,
                    "%lld values, tables, charts or files are not shown: they were malformed or "
                    "too large.",
                    (long long) dropped);
}

void finish(struct work *work)
{
    struct ending *ending = &work->ending;
    struct story story = { 0 };
    json_t *response, *budget;
    bool checked;
    int r = 0;

    if (!ending->story)
        work_fail(work, "memory", "The service ran out of memory. Please ask again in a moment.");
    checked = !ending->ours && ending->story && work->evidence;
    if (checked)
        r = story_check(work->evidence, ending->story, &story);
    if (r < 0) {
        checked = false;
        work_fail(work, "story",
                  "The model's answer was too long or had too many references to be checked, so "
                  "it is not shown. What was computed is below. Please ask again.");
    }
    if (checked) {
        withhold(work, &story);
        take_question(ending, &story);
    }
    ending->usage = work->usage;
    ending->wall_us = clock_now_us() - work->begun_us;
    notice_dropped(work);
    artifacts_keep(work);
    response = response_build(work->answer, ending, checked ? &story : NULL);
    budget = spending_end(work);
    (void) json_object_set_new(response, "budget", budget ? budget : json_null());
    if (response) {
        const char *text = checked && story.text ? story.text : ending->story;

        store_answer(work, response, text);
        audit_answer(work, text);
    }
    count_ending(work);
    story_release(&story);
    answer_end(work->answer, response);
}
