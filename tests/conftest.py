"""
What every test through the binary shares.

`gb` runs the binary under test (environment GLOVEBOX, else build/glovebox) with a private HOME and
TMPDIR and an environment that carries a mark. `nothing_left` looks, after every system and abuse
test, for what the run may have left on the host. The test process makes itself the subreaper of its
descendants, so a process that outlives its glovebox becomes a child of ours and cannot hide.

Others may use this machine at the same time. A thing that nobody can attribute (a file in /tmp with
a name that says nothing) therefore counts only when GB_STRICT_LEAKS=1 says that we are alone.
GB_MUST_WORK=1 turns "this host lacks something" from a skip into a failure. GB_SLOW=N makes every
wait that only ends what hangs N times as long, for emulators.
"""

import collections
import contextlib
import ctypes
import json
import os
import platform
import shutil
import signal
import subprocess
import tempfile
import textwrap
import time
import uuid

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BINARY = os.path.abspath(os.path.join(ROOT, os.environ.get("GLOVEBOX", "build/glovebox")))
STRICT = os.environ.get("GB_STRICT_LEAKS") == "1"
MARK = "GB_TEST_MARK=" + uuid.uuid4().hex
BOX_ID_FIRST = 1_900_000_000  # as root, boxes run under host ids from here on
BOX_ID_LAST = 4_294_967_293
SLOW = float(os.environ.get("GB_SLOW", "1"))
PATIENCE = 30.0 * SLOW  # how long teardown may take after the run has ended, in seconds
RUN_SECONDS = 120 * SLOW  # of a run whose --timeout is not the test's subject: machines stall
PR_SET_CHILD_SUBREAPER = 36

Result = collections.namedtuple("Result", "code out err raw_out raw_err receipt")


def need(condition, reason):
    """Skips where the host lacks what a test needs; fails there when GB_MUST_WORK=1."""
    if condition:
        return
    if os.environ.get("GB_MUST_WORK") == "1":
        pytest.fail("GB_MUST_WORK=1, but " + reason)
    pytest.skip(reason)


def wait_for(condition, seconds=60.0, what="the condition"):
    """Polls until condition() is true and returns its value; fails the test after @seconds."""
    seconds *= SLOW
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            pytest.fail(f"waited {seconds} s for {what}")
        time.sleep(0.02)


# ---- the machine, before and after -------------------------------------------------------------


def read_proc(pid, name):
    # Without a file object: this is called for every process before and after every test.
    try:
        fd = os.open(f"/proc/{pid}/{name}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        parts = [os.read(fd, 65536)]
        while parts[-1]:
            parts.append(os.read(fd, 65536))
        return b"".join(parts)
    except OSError:
        return b""
    finally:
        os.close(fd)


KTHREADD = 2 if read_proc(2, "comm") == b"kthreadd\n" else -1  # parent of all kernel threads


def process_table():
    """pid -> (ppid, state, comm) of every process that can be seen."""
    table = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        stat = read_proc(entry, "stat")
        if b")" not in stat:
            continue
        comm = stat[stat.index(b"(") + 1 : stat.rindex(b")")].decode("utf-8", "replace")
        fields = stat[stat.rindex(b")") + 2 :].split()
        table[int(entry)] = (int(fields[1]), fields[0].decode(), comm)
    return table


def descendants(top, table):
    children = collections.defaultdict(list)
    for pid, (ppid, _, _) in table.items():
        children[ppid].append(pid)
    found, left = set(), [top]
    while left:
        born = children.pop(left.pop(), [])
        found.update(born)
        left += born
    return found


def run_pids(top):
    """Who is who among the processes of `glovebox run`, whose pid is @top: part -> pid.

    All four are children of @top. Builder and template share a PID namespace (of their own, where
    we are not root); of the two in the box's, which is one deeper, PID 1 is the init.
    """
    inside = {}  # pid -> (its numbers in the namespaces, comm)
    for pid, (ppid, state, comm) in process_table().items():
        if ppid == top and state not in "ZX" and namespace_pids(pid):
            inside[pid] = (namespace_pids(pid), comm)
    outer = min((len(ns) for ns, comm in inside.values() if comm == "glovebox-build"), default=99)
    found = {}
    for pid, (ns, comm) in inside.items():
        if len(ns) == outer:
            found["builder" if comm == "glovebox-build" else "template"] = pid
        elif len(ns) > outer:
            found["init" if ns[-1] == b"1" else "tenant"] = pid
    return found


def namespace_pids(pid):
    """The numbers of a process, from our PID namespace to its innermost one."""
    for line in read_proc(pid, "status").splitlines():
        if line.startswith(b"NSpid:"):
            return line.split()[1:]
    return []


def is_box_id(uid):
    return BOX_ID_FIRST <= uid <= BOX_ID_LAST


def owner(pid):
    try:
        return os.stat(f"/proc/{pid}").st_uid
    except OSError:
        return -1


def may_be_ours(uid):
    """Suites of root and of a user run side by side: what the other owns is not ours."""
    return uid == os.getuid() or (is_box_id(uid) and os.getuid() == 0)


def is_orphan_of_a_box(pid, table):
    """A process under a box's id that no engine is above any more."""
    if not is_box_id(owner(pid)) or os.getuid() != 0:
        return False
    while is_box_id(owner(pid)):
        pid = table.get(pid, (-1, "", ""))[0]
    return pid in (0, 1)


def reap_orphans(known):
    """Waits for dead processes that came to us as their subreaper."""
    for pid, (ppid, state, _) in process_table().items():
        if ppid == os.getpid() and state == "Z" and pid not in known:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)


