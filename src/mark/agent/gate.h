/*
 * The policy gate: an operator's list of what a model's code may import, call and name.
 *
 * Off unless a file is given, because the box is the wall: code that passes the gate can do no more
 * than any code in a box, and code that is clever can pass it. It keeps a model to what an operator
 * wants to see, and tells it what to write instead.
 *
 * The code is parsed in a fresh box by the Python that would run it (box/gate.py), never on the
 * host, and not run there.
 */
#pragma once

#include "base/err.h"
#include "service/service.h"

struct gate;

#define GATE_CODE_BYTES_MAX (512 * 1024)

/* Reads and checks the file, JSON as in docs/MARK.md. The error names the field at fault. */
int gate_load(const char *path, struct gate **ret_gate, struct gb_err *err);
void gate_free(struct gate *gate); /* accepts NULL */

/* 0: the code may run. 1: it may not; *@ret_message says why, with line and rule, for the model,
 * for free(). Negative: it could not be checked, so it must not run; see @fault. Waits for a box.
 */
int gate_check(struct gate *gate, struct service *service, const struct caller *caller,
               const char *code, char **ret_message, struct fault *fault);
