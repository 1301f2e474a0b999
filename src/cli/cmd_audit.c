/* `glovebox audit`: verifies and shows the log of executions. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text/parse.h"
#include "cli/cmd.h"
#include "service/access/audit.h"
#include "service/access/data.h"

#include "base/banned.h"

enum { EXIT_BROKEN = 1 };

/* ---- verify ---- */

static void print_hex(const uint8_t hash[AUDIT_HASH_BYTES], char buf[AUDIT_HEX_MAX])
{
    for (size_t i = 0; i < AUDIT_HASH_BYTES; i++)
        (void) snprintf(buf + 2 * i, 3, "%02x", hash[i]);
}

/* The option table has checked that these are 64 hex digits. */
static void read_hex(const char *hex, uint8_t ret_hash[AUDIT_HASH_BYTES])
{
    for (size_t i = 0; i < AUDIT_HASH_BYTES; i++) {
        unsigned value = 0;

        (void) sscanf(hex + 2 * i, "%2x", &value);
        ret_hash[i] = (uint8_t) value;
    }
}

static int print_report_json(const struct audit_report *report, const char *head,
                             struct gb_err *err)
{
    json_t *broken =
        report->broken_seq
            ? json_pack("{s:I, s:s}", "seq", (json_int_t) report->broken_seq, "why", report->why)
            : json_null();

    return cmd_print_json(json_pack("{s:b, s:I, s:s, s:o}", "whole", !report->broken_seq, "count",
                                    (json_int_t) report->count, "head", head, "broken", broken),
                          err);
}

static int print_report(const struct audit_report *report, const char *head, struct gb_err *err)
{
    if (report->broken_seq)
        printf("BROKEN at entry %" PRId64 ": %s\nintact before it: %" PRId64 " entries, head %s\n",
               report->broken_seq, report->why, report->count, head);
    else
        printf("intact: %" PRId64 " entries, head %s\n", report->count, head);
    return fflush(stdout) != 0 ? gb_fail(err, EIO, "print the report") : 0;
}

/* 1 when the log is broken. */
static int verify(const struct config *cfg, struct store *store, struct gb_err *err)
{
    uint8_t want[AUDIT_HASH_BYTES];
    struct audit_report report;
    char head[AUDIT_HEX_MAX];
    int r;

    if (cfg->audit_head)
        read_hex(cfg->audit_head, want);
    r = audit_verify(store, cfg->audit_head ? want : NULL, &report, err);
    if (r < 0)
        return r;
    print_hex(report.head, head);
    r = cfg->json ? print_report_json(&report, head, err) : print_report(&report, head, err);
    return r < 0 ? r : report.broken_seq != 0;
}

/* ---- show ---- */

/* If somebody tampered with the file, its words may be anything: a terminal gets only plain
 * text. */
static const char *word_of(const json_t *entry, const char *name, char buf[FORMAT_QUOTED_MAX])
{
    const char *text = json_string_value(json_object_get(entry, name));

    if (!text)
        return "-";
    format_quoted(text, buf);
    buf[strlen(buf) - 1] = '\0';
    return buf + 1;
}

static int show_line(void *arg, const json_t *entry)
{
    static const char *const names[] = { "time",         "who",  "session_id",
                                         "execution_id", "kind", "status" };
    json_int_t seq = json_integer_value(json_object_get(entry, "seq"));
    json_int_t code = json_integer_value(json_object_get(entry, "exit_code"));
    json_int_t wall_us = json_integer_value(json_object_get(entry, "wall_us"));
    char buf[FORMAT_QUOTED_MAX];

    (void) arg;
    printf("%" PRId64, (int64_t) seq);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        printf("  %s", word_of(entry, names[i], buf));
    printf("  exit %" PRId64 "  %.1f ms\n", (int64_t) code, (double) wall_us / 1000);
    return ferror(stdout) ? -EIO : 0;
}

/* One object, written entry by entry: the log may be long. */
static int show_json(void *arg, const json_t *entry)
{
    bool *first = arg;
    int r = fputs(*first ? "" : ",\n", stdout);

    *first = false;
    return r < 0 || json_dumpf(entry, stdout, JSON_COMPACT) < 0 ? -EIO : 0;
}

static int show(const struct config *cfg, struct store *store, struct gb_err *err)
{
    struct audit_filter filter = {
        .since_us = cmd_since(cfg),
        .last = (size_t) cfg->audit_last,
        .session_id = cfg->audit_session,
    };
    bool first = true;
    int r;

    if (cfg->json)
        fputs("{\"entries\": [", stdout);
    err->code = 0;
    r = audit_read(store, &filter, cfg->json ? show_json : show_line, &first, err);
    if (r >= 0 && cfg->json)
        fputs("]}\n", stdout);
    if (r >= 0 && fflush(stdout) != 0)
        r = -EIO;
    return r < 0 && err->code == 0 ? gb_fail(err, EIO, "print the log") : r;
}

int cmd_audit(const struct config *cfg)
{
    struct gb_err err = { 0 };
    struct store *store = NULL;
    int r = cmd_open_store(cfg, true, &store, &err);

    if (r == 0)
        r = cfg->action == ACTION_AUDIT_VERIFY ? verify(cfg, store, &err) : show(cfg, store, &err);
    store_close(store);
    if (r < 0)
        say("%s", err.msg);
    return r < 0 ? EXIT_OURS : r > 0 ? EXIT_BROKEN : 0;
}
