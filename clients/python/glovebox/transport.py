"""HTTP to one service, over TCP, TLS or a Unix socket.

A `Transport` keeps a few idle connections. A connection is reused only while it is young and the
other side has not closed it, so that a request is practically never sent into a dying connection:
requests that are not idempotent must not be sent twice. Idempotent ones (GET, and DELETE and PUT of
the same thing) are retried a few times if the connection breaks. Rejections with a Retry-After
(429, 503) are retried as long as `patience` permits: nothing was done yet.

Replies are not trusted: redirects are rejected (they would receive the key), replies are read up to
a limit, and invalid JSON is an error that shows how it begins. `Call` is the handle with which
another thread can end a running request; the async classes use it to cancel.
"""

from __future__ import annotations

import contextvars
import http.client
import json
import os
import re
import selectors
import socket
import ssl
import threading
import time
import urllib.parse
from typing import IO, Any, Dict, Iterable, Iterator, List, Mapping, Optional, Tuple, Union

from . import errors

DEFAULT_URL = "http://127.0.0.1:8080"
MAX_REPLY = 256 * 1024 * 1024
CONNECT_SECONDS = 10.0
READ_SECONDS = 60.0  # without data; streams send keepalives more often than that
IDLE_SECONDS = 5.0
IDLE_COUNT = 8
PIECE = 256 * 1024

Body = Union[None, bytes, IO[bytes], Iterable[bytes]]
_ODD = re.compile(r"[\x00-\x20\x7f]")


