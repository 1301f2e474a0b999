#include "mark/source/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/text/parse.h"
#include "base/text/strv.h"

#include "base/banned.h"

#define ENTRIES_MAX 20000 /* of directories that are looked at */
#define DEPTH_MAX   4
#define CHANGES_MAX 50

/* ---- what can be a source ---- */

static int refuse(struct fault *fault, const char *directory, const char *why)
{
    char quoted[FORMAT_QUOTED_MAX];

    format_quoted(directory, quoted);
    return fault_set(fault, PROBLEM_SOURCE_MALFORMED, "directory", "%s %s", quoted, why);
}

static bool is_within(const char *path, const char *directory)
{
    size_t len = strlen(directory);

    return strncmp(path, directory, len) == 0 &&
           (path[len] == '/' || path[len] == '\0' || (len == 1 && directory[0] == '/'));
}

/* Components "." and "..", double slashes and control characters are no names for a mount. */
static bool is_plain(const char *path)
{
    if (path[0] != '/' || strstr(path, "//"))
        return false;
    for (const char *at = path; *at; at++) {
        if ((unsigned char) *at < 0x20 || *at == 0x7f)
            return false;
        if (at[0] == '/' && at[1] == '.' &&
            (at[2] == '/' || !at[2] || (at[2] == '.' && (at[3] == '/' || !at[3]))))
            return false;
    }
    return true;
}

int files_check(const char *directory, const char *data_dir, struct fault *fault)
{
    autofree char *real = NULL, *data = NULL;
    struct stat st;

    if (!is_plain(directory) || strlen(directory) >= VOLUME_SOURCE_MAX)
        return refuse(fault, directory,
                      "is not an absolute path without '.' and '..'; write one such as /srv/data");
    if (stat(directory, &st) < 0)
        return refuse(fault, directory,
                      errno == ENOENT || errno == ENOTDIR
                          ? "does not exist on the machine of the service"
                          : "cannot be looked at by the service; check its permissions");
    if (!S_ISDIR(st.st_mode))
        return refuse(fault, directory, "is not a directory; name the one that has the files");
    real = realpath(directory, NULL);
    if (!real || access(directory, R_OK | X_OK) < 0)
        return refuse(fault, directory, "cannot be read by the service; check its permissions");
    if (strcmp(real, "/") == 0)
        return refuse(fault, directory, "is the whole machine; name the directory with the files");
    if (is_within(real, "/proc") || is_within(real, "/sys") || is_within(real, "/dev"))
        return refuse(fault, directory, "belongs to the system; name a directory with files");
    data = data_dir ? realpath(data_dir, NULL) : NULL;
    if (data && (is_within(real, data) || is_within(data, real)))
        return refuse(fault, directory,
                      "has the data of the service in it, or is part of that; put the files "
                      "elsewhere");
    /* In boxes of root, what belongs to root belongs to nobody. */
    if (geteuid() == 0 && st.st_uid == 0 && (st.st_mode & 05) != 05)
        return refuse(fault, directory,
                      "can be read by root only, and boxes are not root; give it and its files to "
                      "another user, or let others read them (chmod -R o+rX)");
    return 0;
}

int files_directories(struct store *store, char ***ret_directories, struct gb_err *err)
{
    struct store_source *sources = NULL;
    char **list = NULL;
    size_t len = 0;
    int r = store_source_list(store, &sources, &len, err);

    for (size_t i = 0; r == 0 && i < len; i++) {
        json_t *settings;
        const char *directory;

        if (strcmp(sources[i].kind, "files") != 0)
            continue;
        settings = json_loads(sources[i].settings, 0, NULL);
        directory = json_string_value(json_object_get(settings, "directory"));
        if (directory && strv_add(&list, directory) < 0)
            r = gb_fail(err, ENOMEM, "list sources");
        json_decref(settings);
    }
    store_sources_free(sources, len);
    if (r < 0)
        strv_free(list);
    else
        *ret_directories = list;
    return r;
}

/* ---- mounts ---- */

void mounts_release(struct mounts *mounts)
{
    for (size_t i = 0; i < mounts->len; i++) {
        free((char *) mounts->items[i].source);
        free((char *) mounts->items[i].target);
    }
    mounts->len = 0;
    json_decref(mounts->left_out);
    mounts->left_out = NULL;
}

/* Whether it is there, and within reach of boxes. */
static int mount_check(struct service *service, const char *directory, struct fault *fault)
{
    struct mounts one = { .items = { { directory, NULL, VOLUME_RO } }, .len = 1 };

    if (files_check(directory, NULL, fault) < 0)
        return -1;
    if (session_may_mount(service, directory, true, fault) == 0)
        return 0;
    mounts_explain(&one, fault);
    return -1;
}

static void leave_out(struct mounts *mounts, const char *name, const struct fault *fault)
{
    if (!mounts->left_out)
        mounts->left_out = json_array();
    (void) json_array_append_new(
        mounts->left_out,
        json_sprintf("The data source %s cannot be used now: %s.", name, fault->detail));
}

static int mount_add(struct mounts *mounts, const struct grant *grant, struct fault *fault)
{
    struct volume *volume = &mounts->items[mounts->len];
    char *target = NULL;

    if (mounts->len == FILES_SOURCES_MAX)
        return fault_set(fault, PROBLEM_QUERY_MALFORMED, "sources",
                         "a chat can have at most %d sources of files at a time; name those that "
                         "the question is about",
                         FILES_SOURCES_MAX);
    if (asprintf(&target, FILES_PLACE "/%s", grant->name) < 0)
        return fault_no_memory(fault);
    *volume = (struct volume){ strdup(grant->directory), target, VOLUME_RO };
    mounts->len++;
    return volume->source ? 0 : fault_no_memory(fault);
}

