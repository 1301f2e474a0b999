"""Exceptions.

`ExecutionError` and its subclasses are about the program that ran; they carry its `result`.
`RequestError` and its subclasses are about a request that the server rejected; they carry the HTTP
`status` of the reply and the `problem`, which says what to change. The others are about the
connection: the server cannot be reached, it went away, or the reply is not from Glovebox.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, Mapping, Optional, Type

if TYPE_CHECKING:
    from .result import Result

__all__ = [
    "GloveboxError", "ExecutionError", "ExecutionTimeout", "OutOfMemory", "ExecutionKilled",
    "ExecutionCancelled", "LimitExceeded", "RequestError", "BadRequest", "NotAllowed", "NotFound",
    "SessionGone", "ExecutionGone", "Conflict", "SessionLost", "TooLarge", "TooManyRequests",
    "ServerError", "Unavailable", "ConnectionFailed", "ConnectionLost", "ProtocolError",
    "LocalServiceError",
]


class GloveboxError(Exception):
    """Base class of all exceptions. `result` is the result of the execution, if there is one."""

    result: Optional["Result"] = None

    @property
    def receipt(self) -> Optional[Dict[str, Any]]:
        return None if self.result is None else self.result.receipt


# ---- the program ----


class ExecutionError(GloveboxError):
    """The program failed."""

    result: "Result"

    def __init__(self, result: "Result") -> None:
        super().__init__(result)
        self.result = result

    def __str__(self) -> str:
        return self.result.reason


class ExecutionTimeout(ExecutionError, TimeoutError):
    """The program hit its time limit."""


class OutOfMemory(ExecutionError):
    """The program hit its memory limit."""


class ExecutionKilled(ExecutionError):
    """The program was killed by a signal: it crashed, or signalled itself."""


class ExecutionCancelled(ExecutionError):
    """The execution was interrupted on request."""


class LimitExceeded(ExecutionError):
    """The program hit the limit on processes, disk or output."""


# By the status words of src/base/words/status.def; a test compares them.
EXECUTION_ERRORS: Mapping[str, Type[ExecutionError]] = {
    "error": ExecutionError,
    "timeout": ExecutionTimeout,
    "oom": OutOfMemory,
    "killed": ExecutionKilled,
    "cancelled": ExecutionCancelled,
    "pids": LimitExceeded,
    "disk": LimitExceeded,
    "output": LimitExceeded,
    "system": ExecutionError,
}


# ---- the request ----


class RequestError(GloveboxError):
    """The server rejected the request. `kind` is a stable word such as "session-expired"."""

    def __init__(
        self,
        message: str,
        status: int = 0,
        problem: Optional[Dict[str, Any]] = None,
        retry_after: Optional[float] = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.problem = problem or {}
        self.retry_after = retry_after

    @property
    def kind(self) -> str:
        return str(self.problem.get("type", "")).rpartition(":")[2]

    def __str__(self) -> str:
        return self.message


class BadRequest(RequestError, ValueError):
    """A value is malformed, unknown or out of range; the message says which."""


class NotAllowed(RequestError):
    """An API key is required or unknown, the operator does not allow it, or the server does not
    accept this host name."""


class NotFound(RequestError, LookupError):
    """The session, execution or file does not exist, or belongs to another key."""


class SessionGone(NotFound):
    """The session expired, was ended, or never existed."""


class ExecutionGone(NotFound):
    """The execution is unknown, or its result is no longer kept."""


class Conflict(RequestError):
    """The request conflicts with the current state, for example with an existing file."""


class SessionLost(Conflict):
    """The session's interpreter had to be killed: its variables are gone, its files are not. Raised
    once; the next execution gets a new interpreter. `result` is that of the execution that was
    killed, if this object ran it."""


class TooLarge(RequestError):
    """The request body or file is too large."""


class TooManyRequests(RequestError):
    """A rate limit or quota was hit. Retry after `retry_after` seconds."""


class ServerError(RequestError):
    """The server failed, or a proxy in front of it."""


class Unavailable(ServerError):
    """The server is starting, shutting down or out of resources. See `retry_after`."""


# ---- the connection ----


class ConnectionFailed(GloveboxError, ConnectionError):
    """No server answers at this address. Nothing was sent."""

    def __init__(self, message: str) -> None:
        super().__init__(message)


class ConnectionLost(GloveboxError, ConnectionError):
    """The connection broke and could not be resumed. The request may have been carried out.
    `execution_id` is that of the execution, if known."""

    def __init__(self, message: str, execution_id: Optional[str] = None) -> None:
        super().__init__(message)
        self.execution_id = execution_id


class ProtocolError(GloveboxError):
    """The reply is not from Glovebox."""


class LocalServiceError(GloveboxError):
    """A local server could not be started or stopped."""


# ---- from replies ----

_BY_STATUS: Mapping[int, Type[RequestError]] = {
    400: BadRequest, 401: NotAllowed, 403: NotAllowed, 404: NotFound, 405: BadRequest,
    409: Conflict, 413: TooLarge, 414: BadRequest, 415: BadRequest, 421: NotAllowed,
    422: BadRequest, 429: TooManyRequests, 503: Unavailable,
}
_BY_KIND: Mapping[str, Type[RequestError]] = {
    "session-unknown": SessionGone,
    "session-expired": SessionGone,
    "session-deleted": SessionGone,
    "session-ended": SessionGone,
    "session-lost": SessionLost,
    "execution-unknown": ExecutionGone,
}


def from_problem(
    status: int, problem: Dict[str, Any], retry_after: Optional[float] = None
) -> RequestError:
    """Returns the exception for a rejected request."""
    kind = str(problem.get("type", "")).rpartition(":")[2]
    default = ServerError if status >= 500 else BadRequest
    message = str(problem.get("detail") or problem.get("title") or f"HTTP status {status}")
    cls: Type[RequestError] = _BY_KIND.get(kind) or _BY_STATUS.get(status, default)
    return cls(message, status, problem, retry_after)
