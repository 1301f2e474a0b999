"""Terminals of a session: what people do in one, what programs do to one, and what clients send."""

import asyncio
import contextlib
import json
import re
import shutil
import signal
import socket
import subprocess
import time

import pytest
import websockets

from conftest import wait_for
from serve_kit import serve, server  # noqa: F401

PATIENCE = 60
KEPT = 256 * 1024
ESCAPES = re.compile(rb"\x1b(\[[0-9;?>]*[A-Za-z]|\][^\x07]*\x07|[()][A-Z0-9]|[=>])")


def opened(server, session, **body):
    return server.good("POST", f"/v1/sessions/{session}/terminals", body, 201)


def described(server, terminal):
    return server.good(
        "GET", f"/v1/sessions/{terminal['session_id']}/terminals/{terminal['terminal_id']}"
    )


class Client:
    """Attached to a terminal: keeps what it has seen."""

    def __init__(self, ws):
        self.ws, self.seen, self.messages, self.attached = ws, bytearray(), [], None

    async def take(self):
        message = await asyncio.wait_for(self.ws.recv(), PATIENCE)
        if isinstance(message, bytes):
            self.seen += message
            return
        self.messages.append(json.loads(message))
        if self.attached is None:
            self.attached = self.messages[0]

    async def expect(self, pattern, start=0):
        """Until the output has it, after @start; gives where it ends."""
        end = time.monotonic() + PATIENCE
        while True:
            # Escape sequences in between would hide it, or pretend to be it.
            found = re.search(pattern, ESCAPES.sub(b"", self.seen[start:]).replace(b"\r", b""))
            if found:
                return found
            assert time.monotonic() < end, self.seen[-2000:]
            await self.take()

    async def type(self, text):
        await self.ws.send(text if isinstance(text, bytes) else text.encode())

    async def prompt(self, start=0):
        """Until the shell waits for a line: before that, it may not be the one that an interrupt
        is for."""
        await self.expect(rb"\$ $", start)

    async def line(self, text, pattern):
        """A command line, and what its output must have; the echo of the line does not count."""
        start = len(self.seen)
        await self.type(text + "\r")
        return await self.expect(pattern, start)

    async def resize(self, cols, rows):
        await self.ws.send(json.dumps({"type": "resize", "cols": cols, "rows": rows}))

    async def to_the_end(self):
        with contextlib.suppress(websockets.ConnectionClosed):
            while True:
                await self.take()
        return self.ws.close_code

    @property
    def exit(self):
        assert self.messages[-1]["type"] == "exit", self.messages
        return self.messages[-1]["exit_code"]


@contextlib.asynccontextmanager
async def attach(server, terminal, query="", **options):
    url = f"ws://127.0.0.1:{server.port}{terminal['url']}{query}"
    async with websockets.connect(
        url, extra_headers=server.headers({}), max_size=None, close_timeout=5, **options
    ) as ws:
        client = Client(ws)
        await client.take()
        assert client.attached["type"] == "attached"
        yield client


def go(main):
    return asyncio.run(asyncio.wait_for(main, 300))


async def later(call, *args):
    """A request while sockets are open."""
    return await asyncio.get_running_loop().run_in_executor(None, lambda: call(*args))


# ---- what people do ----


