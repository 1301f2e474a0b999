#include "fake_connector.h"

#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "connect/connect.h"

#include "base/banned.h"

static void put_frame(const char *text, size_t claimed)
{
    unsigned char head[4];

    for (unsigned i = 0; i < 4; i++)
        head[i] = (unsigned char) (claimed >> (8 * i));
    (void) io_write_all(CONNECT_CONTROL_FD, head, sizeof head);
    (void) io_write_all(CONNECT_CONTROL_FD, text, strlen(text));
}

static void put(const char *text)
{
    put_frame(text, strlen(text));
}

static json_t *get(void)
{
    unsigned char head[4];
    char *text;
    size_t len;
    json_t *json;

    if (io_read_all(CONNECT_CONTROL_FD, head, 4) != 4)
        _exit(0);
    len = head[0] | (size_t) head[1] << 8 | (size_t) head[2] << 16 | (size_t) head[3] << 24;
    text = malloc(len + 1);
    if (!text || io_read_all(CONNECT_CONTROL_FD, text, len) != (ssize_t) len)
        _exit(1);
    json = json_loadb(text, len, 0, NULL);
    free(text);
    return json;
}

static void put_result(const char *text)
{
    (void) io_write_all(CONNECT_RESULT_FD, text, strlen(text));
    put("{\"message\": \"progress\", \"rows\": 1}");
    put("{\"message\": \"done\", \"rows\": 2, \"bytes\": 10, \"ms\": 3, \"cost\": 1.5, \"money\": "
        "null, \"token\": \"" SECRET "\", \"notices\": [\"look: " SECRET "\"]}");
}

/* Waits for the go, as order_tell() does. */
static void put_estimate(void)
{
    json_t *go;

    put("{\"message\": \"estimate\", \"cost\": 12.5, \"rows\": 1000, \"bytes\": -3, \"extra\": 1}");
    go = get();
    if (!json_is_true(json_object_get(go, "go")))
        _exit(1);
    json_decref(go);
}

/* Messages without an end, each of them fine, that take longer to read than to send. */
static void put_flood(void)
{
    static const char start[] = "{\"message\": \"progress\", \"rows\": [[]", end[] = "]}";
    static char frame[128 * 1024];
    size_t at = 4 + sizeof start - 1, len;

    memcpy(frame + 4, start, sizeof start - 1);
    for (; at + 8 < sizeof frame; at += 3)
        memcpy(frame + at, ",[]", 3);
    memcpy(frame + at, end, sizeof end - 1);
    len = at + sizeof end - 1 - 4;
    for (unsigned i = 0; i < 4; i++)
        frame[i] = (char) (unsigned char) (len >> (8 * i));
    while (io_write_all(CONNECT_CONTROL_FD, frame, len + 4) == 0)
        ;
}

static void put_garbage(const char *how)
{
    char deep[400];

    if (strcmp(how, "huge") == 0)
        put_frame("{}", 1u << 30);
    else if (strcmp(how, "empty") == 0)
        put_frame("", 0);
    else if (strcmp(how, "text") == 0)
        put("not JSON");
    else if (strcmp(how, "array") == 0)
        put("[1]");
    else if (strcmp(how, "word") == 0)
        put("{\"message\": \"surprise\"}");
    else if (strcmp(how, "twice") == 0) {
        put_estimate();
        put_estimate();
    } else if (strcmp(how, "deep") == 0) {
        memset(deep, '[', sizeof deep);
        deep[sizeof deep - 1] = '\0';
        put(deep);
    } else if (strcmp(how, "half") == 0) {
        put_frame("{\"mess", 100);
    }
    _exit(0);
}

int fake_connector_main(void)
{
    json_t *order = get();
    const char *sql = json_string_value(json_object_get(order, "sql"));
    const char *rest = strchr(sql, ' ') ? strchr(sql, ' ') + 1 : "";
    char buf[65536];

    /* Nothing of ours is open but what it was given, and there is no environment. */
    if (fcntl(5, F_GETFD) >= 0 || environ[0])
        _exit(1);
    if (strncmp(sql, "rows", 4) == 0) {
        put_estimate();
        put_result(rest);
    } else if (strncmp(sql, "error", 5) == 0) {
        put("{\"message\": \"error\", \"word\": \"denied\", \"text\": \"login " SECRET
            " failed\\u0007\"}");
    } else if (strncmp(sql, "costly", 6) == 0) {
        put("{\"message\": \"error\", \"word\": \"too-expensive\", \"text\": \"no\", \"estimate\": "
            "{\"money\": 7}}");
    } else if (strncmp(sql, "odd", 3) == 0) {
        put("{\"message\": \"error\", \"word\": \"rm -rf\", \"text\": 3}");
    } else if (strncmp(sql, "garbage", 7) == 0) {
        put_garbage(rest);
    } else if (strncmp(sql, "wait", 4) == 0) { /* until it is cancelled */
        put_estimate();
        (void) !read(CONNECT_CONTROL_FD, buf, 1);
    } else if (strncmp(sql, "hang", 4) == 0) { /* whatever it is told */
        put_estimate();
        for (;;)
            (void) pause();
    } else if (strncmp(sql, "flood", 5) == 0) {
        put_flood();
    } else if (strncmp(sql, "large", 5) == 0) {
        memset(buf, 'x', sizeof buf);
        while (io_write_all(CONNECT_RESULT_FD, buf, sizeof buf) == 0)
            (void) usleep(1000);
    }
    json_decref(order);
    return 0;
}
