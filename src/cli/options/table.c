/* The rows: options and commands. They are used by options.c, help.c and
 * tools/gen_docs/gen_docs.c. */
#include "base/text/hex.h"
#include "cli/options/options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/text/parse.h"
#include "base/words/units.h"
#include "engine/host.h"
#include "engine/volumes.h"

#include "base/banned.h"

#define SEC USEC_PER_SEC

#define PATH_BYTES_MAX 4095
#define MODEL_NAME_MAX 64

enum {
    FOR_GLOBAL = 1 << 0,
    FOR_RUN = 1 << 1,
    FOR_HELP = 1 << 2,
    FOR_VERSION = 1 << 3,
    FOR_DOCTOR = 1 << 4,
    FOR_KEY = 1 << 5,
    FOR_AUDIT = 1 << 6,
    FOR_SERVE = 1 << 7,
    FOR_MCP = 1 << 8,
    FOR_TEMPLATE = 1 << 9,
    FOR_PIP = 1 << 10,
    FOR_USER = 1 << 11,
    FOR_MARK = 1 << 12,
    FOR_ASK = 1 << 13,
    FOR_STORE = 1 << 14,
    FOR_SOURCE = 1 << 15,
    FOR_SHELL = 1 << 16,
    FOR_ASKING = FOR_ASK | FOR_MARK, /* Mark in our own process */
};
#define FOR_ALL                                                                                    \
    (FOR_GLOBAL | FOR_RUN | FOR_HELP | FOR_VERSION | FOR_DOCTOR | FOR_KEY | FOR_AUDIT |            \
     FOR_SERVE | FOR_MCP | FOR_TEMPLATE | FOR_PIP | FOR_USER | FOR_MARK | FOR_ASK | FOR_STORE |    \
     FOR_SOURCE | FOR_SHELL)

static const char *const cgroup_choices[] = { "auto", "v2", "v1", "none", NULL };
static const char *const landlock_choices[] = { "off", "on", NULL };
static const char *const client_choices[] = { "claude-desktop", "claude-code", "cursor", "vscode",
                                              "mcpo",           "open-webui",  NULL };
static const char *const preload_choices[] = { "auto", "all", "none", NULL };
static const char *const mark_choices[] = { "off", "on", NULL };
static const char *const mark_audit_choices[] = { "hash", "whole", NULL };
static const char *const signup_choices[] = { "auto", "open", "invite", "closed", NULL };

_Static_assert(CGROUP_AUTO == 0 && CGROUP_V2 == 1 && CGROUP_V1 == 2 && CGROUP_OFF == 3,
               "cgroup_choices follow enum cgroup_mode");

/* Module names with commas between: letters, digits, underscores, and single dots inside. */
static bool preload_valid(const char *text)
{
    bool start = true;

    for (const char *p = text; *p; p++) {
        bool letter = (*p | 32) >= 'a' && (*p | 32) <= 'z';
        bool digit = *p >= '0' && *p <= '9';

        if (start ? !letter && *p != '_' : !letter && !digit && !strchr("_.,", *p))
            return false;
        start = *p == '.' || *p == ',';
    }
    return !start;
}

static bool since_valid(const char *text)
{
    int64_t us;

    return parse_utc(text, &us) == 0 || parse_seconds(text, &us) == 0;
}

/* A host or a path must follow. It goes into headers and configurations: no blanks, quotes or
 * control characters. */
static bool url_valid(const char *text)
{
    static const char *const starts[] = { "http://", "https://", "unix:" };

    for (const char *p = text; *p; p++)
        if (*p <= ' ' || *p == 127 || strchr("\"'\\<>`", *p))
            return false;
    for (size_t i = 0; i < ARRAY_LEN(starts); i++) {
        size_t len = strlen(starts[i]);

        if (strncmp(text, starts[i], len) == 0)
            return text[len] && (i == 2 || (text[len] != '/' && text[len] != ':'));
    }
    return false;
}

static bool client_valid(const char *text)
{
    for (const char *const *client = client_choices; *client; client++)
        if (strcmp(*client, text) == 0)
            return true;
    return false;
}

static bool hash_valid(const char *text)
{
    return hex_is(text, 64);
}

static bool id_valid(const char *text)
{
    for (; *text; text++)
        if (!((*text | 32) >= 'a' && (*text | 32) <= 'z') && !(*text >= '0' && *text <= '9') &&
            !strchr("._-", *text))
            return false;
    return true;
}

/* The directories themselves are checked later, when they are opened. */
static bool volume_root_valid(const char *text)
{
    return text[0] == '/';
}

static bool volume_valid(const char *text)
{
    const char *place = strstr(text, ":/");

    return place && place > text;
}

static bool is_model_letter(char c)
{
    return ((c | 32) >= 'a' && (c | 32) <= 'z') || (c >= '0' && c <= '9') ||
           (c && strchr("._:/-", c));
}

/* The length of a model's name at the start of @text; 0: there is none. */
static size_t model_name_len(const char *text)
{
    size_t len = 0;

    while (is_model_letter(text[len]))
        len++;
    return len <= MODEL_NAME_MAX ? len : 0;
}

/* Its form only: the rest is checked where models are opened. */
static bool model_valid(const char *text)
{
    static const char *const kinds[] = { "openai:", "anthropic:", "script:", "cassette:" };
    size_t len = model_name_len(text);

    if (len == 0 || (text[len] && text[len] != '='))
        return false;
    if (!text[len] || strcmp(text + len, "=demo") == 0)
        return true;
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        if (strncmp(text + len + 1, kinds[i], strlen(kinds[i])) == 0)
            return text[len + 1 + strlen(kinds[i])] != '\0';
    return false;
}

static bool model_key_valid(const char *text)
{
    size_t len = model_name_len(text);

    return len > 0 && text[len] == '=' && text[len + 1];
}

#define MEMBER(m) .offset = offsetof(struct config, m)

/* base/words/limits.def as options */
#define OPT_OF_SECONDS     OPT_SECONDS
#define OPT_OF_SIZE        OPT_SIZE
#define OPT_OF_CPUS        OPT_CPUS
#define OPT_OF_COUNT       OPT_INT
#define METAVAR_OF_SECONDS "S"
#define METAVAR_OF_SIZE    "SIZE"
#define METAVAR_OF_CPUS    "N"
#define METAVAR_OF_COUNT   "N"
#define FOR_LIMIT_RUN      FOR_RUN
#define FOR_LIMIT_EVERY    (FOR_RUN | FOR_SERVE | FOR_MCP | FOR_ASKING)

