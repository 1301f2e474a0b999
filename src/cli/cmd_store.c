/* `glovebox store`: moves the service's store between the data directory and a database. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "cli/cmd.h"
#include "service/access/audit.h"
#include "service/access/data.h"

#include "base/banned.h"

enum { EXIT_BROKEN = 1 };

static void on_progress(void *arg, const char *table, int64_t rows)
{
    char line[96];

    (void) arg;
    if (rows < 0)
        (void) snprintf(line, sizeof line, "comparing %s", table);
    else
        (void) snprintf(line, sizeof line, "copying %s: %" PRId64 " rows", table, rows);
    cmd_show_progress(line);
}

static int print_result(const struct config *cfg, const struct data_copy *copy, struct gb_err *err)
{
    const struct audit_report *log = copy->to_report;

    if (cfg->json)
        return cmd_print_json(json_pack("{s:I, s:I, s:b}", "rows", (json_int_t) copy->rows,
                                        "audit_entries", (json_int_t) log->count, "audit_whole",
                                        log->broken_seq == 0),
                              err);
    printf("copied %" PRId64 " rows; everything was read back and is equal\n", copy->rows);
    if (log->broken_seq)
        printf("the audit log was BROKEN at entry %" PRId64 " before, and still is: %s\n",
               log->broken_seq, log->why);
    else
        printf("audit log: intact, %" PRId64 " entries\n", log->count);
    if (!data_is_database(copy->from))
        printf("files stay in the data directory: serve with --data and --database. Move "
               "glovebox.db away, so that nobody serves from it by mistake\n");
    return fflush(stdout) != 0 ? gb_fail(err, EIO, "print the result") : 0;
}

int cmd_store(const struct config *cfg)
{
    struct audit_report before = { 0 }, after = { 0 };
    struct data_copy copy = { .from = cfg->store_from,
                              .to = cfg->store_to,
                              .password_file = cfg->database_password_file,
                              .progress = on_progress,
                              .from_report = &before,
                              .to_report = &after };
    struct gb_err err = { 0 };
    int r = data_copy(&copy, &err);

    cmd_hide_progress();
    if (r == 0)
        r = print_result(cfg, &copy, &err);
    if (r < 0)
        say("%s", err.msg);
    return r < 0 ? EXIT_OURS : after.broken_seq ? EXIT_BROKEN : 0;
}
