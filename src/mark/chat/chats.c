/* Chats and messages as the wire shows them. */
#include "mark/chat/chats.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/text/parse.h"
#include "base/text/utf8.h"
#include "mark/chat/internal.h"
#include "mark/ids.h"
#include "store/chats.h"
#include "store/feedback.h"

#include "base/banned.h"

#define PAGE_BYTES_MAX (8 << 20) /* of one page of messages, except for its first message */
#define CURSOR_MAX     (STORE_ID_MAX + 24)

_Static_assert(CHAT_SEARCH_MAX == STORE_SEARCH_MAX, "what is accepted can be searched for");

/* ---- what all of them use ---- */

int chat_fault(int r, const struct gb_err *err, enum problem unknown, const char *id,
               struct fault *fault)
{
    if (r == -ENOMEM)
        return fault_no_memory(fault);
    if (r == -ENOSPC) {
        (void) fault_set(fault, PROBLEM_DISK_FULL, NULL,
                         "the disk of the service is full; ask the operator to make room");
        fault->retry_after_s = 30;
        return -1;
    }
    if (r == -EDQUOT)
        return fault_set(fault, PROBLEM_CHATS_QUOTA, NULL, "%s; delete some", err->msg);
    if (r == -ENOENT)
        return fault_set(fault, unknown, "id", "there is no %s %s of yours",
                         unknown == PROBLEM_CHAT_UNKNOWN ? "chat" : "message", id);
    return fault_set(fault, PROBLEM_INTERNAL, NULL, "%s; try again", err->msg);
}

json_t *chat_time(int64_t time_us)
{
    char text[FORMAT_UTC_MAX];

    format_utc(time_us, text);
    return json_string(text);
}

json_t *chat_stored(const char *text)
{
    json_t *json = text ? json_loads(text, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL) : NULL;

    return json ? json : json_null();
}

char *chat_parts_text(const char *parts)
{
    json_t *list = chat_stored(parts), *part;
    char *text = NULL;
    size_t i, len = 0;
    FILE *out = open_memstream(&text, &len);

    if (!out) {
        json_decref(list);
        return NULL;
    }
    json_array_foreach (list, i, part) {
        const char *piece = json_string_value(json_object_get(part, "text"));

        if (piece)
            (void) fprintf(out, "%s%s", ftell(out) > 0 ? "\n" : "", piece);
    }
    json_decref(list);
    if (fclose(out) != 0) {
        free(text);
        return NULL;
    }
    return text;
}

/* An id that cannot be one is answered like one that does not exist. */
static int check_id(const char *id, enum problem unknown, struct fault *fault)
{
    if (mark_id_valid(id))
        return 0;
    return fault_set(fault, unknown, "id", "there is no such %s; its id is a UUID in lower case",
                     unknown == PROBLEM_CHAT_UNKNOWN ? "chat" : "message");
}

/* ---- titles ---- */

/* Characters that a title has no use for: controls, and those that change the direction of what
 * follows or are not seen at all. */
static bool is_invisible(const char *unit, size_t len)
{
    const unsigned char *u = (const unsigned char *) unit;

    if (len == 1)
        return u[0] < 0x20 || u[0] == 0x7f;
    if (len == 2)
        return (u[0] == 0xc2 && u[1] < 0xa0) || (u[0] == 0xd8 && u[1] == 0x9c);
    if (len == 3 && u[0] == 0xe2 && u[1] == 0x80)
        return (u[2] >= 0x8b && u[2] <= 0x8f) || (u[2] >= 0xa8 && u[2] <= 0xae);
    if (len == 3 && u[0] == 0xe2 && u[1] == 0x81)
        return u[2] >= 0xa0 && u[2] <= 0xaf;
    return len == 3 && u[0] == 0xef && u[1] == 0xbb && u[2] == 0xbf;
}

/* Cuts @buf, which has @len bytes and no room for more, at its last blank and says that it did. */
static void cut(char *buf, size_t len)
{
    static const char more[] = "\u2026";
    size_t at = len;

    while (at > len / 2 && buf[at] != ' ')
        at--;
    if (buf[at] != ' ')
        at = len;
    (void) snprintf(buf + at, sizeof more, "%s", more);
}

