/*
 * The Model Context Protocol over the service. This is the module's public header.
 *
 * One core, and transports that only carry text to it and from it. A transport hands every message
 * that came in to mcp_receive(). What asks for an answer becomes a call; the transport drives it
 * with mcp_call_next(), which gives one message after the other (progress, output, and last the
 * response), each ready to be sent. A call has no thread of its own: whoever drives it waits. A
 * message that is refused is a call too, one that has already ended.
 *
 * A peer is a client with a session of the protocol: an `initialize` over HTTP, a connection over
 * HTTP+SSE, or the process at the other end of stdio. What we have to say to it apart from calls is
 * in its outbox. The revision of 2026 has no sessions over HTTP, and its calls no peer.
 *
 * Every function may be called by any thread. What is handed out is counted, as in service.h.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "service/service.h"

struct mcp;
struct mcp_peer;
struct mcp_call;
struct outbox;

struct mcp_config {
    struct service *service;
    int64_t wall_default_us, wall_max_us; /* of what a tool runs */
    int64_t reply_bytes;                  /* of each stream in an answer */
    int64_t peer_idle_us;                 /* peers over HTTP end when unused for so long */
    size_t peers_max;
    /* Registers more tools, prompts and resources (mcp/tool.h) beside ours; may be NULL. */
    void (*more)(struct mcp *mcp);
};

/* Everything but the service. */
void mcp_config_default(struct mcp_config *config);

int mcp_open(const struct mcp_config *config, struct mcp **ret_mcp, struct gb_err *err);

/* Ends every peer, so that whoever waits for one comes back. */
void mcp_stop(struct mcp *mcp);

/* Once no call is under way and no peer is held. Accepts NULL. */
void mcp_close(struct mcp *mcp);

/* ---- what comes in ---- */

enum mcp_transport {
    MCP_HTTP, /* a message a request; peers are found by session id */
    MCP_SSE,  /* a peer is a connection */
    MCP_STDIO,
};

/* The headers that must say what the body says; NULL when absent. */
struct mcp_headers {
    const char *version, *method, *name, *session;
    const char *(*param)(void *arg, const char *name); /* the value of Mcp-Param-NAME */
    void *arg;
};

struct mcp_arrival {
    enum mcp_transport transport;
    const struct caller *caller;
    struct mcp_peer *peer;             /* of MCP_SSE and MCP_STDIO */
    const struct mcp_headers *headers; /* of MCP_HTTP */
};

/* Takes one message, or a batch. NULL: it needs no answer. Otherwise the call is the caller's to
 * drive and to let go. */
struct mcp_call *mcp_receive(struct mcp *mcp, const struct mcp_arrival *arrival, const char *text,
                             size_t len);

/* ---- calls ---- */

/* The next message: 1 and its text, for free(); 0 when there was none within @timeout_us; -1 after
 * the last. One thread at a time. */
int mcp_call_next(struct mcp_call *call, int64_t timeout_us, char **ret_text);

/* Whether the message that was given last is the response. */
bool mcp_call_is_done(const struct mcp_call *call);

/* The HTTP status that goes with the response. */
int mcp_call_status(const struct mcp_call *call);

/* Whether it belongs to the era without sessions, where a client that leaves has cancelled. */
bool mcp_call_is_modern(const struct mcp_call *call);

/* Whether the client no longer wants the response, which is then left out where the transport
 * allows it. */
bool mcp_call_is_cancelled(struct mcp_call *call);

/* Interrupts what it runs. */
void mcp_call_cancel(struct mcp_call *call);

/* Who asked; NULL without a session. Lives as long as the call. */
struct mcp_peer *mcp_call_peer(const struct mcp_call *call);

/* The id of the session that this call has begun, or NULL. */
const char *mcp_call_new_session(const struct mcp_call *call);

/* For the log: what was run, and where; "" when nothing was. */
const char *mcp_call_session_id(const struct mcp_call *call);
const char *mcp_call_execution_id(const struct mcp_call *call);

struct mcp_call *mcp_call_ref(struct mcp_call *call);
void mcp_call_unref(struct mcp_call *call); /* accepts NULL */

/* Drives it on a thread of its own; the messages go to the peer's outbox. Takes the reference. */
void mcp_call_detach(struct mcp_call *call);

/* ---- streams that can be resumed ----
 *
 * The messages of a call that is answered as a stream are numbered and kept for a while, so that a
 * client that was cut off can have the rest elsewhere. Only of calls with a peer over HTTP. */

/* Whether it takes time; otherwise the first message is the response. */
bool mcp_call_takes_time(const struct mcp_call *call);

/* From now on its messages are kept. Its number within the peer, or -1 when it cannot be kept. */
int mcp_call_keep(struct mcp_call *call);

/* The message with number *@pos or above, which is then counted up; as mcp_call_next(). Another
 * reader takes the call from its former one, which then gets -1. @claim is what mcp_call_claim()
 * gave. */
int mcp_call_read(struct mcp_call *call, unsigned claim, uint64_t *pos, int64_t timeout_us,
                  char **ret_text);
unsigned mcp_call_claim(struct mcp_call *call);

/* Its reader has gone and may come back: it is driven to its end on a thread of its own, and the
 * response kept. Takes the reference. */
void mcp_call_park(struct mcp_call *call);

/* It was answered at once after all: nobody will come back for it. */
void mcp_call_forget(struct mcp_call *call);

/* Whether the stream is to be closed now although the call goes on; true once for each
 * call_close_stream(). */
bool mcp_call_wants_close(struct mcp_call *call);

/* ---- peers ---- */

#define MCP_SESSION_ID_MAX 40

/* A peer of a connection. @keeps: calls without a session_id share one box, else each has its own.
 */
int mcp_peer_new(struct mcp *mcp, enum mcp_transport transport, const struct caller *caller,
                 bool keeps, struct mcp_peer **ret_peer);
struct mcp_peer *mcp_peer_find(struct mcp *mcp, const struct caller *caller, const char *id,
                               enum mcp_transport transport);
struct mcp_peer *mcp_peer_ref(struct mcp_peer *peer);
void mcp_peer_unref(struct mcp_peer *peer); /* accepts NULL */

const char *mcp_peer_id(const struct mcp_peer *peer);

/* Whether its revision has events that only carry an id, from which a stream can be resumed. */
bool mcp_peer_primes(const struct mcp_peer *peer);

/* Cancels what runs for it, ends its box, closes its outbox. May be called more than once. */
void mcp_peer_end(struct mcp_peer *peer);

/* What it is told apart from calls. Lives as long as the peer. */
struct outbox *mcp_peer_outbox(struct mcp_peer *peer);

/* A call whose messages are kept, by its number; NULL when it is not there any more. */
struct mcp_call *mcp_peer_call(struct mcp_peer *peer, int number);

/* ---- stdio ---- */

/* Serves the client at the other end of @in_fd and @out_fd until it hangs up, or until @stop_fd
 * (-1: none) can be read. */
int mcp_stdio(struct mcp *mcp, int in_fd, int out_fd, int stop_fd, struct gb_err *err);
