/*
 * The session of a chat.
 *
 * It is made when the first program of the chat is to run. Its first cell defines the module mark
 * and names the files, which are copied into the workspace. When it is gone, or has lost its
 * variables, the chat's programs that ended well are run again in order, and the answer says so.
 * It has no network: nothing asks for one here.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/grow.h"
#include "mark/agent/work.h"
#include "mark/box/box.h"

#include "base/banned.h"

#define IDLE_US     (20 * 60 * USEC_PER_SEC) /* a session costs memory, and is easily rebuilt */
#define SLICE_US    (5 * USEC_PER_SEC)       /* how often a program that was to end is looked at */
#define PRELUDE_US  (60 * USEC_PER_SEC)
#define COPY_BYTES  ((size_t) 256 * 1024)
#define LIST_LEN    32
#define SPARE_BYTES (INT64_C(256) * 1024 * 1024)

bool receipt_ok(const json_t *receipt)
{
    const char *status = json_string_value(json_object_get(receipt, "status"));

    return status && strcmp(status, "ok") == 0;
}

void cells_release(struct cells *cells)
{
    session_unref(cells->session);
    *cells = (struct cells){ 0 };
}

/* ---- running one ---- */

/* Ends a program that is to end. A stop has interrupted it once already, and a second time is
 * harder: it may cost the session its variables. */
static void press(struct execution *x, const struct answer *answer, int64_t until_us,
                  int64_t *pressed_us)
{
    bool stop = answer && atomic_load(&answer->stop);
    int64_t now = clock_now_us();
    struct fault ignored;

    if (!stop && now < until_us)
        return;
    if (*pressed_us == 0 && stop) {
        *pressed_us = now;
    } else if (*pressed_us == 0 || now - *pressed_us >= SLICE_US) {
        *pressed_us = now;
        (void) execution_interrupt(x, &ignored);
    }
}

/* Reads its events to the end. */
static int follow(struct execution *x, struct answer *answer, int64_t n, int64_t until_us,
                  json_t **ret_receipt, struct fault *fault)
{
    struct event_cursor cursor = { 0 };
    int64_t pressed_us = 0;
    char buf[16 * 1024];
    int r;

    for (;;) {
        int64_t left_us = until_us - clock_now_us();
        struct event event = { 0 };

        press(x, answer, until_us, &pressed_us);
        if (left_us <= 0 || left_us > SLICE_US)
            left_us = SLICE_US;
        r = execution_next_event(x, &cursor, buf, sizeof buf, left_us, &event);
        if (r < 0)
            return fault_set(fault, PROBLEM_INTERNAL, NULL, "a program ended without a receipt");
        if (r == 0)
            continue;
        if (event.kind == EVENT_RECEIPT) {
            *ret_receipt = json_incref(event.json);
            event_release(&event);
            return *ret_receipt ? 0 : fault_no_memory(fault);
        }
        if (event.kind == EVENT_FAULT) {
            *fault = event.fault;
            event_release(&event);
            return -1;
        }
        if (answer && n > 0 && (event.kind == EVENT_STDOUT || event.kind == EVENT_STDERR))
            answer_delta(answer, EV_OUTPUT, n, event.kind == EVENT_STDERR, event.text,
                         event.text_len);
        event_release(&event);
    }
}

int cells_execute(struct agent *agent, const struct caller *caller, struct answer *answer,
                  struct session *session, int64_t n, const char *code, bool accept_loss,
                  struct scope *scope, int64_t until_us, json_t **ret_receipt, struct fault *fault)
{
    struct execution_request request;
    struct execution *x = NULL;
    struct fault ignored;
    char filename[32];
    int r;

