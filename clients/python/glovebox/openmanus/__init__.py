"""The sandbox classes of OpenManus, over Glovebox.

Names, arguments, messages and behaviour are those that programs written for OpenManus know. Behind
them is a session of the service that GLOVEBOX_URL names, or of one that is started from the binary
when it is first needed. There is no Docker in it.
"""

from .client import LocalSandboxClient, create_sandbox_client
from .manager import SandboxManager
from .sandbox import DockerSandbox
from .settings import SandboxError, SandboxResourceError, SandboxSettings, SandboxTimeoutError
from .terminal import AsyncDockerizedTerminal
from .tools import NormalPythonExecute, PythonExecute

__all__ = [
    "AsyncDockerizedTerminal", "DockerSandbox", "LocalSandboxClient", "NormalPythonExecute",
    "PythonExecute", "SandboxError", "SandboxManager", "SandboxResourceError", "SandboxSettings",
    "SandboxTimeoutError", "create_sandbox_client",
]
