"""
MCP with wrong input, on every transport: the error that the specification names, the connection and
the other clients unharmed, nothing left behind.

In every test over HTTP a bystander has a session of its own with something in it, which must be
there afterwards.
"""

import contextlib
import http.client
import json
import signal
import socket

import pytest

from conftest import wait_for
from mcp_wire import (HEADER_MISMATCH, INVALID_PARAMS, INVALID_REQUEST, LEGACY, META, MODERN,
                      NO_METHOD, NO_VERSION, PARSE_ERROR, PATIENCE, Http, Sse, Stdio, call, failed,
                      hello, loop, messages_of, modern, modern_headers, notification, ran, request)
from serve_kit import serve, server  # noqa: F401

NOT_UTF8 = b'{"jsonrpc": "2.0", "id": 5, "method": "ping", "params": {"a": "\xff\xfe"}}'
HUGE = 50 << 20

# What is no message at all, and the code for it.
NO_MESSAGES = [
    (b"", PARSE_ERROR),
    (b"hello", PARSE_ERROR),
    (b'{"jsonrpc": "2.0"', PARSE_ERROR),
    (NOT_UTF8, PARSE_ERROR),
    (b'{"jsonrpc": "2.0", "id": 5, "method": "pi\\u0000ng"}', PARSE_ERROR),
    (b"[" * 100000, PARSE_ERROR),
    (b"17", INVALID_REQUEST),
    (b'"text"', INVALID_REQUEST),
    (b"null", INVALID_REQUEST),
    (b"{}", INVALID_REQUEST),
    (b'{"id": 5, "method": "ping"}', INVALID_REQUEST),
    (b'{"jsonrpc": "1.0", "id": 5, "method": "ping"}', INVALID_REQUEST),
    (b'{"jsonrpc": 2.0, "id": 5, "method": "ping"}', INVALID_REQUEST),
    (b'{"jsonrpc": "2.0", "id": 5, "method": 17}', INVALID_REQUEST),
    (b'{"jsonrpc": "2.0", "id": null, "method": "ping"}', INVALID_REQUEST),
    (b'{"jsonrpc": "2.0", "id": {}, "method": "ping"}', INVALID_REQUEST),
    (b'{"jsonrpc": "2.0", "id": [5], "method": "ping"}', INVALID_REQUEST),
    (b'{"jsonrpc": "2.0", "id": true, "method": "ping"}', INVALID_REQUEST),
]

# Requests whose parameters are wrong.
WRONG_PARAMS = [
    ("tools/call", ["execute_python"]),
    ("tools/call", "execute_python"),
    ("tools/call", {}),
    ("tools/call", {"name": 5}),
    ("tools/call", {"name": "no_such_tool", "arguments": {}}),
    ("tools/call", {"name": "execute_python", "arguments": ["print(1)"]}),
    ("tools/call", {"name": "execute_python", "arguments": "print(1)"}),
    ("prompts/get", {}),
    ("prompts/get", {"name": "no such prompt"}),
    ("prompts/get", {"name": []}),
    ("resources/read", {}),
    ("resources/read", {"uri": 5}),
    ("completion/complete", {"ref": "x"}),
]

# Arguments of tools that a model may get wrong: it is told, as a result, so that it can mend them.
WRONG_ARGUMENTS = [
    ("execute_python", {}),
    ("execute_python", {"code": 5}),
    ("execute_python", {"code": None}),
    ("execute_python", {"code": "1", "timeout": "soon"}),
    ("execute_python", {"code": "1", "timeout": -1}),
    ("execute_python", {"code": "1", "timeout": 1e9}),
    ("execute_python", {"code": "1", "session_id": "nope"}),
    ("execute_python", {"code": "1", "session_id": 7}),
    ("close_session", {"session_id": "nope"}),
    ("run_command", {"command": ["ls"]}),
    ("upload_file", {"path": "../../etc/passwd", "content": "x"}),
    ("read_file", {"path": "/etc/shadow"}),
    ("pip_install", {"package": "; rm -rf /"}),
]


@pytest.fixture
def bystander(server):
    client = Http(server)
    ran(client.python("kept = 'safe and sound'"))
    yield client
    assert "safe and sound" in ran(client.python("print(kept)"))


@pytest.fixture
def client(server, bystander):
    return Http(server)


@pytest.fixture
def stateless(server, bystander):
    return Http(server, MODERN)


@pytest.fixture
def sse(server, bystander):
    made = Sse(server)
    yield made
    made.close()


@pytest.fixture
def stdio(gb):
    made = Stdio(gb)
    yield made
    assert made.hang_up() == 0, made.errors


