/*
 * The packages of a template: from --packages, from a preset (service/template/presets.h) or from a
 * lock file.
 *
 * They are installed by a service without clients, in an empty environment: the versions that the
 * system has are of no concern to the set. What has been fetched stays in the store, so an install
 * that was interrupted goes on where it was.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/io.h"
#include "cli/cmd.h"
#include "cli/teller.h"
#include "cli/template_set.h"
#include "engine/engine.h"
#include "service/access/data.h"
#include "service/package/lock.h"
#include "service/package/requirement.h"
#include "service/service.h"
#include "service/template/presets.h"
#include "service/template/templates.h"

#include "base/banned.h"

#define GIB         (INT64_C(1) << 30)
#define PRESET_SIZE (16 * GIB)
#define PRESET_US   (3600 * USEC_PER_SEC)

void template_set_release(struct template_set *set)
{
    templates_names_free(set->wanted);
    free(set->lock_text);
    *set = (struct template_set){ 0 };
}

/* ---- what it is made of ---- */

/* All requirements in --packages, one by one, NULL-terminated; at most one more than allowed. */
static int packages_split(char *const *lists, char ***ret_wanted, struct gb_err *err)
{
    char **wanted = calloc(REQUIREMENTS_MAX + 2, sizeof *wanted);
    size_t len = 0;
    bool ok = wanted != NULL;

    for (; ok && *lists; lists++) {
        const char *rest = *lists, *start;

        while (ok && rest && len <= REQUIREMENTS_MAX) {
            size_t size = requirement_next(&rest, &start);

            ok = (wanted[len++] = strndup(start, size)) != NULL;
        }
    }
    if (!ok) {
        templates_names_free(wanted);
        return gb_fail(err, ENOMEM, "add a template");
    }
    *ret_wanted = wanted;
    return 0;
}

int template_lock_read(const char *path, char **ret_text, struct gb_err *err)
{
    autofree char *text = malloc(LOCK_BYTES_MAX + 1);
    autoclose int fd = -EBADF;
    struct stat st;
    ssize_t len;

    if (!text)
        return gb_fail(err, ENOMEM, "read '%.100s'", path);
    fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC); /* a FIFO must not hang us */
    if (fd < 0 || fstat(fd, &st) < 0)
        return gb_fail(err, errno, "read '%.100s'", path);
    if (!S_ISREG(st.st_mode) || st.st_size > (off_t) LOCK_BYTES_MAX)
        return gb_fail_plain(
            err, EINVAL, "'%.100s' is not a lock file: not a regular file of at most 4 MiB", path);
    len = io_read_all(fd, text, LOCK_BYTES_MAX);
    if (len < 0)
        return gb_fail(err, (int) -len, "read '%.100s'", path);
    text[len] = '\0';
    if (memchr(text, '\0', (size_t) len))
        return gb_fail_plain(err, EINVAL, "'%.100s' is not a text file", path);
    *ret_text = TAKE_PTR(text);
    return 0;
}

/* "NAME==VERSION" for each package of the lock, as the template's requirements. */
static int lock_wanted(const char *lock, char ***ret_wanted, struct gb_err *err)
{
    char **wanted = calloc(TEMPLATE_PACKAGES_MAX + 1, sizeof *wanted);
    size_t len = 0;

    for (const char *line = lock; wanted && *line && len < TEMPLATE_PACKAGES_MAX;
         line += strcspn(line, "\n"), line += *line == '\n') {
        size_t size = strcspn(line, " ;\\\n");

        if (*line == '#' || *line == ' ' || *line == '\t' || size == 0)
            continue;
        if (!(wanted[len++] = strndup(line, size))) {
            templates_names_free(wanted);
            wanted = NULL;
        }
    }
    if (!wanted)
        return gb_fail(err, ENOMEM, "read the lock file");
    *ret_wanted = wanted;
    return 0;
}

