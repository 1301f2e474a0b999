/* Names of attached files, made safe. */
#pragma once

#include <stddef.h>

#include "store/attachments.h"

/* Makes a name of the @len bytes that a client sent, whatever they are: only the part after the
 * last slash or backslash; letters of any script stay. What is left out or becomes "_": bytes that
 * are not UTF-8, control characters, marks that change the direction of text or are not seen,
 * quotes and what file systems or shells of other systems give a meaning. No leading dot, no blank
 * at either end, no name that Windows reserves, at most ATTACH_NAME_BYTES_MAX, never empty; a long
 * name keeps its extension. @extension ("csv", or NULL) is that of a name that is made up. */
#define ATTACH_NAME_BYTES_MAX 160
void attach_name_make(const char *name, size_t len, const char *extension,
                      char ret_name[STORE_FILE_NAME_MAX]);
