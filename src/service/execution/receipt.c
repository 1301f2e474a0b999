/*
 * An outcome as JSON.
 *
 * All text passes through text_to_json(), which makes it valid UTF-8 and limits its size as JSON. A
 * budget in raw bytes is not enough for that: a control byte is written as six ("\u0001") and an
 * invalid byte becomes the three of U+FFFD, so text that grows too much is cut again, in its
 * middle, and those bytes are counted as left out too.
 */
#include "service/execution/receipt.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/text/utf8.h"
#include "engine/frame.h"
#include "service/execution/bundle.h"

#include "base/banned.h"

/* The reply budget if the stream does not imply it: a stream that was not cut may have any size up
 * to the budget. */
#define RECEIPT_STREAM_BYTES ((size_t) 1024 * 1024)

/* The tenant's description of its error comes in a frame, to which no stream's budget applies. */
#define RECEIPT_ERROR_NAME_BYTES      ((size_t) 1024)
#define RECEIPT_ERROR_VALUE_BYTES     ((size_t) 64 * 1024)
#define RECEIPT_ERROR_TRACEBACK_BYTES ((size_t) 256 * 1024)

#define MARKER_MAX 64

struct span {
    const char *data;
    size_t len;
};

/* The size of a piece of text, as UTF-8 and as JSON. */
struct cost {
    size_t text, json;
};

/* Measures the unit at the start of @text as jansson writes it; returns its length. */
static size_t unit_cost(struct span text, struct cost *ret_cost)
{
    unsigned char c = (unsigned char) text.data[0];
    size_t len = 1, json = 1;

    if (c >= 0x80) {
        bool whole = utf8_next(text.data, text.len, &len) == UTF8_CHAR;

        json = whole ? len : UTF8_REPLACEMENT_LEN;
        *ret_cost = (struct cost){ json, json };
        return len;
    }
    if (c == '"' || c == '\\' || c == '\b' || c == '\f' || c == '\n' || c == '\r' || c == '\t')
        json = 2;
    else if (c < 0x20)
        json = 6;
    *ret_cost = (struct cost){ 1, json };
    return len;
}

/* The longest prefix of @text, in whole units, that takes at most @json_max; its size in @ret_cost.
 */
static size_t span_fit(struct span text, size_t json_max, struct cost *ret_cost)
{
    struct cost sum = { 0, 0 }, one;
    size_t pos = 0;

    while (pos < text.len) {
        size_t len = unit_cost((struct span){ text.data + pos, text.len - pos }, &one);

        if (one.json > json_max - sum.json)
            break;
        sum.text += one.text;
        sum.json += one.json;
        pos += len;
    }
    *ret_cost = sum;
    return pos;
}

static struct cost span_cost(struct span text)
{
    struct cost cost;

    (void) span_fit(text, SIZE_MAX, &cost);
    return cost;
}

/* Drops whole units from the start of @text until it takes at most @json_max. */
static struct span span_keep_end(struct span text, struct cost *cost, size_t json_max)
{
    struct cost one;

    while (cost->json > json_max) {
        size_t len = unit_cost(text, &one);

        text = (struct span){ text.data + len, text.len - len };
        cost->text -= one.text;
        cost->json -= one.json;
    }
    return text;
}

/* Cuts @head and @tail, between which @left_out bytes are missing already, to @json_max; each gets
 * half of it, plus what the other does not need. Returns what they take together. */
static struct cost span_bound(struct span *head, struct span *tail, size_t json_max,
                              int64_t *left_out)
{
    struct cost a = span_cost(*head), b = span_cost(*tail);
    size_t before = head->len + tail->len, head_max = json_max / 2, fit;

    if (a.json <= json_max && b.json <= json_max - a.json)
        return (struct cost){ a.text + b.text, a.json + b.json };

    if (*left_out > 0 && b.json < json_max - head_max)
        head_max = json_max - b.json;
    fit = span_fit(*head, head_max, &a);
    if (*left_out == 0) {
        /* One piece so far (the tail is empty): its own end becomes the tail. */
        *tail = (struct span){ head->data + fit, head->len - fit };
        b = span_cost(*tail);
    }
    head->len = fit;
    *tail = span_keep_end(*tail, &b, json_max - a.json);
    *left_out += (int64_t) (before - head->len - tail->len);
    return (struct cost){ a.text + b.text, a.json + b.json };
}

