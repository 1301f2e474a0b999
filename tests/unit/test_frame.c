/* The frame protocol without a socket: every rejection, the caps, the fields, the memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "engine/frame.h"

#include "base/banned.h"

#define PAYLOAD_MAX (FRAME_PACKET_MAX - FRAME_HEADER_SIZE)

/* ---- packets by hand ---- */

struct packet {
    uint8_t version, type;
    uint16_t flags;
    uint32_t length, total;
    size_t body; /* bytes that really follow the header */
};

static const struct packet SOUND = { .version = FRAME_VERSION, .type = FRAME_DONE };

static void wire_u16(uint8_t *p, uint32_t v)
{
    p[0] = v & 0xff;
    p[1] = (v >> 8) & 0xff;
}

static void wire_u32(uint8_t *p, uint32_t v)
{
    wire_u16(p, v);
    wire_u16(p + 2, v >> 16);
}

static void wire_header(uint8_t *p, const struct packet *packet)
{
    p[0] = packet->version;
    p[1] = packet->type;
    wire_u16(p + 2, packet->flags);
    wire_u32(p + 4, packet->length);
    wire_u32(p + 8, packet->total);
}

/* A packet that is a whole message is one for frame_packet_read() too, and no other is. */
static int feed_wire(struct frame_reader *reader, const uint8_t *wire, size_t len,
                     struct frame_msg *ret_msg)
{
    bool fresh = !reader->open && reader->error == 0;
    struct frame_msg alone = { 0 };
    int fields = frame_packet_read(wire, len, &alone);
    int r = frame_feed(reader, wire, len, ret_msg);

    if (fresh)
        assert_int_equal(r == 1, fields >= 0);
    if (fresh && r == 1) {
        assert_int_equal(alone.type, ret_msg->type);
        assert_int_equal(alone.len, ret_msg->len);
        if (alone.len > 0)
            assert_memory_equal(alone.payload, ret_msg->payload, alone.len);
    }
    return r;
}

/* The bytes sit at the end of their own allocation, so that ASan sees a read beyond them. */
static int feed(struct frame_reader *reader, const struct packet *packet, const void *body,
                struct frame_msg *ret_msg)
{
    size_t len = FRAME_HEADER_SIZE + packet->body;
    autofree uint8_t *wire = calloc(1, len);

    assert_non_null(wire);
    wire_header(wire, packet);
    if (body)
        memcpy(wire + FRAME_HEADER_SIZE, body, packet->body);
    return feed_wire(reader, wire, len, ret_msg);
}

static int feed_payload(struct frame_reader *reader, const void *payload, size_t len,
                        struct frame_msg *ret_msg)
{
    struct packet packet = SOUND;

    packet.length = packet.total = (uint32_t) len;
    packet.body = len;
    return feed(reader, &packet, payload, ret_msg);
}

/* After a failure the reader holds nothing and refuses even a sound packet. */
static void assert_stuck(struct frame_reader *reader, int error)
{
    struct frame_msg msg;

    assert_int_equal(reader->error, error);
    assert_null(reader->data);
    assert_int_equal(feed(reader, &SOUND, NULL, &msg), error);
    assert_int_equal(frame_recv(-1, reader, &msg), error);
}

/* Judges one row of a table and is done with the reader. */
static void check_row(const char *what, int got, int want, struct frame_reader *reader)
{
    if (got != want)
        fail_msg("%s: got %d, want %d", what, got, want);
    if (got < 0)
        assert_stuck(reader, got);
    frame_reader_release(reader);
}

/* ---- single packets ---- */

