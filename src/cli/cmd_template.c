/*
 * `glovebox template`: other Pythons, and sets of packages, to create boxes from.
 *
 * add and check start the template as the service would, create a real box and run a cell in it:
 * they report what a client will see.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "cli/cmd.h"
#include "cli/template_set.h"
#include "engine/engine.h"
#include "service/access/data.h"
#include "service/package/requirement.h"
#include "service/service.h"
#include "service/template/templates.h"

#include "base/banned.h"

enum { EXIT_NO_GOOD = 1 };

#define SAID_BYTES   ((size_t) 512 * 1024)
#define LIST_COLUMNS 70 /* of the list of requirements */

/* The result of a trial. */
struct trial {
    struct template_report report;
    json_t *seen; /* what the cell reported; NULL: nothing */
};

/* The first line of input is the modules to import; one JSON object is printed. */
static const char probe_code[] =
    "import json, sys\n"
    "told = {'version': sys.version.split()[0], 'executable': sys.executable,\n"
    "        'prefix': sys.prefix, 'missing': [], 'packages': []}\n"
    "for name in sys.stdin.readline().split():\n"
    "    try:\n"
    "        __import__(name)\n"
    "    except BaseException as error:\n"
    "        why = str(error).partition('\\n')[0][:200]\n"
    "        told['missing'].append(f'{name}: {type(error).__name__}: {why}')\n"
    "try:\n"
    "    from importlib import metadata\n"
    "    found = {(d.metadata['Name'] or '?', d.version or '?') for d in "
    "metadata.distributions()}\n"
    "    told['packages'] = [f'{name} {version}' for name, version in sorted(found)][:2000]\n"
    "except Exception as error:\n"
    "    told['missing'].append(f'the list of packages: {error}')\n"
    "print(json.dumps(told))\n";

static void trial_release(struct trial *trial)
{
    json_decref(trial->seen);
    trial->seen = NULL;
}

static struct limits trial_limits(void)
{
    struct limits limits;

    limits_default(&limits);
    limits.wall_us = 60 * USEC_PER_SEC;
    limits.memory_bytes = INT64_C(1) << 30;
    return limits;
}

/* Runs the cell; its errors are reported in @err too. */
static int trial_run(struct engine *engine, const char *preload, struct trial *trial,
                     struct gb_err *err)
{
    struct run_spec spec = { .code = probe_code,
                             .code_len = strlen(probe_code),
                             .filename = "<string>",
                             .limits = trial_limits(),
                             .reply_bytes = SAID_BYTES,
                             .input = preload,
                             .input_len = strlen(preload),
                             .stdin_fd = -1,
                             .cancel_fd = -1 };
    struct outcome outcome = { 0 };
    struct box *box = NULL;
    int r = box_acquire(engine, &spec.limits, &box, err);

    if (r == 0)
        r = oneshot_run(box, &spec, &outcome, err);
    if (r == 0 && outcome.out.head_len > 0) /* modules may print something at exit */
        trial->seen =
            json_loadb(outcome.out.head, outcome.out.head_len, JSON_DISABLE_EOF_CHECK, NULL);
    if (r == 0 && !trial->seen)
        r = gb_fail_plain(err, EIO, "a test cell in one of its boxes did not run (%s): %.100s",
                          run_status_name(outcome.status),
                          outcome.error_value ? outcome.error_value : "it printed nothing");
    outcome_release(&outcome);
    box_release(box);
    return r;
}

/* Whether one of @lines is about this module. */
static bool lines_name(const char *lines, const char *name, size_t len)
{
    for (; *lines; lines += strcspn(lines, "\n"), lines += *lines == '\n')
        if (strncmp(lines, name, len) == 0 && strncmp(lines + len, ": ", 2) == 0)
            return true;
    return false;
}

/* Removes the modules that @lines are about from @preload. */
static void preload_trim(char *preload, const char *lines)
{
    char *from = preload, *to = preload;

    while (*from) {
        size_t len = strcspn(from, " ");

        if (!lines_name(lines, from, len)) {
            if (to != preload)
                *to++ = ' ';
            memmove(to, from, len);
            to += len;
        }
        from += len + (from[len] == ' ');
    }
    *to = '\0';
}

