/* /openapi.json: the routes and the schemas, as OpenAPI 3.1. Built once, at startup. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "server/about/schemas.h"
#include "server/admin/schemas.h"
#include "server/compat/schemas.h"
#include "server/handlers.h"
#include "server/mark/schemas.h"
#include "server/mcp/schemas.h"
#include "server/schema/schemas.h"
#include "server/server_internal.h"
#include "server/v1/schemas.h"

#include "base/banned.h"

static json_t *ref(const char *kind, const char *name)
{
    return json_pack("{s:s+++}", "$ref", "#/components/", kind, "/", name);
}

static json_t *content(const char *media, const struct schema *schema)
{
    return json_pack("{s:{s:o}}", media, "schema",
                     schema ? ref("schemas", schema->name) : json_object());
}

/* ---- parameters ---- */

/* The parameter whose brace is at *@at, which is moved past it. */
static json_t *path_parameter(const char **at)
{
    size_t len = strcspn(++*at, "}");
    const char *name = *at, *help = "an id";

    *at += len;
    if (strncmp(name, "path", len) == 0)
        help = "a path in the workspace; slashes need no encoding";
    else if (strncmp(name, "name", len) == 0)
        help = "the name of a variable";
    return json_pack("{s:s%,s:s,s:b,s:s,s:{s:s}}", "name", name, len, "in", "path", "required", 1,
                     "description", help, "schema", "type", "string");
}

static json_t *parameters(const struct route *route)
{
    json_t *list = json_array();

    for (const char *at = strchr(route->pattern, '{'); at; at = strchr(at, '{'))
        (void) json_array_append_new(list, path_parameter(&at));
    if (route->flags & ROUTE_LABEL)
        (void) json_array_append_new(
            list, json_pack("{s:s,s:s,s:b,s:s,s:{s:s,s:s}}", "name", "X-Session-Id", "in", "header",
                            "required", 0, "description",
                            "a session name of your choice, created on first use, or a session id",
                            "schema", "type", "string", "pattern", "^[A-Za-z0-9._-]{1,64}$"));
    for (const struct field *f = route->query ? route->query->fields : NULL; f && f->name; f++)
        (void) json_array_append_new(
            list, json_pack("{s:s,s:s,s:b,s:s?,s:o}", "name", f->name, "in", "query", "required",
                            (f->flags & FIELD_REQUIRED) != 0, "description", f->help, "schema",
                            field_to_schema(f)));
    return list;
}

/* ---- bodies ---- */

static json_t *request_body(const struct route *route)
{
    bool required = false;
    json_t *json;

    switch (route->body) {
    case ROUTE_NO_BODY:
        return NULL;
    case ROUTE_JSON:
        for (const struct field *f = route->request->fields; f->name; f++)
            required = required || (f->flags & FIELD_REQUIRED);
        json = content("application/json", route->request);
        if (route->flags & ROUTE_FORM)
            (void) json_object_update_new(
                json, content("application/x-www-form-urlencoded", &schema_signin_form));
        return json_pack("{s:b,s:o}", "required", required, "content", json);
    case ROUTE_RAW:
        return json_pack("{s:b,s:{s:{}}}", "required", 1, "content", "application/octet-stream");
    case ROUTE_MULTIPART:
        return json_pack("{s:b,s:{s:{s:{s:s,s:{s:{s:s,s:{s:s,s:s}}}}}}}", "required", 1, "content",
                         "multipart/form-data", "schema", "type", "object", "properties", "file",
                         "type", "array", "items", "type", "string", "format", "binary");
    }
    return NULL;
}

/* ---- responses ---- */

/* Several are separated by ", ". */
static json_t *media_types(const char *list)
{
    json_t *media = json_object();

    while (*list) {
        size_t len = strcspn(list, ",");
        char *type = strndup(list, len);

        (void) json_object_set_new(media, type ? type : "", json_object());
        free(type);
        list += len;
        list += strspn(list, ", ");
    }
    return media;
}

