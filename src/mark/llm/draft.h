/*
 * A reply while it arrives: text, thoughts and calls, told to the watcher piece by piece and kept
 * for the message at the end.
 *
 * Each of these returns 0, -ENOMEM, or -EMSGSIZE if the reply has too many calls or bytes.
 */
#pragma once

#include "mark/llm/llm.h"
#include "mark/llm/text.h"

#define DRAFT_CALLS_MAX 64

struct draft_call {
    int64_t index; /* the server's; -1: none */
    char *id, *name;
    struct text arguments;
    bool told;
};

struct draft {
    const struct llm_watch *watch;
    size_t bytes_max;
    size_t bytes;
    struct text text, thinking, refusal;
    struct draft_call *calls;
    size_t calls_len, calls_cap;
    struct text held;                             /* the beginning of what may become <think> */
    enum { THINK_MAYBE, THINK_IN, THINK_NO } tag; /* THINK_MAYBE: nothing but blanks so far */
    bool told;                                    /* the watcher has heard of anything */
};

void draft_init(struct draft *draft, const struct llm_watch *watch, size_t bytes_max);
void draft_release(struct draft *draft);

/* Text of the answer. If it begins with <think>, what follows until </think> is a thought: models
 * whose server does not tell thoughts apart write them so. */
int draft_text(struct draft *draft, const char *text, size_t len);
int draft_thinking(struct draft *draft, const char *text, size_t len);
int draft_refusal(struct draft *draft, const char *text, size_t len);

/* A new call; @id and @name may be NULL. @ret_call is its number. */
int draft_call_new(struct draft *draft, int64_t index, const char *id, const char *name,
                   size_t *ret_call);
int draft_call_name(struct draft *draft, size_t i, const char *name); /* call number @i */
int draft_call_id(struct draft *draft, size_t i, const char *id);
int draft_call_add(struct draft *draft, size_t i, const char *text, size_t len);

/* No more is to come: tells what was held back. */
int draft_end(struct draft *draft);

/* The message in the neutral form; NULL if out of memory. With @cut the last call may be
 * incomplete. @ret_cut: a call ends in the middle. */
json_t *draft_message(const struct draft *draft, bool cut, bool *ret_cut);

/* How it ended. A refusal beside text or calls is a part of the answer. */
enum llm_finish draft_finish(const struct draft *draft, bool cut, bool filtered);
