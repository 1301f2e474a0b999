"""One sandbox: a session with a shell and files."""

from __future__ import annotations

import os
import posixpath
import shlex
import shutil
import tarfile
import tempfile
import uuid
from typing import IO, Any, Dict, List, Mapping, Optional, Sequence

from .. import errors
from ..aio import AsyncSession, in_thread
from ..client import Session
from .settings import (WORKSPACE, SandboxError, SandboxSettings, SandboxTimeoutError,
                       default_client, is_beneath, is_beneath_workspace, session_options,
                       translate)
from .terminal import AsyncDockerizedTerminal


class DockerSandbox:
    """A sandbox. `container` is its session, once create() was called. `client` selects the server;
    for the default see `glovebox.openmanus`."""

    def __init__(
        self,
        config: Optional[SandboxSettings] = None,
        volume_bindings: Optional[Dict[str, str]] = None,
        client: Any = None,
    ) -> None:
        self.config = config or SandboxSettings()
        self.volume_bindings = volume_bindings or {}
        self.client = client
        self.container: Optional[AsyncSession] = None
        self.terminal: Optional[AsyncDockerizedTerminal] = None
        self._bound: List[str] = []

    async def create(self) -> "DockerSandbox":
        """Creates the session and opens its shell."""
        options = session_options(self.config, self.volume_bindings)
        self._bound = [volume["target"] for volume in options.get("volumes", [])]
        try:
            client = await default_client(self.client)
            self.container = await client.session(**options)
        except errors.GloveboxError as error:
            raise translate(error, _setting_of(error)) from error
        try:
            terminal = AsyncDockerizedTerminal(
                self.container, self.config.work_dir, default_timeout=self.config.timeout
            )
            await terminal.init()
        except BaseException:
            await self.cleanup()
            raise
        self.terminal = terminal
        return self

    async def run_command(self, cmd: str, timeout: Optional[int] = None) -> str:
        """Runs a line in the sandbox's persistent shell; `cd` and `export` carry over."""
        if self.terminal is None:
            raise RuntimeError("Sandbox not initialized")
        seconds = timeout or self.config.timeout
        try:
            return await self.terminal.run_command(cmd, timeout=seconds)
        except TimeoutError:
            raise SandboxTimeoutError(
                f"Command execution timed out after {seconds} seconds"
            ) from None

    # ---- files ----

    async def read_file(self, path: str) -> str:
        """The text of a file."""
        data: bytes = await self._with_files("read", path, lambda files, where: files.read(where))
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as error:
            raise RuntimeError(f"Failed to read file: {error}") from None

    async def write_file(self, path: str, content: str) -> None:
        """Creates a file and its parent directories."""
        data = content.encode()
        await self._with_files("write", path, lambda files, where: files.write(where, data))

    async def copy_from(self, src_path: str, dst_path: str) -> None:
        """Copies a file or directory of the sandbox to the host. If `dst_path` is a directory, the
        copy goes into it under its own name; otherwise `dst_path` is the name of the copy."""
        await self._with_files("copy", src_path, lambda files, where: files.fetch(where, dst_path),
                               "Source file not found")

    async def copy_to(self, src_path: str, dst_path: str) -> None:
        """Copies a file or directory of the host to `dst_path` in the sandbox."""
        if not os.path.exists(src_path):
            raise FileNotFoundError(f"Source file not found: {src_path}")
        if dst_path.endswith("/") and not os.path.isdir(src_path):
            dst_path += os.path.basename(src_path)
        await self._with_files("copy", dst_path, lambda files, where: files.store(src_path, where))

    async def _with_files(
        self, verb: str, path: str, function: Any, missing: str = "File not found"
    ) -> Any:
        """Runs an operation on a path of the sandbox in a thread, and translates its exceptions."""
        if self.container is None:
            raise RuntimeError("Sandbox not initialized")
        where = self._safe_resolve_path(path)
        try:
            files = BoxFiles(self.container.sync, self._bound)
            return await in_thread(function, files, where)
        except errors.SessionGone as error:
            raise SandboxError(f"the sandbox is gone: {error}") from error
        except (errors.NotFound, FileNotFoundError):
            raise FileNotFoundError(f"{missing}: {path}") from None
        except (errors.GloveboxError, OSError, tarfile.TarError) as error:
            raise RuntimeError(f"Failed to {verb} file: {error}") from error

    def _safe_resolve_path(self, path: str) -> str:
        """An absolute path. Relative ones start at the working directory; `..` is not allowed."""
        if not path or "\0" in path:
            raise ValueError(f"{path!r} is not a path")
        if ".." in path.split("/"):
            raise ValueError("Path contains potentially unsafe patterns")
        return posixpath.normpath(posixpath.join(self.config.work_dir, path))

    # ---- the end ----

    async def cleanup(self) -> None:
        """Ends the sandbox. May be called more than once, also if the session is already gone."""
        terminal, self.terminal = self.terminal, None
        container, self.container = self.container, None
        if terminal is not None:
            await terminal.close()
        if container is not None:
            try:
                await container.close()
            except errors.GloveboxError as error:
                raise translate(error) from error

    async def __aenter__(self) -> "DockerSandbox":
        return await self.create()

    async def __aexit__(self, *_: object) -> None:
        await self.cleanup()


