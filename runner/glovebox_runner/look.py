"""Answers to looks: questions about the session, between two cells (docs/PROTOCOL.md, "Looks").

A look asks what could complete a text, for help about a name, or for the variables. It is loaded
when the first one comes; completion is in look_code.py.

Values belong to the program, and their methods may do anything. So as much as possible is found out
without calling any of them, and the rest is called with the thread's output muted and open to
interrupts. The supervisor interrupts a look that takes too long: what is known by then is the
answer, and nothing more is called. As everywhere in the runner, none of this is a boundary.
"""

import json
import sys
from _thread import get_ident
from os import getpid

from . import script, shell, tenant

# As they were before any code of the program ran.
__builtins__ = script.__builtins__

REPLY_MAX = 1 << 20  # bytes; LOOK_REPLY_MAX in engine.h
MATCHES_MAX = 200
VARIABLES_MAX = 500
SUMMARY_MAX = 200  # characters
NAME_MAX = 200
TEXT_MAX = 16384  # of help


# ---- around code of the program ----


class Mute:
    """A standard stream, except for what the thread that runs cells writes."""

    def __init__(self, stream) -> None:
        self._stream = stream
        self._thread = get_ident()
        self._pid = getpid()

    def _is_mine(self) -> bool:
        return get_ident() == self._thread and getpid() == self._pid

    def write(self, text):
        return len(text) if self._is_mine() else self._stream.write(text)

    def writelines(self, lines):
        return None if self._is_mine() else self._stream.writelines(lines)

    def flush(self):
        return None if self._is_mine() else self._stream.flush()

    @property
    def buffer(self):
        return Mute(self._stream.buffer)

    def __getattr__(self, name):
        return getattr(self._stream, name)


class Exit:
    """os._exit, except that it ends no more than a call of ours in the thread that runs cells."""

    def __init__(self, leave) -> None:
        self._leave = leave
        self._thread = get_ident()
        self._pid = getpid()

    def __call__(self, status):
        if get_ident() == self._thread and getpid() == self._pid:
            raise SystemExit(status)
        self._leave(status)


# ---- values, without their methods ----


def is_a(value, cls) -> bool:
    """Like isinstance(), which would believe the value's own __class__."""
    return issubclass(type(value), cls)


def kind(value) -> str:
    """The name of its class; a metaclass could have another opinion."""
    return clean(type.__dict__["__name__"].__get__(type(value)), NAME_MAX)


def home(cls) -> str:
    """The library that a class says it is from."""
    module = type.__dict__["__module__"].__get__(cls)
    return module.partition(".")[0] if type(module) is str else ""


def clean(text, most: int) -> str:
    """Valid text of at most so many characters, without control characters."""
    if not isinstance(text, str):
        return ""
    text = str.__str__(text)
    cut = text[: most + 1]
    cut = "".join(c if c.isprintable() else " " for c in cut)
    return cut if len(cut) <= most else cut[: most - 1] + "…"


_SCALARS = (int, float, complex, bool, type(None))
_SIGNS = {list: "[%s]", tuple: "(%s)", set: "{%s}", frozenset: "frozenset({%s})", dict: "{%s}"}


def _int_text(value: int) -> str:
    """The text of a very long one takes long, and Python may refuse to make it."""
    bits = value.bit_length()
    return repr(value) if bits <= 1024 else "%s… (%d bits)" % (hex(value >> (bits - 64)), bits)


class _Repr:
    """repr() that reads only the beginning, and calls nothing of the program unless @calls."""

    def __init__(self, calls: bool) -> None:
        self._calls = calls

    def text(self, value) -> str:
        return clean(self._any(value, SUMMARY_MAX, 4), SUMMARY_MAX)

    def _any(self, value, room: int, depth: int) -> str:
        cls = type(value)
        if cls in (float, complex, bool, type(None)):
            return repr(value)
        if cls is int:
            return _int_text(value)
        if cls in (str, bytes, bytearray):
            return repr(value[:room])
        base = cls if cls in _SIGNS else self._base(cls)
        if base is not None:
            if depth == 0:
                return "…"
            items = self._pairs if base is dict else self._items
            text = _SIGNS[base] % items(base, value, room, depth)
            if not cls is base:
                return "%s(%s)" % (kind(value), text)
            return "%s()" % kind(value) if text in ("{}", "frozenset({})") and base is not dict else text
        if issubclass(cls, type):
            return "<class %s>" % type.__dict__["__qualname__"].__get__(value)
        return self._call(value)

    def _base(self, cls):
        """Of a class that has the repr() of a container, or one as good: that container. Such a
        repr() would read all of it."""
        for base in _SIGNS if self._calls else ():
            if issubclass(cls, base) and (cls.__repr__ is base.__repr__ or home(cls) == "collections"):
                return base
        return None

    def _items(self, base, value, room: int, depth: int) -> str:
        parts, used = [], 0
        for item in base.__iter__(value):
            if used >= room:
                parts.append("…")
                break
            parts.append(self._any(item, room - used, depth - 1))
            used += len(parts[-1]) + 2
        text = ", ".join(parts)
        return text + "," if base is tuple and len(parts) == 1 else text

    def _pairs(self, base, value, room: int, depth: int) -> str:
        parts, used = [], 0
        for key, item in dict.items(value):
            if used >= room:
                parts.append("…")
                break
            text = self._any(key, room - used, depth - 1)
            parts.append(text + ": " + self._any(item, max(room - used - len(text), 1), depth - 1))
            used += len(parts[-1]) + 2
        return ", ".join(parts)

    def _call(self, value) -> str:
        if not self._calls:
            return "<%s>" % kind(value)
        try:
            text = repr(value)
            return text if type(text) is str else str.__str__(text)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            return "<%s: its repr() raised %s>" % (kind(value), kind(error))


