"""
Mode "script" of the runner, side by side with python3.

A zygote process plays the template: it loads the runner once and forks a child for every program.
The child has pipes as 0, 1 and 2, a seqpacket socket as control descriptor and a temporary
directory as workspace, and calls tenant.main(). The same program goes through the same interpreter
the ordinary way, and what both printed and how both ended must be the same.

RUNNER_PYTHON names another interpreter to test with (default: /usr/bin/python3).
"""

import array
import collections
import json
import os
import re
import signal
import socket
import subprocess
import sys
import textwrap
import threading

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
RUNNER = os.path.join(ROOT, "runner")
PYTHON = os.environ.get("RUNNER_PYTHON", "/usr/bin/python3")

sys.path.insert(0, RUNNER)
from glovebox_runner import frames  # noqa: E402

VERSION = tuple(
    json.loads(
        subprocess.check_output([PYTHON, "-c", "import sys; print(list(sys.version_info[:3]))"])
    )
)

ENVIRONMENT = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "HOME": "/nonexistent"}

ZYGOTE = r"""
import array, gc, json, os, signal, socket, sys
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
sys.path.insert(0, sys.argv[1])
import asyncio, multiprocessing, random, ssl, subprocess, tempfile, uuid, logging
import concurrent.futures, multiprocessing.spawn
try:
    import numpy.random
except ImportError:
    pass
from glovebox_runner import script, tenant
if sys.argv[3]:
    from glovebox_runner import calls, template
    fd = os.open(sys.argv[3], os.O_RDONLY)
    calls.use(template.load_extension(fd))
    os.close(fd)
sys.path.remove(sys.argv[1])
random.random(), tempfile.mkdtemp is not None, next(tempfile._get_candidate_names())
try:
    tenant.make_shell()  # as a template that preloads IPython: programs must not see it
except ImportError:
    pass
tenant.prepare_template()
gc.collect()
gc.freeze()
line = socket.socket(fileno=int(sys.argv[2]))
while True:
    data, fds, _, _ = socket.recv_fds(line, 4096, 4)
    if not data:
        break
    pid = os.fork()
    if not pid:
        line.detach()
        os.close(int(sys.argv[2]))
        for number, fd in enumerate(fds):
            os.dup2(fd, 100 + number)
        for number in range(4):
            os.dup2(100 + number, number)
        os.closerange(4, 256)
        os.setsid()
        script.WORKSPACE = data.decode()
        os.chdir(script.WORKSPACE)
        tenant.main(3)
    for fd in fds:
        os.close(fd)
    line.send(json.dumps(pid).encode())
    _, status = os.waitpid(pid, 0)
    line.send(json.dumps(status).encode())
"""

Result = collections.namedtuple("Result", "out err code done")


class Zygote:
    def __init__(self, extension=""):
        """@extension: the C part of the template, for what it does in the runner's place."""
        self.line, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.process = subprocess.Popen(
            [PYTHON, "-I", "-B", "-c", ZYGOTE, RUNNER, str(theirs.fileno()), extension],
            pass_fds=[theirs.fileno()],
            env=ENVIRONMENT,
        )
        theirs.close()

    def stop(self):
        self.line.close()
        assert self.process.wait(60) == 0

    def spawn(self, workspace):
        """A tenant that waits for its RUN message."""
        tenant = Tenant()
        fds = array.array("i", tenant.theirs)
        self.line.sendmsg(
            [str(workspace).encode()], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)]
        )
        for fd in tenant.theirs:
            os.close(fd)
        tenant.pid = json.loads(self.line.recv(100))
        tenant.line = self.line
        return tenant


class Tenant:
    def __init__(self):
        in_read, self.stdin = os.pipe()
        self.stdout, out_write = os.pipe()
        self.stderr, err_write = os.pipe()
        self.control, control = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.control.settimeout(60)
        self.theirs = [in_read, out_write, err_write, control.detach()]
        self.chunks = {}

    def run(self, source, filename="<string>", args=("-c",), env=(), mode="script"):
        fields = [(frames.KEY_CODE, source), (frames.KEY_FILENAME, filename)]
        fields += [(frames.KEY_MODE, mode)]
        fields += [(frames.KEY_ARG, arg) for arg in args]
        fields += [(frames.KEY_ENV, item) for item in env]
        frames.send(self.control, frames.FRAME_RUN, fields)

    def read(self, size=65536):
        """Waits for output; for tests that must know where the program is."""
        return os.read(self.stdout, size)

    def _collect(self, fd):
        parts = []
        while True:
            part = os.read(fd, 65536)
            if not part:
                break
            parts.append(part)
        os.close(fd)
        self.chunks[fd] = b"".join(parts)

    def _feed(self, data):
        try:
            while data:
                data = data[os.write(self.stdin, data) :]
        except BrokenPipeError:
            pass
        os.close(self.stdin)

    def finish(self, stdin=b"", read_control=True):
        threads = [
            threading.Thread(target=self._collect, args=(self.stdout,)),
            threading.Thread(target=self._collect, args=(self.stderr,)),
            threading.Thread(target=self._feed, args=(stdin,)),
        ]
        for thread in threads:
            thread.start()
        messages = self.messages() if read_control else []
        status = json.loads(self.line.recv(100))
        for thread in threads:
            thread.join(60)
        if not read_control:
            messages = self.messages()
        assert len(messages) <= 1
        done = None
        if messages:
            assert messages[0].type == frames.FRAME_DONE
            done = {key: value.decode() for key, value in messages[0].fields}
        self.control.close()
        code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        return Result(self.chunks[self.stdout], self.chunks[self.stderr], code, done)

    def messages(self):
        found = []
        reader = frames.Reader()
        while True:
            try:
                found.append(frames.recv(self.control, reader))
            except (EOFError, ConnectionResetError):
                return found


