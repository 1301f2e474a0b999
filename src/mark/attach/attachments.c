/*
 * Attachments: from an upload to a file that chats can use, and back.
 *
 * An upload counts against its owner's share while it is written (struct attachment_upload is in
 * the list of those under way) and is checked once more, in the transaction that adds it to the
 * store, where two that end at the same time cannot both take the last room. The profile comes
 * after that: a file is an attachment from the moment it is stored, and gets its profile when the
 * box is done. blobs.c says how the bytes are kept.
 */
#include "mark/attach/attachments.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/text/hex.h"
#include "base/text/parse.h"
#include "mark/attach/internal.h"
#include "mark/attach/name.h"
#include "mark/ids.h"

#include "base/banned.h"

#define MIB                   (INT64_C(1) << 20)
#define FILE_BYTES_MAX        (100 * MIB)
#define OWNER_BYTES_MAX       (1024 * MIB)
#define GUEST_BYTES_MAX       (64 * MIB)
#define OWNER_COUNT_MAX       1000
#define UPLOADS_MAX           128 /* under way at one time, */
#define UPLOADS_PER_OWNER_MAX 8   /* and of one owner */
#define CLIENT_NAME_MAX       4096

struct attachment_upload {
    struct attachment_upload *next;
    struct attachments *attachments;
    struct caller caller;
    struct blob_draft draft;
    int64_t stored_bytes; /* what the owner had when it began */
    int64_t written;      /* under the lock */
    char *name;           /* the client's */
};

/* ---- opening ---- */

int attachments_open(const struct attachments_config *config, struct attachments **ret_attachments,
                     struct gb_err *err)
{
    struct attachments *a;
    pthread_condattr_t attr;
    int r;

    if (sodium_init() < 0)
        return gb_fail_plain(err, EIO, "cannot start libsodium");
    a = calloc(1, sizeof *a);
    if (!a)
        return gb_fail(err, ENOMEM, "open the attachments");
    a->config = *config;
    if (a->config.file_bytes_max <= 0)
        a->config.file_bytes_max = FILE_BYTES_MAX;
    if (a->config.owner_bytes_max <= 0)
        a->config.owner_bytes_max = OWNER_BYTES_MAX;
    if (a->config.owner_count_max <= 0)
        a->config.owner_count_max = OWNER_COUNT_MAX;
    r = blobs_open(config->data_dir, &a->blobs, err);
    if (r < 0) {
        free(a);
        return r;
    }
    (void) pthread_mutex_init(&a->lock, NULL); /* these cannot fail on Linux */
    (void) pthread_condattr_init(&attr);
    (void) pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void) pthread_cond_init(&a->profiled, &attr);
    (void) pthread_condattr_destroy(&attr);
    r = blobs_sweep(&a->blobs, a->config.store, err);
    if (r < 0) {
        attachments_close(a);
        return r;
    }
    *ret_attachments = a;
    return 0;
}

void attachments_close(struct attachments *attachments)
{
    if (!attachments)
        return;
    blobs_close(&attachments->blobs);
    (void) pthread_cond_destroy(&attachments->profiled);
    (void) pthread_mutex_destroy(&attachments->lock);
    free(attachments);
}

int attachments_sweep(struct attachments *attachments, struct gb_err *err)
{
    return blobs_sweep(&attachments->blobs, attachments->config.store, err);
}

/* ---- faults ---- */

static int fault_unknown(const char *id, struct fault *fault)
{
    if (!mark_id_valid(id))
        return fault_set(fault, PROBLEM_ATTACHMENT_UNKNOWN, "id",
                         "there is no such attachment; its id is a UUID in lower case");
    return fault_set(fault, PROBLEM_ATTACHMENT_UNKNOWN, "id",
                     "there is no attachment %s of yours; attach the file again", id);
}

static int fault_internal(struct attachments *a, const struct gb_err *err, struct fault *fault)
{
    if (a->config.service)
        service_log(a->config.service, LOG_LEVEL_ERROR, "attachments: %s", err->msg);
    if (err->code == ENOSPC || err->code == EDQUOT)
        return fault_set(fault, PROBLEM_NO_SPACE, NULL,
                         "the host's disk has no room for the file; ask the operator");
    if (err->code == ENOMEM)
        return fault_no_memory(fault);
    return fault_set(fault, PROBLEM_INTERNAL, NULL,
                     "the file could not be stored or read; retry, and if it keeps failing, ask "
                     "the operator to check the server log");
}

static int fault_too_large(const struct attachments *a, struct fault *fault)
{
    char most[FORMAT_NUMBER_MAX];

    format_size(a->config.file_bytes_max, most);
    return fault_set(fault, PROBLEM_ATTACHMENT_TOO_LARGE, "file",
                     "a file can have at most %s here; attach a part of it", most);
}

