/*
 * The query broker: runs the queries of a box at their source, and gives it the result as a file.
 *
 * Theory of operation. Code in the box calls mark.query(source, sql, params). The module sends the
 * request over the control channel of its cell (docs/PROTOCOL.md, as %pip does), and the engine
 * hands it to scope_ask(), which returns a pipe at once. A thread of the broker checks the source,
 * waits for a share of the connectors, starts one (connector.h), follows its messages, keeps the
 * result by its content (results.c), copies it into the workspace of the session, and writes the
 * answer to the pipe. If the cell ends or is interrupted first, nobody reads the pipe any more: the
 * query is cancelled.
 *
 * What a query returned is kept together with a row of the answer that it belongs to, so that the
 * answer can be run again without the source: a recheck replays. The key of a query is the SHA-256
 * of "glovebox query 1\n" c(source) c(sql) c(params), where c() of null, true and false is "n", "t"
 * and "f"; of an integer "i", its digits, ";"; of a real "d" and the 16 hexadecimal digits of its
 * bits; of a text "s", its number of bytes, ":" and the bytes; of an array "l", its length, ":" and
 * c() of each item; of an object "o", its length, ":" and c() of each name and value, names in the
 * order of their bytes. mark.py computes the same.
 */
#pragma once

#include "mark/source/sources.h"

struct broker;

/* Where grants and catalogues come from: sources.h, or a test. */
struct broker_sources {
    int (*grant)(struct sources *sources, const struct caller *caller, const char *id_or_name,
                 struct grant *ret_grant, struct fault *fault);
    void (*release)(struct grant *grant);
    int (*names)(struct sources *sources, const struct caller *caller, const char *const *wanted,
                 char ***ret_names, struct fault *fault);
    int (*get)(struct sources *sources, const struct caller *caller, const char *id_or_name,
               json_t **ret_json, struct fault *fault);
    int (*tables)(struct sources *sources, const struct caller *caller, const char *id_or_name,
                  const char *q, json_t **ret_json, struct fault *fault);
    /* After a query, with the connector's last message, from which it takes what it wants to keep
     * (a token); that is then removed. May be NULL. */
    void (*done)(struct sources *sources, const struct grant *grant, const json_t *done);
};

struct broker_config {
    struct service *service;
    struct store *store;
    struct sources *sources;
    struct broker_sources calls;
    const char *data_dir;                  /* results are in mark/results/ */
    const char *program;                   /* of connectors; NULL: our own executable */
    int64_t connectors_max, per_owner_max; /* at one time; 0: 16, 4; others wait */
    int64_t owner_bytes_max;               /* of kept results of one owner; 0: 2 GiB */
};

int broker_open(const struct broker_config *config, struct broker **ret_broker, struct gb_err *err);
/* Accepts NULL. There is no scope any more. */
void broker_close(struct broker *broker);

/* Names of the sources that a caller may ask, as source_names(). */
int broker_names(struct broker *broker, const struct caller *caller, const char *const *wanted,
                 char ***ret_names, struct fault *fault);

/* One query that was asked for, as the answer and the receipt show it. */
struct query_record {
    json_t *json; /* {"source", "sql", "params"?, "status": "ok" | a word of connect.h | "budget" |
                     "no-such-source" | "not-recorded", "rows", "bytes", "ms", "cost", "money",
                     "estimate"?, "sha256"?, "message"?} */
    bool passed;  /* scope_config.may was asked, and let it run */
    bool kept;    /* there is a row in the store, and the result is in mark/results/ */
    int64_t n;    /* of that row */
    uint8_t key[STORE_HASH_BYTES], sha256[STORE_HASH_BYTES];
    int64_t size;
};

void query_record_release(struct query_record *record);

/* What queries of one run may do: made before a cell starts, or before several that run one after
 * the other; stays valid until scope_free(), which waits until no query is under way. */
struct scope;

struct scope_config {
    struct broker *broker;
    struct caller caller; /* what it points to stays valid */
    struct session *session;
    char *const *names; /* of sources; others do not exist */
    /* Answers from these by their key, in order, each once and the last again; NULL: ask the
     * sources. They stay the caller's. */
    const struct query_record *replay;
    size_t replay_len;
    bool replay_only;       /* what is not among them is an error: "not recorded" */
    const char *message_id; /* the answer whose rows are made; NULL: nothing is kept */
    int64_t queries;        /* how many it has already */
    int64_t step;           /* number of the program, for the rows */
    /* Called before a query is run with its estimate, and after it with what it took; a fault of
     * the first refuses it (over budget). On a thread of the broker. May be NULL. */
    int (*may)(void *arg, const struct query_record *record, const json_t *estimate,
               struct fault *fault);
    void (*did)(void *arg, const struct query_record *record);
    void *arg;
};

int scope_new(const struct scope_config *config, struct scope **ret_scope, struct fault *fault);
/* For execution_request.ask; @arg is the scope. */
int scope_ask(void *arg, const char *json, size_t len);
/* Accepts NULL. The runs have ended. Removes what queries left in the workspace. */
void scope_free(struct scope *scope);
/* The records so far, oldest first; theirs until scope_free(). After the runs have ended. */
size_t scope_records(struct scope *scope, const struct query_record **ret_records);

/* A kept result, open for reading. -ENOENT: it is gone. */
int result_open(struct broker *broker, const uint8_t sha256[STORE_HASH_BYTES], int *ret_fd,
                struct gb_err *err);
/* The same without a broker, for whoever only reads. */
int result_open_in(const char *data_dir, const uint8_t sha256[STORE_HASH_BYTES], int *ret_fd,
                   struct gb_err *err);
/* While the descriptor is open no result goes, in any process: for whoever takes a kept one into
 * use, as a verified answer does. */
int results_lock(struct broker *broker, int *ret_fd, struct gb_err *err);
/* Removes those of @len contents, one after the other in @hashes, that no answer has any more. */
int results_remove(struct broker *broker, const uint8_t *hashes, size_t len, struct gb_err *err);
/* Removes all files that no answer has any more. */
int results_sweep(struct broker *broker, struct gb_err *err);

/* Records of rows of the store, for a replay: the queries of answer @message_id are appended to
 * *@records, which the caller frees with query_records_free(). */
int query_records_load(struct store *store, const char *owner, const char *message_id,
                       struct query_record **records, size_t *len, struct gb_err *err);
void query_records_free(struct query_record *records, size_t len);
