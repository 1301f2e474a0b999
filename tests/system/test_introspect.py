"""
Completion, help and variables of live sessions, through the server: what they are not (executions),
whom they keep waiting (nobody), and programs that try to make them dear. What is found is tested in
tests/unit/test_runner_look.py.
"""

import json
import threading

import pytest

from conftest import wait_for
from serve_kit import serve, server  # noqa: F401
from test_serve_sessions import DEAF, make_key

EMPTY = {
    "complete": {"matches": [], "start": 2, "end": 2, "busy": True},
    "inspect": {"found": False, "text": "", "busy": True},
    "variables": {"variables": [], "truncated": False, "busy": True},
}


def complete(server, session, code, **more):
    return server.good("POST", f"/v1/sessions/{session}/complete", {"code": code, **more})


def inspect(server, session, code, **more):
    return server.good("POST", f"/v1/sessions/{session}/inspect", {"code": code, **more})


def variables(server, session):
    return server.good("GET", f"/v1/sessions/{session}/variables")


def names(reply):
    return [match["text"] for match in reply["matches"]]


def summaries(reply):
    return {each["name"]: each["summary"] for each in reply["variables"]}


def all_three(server, session):
    return {"complete": complete(server, session, "x."), "inspect": inspect(server, session, "x."),
            "variables": variables(server, session)}


def has_file(server, session, path):
    return server.ask("GET", f"/v1/sessions/{session}/files/{path}").status == 200


def test_answers(server):
    session = server.session()
    assert names(complete(server, session, "pri")) == ["print"]  # before anything has run
    server.run(session, "import math\nprice = 5\ndef double(amount):\n    'Twice as much.'\n    return 2 * amount")
    assert complete(server, session, "pric + 1", cursor=4) == {
        "matches": [{"text": "price", "type": "instance"}], "start": 0, "end": 4, "busy": False}
    assert names(complete(server, session, "double(am")) == ["amount="]
    assert "floor" in names(complete(server, session, "math.fl"))
    found = inspect(server, session, "double(1")
    assert found == {"found": True, "text": "double(amount)\n\nTwice as much.", "busy": False}
    assert not inspect(server, session, "nothing")["found"]
    found = variables(server, session)
    assert [each["name"] for each in found["variables"]] == ["price", "double", "math"]
    assert found["variables"][0]["type"] == "int" and found["busy"] is found["truncated"] is False
    # They are described, too.
    paths = server.good("GET", "/openapi.json")["paths"]
    assert {"/v1/sessions/{id}/complete", "/v1/sessions/{id}/inspect",
            "/v1/sessions/{id}/variables"} <= set(paths)


def test_is_no_execution(gb, server):
    session = server.session()
    server.run(session, "x = [1]\nx")
    before = server.good("GET", f"/v1/sessions/{session}")["execution_count"]
    audit = gb("audit", "--json", "--data", server.data).out.count("\n")
    for _ in range(3):
        all_three(server, session)
    assert server.good("GET", f"/v1/sessions/{session}")["execution_count"] == before == 1
    assert gb("audit", "--json", "--data", server.data).out.count("\n") == audit
    receipt = server.run(session, "print(_, len(In), Out, sorted(n for n in globals() if n[0] != '_'))")
    assert receipt["stdout"] == "[1] 3 {1: [1]} ['In', 'Out', 'x']\n"
    assert receipt["execution_count"] == 2 and receipt["outputs"] == []


def test_busy_at_once(server):
    session = server.session()
    path = f"/v1/sessions/{session}/execute"
    made = server.good("POST", path, {"code": "x = 1\nopen('begun', 'w')\nimport time\ntime.sleep(600)",
                                      "detach": True}, 202)
    wait_for(lambda: has_file(server, session, "begun"), 60, "the cell")
    assert all_three(server, session) == EMPTY
    # It was not queued behind it, either.
    assert server.good("GET", f"/v1/sessions/{session}")["waiting"] == 0
    server.good("POST", f"/v1/executions/{made['execution_id']}/interrupt")
    wait_for(lambda: not variables(server, session)["busy"], 60, "the end of the cell")
    assert summaries(variables(server, session))["x"] == "1"


