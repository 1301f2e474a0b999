/* Chats, messages, ratings and attachments of Mark: bodies, queries, responses. */
#include "mark/chat/chats.h"
#include "server/mark/schemas.h"
#include "server/schema/schemas.h"
#include "server/schema/tables.h"

#include "base/banned.h"

/* clang-format off */

#define CURSOR_BYTES 128

/* ---- chats and messages ---- */

static const struct field fields_chats_query[] = {
    { "q", FIELD_TEXT, 0, AT(query_chats, q), 0, CHAT_SEARCH_MAX,
      .help = "only chats whose title or messages contain this text, in letters of any case" },
    { "after", FIELD_TEXT, 0, AT(query_chats, after), 1, CURSOR_BYTES,
      .help = "the next of the previous page" },
    { "limit", FIELD_INT, 0, AT(query_chats, limit), 1, CHAT_PAGE_MAX,
      .help = "how many at most; 50 by default" },
    END,
};
REQUEST(chats_query, struct query_chats, NULL);

static const struct field fields_messages_query[] = {
    { "after", FIELD_INT, 0, AT(query_messages, after), 0, INT64_MAX,
      .help = "the next of the previous page" },
    { "limit", FIELD_INT, 0, AT(query_messages, limit), 1, CHAT_MESSAGES_MAX,
      .help = "how many at most; 50 by default" },
    END,
};
REQUEST(messages_query, struct query_messages, NULL);

static const struct field fields_chat_change[] = {
    { "title", FIELD_TEXT, FIELD_REQUIRED, AT(body_chat_change, title), 1, 1000,
      .help = "the new title: one line; what is beyond 80 characters is cut",
      .example = "\"Sales by region\"" },
    END,
};
REQUEST(chat_change, struct body_chat_change, "A new title.");

static const char *const ratings[] = { [RATING_UP] = "up", [RATING_DOWN] = "down", NULL };

static const struct field fields_feedback[] = {
    { "rating", FIELD_CHOICE, FIELD_REQUIRED, AT(body_feedback, rating), .choices = ratings,
      .help = "how the answer was" },
    { "reasons", FIELD_LIST, 0, AT(body_feedback, reasons), 0, CHAT_REASONS_MAX,
      .help = "words such as wrong-number, wrong-chart, slow: at most 10, of 64 bytes each" },
    { "text", FIELD_TEXT, 0, AT(body_feedback, text), 0, CHAT_COMMENT_MAX,
      .help = "what else there is to say" },
    END,
};
REQUEST(feedback, struct body_feedback, "A rating of an answer. It replaces an earlier one.");

static const struct field fields_chat_created[] = {
    ALWAYS("chat_id", FIELD_TEXT, "a UUID"), END };
RESPONSE(chat_created, "A new chat.");

static const struct field fields_chat[] = {
    ALWAYS("chat_id", FIELD_TEXT, "a UUID"),
    ALWAYS("title", FIELD_TEXT, "made of the first question, until it is changed"),
    ALWAYS("created", FIELD_TEXT, "RFC 3339"),
    ALWAYS("updated", FIELD_TEXT, "when something was last said, or the title changed"),
    { "model", FIELD_TEXT, FIELD_REQUIRED | FIELD_NULLABLE,
      .help = "the one that answered last; null: none yet" },
    END,
};
RESPONSE(chat, "A chat.");

static const struct field fields_chat_page[] = {
    { "chats", FIELD_LIST, FIELD_REQUIRED, .of = &schema_chat,
      .help = "the one that was changed last first" },
    { "next", FIELD_TEXT, FIELD_REQUIRED | FIELD_NULLABLE,
      .help = "after of the next page; null: this is the last" },
    END,
};
RESPONSE(chat_page, "A page of chats.");

static const struct field fields_rating[] = {
    { "rating", FIELD_CHOICE, FIELD_REQUIRED, .choices = ratings },
    ALWAYS("reasons", FIELD_LIST, NULL),
    { "text", FIELD_TEXT, FIELD_REQUIRED | FIELD_NULLABLE, .help = NULL },
    ALWAYS("created", FIELD_TEXT, "RFC 3339"),
    { "message_id", FIELD_TEXT, .help = "of the answer; not within a message" },
    END,
};
RESPONSE(rating, "The rating of an answer.");

static const char *const roles[] = { "user", "assistant", NULL };
static const char *const statuses[] = { "pending", "ok", "error", "stopped", "needs_input", NULL };

static const struct field fields_mark_message[] = {
    ALWAYS("message_id", FIELD_TEXT, "a UUID"),
    { "role", FIELD_CHOICE, FIELD_REQUIRED, .choices = roles },
    { "status", FIELD_CHOICE, FIELD_REQUIRED, .choices = statuses,
      .help = "of an answer; a question is always ok" },
    { "reply_to", FIELD_TEXT, FIELD_REQUIRED | FIELD_NULLABLE,
      .help = "of an answer: the question" },
    { "text", FIELD_TEXT, FIELD_REQUIRED | FIELD_NULLABLE,
      .help = "the question, or the story of the answer" },
    { "attachments", FIELD_LIST, FIELD_REQUIRED, .help = "ids" },
    { "response", FIELD_ANY, FIELD_REQUIRED,
      .help = "of a finished answer: what POST /api/v1/chat replied; else null" },
    ALWAYS("created", FIELD_TEXT, "RFC 3339"),
    { "feedback", FIELD_OBJECT, FIELD_REQUIRED | FIELD_NULLABLE, .of = &schema_rating },
    { "chat_id", FIELD_TEXT, .help = "where a message is read by itself" },
    { "verified", FIELD_OBJECT, FIELD_NULLABLE, .of = &schema_verified_brief,
      .help = "likewise; null: nobody verified it" },
    END,
};
RESPONSE(mark_message, "A question or an answer.");

