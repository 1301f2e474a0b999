/*
 * What test_cgroup.c needs around its tests: a group to begin with, processes that live in one, and
 * whole engines that can be killed.
 */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "engine/cgroup/cgroup.h"
#include "engine/cgroup/internal.h"
#include "engine/limits.h"

#define MIB      (INT64_C(1) << 20)
#define PATIENCE (60 * USEC_PER_SEC) /* ends a test that hangs; nothing waits for it to pass */
#define LIFE_S   300                 /* of processes that a failed test leaves behind */

static enum cgroup_mode mode; /* the backend under test */

/* ---- a root and a group ---- */

static struct cgroup_root *root_of(enum cgroup_mode wanted)
{
    struct cgroup_root *root = NULL;
    struct gb_err err = { 0 };

    if (cgroup_root_open(wanted, &root, &err) < 0)
        fail_msg("open: %s", err.msg);
    assert_int_equal(cgroup_root_mode(root), wanted);
    return root;
}

static struct limits small_limits(void)
{
    struct limits l;

    limits_default(&l);
    l.memory_bytes = 16 * MIB;
    l.pids = 4;
    l.cpu_milli = 500;
    return l;
}

/* What most tests start with: a root and a group in it; a test that removed it says so. */
struct fixture {
    struct cgroup_root *root;
    struct limits l;
    struct cgroup cg;
    bool removed;
};

static int fixture_setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);

    assert_non_null(f);
    f->root = root_of(mode);
    f->l = small_limits();
    assert_int_equal(cgroup_make(f->root, "box", &f->l, &f->cg, NULL), 0);
    *state = f;
    return 0;
}

static int fixture_teardown(void **state)
{
    struct fixture *f = *state;
    int r = f->removed ? 0 : cgroup_remove(f->root, &f->cg, PATIENCE);

    cgroup_root_close(f->root);
    free(f);
    return r;
}

/* Is there something of that engine in any hierarchy of @root? */
static bool engine_exists(const struct cgroup_root *root, const char *engine)
{
    for (int i = 0; i < root->n_hiers; i++) {
        if (faccessat(root->hiers[i].parent_fd, engine, F_OK, 0) == 0)
            return true;
    }
    return false;
}

static bool group_exists(const struct cgroup_root *root, const char *name)
{
    for (int i = 0; i < root->n_hiers; i++) {
        if (faccessat(root->hiers[i].engine_fd, name, F_OK, 0) == 0)
            return true;
    }
    return false;
}

/* ---- processes in it ---- */

struct body {
    int (*run)(struct body *body);
    int64_t bytes;
    bool outlives; /* the process that starts it */
    int ready;     /* the write end of a pipe */
};

static _Noreturn void body_main(struct body *body, const int *fds, int count, pid_t parent)
{
    alarm(LIFE_S);
    if (!body->outlives && (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent))
        _exit(97);
    for (int i = 0; i < count; i++) {
        if (write(fds[i], "0", 1) != 1)
            _exit(99);
    }
    /* As a box does it: nothing of the engine stays open, its lock least of all. */
    if (dup2(body->ready, 3) != 3 || syscall(SYS_close_range, 4, ~0U, 0) < 0)
        _exit(98);
    body->ready = 3;
    _exit(body->run(body));
}

/* Starts @body in the group, in the way the backend wants it, and waits for the number that it
 * has to say; -1 when it died before. */
static pid_t start(const struct cgroup_root *root, const struct cgroup *cg, struct body body,
                   int32_t *ret_value)
{
    struct clone_args args = { .exit_signal = SIGCHLD };
    int fds[CGROUP_FDS_MAX], p[2], count = cgroup_open_procs(root, cg, fds, NULL);
    pid_t pid, parent = getpid();

    assert_true(count >= 0);
    assert_int_equal(pipe2(p, O_CLOEXEC), 0);
    body.ready = p[1];
    if (cgroup_clone_fd(root, cg) >= 0) {
        args.flags = CLONE_INTO_CGROUP;
        args.cgroup = (uint64_t) cgroup_clone_fd(root, cg);
    }
    pid = (pid_t) syscall(SYS_clone3, &args, sizeof args);
    assert_true(pid >= 0);
    if (pid == 0)
        body_main(&body, fds, count, parent);
    for (int i = 0; i < count; i++)
        close(fds[i]);
    close(p[1]);
    if (read(p[0], ret_value, sizeof *ret_value) != (ssize_t) sizeof *ret_value)
        *ret_value = -1;
    close(p[0]);
    return pid;
}

static void body_ready(struct body *body, int32_t value)
{
    if (write(body->ready, &value, sizeof value) != (ssize_t) sizeof value)
        _exit(98);
    close(body->ready);
}

static int body_touch(struct body *body)
{
    char *p = mmap(NULL, (size_t) body->bytes + 1, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (p == MAP_FAILED)
        return 1;
    /* Every page written, and in a way that no compiler leaves out. */
    for (int64_t i = 0; i < body->bytes; i += 4096)
        ((volatile char *) p)[i] = 1;
    body_ready(body, 1);
    pause();
    return 0;
}

static int body_forks(struct body *body)
{
    int32_t count = 0;

    while (count < 32) {
        pid_t parent = getpid(), pid = fork();

        if (pid < 0)
            break;
        if (pid == 0) {
            if (prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == parent)
                pause();
            _exit(0);
        }
        count++;
    }
    body_ready(body, count);
    pause();
    return 0;
}

static void assert_killed(pid_t pid)
{
    int status;

    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGKILL);
}

static void end(pid_t pid)
{
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_killed(pid);
}

/* ---- engines ---- */

struct engine {
    char name[CGROUP_NAME_MAX];
    pid_t pid;
    pid_t box;    /* lives in its only box */
    pid_t keeper; /* holds the lock after the engine, if there is one */
    int box_fd;   /* pidfd of the box */
};

static _Noreturn void engine_main(int fd, bool with_keeper)
{
    struct limits l = small_limits();
    struct engine e = { .pid = getpid() };
    struct cgroup_root *root;
    struct cgroup cg;
    int32_t said;

    alarm(LIFE_S);
    if (cgroup_root_open(mode, &root, NULL) < 0 || cgroup_make(root, "box", &l, &cg, NULL) < 0)
        _exit(1);
    snprintf(e.name, sizeof e.name, "%s", cgroup_root_name(root));
    /* It lives on when the engine is killed, so that there is something to sweep. */
    e.box = start(root, &cg, (struct body){ .run = body_touch, .outlives = true }, &said);
    e.keeper = with_keeper ? fork() : 0;
    alarm(LIFE_S); /* a fork does not inherit it */
    if ((!with_keeper || e.keeper > 0) && write(fd, &e, sizeof e) != (ssize_t) sizeof e)
        _exit(1);
    pause();
    _exit(0);
}

static struct engine engine_start(bool with_keeper)
{
    struct engine e;
    int p[2];
    pid_t pid;

    assert_int_equal(pipe2(p, O_CLOEXEC), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        engine_main(p[1], with_keeper);
    close(p[1]);
    assert_int_equal(read(p[0], &e, sizeof e), sizeof e);
    close(p[0]);
    e.box_fd = (int) syscall(SYS_pidfd_open, e.box, 0);
    assert_true(e.box_fd >= 0);
    return e;
}

static bool box_is_dead(const struct engine *e, int wait_ms)
{
    struct pollfd p = { .fd = e->box_fd, .events = POLLIN };

    return poll(&p, 1, wait_ms) == 1;
}
