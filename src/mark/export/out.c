/* The file that an export becomes, and text that is safe where it is put. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/io.h"
#include "base/text/base64.h"
#include "mark/export/internal.h"

#include "base/banned.h"

#define PIECE_BYTES ((size_t) 57 * 1024) /* a multiple of 3 */
#define LINE_CHARS  ((size_t) 128)

int nameless_open(struct exports *exports)
{
    autofree char *dir = NULL, *path = NULL;
    int fd;

    if (asprintf(&dir, "%s/mark", exports->config.data_dir) < 0) {
        dir = NULL;
        errno = ENOMEM;
        return -1;
    }
    if (mkdir(dir, 0700) < 0 && errno != EEXIST)
        return -1;
    fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT))
        return fd;
    if (asprintf(&path, "%s/.export-XXXXXX", dir) < 0) {
        path = NULL;
        errno = ENOMEM;
        return -1;
    }
    fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0)
        (void) unlink(path);
    return fd;
}

static int fail(int error, struct fault *fault)
{
    if (error == ENOMEM)
        return fault_no_memory(fault);
    if (error == EFBIG)
        return fault_set(fault, PROBLEM_EXPORT_TOO_LARGE, NULL,
                         "the export is too large; export single answers of the chat");
    if (error == ENOSPC || error == EDQUOT)
        return fault_set(fault, PROBLEM_DISK_FULL, NULL,
                         "the disk of the service has no room for the export");
    return fault_set(fault, PROBLEM_INTERNAL, NULL, "the export could not be written");
}

int out_open(struct exports *exports, int64_t max, struct out *ret_out, struct fault *fault)
{
    autoclose int fd = nameless_open(exports);
    FILE *file = fd < 0 ? NULL : fdopen(fd, "w+");

    if (!file)
        return fail(errno, fault);
    (void) TAKE_FD(fd);
    *ret_out = (struct out){ .file = file, .max = max };
    return 0;
}

static void add(struct out *out, const char *data, size_t len)
{
    if (out->error)
        return;
    if ((int64_t) len > out->max - out->bytes)
        out->error = EFBIG;
    else if (len > 0 && fwrite(data, 1, len, out->file) != len)
        out->error = errno ? errno : EIO;
    else
        out->bytes += (int64_t) len;
}

/* Within a string of JSON. */
static void add_quoted(struct out *out, const char *data, size_t len)
{
    size_t from = 0;
    char escape[8];

    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char) data[i];

        if (c >= ' ' && c != '"' && c != '\\' && c != 127)
            continue;
        add(out, data + from, i - from);
        (void) snprintf(escape, sizeof escape, c == '\n' ? "\\n" : "\\u%04x", c);
        add(out, escape, strlen(escape));
        from = i + 1;
    }
    add(out, data + from, len - from);
}

void out_add(struct out *out, const char *data, size_t len)
{
    if (out->quoted)
        add_quoted(out, data, len);
    else
        add(out, data, len);
}

void out_puts(struct out *out, const char *text)
{
    out_add(out, text, strlen(text));
}

void out_printf(struct out *out, const char *fmt, ...)
{
    autofree char *text = NULL;
    va_list ap;
    int len;

    va_start(ap, fmt);
    len = vasprintf(&text, fmt, ap);
    va_end(ap);
    if (len < 0) {
        text = NULL;
        out->error = out->error ? out->error : ENOMEM;
    } else {
        out_add(out, text, (size_t) len);
    }
}

static int dump_piece(const char *data, size_t len, void *arg)
{
    struct out *out = arg;
    size_t from = 0;

    /* "<" begins nothing, and ends no script either. It is only ever inside of a string. */
    for (size_t i = 0; i < len; i++)
        if (data[i] == '<' || data[i] == '>' || data[i] == '&') {
            out_add(out, data + from, i - from);
            out_printf(out, "\\u%04x", (unsigned) data[i]);
            from = i + 1;
        }
    out_add(out, data + from, len - from);
    return out->error ? -1 : 0;
}

void out_json(struct out *out, const json_t *json)
{
    if (!out->error && json_dump_callback(json, dump_piece, out,
                                          JSON_COMPACT | JSON_ENCODE_ANY | JSON_ENSURE_ASCII) < 0)
        out->error = out->error ? out->error : ENOMEM;
}

void out_html(struct out *out, const char *text)
{
    for (;;) {
        size_t plain = strcspn(text, "&<>\"'");

        out_add(out, text, plain);
        text += plain;
        if (!*text)
            return;
        out_printf(out, "&#%d;", *text++);
    }
}

void out_base64(struct out *out, int fd)
{
    autofree char *buf = malloc(PIECE_BYTES);
    ssize_t n = 0;

    if (!buf)
        out->error = out->error ? out->error : ENOMEM;
    while (buf && !out->error && (n = io_read_all(fd, buf, PIECE_BYTES)) > 0) {
        autofree char *text = base64_encode(buf, (size_t) n);
        size_t len = text ? strlen(text) : 0;

        if (!text)
            out->error = ENOMEM;
        for (size_t i = 0; i < len; i += LINE_CHARS) {
            out_add(out, text + i, len - i < LINE_CHARS ? len - i : LINE_CHARS);
            out_add(out, "\n", 1);
        }
    }
    if (n < 0)
        out->error = out->error ? out->error : (int) -n;
}

void out_release(struct out *out)
{
    if (out->file)
        (void) fclose(out->file);
    *out = (struct out){ 0 };
}

int out_finish(struct out *out, struct export_file *ret_file, struct fault *fault)
{
    int error = out->error, fd = -1;

    if (!error && (fflush(out->file) != 0 || fseeko(out->file, 0, SEEK_SET) != 0))
        error = errno;
    if (!error) {
        fd = fcntl(fileno(out->file), F_DUPFD_CLOEXEC, 3);
        error = fd < 0 ? errno : 0;
    }
    if (!error) {
        ret_file->size = out->bytes;
        ret_file->fd = fd;
    }
    out_release(out);
    return error ? fail(error, fault) : 0;
}
