"""
Looks (runner/glovebox_runner/look.py and look_code.py), by themselves: no box, no supervisor. A test
runs cells as test_runner_cell.py does, and asks between them.
"""

import json
import os
import re
import signal
import time

import pytest
from test_runner_cell import Cells, nobody_left, strict, workspace, zygote  # noqa: F401
from test_runner_script import to_bytes

from glovebox_runner import frames

REPLY_MAX = 1 << 20


class Looks(Cells):
    def look(self, op, code="", cursor=None, calm=False):
        """The answer; None if there is none."""
        self.ask(op, code, cursor, calm)
        return self.answer()

    def ask(self, op, code="", cursor=None, calm=False):
        request = {"op": op, "cursor": len(code) if cursor is None else cursor}
        fields = [(frames.KEY_CODE, to_bytes(code)), (frames.KEY_FILENAME, "<look>")]
        fields += [(frames.KEY_MODE, "cell"), (frames.KEY_ARG, "")]
        fields += [(frames.KEY_EXECUTION, "77"), (frames.KEY_LOOK, json.dumps(request))]
        fields += [(frames.KEY_CALM, "1")] if calm else []
        frames.send(self.tenant.control, frames.FRAME_RUN, fields)

    def answer(self):
        message = frames.recv(self.tenant.control, self.reader)
        assert message.type == frames.FRAME_DONE
        assert message.get(frames.KEY_EXECUTION) == b"77"
        text = message.get(frames.KEY_JSON)
        assert len(text) <= REPLY_MAX
        return strict(text) if text else None

    def matches(self, code, cursor=None):
        found = self.look("complete", code, cursor)
        return {match["text"]: match["type"] for match in found["matches"]}

    def variables(self):
        found = self.look("variables")
        return {each["name"]: each for each in found["variables"]}

    def interrupt(self):
        os.kill(self.tenant.pid, signal.SIGINT)


@pytest.fixture
def cells(zygote, workspace):  # noqa: F811
    return Looks(zygote, workspace)


SETUP = """
import math, os, sys
class Base:
    inherited = 1
class Thing(Base):
    "What a thing is."
    __slots__ = ("slot",)
    shared = 2
    def __init__(self):
        self.own = 3
        self.slot = [4]
    @property
    def costly(self) -> str:
        evaluated.append(1)
        return "x"
    @property
    def unknown(self):
        evaluated.append(2)
    def method(self, alpha, beta=2, *, gamma=3) -> "Base":
        "Does it.\\n\\nAnd more."
    @classmethod
    def make(cls): pass
evaluated = []
thing = Thing()
numbers = {"key one": 1, "it's": 2, 3: 4, "deep": {"inner": [5]}}
words = ["a", "b"]
text = "words"
def function(first, second=2): pass
"""


# ---- completion ----


