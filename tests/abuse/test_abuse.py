"""
Attacks that must fail.

Each file in cases/ is a program that really tries. Its header says what, and how it may end:

    # tries: one line, what the attack is
    # options: options of `glovebox run`
    # args: arguments; {names} are facts about the host, see the fixture `facts`
    # ends: statuses that are right when the program does not live to say CONTAINED
    # exit: the exit code that the receipt must show
    # arch: the only machine on which the attack makes sense
    # needs: cgroups, where nothing else can count what the attack takes

Programs run only inside the box under test. The leak check of conftest.py runs after each.
"""

import contextlib
import glob
import json
import os
import pty
import re
import socket
import subprocess
import termios
import textwrap
import uuid

import pytest
from conftest import ROOT, run_pids

HERE = os.path.dirname(os.path.abspath(__file__))
CASES = sorted(glob.glob(os.path.join(HERE, "cases", "*.py")))
TOKEN = "gbsecret-" + uuid.uuid4().hex


def header(text):
    keys = "tries|options|args|ends|exit|arch|needs"
    return dict(re.findall(rf"^# ({keys}): (.+)$", text, re.MULTILINE))


def with_kit(code):
    """The kit and some code as one program text."""
    with open(os.path.join(HERE, "kit.py"), encoding="utf-8") as kit:
        return kit.read() + textwrap.dedent(code)


def program(name):
    with open(os.path.join(HERE, "cases", name + ".py"), encoding="utf-8") as case:
        return with_kit(case.read())


class Facts:
    """A host with something to attack: a file, a process, sockets. Values are what cases get."""

    def __init__(self, tmp_path):
        self.stack = contextlib.ExitStack()
        self.values = {
            "project": ROOT,
            "private": str(tmp_path),
            "user_home": os.path.expanduser("~"),
            "hostname": socket.gethostname(),
            "secret": str(self.secret_file(tmp_path)),
            "host_mark": "gb-host-" + uuid.uuid4().hex,
            "abstract": "gb-abstract-" + uuid.uuid4().hex,
            "unix_path": str(tmp_path / "socket"),
        }
        self.open_sockets()
        self.sleeper = subprocess.Popen(
            [self.values["host_mark"], "1000"], executable="/bin/sleep", stdin=subprocess.DEVNULL
        )
        self.values["host_pid"] = str(self.sleeper.pid)

    @staticmethod
    def secret_file(tmp_path):
        """World-readable on purpose: only the box is between it and the attack."""
        path = tmp_path / "secret"
        path.write_text(TOKEN)
        path.chmod(0o644)
        for directory in [tmp_path, *tmp_path.parents]:
            if directory.stat().st_uid == os.geteuid() and "gbtest-" in str(directory):
                directory.chmod(0o755)
        return path

    def listen(self, family, kind, address):
        s = self.stack.enter_context(socket.socket(family, kind))
        s.bind(address)
        s.setblocking(False)
        if kind == socket.SOCK_STREAM:
            s.listen()
        return s

    def open_ports(self):
        """The same port twice. One that is free for TCP may be another's for UDP."""
        while True:
            self.tcp = self.listen(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0))
            with contextlib.suppress(OSError):
                self.udp = self.listen(socket.AF_INET, socket.SOCK_DGRAM, self.tcp.getsockname())
                return
            self.tcp.close()

    def open_sockets(self):
        self.open_ports()
        self.values["port"] = str(self.tcp.getsockname()[1])
        self.abstract = self.listen(
            socket.AF_UNIX, socket.SOCK_STREAM, "\0" + self.values["abstract"]
        )
        self.unix = self.listen(socket.AF_UNIX, socket.SOCK_STREAM, self.values["unix_path"])
        os.chmod(self.values["unix_path"], 0o777)

    def untouched(self):
        assert self.sleeper.poll() is None, "a process of the host was killed"
        for s in (self.tcp, self.abstract, self.unix):
            with pytest.raises(BlockingIOError):
                s.accept()
        with pytest.raises(BlockingIOError):
            self.udp.recv(100)

    def close(self):
        self.sleeper.kill()
        self.sleeper.wait()
        self.stack.close()


