/*
 * What an answer leaves in the caller's directories, if asked to: its story, tables, charts and the
 * files that its code wrote.
 *
 * Names and contents are a stranger's. A file of the box is saved under the last part of its path,
 * if that is a harmless name; nothing is written through a link. A chart is a Plotly specification,
 * which we keep as it is; pictures and pages of it are made by Plotly in a box, never here, and
 * where the box has no Plotly there is only the specification.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/text/parse.h"
#include "base/text/percent.h"
#include "cli/ask.h"
#include "cli/terminal/answer_text.h"
#include "mark/export/export.h"
#include "service/service.h"

#include "base/banned.h"

#define NAME_BYTES_MAX 255
#define CHARTS_MAX     50
#define PAGES_MAX      5 /* each has all of plotly.js in it, several megabytes */
#define COPY_BYTES     ((size_t) 256 * 1024)
#define RENDER_US      (60 * USEC_PER_SEC)
#define RENDERED_MAX   (INT64_C(64) << 20)

struct save {
    const struct config *cfg;
    struct service *service;
    struct exports *exports;
    const struct caller *caller;
    const json_t *response;
    struct session *renderer; /* a box with Plotly, made when it is first needed; NULL: none yet */
    bool no_renderer;         /* it could not be made, or has no Plotly */
    int lost;
};

/* ---- before ---- */

/* The directory in which @path is, for free(). */
static char *parent_of(const char *path)
{
    const char *slash = strrchr(path, '/');

    return !slash          ? strdup(".")
           : slash == path ? strdup("/")
                           : strndup(path, (size_t) (slash - path));
}

int ask_save_check(const struct config *cfg, struct gb_err *err)
{
    char quoted[FORMAT_QUOTED_MAX];
    autofree char *parent = cfg->ask_chart ? parent_of(cfg->ask_chart) : NULL;

    if (cfg->ask_chart && (!parent || access(parent, W_OK) < 0)) {
        format_quoted(cfg->ask_chart, quoted);
        return gb_fail(err, parent ? errno : ENOMEM, "write the chart %s", quoted);
    }
    if (cfg->out_dir && mkdir(cfg->out_dir, 0777) < 0 && errno != EEXIST) {
        format_quoted(cfg->out_dir, quoted);
        return gb_fail(err, errno, "create %s", quoted);
    }
    if (cfg->out_dir && access(cfg->out_dir, W_OK | X_OK) < 0) {
        format_quoted(cfg->out_dir, quoted);
        return gb_fail(err, errno, "write to %s", quoted);
    }
    return 0;
}

/* ---- files ---- */

static void lose(struct save *save, const char *name, const char *why)
{
    char quoted[FORMAT_QUOTED_MAX];

    format_quoted(name, quoted);
    say("%s was not saved: %s", quoted, why);
    save->lost++;
}

/* Opens @name in @dir_fd for writing; a link is not followed. */
static FILE *open_new(int dir_fd, const char *name)
{
    int fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY,
                    0666);
    FILE *out = fd < 0 ? NULL : fdopen(fd, "w");

    if (!out && fd >= 0)
        (void) close(fd);
    return out;
}

static void close_new(struct save *save, FILE *out, const char *name, int r)
{
    if (out && ferror(out))
        r = -EIO;
    if (out && fclose(out) != 0)
        r = -errno;
    if (!out || r < 0)
        lose(save, name, strerrordesc_np(out ? -r : errno));
}

static int copy_fd(int from, FILE *out, int64_t most)
{
    autofree char *buf = malloc(COPY_BYTES);
    ssize_t n = 1;

    if (!buf)
        return -ENOMEM;
    while (most > 0 && (n = io_read_all(from, buf, COPY_BYTES)) > 0) {
        if (fwrite(buf, 1, (size_t) n, out) != (size_t) n)
            return -EIO;
        most -= n;
    }
    return n < 0 ? (int) n : most <= 0 ? -EFBIG : 0;
}

/* Letters, digits and harmless signs, and not hidden. Bytes above ASCII are UTF-8 by the receipt.
 */
