/*
 * Where the database is, and whether it may be talked to: postgresql://user@host:port/name?...
 *
 * Everything that libpq would take from its environment, a service file or its defaults is looked
 * up here first and then handed over in full, because the rule about TLS has to see what is used in
 * the end: a password or a hash must not cross a network to a server that has not shown who it is.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/autoclean.h"
#include "store/postgres/internal.h"

#include "base/banned.h"

#define URL_MAX        4096
#define PASSWORD_MAX   1024
#define LOCK_CLASS     0x676c6f76 /* "glov" */
#define SCHEMA_DEFAULT "glovebox"

static void wipe_free(char *text)
{
    if (text)
        explicit_bzero(text, strlen(text));
    free(text);
}

/* ---- the schema, which is a parameter of ours ---- */

static bool schema_valid(const char *name, size_t len)
{
    if (len == 0 || len >= PG_SCHEMA_MAX || strncmp(name, "pg_", 3) == 0)
        return false;
    for (size_t i = 0; i < len; i++)
        if (!(name[i] >= 'a' && name[i] <= 'z') && name[i] != '_' &&
            !(i > 0 && name[i] >= '0' && name[i] <= '9'))
            return false;
    return true;
}

/* Takes "schema=NAME" out of the parameters of @url. */
static int schema_take(char *url, char ret_schema[PG_SCHEMA_MAX], struct gb_err *err)
{
    char *query = strchr(url, '?');

    (void) snprintf(ret_schema, PG_SCHEMA_MAX, SCHEMA_DEFAULT);
    for (char *at = query ? query + 1 : NULL; at && *at;) {
        size_t len = strcspn(at, "&");
        char *value = at + strlen("schema=");

        if (strncmp(at, "schema=", strlen("schema=")) != 0) {
            at += len + (at[len] == '&');
            continue;
        }
        len -= strlen("schema=");
        if (!schema_valid(value, len))
            return gb_fail_plain(err, EINVAL,
                                 "--database: the schema must have 1 to %d characters of a-z, 0-9 "
                                 "and _, not begin with a digit, and not with pg_",
                                 PG_SCHEMA_MAX - 1);
        memcpy(ret_schema, value, len);
        ret_schema[len] = '\0';
        value += len + (value[len] == '&');
        memmove(at, value, strlen(value) + 1);
    }
    /* What is left of "?a=b&schema=c" ends in a separator. */
    for (size_t len = strlen(url);
         query && len > 0 && (url[len - 1] == '&' || url[len - 1] == '?');)
        url[--len] = '\0';
    return 0;
}

/* ---- the password ---- */

static int password_read(const char *path, char **ret_password, struct gb_err *err)
{
    char text[PASSWORD_MAX + 2];
    autoclose int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    struct stat st;
    ssize_t len;

    if (fd < 0 || fstat(fd, &st) < 0)
        return gb_fail(err, errno, "open the password file '%.100s'", path);
    if (!S_ISREG(st.st_mode) || (st.st_mode & 077))
        return gb_fail_plain(err, EPERM,
                             "the password file '%.80s' must be a regular file that only its owner "
                             "can read; run chmod 600 on it",
                             path);
    len = read(fd, text, sizeof text);
    if (len < 0)
        return gb_fail(err, errno, "read the password file '%.100s'", path);
    while (len > 0 && (text[len - 1] == '\n' || text[len - 1] == '\r'))
        len--;
    if (len == 0 || len > PASSWORD_MAX || memchr(text, 0, (size_t) len)) {
        explicit_bzero(text, sizeof text);
        return gb_fail_plain(err, EINVAL,
                             "the password file '%.80s' must contain one line of at most %d bytes",
                             path, PASSWORD_MAX);
    }
    *ret_password = strndup(text, (size_t) len);
    explicit_bzero(text, sizeof text);
    return *ret_password ? 0 : gb_fail(err, ENOMEM, "read the password");
}

/* ---- parameters ---- */

static const char *value_of(const struct pg_target *target, const char *keyword)
{
    for (size_t i = 0; target->keywords[i]; i++)
        if (strcmp(target->keywords[i], keyword) == 0)
            return target->values[i];
    return NULL;
}

/* Sets a parameter, or another value of one. The arrays have room. */
static int value_set(struct pg_target *target, const char *keyword, const char *value)
{
    char *copy = strdup(value);
    size_t i = 0;

    if (!copy)
        return -ENOMEM;
    while (target->keywords[i] && strcmp(target->keywords[i], keyword) != 0)
        i++;
    if (!target->keywords[i]) {
        target->keywords[i] = strdup(keyword);
        if (!target->keywords[i]) {
            wipe_free(copy);
            return -ENOMEM;
        }
    }
    wipe_free(target->values[i]);
    target->values[i] = copy;
    return 0;
}

static int values_add(struct pg_target *target, const PQconninfoOption *options)
{
    for (; options && options->keyword; options++)
        if (options->val && options->val[0] &&
            value_set(target, options->keyword, options->val) < 0)
            return -ENOMEM;
    return 0;
}

/* What we need to be so. "service" has been followed by then; GSS encryption would take the place
 * of TLS. */
static int values_fix(struct pg_target *target)
{
    static const char *const fixed[][2] = {
        { "client_encoding", "UTF8" },
        { "application_name", "glovebox" },
        { "fallback_application_name", "glovebox" },
        { "gssencmode", "disable" },
        { "service", "" },
        { "keepalives", "1" },
        { "keepalives_idle", "30" },
        { "keepalives_interval", "10" },
        { "keepalives_count", "3" },
        { "tcp_user_timeout", "60000" },
        { "target_session_attrs", "any" },
    };

    for (size_t i = 0; i < ARRAY_LEN(fixed); i++)
        if (value_set(target, fixed[i][0], fixed[i][1]) < 0)
            return -ENOMEM;
    return 0;
}

