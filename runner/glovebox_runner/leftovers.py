"""What an import leaves behind in a template that its clones would not have, or must not have.

A clone has one thread, no children and only its own descriptors. A module that counts on more
would work in the template and fail in every box, so it is not preloaded: Leftovers.find() is called
after each import and says what is there that was not there before.

Threads that are known to wait idly for work that clones do not give them are listed in IDLE_THREADS
and ended, so that a template has exactly one thread when it is cloned. Which locks such a thread
may hold, and why a library copes without it, is in docs/notes/engine.md (Templates).
"""

import atexit
import os
import time

# By the first 15 bytes of the name, which is all the kernel keeps. The value is the name of the exit
# callback that would wait for the thread, or None.
IDLE_THREADS = {
    # Removes files of queries that spilled to disk, on request over a channel; the files are in the
    # box's own /tmp. At exit polars waits until they are gone, unless it finds that it is in a
    # fork. It compares process ids for that, and in its PID namespace a clone may have the same.
    "polars-ooc-clea": "PyCapsule.pyo3-closure",
}

# Set while a template imports, and not seen by programs. An allocator that is told so when it is
# loaded frees memory in the threads that use it, and has none of its own.
QUIET = {
    "JE_ARROW_MALLOC_CONF": "background_thread:false",  # jemalloc of pyarrow
    "_RJEM_MALLOC_CONF": "background_thread:false",  # of Rust extensions such as polars
    "MALLOC_CONF": "background_thread:false",  # of others
}

TASKS = "/proc/self/task"
DESCRIPTORS = "/proc/self/fd"
GRACE = 0.5  # for threads and children that are about to end, and for those that are to become idle
STEP = 0.005
NAMED_MAX = 3  # in a message


# Exit callbacks that only free memory, by the file and the name in their code. In a clone that means
# copying it first, page by page.
IN_VAIN = {
    # nanobind, such as in duckdb: empties the caches of typing, so that its own search for leaks,
    # which is made when an interpreter is finalized, does not find them. Ours never is.
    ("<internal>", "cleanup"),
}

_at_exit = []  # callbacks that were registered since the last import began
_register = atexit.register


def _register_noted(function, /, *args, **kwargs):
    """In place of atexit.register() while modules are imported; some keep it."""
    code = getattr(function, "__code__", None)
    if (getattr(code, "co_filename", None), getattr(code, "co_name", None)) in IN_VAIN:
        return function
    _at_exit.append(function)
    return _register(function, *args, **kwargs)


def begin() -> None:
    """Before the first import."""
    os.environ.update(QUIET)
    atexit.register = _register_noted


def end() -> None:
    atexit.register = _register
    _at_exit.clear()
    for name in QUIET:
        os.environ.pop(name, None)


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""  # it has ended


def _threads() -> list:
    """Those besides the caller's, as (number, name). The numbers are those of /proc, which need
    not be of our PID namespace."""
    own = os.readlink("/proc/self")
    others = [number for number in os.listdir(TASKS) if number != own]
    return [(number, _read(f"{TASKS}/{number}/comm").rstrip("\n")) for number in others]


def _own_number(number: str) -> int:
    """The same thread in our PID namespace, the innermost."""
    for line in _read(f"{TASKS}/{number}/status").splitlines():
        if line.startswith("NSpid:"):
            return int(line.split()[-1])
    return int(number)


def _sleeps(number: str) -> bool:
    """Whether the thread is asleep in a system call, twice at the same place. One that works,
    or wakes up by itself all the time, may hold a lock whenever it is ended."""
    looks = []
    for look in range(2):
        if look:
            time.sleep(STEP)
        status = _read(f"{TASKS}/{number}/stat").rpartition(")")[2].split()
        switches = [line for line in _read(f"{TASKS}/{number}/status").splitlines() if "ctxt" in line]
        if not status or status[0] != "S":
            return False
        looks.append((_read(f"{TASKS}/{number}/syscall"), switches))
    return looks[0] == looks[1]


def _some(names) -> str:
    names = sorted(set(names))
    return ", ".join(names[:NAMED_MAX]) + (", ..." if len(names) > NAMED_MAX else "")


def _until(condition):
    """Waits for a false result, for a limited time; returns the last one."""
    end = time.monotonic() + GRACE
    while True:
        result = condition()
        if not result or time.monotonic() > end:
            return result
        time.sleep(STEP)


class Leftovers:
    def __init__(self, end_thread) -> None:
        """@end_thread asks the thread with a number to end."""
        self._end_thread = end_thread
        self._open = self._descriptors()
        self._told_to_end = set()

    @staticmethod
    def _descriptors() -> dict:
        found = {}
        for name in os.listdir(DESCRIPTORS):
            try:
                found[int(name)] = os.readlink(f"{DESCRIPTORS}/{name}")
            except OSError:
                continue  # the directory that was just listed
        return found

    def _threads_left(self) -> list:
        """Ends the idle ones that are known; returns the others."""
        left = _threads()
        for number, name in left:
            if name in IDLE_THREADS and number not in self._told_to_end and _sleeps(number):
                self._told_to_end.add(number)
                self._end_thread(_own_number(number))
                self._unregister(IDLE_THREADS[name])
        return left

    @staticmethod
    def _unregister(name) -> None:
        for function in _at_exit:
            if getattr(function, "__qualname__", "") == name:
                atexit.unregister(function)

    @staticmethod
    def _child_left() -> bool:
        """Reaps those that have ended."""
        try:
            while True:
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG)
                if ended is None:
                    return True
        except ChildProcessError:
            return False

    def find(self):
        """What is left since the first look, in words; None: nothing."""
        left = _until(self._threads_left)
        _at_exit.clear()
        if left:
            many = f"{len(left)} threads" if len(left) > 1 else "a thread"
            busy = " busy" if all(name in IDLE_THREADS for _, name in left) else ""
            return f"it left {many}{busy} ({_some(name for _, name in left)})"
        if _until(self._child_left):
            return "it left a child process"
        for fd, file in self._descriptors().items():
            if self._open.get(fd) != file:
                return f"it left {file} open"
        return None
