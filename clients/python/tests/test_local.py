"""A service of our own: it starts, it is private, and it never outlives us."""

import os
import signal
import stat
import subprocess
import sys
import time

import glovebox
import pytest
from conftest import BINARY, PACKAGE
from glovebox import local

QUICK = ["--preload", "none", "--pool", "1"]


def is_there(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as f:
            return f.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until(condition):
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, "it does not come to that"
        time.sleep(0.02)


def service_pids(directory):
    """Processes that were started with this directory: the keeper and the service."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                if directory.encode() in f.read():
                    found.append(int(pid))
        except OSError:
            pass
    return found


def test_it_serves_and_leaves_nothing():
    with local.LocalService(BINARY, QUICK) as service:
        assert stat.S_IMODE(os.stat(service.directory).st_mode) == 0o700
        pids = service_pids(service.directory)
        assert pids and glovebox.Client(service.url).run("print(1)").stdout == "1\n"
    assert not os.path.exists(service.directory)
    wait_until(lambda: not any(map(is_there, pids)))
    service.stop()


def program(code, **env):
    return subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(PACKAGE), "GLOVEBOX": BINARY,
             "GLOVEBOX_PRELOAD": "none", "GLOVEBOX_POOL": "1", **env})


TWICE = """
import os, sys
import glovebox.local as local
assert local.client() is local.client() is local.connect()
print(local.client().run("6 * 7").text, local._service.directory, flush=True)
"""


def test_one_for_each_process_and_it_ends_with_it():
    # Settings of our own that would send the service elsewhere are not passed on.
    with program(TWICE, GLOVEBOX_LISTEN="127.0.0.1:1", GLOVEBOX_API_KEY="x") as process:
        out, err = process.communicate(timeout=240)
    assert process.returncode == 0, err
    value, directory = out.decode().split()
    assert value == "42" and not os.path.exists(directory)
    wait_until(lambda: not service_pids(directory))


def test_a_child_does_not_end_it():
    code = TWICE + """
pid = os.fork()
if pid == 0:
    assert local.client().run("1").text == "1"
    sys.exit(0)  # runs what is registered for the exit
assert os.waitpid(pid, 0)[1] == 0
print(local.client().run("2").text)
"""
    with program(code) as process:
        out, err = process.communicate(timeout=240)
    assert process.returncode == 0 and out.decode().split()[-1] == "2", err


def test_it_dies_with_a_killed_owner():
    with program(TWICE + "import time; time.sleep(300)") as process:
        directory = process.stdout.readline().decode().split()[1]
        pids = service_pids(directory)
        assert pids
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=60)
    wait_until(lambda: not any(map(is_there, pids)) and not os.path.exists(directory))


def test_one_that_died_is_replaced(monkeypatch):
    monkeypatch.setenv("GLOVEBOX", BINARY)
    monkeypatch.setenv("GLOVEBOX_PRELOAD", "none")
    first = local.client()
    local._service.stop()
    second = local.client()
    assert second is not first and second.run("1").text == "1"
    local.stop()
    local.stop()


def test_no_binary(monkeypatch, tmp_path):
    for named in ("", "/no/such", str(tmp_path)):
        monkeypatch.setenv("PATH", str(tmp_path))
        monkeypatch.setenv("GLOVEBOX", named)
        with pytest.raises(glovebox.LocalServiceError, match="GLOVEBOX"):
            local.client()


def test_a_start_that_fails_says_why():
    with pytest.raises(glovebox.LocalServiceError, match="no-such-option"):
        local.LocalService(BINARY, ["--no-such-option"])
    with pytest.raises(glovebox.LocalServiceError):
        local.LocalService("/bin/false")


def test_the_environment_comes_first(service, monkeypatch):
    monkeypatch.setenv("GLOVEBOX_URL", service.url)
    assert local.connect().url == service.url and local._service is None
