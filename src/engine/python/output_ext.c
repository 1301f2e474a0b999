/*
 * Standard output of a tenant: line by line while a program prints now and then, in blocks while it
 * prints much.
 *
 * Theory of operation. Python's own streams are line-buffered here, so that output is seen as it is
 * printed, and a system call for every line takes several times as long as the rest of print().
 * So sys.stdout is what Python makes, a text stream over a buffered writer, of subclasses whose
 * buffer is in this file. The text stream calls flush() of the writer at the end of each line. The
 * first lines of every 20 ms are written at once; those that follow stay in the buffer until it is
 * full, or a timer expires, or flush() of the text stream itself is called, or before anything that
 * could write to the same file: a line on standard error, fork(), another program, _exit().
 *
 * The timer is a signal to the main thread and not a thread: a second thread would change what
 * fork() warns about, and count as a process of the box. It is armed only while lines are held
 * back, so most programs never see it. Its signal is SIGURG, which is ignored if a program resets
 * its handler, and the handler never waits: it writes no more than the pipe accepts.
 *
 * @busy guards the buffer. It is held over a write without the GIL, but never while Python code may
 * run. The handler does not wait for it, and comes back later.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "engine/python/output_ext.h"

#include "base/banned.h"

#define HOLD_US      20000 /* for so long a line may be held back */
#define RETRY_US     10000 /* the buffer was in use, or the pipe full */
#define LINES_MAX    16    /* written at once in each HOLD_US */
#define WAIT_NS      50000 /* between two looks at @busy */
#define FORK_TRIES   200
#define PIPE_PIECE   4096u /* a pipe that is writable takes this much without waiting */
#define TIMER_SIGNAL SIGURG

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

static struct {
    PyObject *owner; /* the writer that uses this buffer; NULL: none */
    PyObject *other; /* the writer of standard error */
    int fd;
    atomic_bool busy;
    size_t start;
    _Atomic size_t len;
    int64_t since_us; /* of the lines that were written at once */
    int lines;
    bool timer_made, timer_failed;
    atomic_bool timer_armed;
    timer_t timer;
    char data[32768];
} out;

static PyObject *writer_type, *text_type;
static PyObject *base_write, *base_flush, *base_close, *base_detach, *base_text_flush;

static int64_t now_us(void)
{
    struct timespec ts;

    (void) clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t) ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

static bool try_enter(void)
{
    return !atomic_exchange_explicit(&out.busy, true, memory_order_acquire);
}

static void leave(void)
{
    atomic_store_explicit(&out.busy, false, memory_order_release);
}

static void wait_a_moment(void)
{
    const struct timespec ts = { .tv_nsec = WAIT_NS };

    (void) nanosleep(&ts, NULL);
}

/* With the GIL, which it gives up while another thread writes. */
static void enter(void)
{
    while (!try_enter()) {
        PyThreadState *state = PyEval_SaveThread();

        wait_a_moment();
        PyEval_RestoreThread(state);
    }
}

/* In the buffer: one write, of at most @most bytes. Returns its result. */
static ssize_t write_some(size_t most)
{
    size_t len = out.len;
    ssize_t n = write(out.fd, out.data + out.start, len < most ? len : most);

    if (n > 0) {
        out.start += (size_t) n;
        out.len = len - (size_t) n;
        if (out.len == 0)
            out.start = 0;
    }
    return n;
}

/* ---- the timer ---- */

static void timer_arm(long us)
{
    const struct itimerspec in = { .it_value.tv_nsec = us * 1000 };

    atomic_store(&out.timer_armed, timer_settime(out.timer, 0, &in, NULL) == 0);
}

/* Runs in the main thread, at any time. */
static void on_timer(int sig)
{
    int saved = errno;
    bool more = true;

    (void) sig;
    atomic_store(&out.timer_armed, false);
    if (try_enter()) {
        while (more && out.len > 0) {
            struct pollfd pfd = { .fd = out.fd, .events = POLLOUT };

            if (poll(&pfd, 1, 0) != 1 || !(pfd.revents & POLLOUT))
                break;
            more = write_some(PIPE_PIECE) > 0; /* if not, the next flush() reports why */
        }
        leave();
    }
    if (more && out.len > 0)
        timer_arm(RETRY_US);
    errno = saved;
}

