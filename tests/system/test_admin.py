"""The operator's API: who may use it, what it shows after real runs, what it does, bad input."""

import json
import sqlite3
import threading
import time

import pytest

import mark_kit
from conftest import wait_for
from package_kit import ALONE, Index
from serve_kit import Server, serve, server, wait_running  # noqa: F401

ROUTES = [
    ("GET", "/admin/v1/overview", None),
    ("GET", "/admin/v1/series", None),
    ("GET", "/admin/v1/sessions", None),
    ("DELETE", "/admin/v1/sessions/ses_0", None),
    ("GET", "/admin/v1/executions", None),
    ("POST", "/admin/v1/executions/exec_0/interrupt", None),
    ("GET", "/admin/v1/keys", None),
    ("POST", "/admin/v1/keys", {"name": "x"}),
    ("DELETE", "/admin/v1/keys/0123456789ab", None),
    ("GET", "/admin/v1/users", None),
    ("PATCH", "/admin/v1/users/x", {"role": "operator"}),
    ("PUT", "/admin/v1/users/x/budget", {}),
    ("POST", "/admin/v1/users/x/password", None),
    ("DELETE", "/admin/v1/users/x", None),
    ("POST", "/admin/v1/invitations", {}),
    ("GET", "/admin/v1/audit", None),
    ("GET", "/admin/v1/audit/chain", None),
    ("POST", "/admin/v1/audit/chain", None),
    ("GET", "/admin/v1/templates", None),
    ("GET", "/admin/v1/packages", None),
    ("GET", "/admin/v1/sources", None),
    ("GET", "/admin/v1/models", None),
]


def kind(problem):
    return problem["type"].rpartition(":")[2]


def refused(caller, status, word, method, path, body=None):
    problem = caller.problem(status, method, path, body)
    assert kind(problem) == word, problem
    return problem


@pytest.fixture
def ada(server):
    """The operator: the first account."""
    return mark_kit.person(server, "ada@example.com")


@pytest.fixture
def bob(server, ada):
    return mark_kit.person(server, "bob@example.com")


def key_of(server, ada, **body):
    key = ada.good("POST", "/admin/v1/keys", {"name": "reports", **body}, 201)
    return key, Server(server.process, server.port, server.data, key["token"])


def audit(ada, query=""):
    return ada.good("GET", "/admin/v1/audit" + query)


def wait_audit(ada, query, count):
    """Entries are written a moment after the reply."""
    wait_for(lambda: len(audit(ada, query)["entries"]) >= count, 30, "the audit log")
    return audit(ada, query)["entries"]


# ---- who may ----


def test_every_route_is_for_operators(server, ada, bob):
    listed = {(m.upper(), p) for p, item in server.good("GET", "/openapi.json")["paths"].items()
              for m in item if p.startswith("/admin/")}
    assert len(listed) == len(ROUTES)
    _, key = key_of(server, ada)
    _, small = key_of(server, ada, sessions=1, executions=1)
    guest = Server(server.process, server.port, server.data, server.good("POST", "/auth/guest", {}, 201)["access_token"])
    for method, path, body in ROUTES:
        assert "sign in as an operator" in refused(server, 401, "sign-in-needed", method, path, body)["detail"]
        refused(bob, 403, "not-operator", method, path, body)
        for other in (key, small, guest):
            refused(other, 403, "not-operator", method, path, body)
        forged = Server(server.process, server.port, server.data, ada.key[:-4] + "AAAA")
        refused(forged, 401, "token-invalid", method, path, body)
        unknown = Server(server.process, server.port, server.data, "gb_0123456789ab_" + "0" * 64)
        refused(unknown, 401, "key-unknown", method, path, body)
    # What they were refused has not happened.
    assert ada.good("GET", "/admin/v1/users")["total"] == 3
    assert ada.good("GET", "/admin/v1/keys?active=true")["total"] == 2
    bob_id = bob.account["user_id"]
    refused(bob, 403, "not-operator", "PATCH", f"/admin/v1/users/{bob_id}", {"role": "operator"})
    assert bob.good("GET", "/auth/me")["role"] == "user"


def test_pages_of_other_sites(ada):
    """With the operator's token, which they cannot have."""
    for method, path, body in ROUTES:
        for headers in ({"Origin": "http://evil.example"}, {"Origin": "null"}, {"Sec_Fetch_Site": "cross-site"},
                        {"Sec_Fetch_Site": "same-site"}, {"Host": "evil.example"}):
            reply = ada.ask(method, path, body, **headers)
            assert reply.status in (403, 421), (method, path, headers, reply)
    assert ada.good("GET", "/admin/v1/keys")["total"] == 0 and ada.good("GET", "/admin/v1/users")["total"] == 1


