"""Gives a clone its own randomness.

All clones of a template start from the same memory, so any generator that a preloaded module has
seeded would give every tenant the same numbers. CPython's after-fork hooks reseed only the random
module. Modules that detect a fork by comparing process ids are not safe: in a PID namespace the
clone may well have the same pid as the template.

Only loaded modules are touched; a module that the program imports later seeds itself. An error
here is not caught: a tenant that could not be reseeded must not run.
"""

import os
import sys

_MT19937_WORDS = 624

_template_pid = None


def prepare() -> None:
    """In the template."""
    global _template_pid
    _template_pid = os.getpid()


def _random(module):
    if _template_pid is None:  # otherwise CPython's hook has done it
        module.seed()


def _numpy(module):
    # The legacy global state; generators of default_rng() seed themselves when they are created.
    # Filling the state is several times faster than seed(), which spreads its entropy over it.
    key = memoryview(os.urandom(4 * _MT19937_WORDS)).cast("I")
    module.set_state(("MT19937", key, _MT19937_WORDS))


def _ssl(module):
    # OpenSSL detects a fork by its process id, and reseeds when it is used next.
    if _template_pid is None or _template_pid == os.getpid():
        module.RAND_add(os.urandom(32), 32.0)


def _tempfile(module):
    # The generator of names is created again at its first use.
    module._name_sequence = None


def _uuid(module):
    # The node id of uuid1() may be random, and is kept.
    module._node = None
    module._last_timestamp = None


def _multiprocessing(module):
    # The key by which processes of one program authenticate each other.
    module.current_process().authkey = os.urandom(32)


_STEPS = (
    ("random", _random),
    ("numpy.random", _numpy),
    ("ssl", _ssl),
    ("tempfile", _tempfile),
    ("uuid", _uuid),
    ("multiprocessing.process", _multiprocessing),
)


def reseed() -> None:
    for name, step in _STEPS:
        module = sys.modules.get(name)
        if module is not None:
            step(module)
