#include "mark/story/compare.h"

#include <errno.h>
#include <math.h>
#include <sodium.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"

#include "base/banned.h"

#define TOLERANCE       1e-9
#define TEXT_BYTES      300u /* of a difference */
#define PATH_BYTES      120u
#define SHOWN_BYTES     60u
#define ARRAY_BYTES_MAX ((size_t) 8 * 1024 * 1024) /* of a binary array */

/* ---- differences ---- */

/* What is wrong with one table or chart. */
struct findings {
    json_t *list;
    size_t count;
    bool failed; /* out of memory */
};

static void found_text(struct findings *findings, const char *text)
{
    json_t *item;

    if (findings->count++ >= COMPARE_DIFFERENCES_MAX)
        return;
    /* Cut in the middle of a character it is no text; the pieces are all cut cleanly. */
    item = json_string(text);
    if (!item)
        item = json_string("a difference that cannot be shown");
    if (!item || json_array_append_new(findings->list, item) < 0)
        findings->failed = true;
}

/* As printf(). */
#define found(findings, ...)                                                                       \
    do {                                                                                           \
        char text_[TEXT_BYTES];                                                                    \
        (void) snprintf(text_, sizeof(text_), __VA_ARGS__);                                        \
        found_text(findings, text_);                                                               \
    } while (0)

/* A value in a few words. */
static void show(const json_t *value, char *out)
{
    autofree char *text = NULL;
    size_t len;

    if (json_is_object(value) || json_is_array(value)) {
        (void) snprintf(out, SHOWN_BYTES, json_is_object(value) ? "an object" : "a list of %zu",
                        json_array_size(value));
        return;
    }
    text = value ? json_dumps(value, JSON_ENCODE_ANY | JSON_ENSURE_ASCII) : strdup("nothing");
    len = text ? strlen(text) : 0;
    (void) snprintf(out, SHOWN_BYTES, "%.*s%s", (int) (SHOWN_BYTES - 8), text ? text : "?",
                    len > SHOWN_BYTES - 8 ? "..." : "");
}

/* ---- single values ---- */

static bool reals_equal(double a, double b)
{
    if (a == b || (isnan(a) && isnan(b)))
        return true;
    return fabs(a - b) <= TOLERANCE * fmax(fabs(a), fabs(b));
}

static bool scalars_equal(const json_t *a, const json_t *b)
{
    if (json_is_integer(a) && json_is_integer(b))
        return json_integer_value(a) == json_integer_value(b);
    if (json_is_number(a) && json_is_number(b))
        return reals_equal(json_number_value(a), json_number_value(b));
    if (json_is_string(a) && json_is_string(b))
        return json_string_length(a) == json_string_length(b) &&
               memcmp(json_string_value(a), json_string_value(b), json_string_length(a)) == 0;
    return json_typeof(a) == json_typeof(b);
}

static bool trees_equal(const json_t *a, const json_t *b, int depth)
{
    const json_t *item;
    const char *key;
    size_t i;

    if (!a || !b || depth > COMPARE_DEPTH_MAX)
        return a == b;
    if (json_is_array(a) && json_is_array(b)) {
        if (json_array_size(a) != json_array_size(b))
            return false;
        json_array_foreach (a, i, item)
            if (!trees_equal(item, json_array_get(b, i), depth + 1))
                return false;
        return true;
    }
    if (json_is_object(a) && json_is_object(b)) {
        if (json_object_size(a) != json_object_size(b))
            return false;
        json_object_foreach ((json_t *) a, key, item)
            if (!trees_equal(item, json_object_get(b, key), depth + 1))
                return false;
        return true;
    }
    return !json_is_array(a) && !json_is_object(a) && scalars_equal(a, b);
}

/* ---- tables ---- */

static void compare_columns(const json_t *before, const json_t *after, struct findings *findings)
{
    size_t len = json_array_size(before), len_after = json_array_size(after);

    if (len != len_after)
        found(findings, "%zu columns before, %zu now", len, len_after);
    for (size_t i = 0; i < len && i < len_after; i++) {
        const json_t *name = json_object_get(json_array_get(before, i), "name");
        const json_t *now = json_object_get(json_array_get(after, i), "name");
        char a[SHOWN_BYTES], b[SHOWN_BYTES];

        if (trees_equal(name, now, 0))
            continue;
        show(name, a);
        show(now, b);
        found(findings, "column %zu was %s and is %s", i + 1, a, b);
    }
}

