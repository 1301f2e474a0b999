/*
 * Writes exchanges with models to a file that cassette.c reads; the form is described there.
 *
 * Several threads record at the same time: each exchange is one write() of a whole line to a file
 * that is appended to, under a lock. The file is made anew, and only its owner can read it: it has
 * questions, and what models made of people's data. It never has a key.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/io.h"
#include "base/text/parse.h"
#include "mark/llm/cassette.h"
#include "mark/llm/json_in.h"

#include "base/banned.h"

#define LINE_BYTES_MAX ((size_t) 16 * 1024 * 1024)
#define FILE_BYTES_MAX ((size_t) 256 * 1024 * 1024)

struct llm_recorder {
    int fd;
    pthread_mutex_t lock;
    size_t bytes, count, lost;
    int error; /* errno of the first that was lost */
};

int llm_recorder_open(const char *path, struct llm_recorder **ret_recorder, struct gb_err *err)
{
    struct llm_recorder *recorder = calloc(1, sizeof *recorder);
    char quoted[FORMAT_QUOTED_MAX];

    if (!recorder)
        return gb_fail(err, ENOMEM, "record");
    format_quoted(path, quoted);
    recorder->fd =
        open(path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (recorder->fd < 0) {
        int code = errno;

        free(recorder);
        return code == EEXIST
                   ? gb_fail_plain(err, EEXIST, "%s exists; remove it, or record to another file",
                                   quoted)
                   : gb_fail(err, code, "make the recording %s", quoted);
    }
    pthread_mutex_init(&recorder->lock, NULL);
    *ret_recorder = recorder;
    return 0;
}

int llm_recorder_close(struct llm_recorder *recorder, size_t *ret_count, struct gb_err *err)
{
    int r = 0;

    *ret_count = recorder ? recorder->count : 0;
    if (!recorder)
        return 0;
    if (fsync(recorder->fd) < 0 && recorder->lost == 0) {
        recorder->error = errno;
        recorder->lost = recorder->count;
    }
    (void) close(recorder->fd);
    if (recorder->lost > 0)
        r = gb_fail(err, recorder->error, "record %zu of %zu exchanges", recorder->lost,
                    recorder->count + recorder->lost);
    pthread_mutex_destroy(&recorder->lock);
    free(recorder);
    return r;
}

/* ---- one exchange ---- */

static json_t *calls_of(const json_t *message)
{
    static const char *const members[] = { "id", "name", "arguments", "arguments_text" };
    json_t *calls = json_array();
    const json_t *call;
    size_t i;

    json_array_foreach (json_object_get(message, "tool_calls"), i, call) {
        json_t *copy = json_object();

        for (size_t m = 0; m < ARRAY_LEN(members); m++)
            if (json_object_get(call, members[m]))
                (void) json_object_set(copy, members[m], json_object_get(call, members[m]));
        (void) json_array_append_new(calls, copy);
    }
    return calls;
}

static json_t *usage_of(const struct llm_usage *usage)
{
    json_t *json = json_object();

    if (usage->prompt >= 0)
        (void) json_object_set_new(json, "prompt", json_integer(usage->prompt));
    if (usage->completion >= 0)
        (void) json_object_set_new(json, "completion", json_integer(usage->completion));
    if (usage->cached >= 0)
        (void) json_object_set_new(json, "cached", json_integer(usage->cached));
    if (usage->cost >= 0)
        (void) json_object_set_new(json, "cost", json_real(usage->cost));
    return json;
}

static json_t *exchange_of(const struct llm_model *model, const struct llm_request *request,
                           const struct llm_reply *reply)
{
    static const char *const finishes[] = {
        [LLM_STOP] = "stop", [LLM_LENGTH] = "length", [LLM_REFUSED] = "refused"
    };
    const char *content = json_in_string(reply->message, "content");
    char hash[CASSETTE_KEY_MAX];
    json_t *shared, *own;

    if (cassette_key(request, hash) < 0)
        return NULL;
    shared =
        json_pack("{s:i, s:s, s:s, s:s, s:I, s:b, s:I, s:{s:s, s:o, s:s, s:o}}", "v", 1, "model",
                  model->name, "hash", hash, "question", request->question ? request->question : "",
                  "turn", (json_int_t) cassette_turn(request), "tools", llm_model_has_tools(model),
                  "context", (json_int_t) model->context, "reply", "text", content ? content : "",
                  "calls", calls_of(reply->message), "finish", finishes[reply->finish], "usage",
                  usage_of(&reply->usage));
    own = shared ? json_deep_copy(shared) : NULL; /* the message is the caller's */
    json_decref(shared);
    if (own && llm_redact_json(own, model->key) != 0) {
        json_decref(own);
        return NULL;
    }
    return own;
}

void recorder_add(struct llm_recorder *recorder, const struct llm_model *model,
                  const struct llm_request *request, const struct llm_reply *reply)
{
    json_t *exchange = exchange_of(model, request, reply);
    autofree char *line = exchange ? json_dumps(exchange, JSON_COMPACT) : NULL;
    size_t len = line ? strlen(line) : 0;
    int r = line ? 0 : -ENOMEM;

    json_decref(exchange);
    if (line)
        line[len++] = '\n'; /* in place of the NUL: lines are written by length */
    pthread_mutex_lock(&recorder->lock);
    if (r == 0 && (len > LINE_BYTES_MAX || len > FILE_BYTES_MAX - recorder->bytes))
        r = -EFBIG;
    if (r == 0 && (r = io_write_all(recorder->fd, line, len)) < 0) /* half a line spoils it all */
        (void) !ftruncate(recorder->fd, (off_t) recorder->bytes);
    if (r == 0) {
        recorder->count++;
        recorder->bytes += len;
    } else if (recorder->lost++ == 0) {
        recorder->error = -r;
    }
    pthread_mutex_unlock(&recorder->lock);
}
