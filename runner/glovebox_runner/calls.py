"""What a tenant does around every cell: packets, descriptors, the interrupt, C's stdio.

A template has all of it in C as well (src/engine/python/tenant_ext.c), without the objects that Python
makes for it, and puts that in the place of these functions with use(). Callers therefore ask for
them by `calls.name` whenever they call. What the C part does not do, it leaves to its caller:
callers have another way, which is the only one without it.
"""

import builtins
from _signal import SIG_BLOCK, SIG_UNBLOCK
from _signal import pthread_sigmask as _mask
from os import fstat

try:
    # The buffers of C's stdio, which a library may have filled; os._exit() would drop them.
    import ctypes

    _fflush = ctypes.CDLL(None).fflush
except (ImportError, OSError, AttributeError):  # an interpreter that was built without it
    _fflush = None

# The program may break those that it has.
__builtins__ = dict(vars(builtins))


def receive(fd):
    """The next packet: a whole message as (type, fields), or bytes, empty at the end. None if this
    is up to the caller."""
    return None


def send(fd, identity, pid, type, fields) -> bool:
    """Sends a message whose fields are bytes, if it takes one packet, this is process @pid, and the
    descriptor means what it did. Waits as long as it takes. False if this is up to the caller."""
    return False


def settle(untouched) -> bool:
    """Whether the standard streams in a namespace (that of sys) are these, open, and over files of
    that identity. If so they are flushed. False if this is up to the caller."""
    return False


def identify(fds):
    """What a tuple of descriptors means now, for is_same()."""
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
    """The handler of one that is pending is called."""
    _mask(SIG_UNBLOCK, (number,))


def flush() -> None:
    if _fflush is not None:
        _fflush(None)


NAMES = ("receive", "send", "settle", "identify", "is_same", "block", "unblock", "flush")


def use(extension) -> None:
    """Takes these from the template's extension."""
    for name in NAMES:
        globals()[name] = getattr(extension, name)