int64_t attachments_owner_most(const struct attachments *a, const struct caller *caller)
{
    int64_t most = a->config.owner_bytes_max;

    return caller->is_guest && most > GUEST_BYTES_MAX ? GUEST_BYTES_MAX : most;
}

static int fault_quota(const struct attachments *a, const struct caller *caller,
                       struct fault *fault)
{
    char most[FORMAT_NUMBER_MAX];

    format_size(attachments_owner_most(a, caller), most);
    return fault_set(fault, PROBLEM_ATTACHMENTS_QUOTA, "file",
                     "your attachments can be at most %lld files of %s together; delete some that "
                     "you do not need",
                     (long long) a->config.owner_count_max, most);
}

/* ---- uploads ---- */

static bool same_owner(const struct caller *a, const struct caller *b)
{
    return strcmp(principal_text(&a->principal), principal_text(&b->principal)) == 0;
}

/* Both under the lock: what the owner's uploads under way have written, and how many there are. */
static int64_t owner_written(const struct attachment_upload *upload, size_t *ret_count)
{
    int64_t sum = 0;
    size_t count = 0;

    for (const struct attachment_upload *u = upload->attachments->uploads; u; u = u->next)
        if (same_owner(&u->caller, &upload->caller)) {
            sum += u->written;
            count++;
        }
    if (ret_count)
        *ret_count = count;
    return sum;
}

static int upload_enlist(struct attachment_upload *upload, struct fault *fault)
{
    struct attachments *a = upload->attachments;
    size_t all = 0, own;
    int r = 0;

    (void) pthread_mutex_lock(&a->lock);
    for (const struct attachment_upload *u = a->uploads; u; u = u->next)
        all++;
    (void) owner_written(upload, &own);
    if (all >= UPLOADS_MAX || own >= UPLOADS_PER_OWNER_MAX) {
        r = fault_set(fault, PROBLEM_BUSY, NULL,
                      "too many files are being uploaded; wait for some of them");
        fault->retry_after_s = 1;
    } else {
        upload->next = a->uploads;
        a->uploads = upload;
    }
    (void) pthread_mutex_unlock(&a->lock);
    return r;
}

static void upload_delist(struct attachment_upload *upload)
{
    struct attachments *a = upload->attachments;

    (void) pthread_mutex_lock(&a->lock);
    for (struct attachment_upload **u = &a->uploads; *u; u = &(*u)->next)
        if (*u == upload) {
            *u = upload->next;
            break;
        }
    (void) pthread_mutex_unlock(&a->lock);
}

static void upload_drop(struct attachment_upload *upload)
{
    blob_draft_release(&upload->attachments->blobs, &upload->draft);
    free(upload->name);
    free(upload);
}

void attachment_upload_abort(struct attachment_upload *upload)
{
    if (!upload)
        return;
    upload_delist(upload);
    upload_drop(upload);
}

/* Whether the owner may have one more, of @expected bytes. */
static int check_share(struct attachment_upload *upload, int64_t expected, struct fault *fault)
{
    struct attachments *a = upload->attachments;
    int64_t count, most = attachments_owner_most(a, &upload->caller);
    struct gb_err err;

    if (expected > a->config.file_bytes_max)
        return fault_too_large(a, fault);
    if (store_attachment_sum(a->config.store, principal_text(&upload->caller.principal), &count,
                             &upload->stored_bytes, &err) < 0)
        return fault_internal(a, &err, fault);
    if (count >= a->config.owner_count_max || upload->stored_bytes >= most ||
        expected > most - upload->stored_bytes)
        return fault_quota(a, &upload->caller, fault);
    return 0;
}

int attachment_upload_begin(struct attachments *attachments, const struct caller *caller,
                            const char *name, int64_t expected,
                            struct attachment_upload **ret_upload, struct fault *fault)
{
    struct attachment_upload *upload = calloc(1, sizeof *upload);
    struct gb_err err;

    if (!upload)
        return fault_no_memory(fault);
    upload->attachments = attachments;
    upload->caller = *caller;
    upload->draft.fd = -EBADF;
    upload->name = strndup(name ? name : "", CLIENT_NAME_MAX);
    if (!upload->name) {
        upload_drop(upload);
        return fault_no_memory(fault);
    }
    if (check_share(upload, expected, fault) < 0 || upload_enlist(upload, fault) < 0) {
        upload_drop(upload);
        return -1;
    }
    if (blob_draft_begin(&attachments->blobs, &upload->draft, &err) < 0) {
        upload->draft.fd = -EBADF;
        attachment_upload_abort(upload);
        return fault_internal(attachments, &err, fault);
    }
    *ret_upload = upload;
    return 0;
}

