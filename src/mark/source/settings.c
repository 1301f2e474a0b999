/* Bodies of sources: what each kind takes, checked member by member, and what is kept of it. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/text/parse.h"
#include "base/text/utf8.h"
#include "mark/source/google.h"
#include "mark/source/internal.h"
#include "mark/source/url.h"
#include "mark/source/vault.h"

#include "base/banned.h"

#define CA_MAX          (128 * 1024)
#define DESCRIPTION_MAX 4000
#define SCHEMAS_MAX     100
#define VARIABLES_MAX   20
#define VALUE_MAX       200
#define PASSWORD_MAX    1024
#define URL_TEXT_MAX    4096
#define COST_MAX        1e15
#define PRICE_MAX       1e6
#define PRICE_DEFAULT   6.25 /* US dollars for 1 TiB: BigQuery's list price on demand */

enum { POSTGRESQL = 1, BIGQUERY = 2, FILES = 4, ALL = 7 };

static const struct {
    const char *name;
    unsigned kinds;
} members[] = {
    { "name", ALL },
    { "kind", ALL },
    { "description", ALL },
    { "access", ALL },
    { "samples", ALL },
    { "joins", ALL },
    { "examples", ALL },
    { "limits", POSTGRESQL | BIGQUERY },
    { "url", POSTGRESQL | BIGQUERY },
    { "password", POSTGRESQL },
    { "ca", POSTGRESQL },
    { "schemas", POSTGRESQL },
    { "role", POSTGRESQL },
    { "variables", POSTGRESQL },
    { "project", BIGQUERY },
    { "dataset", BIGQUERY },
    { "location", BIGQUERY },
    { "credentials", BIGQUERY },
    { "price_per_tib", BIGQUERY },
    { "directory", FILES },
};

static int fail(struct fault *fault, const char *member, const char *why)
{
    return fault_set(fault, PROBLEM_SOURCE_MALFORMED, member, "%s %s", member, why);
}

static unsigned kind_bit(const char *kind)
{
    return strcmp(kind, "postgresql") == 0 ? POSTGRESQL
           : strcmp(kind, "bigquery") == 0 ? BIGQUERY
           : strcmp(kind, "files") == 0    ? FILES
                                           : 0;
}

static int check_members(const char *kind, const json_t *body, struct fault *fault)
{
    const char *name;
    json_t *value;

    json_object_foreach ((json_t *) body, name, value) {
        char quoted[FORMAT_QUOTED_MAX];
        size_t i = 0;

        while (i < ARRAY_LEN(members) && strcmp(members[i].name, name) != 0)
            i++;
        if (i < ARRAY_LEN(members) && members[i].kinds & kind_bit(kind))
            continue;
        format_quoted(name, quoted);
        return fault_set(fault, PROBLEM_SOURCE_MALFORMED, NULL,
                         "a source of kind %s has no %s; leave it out", kind, quoted);
    }
    return 0;
}

/* ---- values ---- */

int settings_text(const json_t *object, const char *name, size_t max, const char **ret_text,
                  struct fault *fault)
{
    const json_t *json = json_object_get(object, name);
    const char *text = json_string_value(json);

    *ret_text = NULL;
    if (!json || json_is_null(json))
        return 0;
    if (!text || json_string_length(json) > max || strlen(text) != json_string_length(json))
        return fault_set(fault, PROBLEM_SOURCE_MALFORMED, name,
                         "%s must be a text of at most %zu bytes, without NUL", name, max);
    *ret_text = text;
    return 0;
}

int settings_copy_text(json_t *to, const json_t *body, const char *name, size_t max,
                       struct fault *fault)
{
    const char *text;

    if (!json_object_get(body, name))
        return 0;
    if (settings_text(body, name, max, &text, fault) < 0)
        return -1;
    if (!text || !text[0])
        (void) json_object_del(to, name);
    else if (json_object_set_new(to, name, json_string(text)) < 0)
        return fault_no_memory(fault);
    return 1;
}

static bool is_of(const char *text, const char *others, size_t max)
{
    size_t len = strlen(text);

    if (len < 1 || len > max)
        return false;
    for (size_t i = 0; i < len; i++)
        if (!((text[i] >= 'a' && text[i] <= 'z') || (text[i] >= 'A' && text[i] <= 'Z') ||
              (text[i] >= '0' && text[i] <= '9') || strchr(others, text[i])))
            return false;
    return true;
}

static int copy_word(json_t *to, const json_t *body, const char *name, const char *others,
                     size_t max, struct fault *fault)
{
    int r = settings_copy_text(to, body, name, max, fault);
    const char *text = json_string_value(json_object_get(to, name));

    if (r > 0 && text && !is_of(text, others, max))
        return fail(fault, name, "has characters that it cannot have");
    return r;
}

