"""`glovebox template`: other Pythons and virtual environments, alone and through the service.

Templates live outside /tmp, where boxes have their own: `place` is such a directory.
"""

import contextlib
import glob
import json
import os
import shutil
import signal
import stat
import subprocess
import tempfile
import threading

import pytest

from conftest import need, wait_for
from serve_kit import serve  # noqa: F401

ANY = None  # exit code
SYSTEM_PYTHON = "/usr/bin/python3"


def find_place():
    candidates = ["/srv", "/opt", os.environ.get("GB_TEST_PLACE"), os.path.expanduser("~")]
    for path in candidates:
        if path and os.access(path, os.W_OK) and not path.startswith(("/tmp", "/var/tmp")):
            return path
    return None


@pytest.fixture
def place():
    path = find_place()
    need(path, "there is no directory outside /tmp to write to")
    path = tempfile.mkdtemp(prefix="gbtest-", dir=path)
    os.chmod(path, 0o755)
    yield path
    shutil.rmtree(path, ignore_errors=True)


def make_venv(place, name="venv", python=SYSTEM_PYTHON, options=(), **modules):
    """A venv with these modules in it; without pip, which takes seconds."""
    path = os.path.join(place, name)
    subprocess.run([python, "-m", "venv", "--without-pip", *options, path], check=True, umask=0o022)
    (packages,) = glob.glob(f"{path}/lib/python3*/site-packages")
    for module, text in modules.items():
        with open(f"{packages}/{module}.py", "w", encoding="utf-8") as f:
            f.write(text)
        os.chmod(f.name, 0o644)
    return path


@pytest.fixture
def data(tmp_path):
    return str(tmp_path / "data")


@pytest.fixture
def template(gb, data):
    """`glovebox template` in that data directory; any exit code but @code fails the test."""

    def run(*args, code=0, **how):
        r = gb("template", *args, "--data", data, **how)
        assert code == ANY or r.code == code, (r.code, r.out, r.err)
        return r

    return run


def names(template):
    first, *others = template("list", "--json").receipt["templates"]
    assert first["name"] == "system" and first["default"]
    return [entry["name"] for entry in others]


# ---- by itself ----


def test_venv(template, gb, data, place):
    assert names(template) == []
    venv = make_venv(place, greet="def hello():\n    return 'hello from the venv'\n")
    secret = os.path.join(place, "secret")
    with open(secret, "w", encoding="ascii") as f:
        f.write("secret")
    os.chmod(secret, 0o644)
    template("add", "lab", "--venv", venv)
    assert names(template) == ["lab"]
    code = ("import greet, os, sys\n"
            f"print(greet.hello(), sys.prefix, os.listdir({place!r}))\n"
            f"print(os.access({venv!r} + '/lib', os.W_OK), os.path.exists({secret!r}))\n")
    r = gb("run", "--data", data, "--template", "lab", "-c", code)
    assert r.out == f"hello from the venv {venv} ['venv']\nFalse False\n", (r.out, r.err)
    receipt = gb("run", "--data", data, "--template", "lab", "--json", "-c", "1").receipt
    assert receipt["template"] == "lab"
    # Boxes of others see nothing of it.
    r = gb("run", "-c", f"import os; print(os.path.exists({place!r}))")
    assert r.out == "False\n", (r.out, r.err)
    assert gb("run", "--json", "-c", "1").receipt["template"] == "system"
    r = template("remove", "lab")
    assert names(template) == []
    r = gb("run", "--data", data, "--template", "lab", "-c", "1")
    assert r.code == 2 and "no such template: 'lab'; available: system" in r.err


