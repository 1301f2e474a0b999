"""Terminals: what is typed and printed, connections that break, servers that misbehave."""

import asyncio
import base64
import hashlib
import re
import struct
import threading
import time

import glovebox
import pytest
from conftest import Fake, read_request

PATIENCE = 120


def test_a_shell(session):
    with session.terminal(cols=100, rows=30, env={"WHO": "me"}) as terminal:
        terminal.expect(rb"\$ ", PATIENCE)
        terminal.write("echo $((6 * 7)) $WHO; stty size\r")
        assert b"30 100" in terminal.expect(rb"42 me\r\n30 100\r\n", PATIENCE)
        terminal.resize(120, 40)
        terminal.write("stty size; echo 'né€'\r".encode())
        assert "né€".encode() in terminal.expect(rb"40 120\r\n[^$]*\r\n", PATIENCE)
        assert terminal.info()["clients"] == 1 and terminal.info()["cols"] == 120
        assert [one["terminal_id"] for one in session.terminals()] == [terminal.id]
        terminal.write("exit 3\r")
        assert terminal.wait(PATIENCE) == 3
        assert terminal.read() == b"" and terminal.ended and list(terminal) == []
    assert session.terminals() == []


def test_a_program(session):
    with session.terminal(["sh", "-c", "echo one; echo two"]) as terminal:
        assert b"".join(terminal) == b"one\r\ntwo\r\n"
        assert terminal.exit_code == 0
    with session.terminal(["sleep", "1000"]) as terminal:
        with pytest.raises(TimeoutError):
            terminal.read(0.2)
        with pytest.raises(TimeoutError):
            terminal.expect(rb"never", 0.2)
    with session.terminal(["true"]) as terminal, pytest.raises(EOFError):
        terminal.expect(rb"never", PATIENCE)
    with pytest.raises(glovebox.BadRequest, match="cannot be executed"):
        session.terminal(["no-such-program"])
    with pytest.raises(glovebox.BadRequest):
        session.terminal(cols=0)
    with pytest.raises(glovebox.NotFound):
        session.attach_terminal("trm_none")


def test_coming_back(session):
    terminal = session.terminal()
    terminal.write("echo one-$((1 + 1))\r")
    seen = terminal.expect(rb"\none-2\r\n|\rone-2\r\n", PATIENCE)
    terminal.close()
    with pytest.raises(ValueError):
        terminal.read()
    again = session.attach_terminal(terminal.id, offset=terminal.offset)
    again.write("echo two-$((1 + 1))\r")
    assert b"one-2" not in again.expect(rb"two-2\r\n", PATIENCE)
    again.close()
    with session.attach_terminal(terminal.id) as whole:
        assert whole.expect(rb"two-2\r\n", PATIENCE).startswith(seen[:20])
        assert not whole.missed
    assert terminal.info()["status"] == "running", "leaving does not end what others started"
    terminal.end()
    terminal.end()
    with pytest.raises(glovebox.NotFound):
        session.attach_terminal(terminal.id)


def test_a_connection_that_breaks(service, breaker):
    with glovebox.Client(breaker.url, retries=5) as client, client.session() as session:
        command = "for i in $(seq 200); do echo n$i; sleep 0.01; done"
        with session.terminal(["sh", "-c", command]) as terminal:
            found = b""
            breaker.cut(2, 400)  # the socket, twice, in the middle
            while data := terminal.read(PATIENCE):
                found += data
        assert [int(n) for n in re.findall(rb"n(\d+)\r\n", found)] == list(range(1, 201))


def test_large_input(session):
    code = ("import hashlib, os, tty; tty.setraw(0); print('ready', flush=True)\n"
            "h, left = hashlib.sha256(), 1000000\n"
            "while left: d = os.read(0, 65536); h.update(d); left -= len(d)\n"
            "print(h.hexdigest(), flush=True)")
    data = bytes(range(250)) * 4000
    with session.terminal(["python3", "-c", code]) as terminal:
        terminal.expect(rb"ready", PATIENCE)
        terminal.write(data)
        terminal.expect(hashlib.sha256(data).hexdigest().encode(), PATIENCE)


def test_a_write_after_a_short_read(session):
    """The timeout of a read is none of the writes."""
    code = ("import os, time, tty; tty.setraw(0); print('ready', flush=True); time.sleep(3)\n"
            "left = 3000000\nwhile left: left -= len(os.read(0, 65536))\nprint('all')")
    with session.terminal(["python3", "-c", code]) as terminal:
        terminal.expect(rb"ready", PATIENCE)
        with pytest.raises(TimeoutError):
            terminal.read(0.01)
        terminal.write(bytes(3000000))
        terminal.expect(rb"all", PATIENCE)


def test_read_and_write_at_once(session):
    with session.terminal(["cat"]) as terminal:
        reader = threading.Thread(target=lambda: seen.append(terminal.expect(rb"last", PATIENCE)))
        seen = []
        reader.start()
        for n in range(50):
            terminal.write(f"line {n}\r")
        terminal.write("last\r")
        reader.join(PATIENCE)
        assert seen and b"line 49" in seen[0]


