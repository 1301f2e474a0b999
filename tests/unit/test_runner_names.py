"""
The names of a cell (runner/glovebox_runner/names.py), by themselves: values that are plain, odd or
hostile, in both forms; and cells of a tenant that give their names back.
"""

import json
import os
import sys

import pytest
from test_runner_cell import Cells, nobody_left, workspace, zygote  # noqa: F401

from glovebox_runner import frames, names


class Raises:
    def __str__(self):
        raise RuntimeError("no")


class Exits:
    def __str__(self):
        raise SystemExit(3)


class Huge:
    def __str__(self):
        return "x" * (64 << 20)


class Liar:
    """Says that it is a dict, and is none."""

    __class__ = dict

    def __str__(self):
        return "liar"


class OddInt(int):
    def __repr__(self):
        return "]]"

    __str__ = __repr__


class OddList(list):
    def __iter__(self):
        raise RuntimeError("no")


class OddDict(dict):
    def items(self):
        raise RuntimeError("no")


class OddStr(str):
    def __str__(self):
        return "other"


class Nasty(type):
    __name__ = property(lambda cls: 1 / 0)


class Nameless(metaclass=Nasty):
    def __str__(self):
        raise Raises


def cyclic(kind):
    value = [1] if kind is list else {}
    value.append(value) if kind is list else value.update(me=value)
    return value


def deep(n):
    value = []
    for _ in range(n):
        value = [value]
    return value


def top(value, get="text"):
    return json.loads(json.dumps(names.Tree(get == "text").top(value), allow_nan=False))


TEXT = {
    "int": (7, 7), "big": (1 << 200, 1 << 200), "float": (0.5, 0.5), "bool": (True, True),
    "str": ("é\0", "é\0"), "list": ([1, (2, None)], [1, [2, None]]),
    "dict": ({1: 2, None: 3, False: 4, 2.5: 5, (1, 2): 6},
             {"1": 2, "false": 4, "null": 3, "2.5": 5, "(1, 2)": 6}),
    # At the top clients know the text of these.
    "none": (None, "None"), "tuple": ((1, 2), "(1, 2)"), "set": ({1}, "{1}"),
    "nan": (float("nan"), "nan"), "inf": ([float("inf")], ["inf"]), "nested": ([{1}], ["{1}"]),
    "bytes": (b"x", "b'x'"), "surrogate": ("a\udcffb", "a\ufffdb"),
    "raises": ([Raises()], ["<Raises object, whose str() failed: RuntimeError: no>"]),
    "exits": (Exits(), "<Exits object, whose str() failed: SystemExit: 3>"),
    "liar": (Liar(), "liar"), "odd_int": (OddInt(5), 5), "odd_list": (OddList([1]), [1]),
    "odd_dict": (OddDict(a=1), {"a": 1}), "odd_str": (OddStr("real"), "real"),
    "cyclic_list": (cyclic(list), [1, "[1, [...]]"]),
    "cyclic_dict": (cyclic(dict), {"me": "{'me': {...}}"}),
}


@pytest.mark.parametrize("name", TEXT)
def test_text(name):
    value, expected = TEXT[name]
    assert top(value) == expected


JSON = {
    "plain": ({"a": [1, (2.5, None, "x", False)]}, {"a": [1, [2.5, None, "x", False]]}),
    "big": (1 << 200, 1 << 200), "nan": ([float("nan"), float("-inf")], [None, None]),
    "none": (None, None), "tuple": ((1, 2), [1, 2]),
}


@pytest.mark.parametrize("name", JSON)
def test_json(name):
    assert top(JSON[name][0], "json") == JSON[name][1]


NOT_JSON = {
    "set": {1}, "nested": [[{1}]], "key": {(1, 2): 3}, "cyclic": cyclic(list), "liar": Liar(),
    "raises": Raises(), "deep": deep(1000), "digits": 10**5000, "function": len,
}


@pytest.mark.parametrize("name", NOT_JSON)
def test_not_json(name):
    if name == "digits" and not hasattr(sys, "set_int_max_str_digits"):
        pytest.skip("numbers of any length have a text here")
    with pytest.raises(names.NotJSON):
        top(NOT_JSON[name], "json")
    assert top(NOT_JSON[name]) is not None  # the other form has something to say


def test_a_type_without_a_name():
    assert top(Nameless()).startswith("<Nameless object")


def wide():
    value = [0] * 10
    for _ in range(12):
        value = [value] * 10
    return value


@pytest.mark.parametrize("make", [Huge, lambda: "x" * (10 << 20), lambda: ["x" * 1000] * 20000, wide,
                                  lambda: [None] * 2000000, lambda: {"x" * (9 << 20): 1}])
def test_too_large(make):
    with pytest.raises(names.TooLarge):
        top(make())


# ---- in a tenant ----


class Named(Cells):
    def send(self, source, get="text", given=None, **kwargs):
        if get is None:
            super().send(source)
            return
        wish = json.dumps({"set": given, "get": get})
        fields = [(frames.KEY_CODE, source.encode()), (frames.KEY_FILENAME, "<string>"),
                  (frames.KEY_MODE, "cell"), (frames.KEY_ARG, ""), (frames.KEY_NAMES, wish)]
        frames.send(self.tenant.control, frames.FRAME_RUN, fields)

    def names(self, source, **kwargs):
        shown = self.run(source, **kwargs)
        assert shown.done[frames.KEY_EXIT_CODE] == "0", shown
        return json.loads(shown.result[names.MIME])

    def error(self, source, **kwargs):
        shown = self.run(source, **kwargs)
        assert shown.result is None
        return shown.done[frames.KEY_ERROR_NAME], shown.done[frames.KEY_ERROR_VALUE]