/* A JSON string of @head, a line that says how much is missing, and @tail. NULL if out of memory.
 */
static json_t *text_to_json(struct span head, struct span tail, size_t json_max, int64_t *left_out)
{
    struct cost cost = span_bound(&head, &tail, json_max, left_out);
    size_t size = cost.text + MARKER_MAX, len = 0, used;
    autofree char *text = malloc(size);

    if (!text)
        return NULL;
    if (head.len > 0)
        len = utf8_replace(head.data, head.len, text, size, &used);
    if (*left_out > 0)
        len += (size_t) snprintf(text + len, size - len, "\n… %lld bytes left out …\n",
                                 (long long) *left_out);
    if (tail.len > 0)
        len += utf8_replace(tail.data, tail.len, text + len, size - len, &used);
    return json_stringn(text, len);
}

static json_t *stream_to_json(const struct stream_cut *cut, int64_t *ret_left_out)
{
    struct span head = { cut->head, cut->head_len }, tail = { cut->tail, cut->tail_len };
    size_t budget = head.len + tail.len;
    autofree char *joined = NULL;

    *ret_left_out = cut->left_out;
    if (cut->left_out == 0 && tail.len > 0) {
        /* Nothing is missing between the two, so a character may span them. */
        joined = malloc(budget);
        if (!joined)
            return NULL;
        if (head.len > 0)
            memcpy(joined, head.data, head.len);
        memcpy(joined + head.len, tail.data, tail.len);
        head = (struct span){ joined, budget };
        tail = (struct span){ NULL, 0 };
    }
    if (cut->left_out == 0 && budget < RECEIPT_STREAM_BYTES)
        budget = RECEIPT_STREAM_BYTES;
    return text_to_json(head, tail, 2 * budget, ret_left_out);
}

/* NULL text is null; text beyond @json_max is cut in the middle, with a note. */
static json_t *words_to_json(const char *text, size_t len, size_t json_max)
{
    int64_t left_out = 0;

    if (!text)
        return json_null();
    return text_to_json((struct span){ text, len }, (struct span){ NULL, 0 }, json_max, &left_out);
}

static json_t *name_to_json(const char *name)
{
    return words_to_json(name, name ? strlen(name) : 0, SIZE_MAX);
}

/* jansson takes the value in any case and fails on NULL, so a missing value cannot be overlooked
 * and needs no separate check. */
static bool put(json_t *object, const char *key, json_t *value)
{
    return json_object_set_new(object, key, value) == 0;
}

static json_t *count_to_json(int64_t value)
{
    return value < 0 ? json_null() : json_integer(value);
}

static json_t *ms_to_json(int64_t us)
{
    return count_to_json(us < 0 ? -1 : (us + USEC_PER_MSEC / 2) / USEC_PER_MSEC);
}

/* Hands over @object if it was filled, else frees it. */
static json_t *object_done(json_t *object, bool filled)
{
    if (filled)
        return object;
    json_decref(object);
    return NULL;
}

static json_t *error_to_json(const struct outcome *o)
{
    json_t *error;
    bool ok;

    if (!o->error_name && !o->error_value && !o->error_traceback)
        return json_null();
    error = json_object();
    ok = put(error, "name",
             words_to_json(o->error_name, o->error_name_len, RECEIPT_ERROR_NAME_BYTES)) &&
         put(error, "value",
             words_to_json(o->error_value, o->error_value_len, RECEIPT_ERROR_VALUE_BYTES)) &&
         put(error, "traceback",
             words_to_json(o->error_traceback, o->error_traceback_len,
                           RECEIPT_ERROR_TRACEBACK_BYTES));
    return object_done(error, ok);
}

