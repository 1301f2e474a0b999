/* What the files of this room share. */
#pragma once

#include <jansson.h>
#include <pthread.h>
#include <stdio.h>

#include "mark/export/export.h"
#include "store/chats.h"

#define EXPORT_BYTES_MAX  (INT64_C(512) << 20) /* of a file that is one text */
#define ARCHIVE_BYTES_MAX (INT64_C(4) << 30)   /* of a zip, and of a whole table */
#define EMBEDDED_MAX      (INT64_C(32) << 20)  /* of the inputs in a notebook, before compression */

struct export_turn { /* an export under way, in a list */
    struct export_turn *next;
    const char *owner;
    bool box;
    bool made; /* the file is there, and takes room until it was fetched */
    struct exports *exports;
};

struct exports {
    struct exports_config config;
    pthread_mutex_t lock; /* guards what follows */
    struct export_turn *turns;
    pthread_mutex_t plotly_lock; /* one at a time looks for plotly.js */
};

/* ---- writing (out.c) ---- */

/* A file without a name that grows. The first failure is kept: write what you like, and look once
 * at the end. */
struct out {
    FILE *file;
    int64_t bytes, max;
    int error;   /* errno; EFBIG: more than @max */
    bool quoted; /* what is added is within a string of JSON */
};

int out_open(struct exports *exports, int64_t max, struct out *ret_out, struct fault *fault);
void out_add(struct out *out, const char *data, size_t len);
void out_puts(struct out *out, const char *text);
void out_printf(struct out *out, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* As JSON; in ASCII, so that nothing in it ends a script or a string. */
void out_json(struct out *out, const json_t *json);
/* Text in HTML, also in attributes. */
void out_html(struct out *out, const char *text);
/* The rest of @fd, as base64 in lines. */
void out_base64(struct out *out, int fd);
/* Hands the file over, at its start; or closes it and says why not. Releases @out. */
int out_finish(struct out *out, struct export_file *ret_file, struct fault *fault);
void out_release(struct out *out);

/* A scratch file without a name; -1 and errno on failure. */
int nameless_open(struct exports *exports);

/* ---- what is exported (selection.c) ---- */

struct selection {
    struct exports *exports;
    const struct caller *caller;
    struct store_chat chat;
    char message_id[STORE_ID_MAX]; /* "": all of the chat */
    int64_t seq;                   /* of that message */
};

/* An answer with its question. */
struct item {
    json_t *message;      /* as GET /api/v1/messages/{id} shows it */
    const json_t *answer; /* MarkResponse, in it; never NULL */
    json_t *details;      /* code, files, template, packages; an object */
    const char *id;       /* in @message */
    char prompt_version[STORE_ID_MAX];
    char *question; /* UTF-8 */
    int n;          /* from 1 */
    bool before;    /* it comes before the one that is exported */
};

int selection_open(struct exports *exports, const struct caller *caller, const char *chat_id,
                   const char *message_id, struct selection *ret_selection, struct fault *fault);
/* Calls @each with the answers that have ended, in order; with @before also those before the one
 * that is exported. */
int selection_each(struct selection *selection, bool before,
                   int (*each)(void *arg, struct item *item, struct fault *fault), void *arg,
                   struct fault *fault);
const char *member_text(const json_t *object, const char *name); /* "" if there is none */

/* ---- stories (prose.c) ---- */

/* The Markdown of a model, made harmless: raw HTML is shown, not obeyed; links lead to http, https
 * and mailto only; pictures become links. */

/* As HTML, with @numbers.marks marked, whose values are in @values. */
void prose_html(struct out *out, const char *markdown, const json_t *numbers, const json_t *values);
/* As Markdown with everything closed that was opened, headings @deeper. For free(); NULL: out of
 * memory. */
char *prose_markdown(const char *markdown, int deeper);

/* ---- pieces of Markdown (markdown.c) ---- */

/* One line in which nothing is markup; @cell: of a table. */
void md_text(struct out *out, const char *text, bool cell);
/* A question as a heading; one that is long is quoted below it. */
void md_question(struct out *out, const char *question);
/* In a fence that it cannot close. */
void md_fence(struct out *out, const char *language, const char *code);
/* {"title", "columns", "rows", "row_count"}: at most @rows_max rows. */
void md_table(struct out *out, const json_t *table, size_t rows_max);
/* The text of a cell, in @buf unless it is a string. */
#define CELL_MAX 64
const char *cell_text(const json_t *cell, char buf[CELL_MAX]);

/* ---- charts (charts.c) ---- */

/* The data of a figure of Plotly as a table, as in MarkResponse: a row for each point. NULL: it has
 * none that fit into one. */
json_t *chart_table(const json_t *spec);
/* Its title, or "". */
const char *chart_title(const json_t *spec);

/* ---- inputs of notebooks (inputs.c) ---- */

struct inputs {
    json_t *files;        /* path in the workspace: {"name", "sha256", "size", "entry"} */
    json_t *results;      /* of queries, by their hash: {"size", "entry"} */
    json_t *replay;       /* key: [hash, or {"word", "message"}, ...] */
    json_t *answers;      /* id: {"values", "tables"}, what is compared */
    json_t *packages;     /* texts, each once */
    int64_t bytes, cells; /* of files and results; of tables that are compared */
};

/* Finds what the programs need. A file that was deleted is a fault. */
int inputs_collect(struct selection *selection, struct inputs *ret_inputs, struct fault *fault);
void inputs_release(struct inputs *inputs);
struct archive;
/* Adds all of them to @zip, beneath @prefix. */
int inputs_pack(struct selection *selection, const struct inputs *inputs, struct archive *zip,
                const char *prefix, struct fault *fault);
/* A zip that is written to @fd. NULL: out of memory. */
struct archive *zip_open(int fd);
int zip_add(struct archive *zip, const char *name, const void *data, size_t len);
/* The rest of @fd, which has @size bytes. */
int zip_add_fd(struct archive *zip, const char *name, int fd, int64_t size);
/* Frees it. */
int zip_close(struct archive *zip);
int zip_fault(struct fault *fault);

/* ---- plotly.js (plotly.c) ---- */

/* As it can stand in a script element; for free(). NULL: there is none. Waits for a box, once. */
char *plotly_script(struct exports *exports, size_t *ret_len);

/* ---- formats ---- */

/* A table in HTML, at most @rows_max rows. */
void html_table(struct out *out, const json_t *table, size_t rows_max);
/* A notebook; @embedded is a zip of its inputs, or -1: they are beside it. */
int notebook_write(struct selection *selection, const struct inputs *inputs, int embedded,
                   struct out *out, struct fault *fault);

int export_write_json(struct selection *selection, struct out *out, struct fault *fault);
int export_write_md(struct selection *selection, struct out *out, struct fault *fault);
int export_write_html(struct selection *selection, struct out *out, struct fault *fault);
int export_write_ipynb(struct selection *selection, struct out *out, struct fault *fault);
int export_write_zip(struct selection *selection, struct out *out, struct fault *fault);

/* ---- export.c ---- */

/* A place among those under way; @turn->owner and @turn->box are set. */
int export_begin(struct exports *exports, struct export_turn *turn, struct fault *fault);
void export_end(struct exports *exports, struct export_turn *turn);
/* The same with a turn of its own, which goes to the file if there is one. */
int export_turn_begin(struct exports *exports, const char *owner, bool box,
                      struct export_turn **ret_turn, struct fault *fault);
void export_turn_end(struct export_turn *turn, bool made, struct export_file *file);
/* The name of a file: what of @title is harmless, then @part, which may be "". */
void export_name(const char *title, const char *part, const char *extension,
                 char buf[EXPORT_NAME_MAX]);
