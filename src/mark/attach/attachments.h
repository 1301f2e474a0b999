/*
 * Attachments: files that people give to Mark.
 *
 * A file is written to a temporary name while its hash is computed, then kept under that hash, once
 * for each content (blobs.c). Its type is sniffed from its bytes, never believed from its name or
 * the client. A profile of it is computed in a throw-away box (profile.c, profile.py): what the
 * columns are, where values are missing, which dates and numbers it has. Person and model see the
 * same profile.
 */
#pragma once

#include "service/service.h"
#include "store/artifacts.h"
#include "store/attachments.h"

struct attachments;

struct attachments_config {
    struct service *service; /* NULL: no profiles */
    struct store *store;
    const char *data_dir;                     /* files are in mark/files/ */
    int64_t file_bytes_max;                   /* of one; 0: 100 MiB */
    int64_t owner_bytes_max, owner_count_max; /* of one owner; 0: 1 GiB, 1000 */
};

int attachments_open(const struct attachments_config *config, struct attachments **ret_attachments,
                     struct gb_err *err);
void attachments_close(struct attachments *attachments); /* accepts NULL */

/* An upload: begin, write, then commit or abort. @name is the client's; a safe one is made of it.
 */
struct attachment_upload;
int attachment_upload_begin(struct attachments *attachments, const struct caller *caller,
                            const char *name, int64_t expected,
                            struct attachment_upload **ret_upload, struct fault *fault);
int attachment_upload_write(struct attachment_upload *upload, const void *data, size_t len,
                            struct fault *fault);
/* Frees it, even on failure. Computes the profile, and waits for it; a profile that fails is
 * {"error": "..."} and no fault. The caller releases *@ret. */
int attachment_upload_commit(struct attachment_upload *upload, struct store_attachment *ret,
                             struct fault *fault);
void attachment_upload_abort(struct attachment_upload *upload); /* accepts NULL */

/* {attachment_id, name, size, media_type, sha256, profile, created}. The profile is null while it
 * is computed. NULL: out of memory. */
json_t *attachment_to_json(const struct store_attachment *attachment);

int attachment_get(struct attachments *attachments, const struct caller *caller, const char *id,
                   struct store_attachment *ret, struct fault *fault);
/* {"attachments": [...], "count", "bytes", "count_max", "bytes_max"}: all of the caller's, oldest
 * first, without their profiles. */
int attachment_list(struct attachments *attachments, const struct caller *caller, json_t **ret_json,
                    struct fault *fault);
/* Its bytes, open for reading; also by hash, for recheck of an answer whose attachment was
 * deleted meanwhile: then -ENOENT. */
int attachment_open(struct attachments *attachments, const uint8_t sha256[STORE_HASH_BYTES],
                    int *ret_fd, struct gb_err *err);
int attachment_delete(struct attachments *attachments, const struct caller *caller, const char *id,
                      struct fault *fault);
/* While the descriptor is open no file goes, in any process: for whoever takes a kept one into use,
 * as a verified answer does. */
int attachments_lock(struct attachments *attachments, int *ret_fd, struct gb_err *err);
/* Somebody no longer needs that file: it goes unless another does. */
void attachment_drop(struct attachments *attachments, const uint8_t sha256[STORE_HASH_BYTES]);
/* Removes files that nobody has any more; after the deletion of an account, and at start. */
int attachments_sweep(struct attachments *attachments, struct gb_err *err);

/* ---- files of answers (artifacts.c) ---- */

/* Keeps what @fd has, from where it is, as the file @artifact of an answer: its ids, n and name are
 * set; size, hash and time become so. -E2BIG: more than @max bytes; -EDQUOT: with the owner's
 * attachments more than they may take. */
int artifact_keep(struct attachments *attachments, struct store_artifact *artifact, int fd,
                  int64_t max, const struct caller *caller, struct gb_err *err);
/* File @n of an answer of the caller; release it, and close the descriptor. */
int artifact_open(struct attachments *attachments, const struct caller *caller,
                  const char *message_id, int64_t n, struct store_artifact *ret_artifact,
                  int *ret_fd, struct fault *fault);
/* After answers were deleted: @len contents, as of store_artifact_of_chat(), go unless somebody
 * has them. */
void artifacts_drop(struct attachments *attachments, const uint8_t *hashes, size_t len);

/* The profile as a short text for a model, at most @max bytes; NULL: out of memory. Names and
 * values in it are data of strangers: control characters are escaped. */
char *attachment_describe(const struct store_attachment *attachment, size_t max);
