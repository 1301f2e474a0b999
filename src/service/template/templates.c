/*
 * The operator's templates on disk, and how names are resolved.
 *
 * Theory of operation. DATA/templates/NAME.json is one template; it is written completely under
 * another name and then renamed, so nobody ever reads half of one, and a running service sees
 * additions and changes the next time a client uses the name. Anyone who can write there decides
 * what is mounted in boxes, so the directory and the files must be ours and writable by nobody
 * else. A client's text never becomes a path unless it is a valid name.
 */
#include "service/template/templates.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/io.h"
#include "base/text/parse.h"
#include "service/package/requirement.h"

#include "base/banned.h"

#define FILE_MAX      65536
#define BINDS_MAX     16
#define NOTE_MAX      512
#define TEMPLATES_MAX 1000
#define SUFFIX        ".json"
#define FILE_NAME_MAX (TEMPLATE_NAME_MAX + sizeof SUFFIX)

static const char *const kind_names[] = {
    [TEMPLATE_KIND_PYTHON] = "python",
    [TEMPLATE_KIND_VENV] = "venv",
    [TEMPLATE_KIND_PACKAGES] = "packages",
};

/* The usual names of Python container images; the operator's own aliases come first. */
const char *const template_own_aliases[] = {
    "python=" TEMPLATE_DEFAULT,
    "python:*=" TEMPLATE_DEFAULT,
    "library/python:*=" TEMPLATE_DEFAULT,
    "docker.io/library/python:*=" TEMPLATE_DEFAULT,
    NULL,
};

const char *template_kind_name(enum template_kind kind)
{
    return kind_names[kind];
}

void template_entry_release(struct template_entry *entry)
{
    templates_names_free(entry->binds);
    templates_names_free(entry->packages);
    templates_names_free(entry->left_out);
    free(entry->source);
    free(entry->python);
    free(entry->preload);
    free(entry->made_for);
    if (entry->packages_dir)
        gb_closep(&entry->packages_fd);
    free(entry->packages_dir);
    *entry = (struct template_entry){ 0 };
}

int template_entry_leave_out(struct template_entry *entry, const char *lines)
{
    size_t len = 0, max = 0;

    templates_names_free(entry->left_out);
    entry->left_out = NULL;
    for (const char *at = lines; *at; at++)
        max += *at == '\n';
    if (max == 0)
        return 0;
    entry->left_out = calloc(max + 1, sizeof *entry->left_out);
    for (; entry->left_out && len < max; len++) {
        size_t size = strcspn(lines, "\n");

        if (!(entry->left_out[len] = strndup(lines, size)))
            break;
        lines += size + 1;
    }
    return len == max ? 0 : -ENOMEM;
}

struct template_def template_entry_def(const struct template_entry *entry)
{
    return (struct template_def){
        .name = entry->name,
        .python = entry->python,
        .preload = entry->preload,
        .binds = (const char *const *) entry->binds,
        .packages = { entry->venv_lib[0] ? entry->venv_lib : NULL, entry->packages_dir,
                      entry->packages_fd },
    };
}

/* ---- names ---- */

static bool is_plain(char c)
{
    return ((c | 32) >= 'a' && (c | 32) <= 'z') || (c >= '0' && c <= '9');
}

static bool name_shaped(const char *name)
{
    size_t len = 0;

    if (!is_plain(name[0]))
        return false;
    for (; name[len]; len++)
        if (len >= TEMPLATE_NAME_MAX - 1 || (!is_plain(name[len]) && !strchr("._:-", name[len])))
            return false;
    return true;
}

/* Names with a meaning of their own. */
static bool name_ours(const char *name)
{
    return strcmp(name, TEMPLATE_DEFAULT) == 0 || strcmp(name, TEMPLATE_SYSTEM) == 0 ||
           strcmp(name, TEMPLATE_AUTO) == 0;
}

bool template_name_valid(const char *name)
{
    return name_shaped(name) && !name_ours(name);
}

bool template_alias_valid(const char *text)
{
    const char *equals = strrchr(text, '=');

    if (!equals || equals == text || equals - text >= TEMPLATE_WANTED_MAX)
        return false;
    for (const char *p = text; p < equals; p++)
        if (*p <= ' ' || *p > '~' || strchr("?[]\\=", *p))
            return false;
    return name_shaped(equals + 1);
}

