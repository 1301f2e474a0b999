/*
 * Notifications that clients get without a request: lists that changed, files that changed.
 *
 * A client of the old era gets them in its outbox: for lists, and for the files that it has
 * subscribed to. In the new era `subscriptions/listen` is a call that does not end; it gets
 * notifications about what it names, and nothing else. Only changes of files by our tools are
 * reported; what a program changes later in the background is noticed with its next call.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "mcp/mcp_internal.h"

#include "base/banned.h"

static const char *method_of(enum change_kind kind)
{
    switch (kind) {
    case CHANGE_TOOLS:
        return "notifications/tools/list_changed";
    case CHANGE_PROMPTS:
        return "notifications/prompts/list_changed";
    case CHANGE_RESOURCES:
        return "notifications/resources/list_changed";
    case CHANGE_FILE:
    default:
        return "notifications/resources/updated";
    }
}

/* @id: of the listening request, or NULL. */
static char *change_text(enum change_kind kind, const char *uri, json_t *id)
{
    json_t *params = json_object(), *message;
    char *text;

    if (kind == CHANGE_FILE)
        (void) json_object_set_new(params, "uri", json_string(uri));
    if (id)
        (void) json_object_set_new(params, "_meta",
                                   json_pack("{s:O}", MCP_META "subscriptionId", id));
    message = message_notification(method_of(kind), params);
    text = json_dumps(message, MCP_JSON);
    json_decref(message);
    return text;
}

static bool is_mine(enum change_kind kind, const struct principal *mine,
                    const struct principal *owner)
{
    return kind == CHANGE_TOOLS || kind == CHANGE_PROMPTS || principal_equal(mine, owner);
}

static bool hears(const struct listener *l, enum change_kind kind, const struct principal *owner,
                  const char *uri)
{
    switch (kind) {
    case CHANGE_TOOLS:
        return l->tools;
    case CHANGE_PROMPTS:
        return l->prompts;
    case CHANGE_RESOURCES:
        return l->resources && is_mine(kind, &l->owner, owner);
    case CHANGE_FILE:
    default:
        return l->uris && is_mine(kind, &l->owner, owner) && json_object_get(l->uris, uri);
    }
}

static void tell_peer(struct mcp_peer *peer, enum change_kind kind, const struct principal *owner,
                      const char *uri)
{
    bool wants;

    pthread_mutex_lock(&peer->lock);
    wants = peer->initialized && is_mine(kind, &peer->caller.principal, owner) &&
            (kind != CHANGE_FILE || json_object_get(peer->subscriptions, uri));
    pthread_mutex_unlock(&peer->lock);
    if (wants)
        (void) outbox_put(peer->outbox, change_text(kind, uri, NULL), PUT_MAY);
}

void change_publish(struct mcp *mcp, enum change_kind kind, const struct principal *owner,
                    const char *uri)
{
    pthread_mutex_lock(&mcp->lock);
    for (struct mcp_peer *peer = mcp->peers; peer; peer = peer->next)
        tell_peer(peer, kind, owner, uri);
    for (struct listener *l = mcp->listeners.next; l != &mcp->listeners; l = l->next)
        if (hears(l, kind, owner, uri))
            (void) outbox_put(l->outbox, change_text(kind, uri, l->id), PUT_MAY);
    pthread_mutex_unlock(&mcp->lock);
}

int listener_enter(struct mcp *mcp, struct listener *l)
{
    int r = 0;

    pthread_mutex_lock(&mcp->lock);
    if (mcp->stopping || mcp->listeners_len >= MCP_LISTENERS_MAX) {
        r = -1;
    } else {
        l->prev = mcp->listeners.prev;
        l->next = &mcp->listeners;
        l->prev->next = l->next->prev = l;
        mcp->listeners_len++;
    }
    pthread_mutex_unlock(&mcp->lock);
    return r;
}

void listener_leave(struct mcp *mcp, struct listener *l)
{
    pthread_mutex_lock(&mcp->lock);
    if (l->next) {
        l->prev->next = l->next;
        l->next->prev = l->prev;
        l->prev = l->next = NULL;
        mcp->listeners_len--;
    }
    pthread_mutex_unlock(&mcp->lock);
}

