/*
 * Local servers: GET /v1/models at the usual ports, all at once, for at most a second.
 *
 * Whatever answers there may be anything: a development server at 8000, we ourselves at 8080, which
 * is also the port of llama.cpp. So only a list in the form of that API counts, which nothing of
 * ours has. Ollama also says what each model can do, in an API of its own.
 */
#include "mark/llm/local.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/grow.h"
#include "mark/llm/json_in.h"

#include "base/banned.h"

#define FIND_US      (800 * USEC_PER_MSEC)
#define SHOW_US      (200 * USEC_PER_MSEC)
#define MODELS_MAX   32
#define SERVERS_MAX  8
#define ID_BYTES_MAX 200

const struct local_server local_servers[] = {
    { "Ollama", 11434 },
    { "LM Studio", 1234 },
    { "llama.cpp", 8080 },
    { "vLLM", 8000 },
};
const size_t local_servers_len = ARRAY_LEN(local_servers);

struct found {
    struct local_model *models;
    size_t len, cap;
};

/* Models that do not chat are listed, too. */
static bool can_chat(const char *id)
{
    static const char *const others[] = { "embed", "bge-", "rerank", "whisper", "tts" };

    for (size_t i = 0; i < ARRAY_LEN(others); i++)
        if (strcasestr(id, others[i]))
            return false;
    return true;
}

static bool id_is_good(const char *id)
{
    size_t len = id ? strlen(id) : 0;

    if (len == 0 || len > ID_BYTES_MAX)
        return false;
    for (size_t i = 0; i < len; i++)
        if (id[i] <= ' ' || id[i] >= 0x7f)
            return false;
    return can_chat(id);
}

static int add_model(struct found *found, const struct local_server *server, const json_t *entry)
{
    const char *id = json_in_string(entry, "id");
    struct local_model *grown;
    int64_t context = json_in_count(entry, "max_model_len"); /* vLLM */

    if (!id_is_good(id) || found->len >= MODELS_MAX)
        return 0;
    if (context <= 0) /* llama.cpp: what it was started with; older ones tell only the model's */
        context = json_in_count(json_object_get(entry, "meta"), "n_ctx");
    grown = grow(found->models, &found->cap, found->len + 1, sizeof *grown, 4);
    if (!grown)
        return -ENOMEM;
    found->models = grown;
    grown[found->len] = (struct local_model){ .model = strdup(id),
                                              .server = server->name,
                                              .port = server->port,
                                              .context = context > 0 ? context : 0 };
    return grown[found->len++].model ? 0 : -ENOMEM;
}

static int read_list(struct found *found, const struct local_server *server,
                     const struct net_fetch *fetch)
{
    json_t *body =
        fetch->status == 200 ? json_in_object(text_str(&fetch->body), fetch->body.len) : NULL;
    const json_t *entry;
    size_t i;
    int r = 0;

    json_array_foreach (json_object_get(body, "data"), i, entry)
        if (r == 0)
            r = add_model(found, server, entry);
    json_decref(body);
    return r;
}

/* ---- what Ollama says of a model ---- */

static bool lists(const json_t *array, const char *word)
{
    const json_t *item;
    size_t i;

    json_array_foreach (array, i, item)
        if (json_is_string(item) && strcmp(json_string_value(item), word) == 0)
            return true;
    return false;
}

static void read_show(struct local_model *model, const struct net_fetch *fetch)
{
    json_t *body =
        fetch->status == 200 ? json_in_object(text_str(&fetch->body), fetch->body.len) : NULL;
    const json_t *capabilities = json_object_get(body, "capabilities");
    const char *parameters = json_in_string(body, "parameters");
    const char *line = parameters ? strstr(parameters, "num_ctx") : NULL;

    if (json_array_size(capabilities) > 0)
        model->no_tools = !lists(capabilities, "tools");
    if (line)
        model->context = strtoll(line + strlen("num_ctx"), NULL, 10);
    if (model->context < 0 || model->context > INT64_C(100000000))
        model->context = 0;
    json_decref(body);
}

static void ask_ollama(struct net *net, struct found *found)
{
    struct net_fetch *fetches = calloc(found->len > 0 ? found->len : 1, sizeof *fetches);
    char **posts = calloc(found->len > 0 ? found->len : 1, sizeof *posts);
    size_t n = 0;

    for (size_t i = 0; fetches && posts && i < found->len; i++) {
        json_t *ask = json_pack("{s:s}", "model", found->models[i].model);

        if (strcmp(found->models[i].server, "Ollama") != 0) {
            json_decref(ask);
            continue;
        }
        posts[n] = ask ? json_dumps(ask, JSON_COMPACT) : NULL;
        fetches[n].post = posts[n];
        (void) snprintf(fetches[n].url, sizeof fetches[n].url, "http://127.0.0.1:%d/api/show",
                        found->models[i].port);
        json_decref(ask);
        n++;
    }
    if (n > 0)
        net_fetch_all(net, fetches, n, SHOW_US);
    n = 0;
    for (size_t i = 0; fetches && posts && i < found->len; i++)
        if (strcmp(found->models[i].server, "Ollama") == 0)
            read_show(&found->models[i], &fetches[n++]);
    for (size_t i = 0; i < n; i++) {
        text_release(&fetches[i].body);
        free(posts[i]);
    }
    free(posts);
    free(fetches);
}

int local_find(struct net *net, const struct local_server *servers, size_t servers_len,
               struct local_model **ret_models, size_t *ret_len)
{
    struct net_fetch fetches[SERVERS_MAX] = { 0 };
    struct found found = { 0 };
    int r = 0;

    if (servers_len > SERVERS_MAX)
        servers_len = SERVERS_MAX;
    for (size_t i = 0; i < servers_len; i++)
        (void) snprintf(fetches[i].url, sizeof fetches[i].url, "http://127.0.0.1:%d/v1/models",
                        servers[i].port);
    net_fetch_all(net, fetches, servers_len, FIND_US);
    for (size_t i = 0; i < servers_len; i++) {
        if (r == 0)
            r = read_list(&found, &servers[i], &fetches[i]);
        text_release(&fetches[i].body);
    }
    if (r < 0) {
        local_free(found.models, found.len);
        return r;
    }
    ask_ollama(net, &found);
    *ret_models = found.models;
    *ret_len = found.len;
    return 0;
}

char *local_first(struct net *net, const char *base)
{
    static const struct local_server server = { "", 0 };
    struct net_fetch fetch = { 0 };
    struct found found = { 0 };
    size_t len = strlen(base);
    char *first = NULL;

    while (len > 0 && base[len - 1] == '/')
        len--;
    if (snprintf(fetch.url, sizeof fetch.url, "%.*s/models", (int) len, base) <
        (int) sizeof fetch.url)
        net_fetch_all(net, &fetch, 1, FIND_US);
    if (read_list(&found, &server, &fetch) == 0 && found.len > 0)
        first = TAKE_PTR(found.models[0].model);
    text_release(&fetch.body);
    local_free(found.models, found.len);
    return first;
}

void local_free(struct local_model *models, size_t len)
{
    for (size_t i = 0; i < len; i++)
        free(models[i].model);
    free(models);
}