@pytest.fixture(scope="module")
def zygote():
    z = Zygote()
    yield z
    z.stop()


@pytest.fixture
def workspace(tmp_path):
    path = tmp_path / "box"
    path.mkdir()
    return path


def to_bytes(source):
    return source if isinstance(source, bytes) else textwrap.dedent(source).encode()


def box(zygote, workspace, source, how="file", args=(), stdin=b"", env=()):
    filename, first = {
        "file": ("prog.py", str(workspace / "prog.py")),
        "command": ("<string>", "-c"),
        "stdin": ("<stdin>", "-"),
    }[how]
    tenant = zygote.spawn(workspace)
    tenant.run(to_bytes(source), filename, (first, *args), env)
    return tenant.finish(stdin)


def python3(directory, source, how="file", args=(), stdin=b""):
    source = to_bytes(source)
    if how == "file":
        path = directory / "prog.py"
        path.write_bytes(source)
        command = [str(path)]
    else:
        command = ["-c", source] if how == "command" else ["-"]
    done = subprocess.run(
        [PYTHON, *command, *args],
        cwd=directory,
        env=ENVIRONMENT,
        input=source if how == "stdin" else stdin,
        capture_output=True,
        timeout=60,
    )
    return Result(done.stdout, done.stderr, done.returncode, None)


def plain(text, directory, how):
    """What must be alike: without paths, addresses, counts that depend on the depth of the stack,
    and without the source lines that only we can show for a program that is not a file."""
    text = text.decode("utf-8", "surrogateescape").replace(str(directory), "/workspace")
    text = re.sub(r"0x[0-9a-f]+", "0x", text)
    text = re.sub(r"repeated \d+ more times", "repeated N more times", text)
    if how != "file":
        text = re.sub(r'(?m)(^[ |]*File "<\w+>", line \d+, in .*\n)(?:[ |]*    .*\n)+', r"\1", text)
    return text