static const char *file_change_name(enum file_change change)
{
    switch (change) {
    case FILE_CREATED:
        return "created";
    case FILE_DELETED:
        return "deleted";
    case FILE_MODIFIED:
        break;
    }
    return "modified";
}

static json_t *files_to_json(const struct outcome *o)
{
    json_t *files = json_array();

    for (size_t i = 0; files && i < o->files_len; i++) {
        const struct file_entry *entry = &o->files[i];
        json_t *file = json_object();
        bool ok = put(file, "path", name_to_json(entry->path)) &&
                  put(file, "size", json_integer(entry->size)) &&
                  put(file, "change", json_string(file_change_name(entry->change)));

        if (json_array_append_new(files, object_done(file, ok)) < 0)
            return object_done(files, false);
    }
    return files;
}

/* What was left out of the reply: bytes of the streams, and displays. */
struct left_out {
    int64_t out, err, outputs;
};

static json_t *truncated_to_json(const struct left_out *left_out)
{
    json_t *truncated = json_object();
    bool ok = put(truncated, "stdout", json_integer(left_out->out)) &&
              put(truncated, "stderr", json_integer(left_out->err)) &&
              put(truncated, "outputs", json_integer(left_out->outputs));

    return object_done(truncated, ok);
}

/* A malformed bundle is counted, and nothing is shown in its place. */
static bool put_result(json_t *receipt, const struct bundle *result, size_t *nodes,
                       int64_t *left_out)
{
    json_t *data, *metadata;

    if (!result->json)
        return put(receipt, "result", json_null());
    if (bundle_parse(result, nodes, &data, &metadata) < 0) {
        (*left_out)++;
        return put(receipt, "result", json_null());
    }
    if (put(receipt, "result", data))
        return put(receipt, "result_metadata", metadata);
    json_decref(metadata);
    return false;
}

static json_t *output_to_json(json_t *data, json_t *metadata)
{
    json_t *output = json_object();

    /* Each put() takes its value, so both must be called. */
    bool ok = put(output, "data", data);
    ok = put(output, "metadata", metadata) && ok;
    return object_done(output, ok);
}

static json_t *outputs_to_json(const struct outcome *o, size_t *nodes, int64_t *left_out)
{
    json_t *outputs = json_array(), *data, *metadata;

    for (size_t i = 0; outputs && i < o->outputs_len; i++) {
        if (bundle_parse(&o->outputs[i], nodes, &data, &metadata) < 0) {
            (*left_out)++;
            continue;
        }
        if (json_array_append_new(outputs, output_to_json(data, metadata)) < 0)
            return object_done(outputs, false);
    }
    return outputs;
}

/* The result comes first, so that displays cannot use up the budget that all bundles share. */
static bool put_shown(json_t *receipt, const struct outcome *o, int64_t *ret_left_out)
{
    size_t nodes = FRAME_DISPLAYS_NODES;

    *ret_left_out = o->outputs_left_out;
    return put_result(receipt, &o->result, &nodes, ret_left_out) &&
           put(receipt, "outputs", outputs_to_json(o, &nodes, ret_left_out));
}

/* The hosts that were reached, by name; the details are under "network". */
static json_t *hosts_to_json(const struct receipt_ids *ids)
{
    json_t *hosts = json_array();

    for (size_t i = 0; hosts && i < ids->contacts_len; i++) {
        const struct egress_contact *contact = &ids->contacts[i];
        bool v6 = strchr(contact->host, ':') != NULL;

        if (contact->requests > 0 &&
            json_array_append_new(hosts, json_sprintf("%s%s%s:%u", v6 ? "[" : "", contact->host,
                                                      v6 ? "]" : "", contact->port)) < 0)
            return object_done(hosts, false);
    }
    return hosts;
}

json_t *contacts_to_json(const struct egress_contact *contacts, size_t len)
{
    json_t *list = json_array();

    for (size_t i = 0; list && i < len; i++) {
        const struct egress_contact *c = &contacts[i];
        json_t *item =
            json_pack("{s:s, s:i, s:I, s:I, s:I, s:I, s:I}", "host", c->host, "port", c->port,
                      "requests", (json_int_t) c->requests, "refused", (json_int_t) c->refused,
                      "failed", (json_int_t) c->failed, "bytes_sent", (json_int_t) c->bytes_sent,
                      "bytes_received", (json_int_t) c->bytes_received);

        if (json_array_append_new(list, item) < 0)
            return object_done(list, false);
    }
    return list;
}