/* Removes from its list what had to be left out: the template is not to be tried with it again. */
static int try_template(const struct config *cfg, struct template_entry *entry, struct trial *trial,
                        struct gb_err *err)
{
    struct engine_config config = {
        .python = entry->python,
        .preload = entry->preload,
        .binds = (const char *const *) entry->binds,
        .packages = template_entry_def(entry).packages,
        .template_wait_us = cfg->template_wait_us,
        .cgroups = (enum cgroup_mode) cfg->cgroups,
        .landlock = cfg->landlock == LANDLOCK_ON,
    };
    struct engine *engine = NULL;
    int r = engine_open(&config, &engine, err);

    if (r < 0)
        return r;
    r = engine_wait_ready(engine, err);
    engine_template_report(engine, NULL, &trial->report);
    preload_trim(entry->preload, trial->report.left_out);
    if (r == 0)
        r = trial_run(engine, entry->preload, trial, err);
    engine_close(engine);
    return r;
}

/* The modules that could not be imported: in the template, or only in the box. */
static const char *first_missing(const struct trial *trial)
{
    const json_t *inside = json_object_get(trial->seen, "missing");

    if (trial->report.missing[0])
        return trial->report.missing;
    return json_string_value(json_array_get(inside, 0));
}

/* ---- add ---- */

/* The modules that --preload asks for. With "auto", those that the trial could import. */
static int preload_fill(const struct config *cfg, struct template_entry *entry, struct gb_err *err)
{
    bool listed = strcmp(cfg->preload, "auto") == 0 || strcmp(cfg->preload, "all") == 0;
    bool none = strcmp(cfg->preload, "none") == 0 ||
                (cfg->template_no_check && strcmp(cfg->preload, "auto") == 0);

    free(entry->preload);
    entry->preload = strdup(none ? "" : listed ? engine_preload_all : cfg->preload);
    if (!entry->preload)
        return gb_fail(err, ENOMEM, "add a template");
    cmd_preload_split(entry->preload);
    return 0;
}

static void left_out_to_json(const struct template_entry *entry, json_t *json)
{
    json_t *list = json_array();

    for (char *const *text = entry->left_out; text && *text; text++)
        (void) json_array_append_new(list, json_string(*text));
    (void) json_object_set_new(json, "left_out", list);
}

/* Only for sets of packages. */
static void packages_to_json(const struct template_entry *entry, json_t *json)
{
    json_t *list = json_array();

    if (json && entry->packages) {
        for (char *const *text = entry->packages; *text; text++)
            (void) json_array_append_new(list, json_string(*text));
        (void) json_object_set(json, "packages", list);
        (void) json_object_set_new(json, "layer",
                                   entry->layer[0] ? json_string(entry->layer) : json_null());
    }
    json_decref(list);
}

static int print_added(const struct config *cfg, const struct template_entry *entry,
                       const struct trial *trial, struct gb_err *err)
{
    const char *version = trial->report.version;
    json_t *json;

    if (cfg->json) {
        json = json_pack("{s:s, s:s, s:s, s:s?, s:s}", "name", entry->name, "kind",
                         template_kind_name(entry->kind), "python", entry->python, "version",
                         version[0] ? version : NULL, "preload", entry->preload);
        left_out_to_json(entry, json);
        packages_to_json(entry, json);
        return cmd_print_json(json, err);
    }
    if (version[0])
        say("added template %s: Python %s, %s", entry->name, version, entry->python);
    else
        say("added template %s without a check: %s", entry->name, entry->python);
    for (char *const *bind = entry->binds; *bind; bind++)
        say("  its boxes see %s", *bind);
    if (entry->packages)
        say("  preloaded: %s", entry->preload[0] ? entry->preload : "nothing");
    return 0;
}

static int add_checked(const struct config *cfg, struct template_entry *entry, struct trial *trial,
                       struct gb_err *err)
{
    int r = try_template(cfg, entry, trial, err);

    if (r < 0)
        return r;
    if (template_entry_leave_out(entry, trial->report.left_out) < 0)
        return gb_fail(err, ENOMEM, "add a template");
    if (!cfg->json)
        cmd_say_left_out(trial->report.left_out);
    if (strcmp(cfg->preload, "auto") == 0) {
        if (entry->packages && first_missing(trial))
            say("not preloaded: %.*s", (int) strcspn(first_missing(trial), "\n"),
                first_missing(trial));
        preload_trim(entry->preload, trial->report.missing);
    } else if (first_missing(trial))
        return gb_fail_plain(err, EINVAL, "%.*s: install it there, or leave it out of --preload",
                             (int) strcspn(first_missing(trial), "\n"), first_missing(trial));
    return 0;
}

