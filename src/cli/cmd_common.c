/* What several commands do alike. */
#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "cli/cmd.h"
#include "service/data.h"

#include "base/banned.h"

int cmd_open_store(const struct config *cfg, bool must_exist, struct store **ret_store,
                   struct gb_err *err)
{
    struct store_config config = { .dir = cfg->data_dir, .must_exist = must_exist };

    return data_open(&config, ret_store, err);
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