@pytest.mark.parametrize("code, some, none", [
    ("thi", {"thing": "instance"}, ["Thing"]),
    ("Thi", {"Thing": "class"}, ["thing"]),
    ("func", {"function": "function"}, []),
    ("whi", {"while": "keyword"}, []),
    ("pri", {"print": "function"}, []),
    ("thing.", {"own": "instance", "costly": "property", "method": "function", "make": "function",
                "inherited": "instance", "slot": "instance"}, ["__init__", "_"]),
    ("thing.__in", {"__init__": "function"}, []),
    ("thing.OW", {"own": "instance"}, []),  # whatever the case, if nothing else fits
    ("thing.costly.", {"upper": "function"}, []),
    ("thing.method().", {"inherited": "instance"}, ["own"]),
    ("thing.slot[0].", {"bit_length": "function"}, []),
    ("Thing().", {"method": "function"}, []),
    ("Thing.", {"make": "function", "costly": "property"}, ["own"]),
    ("math.fl", {"floor": "function"}, ["ceil"]),
    ("os.pat", {"path": "module"}, []),
    ("'abc'.up", {"upper": "function"}, []),
    ("x = [1, 2].ap", {"append": "function"}, []),
    ("words[0].up", {"upper": "function"}, []),
    ("text[1:].up", {"upper": "function"}, []),
    ("print(thing.ow", {"own": "instance"}, []),
    ("f'{thing.ow", {"own": "instance"}, []),
    ("f'{{ {thing.ow", {"own": "instance"}, []),
    ("numbers['", {"key one": "key", "it\\'s": "key", "deep": "key"}, []),
    ('numbers["it', {"it's": "key"}, ["key one"]),
    ("numbers[", {'"key one"': "key"}, []),
    ("numbers['deep']['", {"inner": "key"}, []),
    ("numbers['deep']['inner'][0].", {"bit_length": "function"}, []),
    ("thing.method(", {"alpha=": "param", "gamma=": "param"}, ["self="]),
    ("thing.method(1, be", {"beta=": "param"}, ["alpha="]),
    ("function(\n  [1, (2)], sec", {"second=": "param"}, ["first="]),
    ("import ma", {"math": "module"}, []),
    ("import os, ma", {"math": "module"}, []),
    ("from math import fl", {"floor": "function"}, []),
    ("from collections import (OrderedDict, def", {"defaultdict": "class"}, []),
    ("import xml.do", {"dom": "module"}, []),
    ("x = 1\nfrom math import fl", {"floor": "function"}, []),
    ("x = 1\nfrom math import (ceil,\n    fl", {"floor": "function"}, []),
    ("from math import floor\nthi", {"thing": "instance"}, ["floor"]),
    ("from math import floor\nfrom os import pat", {"path": "module"}, ["floor"]),
    ("later = 1\nlat", {"later": "instance"}, []),
    ("def helper(): pass\nhel", {"helper": "instance"}, []),
    ("open('dir", {"dir with space/": "directory"}, []),
    ("open('dir with space/", {"file.txt": "path"}, []),
])
def test_completes(cells, workspace, code, some, none):  # noqa: F811
    (workspace / "dir with space").mkdir()
    (workspace / "dir with space" / "file.txt").write_text("")
    cells.run(SETUP)
    found = cells.matches(code)
    assert {name: found.get(name) for name in some} == some
    assert not set(none) & set(found)
    assert cells.run("print(evaluated)").result is None
    assert cells.end().out == "[]\n"


@pytest.mark.parametrize("code", [
    "thing.unknown.", "nothing.", "thing.own.nothing.", "# thi", "'text in a string", '"""doc\n',
    "thing.method(1).own.", "(lambda: 1)().", "1.", "0x", "thing..", "((((", "]]]", ")", "\\", "\n",
    "function(first=1)(", "numbers[missing]['", "numbers[None].", "'%s' % thing.", "from . import ",
    "import ..", "%", "😀", "thing.😀", "a" * 5000 + ".", "(" * 5000 + "thing.", "[" * 60000,
    "thing.own\n.", "'" * 999, '"\\', "from math import x\n" * 2500, "a" * 47000 + " x", "a." * 23000, "f(" * 20000,
    "f'{", "f'{{", "f'}", "{" * 99,
], ids=lambda code: ascii(code[:20]))
def test_nothing_fits(cells, code):
    """Anything may be typed; what does not make sense has no completions, or harmless ones."""
    cells.run(SETUP)
    found = cells.look("complete", code)
    assert 0 <= found["start"] <= found["end"] == len(code)
    assert cells.look("inspect", code) is not None
    assert cells.matches("thin") == {"thing": "instance"}
    cells.end()


def test_positions_are_characters(cells):
    cells.run("größe = 1\n")
    code = "'😀'; grö + 1"
    found = cells.look("complete", code, cursor=code.index(" +"))
    assert found["matches"] == [{"text": "größe", "type": "instance"}]
    assert (found["start"], found["end"]) == (5, 8)
    for cursor in (-5, 10**9):  # out of range
        assert 0 <= cells.look("complete", code, cursor=cursor)["start"] <= len(code)
    cells.end()


