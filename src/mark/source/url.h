/* Addresses of PostgreSQL servers, postgresql://USER@HOST:PORT/DATABASE?sslmode=verify-full, read
 * strictly. What libpq would take and we would not know how to keep is refused by name. */
#pragma once

#include <stdbool.h>

#include "service/service.h"

#define PG_NAME_MAX 64 /* of users, roles, databases and schemas, with the NUL */
#define PG_HOST_MAX 256

struct pg_url {
    char host[PG_HOST_MAX]; /* a name, an address, or the directory of a Unix socket */
    int port;
    char user[PG_NAME_MAX], dbname[PG_NAME_MAX];
    char *password; /* or NULL; for vault_wipe() */
    char sslmode[16];
    char application_name[PG_NAME_MAX];
    int connect_timeout; /* seconds; 0: not given */
};

/* PROBLEM_SOURCE_MALFORMED with loc "url", or PROBLEM_SOURCE_WEAK unless a server on another
 * machine is verified. The text of a fault never has the password. */
int pg_url_parse(const char *text, struct pg_url *ret_url, struct fault *fault);
void pg_url_release(struct pg_url *url);

/* 1 to PG_NAME_MAX - 1 bytes of UTF-8 without control characters. */
bool pg_name_valid(const char *name);
