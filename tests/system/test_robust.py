"""What happens when the world around a run is not kind to it; the leak check does half the work."""

import os
import resource
import shlex
import shutil
import signal
import subprocess
import time

import pytest
from conftest import is_box_id, need, process_table, read_proc, run_pids, wait_for

WAITS = "print('up', flush=True); print('got', input())"
SLEEPS = "import time; print('up', flush=True); time.sleep(1000)"
STUBBORN = """
import os, signal, sys, time
for s in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(s, signal.SIG_IGN)
for _ in range(3):
    if os.fork() == 0:
        os.setsid()
        break
print('up', flush=True)
while True: time.sleep(1000)
"""
# The first process stays: with it the run would be over, and there would be nothing left to kill.
STORM = """
import os, signal
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
first = os.getpid()
print('up', flush=True)
while True:
    try:
        if os.fork() and os.getpid() != first: os._exit(0)
    except OSError: pass
"""
FLOOD = "while True: print('up')"


@pytest.fixture
def running(gb):
    """Starts code and waits for its first line; gives the process and its pids on the host."""

    def start(code, *options, **how):
        p = gb.start("run", *options, "-c", code, **how)
        assert p.stdout.readline() == b"up\n", p.stderr.read()
        return p, run_pids(p.pid)

    return start


# ---- kill -9 of the whole thing ----------------------------------------------------------------


@pytest.mark.parametrize("delay_ms", [0, 1, 3, 10, 20, 40, 80, 150, 300, 600])
def test_kill_while_it_starts(gb, delay_ms):
    p = gb.start("run", "--preload", "all", "-c", "import time; time.sleep(1000)")
    time.sleep(delay_ms / 1000)  # a moment, not a condition: every one of them must be safe
    p.kill()
    assert p.wait(60) == -signal.SIGKILL


@pytest.mark.parametrize("code", [WAITS, STUBBORN, STORM, FLOOD])
def test_kill_while_it_runs(gb, code):
    p = gb.start("run", "--pids", "32", "-c", code)
    assert p.stdout.readline() == b"up\n"
    p.kill()
    assert p.wait(60) == -signal.SIGKILL


def test_kill_while_it_ends(gb):
    p = gb.start("run", "-c", "print('up', flush=True)")
    assert p.stdout.readline() == b"up\n"
    p.kill()
    p.wait(60)


def test_kill_with_files_in_and_out(gb, tmp_path):
    (tmp_path / "data").write_bytes(b"x" * 10_000_000)
    out = tmp_path / "out"
    p = gb.start("run", "--file", tmp_path / "data", "--out", out, "-c", WAITS)
    assert p.stdout.readline() == b"up\n"
    p.kill()
    p.wait(60)


def test_run_after_a_killed_one(gb):
    p = gb.start("run", "-c", STUBBORN)
    assert p.stdout.readline() == b"up\n"
    p.kill()
    assert gb.py("print('next')").out == "next\n"


# ---- a part of it dies -------------------------------------------------------------------------


@pytest.mark.parametrize("part", ["builder", "template"])
def test_tenant_survives(gb, running, part):
    p, pids = running(WAITS)
    os.kill(pids[part], signal.SIGKILL)
    wait_for(lambda: gone(pids[part]), what=f"the {part}'s end")
    r = gb.finish(p, b"answer\n")
    assert (r.code, r.out) == (0, "got answer\n"), r.err


def test_tenant_survives_both(gb, running):
    p, pids = running(WAITS)
    for part in ("template", "builder"):
        os.kill(pids[part], signal.SIGKILL)
    r = gb.finish(p, b"answer\n")
    assert (r.code, r.out) == (0, "got answer\n"), r.err


@pytest.mark.parametrize("limit", ["--timeout", "--cpu-time"])
def test_limits_hold_without_the_builder(gb, running, limit):
    """CPU time begins when we say so; wall time is long enough for the builder to die in it."""
    seconds, end = {"--timeout": ("10", "time.sleep(1000)"), "--cpu-time": ("1", "while 1: pass")}[limit]
    code = "import time\nprint('up', flush=True)\ninput()\n" + end
    p, pids = running(code, limit, seconds)
    os.kill(pids["builder"], signal.SIGKILL)
    assert gb.finish(p, b"\n").code == 124


