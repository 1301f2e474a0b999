/*
 * A kind of source: what a driver does, and what it may use. Runs sealed.
 *
 * A driver decodes what a server sends, row by row, into a struct result (result.h), and says what
 * it costs. It polls order->control_fd together with its own sockets: once that is readable or hung
 * up, the query is cancelled at the source and the driver returns CONNECT_CANCELLED.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "connect/connect.h"
#include "connect/result.h"

struct order {
    const json_t *json; /* as received, checked for its shape */
    int control_fd, result_fd;
    int64_t deadline_us; /* of everything, by clock_now_us() */
    int64_t rows_max, bytes_max, columns_max;
    double cost_max; /* below 0: no ceiling */
};

struct driver_error {
    enum connect_word word;
    char text[600];   /* printable UTF-8; what to change, in the server's words where it has some */
    json_t *estimate; /* of TOO_EXPENSIVE; owned, or NULL */
};

/* Sends "estimate" or "progress"; takes @body. If the order wants to confirm its estimate, waits
 * for the answer: look at order_cancelled() before you start what costs. Tell an estimate once. */
void order_tell(const struct order *order, const char *message, json_t *body);
/* Whether the broker hung up: it wants no answer any more. Does not wait. */
bool order_cancelled(const struct order *order);
/* A secret that a driver learned itself, such as a token: no message will have it, except a "token"
 * of the last. */
void order_secret(const char *text);
int driver_fail(struct driver_error *error, enum connect_word word, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

struct driver {
    const char *kind;
    /* What must be done before the seal: keeping a certificate where a library will look for it.
     * Asks nobody. May be NULL. */
    int (*prepare)(const struct order *order, struct driver_error *error);
    /* All return 0 and an object for "done" (owned by the caller), or a negative number and @error.
     * query() makes the result itself, once the columns are known. */
    int (*query)(const struct order *order, json_t **ret_done, struct driver_error *error);
    int (*catalogue)(const struct order *order, json_t **ret_catalogue, json_t **ret_done,
                     struct driver_error *error);
    int (*check)(const struct order *order, json_t **ret_done, struct driver_error *error);
};

extern const struct driver driver_postgres, driver_bigquery;

/*
 * A catalogue, as "catalogue" writes it to the result file:
 *
 *   {"tables": [{"name": "schema.table", "kind": "table" | "view" | ..., "comment", "rows" (about,
 * or null), "bytes", "row_security": bool, "partitioning": text or null, "columns": [{"name",
 * "type" (of result.h), "source_type", "nullable", "comment", "key": bool, "references":
 * "schema.table.column" or null, "samples": [text, at most 5, 100 bytes each] or absent}]}],
 *    "readable": null | ["schema.table", ...]}          by this login and role, if they are those
 * of one caller
 */
