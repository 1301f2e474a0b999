#include "service/access/data.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/autoclean.h"

#include "base/banned.h"

int data_default_dir(char **ret_dir, struct gb_err *err)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    char *dir = NULL;
    int printed;

    /* The XDG specification says to ignore relative paths. */
    if (geteuid() == 0)
        printed = asprintf(&dir, "/var/lib/glovebox");
    else if (state && state[0] == '/')
        printed = asprintf(&dir, "%s/glovebox", state);
    else if (home && home[0] == '/')
        printed = asprintf(&dir, "%s/.local/state/glovebox", home);
    else
        return gb_fail_plain(err, ENOENT, "HOME is not set; choose a data directory with --data");
    if (printed < 0)
        return gb_fail(err, ENOMEM, "find the data directory");
    *ret_dir = dir;
    return 0;
}

int data_open(const struct store_config *config, struct store **ret_store, struct gb_err *err)
{
    struct store_config filled = *config;
    autofree char *dir = NULL;

    if (!filled.dir) {
        int r = data_default_dir(&dir, err);

        if (r < 0)
            return r;
        filled.dir = dir;
    }
    return store_open(&filled, ret_store, err);
}
