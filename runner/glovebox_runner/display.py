"""The displays of a cell: values as MIME bundles, and the messages that carry them.

A value becomes a Bundle: for each MIME type the JSON text of its representation. Everything that a
value's own methods return is checked and measured here; representations that fail, have the wrong
type or do not fit are left out, and the bundle's metadata says so:

    {"glovebox": {"left_out": {"text/html": 123456}, "failed": {"image/png": "ValueError: no"}}}

A Publisher sends bundles and enforces the limits of one execution. The supervisor checks the same
limits and does not trust this side; see docs/PROTOCOL.md.

No library is imported for this: rich.py looks only at modules that the program itself has loaded.
"""

import os
import sys
from _signal import SIG_BLOCK, SIG_SETMASK, SIGINT
from _signal import pthread_sigmask as _mask
from _thread import allocate_lock, get_ident
from os import getpid

from . import calls, frames, rich

TEXT_MAX = 1 << 20  # characters of text/plain; more is cut, not left out
STRING_MAX = TEXT_MAX // 4  # of a longer string; its repr may be four times as long
ITEMS_MAX = 1000  # items of a list, set or dict in text/plain
WORDS_MAX = 300  # characters of a reason
TYPES_MAX = 64  # MIME types in a bundle
META_MAX = 64 << 10  # bytes of metadata
NODES_SLACK = 10000  # allowance for the frame of each bundle
ID_MAX = 128  # characters of a display_id
HELD_MAX = 20  # outputs whose last update is sent at the end of the cell

_METHODS = (
    ("text/html", "_repr_html_"),
    ("text/markdown", "_repr_markdown_"),
    ("text/latex", "_repr_latex_"),
    ("image/svg+xml", "_repr_svg_"),
    ("image/png", "_repr_png_"),
    ("image/jpeg", "_repr_jpeg_"),
    ("application/json", "_repr_json_"),
    ("application/javascript", "_repr_javascript_"),
)
_CANARY = "_ipython_canary_method_should_not_exist_"
_MIME_EXTRA = "!#$&^_.+-"


# ---- JSON ----


def is_json(mime: str) -> bool:
    return mime == "application/json" or mime.endswith("+json")


def is_binary(mime: str) -> bool:
    """Its data is base64."""
    first = mime.partition("/")[0]
    if first == "image":
        return mime != "image/svg+xml"
    return first in ("audio", "video", "font") or mime in ("application/pdf",)


def _is_mime(mime) -> bool:
    if not isinstance(mime, str) or not 3 <= len(mime) <= 128 or not mime.isascii():
        return False
    first, slash, second = mime.partition("/")
    return all(part and all(c.isalnum() or c in _MIME_EXTRA for c in part)
               for part in (first, second))