def test_async(service):
    async def main():
        async with glovebox.AsyncClient(service.url) as client:
            async with await client.session() as session:
                async with await session.terminal() as terminal:
                    await terminal.write("echo $((6 * 7))\r")
                    await terminal.expect(rb"42\r\n", PATIENCE)
                    await terminal.resize(90, 20)
                    assert (await terminal.info())["terminal_id"] == terminal.id
                    assert len(await session.terminals()) == 1
                    # A cancelled read loses nothing.
                    read = asyncio.create_task(terminal.expect(rb"never"))
                    await asyncio.sleep(0.5)
                    read.cancel()
                    with pytest.raises(asyncio.CancelledError):
                        await read
                    await terminal.write("echo again-$((1 + 1))\r")
                    await terminal.expect(rb"again-2\r\n", PATIENCE)
                    await terminal.write("exit 5\r")
                    assert await terminal.wait(PATIENCE) == 5
                    assert terminal.ended and terminal.exit_code == 5
                async with await session.terminal(["echo", "hello"]) as terminal:
                    assert b"".join([data async for data in terminal]) == b"hello\r\n"
                kept = await session.terminal()
                await kept.close()
                again = await session.attach_terminal(kept.id)
                await again.end()

    asyncio.run(asyncio.wait_for(main(), 240))


# ---- servers that misbehave ----

MADE = (b"HTTP/1.1 201 Created\r\nContent-Type: application/json\r\nContent-Length: 40\r\n\r\n"
        b'{"terminal_id":"trm_1","session_id":"s"}')
ATTACHED = b'\x81\x4a{"type":"attached","offset":0,"cols":80,"rows":24,"missed":false}'
ATTACHED = b"\x81" + bytes([len(ATTACHED) - 2]) + ATTACHED[2:]


class Sockets(Fake):
    """Answers a handshake with the right key, then with `frames`."""

    def __init__(self, frames):
        self.frames = frames
        super().__init__(MADE)

    def handle(self, connection):
        head = b""
        while b"Upgrade: websocket" not in head:
            request = read_request(connection)
            if request is None:
                return
            head = request if isinstance(request, bytes) else request[0]
            if b"Upgrade: websocket" not in head:
                connection.sendall(MADE)
        key = re.search(rb"Sec-WebSocket-Key: (\S+)", head)[1]
        guid = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        accept = base64.b64encode(hashlib.sha1(key + guid).digest())
        connection.sendall(b"HTTP/1.1 101 x\r\nSec-WebSocket-Accept: " + accept + b"\r\n\r\n" +
                           self.frames)
        time.sleep(0.2)


@pytest.mark.parametrize("frames", [
    ATTACHED + b"\x83\x00",  # no such opcode
    ATTACHED + b"\x82\x81abcdx",  # masked
    ATTACHED + b"\x82\x7f" + struct.pack(">Q", 1 << 62),  # endless
    ATTACHED + b"\xc2\x01x",  # reserved bits
    ATTACHED + b"\x81\x01x",  # text that is not JSON
    ATTACHED + b"\x81\x02{}",
    b"\x81\x02{}",
    b"\x82\x01x",
    b"",
    b"HTTP/1.1 200 OK\r\n\r\n",
], ids=range(10))
def test_frames_that_are_not(frames):
    server = Sockets(frames)
    try:
        client = glovebox.Client(server.url, retries=1, timeout=5)
        terminal = client.attach("ses_1").terminal()
        with pytest.raises(glovebox.GloveboxError):
            while terminal.read(5):
                pass
        terminal.close()
    finally:
        server.close()


def test_a_server_that_falls_silent(monkeypatch):
    class Quiet(Sockets):
        def handle(self, connection):
            super().handle(connection)
            time.sleep(2)

    monkeypatch.setattr(glovebox.terminal, "SILENCE_SECONDS", 0.3)
    server = Quiet(ATTACHED + b"\x82\x01x")
    try:
        terminal = glovebox.Client(server.url, retries=0).attach("ses_1").terminal()
        assert terminal.read() == b"x"
        with pytest.raises(glovebox.ConnectionLost, match="silent"):
            terminal.read()
        terminal.close()
    finally:
        server.close()


def test_cancelled_while_it_connects():
    """The loop is not held up by a server that does not answer."""
    class Mute(Fake):
        def handle(self, connection):
            while b"Upgrade: websocket" not in (read_request(connection) or b"Upgrade: websocket"):
                connection.sendall(MADE)
            reached.set()
            time.sleep(5)

    async def main():
        terminal = glovebox.aio.AsyncTerminal(
            glovebox.Client(server.url, timeout=5).attach("ses_1").terminal())
        read = asyncio.create_task(terminal.read())
        while not reached.is_set():
            await asyncio.sleep(0.01)
        begin = time.monotonic()
        read.cancel()
        with pytest.raises(asyncio.CancelledError):
            await read
        assert time.monotonic() - begin < 2, "it had to wait for the server"
        terminal.terminal.close()

    reached, server = threading.Event(), Mute(MADE)
    try:
        asyncio.run(main())
    finally:
        server.close()