def test_a_role_ends_at_once(server, ada, bob):
    bob_id = bob.account["user_id"]
    assert ada.good("PATCH", f"/admin/v1/users/{bob_id}", {"role": "operator"})["role"] == "operator"
    bob.good("GET", "/admin/v1/overview")
    assert ada.good("PATCH", f"/admin/v1/users/{bob_id}", {"role": "user"})["role"] == "user"
    refused(bob, 403, "not-operator", "GET", "/admin/v1/overview")


def test_without_mark(serve):
    server = serve("--mark", "off")
    refused(server, 404, "mark-off", "GET", "/admin/v1/overview")


# ---- what it shows ----


def test_sessions_of_everybody(server, ada, bob):
    key, caller = key_of(server, ada, sessions=3)
    mine = {"local": server.session(), "key": caller.session(), "user": bob.session()}
    caller.run(mine["key"], "print('a secret of the key')")
    page = ada.good("GET", "/admin/v1/sessions")
    assert page["total"] == 3 and not page["more"]
    by_kind = {s["principal_kind"]: s for s in page["sessions"]}
    assert {k: s["session_id"] for k, s in by_kind.items()} == mine
    assert by_kind["key"]["name"] == "reports" and by_kind["key"]["principal"] == key["id"]
    assert by_kind["user"]["name"] == "bob@example.com"
    assert by_kind["local"]["name"] == f"http://127.0.0.1:{server.port}"
    assert by_kind["key"]["execution_count"] == 1 and by_kind["key"]["state"] == "ready"
    assert "secret" not in json.dumps(page)
    for session in page["sessions"]:
        assert session["memory_bytes"] is None or session["memory_bytes"] > 0
    # pages
    first = ada.good("GET", "/admin/v1/sessions?limit=2")
    assert first["more"] and len(first["sessions"]) == 2
    rest = ada.good("GET", f"/admin/v1/sessions?limit=2&after={first['sessions'][1]['session_id']}")
    assert [s["session_id"] for s in first["sessions"] + rest["sessions"]] == [s["session_id"] for s in page["sessions"]]
    # an operator is no owner: the ordinary routes show nothing of others
    assert ada.good("GET", "/v1/sessions")["sessions"] == []
    refused(ada, 404, "session-unknown", "GET", f"/v1/sessions/{mine['user']}")
    # ending one
    assert ada.ask("DELETE", f"/admin/v1/sessions/{mine['user']}").status == 204
    refused(bob, 404, "session-deleted", "GET", f"/v1/sessions/{mine['user']}")
    refused(ada, 404, "session-unknown", "DELETE", f"/admin/v1/sessions/{mine['user']}")
    assert ada.good("GET", "/admin/v1/sessions")["total"] == 2
    # a cursor may have ended meanwhile
    assert ada.good("GET", f"/admin/v1/sessions?after={mine['user']}")["sessions"] == []
    entry = wait_audit(ada, "?kind=operator", 3)[0]
    assert entry["action"] == {"name": "session_end", "target": mine["user"]} and entry["status"] == "error"


def test_executions_and_why_they_were_stopped(server, ada, bob):
    session = bob.session(limits={"memory": "64m"})
    bob.run(session, "print('hello')")
    bob.run(session, "1 / 0")
    assert bob.run(session, "while True: pass", timeout=0.5)["limit"] == "wall_time"
    assert bob.run(session, "x = bytearray(500 * 1024 * 1024)")["status"] in ("oom", "error")
    done = ada.good("GET", "/admin/v1/executions?state=finished")["executions"]
    assert [x["status"] for x in done][1:] == ["timeout", "error", "ok"]
    timeout = done[1]
    assert timeout["limit"] == "wall_time" and timeout["exit_code"] == 124 and timeout["name"] == "bob@example.com"
    assert timeout["session_id"] == session and timeout["kind"] == "cell" and timeout["seconds"] >= 0.5
    assert "hello" not in json.dumps(done) and "while" not in json.dumps(done)
    stopped = ada.good("GET", "/admin/v1/executions?state=stopped")["executions"]
    assert {x["status"] for x in stopped} <= {"timeout", "oom"} and timeout in stopped
    only = ada.good("GET", "/admin/v1/executions?status=error")["executions"]
    assert {x["status"] for x in only} == {"error"}
    counts = ada.good("GET", "/admin/v1/overview")["executions"]
    assert counts["by_limit"]["wall_time"] == 1 and counts["by_status"]["timeout"] == 1
    assert counts["by_status"]["ok"] == 1 and counts["running"] == 0
    # a page
    page = ada.good("GET", "/admin/v1/executions?state=finished&limit=2")
    assert page["more"] and len(page["executions"]) == 2


