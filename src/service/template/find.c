/*
 * The host files that an interpreter needs.
 *
 * Theory of operation. A box sees /usr and nothing else, so an interpreter elsewhere needs its own
 * files there: as few as possible, because there may be secrets next to them. Of a prefix (the
 * directory above bin) these are bin and lib; of a venv also pyvenv.cfg and share, then the same of
 * the Python it was created with, and the links on the way there. They are found by inspection, not
 * by executing anything, and are saved with the definition: boxes see what the operator agreed to
 * at that time, even if links and files change later.
 *
 * A template starts with rights over boxes, so files that others can write to are refused.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/io.h"
#include "base/text/utf8.h"
#include "service/template/templates.h"

#include "base/banned.h"

#define BINDS_MAX 16 /* same as the engine's */
#define LINKS_MAX 40
#define CFG_MAX   4096

struct finder {
    char *binds[BINDS_MAX + 1];
    size_t len;
};

static bool is_beneath(const char *path, const char *dir)
{
    size_t len = strlen(dir);

    return strncmp(path, dir, len) == 0 && (path[len] == '/' || path[len] == '\0');
}

/* Every box has these anyway. */
static bool is_there_already(const char *path)
{
    static const char *const places[] = { "/usr",   "/bin",   "/sbin",   "/lib",
                                          "/lib32", "/lib64", "/libx32", "/etc/alternatives" };

    for (size_t i = 0; i < ARRAY_LEN(places); i++)
        if (is_beneath(path, places[i]))
            return true;
    return false;
}

/* Boxes have their own in these places. */
static int place_check(const char *path, struct gb_err *err)
{
    static const char *const places[] = { "/tmp", "/var/tmp", "/dev",       "/proc",
                                          "/sys", "/etc",     "/workspace", "/.empty" };

    for (size_t i = 0; i < ARRAY_LEN(places); i++)
        if (is_beneath(path, places[i]))
            return gb_fail_plain(
                err, EINVAL,
                "'%.100s' is in %s, which boxes replace with their own: move it elsewhere", path,
                places[i]);
    return 0;
}

static int owner_check(const char *path, const struct stat *st, struct gb_err *err)
{
    bool sticky = S_ISDIR(st->st_mode) && (st->st_mode & S_ISVTX);
    bool group = geteuid() == 0 && st->st_gid != 0 && (st->st_mode & 020);

    if (st->st_uid != 0 && st->st_uid != geteuid())
        return gb_fail_plain(err, EPERM,
                             "'%.100s' belongs to user id %u, who could change the template: use "
                             "a Python that belongs to you or to root",
                             path, (unsigned) st->st_uid);
    if (!S_ISLNK(st->st_mode) && !sticky && (group || (st->st_mode & 02)))
        return gb_fail_plain(err, EPERM, "'%.100s' is writable by others: run chmod go-w on it",
                             path);
    return 0;
}

/* Nobody else may change @path or replace it. */
static int trust_check(const char *path, struct gb_err *err)
{
    autofree char *copy = strdup(path);
    struct stat st;

    if (!copy)
        return gb_fail(err, ENOMEM, "inspect '%.100s'", path);
    for (;;) {
        char *slash;
        int r;

        if (lstat(copy[0] ? copy : "/", &st) < 0)
            return gb_fail(err, errno, "inspect '%.100s'", copy);
        r = owner_check(copy[0] ? copy : "/", &st, err);
        if (r < 0 || !copy[0])
            return r;
        slash = strrchr(copy, '/');
        *slash = '\0';
    }
}

static int bind_add(struct finder *finder, const char *path, struct gb_err *err)
{
    int r;

    if (is_there_already(path))
        return 0;
    for (size_t i = 0; i < finder->len; i++)
        if (is_beneath(path, finder->binds[i]))
            return 0;
    if ((r = place_check(path, err)) < 0 || (r = trust_check(path, err)) < 0)
        return r;
    if (finder->len == BINDS_MAX)
        return gb_fail_plain(err, E2BIG, "this Python is spread over too many directories");
    finder->binds[finder->len] = strdup(path);
    if (!finder->binds[finder->len])
        return gb_fail(err, ENOMEM, "inspect '%.100s'", path);
    finder->len++;
    return 0;
}

