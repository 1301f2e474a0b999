/* What goes: a chat with the results of its queries, or everything that an owner has in Mark, for
 * the deletion of an account. */
#include <errno.h>

#include "base/autoclean.h"
#include "mark/chat/chats.h"
#include "mark/mark.h"
#include "service/watch/watch.h"
#include "store/artifacts.h"
#include "store/chats.h"
#include "store/results.h"

#include "base/banned.h"

#define CHATS_AT_ONCE 100

static int fail_store(const struct gb_err *err, struct fault *fault)
{
    return fault_set(fault, PROBLEM_INTERNAL, NULL, "chats cannot be removed: %s", err->msg);
}

/* Answers and sessions of some chats, the next ones after *@query. Returns how many there were. */
static int forget_some(struct mark *mark, const struct caller *caller,
                       struct store_chat_query *query, struct store_chat *ret_last,
                       struct fault *fault)
{
    autofree struct store_chat *chats = NULL;
    struct gb_err err = { 0 };
    size_t len;

    if (store_chat_list(mark_store(mark), query, &chats, &len, &err) < 0)
        return fail_store(&err, fault);
    for (size_t i = 0; i < len; i++)
        if (agent_forget(mark_agent(mark), caller, chats[i].id, fault) < 0 &&
            fault->kind != FAULT_NOT_FOUND)
            return -1;
    if (len > 0)
        *ret_last = chats[len - 1];
    return (int) len;
}

int mark_forget(struct mark *mark, const struct caller *caller, struct fault *fault)
{
    const char *owner = principal_text(&caller->principal);
    struct store_chat_query query = { .owner = owner, .limit = CHATS_AT_ONCE };
    struct store_chat last;
    struct gb_err err = { 0 };
    int r;

    while ((r = forget_some(mark, caller, &query, &last, fault)) > 0) {
        query.after_us = last.updated_us;
        query.after_id = last.id;
    }
    if (r < 0)
        return r;
    if (store_owner_delete(mark_store(mark), owner, &err) < 0)
        return fail_store(&err, fault);
    if (attachments_sweep(mark_attachments(mark), &err) < 0)
        return fault_set(fault, PROBLEM_INTERNAL, NULL, "files cannot be removed: %s", err.msg);
    if (results_sweep(mark_broker(mark), &err) < 0)
        return fault_set(fault, PROBLEM_INTERNAL, NULL, "results cannot be removed: %s", err.msg);
    return 0;
}

int mark_forget_chat(struct mark *mark, const struct caller *caller, const char *chat_id,
                     struct fault *fault)
{
    const char *owner = principal_text(&caller->principal);
    autofree uint8_t *hashes = NULL, *files = NULL;
    struct gb_err err = { 0 };
    size_t len = 0, files_len = 0;

    /* Its answers first: one that goes on would write into a chat that is gone. */
    if (agent_forget(mark_agent(mark), caller, chat_id, fault) < 0)
        return -1;
    if (store_result_of_chat(mark_store(mark), owner, chat_id, 0, &hashes, &len, &err) < 0 ||
        store_artifact_of_chat(mark_store(mark), owner, chat_id, 0, &files, &files_len, &err) < 0)
        return fail_store(&err, fault);
    if (chat_delete(mark_store(mark), caller, chat_id, fault) < 0)
        return -1;
    /* What cannot be removed now is removed by the sweep at the next start. */
    (void) results_remove(mark_broker(mark), hashes, len, &err);
    artifacts_drop(mark_attachments(mark), files, files_len);
    return 0;
}

/* What the caller has in Mark and in the service. */
static int empty_account(struct mark *mark, const struct caller *caller, struct fault *fault)
{
    struct service *service = mark_service(mark);

    if (mark_forget(mark, caller, fault) < 0)
        return -1;
    watch_sessions_end(service, &caller->principal);
    return packages_reset(service, caller, fault);
}

/* What runs ends before the account does, so that most of it is not in the way; and once more
 * afterwards, when no new request can come in, for what one that was under way has made. */
int mark_delete_user(struct mark *mark, const char *user_id, struct fault *fault)
{
    struct caller caller = { .limits = { -1, -1, -1 } };
    int r = principal_from_user(user_id, &caller.principal);

    if (r < 0)
        return fault_set(fault, PROBLEM_INTERNAL, NULL, "'%.40s' is no id of a user", user_id);
    r = empty_account(mark, &caller, fault);
    if (r == 0)
        r = auth_delete(mark_auth(mark), user_id, fault);
    return r == 0 ? empty_account(mark, &caller, fault) : r;
}