# Each is a program that python3 and the box must agree on. Options: stdin, args, how (which of
# file, command and stdin make sense; all by default), files, since and until (versions: the first
# that knows the thing, the first with a bug of its own).
PROGRAMS = {
    "empty": ("", {}),
    "comment": ("# nothing", {}),
    "hello": ("print('hello')", {}),
    "no_newline": ("import sys\nsys.stdout.write('x')", {}),
    "crlf": (b"print(1)\r\nif 1:\r\n    print(2)\r\n", {}),
    "bom": (b"\xef\xbb\xbfprint('bom')\n", {"how": ("file", "stdin")}),
    "unicode": ("print('h\u00e9llo \u4e16\u754c')", {}),
    "latin_cookie": (b"# coding: latin-1\nprint('\xe9')\n", {"how": ("file",)}),
    "cookie_line_2": (b"#!x\n# vim: fileencoding=latin-1\nprint('\xe9')\n", {"how": ("file",)}),
    "cookie_line_3": (
        b"#\n#\n# coding: latin-1\nprint('\xe9')\n",
        {"how": ("file",), "since": (3, 11)},
    ),
    "utf8_cookie_bad": (b"# coding: utf-8\nprint('\xe9')\n", {"how": ("file",)}),
    "utf8_bad": (b"x = 1\ny = '\xff'\n", {"how": ("file", "stdin"), "since": (3, 11)}),
    "utf8_bad_comment": (b"x = 1 # \xff", {"how": ("file", "stdin"), "since": (3, 11)}),
    "cookie_unknown": (b"# coding: nonsense\n", {"how": ("file", "stdin")}),
    "cookie_ascii_bad": (b"# coding: ascii\n\n'\xc3'\n", {"how": ("file", "stdin")}),
    "bom_and_cookie": (b"\xef\xbb\xbf# coding: latin-1\n", {"how": ("file", "stdin")}),
    "main_names": (
        "print([(k, type(v).__name__) for k, v in globals().copy().items()])\n"
        "print(__name__, __doc__, __package__, __spec__, globals().get('__file__'))",
        {},
    ),
    "main_module": ("import sys; print(sys.modules['__main__'].__dict__ is globals())", {}),
    "docstring": ("'''about'''\nprint(__doc__)", {}),
    "argv": ("import sys; print(sys.argv)", {"args": ("a", "--b=c", "", "d e", "\u00e9")}),
    "path_0": ("import sys; print(sys.path[0])", {}),
    "cwd": ("import os; print(os.getcwd())", {}),
    "future_import": (
        "from __future__ import annotations\ndef f(x: undefined): pass\nprint(f.__annotations__)",
        {},
    ),
    "streams": (
        """
        import sys
        for s in (sys.stdin, sys.stdout, sys.stderr):
            print(s, s.name, s.mode, s.encoding, s.errors, s.fileno(), s.isatty(), s.buffer.raw)
        print(sys.stdout is sys.__stdout__, sys.stdin is sys.__stdin__)
        """,
        {},
    ),
    "input": (
        "print(input('name? ')); print([input() for _ in range(2)])",
        {"stdin": b"a\nb\r\nc", "how": ("file", "command")},
    ),
    "input_eof": ("input()", {"how": ("file", "command")}),
    "stdin_bytes": (
        "import sys; print(ascii(sys.stdin.read()))",
        {"stdin": b"a\r\nb\xff\rc\n", "how": ("file", "command")},
    ),
    "stdin_lines": (
        "import sys\nfor line in sys.stdin: print(repr(line))",
        {"stdin": b"1\n2\n3", "how": ("file", "command")},
    ),
    "surrogate_out": ("print('\\udcff')\nprint('\\ud800')", {}),
    "surrogate_err": ("import sys; print('\\ud800', file=sys.stderr)", {}),
    "exit_none": ("import sys; sys.exit()", {}),
    "exit_0": ("raise SystemExit(0)", {}),
    "exit_3": ("import sys; sys.exit(3)", {}),
    "exit_256": ("import sys; sys.exit(256 + 7)", {}),
    "exit_negative": ("import sys; sys.exit(-1)", {}),
    "exit_huge": ("import sys; sys.exit(2**70)", {"until": (3, 12)}),
    "exit_true": ("import sys; sys.exit(True)", {}),
    "exit_text": ("import sys; sys.exit('no good: \u00e9')", {}),
    "exit_tuple": ("raise SystemExit(1, 'two')", {}),
    "exit_bad_str": (
        "class A:\n    def __str__(self): raise ValueError\nraise SystemExit(A())",
        {"until": (3, 12)},
    ),
    "exit_builtin": ("exit(4)", {}),
    "exit_os": ("import os; print('lost?', flush=True); os._exit(9)", {}),
    "exit_in_thread": (
        "import sys, threading\nt = threading.Thread(target=sys.exit, args=(5,))\nt.start()", {},
    ),
    "abort": ("import os; os.abort()", {}),
    "kill_9": ("import os; os.kill(os.getpid(), 9)", {}),
    "name_error": ("prinnt(1)", {}),
    "did_you_mean": ("value = 1\ndef f():\n    return valeu\nf()", {}),
    "attribute_error": ("import sys\nsys.exitt", {}),
    "zero_division": ("def f(a):\n    return (1 + a) / (a - 1)\n\nprint(f(2)); f(1)", {}),
    "raise_class": ("raise KeyError", {}),
    "raise_multiline": ("raise ValueError('one\\ntwo')", {}),
    "own_exception": (
        "class MyError(Exception): pass\ndef f(): raise MyError('x', 2)\nf()",
        {},
    ),
    "chained": (
        """
        def f():
            try:
                {}['a']
            except KeyError as e:
                raise ValueError('no') from e
        try:
            f()
        except ValueError:
            1 / 0
        """,
        {},
    ),
    "suppressed": (
        "try:\n    1 / 0\nexcept ZeroDivisionError:\n    raise ValueError('x') from None",
        {},
    ),
    "cause_loop": (
        "a = ValueError('a'); b = ValueError('b')\na.__cause__ = b; b.__cause__ = a\nraise a",
        {},
    ),
    "notes": ("e = ValueError('x'); e.add_note('look'); raise e", {"since": (3, 11)}),
    "group": (
        """
        def f(n):
            try:
                raise ValueError(n)
            except ValueError as e:
                return e
        def g():
            raise ExceptionGroup('many', [f(1), ExceptionGroup('more', [f(2), TypeError('t')])])
        g()
        """,
        {"since": (3, 11)},
    ),
    "str_raises": ("class E(Exception):\n    def __str__(self): 1 / 0\nraise E('x')", {}),
    "str_not_str": ("class E(Exception):\n    def __str__(self): return 3\nraise E('x')", {}),
    "traceback_property": (
        "class E(Exception):\n    @property\n    def __traceback__(self): raise SystemExit(7)\n"
        "    def with_traceback(self, tb): raise SystemExit(8)\nraise E('x')",
        {},
    ),
    "syntax_error": ("x = = 1", {}),
    "syntax_error_late": ("print('never')\n\nfor\n", {}),
    "syntax_paren": ("print((1, 2)\nx = 3\n", {}),
    "syntax_string": ("x = 'abc\n", {}),
    "syntax_eof": ("def f():\n", {"how": ("command",)}),
    "indent": ("if 1:\nprint(1)", {}),
    "indent_mixed": ("if 1:\n    a = 1\n\tb = 2\n", {}),
    "unindent": ("if 1:\n        a = 1\n    b = 2\n", {}),
    "return_outside": ("return 1", {}),
    "syntax_in_exec": ("exec('x = = 1')", {}),
    "syntax_in_import": ("open('m.py', 'w').write('x = = 1'); import m", {}),
    "error_in_import": ("open('m.py', 'w').write('def f(): 1/0'); import m; m.f()", {}),
    "recursion": ("def f(): f()\nf()", {}),
    "recursion_limit_low": ("import sys\nsys.setrecursionlimit(60)\ndef f(): f()\nf()", {}),
    "recursion_caught": (
        "def f(): f()\ntry:\n    f()\nexcept RecursionError as e:\n    print(type(e))", {},
    ),
    "tracebacklimit": ("import sys\nsys.tracebacklimit = 0\ndef f(): 1 / 0\nf()", {}),
    "memory_error": ("raise MemoryError", {}),
    "generator_exit": ("raise GeneratorExit", {}),
    "base_exception": ("class B(BaseException): pass\nraise B('b')", {}),
    "keyboard_interrupt": ("def f(): raise KeyboardInterrupt\nf()", {}),
    "keyboard_subclass": ("class K(KeyboardInterrupt): pass\nraise K('k')", {}),
    "interrupt_self": ("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nprint('no')", {}),
    "interrupt_caught": (
        "import os, signal\ntry:\n    os.kill(os.getpid(), 2)\n    while True: pass\n"
        "except KeyboardInterrupt:\n    print('caught')",
        {},
    ),
    "sigterm": ("import os; os.kill(os.getpid(), 15)", {}),
    "signals": (
        "import signal\nfor s in sorted(signal.valid_signals()): print(s, signal.getsignal(s))\n"
        "print(signal.pthread_sigmask(signal.SIG_BLOCK, []))",
        {},
    ),
    "excepthook": (
        "import sys\nsys.excepthook = lambda t, v, tb: print('hook', t, v, tb.tb_lineno)\n1 / 0",
        {},
    ),
    "excepthook_raises": (
        "import sys\ndef hook(t, v, tb):\n    raise ValueError('bad hook')\n"
        "sys.excepthook = hook\n1 / 0",
        {},
    ),
    "excepthook_exits": (
        "import sys\ndef hook(t, v, tb): sys.exit(6)\nsys.excepthook = hook\n1 / 0", {},
    ),
    "excepthook_gone": ("import sys\ndel sys.excepthook\n1 / 0", {}),
    "excepthook_not_for_exit": ("import sys\nsys.excepthook = print\nsys.exit(2)", {}),
    "exc_info_clean": ("import sys; print(sys.exc_info())", {}),
    "last_value": (
        "import atexit, sys\natexit.register(lambda: print(sys.last_type, sys.last_value))\n1 / 0",
        {},
    ),
    "threads_joined": (
        """
        import threading, time
        gate = threading.Event()
        def work():
            gate.wait()
            print('thread')
        threading.Thread(target=work).start()
        print('main')
        threading.Timer(0.05, gate.set).start()
        """,
        {},
    ),
    "thread_error": (
        "import threading\nt = threading.Thread(target=lambda: 1 / 0, name='T')\nt.start()", {},
    ),
    "daemon_thread": (
        """
        import threading, time
        def work():
            while True:
                time.sleep(0.001); helper()
        def helper(): return time.time()
        threading.Thread(target=work, daemon=True).start()
        print('main')
        """,
        {},
    ),
    "thread_pool": (
        "from concurrent.futures import ThreadPoolExecutor\np = ThreadPoolExecutor(2)\n"
        "fs = [p.submit(pow, 2, n) for n in range(4)]\nprint([f.result() for f in fs])",
        {},
    ),
    "atexit": (
        "import atexit\natexit.register(print, 'first in')\natexit.register(print, 'last in')\n"
        "print('main')",
        {},
    ),
    "atexit_after_error": ("import atexit\natexit.register(print, 'end')\n1 / 0", {}),
    "atexit_raises": ("import atexit\ndef f(): 1 / 0\natexit.register(f)", {"since": (3, 10)}),
    "atexit_exits": ("import atexit, sys\natexit.register(sys.exit, 5)", {"since": (3, 10)}),
    "atexit_code_kept": ("import atexit\natexit.register(print, 'x')\nraise SystemExit(4)", {}),
    "destructor": (
        """
        import os
        class A:
            def __init__(self, n): self.n = n
            def __del__(self): print('bye', self.n, os.sep, helper())
        def helper(): return 'helped'
        a = A(1)
        b = A(2)
        b.me = b
        """,
        {},
    ),
    "destructor_held": (
        """
        import signal
        class A:
            def __del__(self): print('bye')
        a = A()
        def handler(*args): return a
        signal.signal(signal.SIGUSR1, handler)
        """,
        {},
    ),
    "file_not_closed": (
        """
        import atexit, os, subprocess, sys
        def f():
            g = open('out.txt', 'w')
            g.write('data')
            h = open('out2.txt', 'w')
            h.write('more')
            raise ValueError
        class Log:
            def __init__(self): self.file = open('out4.txt', 'w')
        k = open('out3.txt', 'w')
        print('kept', file=k)
        log = Log()
        log.me = log
        log.file.write('logged')
        f()
        """,
        {},
    ),
    "stdout_replaced": (
        "import io, sys\nsys.stdout = io.StringIO()\nprint('gone')\n1 / 0", {},
    ),
    "stdout_none": ("import sys\nsys.stdout = None\nprint('gone')", {}),
    "stdout_closed": ("import sys\nprint('x')\nsys.stdout.close()", {}),
    "stdout_gone": ("import sys\nprint('x', flush=True)\ndel sys.stdout", {}),
    "stdout_file": (
        "import sys\nsys.stdout = open('log', 'w')\nprint('x' * 10)\nimport atexit\n"
        "atexit.register(lambda: print(open('log').read(), file=sys.stderr))",
        {},
    ),
    "stdout_flush_raises": (
        """
        import sys
        class F:
            def write(self, s): pass
            def flush(self): raise OSError(5)
            def __repr__(self): return 'F'
        sys.stdout = F()
        """,
        {"until": (3, 13)},
    ),
    "stderr_none": ("import sys\nsys.stderr = None\n1 / 0", {}),
    "stderr_replaced": ("import sys\nsys.stderr = sys.stdout\n1 / 0", {}),
    "exit_replaced": ("import sys, os\nsys.exit = os._exit = exit = None\n1 / 0", {}),
    "print_replaced": ("import builtins\nbuiltins.print = builtins.len = None\n1 / 0", {}),
    "modules_cleared": ("import sys\nsys.modules.clear()\n", {}),
    "settrace": ("import sys\nsys.settrace(lambda *a: None)\nsys.setprofile(lambda *a: None)", {}),
    "fork": (
        "import os\npid = os.fork()\nif pid:\n    os.waitpid(pid, 0)\n    print('parent')\n"
        "else:\n    print('child')",
        {},
    ),
    "fork_codes": (
        """
        import os, sys
        pid = os.fork()
        if not pid:
            sys.exit(7)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
        pid = os.fork()
        if not pid:
            1 / 0
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        """,
        {},
    ),
    "subprocess": (
        "import subprocess, sys\n"
        "p = subprocess.run([sys.executable, '-c', 'print(1+1)'], capture_output=True)\n"
        "print(p.stdout, flush=True)\n"
        "subprocess.run(['sh', '-c', 'echo direct; ls /proc/self/fd | wc -l'], close_fds=False)",
        {},
    ),
    "executable": ("import sys; print(sys.executable)", {}),
    "multiprocessing_fork": (
        """
        import multiprocessing as mp
        def square(x): return x * x
        if __name__ == '__main__':
            with mp.get_context('fork').Pool(2) as pool:
                print(pool.map(square, range(5)))
        """,
        {},
    ),
    "multiprocessing_spawn": (
        """
        import multiprocessing as mp, helper
        def square(x): return helper.f(x)
        if __name__ == '__main__':
            ctx = mp.get_context('spawn')
            q = ctx.SimpleQueue()
            p = ctx.Process(target=q.put, args=(square(3),))
            p.start(); p.join()
            print(q.get(), p.exitcode)
            with ctx.Pool(1) as pool:
                print(pool.map(square, [2]))
        """,
        {"how": ("file",), "files": {"helper.py": "def f(x): return x * x\n"}},
    ),
    "multiprocessing_spawn_command": (
        "import multiprocessing as mp, helper\nctx = mp.get_context('spawn')\n"
        "with ctx.Pool(1) as pool: print(pool.map(helper.f, [2]))",
        {"how": ("command",), "files": {"helper.py": "def f(x): return x * x\n"}},
    ),
    "asyncio": (
        """
        import asyncio
        async def serve(r, w):
            w.write(await r.read(5)); await w.drain(); w.close()
        async def main():
            server = await asyncio.start_server(serve, '127.0.0.1', 0)
            r, w = await asyncio.open_connection(*server.sockets[0].getsockname())
            w.write(b'hello'); print(await r.read())
            w.close(); server.close()
        asyncio.run(main())
        """,
        {},
    ),
    "inspect": (
        "import inspect\ndef f():\n    return 1\nprint(inspect.getsource(f))",
        {"how": ("file",)},
    ),
    "warning": ("import warnings\nwarnings.warn('careful')", {"how": ("file",)}),
    "deprecated": ("import warnings\nwarnings.warn('old', DeprecationWarning)", {"how": ("file",)}),
    "syntax_warning": ("x = 1\nprint(x is 1)", {"how": ("file",)}),
    "pickle_main": (
        "import pickle\nclass A: pass\nprint(type(pickle.loads(pickle.dumps(A()))) is A)", {},
    ),
    "dataclass": (
        "from dataclasses import dataclass\n@dataclass\nclass P:\n    x: int\nprint(P(1))", {},
    ),
    "unittest": (
        "import unittest\nclass T(unittest.TestCase):\n    def test(self): self.assertTrue(1)\n"
        "import sys\nsys.argv[1:] = []\nunittest.main(verbosity=0, testRunner="
        "unittest.TextTestRunner(stream=open('/dev/null', 'w')))",
        {},
    ),
    "logging": ("import logging; logging.warning('w'); logging.error('e')", {}),
    "c_stdio": ("import ctypes; ctypes.CDLL(None).puts(b'from C')", {}),
    "broken_import": ("import does_not_exist", {}),
    "large_output": ("print('x' * 300000)", {}),
    "large_program": ("x = 1\n" * 20000 + "print(x)", {"how": ("file", "stdin")}),
}


