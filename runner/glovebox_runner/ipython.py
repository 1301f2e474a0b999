"""IPython's shell, with our displays, streams, errors and packages.

An object of the class Shell is what get_ipython() returns. It keeps no files, starts no threads and
holds no descriptors, so a template can create it before it is cloned: there is no history database
and no profile. bind() connects it to a session (shell.py).

It works with the IPython of Debian 12 (8.5) and with that of PyPI (9). It never runs a cell of the
session itself. Magics that run code do (%%capture, %run), and so does the program, with run_cell().
"""

import sys

_ABSENT = {"jedi": None}  # modules that IPython can do without: a good part of its memory


def _embed(**kwargs):
    from IPython.terminal.embed import embed

    return embed(**kwargs)


if "IPython" not in sys.modules:
    # IPython 8 loads the terminal's shell for this one function.
    _ABSENT["IPython.terminal.embed"] = type(sys)("IPython.terminal.embed")
    _ABSENT["IPython.terminal.embed"].embed = _embed
_ABSENT = {name: module for name, module in _ABSENT.items() if name not in sys.modules}
sys.modules.update(_ABSENT)
try:
    import IPython.core.completer  # noqa: F401
finally:
    for _name in _ABSENT:
        sys.modules.pop(_name, None)

import atexit
import builtins
import linecache
import os
import subprocess

from IPython.core import interactiveshell, magic
from IPython.core.autocall import IPyAutocall
from IPython.core.builtin_trap import BuiltinTrap
from IPython.core.compilerop import CachingCompiler
from IPython.core.display_functions import DisplayHandle
from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher
from IPython.core.error import UsageError
from IPython.core.formatters import DisplayFormatter
from IPython.core.history import HistoryManager
from IPython.core.interactiveshell import InteractiveShell
from IPython.core.macro import Macro
from IPython.core.profiledir import ProfileDir
from IPython.lib import pretty
from IPython.utils.text import LSString, SList
from traitlets.config import Config

from . import display, hooks, script, shell, sources

DIRECTORY = "/tmp/.ipython"  # of what %store keeps; created with the first of it
PRETTY_MAX = 50000  # items of a value that is laid out; more are printed as they are
PLAIN = "text/plain"

script.our_globals.append(globals())


# ---- values as text ----


def _count(value, most: int) -> int:
    """Items of nested containers, up to about @most."""
    if type(value) not in display._CONTAINERS:
        return 1
    items = [value]
    count = 0
    while items and count < most:
        item = items.pop()
        count += len(item)
        inside = item.values() if type(item) is dict else item
        if len(item) <= most:
            items.extend(each for each in inside if type(each) in display._CONTAINERS)
    return count


def lay_out(value, formatter=None) -> str:
    """The text that IPython shows for a value."""
    if display.is_too_long(value) or _count(value, PRETTY_MAX) >= PRETTY_MAX:
        return display.plain(value)
    from io import StringIO

    stream = StringIO()
    if formatter is not None and not formatter.pprint:
        return repr(value)
    if formatter is None:
        printer = pretty.RepresentationPrinter(stream, False, 79, "\n", max_seq_length=1000)
    else:
        printer = pretty.RepresentationPrinter(
            stream, formatter.verbose, formatter.max_width, formatter.newline,
            max_seq_length=formatter.max_seq_length,
            singleton_pprinters=formatter.singleton_printers,
            type_pprinters=formatter.type_printers,
            deferred_pprinters=formatter.deferred_printers,
        )
    printer.pretty(value)
    printer.flush()
    return stream.getvalue()


class Formatter(DisplayFormatter):
    """The formatters that a program can register printers with; our descriptions for the rest."""

    def format(self, obj, include=None, exclude=None):
        return display.format(obj, include, exclude)

    def describe(self, value, bundle) -> bool:
        """Adds what registered printers return. True if one of them draws the value."""
        draws = False
        for mime, formatter in self.formatters.items():
            if mime == PLAIN or not formatter.enabled:
                continue
            if not (formatter.type_printers or formatter.deferred_printers
                    or formatter.singleton_printers):
                continue
            try:
                printer = formatter.lookup(value)
            except KeyError:
                continue
            bundle.attempt(mime, printer, value)
            draws = draws or mime.startswith("image/") or mime == "application/pdf"
        return draws


# ---- displays ----


class Publisher(DisplayPublisher):
    def publish(self, data, metadata=None, source=None, *, transient=None, update=False, **kwargs):
        if display.publisher is not None:
            display.publisher.show_bundle(data, metadata, (transient or {}).get("display_id"),
                                          update)

    def clear_output(self, wait=False):
        if display.publisher is not None:
            display.publisher.clear(wait)


