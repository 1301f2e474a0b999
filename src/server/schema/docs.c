#include "server/schema/docs.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/banned.h"

/* What @draw of a route needs to know about the whole document. */
struct drawing {
    FILE *out;
    const json_t *spec;
};

/* ---- text ---- */

/* As text or as the value of an attribute in double quotes; of any bytes. */
static void put(FILE *out, const char *text)
{
    for (; text && *text; text++)
        switch (*text) {
        case '&':
            fputs("&amp;", out);
            break;
        case '<':
            fputs("&lt;", out);
            break;
        case '>':
            fputs("&gt;", out);
            break;
        case '"':
            fputs("&quot;", out);
            break;
        case '\'':
            fputs("&#39;", out);
            break;
        default:
            fputc(*text, out);
        }
}

static void put_upper(FILE *out, const char *text)
{
    for (; *text; text++)
        put(out, (char[]){ (char) toupper((unsigned char) *text), '\0' });
}

/* Markup of ours around text of others. */
static void wrap(FILE *out, const char *before, const char *text, const char *after)
{
    fputs(before, out);
    put(out, text);
    fputs(after, out);
}

static const char *text_of(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));

    return text ? text : "";
}

static void put_json(FILE *out, const json_t *value)
{
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(15));

    put(out, text ? text : "");
    free(text);
}

/* For ids: a tag may have blanks. */
static void put_id(FILE *out, const char *text)
{
    for (; *text; text++)
        fputc(isalnum((unsigned char) *text) || *text == '_' ? *text : '-', out);
}

/* ---- types ---- */

static const char *ref_name(const json_t *schema)
{
    const char *ref = json_string_value(json_object_get(schema, "$ref"));
    const char *slash = ref ? strrchr(ref, '/') : NULL;

    return slash ? slash + 1 : NULL;
}

static const json_t *resolve(const struct drawing *d, const json_t *node)
{
    const char *name = ref_name(node), *ref = text_of(node, "$ref");
    const char *kind = strstr(ref, "/responses/") ? "responses" : "schemas";

    return name ? json_object_get(json_object_get(json_object_get(d->spec, "components"), kind),
                                  name)
                : node;
}

static void put_type(const struct drawing *d, const json_t *schema);

static void put_types(const struct drawing *d, const json_t *list, const char *between)
{
    const json_t *item;
    size_t i;

    json_array_foreach ((json_t *) list, i, item) {
        if (i > 0)
            fputs(between, d->out);
        if (json_is_object(item))
            put_type(d, item);
        else if (json_is_string(item))
            put(d->out, json_string_value(item));
    }
}

static void put_choices(const struct drawing *d, const json_t *choices)
{
    const json_t *item;
    size_t i;

    json_array_foreach ((json_t *) choices, i, item) {
        fputs(i > 0 ? " | <code>" : "<code>", d->out);
        put_json(d->out, item);
        fputs("</code>", d->out);
    }
}

/* The recursion is as deep as a schema is nested before it refers to others by name. */
static void put_type(const struct drawing *d, const json_t *schema)
{
    const json_t *type = json_object_get(schema, "type"), *inner;
    const char *name = ref_name(schema);

    if (name) {
        wrap(d->out, "<a href=\"#schema-", name, "\">");
        wrap(d->out, "", name, "</a>");
    } else if ((inner = json_object_get(schema, "anyOf"))) {
        put_types(d, inner, " or ");
    } else if ((inner = json_object_get(schema, "enum"))) {
        put_choices(d, inner);
    } else if (type && strcmp(text_of(schema, "type"), "array") == 0) {
        fputs("list of ", d->out);
        put_type(d, json_object_get(schema, "items"));
    } else if (json_is_object(inner = json_object_get(schema, "additionalProperties"))) {
        fputs("object of ", d->out);
        put_type(d, inner);
    } else if (json_is_array(type)) {
        put_types(d, type, " or ");
    } else {
        put(d->out, json_is_string(type) ? json_string_value(type) : "any");
    }
}

static void put_number(FILE *out, const json_t *number)
{
    fprintf(out, "%.15g", json_number_value(number));
}

/* Bytes as people count them, where that is exact. */
static void put_bytes(FILE *out, const json_t *number)
{
    json_int_t bytes = json_integer_value(number);

    if (bytes >= 1048576 && bytes % 1048576 == 0)
        fprintf(out, "%lld MiB", (long long) bytes / 1048576);
    else if (bytes >= 1024 && bytes % 1024 == 0)
        fprintf(out, "%lld KiB", (long long) bytes / 1024);
    else
        fprintf(out, "%lld bytes", (long long) bytes);
}

