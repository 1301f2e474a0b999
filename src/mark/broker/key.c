/* The key of a query: equal if and only if source, SQL and parameters are. */
#include <errno.h>
#include <sodium.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "mark/broker/internal.h"

#include "base/banned.h"

static void add(crypto_hash_sha256_state *state, const char *text, size_t len)
{
    (void) crypto_hash_sha256_update(state, (const unsigned char *) text, len);
}

__attribute__((format(printf, 2, 3))) static void add_head(crypto_hash_sha256_state *state,
                                                           const char *fmt, ...)
{
    char head[40];
    va_list ap;

    va_start(ap, fmt);
    (void) vsnprintf(head, sizeof head, fmt, ap);
    va_end(ap);
    add(state, head, strlen(head));
}

static void add_text(crypto_hash_sha256_state *state, const char *text, size_t len)
{
    add_head(state, "s%zu:", len);
    add(state, text, len);
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(const char *const *) a, *(const char *const *) b);
}

static int add_json(crypto_hash_sha256_state *state, const json_t *json);

static int add_object(crypto_hash_sha256_state *state, const json_t *json)
{
    size_t len = json_object_size(json), n = 0;
    autofree const char **keys = calloc(len + 1, sizeof *keys);
    const char *key;
    json_t *value;
    int r = 0;

    if (!keys)
        return -ENOMEM;
    json_object_foreach ((json_t *) json, key, value)
        keys[n++] = key;
    qsort(keys, n, sizeof *keys, by_bytes);
    add_head(state, "o%zu:", n);
    for (size_t i = 0; r == 0 && i < n; i++) {
        add_text(state, keys[i], strlen(keys[i]));
        r = add_json(state, json_object_get(json, keys[i]));
    }
    return r;
}

static int add_json(crypto_hash_sha256_state *state, const json_t *json)
{
    const json_t *item;
    uint64_t bits;
    double real;
    size_t i;
    int r = 0;

    switch (json ? json_typeof(json) : JSON_NULL) {
    case JSON_NULL:
        add(state, "n", 1);
        break;
    case JSON_TRUE:
    case JSON_FALSE:
        add(state, json_is_true(json) ? "t" : "f", 1);
        break;
    case JSON_INTEGER:
        add_head(state, "i%lld;", (long long) json_integer_value(json));
        break;
    case JSON_REAL:
        real = json_real_value(json);
        memcpy(&bits, &real, sizeof bits);
        add_head(state, "d%016llx", (unsigned long long) bits);
        break;
    case JSON_STRING:
        add_text(state, json_string_value(json), json_string_length(json));
        break;
    case JSON_ARRAY:
        add_head(state, "l%zu:", json_array_size(json));
        json_array_foreach (json, i, item)
            if (r == 0)
                r = add_json(state, item);
        break;
    case JSON_OBJECT:
        r = add_object(state, json);
        break;
    }
    return r;
}

int query_key(const char *source, const char *sql, size_t sql_len, const json_t *params,
              uint8_t ret_key[STORE_HASH_BYTES])
{
    static const char head[] = "glovebox query 1\n";
    crypto_hash_sha256_state state;
    int r;

    (void) crypto_hash_sha256_init(&state);
    add(&state, head, sizeof head - 1);
    add_text(&state, source, strlen(source));
    add_text(&state, sql, sql_len);
    r = add_json(&state, params);
    (void) crypto_hash_sha256_final(&state, ret_key);
    return r;
}
