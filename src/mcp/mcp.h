/*
 * The Model Context Protocol over the service. This is the module's public header.
 *
 * One core, and transports that only carry text to it and from it. A transport passes every
 * incoming message to mcp_receive(). A message that needs a response becomes a call; the transport
 * drives it with mcp_call_next(), which returns one message after the other (progress, output, and
 * last the response), each ready to be sent. A call has no thread: its driver waits. A message that
 * is refused is a call too, one that has already ended.
 *
 * A peer is a client with a session of the protocol: an `initialize` over HTTP, a connection over
 * HTTP+SSE, or the process at the other end of stdio. Messages to it that do not belong to a
 * call are in its outbox. The revision of 2026 has no sessions over HTTP, and its calls no peer.
 *
 * Every function may be called by any thread. Objects are reference-counted, as in service.h.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "service/service.h"

struct mark;
struct mcp;
struct mcp_peer;
struct mcp_call;
struct outbox;

struct mcp_config {
    struct service *service;
    struct mark *mark;                    /* of the tool ask_data; NULL: there is none */
    int64_t wall_default_us, wall_max_us; /* of code that a tool runs */
    int64_t reply_bytes;                  /* of each stream in a result */
    int64_t peer_idle_us;                 /* peers over HTTP end if unused for this long */
    size_t peers_max;
    /* Registers additional tools, prompts and resources (mcp/tool.h); may be NULL. */
    void (*more)(struct mcp *mcp);
};

/* Fills everything except the service and Mark. */
void mcp_config_default(struct mcp_config *config);

int mcp_open(const struct mcp_config *config, struct mcp **ret_mcp, struct gb_err *err);

/* Ends every peer, so that threads waiting for one return. */
void mcp_stop(struct mcp *mcp);

/* Call it when no call is under way and no peer is held. Accepts NULL. */
void mcp_close(struct mcp *mcp);

/* ---- incoming messages ---- */

enum mcp_transport {
    MCP_HTTP, /* one message per request; peers are found by session id */
    MCP_SSE,  /* a peer is a connection */
    MCP_STDIO,
};

/* The headers that must agree with the body; NULL when absent. */
struct mcp_headers {
    const char *version, *method, *name, *session;
    const char *(*param)(void *arg, const char *name); /* the value of Mcp-Param-NAME */
    void *arg;
};

struct mcp_arrival {
    enum mcp_transport transport;
    const struct caller *caller;
    struct mcp_peer *peer;             /* for MCP_SSE and MCP_STDIO */
    const struct mcp_headers *headers; /* for MCP_HTTP */
};

/* Takes one message, or a batch. NULL: it needs no response. Otherwise the caller drives the call
 * and releases it. */
struct mcp_call *mcp_receive(struct mcp *mcp, const struct mcp_arrival *arrival, const char *text,
                             size_t len);

/* ---- calls ---- */

/* The next message: 1 and its text, for free(); 0 if there was none within @timeout_us; -1 after
 * the last. One thread at a time. */
int mcp_call_next(struct mcp_call *call, int64_t timeout_us, char **ret_text);

/* Whether the last message returned is the response. */
bool mcp_call_is_done(const struct mcp_call *call);

/* The HTTP status that goes with the response. */
int mcp_call_status(const struct mcp_call *call);

/* Whether it belongs to the era without sessions, where disconnecting cancels the call. */
bool mcp_call_is_modern(const struct mcp_call *call);

/* Whether the client no longer wants the response, which is then left out where the transport
 * allows it. */
bool mcp_call_is_cancelled(struct mcp_call *call);

/* Interrupts the code that it runs. */
void mcp_call_cancel(struct mcp_call *call);

/* The peer that sent it; NULL without a session. Lives as long as the call. */
struct mcp_peer *mcp_call_peer(const struct mcp_call *call);

/* The id of the session that this call has started, or NULL. */
const char *mcp_call_new_session(const struct mcp_call *call);

/* For the log: what was run, and where; "" if nothing was. */
const char *mcp_call_session_id(const struct mcp_call *call);
const char *mcp_call_execution_id(const struct mcp_call *call);

struct mcp_call *mcp_call_ref(struct mcp_call *call);
void mcp_call_unref(struct mcp_call *call); /* accepts NULL */

/* Drives it on a separate thread; the messages go to the peer's outbox. Takes the reference. */
void mcp_call_detach(struct mcp_call *call);

/* ---- streams that can be resumed ----
 *
 * The messages of a call that is answered as a stream are numbered and kept for a while, so that a
 * client that was disconnected can get the rest on another stream. Only for calls with a peer over
 * HTTP. */

/* Whether it takes time; otherwise the first message is the response. */
bool mcp_call_takes_time(const struct mcp_call *call);

/* Keeps its messages from now on. Returns its number within the peer, or -1 if it cannot be
 * kept. */
int mcp_call_keep(struct mcp_call *call);

/* Like mcp_call_next(), for the message with number *@pos or above; *@pos becomes the number after
 * it. A new reader takes the call over from the previous one, which then gets -1. @claim is the
 * value of mcp_call_claim(). */
int mcp_call_read(struct mcp_call *call, unsigned claim, uint64_t *pos, int64_t timeout_us,
                  char **ret_text);
unsigned mcp_call_claim(struct mcp_call *call);

/* Its reader has disconnected and may come back: drives it to its end on a separate thread, and
 * keeps the response. Takes the reference. */
void mcp_call_park(struct mcp_call *call);

/* It was answered at once after all: no client will come back for it. */
void mcp_call_forget(struct mcp_call *call);

/* Whether the stream is to be closed now although the call continues; true once for each
 * call_close_stream(). */
bool mcp_call_wants_close(struct mcp_call *call);

/* ---- peers ---- */

#define MCP_SESSION_ID_MAX 40

/* A peer for a connection. @keeps: calls without a session_id share one box, otherwise each gets a
 * fresh one. */
int mcp_peer_new(struct mcp *mcp, enum mcp_transport transport, const struct caller *caller,
                 bool keeps, struct mcp_peer **ret_peer);
struct mcp_peer *mcp_peer_find(struct mcp *mcp, const struct caller *caller, const char *id,
                               enum mcp_transport transport);
struct mcp_peer *mcp_peer_ref(struct mcp_peer *peer);
void mcp_peer_unref(struct mcp_peer *peer); /* accepts NULL */

const char *mcp_peer_id(const struct mcp_peer *peer);

/* Whether its revision has events that contain only an id, from which a stream can be resumed. */
bool mcp_peer_primes(const struct mcp_peer *peer);

/* Cancels its running calls, ends its box, closes its outbox. May be called more than once. */
void mcp_peer_end(struct mcp_peer *peer);

/* Messages to it that do not belong to a call. Lives as long as the peer. */
struct outbox *mcp_peer_outbox(struct mcp_peer *peer);

/* A call whose messages are kept, by its number; NULL if it is no longer kept. */
struct mcp_call *mcp_peer_call(struct mcp_peer *peer, int number);

/* ---- stdio ---- */

/* Serves the client at the other end of @in_fd and @out_fd until it disconnects, or until @stop_fd
 * (-1: none) is readable. */
int mcp_stdio(struct mcp *mcp, int in_fd, int out_fd, int stop_fd, struct gb_err *err);
