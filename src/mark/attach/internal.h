/* What the files of this room share. */
#pragma once

#include <pthread.h>
#include <sodium.h>

#include "mark/attach/attachments.h"
#include "mark/attach/sniff.h"

#define BLOB_NAME_MAX (2 * STORE_HASH_BYTES + 1)
#define PROFILE_BYTES ((size_t) 64 * 1024) /* of a profile, as JSON */

/* ---- blobs.c: contents in a directory ---- */

struct blobs {
    int dir_fd;
};

/* Finds or creates mark/files in @data_dir. */
int blobs_open(const char *data_dir, struct blobs *ret_blobs, struct gb_err *err);
void blobs_close(struct blobs *blobs);

/* A content that is being written, under a temporary name. */
struct blob_draft {
    int fd; /* also holds a lock, by which blobs_sweep() knows that it is in use */
    char name[BLOB_NAME_MAX];
    int64_t size;
    crypto_hash_sha256_state state;
};

int blob_draft_begin(struct blobs *blobs, struct blob_draft *ret_draft, struct gb_err *err);
int blob_draft_write(struct blob_draft *draft, const void *data, size_t len, struct gb_err *err);
/* Fills @ret_hash once all is written, and waits until it is on the disk. */
int blob_draft_end(struct blob_draft *draft, uint8_t ret_hash[STORE_HASH_BYTES],
                   struct gb_err *err);
/* Removes the temporary name, unless blob_keep() has taken it, and closes. */
void blob_draft_release(struct blobs *blobs, struct blob_draft *draft);

/* A lock against all who keep or remove contents, in any process: between blobs_lock() and
 * closing the descriptor a content that somebody has in the store cannot vanish, and one that
 * nobody has cannot be taken into use. */
int blobs_lock(struct blobs *blobs, int *ret_fd, struct gb_err *err);
/* Both with the lock. A content that is there already stays. */
int blob_keep(struct blobs *blobs, struct blob_draft *draft, const uint8_t hash[STORE_HASH_BYTES],
              struct gb_err *err);
void blob_remove(struct blobs *blobs, const uint8_t hash[STORE_HASH_BYTES]);

int blob_open(struct blobs *blobs, const uint8_t hash[STORE_HASH_BYTES], int *ret_fd,
              struct gb_err *err);
/* Removes the contents that @store does not have, and drafts that nobody writes any more. */
int blobs_sweep(struct blobs *blobs, struct store *store, struct gb_err *err);

/* ---- the attachments ---- */

struct attachments {
    struct attachments_config config;
    struct blobs blobs;
    pthread_mutex_t lock;              /* guards the rest */
    pthread_cond_t profiled;           /* a box of profiles has ended */
    struct attachment_upload *uploads; /* under way */
    size_t profiles;                   /* boxes that compute one */
    struct profiling *profiling;       /* who has them */
};

/* ---- profile.c ---- */

/* The profile of the file in @fd, as JSON text for free(); one that fails says why. NULL: out of
 * memory. Waits for a box. */
char *profile_compute(struct attachments *attachments, const struct caller *caller, int fd,
                      const struct sniffed *sniffed, int64_t size);

/* ---- profile_check.c ---- */

/* What a box said about a file of @format, whoever may have written it, as a profile within its
 * bounds, for free(). NULL: out of memory. */
char *profile_check(const char *text, size_t len, const char *format);
/* A profile that has a reason instead of content. */
char *profile_error(const char *format, const char *reason);

/* All bytes that one owner may keep. */
int64_t attachments_owner_most(const struct attachments *a, const struct caller *caller);
