/* The completions of three shells, from the option table. */
#include <stdlib.h>
#include <string.h>

#include "gen_docs/gen_docs.h"

#include "base/banned.h"

/* ---- bash ---- */

static bool any_option(const struct config_option *option)
{
    return option != NULL;
}

static bool ends_options(const struct config_option *option)
{
    return takes_value(option) && (option->flags & CONFIG_ENDS_OPTIONS);
}

static bool wants_file(const struct config_option *option)
{
    return option->metavar && strcmp(option->metavar, "PATH") == 0;
}

static bool wants_dir(const struct config_option *option)
{
    return option->metavar && strcmp(option->metavar, "DIR") == 0;
}

/* NAME=' --memory -c ', with blanks around every word so that a search finds only whole words. */
static void bash_words(FILE *out, const char *name, const struct config_command *command,
                       bool (*wanted)(const struct config_option *))
{
    fprintf(out, "\n        %s=' ", name);
    FOR_EACH_OPTION(option, command)
    {
        if (!wanted(option))
            continue;
        if (has_long(option))
            fprintf(out, "--%s ", option->name);
        if (option->letter)
            fprintf(out, "-%c ", option->letter);
    }
    fputc('\'', out);
}

static void bash_command(FILE *out, const struct config_command *command)
{
    static const char *const args[] = {
        [CONFIG_ARGS_NONE] = "",
        [CONFIG_ARGS_FILES] = "files=-f",
        [CONFIG_ARGS_COMMANDS] = "words=$commands",
        [CONFIG_ARGS_WORDS] = "words=",
    };

    fprintf(out, "    '%s')", command->name);
    bash_words(out, "options", command, any_option);
    bash_words(out, "values", command, takes_value);
    bash_words(out, "enders", command, ends_options);
    bash_words(out, "paths", command, wants_file);
    bash_words(out, "dirs", command, wants_dir);
    fprintf(out, "\n        stops='%s' %s", command->stops ? "yes" : "", args[command->args]);
    if (command->args == CONFIG_ARGS_WORDS)
        fprintf(out, "'%s'", command->words);
    fputs(" ;;\n", out);
}

static const char bash_script[] =
    "_glovebox() {\n"
    "    local cur=${COMP_WORDS[COMP_CWORD]} command='' pending='' ended='' word i=1\n"
    "    local words files options values enders paths dirs stops\n"
    "    COMPREPLY=()\n"
    "    _glovebox_table ''\n"
    "    while (( i < COMP_CWORD )) && [[ ! $ended ]]; do\n"
    "        word=${COMP_WORDS[i++]}\n"
    "        if [[ $word == = ]]; then\n"
    "            (( i++ ))\n"
    "        elif [[ $values == *\" $word \"* ]]; then\n"
    "            [[ ${COMP_WORDS[i]} == = ]] && (( i < COMP_CWORD )) && (( i++ ))\n"
    "            (( i >= COMP_CWORD )) && pending=$word && break\n"
    "            (( i++ ))\n"
    "            [[ $enders == *\" $word \"* ]] && ended=yes\n"
    "        elif [[ $word == -- ]]; then\n"
    "            ended=yes\n"
    "        elif [[ $word != -?* && ! $command ]]; then\n"
    "            command=$word\n"
    "            _glovebox_table \"$command\"\n"
    "        elif [[ $word != -?* && $stops ]]; then\n"
    "            ended=yes\n"
    "        fi\n"
    "    done\n"
    "    [[ $cur == = ]] && cur=''\n"
    "    if [[ $pending ]]; then\n"
    "        words='' files=''\n"
    "        [[ $paths == *\" $pending \"* ]] && files=-f\n"
    "        [[ $dirs == *\" $pending \"* ]] && files=-d\n"
    "        _glovebox_choices\n"
    "    elif [[ ! $ended && $cur == -* ]]; then\n"
    "        words=$options files=''\n"
    "    fi\n"
    "    if [[ $files ]]; then\n"
    "        compopt -o filenames 2>/dev/null\n"
    "        mapfile -t COMPREPLY < <(compgen $files -- \"$cur\")\n"
    "    elif [[ $words ]]; then\n"
    "        mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n"
    "    fi\n"
    "}\n"
    "complete -F _glovebox glovebox\n";

int bash_write(FILE *out)
{
    fprintf(out, "# bash completion for glovebox; %s\n_glovebox_table() {\n", generated);
    fputs("    local commands='", out);
    write_commands(out);
    fputs("'\n    options='' values='' enders='' paths='' dirs='' stops='' words='' files=''\n    "
          "case $1 in\n",
          out);
    for (size_t i = 0; i <= schema->commands_len; i++)
        bash_command(out, command_at(i));
    fputs("    esac\n}\n\n_glovebox_choices() {\n    case $command,$pending in\n", out);
    for (size_t i = 0; i <= schema->commands_len; i++)
        FOR_EACH_OPTION(option, command_at(i))
        {
            if (!option->choices)
                continue;
            fprintf(out, "    %s,--%s) words='", command_at(i)->name, option->name);
            write_choices(out, option);
            fputs("' ;;\n", out);
        }
    fprintf(out, "    esac\n}\n\n%s", bash_script);
    return 0;
}

/* ---- zsh ---- */

/* Text inside single quotes and [brackets] of an _arguments specification. */
static void zsh_text(FILE *out, const char *text)
{
    for (; *text; text++) {
        if (*text == '\'')
            fputs("'\\''", out);
        else if (strchr("[]:\\", *text))
            fprintf(out, "\\%c", *text);
        else
            fputc(*text, out);
    }
}

