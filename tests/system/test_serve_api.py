"""The native API and the simple one: sessions, executions, streams, coming back."""

import json
import threading

import pytest

from conftest import wait_for
from serve_kit import serve, server, wait_running  # noqa: F401

pytestmark = pytest.mark.usefixtures("server")


def test_one_shot(server):
    receipt = server.good("POST", "/v1/execute", {"code": "print('hi')\n6 * 7"})
    assert receipt["status"] == "ok" and receipt["stdout"] == "hi\n"
    assert receipt["result"]["text/plain"] == "42" and receipt["session_id"] is None
    # What the program does wrong is a receipt, not a refusal.
    receipt = server.good("POST", "/v1/execute", {"code": "1 / 0"})
    assert receipt["status"] == "error" and receipt["error"]["name"] == "ZeroDivisionError"
    receipt = server.good("POST", "/v1/execute", {"code": "while True: pass", "timeout": 0.3})
    assert receipt["status"] == "timeout" and receipt["exit_code"] == 124
    receipt = server.good(
        "POST", "/v1/execute",
        {"code": "import os, sys\nprint(sys.stdin.read(), os.environ['A'])", "stdin": "in",
         "env": {"A": "b"}, "limits": {"memory": "256m", "timeout": 60}},
    )
    assert receipt["stdout"] == "in b\n", receipt
    receipt = server.good("POST", "/v1/execute", {"code": "6 * 7", "mode": "script"})
    assert receipt["result"] is None


def test_simple(server):
    receipt = server.good("POST", "/execute", {"code": "print(2 + 2)", "timeout": 60, "odd": 1})
    assert receipt["stdout"] == "4\n" and receipt["success"] is True and receipt["exit_code"] == 0
    session = server.session()
    server.good("POST", "/execute/", {"code": "x = 5", "session_id": session})
    receipt = server.good("POST", "/execute", {"code": "print(x)", "session_id": session})
    assert receipt["stdout"] == "5\n"
    server.problem(404, "POST", "/execute", {"code": "1", "session_id": "nope"})
    server.problem(422, "POST", "/execute", {"code": "1", "timeout": 121})
    # As the documented curl sends it.
    reply = server.ask("POST", "/execute", '{"code": "1"}',
                       Content_Type="application/x-www-form-urlencoded")
    assert reply.status == 200


def test_bad_input(server):
    session = server.session()
    paths = ["/v1/execute", f"/v1/sessions/{session}/execute", "/execute"]
    for path in paths:
        server.problem(400, "POST", path, "not json")
        server.problem(400, "POST", path, '{"code": "x"')
        server.problem(400, "POST", path, b'{"code": "\xff"}')
        server.problem(400, "POST", path, "[" * 100000)
        server.problem(422, "POST", path, {})
        server.problem(422, "POST", path, [])
        server.problem(422, "POST", path, {"code": 1})
        server.problem(422, "POST", path, {"code": "1", "timeout": "soon"})
        server.problem(422, "POST", path, {"code": "1", "timeout": 1e6})
        server.problem(413, "POST", path, json.dumps({"code": "#" * (100 << 20)}))
        server.problem(405, "GET", path)
    server.problem(422, "POST", "/v1/execute", {"code": "1", "colour": "red"})
    server.problem(422, "POST", "/v1/execute", {"code": "1", "limits": {"memory": "9t"}})
    server.problem(422, "POST", "/v1/execute", {"code": "1", "limits": {"colour": 1}})
    server.problem(422, "POST", "/v1/execute", {"code": "1", "timeout": 1, "limits": {"timeout": 1}})
    server.problem(422, "POST", "/v1/execute", {"code": "1", "env": {"A=B": "c"}})
    server.problem(422, "POST", f"/v1/sessions/{session}/execute", {"code": "#" * (9 << 20)})
    for body in ({"limits": {"pids": -1}}, {"env": {"a": 1}}, {"network": "all"}, {"idle_timeout": 0},
                 {"packages": ["../x"]}, {"template": "nope"}, {"files": [{"path": "a", "base64": "!"}]}, {"files": "x"}, {"nope": 1}):
        server.problem(422, "POST", "/v1/sessions", body)
    server.problem(400, "POST", "/v1/sessions", {"files": [{"path": "../x", "text": ""}]})
    assert len(server.good("GET", "/v1/sessions")["sessions"]) == 1  # none of these left one behind
    for path in ("/v1/sessions/nope", "/v1/executions/nope", "/v1/executions/nope/output",
                 "/v1/executions/nope/events", "/v1/sessions/nope/files", "/nothing", "/v1"):
        server.problem(404, "GET", path)
    server.problem(404, "DELETE", "/v1/sessions/nope")
    server.problem(404, "POST", "/v1/sessions/nope/keepalive")
    server.problem(404, "POST", "/v1/sessions/nope/execute", {"code": "1"})
    server.problem(404, "POST", "/v1/sessions/nope/commands", {"command": "ls"})
    server.problem(404, "POST", "/v1/executions/nope/interrupt")
    assert server.run(session, "'fine'")["result"]["text/plain"] == "'fine'"