def test_a_shell(server):
    session = server.session(env={"OF_SESSION": "one", "BOTH": "session"})
    terminal = opened(server, session, cols=100, rows=30, env={"BOTH": "terminal"})
    assert terminal["status"] == "running" and terminal["exit_code"] is None
    assert (terminal["cols"], terminal["rows"], terminal["clients"]) == (100, 30, 0)
    assert terminal["session_id"] == session and abs(terminal["created"] - time.time()) < 3600

    async def main():
        async with attach(server, terminal) as c:
            assert c.attached.pop("end") < 10000
            assert c.attached == {
                "type": "attached", "offset": 0, "cols": 100, "rows": 30, "missed": False
            }
            await c.line("echo $((6 * 7))", rb"\n42\n")
            await c.line("tty", rb"\n/dev/pts/\d+\n")
            await c.line("stty size", rb"\n30 100\n")
            await c.line("echo $TERM:$HOME:$PWD", rb"\nxterm-256color:/workspace:/workspace\n")
            await c.line("echo $OF_SESSION-$BOTH", rb"\none-terminal\n")
            await c.line("echo to-the-tty > /dev/tty", rb"\nto-the-tty\n")
            # UTF-8, in and out; backspace removes one character, not one byte.
            await c.line("echo 'né€🙂'", "\nné€🙂\n".encode())
            await c.line("LC_ALL=C cat", rb"cat\n")
            await c.type("xé\x7f|\r".encode())
            await c.expect(rb"\nx\|\n")
            await c.type(b"\x04")
            await c.resize(132, 50)
            await c.line("stty size", rb"\n50 132\n")
            assert (await later(described, server, terminal))["cols"] == 132
            assert (await later(described, server, terminal))["clients"] == 1
            # It shares the files of the session.
            await c.line("echo hello > made.txt; echo made", rb"\nmade\n")
            assert server.good("GET", f"/v1/sessions/{session}/files/made.txt").body == b"hello\n"
            await c.type("exit 3\r")
            assert await c.to_the_end() == 1000
            assert c.exit == 3

    go(main())
    found = described(server, terminal)
    assert (found["status"], found["exit_code"], found["clients"]) == ("exited", 3, 0)
    files = server.good("GET", f"/v1/sessions/{session}/files")["files"]
    assert [f["path"] for f in files] == ["made.txt"], "a shell leaves no files of its own"


def test_job_control(server):
    terminal = opened(server, server.session())

    async def main():
        async with attach(server, terminal) as c:
            await c.prompt()
            await c.line("sh -c 'echo up-$((1 + 1)); exec sleep 1000'", rb"\nup-2\n")
            start = len(c.seen)
            await c.type(b"\x03")
            await c.prompt(start)
            await c.line("echo code $?", rb"\ncode 130\n")
            await c.line("sh -c 'echo up-$((1 + 2)); exec sleep 1001'", rb"\nup-3\n")
            await c.type(b"\x1a")
            await c.expect(rb"Stopped +sh -c")
            await c.line("bg; jobs", rb"Running +sh -c")
            start = len(c.seen)
            await c.line("fg", rb"\nsh -c")
            await c.type(b"\x03")
            await c.expect(rb"\^C")
            await c.prompt(len(c.seen) - 1)
            await c.line("jobs; echo none-$((0 + 0)) left", rb"left\nnone-0 left\n")

    go(main())


def test_a_program_of_its_own(server):
    session = server.session()
    terminal = opened(server, session, command=["python3", "-q"], env={"PYTHON_COLORS": "0"})

    async def main():
        async with attach(server, terminal) as c:
            await c.expect(rb">>> ")
            await c.line("import os; os.get_terminal_size()", rb"columns=80, lines=24")
            await c.type("import time; time.sleep(1000)\r")
            await c.expect(rb"sleep\(1000\)\n")
            await c.type(b"\x03")
            await c.expect(rb"KeyboardInterrupt\n>>> $")
            await c.type("exit(9)\r")
            assert await c.to_the_end() == 1000 and c.exit == 9

    go(main())
    for command in (["no-such-program"], ["/workspace"], ["/etc/os-release"], [""]):
        problem = server.problem(
            422, "POST", f"/v1/sessions/{session}/terminals", {"command": command}
        )
        assert problem["type"].endswith(("command-not-found", "invalid-request"))
    assert len(server.good("GET", f"/v1/sessions/{session}/terminals")["terminals"]) == 1


