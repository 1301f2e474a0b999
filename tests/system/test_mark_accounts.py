"""Accounts of Mark, through a running service: signing up, in and out, tokens that are refused, guessing
that is throttled, deletion, and what must never be written anywhere."""

import base64
import concurrent.futures
import hashlib
import hmac
import json
import os
import pty
import select
import sqlite3
import stat
import time
import urllib.parse
import uuid

import pytest

import mark_kit
from conftest import wait_for
from serve_kit import Server, serve, server  # noqa: F401

PASSWORD = "correct horse battery staple"
EXAMPLE = "ada@example.com"
FORM = "application/x-www-form-urlencoded"


class Account(Server):
    """A server as somebody sees it who has signed in."""

    def __init__(self, server, tokens):
        super().__init__(server.process, server.port, server.data, tokens["access_token"])
        self.id, self.refresh, self.tokens = tokens["user_id"], tokens["refresh_token"], tokens


def sign_up(server, email=EXAMPLE, password=PASSWORD, **more):
    return Account(server, server.good("POST", "/auth/signup", {"email": email, "password": password, **more}, 201))


def sign_in(server, email=EXAMPLE, password=PASSWORD, **headers):
    return Account(server, server.good("POST", "/auth/signin", {"email": email, "password": password}, **headers))


def kind(problem):
    return problem["type"].rpartition(":")[2]


def refused(server, status, word, method, path, body=None, **headers):
    problem = server.problem(status, method, path, body, **headers)
    assert kind(problem) == word, problem
    return problem


# ---- signing up and in ----


def test_an_account(server):
    nobody = refused(server, 401, "sign-in-needed", "GET", "/auth/me")
    assert "/auth/signup" in nobody["detail"]
    reply = server.ask("GET", "/auth/me")
    assert reply.headers["WWW-Authenticate"] == 'Bearer realm="glovebox"'
    ada = sign_up(server, "Ada@Example.COM", name="Ada")
    assert ada.tokens["email"] == EXAMPLE and ada.tokens["name"] == "Ada" and ada.tokens["role"] == "operator"
    assert ada.tokens["token_type"] == "bearer" and ada.tokens["expires_in"] == 900
    assert str(uuid.UUID(ada.id)) == ada.id
    me = ada.good("GET", "/auth/me")
    assert {k: me[k] for k in ("user_id", "email", "name", "role")} == {
        k: ada.tokens[k] for k in ("user_id", "email", "name", "role")
    }
    assert set(me) == {"user_id", "email", "name", "role", "created"}
    somebody = refused(server, 401, "sign-in-needed", "GET", "/auth/me")
    assert "/auth/signin" in somebody["detail"]
    bob = sign_up(server, "bob@example.com")
    assert bob.tokens["role"] == "user" and bob.tokens["name"] == ""

    # They own what they make, also beside the routes of Mark.
    session = ada.session()
    ada.run(session, "x = 41")
    assert ada.run(session, "x + 1")["result"]["text/plain"] == "42"
    refused(bob, 404, "session-unknown", "GET", f"/v1/sessions/{session}")
    refused(server, 404, "session-unknown", "GET", f"/v1/sessions/{session}")
    assert [s["session_id"] for s in ada.good("GET", "/v1/sessions")["sessions"]] == [session]
    assert bob.good("GET", "/v1/sessions")["sessions"] == []

    assert ada.good("PATCH", "/auth/me", {"name": "Ada L."})["name"] == "Ada L."
    assert ada.good("PATCH", "/auth/me", {})["name"] == "Ada L."
    assert ada.good("PATCH", "/auth/me", {"name": ""})["name"] == ""


BAD_SIGNUPS = [
    ({"password": PASSWORD}, "invalid-request"),
    ({"email": EXAMPLE}, "invalid-request"),
    ({"email": 7, "password": PASSWORD}, "invalid-request"),
    ({"email": EXAMPLE, "password": ["x"]}, "invalid-request"),
    ({"email": EXAMPLE, "password": PASSWORD, "role": "operator"}, "invalid-request"),
    ({"email": EXAMPLE, "password": PASSWORD, "is_operator": True}, "invalid-request"),
    ({"email": "ada", "password": PASSWORD}, "email-malformed"),
    ({"email": "ädä@example.com", "password": PASSWORD}, "email-malformed"),
    ({"email": "a@b\u0000c", "password": PASSWORD}, "invalid-request"),
    ({"email": "a" * 5000 + "@example.com", "password": PASSWORD}, "invalid-request"),
    ({"email": EXAMPLE, "password": "short"}, "password-weak"),
    ({"email": EXAMPLE, "password": "PASSWORD1"}, "password-weak"),
    ({"email": EXAMPLE, "password": EXAMPLE}, "password-weak"),
    ({"email": EXAMPLE, "password": "x" * 1025}, "password-weak"),
    ({"email": EXAMPLE, "password": "x" * 5000}, "invalid-request"),
    ({"email": EXAMPLE, "password": PASSWORD, "name": "two\nlines"}, "invalid-request"),
]


