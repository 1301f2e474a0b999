/*
 * What a file is, from its bytes: magic numbers first, then whether it is text, then which kind of
 * text. A client's word for it is never used, and neither is a name, except between kinds of text.
 *
 * Archives are refused and not unpacked: what is in them would have to be judged file by file, and
 * a small one can have any size inside. Workbooks are archives too; their readers run in a box.
 */
#include "mark/attach/sniff.h"

#include <jansson.h>
#include <string.h>
#include <strings.h>

#include "base/autoclean.h"
#include "base/text/json_depth.h"
#include "base/text/utf8.h"

#include "base/banned.h"

#define LINES_MAX  50 /* of a text that are compared */
#define DEPTH_MAX  64
#define UNPACK     "archives are not taken; unpack it, and attach the files that are in it"
#define EXECUTABLE "programs are not taken; attach data, or ask Mark to write the code"

struct span {
    const unsigned char *data;
    size_t len;
};

#define TABLE(format, type, extension)                                                             \
    {                                                                                              \
        SNIFF_TABLE, format, type, extension, NULL                                                 \
    }
#define OPAQUE(format, type, extension)                                                            \
    {                                                                                              \
        SNIFF_OPAQUE, format, type, extension, NULL                                                \
    }
#define REFUSED(format, type, why)                                                                 \
    {                                                                                              \
        SNIFF_REFUSED, format, type, NULL, why                                                     \
    }

/* ---- magic numbers ---- */

static const struct {
    const char *bytes;
    size_t len, offset;
    struct sniffed is;
} magics[] = {
#define MAGIC(text, offset) text, sizeof text - 1, offset
    { MAGIC("SQLite format 3\0", 0), TABLE("sqlite", "application/vnd.sqlite3", "sqlite") },
    { MAGIC("PAR1", 0), TABLE("parquet", "application/vnd.apache.parquet", "parquet") },
    { MAGIC("ARROW1\0\0", 0), TABLE("arrow", "application/vnd.apache.arrow.file", "arrow") },
    { MAGIC("FEA1", 0), TABLE("arrow", "application/vnd.apache.arrow.file", "feather") },
    { MAGIC("\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", 0),
      TABLE("xls", "application/vnd.ms-excel", "xls") },
    { MAGIC("%PDF-", 0), OPAQUE("pdf", "application/pdf", "pdf") },
    { MAGIC("\x89PNG\r\n\x1a\n", 0), OPAQUE("png", "image/png", "png") },
    { MAGIC("\xff\xd8\xff", 0), OPAQUE("jpeg", "image/jpeg", "jpg") },
    { MAGIC("GIF87a", 0), OPAQUE("gif", "image/gif", "gif") },
    { MAGIC("GIF89a", 0), OPAQUE("gif", "image/gif", "gif") },
    { MAGIC("WEBP", 8), OPAQUE("webp", "image/webp", "webp") },
    { MAGIC("II*\0", 0), OPAQUE("tiff", "image/tiff", "tiff") },
    { MAGIC("MM\0*", 0), OPAQUE("tiff", "image/tiff", "tiff") },
    { MAGIC("\x7f"
            "ELF",
            0),
      REFUSED("program", "application/x-executable", EXECUTABLE) },
    { MAGIC("\xfe\xed\xfa\xce", 0), REFUSED("program", "application/x-executable", EXECUTABLE) },
    { MAGIC("\xfe\xed\xfa\xcf", 0), REFUSED("program", "application/x-executable", EXECUTABLE) },
    { MAGIC("\xce\xfa\xed\xfe", 0), REFUSED("program", "application/x-executable", EXECUTABLE) },
    { MAGIC("\xcf\xfa\xed\xfe", 0), REFUSED("program", "application/x-executable", EXECUTABLE) },
    { MAGIC("\xca\xfe\xba\xbe", 0), REFUSED("program", "application/x-executable", EXECUTABLE) },
    { MAGIC("\0asm", 0), REFUSED("program", "application/wasm", EXECUTABLE) },
    { MAGIC("dex\n", 0), REFUSED("program", "application/x-executable", EXECUTABLE) },
    { MAGIC("\x1f\x8b", 0), REFUSED("gzip", "application/gzip", UNPACK) },
    { MAGIC("BZh", 0), REFUSED("bzip2", "application/x-bzip2", UNPACK) },
    { MAGIC("\xfd"
            "7zXZ\0",
            0),
      REFUSED("xz", "application/x-xz", UNPACK) },
    { MAGIC("7z\xbc\xaf\x27\x1c", 0), REFUSED("7z", "application/x-7z-compressed", UNPACK) },
    { MAGIC("\x28\xb5\x2f\xfd", 0), REFUSED("zstd", "application/zstd", UNPACK) },
    { MAGIC("Rar!\x1a\x07", 0), REFUSED("rar", "application/vnd.rar", UNPACK) },
    { MAGIC("ustar", 257), REFUSED("tar", "application/x-tar", UNPACK) },
#undef MAGIC
};

