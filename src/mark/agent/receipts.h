/* From the receipts of programs to what they handed over. Everything in a receipt's outputs was
 * written by a tenant: it is checked, bounded and copied, or dropped and counted. */
#pragma once

#include "mark/agent/internal.h"

/* Per answer; docs/MARK.md names them. */
#define VALUES_MAX       200
#define TABLES_MAX       50
#define TABLE_ROWS_MAX   1000
#define TABLE_BYTES_MAX  ((size_t) 1024 * 1024)
#define TABLES_BYTES_MAX ((size_t) 8 * 1024 * 1024)
#define CHARTS_MAX       50
#define CHART_BYTES_MAX  ((size_t) 8 * 1024 * 1024)
#define CHARTS_BYTES_MAX ((size_t) 16 * 1024 * 1024)
#define ARTIFACTS_MAX    200

int gathered_init(struct gathered *gathered);
void gathered_release(struct gathered *gathered);

/* ---- one bundle (bundles.c) ---- */

/* Deeper than anything that charts have. An answer is read again with all that is around it, and
 * the reader of JSON has a bound, too. */
#define ITEM_DEPTH_MAX 100

bool json_is_deep(const json_t *json, int max);

enum handed { HANDED_NOTHING, HANDED_VALUE, HANDED_TABLE, HANDED_CHART, HANDED_BAD };

/* What @data, a MIME bundle, hands over: a clean copy in *@ret_item, which the caller owns, for the
 * first three after OTHER. BAD: it wanted to be one of them, and is malformed or too large. */
enum handed bundle_read(const json_t *data, json_t **ret_item, size_t *ret_bytes);

/* ---- one step (receipts.c) ---- */

/* How many of each there were before the step. */
struct gathered_mark {
    size_t values, tables, charts, artifacts;
    int64_t dropped;
};
struct gathered_mark gathered_mark(const struct gathered *gathered);

/* Takes what step @n handed over from its @receipt, adds the step, and tells the readers. Figures
 * become files of @session, which may be NULL. @evidence may be NULL. */
int receipts_gather(struct answer *answer, struct session *session, struct evidence *evidence,
                    int64_t n, const char *code, json_t *receipt);

/* ---- what a model is shown of it (results.c) ---- */

/* The result of a step as text: its status, then what it printed and handed over since @before,
 * trimmed, inside a fence that its content cannot close. For free(). */
char *results_text(const struct gathered *gathered, const struct gathered_mark *before, int64_t n,
                   const json_t *receipt, size_t max);
/* @text as data of strangers: between two lines with a word that depends on the text. */
void results_fence(struct text *out, const char *text, size_t len);
