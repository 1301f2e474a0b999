/*
 * The work of a tenant around every cell, in C.
 *
 * Theory of operation. runner/glovebox_runner/calls.py has the same functions in Python and is the
 * reference: a template with this extension replaces them with these. A tenant that runs a cell
 * after many cells of other tenants finds the CPU caches cold. Python objects, including code, are
 * private to each tenant by then, since reference counting has copied their pages; the code here is
 * the same memory in all tenants. So a step in C saves more than its instructions.
 *
 * Nothing here decides anything. Every unusual case (a message in several packets, a broken one, a
 * socket that the program has changed) is handed back, and the Python version takes over.
 *
 * The program shares this process and may call these with anything. That gives it nothing that it
 * cannot do anyway, but arguments are checked, so that a mistake raises an exception.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/frame.h"
#include "engine/python/output_ext.h"
#include "engine/python/tenant_ext.h"

#include "base/banned.h"

/* ---- packets ---- */

static PyObject *fields_list(const struct frame_msg *msg, Py_ssize_t count)
{
    PyObject *list = PyList_New(count);
    struct frame_field field;
    size_t pos = 0;

    for (Py_ssize_t i = 0; list && frame_next(msg, &pos, &field) > 0; i++) {
        PyObject *pair =
            Py_BuildValue("(iy#)", (int) field.key, field.data, (Py_ssize_t) field.len);

        if (!pair || PyList_SetItem(list, i, pair) < 0)
            Py_CLEAR(list);
    }
    return list;
}

const char ext_receive_doc[] =
    "receive(fd) -> (type, fields) | bytes | None\n\n"
    "Waits for a packet. A whole message is returned as its type and its fields, any other\n"
    "packet as is, an empty one at the end. None if it would have to wait.";

/* Not on the stack, where the compiler would touch every page. */
static struct {
    bool busy;
    uint8_t packet[FRAME_PACKET_MAX + 1]; /* so that a larger one is detected, not truncated */
} inbox;

/* A packet as a Python object. */
static PyObject *packet_take(const uint8_t *packet, size_t len)
{
    struct frame_msg msg;
    int count = frame_packet_read(packet, len, &msg);
    PyObject *list;

    if (count < 0)
        return PyBytes_FromStringAndSize((const char *) packet, (Py_ssize_t) len);
    list = fields_list(&msg, count);
    return list ? Py_BuildValue("(iN)", (int) msg.type, list) : NULL;
}

PyObject *ext_receive(PyObject *module, PyObject *fd)
{
    long number = PyLong_AsLong(fd);
    PyObject *taken = NULL;
    ssize_t n;

    (void) module;
    if (number == -1 && PyErr_Occurred())
        return NULL;
    if (inbox.busy) /* called by a thread of the program, which may not use this */
        Py_RETURN_NONE;
    inbox.busy = true;
    do {
        Py_BEGIN_ALLOW_THREADS /* clang-format off */
        n = read((int) number, inbox.packet, sizeof inbox.packet);
        Py_END_ALLOW_THREADS /* clang-format on */
    } while (n < 0 && errno == EINTR && PyErr_CheckSignals() == 0);
    if (n >= 0)
        taken = packet_take(inbox.packet, (size_t) n);
    else if (!PyErr_Occurred() && errno == EAGAIN)
        taken = Py_BuildValue("");
    else if (!PyErr_Occurred())
        (void) PyErr_SetFromErrno(PyExc_OSError);
    inbox.busy = false;
    return taken;
}

struct field {
    uint16_t key;
    char *data;
    Py_ssize_t size;
};

static bool field_read(PyObject *from, struct field *ret_field)
{
    PyObject *key, *value;
    long number;

    if (!PyTuple_Check(from) || PyTuple_Size(from) != 2)
        return false;
    key = PyTuple_GetItem(from, 0);
    value = PyTuple_GetItem(from, 1);
    if (!PyLong_Check(key) || !PyBytes_Check(value))
        return false;
    number = PyLong_AsLong(key);
    if (number < 0 || number > UINT16_MAX)
        return false;
    ret_field->key = (uint16_t) number;
    return PyBytes_AsStringAndSize(value, &ret_field->data, &ret_field->size) == 0;
}

/* The length of the packet, or 0 if it must be handled in Python. */
static size_t packet_measure(PyObject *fields)
{
    size_t len = FRAME_HEADER_SIZE;
    struct field field;

    for (Py_ssize_t i = 0; i < PyList_Size(fields); i++) {
        if (!field_read(PyList_GetItem(fields, i), &field) ||
            (size_t) field.size > FRAME_PACKET_MAX)
            return 0;
        len += FIELD_HEADER_SIZE + (size_t) field.size;
        if (len > FRAME_PACKET_MAX)
            return 0;
    }
    return len;
}

