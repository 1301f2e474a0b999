"""
What the page of Mark needs of the server: where each number was computed, questions that are asked anew, answers that
are followed again after a broken line and after a restart.
"""

import concurrent.futures
import pathlib
import signal
import uuid

import pytest

from mark_kit import answer, person, run, scripted
from serve_kit import serve  # noqa: F401

FIRST = """import pandas as pd
frame = pd.DataFrame({"region": ["North", "South"], "sales": [n * 1.25 for n in (1001, 2569)]})
print("mean", frame["sales"].mean())

def hand(name, x):
    mark.value(name, x, unit="EUR")

hand("total", frame["sales"].sum())
mark.value(
    "largest", frame["sales"].max())
mark.table("Sales", frame)
mark.chart({"data": [{"type": "bar", "x": ["North"], "y": [1]}]})
"""

REPLIES = [
    {"asked": "Earnings", **run(FIRST)},
    {"asked": "Earnings", **answer("{{total}}, {{largest}} at most, 2,231.25 on average, 1,251.25 in the North.")},
    {"asked": "Again", **run("x = 1\nhand('half', frame['sales'].sum() / 2)")},
    {"asked": "Again", **answer("{{half}} is half of {{total}}; 4,462.50 it was.")},
    {"asked": "Remember", **run("import os\nsecret = 41\nopen('left.txt', 'w').write('left')\nmark.value('s', secret + 1)")},
    {"asked": "Remember", **answer("It is {{s}}.")},
    {"asked": "Look", **run("print('secret' in globals(), 'frame' in globals(), __import__('os').path.exists('left.txt'))")},
    {"asked": "Look", **answer("I looked.")},
    {"asked": "Files", **run("print(mark.attachments())")},
    {"asked": "Files", **answer("I looked.")},
    {"asked": "Wait", **run("print('begun', flush=True)\nimport time\ntime.sleep(600)")},
    {"asked": "Wait", **answer("I waited.")},
]


@pytest.fixture
def ann(serve, tmp_path):  # noqa: F811
    return person(serve(*scripted(tmp_path / "model", REPLIES), "--model", "none"))


def places(reply):
    story = reply["answer_story"].encode()
    return [(story[m["start"]:m["end"]].decode(),
             {key: value for key, value in m.items() if key not in ("start", "end")})
            for m in reply["numbers"]["marks"]]


def test_numbers_lead_to_lines(ann):
    first = ann.ask_mark("Earnings")
    assert places(first) == [
        ("4,462.50 EUR", {"kind": "value", "name": "total", "step": 1, "line": 6}),
        ("3211.25", {"kind": "value", "name": "largest", "step": 1, "line": 9}),
        ("2,231.25", {"kind": "found", "where": "output", "step": 1}),
        ("1,251.25", {"kind": "found", "where": "table", "step": 1, "line": 11, "table": 1, "row": 1,
                     "column": 2}),
    ]
    assert [(v["name"], v["step"], v["line"]) for v in first["values"]] == [("total", 1, 6), ("largest", 1, 9)]
    assert (first["data"][0]["step"], first["data"][0]["line"]) == (1, 11)
    assert (first["visualization"]["step"], first["visualization"]["line"]) == (1, 12)
    second = ann.ask_mark("Again", chat=first["chat_id"])
    earlier = {"step": 1, "line": 6, "message_id": first["message_id"]}
    assert places(second) == [
        ("2,231.25 EUR", {"kind": "value", "name": "half", "step": 1, "line": 2}),
        ("4,462.50 EUR", {"kind": "value", "name": "total", **earlier}),
        ("4,462.50", {"kind": "found", "where": "value", **earlier}),
    ]
    # It is kept, and lines change nothing for a recheck.
    kept = ann.good("GET", f"/api/v1/messages/{second['message_id']}")["response"]
    assert kept["numbers"] == second["numbers"]
    assert ann.message(second["message_id"], "recheck", "POST", {})["equal"] is True
    assert ann.message(first["message_id"], "recheck", "POST", {})["equal"] is True


# ---- another question instead ----


