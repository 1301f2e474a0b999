/* Data sources of Mark and their catalogues. A source is shared: who may use it says its access. */
#pragma once

#include "store/store.h"

/* Of a name, with its NUL: [a-z][a-z0-9_]*, what code says in mark.query(). */
#define STORE_SOURCE_NAME_MAX 65
#define STORE_SOURCES_MAX     200
#define STORE_TABLES_MAX      5000 /* of one source */
#define STORE_TABLE_NAME_MAX  300  /* UTF-8: "schema.table", "dataset.table" or a path */
#define STORE_INFO_MAX        (1 << 20)
#define STORE_NOTES_MAX       (256 * 1024)
#define STORE_SETTINGS_MAX    (256 * 1024)
#define STORE_SECRET_MAX      (64 * 1024) /* sealed */
#define STORE_SYNC_ERROR_MAX  1000
#define STORE_WHO_MAX         (STORE_ID_MAX + STORE_ID_MAX + 128)
#define STORE_ACCESS_MAX      1000 /* of one source */

struct store_source {
    char id[STORE_ID_MAX]; /* a UUID */
    char name[STORE_SOURCE_NAME_MAX];
    char kind[16];    /* "postgresql", "bigquery", "files" */
    char *settings;   /* JSON object, without secrets */
    char *secret;     /* sealed, or NULL */
    char *notes;      /* JSON object, or NULL */
    char *sync_error; /* or NULL */
    int64_t created_us, updated_us, synced_us;
};

void store_source_release(struct store_source *source);
void store_sources_free(struct store_source *sources, size_t len);

struct store_access;

/* With who may use it. -EEXIST: the name is taken; -EDQUOT: there are STORE_SOURCES_MAX. */
int store_source_add(struct store *store, const struct store_source *source,
                     const struct store_access *access, size_t access_len, struct gb_err *err);
/* By id or by name. -ENOENT, here and below. */
int store_source_get(struct store *store, const char *id_or_name, struct store_source *ret_source,
                     struct gb_err *err);
int store_source_list(struct store *store, struct store_source **ret_sources, size_t *ret_len,
                      struct gb_err *err); /* by name */
/* Sets name, settings, secret, notes and updated_us, and unless @access is NULL who may use it, in
 * one transaction. -ESTALE: its updated_us is no longer @before_us, so somebody else has changed it
 * since it was read. -EEXIST: the name is taken. */
int store_source_update(struct store *store, const struct store_source *source, int64_t before_us,
                        const struct store_access *access, size_t access_len, struct gb_err *err);
/* How a sync ended. @error NULL: well. */
int store_source_synced(struct store *store, const char *id, int64_t now_us, const char *error,
                        struct gb_err *err);
/* With access and catalogue. Kept results of answers stay. */
int store_source_delete(struct store *store, const char *id, struct gb_err *err);

/* ---- who may use it ---- */

struct store_access {
    char who[STORE_WHO_MAX]; /* an email, "key:ID", or "*" */
    char role[STORE_ID_MAX]; /* to SET ROLE to; "": none. Not checked here */
    char login[STORE_ID_MAX];
    char *secret; /* sealed password of the login, or NULL */
};

void store_access_free(struct store_access *access, size_t len);
int store_access_list(struct store *store, const char *source_id, struct store_access **ret_access,
                      size_t *ret_len, struct gb_err *err);

/* ---- its tables ---- */

struct store_table {
    char name[STORE_TABLE_NAME_MAX];
    char *info, *notes; /* JSON objects; notes may be NULL */
    int64_t synced_us, gone_us;
};

void store_tables_free(struct store_table *tables, size_t len);
int store_table_list(struct store *store, const char *source_id, bool gone_too,
                     struct store_table **ret_tables, size_t *ret_len, struct gb_err *err);
/* Those that people wrote about, also if they are gone; without info, which is "{}" here. */
int store_table_noted(struct store *store, const char *source_id, struct store_table **ret_tables,
                      size_t *ret_len, struct gb_err *err);
/* How many there are now. */
int store_table_count(struct store *store, const char *source_id, int64_t *ret_count,
                      struct gb_err *err);
/* Also one that is gone. */
int store_table_get(struct store *store, const char *source_id, const char *name,
                    struct store_table *ret_table, struct gb_err *err);
void store_table_release(struct store_table *table);
/* A sync: the tables that there are now (name and info), in one transaction. Notes stay; a table
 * that is not among them is marked as gone, and forgotten if it has no notes. */
int store_table_sync(struct store *store, const char *source_id, const struct store_table *tables,
                     size_t len, int64_t now_us, struct gb_err *err);
/* Replaces the notes @before (NULL: none) by @notes (NULL: none), and the info unless @info is
 * NULL. -ESTALE: the notes are others by now. */
int store_table_set_notes(struct store *store, const char *source_id, const char *name,
                          const char *before, const char *notes, const char *info,
                          struct gb_err *err);
