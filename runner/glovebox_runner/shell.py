"""The shell of a session: In, Out and _, get_ipython(), %magics and !commands.

Plain Python does not need it, apart from the record of inputs and results (Record), which costs a
few dictionary entries per cell. Text that Python refuses is translated by IPython; the code that
this yields calls get_ipython() and is run like any other. ipython.py has the subclass of IPython's
InteractiveShell that get_ipython() returns. It is created in the template if that has loaded
IPython, otherwise when it is first needed, and it learns of the session only then.

Without IPython such text is a SyntaxError that says what is missing. Only pip works: lines that
begin with %pip or !pip.
"""

import builtins
import os
import re
import sys

from . import packages, tenant

# The program may break its own copies.
__builtins__ = dict(vars(builtins))

INPUTS_MAX = 1000  # cells whose text is kept in In, as _iN and for %history
INPUT_BYTES = 4 << 20  # and its size
RESULTS_MAX = 1000  # values in Out and as _N
RESULT_BYTES = 64 << 20  # and what they take, by estimate
UNKNOWN_BYTES = 1 << 20  # the estimate for a value of an unknown type

# What IPython could translate: a line that begins or ends with one of its marks, a prompt, an
# assignment from a command, and a first line that is indented.
_MARKS = re.compile(
    r"^[ \t]*(?:[%!?,;/]|>>>|\.\.\.|In[ ]?\[|\x1b)|=[ \t]*[%!]|\?[ \t]*(?:\#.*)?$|"
    r"\A(?:[ \t]*(?:\#.*)?\n)*[ \t]+[^\s#]",
    re.MULTILINE,
)
_PROMPT = re.compile(rb"In \[\d+\]: ")
_WORD = re.compile(r"[ \t]*([A-Za-z_]\w*)")
_INDENT = re.compile(r"(?:[ \t]*(?:#[^\n]*)?\n)*([ \t]+)[^\s#]")
_PIP = re.compile(r"(?:python3?\s+-m\s+)?pip3?(?:\s+(?P<args>.*))?\Z", re.DOTALL)
_PIP_LINE = re.compile(r"[ \t]*[%!][ \t]*(?P<command>.*)\Z")
_MISSING = ("%%magics and !commands need IPython, which is not installed here (%s); "
            "add ipython to the template's packages, or run %%pip install ipython")

current = None  # the Shell of this process; None in a script
prepared = None  # what the template made, for its clones

def get_ipython():
    """The shell of this session; None outside of one."""
    return None if current is None else current.ip()


def is_active() -> bool:
    return current is not None


# ---- In, Out and _ ----


class Results(dict):
    """Out. A value that is no longer kept is missing, and the KeyError says why."""

    dropped = 0  # the highest number among those

    def __missing__(self, key):
        if isinstance(key, int) and 0 < key <= self.dropped:
            raise KeyError("no result of cell %d is kept: only the last ones are" % key)
        raise KeyError(key)


_NUMBERS = (int, float, bool, complex, type(None))
_STRINGS = (str, bytes, bytearray)


def _estimate(value) -> int:
    """Roughly what a value takes in memory, without running code of the program."""
    kind = type(value)
    if kind in _NUMBERS:
        return 32
    if kind in _STRINGS:
        return len(value)
    if kind in (list, tuple, set, frozenset):
        if len(value) <= 1000 and all(type(item) in _NUMBERS for item in value):
            return 64 * len(value)
        return UNKNOWN_BYTES + 64 * len(value)
    library = kind.__module__.partition(".")[0] if type(kind.__module__) is str else ""
    try:
        if library == "numpy":
            return int(value.nbytes)
        if library == "pandas":
            return int(value.size) * 8
    except Exception:
        pass
    return UNKNOWN_BYTES


_UNDERS = ("_", "__", "___")


