/*
 * The audit log: every execution, in an append-only chain of hashes. docs/AUDIT.md has the format.
 *
 * Theory of operation. A thread that has run something hands over an entry, which is copied into a
 * bounded queue; an execution pays for nothing else. One writer thread takes the queued entries,
 * chains them and commits them as one transaction. When the queue is full the caller waits: no
 * entry is ever dropped. When the store fails, the writer retries until it works, audit_check()
 * reports the failure, and the service must accept no new work until then: code that cannot be
 * logged is not run.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "engine/limits.h"
#include "engine/outcome.h"
#include "store/audit.h"

#define AUDIT_HASH_BYTES STORE_HASH_BYTES
#define AUDIT_HEX_MAX    (2 * AUDIT_HASH_BYTES + 1) /* a hash as text, with its NUL */

struct audit;

/* One execution, or one answer of Mark, whose code is the question. Strings and pointers are read
 * during the call only. */
struct audit_entry {
    const char *who;        /* principal_text() */
    const char *session_id; /* NULL: a one-shot */
    const char *execution_id;
    const char *kind; /* "cell", "script", "command", ...: [a-z_]{1,15} */
    int64_t time_us;  /* when it began, since 1970; 0: now */
    uint8_t code_hash[AUDIT_HASH_BYTES];
    int64_t code_bytes;
    struct limits limits;
    enum run_status status;
    enum limit_kind limit;
    int exit_code;
    int64_t wall_us, cpu_us, memory_peak_bytes; /* -1: unknown */
    int64_t output_bytes;                       /* both streams, uncut */
    const char *volumes; /* JSON: ASCII, sorted keys, no whitespace; NULL: no volumes */
    const char *answer;  /* the same, of an answer of Mark; NULL: it is none */
    const char *action;  /* the same, of what an operator did; NULL: it is none */
};

/* Of the answer, which must leave room for the other fields. */
#define AUDIT_ANSWER_MAX (STORE_AUDIT_FIELDS_MAX - 8192)

#define AUDIT_ACTION_MAX 1024

/* SHA-256, so that sha256sum can check whether a text is the one that was run. */
void audit_hash_code(const void *code, size_t len, uint8_t ret_hash[AUDIT_HASH_BYTES]);

/* Starts the writer. The store must outlive it. */
int audit_open(struct store *store, struct audit **ret_audit, struct gb_err *err);

/* Writes the queued entries and ends the writer. Fails if entries could not be written, and says
 * how many; everything is freed in any case. Accepts NULL. No other call may be under way. */
int audit_close(struct audit *audit, struct gb_err *err);

/* Queues a copy; waits while the queue is full. -EINVAL for an entry that is malformed. */
int audit_write(struct audit *audit, const struct audit_entry *entry, struct gb_err *err);

/* Whether the log can be written, as far as is known. Call it before a program is run; it is cheap.
 */
int audit_check(struct audit *audit, struct gb_err *err);

/* ---- reading it: the operator's commands ---- */

struct audit_report {
    int64_t count;                  /* intact entries, from the first on */
    uint8_t head[AUDIT_HASH_BYTES]; /* the hash of the last of them; zero if there is none */
    int64_t broken_seq;             /* the first broken entry; 0: none */
    char why[160];                  /* what is wrong with it */
};

/* Reads the whole chain. @want (may be NULL) is a head that was kept elsewhere: it must be the hash
 * of one of the entries. Returns 0 if the log could be read; @ret_report says whether it is intact.
 */
int audit_verify(struct store *store, const uint8_t *want, struct audit_report *ret_report,
                 struct gb_err *err);

struct audit_filter {
    int64_t since_us;       /* those that began at that time or later */
    size_t last;            /* only that many, the newest ones; 0: all */
    const char *session_id; /* NULL: all */
};

/* Passes each matching entry to @each, in order, as the JSON object that users see: seq, time,
 * session_id, hash, and the fields. A negative return value stops it and is returned. */
int audit_read(struct store *store, const struct audit_filter *filter,
               int (*each)(void *arg, const json_t *entry), void *arg, struct gb_err *err);

struct audit_search {
    int64_t since_us, until_us;                   /* began then or later, and before; 0: any time */
    int64_t before_seq;                           /* only entries with smaller numbers; 0: all */
    const char *who, *session_id, *kind, *status; /* NULL: any */
    size_t limit;
};

/* The newest entries that match, newest first: {"entries": [...], "before": where to go on, or null
 * if that was all, "looked_at"}. One call looks at a bounded number of entries, so it may find
 * fewer than the limit, or none, and not be at the end. Entries have neither questions nor stories
 * of Mark. (audit_search.c) */
int audit_search_run(struct store *store, const struct audit_search *search, json_t **ret_json,
                     struct gb_err *err);

/* How far a verification in pieces got; all zero is the start. */
struct audit_progress {
    struct audit_report report;
    bool more;     /* the head says that there are more entries than were read */
    bool complete; /* it has got to the end, at least once */
};

/* Goes on until @until_us (clock_now_us()), the end or the first broken entry. If it was complete
 * before, it continues with the entries that were written since. */
int audit_verify_some(struct store *store, struct audit_progress *progress, int64_t until_us,
                      struct gb_err *err);

/* The hash that an entry must have, given its other members. */
void audit_chain(const struct store_audit *entry, uint8_t ret_hash[AUDIT_HASH_BYTES]);
