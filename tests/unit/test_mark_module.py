"""The module mark of the box, by itself: src/mark/box/mark.py without a box.

Everything it hands over is a display; here display() is a list. tests/system/test_mark_box.py sees
the same bundles in a receipt.
"""

import builtins
import collections
import datetime
import decimal
import fractions
import json
import linecache
import pathlib
import subprocess
import sys
import uuid

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src/mark/box/mark.py"
MIME = "application/vnd.glovebox.mark+json"
PLOTLY = "application/vnd.plotly.v1+json"

sys.path.insert(0, str(ROOT / "tools"))

from embed_module import embed  # noqa: E402


@pytest.fixture
def mark(monkeypatch):
    """The module, loaded by the program that a session runs; mark.shown has its displays."""
    space = {}
    monkeypatch.delitem(sys.modules, "mark", raising=False)
    exec(embed("mark", SOURCE.read_text(encoding="utf-8")), space)
    assert set(space) == {"__builtins__", "mark"}
    module = space["mark"]
    assert sys.modules["mark"] is module
    module.shown = []

    def display(*values, raw=False):
        for value in values:
            module.shown.append(json.loads(json.dumps(value, allow_nan=False)) if raw else value)

    monkeypatch.setattr(builtins, "display", display, raising=False)
    yield module
    monkeypatch.delitem(sys.modules, "mark", raising=False)


def shown(mark, kind):
    """What the last display has."""
    bundle = mark.shown[-1]
    assert bundle["text/plain"]
    assert bundle[MIME]["kind"] == kind
    return bundle[MIME]


def value_of(mark, x, **options):
    mark.value("x", x, **options)
    return shown(mark, "value")["value"]


# ---- values ----


@pytest.mark.parametrize("x, expected", [
    (3, 3), (-7, -7), (True, True), (2.5, 2.5), ("north", "north"), (None, None), ("", ""),
    (float("nan"), None), (float("inf"), None), (-0.0, -0.0),
    ((1 << 63) - 1, (1 << 63) - 1), (1 << 63, str(1 << 63)), (-(10**30), str(-(10**30))),
    (decimal.Decimal("12.50"), 12.5), (decimal.Decimal("1E+3"), 1000), (decimal.Decimal("NaN"), None),
    (decimal.Decimal("1E+900000"), None), (fractions.Fraction(1, 4), 0.25),
    (datetime.date(2024, 3, 1), "2024-03-01"),
    (datetime.datetime(2024, 3, 1, 14, 2), "2024-03-01T14:02:00"),
    (datetime.time(14, 2), "14:02:00"), (datetime.timedelta(days=3), "3 days, 0:00:00"),
    (uuid.UUID(int=5), "00000000-0000-0000-0000-000000000005"),
    ("\ud800", "?"), ("x" * 2000, "x" * 999 + "…"),
])
def test_single_values(mark, x, expected):
    got = value_of(mark, x)
    assert got == expected and type(got) is type(expected)


def test_values_of_numpy_and_pandas(mark):
    np = pytest.importorskip("numpy")
    pd = pytest.importorskip("pandas")
    for x, expected in [
        (np.int64(5), 5), (np.uint64(2**64 - 1), str(2**64 - 1)), (np.float32(0.5), 0.5),
        (np.float64("nan"), None), (np.bool_(True), True), (np.str_("a"), "a"),
        (np.array(7), 7), (np.array([7]), 7), (np.datetime64("2024-03-01"), "2024-03-01"),
        (np.datetime64("NaT"), None), (np.timedelta64(5, "ns"), "5 nanoseconds"),
        (pd.NA, None), (pd.NaT, None), (pd.Timestamp("2024-03-01 12:00"), "2024-03-01T12:00:00"),
        (pd.Timedelta(days=1), "1 days 00:00:00"), (pd.Series([4.5]), 4.5), (pd.Index([3]), 3),
        (pd.Period("2024-03"), "2024-03"), (pd.Series([1, 2]).sum(), 3),
    ]:
        got = value_of(mark, x)
        assert got == expected and type(got) is type(expected), repr(x)


