"""Mode "cell": runs code as a notebook does, in a namespace that is kept from one message to the
next.

A cell is run in __main__. The value of its last expression, its displays and the figures that it
leaves open are sent to the supervisor as MIME bundles (display.py); a DONE message follows. Then it
waits for the next RUN message. A supervisor that has no more to run shuts down its side of the
socket: that ends the session, and the rest is as at the end of a script (script.py), whose steps
are used. So a process that was given one cell exits with the cell's exit code.

Changes of a cell to the interpreter are undone before anything is shown: streams that it replaced
or closed, standard descriptors that it closed, hooks and handlers that it set. As in script.py this
is not a security boundary. A child that the program forked runs on after its cell until it exits,
and the supervisor is not notified.

Top-level await works: code that has one is run by an event loop that belongs to the session
(loop.py).

Text that Python refuses is given to IPython to translate (shell.py).

An interrupt is for the running cell. Between cells SIGINT is blocked in this thread, but a thread
that a cell left behind can still receive it; so between cells our own handler replaces Python's and
only records it. At the start of a cell a recorded or pending interrupt counts for that cell, unless
the message says that it was meant for the previous one.
"""

import __future__
import ast
import builtins
import fcntl
import io
import os
import re
import sys
from _signal import SIGINT, default_int_handler
from _signal import signal as _set_handler
from os import _exit, getpid
from sys import getrecursionlimit, setprofile, setrecursionlimit, settrace

from . import asks, calls, display, frames, hooks, loop, packages, script, shell, sources, tenant

__builtins__ = dict(vars(builtins))

_ONLY_AST = 0x0400  # ast.PyCF_ONLY_AST
_TOP_LEVEL_AWAIT = 0x2000  # ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
_COROUTINE = 0x0080  # inspect.CO_COROUTINE

_NEEDED = ("isinstance", "len", "str", "type")  # builtins that most of our code needs

for _module in (display, hooks, loop, packages, shell, sources, display.rich):
    script.our_globals.append(_module.__dict__)
script.our_globals.append(globals())

# A last line that is not an expression, whatever comes before it, provided the whole text is valid
# Python: a plain assignment or import, or a line of a block. Without quotes and brackets it cannot
# be the end of something that began above.
_STATEMENT = re.compile(
    rb"""(?: [A-Za-z_][A-Za-z0-9_.]* [ ]* [-+*/%&|^]?=(?!=) | (?:import|from|pass|del)\b | [ ]+(?=[^ ]) )
    [^"'()\[\]{};\\\#\r\f]*""",
    re.VERBOSE,
).fullmatch

_FUTURE_FLAGS = 0
for _name in __future__.all_feature_names:
    _FUTURE_FLAGS |= getattr(__future__, _name).compiler_flag


# ---- the text ----