static const struct config_option options[] = {
    { "code", 'c', OPT_STRING, MEMBER(code), .max = 8 * MIB, .metavar = "CODE",
      .expected = "at most 8 MiB of code; put longer programs into a FILE", .commands = FOR_RUN,
      .flags = CONFIG_ARGS_ONLY | CONFIG_LETTER_ONLY | CONFIG_ENDS_OPTIONS, .group = "Program",
      .help = "run CODE; everything after it belongs to the program" },
    { "cell", 0, OPT_BOOL, MEMBER(cell), "no", .commands = FOR_RUN, .group = "Program",
      .help = "run as a notebook cell: the receipt carries the value of the last expression, "
              "displays and figures; without --json they are printed as text" },
    { "preload", 0, OPT_STRING, MEMBER(preload), "auto", 1, 1024, .metavar = "WHICH",
      .choices = preload_choices, .valid = preload_valid,
      .expected = "auto, all, none or module names such as numpy,pandas",
      .commands = FOR_RUN | FOR_SERVE | FOR_MCP | FOR_TEMPLATE | FOR_PIP | FOR_ASKING,
      .group = "Program",
      .help = "modules imported before the program starts: auto (those of the template that its "
              "text names; in a new template, those installed there), all, none, or a list such as "
              "numpy,pandas" },
    { "template", 0, OPT_STRING, MEMBER(template_name), "default", 1, 255, .metavar = "NAME",
      .commands = FOR_RUN, .group = "Program",
      .help = "run the program with the Python of this template (see glovebox template add)" },
    { "default-template", 0, OPT_STRING, MEMBER(default_template), "auto", 1, 64, .metavar = "NAME",
      .commands = FOR_RUN | FOR_SERVE | FOR_MCP | FOR_PIP | FOR_DOCTOR | FOR_TEMPLATE | FOR_ASKING,
      .group = "Program",
      .help =
          "the template of boxes for which none is named: system (the system's Python), the name "
          "of another, or auto, which is data if that has been added, otherwise system" },
    { "template-alias", 0, OPT_LIST, MEMBER(template_aliases), .max = 64, .metavar = "ALIAS=NAME",
      .commands = FOR_RUN | FOR_SERVE, .group = "Program",
      .help = "another name for a template; * matches anything, as in python:3.12*=py312; may be "
              "repeated (default: python:* is the default template)" },
    { "file", 0, OPT_LIST, MEMBER(files), .max = 256, .metavar = "PATH",
      .commands = FOR_RUN | FOR_ASK, .group = "Files",
      .help = "copy PATH into /workspace, where the program starts, or attach it to a question; "
              "may be repeated" },
    { "out", 0, OPT_STRING, MEMBER(out_dir), NULL, 1, PATH_BYTES_MAX, .metavar = "DIR",
      .commands = FOR_RUN | FOR_ASKING, .group = "Files",
      .help =
          "copy files the program created or changed in /workspace to DIR; of an answer also "
          "its tables and charts; for mark eval, the report; for mark export, the file to write" },
    { "volume", 0, OPT_LIST, MEMBER(volumes), .max = VOLUMES_MAX, .metavar = "DIR:PLACE[:rw]",
      .valid = volume_valid, .expected = "DIR:PLACE or DIR:PLACE:rw, such as data:/data",
      .commands = FOR_RUN, .group = "Files",
      .help = "mount the host directory DIR at PLACE in the box, such as /data, without copying; "
              "read-only unless :rw is given; may be repeated" },
    { "json", 0, OPT_BOOL, MEMBER(json), "no",
      .commands = FOR_RUN | FOR_DOCTOR | FOR_KEY | FOR_AUDIT | FOR_TEMPLATE | FOR_PIP | FOR_USER |
                  FOR_ASKING | FOR_STORE | FOR_SOURCE,
      .group = "Output",
      .help = "print one JSON object instead: the receipt of a run, the answer to a question, the "
              "doctor's report, keys, accounts, budgets, templates, packages, sources, what was "
              "copied, "
              "evaluated or verified, or the audit log" },
    { "quiet", 'q', OPT_BOOL, MEMBER(quiet), "no", .commands = FOR_RUN | FOR_ASKING,
      .group = "Output", .help = "print only errors on stderr" },
    { "reply", 0, OPT_SIZE, MEMBER(reply_bytes), "1m", 1, GIB, .metavar = "SIZE",
      .aliases = { { "MAX_OUTPUT_SIZE", 0 } }, .commands = FOR_RUN | FOR_SERVE | FOR_MCP,
      .group = "Output",
      .help = "in a receipt, show at most SIZE of each stream, its beginning and its end; unless "
              "set, MCP tools show 10000 bytes" },
#define LIMIT(member, unit, words, json, standard, session, ceiling, min_, max_, zero, option,     \
              option_standard, option_min, where, variable_, variable_unit, example, help_, more)  \
    { option,                                                                                      \
      0,                                                                                           \
      OPT_OF_##unit,                                                                               \
      MEMBER(limits.member),                                                                       \
      option_standard,                                                                             \
      option_min,                                                                                  \
      max_,                                                                                        \
      .metavar = METAVAR_OF_##unit,                                                                \
      .aliases = { { variable_, variable_unit } },                                                 \
      .commands = FOR_LIMIT_##where,                                                               \
      .group = "Limits",                                                                           \
      .help = help_ more },
