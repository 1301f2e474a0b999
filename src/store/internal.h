/* What the files of the store share. */
#pragma once

#include "store/db.h"
#include "store/store.h"

struct store {
    struct db *db;
    int lock_fd; /* of an exclusive opener, or -EBADF */
};

/* -EINVAL unless @id is a valid id. */
int store_check_id(const char *id, struct gb_err *err);

/* In a transaction: everything of Mark with that owner, and what it shares (chats.c). */
int store_owner_purge(struct db *db, const char *owner, struct gb_err *err);

/* The hashes that @list selects for a chat, its owner and the first message (results.c). */
int store_hashes_of_chat(struct store *store, const struct db_statement *list, const char *owner,
                         const char *chat_id, int64_t from_seq, uint8_t **ret_hashes,
                         size_t *ret_len, struct gb_err *err);

/* ---- the data directory (dir.c) ---- */

struct store_dir {
    char *path;  /* absolute, without links */
    int fd;      /* holds a lock until store_dir_release(): one process opens at a time */
    int lock_fd; /* of an exclusive opener, or -EBADF */
};

/* Finds or creates the directory and refuses one that others own or can write to. */
int store_dir_open(const struct store_config *config, struct store_dir *ret_dir,
                   struct gb_err *err);
void store_dir_release(struct store_dir *dir);

/* Whether another process has it exclusively. If not, none can as long as *@ret_guard_fd is open.
 */
bool store_dir_is_served(const struct store_dir *dir, int *ret_guard_fd);

/* Creates the file (0600) unless @must_exist, and refuses one that others own or can open. */
int store_dir_check_file(const struct store_dir *dir, const char *name, bool must_exist,
                         struct gb_err *err);
