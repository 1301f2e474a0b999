/*
 * Eras: how a message says to which revision it belongs, and what that revision requires.
 *
 * Up to 2025-11-25 a client starts a session with `initialize`, which also negotiates the revision.
 * From 2026-07-28 on there are no sessions: every request carries its revision and the client's
 * capabilities in params._meta, and over HTTP headers repeat what a proxy may want to know. The
 * body decides; headers are checked against it. A message whose body names no revision belongs to
 * the old era, unless its header names the new one: then the body is incomplete, and the message is
 * refused instead of being served as something else. The order of the checks is that of the
 * official server.
 */
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/text/utf8.h"
#include "mcp/mcp_internal.h"

#include "base/banned.h"

#define META_VERSION      MCP_META "protocolVersion"
#define META_CAPABILITIES MCP_META "clientCapabilities"
#define META_CLIENT       MCP_META "clientInfo"
#define META_LEVEL        MCP_META "logLevel"

#define BASE64_PREFIX "=?base64?"
#define BASE64_SUFFIX "?="
#define HEADER_MAX    8192 /* size of a decoded value */

static const char *const legacy_versions[] = { "2025-11-25", "2025-06-18", "2025-03-26",
                                               "2024-11-05", NULL };

const char *const *era_legacy_versions(void)
{
    return legacy_versions;
}

json_t *era_modern_versions(void)
{
    return json_pack("[s]", MCP_MODERN_VERSION);
}

bool era_is_legacy_version(const char *version)
{
    for (const char *const *v = legacy_versions; *v; v++)
        if (strcmp(*v, version) == 0)
            return true;
    return false;
}

/* Revisions are dates and compare as text; anything that sorts later counts as new. */
static bool is_modern(const char *version)
{
    return strcmp(version, MCP_MODERN_VERSION) >= 0;
}

/* ---- the envelope: required members of _meta ---- */

/* Fills @why if the envelope is incomplete. */
static bool check_envelope(const json_t *meta, char why[160])
{
    const json_t *client = json_object_get(meta, META_CLIENT);
    const json_t *level = json_object_get(meta, META_LEVEL);
    const char *wrong = NULL, *problem = "is missing";
    int unused;

    if (!meta) {
        snprintf(why, 160, "_meta is missing");
        return false;
    }
    if (!json_is_string(json_object_get(meta, META_VERSION)))
        wrong = META_VERSION;
    else if (!json_is_object(json_object_get(meta, META_CAPABILITIES)))
        wrong = META_CAPABILITIES;
    if (wrong && json_object_get(meta, wrong))
        problem = "has the wrong type";
    if (!wrong && client &&
        (!json_is_string(json_object_get(client, "name")) ||
         !json_is_string(json_object_get(client, "version")))) {
        wrong = META_CLIENT;
        problem = "must have a name and a version";
    }
    if (!wrong && level &&
        (!json_is_string(level) || !mcp_level_find(json_string_value(level), &unused))) {
        wrong = META_LEVEL;
        problem = "must be a level such as info";
    }
    if (wrong)
        snprintf(why, 160, "_meta: %s %s", wrong, problem);
    return !wrong;
}

/* ---- headers ---- */

/* The decoded value of a header in *@ret_text; false if it cannot be decoded. */
static bool decode_value(const char *value, char *buf, size_t size, const char **ret_text)
{
    size_t len, prefix = strlen(BASE64_PREFIX), suffix = strlen(BASE64_SUFFIX), used = 0;

    value += strspn(value, " \t");
    len = strlen(value);
    while (len > 0 && strchr(" \t", value[len - 1]))
        len--;
    if (len >= size)
        return false;
    if (len < prefix + suffix || strncmp(value, BASE64_PREFIX, prefix) != 0 ||
        strncmp(value + len - suffix, BASE64_SUFFIX, suffix) != 0) {
        memcpy(buf, value, len);
        buf[len] = '\0';
        *ret_text = buf;
        return true;
    }
    if (sodium_base642bin((unsigned char *) buf, size - 1, value + prefix, len - prefix - suffix,
                          NULL, &used, NULL, sodium_base64_VARIANT_ORIGINAL) != 0 ||
        memchr(buf, 0, used) || !utf8_valid(buf, used))
        return false;
    buf[used] = '\0';
    *ret_text = buf;
    return true;
}

static int mismatch(struct mcp_call *call, const char *header, const char *problem)
{
    call_fail(call, MCP_HEADER_MISMATCH, "headers and body disagree: the header %s %s", header,
              problem);
    return -1;
}

/* The member of params that Mcp-Name repeats. */
static const char *name_source(const char *method)
{
    static const struct {
        const char *method, *member;
    } rows[] = { { "tools/call", "name" }, { "prompts/get", "name" }, { "resources/read", "uri" } };

    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (strcmp(rows[i].method, method) == 0)
            return rows[i].member;
    return NULL;
}

static int check_name(struct mcp_call *call, const struct mcp_headers *headers, const char *method)
{
    const char *source = name_source(method), *text;
    const char *body = source ? json_string_value(json_object_get(call->params, source)) : NULL;
    char buf[HEADER_MAX];

    if (!source)
        return 0;
    if (!headers->name)
        return body ? mismatch(call, "Mcp-Name", "is missing") : 0;
    if (!decode_value(headers->name, buf, sizeof buf, &text))
        return mismatch(call, "Mcp-Name", "is not valid base64, or too long");
    if (body && strcmp(body, text) != 0)
        return mismatch(call, "Mcp-Name", "does not match the body");
    return 0;
}

