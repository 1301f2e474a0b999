/* `glovebox source`: the data sources that Mark may ask. It works on the store, without the
 * service, and beside a running one. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/io.h"
#include "base/text/json_depth.h"
#include "base/text/parse.h"
#include "cli/cmd.h"
#include "cli/local.h"
#include "cli/password.h"
#include "cli/terminal/plain_text.h"
#include "mark/source/sources.h"
#include "service/access/data.h"

#include "base/banned.h"

enum { EXIT_NO_SOURCE = 1 };

#define FILE_MAX ((size_t) 256 * 1024)

struct command {
    const struct config *cfg;
    char *data_dir;
    struct store *store;
    struct sources *sources;
    struct caller caller; /* local: whoever has the data directory is an operator */
    struct local local;   /* boxes, for those that are files */
};

static int fail_fault(const struct fault *fault, struct gb_err *err)
{
    return gb_fail_plain(
        err,
        fault->problem == PROBLEM_SOURCE_UNKNOWN || fault->problem == PROBLEM_SOURCE_TAKEN ||
                fault->problem == PROBLEM_SOURCE_FAILED || fault->problem == PROBLEM_SOURCE_SEALED
            ? ENOENT
        : fault->kind == FAULT_INVALID ? EINVAL
                                       : EIO,
        "%s", fault->detail);
}

static const char *text_of(const json_t *json, const char *name)
{
    const char *text = json_string_value(json_object_get(json, name));

    return text ? text : "";
}

static long long int_of(const json_t *json, const char *name)
{
    return (long long) json_integer_value(json_object_get(json, name));
}

/* Text of strangers on the terminal, as text. */
static void print_plain(const char *text)
{
    autofree char *plain = plain_text(text, strlen(text));

    for (char *c = plain; c && *c; c++)
        if (*c == '\n' || *c == '\t')
            *c = ' ';
    (void) fputs(plain ? plain : "", stdout);
}

static int finish_output(struct gb_err *err)
{
    return fflush(stdout) != 0 ? gb_fail(err, EIO, "print the sources") : 0;
}

/* ---- what add is given ---- */

/* A small file; the caller wipes it. */
static int read_file(const char *path, char **ret_text, struct gb_err *err)
{
    autoclose int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    char *text;
    ssize_t len;

    if (fd < 0)
        return gb_fail(err, errno, "open '%s'", path);
    text = calloc(1, FILE_MAX + 1);
    if (!text)
        return gb_fail(err, ENOMEM, "read '%s'", path);
    len = io_read_all(fd, text, FILE_MAX + 1);
    if (len < 0 || len > (ssize_t) FILE_MAX || strlen(text) != (size_t) len) {
        explicit_bzero(text, FILE_MAX + 1);
        free(text);
        return len < 0 ? gb_fail(err, (int) -len, "read '%s'", path)
                       : gb_fail_plain(err, EINVAL, "'%s' is too large, or not a text", path);
    }
    *ret_text = text;
    return 0;
}

static int set_text(json_t *body, const char *name, const char *text)
{
    return text ? json_object_set_new(body, name, json_string(text)) : 0;
}

static int set_file(json_t *body, const char *name, const char *path, struct gb_err *err)
{
    autofree char *text = NULL;
    int r = path ? read_file(path, &text, err) : 0;

    if (r == 0 && set_text(body, name, text) < 0)
        r = gb_fail_plain(err, EINVAL, "'%s' is not UTF-8", path);
    return r;
}

static int set_credentials(json_t *body, const char *path, struct gb_err *err)
{
    autofree char *text = NULL;
    json_t *json = NULL;
    int r = path ? read_file(path, &text, err) : 0;

    if (r < 0 || !path)
        return r;
    if (!json_too_deep(text, strlen(text), 8))
        json = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    explicit_bzero(text, strlen(text));
    if (!json)
        return gb_fail_plain(err, EINVAL, "'%s' is not JSON", path);
    return json_object_set_new(body, "credentials", json) < 0 ? gb_fail(err, ENOMEM, "read it") : 0;
}

