"""`glovebox shell`: a terminal in a session, in a terminal of ours."""

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import socket
import struct
import termios
import threading
import time

import pytest

from conftest import wait_for
from serve_kit import serve, server  # noqa: F401

PATIENCE = 60
ESCAPES = re.compile(rb"\x1b(\[[0-9;?>]*[A-Za-z]|[=>])")


class Shell:
    """The command in a pseudo-terminal, and what it showed there."""

    def __init__(self, gb, *args, size=(24, 80), env=None):
        self.master, self.slave = pty.openpty()
        self.resize(*size)
        self.before = termios.tcgetattr(self.slave)
        self.seen, self.raw, self.answers = b"", b"", True
        self.process = gb.start(
            "shell", *args, stdin=self.slave, stdout=self.slave, stderr=self.slave, env=env,
            start_new_session=True,
        )

    def resize(self, rows, cols):
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))
        if hasattr(self, "process"):
            # The kernel tells only those who have it as their controlling terminal.
            self.process.send_signal(signal.SIGWINCH)

    def take(self, seconds=0.2):
        if select.select([self.master], [], [], seconds)[0]:
            with contextlib.suppress(OSError):
                data = os.read(self.master, 65536)
                self.raw += data
                for question in re.findall(rb"\x1b\[[56]n", data) if self.answers else ():
                    os.write(self.master, b"\x1b[0n" if b"5" in question else b"\x1b[7;77R")
        self.seen = ESCAPES.sub(b"", self.raw).replace(b"\r", b"")

    def expect(self, pattern, start=0):
        end = time.monotonic() + PATIENCE
        while not (found := re.search(pattern, self.seen[start:])):
            assert time.monotonic() < end, self.seen[-2000:]
            self.take()
        return found

    def type(self, text):
        os.write(self.master, text if isinstance(text, bytes) else text.encode())

    def prompt(self):
        self.expect(rb"\$ $")

    def come_back(self):
        """Until it has shown what was printed before; keys are not taken until it is answered."""
        while b"\x1b[5n" not in self.raw:
            self.take()

    def line(self, text, pattern):
        start = len(self.seen)
        self.type(text + "\r")
        return self.expect(pattern, start)

    def wait(self):
        """Its exit code; the terminal must be as it was before."""
        end = time.monotonic() + PATIENCE
        while self.process.poll() is None:
            assert time.monotonic() < end, self.seen[-2000:]
            self.take()
        self.take()
        assert termios.tcgetattr(self.slave) == self.before, "the terminal is not as it was"
        os.close(self.master)
        os.close(self.slave)
        return self.process.returncode


@pytest.fixture
def url(server):
    return f"http://127.0.0.1:{server.port}"


def terminals(server, session):
    return server.good("GET", f"/v1/sessions/{session}/terminals")["terminals"]


def test_in_a_session(gb, server, url):
    session = server.session()
    shell = Shell(gb, "--url", url, session, size=(33, 101))
    shell.prompt()
    assert termios.tcgetattr(shell.slave) != shell.before
    shell.line("stty size; echo né€", "\n33 101\nné€\n".encode())
    shell.resize(12, 60)
    wait_for(lambda: terminals(server, session)[0]["cols"] == 60, PATIENCE, "the new size")
    shell.line("stty size", rb"\n12 60\n")
    shell.line("sh -c 'echo up-$((1 + 1)); exec sleep 1000'", rb"\nup-2\n")
    shell.type(b"\x03")
    shell.expect(rb"\^C\n[^$]*\$ $")
    shell.type("exit 7\r")
    assert shell.wait() == 7
    assert terminals(server, session)[0]["exit_code"] == 7