@pytest.fixture
def facts(tmp_path, nothing_left):
    made = Facts(tmp_path)
    yield made
    made.close()


def no_escape(receipt, raw=b""):
    text = receipt["stdout"] + receipt["stderr"] + raw.decode("utf-8", "replace")
    found = [line for line in text.splitlines() if "ESCAPED" in line]
    assert not found, "\n".join(found[:20])
    assert TOKEN not in text, "the secret came out"


@pytest.mark.parametrize("name", [os.path.splitext(os.path.basename(p))[0] for p in CASES])
def test_case(gb, facts, tmp_path, arch, has_cgroups, name):
    text = program(name)
    head = header(text)
    assert head.get("tries"), "the case does not say what it tries"
    if arch != head.get("arch", arch):
        pytest.skip(f"only on {head['arch']}")
    if head.get("needs") == "cgroups" and not has_cgroups:
        pytest.skip("without cgroups nobody counts this memory; accepted in writing")
    file = tmp_path / "case.py"
    file.write_text(text)
    args = [a.format(**facts.values) for a in head.get("args", "").split()]
    options = head.get("options", "").split()
    env = {"SECRET_TOKEN": TOKEN}
    r = gb("run", "--json", *options, file, *args, env=env)
    receipt = r.receipt
    assert receipt is not None, (r.code, r.err[:2000])
    no_escape(receipt, r.raw_err)
    facts.untouched()
    shown = {**receipt, "stdout": receipt["stdout"][-2000:], "stderr": receipt["stderr"][-2000:]}
    if "exit" in head:
        wanted = int(head["exit"])
        assert receipt["status"] == ("error" if wanted else "ok"), shown
        assert r.code == receipt["exit_code"] == wanted, shown
    elif receipt["status"] in head.get("ends", "").split():
        return
    else:
        assert receipt["status"] == "ok", shown
    assert "CONTAINED" in receipt["stdout"], shown


def test_there_are_enough_cases():
    assert len(CASES) >= 60


def attack(gb, code, *options, **how):
    """Runs a short attack of this file under the kit; gives the receipt."""
    receipt = gb("run", "--json", *options, "-c", with_kit(code), **how).receipt
    assert receipt is not None
    no_escape(receipt)
    assert "CONTAINED" in receipt["stdout"], receipt
    return receipt


# ---- what the user hands in as stdin -----------------------------------------------------------


def test_directory_as_stdin(gb, facts, tmp_path):
    """A directory on descriptor 0 would be a way out of every mount namespace."""
    fd = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    code = """
        for name in ("secret", "../secret", "."):
            try:
                escaped(repr(os.read(os.open(name, os.O_RDONLY, dir_fd=0), 100)))
            except OSError: pass
        try:
            os.fchdir(0); escaped(repr(os.listdir(".")))
        except OSError: pass
        finish()
    """
    try:
        r = gb.finish(gb.start("run", "-c", with_kit(code), stdin=fd), None)
    finally:
        os.close(fd)
    assert "ESCAPED" not in r.out and TOKEN not in r.out
    assert r.code != 0 or "CONTAINED" in r.out


def test_writable_file_as_stdin(gb, tmp_path):
    """A program that reads its input must not be able to change the file it comes from."""
    file = tmp_path / "input"
    file.write_bytes(b"line\n" * 10)
    code = """
        try: os.write(0, b"EVIL")
        except OSError: pass
        try: os.ftruncate(0, 0)
        except OSError: pass
        for flags in (os.O_WRONLY, os.O_RDWR, os.O_WRONLY | os.O_TRUNC):
            for path in ("/proc/self/fd/0", "/dev/stdin", "/dev/fd/0"):
                try: os.write(os.open(path, flags), b"EVIL")
                except OSError: pass
        finish()
    """
    with open(file, "r+b") as f:
        run_with_stdin(gb, code, f)
    assert file.read_bytes() == b"line\n" * 10


def run_with_stdin(gb, code, stdin):
    r = gb.finish(gb.start("run", "-c", with_kit(code), stdin=stdin), None)
    assert "ESCAPED" not in r.out and "CONTAINED" in r.out, (r.code, r.out, r.err)
    return r