/* The lock files of the presets have wheels for these versions of Python only. */
static int preset_check_python(const struct preset *preset, struct gb_err *err)
{
    char lib[VENV_LIB_MAX];
    int minor, r = template_venv_lib(lib, err);

    if (r < 0)
        return r;
    minor = (int) strtol(lib + strlen("python3."), NULL, 10);
    if (minor < PRESET_MINOR_MIN || minor > PRESET_MINOR_MAX)
        return gb_fail_plain(err, ENOTSUP,
                             "the preset %s is for Python 3.%d to 3.%d, but /usr/bin/python3 is "
                             "3.%d; use --packages or --venv",
                             preset->name, PRESET_MINOR_MIN, PRESET_MINOR_MAX, minor);
    return 0;
}

static int preset_set(const char *name, struct template_set *set, struct gb_err *err)
{
    const struct preset *preset = preset_find(name);
    char names[PRESET_NAMES_MAX];

    if (!preset)
        return gb_fail_plain(err, EINVAL, "there is no preset '%.40s'; there are: %s", name,
                             preset_names(names));
    set->lock = preset->lock;
    set->preload = preset->preload;
    return preset_check_python(preset, err) < 0 ? -err->code
                                                : preset_wanted(preset->wanted, &set->wanted, err);
}

static int lock_set(const char *path, struct template_set *set, struct gb_err *err)
{
    struct gb_err why;
    size_t len;
    int r = template_lock_read(path, &set->lock_text, err);

    if (r < 0)
        return r;
    r = lock_check(set->lock_text, &len, &why);
    if (r < 0)
        return gb_fail_plain(err, EINVAL, "'%.60s': %.120s", path, why.msg);
    set->lock = set->lock_text;
    return lock_wanted(set->lock_text, &set->wanted, err);
}

bool template_set_named(const struct config *cfg)
{
    return cfg->template_packages || cfg->template_preset || cfg->template_lock ||
           (!cfg->template_python && !cfg->template_venv);
}

int template_set_find(const struct config *cfg, struct template_set *ret_set, struct gb_err *err)
{
    struct template_set set = { 0 };
    char names[PRESET_NAMES_MAX];
    int r;

    if (cfg->template_packages)
        r = packages_split(cfg->template_packages, &set.wanted, err);
    else if (cfg->template_lock)
        r = lock_set(cfg->template_lock, &set, err);
    else if (cfg->template_preset || preset_find(cfg->args[0]))
        r = preset_set(cfg->template_preset ? cfg->template_preset : cfg->args[0], &set, err);
    else
        r = gb_fail_plain(err, EINVAL,
                          "give one of --python PATH, --venv DIR, --packages LIST, --lock FILE and "
                          "--preset NAME, or the name of a preset: %s",
                          preset_names(names));
    if (r < 0)
        template_set_release(&set);
    else
        *ret_set = set;
    return r;
}

/* ---- installing ---- */

/* A preset and a lock file were chosen by the operator: the limits are there for callers. */
static struct config roomy(const struct config *cfg)
{
    struct config copy = *cfg;

    if (copy.package_bytes < PRESET_SIZE)
        copy.package_bytes = PRESET_SIZE;
    if (copy.package_timeout_us < PRESET_US)
        copy.package_timeout_us = PRESET_US;
    return copy;
}

int template_set_open(const struct config *cfg, const char *data_dir,
                      const struct template_set *set, struct service **ret_service,
                      struct gb_err *err)
{
    char lib[VENV_LIB_MAX];
    const struct template_def empty = { .python = VENV_PYTHON,
                                        .preload = "",
                                        .packages = { .lib = lib } };
    const struct config copy = set->lock ? roomy(cfg) : *cfg;
    int r = template_venv_lib(lib, err);

    return r < 0 ? r
                 : cmd_open_installer(&copy, data_dir, &empty,
                                      set->lock ? NULL : (const char *const *) set->wanted,
                                      ret_service, err);
}

