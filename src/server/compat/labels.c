/* A list, most recently used first. It is short compared with what a session costs, so it is simply
 * walked. */
#include "server/compat/labels.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "base/text/hex.h"

#include "base/banned.h"

#define LABELS_KEPT 4096u /* the least recently used one is dropped */

struct label {
    TAILQ_ENTRY(label) in_list;
    const void *listener;
    struct principal owner;
    char name[LABEL_MAX + 1];
    char session_id[SESSION_ID_MAX]; /* "": none yet, or gone */
    char loss[LABEL_LOSS_MAX];       /* "": none to report */
    bool making;                     /* a thread is creating the session; wait for made */
};

TAILQ_HEAD(label_list, label);

struct labels {
    pthread_mutex_t lock;
    pthread_cond_t made;
    struct label_list list;
    size_t len;
};

struct labels *labels_new(void)
{
    struct labels *labels = calloc(1, sizeof *labels);

    if (!labels)
        return NULL;
    pthread_mutex_init(&labels->lock, NULL);
    pthread_cond_init(&labels->made, NULL);
    TAILQ_INIT(&labels->list);
    return labels;
}

static void label_drop(struct labels *labels, struct label *label)
{
    TAILQ_REMOVE(&labels->list, label, in_list);
    labels->len--;
    free(label);
}

void labels_free(struct labels *labels)
{
    if (!labels)
        return;
    while (!TAILQ_EMPTY(&labels->list))
        label_drop(labels, TAILQ_FIRST(&labels->list));
    pthread_cond_destroy(&labels->made);
    pthread_mutex_destroy(&labels->lock);
    free(labels);
}

bool label_is_valid(const char *text)
{
    size_t len = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-");

    return len > 0 && len <= LABEL_MAX && text[len] == '\0';
}

bool label_is_id(const char *text)
{
    return strncmp(text, "ses_", 4) == 0 && hex_is(text + 4, 32);
}

/* ---- with the lock held ---- */

static struct label *label_find(struct labels *labels, const struct label_scope *scope)
{
    struct label *label;

    TAILQ_FOREACH(label, &labels->list, in_list)
    if (label->listener == scope->listener &&
        principal_equal(&label->owner, &scope->caller->principal) &&
        strcmp(label->name, scope->label) == 0)
        return label;
    return NULL;
}

static void make_room(struct labels *labels)
{
    struct label *label;

    if (labels->len < LABELS_KEPT)
        return;
    TAILQ_FOREACH_REVERSE(label, &labels->list, label_list, in_list)
    if (!label->making) {
        label_drop(labels, label);
        return;
    }
}

/* The label, created if necessary, as the most recently used. NULL: out of memory, or the label is
 * too long. */
static struct label *label_use(struct labels *labels, const struct label_scope *scope)
{
    struct label *label = label_find(labels, scope);

    if (label) {
        TAILQ_REMOVE(&labels->list, label, in_list);
        TAILQ_INSERT_HEAD(&labels->list, label, in_list);
        return label;
    }
    if (strlen(scope->label) > LABEL_MAX)
        return NULL;
    make_room(labels);
    label = calloc(1, sizeof *label);
    if (!label)
        return NULL;
    label->listener = scope->listener;
    label->owner = scope->caller->principal;
    (void) snprintf(label->name, sizeof label->name, "%s", scope->label);
    TAILQ_INSERT_HEAD(&labels->list, label, in_list);
    labels->len++;
    return label;
}

static void set_loss(struct label *label, const char *words)
{
    if (!label->loss[0])
        (void) snprintf(label->loss, sizeof label->loss, "%s", words);
}

/* ---- sessions ---- */

static const char *loss_words(const struct fault *fault)
{
    if (fault->problem == PROBLEM_SESSION_EXPIRED)
        return "the session was idle for too long and has expired: its variables and files are "
               "lost. "
               "A new session was created; send your data again, then repeat this request";
    if (fault->problem == PROBLEM_SESSION_DELETED)
        return "the session was deleted: its variables and files are lost. A new session was "
               "created; send your data again, then repeat this request";
    return "the session has ended: its variables and files are lost. A new session was created; "
           "send your data again, then repeat this request";
}

