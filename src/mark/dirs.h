/* Mark's directories beneath the data directory, and locks in them. */
#pragma once

#include <stdbool.h>

#include "base/err.h"

#define MARK_DIR "mark"

/* Opens DATA/mark, or @name in it unless that is NULL. What is missing is made for us alone if
 * @make says so, and is -ENOENT otherwise. */
int mark_dir_open(const char *data_dir, const char *name, bool make, int *ret_fd,
                  struct gb_err *err);

/* Takes the lock that is the file @name of the directory; waits for whoever has it. Closing
 * @ret_fd gives it back. */
int mark_dir_lock(int dir_fd, const char *name, int *ret_fd, struct gb_err *err);
