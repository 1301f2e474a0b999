"""Networks of sessions: what the operator permits, what a session asks for, what others see of it."""

import contextlib
import json
import os
import threading

from conftest import wait_for
from net_kit import CA, KIT, Web, names, web  # noqa: F401  fixtures
from serve_kit import serve, server  # noqa: F401  fixtures

SECRET = "Bearer s3cr3t-0123456789abcdef"


def value(receipt):
    assert receipt["status"] == "ok", receipt
    return eval(receipt["result"]["text/plain"])  # what the test's own cell computed


def census(server):
    """Threads and descriptors of the server's process, without files of workspaces: one that a
    session has left is kept for the next."""
    base = f"/proc/{server.process.pid}"
    files = 0
    for fd in os.listdir(base + "/fd"):
        with contextlib.suppress(FileNotFoundError):  # it was closed meanwhile
            files += not os.readlink(f"{base}/fd/{fd}").startswith(f"{server.data}/workspaces/")
    return len(os.listdir(base + "/task")), files


def census_at_rest(server):
    """The same once the pool is full: until then there is less."""
    wait_for(lambda: metric(server, "glovebox_boxes_ready") == 1, 60, "the pool")
    return census(server)


def is_back(server, before):
    return all(now <= then for now, then in zip(census(server), before))


def metric(server, name):
    text = server.ask("GET", "/metrics").body.decode()
    return int(next(line for line in text.splitlines() if line.startswith(name + " ")).split()[1])


def test_nothing_unless_the_operator_permits_it(server):
    secret = {"host": "example.com", "header": "X-Key", "value": SECRET}
    for path, body in (("/v1/sessions", {}), ("/v1/execute", {"code": "1"})):
        problem = server.problem(403, "POST", path, {**body, "network": {"allow": ["example.com"]}})
        assert problem["type"].endswith("network-not-permitted")
        assert "example.com" in problem["detail"] and "--network-allow" in problem["detail"]
        problem = server.problem(403, "POST", path, {**body, "network": {"secrets": [secret]}})
        assert SECRET not in json.dumps(problem)
    assert server.good("GET", "/v1/limits")["network"] == {"allow": [], "secrets": []}
    session = server.session(network={"allow": []})
    assert server.good("GET", f"/v1/sessions/{session}")["network"] == {"allow": [], "secrets": []}
    assert value(server.run(session, "import os; [k for k in os.environ if 'proxy' in k]")) == []


def test_malformed(server):
    for network in ("all", [], {"deny": []}, {"allow": "x"}, {"allow": [1]}, {"allow": ["a/b"]},
                    {"allow": [""]}, {"secrets": [{"host": "a.example"}]}, {"secrets": ["x"]},
                    {"secrets": [{"host": "a.example", "header": "H", "value": "v", "x": 1}]},
                    {"secrets": [{"host": "a.example", "header": "H", "value": 1}]},
                    {"secrets": [{"host": "a.example", "header": "Host", "value": SECRET}]},
                    {"secrets": [{"host": "a.example", "header": "H", "value": "a\nb"}]},
                    {"secrets": [{"host": "a.example", "header": "H", "value": "v", "port": 70000}]}):
        for path, body in (("/v1/sessions", {}), ("/v1/execute", {"code": "1"})):
            problem = server.problem(422, "POST", path, {**body, "network": network})
            assert SECRET not in json.dumps(problem)
    stats = server.good("GET", "/v1/stats")
    assert stats["sessions"]["live"] == 0 and stats["executions"]["by_status"].get("ok", 0) == 0
    session = server.session()
    server.problem(422, "POST", f"/v1/sessions/{session}/execute",
                   {"code": "1", "network": {"allow": []}})