class Capture:
    """Another publisher of IPython's, in place of ours."""

    def __init__(self, publisher) -> None:
        self._publisher = publisher

    def show(self, value, include=None, exclude=None, metadata=None, display_id=None,
             update=False) -> None:
        data, own = display.format(value, include, exclude)
        if data:
            self.show_bundle(data, {**own, **(metadata or {})}, display_id, update)

    def show_bundle(self, data, metadata=None, display_id=None, update=False) -> None:
        transient = {"display_id": display_id} if display_id else {}
        self._publisher.publish(data=data, metadata=metadata or {}, transient=transient,
                                update=update)

    def clear(self, wait) -> None:
        self._publisher.clear_output(wait)


class Hook(DisplayHook):
    """Values that a nested cell shows. Those of the session's own cells do not come here, unless
    all of a cell's expressions are to be shown."""

    def __call__(self, result=None):
        self.check_for_underscore()
        if result is None or self.quiet():
            return
        self.fill_exec_result(result)
        display.display(result)
        self.shell.bridge.record.keep(result)


# ---- magics ----


@magic.magics_class
class Packages(magic.Magics):
    @magic.line_magic
    def pip(self, line):
        """Install packages: %pip install NAME..."""
        shell.pip(line)

    @magic.no_var_expand
    @magic.line_magic
    def conda(self, line):
        raise UsageError("there is no conda in a box; use %pip install")

    mamba = micromamba = conda

    @magic.no_var_expand
    @magic.line_magic
    def uv(self, line):
        raise UsageError("there is no uv in a box; use %pip install")


@magic.magics_class
class Refused(magic.Magics):
    @magic.no_var_expand
    @magic.line_magic
    def edit(self, line):
        raise UsageError("there is no editor in a box; write the file with %%writefile")

    @magic.no_var_expand
    @magic.line_magic
    def gui(self, line):
        if line.strip() not in ("", "inline"):
            raise UsageError("there is no screen in a box, so no event loop of a toolkit")

    @magic.no_var_expand
    @magic.line_magic
    def pdb(self, line):
        if line.strip().lower() not in ("off", "0"):
            raise UsageError("there is no terminal for a debugger in a box; %tb prints the "
                             "traceback again")
        print("Automatic pdb calling has been turned OFF")


# ---- what IPython would keep in files ----


class _Profile(ProfileDir):
    def _location_changed(self, change):
        pass  # creates no directories

    def check_dirs(self):
        pass


class History(HistoryManager):
    """In memory: the inputs of this session that are kept."""

    def _lines(self, raw, output, numbers):
        lines = self.input_hist_raw if raw else self.input_hist_parsed
        for number in numbers:
            text = lines[number]
            yield 0, number, (text, self.output_hist_reprs.get(number)) if output else text

    def get_tail(self, n=10, raw=True, output=False, include_latest=False):
        end = len(self.input_hist_raw) - (not include_latest)
        return self._lines(raw, output, range(max(1, end - (n or 10)), end))

    def search(self, pattern="*", raw=True, search_raw=True, output=False, n=None, unique=False):
        from fnmatch import fnmatch

        lines = self.input_hist_raw if search_raw else self.input_hist_parsed
        found = [number for number in range(1, len(lines)) if fnmatch(lines[number], pattern)]
        if unique:
            found = sorted({lines[number]: number for number in found}.values())
        return self._lines(raw, output, found[-n:] if n else found)


class Store(dict):
    """db: in memory, except for what %store keeps, which outlives the interpreter."""

    _files = None

    def _of(self, key):
        if not str(key).startswith("autorestore"):
            return super()
        if self._files is None:
            try:
                from IPython.external.pickleshare import PickleShareDB
            except ImportError:
                from pickleshare import PickleShareDB
            Store._files = PickleShareDB(os.path.join(DIRECTORY, "db"))
        return self._files

    def __getitem__(self, key):
        return self._of(key).__getitem__(key)

    def __setitem__(self, key, value):
        self._of(key).__setitem__(key, value)

    def __delitem__(self, key):
        try:
            self._of(key).__delitem__(key)
        except KeyError:
            pass

    def get(self, key, default=None):
        try:
            return self[key]
        except KeyError:
            return default

    def keys(self, pattern=None):
        if pattern is None:
            return super().keys()
        return self._of(pattern).keys(pattern) if str(pattern).startswith("autorestore") else []


# ---- the shell ----