def code_of(response):
    assert response["error"]["message"], response
    return response["error"]["code"]


def lives(client):
    assert "42" in ran(client.python("print(6 * 7)"))


# ---- messages that are none --------------------------------------------------------------------


def test_no_message_http(client):
    for body, code in NO_MESSAGES:
        reply = client.post(body)
        assert reply.status == 400, (body[:80], reply)
        [error] = messages_of(reply)
        assert code_of(error) == code, (body[:80], error)
    lives(client)


def test_no_message_sse(sse):
    for body, code in NO_MESSAGES:
        reply = sse.post(body)
        assert reply.status in (202, 400), (body[:80], reply)
        error = sse.lines.next() if reply.status == 202 else messages_of(reply)[0]
        assert code_of(error) == code, (body[:80], error)
    lives(sse)


def test_no_message_stdio(stdio):
    for body, code in NO_MESSAGES:
        if body:  # an empty line is nothing
            stdio.send(body + b"\n")
            error = stdio.lines.next()
            assert code_of(error) == code, (body[:80], error)
    stdio.send(b"\n\r\n")
    lives(stdio)


def test_a_message_in_pieces(stdio):
    text = json.dumps(call("execute_python", 5, code="print(6 * 7)")).encode()
    for at in range(0, len(text), 7):
        stdio.send(text[at : at + 7])
    stdio.send(b"\r\n")
    assert "42" in ran(stdio.lines.response(5))


def test_the_last_line_may_lack_its_end(gb):
    client = Stdio(gb)
    client.send(json.dumps(request("ping", number=5)).encode())
    client.process.stdin.close()
    assert client.lines.response(5)["result"] == {}
    assert client.process.wait(PATIENCE) == 0


# ---- methods, parameters, arguments ------------------------------------------------------------


def test_unknown_method(client, stateless, sse):
    for method in ("no/such", "tools/Call", "", "server/discover"):
        assert code_of(client.ask(request(method))) == NO_METHOD
        assert code_of(sse.ask(request(method))) == NO_METHOD
    # This era tells it in the status too, and does not have all that the other had.
    for method in ("no/such", "initialize", "ping", "logging/setLevel", "resources/subscribe"):
        assert code_of(stateless.ask(request(method), 404)) == NO_METHOD, method
    # Notifications are never answered.
    assert client.post(notification("notifications/no/such")).status == 202
    assert client.post(notification("no/such", {"a": [1]})).status == 202
    assert stateless.post(notification("notifications/no/such")).status == 202
    lives(client)


def test_unknown_method_stdio(stdio):
    stdio.send(notification("notifications/no/such"))
    assert code_of(stdio.ask(request("no/such"))) == NO_METHOD
    lives(stdio)


def test_wrong_params(client, sse):
    for method, params in WRONG_PARAMS:
        assert code_of(client.ask(request(method, params))) == INVALID_PARAMS, (method, params)
        assert code_of(sse.ask(request(method, params))) == INVALID_PARAMS, (method, params)
    for meta in ("x", 5, {"progressToken": {}}, {"progressToken": True}):
        params = {"name": "execute_python", "arguments": {"code": "1"}, "_meta": meta}
        assert code_of(client.ask(request("tools/call", params))) == INVALID_PARAMS, meta
    for version in (None, 5, ["2025-11-25"]):
        reply = client.server.ask("POST", "/mcp", request("initialize", {
            "protocolVersion": version, "capabilities": {}, "clientInfo": {}}),
            Content_Type="application/json", Accept="application/json, text/event-stream")
        assert code_of(messages_of(reply)[0]) == INVALID_PARAMS
    lives(client)


def test_wrong_params_modern(stateless):
    for method, params in WRONG_PARAMS:
        if not isinstance(params, dict):
            continue  # the envelope is in there
        named = params.get({"resources/read": "uri"}.get(method, "name"))
        headers = {"Mcp-Name": named} if isinstance(named, str) else {}
        body = json.dumps(modern(request(method, params, 5))).encode()
        reply = stateless.post(body, MCP_Protocol_Version=MODERN, Mcp_Method=method, **headers)
        assert reply.status in (200, 400), reply
        assert code_of(messages_of(reply)[-1]) == INVALID_PARAMS, (method, params)
    lives(stateless)


def test_wrong_arguments(client, stateless):
    for tool, arguments in WRONG_ARGUMENTS:
        for one in (client, stateless):
            response = one.ask(call(tool, **arguments))
            assert len(failed(response)) > 10, (tool, arguments)
    lives(client)


