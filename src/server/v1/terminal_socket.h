/* A client of a terminal over a WebSocket. */
#pragma once

#include "server/server_internal.h"

/* Replies with the socket, attached to @terminal; takes the reference. @offset as for
 * terminal_attach(). */
void terminal_socket(struct request *rq, struct terminal *terminal, int64_t offset);

/* A text message of a client: 0 if it is a resize, with both sides in range; -1: close the socket.
 */
int terminal_message_read(const char *data, size_t len, int64_t *ret_cols, int64_t *ret_rows);