static void compare_row(const json_t *before, const json_t *after, size_t row,
                        const json_t *columns, struct findings *findings)
{
    size_t len = json_array_size(before);

    if (len != json_array_size(after)) {
        found(findings, "row %zu has %zu cells instead of %zu", row + 1, json_array_size(after),
              len);
        return;
    }
    for (size_t i = 0; i < len; i++) {
        const json_t *a = json_array_get(before, i), *b = json_array_get(after, i);
        char was[SHOWN_BYTES], is[SHOWN_BYTES], column[SHOWN_BYTES];

        if (trees_equal(a, b, 0))
            continue;
        if (findings->count >= COMPARE_DIFFERENCES_MAX) {
            findings->count++; /* without the work of telling it */
            continue;
        }
        show(a, was);
        show(b, is);
        show(json_object_get(json_array_get(columns, i), "name"), column);
        found(findings, "row %zu, column %s: %s before, %s now", row + 1, column, was, is);
    }
}

static void compare_table(const json_t *before, const json_t *after, struct findings *findings)
{
    const json_t *rows = json_object_get(before, "rows"), *now = json_object_get(after, "rows");
    const json_t *columns = json_object_get(before, "columns");
    json_int_t count = json_integer_value(json_object_get(before, "row_count"));
    json_int_t count_now = json_integer_value(json_object_get(after, "row_count"));
    size_t len = json_array_size(rows), len_now = json_array_size(now);

    compare_columns(columns, json_object_get(after, "columns"), findings);
    if (count != count_now)
        found(findings, "%" JSON_INTEGER_FORMAT " rows before, %" JSON_INTEGER_FORMAT " now", count,
              count_now);
    if (len != len_now && count == count_now)
        found(findings, "%zu rows shown before, %zu now", len, len_now);
    for (size_t i = 0; i < len && i < len_now; i++)
        compare_row(json_array_get(rows, i), json_array_get(now, i), i, columns, findings);
}

/* ---- arrays of plotly, as text in base64 ---- */

struct typed_array {
    unsigned char *bytes;
    size_t len, size; /* in items; bytes of one */
    char kind;        /* i, u, f */
};

/* {"dtype": "f8", "bdata": "..."} */
static bool typed_array_read(const json_t *object, struct typed_array *ret_array)
{
    const char *dtype = json_string_value(json_object_get(object, "dtype"));
    const char *text = json_string_value(json_object_get(object, "bdata"));
    size_t text_len = json_string_length(json_object_get(object, "bdata")), len;
    struct typed_array array = { 0 };

    if (!dtype || !text || text_len > ARRAY_BYTES_MAX)
        return false;
    if (strchr("iuf", dtype[0]) == NULL || !dtype[0] || dtype[1] < '1' || dtype[1] > '8' ||
        dtype[2])
        return false;
    array.kind = dtype[0];
    array.size = (size_t) (dtype[1] - '0');
    if ((array.size & (array.size - 1)) != 0 || (array.kind == 'f' && array.size < 4))
        return false;
    array.bytes = malloc(text_len + 1);
    if (!array.bytes)
        return false;
    if (sodium_base642bin(array.bytes, text_len + 1, text, text_len, NULL, &len, NULL,
                          sodium_base64_VARIANT_ORIGINAL) != 0 ||
        len % array.size != 0) {
        free(array.bytes);
        return false;
    }
    array.len = len / array.size;
    *ret_array = array;
    return true;
}

/* Little-endian, which numpy writes on all machines that we run on. */
static uint64_t item_bits(const struct typed_array *array, size_t i)
{
    uint64_t bits = 0;

    for (size_t k = array->size; k-- > 0;)
        bits = bits << 8 | array->bytes[i * array->size + k];
    return bits;
}

static double item_real(const struct typed_array *array, size_t i)
{
    uint64_t bits = item_bits(array, i);
    uint32_t half = (uint32_t) bits;
    unsigned shift = 64 - 8 * (unsigned) array->size;
    double value;
    float single;

    if (array->kind == 'u')
        return (double) bits;
    if (array->kind == 'i')
        return (double) ((int64_t) (bits << shift) >> shift);
    if (array->size == 4) {
        memcpy(&single, &half, sizeof(single));
        return single;
    }
    memcpy(&value, &bits, sizeof(value));
    return value;
}

/* ---- charts ---- */

/* Made anew each time, or by the library's version. */
static bool is_ignored(const char *key)
{
    static const char *const keys[] = { "uid", "uirevision", "template",      "meta",
                                        "ids", "config",     "selectedpoints" };

    for (size_t i = 0; i < ARRAY_LEN(keys); i++)
        if (strcmp(keys[i], key) == 0)
            return true;
    return false;
}