ENDLESS = """
kept = 41
class Endless:
    def __repr__(self):
        open('/workspace/begun', 'w').close()
        while True: pass
    __dir__ = __repr__
endless = Endless()
after = 2
"""


def test_endless_methods(server):
    session = server.session()
    server.run(session, ENDLESS)
    assert complete(server, session, "endless.")["matches"] == []
    found = summaries(variables(server, session))
    assert found["kept"] == "41" and found["after"] == "2" and found["endless"] == "<Endless>"
    inspect(server, session, "endless")
    assert server.run(session, "kept + 1")["result"]["text/plain"] == "42"


def test_an_execution_goes_first(server):
    session = server.session()
    server.run(session, ENDLESS)
    for _ in range(3):
        found = []
        thread = threading.Thread(target=lambda: found.append(complete(server, session, "endless.")))
        thread.start()
        wait_for(lambda: has_file(server, session, "begun"), 60, "the look")
        receipt = server.run(session, "kept + 1")
        assert receipt["status"] == "ok" and receipt["result"]["text/plain"] == "42", receipt
        thread.join(60)
        assert found and found[0]["matches"] == []
        server.good("DELETE", f"/v1/sessions/{session}/files/begun", status=204)
    assert "kept" in names(complete(server, session, "kep"))


def test_a_session_ends_meanwhile(server):
    session = server.session()
    server.run(session, ENDLESS)
    found = []
    thread = threading.Thread(target=lambda: found.append(
        server.ask("GET", f"/v1/sessions/{session}/variables")))
    thread.start()
    wait_for(lambda: has_file(server, session, "begun"), 60, "the look")
    server.good("DELETE", f"/v1/sessions/{session}", status=204)
    thread.join(60)
    assert found[0].status == 200 and found[0].json["busy"] is True
    server.problem(404, "GET", f"/v1/sessions/{session}/variables")


def test_deaf_code(server):
    """Code that no interrupt reaches: the session stays busy, and the next cell has its timeout."""
    session = server.session()
    server.run(session, f"class Deaf:\n    def __repr__(self): return str({DEAF})\nx = Deaf()")
    assert variables(server, session) == EMPTY["variables"]
    assert all_three(server, session) == EMPTY
    receipt = server.run(session, "1", timeout=1)
    assert receipt["status"] == "timeout" and receipt["session_lost"]
    server.problem(409, "POST", f"/v1/sessions/{session}/execute", {"code": "1"})
    assert server.run(session, "1 + 1")["result"]["text/plain"] == "2"
    assert names(complete(server, session, "pri")) == ["print"]


SUICIDES = ["os.kill(os.getpid(), 9)", "os.abort()", "__import__('posix')._exit(3)",
            "__import__('ctypes').string_at(0)", "os.write(3, b'garbage')", "os.write(3, b'')"]


@pytest.mark.parametrize("act", SUICIDES)
def test_methods_that_end_it(server, act):
    """The variables are lost, which is said once; the session and its files stay."""
    session = server.session()
    server.run(session, f"import os\nopen('file', 'w').write('here')\n"
                        f"class Dies:\n    def __repr__(self): {act}\nx = Dies()")
    found = variables(server, session)
    if act == "os.write(3, b'')":  # the kernel may not send it
        assert found["busy"] is False
        return
    assert found == {"variables": [], "truncated": False, "busy": False}
    assert server.good("GET", f"/v1/sessions/{session}")["state"] == "lost"
    assert names(complete(server, session, "pri")) == ["print"]  # of a new interpreter
    problem = server.problem(409, "POST", f"/v1/sessions/{session}/execute", {"code": "x"})
    assert problem["type"].endswith("session-lost")
    assert server.run(session, "open('file').read()")["result"]["text/plain"] == "'here'"


