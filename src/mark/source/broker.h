/*
 * The query broker: runs the queries of a box at their source, and gives it the result as a file.
 *
 * Theory of operation. Code in the box calls mark.query(source, sql, params). The module sends the
 * request over the control channel of its cell (docs/PROTOCOL.md, as %pip does), and the engine
 * hands it to broker_ask(), which returns a pipe at once. A thread of the broker checks source,
 * budget and shares, starts a connector (connect/connect.h), follows its messages, moves the result
 * into the workspace of the session, and writes the answer to the pipe. If the cell ends first,
 * nobody reads the pipe any more: the query is cancelled.
 *
 * What a query returned is kept by its content (results.c), so that an answer can be run again
 * without the source: a recheck replays.
 */
#pragma once

#include "mark/source/sources.h"

struct broker;

struct broker_config {
    struct service *service;
    struct store *store;
    struct sources *sources;
    const char *data_dir;                  /* results are in mark/results/ */
    int64_t connectors_max, per_owner_max; /* at one time; 0: 16, 4; others wait */
    int64_t owner_bytes_max;               /* of kept results of one owner; 0: 2 GiB */
};

int broker_open(const struct broker_config *config, struct broker **ret_broker, struct gb_err *err);
void broker_close(struct broker *broker); /* accepts NULL; cancels what is under way and waits */

/* One query that was asked for, as the answer and the receipt show it. */
struct query_record {
    json_t *json; /* {"source", "sql", "params", "status": "ok" | a word of connect.h | "budget",
                     "rows", "bytes", "ms", "cost", "money", "estimate", "sha256", "message"} */
    bool kept;    /* its result is in mark/results/ */
    uint8_t key[STORE_HASH_BYTES], sha256[STORE_HASH_BYTES];
    int64_t size;
};

/* What queries of one run may do: made for each cell of an answer, before it starts; stays valid
 * until scope_free(), which waits until no query is under way. */
struct scope;

struct scope_config {
    struct broker *broker;
    struct caller caller;
    struct session *session;
    char *const *names; /* of sources; others do not exist */
    const struct query_record
        *replay; /* answers from these by their key, in order; NULL: ask the sources */
    size_t replay_len;
    bool replay_only; /* what is not among them is an error: "not recorded" */
    /* Called before a query is run with its estimate, and after it with what it took; a fault of
     * the first refuses it (over budget). On a thread of the broker. May be NULL. */
    int (*may)(void *arg, const json_t *estimate, struct fault *fault);
    void (*did)(void *arg, const struct query_record *record);
    void *arg;
};

int scope_new(const struct scope_config *config, struct scope **ret_scope, struct fault *fault);
/* For execution_request.ask. */
int scope_ask(void *scope, const char *json, size_t len);
void scope_free(struct scope *scope); /* accepts NULL */
/* The records so far, oldest first; theirs until scope_free(). */
size_t scope_records(struct scope *scope, const struct query_record **ret_records);

/* A kept result, open for reading. -ENOENT: it is gone. */
int result_open(struct broker *broker, const uint8_t sha256[STORE_HASH_BYTES], int *ret_fd,
                struct gb_err *err);
/* Removes files that no answer has any more. */
int results_sweep(struct broker *broker, struct gb_err *err);