def test_session(server):
    made = server.good(
        "POST", "/v1/sessions",
        {"env": {"WHO": "me"}, "idle_timeout": 60, "limits": {"memory": "300m"},
         "files": [{"path": "in/a.txt", "text": "text"}, {"path": "b", "base64": "AAEC"}]}, 201)
    session = made["session_id"]
    assert made["state"] == "ready" and made["limits"]["memory"] == 300 << 20
    assert made["idle_timeout"] == 60
    server.run(session, "import os\nx = [1]\nos.chdir('in')")
    receipt = server.run(session, "x.append(2)\nprint(x, open('a.txt').read(), os.environ['WHO'],"
                                  " open('../b', 'rb').read())")
    assert receipt["stdout"] == "[1, 2] text me b'\\x00\\x01\\x02'\n", receipt
    assert receipt["session_id"] == session and receipt["execution_count"] == 2
    info = server.good("GET", f"/v1/sessions/{session}")
    assert info["execution_count"] == 2
    server.run(session, "def f():\n    return 1 / 0  # in the third")
    traceback = server.run(session, "# one\n# two\nf()")["error"]["traceback"]
    assert 'File "<cell 4>", line 3, in <module>\n    f()\n' in traceback
    assert 'File "<cell 3>", line 2, in f\n    return 1 / 0  # in the third\n' in traceback
    assert server.good("POST", f"/v1/sessions/{session}/keepalive")["idle"] < 5
    others = [server.session() for _ in range(2)]
    page = server.good("GET", "/v1/sessions?limit=2")
    assert [s["session_id"] for s in page["sessions"]] == [session, others[0]] and page["more"]
    rest = server.good("GET", f"/v1/sessions?after={others[0]}")
    assert [s["session_id"] for s in rest["sessions"]] == [others[1]] and not rest["more"]
    server.good("DELETE", f"/v1/sessions/{session}", status=204)
    server.problem(404, "GET", f"/v1/sessions/{session}")
    server.problem(404, "DELETE", f"/v1/sessions/{session}")


def test_env_of_one_execution(server):
    session = server.session(env={"A": "1"})
    path = f"/v1/sessions/{session}/execute"
    show = "import os, subprocess, time\nprint(os.environ.get('A'), os.environ.get('B'), end=' ', flush=True)\n" \
           "subprocess.run('echo $A $B; date +%Z', shell=True);"
    body = {"code": show, "env": {"A": "2", "B": "é=x", "TZ": "UTC+3"}}
    assert server.good("POST", path, body)["stdout"] == "2 é=x 2 é=x\nUTC\n"
    # Restored, also after an error and what the code itself did to them.
    body = {"code": "del os.environ['A']; os.environ['B'] = 'mine'; os.environ['C'] = 'kept'\n1 / 0",
            "env": {"A": "3", "B": "4"}}
    assert server.good("POST", path, body)["status"] == "error"
    assert server.run(session, "print(os.environ.get('A'), os.environ.get('B'), os.environ['C'], "
                               "os.environ.get('TZ'))")["stdout"] == "1 None kept None\n"
    for bad in {"": "x"}, {"A=B": "x"}, {"1A": "x"}, {"A B": "x"}, {"A": 1}, {"A": "\0"}, ["A=1"]:
        server.problem(422, "POST", path, {"code": "1", "env": bad})
    server.problem(422, "POST", path, {"code": "1", "env": {"A": "x" * 70000}})
    shell = f"/v1/sessions/{session}/commands"
    server.problem(422, "POST", shell, {"command": "ls", "shell": True, "env": {"A": "1"}})
    simple = {"code": "import os; print(input(), os.environ['A'], os.environ.get('E'))"}
    receipt = server.good("POST", "/execute", {**simple, "stdin": "in\n", "env": {"A": "e"}})
    assert receipt["stdout"] == "in e None\n", receipt
    receipt = server.good("POST", "/execute", {**simple, "stdin": "in\n", "env": {"E": "f"},
                                               "session_id": session})
    assert receipt["stdout"] == "in 1 f\n", receipt
    server.problem(422, "POST", "/execute", {**simple, "env": {"=": "e"}})


