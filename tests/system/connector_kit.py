"""
The connector without a broker: starts `glovebox internal-connector` with its two descriptors, sends
an order and reads messages and result, as src/connect/connect.h and result.h describe them.

    messages, result = connector.run({"op": "query", "source": {...}, "sql": "SELECT 1"})
    connector.good(order)      the result, decoded; fails unless it is done
    connector.bad(order)       the error message {"word", "text", ...}; fails unless it is one

`connector.start(order)` gives a Running, to cancel it or to look at its process.
"""

import base64
import collections
import contextlib
import datetime
import decimal
import fcntl
import json
import os
import signal
import socket
import struct
import tempfile
import time

import pytest

from conftest import BINARY, SLOW

PATIENCE = 120 * SLOW
FIXED = {"bool", "int", "float", "date", "time", "timestamp", "timestamptz"}

Result = collections.namedtuple("Result", "columns rows done messages raw")


class Running:
    """One connector. `control` is our end of its socket."""

    def __init__(self, order=None, binary=BINARY, env=None, raw=None):
        self.file = tempfile.TemporaryFile()
        self.control, theirs = socket.socketpair()
        self.control.settimeout(PATIENCE)
        null = os.open("/dev/null", os.O_RDWR)
        # High numbers first: 3 and 4 may be in use here.
        high = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 200) for fd in (theirs.fileno(), self.file.fileno(), null)]
        actions = [(os.POSIX_SPAWN_DUP2, high[2], fd) for fd in (0, 1, 2)]
        actions += [(os.POSIX_SPAWN_DUP2, high[0], 3), (os.POSIX_SPAWN_DUP2, high[1], 4)]
        try:
            self.pid = os.posix_spawn(binary, [binary, "internal-connector"], env or {},
                                      file_actions=actions)
        finally:
            for fd in (*high, null):
                os.close(fd)
            theirs.close()
        self.status = None
        if raw is not None:
            self.control.sendall(raw)
        elif order is not None:
            text = json.dumps(order).encode()
            self.control.sendall(struct.pack("<I", len(text)) + text)

    def _exactly(self, n):
        data = b""
        while len(data) < n:
            piece = self.control.recv(n - len(data))
            if not piece:
                return data
            data += piece
        return data

    def message(self):
        """The next message, or None at the end."""
        head = self._exactly(4)
        if len(head) < 4:
            return None
        length = struct.unpack("<I", head)[0]
        assert length <= 1 << 20, length
        body = self._exactly(length)
        assert len(body) == length, "the connector ended in the middle of a message"
        return json.loads(body)

    def messages(self):
        found = []
        while (message := self.message()) is not None:
            found.append(message)
        return found

    def wait(self, seconds=PATIENCE):
        """The exit code; negative: a signal."""
        end = time.monotonic() + seconds
        while self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = os.waitstatus_to_exitcode(status)
            elif time.monotonic() > end:
                pytest.fail("the connector does not end")
            else:
                time.sleep(0.005)
        return self.status

    def cancel(self):
        """What the broker does: hangs up."""
        self.control.close()

    def close(self):
        self.control.close()
        if self.status is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            self.wait()
        self.file.close()

    def result(self):
        self.file.seek(0)
        return self.file.read()