static void test_first_packet(void **state)
{
    static const struct {
        const char *what;
        struct packet packet;
        int want;
    } cases[] = {
        { "empty message", { 1, FRAME_DONE, 0, 0, 0, 0 }, 1 },
        { "first type", { 1, 1, 0, 0, 0, 0 }, 1 },
        { "last type", { 1, FRAME_TYPE_LAST, 0, 0, 0, 0 }, 1 },
        { "first of two", { 1, FRAME_DONE, FRAME_MORE, 1, 2, 1 }, 0 },
        { "largest first packet",
          { 1, FRAME_DONE, FRAME_MORE, PAYLOAD_MAX, FRAME_MESSAGE_MAX, PAYLOAD_MAX },
          0 },
        { "version 0", { 0, FRAME_DONE, 0, 0, 0, 0 }, -EPROTO },
        { "version 2", { 2, FRAME_DONE, 0, 0, 0, 0 }, -EPROTO },
        { "type 0", { 1, 0, 0, 0, 0, 0 }, -EPROTO },
        { "type after the last", { 1, FRAME_TYPE_LAST + 1, 0, 0, 0, 0 }, -EPROTO },
        { "type 255", { 1, 255, 0, 0, 0, 0 }, -EPROTO },
        { "flag 2", { 1, FRAME_DONE, 2, 0, 0, 0 }, -EPROTO },
        { "flag 2 with MORE", { 1, FRAME_DONE, 3, 1, 2, 1 }, -EPROTO },
        { "flag 0x8000", { 1, FRAME_DONE, 0x8000, 0, 0, 0 }, -EPROTO },
        { "length beyond the packet", { 1, FRAME_DONE, 0, 6, 6, 5 }, -EPROTO },
        { "length short of the packet", { 1, FRAME_DONE, 0, 6, 6, 7 }, -EPROTO },
        { "length 2^32-1", { 1, FRAME_DONE, 0, UINT32_MAX, 6, 6 }, -EPROTO },
        { "length that wraps", { 1, FRAME_DONE, 0, UINT32_MAX - 11, 0, 0 }, -EPROTO },
        { "length beyond total", { 1, FRAME_DONE, 0, 6, 5, 6 }, -EPROTO },
        { "length beyond total, MORE", { 1, FRAME_DONE, FRAME_MORE, 6, 5, 6 }, -EPROTO },
        { "last packet, message incomplete", { 1, FRAME_DONE, 0, 6, 7, 6 }, -EPROTO },
        { "MORE, message complete", { 1, FRAME_DONE, FRAME_MORE, 6, 6, 6 }, -EPROTO },
        { "MORE, empty message", { 1, FRAME_DONE, FRAME_MORE, 0, 0, 0 }, -EPROTO },
        { "MORE without progress", { 1, FRAME_DONE, FRAME_MORE, 0, 6, 0 }, -EPROTO },
        { "total one above the cap",
          { 1, FRAME_DONE, FRAME_MORE, 1, FRAME_MESSAGE_MAX + 1, 1 },
          -EMSGSIZE },
        { "total 2^32-1", { 1, FRAME_DONE, FRAME_MORE, 1, UINT32_MAX, 1 }, -EMSGSIZE },
        { "packet one above the cap",
          { 1, FRAME_DONE, FRAME_MORE, PAYLOAD_MAX + 1, FRAME_MESSAGE_MAX, PAYLOAD_MAX + 1 },
          -EMSGSIZE },
    };

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct frame_reader reader;
        struct frame_msg msg = { .len = 77 };
        int r;

        frame_reader_init(&reader);
        r = feed(&reader, &cases[i].packet, NULL, &msg);
        if (r < 1)
            assert_int_equal(msg.len, 77); /* outputs are written only on success */
        check_row(cases[i].what, r, cases[i].want, &reader);
    }
}

static void test_short_packets(void **state)
{
    uint8_t wire[FRAME_HEADER_SIZE];

    (void) state;
    wire_header(wire, &SOUND);
    for (size_t len = 0; len <= sizeof wire; len++) {
        struct frame_reader reader;
        struct frame_msg msg;
        autofree uint8_t *exact = malloc(len > 0 ? len : 1);

        assert_non_null(exact);
        memcpy(exact, wire, len);
        frame_reader_init(&reader);
        assert_int_equal(feed_wire(&reader, exact, len, &msg), len < sizeof wire ? -EPROTO : 1);
        frame_reader_release(&reader);
    }
}

