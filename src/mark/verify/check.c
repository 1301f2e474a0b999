/* Verified answers, run again and asked again. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/text/hex.h"
#include "base/text/strv.h"
#include "mark/chat/chats.h"
#include "mark/verify/internal.h"

#include "base/banned.h"

#define COPY_BYTES ((size_t) 256 * 1024)
#define ASKED_MAX  20 /* questions of one chat that are asked again */

/* Takes @differences, @notes and @more, which may be NULL. */
static json_t *outcome(const struct store_verified *verified, const char *status,
                       json_t *differences, json_t *notes, const char *key, json_t *more)
{
    json_t *json = json_pack("{s:s, s:s, s:s, s:s, s:o, s:o}", "verified_id", verified->id,
                             "message_id", verified->message_id, "question", verified->question,
                             "status", status, "differences", differences, "notes", notes);

    (void) json_object_set_new(json, key, more ? more : json_null());
    return json;
}

/* Why it did not even begin; these pass, or are the caller's. */
static bool is_passing(const struct fault *fault)
{
    return fault->problem == PROBLEM_BUSY || fault->problem == PROBLEM_DRAINING ||
           fault->problem == PROBLEM_SESSIONS_MAX || fault->problem == PROBLEM_KEY_SESSIONS ||
           fault->problem == PROBLEM_TOO_MANY_ANSWERS || fault->problem == PROBLEM_NO_MODEL ||
           fault->problem == PROBLEM_MODEL_UNKNOWN;
}

static json_t *cannot(const struct store_verified *verified, const struct fault *fault,
                      const char *key)
{
    json_t *differences = json_array();

    (void) json_array_append_new(differences, json_string(fault->detail));
    return outcome(verified, "cannot_run", differences, json_array(), key, NULL);
}

static void keep(struct verify *verify, const struct store_verified *verified, const json_t *json)
{
    const char *status = json_string_value(json_object_get(json, "status"));
    struct gb_err err = { 0 };
    int r = store_verified_checked(verify->config.store, verified->id, clock_wall_us(),
                                   status && strcmp(status, "ok") == 0, &err);

    if (r < 0 && r != -ENOENT && verify->config.service) /* else it was taken back meanwhile */
        service_log(verify->config.service, LOG_LEVEL_WARNING, "verified answers: %s", err.msg);
}

int verify_check(struct verify *verify, const struct caller *caller, const char *id,
                 json_t **ret_json, struct fault *fault)
{
    struct store_verified verified = { 0 };
    json_t *json = NULL, *result = NULL, *out;
    int r;

    if (verify_get(verify, caller, id, &verified, &json, fault) < 0)
        return -1;
    r = agent_case_run(verify->config.agent, caller, json, AGENT_CASE_NOW, &result, fault);
    if (r == 0) {
        json_t *differences = json_array(), *notes = json_array();
        bool equal = json_is_true(json_object_get(result, "equal"));

        report_differences(differences, result);
        report_context(notes, result);
        out = outcome(&verified, equal ? "ok" : "changed", differences, notes, "result", result);
    } else {
        out = is_passing(fault) ? NULL : cannot(&verified, fault, "result");
    }
    if (out) {
        keep(verify, &verified, out);
        *ret_json = out;
        r = 0;
    } else if (r == 0) {
        r = fault_no_memory(fault);
    }
    json_decref(json);
    store_verified_release(&verified);
    return r;
}

/* ---- asking again ---- */

/* What one case needs while it is asked. */
struct again {
    struct verify *verify;
    const struct caller *caller;
    const json_t *json;
    const char *model;
    char **attachments; /* ids of copies of its files, which are the caller's */
    char chat_id[STORE_ID_MAX];
};

static int copy_bytes(struct attachment_upload *upload, int fd, struct fault *fault)
{
    autofree char *buf = malloc(COPY_BYTES);
    ssize_t n;

    if (!buf)
        return fault_no_memory(fault);
    while ((n = io_read_all(fd, buf, COPY_BYTES)) > 0)
        if (attachment_upload_write(upload, buf, (size_t) n, fault) < 0)
            return -1;
    return n < 0 ? fault_set(fault, PROBLEM_INTERNAL, NULL, "an attachment cannot be read") : 0;
}

/* Attaches a kept file anew, as the caller's. */
static int attach(struct again *again, const json_t *file, struct fault *fault)
{
    struct attachments *attachments = again->verify->config.attachments;
    const char *hash = json_string_value(json_object_get(file, "sha256"));
    const char *name = json_string_value(json_object_get(file, "name"));
    struct attachment_upload *upload = NULL;
    struct store_attachment attachment;
    uint8_t sha256[STORE_HASH_BYTES];
    autoclose int fd = -EBADF;
    struct gb_err err = { 0 };
    int r;

    if (!hash || !name || !hex_is(hash, 2 * sizeof sha256))
        return 0;
    for (size_t i = 0; i < sizeof sha256; i++)
        sha256[i] = (uint8_t) (hex_value(hash[2 * i]) << 4 | hex_value(hash[2 * i + 1]));
    if (attachment_open(attachments, sha256, &fd, &err) < 0)
        return fault_set(fault, PROBLEM_ATTACHMENT_UNKNOWN, NULL, "the attachment %s was deleted",
                         name);
    if (attachment_upload_begin(attachments, again->caller, name,
                                json_integer_value(json_object_get(file, "size")), &upload,
                                fault) < 0)
        return -1;
    if (copy_bytes(upload, fd, fault) < 0) {
        attachment_upload_abort(upload);
        return -1;
    }
    if (attachment_upload_commit(upload, &attachment, fault) < 0)
        return -1;
    r = strv_add(&again->attachments, attachment.id);
    store_attachment_release(&attachment);
    return r < 0 ? fault_no_memory(fault) : 0;
}