/* libpq's own errors may quote the URL, and with it the password. */
static int fail_url(struct gb_err *err)
{
    return gb_fail_plain(err, EINVAL,
                         "--database: not a valid URL; write it as "
                         "postgresql://USER@HOST:PORT/NAME?sslmode=verify-full, with special "
                         "characters as %%XX");
}

static int values_fill(struct pg_target *target, const char *url, struct gb_err *err)
{
    PQconninfoOption *defaults = PQconndefaults(), *given = PQconninfoParse(url, NULL);
    size_t len = 32;
    int r = -ENOMEM;

    for (const PQconninfoOption *o = defaults; o && o->keyword; o++)
        len++;
    target->keywords = calloc(len, sizeof *target->keywords);
    target->values = calloc(len, sizeof *target->values);
    if (defaults && given && target->keywords && target->values) {
        r = values_add(target, defaults);
        if (r == 0)
            r = values_add(target, given);
        if (r == 0)
            r = values_fix(target);
    }
    if (defaults && !given)
        r = fail_url(err);
    else if (r < 0)
        r = gb_fail(err, ENOMEM, "read the database's URL");
    PQconninfoFree(given);
    PQconninfoFree(defaults);
    return r;
}

/* ---- TLS ---- */

static bool is_local(const char *host, size_t len)
{
    struct in6_addr six;
    struct in_addr four;
    char name[256];

    if (len == 0 || host[0] == '/' || host[0] == '@')
        return true; /* a socket of this machine */
    if (len >= sizeof name)
        return false;
    memcpy(name, host, len);
    name[len] = '\0';
    if (inet_pton(AF_INET, name, &four) == 1)
        return (ntohl(four.s_addr) >> 24) == 127;
    if (inet_pton(AF_INET6, name, &six) == 1)
        return IN6_IS_ADDR_LOOPBACK(&six);
    return strcmp(name, "localhost") == 0;
}

static int check_tls(const struct pg_target *target, struct gb_err *err)
{
    const char *addresses = value_of(target, "hostaddr"), *mode = value_of(target, "sslmode");
    const char *hosts = addresses && addresses[0] ? addresses : value_of(target, "host");

    if (mode && (strcmp(mode, "verify-full") == 0 || strcmp(mode, "verify-ca") == 0))
        return 0;
    for (; hosts && *hosts; hosts += strcspn(hosts, ","), hosts += *hosts == ',')
        if (!is_local(hosts, strcspn(hosts, ",")))
            return gb_fail_plain(
                err, EINVAL,
                "--database: '%.60s' is another machine, so its certificate must be checked: add "
                "sslmode=verify-full, and sslrootcert=FILE unless ~/.postgresql/root.crt is there",
                hosts);
    return 0;
}

/* ---- together ---- */

void target_release(struct pg_target *target)
{
    for (size_t i = 0; target->keywords && target->values && target->keywords[i]; i++) {
        free(target->keywords[i]);
        wipe_free(target->values[i]);
    }
    free(target->keywords);
    free(target->values);
    wipe_free(target->password);
    *target = (struct pg_target){ 0 };
}

/* A password of the URL stays; --database-password-file goes first. */
static int password_fill(struct pg_target *target, const char *password_file, struct gb_err *err)
{
    const char *given;

    if (password_file) {
        char *password = NULL;
        int r = password_read(password_file, &password, err);

        if (r == 0 && value_set(target, "password", password) < 0)
            r = gb_fail(err, ENOMEM, "read the password");
        wipe_free(password);
        if (r < 0)
            return r;
    }
    given = value_of(target, "password");
    target->password = given && given[0] ? strdup(given) : NULL;
    return given && given[0] && !target->password ? gb_fail(err, ENOMEM, "read the password") : 0;
}

int target_open(const char *url, const char *password_file, struct pg_target *ret_target,
                struct gb_err *err)
{
    struct pg_target target = { 0 };
    char *copy;
    int r;

    if (strncmp(url, "postgresql://", 13) != 0 && strncmp(url, "postgres://", 11) != 0)
        return gb_fail_plain(err, EINVAL,
                             "--database must begin with postgresql://; without it the store is a "
                             "file in the data directory");
    if (strnlen(url, URL_MAX) == URL_MAX)
        return fail_url(err);
    copy = strdup(url);
    if (!copy)
        return gb_fail(err, ENOMEM, "read the database's URL");
    r = schema_take(copy, target.schema, err);
    if (r == 0)
        r = values_fill(&target, copy, err);
    wipe_free(copy);
    if (r == 0)
        r = password_fill(&target, password_file, err);
    if (r == 0)
        r = check_tls(&target, err);
    if (r < 0) {
        target_release(&target);
        return r;
    }
    *ret_target = target;
    return 0;
}

void target_lock_key(const struct pg_target *target, enum pg_lock lock, int ret_key[2])
{
    uint32_t hash = 2166136261; /* FNV-1a: the same in every version of Glovebox and PostgreSQL */

    for (const char *c = target->schema; *c; c++)
        hash = (hash ^ (unsigned char) *c) * 16777619;
    ret_key[0] = LOCK_CLASS + (int) lock;
    ret_key[1] = (int) hash;
}
