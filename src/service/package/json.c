/* Packages and installs as JSON, and the messages for users. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "service/package/internal.h"

#include "base/banned.h"

#define NAMED_MAX   12 /* packages that a message names */
#define MESSAGE_MAX 1024

void python_stamp(const struct installer *installer, char ret_stamp[PYTHON_STAMP_MAX])
{
    const char *path = installer->python ? installer->python : "/usr/bin/python3";
    struct stat st;

    if (stat(path, &st) < 0)
        memset(&st, 0, sizeof st);
    snprintf(ret_stamp, PYTHON_STAMP_MAX, "%.4000s %lld %lld%s%.100s", path,
             (long long) st.st_mtime, (long long) st.st_size, installer->venv ? " " : "",
             installer->venv ? installer->venv : "");
}

static bool same_package(const char *text, const char *normal)
{
    struct requirement other;
    struct gb_err ignored;

    return requirement_parse(text, true, &other, &ignored) == 0 &&
           strcmp(other.normal, normal) == 0;
}

void requirements_add(json_t *list, const struct requirement *items, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        for (size_t n = json_array_size(list); n > 0; n--) {
            const char *text = json_string_value(json_array_get(list, n - 1));

            if (text && same_package(text, items[i].normal))
                (void) json_array_remove(list, n - 1);
        }
        (void) json_array_append_new(list, json_string(items[i].text));
    }
}

static const char *text_of(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));

    return text ? text : "";
}

/* The version of a package in a layer, or NULL. */
static const char *version_in(const struct layer *layer, const char *name)
{
    json_t *item;
    size_t i;

    if (!layer)
        return NULL;
    json_array_foreach (json_object_get(layer_record(layer), "packages"), i, item) {
        if (strcmp(text_of(item, "name"), name) == 0)
            return text_of(item, "version");
    }
    return NULL;
}

/* The version of a wanted package that did not have to be installed, or NULL. It is the host's, or
 * it was in the previous layer and still is. */
static const char *version_present(const struct install_job *job, const char *name)
{
    const char *present = json_string_value(json_object_get(job->result.present, name));
    const char *before = version_in(job->before, name), *now = version_in(job->result.layer, name);

    return present ? present : before && now && strcmp(before, now) == 0 ? now : NULL;
}

/* The packages that the layer has and the previous one did not. */
static json_t *added(const struct install_job *job)
{
    json_t *list = json_array(), *item;
    size_t i;

    if (!job->result.layer)
        return list;
    json_array_foreach (json_object_get(layer_record(job->result.layer), "packages"), i, item) {
        const char *before = version_in(job->before, text_of(item, "name"));

        if (before && strcmp(before, text_of(item, "version")) == 0)
            continue;
        (void) json_array_append_new(list, json_pack("{s:s,s:s,s:s}", "name", text_of(item, "name"),
                                                     "version", text_of(item, "version"), "sha256",
                                                     text_of(item, "sha256")));
    }
    return list;
}

/* Wanted packages that did not have to be installed. */
static json_t *there(const struct install_job *job)
{
    json_t *list = json_array();

    for (size_t i = 0; i < job->len; i++) {
        const char *name = job->items[i].normal, *version = version_present(job, name);

        if (version)
            (void) json_array_append_new(list,
                                         json_pack("{s:s,s:s}", "name", name, "version", version));
    }
    return list;
}

static void name_some(const json_t *list, const char *first, char *buf, size_t size)
{
    size_t used = strlen(buf), len = json_array_size(list);

    for (size_t i = 0; i < len && i < NAMED_MAX && used < size; i++) {
        const json_t *item = json_array_get(list, i);

        used += (size_t) snprintf(buf + used, size - used, "%s%s %s", i ? ", " : first,
                                  text_of(item, "name"), text_of(item, "version"));
    }
    if (len > NAMED_MAX && used < size)
        (void) snprintf(buf + used, size - used, " and %zu more", len - NAMED_MAX);
}

static json_t *warnings_of(const struct install_job *job)
{
    json_t *list = json_array();
    char text[200];

    for (size_t i = 0; i < job->len; i++) {
        const char *other = package_lookalike(job->items[i].normal);

        if (!other)
            continue;
        snprintf(text, sizeof text,
                 "%s differs from %s by one letter; check that it is the package you want",
                 job->items[i].name, other);
        (void) json_array_append_new(list, json_string(text));
    }
    if (job->result.stale)
        (void) json_array_append_new(
            list, json_string("the package index cannot be reached; its earlier answer was used"));
    return list;
}

static void message_write(const json_t *installed, const json_t *present, char *buf, size_t size)
{
    buf[0] = '\0';
    name_some(installed, "Installed ", buf, size);
    if (json_array_size(present) > 0)
        name_some(present, buf[0] ? "; already installed: " : "Already installed: ", buf, size);
    if (!buf[0])
        snprintf(buf, size, "None of these packages applies to this Python");
}

json_t *install_to_json(const struct install_job *job)
{
    const struct install_result *result = &job->result;
    json_t *installed = added(job), *present = there(job);
    char message[MESSAGE_MAX];

    message_write(installed, present, message, sizeof message);
    return json_pack("{s:b,s:s,s:o,s:o,s:o,s:s?,s:b,s:f}", "success", 1, "message", message,
                     "installed", installed, "present", present, "warnings", warnings_of(job),
                     "layer", result->layer ? layer_key(result->layer) : NULL, "cached",
                     result->cached, "seconds",
                     (double) (clock_now_us() - job->begun_us) / USEC_PER_SEC);
}

static bool requested(const json_t *requirements, const char *name)
{
    json_t *item;
    size_t i;

    json_array_foreach ((json_t *) requirements, i, item) {
        if (json_is_string(item) && same_package(json_string_value(item), name))
            return true;
    }
    return false;
}

json_t *layer_to_json(const struct layer *layer, const json_t *requirements)
{
    json_t *list = json_array(), *item;
    size_t i;

    if (layer)
        json_array_foreach (json_object_get(layer_record(layer), "packages"), i, item) {
            const char *name = text_of(item, "name");

            (void) json_array_append_new(
                list, json_pack("{s:s,s:s,s:s,s:b}", "name", name, "version",
                                text_of(item, "version"), "sha256", text_of(item, "sha256"),
                                "requested", requested(requirements, name)));
        }
    return json_pack("{s:o,s:o,s:s?}", "packages", list, "requirements",
                     json_is_array(requirements) ? json_deep_copy(requirements) : json_array(),
                     "layer", layer ? layer_key(layer) : NULL);
}
