/*
 * Mark without a model, for the fuzzer of MCP: the same functions, one answer.
 *
 * Attachments are taken and forgotten. Every question gets the same answer, at once, except that
 * the question "no" is refused and "wait" is answered when it is stopped.
 */
#pragma once

struct mark;

struct mark *fake_mark(void);