class Cell(script.Program):
    """What a RUN message asks for."""

    def __init__(self, message: frames.Message) -> None:
        self.message = message
        fields = dict(reversed(message.fields))  # the first of each key
        get = fields.get
        self.source = get(frames.KEY_CODE, b"")
        name = get(frames.KEY_FILENAME, b"<string>").decode("utf-8", "surrogateescape")
        self.is_command = name[:1] == "<" and name[-1:] == ">"
        self.is_file = not self.is_command
        self.filename = self.place(name) if self.is_file else name
        self.echo = frames.KEY_ECHO in fields
        self.calm = frames.KEY_CALM in fields
        self.id = get(frames.KEY_EXECUTION)
        self.input = get(frames.KEY_STDIN)
        self.names = get(frames.KEY_NAMES)
        self.look = get(frames.KEY_LOOK)
        self.env = message.get_all(frames.KEY_CELL_ENV) if frames.KEY_CELL_ENV in fields else ()
        self.changed = False  # translate it, although Python accepts it
        self.shows_all = False  # the expressions in it, through sys.displayhook

    def _text(self) -> str:
        if b"\0" in self.source:
            raise self._null_error()
        cookie = self._cookie()
        if cookie is None or cookie.lower().replace("_", "-") in ("utf-8", "utf8"):
            cookie = "utf-8"
        try:
            text = self.source.decode(cookie)
        except (LookupError, ValueError):
            raise self._decoding_error() from None
        return text[1:] if cookie == "utf-8" and text[:1] == "\ufeff" else text

    def _parse(self, flags):
        """The text, as Python, and its tree."""
        text = self._text()
        flags |= _ONLY_AST | _TOP_LEVEL_AWAIT
        try:
            return text, compile(text, self.filename, "exec", flags, True)
        except SyntaxError as error:
            problem = error
        if shell.current is None:
            raise problem
        text = shell.current.translate(text, problem)
        self._remember_translation(text)
        return text, compile(text, self.filename, "exec", flags, True)

    def _remember_translation(self, text: str) -> None:
        """Tracebacks show the cell as it was sent, unless its lines are no longer the same."""
        if text.count("\n") != self.source.count(b"\n") + (not self.source.endswith(b"\n")):
            main = shell.current.main.__dict__
            sources.remember(self.filename, text.encode("utf-8", "replace"), main)

    def compile_parts(self, flags):
        """Code to run, and code whose value to show; each may be None."""
        if shell.current is not None and (
            self.changed or shell.current.changes_code(self.source)
        ):
            return self._compile_changed(flags)
        code = self._compile_whole(flags)
        if code is not None:
            return code, None
        text, tree = self._parse(flags)
        last = tree.body[-1] if tree.body else None
        if not isinstance(last, ast.Expr) or _is_muted(text, last):
            return self._compile(tree, "exec", flags), None
        tree.body.pop()
        body = self._compile(tree, "exec", flags) if tree.body else None
        if body is not None:
            flags |= body.co_flags & _FUTURE_FLAGS
        return body, self._compile(ast.Expression(last.value), "eval", flags)

    def _compile_changed(self, flags):
        """For sessions that have told IPython to treat their code in another way."""
        text = shell.current.translate(self._text())
        self._remember_translation(text)
        tree = compile(text, self.filename, "exec", flags | _ONLY_AST | _TOP_LEVEL_AWAIT, True)
        tree, which = shell.current.ip().transform_tree(tree)
        last = tree.body[-1] if tree.body else None
        value = None
        if isinstance(last, ast.Expr) and which != "none" and not _is_muted(text, last):
            tree.body.pop()
            value = self._compile(ast.Expression(last.value), "eval", flags)
            last = None
        if which == "all" or (which == "last" and last is not None):
            self.shows_all = True
            return self._compile(ast.Interactive(tree.body), "single", flags), value
        return self._compile(tree, "exec", flags), value

    def _compile_whole(self, flags):
        """A tree of Python objects takes longer than the compiler itself. None for code that
        needs one: an expression at the end, magics, encodings, mistakes."""
        source = self.source
        if not _ends_in_statement(source) or b"coding" in source[:1024] or b"\0" in source:
            return None
        try:
            text = source.decode()
            if text[:1] == "\ufeff":
                text = text[1:]
            return compile(text, self.filename, "exec", flags | _TOP_LEVEL_AWAIT, True)
        except (SyntaxError, ValueError):
            return None

    def _compile(self, tree, how, flags):
        return compile(tree, self.filename, how, flags | _TOP_LEVEL_AWAIT, True)


def _ends_in_statement(source: bytes) -> bool:
    """True if that is certain, provided the source can be compiled; most other cases are found in
    the tree."""
    before, _, last = source.rstrip(b"\n").rpartition(b"\n")
    return not before.endswith(b"\\") and _STATEMENT(last) is not None


def _is_muted(text: str, last) -> bool:
    """A semicolon after the last expression."""
    lines = text.encode("utf-8", "surrogatepass").splitlines(True)[last.end_lineno - 1 :]
    lines[0] = lines[0][last.end_col_offset :]
    return b"".join(lines).lstrip(b" \t\f\\\r\n").startswith(b";")


# ---- descriptors and streams ----