/* Where in the chart something is: "trace 1, y". */
struct path {
    char text[PATH_BYTES];
};

static struct path path_join(const struct path *path, const char *key)
{
    struct path joined;
    char clean[SHOWN_BYTES];
    size_t len = 0;

    for (; key[len] && len < sizeof(clean) - 1; len++)
        clean[len] = (unsigned char) key[len] < 0x80 ? key[len] : '?';
    clean[len] = '\0';
    (void) snprintf(joined.text, sizeof(joined.text), "%.80s, %.36s", path->text, clean);
    return joined;
}

static void compare_trees(const json_t *a, const json_t *b, const struct path *path, int depth,
                          struct findings *findings);

static void tell(const json_t *a, const json_t *b, const struct path *path,
                 struct findings *findings)
{
    char was[SHOWN_BYTES], is[SHOWN_BYTES];

    show(a, was);
    show(b, is);
    found(findings, "%s: %s before, %s now", path->text, was, is);
}

static void compare_typed(const struct typed_array *a, const struct typed_array *b,
                          const struct path *path, struct findings *findings)
{
    if (a->len != b->len) {
        found(findings, "%s: %zu items before, %zu now", path->text, a->len, b->len);
        return;
    }
    for (size_t i = 0; i < a->len; i++) {
        double was = item_real(a, i), is = item_real(b, i);

        /* Whole numbers of 64 bits do not fit into a double. */
        if (a->kind != 'f' && a->kind == b->kind && a->size == b->size
                ? item_bits(a, i) == item_bits(b, i)
                : reals_equal(was, is))
            continue;
        found(findings, "%s, item %zu: %.17g before, %.17g now", path->text, i + 1, was, is);
    }
}

static void compare_objects(const json_t *a, const json_t *b, const struct path *path, int depth,
                            struct findings *findings)
{
    struct typed_array was = { 0 }, is = { 0 };
    const json_t *item;
    const char *key;

    if (typed_array_read(a, &was) && typed_array_read(b, &is)) {
        compare_typed(&was, &is, path, findings);
    } else {
        json_object_foreach ((json_t *) a, key, item) {
            struct path inside = path_join(path, key);

            if (!is_ignored(key))
                compare_trees(item, json_object_get(b, key), &inside, depth + 1, findings);
        }
        json_object_foreach ((json_t *) b, key, item) {
            struct path inside = path_join(path, key);

            if (!is_ignored(key) && !json_object_get(a, key))
                tell(NULL, item, &inside, findings);
        }
    }
    free(was.bytes);
    free(is.bytes);
}

static void compare_trees(const json_t *a, const json_t *b, const struct path *path, int depth,
                          struct findings *findings)
{
    size_t i;
    const json_t *item;

    if (depth > COMPARE_DEPTH_MAX) {
        found(findings, "%s is too deep to compare", path->text);
    } else if (json_is_object(a) && json_is_object(b)) {
        compare_objects(a, b, path, depth, findings);
    } else if (json_is_array(a) && json_is_array(b) && json_array_size(a) == json_array_size(b)) {
        json_array_foreach (a, i, item) {
            char number[32];
            struct path inside;

            if (!json_is_array(item) && !json_is_object(item) &&
                trees_equal(item, json_array_get(b, i), 0))
                continue;
            (void) snprintf(number, sizeof(number), "item %zu", i + 1);
            inside = path_join(path, number);
            compare_trees(item, json_array_get(b, i), &inside, depth + 1, findings);
        }
    } else if (!a || !b || json_is_array(a) || json_is_object(a) || !scalars_equal(a, b)) {
        tell(a, b, path, findings);
    }
}

/* A title is text, or an object with text. */
static const json_t *title_of(const json_t *object)
{
    const json_t *title = json_object_get(object, "title");

    return json_is_object(title) ? json_object_get(title, "text") : title;
}

static void compare_titles(const json_t *before, const json_t *after, struct findings *findings)
{
    const json_t *a = json_object_get(before, "layout"), *b = json_object_get(after, "layout");
    static const char *const axes[] = { "xaxis", "yaxis", "yaxis2" };
    struct path path = { "title" };

    if (!trees_equal(title_of(a), title_of(b), 0))
        tell(title_of(a), title_of(b), &path, findings);
    for (size_t i = 0; i < ARRAY_LEN(axes); i++) {
        const json_t *was = title_of(json_object_get(a, axes[i]));
        const json_t *is = title_of(json_object_get(b, axes[i]));

        (void) snprintf(path.text, sizeof(path.text), "title of %s", axes[i]);
        if (!trees_equal(was, is, 0))
            tell(was, is, &path, findings);
    }
}

