/* Verified answers: adding, taking back, listing. */
#include "mark/verify/verify.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/text/hex.h"
#include "base/text/parse.h"
#include "base/text/strv.h"
#include "mark/ids.h"
#include "mark/verify/internal.h"
#include "store/users.h"

#include "base/banned.h"

#define OWNER_BYTES_MAX (INT64_C(1) << 30)
#define USER_PREFIX     "user-" /* of the principal of an account */
#define IDS_PAGE        500

int verify_open(const struct verify_config *config, struct verify **ret_verify, struct gb_err *err)
{
    struct verify *verify = calloc(1, sizeof *verify);

    if (!verify)
        return gb_fail(err, ENOMEM, "open the verified answers");
    verify->config = *config;
    if (verify->config.owner_bytes_max <= 0)
        verify->config.owner_bytes_max = OWNER_BYTES_MAX;
    *ret_verify = verify;
    return 0;
}

void verify_close(struct verify *verify)
{
    free(verify);
}

/* ---- what all of them use ---- */

bool verify_is_operator(struct verify *verify, const struct caller *caller)
{
    const struct principal *principal = &caller->principal;
    struct store_user user;
    struct gb_err ignored;

    if (principal_is_local(principal))
        return true;
    return principal->kind == PRINCIPAL_USER &&
           strncmp(principal->id, USER_PREFIX, strlen(USER_PREFIX)) == 0 &&
           store_user_get(verify->config.store, principal->id + strlen(USER_PREFIX), &user,
                          &ignored) == 0 &&
           user.is_operator;
}

bool verify_may_use(struct verify *verify, const struct caller *caller, const json_t *json)
{
    const struct verify_config *config = &verify->config;
    const json_t *name;
    size_t i;

    json_array_foreach (json_object_get(json, "sources"), i, name)
        if (!json_is_string(name) || !config->may_use ||
            !config->may_use(config->arg, caller, json_string_value(name)))
            return false;
    return true;
}

static int fault_unknown(struct fault *fault)
{
    return fault_set(fault, PROBLEM_VERIFIED_UNKNOWN, "id",
                     "there is no such verified answer; GET /api/v1/verified lists them");
}

int verify_fault(struct verify *verify, int r, const struct gb_err *err, struct fault *fault)
{
    if (r == -ENOMEM)
        return fault_no_memory(fault);
    if (r == -ENOENT || r == -EINVAL)
        return fault_unknown(fault);
    if (r == -EEXIST)
        return fault_set(fault, PROBLEM_VERIFIED_ALREADY, "id", "this answer is verified already");
    if (r == -EDQUOT)
        return fault_set(fault, PROBLEM_VERIFIED_QUOTA, NULL,
                         "%s; take back some that you do not need", err->msg);
    if (verify->config.service)
        service_log(verify->config.service, LOG_LEVEL_ERROR, "verified answers: %s", err->msg);
    return fault_set(fault, PROBLEM_INTERNAL, NULL, "%s; try again", err->msg);
}

int verify_get(struct verify *verify, const struct caller *caller, const char *id,
               struct store_verified *ret_verified, json_t **ret_case, struct fault *fault)
{
    const char *owner =
        verify_is_operator(verify, caller) ? NULL : principal_text(&caller->principal);
    struct store_verified verified;
    struct gb_err err = { 0 };
    int r;

    if (!mark_id_valid(id))
        return fault_unknown(fault);
    r = store_verified_get(verify->config.store, owner, id, &verified, &err);
    if (r < 0)
        return verify_fault(verify, r, &err, fault);
    *ret_case = json_loads(verified.content, JSON_ALLOW_NUL, NULL);
    if (!*ret_case) {
        store_verified_release(&verified);
        return fault_set(fault, PROBLEM_INTERNAL, NULL, "the verified answer cannot be read");
    }
    *ret_verified = verified;
    return 0;
}

static json_t *time_or_null(int64_t time_us)
{
    char text[FORMAT_UTC_MAX];

    if (time_us <= 0)
        return json_null();
    format_utc(time_us, text);
    return json_string(text);
}