def test_same_as_the_metrics(server, ada, bob):
    """What operators see is what their monitoring sees."""
    session = bob.session()
    for code in ("1", "2", "1 / 0"):
        bob.run(session, code)
    assert bob.run(session, "while True: pass", timeout=0.5)["status"] == "timeout"
    server.good("POST", "/v1/execute", {"code": "1"})

    def look():
        text = server.ask("GET", "/metrics").body
        return ada.good("GET", "/admin/v1/overview"), dict(
            line.rsplit(" ", 1) for line in (text.decode() if isinstance(text, bytes) else text).splitlines() if line[:1] != "#")

    wait_for(lambda: look()[0]["boxes"]["ready"] == 1, 60, "the box")  # nothing changes after that
    seen, metrics = look()
    pairs = {"glovebox_sessions_live": seen["sessions"]["live"], "glovebox_sessions_max": seen["sessions"]["most"],
             "glovebox_sessions_made_total": seen["sessions"]["made"], "glovebox_boxes_ready": seen["boxes"]["ready"],
             "glovebox_boxes_live": seen["boxes"]["live"], "glovebox_executions_running": seen["executions"]["running"],
             "glovebox_executions_waiting": seen["executions"]["waiting"], "glovebox_refused_total": seen["executions"]["refused"],
             "glovebox_kept_memory_bytes": seen["memory"]["kept_memory_bytes"]}
    pairs.update((f'sandbox_executions_total{{status="{word}"}}', n) for word, n in seen["executions"]["by_status"].items())
    assert {name: float(metrics[name]) for name in pairs} == pairs
    assert seen["executions"]["by_status"]["ok"] == 3 and seen["executions"]["by_limit"]["wall_time"] == 1
    # and what the audit log has
    entries = wait_audit(ada, "", 5)
    for word, n in seen["executions"]["by_status"].items():
        assert sum(e["status"] == word for e in entries) == n, word


def test_live_executions(server, ada, bob):
    session = bob.session()
    running = bob.good("POST", f"/v1/sessions/{session}/execute",
                       {"code": "import time; time.sleep(600)", "timeout": 300, "detach": True}, 202)["execution_id"]
    waiting = bob.good("POST", f"/v1/sessions/{session}/execute", {"code": "2", "detach": True}, 202)["execution_id"]
    wait_running(bob, running)
    live = {x["execution_id"]: x for x in ada.good("GET", "/admin/v1/executions")["executions"]}
    assert live[running]["status"] == "running" and live[waiting]["status"] == "waiting"
    assert live[running]["seconds"] >= 0 and live[waiting]["seconds"] is None
    shown = ada.good("GET", "/admin/v1/sessions")["sessions"][0]
    assert shown["state"] == "running" and shown["execution_id"] == running and shown["waiting"] == 1
    user = next(u for u in ada.good("GET", "/admin/v1/users")["users"] if u["email"] == "bob@example.com")
    assert user["now"] == {"sessions": 1, "executions": 2}
    assert ada.ask("POST", f"/admin/v1/executions/{running}/interrupt").status == 204
    assert bob.good("GET", f"/v1/executions/{running}?wait=60")["status"] == "cancelled"
    assert bob.good("GET", f"/v1/executions/{waiting}?wait=60")["status"] == "ok"
    refused(ada, 409, "execution-ended", "POST", f"/admin/v1/executions/{running}/interrupt")


def test_series(server, ada):
    server.good("POST", "/v1/execute", {"code": "1"})

    def look():
        return ada.good("GET", "/admin/v1/series?minutes=5")

    # a sample is taken every five seconds
    wait_for(lambda: sum(look()["rate"]) > 0, 60, "a sample")
    series = look()
    lists = {k: v for k, v in series.items() if isinstance(v, list)}
    assert len({len(v) for v in lists.values()}) == 1 and len(lists) == 13
    at = next(i for i, rate in enumerate(series["rate"]) if rate > 0)
    assert 0 < series["p50_ms"][at] <= series["p95_ms"][at]
    assert series["time"] == sorted(series["time"]) and series["memory_server"][at] > 1_000_000
    assert series["sessions"][at] == 0 and series["boxes_ready"][at] >= 0


