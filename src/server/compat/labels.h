/*
 * Labels: sessions by a name of the client's choice (the header X-Session-Id), made when they are
 * first used.
 *
 * A label belongs to a principal and a listener; the empty one is the session of all who name none.
 * What is remembered of it is the id of its session and, when that has gone or lost its variables,
 * the words for it, until somebody has heard them. Every function may be called by any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "service/service.h"

#define LABEL_MAX      64
#define LABEL_LOSS_MAX 300

struct labels;

struct labels *labels_new(void);         /* NULL: no memory */
void labels_free(struct labels *labels); /* accepts NULL; ends no session */

/* Whose a label is. */
struct label_scope {
    struct service *service;
    const struct caller *caller;
    const void *listener;
    const char *label; /* label_is_valid(), or "" */
};

/* 1 to 64 of A-Z a-z 0-9 . _ - */
bool label_is_valid(const char *text);

/* Whether it is the id of a session rather than a name for one. */
bool label_is_id(const char *text);

/* The session of the label, with a reference. Without one it is made if @make, and *@ret_made is
 * set; else *@ret_session is NULL. An id is only looked for. */
int labels_session(struct labels *labels, const struct label_scope *scope, bool make,
                   struct session **ret_session, bool *ret_made, struct fault *fault);

/* Remembers words about a loss that are still to be told; the first ones stay. */
void labels_note_loss(struct labels *labels, const struct label_scope *scope, const char *words);

/* Takes those words: once only. False: there are none. */
bool labels_take_loss(struct labels *labels, const struct label_scope *scope,
                      char ret_words[LABEL_LOSS_MAX]);

/* The next use begins from nothing, and nobody is told of it. */
void labels_forget(struct labels *labels, const struct label_scope *scope);
