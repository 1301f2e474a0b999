"""The first Python code of a tenant: from a sealed clone to the user's program.

main() is called once, in a process that was just cloned from a template and sealed. Descriptors 0,
1 and 2 are pipes, the control socket is a seqpacket socket, the working directory is the workspace.
It makes the interpreter look freshly started (signals, streams, randomness), waits for one RUN
message, and hands it to the mode that the message names. It never returns.

Everything that can be done before the message is done before it: a pooled tenant waits in
receive(), and the user waits for everything after that. What can be done before the clone is done
in the template (prepare_template), where it costs nothing: modules are imported, signals are set
as the program expects them, and the standard streams exist, over descriptors that have the same
numbers in every clone. In a clone each of these would cost copied pages.

SIGINT is blocked until the program runs. One that arrives while the tenant waits stays pending
and interrupts the program at its first instruction, without a traceback of our code.
"""

import _signal  # signal is a Python layer over it, with enums that cost time
import importlib
import io
import itertools
import os
import select
import socket
import sys
import time
import traceback
from os import _exit, getpid

from . import calls, frames, machine, packages, reseed, script

POOLED_AFTER_MS = 20  # no program for this long: cloned in advance

EXIT_OURS = 125  # our failure, never the program's

# Modules that only mode "cell" needs, each after those that it needs itself.
CELL_MODULES = ("fonts", "plotly_images", "rich", "display", "loop", "shell", "hooks", "sources",
                "cell")
LATE_MODULES = ("names", "ipython", "look", "look_code")  # needed by only some cells
PACKAGE = __name__.rpartition(".")[0]  # zipimport of 3.9 does not set __package__ in time
_cell_sources = []  # (name, text) of those that a template kept for its clones
_late_sources = {}  # likewise
workspace = None  # of a session
has_ipython = True  # False if the template looked for it in vain


def keep_cells() -> None:
    """For a template that has nothing to preload: compiling these modules would take a good part
    of its start, and the zip that contains them is closed after it. So their text is kept."""
    for name in CELL_MODULES:
        name = PACKAGE + "." + name
        _cell_sources.append((name, __spec__.loader.get_source(name)))
    keep_late()


def keep_late() -> None:
    """For every template: the text of the modules that it has not loaded."""
    for name in LATE_MODULES:
        if PACKAGE + "." + name not in sys.modules:
            _late_sources[name] = __spec__.loader.get_source(PACKAGE + "." + name)


def _load(name: str, text: str) -> None:
    module = type(sys)(name)
    module.__package__ = PACKAGE
    sys.modules[name] = module
    exec(compile(text, "<%s>" % name, "exec", dont_inherit=True), module.__dict__)
    setattr(sys.modules[PACKAGE], name.rpartition(".")[2], module)


def load_cells() -> None:
    for name, text in _cell_sources:
        _load(name, text)
    _cell_sources.clear()
    from . import cell  # noqa: F401  finds the kept text; without a template it is imported


def load_late(name: str):
    """A module that only some cells need."""
    whole = PACKAGE + "." + name
    if whole not in sys.modules and name in _late_sources:
        try:
            _load(whole, _late_sources[name])
        except BaseException:
            sys.modules.pop(whole, None)
            raise
        del _late_sources[name]
    module = importlib.import_module(whole)
    if not any(ours is module.__dict__ for ours in script.our_globals):
        script.our_globals.append(module.__dict__)
    return module


def load_names():
    """For cells whose names are wanted, and those that work on tables by their names."""
    return load_late("names")


def make_shell() -> None:
    """For a template that preloads IPython."""
    from . import shell

    shell.prepared = load_late("ipython").make()


def _run_cells(message: frames.Message, control):
    load_cells()
    sys.modules[PACKAGE + ".cell"].run(message, control)


MODES = {"script": script.run, "cell": _run_cells}

# What the interpreter chose at startup for this locale; python3 in the box would choose the same.
_STDIN_ERRORS = getattr(sys.__stdin__, "errors", None) or "strict"
_STDOUT_ERRORS = getattr(sys.__stdout__, "errors", None) or "strict"

