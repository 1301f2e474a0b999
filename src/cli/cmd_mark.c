/* `glovebox mark`: what an operator of Mark needs besides a running service. */
#include <errno.h>
#include <stdio.h>

#include "cli/cmd.h"
#include "mark/sample.h"

#include "base/banned.h"

static int print_sample(struct gb_err *err)
{
    return fputs(mark_sample_csv, stdout) < 0 || fflush(stdout) != 0
               ? gb_fail(err, EIO, "print the sample data")
               : 0;
}

int cmd_mark(const struct config *cfg)
{
    struct gb_err err = { 0 };
    int r;

    (void) cfg; /* sample is the only subcommand */
    r = print_sample(&err);
    if (r < 0)
        say("%s", err.msg);
    return r < 0 ? EXIT_OURS : 0;
}
