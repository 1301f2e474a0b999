#include "service/access/data.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "service/access/audit.h"
#include "store/copy.h"

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

    if (!filled.dir && (!filled.database || filled.exclusive)) {
        int r = data_default_dir(&dir, err);

        if (r < 0)
            return r;
        filled.dir = dir;
    }
    return store_open(&filled, ret_store, err);
}

/* ---- copying ---- */

bool data_is_database(const char *where)
{
    return strncmp(where, "postgresql://", 13) == 0 || strncmp(where, "postgres://", 11) == 0;
}

static int open_side(const struct data_copy *copy, bool target, struct store **ret_store,
                     struct gb_err *err)
{
    const char *where = target ? copy->to : copy->from;
    struct store_config config = { .exclusive = true, .must_exist = !target };
    struct gb_err why;
    int r;

    if (data_is_database(where)) {
        config.database = where;
        config.database_password_file = copy->password_file;
    } else {
        config.dir = where;
    }
    r = store_open(&config, ret_store, &why);
    if (r == -EBUSY)
        return gb_fail_plain(err, EBUSY,
                             "the store of %s is in use by another glovebox; stop its service "
                             "first",
                             target ? "--to" : "--from");
    if (r < 0)
        *err = why;
    return r;
}

static int copy_open(struct data_copy *copy, struct store *from, struct store *to,
                     struct gb_err *err)
{
    struct store_copy job = { from, to, copy->progress, copy->arg, 0 };
    int r = audit_verify(from, NULL, copy->from_report, err);

    if (r == 0)
        r = store_copy(&job, err);
    if (r == 0)
        r = audit_verify(to, NULL, copy->to_report, err);
    if (r < 0)
        return r;
    copy->rows = job.rows;
    if (copy->from_report->count != copy->to_report->count ||
        copy->from_report->broken_seq != copy->to_report->broken_seq ||
        memcmp(copy->from_report->head, copy->to_report->head, AUDIT_HASH_BYTES) != 0)
        return gb_fail_plain(err, EUCLEAN,
                             "the audit log of the target is not that of the source; do not use "
                             "the target");
    return 0;
}

int data_copy(struct data_copy *copy, struct gb_err *err)
{
    struct store *from = NULL, *to = NULL;
    int r = strcmp(copy->from, copy->to) == 0
                ? gb_fail_plain(err, EINVAL, "--from and --to are the same store")
                : open_side(copy, false, &from, err);

    if (r == 0)
        r = open_side(copy, true, &to, err);
    if (r == 0)
        r = copy_open(copy, from, to, err);
    store_close(to);
    store_close(from);
    return r;
}
