"""
`glovebox serve` for tests: a fixture that starts servers, and a small client for them.

`serve(*options)` starts one on a free port and waits until it is ready; what it started is told to
stop at the end of the test and must leave with 0. Nothing is imported ahead unless a test asks for
it, so that a start takes little time.
"""

import http.client
import json
import os
import signal
import socket
import subprocess
import time

import pytest

from conftest import wait_for


class Reply:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self):
        return json.loads(self.body)

    def __repr__(self):
        return f"<{self.status} {self.body[:500]!r}>"


class Server:
    """A running server. Every request has its own connection."""

    def __init__(self, process, port, data, key=None):
        self.process, self.port, self.data, self.key = process, port, data, key

    def connect(self, timeout=180):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)

    def headers(self, extra):
        return {**({"Authorization": "Bearer " + self.key} if self.key else {}), **extra}

    def ask(self, method, path, body=None, **headers):
        """@body: an object becomes JSON; bytes and str go as they are."""
        if body is not None and not isinstance(body, (bytes, str)):
            body = json.dumps(body)
        if isinstance(body, str):
            body = body.encode()
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        connection = self.connect()
        try:
            connection.request(method, path, body, self.headers(headers))
            reply = connection.getresponse()
            return Reply(reply.status, dict(reply.getheaders()), reply.read())
        finally:
            connection.close()

    def good(self, method, path, body=None, status=200, **headers):
        reply = self.ask(method, path, body, **headers)
        assert reply.status == status, reply
        return reply.json if reply.body and "json" in reply.headers.get("Content-Type", "") else reply

    def problem(self, status, method, path, body=None, **headers):
        """The request is refused, in the form that every refusal has."""
        reply = self.ask(method, path, body, **headers)
        assert reply.status == status, reply
        assert reply.headers["Content-Type"] == "application/problem+json"
        problem = reply.json
        assert problem["status"] == status and problem["title"] and problem["detail"]
        assert problem["type"].startswith("urn:glovebox:problem:")
        if status == 422:
            assert all(e["loc"] and e["msg"] and e["type"] for e in problem["errors"]), problem
        if status in (429, 503):
            assert int(reply.headers["Retry-After"]) > 0
        return problem

    def session(self, **body):
        return self.good("POST", "/v1/sessions", body, 201)["session_id"]

    def run(self, session, code, **body):
        return self.good("POST", f"/v1/sessions/{session}/execute", {"code": code, **body})

    def stream(self, path, body=None, accept="application/x-ndjson", method="POST"):
        """Opens a stream; the caller reads events(reply) and closes the connection."""
        connection = self.connect()
        body = None if body is None else json.dumps(body)
        connection.request(method, path, body, self.headers({"Accept": accept}))
        reply = connection.getresponse()
        assert reply.status == 200, reply.read()
        return connection, reply

    def events(self, path, body=None, method="POST"):
        """All events of a stream of NDJSON, without those that only keep it alive."""
        connection, reply = self.stream(path, body, method=method)
        try:
            found = [json.loads(line) for line in reply]
        finally:
            connection.close()
        return [e for e in found if e["event"] != "keepalive"]

    def raw(self, data, timeout=180):
        """Sends bytes as they are; gives everything that comes back until the end."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=timeout) as s:
            try:
                s.sendall(data)
            except (BrokenPipeError, ConnectionResetError):
                pass
            found = b""
            try:
                while piece := s.recv(65536):
                    found += piece
            except ConnectionResetError:
                pass
            return found

    def memory(self):
        """Resident memory of the server's own process, in bytes."""
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as f:
            line = next(line for line in f if line.startswith("VmRSS:"))
        return int(line.split()[1]) * 1024

    def stop(self, sig=signal.SIGTERM, timeout=120):
        if self.process.poll() is None:
            self.process.send_signal(sig)
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            pytest.fail("the server does not stop")


def start_server(gb, folder, name, *options, key=None, env=None, preload="none", data=None, prefix=(), port=0):
    """Starts one whose files are in @folder, distinguished by @name, and waits until it is ready."""
    data = data or folder / f"data{name}"
    port_file, log = folder / f"port{name}", folder / f"log{name}"
    process = gb.start(
        "serve", "--listen", f"127.0.0.1:{port}", "--port-file", port_file, "--data", data,
        "--preload", preload, "--pool", "1", "--log-format", "json", "--log-file", log,
        *options, env=env, prefix=prefix, stdin=subprocess.DEVNULL,
    )
    wait_for(lambda: port_file.exists() or process.poll() is not None, 60, "the port file")
    if process.poll() is not None:
        pytest.fail("serve ended: " + process.stderr.read().decode())
    server = Server(process, int(port_file.read_text().split()[0]), data, key)
    server.log, server.port_file = log, port_file
    return server


def stop_servers(servers):
    """Those that still run must leave with 0 and take their port files with them."""
    for server in servers:
        if server.process.poll() is None:
            assert server.stop() == 0
            assert not os.path.exists(server.port_file)


@pytest.fixture
def serve(gb, tmp_path):
    servers = []

    def start(*options, **how):
        servers.append(start_server(gb, tmp_path, len(servers), *options, **how))
        return servers[-1]

    yield start
    stop_servers(servers)


@pytest.fixture
def server(serve):
    return serve()


def wait_running(server, execution, seconds=60):
    """Until an execution has left the line."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if server.good("GET", f"/v1/executions/{execution}")["status"] == "running":
            return
        time.sleep(0.02)
    pytest.fail("it does not run")