static bool timer_make(void)
{
    struct sigaction ours = { .sa_handler = on_timer, .sa_flags = SA_RESTART }, theirs;
    struct sigevent event = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = TIMER_SIGNAL };

    /* The main thread: its id is that of the process. */
    event.sigev_notify_thread_id = getpid();
    return sigaction(TIMER_SIGNAL, NULL, &theirs) == 0 &&
           (theirs.sa_handler == SIG_DFL || theirs.sa_handler == on_timer) &&
           sigaction(TIMER_SIGNAL, &ours, NULL) == 0 &&
           timer_create(CLOCK_MONOTONIC, &event, &out.timer) == 0;
}

/* Whether the buffer will be emptied without our doing. */
static bool timer_ensure(void)
{
    if (atomic_load(&out.timer_armed))
        return true;
    if (!out.timer_made && !out.timer_failed) {
        out.timer_made = timer_make();
        out.timer_failed = !out.timer_made;
    }
    if (out.timer_made)
        timer_arm(HOLD_US);
    return atomic_load(&out.timer_armed);
}

/* ---- emptying the buffer ---- */

/* After a failed write. Returns 0 to try again: signals were handled. -1 with an exception. */
static int write_failed(int error)
{
    if (error == EINTR && PyErr_CheckSignals() == 0)
        return 0;
    if (!PyErr_Occurred()) {
        errno = error;
        (void) PyErr_SetFromErrno(PyExc_OSError);
    }
    return -1;
}

/* Writes everything, however long that takes, and then @size bytes for which the buffer is too
 * small; no other thread comes between. -1 with an exception: the rest of the buffer is kept. */
static int drain_and_write(const char *bytes, size_t size)
{
    while (out.len > 0 || size > 0) {
        PyThreadState *state;
        ssize_t n = 0;
        int error;

        enter();
        state = PyEval_SaveThread();
        while (n >= 0 && out.len > 0)
            n = write_some(sizeof out.data);
        while (n >= 0 && size > 0 && (n = write(out.fd, bytes, size)) > 0) {
            bytes += n;
            size -= (size_t) n;
        }
        error = errno;
        leave();
        PyEval_RestoreThread(state);
        if (n < 0 && write_failed(error) < 0)
            return -1;
    }
    return 0;
}

static int drain(void)
{
    return drain_and_write(NULL, 0);
}

/* Adds bytes to the buffer, if there is room for all: no other thread's may come between them. */
static bool put(const char *bytes, size_t size)
{
    size_t end;
    bool fits;

    enter();
    end = out.start + out.len;
    fits = size <= sizeof out.data - end;
    if (fits) {
        memcpy(out.data + end, bytes, size);
        out.len += size;
    }
    leave();
    return fits;
}

/* At the end of a line. */
static int drain_or_hold(void)
{
    int64_t now;

    if (out.lines >= LINES_MAX && atomic_load_explicit(&out.timer_armed, memory_order_relaxed))
        return 0;
    now = now_us();
    if (now - out.since_us >= HOLD_US) {
        out.since_us = now;
        out.lines = 0;
    }
    if (out.lines >= LINES_MAX && timer_ensure())
        return 0;
    out.lines++;
    return drain();
}

void output_drain(void)
{
    PyObject *type, *value, *traceback;

    if (out.len == 0)
        return;
    PyErr_Fetch(&type, &value, &traceback);
    if (drain() < 0)
        PyErr_Clear(); /* the next flush() fails too, and is asked */
    PyErr_Restore(type, value, traceback);
}

/* ---- fork() ---- */

static bool fork_entered;

/* The child must not write what the parent has printed, and the parent must not lose it. */
static void before_fork(void)
{
    fork_entered = false;
    for (int i = 0; i < FORK_TRIES && !(fork_entered = try_enter()); i++)
        wait_a_moment();
    while (fork_entered && out.len > 0)
        if (write_some(sizeof out.data) < 0 && errno != EINTR)
            break;
}

static void after_fork_in_parent(void)
{
    if (fork_entered)
        leave();
}

static void after_fork_in_child(void)
{
    out.start = 0;
    out.len = 0;
    out.timer_made = out.timer_failed = false; /* timers are not inherited */
    atomic_store(&out.timer_armed, false);
    leave();
}

/* ---- the streams ---- */

static PyObject *call_base(PyObject *method, PyObject *self, PyObject *arg)
{
    return PyObject_CallFunctionObjArgs(method, self, arg, NULL);
}

