/* Packages and installs as JSON, and the messages for users. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "service/package/installer_internal.h"
#include "service/package/internal.h"

#include "base/banned.h"

#define NAMED_MAX   12 /* packages that a message names */
#define MESSAGE_MAX 1024

const char *install_stage_name(enum install_stage stage)
{
    static const char *const names[] = { [INSTALL_RESOLVING] = "resolving",
                                         [INSTALL_FETCHING] = "fetching",
                                         [INSTALL_UNPACKING] = "unpacking" };

    return names[stage];
}

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

static bool is_item(const struct install_job *job, const char *text)
{
    for (size_t i = 0; i < job->len; i++)
        if (same_package(text, job->items[i].normal))
            return true;
    return false;
}

json_t *requirements_kept(const struct install_job *job, const json_t *list)
{
    json_t *kept = json_array(), *item;
    size_t i;

    /* A set whose requirements are unknown consists of its packages. */
    if (!json_is_array(list) && job->before) {
        json_array_foreach (json_object_get(layer_record(job->before), "packages"), i, item) {
            const json_t *name = json_object_get(item, "name");

            if (!is_item(job, json_string_value(name)))
                (void) json_array_append(kept, (json_t *) name);
        }
        return kept;
    }
    json_array_foreach ((json_t *) list, i, item)
        if (json_is_string(item) && !is_item(job, json_string_value(item)))
            (void) json_array_append(kept, item);
    return kept;
}

void requirements_change(json_t *list, const struct install_job *job)
{
    for (size_t n = json_array_size(list); n > 0; n--) {
        const char *text = json_string_value(json_array_get(list, n - 1));

        if (text && is_item(job, text))
            (void) json_array_remove(list, n - 1);
    }
    for (size_t i = 0; i < job->len && !job->removes; i++)
        (void) json_array_append_new(list, json_string(job->items[i].text));
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

/* Packages that the previous layer had and this one does not. */
static json_t *gone(const struct install_job *job)
{
    json_t *list = json_array(), *item;
    size_t i;

    if (!job->before || !job->result.layer)
        return list;
    json_array_foreach (json_object_get(layer_record(job->before), "packages"), i, item)
        if (!version_in(job->result.layer, text_of(item, "name")))
            (void) json_array_append_new(list, json_pack("{s:s,s:s}", "name", text_of(item, "name"),
                                                         "version", text_of(item, "version")));
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

static void warn(json_t *list, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static void warn(json_t *list, const char *fmt, ...)
{
    char text[300];
    va_list args;

    va_start(args, fmt);
    (void) vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    (void) json_array_append_new(list, json_string(text));
}

/* Versions that are not the newest, as the installer's box says. */
static void warn_older(const struct install_job *job, json_t *list)
{
    char name[60], version[40], newest[40];
    json_t *item;
    size_t i;

    json_array_foreach ((json_t *) job->result.older, i, item) {
        if (i >= NAMED_MAX)
            break;
        installer_words(json_object_get(item, "name"), name, sizeof name);
        installer_words(json_object_get(item, "version"), version, sizeof version);
        installer_words(json_object_get(item, "newest"), newest, sizeof newest);
        if (name[0] && version[0] && newest[0])
            warn(list,
                 "%s %s was taken, although %s is the newest: another version does not work with "
                 "the packages that are loaded or installed",
                 name, version, newest);
    }
}

/* A live session keeps the modules that it has imported. */
static void warn_changed(const struct install_job *job, json_t *list)
{
    json_t *item;
    size_t i;

    if (!job->live || !job->before || !job->result.layer)
        return;
    json_array_foreach (json_object_get(layer_record(job->before), "packages"), i, item) {
        const char *name = text_of(item, "name"), *now = version_in(job->result.layer, name);

        if (now && strcmp(now, text_of(item, "version")) == 0)
            continue;
        warn(list,
             "%s %s was replaced; if its modules are already imported in this session, they stay "
             "until it is restarted",
             name, text_of(item, "version"));
    }
}

static json_t *warnings_of(const struct install_job *job)
{
    json_t *list = json_array();

    for (size_t i = 0; i < job->len && !job->removes; i++) {
        const char *other = package_lookalike(job->items[i].normal);

        if (other)
            warn(list, "%s differs from %s by one letter; check that it is the package you want",
                 job->items[i].name, other);
    }
    for (size_t i = 0; i < job->len && job->removes; i++)
        if (!version_in(job->before, job->items[i].normal))
            warn(list, "%s is not installed here, or is part of every box", job->items[i].name);
    if (job->result.stale)
        warn(list, "the package index cannot be reached; its earlier answer was used");
    warn_older(job, list);
    warn_changed(job, list);
    return list;
}

static void message_write(const json_t *installed, const json_t *present, const json_t *removed,
                          char *buf, size_t size)
{
    buf[0] = '\0';
    name_some(installed, "Installed ", buf, size);
    if (json_array_size(removed) > 0)
        name_some(removed, buf[0] ? "; removed " : "Removed ", buf, size);
    if (json_array_size(present) > 0)
        name_some(present, buf[0] ? "; already installed: " : "Already installed: ", buf, size);
    if (!buf[0])
        snprintf(buf, size, "None of these packages applies to this Python");
}

json_t *install_to_json(const struct install_job *job)
{
    const struct install_result *result = &job->result;
    json_t *installed = added(job), *removed = gone(job);
    json_t *present = job->removes ? json_array() : there(job);
    char message[MESSAGE_MAX];

    message_write(installed, present, removed, message, sizeof message);
    return json_pack("{s:b,s:s,s:o,s:o,s:o,s:o,s:s?,s:b,s:f}", "success", 1, "message", message,
                     "installed", installed, "present", present, "removed", removed, "warnings",
                     warnings_of(job), "layer", result->layer ? layer_key(result->layer) : NULL,
                     "cached", result->cached, "seconds",
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