int template_check_name(const char *name, struct gb_err *err)
{
    char quoted[FORMAT_QUOTED_MAX];

    if (template_name_valid(name))
        return 0;
    if (name_ours(name))
        return gb_fail_plain(err, EINVAL,
                             "'%s' has a meaning of its own (system is the system's Python, "
                             "default the template of --default-template); choose another name",
                             name);
    format_quoted(name, quoted);
    return gb_fail_plain(err, EINVAL,
                         "%s is not a valid template name: up to 64 letters, digits and ._:-, "
                         "starting with a letter or digit",
                         quoted);
}

/* ---- the directory ---- */

static int owned_check(int fd, const char *what, struct gb_err *err)
{
    struct stat st;

    if (fstat(fd, &st) < 0)
        return gb_fail(err, errno, "inspect %.120s", what);
    if (st.st_uid != geteuid() && st.st_uid != 0)
        return gb_fail_plain(err, EPERM, "%.120s belongs to user id %u; it must belong to you",
                             what, (unsigned) st.st_uid);
    if (st.st_mode & 022)
        return gb_fail_plain(err, EPERM, "%.120s is writable by others; run chmod go-w on it",
                             what);
    return 0;
}

/* -ENOENT without a message if it does not exist, unless @make. */
static int dir_open(const char *data_dir, bool make, int *ret_fd, struct gb_err *err)
{
    autoclose int data = open(data_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC), dir = -EBADF;
    int r;

    if (data < 0)
        return gb_fail(err, errno, "open the data directory '%.100s'", data_dir);
    if ((r = owned_check(data, data_dir, err)) < 0)
        return r;
    if (make && mkdirat(data, "templates", 0700) < 0 && errno != EEXIST)
        return gb_fail(err, errno, "create '%.100s/templates'", data_dir);
    dir = openat(data, "templates", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir < 0)
        return gb_fail(err, errno, "open '%.100s/templates'", data_dir);
    if ((r = owned_check(dir, "the directory 'templates' of the data directory", err)) < 0)
        return r;
    *ret_fd = TAKE_FD(dir);
    return 0;
}

static void file_name(const char *name, char file[FILE_NAME_MAX])
{
    snprintf(file, FILE_NAME_MAX, "%s" SUFFIX, name);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *) a, *(char *const *) b);
}

void templates_names_free(char **names)
{
    for (size_t i = 0; names && names[i]; i++)
        free(names[i]);
    free(names);
}

static char *name_of_file(const char *file)
{
    size_t len = strlen(file), tail = strlen(SUFFIX);
    char *name;

    if (len <= tail || strcmp(file + len - tail, SUFFIX) != 0)
        return NULL;
    name = strndup(file, len - tail);
    if (name && !template_name_valid(name)) {
        free(name);
        return NULL;
    }
    return name;
}

int templates_names(const char *data_dir, char ***ret_names, struct gb_err *err)
{
    char **names = calloc(TEMPLATES_MAX + 1, sizeof *names);
    struct dirent *entry;
    size_t len = 0;
    int fd = -EBADF, r;
    autoclosedir DIR *dir = NULL;

    if (!names)
        return gb_fail(err, ENOMEM, "list the templates");
    r = dir_open(data_dir, false, &fd, err);
    if (r < 0 && r != -ENOENT) {
        free(names);
        return r;
    }
    if (r == 0)
        (void) dir_open_fd(fd, &dir);
    while (dir && len < TEMPLATES_MAX && (entry = readdir(dir)))
        if ((names[len] = name_of_file(entry->d_name)))
            len++;
    qsort(names, len, sizeof *names, by_name);
    *ret_names = names;
    return 0;
}

/* ---- one definition as JSON ---- */

static json_t *strings_to_json(char *const *list)
{
    json_t *array = json_array();

    for (; array && list && *list; list++)
        if (json_array_append_new(array, json_string(*list)) < 0) {
            json_decref(array);
            return NULL;
        }
    return array;
}

static json_t *entry_to_json(const struct template_entry *entry)
{
    json_t *json =
        json_pack("{s:i, s:s, s:s, s:s, s:s, s:o}", "version", 1, "kind",
                  template_kind_name(entry->kind), "source", entry->source, "python", entry->python,
                  "preload", entry->preload, "binds", strings_to_json(entry->binds));

    if (json && entry->left_out &&
        json_object_set_new(json, "left_out", strings_to_json(entry->left_out)) < 0) {
        json_decref(json);
        return NULL;
    }
    if (json && entry->kind == TEMPLATE_KIND_PACKAGES &&
        (json_object_set_new(json, "packages", strings_to_json(entry->packages)) < 0 ||
         json_object_set_new(json, "layer", json_string(entry->layer)) < 0 ||
         json_object_set_new(json, "made_for", json_string(entry->made_for)) < 0)) {
        json_decref(json);
        return NULL;
    }
    return json;
}

