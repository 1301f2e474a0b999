/* The service that a shell is in: requests to it, and the WebSocket of a terminal. */
#pragma once

#include <curl/curl.h>
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "cli/shell/frames.h"

#define LINK_PENDING_MAX ((size_t) 128 * 1024) /* of what is to be sent */

struct link {
    char *url;             /* http://HOST:PORT, without a slash at the end */
    const char *unix_path; /* or NULL */
    const char *key;       /* or NULL */

    CURL *socket; /* NULL: not connected */
    int fd;
    bool more; /* something may be left to read although poll() does not say so */
    struct frames frames;
    char *pending; /* LINK_PENDING_MAX bytes */
    size_t pending_len;
};

int link_open(struct link *link, const char *url, const char *key, struct gb_err *err);
void link_release(struct link *link);

/* One request; @body may be NULL. Fails unless the service replied with a success; the message is
 * the service's own. -ENOENT, -ECONNREFUSED (it cannot be reached), -EIO. @ret_json may be NULL. */
int link_call(struct link *link, const char *method, const char *path, const char *body,
              json_t **ret_json, struct gb_err *err);

/* Opens the WebSocket at @path. Both of these end early if the user wants to leave, by a signal.
 * -ENOENT: there is no such terminal; -ECONNREFUSED: try again. */
int link_attach(struct link *link, const char *path, struct gb_err *err);
void link_detach(struct link *link);

/* Queues a frame, masking @data; false if there is no room for it. */
bool link_send(struct link *link, enum frame_kind kind, char *data, size_t len);

/* Writes what is queued, as far as that is possible now. Negative: the connection is lost. */
int link_flush(struct link *link);

/* Reads some of what has arrived; a program that floods us must not keep us from the user's keys.
 * While link->more there may be more. Negative: the connection is lost, or what @each returned. */
int link_read(struct link *link,
              int (*each)(void *arg, enum frame_kind kind, const char *data, size_t len),
              void *arg);
