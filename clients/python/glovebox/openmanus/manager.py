"""Manages several sandboxes: limits their number and ends idle ones."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
import uuid
from typing import Any, AsyncIterator, Dict, Optional, Set

from .sandbox import DockerSandbox
from .settings import SandboxError, SandboxSettings

log = logging.getLogger("glovebox.openmanus")


class SandboxManager:
    """Creates sandboxes, returns them by id, and ends those that were idle for `idle_timeout`
    seconds. It checks every `cleanup_interval` seconds, once start_cleanup_task() was called or the
    first sandbox was created."""

    def __init__(
        self,
        max_sandboxes: int = 100,
        idle_timeout: int = 3600,
        cleanup_interval: int = 300,
        client: Any = None,
    ) -> None:
        self.max_sandboxes = max_sandboxes
        self.idle_timeout = idle_timeout
        self.cleanup_interval = cleanup_interval
        self.client = client
        self._sandboxes: Dict[str, DockerSandbox] = {}
        self._last_used: Dict[str, float] = {}
        self._locks: Dict[str, asyncio.Lock] = {}
        self._active_operations: Set[str] = set()
        self._making = 0
        self._cleanup_task: Optional["asyncio.Task[None]"] = None
        self._is_shutting_down = False

    async def ensure_image(self, image: str) -> bool:
        """Whether sandboxes of this image can be created. The operator defines templates: nothing
        is pulled, and only creating a sandbox shows for sure."""
        return isinstance(image, str) and bool(image)

    async def create_sandbox(
        self,
        config: Optional[SandboxSettings] = None,
        volume_bindings: Optional[Dict[str, str]] = None,
    ) -> str:
        """Creates a sandbox and returns its id."""
        if self._is_shutting_down:
            raise RuntimeError("The manager is shutting down")
        if len(self._sandboxes) + self._making >= self.max_sandboxes:
            raise RuntimeError(f"Maximum number of sandboxes ({self.max_sandboxes}) reached")
        config = config or SandboxSettings()
        if not await self.ensure_image(config.image):
            raise RuntimeError(f"Failed to ensure Docker image: {config.image}")
        self._making += 1
        try:
            sandbox = DockerSandbox(config, volume_bindings, client=self.client)
            await sandbox.create()
        except (SandboxError, OSError) as error:
            raise RuntimeError(f"Failed to create sandbox: {error}") from error
        finally:
            self._making -= 1
        if self._is_shutting_down:
            await sandbox.cleanup()
            raise RuntimeError("The manager is shutting down")
        sandbox_id = str(uuid.uuid4())
        self._sandboxes[sandbox_id] = sandbox
        self._last_used[sandbox_id] = time.monotonic()
        self._locks[sandbox_id] = asyncio.Lock()
        self.start_cleanup_task()
        return sandbox_id

    async def get_sandbox(self, sandbox_id: str) -> DockerSandbox:
        """The sandbox with this id; resets its idle timer."""
        async with self.sandbox_operation(sandbox_id) as sandbox:
            return sandbox

    @contextlib.asynccontextmanager
    async def sandbox_operation(self, sandbox_id: str) -> AsyncIterator[DockerSandbox]:
        """Locks a sandbox during an operation: one at a time."""
        lock = self._locks.get(sandbox_id)
        if lock is None:
            raise KeyError(f"Sandbox {sandbox_id} not found")
        async with lock:
            sandbox = self._sandboxes.get(sandbox_id)
            if sandbox is None:
                raise KeyError(f"Sandbox {sandbox_id} not found")
            self._active_operations.add(sandbox_id)
            try:
                self._last_used[sandbox_id] = time.monotonic()
                yield sandbox
            finally:
                self._active_operations.discard(sandbox_id)
                if sandbox_id in self._last_used:
                    self._last_used[sandbox_id] = time.monotonic()

    async def delete_sandbox(self, sandbox_id: str) -> None:
        """Ends a sandbox, after its current operation. Does nothing if it does not exist."""
        lock = self._locks.get(sandbox_id)
        if lock is None:
            return
        async with lock:
            sandbox = self._sandboxes.pop(sandbox_id, None)
            self._last_used.pop(sandbox_id, None)
            self._locks.pop(sandbox_id, None)
            if sandbox is not None:
                await sandbox.cleanup()

    # ---- idle ones ----

    def start_cleanup_task(self) -> None:
        """Starts looking for idle sandboxes, in the running loop."""
        if self._cleanup_task is None or self._cleanup_task.done():
            self._cleanup_task = asyncio.get_running_loop().create_task(self._sweep_forever())

    async def _sweep_forever(self) -> None:
        while not self._is_shutting_down:
            await asyncio.sleep(self.cleanup_interval)
            await self._cleanup_idle_sandboxes()

    async def _cleanup_idle_sandboxes(self) -> None:
        now = time.monotonic()
        for sandbox_id, used in list(self._last_used.items()):
            if sandbox_id in self._active_operations or now - used <= self.idle_timeout:
                continue
            try:
                await self.delete_sandbox(sandbox_id)
            except SandboxError as error:
                log.warning("sandbox %s could not be ended: %s", sandbox_id, error)

    # ---- the end ----

    async def cleanup(self) -> None:
        """Ends all sandboxes and accepts no new ones."""
        self._is_shutting_down = True
        task, self._cleanup_task = self._cleanup_task, None
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, RuntimeError):
                await task
        ended = (self.delete_sandbox(sandbox_id) for sandbox_id in list(self._sandboxes))
        for problem in await asyncio.gather(*ended, return_exceptions=True):
            if isinstance(problem, Exception):
                log.warning("a sandbox could not be ended: %s", problem)

    async def __aenter__(self) -> "SandboxManager":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.cleanup()

    def get_stats(self) -> Dict[str, Any]:
        return {
            "total_sandboxes": len(self._sandboxes),
            "active_operations": len(self._active_operations),
            "max_sandboxes": self.max_sandboxes,
            "idle_timeout": self.idle_timeout,
            "cleanup_interval": self.cleanup_interval,
            "is_shutting_down": self._is_shutting_down,
        }