static void test_second_packet(void **state)
{
    /* The first packet is always DONE with MORE and 4 of 10 bytes. */
    static const struct {
        const char *what;
        struct packet packet;
        int want;
    } cases[] = {
        { "the rest", { 1, FRAME_DONE, 0, 6, 10, 6 }, 1 },
        { "a part of the rest", { 1, FRAME_DONE, FRAME_MORE, 5, 10, 5 }, 0 },
        { "another type", { 1, FRAME_RESULT, 0, 6, 10, 6 }, -EPROTO },
        { "another, larger total", { 1, FRAME_DONE, FRAME_MORE, 6, 11, 6 }, -EPROTO },
        { "another, smaller total, MORE", { 1, FRAME_DONE, FRAME_MORE, 4, 9, 4 }, -EPROTO },
        { "another, smaller total", { 1, FRAME_DONE, 0, 0, 4, 0 }, -EPROTO },
        { "total below what has arrived", { 1, FRAME_DONE, 0, 2, 2, 2 }, -EPROTO },
        { "a new message", { 1, FRAME_DONE, 0, 0, 0, 0 }, -EPROTO },
        { "one byte too many", { 1, FRAME_DONE, 0, 7, 10, 7 }, -EPROTO },
        { "one byte too many, MORE", { 1, FRAME_DONE, FRAME_MORE, 7, 10, 7 }, -EPROTO },
        { "the whole length again", { 1, FRAME_DONE, 0, 10, 10, 10 }, -EPROTO },
        { "the rest, but MORE", { 1, FRAME_DONE, FRAME_MORE, 6, 10, 6 }, -EPROTO },
        { "a part, but the last", { 1, FRAME_DONE, 0, 5, 10, 5 }, -EPROTO },
        { "nothing, MORE", { 1, FRAME_DONE, FRAME_MORE, 0, 10, 0 }, -EPROTO },
        { "nothing, the last", { 1, FRAME_DONE, 0, 0, 10, 0 }, -EPROTO },
        { "another version", { 2, FRAME_DONE, 0, 6, 10, 6 }, -EPROTO },
        { "total above the cap", { 1, FRAME_DONE, 0, 6, UINT32_MAX, 6 }, -EMSGSIZE },
    };
    /* One field of 4 bytes: 10 in all. */
    static const uint8_t payload[10] = { KEY_JSON, 0, 4, 0, 0, 0, 'a', 'b', 'c', 'd' };
    static const struct packet first = { 1, FRAME_DONE, FRAME_MORE, 4, 10, 4 };

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        uint8_t rest[16] = { 0 };
        struct frame_reader reader;
        struct frame_msg msg;
        int r;

        memcpy(rest, payload + 4, 6);
        frame_reader_init(&reader);
        assert_int_equal(feed(&reader, &first, payload, &msg), 0);
        r = feed(&reader, &cases[i].packet, rest, &msg);
        if (r == 1)
            assert_memory_equal(msg.payload, payload, sizeof payload);
        check_row(cases[i].what, r, cases[i].want, &reader);
    }
}

/* ---- fields ---- */

static void test_field_shapes(void **state)
{
    static const struct {
        const char *what;
        uint8_t payload[16];
        size_t len;
        int want;
    } cases[] = {
        { "no fields", { 0 }, 0, 1 },
        { "an empty field", { 6, 0, 0, 0, 0, 0 }, 6, 1 },
        { "an unknown key", { 0xff, 0xff, 1, 0, 0, 0, 'x' }, 7, 1 },
        { "key 0", { 0, 0, 1, 0, 0, 0, 'x' }, 7, 1 },
        { "two fields", { 6, 0, 1, 0, 0, 0, '7', 7, 0, 0, 0, 0, 0 }, 13, 1 },
        { "one byte", { 6 }, 1, -EPROTO },
        { "a cut header", { 6, 0, 0, 0, 0 }, 5, -EPROTO },
        { "length beyond the payload", { 6, 0, 2, 0, 0, 0, 'x' }, 7, -EPROTO },
        { "length 2^32-1", { 6, 0, 0xff, 0xff, 0xff, 0xff, 'x' }, 7, -EPROTO },
        { "length that wraps", { 6, 0, 0xfa, 0xff, 0xff, 0xff }, 6, -EPROTO },
        { "a tail", { 6, 0, 1, 0, 0, 0, 'x', 'y' }, 8, -EPROTO },
        { "a broken second", { 6, 0, 0, 0, 0, 0, 7, 0, 1, 0, 0, 0 }, 12, -EPROTO },
    };

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct frame_reader reader;
        struct frame_msg msg;

        frame_reader_init(&reader);
        check_row(cases[i].what, feed_payload(&reader, cases[i].payload, cases[i].len, &msg),
                  cases[i].want, &reader);
    }
}

