/* The parts of an execution: its input, and its verdict. */
#pragma once

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/engine.h"

/* ---- input.c: our standard input to the tenant's ---- */

struct input {
    int from; /* -1: none; not closed here */
    int to;   /* our end of the tenant's pipe, owned */
    char data[65536];
    size_t start, len;
};

void input_init(struct input *input, int from, int to);
void input_close(struct input *input);

/* The descriptor to wait for next. */
void input_poll(const struct input *input, struct pollfd *ret_poll);

/* Copies as many bytes as possible without waiting. */
void input_move(struct input *input);

/* spec->input as a memory file. */
int input_file(const struct run_spec *spec, int *ret_fd, struct gb_err *err);

/* ---- verdict.c ---- */

/* Why we stopped a run. */
enum stop {
    STOP_NONE,
    STOP_WALL,
    STOP_CPU,
    STOP_MEMORY,
    STOP_OUTPUT,
    STOP_DISK, /* of a watched workspace; facts.disk says which limit */
    STOP_CANCEL,
    STOP_BROKEN, /* a resident violated the protocol */
};

/* The facts that a verdict is based on. */
struct verdict_facts {
    enum stop stop;
    int code, status; /* si_code and si_status of waitid(2) */
    int64_t ooms, pids_refused, pids_peak;
    int64_t largest_file;
    bool watched; /* no cgroups: the counters are our own */
    enum limit_kind disk;
    const struct limits *limits;
};

/* Fills status, limit and exit code. */
void verdict(const struct verdict_facts *facts, struct outcome *outcome);