/* ---- subscriptions/listen ---- */

struct listen_work {
    struct mcp *mcp;
    struct listener listener;
    unsigned claim;
    uint64_t pos;
};

static void listen_free(void *work)
{
    struct listen_work *w = work;

    listener_leave(w->mcp, &w->listener);
    outbox_free(w->listener.outbox);
    json_decref(w->listener.uris);
    json_decref(w->listener.id);
    free(w);
}

static void listen_end(struct mcp_call *call)
{
    call_reply(call, json_pack("{s:{s:O}}", "_meta", MCP_META "subscriptionId", call->id));
}

static void listen_step(struct mcp_call *call, int64_t timeout_us)
{
    struct listen_work *w = call->work;
    int64_t slice = USEC_PER_SEC / 5;
    char *text;
    int r;

    /* In slices: cancelling wakes the call, not the outbox. */
    r = outbox_next(w->listener.outbox, w->claim, &w->pos, timeout_us < slice ? timeout_us : slice,
                    &text);
    if (r > 0)
        call_put(call, text);
    else if (r < 0 || mcp_call_is_cancelled(call))
        listen_end(call);
}

/* The part of the request that is granted: everything we have. On a wrong type the call has
 * ended. */
static json_t *read_filter(struct mcp_call *call, struct listener *l)
{
    static const char *const flags[] = { "toolsListChanged", "promptsListChanged",
                                         "resourcesListChanged" };
    bool *members[] = { &l->tools, &l->prompts, &l->resources };
    json_t *wish = message_object(call->params, "notifications"), *honoured = json_object();
    json_t *uris = json_object_get(wish, "resourceSubscriptions"), *item;
    bool bad = !wish || (uris && !json_is_array(uris)) || json_array_size(uris) > MCP_SUBSCRIPTIONS;
    size_t i;

    for (i = 0; i < ARRAY_LEN(flags); i++) {
        item = json_object_get(wish, flags[i]);
        bad |= item && !json_is_boolean(item);
        *members[i] = json_is_true(item);
        if (*members[i])
            (void) json_object_set_new(honoured, flags[i], json_true());
    }
    json_array_foreach (uris, i, item) {
        bad |= !json_is_string(item) || json_string_length(item) > MCP_URI_MAX;
        if (!bad)
            (void) json_object_set_new(l->uris, json_string_value(item), json_true());
    }
    if (json_array_size(uris) > 0)
        (void) json_object_set(honoured, "resourceSubscriptions", uris);
    if (!bad)
        return honoured;
    json_decref(honoured);
    call_fail(call, MCP_INVALID_PARAMS,
              "notifications must be an object of toolsListChanged, promptsListChanged, "
              "resourcesListChanged (true or false) and resourceSubscriptions (at most %d URIs)",
              MCP_SUBSCRIPTIONS);
    return NULL;
}

void method_listen(struct mcp_call *call)
{
    struct listen_work *w = calloc(1, sizeof *w);
    json_t *honoured;

    if (!w || !(w->listener.outbox = outbox_new())) {
        free(w);
        call_reply(call, NULL);
        return;
    }
    w->mcp = call->mcp;
    w->claim = outbox_claim(w->listener.outbox);
    w->listener.uris = json_object();
    w->listener.id = json_incref(call->id);
    w->listener.owner = call->caller.principal;
    call_continue(call, listen_step, w, listen_free);
    honoured = read_filter(call, &w->listener);
    if (!honoured)
        return;
    if (json_object_size(honoured) > 0 && listener_enter(call->mcp, &w->listener) < 0) {
        call_fail(call, MCP_INTERNAL, "too many subscriptions; try again later");
        json_decref(honoured);
        return;
    }
    call_notify(call, "notifications/subscriptions/acknowledged",
                json_pack("{s:O, s:{s:O}}", "notifications", honoured, "_meta",
                          MCP_META "subscriptionId", call->id));
    if (json_object_size(honoured) == 0)
        listen_end(call); /* no notification could ever come */
    json_decref(honoured);
}