int template_set_install(const struct config *cfg, const char *data_dir,
                         const struct template_set *set, struct template_entry *entry,
                         struct gb_err *err)
{
    struct teller teller;
    const struct install_watch watch = { teller_tell, &teller };
    struct template_order order = {
        .wanted = (const char *const *) set->wanted,
        .lock = set->lock,
        .preload = set->preload,
        .modules = strcmp(cfg->preload, "auto") == 0 && !set->preload ? engine_preload_all : NULL,
        .watch = &watch,
    };
    struct service *service = NULL;
    struct fault fault = { 0 };
    json_t *result = NULL;
    int r;

    teller_init(&teller, cfg->args[0]);
    cmd_show_progress("installing");
    r = template_set_open(cfg, data_dir, set, &service, err);
    if (r == 0 && template_install(service, &order, entry, &result, &fault) < 0)
        r = gb_fail_plain(err, ECANCELED, "%.190s", fault.detail);
    service_close(service);
    cmd_hide_progress();
    cmd_say_warnings(result);
    json_decref(result);
    return r;
}

/* ---- a new lock file ---- */

/* Where presets are in a checkout, which is where they are maintained. */
static bool checkout_path(const char *name, const char *suffix, char *buf, size_t size)
{
    struct stat st;

    return preset_find(name) && snprintf(buf, size, "presets/%s.%s", name, suffix) < (int) size &&
           stat(buf, &st) == 0 && S_ISREG(st.st_mode);
}

/* The requirements: of --packages, of the checkout, or of the preset that we were built with. */
static int update_wanted(const struct config *cfg, char ***ret_wanted, struct gb_err *err)
{
    const struct preset *preset = preset_find(cfg->args[0]);
    autofree char *text = NULL;
    char path[128], names[PRESET_NAMES_MAX];
    int r;

    if (cfg->template_packages)
        return packages_split(cfg->template_packages, ret_wanted, err);
    if (!preset)
        return gb_fail_plain(err, EINVAL,
                             "'%.64s' is not a preset: give its --packages LIST, or one of %s",
                             cfg->args[0], preset_names(names));
    if (!checkout_path(cfg->args[0], "in", path, sizeof path))
        return preset_wanted(preset->wanted, ret_wanted, err);
    r = template_lock_read(path, &text, err);
    return r < 0 ? r : preset_wanted(text, ret_wanted, err);
}

/* The versions of one package in a lock, "1.0" or "1.0, 2.0" if they depend on the Python. */
static void versions_of(const char *lock, const char *name, size_t name_len, char *buf, size_t size)
{
    size_t used = 0;

    buf[0] = '\0';
    for (const char *line = lock; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        size_t len = strcspn(line, "=\n");
        size_t version = strcspn(line + len, " ;\\\n");

        if (len == name_len && strncmp(line, name, len) == 0 && version > 2 && used < size)
            used += (size_t) snprintf(buf + used, size - used, "%s%.*s", used ? ", " : "",
                                      (int) version - 2, line + len + 2);
    }
}

/* Prints what one lock has and the other has not, or has in other versions. */
static void print_changes(const char *before, const char *after)
{
    const char *const locks[] = { before, after };
    unsigned changes = 0;

    for (size_t i = 0; i < ARRAY_LEN(locks); i++) {
        const char *last = "";
        size_t last_len = 0;

        for (const char *line = locks[i]; *line;
             line += strcspn(line, "\n"), line += *line == '\n') {
            char old[120], new[120];
            size_t len = strcspn(line, "=\n");

            if (line[len] != '=' || *line == '#' || *line == ' ' ||
                (len == last_len && strncmp(line, last, len) == 0))
                continue;
            last = line;
            last_len = len;
            versions_of(before, line, len, old, sizeof old);
            versions_of(after, line, len, new, sizeof new);
            if (strcmp(old, new) == 0 || (i == 0 && new[0]))
                continue;
            changes++;
            if (!old[0])
                printf("+ %.*s %s\n", (int) len, line, new);
            else if (!new[0])
                printf("- %.*s %s\n", (int) len, line, old);
            else
                printf("  %.*s %s -> %s\n", (int) len, line, old, new);
        }
    }
    if (changes == 0)
        printf("no changes\n");
}