_IGNORED_AT_START = (_signal.SIGPIPE, _signal.SIGXFSZ)
_DEFAULT_AT_START = tuple(
    _signal.valid_signals()
    - {_signal.SIGKILL, _signal.SIGSTOP, _signal.SIGINT}
    - set(_IGNORED_AT_START)
)

_tuple = tuple  # in case the builtins are changed

_SEND_FLAGS = socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL
_WHOLE_FLAGS = itertools.repeat(socket.MSG_NOSIGNAL)

# Keeps the template's streams: destroying one would flush it, into a descriptor that is now ours.
_template_streams = []

# In a template, and so in its clones.
_prepared = False
_control = None  # over the descriptor number of the control socket in all of them


class Control:
    """The control socket. Sending is best effort: it never blocks and never raises."""

    def __init__(self, fd: int) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET, 0, fileno=fd)
        self._fd = self.fd = fd
        self.settle()

    def settle(self) -> None:
        """In the process that will use it: records which file this number means."""
        os.set_inheritable(self._fd, False)
        self._identity = calls.identify((self._fd,))
        self._pid = getpid()

    def is_pooled(self) -> bool:
        """Whether this tenant is not needed yet. One that was cloned on request gets its program
        at once; warming up first would only delay it."""
        poll = select.poll()
        poll.register(self._fd, select.POLLIN)
        return not poll.poll(POOLED_AFTER_MS)

    def receive(self) -> frames.Message:
        packet = calls.receive(self._fd)
        if packet.__class__ is _tuple:
            return frames.Message(*packet)
        reader = frames.Reader()
        if packet is not None:
            if not packet:
                raise EOFError("the control socket is closed")
            message = reader.feed(packet)
            if message is not None:
                return message
        return frames.recv(self._fd, reader)

    def is_ours(self) -> bool:
        """False if this is a child that the program forked, or the descriptor is closed, or
        is another file by now."""
        return getpid() == self._pid and calls.is_same(self._identity)

    def send_message(self, type: int, fields) -> None:
        """Sends a message like send_whole(). Most fit into one packet."""
        if not calls.send(self._fd, self._identity, self._pid, type, fields):
            self.send_whole(frames.encode(type, fields))

    def send_whole(self, packets) -> None:
        """Sends a message that may be large, and waits until it is sent. A supervisor that
        has stopped reading has closed its end, and then nothing more is sent.

        All packets are sent in one call from Python's point of view: a thread that receives a
        SIGINT makes the main thread raise wherever it is, and half a message is worse than
        none."""
        sent = []
        try:
            while self.is_ours():
                try:
                    sent.extend(map(self._socket.send, packets[len(sent) :], _WHOLE_FLAGS))
                    return
                except BlockingIOError:  # the program made it non-blocking
                    self._wait_for_room()
        except Exception:
            pass

    def _wait_for_room(self) -> None:
        poll = select.poll()
        poll.register(self._fd, select.POLLOUT)
        poll.poll()

    def send(self, packets) -> None:
        """Sends a message to the supervisor."""
        try:
            if not self.is_ours():
                return
            for packet in packets:
                self._socket.send(packet, _SEND_FLAGS)
        except Exception:
            pass


def _block_interrupts() -> None:
    """Unblocks all other signals; SIGINT stays blocked until the program runs."""
    _signal.pthread_sigmask(_signal.SIG_SETMASK, (_signal.SIGINT,))


def _reset_signals() -> None:
    """As python3 sets them at startup."""
    _signal.set_wakeup_fd(-1)
    for number in _DEFAULT_AT_START:
        if _signal.getsignal(number) != _signal.SIG_DFL:
            _signal.signal(number, _signal.SIG_DFL)
    for number in _IGNORED_AT_START:
        _signal.signal(number, _signal.SIG_IGN)
    # A preloaded library may have put a handler of its own in front, to stop its work (polars).
    if _signal.getsignal(_signal.SIGINT) is not _signal.default_int_handler:
        _signal.signal(_signal.SIGINT, _signal.default_int_handler)


