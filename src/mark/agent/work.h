/*
 * The work on one answer. One thread has it, from the question to the stored answer:
 *
 *   loop.c     the loop: ask the model, run what it wrote, show it the result, until it answers
 *   model.c    one call to the model, streamed to the readers
 *   tools.c    what the model may call, and what happens then
 *   fenced.c   the same for models without tool calls
 *   cells.c    the chat's session, made or rebuilt when it is needed
 *   history.c  what of the chat goes into the prompt
 *   endings.c  the words for what went wrong
 *   spending.c what it takes of the budget of the day
 *   artifacts.c the files that programs wrote, kept
 *   finish.c   the story checked, the answer stored
 */
#pragma once

#include "mark/agent/internal.h"
#include "mark/agent/receipts.h"
#include "mark/agent/response.h"
#include "mark/source/files.h"

/* ---- the chat before the question (history.c) ---- */

struct chat_file { /* an attachment of the chat */
    struct store_attachment attachment;
    char *path;    /* beneath the workspace: "data/sales.csv" */
    bool current;  /* of this question */
    bool uploaded; /* into this session */
};

struct turn { /* a question with its last answer */
    char *query, *story;
    int64_t seq; /* of the last of its messages */
};

struct history {
    struct turn *turns; /* those after the summary, oldest first */
    size_t turns_len, turns_cap;
    struct chat_file *files;
    size_t files_len, files_cap;
    struct mounts mounts; /* directories of data sources */
    bool mounted;         /* they were looked for */
    json_t *paths;        /* where files were when earlier programs ran, to their ids */
    json_t *cells;        /* code that ran, oldest first */
    json_t *sources;      /* names that the last question with some asked for; NULL: none did */
    char **answers;       /* ids of earlier answers with programs, oldest first */
    json_t *values;       /* of earlier answers; a later one replaces an earlier one of its name */
    char *summary;        /* of what came before the turns; NULL: none */
    int64_t summary_seq;
};

/* ---- the session (cells.c) ---- */

struct cells {
    struct session *session;
    bool prepared; /* the module mark, the files and earlier cells are there */
    bool lost;     /* its variables are gone, and it has to be told that we know */
};

/* ---- the work ---- */

#define CAUSES_MAX 16
#define SEEN_MAX   64

struct cause { /* of a failed program */
    uint64_t hash;
    int count;
};

struct seen { /* a program that ran */
    uint64_t hash;
    int count;
};

struct work {
    struct agent *agent;
    struct answer *answer;
    const struct llm_model *model;
    bool fenced;      /* this model gets no tools */
    json_t *messages; /* what the model is sent */
    struct history history;
    struct cells cells;
    struct evidence *evidence;

    int64_t begun_us, soft_us, hard_us; /* when to end asking, and when to end */
    int timer_fd, cancel_fd;            /* readable at @cancel_us; that, or a stop */
    int64_t reserved_us;                /* of the budget of the day, and */
    struct store_spent reserved_call;   /* for the call of the model that is under way */
    struct llm_usage usage;
    int64_t tokens;     /* used, estimated where the model did not tell */
    int64_t steps;      /* programs that ran */
    int64_t queries;    /* that they asked */
    int64_t calls;      /* of the model */
    int64_t exchange;   /* number of the last one in the trace */
    size_t question_at; /* its place in the messages */
    bool last;          /* the model has been told that this is its last call */
    bool mended;        /* it has been asked to mend its numbers */
    bool shrunk;        /* the conversation was cut because it was too long */
    int nudges;         /* replies that were of no use */
    int described;      /* tables, for the model */
    int repeats;        /* programs that were not run because they had been */
    struct cause causes[CAUSES_MAX];
    struct seen seen[SEEN_MAX];
    uint64_t last_code;
    bool give_up; /* the same error again and again: no more programs */

    json_t *decisions; /* for the trace and the audit log: words */
    json_t *requests;  /* for the audit log: the SHA-256 of each request as sent */
    bool done;
    struct ending ending;
};

