"""What sessions promise through the server: what stays, what is lost and said, what is limited."""

import json
import socket

from conftest import wait_for
from serve_kit import serve, server  # noqa: F401  fixtures

DEAF = "sum(range(10**12))"  # one call of C code: no interrupt reaches it


def make_key(gb, data, *options):
    made = json.loads(gb("key", "create", "--json", "--data", data, *options).out)
    return next(v for v in made.values() if isinstance(v, str) and v.startswith("gb_"))


def test_what_stays(server):
    session = server.session(env={"COLOUR": "blue"}, files=[{"path": "in/a.txt", "text": "hello"}])
    server.run(session, "import os, threading, time\nos.makedirs('deep')\nos.chdir('deep')\nticks = []\n"
                        "def tick():\n    while True:\n        ticks.append(1)\n        time.sleep(.01)\n"
                        "threading.Thread(target=tick, daemon=True).start()")
    assert server.run(session, "os.getcwd()")["result"]["text/plain"] == "'/workspace/deep'"
    receipt = server.run(session, "n = len(ticks)\nwhile len(ticks) == n: time.sleep(.01)\n"
                                  "os.environ['COLOUR'], open('/workspace/in/a.txt').read()")
    assert receipt["result"]["text/plain"] == "('blue', 'hello')", receipt
    receipt = server.run(session, "import sys\nsys.exit(3)")
    assert (receipt["status"], receipt["exit_code"]) == ("error", 3) and not receipt["session_lost"]
    assert server.run(session, "os.getcwd()")["status"] == "ok"


def test_children_of_cells(server):
    session = server.session()
    child = "import subprocess\nkept = subprocess.Popen(['sleep', '1000'])"
    server.run(session, child)
    # As many seconds as a machine that stalls may need to come to its last line.
    server.run(session, "lost = subprocess.Popen(['sleep', '1000'])\nimport time\ntime.sleep(1000)",
               timeout=5)
    receipt = server.run(session, "lost.wait(), kept.poll()")
    # Of the interrupt or of the kill that follows it; the one of the cell before lives on.
    assert receipt["result"]["text/plain"] in ("(-2, None)", "(-9, None)"), receipt


def test_loss_is_said(server):
    session = server.session()
    server.run(session, "x = 1\nopen('kept.txt', 'w').write('here')")
    receipt = server.run(session, DEAF, timeout=3)  # it has begun by then
    assert receipt["status"] == "timeout" and receipt["session_lost"] is True
    problem = server.problem(409, "POST", f"/v1/sessions/{session}/execute", {"code": "x"})
    assert problem["type"].endswith("session-lost") and "files" in problem["detail"]
    receipt = server.run(session, "open('kept.txt').read()")
    assert receipt["result"]["text/plain"] == "'here'"
    assert server.run(session, "x")["error"]["name"] == "NameError"
    assert server.run(session, "import os\nos._exit(9)")["session_lost"]
    assert server.run(session, "1 + 1", accept_loss=True)["result"]["text/plain"] == "2"


def test_out_of_memory_loses_one_session_only(serve):
    server = serve("--memory", "64m")
    doomed, other = server.session(), server.session()
    server.run(other, "x = 'mine'")
    receipt = server.run(doomed, "x = bytearray(1 << 30)\nx[::4096] = b'1' * len(x[::4096])")
    assert receipt["status"] in ("oom", "error"), receipt
    assert server.run(other, "x")["result"]["text/plain"] == "'mine'"


def test_idle_sessions_expire(serve):
    server = serve("--sweep", "1")
    session = server.session(idle_timeout=1)
    wait_for(lambda: server.ask("GET", f"/v1/sessions/{session}").status == 404, 60, "the sweep")
    problem = server.problem(404, "POST", f"/v1/sessions/{session}/execute", {"code": "1"})
    assert "expired" in problem["detail"] or "expired" in problem["type"], problem
    never = server.problem(404, "GET", "/v1/sessions/ses_" + "0" * 32)
    assert never["type"] != problem["type"]


