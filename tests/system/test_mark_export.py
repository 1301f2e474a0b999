"""
Exports of Mark: what is in the files, that notebooks compute the same numbers elsewhere, and that nothing
hostile in a chat gets out of its place.
"""

import base64
import csv
import hashlib
import html.parser
import io
import json
import os
import re
import shutil
import subprocess
import sys
import urllib.parse
import zipfile

import nbformat
import pytest

from conftest import ROOT, need, wait_for
from mark_kit import SAMPLE, answer, person, run, scripted
from postgres_kit import postgres  # noqa: F401
from serve_kit import serve  # noqa: F401
from test_mark_sources import JOIN, add_source, ask, mark, model, shop  # noqa: F401

NOBODY = "00000000-0000-4000-8000-000000000000"

# Runs a notebook as somebody would who got the file: nothing of ours, no network, no files.
RUNNER = """
import sys, nbformat
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
class Manager(AsyncKernelManager):
    def __init__(self, **more):
        super().__init__(transport="ipc", **more)
notebook = nbformat.read(sys.argv[1], 4)
NotebookClient(notebook, timeout=300, kernel_manager_class=Manager).execute()
nbformat.write(notebook, sys.argv[2])
"""


def run_notebook(path, directory):
    """The notebook at @path with its outputs, run in @directory without a network."""
    home = directory / "home"
    home.mkdir()
    done = directory / "done.ipynb"
    alone = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--user", "--map-current-user", "--net"]
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "TMPDIR": str(home), "JUPYTER_ALLOW_INSECURE_WRITES": "1",
           "PYDEVD_DISABLE_FILE_VALIDATION": "1", "LC_ALL": "C.UTF-8"}
    result = subprocess.run([*alone, sys.executable, "-c", RUNNER, str(path), str(done)], cwd=directory, env=env,
                            capture_output=True, text=True, timeout=600)
    assert result.returncode == 0, result.stderr[-4000:]
    return nbformat.read(done, 4)


def printed(cell):
    return "".join(output.get("text", "") for output in cell.outputs)


def export(who, kind, id, format, **more):
    query = urllib.parse.urlencode({"format": format, **more})
    reply = who.ask("GET", f"/api/v1/{kind}/{id}/export?{query}")
    assert reply.status == 200, reply
    return reply


def ask_demo(who):
    """A chat of three answers, of which the later ones use variables of the first."""
    file = who.upload("orders.csv")
    first = who.ask_mark("Which region grew fastest?", files=[file])
    chat = first["chat_id"]
    return [first, who.ask_mark("Show revenue by month", chat), who.ask_mark("and by quarter?", chat)], file


def check_command(gb, data, chat, message, directory):
    """`glovebox mark export`, beside the running service."""

    def export_to(id, *options, code=0):
        result = gb("mark", "export", id, "--data", data, "--preload", "none", *options)
        assert result.code == code, result.err
        return result

    assert export_to(chat, "--format", "md").out.startswith("# Which region grew fastest?\n")
    assert json.loads(export_to(message, "--format", "json").out)["messages"][1]["message_id"] == message
    export_to(chat, "--out", directory / "chat.zip")
    assert "notebook.ipynb" in zipfile.ZipFile(directory / "chat.zip").namelist()
    export_to(chat, "--out", directory / "chat.html")
    assert b"Plotly.newPlot" in (directory / "chat.html").read_bytes()
    assert export_to(message, "--table", "1", "--format", "csv").out.startswith("region,2024,2025,growth\r\n")
    for options, code, why in [((NOBODY, "--format", "md"), 1, "no chat and no answer"), ((chat,), 2, "--format"),
                               ((chat, "--format", "pdf"), 2, "--format"), ((chat, "--table", "1", "--format", "md"), 2, "csv"),
                               ((chat, "--table", "1", "--format", "csv"), 2, "answer"),
                               ((chat, "--out", directory / "none/chat.md"), 125, "No such file")]:
        assert why in export_to(*options, code=code).err


