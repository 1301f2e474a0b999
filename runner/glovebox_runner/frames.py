"""The frame protocol, the tenant's side; it is documented in docs/PROTOCOL.md.

A message is a type and a list of fields. encode() splits it into packets, Reader reassembles
packets, send() and recv() do the same over a seqpacket socket. Names and rules are those of
src/engine/frame.h, and a unit test compares the two.

This module is imported in every template, so it needs nothing but os and struct. It works on the
descriptor alone: a read or write of a seqpacket socket is one packet.
"""

from __future__ import annotations

import os
import struct

TYPE_CHECKING = False  # importing typing itself would be too slow
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Protocol, Union

    Value = Union[bytes, bytearray, memoryview, str, int]
    Fields = Iterable[tuple[int, Value]]

    class HasFileno(Protocol):
        def fileno(self) -> int: ...


FRAME_VERSION = 1
FRAME_PACKET_MAX = 65536
FRAME_MESSAGE_MAX = 32 * 1024 * 1024
FRAME_FIELDS_MAX = 10000
FRAME_HEADER_SIZE = 12
FRAME_MORE = 0x0001

FRAME_BUNDLE_MAX = 8 * 1024 * 1024
FRAME_DISPLAYS_MAX = 200
FRAME_DISPLAYS_BYTES = 24 * 1024 * 1024
FRAME_DISPLAYS_NODES = 1000000

FRAME_RUN = 1
FRAME_DONE = 2
FRAME_DISPLAY = 3
FRAME_RESULT = 4
FRAME_ASK = 5
FRAME_ANSWER = 6
FRAME_TYPE_LAST = FRAME_ANSWER

KEY_CODE = 1
KEY_FILENAME = 2
KEY_MODE = 3
KEY_ARG = 4
KEY_ENV = 5
KEY_EXIT_CODE = 6
KEY_ERROR_NAME = 7
KEY_ERROR_VALUE = 8
KEY_TRACEBACK = 9
KEY_JSON = 10
KEY_SEQUENCE = 11
KEY_ECHO = 12
KEY_LEFT_OUT = 13
KEY_EXECUTION = 14
KEY_STDIN = 15
KEY_CALM = 16
KEY_NAMES = 17
KEY_ACK = 18
KEY_CELL_ENV = 19
KEY_LOOK = 20

_HEADER = struct.Struct("<BBHII")
_FIELD = struct.Struct("<HI")
_PAYLOAD_MAX = FRAME_PACKET_MAX - FRAME_HEADER_SIZE


class FrameError(Exception):
    """A packet or message that violates the protocol."""


class FrameTooLarge(FrameError):
    """A packet or message that exceeds a cap."""


class Message:
    """A whole message: its type and its fields, in the order they were sent."""

    __slots__ = ("type", "fields")

    def __init__(self, type: int, fields: list[tuple[int, bytes]]) -> None:
        self.type = type
        self.fields = fields

    def get(self, key: int, default: bytes | None = None) -> bytes | None:
        """The first field with this key."""
        for k, value in self.fields:
            if k == key:
                return value
        return default

    def get_all(self, key: int) -> list[bytes]:
        return [value for k, value in self.fields if k == key]

    def get_text(self, key: int, default: str = "") -> str:
        """The first field with this key as text; bytes that are not UTF-8 become surrogates, as in
        sys.argv and os.environ."""
        value = self.get(key)
        return default if value is None else value.decode("utf-8", "surrogateescape")


def _field_bytes(value: Value) -> bytes:
    if isinstance(value, str):
        # Surrogates from surrogateescape are turned back into their bytes; others, which a
        # program can put in any string, must not prevent a message from being sent.
        try:
            return value.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:
            return value.encode("utf-8", "replace")
    if isinstance(value, int):
        return b"%d" % value
    return bytes(value)


def encode_payload(fields: Fields) -> bytes:
    """The payload for an iterable of (key, value); a value is bytes, text or a whole number."""
    parts = []
    size = 0
    for count, (key, value) in enumerate(fields, 1):
        data = _field_bytes(value)
        size += _FIELD.size + len(data)
        if count > FRAME_FIELDS_MAX or size > FRAME_MESSAGE_MAX:
            raise FrameTooLarge("message has too many fields or bytes")
        parts.append(_FIELD.pack(key, len(data)))
        parts.append(data)
    return b"".join(parts)