def test_definition_is_ours_alone(template, data, place):
    venv = make_venv(place)
    template("add", "lab", "--venv", venv, "--no-check")
    path = os.path.join(data, "templates", "lab.json")
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(os.path.dirname(path)).st_mode) == 0o700
    assert os.listdir(os.path.dirname(path)) == ["lab.json"]
    os.chmod(path, 0o666)
    assert "writable by others" in template("check", "lab", code=1).err
    os.chmod(path, 0o600)
    os.chmod(os.path.dirname(path), 0o777)
    assert "writable by others" in template("list", code=1).err
    os.chmod(os.path.dirname(path), 0o700)
    for text in ("", "{", "[]", "{}", '{"version": 2}', "x" * 100000):
        with open(path, "w", encoding="ascii") as f:
            f.write(text)
        assert "remove it and add it again" in template("check", "lab", code=1).err
    good = {"version": 1, "kind": "venv", "source": venv, "python": f"{venv}/bin/python3",
            "preload": "", "binds": []}
    for change in ({"kind": "rootfs"}, {"binds": ["../etc"]}, {"binds": ["/a/../etc"]},
                   {"binds": ["/x"] * 17}, {"python": "python3"}, {"binds": "/etc"},
                   {"left_out": "x: y"}, {"left_out": [1]}, {"left_out": ["x: \x1b[31m"]},
                   {"left_out": ["x: " + "y" * 600]}):
        with open(path, "w", encoding="ascii") as f:
            json.dump({**good, **change}, f)
        assert "remove it and add it again" in template("check", "lab", code=1).err
    os.unlink(path)
    os.symlink("/etc/passwd", path)
    assert template("check", "lab", code=1).err
    template("remove", "lab")
    assert os.path.exists("/etc/passwd")


def test_check(template, place):
    venv = make_venv(place, one="", two="")
    template("add", "lab", "--venv", venv, "--preload", "one,two")
    r = template("check", "lab")
    assert r.out.startswith("lab works: Python 3.") and "preloaded  one two" in r.out
    seen = template("check", "lab", "--json").receipt
    assert seen["ok"] and seen["missing"] == [] and seen["in_box"]["prefix"] == venv
    assert seen["binds"] == [f"{venv}/bin", f"{venv}/lib", f"{venv}/pyvenv.cfg"]
    # What is gone since then is reported, with the fix.
    (module,) = glob.glob(f"{venv}/lib/python3*/site-packages/two.py")
    os.unlink(module)
    r = template("check", "lab", code=1)
    assert "two: ModuleNotFoundError" in r.out and "fix  " in r.out
    seen = template("check", "lab", "--json", code=1).receipt
    assert not seen["ok"] and seen["missing"][0].startswith("two: ModuleNotFoundError")
    shutil.rmtree(f"{venv}/bin")
    assert "bin" in template("check", "lab", code=1).err
    assert "no such template: 'other'; available: system, lab" in template("check", "other", code=1).err


# A thread inherits its name: set it (PR_SET_NAME), start the thread, set it back.
THREAD = ("import ctypes\nlibc = ctypes.CDLL(None)\nthread = ctypes.c_ulong()\n"
          "libc.prctl(15, b'{name}')\n"
          "libc.pthread_create(ctypes.byref(thread), None, libc.pause, None)\n"
          "libc.prctl(15, b'python3')\n")
KNOWN_THREAD = "polars-ooc-clea"  # in runner/glovebox_runner/leftovers.py

# Modules that leave something in the template that its clones cannot have, and what is said of it.
UNFIT = {
    "spins": ("import threading, time\n"
              "threading.Thread(target=time.sleep, args=(9999,), daemon=True).start()\n",
              "it left a thread (python3)"),
    "native": (THREAD.format(name="pool-7") * 2, "it left 2 threads (pool-7)"),
    # The name of a thread is not enough: it must be idle.
    "busy": ("import ctypes, threading, time\n"
             "def work():\n"
             f"    ctypes.CDLL(None).prctl(15, b'{KNOWN_THREAD}')\n"
             "    while True:\n        time.sleep(0.0001)\n"
             "threading.Thread(target=work, daemon=True).start()\n",
             f"it left a thread busy ({KNOWN_THREAD})"),
    "forks": ("import os, time\nif os.fork() == 0:\n    time.sleep(9999)\n", "it left a child process"),
    "daemon": ("import os, time\n"
               "if os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n        time.sleep(9999)\n"
               "    os._exit(0)\n", "it left a child process"),
    "holds": ("f = open('/usr/bin/env')\n", "it left /usr/bin/env open"),
    "listens": ("import socket\ns = socket.socket(socket.AF_UNIX)\n", "it left socket:["),
    "quits": ("import sys\nsys.exit(3)\n", "it raised SystemExit"),
    "exits": ("import os\nos._exit(3)\n", "it ended the interpreter with exit code 3"),
    "crashes": ("import ctypes\nctypes.string_at(1)\n", "it ended the interpreter with signal 11 (SEGV)"),
    "closes": ("import os, time\nos.close(3)\ntime.sleep(9999)\n", "it closed a descriptor"),
    "hangs": ("import os, time\nos.fork() or os.setsid()\ntime.sleep(9999)\n",
              "it took longer than 3 seconds"),
}