static bool has(struct span in, const char *text)
{
    return memmem(in.data, in.len, text, strlen(text)) != NULL;
}

/* A zip: a workbook if its directory, which is at the end, says so. */
static struct sniffed sniff_zip(struct span head, struct span tail)
{
    static const struct sniffed
        xlsx = TABLE("xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
                     "xlsx"),
        ods = TABLE("ods", "application/vnd.oasis.opendocument.spreadsheet", "ods"),
        zip = REFUSED("zip", "application/zip", UNPACK);

    if (has(tail, "xl/workbook.xml"))
        return xlsx;
    if (has(head, "mimetypeapplication/vnd.oasis.opendocument.spreadsheet") &&
        has(tail, "content.xml"))
        return ods;
    return zip;
}

/* "MZ" alone is too short to be sure of: the header of a program for Windows or DOS has the place
 * of another one, "PE", which is in reach. */
static bool is_windows_program(struct span head)
{
    uint32_t at;

    if (head.len < 64 || memcmp(head.data, "MZ", 2) != 0)
        return false;
    at = head.data[60] | (uint32_t) head.data[61] << 8 | (uint32_t) head.data[62] << 16 |
         (uint32_t) head.data[63] << 24;
    return memchr(head.data, 0, 64) != NULL ||
           (at < head.len - 2 && memcmp(head.data + at, "PE", 2) == 0);
}

/* ---- text ---- */

/* Whether @head is text in an encoding that has one unit per character or is UTF-8: no NUL, and
 * few control characters. */
static bool is_text(struct span head)
{
    size_t odd = 0;

    if (head.len >= 2 && ((head.data[0] == 0xff && head.data[1] == 0xfe) ||
                          (head.data[0] == 0xfe && head.data[1] == 0xff)))
        return true; /* UTF-16 with its mark, as Excel saves "Unicode text" */
    for (size_t i = 0; i < head.len; i++) {
        unsigned char c = head.data[i];

        if (c == 0)
            return false;
        odd += (c < 0x20 && !strchr("\t\n\r\f\v\x1b\x1a", c)) || c == 0x7f;
    }
    return odd <= 2 + head.len / 200;
}

static struct span skip_blank(struct span text)
{
    if (text.len >= 3 && memcmp(text.data, "\xef\xbb\xbf", 3) == 0)
        text = (struct span){ text.data + 3, text.len - 3 };
    while (text.len > 0 && strchr(" \t\r\n", text.data[0]) && text.data[0])
        text = (struct span){ text.data + 1, text.len - 1 };
    return text;
}

static bool parses(struct span text)
{
    json_t *json;

    if (json_too_deep((const char *) text.data, text.len, DEPTH_MAX))
        return true; /* it is JSON or nothing */
    json = json_loadb((const char *) text.data, text.len, 0, NULL);
    json_decref(json);
    return json != NULL;
}

/* Whether @text, which begins with a bracket, goes on like JSON and not like "[2026-01-01] ...". */
static bool goes_on_like_json(struct span text)
{
    struct span rest = skip_blank((struct span){ text.data + 1, text.len - 1 });
    size_t digits = 0;

    if (rest.len == 0)
        return true;
    if (text.data[0] == '{')
        return rest.data[0] == '"' || rest.data[0] == '}';
    if (strchr("{[\"]tfn", rest.data[0]))
        return true;
    while (digits < rest.len && digits < 40 && strchr("+-.0123456789eE", rest.data[digits]) &&
           rest.data[digits])
        digits++;
    return digits > 0 && digits < rest.len && strchr(", \t\r\n", rest.data[digits]) &&
           !memchr(rest.data + 1, '-', digits - 1);
}