def test_detach_and_come_back(gb, server, url):
    session = server.session()
    shell = Shell(gb, "--url", url, session)
    shell.prompt()
    shell.line("echo 'a~.b'; echo one-$((1 + 1))", rb"\na~.b\none-2\n")
    shell.prompt()
    shell.type("~~ echo\x08\x08\x08\x08\x08\x08\x08")  # a line that begins with ~
    shell.type("\x15echo two-$((1 + 1))\r")
    shell.expect(rb"\ntwo-2\n")
    shell.type("x=5\r")
    shell.type("~.")
    assert shell.wait() == 0
    found = re.search(rb"--attach (trm_[0-9a-f]+) (ses_[0-9a-f]+)", shell.seen)
    assert found and found[2].decode() == session
    for name in (found[1].decode(), "last"):
        shell = Shell(gb, "--url", url, "--attach", name, session)
        shell.expect(rb"two-2\n")
        shell.come_back()
        shell.line("echo three-$((x - 2))", rb"\nthree-3\n")
        shell.type("\r~.")
        assert shell.wait() == 0
    assert len(terminals(server, session)) == 1


def test_old_questions(gb, server, url):
    """What the terminal answers when it is shown again what programs once asked is no input."""
    session = server.session()
    shell = Shell(gb, "--url", url, session)
    shell.prompt()
    shell.line("stty -echo; printf 'one\\033[6n'; read -sd R x; echo; echo got-${#x}", rb"got-6\n")
    shell.type("\r~.")
    assert shell.wait() == 0
    again = Shell(gb, "--url", url, "--attach", "last", session)
    again.expect(rb"one")
    again.come_back()
    again.line("stty echo; echo is-$((1 + 1))", rb"\nis-2\n")
    assert b"7;77R" not in again.seen and b"77R" not in again.seen
    again.type("exit 3\r")
    assert again.wait() == 3
    # One that does not answer is not waited for long.
    shell = Shell(gb, "--url", url, session)
    shell.prompt()
    shell.type("\r~.")
    assert shell.wait() == 0
    mute = Shell(gb, "--url", url, "--attach", "last", session)
    mute.answers = False
    mute.come_back()
    time.sleep(1.2)
    mute.line("echo mute-$((1 + 1))", rb"\nmute-2\n")
    mute.type("exit 4\r")
    assert mute.wait() == 4


def test_new_session(gb, server, url):
    shell = Shell(gb, "--url", url, "--new", "sh", "-c", "echo in-$((1 + 1)); read x; exit $x")
    shell.expect(rb"in-2\n")
    session = server.good("GET", "/v1/sessions")["sessions"][-1]["session_id"]
    shell.type("9\r")
    assert shell.wait() == 9
    server.problem(404, "GET", f"/v1/sessions/{session}")


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT])
def test_signals(gb, server, url, sig):
    session = server.session()
    shell = Shell(gb, "--url", url, session)
    shell.prompt()
    shell.process.send_signal(sig)
    assert shell.wait() == 128 + sig
    assert terminals(server, session)[0]["status"] == "running"


def test_a_crash_restores_the_terminal(gb, server, url):
    shell = Shell(gb, "--url", url, server.session())
    shell.prompt()
    shell.process.send_signal(signal.SIGSEGV)
    assert shell.wait() == -signal.SIGSEGV


def test_no_control_strings(gb, server, url):
    """A program in the box sets no title, no clipboard, and gets no answer with text of its own."""
    session = server.session()
    shell = Shell(gb, "--url", url, session)
    shell.prompt()
    shell.line(
        r"printf 'A\033]0;title\007B\033]52;c;ZXZpbA==\033\\C\033P+q544e\033\\D\302\235evil\302\234E"
        r"\033_apc\033\\F\033^pm\033\\G\033Xsos\033\\H\n'", rb"\nABCDEFGH\n",
    )
    assert b"title\x07" not in shell.raw and b"\x1b]" not in shell.raw and b"\x1bP" not in shell.raw
    shell.line(r"printf '\033[31mred\033[0m\033[?25l\n'", rb"\nred\n")
    assert b"\x1b[31mred\x1b[0m" in shell.raw
    shell.type("exit\r")
    assert shell.wait() == 0
    assert b"\x1b[?25h" in shell.raw, "the cursor is left hidden"


