"""The policy gate's program, without a box: what it finds in code that is only parsed."""

import importlib.util
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
spec = importlib.util.spec_from_file_location("gate", ROOT / "src/mark/box/gate.py")
gate = importlib.util.module_from_spec(spec)
spec.loader.exec_module(gate)


def denied(policy, code):
    """The message, or None."""
    result = gate.check(policy, code)
    assert result["denied"] == ("message" in result)
    if not result["denied"]:
        return None
    assert result["line"] >= 1 and result["message"].isascii() and len(result["message"]) <= 400
    return "line %d: %s" % (result["line"], result["message"])


IMPORTS = {"deny": {"imports": ["socket", "os", "xml.etree"]}}


@pytest.mark.parametrize("code", [
    "import socket", "import socket as s", "import json, socket", "import os.path",
    "from os import path", "from os.path import join", "from socket import *", "import xml.etree",
    "import xml.etree.ElementTree as ET", "from xml import etree", "from xml.etree import ElementTree",
    "__import__('socket')", "x = __import__('os').system", "import importlib\nimportlib.import_module('os')",
    "from importlib import import_module\nimport_module('os')",
    "from importlib import import_module as i\ni('os')", "f = __import__\nf('os')",
    "import builtins\nbuiltins.__import__('os')", "__import__(name)", "import sys\nsys.modules['os']",
    "import sys\nsys.modules[x]", "import sys\nsys.modules.get('os')", "import sys as q\nq.modules['os']",
    "def f():\n    import os", "if False:\n    import os", "try:\n    import os\nexcept: pass",
    "lambda: __import__('os')", "exec('import os')", "eval('__import__(\"os\")')",
    "exec('exec(\"import os\")')", "class A:\n    import os", "from . import x", "from .a import b",
    "%time import os", "%%time\nimport os", "%%timeit\nimport os", ">>> import os", "  import os",
    "In [1]: import os", "%load_ext os", "async def f():\n    import os",
])
def test_denied_imports(code):
    pytest.importorskip("IPython")
    assert denied(IMPORTS, code), code


@pytest.mark.parametrize("code", [
    "import pandas", "import socketserver", "import osgeo", "from xml import sax", "x = 'import os'",
    "# import os", "print('os')", "os = 5\nprint(os)", "", "\n\n", "x = 1 +", "def (:", "import", "\x00",
    "exec(x)", "import mark\nmark.value('a', 1)", "%matplotlib inline\nimport pandas", "%pip install x",
    "f'{os}'", "class A:\n    def f(self): pass",
])
def test_allowed_imports(code):
    assert denied(IMPORTS, code) is None, code


def test_only_some_imports():
    policy = {"allow": {"imports": ["pandas", "numpy", "os.path"]}}
    for code in ("import pandas as pd", "import numpy.linalg", "from pandas import DataFrame", "import mark",
                 "import os.path", "from os.path import join"):
        assert denied(policy, code) is None, code
    for code in ("import os", "from os import path", "import requests", "__import__('x')", "import pandasx",
                 "__import__(x)", "import importlib", "from __future__ import annotations"):
        assert denied(policy, code), code
    assert "allowed are: pandas, numpy" in denied(policy, "import re")
    assert denied({"allow": {"imports": []}}, "import re")
    # what is denied is denied, even if it is allowed too
    assert denied({"allow": {"imports": ["os"]}, "deny": {"imports": ["os"]}}, "import os")


CALLS = {"deny": {"calls": ["os.system", "eval", "shutil.*", "open", ".to_pickle"]}}


@pytest.mark.parametrize("code", [
    "import os\nos.system('ls')", "import os as o\no.system('ls')", "from os import system\nsystem('ls')",
    "from os import system as s", "import os\nf = os.system\nf('x')", "import os\nmap(os.system, x)",
    "import os\no = os\np = o\np.system('x')", "import os\ngetattr(os, 'system')('x')",
    "import os\nos.__dict__['system']('x')", "import os\nvars(os)['system']('x')",
    "__import__('os').system('x')", "import importlib\nimportlib.import_module('os').system('x')",
    "import sys\nsys.modules['os'].system('x')", "import os\ngetattr(os, name)", "from os import *",
    "eval('1')", "e = eval", "import builtins\nbuiltins.eval('1')", "__builtins__['eval']",
    "globals()['eval']('1')", "getattr(__builtins__, 'eval')", "import builtins as b\nb.eval('1')",
    "getattr(__import__('os'), 'system')", "import shutil\nshutil.rmtree('x')", "from shutil import rmtree",
    "import shutil\nshutil.anything.else_", "open('x')", "with open('x') as f: pass", "[open]",
    "x.to_pickle('a')", "getattr(x, 'to_pickle')", "df.a.b.to_pickle", "import os\nos.system\n",
    "import os\n(o := os).system('x')", "import os\na, b = os, 5\na.system('x')", "@eval\ndef f(): pass",
    "exec('import os; os.system(1)')", "import os\nclass A:\n    f = os.system",
    "import os\nlambda: os.system",
])
def test_denied_calls(code):
    assert denied(CALLS, code), code


