"""Writes results of queries as src/connect/result.h has them, for tests."""

import json
import struct

FIXED = ("bool", "int", "float", "date", "time", "timestamp", "timestamptz")


def pad(data):
    return data + bytes(-len(data) % 8)


def chunk(tag, payload):
    return tag + bytes(4) + struct.pack("<Q", len(payload)) + pad(payload)


def column(type, values, repeated=False):
    nulls = [value is None for value in values]
    out = struct.pack("<Q", sum(nulls))
    if any(nulls):
        out += pad(bytes(nulls))
    if type in FIXED and not repeated:
        form = "<d" if type == "float" else "<q"
        return out + b"".join(struct.pack(form, value or 0) for value in values)
    raw = [value if isinstance(value, bytes) else (value or "").encode() for value in values]
    ends = [0]
    for item in raw:
        ends.append(ends[-1] + len(item))
    return out + struct.pack("<%dq" % len(ends), *ends) + pad(b"".join(raw))


def encode(columns, batches, end=None):
    """columns: [{"name", "type", ...}]; batches: lists of the values of each column."""
    out = b"GBRESULT" + chunk(b"SCHM", json.dumps({"columns": columns}).encode())
    rows = 0
    for batch in batches:
        n = len(batch[0]) if batch else 0
        rows += n
        payload = struct.pack("<Q", n)
        for about, values in zip(columns, batch):
            payload += column(about["type"], values, about.get("repeated", False))
        out += chunk(b"BTCH", payload)
    return out + chunk(b"END ", json.dumps({"rows": rows if end is None else end}).encode())