@pytest.mark.parametrize("name", ["vim", "vi", "less"])
def test_full_screen_programs(server, name):
    if not shutil.which(name, path="/usr/bin:/bin"):
        pytest.skip(f"the host has no {name}")
    session = server.session(files=[{"path": "a.txt", "text": "first line\n" * 200}])
    terminal = opened(server, session)

    async def main():
        async with attach(server, terminal) as c:
            await c.prompt()
            await c.type(f"{name} a.txt\r")
            if name == "less":
                await c.expect(rb"first line[^$]*a.txt")
                await c.type(b"G")
                await c.expect(rb"\(END\)")
                start = len(c.seen)
                await c.type(b"q")
            else:
                await c.expect(rb"first line[^$]*1,1 *Top")
                start = len(c.seen)
                await c.resize(60, 12)
                await c.expect(rb"first line[^$]*1,1 *Top", start)
                await c.type(b"ggOtyped here\x1b:wq\r")
                await c.expect(rb"written", start)
            await c.prompt(start)
            await c.line("stty size; echo again", b"\n24 80\nagain\n" if name == "less" else b"\n12 60\nagain\n")

    go(main())
    if name != "less":
        body = server.good("GET", f"/v1/sessions/{session}/files/a.txt").body
        assert body.startswith(b"typed here\nfirst line\n")


def test_beside_a_cell(server):
    """A terminal works while a cell runs, and a stopped cell does not end what runs in it."""
    session = server.session()
    cell = server.good(
        "POST", f"/v1/sessions/{session}/execute",
        {"code": "import time\nx = 5\nprint('on', flush=True)\ntime.sleep(1000)", "detach": True},
        202,
    )["execution_id"]
    terminal = opened(server, session)
    output = f"/v1/executions/{cell}/output"
    wait_for(lambda: server.good("GET", output)["text"] == "on\n", PATIENCE, "the cell")

    async def main():
        async with attach(server, terminal) as c:
            await c.prompt()
            # Until both run, under their own name.
            two = "until [ $(pgrep -xc sleep) = 2 ]; do :; done; echo so-$((1 + 1))"
            await c.line("sleep 1000 & (sleep 1001 &) ; " + two, rb"\nso-2\n")
            server.good("POST", f"/v1/executions/{cell}/interrupt")
            server.good("GET", f"/v1/executions/{cell}?wait=60")
            await c.line("pgrep -xc sleep", rb"\n2\n")
            receipt = await later(server.run, session, "x + 1")
            assert receipt["result"]["text/plain"] == "6"

    go(main())


# ---- coming back, and several at once ----


def test_reconnect(server):
    terminal = opened(server, server.session())

    async def main():
        async with attach(server, terminal) as c:
            await c.line("echo before-$((1 + 1))", rb"\nbefore-2\n")
            await c.line("(sleep 1; echo while-$((2 + 2)) > /dev/tty) &", rb"\[1\] \d+")
            seen = c.attached["offset"] + len(c.seen)
            start = bytes(c.seen)
        # It goes on without anybody.
        async with attach(server, terminal, f"?offset={seen}") as c:
            assert (c.attached["offset"], c.attached["missed"]) == (seen, False)
            await c.expect(rb"while-4\n")
            assert b"before-2" not in c.seen
            rest = c.seen
        async with attach(server, terminal) as c:
            await c.expect(rb"while-4\n")
            assert c.seen[: len(start) + len(rest)] == start + rest
            assert c.attached["offset"] == 0
            assert c.attached["end"] >= len(start) + len(rest)
        async with attach(server, terminal, "?offset=999999999") as c:
            assert c.attached["offset"] < 10000 and not c.attached["missed"]
            await c.line("echo more", rb"\nmore\n")

    go(main())
    path = terminal["url"]
    for bad in ("offset=-1", "offset=x", "offset=", "offset=99999999999999999999", "other=1"):
        server.problem(422, "GET", f"{path}?{bad}")


def test_more_than_is_kept(server):
    """Old output goes; what is left begins at a whole character."""
    terminal = opened(
        server, server.session(), command=["python3", "-c", "print('é' * 400000, end='X')\ninput()"]
    )

    async def main():
        await later(wait_for, lambda: tail(server, terminal).endswith(b"X"), PATIENCE, "the output")
        async with attach(server, terminal) as c:
            assert c.attached["missed"] and c.attached["offset"] >= 800001 - KEPT
            await c.expect(rb"X")
            assert KEPT - 4 < len(c.seen) <= KEPT
            assert set(c.seen.decode()) == {"é", "X"}

    def tail(server, terminal):
        async def look():
            async with attach(server, terminal) as c:
                with contextlib.suppress(asyncio.TimeoutError):
                    while True:
                        await asyncio.wait_for(c.take(), 0.5)
                return c.seen

        return asyncio.run(look())

    go(main())