@pytest.mark.parametrize("code", [
    "import os\nos.path.join('a')", "import os\nos.getcwd()", "import shutil", "x.system('ls')",
    "evaluate(1)", "df.eval", "x.open()", "getattr(x, name)", "'os.system'", "import os\ngetattr(os, 'getcwd')",
])
def test_allowed_calls(code):
    assert denied(CALLS, code) is None, code


def test_exceptions_from_denied_calls():
    policy = {"deny": {"calls": ["os.*"]}, "allow": {"calls": ["os.path", "os.getcwd"]}}
    assert denied(policy, "import os\nos.path.join('a', 'b')\nos.getcwd()") is None
    assert denied(policy, "import os\nos.remove('a')")
    assert denied(policy, "from os import remove")


@pytest.mark.parametrize("code", ["secret", "x.secret", "secret = 1", "def secret(): pass", "from a import secret",
                                  "getattr(x, 'secret')", "class secret: pass"])
def test_denied_names(code):
    assert "the name 'secret'" in denied({"deny": {"names": ["secret"]}}, code)
    assert denied({"deny": {"names": ["secret"]}, "allow": {"names": ["secret"]}}, code) is None


def test_dunders():
    policy = {"dunders": False}
    for code in ("().__class__.__bases__[0].__subclasses__()", "f.__globals__", "getattr(f, '__globals__')",
                 "x.__reduce__()", "f.__code__"):
        assert denied(policy, code), code
        assert denied({}, code) is None
    for code in ("if __name__ == '__main__': pass", "pandas.__version__", "super().__init__()", "x.__", "x.____"):
        assert denied(policy, code) is None, code


@pytest.mark.parametrize("code", [
    "!ls", "x = !ls", "  !ls", "%sx ls", "%%bash\nls", "%%sh\nls", "%system ls", "for i in x:\n    !ls", "%run x.py",
    "%%writefile a.py\nx", "!!ls", "files = %sx ls", "import os\nos.system('x')", "import subprocess\nsubprocess.run('x')",
    "from subprocess import run", "import subprocess as s\ns.Popen('x')", "get_ipython().system('ls')",
    "get_ipython().run_line_magic('sx', 'ls')", "ip = get_ipython()\nip.system('ls')", "import os\nos.popen('x')",
    "import os\nos.execv('a', [])", "import pty\npty.spawn('x')",
    "import asyncio\nasyncio.create_subprocess_shell('x')", "%time !ls", "print(1)\n!ls\n",
])
def test_no_shell(code):
    pytest.importorskip("IPython")
    message = denied({"shell": False}, code)
    assert message and "(shell)" in message, (code, message)
    assert denied({}, code) is None


@pytest.mark.parametrize("code", ["%matplotlib inline", "%time x = 5", "%%time\nx = 5", "%pip install pandas",
                                  "x = 5 % 3", "a = '!ls'", "'''\n!ls\n'''", "x != 5"])
def test_harmless_magics(code):
    assert denied({"shell": False}, code) is None, code


def test_lines_are_named():
    assert denied(IMPORTS, "x = 1\n\nimport os\n").startswith("line 3: importing 'os' is not allowed here")
    assert denied({"shell": False}, "x = 1\n!ls").startswith("line 2: ")


BOMBS = [
    "(" * 100000, "(" * 150 + ")" * 150, "-" * 100000 + "1", "x" + ".a" * 20000, "x" + "[0]" * 5000,
    "f" + "()" * 5000, "lambda: " * 3000 + "1", "1" + "+1" * 20000, "[" * 90 + "]" * 90,
    "if x:\n" + "".join(" " * i + "if x:\n" for i in range(1, 90)) + " " * 90 + "pass",
    "import a" + ".b" * 20000, "x = " * 20000 + "1", "a = b\n" * 50000, "\n" * 1000000, "'" * 100001,
    "getattr(" * 90 + "os" + ", 'a')" * 90, "eval('" * 100, "((x:=os), " * 80 + ")" * 80,
    "".join("a%d = a%d\n" % (i + 1, i) for i in range(30000)),
]


@pytest.mark.parametrize("code", BOMBS, ids=map(str, range(len(BOMBS))))
def test_bombs(code):
    """No crash and no endless loop: an answer of some kind."""
    result = gate.check({"deny": {"imports": ["os"], "calls": ["os.system"]}, "shell": False}, code)
    assert result["denied"] in (True, False)


def test_an_empty_policy_allows_everything():
    assert denied({}, "import os\nos.system('x')\n") is None