class Connector:
    def __init__(self, binary=BINARY):
        self.binary, self.started = binary, []

    def start(self, order=None, **how):
        running = Running(order, self.binary, **how)
        self.started.append(running)
        return running

    def run(self, order=None, **how):
        """All messages, and the bytes of the result file."""
        running = self.start(order, **how)
        messages = running.messages()
        code = running.wait()
        raw = running.result()
        running.close()
        self.started.remove(running)
        assert messages, f"no message; the connector ended with {code}"
        assert code == 0, (code, messages)
        assert messages[-1]["message"] in ("done", "error"), messages
        assert all(m["message"] in ("estimate", "progress") for m in messages[:-1]), messages
        return messages, raw

    def good(self, order, **how):
        messages, raw = self.run(order, **how)
        assert messages[-1]["message"] == "done", messages[-1]
        if order["op"] == "catalogue":
            return Result(None, json.loads(raw), messages[-1], messages, raw)
        if order["op"] == "check":
            return Result(None, None, messages[-1], messages, raw)
        columns, rows = decode(raw)
        assert messages[-1]["rows"] == len(rows) and messages[-1]["size"] == len(raw), messages[-1]
        return Result(columns, rows, messages[-1], messages, raw)

    def bad(self, order, word=None, **how):
        messages, _ = self.run(order, **how)
        error = messages[-1]
        assert error["message"] == "error", error
        assert error["text"], error
        assert word is None or error["word"] == word, error
        return error

    def close(self):
        for running in self.started:
            running.close()


@pytest.fixture
def connector():
    kit = Connector()
    yield kit
    kit.close()


# ---- results -----------------------------------------------------------------------------------


def chunks(raw):
    assert raw[:8] == b"GBRESULT", raw[:8]
    at = 8
    while at < len(raw):
        tag, zero, length = struct.unpack_from("<4sIQ", raw, at)
        assert zero == 0
        yield tag, raw[at + 16 : at + 16 + length]
        at += 16 + (length + 7) // 8 * 8
    assert at == len(raw), (at, len(raw))


def decode(raw):
    """(columns, rows): values as Python has them; infinite dates are the words themselves."""
    columns, rows, complete = None, [], False
    for tag, data in chunks(raw):
        assert not complete
        if tag == b"SCHM":
            columns = json.loads(data)["columns"]
        elif tag == b"BTCH":
            rows += batch(columns, data)
        elif tag == b"END ":
            assert json.loads(data)["rows"] == len(rows)
            complete = True
        else:
            assert False, tag
    assert complete, "the result has no end"
    return columns, rows


def batch(columns, data):
    n, at, found = struct.unpack_from("<Q", data)[0], 8, []
    for column in columns:
        nulls, at, mask = struct.unpack_from("<Q", data, at)[0], at + 8, None
        if nulls:
            mask = data[at : at + n]
            assert mask.count(1) == nulls and mask.count(0) == n - nulls
            at += (n + 7) // 8 * 8
        if column["type"] in FIXED and not column["repeated"]:
            form = "<%dd" if column["type"] == "float" else "<%dq"
            values = struct.unpack_from(form % n, data, at)
            at += 8 * n
        else:
            ends = struct.unpack_from("<%dQ" % (n + 1), data, at)
            assert ends[0] == 0
            at += 8 * (n + 1)
            values = [data[at + a : at + b] for a, b in zip(ends, ends[1:])]
            at += (ends[-1] + 7) // 8 * 8
        found.append([None if mask and mask[i] else value_of(column, v) for i, v in enumerate(values)])
    assert at == len(data), (at, len(data))
    return [tuple(values[i] for values in found) for i in range(n)]


def value_of(column, value):
    kind = column["type"]
    if column["repeated"] or kind == "record":
        return json.loads(value, parse_float=decimal.Decimal)
    if kind in ("int", "float"):
        return value
    if kind == "bool":
        return bool(value)
    if kind == "bytes":
        return bytes(value)
    if kind in ("date", "timestamp", "timestamptz") and abs(value) >= 2**63 - 1:
        return "infinity" if value > 0 else "-infinity"
    if kind == "time":
        return value
    try:
        if kind == "date":
            return datetime.date(1970, 1, 1) + datetime.timedelta(days=value)
        if kind in ("timestamp", "timestamptz"):
            zone = datetime.timezone.utc if kind == "timestamptz" else None
            return datetime.datetime(1970, 1, 1, tzinfo=zone) + datetime.timedelta(microseconds=value)
    except OverflowError:
        return value
    text = value.decode()
    return decimal.Decimal(text) if kind == "decimal" else text


def from_base64(text):
    return base64.b64decode(text, validate=True)