static json_t *verified_to_json(const struct store_verified *verified, const struct caller *caller,
                                const char *note)
{
    bool mine = strcmp(verified->owner, principal_text(&caller->principal)) == 0;
    json_t *json =
        json_pack("{s:s, s:s, s:s, s:b, s:b, s:o, s:o, s:o}", "verified_id", verified->id,
                  "message_id", verified->message_id, "question", verified->question, "shared",
                  verified->shared, "mine", mine, "created", time_or_null(verified->created_us),
                  "checked", time_or_null(verified->checked_us), "passed",
                  verified->passed < 0 ? json_null() : json_boolean(verified->passed));

    if (json && note)
        (void) json_object_set_new(json, "note", json_string(note));
    return json;
}

/* ---- adding ---- */

static int fault_case(struct fault *fault, const char *why)
{
    return fault_set(fault, PROBLEM_NOT_VERIFIABLE, NULL, "this answer cannot be verified: %s",
                     why);
}

static int check_case(const json_t *json, struct fault *fault)
{
    const char *status = json_string_value(json_object_get(json, "status"));
    const json_t *numbers = json_object_get(json, "numbers");

    if (!status || strcmp(status, "ok") != 0)
        return fault_case(fault, "it did not end well; ask again");
    if (json_array_size(json_object_get(numbers, "unsupported")) > 0)
        return fault_case(fault, "it has numbers that were not computed; ask again, or more "
                                 "precisely");
    if (json_array_size(json_object_get(json, "cells")) == 0 ||
        json_array_size(json_object_get(json, "values")) +
                json_array_size(json_object_get(json, "data")) +
                json_array_size(json_object_get(json, "visualizations")) ==
            0)
        return fault_case(fault, "no program handed over a value, table or chart that could be "
                                 "compared");
    if (!json_string_length(json_object_get(json, "question")))
        return fault_case(fault, "its question is gone");
    return 0;
}

/* The names of the sources that it asked, and whose directories its programs had, each once. */
static json_t *sources_of(const json_t *json)
{
    json_t *names = json_array(), *seen = json_object();
    const json_t *query;
    const char *name;
    json_t *state;
    size_t i;

    json_array_foreach (json_object_get(json, "queries"), i, query) {
        json_t *source = json_object_get(json_object_get(query, "query"), "source");

        name = json_string_value(source);

        if (!name || json_object_get(seen, name))
            continue;
        (void) json_object_set_new(seen, name, json_true());
        (void) json_array_append(names, source);
    }
    json_object_foreach (json_object_get(json, "source_files"), name, state)
        if (!json_object_get(seen, name))
            (void) json_array_append_new(names, json_string(name));
    json_decref(seen);
    return names;
}

static bool hash_parse(const char *text, uint8_t ret_hash[STORE_HASH_BYTES])
{
    if (!text || !hex_is(text, 2 * (size_t) STORE_HASH_BYTES))
        return false;
    for (size_t i = 0; i < STORE_HASH_BYTES; i++)
        ret_hash[i] = (uint8_t) (hex_value(text[2 * i]) << 4 | hex_value(text[2 * i + 1]));
    return true;
}

/* The contents that @json names under @key. */
static size_t take_inputs(const json_t *json, const char *key, enum store_input_kind kind,
                          struct store_input *inputs, size_t len)
{
    const json_t *item;
    size_t i;

    json_array_foreach (json_object_get(json, key), i, item) {
        struct store_input *input = &inputs[len];

        input->kind = kind;
        input->size = json_integer_value(json_object_get(item, "size"));
        len += hash_parse(json_string_value(json_object_get(item, "sha256")), input->sha256);
    }
    return len;
}

/* Its text, without charts and then tables if it would be too long: values are always compared. */
static char *content_of(json_t *json)
{
    static const char *const heavy[] = { "visualizations", "data" };
    char *text = json_dumps(json, JSON_COMPACT);

    for (size_t i = 0; text && i < ARRAY_LEN(heavy) && strlen(text) > STORE_VERIFIED_BYTES_MAX;
         i++) {
        json_t *left_out = json_object_get(json, "left_out");

        if (!left_out)
            (void) json_object_set_new(json, "left_out", left_out = json_array());
        (void) json_array_append_new(left_out, json_string(heavy[i]));
        (void) json_object_del(json, heavy[i]);
        free(text);
        text = json_dumps(json, JSON_COMPACT);
    }
    return text;
}