static int set_find(const struct config *cfg, const char *data_dir, struct template_entry *entry,
                    struct gb_err *err)
{
    struct template_set set = { 0 };
    struct store *store = NULL;
    int r = template_set_find(cfg, &set, err);

    if (r < 0)
        return r;
    r = cmd_open_store(cfg, false, &store, err);
    store_close(store); /* it made the directory, if that was missing */
    if (r == 0 && !cfg->template_replace)
        r = templates_check_free(data_dir, cfg->args[0], err);
    if (r == 0)
        r = template_set_install(cfg, data_dir, &set, entry, err);
    template_set_release(&set);
    return r;
}

/* Interpreter, files and modules to preload. */
static int add_find(const struct config *cfg, const char *data_dir, struct template_entry *entry,
                    struct gb_err *err)
{
    enum template_kind kind = cfg->template_venv ? TEMPLATE_KIND_VENV : TEMPLATE_KIND_PYTHON;
    const char *path = cfg->template_venv ? cfg->template_venv : cfg->template_python;
    int r = template_set_named(cfg) ? set_find(cfg, data_dir, entry, err)
                                    : template_find(kind, path, entry, err);

    if (r < 0)
        return r;
    (void) snprintf(entry->name, sizeof entry->name, "%s", cfg->args[0]);
    if (entry->packages && strcmp(cfg->preload, "auto") == 0)
        return 0; /* known, of packages */
    return preload_fill(cfg, entry, err);
}

int cmd_template_add(const struct config *cfg, const char *data_dir, struct gb_err *err)
{
    struct template_entry entry = { 0 };
    struct trial trial = { 0 };
    struct store *store = NULL;
    int r = template_check_name(cfg->args[0], err);

    if (r == 0)
        r = add_find(cfg, data_dir, &entry, err);
    if (r == 0 && !cfg->template_no_check)
        r = add_checked(cfg, &entry, &trial, err);
    if (r == 0 && (r = cmd_open_store(cfg, false, &store, err)) == 0) {
        store_close(store); /* it made the directory, if that was missing */
        r = templates_save(data_dir, &entry, cfg->template_replace, err);
    }
    if (r == 0)
        r = print_added(cfg, &entry, &trial, err);
    trial_release(&trial);
    template_entry_release(&entry);
    return r;
}

/* ---- list ---- */

static json_t *entry_to_json(const struct template_entry *entry, const char *problem)
{
    json_t *binds = json_array(), *json;

    for (char *const *bind = entry->binds; binds && bind && *bind; bind++)
        (void) json_array_append_new(binds, json_string(*bind));
    json = json_pack("{s:s, s:s, s:s?, s:s, s:o, s:s?}", "name", entry->name, "kind",
                     template_kind_name(entry->kind), "python", entry->python, "preload",
                     entry->preload ? entry->preload : "", "binds", binds, "problem", problem);
    left_out_to_json(entry, json);
    packages_to_json(entry, json);
    if (json && entry->packages_dir)
        (void) json_object_set_new(json, "bytes", json_integer(entry->packages_bytes));
    return json;
}

/* The requirements as far as they fit on a line, or the interpreter. */
static void print_contents(const struct template_entry *entry)
{
    size_t used = 0, len = 0;

    if (!entry->packages) {
        printf("%s", entry->python);
        return;
    }
    while (entry->packages[len])
        len++;
    for (size_t i = 0; i < len; i++) {
        used += strlen(entry->packages[i]) + 2;
        if (used > LIST_COLUMNS && i > 0) {
            printf(" and %zu more", len - i);
            return;
        }
        printf("%s%s", i ? ", " : "", entry->packages[i]);
    }
}

static void print_entry(const struct template_entry *entry, bool standard, const char *problem)
{
    char size[CMD_BYTES_MAX] = "";

    if (entry->packages_dir)
        (void) cmd_bytes(entry->packages_bytes, size);
    printf("%-20s  %-8s  %-8s  ", entry->name, problem ? "" : template_kind_name(entry->kind),
           size);
    if (problem)
        printf("unusable: %s", problem);
    else
        print_contents(entry);
    printf("%s\n", standard ? "  (default)" : "");
}

