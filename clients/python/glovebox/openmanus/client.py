"""`LocalSandboxClient`: one sandbox with the calls that agents use."""

from __future__ import annotations

from typing import Any, Dict, Optional

from .sandbox import DockerSandbox
from .settings import SandboxSettings


class LocalSandboxClient:
    def __init__(self, client: Any = None) -> None:
        self.client = client
        self.sandbox: Optional[DockerSandbox] = None

    async def create(
        self,
        config: Optional[SandboxSettings] = None,
        volume_bindings: Optional[Dict[str, str]] = None,
    ) -> None:
        """Creates the sandbox; a previous one is ended."""
        await self.cleanup()
        sandbox = DockerSandbox(config, volume_bindings, client=self.client)
        await sandbox.create()
        self.sandbox = sandbox

    def _made(self) -> DockerSandbox:
        if self.sandbox is None:
            raise RuntimeError("Sandbox not initialized")
        return self.sandbox

    async def run_command(self, command: str, timeout: Optional[int] = None) -> str:
        return await self._made().run_command(command, timeout)

    async def copy_from(self, container_path: str, local_path: str) -> None:
        await self._made().copy_from(container_path, local_path)

    async def copy_to(self, local_path: str, container_path: str) -> None:
        await self._made().copy_to(local_path, container_path)

    async def read_file(self, path: str) -> str:
        return await self._made().read_file(path)

    async def write_file(self, path: str, content: str) -> None:
        await self._made().write_file(path, content)

    async def cleanup(self) -> None:
        sandbox, self.sandbox = self.sandbox, None
        if sandbox is not None:
            await sandbox.cleanup()


def create_sandbox_client() -> LocalSandboxClient:
    return LocalSandboxClient()