static void zsh_value(FILE *out, const struct config_option *option)
{
    if (!takes_value(option))
        return;
    fprintf(out, ":%s:", option->metavar ? option->metavar : option->name);
    if (option->choices) {
        fputc('(', out);
        write_choices(out, option);
        fputc(')', out);
    } else if (wants_file(option)) {
        fputs("_files", out);
    } else if (wants_dir(option)) {
        fputs("_directories", out);
    } else {
        fputc(' ', out);
    }
}

static void zsh_option(FILE *out, const struct config_option *option, const char *name,
                       bool is_long)
{
    fprintf(out, " \\\n            '%s%s%s[", option->type == OPT_LIST ? "*" : "", name,
            takes_value(option) ? (is_long ? "=" : "+") : "");
    zsh_text(out, option->help);
    fputc(']', out);
    zsh_value(out, option);
    fputc('\'', out);
}

static void zsh_options(FILE *out, const struct config_command *command)
{
    char name[CONFIG_NAME_MAX];

    FOR_EACH_OPTION(option, command)
    {
        if (option->letter) {
            snprintf(name, sizeof name, "-%c", option->letter);
            zsh_option(out, option, name, false);
        }
        if (has_long(option)) {
            snprintf(name, sizeof name, "--%s", option->name);
            zsh_option(out, option, name, true);
        }
    }
}

static void zsh_positionals(FILE *out, const struct config_command *command)
{
    static const char *const positionals[] = {
        [CONFIG_ARGS_NONE] = "",
        [CONFIG_ARGS_FILES] = " \\\n            '*:file:_files'",
        [CONFIG_ARGS_COMMANDS] = " \\\n            '1:command:_glovebox_commands'",
    };

    if (command->args == CONFIG_ARGS_WORDS)
        fprintf(out, " \\\n            '1:action:(%s)' '*:argument: '", command->words);
    else
        fputs(positionals[command->args], out);
}

int zsh_write(FILE *out)
{
    fprintf(out, "#compdef glovebox\n# zsh completion for glovebox; %s\n", generated);
    fputs("_glovebox_commands() {\n    local -a commands=(", out);
    for (size_t i = 0; i < schema->commands_len; i++) {
        fprintf(out, "\n        '%s:", schema->commands[i].name);
        zsh_text(out, schema->commands[i].summary);
        fputc('\'', out);
    }
    fputs("\n    )\n    _describe command commands\n}\n\n_glovebox() {\n"
          "    local curcontext=$curcontext state state_descr line\n"
          "    typeset -A opt_args\n"
          "    _arguments -C -A '-*'",
          out);
    zsh_options(out, &options_global);
    fputs(" \\\n            '1:command:_glovebox_commands' '*::argument:->argument' && return\n"
          "    [[ $state == argument ]] || return\n    case $words[1] in\n",
          out);
    for (size_t i = 0; i < schema->commands_len; i++) {
        const struct config_command *command = &schema->commands[i];

        fprintf(out, "    %s)\n        _arguments -S%s", command->name,
                command->stops ? " -A '-*'" : "");
        zsh_options(out, command);
        zsh_positionals(out, command);
        fputs("\n        ;;\n", out);
    }
    fputs("    esac\n}\n\n"
          "if [[ $zsh_eval_context[-1] == loadautofunc ]]; then\n    _glovebox \"$@\"\n"
          "else\n    compdef _glovebox glovebox\nfi\n",
          out);
    return 0;
}

/* ---- fish ---- */

static void fish_quoted(FILE *out, const char *text)
{
    fputc('\'', out);
    for (; *text; text++)
        fprintf(out, strchr("'\\", *text) ? "\\%c" : "%c", *text);
    fputc('\'', out);
}

static void fish_option(FILE *out, const struct config_command *command,
                        const struct config_option *option)
{
    fputs("complete -c glovebox -n ", out);
    if (*command->name)
        fprintf(out, "'__fish_seen_subcommand_from %s'", command->name);
    else
        fputs("__fish_use_subcommand", out);
    if (option->letter)
        fprintf(out, " -s %c", option->letter);
    if (has_long(option))
        fprintf(out, " -l %s", option->name);
    if (option->choices) {
        fputs(" -xa '", out);
        write_choices(out, option);
        fputc('\'', out);
    } else if (wants_file(option)) {
        fputs(" -rF", out);
    } else if (wants_dir(option)) {
        fputs(" -xa '(__fish_complete_directories)'", out);
    } else if (takes_value(option)) {
        fputs(" -x", out);
    }
    fputs(" -d ", out);
    fish_quoted(out, option->help);
    fputc('\n', out);
}

int fish_write(FILE *out)
{
    fprintf(out, "# fish completion for glovebox; %s\ncomplete -c glovebox -f\n", generated);
    for (size_t i = 0; i < schema->commands_len; i++) {
        const struct config_command *command = &schema->commands[i];

        fprintf(out, "complete -c glovebox -n __fish_use_subcommand -a %s -d ", command->name);
        fish_quoted(out, command->summary);
        fputc('\n', out);
        if (command->args == CONFIG_ARGS_FILES)
            fprintf(out, "complete -c glovebox -n '__fish_seen_subcommand_from %s' -F\n",
                    command->name);
        if (command->args == CONFIG_ARGS_WORDS)
            fprintf(out, "complete -c glovebox -n '__fish_seen_subcommand_from %s' -a '%s'\n",
                    command->name, command->words);
        if (command->args == CONFIG_ARGS_COMMANDS) {
            fprintf(out, "complete -c glovebox -n '__fish_seen_subcommand_from %s' -a '",
                    command->name);
            write_commands(out);
            fputs("'\n", out);
        }
    }
    for (size_t i = 0; i <= schema->commands_len; i++)
        FOR_EACH_OPTION(option, command_at(i))
        {
            fish_option(out, command_at(i), option);
        }
    return 0;
}
