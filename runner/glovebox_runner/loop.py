"""The event loop of a session.

There is one, made when it is first needed: by an await at the top level of a cell, or by code that
asks asyncio for a loop. It is the current loop of the main thread in all cells, so tasks and futures
of one cell can be awaited in a later one.

In Jupyter a loop runs all the time and cells run in it. There, asyncio.create_task() works in a cell
without an await, but asyncio.run() does not. Here the loop runs while a cell awaits, and while the
session waits for its next cell; both functions work:

- Code that is not awaited runs outside of the loop, so asyncio.run() and run_until_complete() find
  no running one.
- get_running_loop() and get_event_loop() of asyncio fall back to the session's loop in the main
  thread. A task that such a cell creates starts when the loop runs next.

Between two cells the loop runs until the control socket is readable (idle). Tasks are then like
threads that a cell left behind: they use the box's CPU and memory within its limits, and what they
print belongs to the next execution.
"""

import sys
from _thread import get_ident
from os import getpid

_thread = None  # in which cells run; None: this process runs no cells
_pid = 0
own = None  # the session's loop, once something needed it
_originals = None  # get_running_loop, get_event_loop


def install() -> None:
    """Once in a tenant that runs cells, in the thread that runs them."""
    global _thread, _pid
    _thread, _pid = get_ident(), getpid()


def adapt(events) -> None:
    """For hooks.py: asyncio.events, as soon as it is loaded. asyncio takes its functions from
    there."""
    global _originals
    if _thread is None or _originals is not None:
        return
    _originals = events.get_running_loop, events.get_event_loop
    package = sys.modules.get("asyncio")
    for ours in (get_running_loop, get_event_loop):
        ours.__doc__ = getattr(events, ours.__name__).__doc__
        for module in (events, package):
            if hasattr(module, ours.__name__):
                setattr(module, ours.__name__, ours)


def _is_ours() -> bool:
    return get_ident() == _thread and getpid() == _pid


def get_running_loop():
    try:
        return _originals[0]()
    except RuntimeError:
        if not _is_ours():
            raise
    return _ensure()


def get_event_loop():
    if _is_ours() and sys.modules["asyncio.events"]._get_running_loop() is None:
        current = _current()
        if current is None or current.is_closed():
            return _ensure()
    return _originals[1]()


def _current():
    """The loop that is set for this thread, or None; asking the policy would create one."""
    from asyncio import events

    policy = getattr(events, "_get_event_loop_policy", None) or events.get_event_loop_policy
    return getattr(getattr(policy(), "_local", None), "_loop", None)


def _ensure():
    """The session's loop, set as the current one."""
    global own
    import asyncio

    if own is None or own.is_closed():
        found = _current()
        usable = found is not None and not found.is_closed()
        own = found if usable else asyncio.new_event_loop()
    if _current() is not own:
        asyncio.set_event_loop(own)
    return own


def begin() -> None:
    """Before each cell: asyncio.run() leaves no current loop, and a program may close ours."""
    global own
    if own is None or getpid() != _pid:
        return
    if own.is_closed():
        own = None
    elif _current() is None:
        sys.modules["asyncio"].set_event_loop(own)


def run(coroutine):
    """Runs the coroutine of a cell to its end. What it sets in context variables stays, as in plain
    code."""
    import contextvars

    made = None

    async def main():
        nonlocal made
        try:
            return await coroutine
        finally:
            made = contextvars.copy_context()

    loop = _ensure()
    task = loop.create_task(main())
    try:
        return loop.run_until_complete(task)
    except KeyboardInterrupt as error:
        raise _stopped(loop, task, error) from None
    finally:
        if task.done() and not task.cancelled():
            task.exception()  # or it would be reported once more
        for variable, value in (made or {}).items():
            if variable.get(_MISSING) is not value:
                variable.set(value)


_MISSING = object()


def _stopped(loop, task, error):
    """The interrupt may have hit the loop while the cell slept: it must not go on in later ones.
    Returns the exception to raise."""
    if task.done() or loop.is_closed():
        return error
    import asyncio

    task.cancel()
    try:
        loop.run_until_complete(task)
    except asyncio.CancelledError as cancelled:
        # It knows the line at which the cell waited; before 3.11 the one that it stands for does.
        if isinstance(cancelled.__context__, asyncio.CancelledError):
            cancelled = cancelled.__context__
        return KeyboardInterrupt().with_traceback(cancelled.__traceback__)
    except Exception:
        pass
    return error


def exists() -> bool:
    return own is not None and not own.is_closed() and getpid() == _pid


def idle(fd: int) -> None:
    """Runs the tasks of the session until the descriptor is readable."""
    try:
        own.add_reader(fd, own.stop)
    except Exception:
        return  # the program has closed it, or set a loop that cannot do this
    try:
        own.run_forever()
    except SystemExit:
        pass  # as in a thread
    finally:
        if not own.is_closed():
            own.remove_reader(fd)


def close() -> None:
    """At the end of the session: as asyncio.run() does."""
    global own
    if not exists():
        return
    import asyncio

    tasks = asyncio.all_tasks(own)
    for task in tasks:
        task.cancel()
    if tasks:
        own.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
    own.run_until_complete(own.shutdown_asyncgens())
    own.close()
    own = None
