/*
 * One query: from the request to the file in the workspace.
 *
 * It is answered from what was recorded, or by the source. Either way there is a record of it: what
 * was asked, how it ended, what it took. The credentials of the source are in the grant, which is
 * wiped as soon as the connector has ended, and in nothing that is made here.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "mark/broker/internal.h"

#include "base/banned.h"

#define COPY_BYTES    ((size_t) 256 * 1024)
#define NOTICES_MAX   10
#define NOTICE_MAX    300
#define SLACK_US      (20 * USEC_PER_SEC) /* to connect, to cancel, to write the end */
#define LIMIT_MS      INT64_C(300000)
#define LIMIT_BYTES   (INT64_C(1) << 30)
#define WAIT_US       (120 * USEC_PER_SEC) /* for a connector */
#define MESSAGE_BYTES 700

/* ---- the record ---- */

static struct broker *broker_of(const struct query_job *job)
{
    return job->scope->config.broker;
}

static int record_begin(struct query_job *job)
{
    json_t *json = json_pack("{s:s, s:s%}", "source", job->source, "sql", job->sql, job->sql_len);

    if (!json)
        return -ENOMEM;
    if (job->params && !json_is_null(job->params))
        (void) json_object_set(json, "params", job->params);
    job->record.json = json;
    return query_key(job->source, job->sql, job->sql_len, job->params, job->record.key);
}

/* How it ended, if not well; the answer for the box. */
static json_t *refuse(struct query_job *job, const char *word, const char *message)
{
    (void) json_object_set_new(job->record.json, "status", json_string(word));
    (void) json_object_set_new(job->record.json, "message", json_string(message));
    return answer_refuse(word, message);
}

static json_t *refuse_fault(struct query_job *job, const char *word, const struct fault *fault)
{
    return refuse(job, word, fault->detail[0] ? fault->detail : "the service failed");
}

/* Numbers that a source told: not negative, or null. */
static json_t *number_clean(const json_t *value)
{
    double number = json_number_value(value);

    if (!json_is_number(value) || !isfinite(number) || number < 0)
        return json_null();
    return json_incref((json_t *) value);
}

static void record_done(struct query_job *job, const struct grant *grant, const json_t *done)
{
    static const char *const names[] = { "rows", "bytes", "ms", "cost", "money" };
    const json_t *notice;
    size_t i;

    for (i = 0; i < sizeof names / sizeof *names; i++)
        (void) json_object_set_new(job->record.json, names[i],
                                   number_clean(json_object_get(done, names[i])));
    if (json_is_true(json_object_get(done, "cache_hit")))
        (void) json_object_set_new(job->record.json, "cache_hit", json_true());
    json_array_foreach (json_object_get(done, "notices"), i, notice) {
        char text[NOTICE_MAX];

        if (i >= NOTICES_MAX)
            break;
        connector_text(grant->order, notice, text, sizeof text);
        if (text[0])
            (void) json_array_append_new(job->notices, json_string(text));
    }
}

/* ---- into the workspace ---- */

static int copy_into(const struct query_job *job, struct file_upload *upload, int fd,
                     struct fault *fault)
{
    autofree char *buf = malloc(COPY_BYTES);
    off_t at = 0;
    ssize_t n;

    if (!buf)
        return fault_no_memory(fault);
    for (;;) {
        n = pread(fd, buf, COPY_BYTES, at);
        if (n == 0)
            return 0;
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return fault_set(fault, PROBLEM_INTERNAL, NULL, "the result could not be read");
        if (reader_is_gone(job->fd))
            return fault_set(fault, PROBLEM_INTERNAL, NULL, "the query was cancelled");
        if (files_upload_write(upload, buf, (size_t) n, fault) < 0)
            return -1;
        at += n;
    }
}

