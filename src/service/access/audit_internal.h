/* An entry of the audit log on its way from a caller to the store. */
#pragma once

#include "service/access/audit.h"

#define AUDIT_KIND_MAX 16

/* A copy of struct audit_entry that owns everything it points to, for the queue. */
struct audit_slot {
    char who[STORE_ID_MAX], session_id[STORE_ID_MAX], execution_id[STORE_ID_MAX];
    char kind[AUDIT_KIND_MAX];
    char *volumes, *answer, *action; /* owned; NULL: none */
    struct audit_entry entry;        /* its pointers are NULL */
};

/* -EINVAL for an entry that the store would refuse later, when no caller is left to get the error.
 */
int audit_slot_fill(struct audit_slot *ret_slot, const struct audit_entry *entry,
                    struct gb_err *err);

void audit_slot_release(struct audit_slot *slot);

/* For tests: waits until all entries queued so far are committed; fails if a commit fails. */
int audit_flush(struct audit *audit, struct gb_err *err);

/* Makes the row that follows @head, and moves @head to it. The caller frees the row's fields. */
int audit_slot_chain(const struct audit_slot *slot, struct store_head *head,
                     struct store_audit *ret_row, struct gb_err *err);
