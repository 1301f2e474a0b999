"""runner/glovebox_runner/frames.py: the Python side of the frame protocol."""

import os
import pathlib
import re
import socket
import struct
import subprocess
import sys
import threading

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "runner"))

from glovebox_runner import frames as f  # noqa: E402

PAYLOAD_MAX = f.FRAME_PACKET_MAX - f.FRAME_HEADER_SIZE
FIELD_HEADER = 6
MORE = f.FRAME_MORE


def packet(version=1, type=f.FRAME_DONE, flags=0, length=0, total=0, body=0):
    body = bytes(body) if isinstance(body, int) else body
    return struct.pack("<BBHII", version, type, flags, length, total) + body


def feed_all(reader, packets):
    results = [reader.feed(p) for p in packets]
    assert results[:-1] == [None] * (len(packets) - 1)
    return results[-1]


@pytest.fixture
def pair():
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    yield ours, theirs
    ours.close()
    theirs.close()


# ---- the two sides agree ----


def header_constants():
    text = (ROOT / "src/engine/frame.h").read_text()
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    found = {}
    for name, value in re.findall(r"^#define (FRAME_\w+)\s+(.+)$", text, flags=re.M):
        found[name] = value
    for name, value in re.findall(r"^\s+((?:FRAME|KEY)_\w+) = (\w+),", text, flags=re.M):
        found[name] = value
    constants = {}
    for name, value in found.items():
        value = re.sub(r"\b(0x[0-9a-fA-F]+|\d+)u\b", r"\1", value)
        constants[name] = eval(value, {"__builtins__": {}}, constants)
    return constants


def test_constants_agree_with_the_header():
    in_c = header_constants()
    in_python = {
        name: value for name, value in vars(f).items() if re.fullmatch(r"(FRAME|KEY)_\w+", name)
    }
    assert len(in_c) >= 22
    assert in_python == in_c


def test_header_size_is_that_of_the_wire_format():
    assert f._HEADER.size == f.FRAME_HEADER_SIZE
    assert f._FIELD.size == FIELD_HEADER


