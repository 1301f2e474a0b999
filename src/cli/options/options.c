#include "cli/options/options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/text/parse.h"

#include "base/banned.h"

static int find_command(const char *name, const struct config_command **ret_command,
                        struct gb_err *err)
{
    char quoted[FORMAT_QUOTED_MAX];
    int r = config_find_command(&options_schema, name, ret_command, err);

    /* The word names a program: say how to run it. */
    if (r < 0 && (strchr(name, '.') || strchr(name, '/') || strcmp(name, "-") == 0)) {
        format_quoted(name, quoted);
        return gb_fail_plain(err, EINVAL, "%s is not a command; write glovebox run %s", quoted,
                             quoted);
    }
    return r;
}

static const struct {
    enum command_id command;
    enum action_id action;
    const char *word;
    int args;
} actions[] = {
    { COMMAND_KEY, ACTION_KEY_CREATE, "create", 0 },
    { COMMAND_KEY, ACTION_KEY_LIST, "list", 0 },
    { COMMAND_KEY, ACTION_KEY_REVOKE, "revoke", 1 },
    { COMMAND_USER, ACTION_USER_ADD, "add", 1 },
    { COMMAND_USER, ACTION_USER_LIST, "list", 0 },
    { COMMAND_USER, ACTION_USER_RESET, "reset", 1 },
    { COMMAND_USER, ACTION_USER_REMOVE, "remove", 1 },
    { COMMAND_USER, ACTION_USER_INVITE, "invite", 0 },
    { COMMAND_USER, ACTION_USER_BUDGET, "budget", 1 },
    { COMMAND_SOURCE, ACTION_SOURCE_ADD, "add", 0 },
    { COMMAND_SOURCE, ACTION_SOURCE_LIST, "list", 0 },
    { COMMAND_SOURCE, ACTION_SOURCE_TABLES, "tables", 1 },
    { COMMAND_SOURCE, ACTION_SOURCE_SYNC, "sync", 0 },
    { COMMAND_SOURCE, ACTION_SOURCE_CHECK, "check", 1 },
    { COMMAND_SOURCE, ACTION_SOURCE_REMOVE, "remove", 1 },
    { COMMAND_PIP, ACTION_PIP_INSTALL, "install", 0 },
    { COMMAND_PIP, ACTION_PIP_UNINSTALL, "uninstall", 0 },
    { COMMAND_PIP, ACTION_PIP_LIST, "list", 0 },
    { COMMAND_PIP, ACTION_PIP_FREEZE, "freeze", 0 },
    { COMMAND_PIP, ACTION_PIP_RESET, "reset", 0 },
    { COMMAND_AUDIT, ACTION_AUDIT_VERIFY, "verify", 0 },
    { COMMAND_AUDIT, ACTION_AUDIT_SHOW, "show", 0 },
    { COMMAND_STORE, ACTION_STORE_COPY, "copy", 0 },
    { COMMAND_TEMPLATE, ACTION_TEMPLATE_ADD, "add", 1 },
    { COMMAND_TEMPLATE, ACTION_TEMPLATE_LIST, "list", 0 },
    { COMMAND_TEMPLATE, ACTION_TEMPLATE_REMOVE, "remove", 1 },
    { COMMAND_TEMPLATE, ACTION_TEMPLATE_CHECK, "check", 1 },
    { COMMAND_TEMPLATE, ACTION_TEMPLATE_UPDATE, "update", 1 },
    { COMMAND_MARK, ACTION_MARK_SAMPLE, "sample", 0 },
    { COMMAND_MARK, ACTION_MARK_EXPORT, "export", 0 },
    { COMMAND_MARK, ACTION_MARK_EXPORT_FEEDBACK, "export-feedback", 0 },
    { COMMAND_MARK, ACTION_MARK_VERIFY, "verify", 0 },
    { COMMAND_MARK, ACTION_MARK_EVAL, "eval", 0 },
};

/* The first argument of key, pip, audit, template and user is the subcommand; it is removed from
 * the rest. */
