/* Opening and closing: the data directory, then the database in it. */
#include "store/store.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/autoclean.h"
#include "store/internal.h"

#include "base/banned.h"

#define FILE_NAME "glovebox.db"

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

int store_check_id(const char *id, struct gb_err *err)
{
    return store_id_valid(id) ? 0 : gb_fail_plain(err, EINVAL, "not a valid id");
}

void store_close(struct store *store)
{
    if (!store)
        return;
    if (store->db)
        store->db->ops->close(store->db);
    gb_closep(&store->lock_fd);
    free(store);
}

/* The directory is locked too: its files belong to one service. */
static int open_postgres(const struct store_config *config, struct store **ret_store,
                         struct gb_err *err)
{
    const struct db_postgres_config database = { config->database, config->database_password_file,
                                                 config->must_exist, config->exclusive };
    __attribute__((cleanup(store_dir_release))) struct store_dir dir = { NULL, -EBADF, -EBADF };
    struct store *store;
    int r = 0;

    if (config->exclusive && config->dir)
        r = store_dir_open(config, &dir, err);
    if (r < 0)
        return r;
    store = calloc(1, sizeof *store);
    if (!store)
        return gb_fail(err, ENOMEM, "open the store");
    store->lock_fd = TAKE_FD(dir.lock_fd);
    r = db_postgres_open(&database, &store->db, err);
    if (r < 0) {
        store_close(store);
        return r;
    }
    *ret_store = store;
    return 0;
}

int store_open(const struct store_config *config, struct store **ret_store, struct gb_err *err)
{
    __attribute__((cleanup(store_dir_release))) struct store_dir dir = { NULL, -EBADF, -EBADF };
    autoclose int guard_fd = -EBADF;
    autofree char *path = NULL;
    struct store *store;
    bool is_served;
    int r;

    if (config->database)
        return open_postgres(config, ret_store, err);
    if (!config->dir || !config->dir[0])
        return gb_fail_plain(err, EINVAL, "no data directory");
    r = store_dir_open(config, &dir, err);
    if (r == 0)
        r = store_dir_check_file(&dir, FILE_NAME, config->must_exist, err);
    if (r < 0)
        return r;
    if (asprintf(&path, "%s/" FILE_NAME, dir.path) < 0) {
        path = NULL;
        return gb_fail(err, ENOMEM, "open the store");
    }
    store = calloc(1, sizeof *store);
    if (!store)
        return gb_fail(err, ENOMEM, "open the store");
    store->lock_fd = TAKE_FD(dir.lock_fd);
    is_served = !config->exclusive && store_dir_is_served(&dir, &guard_fd);
    r = db_sqlite_open(path, is_served, &store->db, err);
    if (r < 0) {
        store_close(store);
        return r;
    }
    *ret_store = store;
    return 0;
}
