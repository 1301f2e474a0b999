/* What the calling process may do on this host; for all of our processes. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Whether the caller already has the privileges of a builder: root of its user namespace, with the
 * capabilities to create namespaces. */
bool caller_is_privileged(void);

/* The first range for this user in /etc/subuid or /etc/subgid ("name:first:count"), as decimal
 * text; both buffers have @size bytes. @user may be NULL. */
bool caller_subid_range(const char *path, const char *user, uid_t uid, char *first, char *count,
                        size_t size);

/* Whether /etc/subuid and /etc/subgid both have a range for this user. */
bool caller_has_subids(uid_t uid);

/* One sentence on why user namespaces may be forbidden here and what to change. */
void caller_explain_no_userns(char *buf, size_t size);
