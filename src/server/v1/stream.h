/* The events of an execution, sent to a client: over HTTP (stream.c) or a WebSocket (socket.c). */
#pragma once

#include "server/server_internal.h"

/* Replies with the events of @execution, from @cursor on, in the format @media. Takes the
 * reference. @cancel: interrupt it if the client disconnects. */
void stream_events(struct request *rq, enum media media, struct execution *execution,
                   const struct event_cursor *cursor, bool cancel);

/* The same over a WebSocket. */
void socket_events(struct request *rq, struct execution *execution,
                   const struct event_cursor *cursor);

#define EVENT_TEXT_BYTES 16384 /* of stdout or stderr in one event */

/* The data of the first event, "start"; the caller owns it. */
json_t *event_start_to_json(struct execution *execution);

/* Its name is event_kind_name(); the caller owns the data. */
json_t *event_data_to_json(struct event *event);

bool event_is_last(const struct event *event);

/* One event as text, for free(); takes @data. @id is of server-sent events and may be NULL. NULL:
 * out of memory. */
char *event_text(enum media media, const char *id, const char *name, json_t *data);

/* A problem as the data of an event. */
json_t *fault_to_json(const struct fault *fault);