def test_a_notebook_gives_the_same_numbers_elsewhere(gb, serve, tmp_path):
    server = serve("--model", "demo=demo", "--model", "none", preload="pandas")
    ann = person(server)
    answers, file = ask_demo(ann)
    chat = answers[0]["chat_id"]
    count = sum(len(a["values"]) for a in answers)
    tables = sum(len(a["data"]) for a in answers)
    assert count > 10 and tables > 0

    reply = export(ann, "chats", chat, "ipynb")
    assert reply.headers["Content-Type"] == "application/x-ipynb+json"
    assert reply.headers["Content-Disposition"].startswith('attachment; filename="Which region grew fastest_.ipynb"')
    notebook = nbformat.reads(reply.body.decode(), 4)
    nbformat.validate(notebook)
    assert (notebook.nbformat, notebook.nbformat_minor) == (4, 5)
    assert len({cell.id for cell in notebook.cells}) == len(notebook.cells)
    assert any("application/vnd.plotly.v1+json" in output.get("data", {})
               for cell in notebook.cells for output in cell.get("outputs", []))
    path = tmp_path / "chat.ipynb"
    path.write_bytes(reply.body)
    place = tmp_path / "elsewhere"
    place.mkdir()
    ran = run_notebook(path, place)
    assert printed(ran.cells[-1]) == f"{count} of {count} values equal, {tables} of {tables} tables equal\n", printed(ran.cells[-1])
    assert not list((place / "home").glob("mark-*"))

    # The last answer alone: with what it builds on; and the inputs beside it.
    archive = zipfile.ZipFile(io.BytesIO(export(ann, "messages", answers[2]["message_id"], "zip").body))
    place = tmp_path / "unpacked"
    archive.extractall(place)
    assert (place / "inputs/files/1").read_bytes() == SAMPLE
    ran = run_notebook(place / "notebook.ipynb", place)
    only = len(answers[2]["values"])
    assert printed(ran.cells[-1]).startswith(f"{only} of {only} values equal"), printed(ran.cells[-1])

    check_command(gb, server.data, chat, answers[0]["message_id"], tmp_path)

    # A value that is not the same is named.
    changed = reply.body.replace(b"_mark_notebook.summary()", b"print(0)").replace(
        b'"source": "_mark_notebook.check(', b'"source": "for n in _mark_notebook.values: _mark_notebook.values[n] = 1\\n_mark_notebook.check(', 1)
    assert changed.count(b"for n in _mark_notebook") == 1
    path.write_bytes(changed)
    place = tmp_path / "changed"
    place.mkdir()
    ran = run_notebook(path, place)
    told = "".join(printed(cell) for cell in ran.cells if cell.cell_type == "code")
    assert f"0 of {len(answers[0]['values'])} values equal" in told and " is 1 now" in told

    # Without the file there is no notebook, but there is everything to read.
    ann.good("DELETE", f"/api/v1/attachments/{file['attachment_id']}", status=204)
    for format in ("ipynb", "zip"):
        problem = ann.problem(409, "GET", f"/api/v1/chats/{chat}/export?format={format}")
        assert problem["type"].endswith(":inputs-gone") and "orders.csv" in problem["detail"]
    for format in ("html", "md", "json"):
        assert b"212,166" in export(ann, "chats", chat, format).body
    whole = export(ann, "chats", chat, "json").json
    assert whole["attachments"] == [{"attachment_id": file["attachment_id"], "deleted": True}]


# ---- tables with all rows ----------------------------------------------------------------------

