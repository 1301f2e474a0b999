"""Wrong addresses, and servers that are not what they should be."""

import json
import socket
import threading
import time

import glovebox
import pytest
from conftest import reply

HTML = "<html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>"


def chunked(*events):
    """A stream of NDJSON up to here; nothing says that it ends."""
    lines = [json.dumps(event).encode() + b"\n" for event in events]
    body = b"".join(b"%x\r\n%s\r\n" % (len(line), line) for line in lines)
    return (b"HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\n"
            b"Transfer-Encoding: chunked\r\n\r\n" + body)


START = {"event": "start", "data": {"execution_id": "exec_1", "session_id": None}}


@pytest.mark.parametrize("url", [
    "", "127.0.0.1:8080", "ftp://x/", "http://", "http://h:port", "http://h:99999", "unix:relative",
    "http://h/ x", "http://h\r\nX: y", "http://user:pw@h/", "http://h/?q=1", "file:///etc/passwd",
])
def test_addresses_that_are_none(url):
    with pytest.raises(ValueError):
        glovebox.Client(url)


def test_nobody_answers(tmp_path):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))  # nobody listens there, and nobody else can
        urls = (f"http://127.0.0.1:{s.getsockname()[1]}", f"unix:{tmp_path}/socket",
                "http://no.such.invalid", "unix:/" + "x" * 200)
        for url in urls:
            with pytest.raises(glovebox.ConnectionFailed) as caught:
                glovebox.run("1", client=glovebox.Client(url))
            assert url in str(caught.value) and isinstance(caught.value, ConnectionError)


@pytest.mark.parametrize("data", [b"", b"hello\r\n", b"\x16\x03\x01\x02\x00" * 20,
                                  b"HTTP/1.1 abc\r\n\r\n",
                                  b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 200])
def test_what_is_not_http(fake, data):
    server = fake(lambda connection: connection.sendall(data))
    with pytest.raises((glovebox.ProtocolError, glovebox.ConnectionLost)):
        glovebox.Client(server.url).run("1")


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b"{}", b'"x"', b"\xff", b"[" * 100000,
                                  b'{"event": "start"}', b'{"event": "stdout", "data": {}}',
                                  b'{"event": "receipt", "data": {"status": "ok"}}',
                                  b'{"event": "boo", "data": []}'])
def test_malformed_streams(fake, body):
    server = fake(reply(200, body, "application/x-ndjson"))
    with pytest.raises((glovebox.ProtocolError, glovebox.ConnectionLost)):
        glovebox.Client(server.url).run("1")


@pytest.mark.parametrize("body", [b"{", b"[]", b"null", b'{"session_id": 5}',
                                  b'{"session_id": ""}'])
def test_malformed_sessions(fake, body):
    server = fake(reply(201, body))
    with pytest.raises(glovebox.ProtocolError):
        glovebox.Session(server.url)


@pytest.mark.parametrize("body", [b"null", b"[]", b"5", b'{"files": 5}', b'{"files": [5], "more": 0}',
                                  b'{"files": [{"path": "a", "size": "x"}], "more": false}'])
def test_malformed_answers(fake, body):
    session = glovebox.Session(fake(reply(200, body)).url, session_id="ses_1")
    with pytest.raises(glovebox.ProtocolError):
        session.files()
    if not body.startswith(b"{"):
        for call in (session.info, session.keep_alive, session.interrupt, session.client.health,
                     lambda: session.write("a", b"x")):
            with pytest.raises(glovebox.ProtocolError):
                call()


@pytest.mark.parametrize("status, error", [
    (502, glovebox.ServerError), (500, glovebox.ServerError), (503, glovebox.Unavailable),
    (504, glovebox.ServerError), (404, glovebox.NotFound), (418, glovebox.BadRequest),
    (403, glovebox.NotAllowed), (413, glovebox.TooLarge),
])
def test_a_proxys_page_is_shown_short(fake, status, error):
    server = fake(reply(status, HTML * 1000, "text/html"))
    with pytest.raises(error) as caught:
        glovebox.Client(server.url).run("1")
    assert caught.value.status == status and caught.value.result is None
    assert "502 Bad Gateway" in str(caught.value) and len(str(caught.value)) < 300


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_redirects_are_refused(fake, status):
    target = fake(reply())
    server = fake(reply(status, b"", extra=f"Location: {target.url}/v1/execute\r\n"))
    with pytest.raises(glovebox.ProtocolError, match="redirects"):
        glovebox.Client(server.url, "secret").run("1")
    assert target.requests == []


def test_too_many_requests_says_when(fake):
    problem = json.dumps({"type": "urn:glovebox:problem:sessions-max", "detail": "100 live"})
    server = fake(reply(429, problem, extra="Retry-After: 7\r\n"))
    with pytest.raises(glovebox.TooManyRequests) as caught:
        glovebox.Session(server.url)
    assert caught.value.retry_after == 7 and caught.value.kind == "sessions-max"
    assert str(caught.value) == "100 live" and len(server.requests) == 1


