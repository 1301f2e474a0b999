"""
MCP as bytes: clients for tests that say exactly what goes over the wire, right or wrong.

Http is one client of Streamable HTTP in either era, Sse one of HTTP+SSE, Stdio one of `glovebox
mcp`. The official clients, which cannot be made to send nonsense, are in tests/mcp.
"""

import contextlib
import http.client
import json
import queue
import subprocess
import threading

from conftest import SLOW
from serve_kit import Reply

LEGACY = "2025-11-25"
MODERN = "2026-07-28"
BOTH = "application/json, text/event-stream"
META = "io.modelcontextprotocol/"
PATIENCE = 60 * SLOW  # only ends what hangs
NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}

PARSE_ERROR, INVALID_REQUEST, NO_METHOD, INVALID_PARAMS = -32700, -32600, -32601, -32602
HEADER_MISMATCH, NO_VERSION = -32020, -32022


def request(method, params=None, number=1):
    message = {"jsonrpc": "2.0", "id": number, "method": method}
    return message if params is None else {**message, "params": params}


def notification(method, params=None):
    message = request(method, params)
    del message["id"]
    return message


def call(tool, number=1, progress=None, **arguments):
    """tools/call; @progress: the token to be told progress with."""
    params = {"name": tool, "arguments": arguments}
    if progress is not None:
        params["_meta"] = {"progressToken": progress}
    return request("tools/call", params, number)


def hello(version=LEGACY, number=1):
    return request("initialize", {"protocolVersion": version, "capabilities": {},
                                  "clientInfo": {"name": "test", "version": "1"}}, number)


def modern(message, version=MODERN):
    """@message with the envelope of the era without sessions."""
    params = dict(message.get("params") or {})
    envelope = {META + "protocolVersion": version, META + "clientCapabilities": {},
                META + "clientInfo": {"name": "test", "version": "1"}}
    params["_meta"] = {**envelope, **params.get("_meta", {})}
    return {**message, "params": params}


def modern_headers(message, **changed):
    """The headers that repeat what the body of @message says; None leaves one out."""
    headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": message["method"]}
    if message["method"] in NAMED:
        headers["Mcp-Name"] = message["params"][NAMED[message["method"]]]
    headers.update({name.replace("_", "-"): value for name, value in changed.items()})
    return {name: value for name, value in headers.items() if value is not None}


def text_of(response):
    """What a tool said, errors of the tool included."""
    content = response["result"]["content"]
    return "".join(part["text"] for part in content if part["type"] == "text")


def ran(response):
    """What a tool said, which must not be an error."""
    assert "result" in response and not response["result"].get("isError"), response
    return text_of(response)


def failed(response):
    """What a tool said is wrong."""
    assert "result" in response and response["result"].get("isError") is True, response
    return text_of(response)


def events(stream):
    """(id, event, data) of each event of an SSE stream, as it comes."""
    found = {}
    for line in stream:
        line = line.decode().rstrip("\r\n")
        if not line:
            if found:
                yield found.get("id"), found.get("event", "message"), found.get("data", "")
            found = {}
        elif not line.startswith(":"):
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            found[name] = found[name] + "\n" + value if name == "data" and name in found else value


def messages_of(reply):
    """The messages of a whole reply, whichever form it has."""
    kind = reply.headers.get("Content-Type", "")
    if kind.startswith("text/event-stream"):
        lines = reply.body.splitlines(keepends=True)
        return [json.loads(data) for _, _, data in events(lines + [b"\n"]) if data]
    return [json.loads(reply.body)] if reply.body else []


class Http:
    """A client of Streamable HTTP. In the era of sessions it has begun one."""

    def __init__(self, server, version=LEGACY, key=None):
        self.server, self.version, self.session, self.key = server, version, None, key
        self.numbers = iter(range(1000, 1000000))
        if version != MODERN:
            reply = self.post(hello(version))
            assert reply.status == 200, reply
            self.session = reply.headers["MCP-Session-Id"]
            self.welcome = messages_of(reply)[0]["result"]
            assert self.post(notification("notifications/initialized")).status == 202

    def headers(self, message=None, extra=None):
        found = {"Content-Type": "application/json", "Accept": BOTH}
        if self.key:
            found["Authorization"] = "Bearer " + self.key
        if self.version == MODERN:
            found.update(modern_headers(message) if isinstance(message, dict) else {})
        elif self.session:
            found.update({"MCP-Session-Id": self.session, "MCP-Protocol-Version": self.version})
        found.update({k.replace("_", "-"): v for k, v in (extra or {}).items()})
        return {name: value for name, value in found.items() if value is not None}

    def body(self, message):
        if isinstance(message, bytes):
            return message
        if self.version == MODERN and isinstance(message, dict):
            message = modern(message)
        return json.dumps(message).encode()

    def post(self, message, **headers):
        """Sends it and gives the whole reply. Bytes go as they are."""
        connection, reply = self.open(message, **headers)
        with contextlib.closing(connection):
            return Reply(reply.status, dict(reply.getheaders()), reply.read())

    def open(self, message, method="POST", path="/mcp", **headers):
        """Sends it; the caller reads the reply as it comes and closes the connection."""
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=PATIENCE)
        try:
            connection.request(method, path, None if message is None else self.body(message),
                               self.headers(message, headers))
            return connection, connection.getresponse()
        except BaseException:
            connection.close()
            raise

    def ask(self, message, status=200, **headers):
        """The response to a request, without what was said before it."""
        if isinstance(message, dict) and message.get("id") == 1:
            message = {**message, "id": next(self.numbers)}
        reply = self.post(message, **headers)
        assert reply.status == status, reply
        found = messages_of(reply)[-1]
        assert found["jsonrpc"] == "2.0" and ("result" in found) != ("error" in found), found
        if isinstance(message, dict):
            assert found["id"] == message["id"]
        return found

    def python(self, code, **words):
        return self.ask(call("execute_python", code=code, **words))

    @contextlib.contextmanager
    def underway(self, message, **headers):
        """A call that has said something; gives what it says from then on, and ends with the
        connection."""
        connection, reply = self.open(message, **headers)
        with contextlib.closing(connection), contextlib.closing(reply):
            assert reply.status == 200, reply.read()
            found = ((number, json.loads(data)) for number, _, data in events(reply) if data)
            first = next(found)
            assert first[1].get("method") == "notifications/progress", first
            yield found

    def end(self):
        return self.server.ask("DELETE", "/mcp", **self.headers())


