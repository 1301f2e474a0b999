"""Settings and exceptions, and how they map to the server."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional

from .. import errors
from ..aio import AsyncClient, in_thread
from ..local import connect

WORKSPACE = "/workspace"
DEFAULT_IMAGE = "python:3.12-slim"
# With a network `pip install` works; the packages are removed with the sandbox.
PIP_ENV = {"PIP_BREAK_SYSTEM_PACKAGES": "1", "PIP_NO_CACHE_DIR": "1"}


class SandboxError(Exception):
    """An operation on a sandbox failed."""


class SandboxTimeoutError(SandboxError):
    """A command took too long."""


class SandboxResourceError(SandboxError):
    """A command, or the server, ran out of memory, processes, disk or capacity."""


@dataclass
class SandboxSettings:
    """Settings of a sandbox. `use_sandbox` is for the caller; it is not used here."""

    use_sandbox: bool = False
    image: str = DEFAULT_IMAGE
    work_dir: str = WORKSPACE
    memory_limit: str = "512m"
    cpu_limit: float = 1.0
    timeout: int = 300
    network_enabled: bool = False


def session_options(
    config: SandboxSettings, volume_bindings: Optional[Mapping[str, Any]]
) -> Dict[str, Any]:
    """The options of the session of a sandbox. Rejects what the server does not support."""
    volumes = volumes_of(volume_bindings)
    if not isinstance(config.network_enabled, bool):
        raise SandboxError(f"network_enabled: {config.network_enabled!r} is neither True nor False")
    work_dir = config.work_dir
    if not isinstance(work_dir, str) or ".." in work_dir.split("/"):
        raise SandboxError(f"work_dir: {work_dir!r} is not a directory of a sandbox")
    if not is_beneath_workspace(work_dir):
        raise SandboxError(
            f"work_dir: {work_dir!r} is outside {WORKSPACE}, which is not supported"
        )
    options: Dict[str, Any] = {"memory": config.memory_limit, "cpus": config.cpu_limit}
    if config.image:  # a template or an alias of one; python:* is the default template
        options["template"] = config.image
    if config.network_enabled:
        options["network"] = {"allow": ["*"]}  # every public host, if the operator permits it
        options["env"] = PIP_ENV
    if volumes:
        options["volumes"] = volumes
    return options


def volumes_of(bindings: Optional[Mapping[str, Any]]) -> List[Dict[str, str]]:
    """Converts bindings to volumes. Each maps an absolute path of the host to one in the box, or to
    {"bind": …, "mode": …}. Without a mode a binding is writable if the operator of the server
    allows it, otherwise read-only."""
    if bindings is None:
        return []
    if not isinstance(bindings, Mapping):
        raise SandboxError("volume_bindings: a dictionary of host path to box path is needed")
    volumes = []
    for host, target in bindings.items():
        inside, mode = target, "auto"
        if isinstance(target, Mapping):
            inside, mode = target.get("bind"), _mode(target.get("mode"))
        for path in (host, inside):
            if not isinstance(path, str) or not path.startswith("/") or ".." in path.split("/"):
                raise SandboxError(f"volume_bindings: {path!r} must be absolute, without '..'")
        volumes.append({"source": host, "target": str(inside), "mode": mode})
    return volumes


def _mode(mode: Any) -> str:
    """Docker's modes: "ro" or "rw", optionally with labels such as "z", which are ignored."""
    if mode is None:
        return "auto"
    words = mode.split(",") if isinstance(mode, str) else []
    for word in ("ro", "rw"):
        if word in words:
            return word
    raise SandboxError(f"volume_bindings: the mode {mode!r} is neither 'ro' nor 'rw'")


def is_beneath(path: str, directory: str) -> bool:
    normal, above = posixpath.normpath(path), posixpath.normpath(directory)
    return normal == above or normal.startswith(above + "/")


def is_beneath_workspace(path: str) -> bool:
    return is_beneath(path, WORKSPACE)


def translate(error: errors.GloveboxError, what: str = "") -> SandboxError:
    """Converts an exception to one of OpenManus. `what`: the setting that caused it."""
    if isinstance(error, errors.ExecutionTimeout):
        return SandboxTimeoutError(str(error))
    if isinstance(error, (errors.OutOfMemory, errors.LimitExceeded, errors.TooManyRequests,
                          errors.TooLarge)):
        return SandboxResourceError(str(error))
    return SandboxError(f"{what}: {error}" if what else str(error))


async def default_client(client: Any = None) -> AsyncClient:
    """The given client, otherwise the server at GLOVEBOX_URL, otherwise a local server."""
    if isinstance(client, AsyncClient):
        return client
    return AsyncClient(client=client or await in_thread(connect))
