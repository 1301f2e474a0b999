/*
 * Errors that live on the caller's stack.
 *
 * A helper returns -errno. A function at a module's boundary also fills a struct gb_err, so that
 * the message names what was tried; nothing is allocated, so it can be used after a clone.
 */
#pragma once

struct gb_err {
    int code; /* errno value, never 0 once filled */
    char msg[200];
};

/* Fills @err (which may be NULL) with the text and the meaning of @code; returns -@code. */
int gb_fail(struct gb_err *err, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* The same for mistakes that no errno describes: the text alone is the message. */
int gb_fail_plain(struct gb_err *err, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