def test_unfit_modules_are_left_out(template, gb, data, place):
    """Each is named with the reason, costs one more start, and leaves no process behind. The
    others are preloaded, before and after it."""
    venv = make_venv(place, first="", last="", **{name: text for name, (text, _) in UNFIT.items()})
    wanted = [name for name in UNFIT if name != "hangs"]
    half = len(wanted) // 2
    for name, chosen in (("one", wanted[:half]), ("two", [*wanted[half:], "hangs"])):
        r = template("add", name, "--venv", venv, "--template-wait", "3",
                     "--preload", ",".join(["first", *chosen, "last"]))
        for module in chosen:
            assert f"not preloaded: {module}: {UNFIT[module][1]}" in r.err, (module, r.err)
        assert r.err.count("not preloaded: ") == len(chosen), r.err
        (entry,) = [e for e in template("list", "--json").receipt["templates"] if e["name"] == name]
        assert entry["preload"] == "first last", entry
        assert sorted(line.partition(":")[0] for line in entry["left_out"]) == sorted(chosen)
        r = template("check", name)
        assert f"left out   {chosen[0]}: {UNFIT[chosen[0]][1]}" in r.out and "fix  " in r.out, r.out
        seen = template("check", name, "--json").receipt
        assert seen["ok"] and seen["left_out"] == entry["left_out"]
        r = gb("run", "--data", data, "--template", name, "--preload", "all", "-c",
               "import sys; print([m in sys.modules for m in ('first', 'holds', 'exits', 'last')])")
        assert r.out == "[True, False, False, True]\n" and r.err == "", (r.out, r.err)
    wait_for(lambda: not children(None, place), what="the end of what modules started")
    # On the command line they are named to those who asked for them.
    r = gb("run", "--data", data, "--template", "one", "--preload", "first,holds", "-c",
           "import sys; print('first' in sys.modules); import holds; print(holds.f.name)")
    assert r.out == "True\n/usr/bin/env\n", (r.out, r.err)
    assert r.err == ("glovebox: not preloaded: holds: it left /usr/bin/env open; "
                     "programs can still import it\n")
    r = gb("run", "--quiet", "--data", data, "--template", "one", "--preload", "holds", "-c", "1")
    assert r.code == 0 and r.err == ""


def test_known_idle_threads_are_ended(template, gb, data, place):
    """Such a thread is no reason to leave out its module; the box has one thread, a join does not
    wait for what is not there, and neither does the end of the program."""
    exits = ("import atexit\n"
             "def wait():\n    print('waits')\n"
             "wait.__qualname__ = 'PyCapsule.pyo3-closure'\n"
             "atexit.register(wait)\natexit.register(print, 'exits')\n"
             "exec(compile('def cleanup(): print(1)', '<internal>', 'exec'))\n"  # as nanobind does
             "atexit.register(cleanup)\n")
    venv = make_venv(place, pool=THREAD.format(name=KNOWN_THREAD) + exits)
    r = template("add", "lab", "--venv", venv, "--preload", "pool")
    assert "not preloaded" not in r.err, r.err
    code = ("import os, pool, signal, sys\n"
            "print(len(os.listdir('/proc/self/task')), pool.libc.pthread_join(pool.thread, None))\n"
            "print(int(signal.getsignal(signal.SIGRTMAX)), os.waitpid(os.fork() or os._exit(7), 0)[1] >> 8)\n"
            "print([name for name in os.environ if 'MALLOC' in name])\n")
    r = gb("run", "--data", data, "--template", "lab", "-c", code)
    assert r.out == "1 0\n0 7\n[]\nexits\n", (r.out, r.err)