def edit(someone, message_id, query, status=200, **more):
    path = f"/api/v1/messages/{message_id}/edit"
    if status != 200:
        return someone.problem(status, "POST", path, {"query": query, **more})["type"].rpartition(":")[2]
    reply = someone.good("POST", path, {"query": query, **more})
    assert reply["status"] == "ok", reply["answer_story"]
    return reply


def test_edit(ann):
    first = ann.ask_mark("Earnings")
    second = ann.ask_mark("Remember", chat=first["chat_id"])
    third = ann.ask_mark("Look", chat=first["chat_id"])
    assert third["steps"][0]["receipt"]["stdout"] == "True True True\n"
    ann.message(second["message_id"], "feedback", "POST", {"rating": "up"})
    kept = ann.message(second["message_id"], "verify", "POST", {}, 201)
    before = ann.messages(first["chat_id"])
    assert before[2]["message_id"] == second["question_id"] and before[2]["role"] == "user"

    again = edit(ann, second["question_id"], "Look")
    assert again["chat_id"] == first["chat_id"]
    # What the second answer left behind is gone, what the first did was done again.
    assert again["steps"][0]["receipt"]["stdout"] == "False True False\n"
    assert "1 earlier program of this chat was run again" in again["notices"][0]
    after = ann.messages(first["chat_id"])
    assert [m["message_id"] for m in after] == [
        before[0]["message_id"], first["message_id"], again["question_id"], again["message_id"]]
    assert after[2]["text"] == "Look"
    for gone in (second["message_id"], second["question_id"], third["message_id"]):
        ann.problem(404, "GET", f"/api/v1/messages/{gone}")
    ann.problem(404, "GET", f"/api/v1/messages/{third['message_id']}/events")
    ann.problem(404, "GET", f"/v1/sessions/{second['steps'][0]['receipt']['session_id']}")
    # Somebody verified it, so it stays, and still comes out.
    assert [v["verified_id"] for v in ann.good("GET", "/api/v1/verified")["verified"]] == [kept["verified_id"]]

    # It streams, and the first question gives the chat its title.
    events = ann.follow(f"/api/v1/messages/{before[0]['message_id']}/edit", {"query": "Remember"})
    assert events[0][1] == "chat" and events[0][2]["chat_id"] == first["chat_id"]
    assert events[-1][1] == "done" and events[-1][2]["answer_story"] == "It is 42."
    assert events[-1][2]["question_id"] == events[0][2]["question_id"]
    assert len(ann.messages(first["chat_id"])) == 2
    assert ann.good("GET", f"/api/v1/chats/{first['chat_id']}")["title"] == "Remember"
    ann.good("PATCH", f"/api/v1/chats/{first['chat_id']}", {"title": "Mine"})
    edit(ann, events[0][2]["question_id"], "Look")
    assert ann.good("GET", f"/api/v1/chats/{first['chat_id']}")["title"] == "Mine"


def test_edit_keeps_attachments(ann):
    file = ann.upload()
    first = ann.ask_mark("Files", files=[file])
    assert "sales.csv" in first["steps"][0]["receipt"]["stdout"]
    same = edit(ann, first["question_id"], "Files, please")
    assert "sales.csv" in same["steps"][0]["receipt"]["stdout"]
    assert ann.messages(first["chat_id"])[0]["attachments"] == [file["attachment_id"]]
    none = edit(ann, same["question_id"], "Files?", attachments=[])
    assert none["steps"][0]["receipt"]["stdout"] == "[]\n"


def test_edit_bad_input(ann):
    bob = person(ann, "bob@example.com")
    first = ann.ask_mark("Remember")
    question = first["question_id"]
    assert edit(bob, question, "Look", 404) == "message-unknown"
    assert edit(ann, str(uuid.uuid4()), "Look", 404) == "message-unknown"
    assert edit(ann, "x", "Look", 404) == "message-unknown"
    assert edit(ann, first["message_id"], "Look", 409) == "not-a-question"
    assert edit(ann, question, "  ", 422) == "query-malformed"
    assert edit(ann, question, "Look", 404, attachments=[str(uuid.uuid4())]) == "attachment-unknown"
    assert edit(ann, question, "Look", 422, model="nobody") == "model-unknown"
    assert edit(ann, question, "Look", 404, sources=["nowhere"]) == "no-such-source"
    for body in ({}, {"query": 7}, {"query": "Look", "chat_id": first["chat_id"]}, {"query": "Look", "attachments": "x"},
                 {"query": "Look", "attachments": [7]}, {"query": "x" * 70000}, []):
        assert 400 <= ann.ask("POST", f"/api/v1/messages/{question}/edit", body).status < 500, body
    assert ann.ask("POST", f"/api/v1/messages/{question}/edit", b"{").status == 400
    kept = ann.messages(first["chat_id"])
    assert [m["message_id"] for m in kept] == [question, first["message_id"]]


