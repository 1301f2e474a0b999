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

/* Fills @err (which may be NULL) and returns -@code. The text says what was attempted and begins
 * with a verb: "open '%s'" becomes "cannot open 'x': Permission denied". */
int gb_fail(struct gb_err *err, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* The same for a text that does not begin with a verb: "the builder exited: Broken pipe". */
int gb_fail_about(struct gb_err *err, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* The same for mistakes that no errno describes: the text alone is the message. */
int gb_fail_plain(struct gb_err *err, int code, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