static int set_password(const struct config *cfg, json_t *body, bool in_url, struct gb_err *err)
{
    char password[PASSWORD_SIZE] = "";
    int r = 0;

    if (cfg->password_file)
        r = password_read_file(cfg->password_file, password, err);
    else if (!in_url && password_can_ask())
        r = password_ask("Password of the user in the address (empty: none): ", password, err);
    if (r == 0 && password[0] && set_text(body, "password", password) < 0)
        r = gb_fail_plain(err, EINVAL, "the password is not UTF-8");
    explicit_bzero(password, sizeof password);
    return r;
}

/* "ann@example.com=north" */
static int add_allowed(json_t *rows, const char *text, struct gb_err *err)
{
    const char *equals = strchr(text, '=');
    json_t *row = json_object();
    int r =
        row ? json_object_set_new(
                  row, "who", json_stringn(text, equals ? (size_t) (equals - text) : strlen(text)))
            : -1;

    if (r == 0 && equals)
        r = set_text(row, "role", equals + 1);
    r = r == 0 ? json_array_append(rows, row) : r;
    json_decref(row);
    return r < 0 ? gb_fail_plain(err, EINVAL, "--allow %s is not UTF-8", text) : 0;
}

/* "ann@example.com=ann:ann.password" */
static int add_login(json_t *rows, const char *text, struct gb_err *err)
{
    const char *equals = strchr(text, '='), *colon = equals ? strchr(equals, ':') : NULL;
    char password[PASSWORD_SIZE] = "";
    json_t *row;
    int r;

    if (!colon || colon == equals + 1 || !colon[1])
        return gb_fail_plain(err, EINVAL,
                             "--login is WHO=LOGIN:FILE, such as ada@example.com=ada:ada.password");
    r = password_read_file(colon + 1, password, err);
    if (r < 0)
        return r;
    row = json_pack("{s:s%,s:s%,s:s}", "who", text, (size_t) (equals - text), "login", equals + 1,
                    (size_t) (colon - equals - 1), "password", password);
    explicit_bzero(password, sizeof password);
    return !row || json_array_append_new(rows, row) < 0
               ? gb_fail_plain(err, EINVAL, "--login %s is not UTF-8", text)
               : 0;
}

static int set_access(const struct config *cfg, json_t *body, struct gb_err *err)
{
    json_t *rows = json_array();
    int r = rows ? 0 : gb_fail(err, ENOMEM, "add a source");

    for (char **text = cfg->source_allow; r == 0 && text && *text; text++)
        r = add_allowed(rows, *text, err);
    for (char **text = cfg->source_logins; r == 0 && text && *text; text++)
        r = add_login(rows, *text, err);
    if (r == 0 && json_array_size(rows) > 0 && json_object_set(body, "access", rows) < 0)
        r = gb_fail(err, ENOMEM, "add a source");
    json_decref(rows);
    return r;
}

static int set_limits(const struct config *cfg, bool billed, json_t *body, struct gb_err *err)
{
    json_t *limits = json_object();
    int64_t bytes = 0;
    char *end = NULL;
    int r = limits ? 0 : -1;

    if (r == 0 && cfg->source_rows > 0)
        r = json_object_set_new(limits, "rows", json_integer(cfg->source_rows));
    if (r == 0 && cfg->source_cost && billed) {
        if (parse_size(cfg->source_cost, &bytes) < 0) {
            json_decref(limits);
            return gb_fail_plain(err, EINVAL, "--cost must be bytes, such as 50g");
        }
        r = json_object_set_new(limits, "bytes_billed", json_integer(bytes));
    } else if (r == 0 && cfg->source_cost) {
        double cost = strtod(cfg->source_cost, &end);

        if (*end || strspn(cfg->source_cost, "0123456789.e+") != strlen(cfg->source_cost)) {
            json_decref(limits);
            return gb_fail_plain(err, EINVAL,
                                 "--cost must be a number: what EXPLAIN estimates, such as 100000");
        }
        r = json_object_set_new(limits, "cost", json_real(cost));
    }
    if (r == 0 && json_object_size(limits) > 0)
        r = json_object_set(body, "limits", limits);
    json_decref(limits);
    return r < 0 ? gb_fail(err, ENOMEM, "add a source") : 0;
}

