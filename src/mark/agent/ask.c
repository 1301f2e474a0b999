/* Asking: from a request to a stored question and an answer that waits for its turn. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/text/strv.h"
#include "base/text/utf8.h"
#include "mark/agent/internal.h"
#include "mark/agent/response.h"
#include "mark/chat/chats.h"
#include "store/artifacts.h"
#include "store/results.h"

#include "base/banned.h"

static int check_query(const char *query, struct fault *fault)
{
    size_t len = query ? strnlen(query, AGENT_QUERY_MAX + 1) : 0;

    if (len == 0 || strspn(query, " \t\r\n") == len)
        return fault_set(fault, PROBLEM_QUERY_MALFORMED, "query", "ask something: it is empty");
    if (len > AGENT_QUERY_MAX)
        return fault_set(fault, PROBLEM_QUERY_MALFORMED, "query",
                         "a question can have at most %d bytes; attach a file instead",
                         AGENT_QUERY_MAX);
    if (!utf8_valid(query, len))
        return fault_set(fault, PROBLEM_QUERY_MALFORMED, "query", "it is not UTF-8");
    return 0;
}

static int check_attachments(struct agent *agent, const struct caller *caller,
                             const char *const *ids, struct fault *fault)
{
    if (strv_len(ids) > AGENT_ATTACHMENTS_MAX)
        return fault_set(fault, PROBLEM_QUERY_MALFORMED, "attachments",
                         "a question can have at most %d attachments", AGENT_ATTACHMENTS_MAX);
    for (size_t i = 0; ids && ids[i]; i++) {
        struct store_attachment attachment = { 0 };

        if (attachment_get(agent->config.attachments, caller, ids[i], &attachment, fault) < 0)
            return -1;
        store_attachment_release(&attachment);
    }
    return 0;
}

/* Guests look around with the demo, which costs nobody anything. */
static int pick_for_guest(const struct llm_models *models, const char *wanted,
                          const struct llm_model **ret_model, struct fault *fault)
{
    const struct llm_model *demo = llm_model_demo(models);

    if (!demo)
        return fault_set(fault, PROBLEM_NO_MODEL, NULL,
                         "there is no demo any more; create an account with POST /auth/signup");
    if (wanted && wanted[0] && strcmp(wanted, llm_model_name(demo)) != 0)
        return fault_set(fault, PROBLEM_MODEL_UNKNOWN, "model",
                         "guests have only the model %s; create an account with POST /auth/signup",
                         llm_model_name(demo));
    *ret_model = demo;
    return 0;
}

/* The model that was asked for, that of the chat, or the default one. */
static int pick_model(struct agent *agent, const struct caller *caller, const char *wanted,
                      const struct store_chat *chat, const struct llm_model **ret_model,
                      struct fault *fault)
{
    const struct llm_models *models = agent->config.models;
    const struct llm_model *model = NULL;

    if (caller->is_guest)
        return pick_for_guest(models, wanted, ret_model, fault);
    if (wanted && wanted[0]) {
        model = llm_model_find(models, wanted);
        if (!model && llm_model_find(models, NULL))
            return fault_set(fault, PROBLEM_MODEL_UNKNOWN, "model",
                             "there is no such model; GET /api/v1/models lists them");
    } else if (chat->model[0]) {
        model = llm_model_find(models, chat->model);
    }
    if (!model)
        model = llm_model_find(models, NULL);
    if (!model)
        return fault_set(fault, PROBLEM_NO_MODEL, NULL,
                         "no model is configured: start the service with --model, set "
                         "OPENAI_API_KEY or ANTHROPIC_API_KEY, or run a local model server such "
                         "as Ollama");
    *ret_model = model;
    return 0;
}

static int chat_for(struct agent *agent, const struct caller *caller,
                    const struct agent_question *question, struct store_chat *ret_chat,
                    struct fault *fault)
{
    const char *owner = principal_text(&caller->principal);
    struct gb_err err = { 0 };
    int r;