/* One of "rows", "bytes", ...: an integer from 1 to @max, or null. */
static int copy_limit(json_t *to, const json_t *limits, const char *name, int64_t max,
                      struct fault *fault)
{
    const json_t *json = json_object_get(limits, name);

    if (!json || json_is_null(json))
        return 0;
    if (!json_is_integer(json) || json_integer_value(json) < 1 || json_integer_value(json) > max)
        return fault_set(fault, PROBLEM_SOURCE_MALFORMED, "limits",
                         "limits.%s must be a whole number from 1 to %lld", name, (long long) max);
    return json_object_set_new(to, name, json_integer(json_integer_value(json))) < 0
               ? fault_no_memory(fault)
               : 0;
}

static int copy_number(json_t *to, const json_t *from, const char *name, double max,
                       struct fault *fault)
{
    const json_t *json = json_object_get(from, name);
    double value = json_number_value(json);

    if (!json)
        return 0;
    if (json_is_null(json)) {
        (void) json_object_del(to, name);
        return 0;
    }
    if (!json_is_number(json) || !isfinite(value) || value < 0 || value > max)
        return fault_set(fault, PROBLEM_SOURCE_MALFORMED, name, "%s must be a number from 0 to %g",
                         name, max);
    return json_object_set_new(to, name, json_real(value)) < 0 ? fault_no_memory(fault) : 0;
}

static int copy_limits(const struct sources *sources, bool billed, json_t *to, const json_t *body,
                       struct fault *fault)
{
    static const char *const known[] = { "rows", "bytes", "seconds", "cost", "bytes_billed" };
    const json_t *limits = json_object_get(body, "limits");
    json_t *copy, *value;
    const char *name;
    int r;

    if (!limits)
        return 0;
    if (!json_is_null(limits) && !json_is_object(limits))
        return fail(fault, "limits", "must be an object");
    json_object_foreach ((json_t *) limits, name, value) {
        size_t i = 0;

        while (i < ARRAY_LEN(known) && strcmp(known[i], name) != 0)
            i++;
        if (i == ARRAY_LEN(known) || i == (billed ? 3 : 4))
            return fault_set(fault, PROBLEM_SOURCE_MALFORMED, "limits",
                             "limits can have rows, bytes, seconds and %s",
                             billed ? "bytes_billed" : "cost");
    }
    copy = json_object();
    if (!copy)
        return fault_no_memory(fault);
    r = copy_limit(copy, limits, "rows", sources->config.rows_max, fault);
    if (r == 0)
        r = copy_limit(copy, limits, "bytes", sources->config.bytes_max, fault);
    if (r == 0)
        r = copy_limit(copy, limits, "seconds", sources->config.us_max / 1000000, fault);
    if (r == 0)
        r = copy_limit(copy, limits, "bytes_billed", INT64_C(1) << 60, fault);
    if (r == 0)
        r = copy_number(copy, limits, "cost", COST_MAX, fault);
    if (r == 0 && json_object_set(to, "limits", copy) < 0)
        r = fault_no_memory(fault);
    json_decref(copy);
    return r;
}

/* ---- PostgreSQL ---- */

static int copy_schemas(json_t *to, const json_t *body, struct fault *fault)
{
    const json_t *list = json_object_get(body, "schemas"), *item;
    size_t i;

    if (!list)
        return 0;
    if (json_is_null(list)) {
        (void) json_object_del(to, "schemas");
        return 0;
    }
    if (!json_is_array(list) || json_array_size(list) < 1 || json_array_size(list) > SCHEMAS_MAX)
        return fail(fault, "schemas", "must be a list of 1 to 100 names; leave it out for all");
    json_array_foreach ((json_t *) list, i, item)
        if (!pg_name_valid(json_string_value(item)) ||
            strlen(json_string_value(item)) != json_string_length(item))
            return fail(fault, "schemas", "has an item that is not the name of a schema");
    return json_object_set_new(to, "schemas", json_deep_copy(list)) < 0 ? fault_no_memory(fault)
                                                                        : 0;
}

/* A setting of the operator's own: "app.user". Those without a dot are the server's. */
static bool is_variable(const char *name)
{
    const char *dot = strchr(name, '.');

    return dot && dot != name && dot[1] && is_of(name, "._", PG_NAME_MAX - 1) &&
           !strchr("0123456789.", name[0]) && !strchr(dot + 1, '.') &&
           !strchr("0123456789", dot[1]);
}

static bool is_value(const json_t *json)
{
    static const char *const known[] = { "{email}", "{user_id}", "{key}" };
    const char *text = json_string_value(json);

    if (!text || json_string_length(json) > VALUE_MAX || strlen(text) != json_string_length(json))
        return false;
    while ((text = strpbrk(text, "{}"))) {
        size_t i = 0;

        while (i < ARRAY_LEN(known) && strncmp(text, known[i], strlen(known[i])) != 0)
            i++;
        if (i == ARRAY_LEN(known))
            return false;
        text += strlen(known[i]);
    }
    return true;
}

