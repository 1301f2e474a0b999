#include "cli/terminal/doctor_text.h"

#include <errno.h>
#include <string.h>

#include "base/autoclean.h"

#include "base/banned.h"

#define NAME_WIDTH  16
#define STATE_WIDTH 7
#define INDENT      (2 + NAME_WIDTH + 1 + STATE_WIDTH + 2)

/* ---- for people ---- */

static void write_state(FILE *out, enum doctor_state state, bool colours)
{
    static const char *const shades[] = {
        [DOCTOR_ACTIVE] = "\033[32m",
        [DOCTOR_MISSING] = "\033[33m",
        [DOCTOR_OFF] = "\033[33m",
        [DOCTOR_FAILED] = "\033[1;31m",
    };

    fprintf(out, "%s%-*s%s", colours ? shades[state] : "", STATE_WIDTH, doctor_state_name(state),
            colours ? "\033[0m" : "");
}

/* How many bytes of @text fit into @width: up to the last blank, or all of a word that is
 * longer. */
static size_t line_len(const char *text, size_t width)
{
    size_t len = strlen(text), at = width;

    if (len <= width)
        return len;
    while (at > 0 && text[at] != ' ')
        at--;
    return at > 0 ? at : strcspn(text, " ");
}

/* Continues at the cursor, which is at column INDENT; further lines are indented to it. */
static void write_wrapped(FILE *out, const char *text)
{
    for (;;) {
        size_t len = line_len(text, DOCTOR_COLUMNS - INDENT);

        fprintf(out, "%.*s\n", (int) len, text);
        text += len;
        text += strspn(text, " ");
        if (!*text)
            return;
        fprintf(out, "%*s", INDENT, "");
    }
}

static void write_check(FILE *out, const struct doctor_check *check, bool colours)
{
    char name[NAME_WIDTH + 1], cure[DOCTOR_TEXT_MAX + 8];

    snprintf(name, sizeof name, "%s", check->name);
    for (char *p = name; *p; p++)
        if (*p == '_')
            *p = ' ';
    fprintf(out, "  %-*s ", NAME_WIDTH, name);
    write_state(out, check->state, colours);
    fprintf(out, "  ");
    write_wrapped(out, check->reason);
    if (!check->cure[0])
        return;
    snprintf(cure, sizeof cure, "fix: %s", check->cure);
    fprintf(out, "%*s", INDENT, "");
    write_wrapped(out, cure);
}

static void write_head(FILE *out, const struct doctor_report *report)
{
    const struct doctor_host *host = &report->host;

    fprintf(out, "Linux %s on %s, as %s", host->kernel, host->machine,
            host->uid == 0 ? "root" : "an ordinary user");
    if (report->python[0])
        fprintf(out, ", Python %s in the box", report->python);
    if (report->python[0] && report->template[0])
        fprintf(out, " (template %s)", report->template);
    fputc('\n', out);
}

static const char *text_of(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));

    return text ? text : "";
}

/* Names and reasons come from servers, in part. */
static void make_printable(char *text)
{
    for (; *text; text++)
        if (*text < ' ' || *text > '~')
            *text = '?';
}

static void write_models(FILE *out, const json_t *models, const char *hint, bool colours)
{
    struct doctor_check check = { .state = DOCTOR_MISSING, .name = "none" };
    char name[NAME_WIDTH + 1];
    json_t *model;
    size_t i;

    fprintf(out, "\n%sModels%s\n", colours ? "\033[1m" : "", colours ? "\033[0m" : "");
    if (json_array_size(models) == 0) {
        snprintf(check.reason, sizeof check.reason, "Mark has no language model, only its demo");
        snprintf(check.cure, sizeof check.cure, "%s", hint);
        write_check(out, &check, colours);
    }
    json_array_foreach (models, i, model) {
        bool good = json_is_true(json_object_get(model, "reachable"));
        const char *why = text_of(model, "reason");

        snprintf(name, sizeof name, "%s", text_of(model, "name"));
        snprintf(check.reason, sizeof check.reason, "%s, %s, from %s%s%s", text_of(model, "model"),
                 text_of(model, "provider"), text_of(model, "source"), *why ? ": " : "", why);
        make_printable(name);
        make_printable(check.reason);
        check.name = name;
        check.state = good ? DOCTOR_ACTIVE : DOCTOR_FAILED;
        write_check(out, &check, colours);
    }
}

#define WHERE_MAX ((size_t) 60)