def test_patience_waits_it_out(fake):
    made = reply(201, '{"session_id": "ses_1"}')
    server = fake(reply(429, "{}", extra="Retry-After: 0\r\n"),
                  reply(503, "{}", extra="Retry-After: 0\r\n"), made, reply(204, b""))
    client = glovebox.Client(server.url, patience=20)
    assert client.session().id == "ses_1" and len(server.requests) == 3
    server = fake(reply(429, "{}", extra="Retry-After: 1000\r\n"))
    with pytest.raises(glovebox.TooManyRequests):
        glovebox.Client(server.url, patience=20).session()
    server = fake(reply(429, "{}", extra="Retry-After: soon\r\n"))
    with pytest.raises(glovebox.TooManyRequests):
        glovebox.Client(server.url, patience=20).session()


def test_only_what_is_safe_is_sent_twice(fake):
    server = fake(lambda connection: None)
    with pytest.raises(glovebox.ConnectionLost):
        glovebox.Client(server.url, retries=2).health()
    assert len(server.requests) == 3
    for call in (lambda c: c.run("1"), lambda c: c.session(), lambda c: c.stream("1")):
        server = fake(lambda connection: None)
        with pytest.raises(glovebox.ConnectionLost):
            call(glovebox.Client(server.url, retries=2))
        assert len(server.requests) == 1


def test_replies_are_bounded(fake):
    def pour(connection):
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000000000\r\n\r\n")
        try:
            while True:
                connection.sendall(b"x" * 65536)
        except OSError:
            pass

    server = fake(pour)
    for call in (lambda c: c.health(), lambda c: c.run("1")):
        with pytest.raises(glovebox.ProtocolError, match="(larger|longer) than 1000000"):
            call(glovebox.Client(server.url, max_reply=1_000_000))


def test_a_short_reply_is_noticed(fake):
    server = fake(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\nConnection: close\r\n\r\n{}")
    with pytest.raises(glovebox.ConnectionLost):
        glovebox.Client(server.url).health()


def test_a_silent_server(fake):
    stop = threading.Event()
    server = fake(lambda connection: stop.wait(30))
    with pytest.raises(glovebox.ConnectionLost):
        glovebox.Client(server.url, timeout=0.2, retries=0).run("1")
    stop.set()


def test_server_gone_in_the_middle(fake, monkeypatch):
    monkeypatch.setattr(glovebox.stream, "RETURNS", 1)
    server = fake(lambda connection: connection.sendall(chunked(START)), reply(404, json.dumps(
        {"type": "urn:glovebox:problem:execution-unknown", "detail": "not kept"})))
    with pytest.raises(glovebox.ExecutionGone):
        glovebox.Client(server.url).run("1")
    assert b"GET /v1/executions/exec_1/events?stdout=0" in server.requests[1]


def test_offsets_that_go_back_are_no_stream(fake):
    one = {"event": "stdout", "data": {"text": "ab", "offset": 0, "next": 2}}
    two = {"event": "stdout", "data": {"text": "ab", "offset": 0, "next": 1}}
    server = fake(lambda connection: connection.sendall(chunked(START, one, two)))
    with pytest.raises(glovebox.ProtocolError):
        glovebox.Client(server.url).run("1")


def test_faults_in_a_stream(fake):
    fault = {"event": "fault", "data": {"type": "urn:glovebox:problem:session-lost", "status": 409,
                                        "title": "Conflict", "detail": "gone"}}
    server = fake(lambda connection: connection.sendall(chunked(START, fault)))
    with pytest.raises(glovebox.SessionLost, match="gone"):
        glovebox.Client(server.url).run("1")


def test_a_closed_idle_connection_is_not_used(fake):
    """The server closes after each reply without saying so."""
    ok = reply(200, '{"a": 1}')

    def answer(connection):
        connection.sendall(ok)

    server = fake(answer)
    client = glovebox.Client(server.url, retries=0)
    for _ in range(3):
        assert client.health() == {"a": 1}
        end = time.monotonic() + 10
        while client.transport._idle and time.monotonic() < end:
            idle = client.transport._take()
            if idle is None:
                break
            client.transport.keep(idle, type("R", (), {"will_close": False}))
    assert len(server.requests) == 3


def test_idle_connections_are_used_again(fake):
    server = fake(reply(200, '{"a": 1}'))
    client = glovebox.Client(server.url)
    for _ in range(5):
        client.health()
    assert server.connections == 1
    client.close()


def test_ids_and_headers_cannot_inject(fake):
    server = fake(reply(404, "{}"))
    client = glovebox.Client(server.url)
    for bad in ("x\r\nX-Evil: 1", "a/b?c#d", "a b"):
        with pytest.raises(glovebox.NotFound):
            client.receipt(bad)
    for request in server.requests:
        line, *headers = request.split(b"\r\n")
        assert line.count(b" ") == 2 and b"?" not in line and b"#" not in line
        assert not any(header.startswith(b"X-Evil") for header in headers)
    with pytest.raises(ValueError):
        client.transport.open("GET", "/", headers={"X-A": "b\r\nX-Evil: 1"})
    with pytest.raises(ValueError):
        client.transport.open("GET", "/", headers={"X-A\r\nX-Evil": "b"})