def test_bad_signups(server):
    for body, word in BAD_SIGNUPS:
        refused(server, 422, word, "POST", "/auth/signup", body)
    refused(server, 400, "bad-json", "POST", "/auth/signup", "{")
    refused(server, 400, "json-too-deep", "POST", "/auth/signup", "[" * 5000)
    refused(server, 413, "body-too-large", "POST", "/auth/signup", b" " * (21 << 20))
    refused(server, 405, "method-not-allowed", "GET", "/auth/signup")
    sign_up(server)
    refused(server, 409, "email-taken", "POST", "/auth/signup", {"email": "ADA@example.com", "password": PASSWORD})
    refused(server, 401, "bad-credentials", "POST", "/auth/signin", {"email": EXAMPLE, "password": "wrong one"})


def test_one_operator(server):
    """Of many who sign up at once one is the first."""
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        people = list(pool.map(lambda n: sign_up(server, f"u{n}@example.com"), range(6)))
    assert sorted(p.tokens["role"] for p in people) == ["operator"] + ["user"] * 5
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        replies = list(
            pool.map(
                lambda _: server.ask("POST", "/auth/signup", {"email": EXAMPLE, "password": PASSWORD}), range(4)
            )
        )
    assert sorted(r.status for r in replies) == [201, 409, 409, 409]


def test_the_form(server):
    sign_up(server, password="päss wörd+&=%41")

    def form(fields, **headers):
        body = fields if isinstance(fields, (bytes, str)) else urllib.parse.urlencode(fields)
        return server.ask("POST", "/auth/signin", body, **{"Content_Type": FORM, **headers})

    good = {"username": EXAMPLE, "password": "päss wörd+&=%41"}
    for fields in (
        good,
        {**good, "grant_type": "password"},
        {**good, "scope": "", "client_id": "x", "client_secret": "y", "other": "z"},
        {**good, "username": "ADA@example.com"},
    ):
        reply = form(fields)
        assert reply.status == 200, reply
        assert Account(server, reply.json).good("GET", "/auth/me")["email"] == EXAMPLE
    assert form(good, Content_Type=FORM + "; charset=UTF-8").status == 200
    for fields, status, word in (
        ({**good, "grant_type": "refresh_token"}, 400, "bad-request"),
        ({"username": EXAMPLE}, 422, "invalid-request"),
        ({"email": EXAMPLE, "password": "x"}, 422, "invalid-request"),
        ("", 422, "invalid-request"),
        ("&&&", 422, "invalid-request"),
        ("username=a&username=b&password=c", 400, "bad-request"),
        ("username=%00&password=c", 400, "bad-request"),
        (b"username=a\0b&password=c", 400, "bad-request"),
        ("username=%&password=c", 400, "bad-request"),
        ("username=%f&password=%zz", 400, "bad-request"),
        ("username=a@b&password=%ff", 400, "bad-request"),
        ("username=" + "a" * 20000, 413, "body-too-large"),
        ({**good, "password": "wrong"}, 401, "bad-credentials"),
        # what curl -d sends: JSON that claims to be a form
        (json.dumps({"email": EXAMPLE, "password": "x"}), 401, "bad-credentials"),
        (" {", 400, "bad-json"),
    ):
        reply = form(fields)
        assert reply.status == status and kind(reply.json) == word, (fields, reply)
    # JSON is what every other type of body is read as.
    assert server.ask("POST", "/auth/signin", urllib.parse.urlencode(good)).status == 400


# ---- tokens ----