void chat_title_make(const char *question, char *buf, size_t size)
{
    size_t len = strnlen(question, (size_t) 4096), at = 0, out = 0, chars = 0, unit;
    size_t room = (size < STORE_TITLE_MAX ? size : STORE_TITLE_MAX) - sizeof "\u2026";
    bool blank = false;

    for (; at < len; at += unit) {
        const char *c = question + at;
        bool is_char = utf8_next(c, len - at, &unit) == UTF8_CHAR;

        if (!is_char || is_invisible(c, unit) || (unit == 1 && *c == ' ')) {
            blank = out > 0;
            continue;
        }
        if (out + blank + unit > room || chars + blank + 1 > 79) {
            cut(buf, out);
            return;
        }
        if (blank)
            buf[out++] = ' ';
        memcpy(buf + out, c, unit);
        out += unit;
        chars += 1u + blank;
        blank = false;
    }
    buf[out] = '\0';
    if (out == 0)
        (void) snprintf(buf, size, "New chat");
}

/* ---- chats ---- */

static json_t *chat_to_json(const struct store_chat *chat)
{
    return json_pack("{s:s,s:s,s:o,s:o,s:s?}", "chat_id", chat->id, "title", chat->title, "created",
                     chat_time(chat->created_us), "updated", chat_time(chat->updated_us), "model",
                     chat->model[0] ? chat->model : NULL);
}

static int give(json_t *json, json_t **ret_json, struct fault *fault)
{
    if (!json)
        return fault_no_memory(fault);
    *ret_json = json;
    return 0;
}

int chat_create(struct store *store, const struct caller *caller, json_t **ret_json,
                struct fault *fault)
{
    struct store_chat chat = { .title = "New chat", .created_us = clock_wall_us() };
    struct gb_err err;
    int r;

    chat.updated_us = chat.created_us;
    mark_id_make(chat.id);
    (void) snprintf(chat.owner, sizeof chat.owner, "%s", principal_text(&caller->principal));
    r = store_chat_add(store, &chat, &err);
    if (r < 0)
        return chat_fault(r, &err, PROBLEM_CHAT_UNKNOWN, chat.id, fault);
    return give(json_pack("{s:s}", "chat_id", chat.id), ret_json, fault);
}

/* The place of a chat in the list, as text: its time and id. They stay valid when the chat is
 * changed or deleted. */
static int cursor_read(const char *text, int64_t *ret_us, char ret_id[MARK_ID_MAX],
                       struct fault *fault)
{
    const char *dash = strchr(text, '_');
    char number[24];
    int64_t us;

    if (!dash || (size_t) (dash - text) >= sizeof number || !mark_id_valid(dash + 1))
        return fault_set(fault, PROBLEM_INVALID_REQUEST, "after",
                         "after must be the value of next in the previous page");
    (void) snprintf(number, sizeof number, "%.*s", (int) (dash - text), text);
    if (parse_int(number, &us) < 0 || us < 0)
        return fault_set(fault, PROBLEM_INVALID_REQUEST, "after",
                         "after must be the value of next in the previous page");
    *ret_us = us;
    (void) snprintf(ret_id, MARK_ID_MAX, "%s", dash + 1);
    return 0;
}

static json_t *page_to_json(const struct store_chat *chats, size_t len, bool more)
{
    json_t *list = json_array();
    char next[CURSOR_MAX];

    for (size_t i = 0; i < len; i++)
        if (json_array_append_new(list, chat_to_json(&chats[i])) < 0) {
            json_decref(list);
            return NULL;
        }
    if (more)
        (void) snprintf(next, sizeof next, "%" PRId64 "_%s", chats[len - 1].updated_us,
                        chats[len - 1].id);
    return json_pack("{s:o,s:s?}", "chats", list, "next", more ? next : NULL);
}

