#!/usr/bin/python3
"""Installing packages, compared with pip.

usage: bench/packages.py GLOVEBOX OUT.JSON

Known: one session installs a set; then new sessions, one after the other, install and import the same set.
It can be imported once the request is answered; the time of the cell that imports it is shown too. pip: the
same wheels from the same directory, `pip install` into a fresh virtual environment with a warm cache.

New: a session that has a set gets one more small package that the machine has never seen, from an index on
this machine's loopback; and `pip install --no-cache-dir` of such a package into a virtual environment, in
turns. Creating environments is not counted. All without a network.
"""

import http.client
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
import venv

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests" / "system"))

from package_kit import Index, find_uv, make_wheel  # noqa: E402

OURS, PIPS, TURNS = 30, 5, 9
TARGET_MS, TARGET_TIMES, TARGET_NEW = 20.0, 50.0, 1.2
NAMES = ("benchone", "benchtwo", "benchthree")


class Service:
    def __init__(self, binary, directory, *source):
        port_file = directory / "port"
        env = {k: v for k, v in os.environ.items() if not k.startswith(("PIP_", "GLOVEBOX"))}
        self.process = subprocess.Popen(
            [binary, "serve", "--listen", "127.0.0.1:0", "--port-file", port_file, "--data",
             directory / "data", "--pool", "4", "--uv", find_uv() or "none", "--log-level", "warning",
             *source], env={**env, "PIP_CONFIG_FILE": "/dev/null"}, stdout=subprocess.DEVNULL)
        while not port_file.exists():
            assert self.process.poll() is None, "the service ended"
            time.sleep(0.05)
        self.http = http.client.HTTPConnection("127.0.0.1", int(port_file.read_text()), timeout=600)

    def ask(self, path, body):
        self.http.request("POST", path, json.dumps(body))
        reply = self.http.getresponse()
        found = json.loads(reply.read())
        assert reply.status in (200, 201), found
        return found

    def session(self):
        return "/v1/sessions/" + self.ask("/v1/sessions", {})["session_id"]

    def install_and_import(self, session):
        start = time.perf_counter()
        made = self.ask(session + "/packages", {"packages": list(NAMES)})
        installed = time.perf_counter() - start
        receipt = self.ask(session + "/execute", {"code": "import " + ", ".join(NAMES)})
        assert receipt["status"] == "ok", receipt
        return made, installed, time.perf_counter() - start

    def stop(self):
        self.http.close()
        self.process.terminate()
        self.process.wait()


def pip_new(place, index, name):
    start = time.perf_counter()
    subprocess.run([place / "bin" / "pip", "install", "-q", "--no-cache-dir", "--index-url", index.url,
                    "--disable-pip-version-check", name], check=True,
                   env={**os.environ, "PIP_CONFIG_FILE": "/dev/null"})
    return time.perf_counter() - start


def new_packages(binary, directory):
    """How long one more small package takes: ours, pip's."""
    index = Index()
    place = directory / "venv-new"
    venv.create(place, with_pip=True)
    service = Service(binary, directory, "--index-url", index.url)
    try:
        index.wheel("benchbase", "1.0", {f"benchbase/m{i}.py": "x = 1\n" for i in range(200)})
        session = service.session()
        service.ask(session + "/packages", {"packages": ["benchbase"]})
        ours, pips = [], []
        for turn in range(TURNS):
            for who in ("ours", "pip"):
                index.wheel(f"bench{who}{turn}", "1.0")
            start = time.perf_counter()
            made = service.ask(session + "/packages", {"packages": [f"benchours{turn}"]})
            ours.append(time.perf_counter() - start)
            assert not made["cached"], made
            pips.append(pip_new(place, index, f"benchpip{turn}"))
        return ours, pips
    finally:
        service.stop()
        index.close()


def pip_once(directory, wheels, number):
    place = directory / f"venv{number}"
    venv.create(place, with_pip=True)
    env = {**os.environ, "PIP_CONFIG_FILE": "/dev/null", "PIP_CACHE_DIR": str(directory / "cache")}
    start = time.perf_counter()
    subprocess.run([place / "bin" / "pip", "install", "-q", "--no-index", "--find-links", wheels,
                    "--disable-pip-version-check", *NAMES], check=True, env=env)
    return time.perf_counter() - start


def verdict(name, value, good, wanted):
    print(f"  {name:<44} {value:10.2f}   goal {wanted}   {'yes' if good else 'NO'}")


def main():
    binary, out = sys.argv[1:3]
    with tempfile.TemporaryDirectory(prefix="glovebox-test-bench.") as name:
        directory = pathlib.Path(name)
        wheels = directory / "wheels"
        wheels.mkdir(mode=0o755)
        for package in NAMES:
            file, data = make_wheel(package, "1.0")
            (wheels / file).write_bytes(data)
        service = Service(binary, directory, "--index-url", "none", "--wheels", wheels)
        try:
            _, first, _ = service.install_and_import(service.session())
            installs, wholes = [], []
            for _ in range(OURS):
                made, installed, whole = service.install_and_import(service.session())
                assert made["cached"], made
                installs.append(installed)
                wholes.append(whole)
        finally:
            service.stop()
        pip_once(directory, wheels, "-warm")
        pips = [pip_once(directory, wheels, i) for i in range(PIPS)]
    with tempfile.TemporaryDirectory(prefix="glovebox-test-bench.") as name:
        new, new_pips = (statistics.median(v) for v in new_packages(binary, pathlib.Path(name)))
    whole, install, pip = (statistics.median(v) * 1000 for v in (wholes, installs, pips))
    print(f"packages  first install {first * 1000:.0f} ms; known set p50 {install:.2f} ms, to imported "
          f"{whole:.2f} ms; pip into a fresh venv {pip:.0f} ms")
    times = pip / install
    verdict("ms until a known set can be imported", install, install <= TARGET_MS,
            f"≤ {TARGET_MS:.2f}")
    verdict("times faster than pip", times, times >= TARGET_TIMES, f"≥ {TARGET_TIMES:.2f}")
    print(f"          one more small package p50 {new * 1000:.0f} ms; pip without a cache "
          f"{new_pips * 1000:.0f} ms")
    ratio = new / new_pips
    verdict("a new small package, of pip's time", ratio, ratio <= TARGET_NEW, f"≤ {TARGET_NEW:.2f}")
    with open(out, "w", encoding="utf-8") as f:
        json.dump({"packages": {"first_ms": first * 1000, "known_install_p50_ms": install,
                                "known_imported_p50_ms": whole, "pip_p50_ms": pip,
                                "times_faster": times, "new_p50_ms": new * 1000,
                                "new_pip_p50_ms": new_pips * 1000, "new_of_pip": ratio},
                   "target_ms": TARGET_MS, "target_times": TARGET_TIMES,
                   "target_new": TARGET_NEW}, f, indent=2)
    print(f"saved as {out}")


if __name__ == "__main__":
    main()
