/*
 * Peers: clients that have a session of the protocol.
 *
 * A peer is in the table from its start to mcp_peer_end(), and lives until it is no longer
 * referenced. It holds its calls, so that they can be cancelled and answered, and for a while after
 * their end if their messages are kept for a client that comes back. Locks are taken in this order:
 * the table's, a peer's, a call's. None is held during calls to the service except session_lock,
 * which prevents two first calls from creating two boxes.
 */
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "mcp/mcp_internal.h"

#include "base/banned.h"

#define KEY_PEERS_MAX   512                 /* of one key */
#define CROWDED_IDLE_US (60 * USEC_PER_SEC) /* when there is no room */

/* ---- creation and release ---- */

static struct mcp_peer *peer_alloc(struct mcp *mcp, enum mcp_transport transport,
                                   const struct caller *caller, bool keeps)
{
    struct mcp_peer *peer = calloc(1, sizeof *peer);
    unsigned char bits[16];

    if (!peer)
        return NULL;
    peer->mcp = mcp;
    peer->refs = 1;
    peer->transport = transport;
    peer->keeps = keeps;
    peer->log_level = MCP_LOG_OFF;
    peer->caller = *caller;
    randombytes_buf(bits, sizeof bits);
    sodium_bin2hex(peer->id, sizeof peer->id, bits, sizeof bits);
    atomic_store(&peer->used_us, clock_now_us());
    pthread_mutex_init(&peer->lock, NULL);
    pthread_mutex_init(&peer->session_lock, NULL);
    peer->outbox = outbox_new();
    peer->subscriptions = json_object();
    if (!peer->outbox || !peer->subscriptions) {
        mcp_peer_unref(peer);
        return NULL;
    }
    return peer;
}

struct mcp_peer *mcp_peer_ref(struct mcp_peer *peer)
{
    atomic_fetch_add(&peer->refs, 1);
    return peer;
}

void mcp_peer_unref(struct mcp_peer *peer)
{
    if (!peer || atomic_fetch_sub(&peer->refs, 1) > 1)
        return;
    outbox_free(peer->outbox);
    json_decref(peer->subscriptions);
    json_decref(peer->capabilities);
    pthread_mutex_destroy(&peer->session_lock);
    pthread_mutex_destroy(&peer->lock);
    free(peer);
}

const char *mcp_peer_id(const struct mcp_peer *peer)
{
    return peer->id;
}

bool mcp_peer_primes(const struct mcp_peer *peer)
{
    return peer->version && strcmp(peer->version, "2025-11-25") >= 0;
}

struct outbox *mcp_peer_outbox(struct mcp_peer *peer)
{
    atomic_store(&peer->used_us, clock_now_us()); /* a client listens */
    return peer->outbox;
}

/* The least recently used peer over HTTP, if it has been idle for that long; other peers end by
 * themselves. */
static struct mcp_peer *find_idle(struct mcp *mcp, int64_t idle_us)
{
    int64_t limit = clock_now_us() - idle_us;
    struct mcp_peer *found = NULL;

    for (struct mcp_peer *peer = mcp->peers; peer; peer = peer->next)
        if (peer->transport == MCP_HTTP && atomic_load(&peer->used_us) < limit) {
            found = peer;
            limit = atomic_load(&peer->used_us);
        }
    return found ? mcp_peer_ref(found) : NULL;
}

/* Ends an idle peer; returns whether there was one. */
static bool end_idle(struct mcp *mcp, int64_t idle_us)
{
    struct mcp_peer *peer;

    pthread_mutex_lock(&mcp->lock);
    peer = find_idle(mcp, idle_us);
    pthread_mutex_unlock(&mcp->lock);
    if (peer)
        mcp_peer_end(peer);
    mcp_peer_unref(peer);
    return peer != NULL;
}

static bool has_room(const struct mcp *mcp, const struct principal *principal)
{
    size_t same = 0;

    for (const struct mcp_peer *peer = mcp->peers; peer; peer = peer->next)
        same +=
            !principal_is_local(principal) && principal_equal(&peer->caller.principal, principal);
    return !mcp->stopping && mcp->peers_len < mcp->config.peers_max && same < KEY_PEERS_MAX;
}

int mcp_peer_new(struct mcp *mcp, enum mcp_transport transport, const struct caller *caller,
                 bool keeps, struct mcp_peer **ret_peer)
{
    struct mcp_peer *peer;
    bool room;

    while (end_idle(mcp, mcp->config.peer_idle_us))
        ;
    peer = peer_alloc(mcp, transport, caller, keeps);
    if (!peer)
        return -ENOMEM;
    do {
        pthread_mutex_lock(&mcp->lock);
        room = has_room(mcp, &peer->caller.principal);
        if (room) {
            peer->next = mcp->peers;
            mcp->peers = mcp_peer_ref(peer);
            mcp->peers_len++;
        }
        pthread_mutex_unlock(&mcp->lock);
        /* Many clients never end their session; the least recently used one makes room. */
    } while (!room && end_idle(mcp, CROWDED_IDLE_US));
    if (!room) {
        mcp_peer_unref(peer);
        return -EBUSY;
    }
    *ret_peer = peer;
    return 0;
}

