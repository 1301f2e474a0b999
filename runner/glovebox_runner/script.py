"""Mode "script": runs a program as `python3 FILE`, `python3 -c CODE` or `python3 -` would.

The program runs in a fresh __main__. Then the shutdown of the interpreter is done by hand, in
python3's order: report an uncaught exception, join threads, run atexit callbacks, flush, release
the program's objects so that their destructors run and their files are written, flush again.
Finally a DONE message is sent to the supervisor and the process exits with os._exit(): tearing
down a whole preloaded interpreter would cost more than most programs.

The program owns this interpreter and may have broken any part of it. So the shutdown is a list of
steps; if a step fails the next one runs, and at the end is an os._exit() that nothing can prevent.
Everything the steps need is referenced from here, and this module has its own copy of the builtins.

SIGINT reaches the program and its code that runs at the end (hook, threads, callbacks), never our
own code: it is blocked in between and ignored once they are done.
"""

import atexit
import builtins
import linecache
import os
import re
import sys
import threading
import traceback
import types
import weakref
from _io import _IOBase

# The functions of signal are Python code, which would show in a traceback.
from _signal import SIG_BLOCK, SIG_DFL, SIG_IGN, SIG_UNBLOCK, SIGINT
from _signal import pthread_sigmask as _mask
from _signal import signal as _set_handler
from gc import collect
from importlib.machinery import BuiltinImporter, SourceFileLoader
from itertools import islice
from os import _exit, getpid, kill
from sys import _current_frames, getrecursionlimit, setprofile, setrecursionlimit, settrace

from . import calls, frames, packages

# The functions below use these builtins.
__builtins__ = dict(vars(builtins))

WORKSPACE = "/workspace"
FIELD_MAX = 64 * 1024  # of name, value and traceback in a DONE message

EXIT_FLUSH_FAILED = 120
EXIT_INTERRUPTED = 128 + SIGINT