static int lock_write(const char *path, const char *text, struct gb_err *err)
{
    autofree char *temp = NULL;
    int fd, r;

    if (asprintf(&temp, "%s.new", path) < 0) {
        temp = NULL;
        return gb_fail(err, ENOMEM, "write '%.100s'", path);
    }
    fd = open(temp, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
    r = fd < 0 ? -errno : io_write_all(fd, text, strlen(text));
    if (fd >= 0 && close(fd) < 0 && r == 0)
        r = -errno;
    if (r == 0 && rename(temp, path) < 0)
        r = -errno;
    if (r < 0 && fd >= 0)
        (void) unlink(temp);
    return r < 0 ? gb_fail(err, -r, "write '%.100s'", path) : 0;
}

/* They become lines of a file that uv reads, in which options would be possible. */
static int wanted_check(char *const *wanted, struct gb_err *err)
{
    struct requirement ignored;
    int r = 0;

    for (; *wanted && r == 0; wanted++)
        r = requirement_parse(*wanted, false, &ignored, err);
    return r < 0 ? -EINVAL : 0;
}

static int lock_make(const struct config *cfg, const char *data_dir, const struct template_set *set,
                     char **ret_text, struct gb_err *err)
{
    struct teller teller;
    const struct install_watch watch = { teller_tell, &teller };
    struct service *service = NULL;
    struct fault fault = { 0 };
    int r;

    teller_init(&teller, cfg->args[0]);
    r = template_set_open(cfg, data_dir, set, &service, err);
    if (r == 0 && packages_make_lock(service, (const char *const *) set->wanted, &watch, ret_text,
                                     &fault) < 0)
        r = gb_fail_plain(err, ECANCELED, "%.190s", fault.detail);
    service_close(service);
    cmd_hide_progress();
    return r;
}

/* What the new one replaces: the file, or the preset that we were built with. */
static int lock_before(const struct config *cfg, const char *path, char **ret_text,
                       struct gb_err *err)
{
    const struct preset *preset = preset_find(cfg->args[0]);

    if (access(path, F_OK) == 0)
        return template_lock_read(path, ret_text, err);
    *ret_text = strdup(preset && !cfg->template_packages ? preset->lock : "");
    return *ret_text ? 0 : gb_fail(err, ENOMEM, "make a lock file");
}

int template_set_update(const struct config *cfg, const char *data_dir, struct gb_err *err)
{
    autofree char *before = NULL, *after = NULL;
    struct template_set set = { 0 };
    struct store *store = NULL;
    char path[128];
    const char *out = cfg->template_lock;
    int r;

    if (!out && checkout_path(cfg->args[0], "lock", path, sizeof path))
        out = path;
    if (!out)
        return gb_fail_plain(err, EINVAL,
                             "say where to write the lock file: --lock FILE (in a checkout, the "
                             "file of the preset is found without it)");
    if ((r = lock_before(cfg, out, &before, err)) < 0 ||
        (r = update_wanted(cfg, &set.wanted, err)) < 0)
        return r;
    if ((r = wanted_check(set.wanted, err)) < 0) {
        template_set_release(&set);
        return r;
    }
    set.lock = before; /* the operator's choice, like any lock file: see roomy() */
    r = cmd_open_store(cfg, false, &store, err);
    store_close(store); /* it made the directory, if that was missing */
    if (r == 0)
        r = lock_make(cfg, data_dir, &set, &after, err);
    template_set_release(&set);
    if (r == 0)
        r = lock_write(out, after, err);
    if (r < 0)
        return r;
    print_changes(before, after);
    say("wrote %s", out);
    return fflush(stdout) != 0 ? gb_fail(err, EIO, "print the changes") : 0;
}
