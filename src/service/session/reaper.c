#include "service/session/reaper.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "engine/engine.h"

#include "base/banned.h"

#define REAPER_BOXES 32u

struct reaper {
    pthread_mutex_t lock;
    pthread_cond_t news;
    pthread_t thread;
    struct box *boxes[REAPER_BOXES]; /* a ring */
    unsigned first, len;
    bool stop;
};

static void *reaper_main(void *arg)
{
    struct reaper *reaper = arg;
    struct box *box;

    pthread_mutex_lock(&reaper->lock);
    for (;;) {
        while (reaper->len == 0 && !reaper->stop)
            pthread_cond_wait(&reaper->news, &reaper->lock);
        if (reaper->len == 0)
            break;
        box = reaper->boxes[reaper->first];
        reaper->first = (reaper->first + 1) % REAPER_BOXES;
        reaper->len--;
        pthread_mutex_unlock(&reaper->lock);
        box_release(box);
        pthread_mutex_lock(&reaper->lock);
    }
    pthread_mutex_unlock(&reaper->lock);
    return NULL;
}

int reaper_open(struct reaper **ret_reaper, struct gb_err *err)
{
    struct reaper *reaper = calloc(1, sizeof *reaper);
    int r;

    if (!reaper)
        return gb_fail(err, ENOMEM, "start the reaper");
    pthread_mutex_init(&reaper->lock, NULL);
    pthread_cond_init(&reaper->news, NULL);
    r = pthread_create(&reaper->thread, NULL, reaper_main, reaper);
    if (r != 0) {
        free(reaper);
        return gb_fail(err, r, "start the reaper");
    }
    *ret_reaper = reaper;
    return 0;
}

void reaper_close(struct reaper *reaper)
{
    if (!reaper)
        return;
    pthread_mutex_lock(&reaper->lock);
    reaper->stop = true;
    pthread_cond_signal(&reaper->news);
    pthread_mutex_unlock(&reaper->lock);
    (void) pthread_join(reaper->thread, NULL);
    pthread_mutex_destroy(&reaper->lock);
    pthread_cond_destroy(&reaper->news);
    free(reaper);
}

void reaper_take(struct reaper *reaper, struct box *box)
{
    bool full;

    pthread_mutex_lock(&reaper->lock);
    full = reaper->len == REAPER_BOXES;
    if (!full) {
        reaper->boxes[(reaper->first + reaper->len) % REAPER_BOXES] = box;
        reaper->len++;
        pthread_cond_signal(&reaper->news);
    }
    pthread_mutex_unlock(&reaper->lock);
    if (full)
        box_release(box);
}