static bool is_harmless(const char *name)
{
    size_t len = strlen(name);

    if (len == 0 || len > NAME_BYTES_MAX || name[0] == '.' || name[0] == '-')
        return false;
    for (const char *p = name; *p; p++)
        if ((unsigned char) *p < ' ' || *p == 127 || strchr("/\\:*?\"<>|", *p))
            return false;
    return true;
}

/* "/v1/sessions/ID/files/PATH" as its two parts. */
static bool url_split(const char *url, char id[SESSION_ID_MAX], char path[FILE_PATH_MAX + 1],
                      size_t *ret_len)
{
    static const char before[] = "/v1/sessions/", between[] = "/files/";
    const char *rest;
    size_t len;

    if (!url || strncmp(url, before, strlen(before)) != 0)
        return false;
    url += strlen(before);
    rest = strstr(url, between);
    len = rest ? (size_t) (rest - url) : 0;
    if (len == 0 || len >= SESSION_ID_MAX)
        return false;
    memcpy(id, url, len);
    id[len] = '\0';
    rest += strlen(between);
    for (len = 0; *rest && len < FILE_PATH_MAX; len++) {
        int byte = *rest == '%' ? percent_byte(rest, strlen(rest)) : (unsigned char) *rest;

        if (byte <= 0)
            return false;
        path[len] = (char) byte;
        rest += *rest == '%' ? 3 : 1;
    }
    *ret_len = len;
    return *rest == '\0' && len > 0;
}

static int open_artifact(struct save *save, const json_t *artifact, struct file_reader *ret_reader)
{
    const char *url = json_string_value(json_object_get(artifact, "url"));
    char id[SESSION_ID_MAX], path[FILE_PATH_MAX + 1];
    struct session *session = NULL;
    struct fault fault = { 0 };
    size_t len = 0;
    int r;

    if (!url_split(url, id, path, &len) ||
        session_find(save->service, save->caller, id, &session, &fault) < 0)
        return -1;
    r = files_open(session, path, len, ret_reader, &fault);
    session_unref(session);
    return r;
}

static void save_artifact(struct save *save, int dir_fd, const char *as, const json_t *artifact)
{
    struct file_reader reader = { .fd = -EBADF };
    FILE *out;

    if (open_artifact(save, artifact, &reader) < 0) {
        lose(save, as, "the file is no longer there");
        return;
    }
    out = open_new(dir_fd, as);
    close_new(save, out, as, out ? copy_fd(reader.fd, out, INT64_MAX) : 0);
    (void) close(reader.fd);
}

static void save_artifacts(struct save *save, int dir_fd)
{
    json_t *artifact;
    size_t i;

    json_array_foreach (json_object_get(save->response, "artifacts"), i, artifact) {
        const char *name = json_string_value(json_object_get(artifact, "name"));
        const char *slash = name ? strrchr(name, '/') : NULL;
        const char *as = slash ? slash + 1 : name;

        if (!name || !is_harmless(as))
            lose(save, name ? name : "a file", "its name is not one for your directory");
        else
            save_artifact(save, dir_fd, as, artifact);
    }
}

/* ---- charts ---- */

/* Reads chart.json, and writes what the name of the output says. */
static const char render_code[] =
    "import plotly.io\n"
    "def render(name):\n"
    "    with open('chart.json', encoding='utf-8') as f:\n"
    "        figure = plotly.io.from_json(f.read(), skip_invalid=True)\n"
    "    if name.endswith('.html'):\n"
    "        figure.write_html(name, include_plotlyjs=True, full_html=True)\n"
    "    else:\n"
    "        figure.write_image(name, scale=2)\n";

static int put_spec(struct session *session, const json_t *spec, struct fault *fault)
{
    autofree char *text = json_dumps(spec, JSON_COMPACT | JSON_REAL_PRECISION(17));
    struct file_upload *upload = NULL;
    bool created;

    if (!text)
        return fault_no_memory(fault);
    if (files_upload_begin(session, "chart.json", strlen("chart.json"), (int64_t) strlen(text),
                           &upload, fault) < 0)
        return -1;
    if (files_upload_write(upload, text, strlen(text), fault) < 0) {
        files_upload_abort(upload);
        return -1;
    }
    return files_upload_commit(upload, &created, fault);
}

