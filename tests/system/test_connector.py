"""The connector's process: orders, descriptors, its end."""

import json
import struct

from connector_kit import connector  # noqa: F401  (a fixture)


def framed(text):
    return struct.pack("<I", len(text)) + text


def test_orders_that_are_none(connector):
    for raw in (framed(b"{"), framed(b"[]"), framed(b"{}"), framed(b'{"op": 3, "source": {}}'),
                framed(b"[" * 1000), framed(b'{"op": "query", "op": "query", "source": {}}')):
        messages, _ = connector.run(raw=raw)
        assert messages[-1]["message"] == "error" and messages[-1]["text"], messages
    messages, _ = connector.run(raw=struct.pack("<I", 0xFFFFFFFF))
    assert "larger than" in messages[-1]["text"]


def test_unknown_kinds_and_ops(connector):
    error = connector.bad({"op": "query", "source": {"kind": "oracle"}, "sql": "x"}, "unsupported")
    assert "oracle" in error["text"]
    connector.bad({"op": "dance", "source": {"kind": "postgresql"}}, "internal")
    connector.bad({"op": "query", "source": {"kind": "postgresql"}}, "sql")
    connector.bad({"op": "query", "source": {"kind": "postgresql"}, "sql": "x", "params": 3}, "unsupported")


def test_nul_in_text(connector):
    raw = framed(json.dumps({"op": "query", "source": {}, "sql": "a\0b"}).encode())
    messages, _ = connector.run(raw=raw)
    assert messages[-1]["word"] == "unsupported" and "NUL" in messages[-1]["text"]


def test_without_its_broker(connector):
    running = connector.start()
    running.cancel()
    assert running.wait() == 125
