/* What all backends have in common: the calls of store.h, with what callers give checked once. */
#include "store/store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/utf8.h"
#include "store/store_internal.h"

#include "base/banned.h"

static const char *const end_names[] = {
    [STORE_END_NONE] = NULL,   [STORE_END_EXPIRED] = "expired",   [STORE_END_DELETED] = "deleted",
    [STORE_END_LOST] = "lost", [STORE_END_SHUTDOWN] = "shutdown",
};

const char *store_end_name(enum store_end end)
{
    return (size_t) end < ARRAY_LEN(end_names) ? end_names[end] : NULL;
}

enum store_end store_end_from_name(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(end_names); i++)
        if (end_names[i] && strcmp(name, end_names[i]) == 0)
            return (enum store_end) i;
    return STORE_END_LOST;
}

void store_hex(const uint8_t hash[STORE_HASH_BYTES], char ret_hex[STORE_HEX_MAX])
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < STORE_HASH_BYTES; i++) {
        ret_hex[2 * i] = digits[hash[i] >> 4];
        ret_hex[2 * i + 1] = digits[hash[i] & 15];
    }
    ret_hex[STORE_HEX_MAX - 1] = '\0';
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

bool store_unhex(const char *hex, uint8_t ret_hash[STORE_HASH_BYTES])
{
    uint8_t hash[STORE_HASH_BYTES];

    if (strlen(hex) != STORE_HEX_MAX - 1)
        return false;
    for (size_t i = 0; i < STORE_HASH_BYTES; i++) {
        int high = hex_digit(hex[2 * i]), low = hex_digit(hex[2 * i + 1]);

        if (high < 0 || low < 0)
            return false;
        hash[i] = (uint8_t) (high << 4 | low);
    }
    memcpy(ret_hash, hash, sizeof hash);
    return true;
}

/* ---- what callers give ---- */

bool store_id_valid(const char *text)
{
    size_t len = text ? strnlen(text, STORE_ID_MAX) : 0;

    for (size_t i = 0; i < len; i++) {
        char c = text[i], lower = (char) (c | 32);

        if (!(lower >= 'a' && lower <= 'z') && !(c >= '0' && c <= '9') && !strchr("._-", c))
            return false;
    }
    return len > 0 && len < STORE_ID_MAX;
}

static int check_id(const char *id, struct gb_err *err)
{
    return store_id_valid(id) ? 0 : gb_fail_plain(err, EINVAL, "that is not an id");
}

static int check_key(const struct store_key *key, struct gb_err *err)
{
    const int64_t limits[] = { key->sessions, key->executions, key->rate_per_minute };
    size_t len = strnlen(key->name, STORE_NAME_MAX);

    if (len == STORE_NAME_MAX || !utf8_valid(key->name, len))
        return gb_fail_plain(err, EINVAL, "a key's name is UTF-8 of at most %d bytes",
                             STORE_NAME_MAX - 1);
    for (size_t i = 0; i < len; i++)
        if ((unsigned char) key->name[i] < ' ' || key->name[i] == 127)
            return gb_fail_plain(err, EINVAL, "a key's name has no control characters");
    for (size_t i = 0; i < ARRAY_LEN(limits); i++)
        if (limits[i] < 1 && limits[i] != STORE_LIMIT_DEFAULT)
            return gb_fail_plain(err, EINVAL, "a key's limits are 1 or more");
    return check_id(key->id, err);
}

static int check_end(enum store_end end, struct gb_err *err)
{
    return store_end_name(end) ? 0 : gb_fail_plain(err, EINVAL, "that is no end of a session");
}

static int check_audit(const struct store_audit *entry, struct gb_err *err)
{
    if (entry->seq < 1 || entry->time_us < 0 || !entry->fields)
        return gb_fail_plain(err, EINVAL, "that is not an entry of the audit log");
    if (strnlen(entry->fields, STORE_AUDIT_FIELDS_MAX) == STORE_AUDIT_FIELDS_MAX)
        return gb_fail_plain(err, EINVAL, "an entry of the audit log is too long");
    return entry->session_id[0] ? check_id(entry->session_id, err) : 0;
}

/* ---- the calls ---- */

