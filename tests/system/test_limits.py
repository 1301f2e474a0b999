"""Each limit, hit for real, with and without control groups; the receipt must name it."""

import contextlib
import glob
import os
import time
import uuid

import pytest
from conftest import cgroup_mounts, read_proc, reap_orphans, wait_for


# The ordinary users of tests/harness get no control groups, so for them both would be the same run.
@pytest.fixture(params=["auto"] if os.environ.get("GB_AS") in ("user", "subids") else ["auto", "none"])
def mode(request):
    return request.param


@pytest.fixture
def uncounted(mode, has_cgroups):
    """No control group counts for us: what a limit refused can only be seen from outside."""
    return mode == "none" or not has_cgroups


@pytest.fixture
def limited(gb, mode):
    """Runs code under limits in this mode and gives the receipt."""

    def run(code, *options, **how):
        return gb.receipt(code, "--cgroups", mode, *options, **how)

    return run


def ended(receipt, status, limit, exit_code=None):
    got = (receipt["status"], receipt["limit"])
    assert got == (status, limit), {**receipt, "stdout": receipt["stdout"][-300:]}
    assert receipt["success"] == (status == "ok")
    if exit_code is not None:
        assert receipt["exit_code"] == exit_code, receipt


# ---- wall time ---------------------------------------------------------------------------------

STUBBORN = {
    "busy loop": "while True: pass",
    "sleep": "import time; time.sleep(1000)",
    "one long C call": "sum(range(10**12))",
    "waits for input that never comes": "import signal; signal.pause()",
    "swallows KeyboardInterrupt": """
        while True:
            try:
                while True: pass
            except KeyboardInterrupt:
                pass
        """,
    "swallows everything": """
        import time
        while True:
            try:
                time.sleep(1000)
            except BaseException:
                pass
        """,
    "ignores every signal": """
        import signal
        for s in signal.valid_signals():
            try:
                signal.signal(s, signal.SIG_IGN)
            except (OSError, ValueError):
                pass
        while True: signal.pause()
        """,
    "blocks every signal": """
        import signal
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        while True: signal.pause()
        """,
    "stops itself": "import os, signal; os.kill(os.getpid(), signal.SIGSTOP)",
    "waits for a child": "import subprocess; subprocess.run(['sleep', '1000'])",
    "children in their own sessions": """
        import os, signal, time
        for _ in range(5):
            if os.fork() == 0:
                os.setsid()
                signal.signal(signal.SIGINT, signal.SIG_IGN)
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
                while True: time.sleep(1000)
        while True:
            try: time.sleep(1000)
            except KeyboardInterrupt: pass
        """,
    "many threads": """
        import threading
        def spin():
            while True: pass
        for _ in range(8): threading.Thread(target=spin).start()
        """,
    "another program in its place": "import os; os.execv('/bin/sleep', ['sleep', '1000'])",
    "raises in its own handler": """
        import signal
        def again(*a): signal.raise_signal(signal.SIGINT)
        signal.signal(signal.SIGINT, lambda *a: None)
        while True: pass
        """,
    "never leaves __del__": """
        class C:
            def __del__(self):
                while True: pass
        c = C(); del c
        """,
    "atexit that never ends": """
        import atexit, time
        atexit.register(time.sleep, 1000)
        """,
}


@pytest.mark.parametrize("how", STUBBORN)
def test_wall_time(limited, how):
    r = limited(STUBBORN[how], "--timeout", "1")
    ended(r, "timeout", "wall_time", 124)
    assert r["usage"]["wall_ms"] >= 900


def test_wall_time_as_exit_code(gb, mode):
    assert gb.py("while True: pass", "--timeout", "1", "--cgroups", mode).code == 124


def test_code_that_stops_within_the_grace(limited):
    r = limited(
        """
        import sys, time
        try:
            time.sleep(1000)
        except KeyboardInterrupt:
            print("cleaned up"); sys.exit(0)
        """,
        "--timeout", "5",  # it sleeps by then
    )
    ended(r, "timeout", "wall_time", 124)
    assert r["stdout"] == "cleaned up\n"


