/*
 * The options and commands of glovebox: the one table behind the command line, the environment,
 * the files, --help, the manual and the completions, and the struct that it fills.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/config.h"
#include "base/err.h"
#include "engine/limits.h"

struct mcp;

enum command_id {
    COMMAND_NONE,
    COMMAND_RUN,
    COMMAND_SERVE,
    COMMAND_MCP,
    COMMAND_SHELL,
    COMMAND_DOCTOR,
    COMMAND_KEY,
    COMMAND_USER,
    COMMAND_AUDIT,
    COMMAND_STORE,
    COMMAND_SOURCE,
    COMMAND_PIP,
    COMMAND_TEMPLATE,
    COMMAND_MARK,
    COMMAND_ASK,
    COMMAND_HELP,
    COMMAND_VERSION,
};

/* The subcommands of key, pip, audit and template: their first argument. */
enum action_id {
    ACTION_NONE,
    ACTION_KEY_CREATE,
    ACTION_KEY_LIST,
    ACTION_KEY_REVOKE, /* args[0] is the id */
    ACTION_USER_ADD,   /* args[0] is the address, here and below */
    ACTION_USER_LIST,
    ACTION_USER_RESET,
    ACTION_USER_REMOVE,
    ACTION_USER_INVITE, /* no argument */
    ACTION_USER_BUDGET, /* args[0] is the address, then amounts */
    ACTION_SOURCE_ADD,  /* args[0] is the name, here and below; args[1] where it is */
    ACTION_SOURCE_LIST,
    ACTION_SOURCE_TABLES,
    ACTION_SOURCE_SYNC, /* the name may be left out */
    ACTION_SOURCE_CHECK,
    ACTION_SOURCE_REMOVE,
    ACTION_PIP_INSTALL,   /* args are requirements */
    ACTION_PIP_UNINSTALL, /* args are names */
    ACTION_PIP_LIST,
    ACTION_PIP_FREEZE,
    ACTION_PIP_RESET,
    ACTION_AUDIT_VERIFY,
    ACTION_AUDIT_SHOW,
    ACTION_STORE_COPY,
    ACTION_TEMPLATE_ADD, /* args[0] is the name, here and below */
    ACTION_TEMPLATE_LIST,
    ACTION_TEMPLATE_REMOVE,
    ACTION_TEMPLATE_CHECK,
    ACTION_TEMPLATE_UPDATE,
    ACTION_MARK_SAMPLE,
    ACTION_MARK_EXPORT,
    ACTION_MARK_EXPORT_FEEDBACK,
    ACTION_MARK_VERIFY,
    ACTION_MARK_EVAL, /* args[0] is the file */
};

enum landlock_choice { LANDLOCK_OFF, LANDLOCK_ON };
enum mark_choice { MARK_OFF, MARK_ON };

struct config {
    enum command_id command; /* COMMAND_NONE: only --help or --version was given */
    enum action_id action;
    char **args; /* the positionals, in the caller's argv; without the action */
    int args_len;
    bool help;    /* of the command, or of glovebox; nothing below is filled then */
    bool version; /* likewise */

    /* run */
    char *code; /* -c CODE; NULL: args[0] is the FILE, or "-" */
    bool cell;
    bool json;
    bool quiet;
    struct limits limits; /* file_bytes 0: as disk_bytes; 0 where the command has no option */
    int64_t reply_bytes;  /* of each stream in the receipt; the rest is left out, and counted */
    char **files;         /* NULL: none */
    char *out_dir;        /* NULL: none */
    char **volumes;       /* SRC:DST, SRC:DST:ro or SRC:DST:rw; NULL: none */
    char **allow_hosts;   /* NULL: none */
    char **network_addresses, **network_secrets; /* NULL: none */
    int64_t network_bytes, network_connections;
    char *network_resolver, *network_ca; /* NULL: the host's */
    char *preload; /* "auto", "all", "none" or module names with commas between */
    int cgroups;   /* enum cgroup_mode */
    int landlock;  /* enum landlock_choice */

    /* serve */
    char **listens;    /* NULL: 127.0.0.1:8080 */
    char *config_file; /* NULL: only the usual ones */
    char *port_file;   /* NULL: none */
    bool set_up;
    char **allowed_hosts; /* NULL: none */
    char **network_allow; /* NULL: none */
    char **volume_roots;  /* DIR, DIR:ro or DIR:rw; NULL: none */
    char **source_roots;  /* for sources of files */
    bool no_auth, require_key;
    int64_t default_timeout_us, simple_max_timeout_us, session_disk_bytes;
    struct limits max; /* --max-memory and the like; 0 where there is no such option */
    int64_t pool, max_sessions, idle_us, sweep_us, grace_us;
    int64_t connections, connections_per_client;
    int log_format; /* enum log_format */
    int log_level;  /* enum log_level */
    char *log_file; /* NULL: stderr */
    bool log_code;