static json_t *success(const struct route *route)
{
    const struct schema *event = route->event ? route->event : &schema_event;
    json_t *json = json_pack("{s:s}", "description", route->summary), *media;

    if (route->success == MHD_HTTP_NO_CONTENT || route->success == MHD_HTTP_SWITCHING_PROTOCOLS)
        return json;
    if (route->response == event) /* there is nothing but a stream */
        media = json_object();
    else if (route->media)
        media = media_types(route->media);
    else
        media = content("application/json", route->response);
    if (route->flags & ROUTE_STREAMS) {
        (void) json_object_set_new(media, "text/event-stream",
                                   json_pack("{s:{s:s}}", "schema", "type", "string"));
        (void) json_object_set_new(media, "application/x-ndjson",
                                   json_pack("{s:o}", "schema", ref("schemas", event->name)));
    }
    (void) json_object_set_new(json, "content", media);
    return json;
}

static void add_problem(json_t *responses, int status)
{
    char code[8];

    snprintf(code, sizeof code, "%d", status);
    (void) json_object_set_new(responses, code, ref("responses", code));
}

static json_t *responses(const struct route *route)
{
    json_t *json = json_object();
    char code[8];

    snprintf(code, sizeof code, "%d", route->success);
    (void) json_object_set_new(json, code, success(route));
    if (strcmp(route->name, "v1_file_get") == 0) {
        (void) json_object_set_new(json, "206",
                                   json_pack("{s:s,s:{s:{}}}", "description", "the requested range",
                                             "content", "application/octet-stream"));
        (void) json_object_set_new(json, "304", json_pack("{s:s}", "description", "not modified"));
        (void) json_object_set_new(json, "416",
                                   json_pack("{s:s}", "description", "range not satisfiable"));
    }
    if (route->flags & ROUTE_STREAMS && route->body == ROUTE_JSON && !route->event)
        (void) json_object_set_new(json, "202",
                                   json_pack("{s:s,s:o}", "description",
                                             "the execution is running (detach)", "content",
                                             content("application/json", &schema_progress)));
    if (strcmp(route->name, "v1_file_put") == 0)
        (void) json_object_set_new(json, "200",
                                   json_pack("{s:s,s:o}", "description",
                                             "an existing file was replaced", "content",
                                             content("application/json", &schema_file)));
    add_problem(json, 400);
    if (route->auth == ROUTE_KEY || route->auth == ROUTE_MARK || route->auth == ROUTE_OPERATOR ||
        route->flags & ROUTE_FORM)
        add_problem(json, 401);
    add_problem(json, 403);
    if (strchr(route->pattern, '{') || route->request == &schema_simple_execute)
        add_problem(json, 404);
    if (route->body != ROUTE_NO_BODY)
        add_problem(json, 413);
    if (route->query || route->body != ROUTE_NO_BODY)
        add_problem(json, 422);
    if (route->flags & ROUTE_SOCKET)
        add_problem(json, 426);
    if (route->body == ROUTE_JSON || route->flags & ROUTE_SOCKET)
        add_problem(json, 429);
    add_problem(json, 503);
    return json;
}

/* ---- the document ---- */

static json_t *operation(const struct route *route)
{
    json_t *json = json_pack("{s:s,s:s,s:[s],s:o,s:o}", "operationId", route->name, "summary",
                             route->summary, "tags", route->tag, "parameters", parameters(route),
                             "responses", responses(route));
    json_t *body = request_body(route);

    if (route->help)
        (void) json_object_set_new(json, "description", json_string(route->help));
    if (body)
        (void) json_object_set_new(json, "requestBody", body);
    if (route->auth == ROUTE_MARK) /* as for all, but never without */
        (void) json_object_set_new(
            json, "security", json_pack("[{s:[]},{s:[]},{s:[]}]", "password", "bearer", "key"));
    else if (route->auth == ROUTE_OPERATOR)
        (void) json_object_set_new(json, "security",
                                   json_pack("[{s:[]},{s:[]}]", "password", "bearer"));
    else if (route->auth != ROUTE_KEY)
        (void) json_object_set_new(json, "security", json_array());
    return json;
}