/* ---- where it is ---- */

static int body_postgresql(const struct config *cfg, json_t *body, struct gb_err *err)
{
    int r = set_text(body, "kind", "postgresql") < 0 || set_text(body, "url", cfg->args[1]) < 0
                ? gb_fail_plain(err, EINVAL, "the address is not UTF-8")
                : 0;
    bool in_url = options_hide_password(cfg->args[1]); /* others can read the command line */

    if (in_url)
        say("others on this machine may have seen the password in the address; --password-file "
            "keeps it off the command line");
    if (r == 0)
        r = set_file(body, "ca", cfg->source_ca, err);
    if (r == 0)
        r = set_password(cfg, body, in_url, err);
    if (r == 0 && cfg->source_schemas) {
        json_t *list = json_array();

        for (char **schema = cfg->source_schemas; r == 0 && *schema; schema++)
            r = json_array_append_new(list, json_string(*schema));
        if (json_object_set_new(body, "schemas", list) < 0 || r < 0)
            r = gb_fail_plain(err, EINVAL, "--schema is not UTF-8");
    }
    return r;
}

static int body_bigquery(const struct config *cfg, json_t *body, struct gb_err *err)
{
    const char *project = cfg->args[1] + strlen("bigquery://"), *slash = strchr(project, '/');
    size_t len = slash ? (size_t) (slash - project) : strlen(project);
    int r = 0;

    if (!cfg->source_credentials)
        return gb_fail_plain(err, EINVAL,
                             "BigQuery needs --credentials FILE: the JSON of a service account's "
                             "key");
    if (set_text(body, "kind", "bigquery") < 0 ||
        json_object_set_new(body, "project", json_stringn(project, len)) < 0 ||
        (slash && slash[1] && set_text(body, "dataset", slash + 1) < 0))
        r = gb_fail_plain(err, EINVAL, "the address is not UTF-8");
    return r == 0 ? set_credentials(body, cfg->source_credentials, err) : r;
}

static int body_files(const struct config *cfg, json_t *body, struct gb_err *err)
{
    autofree char *path = realpath(cfg->args[1], NULL);

    if (strstr(cfg->args[1], "://"))
        return gb_fail_plain(err, EINVAL,
                             "a source is at postgresql://..., bigquery://PROJECT, or in a "
                             "directory");
    if (!path)
        return gb_fail_plain(err, EINVAL, "there is no directory '%s'", cfg->args[1]);
    return set_text(body, "kind", "files") < 0 || set_text(body, "directory", path) < 0
               ? gb_fail_plain(err, EINVAL, "the path is not UTF-8")
               : 0;
}

static int body_make(const struct config *cfg, json_t *body, struct gb_err *err)
{
    bool billed = strncmp(cfg->args[1], "bigquery://", 11) == 0;
    int r =
        set_text(body, "name", cfg->args[0]) < 0 || set_text(body, "role", cfg->source_role) < 0 ||
                set_text(body, "description", cfg->source_description) < 0 ||
                (cfg->source_no_samples && json_object_set_new(body, "samples", json_false()) < 0)
            ? gb_fail_plain(err, EINVAL, "the name or the description is not UTF-8")
            : 0;

    if (r == 0)
        r = set_limits(cfg, billed, body, err);
    if (r == 0)
        r = set_access(cfg, body, err);
    if (r < 0)
        return r;
    return strncmp(cfg->args[1], "postgres", 8) == 0 && strstr(cfg->args[1], "://")
               ? body_postgresql(cfg, body, err)
           : billed ? body_bigquery(cfg, body, err)
                    : body_files(cfg, body, err);
}

/* ---- subcommands ---- */

