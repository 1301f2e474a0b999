#include "fake_mark.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "mark/mark.h"

#include "base/banned.h"

#define CHAT    "00000000-0000-4000-8000-00000000c4a7"
#define MESSAGE "00000000-0000-4000-8000-000000000a05"
#define MODEL   "fake"

static char here;            /* what the pointers to incomplete structs point to */
static _Atomic bool stopped; /* every answer that waits */

struct answer {
    _Atomic int refs;
    bool waits;
};

static const char response[] =
    "{\"chat_id\": \"" CHAT "\", \"message_id\": \"" MESSAGE "\", \"status\": \"%s\","
    " \"answer_story\": \"It is 42.\", \"question\": null, \"model\": \"" MODEL "\","
    " \"visualization\": {\"data\": []}, \"visualizations\": [{\"data\": []}],"
    " \"data\": [{\"title\": \"T\", \"columns\": [{\"name\": \"n\", \"type\": \"integer\"}],"
    " \"rows\": [[42]], \"row_count\": 1}],"
    " \"steps\": [{\"n\": 1, \"code\": \"6 * 7\", \"receipt\": null, \"queries\": []}],"
    " \"values\": [{\"name\": \"n\", \"value\": 42, \"unit\": null, \"step\": 1}],"
    " \"numbers\": {\"checked\": 1, \"unsupported\": []},"
    " \"artifacts\": [{\"name\": \"a.txt\", \"size\": 1, \"media_type\": \"text/plain\","
    " \"url\": \"/v1/sessions/sess_1/files/a.txt\"}],"
    " \"usage\": {\"prompt_tokens\": null, \"completion_tokens\": null, \"cached_tokens\": null,"
    " \"cost\": null, \"seconds\": 0.1}, \"notices\": []}";

struct mark *fake_mark(void)
{
    return (struct mark *) (void *) &here;
}

static int refuse(struct fault *fault)
{
    *fault = (struct fault){ .kind = FAULT_NOT_FOUND,
                             .problem = PROBLEM_MESSAGE_UNKNOWN,
                             .type = problem_word(PROBLEM_MESSAGE_UNKNOWN),
                             .detail = "no such message" };
    return -1;
}

/* clang-format off */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
struct agent *mark_agent(struct mark *mark) { return (struct agent *) (void *) &here; }
struct attachments *mark_attachments(struct mark *mark)
{ return (struct attachments *) (void *) &here; }
const struct llm_models *mark_models(struct mark *mark)
{ return (const struct llm_models *) (void *) &here; }

/* ---- models ---- */

const struct llm_model *llm_model_find(const struct llm_models *models, const char *name)
{ return (const struct llm_model *) (void *) &here; }
bool llm_model_is_demo(const struct llm_model *model) { return false; }

/* ---- attachments ---- */

int attachment_upload_begin(struct attachments *attachments, const struct caller *caller,
                            const char *name, int64_t expected,
                            struct attachment_upload **ret_upload, struct fault *fault)
{ *ret_upload = (struct attachment_upload *) (void *) &here; return 0; }
int attachment_upload_write(struct attachment_upload *upload, const void *data, size_t len,
                            struct fault *fault) { return 0; }
void attachment_upload_abort(struct attachment_upload *upload) { }
void store_attachment_release(struct store_attachment *attachment) { }
int attachment_delete(struct attachments *attachments, const struct caller *caller, const char *id,
                      struct fault *fault) { return 0; }

/* ---- the agent ---- */

const char *answer_chat_id(const struct answer *answer) { return CHAT; }
const char *answer_message_id(const struct answer *answer) { return MESSAGE; }
#pragma GCC diagnostic pop
/* clang-format on */

int attachment_upload_commit(struct attachment_upload *upload, struct store_attachment *ret,
                             struct fault *fault)
{
    (void) upload;
    (void) fault;
    *ret = (struct store_attachment){ 0 };
    snprintf(ret->id, sizeof ret->id, "1");
    return 0;
}

int agent_ask(struct agent *agent, const struct caller *caller,
              const struct agent_question *question, struct answer **ret_answer,
              struct fault *fault)
{
    struct answer *answer;

    (void) agent;
    (void) caller;
    if (strcmp(question->query, "no") == 0)
        return refuse(fault);
    answer = calloc(1, sizeof *answer);
    if (!answer)
        return refuse(fault);
    atomic_store(&answer->refs, 1);
    answer->waits = strcmp(question->query, "wait") == 0;
    if (answer->waits)
        atomic_store(&stopped, false);
    *ret_answer = answer;
    return 0;
}

void answer_stop(struct answer *answer)
{
    (void) answer;
    atomic_store(&stopped, true);
}

void answer_unref(struct answer *answer)
{
    if (answer && atomic_fetch_sub(&answer->refs, 1) == 1)
        free(answer);
}

static bool is_over(const struct answer *answer)
{
    return !answer->waits || atomic_load(&stopped);
}

bool answer_wait(struct answer *answer, int64_t timeout_us)
{
    int64_t end = timeout_us < 0 ? INT64_MAX : clock_now_us() + timeout_us;

    while (!is_over(answer) && clock_now_us() < end)
        (void) usleep(1000);
    return is_over(answer);
}

json_t *answer_to_json(struct answer *answer)
{
    char text[sizeof response + 16];

    snprintf(text, sizeof text, response,
             !is_over(answer) ? "pending"
             : answer->waits  ? "stopped"
                              : "ok");
    return json_loads(text, 0, NULL);
}

int answer_next_event(struct answer *answer, int64_t after, int64_t timeout_us,
                      struct answer_event *ret_event)
{
    static const struct {
        const char *name, *data;
    } events[] = {
        { "chat", "{\"chat_id\":\"" CHAT "\",\"message_id\":\"" MESSAGE "\"}" },
        { "step", "{\"n\":1,\"code_delta\":\"6 \"}" },
        { "step", "{\"n\":1,\"code\":\"6 * 7\"}" },
        { "receipt", "{\"n\":1,\"receipt\":{\"status\":\"ok\"}}" },
        { "story", "{\"delta\":\"It is 42.\"}" },
        { "done", "{}" },
    };
    int64_t len = sizeof events / sizeof *events;

    if (after >= len)
        return -1;
    if (after == len - 1 && !answer_wait(answer, timeout_us))
        return 0;
    *ret_event = (struct answer_event){ after + 1, events[after].name, strdup(events[after].data),
                                        after == len - 1 };
    return 1;
}
