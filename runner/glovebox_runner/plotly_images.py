"""Images of plotly's charts: fig.write_image() and fig.to_image() in a box.

plotly draws images in a browser that kaleido starts. kaleido 1 needs a Chrome on the machine, which
a box does not have. kaleido 0.2 brings a small one of its own, but plotly 6.2 and later do not talk
to it. So where that is the kaleido that is installed, plotly's two functions that start a browser
are replaced here.

The browser seals its processes itself, which fails in a box: nobody there may change capabilities or
make namespaces. The box is the seal. With one process it is also smaller.
"""

import os
from importlib import metadata

_ARGUMENTS = ("--no-sandbox", "--no-zygote", "--single-process")


def adapt_kaleido(base) -> None:
    """For kaleido.scopes.base, of kaleido 0.2."""
    scope = base.BaseScope
    present = scope._default_chromium_args
    scope._default_chromium_args = present + tuple(a for a in _ARGUMENTS if a not in present)


def adapt_plotly(module) -> None:
    """For plotly.io._kaleido."""
    if not metadata.version("kaleido").startswith("0.2"):
        return
    if not hasattr(module, "write_images") or module.to_image.__module__ == __name__:
        return  # a plotly that knows this kaleido, or one that has been adapted

    def to_image(fig, format=None, width=None, height=None, scale=None, validate=True, **kwargs):
        fig = module.validate_coerce_fig_to_dict(fig, validate)
        layout = fig.get("layout", {})
        theme = layout.get("template", {}).get("layout", {})
        defaults = module.defaults
        return _draw(
            fig,
            format or defaults.default_format,
            width or layout.get("width") or theme.get("width") or defaults.default_width,
            height or layout.get("height") or theme.get("height") or defaults.default_height,
            scale or defaults.default_scale,
        )

    def write_images(fig, file, format=None, scale=None, width=None, height=None, validate=True):
        for each in module.broadcast_args_to_dicts(fig=fig, file=file, format=format, scale=scale,
                                                   width=width, height=height, validate=validate):
            module.write_image(**each)

    for ours in (to_image, write_images):
        ours.__doc__ = getattr(module, ours.__name__).__doc__
        setattr(module, ours.__name__, ours)
    module.kaleido_available = lambda: True


def _draw(fig, format, width, height, scale) -> bytes:
    """The browser ends with the image: it takes as much memory as all of a small session."""
    import plotly
    from kaleido.scopes.plotly import PlotlyScope

    script = os.path.join(os.path.dirname(plotly.__file__), "package_data", "plotly.min.js")
    scope = PlotlyScope(plotlyjs=script, mathjax=None)  # a browser in a box has no network
    try:
        return scope.transform(fig, format=format, width=width, height=height, scale=scale)
    finally:
        scope._shutdown_kaleido()
