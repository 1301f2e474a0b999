/* JSON-RPC 2.0: what is a message, and of which kind. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/text/json_depth.h"
#include "mcp/mcp_internal.h"

#include "base/banned.h"

#define DEPTH_MAX 64

json_t *message_parse(const char *text, size_t len, char why[200])
{
    json_error_t error;
    json_t *json;

    /* The parser is recursive, and its stack is ours. */
    if (json_too_deep(text, len, DEPTH_MAX)) {
        snprintf(why, 200, "the message is nested more than %d levels deep", DEPTH_MAX);
        return NULL;
    }
    json = json_loadb(text, len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
    if (!json)
        snprintf(why, 200, "the message is not JSON: %.120s (line %d, column %d)", error.text,
                 error.line, error.column);
    return json;
}

json_t *message_object(const json_t *object, const char *name)
{
    json_t *value = json_object_get(object, name);

    return json_is_object(value) ? value : NULL;
}

static bool is_id(const json_t *id)
{
    return json_is_string(id) || json_is_integer(id);
}

static enum message_kind bad(const char **ret_why, const char *why)
{
    *ret_why = why;
    return MESSAGE_BAD;
}

enum message_kind message_kind(const json_t *message, const char **ret_why)
{
    const json_t *method = json_object_get(message, "method"), *id = json_object_get(message, "id");
    const char *version = json_string_value(json_object_get(message, "jsonrpc"));

    if (!json_is_object(message))
        return bad(ret_why, "a message must be a JSON object");
    if (!version || strcmp(version, "2.0") != 0)
        return bad(ret_why, "jsonrpc must be \"2.0\"");
    if (method) {
        if (!json_is_string(method))
            return bad(ret_why, "method must be a string");
        if (id && !is_id(id))
            return bad(ret_why, "id must be a string or an integer");
        return id ? MESSAGE_REQUEST : MESSAGE_NOTIFICATION;
    }
    if (!json_object_get(message, "result") == !json_object_get(message, "error"))
        return bad(ret_why, "a message must have exactly one of method, result and error");
    if (!json_object_get(message, "error") && !is_id(id))
        return bad(ret_why, "a response must have the id of its request");
    return MESSAGE_RESPONSE;
}

json_t *message_notification(const char *method, json_t *params)
{
    return json_pack("{s:s, s:s, s:o}", "jsonrpc", "2.0", "method", method, "params",
                     params ? params : json_object());
}

char *message_response(json_t *id, const char *member, json_t *value, const char *name,
                       const char *json)
{
    autofree char *id_text = id ? json_dumps(id, MCP_JSON) : strdup("null");
    autofree char *text = json_dumps(value, MCP_JSON);
    const char *rest = text ? text + 1 : NULL; /* after the brace */
    char *message = NULL;
    int len;

    json_decref(value);
    if (!id_text || !text)
        return NULL;
    if (name)
        len = asprintf(&message, "{\"jsonrpc\":\"2.0\",\"id\":%s,\"%s\":{\"%s\":%s%s%s}", id_text,
                       member, name, json, *rest == '}' ? "" : ",", rest);
    else
        len =
            asprintf(&message, "{\"jsonrpc\":\"2.0\",\"id\":%s,\"%s\":%s}", id_text, member, text);
    return len < 0 ? NULL : message;
}