def test_before_the_first_cell(cells):
    assert cells.matches("pri") == {"print": "function"}
    assert cells.look("variables") == {"variables": [], "truncated": False}
    cells.run("import sys; print(len(In), sys.path[0] == '', __name__)")
    assert cells.end().out == "2 True __main__\n"


def test_at_most_so_many(cells):
    cells.run("for i in range(1000): globals()['name%d' % i] = 'x' * 1000")
    assert len(cells.look("complete", "name")["matches"]) == 200
    found = cells.look("variables")
    assert len(found["variables"]) == 500 and found["truncated"]
    assert all(len(each["summary"]) <= 200 for each in found["variables"])
    cells.end()


def test_tables(cells):
    pytest.importorskip("pandas")
    cells.run("""
import numpy as np, pandas as pd
frame = pd.DataFrame({"price": [1.5, 2], "city name": ["a", "b"], 7: [1, 2]})
array = np.zeros((3, 4))
wide = np.zeros((300, 400))
record = np.zeros(2, dtype=[("left", int), ("right", float)])
""")
    assert cells.matches("frame['") == {"price": "key", "city name": "key"}
    assert cells.matches('frame[["price", "ci') == {}
    assert cells.matches("record['le") == {"left": "key"}
    assert "price" in cells.matches("frame.pr")
    assert "mean" in cells.matches("frame.price.me") and "mean" in cells.matches("frame['price'].me")
    assert "contains" in cells.matches("frame['city name'].str.con")
    found = cells.variables()
    assert found["frame"]["shape"] == [2, 3] and found["frame"]["size_bytes"] > 0
    assert "price" in found["frame"]["summary"] and found["frame"]["type"] == "DataFrame"
    assert found["array"]["shape"] == [3, 4] and found["array"]["size_bytes"] == 96
    assert found["wide"]["summary"] == "dtype float64"
    cells.end()


# ---- help ----


@pytest.mark.parametrize("code, cursor, pattern", [
    ("thing.method", None, r"method\(.*alpha, beta=2.*\n\nDoes it\."),
    ("thing.meth", 3, r"thing: Thing\n.*"),
    ("thing.method", 8, r"method\(.*"),  # in the middle of the name
    ("function(1, ", None, r"function\(first, second=2\)\Z"),
    ("Thing", None, r"class Thing\(\)\n\nWhat a thing is\."),
    ("math", None, r"module math\n.*"),
    ("text", None, r"text: str\n'words'\n.*"),
    ("print", None, r"print\(.*"),
    ("thing.costly", None, r"costly: str\Z"),
])
def test_helps(cells, code, cursor, pattern):
    cells.run(SETUP)
    found = cells.look("inspect", code, cursor)
    assert found["found"] and re.match(pattern, found["text"], re.DOTALL), found["text"]
    assert len(found["text"]) <= 16384
    cells.run("print(evaluated)")
    assert cells.end().out == "[]\n"


@pytest.mark.parametrize("code", ["", "nothing", "# math", "'math'", "thing.nothing", "1 + ", "()"])
def test_knows_no_help(cells, code):
    cells.run(SETUP)
    assert cells.look("inspect", code) == {"found": False, "text": ""}
    cells.end()


def test_help_is_bounded(cells):
    cells.run("def f(): pass\nf.__doc__ = 'x' * 10**6 + '\\n' + '\\x1b[31m\\ud800' * 10\nf.__name__ = 'y' * 10**6")
    assert len(cells.look("inspect", "f")["text"]) <= 16384
    cells.end()


# ---- variables ----


