/*
 * Files that the programs of an answer wrote are kept with the answer, because its session ends
 * before the person comes back to it. They are copied at the end, so it is their last state that
 * the answer shows; what is too large, or more than the owner may have, stays in the session only.
 */
#include <string.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "mark/agent/work.h"

#include "base/banned.h"

#define FILE_MAX   (INT64_C(32) * 1024 * 1024)
#define ANSWER_MAX (INT64_C(128) * 1024 * 1024) /* of all files of one answer */

/* Its size, or negative. */
static int64_t keep(struct work *work, size_t n, const json_t *artifact, int64_t room)
{
    const json_t *name = json_object_get(artifact, "name");
    struct store_artifact kept = { .n = (int64_t) n, .name = (char *) json_string_value(name) };
    struct file_reader reader;
    struct fault ignored;
    struct gb_err err;
    int r;

    memcpy(kept.message_id, work->answer->message_id, sizeof kept.message_id);
    (void) snprintf(kept.owner, sizeof kept.owner, "%s",
                    principal_text(&work->answer->caller.principal));
    if (files_open(work->cells.session, kept.name, json_string_length(name), &reader, &ignored) < 0)
        return -1;
    r = artifact_keep(work->agent->config.attachments, &kept, reader.fd,
                      room < FILE_MAX ? room : FILE_MAX, &work->answer->caller, &err);
    (void) close(reader.fd);
    return r < 0 ? r : kept.size;
}

static void set_url(struct work *work, size_t n, json_t *artifact)
{
    char url[128];

    (void) snprintf(url, sizeof url, "/api/v1/messages/%s/artifacts/%zu", work->answer->message_id,
                    n);
    (void) pthread_mutex_lock(&work->answer->lock);
    (void) json_object_set_new(artifact, "kept_url", json_string(url));
    (void) pthread_mutex_unlock(&work->answer->lock);
}

void artifacts_keep(struct work *work)
{
    int64_t room = ANSWER_MAX;
    size_t i, lost = 0;
    json_t *artifact;

    json_array_foreach (work->answer->gathered.artifacts, i, artifact) {
        int64_t size = work->cells.session ? keep(work, i + 1, artifact, room) : -1;

        if (size < 0) {
            lost++;
            continue;
        }
        room -= size;
        set_url(work, i + 1, artifact);
    }
    if (lost > 0)
        work_notice(work,
                    "%zu file%s could not be kept with this answer: too large, deleted again, or "
                    "more than you may have. Download %s while the session of the chat lives.",
                    lost, lost == 1 ? "" : "s", lost == 1 ? "it" : "them");
}
