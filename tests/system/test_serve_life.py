"""The server's life: start, who may come in, hostile clients, draining, the log."""

import contextlib
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import threading
import time

import pytest

from conftest import wait_for
from mcp_wire import BOTH, call, modern, modern_headers
from serve_kit import serve, server, wait_running  # noqa: F401


def refused(gb, tmp_path, *options, code=2):
    result = gb("serve", "--data", tmp_path / "d", *options)
    assert result.code == code, result
    return result.err


def test_health_says_why_there_are_no_cgroups(server, has_cgroups):
    """All of it, up to what to do about it."""
    note = server.good("GET", "/health")["isolation"].get("note", "")
    assert has_cgroups or re.fullmatch(
        r"no control groups \(v2: .+; v1: .+\): "
        r"(start it as .*(\.\.\.`|hierarchy)|mount .*(container|memory\)))", note), note


def test_does_not_start(gb, tmp_path):
    assert "no API key exists" in refused(gb, tmp_path, "--listen", "0.0.0.0:0")
    assert "no API key exists" in refused(gb, tmp_path, "--listen", "[::]:0")
    assert "address" in refused(gb, tmp_path, "--listen", "nonsense")
    assert "dialect" in refused(gb, tmp_path, "--listen", "127.0.0.1:0,dialect=nope")
    assert "--max-memory" in refused(gb, tmp_path, "--memory", "64g")
    assert "contradict" in refused(gb, tmp_path, "--no-auth", "--require-key")
    assert "nope" in refused(gb, tmp_path, "--config", tmp_path / "nope")
    assert "log" in refused(gb, tmp_path, "--log-file", tmp_path / "no" / "where")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        err = refused(gb, tmp_path, "--listen", f"127.0.0.1:{port}", "--preload", "none", code=125)
        assert "in use" in err


def test_says_where_it_is(gb, tmp_path):
    p = gb.start("serve", "--listen", "127.0.0.1:0", "--data", tmp_path / "d", "--preload", "none",
                 "--pool", "0", "--port-file", tmp_path / "port")
    lines = [p.stdout.readline().decode() for _ in range(5)]
    port = (tmp_path / "port").read_text().strip()
    assert lines[0].endswith(f"listening at http://127.0.0.1:{port}\n")
    assert any("curl -d" in line and f":{port}/v1/execute" in line for line in lines)
    assert any(f":{port}/docs" in line for line in lines)
    p.send_signal(signal.SIGINT)
    assert gb.finish(p).code == 0
    assert not (tmp_path / "port").exists()


def test_configuration_file_and_environment(serve, tmp_path):
    (tmp_path / "conf").write_text("max-sessions = 1\ndefault-timeout = 7\n")
    server = serve("--config", tmp_path / "conf",
                   env={"MAX_EXECUTION_TIME": "9", "GLOVEBOX_MAX_TIMEOUT": "20", "MAX_MEMORY_MB": "300"})
    limits = server.good("GET", "/v1/limits")
    assert limits["oneshot"]["timeout"] == 7 and limits["ceiling"]["timeout"] == 20
    assert limits["oneshot"]["memory"] == 300 << 20
    server.problem(422, "POST", "/execute", {"code": "1", "timeout": 10})
    server.good("POST", "/execute", {"code": "1", "timeout": 9})
    server.session()
    server.problem(429, "POST", "/v1/sessions", {})


def test_several_modules_are_preloaded(serve):
    server = serve(preload="decimal,colorsys")
    look = "import sys; print([name in sys.modules for name in ('decimal', 'colorsys', 'wave')])"
    told = server.good("POST", "/v1/execute", {"code": look})
    assert told["stdout"] == "[True, True, False]\n"


def test_unix_socket(gb, tmp_path):
    path = tmp_path / "s"
    p = gb.start("serve", "--listen", f"unix:{path}", "--data", tmp_path / "d", "--preload", "none",
                 "--pool", "0")
    p.stdout.readline()
    assert oct(path.stat().st_mode & 0o777) == "0o600"
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(str(path))
        s.sendall(b"GET /health HTTP/1.1\r\nHost: any\r\nConnection: close\r\n\r\n")
        assert s.makefile("rb").read().startswith(b"HTTP/1.1 200")
    second = gb("serve", "--listen", f"unix:{path}", "--data", tmp_path / "e", "--preload", "none")
    assert second.code == 125 and "another server" in second.err
    p.terminate()
    assert gb.finish(p).code == 0
    assert not path.exists()