static void put_bounds(FILE *out, const json_t *schema)
{
    const json_t *max = json_object_get(schema, "maximum");
    const json_t *min = json_object_get(schema, "minimum");
    const json_t *len = json_object_get(schema, "maxLength");

    if (max && json_number_value(max) < 1e15) {
        fputs(" <span class=\"bound\">", out);
        if (min) {
            put_number(out, min);
            fputs(" to ", out);
        } else {
            fputs("at most ", out);
        }
        put_number(out, max);
        fputs("</span>", out);
    } else if (len) {
        fputs(" <span class=\"bound\">at most ", out);
        put_bytes(out, len);
        fputs("</span>", out);
    }
}

/* ---- fields ---- */

static bool has_text(const json_t *list, const char *text)
{
    const json_t *item;
    size_t i;

    json_array_foreach ((json_t *) list, i, item)
        if (json_is_string(item) && strcmp(json_string_value(item), text) == 0)
            return true;
    return false;
}

/* @where: "path", "query"; "" for members of an object. */
static void field_row(const struct drawing *d, const char *name, const char *where, bool required,
                      const json_t *schema, const char *help)
{
    wrap(d->out, "<tr><th scope=\"row\"><code>", name, "</code>");
    if (required)
        fputs(" <span class=\"need\">required</span>", d->out);
    if (where[0])
        wrap(d->out, " <span class=\"where\">in ", where, "</span>");
    fputs("</th><td class=\"type\">", d->out);
    put_type(d, schema);
    wrap(d->out, "</td><td>", help, "");
    put_bounds(d->out, schema);
    fputs("</td></tr>\n", d->out);
}

static void begin_table(FILE *out, const char *title)
{
    wrap(out, "<div class=\"scroll-x\"><table class=\"fields\"><caption class=\"visually-hidden\">",
         title, "</caption><tbody>\n");
}

static void end_table(FILE *out)
{
    fputs("</tbody></table></div>\n", out);
}

static void put_members(const struct drawing *d, const json_t *schema, const char *title)
{
    const json_t *required = json_object_get(schema, "required"), *field;
    json_t *fields = json_object_get(schema, "properties");
    const char *name;

    if (json_object_size(fields) == 0) {
        fputs("<p class=\"empty-object\">No fields of its own.</p>\n", d->out);
        return;
    }
    begin_table(d->out, title);
    json_object_foreach (fields, name, field)
        field_row(d, name, "", has_text(required, name), field, text_of(field, "description"));
    end_table(d->out);
}

static void put_parameters(const struct drawing *d, const json_t *operation)
{
    json_t *list = json_object_get(operation, "parameters"), *item;
    size_t i;

    if (json_array_size(list) == 0)
        return;
    fputs("<h4>Parameters</h4>\n", d->out);
    begin_table(d->out, "Parameters");
    json_array_foreach (list, i, item)
        field_row(d, text_of(item, "name"), text_of(item, "in"),
                  json_is_true(json_object_get(item, "required")), json_object_get(item, "schema"),
                  text_of(item, "description"));
    end_table(d->out);
}

/* ---- bodies and examples ---- */

static json_t *body_content(const json_t *operation)
{
    return json_object_get(json_object_get(operation, "requestBody"), "content");
}

static void put_body(const struct drawing *d, const json_t *operation)
{
    json_t *content = body_content(operation), *media;
    const char *type;

    if (!content)
        return;
    fputs("<h4>Body</h4>\n", d->out);
    json_object_foreach (content, type, media) {
        const json_t *schema = resolve(d, json_object_get(media, "schema"));

        wrap(d->out, "<p class=\"media\"><code>", type, "</code>");
        wrap(d->out, " ", text_of(schema, "description"), "</p>\n");
        if (schema)
            put_members(d, schema, "Body");
    }
}

/* An object with the fields that are required; if none is, the empty one makes something with all
 * defaults (POST), and a change has the fields that have an example. */
static json_t *example_body(const json_t *schema, bool is_change)
{
    const json_t *required = json_object_get(schema, "required"), *field;
    json_t *body = json_object(), *value;
    const char *name;

    json_object_foreach (json_object_get(schema, "properties"), name, field) {
        value = json_array_get(json_object_get(field, "examples"), 0);
        if (has_text(required, name))
            (void) json_object_set_new(body, name, value ? json_incref(value) : json_string("..."));
        else if (value && !required && is_change)
            (void) json_object_set(body, name, value);
    }
    return body;
}

