"""
Mark's questions and answers over HTTP: every route, its events, and bad input for every field.

One server with a scripted model serves all of these tests; what whole conversations look like is in
test_mark.py.
"""

import json
import threading

import pytest

from conftest import wait_for
from mark_kit import PASSWORD, Person, answer, person, run, scripted
from serve_kit import serve  # noqa: F401

NOBODY = "00000000-0000-4000-8000-000000000000"
REPLIES = [
    {"asked": "add", **run("import mark\nprint('adding')\nmark.value('total', sum(range(200)))")},
    {"asked": "add", **answer("The sum is {{total}}.")},
    {"asked": "wait", **run("print('begun', flush=True)\nimport time\ntime.sleep(600)")},
    {"asked": "slow", "text": "A slow answer in many pieces. " * 20, "piece_ms": 20},
    {"asked": "random", **run("import mark, random\nmark.value('r', random.random())\n"
                              "mark.value('fixed', 7)")},
    {"asked": "random", **answer("It is {{r}}, and {{fixed}}.")},
    {"asked": "fail", "error": {"failure": "denied", "status": 401, "message": "sk-secret-key"}},
    {"text": "Hello."},
]


@pytest.fixture
def mark(serve, tmp_path):
    server = serve(*scripted(tmp_path / "model", REPLIES), "--model", "none")
    ann = person(server)
    ann.server = server
    return ann


def other(mark):
    return person(mark.server, "bob@example.com")


# ---- asking ------------------------------------------------------------------------------------


def test_ask_in_three_forms(mark):
    whole = mark.ask_mark("add")
    assert whole["answer_story"] == "The sum is 19,900." and whole["model"] == "script"
    lines = mark.events("/api/v1/chat", {"query": "add", "chat_id": whole["chat_id"]})
    assert lines[0]["event"] == "chat" and lines[-1]["event"] == "done"
    assert [e["id"] for e in lines] == sorted({e["id"] for e in lines})
    assert lines[-1]["data"]["answer_story"] == "The sum is 19,900."
    events = mark.follow("/api/v1/chat", {"query": "add"})
    assert events[-1][1] == "done" and events[-1][2]["numbers"]["unsupported"] == []


BAD_QUESTIONS = [
    ({}, "query"), ({"query": ""}, "query"), ({"query": 7}, "query"), ({"query": None}, "query"),
    ({"query": "x" * 65537}, "query"), ({"query": "x", "chat_id": 7}, "chat_id"),
    ({"query": "x", "attachments": "x"}, "attachments"),
    ({"query": "x", "attachments": [7]}, "attachments"),
    ({"query": "x", "attachments": [NOBODY] * 21}, "attachments"),
    ({"query": "x", "model": []}, "model"), ({"query": "x", "colour": "red"}, "colour"),
]


def test_bad_questions(mark):
    for body, field in BAD_QUESTIONS:
        problem = mark.problem(422, "POST", "/api/v1/chat", body)
        assert any(field in e["loc"] for e in problem["errors"]), (body, problem)
    nothing_exists(mark)
    credentials_are_needed_on_loopback_too(mark)


def nothing_exists(mark):
    mark.problem(404, "POST", "/api/v1/chat", {"query": "x", "chat_id": NOBODY})
    mark.problem(404, "POST", "/api/v1/chat", {"query": "x", "chat_id": "../../x"})
    mark.problem(404, "POST", "/api/v1/chat", {"query": "x", "attachments": [NOBODY]})
    reply = mark.ask("POST", "/api/v1/chat", {"query": "x", "model": "gpt"})
    assert reply.status == 422 and reply.json["type"].endswith("model-unknown"), reply
    for body in ("", "{", "[]", "7", '{"query": "' + "\\u0000" + '"}'):
        assert mark.ask("POST", "/api/v1/chat", body).status in (400, 422), body


ROUTES = [("GET", ""), ("GET", "/events"), ("POST", "/regenerate"), ("POST", "/recheck"),
          ("GET", "/trace")]


def test_what_is_another_s_does_not_exist(mark):
    done = mark.ask_mark("add")
    bob = other(mark)
    for message in (done["message_id"], NOBODY, "x", "x%20y"):
        for method, what in ROUTES:
            bob.problem(404, method, f"/api/v1/messages/{message}{what}")
    bob.problem(404, "POST", f"/api/v1/chats/{done['chat_id']}/stop")
    bob.problem(404, "POST", "/api/v1/chat", {"query": "add", "chat_id": done["chat_id"]})
    assert mark.good("GET", f"/api/v1/messages/{done['message_id']}")["response"] == done


