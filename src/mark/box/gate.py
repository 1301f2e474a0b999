"""The policy gate: looks at a program without running it.

Run as a script in a box of its own. Standard input is JSON, {"policy": {...}, "code": "..."}, with a
policy that gate.c has checked; standard output is JSON too:

    {"denied": false}
    {"denied": true, "line": 3, "message": "..."}

The program is parsed by the same Python that would run it, after IPython's translation where Python
refuses it, and its tree is walked: what it imports, what it refers to. Names are followed through
imports, assignments, getattr() with a constant, __import__() and importlib. What Python refuses even
then is let through: it will be refused again.

This is no wall. Python can build any name at run time; the wall is the box. The gate is for
operators who want a model to keep to a list, and for a message that the model can act on.
"""

import ast
import json
import re
import sys

NESTED_MAX = 3  # levels of exec("...") and %time
NAMES_MAX = 20000  # aliases that are followed
PARTS_MAX = 30  # of a dotted name

# As runner/glovebox_runner/shell.py: what IPython could translate.
MARKS = re.compile(
    r"^[ \t]*(?:[%!?,;/]|>>>|\.\.\.|In[ ]?\[|\x1b)|=[ \t]*[%!]|\?[ \t]*(?:\#.*)?$|"
    r"\A(?:[ \t]*(?:\#.*)?\n)*[ \t]+[^\s#]",
    re.MULTILINE,
)
MAGIC = re.compile(r"^[ \t]*(?:[\w, .\[\]]+=[ \t]*)?(!|%%?)[ \t]*([A-Za-z_]\w*)?", re.MULTILINE)
HARMLESS = {"matplotlib", "config", "precision", "who", "whos", "who_ls", "pip"}
PYTHON = {"time", "timeit", "prun", "capture", "memit"}  # magics whose text is Python

SHELL_CALLS = [
    "os.system", "os.popen", "os.execl", "os.execle", "os.execlp", "os.execlpe", "os.execv",
    "os.execve", "os.execvp", "os.execvpe", "os.posix_spawn", "os.posix_spawnp", "os.spawnl",
    "os.spawnle", "os.spawnlp", "os.spawnlpe", "os.spawnv", "os.spawnve", "os.spawnvp",
    "os.spawnvpe", "os.startfile", "posix.system", "posix.popen", "subprocess", "pty.spawn",
    "commands", "asyncio.create_subprocess_exec", "asyncio.create_subprocess_shell",
    "asyncio.subprocess", "get_ipython.system", "get_ipython.getoutput", "get_ipython.magic",
    "get_ipython.run_cell",
]
MAGICS = {"get_ipython.run_line_magic", "get_ipython.run_cell_magic"}
# Attributes that code without tricks uses.
PLAIN_DUNDERS = {
    "__name__", "__doc__", "__version__", "__file__", "__init__", "__len__", "__iter__", "__next__",
    "__enter__", "__exit__", "__str__", "__repr__", "__eq__", "__hash__", "__call__", "__add__",
    "__getitem__", "__setitem__", "__contains__", "__post_init__", "__all__", "__main__",
}
IMPORTERS = {"__import__", "builtins.__import__", "importlib.import_module",
             "importlib.__import__", "importlib.util.find_spec", "importlib.reload",
             "runpy.run_module"}
RUNNERS = {"eval", "exec", "compile", "builtins.eval", "builtins.exec", "builtins.compile"}
BUILTIN = re.compile(r"[A-Za-z_]\w*\Z")


class Denied(Exception):
    def __init__(self, line, message):
        super().__init__(message)
        self.line = line


def matches(name, pattern):
    """"os.path" is matched by "os.path", "os" and "os.*"."""
    if pattern.endswith(".*"):
        return name.startswith(pattern[:-1])
    return name == pattern or name.startswith(pattern + ".")


def cut(text):
    text = str(text)
    return text if len(text) <= 80 else text[:77] + "..."