def test_output_before_the_deadline_is_kept(limited):
    r = limited("import time; print('kept', flush=True); time.sleep(1000)", "--timeout", "5")
    assert r["stdout"] == "kept\n" and r["status"] == "timeout"


# ---- CPU time ----------------------------------------------------------------------------------


def test_cpu_time(limited):
    ended(limited("while True: pass", "--cpu-time", "1"), "timeout", "cpu_time", 124)


def test_cpu_time_swallowed(limited):
    code = """
        import signal
        for s in (signal.SIGXCPU, signal.SIGINT, signal.SIGTERM): signal.signal(s, signal.SIG_IGN)
        while True: pass
    """
    ended(limited(code, "--cpu-time", "1"), "timeout", "cpu_time", 124)


def test_cpu_time_of_several_processes(limited):
    code = """
        import os
        for _ in range(4):
            if os.fork() == 0: break
        while True: pass
    """
    r = limited(code, "--cpu-time", "2")
    ended(r, "timeout", "cpu_time", 124)


def test_cpu_time_of_children_that_came_and_went(limited):
    code = """
        import subprocess, sys
        burn = "import time\\nwhile time.process_time() < 0.3: pass"
        while True:
            subprocess.run([sys.executable, "-c", burn])
    """
    r = limited(code, "--cpu-time", "1")
    ended(r, "timeout", "cpu_time", 124)


def test_sleep_is_not_cpu_time(limited):
    ended(limited("import time; time.sleep(1.5)", "--cpu-time", "1"), "ok", None, 0)


# ---- memory ------------------------------------------------------------------------------------

GREEDY = {
    "bytearray": "a = []\nwhile True: a.append(bytearray(b'x' * (8 << 20)))",
    "numpy": "import numpy as np\na = []\nwhile True: a.append(np.ones(1 << 20))",
    "a file in the workspace": """
        with open("big", "wb") as f:
            while True: f.write(b"x" * (1 << 20))
        """,
    "a file in /tmp": """
        with open("/tmp/big", "wb") as f:
            while True: f.write(b"x" * (1 << 20))
        """,
    "shared memory": """
        import mmap
        a = []
        while True:
            m = mmap.mmap(-1, 8 << 20)
            for i in range(0, 8 << 20, 4096): m[i] = 1
            a.append(m)
        """,
    "memfd": """
        import os
        fd = os.memfd_create("x")
        while True: os.write(fd, b"x" * (1 << 20))
        """,
    "many children": """
        import os, time
        def hold():
            block = bytearray(b"x" * (24 << 20))
            time.sleep(1000)
        for _ in range(20):
            if os.fork() == 0: hold()
        for _ in range(20):
            pid, status = os.wait()
            if status: os.kill(os.getpid(), 9)
        """,
}


@pytest.mark.parametrize("what", GREEDY)
def test_memory(limited, uncounted, what):
    options = ("--memory", "128m", "--disk", "2g", "--output", "1m")
    r = limited(GREEDY[what], *options)
    if what == "memfd" and uncounted and "not implemented" in r["stderr"]:
        pytest.skip("memfds cannot be watched without cgroups: they are refused")
    ended(r, "oom", "memory", 137)


def test_memory_in_one_piece(limited):
    """Overcommit may refuse ten gigabytes at once; then it is a MemoryError like any other."""
    r = limited("x = bytearray(10**10)")
    if r["error"] and r["error"]["name"] == "MemoryError":
        assert (r["status"], r["exit_code"]) == ("error", 1)
    else:
        ended(r, "oom", "memory", 137)


def test_memory_as_exit_code(gb, mode):
    assert gb.py(GREEDY["bytearray"], "--memory", "128m", "--cgroups", mode).code == 137


def test_memory_reserved_is_not_used(limited):
    r = limited("import mmap; m = mmap.mmap(-1, 8 << 30, flags=mmap.MAP_PRIVATE); print(len(m))")
    ended(r, "ok", None, 0)


def test_memory_up_to_the_limit(limited):
    r = limited("b = bytearray(b'x' * (100 << 20)); print(len(b))", "--memory", "256m")
    ended(r, "ok", None, 0)
    peak = r["usage"]["peak_memory_bytes"]
    assert peak is None or peak < 0 or 100 << 20 <= peak <= 256 << 20


