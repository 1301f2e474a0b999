/* The terminals of a session: opening, finding and ending them. */
#include "service/terminal/terminals.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "base/clock.h"
#include "base/text/strv.h"
#include "base/thread.h"
#include "service/access/audit.h"
#include "service/session/env.h"
#include "service/terminal/internal.h"

#include "base/banned.h"

/* ---- references ---- */

struct terminal *terminal_ref(struct terminal *t)
{
    atomic_fetch_add(&t->refs, 1);
    return t;
}

void terminal_unref(struct terminal *t)
{
    if (!t || atomic_fetch_sub(&t->refs, 1) != 1)
        return;
    pthread_cond_destroy(&t->changed);
    pthread_mutex_destroy(&t->lock);
    if (t->wake_fd >= 0)
        (void) close(t->wake_fd);
    free(t->input);
    free(t);
}

static struct terminal *terminal_new(struct session *session,
                                     const struct terminal_request *request)
{
    struct terminal *t = calloc(1, sizeof *t);

    if (!t)
        return NULL;
    t->service = session->service;
    t->session = session;
    t->ring = (struct ring){ .data = t->kept, .size = sizeof t->kept };
    t->cols = (uint16_t) request->cols;
    t->rows = (uint16_t) request->rows;
    t->created_us = clock_now_us();
    t->created_unix_us = unix_now_us();
    atomic_init(&t->refs, 1);
    pthread_mutex_init(&t->lock, NULL);
    cond_init(&t->changed);
    memcpy(t->session_id, session->id, sizeof t->session_id);
    t->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    t->input = malloc(QUEUE_SIZE);
    if (!t->input || t->wake_fd < 0 || id_new("trm_", t->id, sizeof t->id) < 0) {
        terminal_unref(t);
        return NULL;
    }
    return t;
}

/* ---- its program ---- */

/* For the audit log: the words of the command, with spaces between. */
static int command_note(struct terminal *t, const char *const *argv)
{
    autofree char *text = NULL;
    size_t len = 0, at = 0;

    for (size_t i = 0; argv[i]; i++)
        len += strlen(argv[i]) + 1;
    text = malloc(len + 1);
    if (!text)
        return -ENOMEM;
    for (size_t i = 0; argv[i]; i++)
        at += (size_t) snprintf(text + at, len + 1 - at, "%s%s", i ? " " : "", argv[i]);
    audit_hash_code(text, at, t->code_hash);
    t->code_bytes = (int64_t) at;
    return 0;
}

/* A terminal's own variables, the session's over them, then those of the request. */
static int env_make(const struct session *session, const struct terminal_request *request,
                    const char *const *own, char ***ret_env)
{
    char **first = NULL;
    int r = env_join((char *const *) own, session->lodging.env, &first);

    if (r == 0)
        r = env_join(first, (char *const *) request->env, ret_env);
    strv_free(first);
    return r;
}

static int start_one(struct terminal *t, const struct terminal_request *request,
                     const char *const *argv, const char *const *own, struct gb_err *err)
{
    char **env = NULL;
    int r;

    if (env_make(t->session, request, own, &env) < 0 || command_note(t, argv) < 0) {
        strv_free(env);
        return gb_fail(err, ENOMEM, "start a terminal");
    }
    r = pty_open(t->session->lodging.box, (char *const *) argv, env, NULL, t->cols, t->rows,
                 &t->pty, err);
    strv_free(env);
    return r;
}

/* Without a command: bash, or what the box has. Its history stays in memory: the workspace is the
 * home directory, and its files are the session's. */
static int start_program(struct terminal *t, const struct terminal_request *request,
                         struct gb_err *err)
{
    static const char *const bash[] = { "/bin/bash", "-i", NULL }, *const sh[] = { "/bin/sh", "-i",
                                                                                   NULL };
    static const char *const bash_env[] = { "TERM=xterm-256color",
                                            "COLORTERM=truecolor",
                                            "SHELL=/bin/bash",
                                            "HISTFILE=",
                                            "PS1=\\[\\e[1;32m\\]\\w\\[\\e[0m\\]\\$ ",
                                            NULL };
    static const char *const sh_env[] = { "TERM=xterm-256color", "COLORTERM=truecolor", "PS1=$ ",
                                          NULL };
    int r;

    if (request->argv && request->argv[0])
        return start_one(t, request, request->argv, sh_env, err);
    r = start_one(t, request, bash, bash_env, err);
    return r == -ENOENT ? start_one(t, request, sh, sh_env, err) : r;
}