def test_several_clients(server):
    terminal = opened(server, server.session())

    async def main():
        async with contextlib.AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(attach(server, terminal)) for _ in range(4)]
            with pytest.raises(websockets.InvalidStatusCode) as refused:
                await stack.enter_async_context(attach(server, terminal))
            assert refused.value.status_code == 429
            await clients[0].type("echo for-$((40 + 2))\r")
            for c in clients:
                await c.expect(rb"\nfor-42\n")
            await clients[1].resize(90, 20)
            await clients[2].line("stty size", rb"\n20 90\n")
            await clients[3].ws.close()
            await later(
                wait_for, lambda: described(server, terminal)["clients"] == 3, PATIENCE, "a place"
            )
            await stack.enter_async_context(attach(server, terminal))
            await clients[0].type("exit\r")
            for c in clients[:3]:
                assert await c.to_the_end() == 1000 and c.exit == 0

    go(main())


def test_bounds(server):
    session = server.session()
    path = f"/v1/sessions/{session}/terminals"
    made = [opened(server, session) for _ in range(8)]
    assert server.problem(429, "POST", path, {})["type"].endswith("terminals-max")
    listed = server.good("GET", path)["terminals"]
    assert [t["terminal_id"] for t in listed] == [t["terminal_id"] for t in made]
    assert server.good("DELETE", f"{path}/{made[0]['terminal_id']}", status=204)
    server.problem(404, "DELETE", f"{path}/{made[0]['terminal_id']}")
    server.problem(404, "GET", f"{path}/{made[0]['terminal_id']}")
    opened(server, session)
    assert server.problem(429, "POST", path, {})["type"].endswith("terminals-max")

    async def main():
        async with attach(server, made[1]) as c:
            await c.type("exit\r")
            assert await c.to_the_end() == 1000

    go(main())
    # One that exited makes room; its place in the list is gone.
    opened(server, session)
    server.problem(404, "GET", f"{path}/{made[1]['terminal_id']}")
    # The box's own pseudo-terminals: a program takes them all.
    other = server.session()
    code = "import os\nhave = []\ntry:\n    while True: have.append(os.openpty())\nexcept OSError: pass\nlen(have)"
    assert int(server.run(other, code)["result"]["text/plain"]) == 16
    problem = server.problem(429, "POST", f"/v1/sessions/{other}/terminals", {})
    assert problem["type"].endswith("box-full")
    numbers = server.good("GET", "/metrics").body.decode()
    assert int(re.search(r"^glovebox_terminals_live (\d+)$", numbers, re.M)[1]) >= 8


# ---- who may ----


def test_of_others(gb, serve, tmp_path):
    data = tmp_path / "data"
    keys = [
        gb("key", "create", "--name", name, "--data", data).out.strip() for name in ("a", "b")
    ]
    server = serve("--require-key", data=data, key=keys[0])
    session = server.session()
    terminal = opened(server, session)
    server.key = keys[1]
    other = server.session()
    path = f"/v1/sessions/{session}/terminals"
    mine = f"/v1/sessions/{other}/terminals/{terminal['terminal_id']}"
    for method, where in (
        ("POST", path), ("GET", path), ("GET", f"{path}/{terminal['terminal_id']}"),
        ("DELETE", f"{path}/{terminal['terminal_id']}"), ("GET", terminal["url"]),
        ("GET", mine), ("DELETE", mine), ("GET", mine + "/stream"),
    ):
        server.problem(404, method, where, {} if method == "POST" else None)

    async def foreign():
        async with attach(server, terminal):
            pass

    with pytest.raises(websockets.InvalidStatusCode) as refused:
        go(foreign())
    assert refused.value.status_code == 404
    server.key = None
    server.problem(401, "POST", path, {})
    server.key = keys[0]
    assert described(server, terminal)["status"] == "running"


