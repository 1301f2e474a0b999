"""
The agent with real boxes: sessions that are lost and rebuilt, figures that become files, and the gate.
What needs no box is tested in tests/unit/test_agent.c.
"""

import json
import sqlite3

import pytest

from mark_kit import answer, person, run, scripted
from serve_kit import serve  # noqa: F401

REPLIES = [
    {"asked": "Define", **run("import mark\nx = 41\nopen('kept.txt', 'w').write('kept')")},
    {"asked": "Define", **answer("Defined.")},
    {"asked": "Lose", **run("import os\nos._exit(3)")},
    {"asked": "Lose", **run("mark.value('y', x + 1)")},
    {"asked": "Lose", **answer("It is {{y}}.")},
    {"asked": "Use", **run("mark.value('z', x + 2)\nprint(open('kept.txt').read())")},
    {"asked": "Use", **answer("It is {{z}}.")},
    {"asked": "Draw", **run("import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()")},
    {"asked": "Draw", **run("class Drawing:\n    def _repr_png_(self):\n        return b'picture'\nDrawing()")},
    {"asked": "Draw", **answer("Drawn.")},
    {"asked": "Fetch", **run("%pip install a-name-that-tells-something")},
    {"asked": "Fetch", "when": "cannot install packages here", **answer("Refused.")},
    {"asked": "Show", **run("print('a' * 100000)\nprint('the end')")},
    {"asked": "Show", "when": "the end", **answer("Seen.")},
]


@pytest.fixture
def ann(serve, tmp_path):  # noqa: F811
    return person(serve(*scripted(tmp_path / "model", REPLIES), "--model", "none"))


def test_lost_variables_are_computed_again(ann):
    first = ann.ask_mark("Define it")
    lost = ann.ask_mark("Lose it", chat=first["chat_id"])
    assert [s["receipt"]["session_lost"] for s in lost["steps"]] == [True, False]
    assert lost["answer_story"] == "It is 42."
    assert len(lost["notices"]) == 1 and "rebuilt" in lost["notices"][0]
    # The same if the session is gone altogether.
    session = lost["steps"][0]["receipt"]["session_id"]
    assert ann.ask("DELETE", f"/v1/sessions/{session}").status == 204
    used = ann.ask_mark("Use it", chat=first["chat_id"])
    assert used["steps"][0]["receipt"]["session_id"] != session
    assert used["answer_story"] == "It is 43." and "kept" in used["steps"][0]["receipt"]["stdout"]
    assert len(used["notices"]) == 1


def test_figures_are_files(ann):
    drawn = ann.ask_mark("Draw it")
    pytest.importorskip("matplotlib")
    assert [a["name"] for a in drawn["artifacts"]] == ["figures/step-1-1.png", "figures/step-2-1.png"]
    assert ann.ask("GET", drawn["artifacts"][0]["url"]).body.startswith(b"\x89PNG")
    assert ann.ask("GET", drawn["artifacts"][1]["url"]).body == b"picture"
    assert "image/png" not in json.dumps(drawn["steps"])


def test_programs_cannot_install_packages(ann):
    """The index would see the names that a program asks for."""
    reply = ann.ask_mark("Fetch it")
    assert reply["answer_story"] == "Refused."
    assert reply["steps"][0]["receipt"]["status"] == "error"


def test_recheck_tells_other_versions(serve, tmp_path):  # noqa: F811
    server = serve(*scripted(tmp_path / "model", REPLIES), "--model", "none")
    ann = person(server)
    first = ann.ask_mark("Define it")
    used = ann.ask_mark("Use it", chat=first["chat_id"])["message_id"]
    same = ann.good("POST", f"/api/v1/messages/{used}/recheck")
    assert same["equal"] and "packages" not in same
    store = sqlite3.connect(f"{server.data}/glovebox.db")
    store.execute("UPDATE mark_messages SET details = json_set(details, '$.packages', 'numpy 0.1') WHERE id = ?", [used])
    store.commit()
    store.close()
    other = ann.good("POST", f"/api/v1/messages/{used}/recheck")
    assert other["equal"] and other["packages"]["before"] == "numpy 0.1" and "numpy 0.1" != other["packages"]["after"]


def test_output_is_trimmed_for_the_model(ann):
    seen = ann.ask_mark("Show it")
    assert len(seen["steps"][0]["receipt"]["stdout"]) < 10000
    trace = ann.message(seen["message_id"], "trace")
    shown = [m for m in trace["steps"][-1]["request"]["messages"] if m["role"] == "tool"][-1]["content"]
    assert len(shown) < 10000 and "bytes left out" in shown and "the end" in shown


def test_chats_do_not_see_each_other(ann):
    """Another chat of the same person has another box."""
    first = ann.ask_mark("Define it")
    other = ann.ask_mark("Use it")  # there is no x, and no file
    assert other["steps"][0]["receipt"]["status"] == "error"
    assert other["steps"][0]["receipt"]["session_id"] != first["steps"][0]["receipt"]["session_id"]


def test_gate(serve, tmp_path):  # noqa: F811
    rules = tmp_path / "gate.json"
    rules.write_text(json.dumps({"deny": {"imports": ["socket"]}}), encoding="utf-8")
    replies = [run("import socket\nprint('ESCAPED')"), run("import math\nmark.value('r', math.sqrt(16))"),
               answer("It is {{r}}.")]
    ann = person(serve(*scripted(tmp_path / "model", replies), "--model", "none", "--mark-gate", rules))
    reply = ann.ask_mark("Go")
    assert [s["code"] for s in reply["steps"]] == ["import math\nmark.value('r', math.sqrt(16))"]
    assert reply["answer_story"] == "It is 4."
    trace = ann.message(reply["message_id"], "trace")
    assert "gate_refused" in trace["decisions"]
    assert "socket" in [m for m in trace["steps"][1]["request"]["messages"] if m["role"] == "tool"][0]["content"]
    again = ann.message(reply["message_id"], "recheck", "POST", {})
    assert again["equal"] is True
