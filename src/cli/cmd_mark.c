/* `glovebox mark`: what an operator of Mark needs besides a running service. */
#include <errno.h>
#include <stdio.h>

#include "base/text/parse.h"
#include "cli/cmd.h"
#include "mark/chat/chats.h"
#include "mark/sample.h"

#include "base/banned.h"

static int print_sample(const struct config *cfg, struct gb_err *err)
{
    const char *name = cfg->args_len > 0 ? cfg->args[0] : NULL;
    char quoted[FORMAT_QUOTED_MAX];
    int r = mark_sample_print(name, stdout);

    if (r == -ENOENT) {
        format_quoted(name, quoted);
        return gb_fail_plain(err, EINVAL, "there is no sample %s; it is one of: %s", quoted,
                             mark_sample_names);
    }
    if (r < 0 && errno != EPIPE) /* | head */
        return gb_fail(err, errno, "print the sample data");
    return 0;
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
    int r;

    if (cfg->action == ACTION_MARK_EVAL)
        return cmd_eval(cfg);
    if (cfg->action == ACTION_MARK_EXPORT)
        return cmd_mark_export(cfg);
    if (cfg->action == ACTION_MARK_VERIFY)
        return cmd_mark_verify(cfg);
    r = cfg->action == ACTION_MARK_EXPORT_FEEDBACK ? export_feedback(cfg, &err)
                                                   : print_sample(cfg, &err);
    if (r < 0)
        say("%s", err.msg);
    return r == -EINVAL ? EXIT_USAGE : r < 0 ? EXIT_OURS : 0;
}
