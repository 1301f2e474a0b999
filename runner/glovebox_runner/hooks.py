"""Display libraries in a cell: show() shows, and so does IPython's display().

A library is adapted when it is loaded, whether before the cell (in the template) or by it: a finder
in front of the others sees the import and calls the adapter once the module is complete. A library
that is never imported costs a dictionary look-up.
"""

import builtins
import sys

from . import fonts, loop, plotly_images, shell
from .display import display


# ---- figures ----


def _managers():
    helpers = sys.modules.get("matplotlib._pylab_helpers")
    return helpers.Gcf.get_all_fig_managers() if helpers is not None else []


def has_figures() -> bool:
    """Whether some are open; if unknown, yes."""
    helpers = sys.modules.get("matplotlib._pylab_helpers")
    if helpers is None:
        return False
    try:
        return bool(helpers.Gcf.figs)
    except AttributeError:
        return True


def _closes_figures() -> bool:
    """%config InlineBackend.close_figures"""
    module = sys.modules.get("matplotlib_inline.config")
    if module is None or not module.InlineBackend.initialized():
        return True
    return module.InlineBackend.instance().close_figures


def show_figures(but=None) -> None:
    """Shows the open figures, and closes them. Figures that are to stay open are shown when they
    have changed."""
    closes = _closes_figures()
    for manager in _managers():
        figure = manager.canvas.figure
        if figure is not but and (closes or figure.stale):
            display(figure)
            figure.stale = False
    if closes and _managers():
        sys.modules["matplotlib._pylab_helpers"].Gcf.destroy_all()


def _adapt_pyplot(pyplot) -> None:
    def show(*args, **kwargs):
        show_figures()

    show.__doc__ = getattr(pyplot.show, "__doc__", None)
    pyplot.show = show


def _adapt_figure(module) -> None:
    def show(self, warn=True):
        display(self)
        helpers = sys.modules.get("matplotlib._pylab_helpers")
        if helpers is not None:
            helpers.Gcf.destroy_fig(self)

    module.Figure.show = show


def _adapt_plotly(module) -> None:
    def show(fig, *args, **kwargs):
        if isinstance(fig, dict):
            from plotly.graph_objects import Figure

            fig = Figure(fig)
        display(fig)

    module.show = show


def _adapt_pillow(module) -> None:
    def show(self, *args, **kwargs):
        display(self)

    module.Image.show = show


def _adapt_ipython(module) -> None:
    """Also of IPython's own functions that use display()."""
    if getattr(module, "display", None) is not display:
        module.display = display


def _adapt_get_ipython(module) -> None:
    if module.get_ipython is not shell.get_ipython:
        module.get_ipython = shell.get_ipython


def _adapt_shell(module) -> None:
    """The functions that return IPython's shell return ours in a session of cells. In a script
    there is none, as without us."""
    ancestor = module.InteractiveShell
    if "initialized" in vars(ancestor):
        return
    initialized, instance = ancestor.initialized.__func__, ancestor.instance.__func__

    def is_initialized(cls):
        return shell.is_active() or initialized(cls)

    def get_instance(cls, *args, **kwargs):
        if shell.is_active():
            ours = shell.get_ipython()
            if isinstance(ours, cls):
                return ours
        return instance(cls, *args, **kwargs)

    ancestor.initialized = classmethod(is_initialized)
    ancestor.instance = classmethod(get_instance)


_ADAPTERS = {
    "asyncio.events": loop.adapt,
    "matplotlib.font_manager": fonts.install,
    "matplotlib.pyplot": _adapt_pyplot,
    "matplotlib.figure": _adapt_figure,
    "kaleido.scopes.base": plotly_images.adapt_kaleido,
    "plotly.io": _adapt_plotly,
    "plotly.io._kaleido": plotly_images.adapt_plotly,
    "PIL.Image": _adapt_pillow,
    "IPython": _adapt_get_ipython,
    "IPython.core.getipython": _adapt_get_ipython,
    "IPython.core.interactiveshell": _adapt_shell,
    "IPython.core.display_functions": _adapt_ipython,
    "IPython.display": _adapt_ipython,
}


def _adapt(module) -> None:
    try:
        _ADAPTERS[module.__name__](module)
    except Exception:
        pass  # an unknown version of a library is left unchanged


class _Loader:
    """Wraps another loader and calls the adapter after it."""

    def __init__(self, loader) -> None:
        self._loader = loader

    def __getattr__(self, name):
        return getattr(self._loader, name)

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module) -> None:
        module.__loader__ = module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        _adapt(module)


class _Finder:
    """In front of the other finders."""

    def __init__(self) -> None:
        self._waiting = set(_ADAPTERS)

    def find_spec(self, name, path=None, target=None):
        if name not in self._waiting:
            return None
        self._waiting.discard(name)
        for finder in sys.meta_path:
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                if hasattr(spec.loader, "exec_module"):
                    spec.loader = _Loader(spec.loader)
                return spec
        self._waiting.add(name)
        return None


_adapted = set()  # in the template, which is not touched again in its clones


def adapt_loaded(prefix: str = "") -> None:
    """The libraries whose names begin with @prefix, if they are loaded."""
    for name in _ADAPTERS:
        if name.startswith(prefix) and name not in _adapted and name in sys.modules:
            _adapt(sys.modules[name])
            _adapted.add(name)


def install() -> None:
    """Once in a tenant that runs cells."""
    builtins.display = display
    adapt_loaded()
    sys.meta_path.insert(0, _Finder())
