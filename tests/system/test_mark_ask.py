"""
`glovebox ask`: Mark on the command line. Models are scripted; what they and the data say is hostile
in several of these tests, and may not reach the terminal as anything but text.
"""

import json
import os
import pty
import re
import signal
import subprocess

import pytest

from conftest import BINARY, wait_for
from mark_kit import SAMPLE, answer, run, scripted

FAST = ["--preload", "none"]
SUM = [
    run("import mark\nprint('adding up')\ntotal = sum(range(200))\nmark.value('total', total)\n"
        "mark.table('Squares', [{'n': n, 'square': n * n} for n in range(30)])"),
    answer("# Result\n\nThe sum is **{{total}}**."),
]
CHART = [
    run("import mark\nfrom IPython.display import display\n"
        "display({'application/vnd.plotly.v1+json': {'data': [{'type': 'bar', 'x': [1], 'y': [2]}],"
        " 'layout': {}}, 'text/plain': 'Figure'}, raw=True)\n"
        "open('report.txt', 'w').write('written in the box')\n"
        "mark.table('Cities', [{'city': 'Oslo, N', 'visits': 3}])"),
    answer("Here it is."),
]


@pytest.fixture
def ask(gb, tmp_path):
    """Asks a model that replies as written down; nothing may be left in the data directory."""
    data = tmp_path / "data"

    def start(question, replies, *options, name="script", **more):
        model = scripted(tmp_path / "model.json", replies, name) if replies is not None else []
        return gb("ask", question, "--data", data, *FAST, *model, *options, **more)

    yield start
    left = [p for p in (data / "ask").iterdir()] if (data / "ask").exists() else []
    assert left == []


def answer_of(result):
    assert result.code == 0, result.err
    return json.loads(result.out)


# ---- answers -----------------------------------------------------------------------------------


def test_an_answer(ask):
    r = ask("add up", SUM)
    assert r.code == 0, r.err
    story, _, table = r.out.partition("\n\nSquares\n")
    assert story == "# Result\n\nThe sum is **19,900**."
    lines = table.splitlines()
    assert lines[0].split() == ["n", "square"] and lines[3].split() == ["2", "4"]
    assert len(lines) == 22 and lines[-1] == "  … 10 more rows"
    assert re.search(r"^glovebox: script, 1 step, \d+\.\d s", r.err, re.M), r.err
    assert "adding up" not in r.err  # steps are for a terminal


def test_json(ask):
    reply = answer_of(ask("add up", SUM, "--json", "--quiet"))
    assert reply["status"] == "ok" and reply["answer_story"].endswith("The sum is **19,900**.")
    assert reply["values"][0]["value"] == 19900 and reply["model"] == "script"
    assert reply["data"][0]["row_count"] == 30 and "demo" not in reply or not reply["demo"]


def test_quiet(ask):
    r = ask("add up", SUM, "-q")
    assert r.code == 0 and r.err == ""


def test_files_are_there(ask, tmp_path):
    (tmp_path / "sales.csv").write_bytes(SAMPLE)
    (tmp_path / "other.csv").write_text("city,visits\nOslo,3\n")
    read = [run("import mark\nlines = open(mark.attachment('sales.csv')).read().splitlines()\n"
                "mark.value('rows', len(lines) - 1)\n"
                "mark.value('other', open('/workspace/data/other.csv').read().count('Oslo'))"),
            answer("There are {{rows}} rows and {{other}} city.")]
    r = ask("how many?", read, "--file", tmp_path / "sales.csv", "--file", tmp_path / "other.csv",
            "--json")
    values = {v["name"]: v["value"] for v in answer_of(r)["values"]}
    assert values == {"rows": SAMPLE.count(b"\n") - 1, "other": 1}


def test_the_question_from_standard_input(ask):
    replies = [{"asked": "from a pipe", **answer("Got it.")}, {"text": "What?"}]
    r = ask("-", replies, stdin="a question from a pipe\n")
    assert r.code == 0 and r.out == "Got it.\n"


def test_saved(ask, tmp_path):
    out = tmp_path / "out"
    r = ask("draw", CHART, "--out", out, "--chart", tmp_path / "chart.json")
    assert r.code == 0, r.err
    assert (out / "story.md").read_text() == "Here it is."
    assert json.loads((out / "answer.ipynb").read_text())["nbformat"] == 4
    assert "Here it is." in (out / "answer.html").read_text()
    assert (out / "table-1.csv").read_bytes() == b'city,visits\r\n"Oslo, N",3\r\n'
    assert (out / "report.txt").read_text() == "written in the box"
    assert json.loads((out / "answer.json").read_text())["status"] == "ok"
    spec = json.loads((out / "chart-1.json").read_text())
    assert spec["data"][0]["type"] == "bar"
    assert json.loads((tmp_path / "chart.json").read_text()) == spec


