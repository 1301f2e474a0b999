/* `glovebox doctor`: which protections work on this host, each tried in a real box; and which
 * models Mark has. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "cli/cmd.h"
#include "cli/mark.h"
#include "cli/terminal/doctor_text.h"
#include "engine/doctor/doctor.h"
#include "service/access/data.h"
#include "service/template/templates.h"

#include "base/banned.h"

enum { EXIT_NOT_ISOLATED = 1 };

static void show_progress(void *arg, const char *what)
{
    (void) arg;
    fprintf(stderr, "\r\033[Kglovebox: trying %s", what);
    (void) fflush(stderr);
}

static bool wants_colours(void)
{
    const char *off = getenv("NO_COLOR"), *term = getenv("TERM");

    return isatty(STDOUT_FILENO) && !(off && *off) && term && strcmp(term, "dumb") != 0;
}

/* Where the store is, and for a database whether it can be used. NULL: out of memory. */
static json_t *look_at_store(const struct config *cfg, const char *data_dir)
{
    autofree char *where = NULL;
    struct store *store = NULL;
    struct gb_err err;
    int r;

    if (!cfg->database) {
        if (asprintf(&where, "%s/glovebox.db", data_dir) < 0) {
            where = NULL;
            return NULL;
        }
        return json_pack("{s:s, s:s, s:b, s:s}", "kind", "sqlite", "where", where, "ok", 1,
                         "reason", access(where, F_OK) == 0 ? "" : "not created yet");
    }
    where = strdup(cfg->database);
    if (!where)
        return NULL;
    (void) options_hide_password(where);
    r = cmd_open_store(cfg, true, &store, &err);
    store_close(store);
    return json_pack("{s:s, s:s, s:b, s:s}", "kind", "postgresql", "where", where, "ok",
                     r == 0 || r == -ENOENT, "reason", r < 0 ? err.msg : "");
}

int cmd_doctor(const struct config *cfg)
{
    struct doctor_config config = {
        .cgroups = (enum cgroup_mode) cfg->cgroups,
        .landlock = cfg->landlock == LANDLOCK_ON,
        .progress = isatty(STDERR_FILENO) ? show_progress : NULL,
    };
    struct doctor_report *report = calloc(1, sizeof *report);
    struct template_entry template = { 0 };
    json_t *models = NULL, *store;
    autofree char *data_dir = NULL;
    struct gb_err err = { 0 };
    int code = EXIT_OURS, r;

    r = cmd_data_dir(cfg, &data_dir, &err);
    if (r == 0)
        r = cmd_default_template(cfg, data_dir, &template, &err);
    if (r < 0) {
        say("%s", err.msg);
        free(report);
        return EXIT_USAGE;
    }
    config.template = template_entry_def(&template);
    if (config.progress)
        show_progress(NULL, "models");
    r = mark_models_look(cfg, &models, &err);
    if (r < 0) {
        models = NULL;
        say("models: %s", err.msg);
    }
    store = look_at_store(cfg, data_dir);
    r = report ? doctor_run(&config, report, &err) : gb_fail(&err, ENOMEM, "examine this host");
    if (config.progress)
        fprintf(stderr, "\r\033[K");
    if (r == 0 && cfg->json)
        r = cmd_print_json(doctor_to_json(report, json_incref(models), json_incref(store)), &err);
    else if (r == 0 &&
             doctor_write(stdout, report, models, store, mark_model_hint, wants_colours()) < 0)
        r = gb_fail(&err, EIO, "print the report");
    if (r < 0)
        say("%s", err.msg);
    else
        code = report->isolated ? 0 : EXIT_NOT_ISOLATED;
    free(report);
    json_decref(models);
    json_decref(store);
    template_entry_release(&template);
    return code;
}
