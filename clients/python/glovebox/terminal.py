"""`Terminal`: an interactive program in the box of a session, over a WebSocket.

The WebSocket (RFC 6455) is written out here, because the standard library has none. The server is
not trusted: frames are bounded, and one that a server must not send ends the connection. A broken
connection is opened again with the offset of what was read, so nothing is lost or comes twice.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import selectors
import socket
import struct
import threading
import time
from typing import (TYPE_CHECKING, Any, Dict, Iterator, Mapping, NamedTuple, Optional, Pattern,
                    Sequence, Tuple, Union)

from . import errors
from .transport import Call, Transport, current_call, quote

if TYPE_CHECKING:
    from .client import Session

GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
HEAD_MAX = 16 * 1024
FRAME_MAX = 4 * 1024 * 1024
SILENCE_SECONDS = 75.0  # the server sends a ping after 15
INPUT_PIECE = 32 * 1024  # of a message; the server takes 64 KiB
TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10


class _Message(NamedTuple):
    kind: int
    data: bytes


class _Socket:
    """One WebSocket. One thread reads, others may write."""

    def __init__(self, transport: Transport, path: str, call: Call) -> None:
        self._connection = transport.dial(call)
        assert self._connection.sock is not None
        self._sock: socket.socket = self._connection.sock
        self._buffer = b""
        self._lock = threading.Lock()
        self.refused = b""
        try:
            self._sock.settimeout(transport.timeout)
            self._greet(transport, path)
            self._sock.settimeout(None)  # who writes waits; who reads waits in _fill()
        except (OSError, ValueError) as error:
            self.close()
            raise errors.ConnectionLost(f"the terminal cannot be attached: {error}") from error

    def _greet(self, transport: Transport, path: str) -> None:
        key = base64.b64encode(os.urandom(16))
        host, base, headers = transport.place()
        lines = [f"GET {base}{path} HTTP/1.1", f"Host: {host}", "Connection: Upgrade",
                 "Upgrade: websocket", "Sec-WebSocket-Version: 13",
                 f"Sec-WebSocket-Key: {key.decode()}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        self._sock.sendall("\r\n".join(lines + ["", ""]).encode())
        while b"\r\n\r\n" not in self._buffer:
            if len(self._buffer) > HEAD_MAX:
                raise ValueError("the reply has no end")
            self._fill(None)
        head, _, self._buffer = self._buffer.partition(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 101 "):
            self.refused = head.split(b"\r\n")[0][:200]
            return
        accept = re.search(rb"(?im)^Sec-WebSocket-Accept: *(\S+)", head)
        if not accept or accept[1] != base64.b64encode(hashlib.sha1(key + GUID).digest()):
            raise ValueError("the reply is not that of a WebSocket")

    def _fill(self, end: Optional[float]) -> None:
        # The timeout of a socket would be that of a write in another thread, too.
        if end is not None and not getattr(self._sock, "pending", int)():
            with selectors.DefaultSelector() as selector:
                try:
                    selector.register(self._sock, selectors.EVENT_READ)
                except ValueError:
                    raise ConnectionResetError("the connection was closed") from None
                if not selector.select(max(end - time.monotonic(), 0)):
                    raise socket.timeout("nothing came")
        data = self._sock.recv(65536)
        if not data:
            raise ConnectionResetError("the connection was closed")
        self._buffer += data

    def _exactly(self, size: int, end: float) -> None:
        while len(self._buffer) < size:
            self._fill(end)

    def receive(self, timeout: Optional[float]) -> _Message:
        """The next message. Nothing is lost if it times out in the middle. Raises
        ConnectionResetError if not even a ping comes."""
        begin = time.monotonic()
        while True:
            silent = time.monotonic() + SILENCE_SECONDS
            try:
                message = self._frame(silent if timeout is None else min(begin + timeout, silent))
            except socket.timeout:
                if time.monotonic() < silent:
                    raise
                raise ConnectionResetError("the server is silent") from None
            if message.kind == PING:
                self.send(PONG, message.data)
            elif message.kind != PONG:
                return message

    def _frame(self, end: float) -> _Message:
        self._exactly(2, end)
        first, size = self._buffer[0], self._buffer[1]
        at = 2
        if size == 126:
            self._exactly(4, end)
            (size,), at = struct.unpack(">H", self._buffer[2:4]), 4
        elif size == 127:
            self._exactly(10, end)
            (size,), at = struct.unpack(">Q", self._buffer[2:10]), 10
        kind = first & 15
        # Our server never splits a message.
        if (first & 0xF0) != 0x80 or kind not in (TEXT, BINARY, CLOSE, PING, PONG) or \
                self._buffer[1] & 0x80 or size > FRAME_MAX:
            raise errors.ProtocolError("the server sent something that is not a frame of ours")
        self._exactly(at + size, end)
        data, self._buffer = self._buffer[at:at + size], self._buffer[at + size:]
        return _Message(kind, data)

    def send(self, kind: int, data: bytes) -> None:
        mask = os.urandom(4)
        head = bytes([0x80 | kind])
        if len(data) < 126:
            head += bytes([0x80 | len(data)])
        elif len(data) < 1 << 16:
            head += bytes([0x80 | 126]) + struct.pack(">H", len(data))
        else:
            head += bytes([0x80 | 127]) + struct.pack(">Q", len(data))
        pad = (mask * (len(data) // 4 + 1))[:len(data)]
        number = int.from_bytes(data, "big") ^ int.from_bytes(pad, "big")
        with self._lock:
            self._sock.sendall(head + mask + number.to_bytes(len(data), "big"))

    def wake(self) -> None:
        """Ends whatever waits in it."""
        try:
            self._sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def close(self) -> None:
        self.wake()
        self._connection.close()


class Terminal:
    """A program with a terminal in a session's box; made by `Session.terminal()`.

    `write()` types, `read()` returns what it printed, `resize()` changes its size. If a connection
    breaks, the next read opens it again. `close()` leaves the program running, to come back with
    `Session.attach_terminal()`; `end()` ends it, and so does `with`, if this object started it.
    One thread may read while others write."""

    def __init__(
        self,
        session: "Session",
        command: Optional[Sequence[str]] = None,
        *,
        cols: int = 80,
        rows: int = 24,
        env: Optional[Mapping[str, str]] = None,
        terminal_id: Optional[str] = None,
        offset: Optional[int] = None,
    ) -> None:
        self.session = session
        self._transport = session.client.transport
        self._base = f"/v1/sessions/{quote(session.id)}/terminals"
        self._own = terminal_id is None
        self._socket: Optional[_Socket] = None
        self._lock = threading.Lock()  # never held for long
        self._dialing = threading.Lock()  # taken before the other
        self._dial: Optional[Call] = None
        self._closed = self._stopped = False
        self.offset, self.missed = offset, False
        self.exit_code: Optional[int] = None
        self.ended = False
        if terminal_id is None:
            body: Dict[str, Any] = {"cols": cols, "rows": rows}
            if command is not None:
                body["command"] = list(command)
            if env:
                body["env"] = dict(env)
            made = self._transport.object("POST", self._base, body)
            terminal_id = made.get("terminal_id")
            if not isinstance(terminal_id, str) or not terminal_id:
                raise errors.ProtocolError(f"the reply has no terminal_id: {made!r:.200}")
        self.id: str = terminal_id
        self._path = f"{self._base}/{quote(self.id)}"
        if not self._own:
            self.info()  # or raises that there is none

    def __repr__(self) -> str:
        return f"<Terminal {self.id}{' (ended)' if self.ended else ''}>"

    # ---- the connection ----

    def _attach(self) -> _Socket:
        with self._dialing:
            with self._lock:
                self._check()
                if self._socket is not None:
                    return self._socket
                call = self._dial = current_call.get() or Call()
                query = "" if self.offset is None else f"?offset={self.offset}"
            try:
                made, position, missed = self._connect(query, call)
            finally:
                with self._lock:
                    self._dial = None
            try:
                with self._lock:
                    self._check()
                    # After a break, output that is gone by now is skipped.
                    self.offset, self.missed = position, missed
                    self._socket = made
            except BaseException:
                made.close()
                raise
            return made

    def _check(self) -> None:
        if self._closed:
            raise ValueError("this terminal was closed")
        if self._stopped:
            raise errors.ConnectionLost("the call was cancelled")

    def _connect(self, query: str, call: Call) -> Tuple[_Socket, int, bool]:
        made = _Socket(self._transport, f"{self._path}/stream{query}", call)
        if made.refused:
            made.close()
            self.info()  # raises the reason, if there is one
            raise errors.ConnectionFailed(
                f"the terminal cannot be attached: {made.refused.decode('latin-1')}")
        try:
            first = json.loads(made.receive(self._transport.timeout).data)
            return made, int(first["offset"]), bool(first["missed"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            made.close()
            raise errors.ConnectionLost("the terminal cannot be attached") from error
        except BaseException:
            made.close()
            raise

    def _lost(self, broken: _Socket) -> None:
        with self._lock:
            if self._socket is broken:
                self._socket = None
        broken.close()

    def _again(self, tries: int, error: Exception) -> int:
        call = current_call.get()
        if tries >= self._transport.retries or self._closed or self._stopped or \
                (call and call.aborted):
            raise errors.ConnectionLost(f"the connection to the terminal broke: {error}") from error
        (call or Call()).pause(0.2 * (tries + 1))
        return tries + 1

    # ---- using it ----

    def read(self, timeout: Optional[float] = None) -> bytes:
        """What the program printed, as soon as there is something; b"" once it has ended. Raises
        TimeoutError if nothing came within `timeout` seconds."""
        tries = 0
        while not self.ended:
            try:
                at = self._attach()
                message = at.receive(timeout)
            except socket.timeout as error:
                raise TimeoutError("the terminal printed nothing") from error
            except (OSError, errors.ConnectionLost) as error:
                if self._socket is not None:
                    self._lost(self._socket)
                tries = self._again(tries, error)
                continue
            except errors.ProtocolError:
                self.close()
                raise
            tries = 0
            if message.kind == BINARY:
                assert self.offset is not None
                self.offset += len(message.data)
                if message.data:
                    return message.data
            elif message.kind == TEXT:
                self._told(message.data)
            else:
                self._lost(at)
                # 1000 comes after the end; otherwise the server stops, or we were too slow.
                tries = self._again(tries, ConnectionResetError("the server closed it"))
        return b""

    def _told(self, data: bytes) -> None:
        try:
            news = json.loads(data)
            if news["type"] == "exit":
                self.exit_code = int(news["exit_code"])
                self.ended = True
        except (ValueError, KeyError, TypeError) as error:
            raise errors.ProtocolError("the server sent a message that is not ours") from error

    def __iter__(self) -> Iterator[bytes]:
        while data := self.read():
            yield data

    def expect(
        self, pattern: Union[bytes, Pattern[bytes]], timeout: Optional[float] = None
    ) -> bytes:
        """Reads until the output has `pattern`, a regular expression of bytes; returns all that was
        read. Raises TimeoutError, or EOFError if the program ends first."""
        found = b""
        end = None if timeout is None else time.monotonic() + timeout
        while not re.search(pattern, found):
            left = None if end is None else end - time.monotonic()
            if left is not None and left <= 0:
                raise TimeoutError(f"the output has no {pattern!r}: {found[-200:]!r}")
            data = self.read(left)
            if not data:
                raise EOFError(f"the program ended without {pattern!r}: {found[-200:]!r}")
            found += data
        return found

    def write(self, data: Union[str, bytes]) -> None:
        """Types it. Enter is \\r, Ctrl-C is \\x03. Waits while the program does not read."""
        if isinstance(data, str):
            data = data.encode()
        for at in range(0, len(data), INPUT_PIECE):
            self._send(BINARY, data[at:at + INPUT_PIECE])

    def resize(self, cols: int, rows: int) -> None:
        self._send(TEXT, json.dumps({"type": "resize", "cols": cols, "rows": rows}).encode())

    def _send(self, kind: int, data: bytes) -> None:
        """A message that was not sent is sent again; one that may have arrived is not."""
        at = self._attach()
        try:
            at.send(kind, data)
        except OSError as error:
            self._lost(at)
            raise errors.ConnectionLost(f"the connection to the terminal broke: {error}") from error

    def wait(self, timeout: Optional[float] = None) -> int:
        """Drops output until the program has ended; returns its exit code."""
        end = None if timeout is None else time.monotonic() + timeout
        while self.read(None if end is None else max(end - time.monotonic(), 0.001)):
            pass
        assert self.exit_code is not None
        return self.exit_code

    def info(self) -> Dict[str, Any]:
        """Its size, state, exit code and how many clients are attached."""
        return self._transport.object("GET", self._path, repeat=True)

    # ---- for AsyncTerminal ----

    def interrupt(self) -> None:
        """Has a read that waits in another thread fail, and no other succeed until resume()."""
        with self._lock:
            self._stopped = True
            at, dial = self._socket, self._dial
        if dial is not None:
            dial.abort()
        if at is not None:
            at.wake()

    def resume(self, offset: Optional[int]) -> None:
        """Goes on at `offset`, with a new connection."""
        with self._lock:
            at, self._socket = self._socket, None
            self.offset, self._stopped = offset, False
        if at is not None:
            at.close()

    # ---- leaving it ----

    def close(self) -> None:
        """Disconnects. The program goes on."""
        with self._lock:
            self._closed = True
            at, self._socket = self._socket, None
            dial = self._dial
        if dial is not None:
            dial.abort()
        if at is not None:
            at.wake()
            at.close()

    def end(self) -> None:
        """Ends the program and disconnects. Does nothing if it is gone already."""
        self.close()
        try:
            self._transport.json("DELETE", self._path, repeat=True)
        except errors.NotFound:
            pass

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(self, *_: object) -> None:
        if self._own:
            self.end()
        else:
            self.close()


def listed(session: "Session") -> Tuple[Dict[str, Any], ...]:
    found = session.client.transport.object(
        "GET", f"/v1/sessions/{quote(session.id)}/terminals", repeat=True).get("terminals")
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise errors.ProtocolError("the reply has no list of terminals")
    return tuple(found)
