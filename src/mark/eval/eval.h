/*
 * Evaluation: questions with answers that are known, asked of one model or prompt after the other.
 *
 * Theory of operation. A set (eval_read(), docs/MARK.md describes the file) has questions and what
 * to expect of each answer. eval_run() asks them all of one contender, a model with its prompts,
 * several at a time, each in a chat of its own. eval_score() compares an answer with what was
 * expected: a pure function over the answer as the wire shows it. The results of all contenders are
 * one report in JSON (eval_report()), and everything that people look at is made from it: a table
 * for the terminal, a page, a picture.
 *
 * What counts is what a reader would take for checked: the numbers of the story that are filled in
 * from values or found in what was computed. A *false number* is one of those that is among the
 * lies of the question, or is shown under the name of an expected value and is another.
 */
#pragma once

#include <jansson.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct agent;
struct caller;
struct eval_set;

/* ---- the questions ---- */

#define EVAL_QUESTIONS_MAX 10000

/* Reads and checks the file; an error names the question and the member. */
int eval_read(const char *path, struct eval_set **ret_set, struct gb_err *err);
void eval_free(struct eval_set *set); /* accepts NULL */
size_t eval_count(const struct eval_set *set);
/* The paths of all files that a question names, each once; an array of strings, the set's. */
const json_t *eval_files(const struct eval_set *set);

/* ---- one answer ---- */

/* @question as in the file, @response a MarkResponse, or NULL if there is none and @failure says
 * why. {"id", "question", "tags", "status", "passed", "reasons": [text], "expected", "found",
 * "false": [text], "unsupported": [text], "checked", "steps", "seconds", "prompt_tokens",
 * "completion_tokens", "cost", "story"}; what is not known is null. NULL: out of memory. */
json_t *eval_score(const json_t *question, const json_t *response, const char *failure);

/* ---- all of them ---- */

struct eval_run {
    struct agent *agent;
    const struct caller *caller;
    const struct eval_set *set;
    const char *model;      /* its name; NULL: the default one */
    char *const *sources;   /* that questions which name none may ask; NULL: none */
    const json_t *files;    /* {path: id of the attachment} */
    size_t jobs;            /* questions at a time */
    const atomic_int *stop; /* not 0: ends with what there is; may be NULL */
    void (*progress)(void *arg, size_t done, size_t passed); /* on any thread, one at a time */
    void *arg;
};

/* The results in the order of the questions; those that were not asked are left out. Waits. NULL:
 * out of memory. */
json_t *eval_run(const struct eval_run *run);

/* ---- the report ---- */

/* @contenders: [{"label", "model", "prompts", "drifted", "seconds", "results": [...]}]. Adds totals
 * to each, in all and by tag, and compares each after the first with the first: {"name",
 * "questions", "passed", "stopped", "contenders": [..., "totals", "tags"], "compared":
 * [{"baseline", "candidate", "better": [id], "worse": [id], "same"}]}. */
json_t *eval_report(const struct eval_set *set, json_t *contenders, bool stopped);

/* The report for people, as text for free(); NULL: out of memory. */
char *eval_table(const json_t *report);   /* for a terminal: plain, printable text */
char *eval_picture(const json_t *report); /* SVG, for light and dark pages */
char *eval_page(const json_t *report);    /* HTML with the picture in it, without scripts */
