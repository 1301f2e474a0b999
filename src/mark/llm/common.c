/* Small things that all providers share. */
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/text/utf8.h"
#include "mark/llm/internal.h"
#include "mark/llm/text.h"

#include "base/banned.h"

#define SECRET_LEN_MIN 8 /* "none" and "ollama" are keys of servers that ignore them */
#define REDACTED       "[key]"

void llm_make_printable(char *text)
{
    size_t len = strlen(text), in = 0, out = 0;

    while (in < len) {
        size_t n;
        enum utf8_kind kind = utf8_next(text + in, len - in, &n);
        unsigned char c = (unsigned char) text[in];

        if (kind != UTF8_CHAR || c < ' ' || c == 0x7f ||
            (n == 2 && c == 0xc2 && (unsigned char) text[in + 1] < 0xa0)) {
            text[out++] = ' ';
        } else {
            memmove(text + out, text + in, n);
            out += n;
        }
        in += n;
    }
    text[out] = '\0';
}

int llm_error_set(struct llm_error *error, enum llm_failure failure, int status, const char *fmt,
                  ...)
{
    va_list ap;

    error->failure = failure;
    error->status = status;
    va_start(ap, fmt);
    if (vsnprintf(error->message, sizeof error->message, fmt, ap) < 0)
        error->message[0] = '\0';
    va_end(ap);
    error->message[strlen(error->message) -
                   utf8_partial_end(error->message, strlen(error->message))] = '\0';
    llm_make_printable(error->message);
    return -1;
}

/* ---- keys ---- */

static bool is_secret(const char *key)
{
    return key && strlen(key) >= SECRET_LEN_MIN;
}

void llm_redact_text(char *text, const char *key)
{
    size_t key_len = key ? strlen(key) : 0, mark_len = strlen(REDACTED);

    if (!is_secret(key))
        return;
    for (char *at = text; (at = strstr(at, key)); at += mark_len) {
        for (size_t i = 0; i < mark_len; i++)
            at[i] = REDACTED[i];
        memmove(at + mark_len, at + key_len, strlen(at + key_len) + 1);
    }
}

static json_t *redacted_string(const json_t *json, const char *key)
{
    autofree char *copy = NULL;

    if (!json_is_string(json) || !strstr(json_string_value(json), key))
        return NULL;
    copy = strdup(json_string_value(json));
    if (!copy)
        return json_string(REDACTED);
    llm_redact_text(copy, key);
    return json_string(copy);
}

int llm_redact_json(json_t *json, const char *key)
{
    const char *name;
    json_t *value, *mended;
    size_t i;
    int r = 0;

    if (!is_secret(key))
        return 0;
    json_object_foreach (json, name, value) {
        mended = redacted_string(value, key);
        r |= mended ? json_object_set_new(json, name, mended) : llm_redact_json(value, key);
    }
    json_array_foreach (json, i, value) {
        mended = redacted_string(value, key);
        r |= mended ? json_array_set_new(json, i, mended) : llm_redact_json(value, key);
    }
    return r;
}

/* ---- small things ---- */

double llm_cost(const struct llm_price *price, const struct llm_usage *usage)
{
    int64_t cached = usage->cached > 0 ? usage->cached : 0;

    if (price->prompt < 0 || usage->prompt < 0 || usage->completion < 0)
        return -1;
    return ((double) (usage->prompt - cached) * price->prompt + (double) cached * price->cached +
            (double) usage->completion * price->completion) /
           1e6;
}

int llm_pause(int64_t us, int cancel_fd)
{
    struct pollfd p = { .fd = cancel_fd, .events = POLLIN };
    int64_t end_us = clock_now_us() + us;

    for (;;) {
        int64_t left_us = end_us - clock_now_us();
        struct timespec wait = { .tv_sec = left_us / USEC_PER_SEC,
                                 .tv_nsec = left_us % USEC_PER_SEC * 1000 };

        if (left_us < 0)
            wait = (struct timespec){ 0 };
        if (ppoll(&p, cancel_fd >= 0 ? 1 : 0, &wait, NULL) > 0)
            return -ECANCELED;
        if (left_us <= 0)
            return 0;
    }
}

void llm_reply_release(struct llm_reply *reply)
{
    json_decref(reply->message);
    json_decref(reply->trace);
    *reply = (struct llm_reply){ 0 };
}

void llm_error_release(struct llm_error *error)
{
    json_decref(error->trace);
    *error = (struct llm_error){ 0 };
}

void decoder_init(struct decoder *decoder, const struct llm_model *model, struct draft *draft,
                  int64_t max_tokens)
{
    *decoder = (struct decoder){ .model = model, .draft = draft, .max_tokens = max_tokens };
}

void decoder_release(struct decoder *decoder)
{
    json_decref(decoder->usage);
    json_decref(decoder->error);
    json_decref(decoder->blocks);
    for (size_t i = 0; i < decoder->partial_len; i++)
        text_release(&decoder->partial[i]);
    free(decoder->partial);
    *decoder = (struct decoder){ 0 };
}
