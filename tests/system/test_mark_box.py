"""The module mark in a box: what it hands over is in the receipt, in the forms that Mark reads."""

import json
import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from embed_module import embed  # noqa: E402

MIME = "application/vnd.glovebox.mark+json"
PLOTLY = "application/vnd.plotly.v1+json"
PROGRAM = embed("mark", (ROOT / "src/mark/box/mark.py").read_text(encoding="utf-8"))


@pytest.fixture
def cell(gb, tmp_path):
    def run(code):
        path = tmp_path / "cell.py"
        path.write_text(PROGRAM + code)
        receipt = json.loads(gb("run", "--cell", "--json", path).raw_out)
        return receipt, [output["data"] for output in receipt["outputs"]]

    return run


def test_values_tables_and_charts_in_order(cell):
    receipt, outputs = cell("""
import pandas, matplotlib.pyplot as plt, plotly.graph_objects as go
import mark as again
from mark import value
frame = pandas.DataFrame({"region": ["n", "s"], "sales": [1.5, 2.5]})
value("total", frame["sales"].sum(), unit="EUR", format=",.2f")
mark.table("Sales", frame)
mark.chart(go.Figure(go.Bar(x=frame["region"], y=frame["sales"])))
frame.plot(x="region", y="sales")
mark.chart(plt)
again is mark
""")
    assert receipt["status"] == "ok", receipt["stderr"]
    assert receipt["result"] == {"text/plain": "True"}
    assert len(outputs) == 4 and all("text/plain" in data for data in outputs)
    assert outputs[0][MIME] == {"kind": "value", "name": "total", "value": 4.0, "unit": "EUR",
                                "format": ",.2f"}
    assert outputs[1][MIME] == {
        "kind": "table", "title": "Sales", "rows": [["n", 1.5], ["s", 2.5]], "row_count": 2,
        "columns": [{"name": "region", "type": "text"}, {"name": "sales", "type": "number"}]}
    assert outputs[2][PLOTLY]["data"][0]["type"] == "bar"
    assert "image/png" in outputs[3]
    assert receipt["truncated"]["outputs"] == 0 and receipt["stdout"] == ""


def test_a_mistake_names_what_to_pass(cell):
    receipt, outputs = cell("mark.value('x', [1, 2])")
    assert receipt["status"] == "error" and outputs == []
    assert "TypeError" in receipt["stderr"] and "mark.table(title, x)" in receipt["stderr"]


def test_the_largest_table_travels_whole(cell):
    receipt, outputs = cell("mark.table('Wide', [list(range(300))] * 2000)")
    assert receipt["status"] == "ok", receipt["stderr"]
    (data,) = outputs
    assert len(data[MIME]["rows"]) == 1000 and len(data[MIME]["columns"]) == 200
    assert data[MIME]["row_count"] == 2000


# ---- the policy gate: code is parsed in a box, and not run ----


@pytest.fixture
def gate(gb, tmp_path):
    def check(policy, code):
        text = json.dumps({"policy": policy, "code": code})
        result = gb("run", "--json", ROOT / "src/mark/box/gate.py", stdin=text).receipt
        assert result["status"] == "ok", result["stderr"]
        return json.loads(result["stdout"])

    return check


def test_the_gate_in_a_box(gate):
    policy = {"deny": {"imports": ["socket"], "calls": ["os.system"]}, "shell": False}
    assert gate(policy, "import pandas\nprint('not run')") == {"denied": False}
    verdict = gate(policy, "x = 1\nimport os as o\no.system('x')")
    assert verdict["denied"] and verdict["line"] == 3 and "'os.system'" in verdict["message"]
    verdict = gate(policy, "x = 1\n!ls")
    assert verdict["denied"] and verdict["line"] == 2 and "(shell)" in verdict["message"]
    verdict = gate(policy, "%%time\nimport socket")
    assert verdict["denied"] and "'socket'" in verdict["message"]
    assert gate(policy, "def (:") == {"denied": False}
    assert gate(policy, "(" * 100000)["denied"] in (True, False)
