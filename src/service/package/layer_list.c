/* The store of layers as operators see it. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "service/package/layers_internal.h"

#include "base/banned.h"

#define NAMES_MAX 60   /* packages that are named of one layer */
#define FILES_MAX 2000 /* records that are read */

struct listing {
    struct layers *layers;
    struct found {
        char key[LAYER_KEY_MAX];
        int64_t used;
    } found[FILES_MAX];
    size_t len;
};

static int record_find(void *arg, const char *name)
{
    struct listing *listing = arg;
    char file[NAME_MAX + 1];
    struct stat st;

    if (listing->len == FILES_MAX)
        return 1;
    layers_json_name(name, file);
    if (!layer_key_valid(name) ||
        fstatat(listing->layers->dirs[DIR_RECORDS], file, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return 0;
    memcpy(listing->found[listing->len].key, name, LAYER_KEY_MAX);
    listing->found[listing->len++].used = st.st_mtime;
    return 0;
}

static int by_use(const void *a, const void *b)
{
    const struct found *x = a, *y = b;

    return x->used < y->used ? 1 : x->used > y->used ? -1 : strcmp(x->key, y->key);
}

/* Those in use in this process: "sessions and templates have it". */
static int uses_of(struct layers *layers, const char *key)
{
    struct layer *layer;
    int refs = 0;

    pthread_mutex_lock(&layers->lock);
    LIST_FOREACH(layer, &layers->live, entry)
    if (strcmp(layer->key, key) == 0)
        refs = layer->refs;
    pthread_mutex_unlock(&layers->lock);
    return refs;
}

static json_t *layer_show(struct layers *layers, const struct found *found)
{
    json_t *record = NULL, *names = json_array(), *item, *json;
    char file[NAME_MAX + 1];
    const json_t *packages;
    size_t i;

    layers_json_name(found->key, file);
    (void) layers_json_read(layers->dirs[DIR_RECORDS], file, &record);
    packages = json_object_get(record, "packages");
    json_array_foreach ((json_t *) packages, i, item)
        if (i < NAMES_MAX)
            (void) json_array_append_new(names, json_pack("{s:O?,s:O?}", "name",
                                                          json_object_get(item, "name"), "version",
                                                          json_object_get(item, "version")));
    json = json_pack("{s:s,s:I,s:o,s:I,s:I,s:I}", "layer", found->key, "count",
                     (json_int_t) json_array_size(packages), "packages", names, "bytes",
                     json_integer_value(json_object_get(record, "bytes")), "used",
                     (json_int_t) found->used, "uses", (json_int_t) uses_of(layers, found->key));
    json_decref(record);
    return json;
}

struct sets {
    json_t *list;
    size_t max;
    bool more;
};

static int set_show(void *arg, const char *name, json_t *set)
{
    json_t *requirements = json_object_get(set, "requirements");
    struct sets *sets = arg;

    sets->more = json_array_size(sets->list) >= sets->max;
    if (sets->more)
        return 1;
    (void) json_array_append_new(sets->list,
                                 json_pack("{s:s,s:o,s:O?}", "owner", name, "requirements",
                                           requirements ? json_incref(requirements) : json_array(),
                                           "layer", json_object_get(set, "key")));
    return 0;
}

json_t *layers_to_json(struct layers *layers, size_t max)
{
    struct listing *listing = calloc(1, sizeof *listing);
    json_t *list = json_array(), *json = NULL;
    struct sets sets = { json_array(), max, false };
    struct gb_err ignored;
    bool failed = !listing || !list || !sets.list;

    if (listing && layers) {
        listing->layers = layers;
        (void) layers_each_json(layers->dirs[DIR_RECORDS], record_find, listing);
        qsort(listing->found, listing->len, sizeof *listing->found, by_use);
        for (size_t i = 0; !failed && i < listing->len && i < max; i++)
            failed = json_array_append_new(list, layer_show(layers, &listing->found[i])) < 0;
        (void) set_each(layers, set_show, &sets, &ignored);
    }
    if (!failed)
        json = json_pack("{s:O,s:O,s:b,s:I}", "layers", list, "sets", sets.list, "more",
                         listing->len > max || sets.more, "count", (json_int_t) listing->len);
    json_decref(list);
    json_decref(sets.list);
    free(listing);
    return json;
}