static void compare_chart(const json_t *before, const json_t *after, struct findings *findings)
{
    const json_t *a = json_object_get(before, "data"), *b = json_object_get(after, "data");

    if (json_array_size(a) != json_array_size(b))
        found(findings, "%zu traces before, %zu now", json_array_size(a), json_array_size(b));
    for (size_t i = 0; i < json_array_size(a) && i < json_array_size(b); i++) {
        struct path path;

        (void) snprintf(path.text, sizeof(path.text), "trace %zu", i + 1);
        compare_trees(json_array_get(a, i), json_array_get(b, i), &path, 0, findings);
    }
    compare_titles(before, after, findings);
}

/* ---- answers ---- */

static json_t *title_json(const json_t *item, bool chart)
{
    const json_t *title =
        chart ? title_of(json_object_get(item, "layout")) : json_object_get(item, "title");

    return json_is_string(title) ? json_incref((json_t *) title) : json_string("");
}

/* One pair of tables or charts; one of them may be NULL. */
static json_t *compare_pair(const json_t *before, const json_t *after, bool chart, size_t n)
{
    struct findings findings = { .list = json_array() };
    const char *missing = !before ? "before" : !after ? "after" : NULL;
    bool same;
    json_t *result;

    if (!findings.list)
        return NULL;
    if (!missing && chart)
        compare_chart(before, after, &findings);
    else if (!missing)
        compare_table(before, after, &findings);
    if (findings.count > COMPARE_DIFFERENCES_MAX) {
        size_t more = findings.count - COMPARE_DIFFERENCES_MAX;
        char text[48];

        (void) snprintf(text, sizeof(text), "and %zu more", more);
        if (json_array_append_new(findings.list, json_string(text)) < 0)
            findings.failed = true;
    }
    same = !missing && findings.count == 0;
    if (findings.failed) {
        json_decref(findings.list);
        return NULL;
    }
    result = json_pack("{s:I, s:o, s:b, s:o, s:s*}", "n", (json_int_t) n, "title",
                       title_json(before ? before : after, chart), "equal", same, "differences",
                       findings.list, "missing", missing);
    return result;
}

static json_t *compare_lists(const json_t *before, const json_t *after, bool chart)
{
    json_t *list = json_array();
    size_t len = json_array_size(before), len_after = json_array_size(after);

    for (size_t i = 0; list && i < (len > len_after ? len : len_after); i++) {
        json_t *pair =
            compare_pair(json_array_get(before, i), json_array_get(after, i), chart, i + 1);

        if (!pair || json_array_append_new(list, pair) < 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

/* The last value of each name, by name. */
static json_t *values_by_name(const json_t *values)
{
    json_t *names = json_object(), *value;
    size_t i;

    json_array_foreach (values, i, value) {
        const char *name = json_string_value(json_object_get(value, "name"));

        if (names && name && json_object_set(names, name, value) < 0) {
            json_decref(names);
            return NULL;
        }
    }
    return names;
}

static int add_value(json_t *list, const char *name, const json_t *before, const json_t *after)
{
    json_t *was = json_object_get(before, "value"), *is = json_object_get(after, "value");
    bool same = before && after && trees_equal(was, is, 0) &&
                trees_equal(json_object_get(before, "unit"), json_object_get(after, "unit"), 0);

    return json_array_append_new(list,
                                 json_pack("{s:s, s:O?, s:O?, s:b, s:s*}", "name", name, "before",
                                           was, "after", is, "equal", same, "missing",
                                           !before  ? "before"
                                           : !after ? "after"
                                                    : NULL));
}

json_t *compare_values(const json_t *before, const json_t *after)
{
    json_t *was = values_by_name(before), *is = values_by_name(after), *list = json_array();
    json_t *value;
    const char *name;
    int r = was && is && list ? 0 : -ENOMEM;

    json_object_foreach (was, name, value)
        if (r == 0)
            r = add_value(list, name, value, json_object_get(is, name));
    json_object_foreach (is, name, value)
        if (r == 0 && !json_object_get(was, name))
            r = add_value(list, name, NULL, value);
    json_decref(was);
    json_decref(is);
    if (r < 0) {
        json_decref(list);
        return NULL;
    }
    return list;
}

json_t *compare_tables(const json_t *before, const json_t *after)
{
    return compare_lists(before, after, false);
}

json_t *compare_charts(const json_t *before, const json_t *after)
{
    return compare_lists(before, after, true);
}
