"""`glovebox mark verify`, next to the service whose answers were verified."""

import json
import pathlib
import sqlite3

import pytest

from mark_kit import answer, person, run, scripted
from serve_kit import serve  # noqa: F401

CSV = b"region,amount\nnorth,10\nsouth,32\n"
READ = "import csv, mark\nrows = list(csv.DictReader(open(mark.attachment('orders.csv'))))\n"
SUM = READ + "total = sum(int(r['amount']) for r in rows)\nmark.value('total', total, unit='EUR')"
LARGEST = "mark.value('largest', max(int(r['amount']) for r in rows))"
REPLIES = [
    {"asked": "sum of all", **run(SUM)},
    {"asked": "sum of all", **answer("The total is {{total}}.")},
    {"asked": "and the largest", **run(LARGEST)},
    {"asked": "and the largest", **answer("It is {{largest}}.")},
]


@pytest.fixture
def server(serve, tmp_path):  # noqa: F811
    server = serve(*scripted(tmp_path / "model.json", REPLIES), "--model", "none")
    ann = person(server)
    orders = ann.upload("orders.csv", CSV)
    first = ann.ask_mark("What is the sum of all orders?", files=[orders])
    second = ann.ask_mark("and the largest?", chat=first["chat_id"])
    for reply in (first, second):
        ann.good("POST", f"/api/v1/messages/{reply['message_id']}/verify", {}, 201)
    server.ann, server.first, server.second = ann, first, second
    return server


def change(server, question, what, value):
    """Changes what was kept of a verified answer."""
    store = sqlite3.connect(f"{server.data}/glovebox.db")
    store.execute("UPDATE mark_verified SET content = json_set(content, ?, json(?)) WHERE question LIKE ?",
                  [what, json.dumps(value), f"%{question}%"])
    store.commit()
    store.close()


def verify(gb, server, *options, code=0):
    result = gb("mark", "verify", "--data", server.data, "--preload", "none", "--quiet", *options)
    assert result.code == code, result.out + result.err
    return result.out


def test_runs_all_and_names_what_changed(gb, server):
    assert verify(gb, server, "--jobs", "2") == (
        "ok          What is the sum of all orders?\n"
        "ok          and the largest?\n"
        "2 of 2 verified answers came out again\n")
    listed = server.ann.good("GET", "/api/v1/verified")["verified"]
    assert [v["passed"] for v in listed] == [True, True] and listed[0]["checked"]
    change(server, "largest", "$.values[0].value", 33)
    change(server, "sum", "$.template", "other")
    change(server, "sum", "$.packages", "numpy 0.1, gone 1.0")
    out = verify(gb, server, code=1).splitlines()
    assert out[0] == "ok          What is the sum of all orders?"
    assert out[1] == "              (now) template: other → system"
    assert "              (now) package gone: 1.0 → not installed" in out
    assert out[-3:] == ["changed     and the largest?", "              value largest: 33 → 32",
                        "1 of 2 verified answers came out again"]
    report = json.loads(verify(gb, server, "--json", code=1))
    assert (report["ok"], report["changed"], report["cannot_run"]) == (1, 1, 0)
    assert report["verified"][1]["differences"] == ["value largest: 33 → 32"]
    change(server, "largest", "$.cells", ["import mark\nmark.value('largest', undefined)"])
    change(server, "sum", "$.files[0].sha256", "0" * 64)
    out = verify(gb, server, code=1)
    assert "cannot run  What is the sum of all orders?\n              the attachment orders.csv was deleted" in out
    assert "program 1 failed: NameError" in out and "value largest: 33 → nothing" in out
    # The files of the chat are still those of both, and nothing else is in the store.
    assert "0 of 2" in out
    assert not list(pathlib.Path(server.data, "ask").iterdir())


def test_asks_again(gb, server, tmp_path):
    same = scripted(tmp_path / "same.json", REPLIES, "same")
    assert "2 of 2" in verify(gb, server, "--ask", *same)
    # Another model computes something else; another one calls it otherwise, which is the same.
    renamed = json.loads(json.dumps(REPLIES).replace("'largest'", "'top'").replace("{{largest}}", "{{top}}"))
    assert "2 of 2" in verify(gb, server, "--ask", *scripted(tmp_path / "renamed.json", renamed, "renamed"))
    wrong = json.loads(json.dumps(REPLIES).replace("max(", "min("))
    (pathlib.Path(server.data) / "mark/prompts").mkdir(parents=True)
    (pathlib.Path(server.data) / "mark/prompts/persona.md").write_text("You are somebody else.\n")
    out = verify(gb, server, "--ask", *scripted(tmp_path / "wrong.json", wrong, "wrong"), code=1)
    assert "changed     and the largest?\n              value largest: 32 → 10\n" in out
    assert "(now) model: script → wrong" in out and "(now) prompts: " in out
    # Nothing of it stays, and it says nothing about whether the programs still run.
    assert [c["chat_id"] for c in server.ann.good("GET", "/api/v1/chats")["chats"]] == [server.first["chat_id"]]
    store = sqlite3.connect(f"{server.data}/glovebox.db")
    assert store.execute("SELECT COUNT(*) FROM mark_chats").fetchone() == (1,)
    assert store.execute("SELECT COUNT(*) FROM mark_attachments").fetchone() == (1,)
    store.close()


def test_nothing_to_run(gb, tmp_path):
    data = tmp_path / "none"
    assert gb("mark", "verify", "--data", data).code == 125
    gb("key", "list", "--data", data)
    assert gb("mark", "sample", "--ask").code == 2
    assert gb("mark", "verify", "extra", "--data", data).code == 2