def test_edit_while_an_answer_is_under_way(ann):
    first = ann.ask_mark("Remember")
    begun = ann.follow("/api/v1/chat", ann.question("Wait", first["chat_id"]), stop_at="output")
    waiting = begun[0][2]
    assert edit(ann, first["question_id"], "Look", 409) == "answer-pending"
    assert edit(ann, waiting["question_id"], "Look", 409) == "answer-pending"
    assert len(ann.messages(first["chat_id"])) == 4
    assert ann.good("POST", f"/api/v1/chats/{first['chat_id']}/stop")["stopped"] == 1
    # Whoever has seen its end can go on.
    ended = ann.follow(f"/api/v1/messages/{waiting['message_id']}/events", method="GET")
    assert ended[-1][1] == "done" and ended[-1][2]["status"] == "stopped"
    again = edit(ann, waiting["question_id"], "Look")
    assert again["steps"][0]["receipt"]["stdout"] == "True False True\n"


def test_one_of_several_edits(ann):
    first = ann.ask_mark("Remember")
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        replies = list(pool.map(
            lambda i: ann.ask("POST", f"/api/v1/messages/{first['question_id']}/edit", {"query": f"Look {i}"}), range(6)))
    assert sorted(r.status for r in replies)[:2][0] == 200
    assert all(r.status in (404, 409) for r in replies if r.status != 200)
    assert sum(r.status == 200 for r in replies) == 1
    assert len(ann.messages(first["chat_id"])) == 2


# ---- broken lines and restarts ----


def test_followed_again_after_a_broken_line(ann):
    """A client whose connection broke in the middle gets the rest, and together it is everything."""
    begun = ann.follow("/api/v1/chat", ann.question("Wait"), stop_at="output")
    chat, message = begun[0][2]["chat_id"], begun[0][2]["message_id"]
    listed = ann.messages(chat)
    assert [(m["role"], m["status"]) for m in listed] == [("user", "ok"), ("assistant", "pending")]
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        path = f"/api/v1/messages/{message}/events"
        rest = pool.submit(ann.follow, path, method="GET", after=begun[-1][0])
        whole = ann.follow(path, method="GET", stop_at="output")  # from the start, its deltas joined
        assert whole[0] == begun[0] and whole[-2:] == begun[-2:]
        ann.good("POST", f"/api/v1/chats/{chat}/stop")
        rest = rest.result(120)
    ids = [event[0] for event in begun + rest]
    assert ids == sorted(set(ids)) and rest[-1][1] == "done" and rest[-1][2]["status"] == "stopped"
    assert rest[-1][2]["steps"][0]["receipt"]["stdout"] == "begun\n"


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_after_a_restart(serve, tmp_path, how):  # noqa: F811
    server = serve(*scripted(tmp_path / "model", REPLIES), "--model", "none")
    ann = person(server)
    begun = ann.follow("/api/v1/chat", ann.question("Wait"), stop_at="output")
    chat, message = begun[0][2]["chat_id"], begun[0][2]["message_id"]
    server.stop(how)

    server = serve(*scripted(tmp_path / "model", [answer("It is 4.")]), "--model", "none", data=server.data)
    ann = type(ann)(server, ann.key, ann.account)
    listed = ann.messages(chat)
    status, word = ("stopped", "shut down") if how == signal.SIGTERM else ("error", "interrupted")
    assert [(m["role"], m["status"]) for m in listed] == [("user", "ok"), ("assistant", status)]
    assert word in listed[1]["text"].lower() and listed[1]["response"]["status"] == status
    assert listed[1]["response"]["question_id"] == listed[0]["message_id"]
    # A client that comes back with an id of the old stream gets the end.
    events = ann.follow(f"/api/v1/messages/{message}/events", method="GET", after=begun[-1][0])
    assert events[-1][1] == "done" and events[-1][2]["status"] == status
    # Both ways on work.
    again = ann.message(message, "regenerate", "POST")
    assert again["message_id"] != message and again["question_id"] == listed[0]["message_id"]
    instead = edit(ann, listed[0]["message_id"], "Two and two?")
    assert instead["answer_story"].startswith("It is 4")