/* In single quotes of a shell. */
static void put_quoted(FILE *out, const char *text)
{
    fputs("&#39;", out);
    for (const char *p = text; *p; p++) {
        put(out, *p == '\'' ? "'\\''" : (char[]){ *p, '\0' });
    }
    fputs("&#39;", out);
}

static void put_data(const struct drawing *d, const json_t *content, bool is_change)
{
    const json_t *json = json_object_get(content, "application/json");
    json_t *body;
    char *text;

    if (json_object_get(content, "multipart/form-data")) {
        fputs(" -F file=@data.csv", d->out);
    } else if (json) {
        body = example_body(resolve(d, json_object_get(json, "schema")), is_change);
        text = json_dumps(body, 0);
        fputs(" -d ", d->out);
        put_quoted(d->out, text ? text : "");
        free(text);
        json_decref(body);
    } else {
        fputs(" -T data.csv", d->out);
    }
}

static void put_example(const struct drawing *d, const char *path, const char *method,
                        const json_t *operation)
{
    const json_t *content = body_content(operation);
    bool writes = content && !json_object_get(content, "application/json") &&
                  !json_object_get(content, "multipart/form-data");

    fputs("<h4>Example</h4>\n<pre class=\"curl\" tabindex=\"0\"><code>curl -s", d->out);
    if (strcmp(method, "get") != 0 && !(strcmp(method, "post") == 0 && content) &&
        !(strcmp(method, "put") == 0 && writes)) {
        fputs(" -X ", d->out);
        put_upper(d->out, method);
    }
    if (content)
        put_data(d, content, strcmp(method, "post") != 0);
    fputs(" &quot;$GLOVEBOX_URL", d->out);
    for (const char *p = path; *p; p++)
        if (*p == '{')
            fputs("$", d->out);
        else if (*p != '}')
            put(d->out, (char[]){ *p, '\0' });
    fputs("&quot;</code></pre>\n", d->out);
}

/* ---- responses ---- */

static void put_media(const struct drawing *d, json_t *content)
{
    bool first = true;
    json_t *media;
    const char *type;

    json_object_foreach (content, type, media) {
        const json_t *schema = json_object_get(media, "schema");

        fputs(first ? "" : ", ", d->out);
        first = false;
        if (ref_name(schema))
            put_type(d, schema);
        else
            wrap(d->out, "<code>", type, "</code>");
    }
}

static void put_responses(const struct drawing *d, const json_t *operation)
{
    json_t *responses = json_object_get(operation, "responses"), *item;
    const char *status;

    fputs("<details class=\"responses\"><summary>Responses</summary>\n", d->out);
    begin_table(d->out, "Responses");
    json_object_foreach (responses, status, item) {
        const json_t *full = resolve(d, item);
        const char *text = text_of(full, "description");
        const char *types = strstr(text, "; problem types:");

        wrap(d->out, "<tr><th scope=\"row\"><code>", status, "</code></th><td>");
        if (types) {
            char *head = strndup(text, (size_t) (types - text));

            put(d->out, head ? head : "");
            free(head);
            wrap(d->out, "; <a href=\"#problem-", status, "\">problem types</a>");
        } else {
            put(d->out, text);
        }
        fputs("</td><td class=\"type\">", d->out);
        put_media(d, json_object_get(full, "content"));
        fputs("</td></tr>\n", d->out);
    }
    end_table(d->out);
    fputs("</details>\n", d->out);
}

/* ---- routes ---- */

static const char *access_text(const json_t *operation)
{
    json_t *security = json_object_get(operation, "security"), *way;
    bool key = false;
    size_t i;

    if (!security)
        return "Needs a key or a token, except on loopback";
    if (json_array_size(security) == 0)
        return "Needs no key";
    json_array_foreach (security, i, way)
        key = key || json_object_get(way, "key");
    return key ? "Needs a key or a token"
               : "Needs the access token of an operator's account; a key does not do";
}

static void put_method(FILE *out, const char *method)
{
    wrap(out, "<span class=\"method ", method, "\">");
    put_upper(out, method);
    fputs("</span>", out);
}

static void put_route(const struct drawing *d, const char *path, const char *method,
                      const json_t *operation)
{
    const char *id = text_of(operation, "operationId"), *help = text_of(operation, "description");

    wrap(d->out, "<article class=\"route\" id=\"", id, "\" data-method=\"");
    put(d->out, method);
    wrap(d->out, "\" data-path=\"", path, "\">\n");
    wrap(d->out, "<header><h3><a href=\"#", id, "\">");
    put_method(d->out, method);
    wrap(d->out, " <code>", path, "</code></a></h3></header>\n");
    wrap(d->out, "<p><strong>", text_of(operation, "summary"), ".</strong> ");
    wrap(d->out, "", help, "</p>\n");
    wrap(d->out, "<p class=\"access\">", access_text(operation), "</p>\n");
    put_parameters(d, operation);
    put_body(d, operation);
    put_example(d, path, method, operation);
    put_responses(d, operation);
    fputs("</article>\n", d->out);
}

