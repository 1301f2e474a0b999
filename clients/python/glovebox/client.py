"""`Client`: a server. `Session`: a box that keeps its variables and files."""

from __future__ import annotations

import base64
import io
import os
import ssl
import uuid
from dataclasses import dataclass
from typing import (IO, Any, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence,
                    Union)

from . import errors, stream
from .result import Result
from .stream import NDJSON, Stream
from .terminal import Terminal, listed
from .transport import MAX_REPLY, PIECE, READ_SECONDS, Call, Reply, Transport, quote, quote_path

Path = Union[str, "os.PathLike[str]"]
Size = Union[int, str]

INSTALL_SECONDS = 600.0  # pip may send nothing for a long time


@dataclass(frozen=True)
class File:
    """An entry of a workspace. `raw` is the path as bytes if it is not UTF-8: such a file is
    listed, but can be downloaded only as part of the archive."""

    path: str
    kind: str = "file"
    size: int = 0
    mtime: float = 0.0
    raw: Optional[bytes] = None


class Client:
    """A connection to a server. `url` defaults to GLOVEBOX_URL, then to http://127.0.0.1:8080;
    `api_key` defaults to GLOVEBOX_API_KEY. An address may also be `unix:/path/of/socket`.

    `timeout`: seconds without data after which a connection counts as broken. `retries`: how often
    a request that is safe to repeat is retried. `patience`: for how many seconds to retry after 429
    and 503; 0 raises them at once. Objects may be shared between threads."""

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
        self.transport = Transport(url, api_key, timeout=timeout, retries=retries,
                                   patience=patience, max_reply=max_reply, tls=tls)

    @property
    def url(self) -> str:
        return self.transport.url

    def __repr__(self) -> str:
        return f"Client({self.url!r})"

    # ---- one-shots ----

    def run(
        self,
        code: str,
        *,
        check: bool = False,
        timeout: Optional[float] = None,
        stdin: Optional[str] = None,
        env: Optional[Mapping[str, str]] = None,
        limits: Optional[Mapping[str, Any]] = None,
        script: bool = False,
        filename: Optional[str] = None,
        template: Optional[str] = None,
        network: Optional[Mapping[str, Any]] = None,
        reply_bytes: Optional[Size] = None,
    ) -> Result:
        """Runs a program in a fresh box. If it fails, the result says so; with `check` that raises
        an exception. `script` runs it as python3 would, otherwise it runs as a notebook cell.
        `network`: see `Session`."""
        body = _body(code=code, timeout=timeout, stdin=stdin, env=env, limits=limits,
                     mode="script" if script else None, filename=filename, template=template,
                     network=network, reply_bytes=reply_bytes)
        return _checked(stream.execute(self.transport, "/v1/execute", body), check)

    def stream(
        self,
        code: str,
        *,
        timeout: Optional[float] = None,
        stdin: Optional[str] = None,
        env: Optional[Mapping[str, str]] = None,
        limits: Optional[Mapping[str, Any]] = None,
        script: bool = False,
        filename: Optional[str] = None,
        template: Optional[str] = None,
        network: Optional[Mapping[str, Any]] = None,
        cancel_on_disconnect: Optional[bool] = None,
    ) -> Stream:
        """Like run(), but returns the events as they happen."""
        body = _body(code=code, timeout=timeout, stdin=stdin, env=env, limits=limits,
                     mode="script" if script else None, filename=filename, template=template,
                     network=network, cancel_on_disconnect=cancel_on_disconnect)
        return stream.open_stream(self.transport, "/v1/execute", body)

    # ---- executions that were started earlier ----

    def receipt(self, execution_id: str, wait: float = 0.0) -> Optional[Result]:
        """The result of an execution, or None while it runs. Waits up to `wait` seconds."""
        return stream.look(self.transport, execution_id, wait)

    def events(self, execution_id: str) -> Stream:
        """The stream of an execution, from the start."""
        path = f"/v1/executions/{quote(execution_id)}/events"

        def opener(call: Call) -> Reply:
            return self.transport.ask("GET", path, headers=NDJSON, repeat=True, call=call)

        return Stream(self.transport, opener)

    def output(self, execution_id: str, stream: str = "stdout", offset: int = 0) -> Iterator[str]:
        """Everything an execution has printed so far, page by page, including the parts that the
        receipt leaves out."""
        while True:
            page = self.transport.json(
                "GET", f"/v1/executions/{quote(execution_id)}/output", repeat=True,
                query={"stream": stream, "offset": offset, "limit": 1024 * 1024},
            )
            try:
                text, after = str(page["text"]), int(page["next"])
            except (KeyError, TypeError, ValueError):
                raise errors.ProtocolError(f"not a page of output: {page!r:.200}") from None
            if after <= offset:
                return
            yield text
            offset = after

    def interrupt(self, execution_id: str) -> None:
        """Interrupts an execution, as Ctrl-C does; a second call kills it at once. Does nothing if
        it has ended."""
        stream.interrupt(self.transport, execution_id)

    # ---- packages ----

    def pip_install(
        self, *packages: str, newest: bool = False, timeout: float = INSTALL_SECONDS
    ) -> Dict[str, Any]:
        """Installs packages into your default set, which all your new boxes start with. See
        `Session.pip_install`."""
        return _install(self.transport, "/v1/packages", packages, newest, timeout)

    def packages(self) -> Dict[str, Any]:
        """Your default set: "packages" with name, version and hash, and the "requirements"."""
        return self.transport.object("GET", "/v1/packages", repeat=True)

    def pip_uninstall(self, *names: str, timeout: float = INSTALL_SECONDS) -> Dict[str, Any]:
        """Removes packages from your default set. See `Session.pip_uninstall`."""
        return _uninstall(self.transport, "/v1/packages", names, timeout)

    def reset_packages(self) -> None:
        """Empties your default set. Existing boxes keep it."""
        self.transport.json("DELETE", "/v1/packages", repeat=True)

    # ---- sessions ----

    def session(self, **options: Any) -> "Session":
        """Creates a session; see `Session` for the options."""
        return Session(client=self, **options)

    def attach(self, session_id: str) -> "Session":
        """An existing session; raises `SessionGone` if there is none. `with` does not end it."""
        session = Session(client=self, session_id=session_id)
        session.info()
        return session

    def sessions(self) -> Iterator[Dict[str, Any]]:
        """Your sessions, oldest first."""
        for entry in self._pages("/v1/sessions", "sessions", "session_id", {}):
            yield entry

    def _pages(self, path: str, name: str, key: str, query: Dict[str, Any]) -> Iterator[Any]:
        after = None
        while True:
            page = self.transport.json("GET", path, query={**query, "after": after}, repeat=True)
            try:
                entries, more = page[name], page["more"]
                last = entries[-1][key] if entries else None
            except (KeyError, TypeError, IndexError):
                raise errors.ProtocolError(f"not a list: {page!r:.200}") from None
            yield from entries
            if not more or last is None or last == after:
                return
            after = last

    # ---- the server ----

    def health(self) -> Dict[str, Any]:
        return self.transport.object("GET", "/health", repeat=True)

    def limits(self) -> Dict[str, Any]:
        return self.transport.object("GET", "/v1/limits", repeat=True)

    def stats(self) -> Dict[str, Any]:
        return self.transport.object("GET", "/v1/stats", repeat=True)

    def close(self) -> None:
        """Closes idle connections. Sessions continue."""
        self.transport.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Session:
    """A box whose interpreter keeps variables, imports, the working directory and files.

    The session is created on the server together with the object, and ended by close() or `with`.
    `memory` and `disk` are sizes ("512m"); `timeout` is the default for its executions in seconds;
    `limits` has all other limits; `files` maps paths to contents; `network` lists the hosts it may
    reach, such as {"allow": ["pypi.org"]}; `volumes` are directories of the server's host, such as
    {"source": "/srv/sets", "target": "/data", "mode": "ro"}; `packages` are requirements to
    install. Network and volumes must be allowed by the operator of the server."""

    def __init__(
        self,
        url: Optional[str] = None,
        api_key: Optional[str] = None,
        *,
        client: Optional[Client] = None,
        memory: Optional[Size] = None,
        cpus: Optional[float] = None,
        disk: Optional[Size] = None,
        timeout: Optional[float] = None,
        limits: Optional[Mapping[str, Any]] = None,
        env: Optional[Mapping[str, str]] = None,
        files: Optional[Mapping[str, Union[str, bytes]]] = None,
        idle_timeout: Optional[float] = None,
        template: Optional[str] = None,
        packages: Optional[Sequence[str]] = None,
        network: Optional[Mapping[str, Any]] = None,
        volumes: Optional[Sequence[Mapping[str, str]]] = None,
        session_id: Optional[str] = None,
    ) -> None:
        self.client = client or Client(url, api_key)
        self._own_client = client is None
        self._transport = self.client.transport
        self._kept = session_id is not None
        self._lost: Optional[Result] = None
        self.closed = False
        if session_id is not None:
            self.id = session_id
        else:
            wanted = _body(memory=memory, cpus=cpus, disk=disk, timeout=timeout, **(limits or {}))
            body = _body(limits=wanted or None, env=env, idle_timeout=idle_timeout,
                         template=template, network=network,
                         volumes=list(volumes) if volumes else None,
                         packages=list(packages) if packages else None)
            self.id = self._create(body, INSTALL_SECONDS if packages else None)
        self._path = f"/v1/sessions/{quote(self.id)}"
        try:
            for path, data in (files or {}).items():
                self.write(path, data)
        except BaseException:
            self.close()
            raise

    def _create(self, body: Dict[str, Any], timeout: Optional[float]) -> str:
        made = self._transport.object("POST", "/v1/sessions", body, timeout=timeout)
        name = made.get("session_id")
        if not isinstance(name, str) or not name:
            raise errors.ProtocolError(f"the reply has no session_id: {made!r:.200}")
        return name

    def __repr__(self) -> str:
        return f"<Session {self.id}{' (closed)' if self.closed else ''}>"

    # ---- running ----

    def run(
        self,
        code: str,
        *,
        check: bool = False,
        timeout: Optional[float] = None,
        stdin: Optional[str] = None,
        env: Optional[Mapping[str, str]] = None,
        filename: Optional[str] = None,
        reply_bytes: Optional[Size] = None,
        accept_loss: Optional[bool] = None,
    ) -> Result:
        """Runs a cell. If it fails, the result says so; with `check` that raises an exception.
        `env` is for this cell only.

        If the previous execution had to be killed, the variables are gone. This raises
        `SessionLost` once, unless `accept_loss` is set."""
        body = _body(code=code, timeout=timeout, stdin=stdin, env=env, filename=filename,
                     reply_bytes=reply_bytes, accept_loss=accept_loss)
        return self._execute("/execute", body, check)

    def command(
        self,
        command: str,
        *,
        check: bool = False,
        timeout: Optional[float] = None,
        stdin: Optional[str] = None,
        env: Optional[Mapping[str, str]] = None,
        reply_bytes: Optional[Size] = None,
        accept_loss: Optional[bool] = None,
    ) -> Result:
        """Runs a shell command in the box, in a new process."""
        body = _body(command=command, timeout=timeout, stdin=stdin, env=env,
                     reply_bytes=reply_bytes, accept_loss=accept_loss)
        return self._execute("/commands", body, check)

    def shell(
        self,
        line: str,
        *,
        check: bool = False,
        timeout: Optional[float] = None,
        stdin: Optional[str] = None,
        reply_bytes: Optional[Size] = None,
        accept_loss: Optional[bool] = None,
    ) -> Result:
        """Runs a line in the session's persistent shell, where `cd` and `export` carry over."""
        body = _body(command=line, shell=True, timeout=timeout, stdin=stdin,
                     reply_bytes=reply_bytes, accept_loss=accept_loss)
        return self._execute("/commands", body, check)

    def _execute(self, path: str, body: Dict[str, Any], check: bool) -> Result:
        try:
            result = stream.execute(self._transport, self._path + path, body)
        except errors.SessionLost as error:
            error.result = self._lost
            raise
        if result.session_lost:
            self._lost = result
        return _checked(result, check)

    def stream(
        self,
        code: str,
        *,
        timeout: Optional[float] = None,
        stdin: Optional[str] = None,
        env: Optional[Mapping[str, str]] = None,
        filename: Optional[str] = None,
        accept_loss: Optional[bool] = None,
        cancel_on_disconnect: Optional[bool] = None,
    ) -> Stream:
        """Like run(), but returns the events as they happen."""
        body = _body(code=code, timeout=timeout, stdin=stdin, env=env, filename=filename,
                     accept_loss=accept_loss, cancel_on_disconnect=cancel_on_disconnect)
        return stream.open_stream(self._transport, self._path + "/execute", body)

    def stream_command(
        self, command: str, *, shell: bool = False, timeout: Optional[float] = None
    ) -> Stream:
        """Like command() or shell(), but returns the events as they happen."""
        body = _body(command=command, shell=shell or None, timeout=timeout)
        return stream.open_stream(self._transport, self._path + "/commands", body)

    def interrupt(self, *, everything: bool = False) -> int:
        """Interrupts the running execution, with `everything` also queued ones. Returns how many it
        interrupted."""
        query = {"all": True} if everything else None
        reply = self._transport.object("POST", self._path + "/interrupt", query=query)
        count = reply.get("interrupted")
        return count if isinstance(count, int) else 0

    # ---- what it knows ----

    def complete(self, code: str, cursor: Optional[int] = None) -> Dict[str, Any]:
        """What could come at `cursor` (its end by default): "matches", each with "text" and "type",
        which take the place of `code[start:end]`. While something runs in the session, "busy" is
        true and there are none; this never waits for it."""
        return self._ask("/complete", code, cursor)

    def inspect(self, code: str, cursor: Optional[int] = None) -> Dict[str, Any]:
        """Help about the name at `cursor`: "found" and "text". See `complete` for "busy"."""
        return self._ask("/inspect", code, cursor)

    def variables(self) -> Dict[str, Any]:
        """Its "variables", each with "name", "type", "summary" and where known "shape" and
        "size_bytes". See `complete` for "busy"."""
        return self._transport.object("GET", self._path + "/variables", repeat=True)

    def _ask(self, path: str, code: str, cursor: Optional[int]) -> Dict[str, Any]:
        body = _body(code=code, cursor=cursor)
        return self._transport.object("POST", self._path + path, body, repeat=True)

    # ---- packages ----

    def pip_install(
        self, *packages: str, newest: bool = False, timeout: float = INSTALL_SECONDS
    ) -> Dict[str, Any]:
        """Installs packages, which can be imported at once. `packages` are requirements such as
        "humanize" or "requests[socks]>=2.31". With `newest`, requirements without a version get the
        newest one in the index. Returns what was "installed" and what was "present", with
        "warnings". Raises an exception that says why if a package cannot be installed."""
        return _install(self._transport, self._path + "/packages", packages, newest, timeout)

    def pip_uninstall(self, *names: str, timeout: float = INSTALL_SECONDS) -> Dict[str, Any]:
        """Removes packages that were installed into it; modules that are already imported stay.
        Returns what was "removed". Raises an exception for a package that is not installed."""
        return _uninstall(self._transport, self._path + "/packages", names, timeout)

    def packages(self) -> Dict[str, Any]:
        """The packages installed into it: "packages" with name, version and hash, and the
        "requirements"."""
        return self._transport.object("GET", self._path + "/packages", repeat=True)

    # ---- terminals ----

    def terminal(
        self,
        command: Optional[Sequence[str]] = None,
        *,
        cols: int = 80,
        rows: int = 24,
        env: Optional[Mapping[str, str]] = None,
    ) -> Terminal:
        """Opens a terminal in the box: a shell, or `command` with its arguments."""
        return Terminal(self, command, cols=cols, rows=rows, env=env)

    def attach_terminal(self, terminal_id: str, *, offset: Optional[int] = None) -> Terminal:
        """A terminal that is there already. `offset`: how many bytes of its output are known."""
        return Terminal(self, terminal_id=terminal_id, offset=offset)

    def terminals(self) -> List[Dict[str, Any]]:
        """Its terminals, oldest first: ids, sizes, states and exit codes."""
        return list(listed(self))

    # ---- lifetime ----

    def info(self) -> Dict[str, Any]:
        """Its state, age, limits and idle timeout."""
        return self._transport.object("GET", self._path, repeat=True)

    def keep_alive(self) -> Dict[str, Any]:
        """Resets the idle timer."""
        return self._transport.object("POST", self._path + "/keepalive", repeat=True)

    def close(self) -> None:
        """Ends the session and its running execution. Does nothing if it has already ended."""
        if self.closed:
            return
        try:
            self._transport.json("DELETE", self._path, repeat=True)
        except errors.SessionGone:
            pass
        self.closed = True
        if self._own_client:
            self.client.close()

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_: object) -> None:
        if not self._kept:
            self.close()

    # ---- files ----

    def files(self, directory: str = "", *, recursive: bool = False) -> List[File]:
        """Lists the workspace, or one directory of it."""
        query = {"dir": directory or None, "recursive": recursive or None, "limit": 1000}
        pages = self.client._pages(self._path + "/files", "files", "path", query)
        return [_file(entry) for entry in pages]

    def upload(self, source: Union[Path, IO[bytes]], path: Optional[str] = None) -> File:
        """Copies a local file, or the rest of an open binary file, into the workspace. Without
        `path` it keeps its name. The file appears when it is complete, or not at all."""
        if isinstance(source, (str, os.PathLike)):
            name = path or os.path.basename(os.fspath(source))
            with open(source, "rb") as f:
                return self._put(name, f)
        if path is None:
            raise ValueError("an open file needs a path in the workspace")
        return self._put(path, source)

    def write(self, path: str, data: Union[str, bytes]) -> File:
        """Creates a file from text (as UTF-8) or bytes."""
        return self._put(path, io.BytesIO(data.encode() if isinstance(data, str) else bytes(data)))

    def _put(self, path: str, source: IO[bytes]) -> File:
        target = f"{self._path}/files/{quote_path(path)}"
        start, size = _extent(source)
        tries = self._transport.retries
        while True:
            headers = {"Content-Type": "application/octet-stream"}
            if size is not None:
                headers["Content-Length"] = str(size)
            try:
                made = self._transport.object("PUT", target, headers=headers,
                                              upload=_pieces(source, size))
                break
            except errors.ConnectionFailed:
                raise
            except errors.ConnectionLost:
                if start is None or tries <= 0:
                    raise
                tries -= 1
                source.seek(start)
        return _file({"path": path, **made})

    def read(self, path: str, *, limit: int = MAX_REPLY) -> bytes:
        """The content of a file, which must fit into memory."""
        with self._open(path) as reply:
            return reply.read(limit)

    def read_text(self, path: str) -> str:
        return self.read(path).decode("utf-8")

    def _open(self, path: str, headers: Optional[Dict[str, str]] = None) -> Reply:
        return self._transport.ask("GET", f"{self._path}/files/{quote_path(path)}", repeat=True,
                                   headers={"Accept": "*/*", **(headers or {})})

    def download(self, path: str, to: Union[None, Path, IO[bytes]] = None) -> int:
        """Copies a file of the workspace to a local file, a directory, or an open binary file, and
        returns its size. Without `to` it goes to the current directory under its own name. A local
        file appears when it is complete; a broken connection is resumed where it broke."""
        if to is not None and not isinstance(to, (str, os.PathLike)):
            return self._download(path, to)
        name = os.path.basename(path)
        target = os.fspath(to) if to is not None else name
        if os.path.isdir(target):
            target = os.path.join(target, name)
        return _write_whole(target, lambda f: self._download(path, f))

    def _download(self, path: str, to: IO[bytes]) -> int:
        got, etag, tries = 0, None, self._transport.retries
        while True:
            headers = {"Range": f"bytes={got}-"} if got else {}
            with self._open(path, headers) as reply:
                if got and (reply.status != 206 or reply.headers.get("ETag") != etag):
                    raise errors.ConnectionLost("the file changed during the download; try again")
                etag = reply.headers.get("ETag")
                try:
                    while True:
                        data = reply.read_piece()
                        if not data:
                            return got
                        to.write(data)
                        got += len(data)
                except errors.ConnectionLost:
                    if tries <= 0 or not etag:
                        raise
                    tries -= 1

    def archive(self, to: Union[Path, IO[bytes]], directory: str = "") -> None:
        """Saves the workspace, or a directory of it, as tar.gz. Its content is untrusted: unpack it
        with care."""
        if isinstance(to, (str, os.PathLike)):
            _write_whole(os.fspath(to), lambda f: self._archive(f, directory))
        else:
            self._archive(to, directory)

    def _archive(self, to: IO[bytes], directory: str) -> int:
        query = {"dir": directory or None}
        with self._transport.ask("GET", self._path + "/archive", query=query, repeat=True,
                                 headers={"Accept": "*/*"}) as reply:
            size = 0
            while True:
                data = reply.read_piece()
                if not data:
                    return size
                to.write(data)
                size += len(data)

    def delete(self, path: str, *, recursive: bool = False) -> None:
        """Removes a file or directory."""
        self._transport.json("DELETE", f"{self._path}/files/{quote_path(path)}",
                             query={"recursive": True} if recursive else None)

    def move(self, source: str, to: str, *, replace: bool = False) -> None:
        """Moves or renames a file or directory."""
        body = {"from": source, "to": to, "replace": replace}
        self._transport.json("POST", self._path + "/move", body)

    def mkdir(self, path: str) -> None:
        """Creates a directory and its parents. Does nothing if it exists."""
        self._transport.json("POST", self._path + "/directories", {"path": path})