class Gate:
    def __init__(self, policy):
        deny, allow = policy.get("deny", {}), policy.get("allow", {})
        self.shell = policy.get("shell", True)
        self.dunders = policy.get("dunders", True)
        self.deny_imports = deny.get("imports", [])
        self.allow_imports = allow.get("imports")
        calls = list(deny.get("calls", []))
        self.deny_attributes = {p[1:] for p in calls if p.startswith(".")}
        self.deny_calls = [p for p in calls if not p.startswith(".")]
        self.allow_calls = allow.get("calls", [])
        self.deny_names = set(deny.get("names", [])) - set(allow.get("names", []))
        self.restricts_imports = bool(self.deny_imports) or self.allow_imports is not None
        self.aliases = {}
        self.called = set()  # ids of nodes: functions of calls that were checked

    # ---- rules ----

    def check_import(self, name, line):
        for pattern in self.deny_imports:
            if matches(name, pattern):
                raise Denied(line, "importing '%s' is not allowed here (denied: imports '%s')"
                             % (cut(name), pattern))
        if self.allow_imports is not None and name.partition(".")[0] != "mark":
            if not any(matches(name, pattern) for pattern in self.allow_imports):
                raise Denied(line, "importing '%s' is not allowed here; allowed are: %s"
                             % (cut(name), cut(", ".join(self.allow_imports)) or "none"))

    def check_reference(self, name, line):
        """A dotted name that the program uses."""
        if not self.shell:
            for pattern in SHELL_CALLS:
                if matches(name, pattern):
                    raise Denied(line, "'%s' runs commands, which is not allowed here (shell)"
                                 % cut(name))
        if any(matches(name, pattern) for pattern in self.allow_calls):
            return
        for pattern in self.deny_calls:
            if matches(name, pattern):
                raise Denied(line, "'%s' is not allowed here (denied: calls '%s')"
                             % (cut(name), pattern))

    def check_name(self, name, line):
        """One identifier, wherever it stands."""
        if name in self.deny_names:
            raise Denied(line, "the name '%s' is not allowed here (denied: names)" % cut(name))

    def check_attribute(self, name, line):
        self.check_name(name, line)
        if name in self.deny_attributes:
            raise Denied(line, "'.%s' is not allowed here (denied: calls '.%s')" % (name, name))
        dunder = name.startswith("__") and name.endswith("__") and len(name) > 4
        if dunder and not self.dunders and name not in PLAIN_DUNDERS:
            raise Denied(line, "the attribute '%s' is not allowed here (dunders)" % cut(name))

    def computed_import(self, line):
        if self.restricts_imports:
            raise Denied(line, "an import whose name is computed is not allowed here: "
                               "write the name of the module")

    def hides(self, module):
        """Whether something in the module is denied, so that a computed name may be it."""
        rules = self.deny_calls + ([] if self.shell else SHELL_CALLS)
        if self.deny_attributes:
            return True
        return any(p.startswith(module + ".") or matches(module, p.removesuffix(".*"))
                   for p in rules)

    # ---- what a name stands for ----

    def resolve(self, node):
        """All dotted names that an expression may stand for."""
        tail = []
        while len(tail) < PARTS_MAX:  # what is longer has a part that is looked at by itself
            if isinstance(node, ast.Attribute):
                tail.append(node.attr)
                node = node.value
            elif isinstance(node, ast.Subscript):
                key = self.constant(node.slice)
                found = self.subscript(node.value, key)
                if found is None:
                    return []
                node, part = found
                tail.extend(part)
            elif isinstance(node, ast.Call):
                return self.resolve_call(node, tail)
            elif isinstance(node, ast.NamedExpr):
                node = node.value
            elif isinstance(node, ast.Name):
                return [".".join([base] + tail[::-1]) for base in self.bases(node.id)]
            else:
                break
        return []

    def bases(self, name):
        return self.aliases.get(name, ()) or [name]

    @staticmethod
    def constant(node):
        return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None

    def subscript(self, base, key):
        """sys.modules["os"], vars(os)["system"], os.__dict__["system"], globals()["eval"]."""
        if key is None or not BUILTIN.match(key.replace(".", "_") or " "):
            return None
        if isinstance(base, ast.Attribute) and base.attr == "__dict__":
            return base.value, [key]
        if isinstance(base, ast.Attribute) and base.attr == "modules":
            return ast.Name(id=key.partition(".")[0], ctx=ast.Load()), key.split(".")[:0:-1]
        if isinstance(base, ast.Call) and isinstance(base.func, ast.Name):
            if base.func.id == "vars" and base.args:
                return base.args[0], [key]
            if base.func.id in ("globals", "locals", "vars"):
                return ast.Name(id=key, ctx=ast.Load()), []
        if isinstance(base, ast.Name) and base.id == "__builtins__":
            return ast.Name(id=key, ctx=ast.Load()), []
        return None

    def resolve_call(self, node, tail):
        """getattr(os, "system"), __import__("os"), get_ipython()."""
        rest = tail[::-1]
        for name in self.plain_names(node.func):
            text = self.constant(node.args[1]) if len(node.args) > 1 else None
            if name in ("getattr", "builtins.getattr") and text is not None:
                inner = ast.Attribute(value=node.args[0], attr=text, ctx=ast.Load())
                return [".".join([base] + rest) for base in self.resolve(inner)]
            module = self.constant(node.args[0]) if node.args else None
            if name in IMPORTERS and module is not None:
                if name.endswith("__import__") and len(node.args) < 4:
                    module = module.partition(".")[0]
                return [".".join([module] + rest)]
            if name == "get_ipython":
                return [".".join(["get_ipython"] + rest)]
        return []

    def plain_names(self, func):
        """As resolve(), without calls in it: these would nest as deep as the program likes."""
        tail = []
        while isinstance(func, ast.Attribute) and len(tail) < PARTS_MAX:
            tail.append(func.attr)
            func = func.value
        if not isinstance(func, ast.Name):
            return []
        return [".".join([base] + tail[::-1]) for base in self.bases(func.id)]

    # ---- aliases ----

    def learn(self, tree):
        """Names that stand for modules and functions, wherever in the program. Twice, since an
        alias may be of an alias; who chains more of them is not stopped."""
        nodes = [node for node in ast.walk(tree)
                 if isinstance(node, (ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign,
                                      ast.NamedExpr, ast.For, ast.withitem))]
        for _ in range(2):
            for node in nodes:
                self.learn_from(node)

    def alias(self, name, target):
        found = self.aliases.setdefault(name, [])
        if target not in found and len(found) < 8 and len(self.aliases) < NAMES_MAX:
            found.append(target)

    def learn_from(self, node):
        if isinstance(node, ast.Import):
            for part in node.names:
                if part.asname:
                    self.alias(part.asname, part.name)
                else:
                    top = part.name.partition(".")[0]
                    self.alias(top, top)
        elif isinstance(node, ast.ImportFrom):
            for part in node.names:
                if part.name != "*":
                    self.alias(part.asname or part.name, "%s.%s" % (node.module or "", part.name))
        elif isinstance(node, (ast.Assign, ast.AnnAssign, ast.NamedExpr)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            pairs = [(target, node.value) for target in targets]
            for target, value in pairs[:]:
                if isinstance(target, (ast.Tuple, ast.List)) and isinstance(value, (ast.Tuple, ast.List)):
                    pairs.extend(zip(target.elts, value.elts))
            for target, value in pairs:
                if isinstance(target, ast.Name) and value is not None:
                    for name in self.resolve(value):
                        if name != target.id:
                            self.alias(target.id, name)

    # ---- the walk ----

    def check(self, code, nested=0):
        code, tree = self.parse(code)
        if tree is None:
            return
        self.learn(tree)
        for node in ast.walk(tree):
            line = getattr(node, "lineno", 1)
            if isinstance(node, ast.Import):
                for part in node.names:
                    self.check_import(part.name, line)
            elif isinstance(node, ast.ImportFrom):
                self.check_from(node, line)
            elif isinstance(node, ast.Attribute):
                self.check_attribute(node.attr, line)
                self.check_uses(node, line)
            elif isinstance(node, ast.Subscript):
                self.check_modules(node, line)
                self.check_uses(node, line)
            elif isinstance(node, ast.Name):
                self.check_name(node.id, line)
                if isinstance(node.ctx, ast.Load):
                    self.check_uses(node, line)
            elif isinstance(node, ast.Call):
                self.check_call(node, line, nested)
            elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                self.check_name(node.name, line)

    def check_from(self, node, line):
        module = node.module or ""
        if node.level and self.restricts_imports:
            raise Denied(line, "relative imports are not allowed here")
        self.check_import(module, line)
        for part in node.names:
            if part.name == "*":
                if self.hides(module):
                    raise Denied(line, "'from %s import *' is not allowed here, because some of it is "
                                       "denied: import what you need by name" % cut(module))
                continue
            name = "%s.%s" % (module, part.name)
            for pattern in self.deny_imports:
                if matches(name, pattern):
                    self.check_import(name, line)
            self.check_name(part.name, line)
            self.check_reference(name, line)

    def check_uses(self, node, line):
        for name in self.resolve(node):
            self.check_reference(name, line)
            for prefix in ("builtins.", "__builtins__."):
                if name.startswith(prefix):
                    self.check_reference(name[len(prefix):], line)
            if name in MAGICS and id(node) not in self.called:
                self.check_shell(name, line)

    def check_modules(self, node, line):
        """sys.modules[...]"""
        base = node.value
        if isinstance(base, ast.Attribute) and base.attr == "modules" and \
                "sys.modules" in self.resolve(base):
            key = self.constant(node.slice)
            if key is None:
                self.computed_import(line)
            else:
                self.check_import(key, line)

    def check_shell(self, name, line):
        self.check_reference("shell", line)
        if not self.shell:
            raise Denied(line, "'%s' runs commands, which is not allowed here (shell)" % cut(name))

    def check_call(self, node, line, nested):
        self.called.add(id(node.func))  # parents come before children
        self.check_uses(node, line)
        for name in self.resolve(node.func):
            name = name.removeprefix("builtins.") if name != "builtins.__import__" else name
            if name in IMPORTERS:
                module = self.constant(node.args[0]) if node.args else None
                if module is None:
                    self.computed_import(line)
                else:
                    self.check_import(module, line)
            elif name in ("getattr", "setattr", "hasattr", "operator.attrgetter"):
                self.check_getattr(node, line)
            elif name.startswith("sys.modules."):
                module = self.constant(node.args[0]) if node.args else None
                if module is None:
                    self.computed_import(line)
                else:
                    self.check_import(module, line)
            elif name in RUNNERS and node.args:
                text = self.constant(node.args[0])
                if text is not None:
                    self.check_nested(text, line, nested)
            elif name.startswith("get_ipython."):
                self.check_magic(name, node, line, nested)

    def check_getattr(self, node, line):
        text = self.constant(node.args[1]) if len(node.args) > 1 else None
        if text is not None:
            self.check_attribute(text, line)
            return
        for name in self.resolve(node.args[0]) if node.args else ():
            if name in self.known_modules() and self.hides(name):
                raise Denied(line, "getattr() of '%s' with a computed name is not allowed here, "
                                   "because some of it is denied" % cut(name))

    def known_modules(self):
        return {name for names in self.aliases.values() for name in names} | {"builtins", "__builtins__"}

    def check_nested(self, text, line, nested):
        if nested >= NESTED_MAX:
            raise Denied(line, "code in text in code is too deep to be checked")
        try:
            self.check(text, nested + 1)
        except Denied as denied:
            raise Denied(line, "in the text that it runs: %s" % denied)

    # ---- magics ----

    def check_magic(self, name, node, line, nested):
        texts = [self.constant(arg) for arg in node.args]
        magic = texts[0] if texts else None
        if name.endswith("_magic") and magic in PYTHON:
            for text in texts[1:]:
                text = re.sub(r"^(?:\s*-\w+(?:\s+\d+)?)+\s*", "", text or "")
                if text:
                    self.check_nested(text, line, nested)
        elif name.endswith("_magic") and magic == "load_ext":
            self.check_import(texts[1] if len(texts) > 1 and texts[1] else "", line)
        elif name in MAGICS and magic not in HARMLESS:
            self.check_shell("%" + (magic or "magic"), line)

    def check_marks(self, code):
        """Lines that only IPython understands, if none of them may run a command."""
        if self.shell:
            return
        for match in MAGIC.finditer(code):
            kind, word = match.groups()
            if kind == "!" or word not in HARMLESS | PYTHON | {"load_ext"}:
                line = code.count("\n", 0, match.start(1)) + 1
                raise Denied(line, "lines with %s run commands, which is not allowed here (shell)"
                             % ("!" if kind == "!" else "magics such as " + kind + (word or "")))

    def parse(self, code):
        tree = parse(code)
        if tree is not None or not MARKS.search(code):
            return code, tree
        self.check_marks(code)
        code = translate(code)
        return code, parse(code)


def parse(code):
    """None if Python refuses it."""
    try:
        return ast.parse(code)
    except (SyntaxError, ValueError) as error:
        # "too many nested parentheses" is a SyntaxError: Python refuses to run it, too
        del error
        return None
    except (RecursionError, MemoryError):
        raise Denied(1, "the program is nested too deeply to be checked: write it more simply") from None


def translate(code):
    """As IPython translates it; without IPython there is nothing that would."""
    try:
        from IPython.core.inputtransformer2 import TransformerManager

        return TransformerManager().transform_cell(code)
    except ImportError:
        return code
    except SyntaxError:
        return code


def check(policy, code):
    sys.setrecursionlimit(1000)
    try:
        Gate(policy).check(code)
    except Denied as denied:
        text = str(denied).encode("ascii", "backslashreplace").decode()
        return {"denied": True, "line": denied.line, "message": text[:400]}
    except RecursionError:
        return {"denied": True, "line": 1,
                "message": "the program is nested too deeply to be checked: write it more simply"}
    return {"denied": False}


if __name__ == "__main__":
    request = json.load(sys.stdin.buffer)
    sys.stdout.write(json.dumps(check(request["policy"], request["code"])) + "\n")