def is_kernel_thread(pid, table):
    return pid == KTHREADD or table[pid][0] == KTHREADD


def our_processes():
    """Those that descend from us, carry our mark, or are a box's without an engine."""
    table = process_table()
    mine = descendants(os.getpid(), table)
    for pid in table:
        if pid == os.getpid() or pid in mine or is_kernel_thread(pid, table):
            continue
        if MARK.encode() in read_proc(pid, "environ").split(b"\0"):
            mine.add(pid)
        elif is_orphan_of_a_box(pid, table):
            mine.add(pid)
    return {f"process {pid} ({table[pid][2]})" for pid in mine}


def is_others_test(path):
    """In a directory of a suite that runs beside this one, as another user."""
    try:
        return "/gbtest-" in path and not may_be_ours(os.stat(path).st_uid)
    except OSError:
        return True


def mounts():
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as f:
        lines = [line.split() for line in f]
    # The mount's id and its parent's change with nothing; where and what it is do not.
    return {"mount " + " ".join(w[2:5]) for w in lines if not is_others_test(w[4])}


def cgroup_mounts():
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as f:
        lines = [line.split() for line in f]
    return [w[4] for w in lines if w[w.index("-") + 1] in ("cgroup", "cgroup2")]


def locked_inodes():
    """Device and inode of every file that somebody holds a lock on."""
    with open("/proc/locks", encoding="ascii", errors="replace") as f:
        words = [w for line in f for w in line.split() if w.count(":") == 2]
    return {(int(a, 16), int(b, 16), int(i)) for a, b, i in (w.split(":") for w in words)}


def is_locked(path, locked):
    try:
        info = os.stat(path)
    except OSError:
        return False
    return (os.major(info.st_dev), os.minor(info.st_dev), info.st_ino) in locked


def cgroup_has_process(path):
    for directory, _, _ in os.walk(path):
        try:
            with open(os.path.join(directory, "cgroup.procs"), encoding="ascii") as f:
                if f.read().strip():
                    return True
        except OSError:
            continue
    return False


def idle_cgroups():
    """Our kind of directories that nobody lives in and no engine holds its lock on. One that is in
    use is another engine's; were it ours, its process would be found as a process."""
    found, locked = set(), locked_inodes()
    for top in cgroup_mounts():
        for directory, names, _ in os.walk(top):
            names[:] = [n for n in names if not n.startswith("gbtest.")]  # the unit tests' own
            for name in [n for n in names if n.startswith("glovebox")]:
                path = os.path.join(directory, name)
                names.remove(name)
                if not is_locked(path, locked) and not cgroup_has_process(path):
                    with contextlib.suppress(OSError):
                        if may_be_ours(os.stat(path).st_uid):
                            found.add("cgroup " + path)
    return found