static int fault_from_start(struct terminal *t, const struct terminal_request *request, int r,
                            const struct gb_err *err, struct fault *fault)
{
    switch (-r) {
    case ENOENT:
    case EACCES:
    case EPERM:
    case ENOEXEC:
    case ENOTDIR:
    case EISDIR:
    case ELOOP:
    case ENAMETOOLONG:
    case E2BIG:
        return fault_set(fault, PROBLEM_TERMINAL_COMMAND, "command",
                         "'%.100s' cannot be executed in the box: %s",
                         request->argv && request->argv[0] ? request->argv[0] : "bash",
                         strerror(-r));
    case EAGAIN:
    case ENOSPC:
    case ENOMEM:
        (void) fault_set(fault, PROBLEM_BOX_FULL, NULL,
                         "the box has no process or pseudo-terminal left; end some");
        fault->retry_after_s = 1;
        return -1;
    default:
        return fault_from_engine(t->service, "the terminal could not be started", err, fault);
    }
}

/* ---- opening one ---- */

static int request_check(const struct terminal_request *request, struct fault *fault)
{
    if (request->cols < 1 || request->cols > TERMINAL_SIDE_MAX || request->rows < 1 ||
        request->rows > TERMINAL_SIDE_MAX)
        return fault_set(fault, PROBLEM_INVALID_REQUEST, "cols",
                         "cols and rows must be from 1 to %d", TERMINAL_SIDE_MAX);
    if (request->argv && request->argv[0] && !request->argv[0][0])
        return fault_set(fault, PROBLEM_TERMINAL_COMMAND, "command", "the command has no name");
    return env_check(request->env, fault);
}

/* With the session's lock held: takes the oldest that exited and that nobody looks at out of the
 * list; NULL if there is none. */
static struct terminal *oldest_exited(struct session *session)
{
    for (size_t i = 0; i < session->terminals_len; i++) {
        struct terminal *t = session->terminals[i];
        bool spent;

        pthread_mutex_lock(&t->lock);
        spent = t->exited && t->clients_len == 0;
        pthread_mutex_unlock(&t->lock);
        if (!spent)
            continue;
        session->terminals_len--;
        memmove(&session->terminals[i], &session->terminals[i + 1],
                (session->terminals_len - i) * sizeof(struct terminal *));
        return t;
    }
    return NULL;
}

/* Reserves a place in the session; one that exited makes room. */
static int place_take(struct session *session, struct fault *fault)
{
    struct terminal *spent = NULL;
    enum session_end end;
    bool full;

    pthread_mutex_lock(&session->lock);
    end = session->end;
    if (session->terminals_len + session->terminals_opening >= TERMINALS_PER_SESSION)
        spent = oldest_exited(session);
    full = session->terminals_len + session->terminals_opening >= TERMINALS_PER_SESSION;
    if (end == END_NONE && !full) {
        session->terminals_opening++;
        session->last_used_us = service_now(session->service);
    }
    pthread_mutex_unlock(&session->lock);
    terminal_unref(spent);
    if (end != END_NONE) {
        session_fault_ended(end, session->id, fault);
        return -1;
    }
    if (!full)
        return 0;
    (void) fault_set(fault, PROBLEM_TERMINALS_MAX, NULL,
                     "this session already has %d terminals, the maximum; delete one first",
                     TERMINALS_PER_SESSION);
    fault->retry_after_s = 1;
    return -1;
}

static void place_give(struct session *session)
{
    pthread_mutex_lock(&session->lock);
    session->terminals_opening--;
    pthread_mutex_unlock(&session->lock);
}

/* Puts it into the place that was reserved; the list gets a reference. */
static int publish(struct session *session, struct terminal *t, struct fault *fault)
{
    enum session_end end;

    pthread_mutex_lock(&session->lock);
    session->terminals_opening--;
    end = session->end;
    if (end == END_NONE)
        session->terminals[session->terminals_len++] = terminal_ref(t);
    pthread_mutex_unlock(&session->lock);
    if (end == END_NONE)
        return 0;
    session_fault_ended(end, session->id, fault);
    return -1;
}

/* Starts the program and the thread, which gives back what the account has lent. */
static int start(struct terminal *t, const struct terminal_request *request, struct fault *fault)
{
    struct gb_err err = { 0 };
    int r = start_program(t, request, &err);

    if (r < 0) {
        (void) fault_from_start(t, request, r, &err, fault);
    } else {
        terminal_audit(t, "terminal");
        r = terminal_start(t);
        if (r < 0) {
            pty_free(t->pty);
            (void) fault_no_memory(fault);
        }
    }
    if (r < 0)
        account_give_terminal(t->service, t->session->account);
    return r < 0 ? -1 : 0;
}

/* With a place in the session. */
static int open_in(struct session *session, const struct caller *caller,
                   const struct terminal_request *request, struct terminal **ret_terminal,
                   struct fault *fault)
{
    struct terminal *t;

