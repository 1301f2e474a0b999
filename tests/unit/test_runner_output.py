"""
Standard output of a tenant: nothing is lost, doubled or out of order, however much is printed.

Each program runs with Python's own streams and with those of the extension (output_ext.c), which
hold lines back while a program prints much.
"""

import os
import select
import signal
import time

import pytest
from test_runner_cell import EXTENSION
from test_runner_script import Zygote, to_bytes, workspace  # noqa: F401

from glovebox_runner import frames

LINES = "".join(f"{i}\n" for i in range(3000))
HEAD = "import io, os, signal, subprocess, sys, threading, time\nmany = range(3000)\n"
BURST = HEAD + "for i in many: print(i)\n"


@pytest.fixture(scope="module", params=["python", "c"])
def zygote(request):
    if request.param == "c" and not EXTENSION.exists():
        pytest.skip(f"no {EXTENSION}; name it with GB_EXTENSION")
    z = Zygote(str(EXTENSION) if request.param == "c" else "")
    z.extension = request.param == "c"
    yield z
    z.stop()


def run(zygote, workspace, source, stdin=b""):
    tenant = zygote.spawn(workspace)
    tenant.run(to_bytes(source))
    return tenant.finish(stdin)


# name: (program, all that it prints, its exit code)
CASES = {
    "nothing_else": (BURST, LINES, 0),
    "fork": (BURST + "pid = os.fork()\nprint('child' if not pid else '', end='')\n"
             "if not pid:\n    sys.stdout.flush()\n    os._exit(0)\n"
             "os.waitpid(pid, 0)\nprint('parent')", LINES + "childparent\n", 0),
    "fork_in_a_burst": (HEAD + "for i in many:\n    print(i)\n    if i % 1000 == 500:\n"
                        "        pid = os.fork()\n        if not pid: os._exit(0)\n"
                        "        os.waitpid(pid, 0)", LINES, 0),
    "burst_of_a_child": (HEAD + "import multiprocessing\ndef f():\n    for i in many: print(i)\n"
                         "p = multiprocessing.get_context('fork').Process(target=f)\n"
                         "p.start(); p.join()\nprint('parent')", LINES + "parent\n", 0),
    "subprocess": (BURST + "subprocess.run(['echo', 'sub'])\nprint('end')", LINES + "sub\nend\n", 0),
    "system": (BURST + "os.system('echo sub')\nprint('end')", LINES + "sub\nend\n", 0),
    "posix_spawn": (BURST + "os.waitpid(os.posix_spawn('/bin/echo', ['echo', 'sub'], {}), 0)\n"
                    "print('end')", LINES + "sub\nend\n", 0),
    "exec": (BURST + "os.execv('/bin/echo', ['echo', 'other'])", LINES + "other\n", 0),
    "exit": (BURST + "os._exit(3)", LINES, 3),
    "sys_exit": (BURST + "sys.exit(4)", LINES, 4),
    "stderr_to_the_same_file": (HEAD + "os.dup2(1, 2)\nfor i in many: print(i)\n"
                                "print('err', file=sys.stderr)\nprint('end')",
                                LINES + "err\nend\n", 0),
    "own_bytes": (BURST + "sys.stdout.buffer.write(b'b')\nsys.stdout.buffer.write(bytearray(b'c'))\n"
                  "sys.stdout.buffer.write(memoryview(b'd\\n'))\nprint('e')\n"
                  "for bad in ('text', 5, None):\n    try:\n        sys.stdout.buffer.write(bad)\n"
                  "        print('taken')\n    except TypeError: pass", LINES + "bcd\ne\n", 0),
    "flushed_then_written": (BURST + "sys.stdout.flush()\nos.write(1, b'raw\\n')\n"
                             "for i in range(99): print(i, flush=True); os.write(1, b'r\\n')",
                             LINES + "raw\n" + "".join(f"{i}\nr\n" for i in range(99)), 0),
    "long_line": (HEAD + "print('x' * 5000000)\nprint('y')", "x" * 5000000 + "\ny\n", 0),
    "no_newline": (HEAD + "for i in many: print('.', end='')", "." * 3000, 0),
    "not_line_buffered": (HEAD + "sys.stdout.reconfigure(line_buffering=False)\n"
                          "for i in many: print(i)", LINES, 0),
    "other_encoding": (BURST + "sys.stdout.reconfigure(encoding='latin-1')\nprint('\\xe9'.encode())",
                       LINES + "b'\\xc3\\xa9'\n", 0),
    "wrapped_again": (BURST + "sys.stdout = io.TextIOWrapper(sys.stdout.buffer, 'utf-8')\n"
                      "for i in many: print(i)", LINES + LINES, 0),
    "detached": (BURST + "sys.stdout = io.TextIOWrapper(sys.stdout.detach(), 'utf-8')\nprint('end')",
                 LINES + "end\n", 0),
    "raw": (BURST + "raw = sys.stdout.detach().detach()\nraw.write(b'end\\n')\nsys.stdout = None",
            LINES + "end\n", 0),
    "closed": (BURST + "sys.stdout.close()\ntry:\n    print('more')\nexcept ValueError:\n"
               "    os.write(1, b'closed\\n')\nsys.stdout = None", LINES + "closed\n", 0),
    "redirected": (BURST + "import contextlib\nwith contextlib.redirect_stdout(io.StringIO()):\n"
                   "    print('away')\nprint('end')", LINES + "end\n", 0),
    "as_python_makes_it": (
        HEAD + "import inspect\nassert isinstance(sys.stdout, io.TextIOWrapper)\n"
        "assert isinstance(sys.stdout.buffer, io.BufferedWriter)\n"
        "assert isinstance(sys.stdout.buffer.raw, io.FileIO) and sys.stdout.fileno() == 1\n"
        "assert repr(sys.stdout) == \"<_io.TextIOWrapper name='<stdout>' mode='w' encoding='utf-8'>\"\n"
        "assert repr(sys.stdout.buffer) == \"<_io.BufferedWriter name='<stdout>'>\"\n"
        "assert str(inspect.signature(os.system)) == '(command)' and os.system.__doc__\n"
        "import pickle; assert pickle.loads(pickle.dumps(os.system)) is os.system\n"
        "assert repr(os._exit) == '<built-in function _exit>'\n"
        "assert sys.stdout.line_buffering and sys.stdout.writable() and not sys.stdout.isatty()\n"
        "import gc; gc.collect()\nassert threading.active_count() == 1\n"
        "for i in many: print(i)\nassert os.listdir('/proc/self/task') == [str(os.getpid())]",
        LINES, 0),
    "handler_reset": (BURST + "signal.signal(signal.SIGURG, signal.SIG_DFL)\n"
                      "for i in many: print(i)\ntime.sleep(0.05)\nfor i in many: print(i)",
                      LINES * 3, 0),
    "own_handler": (HEAD + "hits = []\nsignal.signal(signal.SIGURG, lambda *a: hits.append(1))\n"
                    "for i in many: print(i)\ntime.sleep(0.05)\n"
                    "print(len(hits)); os.kill(os.getpid(), signal.SIGURG); print(len(hits))",
                    LINES + "0\n1\n", 0),
    "blocked_signals": (HEAD + "signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())\n"
                        "for i in many: print(i)", LINES, 0),
}