def shared_files():
    """Entries of the directories that all programs share, as far as they may be ours."""
    found = set()
    places = ["/tmp", "/dev/shm", "/run", "/var/tmp", os.path.expanduser("~")]
    if os.environ.get("XDG_RUNTIME_DIR"):
        places.append(os.environ["XDG_RUNTIME_DIR"])
    for place in places:
        try:
            entries = list(os.scandir(place))
        except OSError:
            continue
        for entry in entries:
            try:
                uid = entry.stat(follow_symlinks=False).st_uid
            except OSError:
                continue
            if entry.name.startswith(("gbtest-", "glovebox-test-")):  # the tests' own
                continue
            ours = ("glovebox" in entry.name.lower() or is_box_id(uid)) and may_be_ours(uid)
            if ours or STRICT:
                found.add("file " + entry.path)
    return found


def sysv_objects():
    found = set()
    for kind in ("shm", "sem", "msg"):
        try:
            with open(f"/proc/sysvipc/{kind}", encoding="ascii") as f:
                rows = [line.split() for line in f.readlines()[1:]]
        except OSError:
            continue
        found |= {f"sysv {kind} {row[1]}" for row in rows}
    return found if STRICT else set()


def open_descriptors():
    found = set()
    for fd in os.listdir("/proc/self/fd"):
        if int(fd) <= 2:  # pytest redirects them
            continue
        with contextlib.suppress(OSError):
            found.add(f"descriptor {fd} -> " + os.readlink(f"/proc/self/fd/{fd}"))
    return found


def private_files(home):
    found = set()
    for directory, names, files in os.walk(home):
        found |= {"file " + os.path.join(directory, n) for n in names + files}
    return found


def machine(home):
    return (
        our_processes()
        | mounts()
        | idle_cgroups()
        | shared_files()
        | sysv_objects()
        | private_files(home)
    )


# ---- running it --------------------------------------------------------------------------------


