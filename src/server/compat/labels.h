/*
 * Labels: sessions by a name of the client's choice (the header X-Session-Id), created when they
 * are first used.
 *
 * A label belongs to a principal and a listener; the empty one is the session of all clients that
 * name none. It keeps the id of its session and, when that has ended or lost its variables, a
 * message about it until a client has received it. Every function may be called by any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "service/service.h"

#define LABEL_MAX      64
#define LABEL_LOSS_MAX 300

struct labels;

struct labels *labels_new(void);         /* NULL: out of memory */
void labels_free(struct labels *labels); /* accepts NULL; ends no session */

/* Who a label belongs to. */
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

/* The session of the label, with a reference. If there is none it is created with @make, and
 * *@ret_made is set; otherwise *@ret_session is NULL. An id is only looked up. */
int labels_session(struct labels *labels, const struct label_scope *scope, bool make,
                   struct session **ret_session, bool *ret_made, struct fault *fault);

/* Keeps a message about a loss until a client gets it; the first one stays. */
void labels_note_loss(struct labels *labels, const struct label_scope *scope, const char *words);

/* Takes that message: once only. False: there is none. */
bool labels_take_loss(struct labels *labels, const struct label_scope *scope,
                      char ret_words[LABEL_LOSS_MAX]);

/* The next use starts with a new session, and no client is told about it. */
void labels_forget(struct labels *labels, const struct label_scope *scope);
