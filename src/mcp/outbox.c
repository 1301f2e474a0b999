#include "mcp/outbox.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/thread.h"

#include "base/banned.h"

#define UNREAD_BYTES_MAX (8u * 1024 * 1024)
#define UNREAD_MAX       1024
#define KEPT_BYTES_MAX   (128u * 1024) /* of messages that were read */
#define KEPT_MAX         64

struct letter {
    struct letter *next;
    uint64_t number;
    size_t len;
    char *text;
};

struct outbox {
    pthread_mutex_t lock;
    pthread_cond_t wake;
    struct letter *first, *last;
    uint64_t next_number, read_up_to; /* the first unread message */
    size_t unread, unread_bytes, kept, kept_bytes;
    unsigned claim;
    bool closed;
};

struct outbox *outbox_new(void)
{
    struct outbox *o = calloc(1, sizeof *o);

    if (!o)
        return NULL;
    o->next_number = o->read_up_to = 1;
    pthread_mutex_init(&o->lock, NULL);
    cond_init(&o->wake);
    return o;
}

static void drop_first(struct outbox *o)
{
    struct letter *letter = o->first;

    o->first = letter->next;
    if (!o->first)
        o->last = NULL;
    free(letter->text);
    free(letter);
}

void outbox_free(struct outbox *o)
{
    if (!o)
        return;
    while (o->first)
        drop_first(o);
    pthread_cond_destroy(&o->wake);
    pthread_mutex_destroy(&o->lock);
    free(o);
}

static bool is_full(const struct outbox *o)
{
    return o->unread >= UNREAD_MAX || o->unread_bytes >= UNREAD_BYTES_MAX;
}

int outbox_put(struct outbox *o, char *text, enum outbox_put how)
{
    struct letter *letter = text ? calloc(1, sizeof *letter) : NULL;

    if (!letter) {
        free(text);
        return -1;
    }
    pthread_mutex_lock(&o->lock);
    while (how == PUT_WAIT && !o->closed && is_full(o))
        (void) pthread_cond_wait(&o->wake, &o->lock);
    if (o->closed || (how != PUT_FORCE && is_full(o))) {
        pthread_mutex_unlock(&o->lock);
        free(text);
        free(letter);
        return -1;
    }
    letter->text = text;
    letter->len = strlen(text);
    letter->number = o->next_number++;
    if (o->last)
        o->last->next = letter;
    else
        o->first = letter;
    o->last = letter;
    o->unread++;
    o->unread_bytes += letter->len;
    pthread_cond_broadcast(&o->wake);
    pthread_mutex_unlock(&o->lock);
    return 0;
}

unsigned outbox_claim(struct outbox *o)
{
    unsigned claim;

    pthread_mutex_lock(&o->lock);
    claim = ++o->claim;
    pthread_cond_broadcast(&o->wake);
    pthread_mutex_unlock(&o->lock);
    return claim;
}

static struct letter *find(struct outbox *o, uint64_t pos)
{
    struct letter *letter = o->first;

    if (pos == 0)
        pos = o->read_up_to;
    while (letter && letter->number < pos)
        letter = letter->next;
    return letter;
}

/* @letter has been read. Drops earlier messages beyond the limits. */
static void note_read(struct outbox *o, const struct letter *letter)
{
    for (struct letter *l = o->first; l && l->number <= letter->number; l = l->next)
        if (l->number >= o->read_up_to) {
            o->unread--;
            o->unread_bytes -= l->len;
            o->kept++;
            o->kept_bytes += l->len;
        }
    if (o->read_up_to <= letter->number)
        o->read_up_to = letter->number + 1;
    while (o->first && o->first->number < o->read_up_to &&
           (o->kept > KEPT_MAX || o->kept_bytes > KEPT_BYTES_MAX)) {
        o->kept--;
        o->kept_bytes -= o->first->len;
        drop_first(o);
    }
}

int outbox_next(struct outbox *o, unsigned claim, uint64_t *pos, int64_t timeout_us,
                char **ret_text)
{
    int64_t deadline = clock_now_us() + timeout_us;
    struct timespec until = { deadline / USEC_PER_SEC, deadline % USEC_PER_SEC * 1000 };
    struct letter *letter;
    int r = 0;

    pthread_mutex_lock(&o->lock);
    while (!(letter = find(o, *pos)) && !o->closed && claim == o->claim &&
           clock_now_us() < deadline)
        (void) pthread_cond_timedwait(&o->wake, &o->lock, &until);
    if (letter && claim == o->claim) {
        *ret_text = strdup(letter->text);
        *pos = letter->number + 1;
        note_read(o, letter);
        r = *ret_text ? 1 : -1;
        pthread_cond_broadcast(&o->wake); /* there is room again */
    } else if (o->closed || claim != o->claim) {
        r = -1;
    }
    pthread_mutex_unlock(&o->lock);
    return r;
}

bool outbox_is_full(struct outbox *o)
{
    bool full;

    pthread_mutex_lock(&o->lock);
    full = is_full(o);
    pthread_mutex_unlock(&o->lock);
    return full;
}

bool outbox_has(struct outbox *o, uint64_t pos)
{
    bool has;

    pthread_mutex_lock(&o->lock);
    has = find(o, pos) != NULL;
    pthread_mutex_unlock(&o->lock);
    return has;
}

void outbox_close(struct outbox *o)
{
    pthread_mutex_lock(&o->lock);
    o->closed = true;
    pthread_cond_broadcast(&o->wake);
    pthread_mutex_unlock(&o->lock);
}