static bool path_good(const char *path)
{
    size_t len = strlen(path);

    return path[0] == '/' && len > 1 && len < 4096 && path[len - 1] != '/' && !strstr(path, "//") &&
           !strstr(path, "/../") && !strstr(path, "/./") &&
           (len < 3 || strcmp(path + len - 3, "/..") != 0);
}

/* It is printed. */
static bool note_good(const char *text)
{
    for (const char *at = text; *at; at++)
        if ((unsigned char) *at < ' ' || *at == 0x7f)
            return false;
    return strlen(text) < NOTE_MAX;
}

static bool requirement_good(const char *text)
{
    struct requirement ignored;
    struct gb_err err;

    return requirement_parse(text, true, &ignored, &err) == 0;
}

static int strings_read(const json_t *array, size_t max, bool (*good)(const char *text),
                        char ***ret_list)
{
    size_t len = json_array_size(array);
    char **list;

    if (!json_is_array(array) || len > max)
        return -EINVAL;
    list = calloc(len + 1, sizeof *list);
    for (size_t i = 0; list && i < len; i++) {
        const char *text = json_string_value(json_array_get(array, i));

        if (!text || !good(text) || !(list[i] = strdup(text))) {
            templates_names_free(list);
            return -EINVAL;
        }
    }
    *ret_list = list;
    return list ? 0 : -ENOMEM;
}

/* Only a set of packages has these. The layer's key becomes a path: nothing else may pass. */
static int packages_read(const json_t *json, struct template_entry *entry)
{
    const char *layer = json_string_value(json_object_get(json, "layer"));
    const char *made_for = json_string_value(json_object_get(json, "made_for"));

    /* Earlier versions mixed the set with the system's packages: it is not complete. */
    if (strcmp(entry->python, VENV_PYTHON) != 0 || !layer || !layer_key_valid(layer) || !made_for ||
        json_array_size(json_object_get(json, "packages")) == 0)
        return -EINVAL;
    snprintf(entry->layer, sizeof entry->layer, "%s", layer);
    entry->made_for = strdup(made_for);
    return entry->made_for ? strings_read(json_object_get(json, "packages"), TEMPLATE_PACKAGES_MAX,
                                          requirement_good, &entry->packages)
                           : -ENOMEM;
}

static int entry_from_json(json_t *json, struct template_entry *entry)
{
    const char *kind = NULL, *source = NULL, *python = NULL, *preload = NULL;
    json_t *binds = NULL;
    const json_t *left_out;
    size_t found = 0;
    int version = 0;

    if (json_unpack(json, "{s:i, s:s, s:s, s:s, s:s, s:o}", "version", &version, "kind", &kind,
                    "source", &source, "python", &python, "preload", &preload, "binds",
                    &binds) < 0 ||
        version != 1 || !path_good(python) || strlen(preload) >= PRELOAD_MAX)
        return -EINVAL;
    while (found < ARRAY_LEN(kind_names) && strcmp(kind_names[found], kind) != 0)
        found++;
    if (found == ARRAY_LEN(kind_names) ||
        strings_read(binds, BINDS_MAX, path_good, &entry->binds) < 0)
        return -EINVAL;
    entry->kind = (enum template_kind) found;
    if ((left_out = json_object_get(json, "left_out")) &&
        strings_read(left_out, PRELOAD_MAX / 2, note_good, &entry->left_out) < 0)
        return -EINVAL;
    entry->source = strdup(source);
    entry->python = strdup(python);
    entry->preload = strdup(preload);
    if (!entry->source || !entry->python || !entry->preload)
        return -ENOMEM;
    return entry->kind == TEMPLATE_KIND_PACKAGES ? packages_read(json, entry) : 0;
}

/* ---- reading and writing ---- */