def test_keys_own_their_sessions(serve, gb, tmp_path):
    data = tmp_path / "keys"
    tokens = [json.loads(gb("key", "create", "--json", "--data", data).out) for _ in range(2)]
    key = {name: next(v for v in t.values() if isinstance(v, str) and v.startswith("gb_"))
           for name, t in zip("ab", tokens)}
    server = serve("--require-key", data=data)
    server.problem(401, "GET", "/v1/sessions")
    server.problem(401, "GET", "/metrics")
    server.problem(401, "POST", "/execute", {"code": "1"})
    server.problem(401, "GET", "/v1/sessions", Authorization="Bearer gb_000000000000_" + "0" * 64)
    reply = server.ask("GET", "/v1/sessions", X_API_Key="nonsense")
    assert reply.status == 401 and reply.headers["WWW-Authenticate"].startswith("Bearer")
    assert server.ask("GET", "/health").status == server.ask("GET", "/docs").status == 200
    made = server.good("POST", "/v1/sessions", {}, 201, X_API_Key=key["a"])
    session = made["session_id"]
    receipt = server.good("POST", f"/v1/sessions/{session}/execute", {"code": "1"},
                          Authorization="Bearer " + key["a"])
    other = {"X_API_Key": key["b"]}
    server.problem(404, "GET", f"/v1/sessions/{session}", **other)
    server.problem(404, "DELETE", f"/v1/sessions/{session}", **other)
    server.problem(404, "POST", f"/v1/sessions/{session}/execute", {"code": "1"}, **other)
    server.problem(404, "PUT", f"/v1/sessions/{session}/files/x", b"x", **other)
    server.problem(404, "GET", f"/v1/executions/{receipt['execution_id']}", **other)
    assert server.good("GET", "/v1/sessions", **other)["sessions"] == []
    assert len(server.good("GET", "/v1/sessions", X_API_Key=key["a"])["sessions"]) == 1
    listed = json.loads(gb("key", "list", "--json", "--data", data).out)
    ids = [k["id"] for k in (listed if isinstance(listed, list) else listed["keys"])]
    assert gb("key", "revoke", ids[0], "--data", data).code == 0
    wait_for(lambda: server.ask("GET", "/v1/sessions", X_API_Key=key["a"]).status == 401, 60, "401")
    assert server.ask("GET", "/v1/sessions", **other).status == 200


def test_no_web_page_drives_it(serve):
    server = serve("--allowed-host", "box.example")
    for headers in ({"Host": "evil.example"}, {"Host": "127.0.0.1.evil.example:80"}):
        server.problem(421, "POST", "/execute", {"code": "1"}, **headers)
    assert server.ask("POST", "/execute", {"code": "1"}, Host="box.example").status == 200
    for headers in ({"Origin": "http://evil.example"}, {"Origin": "null"},
                    {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}):
        server.problem(403, "POST", "/execute", {"code": "1"}, **headers)
        server.problem(403, "GET", "/health", **headers)
    reply = server.ask("OPTIONS", "/execute", Origin="http://evil.example",
                       Access_Control_Request_Method="POST")
    assert reply.status == 403 and "Access-Control-Allow-Origin" not in reply.headers
    origin = f"http://127.0.0.1:{server.port}"
    assert server.ask("POST", "/execute", {"code": "1"}, Origin=origin,
                      Sec_Fetch_Site="same-origin").status == 200


BROKEN = [
    b"POST /execute HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
    b"POST /execute HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n"
    b"\r\n0\r\n\r\n",
    b"POST /execute HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"POST /execute HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff1\r\n",
    b"GET /health HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    b"GET /health HTTP/1.1\r\n\r\n",
    b"GET /health\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"\x00" * 1000,
    b"A" * 200_000,
    b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"GET /health HTTP/1.1\r\nHost: localhost\r\n" + b"X: y\r\n" * 30_000 + b"\r\n",
    b"POST /execute HTTP/1.1\r\nHost: localhost\r\nContent-Length : 2\r\n\r\n{}",
]


def test_broken_requests(server):
    for data in BROKEN:
        with socket.create_connection(("127.0.0.1", server.port), timeout=60) as s:
            with contextlib.suppress(OSError):  # it may close at the first bad byte
                s.sendall(data)
                s.shutdown(socket.SHUT_WR)
            found = b""
            with contextlib.suppress(ConnectionResetError):
                while piece := s.recv(65536):
                    found += piece
        assert not found.startswith(b"HTTP/1.1 5"), (data[:80], found[:200])
        assert not found.startswith(b"HTTP/1.1 2"), (data[:80], found[:200])
    assert server.ask("GET", "/health").status == 200


def test_pipelined_and_half_closed(server):
    one = b'POST /execute HTTP/1.1\r\nHost: localhost\r\nContent-Length: 20\r\n\r\n{"code": "print(1)"}'
    found = server.raw(one * 3 + b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    assert found.count(b'"stdout":"1\\n"') == 3 and b'{"ready":true}' in found
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as s:
        s.sendall(one)
        s.shutdown(socket.SHUT_WR)
        assert b'"stdout":"1\\n"' in s.makefile("rb").read()


def test_idle_clients_harm_nobody(server):
    """Many that say nothing, or begin and stop; the next one is served at once."""
    with contextlib.ExitStack() as stack:
        for i in range(200):
            s = stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=60))
            if i % 2:
                s.sendall(b"POST /execute HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n\r\n{")
        assert server.good("POST", "/execute", {"code": "print(1)"})["stdout"] == "1\n"