def test_import_is_light():
    code = (
        "import sys; before = set(sys.modules); import glovebox_runner.frames;"
        "print(sorted(set(sys.modules) - before))"
    )
    out = subprocess.run(
        [sys.executable, "-S", "-c", code],
        env={"PYTHONPATH": str(ROOT / "runner"), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    allowed = {"__future__", "_struct", "struct", "os", "stat", "_stat", "posixpath"}
    allowed |= {"genericpath", "os.path", "_collections_abc", "abc", "_abc"}
    loaded = {m for m in eval(out) if not m.startswith("glovebox_runner")}
    assert loaded <= allowed


def test_corpus_is_up_to_date():
    script = ROOT / "tests/fuzz/make_corpus.py"
    done = subprocess.run(
        [sys.executable, "-B", str(script), "--check"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


# ---- round trips ----


def test_bytes_on_the_wire():
    assert f.encode(f.FRAME_RUN, [(f.KEY_MODE, "cell")]) == [
        b"\x01\x01\x00\x00\x0a\x00\x00\x00\x0a\x00\x00\x00\x03\x00\x04\x00\x00\x00cell"
    ]


@pytest.mark.parametrize(
    "size, count",
    [
        (0, 1),
        (FIELD_HEADER, 1),
        (PAYLOAD_MAX - 1, 1),
        (PAYLOAD_MAX, 1),
        (PAYLOAD_MAX + 1, 2),
        (2 * PAYLOAD_MAX, 2),
        (2 * PAYLOAD_MAX + 1, 3),
        (f.FRAME_MESSAGE_MAX, 513),
    ],
)
def test_round_trip(size, count):
    fields = [(f.KEY_JSON, os.urandom(size - FIELD_HEADER))] if size else []
    packets = f.encode(f.FRAME_DISPLAY, fields)
    assert len(packets) == count
    assert max(map(len, packets)) <= f.FRAME_PACKET_MAX
    reader = f.Reader()
    for _ in range(2):  # a reader is used again
        message = feed_all(reader, packets)
        assert message.type == f.FRAME_DISPLAY
        assert message.fields == fields


def test_values_and_lookups():
    fields = [
        (f.KEY_ARG, "ä"),
        (f.KEY_ARG, b"\xff\x00"),
        (f.KEY_EXIT_CODE, -9),
        (f.KEY_CODE, bytearray(b"x")),
        (f.KEY_FILENAME, "\udcff"),
        (f.KEY_ERROR_VALUE, "\ud800!"),
    ]
    message = feed_all(f.Reader(), f.encode(f.FRAME_RUN, fields))
    assert message.get_all(f.KEY_ARG) == ["ä".encode(), b"\xff\x00"]
    assert message.get(f.KEY_ARG) == "ä".encode()
    assert message.get(f.KEY_EXIT_CODE) == b"-9"
    assert message.get(f.KEY_CODE) == b"x"
    assert message.get_text(f.KEY_FILENAME) == "\udcff"
    assert message.get(f.KEY_ERROR_VALUE) == b"?!"
    assert message.get(f.KEY_ENV) is None
    assert message.get_all(f.KEY_ENV) == []
    assert message.get_text(f.KEY_ENV, "none") == "none"


def test_encode_caps():
    largest = bytes(f.FRAME_MESSAGE_MAX - FIELD_HEADER)
    assert len(f.encode_payload([(1, largest)])) == f.FRAME_MESSAGE_MAX
    with pytest.raises(f.FrameTooLarge):
        f.encode(f.FRAME_RUN, [(1, largest + b"x")])
    with pytest.raises(f.FrameTooLarge):
        f.encode(f.FRAME_RUN, [(1, largest), (1, b"")])
    f.encode(f.FRAME_RUN, [(1, b"")] * f.FRAME_FIELDS_MAX)
    with pytest.raises(f.FrameTooLarge):
        f.encode(f.FRAME_RUN, [(1, b"")] * (f.FRAME_FIELDS_MAX + 1))


# ---- rejections ----

BAD_FIRST = {
    "empty": b"",
    "cut header": packet()[:11],
    "version 0": packet(version=0),
    "version 2": packet(version=2),
    "type 0": packet(type=0),
    "type too high": packet(type=f.FRAME_TYPE_LAST + 1),
    "unknown flag": packet(flags=2),
    "length too large": packet(length=6, total=6, body=5),
    "length too small": packet(length=6, total=6, body=7),
    "length beyond total": packet(length=6, total=5, body=6),
    "incomplete but last": packet(length=6, total=7, body=6),
    "complete but more": packet(flags=MORE, length=6, total=6, body=6),
    "more without progress": packet(flags=MORE, total=6),
    "field header cut off": packet(length=5, total=5, body=5),
    "field too long": packet(length=7, total=7, body=b"\x06\x00\x02\x00\x00\x00x"),
    "field length 2^32-1": packet(length=6, total=6, body=b"\x06\x00\xff\xff\xff\xff"),
}

_FIELDS = 6 * (f.FRAME_FIELDS_MAX + 1)  # empty ones are all header
TOO_LARGE = {
    "packet": packet(flags=MORE, length=PAYLOAD_MAX + 1, total=1 << 20, body=PAYLOAD_MAX + 1),
    "total": packet(flags=MORE, length=1, total=f.FRAME_MESSAGE_MAX + 1, body=1),
    "fields": packet(length=_FIELDS, total=_FIELDS, body=_FIELDS),
}

# After a first packet of DONE with 4 of 10 bytes.
BAD_SECOND = {
    "another type": packet(type=f.FRAME_RESULT, length=6, total=10, body=6),
    "larger total": packet(flags=MORE, length=6, total=11, body=6),
    "smaller total": packet(flags=MORE, length=4, total=9, body=4),
    "total below what has arrived": packet(length=2, total=2, body=2),
    "a new message": packet(),
    "one byte too many": packet(length=7, total=10, body=7),
    "the rest, but more": packet(flags=MORE, length=6, total=10, body=6),
    "a part, but the last": packet(length=5, total=10, body=5),
    "nothing": packet(flags=MORE, total=10),
}


def assert_refused(reader, bad, error):
    with pytest.raises(f.FrameError) as first:
        reader.feed(bad)
    assert first.type is error
    with pytest.raises(error):  # for good
        reader.feed(packet())


@pytest.mark.parametrize("bad", BAD_FIRST.values(), ids=BAD_FIRST)
def test_bad_first_packet(bad):
    assert_refused(f.Reader(), bad, f.FrameError)


@pytest.mark.parametrize("bad", TOO_LARGE.values(), ids=TOO_LARGE)
def test_too_large(bad):
    assert_refused(f.Reader(), bad, f.FrameTooLarge)


@pytest.mark.parametrize("bad", BAD_SECOND.values(), ids=BAD_SECOND)
def test_bad_second_packet(bad):
    reader = f.Reader()
    assert reader.feed(packet(flags=MORE, length=4, total=10, body=4)) is None
    assert_refused(reader, bad, f.FrameError)


# ---- over a socket ----


@pytest.mark.parametrize("blocking", [True, False])
@pytest.mark.parametrize("as_fd", [True, False])
def test_send_and_recv(pair, blocking, as_fd):
    ours, theirs = pair
    for sock in pair:
        sock.setblocking(blocking)
    fields = [(f.KEY_CODE, os.urandom(3_000_000)), (f.KEY_MODE, b"script")]
    ends = [sock.fileno() if as_fd else sock for sock in pair]
    sender = threading.Thread(target=f.send, args=(ends[1], f.FRAME_RUN, fields))
    sender.start()
    message = f.recv(ends[0], f.Reader())
    sender.join()
    assert (message.type, message.fields) == (f.FRAME_RUN, fields)


def test_recv_end(pair):
    ours, theirs = pair
    f.send(theirs, f.FRAME_DONE, [])
    theirs.close()
    reader = f.Reader()
    assert f.recv(ours, reader).type == f.FRAME_DONE
    with pytest.raises(EOFError):
        f.recv(ours, reader)


def test_recv_sees_a_packet_that_is_too_large(pair):
    ours, theirs = pair
    # Cut to size, it would look sound.
    theirs.send(packet(flags=MORE, length=PAYLOAD_MAX, total=1 << 20, body=PAYLOAD_MAX + 1))
    with pytest.raises(f.FrameTooLarge):
        f.recv(ours, f.Reader())


def test_send_to_nobody(pair):
    ours, theirs = pair
    theirs.close()
    with pytest.raises(OSError):
        f.send(ours, f.FRAME_DONE, [])