def test_templates_packages_sources_models(server, ada, bob):
    templates = ada.good("GET", "/admin/v1/templates")
    assert any(t["default"] for t in templates["templates"])
    assert ada.good("GET", "/admin/v1/packages") == {"layers": [], "sets": [], "more": False, "count": 0, "bytes": 0}
    assert ada.good("GET", "/admin/v1/sources") == {"sources": []}
    models = ada.good("GET", "/admin/v1/models")
    assert [m["name"] for m in models["models"]] == ["demo"] and models["totals"]["calls"] == 0


def test_packages_and_sources(serve, tmp_path):
    index = Index()
    try:
        index.wheel("alpha-one", "1.0", requires=["beta>=1"])
        index.wheel("beta", "1.5")
        files = tmp_path / "roots" / "shop"
        files.mkdir(parents=True)
        (files / "sales.csv").write_bytes(mark_kit.SAMPLE)
        server = serve("--index-url", index.url, "--source-root", files.parent, env=ALONE)
        ada = mark_kit.person(server, "ada@example.com")
        bob = mark_kit.person(server, "bob@example.com")
        bob.good("POST", "/v1/packages", {"packages": ["alpha-one"]})
        session = bob.session()
        page = ada.good("GET", "/admin/v1/packages")
        layer = page["layers"][0]
        assert page["count"] == 1 and page["bytes"] > 0 and layer["count"] == 2 and layer["bytes"] > 0 and layer["uses"] >= 1
        assert layer["packages"] == [{"name": "alpha-one", "version": "1.0"}, {"name": "beta", "version": "1.5"}]
        assert page["sets"] == [{"owner": "user-" + bob.account["user_id"], "name": "bob@example.com",
                                 "requirements": ["alpha-one"], "layer": layer["layer"]}]
        assert ada.ask("DELETE", f"/admin/v1/sessions/{session}").status == 204
        made = ada.good("POST", "/api/v1/sources", {"name": "shop", "kind": "files", "directory": str(files)}, 201)
        source = ada.good("GET", "/admin/v1/sources")["sources"][0]
        assert source["source_id"] == made["source_id"] and source["tables"] == 1 and source["synced"]
        assert source["sync_error"] is None and source["access"] == 1 and str(files) not in json.dumps(source)
    finally:
        index.close()


def test_spend(serve, tmp_path):
    server = serve(*mark_kit.scripted(tmp_path / "script.json", [mark_kit.answer("It is done.")]))
    ada = mark_kit.person(server, "ada@example.com")
    bob = mark_kit.person(server, "bob@example.com")
    bob.ask_mark("What is my secret question?")
    models = ada.good("GET", "/admin/v1/models")
    script = next(m for m in models["models"] if m["name"] == "script")
    assert script["use"]["calls"] >= 1 and models["totals"]["answers"]["ok"] == 1
    assert [(o["name"], o["owner"].startswith("user-")) for o in models["owners"]] == [("bob@example.com", True)]
    assert models["days"][0]["day"] == models["today"]
    entries = wait_audit(ada, "?kind=answer", 1)
    assert entries[0]["answer"]["model"] == "script" and entries[0]["name"] == "bob@example.com"
    assert "secret question" not in json.dumps(audit(ada)) and "It is done" not in json.dumps(audit(ada))


def test_whole_audit_is_not_shown(serve, tmp_path):
    server = serve("--mark-audit", "whole",
                   *mark_kit.scripted(tmp_path / "script.json", [mark_kit.answer("A private story.")]))
    ada = mark_kit.person(server, "ada@example.com")
    ada.ask_mark("A private question?")
    wait_audit(ada, "?kind=answer", 1)
    text = json.dumps(audit(ada))
    assert "private" not in text, text


# ---- what it does ----