/* Calls @draw for every route of @tag. */
static void each_route(const struct drawing *d, const char *tag,
                       void (*draw)(const struct drawing *d, const char *path, const char *method,
                                    const json_t *operation))
{
    json_t *paths = json_object_get(d->spec, "paths"), *item, *operation;
    const char *path, *method;

    json_object_foreach (paths, path, item)
        json_object_foreach (item, method, operation)
            if (has_text(json_object_get(operation, "tags"), tag))
                draw(d, path, method, operation);
}

static void put_link(const struct drawing *d, const char *path, const char *method,
                     const json_t *operation)
{
    (void) path;
    wrap(d->out, "<li><a href=\"#", text_of(operation, "operationId"), "\">");
    put_method(d->out, method);
    wrap(d->out, " ", text_of(operation, "summary"), "</a></li>\n");
}

/* Those that people look for first; the others follow in the order of the routes. */
static json_t *list_tags(const json_t *spec)
{
    static const char *const first[] = { "Executions", "Sessions", "Files", "Mark", "Chats" };
    json_t *tags = json_array(), *item, *operation;
    const char *path, *method;

    for (size_t pass = 0; pass <= sizeof first / sizeof *first; pass++)
        json_object_foreach (json_object_get(spec, "paths"), path, item)
            json_object_foreach (item, method, operation) {
                json_t *tag = json_array_get(json_object_get(operation, "tags"), 0);
                const char *name = json_string_value(tag);

                if (name && !has_text(tags, name) &&
                    (pass == sizeof first / sizeof *first || strcmp(name, first[pass]) == 0))
                    (void) json_array_append(tags, tag);
            }
    return tags;
}

/* ---- the rest of the page ---- */

/* As in web/src/main.tsx and web/src/ui/icon.tsx: the same bar, but without a script. */
#define ICON_LINK(href, more, path, label)                                                         \
    "<a href=\"" href "\"" more "><svg class=\"icon\" width=\"18\" height=\"18\" "                 \
    "viewBox=\"0 0 24 24\" fill=\"none\" stroke=\"currentColor\" stroke-width=\"1.7\" "            \
    "stroke-linecap=\"round\" stroke-linejoin=\"round\" aria-hidden=\"true\"><path d=\"" path      \
    "\"/></svg> <span>" label "</span></a>"

static void put_bar(FILE *out)
{
    fputs("<a class=\"skip\" href=\"#view\">Skip to the content</a>\n"
          "<header class=\"bar\">\n"
          "<a class=\"brand\" href=\"/\" aria-label=\"Glovebox\">"
          "<svg width=\"24\" height=\"24\" viewBox=\"0 0 32 32\" aria-hidden=\"true\">"
          "<rect class=\"brand-box\" width=\"32\" height=\"32\" rx=\"7\"/>"
          "<g class=\"brand-lines\" fill=\"none\" stroke-width=\"2\">"
          "<rect x=\"6\" y=\"8\" width=\"20\" height=\"16\" rx=\"2.5\"/>"
          "<circle cx=\"12\" cy=\"17\" r=\"3.2\"/><circle cx=\"20\" cy=\"17\" r=\"3.2\"/></g></svg>"
          "<span>Glovebox</span></a>\n"
          "<nav aria-label=\"Views\">" ICON_LINK("/", "", "M4 5h16v11H9l-5 4z", "Mark")
              ICON_LINK("/play", "", "M8 7l-5 5 5 5M16 7l5 5-5 5", "Playground") ICON_LINK(
                  "/docs", " aria-current=\"page\"", "M6 3h9l4 4v14H6zM14 3v5h5M9 13h7M9 17h7",
                  "Docs") "</nav>\n"
                          "<div class=\"bar-end\" id=\"bar-end\"></div>\n"
                          "</header>\n",
          out);
}

static void put_nav(const struct drawing *d, const json_t *tags)
{
    const json_t *tag;
    size_t i;

    fputs("<nav class=\"toc\" aria-label=\"Routes\">\n<div id=\"filter\"></div>\n", d->out);
    json_array_foreach ((json_t *) tags, i, tag) {
        const char *name = json_string_value(tag);

        fputs("<section><h2><a href=\"#tag-", d->out);
        put_id(d->out, name);
        wrap(d->out, "\">", name, "</a></h2>\n<ul>\n");
        each_route(d, name, put_link);
        fputs("</ul></section>\n", d->out);
    }
    fputs("<section><h2><a href=\"#objects\">Objects</a></h2></section>\n"
          "<section><h2><a href=\"#problems\">Problems</a></h2></section>\n</nav>\n",
          d->out);
}