    if (account_take_terminal(session->service, caller, session->account, fault) < 0) {
        place_give(session);
        return -1;
    }
    t = terminal_new(session, request);
    if (!t) {
        account_give_terminal(session->service, session->account);
        (void) fault_no_memory(fault);
    }
    if (!t || start(t, request, fault) < 0) {
        place_give(session);
        terminal_unref(t);
        return -1;
    }
    if (publish(session, t, fault) < 0) {
        terminal_stop(t, TERMINAL_KILL);
        terminal_wait_exit(t);
        terminal_unref(t);
        return -1;
    }
    *ret_terminal = t;
    return 0;
}

int terminal_open(struct session *session, const struct caller *caller,
                  const struct terminal_request *request, struct terminal **ret_terminal,
                  struct fault *fault)
{
    struct service *service = session->service;
    struct gb_err err;

    if (request_check(request, fault) < 0)
        return -1;
    /* What cannot be logged is not run. */
    if (service->audit && audit_check(service->audit, &err) < 0)
        return fault_from_engine(service, "the audit log cannot be written", &err, fault);
    if (place_take(session, fault) < 0)
        return -1;
    if (open_in(session, caller, request, ret_terminal, fault) < 0) {
        atomic_fetch_add(&service->refused, 1);
        return -1;
    }
    atomic_fetch_add(&service->terminals_opened, 1);
    service_log(service, LOG_LEVEL_INFO, "terminal %s opened in session %s", (*ret_terminal)->id,
                session->id);
    return 0;
}

/* ---- finding and ending ---- */

int terminal_find(struct session *session, const char *id, struct terminal **ret_terminal,
                  struct fault *fault)
{
    struct terminal *found = NULL;

    pthread_mutex_lock(&session->lock);
    for (size_t i = 0; i < session->terminals_len && !found; i++)
        if (strcmp(session->terminals[i]->id, id) == 0)
            found = terminal_ref(session->terminals[i]);
    pthread_mutex_unlock(&session->lock);
    if (!found)
        return fault_set(fault, PROBLEM_TERMINAL_UNKNOWN, "terminal_id",
                         "no such terminal in this session; list them, or open one");
    *ret_terminal = found;
    return 0;
}

void terminal_get_info(struct terminal *t, struct terminal_info *ret_info)
{
    *ret_info = (struct terminal_info){ .created_unix_us = t->created_unix_us };
    memcpy(ret_info->id, t->id, sizeof ret_info->id);
    memcpy(ret_info->session_id, t->session_id, sizeof ret_info->session_id);
    pthread_mutex_lock(&t->lock);
    ret_info->cols = t->cols;
    ret_info->rows = t->rows;
    ret_info->exited = t->exited;
    ret_info->exit_code = t->exited ? t->exit_code : 0;
    ret_info->clients = (int64_t) t->clients_len;
    pthread_mutex_unlock(&t->lock);
}

size_t terminal_list(struct session *session, struct terminal_info infos[TERMINALS_PER_SESSION])
{
    size_t len;

    pthread_mutex_lock(&session->lock);
    len = session->terminals_len;
    for (size_t i = 0; i < len; i++)
        terminal_get_info(session->terminals[i], &infos[i]);
    pthread_mutex_unlock(&session->lock);
    return len;
}

/* Returns whether it was in the list. */
static bool list_remove(struct session *session, struct terminal *t)
{
    bool found = false;

    pthread_mutex_lock(&session->lock);
    for (size_t i = 0; i < session->terminals_len; i++) {
        if (found)
            session->terminals[i - 1] = session->terminals[i];
        found = found || session->terminals[i] == t;
    }
    if (found)
        session->terminals_len--;
    pthread_mutex_unlock(&session->lock);
    if (found)
        terminal_unref(t);
    return found;
}

int terminal_delete(struct session *session, struct terminal *t, struct fault *fault)
{
    /* It stays in the list until its end, so that the end of the session waits for it. */
    terminal_stop(t, TERMINAL_HANG_UP);
    terminal_wait_exit(t);
    if (!list_remove(session, t))
        return fault_set(fault, PROBLEM_TERMINAL_UNKNOWN, "terminal_id",
                         "no such terminal in this session; it was deleted meanwhile");
    return 0;
}

void terminals_end(struct session *session)
{
    struct terminal *list[TERMINALS_PER_SESSION];
    size_t len;

    pthread_mutex_lock(&session->lock);
    len = session->terminals_len;
    memcpy(list, session->terminals, sizeof list);
    session->terminals_len = 0; /* and no more are added: the session has ended */
    pthread_mutex_unlock(&session->lock);
    for (size_t i = 0; i < len; i++)
        terminal_stop(list[i], TERMINAL_KILL);
    for (size_t i = 0; i < len; i++) {
        terminal_wait_exit(list[i]);
        terminal_unref(list[i]);
    }
}