def test_os_exit_is_caught(server):
    session = server.session()
    server.run(session, "import os, sys\nclass E:\n    def __repr__(self): os._exit(3)\n"
                        "    def __dir__(self): sys.exit(3)\ne = E()\nx = 1")
    assert summaries(variables(server, session))["x"] == "1"
    complete(server, session, "e.")
    assert server.run(session, "x")["result"]["text/plain"] == "1"


FORGED = """
import json, struct, socket
class Forges:
    def __repr__(self):
        control = socket.socket(fileno=3)
        def field(key, data): return struct.pack("<HI", key, len(data)) + data
        for number in range(1, 4):  # those of looks so far
            answer = {"matches": [{"text": "x" * 10000, "type": "evil"}, 7, {"text": "forged", "type": "evil"}],
                      "start": -5, "end": 10**9, "variables": [{"name": "forged", "type": 5, "summary": []}, None],
                      "found": "yes", "text": ["x"]}
            body = field(6, b"0") + field(14, b"%d" % number) + field(10, json.dumps(answer).encode())
            control.send(struct.pack("<BBHII", 1, 2, 0, len(body), len(body)) + body)
        control.detach()
        return "forged"
    __dir__ = __repr__
f = Forges()
"""


def test_forged_answers(server):
    """A program can lie about its own session, in the form of an answer and in no other."""
    session = server.session()
    server.run(session, FORGED)
    assert variables(server, session) == {"variables": [], "truncated": False, "busy": False}
    found = complete(server, session, "f.")
    assert found["matches"] == [] and (found["start"], found["end"]) == (2, 2)
    assert server.run(session, "1 + 1")["result"]["text/plain"] == "2"


def test_output_is_dropped_or_kept(server):
    session = server.session()
    server.run(session, """
import sys, threading
class Prints:
    def __repr__(self): print("muted"); sys.stderr.write("muted"); display("muted"); return "quiet"
    def __dir__(self): print("muted"); display("muted"); return ["quiet"]
p = Prints()
go, shown = threading.Event(), threading.Event()
def work():
    go.wait(600)
    print("from a thread"); display("shown by a thread"); shown.set()
threading.Thread(target=work, daemon=True).start()
class Goes:
    def __repr__(self): go.set(); shown.wait(600); return "went"
g = Goes()
""")
    assert summaries(variables(server, session))["p"] == "quiet"
    assert names(complete(server, session, "p.")) == ["quiet"]
    receipt = server.run(session, "print('cell')")
    assert receipt["stdout"] == "from a thread\ncell\n" and "muted" not in receipt["stderr"]
    assert [o["data"]["text/plain"] for o in receipt["outputs"]] == ["'shown by a thread'"], receipt


def test_streams_that_a_cell_replaced(server):
    session = server.session()
    server.run(session, "import sys, io, os\nsys.stdout = io.StringIO()\nsys.stderr = None\nx = 1")
    assert summaries(variables(server, session))["x"] == "1"
    server.run(session, "os.close(1); sys.stdout.close()")
    assert summaries(variables(server, session))["x"] == "1"
    assert server.run(session, "print(x)")["stdout"] == "1\n"


def test_threads_and_tasks_go_on(server):
    session = server.session()
    server.run(session, """
import asyncio, threading, time
ticks, tocks = [], []
def tick():
    while True: ticks.append(1); time.sleep(.001)
threading.Thread(target=tick, daemon=True).start()
async def tock():
    while True: tocks.append(1); await asyncio.sleep(.001)
task = asyncio.create_task(tock())
await asyncio.sleep(.01)
""")
    for _ in range(5):
        assert "ticks" in names(complete(server, session, "tic"))
    receipt = server.run(session, "a = len(tocks)\nwhile len(tocks) == a: await asyncio.sleep(.001)\n"
                                  "n = len(ticks)\nwhile len(ticks) == n: time.sleep(.001)\n'on'")
    assert receipt["result"]["text/plain"] == "'on'", receipt


