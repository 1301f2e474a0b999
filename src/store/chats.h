/* Chats with Mark and their messages. An owner is principal_text() of who asked; what belongs to
 * another owner is -ENOENT. */
#pragma once

#include "store/store.h"

#define STORE_TITLE_MAX     201                /* UTF-8, with its NUL */
#define STORE_TEXT_MAX      (44 << 20)         /* bytes of one text of a message, or of a trace */
#define STORE_MESSAGE_MAX   (60 << 20)         /* of all texts of a message together */
#define STORE_SEARCH_MAX    256                /* bytes of what is searched for */
#define STORE_CHAT_ROWS_MAX 1000               /* of one list */
#define STORE_CHATS_MAX     10000              /* of one owner */
#define STORE_MESSAGES_MAX  10000              /* of one chat */
#define STORE_OWNER_MAX     (INT64_C(4) << 30) /* bytes that the chats of one owner take, about */

struct store_chat {
    char id[STORE_ID_MAX]; /* a UUID */
    char owner[STORE_ID_MAX];
    char title[STORE_TITLE_MAX];
    char session_id[STORE_ID_MAX]; /* its box; "": none */
    char model[STORE_TITLE_MAX];   /* the one it was asked with last; "": none yet */
    int64_t created_us, updated_us;
};

/* -EDQUOT: the owner has STORE_CHATS_MAX. */
int store_chat_add(struct store *store, const struct store_chat *chat, struct gb_err *err);
int store_chat_get(struct store *store, const char *owner, const char *id,
                   struct store_chat *ret_chat, struct gb_err *err);
/* The one that was changed last comes first. */
struct store_chat_query {
    const char *owner;
    const char *q;    /* in the title or the text of a message, in letters of any case; NULL, "":
                         all */
    int64_t after_us; /* only chats that come after this time and id, */
    const char
        *after_id; /* which are those of a chat that was listed before; NULL: from the start */
    size_t limit;
};
/* Free the array. -EINVAL: @q is longer than STORE_SEARCH_MAX, or not UTF-8. */
int store_chat_list(struct store *store, const struct store_chat_query *query,
                    struct store_chat **ret_chats, size_t *ret_len, struct gb_err *err);
int store_chat_rename(struct store *store, const char *owner, const char *id, const char *title,
                      int64_t now_us, struct gb_err *err);
/* Which box it has, and which model it uses; NULL: unchanged. */
int store_chat_set(struct store *store, const char *id, const char *session_id, const char *model,
                   struct gb_err *err);
/* With its messages, traces, feedback and the links to its attachments. */
int store_chat_delete(struct store *store, const char *owner, const char *id, struct gb_err *err);
/* All that is @owner's: chats, messages, attachments, verified answers, shares. Files of
 * attachments are the caller's. */
int store_owner_delete(struct store *store, const char *owner, struct gb_err *err);

/* Whose chat or message @id is, for an operator; what is another's exists here. -ENOENT: nobody's.
 */
int store_owner_of(struct store *store, const char *id, char ret_owner[STORE_ID_MAX],
                   bool *ret_chat, struct gb_err *err);

/* ---- messages ---- */

enum store_role { STORE_ROLE_USER, STORE_ROLE_ASSISTANT };

enum store_message_status {
    STORE_MESSAGE_PENDING, /* waits, or is being answered */
    STORE_MESSAGE_OK,
    STORE_MESSAGE_ERROR,
    STORE_MESSAGE_STOPPED,
    STORE_MESSAGE_NEEDS_INPUT,
};

struct store_message {
    char id[STORE_ID_MAX]; /* a UUID */
    char chat_id[STORE_ID_MAX];
    char owner[STORE_ID_MAX];    /* of its chat; only set by reading */
    int64_t seq;                 /* its place in the chat, from 1; set by store_message_add() */
    char reply_to[STORE_ID_MAX]; /* of an answer: the question; else "" */
    enum store_role role;
    enum store_message_status status; /* of a question always OK */
    char *parts;                      /* JSON: [{"type": "text", "text": ...}] */
    char *text;        /* what a person reads of it, for searching; NULL: none. Only for writing */
    char *attachments; /* JSON: ids; NULL: none */
    char *response;    /* of a finished answer: MarkResponse as JSON; else NULL */
    char *details;     /* of an answer: JSON, what recheck and later questions need; or NULL */
    char *usage;       /* JSON, or NULL */
    char prompt_version[STORE_ID_MAX]; /* "": none */
    int64_t created_us, updated_us;
};

void store_message_release(struct store_message *message);
void store_messages_free(struct store_message *messages, size_t len);

/* Adds a question and its answer, which is pending, in one transaction, and moves the chat to the
 * front. @question NULL: only an answer, for regenerate. A search looks at the texts.
 * -ENOENT: no such chat; -E2BIG: a text is too long. Texts are UTF-8. */
int store_message_add(struct store *store, struct store_message *question,
                      struct store_message *answer, struct gb_err *err);
/* A question that goes, with everything in its chat from there on. */
struct store_replaced {
    const char *owner, *message_id;
    char session_id[STORE_ID_MAX]; /* set: the box that the chat had; it has none any more */
};
/* As store_message_add(), in place of @replaced: in one transaction. Traces and feedback of the
 * messages that go are deleted with them, verified answers stay. -ENOENT: no such question of that
 * owner in this chat; -EBUSY: an answer of the chat is pending. */
int store_message_replace(struct store *store, struct store_replaced *replaced,
                          struct store_message *question, struct store_message *answer,
                          struct gb_err *err);
/* Sets status, parts and text (unless NULL), response, details, usage, prompt_version and
 * updated_us of an answer, and moves the chat to the front. -ENOENT: it was deleted meanwhile;
 * -E2BIG. */
int store_message_finish(struct store *store, const struct store_message *message,
                         struct gb_err *err);
int store_message_get(struct store *store, const char *owner, const char *id,
                      struct store_message *ret_message, struct gb_err *err);
/* In order, after seq @after_seq (0: from the start), at most @limit. @before_seq, if above 0: only
 * those before it. @newest: the last that match; still in order. @bytes_max, if above 0: no further
 * ones once their texts have that many bytes; the first is always there. -ENOENT: no such chat. */
struct store_message_query {
    const char *owner, *chat_id;
    int64_t after_seq, before_seq;
    size_t limit, bytes_max;
    bool newest;
    bool without_response; /* which can be long: those of answers are NULL */
};
int store_message_list(struct store *store, const struct store_message_query *query,
                       struct store_message **ret_messages, size_t *ret_len, struct gb_err *err);
/* Those that a service which ended left pending, oldest first, without their texts. */
int store_message_pending(struct store *store, struct store_message **ret_messages, size_t *ret_len,
                          struct gb_err *err);

/* ---- what the model saw and said ---- */

/* One exchange, number @n of the answer from 1, as JSON text. */
int store_trace_add(struct store *store, const char *message_id, int64_t n, const char *json,
                    struct gb_err *err);
/* JSON texts in order; free each and the array (strv_free()). */
int store_trace_list(struct store *store, const char *owner, const char *message_id,
                     char ***ret_texts, struct gb_err *err);
