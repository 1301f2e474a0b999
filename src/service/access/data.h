/* The data directory and the store of the service, for all commands that share them. */
#pragma once

#include "base/err.h"
#include "store/store.h"

/* The default: /var/lib/glovebox for root, otherwise glovebox in the user's state directory. The
 * caller frees the path. */
int data_default_dir(char **ret_dir, struct gb_err *err);

/* Opens the store in @config->dir, or in the default directory when that is NULL, or in
 * @config->database. Close it with store_close(). */
int data_open(const struct store_config *config, struct store **ret_store, struct gb_err *err);

/* Whether @where is the URL of a database, rather than a data directory. */
bool data_is_database(const char *where);

struct audit_report;

struct data_copy {
    const char *from, *to;     /* data directories or URLs */
    const char *password_file; /* of the databases; may be NULL */
    void (*progress)(void *arg, const char *table, int64_t rows); /* rows below 0: read back */
    void *arg;
    /* set: */
    int64_t rows;
    struct audit_report *from_report, *to_report; /* where to put what audit_verify() says */
};

/* Copies a whole store to one that is empty. Both must not be in use. Verifies the audit log on
 * both sides: it must be as good, or as bad, on the other side (-EUCLEAN). */
int data_copy(struct data_copy *copy, struct gb_err *err);
