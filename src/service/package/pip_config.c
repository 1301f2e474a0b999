#include "service/package/pip_config.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/io.h"
#include "base/text/base64.h"
#include "base/text/parse.h"
#include "base/text/percent.h"

#include "base/banned.h"

#define FILE_MAX      (1 << 20)
#define URL_MAX       2000
#define DEFAULT_INDEX "https://pypi.org/simple"
#define BLANKS        " \t\r\n"

/* The one index that is known to keep its files on another host. */
static const struct {
    const char *index, *files;
} known_files[] = { { "pypi.org", "files.pythonhosted.org" } };

/* ---- what pip reads ---- */

static const struct {
    const char *name, *variable;
    size_t offset;
} settings_rows[] = {
    { "index-url", "PIP_INDEX_URL", offsetof(struct pip_settings, index_url) },
    { "extra-index-url", "PIP_EXTRA_INDEX_URL", offsetof(struct pip_settings, extra_index_url) },
    { "find-links", "PIP_FIND_LINKS", offsetof(struct pip_settings, find_links) },
    { "trusted-host", "PIP_TRUSTED_HOST", offsetof(struct pip_settings, trusted_host) },
    { "cert", "PIP_CERT", offsetof(struct pip_settings, cert) },
    { "no-index", "PIP_NO_INDEX", offsetof(struct pip_settings, no_index) },
    { "proxy", "PIP_PROXY", offsetof(struct pip_settings, proxy) },
};

static char **setting(struct pip_settings *settings, size_t row)
{
    return (char **) (void *) ((char *) settings + settings_rows[row].offset);
}

void pip_settings_release(struct pip_settings *settings)
{
    for (size_t i = 0; i < ARRAY_LEN(settings_rows); i++) {
        char **value = setting(settings, i);

        if (*value)
            sodium_memzero(*value, strlen(*value)); /* it may contain a password */
        free(*value);
        *value = NULL;
    }
}

static void setting_put(char **value, const char *text, size_t len)
{
    char *copy = strndup(text, len);

    if (!copy)
        return;
    free(*value);
    *value = copy;
}

/* A new setting, or a continuation of the previous value. */
static void setting_append(char **value, const char *text, size_t len)
{
    char *joined = NULL;

    if (asprintf(&joined, "%s\n%.*s", *value ? *value : "", (int) len, text) < 0)
        return;
    free(*value);
    *value = joined;
}

/* The row of a name such as "Index_URL", or -1. */
static int row_of(const char *name, size_t len)
{
    for (size_t i = 0; i < ARRAY_LEN(settings_rows); i++) {
        const char *known = settings_rows[i].name;
        size_t n = 0;

        while (n < len && known[n] &&
               (known[n] == (name[n] | 32) || (known[n] == '-' && strchr("-_", name[n]))))
            n++;
        if (n == len && known[n] == '\0')
            return (int) i;
    }
    return -1;
}

static void trim(const char **text, size_t *len)
{
    while (*len > 0 && strchr(BLANKS, (*text)[0])) {
        (*text)++;
        (*len)--;
    }
    while (*len > 0 && strchr(BLANKS, (*text)[*len - 1]))
        (*len)--;
}

void pip_settings_read(const char *text, size_t len, struct pip_settings levels[2])
{
    const char *end = text + len;
    int level = -1, row = -1;

    for (const char *next; text < end; text = next) {
        const char *newline = memchr(text, '\n', (size_t) (end - text)), *line = text, *sign;
        size_t line_len = newline ? (size_t) (newline - text) : (size_t) (end - text);
        bool goes_on = line_len > 0 && strchr(" \t", line[0]);

        next = text + line_len + 1;
        trim(&line, &line_len);
        if (line_len == 0 || line[0] == '#' || line[0] == ';')
            continue;
        if (goes_on) {
            if (row >= 0)
                setting_append(setting(&levels[level], (size_t) row), line, line_len);
            continue;
        }
        row = -1;
        if (line[0] == '[') {
            level = strncmp(line, "[global]", line_len) == 0    ? 0
                    : strncmp(line, "[install]", line_len) == 0 ? 1
                                                                : -1;
            continue;
        }
        sign = memchr(line, '=', line_len);
        if (!sign)
            sign = memchr(line, ':', line_len);
        if (!sign || level < 0)
            continue;
        {
            const char *name = line, *value = sign + 1;
            size_t name_len = (size_t) (sign - line),
                   value_len = line_len - (size_t) (value - line);

            trim(&name, &name_len);
            trim(&value, &value_len);
            row = row_of(name, name_len);
            if (row >= 0)
                setting_put(setting(&levels[level], (size_t) row), value, value_len);
        }
    }
}