int chat_list(struct store *store, const struct caller *caller, const char *q, const char *after,
              int64_t limit, json_t **ret_json, struct fault *fault)
{
    struct store_chat_query query = { .owner = principal_text(&caller->principal), .q = q };
    autofree struct store_chat *chats = NULL;
    char after_id[MARK_ID_MAX];
    struct gb_err err;
    size_t len;
    int r;

    if (after && cursor_read(after, &query.after_us, after_id, fault) < 0)
        return -1;
    query.after_id = after ? after_id : NULL;
    query.limit = (size_t) limit + 1; /* one more, to know whether there are more */
    r = store_chat_list(store, &query, &chats, &len, &err);
    if (r == -EINVAL)
        return fault_set(fault, PROBLEM_INVALID_REQUEST, "q", "%s; search for less", err.msg);
    if (r < 0)
        return chat_fault(r, &err, PROBLEM_CHAT_UNKNOWN, "", fault);
    return give(
        page_to_json(chats, len > (size_t) limit ? (size_t) limit : len, len > (size_t) limit),
        ret_json, fault);
}

int chat_get(struct store *store, const struct caller *caller, const char *id, json_t **ret_json,
             struct fault *fault)
{
    struct store_chat chat;
    struct gb_err err;
    int r;

    if (check_id(id, PROBLEM_CHAT_UNKNOWN, fault) < 0)
        return -1;
    r = store_chat_get(store, principal_text(&caller->principal), id, &chat, &err);
    if (r < 0)
        return chat_fault(r, &err, PROBLEM_CHAT_UNKNOWN, id, fault);
    return give(chat_to_json(&chat), ret_json, fault);
}

int chat_rename(struct store *store, const struct caller *caller, const char *id, const char *title,
                json_t **ret_json, struct fault *fault)
{
    char clean[STORE_TITLE_MAX];
    struct gb_err err;
    int r;

    if (check_id(id, PROBLEM_CHAT_UNKNOWN, fault) < 0)
        return -1;
    chat_title_make(title, clean, sizeof clean);
    r = store_chat_rename(store, principal_text(&caller->principal), id, clean, clock_wall_us(),
                          &err);
    if (r < 0)
        return chat_fault(r, &err, PROBLEM_CHAT_UNKNOWN, id, fault);
    return chat_get(store, caller, id, ret_json, fault);
}

int chat_delete(struct store *store, const struct caller *caller, const char *id,
                struct fault *fault)
{
    struct gb_err err;
    int r;

    if (check_id(id, PROBLEM_CHAT_UNKNOWN, fault) < 0)
        return -1;
    r = store_chat_delete(store, principal_text(&caller->principal), id, &err);
    return r < 0 ? chat_fault(r, &err, PROBLEM_CHAT_UNKNOWN, id, fault) : 0;
}

/* ---- messages ---- */

static const char *status_name(enum store_message_status status)
{
    switch (status) {
    case STORE_MESSAGE_PENDING:
        return "pending";
    case STORE_MESSAGE_OK:
        return "ok";
    case STORE_MESSAGE_ERROR:
        return "error";
    case STORE_MESSAGE_STOPPED:
        return "stopped";
    case STORE_MESSAGE_NEEDS_INPUT:
        return "needs_input";
    }
    return "error";
}

static json_t *rating_to_json(const struct store_feedback *feedback)
{
    return json_pack("{s:s,s:o,s:s?,s:o}", "rating", feedback->up ? "up" : "down", "reasons",
                     feedback->reasons ? chat_stored(feedback->reasons) : json_array(), "text",
                     feedback->comment, "created", chat_time(feedback->created_us));
}

static json_t *message_to_json(const struct store_message *message,
                               const struct store_feedback *feedback)
{
    json_t *response = chat_stored(message->response);
    const char *story = json_string_value(json_object_get(response, "answer_story"));
    autofree char *text = story ? strdup(story) : chat_parts_text(message->parts);
    json_t *json;

    json = json_pack("{s:s,s:s,s:s,s:s?,s:s?,s:o,s:o,s:o,s:o}", "message_id", message->id, "role",
                     message->role == STORE_ROLE_USER ? "user" : "assistant", "status",
                     status_name(message->status), "reply_to",
                     message->reply_to[0] ? message->reply_to : NULL, "text", text, "attachments",
                     message->attachments ? chat_stored(message->attachments) : json_array(),
                     "response", response, "created", chat_time(message->created_us), "feedback",
                     feedback ? rating_to_json(feedback) : json_null());
    return json;
}