def test_out_of_memory_in_a_child(limited):
    """The kernel kills the child; the parent fails of it and the receipt says why."""
    r = limited(
        """
        import subprocess, sys
        greedy = "a = []\\nwhile True: a.append(bytearray(b'x' * (8 << 20)))"
        subprocess.run([sys.executable, "-c", greedy], check=True)
        """,
        "--memory", "128m",
    )
    ended(r, "oom", "memory", 137)


LOST = """
    import subprocess, sys
    greedy = "a = []\\nwhile True: a.append(bytearray(b'x' * (8 << 20)))"
    print(subprocess.run([sys.executable, "-c", greedy]).returncode)
    """
LOST_NOTE = "glovebox: 1 process of this program was killed: the box's memory of 128m was full\n"


def test_a_lost_child_is_told(limited, uncounted):
    """A program that does not mind is `ok`, but not silently. Our own watch kills all at once."""
    r = limited(LOST, "--memory", "128m")
    if uncounted:
        ended(r, "oom", "memory", 137)
        assert r["usage"]["oom_kills"] is None
        return
    ended(r, "ok", None, 0)
    assert r["usage"]["oom_kills"] == 1
    assert (r["stdout"], r["stderr"]) == ("-9\n", LOST_NOTE)


def test_a_pool_that_lost_a_worker(limited, uncounted):
    """It waits for ever; the receipt names the reason besides the time."""
    if uncounted:
        pytest.skip("our own watch kills all at once")
    r = limited(
        """
        import multiprocessing, os
        def work(n):
            block = []
            while True: block.append(bytearray(b"x" * (8 << 20)))
        with multiprocessing.get_context("fork").Pool(1) as pool:
            pool.map(work, [1])
        """,
        "--memory", "128m", "--timeout", "3",
    )
    ended(r, "timeout", "wall_time", 124)
    assert r["usage"]["oom_kills"] >= 1  # the pool starts another worker
    assert "killed: the box's memory of 128m was full\n" in r["stderr"]


def test_the_note_about_a_lost_child_respects_the_limit_on_output(limited, uncounted):
    if uncounted:
        pytest.skip("our own watch kills all at once")
    code = LOST + "sys.stderr.write('x' * 1000)"
    r = limited(code, "--memory", "128m", "--output", "1k")
    ended(r, "ok", None, 0)
    assert (r["usage"]["oom_kills"], r["stderr"]) == (1, "x" * 1000)


def test_a_child_that_was_killed_otherwise(limited, uncounted):
    r = limited("import subprocess; print(subprocess.run('kill -9 $$', shell=True).returncode)")
    ended(r, "ok", None, 0)
    assert (r["stdout"], r["stderr"]) == ("-9\n", "")
    assert r["usage"]["oom_kills"] == (None if uncounted else 0)


def test_killing_itself_is_not_out_of_memory(limited):
    code = "import os\nb = bytearray(b'x' * (64 << 20))\nos.kill(os.getpid(), 9)"
    ended(limited(code, "--memory", "256m"), "killed", None, 137)


def test_a_memory_error_of_its_own(limited):
    ended(limited("raise MemoryError('mine')"), "error", None, 1)


# ---- processes and threads ---------------------------------------------------------------------


def failed_of_pids(r, uncounted):
    """Without a counter the watch may or may not have seen the box full; it must not guess."""
    assert r["exit_code"] != 0, r
    if uncounted and r["status"] == "error":
        assert r["limit"] is None, r
    else:
        ended(r, "pids", "pids")


def test_fork_bomb(limited, uncounted):
    r = limited("import os\nwhile True: os.fork()", "--pids", "16")
    failed_of_pids(r, uncounted)


def test_fork_bomb_that_goes_on(limited):
    code = """
        import os
        while True:
            try: os.fork()
            except OSError: pass
    """
    ended(limited(code, "--pids", "16", "--timeout", "2"), "timeout", "wall_time", 124)


def test_threads_are_counted(limited, uncounted):
    code = """
        import threading
        e = threading.Event()
        t = [threading.Thread(target=e.wait, daemon=True) for _ in range(100)]
        for x in t: x.start()
    """
    r = limited(code, "--pids", "16")
    failed_of_pids(r, uncounted)
    assert "can't start new thread" in r["stderr"]