def credentials_are_needed_on_loopback_too(mark):
    nobody = Person(mark.server, None)
    nobody.problem(401, "POST", "/api/v1/chat", {"query": "x"})
    nobody.problem(401, "GET", "/api/v1/models")
    for method, what in ROUTES:
        nobody.problem(401, method, f"/api/v1/messages/{NOBODY}{what}")


# ---- events ------------------------------------------------------------------------------------


def test_resuming(mark):
    events = mark.follow("/api/v1/chat", {"query": "slow"})
    done = events[-1][2]
    path = f"/api/v1/messages/{done['message_id']}/events"
    ids = [e[0] for e in events]
    again = mark.follow(path, method="GET")
    assert again[0][1] == "chat" and again[-1][2] == done
    rest = mark.follow(path, method="GET", after=ids[2])
    assert rest[-1][2] == done and all(e[0] > ids[2] for e in rest)
    assert mark.follow(path + f"?after={ids[2]}", method="GET", after=0) == rest
    assert mark.follow(path, method="GET", after="not an id")[0][1] == "chat"
    assert mark.follow(path + f"?after={ids[-1]}", method="GET") == []
    for bad in ("-1", "x", "1e3", str(2 ** 70)):
        mark.problem(422, "GET", path + "?after=" + bad)


def test_reconnecting_while_it_is_under_way(mark):
    seen = mark.follow("/api/v1/chat", {"query": "slow"}, stop_at="story")
    message = seen[0][2]["message_id"]
    live = mark.good("GET", f"/api/v1/messages/{message}")
    assert live["status"] == "pending" and live["response"]["status"] == "pending"
    rest = mark.follow(f"/api/v1/messages/{message}/events", method="GET", after=seen[-1][0])
    assert rest[-1][1] == "done"
    story = "".join(e[2].get("delta", "") for e in seen + rest if e[1] == "story")
    assert story.strip() == rest[-1][2]["answer_story"].strip()
    assert mark.good("GET", f"/api/v1/messages/{message}")["response"] == rest[-1][2]