# ---- files of answers ----

WRITES = """open('small.txt', 'w').write('small')
open('größe 1.csv', 'w').write('a,b')
with open('large.bin', 'wb') as file:
    file.truncate(40 << 20)
"""


def contents(server):
    return sorted(path.name for path in (pathlib.Path(server.data) / "mark/files").iterdir() if len(path.name) == 64)


def test_files_outlive_their_session(serve, tmp_path):  # noqa: F811
    replies = [{"asked": "Write", **run(WRITES)}, {"asked": "Write", **answer("Written.")},
               {"asked": "Change", **run("open('small.txt', 'w').write('other')")},
               {"asked": "Change", **answer("Changed.")}, {"asked": "Nothing", **answer("Nothing.")}]
    server = serve(*scripted(tmp_path / "model", replies), "--model", "none")
    ann = person(server)
    bob = person(server, "bob@example.com")
    first = ann.ask_mark("Write")
    files = {a["name"]: a for a in first["artifacts"]}
    assert set(files) == {"small.txt", "größe 1.csv", "large.bin"}
    assert "kept_url" not in files["large.bin"] and files["small.txt"]["step"] == 1
    assert [n for n in first["notices"] if n.startswith("1 file could not be kept")]
    second = ann.ask_mark("Change", chat=first["chat_id"])
    assert len(contents(server)) == 3
    for reply in (first, second):
        ann.ask("DELETE", f"/v1/sessions/{reply['steps'][0]['receipt']['session_id']}")
    ann.problem(404, "GET", files["small.txt"]["url"])

    # Each answer has what it wrote.
    got = ann.ask("GET", files["small.txt"]["kept_url"])
    assert got.status == 200 and got.body == b"small"
    assert got.headers["Content-Security-Policy"].startswith("sandbox")
    assert got.headers["Content-Disposition"].startswith("attachment")
    assert ann.ask("GET", files["größe 1.csv"]["kept_url"]).body == b"a,b"
    changed = second["artifacts"][0]["kept_url"]
    assert ann.ask("GET", changed).body == b"other"
    path = f"/api/v1/messages/{first['message_id']}/artifacts/"
    bob.problem(404, "GET", files["small.txt"]["kept_url"])
    for bad in ("0", "4", "-1", "x", "1x", "99999999999999999999"):
        assert ann.ask("GET", path + bad).status == 404, bad

    # A chat and an answer go with their files, unless another answer has the same content.
    third = ann.ask_mark("Change")
    edit(ann, second["question_id"], "Nothing")
    ann.problem(404, "GET", changed)
    assert len(contents(server)) == 3
    assert ann.ask("DELETE", f"/api/v1/chats/{third['chat_id']}").status == 204
    assert len(contents(server)) == 2
    assert ann.ask("DELETE", f"/api/v1/chats/{first['chat_id']}").status == 204
    assert contents(server) == []


def test_files_count_with_attachments(serve, tmp_path):  # noqa: F811
    replies = [run("open('a.txt', 'w').write('a' * 3000)\nopen('b.txt', 'w').write('b' * 3000)"), answer("Written.")]
    ann = person(serve(*scripted(tmp_path / "model", replies), "--model", "none", "--attachments-size", "4k"))
    reply = ann.ask_mark("Go")
    assert ["kept_url" in a for a in reply["artifacts"]] == [True, False]
    assert "1 file could not be kept" in reply["notices"][0]
    ann.upload("x.csv", b"a,b\n1,2\n" * 400)  # what answers wrote does not keep a person from attaching