def test_a_key_that_is_revoked(gb, serve, tmp_path):
    """Who has lost the key does not keep the shell; others keep theirs."""
    data = tmp_path / "data"
    keys = [
        gb("key", "create", "--name", name, "--data", data).out.strip() for name in ("a", "b")
    ]
    server = serve("--require-key", data=data, key=keys[0])
    terminal = opened(server, server.session())

    async def main():
        async with attach(server, terminal) as c:
            await c.line("echo in-$((1 + 1))", rb"\nin-2\n")
            server.key = keys[1]
            async with attach(server, opened(server, server.session())) as other:
                await later(lambda: gb("key", "revoke", keys[0].split("_")[1], "--data", data))
                assert await c.to_the_end() == 1008 and "no longer valid" in c.ws.close_reason
                await asyncio.sleep(3)
                await other.line("echo still-$((1 + 1))", rb"\nstill-2\n")

    go(main())


def test_audit(gb, server):
    session = server.session()
    terminal = opened(server, session, command=["sh", "-c", "echo once; exit 7"])
    wait_for(lambda: described(server, terminal)["status"] == "exited", PATIENCE, "its end")
    assert server.stop() == 0
    text = gb("audit", "show", "--json", "--data", server.data).out
    entries = json.loads(text)["entries"]
    kinds = {e["kind"]: e for e in entries if e.get("execution_id") == terminal["terminal_id"]}
    assert set(kinds) == {"terminal", "terminal_end"}, text
    assert kinds["terminal"]["session_id"] == session
    assert kinds["terminal_end"]["exit_code"] == 7 and kinds["terminal_end"]["output_bytes"] > 0


# ---- bad input ----


def test_bad_requests(server):
    session = server.session()
    path = f"/v1/sessions/{session}/terminals"
    for body in (
        {"cols": 0}, {"cols": 1001}, {"rows": -1}, {"rows": 1 << 40}, {"cols": "80"}, {"cols": 1.5},
        {"command": []}, {"command": "bash"}, {"command": [1]}, {"command": ["a"] * 65},
        {"command": ["a\u0000b"]}, {"env": {"A=B": "1"}}, {"env": {"": "1"}}, {"env": ["A"]},
        {"env": {"A": 1}}, {"unknown": 1}, [], "text",
    ):
        server.problem(422, "POST", path, body if isinstance(body, dict) else json.dumps(body))
    server.problem(400, "POST", path, "{")
    server.problem(404, "POST", "/v1/sessions/ses_none/terminals", {})
    server.problem(404, "GET", f"{path}/trm_none")
    terminal = opened(server, session)
    server.problem(426, "GET", terminal["url"])
    assert len(server.good("GET", path)["terminals"]) == 1


@pytest.mark.parametrize(
    "message, code",
    [
        ("not JSON", 1008), ("[]", 1008), ("{}", 1008), ('{"type": "input", "data": "x"}', 1008),
        ('{"type": "resize"}', 1008), ('{"type": "resize", "cols": 80}', 1008),
        ('{"type": "resize", "cols": 0, "rows": 24}', 1008),
        ('{"type": "resize", "cols": 1000000, "rows": 24}', 1008),
        ('{"type": "resize", "cols": 80, "rows": 24, "x": 1}', 1008),
        ('{"type": "resize", "cols": "80", "rows": 24}', 1008),
        ('{"type": "resize", "cols": 80, "cols": 80, "rows": 24}', 1008),
        ("[" * 500, 1008), ('{"type": "resize", "cols": 80, "rows": 24}' + " " * 2000, 1008),
        (b"x" * (64 * 1024 + 1), 1009), (b"x" * 10_000_000, 1009), ("x" * 10_000_000, 1009),
    ],
    ids=range(16),
)
def test_bad_messages(server, message, code):
    terminal = opened(server, server.session())

    async def main():
        async with attach(server, terminal) as c:
            with contextlib.suppress(websockets.ConnectionClosed):
                await c.ws.send(message)
            # A server that has seen enough of 10 MB may reset the connection.
            assert await c.to_the_end() in (code, 1006 if len(message) > 1_000_000 else code)
        async with attach(server, terminal) as c:
            await c.line("echo alive", rb"\nalive\n")
            assert c.attached["cols"] == 80

    go(main())