@pytest.fixture
def cells(zygote, workspace):
    cells = Named(zygote, workspace)
    yield cells
    if not cells.over:
        cells.end()


def test_what_a_cell_binds(cells):
    assert cells.names("x = 1\ny = [x]") == {"x": 1, "y": [1]}
    assert cells.names("x = 1") == {"x": 1}  # the same object once more
    assert cells.names("y.append(2)") == {}  # bound by no one
    assert cells.names("y") == {}
    assert cells.names("del x\nz = y") == {"z": [1, 2]}
    assert cells.names("for i in range(3): pass\nwith open('/dev/null') as f: pass\n"
                       "(w := 5)\nfrom math import pi\nimport os.path as p") .keys() == {
        "i", "f", "w", "pi", "p"}
    assert cells.names("exec('e = 1')\nglobals()['g'] = 2\ndef fn():\n    global h\n    h = 3\nfn()"
                       ).items() >= {"e": 1, "g": 2, "h": 3}.items()
    assert cells.names("class A: inside = 1\nb: int = 2").keys() == {"A", "b"}
    assert cells.names("from math import *")["tau"] > 6
    assert cells.names("".join("n%d = %d\n" % (i, i) for i in range(700)))["n699"] == 699
    assert cells.names("import sys\nk = 1\nsys.exit()")["k"] == 1
    assert cells.names("") == {}
    assert cells.names("q = 1 if True else 2\nq") == {"q": 1}


def test_values_of_a_cell(cells):
    assert cells.names("class A:\n    def __str__(self): raise ValueError('no')\na = A()")["a"] == (
        "<A object, whose str() failed: ValueError: no>")
    assert cells.names("n = float('nan')\ns = {1}", get="json") == {"n": None}
    assert cells.error("big = 'x' * (10 << 20)") == (
        "ValueError",
        "big cannot be returned: it is larger than 8 MiB. Return a part of it, or write it to "
        "a file")
    name, value = cells.error("quotes = '\"' * (3 << 20)")
    assert name == "ValueError" and "together" in value
    assert cells.names("five = 'x' * (5 << 20)")["five"] == "x" * (5 << 20)
    assert cells.names("commas = ',' * (2 << 20)")["commas"] == "," * (2 << 20)
    assert len(cells.names("many = list(range(400000))")["many"]) == 400000
    assert cells.names("part = big[:3]") == {"part": "xxx"}
    # What a cell shows does not take the room of its names.
    assert cells.names("for _ in range(300): display('x' * (1 << 20))\nr = 'y' * (5 << 20)")["r"]
    assert cells.error("a = 1\nb = 1 / 0") == ("ZeroDivisionError", "division by zero")


def test_inputs(cells):
    assert cells.names("def f(): return n + k\nr = f()\nk = 3", get="json", given={"n": 1, "k": 2}
                       ) == {"n": 1, "k": 3, "r": 3}
    assert cells.names("del n", get="json", given={"n": 1}) == {}
    assert cells.names("", get="json", given={"not a name": [None]}) == {"not a name": [None]}
    assert cells.error("1", get="json", given={"__builtins__": {}})[0] == "ValueError"
    assert cells.names("len([1])") == {}


CALL = "__import__('sys').modules['glovebox_runner.tenant'].load_names()."


def test_tables(cells, workspace):
    pytest.importorskip("pandas")
    (workspace / "up").write_text("a,b\n1,x\n2,ü\n")
    cells.run("import os\nos.chdir('/')")
    assert cells.run(CALL + "read_csv('df', 'up')").done[frames.KEY_EXIT_CODE] == "0"
    assert not (workspace / "up").exists()
    assert cells.names("total = df['a'].sum()\ncopy = df") == {
        "total": "3", "copy": '{"a":{"0":1,"1":2},"b":{"0":"x","1":"\\u00fc"}}'}
    cells.run("df['c'] = df['a'] * 2")
    cells.run(CALL + "write_records('df', 'down')")
    records = json.loads((workspace / "down").read_text())
    assert json.loads(records) == [{"a": 1, "b": "x", "c": 2}, {"a": 2, "b": "ü", "c": 4}]
    assert json.loads(cells.run(CALL + "uploads()", get=None).result[names.MIME]) == {
        "files": ["df"]}
    cells.run("del df")
    assert json.loads(cells.run(CALL + "uploads()", get=None).result[names.MIME]) == {
        "files": []}
    cells.run(CALL + "write_records('df', 'none')")
    assert (workspace / "none").read_text() == '"[]"'
    (workspace / "up").write_text("")
    assert cells.error(CALL + "read_csv('df', 'up')") == (
        "EmptyDataError", "No columns to parse from file")
    assert not (workspace / "up").exists()
    for name in ("class", "a b", "1x", "__name__", ""):
        assert cells.error(CALL + "read_csv(%r, 'up')" % name)[0] == "ValueError"
    cells.run(CALL + "clear()")
    assert cells.error("copy")[0] == "NameError"
    assert os.listdir(workspace)