static json_t *messages_to_json(const struct store_message *messages, size_t len,
                                const struct store_feedback *feedbacks, size_t feedbacks_len,
                                bool more)
{
    json_t *list = json_array();
    size_t next = 0;

    for (size_t i = 0; i < len; i++) {
        const struct store_feedback *feedback = NULL;

        /* Both are in the order of the chat. */
        if (next < feedbacks_len && strcmp(feedbacks[next].message_id, messages[i].id) == 0)
            feedback = &feedbacks[next++];
        if (json_array_append_new(list, message_to_json(&messages[i], feedback)) < 0) {
            json_decref(list);
            return NULL;
        }
    }
    return json_pack("{s:o,s:o}", "messages", list, "next",
                     more ? json_integer(messages[len - 1].seq) : json_null());
}

/* Whether there is a message after number @seq. */
static int has_more(struct store *store, const struct store_message_query *query, int64_t seq,
                    bool *ret_more, struct gb_err *err)
{
    struct store_message_query next = *query;
    struct store_message *messages;
    size_t len;
    int r;

    next.after_seq = seq;
    next.limit = 1;
    r = store_message_list(store, &next, &messages, &len, err);
    if (r < 0)
        return r;
    store_messages_free(messages, len);
    *ret_more = len > 0;
    return 0;
}

int chat_messages(struct store *store, const struct caller *caller, const char *id, int64_t after,
                  int64_t limit, json_t **ret_json, struct fault *fault)
{
    struct store_message_query query = { .owner = principal_text(&caller->principal),
                                         .chat_id = id,
                                         .after_seq = after,
                                         .limit = (size_t) limit,
                                         .bytes_max = PAGE_BYTES_MAX };
    struct store_message *messages = NULL;
    struct store_feedback *feedbacks = NULL;
    size_t len = 0, feedbacks_len = 0;
    bool more = false;
    json_t *json = NULL;
    struct gb_err err;
    int r;

    if (check_id(id, PROBLEM_CHAT_UNKNOWN, fault) < 0)
        return -1;
    r = store_message_list(store, &query, &messages, &len, &err);
    if (r == 0 && len > 0)
        r = store_feedback_of_chat(store, query.owner, id, messages[0].seq, messages[len - 1].seq,
                                   &feedbacks, &feedbacks_len, &err);
    if (r == 0 && len > 0)
        r = has_more(store, &query, messages[len - 1].seq, &more, &err);
    if (r == 0)
        json = messages_to_json(messages, len, feedbacks, feedbacks_len, more);
    store_messages_free(messages, len);
    store_feedbacks_free(feedbacks, feedbacks_len);
    return r < 0 ? chat_fault(r, &err, PROBLEM_CHAT_UNKNOWN, id, fault)
                 : give(json, ret_json, fault);
}

int chat_message(struct store *store, const struct caller *caller, const char *message_id,
                 json_t **ret_json, struct fault *fault)
{
    const char *owner = principal_text(&caller->principal);
    struct store_feedback *feedbacks = NULL;
    struct store_message message;
    json_t *json = NULL;
    size_t len = 0;
    struct gb_err err;
    int r;

    if (check_id(message_id, PROBLEM_MESSAGE_UNKNOWN, fault) < 0)
        return -1;
    r = store_message_get(store, owner, message_id, &message, &err);
    if (r < 0)
        return chat_fault(r, &err, PROBLEM_MESSAGE_UNKNOWN, message_id, fault);
    r = store_feedback_of_chat(store, owner, message.chat_id, message.seq, message.seq, &feedbacks,
                               &len, &err);
    if (r == 0) {
        json = message_to_json(&message, len > 0 ? &feedbacks[0] : NULL);
        if (json && json_object_set_new(json, "chat_id", json_string(message.chat_id)) < 0) {
            json_decref(json);
            json = NULL;
        }
    }
    store_feedbacks_free(feedbacks, len);
    store_message_release(&message);
    return r < 0 ? chat_fault(r, &err, PROBLEM_MESSAGE_UNKNOWN, message_id, fault)
                 : give(json, ret_json, fault);
}
