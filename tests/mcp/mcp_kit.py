"""
What the proofs of MCP share: the official programs, and services for them to talk to.

`tools/mcp_kit.sh` has installed the programs; GB_MCP_KIT says where, else they are in the
default directory of that script. A service lives as long as its module, since a program that is proved against it takes
longer to start than to run; what it leaves behind is looked for when it has ended.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile

import pytest

from conftest import BINARY, ROOT, SLOW, Glovebox, leaves_nothing, need, wait_for

HERE = os.path.dirname(os.path.abspath(__file__))
KIT = os.environ.get("GB_MCP_KIT") or subprocess.run(
    [os.path.join(ROOT, "tools", "mcp_kit.sh"), "--where"], stdout=subprocess.PIPE, text=True,
    check=True).stdout.strip()
NODE = os.path.join(KIT, "node", "node")
FIXTURE_SERVER = os.path.join(os.path.dirname(BINARY), "tests", "mcp", "fixtures",
                              "mcp_fixture_server")
PATIENCE = 900 * SLOW  # only ends what hangs


def python(version):
    """The Python that has the client of that version: "v1" (and mcpo) or "v2"."""
    return os.path.join(KIT, version, "bin", "python")


@pytest.fixture(scope="session", autouse=True)
def kit():
    whole = all(os.path.exists(os.path.join(KIT, part, "stamp")) for part in ("node", "v1", "v2"))
    need(whole, f"no kit: run tools/mcp_kit.sh {KIT}")
    return KIT


def run(command, env=None, cwd=None):
    """Runs it to its end, with all that it started; gives (code, stdout, stderr)."""
    process = subprocess.Popen(command, env=env, cwd=cwd, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               start_new_session=True)
    try:
        out, err = process.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        out, err = b"", b"not done after %d s" % PATIENCE
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
        process.stderr.close()
    return process.returncode, out.decode(errors="replace"), err.decode(errors="replace")


class Service:
    def __init__(self, gb, process, port, data):
        self.gb, self.process, self.port, self.data = gb, process, port, data
        self.url = f"http://127.0.0.1:{port}"


@contextlib.contextmanager
def service(*options, preload="none", binary=BINARY):
    """`serve` with these options, and a home that must be as empty after it as before."""
    home = tempfile.mkdtemp(prefix="gbtest-home-")
    data = tempfile.mkdtemp(prefix="gbtest-data-")
    port_file = os.path.join(data, "port")
    gb = Glovebox(home)
    gb.binary = binary
    try:
        with leaves_nothing(home), open(os.path.join(data, "log"), "w+b") as log:
            try:
                process = gb.start(
                    "serve", "--listen", "127.0.0.1:0", "--port-file", port_file,
                    "--data", os.path.join(data, "data"), "--pool", "1",
                    "--preload", preload, *options,
                    stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT,
                    stdout=log)
                wait_for(lambda: os.path.exists(port_file) or process.poll() is not None, 300,
                         "the port file")
                if process.poll() is not None:
                    log.seek(0)
                    pytest.fail("serve ended: " + log.read().decode())
                with open(port_file, encoding="ascii") as f:
                    port = int(f.read().split()[0])
                yield Service(gb, process, port, data)
                process.send_signal(signal.SIGTERM)
                assert process.wait(PATIENCE) == 0
            finally:
                gb.close()
    finally:
        shutil.rmtree(home, ignore_errors=True)
        shutil.rmtree(data, ignore_errors=True)
