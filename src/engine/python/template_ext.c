/*
 * The C part of a template, as a Python extension of the stable ABI.
 *
 * Theory of operation. The template's Python (runner/glovebox_runner/template.py) imports the
 * modules to preload and then calls serve(). That waits for requests of the supervisor. For each
 * one the template switches to the box's PID namespace for its children, clones once and switches
 * back at once: a template that stayed there could not clone after that box has died. The clone is
 * a child of the supervisor (CLONE_PARENT). In the clone serve() returns, after sealing, so that
 * the Python code above it continues as the tenant; in the template it returns only when the
 * supervisor is gone.
 *
 * The clone is a raw system call, as no libc function has CLONE_PARENT or CLONE_INTO_CGROUP.
 * Therefore two tasks of fork() are done here: the C library's cached thread id is rewritten by the
 * kernel (CLONE_CHILD_SETTID at the address that libc itself registered), and CPython's own hooks
 * run before and after. There is exactly one thread, so no lock can be held by another: a module
 * that leaves threads is not preloaded, and those that are known to be idle are ended
 * (end_thread()).
 *
 * The cost of a clone is mostly copying and tearing down page tables, entry by entry. So the
 * interpreter's heap is kept in one place (its arenas come from a region of ours), and once
 * everything is imported that region and the C library's heap are collapsed into huge pages: one
 * entry instead of 512. A clone that writes to one still copies only the small page.
 */
#include <Python.h>

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/sched.h>
#include <malloc.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/autoclean.h"
#include "engine/python/output_ext.h"
#include "engine/python/tenant_ext.h"
#include "engine/seal/seal.h"
#include "engine/shared/wire.h"

#include "base/banned.h"

/* Descriptors 0 to 3 are in use as long as a template lives, so received ones have higher
 * numbers. */
struct template_state {
    int control;
    int own_pid_ns;
    uint64_t tid_address;
};

/* ---- huge pages ---- */

#define HUGE_PAGE      ((uintptr_t) 2 << 20)
#define MMAP_THRESHOLD (128 << 10)        /* glibc's own */
#define ARENAS_REGION  ((size_t) 1 << 30) /* reserved, not used: more than any template needs */
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* 6.1; Debian 12's headers are older than its kernel */
#endif

/* As declared by CPython outside the stable ABI, unchanged since 3.4. */
struct arena_allocator {
    void *ctx;
    void *(*alloc)(void *ctx, size_t size);
    void (*free)(void *ctx, void *arena, size_t size);
};

static struct arenas {
    struct arena_allocator usual;
    uintptr_t start, next, end;
    bool closed; /* arenas allocated after preloading are not shared with clones */
} arenas;

static void *arena_alloc(void *ctx, size_t size)
{
    uintptr_t arena = arenas.next;

    (void) ctx;
    if (arenas.closed || size > arenas.end - arena)
        return arenas.usual.alloc(arenas.usual.ctx, size);
    arenas.next += size;
    return (void *) arena; // NOLINT(performance-no-int-to-ptr)
}

static void arena_free(void *ctx, void *arena, size_t size)
{
    (void) ctx;
    if ((uintptr_t) arena < arenas.start || (uintptr_t) arena >= arenas.end)
        arenas.usual.free(arenas.usual.ctx, arena, size);
    else
        (void) madvise(arena, size, MADV_DONTNEED); /* its address range stays unused */
}

/* Makes the interpreter take its arenas from one region. Has no effect on an interpreter without
 * that interface. */
static void arenas_gather(void)
{
    void (*get)(struct arena_allocator *), (*set)(struct arena_allocator *);
    struct arena_allocator ours = { NULL, arena_alloc, arena_free };
    void *region;

    *(void **) &get = dlsym(RTLD_DEFAULT, "PyObject_GetArenaAllocator");
    *(void **) &set = dlsym(RTLD_DEFAULT, "PyObject_SetArenaAllocator");
    if (!get || !set)
        return;
    region = mmap(NULL, ARENAS_REGION, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (region == MAP_FAILED)
        return;
    arenas.start = ((uintptr_t) region + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1);
    arenas.next = arenas.start;
    arenas.end = (uintptr_t) region + ARENAS_REGION;
    get(&arenas.usual);
    set(&ours);
    /* Allocations too large for an arena go to the C library's heap, and never to separate
     * mappings. */
    (void) mallopt(M_MMAP_THRESHOLD, INT_MAX);
}

/* Only advice: ignored by a kernel that does not support it or has no huge page left. */
static void collapse_range(uintptr_t start, uintptr_t end)
{
    start = (start + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1);
    for (; start + HUGE_PAGE <= end; start += HUGE_PAGE)
        (void) madvise((void *) start, HUGE_PAGE, // NOLINT(performance-no-int-to-ptr)
                       MADV_COLLAPSE);
}

static void heap_collapse(void)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    unsigned long start, end;
    char line[256];

    while (maps && fgets(line, sizeof line, maps))
        if (strstr(line, "[heap]") && sscanf(line, "%lx-%lx", &start, &end) == 2)
            collapse_range(start, end);
    if (maps)
        (void) fclose(maps);
}