/* @entry is loaded as far as that is possible. */
static void list_one(const struct config *cfg, const struct template_entry *entry,
                     const char *standard, const char *problem, json_t *all)
{
    bool is_standard = strcmp(entry->name, standard) == 0;
    json_t *json;

    if (!cfg->json) {
        print_entry(entry, is_standard, problem);
        return;
    }
    json = entry_to_json(entry, problem);
    if (json)
        (void) json_object_set_new(json, "default", json_boolean(is_standard));
    (void) json_array_append_new(all, json);
}

static int list_all(const struct config *cfg, const char *data_dir, char *const *names, json_t *all,
                    struct gb_err *err)
{
    struct template_entry standard = { 0 }, entry = { 0 };
    struct gb_err why;
    int r = template_system(&entry, err);

    /* A name that no template has marks none of them. */
    if (r == 0 && template_default(data_dir, cfg->default_template, &standard, &why, &why) < 0)
        standard.name[0] = '\0';
    if (r == 0)
        list_one(cfg, &entry, standard.name, NULL, all);
    template_entry_release(&entry);
    for (; r == 0 && *names; names++) {
        bool bad = templates_load(data_dir, *names, &entry, &why) < 0 ||
                   template_furnish_from(data_dir, &entry, &why) < 0;

        (void) snprintf(entry.name, sizeof entry.name, "%s", *names);
        list_one(cfg, &entry, standard.name, bad ? why.msg : NULL, all);
        template_entry_release(&entry);
    }
    template_entry_release(&standard);
    return r;
}

static int list(const struct config *cfg, const char *data_dir, struct gb_err *err)
{
    json_t *all = json_array();
    char **names = NULL;
    int r = templates_names(data_dir, &names, err);

    if (r == 0 && !cfg->json)
        printf("%-20s  %-8s  %-8s  %s\n", "NAME", "KIND", "SIZE", "PYTHON OR PACKAGES");
    if (r == 0)
        r = list_all(cfg, data_dir, names, all, err);
    templates_names_free(names);
    if (r == 0 && cfg->json)
        return cmd_print_json(json_pack("{s:o}", "templates", all), err);
    json_decref(all);
    if (r == 0 && fflush(stdout) != 0)
        r = gb_fail(err, EIO, "print the templates");
    return r;
}

/* ---- remove ---- */

static int drop(const struct config *cfg, const char *data_dir, struct gb_err *err)
{
    int r = templates_remove(data_dir, cfg->args[0], err);

    if (r == 0 && cfg->json)
        return cmd_print_json(json_pack("{s:s, s:b}", "name", cfg->args[0], "removed", 1), err);
    if (r == 0)
        say("removed template %s; sessions that use it keep it", cfg->args[0]);
    return r;
}

/* ---- check ---- */

static void print_lines(const char *what, const char *text)
{
    while (*text) {
        size_t len = strcspn(text, "\n");

        if (len > 0)
            printf("  %s%.*s\n", what, (int) len, text);
        text += len + (text[len] == '\n');
    }
}

static void print_trial(const struct template_entry *entry, const struct trial *trial)
{
    const json_t *packages = json_object_get(trial->seen, "packages");
    const json_t *missing = json_object_get(trial->seen, "missing");

    printf("%s works: Python %s, %s\n", entry->name, trial->report.version, entry->python);
    if (entry->preload[0])
        printf("  preloaded  %s\n", entry->preload);
    for (char *const *text = entry->packages; text && *text; text++)
        printf("  requested  %s\n", *text);
    for (char *const *text = entry->left_out; text && *text; text++)
        print_lines("left out   ", *text);
    print_lines("missing    ", trial->report.missing);
    for (size_t i = 0; i < json_array_size(missing); i++)
        print_lines("in a box   ", json_string_value(json_array_get(missing, i)));
    for (char *const *bind = entry->binds; *bind; bind++)
        printf("  boxes see  %s\n", *bind);
    for (size_t i = 0; i < json_array_size(packages); i++)
        printf("  package    %s\n", json_string_value(json_array_get(packages, i)));
    if (entry->left_out)
        printf("  fix        programs can import what is left out; after an upgrade, have it tried "
               "again:\n"
               "             glovebox template add %s --replace with the same options\n",
               entry->name);
    if (trial->report.missing[0])
        printf("  fix        install the missing modules there, or: glovebox template add %s "
               "--replace "
               "with another --preload\n",
               entry->name);
    else if (json_array_size(missing) > 0)
        printf(
            "  fix        boxes run under other user ids: everyone must be able to read it (chmod "
            "-R go+rX)\n");
}