static void packet_fill(uint8_t *at, size_t len, int type, PyObject *fields)
{
    struct field field = { 0 };

    at = frame_packet_begin(at, (enum frame_type) type, len - FRAME_HEADER_SIZE);
    for (Py_ssize_t i = 0; i < PyList_Size(fields); i++) {
        (void) field_read(PyList_GetItem(fields, i), &field); /* the same as when measured */
        at = frame_packet_put(at, field.key, field.data, (size_t) field.size);
    }
}

/* The single packet of a message; Py_None if one is not enough. */
static PyObject *packet_make(int type, PyObject *fields)
{
    PyObject *packet;
    size_t len = 0;

    if (type > 0 && type <= (int) FRAME_TYPE_LAST && PyList_Check(fields) &&
        PyList_Size(fields) <= (Py_ssize_t) FRAME_FIELDS_MAX)
        len = packet_measure(fields);
    PyErr_Clear(); /* a key that is out of range; the Python version reports it */
    if (len == 0)
        Py_RETURN_NONE;
    packet = PyBytes_FromStringAndSize(NULL, (Py_ssize_t) len);
    if (packet)
        packet_fill((uint8_t *) PyBytes_AsString(packet), len, type, fields);
    return packet;
}

/* ---- files behind descriptors ---- */

struct identity {
    int fd;
    dev_t device;
    ino_t inode;
};

static bool identity_holds(const struct identity *id)
{
    struct stat st;

    return fstat(id->fd, &st) == 0 && st.st_dev == id->device && st.st_ino == id->inode;
}

/* Whether all of @identity, as ext_identify() gave it, hold. -1 with an exception. */
static int identities_hold(PyObject *identity)
{
    struct identity id;
    Py_ssize_t size;
    char *data;

    if (PyBytes_AsStringAndSize(identity, &data, &size) < 0)
        return -1;
    for (; size >= (Py_ssize_t) sizeof id; data += sizeof id, size -= (Py_ssize_t) sizeof id) {
        memcpy(&id, data, sizeof id);
        if (!identity_holds(&id))
            return 0;
    }
    return 1;
}

const char ext_identify_doc[] = "identify(fds) -> bytes\n\n"
                                "Which files a tuple of descriptors means, for is_same().";

PyObject *ext_identify(PyObject *module, PyObject *fds)
{
    Py_ssize_t len = PyTuple_Size(fds);
    struct identity ids[8];
    struct stat st;

    (void) module;
    if (len < 0)
        return NULL;
    if ((size_t) len > sizeof ids / sizeof *ids)
        return PyErr_Format(PyExc_ValueError, "too many descriptors");
    memset(ids, 0, sizeof ids); /* the padding too */
    for (Py_ssize_t i = 0; i < len; i++) {
        long fd = PyLong_AsLong(PyTuple_GetItem(fds, i));

        if (fd == -1 && PyErr_Occurred())
            return NULL;
        if (fstat((int) fd, &st) < 0)
            return PyErr_SetFromErrno(PyExc_OSError);
        ids[i].fd = (int) fd;
        ids[i].device = st.st_dev;
        ids[i].inode = st.st_ino;
    }
    return PyBytes_FromStringAndSize((const char *) ids, len * (Py_ssize_t) sizeof *ids);
}

const char ext_is_same_doc[] = "is_same(identity) -> bool\n\n"
                               "Whether each of the descriptors still means the same file.";

PyObject *ext_is_same(PyObject *module, PyObject *identity)
{
    int same = identities_hold(identity);

    (void) module;
    return same < 0 ? NULL : PyBool_FromLong(same);
}

const char ext_send_doc[] =
    "send(fd, identity, pid, type, fields) -> bool\n\n"
    "Sends a message of one packet, however long that takes, if the process and the file are\n"
    "the expected ones. False if they are not, or the message was not sent.";

static PyObject *packet_send(int fd, PyObject *packet)
{
    Py_ssize_t len;
    char *data;
    ssize_t n;

    if (PyBytes_AsStringAndSize(packet, &data, &len) < 0)
        return NULL;
    do {
        Py_BEGIN_ALLOW_THREADS /* clang-format off */
        n = send(fd, data, (size_t) len, MSG_NOSIGNAL);
        Py_END_ALLOW_THREADS /* clang-format on */
    } while (n < 0 && errno == EINTR && PyErr_CheckSignals() == 0);
    return PyErr_Occurred() ? NULL : PyBool_FromLong(n >= 0);
}

PyObject *ext_send(PyObject *module, PyObject *args)
{
    PyObject *identity, *fields, *packet, *sent = NULL;
    int fd, pid, type, same;

    (void) module;
    if (!PyArg_ParseTuple(args, "iSiiO", &fd, &identity, &pid, &type, &fields))
        return NULL;
    if (getpid() != pid)
        Py_RETURN_FALSE;
    same = identities_hold(identity);
    if (same <= 0)
        return same < 0 ? NULL : PyBool_FromLong(0);
    packet = packet_make(type, fields);
    if (packet)
        sent = packet == Py_None ? PyBool_FromLong(0) : packet_send(fd, packet);
    Py_XDECREF(packet);
    return sent;
}