/* Releases the rest of the region, and collapses the heap into huge pages. */
static void memory_settle(void)
{
    uintptr_t used = (arenas.next + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1);

    arenas.closed = true;
    (void) mallopt(M_MMAP_THRESHOLD, MMAP_THRESHOLD);
    if (arenas.start != 0) {
        if (used < arenas.end)
            (void) munmap((void *) used, arenas.end - used); // NOLINT(performance-no-int-to-ptr)
        arenas.end = used;
        collapse_range(arenas.start, arenas.end);
    }
    heap_collapse();
}

/* ---- cloning ---- */

static bool is_single_threaded(void)
{
    struct stat st;

    /* The directory has two links of its own and one for each thread. */
    return stat("/proc/self/task", &st) == 0 && st.st_nlink == 3;
}

static pid_t clone_tenant(const struct template_state *state, int cgroup_fd, int *ret_pidfd)
{
    struct clone_args args = {
        .flags = CLONE_PARENT | CLONE_PIDFD | CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID,
        .pidfd = (uint64_t) (uintptr_t) ret_pidfd,
        .child_tid = state->tid_address,
    };

    if (cgroup_fd >= 0) {
        args.flags |= CLONE_INTO_CGROUP;
        args.cgroup = (uint64_t) cgroup_fd;
    }
    return (pid_t) syscall(SYS_clone3, &args, sizeof args);
}

static void spec_fill(struct seal_spec *spec, const struct clone_request *request, const int *fds)
{
    *spec = (struct seal_spec){
        .box_pidfd = fds[0],
        .stdio = { fds[1], fds[2], fds[3] },
        .control = fds[4],
        .landlock = request->landlock != 0,
        .cgroups = request->cgroups != 0,
        .limits = request->limits,
    };
    if (!request->cgroup_into) {
        spec->cgroup_fds_len = request->cgroup_fds;
        memcpy(spec->cgroup_fds, fds + CLONE_FDS_FIXED, sizeof(int) * request->cgroup_fds);
    }
}

static int reply_fail(struct clone_reply *reply, int error, const char *what)
{
    reply->error = error;
    snprintf(reply->what, sizeof reply->what, "%s", what);
    return -error;
}

/* Clones into the box. Returns the pid in the template, 0 in the sealed tenant, or -errno. */
static int spawn(const struct template_state *state, const struct clone_request *request,
                 const int *fds, struct clone_reply *reply, int *ret_pidfd)
{
    struct seal_spec spec;
    sigset_t all, before;
    pid_t pid;
    int saved;

    if (!is_single_threaded())
        return reply_fail(reply, EDEADLK, "template has threads");
    spec_fill(&spec, request, fds);
    if (setns(fds[0], CLONE_NEWPID) < 0)
        return reply_fail(reply, errno, "join pid namespace");
    /* No signal handler may run in between: a step in the child unblocks the signals. */
    sigfillset(&all);
    (void) sigprocmask(SIG_SETMASK, &all, &before);
    pid = clone_tenant(state, request->cgroup_into ? fds[CLONE_FDS_FIXED] : -EBADF, ret_pidfd);
    if (pid == 0) {
        seal_tenant(&spec);
        return 0;
    }
    saved = errno;
    (void) sigprocmask(SIG_SETMASK, &before, NULL);
    if (setns(state->own_pid_ns, CLONE_NEWPID) < 0)
        _exit(125); /* every later clone would end up in the wrong box */
    if (pid < 0)
        return reply_fail(reply, saved, "clone");
    return pid;
}