def cases():
    for name, (source, options) in PROGRAMS.items():
        if VERSION < options.get("since", (3,)) or VERSION >= options.get("until", (4,)):
            continue
        for how in options.get("how", ("file", "command", "stdin")):
            yield pytest.param(source, options, how, id=name + "-" + how)


@pytest.mark.parametrize("source,options,how", list(cases()))
def test_same_as_python3(zygote, tmp_path, workspace, source, options, how):
    outside = tmp_path / "outside"
    outside.mkdir()
    for name, text in options.get("files", {}).items():
        (workspace / name).write_text(text)
        (outside / name).write_text(text)
    given = {key: options[key] for key in ("args", "stdin") if key in options}

    ours = box(zygote, workspace, source, how, **given)
    theirs = python3(outside, source, how, **given)

    assert plain(ours.out, workspace, how) == plain(theirs.out, outside, how)
    assert plain(ours.err, workspace, how) == plain(theirs.err, outside, how)
    assert ours.code == theirs.code
    assert b"glovebox" not in ours.err
    assert written(workspace) == written(outside)


def written(directory):
    """Files and their contents."""
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.name != "prog.py"
    }


# ---- what python3 cannot be asked ----


def test_done_says_how_it_ended(zygote, workspace):
    assert box(zygote, workspace, "print(1)").done == {frames.KEY_EXIT_CODE: "0"}
    assert box(zygote, workspace, "raise SystemExit(300)").done == {frames.KEY_EXIT_CODE: "44"}
    assert box(zygote, workspace, "exit('text')").done == {frames.KEY_EXIT_CODE: "1"}

    result = box(zygote, workspace, "def f():\n    return {}['no']\nf()")
    assert result.done == {
        frames.KEY_EXIT_CODE: "1",
        frames.KEY_ERROR_NAME: "KeyError",
        frames.KEY_ERROR_VALUE: "'no'",
        frames.KEY_TRACEBACK: result.err.decode(),
    }


