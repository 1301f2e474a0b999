/*
 * Values as people write them, read strictly.
 *
 * No sign, no blank, no exponent, no hexadecimal, no locale: the whole text must be a value, or it
 * is refused. Each returns 0, -EINVAL for text that is not such a value, or -ERANGE for one that
 * does not fit. A value above zero never becomes zero by rounding (-ERANGE), since zero often means
 * "no limit". Fractions are rounded down.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* "17" */
int parse_int(const char *text, int64_t *ret_value);

/* "512m", "64MiB", "1.5g": k, m, g, t are powers of 1024, with an optional b or ib, in any case. A
 * plain number means bytes and must not have a fraction. */
int parse_size(const char *text, int64_t *ret_bytes);

/* "30", "0.5", "90s", "2m", "1h" */
int parse_seconds(const char *text, int64_t *ret_us);

/* "1.5" is 1500 */
int parse_cpus(const char *text, int64_t *ret_milli);

/* "2026-11-15", "2026-11-15T08:30Z" or "2026-11-15T08:30:00Z": microseconds since 1970. The zone is
 * UTC, and the year 1970 or later. */
int parse_utc(const char *text, int64_t *ret_us);

/* "yes", "true", "on", "1" and their opposites, in any case */
int parse_bool(const char *text, bool *ret_value);

/* Undoes the octal escapes of mountinfo in place, such as \040 for a space. */
void parse_unescape_mount(char *text);

/* The reverse direction, for messages. */
#define FORMAT_NUMBER_MAX 24
#define FORMAT_QUOTED_MAX 48

/* 67108864 as "64m" */
void format_size(int64_t value, char buf[FORMAT_NUMBER_MAX]);

/* 1500 of which 1000 are @one as "1.5" */
void format_fixed(int64_t value, int64_t one, char buf[FORMAT_NUMBER_MAX]);

/* Microseconds since 1970 as "2026-11-15T08:30:00.000000Z"; "-" if the time is not set. */
#define FORMAT_UTC_MAX 32
void format_utc(int64_t us, char buf[FORMAT_UTC_MAX]);

/* @text in quotes, on one line, in printable ASCII, cut if it is long: safe to print, whoever wrote
 * it. */
void format_quoted(const char *text, char buf[FORMAT_QUOTED_MAX]);

/* How far @given is from @name: 0 is the same word, up to 2 is likely a slip or a short form,
 * SIZE_MAX is another word. Words are shorter than WORD_MAX. */
#define WORD_MAX 32
size_t word_miss(const char *given, const char *name);
