/*
 * Whether a model can be asked, without asking it: a list of models costs nothing. Servers that
 * have none are there all the same.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "mark/llm/internal.h"
#include "mark/llm/json_in.h"
#include "mark/llm/net.h"
#include "mark/llm/text.h"

#include "base/banned.h"

#define LIST_BYTES_MAX ((size_t) 4 * 1024 * 1024)

static bool on_data(void *arg, int status, const char *data, size_t len)
{
    (void) status;
    return text_add(arg, data, len, LIST_BYTES_MAX) == 0;
}

/* The address of the list, beside that of the endpoint. */
static char *list_url(const struct llm_model *model)
{
    bool anthropic = model->kind == LLM_KIND_ANTHROPIC;
    size_t end_len = strlen(anthropic ? "/messages" : "/chat/completions");
    char *url = NULL;

    if (asprintf(&url, "%.*s/models%s", (int) (strlen(model->url) - end_len), model->url,
                 anthropic ? "?limit=1000" : "") < 0)
        return NULL;
    return url;
}

/* Whether there is a list and the model is not on it. Names that a gateway makes up may be missing,
 * so only the vendors and servers of this machine are held to it. */
static bool is_missing(const struct llm_model *model, const struct text *body)
{
    json_t *json = json_in_object(text_str(body), body->len);
    const json_t *list = json_object_get(json, "data"), *entry;
    bool missing = json_array_size(list) > 0 && (model->vendor || model->loopback);
    size_t i;

    json_array_foreach (list, i, entry) {
        const char *id = json_in_string(entry, "id");
        size_t len = strlen(model->model);

        /* "claude-sonnet-5-5" may stand for a dated one, "llama3" for "llama3:latest" */
        if (id && strncmp(id, model->model, len) == 0)
            missing = false;
    }
    json_decref(json);
    return missing;
}

static int judge(const struct llm_model *model, const struct net_reply *reply,
                 const struct text *body, char buf[LLM_PROBE_MAX])
{
    int status = reply->status;

    if (reply->end == NET_SILENT)
        (void) snprintf(buf, LLM_PROBE_MAX, "no answer from %.100s in time", model->where);
    else if (status == 0)
        (void) snprintf(buf, LLM_PROBE_MAX, "no connection with %.90s: %.80s", model->where,
                        reply->why);
    else if (status == 401 || status == 403)
        (void) snprintf(buf, LLM_PROBE_MAX, "%.100s %s", model->where,
                        model->key ? "does not accept the key" : "needs a key: --model-key");
    else if (status >= 300 && status < 400)
        (void) snprintf(buf, LLM_PROBE_MAX, "%.100s redirects, which is not followed",
                        model->where);
    else if (status >= 500 || status == 429)
        (void) snprintf(buf, LLM_PROBE_MAX, "%.100s replied %d", model->where, status);
    else if (status == 200 && is_missing(model, body))
        (void) snprintf(buf, LLM_PROBE_MAX, "%.80s has no model '%.80s'", model->where,
                        model->model);
    else
        return 0;
    llm_redact_text(buf, model->key);
    for (char *p = buf; *p; p++)
        if (*p < ' ' || *p > '~')
            *p = '?';
    return -EHOSTUNREACH;
}

int llm_model_probe(const struct llm_model *model, int64_t timeout_us, char buf[LLM_PROBE_MAX])
{
    autofree char *url = NULL;
    char **headers = NULL;
    struct text body = { 0 };
    struct net_reply reply;
    struct net_request request = { .loopback = model->loopback,
                                   .connect_us = timeout_us,
                                   .idle_us = timeout_us,
                                   .total_us = timeout_us,
                                   .bytes_max = LIST_BYTES_MAX,
                                   .cancel_fd = -1,
                                   .data = on_data,
                                   .arg = &body };
    int r;

    if (model->kind == LLM_KIND_SCRIPT || model->kind == LLM_KIND_CASSETTE ||
        model->kind == LLM_KIND_DEMO)
        return 0;
    url = list_url(model);
    if (!url || headers_make(model, dialect_of(model, 0), &headers) < 0) {
        (void) snprintf(buf, LLM_PROBE_MAX, "there is no memory");
        return -ENOMEM;
    }
    request.url = url;
    request.headers = (const char *const *) headers;
    net_exchange(model->net, &request, &reply);
    r = judge(model, &reply, &body, buf);
    headers_free(headers);
    text_release(&body);
    return r;
}
