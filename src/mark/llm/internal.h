/*
 * What the files of this room share.
 *
 * llm_chat() (chat.c) hands a request to a provider. The two that speak HTTP share a loop
 * (exchange.c) over a transport (net.c): encode the conversation, send it, decode the stream into a
 * draft (draft.c) while it arrives, and decide about retries (retry.c). What differs between them
 * is a table of functions, struct dialect: openai.c and anthropic.c.
 *
 * A model is immutable and shared by threads, except for what is learned about it: parameters that
 * its server refuses, and whether it has tools.
 */
#pragma once

#include <stdatomic.h>

#include "mark/llm/llm.h"

struct cassette;
struct script;
struct net;
struct sse;
struct draft;

/* ---- models ---- */

enum llm_kind {
    LLM_KIND_OPENAI,
    LLM_KIND_ANTHROPIC,
    LLM_KIND_SCRIPT,
    LLM_KIND_CASSETTE,
    LLM_KIND_DEMO,
};

/* What a server has refused, so that the next request does without. */
enum llm_quirk {
    QUIRK_OTHER_MAX = 1 << 0,   /* the other of max_tokens and max_completion_tokens */
    QUIRK_NO_USAGE = 1 << 1,    /* no stream_options */
    QUIRK_NO_PARALLEL = 1 << 2, /* no parallel_tool_calls */
    QUIRK_NO_CHOICE = 1 << 3,   /* no tool_choice */
    QUIRK_NO_EFFORT = 1 << 4,   /* reasoning_effort must be "none" with tools */
    QUIRK_NO_CACHE = 1 << 5,    /* no cache_control, no prompt_cache_key */
    /* For one request only: */
    QUIRK_NO_MAX = 1 << 6,      /* no limit of the reply */
    QUIRK_NO_THOUGHTS = 1 << 7, /* no thinking blocks */
    /* For good again: */
    QUIRK_RESPONSES = 1 << 8,    /* tools only over the Responses API */
    QUIRK_NO_RESPONSES = 1 << 9, /* which the server has not */
    QUIRK_NO_INCLUDE = 1 << 10,  /* no encrypted reasoning there */
};

/* US dollars per million tokens; below 0: unknown. */
struct llm_price {
    double prompt, cached, completion;
};

struct llm_model {
    enum llm_kind kind;
    char *name;          /* as users say it */
    char *model;         /* as the server calls it */
    char *url;           /* of the endpoint, without credentials */
    char *responses_url; /* of the other endpoint of "openai" */
    char *where;         /* host and port, for messages */
    char *key;           /* NULL: none */
    char *source;        /* where this model was configured */
    bool vendor;         /* the server is the vendor's */
    bool loopback;
    int64_t context, output_max;
    struct llm_price price;
    struct script *script;
    struct cassette *cassette;
    struct llm_recorder *recorder; /* NULL: none */
    struct net *net;               /* shared by all models */
    int64_t connect_us, idle_us, reply_bytes_max;
    int retries;
    struct {
        atomic_uint quirks;
        atomic_bool no_tools;
        atomic_size_t drifted; /* replies of a recording to another request */
    } * learned;
};

/* ---- errors ---- */

/* Fills @error (message in printable UTF-8, cut if long) and returns -1. */
int llm_error_set(struct llm_error *error, enum llm_failure failure, int status, const char *fmt,
                  ...) __attribute__((format(printf, 4, 5)));

/* Makes @text one line of printable UTF-8, in place. */
void llm_make_printable(char *text);

/* Replaces every occurrence of @key, unless it is too short to be a secret. */
void llm_redact_text(char *text, const char *key);
/* The same in all strings of @json, which must not be shared. */
int llm_redact_json(json_t *json, const char *key);

static inline struct llm_usage llm_usage_unknown(void)
{
    return (struct llm_usage){ .prompt = -1, .completion = -1, .cached = -1, .cost = -1 };
}

/* What @usage costs; below 0 if tokens or prices are not known. */
double llm_cost(const struct llm_price *price, const struct llm_usage *usage);

/* Waits for @us; 0, or -ECANCELED as soon as @cancel_fd (below 0: none) is readable. */
int llm_pause(int64_t us, int cancel_fd);

/* ---- conversations ---- */

