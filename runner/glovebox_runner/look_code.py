"""Completion of a text, and help about the name under the cursor.

Names are resolved in what the session has, without running the text: variables, their attributes,
items of plain containers. Attributes are read as they are stored. A property would run code of the
program, so it is not evaluated; the class that it says it returns is used instead. What is called is
what a class offers for this purpose: __dir__(), __getattr__(), _ipython_key_completions_().
"""

import builtins
import itertools
import keyword
import os
import re
import sys

from . import look, script, shell

__builtins__ = script.__builtins__

_ENTRIES_MAX = 2000  # of a directory that are looked at
_NAMES_MAX = 20000  # attributes that are looked at
_EXPRESSION_MAX = 1000  # characters
_FUNCTIONS = (type(len), type(lambda: 0), type(str.join),
              type(str.__len__), type(dict.__dict__["fromkeys"]), classmethod, staticmethod)
_STATIC = object()  # for: there is no such attribute

# Properties of libraries that cost nothing and without which their objects cannot be explored.
_CHEAP = {"columns", "index", "loc", "iloc", "at", "iat", "str", "dt", "cat", "plot", "dtypes",
          "dtype", "shape", "T", "flat", "real", "sparse", "style"}

_TOKENS = re.compile(
    r"""(?P<comment>\#[^\n]*)
      | (?P<prefix>[A-Za-z]{0,2})(?P<quote>\"\"\"|'''|\"|')
      | (?P<open>[(\[{]) | (?P<close>[)\]}]) | (?P<line>\n)""",
    re.VERBOSE,
)
_ENDS = {
    '"""': re.compile(r'(?:[^\\]|\\.)*?"""', re.DOTALL),
    "'''": re.compile(r"(?:[^\\]|\\.)*?'''", re.DOTALL),
    '"': re.compile(r'(?:[^\\\n"]|\\.)*(?:"|(?=\n))', re.DOTALL),
    "'": re.compile(r"(?:[^\\\n']|\\.)*(?:'|(?=\n))", re.DOTALL),
}
_WORD = re.compile(r"[^\W\d]\w*\Z")
_BOUND = re.compile(
    r"^[ \t]*(?:(?:async[ ]+)?(?:def|class)[ ]+(\w+)|for[ ]+(\w+)[ ]+in\b|(\w+)[ ]*(?::[^=\n]+)?=(?!=)"
    r"|with[^\n]*\bas[ ]+(\w+)[ ]*:)|\bas[ ]+(\w+)[ ]*$|^[ \t]*import[ ]+(\w+)[ ]*$",
    re.MULTILINE,
)
_IMPORT = re.compile(r"(?:^|;)[ \t]*(?:import|from)[ ]+(?:[\w.]+(?:[ ]+as[ ]+\w+)?,[ ]*)*([\w.]*)\Z")
_FROM = re.compile(r"[ \t]*from[ ]+([\w.]+)[ ]+import(?=[ (])([\s\w(,]*)\Z")


# ---- the text before the cursor ----