def _setting_of(error: errors.GloveboxError) -> str:
    """Which of the settings caused the rejection."""
    problem = getattr(error, "problem", {})
    for word, setting in ((":volume-", "volume_bindings"), (":network-", "network_enabled")):
        if word in str(problem.get("type")):
            return setting
    names = {"template": "image", "memory": "memory_limit", "cpus": "cpu_limit",
             "volumes": "volume_bindings", "source": "volume_bindings",
             "target": "volume_bindings"}
    found = problem.get("errors")
    for entry in found if isinstance(found, list) else []:
        for word in reversed(entry.get("loc", []) if isinstance(entry, Mapping) else []):
            if word in names:
                return names[word]
    return ""


class BoxFiles:
    """Files of a box by absolute path, synchronously. The file API reaches the workspace, without
    volumes in it; other files (such as in /tmp) are copied through the workspace."""

    def __init__(self, session: Session, bound: Sequence[str] = ()) -> None:
        self.session = session
        self.bound = bound

    # ---- reading ----

    def read(self, path: str) -> bytes:
        with tempfile.TemporaryFile() as f:
            self._fetch_file(path, f)
            f.seek(0)
            return f.read()

    def fetch(self, path: str, target: str) -> None:
        """Copies to the host: into a directory, or as `target`."""
        is_directory = self._is_directory(path)
        parent = os.path.dirname(target)
        if parent:
            os.makedirs(parent, exist_ok=True)
        if is_directory:
            if not os.path.isdir(target):
                raise OSError(f"Source path is a directory but destination is a file: {path}")
            self._fetch_tree(path, os.path.join(target, posixpath.basename(path)))
            return
        if os.path.isdir(target):
            target = os.path.join(target, posixpath.basename(path))
        temporary = f"{target}.{uuid.uuid4().hex}"
        try:
            with open(temporary, "xb") as f:
                self._fetch_file(path, f)
            os.replace(temporary, target)
        finally:
            if os.path.exists(temporary):
                os.unlink(temporary)

    def _fetch_file(self, path: str, to: IO[bytes]) -> None:
        if self._is_inside(path):
            self.session.download(self._beneath(path), to)
            return
        stop = self._stop_name()
        self._sh(f"test -e {shlex.quote(path)} || exit 66; "
                 f"cat -- {shlex.quote(path)} > {shlex.quote(WORKSPACE + '/' + stop)}")
        try:
            self.session.download(stop, to)
        finally:
            self.session.delete(stop)

    def _fetch_tree(self, path: str, target: str) -> None:
        """Unpacks an archive of the tree. It is as hostile as the code in the box."""
        if not self._is_inside(path):
            raise OSError(f"directories outside {WORKSPACE} cannot be copied: {path}")
        with tempfile.TemporaryFile() as f:
            self.session.archive(f, self._beneath(path) if path != WORKSPACE else "")
            f.seek(0)
            unpack(f, target)

    def _is_directory(self, path: str) -> bool:
        quoted = shlex.quote(path)
        result = self._sh(f"test -e {quoted} || exit 66; if test -d {quoted}; then echo d; fi")
        return result.strip() == "d"

    # ---- writing ----

    def write(self, path: str, data: bytes) -> None:
        with tempfile.TemporaryFile() as f:
            f.write(data)
            f.seek(0)
            self._store_file(f, path)

    def store(self, source: str, path: str) -> None:
        """Copies from the host; a directory is sent as tar, without devices and other special
        files."""
        if not os.path.isdir(source):
            with open(source, "rb") as f:
                self._store_file(f, path)
                runs = os.fstat(f.fileno()).st_mode & 0o100
            if runs:
                self._sh(f"chmod +x -- {shlex.quote(path)}")
            return
        stop = self._stop_name()
        with tempfile.TemporaryFile() as f:
            with tarfile.open(fileobj=f, mode="w") as tar:
                tar.add(source, arcname=".", filter=_for_the_box)
            f.seek(0)
            self.session.upload(f, stop)
        quoted = shlex.quote(path)
        try:
            self._sh(f"mkdir -p -- {quoted} && "
                     f"tar -x --no-same-owner -f {WORKSPACE}/{stop} -C {quoted}")
        finally:
            self.session.delete(stop)

    def _store_file(self, source: IO[bytes], path: str) -> None:
        if self._is_inside(path):
            self.session.upload(source, self._beneath(path))
            return
        stop = self._stop_name()
        self.session.upload(source, stop)
        quoted, parent = shlex.quote(path), shlex.quote(posixpath.dirname(path) or "/")
        try:
            self._sh(f"mkdir -p -- {parent} && cat {WORKSPACE}/{stop} > {quoted}")
        finally:
            self.session.delete(stop)

    # ---- helpers ----

    def _is_inside(self, path: str) -> bool:
        return (is_beneath_workspace(path) and path != WORKSPACE
                and not any(is_beneath(path, target) for target in self.bound))

    @staticmethod
    def _beneath(path: str) -> str:
        return posixpath.relpath(path, WORKSPACE)

    @staticmethod
    def _stop_name() -> str:
        return f".glovebox-{uuid.uuid4().hex}"

    def _sh(self, command: str) -> str:
        result = self.session.command(command, accept_loss=True)
        if result.exit_code == 66:
            raise FileNotFoundError(command)
        if not result.success:
            raise OSError((result.stderr or result.reason).strip())
        return result.stdout


