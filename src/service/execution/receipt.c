/*
 * An outcome as JSON: one walk over it, which json_out.c turns into a tree or into text.
 *
 * All text passes through text_out(), which limits its size as JSON. A budget in raw bytes is not
 * enough for that: a control byte is written as six ("\u0001") and an invalid byte becomes the
 * three of U+FFFD, so text that grows too much is cut again, in its middle, and those bytes are
 * counted as left out too.
 */
#include "service/execution/receipt.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "engine/frame.h"
#include "service/execution/bundle.h"
#include "service/execution/json_out.h"

#include "base/banned.h"

/* The reply budget if the stream does not imply it: a stream that was not cut may have any size up
 * to the budget. */
#define RECEIPT_STREAM_BYTES ((size_t) 1024 * 1024)

/* The tenant's description of its error comes in a frame, to which no stream's budget applies. */
#define RECEIPT_ERROR_NAME_BYTES      ((size_t) 1024)
#define RECEIPT_ERROR_VALUE_BYTES     ((size_t) 64 * 1024)
#define RECEIPT_ERROR_TRACEBACK_BYTES ((size_t) 256 * 1024)

#define MARKER_MAX    64
#define UNIT_COST_MAX 6 /* of one byte, as JSON */

/* The longest prefix of @text, in whole units, that takes at most @json_max; its size in @ret_cost.
 */
static size_t span_fit(struct span text, size_t json_max, size_t *ret_cost)
{
    size_t sum = 0, pos = 0;

    while (pos < text.len) {
        size_t len, cost = json_unit_cost((struct span){ text.data + pos, text.len - pos }, &len);

        if (cost > json_max - sum)
            break;
        sum += cost;
        pos += len;
    }
    *ret_cost = sum;
    return pos;
}

static size_t span_cost(struct span text)
{
    size_t cost;

    (void) span_fit(text, SIZE_MAX, &cost);
    return cost;
}

/* Drops whole units from the start of @text, which takes @cost, until it takes at most @json_max.
 */
static struct span span_keep_end(struct span text, size_t cost, size_t json_max)
{
    while (cost > json_max) {
        size_t len;

        cost -= json_unit_cost(text, &len);
        text = (struct span){ text.data + len, text.len - len };
    }
    return text;
}

/* Cuts @head and @tail, between which @left_out bytes are missing already, to @json_max; each gets
 * half of it, plus what the other does not need. */
static void span_bound(struct span *head, struct span *tail, size_t json_max, int64_t *left_out)
{
    size_t before = head->len + tail->len, head_max = json_max / 2, fit, a, b;

    if (before <= json_max / UNIT_COST_MAX) /* the usual case: it fits whatever it contains */
        return;
    a = span_cost(*head);
    b = span_cost(*tail);
    if (a <= json_max && b <= json_max - a)
        return;

    if (*left_out > 0 && b < json_max - head_max)
        head_max = json_max - b;
    fit = span_fit(*head, head_max, &a);
    if (*left_out == 0) {
        /* One piece so far (the tail is empty): its own end becomes the tail. */
        *tail = (struct span){ head->data + fit, head->len - fit };
        b = span_cost(*tail);
    }
    head->len = fit;
    *tail = span_keep_end(*tail, b, json_max - a);
    *left_out += (int64_t) (before - head->len - tail->len);
}

/* A string of @head, a line that says how much is missing, and @tail. */
static void text_out(struct json_out *out, const char *key, struct span head, struct span tail,
                     size_t json_max, int64_t *left_out)
{
    char marker[MARKER_MAX];
    size_t len = 0;

    span_bound(&head, &tail, json_max, left_out);
    if (*left_out > 0)
        len = (size_t) snprintf(marker, sizeof marker, "\n… %lld bytes left out …\n",
                                (long long) *left_out);
    json_out_text(out, key, (const struct span[]){ head, { marker, len }, tail }, 3);
}

static void stream_out(struct json_out *out, const char *key, const struct stream_cut *cut,
                       int64_t *ret_left_out)
{
    struct span head = { cut->head, cut->head_len }, tail = { cut->tail, cut->tail_len };
    size_t budget = head.len + tail.len;
    autofree char *joined = NULL;

    *ret_left_out = cut->left_out;
    if (cut->left_out == 0 && tail.len > 0) {
        /* Nothing is missing between the two, so a character may span them. */
        joined = malloc(budget);
        if (!joined) {
            out->failed = true;
            return;
        }
        if (head.len > 0)
            memcpy(joined, head.data, head.len);
        memcpy(joined + head.len, tail.data, tail.len);
        head = (struct span){ joined, budget };
        tail = (struct span){ NULL, 0 };
    }
    if (cut->left_out == 0 && budget < RECEIPT_STREAM_BYTES)
        budget = RECEIPT_STREAM_BYTES;
    text_out(out, key, head, tail, 2 * budget, ret_left_out);
}