class Record:
    """The inputs and results of a session, within bounds."""

    def __init__(self, main: dict) -> None:
        self.main = main
        self.count = 0
        self.raw = [""]  # as the cells were sent; the first cell is number 1
        self.parsed = [""]  # In: as Python
        self.results = Results()  # Out
        self._unders = ["", "", ""]  # our values of _, __ and ___
        self._sizes = {}  # of the results, oldest first
        self._total = 0
        self._first = 1  # of the inputs that are kept
        self._bytes = 0
        self.fill(main)

    def clear(self) -> None:
        """When the program's names are removed: no result is kept then, and ours are as new."""
        self.results.clear()
        self._sizes.clear()
        self._total = 0
        self._unders = ["", "", ""]
        self.fill(self.main)

    def fill(self, main: dict) -> None:
        """Defines the names of a new session."""
        main.update(In=self.parsed, _ih=self.parsed, Out=self.results, _oh=self.results,
                    _dh=[os.getcwd()], _="", __="", ___="", _i="", _ii="", _iii="")

    def begin(self, source: bytes) -> None:
        main = self.main
        text = source.decode("utf-8", "replace").rstrip("\n")
        self.count += 1
        for lines in (self.raw, self.parsed):
            if len(lines) != self.count:  # the program has changed it, or %reset has emptied it
                lines[self.count:] = []
                lines += [""] * (self.count - len(lines))
        main["_iii"], main["_ii"], main["_i"] = main.get("_ii", ""), main.get("_i", ""), self.raw[-1]
        main["_i%d" % self.count] = text
        self.raw.append(text)
        self.parsed.append(text)
        self._bytes += len(text)
        if self._bytes > INPUT_BYTES or self.count - self._first >= INPUTS_MAX:
            self._drop_inputs()

    def translated(self, text: str) -> None:
        self.parsed[-1] = text.rstrip("\n")

    def _drop_inputs(self) -> None:
        """The lists stay as long as they are, so that numbers keep their meaning."""
        last = self.count
        while self._first < last and (
            self._bytes > INPUT_BYTES or last - self._first >= INPUTS_MAX
        ):
            number = self._first
            self._first += 1
            if number < len(self.raw):
                self._bytes -= len(self.raw[number])
                self.raw[number] = ""
            if number < len(self.parsed):
                self.parsed[number] = ""
            self.main.pop("_i%d" % number, None)

    def keep(self, value) -> None:
        """The value that a cell has shown."""
        if value is self.results:
            return
        main, number = self.main, self.count
        mine = all(main.get(name, own) is own for name, own in zip(_UNDERS, self._unders))
        self._unders = [value, *self._unders[:2]]
        if mine and "_" not in vars(builtins):  # gettext's, for example
            main.update(zip(_UNDERS, self._unders))
        main["_%d" % number] = value
        self.results[number] = value
        size = _estimate(value)
        self._total += size - self._sizes.pop(number, 0)
        self._sizes[number] = size
        while self._total > RESULT_BYTES and len(self._sizes) > 1:
            # The oldest of the large ones, before many small ones.
            older = list(self._sizes)[:-1]
            large = (n for n in older if self._sizes[n] >= UNKNOWN_BYTES)
            self._drop_result(next(large, older[0]))
        if len(self._sizes) > RESULTS_MAX:
            self._drop_result(next(iter(self._sizes)))

    def _drop_result(self, number) -> None:
        self._total -= self._sizes.pop(number)
        value = self.results.pop(number, None)
        self.results.dropped = max(self.results.dropped, number)
        main = self.main
        main.pop("_%d" % number, None)
        for place, name in enumerate(_UNDERS[1:], 1):
            if self._unders[place] is value and value is not self._unders[0]:
                self._unders[place] = None
                if main.get(name) is value:
                    main[name] = None


# ---- the shell ----


def _harmless(default):
    """For what every cell asks IPython once it is in use: a program that has broken it can still
    run plain code."""

    def wrap(method):
        def call(self, *args):
            if self._ip is None:
                return default
            try:
                return method(self, *args)
            except Exception:
                return default

        return call

    return wrap


