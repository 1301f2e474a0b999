/*
 * An engine that runs nothing, for the tests of the service: its boxes are numbers, and a program
 * is a word that says what happens.
 *
 *   say TEXT     prints TEXT
 *   warn TEXT    prints TEXT to stderr
 *   flood N      prints N bytes, in pieces
 *   show TEXT    prints TEXT, shows a display, prints "after"
 *   hand JSON    hands over a value or table as the module mark does; one on each line
 *   bundle JSON  shows a display of these MIME types; the same
 *   raise N M    an exception of class N with the message M
 *   half         prints a character in two halves, with a display in between
 *   wait         waits until gate_open() or an interrupt
 *   stubborn     the same, but only the second interrupt ends it
 *   chatter      the same as wait, and prints all the time
 *   lose         prints, and its interpreter is lost
 *   gone         its interpreter ended before this one came: it is not run
 *   ask JSON     asks the service, and prints the answer
 *   fail         the engine fails
 */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "service/execution/execution.h"
#include "service/session/session.h"

#define PATIENCE_US (120 * USEC_PER_SEC) /* ends a test that hangs; no test waits for it */

extern _Atomic int boxes_live, residents_live, shells_live, runs_most;
extern _Atomic int looks;   /* how many questions came to an interpreter */
extern char look_json[128]; /* the last one */
extern _Atomic bool boxes_fail;
extern char order[4096];         /* what ran, in its order */
bool has_run(const char *word);  /* whether @order has it, while others run */
int count_run(const char *word); /* how often */
extern _Atomic int64_t test_now; /* 0: the real clock */

extern const struct caller local, alice, bob;

void gate_open(void);
void gate_close(void);

void config_init(struct service_config *config);
struct service *service_new(const struct service_config *config); /* NULL: the defaults */
/* Closes it and looks whether something was left. */
void service_end(struct service *service);
struct session *session_new(struct service *service, const struct caller *caller);

struct execution_request request_of(const char *code);
enum run_status status_of(struct execution *x); /* once it has ended */
/* Runs to the end; the fault, if any, in @ret_fault. */
struct execution *run_here(struct service *service, const struct caller *caller,
                           struct session *session, const char *code, struct fault *ret_fault);
struct execution *start(struct service *service, const struct caller *caller,
                        struct session *session, const char *code);
json_t *receipt_of(struct execution *x);
void check_text(const json_t *receipt, const char *key, const char *text);

int group_setup(void **state);
int group_teardown(void **state);