int attachment_upload_write(struct attachment_upload *upload, const void *data, size_t len,
                            struct fault *fault)
{
    struct attachments *a = upload->attachments;
    struct gb_err err;
    int64_t written;

    if ((int64_t) len > a->config.file_bytes_max - upload->draft.size)
        return fault_too_large(a, fault);
    (void) pthread_mutex_lock(&a->lock);
    upload->written += (int64_t) len;
    written = owner_written(upload, NULL);
    (void) pthread_mutex_unlock(&a->lock);
    if (written > attachments_owner_most(a, &upload->caller) - upload->stored_bytes)
        return fault_quota(a, &upload->caller, fault);
    if (blob_draft_write(&upload->draft, data, len, &err) < 0)
        return fault_internal(a, &err, fault);
    return 0;
}

/* Looks at both ends of the file. */
static int upload_sniff(struct attachment_upload *upload, struct sniffed *ret_sniffed,
                        struct fault *fault)
{
    autofree char *head = malloc(SNIFF_HEAD_BYTES), *tail = malloc(SNIFF_TAIL_BYTES);
    int64_t size = upload->draft.size, at;
    ssize_t head_len, tail_len;
    struct gb_err err;

    if (!head || !tail)
        return fault_no_memory(fault);
    at = size > (int64_t) SNIFF_TAIL_BYTES ? size - (int64_t) SNIFF_TAIL_BYTES : 0;
    head_len = pread(upload->draft.fd, head, SNIFF_HEAD_BYTES, 0);
    tail_len = pread(upload->draft.fd, tail, SNIFF_TAIL_BYTES, at);
    if (head_len < 0 || tail_len < 0) {
        (void) gb_fail(&err, errno, "read an attachment");
        return fault_internal(upload->attachments, &err, fault);
    }
    *ret_sniffed = sniff(head, (size_t) head_len, tail, (size_t) tail_len, size, upload->name);
    if (ret_sniffed->kind == SNIFF_REFUSED)
        return fault_set(fault, PROBLEM_ATTACHMENT_TYPE, "file", "this is a file of type %s: %s",
                         ret_sniffed->media_type, ret_sniffed->refusal);
    return 0;
}

/* Stores it: the row, and the bytes under their hash. */
static int upload_store(struct attachment_upload *upload, struct store_attachment *attachment,
                        struct fault *fault)
{
    struct attachments *a = upload->attachments;
    autoclose int lock_fd = -EBADF;
    struct gb_err err;
    bool used = true;
    int r = blob_draft_end(&upload->draft, attachment->sha256, &err);

    if (r == 0)
        r = blobs_lock(&a->blobs, &lock_fd, &err);
    if (r == 0)
        r = blob_keep(&a->blobs, &upload->draft, attachment->sha256, &err);
    if (r < 0)
        return fault_internal(a, &err, fault);
    r = store_attachment_add(a->config.store, attachment, a->config.owner_count_max,
                             attachments_owner_most(a, &upload->caller), &err);
    if (r == 0)
        return 0;
    if (store_attachment_has(a->config.store, attachment->sha256, &used, NULL) == 0 && !used)
        blob_remove(&a->blobs, attachment->sha256);
    return r == -EDQUOT ? fault_quota(a, &upload->caller, fault) : fault_internal(a, &err, fault);
}

static void upload_describe(struct attachment_upload *upload, const struct sniffed *sniffed,
                            struct store_attachment *ret)
{
    *ret = (struct store_attachment){ .size = upload->draft.size, .created_us = clock_wall_us() };
    mark_id_make(ret->id);
    attach_name_make(upload->name, strlen(upload->name), sniffed->extension, ret->name);
    (void) snprintf(ret->owner, sizeof ret->owner, "%s", principal_text(&upload->caller.principal));
    (void) snprintf(ret->media_type, sizeof ret->media_type, "%s", sniffed->media_type);
}

int attachment_upload_commit(struct attachment_upload *upload, struct store_attachment *ret,
                             struct fault *fault)
{
    struct attachments *a = upload->attachments;
    struct store_attachment attachment;
    struct sniffed sniffed = { 0 };
    int r = upload_sniff(upload, &sniffed, fault);