static void read_file(const char *path, struct pip_settings levels[2])
{
    autoclose int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    autofree char *text = NULL;
    struct stat st;
    ssize_t n;

    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size > FILE_MAX)
        return;
    text = malloc((size_t) st.st_size + 1);
    n = text ? io_read_all(fd, text, (size_t) st.st_size) : -1;
    if (n <= 0)
        return;
    pip_settings_read(text, (size_t) n, levels);
    sodium_memzero(text, (size_t) n);
}

static void read_at(const char *base, const char *name, struct pip_settings levels[2])
{
    char path[PATH_MAX];

    if (base && base[0] == '/' && snprintf(path, sizeof path, "%s/%s", base, name) < PATH_MAX)
        read_file(path, levels);
}

/* The machine's files, the user's, the one that PIP_CONFIG_FILE names; the environment overrides
 * all. */
static void read_host(struct pip_settings *ret_settings)
{
    const char *named = getenv("PIP_CONFIG_FILE"), *home = getenv("HOME");
    const char *xdg = getenv("XDG_CONFIG_HOME");
    const char *general = getenv(getenv("https_proxy") ? "https_proxy" : "HTTPS_PROXY");
    struct pip_settings levels[2] = { 0 };

    if (!named || strcmp(named, "/dev/null") != 0) {
        read_file("/etc/xdg/pip/pip.conf", levels);
        read_file("/etc/pip.conf", levels);
        read_at(home, ".pip/pip.conf", levels);
        if (xdg && xdg[0] == '/')
            read_at(xdg, "pip/pip.conf", levels);
        else
            read_at(home, ".config/pip/pip.conf", levels);
        if (named)
            read_file(named, levels);
    }
    for (size_t i = 0; i < ARRAY_LEN(settings_rows); i++) {
        const char *variable = getenv(settings_rows[i].variable);
        char **low = setting(&levels[0], i), **high = setting(&levels[1], i);

        if (variable && variable[0])
            setting_put(setting(ret_settings, i), variable, strlen(variable));
        else
            *setting(ret_settings, i) = *high ? TAKE_PTR(*high) : TAKE_PTR(*low);
    }
    pip_settings_release(&levels[0]);
    pip_settings_release(&levels[1]);
    if (!ret_settings->proxy && general && general[0])
        setting_put(&ret_settings->proxy, general, strlen(general));
}

/* ---- addresses ---- */

struct url {
    bool https;
    char user[256], host[256];
    uint16_t port;
    const char *path; /* in the text; begins with a slash, or is empty */
};

/* Decodes a user and password. Like pip, leaves anything that is not an escape as it is. */
static void unescape(char *text)
{
    char *to = text;

    for (char *from = text; *from; from++) {
        int byte = percent_byte(from, strnlen(from, 3));

        if (byte > 0) {
            *to++ = (char) byte;
            from += 2;
        } else {
            *to++ = *from;
        }
    }
    *to = '\0';
}

static bool host_valid(const char *host)
{
    return host[0] && strspn(host, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
                                   ".-_:[]") == strlen(host);
}

static int url_parse(const char *text, struct url *ret_url)
{
    struct url url = { 0 };
    const char *at = text, *end, *user_end, *colon;
    int64_t port;
    char number[8] = "";

    if (strncasecmp(text, "https://", 8) == 0)
        url.https = true;
    else if (strncasecmp(text, "http://", 7) != 0)
        return -EINVAL;
    at += url.https ? 8 : 7;
    end = at + strcspn(at, "/?#");
    user_end = memrchr(at, '@', (size_t) (end - at));
    if (user_end) {
        if ((size_t) (user_end - at) >= sizeof url.user)
            return -EINVAL;
        memcpy(url.user, at, (size_t) (user_end - at));
        at = user_end + 1;
    }
    colon = at[0] == '[' ? strchr(at, ']') : at;
    colon = colon ? memchr(colon, ':', (size_t) (end - colon)) : NULL;
    if ((size_t) ((colon ? colon : end) - at) >= sizeof url.host)
        return -EINVAL;
    memcpy(url.host, at, (size_t) ((colon ? colon : end) - at));
    url.port = url.https ? 443 : 80;
    if (colon) {
        if ((size_t) (end - colon - 1) >= sizeof number)
            return -EINVAL;
        memcpy(number, colon + 1, (size_t) (end - colon - 1));
        if (parse_int(number, &port) < 0 || port < 1 || port > 65535)
            return -EINVAL;
        url.port = (uint16_t) port;
    }
    url.path = end;
    if (!host_valid(url.host))
        return -EINVAL;
    *ret_url = url;
    return 0;
}