@pytest.mark.parametrize("name", CASES)
def test_output(zygote, workspace, name):  # noqa: F811
    source, out, code = CASES[name]
    result = run(zygote, workspace, source)
    assert (result.out, result.err, result.code) == (out.encode(), b"", code)


def test_what_is_held_back_comes_by_itself(zygote, workspace):  # noqa: F811
    """The program prints much and then waits, without a flush."""
    tenant = zygote.spawn(workspace)
    tenant.run(to_bytes(BURST + "os.read(0, 1)\nprint('end')"))
    seen = b""
    while len(seen) < len(LINES):
        assert select.select([tenant.stdout], [], [], 60)[0], len(seen)
        seen += tenant.read()
    assert seen == LINES.encode()
    assert tenant.finish(b"x").out == b"end\n"


def test_a_full_pipe(zygote, workspace):  # noqa: F811
    """Nobody reads for a while: the timer must not wait for the pipe, nor lose anything."""
    tenant = zygote.spawn(workspace)
    tenant.run(to_bytes(HEAD + "import fcntl\nfcntl.fcntl(1, 1031, 4096)\n"  # F_SETPIPE_SZ
                        "for i in range(10): print(*many, sep='\\n')\nos.write(2, b'printed')"))
    assert not select.select([tenant.stderr], [], [], 0.3)[0]  # it waits for us
    assert tenant.finish(b"").out == LINES.encode() * 10