def test_limits_of_a_key(serve, gb, tmp_path):
    data = tmp_path / "keys"
    few = make_key(gb, data, "--sessions", "1", "--executions", "1")
    slow = make_key(gb, data, "--rate", "2")
    server = serve("--require-key", data=data)
    server.key = few
    session = server.session()
    server.problem(429, "POST", "/v1/sessions", {})
    path = f"/v1/sessions/{session}/execute"
    made = server.good("POST", path, {"code": "import time\ntime.sleep(60)", "detach": True}, 202)
    server.problem(429, "POST", "/v1/execute", {"code": "1"})
    server.good("POST", f"/v1/executions/{made['execution_id']}/interrupt")
    wait_for(lambda: server.ask("POST", "/v1/execute", {"code": "1"}).status == 200, 60, "room")
    server.key = slow
    answers = [server.ask("POST", "/v1/execute", {"code": "1"}).status for _ in range(4)]
    assert answers.count(200) == 2 and answers.count(429) == 2, answers
    server.problem(429, "POST", "/v1/execute", {"code": "1"})


def test_long_output_is_cut_and_paged(server):
    lines = 200_000
    session = server.session()
    receipt = server.run(session, f"for i in range({lines}): print(i)")
    whole = "".join(f"{i}\n" for i in range(lines))
    left_out = receipt["truncated"]["stdout"]
    assert receipt["status"] == "ok" and left_out > 0
    assert receipt["stdout"].startswith("0\n1\n") and receipt["stdout"].endswith(f"{lines - 1}\n")
    found, offset = "", 0
    while True:
        page = server.good("GET", f"/v1/executions/{receipt['execution_id']}/output"
                                  f"?stream=stdout&offset={offset}")
        found, offset = found + page["text"], page["next"]
        if page["done"] and not page["text"]:
            break
        assert page["text"], page
    assert found == whole


def test_a_flood_does_not_grow_us(server):
    session = server.session()
    server.run(session, "1")
    before = server.memory()
    receipt = server.run(session, "import os\nfor _ in range(256): os.write(1, b'x' * (1 << 20))")
    assert receipt["status"] == "ok" and receipt["truncated"]["stdout"] > 200 << 20, receipt["status"]
    assert server.memory() - before < 24 << 20


def test_connections_are_limited(serve):
    server = serve("--connections", "4")
    held = [socket.create_connection(("127.0.0.1", server.port), timeout=60) for _ in range(4)]
    try:
        for s in held:
            s.sendall(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert s.recv(4096).startswith(b"HTTP/1.1 ")
        with socket.create_connection(("127.0.0.1", server.port), timeout=60) as more:
            try:
                more.sendall(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n")
                assert more.recv(4096) == b""
            except (ConnectionResetError, BrokenPipeError):
                pass
    finally:
        for s in held:
            s.close()
    wait_for(lambda: answers(server), 60, "a free place")


def answers(server):
    try:
        return server.ask("GET", "/readyz").status == 200
    except (ConnectionError, socket.timeout):
        return False


def test_audit_log(serve, gb, tmp_path):
    data = tmp_path / "audited"
    server = serve(data=data)
    code = "print('a secret: 4711')"
    receipt = server.good("POST", "/v1/execute", {"code": code})
    session = server.session()
    server.run(session, "1 / 0")
    server.stop()
    verdict = gb("audit", "verify", "--data", data)
    assert verdict.code == 0, verdict.err
    shown = gb("audit", "show", "--json", "--data", data)
    assert "4711" not in shown.out
    entries = json.loads(shown.out)["entries"]
    assert [e["execution_id"] for e in entries][0] == receipt["execution_id"]
    assert [e["status"] for e in entries] == ["ok", "error"]
    assert entries[1]["session_id"] == session