static PyObject *writer_write(PyObject *self, PyObject *data)
{
    Py_ssize_t size;
    char *bytes;

    if (self != out.owner)
        return call_base(base_write, self, data);
    if (!PyBytes_Check(data)) {
        /* Not from a text stream. Python knows what else has bytes. */
        PyObject *written = drain() < 0 ? NULL : call_base(base_write, self, data);
        PyObject *flushed = written ? call_base(base_flush, self, NULL) : NULL;

        if (!flushed)
            Py_CLEAR(written);
        Py_XDECREF(flushed);
        return written;
    }
    if (PyBytes_AsStringAndSize(data, &bytes, &size) < 0)
        return NULL;
    if (!put(bytes, (size_t) size) && drain_and_write(bytes, (size_t) size) < 0)
        return NULL;
    return PyLong_FromSsize_t(size);
}

static PyObject *writer_flush(PyObject *self, PyObject *unused)
{
    (void) unused;
    if (self == out.owner)
        return out.len > 0 && drain_or_hold() < 0 ? NULL : Py_BuildValue("");
    if (self == out.other && out.len > 0)
        output_drain(); /* what was printed before comes first */
    return call_base(base_flush, self, NULL);
}

/* From here on it is an ordinary writer. */
static int disown(PyObject *self)
{
    if (self != out.owner)
        return 0;
    if (drain() < 0)
        return -1;
    out.owner = NULL; /* the reference is kept: its address must not be that of another */
    return 0;
}

static PyObject *writer_close(PyObject *self, PyObject *unused)
{
    (void) unused;
    return disown(self) < 0 ? NULL : call_base(base_close, self, NULL);
}

static PyObject *writer_detach(PyObject *self, PyObject *unused)
{
    (void) unused;
    return disown(self) < 0 ? NULL : call_base(base_detach, self, NULL);
}

/* Called by the program, print(flush=True), input() and others; never at the end of a line. */
static PyObject *text_flush(PyObject *self, PyObject *unused)
{
    PyObject *flushed = call_base(base_text_flush, self, NULL);

    (void) unused;
    if (flushed && drain() < 0)
        Py_CLEAR(flushed);
    return flushed;
}

/* ---- for the extension ---- */

const char output_open_doc[] =
    "open_output(raw, errors) -> text stream\n\n"
    "A line-buffered stream as Python makes it, over a raw file that is standard output or\n"
    "standard error.";

PyObject *output_open(PyObject *module, PyObject *args)
{
    PyObject *raw, *errors, *writer, *number, *how = NULL, *options = NULL, *text = NULL;
    long fd;

    (void) module;
    if (!PyArg_ParseTuple(args, "OO", &raw, &errors))
        return NULL;
    number = PyObject_CallMethod(raw, "fileno", NULL);
    fd = number ? PyLong_AsLong(number) : -1;
    Py_XDECREF(number);
    if (fd == -1 && PyErr_Occurred())
        return NULL;
    writer = PyObject_CallFunctionObjArgs(writer_type, raw, NULL);
    if (writer) {
        how = Py_BuildValue("(OsO)", writer, "utf-8", errors);
        options = Py_BuildValue("{s:s, s:O}", "newline", "\n", "line_buffering", Py_True);
    }
    if (how && options)
        text = PyObject_Call(text_type, how, options);
    Py_XDECREF(how);
    Py_XDECREF(options);
    if (text && fd == STDOUT_FILENO) {
        output_drain();
        out.owner = writer;
        out.fd = (int) fd;
        return text; /* with our reference to the writer */
    }
    if (text && fd == STDERR_FILENO) {
        out.other = writer;
        return text;
    }
    Py_XDECREF(writer);
    return text;
}

/* @self is a module that has the function as "call": functions of modules can be pickled by their
 * names. */
static PyObject *call_after_drain(PyObject *self, PyObject *args, PyObject *options)
{
    PyObject *call = PyObject_GetAttrString(self, "call"), *result = NULL;

    output_drain();
    if (call)
        result = PyObject_Call(call, args, options);
    Py_XDECREF(call);
    return result;
}