/* @name in @prefix, if it exists and is not a link (which would be found at its target). */
static int part_add(struct finder *finder, const char *prefix, const char *name, struct gb_err *err)
{
    char path[PATH_MAX];
    struct stat st;

    if (snprintf(path, sizeof path, "%s/%s", prefix, name) >= (int) sizeof path)
        return gb_fail_about(err, ENAMETOOLONG, "'%.100s'", prefix);
    if (lstat(path, &st) < 0 || S_ISLNK(st.st_mode))
        return 0;
    return bind_add(finder, path, err);
}

/* Follows @path and adds every link on the way, so that it leads to the same place in a box. The
 * last is @ret_real. */
static int links_add(struct finder *finder, const char *path, char ret_real[PATH_MAX],
                     struct gb_err *err)
{
    char rest[PATH_MAX], done[PATH_MAX] = "", target[PATH_MAX], next[2 * PATH_MAX];
    int links = 0, r;

    snprintf(rest, sizeof rest, "%s", path);
    while (rest[0]) {
        char *part = rest + strspn(rest, "/"), *end = part + strcspn(part, "/");
        size_t done_len = strlen(done);
        struct stat st;
        ssize_t n;

        if (part == end)
            break;
        if (done_len + (size_t) (end - part) + 2 > sizeof done)
            return gb_fail_about(err, ENAMETOOLONG, "'%.100s'", path);
        if (strcmp(part, "..") == 0 || strncmp(part, "../", 3) == 0) {
            char *slash = strrchr(done, '/');

            if (slash)
                *slash = '\0';
        } else if (strncmp(part, "./", 2) != 0 && strcmp(part, ".") != 0) {
            snprintf(done + done_len, sizeof done - done_len, "/%.*s", (int) (end - part), part);
        }
        memmove(rest, end, strlen(end) + 1);
        if (lstat(done[0] ? done : "/", &st) < 0)
            return gb_fail_about(err, errno, "'%.100s' leads to '%.60s'", path, done);
        if (!S_ISLNK(st.st_mode))
            continue;
        n = readlink(done, target, sizeof target - 1);
        if (n < 0 || ++links > LINKS_MAX)
            return gb_fail(err, n < 0 ? errno : ELOOP, "follow '%.100s'", path);
        target[n] = '\0';
        if ((r = bind_add(finder, done, err)) < 0)
            return r;
        if (snprintf(next, sizeof next, "%s%s", target, rest) >= PATH_MAX)
            return gb_fail_about(err, ENAMETOOLONG, "'%.100s'", path);
        memcpy(rest, next, strlen(next) + 1);
        if (target[0] == '/')
            done[0] = '\0';
        else
            *strrchr(done, '/') = '\0';
    }
    snprintf(ret_real, PATH_MAX, "%s", done);
    return 0;
}

static void parent_of(const char *path, char parent[PATH_MAX])
{
    const char *slash = strrchr(path, '/');

    snprintf(parent, PATH_MAX, "%.*s", slash ? (int) (slash - path) : 0, path);
}

static bool has_library_in(const char *prefix, const char *lib)
{
    char path[PATH_MAX];
    struct dirent *entry;
    bool found = false;
    struct stat st;
    DIR *dir;

    if (snprintf(path, sizeof path, "%s/%s", prefix, lib) >= (int) sizeof path ||
        !(dir = opendir(path)))
        return false;
    while (!found && (entry = readdir(dir)))
        found = strncmp(entry->d_name, "python3", 7) == 0 &&
                snprintf(path, sizeof path, "%s/%s/%s/os.py", prefix, lib, entry->d_name) <
                    (int) sizeof path &&
                stat(path, &st) == 0;
    (void) closedir(dir);
    return found;
}

/* A prefix that is a home directory contains everything else, too. */
static bool is_home(const char *prefix)
{
    const struct passwd *user = getpwuid(geteuid());
    const char *slash = strrchr(prefix, '/');

    return prefix[0] == '\0' || strcmp(prefix, "/root") == 0 || strcmp(prefix, "/home") == 0 ||
           (is_beneath(prefix, "/home") && slash == prefix + 5) ||
           (user && strcmp(prefix, user->pw_dir) == 0);
}