def test_null_characters(server):
    """Valid JSON that nothing can use: the reply says where they are."""
    found = server.problem(422, "POST", "/v1/execute", {"code": "x = '\0'", "stdin": "\0",
                                                        "limits": {"memory": "\0"}})
    said = {error["loc"][-1]: error["msg"] for error in found["errors"]}
    assert set(said) == {"code", "stdin", "limits"}
    assert said["code"] == "source code string cannot contain null bytes"
    server.problem(422, "POST", "/v1/execute", '["\\u0000"]')
    unknown = server.problem(422, "POST", "/v1/execute", {"code": "1", "stdim": "x"})
    assert "did you mean \"stdin\"" in unknown["errors"][0]["msg"]


def test_timeout_keeps_the_session(server):
    session = server.session()
    server.run(session, "kept = 'still here'")
    assert server.run(session, "import time\ntime.sleep(60)", timeout=0.3)["status"] == "timeout"
    assert server.run(session, "kept")["result"]["text/plain"] == "'still here'"


def test_commands(server):
    session = server.session()
    path = f"/v1/sessions/{session}/commands"
    receipt = server.good("POST", path, {"command": "echo out; echo err >&2; exit 3"})
    assert (receipt["stdout"], receipt["stderr"], receipt["exit_code"]) == ("out\n", "err\n", 3)
    assert server.good("POST", path, {"command": "cat", "stdin": "typed"})["stdout"] == "typed"
    server.good("POST", path, {"command": "mkdir d; cd d; export V=7", "shell": True})
    receipt = server.good("POST", path, {"command": "pwd; echo $V", "shell": True})
    assert receipt["stdout"] == "/workspace/d\n7\n", receipt
    assert server.good("POST", path, {"command": "pwd"})["stdout"] == "/workspace\n"
    server.problem(422, "POST", path, {"command": ""})
    server.problem(422, "POST", path, {"code": "ls"})


def test_streams(server):
    session = server.session()
    code = "import sys\nprint('a')\nprint('b', file=sys.stderr)\n1 + 1"
    events = server.events(f"/v1/sessions/{session}/execute", {"code": code})
    kinds = [e["event"] for e in events]
    assert kinds[0] == "start" and kinds[-1] == "receipt" and "result" in kinds
    assert "".join(e["data"]["text"] for e in events if e["event"] == "stdout") == "a\n"
    assert "".join(e["data"]["text"] for e in events if e["event"] == "stderr") == "b\n"
    assert events[-1]["data"]["status"] == "ok"
    # Server-sent events, while it runs: the program waits for what we send after its first line.
    connection, reply = server.stream(
        f"/v1/sessions/{session}/execute",
        {"code": "import os, time\nprint('first', flush=True)\n"
                 "while not os.path.exists('go'): time.sleep(.01)\nprint('last')"},
        accept="text/event-stream")
    assert reply.headers["Content-Type"] == "text/event-stream"
    seen = b""
    while b"first" not in seen:
        seen += reply.readline()
    server.good("PUT", f"/v1/sessions/{session}/files/go", b"", 201)
    seen = reply.read()
    connection.close()
    assert b"last" in seen and b"event: receipt\ndata: {" in seen


