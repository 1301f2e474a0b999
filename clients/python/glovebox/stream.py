"""Event streams, and how to resume them.

A stream is NDJSON, one event per line. Its first event names the execution. From then on a broken
connection loses nothing: we count what arrived of each stream and request the rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Dict, Iterator, Optional

from . import errors
from .result import Display, Result
from .transport import Call, Reply, Transport, current_call, json_bytes, parse_json, quote

NDJSON = {"Accept": "application/x-ndjson"}
RETURNS = 6  # attempts to reconnect without receiving a new event
WAIT_SECONDS = 20.0
ENOUGH_BYTES = 1024 * 1024


@dataclass(frozen=True)
class Event:
    """An event. `kind` is start, stdout, stderr, display, result or receipt."""

    kind: str
    data: Dict[str, Any]

    @property
    def text(self) -> str:
        """The printed text; for a display or result its plain text."""
        bundle = self.data.get("data") if self.kind == "display" else self.data
        key = "text" if self.kind in ("stdout", "stderr") else "text/plain"
        value = bundle.get(key) if isinstance(bundle, dict) else None
        return value if isinstance(value, str) else ""

    @property
    def display(self) -> Optional[Display]:
        if self.kind == "result":
            return Display(self.data)
        if self.kind != "display" or not isinstance(self.data.get("data"), dict):
            return None
        return Display.from_json(self.data)


def pause_before(call: Call, attempt: int) -> None:
    call.pause(min(2.0, 0.05 * 2**attempt))


class Stream:
    """The events of one execution, in order. The last one is the receipt, also available as
    `result`.

    Leaving the stream early does not end the execution; call `interrupt()` for that."""

    def __init__(self, transport: Transport, opener: Callable[[Call], Reply]) -> None:
        self._transport = transport
        self._call = current_call.get() or Call()
        self._reply: Optional[Reply] = opener(self._call)
        self._offset = {"stdout": 0, "stderr": 0}
        self._displays = 0
        self._had_result = False
        self._events = self._all()
        self.received = 0  # bytes of the events as sent
        self.execution_id: Optional[str] = None
        self.session_id: Optional[str] = None
        self.result: Optional[Result] = None

    # ---- reading ----

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        return next(self._events)

    def _all(self) -> Iterator[Event]:
        attempt = 0
        while self.result is None:
            try:
                if self._reply is None:
                    self._reply = self._reopen()
                for line in self._reply.lines(self._transport.max_reply):
                    event = self._take(line)
                    if event is None:
                        continue
                    attempt = 0
                    if self.result is not None:
                        self._reply.finish()  # so that the connection can be reused
                    yield event
                    if self.result is not None:
                        break
                if self.result is None:
                    raise errors.ConnectionLost("the stream ended before the receipt")
            except (errors.ConnectionLost, errors.ConnectionFailed) as error:
                self._hang_up()
                attempt += 1
                if self.execution_id is None or self._call.aborted or attempt > RETURNS:
                    raise errors.ConnectionLost(str(error), self.execution_id) from error
                pause_before(self._call, attempt)
            except BaseException:
                self._hang_up()
                raise
        self._hang_up()

    def _reopen(self) -> Reply:
        assert self.execution_id is not None
        query = {**self._offset, "displays": self._displays}
        return self._transport.ask("GET", f"/v1/executions/{quote(self.execution_id)}/events",
                                   query=query, headers=NDJSON, call=self._call)

    def _take(self, line: bytes) -> Optional[Event]:
        """Parses a line and counts its content. Returns None if there is nothing new."""
        self.received += len(line)
        if not line.strip():
            return None
        found = parse_json(line)
        data = found.get("data") if isinstance(found, dict) else None
        if not isinstance(data, dict):
            raise errors.ProtocolError(f"not an event: {line[:200]!r}")
        kind = str(found.get("event"))
        if kind == "start":
            if self.execution_id is not None:
                return None
            self.execution_id, self.session_id = data.get("execution_id"), data.get("session_id")
        elif kind in self._offset:
            after = data.get("next")
            if not isinstance(after, int) or after < self._offset[kind]:
                raise errors.ProtocolError(f"not an event: {line[:200]!r}")
            self._offset[kind] = after
        elif kind == "display":
            self._displays += 1
        elif kind == "result":
            if self._had_result:
                return None
            self._had_result = True
        elif kind == "receipt":
            self.result = Result.from_receipt(data)
        elif kind in ("fault", "error"):
            status = data.get("status")
            raise errors.from_problem(status if isinstance(status, int) else 500, data)
        else:
            return None  # keepalive, or an event of a newer server
        return Event(kind, data)

    def wait(self) -> Result:
        """Reads to the end and returns the result."""
        for _ in self:
            pass
        if self.result is None:
            raise errors.ConnectionLost("the stream was closed", self.execution_id)
        return self.result

    def text(self) -> Iterator[str]:
        """Only the text printed on stdout, as it arrives."""
        return (event.text for event in self if event.kind == "stdout")

    # ---- ending ----

    def interrupt(self) -> None:
        """Interrupts the execution; the receipt still arrives."""
        if self.execution_id is not None and self.result is None:
            interrupt(self._transport, self.execution_id)

    def _hang_up(self) -> None:
        if self._reply is not None:
            self._reply.close()
            self._reply = None

    def close(self) -> None:
        self._events.close()  # type: ignore[attr-defined]
        self._hang_up()

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


# ---- without the events ----


def interrupt(transport: Transport, execution_id: str) -> None:
    try:
        transport.json("POST", f"/v1/executions/{quote(execution_id)}/interrupt", call=Call())
    except (errors.Conflict, errors.NotFound):
        pass  # it has already ended


def look(transport: Transport, execution_id: str, wait: float = 0.0) -> Optional[Result]:
    """The result of an execution, or None if it is still running after `wait` seconds."""
    found = transport.json(
        "GET", f"/v1/executions/{quote(execution_id)}", query={"wait": wait} if wait else None,
        repeat=True, timeout=transport.timeout + wait,
    )
    if isinstance(found, dict) and found.get("status") in ("waiting", "running"):
        return None
    return Result.from_receipt(found)


def wait_for(transport: Transport, execution_id: str) -> Result:
    """Waits for the end, across broken connections."""
    call = current_call.get() or Call()
    attempt = 0
    while True:
        try:
            result = look(transport, execution_id, WAIT_SECONDS)
            if result is not None:
                return result
            attempt = 0
        except (errors.ConnectionLost, errors.ConnectionFailed) as error:
            attempt += 1
            if call.aborted or attempt > RETURNS:
                raise errors.ConnectionLost(str(error), execution_id) from error
            pause_before(call, attempt)


def open_stream(transport: Transport, path: str, body: Dict[str, Any]) -> Stream:
    data = json_bytes(body)
    headers = {**NDJSON, "Content-Type": "application/json"}

    def opener(call: Call) -> Reply:
        return transport.ask("POST", path, body=data, headers=headers, call=call)

    return Stream(transport, opener)


def execute(transport: Transport, path: str, body: Dict[str, Any]) -> Result:
    """Runs the code to its end. This uses a stream, too, because its first event names the
    execution: a connection that breaks while the program runs then loses nothing. Long output is
    not transferred twice: we leave the stream and wait for the receipt. If the caller stops waiting
    (Ctrl-C, a cancelled task), the execution is interrupted."""
    stream = open_stream(transport, path, body)
    try:
        for _ in stream:
            if stream.received > ENOUGH_BYTES and stream.execution_id and stream.result is None:
                stream.close()
                return wait_for(transport, stream.execution_id)
        return stream.wait()
    except errors.ConnectionLost:
        call = current_call.get()
        if call is not None and call.aborted:
            _interrupt_quietly(stream)
        raise
    except errors.GloveboxError:
        raise
    except BaseException:
        _interrupt_quietly(stream)
        raise
    finally:
        stream.close()


def _interrupt_quietly(stream: Stream) -> None:
    try:
        if stream.execution_id:
            interrupt(stream._transport, stream.execution_id)
    except errors.GloveboxError:
        pass