class Call:
    """A request that can be ended from another thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket: Optional[socket.socket] = None
        self._ended = threading.Event()

    @property
    def aborted(self) -> bool:
        return self._ended.is_set()

    def attach(self, sock: Optional[socket.socket]) -> None:
        with self._lock:
            self._socket = sock
        if self.aborted:
            self.detach()
            raise errors.ConnectionLost("the call was cancelled")

    def detach(self) -> None:
        with self._lock:
            self._socket = None

    def abort(self) -> None:
        """Wakes up the thread that waits in this call."""
        self._ended.set()
        with self._lock:
            if self._socket is not None:
                try:
                    self._socket.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    def pause(self, seconds: float) -> None:
        """Sleeps; raises if the call is aborted."""
        if self._ended.wait(seconds):
            raise errors.ConnectionLost("the call was cancelled")


# The default call for requests of this thread.
current_call: "contextvars.ContextVar[Optional[Call]]" = contextvars.ContextVar(
    "glovebox_call", default=None
)


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self.sock.settimeout(self.timeout)
            self.sock.connect(self._path)
        except BaseException:
            self.sock.close()
            self.sock = None
            raise


class Reply:
    """A reply whose body has not been read. It must be closed or read to its end."""

    def __init__(
        self,
        transport: "Transport",
        connection: http.client.HTTPConnection,
        response: http.client.HTTPResponse,
        call: Call,
    ) -> None:
        self.status = response.status
        self.headers = response.headers
        self._transport, self._connection, self._response = transport, connection, response
        self._call = call
        self._closed = False

    def read_piece(self, size: int = PIECE) -> bytes:
        """Up to `size` bytes; b"" at the end. Raises ConnectionLost if the reply is incomplete."""
        try:
            left = self._response.length
            data = self._response.read1(min(size, left) if left else size)
        except (OSError, http.client.HTTPException, ValueError) as error:
            self.close()
            raise errors.ConnectionLost(f"connection lost in the reply: {_say(error)}") from error
        if not data:
            # read1() mistakes a connection that closed too early for the end.
            if self._response.length:
                self.close()
                raise errors.ConnectionLost("the reply is incomplete")
            self._done()
        return data

    def read(self, limit: int) -> bytes:
        pieces: List[bytes] = []
        size = 0
        while True:
            data = self.read_piece()
            if not data:
                return b"".join(pieces)
            size += len(data)
            if size > limit:
                self.close()
                raise errors.ProtocolError(f"the reply is larger than {limit} bytes")
            pieces.append(data)

    def finish(self) -> None:
        """Reads the rest if it is short; otherwise closes the reply."""
        try:
            self.read(PIECE)
        except errors.GloveboxError:
            self.close()

    def lines(self, limit: int) -> Iterator[bytes]:
        """Each line of the body, as it arrives."""
        rest: List[bytes] = []
        size = 0
        while True:
            data = self.read_piece()
            if not data:
                break
            *whole, tail = data.split(b"\n")
            for line in whole:
                rest.append(line)
                yield b"".join(rest)
                rest, size = [], 0
            rest.append(tail)
            size += len(tail)
            if size > limit:
                self.close()
                raise errors.ProtocolError(f"a line of the reply is longer than {limit} bytes")
        if size:
            yield b"".join(rest)

    def _done(self) -> None:
        if not self._closed:
            self._closed = True
            self._call.detach()
            self._response.close()  # only the reply: the connection can be reused
            self._transport.keep(self._connection, self._response)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._call.detach()
            self._response.close()
            self._connection.close()

    def __enter__(self) -> "Reply":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Transport:
    def __init__(
        self,
        url: Optional[str] = None,
        api_key: Optional[str] = None,
        *,
        timeout: float = READ_SECONDS,
        retries: int = 2,
        patience: float = 0.0,
        max_reply: int = MAX_REPLY,
        tls: Optional[ssl.SSLContext] = None,
    ) -> None:
        if url is None:
            url = os.environ.get("GLOVEBOX_URL") or DEFAULT_URL
        if api_key is None:
            api_key = os.environ.get("GLOVEBOX_API_KEY")
        self.url = url
        self.timeout, self.retries, self.patience = timeout, retries, patience
        self.max_reply = max_reply
        self._tls = tls
        self._read_url(url)
        self._auth: Dict[str, str] = {}
        if api_key:
            _check_header("the API key", api_key)
            self._auth = {"Authorization": f"Bearer {api_key}"}
        self._idle: List[Tuple[float, http.client.HTTPConnection]] = []
        self._lock = threading.Lock()
        self._owner = os.getpid()

    def _read_url(self, url: str) -> None:
        self._unix = self._host = ""
        self._port: Optional[int] = None
        self._base = ""
        self._secure = False
        if not isinstance(url, str) or _ODD.search(url):
            raise ValueError(f"{url!r} is not an address: it contains spaces or control characters")
        if url.startswith("unix:"):
            self._unix = url[5:]
            if self._unix.startswith("//"):
                self._unix = self._unix[2:]
            if not self._unix.startswith("/"):
                raise ValueError(f"{url!r}: unix: must be followed by an absolute path")
            return
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r}: must be http://HOST:PORT, https://HOST:PORT or unix:/PATH")
        if parts.username is not None or parts.query or parts.fragment:
            raise ValueError("an address has no user, query or fragment; pass the key as api_key")
        self._secure = parts.scheme == "https"
        self._host, self._port = parts.hostname, parts.port  # a bad port is a ValueError too
        self._base = parts.path.rstrip("/")

    # ---- connections ----

    def _make(self) -> http.client.HTTPConnection:
        if self._unix:
            return _UnixConnection(self._unix, CONNECT_SECONDS)
        if self._secure:
            context = self._tls or ssl.create_default_context()
            return http.client.HTTPSConnection(
                self._host, self._port, timeout=CONNECT_SECONDS, context=context
            )
        return http.client.HTTPConnection(self._host, self._port, timeout=CONNECT_SECONDS)

    def _take(self) -> Optional[http.client.HTTPConnection]:
        """An idle connection that is still usable."""
        with self._lock:
            if self._owner != os.getpid():  # after a fork they belong to the parent
                self._idle, self._owner = [], os.getpid()
            while self._idle:
                since, connection = self._idle.pop()
                if time.monotonic() - since < IDLE_SECONDS and _is_quiet(connection.sock):
                    return connection
                connection.close()
        return None

    def keep(self, connection: http.client.HTTPConnection, response: Any) -> None:
        """Keeps a connection whose reply was read to its end."""
        if response.will_close or connection.sock is None:
            connection.close()
            return
        with self._lock:
            if len(self._idle) < IDLE_COUNT and self._owner == os.getpid():
                self._idle.append((time.monotonic(), connection))
                return
        connection.close()

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for _, connection in idle:
            connection.close()

    def __del__(self) -> None:
        if hasattr(self, "_idle"):  # not set if the address was rejected
            self.close()

    def _connect(self, call: Call) -> http.client.HTTPConnection:
        connection = self._take()
        if connection is None:
            connection = self._make()
            try:
                connection.connect()
            except (OSError, ValueError) as error:  # ValueError: a host name that is not valid IDNA
                connection.close()
                raise errors.ConnectionFailed(
                    f"cannot connect to {self.url}: {_say(error)}"
                ) from error
        try:
            call.attach(connection.sock)
        except BaseException:
            connection.close()
            raise
        return connection

    def dial(self, call: Call) -> http.client.HTTPConnection:
        """A new connection, for a protocol other than HTTP; the caller closes it."""
        connection = self._make()
        try:
            connection.connect()
            call.attach(connection.sock)
        except (OSError, ValueError) as error:
            connection.close()
            raise errors.ConnectionFailed(f"cannot connect to {self.url}: {_say(error)}") from error
        except BaseException:
            connection.close()
            raise
        return connection

    def place(self) -> Tuple[str, str, Dict[str, str]]:
        """The Host header, what paths begin with, and the headers of every request."""
        if self._unix:
            return "localhost", "", dict(self._auth)
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"{host}:{self._port}" if self._port else host, self._base, dict(self._auth)

    # ---- requests ----

    def open(
        self,
        method: str,
        path: str,
        *,
        query: Optional[Mapping[str, Any]] = None,
        body: Body = None,
        headers: Optional[Mapping[str, str]] = None,
        call: Optional[Call] = None,
        timeout: Optional[float] = None,
    ) -> Reply:
        """Sends one request once and returns the reply, whatever its status. `path` must be
        quoted."""
        call = call or current_call.get() or Call()
        target = self._base + path
        words = {k: _word(v) for k, v in (query or {}).items() if v is not None}
        if words:
            target += "?" + urllib.parse.urlencode(words)
        fields = {"Accept": "application/json", "User-Agent": "glovebox-python", **self._auth}
        for name, value in (headers or {}).items():
            _check_header(name, value)
            fields[name] = value
        connection = self._connect(call)
        sent_all = False
        try:
            connection.sock.settimeout(self.timeout if timeout is None else timeout)
            try:
                connection.request(method, target, body, fields)
                sent_all = True
            except (BrokenPipeError, ConnectionResetError):
                # A rejection may have arrived before all was sent; it says more than this error.
                pass
            response = connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            call.detach()
            if isinstance(error, http.client.HTTPException) and not isinstance(error, OSError):
                raise errors.ProtocolError(
                    f"the server at {self.url} does not speak HTTP: {_say(error)}"
                ) from error
            raise errors.ConnectionLost(f"connection lost: {_say(error)}") from error
        except BaseException:
            connection.close()
            call.detach()
            raise
        if not sent_all:
            response.will_close = True
        return Reply(self, connection, response, call)

    def ask(self, method: str, path: str, *, repeat: bool = False, **how: Any) -> Reply:
        """Like open(), but raises an exception unless the status is a success, and retries.
        `repeat`: the request is safe to send twice."""
        tries = self.retries if repeat else 0
        give_up = time.monotonic() + self.patience
        call: Call = how.setdefault("call", current_call.get() or Call())
        while True:
            try:
                reply = self.open(method, path, **how)
                if 200 <= reply.status < 300:
                    return reply
                raise self.refusal(reply)
            except errors.ConnectionFailed:
                raise
            except errors.ConnectionLost:
                if tries <= 0 or call.aborted:
                    raise
                tries -= 1
                call.pause(0.05)
            except (errors.TooManyRequests, errors.Unavailable) as error:
                wait = error.retry_after
                if wait is None or not _can_repeat(how.get("body")):
                    raise
                if time.monotonic() + wait > give_up:
                    raise
                call.pause(wait)

    def refusal(self, reply: Reply) -> errors.GloveboxError:
        """Returns the exception for a rejected request; closes the reply."""
        with reply:
            if 300 <= reply.status < 400:
                where = str(reply.headers.get("Location", ""))[:200]
                return errors.ProtocolError(
                    f"the server redirects ({reply.status}) to {where!r}; redirects are not "
                    "followed: use that address if you trust it"
                )
            retry_after = _seconds(reply.headers.get("Retry-After"))
            try:
                data = reply.read(1024 * 1024)
            except errors.GloveboxError:
                data = b""
        try:
            problem = json.loads(data)
        except (ValueError, RecursionError):
            problem = None
        if not isinstance(problem, dict):
            # Most likely the error page of a proxy.
            problem = {"detail": f"HTTP status {reply.status}: {_start(data)}"}
        elif "detail" not in problem and "title" not in problem:
            problem["detail"] = f"HTTP status {reply.status}: {_start(data)}"
        return errors.from_problem(reply.status, problem, retry_after)

    def json(
        self, method: str, path: str, body: Any = None, *, upload: Body = None, **how: Any
    ) -> Any:
        """The JSON of the reply; None if it is empty. `upload` is sent as it is."""
        if upload is not None:
            how["body"] = upload
        elif body is not None:
            how["body"] = json_bytes(body)
            how["headers"] = {**how.get("headers", {}), "Content-Type": "application/json"}
        with self.ask(method, path, **how) as reply:
            data = reply.read(self.max_reply)
        return parse_json(data) if data else None

    def object(self, method: str, path: str, body: Any = None, **how: Any) -> Dict[str, Any]:
        """Like json(), but the reply must be an object."""
        found = self.json(method, path, body, **how)
        if not isinstance(found, dict):
            raise errors.ProtocolError(f"the reply is not an object: {found!r:.200}")
        return found


# ---- helpers ----


def json_bytes(value: Any) -> bytes:
    try:
        return json.dumps(value, allow_nan=False).encode()
    except (TypeError, RecursionError) as error:
        raise ValueError(f"cannot be converted to JSON: {error}") from None


def parse_json(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        raise errors.ProtocolError(f"the reply is not JSON: {_start(data)}") from None


def quote(part: str) -> str:
    """One component of a path, quoted."""
    if not isinstance(part, str) or not part:
        raise ValueError(f"{part!r} is not an id or name")
    if part in (".", ".."):
        raise ValueError(f"{part!r} is not allowed in a path")
    return urllib.parse.quote(part, safe="")


def quote_path(path: str) -> str:
    """A path in the workspace, quoted except for its slashes."""
    if not isinstance(path, str) or not path or "\0" in path:
        raise ValueError(f"{path!r} is not a path")
    if path.startswith("/") or any(part in ("", ".", "..") for part in path.split("/")):
        raise ValueError(f"{path!r}: must be relative to the workspace, without '.' and '..'")
    return urllib.parse.quote(path, safe="/")


def _check_header(name: str, value: str) -> None:
    if re.search(r"[\x00-\x1f\x7f]|[^\x00-\xff]", value) or re.search(r"[\r\n:]", name):
        raise ValueError(f"{name} contains characters that are not allowed in a header")


def _word(value: Any) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


def _can_repeat(body: Body) -> bool:
    return body is None or isinstance(body, bytes)


def _is_quiet(sock: Optional[socket.socket]) -> bool:
    """Whether nothing has arrived, not even the end of the stream."""
    if sock is None or sock.fileno() < 0:
        return False
    with selectors.DefaultSelector() as selector:
        selector.register(sock, selectors.EVENT_READ)
        return not selector.select(0)


def _seconds(text: Optional[str]) -> Optional[float]:
    try:
        return max(0.0, float(text)) if text and len(text) < 20 else None
    except ValueError:
        return None


def _start(data: bytes) -> str:
    text = re.sub(r"<[^>]*>|\s+", " ", data[:2000].decode("utf-8", "replace"))
    text = re.sub(r"[^\x20-\x7e\xa0-\uffff]|  +", " ", text).strip()
    return (text[:200] + "…" if len(text) > 200 else text) or "(empty)"


def _say(error: BaseException) -> str:
    return str(error) or type(error).__name__