_CUT = "\n[...]\n"
_COOKIE = re.compile(rb"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
_BLANK = re.compile(rb"^[ \t\f]*(?:[#\r\n]|$)")
if sys.version_info >= (3, 11):
    _PEP_263 = "https://peps.python.org/pep-0263/"
else:
    _PEP_263 = "https://python.org/dev/peps/pep-0263/"

# From 3.13 on the interpreter prints a traceback with linecache; before, it reads files only.
_PRINTER_KNOWS_LINECACHE = sys.version_info >= (3, 13)

_builtins_namespace = vars(builtins)
_ExceptionGroup = getattr(builtins, "BaseExceptionGroup", None)  # 3.11
_traceback_of = BaseException.__dict__["__traceback__"].__get__
_default_excepthook = sys.__excepthook__
_default_unraisablehook = sys.__unraisablehook__
_join_threads = threading._shutdown
_run_atexit = atexit._run_exitfuncs
_INTERRUPT = (SIGINT,)


# ---- the program ----


class Program:
    """What a RUN message asks for."""

    written = False  # to the file of its name

    def __init__(self, message: frames.Message) -> None:
        self.message = message
        self.source = message.get(frames.KEY_CODE, b"")
        name = message.get_text(frames.KEY_FILENAME, "<string>")
        self.is_command = name == "<string>"
        self.is_file = name not in ("<string>", "<stdin>")
        self.filename = self.place(name) if self.is_file else name

    @staticmethod
    def place(name: str) -> str:
        """The path of a file of this name."""
        return WORKSPACE + "/" + name.rpartition("/")[2]

    def make_main(self) -> types.ModuleType:
        """The module __main__, with the names that python3 defines in it, in that order."""
        main = types.ModuleType("__main__")
        main.__loader__ = BuiltinImporter
        if sys.version_info < (3, 14):
            main.__annotations__ = {}
        main.__builtins__ = builtins
        if not self.is_command:
            main.__file__ = self.filename
            main.__cached__ = None
        if self.is_file:
            main.__loader__ = SourceFileLoader("__main__", self.filename)
        sys.modules["__main__"] = main
        return main

    def prepare(self) -> None:
        """Sets sys, and the places where others look for the program's text."""
        path = WORKSPACE if self.is_file else ""
        args = self.message.get_all(frames.KEY_ARG)
        sys.argv = [arg.decode("utf-8", "surrogateescape") for arg in args] or [""]
        sys.path.insert(0, path)
        sys.path_importer_cache.pop(WORKSPACE, None)
        packages.refresh()

        # Loaded in the template, it remembers the template's directory and would send that to
        # spawned processes in place of an empty entry of sys.path.
        process = sys.modules.get("multiprocessing.process")
        if process is not None:
            process.ORIGINAL_DIR = WORKSPACE

        self.written = self.is_file and self._write()
        if not self.written:
            lines = self.source.decode("utf-8", "replace").splitlines(True)
            linecache.cache[self.filename] = (len(self.source), None, lines, self.filename)

    def _write(self) -> bool:
        """Writes the file to the path that its name says, for tracebacks, inspect and spawned
        processes. An existing one is the user's, and stays."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            fd = os.open(self.filename, flags, 0o644)
        except (OSError, ValueError):
            return False
        try:
            rest = memoryview(self.source)
            while rest:
                rest = rest[os.write(fd, rest) :]
            return True
        except OSError:
            os.unlink(self.filename)
            return False
        finally:
            os.close(fd)

    def compile(self) -> types.CodeType:
        if b"\0" in self.source:
            raise self._null_error()
        if self.is_command:
            # Like python3: a newline is added, and a coding cookie is ignored.
            source = self.source.decode("utf-8", "surrogateescape") + "\n"
            return compile(source, self.filename, "exec", dont_inherit=True)

        problem = self._decoding_error()
        if problem is None:
            try:
                return compile(self.source, self.filename, "exec", dont_inherit=True)
            except SyntaxError as error:
                # Line 0 is the encoding; python3 gives no location then.
                problem = SyntaxError(error.msg) if error.lineno == 0 else error
        raise problem

    def _null_error(self) -> SyntaxError:
        before, _, _ = self.source.partition(b"\0")
        text = before.rpartition(b"\n")[2].decode("utf-8", "replace")
        where = (self.filename, before.count(b"\n") + 1, 0, text)
        return SyntaxError("source code cannot contain null bytes", where)

    def _decoding_error(self):
        """The error of python3 for a file that it cannot decode. compile() words it differently
        for text in memory, and does not check comments at all."""
        cookie = self._cookie()
        try:
            if cookie is None:
                self.source.decode("utf-8")
            elif cookie.lower().replace("_", "-") not in ("utf-8", "utf8"):
                self.source.decode(cookie)
        except UnicodeDecodeError as error:
            if cookie is None:
                return SyntaxError(
                    "Non-UTF-8 code starting with '\\x%.2x' in file %s on line %d, but no encoding "
                    "declared; see %s for details"
                    % (
                        self.source[error.start],
                        self.filename,
                        self.source.count(b"\n", 0, error.start) + 1,
                        _PEP_263,
                    )
                )
            return SyntaxError("encoding problem: " + cookie)
        except (LookupError, ValueError):
            return SyntaxError("encoding problem: " + cookie)
        return None

    def _cookie(self):
        """The encoding that one of the first two lines declares (PEP 263), or None."""
        if b"coding" not in self.source[:1024]:
            return None
        for line in self.source[:1024].split(b"\n", 2)[:2]:
            match = _COOKIE.match(line)
            if match:
                return match.group(1).decode("ascii", "replace")
            if not _BLANK.match(line):
                return None
        return None


# ---- its uncaught exception ----


our_globals = [globals()]  # modules whose frames are never shown


def _skip_our_frames(tb):
    while tb is not None and any(tb.tb_frame.f_globals is ours for ours in our_globals):
        tb = tb.tb_next
    return tb


def _without_our_frames(error):
    tb = _skip_our_frames(_traceback_of(error))
    if tb is not None and getattr(error, "glovebox_ends_here", False) is True:
        _cut_our_frames(tb)
    return BaseException.with_traceback(error, tb)


def _cut_our_frames(tb) -> None:
    """An exception that we raise on purpose, such as that of %pip, ends where the program called
    us."""
    while tb.tb_next is not None:
        name = tb.tb_next.tb_frame.f_globals.get("__name__")
        if isinstance(name, str) and name.partition(".")[0] in ("glovebox_runner", "IPython"):
            tb.tb_next = None
        else:
            tb = tb.tb_next


def _unraisable(args) -> None:
    """sys.unraisablehook for the end of the program."""
    tb = _skip_our_frames(args.exc_traceback)
    if args.exc_value is not None:
        BaseException.with_traceback(args.exc_value, tb)
    fields = (args.exc_type, args.exc_value, tb, args.err_msg, args.object)
    _default_unraisablehook(type(args)(fields))


def _field(text: str) -> bytes:
    """Text for a DONE message: its beginning and its end if it is too long."""
    if len(text) > FIELD_MAX:
        text = text[: FIELD_MAX // 2] + _CUT + text[-FIELD_MAX // 2 :]
    data = text.encode("utf-8", "backslashreplace")
    if len(data) <= FIELD_MAX:
        return data
    half = (FIELD_MAX - len(_CUT)) // 2
    head = data[:half].decode("utf-8", "ignore")
    tail = data[-half:].decode("utf-8", "ignore")
    return (head + _CUT + tail).encode()


class _Tee:
    """Replaces sys.stderr while a traceback is printed: passes the text on, keeps it, and adds the
    source lines that the interpreter does not have."""

    def __init__(self, target, source_lines) -> None:
        self._target = target
        self._source_lines = source_lines
        self._head = []
        self._room = FIELD_MAX
        self._tail = ""
        self._margin = ""

    def __getattr__(self, name):
        return getattr(self._target, name)

    def write(self, text):
        self._put(text)
        extra = self._source_lines.get(text)
        if extra is not None:
            self._put("".join(self._margin + line for line in extra))
        # Frames in an exception group follow a margin, which is written first.
        self._margin = "" if text.endswith("\n") else (self._margin + text[:80])[:80]
        return len(text)

    def flush(self):
        if self._target is not None:
            self._target.flush()

    def _put(self, text):
        if self._room:
            part = text[: self._room]
            self._head.append(part)
            self._room -= len(part)
        if not self._room:
            self._tail = (self._tail + text[-FIELD_MAX:])[-FIELD_MAX:]
        if self._target is not None:
            try:
                self._target.write(text)
            except BaseException:
                self._target = None

    def text(self):
        return "".join(self._head) + self._tail


def _related(error):
    """The exception and those that are printed with it."""
    seen = set()
    waiting = [error]
    while waiting and len(seen) < 1000:
        error = waiting.pop()
        if error is None or id(error) in seen:
            continue
        seen.add(id(error))
        yield error
        waiting.extend((error.__cause__, error.__context__))
        if _ExceptionGroup is not None and issubclass(type(error), _ExceptionGroup):
            waiting.extend(error.exceptions)


def _source_lines(error, filenames):
    """For each line of the traceback that names a frame of the program, the lines that belong under
    it. If two frames differ only in their markers, there are no markers."""
    found = {}
    seen = set()
    for each in _related(error):
        tb = _traceback_of(each)
        while tb is not None:
            code = tb.tb_frame.f_code
            key = (code, tb.tb_lasti)
            if code.co_filename in filenames and key not in seen:
                seen.add(key)
                header, *lines = traceback.format_tb(tb, 1)[0].splitlines(True)
                if found.setdefault(header, lines) != lines:
                    found[header] = lines[:1]
            tb = tb.tb_next
    return found


def _stderr_write(text) -> None:
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except BaseException:
        pass


# ---- the end ----


class _Ending:
    """The end of a program, step by step."""

    def __init__(self, program: Program, control) -> None:
        self.code = 1
        self._program = program
        self._control = control
        self._streams = (sys.stdin, sys.stdout, sys.stderr)
        self._main = program.make_main()
        self._modules = len(sys.modules)
        self._error = None
        self._died_of_interrupt = False
        self._fields = []
        self._filenames = () if program.is_file else (program.filename,)  # that are not files

    def _steps(self):
        return (
            self._execute,
            self._flush_quietly,
            self._report,
            self._join,
            self._call_atexit,
            self._close_to_interrupts,
            self._flush,
            self._release,
            self._flush,
            self._send,
            self._die_of_interrupt,
        )

    def run(self) -> None:
        self._run_steps(self._steps())

    @staticmethod
    def _run_steps(steps) -> None:
        steps = iter(steps)
        while True:
            try:
                for step in steps:
                    step()
                return
            except BaseException:
                # A failed step, or an interrupt between two of them. The iterator is at the next
                # one.
                continue

    def _execute(self) -> None:
        try:
            self._program.prepare()
            code = self._program.compile()
            _mask(SIG_UNBLOCK, _INTERRUPT)
            exec(code, self._main.__dict__)
            self.code = 0
        except BaseException as error:
            self._error = error
        settrace(None)
        setprofile(None)
        _mask(SIG_BLOCK, _INTERRUPT)
        if getrecursionlimit() < 200:
            setrecursionlimit(1000)

    def _interruptible(self, call, *args):
        """Calls code of the program. Returns the exception it raised, or None."""
        raised = None
        try:
            _mask(SIG_UNBLOCK, _INTERRUPT)
            call(*args)
        except BaseException as error:
            raised = error
        _mask(SIG_BLOCK, _INTERRUPT)
        return raised if raised is None else _without_our_frames(raised)

    def _flush_quietly(self) -> None:
        if self._program.is_command:
            return  # python3 does it only for files
        for stream in (sys.stderr, sys.stdout):
            try:
                stream.flush()
            except BaseException:
                pass

    # Handles an exception, as CPython's PyErr_Print() does.

    def _report(self) -> None:
        error = self._error
        if error is None:
            return
        if issubclass(type(error), SystemExit):
            self._exit_as_asked(error)
            return
        self.code = 1
        if type(error) is KeyboardInterrupt:
            self.code = EXIT_INTERRUPTED
            self._died_of_interrupt = True
        _without_our_frames(error)
        self._remember(error)
        self._print(error)

    def _exit_as_asked(self, error) -> None:
        try:
            value = error.code
        except BaseException:
            value = error
        if value is None:
            self.code = 0
        elif issubclass(type(value), int):
            # A value that does not fit a C long is -1.
            self.code = int.__and__(value, 0xFF) if int.bit_length(value) < 64 else 0xFF
        else:
            self.code = 1
            try:
                sys.stderr.write(str(value))
            except BaseException:
                pass
            _stderr_write("\n")

    def _remember(self, error) -> None:
        sys.last_type, sys.last_value, sys.last_traceback = type(error), error, _traceback_of(error)
        if sys.version_info >= (3, 12):
            sys.last_exc = error

    def _print(self, error) -> None:
        hook = getattr(sys, "excepthook", None)
        if hook is _default_excepthook:
            text = self._show(error, sys.stderr)
        elif hook is None:
            _stderr_write("sys.excepthook is missing\n")
            text = self._show(error, sys.stderr)
        else:
            text = self._show(error, None)
            failure = self._interruptible(hook, type(error), error, _traceback_of(error))
            if failure is not None:
                self._hook_failed(error, failure)
        self._describe(error, text)

    def _hook_failed(self, error, failure) -> None:
        if issubclass(type(failure), SystemExit):
            self._exit_as_asked(failure)
            return
        _stderr_write("Error in sys.excepthook:\n")
        self._show(failure, sys.stderr)
        _stderr_write("\nOriginal exception was:\n")
        self._show(error, sys.stderr)

    def _show(self, error, target) -> str:
        """Prints with the interpreter's own hook, for it knows more than the traceback module does
        in some versions (the "Did you mean" of 3.10 and 3.11)."""
        lines = {}
        if self._filenames and not _PRINTER_KNOWS_LINECACHE:
            try:
                lines = _source_lines(error, self._filenames)
            except Exception:
                pass
        tee = _Tee(target, lines)
        stderr = sys.stderr
        sys.stderr = tee
        try:
            _default_excepthook(type(error), error, _traceback_of(error))
        finally:
            sys.stderr = stderr
        return tee.text()

    def _describe(self, error, text) -> None:
        try:
            name = type.__dict__["__name__"].__get__(type(error))
        except BaseException:
            name = "Exception"
        try:
            value = str(error)
        except BaseException:
            value = "<exception str() failed>"
        self._fields = [
            (frames.KEY_ERROR_NAME, _field(name)),
            (frames.KEY_ERROR_VALUE, _field(value)),
            (frames.KEY_TRACEBACK, _field(text)),
        ]

    # The steps of CPython's Py_FinalizeEx() that a program can observe.

    def _join(self) -> None:
        raised = self._interruptible(_join_threads)
        if raised is not None:
            self._ignored(threading, raised)

    def _call_atexit(self) -> None:
        # It prints exceptions of callbacks itself, with the frame that called it: ours.
        if sys.unraisablehook is _default_unraisablehook:
            sys.unraisablehook = _unraisable
        self._interruptible(_run_atexit)

    def _close_to_interrupts(self) -> None:
        # A mask would not do: another thread could take the signal.
        _set_handler(SIGINT, SIG_IGN)

    def _ignored(self, where, error) -> None:
        _without_our_frames(error)
        text = "".join(traceback.format_exception(type(error), error, _traceback_of(error)))
        _stderr_write("Exception ignored in: %r\n%s" % (where, text))

    def _flush(self) -> None:
        stdout = getattr(sys, "stdout", None)
        stderr = getattr(sys, "stderr", None)
        if stdout is not None and not getattr(stdout, "closed", False):
            try:
                stdout.flush()
            except BaseException as error:
                self.code = EXIT_FLUSH_FAILED
                self._ignored(stdout, error)
        if stderr is not None and not getattr(stderr, "closed", False):
            try:
                stderr.flush()
            except BaseException:
                self.code = EXIT_FLUSH_FAILED
        calls.flush()

    def _release(self) -> None:
        """Releases the program's objects. This writes files that it never closed."""
        sys.stdin, sys.stdout, sys.stderr = self._streams
        self._error = None
        sys.last_type = sys.last_value = sys.last_traceback = None
        if sys.version_info >= (3, 12):
            sys.last_exc = None

        namespace = self._main.__dict__
        self._flush_files(namespace)
        if len(_current_frames()) > 1:
            # A daemon thread would fail on vanished names; python3 has frozen it by now.
            return
        # Objects that survive one collection are in the order of their references, so that the
        # next one, which finds them dead, closes a text stream before the file below it and no
        # data is lost.
        collect()
        for name in self._workspace_modules():
            sys.modules.pop(name, None)
        sys.modules.pop("__main__", None)
        self._main = None
        last = _LastName(namespace)
        alive = weakref.ref(last)
        namespace[_LastName.NAME] = last
        del last, namespace
        collect()
        if alive() is not None:
            alive().clear()

    @staticmethod
    def _flush_files(namespace) -> None:
        for value in list(namespace.values()):
            if issubclass(type(value), _IOBase):  # io.IOBase is an ABC, and slow to check
                try:
                    value.flush()
                except BaseException:
                    pass

    def _workspace_modules(self):
        # Only the last ones: looking at all names would copy every page that has one.
        count = max(0, len(sys.modules) - self._modules)
        for name in list(islice(reversed(sys.modules), count)):
            module = sys.modules[name]
            if isinstance(module, types.ModuleType):
                file = module.__dict__.get("__file__")
                if isinstance(file, str) and file.startswith(WORKSPACE + "/"):
                    yield name

    def _send(self) -> None:
        if self._died_of_interrupt:
            self.code = EXIT_INTERRUPTED
        fields = [(frames.KEY_EXIT_CODE, b"%d" % self.code), *self._fields]
        try:
            packets = frames.encode(frames.FRAME_DONE, fields)
        except BaseException:
            # The program broke the builtins that frames.py shares with it.
            _builtins_namespace.update(__builtins__)
            packets = frames.encode(frames.FRAME_DONE, fields)
        self._control.send(packets)

    def _die_of_interrupt(self) -> None:
        """A program ended by an interrupt dies by that signal, so that the waiting process
        can tell."""
        if self._died_of_interrupt:
            _set_handler(SIGINT, SIG_DFL)
            kill(getpid(), SIGINT)
            _mask(SIG_UNBLOCK, _INTERRUPT)


class _LastName:
    """Whether the namespace of __main__ is gone; if something still holds it, its values are
    dropped one by one, those of private names first, as CPython does with a module."""

    NAME = "__glovebox_end__"

    def __init__(self, namespace) -> None:
        self._namespace = namespace

    def clear(self) -> None:
        namespace = self._namespace
        names = [name for name in namespace if isinstance(name, str) and name != "__builtins__"]
        private = [name for name in names if name[:1] == "_" and name[1:2] != "_"]
        for name in private + names:
            namespace[name] = None


_EXERCISE = b"""
import sys as _
class A:
    x: int = 1
    def f(self, *a, k=None):
        try:
            return [i for i in a if i] + [f"{k!r}"]
        except (KeyError, ValueError) as e:
            raise RuntimeError("x") from e
def g(n):
    while n > 0 and not n == 2:
        n -= 1
    return lambda q: q + 1
for i, b in enumerate(sorted(A().f(1, *[3], k={"a": 1}), key=str)):
    c = (i, b)[0:1]
"""
_WARM_UP = b"import sys as _"


def warm_up(code=_WARM_UP) -> None:
    """Runs the code between a message and a program once. A clone's first write to each page
    copies it; this does so while nobody waits. No more than that: a waiting clone should be
    small."""
    fields = [(frames.KEY_CODE, code), (frames.KEY_FILENAME, "<stdin>")]
    message = frames.Reader().feed(frames.encode(frames.FRAME_RUN, fields)[0])
    before = sys.modules.get("__main__")
    program = Program(message)
    exec(program.compile(), program.make_main().__dict__)
    if before is not None:
        sys.modules["__main__"] = before


def exercise() -> None:
    """For the template: uses all parts of the compiler and the interpreter loop once."""
    warm_up(_EXERCISE)


def run(message: frames.Message, control):
    """Runs the program of a RUN message and exits."""
    ending = None
    try:
        ending = _Ending(Program(message), control)
        ending.run()
    finally:
        _exit(125 if ending is None else ending.code)
