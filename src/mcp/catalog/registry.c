/*
 * What tools, prompts and resources there are.
 *
 * Everything is a row of some table and is entered once. A row that is taken out is only hidden, so
 * that whoever just found it can go on with it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/parse.h"
#include "mcp/mcp_internal.h"

#include "base/banned.h"

#define TOOLS_MAX     64
#define PROMPTS_MAX   32
#define RESOURCES_MAX 32

struct registry {
    pthread_mutex_t lock;
    struct {
        const struct mcp_tool *tool;
        json_t *json, *input; /* as listed; its inputSchema */
        bool hidden;
    } tools[TOOLS_MAX];
    struct {
        const struct mcp_prompt *prompt;
        bool hidden;
    } prompts[PROMPTS_MAX];
    const struct mcp_resource *resources[RESOURCES_MAX];
    size_t tools_len, prompts_len, resources_len;
};

int registry_open(struct mcp *mcp)
{
    mcp->registry = calloc(1, sizeof *mcp->registry);
    if (!mcp->registry)
        return -ENOMEM;
    pthread_mutex_init(&mcp->registry->lock, NULL);
    return 0;
}

void registry_close(struct mcp *mcp)
{
    struct registry *r = mcp->registry;

    if (!r)
        return;
    for (size_t i = 0; i < r->tools_len; i++)
        json_decref(r->tools[i].json);
    pthread_mutex_destroy(&r->lock);
    free(r);
}

/* ---- texts with numbers in them ---- */

static const char *number_of(const struct mcp *mcp, const json_t *limits, const char *name,
                             char buf[FORMAT_NUMBER_MAX])
{
    const json_t *session = json_object_get(limits, "session");

    if (strcmp(name, "timeout") == 0)
        format_fixed(mcp->config.wall_default_us, USEC_PER_SEC, buf);
    else if (strcmp(name, "timeout_max") == 0)
        format_fixed(mcp->config.wall_max_us, USEC_PER_SEC, buf);
    else if (strcmp(name, "reply") == 0)
        snprintf(buf, FORMAT_NUMBER_MAX, "%lld", (long long) mcp->config.reply_bytes);
    else if (strcmp(name, "memory") == 0)
        format_size(json_integer_value(json_object_get(session, "memory")), buf);
    else if (strcmp(name, "disk") == 0)
        format_size(json_integer_value(json_object_get(session, "disk")), buf);
    else if (strcmp(name, "idle") == 0)
        snprintf(buf, FORMAT_NUMBER_MAX, "%g",
                 json_number_value(
                     json_object_get(json_object_get(limits, "sessions"), "idle_timeout")));
    else
        return NULL;
    return buf;
}

char *describe_fill(struct mcp *mcp, const char *text)
{
    json_t *limits = service_limits_to_json(mcp->config.service);
    size_t size = strlen(text) + 1024, used = 0;
    char *out = malloc(size);

    while (out && *text && used + FORMAT_NUMBER_MAX < size) {
        size_t len = *text == '{' ? strspn(text + 1, "abcdefghijklmnopqrstuvwxyz_") : 0;
        char name[16] = "", number[FORMAT_NUMBER_MAX];

        if (len > 0 && len < sizeof name && text[len + 1] == '}') {
            memcpy(name, text + 1, len);
            if (number_of(mcp, limits, name, number)) {
                used += (size_t) snprintf(out + used, size - used, "%s", number);
                text += len + 2;
                continue;
            }
        }
        out[used++] = *text++;
    }
    if (out)
        out[used] = '\0';
    json_decref(limits);
    return out;
}

/* ---- tools ---- */

static json_t *parse(const char *text)
{
    return text ? json_loads(text, JSON_DECODE_ANY, NULL) : NULL;
}

static json_t *tool_to_json(struct mcp *mcp, const struct mcp_tool *tool)
{
    autofree char *description = describe_fill(mcp, tool->description);
    autofree char *input = describe_fill(mcp, tool->input);
    json_t *json = json_pack("{s:s, s:s, s:s, s:o}", "name", tool->name, "title", tool->title,
                             "description", description, "inputSchema", parse(input));

    if (json && tool->output)
        (void) json_object_set_new(json, "outputSchema", parse(tool->output));
    if (json && tool->annotations)
        (void) json_object_set_new(json, "annotations", parse(tool->annotations));
    return json;
}

void registry_add_tool(struct mcp *mcp, const struct mcp_tool *tool)
{
    struct registry *r = mcp->registry;
    json_t *json = tool_to_json(mcp, tool);
    size_t i;

    pthread_mutex_lock(&r->lock);
    for (i = 0; i < r->tools_len && r->tools[i].tool != tool; i++)
        ;
    if (i < r->tools_len) {
        r->tools[i].hidden = false;
        json_decref(json);
    } else if (json && i < TOOLS_MAX) {
        r->tools[i].tool = tool;
        r->tools[i].json = json;
        r->tools[i].input = json_object_get(json, "inputSchema");
        r->tools_len++;
    }
    pthread_mutex_unlock(&r->lock);
    change_publish(mcp, CHANGE_TOOLS, "", NULL);
}

void registry_remove_tool(struct mcp *mcp, const char *name)
{
    struct registry *r = mcp->registry;

    pthread_mutex_lock(&r->lock);
    for (size_t i = 0; i < r->tools_len; i++)
        if (strcmp(r->tools[i].tool->name, name) == 0)
            r->tools[i].hidden = true;
    pthread_mutex_unlock(&r->lock);
    change_publish(mcp, CHANGE_TOOLS, "", NULL);
}

