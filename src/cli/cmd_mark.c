/* `glovebox mark`: what an operator of Mark needs besides a running service. */
#include <errno.h>
#include <stdio.h>

#include "cli/cmd.h"
#include "mark/chat/chats.h"
#include "mark/sample.h"

#include "base/banned.h"

static int print_sample(struct gb_err *err)
{
    if (fputs(mark_sample_csv, stdout) >= 0 && fflush(stdout) == 0)
        return 0;
    return errno == EPIPE ? 0 : gb_fail(err, errno, "print the sample data"); /* | head */
}

/* One line: JSON has no line breaks of its own, and escapes those in texts. */
static int print_entry(void *arg, const json_t *entry)
{
    (void) arg;
    return json_dumpf(entry, stdout, JSON_COMPACT) < 0 || fputc('\n', stdout) == EOF ? -EIO : 0;
}

static int export_feedback(const struct config *cfg, struct gb_err *err)
{
    struct store *store = NULL;
    int r = cmd_open_store(cfg, true, &store, err);

    if (r < 0)
        return r;
    err->code = 0;
    r = chat_feedback_export(store, cmd_since(cfg), print_entry, NULL, err);
    if (r >= 0 && fflush(stdout) != 0)
        r = -EIO;
    store_close(store);
    return r < 0 && err->code == 0 ? gb_fail(err, EIO, "print the ratings") : r;
}

int cmd_mark(const struct config *cfg)
{
    struct gb_err err = { 0 };
    int r = cfg->action == ACTION_MARK_EXPORT_FEEDBACK ? export_feedback(cfg, &err)
                                                       : print_sample(&err);

    if (r < 0)
        say("%s", err.msg);
    return r < 0 ? EXIT_OURS : 0;
}
