/*
 * Who may use a source, and as whom.
 *
 * A row of access names an address, a key or everyone, and may have a login with a password of its
 * own or a role. Guests have no sources. The row that names a caller itself is stronger than that
 * of everyone. An operator may see and change every source, but asks one only if a row says so,
 * like anybody else; the local caller of a command has the data directory and with it every secret,
 * so it needs no row.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/text/parse.h"
#include "mark/source/google.h"
#include "mark/source/internal.h"
#include "mark/source/url.h"
#include "mark/source/vault.h"
#include "store/users.h"

#include "base/banned.h"

#define USER_PREFIX    "user-"
#define PASSWORD_MAX   1024
#define VALUE_MAX      1000
#define BILLED_DEFAULT (INT64_C(10) << 30)
#define COLUMNS_MAX    1600

/* ---- who asks ---- */

static int find_user(struct sources *sources, const char *id, struct whom *whom,
                     struct fault *fault)
{
    struct store_user user;
    struct gb_err err = { 0 };
    int r;

    if (strncmp(id, USER_PREFIX, strlen(USER_PREFIX)) == 0)
        id += strlen(USER_PREFIX);
    r = store_user_get(sources->config.store, id, &user, &err);
    if (r == -ENOENT)
        return fault_set(fault, PROBLEM_TOKEN_INVALID, NULL, "the account is gone; sign in again");
    if (r < 0)
        return source_fault(r, &err, fault);
    whom->is_operator = user.is_operator;
    whom->is_guest = store_user_is_guest(&user);
    (void) snprintf(whom->user_id, sizeof whom->user_id, "%s", id);
    (void) snprintf(whom->email, sizeof whom->email, "%s", user.email);
    (void) snprintf(whom->who, sizeof whom->who, "%s", user.email);
    return 0;
}

int whom_find(struct sources *sources, const struct caller *caller, struct whom *ret_whom,
              struct fault *fault)
{
    const struct principal *principal = &caller->principal;

    *ret_whom = (struct whom){ 0 };
    if (principal->kind == PRINCIPAL_USER)
        return find_user(sources, principal->id, ret_whom, fault);
    if (principal->kind == PRINCIPAL_KEY) {
        (void) snprintf(ret_whom->key, sizeof ret_whom->key, "%s", principal->id);
        (void) snprintf(ret_whom->who, sizeof ret_whom->who, "key:%s", principal->id);
        return 0;
    }
    ret_whom->is_operator = ret_whom->is_local = true;
    return 0;
}

int whom_operator(struct sources *sources, const struct caller *caller, struct whom *ret_whom,
                  struct fault *fault)
{
    if (whom_find(sources, caller, ret_whom, fault) < 0)
        return -1;
    if (!ret_whom->is_operator)
        return fault_set(fault, PROBLEM_NOT_OPERATOR, NULL,
                         "only an operator may make and change data sources; ask yours");
    return 0;
}

/* ---- sources with their access ---- */

void held_release(struct held *held)
{
    store_source_release(&held->source);
    store_access_free(held->access, held->access_len);
    json_decref(held->settings);
    *held = (struct held){ 0 };
}

void held_free(struct held *list, size_t len)
{
    for (size_t i = 0; list && i < len; i++)
        held_release(&list[i]);
    free(list);
}

static const struct store_access *row_of(const struct held *held, const struct whom *whom)
{
    const struct store_access *everyone = NULL;

    for (size_t i = 0; i < held->access_len; i++) {
        if (whom->who[0] && strcmp(held->access[i].who, whom->who) == 0)
            return &held->access[i];
        if (strcmp(held->access[i].who, "*") == 0)
            everyone = &held->access[i];
    }
    return everyone;
}

bool held_usable(const struct held *held, const struct whom *whom)
{
    return held->row || whom->is_local;
}

/* Takes @source, also on failure. 1: the caller may know of it. */
static int held_fill(struct sources *sources, const struct whom *whom, struct store_source *source,
                     struct held *held, struct fault *fault)
{
    struct gb_err err = { 0 };
    int r;

    *held = (struct held){ .source = *source, .settings = source_stored(source->settings) };
    r = store_access_list(sources->config.store, held->source.id, &held->access, &held->access_len,
                          &err);
    if (r < 0) {
        held_release(held);
        return source_fault(r, &err, fault);
    }
    if (!held->settings) {
        held_release(held);
        return fault_set(fault, PROBLEM_INTERNAL, NULL,
                         "the settings of a source in the store are damaged");
    }
    held->row = whom->is_guest ? NULL : row_of(held, whom); /* they are nobody's colleagues */
    if (held->row || whom->is_operator)
        return 1;
    held_release(held);
    return 0;
}