/* Without unsealing the secrets of others. */
static bool is_files(struct sources *sources, const struct caller *caller, const char *name)
{
    struct fault ignored = { 0 };
    json_t *source = NULL;
    const char *kind;
    bool is = false;

    if (source_get(sources, caller, name, &source, &ignored) == 0) {
        kind = json_string_value(json_object_get(source, "kind"));
        is = kind && strcmp(kind, "files") == 0;
    }
    json_decref(source);
    return is;
}

int mounts_add(struct sources *sources, struct service *service, const struct caller *caller,
               char *const *names, struct mounts *mounts, struct fault *fault)
{
    int r = 0;

    for (; r == 0 && sources && names && *names; names++) {
        struct grant grant = { 0 };

        if (!is_files(sources, caller, *names))
            continue;
        r = source_grant(sources, caller, *names, &grant, fault);
        if (r == 0 && grant.directory && mount_check(service, grant.directory, fault) < 0)
            leave_out(mounts, grant.name, fault);
        else if (r == 0 && grant.directory)
            r = mount_add(mounts, &grant, fault);
        grant_release(&grant);
    }
    return r;
}

bool mounts_are(const struct mounts *mounts, const json_t *volumes)
{
    if (json_array_size(volumes) != mounts->len)
        return false;
    for (size_t i = 0; i < mounts->len; i++) {
        const json_t *volume = json_array_get(volumes, i);
        const char *source = json_string_value(json_object_get(volume, "source"));
        const char *target = json_string_value(json_object_get(volume, "target"));

        if (!source || !target || strcmp(source, mounts->items[i].source) != 0 ||
            strcmp(target, mounts->items[i].target) != 0)
            return false;
    }
    return true;
}

void mounts_explain(const struct mounts *mounts, struct fault *fault)
{
    char why[sizeof fault->detail];

    if (mounts->len == 0 || (fault->problem != PROBLEM_VOLUME_NOT_ALLOWED &&
                             fault->problem != PROBLEM_VOLUME_NOT_AVAILABLE &&
                             fault->problem != PROBLEM_VOLUME_MALFORMED))
        return;
    (void) snprintf(why, sizeof why, "%s", fault->detail);
    if (fault->problem == PROBLEM_VOLUME_NOT_ALLOWED)
        (void) fault_set(
            fault, PROBLEM_SOURCE_FAILED, NULL,
            "a directory of files was added after the service started, which therefore "
            "cannot mount it; restart the service, or start it with --source-root for "
            "a directory above it");
    else
        (void) fault_set(fault, PROBLEM_SOURCE_FAILED, NULL,
                         "a directory of files cannot be mounted: %s", why);
}

/* ---- what is there ---- */

struct walk {
    json_t *files;
    size_t seen;
};

/* Adds what is in the directory @fd, which it closes, under names that begin with @prefix. */
static void walk_directory(struct walk *walk, int fd, const char *prefix, int depth)
{
    DIR *dir = fdopendir(fd);
    const struct dirent *entry;

    if (!dir) {
        (void) close(fd);
        return;
    }
    while (walk->seen++ < ENTRIES_MAX && json_object_size(walk->files) < FILES_STATE_MAX &&
           (entry = readdir(dir))) {
        autofree char *name = NULL;
        struct stat st;

        if (entry->d_name[0] == '.' ||
            fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
            asprintf(&name, "%s%s%s", prefix, *prefix ? "/" : "", entry->d_name) < 0)
            continue;
        if (S_ISREG(st.st_mode)) {
            int64_t time_ns = st.st_mtim.tv_sec * INT64_C(1000000000) + st.st_mtim.tv_nsec;

            /* A name that is not UTF-8 is none for JSON, and left out. */
            (void) json_object_set_new(
                walk->files, name,
                json_pack("[I, I]", (json_int_t) st.st_size, (json_int_t) time_ns));
        } else if (S_ISDIR(st.st_mode) && depth + 1 < DEPTH_MAX) {
            int inner =
                openat(dirfd(dir), entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

            if (inner >= 0)
                walk_directory(walk, inner, name, depth + 1);
        }
    }
    (void) closedir(dir);
}

json_t *mounts_state(const struct mounts *mounts)
{
    json_t *state = mounts->len > 0 ? json_object() : NULL;

    for (size_t i = 0; state && i < mounts->len; i++) {
        struct walk walk = { .files = json_object() };
        const char *target = mounts->items[i].target;
        int fd = open(mounts->items[i].source, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        if (fd >= 0 && walk.files)
            walk_directory(&walk, fd, "", 0);
        else if (fd >= 0)
            (void) close(fd);
        (void) json_object_set_new(state, target + strlen(FILES_PLACE "/"), walk.files);
    }
    return state;
}

static void add_change(json_t *changes, const char *source, const char *file, const char *how)
{
    if (json_array_size(changes) < CHANGES_MAX)
        (void) json_array_append_new(changes, json_sprintf("%s/%.200s %s", source, file, how));
}

json_t *mounts_changes(const json_t *then, const json_t *now)
{
    json_t *changes = json_array(), *before, *file;
    const char *source, *name;

    json_object_foreach ((json_t *) then, source, before) {
        const json_t *after = json_object_get(now, source);

        json_object_foreach (before, name, file) {
            const json_t *other = json_object_get(after, name);

            if (!other)
                add_change(changes, source, name, "is gone");
            else if (!json_equal(file, other))
                add_change(changes, source, name, "was changed");
        }
        json_object_foreach ((json_t *) after, name, file)
            if (!json_object_get(before, name))
                add_change(changes, source, name, "is new");
    }
    return changes;
}
