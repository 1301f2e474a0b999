/* Removes guests whose day is over, with everything that they had: at the start, and every minute.
 */
#pragma once

#include "base/err.h"

struct mark;
struct guests;

int guests_open(struct mark *mark, struct guests **ret_guests, struct gb_err *err);
/* Waits for a removal that is under way. Accepts NULL. */
void guests_close(struct guests *guests);