def test_drain(serve):
    server = serve("--grace", "120")
    session = server.session()
    connection, reply = server.stream(
        f"/v1/sessions/{session}/execute",
        {"code": "import os, time\nprint('up', flush=True)\n"
                 "while not os.path.exists('go'): time.sleep(.01)\nprint('finished')"})
    while b"up" not in reply.readline():
        pass
    server.process.send_signal(signal.SIGTERM)
    wait_for(lambda: server.ask("GET", "/readyz").status == 503, 60, "not ready")
    server.problem(503, "POST", "/execute", {"code": "1"})
    server.problem(503, "POST", "/v1/sessions", {})
    assert server.good("GET", "/health")["draining"] is True
    server.good("PUT", f"/v1/sessions/{session}/files/go", b"", 201)
    rest = reply.read()
    connection.close()
    assert b"finished" in rest and b'"event":"receipt"' in rest
    assert server.process.wait(60) == 0


def test_drain_has_an_end(serve):
    server = serve("--grace", "0.5")
    session = server.session()
    started = server.good("POST", f"/v1/sessions/{session}/execute",
                          {"code": "while True: pass", "detach": True}, 202)
    wait_running(server, started["execution_id"])
    assert server.stop() == 0


def test_second_signal_ends_at_once(serve):
    server = serve("--grace", "600")
    session = server.session()
    started = server.good("POST", f"/v1/sessions/{session}/execute",
                          {"code": "while True: pass", "detach": True}, 202)
    wait_running(server, started["execution_id"])
    server.process.send_signal(signal.SIGTERM)
    wait_for(lambda: server.ask("GET", "/readyz").status == 503, 60, "not ready")
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(60) == 128 + signal.SIGTERM


def test_killed(serve):
    """Nothing is left of it, and the next one starts in the same place."""
    server = serve()
    server.run(server.session(), "import subprocess\nsubprocess.Popen(['sleep', '600'])")
    server.process.kill()
    server.process.wait(60)
    again = serve(data=server.data)
    assert again.good("GET", "/v1/sessions")["sessions"] == []
    assert again.good("POST", "/execute", {"code": "print(1)"})["stdout"] == "1\n"


def test_log(serve):
    server = serve()
    session = server.session()
    server.run(session, "secret_word = 'abracadabra'")
    server.ask("GET", "/v1/sessions/x%0a%22%7d%1b[31m")
    server.ask("GET", "/nothing", X_Odd="\x1b[31m")
    server.stop()
    lines = [json.loads(line) for line in server.log.read_text().splitlines()]
    requests = [line for line in lines if line["event"] == "request"]
    run = next(line for line in requests if line["path"] == "/v1/sessions/{id}/execute")
    assert run["method"] == "POST" and run["status"] == 200 and run["session"] == session
    assert run["ms"] > 0 and run["id"].startswith("req_") and run["execution"]
    text = server.log.read_text()
    assert "abracadabra" not in text and "\x1b" not in text and "secret_word" not in text


def test_log_code(serve):
    """Each program is in the log once, whole, whichever way it came."""
    server = serve("--log-code")
    tail = "# " + "x" * 1000 + " the end"
    session = server.session()
    server.good("POST", "/execute", {"code": "print('simple')" + tail})
    server.good("POST", "/v1/execute", {"code": "print('oneshot')" + tail})
    server.run(session, "print('cell')" + tail)
    server.good("POST", f"/v1/sessions/{session}/commands", {"command": "echo command " + tail})
    server.good("POST", "/execute_code", {"code": "word = 'dialect'" + tail})
    message = modern(call("execute_python", code="print('mcp')" + tail))
    headers = {name.replace("-", "_"): value for name, value in modern_headers(message).items()}
    server.good("POST", "/mcp", message, Accept=BOTH, **headers)
    server.stop()
    lines = [json.loads(line) for line in server.log.read_text().splitlines()]
    code = [line for line in lines if tail in json.dumps(line)]
    assert all(line["event"] == "code" and line["code"].endswith(tail) for line in code)
    for word in ("simple", "oneshot", "cell", "command", "dialect", "mcp"):
        assert sum(word in line["code"] for line in code) == 1, word
    # The line of the request has the same id.
    ids = {line["execution"] for line in code}
    assert len(ids) == len(code) == 6
    assert ids == {line.get("execution") for line in lines if line["event"] == "request"} & ids
