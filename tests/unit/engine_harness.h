/* An engine, a box and what runs in it, for the tests of sessions. They need a host that can
 * isolate and exit 77 elsewhere. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "engine/builder.h"
#include "engine/engine.h"

#define WALL_US  (120 * USEC_PER_SEC) /* a machine can be slow; what must end early has its own */
#define BEGUN_MS 3000                 /* by then a cell has come to where it is deaf */
#define SKIP     77

static struct engine *engine;
static struct limits limits;

struct place {
    struct box *box;
    struct resident *resident;
    struct shell *shell;
    struct outcome outcome; /* of the last run */
};

static struct run_spec spec_of(const char *code)
{
    return (struct run_spec){ .code = code,
                              .code_len = strlen(code),
                              .filename = "<cell>",
                              .cell = true,
                              .limits = limits,
                              .reply_bytes = 65536,
                              .stdin_fd = -1,
                              .cancel_fd = -1 };
}

static inline void resident_again(struct place *place)
{
    static char *env[] = { (char *) "GREETING=hello", NULL };
    struct gb_err err;

    resident_free(place->resident);
    place->resident = NULL;
    if (resident_open(place->box, env, &place->resident, &err) < 0)
        fail_msg("%s", err.msg);
}

static inline int place_setup_box(void **state)
{
    struct place *place = calloc(1, sizeof *place);
    struct gb_err err;

    assert_non_null(place);
    if (box_acquire(engine, &limits, &place->box, &err) < 0)
        fail_msg("%s", err.msg);
    *state = place;
    return 0;
}

static inline int place_setup(void **state)
{
    (void) place_setup_box(state);
    resident_again(*state);
    return 0;
}

static int place_teardown(void **state)
{
    struct place *place = *state;

    outcome_release(&place->outcome);
    resident_free(place->resident);
    shell_free(place->shell);
    box_release(place->box);
    free(place);
    return 0;
}

/* Runs it; the outcome is the place's until the next run. */
static inline struct outcome *cell_spec(struct place *place, const struct run_spec *spec)
{
    struct gb_err err;

    outcome_release(&place->outcome);
    if (resident_run(place->resident, spec, &place->outcome, &err) < 0)
        fail_msg("%s", err.msg);
    return &place->outcome;
}

static inline struct outcome *cell(struct place *place, const char *code)
{
    struct run_spec spec = spec_of(code);

    return cell_spec(place, &spec);
}

static inline struct outcome *cell_within(struct place *place, const char *code, int64_t wall_ms)
{
    struct run_spec spec = spec_of(code);

    spec.limits.wall_us = wall_ms * USEC_PER_MSEC;
    return cell_spec(place, &spec);
}

static inline struct outcome *command_spec(struct place *place, const struct run_spec *spec,
                                           const char *cwd)
{
    static char *env[] = { (char *) "GREETING=hello", (char *) "LANG=C", NULL };
    struct gb_err err;

    outcome_release(&place->outcome);
    if (box_command(place->box, spec, env, cwd, &place->outcome, &err) < 0)
        fail_msg("%s", err.msg);
    return &place->outcome;
}

static inline struct outcome *command(struct place *place, const char *text)
{
    struct run_spec spec = spec_of(text);

    return command_spec(place, &spec, NULL);
}

/* ---- what came of it ---- */

static inline const char *text_of(const struct stream_cut *cut)
{
    static char text[4][8192];
    static unsigned turn;
    char *at = text[turn++ % 4];

    snprintf(at, sizeof text[0], "%.*s%.*s", (int) cut->head_len, cut->head ? cut->head : "",
             (int) cut->tail_len, cut->tail ? cut->tail : "");
    return at;
}

static inline void check_ended(const struct outcome *o, enum run_status status, int code)
{
    if (o->status != status || o->exit_code != code)
        fail_msg("%s %d, not %s %d; stdout: %.200s; stderr: %s", run_status_name(o->status),
                 o->exit_code, run_status_name(status), code, text_of(&o->out), text_of(&o->err));
}

static inline void check_printed(const struct outcome *o, const char *text)
{
    check_ended(o, RUN_OK, 0);
    assert_string_equal(text_of(&o->out), text);
}

#define assert_ended(o, status, code) check_ended(o, status, code)
#define assert_ok(o)                  check_ended(o, RUN_OK, 0)
#define assert_printed(o, text)       check_printed(o, text)

/* As cell(), with what it must print. */
static inline void prints(struct place *place, const char *code, const char *text)
{
    struct outcome *o = cell(place, code);

    assert_printed(o, text);
    assert_false(o->lost);
}

/* ---- main ---- */

static inline int group_setup(void **state)
{
    struct engine_config config = { .preload = "", .cgroups = CGROUP_AUTO, .landlock = true };
    struct gb_err err;

    (void) state;
    if (engine_open(&config, &engine, &err) < 0 || engine_wait_ready(engine, &err) < 0) {
        fprintf(stderr, "%s\n", err.msg);
        engine_close(engine);
        exit(SKIP);
    }
    return 0;
}

static inline int group_teardown(void **state)
{
    (void) state;
    engine_close(engine);
    return 0;
}

/* The engine executes the program that it is part of. Returns -1 where main() is to go on. */
static int harness_main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], BUILDER_COMMAND) == 0)
        return builder_main(argc, argv);
    (void) signal(SIGPIPE, SIG_IGN);
    limits_default(&limits);
    limits.wall_us = WALL_US;
    return -1;
}
