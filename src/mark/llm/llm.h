/*
 * Language models: one call for all of them, whatever their provider, quirks and transport.
 *
 * A conversation is JSON in a neutral form, which the store keeps and the trace shows; a provider
 * (openai.c, anthropic.c, demo.c, script.c, cassette.c) translates it to its own form and back:
 *
 *   {"role": "system", "content": "..."}
 *   {"role": "user", "content": "..."}
 *   {"role": "assistant", "content": "...", "tool_calls": [{"id", "name", "arguments": {...}}],
 *    "raw": {...}}
 *   {"role": "tool", "tool_call_id": "...", "name": "run_python", "content": "...", "error": true}
 *
 * "raw" is what a provider wants back unchanged in the same tool loop (Anthropic's thinking blocks
 * with their signatures); other providers ignore it. A call whose arguments are not valid JSON has
 * "arguments_text" (what came) instead of "arguments". Tools are [{"name", "description",
 * "parameters": JSON Schema}].
 *
 * llm_chat() runs on the caller's thread, streams what comes to the callbacks, retries what may be
 * retried, and can be cancelled by a descriptor. Everything that a model or its server sends is
 * hostile: sizes, depths and times are bounded.
 *
 * Keys are read once, when the models are opened; they are in no error, log line, trace or JSON.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct llm_model;    /* one model that can be asked */
struct llm_models;   /* all that are configured, with a default */
struct llm_recorder; /* a file that exchanges are recorded in */

/* ---- which models there are ---- */

struct llm_config {
    char *const *models;     /* NAME=openai:MODEL@URL, NAME=anthropic:MODEL@URL, NAME=script:FILE,
                                NAME=cassette:FILE (a recording), NAME=demo; NULL-terminated, may be
                                NULL. The first is the default */
    char *const *model_keys; /* NAME=FILE, likewise */
    char *const *environ;    /* where the vendors' variables are; NULL: none is read */
    const char *use;         /* the name of the default model; NULL: the first. -EINVAL if there is
                                no such model, naming those that there are */
    bool find_local;         /* look for Ollama, LM Studio, llama.cpp and vLLM at their usual
                                loopback ports; waits at most a second */
    bool demo; /* "demo" is there too, as the last; the default if it is the only one */
    int64_t connect_us, idle_us;   /* 0: 10 s to connect; 120 s without a byte of the reply */
    int64_t reply_bytes_max;       /* of one reply as sent; 0: 64 MiB */
    int retries;                   /* of a request; below 0: 2 */
    struct llm_recorder *recorder; /* every reply is recorded there; NULL: none is */
};

int llm_models_open(const struct llm_config *config, struct llm_models **ret_models,
                    struct gb_err *err);
void llm_models_close(struct llm_models *models); /* accepts NULL; no call may be under way */

/* NULL, "": the default one. NULL is returned if there is no such model. */
const struct llm_model *llm_model_find(const struct llm_models *models, const char *name);
/* The one that needs no server and costs nothing; NULL: there is none. */
const struct llm_model *llm_model_demo(const struct llm_models *models);
const struct llm_model *llm_model_at(const struct llm_models *models, size_t i); /* or NULL */
const char *llm_model_name(const struct llm_model *model);
bool llm_model_is_demo(const struct llm_model *model);
/* false: use the fenced-code protocol. May become false when a server refuses tools: that request
 * fails with LLM_INVALID. */
bool llm_model_has_tools(const struct llm_model *model);
int64_t llm_model_context(const struct llm_model *model); /* tokens, as far as is known; never 0 */

/* How many replies a recording gave that were made for another request, for the same question and
 * turn: the conversation has changed since. 0 for other models. */
size_t llm_model_drifted(const struct llm_model *model);

/* {"name", "provider", "model", "tools", "context", "price": {...} or null, "demo", "source"}: as
 * GET /api/v1/models and `glovebox doctor` show it. "source" says where it comes from: "--model",
 * "OPENAI_API_KEY", "Ollama at 127.0.0.1:11434". No key is in it, and no password of the URL. */
