/*
 * The frame protocol: how messages are split into packets and reassembled.
 *
 * Theory of operation. A writer collects fields in one buffer (struct frame_out) and frame_send()
 * splits that buffer into packets of at most FRAME_PACKET_MAX bytes, header included. A reader
 * (struct frame_reader) takes packets one at a time and moves between two states: closed, where a
 * packet must begin a message, and open, where it must continue the current one. Headers are read
 * byte by byte, never by casting, so alignment and byte order do not matter.
 *
 * The reader serves the supervisor, and its input comes from a tenant. Three rules follow:
 *   - Announced sizes are not trusted. The buffer grows with the bytes that arrived.
 *   - A message is returned only after all its fields were checked, so callers see no broken ones.
 *   - The first failure is final. There is no resynchronising: the memory is freed at once and
 * every later call returns the same error.
 */
#include "engine/frame.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>

#include "base/clock.h"
#include "base/grow.h"

#include "base/banned.h"

#define PACKET_PAYLOAD_MAX (FRAME_PACKET_MAX - FRAME_HEADER_SIZE)
#define OUT_CAP_MIN        512u

static void put_u16(uint8_t *p, uint16_t v)
{
    p[0] = (uint8_t) v;
    p[1] = (uint8_t) (v >> 8);
}

static void put_u32(uint8_t *p, uint32_t v)
{
    put_u16(p, (uint16_t) v);
    put_u16(p + 2, (uint16_t) (v >> 16));
}

static uint16_t get_u16(const uint8_t *p)
{
    return (uint16_t) (p[0] | p[1] << 8);
}

static uint32_t get_u32(const uint8_t *p)
{
    return get_u16(p) | (uint32_t) get_u16(p + 2) << 16;
}

static void header_write(const struct frame_header *header, uint8_t *p)
{
    p[0] = header->version;
    p[1] = header->type;
    put_u16(p + 2, header->flags);
    put_u32(p + 4, header->length);
    put_u32(p + 8, header->total);
}

static void header_read(const uint8_t *p, struct frame_header *ret_header)
{
    ret_header->version = p[0];
    ret_header->type = p[1];
    ret_header->flags = get_u16(p + 2);
    ret_header->length = get_u32(p + 4);
    ret_header->total = get_u32(p + 8);
}

/* Checks a packet without knowing the ones before it. */
static int packet_check(const struct frame_header *header, size_t packet_len)
{
    if (header->version != FRAME_VERSION)
        return -EPROTO;
    if (header->type == 0 || header->type > FRAME_TYPE_LAST)
        return -EPROTO;
    if (header->flags & ~FRAME_MORE)
        return -EPROTO;
    if (header->length != packet_len - FRAME_HEADER_SIZE)
        return -EPROTO;
    if (header->total > FRAME_MESSAGE_MAX)
        return -EMSGSIZE;
    return 0;
}

static int packet_parse(const void *packet, size_t len, struct frame_header *ret_header)
{
    if (len > FRAME_PACKET_MAX)
        return -EMSGSIZE;
    if (len < FRAME_HEADER_SIZE)
        return -EPROTO;
    header_read(packet, ret_header);
    return packet_check(ret_header, len);
}

/* The number of fields, or -errno if they are malformed. */
static int fields_count(const struct frame_msg *msg)
{
    struct frame_field field;
    size_t pos = 0;
    int n = 0, r;

    for (; (r = frame_next(msg, &pos, &field)) > 0; n++)
        if (n == (int) FRAME_FIELDS_MAX)
            return -EMSGSIZE;
    return r < 0 ? r : n;
}

/* ---- one packet ---- */

