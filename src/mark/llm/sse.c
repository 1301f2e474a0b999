#include "mark/llm/sse.h"

#include <stdio.h>

#include "base/banned.h"

#define BOM "\xef\xbb\xbf"

static int dispatch(struct sse *sse)
{
    int r = 0;

    if (sse->has_data) {
        sse->has_events = true;
        r = sse->event(sse->arg, sse->name, text_str(&sse->data), sse->data.len);
    }
    sse->data.len = 0;
    sse->has_data = false;
    sse->name[0] = '\0';
    return r;
}

static int take_data(struct sse *sse, const char *value, size_t len)
{
    int r = 0;

    if (sse->has_data)
        r = text_add(&sse->data, "\n", 1, sse->event_max);
    sse->has_data = true;
    return r < 0 ? r : text_add(&sse->data, value, len, sse->event_max);
}

static int take_line(struct sse *sse)
{
    const char *line = text_str(&sse->line), *colon, *value;
    size_t len = sse->line.len, name_len;

    if (!sse->started && len >= 3 && memcmp(line, BOM, 3) == 0) {
        line += 3;
        len -= 3;
    }
    sse->started = true;
    if (len == 0)
        return dispatch(sse);
    colon = memchr(line, ':', len);
    name_len = colon ? (size_t) (colon - line) : len;
    value = colon ? colon + 1 : line + len;
    if (value < line + len && *value == ' ')
        value++;
    len = (size_t) (line + len - value);
    if (name_len == 4 && memcmp(line, "data", 4) == 0)
        return take_data(sse, value, len);
    if (name_len == 5 && memcmp(line, "event", 5) == 0)
        (void) snprintf(sse->name, sizeof sse->name, "%.*s",
                        (int) (len < SSE_NAME_MAX ? len : SSE_NAME_MAX), value);
    return 0;
}

static size_t length_of_line(const char *data, size_t len)
{
    size_t i = 0;

    while (i < len && data[i] != '\n' && data[i] != '\r')
        i++;
    return i;
}

int sse_feed(struct sse *sse, const char *data, size_t len)
{
    while (len > 0) {
        size_t n;
        int r;

        if (sse->after_cr) {
            sse->after_cr = false;
            if (*data == '\n') {
                data++;
                len--;
                continue;
            }
        }
        n = length_of_line(data, len);
        r = text_add(&sse->line, data, n, sse->event_max);
        if (r < 0)
            return r;
        if (n == len)
            return 0;
        sse->after_cr = data[n] == '\r';
        r = take_line(sse);
        sse->line.len = 0;
        if (r < 0)
            return r;
        data += n + 1;
        len -= n + 1;
    }
    return 0;
}

int sse_end(struct sse *sse)
{
    int r = sse->line.len > 0 ? take_line(sse) : 0;

    sse->line.len = 0;
    return r < 0 ? r : dispatch(sse);
}

void sse_release(struct sse *sse)
{
    text_release(&sse->line);
    text_release(&sse->data);
}