class Place:
    """Where the cursor is: in a string or comment, and in which brackets."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.opened = []  # positions of brackets
        self.string = None  # position of its content
        self.prefix = self.quote = ""
        self.comment = False
        at = 0
        while True:
            token = _TOKENS.search(text, at)
            if token is None:
                break
            at = token.end()
            if token["comment"] is not None:
                self.comment = at == len(text)
            elif token["open"]:
                self.opened.append(token.start())
            elif token["close"]:
                del self.opened[-1:]
            elif token["quote"]:
                end = _ENDS[token["quote"]].match(text, at)
                if end is None:
                    self.string, self.quote = at, token["quote"]
                    self.prefix = self._letters(token).lower()
                    break
                at = end.end()
        self._enter_braces()

    def _letters(self, token) -> str:
        return last_word(self.text[: token.start("quote")])

    def _enter_braces(self) -> None:
        """The expression in an f-string is code."""
        if self.string is None or "f" not in self.prefix:
            return
        content = self.text[self.string :].replace("{{", "  ")
        start = content.rfind("{")
        if start >= 0 and "}" not in content[start:]:
            inner = Place(content[start + 1 :])
            self.text = inner.text
            self.string, self.quote, self.opened = inner.string, inner.quote, inner.opened
            self.prefix, self.comment = inner.prefix, inner.comment


def last_word(text: str) -> str:
    """The letters and digits at the end of the text, as many as a name may have."""
    at = len(text)
    while at > 0 and len(text) - at <= look.NAME_MAX and (text[at - 1].isalnum() or text[at - 1] == "_"):
        at -= 1
    return text[at:]


def _primary_before(text: str) -> str:
    """The expression that ends at the end of the text: names, attributes, calls, items."""
    at = len(text)
    while at > 0:
        c = text[at - 1]
        if c in ")]":
            at = _opening(text, at - 1)
            if at is None:
                return ""
        elif c.isalnum() or c == "_" or c == ".":
            at -= 1
        elif c in "\"'" and at == len(text.rstrip()):
            start = text.rfind(c, 0, at - 1)
            at = start if start >= 0 else 0
            break
        else:
            break
    return text[at:]


def _opening(text: str, at: int):
    depth = 0
    for i in range(at, max(at - 4096, -1), -1):
        if text[i] in ")]}":
            depth += 1
        elif text[i] in "([{":
            depth -= 1
            if depth == 0:
                return i
    return None


# ---- objects ----


class Unknown(Exception):
    """The text does not tell which object it means."""


class Instance:
    """Some object of a class: all that is known of what a call or a property returns."""

    def __init__(self, cls) -> None:
        self.cls = cls


def _returned(function):
    """An Instance of the class that a function says it returns."""
    notes = getattr(function, "__annotations__", None)
    cls = notes.get("return") if type(notes) is dict else None
    if type(cls) is str and look.is_a(function, type(_returned)):
        cls = function.__globals__.get(cls)
    if look.is_a(cls, type):
        return Instance(cls)
    raise Unknown


def _static(cls, name: str):
    """What the classes of an object have under a name."""
    for base in type.__dict__["__mro__"].__get__(cls):
        space = type.__dict__["__dict__"].__get__(base)
        if name in space:
            return space[name]
    return _STATIC


def attribute(value, name: str):
    """value.name, as far as it can be known without running a property."""
    if type(value) is Instance:
        found = _static(value.cls, name)
    elif look.is_a(value, type(sys)):
        return getattr(value, name)
    elif look.is_a(value, type):
        found = _static(value, name)
        if found is _STATIC:
            found = _static(type(value), name)
        if look.is_a(found, property):
            raise Unknown
        return found.__func__ if type(found) in (classmethod, staticmethod) else found
    else:
        found = _static(type(value), name)
        hides = found is not _STATIC and hasattr(type(found), "__set__")  # what the object has itself
        own = None if hides else getattr(value, "__dict__", None)
        if type(own) is dict and name in own:
            return own[name]
    if found is _STATIC:
        return _dynamic(value, name)
    return _bound(value, name, found)


def _dynamic(value, name: str):
    if type(value) is not Instance and _static(type(value), "__getattr__") is not _STATIC:
        return getattr(value, name)
    raise Unknown


def _bound(value, name: str, found):
    if type(found) is property:
        if type(value) is not Instance and name in _CHEAP and _is_library(value):
            return getattr(value, name)
        return _returned(found.fget)
    if type(found) in (classmethod, staticmethod):
        return found.__func__
    if hasattr(type(found), "__get__") and not look.is_a(found, type):
        if type(value) is Instance or look.is_a(found, type(attribute)):
            return found
        # Of C code, or a descriptor that a library has written.
        if _is_library(value) or look.home(type(value)) in ("builtins", "_io", "datetime"):
            if name in _CHEAP or look.is_a(found, _FUNCTIONS) or look.home(type(value)) != "pandas":
                return getattr(value, name)
        if type(found).__name__ in ("member_descriptor", "getset_descriptor"):
            return getattr(value, name)
        raise Unknown
    return found


def _is_library(value) -> bool:
    return look.home(type(value)) in ("pandas", "numpy", "polars", "matplotlib", "plotly")


class Resolver:
    """Evaluates an expression without calling more than attribute() does."""

    def __init__(self, main: dict) -> None:
        self._main = main

    def find(self, text: str):
        import ast

        if len(text) > _EXPRESSION_MAX:
            raise Unknown
        try:
            tree = ast.parse(text.strip(), mode="eval").body
        except (SyntaxError, ValueError, MemoryError, RecursionError):
            raise Unknown from None
        return self._node(ast, tree)

    def _node(self, ast, node):
        if isinstance(node, ast.Name):
            for space in (self._main, vars(builtins)):
                if node.id in space:
                    return space[node.id]
            raise Unknown
        if isinstance(node, ast.Attribute):
            return attribute(self._node(ast, node.value), node.attr)
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, (ast.List, ast.Dict, ast.Set, ast.Tuple, ast.JoinedStr)):
            kinds = {"List": list, "Dict": dict, "Set": set, "Tuple": tuple, "JoinedStr": str}
            return Instance(kinds[type(node).__name__])
        if isinstance(node, ast.Subscript):
            return self._item(ast, node)
        if isinstance(node, ast.Call):
            called = self._node(ast, node.func)
            if look.is_a(called, type):
                return Instance(called)
            return _returned(called)
        raise Unknown

    def _item(self, ast, node):
        value = self._node(ast, node.value)
        index = node.slice
        if isinstance(index, getattr(ast, "Index", ())):  # of 3.8
            index = index.value
        if isinstance(index, ast.UnaryOp) and isinstance(index.operand, ast.Constant):
            index = ast.Constant(-index.operand.value)
        if not isinstance(index, ast.Constant):
            if look.is_a(value, (str, bytes)) or (type(value) is Instance and value.cls is str):
                return Instance(str)
            raise Unknown
        key = index.value
        if type(value) in (list, tuple, dict, str):
            return value[key]
        if look.home(type(value)) == "pandas" and type(key) is str and key in _keys(value):
            return value[key]
        raise Unknown


def _keys(value):
    """The keys of an object that are text."""
    method = None if type(value) is Instance else _static(type(value), "_ipython_key_completions_")
    if look.is_a(value, dict):
        keys = dict.keys(value)
    elif look.home(type(value)) == "pandas":
        keys = value.columns if hasattr(value, "columns") else value.index
        keys = keys[: look.MATCHES_MAX * 10]
    elif look.home(type(value)) == "polars" and hasattr(value, "columns"):
        keys = value.columns
    elif look.home(type(value)) == "numpy" and hasattr(value, "dtype"):
        keys = value.dtype.names or ()
    elif method not in (None, _STATIC):
        keys = method(value)
    else:
        return []
    return [key for key in list(keys) if type(key) is str]


def _kind(owner, name: str) -> str:
    """Which kind of thing an attribute is, without evaluating it."""
    try:
        if type(owner) is Instance:
            found = _static(owner.cls, name)
        elif look.is_a(owner, type(sys)):
            found = owner.__dict__.get(name, _STATIC)
        else:
            own = getattr(owner, "__dict__", None)
            found = own.get(name, _STATIC) if type(own) is dict else _STATIC
            if found is _STATIC:
                found = _static(owner if look.is_a(owner, type) else type(owner), name)
    except Exception:
        found = _STATIC
    return "instance" if found is _STATIC else kind(found)


def kind(value) -> str:
    if look.is_a(value, type(sys)):
        return "module"
    if look.is_a(value, type):
        return "class"
    if look.is_a(value, _FUNCTIONS):
        return "function"
    return "property" if look.is_a(value, property) else "instance"


# ---- completion ----


class Completion:
    def __init__(self, text: str, cursor: int, main: dict) -> None:
        self._all = text
        self._cursor = min(max(cursor, 0), len(text))
        self._main = main
        self._start = self._cursor
        self._matches = []
        self._seen = set()

    def finish(self) -> dict:
        return {"matches": self._matches, "start": self._start, "end": self._cursor}

    def run(self) -> None:
        try:
            self._run()
        except Exception:
            pass  # it has no answer, or the program's code failed

    def _run(self) -> None:
        text = self._all[: self._cursor]
        place = Place(text)
        if place.comment:
            return
        if place.string is not None:
            self._in_string(place)
            return
        line = place.text[place.text.rfind("\n") + 1 :]
        if self._imports(place, line) or self._magics(line):
            return
        word = last_word(place.text)
        if word[:1].isdigit():
            return
        self._start = self._cursor - len(word)
        before = place.text[: len(place.text) - len(word)]
        if before.endswith("."):
            self._attributes(_primary_before(before[:-1]), word)
            return
        if not word and place.opened and before.rstrip().endswith("["):
            self._quoted_keys(before.rstrip()[:-1])
        if place.opened and place.text[place.opened[-1]] == "(":
            self._parameters(place, word)
        self._names(word)

    # Adding matches.

    def _add(self, text: str, type_: str) -> None:
        if len(self._matches) >= look.MATCHES_MAX or text in self._seen:
            return
        if not 0 < len(text) <= look.NAME_MAX or not text.isprintable():
            return
        self._seen.add(text)
        self._matches.append({"text": text, "type": type_})

    def _add_all(self, names, word: str, owner=None, type_=None, fold=True) -> None:
        """Those that begin with the word; if there are none, whatever the case of their letters.
        Names that begin with an underscore are for those who ask for them."""
        names = sorted({name for name in names if type(name) is str})
        fits = [name for name in names if name.startswith(word)]
        if not fits and fold and word:
            fits = [name for name in names if name.lower().startswith(word.lower())]
        if word[:1] != "_":
            fits = [name for name in fits if name[:1] != "_"]
        elif word[:2] != "__":
            fits.sort(key=lambda name: name[:2] == "__")
        for name in fits:
            if len(self._matches) >= look.MATCHES_MAX:
                return
            self._add(name, type_ or _kind(owner, name))

    # What can be completed.

    def _names(self, word: str) -> None:
        """Variables, names that the text itself binds, keywords, builtins."""
        main = {name: value for name, value in list(self._main.items()) if type(name) is str}
        for name in sorted(main):
            if name.startswith(word) and (word[:1] == "_" or name[:1] != "_"):
                self._add(name, kind(main[name]))
        bound = [name for found in _BOUND.findall(self._all) for name in found if name and name != word]
        self._add_all(bound, word, type_="instance", fold=False)
        if word:
            self._add_all(keyword.kwlist, word, type_="keyword", fold=False)
        space = {name: value for name, value in vars(builtins).items() if name[:1] != "_"}
        for name in sorted(space):
            if name.startswith(word):
                self._add(name, kind(space[name]))
        if not self._matches and word:
            self._add_all([*main, *space], word, type_="instance")

    def _attributes(self, expression: str, word: str) -> None:
        try:
            value = Resolver(self._main).find(expression)
        except Unknown:
            return
        names = dir(value.cls) if type(value) is Instance else _names_of(value)
        self._add_all([name for name in names if type(name) is str and name.isidentifier()], word, value)

    def _parameters(self, place: Place, word: str) -> None:
        """Keyword arguments of the call."""
        if not word and not re.search(r"[(,]\s*\Z", place.text):
            return
        called = _called(place, self._main)
        for name in _parameter_names(called) if called is not None else ():
            if name.startswith(word):
                self._add(name + "=", "param")

    def _quoted_keys(self, expression: str) -> None:
        try:
            keys = _keys(Resolver(self._main).find(_primary_before(expression)))
        except Unknown:
            return
        for key in keys[: look.MATCHES_MAX]:
            self._add('"%s"' % _escaped(key, '"'), "key")

    def _in_string(self, place: Place) -> None:
        content = place.text[place.string :]
        before = place.text[: place.string - len(place.quote) - len(place.prefix)].rstrip()
        self._start = self._cursor - len(content)
        if before.endswith("["):
            try:
                keys = _keys(Resolver(self._main).find(_primary_before(before[:-1])))
            except Unknown:
                keys = []
            escaped = [_escaped(key, place.quote[0]) for key in keys]
            self._add_all(escaped, content, type_="key")
        elif len(place.quote) == 1 and "\n" not in content:
            self._paths(content)

    def _paths(self, content: str) -> None:
        folder, _, part = content.rpartition("/")
        folder = os.path.expanduser(folder + "/") if "/" in content else "."
        self._start = self._cursor - len(part)
        entries = []
        with os.scandir(folder) as listing:
            for entry in listing:
                if len(entries) >= _ENTRIES_MAX:
                    break
                if entry.name.startswith(part) and (part or entry.name[:1] != "."):
                    entries.append((entry.name, entry.is_dir()))
        for name, is_dir in sorted(entries):
            self._add(name + "/" if is_dir else name, "directory" if is_dir else "path")

    def _imports(self, place: Place, line: str) -> bool:
        first = place.opened[0] if place.opened else len(place.text)
        found = _FROM.match(place.text, place.text.rfind("\n", 0, first) + 1)
        if found:
            word = last_word(found.group(2))
            self._start = self._cursor - len(word)
            self._members(found.group(1), word)
            return True
        found = _IMPORT.search(line)
        if not found:
            return False
        parent, _, part = found.group(1).rpartition(".")
        self._start = self._cursor - len(part)
        names = _submodules(parent) if parent else _modules()
        self._add_all(names, part, type_="module")
        return True

    def _members(self, module: str, word: str) -> None:
        loaded = sys.modules.get(module)
        if loaded is not None:
            self._add_all(dir(loaded), word, loaded)
        self._add_all(_submodules(module), word, type_="module")

    def _magics(self, line: str) -> bool:
        found = re.match(r"[ \t]*(%%?)(\w*)\Z", line)
        if not found:
            return False
        ip = shell.current.ip() if shell.current is not None else None
        magics = ip.magics_manager.magics["cell" if found.group(1) == "%%" else "line"] if ip else ()
        self._start = self._cursor - len(found.group(2))
        self._add_all(list(magics), found.group(2), type_="magic")
        return True


def _names_of(value):
    """dir(value), also if what its class says cannot be sorted or does not end."""
    return itertools.islice(_static(type(value), "__dir__")(value), _NAMES_MAX)


def _escaped(key: str, quote: str) -> str:
    return repr(key)[1:-1].replace("\\'", "'").replace(quote, "\\" + quote)


def _modules():
    import pkgutil

    names = set(sys.builtin_module_names) | set(getattr(sys, "stdlib_module_names", ()))
    names.update(name for name in list(sys.modules) if "." not in name)
    names.update(info.name for info in pkgutil.iter_modules())
    names.discard("__main__")
    return [name for name in names if not name.startswith(("_", "glovebox_runner"))]


def _submodules(parent: str):
    import pkgutil

    module = sys.modules.get(parent)
    path = getattr(module, "__path__", None)
    if path is None and module is None:
        import importlib.util

        spec = importlib.util.find_spec(parent) if "." not in parent else None
        path = None if spec is None else spec.submodule_search_locations
    return [info.name for info in pkgutil.iter_modules(list(path))] if path is not None else []


def _called(place: Place, main: dict):
    """The function in whose brackets the cursor is."""
    for at in reversed(place.opened[-8:]):
        if place.text[at] == "(":
            expression = _primary_before(place.text[:at])
            if not expression:
                continue
            try:
                return Resolver(main).find(expression)
            except Unknown:
                return None
    return None


def _parameter_names(function):
    import inspect

    if type(function) is Instance:
        return []
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    found = inspect.signature(function).parameters.values()
    return [p.name for p in found if p.kind in kinds and p.name not in ("self", "cls")]


# ---- help ----


class Help:
    """The signature and the beginning of the documentation of what is under the cursor."""

    def __init__(self, text: str, cursor: int, main: dict) -> None:
        self._text = text
        self._cursor = min(max(cursor, 0), len(text))
        self._main = main
        self._found = ""

    def finish(self) -> dict:
        return {"found": bool(self._found), "text": self._found[: look.TEXT_MAX]}

    def run(self) -> None:
        try:
            self._run()
        except Exception:
            pass

    def _run(self) -> None:
        rest = re.match(r"\w*", self._text[self._cursor :]).group()
        place = Place(self._text[: self._cursor] + rest)
        if place.comment or place.string is not None:
            expression = ""
        else:
            expression = _primary_before(place.text)
        value = None
        try:
            if not _WORD.search(expression):
                raise Unknown
            value = Resolver(self._main).find(expression)
        except Unknown:
            expression = ""
            value = _called(place, self._main)
            if value is None:
                return
        self._found = self._describe(value, expression)

    def _describe(self, value, expression: str) -> str:
        name = expression.rpartition(".")[2]
        if type(value) is Instance:
            return "%s: %s" % (name, type.__dict__["__name__"].__get__(value.cls))
        parts = []
        is_callable = look.is_a(value, (type, *_FUNCTIONS)) or _static(type(value), "__call__") is not _STATIC
        if is_callable:
            parts.append(self._signature(value, name))
        elif look.is_a(value, type(sys)):
            parts.append("module " + look.clean(str(value.__dict__.get("__name__")), look.NAME_MAX))
        else:
            parts.append("%s: %s" % (name or "value", look.kind(value)))
            parts.append(look.summarize(value, True))
        text = self._documentation(value)
        return "\n".join([*parts, "", text] if text else parts)

    @staticmethod
    def _signature(value, name: str) -> str:
        import inspect

        own = getattr(value, "__name__", None)
        name = name or (own if type(own) is str else look.kind(value))
        try:
            text = str(inspect.signature(value))
        except Exception:
            text = "(…)"
        return ("class " if look.is_a(value, type) else "") + look.clean(name + text, 1000)

    @staticmethod
    def _documentation(value) -> str:
        import inspect

        documented = look.is_a(value, (type, type(sys), *_FUNCTIONS))
        text = inspect.getdoc(value if documented else type(value))
        if type(text) is not str:
            return ""
        lines = text[: look.TEXT_MAX].splitlines()[:60]
        text = "\n".join(look.clean(line.expandtabs(), 400) for line in lines)
        return text