/* With the locks of attachments and results: what it needs is there, and stays. */
static int check_inputs(struct verify *verify, const json_t *json, const struct store_input *inputs,
                        size_t len, struct fault *fault)
{
    struct gb_err err = { 0 };

    for (size_t i = 0; i < len; i++) {
        autoclose int fd = -EBADF;
        const json_t *file = json_array_get(json_object_get(json, "files"), i);
        const char *name = json_string_value(json_object_get(file, "name"));

        if (inputs[i].kind == STORE_INPUT_RESULT) {
            if (result_open(verify->config.broker, inputs[i].sha256, &fd, &err) < 0)
                return fault_case(fault,
                                  "what one of its queries returned was deleted, so it cannot "
                                  "be run again");
        } else if (attachment_open(verify->config.attachments, inputs[i].sha256, &fd, &err) < 0) {
            return fault_set(fault, PROBLEM_NOT_VERIFIABLE, NULL,
                             "this answer cannot be verified: the attachment %s was deleted, so it "
                             "cannot be run again",
                             name ? name : "");
        }
    }
    return 0;
}

static int store_case(struct verify *verify, json_t *json, struct store_verified *verified,
                      struct fault *fault)
{
    size_t most = json_array_size(json_object_get(json, "files")) +
                  json_array_size(json_object_get(json, "queries")) + 1;
    autofree struct store_input *inputs = calloc(most, sizeof *inputs);
    autoclose int files_fd = -EBADF, results_fd = -EBADF;
    struct gb_err err = { 0 };
    size_t len;
    int r;

    if (!inputs || !(verified->content = content_of(json)))
        return fault_no_memory(fault);
    len = take_inputs(json, "files", STORE_INPUT_FILE, inputs, 0);
    len = take_inputs(json, "queries", STORE_INPUT_RESULT, inputs, len);
    r = attachments_lock(verify->config.attachments, &files_fd, &err);
    if (r == 0)
        r = results_lock(verify->config.broker, &results_fd, &err);
    if (r < 0)
        return verify_fault(verify, r, &err, fault);
    if (check_inputs(verify, json, inputs, len, fault) < 0)
        return -1;
    r = store_verified_add(verify->config.store, verified, inputs, len,
                           verify->config.owner_bytes_max, &err);
    if (r == -E2BIG)
        return fault_case(fault, "it is too long to be kept");
    return r < 0 ? verify_fault(verify, r, &err, fault) : 0;
}

int verify_add(struct verify *verify, const struct caller *caller, const char *message_id,
               const char *note, bool shared, json_t **ret_json, struct fault *fault)
{
    struct store_verified verified = { .shared = shared,
                                       .created_us = clock_wall_us(),
                                       .passed = -1 };
    json_t *json = NULL;
    int r;

    if (shared && !verify_is_operator(verify, caller))
        return fault_set(fault, PROBLEM_NOT_OPERATOR, "shared",
                         "only an operator may share a verified answer; leave shared out");
    if (agent_case(verify->config.agent, caller, message_id, &json, fault) < 0)
        return -1;
    r = check_case(json, fault);
    if (r == 0) {
        const char *question = json_string_value(json_object_get(json, "question"));

        mark_id_make(verified.id);
        (void) snprintf(verified.message_id, sizeof verified.message_id, "%s", message_id);
        (void) snprintf(verified.owner, sizeof verified.owner, "%s",
                        principal_text(&caller->principal));
        verified.question = strdup(question);
        (void) json_object_set_new(json, "sources", sources_of(json));
        if (note && *note)
            (void) json_object_set_new(json, "note", json_string(note));
        r = verified.question ? store_case(verify, json, &verified, fault) : fault_no_memory(fault);
    }
    if (r == 0) {
        *ret_json = verified_to_json(&verified, caller, note && *note ? note : NULL);
        r = *ret_json ? 0 : fault_no_memory(fault);
    }
    store_verified_release(&verified);
    json_decref(json);
    return r;
}

/* ---- taking back ---- */

/* Contents that nobody else has go with it. */
static void drop_inputs(struct verify *verify, const json_t *json)
{
    uint8_t hash[STORE_HASH_BYTES];
    const json_t *item;
    struct gb_err err;
    size_t i;

    json_array_foreach (json_object_get(json, "files"), i, item)
        if (hash_parse(json_string_value(json_object_get(item, "sha256")), hash))
            attachment_drop(verify->config.attachments, hash);
    json_array_foreach (json_object_get(json, "queries"), i, item)
        if (hash_parse(json_string_value(json_object_get(item, "sha256")), hash))
            (void) results_remove(verify->config.broker, hash, 1, &err); /* else by a sweep */
}

