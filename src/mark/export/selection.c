/* What is exported: the answers of a chat in order, one in memory at a time. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "mark/chat/chats.h"
#include "mark/export/internal.h"

#include "base/banned.h"

#define PAGE_LEN 20

const char *member_text(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));

    return text ? text : "";
}

static int store_fault(int r, const struct gb_err *err, struct fault *fault)
{
    if (r == -ENOMEM)
        return fault_no_memory(fault);
    if (r == -ENOENT)
        return fault_set(fault, PROBLEM_CHAT_UNKNOWN, "id", "there is no such chat of yours");
    return fault_set(fault, PROBLEM_INTERNAL, NULL, "%s; try again", err->msg);
}

/* Finds the message, which must be an answer that has ended, and its chat. */
static int find_message(struct selection *selection, const char *message_id,
                        char chat_id[STORE_ID_MAX], struct fault *fault)
{
    struct store *store = selection->exports->config.store;
    struct store_message message;
    json_t *json = NULL;
    struct gb_err err;
    int r = 0;

    /* Checks the id, and says what is wrong with it. */
    if (chat_message(store, selection->caller, message_id, &json, fault) < 0)
        return -1;
    json_decref(json);
    r = store_message_get(store, principal_text(&selection->caller->principal), message_id,
                          &message, &err);
    if (r < 0)
        return store_fault(r, &err, fault);
    memcpy(selection->message_id, message.id, sizeof selection->message_id);
    memcpy(chat_id, message.chat_id, STORE_ID_MAX);
    selection->seq = message.seq;
    if (message.role != STORE_ROLE_ASSISTANT)
        r = fault_set(fault, PROBLEM_NOT_AN_ANSWER, NULL,
                      "that message is a question; name its answer");
    else if (message.status == STORE_MESSAGE_PENDING)
        r = fault_set(fault, PROBLEM_ANSWER_PENDING, NULL,
                      "that answer is still under way; wait for it, or stop it");
    store_message_release(&message);
    return r;
}

int selection_open(struct exports *exports, const struct caller *caller, const char *chat_id,
                   const char *message_id, struct selection *ret_selection, struct fault *fault)
{
    struct selection selection = { .exports = exports, .caller = caller };
    char of_message[STORE_ID_MAX];
    json_t *json = NULL;
    struct gb_err err;
    int r;

    if (message_id) {
        if (find_message(&selection, message_id, of_message, fault) < 0)
            return -1;
        chat_id = of_message;
    }
    if (chat_get(exports->config.store, caller, chat_id, &json, fault) < 0)
        return -1;
    json_decref(json);
    r = store_chat_get(exports->config.store, principal_text(&caller->principal), chat_id,
                       &selection.chat, &err);
    if (r < 0)
        return store_fault(r, &err, fault);
    *ret_selection = selection;
    return 0;
}

int export_find(struct store *store, const char *id, struct caller *ret_caller, bool *ret_chat,
                struct gb_err *err)
{
    struct caller caller = { .listener = "export", .limits = { -1, -1, -1 } };
    char owner[STORE_ID_MAX];
    int r = store_owner_of(store, id, owner, ret_chat, err);

    if (r < 0)
        return r;
    if (strcmp(owner, PRINCIPAL_TEXT_LOCAL) != 0) {
        caller.principal.kind = strncmp(owner, "user-", 5) == 0 ? PRINCIPAL_USER : PRINCIPAL_KEY;
        memcpy(caller.principal.id, owner, sizeof caller.principal.id);
    }
    *ret_caller = caller;
    return 0;
}

/* ---- one answer ---- */

static void item_release(struct item *item)
{
    json_decref(item->message);
    json_decref(item->details);
    free(item->question);
}

/* What the API does not show of it: its programs and inputs; and the question. */
static int item_fill(struct selection *selection, struct item *item, struct fault *fault)
{
    struct store *store = selection->exports->config.store;
    const char *question = member_text(item->message, "reply_to");
    struct store_message message;
    json_t *asked = NULL;
    struct gb_err err;
    int r = store_message_get(store, principal_text(&selection->caller->principal), item->id,
                              &message, &err);

    if (r < 0)
        return store_fault(r, &err, fault);
    item->details = message.details ? json_loads(message.details, JSON_ALLOW_NUL, NULL) : NULL;
    memcpy(item->prompt_version, message.prompt_version, sizeof item->prompt_version);
    store_message_release(&message);
    if (!item->details)
        item->details = json_object();
    if (*question && chat_message(store, selection->caller, question, &asked, fault) < 0)
        return -1;
    item->question = strdup(member_text(asked, "text"));
    json_decref(asked);
    return item->details && item->question ? 0 : fault_no_memory(fault);
}

struct walk {
    struct selection *selection;
    bool before;
    int n;
    int (*each)(void *arg, struct item *item, struct fault *fault);
    void *arg;
};

static int walk_message(struct walk *walk, json_t *message, struct fault *fault)
{
    struct selection *selection = walk->selection;
    struct item item = { .message = json_incref(message),
                         .id = member_text(message, "message_id") };
    bool chosen = !selection->message_id[0] || strcmp(item.id, selection->message_id) == 0;
    int r = 0;

    item.answer = json_object_get(message, "response");
    item.before = !chosen;
    if (json_is_object(item.answer) && (chosen || walk->before)) {
        item.n = ++walk->n;
        r = item_fill(selection, &item, fault);
        if (r == 0)
            r = walk->each(walk->arg, &item, fault);
    }
    item_release(&item);
    return r;
}

/* One answer alone needs no pages. */
static int walk_one(struct walk *walk, struct fault *fault)
{
    json_t *message = NULL;
    int r = chat_message(walk->selection->exports->config.store, walk->selection->caller,
                         walk->selection->message_id, &message, fault);

    if (r == 0)
        r = walk_message(walk, message, fault);
    json_decref(message);
    return r;
}

int selection_each(struct selection *selection, bool before,
                   int (*each)(void *arg, struct item *item, struct fault *fault), void *arg,
                   struct fault *fault)
{
    struct walk walk = { .selection = selection, .before = before, .each = each, .arg = arg };
    int64_t after = 0;
    bool more = true;

    if (selection->message_id[0] && !before)
        return walk_one(&walk, fault);
    while (more) {
        json_t *page = NULL, *message;
        int r = chat_messages(selection->exports->config.store, selection->caller,
                              selection->chat.id, after, PAGE_LEN, &page, fault);
        size_t i;

        if (r < 0)
            return r;
        json_array_foreach (json_object_get(page, "messages"), i, message) {
            r = walk_message(&walk, message, fault);
            more = strcmp(member_text(message, "message_id"), selection->message_id) != 0;
            if (r < 0 || !more)
                break;
        }
        after = json_integer_value(json_object_get(page, "next"));
        more = more && after > 0;
        json_decref(page);
        if (r < 0)
            return r;
    }
    return 0;
}
