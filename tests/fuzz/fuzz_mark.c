/*
 * What strangers can write for Mark. The first byte says what the rest is:
 *
 *   t  an access token, as text up to a NUL
 *   c  the claims of one: they are also put into a token with a right MAC, which the fuzzer could
 *      not guess
 *   s  a story, and after each NUL more: the output of a program, its code, what was given, values
 *      as JSON
 *   n  a story about nothing: none of its numbers may be found
 *   v  a value as JSON
 *   d  two answers as JSON, with a NUL between them, for comparison
 *   a  arguments of a tool call as they are streamed, up to a NUL
 *   b  a MIME bundle of a program as JSON, up to a NUL
 *
 * Another letter is for another parser; one that nobody has is ignored.
 */
#include <sodium.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/json_depth.h"
#include "base/text/utf8.h"
#include "mark/agent/receipts.h"
#include "mark/agent/stream.h"
#include "mark/auth/jwt.h"
#include "mark/story/compare.h"
#include "mark/story/story.h"

#include "base/banned.h"

#define VARIANT sodium_base64_VARIANT_URLSAFE_NO_PADDING

static const struct jwt_key key = { "0123456789abcdef", "0123456789012345678901234567890" };

static void must(bool condition)
{
    if (!condition)
        abort();
}

static void check_claims(const struct jwt_claims *claims)
{
    char token[JWT_TOKEN_MAX];
    struct jwt_claims again;

    must(mark_id_valid(claims->sub) && mark_id_valid(claims->jti));
    must(claims->iat_s >= 0 && claims->exp_s >= 0 && claims->stamp >= 0);
    /* What was read is written and read as the same. */
    must(jwt_make(&key, claims, token) == 0);
    must(jwt_open(token, &key, &again));
    must(strcmp(again.sub, claims->sub) == 0 && strcmp(again.jti, claims->jti) == 0 &&
         again.iat_s == claims->iat_s && again.exp_s == claims->exp_s &&
         again.stamp == claims->stamp);
}

static void fuzz_token(const char *text)
{
    char kid[JWT_KID_LEN + 1] = "";
    struct jwt_claims claims;
    bool has_kid = jwt_kid(text, kid);

    must(!has_kid || strlen(kid) == JWT_KID_LEN);
    if (jwt_open(text, &key, &claims)) {
        must(has_kid && strcmp(kid, key.kid) == 0);
        check_claims(&claims);
    }
}

/* A token with any claims and a right MAC is as good as its claims, if it is not too long. */
static void fuzz_claims(const char *text, size_t len)
{
    static const char header[] = "{\"alg\":\"HS256\",\"typ\":\"JWT\",\"kid\":\"0123456789abcdef\"}";
    uint8_t mac[crypto_auth_hmacsha256_BYTES];
    char token[4096];
    struct jwt_claims claims, opened;
    bool good = jwt_read_claims(text, len, &claims);
    size_t used;

    if (good)
        check_claims(&claims);
    if (len > 2048)
        return;
    (void) sodium_bin2base64(token, 256, (const uint8_t *) header, sizeof header - 1, VARIANT);
    used = strlen(token);
    token[used++] = '.';
    (void) sodium_bin2base64(token + used, 3000, (const uint8_t *) text, len, VARIANT);
    used += strlen(token + used);
    (void) crypto_auth_hmacsha256(mac, (const uint8_t *) token, used, key.secret);
    token[used++] = '.';
    (void) sodium_bin2base64(token + used, 64, mac, sizeof mac, VARIANT);
    must(jwt_open(token, &key, &opened) == good);
    token[used] = token[used] == 'A' ? 'B' : 'A';
    must(!jwt_open(token, &key, &opened));
}

/* ---- stories ---- */

static void check_story(const struct story *story)
{
    size_t i, last = 0, good = 0, len = strlen(story->text);
    const json_t *mark;

    must(utf8_valid(story->text, len));
    json_array_foreach (story->marks, i, mark) {
        size_t start = (size_t) json_integer_value(json_object_get(mark, "start"));
        size_t end = (size_t) json_integer_value(json_object_get(mark, "end"));
        const char *kind = json_string_value(json_object_get(mark, "kind"));

        must(last <= start && start < end && end <= len);
        must(((unsigned char) story->text[start] & 0xc0) != 0x80);
        must(((unsigned char) story->text[end] & 0xc0) != 0x80);
        good += strcmp(kind, "unsupported") != 0;
        last = end;
    }
    must(story->checked == good);
    must((json_array_size(story->unsupported) > 0) == (good < json_array_size(story->marks)));
}

static const char *next_part(const char *part, const char *end)
{
    const char *next = part + strlen(part) + 1;

    return *part && next < end ? next : "";
}

