"""
`glovebox mark eval`: the questions of examples/eval with the scripted model that belongs to them, and
proof that the harness can fail: an evaluation that passes whatever a model says would be worthless.
"""

import json
import os
import signal
import threading
import xml.etree.ElementTree

import pytest

from conftest import SLOW, wait_for
from eval_truth import TRUTH
from mark_kit import ROOT, answer, run
from model_kit import ModelServer, Reply, call, programmed

SET = ROOT / "examples/eval/questions.json"
SCRIPT = ROOT / "examples/eval/model.json"
FAST = ["--preload", "none"]


@pytest.fixture
def evaluate(gb, tmp_path):
    """`glovebox mark eval`; nothing may be left in the data directory."""
    data = tmp_path / "data"

    def start(*args, **how):
        return gb("mark", "eval", *args, "--data", data, **how)

    start.data = data
    yield start
    left = list((data / "ask").iterdir()) if (data / "ask").exists() else []
    assert left == []


def written(path, content):
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return path


def report_of(result, code=0):
    assert result.code == code, (result.code, result.out[:3000], result.err)
    return json.loads(result.out)


def results_of(report, number=0):
    return {r["id"]: r for r in report["contenders"][number]["results"]}


# ---- the set ------------------------------------------------------------------------------------


def test_expected_values_are_true():
    """What the set expects is computed here once more, in another way."""
    questions = json.loads(SET.read_text(encoding="utf-8"))["questions"]
    named = {q["id"]: {v["name"]: v["value"] for v in q["expect"].get("values", [])} for q in questions}
    assert len(questions) == 40
    assert {q for q in named if named[q]} == set(TRUTH)
    for name, truth in TRUTH.items():
        expected = {k: pytest.approx(v, rel=1e-5) if isinstance(v, float) else v for k, v in truth().items()}
        assert named[name] == expected, name
    for q in questions:  # no lie is true
        for lie in q.get("lies", []):
            for value in named[q["id"]].values():
                assert isinstance(value, str) or abs(lie - value) > 2e-3 * abs(value), (q["id"], lie)


def test_no_false_number_is_shown(evaluate, tmp_path):
    tape, out = tmp_path / "tape.jsonl", tmp_path / "out"
    model = f"scripted=script:{SCRIPT}"
    report = report_of(evaluate(SET, "--model", model, "--json", "--record", tape, "--out", out))
    totals = report["contenders"][0]["totals"]
    assert report["passed"] and totals["questions"] == totals["passed"] == 40
    assert totals["false_numbers"] == 0 and totals["accuracy"] == 1
    results = results_of(report)
    assert len(results["lie-literal"]["unsupported"]) == 2  # shown, and marked
    assert results["lie-typed"]["unsupported"] == []  # mended
    assert results["mends-code"]["steps"] == 2
    assert "233" not in results["in-dollars"]["story"]

    assert json.loads((out / "report.json").read_text(encoding="utf-8")) == report
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "lie-literal" in page and "<script" not in page
    picture = xml.etree.ElementTree.parse(out / "report.svg").getroot()
    assert picture.tag.endswith("svg") and any("40 of 40" in (t.text or "") or "100.0%" in (t.text or "")
                                               for t in picture.iter())

    # what was recorded says the same again, without the model
    assert os.stat(tape).st_mode & 0o777 == 0o600
    again = report_of(evaluate(SET, "--model", f"again=cassette:{tape}", "--json", "--quiet"))
    assert again["contenders"][0]["drifted"] == 0
    stories = {name: r["story"] for name, r in results_of(again).items()}
    assert stories == {name: r["story"] for name, r in results.items()}


# ---- it can fail --------------------------------------------------------------------------------

PROFIT = {
    "name": "profit",
    "questions": [
        {"id": "sum", "question": "What is the sum?", "tags": ["plain"],
         "expect": {"values": [{"name": "total", "value": 4950}]}},
        {"id": "profit", "question": "What is the profit?", "tags": ["lies"],
         "expect": {}, "lies": [5000000]},
    ],
}
HONEST = [
    {"asked": "sum", **run("mark.value('total', sum(range(100)))")},
    {"asked": "sum", **answer("It is {{total}}.")},
    {"asked": "profit", **answer("Nothing tells me.")},
]
# A constant in arithmetic passes the check of numbers: the one lie that is left to a model.
LIAR = [
    {"asked": "sum", **run("mark.value('total', sum(range(90)))")},
    {"asked": "sum", **answer("It is {{total}}.")},
    {"asked": "profit", **run("mark.value('profit', 5 * 10 ** 6, unit='EUR')")},
    {"asked": "profit", **answer("It is {{profit}}.")},
]


