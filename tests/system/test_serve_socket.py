"""GET /v1/executions/{id}/stream: an execution over a WebSocket, with a client that others wrote."""

import asyncio
import json
import socket

import pytest
import websockets

from serve_kit import Server, serve, server  # noqa: F401

HELLO = (
    "GET /v1/executions/{}/stream HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n"
    "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)


def start(server, code, **body):
    return server.good("POST", "/v1/execute", {"code": code, "detach": True, **body}, 202)[
        "execution_id"
    ]


def follow(server, execution, on_event=None, query="", **options):
    """All events, and the code with which the socket was closed."""

    async def run():
        url = f"ws://127.0.0.1:{server.port}/v1/executions/{execution}/stream{query}"
        headers = server.headers({})
        async with websockets.connect(url, extra_headers=headers, max_size=None, **options) as ws:
            found = []
            async for message in ws:
                found.append(json.loads(message))
                if on_event:
                    await on_event(ws, found[-1])
            return found, ws.close_code

    return asyncio.run(asyncio.wait_for(run(), 180))


def without_times(events):
    """Events without what differs between two readers: how text was cut into pieces."""
    joined = {}
    for event in events:
        if event["event"] in ("stdout", "stderr"):
            joined[event["event"]] = joined.get(event["event"], "") + event["data"]["text"]
        else:
            joined.setdefault(event["event"], []).append(event["data"])
    return joined


def test_same_events(server):
    code = "import sys\nprint('é' * 5)\nprint('bad', file=sys.stderr)\ndisplay({'a': 1})\n6 * 7"
    execution = start(server, code)
    found, closed = follow(server, execution)
    assert closed == 1000
    assert [found[0]["event"], found[-1]["event"]] == ["start", "receipt"]
    assert found[-1]["data"]["result"]["text/plain"] == "42"
    lines = server.events(f"/v1/executions/{execution}/events", method="GET")
    assert without_times(found) == without_times(lines)
    # Coming back from an offset.
    found, _ = follow(server, execution, query="?stdout=11")
    assert "stdout" not in without_times(found)
    assert server.problem(422, "GET", f"/v1/executions/{execution}/stream?stdout=-1")


def test_while_it_runs_and_interrupt(server):
    session = server.session()
    execution = server.good(
        "POST", f"/v1/sessions/{session}/execute",
        {"code": "import time\nprint('on')\ntime.sleep(1000)", "detach": True}, 202,
    )["execution_id"]

    async def stop(ws, event):
        if event["event"] == "stdout":
            await ws.send('{"type": "interrupt"}')

    found, closed = follow(server, execution, stop)
    assert closed == 1000 and found[-1]["data"]["status"] == "cancelled"
    assert server.run(session, "6 * 7")["status"] == "ok"


def test_much_output(server):
    """More than any queue holds, to a client that reads it all: nothing is lost."""
    execution = start(server, "for i in range(40000): print(f'{i:099d}')")
    found, closed = follow(server, execution)
    text = without_times(found)["stdout"]
    assert closed == 1000
    assert text == "".join(f"{i:099d}\n" for i in range(40000))


def test_slow_reader(server):
    """A client that reads nothing keeps neither the run nor the server from going on."""
    execution = start(server, "print('x' * (4 << 20))")
    with socket.create_connection(("127.0.0.1", server.port)) as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        s.sendall(HELLO.format(execution).encode())
        receipt = server.good("GET", f"/v1/executions/{execution}?wait=100")
        assert receipt["status"] == "ok"
        assert server.good("POST", "/v1/execute", {"code": "1"})["status"] == "ok"


def test_refusals(server):
    execution = start(server, "1")
    problem = server.problem(426, "GET", f"/v1/executions/{execution}/stream")
    assert problem["type"].endswith("upgrade-required")
    with pytest.raises(websockets.InvalidStatusCode) as refusal:
        follow(server, "exec_nope")
    assert refusal.value.status_code == 404
    with pytest.raises(websockets.InvalidStatusCode) as refusal:
        follow(server, execution, origin="https://elsewhere.example")
    assert refusal.value.status_code == 403
    # The route is described, and what a client may send.
    api = server.good("GET", "/openapi.json")
    described = api["paths"]["/v1/executions/{id}/stream"]["get"]["responses"]
    assert {"101", "401", "404", "426"} <= described.keys()
    assert api["components"]["schemas"]["stream_message"]["properties"]["type"]["enum"] == ["interrupt"]


BAD_FRAMES = {
    "unmasked": b"\x81\x02{}",
    "reserved bits": b"\xf1\x80\0\0\0\0",
    "a fragmented ping": b"\x09\x80\0\0\0\0",
    "not UTF-8": b"\x81\x82\0\0\0\0\xc3\x28",
    "huge": b"\x82\xff\x7f" + b"\xff" * 7 + b"\0\0\0\0x",
    "empty": b"\x81\x80\0\0\0\0",
    "zeros": b"\0" * 4096,
    "cut": b"\x81",
    "another request": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
}


def test_bad_frames(server):
    execution = start(server, "import time; time.sleep(1000)")
    for what, frame in BAD_FRAMES.items():
        with socket.create_connection(("127.0.0.1", server.port), timeout=120) as s:
            s.sendall(HELLO.format(execution).encode() + frame)
            s.shutdown(socket.SHUT_WR)
            reply = b""
            while piece := s.recv(65536):
                reply += piece
        assert reply.startswith(b"HTTP/1.1 101 "), what
        assert b"HTTP/1.1" not in reply[8:], what
    assert server.good("POST", f"/v1/executions/{execution}/interrupt")["interrupted"] == 1


def test_keys_and_stop(serve, gb, tmp_path):
    """A key is needed where it is for every request; a server that stops says so and leaves."""
    data = tmp_path / "data"
    made = json.loads(gb("key", "create", "--json", "--data", data).out)
    key = next(v for v in made.values() if isinstance(v, str) and v.startswith("gb_"))
    server = serve("--require-key", "--grace", "1", data=data, key=key)
    execution = start(server, "import time\nprint(1)\ntime.sleep(1000)")

    async def stop(ws, event):
        if event["event"] == "stdout":
            server.process.terminate()

    found, code = follow(server, execution, stop)
    assert code in (1000, 1001)
    assert server.stop() == 0
    server = serve("--require-key", data=data)
    with pytest.raises(websockets.InvalidStatusCode) as refusal:
        follow(server, "exec_any")
    assert refusal.value.status_code == 401


def hello(server, execution, protocols, **headers):
    """The reply to a handshake with these subprotocols, as text."""
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    request = HELLO.format(execution).replace(
        "\r\n\r\n", f"\r\nSec-WebSocket-Protocol: {protocols}\r\n{lines}\r\n")
    with socket.create_connection(("127.0.0.1", server.port), timeout=120) as s:
        s.sendall(request.encode())
        reply = b""
        while b"\r\n\r\n" not in reply and (piece := s.recv(65536)):
            reply += piece
    return reply.partition(b"\r\n\r\n")[0].decode()


def test_token_as_a_subprotocol(serve, gb, tmp_path):
    """Pages cannot set headers: their token is a subprotocol, of a key and of an account alike."""
    data = tmp_path / "data"
    made = json.loads(gb("key", "create", "--json", "--data", data).out)
    key = next(v for v in made.values() if isinstance(v, str) and v.startswith("gb_"))
    gb("user", "add", "ada@example.com", "--data", data, "--password-file", "-",
       stdin=b"correct horse battery\n")
    server = serve("--require-key", "--log-level", "debug", data=data)
    signed_in = server.good("POST", "/auth/signin",
                            {"email": "ada@example.com", "password": "correct horse battery"})
    token = signed_in["access_token"]
    for secret, other in ((key, token), (token, key)):
        execution = start(Server(server.process, server.port, data, secret), "print('hi')")
        found, closed = follow(server, execution,
                               subprotocols=["glovebox.v1", "glovebox.bearer." + secret])
        assert closed == 1000 and found[-1]["event"] == "receipt"
        reply = hello(server, execution, f"glovebox.bearer.{secret}, glovebox.v1")
        assert reply.startswith("HTTP/1.1 101 ")
        # The one that is chosen is not the one with the token.
        chosen = [line for line in reply.splitlines() if line.startswith("Sec-WebSocket-Protocol")]
        assert chosen == ["Sec-WebSocket-Protocol: glovebox.v1"] and secret not in reply
        # It is what the header would be: of somebody else, the execution does not exist.
        assert " 404 " in hello(server, execution, f"glovebox.v1, glovebox.bearer.{other}")
        # A header is stronger than the subprotocol.
        good, bad = f"glovebox.v1, glovebox.bearer.{secret}", "glovebox.v1, glovebox.bearer.gb_bad"
        assert " 401 " in hello(server, execution, good, Authorization="Bearer gb_nope")
        assert " 401 " in hello(server, execution, good, X_API_Key="gb_nope")
        assert " 101 " in hello(server, execution, bad, Authorization="Bearer " + secret)
        # Other sites cannot use it, even with the right one.
        assert " 403 " in hello(server, execution, good, Origin="https://elsewhere.example")
    for offered, status in (
            ("glovebox.v1", 401), ("glovebox.v1, glovebox.bearer.gb_nope", 401),
            ("glovebox.v1, glovebox.bearer.", 400), ("glovebox.v1, glovebox.bearer.eyJ", 401),
            (f"glovebox.bearer.{key}, glovebox.bearer.{key}", 400),
            ("glovebox.bearer." + "x" * 3000, 400), (f"Glovebox.Bearer.{key}", 401),
            (f"glovebox.bearer.{key[:-1]}", 401), (f"glovebox.bearer.{key}x", 401),
            (",,,", 401), ("glovebox.bearer.%00", 401), ("glovebox.bearer.\u00e9", 401)):
        assert f" {status} " in hello(server, execution, offered).splitlines()[0], offered
    # Only where there is a WebSocket.
    server.problem(401, "GET", "/v1/sessions", Sec_WebSocket_Protocol="glovebox.bearer." + key)
    log = (tmp_path / "log0").read_text()
    assert key not in log and token not in log and "glovebox.bearer" not in log


def test_subprotocols_are_not_needed(server):
    execution = start(server, "1")
    assert " 101 " in hello(server, execution, "something.else")
    assert "Sec-WebSocket-Protocol" not in hello(server, execution, "something.else")
    assert "Sec-WebSocket-Protocol: glovebox.v1" in hello(server, execution, "other, glovebox.v1")
    # A bad token is refused on loopback too, where none would be needed.
    assert " 401 " in hello(server, execution, "glovebox.v1, glovebox.bearer.gb_nope")