def test_a_value_with_unit_and_format(mark):
    mark.value("revenue", 1203411.5, unit="EUR", format=",.2f")
    assert shown(mark, "value") == {"kind": "value", "name": "revenue", "value": 1203411.5,
                                    "unit": "EUR", "format": ",.2f"}
    assert mark.shown[-1]["text/plain"] == "revenue = 1203411.5 EUR"
    mark.value("a.b", 1)
    assert shown(mark, "value")["unit"] is None
    mark.value("share", 0.5, format="{:.1%}")
    assert shown(mark, "value")["format"] == ".1%"
    mark.value("day", datetime.date(2024, 3, 1), format="%d/%m/%Y")
    assert shown(mark, "value")["value"] == "01/03/2024" and shown(mark, "value")["format"] is None


@pytest.mark.parametrize("name, better", [
    ("net revenue", "net_revenue"), ("1st", "_1st"), ("", "value"), ("x" * 65, "x" * 64),
    ("{{a}}", "a"), ("größe", "gr_e"), ("a\n", "a"), ("{}", "value"),
])
def test_bad_names(mark, name, better):
    with pytest.raises(ValueError) as error:
        mark.value(name, 1)
    assert "is not a name" in str(error.value) and str(error.value).endswith("such as %r" % better)
    assert not mark.shown


@pytest.mark.parametrize("x, words", [
    ([1, 2], "mark.table"), ({"a": 1}, "mark.table"), (len, "call it"), (b"a", "decode"),
    (1j, "complex"), (object(), "x is a object"),
])
def test_bad_values(mark, x, words):
    with pytest.raises(TypeError) as error:
        mark.value("x", x)
    assert words in str(error.value) and not mark.shown


def test_bad_values_of_pandas(mark):
    pd = pytest.importorskip("pandas")
    for x in (pd.Series([1, 2]), pd.DataFrame({"a": [1]}), pd.Series([], dtype=float), pd.Series([1]).sum):
        with pytest.raises(TypeError):
            mark.value("x", x)
    assert not mark.shown


@pytest.mark.parametrize("options", [
    {"unit": 3}, {"unit": "x" * 33}, {"unit": "a\nb"}, {"unit": "5 apples"},
    {"format": 3}, {"format": "%s and %s"}, {"format": "x" * 100}, {"format": ">10"},
    {"format": ".2f}"}, {"format": ".999f"}, {"format": "s"}, {"format": "d"},
])
def test_bad_units_and_formats(mark, options):
    with pytest.raises((TypeError, ValueError)) as error:
        mark.value("x", 1.5, **options)
    assert "mark.value" in str(error.value) and not mark.shown


def test_a_name_must_be_text(mark):
    with pytest.raises(TypeError, match="name must be a text"):
        mark.value(5, "revenue")
    with pytest.raises(ValueError, match="too long"):
        mark.value("x", 1 << 4000)


# ---- tables ----

Point = collections.namedtuple("Point", "x y")


@pytest.mark.parametrize("frame, names, types, rows", [
    ({"region": ["n", "s"], "n": [1, 2]}, ["region", "n"], ["text", "integer"], [["n", 1], ["s", 2]]),
    ([{"a": 1, "b": 2.5}, {"a": None, "c": True}], ["a", "b", "c"], ["integer", "number", "boolean"],
     [[1, 2.5, None], [None, None, True]]),
    ([[1, "x"], [2]], ["column 1", "column 2"], ["integer", "text"], [[1, "x"], [2, None]]),
    ([Point(1, 2)], ["x", "y"], ["integer", "integer"], [[1, 2]]),
    ([1, 2.5], ["value"], ["number"], [[1], [2.5]]),
    ({"a": 1, "b": "x"}, ["name", "value"], ["text", "text"], [["a", 1], ["b", "x"]]),
    ([], ["value"], ["text"], []),
    ([[datetime.date(2024, 1, 2), datetime.datetime(2024, 1, 2)]], ["column 1", "column 2"],
     ["date", "datetime"], [["2024-01-02", "2024-01-02T00:00:00"]]),
])
def test_tables_without_pandas(mark, frame, names, types, rows):
    mark.table("T", frame)
    got = shown(mark, "table")
    assert [c["name"] for c in got["columns"]] == names
    assert [c["type"] for c in got["columns"]] == types
    assert got["rows"] == rows and got["row_count"] == len(rows) and got["title"] == "T"