/* The parts of an installed Python; @python is resolved. */
static int prefix_add(struct finder *finder, const char *python, struct gb_err *err)
{
    char bin[PATH_MAX], prefix[PATH_MAX];
    int r;

    if (is_there_already(python))
        return 0;
    parent_of(python, bin);
    parent_of(bin, prefix);
    if (is_home(prefix))
        return gb_fail_plain(err, EINVAL,
                             "'%.80s' is installed in '%.60s' along with everything else: create a "
                             "venv with it and use --venv",
                             python, prefix[0] ? prefix : "/");
    if (!has_library_in(prefix, "lib") && !has_library_in(prefix, "lib64"))
        return gb_fail_plain(err, EINVAL,
                             "'%.80s' is not a usable Python: '%.60s/lib' has no standard library "
                             "(with pyenv, give the path that 'pyenv which python3' prints)",
                             python, prefix);
    if ((r = part_add(finder, prefix, "bin", err)) < 0 ||
        (r = part_add(finder, prefix, "lib", err)) < 0)
        return r;
    return part_add(finder, prefix, "lib64", err);
}

/* ---- a venv ---- */

/* The value of "home = DIR": the directory of the Python it was created with. */
static int cfg_home(const char *venv, char home[PATH_MAX], struct gb_err *err)
{
    char path[PATH_MAX], text[CFG_MAX];
    const char *line, *next;

    home[0] = '\0';
    if (snprintf(path, sizeof path, "%s/pyvenv.cfg", venv) >= (int) sizeof path)
        return gb_fail_about(err, ENAMETOOLONG, "'%.100s'", venv);
    if (io_read_text_at(AT_FDCWD, path, text, sizeof text) < 0)
        return gb_fail_plain(err, EINVAL,
                             "'%.100s' is not a virtual environment (no readable pyvenv.cfg): "
                             "create one with python3 -m venv",
                             venv);
    for (line = text; line; line = next) {
        const char *value = line + strspn(line, " \t");

        next = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL;
        if (strncmp(value, "home", 4) != 0)
            continue;
        value += 4;
        value += strspn(value, " \t");
        if (*value != '=')
            continue;
        value++;
        value += strspn(value, " \t");
        snprintf(home, PATH_MAX, "%.*s", (int) strcspn(value, "\r\n"), value);
    }
    if (home[0] != '/')
        return gb_fail_plain(err, EINVAL, "'%.100s/pyvenv.cfg' does not say where its Python is",
                             venv);
    return 0;
}

static int venv_python(const char *venv, char python[PATH_MAX], struct gb_err *err)
{
    static const char *const names[] = { "bin/python3", "bin/python" };
    struct stat st;

    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        if (snprintf(python, PATH_MAX, "%s/%s", venv, names[i]) >= PATH_MAX)
            return gb_fail_about(err, ENAMETOOLONG, "'%.100s'", venv);
        if (access(python, X_OK) == 0 && stat(python, &st) == 0 && S_ISREG(st.st_mode))
            return 0;
    }
    return gb_fail_plain(
        err, EINVAL,
        "the virtual environment '%.100s' is broken: its bin/python3 does not lead "
        "to an interpreter; create it again",
        venv);
}

static int venv_add(struct finder *finder, const char *venv, char python[PATH_MAX],
                    struct gb_err *err)
{
    static const char *const parts[] = { "bin", "lib", "lib64", "share", "pyvenv.cfg" };
    char home[PATH_MAX], real[PATH_MAX], inside[PATH_MAX + 8];
    int r;

    if ((r = cfg_home(venv, home, err)) < 0 || (r = venv_python(venv, python, err)) < 0)
        return r;
    for (size_t i = 0; i < ARRAY_LEN(parts); i++)
        if ((r = part_add(finder, venv, parts[i], err)) < 0)
            return r;
    if ((r = links_add(finder, python, real, err)) < 0)
        return r;
    /* A venv made with copies has its own interpreter; the library is still that of home. */
    if (!is_beneath(real, venv) && (r = prefix_add(finder, real, err)) < 0)
        return r;
    if ((r = links_add(finder, home, real, err)) < 0)
        return r;
    snprintf(inside, sizeof inside, "%s/python", real);
    return prefix_add(finder, inside, err);
}