def b64(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def signed(secret, header, claims):
    text = b64(json.dumps(header, separators=(",", ":")).encode()) + "."
    text += b64(json.dumps(claims, separators=(",", ":")).encode())
    return text + "." + b64(hmac.new(secret, text.encode(), hashlib.sha256).digest())


def parts(token):
    return [json.loads(base64.urlsafe_b64decode(p + "=" * (-len(p) % 4))) for p in token.split(".")[:2]]


def test_access_tokens(server):
    ada, bob = sign_up(server), sign_up(server, "bob@example.com")
    with open(server.data / "mark" / "signing-keys.json", encoding="ascii") as f:
        key = json.load(f)["keys"][0]
    secret = bytes.fromhex(key["secret"])
    header, claims = parts(ada.key)
    assert header == {"alg": "HS256", "typ": "JWT", "kid": key["kid"]}
    assert claims["iss"] == "glovebox" and claims["aud"] == "mark" and claims["sub"] == ada.id
    assert claims["exp"] - claims["iat"] == 900 and str(uuid.UUID(claims["jti"])) == claims["jti"]
    assert signed(secret, header, claims) == ada.key  # so what is refused below is refused for its own sake

    now = int(time.time())
    bad = {
        "expired": signed(secret, header, {**claims, "iat": now - 1000, "exp": now - 100}),
        "future": signed(secret, header, {**claims, "iat": now + 1000, "exp": now + 2000}),
        "nobody": signed(secret, header, {**claims, "sub": str(uuid.uuid4())}),
        "not a user": signed(secret, header, {**claims, "sub": "../../etc/passwd"}),
        "bob's stamp": signed(secret, header, {**claims, "stamp": parts(bob.key)[1]["stamp"]}),
        "audience": signed(secret, header, {**claims, "aud": "other"}),
        "issuer": signed(secret, header, {**claims, "iss": "other"}),
        "no exp": signed(secret, header, {k: v for k, v in claims.items() if k != "exp"}),
        "other key": signed(bytes(32), header, claims),
        "unknown kid": signed(secret, {**header, "kid": "0" * 16}, claims),
        "path as kid": signed(b"", {**header, "kid": "../../../../dev/null"}, claims),
        "alg none, signed": signed(secret, {**header, "alg": "none"}, claims),
        "HS512": signed(secret, {**header, "alg": "HS512"}, claims),
        "order of the header": signed(secret, dict(reversed(header.items())), claims),
        "more in the header": signed(secret, {**header, "jwk": {}}, claims),
        "two parts": ada.key.rpartition(".")[0],
        "no mac": ada.key.rpartition(".")[0] + ".",
        "bob's claims": ".".join([ada.key.split(".")[0], bob.key.split(".")[1], ada.key.split(".")[2]]),
        "truncated": ada.key[:-1],
        "longer": ada.key + "A",
        "padded": ada.key + "=",
        "four parts": ada.key + ".x",
        "oversized": ada.key + "A" * 4000,
        "refresh token": ada.refresh,
        "nothing": "eyJ",
    }
    for alg in ("none", "None", "NONE", ""):
        bad["alg " + alg] = b64(json.dumps({"alg": alg, "typ": "JWT"}).encode()) + "." + ada.key.split(".")[1] + "."
    for what, token in bad.items():
        for method, path, body in (
            ("GET", "/auth/me", None),
            ("GET", "/v1/sessions", None),
            ("POST", "/v1/execute", {"code": "1"}),
            ("POST", "/mcp", {"jsonrpc": "2.0", "id": 1, "method": "ping"}),
        ):
            reply = server.ask(method, path, body, Authorization="Bearer " + token)
            assert reply.status == 401, (what, path, reply)
            assert 'error="invalid_token"' in reply.headers["WWW-Authenticate"]
    assert "expired" in refused(server, 401, "token-invalid", "GET", "/auth/me",
                                Authorization="Bearer " + bad["expired"])["detail"]  # fmt: skip
    for authorization in ("Bearer", "Bearer ", "Basic " + b64(b"a:b"), ada.key):
        assert server.ask("GET", "/auth/me", Authorization=authorization).status == 401
    assert server.ask("GET", "/auth/me", Authorization="Bearer " + "A" * 200_000).status in (401, 413, 431)
    assert ada.good("GET", "/auth/me")["user_id"] == ada.id


def test_credentials_everywhere(serve, gb):  # noqa: F811
    """Where keys are needed, an access token is as good as one; for Mark's routes both are."""
    server = serve("--require-key")
    token = gb("key", "create", "--data", server.data).out.strip()
    refused(server, 401, "key-needed", "GET", "/v1/sessions")
    refused(server, 401, "sign-in-needed", "GET", "/auth/me")
    refused(server, 401, "key-unknown", "GET", "/auth/me", Authorization="Bearer gb_x")
    ada = sign_up(server)
    assert ada.good("GET", "/v1/sessions")["sessions"] == []
    assert ada.good("POST", "/v1/execute", {"code": "6 * 7"})["result"]["text/plain"] == "42"
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    rpc = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}
    accept = "application/json, text/event-stream"
    assert ada.ask("POST", "/mcp", rpc, Accept=accept).status == 200
    assert server.ask("POST", "/mcp", rpc, Accept=accept).status == 401
    assert server.good("GET", "/auth/me", X_API_Key=ada.key)["user_id"] == ada.id

    def key_works():
        return server.ask("GET", "/v1/sessions", Authorization="Bearer " + token).status == 200

    wait_for(key_works, 30, "the key to be known")
    # A key is let in, but it is nobody's account.
    for method, body in (("GET", None), ("PATCH", {"name": "x"}), ("DELETE", {"current_password": PASSWORD})):
        assert "API key" in refused(server, 401, "sign-in-needed", method, "/auth/me", body,
                                    Authorization="Bearer " + token)["detail"]  # fmt: skip


