#include "mark/source/url.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/autoclean.h"
#include "base/text/parse.h"
#include "base/text/percent.h"
#include "base/text/utf8.h"
#include "mark/source/vault.h"

#include "base/banned.h"

#define URL_MAX      4096
#define PASSWORD_MAX 1024
#define DEFAULT_PORT 5432

static int fail(struct fault *fault, const char *why)
{
    return fault_set(fault, PROBLEM_SOURCE_MALFORMED, "url",
                     "%s; it should read postgresql://USER@HOST:PORT/DATABASE?sslmode=verify-full",
                     why);
}

static bool is_plain(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if ((unsigned char) text[i] < ' ' || text[i] == 127)
            return false;
    return utf8_valid(text, len);
}

bool pg_name_valid(const char *name)
{
    size_t len = name ? strnlen(name, PG_NAME_MAX) : 0;

    return len > 0 && len < PG_NAME_MAX && is_plain(name, len);
}

/* @len bytes of @text without their escapes; false if they are wrong, or do not fit. */
static bool decode(const char *text, size_t len, char *buf, size_t size)
{
    size_t used = 0;

    for (size_t i = 0; i < len; i++) {
        int byte = (unsigned char) text[i];

        if (byte == '%') {
            byte = percent_byte(text + i, len - i);
            i += 2;
        }
        if (byte <= 0 || used + 1 >= size)
            return false;
        buf[used++] = (char) byte;
    }
    buf[used] = '\0';
    return is_plain(buf, used);
}

static bool set_port(struct pg_url *url, const char *text)
{
    int64_t port = 0;

    if (parse_int(text, &port) < 0 || port < 1 || port > 65535)
        return false;
    url->port = (int) port;
    return true;
}

static bool set_password(struct pg_url *url, const char *text, size_t len)
{
    vault_wipe(url->password);
    url->password = calloc(1, PASSWORD_MAX);
    return url->password && decode(text, len, url->password, PASSWORD_MAX);
}

/* ---- its parts ---- */

static int read_user(struct pg_url *url, const char *text, size_t len, struct fault *fault)
{
    const char *colon = memchr(text, ':', len);
    size_t user_len = colon ? (size_t) (colon - text) : len;

    if (!decode(text, user_len, url->user, sizeof url->user))
        return fail(fault, "the user in the address is too long or has a wrong %-escape");
    if (colon && !set_password(url, colon + 1, len - user_len - 1))
        return fail(fault, "the password in the address is too long or has a wrong %-escape");
    return 0;
}

static int read_host(struct pg_url *url, const char *text, size_t len, struct fault *fault)
{
    const char *end = text + len, *colon;
    char port[8] = "";

    if (memchr(text, ',', len))
        return fail(fault, "the address names several hosts; one is enough");
    if (len > 0 && text[0] == '[') {
        const char *close = memchr(text, ']', len);
        struct in6_addr address;

        if (!close || (close + 1 < end && close[1] != ':') ||
            !decode(text + 1, (size_t) (close - text - 1), url->host, sizeof url->host) ||
            inet_pton(AF_INET6, url->host, &address) != 1)
            return fail(fault, "the IPv6 address in brackets is malformed");
        colon = close + 1 < end ? close + 1 : NULL;
    } else {
        colon = memchr(text, ':', len);
        if (!decode(text, colon ? (size_t) (colon - text) : len, url->host, sizeof url->host))
            return fail(fault, "the host is too long or has a wrong %-escape");
    }
    if (!colon || colon + 1 == end)
        return 0;
    if (!decode(colon + 1, (size_t) (end - colon - 1), port, sizeof port) || !set_port(url, port))
        return fail(fault, "the port is not a number from 1 to 65535");
    return 0;
}

static int set_parameter(struct pg_url *url, const char *name, const char *raw, size_t len,
                         struct fault *fault)
{
    char value[PG_HOST_MAX], quoted[FORMAT_QUOTED_MAX];
    int64_t number = 0;
    bool good = true;

    if (strcmp(name, "password") == 0)
        return set_password(url, raw, len) ? 0 : fail(fault, "the password is malformed");
    if (!decode(raw, len, value, sizeof value) || !value[0])
        return fail(fault, "a parameter of the address is empty, too long or malformed");
    if (strcmp(name, "host") == 0 && !url->host[0])
        (void) snprintf(url->host, sizeof url->host, "%s", value);
    else if (strcmp(name, "port") == 0)
        good = set_port(url, value);
    else if (strcmp(name, "user") == 0 && !url->user[0] && (good = pg_name_valid(value)))
        memcpy(url->user, value, strlen(value) + 1);
    else if (strcmp(name, "dbname") == 0 && !url->dbname[0] && (good = pg_name_valid(value)))
        memcpy(url->dbname, value, strlen(value) + 1);
    else if (strcmp(name, "application_name") == 0 && (good = pg_name_valid(value)))
        memcpy(url->application_name, value, strlen(value) + 1);
    else if (strcmp(name, "sslmode") == 0 && (good = strlen(value) < sizeof url->sslmode))
        memcpy(url->sslmode, value, strlen(value) + 1);
    else if (strcmp(name, "connect_timeout") == 0)
        good = parse_int(value, &number) == 0 && number >= 1 && number <= 300;
    else {
        format_quoted(name, quoted);
        return fault_set(fault, PROBLEM_SOURCE_MALFORMED, "url",
                         "the parameter %s is not known here, or is given twice; there are "
                         "sslmode, host, port, user, dbname, application_name, connect_timeout",
                         quoted);
    }
    if (number > 0)
        url->connect_timeout = (int) number;
    return good ? 0 : fail(fault, "a parameter of the address has a value that it cannot have");
}

