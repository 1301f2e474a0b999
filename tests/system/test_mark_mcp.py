"""The MCP tool ask_data: over stdio with models of its own, and over HTTP with those of the service."""

import json

import pytest

from mark_kit import answer, run, scripted
from mcp_wire import MODERN, Http, Stdio, call, failed, notification, ran, request
from serve_kit import serve  # noqa: F401

REPLIES = [
    {"asked": "count", **run("import mark\nrows = open(mark.attachment('sales.csv')).read().splitlines()\n"
                             "mark.value('rows', len(rows) - 1)\nopen('report.txt', 'w').write('x')\n"
                             "mark.table('Rows', [{'n': i} for i in range(60)])")},
    {"asked": "count", **answer("There are {{rows}} rows.")},
    {"asked": "which", "calls": [{"name": "ask_user", "arguments": {"question": "Which year?"}}]},
    {"asked": "2025", **answer("In that year.")},
    {"asked": "wait", **run("print('begun', flush=True)\nimport time\ntime.sleep(600)")},
    {"asked": "lie", **answer("It is 98765.")},
    {"text": "Hello."},
]
CSV = "city,visits\nOslo,3\nRome,5\n"


def tools_of(client):
    return {tool["name"]: tool for tool in client.ask(request("tools/list"))["result"]["tools"]}


def result_of(response):
    ran(response)
    result = response["result"]
    assert json.loads(result["content"][0]["text"]) == result["structuredContent"]
    return result["structuredContent"]


@pytest.fixture
def client(gb, tmp_path):
    started = Stdio(gb, *scripted(tmp_path / "model", REPLIES), "--model", "none")
    yield started
    if started.process.poll() is None:
        assert started.hang_up() == 0
    assert b"Traceback" not in started.errors


def test_listed_only_with_a_model(gb, client):
    tool = tools_of(client)["ask_data"]
    assert set(tool["inputSchema"]["properties"]) == {"question", "files", "data", "chat_id",
                                                      "session_id"}
    for options in (["--model", "none"], ["--mark", "off"]):
        other = Stdio(gb, *options)
        assert "ask_data" not in tools_of(other) and len(tools_of(other)) == 9
        assert other.hang_up() == 0


def test_data_as_text(client):
    told = result_of(client.ask(call("ask_data", question="count",
                                     data=[{"name": "sales.csv", "content": CSV}])))
    assert told["status"] == "ok" and told["story"] == "There are 2 rows."
    assert told["values"] == [{"name": "rows", "value": 2, "unit": None}]
    assert told["unsupported"] == [] and told["charts"] == 0 and "mark.value" in told["code"][0]
    (table,) = told["tables"]
    assert len(table["rows"]) == 50 and table["row_count"] == 60 and table["columns"] == ["n"]
    (file,) = told["files"]
    assert file["path"] == "report.txt"
    read = client.ask(call("read_file", path="report.txt", session_id=told["session_id"]))
    assert "x" in ran(read)
    more = result_of(client.ask(call("ask_data", question="count", chat_id=told["chat_id"])))
    assert more["story"] == "There are 2 rows." and more["chat_id"] == told["chat_id"]


def test_files_of_the_session(client):
    ran(client.ask(call("upload_file", path="in/sales.csv", content=CSV)))
    for path in ("in/sales.csv", "/workspace/in/sales.csv"):
        told = result_of(client.ask(call("ask_data", question="count", files=[path])))
        assert told["story"] == "There are 2 rows."


def test_a_question_back(client):
    told = result_of(client.ask(call("ask_data", question="which")))
    assert told["status"] == "needs_input" and told["question"] == "Which year?"
    told = result_of(client.ask(call("ask_data", question="2025", chat_id=told["chat_id"])))
    assert told["story"] == "In that year."


def test_made_up_numbers_are_named(client):
    assert result_of(client.ask(call("ask_data", question="lie")))["unsupported"] == ["98765"]


def test_steps_are_progress(client):
    client.send(call("ask_data", 7, progress="p", question="count",
                     data=[{"name": "sales.csv", "content": CSV}]))
    said = []
    while (message := client.lines.next()).get("id") != 7:
        if message.get("method") == "notifications/progress":
            said.append(message["params"]["message"])
    assert "step 1: running" in said and "step 1: done" in said
    assert message["result"]["structuredContent"]["status"] == "ok"


def test_cancelling_stops_the_answer(client):
    client.send(call("ask_data", 7, progress="p", question="wait"))
    while "step 1" not in json.dumps(client.lines.notified("notifications/progress")):
        pass
    client.send(notification("notifications/cancelled", {"requestId": 7}))
    assert result_of(client.ask(call("ask_data", question="hello")))["story"] == "Hello."
    assert client.hang_up() == 0  # long before the program would end


def test_hanging_up_stops_the_answer(client):
    client.send(call("ask_data", 7, progress="p", question="wait"))
    while "step 1" not in json.dumps(client.lines.notified("notifications/progress")):
        pass
    assert client.hang_up() == 0


BAD_ARGUMENTS = [
    ({}, "question"), ({"question": ""}, "question"), ({"question": 7}, "question"),
    ({"question": "x" * 65537}, "question"), ({"question": "x", "colour": 1}, "colour"),
    ({"question": "x", "chat_id": "nonsense"}, "chat"),
    ({"question": "x", "chat_id": 7}, "chat_id"), ({"question": "x", "files": "a"}, "files"),
    ({"question": "x", "files": [7]}, "files"), ({"question": "x", "files": ["a"] * 21}, "files"),
    ({"question": "x", "files": ["nonexistent.csv"]}, "no such file"),
    ({"question": "x", "files": ["../../etc/passwd"]}, "path"),
    ({"question": "x", "data": {}}, "data"), ({"question": "x", "data": [7]}, "data"),
    ({"question": "x", "data": [{"name": "a.csv"}]}, "data"),
    ({"question": "x", "data": [{"name": "a.csv", "content": ""}]}, "data"),
    ({"question": "x", "data": [{"name": "a.csv", "content": "n", "more": 1}]}, "data"),
    ({"question": "x", "session_id": "nonsense", "files": ["a.csv"]}, "session"),
]


def test_bad_arguments(client):
    for arguments, mention in BAD_ARGUMENTS:
        assert mention in failed(client.ask(call("ask_data", **arguments))), arguments


def test_over_http_it_needs_a_key(serve, gb, tmp_path):
    data = tmp_path / "data"
    key, other = (gb("key", "create", "--data", data).out.strip() for _ in range(2))
    server = serve(*scripted(tmp_path / "model", REPLIES), "--model", "none", data=data)
    question = call("ask_data", question="hello")
    assert "key" in failed(Http(server).ask(question))
    for version in ("2025-11-25", MODERN):
        client = Http(server, version, key=key)
        assert result_of(client.ask(question))["story"] == "Hello."
    told = result_of(client.ask(question))
    stranger = Http(server, key=other)
    data = [{"name": "sales.csv", "content": CSV}]
    assert "chat" in failed(stranger.ask(call("ask_data", question="x", chat_id=told["chat_id"], data=data)))
    reply = server.ask("GET", "/api/v1/attachments", Authorization=f"Bearer {other}")
    assert reply.json["count"] == 0  # what was attached for a question that was refused is gone


def test_a_service_with_the_demo_only_has_no_such_tool(serve):
    assert "ask_data" not in tools_of(Http(serve("--model", "demo=demo", "--model", "none")))