def test_the_terminal_is_as_before(gb, server, url):
    """What a program left on is off, and the cursor is where it was."""
    shell = Shell(gb, "--url", url, server.session())
    shell.prompt()
    shell.line(r"printf '\033[?7l\033(0\033[4h\033[>1u\033[?5h\033[2;5r'; echo d-$((1 + 1))", rb"d-2\n")
    start = len(shell.raw)
    shell.type("exit\r")
    assert shell.wait() == 0
    end = shell.raw[start:]
    for undone in (b"\x1b[?7h", b"\x1b(B", b"\x1b[4l", b"\x1b[<9u", b"\x1b[?5l"):
        assert undone in end, (undone, end)
    # These move the cursor: home, or to where it once was.
    assert b"\x1b7\x1b[r\x1b8" in end and b"\x1b[?1049l" not in end
    shell = Shell(gb, "--url", url, server.session())
    shell.prompt()
    shell.line(r"printf '\033[?1049h'; echo d-$((1 + 1))", rb"d-2\n")
    shell.type("exit\r")
    assert shell.wait() == 0 and b"\x1b[?1049l" in shell.raw


@pytest.mark.parametrize("word", ["key", "signal"])
def test_flood_to_a_slow_terminal(gb, server, url, word):
    """Keys and signals work while a program prints more than the terminal can show."""
    shell = Shell(gb, "--url", url, server.session())
    shell.prompt()
    shell.type("yes 0123456789abcdef\r")
    end, told, tail = time.monotonic() + 5, False, b""
    while not tail.endswith(b"$ ") and shell.process.poll() is None:
        assert time.monotonic() < end + PATIENCE, "it did not see the interrupt"
        if not told and time.monotonic() > end - 3:
            shell.type(b"\x03") if word == "key" else shell.process.terminate()
            told, end = True, time.monotonic() - PATIENCE + 15
        if select.select([shell.master], [], [], 0.2)[0]:
            tail = (tail + os.read(shell.master, 4096))[-64:]
        time.sleep(0.01)  # 400 KB per second
    if word == "key":
        shell.type("exit 0\r")
    assert shell.wait() == (0 if word == "key" else 128 + signal.SIGTERM)


class Relay:
    """Between a client and the server; can be cut."""

    def __init__(self, port):
        self.port, self.pairs, self.open = port, [], True
        self.refusal, self.refused = None, 0  # what everybody gets instead
        self.mute, self.muted = None, False  # a request with this gets no answer
        self.listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            if not self.open:
                client.close()
                continue
            if self.refusal:
                with contextlib.suppress(OSError):
                    client.recv(65536)
                    client.sendall(self.refusal)
                client.close()
                self.refused += 1
                continue
            server = socket.create_connection(("127.0.0.1", self.port))
            self.pairs += [client, server]
            for pair in ((client, server), (server, client)):
                threading.Thread(target=self.copy, args=pair, daemon=True).start()

    def copy(self, a, b):
        with contextlib.suppress(OSError):
            while data := a.recv(65536):
                self.muted = self.muted or bool(self.mute and self.mute in data)
                if not (self.mute and self.mute in data):
                    b.sendall(data)
        with contextlib.suppress(OSError):
            b.shutdown(socket.SHUT_WR)

    def cut(self, keep_open=True):
        self.open = keep_open
        for one in self.pairs:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        self.pairs = []


def test_the_connection_breaks(gb, server):
    """Nothing is lost and nothing is shown twice."""
    relay = Relay(server.port)
    session = server.session()
    shell = Shell(gb, "--url", f"http://127.0.0.1:{relay.listener.getsockname()[1]}", session)
    shell.prompt()
    shell.line("for i in $(seq 100); do echo n$i; sleep 0.02; done", rb"\nn10\n")
    relay.cut(keep_open=False)
    shell.expect(rb"trying again")
    time.sleep(1)
    relay.open = True
    shell.expect(rb"\nn100\n")
    numbers = [int(n) for n in re.findall(rb"\bn(\d+)\n", shell.seen)]
    assert numbers == list(range(1, 101))
    # And it can be left while there is none.
    shell.type("\r")
    relay.cut(keep_open=False)
    shell.expect(rb"trying again[\s\S]*trying again")
    shell.type("\r~.")
    assert shell.wait() == 0
    relay.listener.close()