def test_how_many_processes_there_can_be(limited):
    code = """
        import os, time
        n = 0
        try:
            while n < 100:
                if os.fork() == 0: time.sleep(1000)
                n += 1
        except OSError:
            pass
        print(n)
    """
    r = limited(code, "--pids", "16")
    ended(r, "ok", None, 0)  # the refusal was handled: the run did not fail of it
    assert 8 <= int(r["stdout"]) < 16


# ---- CPU share ---------------------------------------------------------------------------------


@pytest.mark.parametrize("cpus", [0.25, 1.0])
def test_cpu_share(gb, has_cgroups, cpus):
    """Three busy processes use no more than their share; nothing here asks for speed."""
    if not has_cgroups:
        pytest.skip("a CPU share needs cgroups")
    code = """
        import os, time
        end = time.monotonic() + 3
        for _ in range(2):
            if os.fork() == 0: break
        while time.monotonic() < end: pass
    """
    r = gb.receipt(code, "--cpus", str(cpus))
    usage = r["usage"]
    assert usage["cpu_ms"] <= usage["wall_ms"] * cpus * 1.5 + 150, usage


# ---- a group of one's own ----------------------------------------------------------------------


@pytest.fixture
def group():
    """A new cgroup v2 beside ours, such as a service has that was delegated to its user."""
    lines = read_proc("self", "cgroup").decode().splitlines()
    own = [line[3:] for line in lines if line.startswith("0::")]
    places = [os.path.dirname(top + own[0]) for top in cgroup_mounts() if own and own[0] != "/"]
    for place in places:
        handed_down = os.path.join(place, "cgroup.subtree_control")
        if os.access(place, os.W_OK) and os.access(handed_down, os.W_OK):
            with open(handed_down, encoding="ascii") as f:
                if {"memory", "pids"} <= set(f.read().split()):
                    break
    else:
        pytest.skip("no place on cgroup v2 where we could make a group")
    path = os.path.join(place, "gbtest." + uuid.uuid4().hex)
    os.mkdir(path)
    yield path

    def gone():
        reap_orphans(set())
        with contextlib.suppress(OSError):  # whoever came back into it may still be leaving
            os.rmdir(path)
        return not os.path.exists(path)

    wait_for(gone, what="the group to be empty")


@pytest.mark.parametrize("end", ["orderly", "killed"])
def test_alone_in_a_group(gb, group, end):
    """Whoever is in the way of our own boxes' groups goes into a leaf, and comes back."""

    def enter():
        with open(os.path.join(group, "cgroup.procs"), "w", encoding="ascii") as f:
            f.write("0")

    code = "print('up', flush=True); input()"
    p = gb.start("run", "--cgroups", "v2", "-c", code, preexec_fn=enter)
    assert p.stdout.readline() == b"up\n", p.stderr.read()
    assert glob.glob(group + "/glovebox.[0-9a-f]*/*/memory.max")
    if end == "orderly":
        assert gb.finish(p, b"\n").code == 0
    else:
        p.kill()
        p.wait()

    def gone():
        reap_orphans(set())  # a PID namespace ends when somebody has collected all that was in it
        return not glob.glob(group + "/*/")

    wait_for(gone, what="the groups to go")


# ---- disk --------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["/workspace", "/tmp", "/dev/shm"])
def test_disk_bytes(limited, place):
    r = limited(f"open('{place}/big', 'wb').write(b'x' * (20 << 20))", "--disk", "8m")
    ended(r, "disk", "disk_bytes", 1)
    assert r["error"]["name"] == "OSError"


def test_disk_bytes_in_many_files(limited):
    code = "for i in range(1000): open(f'f{i}', 'wb').write(b'x' * 100_000)"
    ended(limited(code, "--disk", "8m"), "disk", "disk_bytes", 1)


def test_disk_full_but_handled(limited):
    code = """
        try: open("big", "wb").write(b"x" * (20 << 20))
        except OSError as e: print(e.errno)
    """
    r = limited(code, "--disk", "8m", "--file-size", "64m")
    ended(r, "ok", None, 0)
    assert r["stdout"] == "28\n"