def test_variables(cells):
    cells.run(SETUP + """
_hidden = 1
big = list(range(10**6))
long = "x" * 10**7
huge = 7 ** 100000
nested = [[[[[[1]]]]]]
loop = []; loop.append(loop)
one = (1,)
empty = [set(), frozenset(), {}, []]
import collections
default = collections.defaultdict(int, {n: n for n in range(10**5)})
class L(list): pass
own = L(range(10**5))
""")
    found = cells.look("variables")["variables"]
    by_name = {each["name"]: each for each in found}
    assert not {"_hidden", "In", "Out", "_", "__name__"} & set(by_name)
    order = [each["name"] for each in found]
    assert order.index("thing") < order.index("function") < order.index("Thing") < order.index("math")
    assert by_name["function"] == {"name": "function", "type": "function",
                                   "summary": "function(first, second)"}
    assert by_name["math"]["summary"] == "module math"
    assert by_name["big"]["shape"] == [10**6] and by_name["big"]["summary"].startswith("[0, 1, 2")
    assert by_name["long"]["summary"].startswith("'xxx") and by_name["long"]["shape"] == [10**7]
    assert "bits" in by_name["huge"]["summary"]
    assert by_name["nested"]["summary"] == "[[[[…]]]]" and by_name["one"]["summary"] == "(1,)"
    assert by_name["empty"]["summary"] == "[set(), frozenset(), {}, []]"
    assert by_name["numbers"]["summary"] == "{'key one': 1, \"it's\": 2, 3: 4, 'deep': {'inner': [5]}}"
    assert by_name["default"]["summary"].startswith("defaultdict({0: 0, 1: 1")
    assert by_name["own"]["summary"].startswith("L([0, 1, 2")
    assert by_name["thing"]["type"] == "Thing"
    assert all(len(each["summary"]) <= 200 for each in found)
    cells.end()


HOSTILE = """
import os, sys, threading
class Meta(type):
    def __getattribute__(cls, name): raise RuntimeError(name)
class Raises:
    def __repr__(self): 1 / 0
    def __len__(self): 1 / 0
    def __dir__(self): 1 / 0
class Garbage:
    def __repr__(self): return 7
    def __len__(self): return -1
    def __dir__(self): return [1, None, b"x", "fine", "not an identifier", "x" * 10**6, "\\ud800"]
class Exits:
    def __repr__(self): os._exit(9)
    def __dir__(self): os._exit(9)
class Leaves:
    def __repr__(self): sys.exit(9)
    def __dir__(self): sys.exit(9)
class Prints:
    def __repr__(self):
        print("SEEN"); sys.stderr.write("SEEN"); sys.stdout.buffer.write(b"SEEN"); display("SEEN")
        sys.stdout.flush()
        return "\\x1b[31mred\\n\\0\\ud800"
    def __dir__(self): print("SEEN"); display(1); return ["quiet"]
class Lies:
    @property
    def __class__(self): raise RuntimeError
    def __getattr__(self, name): raise MemoryError
class Deep:
    def __repr__(self): return repr(self)
class Long:
    def __repr__(self): return "y" * 10**7
class Replaces:
    def __repr__(self):
        sys.stdout = sys.stderr = None
        os.close(1) if 0 else None
        return "replaced"
class Forks:
    def __repr__(self):
        pid = os.fork()
        if pid: os.waitpid(pid, 0)
        return "forked"
class Odd(metaclass=Meta):
    pass
raises, garbage, exits, leaves, prints, lies, deep, long, replaces, odd, forks = (
    Raises(), Garbage(), Exits(), Leaves(), Prints(), Lies(), Deep(), Long(), Replaces(), Odd(), Forks())
last = 1
globals()["\\ud800"] = 1
globals()[5] = 6
globals()["n" * 10**5] = 7
"""


def test_hostile_values(cells):
    cells.run(HOSTILE)
    found = cells.variables()
    assert "ZeroDivisionError" in found["raises"]["summary"]
    assert "TypeError" in found["garbage"]["summary"] and "shape" not in found["garbage"]
    assert "SystemExit" in found["exits"]["summary"] and "SystemExit" in found["leaves"]["summary"]
    assert found["prints"]["summary"] == " [31mred   "
    assert found["lies"]["type"] == "Lies" and found["odd"]["type"] == "Odd"
    assert "RecursionError" in found["deep"]["summary"]
    assert len(found["long"]["summary"]) == 200
    assert found["replaces"]["summary"] == "replaced" and found["last"]["summary"] == "1"
    assert found["forks"]["summary"] == "forked"
    for name in ("raises", "exits", "leaves", "lies", "odd"):
        cells.look("complete", name + ".")
        cells.look("inspect", name)
    assert set(cells.matches("garbage.")) == {"fine"}
    assert set(cells.matches("prints.")) == {"quiet"}
    assert not cells.run("print(last)").outputs
    ended = cells.end()
    assert ended.out == "1\n" and "SEEN" not in ended.err