def _for_the_box(member: tarfile.TarInfo) -> Optional[tarfile.TarInfo]:
    if not (member.isfile() or member.isdir() or member.issym()):
        return None
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def unpack(archive: IO[bytes], target: str) -> None:
    """Unpacks only regular files and directories, and only below `target`: no links, no devices, no
    path that leads out, no owner, no special mode bits."""
    with tarfile.open(fileobj=archive, mode="r:gz") as tar:
        os.makedirs(target, exist_ok=True)
        for member in tar:
            name = posixpath.normpath(member.name)
            if name.startswith("/") or ".." in name.split("/") or "\0" in name:
                raise OSError(f"the archive contains a path that leads out: {member.name!r}")
            full = os.path.join(target, *name.split("/"))
            if member.isdir():
                _make_directories(target, name)
            elif member.isfile():
                _make_directories(target, posixpath.dirname(name))
                source = tar.extractfile(member)
                if os.path.islink(full):
                    os.unlink(full)
                with open(full, "wb") as f:
                    if source is not None:
                        shutil.copyfileobj(source, f)
                    if member.mode & 0o100:
                        mode = os.fstat(f.fileno()).st_mode & 0o777
                        os.fchmod(f.fileno(), mode | (mode & 0o444) >> 2)


def _make_directories(target: str, name: str) -> None:
    """Creates each level separately: a symbolic link could lead out."""
    for part in [part for part in name.split("/") if part not in ("", ".")]:
        target = os.path.join(target, part)
        if os.path.islink(target):
            raise OSError(f"{target!r} is a symbolic link; not followed")
        os.makedirs(target, exist_ok=True)
