/*
 * Removes boxes that are no longer needed, so that nobody who waits for a reply has to.
 *
 * The processes in such a box are dead already and its receipt is made; removing the box itself is
 * left to another thread. Its queue is bounded: when it is full, the caller removes the box itself,
 * so boxes cannot pile up faster than they are removed.
 */
#pragma once

struct box;
struct gb_err;
struct reaper;

int reaper_open(struct reaper **ret_reaper, struct gb_err *err);
/* Removes the remaining boxes, then ends the thread. Accepts NULL. */
void reaper_close(struct reaper *reaper);

/* Takes over the box. */
void reaper_take(struct reaper *reaper, struct box *box);
