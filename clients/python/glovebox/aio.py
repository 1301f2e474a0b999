"""Async versions of the classes: `AsyncClient`, `AsyncSession`, `AsyncStream`.

Every call runs the synchronous one in a new thread. Cancelling the task shuts down the call's
socket, so the thread ends at once; the execution it waited for is interrupted. The threads are
daemons and not from the loop's pool: that pool is small, and a program that exits must not wait for
it.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import threading
from typing import Any, AsyncIterator, Callable, Dict, List, Optional, TypeVar

from . import errors
from .client import Client, File, Session
from .result import Result
from .stream import Event, Stream
from .terminal import Terminal
from .transport import Call, current_call

T = TypeVar("T")
LEAVE_SECONDS = 10.0  # for the thread of a cancelled call to finish


def start_thread(function: Callable[[], T]) -> "asyncio.Future[T]":
    """Runs `function` in a new thread; the future belongs to the running loop."""
    loop = asyncio.get_running_loop()
    future: "asyncio.Future[T]" = loop.create_future()

    def settle(result: Any, error: Optional[BaseException]) -> None:
        if future.done():
            return
        if error is None:
            future.set_result(result)
        elif isinstance(error, StopIteration):
            future.set_exception(StopAsyncIteration())
        else:
            future.set_exception(error)

    def main() -> None:
        result, error = None, None
        try:
            result = function()
        except BaseException as caught:
            error = caught
        try:
            loop.call_soon_threadsafe(settle, result, error)
        except RuntimeError:
            pass  # the loop is closed: nobody is waiting

    threading.Thread(target=main, name="glovebox", daemon=True).start()
    return future


async def in_thread(function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """Runs `function` in a thread; cancelling this ends the request it waits for."""
    call = Call()
    context = contextvars.copy_context()
    context.run(current_call.set, call)
    future = start_thread(functools.partial(context.run, function, *args, **kwargs))
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        if not future.done():
            call.abort()
            future.add_done_callback(_forget)
            await asyncio.wait({future}, timeout=LEAVE_SECONDS)
        raise


def _forget(future: "asyncio.Future[Any]") -> None:
    """Marks its exception as retrieved, so that asyncio does not log it."""
    if not future.cancelled():
        future.exception()


class AsyncStream:
    """The events of one execution; `result` is set once the receipt has arrived. Waiting for an
    event may be cancelled: the event is not lost, the next wait returns it."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._pending: Optional["asyncio.Future[Event]"] = None

    @property
    def execution_id(self) -> Optional[str]:
        return self._stream.execution_id

    @property
    def result(self) -> Optional[Result]:
        return self._stream.result

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        if self._pending is None:
            self._pending = start_thread(self._stream.__next__)
        pending = self._pending
        event = await asyncio.shield(_ended(pending))
        self._pending = None
        if event:
            return pending.result()
        raise StopAsyncIteration

    async def wait(self) -> Result:
        async for _ in self:
            pass
        if self.result is None:
            raise errors.ConnectionLost("the stream was closed", self.execution_id)
        return self.result

    async def interrupt(self) -> None:
        await in_thread(self._stream.interrupt)

    async def close(self) -> None:
        if self._pending is not None:
            self._stream._call.abort()
            self._pending.add_done_callback(_forget)
            await asyncio.wait({self._pending}, timeout=LEAVE_SECONDS)
            self._pending = None
        self._stream.close()

    async def __aenter__(self) -> "AsyncStream":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


async def _ended(future: "asyncio.Future[Any]") -> bool:
    """Waits for it; False if there are no more events. A coroutine must not raise
    StopAsyncIteration itself."""
    await asyncio.wait({future})
    return not isinstance(future.exception(), StopAsyncIteration)


