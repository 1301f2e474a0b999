"""The texts of a session's cells, where tracebacks, warnings and inspect look for them.

Each cell has a file name of its own, such as "<cell 3>", and its lines are in linecache under that
name. A session may run any number of cells, so the texts are bounded: by count and by size. The
oldest are dropped first, except those whose functions and classes are still defined in __main__;
these go last.
"""

import linecache
import types
from os.path import exists

COUNT_MAX = 1000
BYTES_MAX = 8 << 20
_LINE_COST = 64  # of a line, besides its characters: a string and its place in a list
_WRAPPED_MAX = 20

_kept = {}  # file name -> (what it costs, entry of linecache), the oldest first
_cost = 0


def remember(filename: str, source: bytes, namespace: dict) -> None:
    """Keeps the text of a cell that will run with these globals."""
    global _cost
    text = source.decode("utf-8", "replace")
    if text[-1:] != "\n":
        text += "\n"  # as linecache itself does
    lines = text.splitlines(True)
    size = len(source)
    entry = (size, None, lines, filename)
    cost = size + _LINE_COST * (len(lines) + 1)
    if filename in _kept:  # a name that the caller gave to two cells: the newer text counts
        _drop(filename)
    _kept[filename] = (cost, entry)
    _cost += cost
    linecache.cache[filename] = entry
    if len(_kept) > COUNT_MAX or _cost > BYTES_MAX:
        _make_room(filename, namespace)


def restore() -> None:
    """Puts back what the program removed with linecache.clearcache()."""
    cache = linecache.cache
    for filename, (_, entry) in _kept.items():
        cache.setdefault(filename, entry)


def names() -> set:
    """The file names whose text is known here and not to a printer that reads files only."""
    return {name for name in _kept if name[:1] == "<" or not exists(name)}


def _drop(filename: str) -> None:
    global _cost
    kept = _kept.pop(filename, None)
    if kept is not None:
        _cost -= kept[0]
        linecache.cache.pop(filename, None)


def _make_room(newest: str, namespace: dict) -> None:
    """To three quarters, so that it does not have to be done for every cell."""
    used = _used(namespace)
    for spare_used in (True, False):
        for filename in list(_kept):
            if len(_kept) <= COUNT_MAX * 3 // 4 and _cost <= BYTES_MAX * 3 // 4:
                return
            if filename != newest and not (spare_used and filename in used):
                _drop(filename)


def _used(namespace: dict) -> set:
    """The files of the functions that the namespace has, also as methods."""
    found = set()
    for value in list(namespace.values()):
        if isinstance(value, type):
            for each in list(vars(value).values()):
                _note(each, found)
        else:
            _note(value, found)
    return found


def _note(value, found: set) -> None:
    for _ in range(_WRAPPED_MAX):
        if isinstance(value, (classmethod, staticmethod, types.MethodType)):
            value = value.__func__
        elif isinstance(value, property):
            value = value.fget
        if not isinstance(value, types.FunctionType):
            return
        found.add(value.__code__.co_filename)
        value = value.__dict__.get("__wrapped__")