def test_refresh_and_sign_out(server):
    ada = sign_up(server)

    def refresh(token):
        return server.ask("POST", "/auth/refresh", {"refresh_token": token})

    first = refresh(ada.refresh)
    assert first.status == 200 and first.json["refresh_token"] != ada.refresh
    assert Account(server, first.json).good("GET", "/auth/me")["user_id"] == ada.id
    second = refresh(first.json["refresh_token"]).json
    other = sign_in(server)
    # a spent one: somebody has a copy, so all of them are out
    reused = refresh(ada.refresh)
    assert reused.status == 401 and kind(reused.json) == "token-invalid"
    assert refresh(second["refresh_token"]).status == 401
    again = refresh(other.refresh)
    assert again.status == 200
    # of many at once with one token none stays in
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        replies = list(pool.map(lambda _: refresh(again.json["refresh_token"]), range(4)))
    assert sorted(r.status for r in replies) == [200, 401, 401, 401]
    assert all(refresh(r.json["refresh_token"]).status == 401 for r in replies if r.status == 200)

    ada = sign_in(server)
    assert server.ask("POST", "/auth/signout", {"refresh_token": ada.refresh}).status == 204
    assert refresh(ada.refresh).status == 401
    assert server.ask("POST", "/auth/signout", {"refresh_token": ada.refresh}).status == 204
    assert server.ask("POST", "/auth/signout", {"refresh_token": "no such thing"}).status == 204
    for token in ("", "x" * 300):
        refused(server, 422, "invalid-request", "POST", "/auth/refresh", {"refresh_token": token})
    for token in ("x", ada.key[:200], ada.refresh[:-1], ada.refresh.upper()):
        refused(server, 401, "token-invalid", "POST", "/auth/refresh", {"refresh_token": token})
    refused(server, 422, "invalid-request", "POST", "/auth/refresh", {})


def test_change_of_password(server):
    ada = sign_up(server)
    other = sign_in(server)
    change = {"password": "another good password", "current_password": PASSWORD}
    refused(ada, 422, "invalid-request", "PATCH", "/auth/me", {"password": "another good password"})
    refused(ada, 422, "password-weak", "PATCH", "/auth/me", {**change, "password": "12345678"})
    refused(ada, 401, "bad-credentials", "PATCH", "/auth/me", {**change, "current_password": "wrong"})
    assert other.good("GET", "/auth/me")  # nothing has happened yet
    new = Account(server, ada.good("PATCH", "/auth/me", {**change, "name": "A"}))
    assert new.tokens["name"] == "A" and new.good("GET", "/auth/me")["name"] == "A"
    for old in (ada, other):
        refused(old, 401, "token-invalid", "GET", "/auth/me")
        refused(server, 401, "token-invalid", "POST", "/auth/refresh", {"refresh_token": old.refresh})
    refused(server, 401, "bad-credentials", "POST", "/auth/signin", {"email": EXAMPLE, "password": PASSWORD})
    sign_in(server, password="another good password")
    assert server.good("POST", "/auth/refresh", {"refresh_token": new.refresh})


# ---- guessing ----


def test_guessing(server):
    sign_up(server)

    def guess(email, address, password="wrong password"):
        return server.ask("POST", "/auth/signin", {"email": email, "password": password}, X_Forwarded_For=address)

    def guess_until_throttled(names):
        """The replies up to the first that is throttled; attempts come back with time, so no number is sure."""
        replies = []
        for email, address in names:
            replies.append(guess(email, address))
            if replies[-1].status == 429:
                assert kind(replies[-1].json) == "too-many-guesses"
                assert 1 <= int(replies[-1].headers["Retry-After"]) <= 60
                return replies
            assert replies[-1].status == 401 and kind(replies[-1].json) == "bad-credentials"
        pytest.fail("guessing is not throttled")

    # What somebody sees who guesses is the same for an account and for none.
    seen = []
    for email in (EXAMPLE, "nobody@example.com"):
        replies = guess_until_throttled((email, f"192.0.2.{n}") for n in range(100))
        assert len(replies) >= 11
        seen.append(
            [({k: v for k, v in r.json.items() if k != "request_id"}, sorted(r.headers)) for r in replies[:10]]
        )
    assert seen[0] == seen[1]
    # The right one is refused too, except from where it has worked before.
    assert guess(EXAMPLE, "198.51.100.1", PASSWORD).status == 429