def test_a_library_handles_interrupts(template, gb, data, place):
    """A handler that a library has put in front of Python's stays: here one that does nothing."""
    handler = ("import ctypes\nlibc = ctypes.CDLL(None)\nlibc.signal.argtypes = (ctypes.c_int, ctypes.c_void_p)\n"
               "libc.signal.restype = ctypes.c_void_p\n"
               "libc.signal(2, ctypes.cast(libc.abs, ctypes.c_void_p))\n")
    template("add", "lab", "--venv", make_venv(place, handler=handler), "--preload", "handler")
    r = gb("run", "--data", data, "--template", "lab", "-c",
           "import handler, signal; signal.raise_signal(signal.SIGINT); print('goes on')")
    assert r.out == "goes on\n", (r.out, r.err)


def test_many_unfit_modules(template, gb, data, place):
    """They cannot make a template start over and over: after some, the rest is not tried."""
    many = {f"bad{i}": "f = open('/usr/bin/env')\n" for i in range(12)}
    venv = make_venv(place, good="", last="", **many)
    r = template("add", "lab", "--venv", venv, "--preload", ",".join(["good", *many, "last"]))
    assert r.err.count("it left /usr/bin/env open") == 8, r.err
    assert r.err.count("it was not tried") == 5, r.err
    r = gb("run", "--data", data, "--template", "lab", "-c", "import sys, good; print('good' in sys.modules)")
    assert r.out == "True\n", r.err


def test_preloads(template, gb, data, place):
    venv = make_venv(place, raises="raise ValueError('no\\nway')\n", crashes="import os\nos.abort()\n",
                     prints="import sys\nprint('x' * 200000, file=sys.stderr)\n", other="", third="",
                     counts="import os\nthen = os.cpu_count(), len(os.sched_getaffinity(0))\n")
    for module, why in [("raises", "raises: ValueError: no"), ("nothere", "nothere: ModuleNotFoundError")]:
        r = template("add", "lab", "--venv", venv, "--preload", module, code=2)
        assert why in r.err, r.err
        assert names(template) == []
    template("add", "lab", "--venv", venv, "--preload", "prints,other")
    loaded = "import sys; print([m for m in ('prints', 'other', 'third') if m in sys.modules])"
    # A template's own list is what `run` chooses from; those that the text names are enough for it.
    for options, out in [(["--preload", "all"], ["prints", "other"]), ([], ["prints", "other"]),
                         (["--preload", "third"], ["third"]), (["--preload", "none"], [])]:
        r = gb("run", "--data", data, "--template", "lab", *options, "-c", loaded)
        assert r.out == f"{out}\n", (options, r.out, r.err)
    r = gb("run", "--data", data, "--template", "lab", "-c", "import sys; print('numpy' in sys.modules)")
    assert r.out == "False\n", (r.out, r.err)
    # A library that counts CPUs when it is imported must not find those of the host.
    template("add", "counting", "--venv", venv, "--preload", "counts")
    r = gb("run", "--data", data, "--template", "counting", "--cpus", "64", "-c",
           "import counts, os; print(counts.then, counts.then[0] <= os.cpu_count())")
    assert r.out == "(1, 1) True\n", r.err
    # What is right today may be wrong tomorrow: added without a check, left out when it is used.
    template("add", "bad", "--venv", venv, "--preload", "crashes", "--no-check")
    r = gb("run", "--data", data, "--template", "bad", "-c", "print('crashes')")
    assert (r.code, r.out, r.err) == (0, "crashes\n", "")
    r = template("check", "bad")
    assert "left out   crashes: it ended the interpreter with signal 6 (ABRT)" in r.out, r.out


