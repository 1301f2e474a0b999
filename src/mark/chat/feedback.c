/* Ratings of answers: given by people, exported for whoever improves prompts and models. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/text/utf8.h"
#include "mark/chat/internal.h"
#include "mark/ids.h"
#include "store/chats.h"
#include "store/feedback.h"

#include "base/banned.h"

#define REASON_BYTES_MAX 64
#define EXPORT_PAGE      100

_Static_assert(CHAT_COMMENT_MAX == STORE_COMMENT_MAX - 1, "what is accepted can be stored");

static int check_reasons(const json_t *reasons, struct fault *fault)
{
    const json_t *reason;
    size_t i;

    if (json_array_size(reasons) > CHAT_REASONS_MAX)
        return fault_set(fault, PROBLEM_INVALID_REQUEST, "reasons", "give at most %d reasons",
                         CHAT_REASONS_MAX);
    json_array_foreach (reasons, i, reason) {
        size_t len = json_string_length(reason);

        if (!json_is_string(reason) || len == 0 || len > REASON_BYTES_MAX)
            return fault_set(fault, PROBLEM_INVALID_REQUEST, "reasons",
                             "a reason is a text of 1 to %d bytes", REASON_BYTES_MAX);
    }
    return 0;
}

/* The answer must be the caller's, and an answer that has ended. */
static int check_answer(struct store *store, const char *owner, const char *id, struct fault *fault)
{
    struct store_message message;
    struct gb_err err;
    int r;

    if (!mark_id_valid(id))
        return fault_set(fault, PROBLEM_MESSAGE_UNKNOWN, "id",
                         "there is no such message; its id is a UUID in lower case");
    r = store_message_get(store, owner, id, &message, &err);
    if (r < 0)
        return chat_fault(r, &err, PROBLEM_MESSAGE_UNKNOWN, id, fault);
    store_message_release(&message);
    if (message.role != STORE_ROLE_ASSISTANT)
        return fault_set(fault, PROBLEM_NOT_AN_ANSWER, "id",
                         "that message is a question; rate its answer");
    if (message.status == STORE_MESSAGE_PENDING)
        return fault_set(fault, PROBLEM_ANSWER_PENDING, "id",
                         "that answer is not finished; rate it when it is");
    return 0;
}

int chat_feedback(struct store *store, const struct caller *caller, const char *message_id, bool up,
                  const json_t *reasons, const char *text, json_t **ret_json, struct fault *fault)
{
    struct store_feedback feedback = { .up = up, .created_us = clock_wall_us() };
    const char *owner = principal_text(&caller->principal);
    autofree char *reasons_text = NULL, *comment = NULL;
    struct gb_err err;
    int r;

    if (check_reasons(reasons, fault) < 0 || check_answer(store, owner, message_id, fault) < 0)
        return -1;
    if (text && strlen(text) > CHAT_COMMENT_MAX)
        return fault_set(fault, PROBLEM_INVALID_REQUEST, "text",
                         "the text can have at most %d bytes", CHAT_COMMENT_MAX);
    reasons_text = json_array_size(reasons) > 0 ? json_dumps(reasons, JSON_COMPACT) : NULL;
    comment = text && *text ? strdup(text) : NULL;
    if ((json_array_size(reasons) > 0 && !reasons_text) || (text && *text && !comment))
        return fault_no_memory(fault);
    feedback.reasons = reasons_text;
    feedback.comment = comment;
    (void) snprintf(feedback.message_id, sizeof feedback.message_id, "%s", message_id);
    (void) snprintf(feedback.owner, sizeof feedback.owner, "%s", owner);
    r = store_feedback_set(store, &feedback, &err);
    if (r < 0)
        return chat_fault(r, &err, PROBLEM_MESSAGE_UNKNOWN, message_id, fault);
    *ret_json =
        json_pack("{s:s,s:s,s:o,s:s?,s:o}", "message_id", message_id, "rating", up ? "up" : "down",
                  "reasons", reasons_text ? chat_stored(reasons_text) : json_array(), "text",
                  comment, "created", chat_time(feedback.created_us));
    return *ret_json ? 0 : fault_no_memory(fault);
}