def test_frames_that_are_not(server):
    """An opcode that does not exist, an unmasked frame, a close in the middle, silence."""
    terminal = opened(server, server.session())
    hello = (
        f"GET {terminal['url']} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n"
        "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    ).encode()
    for frame in (b"\x83\x80abcd", b"\x82\x01x", b"\x82\xff" + b"\xff" * 8 + b"abcd", b"\x02\x80abcd\x09\x80abcd"):
        with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as s:
            s.sendall(hello + frame)
            time.sleep(0.05)
    for _ in range(8):  # more than may be attached at one time
        with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as s:
            s.sendall(hello)
            assert s.recv(12) in (b"HTTP/1.1 101", b"HTTP/1.1 429")
    wait_for(lambda: described(server, terminal)["clients"] == 0, PATIENCE, "them to be gone")


# ---- programs that are not nice ----


def test_flood(server):
    """Output without end: to a client, to a client that does not read, to nobody."""
    session = server.session()
    terminal = opened(server, session)

    async def main():
        async with attach(server, terminal) as c:
            await c.line("yes 0123456789abcdef", rb"\n0123456789abcdef\n")
            while len(c.seen) < 4_000_000:
                await c.take()
            text = c.seen[c.seen.index(b"abcdef\r\n0123456789abcdef\r\n") + 8:]
            assert text.count(b"0123456789abcdef\r\n") >= len(text) // 18 - 1, "bytes are missing"
            # It sees an interrupt in the middle of that.
            await c.type(b"\x03")
            await c.expect(rb"\^C[^$]*\$ $", len(c.seen) - 1)
            await c.line("echo still-$((1 + 1))", rb"\nstill-2\n")
            await c.type("yes\r")
        before = server.memory()
        await asyncio.sleep(2)  # nobody reads it
        assert server.memory() < before + 16 * 1024 * 1024
        # One that is attached and reads nothing.
        async with attach(server, terminal, max_queue=1, read_limit=4096) as deaf:
            await asyncio.sleep(1)
            assert server.memory() < before + 16 * 1024 * 1024
            assert (await later(server.run, session, "6 * 7"))["result"]["text/plain"] == "42"
            deaf.ws.transport.abort()
        async with attach(server, terminal) as c:
            await c.type(b"\x03")
            while not re.search(rb"\$ $", c.seen[-20:]):
                await c.take()
            await c.line("echo back-$((1 + 2))", rb"\nback-3\n")

    go(main())


def test_a_client_that_never_reads_is_dropped(server):
    """It slows the program down for a while, then others go on without it."""
    terminal = opened(server, server.session())
    deaf = socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE)
    deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    deaf.sendall(
        f"GET {terminal['url']} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n"
        "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n".encode()
    )
    assert deaf.recv(12) == b"HTTP/1.1 101"

    async def main():
        async with attach(server, terminal) as c:
            assert (await later(described, server, terminal))["clients"] == 2
            await c.type("head -c 20000000 /dev/zero | tr '\\0' x; echo; echo done-$((1 + 1))\r")
            while b"done-2" not in c.seen[-4096:]:
                await c.take()

    go(main())
    wait_for(lambda: described(server, terminal)["clients"] == 0, PATIENCE, "it to be dropped")
    deaf.close()


def test_a_program_that_does_not_read(server):
    session = server.session()
    # Raw: nothing is dropped and nothing is echoed, so input can only wait.
    terminal = opened(
        server, session,
        command=["sh", "-c", "stty raw -echo; echo ready; read x < /dev/null; sleep 1; exec sleep 1000"],
    )

    async def main():
        async with attach(server, terminal, ping_interval=None) as c:
            await c.expect(rb"ready")
            before = server.memory()

            async def push():
                with contextlib.suppress(websockets.ConnectionClosed):
                    for _ in range(512):
                        await c.ws.send(b"y" * 65536)

            pusher = asyncio.create_task(push())
            await asyncio.sleep(2)
            assert not pusher.done(), "32 MB were taken for a program that reads nothing"
            assert server.memory() < before + 8 * 1024 * 1024
            # Others are not affected, and it can be ended.
            assert (await later(server.run, session, "6 * 7"))["result"]["text/plain"] == "42"
            await later(
                lambda: server.good(
                    "DELETE", f"/v1/sessions/{session}/terminals/{terminal['terminal_id']}",
                    status=204,
                )
            )
            await c.to_the_end()
            await pusher

    go(main())
    wait_for(
        lambda: server.run(session, "import os\nos.system('pgrep -x sleep >/dev/null')")
        ["result"]["text/plain"] != "0", PATIENCE, "the program to be gone",
    )


