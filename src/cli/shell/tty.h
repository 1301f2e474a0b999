/* The user's own terminal while a program in a box has it. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Whether standard input and output are a terminal, the same for both. */
bool tty_is_there(void);

/* Raw mode, until tty_restore(): nothing is echoed, and keys such as Ctrl-C are bytes. The terminal
 * is restored if we crash, too. */
int tty_raw(struct gb_err *err);

/* Remembers from what is shown what has to be undone. */
void tty_note(const char *shown, size_t len);

/* As it was before; also undoes modes that a program may have left on (mouse, bracketed paste,
 * another screen). What was typed, or answered, and not read is dropped: it was not for the shell
 * that we return to. Does nothing if it is not raw. */
void tty_restore(void);

/* Again raw, after we were stopped and continued. */
void tty_again(void);

void tty_size(int64_t *ret_cols, int64_t *ret_rows);