LOOP = 'import time\nprint("begun", flush=True)\nwhile True: time.sleep(0.05)'


def loop(number=7, **words):
    """A call that says once that it has begun, and then runs until it is stopped."""
    return call("execute_python", number, progress="p", code=LOOP, timeout=100, **words)


class Lines:
    """What comes from somewhere line by line, read by a thread so that waiting can end."""

    def __init__(self, messages):
        self.queue = queue.Queue()
        self.thread = threading.Thread(target=self._read, args=(messages,), daemon=True)
        self.thread.start()

    def _read(self, messages):
        with contextlib.suppress(Exception):  # whatever comes of closing it beneath us
            for message in messages:
                self.queue.put(message)
        self.queue.put(None)

    def next(self):
        """The next message; None at the end."""
        return self.queue.get(timeout=PATIENCE)

    def response(self, number):
        while True:
            found = self.next()
            assert found is not None, "it hung up"
            if found.get("id") == number and "method" not in found:
                return found

    def notified(self, method):
        while True:
            found = self.next()
            assert found is not None, "it hung up"
            if found.get("method") == method:
                return found


class Sse:
    """A client of HTTP+SSE: one stream from the server, and a place to post to."""

    def __init__(self, server, path="/mcp/sse", version="2024-11-05"):
        self.server = server
        self.connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
        self.connection.request("GET", path, headers={"Accept": "text/event-stream"})
        self.reply = self.connection.getresponse()
        assert self.reply.status == 200, self.reply.read()
        stream = events(self.reply)
        _, event, self.endpoint = next(stream)
        assert event == "endpoint", event
        self.lines = Lines(json.loads(data) for _, event, data in stream if event == "message")
        self.numbers = iter(range(1000, 1000000))
        self.welcome = self.ask(hello(version))["result"]
        assert self.post(notification("notifications/initialized")).status == 202

    def post(self, message):
        body = message if isinstance(message, bytes) else json.dumps(message)
        return self.server.ask("POST", self.endpoint, body, Content_Type="application/json")

    def ask(self, message):
        if message.get("id") == 1:
            message = {**message, "id": next(self.numbers)}
        assert self.post(message).status == 202
        return self.lines.response(message["id"])

    def python(self, code, **words):
        return self.ask(call("execute_python", code=code, **words))

    def close(self):
        with contextlib.suppress(OSError):
            self.connection.sock.shutdown(2)
        self.reply.close()
        self.connection.close()
        self.lines.thread.join(PATIENCE)


class Stdio:
    """A client of `glovebox mcp`."""

    def __init__(self, gb, *options, version=LEGACY, env=None):
        # Nothing is imported ahead, so that a start takes little time.
        ahead = () if "--url" in options else ("--preload", "none")
        self.process = gb.start("mcp", *ahead, *options, env=env)
        self.errors = b""
        self.lines = Lines(map(json.loads, self.process.stdout))
        self.stderr = threading.Thread(target=self._read_errors, daemon=True)
        self.stderr.start()
        self.numbers = iter(range(1000, 1000000))
        self.version = version
        if version not in (None, MODERN):
            self.welcome = self.ask(hello(version))["result"]
            self.send(notification("notifications/initialized"))

    def _read_errors(self):
        with contextlib.suppress(OSError, ValueError):
            for line in self.process.stderr:
                self.errors += line

    def send(self, message):
        if not isinstance(message, bytes):
            message = json.dumps(message).encode() + b"\n"
        self.process.stdin.write(message)
        self.process.stdin.flush()

    def ask(self, message):
        if message.get("id") == 1:
            message = {**message, "id": next(self.numbers)}
        self.send(modern(message) if self.version == MODERN else message)
        return self.lines.response(message["id"])

    def python(self, code, **words):
        return self.ask(call("execute_python", code=code, **words))

    def hang_up(self):
        """Closes its input and waits for its end; gives the exit code."""
        self.process.stdin.close()
        code = self.process.wait(PATIENCE)
        self.lines.thread.join(PATIENCE)
        self.stderr.join(PATIENCE)
        return code
