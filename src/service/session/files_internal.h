/* What the calls for files share. */
#pragma once

#include "service/session/session.h"

/* A checked copy of a path from outside; @loc names the parameter in the fault. */
int path_copy(const char *path, size_t len, bool may_be_empty, const char *loc, char **ret_path,
              struct fault *fault);

/* The engine's error about a file, for the client. */
int files_fault(struct session *session, const struct gb_err *err, struct fault *fault);