static int copy_variables(json_t *to, const json_t *body, struct fault *fault)
{
    const json_t *map = json_object_get(body, "variables");
    const char *name;
    json_t *value;

    if (!map)
        return 0;
    if (json_is_null(map)) {
        (void) json_object_del(to, "variables");
        return 0;
    }
    if (!json_is_object(map) || json_object_size(map) > VARIABLES_MAX)
        return fail(fault, "variables", "must be an object with at most 20 names and texts");
    json_object_foreach ((json_t *) map, name, value)
        if (!is_variable(name) || !is_value(value))
            return fail(fault, "variables",
                        "must map names with a dot, such as app.user, to texts of at most 200 "
                        "bytes; {email}, {user_id} and {key} stand for the caller's");
    return json_object_set_new(to, "variables", json_deep_copy(map)) < 0 ? fault_no_memory(fault)
                                                                         : 0;
}

static bool same_text(const json_t *a, const json_t *b, const char *name)
{
    const char *x = json_string_value(json_object_get(a, name)),
               *y = json_string_value(json_object_get(b, name));

    return strcmp(x ? x : "", y ? y : "") == 0;
}

static int copy_url(struct settings *settings, const json_t *body, struct fault *fault)
{
    static const char *const parts[] = { "host",           "port",    "user",
                                         "dbname",         "sslmode", "application_name",
                                         "connect_timeout" };
    const char *text;
    struct pg_url url;
    json_t *made;
    int r;

    if (settings_text(body, "url", URL_TEXT_MAX, &text, fault) < 0)
        return -1;
    if (!text)
        return json_object_get(settings->json, "host")
                   ? 0
                   : fail(fault, "url", "is missing: postgresql://USER@HOST/DATABASE");
    if (pg_url_parse(text, &url, fault) < 0)
        return -1;
    made = json_pack("{s:s,s:i,s:s,s:s,s:s}", "host", url.host, "port", url.port, "user", url.user,
                     "dbname", url.dbname, "sslmode", url.sslmode);
    r = made ? 0 : -1;
    if (r == 0 && url.application_name[0])
        r = json_object_set_new(made, "application_name", json_string(url.application_name));
    if (r == 0 && url.connect_timeout > 0)
        r = json_object_set_new(made, "connect_timeout", json_integer(url.connect_timeout));
    settings->moved =
        !same_text(made, settings->json, "host") || !same_text(made, settings->json, "user") ||
        !json_equal(json_object_get(made, "port"), json_object_get(settings->json, "port"));
    settings->secret = TAKE_PTR(url.password);
    for (size_t i = 0; r == 0 && i < ARRAY_LEN(parts); i++)
        (void) json_object_del(settings->json, parts[i]);
    if (r == 0)
        r = json_object_update(settings->json, made);
    json_decref(made);
    return r < 0 ? fault_no_memory(fault) : 0;
}

static int read_postgresql(const struct sources *sources, struct settings *settings,
                           const json_t *body, struct fault *fault)
{
    const char *password, *ca, *role;
    int r = copy_url(settings, body, fault);

    if (r == 0)
        r = settings_text(body, "password", PASSWORD_MAX, &password, fault);
    if (r == 0 && password && password[0]) {
        vault_wipe(settings->secret);
        settings->secret = strdup(password);
        r = settings->secret ? 0 : fault_no_memory(fault);
    }
    if (r == 0)
        r = settings_copy_text(settings->json, body, "ca", CA_MAX, fault);
    ca = json_string_value(json_object_get(settings->json, "ca"));
    if (r > 0 && ca && !strstr(ca, "-----BEGIN CERTIFICATE-----"))
        return fail(fault, "ca", "must be a certificate in PEM: -----BEGIN CERTIFICATE-----");
    if (r >= 0)
        r = settings_copy_text(settings->json, body, "role", PG_NAME_MAX - 1, fault);
    role = json_string_value(json_object_get(settings->json, "role"));
    if (r > 0 && role && (!pg_name_valid(role) || strcmp(role, "none") == 0))
        return fail(fault, "role", "is not the name of a role");
    if (r >= 0)
        r = copy_schemas(settings->json, body, fault);
    if (r == 0)
        r = copy_variables(settings->json, body, fault);
    return r == 0 ? copy_limits(sources, false, settings->json, body, fault) : r;
}

/* ---- BigQuery ---- */

static int copy_credentials(struct settings *settings, bool is_new, const json_t *body,
                            struct fault *fault)
{
    const json_t *credentials = json_object_get(body, "credentials");
    const char *account = json_string_value(json_object_get(credentials, "client_email"));
    struct gb_err err = { 0 };