/* Whether all is well. */
static bool print_checks(const json_t *json)
{
    json_t *checks = json_object_get(json, "checks"), *check;
    size_t i;

    json_array_foreach (checks, i, check) {
        (void) fputs(json_is_true(json_object_get(check, "ok")) ? "ok    " : "FAIL  ", stdout);
        print_plain(text_of(check, "name"));
        if (text_of(check, "as")[0]) {
            (void) fputs(" as ", stdout);
            print_plain(text_of(check, "as"));
        }
        (void) fputs(": ", stdout);
        print_plain(text_of(check, "text"));
        (void) fputc('\n', stdout);
    }
    return json_is_true(json_object_get(json, "ok"));
}

/* Files are looked at by a box: there is one from now on if @name is a directory of files. */
static int need_box(struct command *c, const char *name, struct gb_err *err)
{
    struct sources_config config = { .store = c->store, .data_dir = c->data_dir };
    struct fault ignored = { 0 };
    json_t *source = NULL;
    bool needed;
    int r;

    if (c->local.service || source_get(c->sources, &c->caller, name, &source, &ignored) < 0)
        return 0;
    needed = strcmp(text_of(source, "kind"), "files") == 0;
    json_decref(source);
    if (!needed)
        return 0;
    r = local_open(&c->local, err);
    if (r < 0)
        return r;
    sources_close(c->sources);
    c->sources = NULL;
    config.service = c->local.service;
    return sources_open(&config, &c->sources, err);
}

static int sync_one(struct command *c, const char *name, json_t **ret_json, struct gb_err *err)
{
    struct fault fault = { 0 };
    int r = need_box(c, name, err);

    if (r < 0)
        return r;
    cmd_show_progress("reading the catalogue");
    if (source_sync(c->sources, &c->caller, name, ret_json, &fault) < 0) {
        cmd_hide_progress();
        return fail_fault(&fault, err);
    }
    cmd_hide_progress();
    return 0;
}

static void print_synced(const char *name, const json_t *json)
{
    long long tables = int_of(json, "tables"), left_out = int_of(json, "left_out");

    say("%s: %lld %s, %lld new, %lld gone, in %.1f s", name, tables,
        tables == 1 ? "table" : "tables", int_of(json, "added"), int_of(json, "gone"),
        json_number_value(json_object_get(json, "seconds")));
    if (left_out > 0)
        say("%s: left out, because there are too many or they are too large: %lld %s", name,
            left_out, left_out == 1 ? "table" : "tables");
}

/* Takes the source back that was just added, if it does not work. */
static int check_added(struct command *c, const char *name, json_t **ret_checked,
                       struct gb_err *err)
{
    struct fault fault = { 0 }, undone = { 0 };
    int r;

    cmd_show_progress("connecting");
    r = source_check(c->sources, &c->caller, name, ret_checked, &fault);
    cmd_hide_progress();
    if (r < 0)
        r = fail_fault(&fault, err);
    else if (!(c->cfg->json ? json_is_true(json_object_get(*ret_checked, "ok"))
                            : print_checks(*ret_checked)))
        r = gb_fail_plain(err, ENOENT,
                          "the source does not work, so it was not added; --no-check adds it all "
                          "the same");
    (void) fflush(stdout);
    if (r < 0 && source_remove(c->sources, &c->caller, name, &undone) < 0)
        say("%s", undone.detail);
    return r;
}

static int source_added(struct command *c, json_t **added, struct gb_err *err)
{
    const char *name = c->cfg->args[0];
    json_t *checked = NULL, *synced = NULL;
    struct fault fault = { 0 };
    int r = c->cfg->template_no_check ? 0 : check_added(c, name, &checked, err);

    if (r == 0 && !c->cfg->template_no_check)
        r = sync_one(c, name, &synced, err);
    if (r < 0 && c->cfg->json && checked)
        (void) cmd_print_json(json_incref(checked), err);
    if (r == 0 && c->cfg->json) {
        json_decref(*added);
        *added = NULL;
        r = source_get(c->sources, &c->caller, name, added, &fault) < 0 ? fail_fault(&fault, err)
                                                                        : 0;
    } else if (r == 0) {
        say("added the source %s", name);
        if (synced)
            print_synced(name, synced);
    }
    json_decref(checked);
    json_decref(synced);
    return r;
}