def test_exit_code_survives_the_builder(gb, running):
    p, pids = running("import sys; print('up', flush=True); input(); sys.exit(7)")
    os.kill(pids["builder"], signal.SIGKILL)
    assert gb.finish(p, b"\n").code == 7


def test_tenant_killed_from_outside(gb, running):
    p, pids = running(WAITS)
    os.kill(pids["tenant"], signal.SIGKILL)
    assert gb.finish(p).code == 137


def test_pid_1_killed_from_outside(gb, running):
    p, pids = running(WAITS)
    os.kill(pids["init"], signal.SIGKILL)
    assert gb.finish(p).code not in (0, 2)


def gone(pid):
    return process_table().get(pid, (0, "Z", ""))[1] in "ZX"


# ---- asked to stop -----------------------------------------------------------------------------


@pytest.mark.parametrize("name, code", [("SIGINT", 130), ("SIGTERM", 143), ("SIGHUP", 129)])
@pytest.mark.parametrize("program", [SLEEPS, STUBBORN, FLOOD], ids=["sleeps", "stubborn", "flood"])
def test_asked_to_stop(gb, name, code, program):
    p = gb.start("run", "-c", program)
    assert p.stdout.readline() == b"up\n"
    p.send_signal(getattr(signal, name))
    assert gb.finish(p).code == code


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_asked_to_stop_gives_a_receipt(gb, name):
    p = gb.start("run", "--json", "-c", SLEEPS)
    wait_for(lambda: "tenant" in run_pids(p.pid), what="the tenant")
    p.send_signal(getattr(signal, name))
    receipt = gb.finish(p).receipt
    assert (receipt["status"], receipt["exit_code"]) == ("cancelled", 130)


def test_asked_to_stop_while_it_starts(gb):
    p = gb.start("run", "--preload", "all", "-c", "import time; time.sleep(1000)")
    p.send_signal(signal.SIGTERM)
    assert gb.finish(p).code in (143, -signal.SIGTERM)


def test_asked_twice(gb):
    p = gb.start("run", "-c", STUBBORN)
    assert p.stdout.readline() == b"up\n"
    p.send_signal(signal.SIGINT)
    p.send_signal(signal.SIGINT)
    assert gb.finish(p).code == 130


# ---- descriptors -------------------------------------------------------------------------------


def test_reader_goes_away(gb):
    p = gb.start("run", "-c", "for i in range(10**9): print(i)")
    assert p.stdout.readline() == b"0\n"
    p.stdout.close()
    assert p.wait(60) != 0


def test_reader_of_a_pipeline(gb):
    command = f"{shlex.quote(gb.binary)} run -c 'for i in range(10**9): print(i)' | head -1"
    done = subprocess.run(
        ["sh", "-c", command], env=gb.environment(), capture_output=True, timeout=180, check=False
    )
    assert (done.returncode, done.stdout) == (0, b"0\n")


def test_reader_of_stderr_goes_away(gb):
    p = gb.start("run", "-c", "import sys\nfor i in range(10**9): print(i, file=sys.stderr)")
    assert p.stderr.readline() == b"0\n"
    p.stderr.close()
    assert p.wait(60) != 0


def test_stdout_is_full(gb):
    with open("/dev/full", "wb") as full:
        p = gb.start("run", "-c", "print('x' * 100_000)", stdout=full)
        assert gb.finish(p).code != 0


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&-", "<&- >&- 2>&-"])
def test_started_with_closed_descriptors(gb, tmp_path, closed):
    """A socket of ours that lands on 0, 1 or 2 would be the program's stdin or stdout."""
    out = tmp_path / "out"
    code = "import sys; open('ran', 'w').write('yes'); print('text'); sys.exit(3)"
    prefix = ("sh", "-c", f'exec "$@" {closed}', "sh")
    p = gb.start("run", "--out", out, "-c", code, prefix=prefix)
    r = gb.finish(p)
    assert (r.code, (out / "ran").read_text()) == (3, "yes"), r.err
    assert r.err == ""


