/*
 * The packages that a template's Python finds, with their versions: read from the names of their
 * metadata directories (NAME-VERSION.dist-info), without executing anything. Those of a package
 * that was installed without metadata are unknown.
 */
#include <dirent.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "service/package/requirement.h"
#include "service/template/templates.h"

#include "base/banned.h"

#define VERSIONS_MAX 2000

/* Whether it is a metadata directory; @ret_name is normalized. */
static bool about_parse(const char *file, char ret_name[PACKAGE_NAME_MAX + 1],
                        char ret_version[PACKAGE_NAME_MAX + 1])
{
    const char *end = strstr(file, ".dist-info"), *dash = strchr(file, '-'), *stop;
    char name[PACKAGE_NAME_MAX + 1];

    if (!end)
        end = strstr(file, ".egg-info");
    if (!end || !dash || dash >= end || dash - file > PACKAGE_NAME_MAX)
        return false;
    /* An egg may have the version of Python behind its own. */
    stop = memchr(dash + 1, '-', (size_t) (end - dash - 1));
    if (!stop)
        stop = end;
    if (stop - dash - 1 > PACKAGE_NAME_MAX)
        return false;
    snprintf(name, sizeof name, "%.*s", (int) (dash - file), file);
    snprintf(ret_version, PACKAGE_NAME_MAX + 1, "%.*s", (int) (stop - dash - 1), dash + 1);
    package_normal(name, ret_name);
    return ret_name[0] && package_version_valid(ret_version);
}

/* A package that is there already, in a directory that comes first, stays. */
static void directory_add(const char *path, json_t *found)
{
    char name[PACKAGE_NAME_MAX + 1], version[PACKAGE_NAME_MAX + 1];
    autoclosedir DIR *dir = opendir(path);
    const struct dirent *entry;

    while (dir && json_object_size(found) < VERSIONS_MAX && (entry = readdir(dir)))
        if (about_parse(entry->d_name, name, version) && !json_object_get(found, name))
            (void) json_object_set_new(found, name, json_string(version));
}

static void pattern_add(const char *prefix, const char *rest, json_t *found)
{
    char pattern[PATH_MAX];
    glob_t paths;

    /* A path with such characters in it is not looked into. */
    if (strpbrk(prefix, "*?[\\") ||
        snprintf(pattern, sizeof pattern, "%s%s", prefix, rest) >= (int) sizeof pattern)
        return;
    if (glob(pattern, 0, NULL, &paths) == 0)
        for (size_t i = 0; i < paths.gl_pathc; i++)
            directory_add(paths.gl_pathv[i], found);
    globfree(&paths);
}

static void prefix_add(const char *path, int up, json_t *found)
{
    autofree char *prefix = strdup(path);
    char *slash;

    for (; prefix && up > 0 && (slash = strrchr(prefix, '/')); up--)
        *slash = '\0';
    if (prefix && prefix[0]) /* directly below the root there is none */
        pattern_add(prefix, "/lib/python3.*/site-packages", found);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *) a, *(const char *const *) b);
}

static json_t *sorted(json_t *found)
{
    const char *names[VERSIONS_MAX], *name;
    json_t *list = json_array(), *version;
    size_t len = 0;

    json_object_foreach (found, name, version)
        if (len < VERSIONS_MAX)
            names[len++] = name;
    if (len > 0)
        qsort(names, len, sizeof *names, by_name);
    for (size_t i = 0; i < len; i++)
        (void) json_array_append_new(list, json_pack("{s:s, s:O}", "name", names[i], "version",
                                                     json_object_get(found, names[i])));
    json_decref(found);
    return list;
}

json_t *template_versions(const struct template_entry *entry)
{
    json_t *found = json_object();

    switch (entry->kind) {
    case TEMPLATE_KIND_PACKAGES:
        if (entry->packages_dir)
            directory_add(entry->packages_dir, found);
        break;
    case TEMPLATE_KIND_VENV:
        prefix_add(entry->source, 0, found);
        break;
    case TEMPLATE_KIND_PYTHON:
        if (strncmp(entry->python, "/usr/", 5) == 0) {
            pattern_add("/usr/local/lib", "/python3.*/dist-packages", found);
            pattern_add("/usr/lib", "/python3/dist-packages", found);
        }
        prefix_add(entry->python, 2, found);
        break;
    }
    return sorted(found);
}