def test_addresses(server):
    """What one client can easily have is one address. Asking to sign up where one may not costs no hash."""

    def ask(address):
        reply = server.ask("POST", "/auth/signup", {"email": EXAMPLE, "password": PASSWORD}, X_Forwarded_For=address)
        assert kind(reply.json) == {403: "signup-closed", 429: "too-many-guesses"}[reply.status]
        return reply.status

    statuses = []
    while 429 not in statuses and len(statuses) < 1000:
        statuses.append(ask(f"2001:db8::{len(statuses):x}"))
    assert 61 <= len(statuses) < 1000
    # The last address is the proxy's word, the others are anybody's.
    assert ask("1.2.3.4, 2001:db8::1") == 429
    assert ask("2001:db8::1, 1.2.3.4") == 403
    assert ask("2001:db8:0:1::1") == 403
    assert ask("not an address") == 403


def test_a_crowd_signs_in(server):
    """Hashing is expensive: whoever cannot be served is told so, and nothing falls over."""
    sign_up(server)
    before = server.memory()
    with concurrent.futures.ThreadPoolExecutor(24) as pool:
        statuses = list(
            pool.map(
                lambda n: server.ask("POST", "/auth/signin", {"email": EXAMPLE, "password": PASSWORD}).status, range(24)
            )
        )
    # Attempts count while they are tried, so that many at once are not as many guesses.
    assert set(statuses) <= {200, 429, 503} and statuses.count(200) >= 10
    assert server.memory() - before < 400 << 20
    sign_in(server)


# ---- who may sign up ----


def test_sign_up_from_elsewhere(serve, gb):  # noqa: F811
    server = serve()
    body = {"email": EXAMPLE, "password": PASSWORD}
    for headers in (
        {"X_Forwarded_For": "192.0.2.1"},
        {"Forwarded": "for=192.0.2.1"},
        {"X_Forwarded_Proto": "https"},
        {"Via": "1.1 proxy"},
    ):
        refused(server, 403, "signup-closed", "POST", "/auth/signup", body, **headers)
    code = gb("user", "invite", "--data", server.data).out.strip()
    away = {"X_Forwarded_For": "192.0.2.1"}
    # Not even with an invitation as long as nobody is the operator.
    refused(server, 403, "signup-closed", "POST", "/auth/signup", {**body, "invitation": code}, **away)
    server.good("POST", "/auth/signup", {**body, "email": "operator@example.com"}, 201)
    refused(server, 403, "signup-closed", "POST", "/auth/signup", {**body, "invitation": "x" + code}, **away)
    refused(server, 422, "password-weak", "POST", "/auth/signup", {**body, "password": "short", "invitation": code},
            **away)  # fmt: skip
    server.good("POST", "/auth/signup", {**body, "invitation": code}, 201, **away)
    # it is used up, and who has none does not learn which addresses exist
    refused(server, 403, "signup-closed", "POST", "/auth/signup", {**body, "invitation": code}, **away)
    refused(server, 403, "signup-closed", "POST", "/auth/signup", body, **away)
    refused(server, 409, "email-taken", "POST", "/auth/signup", body)


def test_modes_of_signing_up(serve, gb, tmp_path):  # noqa: F811
    body = {"email": EXAMPLE, "password": PASSWORD}
    closed = serve("--signup", "closed")
    code = gb("user", "invite", "--data", closed.data).out.strip()
    refused(closed, 403, "signup-closed", "POST", "/auth/signup", {**body, "invitation": code})
    invite = serve("--signup", "invite", data=closed.data) if closed.stop() == 0 else None
    refused(invite, 403, "signup-closed", "POST", "/auth/signup", body)
    invite.good("POST", "/auth/signup", {**body, "invitation": code}, 201)
    # An account is enough to listen for others; without a token they get nowhere.
    assert invite.stop() == 0
    both = serve("--signup", "open", "--listen", "[::]:0", data=closed.data)
    both.good("POST", "/auth/signup", {**body, "email": "bob@example.com"}, 201, X_Forwarded_For="192.0.2.1")
    off = serve("--mark", "off")
    for method, path in (("POST", "/auth/signin"), ("POST", "/auth/signup"), ("GET", "/auth/me")):
        refused(off, 404, "mark-off", method, path, body if method == "POST" else None)


# ---- the end of an account ----

OWNED = {
    "mark_chats": "owner = :owner",
    "mark_messages": "chat_id = :chat",
    "mark_traces": "message_id = :message",
    "mark_feedback": "message_id = :message",
    "mark_attachments": "owner = :owner",
    "mark_sign_ins": "user_id = :user",
    "mark_users": "id = :user",
}


