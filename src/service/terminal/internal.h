/*
 * A terminal of a session.
 *
 * Theory of operation. Each has one thread (terminal.c), the only one that touches the engine's
 * side of it: it reads what the program prints into the ring, writes the queued input, resizes,
 * and ends it. Clients (client.c) read from the ring, each at its own position, and put input into
 * the queue.
 *
 * Nothing grows, and nobody waits for a program. With clients attached, no more is read than the
 * slowest has room for, so a program that floods is slowed down and loses nothing; a client that
 * does not move at all for SLOW_US is dropped. Without clients the ring takes everything and the
 * oldest goes, at a bounded rate, because reading costs us CPU time that the limits of the box do
 * not count. Input that the program does not read stays in the queue, and clients that have more
 * are not read from.
 *
 * Locks: session->lock, then terminal->lock. The thread uses the session without a reference: the
 * end of a session waits until all its terminals have exited.
 */
#pragma once

#include "service/session/session.h"
#include "service/terminal/ring.h"

#define LAG_BYTES (128u * 1024) /* how far a client may be behind before the program waits */
#define SLOW_US   (10 * USEC_PER_SEC)
/* Each client may send one more message while the queue has TERMINAL_INPUT_BYTES, and the beginning
 * of the next. */
#define QUEUE_SIZE ((TERMINAL_CLIENTS + 2) * TERMINAL_INPUT_BYTES)

enum terminal_stop {
    TERMINAL_RUNS,
    TERMINAL_HANG_UP, /* asked to end, then killed */
    TERMINAL_KILL,    /* its box ends */
};

struct terminal_client {
    struct terminal *terminal; /* a reference */

    /* under terminal->lock */
    int64_t position;
    int64_t end;      /* of what was there when it attached */
    int64_t moved_us; /* when it last took something, or got something to take */
    bool missed, slow;
    unsigned room_seen;
};

struct terminal {
    /* never changed */
    struct service *service;
    struct session *session; /* not after exited */
    char id[TERMINAL_ID_MAX];
    char session_id[SESSION_ID_MAX];
    int64_t created_us, created_unix_us;
    uint8_t code_hash[32]; /* of its command, for the audit log */
    int64_t code_bytes;
    int wake_fd;

    _Atomic int refs;

    pthread_mutex_t lock;
    pthread_cond_t changed; /* for clients, and for those who wait for its end */
    enum terminal_stop stop;
    bool exited;
    int exit_code;
    uint16_t cols, rows;
    bool resized, typed; /* news for the thread */
    bool blocked;        /* the thread waits for clients */
    unsigned room;       /* grows when the queue has room again */
    struct terminal_client *clients[TERMINAL_CLIENTS];
    size_t clients_len;
    struct ring ring;
    size_t input_at, input_len;

    /* of the thread */
    struct pty *pty;
    int64_t quiet_us; /* nothing is read until then; 0: now */
    int64_t kill_us;  /* 0: not asked to end yet */
    int64_t window_us, window_bytes;

    char kept[TERMINAL_KEPT_BYTES];
    char *input; /* QUEUE_SIZE bytes; NULL once it has exited */
};

/* ---- terminal.c ---- */

/* Starts the thread, which takes a reference. Until then the caller owns the pty. */
int terminal_start(struct terminal *terminal);

void terminal_wake(struct terminal *terminal);

/* Tells it to end. */
void terminal_stop(struct terminal *terminal, enum terminal_stop stop);
void terminal_wait_exit(struct terminal *terminal);

/* Writes to the audit log that it was opened, or that it has ended. */
void terminal_audit(const struct terminal *terminal, const char *kind);