def _frame_text(value) -> str:
    """The columns of a table; its text would be rows."""
    columns = [clean(str(name), 40) for name in list(value.columns[:20])]
    more = ", …" if len(value.columns) > 20 else ""
    return "columns: " + ", ".join(columns) + more


def _array_text(value) -> str:
    text = "dtype %s" % value.dtype
    if value.size <= 20:
        text += ": " + " ".join(repr(value).split())
    return text


def _measure(value, calls: bool) -> dict:
    """shape and size_bytes, as far as they are known."""
    cls, known = type(value), {}
    library = home(cls)
    if cls in (str, bytes, bytearray, list, tuple, set, frozenset, dict):
        known["shape"] = [len(value)]
        known["size_bytes"] = sys.getsizeof(value)
    elif cls in _SCALARS:
        known["size_bytes"] = sys.getsizeof(value)
    elif library in ("numpy", "pandas", "polars", "torch", "scipy") and calls:
        shape = getattr(value, "shape", None)
        if isinstance(shape, tuple) and len(shape) <= 32:
            known["shape"] = [int(n) for n in shape]
        size = getattr(value, "nbytes", None)
        if library == "pandas" and hasattr(value, "memory_usage"):
            size = value.memory_usage()
            size = size if isinstance(size, int) else size.sum()
        if size is not None and not callable(size):
            known["size_bytes"] = int(size)
    elif calls and hasattr(cls, "__len__") and not issubclass(cls, type):
        known["shape"] = [int(len(value))]
    return known


def summarize(value, calls: bool) -> str:
    cls = type(value)
    library = home(cls)
    if is_a(value, type(sys)):
        return clean("module %s" % value.__dict__.get("__name__"), SUMMARY_MAX)
    if cls is type(summarize):
        return clean(value.__name__ + _signature(value), SUMMARY_MAX)
    if calls and library == "pandas" and hasattr(value, "columns"):
        return clean(_frame_text(value), SUMMARY_MAX)
    if calls and library == "numpy" and hasattr(value, "dtype") and hasattr(value, "shape"):
        return clean(_array_text(value), SUMMARY_MAX)
    return _Repr(calls).text(value)


def _signature(function) -> str:
    code = function.__code__
    count = code.co_argcount + code.co_kwonlyargcount
    names = list(code.co_varnames[:count])
    return "(%s)" % ", ".join(names)


# ---- the variables ----


_NOISE = {"module": 3, "type": 2, "function": 1, "builtin_function_or_method": 1}


class Variables:
    """The names of the program: values first, then functions, classes and modules."""

    def __init__(self, main: dict) -> None:
        chosen = []
        for name, value in list(main.items()):
            if type(name) is str and name[:1] != "_" and not _is_ours(name, value):
                rank = _NOISE.get(kind(value), 0)
                chosen.append((2 if is_a(value, type) else rank, name, value))
        chosen.sort(key=_rank)  # stable: otherwise in the order of their definition
        self.truncated = len(chosen) > VARIABLES_MAX
        self._chosen = chosen[:VARIABLES_MAX]
        self._found = []

    def run(self) -> None:
        """With calls of code of the program."""
        for rank, name, value in self._chosen[len(self._found) :]:
            self._found.append(self._describe(name, value, True))

    def finish(self) -> dict:
        """Without: an interrupt has ended the above, and the value that took so long is described
        by its class."""
        for rank, name, value in self._chosen[len(self._found) :]:
            self._found.append(self._describe(name, value, False))
        return {"variables": self._found, "truncated": self.truncated}

    @staticmethod
    def _describe(name: str, value, calls: bool) -> dict:
        found = {"name": clean(name, NAME_MAX), "type": kind(value), "summary": ""}
        try:
            found["summary"] = summarize(value, calls)
            found.update(_measure(value, calls))
        except KeyboardInterrupt:
            raise
        except BaseException:
            pass  # what is known is enough
        return found


def _rank(item):
    return item[0]


def _is_ours(name: str, value) -> bool:
    record = None if shell.current is None else shell.current.record
    return record is not None and (
        (name == "In" and value is record.parsed) or (name == "Out" and value is record.results)
    )


# ---- answers ----


def _question(request: dict, text: str, main: dict):
    if request.get("op") == "variables":
        return Variables(main)
    code = tenant.load_late("look_code")
    makes = {"complete": code.Completion, "inspect": code.Help}
    return makes[request["op"]](text, int(request["cursor"]), main)


def answer(request: bytes, source: bytes, main: dict, muted) -> bytes:
    """@muted calls a function that calls code of the program."""
    question = _question(json.loads(request), source.decode("utf-8", "replace"), main)
    muted(question.run)
    return _encode(question.finish())


def _encode(reply: dict) -> bytes:
    """Within the bound: the longest list loses its end."""
    while True:
        text = json.dumps(reply, ensure_ascii=False).encode("utf-8", "replace")
        if len(text) <= REPLY_MAX:
            return text
        key = "variables" if "variables" in reply else "matches"
        reply[key] = reply[key][: len(reply[key]) // 2]
        reply["truncated"] = True