def rows(server, names):
    db = sqlite3.connect(server.data / "glovebox.db")
    try:
        return {
            table: db.execute(f"SELECT count(*) FROM {table} WHERE {where}", names).fetchone()[0]
            for table, where in OWNED.items()
        }
    finally:
        db.close()


def give_a_chat(server, names):
    """A chat as Mark keeps it, with everything that hangs on it, and a file."""
    content = os.urandom(64)
    sha256 = hashlib.sha256(content).hexdigest()
    db = sqlite3.connect(server.data / "glovebox.db")
    db.execute("PRAGMA foreign_keys = ON")

    def insert(table, **values):
        columns = [c[1] for c in db.execute(f"PRAGMA table_info({table})")]
        needed = {c[1]: 0 if "INT" in c[2] else "x" for c in db.execute(f"PRAGMA table_info({table})") if c[3]}
        values = {**needed, **values}
        assert set(values) <= set(columns)
        marks = ", ".join(":" + name for name in values)
        db.execute(f"INSERT INTO {table} ({', '.join(values)}) VALUES ({marks})", values)

    with db:
        insert("mark_chats", id=names["chat"], owner=names["owner"])
        insert("mark_messages", id=names["message"], chat_id=names["chat"], seq=1, role="user", status="ok")
        insert("mark_traces", message_id=names["message"], n=1)
        insert("mark_feedback", message_id=names["message"], owner=names["owner"], rating="up")
        insert("mark_attachments", id=str(uuid.uuid4()), owner=names["owner"], sha256=sha256, size=64)
    db.close()
    files = server.data / "mark" / "files"
    path = files / sha256
    path.write_bytes(content)
    path.chmod(0o600)
    return path


def test_deletion(server):
    ada, bob = sign_up(server), sign_up(server, "bob@example.com")
    names = {}
    for who in (ada, bob):
        names[who] = {"owner": "user-" + who.id, "user": who.id, "chat": str(uuid.uuid4()),
                      "message": str(uuid.uuid4())}  # fmt: skip
    files = {who: give_a_chat(server, names[who]) for who in (ada, bob)}
    session = ada.session()
    refused(ada, 422, "invalid-request", "DELETE", "/auth/me")
    refused(ada, 401, "bad-credentials", "DELETE", "/auth/me", {"current_password": "wrong"})
    assert set(rows(server, names[ada]).values()) == {1} and files[ada].exists()
    assert ada.ask("DELETE", "/auth/me", {"current_password": PASSWORD}).status == 204
    assert set(rows(server, names[ada]).values()) == {0}
    assert not files[ada].exists()
    assert set(rows(server, names[bob]).values()) == {1} and files[bob].exists()

    for method, path, body in (
        ("GET", "/auth/me", None),
        ("DELETE", "/auth/me", {"current_password": PASSWORD}),
        ("GET", f"/v1/sessions/{session}", None),
        ("POST", "/v1/execute", {"code": "1"}),
    ):
        refused(ada, 401, "token-invalid", method, path, body)
    refused(server, 401, "token-invalid", "POST", "/auth/refresh", {"refresh_token": ada.refresh})
    refused(server, 401, "bad-credentials", "POST", "/auth/signin", {"email": EXAMPLE, "password": PASSWORD})
    again = sign_up(server)
    assert again.id != ada.id and again.good("GET", "/v1/sessions")["sessions"] == []
    assert again.tokens["role"] == "user"


def test_deletion_in_the_middle_of_an_answer(serve, tmp_path):  # noqa: F811
    """The answer ends, its box too, and the file that was attached is gone."""
    ann = mark_kit.person(serve(*mark_kit.scripted(tmp_path / "model", [mark_kit.run("import time; time.sleep(600)")])))
    attached = ann.upload()
    stored = ann.data / "mark" / "files" / attached["sha256"]
    assert stored.exists()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        asked = pool.submit(ann.ask, "POST", "/api/v1/chat", ann.question("Which region?", files=[attached]))
        wait_for(lambda: ann.good("GET", "/v1/sessions")["sessions"], 60, "the box of the chat")
        assert ann.ask("DELETE", "/auth/me", {"current_password": mark_kit.PASSWORD}).status == 204
        asked.result(60)  # whatever it is told, it is told soon
    assert not stored.exists()
    user = ann.account["user_id"]
    db = sqlite3.connect(ann.data / "glovebox.db")
    try:
        for table in OWNED:
            assert db.execute(f"SELECT count(*) FROM {table}").fetchone()[0] == 0, table
        ended = db.execute("SELECT count(*), count(ended_us) FROM sessions WHERE owner = ?", ["user-" + user]).fetchone()
    finally:
        db.close()
    assert ended[0] == ended[1] > 0


# ---- the command ----