def test_tables_of_pandas(mark):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({
        "region": ["north", "south"], "n": [1, 2], "x": [1.5, None], "ok": [True, False],
        "at": pd.to_datetime(["2024-03-01", None]), "kind": pd.Categorical(["a", "b"]),
        "maybe": pd.array([1, None], dtype="Int64"),
    })
    mark.table("Regions", frame)
    got = shown(mark, "table")
    assert [c["type"] for c in got["columns"]] == ["text", "integer", "number", "boolean", "datetime",
                                                   "text", "integer"]
    assert got["rows"] == [["north", 1, 1.5, True, "2024-03-01T00:00:00", "a", 1],
                           ["south", 2, None, False, None, "b", None]]
    mark.table("By region", frame.groupby("region")["n"].sum())
    assert shown(mark, "table")["columns"] == [{"name": "region", "type": "text"},
                                               {"name": "n", "type": "integer"}]
    mark.table("Two", frame.groupby(["region", "kind"], observed=True)["n"].sum())
    assert [c["name"] for c in shown(mark, "table")["columns"]] == ["region", "kind", "n"]
    mark.table("Repeated", pd.DataFrame([[1, 2]], columns=["a", "a"]))
    assert shown(mark, "table")["rows"] == [[1, 2]]
    mark.table("Top", frame.sort_values("n", ascending=False).head(1))
    assert shown(mark, "table")["rows"][0][:2] == [1, "south"]
    with pytest.raises(TypeError, match="aggregate it first"):
        mark.table("x", frame.groupby("region"))


def test_ways_to_call_table(mark):
    rows = [[1]]
    mark.table(rows)
    assert shown(mark, "table")["title"] == "Table"
    for call in (lambda: mark.table(rows, "T"), lambda: mark.table("T", rows),
                 lambda: mark.table(rows, title="T"), lambda: mark.table(title="T", frame=rows)):
        call()
        assert shown(mark, "table")["title"] == "T"
    count = len(mark.shown)
    for call in (lambda: mark.table(), lambda: mark.table("T"), lambda: mark.table("T", 5),
                 lambda: mark.table("T", rows, rows), lambda: mark.table(rows, rows),
                 lambda: mark.table("T", "U"), lambda: mark.table("T", len),
                 lambda: mark.table(3, title=rows)):
        with pytest.raises(TypeError, match="mark.table"):
            call()
    assert len(mark.shown) == count
    with pytest.raises(ValueError, match="different lengths"):
        mark.table("T", {"a": [1], "b": [1, 2]})


def test_large_tables_are_cut_and_say_so(mark):
    mark.table("Many", [[i] for i in range(5000)])
    got = shown(mark, "table")
    assert len(got["rows"]) == 1000 and got["row_count"] == 5000
    assert "5000 rows" in mark.shown[-1]["text/plain"] and "first 1000" in mark.shown[-1]["text/plain"]
    mark.table("Wide", [list(range(300))] * 1000)
    got = shown(mark, "table")
    assert len(got["columns"]) == 200 and "100 columns are left out" in mark.shown[-1]["text/plain"]
    mark.table("Long", [["é" * 5000] * 20] * 1000)
    got = shown(mark, "table")
    assert 0 < len(got["rows"]) < 1000
    assert len(json.dumps(got, ensure_ascii=False).encode()) <= 1 << 20


def test_cells_that_are_no_values(mark):
    class Bad:
        def __str__(self):
            raise ValueError("no")

    mark.table("Odd", [[Bad(), [1, 2], b"\xff", {"a": 1}, float("inf"), list(range(2000))]])
    assert shown(mark, "table")["rows"] == [["<Bad: ValueError>", "[1, 2]", "b'\\xff'", "{'a': 1}",
                                             None, "<list of 2000 items>"]]


# ---- charts ----


def test_a_plotly_dict_is_a_chart(mark):
    spec = {"data": [{"type": "bar", "x": ["a"], "y": [1]}], "layout": {"title": {"text": "T"}}}
    mark.chart(spec)
    assert mark.shown[-1] == {PLOTLY: spec, "text/plain": "Chart: T (bar)"}
    with pytest.raises(ValueError, match="at most 8 MB"):
        mark.chart({"data": [{"y": list(range(2000000))}]})
    for wrong in (5, "x", {"layout": {}}, [], None):
        with pytest.raises(TypeError, match="mark.chart"):
            mark.chart(wrong)


def test_plotly_figures(mark):
    go = pytest.importorskip("plotly.graph_objects")
    mark.chart(go.Figure(go.Bar(x=["a", "b"], y=[1, 2]), layout={"title": {"text": "T"}}))
    assert mark.shown[-1][PLOTLY]["data"][0]["type"] == "bar"
    assert mark.shown[-1]["text/plain"] == "Chart: T (bar)"