def test_unknown_resource(client, stateless):
    for uri in ("glovebox://sessions/nope/files/a.txt", "file:///etc/passwd", "glovebox://", "",
                "glovebox://sessions/../files/x", "http://[", "x" * 5000):
        for one in (client, stateless):
            reply = one.post(request("resources/read", {"uri": uri}, 5))
            error = messages_of(reply)[-1]
            assert code_of(error) in (-32002, INVALID_PARAMS), (uri, error)


# ---- the envelope and the headers of the newest revision ---------------------------------------


def test_missing_meta(stateless):
    message = call("execute_python", 5, code="print(6 * 7)")
    whole = modern(message)["params"]["_meta"]
    cases = [None, {}, 5, "x", []]
    cases += [{k: v for k, v in whole.items() if k != META + name}
              for name in ("protocolVersion", "clientCapabilities")]
    cases += [{**whole, META + "protocolVersion": 5}, {**whole, META + "clientCapabilities": "x"},
              {**whole, META + "clientInfo": "x"}, {**whole, META + "logLevel": "loud"}]
    for meta in cases:
        params = {**message["params"], "_meta": meta}
        if meta is None:
            del params["_meta"]
        body = json.dumps({**message, "params": params}).encode()
        reply = stateless.post(body, **modern_headers(message))
        assert reply.status == 400, (meta, reply)
        [error] = messages_of(reply)
        assert code_of(error) == INVALID_PARAMS and error["id"] == 5, (meta, error)
    lives(stateless)


def test_unknown_revision(stateless, client):
    message = modern(request("tools/list", number=5), version="2031-01-01")
    reply = stateless.post(json.dumps(message).encode(),
                           **modern_headers(message, MCP_Protocol_Version="2031-01-01"))
    assert reply.status == 400, reply
    [error] = messages_of(reply)
    assert code_of(error) == NO_VERSION
    assert MODERN in error["error"]["data"]["supported"]
    assert error["error"]["data"]["requested"] == "2031-01-01"
    # In the era of sessions a header that names no revision is a bad request.
    for version in ("2020-01-01", "yesterday", "2025-11-2"):
        reply = client.post(request("tools/list"), MCP_Protocol_Version=version)
        assert reply.status == 400, (version, reply)
    lives(client)


def test_header_contradicts_body(stateless):
    message = call("execute_python", 5, code="open('ran', 'w')")
    listing = request("tools/list", number=5)
    cases = [
        (message, {"Mcp_Method": "tools/list"}),
        (message, {"Mcp_Method": None}),
        (message, {"Mcp_Method": "TOOLS/CALL"}),
        (message, {"Mcp_Name": "read_file"}),
        (message, {"Mcp_Name": None}),
        (message, {"Mcp_Name": "=?base64?!!?="}),
        (message, {"MCP_Protocol_Version": "2025-11-25"}),
        (message, {"MCP_Protocol_Version": None}),
        (listing, {"Mcp_Method": "tools/call"}),
        (listing, {"Mcp_Method": None}),
    ]
    for body, changed in cases:
        headers = {"Mcp-Method": None, "Mcp-Name": None, "MCP-Protocol-Version": None,
                   **modern_headers(body, **changed)}
        reply = stateless.post(json.dumps(modern(body)).encode(), **headers)
        assert reply.status == 400, (changed, reply)
        [error] = messages_of(reply)
        assert code_of(error) == HEADER_MISMATCH and error["id"] == 5, (changed, error)
    # What a header cannot hold may be sent as base64.
    reply = stateless.post(message, Mcp_Name="=?base64?ZXhlY3V0ZV9weXRob24=?=")
    ran(messages_of(reply)[-1])
    lives(stateless)


# ---- sessions ----------------------------------------------------------------------------------


def test_unknown_session(server, client):
    other = Http(server)
    assert other.end().status in (200, 204)
    for session in ("nope", "x" * 5000, "..", other.session):
        for message in (request("tools/list"), notification("notifications/initialized"),
                        {"jsonrpc": "2.0", "id": 5, "result": {}}):
            assert client.post(message, MCP_Session_Id=session).status == 404, session
        for method in ("GET", "DELETE"):
            connection, reply = client.open(None, method, MCP_Session_Id=session,
                                            Accept="text/event-stream")
            with contextlib.closing(connection):
                assert reply.status == 404, (method, session)
    # Without one, when it is not the first message.
    for message in (request("tools/list"), notification("notifications/initialized")):
        assert client.post(message, MCP_Session_Id=None).status == 400
    # A session begins once.
    assert code_of(messages_of(client.post(hello()))[0]) == INVALID_REQUEST
    lives(client)