/* With the lock held, which is released in between: looks for the label's session, and records the
 * loss if it is gone. */
static struct session *find_known(struct labels *labels, const struct label_scope *scope,
                                  const char *id)
{
    struct session *session = NULL;
    struct fault gone = { 0 };
    struct label *label;
    int r;

    pthread_mutex_unlock(&labels->lock);
    r = session_find(scope->service, scope->caller, id, &session, &gone);
    pthread_mutex_lock(&labels->lock);
    if (r == 0)
        return session;
    label = label_find(labels, scope);
    if (label && strcmp(label->session_id, id) == 0) {
        label->session_id[0] = '\0';
        set_loss(label, loss_words(&gone));
    }
    return NULL;
}

/* With the lock held, which is released in between. @label stays: nobody removes one whose session
 * is being created. */
static int make_session(struct labels *labels, const struct label_scope *scope, struct label *label,
                        struct session **ret_session, struct fault *fault)
{
    struct session_request request;
    int r;

    label->making = true;
    pthread_mutex_unlock(&labels->lock);
    session_request_init(&request);
    r = session_create(scope->service, scope->caller, &request, ret_session, fault);
    pthread_mutex_lock(&labels->lock);
    label->making = false;
    pthread_cond_broadcast(&labels->made);
    if (r == 0)
        (void) snprintf(label->session_id, sizeof label->session_id, "%s",
                        session_id(*ret_session));
    else if (!label->loss[0])
        label_drop(labels, label);
    return r;
}

int labels_session(struct labels *labels, const struct label_scope *scope, bool make,
                   struct session **ret_session, bool *ret_made, struct fault *fault)
{
    struct session *session = NULL;
    struct label *label;
    int r = 0;

    *ret_made = false;
    if (label_is_id(scope->label))
        return session_find(scope->service, scope->caller, scope->label, ret_session, fault);
    pthread_mutex_lock(&labels->lock);
    for (;;) {
        char id[SESSION_ID_MAX];

        label = make ? label_use(labels, scope) : label_find(labels, scope);
        if (label && label->making) {
            pthread_cond_wait(&labels->made, &labels->lock);
            continue;
        }
        if (!label || !label->session_id[0])
            break;
        memcpy(id, label->session_id, sizeof id);
        session = find_known(labels, scope, id);
        if (session)
            break;
    }
    if (!session && make && !label)
        r = fault_no_memory(fault);
    else if (!session && make) {
        r = make_session(labels, scope, label, &session, fault);
        *ret_made = r == 0;
    }
    pthread_mutex_unlock(&labels->lock);
    if (r == 0)
        *ret_session = session;
    return r;
}

void labels_note_loss(struct labels *labels, const struct label_scope *scope, const char *words)
{
    struct label *label;

    pthread_mutex_lock(&labels->lock);
    label = label_use(labels, scope);
    if (label)
        set_loss(label, words);
    pthread_mutex_unlock(&labels->lock);
}

bool labels_take_loss(struct labels *labels, const struct label_scope *scope,
                      char ret_words[LABEL_LOSS_MAX])
{
    struct label *label;
    bool found;

    pthread_mutex_lock(&labels->lock);
    label = label_find(labels, scope);
    found = label && label->loss[0];
    if (found) {
        memcpy(ret_words, label->loss, LABEL_LOSS_MAX);
        label->loss[0] = '\0';
    }
    pthread_mutex_unlock(&labels->lock);
    return found;
}

void labels_forget(struct labels *labels, const struct label_scope *scope)
{
    struct label *label;

    pthread_mutex_lock(&labels->lock);
    label = label_find(labels, scope);
    if (label && !label->making)
        label_drop(labels, label);
    pthread_mutex_unlock(&labels->lock);
}
