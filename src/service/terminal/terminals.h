/* The terminals of a session, as its other parts see them. */
#pragma once

struct session;

/* The session has ended: kills all of its terminals, and returns once they have ended. */
void terminals_end(struct session *session);