def test_interrupts_wait_for_the_program(template, gb, data, place):
    """Before it runs there are hooks that the modules of a template have registered: an interrupt
    that hit one of them would be lost."""
    hook = ("import os, signal\n"
            "def look():\n    global mask\n    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())\n"
            "os.register_at_fork(after_in_child=look)\n")
    template("add", "lab", "--venv", make_venv(place, hook=hook), "--preload", "hook")
    code = "import hook, signal; print(hook.mask, signal.pthread_sigmask(signal.SIG_BLOCK, ()))"
    r = gb("run", "--data", data, "--template", "lab", "-c", code)
    assert r.out == f"{ {signal.SIGINT} } set()\n", (r.out, r.err)


def test_bad_names(template, gb, data, place):
    venv = make_venv(place)
    for name in ("../x", "a/b", "/etc/x", "..", ".", "", "-x", ".hidden", "a b", "a\nb", "\u00e9",
                 "x" * 65, "x" * 5000, b"\xff\xfe", "default", "system", "auto", "a\x1b[31m"):
        r = gb("template", "add", "--venv", venv, "--data", data, "--", name)
        assert r.code == 2 and b"\x1b" not in r.raw_err and len(r.err) < 400, (name, r.err)
        r = gb("run", "--data", data, "--template", name, "-c", "1")
        assert r.code == (0 if name in ("default", "system") else 2), (name, r.err)
        if name:
            assert gb("template", "remove", "--data", data, "--", name).code in (1, 2), name
            assert gb("template", "check", "--data", data, "--", name).code in (1, 2), name
    assert not os.path.exists(os.path.join(data, "templates"))
    for name in ("a", "x" * 64, "python:3.12-slim", "A.b-c:d"):
        template("add", name, "--venv", venv, "--no-check")
    template("add", "a", "--venv", venv, "--no-check", code=1)
    template("add", "a", "--venv", venv, "--no-check", "--replace")
    template("add", "z", code=2)
    template("add", "z", "--venv", venv, "--python", SYSTEM_PYTHON, code=2)
    template("list", "--venv", venv, code=2)
    template("add", code=2)
    template("frobnicate", code=2)


def test_bad_paths(template, place, tmp_path, is_root):
    venv = make_venv(place)
    text = os.path.join(place, "text")
    with open(text, "w", encoding="ascii") as f:
        f.write("no program\n")
    script = os.path.join(place, "prefix", "bin", "script")
    os.makedirs(os.path.dirname(script))
    with open(script, "w", encoding="ascii") as f:
        f.write("#!/bin/sh\nexit 0\n")
    os.chmod(script, 0o755)
    fifo = os.path.join(place, "fifo")
    os.mkfifo(fifo, 0o755)
    for path, why in [
        ("/nonexistent/python3", "No such file"), (venv, "is a directory"), (text, "not an executable"),
        (script, "no standard library"), (fifo, "not an executable"), ("/dev/null", "not an executable"),
        ("/bin/true", "is it Python"), ("/usr/bin/env", ""), ("a" * 4000, ""), (b"/\xff", "printable"),
        ("/x\ny", "printable"),
    ]:
        r = run_any(template, "add", "x", "--python", path)
        assert r.code in (1, 2) and why in r.err and len(r.err) < 400, (path, r.err)
    os.mkdir(os.path.join(place, "empty"))
    broken = make_venv(place, "broken")
    for link in glob.glob(f"{broken}/bin/python*"):
        os.unlink(link)
    os.symlink("/nonexistent/python3", f"{broken}/bin/python3")
    loop = make_venv(place, "loop")
    for link in glob.glob(f"{loop}/bin/python*"):
        os.unlink(link)
    os.symlink("python3", f"{loop}/bin/python3")
    nohome = make_venv(place, "nohome")
    with open(f"{nohome}/pyvenv.cfg", "w", encoding="ascii") as f:
        f.write("version = 3.11\n")
    for path, why in [
        (os.path.join(place, "empty"), "not a virtual environment"), (broken, "is broken"),
        (loop, "is broken"), (nohome, "does not say"), (text, "not a virtual environment"),
        ("/nonexistent", "No such file"),
    ]:
        r = run_any(template, "add", "x", "--venv", path)
        assert r.code in (1, 2) and why in r.err, (path, r.err)
    # A box has its own /tmp; and what others may change is not trusted.
    inside = make_venv(str(tmp_path), "inside")
    if str(tmp_path).startswith("/tmp/"):
        assert "which boxes replace with their own" in run_any(template, "add", "x", "--venv", inside).err
    for spoilt in (f"{venv}/bin", f"{venv}/pyvenv.cfg", venv):
        mode = stat.S_IMODE(os.stat(spoilt).st_mode)
        os.chmod(spoilt, mode | 0o002)
        assert "writable by others" in run_any(template, "add", "x", "--venv", venv).err
        os.chmod(spoilt, mode)
    if is_root:
        os.chown(f"{venv}/bin", 12345, 12345)
        assert "user id 12345" in run_any(template, "add", "x", "--venv", venv).err
        os.chown(f"{venv}/bin", 0, 0)
    assert names(template) == []
    template("add", "x", "--venv", venv)


