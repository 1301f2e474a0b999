"""A local server, started from the binary.

`client()` returns a client for the server of this process and starts the server on first use. The
server ends with the process. It listens on a Unix socket in a directory that only this user can
enter, so it needs no key and nobody else can reach it.

The binary is `GLOVEBOX`, otherwise `glovebox` on the PATH. A small shell script runs in between: it
holds the read end of a pipe whose write end is ours. So when this process ends, even if killed by
SIGKILL, the script stops the server and removes the directory.
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
DEFAULT_OPTIONS = ("--grace", "1")  # nobody is left to wait for running code

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

# Read or set here; the server must not see other values.
_OURS = ("GLOVEBOX", "GLOVEBOX_URL", "GLOVEBOX_API_KEY", "GLOVEBOX_LISTEN", "GLOVEBOX_PORT_FILE",
         "GLOVEBOX_DATA", "GLOVEBOX_REQUIRE_KEY", "GLOVEBOX_LOG_FILE")


def find_binary() -> str:
    """The path of the binary that would be started."""
    named = os.environ.get("GLOVEBOX")
    found = shutil.which(named or "glovebox")
    if found is None:
        where = f"GLOVEBOX={named!r} is not a program" if named else "it is not on the PATH"
        raise LocalServiceError(
            f"cannot find the glovebox binary: {where}; set GLOVEBOX to its path, or GLOVEBOX_URL "
            "to the address of a running server"
        )
    return os.path.abspath(found)


class LocalService:
    """A running server and its address. End it with stop() or `with`."""

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
        # The keeper removes the directory if the server fails, so keep its stderr open.
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
                said = said or "no message"
                raise LocalServiceError(f"glovebox serve exited with {code}: {said}")
            if time.monotonic() > end:
                raise LocalServiceError(f"glovebox serve was not ready after {START_SECONDS:.0f} s")
            time.sleep(0.01)

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def stop(self) -> None:
        """Stops the server and all its sessions."""
        if os.getpid() != self._owner:
            return  # in a forked child: the server belongs to the parent
        if self._process.stdin and not self._process.stdin.closed:
            self._process.stdin.close()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            raise LocalServiceError("the local server does not stop") from None
        shutil.rmtree(self.directory, ignore_errors=True)

    def __enter__(self) -> "LocalService":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def _private_directory() -> str:
    """Short enough for the path of a socket: long TMPDIRs are common in test runs."""
    places = [tempfile.gettempdir(), os.environ.get("XDG_RUNTIME_DIR"), "/tmp"]
    for place in places:
        if place and os.path.isdir(place) and len(os.fsencode(place)) + 40 < SOCKET_PATH_MAX:
            return tempfile.mkdtemp(prefix="glovebox-local-", dir=place)
    raise LocalServiceError(f"path too long for a socket; set TMPDIR (now {places[0]})")


def _environment() -> Dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in _OURS}


# ---- the server of this process ----

_lock = threading.Lock()
_service: Optional[LocalService] = None
_client: Optional[Client] = None


def client() -> Client:
    """A client for the server of this process. Starts the server if it is not running."""
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
    """A client for the server at GLOVEBOX_URL, otherwise for a local one."""
    return Client() if os.environ.get("GLOVEBOX_URL") else client()


def stop() -> None:
    """Stops the server of this process, if it runs. The end of the process does so, too."""
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
