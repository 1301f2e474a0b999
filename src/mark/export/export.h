/*
 * Exports: a chat or an answer as a file that can be used elsewhere.
 *
 *   json    everything, as the API shows it
 *   md      for reading, in any place that shows Markdown
 *   html    one page that needs no network, with live charts
 *   ipynb   a notebook that computes the answer's values again, with its inputs inside
 *   zip     the same with the inputs beside it, for those that are too large for a notebook
 *
 * and a table of an answer with all of its rows, of which the answer itself shows the first
 * thousand: for that its programs run once more, in a fresh box.
 *
 * Theory of operation. An export is written to a file that has no name, completely, before the
 * first byte is sent: an error in the middle is an error and no half of a file, and nothing stays
 * behind. Messages are read one by one; only one is in memory. Everything in them is hostile: a
 * story, a title, a column's name or a cell that is put into a page, a notebook or a table must not
 * become markup or code there.
 */
#pragma once

#include "mark/agent/agent.h"
#include "mark/attach/attachments.h"
#include "service/service.h"

struct exports;

struct exports_config {
    struct service *service; /* NULL: charts become tables in html, and there are no whole tables */
    struct store *store;
    struct attachments *attachments;
    struct agent *agent;  /* NULL: no whole tables */
    const char *data_dir; /* scratch files, and plotly.js, are in mark/ */
};

int exports_open(const struct exports_config *config, struct exports **ret_exports,
                 struct gb_err *err);
void exports_close(struct exports *exports); /* accepts NULL; no export may be under way */

enum export_format {
    EXPORT_IPYNB,
    EXPORT_HTML,
    EXPORT_MD,
    EXPORT_JSON,
    EXPORT_ZIP,
    EXPORT_FORMATS,
};
#define EXPORT_FORMAT_WORDS                                                                        \
    {                                                                                              \
        "ipynb", "html", "md", "json", "zip", NULL                                                 \
    }
extern const char *const export_format_names[EXPORT_FORMATS + 1];

enum export_table_format {
    EXPORT_TABLE_CSV,
    EXPORT_TABLE_XLSX,
    EXPORT_TABLE_PARQUET,
    EXPORT_TABLE_JSON,
    EXPORT_TABLE_FORMATS,
};
#define EXPORT_TABLE_FORMAT_WORDS                                                                  \
    {                                                                                              \
        "csv", "xlsx", "parquet", "json", NULL                                                     \
    }

#define EXPORT_NAME_MAX 256

struct export_file {
    int fd;                   /* the caller's, at its start */
    struct export_turn *turn; /* the caller's, for export_fetched() */
    int64_t size;
    const char *media_type;     /* valid forever */
    char name[EXPORT_NAME_MAX]; /* UTF-8, safe as the name of a file anywhere */
    bool differs;               /* of a table: its programs gave something else than the answer */
};

/* The file is not needed any more: until then it counts as an export of its owner. Accepts NULL. */
void export_fetched(struct export_turn *turn);

/* For an operator: as whom to ask for the chat or answer @id, whoever it belongs to. -ENOENT: there
 * is none. */
int export_find(struct store *store, const char *id, struct caller *ret_caller, bool *ret_chat,
                struct gb_err *err);

/* All of these wait. */
int export_chat(struct exports *exports, const struct caller *caller, const char *chat_id,
                enum export_format format, struct export_file *ret_file, struct fault *fault);
/* @message_id is an answer that has ended. */
int export_message(struct exports *exports, const struct caller *caller, const char *message_id,
                   enum export_format format, struct export_file *ret_file, struct fault *fault);
/* Table @n, from 1, of the answer's "data". If it is not the one that the answer shows, because its
 * programs use the clock, random numbers or other packages, that is a fault unless @changed. */
int export_table(struct exports *exports, const struct caller *caller, const char *message_id,
                 int64_t n, enum export_table_format format, bool changed,
                 struct export_file *ret_file, struct fault *fault);