/* NULL text is null; text beyond @json_max is cut in the middle, with a note. */
static void words_out(struct json_out *out, const char *key, const char *text, size_t len,
                      size_t json_max)
{
    int64_t left_out = 0;

    if (text)
        text_out(out, key, (struct span){ text, len }, (struct span){ NULL, 0 }, json_max,
                 &left_out);
    else
        json_out_null(out, key);
}

/* A negative count is unknown: null. */
static void count_out(struct json_out *out, const char *key, int64_t value)
{
    if (value < 0)
        json_out_null(out, key);
    else
        json_out_int(out, key, value);
}

static void ms_out(struct json_out *out, const char *key, int64_t us)
{
    count_out(out, key, us < 0 ? -1 : (us + USEC_PER_MSEC / 2) / USEC_PER_MSEC);
}

static void error_out(struct json_out *out, const struct outcome *o)
{
    if (!o->error_name && !o->error_value && !o->error_traceback) {
        json_out_null(out, "error");
        return;
    }
    json_out_object(out, "error");
    words_out(out, "name", o->error_name, o->error_name_len, RECEIPT_ERROR_NAME_BYTES);
    words_out(out, "value", o->error_value, o->error_value_len, RECEIPT_ERROR_VALUE_BYTES);
    words_out(out, "traceback", o->error_traceback, o->error_traceback_len,
              RECEIPT_ERROR_TRACEBACK_BYTES);
    json_out_end(out);
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

static void files_out(struct json_out *out, const struct outcome *o)
{
    json_out_array(out, "files");
    for (size_t i = 0; i < o->files_len; i++) {
        json_out_object(out, NULL);
        json_out_word(out, "path", o->files[i].path);
        json_out_int(out, "size", o->files[i].size);
        json_out_word(out, "change", file_change_name(o->files[i].change));
        json_out_end(out);
    }
    json_out_end(out);
    if (o->files_incomplete)
        json_out_bool(out, "files_incomplete", true);
}

/* What was left out of the reply: bytes of the streams, and displays. */
struct left_out {
    int64_t out, err, outputs;
};

static void truncated_out(struct json_out *out, const struct left_out *left_out)
{
    json_out_object(out, "truncated");
    json_out_int(out, "stdout", left_out->out);
    json_out_int(out, "stderr", left_out->err);
    json_out_int(out, "outputs", left_out->outputs);
    json_out_end(out);
}

/* A malformed bundle is counted, and nothing is shown in its place. */
static bool bundle_take(const struct bundle *bundle, size_t *nodes, int64_t *left_out,
                        json_t **ret_data, json_t **ret_metadata)
{
    bool good = bundle_parse(bundle, nodes, ret_data, ret_metadata) == 0;

    *left_out += !good;
    return good;
}

static void output_out(struct json_out *out, const struct outcome *o,
                       const struct bundle_place *place, size_t *nodes, int64_t *left_out)
{
    json_t *data, *metadata;

    if (!bundle_take(&o->outputs[place->last], nodes, left_out, &data, &metadata))
        return;
    if (place->last != place->first) /* what is left as an update has no display here */
        (void) json_object_del(json_object_get(metadata, "glovebox"), "update");
    json_out_object(out, NULL);
    json_out_json(out, "data", data);
    json_out_json(out, "metadata", metadata);
    json_out_int(out, "stdout_offset", o->outputs[place->first].out);
    json_out_int(out, "stderr_offset", o->outputs[place->first].err);
    json_out_end(out);
}

static void outputs_out(struct json_out *out, const struct outcome *o, size_t *nodes,
                        int64_t *left_out)
{
    autofree struct bundle_place *places = calloc(o->outputs_len + 1, sizeof *places);
    struct bundle_cleared cleared = { -1, -1 };
    int shown = places ? bundle_fold(o, places, &cleared) : -ENOMEM;

    if (shown < 0)
        *left_out += (int64_t) o->outputs_len;
    json_out_array(out, "outputs");
    for (int i = 0; i < shown; i++)
        output_out(out, o, &places[i], nodes, left_out);
    json_out_end(out);
    if (cleared.out < 0)
        return;
    json_out_object(out, "cleared");
    json_out_int(out, "stdout_offset", cleared.out);
    json_out_int(out, "stderr_offset", cleared.err);
    json_out_end(out);
}

/* The result comes first, so that displays cannot use up the budget that all bundles share. */
static void shown_out(struct json_out *out, const struct outcome *o, int64_t *ret_left_out)
{
    size_t nodes = FRAME_DISPLAYS_NODES;
    json_t *data, *metadata;

    *ret_left_out = o->outputs_left_out;
    if (o->result.json && bundle_take(&o->result, &nodes, ret_left_out, &data, &metadata)) {
        json_out_json(out, "result", data);
        json_out_json(out, "result_metadata", metadata);
    } else {
        json_out_null(out, "result");
    }
    outputs_out(out, o, &nodes, ret_left_out);
}

/* The hosts that were reached, by name; the details are under "network". */
static void hosts_out(struct json_out *out, const struct receipt_ids *ids)
{
    json_out_array(out, "hosts");
    for (size_t i = 0; i < ids->contacts_len; i++) {
        const struct egress_contact *contact = &ids->contacts[i];
        bool v6 = strchr(contact->host, ':') != NULL;
        char name[sizeof contact->host + sizeof "[]:65535"];

        if (contact->requests == 0)
            continue;
        snprintf(name, sizeof name, "%s%s%s:%u", v6 ? "[" : "", contact->host, v6 ? "]" : "",
                 contact->port);
        json_out_word(out, NULL, name);
    }
    json_out_end(out);
}

static void contacts_out(struct json_out *out, const struct receipt_ids *ids)
{
    if (ids->contacts_len == 0)
        return;
    json_out_array(out, "network");
    for (size_t i = 0; i < ids->contacts_len; i++) {
        const struct egress_contact *c = &ids->contacts[i];

        json_out_object(out, NULL);
        json_out_word(out, "host", c->host);
        json_out_int(out, "port", c->port);
        json_out_int(out, "requests", c->requests);
        json_out_int(out, "refused", c->refused);
        json_out_int(out, "failed", c->failed);
        json_out_int(out, "bytes_sent", c->bytes_sent);
        json_out_int(out, "bytes_received", c->bytes_received);
        json_out_end(out);
    }
    json_out_end(out);
}

static void usage_out(struct json_out *out, const struct outcome *o, const struct receipt_ids *ids)
{
    json_out_object(out, "usage");
    ms_out(out, "cpu_ms", o->cpu_us);
    count_out(out, "peak_memory_bytes", o->memory_peak_bytes);
    ms_out(out, "wall_ms", o->wall_us);
    count_out(out, "processes", o->processes);
    count_out(out, "oom_kills", o->oom_kills);
    hosts_out(out, ids);
    json_out_end(out);
}

static void verdict_out(struct json_out *out, const struct outcome *o)
{
    json_out_word(out, "status", run_status_name(o->status));
    json_out_word(out, "limit", limit_kind_name(o->limit));
    json_out_bool(out, "success", o->status == RUN_OK);
    json_out_int(out, "exit_code", o->exit_code);
}

static void ids_out(struct json_out *out, const struct receipt_ids *ids)
{
    json_out_word(out, "session_id", ids->session_id);
    json_out_word(out, "execution_id", ids->execution_id);
    json_out_int(out, "execution_count", ids->execution_count);
    json_out_word(out, "template", ids->template ? ids->template : "default");
    if (ids->session_id)
        json_out_bool(out, "session_lost", ids->session_lost);
    if (ids->shell_lost)
        json_out_bool(out, "shell_lost", true);
}

static void receipt_out(struct json_out *out, const struct outcome *o,
                        const struct receipt_ids *ids)
{
    struct left_out left_out = { 0 };

    json_out_object(out, NULL);
    verdict_out(out, o);
    stream_out(out, "stdout", &o->out, &left_out.out);
    stream_out(out, "stderr", &o->err, &left_out.err);
    json_out_seconds(out, "execution_time", o->wall_us < 0 ? 0 : o->wall_us);
    shown_out(out, o, &left_out.outputs);
    error_out(out, o);
    files_out(out, o);
    truncated_out(out, &left_out);
    usage_out(out, o, ids);
    contacts_out(out, ids);
    ids_out(out, ids);
    json_out_end(out);
}

int receipt_to_json(const struct outcome *outcome, const struct receipt_ids *ids, json_t **ret_json,
                    struct gb_err *err)
{
    struct json_out out;

    json_out_init(&out, true);
    receipt_out(&out, outcome, ids);
    if (json_out_take_tree(&out, ret_json) < 0)
        return gb_fail(err, ENOMEM, "build the receipt");
    return 0;
}

int receipt_to_text(const struct outcome *outcome, const struct receipt_ids *ids, char **ret_text,
                    size_t *ret_len)
{
    struct json_out out;

    json_out_init(&out, false);
    receipt_out(&out, outcome, ids);
    return json_out_take_text(&out, ret_text, ret_len);
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