class AsyncClient:
    """Async version of `Client`. Takes the same arguments, or a client to share."""

    def __init__(self, *args: Any, client: Optional[Client] = None, **kwargs: Any) -> None:
        self.sync = client or Client(*args, **kwargs)

    @property
    def url(self) -> str:
        return self.sync.url

    async def run(self, code: str, **options: Any) -> Result:
        return await in_thread(self.sync.run, code, **options)

    async def stream(self, code: str, **options: Any) -> AsyncStream:
        return AsyncStream(await _open_stream(self.sync.stream, code, **options))

    async def receipt(self, execution_id: str, wait: float = 0.0) -> Optional[Result]:
        return await in_thread(self.sync.receipt, execution_id, wait)

    async def events(self, execution_id: str) -> AsyncStream:
        return AsyncStream(await _open_stream(self.sync.events, execution_id))

    async def output(self, execution_id: str, stream: str = "stdout") -> str:
        return await in_thread(lambda: "".join(self.sync.output(execution_id, stream)))

    async def interrupt(self, execution_id: str) -> None:
        await in_thread(self.sync.interrupt, execution_id)

    async def session(self, **options: Any) -> "AsyncSession":
        return await AsyncSession.create(client=self, **options)

    async def attach(self, session_id: str) -> "AsyncSession":
        return AsyncSession(await in_thread(self.sync.attach, session_id))

    async def sessions(self) -> List[Dict[str, Any]]:
        return await in_thread(lambda: list(self.sync.sessions()))

    async def health(self) -> Dict[str, Any]:
        return await in_thread(self.sync.health)

    async def pip_install(self, *packages: str, **options: Any) -> Dict[str, Any]:
        return await in_thread(self.sync.pip_install, *packages, **options)

    async def pip_uninstall(self, *names: str, **options: Any) -> Dict[str, Any]:
        return await in_thread(self.sync.pip_uninstall, *names, **options)

    async def packages(self) -> Dict[str, Any]:
        return await in_thread(self.sync.packages)

    async def reset_packages(self) -> None:
        await in_thread(self.sync.reset_packages)

    async def limits(self) -> Dict[str, Any]:
        return await in_thread(self.sync.limits)

    async def stats(self) -> Dict[str, Any]:
        return await in_thread(self.sync.stats)

    async def close(self) -> None:
        self.sync.close()

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class AsyncSession:
    """Async version of `Session`: `async with await AsyncSession.create() as session:`."""

    def __init__(self, session: Session) -> None:
        self.sync = session

    @classmethod
    async def create(
        cls, *args: Any, client: Optional[AsyncClient] = None, **options: Any
    ) -> "AsyncSession":
        """Creates a session; the options are those of `Session`. If cancelled while the server
        creates it, the session is ended."""
        made: List[Session] = []

        def make() -> None:
            session = Session(*args, client=client.sync if client else None, **options)
            made.append(session)

        try:
            await _uncut(make)
        except asyncio.CancelledError:
            for session in made:
                await in_thread(session.close)
            raise
        return cls(made[0])

    @property
    def id(self) -> str:
        return self.sync.id

    @property
    def closed(self) -> bool:
        return self.sync.closed

    def __repr__(self) -> str:
        return f"<Async{repr(self.sync)[1:]}"

    async def run(self, code: str, **options: Any) -> Result:
        return await in_thread(self.sync.run, code, **options)

    async def command(self, command: str, **options: Any) -> Result:
        return await in_thread(self.sync.command, command, **options)

    async def shell(self, line: str, **options: Any) -> Result:
        return await in_thread(self.sync.shell, line, **options)

    async def stream(self, code: str, **options: Any) -> AsyncStream:
        return AsyncStream(await _open_stream(self.sync.stream, code, **options))

    async def stream_command(self, command: str, **options: Any) -> AsyncStream:
        return AsyncStream(await _open_stream(self.sync.stream_command, command, **options))

    async def interrupt(self, *, everything: bool = False) -> int:
        return await in_thread(self.sync.interrupt, everything=everything)

    async def complete(self, code: str, cursor: Optional[int] = None) -> Dict[str, Any]:
        return await in_thread(self.sync.complete, code, cursor)

    async def inspect(self, code: str, cursor: Optional[int] = None) -> Dict[str, Any]:
        return await in_thread(self.sync.inspect, code, cursor)

    async def variables(self) -> Dict[str, Any]:
        return await in_thread(self.sync.variables)

    async def pip_install(self, *packages: str, **options: Any) -> Dict[str, Any]:
        return await in_thread(self.sync.pip_install, *packages, **options)

    async def pip_uninstall(self, *names: str, **options: Any) -> Dict[str, Any]:
        return await in_thread(self.sync.pip_uninstall, *names, **options)

    async def packages(self) -> Dict[str, Any]:
        return await in_thread(self.sync.packages)

    async def terminal(self, command: Optional[Any] = None, **options: Any) -> "AsyncTerminal":
        return AsyncTerminal(await in_thread(self.sync.terminal, command, **options))

    async def attach_terminal(self, terminal_id: str, **options: Any) -> "AsyncTerminal":
        return AsyncTerminal(await in_thread(self.sync.attach_terminal, terminal_id, **options))

    async def terminals(self) -> List[Dict[str, Any]]:
        return await in_thread(self.sync.terminals)

    async def info(self) -> Dict[str, Any]:
        return await in_thread(self.sync.info)

    async def keep_alive(self) -> Dict[str, Any]:
        return await in_thread(self.sync.keep_alive)

    async def files(self, directory: str = "", *, recursive: bool = False) -> List[File]:
        return await in_thread(self.sync.files, directory, recursive=recursive)

    async def upload(self, source: Any, path: Optional[str] = None) -> File:
        return await in_thread(self.sync.upload, source, path)

    async def write(self, path: str, data: Any) -> File:
        return await in_thread(self.sync.write, path, data)

    async def read(self, path: Any, **options: Any) -> bytes:
        return await in_thread(self.sync.read, path, **options)

    async def read_text(self, path: Any) -> str:
        return await in_thread(self.sync.read_text, path)

    async def download(self, path: Any, to: Any = None) -> int:
        return await in_thread(self.sync.download, path, to)

    async def archive(self, to: Any, directory: str = "") -> None:
        await in_thread(self.sync.archive, to, directory)

    async def delete(self, path: Any, *, recursive: bool = False) -> None:
        await in_thread(self.sync.delete, path, recursive=recursive)

    async def move(self, source: str, to: str, *, replace: bool = False) -> None:
        await in_thread(self.sync.move, source, to, replace=replace)

    async def mkdir(self, path: str) -> None:
        await in_thread(self.sync.mkdir, path)

    async def close(self) -> None:
        await in_thread(self.sync.close)

    async def __aenter__(self) -> "AsyncSession":
        return self

    async def __aexit__(self, *_: object) -> None:
        await _uncut(functools.partial(self.sync.__exit__))


