/*
 * Volumes, the supervisor's side: which directories of the host a box may mount, and where.
 *
 * Theory of operation. Paths are compared as text, component by component, and texts with "." or
 * ".." in them are refused: so the path that is opened later is the one that was compared. The path
 * between the operator's directory and the requested one is controlled by others and may contain
 * links; the builder opens it beneath its own mount of the operator's directory and follows none.
 *
 * The operator's own path may contain links. It is resolved once, when the engine is opened, and
 * the builder makes sure that it finds the same directory.
 */
#include "engine/volumes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/io.h"
#include "base/text/parse.h"

#include "base/banned.h"

#define WORKSPACE "workspace"

struct volume_place {
    char *name; /* as the operator wrote it, without slashes at its end */
    char *real; /* its real path */
    bool writable;
    uint64_t dev, ino;
};

struct volume_roots {
    struct volume_place *items;
    struct volume_root *entries; /* the same for volumes_settle() */
    size_t len;
};

/* Top directories of a box that are not for volumes. Names that begin with a dot are ours. */
static const char *const reserved[] = {
    "bin",  "boot", "dev", "etc",  "lib", "lib32", "lib64", "libx32",
    "proc", "root", "run", "sbin", "sys", "tmp",   "usr",   "var",
};

/* Kernel file systems; a box with one of them could see or change the host. */
static const char *const kernel_types[] = {
    "autofs",     "binfmt_misc", "bpf",      "cgroup",   "cgroup2", "configfs",
    "debugfs",    "devpts",      "devtmpfs", "efivarfs", "fusectl", "hugetlbfs",
    "mqueue",     "nsfs",        "proc",     "pstore",   "resctrl", "rpc_pipefs",
    "securityfs", "selinuxfs",   "sysfs",    "tracefs",
};

/* ---- paths ---- */

/* The length of an absolute path without slashes at its end, or 0 if it is malformed: relative,
 * with empty components, "." or ".." in it, or with control characters. */
static size_t path_length(const char *path)
{
    size_t len = strlen(path);

    if (path[0] != '/')
        return 0;
    while (len > 1 && path[len - 1] == '/')
        len--;
    for (size_t at = 0; at < len && len > 1;) {
        size_t part = strcspn(path + at + 1, "/");

        if (at + 1 + part > len)
            part = len - at - 1;
        if (part == 0 || (part == 1 && path[at + 1] == '.') ||
            (part == 2 && path[at + 1] == '.' && path[at + 2] == '.'))
            return 0;
        at += 1 + part;
    }
    for (size_t i = 0; i < len; i++)
        if ((unsigned char) path[i] < 0x20 || path[i] == 0x7f)
            return 0;
    return len;
}

/* Whether @path is @dir or beneath it; both lengths from path_length(). */
static bool lies_in(const char *path, size_t path_len, const char *dir, size_t dir_len)
{
    if (dir_len == 1) /* the root */
        return true;
    return path_len >= dir_len && memcmp(path, dir, dir_len) == 0 &&
           (path_len == dir_len || path[dir_len] == '/');
}

void volume_root_parse(char *text, struct volume_root *ret_root)
{
    size_t len = strlen(text);
    bool writable = len > 3 && strcmp(text + len - 3, ":rw") == 0;

    if (writable || (len > 3 && strcmp(text + len - 3, ":ro") == 0))
        text[len - 3] = '\0';
    *ret_root = (struct volume_root){ text, writable };
}

/* ---- the rules ---- */

static int target_check(const char *target, struct gb_err *err)
{
    size_t len = path_length(target), top = strcspn(target + (target[0] == '/'), "/");
    char quoted[FORMAT_QUOTED_MAX];

    format_quoted(target, quoted);
    if (len == 0 || len >= VOLUME_TARGET_MAX)
        return gb_fail_plain(err, EINVAL,
                             "%s is not a valid place in a box: write an absolute path of at most "
                             "%d bytes without '.' and '..'",
                             quoted, VOLUME_TARGET_MAX - 1);
    for (size_t i = 0; i < ARRAY_LEN(reserved); i++)
        if (len == 1 || target[1] == '.' ||
            (strlen(reserved[i]) == top && memcmp(target + 1, reserved[i], top) == 0))
            return gb_fail_plain(err, EINVAL,
                                 "%s is used by the box itself; choose a place such as /data, "
                                 "/mnt/data or /workspace/data",
                                 quoted);
    if (len == strlen("/" WORKSPACE) && memcmp(target + 1, WORKSPACE, len - 1) == 0)
        return gb_fail_plain(err, EINVAL,
                             "/workspace is used by the box itself; choose a place in it, such as "
                             "/workspace/data");
    return 0;
}

