"""What the client's tests share: a real service, a proxy that breaks connections, a fake server.

The real one is started from the binary that GLOVEBOX names (else build/glovebox of this tree) and
serves on a Unix socket and on a port of loopback.
"""

import contextlib
import os
import pathlib
import shutil
import socket
import sys
import tempfile
import threading

import pytest

HERE = pathlib.Path(__file__).resolve().parent
PACKAGE = HERE.parent
ROOT = PACKAGE.parent.parent
sys.path.insert(0, str(PACKAGE))

BINARY = os.path.abspath(ROOT / os.environ.get("GLOVEBOX", "build/glovebox"))
for _name in [name for name in os.environ if name.startswith("GLOVEBOX")]:
    del os.environ[_name]

import glovebox  # noqa: E402
from glovebox.local import LocalService  # noqa: E402


def pytest_configure(config):
    """Temporary files of all that we start are in one place, which is removed at the end."""
    config.gb_place = tempfile.mkdtemp(prefix="gbtest-")
    os.environ["TMPDIR"] = tempfile.tempdir = config.gb_place
    if config.option.basetemp is None:
        config.option.basetemp = os.path.join(config.gb_place, "pytest")


def pytest_unconfigure(config):
    shutil.rmtree(config.gb_place, ignore_errors=True)


def pytest_collection_modifyitems():
    if not os.access(BINARY, os.X_OK):
        pytest.exit(f"no binary at {BINARY}: build it, or name it with GLOVEBOX=PATH", 1)


@pytest.fixture(scope="session")
def service():
    """A running service; `url` is its socket, `port` its port on loopback."""
    options = ["--pool", "1", "--listen", "127.0.0.1:0"]
    with LocalService(BINARY, options) as running:
        with open(os.path.join(running.directory, "ports"), encoding="ascii") as f:
            running.port = int(f.read().split()[0])
        running.http = f"http://127.0.0.1:{running.port}"
        yield running


@pytest.fixture
def client(service):
    with glovebox.Client(service.url) as made:
        yield made


@pytest.fixture
def session(client):
    with client.session() as made:
        yield made


class Listener:
    """Takes connections on loopback and gives each to handle(), in a thread."""

    def __init__(self):
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.connections = 0
        self._open = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self.connections += 1
                self._open.append(connection)
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection):
        with contextlib.suppress(OSError), connection:
            self.handle(connection)

    def close(self):
        for one in [self._listener, *self._open]:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()


class Fake(Listener):
    """Answers each request with the next of its replies; the last one stays. A reply is bytes, or a
    function of the connection. `requests` has what was sent."""

    def __init__(self, *replies):
        self.replies, self.requests = list(replies), []
        super().__init__()

    def handle(self, connection):
        while True:
            request = read_request(connection)
            if request is None:
                return
            self.requests.append(request)
            reply = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
            if callable(reply):
                reply(connection)
                return
            connection.sendall(reply)
            if b"connection: close" in reply.lower() or b"content-length" not in reply.lower():
                return


def read_request(connection):
    data = b""
    while b"\r\n\r\n" not in data:
        piece = connection.recv(65536)
        if not piece:
            return None
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    length = 0
    for line in head.split(b"\r\n"):
        if line.lower().startswith(b"content-length:"):
            length = int(line.split(b":")[1])
    while len(body) < length:
        piece = connection.recv(65536)
        if not piece:
            break
        body += piece
    return head + b"\r\n\r\n" + body


def reply(status=200, body=b"{}", kind="application/json", extra=""):
    body = body.encode() if isinstance(body, str) else body
    head = (f"HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
            f"{extra}\r\n")
    return head.encode() + body


class Breaker(Listener):
    """A proxy before the real service. cut(n, after) breaks the next n connections once so many
    bytes of the reply have passed."""

    def __init__(self, port):
        self._target = port
        self._cuts, self._after = 0, 0
        self.refuse = False
        super().__init__()

    def cut(self, times, after):
        self._cuts, self._after = times, after

    def handle(self, connection):
        if self.refuse:
            return
        with socket.create_connection(("127.0.0.1", self._target)) as upstream:
            back = threading.Thread(target=self._back, args=(upstream, connection), daemon=True)
            back.start()
            with contextlib.suppress(OSError):
                while piece := connection.recv(65536):
                    upstream.sendall(piece)
            with contextlib.suppress(OSError):
                upstream.shutdown(socket.SHUT_WR)
            back.join()

    def _back(self, upstream, connection):
        passed = 0
        with contextlib.suppress(OSError):
            while piece := upstream.recv(4096):
                if self._cuts and passed + len(piece) >= self._after:
                    self._cuts -= 1
                    connection.sendall(piece[: self._after - passed])
                    break
                connection.sendall(piece)
                passed += len(piece)
        for one in (upstream, connection):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def fake():
    made = []

    def make(*replies):
        made.append(Fake(*replies))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def breaker(service):
    made = Breaker(service.port)
    yield made
    made.close()