@pytest.fixture
def user(gb):
    def run(server, *args, code=0, **how):
        r = gb("user", *args, "--data", server.data, **how)
        assert r.code == code, (r.code, r.out, r.err)
        return r

    return run


def test_the_command_beside_a_service(serve, user):  # noqa: F811
    server = serve()
    r = user(server, "add", "Ada@example.com", "--name", "Ada L.")
    password = r.out.strip()
    assert len(password) >= 20 and password not in r.err and "only once" in r.err
    ada = sign_in(server, password=password)
    assert ada.tokens["role"] == "operator" and ada.tokens["name"] == "Ada L."
    assert "exists" in user(server, "add", EXAMPLE, code=1).err

    file = server.data / "password"
    file.write_text(PASSWORD + "\nmore\n")
    r = user(server, "add", "bob@example.com", "--password-file", file, "--json")
    made = json.loads(r.out)
    assert made["email"] == "bob@example.com" and made["role"] == "user" and "password" not in made and r.err == ""
    sign_in(server, "bob@example.com")
    user(server, "add", "eve@example.com", "--password-file", "-", stdin=PASSWORD + "\n")
    eve = sign_in(server, "eve@example.com")
    assert "password" in json.loads(user(server, "add", "zoe@example.com", "--json").out)

    listed = json.loads(user(server, "list", "--json").out)["users"]
    assert [u["email"] for u in listed] == [EXAMPLE, "bob@example.com", "eve@example.com", "zoe@example.com"]
    assert all(set(u) == {"user_id", "email", "name", "role", "created"} for u in listed)
    text = user(server, "list").out
    assert EXAMPLE in text and "'Ada L.'" in text and "argon2" not in text

    new = user(server, "reset", EXAMPLE).out.strip()
    wait_for(lambda: ada.ask("GET", "/auth/me").status == 401, 30, "the old token to be refused")
    refused(server, 401, "token-invalid", "POST", "/auth/refresh", {"refresh_token": ada.refresh})
    sign_in(server, password=new)
    user(server, "remove", "EVE@example.com")
    wait_for(lambda: eve.ask("GET", "/auth/me").status == 401, 30, "the removed user to be refused")
    refused(server, 401, "bad-credentials", "POST", "/auth/signin",
            {"email": "eve@example.com", "password": PASSWORD})  # fmt: skip
    invited = json.loads(user(server, "invite", "--valid", "2h", "--json").out)
    server.good("POST", "/auth/signup", {"email": "guest@example.com", "password": PASSWORD,
                "invitation": invited["invitation"]}, 201, X_Forwarded_For="192.0.2.9")  # fmt: skip


def test_the_command_refuses(user, tmp_path):
    class Place:
        data = tmp_path / "none"

    for args in (("list",), ("reset", EXAMPLE), ("remove", EXAMPLE)):
        user(Place, *args, code=1)
        assert not Place.data.exists()
    for args in (
        (), ("add",), ("reset",), ("remove",), ("what",), ("add", "not an address"), ("add", EXAMPLE, "more"),
        ("list", EXAMPLE), ("list", "--password-file", "x"), ("remove", EXAMPLE, "--name", "x"),
        ("invite", "--valid", "0"), ("add", EXAMPLE, "--name", "a\nb"),
    ):  # fmt: skip
        user(Place, *args, code=2)
    for text in ("", "short\n", "password\n", "a" * 1025, "b" * 5000, "nul\0nul nul\n"):
        user(Place, "add", EXAMPLE, "--password-file", "-", stdin=text, code=2)
    user(Place, "add", EXAMPLE, "--password-file", tmp_path / "no such file", code=1)
    user(Place, "remove", EXAMPLE, code=1)
    user(Place, "reset", EXAMPLE, code=1)
    assert json.loads(user(Place, "list", "--json").out) == {"users": []}