/* The operator's entry that applies: the nearest, and of two for the same directory the one that
 * allows more. */
static int source_check(const struct volume_root *roots, size_t roots_len, const char *source,
                        size_t *ret_root, struct gb_err *err)
{
    size_t len = path_length(source), nearest = 0;
    char quoted[FORMAT_QUOTED_MAX];

    format_quoted(source, quoted);
    if (len == 0 || len >= VOLUME_SOURCE_MAX)
        return gb_fail_plain(err, EINVAL,
                             "%s is not an absolute directory path without '.' and '..'", quoted);
    for (size_t i = 0; i < roots_len; i++) {
        size_t root_len = path_length(roots[i].path);

        if (root_len == 0 || !lies_in(source, len, roots[i].path, root_len))
            continue;
        if (root_len > nearest || (root_len == nearest && roots[i].writable)) {
            nearest = root_len;
            *ret_root = i;
        }
    }
    if (nearest > 0)
        return 0;
    return gb_fail_plain(err, EACCES,
                         roots_len ? "%s is not in a directory that the operator allows "
                                     "(--volume-root)"
                                   : "%s cannot be mounted: the operator allows no directories "
                                     "(--volume-root)",
                         quoted);
}

static int apart_check(const struct volume *list, size_t at, struct gb_err *err)
{
    size_t len = path_length(list[at].target);

    for (size_t i = 0; i < at; i++) {
        size_t other = path_length(list[i].target);

        if (lies_in(list[at].target, len, list[i].target, other) ||
            lies_in(list[i].target, other, list[at].target, len))
            return gb_fail_plain(err, EINVAL,
                                 "two volumes are at the same place, or one is inside the other: "
                                 "choose separate places");
    }
    return 0;
}

int volumes_settle(const struct volume_root *roots, size_t roots_len, struct volume *list,
                   size_t len, size_t *ret_at, struct gb_err *err)
{
    size_t at, root;
    int r = 0;

    if (ret_at)
        *ret_at = 0;
    if (len > VOLUMES_MAX)
        return gb_fail_plain(err, E2BIG, "a box can have at most %d volumes", VOLUMES_MAX);
    for (at = 0; at < len; at++) {
        if ((r = target_check(list[at].target, err)) < 0 ||
            (r = source_check(roots, roots_len, list[at].source, &root, err)) < 0 ||
            (r = apart_check(list, at, err)) < 0)
            break;
        if (list[at].mode == VOLUME_RW && !roots[root].writable) {
            char quoted[FORMAT_QUOTED_MAX];

            format_quoted(list[at].source, quoted);
            r = gb_fail_plain(err, EACCES,
                              "%s is read-only here: ask for mode ro, or have the operator set "
                              "--volume-root DIR:rw",
                              quoted);
            break;
        }
        if (list[at].mode == VOLUME_AUTO)
            list[at].mode = roots[root].writable ? VOLUME_RW : VOLUME_RO;
    }
    if (r < 0 && ret_at)
        *ret_at = at;
    return r;
}

/* ---- the operator's directories ---- */

static bool type_is_kernels(const char *type)
{
    for (size_t i = 0; i < ARRAY_LEN(kernel_types); i++)
        if (strcmp(type, kernel_types[i]) == 0)
            return true;
    return false;
}

/* Parses one line of mountinfo: mount point and type. False if it is malformed. */
static bool mount_parse(char *line, char **ret_where, char **ret_type)
{
    char *at = line, *dash = strstr(line, " - ");

    for (int i = 0; i < 4 && at; i++) {
        at = strchr(at, ' ');
        at += at != NULL;
    }
    if (!at || !dash || at > dash)
        return false;
    *ret_where = at;
    at[strcspn(at, " ")] = '\0';
    parse_unescape_mount(*ret_where);
    *ret_type = dash + 3;
    (*ret_type)[strcspn(*ret_type, " \n")] = '\0';
    return true;
}