def test_keys(server, ada):
    key, caller = key_of(server, ada, sessions=1, executions=2, rate_per_minute=600)
    assert key["name"] == "reports" and key["sessions"] == 1 and key["token"].startswith("gb_")
    caller.session()
    refused(caller, 429, "key-sessions", "POST", "/v1/sessions", {})
    page = ada.good("GET", "/admin/v1/keys")
    shown = page["keys"][0]
    assert shown["now"] == {"sessions": 1, "executions": 0} and shown["last_used"] and "token" not in shown
    assert key["token"] not in json.dumps(page)
    assert ada.ask("DELETE", f"/admin/v1/keys/{key['id']}").status == 204
    wait_for(lambda: caller.ask("GET", "/v1/sessions").status == 401, 30, "the revocation")
    assert ada.good("GET", "/admin/v1/sessions")["total"] == 0  # nobody could reach its session any more
    refused(ada, 404, "no-such-key", "DELETE", f"/admin/v1/keys/{key['id']}")
    assert ada.good("GET", "/admin/v1/keys")["keys"][0]["revoked"]
    # the secret is in no log
    assert key["token"].rpartition("_")[2] not in server.log.read_text()
    # pages
    for i in range(3):
        key_of(server, ada, name=f"k{i}")
    active = ada.good("GET", "/admin/v1/keys?active=true&limit=2")
    assert [k["name"] for k in active["keys"]] == ["k0", "k1"] and active["more"] and active["total"] == 3
    rest = ada.good("GET", f"/admin/v1/keys?active=true&limit=2&after={active['keys'][-1]['id']}")
    assert [k["name"] for k in rest["keys"]] == ["k2"] and not rest["more"]
    first = ada.good("GET", "/admin/v1/keys?limit=3")
    rest = ada.good("GET", f"/admin/v1/keys?limit=3&after={first['keys'][-1]['id']}")
    assert first["more"] and not rest["more"] and first["total"] == 4
    assert [k["name"] for k in first["keys"] + rest["keys"]] == ["reports", "k0", "k1", "k2"]


def test_users(server, ada, bob):
    bob_id, ada_id = bob.account["user_id"], ada.account["user_id"]
    users = ada.good("GET", "/admin/v1/users")
    assert [(u["email"], u["role"]) for u in users["users"]] == [("ada@example.com", "operator"), ("bob@example.com", "user")]
    assert "password" not in json.dumps(users)
    assert [u["email"] for u in ada.good("GET", "/admin/v1/users?q=BOB")["users"]] == ["bob@example.com"]
    assert ada.good("GET", "/admin/v1/users?q=%25")["users"] == []
    first = ada.good("GET", "/admin/v1/users?limit=1")
    assert first["more"] and first["total"] == 2
    assert ada.good("GET", f"/admin/v1/users?limit=1&after={ada_id}")["users"][0]["user_id"] == bob_id
    # an operator's own account, and the last operator
    for method, path, body in (("PATCH", "", {"role": "user"}), ("DELETE", "", None), ("POST", "/password", None)):
        refused(ada, 409, "own-account", method, f"/admin/v1/users/{ada_id}{path}", body)
    # a new password
    password = ada.good("POST", f"/admin/v1/users/{bob_id}/password")["password"]
    refused(bob, 401, "token-invalid", "GET", "/auth/me")
    refused(server, 401, "bad-credentials", "POST", "/auth/signin", {"email": "bob@example.com", "password": mark_kit.PASSWORD})
    bob = mark_kit.Person(server, server.good("POST", "/auth/signin", {"email": "bob@example.com", "password": password})["access_token"])
    assert password not in server.log.read_text()
    # deletion, with everything
    session, file = bob.session(), bob.upload()
    assert ada.ask("DELETE", f"/admin/v1/users/{bob_id}").status == 204
    refused(bob, 401, "token-invalid", "GET", "/auth/me")
    assert ada.good("GET", "/admin/v1/sessions")["total"] == 0
    assert file["attachment_id"] not in json.dumps(ada.good("GET", "/api/v1/attachments"))
    for method, path, body in (("PATCH", "", {"role": "user"}), ("DELETE", "", None), ("POST", "/password", None),
                               ("PUT", "/budget", {})):
        refused(ada, 404, "user-unknown", method, f"/admin/v1/users/{bob_id}{path}", body)
    actions = [e["action"]["name"] for e in wait_audit(ada, f"?kind=operator&who=ada@example.com", 9)]
    assert "user_remove" in actions and "user_password" in actions


