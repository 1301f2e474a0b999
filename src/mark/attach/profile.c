/*
 * Profiles: what is in a file, computed in a throw-away box.
 *
 * A file is hostile, and so are the parsers that it may break: the host looks at magic numbers and
 * at nothing else. The file is copied into a session of its owner, profile.py runs there without a
 * network and within the limits of a session, and the session is deleted. What it printed is not
 * believed either (profile_check.c). A profile that fails never fails the upload.
 *
 * A few boxes compute profiles at a time, and fewer for one owner; others wait their turn.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "mark/attach/internal.h"

#include "base/banned.h"

#define PROFILES_MAX           4
#define PROFILES_PER_OWNER_MAX 2
#define TURN_US                (60 * USEC_PER_SEC) /* how long to wait for one's turn */
#define WALL_US                (30 * USEC_PER_SEC)
#define IDLE_US                (120 * USEC_PER_SEC) /* ends a session that was not deleted */
#define REPLY_BYTES            (256 * 1024)
#define FILE_PATH              "input" /* in the workspace */
#define COPY_BYTES             ((size_t) 256 * 1024)

extern const char profile_program[]; /* profile.py */

struct profiling {
    struct profiling *next;
    const char *owner;
};

/* ---- taking turns ---- */

static bool has_turn(const struct attachments *a, const char *owner)
{
    size_t own = 0;

    for (const struct profiling *p = a->profiling; p; p = p->next)
        own += strcmp(p->owner, owner) == 0;
    return a->profiles < PROFILES_MAX && own < PROFILES_PER_OWNER_MAX;
}

/* Waits until @turn may begin; false if that takes too long. */
static bool turn_begin(struct attachments *a, struct profiling *turn)
{
    int64_t until = clock_now_us() + TURN_US;
    struct timespec ts = { .tv_sec = until / USEC_PER_SEC, .tv_nsec = until % USEC_PER_SEC * 1000 };
    bool got;

    (void) pthread_mutex_lock(&a->lock);
    while (!(got = has_turn(a, turn->owner)))
        if (pthread_cond_timedwait(&a->profiled, &a->lock, &ts) == ETIMEDOUT)
            break;
    if (got) {
        a->profiles++;
        turn->next = a->profiling;
        a->profiling = turn;
    }
    (void) pthread_mutex_unlock(&a->lock);
    return got;
}

static void turn_end(struct attachments *a, struct profiling *turn)
{
    (void) pthread_mutex_lock(&a->lock);
    for (struct profiling **p = &a->profiling; *p; p = &(*p)->next)
        if (*p == turn) {
            *p = turn->next;
            break;
        }
    a->profiles--;
    (void) pthread_cond_broadcast(&a->profiled);
    (void) pthread_mutex_unlock(&a->lock);
}

/* ---- the box ---- */

static int copy_into(struct session *session, int fd, int64_t size, struct fault *fault)
{
    autofree char *buf = malloc(COPY_BYTES);
    struct file_upload *upload;
    int64_t at = 0;
    bool created;

    if (!buf)
        return fault_no_memory(fault);
    if (files_upload_begin(session, FILE_PATH, strlen(FILE_PATH), size, &upload, fault) < 0)
        return -1;
    while (at < size) {
        ssize_t got = pread(fd, buf, COPY_BYTES, at);

        if (got <= 0 || files_upload_write(upload, buf, (size_t) got, fault) < 0) {
            files_upload_abort(upload);
            return got <= 0 ? fault_set(fault, PROBLEM_INTERNAL, NULL, "the file cannot be read")
                            : -1;
        }
        at += got;
    }
    return files_upload_commit(upload, &created, fault);
}

/* The longest time that a request may ask for here, at most WALL_US. */
static int64_t wall_of(struct service *service)
{
    json_t *limits = service_limits_to_json(service);
    double ceiling =
        json_number_value(json_object_get(json_object_get(limits, "ceiling"), "timeout"));

    json_decref(limits);
    if (ceiling <= 0 || ceiling * USEC_PER_SEC > WALL_US)
        return WALL_US;
    return (int64_t) (ceiling * USEC_PER_SEC);
}