TABLE = r"""
import datetime, decimal, mark, pandas as pd
zone = datetime.timezone(datetime.timedelta(hours=2))
count = 2500
frame = pd.DataFrame({
    "n": range(count),
    "whole": pd.array([None if i % 7 == 0 else 2**62 + i for i in range(count)], dtype="Int64"),
    "big": [10**25 + i for i in range(count)],
    "real": [i / 3 if i % 5 else float("nan") for i in range(count)],
    "money": [decimal.Decimal(i).scaleb(-2) if i % 11 else None for i in range(count)],
    "exact": [decimal.Decimal("12345678901234567890.123456789")] * count,
    "text": [('=1+1', '"a", b', 'line\none\r\ntwo', '', None, '\U0001f600 ünï', ' space ', '-5', "\x07bell")[i % 9] for i in range(count)],
    "day": [datetime.date(2024, 1, 1) + datetime.timedelta(days=i) for i in range(count)],
    "time": pd.date_range("1999-12-31 23:59:59", periods=count, freq="D"),
    "zoned": [datetime.datetime(2024, 1, 1, 12, tzinfo=zone)] * count,
    "yes": [True, False] * (count // 2),
    "nested": [[i, {"a": None, "b": "x"}] for i in range(count)],
    "bytes": [b"\x00\xff"] * count,
})
frame.columns = [*frame.columns[:-1], 'b"y,t\nes']
mark.table("Another", frame.head(3))
mark.table("All <of> it", frame)
mark.table("By n", frame.set_index(["n", "day"])[["real"]])
mark.table("Rows", [{"a": i} for i in range(1500)])
mark.value("count", count)
"""


def rows_of_table():
    """The frame as the program makes it, here."""
    handed = {}

    class Mark:
        @staticmethod
        def table(title, frame):
            handed[title] = frame

        @staticmethod
        def value(*args):
            pass

    before = sys.modules.get("mark")
    sys.modules["mark"] = Mark
    try:
        exec(TABLE, {})
    finally:
        del sys.modules["mark"]
        if before:
            sys.modules["mark"] = before
    return handed


def table(who, message, n, format, **more):
    query = urllib.parse.urlencode({"format": format, **more})
    reply = who.ask("GET", f"/api/v1/messages/{message}/tables/{n}?{query}")
    assert reply.status == 200, reply
    return reply


def as_text(x):
    """A cell as CSV has it; None if it is missing."""
    import datetime
    import pandas

    if isinstance(x, list):
        return json.dumps(x, ensure_ascii=False, separators=(",", ":"))
    if x is None or x is pandas.NA or x is pandas.NaT or isinstance(x, float) and x != x:
        return None
    if isinstance(x, bool):
        return str(x).lower()
    if isinstance(x, bytes):
        return base64.b64encode(x).decode()
    if isinstance(x, (datetime.date, datetime.time)):
        return x.isoformat()
    return x if isinstance(x, str) else repr(x) if isinstance(x, float) else str(x)


def read_csv(text):
    """Rows of texts, None for a field that is empty and not quoted (which the module csv cannot tell)."""
    field = re.compile(r'(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r\n)')
    rows, row, at = [], [], 0
    while at < len(text):
        found = field.match(text, at)
        assert found, text[at:at + 100]
        quoted, plain, end = found.groups()
        row.append(quoted.replace('""', '"') if quoted is not None else plain or None)
        at = found.end()
        if end == "\r\n":
            rows.append(row)
            row = []
    assert not row
    return rows


