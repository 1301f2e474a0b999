"""Display libraries in a cell: show() shows, and `from IPython.display import …` works.

A library is adapted when it is loaded, whether before the cell (in the template) or by it: a finder
in front of the others sees the import and calls the adapter once the module is complete. A library
that is never imported costs a dictionary look-up.

If IPython is not installed a small stand-in takes its place, for cells that were written for
notebooks. If it is, only its display() is replaced.
"""

import builtins
import sys
import types
from importlib.machinery import ModuleSpec

from . import display as _display
from . import fonts, loop
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


def show_figures(but=None) -> None:
    """Shows the open figures, and closes them."""
    for manager in _managers():
        figure = manager.canvas.figure
        if figure is not but:
            display(figure)
    if _managers():
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
    if getattr(module, "display", None) is not display:
        module.display = display


_ADAPTERS = {
    "asyncio.events": loop.adapt,
    "matplotlib.font_manager": fonts.install,
    "matplotlib.pyplot": _adapt_pyplot,
    "matplotlib.figure": _adapt_figure,
    "plotly.io": _adapt_plotly,
    "PIL.Image": _adapt_pillow,
    "IPython.display": _adapt_ipython,
    "IPython.core.display_functions": _adapt_ipython,
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


# ---- a stand-in for IPython ----


class DisplayObject:
    """Data of one MIME type: given, read from a file of the workspace, or by its address."""

    MIME = "text/plain"
    BINARY = False

    def __init__(self, data=None, url=None, filename=None, metadata=None, **kwargs) -> None:
        if data is not None and not self.BINARY and hasattr(data, "__fspath__"):
            data, filename = None, data
        self.filename = filename
        self.url = url
        self.metadata = dict(metadata or {})
        if data is None and filename is not None:
            mode, encoding = ("rb", None) if self.BINARY else ("r", "utf-8")
            with open(filename, mode, encoding=encoding) as file:
                data = file.read()
        self.data = data

    def __repr__(self) -> str:
        return "<IPython.core.display.%s object>" % type(self).__name__

    def _repr_mimebundle_(self, include=None, exclude=None):
        if self.data is None:
            return {}
        return {self.MIME: self.data}, ({self.MIME: self.metadata} if self.metadata else {})


class HTML(DisplayObject):
    MIME = "text/html"

    def __html__(self):
        return self.data


class Markdown(DisplayObject):
    MIME = "text/markdown"


class Latex(DisplayObject):
    MIME = "text/latex"


class Math(Latex):
    def _repr_mimebundle_(self, include=None, exclude=None):
        return {self.MIME: "$\\displaystyle %s$" % str(self.data).strip("$")}


class SVG(DisplayObject):
    MIME = "image/svg+xml"


class Javascript(DisplayObject):
    MIME = "application/javascript"


class Pretty(DisplayObject):
    pass


class JSON(DisplayObject):
    MIME = "application/json"

    def __init__(self, data=None, url=None, filename=None, expanded=False, **kwargs) -> None:
        super().__init__(data, url, filename)
        if isinstance(self.data, str):
            import json

            self.data = json.loads(self.data)


class Code(DisplayObject):
    def __init__(self, data=None, url=None, filename=None, language=None, **kwargs) -> None:
        super().__init__(data, url, filename)
        self.language = language or ""

    def _repr_mimebundle_(self, include=None, exclude=None):
        text = "```%s\n%s\n```" % (self.language, self.data)
        return {"text/plain": str(self.data), "text/markdown": text}


class IFrame:
    def __init__(self, src, width="100%", height=400, **kwargs) -> None:
        self.src, self.width, self.height = src, width, height

    def _repr_html_(self):
        import html

        values = tuple(html.escape(str(x)) for x in (self.width, self.height, self.src))
        return '<iframe width="%s" height="%s" src="%s" frameborder="0"></iframe>' % values


_MAGIC = ((b"\x89PNG", "image/png"), (b"\xff\xd8", "image/jpeg"), (b"GIF8", "image/gif"),
          (b"RIFF", "image/webp"))


class Image(DisplayObject):
    BINARY = True

    def __init__(self, data=None, url=None, filename=None, format=None, embed=None, width=None,
                 height=None, retina=False, unconfined=False, metadata=None, **kwargs) -> None:
        if isinstance(data, str) and data.startswith(("http:", "https:")):
            data, url = None, data
        elif isinstance(data, str) or hasattr(data, "__fspath__"):
            data, filename = None, data
        super().__init__(data, url, filename, metadata)
        for name, value in (("width", width), ("height", height)):
            if value is not None:
                self.metadata[name] = value

    def _repr_mimebundle_(self, include=None, exclude=None):
        if self.data is None:
            import html

            return {"text/html": '<img src="%s"/>' % html.escape(str(self.url))}
        head = bytes(self.data[:4])
        mime = next((mime for magic, mime in _MAGIC if head.startswith(magic)), None)
        if mime is None:
            raise ValueError("not an image in a supported format: PNG, JPEG, GIF or WebP")
        return {mime: self.data}, ({mime: self.metadata} if self.metadata else {})


def clear_output(wait=False) -> None:
    """A receipt keeps what was shown."""


def update_display(value, *, display_id=None, **kwargs) -> None:
    display(value, **kwargs)


def publish_display_data(data, metadata=None, **kwargs) -> None:
    display(data, metadata=metadata, raw=True)


def set_matplotlib_formats(*formats, **kwargs) -> None:
    """Figures are PNG."""


_DISPLAY_NAMES = {
    "display": display, "DisplayHandle": _display.Handle, "DisplayObject": DisplayObject,
    "HTML": HTML, "Markdown": Markdown, "Latex": Latex, "Math": Math, "SVG": SVG, "JSON": JSON,
    "Javascript": Javascript, "Pretty": Pretty, "Code": Code, "IFrame": IFrame, "Image": Image,
    "clear_output": clear_output, "update_display": update_display,
    "publish_display_data": publish_display_data, "set_matplotlib_formats": set_matplotlib_formats,
}
# No shell: libraries use it to detect a notebook, and would rely on it.
_STAND_INS = {
    "IPython": {"get_ipython": lambda: None, "version_info": (0, 0), "__version__": "0"},
    "IPython.display": _DISPLAY_NAMES,
    "IPython.core": {},
    "IPython.core.display": _DISPLAY_NAMES,
}


class _StandIn:
    """After all other finders: reached only if IPython is not installed."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name not in _STAND_INS:
            return None
        return ModuleSpec(name, _StandIn, is_package=name in ("IPython", "IPython.core"))

    @staticmethod
    def create_module(spec):
        return types.ModuleType(spec.name, "A stand-in: what cells use of IPython.")

    @staticmethod
    def exec_module(module) -> None:
        module.__dict__.update(_STAND_INS[module.__name__])


def install() -> None:
    """Once in a tenant that runs cells."""
    builtins.display = display
    for name in _ADAPTERS:
        module = sys.modules.get(name)
        if module is not None:
            _adapt(module)
    sys.meta_path.insert(0, _Finder())
    sys.meta_path.append(_StandIn)