def test_terminal_as_stdin(gb):
    """The user's terminal: no characters pushed into it, no settings of it changed."""
    master, slave = pty.openpty()
    try:
        before = termios.tcgetattr(slave)
        code = """
            import fcntl, termios
            for request in (0x5412, 0x541C):
                must_fail(f"ioctl {request:#x}", fcntl.ioctl, 0, request, b"x")
            try:
                mode = termios.tcgetattr(0); mode[3] = 0
                termios.tcsetattr(0, termios.TCSANOW, mode)
            except (OSError, termios.error): pass
            try: os.tcsetpgrp(0, os.getpgrp())
            except OSError: pass
            finish()
        """
        run_with_stdin(gb, code, slave)
        assert termios.tcgetattr(slave) == before, "the program changed the user's terminal"
    finally:
        os.close(master)
        os.close(slave)


def test_socket_as_stdin(gb, tmp_path):
    """Descriptors could be sent to an accomplice over a socket that is the program's stdin."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        code = """
            import array
            fds = array.array("i", [os.open("/", os.O_RDONLY)])
            try:
                socket.socket(fileno=os.dup(0)).sendmsg([b"x"],
                    [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
            except OSError: pass
            finish()
        """
        ours.shutdown(socket.SHUT_WR)
        run_with_stdin(gb, code, theirs)
        ours.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            data, extra, _, _ = ours.recvmsg(10, 1000)
            assert not extra, "the program sent a descriptor out of its box"


# ---- what comes out ----------------------------------------------------------------------------


def everything_below(top):
    found = b""
    for directory, _, names in os.walk(top):
        for name in names:
            path = os.path.join(directory, name)
            if not os.path.islink(path):
                with open(path, "rb") as f:
                    found += f.read(1 << 20)
    return found


def test_out_through_planted_links(gb, facts, tmp_path):
    """Links in the workspace must not make us read the host's files for it."""
    out = tmp_path / "out"
    secret = facts.values["secret"]
    code = f"""
        os.symlink({secret!r}, "a"); os.symlink({os.path.dirname(secret)!r}, "b")
        os.mkdir("c"); os.symlink("../../../../../../.." + {secret!r}, "c/d")
        os.symlink("/proc/self/root" + {secret!r}, "e"); os.symlink("a", "f")
        finish()
    """
    attack(gb, code, "--out", out)
    assert TOKEN.encode() not in everything_below(out)


def test_out_through_links_of_an_earlier_run(gb, tmp_path):
    """One run leaves a link in DIR, the next writes through it."""
    out, victim = tmp_path / "out", tmp_path / "victim"
    victim.mkdir()
    (victim / "file").write_text("mine")
    first = f"""
        os.symlink({str(victim)!r}, "d"); os.symlink({str(victim / "file")!r}, "f")
        finish()
    """
    second = """
        os.mkdir("d"); open("d/file", "w").write("EVIL"); open("d/new", "w").write("EVIL")
        open("f", "w").write("EVIL")
        finish()
    """
    attack(gb, first, "--out", out)
    if not (out / "d").is_symlink():  # the worst case, even if links never come out
        (out / "d").symlink_to(victim)
    if not (out / "f").is_symlink():
        (out / "f").symlink_to(victim / "file")
    gb("run", "--out", out, "-c", with_kit(second))
    assert (victim / "file").read_text() == "mine"
    assert sorted(os.listdir(victim)) == ["file"]


def test_out_while_a_child_swaps_links(gb, facts, tmp_path):
    """A child that outlives the program swaps a directory and a link under our hands."""
    out = tmp_path / "out"
    code = f"""
        os.mkdir("x"); open("x/secret", "w").write("harmless"); os.mkdir("x2")
        if os.fork() == 0:
            os.setsid(); signal.signal(signal.SIGINT, signal.SIG_IGN)
            while True:
                try:
                    os.rename("x", "y"); os.symlink({str(tmp_path)!r}, "x")
                    os.remove("x"); os.rename("y", "x")
                except OSError: pass
        time.sleep(0.2)
        finish()
    """
    attack(gb, code, "--out", out)
    assert TOKEN.encode() not in everything_below(out)


def test_out_of_special_and_large_files(gb, tmp_path):
    """Fifos must not hang us, sparse files must not fill the host's disk."""
    out = tmp_path / "out"
    code = """
        os.mkfifo("fifo"); s = socket.socket(socket.AF_UNIX); s.bind("sock")
        try: os.truncate("sparse", 0)
        except OSError: pass
        with open("sparse", "wb") as f:
            for size in (1 << 50, 1 << 40, 1 << 33, 60 << 20):
                try: f.truncate(size); break
                except OSError: pass
        os.mkdir("loop"); os.symlink(".", "loop/self"); os.symlink("nowhere", "dangling")
        open("suid", "w").close()
        must_fail("set-uid", os.chmod, "suid", 0o6777)
        os.chmod("suid", 0o2777)
        finish()
    """
    attack(gb, code, "--out", out)
    used = sum(
        os.lstat(os.path.join(d, n)).st_blocks * 512 for d, _, ns in os.walk(out) for n in ns
    )
    assert used <= 70 << 20
    assert not (out / "suid").exists() or not (out / "suid").stat().st_mode & 0o6002


def test_out_of_odd_names(gb, tmp_path):
    out = tmp_path / "out"
    code = r"""
        for name in (b"\xff", b"new\nline", b"\x1b[2J", b"-rf", b" ", b"...", b"%s%n", b"a" * 255):
            open(name, "wb").write(b"x")
        finish()
    """
    receipt = attack(gb, code, "--out", out)
    names = set(os.listdir(os.fsencode(out)))
    assert {b"\xff", b"new\nline", b"-rf", b" ", b"...", b"a" * 255} <= names
    assert len(receipt["files"]) >= 8


def test_out_of_a_tree_that_cannot_be_read(gb, tmp_path):
    out = tmp_path / "out"
    code = """
        os.mkdir("closed"); open("closed/x", "w").write("x"); os.chmod("closed", 0)
        open("unreadable", "w").write("x"); os.chmod("unreadable", 0)
        open("fine", "w").write("x")
        finish()
    """
    attack(gb, code, "--out", out)
    assert (out / "fine").read_text() == "x"


def test_terminal_escapes_in_messages_of_ours(gb, tmp_path):
    """A file name from the box that ends up in a message of ours must not drive the terminal."""
    out = tmp_path / "out"
    out.mkdir()
    (out / "a\x1b[2J").mkdir()  # so that copying the file of this name out fails
    r = gb("run", "--out", out, "-c", r"open('a\x1b[2J', 'w').write('x')")
    assert b"\x1b" not in r.raw_err


# ---- other boxes -------------------------------------------------------------------------------

LEAVE = """
    import ctypes
    for place in ("/tmp", "/dev/shm", "/workspace"):
        open(place + "/left-by-another-box", "w").write("x")
    ident = libc.shmget(0x676C6F76, ctypes.c_size_t(4096), 0o1666)
    msg = libc.msgget(0x676C6F76, 0o1666)
    sem = libc.semget(0x676C6F76, 1, 0o1666)
    keep = [socket.socket(socket.AF_UNIX), socket.socket()]
    keep[0].bind("\\0gb-left-by-another-box"); keep[0].listen()
    keep[1].bind(("127.0.0.1", 47613)); keep[1].listen()
    try:
        keep.append(os.open("/dev/mqueue/left", os.O_CREAT))
    except OSError: pass
    finish()
"""
LOOK = """
    for place in ("/tmp", "/dev/shm", "/workspace", "/var/tmp", "/run", "/dev/mqueue"):
        try:
            if found := [n for n in os.listdir(place) if "left" in n]: escaped(f"{place}: {found}")
        except OSError: pass
    if libc.shmget(0x676C6F76, ctypes.c_size_t(4096), 0) >= 0: escaped("shared memory")
    if libc.msgget(0x676C6F76, 0) >= 0: escaped("message queue")
    if libc.semget(0x676C6F76, 1, 0) >= 0: escaped("semaphore")
    must_fail("abstract", socket.socket(socket.AF_UNIX).connect, "\\0gb-left-by-another-box")
    must_fail("tcp", socket.socket().connect, ("127.0.0.1", 47613))
    for name in ("shm", "msg", "sem"):
        try:
            if len(open(f"/proc/sysvipc/{name}").readlines()) > 1: escaped(f"sysvipc {name}")
        except OSError: pass
    if len([p for p in os.listdir("/proc") if p.isdigit()]) > 5: escaped("many processes")
    finish()
"""


def test_nothing_of_the_box_before(gb):
    attack(gb, LEAVE)
    attack(gb, LOOK)


def test_nothing_of_the_box_beside(gb):
    other = gb.start("run", "-c", with_kit(LEAVE) + "\ninput()\n")
    assert other.stdout.readline() == b"CONTAINED\n", other.stderr.read()
    attack(gb, LOOK)
    assert gb.finish(other, b"\n").code == 0


def test_box_cannot_signal_the_box_beside(gb):
    code = "print('up', flush=True); print(input())"
    other = gb.start("run", "-c", code)
    assert other.stdout.readline() == b"up\n"
    pids = sorted(run_pids(other.pid).values())
    assert len(pids) == 4
    attack(
        gb,
        """
        own = {int(p) for p in os.listdir("/proc") if p.isdigit()}
        for pid in map(int, sys.argv[1:]):
            if pid not in own: must_fail(f"kill {pid}", os.kill, pid, 9)
        finish()
        """.replace("sys.argv[1:]", repr(pids)),
    )
    assert gb.finish(other, b"alive\n").out == "alive\n"


# ---- the engine as a target --------------------------------------------------------------------


def test_secret_is_not_in_the_engine_next_to_the_tenant(gb):
    """Builder and template hold no secrets: neither in their environment nor on their command."""
    p = gb.start("run", "-c", "print('up', flush=True); input()", env={"SECRET_TOKEN": TOKEN})
    assert p.stdout.readline() == b"up\n"
    pids = run_pids(p.pid)
    for part in ("builder", "template", "init", "tenant"):
        for name in ("environ", "cmdline"):
            with contextlib.suppress(OSError), open(f"/proc/{pids[part]}/{name}", "rb") as f:
                assert TOKEN.encode() not in f.read(), f"{part}: {name}"
    assert gb.finish(p, b"\n").code == 0


def test_flood_of_frames_does_not_grow_us(gb, tmp_path):
    text = program("frame_flood")
    # Into a file: a receipt that does not fit into a pipe would wait for its reader.
    with open(tmp_path / "receipt", "wb") as out:
        p = gb.start("run", "--json", "--timeout", "4", "-c", text, stdout=out)
    peak = 0
    while p.poll() is None:
        with contextlib.suppress(OSError), open(f"/proc/{p.pid}/status", encoding="ascii") as f:
            rows = [line for line in f if line.startswith("VmHWM")]
            peak = max([peak] + [int(row.split()[1]) * 1024 for row in rows])
        with contextlib.suppress(subprocess.TimeoutExpired):
            p.wait(0.1)
    receipt = json.loads((tmp_path / "receipt").read_text())
    assert receipt["status"] in ("timeout", "error")
    assert peak < 256 << 20


def test_stopping_the_whole_group_does_not_stop_us(gb):
    """kill(0) reaches only the box's own processes."""
    r = gb.finish(
        gb.start("run", "--timeout", "2", "-c", "import os, signal; os.kill(0, signal.SIGSTOP)")
    )
    assert r.code == 124


@pytest.mark.parametrize("option", ["on", "off"])
def test_walls_without_landlock(gb, facts, option):
    """Landlock is the second wall: what it guards must hold without it too."""
    values = facts.values
    attack(
        gb,
        f"""
        must_fail("abstract", socket.socket(socket.AF_UNIX).connect, "\\0" + {values["abstract"]!r})
        must_fail("signal", os.kill, {values["host_pid"]}, 0) if {values["host_pid"]} > 50 else None
        must_not_read({values["secret"]!r})
        must_fail("write", os.open, "/usr/x", os.O_CREAT | os.O_WRONLY)
        finish()
        """,
        "--landlock", option,
    )
    facts.untouched()
