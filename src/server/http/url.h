/*
 * Request targets, parsed from the raw bytes of the request line.
 *
 * libmicrohttpd decodes a target in place, so that %00 ends it and %2f becomes a separator before
 * anybody can check. Here the path is split first and decoded part by part; a path that is not
 * clean ("..", empty parts, NUL, text that is not UTF-8) is refused as a whole.
 */
#pragma once

#include <stddef.h>

#include "schema/param.h"

#define URL_RAW_MAX    16384
#define URL_PATH_MAX   4096 /* decoded */
#define URL_PARTS_MAX  256
#define URL_PARAMS_MAX 16

struct url {
    char *data;        /* owns every string below */
    const char *parts; /* decoded, each with its NUL, one after the other */
    size_t parts_len;
    struct param params[URL_PARAMS_MAX];
    size_t params_len;
};

/* Returns 0, or the HTTP status of the refusal (400, 414) with the reason in *@ret_why, or -ENOMEM.
 * "/" has no parts, and a trailing slash adds none. */
int url_parse(const char *raw, struct url *ret_url, const char **ret_why);
void url_release(struct url *url);

/* The part after @part in memory. */
const char *url_next_part(const char *part);

/* NULL if it is absent. */
const char *url_param(const struct url *url, const char *name);