int held_find(struct sources *sources, const struct whom *whom, const char *id_or_name,
              struct held *ret_held, struct fault *fault)
{
    struct store_source source;
    struct gb_err err = { 0 };
    int r = store_source_get(sources->config.store, id_or_name, &source, &err);

    if (r == -ENOENT || r == -EINVAL)
        return source_unknown(id_or_name, fault);
    if (r < 0)
        return source_fault(r, &err, fault);
    r = held_fill(sources, whom, &source, ret_held, fault);
    return r == 0 ? source_unknown(id_or_name, fault) : r < 0 ? -1 : 0;
}

int held_list(struct sources *sources, const struct whom *whom, struct held **ret_list,
              size_t *ret_len, struct fault *fault)
{
    struct store_source *all = NULL;
    struct gb_err err = { 0 };
    size_t all_len = 0, len = 0;
    struct held *list;
    int r = store_source_list(sources->config.store, &all, &all_len, &err);

    if (r < 0)
        return source_fault(r, &err, fault);
    list = calloc(all_len + 1, sizeof *list);
    if (!list) {
        store_sources_free(all, all_len);
        return fault_no_memory(fault);
    }
    for (size_t i = 0; r >= 0 && i < all_len; i++) {
        struct store_source taken = all[i];

        all[i] = (struct store_source){ 0 };
        r = held_fill(sources, whom, &taken, &list[len], fault);
        len += r > 0;
    }
    store_sources_free(all, all_len);
    if (r < 0) {
        held_free(list, len);
        return -1;
    }
    *ret_list = list;
    *ret_len = len;
    return 0;
}

/* ---- as whom ---- */

static const char *text_of(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));

    return text ? text : "";
}

struct identity identity_of(const json_t *settings, const struct store_access *row)
{
    struct identity identity = { text_of(settings, "user"), text_of(settings, "role") };

    if (row && row->login[0]) {
        identity.login = row->login;
        identity.role = row->role;
    } else if (row && row->role[0]) {
        identity.role = row->role;
    }
    return identity;
}

void identity_text(const struct identity *identity, char buf[IDENTITY_MAX])
{
    (void) snprintf(buf, IDENTITY_MAX, "%s\n%s", identity->login, identity->role);
}

static void place_source(const char *id, char *buf, size_t size)
{
    (void) snprintf(buf, size, "source %s", id);
}

static void place_access(const char *id, const char *who, const char *login, char *buf, size_t size)
{
    (void) snprintf(buf, size, "access %s %s %s", id, who, login);
}

int secret_seal(struct sources *sources, const char *id, const char *plain, char **ret_sealed,
                struct fault *fault)
{
    char place[STORE_ID_MAX + 16];
    struct gb_err err = { 0 };
    int r;

    if (sources->config.read_only)
        return fault_set(fault, PROBLEM_INTERNAL, NULL, "secrets can only be read here");
    place_source(id, place, sizeof place);
    r = vault_seal(sources->data_dir, place, plain, ret_sealed, &err);
    return r < 0 ? source_fault(r, &err, fault) : 0;
}

/* {email} and the like are replaced by what the caller is. */
static json_t *expand(const char *text, const struct whom *whom)
{
    const struct {
        const char *word, *value;
    } words[] = { { "{email}", whom->email },
                  { "{user_id}", whom->user_id },
                  { "{key}", whom->key } };
    char buf[VALUE_MAX];
    size_t used = 0;

    while (*text && used + 1 < sizeof buf) {
        size_t i = 0;

        while (i < ARRAY_LEN(words) && strncmp(text, words[i].word, strlen(words[i].word)) != 0)
            i++;
        if (i < ARRAY_LEN(words)) {
            if (used + strlen(words[i].value) >= sizeof buf)
                return NULL;
            memcpy(buf + used, words[i].value, strlen(words[i].value));
            used += strlen(words[i].value);
            text += strlen(words[i].word);
        } else {
            buf[used++] = *text++;
        }
    }
    return *text ? NULL : json_stringn(buf, used);
}

