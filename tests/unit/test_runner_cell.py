"""
Mode "cell" of the runner, by itself: no box, no supervisor.

The zygote of test_runner_script.py forks a tenant for every test. A test sends one or more cells,
collects the messages of each up to its DONE, and shuts its side of the socket, which ends the
session.
"""

import ast
import base64
import collections
import json
import os
import pathlib
import select
import shutil
import signal
import socket
import struct
import tempfile
import textwrap
import threading

import pytest
from test_runner_script import PYTHON, Zygote, to_bytes  # noqa: F401

from glovebox_runner import frames

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXTENSION = pathlib.Path(os.environ.get("GB_EXTENSION", ROOT / "build/src/engine/_glovebox.so"))
CONFIG = tempfile.mkdtemp(prefix="gbtest-")  # where matplotlib keeps its list of fonts
ENV = ("MPLBACKEND=Agg", "MPLCONFIGDIR=" + CONFIG)
TABLE = "application/vnd.glovebox.table+json"
PLOTLY = "application/vnd.plotly.v1+json"

Shown = collections.namedtuple("Shown", "result outputs metadata done sequence")
Ended = collections.namedtuple("Ended", "cells out err code")


@pytest.fixture(scope="module", autouse=True)
def config():
    yield
    shutil.rmtree(CONFIG, ignore_errors=True)


@pytest.fixture(scope="module", params=["python", "c"])
def zygote(request):
    """All of this holds for calls.py, and for the C part that stands in for it in a box."""
    if request.param == "c" and not EXTENSION.exists():
        pytest.skip(f"no {EXTENSION}; name it with GB_EXTENSION")
    z = Zygote(str(EXTENSION) if request.param == "c" else "")
    yield z
    z.stop()


@pytest.fixture
def workspace(tmp_path):
    path = tmp_path / "box"
    path.mkdir()
    return path


@pytest.fixture(autouse=True)
def nobody_left():
    """The zygote waits for one tenant at a time: one that a failed test left would block it."""
    yield
    last, Cells.last = Cells.last, None
    if last is not None and not last.over:
        os.kill(last.tenant.pid, signal.SIGKILL)
        last.tenant.line.recv(100)


def strict(text):
    """JSON as the supervisor takes it: no NaN, whole numbers of 64 bits, no lone surrogates."""

    def refuse(word):
        raise AssertionError(word)

    value = json.loads(text.decode("utf-8"), parse_constant=refuse)

    def walk(item):
        if isinstance(item, bool):
            return
        if isinstance(item, int):
            assert -(1 << 63) <= item < 1 << 63
        elif isinstance(item, str):
            item.encode()
        elif isinstance(item, list):
            for each in item:
                walk(each)
        elif isinstance(item, dict):
            for key, each in item.items():
                assert "\0" not in key
                walk(key)
                walk(each)

    walk(value)
    return value


def answer_ask(control, message):
    """As a supervisor that installs what begins with good, and answers once too often."""
    wish = strict(message.get(frames.KEY_JSON))
    assert set(wish) in ({"op", "requirements"}, {"op", "requirements", "newest"})
    assert wish["op"] in ("install", "uninstall")
    good = wish["requirements"][0].startswith("good")
    words = [*wish["requirements"], *(["newest"] if wish.get("newest") else [])]
    answer = {"success": good, "message": "asked for " + " ".join(words),
              "warnings": ["careful"] if good else []}
    for number in ("77", message.get(frames.KEY_SEQUENCE).decode()):
        frames.send(control, frames.FRAME_ANSWER, [(frames.KEY_SEQUENCE, number),
                                                   (frames.KEY_JSON, json.dumps(answer))])


def acknowledge(control, message):
    """As the supervisor does when it has read what was printed before."""
    ack = message.get(frames.KEY_ACK)
    if ack is not None:
        frames.send(control, frames.FRAME_ANSWER, [(frames.KEY_ACK, ack)])


def collect_cell(control, reader):
    result, outputs, metadata, done, sequence = None, [], None, None, []
    while done is None:
        try:
            message = frames.recv(control, reader)
        except (EOFError, ConnectionResetError):
            break
        if message.type == frames.FRAME_DONE:
            done = {key: value.decode() for key, value in message.fields}
            break
        text = message.get(frames.KEY_JSON)
        if message.type == frames.FRAME_ASK:
            answer_ask(control, message)
            continue
        assert len(text) <= frames.FRAME_BUNDLE_MAX
        bundle = strict(text)
        assert set(bundle) == {"data", "metadata"}
        sequence.append(int(message.get(frames.KEY_SEQUENCE)))
        if message.type == frames.FRAME_RESULT:
            assert result is None
            result, metadata = bundle["data"], bundle["metadata"]
        else:
            assert message.type == frames.FRAME_DISPLAY
            outputs.append(bundle)
            acknowledge(control, message)
    return Shown(result, outputs, metadata, done, sequence)


class Cells:
    """A tenant that runs cells."""

    last = None

    def __init__(self, zygote, workspace):
        self.tenant = zygote.spawn(workspace)
        self.reader = frames.Reader()
        self.shown = []
        self.over = False
        t = self.tenant
        Cells.last = self
        self.threads = [
            threading.Thread(target=t._collect, args=(fd,), daemon=True)
            for fd in (t.stdout, t.stderr)
        ]
        for thread in self.threads:
            thread.start()

    def send(self, source, filename="<string>", echo=False, env=ENV):
        fields = [(frames.KEY_CODE, to_bytes(source)), (frames.KEY_FILENAME, filename)]
        fields += [(frames.KEY_MODE, "cell"), (frames.KEY_ARG, "-c")]
        fields += [(frames.KEY_ENV, item) for item in env]
        fields += [(frames.KEY_ECHO, "1")] if echo else []
        frames.send(self.tenant.control, frames.FRAME_RUN, fields)

    def wait(self):
        self.shown.append(collect_cell(self.tenant.control, self.reader))
        return self.shown[-1]

    def run(self, source, **kwargs):
        self.send(source, **kwargs)
        return self.wait()

    def end(self):
        t = self.tenant
        os.close(t.stdin)
        t.control.shutdown(socket.SHUT_WR)
        status = json.loads(t.line.recv(100))
        self.over = True
        for thread in self.threads:
            thread.join(60)
        t.control.close()
        code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        return Ended(self.shown, t.chunks[t.stdout].decode(), t.chunks[t.stderr].decode(), code)


def run(zygote, workspace, *sources, **kwargs):
    cells = Cells(zygote, workspace)
    for source in sources:
        cells.run(source, **kwargs)
    return cells.end()


# ---- values, text, exits ----