/* Serves one request. Returns 1 in a new tenant, 0 in the template, -errno when it must exit. */
static int serve_one(const struct template_state *state)
{
    struct clone_request request;
    struct clone_reply reply = { 0 };
    int fds[WIRE_FDS_MAX], pidfd = -EBADF;
    size_t fds_len;
    int r = wire_recv(state->control, &request, sizeof request, fds, &fds_len);

    if (r < 0)
        return r;
    if (request.cgroup_fds > 6 || fds_len != CLONE_FDS_FIXED + request.cgroup_fds ||
        (request.cgroup_into && request.cgroup_fds != 1)) {
        wire_close_fds(fds, fds_len);
        return -EPROTO;
    }
    PyOS_BeforeFork();
    r = spawn(state, &request, fds, &reply, &pidfd);
    if (r == 0) {
        PyOS_AfterFork_Child();
        return 1;
    }
    PyOS_AfterFork_Parent();
    wire_close_fds(fds, fds_len);
    r = wire_send(state->control, &reply, sizeof reply, &pidfd, r > 0);
    gb_closep(&pidfd);
    return r;
}

PyDoc_STRVAR(serve_doc, "serve(control_fd) -> int | None\n\n"
                        "Clones tenants on request. Returns the control descriptor in a tenant,\n"
                        "None in the template once the supervisor is gone.");

static PyObject *ext_serve(PyObject *module, PyObject *args)
{
    struct template_state state = { .own_pid_ns = -EBADF };
    int r;

    (void) module;
    if (!PyArg_ParseTuple(args, "i", &state.control))
        return NULL;
    state.own_pid_ns = open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC);
    if (state.own_pid_ns < 0 || prctl(PR_GET_TID_ADDRESS, &state.tid_address, 0, 0, 0) < 0)
        return PyErr_SetFromErrno(PyExc_OSError);
    (void) signal(SIGRTMAX, SIG_DFL); /* of end_thread() */
    memory_settle();
    do
        r = serve_one(&state);
    while (r == 0);
    if (r == 1) /* the descriptors of the template are closed here */
        return PyLong_FromLong(SEAL_CONTROL_FD);
    (void) close(state.own_pid_ns);
    Py_RETURN_NONE;
}

/* ---- threads that modules leave ---- */

/* The thread alone, without its destructors: it may be waiting for something that never comes, and
 * for the library it is still there, as for any library after a fork. Unlike after a fork, the
 * kernel marks it as ended where the C library looks, so that a join does not wait forever. */
static void on_thread_end(int sig)
{
    (void) sig;
    (void) syscall(SYS_exit, 0);
}

PyDoc_STRVAR(end_thread_doc, "end_thread(tid)\n\n"
                             "Asks another thread of this process to end. One that blocks the\n"
                             "signal does not; the caller has to look.");

static PyObject *ext_end_thread(PyObject *module, PyObject *args)
{
    struct sigaction action = { .sa_handler = on_thread_end };
    int tid;

    (void) module;
    if (!PyArg_ParseTuple(args, "i", &tid))
        return NULL;
    sigfillset(&action.sa_mask);
    /* The handler stays until serve(): the signal may be delivered later. */
    if (tid == getpid() || sigaction(SIGRTMAX, &action, NULL) < 0 ||
        syscall(SYS_tgkill, getpid(), tid, SIGRTMAX) < 0)
        return PyErr_SetFromErrno(PyExc_OSError);
    Py_RETURN_NONE;
}

static PyMethodDef ext_methods[] = {
    { "serve", ext_serve, METH_VARARGS, serve_doc },
    { "end_thread", ext_end_thread, METH_VARARGS, end_thread_doc },
    { "receive", ext_receive, METH_O, ext_receive_doc },
    { "send", ext_send, METH_VARARGS, ext_send_doc },
    { "settle", ext_settle, METH_O, ext_settle_doc },
    { "identify", ext_identify, METH_O, ext_identify_doc },
    { "is_same", ext_is_same, METH_O, ext_is_same_doc },
    { "block", ext_block, METH_O, ext_block_doc },
    { "unblock", ext_unblock, METH_O, ext_unblock_doc },
    { "flush", ext_flush, METH_NOARGS, ext_flush_doc },
    { "open_output", output_open, METH_VARARGS, output_open_doc },
    { "after_output", output_before, METH_O, output_before_doc },
    { NULL, NULL, 0, NULL },
};

static struct PyModuleDef ext_module = {
    PyModuleDef_HEAD_INIT, .m_name = "_glovebox",    .m_doc = "The C part of a Glovebox template.",
    .m_size = -1,          .m_methods = ext_methods,
};

PyMODINIT_FUNC PyInit__glovebox(void);

__attribute__((visibility("default"))) PyObject *PyInit__glovebox(void)
{
    arenas_gather();
    if (ext_tenant_init() < 0 || output_init() < 0)
        return NULL;
    return PyModule_Create(&ext_module);
}