/* A copy of @messages that every server accepts: each call has exactly one result right behind its
 * message, results without a call become text of the user, calls without one get one, and ids and
 * names have only characters that are allowed everywhere. NULL if out of memory. */
json_t *llm_history_clean(const json_t *messages);

/* The arguments of a call of the neutral form as an object (a new reference): what is no valid JSON
 * is wrapped, because servers parse it. */
json_t *llm_call_arguments(const json_t *call);

/* ---- dialects ---- */

/* A reply that is being received. */
struct decoder {
    const struct llm_model *model;
    struct draft *draft;
    int64_t max_tokens;   /* that were asked for, or 0 */
    char finish[40];      /* the server's word, "" until it came */
    bool done;            /* the server has said that this is all */
    json_t *usage;        /* as sent */
    json_t *error;        /* an error in the stream, as sent */
    json_t *blocks;       /* Anthropic: the content so far, in its form */
    size_t blocks_base;   /* Anthropic: how many of them are of earlier parts of a paused turn */
    struct text *partial; /* Anthropic: what is to be joined of each block */
    size_t partial_len;
    double written_cost; /* Anthropic: what writing to its cache cost on top */
};

struct dialect {
    const char *name;
    /* The body of a request; a new reference, NULL if out of memory. @blocks: the paused turn. */
    json_t *(*encode)(const struct llm_model *model, const struct llm_request *request,
                      unsigned quirks, const json_t *blocks);
    /* An event of the stream, or a whole reply that is no stream. 0, -EPROTO, -EMSGSIZE, -ENOMEM;
     * -ECONNABORTED if ->error was set. */
    int (*event)(struct decoder *decoder, const char *data, size_t len);
    int (*body)(struct decoder *decoder, const json_t *body);
    /* Whether all of the reply has come. */
    bool (*complete)(const struct decoder *decoder);
    /* Whether the server wants the turn back to go on with it. */
    bool (*paused)(const struct decoder *decoder); /* NULL: no turn ever is */
    /* Fills message, finish and usage of @ret_reply. */
    int (*finish)(struct decoder *decoder, struct llm_reply *ret_reply);
    /* Headers beyond the usual ones, ends with NULL; the key goes into a "%s". */
    const char *const *headers;
    const char *const *key_headers;        /* for the vendor's own server */
    const char *const *key_headers_others; /* for others */
};

extern const struct dialect openai_dialect, anthropic_dialect, responses_dialect;

void decoder_init(struct decoder *decoder, const struct llm_model *model, struct draft *draft,
                  int64_t max_tokens);
void decoder_release(struct decoder *decoder);

static inline const struct dialect *dialect_of(const struct llm_model *model, unsigned quirks)
{
    if (model->kind == LLM_KIND_ANTHROPIC)
        return &anthropic_dialect;
    return quirks & QUIRK_RESPONSES ? &responses_dialect : &openai_dialect;
}

/* The headers of a request, with the key; they are wiped when they are freed. 0 or -ENOMEM. */
int headers_make(const struct llm_model *model, const struct dialect *dialect, char ***ret_headers);
void headers_free(char **headers);

/* Which of the quirks @quirks does not have yet would mend the error @status @error; 0: none. */
unsigned quirk_for(enum llm_kind kind, unsigned quirks, int status, const json_t *error);

/* ---- providers ---- */

int exchange_chat(const struct llm_model *model, const struct llm_request *request,
                  const struct llm_watch *watch, int cancel_fd, struct llm_reply *ret_reply,
                  struct llm_error *ret_error);
int script_chat(const struct script *script, const struct llm_request *request,
                const struct llm_watch *watch, int cancel_fd, struct llm_reply *ret_reply,
                struct llm_error *ret_error);

/* Says @reply, in the form of a script's, in pieces of @piece bytes. @last is what $LAST stands
 * for; NULL: nothing is replaced. */
int script_say(const json_t *reply, const char *last, size_t piece,
               const struct llm_request *request, const struct llm_watch *watch, int cancel_fd,
               struct llm_reply *ret_reply, struct llm_error *ret_error);

int script_open(const char *path, struct script **ret_script, struct gb_err *err);
void script_free(struct script *script);
bool script_has_tools(const struct script *script);
int64_t script_context(const struct script *script); /* 0: not said */
