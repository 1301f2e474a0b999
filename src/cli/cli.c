/* The program: reads its options and runs the command they name. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "cli/cmd.h"
#include "cli/options/help.h"
#include "cli/options/options.h"
#include "connect/connect.h"
#include "engine/builder.h"

#include "base/banned.h"

/* A descriptor that we open must never become 0, 1 or 2 by accident. */
static int standard_streams(void)
{
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) != fd)
            return -errno;
    return 0;
}

/* `glovebox help COMMAND` and `glovebox COMMAND --help` are the same. */
static int print_help(const struct config *cfg)
{
    const struct config_command *command = &options_global;
    const char *name = NULL;
    struct gb_err err;

    if (cfg->command == COMMAND_HELP)
        name = cfg->args_len > 0 ? cfg->args[0] : NULL;
    else if (cfg->command != COMMAND_NONE)
        name = options_schema.commands[cfg->command - 1].name;
    if (name && config_find_command(&options_schema, name, &command, &err) < 0) {
        say("%s", err.msg);
        return EXIT_USAGE;
    }
    return help_write(stdout, &options_schema, command) < 0 ? EXIT_OURS : 0;
}

static int dispatch(const struct config *cfg)
{
    if (cfg->version || cfg->command == COMMAND_VERSION)
        return printf("glovebox %s\n", GLOVEBOX_VERSION) < 0 ? EXIT_OURS : 0;
    if (cfg->help || cfg->command == COMMAND_HELP)
        return print_help(cfg);
    switch (cfg->command) {
    case COMMAND_DOCTOR:
        return cmd_doctor(cfg);
    case COMMAND_SERVE:
        return cmd_serve(cfg);
    case COMMAND_MCP:
        return cmd_mcp(cfg);
    case COMMAND_SHELL:
        return cmd_shell(cfg);
    case COMMAND_KEY:
        return cmd_key(cfg);
    case COMMAND_PIP:
        return cmd_pip(cfg);
    case COMMAND_MARK:
        return cmd_mark(cfg);
    case COMMAND_AUDIT:
        return cmd_audit(cfg);
    case COMMAND_TEMPLATE:
        return cmd_template(cfg);
    case COMMAND_ASK:
        return cmd_ask(cfg);
    case COMMAND_USER:
        return cmd_user(cfg);
    case COMMAND_STORE:
        return cmd_store(cfg);
    case COMMAND_SOURCE:
        return cmd_source(cfg);
    case COMMAND_RUN:
    case COMMAND_NONE:
    case COMMAND_HELP:
    case COMMAND_VERSION:
        break;
    }
    return cmd_run(cfg);
}

int cli_main(int argc, char **argv, void (*mcp_more)(struct mcp *mcp))
{
    struct config cfg = { 0 };
    struct gb_err err = { 0 };
    int code;

    if (argc > 1 && strcmp(argv[1], BUILDER_COMMAND) == 0)
        return builder_main(argc, argv);
    if (argc > 1 && strcmp(argv[1], CONNECT_COMMAND) == 0)
        return connect_main();
    if (standard_streams() < 0)
        return EXIT_OURS;
    (void) signal(SIGPIPE, SIG_IGN);
    (void) signal(SIGCHLD, SIG_DFL); /* with an inherited SIG_IGN, wait() would find no children */
    if (options_load(argc, argv, &cfg, &err) < 0) {
        say("%s", err.msg);
        code = err.code == ENOMEM ? EXIT_OURS : EXIT_USAGE;
    } else {
        cfg.mcp_more = mcp_more;
        code = dispatch(&cfg);
    }
    options_release(&cfg);
    return code;
}