static int put_variables(json_t *source, const struct held *held, const struct whom *whom)
{
    json_t *map = json_object_get(held->settings, "variables"), *value;
    json_t *made = map ? json_object() : NULL;
    const char *name;
    int r = map && !made ? -1 : 0;

    json_object_foreach (map, name, value)
        if (r == 0)
            r = json_object_set_new(made, name, expand(json_string_value(value), whom));
    if (r == 0 && made)
        r = json_object_set(source, "variables", made);
    json_decref(made);
    return r;
}

/* A copy: an order is wiped after its use, and the settings are not. */
static int put_copy(json_t *to, const char *to_name, const json_t *from, const char *name)
{
    json_t *value = json_object_get(from, name);

    return value ? json_object_set_new(to, to_name, json_deep_copy(value)) : 0;
}

/* The plain secret for the row, or NULL if there is none; for vault_wipe(). */
static int secret_open(struct sources *sources, const struct held *held,
                       const struct store_access *row, char **ret_plain, struct fault *fault)
{
    bool own = row && row->login[0];
    const char *sealed = own ? row->secret : held->source.secret;
    char place[STORE_WHO_MAX + 2 * STORE_ID_MAX + 16];
    struct gb_err err = { 0 };
    int r;

    *ret_plain = NULL;
    if (!sealed)
        return 0;
    if (own)
        place_access(held->source.id, row->who, row->login, place, sizeof place);
    else
        place_source(held->source.id, place, sizeof place);
    r = vault_open(sources->data_dir, place, sealed, ret_plain, &err);
    return r < 0 ? source_fault(r, &err, fault) : 0;
}

/* Whether access is given to single people or keys: then a login that sees everything is refused
 * by the connector. */
static bool is_personal(const struct held *held)
{
    for (size_t i = 0; i < held->access_len; i++)
        if (strcmp(held->access[i].who, "*") != 0)
            return true;
    return false;
}

static int put_postgresql(struct sources *sources, const struct held *held,
                          const struct store_access *row, const struct whom *whom, json_t *source,
                          struct fault *fault)
{
    static const char *const copied[] = { "host",           "port",    "dbname",
                                          "sslmode",        "schemas", "application_name",
                                          "connect_timeout" };
    struct identity identity = identity_of(held->settings, row);
    char *password = NULL;
    int r = json_object_set_new(source, "user", json_string(identity.login));

    if (r == 0 && identity.role[0])
        r = json_object_set_new(source, "role", json_string(identity.role));
    for (size_t i = 0; r == 0 && i < ARRAY_LEN(copied); i++)
        r = put_copy(source, copied[i], held->settings, copied[i]);
    if (r == 0)
        r = put_copy(source, "sslrootcert", held->settings, "ca");
    if (r == 0)
        r = put_variables(source, held, whom);
    if (r == 0 && is_personal(held))
        r = json_object_set_new(source, "personal", json_true());
    if (r < 0)
        return fault_no_memory(fault);
    if (secret_open(sources, held, row, &password, fault) < 0)
        return -1;
    if (password)
        r = json_object_set_new(source, "password", json_string(password));
    vault_wipe(password);
    return r < 0 ? fault_no_memory(fault) : 0;
}

static int put_bigquery(struct sources *sources, const struct held *held, json_t *source,
                        struct fault *fault)
{
    static const char *const copied[] = { "url", "project", "dataset", "location" };
    struct gb_err err = { 0 };
    json_t *credentials;
    char *plain = NULL;
    int r = 0;

    for (size_t i = 0; r == 0 && i < ARRAY_LEN(copied); i++)
        r = put_copy(source, copied[i], held->settings, copied[i]);
    if (r == 0)
        r = put_copy(source, "price", held->settings, "price_per_tib");
    if (r < 0)
        return fault_no_memory(fault);
    if (secret_open(sources, held, NULL, &plain, fault) < 0)
        return -1;
    credentials = source_stored(plain);
    vault_wipe(plain);
    r = google_tokens_fill(sources->tokens, credentials, source, &err);
    source_wipe(credentials);
    json_decref(credentials);
    return r < 0 ? fault_set(fault, PROBLEM_SOURCE_FAILED, "credentials", "%s", err.msg) : 0;
}

static int64_t limit_of(const json_t *limits, const char *name, int64_t otherwise)
{
    const json_t *json = json_object_get(limits, name);

    return json_is_integer(json) && json_integer_value(json) < otherwise ? json_integer_value(json)
                                                                         : otherwise;
}