def test_done_of_an_interrupt(zygote, workspace):
    result = box(zygote, workspace, "raise KeyboardInterrupt")
    assert result.code == -signal.SIGINT
    assert result.done[frames.KEY_EXIT_CODE] == "130"
    assert result.done[frames.KEY_ERROR_NAME] == "KeyboardInterrupt"


def test_done_has_the_traceback_whatever_the_hook_prints(zygote, workspace):
    result = box(zygote, workspace, "import sys\nsys.excepthook = lambda *a: None\n1 / 0")
    assert result.err == b""
    assert result.done[frames.KEY_TRACEBACK].endswith("ZeroDivisionError: division by zero\n")


@pytest.mark.parametrize("how", ["command", "stdin"])
def test_source_lines_of_a_program_without_file(zygote, workspace, how):
    source = """
        import traceback
        def f(a):
            return 1 + a['x']['y']
        try:
            f({})
        except KeyError:
            traceback.print_exc()
        f({'x': 1})
        """
    result = box(zygote, workspace, source, how)
    lines = result.err.decode().splitlines()
    assert lines.count("    return 1 + a['x']['y']") == 2
    assert lines.count("    f({'x': 1})") == 1
    if VERSION >= (3, 11):
        assert "               ~~~~~~^^^^^" in lines
    assert result.done[frames.KEY_TRACEBACK] in result.err.decode()