    execution_request_init(&request);
    request.kind = EXECUTION_CELL;
    request.code = code;
    request.code_len = strlen(code);
    request.accept_loss = accept_loss;
    if (scope) {
        request.ask = scope_ask;
        request.ask_arg = scope;
        request.ask_us = until_us - clock_now_us();
    }
    if (n > 0) {
        (void) snprintf(filename, sizeof filename, "<step %lld>", (long long) n);
        request.filename = filename;
    }
    if (execution_start(agent->config.service, caller, session, &request, &x, fault) < 0)
        return -1;
    if (answer) {
        answer_set_running(answer, x);
        /* A stop that came before it could be seen. */
        if (atomic_load(&answer->stop))
            (void) execution_interrupt(x, &ignored);
    }
    r = follow(x, answer, n, until_us, ret_receipt, fault);
    if (answer)
        answer_set_running(answer, NULL);
    execution_unref(x);
    return r;
}

/* ---- sessions of other chats that are not needed just now ---- */

static void remember(struct agent *agent, const struct caller *caller, const char *id)
{
    (void) pthread_mutex_lock(&agent->lock);
    (void) snprintf(agent->sessions[agent->sessions_next].id, SESSION_ID_MAX, "%s", id);
    agent->sessions[agent->sessions_next].owner = caller->principal;
    agent->sessions_next = (agent->sessions_next + 1) % AGENT_SESSIONS_MAX;
    (void) pthread_mutex_unlock(&agent->lock);
}

static bool is_ours(struct agent *agent, const char *id)
{
    bool ours = false;

    (void) pthread_mutex_lock(&agent->lock);
    for (size_t i = 0; i < AGENT_SESSIONS_MAX && !ours; i++)
        ours = strcmp(agent->sessions[i].id, id) == 0;
    (void) pthread_mutex_unlock(&agent->lock);
    return ours;
}

/* The caller's session of a chat that has been idle longest, or "". Returns how many chats of the
 * caller have one. */
static size_t find_idle(struct agent *agent, const struct caller *caller,
                        char ret_id[SESSION_ID_MAX])
{
    struct session_info infos[LIST_LEN];
    char after[SESSION_ID_MAX] = "";
    struct fault ignored;
    int64_t idle_us = -1;
    bool more = true;
    size_t len = 0, count = 0;

    ret_id[0] = '\0';
    while (more) {
        if (session_list(agent->config.service, caller, after[0] ? after : NULL, infos, LIST_LEN,
                         &len, &more, &ignored) < 0)
            return count;
        for (size_t i = 0; i < len; i++) {
            bool ours = is_ours(agent, infos[i].id);

            count += ours;
            if (ours && infos[i].state == SESSION_READY && infos[i].idle_us > idle_us) {
                idle_us = infos[i].idle_us;
                memcpy(ret_id, infos[i].id, SESSION_ID_MAX);
            }
            memcpy(after, infos[i].id, SESSION_ID_MAX);
            session_info_release(&infos[i]);
        }
        more = more && len > 0;
    }
    return count;
}

static bool end_session(struct agent *agent, const struct caller *caller, const char *id)
{
    struct session *session = NULL;
    struct fault ignored;
    bool gone = false;

    if (id[0] && session_find(agent->config.service, caller, id, &session, &ignored) == 0)
        gone = session_delete(session, &ignored) == 0;
    session_unref(session);
    return gone;
}

/* Who has sessions that we made; the caller frees the list. */
static struct principal *owners_list(struct agent *agent, size_t *ret_len)
{
    struct principal *owners = calloc(AGENT_SESSIONS_MAX, sizeof *owners);
    size_t len = 0;

    (void) pthread_mutex_lock(&agent->lock);
    for (size_t i = 0; owners && i < AGENT_SESSIONS_MAX; i++) {
        size_t j = 0;

        while (j < len && !principal_equal(&owners[j], &agent->sessions[i].owner))
            j++;
        if (agent->sessions[i].id[0] && j == len)
            owners[len++] = agent->sessions[i].owner;
    }
    (void) pthread_mutex_unlock(&agent->lock);
    *ret_len = len;
    return owners;
}

/* Ends one of whoever has most, if that is so many more than the @own of the caller that one less
 * is still not fewer: nobody's chats keep all others out. */
