/* A reply as its parser sees it, without a network: for the tests and the fuzz target of streams.
 */
#pragma once

#include <stdlib.h>
#include <string.h>

#include "mark/llm/draft.h"
#include "mark/llm/internal.h"
#include "mark/llm/json_in.h"
#include "mark/llm/sse.h"

#define FEED_MAX ((size_t) 1024 * 1024)

struct feed {
    const struct dialect *dialect;
    struct llm_model model;
    struct draft draft;
    struct decoder decoder;
    struct sse sse;
    int r; /* of the first failure */
};

static inline int feed_on_event(void *arg, const char *name, const char *data, size_t len)
{
    struct feed *feed = arg;

    (void) name;
    return feed->dialect->event(&feed->decoder, data, len);
}

static inline void feed_init(struct feed *feed, const struct dialect *dialect,
                             const struct llm_watch *watch)
{
    *feed = (struct feed){ .dialect = dialect, .model = { .model = (char *) "test" } };
    feed->model.price = (struct llm_price){ -1, -1, -1 };
    draft_init(&feed->draft, watch, FEED_MAX);
    decoder_init(&feed->decoder, &feed->model, &feed->draft, 0);
    feed->sse = (struct sse){ .event = feed_on_event, .arg = feed, .event_max = FEED_MAX };
}

static inline void feed_data(struct feed *feed, const char *data, size_t len)
{
    if (feed->r == 0)
        feed->r = sse_feed(&feed->sse, data, len);
}

/* 0 with @ret_reply filled; -EPIPE: it is not complete. */
static inline int feed_end(struct feed *feed, struct llm_reply *ret_reply)
{
    *ret_reply = (struct llm_reply){ 0 };
    if (feed->r == 0)
        feed->r = sse_end(&feed->sse);
    if (feed->r == 0 && !feed->dialect->complete(&feed->decoder))
        feed->r = -EPIPE;
    if (feed->r == 0)
        feed->r = draft_end(&feed->draft);
    if (feed->r == 0)
        feed->r = feed->dialect->finish(&feed->decoder, ret_reply);
    return feed->r;
}

static inline void feed_release(struct feed *feed)
{
    sse_release(&feed->sse);
    decoder_release(&feed->decoder);
    draft_release(&feed->draft);
}
