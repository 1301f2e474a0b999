/* Clients of a terminal; internal.h has the theory. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "service/terminal/internal.h"

#include "base/banned.h"

int terminal_attach(struct terminal *t, int64_t offset, struct terminal_client **ret_client,
                    struct fault *fault)
{
    struct terminal_client *client = calloc(1, sizeof *client);
    bool full;

    if (!client)
        return fault_no_memory(fault);
    pthread_mutex_lock(&t->lock);
    full = t->clients_len == TERMINAL_CLIENTS;
    if (!full) {
        client->position = ring_seek(&t->ring, offset);
        client->missed = client->position > (offset < 0 ? 0 : offset);
        client->end = t->ring.total;
        client->moved_us = clock_now_us();
        client->room_seen = t->room;
        t->clients[t->clients_len++] = client;
    }
    pthread_mutex_unlock(&t->lock);
    if (full) {
        free(client);
        (void) fault_set(fault, PROBLEM_TERMINAL_CLIENTS, NULL,
                         "%d clients are attached to this terminal, the maximum; close one",
                         TERMINAL_CLIENTS);
        fault->retry_after_s = 1;
        return -1;
    }
    client->terminal = terminal_ref(t);
    *ret_client = client;
    return 0;
}

void terminal_detach(struct terminal_client *client)
{
    struct terminal *t;

    if (!client)
        return;
    t = client->terminal;
    pthread_mutex_lock(&t->lock);
    for (size_t i = 0; i < t->clients_len; i++)
        if (t->clients[i] == client)
            t->clients[i--] = t->clients[--t->clients_len];
    pthread_mutex_unlock(&t->lock);
    terminal_wake(t); /* it may have been the one that others waited for */
    terminal_unref(t);
    free(client);
}

int64_t terminal_client_start(struct terminal_client *client, int64_t *ret_end, bool *ret_missed)
{
    int64_t position;

    pthread_mutex_lock(&client->terminal->lock);
    position = client->position;
    *ret_end = client->end;
    *ret_missed = client->missed;
    pthread_mutex_unlock(&client->terminal->lock);
    return position;
}

/* With the lock held. */
static enum terminal_news news(struct terminal_client *client, char *buf, size_t size,
                               size_t *ret_len)
{
    struct terminal *t = client->terminal;

    if (client->slow)
        return TERMINAL_SLOW;
    if (client->position < t->ring.total) {
        *ret_len = ring_read(&t->ring, &client->position, buf, size);
        client->moved_us = clock_now_us();
        return TERMINAL_OUTPUT;
    }
    if (t->exited)
        return TERMINAL_EXIT;
    if (client->room_seen != t->room) {
        client->room_seen = t->room;
        return TERMINAL_ROOM;
    }
    return TERMINAL_NOTHING;
}

enum terminal_news terminal_next(struct terminal_client *client, char *buf, size_t size,
                                 int64_t timeout_us, size_t *ret_len)
{
    struct terminal *t = client->terminal;
    int64_t until_us = clock_now_us() + timeout_us;
    struct timespec until = { .tv_sec = until_us / USEC_PER_SEC,
                              .tv_nsec = until_us % USEC_PER_SEC * 1000 };
    enum terminal_news found;
    bool blocked;
    int r = 0;

    *ret_len = 0;
    pthread_mutex_lock(&t->lock);
    while ((found = news(client, buf, size, ret_len)) == TERMINAL_NOTHING && r == 0)
        r = pthread_cond_timedwait(&t->changed, &t->lock, &until);
    blocked = t->blocked;
    pthread_mutex_unlock(&t->lock);
    if (found == TERMINAL_OUTPUT && blocked)
        terminal_wake(t);
    return found;
}

bool terminal_client_slow(struct terminal_client *client)
{
    bool slow;

    pthread_mutex_lock(&client->terminal->lock);
    slow = client->slow;
    pthread_mutex_unlock(&client->terminal->lock);
    return slow;
}

bool terminal_input(struct terminal_client *client, const void *data, size_t len)
{
    struct terminal *t = client->terminal;
    bool fits;

    pthread_mutex_lock(&t->lock);
    fits = len <= QUEUE_SIZE - t->input_len;
    if (fits && !t->exited) {
        if (len > QUEUE_SIZE - t->input_at - t->input_len) {
            memmove(t->input, t->input + t->input_at, t->input_len);
            t->input_at = 0;
        }
        memcpy(t->input + t->input_at + t->input_len, data, len);
        t->input_len += len;
        t->typed = true;
    }
    pthread_mutex_unlock(&t->lock);
    terminal_wake(t);
    return fits;
}

bool terminal_takes_input(struct terminal_client *client)
{
    struct terminal *t = client->terminal;
    bool takes;

    pthread_mutex_lock(&t->lock);
    takes = t->exited || t->input_len <= TERMINAL_INPUT_BYTES;
    pthread_mutex_unlock(&t->lock);
    return takes;
}

void terminal_resize(struct terminal_client *client, int64_t cols, int64_t rows)
{
    struct terminal *t = client->terminal;

    if (cols < 1 || cols > TERMINAL_SIDE_MAX || rows < 1 || rows > TERMINAL_SIDE_MAX)
        return;
    pthread_mutex_lock(&t->lock);
    t->cols = (uint16_t) cols;
    t->rows = (uint16_t) rows;
    t->resized = true;
    pthread_mutex_unlock(&t->lock);
    terminal_wake(t);
}