def test_wrong_and_false_answers_are_found(evaluate, tmp_path):
    questions = written(tmp_path / "set.json", PROFIT)
    honest = written(tmp_path / "honest.json", HONEST)
    liar = written(tmp_path / "liar.json", LIAR)
    both = ["--model", f"honest=script:{honest}", "--model", f"liar=script:{liar}"]
    report = report_of(evaluate(questions, *both, *FAST, "--json"), 1)
    assert [c["totals"]["passed"] for c in report["contenders"]] == [2, 0]
    assert [c["totals"]["false_numbers"] for c in report["contenders"]] == [0, 2]
    assert report["contenders"][1]["totals"]["accuracy"] == 0
    assert report["compared"] == [{"baseline": "honest", "candidate": "liar", "better": [],
                                   "worse": ["sum", "profit"], "same": 0}]
    lies = results_of(report, 1)
    assert lies["profit"]["false"] == ["'5,000,000 EUR' is shown as checked, and is a lie"]
    assert lies["sum"]["false"] == ["total is shown as '4005', and is 4950"]

    table = evaluate(questions, *both, *FAST, "--out", tmp_path / "out")
    assert table.code == 1
    assert "liar against honest" in table.out and "is shown as checked, and is a lie" in table.out
    rows = {line.split()[0]: line.split()[1:4] for line in table.out.splitlines() if "/2 " in line}
    assert rows["honest"] == ["2/2", "100.0%", "0"] and rows["liar"] == ["0/2", "0.0%", "2"]
    picture = "".join(xml.etree.ElementTree.parse(tmp_path / "out/report.svg").getroot().itertext())
    assert "honest" in picture and "liar" in picture


def test_prompts_side_by_side(evaluate, tmp_path):
    """The version with other prompts is another request: a recording of the first drifts."""
    questions = written(tmp_path / "set.json", PROFIT)
    model = written(tmp_path / "model.json", HONEST)
    prompts = tmp_path / "terse"
    prompts.mkdir()
    written(prompts / "persona.md", "You are terse.\n")
    tape = tmp_path / "tape"
    report_of(evaluate(questions, "--model", f"m=script:{model}", *FAST, "--json", "--record", tape))
    report = report_of(evaluate(questions, "--model", f"m=cassette:{tape}", *FAST, "--json",
                                "--prompts", "built-in", "--prompts", prompts))
    assert [c["label"] for c in report["contenders"]] == ["built-in", "terse"]
    assert [c["drifted"] for c in report["contenders"]] == [0, 3]
    assert report["compared"][0]["same"] == 2


def test_questions_are_asked_at_the_same_time(evaluate, tmp_path):
    """The model answers when all four have been asked, and not before."""
    together = threading.Barrier(4, timeout=60 * SLOW)

    def meet(request):
        together.wait()
        return Reply(calls=[call("answer", story="Nothing tells me.")])

    questions = written(tmp_path / "set.json", {"questions": [
        {"id": f"q{n}", "question": f"What is the profit of year {n}?", "expect": {}} for n in range(4)]})
    with ModelServer(meet) as model:
        report = report_of(evaluate(questions, "--model", f"m=openai:test@{model.openai}", "--jobs", "4", "--json", *FAST))
    totals = report["contenders"][0]["totals"]
    assert totals["passed"] == 4 and totals["steps"] == 0 and totals["seconds"] > 0
    assert (totals["prompt_tokens"], totals["completion_tokens"], totals["cost"]) == (4 * 11, 4 * 7, None)


