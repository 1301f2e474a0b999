/*
 * Messages on their way to a client, in order and numbered from 1.
 *
 * A reader says which number it wants next, so a stream that broke can be taken up again: the last
 * messages that were read are kept, unless they are large. Messages that nobody fetches pile up to
 * a limit; beyond it those that may be left out are, and whoever has one that may not waits.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct outbox;

struct outbox *outbox_new(void);
void outbox_free(struct outbox *outbox); /* accepts NULL */

enum outbox_put {
    PUT_MAY,   /* left out when it is full */
    PUT_WAIT,  /* waits while it is */
    PUT_FORCE, /* taken all the same: of these there are few */
};

/* Takes @text, which came from malloc(); NULL is left out. Returns 0, or -1 when it was not taken.
 */
int outbox_put(struct outbox *outbox, char *text, enum outbox_put how);

/* A new reader; the former one gets -1 from now on. */
unsigned outbox_claim(struct outbox *outbox);

/* Message *@pos (0: the oldest that was not read), or the oldest after it that is still there;
 * *@pos becomes the number of the one after. 1 and a copy for free(), 0 after @timeout_us, -1 when
 * it is closed and empty, or the claim has gone to another. */
int outbox_next(struct outbox *outbox, unsigned claim, uint64_t *pos, int64_t timeout_us,
                char **ret_text);

/* Whether there is so much unread that no more should be asked for. */
bool outbox_is_full(struct outbox *outbox);

/* Whether a message that was not read is there. */
bool outbox_has(struct outbox *outbox, uint64_t pos);

/* Nothing more comes. */
void outbox_close(struct outbox *outbox);