/* Neither in a kernel file system, nor above one. */
static int mounts_check(const char *real, struct gb_err *err)
{
    FILE *file = fopen("/proc/self/mountinfo", "re");
    char *line = NULL, *where, *type;
    size_t cap = 0, len = strlen(real), nearest = 0;
    bool kernels = false;
    int r = 0;

    if (!file)
        return gb_fail(err, errno, "read /proc/self/mountinfo");
    while (r == 0 && getline(&line, &cap, file) > 0) {
        size_t where_len;

        if (!mount_parse(line, &where, &type))
            continue;
        where_len = strlen(where);
        /* Later lines hide earlier ones at the same place. */
        if (lies_in(real, len, where, where_len) && where_len >= nearest) {
            nearest = where_len;
            kernels = type_is_kernels(type);
        } else if (lies_in(where, where_len, real, len) && type_is_kernels(type)) {
            r = gb_fail_plain(err, EINVAL,
                              "volume root: '%.60s' is a kernel file system (%s) inside '%.60s'",
                              where, type, real);
        }
    }
    free(line);
    (void) fclose(file);
    if (r == 0 && kernels)
        return gb_fail_plain(err, EINVAL, "volume root '%.100s' is on a kernel file system", real);
    return r;
}

static int place_open(const struct volume_root *root, struct volume_place *place,
                      struct gb_err *err)
{
    size_t len = path_length(root->path);
    struct stat st;
    int r;

    if (len == 0 || len >= VOLUME_SOURCE_MAX)
        return gb_fail_plain(err, EINVAL,
                             "volume root '%.100s': write an absolute path without '.' and '..'",
                             root->path);
    place->name = strndup(root->path, len);
    place->writable = root->writable;
    if (!place->name)
        return gb_fail(err, ENOMEM, "list volumes");
    place->real = realpath(place->name, NULL);
    if (!place->real || stat(place->real, &st) < 0)
        return gb_fail_about(err, errno, "volume root '%.100s'", place->name);
    if (!S_ISDIR(st.st_mode))
        return gb_fail_plain(err, ENOTDIR, "volume root '%.100s' is not a directory", place->name);
    if (strcmp(place->real, "/") == 0)
        return gb_fail_plain(
            err, EINVAL,
            "volume root '%.100s' is the whole machine: list the directories that boxes may use",
            place->name);
    if ((r = mounts_check(place->real, err)) < 0)
        return r;
    place->dev = st.st_dev;
    place->ino = st.st_ino;
    return 0;
}

static int places_apart(const struct volume_roots *roots, size_t at, struct gb_err *err)
{
    const char *one = roots->items[at].real;

    for (size_t i = 0; i < at; i++) {
        const char *two = roots->items[i].real;

        if (lies_in(one, strlen(one), two, strlen(two)) ||
            lies_in(two, strlen(two), one, strlen(one)))
            return gb_fail_plain(err, EINVAL,
                                 "volume roots must not contain each other; list only one of "
                                 "'%.60s' and '%.60s'",
                                 roots->items[i].name, roots->items[at].name);
    }
    return 0;
}

int volume_roots_open(const struct volume_root *roots, size_t len, struct volume_roots **ret_roots,
                      struct gb_err *err)
{
    struct volume_roots *all;
    int r = 0;

    if (len == 0) {
        *ret_roots = NULL;
        return 0;
    }
    if (len > VOLUME_ROOTS_MAX)
        return gb_fail_plain(err, E2BIG, "at most %d volume roots", VOLUME_ROOTS_MAX);
    all = calloc(1, sizeof *all);
    if (!all)
        return gb_fail(err, ENOMEM, "list volumes");
    all->items = calloc(len, sizeof *all->items);
    all->entries = calloc(len, sizeof *all->entries);
    if (!all->items || !all->entries)
        r = gb_fail(err, ENOMEM, "list volumes");
    for (size_t i = 0; i < len && r == 0; i++) {
        all->len = i + 1;
        r = place_open(&roots[i], &all->items[i], err);
        all->entries[i] = (struct volume_root){ all->items[i].name, all->items[i].writable };
    }
    if (r < 0) {
        volume_roots_close(all);
        return r;
    }
    *ret_roots = all;
    return 0;
}

