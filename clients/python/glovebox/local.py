"""A service of our own, started from the binary.

`client()` gives the one of this process and starts it when it is first asked for; it ends with the
process. It listens on a Unix socket in a directory that only this user can enter, so no key is
needed and nobody else can reach it.

The binary is what GLOVEBOX names, else `glovebox` on the PATH. A small shell stands between: it
holds the reading end of a pipe whose other end is ours, so when this process dies, even of SIGKILL,
it tells the service to stop and removes the directory.
"""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import tempfile
import threading
import time
from typing import Dict, List, Optional, Sequence

from .client import Client
from .errors import GloveboxError, LocalServiceError

START_SECONDS = 120.0
STOP_SECONDS = 40.0
SOCKET_PATH_MAX = 107  # of the kernel, for Unix sockets
DEFAULT_OPTIONS = ("--grace", "1")  # nobody is left who would wait for what still runs

# $1 is the directory, the rest the command. Descriptor 3 is the pipe.
_KEEPER = """
dir=$1; shift
exec 3<&0 </dev/null
"$@" 3<&- & service=$!
(read -r _ <&3; kill "$service" 2>/dev/null) & watch=$!
exec 3<&-
wait "$service"; code=$?
kill "$watch" 2>/dev/null
rm -rf -- "$dir"
exit "$code"
"""

# Read by us or fixed by us; the service must not see a second opinion.
_OURS = ("GLOVEBOX", "GLOVEBOX_URL", "GLOVEBOX_API_KEY", "GLOVEBOX_LISTEN", "GLOVEBOX_PORT_FILE",
         "GLOVEBOX_DATA", "GLOVEBOX_REQUIRE_KEY", "GLOVEBOX_LOG_FILE")


def find_binary() -> str:
    """The binary that would be started."""
    named = os.environ.get("GLOVEBOX")
    found = shutil.which(named or "glovebox")
    if found is None:
        where = f"GLOVEBOX is {named!r}, which is no program" if named else "it is not on the PATH"
        raise LocalServiceError(
            f"there is no glovebox to start: {where}; name it with GLOVEBOX=PATH, or give the "
            "address of a running service with GLOVEBOX_URL"
        )
    return os.path.abspath(found)


class LocalService:
    """A running service and its address. End it with stop() or `with`."""

    def __init__(self, binary: Optional[str] = None, options: Sequence[str] = ()) -> None:
        command = [binary or find_binary(), "serve"]
        self.directory = _private_directory()
        self._owner = os.getpid()
        self._socket = os.path.join(self.directory, "socket")
        self._log = os.path.join(self.directory, "log")
        self._ready = os.path.join(self.directory, "ports")
        command += ["--listen", f"unix:{self._socket}", "--port-file", self._ready]
        command += ["--data", os.path.join(self.directory, "data"), "--log-file", self._log]
        try:
            self._start([*command, *DEFAULT_OPTIONS, *options])
        except BaseException:
            shutil.rmtree(self.directory, ignore_errors=True)
            raise
        self.url = f"unix:{self._socket}"

    def _start(self, command: List[str]) -> None:
        error_path = os.path.join(self.directory, "stderr")
        with open(error_path, "wb") as error:
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", _KEEPER, "glovebox-keeper", self.directory, *command],
                stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=error,
                env=_environment(), start_new_session=True, bufsize=0,
            )
        # The keeper removes the directory when the service fails, so its words are held open.
        with open(error_path, "rb") as error:
            try:
                self._wait_ready(error)
            except BaseException:
                self.stop()
                raise

    def _wait_ready(self, error: "object") -> None:
        end = time.monotonic() + START_SECONDS
        while not os.path.exists(self._ready):
            code = self._process.poll()
            if code is not None:
                said = error.read(4000).decode("utf-8", "replace").strip()  # type: ignore
                raise LocalServiceError(f"glovebox serve ended with {code}: {said or 'no reason'}")
            if time.monotonic() > end:
                raise LocalServiceError(f"glovebox serve was not ready in {START_SECONDS:.0f} s")
            time.sleep(0.01)

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def stop(self) -> None:
        """Ends the service and all its sessions."""
        if os.getpid() != self._owner:
            return  # a child of ours: the service is its parent's
        if self._process.stdin and not self._process.stdin.closed:
            self._process.stdin.close()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            raise LocalServiceError("the local service does not stop") from None
        shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self) -> "LocalService":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def _private_directory() -> str:
    """With room for a socket's name: long TMPDIRs are common in test runs."""
    places = [tempfile.gettempdir(), os.environ.get("XDG_RUNTIME_DIR"), "/tmp"]
    for place in places:
        if place and os.path.isdir(place) and len(os.fsencode(place)) + 40 < SOCKET_PATH_MAX:
            return tempfile.mkdtemp(prefix="glovebox-local-", dir=place)
    raise LocalServiceError(f"no short path for a socket; set TMPDIR (now {places[0]})")


def _environment() -> Dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in _OURS}


# ---- the one of this process ----

_lock = threading.Lock()
_service: Optional[LocalService] = None
_client: Optional[Client] = None


def client() -> Client:
    """A client of this process's own service, which is started when there is none."""
    global _service, _client
    with _lock:
        if _service is None or _client is None or not _service.running:
            if _service is not None:
                _stop()
            else:
                atexit.register(stop)
            _service = LocalService()
            _client = Client(_service.url, api_key="")
        return _client


def connect() -> Client:
    """A client of the service that GLOVEBOX_URL names, else of one of our own."""
    return Client() if os.environ.get("GLOVEBOX_URL") else client()


def stop() -> None:
    """Ends this process's own service, if there is one; the end of the process does so too."""
    with _lock:
        _stop()


def _stop() -> None:
    global _service, _client
    service, _service = _service, None
    if _client is not None:
        _client.close()
        _client = None
    if service is not None:
        try:
            service.stop()
        except GloveboxError:
            pass