async def _open_stream(open_it: Callable[..., Stream], *args: Any, **options: Any) -> Stream:
    """The stream keeps the call that opened it; the call ends with the stream, not with this
    await."""
    return await in_thread(open_it, *args, **options)


async def _uncut(function: Callable[[], Any]) -> Any:
    """Runs to the end even if cancelled, then raises: stopping halfway would leave a session
    behind."""
    future = start_thread(function)
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        await asyncio.wait({future})
        _forget(future)
        raise


async def run(code: str, *, client: Optional[AsyncClient] = None, **options: Any) -> Result:
    """Runs a program in a fresh box; see Client.run()."""
    client = client or AsyncClient()
    return await client.run(code, **options)


class AsyncTerminal:
    """The async version of `Terminal`. Cancelling a read loses no output."""

    def __init__(self, terminal: Terminal) -> None:
        self.terminal = terminal

    def __repr__(self) -> str:
        return f"<AsyncTerminal {self.terminal.id}>"

    @property
    def id(self) -> str:
        return self.terminal.id

    @property
    def offset(self) -> Optional[int]:
        return self.terminal.offset

    @property
    def exit_code(self) -> Optional[int]:
        return self.terminal.exit_code

    @property
    def ended(self) -> bool:
        return self.terminal.ended

    async def _until(self, function: Callable[..., T], *args: Any) -> T:
        """In a thread; cancelling this wakes it up. What it has read by then is read again by the
        next call, because the connection is opened again at the offset."""
        future = start_thread(functools.partial(function, *args))
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            offset = self.terminal.offset
            self.terminal.interrupt()
            future.add_done_callback(_forget)
            await asyncio.wait({future}, timeout=LEAVE_SECONDS)
            if not self.terminal.ended:
                self.terminal.resume(offset)
            raise

    async def read(self, timeout: Optional[float] = None) -> bytes:
        return await self._until(self.terminal.read, timeout)

    async def expect(self, pattern: Any, timeout: Optional[float] = None) -> bytes:
        return await self._until(self.terminal.expect, pattern, timeout)

    async def wait(self, timeout: Optional[float] = None) -> int:
        return await self._until(self.terminal.wait, timeout)

    async def write(self, data: Any) -> None:
        await in_thread(self.terminal.write, data)

    async def resize(self, cols: int, rows: int) -> None:
        await in_thread(self.terminal.resize, cols, rows)

    async def info(self) -> Dict[str, Any]:
        return await in_thread(self.terminal.info)

    async def close(self) -> None:
        await in_thread(self.terminal.close)

    async def end(self) -> None:
        await in_thread(self.terminal.end)

    def __aiter__(self) -> "AsyncTerminal":
        return self

    async def __anext__(self) -> bytes:
        data = await self.read()
        if not data:
            raise StopAsyncIteration
        return data

    async def __aenter__(self) -> "AsyncTerminal":
        return self

    async def __aexit__(self, *_: object) -> None:
        await in_thread(self.terminal.__exit__, *_)
