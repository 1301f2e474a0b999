/* What the handlers of the operator's API share. */
#pragma once

#include "mark/mark.h"
#include "server/admin/schemas.h"
#include "server/server_internal.h"
#include "service/watch/watch.h"

#define ADMIN_ROWS 100 /* of a page, unless the request says otherwise */

/* A page's length from a query. */
static inline size_t admin_limit(int64_t limit)
{
    return limit == FIELD_ABSENT ? ADMIN_ROWS : (size_t) limit;
}

/* ---- names.c: principals as people know them ---- */

struct names {
    struct request *rq;
    json_t *known;          /* principal: name */
    struct store_key *keys; /* read when the first is needed */
    size_t keys_len;
    bool keys_read;
};

void names_init(struct names *names, struct request *rq);
void names_release(struct names *names);

/* Sets "name" in each object of the list, which has the principal in @member. */
void names_add(struct names *names, json_t *list, const char *member);

/* The principal that @text means: one as it is in the audit log, the name of a key, or the
 * address of an account. False: nobody has that address. */
bool names_find(struct request *rq, const char *text, char ret_principal[PRINCIPAL_ID_MAX]);

/* ---- acts.c ---- */

/* Writes what the operator did, or tried to do, to the log and to the audit log. @fault NULL: it
 * was done. */
void admin_tell(struct request *rq, const char *action, const char *target,
                const struct fault *fault);

/* The same, and replies with 204 or the fault. */
void admin_finish(struct request *rq, const char *action, const char *target, int r,
                  const struct fault *fault);

/* ---- */

/* What @principal has now, of watch_accounts(). */
json_t *admin_now(const json_t *accounts, const char *principal);