def test_prints_and_displays_are_streamed_in_order(server):
    session = server.session()
    code = "for i in range(5):\n    print('é', i)\n    display(i)\nprint('end')"
    events = server.events(f"/v1/sessions/{session}/execute", {"code": code})
    text, places, printed = "", [], []
    for event in events:
        if event["event"] == "stdout":
            text += event["data"]["text"]
        elif event["event"] == "display":
            places.append(event["data"]["stdout_offset"])
            printed.append(text)
    assert text.splitlines() == [*(f"é {i}" for i in range(5)), "end"]
    assert places == [5, 10, 15, 20, 25]
    assert [len(before.encode()) for before in printed] == places
    outputs = events[-1]["data"]["outputs"]
    assert [output["stdout_offset"] for output in outputs] == places


def test_tasks_of_a_session(server):
    """They go on while nobody runs anything; what they print belongs to the next execution."""
    session = server.session()
    server.run(session, "import asyncio, pathlib\nasync def work():\n    await asyncio.sleep(0.01)\n"
                        "    print('between')\n    pathlib.Path('done').touch()\n    return 42\n"
                        "t = asyncio.create_task(work())")
    wait_for(lambda: server.ask("GET", f"/v1/sessions/{session}/files/done").status == 200,
             what="the task")
    receipt = server.run(session, "await t")
    assert receipt["result"]["text/plain"] == "42" and receipt["stdout"] == "between\n"
    # One that never yields costs the next execution its time, and then its own life.
    server.run(session, "async def spin():\n    while True: pass\nt = asyncio.create_task(spin())")
    assert server.run(session, "1", timeout=0.5)["status"] == "timeout"
    assert server.run(session, "await asyncio.sleep(0, 'alive')")["result"]["text/plain"] == "'alive'"


def test_coming_back(server):
    session = server.session()
    code = ("import os, time\nprint('one', flush=True)\nwhile not os.path.exists('go'): time.sleep(.01)\n"
            "print('two')")
    connection, reply = server.stream(f"/v1/sessions/{session}/execute", {"code": code})
    execution = json.loads(reply.readline())["data"]["execution_id"]
    while b"one" not in reply.readline():
        pass
    connection.close()  # it goes on without us
    assert server.good("GET", f"/v1/executions/{execution}")["status"] == "running"
    page = server.good("GET", f"/v1/executions/{execution}/output?stream=stdout&offset=0")
    assert page["text"] == "one\n" and not page["done"] and page["next"] == 4
    server.good("PUT", f"/v1/sessions/{session}/files/go", b"", 201)
    events = server.events(f"/v1/executions/{execution}/events?stdout=4", method="GET")
    assert [e["data"]["text"] for e in events if e["event"] == "stdout"] == ["two\n"]
    assert events[-1]["event"] == "receipt"
    receipt = server.good("GET", f"/v1/executions/{execution}?wait=60")
    assert receipt["status"] == "ok" and receipt["stdout"] == "one\ntwo\n"
    page = server.good("GET", f"/v1/executions/{execution}/output?offset=4")
    assert page["text"] == "two\n" and page["done"]
    for query in ("stream=x", "offset=-1", "limit=0", "nope=1"):
        server.problem(422, "GET", f"/v1/executions/{execution}/output?{query}")


def test_detach_interrupt_and_order(server):
    session = server.session()
    path = f"/v1/sessions/{session}/execute"
    first = server.good("POST", path, {"code": "import time\ntime.sleep(60)", "detach": True}, 202)
    wait_running(server, first["execution_id"])
    second = server.good("POST", path, {"code": "'second'", "detach": True}, 202)
    assert server.good("GET", f"/v1/executions/{second['execution_id']}")["status"] == "waiting"
    server.good("POST", f"/v1/executions/{first['execution_id']}/interrupt")
    receipt = server.good("GET", f"/v1/executions/{first['execution_id']}?wait=60")
    assert receipt["status"] == "cancelled" and receipt["exit_code"] == 130
    receipt = server.good("GET", f"/v1/executions/{second['execution_id']}?wait=60")
    assert receipt["result"]["text/plain"] == "'second'"
    third = server.good("POST", path, {"code": "import time\ntime.sleep(60)", "detach": True}, 202)
    wait_running(server, third["execution_id"])
    assert server.good("POST", f"/v1/sessions/{session}/interrupt")["interrupted"] == 1
    assert server.good("GET", f"/v1/executions/{third['execution_id']}?wait=60")["status"] == "cancelled"
    assert server.good("POST", f"/v1/sessions/{session}/interrupt")["interrupted"] == 0