def test_tables_lose_nothing(serve, tmp_path):
    replies = [{"asked": "again", **run("import mark, random\nmark.table('R', [{'r': random.random()}] * 3)")},
               {"asked": "again", **answer("Done.")},
               {"asked": "long", **run("import mark\nmark.table('Long', [{'a': 'x' * 40000}])")},
               {"asked": "long", **answer("Done.")},
               {"asked": "all", **run(TABLE)}, {"asked": "all", **answer("{{count}} rows.")}]
    ann = person(serve(*scripted(tmp_path / "model", replies), "--model", "none", "--index-url", "none",
                       preload="pandas"))
    made = ann.ask_mark("all")
    message = made["message_id"]
    assert [t["row_count"] for t in made["data"]] == [3, 2500, 2500, 1500]
    assert len(made["data"][1]["rows"]) <= 1000
    frame = rows_of_table()["All <of> it"]
    want = [[as_text(x) for x in row] for row in zip(*(list(frame.iloc[:, n]) for n in range(frame.shape[1])))]

    reply = table(ann, message, 2, "csv")
    assert reply.headers["Content-Type"].startswith("text/csv")
    assert "filename=\"All _of_ it.csv\"" in reply.headers["Content-Disposition"]
    rows = read_csv(reply.body.decode())
    assert rows[0] == list(frame.columns) and len(rows) == 2501
    for got, row in zip(rows[1:], want):
        assert got == row
    assert [[x or None for x in row] for row in want[:20]] == [
        [x or None for x in row] for row in list(csv.reader(io.StringIO(reply.body.decode(), newline="")))[1:21]]

    whole = table(ann, message, 2, "json").json
    assert [c["name"] for c in whole["columns"]] == list(frame.columns) and whole["row_count"] == 2500
    assert len(whole["rows"]) == 2500
    assert whole["rows"][8][:4] == [8, 2**62 + 8, 10**25 + 8, 8 / 3] and whole["rows"][7][1] is None
    assert whole["rows"][8][4:6] == ["0.08", "12345678901234567890.123456789"]
    assert whole["rows"][9][11] == [9, {"a": None, "b": "x"}]

    # The index of a frame, and rows that are no frame.
    rows = read_csv(table(ann, message, 3, "csv").body.decode())
    assert rows[0] == ["n", "day", "real"] and rows[2] == ["1", "2024-01-02", repr(1 / 3)] and len(rows) == 2501
    assert table(ann, message, 4, "csv").body.decode().split("\r\n")[-2] == "1499"
    check_xlsx(table(ann, message, 2, "xlsx").body, frame)

    problem = ann.problem(422, "GET", f"/api/v1/messages/{message}/tables/2?format=parquet")
    assert "pyarrow" in problem["detail"], problem
    for n in ("0", "5", "x", "01", "99999999999999999999"):
        ann.problem(404, "GET", f"/api/v1/messages/{message}/tables/{n}?format=csv")
    ann.problem(422, "GET", f"/api/v1/messages/{message}/tables/1?format=exe")

    long = ann.ask_mark("long")["message_id"]
    problem = ann.problem(422, "GET", f"/api/v1/messages/{long}/tables/1?format=xlsx")
    assert "32,767" in problem["detail"]
    assert len(table(ann, long, 1, "csv").body) > 40000

    # Programs that give something else each time.
    again = ann.ask_mark("again")["message_id"]
    problem = ann.problem(409, "GET", f"/api/v1/messages/{again}/tables/1?format=csv")
    assert problem["type"].endswith(":export-differs") and "changed=true" in problem["detail"]
    reply = table(ann, again, 1, "csv", changed="true")
    assert reply.headers["Glovebox-Differs"] == "true" and len(reply.body.split(b"\r\n")) == 5


READ_PARQUET = """
import json, sys, duckdb
found = duckdb.sql("SELECT COLUMNS(*)::VARCHAR FROM read_parquet('%s')" % sys.argv[1])
json.dump([found.columns, [[None if x is None else str(x) for x in row] for row in found.fetchall()]], sys.stdout)
"""