/* As text in the form of a header; false for values that a header cannot have. */
static bool primitive_text(const json_t *value, char *buf, size_t size)
{
    if (json_is_integer(value))
        return snprintf(buf, size, "%lld", (long long) json_integer_value(value)) > 0;
    if (json_is_boolean(value))
        return snprintf(buf, size, "%s", json_is_true(value) ? "true" : "false") > 0;
    return json_is_string(value) &&
           (size_t) snprintf(buf, size, "%s", json_string_value(value)) < size;
}

int era_check_params(struct mcp_call *call, const struct mcp_headers *headers)
{
    const char *name = json_string_value(json_object_get(call->params, "name"));
    const json_t *arguments = message_object(call->params, "arguments");
    struct tool_entry entry;
    const char *key;
    json_t *row;

    if (!name || !registry_tool(call->mcp, name, &entry))
        return 0;
    json_object_foreach (message_object(entry.json_input, "properties"), key, row) {
        const char *header = json_string_value(json_object_get(row, "x-mcp-header")), *value, *text;
        char body[HEADER_MAX], buf[HEADER_MAX], full[96];

        if (!header || !primitive_text(json_object_get(arguments, key), body, sizeof body))
            continue;
        snprintf(full, sizeof full, "Mcp-Param-%s", header);
        value = headers->param ? headers->param(headers->arg, full) : NULL;
        if (!value)
            return mismatch(call, full, "is missing");
        if (!decode_value(value, buf, sizeof buf, &text))
            return mismatch(call, full, "is not valid base64, or too long");
        if (strcmp(text, body) != 0)
            return mismatch(call, full, "does not match the arguments");
    }
    return 0;
}

static int check_headers(struct mcp_call *call, const struct mcp_headers *headers,
                         const char *method)
{
    if (!headers->version)
        return mismatch(call, "MCP-Protocol-Version", "is missing");
    if (!headers->method)
        return mismatch(call, "Mcp-Method", "is missing");
    return check_name(call, headers, method);
}

/* ---- which era ---- */

static int refuse_version(struct mcp_call *call, const char *version)
{
    call_fail_data(
        call, MCP_NO_VERSION,
        json_pack("{s:o, s:s}", "supported", era_modern_versions(), "requested", version),
        "unsupported protocol version; supported: " MCP_MODERN_VERSION);
    return -1;
}

static int check_modern(struct mcp_call *call, const struct mcp_headers *headers,
                        const char *method, bool request)
{
    const char *version = json_string_value(json_object_get(call->meta, META_VERSION));
    const json_t *level = json_object_get(call->meta, META_LEVEL);

    call->era = MCP_MODERN;
    if (headers && headers->version && version && strcmp(headers->version, version) != 0)
        return mismatch(call, "MCP-Protocol-Version", "does not match _meta");
    if (headers && headers->method && strcmp(headers->method, method) != 0)
        return mismatch(call, "Mcp-Method", "does not match the body");
    if (!version)
        version = headers->version; /* a notification, which need not name a revision */
    if (strcmp(version, MCP_MODERN_VERSION) != 0)
        return refuse_version(call, version);
    call->capabilities = message_object(call->meta, META_CAPABILITIES);
    call->log_level = MCP_LOG_OFF;
    if (level)
        (void) mcp_level_find(json_string_value(level), &call->log_level);
    return headers && request ? check_headers(call, headers, method) : 0;
}

/* Only a complete envelope puts an initialize into the new era, which does not have that method. */
static bool claims(const struct mcp_call *call, const char *method)
{
    const char *version = json_string_value(json_object_get(call->meta, META_VERSION));
    char why[160];

    if (strcmp(method, "initialize") != 0)
        return json_object_get(call->meta, META_VERSION) != NULL;
    return version && is_modern(version) && check_envelope(call->meta, why);
}

int era_check(struct mcp_call *call, const struct mcp_arrival *arrival, bool request)
{
    const char *method = json_string_value(json_object_get(call->message, "method"));
    const struct mcp_headers *headers = arrival->headers;
    bool header_modern = headers && headers->version && is_modern(headers->version);
    char why[160];

    call->era = MCP_LEGACY;
    if (claims(call, method)) {
        if (request ? !check_envelope(call->meta, why)
                    : !json_is_string(json_object_get(call->meta, META_VERSION))) {
            call->era = MCP_MODERN;
            call_fail(call, MCP_INVALID_PARAMS, "%s",
                      request ? why : "_meta: " META_VERSION " must be a string");
            call->status = 400;
            return -1;
        }
        return check_modern(call, headers, method, request);
    }
    if (!header_modern)
        return 0;
    if (strcmp(method, "initialize") == 0)
        return mismatch(call, "MCP-Protocol-Version",
                        "names a revision without initialize; omit it");
    if (!request)
        return check_modern(call, headers, method, false);
    call->era = MCP_MODERN;
    (void) check_envelope(call->meta, why);
    call_fail(call, MCP_INVALID_PARAMS,
              "%s; the revision in the header MCP-Protocol-Version requires it", why);
    call->status = 400;
    return -1;
}