    if (!question->chat_id) {
        *ret_chat = (struct store_chat){ 0 };
        return 0;
    }
    r = mark_id_valid(question->chat_id)
            ? store_chat_get(agent->config.store, owner, question->chat_id, ret_chat, &err)
            : -ENOENT;
    return r < 0 ? agent_store_fault(agent, PROBLEM_CHAT_UNKNOWN, "read a chat", r, &err, fault)
                 : 0;
}

/* Makes the chat, or gives it a title if this is its first question. */
static int chat_prepare(struct agent *agent, const struct caller *caller, struct store_chat *chat,
                        const char *query, const struct llm_model *model, struct fault *fault)
{
    const char *owner = principal_text(&caller->principal), *name = llm_model_name(model);
    struct store *store = agent->config.store;
    char title[STORE_TITLE_MAX];
    struct gb_err err = { 0 };
    int r = 0;

    chat_title_make(query, title, sizeof title);
    if (!chat->id[0]) {
        mark_id_make(chat->id);
        (void) snprintf(chat->owner, sizeof chat->owner, "%s", owner);
        (void) snprintf(chat->title, sizeof chat->title, "%s", title);
        if (strlen(name) < sizeof chat->model)
            (void) snprintf(chat->model, sizeof chat->model, "%s", name);
        chat->created_us = chat->updated_us = clock_wall_us();
        r = store_chat_add(store, chat, &err);
    } else {
        if (!chat->title[0])
            r = store_chat_rename(store, owner, chat->id, title, clock_wall_us(), &err);
        if (r == 0 && strcmp(chat->model, name) != 0 && strlen(name) < sizeof chat->model)
            r = store_chat_set(store, chat->id, NULL, name, &err);
    }
    return r < 0 ? agent_store_fault(agent, PROBLEM_CHAT_UNKNOWN, "write a chat", r, &err, fault)
                 : 0;
}

/* Names of the sources that the question asks for. */
static int pick_sources(struct agent *agent, const struct caller *caller, const char *const *wanted,
                        json_t **ret_names, struct fault *fault)
{
    char **names = NULL;

    *ret_names = NULL;
    if (!wanted)
        return 0;
    if (strv_len(wanted) > AGENT_SOURCES_MAX)
        return fault_set(fault, PROBLEM_QUERY_MALFORMED, "sources",
                         "a question can name at most %d sources", AGENT_SOURCES_MAX);
    if (!agent->config.broker && wanted[0])
        return fault_set(fault, PROBLEM_SOURCE_UNKNOWN, "sources",
                         "this service has no data sources");
    if (wanted[0] && broker_names(agent->config.broker, caller, wanted, &names, fault) < 0)
        return -1;
    *ret_names = json_array();
    for (size_t i = 0; names && names[i]; i++)
        (void) json_array_append_new(*ret_names, json_string(names[i]));
    strv_free(names);
    return 0;
}

/* The question as a row of the store. */
static int question_fill(const struct answer *answer, struct store_message *ret_question)
{
    json_t *parts = json_pack("[{s:s, s:s}]", "type", "text", "text", answer->query);
    json_t *ids = json_array();

    for (size_t i = 0; answer->attachments && answer->attachments[i]; i++)
        (void) json_array_append_new(ids, json_string(answer->attachments[i]));
    *ret_question = (struct store_message){ .role = STORE_ROLE_USER,
                                            .status = STORE_MESSAGE_OK,
                                            .created_us = clock_wall_us() };
    ret_question->updated_us = ret_question->created_us;
    memcpy(ret_question->id, answer->question_id, sizeof ret_question->id);
    memcpy(ret_question->chat_id, answer->chat_id, sizeof ret_question->chat_id);
    ret_question->text = answer->query;
    ret_question->parts = parts ? json_dumps(parts, JSON_COMPACT) : NULL;
    ret_question->attachments = json_array_size(ids) > 0 ? json_dumps(ids, JSON_COMPACT) : NULL;
    if (answer->wanted) {
        json_t *details = json_pack("{s:O}", "sources", answer->wanted);

        ret_question->details = details ? json_dumps(details, JSON_COMPACT) : NULL;
        json_decref(details);
    }
    json_decref(parts);
    json_decref(ids);
    return ret_question->parts && (ret_question->details || !answer->wanted) ? 0 : -ENOMEM;
}

