/* Stands in for compare.c until that is there. */
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "mark/agent/compare.h"

#include "base/banned.h"

static const json_t *named(const json_t *list, const char *name)
{
    const json_t *item;
    size_t i;

    json_array_foreach (list, i, item)
        if (strcmp(json_string_value(json_object_get(item, "name")), name) == 0)
            return item;
    return NULL;
}

static bool same(const json_t *a, const json_t *b)
{
    if (json_is_number(a) && json_is_number(b)) {
        double x = json_number_value(a), y = json_number_value(b);

        return fabs(x - y) <= 1e-9 * fmax(fabs(x), fabs(y));
    }
    return json_equal(a, b);
}

json_t *compare_values(const json_t *before, const json_t *after)
{
    json_t *list = json_array();
    const json_t *item;
    size_t i;

    json_array_foreach (before, i, item) {
        const char *name = json_string_value(json_object_get(item, "name"));
        const json_t *other = named(after, name);
        json_t *a = json_object_get(item, "value"), *b = json_object_get(other, "value");

        (void) json_array_append_new(list,
                                     json_pack("{s:s, s:O?, s:O?, s:b}", "name", name, "before", a,
                                               "after", b, "equal", other && same(a, b)));
    }
    return list;
}

static json_t *by_place(const json_t *before, const json_t *after, const char *key)
{
    size_t a = json_array_size(before), b = json_array_size(after);
    json_t *list = json_array();

    for (size_t i = 0; i < (a > b ? a : b); i++) {
        json_t *x = json_array_get(before, i), *y = json_array_get(after, i);
        json_t *item =
            json_pack("{s:I, s:b}", "n", (json_int_t) i + 1, "equal", x && y && json_equal(x, y));

        if (key)
            (void) json_object_set(item, key, json_object_get(x ? x : y, key));
        (void) json_array_append_new(list, item);
    }
    return list;
}

json_t *compare_tables(const json_t *before, const json_t *after)
{
    return by_place(before, after, "title");
}

json_t *compare_charts(const json_t *before, const json_t *after)
{
    return by_place(before, after, NULL);
}