static int take_action(const struct config_command *command, struct config *cfg, struct gb_err *err)
{
    char quoted[FORMAT_QUOTED_MAX];

    if (!command->words)
        return 0;
    if (cfg->args_len == 0)
        return gb_fail_plain(err, EINVAL, "no subcommand; write glovebox %s %s", command->name,
                             command->synopsis);
    for (size_t i = 0; i < ARRAY_LEN(actions); i++)
        if (actions[i].command == cfg->command && strcmp(actions[i].word, cfg->args[0]) == 0) {
            cfg->action = actions[i].action;
            cfg->args++;
            cfg->args_len--;
            if (cfg->args_len < actions[i].args)
                return gb_fail_plain(err, EINVAL, "no %s; 'glovebox %s list' shows them",
                                     cfg->command == COMMAND_KEY    ? "ID"
                                     : cfg->command == COMMAND_USER ? "ADDRESS"
                                                                    : "NAME",
                                     command->name);
            return 0;
        }
    format_quoted(cfg->args[0], quoted);
    return gb_fail_plain(err, EINVAL, "glovebox %s has no subcommand %s; it takes one of: %s",
                         command->name, quoted, command->words);
}

static int check_template(const struct config *cfg, struct gb_err *err)
{
    int python = (cfg->template_python != NULL) + (cfg->template_venv != NULL);
    int set = (cfg->template_packages != NULL) + (cfg->template_preset != NULL) +
              (cfg->template_lock != NULL);

    if (cfg->action == ACTION_TEMPLATE_UPDATE)
        return python || cfg->template_preset || cfg->template_replace || cfg->template_no_check
                   ? gb_fail_plain(err, EINVAL,
                                   "template update takes --lock and --packages, and no other "
                                   "option of template add")
                   : 0;
    if (cfg->action != ACTION_TEMPLATE_ADD)
        return python || set || cfg->template_replace || cfg->template_no_check
                   ? gb_fail_plain(err, EINVAL,
                                   "--python, --venv, --packages, --preset, --lock, --replace and "
                                   "--no-check are for template add")
                   : 0;
    if (set && python)
        return gb_fail_plain(err, EINVAL,
                             "packages are installed for the system's Python: leave out --python "
                             "and --venv, or install them into the venv with its own pip");
    if (python > 1 || set > 1)
        return gb_fail_plain(
            err, EINVAL,
            "give one of --python PATH, --venv DIR, --packages LIST, --preset NAME "
            "and --lock FILE");
    return 0;
}

static int check_source(const struct config *cfg, struct gb_err *err)
{
    bool add = cfg->source_credentials || cfg->source_ca || cfg->source_role ||
               cfg->source_description || cfg->source_cost || cfg->source_schemas ||
               cfg->source_allow || cfg->source_logins || cfg->source_rows ||
               cfg->source_no_samples || cfg->template_no_check;

    if (cfg->action == ACTION_SOURCE_ADD && cfg->args_len < 2)
        return gb_fail_plain(err, EINVAL,
                             "source add needs a NAME and where it is: postgresql://..., "
                             "bigquery://PROJECT, or a directory");
    if (add && cfg->action != ACTION_SOURCE_ADD)
        return gb_fail_plain(err, EINVAL,
                             "the options of a source are for source add; to change one, remove "
                             "and add it, or use the API");
    return 0;
}

/* Options of another subcommand would otherwise be silently ignored. */
static int check_action(const struct config *cfg, struct gb_err *err)
{
    bool create = cfg->key_sessions || cfg->key_executions || cfg->key_rate;
    bool show = cfg->audit_since || cfg->audit_last || cfg->audit_session;

    if ((create || (cfg->key_name && cfg->command == COMMAND_KEY)) &&
        cfg->action != ACTION_KEY_CREATE)
        return gb_fail_plain(err, EINVAL,
                             "--name, --sessions, --executions and --rate are for key create");
    if (cfg->key_name && cfg->command == COMMAND_USER && cfg->action != ACTION_USER_ADD)
        return gb_fail_plain(err, EINVAL, "--name is for user add");
    if (cfg->password_file && cfg->action != ACTION_USER_ADD && cfg->action != ACTION_USER_RESET &&
        cfg->action != ACTION_SOURCE_ADD)
        return gb_fail_plain(err, EINVAL,
                             "--password-file is for user add, user reset and source add");
    if (cfg->command == COMMAND_SOURCE)
        return check_source(cfg, err);
    if ((cfg->mark_format || cfg->mark_table > 0) && cfg->action != ACTION_MARK_EXPORT)
        return gb_fail_plain(err, EINVAL, "--format and --table are for mark export");
    if (cfg->mark_ask && cfg->action != ACTION_MARK_VERIFY)
        return gb_fail_plain(err, EINVAL, "--ask is for mark verify");
    if (cfg->eval_prompts && cfg->action != ACTION_MARK_EVAL)
        return gb_fail_plain(err, EINVAL, "--prompts is for mark eval");
    if (cfg->record && cfg->command == COMMAND_MARK && cfg->action != ACTION_MARK_EVAL)
        return gb_fail_plain(err, EINVAL, "--record is for ask and mark eval");
    if (cfg->command == COMMAND_MARK) /* of those, it has only --since */
        return show && cfg->action != ACTION_MARK_EXPORT_FEEDBACK
                   ? gb_fail_plain(err, EINVAL, "--since is for mark export-feedback")
                   : 0;
    if (cfg->action == ACTION_STORE_COPY && (!cfg->store_from || !cfg->store_to))
        return gb_fail_plain(err, EINVAL,
                             "store copy needs --from and --to: a data directory, or "
                             "postgresql://...");
    if (show && cfg->action != ACTION_AUDIT_SHOW)
        return gb_fail_plain(err, EINVAL, "--since, --last and --session are for audit show");
    if (cfg->audit_head && cfg->action != ACTION_AUDIT_VERIFY)
        return gb_fail_plain(err, EINVAL, "--head is for audit verify");
    return check_template(cfg, err);
}

