/* Content negotiation, from the Accept header. */
#pragma once

#include <stdbool.h>

enum media { MEDIA_JSON, MEDIA_SSE, MEDIA_NDJSON };

/* The best of the three by q-value; JSON if they are equal or none is named: a client that asks for
 * something else is better served with JSON than with a 406. @accept may be NULL. */
enum media negotiate_media(const char *accept);

/* Whether the header names text/html itself (a browser), with a q above 0. */
bool negotiate_html(const char *accept);

/* Whether an Accept-Encoding header accepts gzip. Without one (NULL) the answer is no: HTTP would
 * allow it, but a program that did not ask for gzip does not unpack it. */
bool negotiate_gzip(const char *accept_encoding);

/* Whether the entity tag @etag (with quotes) is in an If-None-Match or If-Match list. Weak
 * comparison: "W/" is ignored. */
bool negotiate_etag(const char *list, const char *etag);

/* A single range of a Range header. */
enum range_kind { RANGE_NONE, RANGE_ONE, RANGE_UNSATISFIABLE };

/* RANGE_NONE: serve the whole file, as for several ranges or another unit, which a server may
 * ignore. @header may be NULL. */
enum range_kind negotiate_range(const char *header, long long size, long long *ret_first,
                                long long *ret_last);