def test_long_code(server):
    """Only a part of it goes to the interpreter; positions are those of the whole."""
    session = server.session()
    server.run(session, "größe = 1")
    for filler in ("x = 'ü'  # line\n", "ü"):
        code = filler * (200000 // len(filler.encode())) + "\ngröß"
        found = complete(server, session, code + "\n" + filler * 100, cursor=len(code))
        assert (found["start"], found["end"]) == (len(code) - 4, len(code))
        assert names(found) == ["größe"]
    code = "größ\n" + "ü" * 100000
    assert names(complete(server, session, code, cursor=3)) == ["größe"]
    assert complete(server, session, "", cursor=5)["start"] == 0
    assert complete(server, session, "ab", cursor=200)["end"] == 2


BAD = [
    ({}, "code"), ({"code": 7}, "code"), ({"code": None}, "code"), ({"code": ["x"]}, "code"),
    ({"code": "x", "cursor": -1}, "cursor"), ({"code": "x", "cursor": "1"}, "cursor"),
    ({"code": "x", "cursor": 1.5}, "cursor"), ({"code": "x", "cursor": 2**63}, ""),
    ({"code": "x", "cursor": 10**9}, "cursor"), ({"code": "x", "colour": "red"}, "colour"),
    ({"code": "x\0y"}, "code"), ({"code": "x" * (256 * 1024 + 1)}, "code"),
]


def test_bad_input(server):
    session = server.session()
    for path in ("complete", "inspect"):
        for body, field in BAD:
            reply = server.ask("POST", f"/v1/sessions/{session}/{path}", body)
            assert reply.status in (400, 413, 422), (body, reply)
            assert reply.status == 400 or field in json.dumps(reply.json), (body, reply)
        for text in ("", "{", "[]", "\xff", '"x"', "null"):
            assert server.ask("POST", f"/v1/sessions/{session}/{path}", text.encode("latin-1")).status in (400, 422)
        server.problem(404, "POST", f"/v1/sessions/ses_{'0' * 32}/{path}", {"code": "x"})
        server.problem(405, "GET", f"/v1/sessions/{session}/{path}")
    server.problem(404, "GET", f"/v1/sessions/ses_{'0' * 32}/variables")
    server.problem(405, "POST", f"/v1/sessions/{session}/variables", {})
    assert variables(server, session)["variables"] == []


def test_two_principals(gb, serve, tmp_path):
    data = tmp_path / "data"
    ann, bob = make_key(gb, data), make_key(gb, data)
    server = serve("--require-key", data=data)
    server.key = ann
    session = server.session()
    server.run(session, "secret = 'of ann'")
    for key, status in ((bob, 404), (None, 401)):
        server.key = key
        for path, body in (("complete", {"code": "sec"}), ("inspect", {"code": "secret"})):
            server.problem(status, "POST", f"/v1/sessions/{session}/{path}", body)
        server.problem(status, "GET", f"/v1/sessions/{session}/variables")
    server.key = ann
    assert summaries(variables(server, session)) == {"secret": "'of ann'"}


def test_typing_is_use(server):
    """Completion resets the idle timer, the list of variables does not."""
    session = server.session()

    def idle():
        return server.good("GET", f"/v1/sessions/{session}")["idle"]

    wait_for(lambda: idle() >= 1, 60, "a second without use")
    variables(server, session)
    assert idle() >= 1
    wait_for(lambda: complete(server, session, "pri")["matches"] and idle() < 1, 60, "use")


def test_many_at_once(server):
    """They do not get in each other's way, or in that of executions."""
    session = server.session()
    server.run(session, "x = 1")
    replies, receipts = [], []

    def type_on():
        for _ in range(20):
            replies.append(complete(server, session, "x."))
            replies.append(variables(server, session))

    def run():
        for _ in range(20):
            receipts.append(server.run(session, "x + 1"))

    threads = [threading.Thread(target=target) for target in (type_on, type_on, run, run)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(180)
    assert len(replies) == 80 and len(receipts) == 40
    assert all(r["status"] == "ok" and r["result"]["text/plain"] == "2" for r in receipts)
    wait_for(lambda: complete(server, session, "x.")["matches"], 60, "a completion")
    assert server.good("GET", f"/v1/sessions/{session}")["execution_count"] == 41
