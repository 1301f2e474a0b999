"""
runner/glovebox_runner/calls.py, and the C part of a template that stands in for it.

The extension replaces the interpreter's arena allocator when it is loaded, so it gets an
interpreter of its own: programs below are run there, with `c` for the extension and `py` for the
Python way, and fail by an assertion.
"""

import os
import pathlib
import subprocess
import textwrap

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXTENSION = pathlib.Path(os.environ.get("GB_EXTENSION", ROOT / "build/src/engine/_glovebox.so"))
PYTHON = "/usr/bin/python3"

HEAD = """
import fcntl, io, os, signal, socket, struct, sys, threading
sys.path.insert(0, sys.argv[1])
from glovebox_runner import calls as py, frames, template
c = template.load_extension(os.open(sys.argv[2], os.O_RDONLY))
def raises(kind, call, *args):
    try:
        call(*args)
    except kind:
        return True
ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
"""

PROGRAMS = {
    "all_there": """
        for name in py.NAMES:
            assert callable(getattr(c, name)) and callable(getattr(py, name))
        py.use(c)
        assert py.send is c.send
    """,
    "receive_whole": """
        for fields in ([], [(1, b"")], [(1, b"code"), (4, b"a"), (4, b"b"), (65535, bytes(60000))]):
            packet, = frames.encode(frames.FRAME_RUN, fields)
            ours.send(packet)
            assert c.receive(theirs.fileno()) == (frames.FRAME_RUN, fields)
    """,
    # What is not a whole message comes as it is, and Python's reader decides.
    "receive_other": """
        header = lambda version=1, type=1, flags=0, length=0, total=0: struct.pack(
            "<BBHII", version, type, flags, length, total)
        for packet in (
            b"x", header()[:-1], header(version=2), header(type=0), header(type=99), header(flags=2),
            header(flags=1, total=1), header(length=1), header(total=1), header() + b"x",
            header(length=3, total=3) + b"abc",
            header(length=6, total=6) + struct.pack("<HI", 1, 1),
            header(length=6, total=6) + struct.pack("<HI", 1, 0xFFFFFFFF),
            header(length=60006, total=60006) + struct.pack("<HI", 1, 0) * 10001,
            bytes(frames.FRAME_PACKET_MAX + 1),
        ):
            ours.send(packet)
            assert c.receive(theirs.fileno()) == packet, packet[:40]
        packets = frames.encode(frames.FRAME_RUN, [(1, bytes(100000))])
        for packet in packets:
            ours.send(packet)
        reader = frames.Reader()
        got = [reader.feed(c.receive(theirs.fileno())) for _ in packets]
        assert got[-1].fields == [(1, bytes(100000))]
    """,
    "receive_end": """
        theirs.setblocking(False)
        assert c.receive(theirs.fileno()) is None
        ours.close()
        assert c.receive(theirs.fileno()) == b""
        assert raises(OSError, c.receive, 999)
        assert raises(TypeError, c.receive, "3")
        assert raises(OverflowError, c.receive, 1 << 70)
    """,
    # A handler runs while it waits, and one that raises ends the wait.
    "receive_interrupted": """
        seen = []
        def handler(number, frame):
            seen.append(number)
            if len(seen) == 2:
                raise InterruptedError
        signal.signal(signal.SIGALRM, handler)
        def wait():  # on a busy machine both may come before the call
            signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
            c.receive(theirs.fileno())
        assert raises(InterruptedError, wait)
        signal.setitimer(signal.ITIMER_REAL, 0)
        ours.send(b"x")
        assert c.receive(theirs.fileno()) == b"x"
    """,
    "send": """
        identity = c.identify((ours.fileno(),))
        most = frames.FRAME_PACKET_MAX - frames.FRAME_HEADER_SIZE - 6
        for fields in ([], [(6, b"0"), (14, b"12")], [(10, bytes(most))]):
            assert c.send(ours.fileno(), identity, os.getpid(), frames.FRAME_DONE, fields) is True
            assert [theirs.recv(70000)] == frames.encode(frames.FRAME_DONE, fields)
    """,
    "send_not": """
        identity = c.identify((ours.fileno(),))
        send = lambda type=2, fields=[], pid=os.getpid(), identity=identity: c.send(
            ours.fileno(), identity, pid, type, fields)
        most = frames.FRAME_PACKET_MAX - frames.FRAME_HEADER_SIZE - 6
        theirs.setblocking(False)
        assert not send(pid=1) and not send(type=0) and not send(fields=())
        assert not send(type=frames.FRAME_TYPE_LAST + 1)
        for field in ((1, "text"), (1, bytearray(1)), ("1", b""), (1,), (-1, b""), (65536, b""),
                      (1 << 70, b""), None, (10, bytes(most + 1)), (10, bytes(10 * most))):
            assert not send(fields=[field]), field
        assert not send(fields=[(1, b"")] * 10001)
        assert not send(identity=c.identify((theirs.fileno(),)) + c.identify((0,)) + bytes(24))
        assert raises(BlockingIOError, theirs.recv, 1)
        os.dup2(0, ours.fileno())
        assert not send()
        os.close(ours.detach())
        assert raises(TypeError, c.send) and raises(TypeError, send, 2, [], "1")
    """,
    "send_to_nobody": """
        identity = c.identify((ours.fileno(),))
        theirs.close()
        assert not c.send(ours.fileno(), identity, os.getpid(), 2, [])
    """,
    "identity": """
        for way in (py, c):
            a, b = os.pipe()
            identity = way.identify((a, b))
            assert way.is_same(identity) and way.is_same(way.identify(()))
            os.dup2(0, a)
            assert not way.is_same(identity)
            os.close(a)
            assert not way.is_same(identity)
            assert raises(OSError, way.identify, (a,))
            os.close(b)
        assert raises(TypeError, c.is_same, None) and raises(TypeError, c.identify, ("x",))
        assert raises(ValueError, c.identify, (0,) * 9)
        assert c.is_same(b"short") and not c.is_same(b"\\xff" * 24)
    """,
    "signals": """
        seen = []
        signal.signal(signal.SIGUSR1, lambda *_: seen.append(1))
        for count, way in enumerate((py, c), 1):
            way.block(signal.SIGUSR1)
            os.kill(os.getpid(), signal.SIGUSR1)
            assert len(seen) == count - 1
            assert signal.SIGUSR1 in signal.pthread_sigmask(signal.SIG_BLOCK, ())
            way.unblock(signal.SIGUSR1)
            assert len(seen) == count
            assert signal.SIGUSR1 not in signal.pthread_sigmask(signal.SIG_BLOCK, ())
        assert raises(OSError, c.block, 1000) and raises(TypeError, c.block, None)
        signal.signal(signal.SIGUSR1, signal.default_int_handler)
        c.block(signal.SIGUSR1)
        os.kill(os.getpid(), signal.SIGUSR1)
        assert raises(KeyboardInterrupt, c.unblock, signal.SIGUSR1)
    """,
    "flush": """
        import ctypes
        a, b = os.pipe()
        stream = ctypes.CDLL(None).fdopen
        stream.restype = ctypes.c_void_p
        stream = ctypes.c_void_p(stream(b, b"w"))
        for way in (py, c):
            ctypes.CDLL(None).fputs(b"words", stream)
            assert way.flush() is None
            assert os.read(a, 100) == b"words"
    """,
    "settle": """
        def streams():
            ends = os.pipe()
            made = [io.TextIOWrapper(io.FileIO(ends[0], "r", closefd=False))]
            made += [io.TextIOWrapper(io.BufferedWriter(io.FileIO(ends[1], "w", closefd=False)))
                     for _ in range(2)]
            names = dict(zip(("stdin", "stdout", "stderr"), made))
            names.update(zip(("__stdin__", "__stdout__", "__stderr__"), made))
            return ends, names, tuple(made), c.identify(ends)
        ends, names, made, identity = streams()
        made[1].write("a"), made[2].write("b")
        assert py.settle((names, made, identity)) is False
        assert c.settle((names, made, identity)) is True
        assert os.read(ends[0], 10) == b"ab"
        for name in list(names):
            for value in (None, io.StringIO()):
                assert not c.settle(({**names, name: value}, made, identity))
            assert not c.settle(({k: v for k, v in names.items() if k != name}, made, identity))
        for number in range(3):
            for end in ("close", "detach"):
                ends, names, made, identity = streams()
                getattr(made[number], end)()
                assert not c.settle((names, made, identity))
        ends, names, made, identity = streams()
        made[1].flush = lambda: 1 / 0
        assert not c.settle((names, made, identity))
        ends, names, made, identity = streams()
        os.dup2(0, ends[1])
        assert not c.settle((names, made, identity))
        assert raises(ValueError, c.settle, (names, made[:2], identity))
        for wrong in ((), (names, made), (made, made, identity), (names, list(made), identity),
                      (names, made, "x"), (names, made, None)):
            assert raises(TypeError, c.settle, wrong), wrong
        assert raises((TypeError, SystemError), c.settle, None)
    """,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_calls(name):
    if not EXTENSION.exists():
        pytest.skip(f"no {EXTENSION}; name it with GB_EXTENSION")
    program = HEAD + textwrap.dedent(PROGRAMS[name])
    ended = subprocess.run(
        [PYTHON, "-I", "-B", "-c", program, str(ROOT / "runner"), str(EXTENSION)],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120,
    )
    assert ended.returncode == 0, ended.stderr