def test_matplotlib_figures(mark):
    pytest.importorskip("matplotlib").use("Agg")
    from matplotlib import pyplot

    pyplot.close("all")  # those that other tests of this process left open
    for make in (lambda f, a: f, lambda f, a: a, lambda f, a: pyplot, lambda f, a: [a]):
        figure, axes = pyplot.subplots()
        mark.chart(make(figure, axes))
        assert mark.shown[-1] is figure and not pyplot.get_fignums()


# ---- files and sources ----


def test_attachments(mark):
    with pytest.raises(FileNotFoundError, match="no files"):
        mark.attachment("sales.csv")
    mark._attachments = {"sales.csv": "/workspace/data/sales.csv", "b.csv": "/workspace/data/b.csv"}
    assert mark.attachments() == ["b.csv", "sales.csv"]
    for name in ("sales.csv", "Sales.CSV", "/workspace/data/sales.csv"):
        assert mark.attachment(name) == "/workspace/data/sales.csv"
    with pytest.raises(FileNotFoundError, match="there are: 'b.csv', 'sales.csv'"):
        mark.attachment("x")
    with pytest.raises(TypeError):
        mark.attachment(3)


def test_nothing_heavy_is_imported():
    """In an interpreter without display(), so the text is printed."""
    program = embed("mark", SOURCE.read_text(encoding="utf-8")) + (
        "import sys\nmark.value('x', 1)\nmark.table('t', [[1]])\n"
        "print(sorted({'pandas', 'numpy', 'plotly', 'matplotlib', 'decimal', 'datetime'} & set(sys.modules)))\n")
    out = subprocess.run([sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True)
    assert out.stdout == "x = 1\nt: 1 rows, 1 columns\n[]\n", out.stderr


# ---- lines ----


def run_as(mark, filename, text, space=None):
    """Runs a program as a cell of that name, and returns the lines of what it handed over."""
    before = len(mark.shown)
    space = {"mark": mark} if space is None else space
    linecache.cache[filename] = (len(text), None, text.splitlines(True), filename)
    try:
        exec(compile(text, filename, "exec"), space)
    finally:
        del linecache.cache[filename]
    return [bundle.get(MIME, {}).get("line") for bundle in mark.shown[before:]]


@pytest.mark.parametrize("text, lines", [
    ("mark.value('a', 1)", [1]),
    ("\n\nmark.value(\n  'a',\n  1)\n", [3]),
    ("for i in range(2):\n    mark.value('a', i)\nmark.table('t', [[1]])", [2, 2, 3]),
    ("def show(x):\n    mark.value('a', x)\n\nshow(1)\nshow(2)", [2, 2]),
    ("import functools\n@functools.cache\ndef show(x):\n    mark.value('a', x)\nshow(1)", [4]),
    ("show = lambda x: mark.value('a', x)\nshow(1)", [1]),
    ("x = [\n    mark.value('a', 1)\n    for i in range(1)\n]", [2]),
    ("list(map(lambda i:\n  mark.value('a', i), [1]))", [2]),
    ("exec('\\n\\nmark.value(\"a\", 1)')", [1]),
    ("def deep(n):\n    deep(n - 1) if n else mark.value('a', 1)\ndeep(700)", [None]),
    ("import threading\nt = threading.Thread(target=mark.value, args=('a', 1))\nt.start()\nt.join()", [None]),
    ("import sys\nsys._getframe = None\ntry:\n    mark.value('a', 1)\nfinally:\n    sys._getframe = real", [None]),
    ("mark.chart({'data': []})", [1]),
])
def test_lines(mark, text, lines):
    assert run_as(mark, "<step 3>", text, {"mark": mark, "real": sys._getframe}) == lines
    if "real" not in text:
        assert run_as(mark, "elsewhere.py", text) == [None] * len(lines)


def test_a_function_of_an_earlier_step(mark):
    """Steps of two answers have the same name; a line is one of the program that runs."""
    space = {"mark": mark}
    assert run_as(mark, "<step 1>", "\n\ndef show(x):\n    mark.value('a', x)\n", space) == []
    assert run_as(mark, "<step 1>", "y = 1\nshow(y)\n", space) == [2]
    assert run_as(mark, "<step 2>", "show(2)\n", space) == [1]
