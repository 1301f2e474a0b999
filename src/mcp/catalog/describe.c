/* Descriptions with the configured numbers and the installed packages in them: a model has no other
 * way to learn its limits, and writes for the versions that it is told. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text/parse.h"
#include "mcp/mcp_internal.h"

#include "base/banned.h"

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

static const char *packages_of(const struct mcp *mcp)
{
    const char *text = service_packages_text(mcp->config.service);

    return text[0] ? text : "a few packages";
}

char *describe_fill(struct mcp *mcp, const char *text)
{
    json_t *limits = strchr(text, '{') ? service_limits_to_json(mcp->config.service) : NULL;
    size_t size = strlen(text) + 1024 + 2 * SERVICE_PACKAGES_MAX, used = 0;
    char *out = malloc(size);

    while (out && *text && used + SERVICE_PACKAGES_MAX < size) {
        size_t len = *text == '{' ? strspn(text + 1, "abcdefghijklmnopqrstuvwxyz_") : 0;
        char name[16] = "", number[FORMAT_NUMBER_MAX];
        const char *value = NULL;

        if (len > 0 && len < sizeof name && text[len + 1] == '}') {
            memcpy(name, text + 1, len);
            value = strcmp(name, "packages") == 0 ? packages_of(mcp)
                                                  : number_of(mcp, limits, name, number);
        }
        if (value) {
            used += (size_t) snprintf(out + used, size - used, "%s", value);
            text += len + 2;
            continue;
        }
        out[used++] = *text++;
    }
    if (out)
        out[used] = '\0';
    json_decref(limits);
    return out;
}

/* ---- tables ---- */

/* The copy, its rows and its strings are separate allocations; the rows are in the original order,
 * and each help string is a copy. */
void describe_schema_free(struct schema *schema)
{
    if (!schema)
        return;
    for (const struct field *field = schema->fields; field && field->name; field++)
        free((char *) field->help);
    free((struct field *) schema->fields);
    free(schema);
}

struct schema *describe_schema(struct mcp *mcp, const struct schema *schema)
{
    struct schema *copy = malloc(sizeof *copy);
    struct field *fields;
    size_t len = 0;

    while (schema->fields[len].name)
        len++;
    fields = calloc(len + 1, sizeof *fields);
    if (!copy || !fields) {
        free(copy);
        free(fields);
        return NULL;
    }
    *copy = *schema;
    copy->fields = fields;
    for (size_t i = 0; i < len; i++) {
        fields[i] = schema->fields[i];
        if (fields[i].type == FIELD_SECONDS && fields[i].max == MCP_WALL_MAX)
            fields[i].max = mcp->config.wall_max_us;
        if (fields[i].help && !(fields[i].help = describe_fill(mcp, fields[i].help))) {
            describe_schema_free(copy);
            return NULL;
        }
    }
    return copy;
}