static bool make_room_of_others(struct agent *agent, size_t own)
{
    struct caller most = { .limits = { -1, -1, -1 } };
    autofree struct principal *owners = NULL;
    char id[SESSION_ID_MAX], found[SESSION_ID_MAX] = "";
    size_t len;

    owners = owners_list(agent, &len);
    for (size_t i = 0; owners && i < len; i++) {
        struct caller owner = { .principal = owners[i], .limits = { -1, -1, -1 } };
        size_t count = find_idle(agent, &owner, id);

        if (id[0] && count > own + 1) {
            own = count - 1;
            most = owner;
            memcpy(found, id, sizeof found);
        }
    }
    return end_session(agent, &most, found);
}

/* Ends one, for another chat of the same caller, or of one who has fewer: it is rebuilt when it is
 * needed again. */
static bool make_room(struct agent *agent, const struct caller *caller, bool of_others)
{
    char id[SESSION_ID_MAX];
    size_t own = find_idle(agent, caller, id);

    return end_session(agent, caller, id) || (of_others && make_room_of_others(agent, own));
}

/* ---- making one ---- */

static int request_session(struct agent *agent, const struct caller *caller,
                           const struct mounts *mounts, const char *template, int64_t disk_bytes,
                           struct session **ret_session, struct fault *fault)
{
    struct session_request request;
    int r;

    session_request_init(&request);
    request.idle_us = IDLE_US;
    request.template = template;
    /* The name of a package would reach the index: a way out for what a model reads. */
    request.no_installs = !agent->config.installs;
    request.volumes = mounts->items;
    request.volumes_len = mounts->len;
    request.inner_volumes = true;
    if (disk_bytes > 0) {
        request.limits.disk_bytes = disk_bytes;
        request.limits.file_bytes = disk_bytes;
    }
    r = session_create(agent->config.service, caller, &request, ret_session, fault);
    if (r < 0 &&
        (fault->problem == PROBLEM_SESSIONS_MAX || fault->problem == PROBLEM_KEY_SESSIONS) &&
        make_room(agent, caller, fault->problem == PROBLEM_SESSIONS_MAX))
        r = session_create(agent->config.service, caller, &request, ret_session, fault);
    if (r == 0)
        remember(agent, caller, session_id(*ret_session));
    else
        mounts_explain(mounts, fault);
    return r;
}

int cells_session_new(struct agent *agent, const struct caller *caller,
                      const struct history *history, const char *template,
                      struct session **ret_session, struct fault *fault)
{
    int64_t bytes = 0;

    for (size_t i = 0; i < history->files_len; i++)
        bytes += history->files[i].attachment.size;
    if (bytes > 0 && request_session(agent, caller, &history->mounts, template,
                                     2 * bytes + SPARE_BYTES, ret_session, fault) == 0)
        return 0;
    if (bytes > 0 && fault->problem != PROBLEM_LIMIT_ABOVE_CEILING &&
        fault->problem != PROBLEM_LIMIT_OUT_OF_RANGE)
        return -1;
    return request_session(agent, caller, &history->mounts, template, 0, ret_session, fault);
}

static int copy_into(struct file_upload *upload, int fd, struct fault *fault)
{
    autofree char *buf = malloc(COPY_BYTES);
    ssize_t n;

    if (!buf)
        return fault_no_memory(fault);
    for (;;) {
        n = read(fd, buf, COPY_BYTES);
        if (n == 0)
            return 0;
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return fault_set(fault, PROBLEM_INTERNAL, NULL, "an attachment could not be read");
        if (files_upload_write(upload, buf, (size_t) n, fault) < 0)
            return -1;
    }
}

int cells_upload(struct agent *agent, struct session *session, struct chat_file *file,
                 struct fault *fault)
{
    struct file_upload *upload;
    autoclose int fd = -1;
    struct gb_err err;
    bool created;