static int read_parameters(struct pg_url *url, const char *text, struct fault *fault)
{
    while (*text) {
        size_t len = strcspn(text, "&");
        const char *equals = memchr(text, '=', len);
        char name[32];

        if (!equals || !decode(text, (size_t) (equals - text), name, sizeof name))
            return fail(fault, "a parameter of the address is malformed");
        if (set_parameter(url, name, equals + 1, (size_t) (text + len - equals - 1), fault) < 0)
            return -1;
        text += len + (text[len] == '&');
    }
    return 0;
}

/* ---- the connection ---- */

static bool is_here(const char *host)
{
    struct in_addr v4;
    struct in6_addr v6;

    if (host[0] == '/' || strcasecmp(host, "localhost") == 0)
        return true;
    if (inet_pton(AF_INET, host, &v4) == 1)
        return ntohl(v4.s_addr) >> 24 == 127;
    return inet_pton(AF_INET6, host, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

/* A name that resolvers and libpq read in one way only. */
static bool is_host(const char *host)
{
    struct in6_addr v6;

    if (host[0] == '/')
        return !strstr(host, "/../");
    if (inet_pton(AF_INET6, host, &v6) == 1)
        return true;
    return host[0] && host[0] != '-' && host[0] != '.' &&
           strspn(host, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_") ==
               strlen(host);
}

static int check(struct pg_url *url, struct fault *fault)
{
    static const char *const modes[] = { "disable", "allow",     "prefer",
                                         "require", "verify-ca", "verify-full" };
    bool here = is_here(url->host), known = false;

    if (!is_host(url->host))
        return fail(fault, "the address has no host, or one that is not a name, an address or the "
                           "directory of a socket");
    if (!url->user[0])
        return fail(fault, "the address names no user");
    if (!url->dbname[0])
        memcpy(url->dbname, url->user, sizeof url->dbname);
    if (url->port == 0)
        url->port = DEFAULT_PORT;
    if (!url->sslmode[0])
        (void) snprintf(url->sslmode, sizeof url->sslmode, here ? "prefer" : "verify-full");
    for (size_t i = 0; i < ARRAY_LEN(modes); i++)
        known = known || strcmp(url->sslmode, modes[i]) == 0;
    if (!known)
        return fail(fault, "sslmode must be disable, allow, prefer, require, verify-ca or "
                           "verify-full");
    if (!here && strncmp(url->sslmode, "verify-", 7) != 0)
        return fault_set(fault, PROBLEM_SOURCE_WEAK, "url",
                         "sslmode=%s does not check who the server is, and it is on another "
                         "machine; use sslmode=verify-full, with its CA in the field ca (--ca) if "
                         "the system does not know it",
                         url->sslmode);
    return 0;
}

static int parse(const char *text, struct pg_url *url, struct fault *fault)
{
    const char *rest, *at, *slash, *query;
    size_t len;
    int r = 0;

    if (strncmp(text, "postgresql://", 13) == 0)
        rest = text + 13;
    else if (strncmp(text, "postgres://", 11) == 0)
        rest = text + 11;
    else
        return fail(fault, "this is not the address of a PostgreSQL server");
    if (strlen(text) > URL_MAX || strchr(text, '#') || strpbrk(text, " \t\r\n"))
        return fail(fault, "the address is too long, or has a # or blank in it");
    len = strcspn(rest, "/?");
    at = memrchr(rest, '@', len);
    if (at)
        r = read_user(url, rest, (size_t) (at - rest), fault);
    if (r == 0)
        r = read_host(url, at ? at + 1 : rest, len - (at ? (size_t) (at + 1 - rest) : 0), fault);
    slash = rest + len;
    query = strchr(slash, '?');
    if (r == 0 && *slash == '/' &&
        !decode(slash + 1, query ? (size_t) (query - slash - 1) : strlen(slash + 1), url->dbname,
                sizeof url->dbname))
        return fail(fault, "the database's name is too long or has a wrong %-escape");
    if (r == 0 && query)
        r = read_parameters(url, query + 1, fault);
    return r == 0 ? check(url, fault) : r;
}

int pg_url_parse(const char *text, struct pg_url *ret_url, struct fault *fault)
{
    struct pg_url url = { 0 };

    if (parse(text, &url, fault) < 0) {
        pg_url_release(&url);
        return -1;
    }
    if (url.password && !url.password[0]) {
        free(url.password);
        url.password = NULL;
    }
    *ret_url = url;
    return 0;
}

void pg_url_release(struct pg_url *url)
{
    vault_wipe(url->password);
    url->password = NULL;
}