def run_any(template, *args):
    """Whatever the exit code; the caller looks at it."""
    return template(*args, code=ANY)


def test_links(template, gb, data, place):
    """A venv whose Python is behind links: directories and files, absolute and relative."""
    base = make_venv(place, "base", options=["--copies"])
    real = os.path.join(place, "python-1.2.3")
    os.makedirs(f"{real}/bin")
    os.makedirs(f"{real}/lib")
    os.symlink("/usr/bin/python3", f"{real}/bin/python3")
    os.symlink("python-1.2.3", os.path.join(place, "python-1"))
    os.symlink(os.path.join(place, "python-1"), os.path.join(place, "python"))
    for link in glob.glob(f"{base}/bin/python*"):
        os.unlink(link)
    os.symlink(os.path.join(place, "python", "bin", "python3"), f"{base}/bin/python3")
    template("add", "lab", "--venv", base)
    r = gb("run", "--data", data, "--template", "lab", "-c", "import sys; print(sys.prefix)")
    assert r.out == base + "\n", r.err
    # A link that comes into a path later leads nowhere: the template says so and does not follow.
    os.rename(f"{base}/lib", f"{base}/lib2")
    os.symlink("/etc", f"{base}/lib")
    r = gb("run", "--data", data, "--template", "lab", "-c",
           f"import os; print(os.path.exists({base!r} + '/lib/passwd-'))")
    assert r.out in ("", "False\n"), (r.out, r.err)


def other_pythons():
    """Interpreters of other versions on this machine: too old, the oldest that works, the newest."""
    found = glob.glob("/root/.pyenv/versions/3.*/bin/python3") if os.geteuid() == 0 else []
    found += glob.glob("/opt/python*/bin/python3")
    versions = {}
    for python in found:
        text = subprocess.run([python, "-c", "import sys; print(*sys.version_info[:2])"],
                              capture_output=True, text=True, check=True).stdout
        versions[tuple(map(int, text.split()))] = python
    old = [v for v in sorted(versions) if v < (3, 9)][-1:]
    good = [v for v in sorted(versions) if v >= (3, 9)]
    return {v: versions[v] for v in old + good[:1] + good[-1:]}


def test_other_versions(template, gb, data):
    """Every Python from 3.9 on works, older ones are refused; nothing to do where there is none."""
    for i, (version, python) in enumerate(other_pythons().items()):
        if version < (3, 9):
            r = run_any(template, "add", f"py{i}", "--python", python)
            assert r.code == 1 and "too old; a template needs 3.9" in r.err, r.err
            continue
        template("add", f"py{i}", "--python", python)
        code = "import sys, math\nclass A: x = 1\n(sys.version_info[:2], round(math.pi, 2), A.x)"
        r = gb("run", "--data", data, "--template", f"py{i}", "--cell", "-c", code)
        assert r.out == f"({version}, 3.14, 1)\n", (r.out, r.err)


# ---- through the service ----


@pytest.fixture
def lab(template, place):
    """Two templates; returns their venvs."""
    one = make_venv(place, "one", which="NAME = 'one'\n")
    two = make_venv(place, "two", which="NAME = 'two'\n")
    template("add", "one", "--venv", one, "--preload", "which")
    template("add", "two", "--venv", two)
    return one, two