def test_unknown_session_sse(server, sse):
    path = sse.endpoint.partition("?")[0]
    for query in ("", "?", "?session_id=nope", "?sessionId=nope", "?session_id="):
        assert server.ask("POST", path + query, request("ping"),
                          Content_Type="application/json").status in (400, 404, 422), query
    lives(sse)


def test_sessions_of_another_key(gb, serve, tmp_path):
    data = tmp_path / "keyed"
    keys = [gb("key", "create", "--data", data).out.strip() for _ in range(2)]
    server = serve("--require-key", data=data)
    first, second = (Http(server, key=key) for key in keys)
    ran(first.python("mine = 1"))
    assert second.post(request("tools/list"), MCP_Session_Id=first.session).status == 404
    assert second.post(request("tools/list"), MCP_Session_Id=first.session,
                       Authorization=None).status == 401
    made = first.ask(call("create_session"))["result"]["structuredContent"]["session_id"]
    assert "session" in failed(second.python("print(1)", session_id=made))
    assert "session" in failed(second.ask(call("close_session", session_id=made)))
    uri = f"glovebox://sessions/{made}/files/a.txt"
    ran(first.ask(call("upload_file", path="a.txt", content="mine", session_id=made)))
    assert first.ask(request("resources/read", {"uri": uri}))["result"]["contents"]
    assert "error" in second.ask(request("resources/read", {"uri": uri}))
    assert uri not in json.dumps(second.ask(request("resources/list")))
    assert "1" in ran(first.python("print(mine)"))


def test_before_initialize(server, gb, bystander):
    client = Stdio(gb, version=None)
    assert code_of(client.ask(request("tools/list"))) == INVALID_REQUEST
    assert code_of(client.ask(call("execute_python", code="1"))) == INVALID_REQUEST
    assert client.ask(request("ping"))["result"] == {}
    client.ask(hello())
    lives(client)
    assert client.hang_up() == 0


# ---- batches -----------------------------------------------------------------------------------


def test_batch_in_a_revision_without(server, bystander, sse):
    batch = json.dumps([request("ping", number=5), request("tools/list", number=6)]).encode()
    for version in ("2024-11-05", "2025-06-18", "2025-11-25"):
        client = Http(server, version)
        for body in (batch, b"[]"):
            reply = client.post(body)
            assert reply.status == 400, (version, reply)
            assert code_of(messages_of(reply)[0]) == INVALID_REQUEST
        lives(client)
    stateless = Http(server, MODERN)
    message = request("tools/list", number=5)
    reply = stateless.post(json.dumps([modern(message)]).encode(), **modern_headers(message))
    assert reply.status == 400 and code_of(messages_of(reply)[0]) == INVALID_REQUEST
    lives(stateless)


def test_batch_in_the_revision_with(server, bystander):
    client = Http(server, "2025-03-26")
    batch = [request("ping", number=5), notification("notifications/no/such"),
             call("execute_python", 6, code="print(6 * 7)"), request("no/such", number=7)]
    reply = client.post(json.dumps(batch).encode())
    assert reply.status == 200, reply
    found = messages_of(reply)
    found = found[0] if isinstance(found[0], list) else found
    by_id = {one["id"]: one for one in found}
    assert set(by_id) == {5, 6, 7}
    assert "42" in ran(by_id[6]) and code_of(by_id[7]) == NO_METHOD
    assert client.post(json.dumps([notification("notifications/no/such")]).encode()).status == 202
    for body in ([], [request("ping", number=5)] * 1000):
        assert client.post(json.dumps(body).encode()).status == 400
    lives(client)


def test_batch_stdio(stdio):
    stdio.send([request("ping", number=5)])
    assert code_of(stdio.lines.next()) == INVALID_REQUEST
    lives(stdio)


# ---- too much ----------------------------------------------------------------------------------


def test_huge_message(server, client, stateless, sse):
    code = "#" * HUGE
    before = server.memory()
    for one in (client, stateless):
        reply = one.post(call("execute_python", 5, code=code))
        assert reply.status == 413, reply
        lives(one)
    assert sse.post(call("execute_python", 5, code=code)).status == 413
    lives(sse)
    assert server.memory() - before < HUGE  # and none of it was kept


def test_huge_message_stdio(stdio):
    stdio.send(call("execute_python", 5, code="#" * HUGE))
    error = stdio.lines.next()
    assert code_of(error) in (INVALID_REQUEST, PARSE_ERROR)
    lives(stdio)


# ---- ids and responses -------------------------------------------------------------------------


def test_duplicate_id(client):
    with client.underway(loop(7)) as messages:
        reply = client.post(call("execute_python", 7, code="print('second')"))
        assert reply.status in (200, 400), reply
        assert code_of(messages_of(reply)[-1]) == INVALID_REQUEST
        # The first is as it was, and can still be cancelled by its id.
        assert client.post(notification("notifications/cancelled", {"requestId": 7})).status == 202
        for _ in messages:
            pass
    lives(client)


