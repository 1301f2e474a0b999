#include "mark/agent/events.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/grow.h"
#include "base/text/utf8.h"

#include "base/banned.h"

/* Bytes of pieces that are recorded of each kind. */
#define DELTAS_MAX ((size_t) 512 * 1024)
/* A piece that would make its entry longer than this begins another. */
#define ENTRY_MAX ((size_t) 64 * 1024)

struct event_entry {
    enum event_name name;
    bool pieces, err;
    int64_t n;
    int64_t first_id; /* of its first piece; the others follow */
    struct text text; /* the pieces, or the data */
    uint32_t *ends;   /* where each piece ends */
    size_t ends_len, ends_cap;
};

static const char *const names[EV_NAMES] = {
    [EV_CHAT] = "chat",   [EV_THINKING] = "thinking", [EV_STEP] = "step",   [EV_OUTPUT] = "output",
    [EV_QUERY] = "query", [EV_RECEIPT] = "receipt",   [EV_STORY] = "story", [EV_CHART] = "chart",
    [EV_TABLE] = "table", [EV_DONE] = "done",         [EV_ERROR] = "error",
};

void event_log_release(struct event_log *log)
{
    for (size_t i = 0; i < log->len; i++) {
        text_release(&log->entries[i].text);
        free(log->entries[i].ends);
    }
    free(log->entries);
    *log = (struct event_log){ 0 };
}

static struct event_entry *entry_new(struct event_log *log, enum event_name name)
{
    struct event_entry *grown =
        grow(log->entries, &log->cap, log->len + 1, sizeof *log->entries, 16);

    if (!grown)
        return NULL;
    log->entries = grown;
    if (log->last_id == 0)
        log->last_id = log->first_id;
    log->entries[log->len] = (struct event_entry){ .name = name, .first_id = log->last_id + 1 };
    return &log->entries[log->len++];
}

void event_log_add(struct event_log *log, enum event_name name, char *data)
{
    struct event_entry *entry = data && !log->ended ? entry_new(log, name) : NULL;

    if (name == EV_DONE || name == EV_ERROR)
        log->ended = true;
    if (!entry) {
        free(data);
        return;
    }
    entry->text = (struct text){ .data = data, .len = strlen(data) };
    log->bytes += entry->text.len;
    log->last_id++;
}

/* The entry that the piece continues, or a new one; NULL: out of memory. */
static struct event_entry *entry_for(struct event_log *log, enum event_name name, int64_t n,
                                     bool err, size_t len)
{
    struct event_entry *last = log->len > 0 ? &log->entries[log->len - 1] : NULL;

    if (last && last->pieces && last->name == name && last->n == n && last->err == err &&
        last->text.len + len <= ENTRY_MAX)
        return last;
    last = entry_new(log, name);
    if (last) {
        last->pieces = true;
        last->n = n;
        last->err = err;
    }
    return last;
}

void event_log_delta(struct event_log *log, enum event_name name, int64_t n, bool err,
                     const char *text, size_t len)
{
    struct event_entry *entry;
    uint32_t *ends;

    if (len == 0 || log->ended || len > DELTAS_MAX - log->deltas[name] || !utf8_valid(text, len))
        return;
    entry = entry_for(log, name, n, err, len);
    if (!entry)
        return;
    ends = grow(entry->ends, &entry->ends_cap, entry->ends_len + 1, sizeof *ends, 8);
    if (!ends)
        return;
    entry->ends = ends;
    text_add(&entry->text, text, len);
    if (entry->text.failed)
        return;
    entry->ends[entry->ends_len++] = (uint32_t) entry->text.len;
    log->deltas[name] += len;
    log->bytes += len + sizeof *ends;
    log->last_id++;
}

static json_t *delta_to_json(const struct event_entry *entry, const char *text, size_t len)
{
    json_t *piece = json_stringn(text, len);

    if (!piece)
        return NULL;
    if (entry->name == EV_STEP)
        return json_pack("{s:I, s:o}", "n", (json_int_t) entry->n, "code_delta", piece);
    if (entry->name == EV_OUTPUT)
        return json_pack("{s:I, s:s, s:o}", "n", (json_int_t) entry->n, "stream",
                         entry->err ? "stderr" : "stdout", "text", piece);
    return json_pack("{s:o}", entry->name == EV_STORY ? "delta" : "text", piece);
}

/* The pieces of @entry that come after number @after, as one. */
static int read_pieces(const struct event_entry *entry, int64_t after, struct answer_event *ret)
{
    size_t seen = after >= entry->first_id ? (size_t) (after - entry->first_id + 1) : 0;
    size_t from = seen > 0 ? entry->ends[seen - 1] : 0;
    json_t *json = delta_to_json(entry, entry->text.data + from, entry->text.len - from);

    ret->data = json ? json_dumps(json, JSON_COMPACT) : NULL;
    json_decref(json);
    ret->id = entry->first_id + (int64_t) entry->ends_len - 1;
    return ret->data ? 1 : -ENOMEM;
}

/* The first entry with an event after number @after, which is below last_id. */
static const struct event_entry *entry_after(const struct event_log *log, int64_t after)
{
    size_t low = 0, high = log->len;

    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;

        if (log->entries[middle].first_id <= after + 1)
            low = middle;
        else
            high = middle;
    }
    return &log->entries[low];
}

int event_log_next(const struct event_log *log, int64_t after, struct answer_event *ret_event)
{
    const struct event_entry *entry;
    struct answer_event event = { 0 };
    int r = 1;

    if (log->len == 0 || after >= log->last_id)
        return log->ended ? -1 : 0;
    entry =
        after > 0 && after <= log->first_id ? &log->entries[log->len - 1] : entry_after(log, after);
    event.name = names[entry->name];
    event.last = entry->name == EV_DONE || entry->name == EV_ERROR;
    if (entry->pieces) {
        r = read_pieces(entry, after, &event);
    } else {
        event.id = entry->first_id;
        event.data = strdup(entry->text.data);
    }
    if (r < 0 || !event.data)
        return -1;
    *ret_event = event;
    return 1;
}

const char *event_log_last(const struct event_log *log)
{
    const struct event_entry *last = log->len > 0 ? &log->entries[log->len - 1] : NULL;

    return last && (last->name == EV_DONE || last->name == EV_ERROR) ? last->text.data : NULL;
}