@pytest.mark.skipif(VERSION < (3, 11), reason="exception groups came with 3.11")
def test_source_lines_in_a_group(zygote, workspace):
    source = """
        def f():
            return int('x')
        try:
            f()
        except ValueError as e:
            raise ExceptionGroup('g', [e])
        """
    err = box(zygote, workspace, source, "stdin").err.decode()
    assert '    |   File "<stdin>", line 3, in f\n    |     return int(\'x\')\n' in err
    assert '  |   File "<stdin>", line 7, in <module>\n  |     raise ExceptionGroup' in err


def test_huge_error_is_cut_and_does_not_wait(zygote, workspace):
    source = """
        E = type('N' * 200000, (Exception,), {})
        raise E('b' + 'vé' * 200000 + 'e')
        """
    tenant = zygote.spawn(workspace)
    tenant.run(to_bytes(source), "prog.py", ["prog.py"])
    result = tenant.finish(read_control=False)
    assert result.code == 1
    assert len(result.err) > 600000
    for key in (frames.KEY_ERROR_NAME, frames.KEY_ERROR_VALUE, frames.KEY_TRACEBACK):
        assert 60000 < len(result.done[key].encode()) <= 65536
    value = result.done[frames.KEY_ERROR_VALUE]
    assert value.startswith("bvé") and value.endswith("vée") and "\n[...]\n" in value