    if (r == 0) {
        upload_describe(upload, &sniffed, &attachment);
        r = upload_store(upload, &attachment, fault);
    }
    upload_delist(upload);
    if (r == 0) {
        /* By the descriptor of the draft: the file may be deleted at any time from now on. */
        attachment.profile =
            profile_compute(a, &upload->caller, upload->draft.fd, &sniffed, attachment.size);
        if (attachment.profile)
            (void) store_attachment_set_profile(a->config.store, attachment.owner, attachment.id,
                                                attachment.profile, NULL);
        *ret = attachment;
    }
    upload_drop(upload);
    return r;
}

/* ---- attachments ---- */

json_t *attachment_to_json(const struct store_attachment *attachment)
{
    char hash[2 * STORE_HASH_BYTES + 1] = "", created[FORMAT_UTC_MAX];
    json_t *profile = attachment->profile ? json_loads(attachment->profile, 0, NULL) : json_null();

    for (size_t i = 0; i < STORE_HASH_BYTES; i++)
        hex_put(attachment->sha256[i], hash + 2 * i);
    format_utc(attachment->created_us, created);
    return json_pack("{s:s,s:s,s:I,s:s,s:s,s:s,s:o}", "attachment_id", attachment->id, "name",
                     attachment->name, "size", (json_int_t) attachment->size, "media_type",
                     attachment->media_type, "sha256", hash, "created", created, "profile",
                     profile ? profile : json_null());
}

int attachment_get(struct attachments *attachments, const struct caller *caller, const char *id,
                   struct store_attachment *ret, struct fault *fault)
{
    struct gb_err err;
    int r;

    if (!mark_id_valid(id))
        return fault_unknown(id, fault);
    r = store_attachment_get(attachments->config.store, principal_text(&caller->principal), id, ret,
                             &err);
    if (r == -ENOENT)
        return fault_unknown(id, fault);
    return r < 0 ? fault_internal(attachments, &err, fault) : 0;
}

int attachment_list(struct attachments *attachments, const struct caller *caller, json_t **ret_json,
                    struct fault *fault)
{
    struct store_attachment *items;
    json_t *list, *json;
    int64_t bytes = 0;
    struct gb_err err;
    size_t len;

    if (store_attachment_list(attachments->config.store, principal_text(&caller->principal), &items,
                              &len, &err) < 0)
        return fault_internal(attachments, &err, fault);
    list = json_array();
    for (size_t i = 0; i < len; i++) {
        json_t *item = attachment_to_json(&items[i]);

        bytes += items[i].size;
        (void) json_object_del(item, "profile");
        if (json_array_append_new(list, item) < 0) {
            json_decref(list);
            list = NULL;
            break;
        }
    }
    store_attachments_free(items, len);
    json =
        json_pack("{s:o,s:I,s:I,s:I,s:I}", "attachments", list, "count", (json_int_t) len, "bytes",
                  (json_int_t) bytes, "count_max", (json_int_t) attachments->config.owner_count_max,
                  "bytes_max", (json_int_t) attachments_owner_most(attachments, caller));
    if (!json)
        return fault_no_memory(fault);
    *ret_json = json;
    return 0;
}

int attachment_open(struct attachments *attachments, const uint8_t sha256[STORE_HASH_BYTES],
                    int *ret_fd, struct gb_err *err)
{
    return blob_open(&attachments->blobs, sha256, ret_fd, err);
}

int attachment_delete(struct attachments *attachments, const struct caller *caller, const char *id,
                      struct fault *fault)
{
    struct store *store = attachments->config.store;
    struct store_attachment attachment;
    autoclose int lock_fd = -EBADF;
    struct gb_err err;
    bool used = true;
    int r;

    if (attachment_get(attachments, caller, id, &attachment, fault) < 0)
        return -1;
    store_attachment_release(&attachment);
    r = blobs_lock(&attachments->blobs, &lock_fd, &err);
    if (r == 0)
        r = store_attachment_delete(store, attachment.owner, id, &err);
    if (r == -ENOENT)
        return fault_unknown(id, fault);
    if (r == 0)
        r = store_attachment_has(store, attachment.sha256, &used, &err);
    if (r == 0 && !used)
        blob_remove(&attachments->blobs, attachment.sha256);
    return r < 0 ? fault_internal(attachments, &err, fault) : 0;
}

int attachments_lock(struct attachments *attachments, int *ret_fd, struct gb_err *err)
{
    return blobs_lock(&attachments->blobs, ret_fd, err);
}

void attachment_drop(struct attachments *attachments, const uint8_t sha256[STORE_HASH_BYTES])
{
    autoclose int lock_fd = -EBADF;
    struct gb_err ignored;
    bool used = true;

    if (blobs_lock(&attachments->blobs, &lock_fd, &ignored) == 0 &&
        store_attachment_has(attachments->config.store, sha256, &used, &ignored) == 0 && !used)
        blob_remove(&attachments->blobs, sha256);
}
