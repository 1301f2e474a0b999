"""The demo model's conversation: its programs run, and its stories say only what they computed."""

import contextlib
import pathlib
import re
import sqlite3
import subprocess
import sys
import types

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TEXTS = ROOT / "src/mark/llm/demo"
EXAMPLES = ROOT / "examples"
SAMPLE = EXAMPLES / "sales.csv"
JOINS = ("supplier", "targets")
TOPICS = sorted(p.stem for p in TEXTS.glob("*.py")
                if not re.fullmatch(r"other|.*load|.*_query|.*_files|" + "|".join(JOINS), p.stem))
QUERY = {"@SOURCE@": "'shop'", "@ORDERS@": "shop.orders", "@PRODUCTS@": "shop.products", "@REGIONS@": "shop.regions"}
FILES = {"@PRODUCTS@": "'products.csv'", "@REGIONS@": "'regions.csv'"}
FILL = {"@FILE@": "'sales.csv'", "@CHOSEN@": "sales", "@SCOPE@": "'all regions'", "@MEASURE@": "revenue"}

pandas = pytest.importorskip("pandas")


def program(name, chart, places=None):
    """The text of a program as the demo sends it, with one of its two ways to draw."""
    text = (TEXTS / f"{name}.py").read_text(encoding="utf-8")
    common, *ways = re.split(r"^# ---- (?:plotly|matplotlib)\n", text, flags=re.M)
    assert len(ways) == (0 if re.search("load|_query|_files", name) else 2), name
    way = ways[("plotly", "matplotlib").index(chart)] if ways else ""
    imports, _, drawing = way.partition("\n\n") if way.startswith("import ") else ("", "", way)
    text = imports + "\n" + common + drawing
    for mark, value in {**FILL, **(places or {})}.items():
        text = text.replace(mark, value)
    assert "@" not in text
    return text


class Recorder(types.ModuleType):
    """Stands in for the module `mark` of a box."""

    def __init__(self, files):
        super().__init__("mark")
        self.files, self.values, self.tables, self.charts = files, {}, [], []

    def query(self, source, sql, params=None):
        """SQLite in place of PostgreSQL: what the demo asks is the same in both."""
        assert source == "shop"
        with contextlib.closing(sqlite3.connect(":memory:")) as db:
            db.execute("ATTACH ':memory:' AS shop")
            for table, file in (("orders", "sales"), ("products", "products"), ("regions", "regions")):
                pandas.read_csv(EXAMPLES / f"{file}.csv").drop_duplicates().to_sql(table, db, index=False)
                db.execute(f"CREATE TABLE shop.{table} AS SELECT * FROM main.{table}")
                db.execute(f"DROP TABLE main.{table}")
            return pandas.read_sql_query(sql, db)

    def attachment(self, name):
        return str(self.files[name])

    def value(self, name, x, unit=None, format=None):
        assert x == x, name  # not NaN
        self.values[name] = x
        if format:
            f"{x:{format}}"

    def table(self, title, frame):
        assert len(frame) > 0, title
        assert all(isinstance(name, str) for name in frame.columns), title
        self.tables.append(title)

    def chart(self, figure):
        self.charts.append(figure)


def run(monkeypatch, files, *programs):
    mark = Recorder(files)
    monkeypatch.setitem(sys.modules, "mark", mark)
    monkeypatch.setenv("MPLBACKEND", "agg")
    space = {}
    for text in programs:
        exec(compile(text, "<demo>", "exec"), space)
    return mark


def references(name):
    story = (TEXTS / f"{name}.md").read_text(encoding="utf-8")
    assert not re.search(r"\d", re.sub(r"\{\{.*?\}\}", "", story)), "a number that nobody computed"
    return re.findall(r"\{\{(.*?)\}\}", story)


@pytest.mark.parametrize("chart", ["plotly", "matplotlib"])
@pytest.mark.parametrize("topic", TOPICS)
def test_topic(monkeypatch, topic, chart):
    pytest.importorskip(chart)
    mark = run(monkeypatch, {"sales.csv": SAMPLE}, program("load", chart), program(topic, chart))
    assert set(references(topic)) <= set(mark.values)
    assert mark.tables and len(mark.charts) == 1


@pytest.mark.parametrize("topic", [t for t in TOPICS if t != "overview"])
def test_topic_of_a_source(monkeypatch, topic):
    """The same from the tables of a database as from the file."""
    load = program("source_load", "matplotlib", QUERY)
    asked = run(monkeypatch, {}, load, program(topic, "matplotlib"))
    read = run(monkeypatch, {"sales.csv": SAMPLE}, program("load", "matplotlib"), program(topic, "matplotlib"))
    assert asked.values == pytest.approx(read.values)


@pytest.mark.parametrize("topic", JOINS)
def test_joins(monkeypatch, topic):
    """Two ways to the same numbers: a query, and the files."""
    common = program(topic, "matplotlib")
    asked = run(monkeypatch, {}, "import mark\n" + program(topic + "_query", "matplotlib", QUERY) + common)
    files = {f"{name}.csv": EXAMPLES / f"{name}.csv" for name in ("sales", "products", "regions")}
    read = run(monkeypatch, files, program("load", "matplotlib"),
               "import mark\n" + program(topic + "_files", "matplotlib", FILES) + common)
    assert set(references(topic)) <= set(asked.values)
    assert asked.values == pytest.approx(read.values)
    assert asked.tables == read.tables and len(asked.charts) == 1


@pytest.mark.parametrize("text", [
    "a,b\n1,x\n2,y\n2,y\n",
    "name;city\nAnn;Oslo\nBo;\n",
    "x\n1\n",
], ids=["comma", "semicolon", "one-column"])
def test_other_file(monkeypatch, tmp_path, text):
    file = tmp_path / "other.csv"
    file.write_text(text, encoding="utf-8")
    mark = run(monkeypatch, {"sales.csv": file}, program("other", "matplotlib"))
    assert set(references("other")) <= set(mark.values)


def test_help_has_no_numbers():
    assert references("help") == []


def test_sample_is_what_its_program_makes():
    made = subprocess.run([sys.executable, ROOT / "tools/make_sales.py"], stdout=subprocess.PIPE, check=True)
    assert made.stdout == SAMPLE.read_bytes()