/* The name of the file in @path; a negative number and @fault if it does not fit. */
static int deliver(struct query_job *job, int fd, char *path, size_t size, struct fault *fault)
{
    struct scope *scope = job->scope;
    struct file_upload *upload;
    struct stat st;
    bool created;

    if (fstat(fd, &st) < 0)
        return fault_set(fault, PROBLEM_INTERNAL, NULL, "the result could not be read");
    (void) pthread_mutex_lock(&scope->lock);
    (void) snprintf(path, size, ".mark/q%" PRId64 ".gbr", ++scope->files);
    (void) pthread_mutex_unlock(&scope->lock);
    if (files_upload_begin(scope->config.session, path, strlen(path), st.st_size, &upload, fault) <
        0)
        return -1;
    if (copy_into(job, upload, fd, fault) < 0) {
        files_upload_abort(upload);
        return -1;
    }
    return files_upload_commit(upload, &created, fault);
}

static json_t *answer_with(struct query_job *job, int fd)
{
    static const char *const names[] = { "rows", "bytes", "ms", "cost", "money", "sha256" };
    struct fault fault = { 0 };
    char path[64], text[MESSAGE_BYTES];
    json_t *answer;

    if (deliver(job, fd, path, sizeof path, &fault) < 0) {
        if (fault.problem != PROBLEM_QUOTA_EXCEEDED)
            return refuse_fault(job, "internal", &fault);
        (void) snprintf(text, sizeof text,
                        "the result (%" PRId64 " bytes) does not fit into the workspace: %s; or "
                        "select fewer rows or columns, or aggregate in SQL",
                        job->record.size, fault.detail);
        return refuse(job, "too-large", text);
    }
    (void) json_object_set_new(job->record.json, "status", json_string("ok"));
    answer = json_pack("{s:b, s:s, s:O?}", "success", 1, "path", path, "notices", job->notices);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        json_t *value = json_object_get(job->record.json, names[i]);

        if (value)
            (void) json_object_set(answer, names[i], value);
    }
    return answer;
}

/* ---- from what was recorded ---- */

/* The next recorded one with the same key, or the last once all were used. */
static const struct query_record *replay_find(struct query_job *job)
{
    struct scope *scope = job->scope;
    const struct query_record *found = NULL;

    (void) pthread_mutex_lock(&scope->lock);
    for (size_t i = 0; i < scope->config.replay_len; i++) {
        const struct query_record *record = &scope->config.replay[i];

        if (memcmp(record->key, job->record.key, sizeof record->key) != 0)
            continue;
        found = record;
        if (!scope->used[i]) {
            scope->used[i] = true;
            break;
        }
    }
    (void) pthread_mutex_unlock(&scope->lock);
    return found;
}

/* NULL: it is to be asked for. */
static json_t *replay(struct query_job *job)
{
    const struct query_record *recorded = replay_find(job);
    const char *status =
        json_string_value(json_object_get(recorded ? recorded->json : NULL, "status"));
    const char *message;
    autoclose int fd = -EBADF;
    struct gb_err err;
    json_t *json;

    if (status && strcmp(status, "ok") != 0) {
        message = json_string_value(json_object_get(recorded->json, "message"));
        return refuse(job, status, message ? message : "it failed when it was recorded");
    }
    if (!status || result_open(broker_of(job), recorded->sha256, &fd, &err) < 0) {
        if (!job->scope->config.replay_only)
            return NULL;
        return refuse(job, "not-recorded",
                      "the result of this query was not recorded with the answer");
    }
    json = json_copy(recorded->json);
    if (!json)
        return refuse(job, "internal", "the service is out of memory");
    json_decref(job->record.json);
    job->record.json = json;
    (void) json_object_set_new(json, "replayed", json_true());
    job->record.size = recorded->size;
    memcpy(job->record.sha256, recorded->sha256, sizeof job->record.sha256);
    return answer_with(job, fd);
}

/* ---- from the source ---- */

/* connector_call.tell */
static int tell(void *arg, const char *message, const json_t *body)
{
    struct query_job *job = arg;
    const struct scope_config *config = &job->scope->config;
    json_t *estimate;

    if (strcmp(message, "estimate") != 0)
        return 0;
    estimate = connector_estimate_clean(body);
    if (!estimate)
        return -1;
    (void) json_object_set_new(job->record.json, "estimate", estimate);
    if (!config->may)
        return 0;
    if (config->may(config->arg, &job->record, estimate, &job->refused) < 0)
        return -1;
    job->record.passed = true;
    return 0;
}

