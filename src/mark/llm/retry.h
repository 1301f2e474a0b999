/* Which failures may be tried again, when, and what they are called. Pure functions. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "mark/llm/llm.h"

#define RETRY_WAIT_MAX_US INT64_C(120000000)

struct retry_facts {
    int status;                 /* of HTTP; 0: no reply */
    const char *should_retry;   /* header x-should-retry; each may be NULL */
    const char *retry_after_ms; /* header retry-after-ms */
    const char *retry_after;    /* header retry-after */
    const json_t *error;        /* the object "error" of a body or of a stream, or NULL */
};

/* The status that an error in the middle of a stream would have had as a reply. */
int retry_status_of(const json_t *error);

enum llm_failure retry_failure(const struct retry_facts *facts);

/* Not if the server asks to wait for more than 120 s: nobody waits for that in front of a chat, and
 * less would be in vain. @wall_us: now. */
bool retry_may(const struct retry_facts *facts, int64_t wall_us);

/* What the server asks to wait; 0: it does not say. */
int64_t retry_told_us(const struct retry_facts *facts, int64_t wall_us);

/* The wait before attempt @n + 1 (the first attempt is 0): what the server asks, else half a
 * second, doubled up to 8 s, less up to a quarter by @jitter from 0 to 1. */
int64_t retry_wait_us(const struct retry_facts *facts, int n, double jitter, int64_t wall_us);

/* The server's words about an error, from any of the forms in use; NULL: none. */
const char *retry_message(const json_t *error);