def test_service(serve, data, lab, template):
    server = serve("--template-alias", "img:*=two", data=data)
    listed = server.good("GET", "/v1/templates")
    assert [t["name"] for t in listed["templates"]] == ["system", "one", "two"]
    assert listed["aliases"][0] == "img:*=two" and "python:*=default" in listed["aliases"]
    for wanted, name in (("one", "one"), ("two", "two"), ("img:3", "two"), ("default", "system"),
                         ("system", "system"), ("python:3.12-slim", "system"),
                         ("docker.io/library/python:3", "system")):
        made = server.good("POST", "/v1/sessions", {"template": wanted}, 201)
        assert made["template"] == name
        receipt = server.run(made["session_id"], "try:\n    import which\n    n = which.NAME\n"
                                                 "except ImportError:\n    n = 'system'\nprint(n)")
        assert receipt["stdout"] == name + "\n" and receipt["template"] == name
        assert server.good("GET", f"/v1/sessions/{made['session_id']}")["template"] == name
        receipt = server.good("POST", "/v1/execute", {"code": "import sys; print(sys.prefix)",
                                                      "template": wanted})
        assert receipt["template"] == name
        assert receipt["stdout"].strip().endswith("usr" if name == "system" else name)
    session = server.session(template="two")
    path = f"/v1/sessions/{session}/commands"
    receipt = server.good("POST", path, {"command": "python3 -c 'import which; print(which.NAME)'"})
    assert receipt["stdout"] == "two\n"
    events = server.events("/v1/execute", {"code": "print(1)", "template": "one"})
    assert events[-1]["data"]["template"] == "one"
    # Only a set of packages can have more over it: this one has a pip of its own.
    problem = server.problem(409, "POST", f"/v1/sessions/{session}/packages", {"packages": ["six"]})
    assert problem["type"].endswith(":package-template") and "template two" in problem["detail"]
    for bad in ("nope", "../one", "one/", "x" * 255, "\u00e9", " one", "one.json"):
        for path in ("/v1/sessions", "/v1/execute"):
            problem = server.problem(422, "POST", path, {"template": bad, "code": "1"}
                                     if path == "/v1/execute" else {"template": bad})
            assert "available: system, one, two" in problem["detail"], problem
            assert problem["errors"][0]["loc"][-1] == "template"
    server.problem(422, "POST", "/v1/sessions", {"template": "x" * 5000})
    server.problem(422, "POST", "/v1/sessions", {"template": 1})
    server.problem(400, "POST", "/v1/sessions", b'{"template": "\xff"}')


def test_service_sees_changes(serve, data, template, place):
    server = serve(data=data)
    server.problem(422, "POST", "/v1/sessions", {"template": "lab"})
    first = make_venv(place, "first", which="NAME = 'first'\n")
    second = make_venv(place, "second", which="NAME = 'second'\n")
    template("add", "lab", "--venv", first)
    old = server.session(template="lab")
    assert server.run(old, "import which; print(which.NAME)")["stdout"] == "first\n"
    template("add", "lab", "--venv", second, "--replace")
    new = server.session(template="lab")
    assert server.run(new, "import which; print(which.NAME)")["stdout"] == "second\n"
    template("remove", "lab")
    server.problem(422, "POST", "/v1/sessions", {"template": "lab"})
    # Those who have it keep it, also for a new interpreter and a new process.
    assert server.run(old, "import os; os._exit(1)")["session_lost"]
    receipt = server.run(old, "import which; print(which.NAME)", accept_loss=True)
    assert receipt["stdout"] == "first\n" and receipt["template"] == "lab"
    reply = server.good("POST", f"/v1/sessions/{new}/commands",
                        {"command": "python3 -c 'import which; print(which.NAME)'"})
    assert reply["stdout"] == "second\n"


