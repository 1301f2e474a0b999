#!/usr/bin/python3
"""Mixed load for the service, by many clients at once; then everything must be as it was before.

usage: soak.py GLOVEBOX            SOAK_SECONDS (1800) and SOAK_CLIENTS (16) are in the environment

Starts a server, remembers its processes, mounts, cgroups, descriptors and threads, and lets clients
do what clients do: one-shots, sessions whose variables are checked, streams, coming back to what was
left, interrupts, timeouts, losses, files up and down, archives, commands, bad requests, vanishing in
the middle. Each result carries a token of who asked for it, so one that was crossed or lost is
noticed. Then all sessions are deleted, the executions that the server keeps are pushed out by new
ones, and what it has is compared with the start. At last it is told to stop and must leave nothing.

Exit code 1 on any difference, wrong result or 5xx. A run can be repeated with SOAK_SEED.
"""

import collections
import contextlib
import errno
import hashlib
import http.client
import json
import os
import pathlib
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

SECONDS = float(os.environ.get("SOAK_SECONDS", "1800"))
CLIENTS = int(os.environ.get("SOAK_CLIENTS", "16"))
SEED = os.environ.get("SOAK_SEED", "%d" % time.time())
SETTLE = 180  # seconds in which things must be as before
FAILURES_SHOWN = 40
POOL = 4


class Wrong(Exception):
    """A result that is not what it must be."""


class Report:
    """What happened, counted; shared by all clients."""

    def __init__(self):
        self.lock = threading.Lock()
        self.done = collections.Counter()
        self.statuses = collections.Counter()
        self.failures = []

    def count(self, what):
        with self.lock:
            self.done[what] += 1

    def status(self, status):
        with self.lock:
            self.statuses[status] += 1

    def fail(self, text):
        with self.lock:
            self.failures.append(text)
            if len(self.failures) <= FAILURES_SHOWN:
                print("FAILED", text, flush=True)


# ---- what the server has ----


def read(path):
    return pathlib.Path(path).read_text(encoding="utf-8", errors="replace")


def descendants(root):
    parents = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError):
                parents[int(entry)] = int(read(f"/proc/{entry}/stat").rpartition(")")[2].split()[1])
    found, more = {root}, True
    while more:
        more = {pid for pid, parent in parents.items() if parent in found and pid not in found}
        found |= more
    return found - {root}


def cgroup_dirs(pids):
    """The engine's directory in each hierarchy, from what its processes say."""
    found = set()
    for pid in pids:
        with contextlib.suppress(OSError):
            for line in read(f"/proc/{pid}/cgroup").splitlines():
                _, names, path = line.split(":", 2)
                at = path.find("/glovebox.")
                if at >= 0:
                    engine = path[: path.find("/", at + 1)] if "/" in path[at + 1 :] else path
                    mounts = [*names.split(","), names, "unified", ""]
                    found |= {f"/sys/fs/cgroup/{m}{engine}".replace("//", "/") for m in mounts}
    return {d for d in found if os.path.isdir(d)}


def builder_of(server):
    """The child that is no box: its PID namespace is not one of its own, or is the keeper's."""
    for pid in sorted(descendants(server)):
        with contextlib.suppress(OSError):
            if "internal-builder" in read(f"/proc/{pid}/cmdline"):
                return pid
    sys.exit("soak: there is no builder")


class Census:
    """Numbers of all that may leak, by name. Other programs may mount things meanwhile, so of the
    host's mounts only those count that say where they come from; the builder's are all ours."""

    def __init__(self, server, builder, groups):
        self.numbers = {
            "processes": len(descendants(server)),
            "threads of the server": len(os.listdir(f"/proc/{server}/task")),
            "descriptors of the server": len(os.listdir(f"/proc/{server}/fd")),
            "descriptors of the builder": len(os.listdir(f"/proc/{builder}/fd")),
            "mounts of the builder": len(read(f"/proc/{builder}/mountinfo").splitlines()),
            "mounts of the host": read(f"/proc/{server}/mountinfo").count("glovebox"),
            "cgroups": sum(len(dirs) for g in groups for _, dirs, _ in os.walk(g)),
        }

    def differences(self, before):
        names = sorted(set(self.numbers) | set(before.numbers))
        return [
            f"{name}: {before.numbers.get(name)} before, {self.numbers.get(name)} after"
            for name in names if before.numbers.get(name) != self.numbers.get(name)
        ]


