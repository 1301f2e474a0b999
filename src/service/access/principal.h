/*
 * A principal: who owns sessions, executions, labels and packages, and whose quotas they count
 * against. It is determined once, when a request is authenticated, and copied into everything that
 * it owns.
 *
 * A new kind of principal needs a row in the enum, a constructor here, and ids of a form that no
 * other kind uses: the store and the tables of the service tell principals apart by
 * principal_record().
 */
#pragma once

#include <stdbool.h>

#define PRINCIPAL_ID_MAX     65 /* with its NUL; same as STORE_ID_MAX */
#define PRINCIPAL_TEXT_LOCAL "local"

enum principal_kind {
    PRINCIPAL_LOCAL, /* no credentials: trusted because of how it connected (loopback, stdio) */
    PRINCIPAL_KEY,   /* an API key */
    PRINCIPAL_USER,  /* a person with an account of Mark; the id is "user-" and a UUID */
};

struct principal {
    enum principal_kind kind;
    char id[PRINCIPAL_ID_MAX]; /* "" for PRINCIPAL_LOCAL */
};

/* -EINVAL for an id that is empty or too long. */
int principal_from_key(const char *key_id, struct principal *ret_principal);

/* The same for the UUID of an account. */
int principal_from_user(const char *user_id, struct principal *ret_principal);

bool principal_equal(const struct principal *a, const struct principal *b);

/* Has no quotas; only the limits of the whole service apply. */
bool principal_is_local(const struct principal *principal);

/* For people and for the audit log: the id, or PRINCIPAL_TEXT_LOCAL. */
const char *principal_text(const struct principal *principal);

/* For the store and for indexes: the id, or "". Valid as long as @principal. */
const char *principal_record(const struct principal *principal);