class Glovebox:
    """The binary, and the runs of it that one test has started."""

    def __init__(self, home):
        self.home = home
        self.binary = BINARY
        self.started = []

    def environment(self, extra=None):
        dropped = ("GLOVEBOX", "MAX_", "LOG_", "BLOCKED_", "PYTHON", "GB_", "OPENAI_", "ANTHROPIC_")
        env = {k: v for k, v in os.environ.items() if not k.startswith(dropped)}
        name, _, value = MARK.partition("=")
        env.update({"HOME": self.home, "TMPDIR": self.home, name: value})
        env["GLOVEBOX_DEFAULT_TEMPLATE"] = "system"  # whatever this machine has been set up with
        env["GLOVEBOX_TIMEOUT"] = f"{RUN_SECONDS:g}"
        env.update(word.split("=", 1) for word in os.environ.get("GB_WITH", "").split())
        env.update(extra or {})
        return {k: v for k, v in env.items() if v is not None}

    def start(self, *args, env=None, prefix=(), **popen):
        """Starts the binary; the test talks to the process itself."""
        for stream in ("stdin", "stdout", "stderr"):
            popen.setdefault(stream, subprocess.PIPE)
        popen.setdefault("start_new_session", True)
        command = [*prefix, self.binary, *map(os.fspath, args)]
        process = subprocess.Popen(command, env=self.environment(env), **popen)
        self.started.append(process)
        return process

    def finish(self, process, stdin=b"", timeout=180):
        """Feeds @stdin, reads to the end and gives the result."""
        timeout *= SLOW
        try:
            out, err = process.communicate(stdin, timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.communicate(timeout=30)
            pytest.fail(f"still running after {timeout} s: {process.args}")
        return result_of(process.returncode, out or b"", err or b"", "--json" in process.args)

    def __call__(self, *args, stdin=b"", timeout=180, **how):
        """Runs the binary to its end."""
        if isinstance(stdin, str):
            stdin = stdin.encode()
        return self.finish(self.start(*args, **how), stdin, timeout)

    def py(self, code, *options, argv=(), **how):
        """`glovebox run OPTIONS -c CODE ARGV`, with the code's indentation taken off."""
        return self("run", *options, "-c", textwrap.dedent(code).strip("\n"), *argv, **how)

    def receipt(self, code, *options, **how):
        """The receipt of `glovebox run --json`."""
        result = self.py(code, "--json", *options, **how)
        assert result.receipt is not None, (result.code, result.out[:500], result.err[:2000])
        assert result.receipt["status"] != "system", (result.receipt, result.err[:2000])
        return result.receipt

    def close(self):
        for process in self.started:
            if process.poll() is None:
                process.kill()
                process.wait(60)
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream is not None:
                    with contextlib.suppress(OSError):
                        stream.close()


def result_of(code, raw_out, raw_err, is_json):
    receipt = None
    if is_json and raw_out.startswith(b"{"):
        receipt = json.loads(raw_out)  # strict UTF-8; a receipt that is not valid JSON fails here
    out, err = (b.decode("utf-8", "replace") for b in (raw_out, raw_err))
    return Result(code, out, err, raw_out, raw_err, receipt)


def is_through_binary(node):
    return bool({"system", "abuse"} & set(node.path.relative_to(ROOT).parts[:-1]))


def pytest_configure(config):
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    if config.option.basetemp is None:
        config.gb_basetemp = tempfile.mkdtemp(prefix="gbtest-")
        config.option.basetemp = os.path.join(config.gb_basetemp, "pytest")
    config.addinivalue_line("markers", "no_leak_check: this test is about what is left, by itself")


def pytest_unconfigure(config):
    if getattr(config, "gb_basetemp", None):
        shutil.rmtree(config.gb_basetemp, ignore_errors=True)


def pytest_collection_modifyitems(items):
    if any(is_through_binary(i) for i in items) and not os.access(BINARY, os.X_OK):
        pytest.exit(f"no binary at {BINARY}: build it, or name it with GLOVEBOX=PATH", 1)


@pytest.fixture(scope="session")
def is_root():
    return os.geteuid() == 0


@pytest.fixture(scope="session")
def arch():
    return platform.machine()


@pytest.fixture
def home():
    """The HOME and TMPDIR of the runs; must be as empty afterwards as before."""
    path = tempfile.mkdtemp(prefix="gbtest-home-")
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(scope="session")
def has_cgroups(tmp_path_factory):
    """Whether boxes get control groups here: looked up for a real one, as the host sees it."""
    where = tmp_path_factory.mktemp("probe")
    (where / "home").mkdir()
    box = Glovebox(str(where / "home"))
    try:
        p = box.start("run", "-c", "print('up', flush=True); input()")
        assert p.stdout.readline() == b"up\n", p.stderr.read()
        found = b"glovebox" in read_proc(run_pids(p.pid)["tenant"], "cgroup")
        box.finish(p, b"\n")
        return found
    finally:
        box.close()


@contextlib.contextmanager
def leaves_nothing(home_dir):
    """Fails when, a few seconds after the end, something is on the host that was not."""
    before, fds_before = machine(home_dir), open_descriptors()
    yield
    end = time.monotonic() + PATIENCE
    while True:
        reap_orphans(set())
        left = machine(home_dir) - before
        if not left or time.monotonic() > end:
            break
        time.sleep(0.05)
    stop_leftovers(left)
    fds_left = {d for d in open_descriptors() - fds_before if "/proc/" not in d}
    assert not left, "left behind: " + "; ".join(sorted(left))
    assert not fds_left, "left open in the test: " + "; ".join(sorted(fds_left))


@pytest.fixture(autouse=True)
def nothing_left(request):
    """Looks for what the test has left, whatever it was about."""
    if not is_through_binary(request.node):
        yield
        return
    with leaves_nothing(request.getfixturevalue("home")):
        yield


def stop_leftovers(left):
    """One test's leak must not be the next one's; only processes beneath us are stopped."""
    table = process_table()
    for pid in descendants(os.getpid(), table):
        if any(item.startswith(f"process {pid} ") for item in left):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@pytest.fixture
def gb(home, nothing_left):
    box = Glovebox(home)
    yield box
    box.close()