static struct answer *answer_for(struct agent *agent, const struct caller *caller,
                                 const char *query, const char *const *attachments)
{
    struct answer *answer = answer_new(agent, caller);

    if (!answer)
        return NULL;
    mark_id_make(answer->message_id);
    answer->query = strdup(query);
    if (answer->query && strv_copy(attachments, &answer->attachments) == 0)
        return answer;
    answer_unref(answer);
    return NULL;
}

int agent_ask(struct agent *agent, const struct caller *caller,
              const struct agent_question *question, struct answer **ret_answer,
              struct fault *fault)
{
    const struct llm_model *model;
    json_t *wanted = NULL;
    struct store_message message;
    struct store_chat chat;
    struct answer *answer;
    struct gb_err err;
    int r;

    if (check_query(question->query, fault) < 0 ||
        check_attachments(agent, caller, question->attachments, fault) < 0 ||
        chat_for(agent, caller, question, &chat, fault) < 0 ||
        pick_model(agent, caller, question->model, &chat, &model, fault) < 0 ||
        spending_check(agent, caller, model, fault) < 0 ||
        pick_sources(agent, caller, question->sources, &wanted, fault) < 0)
        return -1;
    answer = answer_for(agent, caller, question->query, question->attachments);
    if (!answer) {
        json_decref(wanted);
        return fault_no_memory(fault);
    }
    answer->wanted = wanted;
    answer->model = model;
    answer->no_examples = question->no_examples;
    mark_id_make(answer->question_id);
    if (chat_prepare(agent, caller, &chat, question->query, model, fault) < 0) {
        answer_unref(answer);
        return -1;
    }
    memcpy(answer->chat_id, chat.id, sizeof answer->chat_id);
    r = question_fill(answer, &message);
    r = r < 0 ? fault_no_memory(fault) : agent_begin(agent, answer, &message, NULL, fault);
    free(message.parts);
    free(message.attachments);
    free(message.details);
    if (r == 0) {
        *ret_answer = answer;
        return 0;
    }
    /* Nor is there a chat then that was made for it: whoever is refused tries again and again. */
    if (!question->chat_id && fault->problem != PROBLEM_OUT_OF_THREADS)
        (void) store_chat_delete(agent->config.store, chat.owner, chat.id, &err);
    answer_unref(answer);
    return r;
}

/* ---- again ---- */

char *message_text(const struct store_message *message)
{
    json_t *parts = message->parts ? json_loads(message->parts, JSON_ALLOW_NUL, NULL) : NULL;
    struct text text = { 0 };
    const json_t *part;
    size_t i;

    json_array_foreach (parts, i, part) {
        const char *piece = json_string_value(json_object_get(part, "text"));

        if (piece)
            text_puts(&text, piece);
    }
    json_decref(parts);
    return text_take(&text);
}

char **message_attachments(const struct store_message *message)
{
    json_t *ids = message->attachments ? json_loads(message->attachments, 0, NULL) : NULL;
    char **list = NULL;
    const json_t *id;
    size_t i;

    json_array_foreach (ids, i, id)
        if (json_is_string(id) && i < AGENT_ATTACHMENTS_MAX)
            (void) strv_add(&list, json_string_value(id));
    json_decref(ids);
    return list;
}

json_t *message_sources(const struct store_message *message)
{
    json_t *details = message->details ? json_loads(message->details, 0, NULL) : NULL;
    json_t *sources = json_incref(json_object_get(details, "sources"));

    json_decref(details);
    return sources;
}