int verify_remove(struct verify *verify, const struct caller *caller, const char *message_id,
                  struct fault *fault)
{
    struct store *store = verify->config.store;
    bool is_operator = verify_is_operator(verify, caller);
    struct store_verified brief = { 0 }, verified = { 0 };
    struct gb_err err = { 0 };
    json_t *json = NULL;
    int r;

    if (!mark_id_valid(message_id))
        return fault_unknown(fault);
    r = store_verified_of(store, NULL, message_id, &brief, &err);
    if (r == 0 && strcmp(brief.owner, principal_text(&caller->principal)) != 0 &&
        !(is_operator && brief.shared))
        r = -ENOENT;
    if (r == 0)
        r = store_verified_get(store, NULL, brief.id, &verified, &err);
    if (r == 0)
        r = store_verified_delete(store, NULL, brief.id, &err);
    if (r == 0) {
        json = json_loads(verified.content, JSON_ALLOW_NUL, NULL);
        drop_inputs(verify, json);
    }
    json_decref(json);
    store_verified_release(&brief);
    store_verified_release(&verified);
    return r < 0 ? verify_fault(verify, r, &err, fault) : 0;
}

/* ---- listing ---- */

int verify_list(struct verify *verify, const struct caller *caller, const char *after,
                int64_t limit, json_t **ret_json, struct fault *fault)
{
    const char *owner = principal_text(&caller->principal);
    struct store_verified *list = NULL;
    json_t *items = json_array();
    struct gb_err err = { 0 };
    size_t len = 0;
    int r;

    if (after && !mark_id_valid(after))
        r = -ENOENT;
    else
        r = store_verified_list(verify->config.store, owner, true, after, (size_t) limit, &list,
                                &len, &err);
    if (r < 0) {
        json_decref(items);
        return verify_fault(verify, r, &err, fault);
    }
    for (size_t i = 0; i < len; i++) {
        bool mine = strcmp(list[i].owner, owner) == 0, may = mine;
        struct store_verified whole = { 0 };
        json_t *json = NULL;

        if (!mine && store_verified_get(verify->config.store, NULL, list[i].id, &whole, &err) == 0)
            json = json_loads(whole.content, JSON_ALLOW_NUL, NULL);
        if (!mine)
            may = json && verify_may_use(verify, caller, json);
        if (may)
            (void) json_array_append_new(items, verified_to_json(&list[i], caller, NULL));
        json_decref(json);
        store_verified_release(&whole);
    }
    *ret_json = json_pack("{s:o, s:s?}", "verified", items, "next",
                          len == (size_t) limit ? list[len - 1].id : NULL);
    store_verified_free(list, len);
    return *ret_json ? 0 : fault_no_memory(fault);
}

json_t *verify_of(struct verify *verify, const struct caller *caller, const char *message_id)
{
    struct store_verified verified;
    struct gb_err ignored;
    json_t *json;

    if (!mark_id_valid(message_id) ||
        store_verified_of(verify->config.store, principal_text(&caller->principal), message_id,
                          &verified, &ignored) < 0)
        return json_null();
    json = json_pack("{s:s, s:b, s:o}", "verified_id", verified.id, "shared", verified.shared,
                     "created", time_or_null(verified.created_us));
    store_verified_release(&verified);
    return json ? json : json_null();
}

int verify_ids(struct verify *verify, char ***ret_ids, struct gb_err *err)
{
    char after[STORE_ID_MAX] = "", **ids = NULL;
    size_t len = IDS_PAGE, all = 0;
    int r = 0;

    while (r == 0 && len == IDS_PAGE) {
        struct store_verified *list = NULL;

        r = store_verified_list(verify->config.store, NULL, true, after[0] ? after : NULL, IDS_PAGE,
                                &list, &len, err);
        for (size_t i = 0; r == 0 && i < len; i++) {
            r = strv_add(&ids, list[i].id) < 0 ? gb_fail(err, ENOMEM, "list verified answers") : 0;
            memcpy(after, list[i].id, sizeof after);
            all++;
        }
        if (r == 0)
            store_verified_free(list, len);
    }
    if (r < 0) {
        strv_free(ids);
        return r;
    }
    for (size_t i = 0; i < all / 2; i++) {
        char *swapped = ids[i];

        ids[i] = ids[all - 1 - i];
        ids[all - 1 - i] = swapped;
    }
    *ret_ids = ids;
    return 0;
}