static int check_args(const struct config *cfg, struct gb_err *err)
{
    char quoted[FORMAT_QUOTED_MAX];
    bool one = cfg->command == COMMAND_HELP || cfg->action == ACTION_KEY_REVOKE ||
               cfg->action == ACTION_USER_ADD || cfg->action == ACTION_USER_RESET ||
               cfg->action == ACTION_USER_REMOVE || cfg->action == ACTION_TEMPLATE_ADD ||
               cfg->action == ACTION_TEMPLATE_REMOVE || cfg->action == ACTION_TEMPLATE_CHECK ||
               cfg->action == ACTION_TEMPLATE_UPDATE || cfg->action == ACTION_MARK_SAMPLE ||
               cfg->action == ACTION_MARK_EVAL || cfg->action == ACTION_MARK_EXPORT ||
               (cfg->command == COMMAND_SOURCE && cfg->action != ACTION_SOURCE_LIST);
    int most = cfg->action == ACTION_USER_BUDGET  ? 5
               : cfg->action == ACTION_SOURCE_ADD ? 2
               : one                              ? 1
                                                  : 0;

    if (cfg->action == ACTION_MARK_EXPORT && cfg->args_len == 0)
        return gb_fail_plain(err, EINVAL, "no ID; name a chat, or an answer, by its id");
    if (cfg->action == ACTION_PIP_UNINSTALL)
        return cfg->args_len > 0 ? 0
                                 : gb_fail_plain(err, EINVAL,
                                                 "no name; which packages are to be "
                                                 "removed?");
    if (cfg->action == ACTION_PIP_INSTALL)
        return cfg->args_len > 0
                   ? 0
                   : gb_fail_plain(
                         err, EINVAL,
                         "no requirement; name a package to install, such as humanize>=4");
    if (cfg->command == COMMAND_RUN) {
        if (!cfg->code && cfg->args_len == 0)
            return gb_fail_plain(err, EINVAL,
                                 "no program; give a FILE, - for standard input, or -c CODE");
        return 0;
    }
    if (cfg->command == COMMAND_SHELL) {
        if (cfg->shell_attach && (cfg->shell_new || cfg->args_len > 1))
            return gb_fail_plain(err, EINVAL,
                                 "--attach goes to a terminal that exists; leave out --new and "
                                 "the command");
        if (cfg->args_len == 0 && !cfg->shell_new)
            return gb_fail_plain(err, EINVAL,
                                 "no SESSION; name one by its id, or give --new for a new one");
        return 0;
    }
    if (cfg->command == COMMAND_ASK) {
        if (cfg->args_len == 1)
            return 0;
        return gb_fail_plain(err, EINVAL,
                             cfg->args_len == 0
                                 ? "no question; give one, or - for standard input"
                                 : "the question is one argument; put it between quotes");
    }
    if (cfg->action == ACTION_MARK_EVAL && cfg->args_len == 0)
        return gb_fail_plain(err, EINVAL, "no file; which questions are to be asked?");
    if (cfg->args_len > most) {
        format_quoted(cfg->args[most], quoted);
        return gb_fail_plain(err, EINVAL, "too many arguments; leave out %s", quoted);
    }
    return 0;
}