/* ---- the standard streams ---- */

static const char *const stream_names[] = { "stdin",     "stdout",     "stderr",
                                            "__stdin__", "__stdout__", "__stderr__" };
#define STREAM_NAMES (sizeof stream_names / sizeof *stream_names)

static PyObject *stream_keys[STREAM_NAMES], *key_closed, *key_flush;

int ext_tenant_init(void)
{
    for (size_t i = 0; i < STREAM_NAMES; i++) {
        stream_keys[i] = PyUnicode_InternFromString(stream_names[i]);
        if (!stream_keys[i])
            return -1;
    }
    key_closed = PyUnicode_InternFromString("closed");
    key_flush = PyUnicode_InternFromString("flush");
    return key_closed && key_flush ? 0 : -1;
}

/* Whether all names of these streams in the namespace refer to them. */
static bool streams_are(PyObject *names, PyObject *streams)
{
    for (size_t i = 0; i < STREAM_NAMES; i++)
        if (PyDict_GetItem(names, stream_keys[i]) != PyTuple_GetItem(streams, (Py_ssize_t) i % 3))
            return false;
    return true;
}

/* For a closed or detached stream the attribute is true, or raises an exception. */
static bool stream_is_open(PyObject *stream)
{
    PyObject *closed = PyObject_GetAttr(stream, key_closed);
    bool open = closed == Py_False;

    Py_XDECREF(closed);
    return open;
}

static bool stream_flush(PyObject *stream)
{
    PyObject *flushed = PyObject_CallMethodObjArgs(stream, key_flush, NULL);

    Py_XDECREF(flushed);
    return flushed != NULL;
}

const char ext_settle_doc[] =
    "settle((namespace, streams, identity)) -> bool\n\n"
    "Whether the standard streams in the namespace are these, open, and over files of that\n"
    "identity. If so they and the buffers of C's stdio are flushed.";

PyObject *ext_settle(PyObject *module, PyObject *untouched)
{
    PyObject *names, *streams, *identity;
    bool good;
    int same;

    if (!PyArg_ParseTuple(untouched, "O!O!S", &PyDict_Type, &names, &PyTuple_Type, &streams,
                          &identity))
        return NULL;
    if (PyTuple_Size(streams) != 3)
        return PyErr_Format(PyExc_ValueError, "there are three standard streams");
    same = identities_hold(identity);
    if (same < 0)
        return NULL;
    good = same && streams_are(names, streams);
    for (Py_ssize_t i = 0; good && i < 3; i++)
        good = stream_is_open(PyTuple_GetItem(streams, i));
    good = good && stream_flush(PyTuple_GetItem(streams, 1)) &&
           stream_flush(PyTuple_GetItem(streams, 2));
    PyErr_Clear(); /* the caller checks for itself */
    if (!good)
        Py_RETURN_FALSE;
    Py_XDECREF(ext_flush(module, NULL));
    Py_RETURN_TRUE;
}

/* ---- signals, stdio ---- */

/* Like signal.pthread_sigmask(), but without building the set of previously blocked signals. */
static PyObject *change_mask(int how, PyObject *number)
{
    long sig = PyLong_AsLong(number);
    sigset_t set;

    if (sig == -1 && PyErr_Occurred())
        return NULL;
    (void) sigemptyset(&set);
    if (sigaddset(&set, (int) sig) < 0)
        return PyErr_SetFromErrno(PyExc_OSError);
    errno = pthread_sigmask(how, &set, NULL);
    if (errno != 0)
        return PyErr_SetFromErrno(PyExc_OSError);
    if (PyErr_CheckSignals() < 0) /* pending signals have been delivered */
        return NULL;
    Py_RETURN_NONE;
}

const char ext_block_doc[] = "block(signal)\n\nFor this thread.";

PyObject *ext_block(PyObject *module, PyObject *number)
{
    (void) module;
    return change_mask(SIG_BLOCK, number);
}

const char ext_unblock_doc[] = "unblock(signal)\n\n"
                               "For this thread; the handler of one that is pending is called.";

PyObject *ext_unblock(PyObject *module, PyObject *number)
{
    (void) module;
    return change_mask(SIG_UNBLOCK, number);
}

const char ext_flush_doc[] = "flush()\n\nThe buffers of C's stdio, and output that is held back.";

PyObject *ext_flush(PyObject *module, PyObject *unused)
{
    (void) module;
    (void) unused;
    output_drain();
    Py_BEGIN_ALLOW_THREADS /* clang-format off */
    (void) fflush(NULL);
    Py_END_ALLOW_THREADS /* clang-format on */
        Py_RETURN_NONE;
}