# ---- clients ----


class Client:
    """One client: its connection, its sessions, its dice."""

    def __init__(self, number, port, report, shared):
        self.name, self.port, self.report, self.shared = f"c{number}", port, report, shared
        self.random = random.Random(f"{SEED}-{number}")
        self.connection, self.counter = None, 0
        self.sessions = {}  # id: {variable: value}

    # Talking.

    def token(self):
        self.counter += 1
        return f"{self.name}-{self.counter}-{self.random.getrandbits(32):08x}"

    def send(self, method, path, body=None, headers=None):
        """The open reply, on the connection that is kept."""
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        for again in (True, False):
            if self.connection is None:
                self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
            try:
                self.connection.request(method, path, body, headers or {})
                reply = self.connection.getresponse()
            except (ConnectionError, http.client.RemoteDisconnected):
                # A connection that was idle may have been closed; a new one may not.
                self.hang_up()
                if not again:
                    raise
                continue
            self.report.status(reply.status)
            if reply.status >= 500:
                raise Wrong(f"{method} {path}: {reply.status} {reply.read()[:300]!r}")
            return reply
        raise AssertionError

    def ask(self, method, path, body=None, status=200, headers=None):
        reply = self.send(method, path, body, headers)
        data = reply.read()
        if reply.status == 429 and status != 429:
            time.sleep(0.2)
            return self.ask(method, path, body, status, headers)
        if reply.status != status:
            raise Wrong(f"{method} {path}: {reply.status}, not {status}: {data[:300]!r}")
        return json.loads(data) if "json" in reply.getheader("Content-Type", "") else data

    def hang_up(self):
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    def expect(self, receipt, **wanted):
        for name, value in wanted.items():
            if receipt.get(name) != value:
                raise Wrong(f"{name} is not {value!r}: {json.dumps(receipt)[:600]}")
        return receipt

    # Sessions.

    def session(self):
        if not self.sessions or (len(self.sessions) < 3 and self.random.random() < 0.2):
            found = self.ask("POST", "/v1/sessions", {}, 201)["session_id"]
            self.sessions[found] = {}
        return self.random.choice(list(self.sessions))

    def run(self, session, code, **body):
        return self.ask("POST", f"/v1/sessions/{session}/execute", {"code": code, **body})

    def check_variables(self, session):
        names = self.sessions[session]
        code = "print(*[globals().get(n) for n in %r])" % (list(names),)
        self.expect(self.run(session, code), status="ok", stdout=" ".join(names.values()) + "\n")

    def lost(self, session):
        """The receipt said that the variables are gone; the next cell must say so too."""
        self.ask("POST", f"/v1/sessions/{session}/execute", {"code": "1"}, 409)
        self.sessions[session] = {}

    # What clients do.

    def do_oneshot(self):
        token = self.token()
        path, field = self.random.choice((("/v1/execute", "code"), ("/execute", "code")))
        got = self.ask("POST", path, {field: f"import sys\nprint({token!r}, file=sys.stderr)\n{token!r}"})
        self.expect(got, status="ok", stderr=token + "\n", result={"text/plain": repr(token)}, stdout="")

    def do_variables(self):
        session, token = self.session(), self.token()
        name = "v%d" % self.random.randrange(5)
        self.expect(self.run(session, f"{name} = {token!r}"), status="ok")
        self.sessions[session][name] = token
        self.check_variables(session)

    def do_delete(self):
        if len(self.sessions) < 2:
            return
        session = self.random.choice(list(self.sessions))
        del self.sessions[session]
        self.ask("DELETE", f"/v1/sessions/{session}", status=204)
        self.ask("POST", f"/v1/sessions/{session}/execute", {"code": "1"}, 404)

    def do_shared(self):
        """All in one session: each gets its own result, in whatever order."""
        token = self.token()
        got = self.run(self.shared, f"mine = {token!r}\nprint(mine)\nmine", reply_bytes=1000)
        self.expect(got, status="ok", stdout=token + "\n", result={"text/plain": repr(token)})

    def events(self, reply):
        for line in reply:
            event = json.loads(line)
            if event["event"] != "keepalive":
                yield event["event"], event["data"]

    def do_stream(self):
        token, lines = self.token(), self.random.randrange(1, 200)
        session = self.random.choice([None, self.session()])
        path = f"/v1/sessions/{session}/execute" if session else "/v1/execute"
        code = f"import time\nfor i in range({lines}):\n    print(i, {token!r})\n    time.sleep(0.0005)"
        reply = self.send("POST", path, {"code": code, "timeout": 300},
                          {"Accept": "application/x-ndjson"})
        text, last = "", None
        for kind, data in self.events(reply):
            text += data["text"] if kind == "stdout" else ""
            last = kind, data
        if last is None or last[0] != "receipt":
            raise Wrong(f"a stream ended with {last}")
        wanted = "".join(f"{i} {token}\n" for i in range(lines))
        if text != wanted:
            raise Wrong(f"a stream of {lines} lines came as {text[:200]!r}")
        self.expect(last[1], status="ok", stdout=wanted)

    def do_vanish(self):
        """Leaves in the middle of a stream and comes back to it."""
        token, lines = self.token(), self.random.randrange(20, 100)
        code = f"import time\nfor i in range({lines}):\n    print(i, {token!r}, flush=True)\n    time.sleep(0.005)"
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        try:
            connection.request("POST", "/v1/execute", json.dumps({"code": code, "timeout": 300}),
                               {"Accept": "application/x-ndjson"})
            reply = connection.getresponse()
            self.report.status(reply.status)
            if reply.status != 200:
                raise Wrong(f"a stream was refused: {reply.status}")
            execution = json.loads(reply.readline())["data"]["execution_id"]
            if self.random.random() < 0.5:
                reply.readline()
        finally:
            if self.random.random() < 0.5 and connection.sock:
                linger = b"\1\0\0\0\0\0\0\0"  # a reset, not an end
                connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            connection.close()
        wanted = "".join(f"{i} {token}\n" for i in range(lines))
        if self.random.random() < 0.5:
            reply = self.send("GET", f"/v1/executions/{execution}/events", None,
                              {"Accept": "application/x-ndjson"})
            text = "".join(data["text"] for kind, data in self.events(reply) if kind == "stdout")
            if text != wanted:
                raise Wrong(f"what was left came back as {text[:200]!r}")
        got = self.ask("GET", f"/v1/executions/{execution}?wait=120")
        self.expect(got, status="ok", stdout=wanted)
        page = self.ask("GET", f"/v1/executions/{execution}/output?stream=stdout&offset=2")
        if page["text"] != wanted[2:] or page["total"] != len(wanted):
            raise Wrong(f"a page is {page}")

    def do_interrupt(self):
        session, token = self.session(), self.token()
        path = f"/v1/sessions/{session}/execute"
        code = f"print({token!r}, flush=True)\nimport time\nwhile True:\n    time.sleep(0.01)"
        execution = self.ask("POST", path, {"code": code, "detach": True, "timeout": 300},
                             202)["execution_id"]
        while self.ask("GET", f"/v1/executions/{execution}").get("output", {}).get("stdout") == 0:
            time.sleep(0.01)
        where = self.random.choice((f"/v1/executions/{execution}", f"/v1/sessions/{session}"))
        self.ask("POST", where + "/interrupt")
        got = self.ask("GET", f"/v1/executions/{execution}?wait=120")
        self.expect(got, status="cancelled", stdout=token + "\n")
        if got["session_lost"]:
            self.report.count("(starved)")
            self.lost(session)
        self.check_variables(session)

    def do_timeout(self):
        session, token = self.session(), self.token()
        got = self.run(session, f"print({token!r})\nimport time\ntime.sleep(60)", timeout=0.3)
        self.expect(got, status="timeout", exit_code=124)
        # On a busy machine time may be up before the first line has run, and the grace as well.
        if got["stdout"] not in ("", token + "\n"):
            raise Wrong(f"another's output: {got}")
        if got["session_lost"]:
            self.report.count("(starved)")
            self.lost(session)
        self.check_variables(session)

    def do_loss(self):
        """Nothing stops a loop in C but the end of the interpreter; the files stay."""
        session, token = self.session(), self.token()
        self.expect(self.run(session, f"open('kept', 'w').write({token!r}); None"), status="ok")
        got = self.expect(self.run(session, "sum(range(10**12))", timeout=0.2), status="timeout")
        if not got["session_lost"]:
            return  # time was up before it came to that
        self.lost(session)
        self.expect(self.run(session, "print(open('kept').read())"), status="ok", stdout=token + "\n")

    def do_killed(self):
        got = self.ask("POST", "/v1/execute", {"code": "import os\nos.kill(os.getpid(), 9)"})
        self.expect(got, status="killed", exit_code=137)

    def do_error(self):
        token = self.token()
        got = self.ask("POST", "/v1/execute", {"code": f"raise ValueError({token!r})"})
        self.expect(got, status="error", exit_code=1)
        if got["error"]["value"] != token:
            raise Wrong(f"another's error: {got['error']}")

    def do_output(self):
        """More than a receipt holds, and more than stays in memory."""
        session = self.session()
        got = self.run(session, "print('x' * 3_000_000)", reply_bytes=2000)
        self.expect(got, status="ok")
        if got["truncated"]["stdout"] < 2_900_000:
            raise Wrong(f"a receipt of {len(got['stdout'])} bytes left out {got['truncated']}")
        page = self.ask("GET", f"/v1/executions/{got['execution_id']}/output?stream=stdout&offset=2999999")
        if page["text"] != "x\n" or page["total"] != 3_000_001:
            raise Wrong(f"a page is {page}")

    def do_files(self):
        session, name = self.session(), "f%d" % self.random.randrange(8)
        data = self.random.randbytes(self.random.choice((0, 10, 5000, 300_000, 3_000_000)))
        path = f"/v1/sessions/{session}/files/dir/{name}"
        reply = self.send("PUT", path, data)
        reply.read()
        if reply.status not in (200, 201):
            raise Wrong(f"PUT: {reply.status}")
        if self.ask("GET", path) != data:
            raise Wrong("a file came back as another")
        got = self.run(session, f"import hashlib\nprint(hashlib.sha256(open('dir/{name}', 'rb').read()).hexdigest())")
        self.expect(got, status="ok", stdout=hashlib.sha256(data).hexdigest() + "\n")
        if len(data) > 100:
            part = self.ask("GET", path, None, 206, {"Range": "bytes=50-99"})
            if part != data[50:100]:
                raise Wrong("a range is wrong")
        if self.random.random() < 0.7:
            reply = self.send("DELETE", path)
            reply.read()
            self.ask("GET", path, None, 404)

    def do_archive(self):
        session = self.session()
        self.expect(self.run(session, "open('a.txt', 'w').write('a'); None"), status="ok")
        if self.ask("GET", f"/v1/sessions/{session}/archive")[:2] != b"\x1f\x8b":
            raise Wrong("an archive is none")

    def do_cut_upload(self):
        """Announces more than it sends."""
        session = self.session()
        with socket.create_connection(("127.0.0.1", self.port), timeout=120) as s:
            s.sendall(f"PUT /v1/sessions/{session}/files/cut HTTP/1.1\r\nHost: localhost\r\n"
                      "Content-Length: 1000000\r\n\r\n".encode() + b"x" * 100_000)
        self.ask("GET", f"/v1/sessions/{session}/files/cut", None, 404)

    def do_command(self):
        session, token = self.session(), self.token()
        got = self.ask("POST", f"/v1/sessions/{session}/commands",
                       {"command": f"echo {token} | cat", "shell": self.random.random() < 0.5})
        self.expect(got, status="ok", stdout=token + "\n")

    def do_cancel_on_disconnect(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        connection.request("POST", "/v1/execute", json.dumps(
            {"code": "import time\ntime.sleep(60)", "cancel_on_disconnect": True}))
        time.sleep(self.random.random() * 0.1)
        connection.close()

    def do_bad(self):
        session = "ses_" + "0" * 32
        method, path, body, status = self.random.choice((
            ("POST", "/v1/execute", b"{", 400), ("POST", "/v1/execute", b"[]", 422),
            ("POST", "/v1/execute", b'{"code": 1}', 422), ("POST", "/v1/execute", b"{}", 422),
            ("POST", "/v1/execute", b'{"code": "1", "no_such_field": 1}', 422),
            ("POST", "/v1/execute", b'{"code": "1", "timeout": 1e9}', 422),
            ("POST", "/v1/execute", b"[" * 5000, 400), ("GET", "/v1/nothing", None, 404),
            ("POST", f"/v1/sessions/{session}/execute", b'{"code": "1"}', 404),
            ("GET", "/v1/executions/exec_0", None, 404), ("PATCH", "/v1/execute", b"", 405),
            ("GET", f"/v1/sessions/{session}/files/..%2f..%2fetc/passwd", None, 400),
        ))
        reply = self.send(method, path, body)
        reply.read()
        if reply.status != status and not (status == 400 and reply.status == 404):
            raise Wrong(f"{method} {path} {body!r:.60}: {reply.status}, not {status}")

    def do_garbage(self):
        data = self.random.choice((
            b"\0\1\2\3", b"GET / HTTP/1.1\r\n\r\n", b"GET / HTTP/9.9\r\nHost: x\r\n\r\n", b"POST",
            b"POST /v1/execute HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n"
            b"Content-Length: 6\r\n\r\nhello!", b"A" * 100_000,
        ))
        with socket.create_connection(("127.0.0.1", self.port), timeout=120) as s:
            with contextlib.suppress(ConnectionError):
                s.sendall(data)
                try:
                    s.shutdown(socket.SHUT_WR)
                except OSError as error:  # ENOTCONN: the server has reset the connection already
                    if error.errno != errno.ENOTCONN:
                        raise
                while s.recv(65536):
                    pass

    def do_around(self):
        path = self.random.choice(("/health", "/metrics", "/v1/stats", "/v1/limits", "/v1/sessions",
                                   "/openapi.json", "/readyz"))
        self.ask("GET", path)

    WEIGHTS = {
        "oneshot": 12, "variables": 25, "delete": 4, "shared": 12, "stream": 10, "vanish": 4,
        "interrupt": 3, "timeout": 3, "loss": 1, "killed": 2, "error": 3, "output": 2, "files": 8,
        "archive": 1, "cut_upload": 1, "command": 5, "cancel_on_disconnect": 2, "bad": 6,
        "garbage": 2, "around": 3,
    }

    def step(self):
        what = self.random.choices(list(self.WEIGHTS), self.WEIGHTS.values())[0]
        try:
            getattr(self, "do_" + what)()
            self.report.count(what)
        except Exception as e:  # whatever it is: the soak goes on and says so at the end
            self.report.fail(f"{self.name} {what}: {type(e).__name__}: {e}")
            self.hang_up()
            # What it left may not be what the next step expects.
            self.forget()

    def forget(self):
        for session in list(self.sessions):
            del self.sessions[session]
            with contextlib.suppress(Exception):
                self.send("DELETE", f"/v1/sessions/{session}").read()

    def main(self, until):
        while time.monotonic() < until:
            self.step()
        self.forget()
        self.hang_up()


# ---- the server ----


def start(binary, directory):
    port_file = directory / "port"
    server = subprocess.Popen(
        [binary, "serve", "--listen", "127.0.0.1:0", "--port-file", port_file, "--data",
         directory / "data", "--preload", "none", "--pool", str(POOL), "--log-file", directory / "log",
         "--sweep", "5", "--max-sessions", "200"],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    while not port_file.exists():
        if server.poll() is not None:
            sys.exit(f"soak: the server ended with {server.returncode}: {read(directory / 'log')}")
        time.sleep(0.05)
    return server, int(read(port_file).split()[0])


def push_out(client):
    """So many executions that none of the load is kept any more: what was kept may hold files."""
    session = client.session()
    for _ in range(1100):
        client.run(session, "pass")
    client.forget()
    client.hang_up()


def settle(server, builder, groups, before):
    """The differences, once there are none, or when time is up."""
    end = time.monotonic() + SETTLE
    while True:
        found = Census(server.pid, builder, groups).differences(before)
        if not found or time.monotonic() > end:
            return found
        time.sleep(0.5)


def wait_steady(client, server, builder, groups):
    """The census once the pool is full: three times the same. On a slow machine a pool that is
    being filled looks steady too, so the server is asked."""
    end = time.monotonic() + SETTLE
    while f"\nglovebox_boxes_ready {POOL}\n".encode() not in client.ask("GET", "/metrics"):
        if time.monotonic() > end:
            sys.exit("soak: the pool does not fill")
        time.sleep(0.1)
    client.hang_up()
    last, same = None, 0
    while same < 3:
        time.sleep(0.5)
        now = Census(server.pid, builder, groups)
        same = same + 1 if last and not now.differences(last) else 0
        last = now
    return last


def load(port, report):
    maker = Client("m", port, report, None)
    shared = maker.session()
    clients = [Client(i, port, report, shared) for i in range(CLIENTS)]
    until = time.monotonic() + SECONDS
    threads = [threading.Thread(target=c.main, args=(until,), daemon=True) for c in clients]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    maker.forget()
    maker.hang_up()


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the server is stopped too
    report = Report()
    with tempfile.TemporaryDirectory(prefix="glovebox-test-soak.") as name:
        directory = pathlib.Path(name)
        server, port = start(sys.argv[1], directory)
        print(f"soak: {CLIENTS} clients, {SECONDS:.0f} s, SOAK_SEED={SEED}", flush=True)
        try:
            first = Client("w", port, report, None)
            first.do_oneshot()
            push_out(first)  # what is made at the first use is there now
            groups = cgroup_dirs(descendants(server.pid))
            builder = builder_of(server.pid)
            before = wait_steady(first, server, builder, groups)
            load(port, report)
            push_out(Client("e", port, report, None))
            for difference in settle(server, builder, groups, before):
                report.fail("left: " + difference)
        finally:
            server.send_signal(signal.SIGTERM)
            try:
                code = server.wait(180)
            except subprocess.TimeoutExpired:
                server.kill()
                code = server.wait()
        if code != 0:
            report.fail(f"the server ended with {code}: ...{read(directory / 'log')[-2000:]}")
        for group in groups:
            if os.path.exists(group):
                report.fail(f"left: {group}")
    for title, counter in (("done", report.done), ("status", report.statuses)):
        print(title + ":", ", ".join(f"{name} {count}" for name, count in counter.most_common()))
    print("before:", ", ".join(f"{name} {count}" for name, count in before.numbers.items()))
    print(f"soak: {sum(report.done.values())} steps, {len(report.failures)} failures")
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())
