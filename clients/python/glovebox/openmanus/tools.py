"""Tools that run Python: each call runs as a script in a fresh box."""

from __future__ import annotations

from typing import Any, Dict, Optional

from .. import errors
from ..result import Result
from .settings import default_client


class PythonExecute:
    """Runs Python code. Only printed output is visible, not the values of expressions."""

    name: str = "python_execute"
    description: str = (
        "Runs Python code. Only printed output is visible: use print(). Each call starts from "
        "scratch."
    )
    parameters: Dict[str, Any] = {
        "type": "object",
        "properties": {"code": {"type": "string", "description": "The Python code to run."}},
        "required": ["code"],
    }

    def __init__(self, client: Any = None) -> None:
        self.client = client

    async def execute(self, code: str, timeout: int = 5) -> Dict[str, Any]:
        """Returns the printed output, and whether the code succeeded."""
        try:
            client = await default_client(self.client)
            result = await client.run(code, timeout=timeout, script=True)
        except errors.GloveboxError as error:
            return {"observation": str(error), "success": False}
        return {"observation": _observation(result, timeout), "success": result.success}

    async def __call__(self, **arguments: Any) -> Dict[str, Any]:
        return await self.execute(**arguments)

    def to_param(self) -> Dict[str, Any]:
        """The tool description for models."""
        about = {
            "name": self.name,
            "description": self.description,
            "parameters": self.parameters,
        }
        return {"type": "function", "function": about}


class NormalPythonExecute(PythonExecute):
    """For data analysis. `code_type` says what the code is for and has no effect."""

    description = (
        "Runs Python code for data analysis, reports and other tasks without charts. Only printed "
        "output is visible."
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
    """The output; for a failure followed by its reason."""
    if result.success:
        return result.stdout
    if result.status == "timeout":
        return f"Execution timeout after {timeout} seconds"
    reason = result.error.value if result.error else result.reason
    return result.stdout + reason