def test_service_with_a_bad_one(serve, data, template, place):
    venv = make_venv(place, crashes="import os\nos.abort()\n", hangs="import time\ntime.sleep(9999)\n",
                     which="NAME = 'which'\n")
    broken = make_venv(place, "broken", which="")
    for module in ("crashes", "hangs"):
        template("add", module, "--venv", venv, "--preload", f"{module},which", "--no-check")
    template("add", "broken", "--venv", broken, "--no-check")
    os.unlink(f"{broken}/pyvenv.cfg")
    server = serve("--template-wait", "3", data=data)
    good = server.session()
    problem = server.problem(503, "POST", "/v1/sessions", {"template": "broken"})
    assert "template check broken" in problem["detail"] and place not in problem["detail"]
    # One that hangs holds up nobody but those who want it.
    look = "import sys; print('which' in sys.modules)"
    replies = []
    waiting = threading.Thread(target=lambda: replies.append(
        server.good("POST", "/v1/execute", {"code": look, "template": "hangs"})))
    waiting.start()
    try:
        assert server.run(good, "print(1)")["stdout"] == "1\n"
        assert server.good("POST", "/v1/execute", {"code": "print(2)"})["stdout"] == "2\n"
    finally:
        waiting.join()
    assert replies[0]["stdout"] == "True\n"
    assert len(server.good("GET", "/v1/sessions")["sessions"]) == 1
    for _ in range(2):
        session = server.session(template="crashes")
        assert server.run(session, look)["stdout"] == "True\n"
    # A new template of the same definition does not try it again, and the log has it once.
    before = children(server, place)
    for pid in before:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, 9)
    wait_for(lambda: not set(before) & set(children(server, place)), what="their end")
    assert server.run(server.session(template="crashes"), look)["stdout"] == "True\n"
    log = server.log.read_text()
    assert log.count("template crashes: not preloaded: crashes: it ended the interpreter with signal 6") == 1, log
    assert log.count("template hangs: not preloaded: hangs: it took longer than 3 seconds") == 1, log


def test_verdict_outlives_the_template(serve, data, template, place):
    """Unloaded and loaded again, it still knows what it cannot preload, and does not say it again."""
    venv = make_venv(place, bad="f = open('/usr/bin/env')\n", which="")
    template("add", "lab", "--venv", venv, "--preload", "bad,which", "--no-check")
    server = serve("--idle-templates", "0", data=data)
    for _ in range(2):
        session = server.session(template="lab")
        assert server.run(session, "import sys; print('which' in sys.modules)")["stdout"] == "True\n"
        server.good("DELETE", f"/v1/sessions/{session}", status=204)
        wait_for(lambda: not children(server, place), what="the end of the template")
    assert server.log.read_text().count("not preloaded: bad: it left /usr/bin/env open") == 1


def children(server, word):
    """Processes of the server whose command line has @word."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/cmdline", "rb") as f:
            if word.encode() in f.read().split(b"\0")[0]:
                found.append(int(pid))
    return found


def test_idle_ones_go(serve, data, template, place):
    for name in ("a", "b", "c"):
        template("add", name, "--venv", make_venv(place, name), "--no-check")
    server = serve("--idle-templates", "1", data=data)
    assert children(server, place) == []
    sessions = {name: server.session(template=name) for name in ("a", "b", "c")}
    for name in sessions:
        assert children(server, f"{place}/{name}/bin/python3")
    for name in ("a", "b", "c"):
        server.good("DELETE", f"/v1/sessions/{sessions[name]}", status=204)
    # Which of them stays depends on whose end was done last.
    wait_for(lambda: sum(bool(children(server, f"{place}/{name}/bin/")) for name in sessions) == 1,
             what="the end of the other templates")
    assert server.run(server.session(template="a"), "6 * 7")["result"]["text/plain"] == "42"


def test_template_that_dies(serve, data, template, place):
    """Its clones go on, and the next one gets a new template with the same root."""
    template("add", "lab", "--venv", make_venv(place, which="NAME = 'lab'\n"), "--no-check")
    server = serve(data=data)
    session = server.session(template="lab")
    server.run(session, "import which\nx = 5")
    before = children(server, place)
    for pid in before:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, 9)
    wait_for(lambda: not set(before) & set(children(server, place)), what="their end")
    other = server.session(template="lab")
    assert server.run(other, "import which; print(which.NAME)")["stdout"] == "lab\n"
