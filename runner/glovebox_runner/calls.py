"""The work of a tenant around every cell: packets, descriptors, the interrupt, C's stdio.

A template has all of it in C as well (src/engine/python/tenant_ext.c), which avoids creating Python
objects, and replaces these functions with use(). Callers therefore look them up as `calls.name` for
every call. Cases that the C part does not handle are left to its callers: they have a fallback,
which is also used without the C part.
"""

import builtins
import io
from _signal import SIG_BLOCK, SIG_UNBLOCK
from _signal import pthread_sigmask as _mask
from os import fstat

try:
    # The buffers of C's stdio, which a library may have filled; os._exit() would discard them.
    import ctypes

    _fflush = ctypes.CDLL(None).fflush
except (ImportError, OSError, AttributeError):  # an interpreter built without it
    _fflush = None

# The program may break its own copies.
__builtins__ = dict(vars(builtins))


def receive(fd):
    """The next packet: a whole message as (type, fields), or bytes, empty at the end. None if the
    caller must handle it."""
    return None


def send(fd, identity, pid, type, fields) -> bool:
    """Sends a message whose fields are bytes, if it fits into one packet, this is process @pid, and
    the descriptor still means the same file. Waits as long as it takes. False if the caller must
    handle it."""
    return False


def settle(untouched) -> bool:
    """Whether the standard streams in a namespace (that of sys) are these, open, and over files of
    that identity. If so they are flushed. False if the caller must handle it."""
    return False


def identify(fds):
    """Which files a tuple of descriptors means now, for is_same()."""
    return [(fd, fstat(fd)[1:3]) for fd in fds]


def is_same(identity) -> bool:
    """Whether each of the descriptors still means the same file."""
    try:
        return all(fstat(fd)[1:3] == file for fd, file in identity)
    except OSError:
        return False


def block(number) -> None:
    _mask(SIG_BLOCK, (number,))


def unblock(number) -> None:
    """Calls the handler of a pending signal."""
    _mask(SIG_UNBLOCK, (number,))


def flush() -> None:
    if _fflush is not None:
        _fflush(None)


def open_output(raw, errors: str):
    """sys.stdout or sys.stderr over a raw file: line-buffered, so that output is streamed. The
    version of the extension writes blocks while a program prints much (output_ext.c)."""
    return io.TextIOWrapper(io.BufferedWriter(raw), "utf-8", errors, newline="\n",
                            line_buffering=True)


def after_output(call):
    """The same function, which first writes output that open_output() holds back."""
    return call


NAMES = ("receive", "send", "settle", "identify", "is_same", "block", "unblock", "flush",
         "open_output", "after_output")


def use(extension) -> None:
    """Uses the functions of the template's extension instead."""
    for name in NAMES:
        globals()[name] = getattr(extension, name)
