/*
 * Mark without a model, for tests of the HTTP layer and of MCP: the same functions, one answer.
 *
 * Attachments are taken and forgotten. Every question gets the same answer, at once, except that
 * the question "no" is refused and "wait" is answered when it is stopped.
 */
#pragma once

struct mark;

struct mark *fake_mark(void);

int fake_mark_uploads(void); /* how many were committed since the start */
