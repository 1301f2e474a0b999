/*
 * plotly.js for pages: it comes with the Plotly package of the default template.
 *
 * A box of that template finds it, once; then it is kept in mark/plotly-HASH.js of the data
 * directory, where the hash is that of the template and its packages. The box is of nobody, so that
 * packages which a user installed for all of its boxes are not in it: what a page runs comes from
 * the operator. What the box hands over is checked to be text of a sensible length, and changed
 * where it would end the script element that it is put into.
 */
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/io.h"
#include "base/text/hex.h"
#include "base/text/utf8.h"
#include "mark/agent/text.h"
#include "mark/export/internal.h"

#include "base/banned.h"

#define SCRIPT_MAX (INT64_C(32) << 20)
#define SCRIPT_MIN 100000
#define WALL_US    (60 * USEC_PER_SEC)
#define IDLE_US    (120 * USEC_PER_SEC)
#define LISTENER   "export" /* whose set of packages is always empty */
#define FOUND      "plotly.js"

static const char find_program[] =
    "import sys\n"
    "try:\n"
    "    from plotly.offline import get_plotlyjs\n"
    "    text = get_plotlyjs()\n"
    "except Exception as error:\n"
    "    sys.exit(repr(error))\n"
    "with open('/workspace/" FOUND "', 'w', encoding='utf-8') as file:\n"
    "    file.write(text)\n";

/* ---- files ---- */

static char *kept_path(const struct exports *exports)
{
    struct service *service = exports->config.service;
    unsigned char hash[crypto_hash_sha256_BYTES];
    char digits[2 * sizeof hash + 1] = "", *path = NULL;
    struct text what = { 0 };

    text_printf(&what, "1 %s %s", service_template_name(service), service_packages_text(service));
    if (what.failed)
        return NULL;
    crypto_hash_sha256(hash, (unsigned char *) what.data, what.len);
    text_release(&what);
    for (size_t i = 0; i < sizeof hash; i++)
        hex_put(hash[i], digits + 2 * i);
    if (asprintf(&path, "%s/mark/plotly-%.32s.js", exports->config.data_dir, digits) < 0)
        return NULL;
    return path;
}

/* All of @fd; NULL if it is not the length of a script. */
static char *read_script(int fd, size_t *ret_len)
{
    struct stat st;
    char *text;
    ssize_t n;

    if (fstat(fd, &st) < 0 || st.st_size > SCRIPT_MAX || st.st_size < SCRIPT_MIN)
        return NULL;
    text = malloc((size_t) st.st_size + 1);
    n = text ? io_read_all(fd, text, (size_t) st.st_size) : -1;
    if (n != st.st_size) {
        free(text);
        return NULL;
    }
    text[n] = '\0';
    *ret_len = (size_t) n;
    return text;
}

static void keep(const char *path, const char *text, size_t len)
{
    autofree char *draft = NULL;
    autoclose int fd = -1;

    if (asprintf(&draft, "%s.new", path) < 0) {
        draft = NULL;
        return;
    }
    fd = open(draft, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 || io_write_all(fd, text, len) < 0 || rename(draft, path) < 0)
        (void) unlink(draft);
}

/* ---- the script ---- */

/* As it can stand in a script element: lines end as HTML reads them, so that the hash is that of
 * what is there; nothing in it ends the element or begins a comment. */
static char *fit_script(const char *text, size_t len, size_t *ret_len)
{
    struct text out = { 0 };

    if (memchr(text, '\0', len) || !utf8_valid(text, len))
        return NULL;
    for (size_t i = 0; i < len; i++) {
        if (text[i] == '\r') {
            if (text[i + 1] != '\n')
                text_add(&out, "\n", 1);
        } else if (text[i] == '<' &&
                   (text[i + 1] == '/' || text[i + 1] == '!' || (text[i + 1] | 32) == 's')) {
            /* Only in strings and patterns, where the two mean the same; "a<s" must stay. */
            if (strncasecmp(text + i + 1, "/script", 7) == 0)
                text_puts(&out, "<\\");
            else if (strncmp(text + i + 1, "!--", 3) == 0 ||
                     strncasecmp(text + i + 1, "script", 6) == 0)
                text_puts(&out, "\\x3c");
            else
                text_add(&out, "<", 1);
        } else {
            text_add(&out, text + i, 1);
        }
    }
    *ret_len = out.len;
    return text_take(&out);
}

static int run_finder(struct exports *exports, const struct caller *caller, struct session *session,
                      struct fault *fault)
{
    struct execution_request request;
    struct execution *execution = NULL;
    json_t *receipt = NULL;
    int r;

    execution_request_init(&request);
    request.kind = EXECUTION_CELL;
    request.code = find_program;
    request.code_len = strlen(find_program);
    request.limits.wall_us = WALL_US;
    r = execution_run_here(exports->config.service, caller, session, &request, &execution, fault);
    if (r == 0)
        r = execution_receipt(execution, &receipt, fault);
    if (r == 0 && strcmp(member_text(receipt, "status"), "ok") != 0)
        r = -1;
    json_decref(receipt);
    execution_unref(execution);
    return r;
}

static char *find_script(struct exports *exports, size_t *ret_len)
{
    struct caller nobody = { .listener = LISTENER, .limits = { -1, -1, -1 } };
    struct session_request request;
    struct session *session = NULL;
    struct file_reader reader = { .fd = -1 };
    struct fault fault = { 0 };
    autofree char *text = NULL;
    char *fit = NULL;
    size_t len = 0;

    session_request_init(&request);
    request.idle_us = IDLE_US;
    request.no_installs = true;
    if (session_create(exports->config.service, &nobody, &request, &session, &fault) == 0 &&
        run_finder(exports, &nobody, session, &fault) == 0 &&
        files_open(session, FOUND, strlen(FOUND), &reader, &fault) == 0) {
        text = read_script(reader.fd, &len);
        (void) close(reader.fd);
    }
    if (session)
        (void) session_delete(session, &fault);
    session_unref(session);
    if (text)
        fit = fit_script(text, len, ret_len);
    if (!fit)
        service_log(exports->config.service, LOG_LEVEL_INFO,
                    "exports: the template has no plotly.js; charts become tables");
    return fit;
}

char *plotly_script(struct exports *exports, size_t *ret_len)
{
    autofree char *path = NULL;
    autoclose int fd = -1;
    char *text = NULL;

    if (!exports->config.service)
        return NULL;
    path = kept_path(exports);
    if (!path)
        return NULL;
    (void) pthread_mutex_lock(&exports->plotly_lock);
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd >= 0)
        text = read_script(fd, ret_len);
    if (!text) {
        text = find_script(exports, ret_len);
        if (text)
            keep(path, text, *ret_len);
    }
    (void) pthread_mutex_unlock(&exports->plotly_lock);
    return text;
}