def test_parquet_is_whole(serve, tmp_path):
    """pyarrow comes from the package index into the export's own box; DuckDB, another reader, reads the file."""
    script = os.path.join(ROOT, "tools", "model_kit.sh")
    where = os.environ.get("GB_MODEL_KIT") or subprocess.run(
        [script, "--where"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    done = subprocess.run([script, where], capture_output=True, text=True)
    need(done.returncode == 0, f"tools/model_kit.sh failed: {done.stderr[-300:]}")
    ann = person(serve(*scripted(tmp_path / "model", [run(TABLE), answer("{{count}} rows.")]), "--model", "none",
                       preload="pandas"))
    message = ann.ask_mark("all")["message_id"]
    path = tmp_path / "t.parquet"
    path.write_bytes(table(ann, message, 2, "parquet").body)
    names, rows = json.loads(subprocess.run([os.path.join(where, "venv/bin/python"), "-c", READ_PARQUET, str(path)],
                                            stdout=subprocess.PIPE, check=True, text=True).stdout)
    frame = rows_of_table()["All <of> it"]
    assert names == list(frame.columns) and len(rows) == 2500
    for n in range(frame.shape[1]):
        want = [as_text(x) is None for x in frame.iloc[:, n]]
        assert [row[n] is None for row in rows] == want, names[n]
    for n in (0, 1):  # whole numbers, of which every digit counts
        assert [row[n] for row in rows] == [as_text(x) for x in frame.iloc[:, n]]


def check_xlsx(body, frame):
    import datetime
    import openpyxl

    sheet = openpyxl.load_workbook(io.BytesIO(body)).active
    assert sheet.title == "All <of> it" and sheet.max_row == 2501
    rows = list(sheet.iter_rows(values_only=True))
    assert list(rows[0]) == list(frame.columns)
    formulas = [cell.data_type for row in sheet.iter_rows() for cell in row if cell.data_type == "f"]
    assert formulas == []
    for n in range(2500):
        got = dict(zip(frame.columns, rows[n + 1]))
        assert got["n"] == n and got["whole"] == (None if n % 7 == 0 else str(2**62 + n))
        assert got["big"] == str(10**25 + n) and got["exact"] == "12345678901234567890.123456789"
        assert got["real"] is None if n % 5 == 0 else abs(got["real"] - n / 3) <= 1e-15 * n
        assert got["money"] == (None if n % 11 == 0 else n / 100)
        text = frame["text"][n]
        assert (got["text"] or None) == (text.replace("\x07", "_x0007_") if text else None), n
        assert got["day"] == datetime.datetime(2024, 1, 1) + datetime.timedelta(days=n)
        assert got["time"] == datetime.datetime(1999, 12, 31, 23, 59, 59) + datetime.timedelta(days=n)
        assert got["zoned"] == "2024-01-01T12:00:00+02:00" and got["yes"] is (n % 2 == 0)


# ---- hostile content ---------------------------------------------------------------------------

EVIL = '<script>alert(1)</script><img src=x onerror=alert(2)>"\'`|</td></script><!--\u2028]]>'
STORY = f"""# Heading {EVIL}

{EVIL} **5,000,000**

**5,000,000** and {{{{total}}}} and `{{{{total}}}}`.

<div onclick="alert(3)">raw</div>

[good](https://example.com/2024) [bad](javascript:alert(4)) [worse](data:text/html;base64,PHNjcmlwdD4=)
![picture](https://tracker.example/1.png) [mail](mailto:a@example.com) <javascript:alert(5)>

| a | b |
|---|---|
| {{{{total}}}} | x\\|y |

```html
</code></pre><script>alert(6)</script>
```

````
never closed
"""
HOSTILE = f"""
import mark, pandas as pd
evil = {EVIL!r}
frame = pd.read_csv("/workspace/data/" + mark.attachments()[0])
same = pd.read_csv("data/" + mark.attachments()[0])
also = pd.read_csv(mark.attachment(mark.attachments()[0]))
assert len(frame) == len(same) == len(also)
print("```\\n<script>alert(7)</script>\\n`````")
mark.value("total", len(frame) * 100 + 7)
mark.value("evil", evil)
mark.table(evil, pd.DataFrame({{evil: [evil, None], "n\\nl": [1, 2]}}))
mark.chart({{"data": [{{"type": "bar", "name": evil, "x": [evil, '<a href="javascript:alert(8)">b</a>'], "y": [1, 2]}}],
            "layout": {{"title": {{"text": evil}}, "images": [{{"source": "https://tracker.example/2.png"}}]}}}})
"""


class Page(html.parser.HTMLParser):
    """What a browser would load or run of a page."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.scripts, self.links, self.tags, self.texts, self.policy, self.stack = [], [], set(), [], None, []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.tags.add(tag)
        self.stack.append(tag)
        assert not [name for name in attributes if name.startswith("on")], attributes
        assert not {"src", "srcset", "action", "srcdoc", "style"} & set(attributes), attributes
        if "href" in attributes:
            assert tag == "a"
            self.links.append(attributes["href"])
        if tag == "script":
            self.scripts.append([attributes.get("type"), ""])
        if attributes.get("http-equiv") == "Content-Security-Policy":
            self.policy = attributes["content"]

    def handle_endtag(self, tag):
        if tag in self.stack:
            while self.stack.pop() != tag:
                pass

    def handle_data(self, data):
        if self.stack and self.stack[-1] == "script":
            self.scripts[-1][1] += data
        else:
            self.texts.append(data)


def check_page(body, charts):
    page = Page(body.decode())
    assert page.tags <= {"html", "head", "meta", "title", "style", "body", "header", "h1", "h2", "h3", "h4", "p", "main", "article",
                         "div", "figure", "figcaption", "details", "summary", "table", "caption", "thead", "tbody", "tr", "th",
                         "td", "footer", "script", "pre", "code", "a", "strong", "mark", "sup", "em"}, page.tags
    assert page.links == ["https://example.com/2024", "https://tracker.example/1.png", "mailto:a@example.com"]
    allowed = re.findall(r"'sha256-([^']+)'", page.policy)
    assert page.policy.startswith("default-src 'none';") and "unsafe-eval" not in page.policy
    assert "unsafe-inline" not in page.policy.replace("style-src 'unsafe-inline'", "")
    for kind, text in page.scripts:
        if kind == "application/json":
            assert "<" not in text and "&" not in text and "\u2028" not in text
            assert json.loads(text)[0]["data"][0]["name"] == EVIL
        else:
            digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
            assert kind is None and digest in allowed
    assert len(page.scripts) == (3 if charts else 1)
    shown = "".join(page.texts)
    assert EVIL.replace("\u2028", "") in shown.replace("\u2028", "") and "never closed" in shown
    return page


# Runs our script of a page without a browser: what it hands to Plotly.
DRAW = """
const [script, charts, places] = JSON.parse(require("fs").readFileSync(0, "utf8"));
const drawn = [];
globalThis.document = {
  getElementById: (id) => (id === "charts" ? { textContent: charts } : null),
  querySelectorAll: (what) => (what === "[data-chart]" ? places.map((n) => ({ dataset: { chart: n } })) : []),
};
globalThis.addEventListener = () => {};
globalThis.Plotly = { newPlot: (place, what) => { drawn.push([place.dataset.chart, what]); return Promise.resolve(); } };
(0, eval)(script);
console.log(JSON.stringify(drawn));
"""


def check_drawn(page, body, figures):
    """Charts are live: every figure of the answer is drawn, from the page alone."""
    need(shutil.which("node"), "there is no node here (Debian: nodejs)")
    charts = [text for kind, text in page.scripts if kind == "application/json"]
    ours = [text for kind, text in page.scripts if kind is None and "Plotly.newPlot" in text and len(text) < 10000]
    places = re.findall(r'data-chart="(\d+)"', body.decode())
    assert len(charts) == len(ours) == 1 and len(places) == len(figures)
    done = subprocess.run(["node", "-e", DRAW], input=json.dumps([ours[0], charts[0], places]), capture_output=True,
                          text=True, check=True)
    drawn = json.loads(done.stdout)
    assert [n for n, _ in drawn] == places
    for (_, what), figure in zip(drawn, figures):
        assert what["data"] == figure["data"] and what["layout"]["title"] == figure["layout"]["title"]
        assert what["config"]["plotlyServerURL"] == ""  # no button that sends it away


def test_hostile_content_stays_in_its_place(serve, tmp_path):
    replies = [run(HOSTILE), answer(STORY), answer(STORY), answer("A picture.")]
    server = serve(*scripted(tmp_path / "model", replies), "--model", "none", preload="pandas,plotly")
    ann = person(server)
    file = ann.upload('=a "b" <c>\u202e.csv', b"x,y\n1,2\n3,4\n")
    made = ann.ask_mark(f"# {EVIL}\n```\n1. list\n> quote", files=[file])
    chat, message = made["chat_id"], made["message_id"]
    assert "5,000,000" in made["numbers"]["unsupported"]

    reply = export(ann, "messages", message, "html")
    assert reply.headers["Content-Security-Policy"] == "sandbox; default-src 'none'"
    page = check_page(reply.body, charts=True)
    check_drawn(page, reply.body, made["visualizations"])
    text = reply.body.decode()
    assert re.search(r'<mark class="unsupported"[^>]*>5,000,000<sup>', text)
    assert re.search(r'<mark class="checked"[^>]*title="computed: total, in step 1"[^>]*>207</mark>', text)
    assert not re.search("[\ue000-\ue01f]", text.partition("<script>")[0])
    assert "<code>207</code>" in text and re.search('<td><mark class="checked"[^>]*>207</mark></td>', text)
    assert re.search('<strong><mark class="unsupported"', text)
    assert list(server.data.glob("mark/plotly-*.js"))

    disposition = reply.headers["Content-Disposition"]
    assert re.fullmatch(r"""attachment; filename="[^"\\]*"; filename\*=UTF-8''[A-Za-z0-9._~%-]+""", disposition)
    assert "<" not in disposition and "script" in disposition and "%E2%80%A8" not in disposition

    markdown = export(ann, "chats", chat, "md").body.decode()
    outside = re.sub(r"(?ms)^(`{3,})[^\n`]*\n.*?^\1$", "", markdown)  # without code
    outside = re.sub(r"(?m)^    .*$", "", outside)
    assert "<script" not in outside.replace("\\<script", "") and "\n# Heading" not in outside
    assert "(javascript:" not in outside and "<javascript" not in outside and "![" not in outside and outside.count("\n## ") == 1
    assert outside.rstrip().endswith("Z.")  # nothing was swallowed by the fence that was never closed

    whole = export(ann, "chats", chat, "json").json
    assert whole["format"] == "glovebox-mark-export" and whole["version"] == 1
    assert [m["role"] for m in whole["messages"]] == ["user", "assistant"]
    assert whole["messages"][1]["response"] == ann.good("GET", f"/api/v1/messages/{message}")["response"]
    assert whole["messages"][1]["inputs"]["cells"] == [HOSTILE]
    assert whole["attachments"][0]["sha256"] == file["sha256"]

    path = tmp_path / "hostile.ipynb"
    path.write_bytes(export(ann, "chats", chat, "ipynb").body)
    nbformat.validate(nbformat.read(path, 4))
    place = tmp_path / "elsewhere"
    place.mkdir()
    ran = run_notebook(path, place)
    assert printed(ran.cells[-1]) == "2 of 2 values equal, 1 of 1 tables equal\n"

    # Inputs that are too large for a notebook.
    large = ann.upload("large.png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(33 << 20), "image/png")
    other = ann.ask_mark("and this?", files=[large])["chat_id"]
    problem = ann.problem(413, "GET", f"/api/v1/chats/{other}/export?format=ipynb")
    assert problem["type"].endswith(":export-too-large") and "format=zip" in problem["detail"]
    archive = zipfile.ZipFile(io.BytesIO(export(ann, "chats", other, "zip").body))
    assert archive.testzip() is None and archive.getinfo("inputs/files/1").file_size == large["size"]
    check_refusals(ann, person(server, "bob@example.com"), chat, message)


def check_refusals(ann, bob, chat, message):
    for format in ("ipynb", "html", "md", "json", "zip"):
        for id in (chat, NOBODY, "x"):
            bob.problem(404, "GET", f"/api/v1/chats/{id}/export?format={format}")
        bob.problem(404, "GET", f"/api/v1/messages/{message}/export?format={format}")
    bob.problem(404, "GET", f"/api/v1/messages/{message}/tables/1?format=csv")
    for query in ("", "?format=", "?format=pdf", "?format=md&format=html", "?format=md&more=1", "?format=MD"):
        ann.problem(422, "GET", f"/api/v1/chats/{chat}/export{query}")
    question = ann.messages(chat)[0]["message_id"]
    for path in (f"messages/{question}/export?format=md", f"messages/{question}/tables/1?format=csv"):
        assert ann.problem(409, "GET", f"/api/v1/{path}")["type"].endswith(":not-an-answer")
    ann.key = "nobody"
    ann.problem(401, "GET", f"/api/v1/chats/{chat}/export?format=md")


# ---- recorded queries --------------------------------------------------------------------------


def test_queries_are_replayed(mark, postgres, shop, tmp_path):
    """A notebook and a whole table need the source no more: it is gone."""
    ann = person(mark())
    add_source(ann, postgres, shop)
    code = JOIN + """
try:
    mark.query("shop", "SELECT * FROM nothing_there")
except mark.QueryError as error:
    mark.value("word", error.word)
whole = mark.query("shop", "SELECT * FROM orders WHERE id > $1 ORDER BY id", [0])
mark.value("sum", whole.amount.sum())
mark.table("Orders", mark.query("shop", "SELECT n AS i, 'a' || n AS t FROM generate_series(1, 1200) n"))
"""
    made = ask(ann, "import mark\n" + code, story="Nora sold for {{nora}}.")
    message = made["message_id"]
    for source in ann.good("GET", "/api/v1/sources")["sources"]:
        ann.good("DELETE", f"/api/v1/sources/{source['source_id']}", status=204)

    path = tmp_path / "queries.ipynb"
    path.write_bytes(export(ann, "messages", message, "ipynb").body)
    place = tmp_path / "elsewhere"
    place.mkdir()
    ran = run_notebook(path, place)
    count = len(made["values"])
    assert count == 3 and printed(ran.cells[-1]) == f"{count} of {count} values equal, 2 of 2 tables equal\n"
    rows = table(ann, message, 2, "csv").body.decode().split("\r\n")
    assert rows[0] == "i,t" and rows[1200] == "1200,a1200" and len(rows) == 1202
    page = export(ann, "messages", message, "html").body.decode()
    assert "Query of shop" in page and "JOIN regions r USING (region)" in page


def test_files_that_nobody_fetches(serve, tmp_path):
    """An export is a file until its reader has it all, which can take as long as the reader likes. So one owner
    has four of them, and others are not kept waiting."""
    replies = [run("mark.value('n', 1)"), answer("{{n}}.")]
    server = serve(*scripted(tmp_path / "model", replies * 2), "--model", "none")
    ann, bob = person(server), person(server, "bob@example.com")
    lines = "\n".join(os.urandom(30).hex() for _ in range(400000))
    chats = {who: who.ask_mark("How many?", files=[who.upload("big.csv", f"a\n{lines}\n".encode())])["chat_id"]
             for who in (ann, bob)}

    def begin(who):
        """Asks for the file and reads the head of the reply only."""
        connection = who.connect()
        connection.request("GET", f"/api/v1/chats/{chats[who]}/export?format=zip", headers=who.headers({}))
        return connection, connection.getresponse()

    begun = [begin(ann) for _ in range(4)]
    assert [reply.status for _, reply in begun] == [200] * 4
    assert ann.problem(503, "GET", f"/api/v1/chats/{chats[ann]}/export?format=md")["type"].endswith(":busy")
    connection, reply = begin(bob)
    assert reply.status == 200
    connection.close()
    for connection, _ in begun:
        connection.close()
    wait_for(lambda: ann.ask("GET", f"/api/v1/chats/{chats[ann]}/export?format=md").status == 200)
