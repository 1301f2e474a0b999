"""Guests of Mark, and what a caller without an account may learn: GET /auth/state, POST /auth/guest."""

import json
import os
import sqlite3

import pytest

import mark_kit
from conftest import wait_for
from serve_kit import serve, server  # noqa: F401
from test_mark_accounts import PASSWORD, Account, refused, sign_up


def guest(server, **headers):
    return Account(server, server.good("POST", "/auth/guest", status=201, **headers))


def test_state_from_the_start(server):
    first = server.good("GET", "/auth/state")
    assert first == {"mark": "demo", "accounts": False, "signup": "open", "first": True, "guest": True,
                     "authentication": False}
    anyone = guest(server)
    assert server.good("GET", "/auth/state") == first  # a guest is nobody's account
    assert sign_up(server).tokens["role"] == "operator"
    after = server.good("GET", "/auth/state")
    assert after == {**first, "accounts": True, "first": False}
    assert anyone.good("GET", "/auth/state") == after
    assert server.ask("HEAD", "/auth/state").status == 200
    for method in ("POST", "PUT", "DELETE"):
        server.problem(405, method, "/auth/state")
    server.problem(405, "GET", "/auth/guest")


@pytest.mark.parametrize("headers", [
    {"X_Forwarded_For": "192.0.2.1"}, {"X_Forwarded_For": "127.0.0.1"}, {"Forwarded": "for=192.0.2.1"},
    {"X_Real_IP": "192.0.2.1"}, {"Via": "1.1 proxy"}, {"X_Forwarded_Proto": "https"},
    {"Host": "box.example.com"},
])
def test_not_through_a_proxy(serve, headers):
    """Whoever comes through a proxy, or by another name, is not on this machine."""
    server = serve("--allowed-host", "box.example.com")
    state = server.good("GET", "/auth/state", **headers)
    assert not state["first"] and not state["guest"] and state["signup"] == "closed"
    refused(server, 403, "guests-closed", "POST", "/auth/guest", **headers)
    sign_up(server)
    state = server.good("GET", "/auth/state", **headers)
    assert not state["guest"] and state["signup"] == "invite" and state["accounts"]


def test_closed(serve, gb, tmp_path):
    for option, signup in (("invite", "invite"), ("closed", "closed")):
        server = serve("--signup", option)
        state = server.good("GET", "/auth/state")
        assert state["signup"] == signup and not state["first"] and not state["guest"]
        refused(server, 403, "guests-closed", "POST", "/auth/guest")
    server = serve("--mark", "off")
    assert server.good("GET", "/auth/state") == {
        "mark": "off", "accounts": False, "signup": "closed", "first": False, "guest": False,
        "authentication": False}
    refused(server, 404, "mark-off", "POST", "/auth/guest")
    # A guest is no way around a key.
    data = tmp_path / "keys"
    gb("key", "create", "someone", "--data", data)
    server = serve("--require-key", data=data)
    state = server.good("GET", "/auth/state")
    assert state["authentication"] and not state["guest"]
    refused(server, 403, "guests-closed", "POST", "/auth/guest")