static json_t *usage_to_json(const struct outcome *o, const struct receipt_ids *ids)
{
    json_t *usage = json_object();
    bool ok = put(usage, "cpu_ms", ms_to_json(o->cpu_us)) &&
              put(usage, "peak_memory_bytes", count_to_json(o->memory_peak_bytes)) &&
              put(usage, "wall_ms", ms_to_json(o->wall_us)) &&
              put(usage, "processes", count_to_json(o->processes)) &&
              put(usage, "hosts", hosts_to_json(ids));

    return object_done(usage, ok);
}

static bool put_verdict(json_t *receipt, const struct outcome *o)
{
    return put(receipt, "status", json_string(run_status_name(o->status))) &&
           put(receipt, "limit", name_to_json(limit_kind_name(o->limit))) &&
           put(receipt, "success", json_boolean(o->status == RUN_OK)) &&
           put(receipt, "exit_code", json_integer(o->exit_code));
}

static bool put_ids(json_t *receipt, const struct receipt_ids *ids)
{
    return put(receipt, "session_id", name_to_json(ids->session_id)) &&
           put(receipt, "execution_id", name_to_json(ids->execution_id)) &&
           put(receipt, "execution_count", json_integer(ids->execution_count)) &&
           put(receipt, "template", json_string(ids->template ? ids->template : "default")) &&
           (!ids->session_id || put(receipt, "session_lost", json_boolean(ids->session_lost))) &&
           (!ids->shell_lost || put(receipt, "shell_lost", json_true()));
}

int receipt_to_json(const struct outcome *outcome, const struct receipt_ids *ids, json_t **ret_json,
                    struct gb_err *err)
{
    double seconds = outcome->wall_us < 0 ? 0 : (double) outcome->wall_us / USEC_PER_SEC;
    struct left_out left_out = { 0 };
    json_t *receipt = json_object();
    bool ok;

    ok = put_verdict(receipt, outcome) &&
         put(receipt, "stdout", stream_to_json(&outcome->out, &left_out.out)) &&
         put(receipt, "stderr", stream_to_json(&outcome->err, &left_out.err)) &&
         put(receipt, "execution_time", json_real(seconds)) &&
         put_shown(receipt, outcome, &left_out.outputs) &&
         put(receipt, "error", error_to_json(outcome)) &&
         put(receipt, "files", files_to_json(outcome)) &&
         (!outcome->files_incomplete || put(receipt, "files_incomplete", json_true())) &&
         put(receipt, "truncated", truncated_to_json(&left_out)) &&
         put(receipt, "usage", usage_to_json(outcome, ids)) &&
         (ids->contacts_len == 0 ||
          put(receipt, "network", contacts_to_json(ids->contacts, ids->contacts_len))) &&
         put_ids(receipt, ids);
    receipt = object_done(receipt, ok);
    if (!receipt)
        return gb_fail(err, ENOMEM, "build the receipt");
    *ret_json = receipt;
    return 0;
}

int receipt_new_id(char *buf, size_t size)
{
    /* The most that getrandom() always returns at once: one call for many ids. */
    static _Thread_local struct {
        uint64_t bits[32];
        size_t left;
    } pool;
    ssize_t got;

    if (size < sizeof "exec_0123456789abcdef")
        return -ENOBUFS;
    if (pool.left == 0) {
        do
            got = getrandom(pool.bits, sizeof pool.bits, 0);
        while (got < 0 && errno == EINTR);
        if (got < 0)
            return -errno;
        if ((size_t) got != sizeof pool.bits)
            return -EIO;
        pool.left = ARRAY_LEN(pool.bits);
    }
    (void) snprintf(buf, size, "exec_%016llx", (unsigned long long) pool.bits[--pool.left]);
    return 0;
}
