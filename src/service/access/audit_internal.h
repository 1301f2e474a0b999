/* An entry of the audit log on its way from a caller to the store. */
#pragma once

#include "service/access/audit.h"

#define AUDIT_KIND_MAX 16

/* A copy of struct audit_entry without pointers of others, for the queue. */
struct audit_slot {
    char who[STORE_ID_MAX], session_id[STORE_ID_MAX], execution_id[STORE_ID_MAX];
    char kind[AUDIT_KIND_MAX];
    char *volumes;            /* owned; NULL: none */
    struct audit_entry entry; /* its pointers are NULL */
};

/* -EINVAL for what the store would refuse later, when nobody is there to be told. */
int audit_slot_fill(struct audit_slot *ret_slot, const struct audit_entry *entry,
                    struct gb_err *err);

/* For tests: waits until everything that was queued before is committed; fails when a commit does.
 */
int audit_flush(struct audit *audit, struct gb_err *err);

/* Makes the row that follows @head, and moves @head to it. The caller frees the row's fields. */
int audit_slot_chain(const struct audit_slot *slot, struct store_head *head,
                     struct store_audit *ret_row, struct gb_err *err);