def test_bad_requests(server):
    for headers in ({"Origin": "https://evil.example"}, {"Origin": "null"}, {"Sec_Fetch_Site": "cross-site"},
                    {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate"}):
        server.problem(403, "POST", "/auth/guest", **headers)
        server.problem(403, "GET", "/auth/state", **headers)
    server.problem(421, "POST", "/auth/guest", Host="evil.example")
    # A body is not read, and so cannot make anybody more than a guest.
    body = {"role": "operator", "email": "eve@example.com", "password": PASSWORD}
    for sent in (json.dumps(body), "[" * 1000, b"\xff\x00", "x" * 100_000):
        reply = server.ask("POST", "/auth/guest", sent)
        assert reply.status == 201 and reply.json["role"] == "guest"
    server.problem(413, "POST", "/auth/guest", "x" * (30 << 20))


def test_only_the_demo_model(serve, tmp_path):
    """Models that cost somebody something are not for guests; without a demo there are no guests."""
    script = mark_kit.scripted(tmp_path / "model.json", [mark_kit.answer("It is 42.")])
    server = serve(*script)
    assert server.good("GET", "/auth/state")["mark"] == "ready"
    anyone = guest(server)
    models = anyone.good("GET", "/api/v1/models")
    assert [m["name"] for m in models["models"]] == ["demo"] and models["default"] == "demo"
    refused(anyone, 422, "model-unknown", "POST", "/api/v1/chat", {"query": "Hello", "model": "script"})
    reply = anyone.good("POST", "/api/v1/chat", {"query": "What is 6 * 7?"})
    assert "42" not in reply["answer_story"] or reply["model"] == "demo", reply
    server = serve(*script, "--model", "none")
    assert not server.good("GET", "/auth/state")["guest"]
    refused(server, 403, "guests-closed", "POST", "/auth/guest")


def test_a_guest(server):
    anyone, other = guest(server), guest(server)
    me = anyone.good("GET", "/auth/me")
    assert me["role"] == "guest" and me["email"].endswith("@guest.invalid") and me["name"] == "Guest"
    models = anyone.good("GET", "/api/v1/models")
    assert [m["name"] for m in models["models"]] == ["demo"] and models["default"] == "demo"
    refused(anyone, 422, "model-unknown", "POST", "/api/v1/chat", {"query": "What is 6 * 7?", "model": "other"})
    reply = anyone.good("POST", "/api/v1/chat", {"query": "What is 6 * 7?"})
    assert reply["status"] == "ok", reply
    assert len(anyone.good("GET", "/api/v1/chats")["chats"]) == 1
    assert other.good("GET", "/api/v1/chats")["chats"] == []
    # No sources, neither those of everybody nor new ones.
    refused(anyone, 403, "not-operator", "POST", "/api/v1/sources",
            {"name": "mine", "kind": "postgresql", "url": "postgresql://me@127.0.0.1:9/x"})
    # Nobody signs in as one, changes its password, or deletes it with a guess.
    for password in ("*", PASSWORD, "x"):
        refused(server, 401, "bad-credentials", "POST", "/auth/signin",
                {"email": me["email"], "password": password})
    refused(anyone, 401, "bad-credentials", "PATCH", "/auth/me",
            {"password": PASSWORD, "current_password": "*"})
    refused(anyone, 401, "bad-credentials", "DELETE", "/auth/me", {"current_password": "*"})
    # Small quotas.
    sessions = [anyone.session() for _ in range(4)]
    refused(anyone, 429, "key-sessions", "POST", "/v1/sessions", {})
    other.problem(404, "GET", f"/v1/sessions/{sessions[0]}")
    tokens = server.good("POST", "/auth/refresh", {"refresh_token": anyone.refresh})
    assert tokens["role"] == "guest"


def test_sources_of_everyone_are_not_for_guests(serve, gb, tmp_path):
    folder = tmp_path / "tables"
    folder.mkdir()
    (folder / "sales.csv").write_text("region,amount\nnorth,1\n")
    data = tmp_path / "data"
    server = serve(data=data)
    ada = sign_up(server)
    made = gb("source", "add", "sales", folder, "--data", data)
    assert made.code == 0, made
    anyone = guest(server)
    [source] = ada.good("GET", "/api/v1/sources")["sources"]
    assert anyone.good("GET", "/api/v1/sources")["sources"] == []
    refused(anyone, 404, "no-such-source", "GET", f"/api/v1/sources/{source['source_id']}/tables")
    refused(anyone, 404, "no-such-source", "POST", "/api/v1/chat", {"query": "Hello", "sources": ["sales"]})


def test_attachments_of_guests_are_small(server):
    anyone = mark_kit.Person(server, guest(server).key)
    listed = anyone.good("GET", "/api/v1/attachments")
    assert listed["bytes_max"] == 64 << 20
    assert sign_up(server).good("GET", "/api/v1/attachments")["bytes_max"] == 1 << 30


def test_too_many(server):
    for _ in range(10):
        guest(server)
    problem = refused(server, 429, "too-many-guesses", "POST", "/auth/guest")
    assert "try again" in problem["detail"]
    # The bucket is that of guests: signing up goes on.
    sign_up(server)


def test_the_day_ends_with_everything(serve, gb, tmp_path):
    data = tmp_path / "data"
    server = serve(data=data)
    anyone, other = guest(server), guest(server)
    anyone.good("POST", "/api/v1/chat", {"query": "What is 6 * 7?"})
    mark_kit.Person(server, anyone.key).upload()
    anyone.session()
    listed = gb("user", "list", "--json", "--data", data)
    users = json.loads(listed.out)["users"]
    assert [user["role"] for user in users] == ["guest", "guest"]
    assert server.stop() == 0
    store = sqlite3.connect(os.path.join(data, "glovebox.db"))
    with store:
        store.execute("UPDATE mark_users SET created_us = created_us - ? WHERE id = ?",
                      (86_400_000_000, anyone.id))
    store.close()
    again = serve(data=data)
    now = Account(again, anyone.tokens)
    refused(now, 401, "token-invalid", "GET", "/auth/me")
    refused(again, 401, "token-invalid", "POST", "/auth/refresh", {"refresh_token": anyone.refresh})

    def rows():
        found = sqlite3.connect(f"file:{data}/glovebox.db?mode=ro", uri=True)
        try:
            return [found.execute(f"SELECT count(*) FROM {table} WHERE {column} = ?", (value,)).fetchone()[0]
                    for table, column, value in (
                        ("mark_users", "id", anyone.id), ("mark_chats", "owner", "user-" + anyone.id),
                        ("mark_attachments", "owner", "user-" + anyone.id),
                        ("mark_sign_ins", "user_id", anyone.id))]
        finally:
            found.close()

    wait_for(lambda: rows() == [0, 0, 0, 0], 60, "the guest to be removed")
    # The other one stays.
    Account(again, other.tokens).good("GET", "/auth/me")


def test_leaving(server):
    """Nobody can come back as a guest who signed out, so everything goes at once."""
    anyone, other = guest(server), guest(server)
    anyone.good("POST", "/api/v1/chat", {"query": "What is 6 * 7?"})
    anyone.session()
    for token in ("", "gbr_nonsense", "x" * 300, None):
        server.ask("POST", "/auth/signout", {"refresh_token": token})
    assert anyone.good("GET", "/auth/me")["role"] == "guest"
    server.good("POST", "/auth/signout", {"refresh_token": anyone.refresh}, status=204)
    refused(anyone, 401, "token-invalid", "GET", "/auth/me")
    refused(server, 401, "token-invalid", "POST", "/auth/refresh", {"refresh_token": anyone.refresh})
    other.good("GET", "/auth/me")
    # Of others only the sign-in ends.
    ada = sign_up(server)
    server.good("POST", "/auth/signout", {"refresh_token": ada.refresh}, status=204)
    server.good("POST", "/auth/signin", {"email": ada.tokens["email"], "password": PASSWORD})
