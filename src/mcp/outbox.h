/*
 * Messages on their way to a client, in order and numbered from 1.
 *
 * A reader says which number it wants next, so a broken stream can be resumed: the last messages
 * that were read are kept, unless they are large. Unread messages pile up to a limit; beyond it,
 * optional ones are dropped, and senders of the others wait.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct outbox;

struct outbox *outbox_new(void);
void outbox_free(struct outbox *outbox); /* accepts NULL */

enum outbox_put {
    PUT_MAY,   /* dropped when it is full */
    PUT_WAIT,  /* waits while it is full */
    PUT_FORCE, /* accepted even then: there are few of these */
};

/* Takes @text, which came from malloc(); NULL is ignored. Returns 0, or -1 if it was not accepted.
 */
int outbox_put(struct outbox *outbox, char *text, enum outbox_put how);

/* A new reader; the previous one gets -1 from now on. */
unsigned outbox_claim(struct outbox *outbox);

/* Message *@pos (0: the oldest unread one), or the oldest after it that is still kept; *@pos
 * becomes the number after it. 1 and a copy for free(), 0 after @timeout_us, -1 if it is closed and
 * empty, or another reader has claimed it. */
int outbox_next(struct outbox *outbox, unsigned claim, uint64_t *pos, int64_t timeout_us,
                char **ret_text);

/* Whether so much is unread that no more should be requested. */
bool outbox_is_full(struct outbox *outbox);

/* Whether there is an unread message. */
bool outbox_has(struct outbox *outbox, uint64_t pos);

/* No more messages are accepted. */
void outbox_close(struct outbox *outbox);