static int run_add(struct command *c, struct gb_err *err)
{
    json_t *body = json_object(), *json = NULL;
    struct fault fault = { 0 };
    int r = body ? body_make(c->cfg, body, err) : gb_fail(err, ENOMEM, "add a source");

    if (r == 0 && source_add(c->sources, &c->caller, body, &json, &fault) < 0)
        r = fail_fault(&fault, err);
    json_decref(body);
    if (r == 0)
        r = source_added(c, &json, err);
    if (r == 0 && c->cfg->json)
        return cmd_print_json(json, err);
    json_decref(json);
    return r;
}

static void print_where(const json_t *source)
{
    const json_t *settings = json_object_get(source, "settings");

    if (json_object_get(settings, "host")) {
        print_plain(text_of(settings, "host"));
        if (int_of(settings, "port") > 0)
            printf(":%lld", int_of(settings, "port"));
        (void) fputc('/', stdout);
        print_plain(text_of(settings, "dbname"));
    } else if (json_object_get(settings, "project")) {
        print_plain(text_of(settings, "project"));
        (void) fputc('/', stdout);
        print_plain(text_of(settings, "dataset"));
    } else {
        print_plain(text_of(settings, "directory"));
    }
}

static int run_list(struct command *c, struct gb_err *err)
{
    json_t *json = NULL, *list, *source;
    struct fault fault = { 0 };
    size_t i;

    if (source_list(c->sources, &c->caller, &json, &fault) < 0)
        return fail_fault(&fault, err);
    if (c->cfg->json)
        return cmd_print_json(json, err);
    list = json_object_get(json, "sources");
    printf("%-20s  %-10s  %6s  %-20s  %s\n", "NAME", "KIND", "TABLES", "SYNCED", "WHERE");
    json_array_foreach (list, i, source) {
        const char *synced = text_of(source, "synced");

        printf("%-20s  %-10s  %6lld  %-19.19s%s  ", text_of(source, "name"),
               text_of(source, "kind"), int_of(source, "tables"), synced[0] ? synced : "never",
               synced[0] ? "Z" : " ");
        print_where(source);
        if (text_of(source, "sync_error")[0]) {
            (void) fputs("  last sync failed: ", stdout);
            print_plain(text_of(source, "sync_error"));
        }
        (void) fputc('\n', stdout);
    }
    json_decref(json);
    return finish_output(err);
}

static int run_tables(struct command *c, struct gb_err *err)
{
    json_t *json = NULL, *list, *table;
    struct fault fault = { 0 };
    size_t i;

    if (source_tables(c->sources, &c->caller, c->cfg->args[0], NULL, &json, &fault) < 0)
        return fail_fault(&fault, err);
    if (c->cfg->json)
        return cmd_print_json(json, err);
    list = json_object_get(json, "tables");
    printf("%12s  %7s  %s\n", "ROWS", "COLUMNS", "TABLE");
    json_array_foreach (list, i, table) {
        const json_t *rows = json_object_get(table, "rows");
        const char *about = text_of(table, "description");

        if (json_is_integer(rows))
            printf("%12lld", (long long) json_integer_value(rows));
        else
            printf("%12s", "-");
        printf("  %7zu  ", json_array_size(json_object_get(table, "columns")));
        print_plain(text_of(table, "name"));
        if (json_object_get(table, "gone"))
            (void) fputs(" (gone)", stdout);
        about = about[0] ? about : text_of(table, "comment");
        if (about[0]) {
            (void) fputs("  ", stdout);
            print_plain(about);
        }
        (void) fputc('\n', stdout);
    }
    json_decref(json);
    return finish_output(err);
}

