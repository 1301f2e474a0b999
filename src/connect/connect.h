/*
 * The connector: a process that talks to one data source for one query, and is sealed before it
 * reads the first byte that the source sends.
 *
 * Theory of operation. The broker (mark/broker/broker.c) executes our own binary again as
 * CONNECT_COMMAND, with an empty environment, descriptors 0 to 2 on /dev/null, CONNECT_CONTROL_FD
 * (a stream socket) and CONNECT_RESULT_FD (an empty file, open for reading and writing). It sends
 * one order, and gets messages until one of them is the last: CONNECT_DONE or CONNECT_ERROR. Orders
 * and messages are a 32-bit length, little-endian, and a JSON object of that many bytes.
 *
 * The connector reads the order, reads what it needs of the host (CA certificates, resolv.conf,
 * hosts), gives up everything else (seal.c: no new privileges, no capabilities, another user id if
 * it was root, Landlock, a filter of system calls, bounds on memory, files, CPU time), and only
 * then connects. Each query has its own process and its own connection, so nothing of one caller is
 * there for the next. If the control socket ends, the query is cancelled at the source, and the
 * process exits; the broker kills it if it does not.
 *
 * Secrets come in the order, over the socket: never in argv or the environment. Messages never have
 * them: text of a server is cut, made printable, and searched for the secrets of the order, which
 * are replaced by "***".
 */
#pragma once

#include <stdint.h>

#define CONNECT_COMMAND     "internal-connector"
#define CONNECT_CONTROL_FD  3
#define CONNECT_RESULT_FD   4
#define CONNECT_ORDER_MAX   (4u << 20)
#define CONNECT_MESSAGE_MAX (1u << 20)

/*
 * An order:
 *
 *   {"op": "query" | "catalogue" | "check",
 *    "source": {"kind": "postgresql", "host", "port", "dbname", "user", "password", "sslmode",
 *               "sslrootcert" (PEM text), "role", "variables": {name: text}, "schemas": [..] or
 * null} or {"kind": "bigquery", "url" (of the API), "project", "location", "dataset", "token_uri",
 * "assertion" (a signed JWT) or "token"}, "sql": "...", "params": null | [...] | {...}, "masked":
 * [{"table": "schema.table", "columns": [...]}],   never to be read "limits": {"rows", "bytes" (of
 * the result file), "ms", "cost" (planner units, or bytes billed for BigQuery), "columns"},
 *    "samples": n,                                               of "catalogue"
 *    "confirm": bool}    after "estimate" wait for a message {"go": true} before anything is run
 *
 * Messages, each with "message": one of
 *
 *   "estimate"  {"cost", "rows", "bytes", "money"}     before it runs; what is not known is null
 *   "progress"  {"rows", "bytes", "job"}               now and then
 *   "done"      {"rows", "bytes" (read or billed), "size" (of the result file), "ms", "cost",
 * "money", "cache_hit", "columns": [{"name", "type", "source_type"}], "notices": [text], "token",
 * "expires_in"}                of "catalogue": the file is JSON, see catalogue.h "error" {"word",
 * "text", "estimate": {...}}    word: one of CONNECT_WORD below
 *
 * "money" is US dollars, "cost" what the source itself counts in.
 */

#define CONNECT_WORDS(WORD)                                                                        \
    WORD(UNREACHABLE, "unreachable")     /* no connection, name not found, TLS refused */          \
    WORD(DENIED, "denied")               /* wrong or expired credentials, or no right */           \
    WORD(SQL, "sql")                     /* the statement is wrong; the text says where */         \
    WORD(READ_ONLY, "read-only")         /* it wanted to write */                                  \
    WORD(TOO_EXPENSIVE, "too-expensive") /* the estimate is above the ceiling; with "estimate" */  \
    WORD(TOO_LARGE, "too-large")         /* rows, bytes or columns above the limit */              \
    WORD(TIMEOUT, "timeout")                                                                       \
    WORD(CANCELLED, "cancelled")                                                                   \
    WORD(MASKED, "masked")           /* it reads a masked column, or might */                      \
    WORD(UNSAFE, "unsafe")           /* the role would not hold: see postgres.c */                 \
    WORD(BROKEN, "broken")           /* the server sent nonsense, or hung up in the middle */      \
    WORD(UNSUPPORTED, "unsupported") /* a type or parameter that we cannot carry */                \
    WORD(INTERNAL, "internal")

#define CONNECT_ENUM(name, text) CONNECT_##name,
enum connect_word { CONNECT_WORDS(CONNECT_ENUM) CONNECT_WORD_COUNT };
#undef CONNECT_ENUM

/* The process: never returns to user code, exits with 0 if it sent a last message. Called by cli.c
 * as the command CONNECT_COMMAND. */
int connect_main(void);
