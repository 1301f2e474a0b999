#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/text/utf8.h"

#include "base/banned.h"

static enum log_level max_level = LOG_LEVEL_INFO;
static enum log_format line_format = LOG_FORMAT_TEXT;
static int log_fd = STDERR_FILENO;

const char *const log_level_names[] = {
#define LEVEL(name, word) word,
#include "base/words/log_levels.def"
    NULL,
};
const char *const log_format_names[] = { "text", "json", NULL };

/* A line under construction. Pieces that do not fit are left out; the end of the line always
 * fits. */
struct line {
    char *buf;
    size_t len, size;
};

static void put(struct line *line, const char *data, size_t len)
{
    if (line->len + len > line->size)
        len = 0; /* a piece is complete or absent, so that no escape is cut in two */
    memcpy(line->buf + line->len, data, len);
    line->len += len;
}

static void put_text(struct line *line, const char *text)
{
    put(line, text, strlen(text));
}

/* Bytes that a terminal or a reader of lines could act on. U+0080 to U+009F are control characters
 * too, and so are the marks that change the direction of text. */
static bool is_harmful(const char *p, size_t len)
{
    if (len == 1)
        return (unsigned char) *p < 0x20 || *p == 0x7f;
    if (len == 2)
        return (unsigned char) p[0] == 0xc2 && (unsigned char) p[1] < 0xa0;
    /* U+2028 to U+202E: separators of lines and paragraphs, changes of direction */
    return len == 3 && (unsigned char) p[0] == 0xe2 && (unsigned char) p[1] == 0x80 &&
           (unsigned char) p[2] >= 0xa8 && (unsigned char) p[2] <= 0xae;
}

static void put_escape(struct line *line, const char *p, size_t len)
{
    unsigned code = (unsigned char) p[0];
    char escape[8];

    if (len == 2)
        code = (unsigned char) p[1];
    else if (len == 3)
        code = 0x2000u | ((unsigned char) p[2] & 0x3fu); /* all marks are U+20xx */
    snprintf(escape, sizeof escape, "\\u%04x", code);
    put(line, escape, 6);
}

/* In quotes, as in JSON; used for text too. */
static void put_quoted(struct line *line, const char *text)
{
    size_t left = strlen(text), len;

    /* Room for the closing quote and the end of the line. */
    line->size -= 4;
    put(line, "\"", 1);
    for (; left > 0; text += len, left -= len) {
        enum utf8_kind kind = utf8_next(text, left, &len);

        if (kind != UTF8_CHAR)
            put(line, "\\ufffd", 6);
        else if (is_harmful(text, len))
            put_escape(line, text, len);
        else if (*text == '"' || *text == '\\')
            put(line, (const char[]){ '\\', *text }, 2);
        else
            put(line, text, len);
    }
    line->size += 4;
    put(line, "\"", 1);
}

static bool is_plain(const char *text)
{
    return *text && text[strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                      "0123456789_-./:{}*")] == '\0';
}

static void put_number(struct line *line, const struct log_field *field)
{
    char text[32];

    if (field->type == LOG_FIELD_MSEC)
        snprintf(text, sizeof text, "%.3f", (double) field->number / 1000);
    else
        snprintf(text, sizeof text, "%lld", (long long) field->number);
    put_text(line, text);
}

static void put_field(struct line *line, enum log_format format, const struct log_field *field)
{
    /* Only the value's own text may be cut, and room for the end of the line always remains. */
    if (field->type == LOG_FIELD_TEXT && !field->text)
        return;
    if (line->size - line->len < strlen(field->name) + 48)
        return;
    if (format == LOG_FORMAT_JSON) {
        put_text(line, ",\"");
        put_text(line, field->name);
        put_text(line, "\":");
    } else {
        put_text(line, " ");
        put_text(line, field->name);
        put_text(line, "=");
    }
    if (field->type != LOG_FIELD_TEXT)
        put_number(line, field);
    else if (format == LOG_FORMAT_TEXT && is_plain(field->text) && strlen(field->text) < 256)
        put_text(line, field->text);
    else
        put_quoted(line, field->text);
}

static void put_time(struct line *line, int64_t wall_us)
{
    time_t seconds = (time_t) (wall_us / 1000000);
    char day[32], all[48];
    struct tm tm;

    if (!gmtime_r(&seconds, &tm) || strftime(day, sizeof day, "%Y-%m-%dT%H:%M:%S", &tm) == 0)
        day[0] = '\0';
    snprintf(all, sizeof all, "%s.%03dZ", day, (int) (wall_us / 1000 % 1000));
    put_text(line, all);
}

size_t log_format_line(enum log_format format, enum log_level level, int64_t wall_us,
                       const char *event, const struct log_field *fields, char buf[LOG_LINE_MAX])
{
    struct line line = { buf, 0, LOG_LINE_MAX - 2 };
    bool json = format == LOG_FORMAT_JSON;

    put_text(&line, json ? "{\"time\":\"" : "");
    put_time(&line, wall_us);
    put_text(&line, json ? "\",\"level\":\"" : " ");
    put_text(&line, log_level_names[level]);
    put_text(&line, json ? "\",\"event\":" : " ");
    if (json || !is_plain(event))
        put_quoted(&line, event);
    else
        put_text(&line, event);
    for (; fields->type != LOG_FIELD_END; fields++)
        put_field(&line, format, fields);
    line.size = LOG_LINE_MAX;
    put_text(&line, json ? "}\n" : "\n");
    return line.len;
}

int log_open(enum log_level level, enum log_format format, const char *path, struct gb_err *err)
{
    int fd = STDERR_FILENO;

    if (path) {
        fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0640);
        if (fd < 0)
            return gb_fail(err, errno, "open the log file '%s'", path);
    }
    log_close();
    max_level = level;
    line_format = format;
    log_fd = fd;
    return 0;
}

void log_close(void)
{
    if (log_fd != STDERR_FILENO)
        (void) close(log_fd);
    log_fd = STDERR_FILENO;
    line_format = LOG_FORMAT_TEXT;
    max_level = LOG_LEVEL_INFO;
}

bool log_wants(enum log_level level)
{
    return level <= max_level;
}

void log_write(enum log_level level, const char *event, const struct log_field *fields)
{
    char buf[LOG_LINE_MAX];
    struct timespec now;
    size_t len;

    if (!log_wants(level))
        return;
    clock_gettime(CLOCK_REALTIME, &now);
    len = log_format_line(line_format, level, now.tv_sec * INT64_C(1000000) + now.tv_nsec / 1000,
                          event, fields, buf);
    /* One write, never continued: another line could get between the two halves. */
    (void) !write(log_fd, buf, len);
}
