"""A persistent shell in a box."""

from __future__ import annotations

import asyncio
import shlex
from typing import Any, Dict, Mapping, Optional

from .. import errors
from ..aio import AsyncSession, in_thread
from ..client import Session
from ..local import connect
from ..result import Result
from .settings import WORKSPACE, SandboxError, SandboxResourceError, translate

_RESOURCE_ERRORS = (errors.OutOfMemory, errors.LimitExceeded)


class AsyncDockerizedTerminal:
    """`container` is a session: an `AsyncSession`, a `Session` or a session id."""

    def __init__(
        self,
        container: Any,
        working_dir: str = WORKSPACE,
        env_vars: Optional[Mapping[str, str]] = None,
        default_timeout: int = 60,
    ) -> None:
        self.container = container
        self.working_dir = working_dir
        self.env_vars: Dict[str, str] = dict(env_vars or {})
        self.default_timeout = default_timeout
        self.session: Optional[AsyncSession] = None
        self._lock: Optional[asyncio.Lock] = None

    async def init(self) -> None:
        """Opens the shell in the working directory, with the variables set."""
        for name in self.env_vars:
            if not name.isidentifier() or not name.isascii():
                raise ValueError(f"{name!r} is not a valid name for an environment variable")
        self._lock = asyncio.Lock()
        session = await self._find()
        try:
            result = await session.shell(self._opening(), accept_loss=True)
        except errors.GloveboxError as error:
            raise translate(error) from error
        if not result.success:
            raise SandboxError(f"the shell could not be opened: {result.stdout}{result.stderr}")
        self.session = session

    async def _find(self) -> AsyncSession:
        if isinstance(self.container, AsyncSession):
            return self.container
        if isinstance(self.container, Session):
            return AsyncSession(self.container)
        client = await in_thread(connect)
        return AsyncSession(await in_thread(client.attach, str(self.container)))

    def _opening(self) -> str:
        """As on a terminal, stdout and stderr are one stream, in order."""
        lines = [f"export {name}={shlex.quote(value)}" for name, value in self.env_vars.items()]
        where = shlex.quote(self.working_dir)
        return "\n".join(["exec 2>&1", *lines, f"mkdir -p -- {where} && cd -- {where}"])

    async def run_command(self, cmd: str, timeout: Optional[int] = None) -> str:
        """Returns the output of the command, including stderr. Raises TimeoutError if it takes too
        long; if the command could not be stopped, the next one gets a new shell."""
        if self.session is None or self._lock is None:
            raise RuntimeError("Terminal not initialized")
        seconds = timeout or self.default_timeout
        async with self._lock:
            result = await self._run(cmd, seconds)
        if result.status == "timeout":
            raise TimeoutError(f"Command execution timed out after {seconds} seconds")
        if errors.EXECUTION_ERRORS.get(result.status) in _RESOURCE_ERRORS:
            raise SandboxResourceError(result.reason)
        return (result.stdout + result.stderr).strip()

    async def _run(self, cmd: str, seconds: float) -> Result:
        assert self.session is not None
        try:
            result = await self.session.shell(cmd, timeout=seconds, accept_loss=True)
            if result.shell_lost or result.session_lost:
                await self.session.shell(self._opening(), accept_loss=True)
        except errors.GloveboxError as error:
            raise translate(error) from error
        return result

    async def close(self) -> None:
        """Leaves the shell; the sandbox continues."""
        self.session = None

    async def __aenter__(self) -> "AsyncDockerizedTerminal":
        await self.init()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