def test_surrogates_in_an_error(zygote, workspace):
    result = box(zygote, workspace, "raise ValueError('\\ud800\\udcff')")
    assert result.done[frames.KEY_ERROR_VALUE] == "\\ud800\\udcff"


def test_null_byte(zygote, workspace):
    result = box(zygote, workspace, b"x = 1\ny = '\0'\n")
    assert result.code == 1
    assert result.err.decode() == (
        '  File "%s/prog.py", line 2\n    y = \'\n'
        "SyntaxError: source code cannot contain null bytes\n" % workspace
    )


def test_file_is_written_once(zygote, workspace):
    assert box(zygote, workspace, "print('first')").out == b"first\n"
    assert (workspace / "prog.py").read_bytes() == b"print('first')"
    assert box(zygote, workspace, "print('second')").out == b"second\n"
    assert (workspace / "prog.py").read_bytes() == b"print('first')"


def test_file_that_cannot_be_written(zygote, workspace):
    (workspace / "prog.py").mkdir()
    source = "import traceback\ntry:\n    1 / 0\nexcept Exception:\n    traceback.print_exc()"
    result = box(zygote, workspace, source)
    assert result.code == 0
    assert b"\n    1 / 0\n" in result.err


def test_file_does_not_follow_a_link(zygote, workspace, tmp_path):
    (workspace / "prog.py").symlink_to(tmp_path / "target")
    assert box(zygote, workspace, "print(1)").out == b"1\n"
    assert not (tmp_path / "target").exists()


def test_environment(zygote, workspace):
    source = "import os, time\nprint(os.environ['A'], os.environ['E'] == '', time.tzname)"
    env = [b"A=b=c", b"E=", b"=x", b"novalue", b"N=\0", b"TZ=XYZ-3"]
    assert box(zygote, workspace, source, env=env).out == b"b=c True ('XYZ', 'XYZ')\n"


def test_output_streams_line_by_line(zygote, workspace):
    tenant = zygote.spawn(workspace)
    tenant.run(b"print('ready')\nprint(input())")
    assert tenant.read() == b"ready\n"
    result = tenant.finish(b"steady\n")
    assert (result.out, result.code) == (b"steady\n", 0)


def test_broken_pipe_at_the_end(zygote, workspace):
    tenant = zygote.spawn(workspace)
    os.close(tenant.stdout)
    tenant.stdout = os.open("/dev/null", os.O_RDONLY)
    tenant.run(b"import sys\nsys.stdout.write('x')")
    result = tenant.finish()
    assert result.code == 120
    assert b"BrokenPipeError: [Errno 32] Broken pipe" in result.err
    assert b"glovebox" not in result.err
    assert result.done == {frames.KEY_EXIT_CODE: "120"}


def test_randomness_is_not_shared(zygote, workspace):
    source = """
        import sys, random, tempfile, ssl, multiprocessing, uuid
        print(random.random())
        print(next(tempfile._get_candidate_names()))
        print(ssl.RAND_bytes(16).hex())
        print(multiprocessing.current_process().authkey.hex())
        print(uuid.uuid4())
        if 'numpy.random' in sys.modules:
            print(sys.modules['numpy.random'].random())
        """
    first = box(zygote, workspace, source)
    second = box(zygote, workspace, source)
    assert first.code == 0, first.err
    assert not set(first.out.splitlines()) & set(second.out.splitlines())


# ---- the control socket in hostile hands ----

FINDS_CONTROL = """
import os, socket, stat
fd = [n for n in range(3, 64) if os.path.exists('/proc/self/fd/%d' % n)
      and stat.S_ISSOCK(os.fstat(n).st_mode)][0]
"""


def test_full_control_socket_does_not_wait(zygote, workspace):
    source = FINDS_CONTROL + textwrap.dedent(
        """
        os.set_blocking(fd, False)
        try:
            while True:
                os.write(fd, b'x' * 9000)
        except BlockingIOError:
            os.set_blocking(fd, True)
        raise SystemExit(5)
        """
    )
    tenant = zygote.spawn(workspace)
    tenant.run(source.encode())
    tenant.messages = lambda: []
    assert tenant.finish(read_control=False).code == 5