const struct mcp_tool *registry_tool(struct mcp *mcp, const char *name)
{
    const struct mcp_tool *tool = NULL;
    struct registry *r = mcp->registry;

    pthread_mutex_lock(&r->lock);
    for (size_t i = 0; i < r->tools_len && !tool; i++)
        if (!r->tools[i].hidden && strcmp(r->tools[i].tool->name, name) == 0)
            tool = r->tools[i].tool;
    pthread_mutex_unlock(&r->lock);
    return tool;
}

const json_t *registry_tool_input(struct mcp *mcp, const struct mcp_tool *tool)
{
    struct registry *r = mcp->registry;
    const json_t *input = NULL;

    pthread_mutex_lock(&r->lock);
    for (size_t i = 0; i < r->tools_len; i++)
        if (r->tools[i].tool == tool)
            input = r->tools[i].input;
    pthread_mutex_unlock(&r->lock);
    return input;
}

/* A deep copy: reference counts are not for two threads. */
json_t *registry_tools_to_json(struct mcp *mcp)
{
    struct registry *r = mcp->registry;
    json_t *list = json_array();

    pthread_mutex_lock(&r->lock);
    for (size_t i = 0; i < r->tools_len; i++)
        if (!r->tools[i].hidden)
            (void) json_array_append_new(list, json_deep_copy(r->tools[i].json));
    pthread_mutex_unlock(&r->lock);
    return list;
}

/* ---- prompts ---- */

void registry_add_prompt(struct mcp *mcp, const struct mcp_prompt *prompt)
{
    struct registry *r = mcp->registry;
    size_t i;

    pthread_mutex_lock(&r->lock);
    for (i = 0; i < r->prompts_len && r->prompts[i].prompt != prompt; i++)
        ;
    if (i < PROMPTS_MAX) {
        r->prompts[i].prompt = prompt;
        r->prompts[i].hidden = false;
        if (i == r->prompts_len)
            r->prompts_len++;
    }
    pthread_mutex_unlock(&r->lock);
    change_publish(mcp, CHANGE_PROMPTS, "", NULL);
}

void registry_remove_prompt(struct mcp *mcp, const char *name)
{
    struct registry *r = mcp->registry;

    pthread_mutex_lock(&r->lock);
    for (size_t i = 0; i < r->prompts_len; i++)
        if (strcmp(r->prompts[i].prompt->name, name) == 0)
            r->prompts[i].hidden = true;
    pthread_mutex_unlock(&r->lock);
    change_publish(mcp, CHANGE_PROMPTS, "", NULL);
}

const struct mcp_prompt *registry_prompt(struct mcp *mcp, const char *name)
{
    const struct mcp_prompt *prompt = NULL;
    struct registry *r = mcp->registry;

    pthread_mutex_lock(&r->lock);
    for (size_t i = 0; i < r->prompts_len && !prompt; i++)
        if (!r->prompts[i].hidden && strcmp(r->prompts[i].prompt->name, name) == 0)
            prompt = r->prompts[i].prompt;
    pthread_mutex_unlock(&r->lock);
    return prompt;
}

static json_t *prompt_to_json(const struct mcp_prompt *prompt)
{
    json_t *json = json_pack("{s:s, s:s, s:s}", "name", prompt->name, "title", prompt->title,
                             "description", prompt->description);
    json_t *list = json_array();

    for (const struct mcp_prompt_argument *a = prompt->arguments; a && a->name; a++)
        (void) json_array_append_new(list,
                                     json_pack("{s:s, s:s, s:b}", "name", a->name, "description",
                                               a->description, "required", a->required));
    (void) json_object_set_new(json, "arguments", list);
    return json;
}

json_t *registry_prompts_to_json(struct mcp *mcp)
{
    struct registry *r = mcp->registry;
    json_t *list = json_array();

    pthread_mutex_lock(&r->lock);
    for (size_t i = 0; i < r->prompts_len; i++)
        if (!r->prompts[i].hidden)
            (void) json_array_append_new(list, prompt_to_json(r->prompts[i].prompt));
    pthread_mutex_unlock(&r->lock);
    return list;
}

/* ---- resources; these never change ---- */

void registry_add_resource(struct mcp *mcp, const struct mcp_resource *resource)
{
    struct registry *r = mcp->registry;

    if (r->resources_len < RESOURCES_MAX)
        r->resources[r->resources_len++] = resource;
}

json_t *registry_resources_to_json(struct mcp *mcp, bool templates)
{
    struct registry *r = mcp->registry;
    json_t *list = json_array(), *json;

    for (size_t i = 0; i < r->resources_len; i++) {
        const struct mcp_resource *row = r->resources[i];

        if (row->template != templates)
            continue;
        json = json_pack("{s:s, s:s, s:s, s:s}", templates ? "uriTemplate" : "uri", row->uri,
                         "name", row->name, "title", row->title, "description", row->description);
        if (json && row->mime)
            (void) json_object_set_new(json, "mimeType", json_string(row->mime));
        (void) json_array_append_new(list, json);
    }
    return list;
}

bool registry_read(struct mcp_call *call, const char *uri)
{
    struct registry *r = call->mcp->registry;

    for (size_t i = 0; i < r->resources_len; i++)
        if (r->resources[i]->read(call, uri))
            return true;
    return false;
}
