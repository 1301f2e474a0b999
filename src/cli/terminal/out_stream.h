/* Our standard output and error as a sink for a tenant's: never waits, filters for terminals. */
#pragma once

#include "engine/engine.h"

struct out_streams;

int out_streams_new(struct out_streams **ret_streams);

/* Writes what is left, waiting for it this time, and frees. Accepts NULL. Returns 0, or -errno when
 * output was lost; not for a reader that went away, which is its own choice. */
int out_streams_free(struct out_streams *streams);

struct run_sink out_streams_sink(struct out_streams *streams);