static int message_of(struct agent *agent, const struct caller *caller, const char *id,
                      struct store_message *ret_message, struct fault *fault)
{
    struct gb_err err = { 0 };
    int r = mark_id_valid(id) ? agent_get_message(agent, caller, id, ret_message, &err) : -ENOENT;

    return r < 0
               ? agent_store_fault(agent, PROBLEM_MESSAGE_UNKNOWN, "read a message", r, &err, fault)
               : 0;
}

int agent_get_answer(struct agent *agent, const struct caller *caller, const char *message_id,
                     struct store_message *ret_message, struct fault *fault)
{
    if (message_of(agent, caller, message_id, ret_message, fault) < 0)
        return -1;
    if (ret_message->role != STORE_ROLE_ASSISTANT)
        (void) fault_set(fault, PROBLEM_NOT_AN_ANSWER, NULL,
                         "that message is a question; name its answer");
    else if (ret_message->status == STORE_MESSAGE_PENDING)
        (void) fault_set(fault, PROBLEM_ANSWER_PENDING, NULL,
                         "that answer is still under way; wait for it, or stop it");
    else
        return 0;
    store_message_release(ret_message);
    return -1;
}

int agent_regenerate(struct agent *agent, const struct caller *caller, const char *message_id,
                     const char *model, struct answer **ret_answer, struct fault *fault)
{
    struct store_message before = { 0 }, question = { 0 };
    struct answer *answer = NULL;
    struct agent_question same;
    struct store_chat chat;
    char **attachments = NULL;
    char *query = NULL;
    int r = -1;

    if (agent_get_answer(agent, caller, message_id, &before, fault) < 0)
        return -1;
    same = (struct agent_question){ .chat_id = before.chat_id };
    if (message_of(agent, caller, before.reply_to, &question, fault) < 0 ||
        chat_for(agent, caller, &same, &chat, fault) < 0)
        goto end;
    query = message_text(&question);
    attachments = message_attachments(&question);
    answer = query ? answer_for(agent, caller, query, (const char *const *) attachments) : NULL;
    if (!answer) {
        (void) fault_no_memory(fault);
        goto end;
    }
    memcpy(answer->chat_id, before.chat_id, sizeof answer->chat_id);
    memcpy(answer->question_id, before.reply_to, sizeof answer->question_id);
    answer->seq = question.seq;
    answer->wanted = message_sources(&question);
    if (pick_model(agent, caller, model, &chat, &answer->model, fault) == 0 &&
        spending_check(agent, caller, answer->model, fault) == 0 &&
        agent_begin(agent, answer, NULL, NULL, fault) == 0) {
        *ret_answer = TAKE_PTR(answer);
        r = 0;
    }
end:
    answer_unref(answer);
    strv_free(attachments);
    free(query);
    store_message_release(&question);
    store_message_release(&before);
    return r;
}

/* ---- another question instead ---- */

/* What comes in its place, without what is stored of it. The old one's attachments are not asked
 * for again: one that was deleted meanwhile is left out when the answer is worked on. */
static int answer_instead(struct agent *agent, const struct caller *caller,
                          const struct store_message *before, const struct agent_question *question,
                          const struct store_chat *chat, struct answer **ret_answer,
                          struct fault *fault)
{
    char **kept = question->attachments ? NULL : message_attachments(before);
    const char *const *attachments =
        question->attachments ? question->attachments : (const char *const *) kept;
    const struct llm_model *model;
    struct answer *answer;
    json_t *wanted = NULL;
    int r = -1;

    if (check_query(question->query, fault) == 0 &&
        check_attachments(agent, caller, question->attachments, fault) == 0 &&
        pick_model(agent, caller, question->model, chat, &model, fault) == 0 &&
        spending_check(agent, caller, model, fault) == 0 &&
        pick_sources(agent, caller, question->sources, &wanted, fault) == 0) {
        answer = answer_for(agent, caller, question->query, attachments);
        if (answer) {
            answer->wanted = question->sources ? TAKE_PTR(wanted) : message_sources(before);
            answer->model = model;
            answer->no_examples = question->no_examples;
            memcpy(answer->chat_id, before->chat_id, sizeof answer->chat_id);
            mark_id_make(answer->question_id);
            *ret_answer = answer;
            r = 0;
        } else {
            (void) fault_no_memory(fault);
        }
    }
    json_decref(wanted);
    strv_free(kept);
    return r;
}

