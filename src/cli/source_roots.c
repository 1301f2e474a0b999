#include "cli/source_roots.h"

#include <errno.h>
#include <string.h>

#include "base/text/parse.h"
#include "base/text/strv.h"
#include "cli/cmd.h"
#include "mark/source/files.h"
#include "service/service.h"

#include "base/banned.h"

static size_t path_length(const char *path)
{
    size_t len = strlen(path);

    while (len > 1 && path[len - 1] == '/')
        len--;
    return len;
}

/* Whether one of them has @path already, with everything in it. */
static bool covered(const struct source_roots *roots, const char *path)
{
    for (size_t i = 0; i < roots->len; i++) {
        size_t len = path_length(roots->items[i].path);

        if (strncmp(path, roots->items[i].path, len) == 0 && (path[len] == '/' || !path[len]))
            return true;
    }
    return false;
}

static int add(struct source_roots *roots, const char *path, struct gb_err *err)
{
    struct volume_root root = { path, false };
    int r;

    if (covered(roots, path))
        return 0;
    if (roots->len == VOLUME_ROOTS_MAX)
        return gb_fail_plain(err, E2BIG,
                             "there are more than %d directories; name one above them with "
                             "--source-root",
                             VOLUME_ROOTS_MAX);
    r = volume_roots_check(&root, 1, err);
    if (r < 0)
        return r;
    roots->items[roots->len++] = root;
    roots->inner_len++;
    return 0;
}

int source_roots_add(const struct config *cfg, struct store *store, struct source_roots *roots,
                     struct gb_err *err)
{
    struct gb_err why = { 0 };
    int r = 0;

    for (char **root = cfg->source_roots; r == 0 && root && *root; root++)
        r = add(roots, *root, err);
    if (r == 0 && store)
        r = files_directories(store, &roots->directories, err);
    for (char **path = roots->directories; r == 0 && path && *path; path++) {
        char quoted[FORMAT_QUOTED_MAX];

        format_quoted(*path, quoted);
        if (add(roots, *path, &why) < 0) /* one source does not keep a service from starting */
            say("the files in %s cannot be used: %s", quoted, why.msg);
    }
    return r;
}

void source_roots_fill(const struct source_roots *roots, struct service_config *config)
{
    config->engine.volume_roots = roots->items;
    config->engine.volume_roots_len = roots->len;
    config->inner_roots_len = roots->inner_len;
}

void source_roots_release(struct source_roots *roots)
{
    strv_free(roots->directories);
    roots->directories = NULL;
}
