/* The parts of `glovebox ask`. */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#include "cli/cmd.h"

struct answer;
struct caller;
struct mark;
struct service;

/* ---- following an answer (ask_follow.c) ---- */

/* Shows the events of @answer on stderr as they happen, if @shown, and returns after the last. */
void ask_follow(struct answer *answer, bool shown);

/* ---- keeping what is in it (ask_save.c) ---- */

/* Whether --out and --chart can be written, before anything is asked. */
int ask_save_check(const struct config *cfg, struct gb_err *err);

/* Writes what --out and --chart ask for. Says what could not be saved, and returns how much. */
struct exports;
int ask_save(const struct config *cfg, struct service *service, struct exports *exports,
             const struct caller *caller, const json_t *response);