def test_many_readers_see_the_same(mark):
    first = mark.follow("/api/v1/chat", {"query": "slow"}, stop_at="chat")
    path = f"/api/v1/messages/{first[0][2]['message_id']}/events"
    found = []
    threads = [threading.Thread(target=lambda: found.append(mark.follow(path, method="GET")))
               for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(120)
    assert len(found) == 8
    assert len({json.dumps(f[-1][2], sort_keys=True) for f in found}) == 1


# ---- stop, regenerate, recheck, trace ----------------------------------------------------------


def test_stop(mark):
    seen = mark.follow("/api/v1/chat", {"query": "wait"}, stop_at="output")
    chat, message = seen[0][2]["chat_id"], seen[0][2]["message_id"]
    assert mark.good("GET", "/health")["mark"] == {"state": "ready", "answers": 1}
    reply = mark.ask("POST", f"/api/v1/messages/{message}/recheck")  # it is not over
    assert reply.status == 409 and reply.json["type"].endswith("answer-pending"), reply
    assert mark.good("POST", f"/api/v1/chats/{chat}/stop") == {"stopped": 1}
    rest = mark.follow(f"/api/v1/messages/{message}/events", method="GET", after=seen[-1][0])
    assert rest[-1][2]["status"] == "stopped"
    assert mark.good("POST", f"/api/v1/chats/{chat}/stop") == {"stopped": 0}
    assert mark.good("GET", "/health")["mark"]["answers"] == 0


def test_regenerate(mark):
    first = mark.ask_mark("random")
    second = mark.good("POST", f"/api/v1/messages/{first['message_id']}/regenerate")
    assert second["chat_id"] == first["chat_id"] and second["message_id"] != first["message_id"]
    assert second["status"] == "ok" and second["values"][0]["value"] != first["values"][0]["value"]
    question = mark.messages(first["chat_id"])[0]["message_id"]
    reply = mark.ask("POST", f"/api/v1/messages/{question}/regenerate")
    assert reply.status == 409 and reply.json["type"].endswith("not-an-answer"), reply


def test_recheck(mark):
    same = mark.good("POST", f"/api/v1/messages/{mark.ask_mark('add')['message_id']}/recheck")
    assert same["equal"] is True and same["values"][0]["equal"] is True
    differs = mark.good("POST", f"/api/v1/messages/{mark.ask_mark('random')['message_id']}/recheck")
    assert differs["equal"] is False
    assert {v["name"]: v["equal"] for v in differs["values"]} == {"r": False, "fixed": True}


def test_trace_and_a_failure(mark):
    done = mark.ask_mark("add")
    trace = mark.good("GET", f"/api/v1/messages/{done['message_id']}/trace")
    assert trace["message_id"] == done["message_id"] and len(trace["steps"]) == 2
    assert mark.key not in json.dumps(trace) and PASSWORD not in json.dumps(trace)
    reply = mark.ask_mark("fail", status="error")
    assert reply["answer_story"] and "sk-secret-key" not in reply["answer_story"]


# ---- models, counters --------------------------------------------------------------------------


def test_models_and_counters(mark):
    page = mark.good("GET", "/api/v1/models")
    assert page["default"] == "script"
    assert [(m["name"], m["provider"], m["demo"]) for m in page["models"]] == [
        ("script", "script", False)]
    mark.ask_mark("add")
    mark.ask_mark("fail", status="error")
    answers = mark.good("GET", "/v1/stats")["answers"]
    assert answers["by_status"]["ok"] == 1 and answers["by_status"]["error"] == 1
    assert answers["steps"] == 1 and answers["running"] == 0
    assert answers["model_calls"] >= 3 and answers["model_failures"] == 1
    metrics = mark.ask("GET", "/metrics").body.decode()
    assert 'glovebox_mark_answers_total{status="ok"} 1\n' in metrics
    assert "glovebox_mark_model_failures_total 1\n" in metrics


def test_no_model(serve):
    server = serve("--model", "none")
    ann = person(server)
    problem = ann.problem(503, "POST", "/api/v1/chat", {"query": "x"})
    assert problem["type"].endswith(":no-model") and "OPENAI_API_KEY" in problem["detail"]
    assert ann.good("GET", "/api/v1/models") == {"models": [], "default": None}
    assert server.good("GET", "/health")["mark"]["state"] == "no-model"
    ann.good("POST", "/api/v1/chat/session", {}, 201)  # all the rest works


def test_mark_off(serve):
    server = serve("--mark", "off")
    for method, path in (("POST", "/api/v1/chat"), ("GET", "/api/v1/models"),
                         ("GET", f"/api/v1/messages/{NOBODY}/events"), ("GET", "/auth/me")):
        assert server.problem(404, method, path)["type"].endswith(":mark-off"), path
    assert server.good("GET", "/health")["mark"] == {"state": "off", "answers": 0}
    assert server.good("GET", "/v1/stats")["answers"] is None
    assert server.good("POST", "/v1/execute", {"code": "6 * 7"})["status"] == "ok"


def test_the_welcome_names_the_model(gb, tmp_path):
    for options, mention in ((["--model", "none"], "has no model"),
                             (["--model", "demo=demo", "--model", "none"], "only shows a demo"),
                             (scripted(tmp_path / "m", REPLIES), "with the model 'script'")):
        port = tmp_path / "port"
        process = gb.start("serve", "--listen", "127.0.0.1:0", "--port-file", port, "--data",
                           tmp_path / "data", "--preload", "none", "--pool", "1", *options)
        wait_for(lambda: port.exists() or process.poll() is not None, 60, "the port file")
        process.terminate()
        out, err = process.communicate(timeout=120)
        assert process.returncode == 0, err
        assert mention in out.decode() and "in a browser" in out.decode(), out


# ---- the end -----------------------------------------------------------------------------------


def test_a_service_that_ends_keeps_what_there_is(serve, tmp_path):
    options = [*scripted(tmp_path / "model", REPLIES), "--model", "none"]
    server = serve(*options)
    ann = person(server)
    seen = ann.follow("/api/v1/chat", {"query": "wait"}, stop_at="output")
    assert server.stop() == 0  # long before the 600 s of the program
    again = serve(*options, data=server.data)
    ann = Person(again, ann.key)
    told = ann.good("GET", f"/api/v1/messages/{seen[0][2]['message_id']}")
    assert told["status"] == "stopped" and told["response"]["steps"], told
