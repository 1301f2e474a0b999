"""
A PostgreSQL server that misbehaves.

It speaks enough of protocol 3 for one query of the connector: a script of replies, one for each thing
that a client waits for. Tests replace, cut or delay a reply. Threads and sockets end with `close`.
"""

import socket
import struct
import threading


def message(kind, body=b"", length=None):
    return kind + struct.pack(">I", len(body) + 4 if length is None else length) + body


def text(value):
    return value.encode() + b"\0"


def columns(*names, oid=23):
    body = struct.pack(">H", len(names))
    for name in names:
        body += text(name) + struct.pack(">IHIhiH", 0, 0, oid, 4, -1, 0)
    return message(b"T", body)


def row(*values):
    body = struct.pack(">H", len(values))
    for value in values:
        data = value.encode() if isinstance(value, str) else value
        body += struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data
    return message(b"D", body)


def done(tag="SELECT 1"):
    return message(b"C", text(tag))


READY = message(b"Z", b"T")
PLAN = '[{"Plan": {"Node Type": "Result", "Total Cost": 0.01, "Plan Rows": 1, "Plan Width": 4}}]'
PARSED, BOUND = message(b"1"), message(b"2")
CANCEL_REQUEST, SSL_REQUEST = 80877102, 80877103
SETTINGS = 12  # statements of the first script; more "C" than that is fine

# What the connector waits for, in order.
GOOD = {
    "welcome": message(b"R", struct.pack(">I", 0)) + message(b"S", text("server_version") + text("15.0")) +
    message(b"S", text("client_encoding") + text("UTF8")) +
    message(b"S", text("standard_conforming_strings") + text("on")) +
    message(b"K", struct.pack(">II", 1, 2)) + message(b"Z", b"I"),
    "begin": done("BEGIN") + done("SET") * SETTINGS + READY,
    "prepare": PARSED + READY,
    "describe": message(b"t", struct.pack(">H", 0)) + columns("x") + READY,
    "explain": PARSED + BOUND + columns("QUERY PLAN", oid=114) + row(PLAN) + done("EXPLAIN") + READY,
    "types": PARSED + BOUND + columns("format_type", oid=25) + row("integer") + done() + READY,
    "rows": BOUND + columns("x") + row("42") + done() + READY,
}


class Fake:
    """`steps` as GOOD; a value may be a function (socket, stop) that does what it likes. With an ssl
    context it speaks TLS to those who ask for it."""

    def __init__(self, steps=None, tls=None):
        self.steps, self.tls = dict(GOOD if steps is None else steps), tls
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.stop = threading.Event()
        self.connections, self.talks = [], []
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self):
        while not self.stop.is_set():
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.connections.append(connection)
            self.talks.append(threading.Thread(target=self._one, args=(connection,), daemon=True))
            self.talks[-1].start()

    def _one(self, connection):
        try:
            self._talk(connection)
        except (OSError, struct.error):
            pass
        connection.close()

    def _startup(self, connection):
        """The connection to go on with; None if it was a request to cancel."""
        length, code = struct.unpack(">II", self._exactly(connection, 8))
        if code == SSL_REQUEST and self.tls:
            connection.sendall(b"S")
            connection = self.tls.wrap_socket(connection, server_side=True)
            self.connections.append(connection)
            length, code = struct.unpack(">II", self._exactly(connection, 8))
        self._exactly(connection, length - 8)
        return None if code == CANCEL_REQUEST else connection

    @staticmethod
    def _exactly(connection, n):
        data = b""
        while len(data) < n:
            piece = connection.recv(n - len(data))
            if not piece:
                raise OSError("end")
            data += piece
        return data

    def _asked(self, connection):
        """Reads messages until the client waits: a query, or a sync."""
        while True:
            kind, length = struct.unpack(">cI", self._exactly(connection, 5))
            self._exactly(connection, length - 4)
            if kind in b"QS":
                return
            if kind == b"X":
                raise OSError("end")

    def _talk(self, connection):
        connection = self._startup(connection)
        if not connection:
            return
        for i, reply in enumerate(self.steps.values()):
            if i > 0:
                self._asked(connection)
            if callable(reply):
                reply(connection, self.stop)
            else:
                connection.sendall(reply)
        connection.recv(1)

    def close(self):
        self.stop.set()
        for connection in self.connections:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join(30)
        for talk in self.talks:
            talk.join(30)
        for connection in self.connections:
            connection.close()


def hang(connection, stop):
    stop.wait(300)


def endless(piece, times=None):
    """Sends the same again and again."""
    def send(connection, stop):
        block = piece * max(1, 65536 // len(piece))
        sent = 0
        while not stop.is_set() and (times is None or sent < times):
            connection.sendall(block)
            sent += 1
    return send
