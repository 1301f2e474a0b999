/*
 * The log: one line per event, as JSON or as text, in a single write.
 *
 * Only the server and the commands log; other code returns errors. A line is built on the stack and
 * handed to the kernel in one write, so threads need no lock and lines never mix. Values may come
 * from anybody: control bytes, quotes and invalid UTF-8 are escaped in both formats, so that no
 * value can end a line, start another, or act on a terminal.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum log_level {
#define LEVEL(name, word) LOG_LEVEL_##name,
#include "base/words/log_levels.def"
};
enum log_format { LOG_FORMAT_TEXT, LOG_FORMAT_JSON };

/* Names by number, ending with NULL. */
extern const char *const log_level_names[];
extern const char *const log_format_names[];

#define LOG_LINE_MAX 4096 /* with its newline; longer values are cut */

enum log_field_type { LOG_FIELD_END, LOG_FIELD_TEXT, LOG_FIELD_INT, LOG_FIELD_MSEC };

struct log_field {
    const char *name;
    enum log_field_type type;
    const char *text; /* NULL leaves the field out */
    int64_t number;
};

#define LOG_TEXT(name, value)                                                                      \
    {                                                                                              \
        (name), LOG_FIELD_TEXT, (value), 0                                                         \
    }
#define LOG_INT(name, value)                                                                       \
    {                                                                                              \
        (name), LOG_FIELD_INT, NULL, (value)                                                       \
    }
#define LOG_MSEC(name, time_us)                                                                    \
    {                                                                                              \
        (name), LOG_FIELD_MSEC, NULL, (time_us)                                                    \
    } /* as 1.234 */

/* Sets where lines go, before threads start. @path NULL: stderr. A file is appended to. */
int log_open(enum log_level level, enum log_format format, const char *path, struct gb_err *err);

/* Back to text on stderr. */
void log_close(void);

bool log_wants(enum log_level level);

/* Writes one line: @event says what happened; @fields end with one of type LOG_FIELD_END. */
void log_write(enum log_level level, const char *event, const struct log_field *fields);

/* log_event(LOG_LEVEL_INFO, "request", LOG_TEXT("method", m), LOG_INT("status", 200)); */
#define log_event(level, event, ...)                                                               \
    log_write((level), (event),                                                                    \
              (const struct log_field[]){ __VA_ARGS__, { NULL, LOG_FIELD_END, NULL, 0 } })

/* The line that log_write() would write, newline included; returns its length. */
size_t log_format_line(enum log_format format, enum log_level level, int64_t wall_us,
                       const char *event, const struct log_field *fields, char buf[LOG_LINE_MAX]);