def test_stdin_closed_reads_as_empty(gb):
    prefix = ("sh", "-c", 'exec "$@" <&-', "sh")
    r = gb.py("import sys; print(repr(sys.stdin.read() if sys.stdin else ''))", prefix=prefix)
    assert (r.code, r.out) == (0, "''\n"), r.err


def test_program_that_never_reads_its_stdin(gb):
    p = gb.start("run", "-c", "print('done')", stdin=subprocess.PIPE)
    assert p.stdout.read() == b"done\n"  # our end of stdin is still open
    assert p.wait(60) == 0


def test_more_stdin_than_is_read(gb):
    assert gb("run", "-c", "print(input())", stdin=b"a\n" * 5_000_000).out == "a\n"


def test_descriptors_do_not_reach_the_box(gb, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("SECRET")
    low = os.open(secret, os.O_RDONLY)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    high = 1500
    os.dup2(low, high)
    try:
        r = gb.py(
            """
            import os
            for fd in range(3, 8192):
                try:
                    kind = os.fstat(fd).st_mode & 0o170000
                    if kind != 0o140000: print(fd, oct(kind))
                except OSError: pass
            """,
            pass_fds=(low, high),
        )
    finally:
        os.close(low)
        os.close(high)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert (r.code, r.out) == (0, ""), r.err


@pytest.mark.parametrize("files", [8, 16, 24, 32, 64, 128])
def test_few_descriptors(gb, files):
    """Works, or says in one line that it could not; never half."""
    prefix = ("sh", "-c", f'ulimit -n {files}; exec "$@"', "sh")
    r = gb.py("print('RAN')", prefix=prefix)
    if r.code == 0:
        assert r.out == "RAN\n"
    else:
        assert (r.code, r.out) == (125, "") and r.err.count("\n") == 1, r


# ---- surroundings ------------------------------------------------------------------------------


def test_directory_that_was_deleted(gb, tmp_path):
    where = tmp_path / "gone"
    where.mkdir()
    prefix = ("sh", "-c", f'cd {where} && rmdir {where} && exec "$@"', "sh")
    r = gb.py("import os; print(os.getcwd())", prefix=prefix)
    assert (r.code, r.out) == (0, "/workspace\n"), r.err


def test_empty_environment(gb):
    r = gb.py("print('RAN')", prefix=("env", "-i"))
    assert (r.code, r.out) == (0, "RAN\n"), r.err


def test_tight_umask(gb, tmp_path):
    prefix = ("sh", "-c", 'umask 0777; exec "$@"', "sh")
    r = gb.py("open('a', 'w').write('x'); print(open('a').read())", prefix=prefix)
    assert (r.code, r.out) == (0, "x\n"), r.err


def ignore_children():
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)


def block_signals():
    signal.pthread_sigmask(signal.SIG_BLOCK, set(signal.Signals) - {signal.SIGKILL})


@pytest.mark.parametrize("before", [ignore_children, block_signals])
def test_inherited_signal_state(gb, before):
    code = "import signal, sys; print(signal.pthread_sigmask(signal.SIG_BLOCK, [])); sys.exit(3)"
    r = gb.py(code, preexec_fn=before)
    assert (r.code, r.out) == (3, "set()\n"), r.err


def test_cancel_works_with_blocked_signals_inherited(gb):
    p = gb.start("run", "-c", SLEEPS, preexec_fn=block_signals)
    assert p.stdout.readline() == b"up\n"
    p.send_signal(signal.SIGTERM)
    assert gb.finish(p).code == 143


# ---- several at once ---------------------------------------------------------------------------


def host_ids(pid):
    status = read_proc(pid, "status").decode()
    row = {line.split(":")[0]: line.split()[1:] for line in status.splitlines() if ":" in line}
    return {int(i) for i in row["Uid"]}, {int(i) for i in row["Gid"]}, row.get("Groups", [])


def test_host_ids_of_two_runs(gb, running, is_root):
    if not is_root:
        pytest.skip("an ordinary user has no ids to give away")
    (p1, pids1), (p2, pids2) = running(WAITS), running(WAITS)
    uids1, gids1, groups1 = host_ids(pids1["tenant"])
    uids2, gids2, groups2 = host_ids(pids2["tenant"])
    assert len(uids1) == len(uids2) == len(gids1) == len(gids2) == 1
    assert uids1 != uids2 and gids1 != gids2
    assert all(map(is_box_id, uids1 | uids2 | gids1 | gids2))
    assert not set(groups1 + groups2) & {"0"}
    for p in (p1, p2):
        assert gb.finish(p, b"x\n").code == 0


