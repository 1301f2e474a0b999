/* Our standard output and error as a sink for a tenant's output: never blocks, filters for
 * terminals. */
#pragma once

#include "engine/engine.h"

struct out_streams;

int out_streams_new(struct out_streams **ret_streams);

/* Writes the rest, this time waiting for it, and frees. Accepts NULL. Returns 0, or -errno when
 * output was lost; a reader that closed its end does not count. */
int out_streams_free(struct out_streams *streams);

struct run_sink out_streams_sink(struct out_streams *streams);
