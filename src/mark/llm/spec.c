#include "mark/llm/spec.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/autoclean.h"
#include "base/io.h"
#include "base/text/parse.h"
#include "mark/llm/net.h"

#include "base/banned.h"

#define NAME_BYTES_MAX 64
#define KEY_BYTES_MAX  8192
#define SPEC_FORMS                                                                                 \
    "NAME=openai:MODEL@URL, NAME=anthropic:MODEL@URL, NAME=script:FILE, NAME=cassette:FILE or "    \
    "NAME=demo"

static bool name_is_good(const char *name, size_t len)
{
    if (len == 0 || len > NAME_BYTES_MAX)
        return false;
    for (size_t i = 0; i < len; i++) {
        char c = name[i];
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');

        if (!letter && (i == 0 || !strchr("._:/@+-", c)))
            return false;
    }
    return true;
}

/* Where "@http://" or "@https://" begins; names of models may have an '@' of their own. */
static const char *find_url(const char *text)
{
    for (const char *at = text; (at = strchr(at, '@')); at++)
        if (strncasecmp(at + 1, "http://", 7) == 0 || strncasecmp(at + 1, "https://", 8) == 0)
            return at;
    return NULL;
}

static int parse_server(const char *rest, struct model_spec *spec, const char *text,
                        struct gb_err *err)
{
    const char *at = find_url(rest);
    char quoted[FORMAT_QUOTED_MAX];

    format_quoted(text, quoted);
    spec->model = at ? strndup(rest, (size_t) (at - rest)) : strdup(rest);
    spec->url = at ? strdup(at + 1) : NULL;
    if (!spec->model || (at && !spec->url))
        return gb_fail(err, ENOMEM, "read a model");
    if (!*spec->model || strpbrk(spec->model, " \t\r\n"))
        return gb_fail_plain(err, EINVAL, "--model %s names no model; write %s", quoted,
                             SPEC_FORMS);
    if (!at && strstr(rest, "@"))
        return gb_fail_plain(err, EINVAL,
                             "--model %s: the URL after '@' must begin with http:// or https://",
                             quoted);
    return 0;
}

int spec_parse(const char *text, struct model_spec *ret_spec, struct gb_err *err)
{
    const char *equals = strchr(text, '='), *rest = equals ? equals + 1 : NULL;
    char quoted[FORMAT_QUOTED_MAX];
    struct model_spec spec = { 0 };
    int r = 0;

    format_quoted(text, quoted);
    if (!equals || !name_is_good(text, (size_t) (equals - text)))
        return gb_fail_plain(err, EINVAL,
                             "--model %s has no name of letters, digits and ._:/@+-; write %s",
                             quoted, SPEC_FORMS);
    spec.name = strndup(text, (size_t) (equals - text));
    if (!spec.name)
        return gb_fail(err, ENOMEM, "read a model");
    if (strncmp(rest, "openai:", 7) == 0) {
        spec.kind = LLM_KIND_OPENAI;
        r = parse_server(rest + 7, &spec, text, err);
    } else if (strncmp(rest, "anthropic:", 10) == 0) {
        spec.kind = LLM_KIND_ANTHROPIC;
        r = parse_server(rest + 10, &spec, text, err);
    } else if (strncmp(rest, "script:", 7) == 0 && rest[7]) {
        spec.kind = LLM_KIND_SCRIPT;
        spec.model = strdup(rest + 7);
        r = spec.model ? 0 : gb_fail(err, ENOMEM, "read a model");
    } else if (strncmp(rest, "cassette:", 9) == 0 && rest[9]) {
        spec.kind = LLM_KIND_CASSETTE;
        spec.model = strdup(rest + 9);
        r = spec.model ? 0 : gb_fail(err, ENOMEM, "read a model");
    } else if (strcmp(rest, "demo") == 0) {
        spec.kind = LLM_KIND_DEMO;
    } else {
        r = gb_fail_plain(err, EINVAL, "--model %s has no provider that is known; write %s", quoted,
                          SPEC_FORMS);
    }
    if (r < 0)
        spec_release(&spec);
    else
        *ret_spec = spec;
    return r;
}

