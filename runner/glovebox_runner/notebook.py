"""Cells that were written for a notebook: !commands, %magics, a cell that is indented as a whole.

prepare() turns such text into Python with the same line numbers. It is called only for text that
Python itself has refused, so plain Python never passes through here. A line with a ! or % becomes a
call of get_ipython(), as in IPython; the Shell below is what that returns.

An unknown magic is a syntax error that names it: no part of the cell has run then.
"""

import os
import re
import sys
import time

_TOKEN = re.compile(
    r"""
    (?P<triple>\"\"\"(?:\\.|[^\\])*?(?:\"\"\"|\Z)|'''(?:\\.|[^\\])*?(?:'''|\Z))
  | (?P<string>"(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?)
  | (?P<comment>\#[^\n]*)
  | (?P<open>[(\[{])
  | (?P<close>[)\]}])
  | (?P<joined>\\\n)
  | (?P<end>\n)
    """,
    re.DOTALL | re.VERBOSE,
)
_LINE = re.compile(r"(?P<head>[ \t]*)(?P<mark>!!|!|%)(?P<rest>[^\n]*)")
_ASSIGN = re.compile(
    r"(?P<head>[ \t]*[A-Za-z_][\w.,\[\]'\" \t*]*?[ \t]*=[ \t]*)(?P<mark>!|%)(?P<rest>[^\n=][^\n]*)"
)
_INDENT = re.compile(r"(?:[ \t]*(?:#[^\n]*)?\n)*([ \t]+)[^\s#]")
_PIP = re.compile(r"(?:python3?\s+-m\s+)?pip3?(?:\s+(?P<args>.*))?\Z", re.DOTALL)
_NAME = re.compile(r"\s*([A-Za-z_]\w*)\s*(.*)\Z", re.DOTALL)
_EXPAND = re.compile(r"\{\{|\}\}|\{(?P<expr>[^{}\n]+)\}|\$(?P<name>[A-Za-z_]\w*)")
_LINE_MAGICS = ("autoreload", "cd", "conda", "config", "env", "load_ext", "ls", "mamba",
                "matplotlib", "pip", "pwd", "pylab", "set_env", "sx", "system", "time", "timeit")
_CELL_MAGICS = ("bash", "file", "html", "javascript", "latex", "markdown", "sh", "svg", "time",
                "timeit", "writefile")
_SHOWN = {"html": "text/html", "javascript": "application/javascript", "latex": "text/latex",
          "markdown": "text/markdown", "svg": "image/svg+xml"}


class Prepared:
    def __init__(self, text: str, timed: bool = False) -> None:
        self.text = text
        self.timed = timed


def prepare(text: str, filename: str) -> Prepared:
    text = _dedent(text.replace("\r\n", "\n"))
    first = re.match(r"\s*%%(?!%)[^\n]*", text)
    if first is None:
        return Prepared(_translate(text, filename))
    return _prepare_cell(text, filename, first)


def _dedent(text: str) -> str:
    """Removes the indentation of the first line of code from all lines that have it."""
    found = _INDENT.match(text)
    if found is None:
        return text
    indent = found.group(1)
    lines = text.split("\n")
    return "\n".join(line[len(indent):] if line.startswith(indent) else line for line in lines)


def _prepare_cell(text, filename, first) -> Prepared:
    line = first.group().strip()
    number = first.group().count("\n") + 1
    name, args = _split(line[2:])
    if name not in _CELL_MAGICS:
        raise _unknown("%%" + name, _CELL_MAGICS, "%%", filename, number, line)
    body = text[first.end():]
    if name == "time" and not args:
        return Prepared(_translate("\n" * (number - 1) + body, filename), timed=True)
    body = body.partition("\n")[2]
    call = "get_ipython().run_cell_magic(%r, %r, %r)" % (name, args, body)
    return Prepared("\n" * (number - 1) + call)