/* ", NAME, NAME", as many as fit. */
static void names_append(const char *data_dir, char *buf, size_t size)
{
    struct gb_err ignored;
    char **names = NULL;
    size_t used = strlen(buf);

    if (templates_names(data_dir, &names, &ignored) < 0)
        return;
    for (size_t i = 0; names[i]; i++) {
        if (used + strlen(names[i]) + 8 > size) {
            snprintf(buf + used, size - used, ", …");
            break;
        }
        used += (size_t) snprintf(buf + used, size - used, ", %s", names[i]);
    }
    templates_names_free(names);
}

static int unknown(const char *data_dir, const char *wanted, struct gb_err *err)
{
    char quoted[FORMAT_QUOTED_MAX], list[110] = TEMPLATE_SYSTEM;

    format_quoted(wanted, quoted);
    names_append(data_dir, list, sizeof list);
    return gb_fail_plain(err, ENOENT, "no such template: %s; available: %s", quoted, list);
}

static int file_read(int dir, const char *name, json_t **ret_json, struct gb_err *err)
{
    char file[FILE_NAME_MAX], what[FILE_NAME_MAX + 32];
    autofree char *text = malloc(FILE_MAX);
    autoclose int fd = -EBADF;
    ssize_t len;
    int r;

    file_name(name, file);
    fd = openat(dir, file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || !text)
        return gb_fail(err, text ? errno : ENOMEM, "read the template '%.64s'", name);
    snprintf(what, sizeof what, "the definition '%s'", file);
    if ((r = owned_check(fd, what, err)) < 0)
        return r;
    len = io_read_all(fd, text, FILE_MAX);
    if (len < 0)
        return gb_fail(err, (int) -len, "read the template '%.64s'", name);
    *ret_json = len < FILE_MAX ? json_loadb(text, (size_t) len, 0, NULL) : NULL;
    if (!*ret_json)
        return gb_fail_plain(err, EINVAL,
                             "the definition of template '%.64s' is damaged: remove it and add it "
                             "again",
                             name);
    return 0;
}

int templates_load(const char *data_dir, const char *name, struct template_entry *ret_entry,
                   struct gb_err *err)
{
    struct template_entry entry = { 0 };
    autoclose int dir = -EBADF;
    json_t *json = NULL;
    int r;

    if (!template_name_valid(name))
        return unknown(data_dir, name, err);
    r = dir_open(data_dir, false, &dir, err);
    if (r == 0)
        r = file_read(dir, name, &json, err);
    if (r == -ENOENT)
        return unknown(data_dir, name, err);
    if (r < 0)
        return r;
    r = entry_from_json(json, &entry);
    json_decref(json);
    if (r < 0) {
        template_entry_release(&entry);
        return gb_fail_plain(err, EINVAL,
                             "this version does not understand the definition of template '%.64s': "
                             "remove it and add it again",
                             name);
    }
    snprintf(entry.name, sizeof entry.name, "%s", name);
    *ret_entry = entry;
    return 0;
}

/* Reads only this member: a definition of a later version names its layer too. */
static bool file_names_layer(int dir, const char *name, const char *key)
{
    struct gb_err ignored;
    json_t *json = NULL;
    const char *layer;
    bool same;
    int r = file_read(dir, name, &json, &ignored);

    if (r < 0) /* gone in the meantime, or unusable for any template */
        return r != -ENOENT && r != -EINVAL;
    layer = json_string_value(json_object_get(json, "layer"));
    same = layer && strcmp(layer, key) == 0;
    json_decref(json);
    return same;
}

bool templates_name_layer(const char *data_dir, const char *key)
{
    autoclose int dir = -EBADF;
    struct gb_err ignored;
    char **names = NULL;
    bool named = false;
    int r = dir_open(data_dir, false, &dir, &ignored);

    if (r < 0 || templates_names(data_dir, &names, &ignored) < 0)
        return r != -ENOENT;
    for (size_t i = 0; names[i] && !named; i++)
        named = file_names_layer(dir, names[i], key);
    templates_names_free(names);
    return named;
}

