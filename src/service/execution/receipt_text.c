/*
 * The receipt of a simple execution, written directly as text.
 *
 * Most cells of a session assign something or print a line. For these, building a tree of JSON
 * values, printing and freeing it would take as long as everything else that the service does. A
 * receipt that needs more than plain characters (bundles, an error, files, text that has to be cut
 * or repaired) goes through the tree in receipt.c; test_receipt.c keeps the two identical.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "service/execution/receipt.h"

#include "base/banned.h"

#define STREAM_MAX ((size_t) 4096)
#define REST_MAX   ((size_t) 1024) /* everything except the streams, at its longest */
#define NUMBER_MAX 24

/* Whether a stream is complete, short and ASCII. */
static bool is_plain(const struct stream_cut *cut)
{
    if (cut->left_out != 0 || cut->tail_len != 0 || cut->head_len > STREAM_MAX)
        return false;
    for (size_t i = 0; i < cut->head_len; i++) {
        unsigned char c = (unsigned char) cut->head[i];

        if ((c < 0x20 && c != '\n' && c != '\t') || c >= 0x7f)
            return false;
    }
    return true;
}

static bool is_short(const char *id)
{
    return !id || strlen(id) <= 64;
}

static bool takes_tree(const struct outcome *o, const struct receipt_ids *ids)
{
    return ids->contacts_len > 0 || o->result.json || o->outputs_len > 0 ||
           o->outputs_left_out > 0 || o->error_name || o->error_value || o->error_traceback ||
           o->files_len > 0 || o->files_incomplete || ids->shell_lost ||
           !is_short(ids->session_id) || !is_short(ids->execution_id) || !is_short(ids->template) ||
           !is_plain(&o->out) || !is_plain(&o->err);
}

/* Writes a plain stream as a JSON string without its quotes; @to has room for twice its length. */
static char *put_plain(char *to, const struct stream_cut *cut)
{
    for (size_t i = 0; i < cut->head_len; i++) {
        char c = cut->head[i];

        if (c == '"' || c == '\\' || c == '\n' || c == '\t')
            *to++ = '\\';
        *to++ = c == '\n' ? 'n' : c == '\t' ? 't' : c;
    }
    return to;
}

/* A number, or null if it is unknown. */
static const char *known(int64_t value, char buf[NUMBER_MAX])
{
    if (value < 0)
        return "null";
    (void) snprintf(buf, NUMBER_MAX, "%" PRId64, value);
    return buf;
}

static int64_t to_ms(int64_t us)
{
    return us < 0 ? -1 : (us + USEC_PER_MSEC / 2) / USEC_PER_MSEC;
}

static char *put_head(char *to, size_t size, const struct outcome *o)
{
    const char *limit = limit_kind_name(o->limit), *quote = limit ? "\"" : "";

    return to + snprintf(to, size,
                         "{\"status\":\"%s\",\"limit\":%s%s%s,\"success\":%s,\"exit_code\":%d,"
                         "\"stdout\":\"",
                         run_status_name(o->status), quote, limit ? limit : "null", quote,
                         o->status == RUN_OK ? "true" : "false", o->exit_code);
}

static char *put_tail(char *to, size_t size, const struct outcome *o, const struct receipt_ids *ids)
{
    int64_t wall_us = o->wall_us < 0 ? 0 : o->wall_us;
    char cpu[NUMBER_MAX], memory[NUMBER_MAX], wall[NUMBER_MAX], processes[NUMBER_MAX];
    const char *quote = ids->session_id ? "\"" : "";
    const char *lost = ids->session_lost ? ",\"session_lost\":true" : ",\"session_lost\":false";

    return to + snprintf(to, size,
                         "\",\"execution_time\":%" PRId64 ".%06" PRId64
                         ",\"result\":null,\"outputs\":[],\"error\":null,\"files\":[],"
                         "\"truncated\":{\"stdout\":0,\"stderr\":0,\"outputs\":0},"
                         "\"usage\":{\"cpu_ms\":%s,\"peak_memory_bytes\":%s,\"wall_ms\":%s,"
                         "\"processes\":%s,\"hosts\":[]},\"session_id\":%s%s%s,"
                         "\"execution_id\":\"%s\",\"execution_count\":%" PRId64
                         ",\"template\":\"%s\"%s}",
                         wall_us / USEC_PER_SEC, wall_us % USEC_PER_SEC,
                         known(to_ms(o->cpu_us), cpu), known(o->memory_peak_bytes, memory),
                         known(to_ms(o->wall_us), wall), known(o->processes, processes), quote,
                         ids->session_id ? ids->session_id : "null", quote, ids->execution_id,
                         ids->execution_count, ids->template ? ids->template : "default",
                         ids->session_id ? lost : "");
}

int receipt_to_text(const struct outcome *o, const struct receipt_ids *ids, char **ret_text,
                    size_t *ret_len)
{
    static const char between[] = "\",\"stderr\":\"";
    size_t size = REST_MAX + 2 * (o->out.head_len + o->err.head_len);
    char *text, *at;

    if (takes_tree(o, ids))
        return 0;
    text = malloc(size);
    if (!text)
        return -ENOMEM;
    at = put_plain(put_head(text, REST_MAX, o), &o->out);
    memcpy(at, between, sizeof between - 1);
    at = put_plain(at + sizeof between - 1, &o->err);
    at = put_tail(at, size - (size_t) (at - text), o, ids);
    *ret_len = (size_t) (at - text);
    *ret_text = text;
    return 1;
}