/* Runs profile.py in @session and hands over its receipt. */
static int run_program(struct service *service, const struct caller *caller,
                       struct session *session, const char *format, json_t **ret_receipt,
                       struct fault *fault)
{
    int64_t wall_us = wall_of(service);
    struct execution *execution = NULL;
    struct execution_request request;
    autofree char *code = NULL;
    int r;

    /* The program stops by itself well before its time is up, and tells what it has. */
    if (asprintf(&code, "%s\nprofile_main(\"/workspace/" FILE_PATH "\", \"%s\", %.1f)\n",
                 profile_program, format, (double) wall_us / USEC_PER_SEC * 0.6) < 0) {
        code = NULL;
        return fault_no_memory(fault);
    }
    execution_request_init(&request);
    request.kind = EXECUTION_CELL;
    request.code = code;
    request.code_len = strlen(code);
    request.filename = "profile.py";
    request.limits.wall_us = wall_us;
    request.reply_bytes = REPLY_BYTES;
    r = execution_run_here(service, caller, session, &request, &execution, fault);
    if (r == 0)
        r = execution_receipt(execution, ret_receipt, fault);
    execution_unref(execution);
    return r;
}

/* What the receipt says, as a profile. */
static char *judge(const json_t *receipt, const char *format)
{
    const char *status = json_string_value(json_object_get(receipt, "status"));
    const json_t *out = json_object_get(receipt, "stdout");

    if (status && strcmp(status, "ok") == 0 && json_is_string(out))
        return profile_check(json_string_value(out), json_string_length(out), format);
    if (status && strcmp(status, "timeout") == 0)
        return profile_error(format, "the file takes too long to look at");
    if (status && strcmp(status, "oom") == 0)
        return profile_error(format, "the file needs more memory than a box has");
    return profile_error(format, "the file could not be looked at: its reader failed");
}

static char *compute(struct attachments *a, const struct caller *caller, int fd, const char *format,
                     int64_t size)
{
    struct service *service = a->config.service;
    struct session_request request;
    struct session *session = NULL;
    struct fault fault = { 0 }, ignored = { 0 };
    json_t *receipt = NULL;
    char *profile, reason[sizeof fault.detail + 64];
    int r;

    session_request_init(&request);
    request.idle_us = IDLE_US;
    r = session_create(service, caller, &request, &session, &fault);
    if (r == 0)
        r = copy_into(session, fd, size, &fault);
    if (r == 0)
        r = run_program(service, caller, session, format, &receipt, &fault);
    if (session)
        (void) session_delete(session, &ignored);
    session_unref(session);
    if (r < 0) {
        service_log(service, LOG_LEVEL_WARNING, "attachments: no profile: %s", fault.detail);
        (void) snprintf(reason, sizeof reason, "no box could look at the file: %s", fault.detail);
        return profile_error(format, reason);
    }
    profile = judge(receipt, format);
    json_decref(receipt);
    return profile;
}

char *profile_compute(struct attachments *attachments, const struct caller *caller, int fd,
                      const struct sniffed *sniffed, int64_t size)
{
    struct profiling turn = { .owner = principal_text(&caller->principal) };
    char *profile;

    if (sniffed->kind != SNIFF_TABLE) {
        static const char text[] = "{\"notes\":[\"files of this kind are kept as they are, and not "
                                   "looked at\"]}";

        return profile_check(text, strlen(text), sniffed->format);
    }
    if (!attachments->config.service)
        return profile_error(sniffed->format, "profiles are off");
    if (size == 0)
        return profile_error(sniffed->format, "the file is empty");
    if (!turn_begin(attachments, &turn))
        return profile_error(sniffed->format, "too many files are being looked at; attach it again "
                                              "later");
    profile = compute(attachments, caller, fd, sniffed->format, size);
    turn_end(attachments, &turn);
    return profile;
}
