#include "cli/shell/frames.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/banned.h"

#define MESSAGE_MAX (4u << 20)
#define CONTROL_MAX 125u
#define FIN         0x80u
#define MASKED      0x80u
#define LEN_16      126u
#define LEN_64      127u

size_t frame_wrap(enum frame_kind kind, char *data, size_t len, const uint8_t mask[4],
                  uint8_t head[FRAME_HEAD_MAX])
{
    size_t at = 2;

    head[0] = (uint8_t) (FIN | kind);
    if (len < LEN_16) {
        head[1] = (uint8_t) (MASKED | len);
    } else {
        int bytes = len <= UINT16_MAX ? 2 : 8;

        head[1] = (uint8_t) (MASKED | (bytes == 2 ? LEN_16 : LEN_64));
        for (int i = bytes - 1; i >= 0; i--)
            head[at++] = (uint8_t) ((uint64_t) len >> (8 * i));
    }
    memcpy(head + at, mask, 4);
    for (size_t i = 0; i < len; i++)
        data[i] = (char) (data[i] ^ mask[i % 4]);
    return at + 4;
}

void frames_release(struct frames *frames)
{
    free(frames->data);
    *frames = (struct frames){ 0 };
}

static size_t head_size(const struct frames *f)
{
    unsigned len = f->head_len > 1 ? f->head[1] & 0x7fu : 0;

    return len == LEN_16 ? 4 : len == LEN_64 ? 10 : 2;
}

static enum frame_kind kind_of(const struct frames *f)
{
    return (enum frame_kind)(f->head[0] & 0x0fu);
}

static bool is_control(const struct frames *f)
{
    return (f->head[0] & 0x08u) != 0;
}

/* The head is whole: what it says, and whether it may. */
static int head_check(struct frames *f)
{
    enum frame_kind kind = kind_of(f);
    uint64_t len = f->head[1] & 0x7fu;
    bool fin = f->head[0] & FIN;

    if (len >= LEN_16) {
        len = 0;
        for (size_t i = 2; i < f->head_len; i++)
            len = len << 8 | f->head[i];
    }
    if (f->head[0] & 0x70 || f->head[1] & MASKED)
        return -EPROTO;
    if (is_control(f)) {
        if (kind > FRAME_PONG || !fin || len > CONTROL_MAX)
            return -EPROTO;
    } else if (kind > FRAME_BINARY || (kind == FRAME_MORE) != (f->of != FRAME_MORE)) {
        return -EPROTO; /* a message within a message, or the rest of none */
    }
    if (len > MESSAGE_MAX - f->kept)
        return -EMSGSIZE;
    if (kind == FRAME_TEXT || kind == FRAME_BINARY)
        f->of = kind;
    f->left = len;
    return 0;
}

static int data_add(struct frames *f, const char *data, size_t len)
{
    if (f->len + len > f->size) {
        size_t size = (f->len + len) * 2;
        char *grown = realloc(f->data, size);

        if (!grown)
            return -ENOMEM;
        f->data = grown;
        f->size = size;
    }
    if (len > 0)
        memcpy(f->data + f->len, data, len);
    f->len += len;
    f->left -= len;
    return 0;
}

/* The frame is whole. */
static int frame_end(struct frames *f, int (*each)(void *, enum frame_kind, const char *, size_t),
                     void *arg)
{
    bool control = is_control(f), last = f->head[0] & FIN;
    int r = 0;

    f->head_len = 0;
    if (control) {
        r = each(arg, kind_of(f), f->data + f->kept, f->len - f->kept);
        f->len = f->kept;
    } else if (last) {
        r = each(arg, f->of, f->data, f->len);
        f->of = FRAME_MORE;
        f->len = f->kept = 0;
    } else {
        f->kept = f->len;
    }
    return r;
}

int frames_feed(struct frames *f, const char *data, size_t len,
                int (*each)(void *arg, enum frame_kind kind, const char *data, size_t len),
                void *arg)
{
    int r = 0;

    for (;;) {
        size_t part;

        if (f->head_len < head_size(f)) {
            if (len == 0)
                return 0;
            f->head[f->head_len++] = (uint8_t) *data++;
            len--;
            if (f->head_len < head_size(f))
                continue;
            if ((r = head_check(f)) < 0)
                return r;
        }
        part = f->left < len ? (size_t) f->left : len;
        if ((r = data_add(f, data, part)) < 0)
            return r;
        data += part;
        len -= part;
        if (f->left > 0)
            return 0;
        if ((r = frame_end(f, each, arg)) < 0)
            return r;
    }
}
