/*
 * Data sources, who may use them, and their catalogues.
 *
 * People edit sources and notes at the same time as others do. An edit is read, change, write; the
 * write names what was read (updated_us of a source, the notes of a table), so that one that comes
 * second is refused with -ESTALE and can be made again, instead of undoing the first.
 */
#include "store/sources.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "base/text/utf8.h"
#include "store/internal.h"

#include "base/banned.h"

#define SOURCE_COLUMNS                                                                             \
    "id, name, kind, settings, secret, notes, sync_error, created_us, updated_us, synced_us"
#define TABLE_COLUMNS "name, info, notes, synced_us, gone_us"

static const struct db_statement count_sources = {
    DB_WRITE,
    "SELECT COUNT(*) FROM mark_sources",
    "count sources",
};
static const struct db_statement add_source = {
    DB_WRITE,
    "INSERT INTO mark_sources (" SOURCE_COLUMNS
    ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
    "add a source",
};
static const struct db_statement get_source = {
    DB_READ,
    "SELECT " SOURCE_COLUMNS " FROM mark_sources WHERE id = ?1 OR name = ?1",
    "find a source",
};
static const struct db_statement list_sources = {
    DB_READ,
    "SELECT " SOURCE_COLUMNS " FROM mark_sources ORDER BY name",
    "list sources",
};
static const struct db_statement has_source = {
    DB_WRITE,
    "SELECT 1 FROM mark_sources WHERE id = ?1",
    "find a source",
};
static const struct db_statement update_source = {
    DB_WRITE,
    "UPDATE mark_sources SET name = ?2, settings = ?3, secret = ?4, notes = ?5, updated_us = ?6 "
    "WHERE id = ?1 AND updated_us = ?7",
    "change a source",
};
static const struct db_statement sync_source = {
    DB_WRITE,
    "UPDATE mark_sources SET synced_us = CASE WHEN CAST(?3 AS TEXT) IS NULL THEN ?2 "
    "ELSE synced_us END, sync_error = ?3 WHERE id = ?1",
    "record a sync",
};
static const struct db_statement delete_source = {
    DB_WRITE,
    "DELETE FROM mark_sources WHERE id = ?1",
    "remove a source",
};
static const struct db_statement list_access = {
    DB_READ,
    "SELECT who, role, login, secret FROM mark_source_access WHERE source_id = ?1 ORDER BY who",
    "read who may use a source",
};
static const struct db_statement clear_access = {
    DB_WRITE,
    "DELETE FROM mark_source_access WHERE source_id = ?1",
    "change who may use a source",
};
static const struct db_statement add_access = {
    DB_WRITE,
    "INSERT INTO mark_source_access (source_id, who, role, login, secret) "
    "VALUES (?1, ?2, ?3, ?4, ?5)",
    "change who may use a source",
};
/* Indexed by whether tables that are gone are listed too. */
static const struct db_statement list_tables[2] = {
    { DB_READ,
      "SELECT " TABLE_COLUMNS " FROM mark_source_tables "
      "WHERE source_id = ?1 AND gone_us IS NULL ORDER BY name",
      "list tables" },
    { DB_READ,
      "SELECT " TABLE_COLUMNS " FROM mark_source_tables WHERE source_id = ?1 ORDER BY name",
      "list tables" },
};
static const struct db_statement noted_tables = {
    DB_READ,
    "SELECT name, '{}', notes, synced_us, gone_us FROM mark_source_tables "
    "WHERE source_id = ?1 AND notes IS NOT NULL ORDER BY name",
    "read notes",
};
static const struct db_statement count_tables = {
    DB_READ,
    "SELECT COUNT(*) FROM mark_source_tables WHERE source_id = ?1 AND gone_us IS NULL",
    "count tables",
};
static const struct db_statement get_table = {
    DB_READ,
    "SELECT " TABLE_COLUMNS " FROM mark_source_tables WHERE source_id = ?1 AND name = ?2",
    "find a table",
};
static const struct db_statement has_table = {
    DB_WRITE,
    "SELECT 1 FROM mark_source_tables WHERE source_id = ?1 AND name = ?2",
    "find a table",
};
static const struct db_statement set_notes = {
    DB_WRITE,
    "UPDATE mark_source_tables SET notes = ?3, info = COALESCE(CAST(?5 AS TEXT), info) "
    "WHERE source_id = ?1 AND name = ?2 AND COALESCE(notes, '') = CAST(?4 AS TEXT)",
    "change notes",
};
static const struct db_statement leave_tables = {
    DB_WRITE,
    "UPDATE mark_source_tables SET gone_us = ?2 WHERE source_id = ?1 AND gone_us IS NULL",
    "sync tables",
};
static const struct db_statement put_table = {
    DB_WRITE,
    "INSERT INTO mark_source_tables (source_id, name, info, synced_us) VALUES (?1, ?2, ?3, ?4) "
    "ON CONFLICT (source_id, name) DO UPDATE SET info = excluded.info, "
    "synced_us = excluded.synced_us, gone_us = NULL",
    "sync tables",
};
static const struct db_statement forget_tables = {
    DB_WRITE,
    "DELETE FROM mark_source_tables WHERE source_id = ?1 AND gone_us IS NOT NULL "
    "AND notes IS NULL",
    "sync tables",
};