static const struct field fields_message_page[] = {
    { "messages", FIELD_LIST, FIELD_REQUIRED, .of = &schema_mark_message,
      .help = "in their order" },
    { "next", FIELD_INT, FIELD_REQUIRED | FIELD_NULLABLE,
      .help = "after of the next page; null: this is the last" },
    END,
};
RESPONSE(message_page, "A page of messages.");

/* ---- attachments ---- */

static const struct field fields_profile_column[] = {
    ALWAYS("name", FIELD_TEXT, NULL),
    ALWAYS("type", FIELD_TEXT, "integer, number, text, boolean, date, datetime, ..., or empty"),
    { "nulls", FIELD_INT, .help = "missing values" },
    { "distinct", FIELD_INT, .help = "different values" },
    { "odd", FIELD_INT, .help = "values that are not of the type" },
    { "min", FIELD_ANY, .help = "of numbers and dates" },
    { "max", FIELD_ANY, .help = NULL },
    { "min_length", FIELD_INT, .help = "of texts" },
    { "max_length", FIELD_INT, .help = NULL },
    { "formats", FIELD_LIST, .help = "how dates or numbers are written" },
    { "values", FIELD_ANY, .help = "a list of all values, if they are few" },
    { "examples", FIELD_ANY, .help = "a list of some values" },
    { "notes", FIELD_LIST, .help = NULL },
    END,
};
RESPONSE(profile_column, "A column of an attached file.");

#define ROWS_TABLE                                                                                 \
    { "rows", FIELD_INT, .help = "without the header" },                                           \
    { "rows_exact", FIELD_BOOL, .help = "false: there are more" },                                 \
    { "sampled", FIELD_INT, .help = "the statistics are of this many first rows" },                \
    { "columns_total", FIELD_INT, .help = "of which columns describes the first" },                \
    { "duplicate_rows", FIELD_INT, .help = "rows that occur before, among those sampled" },        \
    { "header", FIELD_BOOL, .help = "the first row has the names of the columns" },                \
    { "columns", FIELD_LIST, .of = &schema_profile_column }, { "notes", FIELD_LIST, .help = NULL }

static const struct field fields_profile_table[] = {
    { "name", FIELD_TEXT, .help = NULL }, ROWS_TABLE, END };
RESPONSE(profile_table, "A sheet of a workbook, or a table of a database.");

static const struct field fields_profile[] = {
    ALWAYS("format", FIELD_TEXT, "csv, tsv, json, jsonl, xlsx, xls, ods, parquet, arrow, sqlite, "
                                 "text, or what kind of file it is otherwise"),
    { "error", FIELD_TEXT, .help = "why it could not be looked at" },
    { "encoding", FIELD_TEXT, .help = "of text" },
    { "delimiter", FIELD_TEXT, .help = "between the fields of a row" },
    ROWS_TABLE,
    { "sheets_total", FIELD_INT, .help = NULL },
    { "sheets", FIELD_LIST, .of = &schema_profile_table },
    { "tables_total", FIELD_INT, .help = NULL },
    { "tables", FIELD_LIST, .of = &schema_profile_table },
    { "shape", FIELD_ANY, .help = "what is nested in what, of JSON" },
    END,
};
RESPONSE(profile, "What is in an attached file, computed in a throw-away box.");

#define ROWS_ATTACHMENT                                                                            \
    ALWAYS("attachment_id", FIELD_TEXT, "a UUID"),                                                 \
    ALWAYS("name", FIELD_TEXT, "a safe name made of the client's"),                                \
    ALWAYS("size", FIELD_INT, "bytes"),                                                            \
    ALWAYS("media_type", FIELD_TEXT, "by its content"),                                            \
    ALWAYS("sha256", FIELD_TEXT, "of its content"), ALWAYS("created", FIELD_TEXT, "RFC 3339")

static const struct field fields_attachment[] = {
    ROWS_ATTACHMENT,
    { "profile", FIELD_OBJECT, FIELD_REQUIRED | FIELD_NULLABLE, .of = &schema_profile,
      .help = "null: it is being computed" },
    END,
};
RESPONSE(attachment, "An attached file.");

static const struct field fields_attachment_brief[] = { ROWS_ATTACHMENT, END };
RESPONSE(attachment_brief, "An attached file, without its profile.");

static const struct field fields_attachment_list[] = {
    { "attachments", FIELD_LIST, FIELD_REQUIRED, .of = &schema_attachment_brief,
      .help = "oldest first" },
    ALWAYS("count", FIELD_INT, "how many there are"),
    ALWAYS("bytes", FIELD_INT, "what they have together"),
    ALWAYS("count_max", FIELD_INT, "how many there can be"),
    ALWAYS("bytes_max", FIELD_INT, "what they can have together"),
    END,
};
RESPONSE(attachment_list, "All attachments of the caller.");