def test_a_page_loads_nothing(ask, tmp_path):
    """Drawn in the box, if that has Plotly; either way it is said what became of it."""
    page = tmp_path / "chart.html"
    r = ask("draw", CHART, "--chart", page)
    if subprocess.run(["/usr/bin/python3", "-c", "import plotly"], capture_output=True).returncode:
        assert r.code == 125 and ".json saves Plotly's specification" in r.err and not page.exists()
        return
    assert r.code == 0, r.err
    assert page.read_text().startswith("<!doctype html>\n<meta http-equiv=\"Content-Security-Policy\" "
                                       "content=\"default-src 'none'; ")


def test_nothing_is_saved_unasked(ask, tmp_path):
    before = sorted(os.listdir(tmp_path))
    r = ask("draw", CHART)
    assert r.code == 0 and "1 chart: --chart FILE or --out DIR saves it" in r.err
    assert sorted(set(os.listdir(tmp_path)) - {"data", "model.json"}) == before


def test_names_of_files_stay_in_the_directory(ask, tmp_path):
    """Links in the caller's directory are not followed, and hidden names not written."""
    out = tmp_path / "out"
    out.mkdir()
    (tmp_path / "precious").write_text("precious")
    (out / "report.txt").symlink_to(tmp_path / "precious")
    write = [run("for name in ('report.txt', '.bashrc', 'fine.txt'):\n"
                 "    open(name, 'w').write('from the box')"), answer("Done.")]
    r = ask("write", write, "--out", out)
    assert r.code == 125 and "report.txt" in r.err
    assert (tmp_path / "precious").read_text() == "precious"
    assert not (out / ".bashrc").exists()
    assert (out / "fine.txt").read_text() == "from the box"


def test_trace(ask):
    r = ask("add up", SUM, "--trace", "-q")
    trace = json.loads(r.err)
    assert "add up" in json.dumps(trace) and trace["steps"]


# ---- how it ends -------------------------------------------------------------------------------


def test_a_number_that_nobody_computed(ask):
    lie = [run("print(1)"), answer("It is 98765."), answer("It is 98765.")]
    r = ask("lie", lie)
    assert r.code == 0 and "98765[?]" in r.out and "[?] were not computed" in r.err
    r = ask("lie", lie, "--mark-strict")
    assert r.code == 5 and "98765" not in r.out, r.out


def test_a_model_that_fails(ask):
    r = ask("x", [{"error": {"failure": "denied", "status": 401, "message": "bad key"}}])
    assert r.code == 1 and r.out


def test_mark_needs_to_know_more(ask):
    r = ask("which?", [{"calls": [{"name": "ask_user", "arguments": {"question": "Which year?"}}]}])
    assert r.code == 3 and "Which year?" in r.out


def test_no_model(ask):
    r = ask("x", None, "--model", "none")
    assert r.code == 4 and "OPENAI_API_KEY" in r.err and r.out == ""


def test_the_demo_says_what_it_is(ask):
    r = ask("Write me a poem", None, "--model", "demo=demo")
    assert "demo" in r.err and "OPENAI_API_KEY" in r.err


def test_one_of_several_models(ask, tmp_path):
    other = tmp_path / "other.json"
    other.write_text(json.dumps([{"text": "From the other."}]))
    both = ["--model", f"other=script:{other}"]
    assert ask("x", [{"text": "From the first."}], *both).out == "From the first.\n"
    assert ask("x", [{"text": "No."}], *both, "--model", "other").out == "From the other.\n"
    r = ask("x", [{"text": "No."}], *both, "--model", "third")
    assert r.code == 2 and "third" in r.err and "other" in r.err


@pytest.mark.parametrize("options, mention", [
    (["--file", "/nonexistent/x.csv"], "x.csv"),
    (["--file", "/"], "not a regular file"),
    (["--chart", "/nonexistent/c.png"], "c.png"),
    (["--out", "/nonexistent/a/b"], "nonexistent"),
    (["--model", "x=gemini:y@z"], "--model"),
    (["--mark-steps", "0"], "--mark-steps"),
    (["--mark-gate", "/nonexistent/gate.json"], "gate.json"),
])
def test_bad_options(ask, options, mention):
    r = ask("x", SUM, *options)
    assert r.code == 2 and mention in r.err and r.out == "", r.err


@pytest.mark.parametrize("question, stdin, mention", [
    ("", "", "empty"), ("-", "", "empty"), ("-", b"\xff\xfe", "UTF-8"), ("-", b"a\0b", "UTF-8"),
    ("-", b"x" * 70000, "longer than"),
])
def test_bad_questions(ask, question, stdin, mention):
    r = ask(question, SUM, stdin=stdin)
    assert r.code == 2 and mention in r.err


# ---- terminals ---------------------------------------------------------------------------------


class Terminal:
    """The command on a terminal of its own."""

    def __init__(self, gb, *args):
        self.ours, theirs = pty.openpty()
        self.process = gb.start(*args, stdin=theirs, stdout=theirs, stderr=theirs,
                                env={"TERM": "xterm"})
        os.close(theirs)
        self.seen = b""

    def read(self):
        """Whatever comes; False at the end."""
        try:
            piece = os.read(self.ours, 65536)
        except OSError:
            piece = b""
        self.seen += piece
        return bool(piece)

    def until(self, text):
        while text not in self.seen:
            assert self.read(), self.seen

    def end(self):
        while self.read():
            pass
        os.close(self.ours)
        return self.process.wait(120)