/* The title that was made of the first question is made of the new one; one that a person gave
 * stays. */
static void chat_retitle(struct agent *agent, const struct store_message *before,
                         const struct store_chat *chat, const struct answer *answer)
{
    autofree char *query = before->seq == 1 ? message_text(before) : NULL;
    const char *name = llm_model_name(answer->model);
    struct store *store = agent->config.store;
    char title[STORE_TITLE_MAX] = "";
    struct gb_err err;
    int r = 0;

    if (query)
        chat_title_make(query, title, sizeof title);
    if (query && strcmp(title, chat->title) == 0) {
        chat_title_make(answer->query, title, sizeof title);
        r = store_chat_rename(store, chat->owner, chat->id, title, clock_wall_us(), &err);
    }
    if (r == 0 && strcmp(chat->model, name) != 0 && strlen(name) < sizeof chat->model)
        r = store_chat_set(store, chat->id, NULL, name, &err);
    if (r < 0 && r != -ENOENT) /* the answer is under way all the same */
        service_log(agent->config.service, LOG_LEVEL_WARNING, "mark: %s", err.msg);
}

/* Stores and begins it, and removes the results of queries and the files that nobody has any more.
 */
static int begin_instead(struct agent *agent, const struct store_message *before,
                         struct answer *answer, struct fault *fault)
{
    struct store_replaced replaced = { .owner = before->owner, .message_id = before->id };
    autofree uint8_t *hashes = NULL, *files = NULL;
    struct store *store = agent->config.store;
    struct store_message message;
    struct gb_err err = { 0 };
    size_t len = 0, files_len = 0;
    int r = question_fill(answer, &message);

    if (r < 0)
        (void) fault_no_memory(fault);
    if (r == 0 && (store_result_of_chat(store, before->owner, before->chat_id, before->seq, &hashes,
                                        &len, &err) < 0 ||
                   store_artifact_of_chat(store, before->owner, before->chat_id, before->seq,
                                          &files, &files_len, &err) < 0))
        r = agent_store_fault(agent, PROBLEM_MESSAGE_UNKNOWN, "read a chat", -EIO, &err, fault);
    if (r == 0)
        r = agent_begin(agent, answer, &message, &replaced, fault);
    /* What cannot be removed now is removed by the sweep at the next start. */
    if (r == 0 && agent->config.broker)
        (void) results_remove(agent->config.broker, hashes, len, &err);
    if (r == 0)
        artifacts_drop(agent->config.attachments, files, files_len);
    free(message.parts);
    free(message.attachments);
    free(message.details);
    return r;
}

int agent_edit(struct agent *agent, const struct caller *caller, const char *message_id,
               const struct agent_question *question, struct answer **ret_answer,
               struct fault *fault)
{
    struct store_message before = { 0 };
    struct agent_question same;
    struct answer *answer = NULL;
    struct store_chat chat;
    int r = -1;

    if (message_of(agent, caller, message_id, &before, fault) < 0)
        return -1;
    same = (struct agent_question){ .chat_id = before.chat_id };
    if (before.role != STORE_ROLE_USER)
        (void) fault_set(fault, PROBLEM_NOT_A_QUESTION, NULL,
                         "that message is an answer; name its question");
    else if (chat_for(agent, caller, &same, &chat, fault) == 0 &&
             answer_instead(agent, caller, &before, question, &chat, &answer, fault) == 0)
        r = begin_instead(agent, &before, answer, fault);
    if (r == 0) {
        chat_retitle(agent, &before, &chat, answer);
        *ret_answer = TAKE_PTR(answer);
    }
    answer_unref(answer);
    store_message_release(&before);
    return r;
}
