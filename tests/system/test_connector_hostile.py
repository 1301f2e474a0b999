"""A server that is none: it hangs, lies, sends rubbish, hangs up at every byte, never stops. Always a
last message with a clear word, in bounded time and memory, and nothing is left."""

import concurrent.futures
import contextlib
import struct
import time

from connector_kit import connector  # noqa: F401
from fake_postgres import (BOUND, GOOD, PARSED, READY, Fake, columns, done, endless, hang, message, row,
                           text)
from tls_kit import REFUSED, certificates

from conftest import SLOW

BROKEN = ("broken", "unreachable", "timeout", "denied", "sql", "too-large", "unsupported", "internal")


@contextlib.contextmanager
def fake(steps=None, tls=None):
    server = Fake(steps, tls)
    try:
        yield server
    finally:
        server.close()


def order(server, ms=20000, **limits):
    return {"op": "query", "sql": "SELECT x", "params": None,
            "source": {"kind": "postgresql", "host": "127.0.0.1", "port": server.port, "dbname": "d",
                       "user": "u", "password": "the-password-1234", "sslmode": "disable"},
            "limits": {"rows": 1000, "bytes": 1 << 22, "ms": ms, **limits}}


def peak_memory(pid):
    with contextlib.suppress(OSError, StopIteration):
        with open(f"/proc/{pid}/status", encoding="ascii") as f:
            return int(next(line for line in f if line.startswith("VmHWM:")).split()[1]) << 10
    return 0


def outcome(connector, server, **how):
    """The last message, and the most memory that was seen."""
    running, peak = connector.start(order(server, **how)), 0
    last = None
    while (got := running.message()) is not None:
        last, peak = got, max(peak, peak_memory(running.pid))
    assert running.wait() == 0
    running.close()
    assert last and last["message"] in ("done", "error"), last
    assert "the-password-1234" not in str(last)
    return last


def test_the_fake_is_good_enough(connector):
    with fake() as server:
        result = connector.good(order(server))
        assert result.rows == [(42,)] and result.columns[0]["name"] == "x"


def test_hangs_at_every_stage(connector):
    for stage in GOOD:
        with fake({**GOOD, stage: hang}) as server:
            start = time.monotonic()
            last = outcome(connector, server, ms=250)
            assert last["word"] == ("unreachable" if stage == "welcome" else "timeout"), (stage, last)
            assert time.monotonic() - start < 30 * SLOW
    # Half of a reply, and then nothing.
    for stage in GOOD:
        with fake({**GOOD, stage: lambda c, stop, s=stage: (c.sendall(GOOD[s][:-3]), hang(c, stop))}) as server:
            assert outcome(connector, server, ms=250)["word"] in ("unreachable", "timeout"), stage


def test_hangs_up_at_every_byte(connector):
    """The whole conversation, cut after each byte: the last "ready" is needed, too."""

    def cut(place):
        stage, at = place

        def leave(connection, stop):
            connection.sendall(GOOD[stage][:at])
            raise OSError("leave")

        with fake({**GOOD, stage: leave}) as server:
            last = outcome(connector, server)
            return last["message"] == "error" and last["word"] in ("broken", "unreachable") or (place, last)

    places = [(stage, at) for stage, reply in GOOD.items() for at in range(len(reply))]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert [found for found in pool.map(cut, places) if found is not True] == []
    assert len(places) > 500


RUBBISH = [
    b"HTTP/1.1 400 Bad Request\r\n\r\n" * 10,
    bytes(range(256)) * 8,
    b"\0" * 4096,
    b"\xff" * 4096,
    message(b"R", struct.pack(">I", 99)),
    message(b"R", struct.pack(">I", 10) + b"NOT-A-MECHANISM\0\0"),
    message(b"E", b"SFATAL\0C99999\0M" + b"x" * 100000 + b"\0\0"),
    message(b"E", b"no end"),
    message(b"T", struct.pack(">H", 65535)),
    message(b"D", struct.pack(">H", 1), length=0x7FFFFFFF),
    message(b"D", struct.pack(">H", 1), length=0xFFFFFFFF),
    message(b"D", b"", length=0),
    message(b"D", b"", length=3),
    message(b"Z", b"", length=4),
    message(b"?", b"what"),
    message(b"G", struct.pack(">bH", 0, 1) + b"\0\0"),  # COPY IN
    message(b"H", struct.pack(">bH", 0, 1) + b"\0\0"),  # COPY OUT
    message(b"W", struct.pack(">bH", 0, 1) + b"\0\0"),
    message(b"v", struct.pack(">II", 0, 1) + text("_pq_.x")),
]


def test_rubbish_at_every_stage(connector):
    for stage in GOOD:
        # Each kind at three stages that are read in different ways, some of them at the others.
        for rubbish in RUBBISH if stage in ("welcome", "explain", "rows") else RUBBISH[1::6]:
            with fake({**GOOD, stage: rubbish}) as server:
                last = outcome(connector, server, ms=250)
                assert last["message"] == "error" and last["word"] in BROKEN, (stage, rubbish[:40], last)
                assert last["text"].isprintable() or "\n" in last["text"] or "\t" in last["text"]