class Shell:
    """What a session knows of its shell."""

    def __init__(self, main, wait_for, report) -> None:
        """@wait_for runs a coroutine, @report prints an exception and returns the text."""
        global current
        self.main = main
        self.record = Record(main.__dict__)
        self.wait_for = wait_for
        self.report = report
        self.noted = []  # (exception, text): printed in the course of this cell
        self._ip = None
        current = self
        if tenant.has_ipython:
            builtins.get_ipython = get_ipython
        if prepared is not None:
            builtins.__IPYTHON__ = True

    @property
    def is_used(self) -> bool:
        return self._ip is not None

    def ip(self):
        """IPython's shell. Raises ImportError."""
        if self._ip is None:
            ip = prepared
            if ip is None:
                ip = tenant.load_late("ipython").make()
                builtins.get_ipython = get_ipython
                builtins.__IPYTHON__ = True
            self._ip = ip
            ip.bind(self)
        return self._ip

    # One cell, in this order.

    def begin(self, source: bytes) -> None:
        self.noted = []
        self.record.begin(source)

    def changes_code(self, source: bytes) -> bool:
        """Whether plain Python may mean something else by now: IPython was told to transform it,
        or its only word is a macro."""
        if source[:4] == b"In [":
            return _PROMPT.match(source) is not None  # Python would take it for an annotation
        return self._ip is not None and self._changes(source)

    @_harmless(False)
    def _changes(self, source: bytes) -> bool:
        return self._ip.changes_code() or self._ip.is_called_by_name(source)

    def translate(self, text: str, problem=None) -> str:
        """@text as Python. @problem is the SyntaxError that Python has for it, raised again if
        there is nothing for IPython in it."""
        if problem is not None and not self._may_translate(text):
            raise problem
        try:
            ip = self.ip()
        except ImportError as error:
            return _translate_without(text, problem, error)
        try:
            python = ip.transform_cell(text)
        except SyntaxError:
            if problem is None:
                raise
            raise problem from None
        if problem is not None and python.rstrip("\n") == text.rstrip("\n"):
            raise problem
        self.record.translated(python)
        return python

    def _may_translate(self, text: str) -> bool:
        if _MARKS.search(text) is not None:
            return True
        if self._changes(b""):
            return True
        if "\n" in text.strip():
            return False
        # A magic without its mark, in a cell of one line.
        word = _WORD.match(text)
        if word is None or word.group(1) in self.main.__dict__:
            return False
        return (prepared or self._ip) is not None and self.ip().find_line_magic(word.group(1))

    def translate_name(self, source: bytes, error) -> bool:
        """Whether a cell of one line that begins with an undefined name is a magic without its
        mark. Nothing has been run yet then."""
        text = source[:1000].decode("utf-8", "replace")
        word = _WORD.match(text)
        if word is None or "\n" in text.strip() or getattr(error, "name", None) != word.group(1):
            return False
        if prepared is None and self._ip is None:
            return False
        ip = self.ip()
        return ip.automagic and ip.find_line_magic(word.group(1)) is not None

    @_harmless(None)
    def before_code(self) -> None:
        self._ip.before_code(self.record.raw[-1])

    @property
    def wants_end(self) -> bool:
        """Whether something has to be done after the code."""
        return self._ip is not None and (bool(self.noted) or self._has_callbacks())

    @_harmless(False)
    def _has_callbacks(self) -> bool:
        return self._ip.wants_end()

    @_harmless(None)
    def after_code(self, error) -> None:
        self._ip.after_code(error)

    @_harmless(False)
    def handles(self, error) -> bool:
        """Whether the program has set a handler for such exceptions."""
        return self._ip.handles(error)

    def handle(self, error) -> None:
        self._ip.CustomTB(type(error), error, error.__traceback__, tb_offset=0)

    @_harmless(None)
    def describe_error(self, error):
        """The text for an exception; None for the usual one."""
        return self._ip.describe_error(error)

    def note(self, error) -> None:
        """An exception that IPython reports by itself, with the cell going on: that of a nested
        cell, for instance."""
        self.noted.append((error, self.report(error)))


def _translate_without(text: str, problem, error) -> str:
    """What can be done without IPython: pip, and text that is indented as a whole."""
    if problem is None:
        return text
    lines = text.split("\n")
    for number, line in enumerate(lines):
        command = _pip_command(line)
        if command is not None:
            builtins.__glovebox_pip__ = pip
            indent = line[: len(line) - len(line.lstrip())]
            lines[number] = "%s__glovebox_pip__(%r)" % (indent, command)
    python = "\n".join(lines)
    found = _INDENT.match(python)
    if found is not None:
        indent = found.group(1)
        python = "\n".join(line[len(indent):] if line.startswith(indent) else line
                           for line in python.split("\n"))
    if re.search(r"^[ \t]*[%!]|=[ \t]*[%!]", python, re.MULTILINE) is not None:
        try:
            compile(python, "<cell>", "exec", 0x2400)  # only the tree; await is allowed
        except SyntaxError:
            raise SyntaxError(_MISSING % error, problem.args[1]) from None
    elif python == text:
        raise problem
    return python


def _pip_command(line: str):
    """The arguments of pip in a line of a cell; None if it is something else."""
    found = _PIP_LINE.match(line)
    return None if found is None else pip_arguments(found.group("command"))


# ---- pip ----


def pip_arguments(command: str):
    """The arguments of a command that runs pip, None for others."""
    found = _PIP.match(command.strip())
    return None if found is None else found.group("args") or ""


def pip(line: str) -> None:
    """%pip and !pip"""
    main = {} if current is None else current.main.__dict__
    main["_exit_code"] = 1
    packages.pip(line)
    main["_exit_code"] = 0


def flush() -> None:
    for name in ("stdout", "stderr"):
        try:
            getattr(sys, name).flush()
        except Exception:
            pass
