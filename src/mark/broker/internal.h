/* What the files of the broker share. */
#pragma once

#include <pthread.h>

#include "mark/broker/broker.h"
#include "mark/source/connector.h"
#include "store/results.h"

/* ---- key.c ---- */

int query_key(const char *source, const char *sql, size_t sql_len, const json_t *params,
              uint8_t ret_key[STORE_HASH_BYTES]);

/* ---- results.c ---- */

#define HASH_TEXT_MAX (2 * STORE_HASH_BYTES + 1)

void hash_to_text(const uint8_t hash[STORE_HASH_BYTES], char buf[HASH_TEXT_MAX]);

/* A result that is being written. */
struct result_draft {
    int fd;
    char name[HASH_TEXT_MAX]; /* "": it has none */
};

/* Finds or creates mark/results in @data_dir. */
int results_open(const char *data_dir, int *ret_fd, struct gb_err *err);
int result_draft_begin(int dir_fd, struct result_draft *ret_draft, struct gb_err *err);
int result_draft_hash(const struct result_draft *draft, uint8_t ret_hash[STORE_HASH_BYTES],
                      int64_t *ret_size, struct gb_err *err);
void result_draft_release(int dir_fd, struct result_draft *draft);
/* Makes the row and gives the draft its name; without a draft only the row. -EDQUOT. */
int result_keep(int dir_fd, struct store *store, struct result_draft *draft,
                const struct store_result *row, int64_t bytes_max, struct gb_err *err);
int result_open_at(int dir_fd, const uint8_t hash[STORE_HASH_BYTES], int *ret_fd,
                   struct gb_err *err);
int results_lock_at(int dir_fd, int *ret_fd, struct gb_err *err);
int results_remove_at(int dir_fd, struct store *store, const uint8_t *hashes, size_t len,
                      struct gb_err *err);
int results_sweep_at(int dir_fd, struct store *store, struct gb_err *err);

/* ---- the broker (broker.c) ---- */

struct waiting {
    struct waiting *next;
    const char *owner;
};

struct holding { /* who has connectors, and how many */
    struct holding *next;
    char owner[STORE_ID_MAX];
    int64_t count;
};

struct broker {
    struct broker_config config;
    int results_fd;
    pthread_mutex_t lock; /* guards the rest */
    pthread_cond_t changed;
    int64_t connectors;
    struct holding *holding;
    struct waiting *waiting; /* in the order of their coming */
};

/* Takes one of the connectors for @owner, waits for it until @deadline_us or until @cancel_fd tells
 * that nobody wants it any more. 0, -ETIMEDOUT, -ECANCELED or -ENOMEM. */
int broker_take(struct broker *broker, const char *owner, int cancel_fd, int64_t deadline_us);
void broker_give(struct broker *broker, const char *owner);

/* ---- scopes (scope.c) ---- */

struct scope {
    struct scope_config config;
    char **names;
    bool *used; /* of the replay */

    pthread_mutex_t lock; /* guards the rest */
    pthread_cond_t idle;
    int under_way;
    struct query_record *records;
    size_t records_len, records_cap;
    size_t text_bytes; /* of the records' SQL and parameters */
    int64_t asked;     /* queries that were let in */
    int64_t files;     /* that were brought into the workspace */
};

/* ---- one query (query.c) ---- */

struct query_job {
    struct scope *scope;
    int fd; /* the pipe to whoever waits for the answer */
    const char *source, *sql;
    size_t sql_len;
    json_t *params; /* borrowed */
    struct query_record record;
    struct fault refused; /* by may() */
    json_t *notices;
};

/* Runs it, from the sources or from what was recorded: the answer for the box, the caller's, and
 * job->record. NULL: out of memory. */
json_t *query_run(struct query_job *job);
/* {"success": false, "word", "message"} */
json_t *answer_refuse(const char *word, const char *message);
/* Whether somebody still waits at the other end of the pipe. */
bool reader_is_gone(int fd);
bool scope_has_source(const struct scope *scope, const char *name);
/* The words for one that it has not. */
void scope_list_sources(const struct scope *scope, char *buf, size_t size);