def test_steps_on_a_terminal(gb, ask, tmp_path):
    options = scripted(tmp_path / "model.json", SUM)
    t = Terminal(gb, "ask", "add up", "--data", tmp_path / "data", *FAST, *options)
    assert t.end() == 0
    seen = t.seen.decode()
    plain = re.sub(r"\x1b\[\d*[mK]", "", seen)  # the code comes in pieces, each with its colour
    assert "step 1" in plain and "total = sum(range(200))" in plain and "adding up" in plain
    assert "\x1b[1mResult\x1b[0m" in seen and "The sum is \x1b[1m19,900\x1b[0m." in seen


def test_no_escape_sequence_reaches_the_terminal(gb, ask, tmp_path):
    evil = "\x1b]0;title\x07\x1b[2J\x1b]52;c;eA==\x07\x9b31m\u202egnp.exe"
    replies = [run("import mark\nprint(" + repr(evil) + ")\nraise ValueError(" + repr(evil) + ")"),
               run("mark.table(" + repr(evil) + ", [{" + repr(evil) + ": " + repr(evil) + "}])"),
               answer("Story " + evil)]
    options = scripted(tmp_path / "model.json", replies)
    for more in ([], ["--json"]):
        t = Terminal(gb, "ask", evil, "--data", tmp_path / "data", *FAST, *options, *more)
        assert t.end() == 0, t.seen
        own = re.sub(rb"\x1b\[(\d*m|K)", b"", t.seen)  # our own: colours, and clearing the line
        for bad in (b"\x1b", b"\x07", b"\xc2\x9b", "\u202e".encode()):
            assert bad not in own, own


def test_a_reply_on_the_terminal(gb, ask, tmp_path):
    replies = [{"asked": "which", "calls": [{"name": "ask_user",
                                             "arguments": {"question": "Which year?"}}]},
               {"asked": "2025", **answer("In that year.")}, {"text": "What?"}]
    options = scripted(tmp_path / "model.json", replies)
    t = Terminal(gb, "ask", "which", "--data", tmp_path / "data", *FAST, *options)
    t.until(b"Which year?\r\n> ")
    os.write(t.ours, b"2025\n")
    assert t.end() == 0, t.seen
    assert b"In that year." in t.seen


@pytest.mark.parametrize("sig", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_stops_the_answer(gb, ask, tmp_path, sig):
    slow = [run("print('first part', flush=True)\nimport time\ntime.sleep(600)"), answer("No.")]
    options = scripted(tmp_path / "model.json", slow)
    t = Terminal(gb, "ask", "wait", "--data", tmp_path / "data", *FAST, *options)
    t.until(b"first part\x1b[0m\r\n")
    t.process.send_signal(sig)
    assert t.end() == 1, t.seen


def test_killed_leaves_nothing_for_long(gb, ask, tmp_path):
    slow = [run("print('first part', flush=True)\nimport time\ntime.sleep(600)"), answer("No.")]
    options = scripted(tmp_path / "model.json", slow)
    data = tmp_path / "data"
    t = Terminal(gb, "ask", "wait", "--data", data, *FAST, *options)
    t.until(b"first part\x1b[0m\r\n")
    t.process.kill()
    t.end()
    wait_for(lambda: list((data / "ask").iterdir()), 10, "what was left")
    assert ask("add up", SUM).code == 0  # and the fixture looks whether all is gone


def test_help_and_manual():
    text = subprocess.run([BINARY, "ask", "--help"], capture_output=True, text=True, timeout=60).stdout
    for word in ("--file", "--model", "--json", "--out", "--chart", "--quiet", "--trace",
                 "--mark-strict", "QUESTION|-"):
        assert word in text


# ---- the policy gate ---------------------------------------------------------------------------


def test_the_gate(ask, tmp_path):
    """What the operator denies is not run, the model is told, and may write something else."""
    gate = tmp_path / "gate.json"
    gate.write_text('{"deny": {"calls": ["os.system"]}, "shell": false}')
    replies = [
        run("import os as o\no.system('echo ran >> /workspace/ran')"),
        run("!echo ran >> /workspace/ran"),
        run("print(open('/workspace/ran').read())"),
        run("import mark\nmark.value('total', sum(range(200)))"),
        answer("It is {{total}}."),
    ]
    reply = answer_of(ask("add up", replies, "--json", "--quiet", "--mark-gate", gate))
    assert reply["answer_story"] == "It is 19,900."
    assert not any("ran\n" in step["receipt"]["stdout"] for step in reply["steps"])
    assert any("FileNotFoundError" in json.dumps(step["receipt"]) for step in reply["steps"])


@pytest.mark.parametrize("text, words", [
    ("{", "is not JSON"), ('{"forbid": []}', 'has "forbid"'), ('{"deny": {"imports": "os"}}', "must be a list"),
])
def test_a_bad_gate_file(ask, tmp_path, text, words):
    gate = tmp_path / "gate.json"
    gate.write_text(text)
    r = ask("add up", SUM, "--mark-gate", gate)
    assert r.code != 0 and words in r.err and str(gate) in r.err