static void test_field_count(void **state)
{
    (void) state;
    for (size_t n = FRAME_FIELDS_MAX; n <= FRAME_FIELDS_MAX + 1; n++) {
        autofree uint8_t *payload = calloc(n, FIELD_HEADER_SIZE);
        struct frame_reader reader;
        struct frame_msg msg;

        assert_non_null(payload);
        frame_reader_init(&reader);
        assert_int_equal(feed_payload(&reader, payload, n * FIELD_HEADER_SIZE, &msg),
                         n > FRAME_FIELDS_MAX ? -EMSGSIZE : 1);
        frame_reader_release(&reader);
    }
}

static void test_next_on_broken_payload(void **state)
{
    static const uint8_t payload[] = { 6, 0, 1, 0, 0, 0, 'x', 9 };
    const struct frame_msg msg = { .type = FRAME_DONE, .payload = payload, .len = sizeof payload };
    struct frame_field field = { .key = 77 };
    size_t pos = 0;

    (void) state;
    assert_int_equal(frame_next(&msg, &pos, &field), 1);
    assert_int_equal(pos, 7);
    assert_int_equal(frame_next(&msg, &pos, &field), -EPROTO);
    assert_int_equal(pos, 7);
    assert_int_equal(field.key, 6);
    pos = sizeof payload + 1;
    assert_int_equal(frame_next(&msg, &pos, &field), -EPROTO);
    pos = SIZE_MAX;
    assert_int_equal(frame_next(&msg, &pos, &field), -EPROTO);
    assert_false(frame_find(&msg, KEY_JSON, &field));
}

static struct frame_msg msg_of(const struct frame_out *out)
{
    return (struct frame_msg){ .type = (enum frame_type) out->type,
                               .payload = out->data,
                               .len = out->len };
}

static void test_find(void **state)
{
    struct frame_out out;
    struct frame_msg msg;
    struct frame_field field;

    (void) state;
    frame_out_init(&out, FRAME_RUN);
    frame_put_text(&out, KEY_ARG, "first");
    frame_put_text(&out, KEY_MODE, "");
    frame_put(&out, KEY_ARG, "se\0cond", 7);
    msg = msg_of(&out);

    assert_true(frame_find(&msg, KEY_ARG, &field));
    assert_int_equal(field.len, 5);
    assert_memory_equal(field.data, "first", 5);
    assert_true(frame_find(&msg, KEY_MODE, &field));
    assert_int_equal(field.len, 0);
    field.key = 77;
    assert_false(frame_find(&msg, KEY_CODE, &field));
    assert_int_equal(field.key, 77);
    frame_out_release(&out);
}