int store_open(const struct store_config *config, struct store **ret_store, struct gb_err *err)
{
    if (!config->dir || !config->dir[0])
        return gb_fail_plain(err, EINVAL, "no data directory");
    return store_sqlite_open(config, ret_store, err);
}

void store_close(struct store *store)
{
    if (store)
        store->ops->close(store);
}

int store_key_add(struct store *store, const struct store_key *key, struct gb_err *err)
{
    int r = check_key(key, err);

    return r < 0 ? r : store->ops->key_add(store, key, err);
}

int store_key_list(struct store *store, struct store_key **ret_keys, size_t *ret_len,
                   struct gb_err *err)
{
    return store->ops->key_list(store, ret_keys, ret_len, err);
}

int store_key_revoke(struct store *store, const char *id, int64_t now_us, struct gb_err *err)
{
    int r = check_id(id, err);

    return r < 0 ? r : store->ops->key_revoke(store, id, now_us, err);
}

int store_key_touch(struct store *store, const char *id, int64_t used_us, struct gb_err *err)
{
    int r = check_id(id, err);

    return r < 0 ? r : store->ops->key_touch(store, id, used_us, err);
}

int store_key_generation(struct store *store, int64_t *ret_generation, struct gb_err *err)
{
    return store->ops->key_generation(store, ret_generation, err);
}

int store_session_add(struct store *store, const struct store_session *session, struct gb_err *err)
{
    int r = check_id(session->id, err);

    if (r == 0 && session->key_id[0])
        r = check_id(session->key_id, err);
    if (r == 0 && (session->ended_us || session->end != STORE_END_NONE))
        r = gb_fail_plain(err, EINVAL, "a new session has not ended");
    return r < 0 ? r : store->ops->session_add(store, session, err);
}

int store_session_get(struct store *store, const char *id, struct store_session *ret_session,
                      struct gb_err *err)
{
    int r = check_id(id, err);

    return r < 0 ? r : store->ops->session_get(store, id, ret_session, err);
}

int store_session_touch(struct store *store, const char *id, int64_t used_us, struct gb_err *err)
{
    int r = check_id(id, err);

    return r < 0 ? r : store->ops->session_touch(store, id, used_us, err);
}

int store_session_end(struct store *store, const char *id, int64_t now_us, enum store_end end,
                      struct gb_err *err)
{
    int r = check_id(id, err);

    if (r == 0)
        r = check_end(end, err);
    return r < 0 ? r : store->ops->session_end(store, id, now_us, end, err);
}

int64_t store_session_end_all(struct store *store, int64_t now_us, enum store_end end,
                              struct gb_err *err)
{
    int r = check_end(end, err);

    return r < 0 ? r : store->ops->session_end_all(store, now_us, end, err);
}

int64_t store_session_prune(struct store *store, int64_t before_us, struct gb_err *err)
{
    return store->ops->session_prune(store, before_us, err);
}

int store_audit_head(struct store *store, struct store_head *ret_head, struct gb_err *err)
{
    return store->ops->audit_head(store, ret_head, err);
}

int store_audit_append(struct store *store, const struct store_audit *entries, size_t len,
                       struct gb_err *err)
{
    for (size_t i = 0; i < len; i++) {
        int r = check_audit(&entries[i], err);

        if (r < 0)
            return r;
    }
    return len ? store->ops->audit_append(store, entries, len, err) : 0;
}

int store_audit_list(struct store *store, const struct store_audit_query *query,
                     struct store_audit **ret_entries, size_t *ret_len, struct gb_err *err)
{
    int r = query->session_id ? check_id(query->session_id, err) : 0;

    if (r == 0 && (query->limit < 1 || query->limit > STORE_AUDIT_ROWS_MAX))
        r = gb_fail_plain(err, EINVAL, "between 1 and %d entries can be asked for",
                          STORE_AUDIT_ROWS_MAX);
    return r < 0 ? r : store->ops->audit_list(store, query, ret_entries, ret_len, err);
}

void store_audit_free(struct store_audit *entries, size_t len)
{
    for (size_t i = 0; entries && i < len; i++)
        free(entries[i].fields);
    free(entries);
}