def test_host_id_is_never_root(gb, running):
    p, pids = running(WAITS)
    uids, gids, _ = host_ids(pids["tenant"])
    assert 0 not in uids and 0 not in gids
    assert gb.finish(p, b"x\n").code == 0


def test_twenty_at_once(gb):
    code = "import sys; print('hello from', sys.argv[1])"
    runs = [gb.start("run", "--timeout", "120", "-c", code, str(i)) for i in range(20)]
    for i, p in enumerate(runs):
        r = gb.finish(p, timeout=120)
        assert (r.code, r.out) == (0, f"hello from {i}\n"), r.err


def test_ten_killed_at_once(gb):
    runs = [gb.start("run", "--timeout", "120", "-c", STUBBORN) for _ in range(10)]
    for p in runs:
        assert p.stdout.readline() == b"up\n"
    for p in runs:
        p.kill()
    for p in runs:
        p.wait(60)


# ---- hosts that cannot isolate -----------------------------------------------------------------


def can_unshare():
    if not shutil.which("unshare"):
        return False
    done = subprocess.run(["unshare", "-Ur", "true"], capture_output=True, check=False)
    return done.returncode == 0


def test_user_namespaces_forbidden(gb):
    need(can_unshare(), "no user namespaces for the test itself")
    script = 'echo 0 > /proc/sys/user/max_user_namespaces || exit 77; exec "$@"'
    r = gb.py("print('RAN')", prefix=("unshare", "-Ur", "sh", "-c", script, "sh"))
    need(r.code != 77, "the test cannot forbid user namespaces here")
    assert (r.code, r.out) == (125, ""), r.err
    reason = "host's root" if os.geteuid() == 0 else "max_user_namespaces"
    assert r.err.count("\n") == 1 and reason in r.err, r.err


NO_SECCOMP = """
import ctypes, os, struct, sys
# A kernel without seccomp filters, as far as our children can tell: seccomp(2) answers EINVAL.
number = {"x86_64": 317, "aarch64": 277}[os.uname().machine]
code = [(0x20, 0, 0, 0), (0x15, 0, 1, number), (0x06, 0, 0, 0x50000 | 22), (0x06, 0, 0, 0x7FFF0000)]
filter = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *c) for c in code))
program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(code), ctypes.addressof(filter)))
libc = ctypes.CDLL(None, use_errno=True)
if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, program, 0, 0):
    sys.exit(77)
os.execv(sys.argv[1], sys.argv[1:])
"""


def test_seccomp_missing(gb):
    r = gb.py("print('RAN')", prefix=("/usr/bin/python3", "-c", NO_SECCOMP))
    need(r.code != 77, "the test cannot forbid seccomp here")
    assert (r.code, r.out) == (125, ""), r.err
    assert r.err.count("\n") == 1 and "CONFIG_SECCOMP_FILTER" in r.err, r.err


def test_inside_a_user_namespace(gb):
    need(can_unshare(), "no user namespaces for the test itself")
    r = gb.py("import os; print(os.getuid())", prefix=("unshare", "-Ur"))
    if os.geteuid() == 0:  # its one id is root's, which no box may have
        assert (r.code, r.out) == (125, "") and "host's root" in r.err, r.err
    else:
        assert (r.code, r.out) == (0, "1000\n"), r.err


def test_under_no_new_privs(gb):
    need(shutil.which("setpriv"), "no setpriv")
    r = gb.py("print('RAN')", prefix=("setpriv", "--no-new-privs"))
    assert (r.code, r.out) == (0, "RAN\n"), r.err


def test_forced_cgroup_version_that_is_not_there(gb):
    """Either it is there and used, or the run is refused; never quietly without."""
    for mode in ("v1", "v2"):
        r = gb.py("print('RAN')", "--cgroups", mode)
        if r.code != 0:
            assert (r.code, r.out) == (125, "") and "cgroup" in r.err.lower(), r.err
        else:
            assert r.out == "RAN\n"