def test_a_session_reaches_what_it_asked_for(serve, web):
    here = f"127.0.0.1:{web.port}"
    server = serve("--network-allow", here, "--network-allow", "*.example.com")
    assert server.good("GET", "/v1/limits")["network"]["allow"] == [here, "*.example.com"]
    before = census_at_rest(server)
    shut = server.session()
    session = server.session(network={"allow": [here, "api.example.com"]}, env={"COLOUR": "blue"})
    shown = server.good("GET", f"/v1/sessions/{session}")
    assert shown["network"] == {"allow": [here, "api.example.com"], "secrets": []}
    server.run(session, KIT)
    receipt = server.run(session, f"get('http://{here}/'), get('http://127.0.0.1:1/')[0], os.environ['COLOUR']")
    assert value(receipt) == ((200, "hello from the host\n"), 403, "blue")
    assert receipt["usage"]["hosts"] == [here]
    # Each receipt has its own; commands, shells and a new interpreter find the proxy too.
    receipt = server.run(session, "get('http://www.example.com/')")
    assert value(receipt)[0] == 403 and "network.allow" in value(receipt)[1]
    assert receipt["usage"]["hosts"] == []
    assert [(c["host"], c["refused"]) for c in receipt["network"]] == [("www.example.com", 1)]
    fetch = f"python3 -c \"import urllib.request as r; print(r.urlopen('http://{here}/').read())\""
    for shell in (False, True):
        receipt = server.good("POST", f"/v1/sessions/{session}/commands",
                              {"command": fetch, "shell": shell, **({} if shell else {"env": {"A": "b"}})})
        assert "hello from the host" in receipt["stdout"], receipt
        assert receipt["usage"]["hosts"] == [here]
    server.run(session, "os._exit(1)")
    receipt = server.run(session, KIT + f"get('http://{here}/')", accept_loss=True)
    assert value(receipt)[0] == 200
    # The neighbour has none of it.
    assert value(server.run(shut, KIT + f"get('http://{here}/')[0]")) == 0
    assert metric(server, "glovebox_network_requests_total") == 4
    assert metric(server, "glovebox_network_refused_total") == 2
    assert metric(server, "glovebox_network_received_bytes_total") > 0
    log = server.log.read_text()
    assert f"session {session}: reached {here}" in log
    assert f"session {session}: refused www.example.com:80" in log
    for s in (session, shut):
        server.good("DELETE", f"/v1/sessions/{s}", status=204)
    wait_for(lambda: is_back(server, before), 60, what=f"{before} threads and descriptors")


def test_a_one_shot_reaches_what_it_asked_for(serve, web):
    here = f"127.0.0.1:{web.port}"
    server = serve("--network-allow", here)
    before = census_at_rest(server)
    ask = {"code": KIT + f"get('http://{here}/'), get('http://127.0.0.1:1/')[0], os.environ['COLOUR']",
           "network": {"allow": [here]}, "env": {"COLOUR": "blue"}}
    receipt = server.good("POST", "/v1/execute", ask)
    assert value(receipt) == ((200, "hello from the host\n"), 403, "blue")
    assert receipt["usage"]["hosts"] == [here]
    assert sorted(c["refused"] for c in receipt["network"]) == [0, 1]
    assert f"execution {receipt['execution_id']}: reached {here}" in server.log.read_text()
    # On a worker, too; and the next one has none of it.
    events = server.events("/v1/execute", ask)
    assert events[-1]["event"] == "receipt" and events[-1]["data"]["usage"]["hosts"] == [here], events
    assert value(server.good("POST", "/v1/execute", {"code": KIT + f"get('http://{here}/')[0]"})) == 0
    # One that is killed while it is connected leaves no connection behind.
    flood = ("import time, urllib.request\n"
             f"r = urllib.request.urlopen('http://{here}/flood')\nr.read(9), time.sleep(600)")
    receipt = server.good("POST", "/v1/execute",
                          {"code": flood, "network": {"allow": [here]}, "timeout": 2})
    assert receipt["status"] == "timeout", receipt
    wait_for(lambda: metric(server, "glovebox_network_connections") == 0, 60, "no connection")
    wait_for(lambda: is_back(server, before), 60, what=f"{before} threads and descriptors")


def test_the_end_of_a_session_cuts_what_it_has_open(serve, web):
    here = f"127.0.0.1:{web.port}"
    server = serve("--network-allow", here)
    before = census_at_rest(server)
    session = server.session(network={"allow": [here]})
    server.run(session, KIT + f"""
import threading
held = [socket.create_connection(("127.0.0.1", 3128)) for i in range(10)]
for s in held[:5]:
    s.sendall(b"CONNECT {here} HTTP/1.1\\r\\n\\r\\n")
    s.recv(100)
for s in held[5:]:
    s.sendall(b"GET http://")
flood = threading.Thread(target=get, args=("http://{here}/flood",), daemon=True)
flood.start()
""")
    wait_for(lambda: metric(server, "glovebox_network_requests_total") == 6)
    server.good("DELETE", f"/v1/sessions/{session}", status=204)
    wait_for(lambda: is_back(server, before), 60, what=f"{before} threads and descriptors")
    assert metric(server, "glovebox_network_connections") == 0