@pytest.mark.parametrize("accept", ["application/json", "text/event-stream"])
def test_cancel_on_disconnect(server, accept):
    session = server.session()
    connection = server.connect()
    connection.request("POST", f"/v1/sessions/{session}/execute",
                       json.dumps({"code": "import time\ntime.sleep(60)", "cancel_on_disconnect": True}),
                       {"Accept": accept})
    wait_for(lambda: server.good("GET", f"/v1/sessions/{session}")["state"] == "running", 60, "a run")
    connection.close()
    wait_for(lambda: server.good("GET", f"/v1/sessions/{session}")["state"] == "ready", 60, "its end")


def test_many_clients_get_their_own_results(server):
    sessions = [server.session() for _ in range(4)]
    wrong = []

    def client(number):
        session = sessions[number % 4]
        for i in range(5):
            receipt = server.run(session, f"print({number}, {i})")
            if receipt["stdout"] != f"{number} {i}\n":
                wrong.append(receipt)

    threads = [threading.Thread(target=client, args=(n,)) for n in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_about(server):
    health = server.good("GET", "/health")
    assert health["status"] == "healthy" and health["service"] == "glovebox" and health["version"]
    assert health["isolation"] and health["authentication"] == "loopback-only"
    assert server.good("GET", "/readyz") == {"ready": True}
    assert server.good("GET", "/")["message"] == "Code execution sandbox is running"
    reply = server.ask("GET", "/", Accept="text/html")
    assert reply.status == 200 and b"<title>Glovebox</title>" in reply.body
    server.good("POST", "/v1/execute", {"code": "1"})
    metrics = server.ask("GET", "/metrics").body.decode()
    assert 'sandbox_executions_total{status="ok"} 1\n' in metrics
    assert 'sandbox_execution_duration_seconds_bucket{le="+Inf"} 1\n' in metrics
    limits = server.good("GET", "/v1/limits")
    assert limits["ceiling"]["timeout"] == 300 and limits["oneshot"]["memory"] == 512 << 20
    assert server.good("GET", "/v1/stats")["executions"]["by_status"]["ok"] == 1


def test_openapi_and_docs(server):
    spec = server.good("GET", "/openapi.json")
    assert spec["openapi"].startswith("3.1")

    def references(node):
        if isinstance(node, dict):
            if "$ref" in node:
                yield node["$ref"]
            for value in node.values():
                yield from references(value)
        elif isinstance(node, list):
            for value in node:
                yield from references(value)

    for reference in references(spec):
        node = spec
        for part in reference.removeprefix("#/").split("/"):
            node = node[part]
    ids = [op["operationId"] for item in spec["paths"].values() for op in item.values()]
    assert len(ids) == len(set(ids)) > 20
    for path, item in spec["paths"].items():
        for method, op in item.items():
            assert op["summary"] and op["responses"], (path, method)
            for name in ("id", "path"):
                named = any(p["name"] == name and p["in"] == "path" for p in op["parameters"])
                assert named == ("{%s}" % name in path), (path, method)
    # Every route that is described is there, and no receipt has a field that is not described.
    for path, item in spec["paths"].items():
        real = path.replace("{id}", "x").replace("{path}", "x")
        allow = server.ask("OPTIONS", real).headers["Allow"]
        assert all(method.upper() in allow for method in item), (path, allow)
    receipt = server.good("POST", "/v1/execute", {"code": "1"})
    described = spec["components"]["schemas"]["receipt"]
    assert set(described["required"]) <= set(receipt) <= set(described["properties"])
    reply = server.ask("GET", "/docs")
    assert reply.status == 200 and b"<!doctype html>" in reply.body
