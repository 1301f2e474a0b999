#!/usr/bin/env python3
"""Writes the seeds of tests/fuzz/corpus/frame and .../ws; the same bytes every time.

With --check nothing is written and the exit code says whether the seeds are up to date. Other
files in the directories, crashes that were found and fixed for example, are left alone.
"""

import pathlib
import struct
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "runner"))

from glovebox_runner import frames as f  # noqa: E402

CORPUS = ROOT / "tests" / "fuzz" / "corpus"


def packet(type, flags, total, body, version=f.FRAME_VERSION, length=None):
    """A packet by hand, for what encode() refuses to make or makes only of large messages."""
    length = len(body) if length is None else length
    return struct.pack("<BBHII", version, type, flags, length, total) + body


def parts(type, fields, size):
    """A message in packets of @size payload bytes."""
    payload = f.encode_payload(fields)
    cuts = [payload[i : i + size] for i in range(0, len(payload), size)]
    return [
        packet(type, f.FRAME_MORE if i + 1 < len(cuts) else 0, len(payload), cut)
        for i, cut in enumerate(cuts)
    ]


def seeds():
    run = [
        (f.KEY_CODE, "print(1)\n"),
        (f.KEY_FILENAME, "main.py"),
        (f.KEY_MODE, "script"),
        (f.KEY_ARG, "main.py"),
        (f.KEY_ARG, "-v"),
        (f.KEY_ENV, "LANG=C.UTF-8"),
    ]
    done = [
        (f.KEY_EXIT_CODE, 1),
        (f.KEY_ERROR_NAME, "ValueError"),
        (f.KEY_ERROR_VALUE, "no"),
        (f.KEY_TRACEBACK, "Traceback (most recent call last):\n"),
    ]
    display = [(f.KEY_JSON, '{"text/plain":"1"}'), (f.KEY_SEQUENCE, 7)]

    yield "empty-message", f.encode(f.FRAME_DONE, [])
    yield "empty-packet", [b""]
    yield "run", f.encode(f.FRAME_RUN, run)
    yield "done", f.encode(f.FRAME_DONE, done)
    yield "done-negative", f.encode(f.FRAME_DONE, [(f.KEY_EXIT_CODE, -9)])
    yield "result", f.encode(f.FRAME_RESULT, display)
    yield "session", (
        f.encode(f.FRAME_DISPLAY, display)
        + f.encode(f.FRAME_RESULT, display)
        + f.encode(f.FRAME_DONE, done)
    )
    yield "parts", parts(f.FRAME_DISPLAY, display, 7)
    yield "parts-then-done", parts(f.FRAME_RUN, run, 20) + f.encode(f.FRAME_DONE, done)
    yield "byte-by-byte", parts(f.FRAME_DONE, [(f.KEY_EXIT_CODE, 0)], 1)
    yield "fields-many", f.encode(f.FRAME_RUN, [(f.KEY_ARG, b"")] * 64)
    yield "fields-max-plus-1", [packet(f.FRAME_RUN, 0, 6 * 1025, bytes(6 * 1025))]
    yield "bad-version", [packet(f.FRAME_DONE, 0, 0, b"", version=2)]
    yield "bad-type", [packet(f.FRAME_TYPE_LAST + 1, 0, 0, b"")]
    yield "bad-flags", [packet(f.FRAME_DONE, 0x8001, 2, b"x")]
    yield "bad-length", [packet(f.FRAME_DONE, 0, 4, b"abcd", length=0xFFFFFFFF)]
    yield "bad-total", [packet(f.FRAME_DONE, f.FRAME_MORE, 0xFFFFFFFF, b"abcd")]
    yield "bad-order", [parts(f.FRAME_DONE, done, 9)[0]] + f.encode(f.FRAME_DISPLAY, display)
    yield "bad-field", [packet(f.FRAME_DONE, 0, 7, struct.pack("<HI", 6, 0xFFFFFFFF) + b"x")]
    yield "cut-header", [f.encode(f.FRAME_DONE, [])[0][:11]]
    yield "announced-32-mib", [packet(f.FRAME_DONE, f.FRAME_MORE, f.FRAME_MESSAGE_MAX, b"a")] * 3


def ws_frame(head, payload, mask=b"\1\2\3\4", length=None):
    """A frame as a client sends it. @length: what the header claims."""
    length = len(payload) if length is None else length
    bit = 0x80 if mask else 0
    if length < 126:
        size = bytes([bit | length])
    elif length < 65536:
        size = bytes([bit | 126]) + struct.pack(">H", length)
    else:
        size = bytes([bit | 127]) + struct.pack(">Q", length)
    masked = bytes(b ^ mask[i % 4] for i, b in enumerate(payload)) if mask else payload
    return bytes([head]) + size + mask + masked


def ws_input(*pieces, protocols="v2, v1.kernel", key="dGhlIHNhbXBsZSBub25jZQ=="):
    """What fuzz_ws.c reads: two lines, then pieces; an empty one lets it put something out."""
    head = f"{protocols}\n{key}\n".encode()
    return head + b"".join(bytes([len(piece)]) + piece for piece in pieces)


def ws_seeds():
    text = ws_frame(0x81, b'{"type": "interrupt"}')
    yield "text", ws_input(text)
    yield "text-byte-by-byte", ws_input(*(text[i : i + 1] for i in range(len(text))))
    yield "binary", ws_input(ws_frame(0x82, bytes(range(200))))
    yield "fragments", ws_input(
        ws_frame(0x01, b"one \xe2\x82"), ws_frame(0x89, b"ping"), b"", ws_frame(0x80, b"\xac")
    )
    yield "pings", ws_input(*([ws_frame(0x89, b"p" * 125)] * 5), b"", b"")
    yield "close", ws_input(ws_frame(0x88, b"\x03\xe8bye"), text)
    yield "close-bad-code", ws_input(ws_frame(0x88, b"\x03\xee"))
    yield "close-one-byte", ws_input(ws_frame(0x88, b"\x03"))
    yield "unmasked", ws_input(ws_frame(0x81, b"x", mask=b""))
    yield "reserved-bits", ws_input(ws_frame(0xF1, b"x"))
    yield "bad-opcode", ws_input(ws_frame(0x83, b"x"))
    yield "bad-utf8", ws_input(ws_frame(0x81, b"\xc3\x28"))
    yield "fragmented-ping", ws_input(ws_frame(0x09, b"x"))
    yield "continuation-of-nothing", ws_input(ws_frame(0x80, b"x"))
    yield "too-big", ws_input(ws_frame(0x82, b"x" * 100, length=301))
    yield "too-big-fragments", ws_input(*([ws_frame(0x02, b"x" * 200)] + [ws_frame(0x00, b"x" * 200)]))
    yield "huge", ws_input(ws_frame(0x82, b"x", length=1 << 62))
    yield "hello-bad-key", ws_input(text, protocols="", key="short")
    yield "http", ws_input(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")


def all_seeds():
    for name, packets in seeds():
        yield CORPUS / "frame" / name, b"".join(struct.pack("<H", len(p)) + p for p in packets)
    for name, data in ws_seeds():
        yield CORPUS / "ws" / name, data


def main():
    check = sys.argv[1:] == ["--check"]
    stale = []
    for path, data in all_seeds():
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_file() and path.read_bytes() == data:
            continue
        stale.append(path.name)
        if not check:
            path.write_bytes(data)
    if check and stale:
        sys.exit("stale seeds, run tests/fuzz/make_corpus.py: " + " ".join(stale))


if __name__ == "__main__":
    main()
