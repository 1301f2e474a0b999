/* A copy of the file before its tables are changed. */
#pragma once

#include <stdint.h>

#include "base/err.h"

/* Copies the database at @path to "<path>.v<version>-backup", 0600, replacing an older copy of that
 * name. The caller keeps others from writing meanwhile. The copy appears complete and on disk, or
 * not at all. */
int db_sqlite_backup(const char *path, int64_t version, struct gb_err *err);
