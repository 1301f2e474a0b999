"""The names of a cell: bound before it runs, returned as JSON after it, including tables.

For callers that deal in variables instead of receipts (docs/API.md, "Code-session API" and "Locals
API"). A Collector belongs to one cell whose RUN message has a NAMES field (docs/PROTOCOL.md); the
functions at the end are called by cells that the service itself writes.

Values belong to the program, and can harm only itself. Yet one that raises in its str(), contains
itself or is larger than any reply must not affect the others. So a value is first converted to a
tree of plain objects, calling no method of it but str(), and counted on the way; endless loops are
stopped by the timeout, like the rest of the cell.
"""

import os
import sys
from json.encoder import encode_basestring

from . import frames, shell, tenant
from .display import META_MAX

MIME = "application/vnd.glovebox.names+json"
DEPTH_MAX = 100
NODES_MAX = 1000000
ROOM = frames.FRAME_BUNDLE_MAX - META_MAX - 4096  # bytes, as a JSON string in a bundle

_PLAIN = (int, float, str, list, dict)  # bool is an int


class NotJSON(Exception):
    """A value that JSON cannot represent."""


class TooLarge(Exception):
    """More than a reply can hold."""


# ---- values ----


def is_frame(value) -> bool:
    """Whether it is a DataFrame; without pandas nothing is."""
    frame = getattr(sys.modules.get("pandas"), "DataFrame", None)
    return isinstance(frame, type) and issubclass(type(value), frame)


def _clean(text: str) -> str:
    """An exact str that is valid as UTF-8, without lone surrogates."""
    text = str.__str__(text)
    try:
        text.encode()
        return text
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _kind(value) -> str:
    return type.__dict__["__name__"].__get__(type(value))


def _reason(error) -> str:
    try:
        return "%s: %s" % (_kind(error), str(error)[:200])
    except Exception:
        return _kind(error)