static void write_store(FILE *out, const json_t *store, bool colours)
{
    struct doctor_check check = { .state = DOCTOR_FAILED };
    const char *why = text_of(store, "reason"), *where = text_of(store, "where");
    size_t len = strlen(where), cut = len > WHERE_MAX ? len - WHERE_MAX : 0;
    char name[NAME_WIDTH + 1];

    fprintf(out, "\n%sStore%s\n", colours ? "\033[1m" : "", colours ? "\033[0m" : "");
    snprintf(name, sizeof name, "%s", text_of(store, "kind"));
    /* A path has no place to break a line at; its end says more than its beginning. */
    snprintf(check.reason, sizeof check.reason, "%s%s%s%.130s", cut ? "..." : "", where + cut,
             *why ? ": " : "", why);
    make_printable(check.reason);
    check.name = name;
    if (json_is_true(json_object_get(store, "ok")))
        check.state = DOCTOR_ACTIVE;
    write_check(out, &check, colours);
}

static void write_summary(FILE *out, const struct doctor_report *report, size_t untried)
{
    size_t counts[4] = { 0 };

    for (size_t i = 0; i < report->checks_len; i++)
        counts[report->checks[i].state]++;
    fputc('\n', out);
    if (untried > 0)
        fprintf(out, "%zu more were not tried: no program could be run in a box.\n", untried);
    fprintf(out, "%s", report->isolated ? "Code is isolated here" : "Code cannot be isolated here");
    if (untried == 0)
        fprintf(out, ": %zu active, %zu missing, %zu off, %zu failed", counts[DOCTOR_ACTIVE],
                counts[DOCTOR_MISSING], counts[DOCTOR_OFF], counts[DOCTOR_FAILED]);
    fprintf(out, ".\n");
}

int doctor_write(FILE *out, const struct doctor_report *report, const json_t *models,
                 const json_t *store, const char *hint, bool colours)
{
    const char *group = "";
    size_t untried = 0;

    write_head(out, report);
    for (size_t i = 0; i < report->checks_len; i++) {
        const struct doctor_check *check = &report->checks[i];

        if (!check->tried) {
            untried++;
            continue;
        }
        if (strcmp(group, check->group) != 0)
            fprintf(out, "\n%s%s%s\n", colours ? "\033[1m" : "", check->group,
                    colours ? "\033[0m" : "");
        group = check->group;
        write_check(out, check, colours);
    }
    if (models)
        write_models(out, models, hint, colours);
    if (store)
        write_store(out, store, colours);
    write_summary(out, report, untried);
    return fflush(out) != 0 || ferror(out) ? -EIO : 0;
}

/* ---- for programs ---- */

static json_t *text_or_null(const char *text)
{
    return text && *text ? json_string(text) : json_null();
}

static json_t *check_to_json(const struct doctor_check *check)
{
    return json_pack("{s:s, s:s, s:s, s:b, s:s, s:o}", "name", check->name, "group", check->group,
                     "state", doctor_state_name(check->state), "required", check->required,
                     "reason", check->reason, "cure", text_or_null(check->cure));
}

static json_t *packages_to_json(const struct doctor_report *report)
{
    json_t *packages = json_object();

    for (size_t i = 0; packages && i < report->packages_len; i++) {
        const struct doctor_package *package = &report->packages[i];

        if (json_object_set_new(packages, package->module, text_or_null(package->version)) < 0) {
            json_decref(packages);
            return NULL;
        }
    }
    return packages;
}

static json_t *host_to_json(const struct doctor_report *report)
{
    const struct doctor_host *host = &report->host;

    return json_pack("{s:s, s:s, s:I, s:o, s:o, s:o, s:i, s:b, s:o, s:o, s:o}", "kernel",
                     host->kernel, "machine", host->machine, "uid", (json_int_t) host->uid,
                     "id_mode", text_or_null(report->id_mode), "cgroups",
                     text_or_null(report->cgroups), "cgroups_note",
                     text_or_null(report->cgroup_note), "landlock_abi", host->landlock_abi, "swap",
                     host->has_swap, "python", text_or_null(report->python), "template",
                     text_or_null(report->template), "packages", packages_to_json(report));
}

json_t *doctor_to_json(const struct doctor_report *report, json_t *models, json_t *store)
{
    json_t *checks = json_array();

    for (size_t i = 0; checks && i < report->checks_len; i++) {
        if (json_array_append_new(checks, check_to_json(&report->checks[i])) < 0) {
            json_decref(checks);
            checks = NULL;
        }
    }
    return json_pack("{s:b, s:o, s:o, s:o, s:o}", "isolated", report->isolated, "checks", checks,
                     "host", host_to_json(report), "models", models ? models : json_array(),
                     "store", store ? store : json_null());
}