static int64_t limit_of(const struct grant *grant, const char *name, int64_t max)
{
    json_int_t value =
        json_integer_value(json_object_get(json_object_get(grant->order, "limits"), name));

    return value > 0 && value < max ? value : max;
}

/* Waits for the end of the query: *@ret_done, with the result in @draft; or the refusal. */
static json_t *connect_run(struct query_job *job, struct grant *grant,
                           const struct result_draft *draft, json_t **ret_done)
{
    struct broker *broker = broker_of(job);
    struct connector_failure failure = { 0 };
    struct connector_call call = {
        .order = grant->order,
        .deadline_us = clock_now_us() + limit_of(grant, "ms", LIMIT_MS) * 1000 + SLACK_US,
        .bytes_max = limit_of(grant, "bytes", LIMIT_BYTES),
        .result_fd = dup(draft->fd),
        .cancel_fd = job->fd,
        .program = broker->config.program,
        .tell = tell,
        .arg = job,
    };
    autoclose int result_fd = -EBADF;
    json_t *answer = NULL;

    if (call.result_fd < 0)
        return refuse(job, "internal", "the service is out of descriptors");
    if (connector_run(&call, &result_fd, ret_done, &failure) == 0)
        return NULL;
    if (job->refused.kind != FAULT_NONE) {
        answer = refuse_fault(job, "budget", &job->refused);
    } else {
        if (failure.estimate)
            (void) json_object_set(job->record.json, "estimate", failure.estimate);
        answer = refuse(job, failure.word, failure.text);
    }
    connector_failure_release(&failure);
    return answer;
}

static int order_fill(struct query_job *job, struct grant *grant)
{
    json_t *sql = json_stringn(job->sql, job->sql_len);

    return sql && json_object_set_new(grant->order, "op", json_string("query")) == 0 &&
                   json_object_set_new(grant->order, "sql", sql) == 0 &&
                   json_object_set(grant->order, "params",
                                   job->params ? job->params : json_null()) == 0 &&
                   json_object_set_new(grant->order, "confirm", json_true()) == 0
               ? 0
               : -ENOMEM;
}

/* A row of the answer with the result, if it belongs to one. That it cannot be kept is no reason to
 * refuse it: the answer only cannot be checked again. */
static void keep(struct query_job *job, struct result_draft *draft)
{
    const struct scope_config *config = &job->scope->config;
    struct broker *broker = broker_of(job);
    struct store_result row = { .n = job->record.n,
                                .size = job->record.size,
                                .created_us = clock_wall_us() };
    json_t *json = json_copy(job->record.json);
    struct gb_err err = { 0 };
    int r = -ENOMEM;

    if (!config->message_id || !json) {
        json_decref(json);
        return;
    }
    if (!draft) {
        row.size = job->record.size = 0;
        memset(job->record.sha256, 0, sizeof job->record.sha256);
    }
    (void) snprintf(row.message_id, sizeof row.message_id, "%s", config->message_id);
    (void) snprintf(row.owner, sizeof row.owner, "%s", principal_text(&config->caller.principal));
    memcpy(row.key, job->record.key, sizeof row.key);
    memcpy(row.sha256, job->record.sha256, sizeof row.sha256);
    (void) json_object_set_new(json, "step", json_integer(config->step));
    row.query = json_dumps(json, JSON_COMPACT);
    json_decref(json);
    if (row.query)
        r = result_keep(broker->results_fd, broker->config.store, draft, &row,
                        broker->config.owner_bytes_max, &err);
    free(row.query);
    job->record.kept = r == 0;
    if (r < 0 && r != -EDQUOT && r != -ENOENT)
        service_log(broker->config.service, LOG_LEVEL_WARNING,
                    "mark: the result of a query cannot be kept: %s", err.msg);
}