#include "base/words/limits.def"
    { "allow-host", 0, OPT_LIST, MEMBER(allow_hosts), .max = 256, .metavar = "H",
      .commands = FOR_RUN, .group = "Network",
      .help = "a host the program may reach, through a proxy: example.com, *.example.com, "
              "example.com:8443, 192.0.2.7, * for all public hosts, 'GET,HEAD example.com'; may be "
              "repeated (default: no network)" },
    { "network-allow", 0, OPT_LIST, MEMBER(network_allow), .max = 256, .metavar = "H",
      .commands = FOR_SERVE, .group = "Network",
      .help = "a host sessions may ask for, written as for --allow-host; may be repeated (default: "
              "sessions have no network)" },
    { "network-address", 0, OPT_LIST, MEMBER(network_addresses), .max = 64, .metavar = "ADDR",
      .commands = FOR_RUN | FOR_SERVE, .group = "Network",
      .help = "a non-public address, or a block such as 10.1.0.0/16, that allowed names may "
              "resolve to; may be repeated" },
    { "network-secret", 0, OPT_LIST, MEMBER(network_secrets), .max = 32, .metavar = "SPEC",
      .commands = FOR_RUN | FOR_SERVE, .group = "Network",
      .help = "HOST[:PORT]/HEADER=FILE: requests for http://HOST/ leave as HTTPS with that header, "
              "whose value is the line in FILE and never enters a box; may be repeated" },
    { "network-bytes", 0, OPT_SIZE, MEMBER(network_bytes), "1g", 1, PIB, .metavar = "SIZE",
      .commands = FOR_RUN | FOR_SERVE, .group = "Network",
      .help = "total bytes a box may send and receive through its proxy" },
    { "network-connections", 0, OPT_INT, MEMBER(network_connections), "32", 1, 1024, .metavar = "N",
      .commands = FOR_RUN | FOR_SERVE, .group = "Network",
      .help = "concurrent connections from a box to its proxy; further ones wait" },
    { "network-resolver", 0, OPT_STRING, MEMBER(network_resolver), NULL, 1, 64,
      .metavar = "ADDR[:PORT]", .commands = FOR_RUN | FOR_SERVE, .group = "Network",
      .help = "DNS server to use instead of the host's" },
    { "network-ca", 0, OPT_STRING, MEMBER(network_ca), NULL, 1, PATH_BYTES_MAX, .metavar = "FILE",
      .commands = FOR_RUN | FOR_SERVE, .group = "Network",
      .help = "certificates (PEM) to trust where a secret is sent, instead of the host's" },
    { "cgroups", 0, OPT_CHOICE, MEMBER(cgroups), "auto", .choices = cgroup_choices,
      .commands = FOR_RUN | FOR_SERVE | FOR_MCP | FOR_DOCTOR | FOR_TEMPLATE | FOR_ASKING,
      .group = "Isolation",
      .help = "how limits are enforced; auto picks the best method this host has" },
    { "landlock", 0, OPT_CHOICE, MEMBER(landlock), "on", .choices = landlock_choices,
      .commands = FOR_RUN | FOR_SERVE | FOR_MCP | FOR_DOCTOR | FOR_TEMPLATE | FOR_ASKING,
      .group = "Isolation",
      .help = "second layer of protection for files and signals; off is for tests" },
    { "listen", 0, OPT_LIST, MEMBER(listens), .max = 16, .metavar = "ADDR:PORT",
      .commands = FOR_SERVE, .group = "Service",
      .help = "address to listen on: 127.0.0.1:8080 (the default), [::1]:8080 or unix:PATH, "
              "optionally followed by ,dialect=locals or ,dialect=code-session; may be repeated; "
              "port 0 picks a free port" },
    { "set-up", 0, OPT_BOOL, MEMBER(set_up), "no", .commands = FOR_SERVE, .group = "Service",
      .help =
          "first add the template data, the packages that come with Glovebox, if that has not been "
          "done; if it fails, serve without it" },
    { "port-file", 0, OPT_STRING, MEMBER(port_file), NULL, 1, PATH_BYTES_MAX, .metavar = "PATH",
      .commands = FOR_SERVE, .group = "Service",
      .help = "write the port numbers to PATH once the ports are open, one per line" },
    { "config", 0, OPT_STRING, MEMBER(config_file), NULL, 1, PATH_BYTES_MAX, .metavar = "PATH",
      .commands = FOR_SERVE, .flags = CONFIG_ARGS_ONLY, .group = "Service",
      .help = "read PATH before the usual configuration files" },
    { "pool", 0, OPT_INT, MEMBER(pool), "8", 0, 1024, .metavar = "N", .commands = FOR_SERVE,
      .group = "Service", .help = "number of boxes kept ready" },
    { "idle-templates", 0, OPT_INT, MEMBER(idle_templates), "2", 0, 64, .metavar = "N",
      .commands = FOR_SERVE, .group = "Service",
      .help = "number of templates, besides the default one, that stay warm while no session uses "
              "them" },
    { "template-wait", 0, OPT_SECONDS, MEMBER(template_wait_us), "60", SEC, 3600 * SEC,
      .metavar = "S", .commands = FOR_SERVE | FOR_RUN | FOR_TEMPLATE, .group = "Service",
      .help = "how long a template may take to start and import its modules" },
    { "max-sessions", 0, OPT_INT, MEMBER(max_sessions), "100", 0, 100000, .metavar = "N",
      .commands = FOR_SERVE, .group = "Service", .help = "maximum number of concurrent sessions" },
    { "idle", 0, OPT_SECONDS, MEMBER(idle_us), "3600", SEC, 365 * 86400 * SEC, .metavar = "S",
      .commands = FOR_SERVE | FOR_MCP, .group = "Service",
      .help = "end a session that has not been used for this long" },
    { "sweep", 0, OPT_SECONDS, MEMBER(sweep_us), "300", SEC / 10, 86400 * SEC, .metavar = "S",
      .commands = FOR_SERVE, .group = "Service", .help = "how often to look for idle sessions" },
    { "grace", 0, OPT_SECONDS, MEMBER(grace_us), "30", 0, 86400 * SEC, .metavar = "S",
      .commands = FOR_SERVE, .group = "Service",
      .help = "how long running programs may continue after a stop signal" },
    { "default-timeout", 0, OPT_SECONDS, MEMBER(default_timeout_us), "30", SEC / 1000,
      7 * 86400 * SEC, .metavar = "S", .commands = FOR_SERVE, .group = "Service",
      .help = "wall time of an execution that sets none" },
    { "simple-max-timeout", 0, OPT_SECONDS, MEMBER(simple_max_timeout_us), "120", SEC / 1000,
      7 * 86400 * SEC, .metavar = "S", .aliases = { { "MAX_EXECUTION_TIME", 0 } },
      .commands = FOR_SERVE | FOR_MCP, .group = "Service",
      .help = "longest wall time in the simple API and for MCP tools" },
#define LIMIT_CAPPED(max_option, max_standard, max_help, member, unit, words, json, standard,      \
                     session, ceiling, min_, max_, ...)                                            \
    { max_option,                                                                                  \
      0,                                                                                           \
      OPT_OF_##unit,                                                                               \
      MEMBER(max.member),                                                                          \
      max_standard,                                                                                \
      min_,                                                                                        \
      max_,                                                                                        \
      .metavar = METAVAR_OF_##unit,                                                                \
      .commands = FOR_SERVE,                                                                       \
      .group = "Service",                                                                          \
      .help = max_help },
