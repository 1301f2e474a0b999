/* Passwords that people type or keep in files: never from the command line, which others see. */
#pragma once

#include "base/err.h"

#define PASSWORD_SIZE 2048 /* with its NUL; longer than any that is accepted */

/* The first line of the file; "-" is standard input. */
int password_read_file(const char *path, char text[PASSWORD_SIZE], struct gb_err *err);

/* Whether there is somebody to be asked. */
int password_can_ask(void);

/* One line from the terminal, without showing it. -EINTR: cancelled. */
int password_ask(const char *prompt, char text[PASSWORD_SIZE], struct gb_err *err);