static void test_find_int(void **state)
{
    static const struct {
        const char *text;
        int64_t min, max;
        bool want;
        int64_t value;
    } cases[] = {
        { "0", 0, 255, true, 0 },
        { "255", 0, 255, true, 255 },
        { "-1", -1, 0, true, -1 },
        { "9223372036854775807", INT64_MIN, INT64_MAX, true, INT64_MAX },
        { "-9223372036854775808", INT64_MIN, INT64_MAX, true, INT64_MIN },
        { "256", 0, 255, false, 0 },
        { "-1", 0, 255, false, 0 },
        { "9223372036854775808", INT64_MIN, INT64_MAX, false, 0 },
        { "-9223372036854775809", INT64_MIN, INT64_MAX, false, 0 },
        { "99999999999999999999999999", INT64_MIN, INT64_MAX, false, 0 },
        { "", 0, 255, false, 0 },
        { "-", INT64_MIN, INT64_MAX, false, 0 },
        { "--1", INT64_MIN, INT64_MAX, false, 0 },
        { "+1", 0, 255, false, 0 },
        { " 1", 0, 255, false, 0 },
        { "1 ", 0, 255, false, 0 },
        { "1\n", 0, 255, false, 0 },
        { "01", 0, 255, false, 0 },
        { "-0", -1, 255, false, 0 },
        { "-01", -1, 255, false, 0 },
        { "0x1", 0, 255, false, 0 },
        { "1e2", 0, 255, false, 0 },
        { "1.0", 0, 255, false, 0 },
    };

    (void) state;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct frame_out out;
        struct frame_msg msg;
        int64_t value = 4711;
        bool ok;

        frame_out_init(&out, FRAME_DONE);
        frame_put_text(&out, KEY_EXIT_CODE, cases[i].text);
        msg = msg_of(&out);
        ok = frame_find_int(&msg, KEY_EXIT_CODE, cases[i].min, cases[i].max, &value);
        if (ok != cases[i].want || value != (ok ? cases[i].value : 4711))
            fail_msg("'%s': %s, %" PRId64, cases[i].text, ok ? "taken" : "refused", value);
        assert_false(frame_find_int(&msg, KEY_SEQUENCE, INT64_MIN, INT64_MAX, &value));
        frame_out_release(&out);
    }
}

/* ---- memory ---- */

static void test_memory_follows_arrival(void **state)
{
    struct packet packet = SOUND;
    struct frame_reader reader;
    struct frame_msg msg;

    (void) state;
    packet.flags = FRAME_MORE;
    packet.total = FRAME_MESSAGE_MAX;
    packet.length = 1000;
    packet.body = 1000;

    frame_reader_init(&reader);
    for (size_t received = 1000; received <= 1000 * 1000; received += 1000) {
        assert_int_equal(feed(&reader, &packet, NULL, &msg), 0);
        assert_int_equal(reader.len, received);
        assert_true(reader.cap >= received);
        assert_true(reader.cap <= 2 * received);
    }
    frame_reader_release(&reader);
    assert_null(reader.data);
}

/* Feeds a message of one field with @len bytes of data, in packets as large as allowed. */
static void feed_large(struct frame_reader *reader, size_t len, struct frame_msg *ret_msg)
{
    struct frame_out out;
    autofree uint8_t *data = malloc(len);
    struct packet packet = SOUND;
    int r = 0;

    assert_non_null(data);
    memset(data, 'x', len);
    frame_out_init(&out, FRAME_DONE);
    frame_put(&out, KEY_TRACEBACK, data, len);
    assert_int_equal(out.error, 0);

    packet.total = (uint32_t) out.len;
    for (size_t pos = 0; pos < out.len; pos += packet.body) {
        size_t left = out.len - pos;

        assert_int_equal(r, 0);
        packet.body = left < PAYLOAD_MAX ? left : PAYLOAD_MAX;
        packet.length = (uint32_t) packet.body;
        packet.flags = packet.body < left ? FRAME_MORE : 0;
        r = feed(reader, &packet, out.data + pos, ret_msg);
    }
    assert_int_equal(r, 1);
    assert_int_equal(ret_msg->len, out.len);
    assert_memory_equal(ret_msg->payload, out.data, out.len);
    frame_out_release(&out);
}

static void test_largest_message(void **state)
{
    struct frame_reader reader;
    struct frame_msg msg;

    (void) state;
    frame_reader_init(&reader);
    feed_large(&reader, FRAME_MESSAGE_MAX - FIELD_HEADER_SIZE, &msg);
    assert_true(reader.cap <= FRAME_MESSAGE_MAX);

    /* The next call gives the memory back. */
    assert_int_equal(feed(&reader, &SOUND, NULL, &msg), 1);
    assert_int_equal(msg.len, 0);
    assert_non_null(msg.payload);
    assert_true(reader.cap <= FRAME_PACKET_MAX);
    frame_reader_release(&reader);
}