class _Streams:
    """The original standard streams, and how to restore them."""

    def __init__(self, streams) -> None:
        self.streams = list(streams)
        self._saved = []  # number, its file, a copy of it, the file of the copy
        numbers = []
        for number in range(3):
            try:
                saved = fcntl.fcntl(number, fcntl.F_DUPFD_CLOEXEC, 100)
                identity, copy = calls.identify((number,)), calls.identify((saved,))
                self._saved.append((number, identity, saved, copy))
                numbers.append(number)
            except OSError:
                continue
        self.identity = calls.identify(tuple(numbers))

    def restore(self) -> None:
        for name, ours in (("stdout", self.streams[1]), ("stderr", self.streams[2])):
            stream = getattr(sys, name, None)
            if stream is not ours:
                try:
                    stream.flush()
                except BaseException:
                    pass
        if not calls.is_same(self.identity):
            for number, identity, saved, copy in self._saved:
                if not calls.is_same(identity) and calls.is_same(copy):
                    os.dup2(saved, number)
        for number in range(3):
            self._restore_stream(number)
        sys.stdin, sys.stdout, sys.stderr = self.streams
        sys.__stdin__, sys.__stdout__, sys.__stderr__ = self.streams

    def _restore_stream(self, number) -> None:
        stream = self.streams[number]
        if stream is None:
            return
        try:
            # Raises if it was closed or detached, or if another thread is writing to it.
            stream.closed or stream.fileno()
            usable = not stream.closed
        except ValueError:
            usable = False
        except BaseException:
            usable = True
        if not usable:
            names = ("<stdin>", "<stdout>", "<stderr>")
            errors = (tenant._STDIN_ERRORS, tenant._STDOUT_ERRORS, "backslashreplace")
            self.streams[number] = tenant._open_stream(number, names[number], errors[number])


# ---- the session ----


