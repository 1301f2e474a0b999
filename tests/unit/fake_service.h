/*
 * A service without an engine, for tests of the HTTP layer: the same functions, canned answers.
 *
 * Programs are words: "echo TEXT" prints TEXT; "wait" runs until it is interrupted; "ticks N"
 * prints N lines, each when the test calls fake_tick(); "fault N" is refused with that status;
 * "receipt {...}" comes to that receipt.
 * Files live in a temporary directory, flat.
 */
#pragma once

#include <stdbool.h>

struct service;

struct service *fake_service_new(void);
void fake_service_free(struct service *service);

void fake_tick(struct service *service);             /* lets a "ticks" program print a line */
int fake_executions(struct service *service);        /* how many were started */
int fake_interrupts(struct service *service);        /* how many were asked to stop */
bool fake_wait_interrupt(struct service *service);   /* until there was one; false after 10 s */
const char *fake_dir(const struct service *service); /* where the files are */
#define FAKE_KEY "gb_000000000001_secret"