static int file_write(int dir, const char *temp, const char *text, struct gb_err *err)
{
    autoclose int fd =
        openat(dir, temp, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    int r = fd < 0 ? -errno : io_write_all(fd, text, strlen(text));

    if (r == 0 && fsync(fd) < 0)
        r = -errno;
    return r < 0 ? gb_fail(err, -r, "write the definition of a template") : 0;
}

/* A name for the file while it is written; no template can have it. */
static void temp_name(char temp[32])
{
    snprintf(temp, 32, ".new-%d", (int) getpid());
}

bool templates_has(const char *data_dir, const char *name)
{
    char path[FILE_NAME_MAX + 16];
    autoclose int data = open(data_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (!template_name_valid(name) || data < 0)
        return false;
    snprintf(path, sizeof path, "templates/%s" SUFFIX, name);
    return faccessat(data, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static int taken(const char *name, struct gb_err *err)
{
    return gb_fail_plain(err, EEXIST,
                         "template '%s' already exists; remove it first, or use --replace", name);
}

int templates_check_free(const char *data_dir, const char *name, struct gb_err *err)
{
    return templates_has(data_dir, name) ? taken(name, err) : 0;
}

int templates_save(const char *data_dir, const struct template_entry *entry, bool replace,
                   struct gb_err *err)
{
    char file[FILE_NAME_MAX], temp[32];
    autofree char *text = NULL;
    autoclose int dir = -EBADF;
    json_t *json;
    int r = template_check_name(entry->name, err);

    if (r < 0 || (r = dir_open(data_dir, true, &dir, err)) < 0)
        return r;
    json = entry_to_json(entry);
    text = json ? json_dumps(json, JSON_INDENT(2)) : NULL;
    json_decref(json);
    if (!text)
        return gb_fail_plain(err, EINVAL, "a path of the template is not valid UTF-8");
    file_name(entry->name, file);
    temp_name(temp);
    r = file_write(dir, temp, text, err);
    if (r == 0 && replace)
        r = renameat(dir, temp, dir, file) < 0 ? -errno : 0;
    else if (r == 0)
        r = linkat(dir, temp, dir, file, 0) < 0 ? -errno : 0;
    if (r == -EEXIST)
        (void) taken(entry->name, err);
    else if (r < 0)
        (void) gb_fail(err, -r, "write the definition of '%s'", entry->name);
    (void) unlinkat(dir, temp, 0);
    if (r == 0 && fsync(dir) < 0)
        r = gb_fail(err, errno, "write the definition of '%s'", entry->name);
    return r;
}

int templates_remove(const char *data_dir, const char *name, struct gb_err *err)
{
    char file[FILE_NAME_MAX];
    autoclose int dir = -EBADF;
    int r = template_check_name(name, err);

    if (r < 0)
        return r;
    r = dir_open(data_dir, false, &dir, err);
    if (r < 0 && r != -ENOENT)
        return r;
    file_name(name, file);
    if (r == 0 && unlinkat(dir, file, 0) < 0)
        r = -errno;
    if (r == -ENOENT)
        return unknown(data_dir, name, err);
    return r < 0 ? gb_fail(err, -r, "remove the template '%s'", name) : 0;
}

/* ---- resolving names ---- */

/* The template of the first matching alias, or NULL. */
static const char *alias_find(const char *const *aliases, const char *wanted)
{
    char pattern[TEMPLATE_WANTED_MAX];

    for (; aliases && *aliases; aliases++) {
        const char *equals = strrchr(*aliases, '=');

        if (!equals || equals - *aliases >= (ptrdiff_t) sizeof pattern)
            continue;
        snprintf(pattern, sizeof pattern, "%.*s", (int) (equals - *aliases), *aliases);
        if (fnmatch(pattern, wanted, 0) == 0)
            return equals + 1;
    }
    return NULL;
}

/* @name itself, or what it stands for; NULL: there is none. */
static const char *known(const char *data_dir, const char *standard, const char *name)
{
    if (name && strcmp(name, TEMPLATE_DEFAULT) == 0)
        return standard;
    return name && (strcmp(name, TEMPLATE_SYSTEM) == 0 || strcmp(name, standard) == 0 ||
                    templates_has(data_dir, name))
               ? name
               : NULL;
}

int templates_resolve(const char *data_dir, const char *const *aliases, const char *standard,
                      const char *wanted, char ret_name[TEMPLATE_NAME_MAX], struct gb_err *err)
{
    const char *name, *alias;

    if (strlen(wanted) >= TEMPLATE_WANTED_MAX)
        return unknown(data_dir, wanted, err);
    name = known(data_dir, standard, wanted);
    if (!name) {
        alias = alias_find(aliases, wanted);
        if (!alias)
            alias = alias_find(template_own_aliases, wanted);
        name = known(data_dir, standard, alias);
        if (!name)
            return unknown(data_dir, alias ? alias : wanted, err);
    }
    snprintf(ret_name, TEMPLATE_NAME_MAX, "%s", name);
    return 0;
}