static char *basic_authorization(const char *user)
{
    char credentials[256], *value = NULL;
    autofree char *text = NULL;

    snprintf(credentials, sizeof credentials, "%s", user);
    if (!strchr(credentials, ':'))
        (void) strncat(credentials, ":", sizeof credentials - strlen(credentials) - 1);
    unescape(credentials);
    text = base64_encode(credentials, strlen(credentials));
    if (text && asprintf(&value, "Basic %s", text) < 0)
        value = NULL;
    if (text)
        sodium_memzero(text, strlen(text));
    sodium_memzero(credentials, sizeof credentials);
    return value;
}

static int host_add(struct pip_config *config, const char *host, uint16_t port, char *authorization,
                    struct gb_err *err)
{
    struct pip_host *to = NULL;

    for (size_t i = 0; i < config->hosts_len && !to; i++)
        if (strcasecmp(config->hosts[i].host, host) == 0 && config->hosts[i].port == port)
            to = &config->hosts[i];
    if (!to && config->hosts_len == ARRAY_LEN(config->hosts)) {
        free(authorization);
        return gb_fail_plain(err, E2BIG, "too many package indexes are configured");
    }
    if (!to) {
        to = &config->hosts[config->hosts_len++];
        snprintf(to->host, sizeof to->host, "%s", host);
        to->port = port;
    }
    if (authorization) {
        free(to->authorization);
        to->authorization = authorization;
    }
    return 0;
}

static int list_add(char **list, const char *text, struct gb_err *err)
{
    size_t n = 0;

    while (list[n])
        n++;
    if (n == PIP_SOURCES_MAX)
        return gb_fail_plain(err, E2BIG, "too many package sources are configured");
    list[n] = strdup(text);
    return list[n] ? 0 : gb_fail(err, ENOMEM, "read the pip configuration");
}

/* A directory of the host: its path in the box. */
static int dir_add(struct pip_config *config, const char *path, char *ret_url, size_t size,
                   struct gb_err *err)
{
    size_t n = 0;

    while (n < PIP_DIRS_MAX && config->dirs[n] && strcmp(config->dirs[n], path) != 0)
        n++;
    if (n == PIP_DIRS_MAX)
        return gb_fail_plain(err, E2BIG, "at most %d directories of wheels can be used",
                             PIP_DIRS_MAX);
    if (!config->dirs[n] && !(config->dirs[n] = strdup(path)))
        return gb_fail(err, ENOMEM, "read the pip configuration");
    snprintf(ret_url, size, "file://%s/.%zu", SHELF_PLACE, n + 1);
    return 0;
}

/* One source as the installer gets it. 1: skip it. */
static int source_make(struct pip_config *config, const char *text, char ret_url[URL_MAX],
                       struct gb_err *err)
{
    const char *path = strncmp(text, "file://", 7) == 0 ? text + 7 : text;
    struct url url;
    struct stat st;
    int r;

    if (strlen(text) >= URL_MAX / 2)
        return gb_fail_plain(err, EINVAL, "the URL of a package index is too long");
    if (path[0] == '/') {
        if (stat(path, &st) < 0 || !S_ISDIR(st.st_mode)) {
            snprintf(config->note, sizeof config->note, "%.120s is not a directory of packages",
                     path);
            return 1;
        }
        return dir_add(config, path, ret_url, URL_MAX, err);
    }
    if (url_parse(text, &url) < 0)
        return gb_fail_plain(err, EINVAL,
                             "pip is configured with a package source that is neither a directory "
                             "nor an http or https URL; set --index-url");
    if (!url.user[0]) {
        snprintf(ret_url, URL_MAX, "%s", text);
        return host_add(config, url.host, url.port, NULL, err);
    }
    if (!url.https)
        return gb_fail_plain(
            err, EPERM,
            "the package index %s is configured with a password but without TLS; use https",
            url.host);
    /* The box sends plain HTTP to the proxy; only the proxy has the password. */
    snprintf(ret_url, URL_MAX, "http://%s", url.host);
    if (url.port != 443)
        snprintf(ret_url + strlen(ret_url), URL_MAX - strlen(ret_url), ":%u", url.port);
    snprintf(ret_url + strlen(ret_url), URL_MAX - strlen(ret_url), "%s", url.path);
    r = list_add(config->trusted_hosts, url.host, err);
    return r < 0 ? r : host_add(config, url.host, url.port, basic_authorization(url.user), err);
}

static int sources_add(struct pip_config *config, const char *words, char **list,
                       struct gb_err *err)
{
    autofree char *copy = words ? strdup(words) : NULL;
    char *state = NULL;
    int r = 0;

