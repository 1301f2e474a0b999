#include "fake_service.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/io.h"
#include "service/access/keys.h"
#include "service/service.h"
#include "service/watch/watch.h"

#include "base/banned.h"

struct session {
    struct service *service;
    char id[SESSION_ID_MAX];
    struct principal owner;
    bool used;
};

struct execution {
    struct service *service;
    struct session *session;
    char id[EXECUTION_ID_MAX];
    struct principal owner;
    char *code;
    int refs;
    bool done, interrupted;
    char *out; /* everything printed */
    size_t out_len;
};

struct service {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct session sessions[8];
    struct execution *executions[64];
    int executions_len, interrupts, ticks;
    char dir[32];
};

struct service *fake_service_new(void)
{
    struct service *s = calloc(1, sizeof *s);

    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    snprintf(s->dir, sizeof s->dir, "/tmp/gb-fake-XXXXXX");
    if (!mkdtemp(s->dir))
        abort();
    return s;
}

void fake_service_free(struct service *s)
{
    DIR *dir = opendir(s->dir);
    struct dirent *entry;

    while (dir && (entry = readdir(dir)))
        (void) unlinkat(dirfd(dir), entry->d_name, 0);
    closedir(dir);
    (void) rmdir(s->dir);
    for (int i = 0; i < s->executions_len; i++)
        execution_unref(s->executions[i]);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

const char *fake_dir(const struct service *s)
{
    return s->dir;
}

void fake_tick(struct service *s)
{
    pthread_mutex_lock(&s->lock);
    s->ticks++;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

int fake_executions(struct service *s)
{
    pthread_mutex_lock(&s->lock);
    int n = s->executions_len;
    pthread_mutex_unlock(&s->lock);
    return n;
}

int fake_interrupts(struct service *s)
{
    pthread_mutex_lock(&s->lock);
    int n = s->interrupts;
    pthread_mutex_unlock(&s->lock);
    return n;
}

/* Waits for a change, at most until @until. */
static bool wait_change(struct service *s, const struct timespec *until)
{
    return pthread_cond_timedwait(&s->changed, &s->lock, until) == 0;
}

static struct timespec after_us(int64_t us)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    t.tv_sec += us / 1000000;
    t.tv_nsec += us % 1000000 * 1000;
    if (t.tv_nsec >= 1000000000) {
        t.tv_sec++;
        t.tv_nsec -= 1000000000;
    }
    return t;
}

bool fake_wait_interrupt(struct service *s)
{
    struct timespec until = after_us(120000000);
    bool there;

    pthread_mutex_lock(&s->lock);
    while (s->interrupts == 0 && wait_change(s, &until))
        ;
    there = s->interrupts > 0;
    pthread_mutex_unlock(&s->lock);
    return there;
}

/* ---- service.h ---- */

const int64_t service_bucket_us[SERVICE_BUCKETS - 1] = { 1000, 2000, 5000 };

int fault_set(struct fault *fault, enum problem problem, const char *loc, const char *fmt, ...)
{
    va_list ap;

    *fault = (struct fault){ .kind = (enum fault_kind) problem_status(problem),
                             .problem = problem,
                             .type = problem_word(problem) };
    snprintf(fault->loc, sizeof fault->loc, "%s", loc ? loc : "");
    va_start(ap, fmt);
    vsnprintf(fault->detail, sizeof fault->detail, fmt, ap);
    va_end(ap);
    return -1;
}

int fault_no_memory(struct fault *fault)
{
    return fault_set(fault, PROBLEM_OUT_OF_MEMORY, NULL, "out of memory");
}

/* Of Mark's rooms, which have nothing to say in these tests. */
void service_log(struct service *s, enum log_level level, const char *fmt, ...)
{
    (void) s;
    (void) level;
    (void) fmt;
}

bool service_is_ready(struct service *s)
{
    (void) s;
    return true;
}

void service_get_stats(struct service *s, struct service_stats *ret)
{
    (void) s;
    *ret = (struct service_stats){ .ready = true, .sessions_max = 8 };
}

/* The name that is asked for says what comes of it. */
int packages_install(struct service *s, const struct caller *caller, struct session *session,
                     const struct install_order *order, json_t **ret, struct fault *fault)
{
    const char *const *wanted = order->wanted;

    (void) s, (void) caller, (void) session;
    if (strcmp(wanted[0], "blocked") == 0)
        return fault_set(fault, PROBLEM_PACKAGE_BLOCKED, "packages", "it is blocked");
    if (strcmp(wanted[0], "odd==1.x") == 0)
        return fault_set(fault, PROBLEM_REQUIREMENT_MALFORMED, "packages", "it is odd");
    if (strcmp(wanted[0], "often") == 0) {
        (void) fault_set(fault, PROBLEM_RATE_LIMIT, NULL, "later");
        fault->retry_after_s = 7;
        return -1;
    }
    if (strcmp(wanted[0], "away") == 0)
        return fault_set(fault, PROBLEM_INDEX_UNREACHABLE, NULL, "no index");
    *ret =
        json_pack("{s:b,s:s,s:[{s:s,s:s}],s:[],s:[]}", "success", 1, "message", wanted[0],
                  "installed", "name", "zope-interface", "version", "6.1", "present", "warnings");
    return 0;
}

/* Done when it starts. */
struct install_task {
    struct install_event event;
    bool read;
};

int install_task_start(struct service *s, const struct caller *caller, struct session *session,
                       const struct install_order *order, const char *package, const char *version,
                       struct install_task **ret, struct fault *fault)
{
    struct install_task *task = calloc(1, sizeof *task);
    struct install_event *event = &task->event;

    (void) fault;
    event->last = true;
    if (package)
        (void) packages_install_named(s, caller, session, package, version, order, &event->json,
                                      &event->fault);
    else
        (void) packages_install(s, caller, session, order, &event->json, &event->fault);
    *ret = task;
    return 0;
}

int install_task_next(struct install_task *task, int64_t timeout_us, struct install_event *ret)
{
    (void) timeout_us;
    if (task->read)
        return -1;
    task->read = true;
    *ret = task->event;
    task->event.json = NULL;
    return 1;
}

void install_task_free(struct install_task *task)
{
    if (!task)
        return;
    json_decref(task->event.json);
    free(task);
}

const char *install_stage_name(enum install_stage stage)
{
    (void) stage;
    return "fetching";
}

int packages_list(struct service *s, const struct caller *caller, struct session *session,
                  json_t **ret, struct fault *fault)
{
    (void) s, (void) caller, (void) fault;
    *ret = json_pack("{s:[],s:[],s:s}", "packages", "requirements", "layer",
                     session ? "session" : "default");
    return 0;
}

int packages_reset(struct service *s, const struct caller *caller, struct fault *fault)
{
    (void) s, (void) caller, (void) fault;
    return 0;
}

const char *service_status_name(size_t i)
{
    static const char *const names[] = {
#define STATUS(name, word, ...) word,
#include "base/words/status.def"
    };

    return names[i];
}

int service_audit(struct service *service, const struct audit_entry *entry, struct gb_err *err)
{
    (void) service, (void) entry, (void) err;
    return 0;
}

const char *service_packages_text(const struct service *service)
{
    (void) service;
    return "numpy 2.4.6, pandas 3.1.1";
}

const char *service_template_name(const struct service *service)
{
    (void) service;
    return "system";
}

json_t *service_limits_to_json(struct service *s)
{
    (void) s;
    return json_pack("{s:{}}", "defaults");
}

json_t *service_templates_to_json(struct service *s)
{
    (void) s;
    return json_pack("{s:[], s:[]}", "templates", "aliases");
}

void limits_wish_init(struct limits *wish)
{
    memset(wish, 0xff, sizeof *wish);
}

int limits_wish_from_json(const json_t *object, struct limits *wish, struct fault *fault)
{
    limits_wish_init(wish);
    if (json_object_get(object, "memory"))
        return fault_set(fault, PROBLEM_LIMIT_ABOVE_CEILING, "limits.memory",
                         "memory is at most 1g");
    return 0;
}

json_t *limits_to_json(const struct limits *limits)
{
    (void) limits;
    return json_object();
}

void session_request_init(struct session_request *r)
{
    *r = (struct session_request){ .idle_us = -1 };
    limits_wish_init(&r->limits);
}

void execution_request_init(struct execution_request *r)
{
    *r = (struct execution_request){ .reply_bytes = -1, .hangup_fd = -1 };
    limits_wish_init(&r->limits);
}

int session_may_mount(struct service *s, const char *directory, bool inner, struct fault *fault)
{
    (void) s;
    (void) directory;
    (void) inner;
    (void) fault;
    return 0;
}

int session_create(struct service *s, const struct caller *caller,
                   const struct session_request *request, struct session **ret, struct fault *fault)
{
    (void) request;
    pthread_mutex_lock(&s->lock);
    for (int i = 0; i < 8; i++) {
        struct session *session = &s->sessions[i];

        if (session->used)
            continue;
        session->used = true;
        session->service = s;
        snprintf(session->id, sizeof session->id, "sess_%d", i);
        session->owner = caller->principal;
        pthread_mutex_unlock(&s->lock);
        *ret = session;
        return 0;
    }
    pthread_mutex_unlock(&s->lock);
    fault_set(fault, PROBLEM_SESSIONS_MAX, NULL, "at most 8 sessions; delete one");
    fault->retry_after_s = 7;
    return -1;
}

int session_find(struct service *s, const struct caller *caller, const char *id,
                 struct session **ret, struct fault *fault)
{
    pthread_mutex_lock(&s->lock);
    for (int i = 0; i < 8; i++)
        if (s->sessions[i].used && strcmp(s->sessions[i].id, id) == 0 &&
            principal_equal(&s->sessions[i].owner, &caller->principal)) {
            *ret = &s->sessions[i];
            pthread_mutex_unlock(&s->lock);
            return 0;
        }
    pthread_mutex_unlock(&s->lock);
    return fault_set(fault, PROBLEM_SESSION_UNKNOWN, NULL, "there is no such session");
}

void session_unref(struct session *session)
{
    (void) session;
}

const char *session_id(const struct session *session)
{
    return session->id;
}

void session_get_info(struct session *session, struct session_info *ret)
{
    *ret = (struct session_info){ .state = SESSION_READY };
    snprintf(ret->id, sizeof ret->id, "%s", session->id);
}

void session_info_release(struct session_info *info)
{
    (void) info;
}

json_t *session_info_to_json(const struct session_info *info)
{
    return json_pack("{s:s,s:s}", "session_id", info->id, "state", "ready");
}

json_t *session_network_to_json(struct session *session)
{
    (void) session;
    return json_pack("{s:[],s:[]}", "allow", "secrets");
}

int session_list(struct service *s, const struct caller *caller, const char *after,
                 struct session_info *infos, size_t max, size_t *ret_len, bool *ret_more,
                 struct fault *fault)
{
    (void) after;
    (void) fault;
    *ret_len = 0;
    *ret_more = false;
    for (int i = 0; i < 8; i++) {
        if (!s->sessions[i].used || !principal_equal(&s->sessions[i].owner, &caller->principal))
            continue;
        if (*ret_len == max) {
            *ret_more = true;
            break;
        }
        session_get_info(&s->sessions[i], &infos[(*ret_len)++]);
    }
    return 0;
}

void session_touch(struct session *session)
{
    (void) session;
}

int session_look(struct session *session, const struct look_request *request, json_t **ret_json,
                 struct fault *fault)
{
    static const char *const ops[] = { "complete", "inspect", "variables" };

    (void) session;
    (void) fault;
    *ret_json = json_pack("{s:s, s:s#, s:I}", "op", ops[request->op], "code",
                          request->code ? request->code : "", (int) request->code_len, "cursor",
                          (json_int_t) request->cursor);
    return 0;
}

int share_create(struct service *service, const struct caller *caller, const char *title,
                 const json_t *notebook, json_t **ret_json, struct fault *fault)
{
    (void) service;
    (void) caller;
    (void) fault;
    *ret_json = json_pack("{s:s, s:O}", "title", title, "notebook", notebook);
    return 0;
}

int share_list(struct service *service, const struct caller *caller, json_t **ret_json,
               struct fault *fault)
{
    (void) service;
    (void) caller;
    (void) fault;
    *ret_json = json_pack("{s:[]}", "shares");
    return 0;
}

int share_read(struct service *service, const char *id, char **ret_text, size_t *ret_len,
               struct fault *fault)
{
    (void) service;
    if (strcmp(id, "shr_1") != 0)
        return fault_set(fault, PROBLEM_SHARE_UNKNOWN, "share_id", "no such share");
    *ret_text = strdup("{}");
    *ret_len = 2;
    return 0;
}

int share_delete(struct service *service, const struct caller *caller, const char *id,
                 struct fault *fault)
{
    (void) service;
    (void) caller;
    return strcmp(id, "shr_1") == 0
               ? 0
               : fault_set(fault, PROBLEM_SHARE_UNKNOWN, "share_id", "no such share");
}

int session_delete(struct session *session, struct fault *fault)
{
    (void) fault;
    pthread_mutex_lock(&session->service->lock);
    session->used = false;
    pthread_mutex_unlock(&session->service->lock);
    return 0;
}

int session_interrupt(struct session *session, bool all, size_t *ret_count, struct fault *fault)
{
    (void) session;
    (void) all;
    (void) fault;
    *ret_count = 0;
    return 0;
}

/* ---- executions ---- */

/* Runs its words as far as they go now; the lock is held. */
static void advance(struct execution *e)
{
    struct service *s = e->service;
    int ticks;

    if (e->done)
        return;
    if (strncmp(e->code, "echo ", 5) == 0 && !e->out) {
        e->out = strdup(e->code + 5);
        e->out_len = strlen(e->out);
        e->done = true;
    } else if (sscanf(e->code, "ticks %d", &ticks) == 1) {
        int printed = s->ticks < ticks ? s->ticks : ticks;

        free(e->out);
        e->out = calloc(1, (size_t) printed * 5 + 1);
        for (int i = 0; i < printed; i++)
            memcpy(e->out + 5 * i, "tick\n", 5);
        e->out_len = (size_t) printed * 5;
        e->done = printed == ticks;
    } else if (strncmp(e->code, "receipt ", 8) == 0 || strncmp(e->code, "__import__", 10) == 0 ||
               !*e->code) {
        e->done = true;
    }
    if (e->interrupted)
        e->done = true;
}

int execution_start(struct service *s, const struct caller *caller, struct session *session,
                    const struct execution_request *request, struct execution **ret,
                    struct fault *fault)
{
    enum problem problem = PROBLEM_NONE;
    struct execution *e;
    int status;

    if (sscanf(request->code, "fault %d", &status) == 1) {
        while (problem < PROBLEM_END && problem_status(problem) != status)
            problem++;
        return fault_set(fault, problem, NULL, "as you wished");
    }
    e = calloc(1, sizeof *e);
    e->service = s;
    e->session = session;
    e->code = strdup(request->code);
    e->refs = 2;
    e->owner = caller->principal;
    pthread_mutex_lock(&s->lock);
    snprintf(e->id, sizeof e->id, "exec_%d", s->executions_len);
    s->executions[s->executions_len++] = e;
    advance(e);
    pthread_mutex_unlock(&s->lock);
    *ret = e;
    return 0;
}

bool execution_wait(struct execution *e, int64_t timeout_us)
{
    struct timespec until = after_us(timeout_us < 0 ? 120000000 : timeout_us);

    pthread_mutex_lock(&e->service->lock);
    for (advance(e); !e->done && wait_change(e->service, &until); advance(e))
        ;
    pthread_mutex_unlock(&e->service->lock);
    return e->done;
}

int execution_run_here(struct service *s, const struct caller *caller, struct session *session,
                       const struct execution_request *request, struct execution **ret,
                       struct fault *fault)
{
    int r = execution_start(s, caller, session, request, ret, fault);

    if (r == 0)
        (void) execution_wait(*ret, -1);
    return r;
}

int execution_find(struct service *s, const struct caller *caller, const char *id,
                   struct execution **ret, struct fault *fault)
{
    pthread_mutex_lock(&s->lock);
    for (int i = 0; i < s->executions_len; i++)
        if (strcmp(s->executions[i]->id, id) == 0 &&
            principal_equal(&s->executions[i]->owner, &caller->principal)) {
            *ret = s->executions[i];
            (*ret)->refs++;
            pthread_mutex_unlock(&s->lock);
            return 0;
        }
    pthread_mutex_unlock(&s->lock);
    return fault_set(fault, PROBLEM_EXECUTION_UNKNOWN, NULL, "there is none");
}

struct execution *execution_ref(struct execution *e)
{
    pthread_mutex_lock(&e->service->lock);
    e->refs++;
    pthread_mutex_unlock(&e->service->lock);
    return e;
}

void execution_unref(struct execution *e)
{
    if (!e)
        return;
    pthread_mutex_lock(&e->service->lock);
    int refs = --e->refs;
    pthread_mutex_unlock(&e->service->lock);
    if (refs > 0)
        return;
    free(e->code);
    free(e->out);
    free(e);
}

const char *execution_id(const struct execution *e)
{
    return e->id;
}

const char *execution_session_id(const struct execution *e)
{
    return e->session ? e->session->id : NULL;
}

/* "receipt {...}" has it as it is wished. */
static json_t *receipt(struct execution *e)
{
    if (strncmp(e->code, "receipt ", 8) == 0)
        return json_loads(e->code + 8, 0, NULL);
    return json_pack("{s:s,s:s,s:s}", "status", e->interrupted ? "cancelled" : "ok", "stdout",
                     e->out ? e->out : "", "execution_id", e->id);
}

bool execution_receipt_text(struct execution *e, char **ret_text, size_t *ret_len)
{
    (void) e;
    (void) ret_text;
    (void) ret_len;
    return false;
}

int execution_receipt(struct execution *e, json_t **ret_json, struct fault *fault)
{
    (void) fault;
    pthread_mutex_lock(&e->service->lock);
    *ret_json = receipt(e);
    pthread_mutex_unlock(&e->service->lock);
    return 0;
}

int execution_interrupt(struct execution *e, struct fault *fault)
{
    (void) fault;
    pthread_mutex_lock(&e->service->lock);
    e->interrupted = true;
    e->service->interrupts++;
    advance(e);
    pthread_cond_broadcast(&e->service->changed);
    pthread_mutex_unlock(&e->service->lock);
    return 0;
}

const char *event_kind_name(enum event_kind kind)
{
    static const char *const names[] = {
        "stdout", "stderr", "display", "result", "receipt", "fault"
    };

    return names[kind];
}

int execution_next_event(struct execution *e, struct event_cursor *cursor, char *buf, size_t size,
                         int64_t timeout_us, struct event *ret)
{
    struct timespec until = after_us(timeout_us);
    int r = 0;

    pthread_mutex_lock(&e->service->lock);
    for (;;) {
        advance(e);
        if (cursor->last) {
            r = -1;
        } else if (e->out && (size_t) cursor->out < e->out_len) {
            size_t len = e->out_len - (size_t) cursor->out;

            len = len < size ? len : size;
            memcpy(buf, e->out + cursor->out, len);
            *ret = (struct event){ .kind = EVENT_STDOUT,
                                   .offset = cursor->out,
                                   .text = buf,
                                   .text_len = len,
                                   .next = cursor->out + (int64_t) len };
            cursor->out += (int64_t) len;
            r = 1;
        } else if (e->done) {
            *ret = (struct event){ .kind = EVENT_RECEIPT, .json = receipt(e) };
            cursor->last = true;
            r = 1;
        } else if (wait_change(e->service, &until)) {
            continue;
        }
        break;
    }
    pthread_mutex_unlock(&e->service->lock);
    return r;
}

void event_release(struct event *event)
{
    json_decref(event->json);
}

int execution_read_output(struct execution *e, enum stream stream, int64_t offset, char *buf,
                          size_t size, size_t *ret_len, int64_t *ret_total, int64_t *ret_kept,
                          bool *ret_done, struct fault *fault)
{
    size_t left;

    (void) fault;
    pthread_mutex_lock(&e->service->lock);
    advance(e);
    left = stream == STREAM_OUT && (size_t) offset < e->out_len ? e->out_len - (size_t) offset : 0;
    *ret_len = left < size ? left : size;
    if (*ret_len > 0)
        memcpy(buf, e->out + offset, *ret_len);
    *ret_total = *ret_kept = (int64_t) e->out_len;
    *ret_done = e->done;
    pthread_mutex_unlock(&e->service->lock);
    return 0;
}

/* ---- files ---- */

static int check_path(const char *path, struct fault *fault)
{
    return strchr(path, '/') || !*path
               ? fault_set(fault, PROBLEM_PATH_MALFORMED, "path", "no such path")
               : 0;
}

int files_list(struct session *session, const char *dir, size_t dir_len, bool recursive,
               const char *after, size_t after_len, size_t max, struct file_list *ret,
               struct fault *fault)
{
    (void) session;
    (void) dir;
    (void) dir_len;
    (void) recursive;
    (void) after;
    (void) after_len;
    (void) max;
    (void) fault;
    *ret = (struct file_list){ 0 };
    return 0;
}

void file_list_release(struct file_list *list)
{
    (void) list;
}

json_t *file_info_to_json(const struct file_info *info)
{
    return json_pack("{s:s}", "path", info->path);
}

int files_open(struct session *session, const char *path, size_t len, struct file_reader *ret,
               struct fault *fault)
{
    char full[512];
    struct stat st;
    int fd;

    (void) len;
    if (check_path(path, fault) < 0)
        return -1;
    snprintf(full, sizeof full, "%s/%s", session->service->dir, path);
    fd = open(full, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return fault_set(fault, PROBLEM_FILE_UNKNOWN, NULL, "there is no such file");
    *ret = (struct file_reader){ .fd = fd, .size = st.st_size };
    snprintf(ret->etag, sizeof ret->etag, "\"e%lld\"", (long long) st.st_size);
    return 0;
}

struct file_upload {
    char path[512], temp[520];
    int fd;
};

int files_upload_begin(struct session *session, const char *path, size_t len, int64_t expected,
                       struct file_upload **ret, struct fault *fault)
{
    struct file_upload *u;

    (void) len;
    if (check_path(path, fault) < 0)
        return -1;
    if (expected > 1 << 30)
        return fault_set(fault, PROBLEM_QUOTA_EXCEEDED, NULL, "too large");
    u = calloc(1, sizeof *u);
    snprintf(u->path, sizeof u->path, "%s/%s", session->service->dir, path);
    snprintf(u->temp, sizeof u->temp, "%s~", u->path);
    u->fd = open(u->temp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    *ret = u;
    return 0;
}

int files_upload_write(struct file_upload *u, const void *data, size_t len, struct fault *fault)
{
    if (len >= 4 && memcmp(data, "FULL", 4) == 0)
        return fault_set(fault, PROBLEM_QUOTA_EXCEEDED, NULL, "the workspace is full");
    return io_write_all(u->fd, data, len);
}

int files_upload_commit(struct file_upload *u, bool *ret_created, struct fault *fault)
{
    (void) fault;
    *ret_created = access(u->path, F_OK) < 0;
    close(u->fd);
    (void) rename(u->temp, u->path);
    free(u);
    return 0;
}

void files_upload_abort(struct file_upload *u)
{
    if (!u)
        return;
    close(u->fd);
    (void) unlink(u->temp);
    free(u);
}

int files_delete(struct session *session, const char *path, size_t len, bool recursive,
                 struct fault *fault)
{
    char full[512];

    (void) len;
    (void) recursive;
    snprintf(full, sizeof full, "%s/%s", session->service->dir, path);
    return unlink(full) < 0 ? fault_set(fault, PROBLEM_FILE_UNKNOWN, NULL, "no") : 0;
}

int files_move(struct session *session, const char *from, size_t from_len, const char *to,
               size_t to_len, bool replace, struct fault *fault)
{
    (void) session;
    (void) from;
    (void) from_len;
    (void) to;
    (void) to_len;
    (void) replace;
    (void) fault;
    return 0;
}

int files_mkdir(struct session *session, const char *path, size_t len, struct fault *fault)
{
    (void) session;
    (void) path;
    (void) len;
    (void) fault;
    return 0;
}

/* 4 MiB, or a refusal. */
int files_archive(struct session *session, const char *dir, size_t len,
                  int (*write)(void *arg, const void *data, size_t len), void *arg,
                  struct fault *fault)
{
    char piece[4096];

    (void) session;
    (void) len;
    if (strcmp(dir, "none") == 0)
        return fault_set(fault, PROBLEM_FILE_UNKNOWN, NULL, "no such directory");
    memset(piece, 'z', sizeof piece);
    for (int i = 0; i < 1024; i++) {
        if (strcmp(dir, "breaks") == 0 && i == 100)
            return fault_set(fault, PROBLEM_ARCHIVE_FAILED, NULL, "it broke");
        if (write(arg, piece, sizeof piece) < 0)
            return fault_set(fault, PROBLEM_ARCHIVE_FAILED, NULL, "nobody reads");
    }
    return 0;
}

/* ---- terminals: there are none ---- */

int terminal_open(struct session *session, const struct caller *caller,
                  const struct terminal_request *request, struct terminal **ret_terminal,
                  struct fault *fault)
{
    (void) session;
    (void) caller;
    (void) request;
    (void) ret_terminal;
    return fault_set(fault, PROBLEM_BOX_FULL, NULL, "no terminals here");
}

int terminal_find(struct session *session, const char *id, struct terminal **ret_terminal,
                  struct fault *fault)
{
    (void) session;
    (void) id;
    (void) ret_terminal;
    return fault_set(fault, PROBLEM_TERMINAL_UNKNOWN, NULL, "no such terminal");
}

void terminal_unref(struct terminal *terminal)
{
    (void) terminal;
}

void terminal_get_info(struct terminal *terminal, struct terminal_info *ret_info)
{
    (void) terminal;
    *ret_info = (struct terminal_info){ 0 };
}

size_t terminal_list(struct session *session, struct terminal_info infos[TERMINALS_PER_SESSION])
{
    (void) session;
    (void) infos;
    return 0;
}

int terminal_delete(struct session *session, struct terminal *terminal, struct fault *fault)
{
    (void) session;
    (void) terminal;
    (void) fault;
    return 0;
}

int terminal_attach(struct terminal *terminal, int64_t offset, struct terminal_client **ret_client,
                    struct fault *fault)
{
    (void) terminal;
    (void) offset;
    (void) ret_client;
    return fault_set(fault, PROBLEM_TERMINAL_CLIENTS, NULL, "no clients here");
}

void terminal_detach(struct terminal_client *client)
{
    (void) client;
}

int64_t terminal_client_start(struct terminal_client *client, int64_t *ret_end, bool *ret_missed)
{
    *ret_end = 0;
    (void) client;
    *ret_missed = false;
    return 0;
}

enum terminal_news terminal_next(struct terminal_client *client, char *buf, size_t size,
                                 int64_t timeout_us, size_t *ret_len)
{
    (void) client;
    (void) buf;
    (void) size;
    (void) timeout_us;
    *ret_len = 0;
    return TERMINAL_EXIT;
}

bool terminal_client_slow(struct terminal_client *client)
{
    (void) client;
    return false;
}

bool terminal_input(struct terminal_client *client, const void *data, size_t len)
{
    (void) client;
    (void) data;
    (void) len;
    return true;
}

bool terminal_takes_input(struct terminal_client *client)
{
    (void) client;
    return true;
}

void terminal_resize(struct terminal_client *client, int64_t cols, int64_t rows)
{
    (void) client;
    (void) cols;
    (void) rows;
}

/* ---- service/access/keys.h ---- */

int keys_verify(struct keys *keys, const char *token, struct keys_info *ret, struct gb_err *err)
{
    (void) keys;
    if (strcmp(token, FAKE_KEY) != 0)
        return gb_fail_plain(err, EACCES, "no such key");
    *ret = (struct keys_info){
        .id = "000000000001", .sessions = -1, .executions = -1, .rate_per_minute = -1
    };
    return 0;
}

bool keys_stands(struct keys *keys, const char *id)
{
    (void) keys, (void) id;
    return true;
}

/* ---- watch/watch.h ---- */

int watch_overview(struct service *s, json_t **ret, struct fault *fault)
{
    (void) s, (void) fault;
    *ret = json_pack("{s:b}", "ready", 1);
    return 0;
}

int watch_series(struct service *s, int64_t minutes, json_t **ret, struct fault *fault)
{
    (void) s, (void) fault;
    *ret = json_pack("{s:I}", "step", (json_int_t) minutes);
    return 0;
}

int watch_sessions(struct service *s, const char *after, size_t max, json_t **ret,
                   struct fault *fault)
{
    (void) s, (void) fault, (void) max;
    *ret = json_pack("{s:[],s:b,s:i,s:s?}", "sessions", "more", 0, "total", 0, "after", after);
    return 0;
}

int watch_executions(struct service *s, const struct watch_filter *filter, json_t **ret,
                     struct fault *fault)
{
    (void) s, (void) fault;
    *ret = json_pack("{s:[],s:b,s:b,s:i}", "executions", "more", 0, "finished", filter->finished,
                     "status", filter->status);
    return 0;
}

int watch_accounts(struct service *s, json_t **ret, struct fault *fault)
{
    (void) s, (void) fault;
    *ret = json_object();
    return 0;
}

int watch_session_end(struct service *s, const char *id, struct fault *fault)
{
    (void) s;
    return strcmp(id, "ses_1") == 0
               ? 0
               : fault_set(fault, PROBLEM_SESSION_UNKNOWN, "id", "no such session");
}

void watch_sessions_end(struct service *s, const struct principal *principal)
{
    (void) s, (void) principal;
}

int watch_execution_interrupt(struct service *s, const char *id, struct fault *fault)
{
    (void) s, (void) id;
    return fault_set(fault, PROBLEM_EXECUTION_UNKNOWN, "id", "no such execution");
}

int watch_packages(struct service *s, size_t max, json_t **ret, struct fault *fault)
{
    (void) s, (void) max, (void) fault;
    *ret = json_pack("{s:[],s:[],s:b,s:i}", "layers", "sets", "more", 0, "count", 0);
    return 0;
}

int watch_audit(struct service *s, const struct audit_search *search, json_t **ret,
                struct fault *fault)
{
    (void) s, (void) search, (void) fault;
    *ret = json_pack("{s:[],s:n,s:i}", "entries", "before", "looked_at", 0);
    return 0;
}

int watch_audit_chain(struct service *s, bool anew, json_t **ret, struct fault *fault)
{
    (void) s, (void) anew, (void) fault;
    *ret = json_pack("{s:s}", "state", "intact");
    return 0;
}

/* ---- the operator's side of access/keys.h ---- */

int keys_list(struct store *store, struct store_key **ret, size_t *len, struct gb_err *err)
{
    (void) store, (void) err;
    *ret = NULL;
    *len = 0;
    return 0;
}

void keys_changed(struct keys *keys)
{
    (void) keys;
}

int keys_flush(struct keys *keys, struct gb_err *err)
{
    (void) keys, (void) err;
    return 0;
}

int keys_create(struct store *store, const struct keys_spec *spec, char token[KEYS_TOKEN_MAX],
                struct store_key *key, struct gb_err *err)
{
    (void) store, (void) err;
    *key = (struct store_key){ .id = "0123456789ab", .created_us = 1 };
    snprintf(key->name, sizeof key->name, "%s", spec->name ? spec->name : "");
    snprintf(token, KEYS_TOKEN_MAX, "gb_0123456789ab_secret");
    return 0;
}

int keys_revoke(struct store *store, const char *id, struct gb_err *err)
{
    (void) store, (void) id;
    return gb_fail_plain(err, ENOENT, "no such key");
}