struct mcp_peer *mcp_peer_find(struct mcp *mcp, const struct caller *caller, const char *id,
                               enum mcp_transport transport)
{
    struct mcp_peer *peer;

    pthread_mutex_lock(&mcp->lock);
    for (peer = mcp->peers; peer; peer = peer->next)
        if (peer->transport == transport && strcmp(peer->id, id) == 0 &&
            principal_equal(&peer->caller.principal, &caller->principal))
            break;
    if (peer) {
        (void) mcp_peer_ref(peer);
        atomic_store(&peer->used_us, clock_now_us());
    }
    pthread_mutex_unlock(&mcp->lock);
    return peer;
}

static void end_box(struct mcp_peer *peer)
{
    struct session *session;
    struct fault fault = { 0 };
    char id[SESSION_ID_MAX];

    pthread_mutex_lock(&peer->session_lock);
    memcpy(id, peer->session_id, sizeof id);
    peer->session_id[0] = '\0';
    pthread_mutex_unlock(&peer->session_lock);
    if (!id[0] || session_find(peer->mcp->config.service, &peer->caller, id, &session, &fault) < 0)
        return;
    (void) session_delete(session, &fault);
    session_unref(session);
}

void mcp_peer_end(struct mcp_peer *peer)
{
    struct mcp_call *calls, *call;
    struct mcp *mcp = peer->mcp;
    bool listed = false;

    pthread_mutex_lock(&mcp->lock);
    for (struct mcp_peer **p = &mcp->peers; *p; p = &(*p)->next)
        if (*p == peer) {
            *p = peer->next;
            mcp->peers_len--;
            listed = true;
            break;
        }
    pthread_mutex_unlock(&mcp->lock);
    if (!listed)
        return;
    pthread_mutex_lock(&peer->lock);
    peer->ended = true;
    calls = peer->calls;
    peer->calls = NULL;
    peer->calls_len = 0;
    pthread_mutex_unlock(&peer->lock);
    outbox_close(peer->outbox);
    while ((call = calls)) {
        calls = call->next;
        mcp_call_cancel(call);
        mcp_call_unref(call);
    }
    end_box(peer);
    mcp_peer_unref(peer); /* the table's */
}

/* ---- calls of a peer ---- */

/* The calls that ended first are dropped first. */
static struct mcp_call *take_surplus(struct mcp_peer *peer)
{
    struct mcp_call **oldest = NULL, *call;
    int kept = 0;

    for (struct mcp_call **p = &peer->calls; *p; p = &(*p)->next)
        if ((*p)->ended) {
            oldest = p; /* new ones are put in front */
            kept++;
        }
    if (kept <= MCP_KEPT_CALLS_MAX)
        return NULL;
    call = *oldest;
    *oldest = call->next;
    return call;
}

int peer_enter(struct mcp_peer *peer, struct mcp_call *call)
{
    bool used = false, full, ended;

    pthread_mutex_lock(&peer->lock);
    for (struct mcp_call *c = peer->calls; c; c = c->next)
        used |= !c->ended && json_equal(c->id, call->id);
    full = peer->calls_len >= MCP_CALLS_MAX;
    ended = peer->ended;
    if (!used && !full && !ended) {
        call->number = ++peer->numbers;
        call->next = peer->calls;
        peer->calls = mcp_call_ref(call);
        peer->calls_len++;
    }
    pthread_mutex_unlock(&peer->lock);
    if (ended)
        call_fail(call, MCP_NO_SESSION, "the session has ended; start a new one with initialize");
    else if (used)
        call_fail(call, MCP_INVALID_REQUEST, "a request with this id is still running");
    else if (full)
        call_fail(call, MCP_INTERNAL, "%d requests are running; wait for one to finish",
                  MCP_CALLS_MAX);
    return used || full || ended ? -1 : 0;
}

void peer_leave(struct mcp_call *call)
{
    struct mcp_peer *peer = call->peer;
    struct mcp_call *gone = NULL;

    if (!peer || call->number < 0)
        return;
    atomic_store(&peer->used_us, clock_now_us());
    pthread_mutex_lock(&peer->lock);
    for (struct mcp_call **p = &peer->calls; *p; p = &(*p)->next) {
        if (*p != call)
            continue;
        pthread_mutex_lock(&call->lock);
        call->ended = true;
        pthread_mutex_unlock(&call->lock);
        peer->calls_len--;
        if (!call->log) {
            gone = call;
            *p = call->next;
        }
        break;
    }
    if (!gone)
        gone = take_surplus(peer);
    pthread_mutex_unlock(&peer->lock);
    mcp_call_unref(gone);
}

void peer_forget(struct mcp_call *call)
{
    struct mcp_peer *peer = call->peer;
    struct mcp_call *gone = NULL;

    pthread_mutex_lock(&peer->lock);
    for (struct mcp_call **p = &peer->calls; *p; p = &(*p)->next)
        if (*p == call && call->ended) {
            gone = call;
            *p = call->next;
            break;
        }
    pthread_mutex_unlock(&peer->lock);
    mcp_call_unref(gone);
}

