/*
 * `glovebox mark export`: a chat or an answer of a data directory as a file.
 *
 * Whoever may read the data directory is an operator, so the chat may be anybody's. Most formats
 * need the store and the attached files only; a page gets plotly.js from a box, and a whole table
 * is computed in one: for those there is a service of our own (local.h). A running service may have
 * the data directory open too.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/io.h"
#include "base/text/parse.h"
#include "cli/local.h"
#include "mark/export/export.h"

#include "base/banned.h"

#define COPY_BYTES ((size_t) 256 * 1024)

enum { EXIT_REFUSED = 1 };

struct exporting {
    const struct config *cfg;
    struct local local;
    struct store *store;
    struct attachments *attachments;
    struct exports *exports; /* ours; NULL: Mark's */
    char *data_dir;
    struct caller caller; /* whose chat it is */
    bool chat;            /* the id is of a chat, not of an answer */
    int format;           /* enum export_format, or -1 */
    int table_format;     /* enum export_table_format, or -1 */
};

/* ---- what is wanted ---- */

static int find_word(const char *const *words, const char *word)
{
    for (int i = 0; words[i]; i++)
        if (strcmp(words[i], word) == 0)
            return i;
    return -1;
}

/* --format, or what the name of the file ends with. */
static int choose_format(struct exporting *e, struct gb_err *err)
{
    static const char *const tables[] = EXPORT_TABLE_FORMAT_WORDS;
    const char *dot = e->cfg->out_dir ? strrchr(e->cfg->out_dir, '.') : NULL;
    const char *word = e->cfg->mark_format ? e->cfg->mark_format : dot ? dot + 1 : "";

    if (e->cfg->mark_table > 0) {
        e->table_format = find_word(tables, word);
        return e->table_format >= 0
                   ? 0
                   : gb_fail_plain(err, EINVAL,
                                   "say --format csv, xlsx, parquet or json, or --out with such an "
                                   "ending");
    }
    e->format = find_word(export_format_names, word);
    return e->format >= 0
               ? 0
               : gb_fail_plain(err, EINVAL,
                               "say --format ipynb, html, md, json or zip, or --out with "
                               "such an ending; csv, xlsx and parquet are for --table N");
}

/* ---- opening ---- */

/* With boxes: Mark over the answers and inputs of the data directory. */
static int open_mark(struct exporting *e, struct gb_err *err)
{
    struct mark_config config = { 0 };
    int r = mark_models_read(e->cfg, &e->local.models, err);

    if (r == 0)
        r = local_open(&e->local, err);
    if (r < 0)
        return r;
    local_fill(&e->local, &config);
    config.store = e->store;
    config.data_dir = e->data_dir;
    config.agent.keep_pending = true;
    config.models.find_local = false; /* no model is asked */
    config.models.environ = NULL;
    return local_open_mark(&e->local, &config, err);
}

static int open_all(struct exporting *e, struct gb_err *err)
{
    struct attachments_config attachments = { 0 };
    struct exports_config exports = { 0 };
    int r = choose_format(e, err);

    if (r == 0)
        r = cmd_data_dir(e->cfg, &e->data_dir, err);
    if (r == 0)
        r = cmd_open_store(e->cfg, true, &e->store, err);
    if (r == 0)
        r = export_find(e->store, e->cfg->args[0], &e->caller, &e->chat, err);
    if (r == 0 && e->table_format >= 0 && e->chat)
        r = gb_fail_plain(err, EINVAL,
                          "--table needs the id of an answer, and this is that of a chat");
    if (r < 0)
        return r;
    if (e->table_format >= 0 || e->format == EXPORT_HTML)
        return open_mark(e, err);
    attachments.store = exports.store = e->store;
    attachments.data_dir = exports.data_dir = e->data_dir;
    r = attachments_open(&attachments, &e->attachments, err);
    exports.attachments = e->attachments;
    return r < 0 ? r : exports_open(&exports, &e->exports, err);
}

/* ---- writing ---- */

static int write_file(const struct config *cfg, struct export_file *file, struct gb_err *err)
{
    autofree char *buf = malloc(COPY_BYTES);
    char quoted[FORMAT_QUOTED_MAX] = "the export";
    autoclose int made = -EBADF;
    int fd = STDOUT_FILENO, r = 0;
    ssize_t n = 0;

    if (cfg->out_dir) {
        format_quoted(cfg->out_dir, quoted);
        fd = made = open(cfg->out_dir, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY, 0666);
    }
    if (fd < 0 || !buf)
        return gb_fail(err, fd < 0 ? errno : ENOMEM, "write %s", quoted);
    while (r == 0 && (n = io_read_all(file->fd, buf, COPY_BYTES)) > 0)
        r = io_write_all(fd, buf, (size_t) n);
    if (n < 0)
        r = (int) n;
    if (r < 0 && r != -EPIPE) /* | head */
        return gb_fail(err, -r, "write %s", quoted);
    return 0;
}

static int make(struct exporting *e, struct export_file *ret_file, struct fault *fault)
{
    struct exports *exports = e->exports ? e->exports : mark_exports(e->local.mark);
    const char *id = e->cfg->args[0];

    if (e->table_format >= 0)
        return export_table(exports, &e->caller, id, e->cfg->mark_table,
                            (enum export_table_format) e->table_format, false, ret_file, fault);
    return e->chat ? export_chat(exports, &e->caller, id, (enum export_format) e->format, ret_file,
                                 fault)
                   : export_message(exports, &e->caller, id, (enum export_format) e->format,
                                    ret_file, fault);
}

static int run(struct exporting *e)
{
    struct export_file file = { .fd = -1 };
    struct fault fault = { 0 };
    struct gb_err err = { 0 };
    int r = open_all(e, &err);

    if (r < 0) {
        say("%s", err.msg);
        return r == -EINVAL ? EXIT_USAGE : r == -ENOENT ? EXIT_REFUSED : EXIT_OURS;
    }
    if (make(e, &file, &fault) < 0) {
        say("%s", fault.detail);
        return EXIT_REFUSED;
    }
    r = write_file(e->cfg, &file, &err);
    (void) close(file.fd);
    export_fetched(file.turn);
    if (r < 0)
        say("%s", err.msg);
    return r < 0 ? EXIT_OURS : 0;
}

int cmd_mark_export(const struct config *cfg)
{
    struct exporting e = {
        .cfg = cfg, .local = LOCAL_INIT(cfg, "export"), .format = -1, .table_format = -1
    };
    int code = run(&e);

    exports_close(e.exports);
    attachments_close(e.attachments);
    local_close(&e.local);
    mark_models_release(&e.local.models);
    store_close(e.store);
    free(e.data_dir);
    return code;
}