def test_threads(zygote, workspace):  # noqa: F811
    result = run(zygote, workspace, HEAD + """
def work(n):
    for i in range(20000): sys.stdout.write('%d %d\\n' % (n, i))
threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
for t in threads: t.start()
for t in threads: t.join()
""")
    lines = result.out.decode().splitlines()
    assert sorted(lines) == sorted(f"{n} {i}" for n in range(4) for i in range(20000))
    for n in range(4):  # each thread's own are in order
        assert [line for line in lines if line.startswith(f"{n} ")] == [
            f"{n} {i}" for i in range(20000)]


def test_signal_handlers_that_print(zygote, workspace):  # noqa: F811
    """Python raises "reentrant call" if its own buffer is hit; nothing else may happen."""
    result = run(zygote, workspace, HEAD + """
hits = 0
def handler(*args):
    global hits
    try:
        sys.stdout.write('hit\\n')
        hits += 1
    except RuntimeError: pass
signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
for i in range(50000): sys.stdout.write('line\\n')
signal.setitimer(signal.ITIMER_REAL, 0)
sys.stdout.flush()
print(hits, file=sys.stderr)
""")
    lines = result.out.decode().splitlines()
    assert result.code == 0 and lines.count("line") == 50000
    assert lines.count("hit") == int(result.err) and set(lines) <= {"line", "hit"}


def test_sudden_death(zygote, workspace):  # noqa: F811
    """No more is lost than with python3 and a pipe: what was not flushed."""
    result = run(zygote, workspace, BURST + "os.kill(os.getpid(), signal.SIGKILL)")
    assert LINES.startswith(result.out.decode()) and result.code == -signal.SIGKILL
    result = run(zygote, workspace, BURST + "sys.stdout.flush()\nos.kill(os.getpid(), 9)")
    assert result.out == LINES.encode()


def test_nobody_reads_any_more(zygote, workspace):  # noqa: F811
    tenant = zygote.spawn(workspace)
    os.close(tenant.stdout)
    tenant.stdout, other = os.pipe()
    os.close(other)
    tenant.run(to_bytes(HEAD + "try:\n    for i in range(100000): print(i)\n"
                        "except BrokenPipeError: os.write(2, b'broken')\nsys.stdout = None"))
    result = tenant.finish(b"")
    assert result.err.startswith(b"broken") and b"BrokenPipeError" in result.err
    assert result.code == 120  # as of python3: the last flush failed


def test_interrupt_while_the_pipe_is_full(zygote, workspace):  # noqa: F811
    tenant = zygote.spawn(workspace)
    tenant.run(to_bytes(HEAD + "os.write(2, b'on')\ntry:\n    while True: print('x' * 100)\n"
                        "except KeyboardInterrupt: os.write(2, b'stopped')\n"))
    assert os.read(tenant.stderr, 2) == b"on"
    time.sleep(0.2)  # it is full by now; if not, that is another test
    os.kill(tenant.pid, signal.SIGINT)
    result = tenant.finish(b"")
    assert result.err == b"stopped" and result.code == 0
    assert set(result.out) == set(b"x\n")


def test_displays_come_after_what_was_printed(zygote, workspace):  # noqa: F811
    tenant = zygote.spawn(workspace)
    tenant.run(to_bytes(BURST + "display(1)\nos.read(0, 1)"), mode="cell")
    message = frames.recv(tenant.control, frames.Reader())
    assert message.type == frames.FRAME_DISPLAY
    ready, seen = True, b""
    while ready:
        seen += tenant.read()
        ready = select.select([tenant.stdout], [], [], 0)[0]
    assert seen == LINES.encode()  # nothing is held back
    os.kill(tenant.pid, signal.SIGKILL)
    tenant.line.recv(100)