static int load_file(struct config_load *load, const char *dir, const char *name,
                     struct gb_err *err)
{
    autofree char *path = NULL;
    int r;

    if (asprintf(&path, "%s/%s", dir, name) < 0) {
        path = NULL;
        return gb_fail(err, ENOMEM, "read the configuration");
    }
    r = config_load_file(load, path, err);
    return r == -ENOENT ? 0 : r;
}

/* The user's file, then the machine's. Relative paths are ignored, as XDG requires. */
static int load_files(struct config_load *load, struct gb_err *err)
{
    const char *xdg = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    int r = 0;

    if (xdg && xdg[0] == '/')
        r = load_file(load, xdg, "glovebox/glovebox.conf", err);
    else if (home && home[0] == '/')
        r = load_file(load, home, ".config/glovebox/glovebox.conf", err);
    return r < 0 ? r : load_file(load, "/etc", "glovebox/glovebox.conf", err);
}

static void hide(char *from, const char *to, bool *hidden)
{
    for (; from < to; from++) {
        *from = '*';
        *hidden = true;
    }
}

bool options_hide_password(char *text)
{
    bool hidden = false;
    char *user = strstr(text, "postgresql://"), *at, *colon;

    user = user ? user : strstr(text, "postgres://");
    if (!user)
        return false;
    user = strstr(user, "://") + 3;
    for (char *secret = user; (secret = strstr(secret, "password=")) != NULL;) {
        secret += strlen("password=");
        hide(secret, secret + strcspn(secret, "&"), &hidden);
    }
    /* Of a source the last "@" ends the password, which has no "?"; to libpq it is the first. */
    at = memrchr(user, '@', strcspn(user, "/?"));
    at = at ? at : memchr(user, '@', strcspn(user, "/"));
    colon = memchr(user, ':', at ? (size_t) (at - user) : 0);
    if (colon)
        hide(colon + 1, at, &hidden);
    return hidden;
}

/* Everybody on this machine can read the command line of a process. Options have been copied by
 * then. */
static void hide_passwords(char **argv, int len)
{
    for (int i = 0; i < len; i++)
        (void) options_hide_password(argv[i]);
}

static int load_command(const struct config_command *command, int argc, char **argv,
                        struct config *cfg, struct gb_err *err)
{
    struct config_load load = { .schema = &options_schema, .command = command, .target = cfg };
    int next, r;

    r = config_load_args(&load, argc, argv, &next, err);
    if (r < 0 || cfg->help || cfg->version)
        return r;
    hide_passwords(argv, next);
    for (char **model = cfg->models; model && *model; model++)
        cfg->models_given++; /* others are added from the environment and files */
    cfg->args = argv + next;
    cfg->args_len = argc - next;
    r = take_action(command, cfg, err);
    if (r == 0)
        r = check_args(cfg, err);
    if (r == 0)
        r = check_action(cfg, err);
    if (r < 0)
        return r;
    r = config_load_env(&load, err);
    if (r < 0)
        return r;
    if (cfg->config_file) {
        /* Given explicitly, so it must exist. */
        r = config_load_file(&load, cfg->config_file, err);
        if (r < 0)
            return r;
    }
    r = load_files(&load, err);
    if (r < 0)
        return r;
    return config_load_defaults(&load, err);
}

int options_load(int argc, char **argv, struct config *cfg, struct gb_err *err)
{
    struct config_load load = { .schema = &options_schema,
                                .command = &options_global,
                                .target = cfg };
    const struct config_command *command;
    int next = 0, r;

    /* exec() may start us with no name at all */
    if (argc > 0) {
        argc--;
        argv++;
    }
    r = config_load_args(&load, argc, argv, &next, err);
    if (r < 0 || cfg->help || cfg->version)
        return r;
    if (next == argc)
        return gb_fail_plain(err, EINVAL, "no command; try glovebox run FILE, or glovebox --help");
    r = find_command(argv[next], &command, err);
    if (r < 0)
        return r;
    cfg->command = (enum command_id)(command - options_schema.commands + 1);
    next++;
    return load_command(command, argc - next, argv + next, cfg, err);
}

void options_release(struct config *cfg)
{
    config_release(&options_schema, cfg);
}