def test_disk_inodes(limited):
    r = limited("for i in range(1000): open(f'f{i}', 'w').close()", "--inodes", "100")
    ended(r, "disk", "disk_inodes", 1)


def test_file_size(limited):
    r = limited("open('big', 'wb').write(b'x' * (2 << 20))", "--file-size", "1m")
    ended(r, "disk", "file_size", 1)


def test_file_size_of_a_sparse_file(limited):
    """Nothing is left by which the verdict could name the limit; that it fails is enough."""
    r = limited("open('big', 'wb').truncate(1 << 40)")
    assert r["status"] in ("disk", "error") and "File too large" in r["stderr"], r


def test_file_size_does_not_limit_output(limited):
    r = limited("print('x' * (2 << 20))", "--file-size", "1m")
    ended(r, "ok", None, 0)


def test_open_files(limited):
    r = limited("a = []\nwhile True: a.append(open('/dev/null'))", "--open-files", "64")
    assert (r["status"], r["exit_code"], r["error"]["name"]) == ("error", 1, "OSError")
    assert "Too many open files" in r["error"]["value"]


def test_open_files_count(limited):
    code = """
        a = []
        try:
            while True: a.append(open("/dev/null"))
        except OSError:
            print(len(a))
    """
    assert 40 <= int(limited(code, "--open-files", "64")["stdout"]) <= 64


def test_limits_cannot_be_raised(limited):
    code = """
        import resource
        for name in sorted(n for n in dir(resource) if n.startswith("RLIMIT_")):
            soft, hard = resource.getrlimit(getattr(resource, name))
            if hard == resource.RLIM_INFINITY: continue
            try: resource.setrlimit(getattr(resource, name), (hard + 1, hard + 1))
            except (ValueError, OSError): continue
            print(name)
    """
    assert limited(code)["stdout"] == ""


# ---- output ------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_output_flood(limited, stream):
    code = f"import sys\nwhile True: sys.{stream}.write('x' * 100_000)"
    r = limited(code, "--output", "4m")
    ended(r, "output", "output")
    assert r["exit_code"] != 0
    assert r["truncated"][stream] > 0 and len(r[stream]) <= 2 << 20


def test_output_of_a_gigabyte(limited):
    ended(limited("print('x' * 10**9)", "--memory", "2g"), "output", "output")


def test_output_flood_that_swallows_every_error(limited):
    code = """
        import os, signal
        signal.signal(signal.SIGPIPE, signal.SIG_IGN)
        while True:
            try: os.write(1, b"x" * 100_000)
            except BaseException: pass
    """
    ended(limited(code, "--output", "4m"), "output", "output")


def test_output_flood_of_a_child(limited):
    code = "import subprocess; subprocess.run(['yes'])"
    ended(limited(code, "--output", "4m"), "output", "output")


def test_output_up_to_the_quota(gb, mode):
    code = "import sys; sys.stdout.write('x' * (1 << 20))"
    r = gb.py(code, "--output", "1m", "--cgroups", mode)
    assert (r.code, len(r.out)) == (0, 1 << 20)


def test_output_over_the_quota_is_cut(gb, mode):
    r = gb.py("print('x' * 10**7)", "--output", "1m", "--cgroups", mode)
    assert r.code != 0 and len(r.out) <= (1 << 20) + 65536


def resident_peak(pid):
    with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as f:
        return next(int(line.split()[1]) * 1024 for line in f if line.startswith("VmHWM"))


def test_slow_reader_holds_the_program_back(gb, mode):
    """What the reader has not taken is not kept in our memory without bound."""
    # Not os.write(), which may write less when a stall (a freezer) interrupts it.
    code = "import sys\nfor i in range(400): sys.stdout.buffer.write(b'x' * 100_000)"
    p = gb.start("run", "--cgroups", mode, "--output", "1g", "-c", code)
    got = len(p.stdout.read(4096))
    base = resident_peak(p.pid)
    time.sleep(1)  # the time in which it would swallow all 40 MB
    assert resident_peak(p.pid) - base < 16 << 20
    while chunk := p.stdout.read1(65536):
        got += len(chunk)
    assert p.wait(60) == 0 and got == 40_000_000
