/* Files of answers: kept beside those that people attached, and with the same care (blobs.c). */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "mark/attach/internal.h"
#include "mark/ids.h"

#include "base/banned.h"

#define COPY_BYTES ((size_t) 256 * 1024)

/* A program may still write to it: what is read counts. */
static int copy(struct blob_draft *draft, int fd, int64_t max, struct gb_err *err)
{
    autofree char *buf = malloc(COPY_BYTES);

    if (!buf)
        return gb_fail(err, ENOMEM, "copy a file of an answer");
    for (;;) {
        ssize_t len = read(fd, buf, COPY_BYTES);
        int r;

        if (len == 0)
            return 0;
        if (len < 0 && errno == EINTR)
            continue;
        if (len < 0)
            return gb_fail(err, errno, "read a file of an answer");
        if (len > max - draft->size)
            return gb_fail_plain(err, E2BIG, "a file of an answer is too large to be kept");
        r = blob_draft_write(draft, buf, (size_t) len, err);
        if (r < 0)
            return r;
    }
}

int artifact_keep(struct attachments *attachments, struct store_artifact *artifact, int fd,
                  int64_t max, const struct caller *caller, struct gb_err *err)
{
    struct blobs *blobs = &attachments->blobs;
    autoclose int lock_fd = -EBADF;
    struct blob_draft draft;
    int r = blob_draft_begin(blobs, &draft, err);

    if (r < 0)
        return r;
    r = copy(&draft, fd, max, err);
    if (r == 0)
        r = blob_draft_end(&draft, artifact->sha256, err);
    if (r == 0)
        r = blobs_lock(blobs, &lock_fd, err);
    /* First the bytes: those that no row has are removed by the next sweep, if it comes to that. */
    if (r == 0)
        r = blob_keep(blobs, &draft, artifact->sha256, err);
    if (r == 0) {
        bool used = true;
        struct gb_err ignored;

        artifact->size = draft.size;
        artifact->created_us = clock_wall_us();
        r = store_artifact_add(attachments->config.store, artifact,
                               attachments_owner_most(attachments, caller), err);
        if (r < 0 &&
            store_attachment_has(attachments->config.store, artifact->sha256, &used, &ignored) ==
                0 &&
            !used)
            blob_remove(blobs, artifact->sha256);
    }
    blob_draft_release(blobs, &draft);
    return r;
}

int artifact_open(struct attachments *attachments, const struct caller *caller,
                  const char *message_id, int64_t n, struct store_artifact *ret_artifact,
                  int *ret_fd, struct fault *fault)
{
    const char *owner = principal_text(&caller->principal);
    struct gb_err err = { 0 };
    int r = mark_id_valid(message_id) && n > 0
                ? store_artifact_get(attachments->config.store, owner, message_id, n, ret_artifact,
                                     &err)
                : -ENOENT;

    if (r == 0) {
        r = blob_open(&attachments->blobs, ret_artifact->sha256, ret_fd, &err);
        if (r < 0)
            store_artifact_release(ret_artifact);
    }
    if (r == -ENOENT)
        return fault_set(fault, PROBLEM_ATTACHMENT_UNKNOWN, NULL,
                         "there is no such file of an answer of yours; it was deleted, or was not "
                         "kept");
    if (r == -ENOMEM)
        return fault_no_memory(fault);
    return r < 0 ? fault_set(fault, PROBLEM_INTERNAL, NULL, "%s; try again", err.msg) : 0;
}

void artifacts_drop(struct attachments *attachments, const uint8_t *hashes, size_t len)
{
    for (size_t i = 0; i < len; i++)
        attachment_drop(attachments, hashes + i * STORE_HASH_BYTES);
}
