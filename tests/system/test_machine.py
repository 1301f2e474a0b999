"""What a box tells about itself is true: its memory and CPUs, the names that programs expect."""

import json
import os
import pathlib
import shutil
import subprocess
import textwrap

import pytest
from conftest import BINARY, need
from serve_kit import serve, server  # noqa: F401
from test_limits import mode  # noqa: F401  a fixture: with and without control groups

MIB = 1 << 20

# One program says everything, because each run costs a template.
TELL = """
    import json, multiprocessing, os, resource, subprocess, sys

    def read(path):
        with open(path) as f:
            return f.read().strip()

    def of(command):
        return subprocess.run(command, shell=True, capture_output=True, text=True).stdout.strip()

    GROUP = "/sys/fs/cgroup"
    print(json.dumps({
        "meminfo": dict(line.split(":") for line in read("/proc/meminfo").splitlines()),
        "memory": [read(GROUP + "/memory.max"), read(GROUP + "/memory/memory.limit_in_bytes")],
        "cpu.max": read(GROUP + "/cpu.max"),
        "quota": [read(GROUP + "/cpu/cpu.cfs_quota_us"), read(GROUP + "/cpu/cpu.cfs_period_us"),
                  read(GROUP + "/cpu,cpuacct/cpu.cfs_quota_us")],
        "controllers": read(GROUP + "/cgroup.controllers").split(),
        "cpus": [os.cpu_count(), multiprocessing.cpu_count(), len(os.sched_getaffinity(0)),
                 len(os.sched_getaffinity(os.getpid())),
                 int(of("python3 -c 'import os; print(os.cpu_count())'"))],
        "configured": os.sysconf("SC_NPROCESSORS_CONF"),
        "true": len(__import__("posix").sched_getaffinity(0)),
        "threads": [os.environ[n] for n in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS",
                                            "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")],
        "child": of("echo $OMP_NUM_THREADS"),
    }))
"""


def tell(gb, *options):
    result = gb.py(TELL, "--preload", "none", *options)
    assert result.code == 0, result.err
    return json.loads(result.out)


