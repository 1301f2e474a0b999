#include "cli/teller.h"

#include <stdio.h>
#include <unistd.h>

#include "cli/cmd.h"

#include "base/banned.h"

#define PARTS 4 /* lines about one download, without a terminal */

void teller_init(struct teller *teller, const char *name)
{
    *teller = (struct teller){ .name = name, .terminal = isatty(STDERR_FILENO) != 0, .stage = -1 };
}

static void describe(const struct install_progress *progress, char *buf, size_t size)
{
    char bytes[CMD_BYTES_MAX], total[CMD_BYTES_MAX];

    if (progress->stage == INSTALL_RESOLVING)
        snprintf(buf, size, "looking up the packages");
    else if (progress->stage == INSTALL_UNPACKING)
        snprintf(buf, size, "unpacking, %lld of %lld packages done", (long long) progress->done,
                 (long long) progress->total);
    else if (progress->bytes_total == 0)
        snprintf(buf, size, "fetching %.60s", progress->name);
    else
        snprintf(buf, size, "fetching, %lld of %lld packages, %s of %s (%d %%)%s%.60s",
                 (long long) progress->done, (long long) progress->total,
                 cmd_bytes(progress->bytes, bytes), cmd_bytes(progress->bytes_total, total),
                 (int) (100 * progress->bytes / progress->bytes_total),
                 progress->name[0] ? ": " : "", progress->name);
}

void teller_tell(void *arg, const struct install_progress *progress)
{
    struct teller *teller = arg;
    int64_t part = progress->bytes_total > 0 ? PARTS * progress->bytes / progress->bytes_total : 0;
    char what[200], text[300];

    /* Without a terminal only what a log should have. */
    if (!teller->terminal && (progress->stage == INSTALL_UNPACKING ||
                              (teller->stage >= (int) progress->stage && part <= teller->part)))
        return;
    teller->part = part > teller->part ? part : teller->part;
    if (teller->stage < (int) progress->stage)
        teller->stage = (int) progress->stage;
    describe(progress, what, sizeof what);
    snprintf(text, sizeof text, "%.80s%s%s", teller->name ? teller->name : "",
             teller->name ? ": " : "", what);
    if (teller->terminal)
        cmd_show_progress(text);
    else
        say("%s", text);
}