def test_ten_thousand_connections_hurt_nobody_else(serve, web):
    here = f"127.0.0.1:{web.port}"
    server = serve("--network-allow", here, "--network-connections", "8")
    hostile, other = (server.session(network={"allow": [here]}) for i in range(2))
    server.run(hostile, KIT + """
def storm(count):
    held = []
    for i in range(count):
        s = socket.socket()
        s.setblocking(False)
        s.connect_ex(("127.0.0.1", 3128))
        held.append(s)
        if len(held) == 400:
            for s in held:
                s.close()
            held = []
    return held
""")
    server.run(other, KIT)
    storm = threading.Thread(target=lambda: server.run(hostile, "held = storm(10000 + 300)", timeout=300))
    storm.start()
    try:
        for i in range(5):
            assert value(server.run(other, f"get('http://{here}/')"))[0] == 200
        threads, _ = census(server)
    finally:
        storm.join()
    # Its connections are bounded, and so are the threads that serve them.
    assert metric(server, "glovebox_network_connections") <= 16 and threads < 100
    assert value(server.run(other, f"get('http://{here}/')"))[0] == 200
    receipt = server.run(hostile, f"for s in held: s.close()\nget('http://{here}/')", timeout=120)
    assert value(receipt)[0] == 200


def files_beneath(path):
    for directory, _, files in os.walk(path):
        for name in files:
            with open(os.path.join(directory, name), "rb") as f:
                yield name, f.read()


def test_secrets_of_a_session(serve, names):
    vault = Web(tls=True)
    try:
        names.answers = {"secret.test": [["127.0.0.1"]]}
        server = serve("--network-allow", f"secret.test:{vault.port}", "--network-resolver",
                       names.address, "--network-address", "127.0.0.1", "--network-ca", CA,
                       "--log-level", "debug", "--log-code")
        secret = {"host": "secret.test", "port": vault.port, "header": "X-Key", "value": SECRET}
        made = server.good("POST", "/v1/sessions", {"network": {"secrets": [secret]}}, 201)
        session = made["session_id"]
        receipt = server.run(session, KIT + f"get('http://secret.test:{vault.port}/headers')")
        assert value(receipt)[0] == 200 and vault.seen[0][2]["X-Key"] == SECRET
        shown = server.good("GET", f"/v1/sessions/{session}")
        assert shown["network"] == {"allow": [f"secret.test:{vault.port}"],
                                    "secrets": [f"secret.test:{vault.port} X-Key"]}
        seen = [made, receipt, shown, server.good("GET", "/v1/sessions"),
                server.good("GET", "/v1/limits"), server.good("GET", "/v1/stats"),
                server.good("GET", f"/v1/executions/{receipt['execution_id']}")]
        assert "s3cr3t" not in json.dumps(seen)
        # Another session has no part in it.
        other = server.session(network={"allow": [f"secret.test:{vault.port}"]})
        assert value(server.run(other, KIT + f"get('http://secret.test:{vault.port}/')[0]")) == 502
        assert server.stop() == 0
        for name, data in [*files_beneath(server.data), ("log", server.log.read_bytes())]:
            assert b"s3cr3t" not in data, name
    finally:
        vault.close()


def test_secrets_of_the_operator(serve, names, tmp_path):
    vault = Web(tls=True)
    try:
        names.answers = {"secret.test": [["127.0.0.1"]]}
        key = tmp_path / "key"
        key.write_text(SECRET + "\n")
        server = serve("--network-resolver", names.address, "--network-address", "127.0.0.1",
                       "--network-ca", CA, "--network-secret",
                       f"secret.test:{vault.port}/Authorization={key}")
        assert "s3cr3t" not in json.dumps(server.good("GET", "/v1/limits"))
        with open(f"/proc/{server.process.pid}/limits", encoding="ascii") as f:
            core = next(line.split() for line in f if line.startswith("Max core file size"))
        assert core[4] in ("0", "1")
        session = server.session(network={"allow": [f"secret.test:{vault.port}"]})
        receipt = server.run(session, KIT + f"get('http://secret.test:{vault.port}/headers')")
        assert value(receipt)[0] == 200 and "s3cr3t" not in json.dumps(receipt)
        assert vault.seen[0][2]["Authorization"] == SECRET
        shut = server.session()
        assert value(server.run(shut, KIT + f"get('http://secret.test:{vault.port}/')[0]")) == 0
    finally:
        vault.close()
