/*
 * The registered tools, prompts and resources.
 *
 * Each is a row of some table and is registered once. A removed row is only hidden, so that a call
 * that has just found it can continue with it.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "mcp/mcp_internal.h"

#include "base/banned.h"

#define ENTRIES_MAX   64 /* tools, and prompts */
#define RESOURCES_MAX 32

struct entry {
    const char *name;
    const void *row;
    json_t *json;         /* as listed */
    struct schema *input; /* of a tool with a table; owned */
    bool hidden;
};

struct list {
    struct entry entries[ENTRIES_MAX];
    size_t len;
};

struct registry {
    pthread_mutex_t lock; /* guards the lists; resources never change */
    struct list tools, prompts;
    const struct mcp_resource *resources[RESOURCES_MAX];
    size_t resources_len;
};

static void entry_release(struct entry *entry)
{
    json_decref(entry->json);
    describe_schema_free(entry->input);
}

static void list_release(struct list *list)
{
    for (size_t i = 0; i < list->len; i++)
        entry_release(&list->entries[i]);
}

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
    list_release(&r->tools);
    list_release(&r->prompts);
    pthread_mutex_destroy(&r->lock);
    free(r);
}

/* ---- lists that can change ---- */

/* Takes what the entry owns. A row that was removed becomes visible again. */
static void list_add(struct mcp *mcp, struct list *list, struct entry entry)
{
    pthread_mutex_t *lock = &mcp->registry->lock;
    size_t i;

    pthread_mutex_lock(lock);
    for (i = 0; i < list->len && list->entries[i].row != entry.row; i++)
        ;
    if (i < list->len) {
        list->entries[i].hidden = false;
        entry_release(&entry);
    } else if (entry.json && i < ENTRIES_MAX) {
        list->entries[list->len++] = entry;
    } else {
        entry_release(&entry);
    }
    pthread_mutex_unlock(lock);
}

static void list_remove(struct mcp *mcp, struct list *list, const char *name)
{
    pthread_mutex_lock(&mcp->registry->lock);
    for (size_t i = 0; i < list->len; i++)
        if (strcmp(list->entries[i].name, name) == 0)
            list->entries[i].hidden = true;
    pthread_mutex_unlock(&mcp->registry->lock);
}

/* Entries never move and are never freed. */
static const struct entry *list_find(struct mcp *mcp, const struct list *list, const char *name)
{
    const struct entry *found = NULL;

    pthread_mutex_lock(&mcp->registry->lock);
    for (size_t i = 0; i < list->len && !found; i++)
        if (!list->entries[i].hidden && strcmp(list->entries[i].name, name) == 0)
            found = &list->entries[i];
    pthread_mutex_unlock(&mcp->registry->lock);
    return found;
}

/* A deep copy: reference counts are not thread-safe. */
static json_t *list_to_json(struct mcp *mcp, const struct list *list)
{
    json_t *json = json_array();

    pthread_mutex_lock(&mcp->registry->lock);
    for (size_t i = 0; i < list->len; i++)
        if (!list->entries[i].hidden)
            (void) json_array_append_new(json, json_deep_copy(list->entries[i].json));
    pthread_mutex_unlock(&mcp->registry->lock);
    return json;
}

/* ---- tools ---- */

static json_t *tool_to_json(struct mcp *mcp, const struct mcp_tool *tool,
                            const struct schema *input)
{
    autofree char *description = describe_fill(mcp, tool->description);
    json_t *input_json = input ? fields_to_whole_schema(input, true)
                               : json_loads(tool->input_text, JSON_DECODE_ANY, NULL);
    json_t *json =
        json_pack("{s:s, s:s, s:s, s:o, s:{s:b, s:b, s:b, s:b}}", "name", tool->name, "title",
                  tool->title, "description", description, "inputSchema", input_json, "annotations",
                  "readOnlyHint", (tool->hints & TOOL_READ_ONLY) != 0, "destructiveHint",
                  (tool->hints & TOOL_DESTRUCTIVE) != 0, "idempotentHint",
                  (tool->hints & TOOL_IDEMPOTENT) != 0, "openWorldHint",
                  (tool->hints & TOOL_OPEN_WORLD) != 0);

    if (json && tool->output)
        (void) json_object_set_new(json, "outputSchema",
                                   fields_to_whole_schema(tool->output, false));
    return json;
}

void registry_add_tool(struct mcp *mcp, const struct mcp_tool *tool)
{
    struct schema *input = tool->input ? describe_schema(mcp, tool->input) : NULL;

    if (tool->input && !input)
        return;
    list_add(mcp, &mcp->registry->tools,
             (struct entry){ .name = tool->name,
                             .row = tool,
                             .json = tool_to_json(mcp, tool, input),
                             .input = input });
    change_publish(mcp, CHANGE_TOOLS, NULL, NULL);
}

void registry_remove_tool(struct mcp *mcp, const char *name)
{
    list_remove(mcp, &mcp->registry->tools, name);
    change_publish(mcp, CHANGE_TOOLS, NULL, NULL);
}

bool registry_tool(struct mcp *mcp, const char *name, struct tool_entry *ret_entry)
{
    const struct entry *entry = list_find(mcp, &mcp->registry->tools, name);

    if (!entry)
        return false;
    *ret_entry = (struct tool_entry){ entry->row, entry->input,
                                      json_object_get(entry->json, "inputSchema") };
    return true;
}

json_t *registry_tools_to_json(struct mcp *mcp)
{
    return list_to_json(mcp, &mcp->registry->tools);
}

/* ---- prompts ---- */

static json_t *prompt_to_json(const struct mcp_prompt *prompt)
{
    json_t *list = json_array();

    for (const struct mcp_prompt_argument *a = prompt->arguments; a && a->name; a++)
        (void) json_array_append_new(list,
                                     json_pack("{s:s, s:s, s:b}", "name", a->name, "description",
                                               a->description, "required", a->required));
    return json_pack("{s:s, s:s, s:s, s:o}", "name", prompt->name, "title", prompt->title,
                     "description", prompt->description, "arguments", list);
}

void registry_add_prompt(struct mcp *mcp, const struct mcp_prompt *prompt)
{
    list_add(mcp, &mcp->registry->prompts,
             (struct entry){ .name = prompt->name, .row = prompt, .json = prompt_to_json(prompt) });
    change_publish(mcp, CHANGE_PROMPTS, NULL, NULL);
}

void registry_remove_prompt(struct mcp *mcp, const char *name)
{
    list_remove(mcp, &mcp->registry->prompts, name);
    change_publish(mcp, CHANGE_PROMPTS, NULL, NULL);
}

const struct mcp_prompt *registry_prompt(struct mcp *mcp, const char *name)
{
    const struct entry *entry = list_find(mcp, &mcp->registry->prompts, name);

    return entry ? entry->row : NULL;
}

json_t *registry_prompts_to_json(struct mcp *mcp)
{
    return list_to_json(mcp, &mcp->registry->prompts);
}

/* ---- resources ---- */

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
