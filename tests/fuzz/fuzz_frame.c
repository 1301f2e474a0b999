/*
 * Fuzzes the reader of the frame protocol, the code that stands between tenant and supervisor.
 *
 * The input is a sequence of packets for one reader: a length (u16, little-endian; 0xffff means
 * all that is left, a longer one is cut to it) and that many bytes. Besides what the sanitisers
 * see, each step is held against the promises of frame.h; one that is broken aborts.
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "engine/frame.h"

#include "base/banned.h"

#define FIELD_HEADER 6u

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition))                                                                          \
            __builtin_trap();                                                                      \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Writing the fields that were read must give the same bytes. */
static void check_rewrite(const struct frame_msg *msg)
{
    struct frame_out out;
    struct frame_field field;
    size_t pos = 0;

    frame_out_init(&out, msg->type);
    while (frame_next(msg, &pos, &field) > 0)
        frame_put(&out, (enum frame_key) field.key, field.data, field.len);
    CHECK(out.error == 0);
    CHECK(out.len == msg->len);
    CHECK(out.len == 0 || memcmp(out.data, msg->payload, out.len) == 0);
    frame_out_release(&out);
}

static void check_find(const struct frame_msg *msg, const struct frame_field *field)
{
    enum frame_key key = (enum frame_key) field->key;
    struct frame_field found;
    int64_t value;

    CHECK(frame_find(msg, key, &found));
    CHECK(found.key == field->key);
    CHECK(found.data <= field->data); /* the first one */
    if (frame_find_int(msg, key, -1000, 1000, &value)) {
        CHECK(value >= -1000 && value <= 1000);
        CHECK(found.len >= 1 && found.len <= 5);
    }
}

static void check_message(const struct frame_msg *msg, size_t received)
{
    struct frame_field field;
    size_t pos = 0, sum = 0, fields = 0;
    unsigned char touch = 0;
    int r;

    CHECK(msg->type >= FRAME_RUN && msg->type <= FRAME_TYPE_LAST);
    CHECK(msg->payload != NULL);
    CHECK(msg->len <= received && msg->len <= FRAME_MESSAGE_MAX);

    while ((r = frame_next(msg, &pos, &field)) > 0) {
        CHECK(field.data >= msg->payload + FIELD_HEADER);
        CHECK(field.data + field.len <= msg->payload + msg->len);
        for (size_t i = 0; i < field.len; i++)
            touch ^= field.data[i];
        sum += FIELD_HEADER + field.len;
        CHECK(pos == sum);
        if (fields++ < 4)
            check_find(msg, &field);
    }
    __asm__ volatile("" : : "r"(touch)); /* the reads above must happen */
    CHECK(r == 0);                       /* a message that was handed out has sound fields */
    CHECK(sum == msg->len);
    CHECK(fields <= FRAME_FIELDS_MAX);
    check_rewrite(msg);
}

static void check_failed(struct frame_reader *reader, int error)
{
    static const uint8_t sound[FRAME_HEADER_SIZE] = { FRAME_VERSION, FRAME_DONE };
    struct frame_msg msg;

    CHECK(error == -EPROTO || error == -EMSGSIZE);
    CHECK(reader->error == error && reader->data == NULL);
    CHECK(frame_feed(reader, sound, sizeof sound, &msg) == error);
}

/* Feeds a copy of exactly @len bytes, so that ASan sees every read beyond them. @received counts
 * the payload of the message that is being put together. */
static int feed_copy(struct frame_reader *reader, const uint8_t *data, size_t len, size_t *received)
{
    autofree uint8_t *copy = malloc(len > 0 ? len : 1);
    struct frame_msg msg;
    int r;

    CHECK(copy != NULL);
    memcpy(copy, data, len);
    r = frame_feed(reader, copy, len, &msg);
    if (r < 0) {
        check_failed(reader, r);
        return r;
    }

    CHECK(r <= 1);
    CHECK(len >= FRAME_HEADER_SIZE);
    *received += len - FRAME_HEADER_SIZE;
    CHECK(reader->open == (r == 0));
    CHECK(reader->len == *received);
    CHECK(reader->cap <= 2 * *received + 2 * FRAME_PACKET_MAX);
    if (r == 1) {
        check_message(&msg, *received);
        *received = 0;
    }
    return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct frame_reader reader;
    size_t received = 0;

    frame_reader_init(&reader);
    while (size >= 2) {
        size_t len = (size_t) data[0] | (size_t) data[1] << 8;

        data += 2;
        size -= 2;
        if (len > size || len == 0xffff)
            len = size;
        if (feed_copy(&reader, data, len, &received) < 0)
            break;
        data += len;
        size -= len;
    }
    frame_reader_release(&reader);
    return 0;
}