def _translate(text: str, filename: str) -> str:
    out = []
    at = depth = 0
    while at < len(text):
        if depth == 0:
            found = _LINE.match(text, at) or _ASSIGN.match(text, at)
            if found is not None:
                command, end = _whole(text, found)
                number = text.count("\n", 0, at) + 1
                out.append(found.group("head"))
                out.append(_call(found, command, filename, number))
                out.append("\n" * text.count("\n", at, end))
                at = end
                if text.startswith("\n", at):
                    out.append("\n")
                    at += 1
                continue
        end, depth = _statement_end(text, at, depth)
        out.append(text[at:end])
        at = end
    return "".join(out)


def _whole(text, found):
    """The command with the lines that a backslash joins to it, and where it ends."""
    end = found.end()
    while text[end - 1] == "\\" and end < len(text):
        following = text.find("\n", end + 1)
        end = len(text) if following < 0 else following
    return text[found.start("rest"):end].replace("\\\n", " "), end


def _statement_end(text, at, depth):
    """The end of the logical line that starts or continues at @at."""
    for token in _TOKEN.finditer(text, at):
        if token.lastgroup == "open":
            depth += 1
        elif token.lastgroup == "close":
            depth = max(0, depth - 1)
        elif token.lastgroup == "end" and depth == 0:
            return token.end(), 0
    return len(text), 0


def _split(text):
    found = _NAME.match(text)
    return (found.group(1), found.group(2).strip()) if found else (text.strip(), "")


def _call(found, command, filename, number) -> str:
    mark = found.group("mark")
    assigned = "=" in found.group("head")
    if mark == "%":
        name, args = _split(command)
        if name not in _LINE_MAGICS:
            line = found.group().strip()
            raise _unknown("%" + name, _LINE_MAGICS, "%", filename, number, line)
        return "get_ipython().run_line_magic(%r, %r)" % (name, args)
    command = command.strip()
    pip = _PIP.match(command)
    if pip is not None and not assigned:
        return "get_ipython().run_line_magic('pip', %r)" % (pip.group("args") or "")
    method = "getoutput" if assigned or mark == "!!" else "system"
    return "get_ipython().%s(%r)" % (method, command)


def _unknown(name, known, mark, filename, number, line) -> SyntaxError:
    words = "%s is not supported; use one of: %s" % (name, " ".join(mark + k for k in known))
    return SyntaxError(words, (filename, number, 1, line))


# ---- the shell ----