static json_t *load(const char *text)
{
    return json_too_deep(text, strlen(text), 200) ? NULL : json_loads(text, JSON_DECODE_ANY, NULL);
}

static void fuzz_story(const char *text, size_t len, bool alone)
{
    struct evidence *evidence = evidence_new();
    const char *output = next_part(text, text + len), *code = next_part(output, text + len);
    const char *given = next_part(code, text + len), *values = next_part(given, text + len);
    json_t *list = load(values), *value;
    struct story story;
    size_t i;

    must(evidence != NULL);
    if (!alone) {
        must(evidence_add_given(evidence, EVIDENCE_DATA, given, strlen(given)) == 0);
        must(evidence_add_code(evidence, code, strlen(code)) == 0);
        must(evidence_add_output(evidence, output, strlen(output)) == 0);
        json_array_foreach (list, i, value) {
            must(evidence_add_value(evidence, value) == 0);
            must(evidence_add_table(evidence, value) == 0);
        }
    }
    if (story_check(evidence, text, &story) == 0) {
        check_story(&story);
        must(!alone || story.checked == 0);
        story_release(&story);
    }
    evidence_free(evidence);
    json_decref(list);
}

static void fuzz_value(const char *text)
{
    json_t *value = load(text);
    char *plain = value_text(value), *marked = value_markdown(value, "+,.3f");

    must(plain && marked);
    must(!strchr(marked, '\n'));
    free(plain);
    free(marked);
    json_decref(value);
}

static void fuzz_compare(const char *text, size_t len)
{
    json_t *before = load(text), *after = load(next_part(text, text + len));
    json_t *lists[] = { compare_values(before, after), compare_tables(before, after),
                        compare_charts(before, after), compare_values(before, before),
                        compare_tables(before, before) };

    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        const json_t *item;
        size_t k;

        must(json_is_array(lists[i]));
        json_array_foreach (lists[i], k, item)
            must(json_is_boolean(json_object_get(item, "equal")));
        json_decref(lists[i]);
    }
    json_decref(before);
    json_decref(after);
}

/* ---- what a model and a program send to the agent ---- */

static void feed(const char *text, size_t len, size_t piece, struct text *out)
{
    struct member_stream stream = { 0 };

    for (size_t at = 0; at < len; at += piece)
        member_feed(&stream, "code", text + at, len - at < piece ? len - at : piece, out);
    member_release(&stream);
}

/* However it is cut the same comes out, and of valid JSON the string itself, or nothing if its name
 * is written with escapes. */
static void fuzz_arguments(const char *text)
{
    size_t len = strlen(text);
    struct text whole = { 0 }, pieces = { 0 };
    json_t *json, *code;

    feed(text, len, len + 1, &whole);
    feed(text, len, 1, &pieces);
    must(whole.len == pieces.len &&
         (whole.len == 0 || !memcmp(whole.data, pieces.data, whole.len)));
    json = json_too_deep(text, len, 200) ? NULL : json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    code = json_object_get(json, "code");
    if (json_is_object(json) && whole.len > 0)
        must(json_is_string(code) && strlen(json_string_value(code)) == whole.len &&
             !memcmp(json_string_value(code), whole.data, whole.len));
    json_decref(json);
    text_release(&whole);
    text_release(&pieces);
}

static void fuzz_bundle(const char *text)
{
    json_t *json = load(text), *item = NULL;
    size_t bytes = 0;
    enum handed kind = bundle_read(json, &item, &bytes);

    must((item != NULL) == (kind == HANDED_VALUE || kind == HANDED_TABLE || kind == HANDED_CHART));
    must(!item || (bytes > 0 && bytes <= CHART_BYTES_MAX));
    must(!json_object_get(item, "line") || json_integer_value(json_object_get(item, "line")) > 0);
    json_decref(item);
    json_decref(json);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
    char *text;

    if (size == 0 || sodium_init() < 0 || !(text = malloc(size)))
        return 0;
    memcpy(text, input + 1, size - 1);
    text[size - 1] = '\0';
    if (input[0] == 't')
        fuzz_token(text);
    else if (input[0] == 'c')
        fuzz_claims(text, size - 1);
    else if (input[0] == 's' || input[0] == 'n')
        fuzz_story(text, size - 1, input[0] == 'n');
    else if (input[0] == 'v')
        fuzz_value(text);
    else if (input[0] == 'd')
        fuzz_compare(text, size - 1);
    else if (input[0] == 'a')
        fuzz_arguments(text);
    else if (input[0] == 'b')
        fuzz_bundle(text);
    free(text);
    return 0;
}
