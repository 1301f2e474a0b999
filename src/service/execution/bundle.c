/*
 * A bundle comes from a tenant and claims to be JSON of the form
 *
 *     {"data": {MIME type: data, ...}, "metadata": {...}}
 *
 * Data is a string, or any JSON for a type that is JSON itself. Everything else is refused. Parsed
 * JSON can take a hundred times the length of its text ("[],[],[],..."), so its values are counted
 * before it is parsed, against a budget that all bundles of a receipt share.
 */
#include "service/execution/bundle.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "engine/frame.h"

#include "base/banned.h"

#define TYPES_MAX     64
#define TYPE_NAME_MAX 128

/* Commas, colons and opening brackets outside strings. In valid JSON nothing else starts a value or
 * a key; invalid text is rejected by the parser, which has created no more than that by then. */
static size_t count_nodes(const char *json, size_t len)
{
    bool inside = false;
    size_t nodes = 0;

    for (size_t i = 0; i < len; i++) {
        if (json[i] == '"')
            inside = !inside;
        else if (inside)
            i += json[i] == '\\';
        else
            nodes += json[i] == ',' || json[i] == ':' || json[i] == '[' || json[i] == '{';
    }
    return nodes;
}

static bool is_token(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (!isalnum((unsigned char) text[i]) && !strchr("!#$&^_.+-", text[i]))
            return false;
    return len > 0;
}

static bool is_mime(const char *name)
{
    const char *slash = strchr(name, '/');
    size_t len = strlen(name);

    return slash && len <= TYPE_NAME_MAX && is_token(name, (size_t) (slash - name)) &&
           is_token(slash + 1, strlen(slash + 1));
}

