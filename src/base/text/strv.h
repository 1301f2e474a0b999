/* Lists of strings that end with NULL, like environ(7). NULL itself is an empty list. */
#pragma once

#include <stddef.h>

size_t strv_len(const char *const *list);

/* A copy that the caller frees with strv_free(); never NULL. 0 or -ENOMEM. */
int strv_copy(const char *const *list, char ***ret_list);

/* Appends a copy of @text. 0, or -ENOMEM with the list unchanged. */
int strv_add(char ***list, const char *text);

void strv_free(char **list);