class Session(script._Ending):
    """Cells, one after the other, and the end of a script after the last."""

    def __init__(self, message: frames.Message, control) -> None:
        super().__init__(Cell(message), control)
        self._message = message
        self._pid = getpid()
        self._kept = _Streams(self._streams)
        self._publisher = display.publisher = display.Publisher(control)
        asks.use(self._publisher)
        self._flags = 0
        self._value = None
        self._environment = ()  # variables that the cell's message has set: what they were before
        self._collector = None  # of the names that the cell binds
        self._ended = False  # the cell, quietly
        self._untouched = (vars(sys), self._streams, self._kept.identity)
        self._open = False  # to interrupts
        self._noted = False  # one came while no cell ran
        self._shell = shell.Shell(self._main, self._run_coroutine, self._report_nested)
        loop.install()
        hooks.install()
        tenant.workspace = os.getcwd()

    def _steps(self):
        return (
            self._serve,
            self._close_loop,
            self._pass_on,
            self._join,
            self._call_atexit,
            self._close_to_interrupts,
            self._flush,
            self._release,
            self._flush,
            self._die_of_interrupt,
        )

    def _serve(self) -> None:
        prepared = False
        while True:
            if self._program.look is not None:
                self._run_steps((self._look, self._restore))
            else:
                if not prepared:
                    self._program.prepare()
                    prepared = True
                self._run_steps((self._begin, self._execute, self._retry, self._end_quietly))
                if not self._ended:
                    self._run_steps(self._cell_steps())
            if getpid() != self._pid:
                return
            if loop.own is not None:
                self._idle()
            try:
                self._message = self._control.receive()
                while self._message.type == frames.FRAME_ANSWER:
                    self._message = self._control.receive()  # nobody waits for it any longer
            except (EOFError, OSError, frames.FrameError):
                return
            if self._message.type != frames.FRAME_RUN:
                return
            self._program = Cell(self._message)
            packages.refresh()

    def _idle(self) -> None:
        """Tasks that cells have left run until the next message. An interrupt is for the cell that
        waits for them."""
        try:
            raised = self._interruptible(loop.idle, self._control.fd)
        except BaseException as error:
            raised = error
        calls.block(SIGINT)
        if issubclass(type(raised), KeyboardInterrupt):
            self._noted = True

    def _close_loop(self) -> None:
        self._interruptible(loop.close)

    def _pass_on(self) -> None:
        """An interrupt after the last cell is for code that still runs."""
        if self._noted:
            script.kill(getpid(), SIGINT)

    def _cell_steps(self):
        """The steps after the code, unless it ended quietly."""
        return (
            self._close_to_late_ones,  # once more: an interrupt may have hit the end of the last step
            self._restore,
            self._finish_displays,
            self._show_value,
            self._show_figures,
            self._after_code,
            self._report,
            self._flush,
            self._send,
        )

    # A question about the session (look.py).

    def _look(self) -> None:
        answer = b""
        self._ended = True
        try:
            if self._program.calm:
                self._forget_interrupts()
            answer = tenant.load_late("look").answer(
                self._program.look, self._program.source, self._main.__dict__, self._muted
            )
        except BaseException:
            pass  # a program that has broken what we need gets no answer
        settrace(None)
        setprofile(None)
        if getrecursionlimit() < 200:
            setrecursionlimit(1000)
        code, self.code = self.code, 0
        self._fields = [(frames.KEY_JSON, answer)]
        self._send()
        self.code = code

    def _muted(self, call) -> None:
        """Calls code of the program, open to interrupts: nothing that this thread prints or shows is
        seen, and it does not exit."""
        publisher = self._publisher
        look = sys.modules[tenant.PACKAGE + ".look"]
        leave, os._exit = os._exit, look.Exit(os._exit)
        sys.stdout, sys.stderr = look.Mute(sys.stdout), look.Mute(sys.stderr)
        publisher.muted = True
        try:
            self._interruptible(call)
        finally:
            publisher.muted = False
            os._exit = leave
            sys.stdin, sys.stdout, sys.stderr = self._streams

    # One cell.

    def _begin(self) -> None:
        self.code = 1
        self._ended = False
        self._error = self._value = self._collector = None
        self._died_of_interrupt = False
        self._fields = []
        namespace = self._main.__dict__
        if not self._program.written:
            sources.remember(self._program.filename, self._program.source, namespace)
        if loop.own is not None:
            loop.begin()
        # Of warnings that were shown: each cell shows its own, as in Jupyter.
        namespace.pop("__warningregistry__", None)
        reserve = 0 if self._program.names is None else frames.FRAME_BUNDLE_MAX
        self._publisher.start(self._program.echo, reserve)
        if self._program.env:
            self._environment = tenant.set_environment(self._program.env)
        if self._program.input is not None:
            sys.stdin = sys.__stdin__ = _text_input(self._program.input)
        self._shell.begin(self._program.source)

    # Interrupts.

    def _note(self, number, frame) -> None:
        self._noted = True

    def _forget_interrupts(self) -> None:
        """Delivers a pending interrupt to the handler that only records it."""
        _set_handler(SIGINT, self._note)
        calls.unblock(SIGINT)
        calls.block(SIGINT)
        self._noted = False

    def _open_to_interrupts(self) -> None:
        self._open = True
        _set_handler(SIGINT, default_int_handler)
        noted, self._noted = self._noted, False
        calls.unblock(SIGINT)
        if noted:
            raise KeyboardInterrupt

    def _close_to_late_ones(self) -> None:
        if self._open:
            _set_handler(SIGINT, self._note)
            calls.block(SIGINT)
            self._open = False

    def _interruptible(self, call, *args):
        _set_handler(SIGINT, default_int_handler)
        try:
            return super()._interruptible(call, *args)
        finally:
            _set_handler(SIGINT, self._note)

    # The code.

    def _execute(self) -> None:
        try:
            if self._program.calm:
                self._forget_interrupts()
            body, last = self._program.compile_parts(self._flags)
            if self._program.names is not None:
                names = tenant.load_names()
                collector = names.Collector(self._program.names, self._main.__dict__)
                collector.begin(body, last)
                self._collector = collector
            self._open_to_interrupts()
            self._shell.before_code()
            if self._program.shows_all:
                sys.displayhook = self._shell.ip().displayhook
            if body is not None:
                self._flags |= body.co_flags & _FUTURE_FLAGS
                self._run_code(body)
            if last is not None:
                self._value = self._run_code(last)
            self.code = 0
        except BaseException as error:
            self._error = error
        settrace(None)
        setprofile(None)
        self._close_to_late_ones()
        if getrecursionlimit() < 200:
            setrecursionlimit(1000)

    def _retry(self) -> None:
        """A cell of one line whose first word is not defined may be a magic without its %."""
        if type(self._error) is NameError and not self._program.changed:
            if self._shell.translate_name(self._program.source, self._error):
                self._program.changed = True
                self._error = None
                self._execute()

    def _run_code(self, code):
        value = eval(code, self._main.__dict__)
        if code.co_flags & _COROUTINE:
            value = self._wait_for(value)
        return value

    def _wait_for(self, coroutine):
        try:
            return loop.run(coroutine)
        except BaseException as error:
            # The frames of the loop, which are not the user's.
            tb = script._traceback_of(error)
            while tb is not None and tb.tb_frame.f_code.co_filename != self._program.filename:
                tb = tb.tb_next
            if tb is not None:
                BaseException.with_traceback(error, tb)
            raise

    def _run_coroutine(self, coroutine):
        """For IPython."""
        return self._wait_for(coroutine)

    def _restore(self) -> None:
        self._kept.restore()
        self._streams = tuple(self._kept.streams)
        self._untouched = (vars(sys), self._streams, self._kept.identity)

    def _end_quietly(self) -> None:
        """The end of a cell that shows nothing and has changed nothing, as most do: one check of
        everything, instead of all the steps."""
        if (
            self._error is None
            and self._value is None
            and self._collector is None
            and not self._open
            and not hooks.has_figures()
            and not self._shell.wants_end
            and not self._publisher.held
            and getpid() == self._pid
            and calls.settle(self._untouched)
        ):
            self._send()
            self._ended = True

    def _show_value(self) -> None:
        if self._collector is not None:
            if self._error is None or issubclass(type(self._error), SystemExit):
                self._showing(self._show_names, self._value)
        elif self._value is not None:
            self._showing(self._publisher.show_result, self._value)
            self._shell.record.keep(self._value)

    def _show_names(self, value) -> None:
        self._publisher.show_names(value, self._collector.mime, self._collector.text())

    def _show_figures(self) -> None:
        if hooks.has_figures():
            self._showing(hooks.show_figures, self._value)
        self._value = None

    def _finish_displays(self) -> None:
        if self._publisher.held:
            self._showing(self._publisher.finish)

    def _after_code(self) -> None:
        if self._program.shows_all:
            sys.displayhook = sys.__displayhook__
        if self._shell.wants_end:
            self._showing(self._shell.after_code, self._error)

    # Errors, with those that IPython reports.

    def _report(self) -> None:
        if self._error is None and self._shell.noted:
            self.code = 1
            self._describe(*self._shell.noted[-1])
        elif self._error is not None and self._shell.handles(self._error):
            self.code = 1
            self._remember(self._error)
            self._showing(self._shell.handle, self._error)
            self._describe(self._error, "")
        else:
            super()._report()

    def _report_nested(self, error) -> str:
        return self._show(error, self._streams[2])

    def _show(self, error, target) -> str:
        sources.restore()
        self._filenames = sources.names()
        text = self._shell.describe_error(error)
        if text is None:
            return super()._show(error, target)
        if target is not None:
            target.write(text)
        return text

    def _showing(self, call, *args) -> None:
        """A value's own methods run here. An exception in them ends the cell, as one in its code
        would."""
        raised = self._interruptible(call, *args)
        self._kept.restore()
        if raised is not None and self._error is None:
            self._error = raised

    def _send(self) -> None:
        if self._environment:
            before, self._environment = self._environment, ()
            tenant.reset_environment(before)
        if self._died_of_interrupt:
            self.code = script.EXIT_INTERRUPTED
        fields = [(frames.KEY_EXIT_CODE, b"%d" % self.code), *self._fields]
        if self._program.id is not None:
            fields.append((frames.KEY_EXECUTION, self._program.id))
        if self._publisher.left_out:
            fields.append((frames.KEY_LEFT_OUT, b"%d" % self._publisher.left_out))
        if None in map(script._builtins_namespace.get, _NEEDED):
            # The program broke the builtins that some of our modules share with it.
            script._builtins_namespace.update(__builtins__)
        if getpid() != self._pid:
            return  # the thread that holds the lock may not be in this process
        with self._publisher.lock:  # threads may be showing something
            self._publisher.in_cell = False
            try:
                self._control.send_message(frames.FRAME_DONE, fields)
            except BaseException:  # they are broken in another way
                script._builtins_namespace.update(__builtins__)
                self._control.send_message(frames.FRAME_DONE, fields)


def _text_input(data: bytes):
    """sys.stdin for a cell that came with input."""
    stream = io.TextIOWrapper(io.BytesIO(data), "utf-8", tenant._STDIN_ERRORS)
    stream.mode = "r"
    return stream


def warm_up() -> None:
    """For the template: runs the code between a message and its output once."""
    fields = [(frames.KEY_CODE, b"x = 1\nx"), (frames.KEY_FILENAME, "<warm up>")]
    message = frames.Reader().feed(frames.encode(frames.FRAME_RUN, fields)[0])
    Cell(message).compile_parts(0)
    bundle = display.Bundle(frames.FRAME_BUNDLE_MAX, frames.FRAME_DISPLAYS_NODES)
    display.describe(1, bundle)
    bundle.encode()


def run(message: frames.Message, control):
    """Runs the cell of a RUN message and those after it, and exits."""
    session = None
    try:
        session = Session(message, control)
        session.run()
    finally:
        _exit(125 if session is None else session.code)