@pytest.mark.parametrize("end,code", [("raise SystemExit(5)", 5), ("1 / 0", 120)])
def test_all_descriptors_closed(zygote, workspace, end, code):
    # 120 is python3's answer too: the traceback cannot be flushed.
    result = box(zygote, workspace, "import os\nos.closerange(0, 1024)\n" + end)
    assert result.code == code
    assert result.done is None


def test_nothing_is_sent_into_another_socket(zygote, workspace):
    source = FINDS_CONTROL + textwrap.dedent(
        """
        a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        os.dup2(a.fileno(), fd)
        a.close()
        if os.fork() == 0:
            os.close(fd)
            print(b.recv(100), flush=True)
            os._exit(0)
        b.close()
        """
    )
    result = box(zygote, workspace, source)
    assert (result.out, result.code, result.done) == (b"b''\n", 0, None)


def test_supervisor_gone_and_sigpipe_deadly(zygote, workspace):
    tenant = zygote.spawn(workspace)
    tenant.run(b"import signal\nsignal.signal(signal.SIGPIPE, signal.SIG_DFL)\ninput()\nexit(3)")
    tenant.control.close()
    tenant.messages = lambda: []
    assert tenant.finish(b"\n").code == 3


def test_forked_children_say_nothing(zygote, workspace):
    source = """
        import os
        pids = [os.fork() for _ in range(2)]
        if 0 in pids:
            raise ValueError('child')
        for pid in pids:
            os.waitpid(pid, 0)
        raise SystemExit(4)
        """
    result = box(zygote, workspace, source)
    assert result.code == 4
    assert result.done == {frames.KEY_EXIT_CODE: "4"}


def test_builtins_and_modules_gone(zygote, workspace):
    source = """
        import builtins, os, sys, signal, threading, traceback, gc, linecache, io
        for module in (os, signal, threading, traceback, gc, linecache, io):
            vars(module).clear()
        sys.modules.clear()
        vars(sys).clear()
        vars(builtins).clear()
        1 / 0
        """
    result = box(zygote, workspace, source)
    assert result.code == 1
    assert result.done[frames.KEY_EXIT_CODE] == "1"


# ---- interrupts ----


def test_interrupt_before_the_program(zygote, workspace):
    tenant = zygote.spawn(workspace)
    os.kill(tenant.pid, signal.SIGINT)
    tenant.run(b"print('no')")
    result = tenant.finish()
    assert (result.out, result.err) == (b"", b"KeyboardInterrupt\n")
    assert result.code == -signal.SIGINT


def test_interrupt_of_a_wait(zygote, workspace):
    tenant = zygote.spawn(workspace)
    tenant.run(b"import time\nprint('go')\ntime.sleep(1000)", "prog.py", ["prog.py"])
    assert tenant.read() == b"go\n"
    os.kill(tenant.pid, signal.SIGINT)
    result = tenant.finish()
    assert result.code == -signal.SIGINT
    lines = result.err.decode().splitlines()
    # The last instructions of the print, or the sleep.
    assert re.fullmatch(r'  File ".*/box/prog\.py", line [23], in <module>', lines[1])
    assert lines[-1] == "KeyboardInterrupt"
    assert b"glovebox" not in result.err


def test_interrupt_of_the_join(zygote, workspace):
    source = """
        import threading, time
        def work():
            while threading.main_thread().is_alive():
                time.sleep(0.001)
            print('go')
            time.sleep(1000)
        threading.Thread(target=work).start()
        """
    tenant = zygote.spawn(workspace)
    tenant.run(to_bytes(source))
    assert tenant.read() == b"go\n"
    os.kill(tenant.pid, signal.SIGINT)
    result = tenant.finish()
    assert result.code == 0
    assert b"KeyboardInterrupt" in result.err
    assert b"glovebox" not in result.err


@pytest.mark.parametrize("repeat", range(5))
def test_storm_of_interrupts_at_the_end(zygote, workspace, repeat):
    # It breaks over the last callback and goes on until the process is gone.
    source = """
        import atexit, os, signal
        def start():
            parent = os.getpid()
            if os.fork() == 0:
                try:
                    while os.getppid() == parent:
                        os.kill(parent, signal.SIGINT)
                finally:
                    os._exit(0)
        atexit.register(start)
        """
    result = box(zygote, workspace, source)
    assert result.code == 0
    assert b"glovebox" not in result.err


# ---- the tenant itself ----


def test_tenant_that_nobody_wants(zygote, workspace):
    tenant = zygote.spawn(workspace)
    tenant.control.shutdown(socket.SHUT_WR)
    result = tenant.finish()
    assert (result.code, result.out, result.err, result.done) == (125, b"", b"", None)


@pytest.mark.parametrize("what", ["mode", "type", "packet"])
def test_broken_request(zygote, workspace, what):
    tenant = zygote.spawn(workspace)
    if what == "mode":
        tenant.run(b"print(1)", mode="nonsense")
    elif what == "type":
        frames.send(tenant.control, frames.FRAME_DONE, [])
    else:
        tenant.control.send(b"nonsense")
    result = tenant.finish()
    assert (result.code, result.out, result.done) == (125, b"", None)