json_t *llm_model_to_json(const struct llm_model *model);

/* Whether its server is there and accepts the key: 0, or a negative number and why, in words of
 * printable ASCII without a key. Waits at most @timeout_us. */
#define LLM_PROBE_MAX 200
int llm_model_probe(const struct llm_model *model, int64_t timeout_us, char buf[LLM_PROBE_MAX]);

/* ---- recording ---- */

/* A new file, readable only by its owner; cassette.c describes its form. It must outlive the models
 * that record to it. Every thread may use it. */
int llm_recorder_open(const char *path, struct llm_recorder **ret_recorder, struct gb_err *err);
/* Fails if not all of it could be written. Accepts NULL. */
int llm_recorder_close(struct llm_recorder *recorder, size_t *ret_count, struct gb_err *err);

/* ---- asking one ---- */

struct llm_request {
    const char *question; /* what the person asked, for recordings; may be NULL */
    const json_t *messages;
    const json_t *tools;   /* NULL: none */
    const char *tool;      /* a tool that should be called, and must be where the server can enforce
                              it; NULL: as the model likes */
    int64_t max_tokens;    /* of the reply; 0: a sensible default */
    const char *cache_key; /* groups requests with the same beginning; may be NULL */
};

/* Called on the thread of llm_chat(), in order; each may be NULL. Text is valid UTF-8. After a
 * retry in the middle of a reply restart() says that all that came is void. */
struct llm_watch {
    void (*text)(void *arg, const char *text, size_t len);
    void (*thinking)(void *arg, const char *text, size_t len);
    /* A piece of the arguments (JSON text) of the call with number @index, from 0. */
    void (*call)(void *arg, size_t index, const char *name, const char *text, size_t len);
    void (*restart)(void *arg);
    void (*waiting)(void *arg, int64_t us, const char *why); /* before a retry */
    void *arg;
};

enum llm_finish {
    LLM_STOP,    /* it has said what it wanted to, or called tools */
    LLM_LENGTH,  /* cut by max_tokens or the context */
    LLM_REFUSED, /* by the model or a filter */
};

struct llm_usage {
    int64_t prompt, completion, cached; /* tokens; -1: not told */
    double cost;                        /* in US dollars; below 0: unknown */
};

struct llm_reply {
    json_t *message; /* the assistant's, in the neutral form */
    enum llm_finish finish;
    struct llm_usage usage;
    json_t *trace; /* {"request": body as sent, "reply": ..., "status", "attempts", "seconds",
                      "request_id"}: without keys and headers that hold them */
};

void llm_reply_release(struct llm_reply *reply);

enum llm_failure {
    LLM_OK = 0,
    LLM_CANCELLED,
    LLM_UNREACHABLE, /* no connection, hang-up, silence, after all retries */
    LLM_BUSY,        /* 429, 503, 529, after all retries */
    LLM_DENIED,      /* 401, 403: the key */
    LLM_UNPAID,      /* quota or spending limit */
    LLM_TOO_LONG,    /* the context of the model is too small for the request */
    LLM_INVALID,     /* another 4xx: the server does not accept our request */
    LLM_BROKEN,      /* what it sends is not what it should be, or too large */
};

struct llm_error {
    enum llm_failure failure;
    int status;        /* of HTTP, or 0 */
    int64_t retry_us;  /* when it may work again; 0: unknown */
    char message[300]; /* for the operator and the trace: printable UTF-8, no key */
    json_t *trace;     /* as in a reply, or NULL; owned */
};

void llm_error_release(struct llm_error *error);

/* Asks @model, and waits. @cancel_fd, if not below 0, ends it as soon as it is readable. Returns 0
 * or a negative number with @ret_error filled; only then, and always then. */
int llm_chat(const struct llm_model *model, const struct llm_request *request,
             const struct llm_watch *watch, int cancel_fd, struct llm_reply *ret_reply,
             struct llm_error *ret_error);