struct mcp_call *mcp_peer_call(struct mcp_peer *peer, int number)
{
    struct mcp_call *call;

    pthread_mutex_lock(&peer->lock);
    for (call = peer->calls; call; call = call->next)
        if (call->number == number && call->log)
            break;
    if (call)
        (void) mcp_call_ref(call);
    pthread_mutex_unlock(&peer->lock);
    return call;
}

void peer_cancel(struct mcp_peer *peer, const json_t *id)
{
    struct mcp_call *call;

    pthread_mutex_lock(&peer->lock);
    for (call = peer->calls; call; call = call->next)
        if (!call->ended && json_equal(call->id, id))
            break;
    if (call)
        (void) mcp_call_ref(call);
    pthread_mutex_unlock(&peer->lock);
    /* initialize cannot be cancelled, and has already ended */
    if (call)
        mcp_call_cancel(call);
    mcp_call_unref(call);
}

/* An answer that no call waits for is dropped. */
void peer_answer(struct mcp_peer *peer, json_t *response)
{
    const char *id = json_string_value(json_object_get(response, "id"));

    if (!id)
        return;
    pthread_mutex_lock(&peer->lock);
    for (struct mcp_call *call = peer->calls; call; call = call->next) {
        pthread_mutex_lock(&call->lock);
        if (call->ask_id[0] && strcmp(call->ask_id, id) == 0) {
            call->ask_id[0] = '\0';
            call->answer = json_incref(response);
            pthread_cond_broadcast(&call->wake);
        }
        pthread_mutex_unlock(&call->lock);
    }
    pthread_mutex_unlock(&peer->lock);
}

void peer_detached(struct mcp *mcp, int change, struct mcp_call *call)
{
    mcp_call_unref(call);
    pthread_mutex_lock(&mcp->lock);
    mcp->detached += change;
    if (mcp->detached == 0)
        pthread_cond_broadcast(&mcp->idle);
    pthread_mutex_unlock(&mcp->lock);
}

void peer_wait_idle(struct mcp *mcp, int64_t timeout_us)
{
    int64_t deadline = clock_now_us() + timeout_us;
    struct timespec until = { deadline / USEC_PER_SEC, deadline % USEC_PER_SEC * 1000 };

    pthread_mutex_lock(&mcp->lock);
    while (mcp->detached > 0 && pthread_cond_timedwait(&mcp->idle, &mcp->lock, &until) == 0)
        ;
    pthread_mutex_unlock(&mcp->lock);
}

/* ---- boxes of a peer ---- */

void peer_add_session(struct mcp_peer *peer, const char *id)
{
    size_t most = MCP_PEER_SESSIONS;

    pthread_mutex_lock(&peer->lock);
    if (peer->sessions_len == most) { /* the oldest one is dropped */
        memmove(peer->sessions, peer->sessions + 1, (most - 1) * sizeof *peer->sessions);
        peer->sessions_len--;
    }
    snprintf(peer->sessions[peer->sessions_len++], SESSION_ID_MAX, "%s", id);
    pthread_mutex_unlock(&peer->lock);
}

void peer_remove_session(struct mcp_peer *peer, const char *id)
{
    pthread_mutex_lock(&peer->lock);
    for (size_t i = 0; i < peer->sessions_len; i++)
        if (strcmp(peer->sessions[i], id) == 0) {
            memmove(peer->sessions + i, peer->sessions + i + 1,
                    (peer->sessions_len - i - 1) * sizeof *peer->sessions);
            peer->sessions_len--;
            break;
        }
    pthread_mutex_unlock(&peer->lock);
    pthread_mutex_lock(&peer->session_lock);
    if (strcmp(peer->session_id, id) == 0)
        peer->session_id[0] = '\0';
    pthread_mutex_unlock(&peer->session_lock);
}

size_t peer_sessions(struct mcp_peer *peer, char (*ret)[SESSION_ID_MAX], size_t max)
{
    size_t len;

    pthread_mutex_lock(&peer->lock);
    len = peer->sessions_len < max ? peer->sessions_len : max;
    memcpy(ret, peer->sessions, len * sizeof *ret);
    pthread_mutex_unlock(&peer->lock);
    return len;
}

int peer_session(struct mcp_peer *peer, const struct caller *caller, struct session **ret_session,
                 struct fault *fault)
{
    struct service *service = peer->mcp->config.service;
    struct session_request request;
    bool made = false;
    int r = 0;

    pthread_mutex_lock(&peer->session_lock);
    if (!peer->session_id[0] ||
        session_find(service, caller, peer->session_id, ret_session, fault) < 0) {
        session_request_init(&request);
        r = session_create(service, caller, &request, ret_session, fault);
        if (r == 0) {
            snprintf(peer->session_id, sizeof peer->session_id, "%s", session_id(*ret_session));
            made = true;
        }
    }
    pthread_mutex_unlock(&peer->session_lock);
    if (made)
        peer_add_session(peer, session_id(*ret_session));
    return r;
}