    if (attachment_open(agent->config.attachments, file->attachment.sha256, &fd, &err) < 0)
        return fault_set(fault, PROBLEM_ATTACHMENT_UNKNOWN, NULL, "the attachment %s was deleted",
                         file->attachment.name);
    if (files_upload_begin(session, file->path, strlen(file->path), file->attachment.size, &upload,
                           fault) < 0)
        return -1;
    if (copy_into(upload, fd, fault) < 0) {
        files_upload_abort(upload);
        return -1;
    }
    if (files_upload_commit(upload, &created, fault) < 0)
        return -1;
    file->uploaded = true;
    return 0;
}

/* The directories of data sources, as a dict of Python. */
static void add_directories(struct text *text, const struct mounts *mounts)
{
    text_puts(text, "mark._directories = {");
    for (size_t i = 0; i < mounts->len; i++) /* names of sources have no quotes */
        text_printf(text, "\"%s\": \"%s\", ", mounts->items[i].target + strlen(FILES_PLACE "/"),
                    mounts->items[i].target);
    text_puts(text, "}\n");
}

char *cells_prelude(const struct history *history)
{
    json_t *files = json_object();
    struct text text = { 0 };
    char *dump;

    for (size_t i = 0; i < history->files_len; i++) {
        const struct chat_file *file = &history->files[i];
        struct text path = { 0 };

        if (!file->uploaded)
            continue;
        text_printf(&path, "/workspace/%s", file->path);
        if (path.data)
            (void) json_object_set_new(files, strrchr(file->path, '/') + 1, json_string(path.data));
        text_release(&path);
    }
    /* Strings of JSON in ASCII are strings of Python. */
    dump = json_dumps(files, JSON_ENSURE_ASCII);
    json_decref(files);
    text_puts(&text, mark_box_program);
    if (dump)
        text_printf(&text, "mark._attachments = %s\n", dump);
    else
        text.failed = true;
    free(dump);
    if (history->mounts.len > 0)
        add_directories(&text, &history->mounts);
    return text_take(&text);
}

/* ---- the chat's ---- */

/* The one that the chat had, if it is still there and has the directories of just those sources
 * that the answer may use: one that has others is ended, and rebuilt. */
static void find_session(struct work *work)
{
    struct cells *cells = &work->cells;
    struct store_chat chat;
    struct session_info info;
    struct fault ignored;
    struct gb_err err;
    bool same;

    if (store_chat_get(work->agent->config.store, principal_text(&work->answer->caller.principal),
                       work->answer->chat_id, &chat, &err) < 0 ||
        !chat.session_id[0] ||
        session_find(work->agent->config.service, &work->answer->caller, chat.session_id,
                     &cells->session, &ignored) < 0)
        return;
    session_get_info(cells->session, &info);
    cells->lost = info.state == SESSION_LOST;
    same = mounts_are(&work->history.mounts, info.volumes);
    session_info_release(&info);
    cells->prepared = !cells->lost;
    if (!same) {
        (void) session_delete(cells->session, &ignored);
        cells_release(cells);
    }
}

/* Which directories the answer's programs may read, once. */
static int find_mounts(struct work *work, struct fault *fault)
{
    struct mounts *mounts = &work->history.mounts;
    const json_t *sentence;
    size_t i;

    if (work->history.mounted)
        return 0;
    if (mounts_add(work->agent->config.sources, work->agent->config.service, &work->answer->caller,
                   work->answer->sources, mounts, fault) < 0)
        return -1;
    json_array_foreach (mounts->left_out, i, sentence)
        work_notice(work, "%s", json_string_value(sentence));
    work->history.mounted = true;
    return 0;
}

static int upload_files(struct work *work, bool all, struct fault *fault)
{
    size_t missing = 0;

    for (size_t i = 0; i < work->history.files_len; i++) {
        struct chat_file *file = &work->history.files[i];

        if (file->uploaded || (!all && !file->current)) {
            file->uploaded = true;
            continue;
        }
        if (cells_upload(work->agent, work->cells.session, file, fault) == 0)
            continue;
        if (fault->problem != PROBLEM_ATTACHMENT_UNKNOWN)
            return -1;
        missing++;
    }
    if (missing > 0)
        work_notice(work, "%zu attached files of this chat were deleted meanwhile.", missing);
    return 0;
}