@pytest.mark.parametrize("cpus,memory", [("1", 512), ("0.5", 256), ("2", 700), ("1000", 1024)])
def test_limits_are_the_machine(gb, mode, cpus, memory):  # noqa: F811
    host = len(os.sched_getaffinity(0))
    found = tell(gb, "--cgroups", mode, "--cpus", cpus, "--memory", f"{memory}m")
    usable = min(-(-float(cpus) // 1), host)
    lines = {name: value.split() for name, value in found["meminfo"].items()}
    for name in ("MemTotal", "MemFree", "MemAvailable"):
        assert lines[name] == [str(memory * 1024), "kB"]
    assert lines["SwapTotal"] == lines["SwapFree"] == ["0", "kB"]
    assert found["memory"] == [str(memory * MIB)] * 2
    quota = str(int(float(cpus) * 100000))
    assert found["cpu.max"] == quota + " 100000"
    assert found["quota"] == [quota, "100000", quota]
    assert {"cpu", "memory"} <= set(found["controllers"])
    assert found["cpus"] == [usable] * 5
    assert found["threads"] == [str(int(usable))] * 4
    assert found["child"] == str(int(usable))
    # A box is not tied to CPUs: what is sized by the highest number a program may run on stays so.
    assert found["true"] == host
    assert found["configured"] >= host


def test_own_affinity_is_not_hidden(gb):
    """A program that ties itself to a CPU sees that one; one that does not exist is an error."""
    result = gb.py("""
        import os, pickle, posix
        assert pickle.loads(pickle.dumps(os.sched_getaffinity)) is os.sched_getaffinity
        last = max(posix.sched_getaffinity(0))
        os.sched_setaffinity(0, {last})
        print(os.sched_getaffinity(0) == {last} == posix.sched_getaffinity(0))
        for bad in (999999, "x"):
            try:
                os.sched_getaffinity(bad)
            except (ProcessLookupError, TypeError) as error:
                print(type(error).__name__)
        """, "--preload", "none")
    assert result.out.split() == ["True", "ProcessLookupError", "TypeError"], result.err


def test_sessions_and_commands(server):  # noqa: F811
    """Cells, shell commands and programs by name see the same; variables of the session win."""
    usable = str(min(2, len(os.sched_getaffinity(0))))
    session = server.session(limits={"cpus": 2, "memory": "256m"},
                             env={"OMP_NUM_THREADS": "7", "OPENBLAS_NUM_THREADS": "many"})
    code = """
        import os
        cpus, total = os.cpu_count(), open("/proc/meminfo").readline().split()[1]
        [str(cpus), total, os.environ["OMP_NUM_THREADS"], os.environ["MKL_NUM_THREADS"]]
    """
    found = server.run(session, textwrap.dedent(code))
    assert found["status"] == "ok", found
    assert found["result"]["text/plain"] == repr([usable, "262144", "7", usable])
    server.run(session, "os.environ['MKL_NUM_THREADS'] = '3'")
    assert server.run(session, "os.environ['MKL_NUM_THREADS']")["result"]["text/plain"] == "'3'"
    path = f"/v1/sessions/{session}/commands"
    for command in ("echo $OMP_NUM_THREADS $MKL_NUM_THREADS",
                    """python -c 'import os; e = os.environ
print(e["OMP_NUM_THREADS"], e["MKL_NUM_THREADS"])'"""):
        found = server.good("POST", path, {"command": command})
        assert found["stdout"].split() == ["7", usable], found
    found = server.good("POST", path, {"command": "echo x > /home/user/y && cat /mnt/data/y"})
    assert found["stdout"] == "x\n" and [f["path"] for f in found["files"]] == ["y"], found


def test_blas_uses_the_cpus_of_its_box(gb):
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("needs two CPUs")
    code = """
        import os, sys
        print("numpy" in sys.modules)
        import numpy
        a = numpy.ones((600, 600))
        a @ a
        with open("/proc/self/maps") as maps:
            print("openblas" in maps.read(), len(os.listdir("/proc/self/task")))
        """
    one, two = (gb.py(code, "--preload", "numpy", "--cpus", n).out.split() for n in "12")
    if one[:2] != ["True", "True"]:
        pytest.skip("no numpy with OpenBLAS in /usr")
    assert one[2] == "1"
    assert two == ["True", "True", "2"]


def test_a_lost_child_in_a_session(server, has_cgroups):  # noqa: F811
    if not has_cgroups:
        pytest.skip("our own watch kills all at once")
    session = server.session(limits={"memory": "128m"})
    note = "glovebox: 1 process of this program was killed: the box's memory of 128m was full\n"
    server.good("PUT", f"/v1/sessions/{session}/files/greedy.py",
                b"a = []\nwhile True: a.append(bytearray(b'x' * (8 << 20)))", 201)
    cell = server.run(session, "!python3 greedy.py")
    assert (cell["status"], cell["usage"]["oom_kills"]) == ("ok", 1), cell
    assert cell["stderr"].endswith(note)
    assert server.run(session, "1 + 1")["usage"]["oom_kills"] == 0
    found = server.good("POST", f"/v1/sessions/{session}/commands",
                        {"command": "python3 greedy.py; echo $?"})
    assert (found["status"], found["stdout"]) == ("ok", "137\n"), found
    assert found["usage"]["oom_kills"] == 1 and found["stderr"].endswith(note)
    large = server.run(session, "x = b'x' * (80 << 20); del x")
    assert (large["status"], large["usage"]["oom_kills"], large["stderr"]) == ("ok", 0, "")


def test_names_that_programs_expect(gb):
    receipt = gb.receipt("""
        import os, pathlib, subprocess, sys
        for place in ("/mnt/data", "/home/user"):
            assert os.path.realpath(place) == "/workspace"
            pathlib.Path(place, place.replace("/", "_")).write_text("x")
        pathlib.Path("/mnt/data/tool").write_text("#!/usr/bin/env python\\nimport sys; print(sys.argv)")
        os.chmod("tool", 0o755)
        run = dict(shell=True, capture_output=True, text=True)
        print(subprocess.run("./tool 1", **run).stdout.strip())
        print(subprocess.run("python -c 'import sys; print(sys.version)'", **run).stdout.strip()
              == sys.version)
        subprocess.run("python -m venv --without-pip /tmp/v", check=True, **run)
        print(subprocess.run("/tmp/v/bin/python -c 'import sys, json; print(sys.prefix)'", **run)
              .stdout.strip())
        """, "--preload", "none")
    assert receipt["stdout"].splitlines() == ["['./tool', '1']", "True", "/tmp/v"], receipt
    assert {f["path"] for f in receipt["files"]} >= {"_mnt_data", "_home_user", "tool"}


@pytest.mark.parametrize("target", ["/mnt/data", "/mnt/data/deep", "/home/user", "/mnt"])
def test_a_volume_replaces_such_a_name(gb, tmp_path, target):
    tmp_path.chmod(0o755)
    pathlib.Path(tmp_path, "kept").write_text("theirs")
    other = "/home/user" if "mnt" in target else "/mnt/data"
    result = gb.py(f"""
        import os
        print(open({target!r} + "/kept").read(), os.path.realpath({target!r}),
              os.path.realpath({other!r}), os.listdir("/workspace"))
        """, "--preload", "none", "--volume", f"{tmp_path}:{target}")
    assert result.out.split() == ["theirs", target, "/workspace", "[]"], result.err


def test_terminals_are_limited(gb):
    """The kernel has one store of them for all boxes."""
    result = gb.py("""
        import errno, os
        kept = []
        try:
            while len(kept) < 100:
                kept.append(os.openpty())
        except OSError as error:
            print(len(kept), errno.errorcode[error.errno])
        """, "--preload", "none")
    assert result.out.split() == ["16", "ENOSPC"], (result.out, result.err)


# ---- locales -----------------------------------------------------------------------------------

SOURCES = "/usr/share/i18n/locales"
SCRIPT = os.path.join(os.path.dirname(__file__), "..", "..", "tools", "locales.sh")
GERMAN = """
    import locale, os, subprocess, time
    print(os.environ["LANG"], locale.setlocale(locale.LC_ALL, "de_DE.UTF-8"))
    print(locale.format_string("%.1f", 1234.5, grouping=True), time.strftime("%A", (0,) * 9))
    print(subprocess.run(["date", "-d", "2024-03-01", "+%B"], env={**os.environ, "LC_ALL": "de_DE.utf8"},
                         capture_output=True, text=True).stdout.strip())
    """


@pytest.fixture(scope="module")
def german(tmp_path_factory):
    """A copy of the binary with one locale next to it."""
    need(os.path.isdir(SOURCES), "the package locales is not installed")
    place = tmp_path_factory.mktemp("german")
    for directory in (place, place.parent):
        directory.chmod(0o755)
    shutil.copy(BINARY, place / "glovebox")
    subprocess.run([SCRIPT, place / "locales", "de_DE"], check=True, timeout=120)
    return place


def test_locales(gb, german, monkeypatch):
    monkeypatch.setattr(gb, "binary", str(german / "glovebox"))
    expected = ["C.UTF-8 de_DE.UTF-8", "1.234,5 Montag", "März"]
    plain = {"LANG": None, "LC_ALL": None}
    found = gb.py(GERMAN, "--preload", "none", env=plain)
    assert found.out.splitlines() == expected, found.err
    found = gb.py("import locale; print(locale.setlocale(locale.LC_ALL, ''))", "--preload", "none",
                  env={**plain, "LANG": "de_DE.UTF-8"})
    assert found.out == "de_DE.UTF-8\n", found.err
    # One that only the host has, perhaps: the C library must look there.
    for lang in ("xx_XX.UTF-8", "xx", "de_DE.ISO-8859-1", "xx@" + "y" * 60):
        found = gb.py("import os; print('LOCPATH' in os.environ)", "--preload", "none",
                      env={**plain, "LANG": lang})
        assert found.out == "False\n", (lang, found.err)


@pytest.mark.parametrize("spoil", ["open to others", "a link", "a file", "gone"])
def test_locales_that_are_not_used(gb, german, tmp_path, monkeypatch, spoil):
    tmp_path.chmod(0o755)
    shutil.copy(german / "glovebox", tmp_path)
    place = tmp_path / "locales"
    if spoil == "open to others":
        shutil.copytree(german / "locales", place)
        place.chmod(0o777)
    elif spoil == "a link":
        place.symlink_to("nowhere")
    elif spoil == "a file":
        place.write_text("")
    monkeypatch.setattr(gb, "binary", str(tmp_path / "glovebox"))
    found = gb.py("import os; print('LOCPATH' in os.environ)", "--preload", "none",
                  env={"LANG": None, "LC_ALL": None})
    assert found.out == "False\n", found.err


@pytest.mark.parametrize("name,code,said", [
    ("xx_XX", 123, "there is no locale xx_XX"),
    ("../../etc/passwd", 2, "not the name of a locale"),
    ("de_DE; id", 2, "not the name of a locale"),
    ("de_DE", 0, "no locales are made: there is no "),
])
def test_bad_locales(tmp_path, name, code, said):
    need(os.path.isdir(SOURCES), "the package locales is not installed")
    env = {**os.environ, "I18N_SOURCES": SOURCES if code else str(tmp_path / "nothing")}
    found = subprocess.run([SCRIPT, tmp_path / "made", name], capture_output=True, text=True, env=env)
    assert (found.returncode, said in found.stderr) == (code, True), found
    made = tmp_path / "made"
    assert not made.exists() or [p.name for p in made.iterdir()] == [".version"]