def test_duplicate_id_stdio(stdio):
    stdio.send(loop(7))
    stdio.lines.notified("notifications/progress")
    stdio.send(request("ping", number=7))
    assert code_of(stdio.lines.response(7)) == INVALID_REQUEST
    stdio.send(notification("notifications/cancelled", {"requestId": 7}))
    lives(stdio)


def test_ids_are_told_apart_by_type(client):
    with client.underway(loop(7)):
        assert client.post(request("ping", number="7")).status == 200
        for number in ("7", 8, None, {}, 7.5):
            client.post(notification("notifications/cancelled", {"requestId": number}))
        client.post(notification("notifications/cancelled"))
        assert client.ask(request("ping"))["result"] == {}
        client.post(notification("notifications/cancelled", {"requestId": 7}))
    lives(client)


def test_a_response_nobody_waits_for(client, stateless, sse):
    strays = [{"jsonrpc": "2.0", "id": 99, "result": {}},
              {"jsonrpc": "2.0", "id": "x", "error": {"code": -1, "message": "no"}}]
    for stray in strays:
        assert client.post(stray).status == 202
        assert sse.post(stray).status == 202
        # There are none in the era without sessions.
        reply = stateless.post(json.dumps(stray).encode(), MCP_Protocol_Version=MODERN)
        assert 400 <= reply.status < 500, reply
    for wrong in ({"jsonrpc": "2.0", "id": 99}, {"jsonrpc": "2.0", "result": {}},
                  {"jsonrpc": "2.0", "id": 99, "result": {}, "error": {"code": 1, "message": "x"}}):
        assert client.post(wrong).status == 400, wrong
    lives(client)
    lives(sse)


def test_a_response_nobody_waits_for_stdio(stdio):
    stdio.send({"jsonrpc": "2.0", "id": 99, "result": {}})
    stdio.send({"jsonrpc": "2.0", "id": 98, "error": {"code": -1, "message": "no"}})
    assert stdio.ask(request("ping"))["result"] == {}
    lives(stdio)


# ---- clients that vanish -----------------------------------------------------------------------


def test_vanishes_mid_call_modern(stateless):
    """Where there are no sessions, leaving is cancelling: the cell is interrupted."""
    made = stateless.ask(call("create_session"))["result"]["structuredContent"]["session_id"]
    with stateless.underway(loop(7, session_id=made)):
        pass
    assert "free again" in ran(stateless.python("print('free again')", session_id=made))


def test_vanishes_mid_call(server, client):
    """With a session, leaving is not: the call goes on until it is cancelled or the session ends."""
    with client.underway(loop(7)):
        pass
    assert client.ask(request("ping"))["result"] == {}
    client.post(notification("notifications/cancelled", {"requestId": 7}))
    lives(client)
    with client.underway(loop(8)):
        pass
    assert client.end().status in (200, 204)
    wait_for(lambda: running(server) == 0, what="the end of what it ran")


def test_vanishes_mid_call_sse(server, bystander):
    client = Sse(server)
    assert client.post(loop(7)).status == 202
    client.lines.notified("notifications/progress")
    client.close()
    wait_for(lambda: running(server) == 0, what="the end of what it ran")


def running(server):
    """How many executions are under way. Sessions that nobody named end with them."""
    sessions = server.good("GET", "/v1/sessions")["sessions"]
    return sum(one["state"] == "running" for one in sessions)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGKILL,
                                 "hangs up"])
def test_vanishes_mid_call_stdio(gb, how):
    client = Stdio(gb)
    client.send(loop(7))
    client.lines.notified("notifications/progress")
    if how == "hangs up":
        client.process.stdin.close()
    else:
        client.process.send_signal(how)
    client.process.wait(PATIENCE)


def test_half_a_request(server, client):
    """Bodies that never come whole."""
    head = (f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nContent-Length: 500\r\n"
            f"Content-Type: application/json\r\nMCP-Session-Id: {client.session}\r\n\r\n")
    for _ in range(5):
        with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as s:
            s.sendall(head.encode() + b'{"jsonrpc": "2.0"')
    lives(client)


def test_vanishes_before_the_stream_is_read(server, client):
    for _ in range(5):
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
        connection.request("GET", "/mcp", headers=client.headers(None, {"Accept": "text/event-stream"}))
        connection.close()
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
        connection.request("GET", "/mcp/sse", headers={"Accept": "text/event-stream"})
        connection.close()
    lives(client)