/* ---- writing ---- */

static void test_put_caps(void **state)
{
    autofree uint8_t *data = calloc(1, FRAME_MESSAGE_MAX);
    struct frame_out out;

    (void) state;
    assert_non_null(data);

    frame_out_init(&out, FRAME_RUN);
    frame_put(&out, KEY_CODE, data, FRAME_MESSAGE_MAX - FIELD_HEADER_SIZE);
    assert_int_equal(out.error, 0);
    assert_int_equal(out.len, FRAME_MESSAGE_MAX);
    frame_put(&out, KEY_CODE, NULL, 0);
    assert_int_equal(out.error, -EMSGSIZE);
    assert_int_equal(frame_send(-1, &out, 0), -EMSGSIZE);
    frame_out_release(&out);

    frame_out_init(&out, FRAME_RUN);
    frame_put(&out, KEY_CODE, data, FRAME_MESSAGE_MAX - FIELD_HEADER_SIZE + 1);
    assert_int_equal(out.error, -EMSGSIZE);
    assert_int_equal(out.len, 0);
    frame_put_text(&out, KEY_MODE, "cell"); /* the first failure is kept */
    assert_int_equal(out.len, 0);
    frame_out_release(&out);

    frame_out_init(&out, FRAME_RUN);
    frame_put(&out, KEY_CODE, data, SIZE_MAX);
    assert_int_equal(out.error, -EMSGSIZE);
    frame_out_release(&out);

    frame_out_init(&out, FRAME_RUN);
    for (size_t i = 0; i < FRAME_FIELDS_MAX; i++)
        frame_put_text(&out, KEY_ARG, "");
    assert_int_equal(out.error, 0);
    frame_put_text(&out, KEY_ARG, "");
    assert_int_equal(out.error, -EMSGSIZE);
    frame_out_release(&out);
}

/* What is written packet by packet is what a reader takes. */
static void test_packet_write(void **state)
{
    uint8_t wire[FRAME_HEADER_SIZE + 2 * FIELD_HEADER_SIZE + 5], *at;
    struct frame_reader reader;
    struct frame_field field;
    struct frame_msg msg;
    size_t pos = 0;

    (void) state;
    at = frame_packet_begin(wire, FRAME_RUN, sizeof wire - FRAME_HEADER_SIZE);
    at = frame_packet_put(at, KEY_CODE, "pass\n", 5);
    at = frame_packet_put(at, UINT16_MAX, NULL, 0);
    assert_ptr_equal(at, wire + sizeof wire);
    frame_reader_init(&reader);
    assert_int_equal(feed_wire(&reader, wire, sizeof wire, &msg), 1);
    assert_int_equal(msg.type, FRAME_RUN);
    assert_int_equal(frame_next(&msg, &pos, &field), 1);
    assert_int_equal(field.key, KEY_CODE);
    assert_int_equal(field.len, 5);
    assert_memory_equal(field.data, "pass\n", 5);
    assert_int_equal(frame_next(&msg, &pos, &field), 1);
    assert_int_equal(field.key, UINT16_MAX);
    assert_int_equal(field.len, 0);
    assert_int_equal(frame_next(&msg, &pos, &field), 0);
    frame_reader_release(&reader);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first_packet),
        cmocka_unit_test(test_short_packets),
        cmocka_unit_test(test_packet_write),
        cmocka_unit_test(test_second_packet),
        cmocka_unit_test(test_field_shapes),
        cmocka_unit_test(test_field_count),
        cmocka_unit_test(test_next_on_broken_payload),
        cmocka_unit_test(test_find),
        cmocka_unit_test(test_find_int),
        cmocka_unit_test(test_memory_follows_arrival),
        cmocka_unit_test(test_largest_message),
        cmocka_unit_test(test_put_caps),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