def test_a_proxy_without_its_service(gb, server):
    """What a proxy says meanwhile is no reason to give up; that the terminal is gone is one."""
    relay = Relay(server.port)
    session = server.session()
    shell = Shell(gb, "--url", f"http://127.0.0.1:{relay.listener.getsockname()[1]}", session)
    shell.prompt()
    relay.refusal = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"
    relay.cut()
    shell.expect(rb"trying again")
    wait_for(lambda: relay.refused >= 2, PATIENCE, "it to try again")
    relay.refusal = None
    shell.expect(rb"connected again")
    shell.line("echo back-$((1 + 1))", rb"\nback-2\n")
    relay.refusal = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
    relay.cut()
    assert shell.wait() == 125
    assert b"no such terminal" in shell.seen and b"--attach" not in shell.seen
    relay.listener.close()


def test_the_session_ends(gb, server, url):
    session = server.session()
    shell = Shell(gb, "--url", url, session)
    shell.prompt()
    server.good("DELETE", f"/v1/sessions/{session}", status=204)
    assert shell.wait() == 137
    assert b"was deleted" in shell.seen, "it says why"


def test_a_service_that_does_not_answer(gb, server):
    """One need not wait for it, and leaves nothing behind."""
    silent = socket.create_server(("127.0.0.1", 0))
    shell = Shell(gb, "--url", f"http://127.0.0.1:{silent.getsockname()[1]}", "ses_1")
    connection, _ = silent.accept()
    begin = time.monotonic()
    shell.process.send_signal(signal.SIGINT)
    assert shell.wait() == 130 and time.monotonic() - begin < 10
    connection.close()
    silent.close()
    relay = Relay(server.port)
    relay.mute = b"Upgrade: websocket"
    session = server.session()
    shell = Shell(gb, "--url", f"http://127.0.0.1:{relay.listener.getsockname()[1]}", session)
    wait_for(lambda: relay.muted, PATIENCE, "it to attach")
    assert len(terminals(server, session)) == 1
    begin = time.monotonic()
    shell.process.send_signal(signal.SIGINT)
    assert shell.wait() == 130 and time.monotonic() - begin < 10
    assert terminals(server, session) == []
    relay.cut(keep_open=False)
    relay.listener.close()


def test_keys(gb, serve, tmp_path):
    data = tmp_path / "data"
    key = gb("key", "create", "--data", data).out.strip()
    server = serve("--require-key", data=data, key=key)
    url, session = f"http://127.0.0.1:{server.port}", server.session()
    shell = Shell(gb, "--url", url, session)
    assert shell.wait() == 125
    assert b"key" in shell.seen and b"GLOVEBOX_API_KEY" in shell.seen
    shell = Shell(gb, "--url", url, session, env={**os.environ, "GLOVEBOX_API_KEY": key})
    shell.prompt()
    shell.type("exit\r")
    assert shell.wait() == 0


def test_mistakes(gb, server, url):
    session = server.session()
    for args, code, words in (
        (["--url", url], 2, b"no SESSION"),
        (["--url", url, "ses_none"], 125, b"no such session"),
        (["--url", url, "../../keys"], 2, b"not the id of a session"),
        (["--url", url, "--attach", "trm_none", session], 125, b"no such terminal"),
        (["--url", url, "--attach", "last", session], 125, b"no terminal that runs"),
        (["--url", url, "--attach", "../x", session], 2, b"not the id of a terminal"),
        (["--url", url, "--attach", "last", "--new"], 2, b"--attach"),
        (["--url", url, session, "no-such-program"], 125, b"cannot be executed"),
        (["--url", "http://127.0.0.1:1", session], 125, b"cannot reach the service"),
        (["--url", "ftp://x", session], 2, b"--url"),
    ):
        shell = Shell(gb, *args)
        assert shell.wait() == code, (args, shell.seen)
        assert words in shell.seen, (args, shell.seen)
    r = gb("shell", "--url", url, session)
    assert r.code == 2 and "needs a terminal" in r.err
    assert terminals(server, session) == []