    if (!credentials || json_is_null(credentials))
        return is_new ? fail(fault, "credentials",
                             "are missing: the JSON of a service account's key, as Google gives it")
                      : 0;
    if (google_credentials_check(credentials, &err) < 0 || !account)
        return fault_set(fault, PROBLEM_SOURCE_MALFORMED, "credentials", "%s",
                         err.msg[0] ? err.msg : "credentials without client_email");
    settings->secret = json_dumps(credentials, JSON_COMPACT);
    if (!settings->secret)
        return fault_no_memory(fault);
    if (strlen(settings->secret) > VAULT_PLAIN_MAX || strlen(account) > 255)
        return fail(fault, "credentials", "are larger than a service account's key");
    return json_object_set_new(settings->json, "account", json_string(account)) < 0
               ? fault_no_memory(fault)
               : 0;
}

static bool is_api(const char *url)
{
    return strncmp(url, "https://", 8) == 0 || strncmp(url, "http://127.0.0.1:", 17) == 0 ||
           strncmp(url, "http://localhost:", 17) == 0;
}

static int read_bigquery(const struct sources *sources, struct settings *settings, bool is_new,
                         const json_t *body, struct fault *fault)
{
    const json_t *before = json_object_get(settings->json, "url");
    autofree char *old_url = before ? strdup(json_string_value(before)) : NULL;
    const char *url;
    int r = copy_word(settings->json, body, "project", ".:-", 100, fault);

    if (r >= 0 && !json_object_get(settings->json, "project"))
        return fail(fault, "project", "is missing: the id of the project that is billed");
    if (r >= 0)
        r = copy_word(settings->json, body, "dataset", "_-.:", 256, fault);
    if (r >= 0)
        r = copy_word(settings->json, body, "location", "-", 64, fault);
    if (r >= 0)
        r = settings_copy_text(settings->json, body, "url", 1000, fault);
    url = json_string_value(json_object_get(settings->json, "url"));
    if (r > 0 && url && (!is_api(url) || strpbrk(url, " \t\r\n@#?")))
        return fail(fault, "url", "must be https://HOST/PATH of the API");
    settings->moved = !is_new && strcmp(old_url ? old_url : "", url ? url : "") != 0;
    if (r >= 0)
        r = copy_credentials(settings, is_new, body, fault);
    if (r == 0 && is_new && !json_object_get(body, "price_per_tib") &&
        json_object_set_new(settings->json, "price_per_tib", json_real(PRICE_DEFAULT)) < 0)
        r = fault_no_memory(fault);
    if (r == 0)
        r = copy_number(settings->json, body, "price_per_tib", PRICE_MAX, fault);
    return r == 0 ? copy_limits(sources, true, settings->json, body, fault) : r;
}

/* ---- files ---- */

static int read_files(struct settings *settings, const json_t *body, struct fault *fault)
{
    const char *path;

    if (settings_copy_text(settings->json, body, "directory", 4000, fault) < 0)
        return -1;
    path = json_string_value(json_object_get(settings->json, "directory"));
    if (!path || path[0] != '/')
        return fail(fault, "directory", "must be an absolute path");
    for (const char *c = path; *c; c++)
        if ((unsigned char) *c < ' ' || *c == 127)
            return fail(fault, "directory", "has control characters in it");
    return 0;
}

/* ---- all ---- */

static int read_common(struct settings *settings, const json_t *body, struct fault *fault)
{
    const json_t *samples = json_object_get(body, "samples");

    if (samples && !json_is_boolean(samples) && !json_is_null(samples))
        return fail(fault, "samples", "must be true or false");
    if (samples &&
        json_object_set_new(settings->json, "samples", json_boolean(!json_is_false(samples))) < 0)
        return fault_no_memory(fault);
    return settings_copy_text(settings->json, body, "description", DESCRIPTION_MAX, fault) < 0 ? -1
                                                                                               : 0;
}

int settings_from_body(const struct sources *sources, const char *kind, const json_t *old,
                       const json_t *body, struct settings *ret_settings, struct fault *fault)
{
    struct settings settings = { .json = old ? json_deep_copy(old) : json_object() };
    int r = settings.json ? check_members(kind, body, fault) : fault_no_memory(fault);

    if (r == 0)
        r = read_common(&settings, body, fault);
    if (r == 0)
        r = kind_bit(kind) == POSTGRESQL ? read_postgresql(sources, &settings, body, fault)
            : kind_bit(kind) == BIGQUERY ? read_bigquery(sources, &settings, !old, body, fault)
                                         : read_files(&settings, body, fault);
    if (r < 0) {
        settings_release(&settings);
        return -1;
    }
    settings.moved = settings.moved && old;
    *ret_settings = settings;
    return 0;
}

void settings_release(struct settings *settings)
{
    json_decref(settings->json);
    vault_wipe(settings->secret);
    *settings = (struct settings){ 0 };
}