    for (char *word = copy ? strtok_r(copy, BLANKS, &state) : NULL; word && r == 0;
         word = strtok_r(NULL, BLANKS, &state)) {
        char url[URL_MAX];
        int made = source_make(config, word, url, err);

        r = made < 0 ? made : made > 0 ? 0 : list_add(list, url, err);
    }
    return r;
}

static int index_set(struct pip_config *config, const char *index, struct gb_err *err)
{
    char url[URL_MAX];
    int r = source_make(config, index, url, err);

    if (r < 0)
        return r;
    if (r > 0)
        return gb_fail_plain(err, ENOENT, "%s", config->note);
    config->index_url = strdup(url);
    if (!config->index_url)
        return gb_fail(err, ENOMEM, "read the pip configuration");
    for (size_t i = 0; i < ARRAY_LEN(known_files); i++)
        for (size_t h = 0; h < config->hosts_len; h++)
            if (strcasecmp(config->hosts[h].host, known_files[i].index) == 0)
                return host_add(config, known_files[i].files, 443, NULL, err);
    return 0;
}

static int config_fill(struct pip_config *config, const struct pip_settings *settings,
                       const struct pip_options *options, struct gb_err *err)
{
    const char *index = options->index_url ? options->index_url : settings->index_url;
    bool none = false;
    int r = 0;

    if (!options->index_url && settings->no_index)
        (void) parse_bool(settings->no_index, &none);
    if (options->index_url && strcmp(options->index_url, "none") == 0)
        none = true;
    if (!none)
        r = index_set(config, index && index[0] ? index : DEFAULT_INDEX, err);
    if (r == 0 && !none && !options->extra_indexes)
        r = sources_add(config, settings->extra_index_url, config->extra_indexes, err);
    for (size_t i = 0; r == 0 && options->extra_indexes && options->extra_indexes[i]; i++)
        r = sources_add(config, options->extra_indexes[i], config->extra_indexes, err);
    if (r == 0)
        r = sources_add(config, settings->find_links, config->find_links, err);
    for (size_t i = 0; r == 0 && options->wheels && options->wheels[i]; i++)
        r = sources_add(config, options->wheels[i], config->find_links, err);
    if (r == 0 && settings->trusted_host) {
        autofree char *copy = strdup(settings->trusted_host);
        char *state = NULL;

        for (char *word = copy ? strtok_r(copy, BLANKS, &state) : NULL; word && r == 0;
             word = strtok_r(NULL, BLANKS, &state))
            r = host_valid(word) ? list_add(config->trusted_hosts, word, err) : 0;
    }
    if (r == 0 && settings->cert && settings->cert[0] == '/')
        config->cert = strdup(settings->cert);
    config->proxy = settings->proxy && settings->proxy[0];
    if (config->proxy && !config->note[0])
        snprintf(config->note, sizeof config->note,
                 "the proxy in pip's configuration (proxy, PIP_PROXY or HTTPS_PROXY) is not used: "
                 "the index must be reachable without it");
    return r;
}

int pip_config_make(const struct pip_settings *settings, const struct pip_options *options,
                    struct pip_config **ret_config, struct gb_err *err)
{
    struct pip_config *config = calloc(1, sizeof *config);
    int r;

    if (!config)
        return gb_fail(err, ENOMEM, "read the pip configuration");
    r = config_fill(config, settings, options, err);
    if (r < 0) {
        pip_config_free(config);
        return r;
    }
    *ret_config = config;
    return 0;
}

int pip_config_load(const struct pip_options *options, struct pip_config **ret_config,
                    struct gb_err *err)
{
    struct pip_settings settings = { 0 };
    int r;

    read_host(&settings);
    r = pip_config_make(&settings, options, ret_config, err);
    pip_settings_release(&settings);
    return r;
}

static void list_free(char **list)
{
    for (; *list; list++)
        free(*list);
}

void pip_config_free(struct pip_config *config)
{
    if (!config)
        return;
    free(config->index_url);
    free(config->cert);
    list_free(config->extra_indexes);
    list_free(config->find_links);
    list_free(config->trusted_hosts);
    for (size_t i = 0; i < PIP_DIRS_MAX; i++)
        free(config->dirs[i]);
    for (size_t i = 0; i < config->hosts_len; i++) {
        char *secret = config->hosts[i].authorization;

        if (secret)
            sodium_memzero(secret, strlen(secret));
        free(secret);
    }
    free(config);
}

bool pip_config_any(const struct pip_config *config)
{
    return config->index_url || config->extra_indexes[0] || config->find_links[0];
}