#include "base/words/limits.def"
    { "session-disk", 0, OPT_SIZE, MEMBER(session_disk_bytes), "1g", 64 * KIB, PIB,
      .metavar = "SIZE", .commands = FOR_SERVE | FOR_MCP | FOR_ASKING, .group = "Service",
      .help = "workspace size of a session that sets none; --disk applies to single runs" },
    { "volume-root", 0, OPT_LIST, MEMBER(volume_roots), .max = VOLUME_ROOTS_MAX,
      .metavar = "DIR[:rw]", .valid = volume_root_valid,
      .expected = "an absolute path, optionally followed by :rw", .commands = FOR_SERVE,
      .group = "Access",
      .help = "let sessions mount DIR, or any directory in it, as a volume: read-only, or with :rw "
              "also writable; may be repeated (default: no volumes)" },
    { "allowed-host", 0, OPT_LIST, MEMBER(allowed_hosts), .max = 64, .metavar = "NAME",
      .commands = FOR_SERVE, .group = "Access",
      .help = "a name clients may use for this service in the Host header; may be repeated" },
    { "require-key", 0, OPT_BOOL, MEMBER(require_key), "no", .commands = FOR_SERVE,
      .group = "Access", .help = "require a key on loopback and Unix sockets too" },
    { "no-auth", 0, OPT_BOOL, MEMBER(no_auth), "no", .commands = FOR_SERVE, .group = "Access",
      .help = "require no key anywhere: anyone who can reach the address can run code" },
    { "connections", 0, OPT_INT, MEMBER(connections), "4096", 1, 1000000, .metavar = "N",
      .commands = FOR_SERVE, .group = "Access",
      .help = "maximum number of concurrent connections" },
    { "connections-per-client", 0, OPT_INT, MEMBER(connections_per_client), "256", 0, 1000000,
      .metavar = "N", .commands = FOR_SERVE, .group = "Access",
      .help = "maximum number of connections per client address, loopback excepted; 0 means "
              "unlimited" },
    { "log-level", 0, OPT_CHOICE, MEMBER(log_level), "info", .choices = log_level_names,
      .aliases = { { "LOG_LEVEL", 0 } }, .commands = FOR_SERVE, .group = "Log",
      .help = "least severe level to log" },
    { "log-format", 0, OPT_CHOICE, MEMBER(log_format), "text", .choices = log_format_names,
      .commands = FOR_SERVE, .group = "Log", .help = "text lines for people, or JSON lines" },
    { "log-file", 0, OPT_STRING, MEMBER(log_file), NULL, 1, PATH_BYTES_MAX, .metavar = "PATH",
      .aliases = { { "LOG_FILE", 0 } }, .commands = FOR_SERVE, .group = "Log",
      .help = "append the log to PATH instead of writing it to stderr" },
    { "log-code", 0, OPT_BOOL, MEMBER(log_code), "no", .commands = FOR_SERVE, .group = "Log",
      .help = "write every program to the log; programs may contain secrets" },
    { "url", 0, OPT_STRING, MEMBER(mcp_url), NULL, 1, 2000, .metavar = "URL", .valid = url_valid,
      .expected = "http://HOST:PORT, https://HOST or unix:PATH", .commands = FOR_MCP | FOR_SHELL,
      .group = "Connection",
      .help = "use the service at URL (http://, https:// or unix:PATH); without it, mcp makes "
              "boxes here and shell uses http://127.0.0.1:8080" },
    { "api-key", 0, OPT_STRING, MEMBER(mcp_key), NULL, 1, 512, .metavar = "KEY",
      .commands = FOR_MCP | FOR_SHELL, .group = "Connection",
      .help = "key for that service; prefer GLOVEBOX_API_KEY, since other users can see the "
              "command line" },
    { "print-config", 0, OPT_STRING, MEMBER(mcp_client), NULL, 1, 32, .metavar = "CLIENT",
      .choices = client_choices, .valid = client_valid,
      .expected = "claude-desktop, claude-code, cursor, vscode, mcpo or open-webui",
      .commands = FOR_MCP, .flags = CONFIG_ARGS_ONLY, .group = "MCP",
      .help = "print the configuration to add to CLIENT, and exit: claude-desktop, claude-code, "
              "cursor, vscode, mcpo or open-webui" },
    { "new", 0, OPT_BOOL, MEMBER(shell_new), "no", .commands = FOR_SHELL, .flags = CONFIG_ARGS_ONLY,
      .group = "Terminal", .help = "create a session for it, which ends with the shell" },
    { "attach", 0, OPT_STRING, MEMBER(shell_attach), NULL, 1, 60, .metavar = "TERMINAL",
      .commands = FOR_SHELL, .flags = CONFIG_ARGS_ONLY, .group = "Terminal",
      .help = "attach to a terminal that runs already, by its id or as last (the newest one)" },