class Compiler(CachingCompiler):
    """Remembers the text of nested cells, for tracebacks."""

    def ast_parse(self, source, filename="<unknown>", symbol="exec"):
        self._text = source
        return super().ast_parse(source, filename, symbol)

    def __call__(self, source, filename, *args, **kwargs):
        if filename in ("<timed exec>", "<timed eval>") and isinstance(self._text, str):
            sources.remember(filename, self._text.encode("utf-8", "replace"), {})
        return super().__call__(source, filename, *args, **kwargs)

    def cache(self, transformed_code, number=0, raw_code=None):
        name = super().cache(transformed_code, number, raw_code)
        sources.remember(name, transformed_code.encode("utf-8", "replace"), {})
        return name


def _print_page(self, data, start=0, screen_lines=0):
    """What would be shown in a pager."""
    text = data.get(PLAIN, "") if isinstance(data, dict) else data
    print("\n".join(str(text).splitlines()[max(0, start):]))


class Shell(InteractiveShell):
    """get_ipython()"""

    compiler_class = Compiler
    display_pub_class = Publisher
    displayhook_class = Hook
    bridge = None  # shell.Shell of the session
    db = None

    def __init__(self) -> None:
        newer = hasattr(interactiveshell, "make_main_module_type")
        config = Config()
        config.HistoryManager.enabled = False
        config.InteractiveShell.colors = "nocolor" if newer else "NoColor"
        config.InteractiveShell.separate_in = ""
        config.IPCompleter.use_jedi = False
        super().__init__(user_module=type(sys)("__glovebox_shell__"), config=config)
        self.db = Store()
        self.set_hook("show_in_pager", _print_page, 0)
        self.register_magics(Packages, Refused)
        self.extension_manager.load_extension("storemagic")
        self._ours = self._transformers()
        self._mode = self.InteractiveTB.mode

    # What it would do to the interpreter, the profile and the terminal.

    def init_ipython_dir(self, ipython_dir):
        # Its observer would create the directory.
        self._trait_values["ipython_dir"] = DIRECTORY

    def init_profile_dir(self, profile_dir):
        self.profile_dir = _Profile(location=os.path.join(DIRECTORY, "profile_default"))

    def init_virtualenv(self):
        pass

    def init_sys_modules(self):
        pass

    def init_prompts(self):
        pass

    def init_builtins(self):
        self.builtin_trap = BuiltinTrap(shell=self)

    def init_history(self):
        self.history_manager = History(shell=self, parent=self)
        self.configurables.append(self.history_manager)

    def init_user_ns(self):
        if self.bridge is not None:  # after %reset
            self.bridge.record.clear()

    def init_display_formatter(self):
        self.display_formatter = Formatter(parent=self)
        self.configurables.append(self.display_formatter)

    def atexit_operations(self):
        for path in list(self.tempfiles):
            try:
                path.unlink()
            except OSError:
                pass

    def _add_inline_backend(self) -> None:
        """For %config InlineBackend, also before %matplotlib. Loads matplotlib."""
        try:
            from matplotlib_inline.config import InlineBackend
        except ImportError:
            return
        backend = InlineBackend.instance(parent=self)
        backend.shell = self
        if backend not in self.configurables:
            self.configurables.append(backend)

    def bind(self, bridge) -> None:
        record = bridge.record
        self.bridge = bridge
        self.user_module = bridge.main
        self.user_ns = bridge.main.__dict__
        self.ns_table = {"user_global": self.user_ns, "user_local": self.user_ns,
                         "builtin": vars(builtins)}
        history = self.history_manager
        history.input_hist_parsed = record.parsed
        history.input_hist_raw = record.raw
        history.output_hist = record.results
        history.dir_hist = self.user_ns.get("_dh") or [os.getcwd()]
        self.last_execution_result = interactiveshell.ExecutionResult(self._info(""))
        hidden = ("In", "Out", "_ih", "_oh", "_dh", "_", "__", "___", "_i", "_ii", "_iii",
                  "__warningregistry__")
        self.user_ns_hidden = {name: self.user_ns.get(name) for name in hidden}
        linecache.checkcache = _checkcache
        display.pretty = self._lay_out
        display.registered = self.display_formatter.describe
        display.uses_registered = True
        display.capturing = self._capturing
        for name in _HIDDEN_MODULES:
            if name in sys.modules:
                script.our_globals.append(sys.modules[name].__dict__)

    def _capturing(self):
        """What receives displays while something captures them, as %%capture does."""
        return None if type(self.display_pub) is Publisher else Capture(self.display_pub)

    def _lay_out(self, value) -> str:
        return lay_out(value, self.display_formatter.formatters[PLAIN])

    def get_ipython(self):
        return self

    @property
    def execution_count(self):
        return 1 if self.bridge is None else max(1, self.bridge.record.count)

    @execution_count.setter
    def execution_count(self, value):
        pass  # the session counts

    @property
    def loop_runner(self):
        return _Runner(self.bridge)

    @loop_runner.setter
    def loop_runner(self, value):
        raise UsageError("cells of a session have one event loop, that of asyncio")

    # The session's own cells.

    def _transformers(self):
        manager = self.input_transformer_manager
        return [list(part) for part in (
            manager.cleanup_transforms, manager.line_transforms, manager.token_transformers,
            self.input_transformers_post, self.ast_transformers,
        )]

    def changes_code(self) -> bool:
        return self.ast_node_interactivity != "last_expr" or self._transformers() != self._ours

    def transform_tree(self, tree):
        """The syntax tree of a cell, and which of its expressions are shown."""
        import ast

        tree = self.transform_ast(tree)
        which = self.ast_node_interactivity
        if which != "last_expr_or_assign" or not tree.body:
            return tree, which
        last = tree.body[-1]
        targets = getattr(last, "targets", None) or [getattr(last, "target", None)]
        if isinstance(last, (ast.Assign, ast.AugAssign, ast.AnnAssign)) and len(targets) == 1:
            if isinstance(targets[0], ast.Name):
                shown = ast.Expr(ast.Name(targets[0].id, ast.Load()))
                tree.body.append(ast.fix_missing_locations(ast.copy_location(shown, last)))
        return tree, "last_expr"

    def is_called_by_name(self, source: bytes) -> bool:
        if len(source) > 100:
            return False
        value = self.user_ns.get(source.decode("utf-8", "replace").strip())
        return issubclass(type(value), (Macro, IPyAutocall))

    def before_code(self, raw: str) -> None:
        self.events.trigger("pre_execute")
        if self.events.callbacks["pre_run_cell"]:
            self.events.trigger("pre_run_cell", self._info(raw))
        if self.logger.log_active:
            self.logger.log(self.bridge.record.parsed[-1], raw)

    @staticmethod
    def _info(raw: str):
        return interactiveshell.ExecutionInfo(raw, True, False, True, None)

    def wants_end(self) -> bool:
        return any(self.events.callbacks[name] for name in ("post_execute", "post_run_cell"))

    def after_code(self, error) -> None:
        self.events.trigger("post_execute")
        if self.events.callbacks["post_run_cell"]:
            result = interactiveshell.ExecutionResult(self._info(self.bridge.record.raw[-1]))
            result.execution_count = self.execution_count
            result.error_in_exec = error
            result.result = self.bridge.record.results.get(self.execution_count)
            self.events.trigger("post_run_cell", result)

    # Nested cells, and code that magics run.

    def run_cell(self, *args, **kwargs):
        result = super().run_cell(*args, **kwargs)
        if hooks.has_figures():
            hooks.show_figures()  # here, where they may be captured
        return result

    def _find_with_lazy_load(self, type_, magic_name):
        # For every magic that is run. A method around run_line_magic() would be in tracebacks.
        if magic_name in ("config", "matplotlib", "pylab"):
            self._add_inline_backend()
        return super()._find_with_lazy_load(type_, magic_name)

    # Errors.

    def showtraceback(self, exc_tuple=None, filename=None, tb_offset=None, exception_only=False,
                      running_compiled_code=False):
        try:
            _, error, tb = self._get_exc_info(exc_tuple)
        except ValueError:
            print("No traceback available to show.", file=sys.stderr)
            return
        error = error.with_traceback(_skip_frames(tb))
        if sys._getframe(1).f_globals is self.user_ns:
            self.bridge.report(error)  # the program handles it, and only wants to see it
        else:
            self.bridge.note(error)

    def showsyntaxerror(self, filename=None, running_compiled_code=False):
        self.showtraceback()

    def show_usage_error(self, exc):
        self.bridge.note(exc)

    def handles(self, error) -> bool:
        """Whether set_custom_exc() has named its class."""
        return bool(self.custom_exceptions) and isinstance(error, self.custom_exceptions)

    def describe_error(self, error):
        """As %xmode has asked for; None for the usual form."""
        if isinstance(error, UsageError):
            error.__traceback__ = error.__context__ = error.__cause__ = None
            return "UsageError: %s\n" % error
        if self.InteractiveTB.mode == self._mode:
            return None
        lines = self.InteractiveTB.structured_traceback(type(error), error, error.__traceback__)
        return self.InteractiveTB.stb2text(lines) + "\n"

    # Commands.

    def system(self, cmd):
        """Runs a shell command. Its output is the cell's own."""
        command = self.var_expand(cmd, depth=1)
        arguments = shell.pip_arguments(command)
        if arguments is not None:
            shell.pip(arguments)
            return
        shell.flush()
        self.user_ns["_exit_code"] = _run_command(command)

    system_piped = system_raw = system

    def getoutput(self, cmd, split=True, depth=0):
        shell.flush()
        done = subprocess.run(self.var_expand(cmd, depth=depth + 1), shell=True,
                              executable=_bash(), stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.user_ns["_exit_code"] = done.returncode
        text = done.stdout.decode("utf-8", "surrogateescape")
        return SList(text.splitlines()) if split else LSString(text.rstrip("\n"))

    # What a box does not have.

    def set_next_input(self, s, replace=False):
        print("glovebox: there is no input line to put this text in, so it is printed",
              file=sys.stderr)
        print(s)

    def ask_yes_no(self, prompt, default=None, interrupt=None):
        if default is None:
            raise UsageError("%s There is nobody to answer; use the option that does not ask"
                             % prompt)
        return default == "y"

    def enable_gui(self, gui=None):
        if gui not in (None, "", "inline", "agg"):
            raise UsageError("there is no screen in a box; figures are shown inline")

    def enable_matplotlib(self, gui=None):
        if gui not in (None, "inline", "auto", "agg"):
            print("glovebox: figures cannot be interactive in a box; they are shown inline",
                  file=sys.stderr)
        return "inline", "inline"


class _Runner:
    """The session's event loop, as IPython calls it."""

    def __init__(self, bridge) -> None:
        self._bridge = bridge

    def __call__(self, coroutine):
        return self._bridge.wait_for(coroutine)

    def __str__(self) -> str:
        return "asyncio"


_HIDDEN_MODULES = ("IPython.core.interactiveshell", "IPython.core.async_helpers")


def _skip_frames(tb):
    """The traceback from the first frame that is the program's."""
    while tb is not None and _is_inside(tb.tb_frame.f_globals):
        tb = tb.tb_next
    return tb


def _is_inside(namespace) -> bool:
    name = namespace.get("__name__")
    return (isinstance(name, str) and name.partition(".")[0] == "IPython") or any(
        namespace is ours for ours in script.our_globals
    )


def _bash() -> str:
    return "/bin/bash" if os.path.exists("/bin/bash") else "/bin/sh"


def _run_command(command: str) -> int:
    """Over our own pipes, unless the program captures what is printed."""
    captured = [stream if stream is not own else None
                for stream, own in ((sys.stdout, sys.__stdout__), (sys.stderr, sys.__stderr__))]
    pipes = [None if stream is None else subprocess.PIPE for stream in captured]
    process = subprocess.Popen(command, shell=True, executable=_bash(),
                               stdin=subprocess.DEVNULL, stdout=pipes[0], stderr=pipes[1])
    try:
        if captured == [None, None]:
            return process.wait()
        for stream, data in zip(captured, process.communicate()):
            if stream is not None:
                stream.write(data.decode("utf-8", "replace"))
        return process.returncode
    except BaseException:
        process.kill()
        process.wait()
        raise


_checkcache = linecache.checkcache


def make() -> Shell:
    """In the template, or in a session that needs it. Leaves the interpreter as it was."""
    global _checkcache
    before = (linecache.checkcache, sys.displayhook, sys.excepthook)
    store = getattr(interactiveshell, "PickleShareDB", None)
    if store is not None:
        interactiveshell.PickleShareDB = lambda path: None
    try:
        made = Shell()
    finally:
        _checkcache = linecache.checkcache
        linecache.checkcache, sys.displayhook, sys.excepthook = before
        if store is not None:
            interactiveshell.PickleShareDB = store
    atexit.unregister(made.atexit_operations)
    _close_devnull()
    hooks.adapt_loaded("IPython")
    display.make_handle = DisplayHandle
    display.pretty = lay_out
    return made


class _Nowhere:
    closed = False

    def write(self, text):
        return len(text)

    def flush(self):
        pass

    close = flush


def _close_devnull() -> None:
    """IPython 8 opens it at once, and a template holds no descriptors."""
    from IPython.utils import io

    opened = getattr(io, "devnull", None)
    if opened is not None:
        atexit.unregister(opened.close)
        opened.close()
        io.devnull = _Nowhere()