class Tree:
    """Creates plain trees. With @lenient values that are not JSON become their str(); otherwise
    NotJSON is raised and NaN and infinities become None."""

    def __init__(self, lenient: bool) -> None:
        self._lenient = lenient
        self._room = ROOM
        self._nodes = NODES_MAX
        self._above = set()  # ids of the containers that we are in

    def top(self, value):
        """The value of a name: exactly the types of json.dumps(), and tables."""
        if not self._lenient:
            return self.make(value)
        if is_frame(value):
            try:
                return self._text(value.to_json())
            except TooLarge:
                raise
            except Exception:
                return self._str(value)
        # None and tuples are JSON only inside other values: clients of this form expect their text.
        return self.make(value) if issubclass(type(value), _PLAIN) else self._str(value)

    def make(self, value):
        self._nodes -= 1
        if self._nodes < 0:
            raise TooLarge("it has more than %d parts" % NODES_MAX)
        kind = type(value)
        if value is None or kind is bool:
            return value
        if issubclass(kind, str):
            return self._text(value)
        if issubclass(kind, int):
            return self._int(value)
        if issubclass(kind, float):
            return self._float(value)
        if issubclass(kind, (dict, list, tuple)):
            return self._inside(value, kind)
        return self._other(value)

    def _take(self, size: int) -> None:
        self._room -= size
        if self._room < 0:
            raise TooLarge("it is larger than %d MiB" % (frames.FRAME_BUNDLE_MAX >> 20))

    def _text(self, text: str) -> str:
        self._take(str.__len__(text))
        return _clean(text)

    def _int(self, value):
        number = int.__add__(value, 0)
        self._take(int.bit_length(number) // 4)
        try:
            int.__repr__(number)  # a number with many digits may have no text
        except ValueError:
            return self._other(value)
        return number

    def _float(self, value):
        number = float.__add__(value, 0.0)
        if number - number == 0:
            return number
        return self._str(value) if self._lenient else None

    def _inside(self, value, kind):
        if id(value) in self._above or len(self._above) >= DEPTH_MAX:
            return self._other(value)
        self._above.add(id(value))
        try:
            if issubclass(kind, dict):
                return self._dict(value)
            items = list if issubclass(kind, list) else tuple
            return [self.make(item) for item in list(items.__iter__(value))]
        finally:
            self._above.discard(id(value))

    def _dict(self, value) -> dict:
        return {self._key(key): self.make(item) for key, item in list(dict.items(value))}

    def _key(self, key) -> str:
        kind = type(key)
        if issubclass(kind, str):
            return self._text(key)
        if key is None or kind is bool:
            return {None: "null", True: "true", False: "false"}[key]
        if issubclass(kind, int):
            return int.__repr__(key)
        if issubclass(kind, float):
            return float.__repr__(key)
        if not self._lenient:
            raise NotJSON
        return self._str(key)

    def _other(self, value):
        if not self._lenient:
            raise NotJSON
        return self._str(value)

    def _str(self, value) -> str:
        try:
            text = str(value)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            text = "<%s object, whose str() failed: %s>" % (_kind(value), _reason(error))
        return self._text(text)


# ---- a cell ----


def _stored(code) -> list:
    """The names that the code of a module assigns, executed or not. An assignment of the same
    object cannot be detected in any other way."""
    from opcode import EXTENDED_ARG, opmap

    stores = (opmap["STORE_NAME"], opmap["STORE_GLOBAL"])
    found, high, words = [], 0, code.co_code
    for at in range(0, len(words), 2):
        arg = words[at + 1] | high << 8
        high = arg if words[at] == EXTENDED_ARG else 0
        if words[at] in stores:
            found.append(code.co_names[arg])
    return found


def _is_private(name) -> bool:
    return type(name) is not str or (name.startswith("__") and name.endswith("__"))


class Collector:
    """Binds names before a cell runs, and returns those that it bound."""

    mime = MIME

    def __init__(self, wish: bytes, main: dict) -> None:
        from json import loads

        wish = loads(wish)
        self._main = main
        self._lenient = wish.get("get") != "json"
        self._inputs = wish.get("set") or {}
        self._stores = ()
        for name in self._inputs:
            if _is_private(name):
                raise ValueError("%r is not a valid variable name" % name)

    def begin(self, *codes) -> None:
        """Before these run."""
        names = dict.fromkeys(self._inputs)
        for code in codes:
            if code is not None:
                names.update(dict.fromkeys(_stored(code)))
        self._stores = names
        self._main.update(self._inputs)
        self._before = dict(self._main)

    def _bound(self) -> list:
        main, before = self._main, self._before
        names = [name for name in self._stores if name in main]
        for name, value in list(main.items()):
            if name not in self._stores and (name not in before or before[name] is not value):
                names.append(name)
        return [name for name in names if not _is_private(name)]

    def text(self) -> str:
        """The names that the cell bound, as the JSON text of an object."""
        from json import dumps

        tree, found = Tree(self._lenient), {}
        for name in self._bound():
            try:
                found[_clean(name)] = tree.top(self._main[name])
            except (NotJSON, KeyError):
                continue
            except TooLarge as error:
                raise ValueError("%s cannot be returned: %s. Return a part of it, or write it "
                                 "to a file" % (name, error)) from None
        text = dumps(found, allow_nan=False)
        if len(encode_basestring(text)) > ROOM:
            raise ValueError("the variables set by this code take more than %d MiB together. "
                             "Return less, or write it to a file" % (frames.FRAME_BUNDLE_MAX >> 20))
        return text


class Shown:
    """A value that is displayed as text of a special MIME type."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return "<names>"

    def _repr_mimebundle_(self, include=None, exclude=None):
        return {MIME: self._text}


def warm_up() -> None:
    """For the template: runs the code for a cell's names once."""
    import keyword  # noqa: F401
    import unicodedata  # noqa: F401

    collector = Collector(b'{"set": {"a": 1}}', {})
    collector.begin(compile("b = 2", "<warm up>", "exec"))
    collector.text()


# ---- tables, in cells that the service writes ----

_uploads: dict = {}  # names, in order of arrival


def _main() -> dict:
    return sys.modules["__main__"].__dict__


def _variable(name: str) -> str:
    import keyword
    import unicodedata

    name = unicodedata.normalize("NFKC", name)
    if not name.isidentifier() or keyword.iskeyword(name) or _is_private(name):
        raise ValueError("%r is not a valid variable name" % name)
    return name


def read_csv(name: str, path: str) -> None:
    """Reads the file into the DataFrame @name. The file is not needed after that."""
    name = _variable(name)
    path = os.path.join(tenant.workspace, path)
    try:
        with open(path, "rb") as file:
            import pandas

            frame = pandas.read_csv(file)
    finally:
        os.unlink(path)
    _main()[name] = frame
    _uploads[name] = True


def write_records(name: str, path: str) -> None:
    """The DataFrame @name as a JSON string with its records; anything else counts as an empty
    one."""
    import unicodedata

    frame = _main().get(unicodedata.normalize("NFKC", name))
    text = frame.to_json(orient="records") if is_frame(frame) else "[]"
    with open(os.path.join(tenant.workspace, path), "xb") as file:
        file.write(encode_basestring(_clean(text)).encode())


def uploads() -> Shown:
    """The names that were uploaded and are still tables, as the API lists them."""
    from json import dumps

    return Shown(dumps({"files": [name for name in _uploads if is_frame(_main().get(name))]}))


def clear() -> None:
    """Removes all names; the interpreter stays."""
    main = _main()
    _uploads.clear()
    for name in list(main):
        if not _is_private(name):
            del main[name]
    if shell.current is not None:
        shell.current.record.clear()