/* One question to its end; *@ret_response is that of the last. */
static int ask(struct again *again, const char *query, json_t **ret_response, struct fault *fault)
{
    struct agent_question question = { .query = query,
                                       .chat_id = again->chat_id[0] ? again->chat_id : NULL,
                                       .model = again->model,
                                       .no_examples = true };
    struct answer *answer = NULL;

    if (!question.chat_id)
        question.attachments = (const char *const *) again->attachments;
    if (agent_ask(again->verify->config.agent, again->caller, &question, &answer, fault) < 0)
        return -1;
    (void) snprintf(again->chat_id, sizeof again->chat_id, "%s", answer_chat_id(answer));
    (void) answer_wait(answer, -1);
    json_decref(*ret_response);
    *ret_response = answer_to_json(answer);
    answer_unref(answer);
    return *ret_response ? 0 : fault_no_memory(fault);
}

static int ask_all(struct again *again, json_t **ret_response, struct fault *fault)
{
    const json_t *asked = json_object_get(again->json, "asked"), *item;
    size_t i;

    if (json_array_size(asked) > ASKED_MAX)
        return fault_set(fault, PROBLEM_NOT_VERIFIABLE, NULL,
                         "it builds on %zu earlier questions, and at most %d are asked again",
                         json_array_size(asked), ASKED_MAX);
    json_array_foreach (json_object_get(again->json, "files"), i, item)
        if (attach(again, item, fault) < 0)
            return -1;
    json_array_foreach (asked, i, item)
        if (json_is_string(item) && ask(again, json_string_value(item), ret_response, fault) < 0)
            return -1;
    return ask(again, json_string_value(json_object_get(again->json, "question")), ret_response,
               fault);
}

/* Nothing of it stays. */
static void again_release(struct again *again)
{
    const struct verify_config *config = &again->verify->config;
    struct fault ignored;

    if (again->chat_id[0] &&
        agent_forget(config->agent, again->caller, again->chat_id, &ignored) == 0)
        (void) chat_delete(config->store, again->caller, again->chat_id, &ignored);
    for (size_t i = 0; again->attachments && again->attachments[i]; i++)
        (void) attachment_delete(config->attachments, again->caller, again->attachments[i],
                                 &ignored);
    strv_free(again->attachments);
}

/* Data sources were asked with the rights of the caller, who may see other rows than the owner. */
static void note_caller(json_t *notes, const struct again *again,
                        const struct store_verified *verified)
{
    if (json_array_size(json_object_get(again->json, "queries")) > 0 &&
        strcmp(verified->owner, principal_text(&again->caller->principal)) != 0)
        (void) json_array_append_new(
            notes, json_string("data sources were asked with your rights, not with those of the "
                               "person who verified it, who may see other rows"));
}

static json_t *compare_answers(const struct again *again, const struct store_verified *verified,
                               const json_t *response)
{
    struct verify *verify = again->verify;
    const json_t *json = again->json;
    const char *status = json_string_value(json_object_get(response, "status"));
    json_t *differences = json_array(), *notes = json_array(), *story, *unsupported, *item;
    size_t i;

    story = json_object_get(response, "answer_story");
    if (!status || strcmp(status, "ok") != 0)
        (void) json_array_append_new(
            differences, json_sprintf("the answer ended as %s", status ? status : "nothing"));
    else
        report_values(differences, json, response);
    unsupported = json_object_get(json_object_get(response, "numbers"), "unsupported");
    json_array_foreach (unsupported, i, item)
        (void) json_array_append_new(
            differences, json_sprintf("a number was not computed: %s", json_string_value(item)));
    report_change(notes, "model", json_string_value(json_object_get(json, "model")),
                  json_string_value(json_object_get(response, "model")));
    report_change(notes, "prompts", json_string_value(json_object_get(json, "prompt_version")),
                  agent_prompt_version(verify->config.agent));
    note_caller(notes, again, verified);
    return outcome(verified, json_array_size(differences) == 0 ? "ok" : "changed", differences,
                   notes, "story", json_incref(story));
}

int verify_again(struct verify *verify, const struct caller *caller, const char *id,
                 const char *model, json_t **ret_json, struct fault *fault)
{
    struct again again = { .verify = verify, .caller = caller, .model = model };
    struct store_verified verified = { 0 };
    json_t *json = NULL, *response = NULL;
    int r;

    if (verify_get(verify, caller, id, &verified, &json, fault) < 0)
        return -1;
    again.json = json;
    r = ask_all(&again, &response, fault);
    if (r == 0)
        *ret_json = compare_answers(&again, &verified, response);
    else if (!is_passing(fault))
        *ret_json = cannot(&verified, fault, "story");
    if (r == 0 || !is_passing(fault))
        r = *ret_json ? 0 : fault_no_memory(fault);
    again_release(&again);
    json_decref(response);
    json_decref(json);
    store_verified_release(&verified);
    return r;
}