class Shell:
    """The result of get_ipython() in a cell."""

    def __init__(self, namespace: dict, filename: str = "<magic>") -> None:
        self.user_ns = namespace
        self.filename = filename

    def system(self, command: str) -> None:
        """Runs a shell command. Its output streams like the program's own."""
        import subprocess

        _flush()
        done = subprocess.run(self._expand(command), shell=True, executable=_shell(),
                              stdin=subprocess.DEVNULL)
        self.user_ns["_exit_code"] = done.returncode

    def getoutput(self, command: str) -> list:
        import subprocess

        _flush()
        done = subprocess.run(self._expand(command), shell=True, executable=_shell(),
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)
        self.user_ns["_exit_code"] = done.returncode
        return done.stdout.decode("utf-8", "surrogateescape").splitlines()

    def run_line_magic(self, name: str, line: str = "", **kwargs):
        if name not in _LINE_MAGICS:
            raise ValueError("%%%s is not supported" % name)
        return getattr(self, "_line_" + name)(line)

    def run_cell_magic(self, name: str, line: str, cell: str):
        if name not in _CELL_MAGICS:
            raise ValueError("%%%%%s is not supported" % name)
        if name in _SHOWN:
            from .display import display

            display({_SHOWN[name]: cell}, raw=True)
            return None
        return getattr(self, "_cell_" + name)(line, cell)

    def magic(self, line: str):
        return self.run_line_magic(*_split(line.lstrip("%")))

    def _expand(self, command: str) -> str:
        """{expression} and $name as in IPython; everything else is left to the shell."""

        def value_of(found):
            if found.group() in ("{{", "}}"):
                return found.group()[0]
            expr = found.group("expr") or found.group("name")
            if expr.isidentifier():
                return str(self.user_ns[expr]) if expr in self.user_ns else found.group()
            try:
                return str(eval(expr, self.user_ns))
            except Exception:
                return found.group()

        return _EXPAND.sub(value_of, command)

    # Settings of a notebook that have no effect here.

    def _line_matplotlib(self, line) -> None:
        pass

    _line_config = _line_matplotlib

    def _line_load_ext(self, line) -> None:
        if line != "autoreload":
            print("glovebox: the extension %s is not supported" % line, file=sys.stderr)

    _line_autoreload = _line_matplotlib

    def _line_pylab(self, line) -> None:
        exec("import numpy\nimport numpy as np\nimport matplotlib.pyplot as plt\n"
             "from numpy import *\nfrom matplotlib.pyplot import *", self.user_ns)

    # Directories, variables, commands.

    def _line_cd(self, line) -> None:
        os.chdir(os.path.expanduser(self._expand(line).strip("'\"")) or os.path.expanduser("~"))
        print(os.getcwd())

    def _line_pwd(self, line) -> str:
        return os.getcwd()

    def _line_ls(self, line) -> None:
        self.system("ls " + line)

    def _line_system(self, line):
        return self.getoutput(line)

    _line_sx = _line_system

    def _line_env(self, line):
        name, equals, value = line.partition("=")
        if not equals:
            name, _, value = line.partition(" ")
        if not name:
            return dict(os.environ)
        if not value:
            return os.environ.get(name.strip(), "")
        os.environ[name.strip()] = self._expand(value.strip())
        return None

    _line_set_env = _line_env

    def _line_pip(self, line) -> None:
        from . import packages

        self.user_ns["_exit_code"] = 1
        packages.pip(self._expand(line))
        self.user_ns["_exit_code"] = 0

    def _line_conda(self, line) -> None:
        print("glovebox: conda is not available in a box; use %pip install", file=sys.stderr)

    _line_mamba = _line_conda

    # Time.

    def _run(self, text, first_line=1):
        """Runs statements in the cell's names; returns the value of an expression."""
        try:
            code = compile(text, self.filename, "eval")
        except SyntaxError:
            code = compile("\n" * (first_line - 1) + text, self.filename, "exec")
        return eval(code, self.user_ns)

    def _line_time(self, line):
        watch = Watch()
        value = self._run(line)
        watch.print()
        return value

    def _cell_time(self, line, cell) -> None:
        watch = Watch()
        self._run(line + "\n" + cell)
        watch.print()

    def _line_timeit(self, line) -> None:
        self._cell_timeit("", re.sub(r"^(?:-\w+\s*\d*\s+)*", "", line))

    def _cell_timeit(self, line, cell) -> None:
        import timeit

        timer = timeit.Timer(cell, globals=self.user_ns)
        count, taken = timer.autorange()
        best = min([taken, *timer.repeat(2, count)]) / count
        print("%s per loop (best of 3 runs, %d loops each)" % (_duration(best), count))

    # Cells that are not Python.

    def _cell_bash(self, line, cell) -> None:
        import subprocess

        _flush()
        subprocess.run(cell, shell=True, executable=_shell(), stdin=subprocess.DEVNULL, check=True)

    _cell_sh = _cell_bash

    def _cell_writefile(self, line, cell) -> None:
        append = line.startswith("-a ")
        name = line[3:].strip() if append else line
        with open(name, "a" if append else "w", encoding="utf-8") as file:
            file.write(cell)
        print("Wrote", name)

    _cell_file = _cell_writefile


def _shell() -> str:
    return "/bin/bash" if os.path.exists("/bin/bash") else "/bin/sh"


def _flush() -> None:
    for name in ("stdout", "stderr"):
        try:
            getattr(sys, name).flush()
        except Exception:
            pass


def _duration(seconds: float) -> str:
    for unit, part in (("s", 1), ("ms", 1e3), ("µs", 1e6)):
        if seconds * part >= 1:
            return "%.3g %s" % (seconds * part, unit)
    return "%.3g ns" % (seconds * 1e9)


class Watch:
    """%time and %%time."""

    def __init__(self) -> None:
        self._times = os.times()
        self._started = time.perf_counter()

    def print(self) -> None:
        wall = time.perf_counter() - self._started
        now = os.times()
        user, system = now.user - self._times.user, now.system - self._times.system
        print("CPU times: user %s, sys: %s, total: %s"
              % (_duration(user), _duration(system), _duration(user + system)))
        print("Wall time: %s" % _duration(wall))