/* Runs @code in the renderer's session; -1 unless it ended well. */
static int run_code(struct save *save, const char *code)
{
    struct execution *execution = NULL;
    struct execution_request request;
    struct fault fault = { 0 };
    json_t *receipt = NULL;
    bool ok = false;

    execution_request_init(&request);
    request.kind = EXECUTION_CELL;
    request.code = code;
    request.code_len = strlen(code);
    request.limits.wall_us = RENDER_US;
    if (execution_run_here(save->service, save->caller, save->renderer, &request, &execution,
                           &fault) == 0 &&
        execution_receipt(execution, &receipt, &fault) == 0)
        ok = json_is_true(json_object_get(receipt, "success"));
    json_decref(receipt);
    execution_unref(execution);
    return ok ? 0 : -1;
}

static bool have_renderer(struct save *save)
{
    struct session_request request;
    struct fault fault = { 0 };

    if (save->renderer || save->no_renderer)
        return save->renderer != NULL;
    session_request_init(&request);
    if (session_create(save->service, save->caller, &request, &save->renderer, &fault) < 0)
        save->renderer = NULL;
    else if (run_code(save, render_code) < 0) {
        (void) session_delete(save->renderer, &fault);
        session_unref(save->renderer);
        save->renderer = NULL;
    }
    save->no_renderer = !save->renderer;
    return save->renderer != NULL;
}

/* Makes a picture or a page of @spec in a box: open for reading in *@ret_reader. @kind is "png"
 * or "html". */
static int render(struct save *save, const json_t *spec, const char *kind,
                  struct file_reader *ret_reader)
{
    struct fault fault = { 0 };
    char code[64], name[32];

    if (!have_renderer(save) || put_spec(save->renderer, spec, &fault) < 0)
        return -1;
    snprintf(name, sizeof name, "chart.%s", kind);
    snprintf(code, sizeof code, "render('%s')", name);
    if (run_code(save, code) < 0)
        return -1;
    return files_open(save->renderer, name, strlen(name), ret_reader, &fault);
}

static void save_spec(struct save *save, int dir_fd, const char *name, const json_t *spec)
{
    FILE *out = open_new(dir_fd, name);
    int r = out ? json_dumpf(spec, out, JSON_COMPACT | JSON_REAL_PRECISION(17)) : 0;

    close_new(save, out, name, r < 0 ? -EIO : 0);
}

/* A specification can name pictures on the Internet, and a page that loads one tells its server
 * that it was opened, and whatever the model put into the address. So a page gets a policy by which
 * it loads nothing; it comes first, and from here and not from the box. */
static const char page_policy[] =
    "<!doctype html>\n<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
    "script-src 'unsafe-inline' 'unsafe-eval' blob:; style-src 'unsafe-inline'; img-src data: "
    "blob:; font-src data:; form-action 'none'; base-uri 'none'\">\n";

/* Returns false if the box cannot make it. */
static bool save_rendered(struct save *save, int dir_fd, const char *name, const char *kind,
                          const json_t *spec)
{
    struct file_reader reader = { .fd = -EBADF };
    FILE *out;

    if (render(save, spec, kind, &reader) < 0)
        return false;
    out = open_new(dir_fd, name);
    if (out && strcmp(kind, "html") == 0)
        (void) fputs(page_policy, out);
    close_new(save, out, name, out ? copy_fd(reader.fd, out, RENDERED_MAX) : 0);
    (void) close(reader.fd);
    return true;
}

static void save_charts(struct save *save, int dir_fd)
{
    json_t *spec;
    size_t i;

    json_array_foreach (json_object_get(save->response, "visualizations"), i, spec) {
        char name[32];

        if (i == CHARTS_MAX)
            break;
        snprintf(name, sizeof name, "chart-%zu.json", i + 1);
        save_spec(save, dir_fd, name, spec);
        snprintf(name, sizeof name, "chart-%zu.png", i + 1);
        (void) save_rendered(save, dir_fd, name, "png", spec);
        snprintf(name, sizeof name, "chart-%zu.html", i + 1);
        if (i < PAGES_MAX)
            (void) save_rendered(save, dir_fd, name, "html", spec);
    }
    if (save->no_renderer && i > 0)
        say("charts are saved as Plotly's JSON only: the template of the box has no Plotly "
            "(glovebox template add data)");
}