def test_last_operator_stays(server, ada, bob):
    ada_id, bob_id = ada.account["user_id"], bob.account["user_id"]
    ada.good("PATCH", f"/admin/v1/users/{bob_id}", {"role": "operator"})
    # Two operators take the role from each other at the same time: one of them stays.
    results = []
    threads = [threading.Thread(target=lambda who=who, of=of: results.append(
        who.ask("PATCH", f"/admin/v1/users/{of}", {"role": "user"}).status)) for who, of in ((ada, bob_id), (bob, ada_id))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 200 in results, results
    roles = {p.good("GET", "/auth/me")["role"] for p in (ada, bob)}
    assert "operator" in roles


def test_budgets(server, ada, bob):
    path = f"/admin/v1/users/{bob.account['user_id']}/budget"
    limits = ada.good("PUT", path, {"cost": 0.25, "tokens": 1000})["budget"]["limits"]
    assert limits["cost"] == 0.25 and limits["tokens"] == 1000 and limits["bytes"] is None
    assert bob.good("GET", "/api/v1/budget")["limits"]["tokens"] == 1000
    budget = ada.good("PUT", path, {"tokens": -1, "seconds": 2.5})["budget"]
    assert budget["limits"]["tokens"] is None
    # What a form is filled with: saving it again changes nothing.
    assert budget["own"] == {"bytes": None, "cost": None, "tokens": -1, "seconds": 2.5}
    assert ada.good("PUT", path, {})["budget"]["limits"]["cost"] is None
    for body in ({"cost": -2}, {"cost": 1e300}, {"seconds": -0.5}, {"tokens": -2}, {"tokens": 1.5}, {"cost": "much"},
                 {"nonsense": 1}, [], "x"):
        assert ada.ask("PUT", path, body).status in (400, 422), body


def test_invitations(serve):
    first = serve()
    mark_kit.person(first, "ada@example.com")
    assert first.stop() == 0
    server = serve("--signup", "invite", data=first.data)
    ada = mark_kit.Person(server, server.good("POST", "/auth/signin", {
        "email": "ada@example.com", "password": mark_kit.PASSWORD})["access_token"])
    refused(server, 403, "signup-closed", "POST", "/auth/signup", {"email": "eve@example.com", "password": mark_kit.PASSWORD})
    made = ada.good("POST", "/admin/v1/invitations", {"hours": 1}, 201)
    assert made["url"].startswith("http") and made["url"].endswith("/?invitation=" + made["invitation"])
    body = {"email": "eve@example.com", "password": mark_kit.PASSWORD, "invitation": made["invitation"]}
    server.good("POST", "/auth/signup", body, 201)
    assert server.ask("POST", "/auth/signup", {**body, "email": "mal@example.com"}).status == 403
    assert made["invitation"] not in server.log.read_text()


# ---- the audit log ----


def test_audit_search(server, ada, bob):
    session = bob.session()
    for _ in range(3):
        bob.run(session, "1")
    server.good("POST", "/v1/execute", {"code": "1 / 0"})
    entries = wait_audit(ada, "", 4)
    assert [e["seq"] for e in entries] == sorted((e["seq"] for e in entries), reverse=True)
    assert entries[0]["status"] == "error" and entries[0]["who"] == "local"
    by = {
        "who=bob@example.com": 3, f"who=user-{bob.account['user_id']}": 3, "who=local": 1, "who=nobody": 0,
        "who=nobody@example.com": 0, f"session_id={session}": 3, "session_id=ses_0": 0, "session_id=%20%00": None,
        "status=error": 1, "status=timeout": 0, "kind=cell": 4, "kind=operator": 0, "since=2020-01-01T00:00:00Z": 4,
        "since=2999-01-01T00:00:00Z": 0, "until=2999-01-01T00:00:00Z": 4, "until=2020-01-01T00:00:00Z": 0,
    }
    for query, count in by.items():
        if count is None:
            assert ada.ask("GET", "/admin/v1/audit?" + query).status in (200, 400, 422)
            continue
        page = audit(ada, "?" + query)
        assert len(page["entries"]) == count, (query, page)
        assert page["before"] is None
    # a key by its name
    key, robot = key_of(server, ada, name="Nightly")
    robot.good("POST", "/v1/execute", {"code": "1"})
    entries = wait_audit(ada, "?who=nightly", 1)
    assert [e["who"] for e in entries] == [key["id"]] and audit(ada, f"?who={key['id']}")["entries"] == entries
    entries = audit(ada)["entries"]
    # page by page, all of them once
    found, query = [], "?limit=1"
    while True:
        page = audit(ada, query)
        found += [e["seq"] for e in page["entries"]]
        if page["before"] is None:
            break
        query = f"?limit=1&before={page['before']}"
    assert found == [e["seq"] for e in entries]


def fill_log(data, count):
    """Adds entries as the service would, with their hashes."""
    import hashlib

    db = sqlite3.connect(data / "glovebox.db")
    seq, prev = db.execute("SELECT seq, hash FROM audit_head").fetchone()
    for _ in range(count):
        seq += 1
        fields = '{"kind":"cell","status":"ok","who":"local"}'
        digest = hashlib.sha256(f"glovebox audit 1\n{prev}\n{seq}\n1000\n\n{fields}".encode()).hexdigest()
        db.execute("INSERT INTO audit_log VALUES (?, 1000, NULL, ?, ?, ?)", (seq, prev, digest, fields))
        prev = digest
    db.execute("UPDATE audit_head SET seq = ?, hash = ?", (seq, prev))
    db.commit()
    db.close()
    return seq


def chain_to_the_end(ada, method="GET"):
    chain = ada.good(method, "/admin/v1/audit/chain")
    end = time.monotonic() + 120
    while chain["state"] == "checking":
        assert time.monotonic() < end, chain
        chain = ada.good("GET", "/admin/v1/audit/chain")
    return chain


def test_large_log_in_pieces(serve, tmp_path, gb):
    data = tmp_path / "data"
    first = serve(data=data)
    mark_kit.person(first, "ada@example.com")
    assert first.stop() == 0
    total = fill_log(data, 60_000)
    server = serve(data=data)
    ada = mark_kit.Person(server, server.good("POST", "/auth/signin", {
        "email": "ada@example.com", "password": mark_kit.PASSWORD})["access_token"])
    # A search for what is not there ends, and says where to go on.
    page = audit(ada, "?status=oom")
    assert page["entries"] == [] and page["before"] and 0 < page["looked_at"] <= 20_250
    before = page["before"]
    assert audit(ada, f"?status=oom&before={before}")["looked_at"] > 0
    chain = chain_to_the_end(ada)
    assert chain["state"] == "intact" and chain["checked"] == chain["entries"] == total
    # What is written later is checked too, without reading all again.
    server.good("POST", "/v1/execute", {"code": "1"})
    wait_for(lambda: chain_to_the_end(ada)["checked"] == total + 1, 30, "the new entry")
    # Somebody changes an old entry.
    db = sqlite3.connect(data / "glovebox.db")
    db.execute("DROP TRIGGER audit_log_no_update")
    db.execute("UPDATE audit_log SET fields = replace(fields, 'local', 'nobody') WHERE seq = 30000")
    db.commit()
    db.close()
    chain = chain_to_the_end(ada, "POST")
    assert chain["state"] == "broken" and chain["broken_entry"] == 30000 and "hash" in chain["why"]
    assert ada.good("GET", "/admin/v1/audit/chain")["state"] == "broken"  # and stays so


def test_hostile_log(serve, tmp_path):
    """Rows that we did not write."""
    data = tmp_path / "data"
    first = serve(data=data)
    mark_kit.person(first, "ada@example.com")
    assert first.stop() == 0
    db = sqlite3.connect(data / "glovebox.db")
    rows = [(5, "not json"), (6, "[1, 2]"), (7, '{"who": 7, "kind": [], "status": {"a": 1}}'),
            (9223372036854775807, '{"who":"<script>alert(1)</script>","kind":"cell"}')]
    for seq, fields in rows:
        db.execute("INSERT INTO audit_log VALUES (?, 1000, NULL, 'x', 'y', ?)", (seq, fields))
    db.commit()
    db.close()
    server = serve(data=data)
    ada = mark_kit.Person(server, server.good("POST", "/auth/signin", {
        "email": "ada@example.com", "password": mark_kit.PASSWORD})["access_token"])
    page = audit(ada)
    assert [e["seq"] for e in page["entries"]] == [9223372036854775807, 7, 6, 5]
    assert all(e.get("malformed") for e in page["entries"])
    assert audit(ada, "?kind=cell")["entries"]
    assert chain_to_the_end(ada)["state"] == "broken"


def test_acts_are_in_the_chain(server, ada, gb):
    key, _ = key_of(server, ada)
    ada.ask("DELETE", f"/admin/v1/keys/{key['id']}")
    entries = wait_audit(ada, "?kind=operator", 2)
    assert [e["action"] for e in entries] == [{"name": "key_revoke", "target": key["id"]}, {"name": "key_create", "target": key["id"]}]
    assert all(e["who"] == "user-" + ada.account["user_id"] and e["name"] == "ada@example.com" for e in entries)
    assert chain_to_the_end(ada)["state"] == "intact"
    assert server.stop() == 0
    done = gb("audit", "verify", "--data", server.data)
    assert done.code == 0, done


# ---- bad input ----


def test_bad_input(server, ada):
    bad = [
        ("GET", "/admin/v1/series?minutes=0"), ("GET", "/admin/v1/series?minutes=61"), ("GET", "/admin/v1/series?minutes=x"),
        ("GET", "/admin/v1/sessions?limit=0"), ("GET", "/admin/v1/sessions?limit=201"), ("GET", "/admin/v1/sessions?after="),
        ("GET", "/admin/v1/sessions?after=ses_unknown"), ("GET", "/admin/v1/sessions?nonsense=1"),
        ("GET", "/admin/v1/executions?state=x"), ("GET", "/admin/v1/executions?status=fine"),
        ("GET", "/admin/v1/keys?active=maybe"), ("GET", "/admin/v1/users?q="), ("GET", "/admin/v1/users?q=" + "x" * 201),
        ("GET", "/admin/v1/audit?before=0"), ("GET", "/admin/v1/audit?before=-1"), ("GET", "/admin/v1/audit?before=1e3"),
        ("GET", "/admin/v1/audit?since=yesterday"), ("GET", "/admin/v1/audit?until=9"), ("GET", "/admin/v1/audit?status=x"),
        ("GET", "/admin/v1/audit?who=" + "x" * 301), ("GET", "/admin/v1/overview?x=1"), ("GET", "/admin/v1/audit?limit=999"),
    ]
    for method, path in bad:
        assert ada.ask(method, path).status == 422, path
    bodies = [{"name": 1}, {"name": "x" * 200}, {"sessions": -1}, {"executions": 0}, {"sessions": "many"}, {"sessions": 1e30},
              {"rate_per_minute": 0}, {"admin": True}, [], None, "text"]
    for body in bodies:
        assert ada.ask("POST", "/admin/v1/keys", json.dumps(body)).status in (400, 422), body
    problem = ada.problem(422, "POST", "/admin/v1/keys", {"name": "x", "sessions": 0})
    assert problem["errors"][0]["loc"] == ["body", "sessions"], problem
    assert ada.ask("POST", "/admin/v1/keys", {"name": "a\nb"}).status in (422, 503)
    assert ada.good("GET", "/admin/v1/keys")["total"] == 0
    for body in ({}, {"role": "king"}, {"role": None}, {"role": "guest"}, []):
        assert ada.ask("PATCH", f"/admin/v1/users/{ada.account['user_id']}", body).status in (400, 422), body
    for body in ({"hours": 0}, {"hours": 721}, {"hours": "x"}, {"for": "eve"}):
        assert ada.ask("POST", "/admin/v1/invitations", body).status == 422, body
    for name in ("..%2f..", "%00", "'%20OR%201=1", "x" * 500, "%F0%9F%98%80"):
        assert ada.ask("DELETE", f"/admin/v1/users/{name}").status in (400, 404), name
        assert ada.ask("DELETE", f"/admin/v1/keys/{name}").status in (400, 404), name
        assert ada.ask("DELETE", f"/admin/v1/sessions/{name}").status in (400, 404), name
        assert ada.ask("POST", f"/admin/v1/executions/{name}/interrupt").status in (400, 404), name
    assert server.good("GET", "/health")["status"] == "healthy"


def test_guests_stay_guests(serve):  # noqa: F811
    """One who is deleted after a day must not be what keeps the last operator from being demoted."""
    server = serve("--model", "demo=demo")
    ada = mark_kit.person(server, "ada@example.com")
    guest = server.good("POST", "/auth/guest", {}, 201)["user_id"]
    for role in ("operator", "user"):
        refused(ada, 404, "user-unknown", "PATCH", f"/admin/v1/users/{guest}", {"role": role})
    users = {user["role"]: user for user in ada.good("GET", "/admin/v1/users")["users"]}
    assert users["operator"]["email"] == "ada@example.com" and users["operator"]["sessions"] is None
    assert (users["guest"]["sessions"], users["guest"]["executions"], users["guest"]["rate_per_minute"]) == (4, 2, 120)