def encode(type: int, fields: Fields) -> list[bytes]:
    """The packets of a message, at least one."""
    payload = encode_payload(fields)
    total = len(payload)
    packets = []
    for start in range(0, max(total, 1), _PAYLOAD_MAX):
        part = payload[start : start + _PAYLOAD_MAX]
        flags = FRAME_MORE if start + len(part) < total else 0
        packets.append(_HEADER.pack(FRAME_VERSION, type, flags, len(part), total) + part)
    return packets


def decode_payload(payload: bytes) -> list[tuple[int, bytes]]:
    fields = []
    pos = 0
    while pos < len(payload):
        if len(payload) - pos < _FIELD.size:
            raise FrameError("field header is cut off")
        key, size = _FIELD.unpack_from(payload, pos)
        pos += _FIELD.size
        if size > len(payload) - pos:
            raise FrameError("field is longer than the message")
        if len(fields) == FRAME_FIELDS_MAX:
            raise FrameTooLarge("message has too many fields")
        fields.append((key, payload[pos : pos + size]))
        pos += size
    return fields


class Reader:
    """Reassembles packets. A reader that has failed once stays failed."""

    __slots__ = ("_parts", "_len", "_total", "_type", "_open", "_error")

    def __init__(self) -> None:
        self._error: FrameError | None = None
        self._reset()

    def _reset(self) -> None:
        self._parts: list[bytes] = []
        self._len = 0
        self._total = 0
        self._type = 0
        self._open = False

    def feed(self, packet: bytes) -> Message | None:
        """Takes one packet; returns a message when it is complete, None when more is needed."""
        if self._error is not None:
            raise self._error
        try:
            return self._feed(packet)
        except FrameError as e:
            self._error = e
            self._reset()
            raise

    def _feed(self, packet: bytes) -> Message | None:
        if len(packet) > FRAME_PACKET_MAX:
            raise FrameTooLarge("packet is too large")
        if len(packet) < FRAME_HEADER_SIZE:
            raise FrameError("packet is shorter than its header")

        version, type, flags, length, total = _HEADER.unpack_from(packet)
        if version != FRAME_VERSION:
            raise FrameError("protocol version is %d, not %d" % (version, FRAME_VERSION))
        if not 0 < type <= FRAME_TYPE_LAST:
            raise FrameError("unknown message type %d" % type)
        if flags & ~FRAME_MORE:
            raise FrameError("unknown flags")
        if length != len(packet) - FRAME_HEADER_SIZE:
            raise FrameError("packet does not have the length it says")
        if total > FRAME_MESSAGE_MAX:
            raise FrameTooLarge("message is too large")

        more = bool(flags & FRAME_MORE)
        left = total - self._len
        if self._open and (type != self._type or total != self._total):
            raise FrameError("packet belongs to another message")
        if length > left or more != (length < left) or (more and length == 0):
            raise FrameError("packet does not fit into its message")

        self._open = True
        self._type = type
        self._total = total
        self._len += length
        self._parts.append(packet[FRAME_HEADER_SIZE:])
        if more:
            return None

        message = Message(type, decode_payload(b"".join(self._parts)))
        self._reset()
        return message


def _fileno(sock: HasFileno | int) -> int:
    return sock if isinstance(sock, int) else sock.fileno()


def _wait(fd: int, events: str) -> None:
    # Only reached if the descriptor was made non-blocking.
    import select

    poll = select.poll()
    poll.register(fd, getattr(select, events))
    poll.poll()


def send(sock: HasFileno | int, type: int, fields: Fields) -> None:
    """Sends a message over a seqpacket socket (an object or a descriptor), waiting as long as it
    takes. Raises OSError when the peer is gone. The packets of two messages must not mix: the
    caller ensures that one thread sends at a time and that no signal handler interrupts."""
    fd = _fileno(sock)
    for packet in encode(type, fields):
        while True:
            try:
                os.write(fd, packet)
                break
            except BlockingIOError:
                _wait(fd, "POLLOUT")


def recv(sock: HasFileno | int, reader: Reader) -> Message:
    """Waits for the next whole message. Raises EOFError at the end of the stream and FrameError
    for a broken packet."""
    fd = _fileno(sock)
    while True:
        try:
            # One byte more than a packet may have, so that a larger one is detected, not truncated.
            packet = os.read(fd, FRAME_PACKET_MAX + 1)
        except BlockingIOError:
            _wait(fd, "POLLIN")
            continue
        if not packet:
            raise EOFError("the control socket is closed")
        message = reader.feed(packet)
        if message is not None:
            return message
