/*
 * What comes through a proxy: the input is what a client sends, a head and then a body; the same
 * bytes also stand for the head of a server's reply, for a policy's entry, and for an address.
 *
 * What must hold of everything that is understood: the head that is written has one line for each
 * field and one end, so that a server cannot see two requests in it; parsed again it means the
 * same; and a body ends at the same byte however it is cut.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "egress/head.h"
#include "egress/policy.h"

#include "base/banned.h"

static void must(bool condition)
{
    if (!condition)
        abort();
}

/* One end, at its end, and no line end that is not CRLF. */
static void check_head(const char *text, size_t len)
{
    const char *end = memmem(text, len, "\r\n\r\n", 4);

    must(end && end + 4 == text + len);
    for (size_t i = 0; i < len; i++) {
        must(text[i] != '\n' || (i > 0 && text[i - 1] == '\r'));
        must(text[i] != '\r' || (i + 1 < len && text[i + 1] == '\n'));
        must(text[i] != '\0');
    }
}

static size_t body_end(const struct request_head *head, const char *data, size_t len, size_t piece)
{
    struct body_reader reader;
    size_t taken = 0;

    body_reader_init(&reader, head);
    for (size_t at = 0; at < len && !body_reader_done(&reader); at += piece) {
        size_t n = len - at < piece ? len - at : piece;
        ssize_t r = body_reader_feed(&reader, data + at, n);

        if (r < 0)
            return SIZE_MAX;
        must((size_t) r <= n && ((size_t) r == n || body_reader_done(&reader)));
        taken += (size_t) r;
    }
    return taken;
}

static void check_request(const char *data, size_t len)
{
    static const struct head_extra extras[] = { { "X-Key", "value", 5 } };
    static char out[2 * HEAD_MAX], again[2 * HEAD_MAX];
    static struct request_head head, second;
    const char *why = NULL;
    int r = request_head_parse(data, len, &head, &why), n;

    if (r <= 0) {
        must(r == 0 || (r <= -400 && r >= -599 && why));
        return;
    }
    must((size_t) r <= len && r <= HEAD_MAX && head.port != 0);
    must(strlen(head.host.text) > 0);
    must(body_end(&head, data + r, len - (size_t) r, len) ==
         body_end(&head, data + r, len - (size_t) r, 1));
    if (head.connect)
        return;
    n = request_head_write(&head, extras, 1, false, out, sizeof out);
    must(n > 0);
    check_head(out, (size_t) n);
    /* In origin form it is not for a proxy; made absolute it is the same request. */
    why = memchr(out, ' ', (size_t) n);
    n = snprintf(again, sizeof again, "%.*s%s%s%s%s:%u%.*s", (int) (why + 1 - out), out, "http://",
                 strchr(head.host.text, ':') ? "[" : "", head.host.text,
                 strchr(head.host.text, ':') ? "]" : "", head.port, (int) (n - (why + 1 - out)),
                 why + 1);
    if (n >= HEAD_MAX)
        return;
    n = request_head_parse(again, (size_t) n, &second, &why);
    if (n == -414 || n == -431)
        return; /* it grew */
    must(n > 0 && strcmp(head.method, second.method) == 0 && head.body == second.body &&
         head.body_len == second.body_len && head.port == second.port &&
         strcmp(head.host.text, second.host.text) == 0);
}

static void check_reply(const char *data, size_t len)
{
    static char out[REPLY_HEAD_MAX + 4096];
    size_t out_len;
    int status, n = reply_head_rewrite(data, len, out, sizeof out, &status, &out_len);

    if (n <= 0)
        return;
    must((size_t) n <= len && status >= 100 && status <= 599);
    /* Fields of a reply may hold any byte but those that end lines; a NUL is refused too. */
    check_head(out, out_len);
}

static void count_entry(void *arg, const char *entry, bool is_secret)
{
    (void) is_secret;
    must(entry[0] != '\0');
    ++*(unsigned *) arg;
}

/* What is taken can be shown, and what is shown means the same. */
static void check_entry(const char *text)
{
    struct egress_policy *policy;
    struct address_block block;
    struct gb_err err;
    unsigned count = 0;

    must(egress_policy_new(&policy, &err) == 0);
    if (egress_policy_allow(policy, text, true, &err) == 0) {
        egress_policy_each(policy, count_entry, &count);
        must(count == 1);
        must(egress_policy_allow_within(policy, text, policy, &err) == 0);
    }
    egress_policy_free(policy);
    if (address_block_parse(text, &block) == 0)
        must(address_block_has(&block, &block.base));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* Copies of the exact size, so that a sanitizer sees a step beyond it. */
    char *text = malloc(size + 1);

    must(text);
    memcpy(text, data, size);
    text[size] = '\0';
    check_request(text, size);
    check_reply(text, size);
    check_entry(text);
    free(text);
    return 0;
}