/* ---- export ---- */

/* The code of each step. */
static json_t *code_of(const json_t *response)
{
    json_t *list = json_array(), *step;
    size_t i;

    json_array_foreach (json_object_get(response, "steps"), i, step) {
        json_t *code = json_object_get(step, "code");

        if (json_is_string(code))
            (void) json_array_append(list, code);
    }
    return list;
}

/* What a rating needs to be understood, and nothing else: no rows, charts or files. */
static json_t *entry_to_json(const struct store_feedback *feedback,
                             const struct store_message *answer, const char *question)
{
    json_t *response = chat_stored(answer->response), *entry;
    const char *version = answer->prompt_version[0] ? answer->prompt_version : NULL;

    entry = json_pack("{s:s,s:s,s:s,s:o,s:s,s:o,s:s?,s:s?,s:O?,s:o,s:O?,s:s?}", "message_id",
                      feedback->message_id, "chat_id", answer->chat_id, "who", feedback->owner,
                      "created", chat_time(feedback->created_us), "rating",
                      feedback->up ? "up" : "down", "reasons",
                      feedback->reasons ? chat_stored(feedback->reasons) : json_array(), "text",
                      feedback->comment, "question", question, "story",
                      json_object_get(response, "answer_story"), "code", code_of(response), "model",
                      json_object_get(response, "model"), "prompt_version", version);
    json_decref(response);
    return entry;
}

/* The text of the question that @answer replies to; NULL if there is none any more. */
static int question_of(struct store *store, const struct store_message *answer, char **ret_text,
                       struct gb_err *err)
{
    struct store_message question;
    int r = -ENOENT;

    *ret_text = NULL;
    if (answer->reply_to[0])
        r = store_message_get(store, answer->owner, answer->reply_to, &question, err);
    if (r < 0)
        return r == -ENOENT ? 0 : r;
    *ret_text = chat_parts_text(question.parts);
    store_message_release(&question);
    return *ret_text ? 0 : gb_fail(err, ENOMEM, "export ratings");
}

static int export_one(struct store *store, const struct store_feedback *feedback,
                      int (*each)(void *arg, const json_t *entry), void *arg, struct gb_err *err)
{
    struct store_message answer;
    autofree char *question = NULL;
    json_t *entry;
    int r = store_message_get(store, feedback->owner, feedback->message_id, &answer, err);

    if (r < 0)
        return r == -ENOENT ? 0 : r; /* deleted meanwhile */
    r = question_of(store, &answer, &question, err);
    if (r == 0) {
        entry = entry_to_json(feedback, &answer, question);
        r = entry ? each(arg, entry) : gb_fail(err, ENOMEM, "export ratings");
        json_decref(entry);
    }
    store_message_release(&answer);
    return r < 0 ? r : 0;
}

int chat_feedback_export(struct store *store, int64_t since_us,
                         int (*each)(void *arg, const json_t *entry), void *arg, struct gb_err *err)
{
    char after_id[STORE_ID_MAX] = "";
    int64_t after_us = since_us - 1;
    size_t len;

    do {
        struct store_feedback *feedbacks = NULL;
        int r;

        len = 0;
        r = store_feedback_list(store, since_us, after_us, after_id, EXPORT_PAGE, &feedbacks, &len,
                                err);
        for (size_t i = 0; r == 0 && i < len; i++) {
            r = export_one(store, &feedbacks[i], each, arg, err);
            after_us = feedbacks[i].created_us;
            (void) snprintf(after_id, sizeof after_id, "%s", feedbacks[i].message_id);
        }
        store_feedbacks_free(feedbacks, len);
        if (r < 0)
            return r;
    } while (len == EXPORT_PAGE);
    return 0;
}