def test_threads_keep_their_output(cells):
    """A thread may print while the thread that runs cells is muted."""
    cells.run("""
import threading
asked, printed = threading.Event(), threading.Event()
class Waits:
    def __repr__(self):
        print("muted")
        asked.set(); printed.wait(60)
        return "waited"
def work():
    asked.wait(60); print("from a thread"); printed.set()
threading.Thread(target=work).start()
waits = Waits()
""")
    assert cells.variables()["waits"]["summary"] == "waited"
    cells.run("print('cell')")
    assert cells.end().out == "from a thread\ncell\n"


def test_leaves_nothing_behind(cells):
    cells.run("5")
    cells.look("complete", "pri")
    cells.look("variables")
    cells.look("inspect", "print")
    cells.run("print(_, len(In), Out, sorted(n for n in globals() if n[:1] != '_'))")
    assert cells.end().out == "5 3 {1: 5} ['In', 'Out']\n"


def wait_for(path):
    for _ in range(6000):
        if path.exists():
            return
        time.sleep(0.01)
    raise AssertionError("it never began")


ENDLESS = """
class Endless:
    def __repr__(self):
        open("begun", "w").close()
        while True: pass
    __dir__ = __repr__
before, endless, after = 1, Endless(), 2
"""


def test_interrupted(cells, workspace):  # noqa: F811
    """The answer has what is known, and the next cell is not interrupted."""
    cells.run(ENDLESS)
    for op, code in (("variables", ""), ("complete", "endless."), ("inspect", "endless")):
        cells.ask(op, code)
        wait_for(workspace / "begun")
        cells.interrupt()
        found = cells.answer()
        if op == "variables":
            found = {each["name"]: each["summary"] for each in found["variables"]}
            assert found == {"before": "1", "endless": "<Endless>", "after": "2",
                             "Endless": "<class Endless>"}
        else:
            assert found.get("matches", []) == [] and not found.get("found")
        (workspace / "begun").unlink()
    cells.interrupt()  # too late
    assert cells.look("complete", "bef", calm=True)["matches"]
    cells.run("print(before)")
    assert cells.end().out == "1\n"


def test_broken_builtins(cells):
    """A program that breaks the interpreter gets an answer, or none, and keeps its session."""
    cells.run("""
import builtins, json, sys
kept = builtins.len, builtins.isinstance
builtins.len = builtins.isinstance = builtins.sorted = None
x = 1
""")
    assert cells.variables()["x"]["summary"] == "1"
    cells.look("complete", "x.")
    cells.run("builtins.len, builtins.isinstance = kept; json.dumps = None; json.loads = None")
    assert cells.look("variables") is None
    cells.run("sys.setrecursionlimit(60) if 0 else None; print(x)")
    assert cells.end().out == "1\n"


@pytest.mark.parametrize("request_", [b"", b"{", b"[]", b"7", b'{"op": "nothing"}', b'{"op": "complete"}',
                                      b'{"op": "complete", "cursor": "x"}', b"\xff"])
def test_malformed(cells, request_):
    cells.run("x = 1")
    fields = [(frames.KEY_MODE, "cell"), (frames.KEY_LOOK, request_), (frames.KEY_EXECUTION, "77")]
    frames.send(cells.tenant.control, frames.FRAME_RUN, fields)
    assert cells.answer() is None
    cells.run("print(x)")
    assert cells.end().out == "1\n"
