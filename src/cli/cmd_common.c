/* What several commands do alike. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/parse.h"
#include "cli/cmd.h"
#include "service/data.h"
#include "service/templates.h"

#include "base/banned.h"

int cmd_open_store(const struct config *cfg, bool must_exist, struct store **ret_store,
                   struct gb_err *err)
{
    struct store_config config = { .dir = cfg->data_dir, .must_exist = must_exist };

    return data_open(&config, ret_store, err);
}

int cmd_data_dir(const struct config *cfg, char **ret_dir, struct gb_err *err)
{
    if (!cfg->data_dir)
        return data_default_dir(ret_dir, err);
    *ret_dir = strdup(cfg->data_dir);
    return *ret_dir ? 0 : gb_fail(err, ENOMEM, "find the data directory");
}

int cmd_check_aliases(const struct config *cfg, struct gb_err *err)
{
    char quoted[FORMAT_QUOTED_MAX];

    for (char *const *alias = cfg->template_aliases; alias && *alias; alias++)
        if (!template_alias_valid(*alias)) {
            format_quoted(*alias, quoted);
            return gb_fail_plain(err, EINVAL,
                                 "--template-alias: %s is not ALIAS=NAME, such as "
                                 "python:3.12*=py312",
                                 quoted);
        }
    return 0;
}

int cmd_print_json(json_t *json, struct gb_err *err)
{
    int r = 0;

    if (!json)
        return gb_fail(err, ENOMEM, "print JSON");
    if (json_dumpf(json, stdout, isatty(STDOUT_FILENO) ? JSON_INDENT(2) : 0) < 0 ||
        putchar('\n') == EOF || fflush(stdout) != 0)
        r = gb_fail(err, EIO, "print JSON");
    json_decref(json);
    return r;
}
