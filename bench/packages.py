#!/usr/bin/python3
"""Installing a set of packages that another session already has, compared with pip.

usage: bench/packages.py GLOVEBOX OUT.JSON

Ours: one session installs a set; then new sessions, one after the other, install and import the same set.
It can be imported once the request is answered; the time of the cell that imports it is shown too. pip: the
same wheels from the same directory, `pip install` into a fresh virtual environment with a warm cache; creating
the environment is not counted. Both without a network.
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

from package_kit import make_wheel  # noqa: E402

OURS, PIPS = 30, 5
TARGET_MS, TARGET_TIMES = 20.0, 50.0
NAMES = ("benchone", "benchtwo", "benchthree")


class Service:
    def __init__(self, binary, directory, wheels):
        port_file = directory / "port"
        env = {k: v for k, v in os.environ.items() if not k.startswith(("PIP_", "GLOVEBOX"))}
        self.process = subprocess.Popen(
            [binary, "serve", "--listen", "127.0.0.1:0", "--port-file", port_file, "--data",
             directory / "data", "--pool", "4", "--index-url", "none", "--wheels", wheels,
             "--log-level", "warning"], env={**env, "PIP_CONFIG_FILE": "/dev/null"},
            stdout=subprocess.DEVNULL)
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
        service = Service(binary, directory, wheels)
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
    whole, install, pip = (statistics.median(v) * 1000 for v in (wholes, installs, pips))
    print(f"packages  first install {first * 1000:.0f} ms; known set p50 {install:.2f} ms, to imported "
          f"{whole:.2f} ms; pip into a fresh venv {pip:.0f} ms")
    times = pip / install
    verdict("ms until a known set can be imported", install, install <= TARGET_MS,
            f"≤ {TARGET_MS:.2f}")
    verdict("times faster than pip", times, times >= TARGET_TIMES, f"≥ {TARGET_TIMES:.2f}")
    with open(out, "w", encoding="utf-8") as f:
        json.dump({"packages": {"first_ms": first * 1000, "known_install_p50_ms": install,
                                "known_imported_p50_ms": whole, "pip_p50_ms": pip,
                                "times_faster": times},
                   "target_ms": TARGET_MS, "target_times": TARGET_TIMES}, f, indent=2)
    print(f"saved as {out}")


if __name__ == "__main__":
    main()