#include "cli/options/mark.def"
#include "cli/options/source.def"
    { "name", 0, OPT_STRING, MEMBER(key_name), NULL, 1, 128, .metavar = "NAME",
      .commands = FOR_KEY | FOR_USER, .flags = CONFIG_ARGS_ONLY, .group = "Name",
      .help = "free text saying who or what the key is for, or what to call the person" },
    { "password-file", 0, OPT_STRING, MEMBER(password_file), NULL, 1, PATH_BYTES_MAX,
      .metavar = "FILE", .commands = FOR_USER | FOR_SOURCE, .flags = CONFIG_ARGS_ONLY,
      .group = "Account",
      .help = "the password is the first line of FILE, or of standard input if that is - (default: "
              "ask on a terminal; otherwise an account gets one that is made and printed, a source "
              "none)" },
    { "valid", 0, OPT_SECONDS, MEMBER(invite_us), "168h", SEC, 365 * 86400 * SEC, .metavar = "S",
      .commands = FOR_USER, .flags = CONFIG_ARGS_ONLY, .group = "Account",
      .help = "how long an invitation can be used" },
    { "sessions", 0, OPT_INT, MEMBER(key_sessions), NULL, 1, 1000000, .metavar = "N",
      .commands = FOR_KEY, .flags = CONFIG_ARGS_ONLY, .group = "Key",
      .help =
          "maximum number of concurrent sessions for the key, instead of the server's default" },
    { "executions", 0, OPT_INT, MEMBER(key_executions), NULL, 1, 1000000, .metavar = "N",
      .commands = FOR_KEY, .flags = CONFIG_ARGS_ONLY, .group = "Key",
      .help =
          "maximum number of executions in flight for the key, instead of the server's default" },
    { "rate", 0, OPT_INT, MEMBER(key_rate), NULL, 1, 1000000000, .metavar = "N",
      .commands = FOR_KEY, .flags = CONFIG_ARGS_ONLY, .group = "Key",
      .help =
          "executions and new sessions per minute for the key, instead of the server's default" },
    { "since", 0, OPT_STRING, MEMBER(audit_since), NULL, 1, 64, .metavar = "WHEN",
      .valid = since_valid,
      .expected = "a time in UTC such as 2026-11-15 or 2026-11-15T08:30:00Z, or a span such as 2h",
      .commands = FOR_AUDIT | FOR_MARK, .flags = CONFIG_ARGS_ONLY, .group = "Audit",
      .help = "show executions that began, or export ratings that were given, at or after this "
              "time in UTC, such as 2026-11-15 or 2026-11-15T08:30:00Z, or 2h for the last two "
              "hours" },
    { "last", 0, OPT_INT, MEMBER(audit_last), NULL, 1, 100000, .metavar = "N",
      .commands = FOR_AUDIT, .flags = CONFIG_ARGS_ONLY, .group = "Audit",
      .help = "show only the last N matching entries" },
    { "session", 0, OPT_STRING, MEMBER(audit_session), NULL, 1, 64, .metavar = "ID",
      .valid = id_valid, .expected = "the id of a session", .commands = FOR_AUDIT,
      .flags = CONFIG_ARGS_ONLY, .group = "Audit", .help = "show only executions in that session" },
    { "head", 0, OPT_STRING, MEMBER(audit_head), NULL, 1, 64, .metavar = "HASH",
      .valid = hash_valid, .expected = "a head as verify prints it, 64 hex digits",
      .commands = FOR_AUDIT, .flags = CONFIG_ARGS_ONLY, .group = "Audit",
      .help = "verify that this head, printed by an earlier verify, is still in the log" },
    { "for", 0, OPT_STRING, MEMBER(pip_for), NULL, 1, 128, .metavar = "WHO", .commands = FOR_PIP,
      .flags = CONFIG_ARGS_ONLY, .group = "Packages",
      .help = "whose default set to use: the id of a key, or an address of the service that needs "
              "no key (default: 127.0.0.1:8080)" },
    { "upgrade", 'U', OPT_BOOL, MEMBER(pip_upgrade), "no", .commands = FOR_PIP,
      .flags = CONFIG_ARGS_ONLY, .group = "Packages",
      .help = "install the newest versions, even if others are installed" },
    { "index-url", 0, OPT_STRING, MEMBER(index_url), NULL, 1, 1000, .metavar = "URL",
      .commands = FOR_SERVE | FOR_MCP | FOR_PIP | FOR_TEMPLATE, .group = "Packages",
      .help = "package index: a URL, a file:// directory, or 'none' (default: the host's pip "
              "configuration)" },
    { "extra-index-url", 0, OPT_LIST, MEMBER(extra_indexes), .max = 8, .metavar = "URL",
      .commands = FOR_SERVE | FOR_MCP | FOR_PIP | FOR_TEMPLATE, .group = "Packages",
      .help = "additional package index; may be repeated" },
    { "wheels", 0, OPT_LIST, MEMBER(wheels), .max = 4, .metavar = "DIR",
      .commands = FOR_SERVE | FOR_MCP | FOR_PIP | FOR_TEMPLATE, .group = "Packages",
      .help = "a directory of wheels to install from, readable by everyone; may be repeated" },
    { "package-host", 0, OPT_LIST, MEMBER(package_hosts), .max = 32, .metavar = "H",
      .commands = FOR_SERVE | FOR_MCP | FOR_PIP | FOR_TEMPLATE, .group = "Packages",
      .help = "additional host an install may reach, for an index that keeps its files elsewhere; "
              "may be repeated" },
    { "blocked-packages", 0, OPT_STRING, MEMBER(blocked_packages), NULL, 0, 65536,
      .metavar = "NAMES", .aliases = { { "BLOCKED_PACKAGES", 0 } },
      .commands = FOR_SERVE | FOR_MCP | FOR_PIP | FOR_TEMPLATE, .group = "Packages",
      .help = "packages that are never installed, separated by commas (default: names of standard "
              "modules such as os and subprocess)" },
    { "allowed-packages", 0, OPT_STRING, MEMBER(allowed_packages), NULL, 0, 65536,
      .metavar = "NAMES", .commands = FOR_SERVE | FOR_MCP | FOR_PIP | FOR_TEMPLATE,
      .group = "Packages",
      .help = "the only packages that may be requested, separated by commas; their dependencies "
              "are installed too" },
    { "package-builds", 0, OPT_BOOL, MEMBER(package_builds), "no",
      .commands = FOR_SERVE | FOR_MCP | FOR_PIP | FOR_TEMPLATE, .group = "Packages",
      .help = "build packages that have no wheel: this runs their code, in the installer's box" },
    { "package-urls", 0, OPT_BOOL, MEMBER(package_urls), "no",
      .commands = FOR_SERVE | FOR_MCP | FOR_PIP | FOR_TEMPLATE, .group = "Packages",
      .help = "let clients install from URLs of their choice" },
    { "uv", 0, OPT_STRING, MEMBER(uv), "auto", 1, 4000, .metavar = "FILE",
      .commands = FOR_SERVE | FOR_MCP | FOR_PIP | FOR_TEMPLATE, .group = "Packages",
      .help =
          "the program uv, which resolves requirements faster than pip; auto finds it or fetches "
          "it once, none uses pip" },
    { "package-size", 0, OPT_SIZE, MEMBER(package_bytes), "2g", MIB, PIB, .metavar = "SIZE",
      .commands = FOR_SERVE | FOR_MCP | FOR_PIP | FOR_TEMPLATE, .group = "Packages",
      .help = "largest size of a set of packages" },
    { "package-timeout", 0, OPT_SECONDS, MEMBER(package_timeout_us), "300", SEC, 86400 * SEC,
      .metavar = "S", .commands = FOR_SERVE | FOR_MCP | FOR_PIP | FOR_TEMPLATE, .group = "Packages",
      .help = "how long one install may take" },
    { "package-rate", 0, OPT_INT, MEMBER(package_rate), "60", 0, 1000000000, .metavar = "N",
      .commands = FOR_SERVE | FOR_MCP, .group = "Packages",
      .help = "installs per minute, for each key" },
    { "package-refresh", 0, OPT_SECONDS, MEMBER(package_refresh_us), "86400", 0, 365 * 86400 * SEC,
      .metavar = "S", .commands = FOR_SERVE | FOR_MCP | FOR_PIP | FOR_TEMPLATE, .group = "Packages",
      .help = "how long a resolved 'latest' is cached before the index is asked again" },
    { "packages-disk", 0, OPT_SIZE, MEMBER(packages_bytes), "10g", 0, PIB, .metavar = "SIZE",
      .commands = FOR_SERVE | FOR_MCP, .group = "Packages",
      .help = "total size of all sets of packages; unused sets are removed to make room" },
    { "packages-age", 0, OPT_SECONDS, MEMBER(packages_age_us), "720h", 0, 3650 * 86400 * SEC,
      .metavar = "S", .commands = FOR_SERVE | FOR_MCP, .group = "Packages",
      .help = "remove sets of packages that have not been used for this long" },
    { "python", 0, OPT_STRING, MEMBER(template_python), NULL, 1, PATH_BYTES_MAX, .metavar = "PATH",
      .commands = FOR_TEMPLATE, .flags = CONFIG_ARGS_ONLY, .group = "Template",
      .help = "interpreter for the new template, Python 3.9 or later" },
    { "venv", 0, OPT_STRING, MEMBER(template_venv), NULL, 1, PATH_BYTES_MAX, .metavar = "DIR",
      .commands = FOR_TEMPLATE, .flags = CONFIG_ARGS_ONLY, .group = "Template",
      .help = "or a virtual environment, with the packages installed in it" },
    { "packages", 0, OPT_LIST, MEMBER(template_packages), .max = 64, .metavar = "LIST",
      .commands = FOR_TEMPLATE, .flags = CONFIG_ARGS_ONLY, .group = "Template",
      .help =
          "or the system's Python with these packages and no others, installed as by glovebox pip: "
          "requirements separated by commas, such as 'humanize>=4,<5,ujson'; may be repeated" },
    { "preset", 0, OPT_STRING, MEMBER(template_preset), NULL, 1, 64, .metavar = "NAME",
      .commands = FOR_TEMPLATE, .flags = CONFIG_ARGS_ONLY, .group = "Template",
      .help =
          "or a set of packages that comes with Glovebox, with pinned versions: data, minimal or "
          "ml; a template of that name needs no option" },
    { "lock", 0, OPT_STRING, MEMBER(template_lock), NULL, 1, PATH_BYTES_MAX, .metavar = "FILE",
      .commands = FOR_TEMPLATE, .flags = CONFIG_ARGS_ONLY, .group = "Template",
      .help = "or the packages in FILE: exact versions with hashes, as pip and uv write them; "
              "update writes FILE" },
    { "replace", 0, OPT_BOOL, MEMBER(template_replace), "no", .commands = FOR_TEMPLATE,
      .flags = CONFIG_ARGS_ONLY, .group = "Template",
      .help = "replace an existing template of that name" },
    { "no-check", 0, OPT_BOOL, MEMBER(template_no_check), "no",
      .commands = FOR_TEMPLATE | FOR_SOURCE, .flags = CONFIG_ARGS_ONLY, .group = "Template",
      .help = "add the template without first starting it in a box, or the source without "
              "connecting to it" },
    { "data", 0, OPT_STRING, MEMBER(data_dir), NULL, 1, PATH_BYTES_MAX, .metavar = "DIR",
      .commands = FOR_SERVE | FOR_MCP | FOR_KEY | FOR_AUDIT | FOR_TEMPLATE | FOR_RUN | FOR_PIP |
                  FOR_DOCTOR | FOR_USER | FOR_ASKING | FOR_SOURCE,
      .group = "Data",
      .help = "where the service keeps its store, workspaces and templates (default: "
              "/var/lib/glovebox for root, otherwise glovebox in the user's state directory)" },
    { "database", 0, OPT_STRING, MEMBER(database), NULL, 1, MIB, .metavar = "URL",
      .commands = FOR_SERVE | FOR_KEY | FOR_AUDIT | FOR_TEMPLATE | FOR_PIP | FOR_DOCTOR | FOR_USER |
                  FOR_ASKING | FOR_SOURCE,
      .group = "Data",
      .help =
          "keep the store in PostgreSQL: postgresql://USER@HOST/NAME?sslmode=verify-full; files "
          "stay in the data directory (default: a file there)" },
    { "database-password-file", 0, OPT_STRING, MEMBER(database_password_file), NULL, 1,
      PATH_BYTES_MAX, .metavar = "PATH",
      .commands = FOR_SERVE | FOR_KEY | FOR_AUDIT | FOR_TEMPLATE | FOR_PIP | FOR_DOCTOR | FOR_USER |
                  FOR_ASKING | FOR_STORE | FOR_SOURCE,
      .group = "Data",
      .help = "the password of the database is the line in PATH (default: of the URL, or of "
              "~/.pgpass)" },
    { "from", 0, OPT_STRING, MEMBER(store_from), NULL, 1, MIB, .metavar = "STORE",
      .commands = FOR_STORE, .flags = CONFIG_ARGS_ONLY, .group = "Data",
      .help = "the store to copy: a data directory, or postgresql://..." },
    { "to", 0, OPT_STRING, MEMBER(store_to), NULL, 1, MIB, .metavar = "STORE",
      .commands = FOR_STORE, .flags = CONFIG_ARGS_ONLY, .group = "Data",
      .help = "where to copy it; there must be no store yet, or an empty one" },
    { "help", 'h', OPT_BOOL, MEMBER(help), "no", .commands = FOR_ALL,
      .flags = CONFIG_ARGS_ONLY | CONFIG_ENDS_OPTIONS, .group = "General",
      .help = "show this help" },
    { "version", 'V', OPT_BOOL, MEMBER(version), "no", .commands = FOR_ALL,
      .flags = CONFIG_ARGS_ONLY | CONFIG_ENDS_OPTIONS, .group = "General",
      .help = "show the version" },
};

