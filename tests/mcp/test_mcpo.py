"""The real mcpo, which makes an OpenAPI server of an MCP server, in front of /mcp/sse.

It is configured as docs/MCP.md says. It holds one connection for all its users, so nothing that one
call leaves may be there in the next."""

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess

import pytest

from conftest import ROOT, wait_for
from mcp_kit import KIT, kit, service  # noqa: F401

KEY = "mcpo-key"


class Mcpo:
    def __init__(self, port):
        self.port = port

    def ask(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        try:
            words = None if body is None else json.dumps(body)
            connection.request(method, path, words, {"Content-Type": "application/json",
                                                     "Authorization": "Bearer " + KEY})
            reply = connection.getresponse()
            return reply.status, json.loads(reply.read())
        finally:
            connection.close()

    def is_up(self):
        with contextlib.suppress(OSError, ValueError, http.client.HTTPException):
            return self.ask("GET", "/sandbox/openapi.json")[0] == 200
        return False

    def call(self, tool, **words):
        return self.ask("POST", "/sandbox/" + tool, words)


def documented(url):
    """The configuration of docs/MCP.md, with the address of this service."""
    with open(os.path.join(ROOT, "docs", "MCP.md"), encoding="utf-8") as f:
        text = f.read().partition("## mcpo")[2]
    found = json.loads(text.partition("```json\n")[2].partition("```")[0])
    sandbox = found["mcpServers"]["sandbox"]
    assert sandbox["type"] == "sse" and sandbox["url"].endswith("/mcp/sse")
    sandbox["url"] = url + "/mcp/sse"
    return found


def free_port():
    """mcpo wants to be told one; whoever takes it in between makes it fail, and it is tried again."""
    with socket.create_server(("127.0.0.1", 0)) as s:
        return s.getsockname()[1]


@contextlib.contextmanager
def started(folder, server):
    config = folder / "config.json"
    config.write_text(json.dumps(documented(server.url)))
    with open(folder / "log", "w+b") as log:
        for _ in range(3):
            port = free_port()
            process = subprocess.Popen(
                [os.path.join(KIT, "v1", "bin", "mcpo"), "--host", "127.0.0.1", "--port", str(port),
                 "--api-key", KEY, "--config", str(config)],
                env={**server.gb.environment(), "PYTHONDONTWRITEBYTECODE": "1"}, cwd=folder,
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                start_new_session=True)
            mcpo = Mcpo(port)
            try:
                wait_for(lambda: process.poll() is not None or mcpo.is_up(), 120, "mcpo")
                if process.poll() is None:
                    yield mcpo
                    return
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        log.seek(0)
        pytest.fail("mcpo ended: " + log.read().decode()[-3000:])


@pytest.fixture(scope="module")
def mcpo(tmp_path_factory):
    with service() as server, started(tmp_path_factory.mktemp("mcpo"), server) as running:
        yield running


def test_openapi(mcpo):
    status, found = mcpo.ask("GET", "/sandbox/openapi.json")
    assert status == 200
    assert {"/execute_python", "/pip_install", "/create_session", "/read_file"} <= set(found["paths"])


def test_runs_python(mcpo):
    status, answer = mcpo.call("execute_python", code="print(6 * 7)")
    assert status == 200 and "42" in json.dumps(answer)


def test_users_share_nothing(mcpo):
    mcpo.call("execute_python", code="secret = 'mine'")
    status, answer = mcpo.call("execute_python", code="print(secret)")
    assert "NameError" in json.dumps(answer), (status, answer)


def test_session(mcpo):
    status, made = mcpo.call("create_session")
    assert status == 200, made
    session = made["session_id"] if isinstance(made, dict) else json.loads(made)["session_id"]
    mcpo.call("execute_python", code="x = 20", session_id=session)
    status, answer = mcpo.call("execute_python", code="print(x + 1)", session_id=session)
    assert status == 200 and "21" in json.dumps(answer)
    mcpo.call("upload_file", path="a.txt", content="a word", session_id=session)
    status, answer = mcpo.call("read_file", path="a.txt", session_id=session)
    assert status == 200 and "a word" in json.dumps(answer)
    assert mcpo.call("close_session", session_id=session)[0] == 200


def test_plot(mcpo):
    code = "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()"
    status, answer = mcpo.call("execute_python", code=code)
    assert status == 200 and "data:image/png;base64,iVBOR" in json.dumps(answer)


def test_wrong_words(mcpo):
    assert mcpo.call("execute_python")[0] == 422
    status, answer = mcpo.call("execute_python", code="1", session_id="nope")
    assert "session" in json.dumps(answer), (status, answer)
    assert mcpo.call("execute_python", code="print('still here')")[0] == 200