/* The picture that matplotlib made, if that is what there is. */
static const json_t *find_picture(const json_t *response)
{
    json_t *artifact;
    size_t i;

    json_array_foreach (json_object_get(response, "artifacts"), i, artifact) {
        const char *media = json_string_value(json_object_get(artifact, "media_type"));

        if (media && strcmp(media, "image/png") == 0)
            return artifact;
    }
    return NULL;
}

static bool ends_with(const char *text, const char *end)
{
    size_t len = strlen(text), end_len = strlen(end);

    return len > end_len && strcmp(text + len - end_len, end) == 0;
}

static void save_chart(struct save *save, const char *path)
{
    static const char *const kinds[] = { "png", "html" };
    const json_t *spec = json_array_get(json_object_get(save->response, "visualizations"), 0);
    const json_t *picture = find_picture(save->response);

    if (!spec && picture && ends_with(path, ".png")) {
        save_artifact(save, AT_FDCWD, path, picture);
        return;
    }
    if (!spec) {
        lose(save, path, "the answer has no chart");
        return;
    }
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
        char end[8];

        snprintf(end, sizeof end, ".%s", kinds[i]);
        if (!ends_with(path, end))
            continue;
        if (!save_rendered(save, AT_FDCWD, path, kinds[i], spec))
            lose(save, path,
                 "the box could not draw it; a name that ends in .json saves Plotly's "
                 "specification");
        return;
    }
    save_spec(save, AT_FDCWD, path, spec);
}

/* ---- all of it ---- */

static void save_text(struct save *save, int dir_fd)
{
    const char *story = json_string_value(json_object_get(save->response, "answer_story"));
    FILE *out = open_new(dir_fd, "story.md");
    char name[32];
    json_t *table;
    size_t i;

    close_new(save, out, "story.md", out && story && fputs(story, out) < 0 ? -EIO : 0);
    save_spec(save, dir_fd, "answer.json", save->response);
    json_array_foreach (json_object_get(save->response, "data"), i, table) {
        snprintf(name, sizeof name, "table-%zu.csv", i + 1);
        out = open_new(dir_fd, name);
        close_new(save, out, name, out ? answer_write_csv(out, table) : 0);
    }
}

/* The answer as a notebook and as a page. One that is too large is told, and no loss: all that is
 * in it is saved otherwise. */
static void save_exports(struct save *save, int dir_fd)
{
    static const enum export_format formats[] = { EXPORT_IPYNB, EXPORT_HTML };
    const char *id = json_string_value(json_object_get(save->response, "message_id"));

    for (size_t i = 0; id && i < ARRAY_LEN(formats); i++) {
        struct export_file file = { .fd = -EBADF };
        struct fault fault = { 0 };
        char name[32];
        FILE *out;

        snprintf(name, sizeof name, "answer.%s", export_format_names[formats[i]]);
        if (export_message(save->exports, save->caller, id, formats[i], &file, &fault) < 0) {
            say("%s was not saved: %s", name, fault.detail);
            continue;
        }
        out = open_new(dir_fd, name);
        close_new(save, out, name, out ? copy_fd(file.fd, out, INT64_MAX) : 0);
        (void) close(file.fd);
        export_fetched(file.turn);
    }
}

int ask_save(const struct config *cfg, struct service *service, struct exports *exports,
             const struct caller *caller, const json_t *response)
{
    struct save save = {
        .cfg = cfg, .service = service, .exports = exports, .caller = caller, .response = response
    };
    struct fault fault = { 0 };
    autoclose int dir_fd = -EBADF;

    if (cfg->out_dir) {
        dir_fd = open(cfg->out_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (dir_fd < 0) {
            lose(&save, cfg->out_dir, strerrordesc_np(errno));
        } else {
            save_artifacts(&save, dir_fd); /* first: ours replace files of the same names */
            save_text(&save, dir_fd);
            save_charts(&save, dir_fd);
            save_exports(&save, dir_fd);
        }
    }
    if (cfg->ask_chart)
        save_chart(&save, cfg->ask_chart);
    if (save.renderer)
        (void) session_delete(save.renderer, &fault);
    session_unref(save.renderer);
    return save.lost;
}