/* Runs a cell that nobody sees; one that fails is counted. */
static int run_aside(struct work *work, const char *code, struct scope *scope, size_t *failed,
                     struct fault *fault)
{
    struct answer *answer = work->answer;
    json_t *receipt = NULL;
    int64_t until_us = work->soft_us;
    int r;

    if (until_us < clock_now_us() + PRELUDE_US / 10)
        until_us = clock_now_us() + PRELUDE_US / 10;
    r = cells_execute(work->agent, &answer->caller, answer, work->cells.session, 0, code,
                      work->cells.lost, scope, until_us, &receipt, fault);
    if (r < 0)
        return r;
    work->cells.lost = json_is_true(json_object_get(receipt, "session_lost"));
    *failed += !receipt_ok(receipt);
    json_decref(receipt);
    return 0;
}

/* Whether the rebuilding may go on: it is part of the answer's time. */
static int check_going(const struct work *work, struct fault *fault)
{
    if (atomic_load(&work->answer->stop))
        return fault_set(fault, PROBLEM_INTERNAL, NULL, "the answer was stopped");
    if (clock_now_us() >= work->soft_us)
        return fault_set(fault, PROBLEM_INTERNAL, NULL,
                         "running the earlier programs of this chat again takes longer than an "
                         "answer may");
    return 0;
}

/* What the queries of those programs returned then, they return again; what was not kept is asked
 * for. */
static int replay_queries(struct work *work, struct queries *q, struct fault *fault)
{
    const char *owner = principal_text(&work->answer->caller.principal);
    struct store *store = work->agent->config.store;
    struct query_record *records = NULL;
    struct gb_err err = { 0 };
    size_t len = 0;
    int r = 0;

    for (size_t i = 0; r == 0 && work->history.answers && work->history.answers[i]; i++)
        r = query_records_load(store, owner, work->history.answers[i], &records, &len, &err);
    if (r == 0)
        r = query_records_load(store, owner, work->answer->message_id, &records, &len, &err);
    if (r < 0) {
        query_records_free(records, len);
        return agent_store_fault(work->agent, PROBLEM_MESSAGE_UNKNOWN, "read queries", r, &err,
                                 fault);
    }
    return queries_begin_replay(q, work->agent, work->answer, work->cells.session, records, len,
                                false, fault);
}

/* The chat's programs once more, and those of this answer. */
static int replay_cells(struct work *work, struct scope *scope, size_t *count, size_t *failed,
                        struct fault *fault)
{
    const json_t *cell, *step;
    size_t i;

    json_array_foreach (work->history.cells, i, cell) {
        if (check_going(work, fault) < 0 ||
            run_aside(work, json_string_value(cell), scope, failed, fault) < 0)
            return -1;
        (*count)++;
    }
    json_array_foreach (work->answer->gathered.steps, i, step) {
        if (!receipt_ok(json_object_get(step, "receipt")))
            continue;
        if (check_going(work, fault) < 0 ||
            run_aside(work, json_string_value(json_object_get(step, "code")), scope, failed,
                      fault) < 0)
            return -1;
        (*count)++;
    }
    return 0;
}

static int replay(struct work *work, struct fault *fault)
{
    size_t count = 0, failed = 0;
    struct queries q = { 0 };
    int r = replay_queries(work, &q, fault);

    if (r == 0)
        r = replay_cells(work, q.scope, &count, &failed, fault);
    queries_release(&q);
    if (r < 0)
        return r;
    if (count == 0)
        return 0;
    if (check_going(work, fault) < 0) /* the last one may have been interrupted */
        return -1;
    if (failed > 0)
        work_notice(work,
                    "The session was rebuilt: %zu earlier programs of this chat were run again, "
                    "and %zu of them failed this time.",
                    count, failed);
    else
        work_notice(work,
                    "The session was rebuilt: %zu earlier program%s of this chat %s run again.",
                    count, count == 1 ? "" : "s", count == 1 ? "was" : "were");
    return 0;
}

