/*
 * The connector's process: order in, seal, driver, last message out. connect.h has the theory of
 * operation.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/io.h"
#include "connect/internal.h"

#include "base/banned.h"

static const struct {
    const char *kind;
    const struct driver *driver; /* NULL: this build has none */
} drivers[] = {
    { "postgresql", &driver_postgres },
    { "bigquery", &driver_bigquery },
};

static int port_add(struct seal_config *seal, int64_t port)
{
    if (port <= 0 || port > UINT16_MAX || seal->ports_len == SEAL_PORTS_MAX)
        return -EINVAL;
    seal->ports[seal->ports_len++] = (uint16_t) port;
    return 0;
}

/* The port that a URL leads to. */
static int port_of_url(const char *url)
{
    const char *host = strstr(url, "://"), *end, *colon;
    char *rest;
    long port;

    if (!host)
        return -EINVAL;
    host += 3;
    end = host + strcspn(host, "/?#");
    colon = memrchr(host, ':', (size_t) (end - host));
    if (!colon || memchr(colon, ']', (size_t) (end - colon)))
        return strncmp(url, "http://", 7) == 0 ? 80 : 443;
    port = strtol(colon + 1, &rest, 10);
    return rest == end && port > 0 && port <= UINT16_MAX ? (int) port : -EINVAL;
}

/* Everything but the source's own ports is out of reach, and name servers for long answers. */
static int seal_for(const struct order *order, struct driver_error *error)
{
    const json_t *source = json_object_get(order->json, "source");
    const json_t *port = json_object_get(source, "port");
    struct seal_config seal = { .file_bytes_max = order->bytes_max };
    const char *const urls[] = { "url", "token_uri" };
    const char *step = "";
    int r = port_add(&seal, 53);

    if (json_is_integer(port) && port_add(&seal, json_integer_value(port)) < 0)
        return driver_fail(error, CONNECT_UNREACHABLE, "there is no such port");
    for (size_t i = 0; i < ARRAY_LEN(urls) && r == 0; i++) {
        const char *url = json_string_value(json_object_get(source, urls[i]));

        if (url && *url && port_add(&seal, port_of_url(url)) < 0)
            return driver_fail(error, CONNECT_UNREACHABLE, "%s is not an address of a server",
                               urls[i]);
    }
    if (!json_is_integer(port))
        (void) port_add(&seal, 443);
    seal.seconds_max = (order->deadline_us - clock_now_us()) / USEC_PER_SEC + 10;
    r = connect_seal(&seal, &step);
    if (r < 0)
        return driver_fail(error, CONNECT_INTERNAL,
                           "the connector could not be sealed (%s: %s), so it asked nothing", step,
                           strerror(-r));
    return 0;
}

static const struct driver *driver_find(const char *kind, struct driver_error *error)
{
    for (size_t i = 0; kind && i < ARRAY_LEN(drivers); i++)
        if (strcmp(kind, drivers[i].kind) == 0 && drivers[i].driver)
            return drivers[i].driver;
    (void) driver_fail(error, CONNECT_UNSUPPORTED, "there is no driver for sources of kind '%.40s'",
                       kind ? kind : "");
    return NULL;
}

/* A catalogue is the result file itself, as JSON. */
static int catalogue_write(const struct order *order, const json_t *catalogue, json_t *done,
                           struct driver_error *error)
{
    autofree char *text = json_dumps(catalogue, JSON_COMPACT);
    size_t len = text ? strlen(text) : 0;
    int r;

    if (!text)
        return driver_fail(error, CONNECT_INTERNAL, "out of memory");
    if ((int64_t) len > order->bytes_max)
        return driver_fail(error, CONNECT_TOO_LARGE,
                           "the catalogue has %zu bytes; at most %lld are read: name the schemas "
                           "that are needed",
                           len, (long long) order->bytes_max);
    r = io_write_all(order->result_fd, text, len);
    if (r < 0)
        return driver_fail(error, CONNECT_INTERNAL, "cannot write the catalogue: %s", strerror(-r));
    (void) json_object_set_new(done, "size", json_integer((json_int_t) len));
    return 0;
}

static int run_catalogue(const struct driver *driver, const struct order *order, json_t **ret_done,
                         struct driver_error *error)
{
    json_t *catalogue = NULL, *done = NULL;
    int r = driver->catalogue(order, &catalogue, &done, error);

    if (r == 0 && !done)
        done = json_object();
    if (r == 0)
        r = catalogue_write(order, catalogue, done, error);
    json_decref(catalogue);
    if (r < 0) {
        json_decref(done);
        return r;
    }
    *ret_done = done;
    return 0;
}

static int run_op(const struct driver *driver, const struct order *order, json_t **ret_done,
                  struct driver_error *error)
{
    const char *op = json_string_value(json_object_get(order->json, "op"));

    if (strcmp(op, "query") == 0)
        return driver->query(order, ret_done, error);
    if (strcmp(op, "catalogue") == 0)
        return run_catalogue(driver, order, ret_done, error);
    if (strcmp(op, "check") == 0)
        return driver->check(order, ret_done, error);
    return driver_fail(error, CONNECT_INTERNAL, "there is no op '%.40s'", op);
}

static int run(const struct order *order, json_t **ret_done, struct driver_error *error)
{
    const char *kind =
        json_string_value(json_object_get(json_object_get(order->json, "source"), "kind"));
    const struct driver *driver = driver_find(kind, error);
    int64_t start_us = clock_now_us();
    json_t *done = NULL;
    int r;

    if (!driver || (driver->prepare && driver->prepare(order, error) < 0) ||
        seal_for(order, error) < 0)
        return -1;
    r = run_op(driver, order, &done, error);
    if (r < 0)
        return r;
    if (!done && !(done = json_object()))
        return driver_fail(error, CONNECT_INTERNAL, "out of memory");
    if (!json_object_get(done, "ms"))
        (void) json_object_set_new(done, "ms",
                                   json_integer((clock_now_us() - start_us) / USEC_PER_MSEC));
    *ret_done = done;
    return 0;
}

/* What is inherited is none of ours, except what connect.h names. */
static int only_our_descriptors(void)
{
    if (fcntl(CONNECT_CONTROL_FD, F_GETFD) < 0 || fcntl(CONNECT_RESULT_FD, F_GETFD) < 0)
        return -EBADF;
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) != fd)
            return -EBADF;
    if (syscall(SYS_close_range, CONNECT_RESULT_FD + 1, ~0U, 0) < 0)
        return -errno;
    return 0;
}

int connect_main(void)
{
    struct order order = { .control_fd = CONNECT_CONTROL_FD, .result_fd = CONNECT_RESULT_FD };
    struct driver_error error = { .word = CONNECT_INTERNAL };
    json_t *json = NULL, *done = NULL;
    int r = only_our_descriptors();

    /* The broker gives none; libpq and curl take settings from there. Names are looked up without
     * polling, so that must not take long. */
    if (r < 0 || clearenv() != 0 || setenv("RES_OPTIONS", "timeout:3 attempts:2", 1) < 0)
        _exit(125);
    (void) signal(SIGPIPE, SIG_IGN);
    (void) signal(SIGXFSZ, SIG_IGN); /* EFBIG says it */
    r = order_receive(&order, &json, &error);
    if (r == -EPIPE)
        _exit(125);
    if (r == 0) {
        order_arm(&order);
        (void) run(&order, &done, &error);
    }
    r = order_end(&order, done, &error);
    json_decref(error.estimate);
    order_forget(json);
    _exit(r < 0 ? 125 : 0);
}
