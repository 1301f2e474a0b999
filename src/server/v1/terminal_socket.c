/*
 * A terminal over a WebSocket: output is binary messages, input too; text messages are for
 * everything else. A thread waits for output and sends it; the socket's own thread reads. If the
 * client disconnects, the terminal stays.
 *
 * Both directions wait for the slower side without queueing more: the thread for room in the
 * socket's queue, the socket for room in the terminal's (reads()).
 */
#include "server/v1/terminal_socket.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text/json_depth.h"
#include "server/v1/schemas.h"

#include "base/banned.h"

#define SLICE_US    (USEC_PER_SEC / 4) /* how long it may take to notice a disconnect */
#define CHUNK_BYTES (16u * 1024)
#define QUEUE_BYTES (64u * 1024)
#define TEXT_BYTES  1024u
#define DEPTH_MAX   4

struct terminal_link {
    struct ws *ws;
    struct terminal *terminal;
    struct terminal_client *client;
    pthread_t thread;
    bool has_thread;
    atomic_bool ended; /* the client has disconnected */
    char chunk[CHUNK_BYTES];
};

/* ---- sending ---- */

/* Waits for a client that is slow, until it is too slow. */
static int send_data(struct terminal_link *link, enum ws_kind kind, const char *data, size_t len)
{
    int r;

    do
        r = ws_send(link->ws, kind, data, len, SLICE_US);
    while (r == -EAGAIN && !terminal_client_slow(link->client));
    if (r == -ENOMEM)
        ws_close(link->ws, WS_INTERNAL, "out of memory");
    return r;
}

/* Takes @json. */
static int send_json(struct terminal_link *link, json_t *json)
{
    char *text = json ? json_dumps(json, REPLY_JSON) : NULL;
    int r = text ? send_data(link, WS_TEXT, text, strlen(text)) : -ENOMEM;

    json_decref(json);
    free(text);
    return r;
}

static int send_attached(struct terminal_link *link)
{
    struct terminal_info info;
    int64_t offset, end;
    bool missed;

    terminal_get_info(link->terminal, &info);
    offset = terminal_client_start(link->client, &end, &missed);
    return send_json(link, json_pack("{s:s,s:I,s:I,s:I,s:I,s:b}", "type", "attached", "offset",
                                     (json_int_t) offset, "end", (json_int_t) end, "cols",
                                     (json_int_t) info.cols, "rows", (json_int_t) info.rows,
                                     "missed", missed));
}

static int send_exit(struct terminal_link *link)
{
    struct terminal_info info;

    terminal_get_info(link->terminal, &info);
    return send_json(link, json_pack("{s:s,s:i}", "type", "exit", "exit_code", info.exit_code));
}

static void *sender_main(void *arg)
{
    struct terminal_link *link = arg;
    enum terminal_news news = TERMINAL_NOTHING;
    int r = send_attached(link);
    size_t len;

    while (r == 0 && news != TERMINAL_EXIT && news != TERMINAL_SLOW && !atomic_load(&link->ended)) {
        news = terminal_next(link->client, link->chunk, sizeof link->chunk, SLICE_US, &len);
        if (news == TERMINAL_OUTPUT)
            r = send_data(link, WS_BINARY, link->chunk, len);
        else if (news == TERMINAL_ROOM)
            ws_wake(link->ws);
        else if (news == TERMINAL_EXIT)
            r = send_exit(link);
    }
    if (terminal_client_slow(link->client))
        ws_close(link->ws, WS_POLICY, "too slow: attach again, with the offset");
    else
        ws_close(link->ws, WS_NORMAL, NULL); /* unless it is closed already */
    return NULL;
}

/* ---- receiving ---- */

int terminal_message_read(const char *data, size_t len, int64_t *ret_cols, int64_t *ret_rows)
{
    struct body_terminal_message message = { 0 };
    json_t *errors, *json;
    int r = -1;

    if (len > TEXT_BYTES || json_too_deep(data, len, DEPTH_MAX))
        return -1;
    json = json_loadb(data, len, JSON_REJECT_DUPLICATES, NULL);
    errors = json_array();
    if (json && errors &&
        fields_read_body(&schema_terminal_message, json, true, &message, errors) == 0) {
        *ret_cols = message.cols;
        *ret_rows = message.rows;
        r = 0;
    }
    json_decref(json);
    json_decref(errors);
    return r;
}

static void on_message(struct ws *ws, enum ws_kind kind, const char *data, size_t len, void *arg)
{
    struct terminal_link *link = arg;
    int64_t cols, rows;

    if (kind == WS_BINARY) {
        if (!terminal_input(link->client, data, len))
            ws_close(ws, WS_POLICY, "the program does not read its input");
    } else if (terminal_message_read(data, len, &cols, &rows) == 0) {
        terminal_resize(link->client, cols, rows);
    } else {
        ws_close(ws, WS_POLICY,
                 "text is {\"type\": \"resize\", \"cols\": 80, \"rows\": 24}; input is binary");
    }
}

static bool on_reads(struct ws *ws, void *arg)
{
    struct terminal_link *link = arg;

    (void) ws;
    return terminal_takes_input(link->client);
}

/* ---- the socket ---- */

static int on_open(struct ws *ws, void *arg)
{
    struct terminal_link *link = arg;

    link->ws = ws;
    link->has_thread = pthread_create(&link->thread, NULL, sender_main, link) == 0;
    return link->has_thread ? 0 : -EAGAIN;
}

static void on_close(struct ws *ws, enum ws_code code, void *arg)
{
    struct terminal_link *link = arg;

    (void) ws;
    (void) code;
    atomic_store(&link->ended, true);
    if (link->has_thread)
        pthread_join(link->thread, NULL);
    terminal_detach(link->client); /* others may take its place while we linger */
    link->client = NULL;
}

static void on_free(void *arg)
{
    struct terminal_link *link = arg;

    terminal_detach(link->client);
    terminal_unref(link->terminal);
    free(link);
}

void terminal_socket(struct request *rq, struct terminal *terminal, int64_t offset)
{
    static const struct ws_handlers handlers = {
        .message_bytes_max = TERMINAL_INPUT_BYTES,
        .queue_bytes_max = QUEUE_BYTES,
        .open = on_open,
        .message = on_message,
        .reads = on_reads,
        .close = on_close,
        .free = on_free,
    };
    struct terminal_link *link = calloc(1, sizeof *link);
    struct fault fault = { 0 };

    if (!link) {
        terminal_unref(terminal);
        reply_no_memory(rq);
        return;
    }
    link->terminal = terminal;
    if (terminal_attach(terminal, offset, &link->client, &fault) < 0) {
        on_free(link);
        reply_fault(rq, &fault);
        return;
    }
    ws_accept(rq, &handlers, link);
}
