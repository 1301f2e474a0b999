/* Records of sessions in the store. */
#pragma once

#include "store/store.h"

enum store_end {
    STORE_END_NONE,     /* it is alive */
    STORE_END_EXPIRED,  /* idle for too long */
    STORE_END_DELETED,  /* deleted on request */
    STORE_END_LOST,     /* its processes died */
    STORE_END_SHUTDOWN, /* the service stopped, or crashed */
};

struct store_session {
    char id[STORE_ID_MAX];
    char owner[STORE_ID_MAX]; /* principal_record(); "": no credentials */
    int64_t created_us, last_used_us, ended_us;
    enum store_end end;
};

/* A new, live session. -EEXIST if the id is taken. */
int store_session_add(struct store *store, const struct store_session *session, struct gb_err *err);

/* -ENOENT: it never existed, or ended so long ago that it was pruned. */
int store_session_get(struct store *store, const char *id, struct store_session *ret_session,
                      struct gb_err *err);

/* -ENOENT if it is unknown; the first end stays, and another one is not an error. */
int store_session_end(struct store *store, const char *id, int64_t now_us, enum store_end end,
                      struct gb_err *err);

/* Ends all live sessions: after a start, none of an earlier service can be alive. Returns their
 * number. */
int64_t store_session_end_all(struct store *store, int64_t now_us, enum store_end end,
                              struct gb_err *err);

/* Deletes those that ended before @before_us. Returns their number. */
int64_t store_session_prune(struct store *store, int64_t before_us, struct gb_err *err);