static void put_lead(const struct drawing *d)
{
    const json_t *info = json_object_get(d->spec, "info");

    wrap(d->out, "<h1>", text_of(info, "title"), " API</h1>\n");
    wrap(d->out, "<p class=\"lead\">", text_of(info, "description"), "");
    wrap(d->out, " Version ", text_of(info, "version"), ".");
    fputs(
        " The same in machine-readable form: <a href=\"/openapi.json\">openapi.json</a>.</p>\n"
        "<p><span id=\"address\">In the examples <code>$GLOVEBOX_URL</code> is the address of this "
        "server. </span>Where a key or a token is needed, add "
        "<code>-H &quot;Authorization: Bearer $GLOVEBOX_API_KEY&quot;</code>.</p>\n"
        "<div id=\"identity\"></div>\n",
        d->out);
}

static void put_objects(const struct drawing *d)
{
    json_t *schemas = json_object_get(json_object_get(d->spec, "components"), "schemas"), *schema;
    const char *name;

    fputs("<section id=\"objects\"><h2>Objects</h2>\n", d->out);
    json_object_foreach (schemas, name, schema) {
        wrap(d->out, "<article class=\"object\" id=\"schema-", name, "\">");
        wrap(d->out, "<h3><a href=\"#schema-", name, "\">");
        wrap(d->out, "<code>", name, "</code></a></h3>\n");
        if (text_of(schema, "description")[0])
            wrap(d->out, "<p>", text_of(schema, "description"), "</p>\n");
        put_members(d, schema, name);
        fputs("</article>\n", d->out);
    }
    fputs("</section>\n", d->out);
}

/* The words after "problem types:", each by itself. */
static void put_words(FILE *out, const char *words)
{
    while (*words) {
        size_t len = strcspn(words, ",");
        char *word = strndup(words, len);

        wrap(out, "<code>", word ? word + strspn(word, " ") : "", "</code> ");
        free(word);
        words += len;
        words += *words == ',';
    }
}

static void put_problems(const struct drawing *d)
{
    static const char mark[] = "; problem types:";
    json_t *list = json_object_get(json_object_get(d->spec, "components"), "responses"), *item;
    const char *status;

    fputs("<section id=\"problems\"><h2>Problems</h2>\n"
          "<p>A refusal is a <a href=\"#schema-problem\">problem</a> document; its "
          "<code>type</code> is <code>urn:glovebox:problem:WORD</code>.</p>\n",
          d->out);
    begin_table(d->out, "Problems");
    json_object_foreach (list, status, item) {
        const char *text = text_of(item, "description"), *types = strstr(text, mark);
        char *head = types ? strndup(text, (size_t) (types - text)) : NULL;

        wrap(d->out, "<tr id=\"problem-", status, "\"><th scope=\"row\"><code>");
        wrap(d->out, "", status, "</code></th><td>");
        wrap(d->out, "", head ? head : text, "<p class=\"words\">");
        if (types)
            put_words(d->out, types + sizeof mark - 1);
        fputs("</p></td></tr>\n", d->out);
        free(head);
    }
    end_table(d->out);
    fputs("</section>\n", d->out);
}

char *docs_draw(const json_t *openapi)
{
    char *text = NULL;
    size_t len, i;
    struct drawing d = { open_memstream(&text, &len), openapi };
    json_t *tags = list_tags(openapi), *tag;
    bool failed;

    if (d.out) {
        put_bar(d.out);
        fputs("<div class=\"docs-layout\">\n", d.out);
        put_nav(&d, tags);
        fputs("<main id=\"view\" tabindex=\"-1\">\n", d.out);
        put_lead(&d);
        json_array_foreach (tags, i, tag) {
            fputs("<section class=\"tag\" id=\"tag-", d.out);
            put_id(d.out, json_string_value(tag));
            wrap(d.out, "\"><h2>", json_string_value(tag), "</h2>\n");
            each_route(&d, json_string_value(tag), put_route);
            fputs("</section>\n", d.out);
        }
        put_objects(&d);
        put_problems(&d);
        fputs("</main>\n</div>\n", d.out);
    }
    json_decref(tags);
    failed = !d.out || ferror(d.out);
    if ((d.out && fclose(d.out) != 0) || failed) {
        free(text);
        return NULL;
    }
    return text;
}