static json_t *limits_make(const struct sources *sources, const struct held *held)
{
    const json_t *limits = json_object_get(held->settings, "limits");
    const json_t *cost = json_object_get(limits, "cost");
    json_t *made =
        json_pack("{s:I,s:I,s:I,s:I}", "rows", limit_of(limits, "rows", sources->config.rows_max),
                  "bytes", limit_of(limits, "bytes", sources->config.bytes_max), "ms",
                  1000 * limit_of(limits, "seconds", sources->config.us_max / 1000000), "columns",
                  (json_int_t) COLUMNS_MAX);
    int r = made ? 0 : -1;

    if (r == 0 && strcmp(held->source.kind, "bigquery") == 0) {
        const json_t *billed = json_object_get(limits, "bytes_billed");

        r = json_object_set_new(made, "cost",
                                json_integer(billed ? json_integer_value(billed) : BILLED_DEFAULT));
    } else if (r == 0 && cost) {
        r = json_object_set_new(made, "cost", json_real(json_number_value(cost)));
    }
    if (r < 0) {
        json_decref(made);
        return NULL;
    }
    return made;
}

int order_make(struct sources *sources, const struct held *held, const struct store_access *row,
               const struct whom *whom, json_t **ret_order, struct fault *fault)
{
    json_t *source = json_pack("{s:s}", "kind", held->source.kind),
           *limits = limits_make(sources, held), *order;
    int r = source && limits ? 0 : fault_no_memory(fault);

    if (r == 0 && strcmp(held->source.kind, "postgresql") == 0)
        r = put_postgresql(sources, held, row, whom, source, fault);
    else if (r == 0 && strcmp(held->source.kind, "bigquery") == 0)
        r = put_bigquery(sources, held, source, fault);
    order = r == 0 ? json_pack("{s:O,s:O}", "source", source, "limits", limits) : NULL;
    if (r < 0)
        source_wipe(source);
    json_decref(source);
    json_decref(limits);
    if (r == 0 && !order)
        r = fault_no_memory(fault);
    if (r == 0)
        *ret_order = order;
    return r;
}

/* ---- rows from a body ---- */

static int fail(struct fault *fault, const char *why)
{
    return fault_set(fault, PROBLEM_SOURCE_MALFORMED, "access", "access %s", why);
}

/* An address is compared as accounts have it: in lower case. */
static bool copy_who(const char *text, char who[STORE_WHO_MAX])
{
    const char *at = strchr(text, '@');
    size_t len = strlen(text);

    if (strcmp(text, "*") == 0 || (strncmp(text, "key:", 4) == 0 && store_id_valid(text + 4))) {
        (void) snprintf(who, STORE_WHO_MAX, "%s", text);
        return len < STORE_WHO_MAX;
    }
    if (!at || at == text || !at[1] || strchr(at + 1, '@') || len >= STORE_EMAIL_MAX)
        return false;
    for (size_t i = 0; i <= len; i++) {
        if (text[i] && (text[i] <= ' ' || text[i] > '~'))
            return false;
        who[i] = (char) (text[i] >= 'A' && text[i] <= 'Z' ? text[i] + ('a' - 'A') : text[i]);
    }
    return true;
}

static int copy_name(const json_t *row, const char *name, char buf[STORE_ID_MAX],
                     struct fault *fault)
{
    const char *text;

    if (settings_text(row, name, STORE_ID_MAX - 1, &text, fault) < 0)
        return -1;
    if (text && text[0] && (!pg_name_valid(text) || strcmp(text, "none") == 0))
        return fail(fault, "has a role or login that is not the name of one");
    (void) snprintf(buf, STORE_ID_MAX, "%s", text ? text : "");
    return 0;
}

static int check_row(const char *kind, const json_t *row, struct fault *fault)
{
    static const char *const known[] = { "who", "role", "login", "password", "has_password" };
    const char *name;
    json_t *value;

    if (!json_is_object(row))
        return fail(fault, "must be a list of objects: [{\"who\": \"ann@example.com\"}]");
    json_object_foreach ((json_t *) row, name, value) {
        size_t i = 0;

        while (i < ARRAY_LEN(known) && strcmp(known[i], name) != 0)
            i++;
        if (i == ARRAY_LEN(known))
            return fail(fault, "can have who, role, login and password, and nothing else");
        if (i > 0 && !json_is_null(value) && !json_is_false(value) &&
            strcmp(kind, "postgresql") != 0)
            return fail(fault, "can have a role or login only where the source is PostgreSQL");
    }
    return 0;
}