/* Of one source, or of all: those that fail do not keep the others from it. */
static int run_sync(struct command *c, struct gb_err *err)
{
    json_t *json = NULL, *done = json_object(), *list, *source;
    struct fault fault = { 0 };
    int failed = 0;
    size_t i;

    if ((c->cfg->args_len > 0 ? source_get(c->sources, &c->caller, c->cfg->args[0], &json, &fault)
                              : source_list(c->sources, &c->caller, &json, &fault)) < 0) {
        json_decref(done);
        return fail_fault(&fault, err);
    }
    list = c->cfg->args_len > 0 ? json_pack("[O]", json)
                                : json_incref(json_object_get(json, "sources"));
    json_array_foreach (list, i, source) {
        const char *name = text_of(source, "name");
        json_t *synced = NULL;
        int r = sync_one(c, name, &synced, err);

        if (r < 0)
            failed = r;
        if (r < 0)
            say("%s: %s", name, err->msg);
        else if (!c->cfg->json)
            print_synced(name, synced);
        (void) json_object_set_new(done, name,
                                   synced ? synced : json_pack("{s:s}", "error", err->msg));
    }
    json_decref(list);
    json_decref(json);
    if (c->cfg->json && cmd_print_json(json_incref(done), err) < 0)
        failed = -EIO;
    json_decref(done);
    return failed ? gb_fail_plain(err, -failed, "not every catalogue could be read") : 0;
}

static int run_check(struct command *c, struct gb_err *err)
{
    struct fault fault = { 0 };
    json_t *json = NULL;
    bool ok;
    int r = need_box(c, c->cfg->args[0], err);

    if (r < 0)
        return r;
    cmd_show_progress("connecting");
    r = source_check(c->sources, &c->caller, c->cfg->args[0], &json, &fault);
    cmd_hide_progress();
    if (r < 0)
        return fail_fault(&fault, err);
    ok = json_is_true(json_object_get(json, "ok"));
    if (c->cfg->json) {
        r = cmd_print_json(json, err);
    } else {
        (void) print_checks(json);
        json_decref(json);
        r = finish_output(err);
    }
    return r < 0 ? r : ok ? 0 : gb_fail_plain(err, ENOENT, "the source does not work");
}

static int run_remove(struct command *c, struct gb_err *err)
{
    struct fault fault = { 0 };

    if (source_remove(c->sources, &c->caller, c->cfg->args[0], &fault) < 0)
        return fail_fault(&fault, err);
    if (c->cfg->json)
        return cmd_print_json(json_pack("{s:s,s:b}", "name", c->cfg->args[0], "removed", 1), err);
    say("removed the source %s, its catalogue and notes", c->cfg->args[0]);
    return 0;
}

static const struct {
    enum action_id action;
    bool creates; /* the data directory, if there is none */
    int (*run)(struct command *c, struct gb_err *err);
} subcommands[] = {
    { ACTION_SOURCE_ADD, true, run_add },        { ACTION_SOURCE_LIST, false, run_list },
    { ACTION_SOURCE_TABLES, false, run_tables }, { ACTION_SOURCE_SYNC, false, run_sync },
    { ACTION_SOURCE_CHECK, false, run_check },   { ACTION_SOURCE_REMOVE, false, run_remove },
};

static int run(struct command *c, struct gb_err *err)
{
    struct sources_config config = { 0 };
    size_t i = 0;
    int r = cmd_data_dir(c->cfg, &c->data_dir, err);

    while (i + 1 < ARRAY_LEN(subcommands) && subcommands[i].action != c->cfg->action)
        i++;
    if (r == 0)
        r = cmd_open_store(c->cfg, !subcommands[i].creates, &c->store, err);
    config.store = c->store;
    config.data_dir = c->data_dir;
    if (r == 0)
        r = sources_open(&config, &c->sources, err);
    return r == 0 ? subcommands[i].run(c, err) : r;
}

int cmd_source(const struct config *cfg)
{
    struct command c = { .cfg = cfg,
                         .caller = { .limits = { -1, -1, -1 } },
                         .local = LOCAL_INIT(cfg, "source") };
    struct gb_err err = { 0 };
    int r = run(&c, &err);

    sources_close(c.sources);
    (void) local_close(&c.local);
    store_close(c.store);
    free(c.data_dir);
    if (r == 0)
        return 0;
    say("%s", err.msg);
    if (r == -EINVAL)
        return EXIT_USAGE;
    return r == -ENOENT || r == -EEXIST || r == -EINTR ? EXIT_NO_SOURCE : EXIT_OURS;
}