static json_t *lines_to_json(const char *text)
{
    json_t *lines = json_array();

    while (*text) {
        size_t len = strcspn(text, "\n");

        if (len > 0)
            (void) json_array_append_new(lines, json_stringn(text, len));
        text += len + (text[len] == '\n');
    }
    return lines;
}

static int print_trial_json(const struct template_entry *entry, const struct trial *trial, int r,
                            const struct gb_err *why, struct gb_err *err)
{
    json_t *json = entry_to_json(entry, r < 0 ? why->msg : NULL);
    bool fine = r == 0 && !first_missing(trial);

    if (json) {
        (void) json_object_set_new(json, "ok", json_boolean(fine));
        (void) json_object_set_new(json, "version",
                                   trial->report.version[0] ? json_string(trial->report.version)
                                                            : json_null());
        (void) json_object_set_new(json, "missing", lines_to_json(trial->report.missing));
        (void) json_object_set_new(json, "said", json_string(trial->report.said));
        (void) json_object_set_new(json, "in_box",
                                   trial->seen ? json_incref(trial->seen) : json_null());
    }
    return cmd_print_json(json, err);
}

/* Those that were left out when it was added, and now those that its definition still names. */
static int note_left_out(struct template_entry *entry, const struct trial *trial,
                         struct gb_err *err)
{
    autofree char *all = NULL;
    size_t size = 0;
    FILE *text;

    if (!trial->report.left_out[0])
        return 0;
    text = open_memstream(&all, &size);
    if (!text)
        return gb_fail(err, ENOMEM, "check a template");
    for (char *const *line = entry->left_out; line && *line; line++)
        fprintf(text, "%s\n", *line);
    fprintf(text, "%s", trial->report.left_out);
    if (fclose(text) != 0 || template_entry_leave_out(entry, all) < 0)
        return gb_fail(err, ENOMEM, "check a template");
    return 0;
}

static int check(const struct config *cfg, const char *data_dir, struct gb_err *err)
{
    struct template_entry entry = { 0 };
    struct trial trial = { 0 };
    struct gb_err why = { 0 };
    int r = templates_load(data_dir, cfg->args[0], &entry, err), printed = 0;

    if (r < 0)
        return r;
    r = template_furnish_from(data_dir, &entry, &why);
    if (r == 0)
        r = try_template(cfg, &entry, &trial, &why);
    if (r == 0)
        r = note_left_out(&entry, &trial, &why);
    if (cfg->json)
        printed = print_trial_json(&entry, &trial, r, &why, err);
    else if (r == 0)
        print_trial(&entry, &trial);
    else
        print_lines("output   ", trial.report.said);
    if (r < 0) {
        *err = why;
        r = -EIO;
    } else if (first_missing(&trial)) {
        r = gb_fail_plain(err, EIO, "template %s works, but some of its modules cannot be imported",
                          entry.name);
    }
    trial_release(&trial);
    template_entry_release(&entry);
    return printed < 0 ? printed : r;
}

int cmd_template(const struct config *cfg)
{
    autofree char *data_dir = NULL;
    struct gb_err err = { 0 };
    int r = cmd_data_dir(cfg, &data_dir, &err);

    if (r == 0 && cfg->action == ACTION_TEMPLATE_ADD)
        r = cmd_template_add(cfg, data_dir, &err);
    else if (r == 0 && cfg->action == ACTION_TEMPLATE_LIST)
        r = list(cfg, data_dir, &err);
    else if (r == 0 && cfg->action == ACTION_TEMPLATE_REMOVE)
        r = drop(cfg, data_dir, &err);
    else if (r == 0 && cfg->action == ACTION_TEMPLATE_UPDATE)
        r = template_set_update(cfg, data_dir, &err);
    else if (r == 0)
        r = check(cfg, data_dir, &err);
    if (r == 0)
        return 0;
    say("%s", err.msg);
    if (r == -ENOMEM)
        return EXIT_OURS;
    return (cfg->action == ACTION_TEMPLATE_ADD || cfg->action == ACTION_TEMPLATE_UPDATE) &&
                   r == -EINVAL
               ? EXIT_USAGE
               : EXIT_NO_GOOD;
}