def test_several_clients_type_at_once(server):
    """The last bytes of large messages, to a program that does not read: none is sent away."""
    terminal = opened(
        server, server.session(), command=["sh", "-c", "stty raw -echo; echo ready; exec sleep 1000"]
    )
    hello = (
        f"GET {terminal['url']} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n"
        "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    ).encode()
    message = b"\x82\xff" + (65536).to_bytes(8, "big") + bytes(4) + b"y" * 65536
    with contextlib.ExitStack() as stack:
        clients = [
            stack.enter_context(socket.create_connection(("127.0.0.1", server.port), PATIENCE))
            for _ in range(4)
        ]
        for c in clients:
            c.sendall(hello)
            seen = b""
            while b"ready" not in seen:
                seen += c.recv(4096)
        clients[0].sendall(message)
        for c in clients:
            c.sendall(message[:-1])
        time.sleep(0.5)
        for c in clients:
            c.sendall(message[-1:])
        time.sleep(0.5)
        for c in clients:
            c.settimeout(0.1)
            with pytest.raises(TimeoutError):
                print(c.recv(100))
    assert described(server, terminal)["status"] == "running"


def test_large_input_arrives(server):
    """More than any queue holds, to a program that reads: all of it, in order."""
    code = (
        "import hashlib, os, sys, tty\ntty.setraw(0)\nprint('ready', flush=True)\n"
        "h, left = hashlib.sha256(), 3_000_000\n"
        "while left:\n    data = os.read(0, 65536)\n    h.update(data)\n    left -= len(data)\n"
        "print(h.hexdigest(), flush=True)\n"
    )
    import hashlib

    data = bytes(range(256)) * 11719
    data = data[:3_000_000]
    terminal = opened(server, server.session(), command=["python3", "-c", code])

    async def main():
        async with attach(server, terminal, ping_interval=None) as c:
            await c.expect(rb"ready")
            for at in range(0, len(data), 50_000):
                await c.ws.send(data[at:at + 50_000])
            await c.expect(hashlib.sha256(data).hexdigest().encode())

    go(main())


def test_who_holds_it_open(server):
    """The shell ends, others keep the terminal open, or print to it: it has ended all the same."""
    session = server.session()
    terminal = opened(server, session)

    async def main():
        async with attach(server, terminal) as c:
            await c.type(
                "trap '' HUP; (trap '' HUP; while :; do echo noise; sleep 0.1; done) & "
                "setsid sh -c 'trap \"\" HUP; exec sleep 1000' & sleep 0.3; exit 5\r"
            )
            assert await c.to_the_end() == 1000 and c.exit == 5

    go(main())
    # Daemons of its own are the session's, as those of cells are; the terminal can be opened again.
    terminal = opened(server, session)

    async def again():
        async with attach(server, terminal) as c:
            await c.line("pgrep -xc sleep", rb"\n[12]\n")

    go(again())
    server.good("DELETE", f"/v1/sessions/{session}", status=204)


def test_delete_ends_its_processes(server):
    session = server.session()
    terminal = opened(server, session)
    background = server.run(session, "import subprocess\np = subprocess.Popen(['sleep', '2000'])\np.pid")

    async def main():
        async with attach(server, terminal) as c:
            await c.line(
                "trap '' HUP; (trap '' HUP TERM; exec sleep 1000) & (setsid -w sleep 1001) & "
                "nohup sleep 1002 >/dev/null 2>&1 & until [ $(pgrep -xc sleep) = 4 ]; do :; done; "
                "echo so-$((2 + 2))", rb"\nso-4\n",
            )
            await later(
                lambda: server.good(
                    "DELETE", f"/v1/sessions/{session}/terminals/{terminal['terminal_id']}",
                    status=204,
                )
            )
            assert await c.to_the_end() == 1000
            assert c.exit == 137

    go(main())

    def left():  # one that was killed may be there a moment longer, until it is reaped
        code = "print(subprocess.run(['pgrep', '-x', 'sleep'], capture_output=True, text=True).stdout)"
        return server.run(session, code)["stdout"].split()

    wait_for(lambda: left() == [background["result"]["text/plain"]], PATIENCE, "all but the cell's")


def test_settings_of_the_terminal(server):
    """What a program may set does not reach us: exclusive use, a stopped terminal, odd modes."""
    session = server.session()
    code = (
        "import fcntl, os, struct, termios, time\n"
        "a = termios.tcgetattr(0)\n"
        "for flag in (0o200000, 0o100000): a[3] |= flag\n"  # EXTPROC and its neighbour
        "termios.tcsetattr(0, termios.TCSANOW, a)\n"
        "def attempt(name, number, arg=b'\\0' * 64):\n"
        "    try: fcntl.ioctl(0, number, arg); print(name, 'allowed')\n"
        "    except OSError as e: print(name, e.errno)\n"
        "attempt('STI', termios.TIOCSTI, b'x')\n"
        "attempt('CONS', 0x541D, b'')\n"
        "attempt('SETD', 0x5423, struct.pack('i', 2))\n"
        "attempt('VHANGUP', 0x5437)\n"
        "attempt('EXCL', termios.TIOCEXCL, 0)\n"
        "termios.tcflow(1, termios.TCOOFF)\n"
        "time.sleep(1000)\n"
    )
    terminal = opened(server, session, command=["python3", "-c", code])

    async def main():
        async with attach(server, terminal) as c:
            await c.expect(rb"STI 1\n.*CONS 1\nSETD 1\nVHANGUP 1\nEXCL (allowed|\d+)")
            await c.type(b"x" * 60000)
            await c.resize(50, 50)
            assert (await later(described, server, terminal))["status"] == "running"
            await later(
                lambda: server.good(
                    "DELETE", f"/v1/sessions/{session}/terminals/{terminal['terminal_id']}",
                    status=204,
                )
            )
            assert await c.to_the_end() == 1000

    go(main())


# ---- ends ----


def test_session_ends_while_attached(server):
    session = server.session()
    terminals = [opened(server, session) for _ in range(3)]

    async def main():
        async with contextlib.AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(attach(server, t)) for t in terminals]
            await clients[0].type("trap '' HUP TERM; yes\r")
            await clients[1].line("sleep 1000 & echo $!", rb"\n\d+\n")
            await later(lambda: server.good("DELETE", f"/v1/sessions/{session}", status=204))
            for c in clients:
                assert await c.to_the_end() == 1000 and c.exit == 137

    go(main())
    server.problem(404, "GET", terminals[0]["url"])
    numbers = server.good("GET", "/metrics").body.decode()
    assert "glovebox_terminals_live 0\n" in numbers