/* 0: not JSON, 1: one value, 2: one value in each line. */
static int json_kind(struct span text, bool whole)
{
    const unsigned char *end;
    struct span first, rest;

    text = skip_blank(text);
    if (text.len < 2 || (text.data[0] != '{' && text.data[0] != '['))
        return 0;
    end = memchr(text.data, '\n', text.len);
    if (end) {
        first = (struct span){ text.data, (size_t) (end - text.data) };
        rest = skip_blank((struct span){ end, text.len - first.len });
        if (rest.len > 0 && (rest.data[0] == '{' || rest.data[0] == '[') && parses(first))
            return 2;
    }
    if (whole)
        return parses(text) || (text.data[0] == '{' && goes_on_like_json(text));
    return goes_on_like_json(text);
}

/* How many of the first lines have the same number of @delimiter, at least one, outside quotes;
 * -1 if some have another number. A quoted field may go on in the next line. */
static int lines_with(struct span text, char delimiter, bool whole)
{
    int lines = 0, count = 0, first = 0, odd = 0;
    bool quoted = false;

    while (whole && text.len > 0 && text.data[text.len - 1] < 0x20)
        text.len--; /* the end of the last line, also in UTF-16 */
    for (size_t i = 0; i < text.len && lines < LINES_MAX; i++) {
        char c = (char) text.data[i];
        bool last = whole && i + 1 == text.len && c != '\n';

        if (c == '"')
            quoted = !quoted;
        else if (c == delimiter && !quoted)
            count++;
        if ((c != '\n' && !last) || (quoted && !last))
            continue;
        if (lines++ == 0)
            first = count;
        odd += count != first;
        count = 0;
    }
    return lines > 0 && first > 0 && odd * 5 <= lines ? lines : -1;
}

static bool name_ends(const char *name, const char *end)
{
    size_t len = strlen(name), end_len = strlen(end);

    return len > end_len && strcasecmp(name + len - end_len, end) == 0;
}

static struct sniffed sniff_text(struct span head, int64_t size, const char *name)
{
    static const struct sniffed csv = TABLE("csv", "text/csv", "csv"),
                                tsv = TABLE("tsv", "text/tab-separated-values", "tsv"),
                                json = TABLE("json", "application/json", "json"),
                                jsonl = TABLE("jsonl", "application/x-ndjson", "jsonl"),
                                text = TABLE("text", "text/plain", "txt");
    bool whole = (uint64_t) size <= head.len, tabs;
    int kind = json_kind(head, whole);

    if (kind > 0)
        return kind == 2 ? jsonl : json;
    if (head.len == 0)
        return text;
    tabs = lines_with(head, '\t', whole) > 1;
    if (tabs && lines_with(head, ',', whole) < 0)
        return tsv;
    if (lines_with(head, ',', whole) > 1 || lines_with(head, ';', whole) > 1 ||
        lines_with(head, '|', whole) > 1)
        return csv;
    if (name_ends(name, ".tsv") || name_ends(name, ".tab") || tabs)
        return tsv;
    return name_ends(name, ".csv") ? csv : text;
}

struct sniffed sniff(const void *head, size_t head_len, const void *tail, size_t tail_len,
                     int64_t size, const char *name)
{
    static const struct sniffed program =
                                    REFUSED("program", "application/x-executable", EXECUTABLE),
                                other = OPAQUE("unknown", "application/octet-stream", "bin");
    struct span h = { head, head_len }, t = { tail, tail_len };

    for (size_t i = 0; i < ARRAY_LEN(magics); i++)
        if (h.len >= magics[i].offset + magics[i].len &&
            memcmp(h.data + magics[i].offset, magics[i].bytes, magics[i].len) == 0)
            return magics[i].is;
    if (h.len >= 4 && (memcmp(h.data, "PK\3\4", 4) == 0 || memcmp(h.data, "PK\5\6", 4) == 0))
        return sniff_zip(h, t);
    if (is_windows_program(h))
        return program;
    return is_text(h) ? sniff_text(h, size, name) : other;
}