/* The sealed password that the row of the same person and login had. */
static const char *kept_secret(const struct held *old, const struct store_access *row)
{
    for (size_t i = 0; old && i < old->access_len; i++)
        if (strcmp(old->access[i].who, row->who) == 0 &&
            strcmp(old->access[i].login, row->login) == 0)
            return old->access[i].secret;
    return NULL;
}

static int seal_row(struct sources *sources, const char *id, const char *password,
                    const struct held *old, bool moved, struct store_access *row,
                    struct fault *fault)
{
    char place[STORE_WHO_MAX + 2 * STORE_ID_MAX + 16];
    const char *kept = kept_secret(old, row);
    struct gb_err err = { 0 };
    int r;

    if (password && password[0]) {
        if (!row->login[0])
            return fail(fault, "has a password without a login; the source's own is \"password\"");
        place_access(id, row->who, row->login, place, sizeof place);
        r = vault_seal(sources->data_dir, place, password, &row->secret, &err);
        return r < 0 ? source_fault(r, &err, fault) : 0;
    }
    if (!kept)
        return 0;
    if (moved)
        return fail(fault, "has passwords that were given for another server; send them again");
    row->secret = strdup(kept);
    return row->secret ? 0 : fault_no_memory(fault);
}

static int read_row(struct sources *sources, const char *id, const char *kind, const json_t *json,
                    const struct held *old, bool moved, struct store_access *row,
                    struct fault *fault)
{
    const char *who, *password;

    if (check_row(kind, json, fault) < 0 ||
        settings_text(json, "who", STORE_WHO_MAX - 1, &who, fault) < 0 ||
        settings_text(json, "password", PASSWORD_MAX, &password, fault) < 0)
        return -1;
    if (!who || !copy_who(who, row->who))
        return fail(fault, "needs a who: an address, key:ID, or * for everyone");
    if (copy_name(json, "role", row->role, fault) < 0 ||
        copy_name(json, "login", row->login, fault) < 0)
        return -1;
    return seal_row(sources, id, password, old, moved, row, fault);
}

int access_from_body(struct sources *sources, const char *source_id, const char *kind,
                     const json_t *body, const struct held *old, bool moved,
                     struct store_access **ret_access, size_t *ret_len, struct fault *fault)
{
    const json_t *list = json_object_get(body, "access");
    size_t len = json_is_array(list) ? json_array_size(list) : 0;
    struct store_access *access;
    int r = 0;

    if (list && !json_is_null(list) && (!json_is_array(list) || len > STORE_ACCESS_MAX))
        return fail(fault, "must be a list of at most 1000 rows");
    access = calloc(len + 1, sizeof *access);
    if (!access)
        return fault_no_memory(fault);
    for (size_t i = 0; r == 0 && i < len; i++) {
        r = read_row(sources, source_id, kind, json_array_get(list, i), old, moved, &access[i],
                     fault);
        for (size_t j = 0; r == 0 && j < i; j++)
            if (strcmp(access[j].who, access[i].who) == 0)
                r = fail(fault, "names somebody twice");
    }
    if (r < 0) {
        store_access_free(access, len);
        return -1;
    }
    if (!list || json_is_null(list)) {
        (void) snprintf(access[0].who, sizeof access[0].who, "*");
        len = 1;
    }
    *ret_access = access;
    *ret_len = len;
    return 0;
}

json_t *access_to_json(const struct held *held)
{
    json_t *list = json_array();
    int r = list ? 0 : -1;

    for (size_t i = 0; r == 0 && i < held->access_len; i++) {
        const struct store_access *row = &held->access[i];
        json_t *json = json_pack("{s:s}", "who", row->who);

        r = json ? 0 : -1;
        if (r == 0 && row->role[0])
            r = json_object_set_new(json, "role", json_string(row->role));
        if (r == 0 && row->login[0])
            r = json_object_set_new(json, "login", json_string(row->login));
        if (r == 0 && row->login[0])
            r = json_object_set_new(json, "has_password", json_boolean(row->secret != NULL));
        r = r == 0 ? json_array_append_new(list, json) : (json_decref(json), -1);
    }
    if (r < 0) {
        json_decref(list);
        return NULL;
    }
    return list;
}
