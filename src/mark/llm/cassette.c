/*
 * A model that says again what another one said: NAME=cassette:FILE.
 *
 * Theory of operation. A recording is a file of JSON lines, one exchange each, written by
 * llm_recorder (recorder.c):
 *
 *   {"v": 1, "model": "big", "hash": "...", "question": "...", "turn": 0, "tools": true,
 *    "context": 200000,
 *    "reply": {"text": "...", "calls": [{"id", "name", "arguments" or "arguments_text"}],
 *              "finish": "stop" | "length" | "refused",
 *              "usage": {"prompt", "completion", "cached", "cost"}}}
 *
 * "hash" is that of the request in the neutral form: roles, contents, calls and tools, without the
 * ids of calls. What differs between two runs of the same conversation is made equal before: the
 * words of fences (which depend on what they enclose), UUIDs, and addresses of memory. "turn" is
 * how many times the model had spoken before.
 *
 * A request gets the reply that was recorded for the same hash. If there is none, something before
 * it has changed (a prompt, a file, what a program printed): then it gets the one for the same
 * question and turn, and counts as drifted, because the model might have said something else. If
 * that is missing too, the request fails and says so.
 *
 * The file may have been written by anyone: it is read within bounds, and a line that is no
 * exchange is an error that names it. Nothing in it but the reply is used, and what that says is
 * treated like what any model says.
 */
#include "mark/llm/cassette.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/autoclean.h"
#include "base/io.h"
#include "base/text/hex.h"
#include "base/text/parse.h"
#include "mark/llm/json_in.h"
#include "mark/llm/text.h"

#include "base/banned.h"

#define FILE_BYTES_MAX (INT64_C(256) * 1024 * 1024)
#define LINE_BYTES_MAX ((size_t) 16 * 1024 * 1024)
#define EXCHANGES_MAX  100000
#define PIECE          64
#define TEXT_MAX       ((size_t) 256 * 1024 * 1024)
#define FENCE_DIGITS   12
#define ADDRESS_DIGITS 6 /* fewer may be a number that means something */
#define UUID_LEN       36

/* ---- which request it is ---- */

static size_t hex_run(const char *text)
{
    return strspn(text, "0123456789abcdefABCDEF");
}

/* The length of a fence's word, UUID or address at @text, and what to say instead; 0: none. */
static size_t volatile_at(const char *text, const char **ret_instead)
{
    static const int groups[] = { 8, 4, 4, 4, 12 };
    const char *p = text;

    *ret_instead = "";
    if (strncmp(text, "<data ", 6) == 0 || strncmp(text, "</data ", 7) == 0) {
        size_t at = text[1] == '/' ? 7 : 6;

        *ret_instead = text[1] == '/' ? "</data>" : "<data>";
        return hex_run(text + at) == FENCE_DIGITS && text[at + FENCE_DIGITS] == '>'
                   ? at + FENCE_DIGITS + 1
                   : 0;
    }
    if (strncmp(text, "0x", 2) == 0) {
        *ret_instead = "0x";
        return hex_run(text + 2) >= ADDRESS_DIGITS ? 2 + hex_run(text + 2) : 0;
    }
    for (size_t i = 0; i < ARRAY_LEN(groups); i++) {
        if (hex_run(p) != (size_t) groups[i] || (i < 4 && p[groups[i]] != '-'))
            return 0;
        p += groups[i] + 1;
    }
    *ret_instead = "uuid";
    return UUID_LEN;
}