void spec_release(struct model_spec *spec)
{
    free(spec->name);
    free(spec->model);
    free(spec->url);
    *spec = (struct model_spec){ 0 };
}

/* ---- keys ---- */

bool spec_key_is_good(const char *key)
{
    for (const char *p = key; *p; p++)
        if (*p <= ' ' || *p >= 0x7f)
            return false;
    return *key != '\0';
}

static void trim(char *text)
{
    size_t len = strlen(text), start = strspn(text, " \t\r\n");

    while (len > start && strchr(" \t\r\n", text[len - 1]))
        len--;
    memmove(text, text + start, len - start);
    text[len - start] = '\0';
}

int spec_read_key(const char *path, char **ret_key, struct gb_err *err)
{
    autoclose int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    char buf[KEY_BYTES_MAX + 1];
    struct stat st;
    ssize_t n;
    int r = 0;

    if (fd < 0 || fstat(fd, &st) < 0)
        return gb_fail(err, errno, "open the key file '%s'", path);
    if (!S_ISREG(st.st_mode))
        return gb_fail_plain(err, EINVAL, "the key file '%s' is not a plain file", path);
    if (st.st_mode & S_IROTH)
        return gb_fail_plain(err, EPERM, "the key file '%s' can be read by everyone; chmod 600 it",
                             path);
    n = io_read_all(fd, buf, sizeof buf);
    if (n < 0)
        return gb_fail(err, (int) -n, "read the key file '%s'", path);
    if ((size_t) n > KEY_BYTES_MAX || memchr(buf, '\0', (size_t) n)) {
        r = gb_fail_plain(err, EINVAL, "the key file '%s' does not look like a key", path);
    } else {
        buf[n] = '\0';
        trim(buf);
        if (!spec_key_is_good(buf))
            r = gb_fail_plain(err, EINVAL,
                              "the key file '%s' must have one word of printable ASCII", path);
        else if (!(*ret_key = strdup(buf)))
            r = gb_fail(err, ENOMEM, "read the key file '%s'", path);
    }
    explicit_bzero(buf, sizeof buf);
    return r;
}

/* ---- endpoints ---- */

static bool ends_with(const char *text, const char *end)
{
    size_t len = strlen(text), end_len = strlen(end);

    return len >= end_len && strcasecmp(text + len - end_len, end) == 0;
}

int spec_endpoint(enum llm_kind kind, const char *base, struct llm_model *model, struct gb_err *err)
{
    bool anthropic = kind == LLM_KIND_ANTHROPIC;
    size_t len = strlen(base);
    struct net_url url;
    const char *why, *middle = "";

    if (net_url_read(base, &url, &why) < 0)
        return gb_fail_plain(err, EINVAL, "the URL of the model '%s' cannot be used: %s",
                             model->name, why);
    if (model->key && !url.tls && !url.loopback)
        return gb_fail_plain(err, EINVAL,
                             "the key of the model '%s' would travel to %s in clear; use https",
                             model->name, url.where);
    while (len > 0 && base[len - 1] == '/')
        len--;
    if (anthropic ? len < 3 || strncmp(base + len - 3, "/v1", 3) != 0 : !url.has_path)
        middle = "/v1";
    model->vendor = anthropic ? ends_with(url.host, "api.anthropic.com")
                              : ends_with(url.host, "api.openai.com");
    model->loopback = url.loopback;
    model->where = strdup(url.where);
    if (asprintf(&model->url, "%.*s%s%s", (int) len, base, middle,
                 anthropic ? "/messages" : "/chat/completions") < 0)
        model->url = NULL;
    if (asprintf(&model->responses_url, "%.*s%s/responses", (int) len, base, middle) < 0)
        model->responses_url = NULL;
    if (!model->where || !model->url || !model->responses_url)
        return gb_fail(err, ENOMEM, "read a model");
    return 0;
}