_Static_assert(ARRAY_LEN(options) <= CONFIG_ROWS_MAX, "the loader keeps a mark for each row");

static const struct config_command commands[] = {
    [COMMAND_RUN - 1] = {
        .name = "run",
        .mask = FOR_RUN,
        .synopsis = "[OPTIONS] FILE|-|-c CODE [ARG...]",
        .summary = "run one Python program in a fresh box",
        .description = "Runs one Python program as python3 would, but in a fresh box: it sees its "
                       "own files, processes and loopback network, and nothing of this machine. "
                       "FILE is the program, and - reads it from standard input.",
        .examples = "  glovebox run hello.py\n"
                    "  echo 'print(6 * 7)' | glovebox run -\n"
                    "  glovebox run -c 'import sys; print(sys.argv)' one two\n"
                    "  glovebox run --timeout 5 --memory 1g --file data.csv report.py data.csv\n"
                    "  glovebox run --out results plot.py\n"
                    "  glovebox run --volume ~/sets:/data report.py\n"
                    "  glovebox run --json hello.py\n",
        .args = CONFIG_ARGS_FILES,
        .stops = true,
    },
    [COMMAND_SERVE - 1] = {
        .name = "serve",
        .mask = FOR_SERVE,
        .synopsis = "[OPTIONS]",
        .summary = "serve boxes over HTTP: sessions, streams, files",
        .description = "Runs programs for clients: one-shot in a fresh box, or in a session that keeps its variables and files. No key is needed on loopback; any other address requires one (glovebox key create). On SIGTERM, running programs may finish before the service exits.",
        .examples = "  glovebox serve\n"
                    "  glovebox serve --listen 127.0.0.1:0 --port-file port\n"
                    "  glovebox serve --listen 0.0.0.0:8080 --allowed-host box.example.com\n"
                    "  glovebox serve --listen unix:/run/glovebox.sock --log-format json\n"
                    "  glovebox serve --volume-root /srv/sets --volume-root /srv/results:rw\n",
        .args = CONFIG_ARGS_NONE,
    },
    [COMMAND_MCP - 1] = {
        .name = "mcp",
        .mask = FOR_MCP,
        .synopsis = "[OPTIONS]",
        .summary = "give an assistant tools, over MCP on standard input and output",
        .description = "Speaks the Model Context Protocol with the program that started it, such as a desktop assistant or an editor: one JSON message per line. Makes its own boxes, which end with it, or forwards to a service with --url. A service also speaks the protocol over HTTP, at /mcp.",
        .examples = "  claude mcp add glovebox -- glovebox mcp\n"
                    "  glovebox mcp --print-config claude-desktop\n"
                    "  glovebox mcp --url http://127.0.0.1:8080\n",
        .args = CONFIG_ARGS_NONE,
    },
    [COMMAND_SHELL - 1] = {
        .name = "shell",
        .mask = FOR_SHELL,
        .synopsis = "[OPTIONS] SESSION|--new [COMMAND [ARG...]]",
        .summary = "open a terminal in a session of a service",
        .description = "Opens a terminal in the box of a session, with a shell or with COMMAND, and connects it to this one. The program runs in the box; what it may do to this terminal is limited to showing text. Enter, then ~ and . (a dot) leaves it running; --attach comes back to it, and shows what it printed meanwhile. If the connection breaks, it is opened again. Exits with the exit code of the program, and with 0 if it was left running.",
        .examples = "  glovebox shell ses_1f0e2d3c4b5a69788796a5b4c3d2e1f0\n"
                    "  glovebox shell --new\n"
                    "  glovebox shell --new python3 -q\n"
                    "  glovebox shell --attach last ses_1f0e2d3c4b5a69788796a5b4c3d2e1f0\n"
                    "  glovebox shell --url https://box.example.com --new\n",
        .args = CONFIG_ARGS_NONE,
        .stops = true,
    },
    [COMMAND_DOCTOR - 1] = {
        .name = "doctor",
        .mask = FOR_DOCTOR,
        .synopsis = "[OPTIONS]",
        .summary = "test every protection on this host, in a real box",
        .description = "Makes boxes as a run would and tries in them what a hostile program would try. Shows the state of each protection, with the reason and the fix. Exits with 1 when code cannot be isolated on this host.",
        .examples = "  glovebox doctor\n"
                    "  glovebox doctor --json\n",
        .args = CONFIG_ARGS_NONE,
    },
    [COMMAND_KEY - 1] = {
        .name = "key",
        .mask = FOR_KEY,
        .synopsis = "create|list|revoke [OPTIONS] [ID]",
        .summary = "create, list and revoke API keys of the service",
        .description = "Keys give clients access. create prints a new token; it is shown only once, since the store keeps only its hash. list shows the keys, revoke ends one: a running service refuses it within about a second.",
        .examples = "  glovebox key create --name laptop\n"
                    "  glovebox key create --sessions 5 --executions 2 --rate 600\n"
                    "  glovebox key list\n"
                    "  glovebox key revoke 3f9c2a7d51e0\n",
        .args = CONFIG_ARGS_WORDS,
        .words = "create list revoke",
    },
    [COMMAND_USER - 1] = {
        .name = "user",
        .mask = FOR_USER,
        .synopsis = "add|list|reset|remove|invite|budget [OPTIONS] [ADDRESS]",
        .summary = "manage the accounts of people who ask Mark",
        .description = "Mark's accounts. add makes one; the first of all is the operator's. list shows them, reset sets a new password and ends every sign-in, remove deletes an account with its chats and files. invite prints a code that lets one person sign up where that is not open to everyone. budget shows or sets what somebody may spend in a day, where that differs from the service: bytes=SIZE, cost=DOLLARS, tokens=N, seconds=S, each also none or default, or reset; key:ID in place of the address is an API key. A password is asked for on a terminal, read with --password-file, or made and shown once. A running service notices changes within about a second.",
        .examples = "  glovebox user add ada@example.com --name Ada\n"
                    "  glovebox user list\n"
                    "  glovebox user reset ada@example.com\n"
                    "  glovebox user invite --valid 24h\n"
                    "  glovebox user budget ada@example.com tokens=500000 cost=2.50\n"
                    "  glovebox user remove ada@example.com\n",
        .args = CONFIG_ARGS_WORDS,
        .words = "add list reset remove invite budget",
    },
    [COMMAND_AUDIT - 1] = {
        .name = "audit",
        .mask = FOR_AUDIT,
        .synopsis = "verify|show [OPTIONS]",
        .summary = "verify and show the log of everything that was run",
        .description = "The service logs every execution in a chain of hashes. verify reads the whole chain, names the first broken entry, and prints the head, which should be kept elsewhere; it exits with 1 when the log is not intact. show lists the entries.",
        .examples = "  glovebox audit verify\n"
                    "  glovebox audit show --last 20\n"
                    "  glovebox audit show --since 2h --json\n",
        .args = CONFIG_ARGS_WORDS,
        .words = "verify show",
    },
    [COMMAND_STORE - 1] = {
        .name = "store",
        .mask = FOR_STORE,
        .synopsis = "copy --from STORE --to STORE [OPTIONS]",
        .summary = "move the service's store to PostgreSQL, or back",
        .description = "copy writes everything in one store to another that is empty, in one transaction: keys, accounts, chats, the audit log. Each is a data directory or the URL of a PostgreSQL database. Before it ends, what was written is read back and compared, and the audit log is verified. Stop the service first. Files, such as attachments, are not in the store: they stay in the data directory.",
        .examples = "  glovebox store copy --from /var/lib/glovebox --to postgresql://gb@/gb\n"
                    "  glovebox store copy --from postgresql://gb@/gb --to ./back\n",
        .args = CONFIG_ARGS_WORDS,
        .words = "copy",
    },
    [COMMAND_SOURCE - 1] = {
        .name = "source",
        .mask = FOR_SOURCE,
        .synopsis = "add|list|tables|sync|check|remove [OPTIONS] [ARG...]",
        .summary = "manage the data sources that Mark may ask",
        .description = "Databases and directories that questions can be about. add NAME WHERE makes one; NAME is what programs say in mark.query(NAME, sql), and WHERE is postgresql://USER@HOST:PORT/DATABASE, bigquery://PROJECT or bigquery://PROJECT/DATASET, or a directory of files. It connects first and says what it found; a source that does not work is not added, unless --no-check is given. Then it reads the catalogue: tables, columns, comments and some values. list shows the sources, tables NAME the catalogue of one; sync reads all catalogues again, sync NAME one; check NAME connects as everybody who may use the source, remove NAME deletes it. Passwords are asked for on a terminal or read from files, and kept sealed with a key in the data directory. A running service notices changes at once.",
        .examples = "  glovebox source add shop postgresql://mark@db/shop --password-file pw\n"
                    "  glovebox source add shop postgresql://mark@db/shop --allow ada@example.com\n"
                    "  glovebox source add web bigquery://project/analytics --credentials a.json\n"
                    "  glovebox source list\n"
                    "  glovebox source tables shop\n"
                    "  glovebox source sync shop\n"
                    "  glovebox source check shop\n"
                    "  glovebox source remove shop\n",
        .args = CONFIG_ARGS_WORDS,
        .words = "add list tables sync check remove",
    },
    [COMMAND_PIP - 1] = {
        .name = "pip",
        .mask = FOR_PIP,
        .synopsis = "install|uninstall|list|freeze|reset [OPTIONS] [PACKAGE...]",
        .summary = "manage the packages that callers of the service have by default",
        .description = "A caller's default set of packages is available in all its fresh boxes. install adds to it and uninstall removes from it, as a client can over HTTP; list shows the sets, freeze prints one as requirements with hashes, reset empties one. A running service picks up the change.",
        .examples = "  glovebox pip install humanize 'requests>=2.31'\n"
                    "  glovebox pip install -U humanize\n"
                    "  glovebox pip install --for 3f9c2a7d51e0 ujson\n"
                    "  glovebox pip install --index-url none --wheels /srv/wheels six\n"
                    "  glovebox pip uninstall humanize\n"
                    "  glovebox pip list\n"
                    "  glovebox pip freeze > requirements.txt\n"
                    "  glovebox pip reset\n",
        .args = CONFIG_ARGS_WORDS,
        .words = "install uninstall list freeze reset",
    },
    [COMMAND_TEMPLATE - 1] = {
        .name = "template",
        .mask = FOR_TEMPLATE,
        .synopsis = "add|list|remove|check|update [OPTIONS] [NAME]",
        .summary = "manage other Pythons, virtual environments and sets of packages to run programs with",
        .description = "A template is an interpreter with modules already imported, from which boxes are made. The template system is the system's Python. add defines another, after starting it in a real box; sessions, runs and the image of an OpenManus sandbox refer to it by name. check starts one and reports its version, its packages and any problems. update makes a new lock file for a preset, with the newest versions. A running service picks up changes at once; existing sessions keep their template.",
        .examples = "  glovebox template add data\n"
                    "  glovebox template add py312 --python /opt/python3.12/bin/python3\n"
                    "  glovebox template add lab --venv /srv/lab/venv --preload numpy,pandas\n"
                    "  glovebox template add text --packages 'humanize>=4,ujson'\n"
                    "  glovebox template check lab\n"
                    "  glovebox template list\n"
                    "  glovebox template remove lab\n"
                    "  glovebox run --template lab report.py\n",
        .args = CONFIG_ARGS_WORDS,
        .words = "add list remove check update",
    },
    [COMMAND_MARK - 1] = {
        .name = "mark",
        .mask = FOR_MARK,
        .synopsis = "sample|export|eval|verify|export-feedback [OPTIONS] [ARG]",
        .summary = "sample data for Mark, the data assistant, and how good its answers are",
        .description = "sample prints a CSV file with two years of orders of a shop that does not exist. Mark's demo model answers questions about it, so that Mark can be tried without a language model. sample products and sample regions print files that can be joined with it; sample sql is all of it as a script for psql, and sample sql-roles adds roles that see the rows of their regions. eval asks the questions in FILE, of which the answers are known, and reports how many are right, which numbers were false, and what it took; with several --model or --prompts side by side. It exits with 0 if every answer was as expected, with 1 if one was not, and with 2 for mistakes. --out DIR writes report.json, report.html and report.svg. export writes a chat or an answer of the data directory, whoever it belongs to, as a notebook, a page, Markdown, JSON, or a zip of the notebook and its inputs, to the FILE of --out or to standard output; with --table it writes a table of an answer with all of its rows. export-feedback prints every rating of an answer as one line of JSON, the oldest first: rating, reasons, text, who and when, with the question, the story, the code, the model and the version of the prompts that it is about. verify runs all verified answers of the data directory again, each in a fresh box, and says for each whether everything came out as it was, what changed, or why it cannot run; with --ask it asks the model again. It exits with 1 if something is not as it was.",
        .examples = "  glovebox mark sample >sales.csv\n"
                    "  glovebox mark sample sql | psql demo\n"
                    "  glovebox mark eval examples/eval/questions.json --model demo --out report\n"
                    "  glovebox mark export-feedback --since 2026-11-01 >feedback.jsonl\n"
                    "  glovebox mark export 0b9f5a3e-52c4-4c6e-9d3e-6a1f3c1f9a10 --out chat.html\n"
                    "  glovebox mark verify --jobs 4\n"
                    "  glovebox mark verify --ask --model big\n",
        .args = CONFIG_ARGS_WORDS,
        .words = "sample export eval verify export-feedback",
    },
    [COMMAND_ASK - 1] = {
        .name = "ask",
        .mask = FOR_ASK,
        .synopsis = "[OPTIONS] QUESTION|-",
        .summary = "ask a question about data; the answer is computed in a box",
        .description = "Asks Mark: a language model writes Python, a box runs it, and the answer has only numbers that were computed there. Needs no server, and leaves nothing behind. QUESTION is one argument, and - reads it from standard input. Without a model it shows a demo, and says so. Exits with 0 if there is an answer, 1 if it failed or was stopped, 3 if Mark has to know more first, 4 without a model, and 5 if --mark-strict withheld the answer.",
        .examples = "  glovebox ask 'Which region grew fastest?' --file sales.csv\n"
                    "  glovebox ask 'What is odd here?' --file a.csv --file b.xlsx --out results\n"
                    "  glovebox ask 'Revenue by month' --file sales.csv --chart revenue.png\n"
                    "  glovebox ask --json --model local=openai:qwen3@http://127.0.0.1:11434/v1 -\n",
        .args = CONFIG_ARGS_NONE,
    },
    [COMMAND_HELP - 1] = {
        .name = "help",
        .mask = FOR_HELP,
        .synopsis = "[COMMAND]",
        .summary = "show help for glovebox or for one command",
        .description = "Shows the same text as --help.",
        .examples = "  glovebox help run\n",
        .args = CONFIG_ARGS_COMMANDS,
    },
    [COMMAND_VERSION - 1] = {
        .name = "version",
        .mask = FOR_VERSION,
        .synopsis = "",
        .summary = "show the version",
        .description = "Shows the same text as --version.",
        .examples = "  glovebox version\n",
        .args = CONFIG_ARGS_NONE,
    },
};

const struct config_schema options_schema = {
    .program = "glovebox",
    .env_prefix = "GLOVEBOX_",
    .options = options,
    .options_len = ARRAY_LEN(options),
    .commands = commands,
    .commands_len = ARRAY_LEN(commands),
};

const struct config_command options_global = {
    .name = "",
    .mask = FOR_GLOBAL,
    .synopsis = "COMMAND [OPTIONS] [ARG...]",
    .summary = "runs Python that nobody has read, in a sealed box",
    .description = "Runs Python that nobody has read, in a sealed box, and reports the outcome.",
    .examples = "  glovebox run hello.py\n"
                "  echo 'print(6 * 7)' | glovebox run -\n"
                "  glovebox run --help\n"
                "  glovebox serve\n"
                "  glovebox doctor\n",
    .args = CONFIG_ARGS_COMMANDS,
    .stops = true,
};
