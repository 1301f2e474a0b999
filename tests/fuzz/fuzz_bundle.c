/*
 * Bundles of a tenant, as the receipt takes them. The input is one bundle; what is accepted must be
 * what bundle.c promises, and what is refused must leave nothing behind.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "engine/frame.h"
#include "service/execution/bundle.h"

#include "base/banned.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool condition)
{
    if (!condition)
        abort();
}

static void check_data(json_t *data)
{
    const char *mime;
    json_t *value;

    must(json_is_object(data));
    json_object_foreach (data, mime, value) {
        size_t len = strlen(mime);
        bool json = strcmp(mime, "application/json") == 0 ||
                    (len > 5 && strcmp(mime + len - 5, "+json") == 0);

        must(strchr(mime, '/') && !strpbrk(mime, "<>\"' "));
        must(json || json_is_string(value));
        if (strcmp(mime, "image/png") == 0)
            must(!strpbrk(json_string_value(value), "<>\"'& "));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t size)
{
    size_t nodes = 1000, before = nodes;
    struct bundle bundle = { .json = (char *) input, .len = size };
    json_t *data, *metadata;
    char *text;

    if (bundle_parse(&bundle, &nodes, &data, &metadata) < 0) {
        must(nodes <= before);
        return 0;
    }
    check_data(data);
    must(json_is_object(metadata));
    text = json_dumps(data, 0);
    must(text);
    free(text);
    json_decref(data);
    json_decref(metadata);
    return 0;
}
