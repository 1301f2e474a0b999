"""Makes libraries choose as many threads as their box has CPUs.

The kernel limits a box by a quota that holds on all CPUs of the host, and the C library knows how
many CPUs that is worth from a file (src/engine/seal/machine.c). This covers the two places where
libraries do not ask there.
"""

import os

_THREADS = b"OPENBLAS_NUM_THREADS"
_SETTERS = (
    "openblas_set_num_threads",
    "openblas_set_num_threads64_",
    "scipy_openblas_set_num_threads",
    "scipy_openblas_set_num_threads64_",
)

_affinity = getattr(os, "sched_getaffinity", None)


def _sched_getaffinity(pid, /):
    """Return the set of CPUs that process pid (0: this one) can keep busy."""
    cpus = _affinity(pid)
    count = os.cpu_count() or 1
    return cpus if len(cpus) <= count else set(sorted(cpus)[:count])


def install() -> None:
    """In the template, before libraries are imported: some take the function from os."""
    if _affinity is not None:
        _sched_getaffinity.__name__ = _sched_getaffinity.__qualname__ = "sched_getaffinity"
        _sched_getaffinity.__module__ = "os"  # so that it can be pickled
        os.sched_getaffinity = _sched_getaffinity


def use_threads() -> None:
    """In a tenant that may use several CPUs: an OpenBLAS that was loaded by the template has one
    thread, because threads cannot be cloned."""
    try:
        count = int(os.environb.get(_THREADS, b"1"))
        with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
            paths = {line.split(None, 5)[5].rstrip("\n") for line in maps if "openblas" in line}
        if count < 2 or not paths:
            return
        import ctypes

        for path in paths:
            library = ctypes.CDLL(path)
            for name in _SETTERS:
                if hasattr(library, name):
                    library[name](count)
    except Exception:  # one thread is slower, not wrong
        pass
