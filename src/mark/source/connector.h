/* Running the connector (connect/connect.h) for one order: for the broker, and for syncs and
 * checks. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "connect/connect.h"

struct connector_call {
    json_t *order;       /* with secrets; only read */
    int64_t deadline_us; /* by clock_now_us(), of everything; the order's own limits are shorter */
    int64_t bytes_max;   /* of the result file; more is a failure. 0: 1 GiB */
    int result_fd;       /* an empty file for the result, taken; -1: one in memory is made */
    int cancel_fd;       /* an end of a pipe or socket whose other end is closed to cancel, or an
                            eventfd that becomes readable; -1: none */
    const char *program; /* NULL: our own executable */
    /* Called with each "estimate" and "progress", on the caller's thread; below 0: cancel. If the
     * order has "confirm", the query runs only after the estimate was let pass. May be NULL. */
    int (*tell)(void *arg, const char *message, const json_t *body);
    void *arg;
};

#define CONNECTOR_WORD_MAX 24
#define CONNECTOR_TEXT_MAX 600

struct connector_failure {
    char word[CONNECTOR_WORD_MAX]; /* of CONNECT_WORDS */
    char text[CONNECTOR_TEXT_MAX]; /* printable UTF-8 without secrets of the order */
    json_t *estimate;              /* of "too-expensive"; owned, or NULL */
};

void connector_failure_release(struct connector_failure *failure);

/* Runs it to its end, and waits until the process is gone. 0: *@ret_done is the message, the
 * caller's, of which nothing but its being an object was checked, and *@ret_fd the result file, at
 * its start (the caller's). Otherwise a negative number and @failure. */
int connector_run(const struct connector_call *call, int *ret_fd, json_t **ret_done,
                  struct connector_failure *failure);

/* An estimate with nothing but the members that it may have, each a number or null. NULL: out of
 * memory. */
json_t *connector_estimate_clean(const json_t *estimate);

/* The text of a message: printable, cut to @size bytes, without the secrets of @order. */
void connector_text(const json_t *order, const json_t *json, char *buf, size_t size);