/* ---- */

static int path_check(const char *path, char real[PATH_MAX], struct gb_err *err)
{
    size_t len = strlen(path), unit;

    if (len >= PATH_MAX)
        return gb_fail_plain(err, ENAMETOOLONG, "the path is too long");
    for (size_t at = 0; at < len; at += unit)
        if (utf8_next(path + at, len - at, &unit) != UTF8_CHAR || (unsigned char) path[at] < 32)
            return gb_fail_plain(err, EILSEQ, "the path contains unprintable characters");
    if (!realpath(path, real))
        return gb_fail_about(err, errno, "'%.100s'", path);
    return 0;
}

/* Whether the interpreter belongs to a venv, whose directory is then @venv. */
static bool in_venv(const char *path, char venv[PATH_MAX])
{
    char bin[PATH_MAX], real[PATH_MAX], cfg[PATH_MAX + 16];
    struct stat st;

    parent_of(path, bin);
    if (!realpath(bin[0] ? bin : ".", real))
        return false;
    parent_of(real, venv);
    snprintf(cfg, sizeof cfg, "%s/pyvenv.cfg", venv);
    return stat(cfg, &st) == 0;
}

static int python_add(struct finder *finder, const char *path, char python[PATH_MAX],
                      enum template_kind *kind, struct gb_err *err)
{
    char venv[PATH_MAX];
    struct stat st;

    if (stat(python, &st) < 0)
        return gb_fail_about(err, errno, "'%.100s'", path);
    if (S_ISDIR(st.st_mode))
        return gb_fail_plain(err, EISDIR,
                             "'%.100s' is a directory: name the interpreter in it, or a virtual "
                             "environment with --venv",
                             path);
    if (!S_ISREG(st.st_mode) || access(python, X_OK) < 0)
        return gb_fail_plain(err, EACCES, "'%.100s' is not an executable program", path);
    if (in_venv(path, venv)) {
        *kind = TEMPLATE_KIND_VENV;
        return venv_add(finder, venv, python, err);
    }
    return prefix_add(finder, python, err);
}

/* Removes paths that lie within another one: links that were found before their directory. */
static void binds_prune(struct finder *finder)
{
    for (size_t i = 0; i < finder->len;) {
        bool within = false;

        for (size_t j = 0; j < finder->len; j++)
            within = within || (i != j && is_beneath(finder->binds[i], finder->binds[j]));
        if (!within) {
            i++;
            continue;
        }
        free(finder->binds[i]);
        finder->len--;
        memmove(&finder->binds[i], &finder->binds[i + 1],
                (finder->len - i + 1) * sizeof *finder->binds);
    }
}

static int find(struct finder *finder, enum template_kind kind, const char *path,
                struct template_entry *entry, struct gb_err *err)
{
    char source[PATH_MAX], python[PATH_MAX] = "";
    int r = path_check(path, source, err);

    if (r < 0)
        return r;
    memcpy(python, source, sizeof python);
    entry->kind = kind;
    if (kind == TEMPLATE_KIND_VENV)
        r = venv_add(finder, source, python, err);
    else
        r = python_add(finder, path, python, &entry->kind, err);
    if (r < 0)
        return r;
    binds_prune(finder);
    entry->source = strdup(kind == TEMPLATE_KIND_VENV ? source : python);
    entry->python = strdup(python);
    entry->preload = strdup("");
    entry->binds = calloc(finder->len + 1, sizeof *entry->binds);
    if (!entry->source || !entry->python || !entry->preload || !entry->binds)
        return gb_fail(err, ENOMEM, "inspect '%.100s'", path);
    for (size_t i = 0; i < finder->len; i++) {
        entry->binds[i] = finder->binds[i];
        finder->binds[i] = NULL;
    }
    return 0;
}

int template_find(enum template_kind kind, const char *path, struct template_entry *ret_entry,
                  struct gb_err *err)
{
    struct template_entry entry = { 0 };
    struct finder finder = { 0 };
    int r = find(&finder, kind, path, &entry, err);

    for (size_t i = 0; i < finder.len; i++)
        free(finder.binds[i]);
    if (r < 0)
        template_entry_release(&entry);
    else
        *ret_entry = entry;
    return r;
}
