"""The tools that run Python: each call in a fresh box, as a script."""

from __future__ import annotations

from typing import Any, Dict, Optional

from .. import errors
from ..result import Result
from .settings import default_client


class PythonExecute:
    """Runs Python. Only what is printed is seen; values of functions are not."""

    name: str = "python_execute"
    description: str = (
        "Runs Python code. Only what it prints is visible: end with print(). Each call starts anew."
    )
    parameters: Dict[str, Any] = {
        "type": "object",
        "properties": {"code": {"type": "string", "description": "The Python code to run."}},
        "required": ["code"],
    }

    def __init__(self, client: Any = None) -> None:
        self.client = client

    async def execute(self, code: str, timeout: int = 5) -> Dict[str, Any]:
        """What it printed, and whether it ended well."""
        try:
            client = await default_client(self.client)
            result = await client.run(code, timeout=timeout, script=True)
        except errors.GloveboxError as error:
            return {"observation": str(error), "success": False}
        return {"observation": _observation(result, timeout), "success": result.success}

    async def __call__(self, **arguments: Any) -> Dict[str, Any]:
        return await self.execute(**arguments)

    def to_param(self) -> Dict[str, Any]:
        """The tool as models are told of it."""
        about = {
            "name": self.name,
            "description": self.description,
            "parameters": self.parameters,
        }
        return {"type": "function", "function": about}


class NormalPythonExecute(PythonExecute):
    """For data analysis: @code_type tells people what the code is for and changes nothing."""

    description = (
        "Runs Python code for data analysis, reports and other tasks without charts. Only what it "
        "prints is visible."
    )
    parameters = {
        "type": "object",
        "properties": {
            "code_type": {
                "type": "string",
                "description": "What the code is for.",
                "enum": ["process", "report", "others"],
                "default": "process",
            },
            "code": {"type": "string", "description": "The Python code to run."},
        },
        "required": ["code"],
    }

    async def execute(  # type: ignore[override]
        self, code: str, code_type: Optional[str] = None, timeout: int = 5
    ) -> Dict[str, Any]:
        return await super().execute(code, timeout)


def _observation(result: Result, timeout: float) -> str:
    """Of a failure its reason, after what was printed before."""
    if result.success:
        return result.stdout
    if result.status == "timeout":
        return f"Execution timeout after {timeout} seconds"
    reason = result.error.value if result.error else result.reason
    return result.stdout + reason