/* "get" */
static void method_key(enum method method, char buf[16])
{
    snprintf(buf, 16, "%s", method_name(method));
    for (char *p = buf; *p; p++)
        *p = (char) tolower((unsigned char) *p);
}

static json_t *paths(void)
{
    json_t *json = json_object();

    for (size_t i = 0; i < routes_len; i++) {
        json_t *item = json_object_get(json, routes[i].pattern);
        char method[16];

        if (routes[i].flags & ROUTE_UNLISTED)
            continue;
        method_key(routes[i].method, method);
        if (!item) {
            item = json_object();
            (void) json_object_set_new(json, routes[i].pattern, item);
        }
        (void) json_object_set_new(item, method, operation(&routes[i]));
    }
    return json;
}

/* @text, and the problem types of base/words/problems.def with @status. */
static json_t *problem_description(const char *text, int status)
{
    char buf[4096];
    int used = snprintf(buf, sizeof buf, "%s; problem types:", text);
    const char *comma = "";

    for (int i = PROBLEM_NONE + 1; i < PROBLEM_END && used < (int) sizeof buf; i++) {
        if (problem_status((enum problem) i) != status)
            continue;
        used += snprintf(buf + used, sizeof buf - (size_t) used, "%s %s", comma,
                         problem_word((enum problem) i));
        comma = ",";
    }
    return json_string(buf);
}

static json_t *components(void)
{
    static const struct {
        int status;
        const char *text;
    } problems[] = {
        { 400, "the request is malformed" },
        { 401, "a key is required, or the key is unknown" },
        { 403, "not allowed: a web page of another site, or more than the operator permits" },
        { 404, "does not exist, belongs to another caller, or has expired" },
        { 413, "too large" },
        { 422, "a field is missing, unknown, of the wrong type or out of range" },
        { 426, "this is a WebSocket; request an upgrade" },
        { 429, "too many requests; Retry-After says when to retry" },
        { 503, "temporarily unavailable; Retry-After says when to retry" },
    };
    json_t *schemas = json_object(), *list = json_object();
    char code[8];

    for (size_t i = 0; schema_lists[i]; i++)
        for (const struct schema *const *one = schema_lists[i]; *one; one++)
            (void) json_object_set_new(schemas, (*one)->name, fields_to_schema(*one));
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++) {
        snprintf(code, sizeof code, "%d", problems[i].status);
        (void) json_object_set_new(
            list, code,
            json_pack("{s:o,s:o}", "description",
                      problem_description(problems[i].text, problems[i].status), "content",
                      content("application/problem+json", &schema_problem)));
    }
    return json_pack("{s:o,s:o,s:{s:{s:s,s:s},s:{s:s,s:s,s:s},s:{s:s,s:{s:{s:s,s:{}}}}}}",
                     "schemas", schemas, "responses", list, "securitySchemes", "bearer", "type",
                     "http", "scheme", "bearer", "key", "type", "apiKey", "in", "header", "name",
                     "X-API-Key", "password", "type", "oauth2", "flows", "password", "tokenUrl",
                     "/auth/signin", "scopes");
}

json_t *openapi_make(void)
{
    return json_pack("{s:s,s:{s:s,s:s,s:s,s:{s:s,s:s}},s:[{s:[]},{s:[]},{}],s:o,s:o}", "openapi",
                     "3.1.0", "info", "title", "Glovebox", "version", GLOVEBOX_VERSION,
                     "description",
                     "Runs untrusted Python in a sandbox and reports the result. "
                     "On loopback no key is needed.",
                     "license", "name", "Apache-2.0", "identifier", "Apache-2.0", "security",
                     "bearer", "key", "paths", paths(), "components", components());
}