# name: (source, what is expected of: plain, out, err (a part), code, error)
CASES = {
    "nothing": ("", {}),
    "comment": ("# nothing", {}),
    "number": ("1 + 1", {"plain": "2"}),
    "string": ("'a\\nb'", {"plain": "'a\\nb'"}),
    "none": ("None", {}),
    "assignment": ("x = 5", {}),
    "after_statements": ("x = 5\nfor i in range(3):\n    x += i\nx", {"plain": "8"}),
    "call_of_print": ("print('hi')", {"out": "hi\n"}),
    "muted": ("5;", {}),
    "muted_comment": ("5;  # x", {}),
    "muted_blanks": ("(5)  ; \n\n# end", {}),
    "not_muted": ("'a;'", {"plain": "'a;'"}),
    "not_muted_comment": ("5 # ;", {"plain": "5"}),
    "two_on_a_line": ("1; 2", {"plain": "2"}),
    "multi_line": ("[1,\n 2,\n]", {"plain": "[1, 2]"}),
    "unicode": ("é = 'ü'; é", {"plain": "'ü'"}),
    "wide_before_semicolon": ("'ééé' ;", {}),
    "lambda_value": ("(lambda: 7)()", {"plain": "7"}),
    "docstring_only": ("'''doc'''", {"plain": "'doc'"}),
    "if_true": ("if True:\n    5", {}),
    "future": (
        "from __future__ import annotations\ndef f(x: nothing): pass\nf.__annotations__",
        {"plain": "{'x': 'nothing'}"},
    ),
    "future_in_value": (
        "from __future__ import annotations\n(lambda: None) and (f := 1)",
        {"plain": "1"},
    ),
    "await": ("import asyncio\nawait asyncio.sleep(0, 'slept')", {"plain": "'slept'"}),
    "await_in_body": (
        "import asyncio\nx = await asyncio.sleep(0, 4)\nx + 1",
        {"plain": "5"},
    ),
    "async_for": (
        "async def g():\n    yield 1\n    yield 2\n[x async for x in g()]",
        {"plain": "[1, 2]"},
    ),
    "async_with": (
        "import contextlib\n@contextlib.asynccontextmanager\nasync def c():\n    yield 3\n"
        "async with c() as v:\n    print(v)",
        {"out": "3\n"},
    ),
    "asyncio_run": ("import asyncio\nasync def f(): return 6\nasyncio.run(f())", {"plain": "6"}),
    "await_raises": (
        "async def f():\n    raise ValueError('in f')\nawait f()",
        {"code": 1, "error": "ValueError", "err": 'line 3, in <module>\n    await f()'},
    ),
    "raises": ("1 / 0", {"code": 1, "error": "ZeroDivisionError", "err": "line 1, in <module>"}),
    "raises_late": (
        "def f():\n    return g()\nprint('x')\nf()",
        {"code": 1, "error": "NameError", "out": "x\n", "err": "    return g()"},
    ),
    "syntax": ("x = (", {"code": 1, "error": "SyntaxError", "err": "was never closed"}),
    "syntax_nothing_ran": ("print(1)\nx y", {"code": 1, "error": "SyntaxError"}),
    "return_outside": ("return 5", {"code": 1, "error": "SyntaxError"}),
    "exit": ("import sys\nsys.exit()", {}),
    "exit_0": ("import sys\nprint(1)\nsys.exit(0)", {"out": "1\n"}),
    "exit_3": ("import sys\nsys.exit(3)", {"code": 3}),
    "exit_words": ("import sys\nsys.exit('words')", {"code": 1, "err": "words\n"}),
    "exit_os": ("import os\nos._exit(4)", {"code": 4, "no_done": True}),
    "exit_builtin": ("exit(2)", {"code": 2}),
    "interrupt_itself": (
        "raise KeyboardInterrupt",
        {"code": -signal.SIGINT, "error": "KeyboardInterrupt"},
    ),
    "bom": (b"\xef\xbb\xbf1", {"plain": "1"}),
    "latin_1": (b"# coding: latin-1\n'\xe9'", {"plain": "'é'"}),
    "bad_utf8": (b"'\xff'", {"code": 1, "error": "SyntaxError", "err": "Non-UTF-8"}),
    "crlf": (b"x = 1\r\nx\r\n", {"plain": "1"}),
    "nul": (b"x = '\0'", {"code": 1, "error": "SyntaxError", "err": "null bytes"}),
    "main": ("__name__, __builtins__ is __import__('builtins')", {"plain": "('__main__', True)"}),
    "pickle": (
        "import pickle\nclass A: pass\ntype(pickle.loads(pickle.dumps(A()))) is A",
        {"plain": "True"},
    ),
    "inspect": (
        "import inspect\ndef f():\n    return 1\ninspect.getsource(f)",
        {"plain": repr("def f():\n    return 1\n")},
    ),
    "argv": ("import sys\nsys.argv", {"plain": "['-c']"}),
    "atexit": ("import atexit\natexit.register(print, 'bye');", {"out": "bye\n"}),
    "thread_joined": (
        "import threading, time\n"
        "threading.Thread(target=lambda: (time.sleep(.05), print('late'))).start()",
        {"out": "late\n"},
    ),
    "file_written": ("f = open('x', 'w'); f.write('data');", {}),
    # what a repr may do
    "repr_prints": (
        "class A:\n    def __repr__(self):\n        print('aside')\n        return 'A'\nA()",
        {"plain": "A", "out": "aside\n"},
    ),
    "repr_raises": (
        "class A:\n    def __repr__(self): raise ValueError('no')\nA()",
        {"plain": "<A object>", "failed": {"text/plain": "ValueError: no"}},
    ),
    "repr_wrong": (
        "class A:\n    def __repr__(self): return 5\nA()",
        {"plain": "<A object>", "failed": {"text/plain":
         "TypeError: __repr__ returned non-string (type int)"}},
    ),
    "repr_exits": (
        "import sys\nclass A:\n    def __repr__(self): sys.exit(7)\nA()", {"code": 7},
    ),
    "repr_exits_hard": (
        "import os\nclass A:\n    def __repr__(self): os._exit(8)\nA()",
        {"code": 8, "no_done": True},
    ),
    "repr_forks": (
        "import os\nclass A:\n    def __repr__(self):\n"
        "        pid = os.fork()\n        if pid: os.waitpid(pid, 0)\n"
        "        return 'A%d' % (pid > 0)\nA()",
        {"plain": "A1"},
    ),
    "repr_recurses": (
        "class A:\n    def __repr__(self): return repr(self)\nA()",
        {"plain": "<A object>", "code": 0},
    ),
    "repr_replaces_stdout": (
        "import sys, io\nclass A:\n    def __repr__(self):\n        sys.stdout = io.StringIO()\n"
        "        return 'A'\nA()",
        {"plain": "A"},
    ),
    "repr_surrogate": ("'\\udcff\\ud800' + 'é'", {"plain": "'\\udcff\\ud800é'"}),
    "repr_surrogate_raw": (
        "class A:\n    def __repr__(self): return 'x\\udcffy\\ud83d\\ude00'\nA()",
        {"plain": "x\ufffdy\U0001f600"},
    ),
    "repr_nul": ("class A:\n    def __repr__(self): return 'a\\0b'\nA()", {"plain": "a\0b"}),
    "bad_getattr": (
        "class A:\n    def __getattr__(self, name): return lambda *a, **k: 5\n"
        "    def __repr__(self): return 'A'\nA()",
        {"plain": "A", "types": {"text/plain"}},
    ),
    "raising_getattr": (
        "class A:\n    def __getattr__(self, name): raise RuntimeError\n"
        "    def __repr__(self): return 'A'\nA()",
        {"plain": "A", "types": {"text/plain"}},
    ),
    "class_itself": (
        "class A:\n    def _repr_html_(self): return 'x'\nA",
        {"plain": "__main__.A", "types": {"text/plain"}},
    ),
    "forked_child_goes_on": (
        "import os\npid = os.fork()\nif pid: os.waitpid(pid, 0)\nprint('in', pid > 0)\npid > 0",
        {"plain": "True", "out": "in False\nin True\n"},
    ),
    # notebook text
    "indented": ("    x = 1\n    if x:\n        print('in')\n    x", {"plain": "1", "out": "in\n"}),
    "indented_comment": ("  # c\n\n  x = 1\n  x", {"plain": "1"}),
    "shell": ("!echo hello; echo there >&2", {"out": "hello\n", "err": "there\n"}),
    "shell_order": ("print('a')\n!echo b\nprint('c')", {"out": "a\nb\nc\n"}),
    "shell_fails": ("!exit 3\n_exit_code", {"plain": "3"}),
    "shell_indented": ("for i in range(2):\n    !echo {i} $i", {"out": "0 0\n1 1\n"}),
    "shell_braces": ("x = 5\n!echo '{{a}}' ${{HOME}}x {x}", {"out": "{a} /nonexistentx 5\n"}),
    "shell_odd_braces": ("x = 5\n!echo '{no such}' {x}", {"out": "{no such} {x}\n"}),
    "shell_in_function": ("def f(n):\n    !echo {n}\nf(4)", {"out": "4\n"}),
    "shell_background": ("!true &", {}),
    "shell_captured": (
        "import io, contextlib\nwith contextlib.redirect_stdout(io.StringIO()) as s:\n    !echo x\ns.getvalue()",
        {"plain": "'x\\n'"},
    ),
    "shell_awk": ("!echo a b | awk '{print $2}'", {"out": "b\n"}),
    "shell_pipe": ("!printf 'b\\na\\n' | sort", {"out": "a\nb\n"}),
    "shell_quote": ("!echo it\\'s \"x\" '''", {"err": "unexpected EOF"}),
    "shell_joined": ("!echo one \\\n  two\nprint('x')", {"out": "one two\nx\n"}),
    "shell_assigned": ("x = !printf '1\\n2\\n'\nx", {"plain": "['1', '2']"}),
    "shell_value": ("!!echo q", {"plain": "['q']"}),
    "shell_line_numbers": (
        "!true\n\n!true\n1/0",
        {"code": 1, "error": "ZeroDivisionError", "err": "line 4, in <module>\n    1/0\n"},
    ),
    "shell_lines_joined": (
        "!true \\\n  && true\n1/0",
        {"code": 1, "error": "ZeroDivisionError", "err": "line 2, in <module>\n    1/0\n"},
    ),
    "shell_stdin": ("!cat", {}),
    "not_shell": ("x = '''\n!echo no\n%no\n'''\nx", {"plain": "'\\n!echo no\\n%no\\n'"}),
    "not_magic": ("x = (7\n% 4)\nx", {"plain": "3"}),
    "not_magic_with_one": ("!true\nx = (7\n% 4)\ny = '''\n!a\n'''\nx", {"plain": "3"}),
    "matplotlib_inline": ("%matplotlib inline\n1", {"plain": "1"}),
    "config": ("%config InlineBackend.figure_format = 'retina'\n1", {"plain": "1"}),
    "autoreload": ("%load_ext autoreload\n%autoreload 2\n1", {"plain": "1"}),
    "pip_good": ("%pip install -q good 'b[x]>=2, <3' # yes\n_exit_code",
                 {"plain": "0", "out": "asked for good b[x]>=2, <3\n", "err": "WARNING: careful"}),
    "pip_bad": ("%pip install bad\nprint('not reached')",
                {"code": 1, "error": "InstallError", "err": "InstallError: asked for bad\n", "out": ""}),
    "pip_caught": ("try:\n    %pip install bad\nexcept Exception as e:\n    print(e, _exit_code)",
                   {"out": "asked for bad 1\n"}),
    "pip_bang": ("!pip install bad", {"code": 1, "error": "InstallError", "err": "asked for bad"}),
    "pip_module": ("!python -m pip install 'good[x]==1'", {"out": "asked for good[x]==1\n", "err": "careful"}),
    "pip_option": ("%pip install -r requirements.txt",
                   {"code": 1, "error": "InstallError", "err": "remove -r", "out": ""}),
    "pip_quote": ("%pip install 'x", {"code": 1, "error": "InstallError", "err": "No closing quotation"}),
    "pip_nothing": ("%pip install", {"code": 1, "error": "InstallError", "err": "name at least one"}),
    "pip_uninstall": ("%pip uninstall -y good", {"out": "asked for good\n", "err": "careful"}),
    "pip_upgrade": ("%pip install -U good", {"out": "asked for good newest\n", "err": "careful"}),
    "pip_show": ("%pip show no-such-thing", {"code": 1, "error": "InstallError", "err": "not installed"}),
    "pip_other": ("%pip download x",
                  {"code": 1, "error": "InstallError", "err": "is not supported in a box"}),
    "conda": ("%conda install x", {"code": 1, "error": "UsageError", "err": "use %pip install\n"}),
    "unknown_magic": (
        "print(1)\n\n%frobnicate x",
        {"code": 1, "error": "UsageError", "err": "%frobnicate", "out": "1\n"},
    ),
    "unknown_cell_magic": ("%%frobnicate\nx", {"code": 1, "error": "UsageError", "err": "%%frobnicate"}),
    "syntax_error": ("x =\n!true", {"code": 1, "error": "SyntaxError", "err": "line 1\n    x =\n"}),
    "name_error": ("who_knows", {"code": 1, "error": "NameError", "err": "line 1, in <module>"}),
    "automagic": ("pwd  ", {"plain": "WORKSPACE"}),
    "automagic_operator": ("ls -d .", {"out": "./\n"}),
    "automagic_with_code": ("pwd\nx = 1", {"code": 1, "error": "NameError"}),
    "prompt": ("In [1]: 1 + 1", {"plain": "2"}),
    "annotation": ("In = []\nIn : 5\nIn", {"plain": "[]"}),
    "capture": ("%%capture c\nprint('o'); display(1)\n!echo s\n2", {}),
    "capture_fails": ("%%capture c\nprint('o')\n1/0", {"code": 1, "error": "ZeroDivisionError", "err": "1/0"}),
    "run_cell_fails": (
        "get_ipython().run_cell('1/0')\nprint('on')", {"code": 1, "error": "ZeroDivisionError", "out": "on\n"},
    ),
    "showtraceback": ("try: 1/0\nexcept Exception: get_ipython().showtraceback()", {"err": "ZeroDivisionError"}),
    "inspect": ("def f(a): 'text'\nf?", {"out": "Signature: f(a)\nDocstring: text"}),
    "load": ("open('l.py', 'w').write('x = 1')\n%load l.py", {"out": "# %load l.py\nx = 1\n", "err": "printed"}),
    "edit": ("%edit x", {"code": 1, "error": "UsageError", "err": "no editor"}),
    "wide": ("{i: 'x' * 20 for i in range(4)}",
             {"plain": "\n ".join("{0: 'xxx',1: 'xxx',2: 'xxx',3: 'xxx'}".replace("xxx", "x" * 20).replace(",", ",|").split("|"))}),
    "pretty": ("class A:\n    def _repr_pretty_(self, p, cycle): p.text('nice')\n[A()]", {"plain": "[nice]"}),
    "huge": ("import time\nt = time.process_time()\nx = [[0] * 1000] * 1000\nx, 1\nlen(repr(x))", {"plain": "3002000"}),
    "time_line": ("%time x = 5\nx", {"plain": "5", "out": "CPU times"}),
    "time_value": ("%time 2 + 3", {"plain": "5", "out": "Wall time"}),
    "time_cell": ("%%time\nx = 4\nx", {"plain": "4", "out": "Wall time"}),
    "time_cell_error": ("%%time\nx = 4\n1/0", {"code": 1, "error": "ZeroDivisionError",
                        "err": "line 2, in <module>\n    1/0\n"}),
    "time_cell_nested": ("%%time\n!echo in", {"out": "in\nCPU times"}),
    "timeit": ("%timeit -n 10 1 + 1", {"out": "per loop"}),
    "timeit_cell": ("%%timeit\nx = 1", {"out": "per loop"}),
    "bash_cell": ("%%bash\nfor i in 1 2; do echo $i; done", {"out": "1\n2\n"}),
    "bash_cell_fails": ("%%bash\nexit 3", {"code": 1, "error": "CalledProcessError"}),
    "writefile": ("%%writefile a.txt\nx\ny", {"out": "Writing a.txt\n"}),
    "cd_pwd": ("%cd /\n%pwd", {"plain": "'/'", "out": "/\n"}),
    "env": ("%env A=5\nimport os\nos.environ['A']", {"plain": "'5'", "out": "env: A=5\n"}),
    "get_ipython": ("get_ipython().run_line_magic('matplotlib', 'inline')\n1", {"plain": "1"}),
    "get_ipython_unknown": (
        "get_ipython().run_line_magic('nope', '')", {"code": 1, "error": "UsageError"},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_cell(zygote, workspace, name):
    source, want = CASES[name]
    ended = run(zygote, workspace, source)
    shown = ended.cells[0]
    note = (ended.out, ended.err, shown)
    assert ended.code == want.get("code", 0), note
    if want.get("no_done"):
        assert shown.done is None, note
    else:
        code = want.get("code", 0)
        assert shown.done[frames.KEY_EXIT_CODE] == str(code if code >= 0 else 128 - code), note
        assert shown.done.get(frames.KEY_ERROR_NAME) == want.get("error"), note
    plain = (shown.result or {}).get("text/plain")
    if want.get("plain") == "WORKSPACE":
        want = {**want, "plain": repr(str(workspace))}
    assert plain == want.get("plain"), note
    assert want.get("out", "") in ended.out, note
    if want.get("out", "").endswith("\n") or "out" not in want:
        assert ended.out == want.get("out", ""), note
    if "err" in want:
        assert want["err"] in ended.err, note
    elif "error" not in want:
        assert ended.err == "", note
    if "types" in want:
        assert set(shown.result) == want["types"], note
    if "failed" in want:
        assert shown.metadata == {"glovebox": {"failed": want["failed"]}}, note


def test_file_of_a_cell(zygote, workspace):
    ended = run(zygote, workspace, "f = open('x', 'w'); f.write('data'); __file__",
                filename="prog.py")
    assert ended.cells[0].result["text/plain"] == repr(str(workspace / "prog.py"))
    assert (workspace / "x").read_text() == "data"


def test_written_file(zygote, workspace):
    run(zygote, workspace, "%%writefile a.txt\nx\ny")
    assert (workspace / "a.txt").read_text() == "x\ny\n"


# ---- several cells ----


def test_names_live_on(zygote, workspace):
    ended = run(zygote, workspace, "import sys\nx = 5", "def f(): return x + 1", "x = 7", "f()",
                "from __future__ import annotations", "def g(a: b): pass\ng.__annotations__")
    assert ended.code == 0
    assert ended.cells[3].result == {"text/plain": "8"}
    assert ended.cells[5].result == {"text/plain": "{'a': 'b'}"}


def test_errors_and_exits_end_the_cell_only(zygote, workspace):
    ended = run(zygote, workspace, "x = 1; 1/0", "x", "import sys; sys.exit(4)", "x + 1")
    assert [cell.done[frames.KEY_EXIT_CODE] for cell in ended.cells] == ["1", "0", "4", "0"]
    assert ended.cells[3].result == {"text/plain": "2"}
    assert ended.code == 0


def test_the_last_exit_code_counts(zygote, workspace):
    assert run(zygote, workspace, "1", "import sys; sys.exit(9)").code == 9


def test_traceback_of_an_earlier_cell(zygote, workspace):
    cells = Cells(zygote, workspace)
    cells.run("def f():\n    return 1 / 0  # here", filename="<cell 1>")
    shown = cells.run("f()", filename="<cell 2>")
    text = shown.done[frames.KEY_TRACEBACK]
    assert 'File "<cell 1>", line 2, in f\n    return 1 / 0  # here' in text
    assert 'File "<cell 2>", line 1, in <module>\n    f()' in text
    assert "runner" not in text
    cells.end()


def test_each_cell_has_its_own_lines(zygote, workspace):
    """Functions of earlier cells: in warnings, in inspect, in tracebacks after a clean-up."""
    cells = Cells(zygote, workspace)
    cells.run("import inspect, linecache, warnings\ndef f():\n    warnings.warn('w')  # in f\n"
              "    return 1 / 0", filename="<cell 1>")
    warn = "# one\n# two\ninnocent = 3\ntry: f()\nexcept ZeroDivisionError: pass"
    cells.run(warn, filename="<cell 2>")
    cells.run(warn, filename="<cell 3>")
    got = cells.run("print(inspect.getsource(f), end='')", filename="<cell 4>")
    assert got.done[frames.KEY_EXIT_CODE] == "0"
    shown = cells.run("linecache.clearcache()\nf()", filename="<cell 5>")
    assert "    return 1 / 0\n" in shown.done[frames.KEY_TRACEBACK]
    assert "    f()\n" in shown.done[frames.KEY_TRACEBACK]
    ended = cells.end()
    assert ended.out == "def f():\n    warnings.warn('w')  # in f\n    return 1 / 0\n"
    # Each cell that warns says so, as in Jupyter, with the line of the function.
    line = "<cell 1>:3: UserWarning: w\n  warnings.warn('w')  # in f\n"
    assert ended.err.count(line) == 2 and ended.err.count("<cell 1>:3: UserWarning: w\n") == 3


def test_a_file_name_twice(zygote, workspace):
    """The caller's own name for two cells: the newer text counts, and is shown once."""
    cells = Cells(zygote, workspace)
    cells.run("def f():\n    return 1", filename="<mine>")
    shown = cells.run("x = 5\n1 / 0  # newer", filename="<mine>")
    assert shown.done[frames.KEY_TRACEBACK].count("1 / 0  # newer") == 1
    cells.end()


def test_texts_of_cells_are_bounded(zygote, workspace):
    cells = Cells(zygote, workspace)
    cells.run("import linecache, sys\ndef kept():\n    raise ValueError\n"
              "class A:\n    @property\n    def x(self): pass", filename="<cell 1>")
    limit = "sys.modules['glovebox_runner.sources']"
    cells.run(f"{limit}.COUNT_MAX = 8", filename="<cell 2>")
    for n in range(3, 40):
        cells.run("y = 1", filename=f"<cell {n}>")
    shown = cells.run("sorted(n for n in linecache.cache if n[0] == '<' and 'cell' in n)",
                      filename="<cell 40>")
    names = ast.literal_eval(shown.result["text/plain"])
    assert "<cell 1>" in names and "<cell 40>" in names  # its functions are still there
    assert "<cell 2>" not in names and len(names) <= 8
    cells.run(f"del kept, A\n{limit}.BYTES_MAX = 2000\n" + "# long\n" * 100, filename="<cell 41>")
    shown = cells.run("[n for n in linecache.cache if n[0] == '<' and 'cell' in n]",
                      filename="<cell 42>")
    assert shown.result == {"text/plain": "['<cell 42>']"}
    assert cells.run("1 / 0", filename="<cell 43>").done[frames.KEY_ERROR_NAME]
    cells.end()


MENDED = {
    "replaced": "import sys, io\nsys.stdout = sys.stderr = io.StringIO()\nprint('lost')",
    "none": "import sys\nsys.stdout = sys.stderr = None",
    "deleted": "import sys\ndel sys.stdout, sys.stderr",
    "closed": "import sys\nsys.stdout.close(); sys.stderr.close()",
    "detached": "import sys\nsys.stdout.detach(); sys.stderr.detach()",
    "descriptors": "import os\nos.close(1); os.close(2); os.close(0)",
    "descriptors_reused": "import os\nos.close(1)\nf = open('log', 'w')\nprint('to log')",
    "dup2": "import os\nos.dup2(os.open('log', os.O_CREAT | os.O_WRONLY), 1)\nprint('to log')",
    "trace": "import sys\nsys.settrace(lambda *a: 1 / 0)",
    "profile": "import sys\nsys.setprofile(lambda *a: None)",
    "recursion": "import sys\nsys.setrecursionlimit(60)",
    "handler": "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)",
    "builtins": "import builtins\nfor n in ('len', 'print', 'isinstance', 'repr'): "
                "setattr(builtins, n, getattr(builtins, n))",
    "hook": "import sys\nsys.displayhook = None\nsys.excepthook = None",
    "name": "__name__ = 'other'",
}


@pytest.mark.parametrize("name", MENDED)
def test_mended(zygote, workspace, name):
    ended = run(zygote, workspace, MENDED[name], "print('out')\nimport os\n"
                "os.write(2, b'err')\n40 + 2")
    assert ended.cells[1].result == {"text/plain": "42"}, ended
    assert ended.out == "out\n"
    assert "err" in ended.err
    assert ended.code == 0


def test_interrupt_ends_one_cell(zygote, workspace):
    cells = Cells(zygote, workspace)
    cells.run("x = 1")
    cells.send("display('up')\nimport time\nwhile True: time.sleep(1)")
    message = frames.recv(cells.tenant.control, cells.reader)
    assert message.type == frames.FRAME_DISPLAY
    os.kill(cells.tenant.pid, signal.SIGINT)
    shown = cells.wait()
    assert shown.done[frames.KEY_ERROR_NAME] == "KeyboardInterrupt"
    first = 'Traceback (most recent call last):\n  File "<string>", line '
    assert shown.done[frames.KEY_TRACEBACK].startswith(first)
    assert cells.run("x").result == {"text/plain": "1"}
    assert cells.end().code == 0


def test_interrupt_in_a_repr_that_loops(zygote, workspace):
    cells = Cells(zygote, workspace)
    cells.send("class A:\n    def _repr_html_(self):\n        display('up')\n"
               "        while True: pass\nA()")
    assert frames.recv(cells.tenant.control, cells.reader).type == frames.FRAME_DISPLAY
    os.kill(cells.tenant.pid, signal.SIGINT)
    shown = cells.wait()
    assert shown.done[frames.KEY_ERROR_NAME] == "KeyboardInterrupt"
    assert cells.end().code == -signal.SIGINT


def test_everything_closed(zygote, workspace):
    ended = run(zygote, workspace, "import os\nos.closerange(0, 1024)")
    assert ended.cells[0].done is None
    assert ended.code == 0


# ---- asyncio ----

ASYNC = "import asyncio\nasync def w(x=8):\n    await asyncio.sleep(0)\n    return x\n"

# name: (cells, the values of the last ones)
ASYNC_CASES = {
    "one_cell": ([ASYNC + "t = asyncio.create_task(w())\nawait t"], ["8"]),
    "task_awaited_later": ([ASYNC + "t = asyncio.create_task(w())", "await t"], ["8"]),
    "gather_awaited_later": ([ASYNC + "f = asyncio.gather(w(1), w(2))", "await f"], ["[1, 2]"]),
    "future": ([ASYNC + "f = asyncio.get_running_loop().create_future()\nf.set_result(5)",
                "await f"], ["5"]),
    "created_while_awaiting": ([ASYNC + "await w()\nt = asyncio.ensure_future(w(3))",
                                "await t"], ["3"]),
    "run": ([ASYNC + "asyncio.run(w(1)) + asyncio.run(w(2))"], ["3"]),
    "run_then_await": ([ASYNC + "x = asyncio.run(w(1))\nx + await w(2)"], ["3"]),
    "run_with_tasks_pending": ([ASYNC + "t = asyncio.create_task(w(1))",
                                "asyncio.run(w(2)) + await t"], None),
    "run_between": ([ASYNC + "t = asyncio.create_task(w(1))", "y = asyncio.run(w(2))",
                     "y + await t"], ["3"]),
    "run_until_complete": ([ASYNC + "asyncio.get_event_loop().run_until_complete(w(4))",
                            "asyncio.get_event_loop().run_until_complete(w(5))",
                            "await w(6)"], ["4", "5", "6"]),
    "own_loop": ([ASYNC + "l = asyncio.new_event_loop(); asyncio.set_event_loop(l)\n"
                  "v = l.run_until_complete(w(1)); l.close()", "v + await w(1)",
                  "asyncio.get_event_loop().run_until_complete(w(9))"], ["2", "9"]),
    "closed": ([ASYNC + "await w()\nasyncio.get_event_loop().close()", "await w(3)",
                "t = asyncio.create_task(w(4))", "await t"], ["3", "4"]),
    "is_running_as_it_is": ([ASYNC + "l = asyncio.get_running_loop()\n(l.is_running(), "
                             "l is asyncio.get_event_loop())",
                             "(asyncio.get_running_loop().is_running(), await w(1))"],
                            ["(False, True)", "(True, 1)"]),
    "context_variables": (["import contextvars, asyncio\nv = contextvars.ContextVar('v')\n"
                           "v.set(1)\nawait asyncio.sleep(0)\nv.set(2);", "v.get()",
                           "import decimal\ndecimal.getcontext().prec = 3\n"
                           "await asyncio.sleep(0)\ndecimal.Decimal(1) / 3",
                           "decimal.Decimal(1) / 3"], ["2", "Decimal('0.333')", "Decimal('0.333')"]),
    "threads_have_none": ([ASYNC + "import threading\nr = []\ndef f():\n"
                           "    try: asyncio.get_running_loop()\n"
                           "    except RuntimeError as e: r.append(str(e))\n"
                           "t = threading.Thread(target=f); t.start(); t.join()\nr[0]"],
                          ["'no running event loop'"]),
}


@pytest.mark.parametrize("name", ASYNC_CASES)
def test_asyncio(zygote, workspace, name):
    sources, values = ASYNC_CASES[name]
    ended = run(zygote, workspace, *sources)
    if values is None:  # a cell that awaits runs in the loop, as in Jupyter
        assert ended.cells[-1].done[frames.KEY_ERROR_NAME] == "RuntimeError"
        return
    shown = [cell.result["text/plain"] for cell in ended.cells if cell.result]
    assert shown[-len(values):] == values, ended
    assert ended.err == "" and ended.code == 0


def test_tasks_run_between_cells(zygote, workspace):
    cells = Cells(zygote, workspace)
    cells.run(ASYNC + "import os\nr, done = os.pipe()\nasync def work():\n    for i in range(3):\n"
              "        await asyncio.sleep(0.001)\n        display(i)\n        print(i)\n"
              "    print('done')\nt = asyncio.create_task(work())")
    # Nobody runs a cell: the displays come all the same, and wait for nobody.
    for _ in range(3):
        message = frames.recv(cells.tenant.control, cells.reader)
        assert message.type == frames.FRAME_DISPLAY and message.get(frames.KEY_ACK) is None
    assert cells.run("t.done() or await t").done[frames.KEY_EXIT_CODE] == "0"
    ended = cells.end()
    assert (ended.out, ended.err, ended.code) == ("0\n1\n2\ndone\n", "", 0)


def test_tasks_that_misbehave_between_cells(zygote, workspace):
    cells = Cells(zygote, workspace)
    cells.run(ASYNC + "import sys\nasync def bad(e):\n    raise e\n"
              "ts = [asyncio.create_task(bad(e)) for e in (SystemExit(3), ValueError('v'))]")
    assert cells.run("1").result == {"text/plain": "1"}
    cells.run("del ts\nasync def spin():\n    display('up')\n    while True: pass\n"
              "t = asyncio.create_task(spin())")
    assert frames.recv(cells.tenant.control, cells.reader).type == frames.FRAME_DISPLAY
    # A task that never yields: the interrupt is for the cell that waits, and ends both.
    cells.send("2")
    os.kill(cells.tenant.pid, signal.SIGINT)
    assert cells.wait().done[frames.KEY_ERROR_NAME] == "KeyboardInterrupt"
    assert cells.run("await w(3)").result == {"text/plain": "3"}
    assert cells.end().code == 0


def test_interrupt_of_an_await(zygote, workspace):
    cells = Cells(zygote, workspace)
    cells.run(ASYNC)
    cells.send("asyncio.get_running_loop().call_soon(display, 'asleep')\n"
               "await asyncio.sleep(1000)  # here\nprint('zombie')")
    acknowledge(cells.tenant.control, frames.recv(cells.tenant.control, cells.reader))
    os.kill(cells.tenant.pid, signal.SIGINT)
    shown = cells.wait()
    assert shown.done[frames.KEY_ERROR_NAME] == "KeyboardInterrupt"
    assert "await asyncio.sleep(1000)  # here" in shown.done[frames.KEY_TRACEBACK]
    assert "base_events" not in shown.done[frames.KEY_TRACEBACK]
    assert cells.run("len(asyncio.all_tasks())").result == {"text/plain": "0"}
    ended = cells.end()
    assert ended.out == "" and "never retrieved" not in ended.err and ended.code == 0


def test_tasks_at_the_end(zygote, workspace):
    ended = run(zygote, workspace, ASYNC + "async def f():\n    try:\n        await asyncio.sleep(99)\n"
                "    finally:\n        print('cleaned up')\nt = asyncio.create_task(f())\nawait w()")
    assert (ended.out, ended.err, ended.code) == ("cleaned up\n", "", 0)


# ---- rich output ----

RICH = """
class A:
    def __init__(self, **kwargs):
        for name, value in kwargs.items():
            setattr(self, '_repr_%s_' % name, lambda value=value, **k: value)
    def __repr__(self): return 'A'
"""
PNG = b"\x89PNG\r\n\x1a\n"

RICH_CASES = {
    "html": ("A(html='<b>x</b>')", {"text/html": "<b>x</b>"}),
    "markdown": ("A(markdown='# x')", {"text/markdown": "# x"}),
    "latex": ("A(latex='$x$')", {"text/latex": "$x$"}),
    "svg": ("A(svg='<svg/>')", {"image/svg+xml": "<svg/>"}),
    "png": ("A(png=b'\\x89PNG')", {"image/png": base64.b64encode(b"\x89PNG").decode()}),
    "png_text": ("A(png='aGk=\\n')", {"image/png": "aGk="}),
    "jpeg": ("A(jpeg=b'\\xff\\xd8')", {"image/jpeg": "/9g="}),
    "json": ("A(json={'a': [1, None, True]})", {"application/json": {"a": [1, None, True]}}),
    "json_odd": (
        "A(json={1: float('nan'), 'x\\0': [float('inf'), 2**70, (1,)], 's': '\\udcff'})",
        {"application/json": {"1": None, "x\ufffd": [None, str(2**70), [1]], "s": "\ufffd"}},
    ),
    "json_numpy": (
        "__import__('numpy') and A(json={'a': __import__('numpy').arange(3)})",
        {"application/json": {"a": [0, 1, 2]}},
    ),
    "several": ("A(html='h', markdown='m')", {"text/html": "h", "text/markdown": "m"}),
    "nothing": ("A(html=None)", {}),
    "mimebundle": (
        "A(mimebundle={'text/html': 'h', 'application/x-y+json': [1]})",
        {"text/html": "h", "application/x-y+json": [1]},
    ),
    "mimebundle_first": ("A(mimebundle={'text/html': 'b'}, html='h')", {"text/html": "b"}),
    "mimebundle_plain": (
        "A(mimebundle={'text/plain': 'P', 'text/html': 'b'})",
        {"text/plain": "P", "text/html": "b"},
    ),
    "surrogates": ("A(html='\\udcff<b>\\ud83d')", {"text/html": "\ufffd<b>\ufffd"}),
}


@pytest.mark.parametrize("name", RICH_CASES)
def test_rich(zygote, workspace, name):
    source, want = RICH_CASES[name]
    shown = run(zygote, workspace, RICH + source).cells[0]
    assert shown.result == {"text/plain": "A", **want}
    assert shown.metadata == {}


FAILING = {
    "raises": ("class A(A):\n    def _repr_html_(self): raise ValueError('no')\nA()",
               {"failed": {"text/html": "ValueError: no"}}),
    "wrong_type": ("A(html=5)", {"failed": {"text/html": "TypeError: must be str, not int"}}),
    "bytes_for_text": ("A(html=b'x')",
                       {"failed": {"text/html": "TypeError: must be str, not bytes"}}),
    "not_base64": ("A(png='<script>')", {"failed": {"image/png": "ValueError: not base64"}}),
    "not_json": ("A(json=object)", {}),
    "deep_json": ("x = []\nfor i in range(500): x = [x]\nA(json=x)",
                  {"failed": {"application/json": "ValueError: too deep"}}),
    "circular_json": ("x = []\nx.append(x)\nA(json=x)",
                      {"failed": {"application/json": "ValueError: too deep"}}),
    "bad_mime": ("A(mimebundle={'<x>': 'y', 5: 'z'})",
                 {"failed": {"<x>": "ValueError: not a MIME type",
                             "5": "ValueError: not a MIME type"}}),
    "mimebundle_wrong": ("A(mimebundle=5)",
                         {"failed": {"_repr_mimebundle_": "TypeError: must be dict, not int"}}),
    "too_large": ("A(html='x' * (9 << 20))", {"left_out": {"text/html": 9 << 20}}),
    "too_large_png": ("A(png=bytes(9 << 20))", {"left_out": {"image/png": 9 << 20}}),
    "too_large_together": (
        "A(html='x' * (5 << 20), markdown='y' * (5 << 20))",
        {"left_out": {"text/markdown": 5 << 20}},
    ),
    "grows_in_json": ("A(html='\\1' * (2 << 20))", {"left_out": {"text/html": 2 << 20}}),
    "many_nodes": ("A(json=[1] * 1100000)", {"left_out": {"application/json": 2200001}}),
    "words_bounded": (
        "class A(A):\n    def _repr_html_(self): raise ValueError('x' * 10**6)\nA()", None),
}


@pytest.mark.parametrize("name", FAILING)
def test_failing(zygote, workspace, name):
    source, want = FAILING[name]
    ended = run(zygote, workspace, RICH + source)
    shown = ended.cells[0]
    assert ended.code == 0
    assert shown.result["text/plain"] == "A"
    if want is None:
        assert len(json.dumps(shown.metadata)) < 1000
    elif want:
        assert shown.metadata == {"glovebox": want}
    else:
        assert shown.metadata == {}


def test_a_gigabyte(zygote, workspace):
    ended = run(zygote, workspace, RICH + "A(html='x' * (1 << 30))")
    assert ended.cells[0].metadata == {"glovebox": {"left_out": {"text/html": 1 << 30}}}


def test_long_values_are_cut(zygote, workspace):
    ended = run(zygote, workspace, "list(range(10**7))", "{i: i for i in range(10**5)}",
                "'x' * 10**8", "[[1] * 10**6] * 5", "set(range(5000))", "(1,)", "[]", "set()",
                "class A:\n    def __repr__(self): return 'y' * (2 << 20)\nA()")
    texts = [cell.result["text/plain"] for cell in ended.cells]
    assert texts[0].endswith("998, 999, ...]") and len(texts[0]) < 10000
    assert texts[1].endswith("999: 999, ...}")
    assert len(texts[2]) < 1 << 20 and texts[2].endswith("x'...")
    assert ended.cells[2].metadata["glovebox"]["left_out"] == {"text/plain": 10**8 - (1 << 18)}
    assert len(texts[3]) < 20000 and texts[3].endswith(", ...]]")
    assert texts[4].endswith(",\n ...}")
    assert texts[5:8] == ["(1,)", "[]", "set()"]
    assert texts[8].endswith("1048576 characters left out …")
    assert ended.cells[8].metadata["glovebox"]["left_out"] == {"text/plain": 1 << 20}


def test_display(zygote, workspace):
    shown = run(zygote, workspace, """
        display(1, 'two')
        from IPython.display import display as d, HTML, Markdown, Image, JSON, Latex, SVG, Math
        from IPython.display import Javascript, Code, IFrame, clear_output, publish_display_data
        import IPython
        assert IPython.get_ipython() is get_ipython() and d is display
        d(HTML('<i>'), Markdown('*m*'), Latex('$l$'), SVG('<svg/>'), Math('x'))
        d(Image(data=b'\\x89PNG...', width=3), JSON({'a': 1}), Javascript('x'))
        d({'text/html': 'raw'}, raw=True)
        handle = d('h', display_id='x')
        handle.update('again')
        clear_output(wait=True)
        publish_display_data({'text/plain': 'p'})
        d(Code('x = 1', language='python'), IFrame('http://x/"', 1, 2))
    """).cells[0]
    assert shown.done[frames.KEY_EXIT_CODE] == "0", shown.done
    data = [output["data"] for output in shown.outputs]
    assert data[0] == {"text/plain": "1"} and data[1] == {"text/plain": "'two'"}
    assert data[2]["text/html"] == "<i>" and data[3]["text/markdown"] == "*m*"
    assert data[4]["text/latex"] == "$l$" and data[5]["image/svg+xml"] == "<svg/>"
    assert data[6]["text/latex"] == "$\\displaystyle x$"
    assert base64.b64decode(data[7]["image/png"]) == b"\x89PNG..."
    assert shown.outputs[7]["metadata"] == {"image/png": {"width": 3}}
    assert data[8]["application/json"] == {"a": 1}
    assert data[9]["application/javascript"] == "x"
    assert data[10] == {"text/html": "raw"}
    assert data[11] == {"text/plain": "'h'"} and data[12] == {"text/plain": "'again'"}
    places = [output["metadata"].get("glovebox") for output in shown.outputs[11:14]]
    assert places == [{"display_id": "x"}, {"display_id": "x", "update": True}, {"clear": "wait"}]
    assert data[13] == {} and data[14] == {"text/plain": "p"}
    assert "text/html" in data[15] and "src=" in data[16]["text/html"]
    assert shown.sequence == list(range(1, 18))
    assert shown.result is None


def test_objects_that_display_themselves(zygote, workspace):
    shown = run(zygote, workspace, "class A:\n    def _ipython_display_(self): display('me')\n"
                "display(A())\nA()").cells[0]
    assert [output["data"] for output in shown.outputs] == [{"text/plain": "'me'"}] * 2
    assert shown.result is None


def test_sequence_over_displays_and_result(zygote, workspace):
    shown = run(zygote, workspace, "display(1)\ndisplay(2)\n3").cells[0]
    assert shown.sequence == [1, 2, 3]


def test_prints_are_in_the_pipe_before_a_display(zygote, workspace):
    cells = Cells(zygote, workspace)
    cells.send("import sys\nsys.stdout.write('no newline')\ndisplay(1)\nprint(' after')")
    message = frames.recv(cells.tenant.control, cells.reader)
    # It goes on only when it hears that this was taken, not on an answer to something else.
    for fields in [(frames.KEY_ACK, "77")], [(frames.KEY_SEQUENCE, "1")], []:
        frames.send(cells.tenant.control, frames.FRAME_ANSWER, fields)
    assert not select.select([cells.tenant.control], [], [], 0.2)[0]
    acknowledge(cells.tenant.control, message)
    cells.wait()
    assert cells.end().out == "no newline after\n"


def test_a_display_that_nobody_acknowledges(zygote, workspace):
    """The supervisor is gone, or has stopped listening."""
    cells = Cells(zygote, workspace)
    cells.send("display(1)\nprint('after')")
    assert frames.recv(cells.tenant.control, cells.reader).type == frames.FRAME_DISPLAY
    cells.tenant.control.shutdown(socket.SHUT_RDWR)
    assert cells.end().out == "after\n"


def test_late_acknowledgements_are_skipped(zygote, workspace):
    """The wait for one was interrupted; then it comes, and the next cell is not confused."""
    cells = Cells(zygote, workspace)
    cells.send("display(1)")
    message = frames.recv(cells.tenant.control, cells.reader)
    os.kill(cells.tenant.pid, signal.SIGINT)
    assert cells.wait().done[frames.KEY_ERROR_NAME] == "KeyboardInterrupt"
    acknowledge(cells.tenant.control, message)
    cells.send("display(2)\nprint('after')")
    second = frames.recv(cells.tenant.control, cells.reader)
    assert second.get(frames.KEY_ACK) != message.get(frames.KEY_ACK)
    acknowledge(cells.tenant.control, message)
    acknowledge(cells.tenant.control, second)
    assert cells.wait().done[frames.KEY_EXIT_CODE] == "0"
    assert cells.end().out == "after\n"


def test_displays_of_threads_wait_for_nobody(zygote, workspace):
    cells = Cells(zygote, workspace)
    cells.send("import threading\nt = threading.Thread(target=display, args=(1,))\n"
               "t.start(); t.join()\nprint('after')")
    message = frames.recv(cells.tenant.control, cells.reader)
    assert message.type == frames.FRAME_DISPLAY and message.get(frames.KEY_ACK) is None
    assert cells.wait().done[frames.KEY_EXIT_CODE] == "0"
    assert cells.end().out == "after\n"


def test_displays_are_counted(zygote, workspace):
    shown = run(zygote, workspace, "for i in range(250): display(i)\n'end'").cells[0]
    assert len(shown.outputs) == 200
    assert shown.outputs[199]["data"] == {"text/plain": "199"}
    assert shown.done[frames.KEY_LEFT_OUT] == "50"
    assert shown.result == {"text/plain": "'end'"}


def test_displays_are_weighed(zygote, workspace):
    shown = run(zygote, workspace, RICH + "for i in range(6): display(A(html='x' * (5 << 20)))\n5")
    shown = shown.cells[0]
    sizes = [len(json.dumps(output)) for output in shown.outputs]
    assert sum(sizes) <= 24 << 20
    assert len(shown.outputs) == 6
    assert shown.outputs[5]["metadata"] == {"glovebox": {"left_out": {"text/html": 5 << 20}}}
    assert shown.result == {"text/plain": "5"}


def test_every_cell_has_its_own_account(zygote, workspace):
    loop = "for i in range(150): display(i)"
    ended = run(zygote, workspace, loop, loop)
    assert [len(cell.outputs) for cell in ended.cells] == [150, 150]
    assert frames.KEY_LEFT_OUT not in ended.cells[1].done


def test_threads_may_display(zygote, workspace):
    shown = run(zygote, workspace, """
        import threading
        def f(n):
            for i in range(10): display('x' * 100000)
        threads = [threading.Thread(target=f, args=(n,)) for n in range(8)]
        for t in threads: t.start()
        for t in threads: t.join()
    """).cells[0]
    assert len(shown.outputs) == 80
    assert shown.sequence == list(range(1, 81))


def test_a_forked_child_cannot_mix_its_words_with_ours(zygote, workspace):
    shown = run(zygote, workspace, "import os\npid = os.fork()\ndisplay('x')\n"
                "if pid: os.waitpid(pid, 0)\nelse: os._exit(0)").cells[0]
    assert len(shown.outputs) == 1


def test_echo(zygote, workspace):
    ended = run(zygote, workspace, RICH + "print(1)\ndisplay(A(html='h'))\n"
                "display({'text/plain': 'p', 'text/html': 'h'}, raw=True)\n'v'", "None", "1/0",
                echo=True)
    assert ended.out == "1\nA\np\n'v'\n"
    assert all(not cell.outputs and cell.result is None for cell in ended.cells)
    assert ended.cells[2].done[frames.KEY_ERROR_NAME] == "ZeroDivisionError"


def test_nothing_is_imported_for_nothing(zygote, workspace):
    shown = run(zygote, workspace, "1 + 1", "import sys\n[n for n in ('matplotlib', 'pandas', "
                "'plotly', 'PIL') if n in sys.modules]").cells[1]
    assert shown.result == {"text/plain": "[]"}


# ---- libraries ----


def need(module):
    import subprocess

    if subprocess.run([PYTHON, "-c", "import " + module], capture_output=True).returncode:
        pytest.skip(module + " is not installed for " + PYTHON)


def png_size(data):
    raw = base64.b64decode(data)
    assert raw.startswith(PNG)
    return struct.unpack(">II", raw[16:24])


def test_data_frame(zygote, workspace):
    need("pandas")
    cells = Cells(zygote, workspace)
    shown = cells.run("""
        import pandas as pd, numpy as np, datetime, decimal
        df = pd.DataFrame({
            'i': [1, 2], 'f': [0.5, np.nan], 'inf': [np.inf, -np.inf], 's': ['a', None],
            'b': [True, False], 'by': [b'\\xff', b'ok'], 't': pd.to_datetime(['2024-01-02', None]),
            'o': [[1, 2], {'k': 1}], 'u': np.array([2**64 - 1, 0], dtype='uint64'),
            'd': [decimal.Decimal('1.10'), datetime.date(2024, 1, 2)],
            'c': pd.Categorical(['x', 'y']), 'td': pd.to_timedelta([1, None], 's'),
            'z': [1 + 2j, 0], 'long': ['x' * 5000, ''], 'sur': ['\\udcff', 'ok'],
            'n': pd.array([1, None], dtype='Int64'),
        })
        df
    """)
    assert set(shown.result) == {"text/plain", "text/html", TABLE}, shown
    table = shown.result[TABLE]
    assert table["row_count"] == 2 and table["column_count"] == 16
    columns = {c["name"]: c for c in table["columns"]}
    rows = [dict(zip(columns, row)) for row in table["rows"]]
    assert columns["i"] == {"name": "i", "type": "integer", "dtype": "int64"}
    assert [columns[n]["type"] for n in ("f", "s", "b", "t", "c", "td", "n")] == [
        "number", "string", "boolean", "datetime", "category", "duration", "integer"]
    assert rows[0]["i"] == 1 and rows[0]["f"] == 0.5 and rows[1]["f"] is None
    assert rows[0]["inf"] is None and rows[1]["inf"] is None and rows[1]["s"] is None
    assert rows[0]["b"] is True and rows[0]["by"] == "b'\\xff'"
    assert rows[0]["t"] == "2024-01-02T00:00:00" and rows[1]["t"] is None
    assert rows[0]["o"] == "[1, 2]" and rows[0]["u"] == str(2**64 - 1)
    assert rows[0]["d"] == "1.10" and rows[1]["d"] == "2024-01-02"
    assert rows[0]["c"] == "x" and rows[1]["td"] is None and rows[0]["z"] == "(1+2j)"
    assert len(rows[0]["long"]) == 1000 and rows[0]["sur"] == "\ufffd"
    assert rows[0]["n"] == 1 and rows[1]["n"] is None

    shown = cells.run("pd.DataFrame([[1, 2, 3]], columns=['a', 'a', 5])")
    assert [c["name"] for c in shown.result[TABLE]["columns"]] == ["a", "a", "5"]
    assert shown.result[TABLE]["rows"] == [[1, 2, 3]]

    shown = cells.run("pd.DataFrame({('x', 1): [1]}, index=pd.Index(['r'], name='k'))")
    assert shown.result[TABLE]["columns"] == [
        {"name": "k", "type": "string", "dtype": "object", "index": True},
        {"name": "x, 1", "type": "integer", "dtype": "int64"}]
    assert shown.result[TABLE]["rows"] == [["r", 1]]

    shown = cells.run("pd.Series([1.5, None], name='s', index=['a', 'b'])")
    assert set(shown.result) == {"text/plain", "text/html", TABLE}
    assert shown.result[TABLE]["rows"] == [["a", 1.5], ["b", None]]

    for empty in ("pd.DataFrame()", "pd.DataFrame({'a': []})", "pd.DataFrame(index=[1, 2])"):
        assert TABLE in cells.run(empty).result

    shown = cells.run("df.groupby('b')[['i']].agg(['sum', 'mean'])")
    assert [c["name"] for c in shown.result[TABLE]["columns"]] == ["b", "i, sum", "i, mean"]

    shown = cells.run("pd.DataFrame(np.zeros((10_000_000, 2)), columns=['a', 'b'])")
    table = shown.result[TABLE]
    assert table["row_count"] == 10_000_000 and len(table["rows"]) == 100

    shown = cells.run("pd.DataFrame(np.zeros((3, 5000)))")
    table = shown.result[TABLE]
    assert table["column_count"] == 5000 and len(table["columns"]) == 200

    shown = cells.run("class Bad(pd.DataFrame):\n    def _repr_html_(self): raise OSError('x')\n"
                      "Bad({'a': [1]})")
    assert shown.metadata == {"glovebox": {"failed": {"text/html": "OSError: x"}}}
    assert TABLE in shown.result
    assert cells.end().code == 0


def test_matplotlib(zygote, workspace):
    need("matplotlib")
    cells = Cells(zygote, workspace)
    shown = cells.run("""
        import warnings
        warnings.simplefilter('error')
        import matplotlib.pyplot as plt
        plt.plot([1, 2, 3])
        plt.title('open at the end');
    """)
    assert shown.done[frames.KEY_EXIT_CODE] == "0", shown.done
    (output,) = shown.outputs
    assert output["data"]["text/plain"] == "<Figure size 640x480 with 1 Axes>"
    width, height = png_size(output["data"]["image/png"])
    assert 400 < width <= 700 and 300 < height <= 520

    assert cells.run("plt.get_fignums()").result == {"text/plain": "[]"}
    shown = cells.run("for i in range(3):\n    plt.figure(); plt.plot([i])\n"
                      "plt.show()\nplt.figure()\nplt.show()\nplt.get_fignums()")
    assert len(shown.outputs) == 4 and shown.result == {"text/plain": "[]"}

    shown = cells.run("fig, ax = plt.subplots()\nfig")
    assert "image/png" in shown.result and shown.outputs == []
    shown = cells.run("fig, ax = plt.subplots()\nfig.show()")
    assert len(shown.outputs) == 1
    shown = cells.run("plt.plot([1])\n1/0")
    assert len(shown.outputs) == 1 and shown.done[frames.KEY_ERROR_NAME] == "ZeroDivisionError"
    shown = cells.run("from matplotlib.figure import Figure\nf = Figure()\nf.subplots()\nf")
    assert "image/png" in shown.result

    shown = cells.run("plt.title('$\\\\frac{$');")
    assert "image/png" in shown.outputs[0]["metadata"]["glovebox"]["failed"]
    assert cells.end().code == 0


@pytest.mark.parametrize("zygote", ["c"], indirect=True)  # it takes its time, and once will do
def test_large_figures(zygote, workspace):
    """One that would be too large is drawn smaller, stray text does not blow it up."""
    need("matplotlib")
    cells = Cells(zygote, workspace)
    shown = cells.run("import matplotlib.pyplot as plt\nplt.figure(figsize=(500, 500)); plt.plot([1])")
    width, height = png_size(shown.outputs[0]["data"]["image/png"])
    assert width * height <= 16_500_000
    shown = cells.run("plt.plot([1]); plt.text(1e5, 1e5, 'far');")
    assert png_size(shown.outputs[0]["data"]["image/png"]) == (640, 480)
    shown = cells.run("import numpy as np\nplt.figure(figsize=(20, 20))\n"
                      "plt.imshow(np.random.rand(2000, 2000, 3), interpolation='none');")
    assert "image/png" in shown.outputs[0]["data"]
    shown = cells.run("plt.plot(np.random.rand(1_000_000));")
    assert "image/png" in shown.outputs[0]["data"]
    assert cells.end().code == 0


GLYPHS = """
import warnings
warnings.simplefilter('error')
import matplotlib.pyplot as plt
fig, ax = plt.subplots()
ax.set_title('中文图表 繁體 日本語 グラフ 한국어 😀🎉🚀❤👍🔥✅📈🤖🥰🫠')
ax.set_xlabel('粗体 ①→√∑℃★♥', weight='bold', family='serif')
ax.bar(['销售', '売上', '매출'], [1, 2, 3])
"""


@pytest.mark.parametrize("zygote", ["c"], indirect=True)  # fonts are large; once will do here too
@pytest.mark.parametrize("change", ["", "plt.rcdefaults()", "plt.style.use('ggplot')",
                                    "plt.rcParams['font.family'] = 'monospace'",
                                    "plt.rcParams['font.sans-serif'] = ['DejaVu Sans']"])
def test_glyphs(zygote, workspace, change):
    need("matplotlib")
    source = GLYPHS.replace("fig, ax", change + "\nfig, ax")
    shown = run(zygote, workspace, source).cells[0]
    assert shown.done[frames.KEY_EXIT_CODE] == "0", shown.done
    assert shown.outputs[0]["metadata"] == {}, shown.outputs[0]["metadata"]


def test_plotly(zygote, workspace):
    need("plotly")
    cells = Cells(zygote, workspace)
    shown = cells.run("""
        import plotly.graph_objects as go
        fig = go.Figure(go.Scatter(x=[1, 2], y=[3.5, float('nan')]))
        fig
    """)
    figure = shown.result[PLOTLY]
    assert figure["data"][0]["type"] == "scatter" and "layout" in figure
    assert figure["data"][0]["y"] == [3.5, None]
    shown = cells.run("fig.show()\nimport plotly.io as pio\npio.show(fig.to_dict())\ndisplay(fig)")
    assert [PLOTLY in output["data"] for output in shown.outputs] == [True] * 3
    shown = cells.run("go.Figure(go.Scatter(y=[2**70, 1], text=['\\udcff\\0', 'NaN']))")
    assert shown.result[PLOTLY]["data"][0]["text"][1] == "NaN"
    shown = cells.run("import numpy as np\ngo.Figure(go.Scatter(y=np.random.rand(1_000_000)))")
    assert list(shown.metadata["glovebox"]["left_out"]) == [PLOTLY]
    assert list(shown.result) == ["text/plain"]
    assert cells.end().code == 0


def test_pillow(zygote, workspace):
    need("PIL")
    cells = Cells(zygote, workspace)
    shown = cells.run("from PIL import Image\nImage.new('RGB', (30, 20), 'red')")
    assert png_size(shown.result["image/png"]) == (30, 20)
    shown = cells.run("Image.new('L', (3, 2)).show()\nfor m in ('CMYK', 'F', 'RGBA', '1', 'P'):\n"
                      "    display(Image.new(m, (3, 2)))")
    assert [png_size(o["data"]["image/png"]) for o in shown.outputs] == [(3, 2)] * 6
    shown = cells.run("Image.new('L', (8000, 8000))")
    width, height = png_size(shown.result["image/png"])
    assert width == height and width * height <= 16_000_000
    shown = cells.run("import os\nImage.frombytes('RGB', (2000, 2000), os.urandom(12_000_000))")
    assert "image/png" in shown.metadata["glovebox"]["left_out"]
    assert cells.end().code == 0


def test_a_library_is_adapted_when_it_is_loaded(zygote, workspace):
    """A package of that name in the workspace stands for the one that is installed."""
    package = workspace / "plotly"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "io.py").write_text("def show(*a): print('not ours')")
    shown = run(zygote, workspace, textwrap.dedent("""
        import plotly.io as p
        assert p.__spec__.loader is p.__loader__
        p.show(5)
    """)).cells[0]
    assert [output["data"] for output in shown.outputs] == [{"text/plain": "5"}], shown


# ---- the shell ----


def test_in_and_out(zygote, workspace):
    ended = run(zygote, workspace, "41 + 1", "x = 1", "(_, __, ___)", "%who_ls int", "In[1:], _i, _ii, _i2",
                "_1, Out[1], sorted(Out), _oh is Out", "Out", "_7 is Out, 7 in Out", "Out[2]")
    texts = [cell.result and cell.result["text/plain"] for cell in ended.cells]
    assert texts[:4] == ["42", None, "(42, '', '')", "['x']"]
    assert ast.literal_eval(texts[4]) == (
        ["41 + 1", "x = 1", "(_, __, ___)", "get_ipython().run_line_magic('who_ls', 'int')",
         "In[1:], _i, _ii, _i2"], "%who_ls int", "(_, __, ___)", "x = 1",
    )
    assert texts[5] == "(42, 42, [1, 3, 4, 5], True)"
    assert ended.cells[7].done[frames.KEY_ERROR_NAME] == "NameError"
    assert ended.cells[8].done[frames.KEY_ERROR_VALUE] == "2"


@pytest.mark.parametrize("how", ["%reset -f", "from glovebox_runner import names\nnames.clear()"])
def test_removed_names(zygote, workspace, how):
    ended = run(zygote, workspace, "x = 5\nx", how, "'x' in globals(), len(Out), _, In[-1][:3], callable(get_ipython)",
                "7", "_")
    assert ended.cells[2].result == {"text/plain": "(False, 0, '', \"'x'\", True)"}, ended
    assert ended.cells[4].result == {"text/plain": "7"}


def test_the_record_is_bounded():
    shell = pytest.importorskip("glovebox_runner.shell")
    main = {}
    record = shell.Record(main)
    for number in range(1, 2001):
        record.begin(b"x" * 10)
        record.keep(number)
    assert len(record.results) == shell.RESULTS_MAX and min(record.results) == 1001
    assert "_1000" not in main and main["_1001"] == 1001 and "_i1000" not in main and "_i1001" in main
    assert record.raw[1000] == "" and record.raw[1001] == "x" * 10 and len(record.raw) == 2001
    with pytest.raises(KeyError, match="no result of cell 5 is kept"):
        record.results[5]
    with pytest.raises(KeyError, match="2001"):
        record.results[2001]
    record.begin(b"y" * shell.INPUT_BYTES)
    assert sum(map(len, record.raw)) <= shell.INPUT_BYTES and record.raw[-1][0] == "y"
    large = bytes(shell.RESULT_BYTES * 2 // 5)
    for _ in range(3):
        record.begin(b"")
        record.keep(bytearray(large))
    assert len(main["_"]) == len(main["__"]) == len(large) and main["___"] is None
    assert len(record.results) > 900, "the small ones stay"
    record.begin(b"")
    record.keep(bytes(shell.RESULT_BYTES + 1))
    assert len(main["_"]) == shell.RESULT_BYTES + 1 and main["__"] is None


BROKEN = {
    "class": "type(get_ipython()).transform_cell = None",
    "events": "get_ipython().events = None",
    "modes": "get_ipython().ast_transformers = [1]\nget_ipython().InteractiveTB = None",
    "lists": "In.clear(); Out.clear(); _ih.append(1); In = Out = 5",
    "manager": "get_ipython().input_transformer_manager = None\nget_ipython().display_formatter = None",
    "names": "del In, Out, _, __, _i",
    "modules": "import sys\nfor name in list(sys.modules):\n    if name.startswith('IPython'): del sys.modules[name]",
    "builtins": "import builtins\nfor name in ('isinstance', 'any', 'type', 'getattr'): delattr(builtins, name)",
    "publisher": "get_ipython().display_pub = None",
    "hook": "import sys\nsys.displayhook = 5",
}


@pytest.mark.parametrize("name", BROKEN)
def test_plain_cells_outlive_a_broken_shell(zygote, workspace, name):
    ended = run(zygote, workspace, "%who_ls", BROKEN[name], "x = 2", "x + 2", "1/0", "print(x)")
    assert ended.cells[3].done[frames.KEY_EXIT_CODE] == "0", ended
    assert ended.cells[3].result["text/plain"] == "4"
    assert ended.cells[4].done[frames.KEY_ERROR_NAME] == "ZeroDivisionError"
    assert ended.out.endswith("2\n")


def test_updates_reach_the_end(zygote, workspace):
    """Those that exceed the number of displays: the last one is sent."""
    shown = run(zygote, workspace, "h = display(0, display_id=True)\nfor i in range(1000): h.update(i)\n"
                "k = display('k', display_id='k')\nk.update('end')\n'result'").cells[0]
    assert len(shown.outputs) <= 200
    assert [output["data"]["text/plain"] for output in shown.outputs[-2:]] == ["999", "'end'"]
    assert frames.KEY_LEFT_OUT not in shown.done and shown.result == {"text/plain": "'result'"}


def test_clearing_in_a_loop(zygote, workspace):
    shown = run(zygote, workspace, "from IPython.display import clear_output\nfor i in range(1000):\n"
                "    clear_output(wait=True)\n    print(i)\ndisplay('shown')").cells[0]
    assert shown.outputs[-1]["data"] == {"text/plain": "'shown'"} and len(shown.outputs) <= 200
    assert frames.KEY_LEFT_OUT not in shown.done


def test_without_ipython():
    shell = pytest.importorskip("glovebox_runner.shell")
    problem = SyntaxError("invalid syntax", ("<cell>", 1, 1, "x"))
    translate = shell._translate_without

    def refuse(text):
        with pytest.raises(SyntaxError) as raised:
            translate(text, problem, ImportError("no IPython"))
        return str(raised.value)

    call = "__glovebox_pip__(%r)"
    assert translate("%pip install a", problem, None) == call % "install a"
    assert translate("# c\n\n!pip install a b\n%pip list\nif x:\n  !pip show y", problem, None) == (
        "# c\n\n" + call % "install a b" + "\n" + call % "list" + "\nif x:\n  " + call % "show y")
    assert translate("%pip list\ns = '''\n%who'''", problem, None) == call % "list" + "\ns = '''\n%who'''"
    assert translate("  x = 1\n  x", problem, None) == "x = 1\nx"
    assert "need IPython" in refuse("!ls") and "no IPython" in refuse("%who")
    assert "need IPython" in refuse("%pip install a\nimport a\nx = !ls")
    assert refuse("x ==") == "invalid syntax (<cell>, line 1)"


# ---- the last line, told without a syntax tree ----

STATEMENTS = (
    "x = 2 + 2", "x=1\n", "x = 1\n\n\n", "a.b += 2", "y\nx = 1", "y\n\nx = 1", "import os", "from os import path",
    "pass", "del x", "for i in y:\n    x = i", "for i in y:\n    i\n", "if y:\n  y", "def f():\n    return 1",
    "x = lambda: 1", "x |= 3", "y = 'a'\nx = y",
)
OTHERS = (
    "x", "x == 1", "x != 2", "x <= 2", "x >= 2", "x; y", "x = 1; y", "f(\nx = 1)", "f(\n  x)", "'''\nx = 1'''",
    "'''\n  x'''", "f'''\nx = 1'''", "x\\\n", "x \\\n+ y", "x\\\n  + y", "print(x)", "x if y else y", "import_x",
    "from_ + 2", "pass_", "delta", "[\nx\n]", "[\n  x\n]", "(x\n  == y)", "x # = 1", "", "\n", "lambda: x",
    "await_ \n", "x\r  + y", "'\\\nx = 1'", "x.y", "-x", "not x", "x\n# y = 1",
)


@pytest.mark.parametrize("text", STATEMENTS + OTHERS)
def test_last_statement_is_told_right(text):
    """Where it says that the last statement is no expression, that must be so."""
    cell = pytest.importorskip("glovebox_runner.cell")
    said = cell._ends_in_statement(text.encode())
    assert said == (text in STATEMENTS)
    if not said:
        return
    body = ast.parse(text).body
    assert not isinstance(body[-1], ast.Expr)


def test_value_of_each_last_line(zygote, workspace):
    """Through the runner: a value is shown where the last statement is an expression, only there."""
    code = ["y = 3\nx = 1", "x", "x = 2", "if x:\n    x", "x\\\n  + y", "f = dict(\nx = 1)\nf", "x = !echo"]
    cells = run(zygote, workspace, *code).cells
    shown = [c.result and c.result["text/plain"] for c in cells[:6]]
    assert shown == [None, "1", None, None, "5", "{'x': 1}"]