static int fail_unknown(const char *id, struct gb_err *err)
{
    return gb_fail_plain(err, ENOENT, "no source '%s'", id);
}

static int fail_stale(struct gb_err *err)
{
    return gb_fail_plain(err, ESTALE, "somebody else has changed it meanwhile");
}

/* ---- checks ---- */

static int check_text(const char *text, size_t size, const char *what, struct gb_err *err)
{
    size_t len = text ? strnlen(text, size) : 0;

    if (len == size)
        return gb_fail_plain(err, EINVAL, "%s has more than %zu bytes", what, size - 1);
    if (text && !utf8_valid(text, len))
        return gb_fail_plain(err, EINVAL, "%s: not UTF-8", what);
    return 0;
}

static int check_name(const char *name, struct gb_err *err)
{
    size_t len = strnlen(name, STORE_SOURCE_NAME_MAX);

    if (len < 1 || len >= STORE_SOURCE_NAME_MAX || name[0] < 'a' || name[0] > 'z' ||
        strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_") != len)
        return gb_fail_plain(err, EINVAL, "a source's name must be 1 to %d of a-z, 0-9 and _",
                             STORE_SOURCE_NAME_MAX - 1);
    return 0;
}

static int check_source(const struct store_source *source, struct gb_err *err)
{
    int r = store_check_id(source->id, err);

    if (r == 0)
        r = check_name(source->name, err);
    if (r == 0 && !source->settings)
        r = gb_fail_plain(err, EINVAL, "a source without settings");
    if (r == 0)
        r = check_text(source->settings, STORE_SETTINGS_MAX + 1, "the settings of a source", err);
    if (r == 0)
        r = check_text(source->secret, STORE_SECRET_MAX + 1, "the secret of a source", err);
    if (r == 0)
        r = check_text(source->notes, STORE_NOTES_MAX + 1, "the notes of a source", err);
    return r;
}

static int check_access(const struct store_access *access, size_t len, struct gb_err *err)
{
    int r = 0;

    if (len > STORE_ACCESS_MAX)
        return gb_fail_plain(err, EINVAL, "at most %d may be named for a source", STORE_ACCESS_MAX);
    for (size_t i = 0; r == 0 && i < len; i++) {
        r = check_text(access[i].who, sizeof access[i].who, "who may use a source", err);
        if (r == 0 && !access[i].who[0])
            r = gb_fail_plain(err, EINVAL, "nobody is named in a row of access");
        if (r == 0)
            r = check_text(access[i].role, sizeof access[i].role, "a role", err);
        if (r == 0)
            r = check_text(access[i].login, sizeof access[i].login, "a login", err);
        if (r == 0)
            r = check_text(access[i].secret, STORE_SECRET_MAX + 1, "a secret", err);
    }
    return r;
}

/* ---- sources ---- */

void store_source_release(struct store_source *source)
{
    free(source->settings);
    free(source->secret);
    free(source->notes);
    free(source->sync_error);
    source->settings = source->secret = source->notes = source->sync_error = NULL;
}

void store_sources_free(struct store_source *sources, size_t len)
{
    for (size_t i = 0; sources && i < len; i++)
        store_source_release(&sources[i]);
    free(sources);
}

/* In a transaction. */
static int access_put(struct db *db, const char *id, const struct store_access *access, size_t len,
                      struct gb_err *err)
{
    int r = 0;

    for (size_t i = 0; r >= 0 && i < len; i++)
        r = db_run(db, err, &add_access, "ttTTt", id, access[i].who, access[i].role,
                   access[i].login, access[i].secret);
    return r < 0 ? r : 0;
}

/* In a transaction: whether there may be one more. */
static int check_share(struct db *db, struct gb_err *err)
{
    struct db_query q = db_query_begin(db, &count_sources, "");
    int64_t count = 0;
    int r = db_query_step(&q, err);

    if (r >= 0 && (r == 0 || !db_column_int(&q, 0, &count)))
        r = db_fail_row(&q, err);
    db_query_end(&q);
    if (r >= 0 && count >= STORE_SOURCES_MAX)
        r = gb_fail_plain(err, EDQUOT, "there are %d sources", STORE_SOURCES_MAX);
    return r < 0 ? r : 0;
}

int store_source_add(struct store *store, const struct store_source *source,
                     const struct store_access *access, size_t access_len, struct gb_err *err)
{
    struct db *db = store->db;
    int r = check_source(source, err);

    if (r == 0)
        r = check_access(access, access_len, err);
    if (r == 0)
        r = db_write_begin(db, true, err);
    if (r < 0)
        return r;
    r = check_share(db, err);
    if (r == 0)
        r = db_run(db, err, &add_source, "tttttttiiI", source->id, source->name, source->kind,
                   source->settings, source->secret, source->notes, source->sync_error,
                   source->created_us, source->updated_us, source->synced_us, (int64_t) 0);
    if (r >= 0)
        r = access_put(db, source->id, access, access_len, err);
    r = db_write_end(db, r, err);
    return r < 0 ? r : 0;
}

static int source_read(struct db_query *q, struct store_source *ret_source, struct gb_err *err)
{
    struct store_source source = { 0 };
    int r;

    if (!db_column_copy(q, 0, source.id, sizeof source.id) ||
        !db_column_copy(q, 1, source.name, sizeof source.name) ||
        !db_column_copy(q, 2, source.kind, sizeof source.kind) ||
        !db_column_int(q, 7, &source.created_us) || !db_column_int(q, 8, &source.updated_us))
        return db_fail_row(q, err);
    source.synced_us = db_column_optional(q, 9, 0);
    r = db_column_dup(q, 3, STORE_SETTINGS_MAX, &source.settings);
    if (r == 0 && !source.settings)
        r = -EUCLEAN;
    if (r == 0)
        r = db_column_dup(q, 4, STORE_SECRET_MAX, &source.secret);
    if (r == 0)
        r = db_column_dup(q, 5, STORE_NOTES_MAX, &source.notes);
    if (r == 0)
        r = db_column_dup(q, 6, STORE_SYNC_ERROR_MAX, &source.sync_error);
    if (r < 0) {
        store_source_release(&source);
        return r == -ENOMEM ? gb_fail(err, ENOMEM, "read a source") : db_fail_row(q, err);
    }
    *ret_source = source;
    return 0;
}

int store_source_get(struct store *store, const char *id_or_name, struct store_source *ret_source,
                     struct gb_err *err)
{
    int r = store_check_id(id_or_name, err);
    struct db_query q;

    if (r < 0)
        return r;
    db_read_begin(store->db);
    q = db_query_begin(store->db, &get_source, "t", id_or_name);
    r = db_query_step(&q, err);
    if (r == 0)
        r = fail_unknown(id_or_name, err);
    else if (r > 0)
        r = source_read(&q, ret_source, err);
    db_query_end(&q);
    db_read_end(store->db);
    return r < 0 ? r : 0;
}

int store_source_list(struct store *store, struct store_source **ret_sources, size_t *ret_len,
                      struct gb_err *err)
{
    struct store_source *sources = NULL;
    struct db_query q;
    size_t len = 0;
    int r;

    db_read_begin(store->db);
    q = db_query_begin(store->db, &list_sources, "");
    while ((r = db_query_step(&q, err)) > 0) {
        r = db_grow(&sources, len, sizeof *sources) < 0 ? gb_fail(err, ENOMEM, "list sources")
                                                        : source_read(&q, &sources[len], err);
        if (r < 0)
            break;
        len++;
    }
    db_query_end(&q);
    db_read_end(store->db);
    if (r < 0) {
        store_sources_free(sources, len);
        return r;
    }
    *ret_sources = sources;
    *ret_len = len;
    return 0;
}

/* In a transaction: 1 if @q, which it ends, has a row; 0 if not. */
static int exists(struct db_query q, struct gb_err *err)
{
    int r = db_query_step(&q, err);

    db_query_end(&q);
    return r;
}

int store_source_update(struct store *store, const struct store_source *source, int64_t before_us,
                        const struct store_access *access, size_t access_len, struct gb_err *err)
{
    struct db *db = store->db;
    int64_t now_us =
        source->updated_us > before_us ? source->updated_us : before_us + 1; /* a new version */
    int r = check_source(source, err);

    if (r == 0)
        r = check_access(access, access_len, err);
    if (r == 0)
        r = db_write_begin(db, true, err);
    if (r < 0)
        return r;
    r = db_run(db, err, &update_source, "tttttii", source->id, source->name, source->settings,
               source->secret, source->notes, now_us, before_us);
    if (r == 0) {
        r = exists(db_query_begin(db, &has_source, "t", source->id), err);
        if (r >= 0)
            r = r == 0 ? fail_unknown(source->id, err) : fail_stale(err);
    }
    if (r >= 0 && access)
        r = db_run(db, err, &clear_access, "t", source->id);
    if (r >= 0 && access)
        r = access_put(db, source->id, access, access_len, err);
    r = db_write_end(db, r, err);
    return r < 0 ? r : 0;
}

int store_source_synced(struct store *store, const char *id, int64_t now_us, const char *error,
                        struct gb_err *err)
{
    int r = store_check_id(id, err);

    if (r == 0)
        r = check_text(error, STORE_SYNC_ERROR_MAX + 1, "the error of a sync", err);
    if (r < 0)
        return r;
    r = db_write(store->db, true, err, &sync_source, "tit", id, now_us, error);
    return r == 0 ? fail_unknown(id, err) : r < 0 ? r : 0;
}

int store_source_delete(struct store *store, const char *id, struct gb_err *err)
{
    int r = store_check_id(id, err);

    if (r < 0)
        return r;
    r = db_write(store->db, true, err, &delete_source, "t", id);
    return r == 0 ? fail_unknown(id, err) : r < 0 ? r : 0;
}

/* ---- who may use it ---- */

void store_access_free(struct store_access *access, size_t len)
{
    for (size_t i = 0; access && i < len; i++)
        free(access[i].secret);
    free(access);
}

static int access_read(struct db_query *q, struct store_access *ret_access, struct gb_err *err)
{
    struct store_access access = { 0 };
    int r;

    if (!db_column_copy(q, 0, access.who, sizeof access.who) ||
        !db_column_copy_optional(q, 1, access.role, sizeof access.role) ||
        !db_column_copy_optional(q, 2, access.login, sizeof access.login))
        return db_fail_row(q, err);
    r = db_column_dup(q, 3, STORE_SECRET_MAX, &access.secret);
    if (r < 0)
        return r == -ENOMEM ? gb_fail(err, ENOMEM, "read who may use a source")
                            : db_fail_row(q, err);
    *ret_access = access;
    return 0;
}

int store_access_list(struct store *store, const char *source_id, struct store_access **ret_access,
                      size_t *ret_len, struct gb_err *err)
{
    struct store_access *access = NULL;
    int r = store_check_id(source_id, err);
    struct db_query q;
    size_t len = 0;

    if (r < 0)
        return r;
    db_read_begin(store->db);
    q = db_query_begin(store->db, &list_access, "t", source_id);
    while ((r = db_query_step(&q, err)) > 0) {
        r = db_grow(&access, len, sizeof *access) < 0
                ? gb_fail(err, ENOMEM, "read who may use a source")
                : access_read(&q, &access[len], err);
        if (r < 0)
            break;
        len++;
    }
    db_query_end(&q);
    db_read_end(store->db);
    if (r < 0) {
        store_access_free(access, len);
        return r;
    }
    *ret_access = access;
    *ret_len = len;
    return 0;
}

/* ---- its tables ---- */

void store_table_release(struct store_table *table)
{
    free(table->info);
    free(table->notes);
    table->info = table->notes = NULL;
}

void store_tables_free(struct store_table *tables, size_t len)
{
    for (size_t i = 0; tables && i < len; i++)
        store_table_release(&tables[i]);
    free(tables);
}

static int table_read(struct db_query *q, struct store_table *ret_table, struct gb_err *err)
{
    struct store_table table = { 0 };
    int r;

    if (!db_column_copy(q, 0, table.name, sizeof table.name) ||
        !db_column_int(q, 3, &table.synced_us))
        return db_fail_row(q, err);
    table.gone_us = db_column_optional(q, 4, 0);
    r = db_column_dup(q, 1, STORE_INFO_MAX, &table.info);
    if (r == 0 && !table.info)
        r = -EUCLEAN;
    if (r == 0)
        r = db_column_dup(q, 2, STORE_NOTES_MAX, &table.notes);
    if (r < 0) {
        store_table_release(&table);
        return r == -ENOMEM ? gb_fail(err, ENOMEM, "read a table") : db_fail_row(q, err);
    }
    *ret_table = table;
    return 0;
}

static int tables_list(struct store *store, const struct db_statement *statement,
                       const char *source_id, struct store_table **ret_tables, size_t *ret_len,
                       struct gb_err *err)
{
    struct store_table *tables = NULL;
    int r = store_check_id(source_id, err);
    struct db_query q;
    size_t len = 0;

    if (r < 0)
        return r;
    db_read_begin(store->db);
    q = db_query_begin(store->db, statement, "t", source_id);
    while ((r = db_query_step(&q, err)) > 0) {
        r = db_grow(&tables, len, sizeof *tables) < 0 ? gb_fail(err, ENOMEM, "list tables")
                                                      : table_read(&q, &tables[len], err);
        if (r < 0)
            break;
        len++;
    }
    db_query_end(&q);
    db_read_end(store->db);
    if (r < 0) {
        store_tables_free(tables, len);
        return r;
    }
    *ret_tables = tables;
    *ret_len = len;
    return 0;
}

int store_table_list(struct store *store, const char *source_id, bool gone_too,
                     struct store_table **ret_tables, size_t *ret_len, struct gb_err *err)
{
    return tables_list(store, &list_tables[gone_too], source_id, ret_tables, ret_len, err);
}

int store_table_noted(struct store *store, const char *source_id, struct store_table **ret_tables,
                      size_t *ret_len, struct gb_err *err)
{
    return tables_list(store, &noted_tables, source_id, ret_tables, ret_len, err);
}

int store_table_count(struct store *store, const char *source_id, int64_t *ret_count,
                      struct gb_err *err)
{
    int r = store_check_id(source_id, err);
    struct db_query q;

    if (r < 0)
        return r;
    db_read_begin(store->db);
    q = db_query_begin(store->db, &count_tables, "t", source_id);
    r = db_query_step(&q, err);
    if (r >= 0 && (r == 0 || !db_column_int(&q, 0, ret_count)))
        r = db_fail_row(&q, err);
    db_query_end(&q);
    db_read_end(store->db);
    return r < 0 ? r : 0;
}

int store_table_get(struct store *store, const char *source_id, const char *name,
                    struct store_table *ret_table, struct gb_err *err)
{
    int r = store_check_id(source_id, err);
    struct db_query q;

    if (r == 0)
        r = check_text(name, STORE_TABLE_NAME_MAX, "the name of a table", err);
    if (r < 0)
        return r;
    db_read_begin(store->db);
    q = db_query_begin(store->db, &get_table, "tt", source_id, name);
    r = db_query_step(&q, err);
    if (r == 0)
        r = gb_fail_plain(err, ENOENT, "no such table");
    else if (r > 0)
        r = table_read(&q, ret_table, err);
    db_query_end(&q);
    db_read_end(store->db);
    return r < 0 ? r : 0;
}

static int check_tables(const struct store_table *tables, size_t len, struct gb_err *err)
{
    int r = 0;

    if (len > STORE_TABLES_MAX)
        return gb_fail_plain(err, EINVAL, "a source can have at most %d tables", STORE_TABLES_MAX);
    for (size_t i = 0; r == 0 && i < len; i++) {
        r = check_text(tables[i].name, sizeof tables[i].name, "the name of a table", err);
        if (r == 0 && (!tables[i].name[0] || !tables[i].info))
            r = gb_fail_plain(err, EINVAL, "a table without a name or description");
        if (r == 0)
            r = check_text(tables[i].info, STORE_INFO_MAX + 1, "the description of a table", err);
    }
    return r;
}

int store_table_sync(struct store *store, const char *source_id, const struct store_table *tables,
                     size_t len, int64_t now_us, struct gb_err *err)
{
    struct db *db = store->db;
    int r = store_check_id(source_id, err);

    if (r == 0)
        r = check_tables(tables, len, err);
    if (r == 0)
        r = db_write_begin(db, true, err);
    if (r < 0)
        return r;
    r = exists(db_query_begin(db, &has_source, "t", source_id), err);
    if (r == 0)
        r = fail_unknown(source_id, err);
    if (r >= 0)
        r = db_run(db, err, &leave_tables, "ti", source_id, now_us);
    for (size_t i = 0; r >= 0 && i < len; i++)
        r = db_run(db, err, &put_table, "ttti", source_id, tables[i].name, tables[i].info, now_us);
    if (r >= 0)
        r = db_run(db, err, &forget_tables, "t", source_id);
    r = db_write_end(db, r, err);
    return r < 0 ? r : 0;
}

int store_table_set_notes(struct store *store, const char *source_id, const char *name,
                          const char *before, const char *notes, const char *info,
                          struct gb_err *err)
{
    struct db *db = store->db;
    int r = store_check_id(source_id, err);

    if (r == 0)
        r = check_text(name, STORE_TABLE_NAME_MAX, "the name of a table", err);
    if (r == 0)
        r = check_text(notes, STORE_NOTES_MAX + 1, "the notes of a table", err);
    if (r == 0)
        r = check_text(info, STORE_INFO_MAX + 1, "the description of a table", err);
    if (r == 0)
        r = db_write_begin(db, true, err);
    if (r < 0)
        return r;
    r = db_run(db, err, &set_notes, "ttttt", source_id, name, notes, before ? before : "", info);
    if (r == 0) {
        r = exists(db_query_begin(db, &has_table, "tt", source_id, name), err);
        if (r >= 0)
            r = r == 0 ? gb_fail_plain(err, ENOENT, "no such table") : fail_stale(err);
    }
    r = db_write_end(db, r, err);
    return r < 0 ? r : 0;
}
