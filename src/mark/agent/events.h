/*
 * The events of one answer, in memory, for any number of readers at any places.
 *
 * Every event has a number. Pieces of text that follow each other (a story as it is written, the
 * output of a program) are one entry that remembers where each piece ends: a reader that keeps up
 * gets them one by one, one that is late gets all that it missed at once, and neither costs more
 * than the text itself. What each kind of text may use is bounded; what is beyond that is not
 * recorded, because the last event has the whole.
 *
 * No locks in here: the answer's.
 */
#pragma once

#include <jansson.h>

#include "mark/agent/agent.h"
#include "mark/agent/text.h"

enum event_name {
    EV_CHAT,
    EV_THINKING,
    EV_STEP,
    EV_OUTPUT,
    EV_QUERY,
    EV_RECEIPT,
    EV_STORY,
    EV_CHART,
    EV_TABLE,
    EV_DONE,
    EV_ERROR,
    EV_NAMES,
};

struct event_entry;

struct event_log {
    struct event_entry *entries;
    size_t len, cap;
    int64_t first_id; /* of the first event, less one: where numbers begin */
    int64_t last_id;
    size_t bytes;            /* of everything */
    size_t deltas[EV_NAMES]; /* bytes of pieces of each kind */
    bool ended;
};

void event_log_release(struct event_log *log);

/* A whole event. Takes @data, JSON text; NULL is out of memory and nothing is recorded. The one
 * with EV_DONE or EV_ERROR is the last. */
void event_log_add(struct event_log *log, enum event_name name, char *data);
/* A piece of text: of the model's thoughts or the story (@n 0), of the code of step @n, or of its
 * output (@err: stderr). */
void event_log_delta(struct event_log *log, enum event_name name, int64_t n, bool err,
                     const char *text, size_t len);
/* As answer_next_event(), without waiting. */
int event_log_next(const struct event_log *log, int64_t after, struct answer_event *ret_event);
/* The data of the last event, or NULL. */
const char *event_log_last(const struct event_log *log);