def _utf8(text: str) -> bytes:
    """JSON text as bytes. A lone surrogate, as in a name that was not UTF-8, is not valid text."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace").encode()


def _plain_tree(value, depth=0):
    """A value that JSON can represent: no NaN and no infinities, whole numbers of 64 bits, text
    keys."""
    kind = type(value)
    if value is None or kind is bool or kind is str:
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        value = int(value)
        return value if -(1 << 63) <= value < 1 << 63 else str(value)
    if isinstance(value, float):
        value = float(value)
        return value if value - value == 0 else None
    if depth > 200:
        raise ValueError("too deep")
    if isinstance(value, dict):
        return {_key(k): _plain_tree(v, depth + 1) for k, v in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain_tree(item, depth + 1) for item in value]
    if hasattr(value, "tolist"):  # numpy
        return _plain_tree(value.tolist(), depth + 1)
    return str(value)


def _key(key) -> str:
    return (key if isinstance(key, str) else str(key)).replace("\0", "\ufffd")


def encode_json(value) -> bytes:
    import json

    return _utf8(json.dumps(_plain_tree(value), ensure_ascii=False, allow_nan=False,
                            separators=(",", ":")))


def _base64(value: str) -> str:
    """Data that the program encoded itself."""
    value = "".join(value.split())
    if not value.isascii() or not value.replace("+", "").replace("/", "").rstrip("=").isalnum():
        raise ValueError("not base64")
    return value


def _encode_text(value: str) -> bytes:
    from json.encoder import encode_basestring

    return _utf8(encode_basestring(value))


def _nodes(text: bytes) -> int:
    """An upper bound for the nodes that a reader has to create; see FRAME_DISPLAYS_NODES."""
    return sum(map(text.count, (b",", b":", b"[", b"{")))


# ---- text ----


def _plain_items(value) -> str:
    from itertools import islice

    left, right = {list: "[]", tuple: "()", dict: "{}", set: "{}"}.get(
        type(value), ("frozenset({", "})")
    )
    items = islice(value.items() if type(value) is dict else value, ITEMS_MAX)
    if type(value) is dict:
        words = [plain(k) + ": " + plain(v) for k, v in items]
    else:
        words = [plain(item) for item in items]
    if len(value) > ITEMS_MAX:
        words.append("...")
    return left + ", ".join(words) + right


_CONTAINERS = (list, tuple, dict, set, frozenset)
_STRINGS = (str, bytes, bytearray)


def _is_long(value) -> bool:
    kind = type(value)
    if kind in _CONTAINERS:
        return len(value) > ITEMS_MAX
    return kind in _STRINGS and len(value) > TEXT_MAX


def plain(value) -> str:
    """repr(), without spending a minute on text that nobody will read."""
    kind = type(value)
    if kind in _STRINGS and len(value) > TEXT_MAX:
        return repr(value[:STRING_MAX]) + "..."
    if kind in _CONTAINERS and value:
        inside = value.values() if kind is dict else value
        if _is_long(value) or any(map(_is_long, inside)):
            return _plain_items(value)
    return repr(value)


# Set by ipython.py: how IPython prints values, and the printers that a program registers with it.
pretty = None
registered = None
uses_registered = False

_WIDTH = 79
_ATOMS = (int, float, bool, str, bytes, complex, type(None))


def is_too_long(value) -> bool:
    """Whether its text is cut."""
    return type(value) in _STRINGS and len(value) > TEXT_MAX


def _is_simple(value, depth=3) -> bool:
    """Whether IPython would print repr(value), if that fits into a line."""
    kind = type(value)
    if kind in _ATOMS:
        return True
    if depth == 0 or kind not in (dict, list, tuple) or len(value) > _WIDTH // 3:
        return False
    if kind is dict and not all(type(key) in _ATOMS for key in value):
        return False
    return all(_is_simple(item, depth - 1) for item in (value.values() if kind is dict else value))


def as_text(value) -> str:
    """As IPython prints it, where there is one: its printer takes longer than repr()."""
    if pretty is None:
        return plain(value)
    if not uses_registered:
        if type(value) in _ATOMS or rich.is_special(value):
            return plain(value)
        if _is_simple(value):
            text = repr(value)
            if len(text) <= _WIDTH:
                return text
    return pretty(value)


def reason(error) -> str:
    try:
        words = "%s: %s" % (type(error).__name__, error)
    except Exception:
        words = type(error).__name__
    return words[:WORDS_MAX]


# ---- bundles ----


class Bundle:
    """The representations of a value, within @room bytes and @nodes."""

    def __init__(self, room: int, nodes: int) -> None:
        self._room = room
        self._nodes = nodes
        self.parts: dict = {}  # MIME type -> JSON text
        self.metadata: dict = {}
        self.left_out: dict = {}
        self.failed: dict = {}
        self.place: dict = {}  # of an output that is updated, or the order to clear them

    @property
    def room(self) -> int:
        return self._room

    def attempt(self, mime: str, make, *args) -> None:
        """Adds the result of @make, which is code of the program and may do anything."""
        try:
            value = make(*args)
            metadata = None
            if type(value) is tuple and len(value) == 2:
                value, metadata = value
            if value is not None:
                self.add(mime, value, metadata)
        except Exception as error:
            self._note(self.failed, mime, reason(error))

    def add(self, mime: str, value, metadata=None) -> None:
        """Raises for values that cannot be shown; records those that are too large."""
        if not _is_mime(mime):
            raise ValueError("not a MIME type")
        if mime in self.parts or len(self.parts) >= TYPES_MAX:
            return
        if is_json(mime):
            self.add_json(mime, encode_json(value))
        elif isinstance(value, (bytes, bytearray, memoryview)):
            if not is_binary(mime):
                raise TypeError("must be str, not " + type(value).__name__)
            from binascii import b2a_base64

            size = len(value)
            if size * 4 // 3 > self._room:
                self._note(self.left_out, mime, size)
            else:
                self._put(mime, b'"' + b2a_base64(value, newline=False) + b'"', size)
        elif isinstance(value, str):
            size = len(value)
            if size > self._room:
                self._note(self.left_out, mime, size)
            else:
                self._put(mime, _encode_text(_base64(value) if is_binary(mime) else value), size)
        else:
            raise TypeError("must be str, not " + type(value).__name__)
        if isinstance(metadata, dict) and mime in self.parts:
            self.metadata[mime] = metadata

    def add_json(self, mime: str, text: bytes) -> None:
        """JSON text that is known to be valid."""
        nodes = _nodes(text)
        if nodes > self._nodes:
            self._note(self.left_out, mime, len(text))
        elif self._put(mime, text, len(text)):
            self._nodes -= nodes

    def add_string(self, mime: str, text: str) -> None:
        """JSON that is a string, and so has no nodes, whatever it contains. Raises when it is
        too large."""
        if not self._put(mime, _encode_text(text), len(text)):
            raise ValueError("not enough room for the result")

    def add_plain(self, value) -> None:
        try:
            text = as_text(value)
        except Exception as error:
            self._note(self.failed, "text/plain", reason(error))
            text = "<%s object>" % type(value).__name__
        if type(value) in _STRINGS and len(value) > TEXT_MAX:
            self._note(self.left_out, "text/plain", len(value) - STRING_MAX)
        if len(text) > TEXT_MAX:
            self._note(self.left_out, "text/plain", len(text) - TEXT_MAX)
            text = text[:TEXT_MAX] + "\n… %d characters left out …" % (len(text) - TEXT_MAX)
        self.attempt("text/plain", lambda: text)

    def _put(self, mime: str, text: bytes, size: int) -> bool:
        if len(text) + len(mime) + 8 > self._room:
            self._note(self.left_out, mime, size)
            return False
        self._room -= len(text) + len(mime) + 8
        self.parts[mime] = text
        return True

    def choose(self, include, exclude) -> None:
        """Removes the types that are not wanted."""
        for mime in list(self.parts):
            if (include and mime not in include) or (exclude and mime in exclude):
                del self.parts[mime]

    @staticmethod
    def _note(where: dict, mime, what) -> None:
        if len(where) < TYPES_MAX:
            where[str(mime)[:128]] = what

    def _metadata(self) -> bytes:
        ours = dict(self.place)
        if self.left_out:
            ours["left_out"] = self.left_out
        if self.failed:
            ours["failed"] = self.failed
        ours = {"glovebox": ours} if ours else {}
        try:
            text = encode_json({**self.metadata, **ours})
            if len(text) <= META_MAX and _nodes(text) < NODES_SLACK:
                return text
        except Exception:
            pass
        return encode_json(ours)

    def encode(self) -> bytes:
        parts = [_encode_text(mime) + b":" + text for mime, text in self.parts.items()]
        return b'{"data":{' + b",".join(parts) + b'},"metadata":' + self._metadata() + b"}"


def _method(value, name):
    """A method that really exists: some objects have an attribute of any name."""
    try:
        if isinstance(value, type) or getattr(value, _CANARY, None) is not None:
            return None
        found = getattr(value, name, None)
        return found if callable(found) else None
    except Exception:
        return None


def describe(value, bundle: Bundle) -> None:
    bundle.add_plain(value)
    if uses_registered and registered(value, bundle):
        return
    if rich.describe(value, bundle):
        return
    whole = _method(value, "_repr_mimebundle_")
    if whole is not None:
        describe_whole(whole, bundle)
    for mime, name in _METHODS:
        if mime not in bundle.parts:
            method = _method(value, name)
            if method is not None:
                bundle.attempt(mime, method)


def describe_whole(whole, bundle: Bundle) -> None:
    try:
        data = whole(include=None, exclude=None)
        metadata = {}
        if type(data) is tuple and len(data) == 2:
            data, metadata = data
        add_all(bundle, data, metadata)
    except Exception as error:
        bundle._note(bundle.failed, "_repr_mimebundle_", reason(error))


def format(value, include=None, exclude=None):
    """The representations of a value and their metadata, as two dictionaries. Both are empty for a
    value that displays itself."""
    import json

    method = None if rich.is_special(value) else _method(value, "_ipython_display_")
    if method is not None:
        method()
        return {}, {}
    bundle = Bundle(frames.FRAME_BUNDLE_MAX - META_MAX, frames.FRAME_DISPLAYS_NODES)
    describe(value, bundle)
    bundle.choose(include, exclude)
    metadata = json.loads(bundle._metadata())
    return {mime: json.loads(text) for mime, text in bundle.parts.items()}, metadata


def add_all(bundle: Bundle, data, metadata=None) -> None:
    """A bundle that the program created itself."""
    if data is None:
        return
    if not isinstance(data, dict):
        raise TypeError("must be dict, not " + type(data).__name__)
    if "text/plain" in data and isinstance(data["text/plain"], str):
        bundle.parts.pop("text/plain", None)
    for mime, value in data.items():
        bundle.attempt(mime, lambda value=value: (value, None))
    if isinstance(metadata, dict):
        bundle.metadata.update(metadata)


# ---- sending ----


class Publisher:
    """Sends the displays of an execution and enforces its limits."""

    def __init__(self, control) -> None:
        self._control = control
        self.lock = allocate_lock()  # the packets of two messages must not mix
        self._reading = allocate_lock()  # held by the thread that waits for an answer
        self.thread = get_ident()  # in which cells run
        self._acks = 0
        self._pid = getpid()
        self.start(False)
        self.in_cell = False
        self.muted = False  # the thread in which cells run shows nothing

    def start(self, echo: bool, reserve: int = 0) -> None:
        """A new execution. With @echo everything is printed as text on standard output, as in a
        terminal. Displays leave @reserve bytes for the result."""
        self.in_cell = True  # until its DONE
        self.echo = echo
        self._reserve = reserve
        self.left_out = 0
        self._sequence = 0
        self._shown = 0
        self._cleared = -1  # how many were shown when they were last cleared
        self.held = {}
        self._bytes = frames.FRAME_DISPLAYS_BYTES
        self._nodes = frames.FRAME_DISPLAYS_NODES - NODES_SLACK

    def ask(self, number: int, text: bytes):
        """Sends a request to the supervisor and waits for its answer, JSON; None: there is none."""
        fields = [(frames.KEY_SEQUENCE, number), (frames.KEY_JSON, text)]
        if getpid() != self._pid:
            return None  # the thread that holds the lock may not be in this process
        with self._reading:
            with self.lock:
                self._control.send_whole(frames.encode(frames.FRAME_ASK, fields))
            answer = self._receive(frames.KEY_SEQUENCE, number)
        return None if answer is None else answer.get(frames.KEY_JSON)

    def _receive(self, key: int, number: int):
        """Waits for the ANSWER with this field; None: there will be none. Others are late: the code
        that waited for them was interrupted."""
        while True:
            try:
                message = self._control.receive()
            except (EOFError, OSError, frames.FrameError):
                return None
            if message.type == frames.FRAME_ANSWER and message.get(key) == b"%d" % number:
                return message

    def show(self, value, include=None, exclude=None, metadata=None, display_id=None,
             update=False) -> None:
        def fill(bundle: Bundle) -> None:
            describe(value, bundle)
            bundle.choose(include, exclude)
            if isinstance(metadata, dict):
                bundle.metadata.update(metadata)

        self._publish(frames.FRAME_DISPLAY, fill, value, _place(display_id, update))

    def show_result(self, value) -> None:
        if value is not None:
            self._publish(frames.FRAME_RESULT, lambda bundle: describe(value, bundle), value)

    def show_names(self, value, mime: str, text: str) -> None:
        """The result of a cell whose names are wanted: that text, and the value if there is room."""

        def fill(bundle: Bundle) -> None:
            bundle.add_string(mime, text)
            if value is not None:
                describe(value, bundle)

        self._publish(frames.FRAME_RESULT, fill, None)

    def show_bundle(self, data, metadata=None, display_id=None, update=False) -> None:
        """display(raw=True)"""
        self._publish(frames.FRAME_DISPLAY, lambda bundle: add_all(bundle, data, metadata), data,
                      _place(display_id, update))

    def clear(self, wait: bool) -> None:
        """clear_output(): the receipt lists only the displays after it. With @wait it counts from
        the next display on."""
        few_left = self._shown > frames.FRAME_DISPLAYS_MAX - HELD_MAX
        if self.echo or (few_left and self._shown == self._cleared):
            return  # in a loop that prints: it must not use up what displays need
        place = {"clear": "wait" if wait else "now"}
        self._publish(frames.FRAME_DISPLAY, lambda bundle: None, None, place)
        self._cleared = self._shown

    def finish(self) -> None:
        """Before the end of a cell: the last updates that were held back."""
        held, self.held = self.held, {}
        for type, fill, value, place in held.values():
            self._shown -= 1
            self._publish(type, fill, value, place, True)

    def _publish(self, type, fill, value, place=None, last=False) -> None:
        if self.muted and get_ident() == self.thread:
            return
        if not rich.is_special(value):
            method = _method(value, "_ipython_display_")
            if method is not None:
                method()
                return
        if self.echo:
            self._print(fill, value)
            return
        if type == frames.FRAME_DISPLAY:
            self._shown += 1
            if self._hold(type, fill, value, place, last):
                return
        room = self._bytes - (self._reserve if type == frames.FRAME_DISPLAY else 0)
        room = min(frames.FRAME_BUNDLE_MAX, room) - META_MAX - 256
        too_many = type == frames.FRAME_DISPLAY and self._shown > frames.FRAME_DISPLAYS_MAX
        if too_many or room <= 0:
            self.left_out += 1
            return
        bundle = Bundle(room, self._nodes)
        fill(bundle)
        bundle.place = place or {}
        if bundle.parts or bundle.left_out or bundle.failed or bundle.place:
            self._send(type, bundle)

    def _hold(self, type, fill, value, place, last) -> bool:
        """When only a few more displays are allowed, updates wait for the end of the cell, and only
        the last one of each output is sent. So a progress bar ends where it should."""
        if last or not place or "update" not in place:
            return False
        if self._shown <= frames.FRAME_DISPLAYS_MAX - HELD_MAX:
            return False
        key = place["display_id"]
        if key not in self.held and len(self.held) >= HELD_MAX:
            return False
        if key in self.held:
            self._shown -= 1
        self.held[key] = (type, fill, value, place)
        return True

    def _print(self, fill, value) -> None:
        bundle = Bundle(frames.FRAME_BUNDLE_MAX, 0)
        text = None
        if type(value) is dict:
            fill(bundle)
            text = value.get("text/plain") if "text/plain" in bundle.parts else None
        if text is None:
            text = plain(value)
        sys.stdout.write(text + "\n")

    def _send(self, type, bundle: Bundle) -> None:
        text = bundle.encode()
        _flush()
        if getpid() != self._pid:
            return  # a child that the program forked; its messages would mix with ours
        # The cell prints nothing more until the supervisor has read what was printed before. Other
        # threads do not wait: they could not tell their answers apart, and between two cells there
        # is nobody to answer.
        waits = self.in_cell and type == frames.FRAME_DISPLAY and get_ident() == self.thread
        if not waits or self._reading.locked():
            self._transmit(type, bundle, text, None)
            return
        with self._reading:
            self._acks += 1
            self._transmit(type, bundle, text, self._acks)
            self._receive(frames.KEY_ACK, self._acks)

    def _transmit(self, type, bundle: Bundle, text: bytes, ack) -> None:
        with self.lock:
            before = _mask(SIG_BLOCK, (SIGINT,))
            try:
                self._sequence += 1
                self._bytes -= len(text)
                self._nodes = bundle._nodes
                fields = [(frames.KEY_JSON, text), (frames.KEY_SEQUENCE, b"%d" % self._sequence)]
                if ack is not None:
                    fields.append((frames.KEY_ACK, b"%d" % ack))
                self._control.send_message(type, fields)
            finally:
                _mask(SIG_SETMASK, before)


def _flush() -> None:
    """Output printed before is in its pipe before the bundle is sent."""
    for name in ("stdout", "stderr"):
        try:
            getattr(sys, name).flush()
        except Exception:
            pass
    calls.flush()


# ---- display() ----

publisher = None  # of the session


def _place(display_id, update) -> dict:
    if not display_id:
        return {}
    place = {"display_id": str(display_id)[:ID_MAX]}
    if update:
        place["update"] = True
    return place


def _new_id() -> str:
    return os.urandom(16).hex()


class Handle:
    """The result of display(display_id=...) where there is no IPython."""

    def __init__(self, display_id=None) -> None:
        self.display_id = display_id or _new_id()

    def __repr__(self) -> str:
        return "<DisplayHandle display_id=%s>" % self.display_id

    def display(self, value, **kwargs) -> None:
        display(value, display_id=self.display_id, **kwargs)

    def update(self, value, **kwargs) -> None:
        display(value, display_id=self.display_id, update=True, **kwargs)


make_handle = Handle
capturing = None  # set by ipython.py: the publisher that captures displays at the moment, or None


def display(*values, include=None, exclude=None, metadata=None, transient=None, display_id=None,
            raw=False, clear=False, update=False, **kwargs):
    """Shows values in their richest representation."""
    if display_id is True:
        display_id = _new_id()
    if not display_id and isinstance(transient, dict):
        display_id = transient.get("display_id")
    if update and not display_id:
        raise TypeError("display_id required for update_display")
    if publisher is None:
        print(*values)
        return None
    to = publisher if capturing is None else capturing() or publisher
    if clear:
        to.clear(True)
    if not values and display_id:
        values, raw = ({},), True
    for value in values:
        if raw:
            to.show_bundle(value, metadata, display_id, update)
        else:
            to.show(value, include, exclude, metadata, display_id, update)
    return make_handle(display_id) if display_id else None