def _open_stream(fd: int, name: str, errors: str):
    """A standard stream as in python3, but output is streamed. None for a descriptor that is not
    open, as in python3."""
    mode = "w" if fd else "r"
    try:
        raw = io.FileIO(fd, mode, closefd=False)
    except OSError:
        return None
    raw.name = name
    if fd:
        stream = calls.open_output(raw, errors)
    else:
        stream = io.TextIOWrapper(io.BufferedReader(raw), "utf-8", errors, newline="\n")
    stream.mode = mode
    return stream


def _order_output() -> None:
    """Output that is held back is written before another program can write to the same file, and
    before _exit()."""
    import _posixsubprocess
    import posix

    names = [(posix, name) for name in ("_exit", "execv", "execve", "posix_spawn", "posix_spawnp",
                                        "system")]
    for home, name in [*names, (_posixsubprocess, "fork_exec")]:
        plain = getattr(home, name)
        ordered = calls.after_output(plain)
        setattr(home, name, ordered)
        for user in (os, sys.modules.get("subprocess")):
            for alias in (name, "_" + name):
                if getattr(user, alias, None) is plain:
                    setattr(user, alias, ordered)


def _open_streams() -> None:
    _template_streams.append((sys.stdin, sys.stdout, sys.stderr))
    _template_streams.append((sys.__stdin__, sys.__stdout__, sys.__stderr__))
    sys.stdin = sys.__stdin__ = _open_stream(0, "<stdin>", _STDIN_ERRORS)
    sys.stdout = sys.__stdout__ = _open_stream(1, "<stdout>", _STDOUT_ERRORS)
    sys.stderr = sys.__stderr__ = _open_stream(2, "<stderr>", "backslashreplace")


_environb = os.environb  # the program may bind the name to something else


def set_environment(items) -> list:
    """Sets NAME=value of each. Returns what reset_environment() needs to undo that."""
    before = []
    for item in items:
        name, equals, value = item.partition(b"=")
        if not name or not equals or b"\0" in item:
            continue
        before.append((name, _environb.get(name)))
        _environb[name] = value
        _follow(name)
    return before


def reset_environment(before: list) -> None:
    for name, value in reversed(before):
        if value is not None:
            _environb[name] = value
        else:
            _environb.pop(name, None)
        _follow(name)


def _follow(name: bytes) -> None:
    """Some libraries read the environment only when they are loaded."""
    if name == b"TZ":
        time.tzset()
    elif name == b"OPENBLAS_NUM_THREADS":
        machine.use_threads()


def _open_streams_over_pipes() -> None:
    """The streams of all clones. They inspect the file they are created over, and clones have
    pipes."""
    saved = [os.dup(fd) for fd in range(3)]
    ends = os.pipe()
    try:
        for fd in range(3):
            os.dup2(ends[fd > 0], fd)
        _open_streams()
    finally:
        for fd, old in enumerate(saved):
            os.dup2(old, fd)
        for fd in (*saved, *ends):
            os.close(fd)


def prepare_template(control_fd=None) -> None:
    """For the template, once, when everything is loaded: initializes objects that are created at
    first use here, for all clones, and not in each of them (the generator of OpenSSL takes a
    millisecond)."""
    global _prepared, _control
    _reset_signals()
    _open_streams_over_pipes()
    _order_output()
    _control = None if control_fd is None else Control(control_fd)
    _prepared = True
    packages.prepare_template()
    reseed.prepare()
    reseed.reseed()
    script.exercise()
    cell = sys.modules.get(PACKAGE + ".cell")
    if cell is not None:
        cell.warm_up()
    names = sys.modules.get(PACKAGE + ".names")
    if names is not None:
        names.warm_up()


def main(control_fd: int):
    """Runs the one program of this tenant and exits."""
    try:
        _block_interrupts()
        if not _prepared:
            _reset_signals()
            _open_streams()
        control = _control
        if control is None:
            control = Control(control_fd)
        else:
            control.settle()
        reseed.reseed()
        if control.is_pooled():
            script.warm_up()
        message = control.receive()
        if message.type == frames.FRAME_RUN:
            set_environment(message.get_all(frames.KEY_ENV))
            MODES[message.get_text(frames.KEY_MODE, "script")](message, control)
    except EOFError:
        pass  # this tenant is not needed
    except BaseException:
        os.write(2, b"glovebox: the runner failed\n" + traceback.format_exc().encode())
    finally:
        _exit(EXIT_OURS)