/* The text from which Python makes the documentation and the signature of a function. */
static const char *doc_of(PyObject *call, const char *name)
{
    PyObject *doc = PyObject_GetAttrString(call, "__doc__");
    PyObject *signature = PyObject_GetAttrString(call, "__text_signature__");
    PyObject *whole = NULL, *bytes = NULL;
    const char *text = NULL;

    if (doc && signature && PyUnicode_Check(doc) && PyUnicode_Check(signature))
        whole = PyUnicode_FromFormat("%s%U\n--\n\n%U", name, signature, doc);
    if (whole)
        bytes = PyUnicode_AsUTF8String(whole);
    if (bytes)
        text = strdup(PyBytes_AsString(bytes)); /* as long as the function: for ever */
    Py_XDECREF(doc);
    Py_XDECREF(signature);
    Py_XDECREF(whole);
    Py_XDECREF(bytes);
    PyErr_Clear();
    return text;
}

const char output_before_doc[] = "after_output(call) -> call\n\n"
                                 "The same function, which first writes what is held back.";

/* A function of this name, which lasts for ever. */
static PyMethodDef *method_of(PyObject *call, const char *name)
{
    PyMethodDef *def = calloc(1, sizeof *def);

    if (!def || !(def->ml_name = strdup(name))) {
        free(def);
        (void) PyErr_NoMemory();
        return NULL;
    }
    def->ml_meth = (PyCFunction) (void (*)(void)) call_after_drain;
    def->ml_flags = METH_VARARGS | METH_KEYWORDS;
    def->ml_doc = doc_of(call, name);
    return def;
}

PyObject *output_before(PyObject *module, PyObject *call)
{
    PyObject *name = PyObject_GetAttrString(call, "__name__");
    PyObject *home = PyObject_GetAttrString(call, "__module__");
    PyObject *bytes = name ? PyUnicode_AsUTF8String(name) : NULL;
    PyObject *self = home ? PyModule_NewObject(home) : NULL, *made = NULL;
    PyMethodDef *def = NULL;

    (void) module;
    if (bytes && self && PyObject_SetAttrString(self, "call", call) == 0)
        def = method_of(call, PyBytes_AsString(bytes));
    if (def)
        made = PyCFunction_NewEx(def, self, home);
    Py_XDECREF(name);
    Py_XDECREF(home);
    Py_XDECREF(bytes);
    Py_XDECREF(self);
    return made;
}

static PyMethodDef writer_methods[] = {
    { "write", writer_write, METH_O, NULL },
    { "flush", writer_flush, METH_NOARGS, NULL },
    { "close", writer_close, METH_NOARGS, NULL },
    { "detach", writer_detach, METH_NOARGS, NULL },
    { NULL, NULL, 0, NULL },
};

static PyMethodDef text_methods[] = {
    { "flush", text_flush, METH_NOARGS, NULL },
    { NULL, NULL, 0, NULL },
};

static PyObject *subclass(PyObject *base, const char *name, PyMethodDef *methods)
{
    PyType_Slot slots[] = { { Py_tp_methods, methods }, { 0, NULL } };
    PyType_Spec spec = { .name = name, .flags = Py_TPFLAGS_DEFAULT, .slots = slots };
    PyObject *bases = PyTuple_Pack(1, base), *type = NULL;

    if (bases)
        type = PyType_FromSpecWithBases(&spec, bases);
    Py_XDECREF(bases);
    return type;
}

static bool get_bases(PyObject *writer, PyObject *text)
{
    return (base_write = PyObject_GetAttrString(writer, "write")) &&
           (base_flush = PyObject_GetAttrString(writer, "flush")) &&
           (base_close = PyObject_GetAttrString(writer, "close")) &&
           (base_detach = PyObject_GetAttrString(writer, "detach")) &&
           (base_text_flush = PyObject_GetAttrString(text, "flush"));
}

int output_init(void)
{
    PyObject *io = PyImport_ImportModule("_io");
    PyObject *writer = io ? PyObject_GetAttrString(io, "BufferedWriter") : NULL;
    PyObject *text = io ? PyObject_GetAttrString(io, "TextIOWrapper") : NULL;

    if (writer && text && get_bases(writer, text)) {
        writer_type = subclass(writer, "_io.BufferedWriter", writer_methods);
        text_type = subclass(text, "_io.TextIOWrapper", text_methods);
    }
    Py_XDECREF(io);
    Py_XDECREF(writer);
    Py_XDECREF(text);
    if (!writer_type || !text_type)
        return -1;
    errno = pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
    if (errno != 0) {
        (void) PyErr_SetFromErrno(PyExc_OSError);
        return -1;
    }
    return 0;
}