static void hash_text(crypto_hash_sha256_state *state, const char *text)
{
    const char *from = text, *instead;
    bool inside = false; /* a word: a UUID begins at its start */

    while (*text) {
        char c = *text;
        bool letter = (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z');
        size_t len = inside || (c != '<' && !letter) ? 0 : volatile_at(text, &instead);

        inside = letter;
        if (len == 0) {
            text++;
            continue;
        }
        (void) crypto_hash_sha256_update(state, (const unsigned char *) from,
                                         (size_t) (text - from));
        (void) crypto_hash_sha256_update(state, (const unsigned char *) instead, strlen(instead));
        text += len;
        from = text;
    }
    (void) crypto_hash_sha256_update(state, (const unsigned char *) from, strlen(from) + 1);
}

/* Its text, without what differs; "": it has none. */
static int hash_json(crypto_hash_sha256_state *state, const json_t *json)
{
    autofree char *text = NULL;

    if (!json || json_is_string(json)) {
        hash_text(state, json ? json_string_value(json) : "");
        return 0;
    }
    text = json_dumps(json, JSON_COMPACT | JSON_SORT_KEYS | JSON_ENCODE_ANY);
    if (!text)
        return -ENOMEM;
    hash_text(state, text);
    return 0;
}

static int hash_message(crypto_hash_sha256_state *state, const json_t *message)
{
    const json_t *call;
    size_t i;
    int r = hash_json(state, json_object_get(message, "role"));

    if (r == 0)
        r = hash_json(state, json_object_get(message, "content"));
    if (r == 0)
        r = hash_json(state, json_object_get(message, "name"));
    json_array_foreach (json_object_get(message, "tool_calls"), i, call) {
        if (r == 0)
            r = hash_json(state, json_object_get(call, "name"));
        if (r == 0)
            r = hash_json(state, json_object_get(call, "arguments"));
        if (r == 0)
            r = hash_json(state, json_object_get(call, "arguments_text"));
    }
    hash_text(state, "end"); /* of the message */
    return r;
}

int cassette_key(const struct llm_request *request, char buf[CASSETTE_KEY_MAX])
{
    unsigned char hash[crypto_hash_sha256_BYTES];
    crypto_hash_sha256_state state;
    const json_t *message;
    size_t i;
    int r = 0;

    (void) crypto_hash_sha256_init(&state);
    json_array_foreach (request->messages, i, message)
        if (r == 0)
            r = hash_message(&state, message);
    if (r == 0)
        r = hash_json(&state, request->tools);
    hash_text(&state, request->tool ? request->tool : "");
    (void) crypto_hash_sha256_final(&state, hash);
    (void) sodium_bin2hex(buf, CASSETTE_KEY_MAX, hash, sizeof hash);
    return r;
}

int64_t cassette_turn(const struct llm_request *request)
{
    const json_t *message;
    int64_t turn = 0;
    size_t i;

    json_array_foreach (request->messages, i, message) {
        const char *role = json_in_string(message, "role");

        turn += role && strcmp(role, "assistant") == 0 ? 1 : 0;
    }
    return turn;
}

/* ---- the file ---- */

struct cassette {
    json_t *by_hash, *by_turn; /* replies */
    bool tools;
    int64_t context;
};

/* The key of a reply in by_turn; for free(). */
static char *turn_key(int64_t turn, const char *question)
{
    char *key = NULL;

    return asprintf(&key, "%lld %s", (long long) turn, question ? question : "") < 0 ? NULL : key;
}

/* Only what a recording has: script.c knows more. */
static json_t *clean_reply(const json_t *reply)
{
    static const char *const members[] = { "text", "calls", "finish", "usage" };
    json_t *clean = json_is_object(reply) ? json_object() : NULL;

    for (size_t i = 0; clean && i < ARRAY_LEN(members); i++) {
        json_t *member = json_object_get(reply, members[i]);

        if (member && json_object_set(clean, members[i], member) < 0) {
            json_decref(clean);
            return NULL;
        }
    }
    return clean;
}

/* Takes one exchange in; the first of a kind counts. */
static int take(struct cassette *cassette, const json_t *exchange)
{
    const char *hash = json_in_string(exchange, "hash");
    const char *question = json_in_string(exchange, "question");
    int64_t turn = json_in_count(exchange, "turn"), context = json_in_count(exchange, "context");
    autofree char *key = turn_key(turn, question);
    json_t *reply = clean_reply(json_object_get(exchange, "reply"));
    int r = reply && key ? 0 : -ENOMEM;

    if (r == 0 && !json_object_get(cassette->by_hash, hash))
        r = json_object_set(cassette->by_hash, hash, reply) < 0 ? -ENOMEM : 0;
    if (r == 0 && !json_object_get(cassette->by_turn, key))
        r = json_object_set(cassette->by_turn, key, reply) < 0 ? -ENOMEM : 0;
    json_decref(reply);
    cassette->tools |= json_is_true(json_object_get(exchange, "tools"));
    if (context > cassette->context)
        cassette->context = context;
    return r;
}

static bool is_exchange(const json_t *exchange)
{
    const char *hash = json_in_string(exchange, "hash");
    const json_t *question = json_object_get(exchange, "question");
    const json_t *reply = json_object_get(exchange, "reply"), *call;
    const json_t *calls = json_object_get(reply, "calls");
    size_t i;

    if (json_integer_value(json_object_get(exchange, "v")) != 1 || !hash || !hex_is(hash, 64) ||
        json_in_count(exchange, "turn") < 0 || !json_in_string(exchange, "model") ||
        (question && !json_is_string(question)) || !json_is_object(reply) ||
        (calls && !json_is_array(calls)))
        return false;
    json_array_foreach (calls, i, call)
        if (!json_in_string(call, "name") || (!json_is_object(json_object_get(call, "arguments")) &&
                                              !json_in_string(call, "arguments_text")))
            return false;
    return true;
}

/* Calls @each with every exchange of @text. */
static int each_line(const char *path, const char *text, size_t len,
                     int (*each)(void *arg, const json_t *exchange), void *arg, struct gb_err *err)
{
    int64_t number = 0;
    int r = 0;

    while (r == 0 && len > 0) {
        const char *end = memchr(text, '\n', len);
        size_t line = end ? (size_t) (end - text) : len;
        json_t *json = line > 0 && line <= LINE_BYTES_MAX ? json_in_object(text, line) : NULL;

        number++;
        if (line > 0 && (!json || !is_exchange(json)))
            r = gb_fail_plain(err, EINVAL,
                              "line %lld of the recording '%s' is not an exchange; record it again",
                              (long long) number, path);
        else if (number > EXCHANGES_MAX)
            r = gb_fail_plain(err, E2BIG, "the recording '%s' has more than %d exchanges", path,
                              EXCHANGES_MAX);
        else if (json && each(arg, json) < 0)
            r = gb_fail(err, ENOMEM, "read the recording '%s'", path);
        json_decref(json);
        text += line + (end ? 1 : 0);
        len -= line + (end ? 1 : 0);
    }
    return r;
}

static int read_text(const char *path, char **ret_text, size_t *ret_len, struct gb_err *err)
{
    autoclose int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    autofree char *text = NULL;
    struct stat st;
    ssize_t n;

    if (fd < 0 || fstat(fd, &st) < 0)
        return gb_fail(err, errno, "open the recording '%s'", path);
    if (!S_ISREG(st.st_mode) || st.st_size > FILE_BYTES_MAX)
        return gb_fail_plain(err, EINVAL, "the recording '%s' is not a file of at most 256m", path);
    text = malloc((size_t) st.st_size + 1);
    n = text ? io_read_all(fd, text, (size_t) st.st_size) : -ENOMEM;
    if (n < 0)
        return gb_fail(err, (int) -n, "read the recording '%s'", path);
    *ret_text = TAKE_PTR(text);
    *ret_len = (size_t) n;
    return 0;
}

/* ---- which of its models ---- */

struct choice {
    struct cassette *cassette;
    const char *name;   /* of this model */
    char *first;        /* the first that the recording has */
    bool mine, several; /* it has this one; it has more than one */
};

static int look_at(void *arg, const json_t *exchange)
{
    struct choice *choice = arg;
    const char *model = json_in_string(exchange, "model");

    if (!choice->first && !(choice->first = strdup(model)))
        return -ENOMEM;
    choice->several |= strcmp(choice->first, model) != 0;
    choice->mine |= strcmp(choice->name, model) == 0;
    return 0;
}

static int take_chosen(void *arg, const json_t *exchange)
{
    struct choice *choice = arg;

    if (choice->mine && strcmp(choice->name, json_in_string(exchange, "model")) != 0)
        return 0;
    return take(choice->cassette, exchange);
}

int cassette_open(const char *path, const char *name, struct cassette **ret_cassette,
                  struct gb_err *err)
{
    struct cassette *cassette = calloc(1, sizeof *cassette);
    struct choice choice = { .cassette = cassette, .name = name };
    autofree char *text = NULL, *first = NULL;
    size_t len = 0;
    int r;

    if (!cassette || !(cassette->by_hash = json_object()) || !(cassette->by_turn = json_object()))
        r = gb_fail(err, ENOMEM, "read the recording '%s'", path);
    else
        r = read_text(path, &text, &len, err);
    if (r == 0)
        r = each_line(path, text, len, look_at, &choice, err);
    first = choice.first;
    if (r == 0 && !first)
        r = gb_fail_plain(err, EINVAL, "the recording '%s' is empty", path);
    if (r == 0 && choice.several && !choice.mine)
        r = gb_fail_plain(err, EINVAL,
                          "the recording '%s' has several models, and none is called '%s'; use one "
                          "of their names, such as %.64s=cassette:FILE",
                          path, name, first);
    if (r == 0)
        r = each_line(path, text, len, take_chosen, &choice, err);
    if (r < 0)
        cassette_free(cassette);
    else
        *ret_cassette = cassette;
    return r;
}

void cassette_free(struct cassette *cassette)
{
    if (!cassette)
        return;
    json_decref(cassette->by_hash);
    json_decref(cassette->by_turn);
    free(cassette);
}

bool cassette_has_tools(const struct cassette *cassette)
{
    return cassette->tools;
}

int64_t cassette_context(const struct cassette *cassette)
{
    return cassette->context;
}

/* ---- saying it again ---- */

int cassette_chat(const struct cassette *cassette, const struct llm_request *request,
                  const struct llm_watch *watch, int cancel_fd, struct llm_reply *ret_reply,
                  bool *ret_drifted, struct llm_error *ret_error)
{
    int64_t turn = cassette_turn(request);
    autofree char *key = turn_key(turn, request->question);
    char hash[CASSETTE_KEY_MAX];
    const json_t *reply;
    int r;

    if (!key || cassette_key(request, hash) < 0)
        return llm_error_set(ret_error, LLM_BROKEN, 0, "out of memory");
    reply = json_object_get(cassette->by_hash, hash);
    *ret_drifted = !reply;
    if (!reply)
        reply = json_object_get(cassette->by_turn, key);
    if (!reply)
        return llm_error_set(ret_error, LLM_INVALID, 0,
                             "the recording has no reply for turn %lld of this question; record it "
                             "again with the model",
                             (long long) turn);
    r = script_say(reply, NULL, PIECE, request, watch, cancel_fd, ret_reply, ret_error);
    if (r == 0)
        (void) json_object_set_new(ret_reply->trace, "recorded",
                                   json_string(*ret_drifted ? "drifted" : "exact"));
    return r;
}