static json_t *finish(struct query_job *job, struct result_draft *draft)
{
    char hex[HASH_TEXT_MAX];
    struct gb_err err = { 0 };
    json_t *answer;

    if (result_draft_hash(draft, job->record.sha256, &job->record.size, &err) < 0)
        return refuse(job, "internal", err.msg);
    hash_to_text(job->record.sha256, hex);
    (void) json_object_set_new(job->record.json, "sha256", json_string(hex));
    answer = answer_with(job, draft->fd);
    if (answer && json_is_true(json_object_get(answer, "success")))
        keep(job, draft);
    return answer;
}

/* With a connector at hand. */
static json_t *ask_source(struct query_job *job, struct grant *grant)
{
    const struct broker_config *config = &broker_of(job)->config;
    struct result_draft draft = { .fd = -EBADF };
    struct gb_err err = { 0 };
    json_t *done = NULL, *answer;

    if (order_fill(job, grant) < 0)
        return refuse(job, "internal", "the service is out of memory");
    if (result_draft_begin(broker_of(job)->results_fd, &draft, &err) < 0)
        return refuse(job, "internal", err.msg);
    answer = connect_run(job, grant, &draft, &done);
    if (!answer) {
        if (config->calls.done)
            config->calls.done(config->sources, grant, done);
        (void) json_object_del(done, "token");
        record_done(job, grant, done);
        json_decref(done);
        config->calls.release(grant); /* the secrets are not needed any more */
        *grant = (struct grant){ 0 };
        answer = finish(job, &draft);
    }
    result_draft_release(broker_of(job)->results_fd, &draft);
    return answer;
}

static json_t *wait_and_ask(struct query_job *job, struct grant *grant)
{
    const char *owner = principal_text(&job->scope->config.caller.principal);
    json_t *answer;
    int r = broker_take(broker_of(job), owner, job->fd, clock_now_us() + WAIT_US);

    if (r == -ECANCELED)
        return refuse(job, "cancelled", "the query was cancelled");
    if (r < 0)
        return refuse(job, "timeout",
                      "too many queries are under way in this service; try again in a moment");
    answer = ask_source(job, grant);
    broker_give(broker_of(job), owner);
    return answer;
}

static json_t *ask_live(struct query_job *job)
{
    const struct broker_config *config = &broker_of(job)->config;
    struct grant grant = { 0 };
    struct fault fault = { 0 };
    char text[400];
    json_t *answer;

    if (!scope_has_source(job->scope, job->source)) {
        scope_list_sources(job->scope, text, sizeof text);
        return refuse(job, "no-such-source", text);
    }
    if (config->calls.grant(config->sources, &job->scope->config.caller, job->source, &grant,
                            &fault) < 0)
        return refuse_fault(job, fault.kind == FAULT_NOT_FOUND ? "no-such-source" : "internal",
                            &fault);
    if (!grant.order || grant.directory)
        answer = refuse(job, "unsupported", "this source is made of files; it is read in the box");
    else
        answer = wait_and_ask(job, &grant);
    config->calls.release(&grant);
    return answer;
}

json_t *query_run(struct query_job *job)
{
    const struct scope_config *config = &job->scope->config;
    int64_t begun_us = clock_now_us();
    json_t *answer = NULL;
    bool live;

    job->notices = json_array();
    if (!job->notices || record_begin(job) < 0)
        return NULL;
    if (config->replay || config->replay_only)
        answer = replay(job);
    live = !answer;
    if (live)
        answer = ask_live(job);
    if (!answer) { /* out of memory */
        if (job->record.passed && config->did)
            config->did(config->arg, &job->record);
        return NULL;
    }
    if (!json_object_get(job->record.json, "ms"))
        (void) json_object_set_new(job->record.json, "ms",
                                   json_integer((clock_now_us() - begun_us) / 1000));
    if (live && !job->record.kept && !json_is_true(json_object_get(answer, "success")))
        keep(job, NULL); /* how it failed: run again, it fails again */
    if (live && config->did)
        config->did(config->arg, &job->record);
    return answer;
}