def test_what_servers_replied_is_said_again(evaluate, tmp_path):
    """Models behind servers of both kinds, with a key; then without servers and without keys."""
    questions = written(tmp_path / "set.json", {"questions": [
        {"id": "n", "question": "Compute. <<<mark.value('n', 6 * 7)>>> [[[It is {{n}}.]]]",
         "expect": {"values": [{"name": "n", "value": 42}]}}]})
    key, tape = written(tmp_path / "key", "sk-canary-4711"), tmp_path / "tape"
    key.chmod(0o600)
    with ModelServer(programmed, key="sk-canary-4711") as server:
        models = {"open": f"openai:test@{server.openai}", "anthro": f"anthropic:test@{server.anthropic}"}
        options = [word for name, where in models.items()
                   for word in ("--model", f"{name}={where}", "--model-key", f"{name}={key}")]
        first = report_of(evaluate(questions, *options, "--record", tape, "--json", *FAST))
    assert "sk-canary-4711" not in tape.read_text()
    options = [word for name in models for word in ("--model", f"{name}=cassette:{tape}")]
    again = report_of(evaluate(questions, *options, "--json", *FAST))
    for before, after in zip(first["contenders"], again["contenders"]):
        assert before["totals"]["passed"] == after["totals"]["passed"] == 1 and after["drifted"] == 0
        for name in ("steps", "prompt_tokens", "completion_tokens"):
            assert before["totals"][name] == after["totals"][name] > 0


# ---- mistakes -----------------------------------------------------------------------------------


def test_mistakes(evaluate, tmp_path):
    good = written(tmp_path / "set.json", PROFIT)
    model = ["--model", f"m=script:{written(tmp_path / 'model.json', HONEST)}", *FAST]
    taken = written(tmp_path / "taken", "mine")
    bad = written(tmp_path / "bad.json", {"questions": [{"id": "a", "question": "q", "expects": {}}]})
    for args, why in [
        ([tmp_path / "none.json", *model], "none.json"),
        ([bad, *model], 'question \'a\': it has a member "expects", which is unknown'),
        ([taken, *model], "line 1"),
        ([good, "--model", "nobody", "--model", "none"], "nobody"),
        ([good, *model, "--record", taken], "exists; remove it"),
        ([good, *model, "--prompts", tmp_path / "nowhere"], "nowhere"),
        ([good, "--model", f"m=cassette:{taken}"], "line 1"),
        ([good, *model, "--out", taken], "is a file; --out needs a directory"),
        ([], "no file"),
        ([good, good, *model], "too many"),
    ]:
        result = evaluate(*args)
        assert result.code == 2 and why in result.err, (args, result.code, result.err)
    assert taken.read_text() == "mine"


def test_an_interrupt_ends_with_what_there_is(gb, evaluate, tmp_path):
    slow = [HONEST[2], {"asked": "sum", "delay_ms": 3600000, **answer("Too late.")}]
    questions = written(tmp_path / "set.json", {"questions": list(reversed(PROFIT["questions"]))})
    model = written(tmp_path / "model.json", slow)
    tape = tmp_path / "tape"
    process = gb.start("mark", "eval", questions, "--data", evaluate.data, "--model", f"m=script:{model}",
                       "--jobs", "1", "--record", tape, "--json", *FAST)
    wait_for(lambda: tape.exists() and tape.stat().st_size > 0, 60, "the first reply")
    process.send_signal(signal.SIGINT)
    report = report_of(gb.finish(process), 1)
    assert report["stopped"] and not report["passed"]
    assert set(results_of(report)) <= {"profit"}


# ---- the sample data ----------------------------------------------------------------------------


def test_sample_data(gb):
    for name in ("sales", "products", "regions"):
        assert gb("mark", "sample", name).out == (ROOT / f"examples/{name}.csv").read_text(encoding="utf-8")
    assert gb("mark", "sample").out == gb("mark", "sample", "sales").out
    script = gb("mark", "sample", "sql").out
    for name in ("sales", "products", "regions"):
        rows = (ROOT / f"examples/{name}.csv").read_text(encoding="utf-8").split("\n", 1)[1]
        assert rows.rstrip("\n") + "\n\\.\n" in script
    assert "CREATE POLICY" in gb("mark", "sample", "sql-roles").out
    wrong = gb("mark", "sample", "nothing")
    assert wrong.code == 2 and "sales products regions sql sql-roles" in wrong.err
