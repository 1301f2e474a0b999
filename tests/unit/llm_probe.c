/*
 * One call of llm_chat(), for tests/system/test_mark_models.py.
 *
 * Standard input is JSON: {"config": {"models": [...], "model_keys": [...], "environ": [...],
 * "use", "find_local", "demo", "connect_ms", "idle_ms", "reply_bytes_max", "retries"}, "model":
 * name, "request": {"messages", "tools", "tool", "max_tokens", "cache_key"}, "times": 1,
 * "cancel_at": n, "no_restart": true}. Standard output gets one line of JSON per event as it comes
 * and, for each call, {"reply": ...} or {"error": ...}; without a request only the list of the
 * models, each with what llm_model_probe() says if there is "probe_ms".
 */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/text/strv.h"
#include "mark/llm/llm.h"

#include "base/banned.h"

struct probe {
    int cancel_fd;
    int64_t cancel_at, events;
};

static void print_line(json_t *json)
{
    char *text = json ? json_dumps(json, JSON_COMPACT | JSON_SORT_KEYS) : NULL;

    puts(text ? text : "{\"error\": \"no memory\"}");
    (void) fflush(stdout);
    free(text);
    json_decref(json);
}

static void on_any(struct probe *probe, json_t *event)
{
    uint64_t one = 1;

    print_line(event);
    if (++probe->events == probe->cancel_at)
        (void) !write(probe->cancel_fd, &one, sizeof one);
}

static void on_text(void *arg, const char *text, size_t len)
{
    on_any(arg, json_pack("{s:s%}", "text", text, len));
}

static void on_thinking(void *arg, const char *text, size_t len)
{
    on_any(arg, json_pack("{s:s%}", "thinking", text, len));
}

static void on_call(void *arg, size_t index, const char *name, const char *text, size_t len)
{
    on_any(arg, json_pack("{s:{s:i, s:s, s:s%}}", "call", "index", (int) index, "name", name,
                          "text", text, len));
}

static void on_restart(void *arg)
{
    on_any(arg, json_pack("{s:b}", "restart", 1));
}

static void on_waiting(void *arg, int64_t us, const char *why)
{
    on_any(arg, json_pack("{s:{s:I, s:s}}", "waiting", "us", (json_int_t) us, "why", why));
}

static char **list_of(const json_t *array)
{
    char **list = NULL;
    const json_t *item;
    size_t i;

    json_array_foreach (array, i, item)
        (void) strv_add(&list, json_string_value(item));
    return list;
}

static int64_t number(const json_t *object, const char *key, int64_t fallback)
{
    const json_t *value = json_object_get(object, key);

    return json_is_integer(value) ? json_integer_value(value) : fallback;
}

static void print_reply(struct llm_reply *reply)
{
    static const char *const finishes[] = { "stop", "length", "refused" };

    print_line(json_pack(
        "{s:{s:O, s:s, s:{s:I, s:I, s:I, s:f}, s:O?}}", "reply", "message", reply->message,
        "finish", finishes[reply->finish], "usage", "prompt", (json_int_t) reply->usage.prompt,
        "completion", (json_int_t) reply->usage.completion, "cached",
        (json_int_t) reply->usage.cached, "cost", reply->usage.cost, "trace", reply->trace));
    llm_reply_release(reply);
}

static void print_error(struct llm_error *error)
{
    static const char *const failures[] = { "ok",     "cancelled", "unreachable", "busy",  "denied",
                                            "unpaid", "too_long",  "invalid",     "broken" };

    print_line(json_pack("{s:{s:s, s:i, s:I, s:s, s:O?}}", "error", "failure",
                         failures[error->failure], "status", error->status, "retry_us",
                         (json_int_t) error->retry_us, "message", error->message, "trace",
                         error->trace));
    llm_error_release(error);
}

static int ask(const struct llm_models *models, const json_t *in)
{
    const char *name = json_string_value(json_object_get(in, "model"));
    const struct llm_model *model = llm_model_find(models, name);
    const json_t *rq = json_object_get(in, "request");
    struct probe probe = { .cancel_fd = eventfd(0, EFD_CLOEXEC),
                           .cancel_at = number(in, "cancel_at", -1) };
    struct llm_watch watch = { on_text, on_thinking, on_call, on_restart, on_waiting, &probe };
    struct llm_request request = {
        .messages = json_object_get(rq, "messages"),
        .tools = json_object_get(rq, "tools"),
        .tool = json_string_value(json_object_get(rq, "tool")),
        .max_tokens = number(rq, "max_tokens", 0),
        .cache_key = json_string_value(json_object_get(rq, "cache_key")),
    };

    if (!model)
        return 3;
    if (json_is_true(json_object_get(in, "no_restart")))
        watch.restart = NULL;
    for (int64_t i = number(in, "times", 1); i > 0; i--) {
        struct llm_reply reply;
        struct llm_error error;

        if (llm_chat(model, &request, &watch, probe.cancel_fd, &reply, &error) < 0)
            print_error(&error);
        else
            print_reply(&reply);
    }
    (void) close(probe.cancel_fd);
    return 0;
}

static void print_models(const struct llm_models *models, int64_t probe_us)
{
    json_t *list = json_array();

    for (size_t i = 0; llm_model_at(models, i); i++) {
        json_t *json = llm_model_to_json(llm_model_at(models, i));
        char why[LLM_PROBE_MAX] = "";

        if (probe_us > 0)
            (void) json_object_set_new(
                json, "probe",
                json_string(llm_model_probe(llm_model_at(models, i), probe_us, why) < 0 ? why
                                                                                        : ""));
        (void) json_array_append_new(list, json);
    }
    print_line(json_pack("{s:o}", "models", list));
}

int main(void)
{
    json_t *in = json_loadf(stdin, 0, NULL), *c = json_object_get(in, "config");
    char **specs = list_of(json_object_get(c, "models"));
    char **keys = list_of(json_object_get(c, "model_keys"));
    char **env = list_of(json_object_get(c, "environ"));
    struct llm_config config = {
        .models = specs,
        .model_keys = keys,
        .environ = env,
        .use = json_string_value(json_object_get(c, "use")),
        .find_local = json_is_true(json_object_get(c, "find_local")),
        .demo = json_is_true(json_object_get(c, "demo")),
        .connect_us = number(c, "connect_ms", 0) * USEC_PER_MSEC,
        .idle_us = number(c, "idle_ms", 0) * USEC_PER_MSEC,
        .reply_bytes_max = number(c, "reply_bytes_max", 0),
        .retries = (int) number(c, "retries", -1),
    };
    struct llm_models *models = NULL;
    struct gb_err err = { 0 };
    int r;

    if (!in)
        return 2;
    r = llm_models_open(&config, &models, &err);
    if (r < 0) {
        print_line(json_pack("{s:s}", "open", err.msg));
        r = 1;
    } else if (json_object_get(in, "request")) {
        r = ask(models, in);
    } else {
        print_models(models, number(in, "probe_ms", 0) * USEC_PER_MSEC);
    }
    llm_models_close(models);
    strv_free(specs);
    strv_free(keys);
    strv_free(env);
    json_decref(in);
    return r;
}