def test_rows_that_are_none(connector):
    start = BOUND + columns("x")
    end = done() + READY
    cases = {
        "more columns": start + row("1", "2") + end,
        "fewer columns": start + row() + end,
        "other columns": BOUND + columns("x", "y") + row("1", "2") + end,
        "not an int": start + row("forty-two") + end,
        "an empty int": start + row("") + end,
        "far too long": start + row("9" * 50) + end,
        "not UTF-8": start + row(b"\xff\xfe") + end,
        "a NUL": start + row(b"4\x002") + end,
        "a length that is a lie": start + message(b"D", struct.pack(">Hi", 1, 1000) + b"42") + end,
        "a negative length": start + message(b"D", struct.pack(">Hi", 1, -7) + b"42") + end,
        "no description": BOUND + row("42") + end,
        "rows after the end": BOUND + columns("x") + done() + row("42") + READY,
    }
    for name, reply in cases.items():
        with fake({**GOOD, "rows": reply}) as server:
            last = outcome(connector, server, ms=600)
            assert last["message"] == "error" and last["word"] in ("broken", "timeout"), (name, last)


def test_plans_that_are_none(connector):
    for plan in ("", "null", "{}", "[]", "[" * 100000, '[{"Plan": 3}]', '[{"Plan": {"Plans": [[[[]]]]}}]',
                 '[{"Plan": {"Total Cost": "NaN", "Plan Rows": -5, "Output": [[["x("]]]}}]', "\xff",
                 '[{"Plan": {"Total Cost": 1e999}}]', '[{"Plan": {"Node Type": "ModifyTable"}}]'):
        reply = PARSED + BOUND + columns("p", oid=114) + row(plan) + done("EXPLAIN") + READY
        with fake({**GOOD, "explain": reply}) as server:
            last = outcome(connector, server)
            assert last["message"] == "done" or last["word"] in ("broken", "read-only"), (plan[:40], last)


def test_never_stops(connector):
    """Notices, settings, rows and names without end: the deadline and the limits are the end."""
    notice = message(b"N", b"SNOTICE\0C00000\0M" + b"n" * 500 + b"\0\0")
    status = message(b"S", text("name") + text("v" * 500))
    with fake({**GOOD, "rows": lambda c, stop: (c.sendall(BOUND + columns("x")), endless(notice)(c, stop))}) as server:
        assert outcome(connector, server, ms=600)["word"] == "timeout"
    with fake({**GOOD, "begin": endless(status)}) as server:
        assert outcome(connector, server, ms=600)["word"] in ("timeout", "broken")
    with fake({**GOOD, "welcome": endless(notice)}) as server:
        assert outcome(connector, server, ms=600)["word"] in ("unreachable", "timeout")
    with fake({**GOOD, "rows": lambda c, stop: (c.sendall(BOUND + columns("x")), endless(row("1"))(c, stop))}) as server:
        assert outcome(connector, server)["word"] == "too-large"
    with fake({**GOOD, "types": endless(row("integer"))}) as server:
        assert outcome(connector, server, ms=600)["word"] in ("broken", "timeout")


def test_two_gibibytes(connector):
    """A value that claims to be huge: refused by the limit on memory, not by the machine's."""
    def send(connection, stop):
        connection.sendall(BOUND + columns("x") + b"D" + struct.pack(">IHi", 0x7FFFFFF0, 1, 0x7FFFFFE0))
        endless(b"x" * 65536)(connection, stop)

    with fake({**GOOD, "rows": send}) as server:
        running, peak = connector.start(order(server, ms=3000)), 0
        running.control.settimeout(0.05)
        end, last = time.monotonic() + 60 * SLOW, None
        while time.monotonic() < end and (last is None or last["message"] == "estimate"):
            peak = max(peak, peak_memory(running.pid))
            with contextlib.suppress(TimeoutError):
                last = running.message()
        assert last["message"] == "error" and last["word"] in ("broken", "timeout", "too-large"), last
        assert peak < 1200 << 20
        running.wait()


def test_certificates(connector, tmp_path):
    """verify-full is what it says: name, time and authority. verify-ca does not look at the name."""
    for name, context in certificates(tmp_path).items():
        with fake(tls=context) as server:
            for mode in ("verify-full", "verify-ca"):
                how = order(server)
                how["source"] |= {"sslmode": mode, "sslrootcert": (tmp_path / "ca.pem").read_text()}
                if name == "good" or (name, mode) == ("name", "verify-ca"):
                    assert connector.good(how).rows == [(42,)]
                    continue
                text = connector.bad(how, "unreachable")["text"]
                assert any(words in text for words in REFUSED[name]), (name, mode, text)


def test_cancelling_a_server_that_hangs(connector):
    with fake({**GOOD, "rows": hang}) as server:
        running = connector.start(order(server))
        assert running.message()["message"] == "estimate"
        running.cancel()
        running.wait(60 * SLOW)
