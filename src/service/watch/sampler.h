/* The thread that looks at the service now and then, for plots. */
#pragma once

#include <stdint.h>

#include "base/err.h"

struct service;
struct watch;

int watch_open(struct service *service, struct watch **ret_watch, struct gb_err *err);
/* Waits for the thread. Accepts NULL. */
void watch_close(struct watch *watch);
