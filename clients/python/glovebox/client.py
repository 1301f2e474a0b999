"""`Client`: a service at an address. `Session`: a box that keeps its variables and files."""

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
from .transport import MAX_REPLY, PIECE, READ_SECONDS, Call, Reply, Transport, quote, quote_path

Path = Union[str, "os.PathLike[str]"]
Size = Union[int, str]

INSTALL_SECONDS = 600.0  # pip may be silent for long


@dataclass(frozen=True)
class File:
    """An entry of a workspace. `raw` has the bytes of a path that is not UTF-8:
    the service lists such a file, and gives it out in the archive only."""

    path: str
    kind: str = "file"
    size: int = 0
    mtime: float = 0.0
    raw: Optional[bytes] = None


class Client:
    """A service. Without `url` the environment's GLOVEBOX_URL, else http://127.0.0.1:8080; without
    `api_key` GLOVEBOX_API_KEY. An address may also be `unix:/path/of/socket`.

    `timeout`: seconds of silence after which a connection counts as broken. `retries`: how often a
    request that does no harm twice is sent again. `patience`: for how many seconds 429 and 503 are
    waited out; 0 raises them at once. Objects may be shared by threads."""

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
        """Runs a program in a fresh box. What it does wrong is in the result; with `check` it is an
        exception. `script`: as python3 would, else as a notebook cell. `network`: as of Session."""
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
        """As run(), but gives the events as they happen."""
        body = _body(code=code, timeout=timeout, stdin=stdin, env=env, limits=limits,
                     mode="script" if script else None, filename=filename, template=template,
                     network=network, cancel_on_disconnect=cancel_on_disconnect)
        return stream.open_stream(self.transport, "/v1/execute", body)

    # ---- executions that were started before ----

    def receipt(self, execution_id: str, wait: float = 0.0) -> Optional[Result]:
        """What came of an execution; None while it goes on. Waits `wait` seconds for its end."""
        return stream.look(self.transport, execution_id, wait)

    def events(self, execution_id: str) -> Stream:
        """The stream of an execution, from its beginning."""
        path = f"/v1/executions/{quote(execution_id)}/events"

        def opener(call: Call) -> Reply:
            return self.transport.ask("GET", path, headers=NDJSON, repeat=True, call=call)

        return Stream(self.transport, opener)

    def output(self, execution_id: str, stream: str = "stdout", offset: int = 0) -> Iterator[str]:
        """All that an execution has printed so far, page by page: also what the receipt lacks."""
        while True:
            page = self.transport.json(
                "GET", f"/v1/executions/{quote(execution_id)}/output", repeat=True,
                query={"stream": stream, "offset": offset, "limit": 1024 * 1024},
            )
            try:
                text, after = str(page["text"]), int(page["next"])
            except (KeyError, TypeError, ValueError):
                raise errors.ProtocolError(f"this is no page of output: {page!r:.200}") from None
            if after <= offset:
                return
            yield text
            offset = after

    def interrupt(self, execution_id: str) -> None:
        """Stops an execution, as Ctrl-C does; asked twice, at once. One that has ended is fine."""
        stream.interrupt(self.transport, execution_id)

    # ---- packages ----

    def pip_install(
        self, *packages: str, newest: bool = False, timeout: float = INSTALL_SECONDS
    ) -> Dict[str, Any]:
        """Installs packages into your default set, which all your fresh boxes have from then on.
        See `Session.pip_install`."""
        return _install(self.transport, "/v1/packages", packages, newest, timeout)

    def packages(self) -> Dict[str, Any]:
        """Your default set: "packages" with name, version and hash, and the "requirements"."""
        return self.transport.object("GET", "/v1/packages", repeat=True)

    def reset_packages(self) -> None:
        """Empties your default set. Boxes that have it keep it."""
        self.transport.json("DELETE", "/v1/packages", repeat=True)

    # ---- sessions ----

    def session(self, **options: Any) -> "Session":
        """Makes a session; see `Session` for the options."""
        return Session(client=self, **options)

    def attach(self, session_id: str) -> "Session":
        """A session that is there already. It is looked up, and not ended by `with`."""
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
                raise errors.ProtocolError(f"this is no list: {page!r:.200}") from None
            yield from entries
            if not more or last is None or last == after:
                return
            after = last

    # ---- the service ----

    def health(self) -> Dict[str, Any]:
        return self.transport.object("GET", "/health", repeat=True)

    def limits(self) -> Dict[str, Any]:
        return self.transport.object("GET", "/v1/limits", repeat=True)

    def stats(self) -> Dict[str, Any]:
        return self.transport.object("GET", "/v1/stats", repeat=True)

    def close(self) -> None:
        """Closes idle connections. Sessions stay."""
        self.transport.close()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Session:
    """A box with an interpreter in it: variables, imports, working directory and files stay.

    Made at the service when the object is made, ended by close() or `with`. `memory`, `disk` are
    sizes ("512m"), `timeout` is the default of its executions in seconds, `limits` has the others;
    `files` maps paths to what they hold; `network` is whom it may reach, such as
    {"allow": ["pypi.org"]}, and `volumes` are directories of the service's host, such as
    {"source": "/srv/sets", "target": "/data", "mode": "ro"}, as far as its operator allows;
    `packages` are requirements to install."""

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
            raise errors.ProtocolError(f"the service did not name the session: {made!r:.200}")
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
        filename: Optional[str] = None,
        reply_bytes: Optional[Size] = None,
        accept_loss: Optional[bool] = None,
    ) -> Result:
        """Runs a cell. What it does wrong is in the result; with `check` it is an exception.

        After an execution that had to be killed the variables are gone: `SessionLost` says so once,
        unless `accept_loss` says that this is fine."""
        body = _body(code=code, timeout=timeout, stdin=stdin, filename=filename,
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
        """Runs a shell command in the box, in a process of its own."""
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
        """Gives a line to the session's one shell, where `cd` and `export` stay."""
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
        filename: Optional[str] = None,
        accept_loss: Optional[bool] = None,
        cancel_on_disconnect: Optional[bool] = None,
    ) -> Stream:
        """As run(), but gives the events as they happen."""
        body = _body(code=code, timeout=timeout, stdin=stdin, filename=filename,
                     accept_loss=accept_loss, cancel_on_disconnect=cancel_on_disconnect)
        return stream.open_stream(self._transport, self._path + "/execute", body)

    def stream_command(
        self, command: str, *, shell: bool = False, timeout: Optional[float] = None
    ) -> Stream:
        """As command() or shell(), but gives the events as they happen."""
        body = _body(command=command, shell=shell or None, timeout=timeout)
        return stream.open_stream(self._transport, self._path + "/commands", body)

    def interrupt(self, *, everything: bool = False) -> int:
        """Stops what runs in it, with `everything` also what waits; gives how many."""
        query = {"all": True} if everything else None
        reply = self._transport.object("POST", self._path + "/interrupt", query=query)
        count = reply.get("interrupted")
        return count if isinstance(count, int) else 0

    # ---- packages ----

    def pip_install(
        self, *packages: str, newest: bool = False, timeout: float = INSTALL_SECONDS
    ) -> Dict[str, Any]:
        """Installs packages, which can be imported at once: requirements such as "humanize" or
        "requests[socks]>=2.31". With `newest`, what comes without a version is the newest that the
        index has. Gives what is "installed" and what was "present", with "warnings"; what cannot be
        installed is an exception that says why."""
        return _install(self._transport, self._path + "/packages", packages, newest, timeout)

    def packages(self) -> Dict[str, Any]:
        """What was installed into it: "packages" with name, version and hash, "requirements"."""
        return self._transport.object("GET", self._path + "/packages", repeat=True)

    # ---- its life ----

    def info(self) -> Dict[str, Any]:
        """Its state, age, limits and how long it may stay idle."""
        return self._transport.object("GET", self._path, repeat=True)

    def keep_alive(self) -> Dict[str, Any]:
        """Starts its idle time anew."""
        return self._transport.object("POST", self._path + "/keepalive", repeat=True)

    def close(self) -> None:
        """Ends the session; what runs in it is stopped. Once it is gone this does nothing."""
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
        """What is in the workspace, or in one directory of it."""
        query = {"dir": directory or None, "recursive": recursive or None, "limit": 1000}
        pages = self.client._pages(self._path + "/files", "files", "path", query)
        return [_file(entry) for entry in pages]

    def upload(self, source: Union[Path, IO[bytes]], path: Optional[str] = None) -> File:
        """Copies a local file, or what an open binary file still holds, into the workspace. Without
        `path` it keeps its name. A file is there whole or not at all."""
        if isinstance(source, (str, os.PathLike)):
            name = path or os.path.basename(os.fspath(source))
            with open(source, "rb") as f:
                return self._put(name, f)
        if path is None:
            raise ValueError("an open file needs a path to go to")
        return self._put(path, source)

    def write(self, path: str, data: Union[str, bytes]) -> File:
        """Makes a file of text (as UTF-8) or bytes."""
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
        """The bytes of a file, which must fit into memory."""
        with self._open(path) as reply:
            return reply.read(limit)

    def read_text(self, path: str) -> str:
        return self.read(path).decode("utf-8")

    def _open(self, path: str, headers: Optional[Dict[str, str]] = None) -> Reply:
        return self._transport.ask("GET", f"{self._path}/files/{quote_path(path)}", repeat=True,
                                   headers={"Accept": "*/*", **(headers or {})})

    def download(self, path: str, to: Union[None, Path, IO[bytes]] = None) -> int:
        """Copies a file of the workspace to a local one, a directory, or an open binary file; gives
        its size. Without `to` it goes to the current directory under its own name. A local file
        takes its place once all of it has come; a broken connection is picked up where it broke."""
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
                    raise errors.ConnectionLost("the file changed while it was read; read it again")
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
        """Saves the workspace, or a directory of it, as tar.gz. Unpack it as what it is: files of
        a program that nobody has read."""
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
        """Makes a directory and its parents; one that is there already is fine."""
        self._transport.json("POST", self._path + "/directories", {"path": path})


def run(code: str, *, client: Optional[Client] = None, **options: Any) -> Result:
    """Runs a program in a fresh box of the service that the environment names; see Client.run()."""
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
        raise errors.ProtocolError(f"this is no file: {entry!r:.200}") from None


def _extent(source: IO[bytes]) -> Any:
    """Where an open file stands and how much of it is left; None for what cannot be told."""
    try:
        start = source.tell()
        size = source.seek(0, os.SEEK_END) - start
        source.seek(start)
        return start, max(0, size)
    except (OSError, AttributeError, ValueError):
        return None, None


def _pieces(source: IO[bytes], size: Optional[int]) -> Iterable[bytes]:
    """What a file holds, and no more than was announced."""
    left = size
    while left is None or left > 0:
        data = source.read(PIECE if left is None else min(PIECE, left))
        if isinstance(data, str):
            raise TypeError("the file must be open in binary mode")
        if not data:
            if left:
                raise ValueError("the file became shorter while it was read")
            return
        if left is not None:
            left -= len(data)
        yield data


def _write_whole(target: str, fill: Any) -> int:
    """Makes a file that has all of it or is not there."""
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