def talk(argv, answers, env):
    """Runs a program on a terminal of its own; gives what it shows and its exit code."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(argv[0], argv, env)
    shown, left = b"", list(answers)
    end = time.monotonic() + 60
    while time.monotonic() < end:
        ready, _, _ = select.select([terminal], [], [], 1)
        if not ready:
            continue
        try:
            piece = os.read(terminal, 4096)
        except OSError:
            break
        if not piece:
            break
        shown += piece
        if left and shown.endswith(left[0][0].encode()):
            os.write(terminal, left.pop(0)[1].encode())
    os.close(terminal)
    return shown.decode(), os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_the_command_on_a_terminal(gb, user, tmp_path):
    class Place:
        data = tmp_path / "data"

    argv = [gb.binary if hasattr(gb, "binary") else os.environ.get("GLOVEBOX", "build/glovebox"), "user", "add"]
    argv[0] = os.path.abspath(argv[0])
    env = {**os.environ, "HOME": str(tmp_path)}

    def add(email, *answers):
        return talk([*argv, email, "--data", str(Place.data)], answers, env)

    shown, code = add(EXAMPLE, ("make one): ", PASSWORD + "\n"), ("Again: ", PASSWORD + "\n"))
    assert code == 0 and PASSWORD not in shown and "created the account" in shown
    shown, code = add("bob@example.com", ("make one): ", PASSWORD + "\n"), ("Again: ", "another\n"))
    assert code == 2 and "not the same" in shown and "another" not in shown
    shown, code = add("bob@example.com", ("make one): ", "\x03\n"))
    assert code == 1 and "cancelled" in shown
    shown, code = add("eve@example.com", ("make one): ", "\n"))
    assert code == 0 and "only once" in shown
    assert [u["email"] for u in json.loads(user(Place, "list", "--json").out)["users"]] == [EXAMPLE, "eve@example.com"]


# ---- what is written down ----


def test_nothing_secret_is_written(serve, gb):  # noqa: F811
    server = serve("--log-level", "debug")
    secrets = [PASSWORD, "another good password", "a wrong password"]
    ada = sign_up(server)
    server.ask("POST", "/auth/signin", {"email": EXAMPLE, "password": "a wrong password"})
    server.ask("POST", "/auth/signin", urllib.parse.urlencode({"username": EXAMPLE, "password": PASSWORD}),
               Content_Type=FORM)  # fmt: skip
    ada.good("POST", "/v1/execute", {"code": "1"})
    changed = Account(
        server,
        ada.good("PATCH", "/auth/me", {"password": "another good password", "current_password": PASSWORD}),
    )
    again = server.good("POST", "/auth/refresh", {"refresh_token": changed.refresh})
    code = gb("user", "invite", "--data", server.data).out.strip()
    for tokens in (ada.tokens, changed.tokens, again):
        secrets += [tokens["access_token"], tokens["access_token"].rpartition(".")[2], tokens["refresh_token"],
                    tokens["refresh_token"].rpartition("_")[2]]  # fmt: skip
    secrets.append(code)
    who = gb("audit", "show", "--json", "--data", server.data).out
    assert "user-" + ada.id in who
    seen = [who.encode(), server.log.read_bytes()]
    for root, _, names in os.walk(server.data):
        for name in names:
            path = os.path.join(root, name)
            if os.path.isfile(path) and os.path.getsize(path) < 64 << 20:
                with open(path, "rb") as f:
                    seen.append(f.read())
    for secret in secrets:
        assert not any(secret.encode() in text for text in seen), secret
    assert EXAMPLE.encode() not in server.log.read_bytes()
    events = [json.loads(line) for line in server.log.read_text().splitlines()]
    failed = [e for e in events if e.get("event") == "account" and e.get("problem") == "bad-credentials"]
    assert len(failed) == 1 and failed[0]["address"] == "127.0.0.1"
    for path in (server.data / "mark", server.data / "mark" / "signing-keys.json"):
        assert stat.S_IMODE(path.stat().st_mode) in (0o700, 0o600)


def test_keys_stay(serve, tmp_path):  # noqa: F811
    """Access tokens are good after a restart; without the file of keys they are not."""
    data = tmp_path / "shared"
    one = serve(data=data)
    ada = sign_up(one)
    assert one.stop() == 0
    two = serve(data=data)
    assert Account(two, ada.tokens).good("GET", "/auth/me")["user_id"] == ada.id
    assert two.stop() == 0
    (data / "mark" / "signing-keys.json").unlink()
    three = serve(data=data)
    refused(Account(three, ada.tokens), 401, "token-invalid", "GET", "/auth/me")
    assert Account(three, three.good("POST", "/auth/refresh", {"refresh_token": ada.refresh})).good("GET", "/auth/me")


def test_the_document(server):
    spec = server.good("GET", "/openapi.json")
    paths = spec["paths"]
    assert set(paths["/auth/me"]) == {"get", "patch", "delete"}
    for path in ("/auth/signup", "/auth/signin", "/auth/refresh", "/auth/signout"):
        assert paths[path]["post"]["security"] == []
    assert paths["/auth/me"]["get"]["security"] == [{"password": []}, {"bearer": []}, {"key": []}]
    flow = spec["components"]["securitySchemes"]["password"]["flows"]["password"]
    assert flow["tokenUrl"] == "/auth/signin"
    content = paths["/auth/signin"]["post"]["requestBody"]["content"]
    assert set(content) == {"application/json", FORM}
    assert "401" in paths["/auth/signin"]["post"]["responses"] and "401" in paths["/auth/me"]["get"]["responses"]