def test_idle_session(serve):
    """Typing is use; watching is not."""
    server = serve("--sweep", "0.2")
    session = server.session(idle_timeout=5)
    terminal = opened(server, session, command=["sh", "-c", "cat; exec sleep 1000"])

    async def main():
        async with attach(server, terminal) as c:
            for _ in range(8):
                await asyncio.sleep(1)
                await c.type("x\r")
            assert (await later(server.good, "GET", f"/v1/sessions/{session}"))["idle"] < 5
            assert await c.to_the_end() == 1000 and c.exit == 137

    go(main())
    assert "expired" in server.problem(404, "GET", f"/v1/sessions/{session}")["type"]


def test_server_stops_while_attached(serve):
    server = serve()
    session = server.session()
    terminals = [opened(server, session) for _ in range(2)]

    async def main():
        async with attach(server, terminals[0]) as c:
            await c.type(f"trap '' HUP TERM INT; yes {session}\r")
            while len(c.seen) < 100_000:
                await c.take()
            server.process.send_signal(signal.SIGTERM)
            assert await c.to_the_end() in (1000, 1001)

    go(main())
    assert server.process.wait(PATIENCE * 3) == 0
    left = subprocess.run(
        ["pgrep", "-xf", f"yes {session}"], capture_output=True, text=True, check=False
    )
    assert not left.stdout
