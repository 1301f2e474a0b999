"""The awaited twins, and what happens when a task is cancelled."""

import asyncio
import threading

import glovebox
import pytest


def wait(coroutine):
    return asyncio.run(asyncio.wait_for(coroutine, 240))


def test_all_of_a_session(service, tmp_path):
    async def main():
        async with glovebox.AsyncClient(service.url) as client:
            assert (await client.run("6 * 7")).text == "42"
            async with await client.session(files={"a.txt": "a"}) as session:
                await session.run("x = 5", check=True)
                assert (await session.run("x")).text == "5"
                assert (await session.command("cat a.txt")).stdout == "a"
                await session.shell("cd /tmp")
                assert (await session.shell("pwd")).stdout == "/tmp\n"
                await session.write("b.txt", "b")
                assert await session.read("b.txt") == b"b"
                assert await session.read_text("b.txt") == "b"
                await session.download("b.txt", tmp_path / "b")
                await session.upload(tmp_path / "b", "c.txt")
                await session.move("c.txt", "d.txt")
                await session.mkdir("e")
                await session.delete("e")
                assert [f.path for f in await session.files()] == ["a.txt", "b.txt", "d.txt"]
                await session.archive(tmp_path / "all.tar.gz")
                assert await session.interrupt() == 0
                assert (await session.info())["session_id"] == session.id
                await session.keep_alive()
                assert (await session.complete("pri"))["matches"][0]["text"] == "print"
                assert (await session.inspect("print"))["found"]
                assert "x" in [v["name"] for v in (await session.variables())["variables"]]
                again = await client.attach(session.id)
                assert (await again.run("x")).text == "5"
                assert len(await client.sessions()) >= 1
            assert session.closed
            with pytest.raises(glovebox.SessionGone):
                await session.run("1")
            with pytest.raises(glovebox.BadRequest):
                await client.run("1", timeout=10**6)
            assert (await client.health())["service"] == "glovebox"
            assert "ceiling" in await client.limits() and "executions" in await client.stats()

    wait(main())


def test_many_at_once(service):
    async def main():
        client = glovebox.AsyncClient(service.url)
        found = await asyncio.gather(*(client.run(f"{n}") for n in range(20)))
        assert [r.text for r in found] == [str(n) for n in range(20)]

    wait(main())


def test_stream(service):
    async def main():
        client = glovebox.AsyncClient(service.url)
        async with await client.stream("print(1)\n2") as stream:
            kinds = [event.kind async for event in stream]
        assert kinds == ["start", "stdout", "result", "receipt"] and stream.result.text == "1\n2"
        again = await client.events(stream.execution_id)
        assert (await again.wait()).text == "1\n2"
        assert await client.output(stream.execution_id) == "1\n"
        assert (await client.receipt(stream.execution_id)).success

    wait(main())


def test_a_cancelled_run_is_interrupted(service):
    async def main():
        client = glovebox.AsyncClient(service.url)
        async with await client.session() as session:
            task = asyncio.ensure_future(
                session.run("open('up', 'w').close()\nimport time; time.sleep(100)"))
            while not await session.files():
                await asyncio.sleep(0.02)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            # It would wait in line behind the first.
            assert (await session.run("1", timeout=60)).text == "1"

    wait(main())


def test_a_wait_for_an_event_may_be_cancelled(service):
    async def main():
        client = glovebox.AsyncClient(service.url)
        async with await client.session() as session:
            stream = await session.stream(
                "import os, time\nprint('a', flush=True)\n"
                "while not os.path.exists('go'): time.sleep(0.02)\nprint('b')")
            texts = []
            while "".join(texts) != "a\n":
                texts.append((await stream.__anext__()).text)
            for _ in range(3):
                with pytest.raises(asyncio.TimeoutError):
                    await asyncio.wait_for(stream.__anext__(), 0.1)
            # Files go around the line of executions.
            await session.write("go", "")
            async for event in stream:
                texts.append(event.text)
            assert "".join(texts) == "a\nb\n" and stream.result.success

    wait(main())


def test_closing_a_stream_that_waits(service):
    async def main():
        client = glovebox.AsyncClient(service.url)
        async with await client.session() as session:
            stream = await session.stream("import time; time.sleep(100)")
            assert (await stream.__anext__()).kind == "start"
            waiting = asyncio.ensure_future(stream.__anext__())
            await asyncio.sleep(0)
            await stream.interrupt()
            assert (await waiting).kind in ("stderr", "receipt")
            stream = await session.stream("import time; time.sleep(100)")
            await stream.__anext__()
            waiting = asyncio.ensure_future(stream.__anext__())
            await asyncio.sleep(0)
            await stream.close()
            with pytest.raises(glovebox.ConnectionLost):
                await waiting

    wait(main())


def test_a_cancelled_create_leaves_no_session(service, monkeypatch):
    """Cancelled when it has begun; the session is made after that, and ended."""
    begun, cancelled, made = threading.Event(), threading.Event(), []

    class Slow(glovebox.Session):
        def __init__(self, *args, **options):
            begun.set()
            assert cancelled.wait(60)
            super().__init__(*args, **options)
            made.append(self.id)

    monkeypatch.setattr(glovebox.aio, "Session", Slow)

    async def main():
        client = glovebox.AsyncClient(service.url)
        task = asyncio.ensure_future(client.session())
        while not begun.is_set():
            await asyncio.sleep(0.01)
        task.cancel()
        cancelled.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert made and made[0] not in {s["session_id"] for s in await client.sessions()}

    wait(main())


def test_nobody_answers(tmp_path):
    async def main():
        with pytest.raises(glovebox.ConnectionFailed):
            await glovebox.AsyncClient(f"unix:{tmp_path}/x").run("1")

    wait(main())