int64_t work_left_us(const struct work *work);
void work_notice(struct work *work, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void work_decision(struct work *work, const char *word);
/* Adds a message to the conversation. */
int work_say(struct work *work, const char *role, const char *content);
/* Ends it with words of ours. @cause is a word for the log and the trace. */
void work_fail(struct work *work, const char *cause, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void work_stop(struct work *work);
/* Ends it with a story of the model. Takes @story. */
void work_answer(struct work *work, char *story, const json_t *charts, const json_t *tables);
uint64_t work_hash(const char *text, size_t len);

/* ---- model.c ---- */

/* Asks the model once. 0: *@ret_reply; otherwise *@ret_error, and both are in the trace. */
int model_ask(struct work *work, bool tools, struct llm_reply *ret_reply,
              struct llm_error *ret_error);
/* Asks for something else than an answer, without readers: the text, for free(), or NULL. */
char *model_ask_aside(struct work *work, const json_t *messages, int64_t max_tokens);
/* What was streamed as a story is none. */
void model_story_void(struct work *work);
int64_t tokens_estimate(const json_t *messages);

/* ---- spending.c ---- */

/* Reserves time, and shortens the answer to what there is; without any, the work is done. */
void spending_begin(struct work *work);
/* Before a call of the model: false if there is no budget for it, and the work is done. */
bool spending_may_ask(struct work *work);
void spending_asked(struct work *work); /* after it */
void spending_tokens(struct work *work, int64_t tokens, double dollars);
/* Ends what is reserved: "budget" of MarkResponse. */
json_t *spending_end(struct work *work);

/* ---- tools.c ---- */

/* Valid forever. @sources: there are some, so describe_table is among the tools. */
const json_t *tools_all(bool run_python, bool sources);
/* Does what the calls of @message ask for, in order, and adds their results. */
void tools_handle(struct work *work, const json_t *message, enum llm_finish finish);
/* Runs one program as the next step: what the model is shown, for free(). NULL: the work has ended,
 * or memory has. *@ret_failed: it did not end well. */
char *tools_run_python(struct work *work, const char *code, bool *ret_failed);

/* ---- consult.c ---- */

/* Whether the answer may ask data sources. */
bool consult_any(const struct work *work);
/* What they are, in front of the question: at most @max bytes, fenced. Nothing if there are none.
 */
void consult_note(struct work *work, struct text *note, size_t max);
/* The tool describe_table: what the model is shown, for free(); NULL: out of memory. */
char *consult_describe(struct work *work, const json_t *arguments);

/* ---- fenced.c ---- */

/* The program in @text if it has exactly one fenced block of Python: its place in *@ret_code (not
 * terminated) and how much text there is around it. */
bool fenced_find(const char *text, const char **ret_code, size_t *ret_len, size_t *ret_around);
/* A reply without calls: a program in a fence is run, everything else is the answer. */
void fenced_handle(struct work *work, const json_t *message, enum llm_finish finish);

/* ---- cells.c ---- */

/* Runs @code as step @n (0: aside, nobody sees it) in the chat's session, which is made or rebuilt
 * first. */
int cells_run(struct work *work, int64_t n, const char *code, json_t **ret_receipt,
              struct fault *fault);
void cells_release(struct cells *cells);
/* The cell that makes a session one of Mark's: the module, which files there are, and which
 * directories. For free(). */
char *cells_prelude(const struct history *history);
/* A session of @caller without network, large enough for the files. @template NULL: the default. */
int cells_session_new(struct agent *agent, const struct caller *caller,
                      const struct history *history, const char *template,
                      struct session **ret_session, struct fault *fault);
int cells_upload(struct agent *agent, struct session *session, struct chat_file *file,
                 struct fault *fault);
/* Runs it and waits, at most until @until_us. Output goes to @answer as that of step @n if @n > 0.
 * Its queries are answered by @scope; NULL: it can ask none. */
int cells_execute(struct agent *agent, const struct caller *caller, struct answer *answer,
                  struct session *session, int64_t n, const char *code, bool accept_loss,
                  struct scope *scope, int64_t until_us, json_t **ret_receipt, struct fault *fault);
bool receipt_ok(const json_t *receipt);

/* ---- queries.c ---- */

/* The queries of one program, or of several that run again. Stays where it is until its end. */
struct queries {
    struct agent *agent;
    const struct caller *caller;
    struct answer *answer;
    int64_t n; /* of the step; 0: aside */
    struct scope *scope;
    struct query_record *records; /* to be replayed; owned */
    size_t records_len;
};

/* Which sources the answer's programs may ask: sets answer->sources. */
int queries_resolve(struct work *work);
/* Of step @n. Without a broker there is no scope. */
int queries_begin(struct queries *q, struct work *work, int64_t n, struct fault *fault);
/* Takes @records, also on failure. @only: the sources are not asked for what is not among them. */
int queries_begin_replay(struct queries *q, struct agent *agent, struct answer *answer,
                         struct session *session, struct query_record *records, size_t len,
                         bool only, struct fault *fault);
/* After step @n: its queries are in the receipt then. @receipt NULL: it did not run. Releases. */
void queries_end(struct queries *q, struct work *work, json_t *receipt);
void queries_release(struct queries *q);
/* As in MarkResponse; the caller's. */
json_t *queries_to_json(struct queries *q);
/* Appends the recorded queries of an answer as a case has them; and back. */
int queries_of_answer(struct agent *agent, const struct caller *caller, const char *message_id,
                      json_t *list, struct gb_err *err);
int queries_from_case(const json_t *list, struct query_record **ret_records, size_t *ret_len);

/* ---- history.c ---- */

/* Calls @each with the messages of a chat before @before_seq, in order, without their responses; a
 * negative number of it ends that. */
int history_each(struct agent *agent, const struct caller *caller, const char *chat_id,
                 int64_t before_seq, int (*each)(void *arg, const struct store_message *message),
                 void *arg, struct gb_err *err);
int history_load(struct work *work, struct gb_err *err);
void history_release(struct history *history);
/* Adds system prompt, history and question to work->messages. */
int history_prompt(struct work *work);
/* Shortens what was said so far to what the model's context has room for; @hard: much. */
void history_shrink(struct work *work, bool hard);
/* How many bytes of a result the model is shown. */
size_t history_result_max(const struct work *work);

/* ---- case.c ---- */

/* The case of an answer, whose @details are @message's. NULL: @err. */
json_t *case_make(struct agent *agent, const struct caller *caller,
                  const struct store_message *message, const json_t *details, struct gb_err *err);

/* ---- endings.c ---- */

void ending_of_model(struct work *work, const struct llm_error *error);
void ending_of_fault(struct work *work, const struct fault *fault);
void ending_of_refusal(struct work *work, const json_t *message);
/* The model did not answer although it was told to for the last time. */
void ending_of_budget(struct work *work);

/* ---- finish.c ---- */

/* Whether the story is to be mended: then the model has been asked to. @tool_call_id is that of the
 * answer, NULL if it was plain text. */
bool finish_mend(struct work *work, const char *tool_call_id);
/* Checks the story, stores the answer, and ends it. */
void finish(struct work *work);

/* ---- artifacts.c ---- */

/* Keeps the files that the answer's programs wrote, and says of which it could not. */
void artifacts_keep(struct work *work);

/* ---- audit.c ---- */

/* Notes a request to the model, as in the trace. */
void audit_request(struct work *work, const json_t *request);
/* Writes the answer, which has ended, to the audit log. */
void audit_answer(struct work *work, const char *story);