int volume_roots_check(const struct volume_root *roots, size_t len, struct gb_err *err)
{
    struct volume_roots *all = NULL;
    int r = volume_roots_open(roots, len, &all, err);

    for (size_t i = 1; r == 0 && i < len; i++)
        r = places_apart(all, i, err);
    volume_roots_close(all);
    return r;
}

void volume_roots_close(struct volume_roots *roots)
{
    if (!roots)
        return;
    for (size_t i = 0; roots->items && i < roots->len; i++) {
        free(roots->items[i].name);
        free(roots->items[i].real);
    }
    free(roots->items);
    free(roots->entries);
    free(roots);
}

/* ---- lists for the builder ---- */

static int put_text(int fd, const char *text, size_t len)
{
    int r = io_write_all(fd, text, len);

    return r < 0 ? r : io_write_all(fd, "", 1);
}

int volume_roots_list(const struct volume_roots *roots, int *ret_fd, struct gb_err *err)
{
    autoclose int fd = -EBADF;
    int r = 0;

    if (!roots) {
        *ret_fd = -EBADF;
        return 0;
    }
    fd = memfd_create("glovebox-volumes", MFD_CLOEXEC);
    if (fd < 0)
        return gb_fail(err, errno, "create a memory file");
    for (size_t i = 0; i < roots->len && r == 0; i++) {
        const struct volume_place *place = &roots->items[i];
        struct volume_root_record record = { place->dev, place->ino, place->writable,
                                             (uint32_t) strlen(place->real) };

        r = io_write_all(fd, &record, sizeof record);
        if (r == 0)
            r = put_text(fd, place->real, record.path_len);
    }
    if (r < 0)
        return gb_fail(err, -r, "list volumes");
    *ret_fd = TAKE_FD(fd);
    return 0;
}

static int volume_put(const struct volume_roots *roots, const struct volume *volume, int fd,
                      struct gb_err *err)
{
    struct volume settled = *volume;
    size_t root = 0, skip, len = path_length(volume->source);
    struct volume_record record;
    const char *rest = ".";
    int r = volumes_settle(roots ? roots->entries : NULL, roots ? roots->len : 0, &settled, 1, NULL,
                           err);

    if (r == 0)
        r = source_check(roots->entries, roots->len, settled.source, &root, err);
    if (r < 0)
        return r;
    skip = strlen(roots->items[root].name);
    if (len > skip)
        rest = volume->source + skip + 1;
    else
        len = skip + 1 + strlen(rest);
    record = (struct volume_record){ .root = (uint32_t) root,
                                     .writable = settled.mode == VOLUME_RW,
                                     .path_len = (uint32_t) (len - skip - 1),
                                     .target_len = (uint32_t) path_length(volume->target) };
    if ((r = io_write_all(fd, &record, sizeof record)) < 0 ||
        (r = put_text(fd, rest, record.path_len)) < 0 ||
        (r = put_text(fd, volume->target, record.target_len)) < 0)
        return gb_fail(err, -r, "list volumes");
    return 0;
}

int volumes_list(const struct volume_roots *roots, const struct volume *volumes, size_t len,
                 int *ret_fd, struct gb_err *err)
{
    autoclose int fd = -EBADF;
    int r = 0;

    if (len > VOLUMES_MAX)
        return gb_fail_plain(err, E2BIG, "a box can have at most %d volumes", VOLUMES_MAX);
    fd = memfd_create("glovebox-volumes", MFD_CLOEXEC);
    if (fd < 0)
        return gb_fail(err, errno, "create a memory file");
    for (size_t i = 0; i < len && r == 0; i++)
        r = volume_put(roots, &volumes[i], fd, err);
    if (r == 0)
        *ret_fd = TAKE_FD(fd);
    return r;
}