def run(code: str, *, client: Optional[Client] = None, **options: Any) -> Result:
    """Runs a program in a fresh box of the server at GLOVEBOX_URL; see Client.run()."""
    if client is not None:
        return client.run(code, **options)
    with Client() as own:
        return own.run(code, **options)


# ---- helpers ----


def _install(
    transport: Transport, path: str, packages: Sequence[str], newest: bool, timeout: float
) -> Dict[str, Any]:
    body = {"packages": list(packages), **({"newest": True} if newest else {})}
    return transport.object("POST", path, body, timeout=timeout)


def _uninstall(
    transport: Transport, path: str, names: Sequence[str], timeout: float
) -> Dict[str, Any]:
    removed: List[Any] = []
    reply: Dict[str, Any] = {}
    for name in names:
        reply = transport.object("DELETE", f"{path}/{quote(name)}", timeout=timeout)
        removed += reply.get("removed") or []
    return {**reply, "removed": removed}


def _body(**fields: Any) -> Dict[str, Any]:
    found = {name: value for name, value in fields.items() if value is not None}
    for name in ("env", "limits"):
        if name in found:
            found[name] = dict(found[name])
    return found


def _checked(result: Result, check: bool) -> Result:
    return result.check() if check else result


def _file(entry: Any) -> File:
    try:
        raw = entry.get("path_base64")
        return File(str(entry["path"]), str(entry.get("kind", "file")),
                    int(entry.get("size") or 0), float(entry.get("mtime") or 0),
                    base64.b64decode(raw) if raw else None)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise errors.ProtocolError(f"not a file entry: {entry!r:.200}") from None


def _extent(source: IO[bytes]) -> Any:
    """Position of an open file and the bytes left; None, None if it is not seekable."""
    try:
        start = source.tell()
        size = source.seek(0, os.SEEK_END) - start
        source.seek(start)
        return start, max(0, size)
    except (OSError, AttributeError, ValueError):
        return None, None


def _pieces(source: IO[bytes], size: Optional[int]) -> Iterable[bytes]:
    """The content of a file, and never more than was announced."""
    left = size
    while left is None or left > 0:
        data = source.read(PIECE if left is None else min(PIECE, left))
        if isinstance(data, str):
            raise TypeError("the file must be open in binary mode")
        if not data:
            if left:
                raise ValueError("the file was truncated while it was read")
            return
        if left is not None:
            left -= len(data)
        yield data


def _write_whole(target: str, fill: Any) -> int:
    """Creates a file that is complete, or none at all."""
    temporary = os.path.join(os.path.dirname(target), f".glovebox-{uuid.uuid4().hex}")
    with open(temporary, "xb") as f:
        try:
            size = int(fill(f) or 0)
            f.flush()
            os.replace(temporary, target)
        except BaseException:
            os.unlink(temporary)
            raise
    return size
