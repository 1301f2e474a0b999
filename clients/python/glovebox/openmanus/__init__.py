"""The sandbox classes of OpenManus, implemented with Glovebox.

Names, arguments, messages and behaviour are those that programs written for OpenManus expect. Each
sandbox is a session of the server at GLOVEBOX_URL, or of a local server that is started on first
use. Docker is not needed.
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