int frame_packet_read(const void *packet, size_t len, struct frame_msg *ret_msg)
{
    struct frame_header header;
    struct frame_msg msg;
    int r = packet_parse(packet, len, &header);

    if (r < 0)
        return r;
    if (header.flags != 0 || header.total != header.length)
        return -EPROTO;
    msg = (struct frame_msg){
        .type = (enum frame_type) header.type,
        .payload = (const uint8_t *) packet + FRAME_HEADER_SIZE,
        .len = header.length,
    };
    r = fields_count(&msg);
    if (r >= 0)
        *ret_msg = msg;
    return r;
}

uint8_t *frame_packet_begin(uint8_t *to, enum frame_type type, size_t payload_len)
{
    const struct frame_header header = {
        .version = FRAME_VERSION,
        .type = (uint8_t) type,
        .length = (uint32_t) payload_len,
        .total = (uint32_t) payload_len,
    };

    header_write(&header, to);
    return to + FRAME_HEADER_SIZE;
}

uint8_t *frame_packet_put(uint8_t *to, uint16_t key, const void *data, size_t len)
{
    put_u16(to, key);
    put_u32(to + 2, (uint32_t) len);
    if (len > 0)
        memcpy(to + FIELD_HEADER_SIZE, data, len);
    return to + FIELD_HEADER_SIZE + len;
}

/* ---- writing ---- */

void frame_out_init(struct frame_out *out, enum frame_type type)
{
    *out = (struct frame_out){ .type = (uint8_t) type };
}

void frame_out_release(struct frame_out *out)
{
    free(out->data);
    *out = (struct frame_out){ 0 };
}

static int out_reserve(struct frame_out *out, size_t need)
{
    uint8_t *data = grow(out->data, &out->cap, need, 1, OUT_CAP_MIN);

    if (!data)
        return -ENOMEM;
    out->data = data;
    return 0;
}

void frame_put(struct frame_out *out, enum frame_key key, const void *data, size_t len)
{
    size_t room = FRAME_MESSAGE_MAX - out->len;

    if (out->error < 0)
        return;
    if (out->fields == FRAME_FIELDS_MAX || room < FIELD_HEADER_SIZE ||
        len > room - FIELD_HEADER_SIZE) {
        out->error = -EMSGSIZE;
        return;
    }

    out->error = out_reserve(out, out->len + FIELD_HEADER_SIZE + len);
    if (out->error < 0)
        return;

    (void) frame_packet_put(out->data + out->len, (uint16_t) key, data, len);
    out->len += FIELD_HEADER_SIZE + len;
    out->fields++;
}

void frame_put_text(struct frame_out *out, enum frame_key key, const char *text)
{
    frame_put(out, key, text, strlen(text));
}

static int wait_writable(int fd, int64_t deadline_us)
{
    struct pollfd pfd = { .fd = fd, .events = POLLOUT };
    int64_t now_us = clock_now_us();
    struct timespec timeout;

    if (now_us >= deadline_us)
        return -ETIMEDOUT;

    timeout.tv_sec = (deadline_us - now_us) / USEC_PER_SEC;
    timeout.tv_nsec = (deadline_us - now_us) % USEC_PER_SEC * 1000;

    /* The result of poll does not matter: the send that follows reports what is wrong. */
    if (ppoll(&pfd, 1, &timeout, NULL) < 0 && errno != EINTR)
        return -errno;
    return 0;
}