    /* Not an option: additional tools that the program registers with MCP (mcp/mcp.h). */
    void (*mcp_more)(struct mcp *mcp);

    /* serve, mcp, pip, template */
    char *index_url;      /* NULL: as pip is configured; "none": none */
    char **extra_indexes; /* NULL: likewise */
    char **wheels, **package_hosts;
    char *blocked_packages, *allowed_packages;
    bool package_builds, package_urls;
    bool pip_upgrade;
    char *uv;
    int64_t package_bytes, package_timeout_us, package_rate, package_refresh_us;
    int64_t packages_bytes, packages_age_us;
    char *pip_for; /* NULL: the default address */

    /* shell */
    bool shell_new;
    char *shell_attach; /* a terminal, or "last"; NULL: a new one */

    /* mcp, shell */
    char *mcp_url;    /* NULL: our own boxes; of shell the default address */
    char *mcp_key;    /* NULL: none */
    char *mcp_client; /* the client whose configuration to print; NULL: none */

    /* serve, mcp, ask, doctor: Mark */
    int mark;                    /* enum mark_choice */
    char **models, **model_keys; /* NULL: none */
    int signup;                  /* enum auth_signup */
    int mark_audit;              /* enum agent_audit */
    int64_t mark_steps, mark_us, mark_tokens;
    int64_t mark_jobs;  /* of mark verify and mark eval; 0: cmd_jobs() */
    bool mark_ask;      /* of mark verify */
    char *mark_format;  /* of mark export; NULL: by the name of the file */
    int64_t mark_table; /* of mark export; 0: none */
    int64_t mark_cost;  /* thousandths of a dollar; 0: no limit */
    int64_t budget_bytes, budget_tokens, budget_us; /* of the day; 0: no limit */
    int64_t budget_cost;                            /* thousandths of a dollar */
    bool mark_packages;
    bool mark_strict;
    char *mark_gate; /* NULL: none */
    int64_t attachment_bytes, attachments_bytes;
    char *ask_chart; /* NULL: none */
    bool ask_trace;
    int models_given;    /* how many of models are from the command line */
    char **eval_prompts; /* directories; NULL: none */
    char *record;        /* NULL: none */

    /* run, serve, mcp, ask, key, audit, template, pip, doctor */
    char *data_dir;               /* NULL: the default one */
    char *database;               /* NULL: a file in the data directory */
    char *database_password_file; /* NULL: none */

    /* store */
    char *store_from, *store_to;

    /* run, serve, mcp, pip, doctor, template */
    char *default_template;  /* "auto", "system" or another */
    char *template_name;     /* "default", another, or an alias */
    char **template_aliases; /* ALIAS=NAME; NULL: none */
    int64_t idle_templates, template_wait_us;
    char *template_python, *template_venv; /* NULL: not given */
    char **template_packages;              /* lists of requirements; NULL: not given */
    char *template_preset, *template_lock; /* NULL: not given */
    bool template_replace, template_no_check;

    /* user */
    char *password_file; /* NULL: ask, or make one; "-" is standard input */

    /* `glovebox source`; see source.def */
    char *source_credentials, *source_ca, *source_role, *source_description, *source_cost;
    char **source_schemas, **source_allow, **source_logins;
    int64_t source_rows;
    bool source_no_samples;
    char **sources; /* of ask: NULL: all */
    int64_t invite_us;

    /* key, audit */
    char *key_name;                                 /* also of a user; NULL: none */
    int64_t key_sessions, key_executions, key_rate; /* 0: the server's default */
    char *audit_since;   /* NULL: from the first; parse_utc() or parse_seconds() reads it */
    char *audit_session; /* NULL: all */
    char *audit_head;    /* NULL: none; 64 hex digits */
    int64_t audit_last;  /* 0: all */
};

extern const struct config_schema options_schema;

/* `glovebox` itself, for options given before a command. Its mask marks global rows. */
extern const struct config_command options_global;

/* Reads command line, environment, files and defaults into @cfg, which the caller has zeroed and
 * releases after success and failure alike. @argv is main's own, program name included. Every error
 * is the user's mistake (exit 2), except ENOMEM. */
int options_load(int argc, char **argv, struct config *cfg, struct gb_err *err);

void options_release(struct config *cfg);

/* Replaces the passwords in a text that has the URL of a database, in place. Whether there were
 * some. */
bool options_hide_password(char *text);