static bool starts_with(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

static bool is_json_type(const char *mime)
{
    size_t len = strlen(mime);

    return strcmp(mime, "application/json") == 0 ||
           (len > 5 && strcmp(mime + len - 5, "+json") == 0);
}

/* Data that web pages put after "data:...;base64,": it must be nothing but base64. */
static bool is_binary_type(const char *mime)
{
    if (starts_with(mime, "image/"))
        return strcmp(mime, "image/svg+xml") != 0;
    return starts_with(mime, "audio/") || starts_with(mime, "video/") ||
           starts_with(mime, "font/") || strcmp(mime, "application/pdf") == 0;
}

static bool is_base64(const char *text, size_t len)
{
    while (len > 0 && text[len - 1] == '=')
        len--;
    for (size_t i = 0; i < len; i++)
        if (!isalnum((unsigned char) text[i]) && text[i] != '+' && text[i] != '/')
            return false;
    return true;
}

static bool is_data(const char *mime, const json_t *value)
{
    if (!is_mime(mime))
        return false;
    if (is_json_type(mime))
        return true;
    if (!json_is_string(value))
        return false;
    return !is_binary_type(mime) || is_base64(json_string_value(value), json_string_length(value));
}

static bool is_bundle(json_t *json)
{
    json_t *data = json_object_get(json, "data"), *metadata = json_object_get(json, "metadata");
    json_t *value;
    const char *mime;

    if (!json_is_object(data) || json_object_size(data) > TYPES_MAX)
        return false;
    if (metadata && !json_is_object(metadata))
        return false;
    json_object_foreach (data, mime, value)
        if (!is_data(mime, value))
            return false;
    return true;
}

int bundle_parse(const struct bundle *bundle, size_t *nodes_left, json_t **ret_data,
                 json_t **ret_metadata)
{
    size_t nodes = count_nodes(bundle->json, bundle->len);
    json_t *json, *metadata;

    if (nodes > *nodes_left)
        return -E2BIG;
    *nodes_left -= nodes;
    json = json_loadb(bundle->json, bundle->len, JSON_ALLOW_NUL, NULL);
    if (!json)
        return -EBADMSG;
    if (!is_bundle(json)) {
        json_decref(json);
        return -EBADMSG;
    }
    metadata = json_object_get(json, "metadata");
    *ret_data = json_incref(json_object_get(json, "data"));
    *ret_metadata = metadata ? json_incref(metadata) : json_object();
    json_decref(json);
    return 0;
}

/* ---- displays that were updated or cleared ---- */

#define ID_MAX 512 /* bytes; 128 characters */

typedef char display_id[ID_MAX + 1];

enum change { CHANGE_NONE, CHANGE_UPDATE, CHANGE_CLEAR, CHANGE_CLEAR_AT_NEXT };

static bool is_marked(const struct bundle *bundle)
{
    static const char mark[] = "\"glovebox\"";

    return memmem(bundle->json, bundle->len, mark, sizeof mark - 1) != NULL;
}

static void id_copy(const json_t *name, display_id id)
{
    size_t len = json_string_length(name);

    id[0] = '\0';
    if (json_is_string(name) && len <= ID_MAX && strlen(json_string_value(name)) == len)
        memcpy(id, json_string_value(name), len + 1);
}

/* Where a display belongs, as its metadata says:
 *
 *     {"glovebox": {"display_id": "x", "update": true}} or {"glovebox": {"clear": "now"}}
 *
 * @id gets its name, "" if it has none. */
static enum change place_of(const struct bundle *bundle, display_id id)
{
    size_t nodes = FRAME_DISPLAYS_NODES;
    json_t *data, *metadata, *place;
    enum change change = CHANGE_NONE;
    const char *clear;

    id[0] = '\0';
    if (!is_marked(bundle) || bundle_parse(bundle, &nodes, &data, &metadata) < 0)
        return CHANGE_NONE;
    place = json_object_get(metadata, "glovebox");
    clear = json_string_value(json_object_get(place, "clear"));
    id_copy(json_object_get(place, "display_id"), id);
    if (clear)
        change = strcmp(clear, "wait") == 0 ? CHANGE_CLEAR_AT_NEXT : CHANGE_CLEAR;
    else if (id[0] && json_is_true(json_object_get(place, "update")))
        change = CHANGE_UPDATE;
    json_decref(data);
    json_decref(metadata);
    return change;
}

/* Puts a bundle in the place of each display of that name; returns whether there is one. */
static bool fold_update(const display_id *ids, const char *id, size_t index,
                        struct bundle_place *places, size_t len)
{
    bool found = false;

    for (size_t i = 0; i < len; i++)
        if (strcmp(ids[i], id) == 0) {
            places[i].last = index;
            found = true;
        }
    return found;
}

static bool any_marked(const struct bundle *bundles, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (is_marked(&bundles[i]))
            return true;
    return false;
}

static int64_t stream_len(const struct stream_cut *cut)
{
    return (int64_t) (cut->head_len + cut->tail_len) + cut->left_out;
}

/* Whether something was printed after the bundle. */
static bool was_printed(const struct outcome *o, const struct bundle_cleared *since)
{
    return stream_len(&o->out) > since->out || stream_len(&o->err) > since->err;
}

int bundle_fold(const struct outcome *o, struct bundle_place *ret,
                struct bundle_cleared *ret_cleared)
{
    autofree display_id *ids = NULL;
    struct bundle_cleared next = { -1, -1 }; /* clear it with the next output */
    size_t shown = 0;

    *ret_cleared = next;
    if (any_marked(o->outputs, o->outputs_len) && !(ids = calloc(o->outputs_len, sizeof *ids)))
        return -ENOMEM;
    for (size_t i = 0; i < o->outputs_len; i++) {
        display_id id = "";
        enum change change = ids ? place_of(&o->outputs[i], id) : CHANGE_NONE;
        bool clears = change == CHANGE_CLEAR || change == CHANGE_CLEAR_AT_NEXT;

        if (change == CHANGE_UPDATE && fold_update(ids, id, i, ret, shown))
            continue;
        if (clears)
            next = (struct bundle_cleared){ o->outputs[i].out, o->outputs[i].err };
        if (next.out >= 0 && change != CHANGE_CLEAR_AT_NEXT) {
            *ret_cleared = next;
            next.out = next.err = -1;
            shown = 0;
        }
        if (clears)
            continue;
        if (ids)
            memcpy(ids[shown], id, sizeof id);
        ret[shown++] = (struct bundle_place){ i, i };
    }
    if (next.out >= 0 && was_printed(o, &next)) {
        *ret_cleared = next;
        shown = 0;
    }
    return (int) shown;
}
