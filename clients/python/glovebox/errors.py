"""What can go wrong, as exceptions.

`ExecutionError` and what is beneath it speak of the program that ran: they carry its `result`.
`RequestError` and what is beneath it speak of a request that the service refused: they carry the
`status` of the reply and the `problem`, which says what to change. The rest is between here and the
service: it cannot be reached, it went away, or what answers is not Glovebox.
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
    """The root of them all. `result` is that of the execution it is about, if there is one."""

    result: Optional["Result"] = None

    @property
    def receipt(self) -> Optional[Dict[str, Any]]:
        return None if self.result is None else self.result.receipt


# ---- the program ----


class ExecutionError(GloveboxError):
    """The program did not end well."""

    result: "Result"

    def __init__(self, result: "Result") -> None:
        super().__init__(result)
        self.result = result

    def __str__(self) -> str:
        return self.result.reason


class ExecutionTimeout(ExecutionError, TimeoutError):
    """Its time was used up."""


class OutOfMemory(ExecutionError):
    """It needed more memory than it may have."""


class ExecutionKilled(ExecutionError):
    """It died of a signal: it crashed, or shot itself."""


class ExecutionCancelled(ExecutionError):
    """Somebody asked for its end."""


class LimitExceeded(ExecutionError):
    """It met the limit of processes, disk or output."""


# By the status words of src/base/status.def; a test compares them.
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
    """The service refused. `kind` is a fixed word such as "session-expired", or ""."""

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
    """Something in it is malformed, unknown or out of range; the message says what."""


class NotAllowed(RequestError):
    """A key is needed, or this one is not known; or the address is not one of the service's."""


class NotFound(RequestError, LookupError):
    """There is no such session, execution or file, or it is not yours."""


class SessionGone(NotFound):
    """The session expired, was ended, or never was."""


class ExecutionGone(NotFound):
    """The execution is not known, or no longer kept."""


class Conflict(RequestError):
    """The state of things does not allow it: a file is in the way, say."""


class SessionLost(Conflict):
    """The session's interpreter had to be ended: its variables are gone, its files are not. This is
    said once; the next execution has a new interpreter. `result` is that of the execution that was
    ended, if this object ran it."""


class TooLarge(RequestError):
    """The body or file is larger than the service takes."""


class TooManyRequests(RequestError):
    """Too much at once. `retry_after` says in how many seconds to try again."""


class ServerError(RequestError):
    """The service failed, or what is between here and there."""


class Unavailable(ServerError):
    """It takes no work now: it starts, stops, or has no room. See `retry_after`."""


# ---- the way there ----


class ConnectionFailed(GloveboxError, ConnectionError):
    """Nobody answers at this address. Nothing was sent."""

    def __init__(self, message: str) -> None:
        super().__init__(message)


class ConnectionLost(GloveboxError, ConnectionError):
    """The connection broke, and it could not be picked up again. What was asked for may have been
    done. `execution_id` is that of the execution, as far as it is known."""

    def __init__(self, message: str, execution_id: Optional[str] = None) -> None:
        super().__init__(message)
        self.execution_id = execution_id


class ProtocolError(GloveboxError):
    """What answers does not speak as Glovebox does."""


class LocalServiceError(GloveboxError):
    """A service of our own could not be started."""


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
    """The exception for a refusal."""
    kind = str(problem.get("type", "")).rpartition(":")[2]
    default = ServerError if status >= 500 else BadRequest
    message = str(problem.get("detail") or problem.get("title") or f"HTTP status {status}")
    cls: Type[RequestError] = _BY_KIND.get(kind) or _BY_STATUS.get(status, default)
    return cls(message, status, problem, retry_after)