static int prepare(struct work *work, bool all, struct fault *fault)
{
    autofree char *prelude = NULL;
    size_t failed = 0;

    if (upload_files(work, all, fault) < 0)
        return -1;
    prelude = cells_prelude(&work->history);
    if (!prelude)
        return fault_no_memory(fault);
    if (run_aside(work, prelude, NULL, &failed, fault) < 0)
        return -1;
    if (failed > 0)
        return fault_set(fault, PROBLEM_INTERNAL, NULL, "the session could not be prepared");
    return all ? replay(work, fault) : 0;
}

/* Prepares the session, or ends it: one that is prepared in part must not be taken for whole by the
 * next question. */
static int prepare_or_end(struct work *work, bool all, struct fault *fault)
{
    struct fault ignored;
    int r = prepare(work, all, fault);

    if (r < 0) {
        (void) session_delete(work->cells.session, &ignored);
        cells_release(&work->cells);
    }
    return r;
}

static bool has_new_files(const struct history *history)
{
    for (size_t i = 0; i < history->files_len; i++)
        if (history->files[i].current && !history->files[i].uploaded)
            return true;
    return false;
}

static int ensure(struct work *work, struct fault *fault)
{
    struct cells *cells = &work->cells;
    struct gb_err err;

    if (find_mounts(work, fault) < 0)
        return -1;
    if (!cells->session)
        find_session(work);
    if (cells->session && cells->prepared)
        return has_new_files(&work->history) ? prepare_or_end(work, false, fault) : 0;
    if (!cells->session) {
        for (size_t i = 0; i < work->history.files_len; i++)
            work->history.files[i].uploaded = false;
        if (cells_session_new(work->agent, &work->answer->caller, &work->history, NULL,
                              &cells->session, fault) < 0)
            return -1;
        cells->lost = false;
        if (store_chat_set(work->agent->config.store, work->answer->chat_id,
                           session_id(cells->session), NULL, &err) < 0)
            service_log(work->agent->config.service, LOG_LEVEL_ERROR, "mark: %s", err.msg);
    }
    if (prepare_or_end(work, true, fault) < 0)
        return -1;
    cells->prepared = true;
    return 0;
}

/* Whether the session is gone, so that another one may serve. */
static bool is_gone(const struct fault *fault)
{
    return fault->problem == PROBLEM_SESSION_LOST || fault->problem == PROBLEM_SESSION_UNKNOWN ||
           fault->problem == PROBLEM_SESSION_EXPIRED || fault->problem == PROBLEM_SESSION_DELETED ||
           fault->problem == PROBLEM_SESSION_ENDED;
}

/* With its queries. */
static int run_step(struct work *work, int64_t n, const char *code, json_t **ret_receipt,
                    struct fault *fault)
{
    struct queries q;
    int r = queries_begin(&q, work, n, fault);

    if (r == 0)
        r = cells_execute(work->agent, &work->answer->caller, work->answer, work->cells.session, n,
                          code, work->cells.lost, q.scope, work->soft_us, ret_receipt, fault);
    queries_end(&q, work, r == 0 ? *ret_receipt : NULL);
    return r;
}

int cells_run(struct work *work, int64_t n, const char *code, json_t **ret_receipt,
              struct fault *fault)
{
    struct cells *cells = &work->cells;

    for (int i = 0; i < 2; i++) {
        int r = ensure(work, fault);

        if (r == 0)
            r = run_step(work, n, code, ret_receipt, fault);
        if (r == 0) {
            cells->lost = json_is_true(json_object_get(*ret_receipt, "session_lost"));
            if (cells->lost)
                cells->prepared = false;
            return 0;
        }
        if (!is_gone(fault))
            return -1;
        if (fault->problem == PROBLEM_SESSION_LOST) {
            cells->lost = true;
            cells->prepared = false;
        } else {
            cells_release(cells);
        }
    }
    return -1;
}