static int send_packet(int fd, struct iovec *iov, size_t iov_len, int64_t deadline_us)
{
    const struct msghdr msg = { .msg_iov = iov, .msg_iovlen = iov_len };
    int r;

    while (sendmsg(fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
        if (errno == EINTR)
            continue;
        /* A peer that closes with packets unread shows up here as a reset, once. */
        if (errno == ECONNRESET)
            return -EPIPE;
        if (errno != EAGAIN)
            return -errno;

        r = wait_writable(fd, deadline_us);
        if (r < 0)
            return r;
    }
    return 0;
}

int frame_send(int fd, const struct frame_out *out, int64_t deadline_us)
{
    size_t sent = 0;
    int r;

    if (out->error < 0)
        return out->error;

    do {
        size_t left = out->len - sent;
        size_t length = left < PACKET_PAYLOAD_MAX ? left : PACKET_PAYLOAD_MAX;
        const struct frame_header header = {
            .version = FRAME_VERSION,
            .type = out->type,
            .flags = length < left ? FRAME_MORE : 0,
            .length = (uint32_t) length,
            .total = (uint32_t) out->len,
        };
        uint8_t wire[FRAME_HEADER_SIZE];
        struct iovec iov[2] = {
            { .iov_base = wire, .iov_len = sizeof wire },
            { .iov_base = length > 0 ? out->data + sent : NULL, .iov_len = length },
        };

        header_write(&header, wire);
        r = send_packet(fd, iov, length > 0 ? 2 : 1, deadline_us);
        if (r < 0)
            return r;
        sent += length;
    } while (sent < out->len);

    return 0;
}

/* ---- reading ---- */

void frame_reader_init(struct frame_reader *reader)
{
    *reader = (struct frame_reader){ 0 };
}

void frame_reader_release(struct frame_reader *reader)
{
    free(reader->data);
    *reader = (struct frame_reader){ 0 };
}

static int reader_fail(struct frame_reader *reader, int error)
{
    frame_reader_release(reader);
    reader->error = error;
    return error;
}

/* The last message is no longer needed. One large message must not pin its memory for as long as
 * the tenant lives. */
static void reader_recycle(struct frame_reader *reader)
{
    if (reader->open || reader->cap <= FRAME_PACKET_MAX)
        return;

    free(reader->data);
    reader->data = NULL;
    reader->len = reader->cap = 0;
}

static int reader_append(struct frame_reader *reader, const uint8_t *data, size_t len)
{
    size_t need = reader->len + len;
    size_t cap = reader->cap * 2;
    uint8_t *grown;

    if (len == 0)
        return 0;

    if (need > reader->cap) {
        /* At most twice the bytes that have arrived, and never more than the message can use. */
        if (cap < need)
            cap = need;
        if (cap > reader->total)
            cap = reader->total;

        grown = realloc(reader->data, cap);
        if (!grown)
            return -ENOMEM;
        reader->data = grown;
        reader->cap = cap;
    }

    memcpy(reader->data + reader->len, data, len);
    reader->len = need;
    return 0;
}

/* Whether the packet is valid in the current state. */
static int order_check(const struct frame_reader *reader, const struct frame_header *header)
{
    bool more = header->flags & FRAME_MORE;
    size_t have = reader->open ? reader->len : 0;
    size_t left = header->total - have;

    if (reader->open && (header->type != reader->type || header->total != reader->total))
        return -EPROTO;
    if (header->length > left)
        return -EPROTO;
    if (more != (header->length < left))
        return -EPROTO;
    /* Every packet must add to the message, or a message could go on forever. */
    if (more && header->length == 0)
        return -EPROTO;
    return 0;
}

static int reader_finish(struct frame_reader *reader, struct frame_msg *ret_msg)
{
    const struct frame_msg msg = {
        .type = (enum frame_type) reader->type,
        .payload = reader->data ? reader->data : (const uint8_t *) "",
        .len = reader->len,
    };
    int r = fields_count(&msg);

    if (r < 0)
        return reader_fail(reader, r);

    reader->open = false;
    *ret_msg = msg;
    return 1;
}

int frame_feed(struct frame_reader *reader, const void *packet, size_t len,
               struct frame_msg *ret_msg)
{
    struct frame_header header;
    int r;

    if (reader->error < 0)
        return reader->error;
    r = packet_parse(packet, len, &header);
    if (r == 0)
        r = order_check(reader, &header);
    if (r < 0)
        return reader_fail(reader, r);

    if (!reader->open) {
        reader_recycle(reader);
        reader->len = 0;
        reader->type = header.type;
        reader->total = header.total;
        reader->open = true;
    }

    r = reader_append(reader, (const uint8_t *) packet + FRAME_HEADER_SIZE, header.length);
    if (r < 0)
        return reader_fail(reader, r);
    if (header.flags & FRAME_MORE)
        return 0;
    return reader_finish(reader, ret_msg);
}

/* A receive of 0 bytes is the end of the stream or an empty packet, which a live tenant can send.
 * Only the former comes with a hang-up. */
static int empty_read_error(int fd)
{
    struct pollfd pfd = { .fd = fd, .events = POLLRDHUP };

    if (poll(&pfd, 1, 0) < 0)
        return -errno;
    return pfd.revents & (POLLHUP | POLLRDHUP) ? -EPIPE : -EPROTO;
}

int frame_recv(int fd, struct frame_reader *reader, struct frame_msg *ret_msg)
{
    uint8_t packet[FRAME_PACKET_MAX];
    struct iovec iov = { .iov_base = packet, .iov_len = sizeof packet };
    /* No control buffer: the kernel then drops attached descriptors instead of installing them. */
    struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
    ssize_t n;

    if (reader->error < 0)
        return reader->error;
    reader_recycle(reader);

    /* A peer that closes with packets unread causes one ECONNRESET here, before its data: its last
     * messages can still be read. */
    do
        n = recvmsg(fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    while (n < 0 && (errno == EINTR || errno == ECONNRESET));

    if (n < 0)
        return errno == EAGAIN ? -EAGAIN : reader_fail(reader, -errno);
    if (msg.msg_flags & MSG_TRUNC)
        return reader_fail(reader, -EMSGSIZE);
    if (msg.msg_flags & MSG_CTRUNC)
        return reader_fail(reader, -EPROTO);
    if (n == 0)
        return reader_fail(reader, empty_read_error(fd));
    return frame_feed(reader, packet, (size_t) n, ret_msg);
}

int frame_next(const struct frame_msg *msg, size_t *pos, struct frame_field *ret_field)
{
    const uint8_t *p;
    size_t left;
    uint32_t len;

    if (*pos >= msg->len)
        return *pos == msg->len ? 0 : -EPROTO;

    p = msg->payload + *pos;
    left = msg->len - *pos;
    if (left < FIELD_HEADER_SIZE)
        return -EPROTO;

    len = get_u32(p + 2);
    if (len > left - FIELD_HEADER_SIZE)
        return -EPROTO;

    *ret_field = (struct frame_field){
        .key = get_u16(p),
        .data = p + FIELD_HEADER_SIZE,
        .len = len,
    };
    *pos += FIELD_HEADER_SIZE + len;
    return 1;
}

bool frame_find(const struct frame_msg *msg, enum frame_key key, struct frame_field *ret_field)
{
    struct frame_field field;
    size_t pos = 0;

    while (frame_next(msg, &pos, &field) > 0) {
        if (field.key == (uint16_t) key) {
            *ret_field = field;
            return true;
        }
    }
    return false;
}

/* Counts downwards, since INT64_MIN has no positive counterpart. */
static bool decimal_parse(const uint8_t *p, size_t len, int64_t *ret_value)
{
    bool negative = len > 0 && p[0] == '-';
    size_t i = negative ? 1 : 0;
    int64_t value = 0;

    if (i == len || (p[i] == '0' && len > 1))
        return false;

    for (; i < len; i++) {
        if (p[i] < '0' || p[i] > '9')
            return false;
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_sub_overflow(value, p[i] - '0', &value))
            return false;
    }

    if (!negative && __builtin_sub_overflow(0, value, &value))
        return false;
    *ret_value = value;
    return true;
}

bool frame_find_int(const struct frame_msg *msg, enum frame_key key, int64_t min, int64_t max,
                    int64_t *ret_value)
{
    struct frame_field field;
    int64_t value;

    if (!frame_find(msg, key, &field) || !decimal_parse(field.data, field.len, &value))
        return false;
    if (value < min || value > max)
        return false;

    *ret_value = value;
    return true;
}
