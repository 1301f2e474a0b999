/*
 * Ends boxes that nobody needs any more, off the path of those who wait for a reply.
 *
 * What ran in such a box is dead already and its receipt is made; taking the box itself apart is
 * work for another thread. It is bounded: who would leave one too many behind ends it himself, so
 * boxes cannot pile up faster than they go.
 */
#pragma once

struct box;
struct gb_err;
struct reaper;

int reaper_open(struct reaper **ret_reaper, struct gb_err *err);
/* Ends what is left, then the thread. Accepts NULL. */
void reaper_close(struct reaper *reaper);

/* Takes the box. */
void reaper_take(struct reaper *reaper, struct box *box);
