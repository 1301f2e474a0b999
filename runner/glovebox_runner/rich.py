"""Values of well-known libraries: tables, figures and images.

A library is never imported here. Its classes are looked up in the modules that the program has
loaded, so a program that uses none of them pays nothing.
"""

import sys

TABLE_MIME = "application/vnd.glovebox.table+json"
PLOTLY_MIME = "application/vnd.plotly.v1+json"

ROWS_MAX = 100
COLUMNS_MAX = 200
CELL_MAX = 1000  # characters
PIXELS_MAX = 16_000_000
SIDE_MAX = 16_000


def _kind(value):
    for module, name, describe_kind in _KINDS:
        cls = getattr(sys.modules.get(module), name, None)
        if isinstance(cls, type) and issubclass(type(value), cls):
            return describe_kind
    return None


def is_special(value) -> bool:
    return _kind(value) is not None


def describe(value, bundle) -> bool:
    """Adds all but the plain text; False for values of other types."""
    kind = _kind(value)
    if kind is not None:
        kind(value, bundle)
    return kind is not None


# ---- pandas ----


def _describe_frame(frame, bundle) -> None:
    bundle.attempt("text/html", frame._repr_html_)
    bundle.attempt(TABLE_MIME, table, frame)


def _describe_series(series, bundle) -> None:
    try:
        frame = series.to_frame()
    except Exception as error:
        from .display import reason

        bundle.failed["text/html"] = reason(error)
        return
    _describe_frame(frame, bundle)


_TYPES = {"i": "integer", "u": "integer", "f": "number", "b": "boolean", "M": "datetime",
          "m": "duration", "c": "complex"}


def _type_name(dtype) -> str:
    name = str(dtype)
    if name == "category":
        return "category"
    if name in ("string", "object", "str"):
        return "string"
    return _TYPES.get(getattr(dtype, "kind", ""), "string")


def _name(name) -> str:
    if type(name) is tuple:
        return ", ".join(map(_name, name))
    return _cut(name if isinstance(name, str) else str(name))


def _cut(text: str) -> str:
    return text if len(text) <= CELL_MAX else text[: CELL_MAX - 1] + "…"


def cell(value):
    """One value of a table as JSON. Values that JSON cannot represent become text."""
    kind = type(value)
    if kind is str:
        return _cut(value)
    if value is None or kind is bool:
        return value
    if hasattr(value, "item") and hasattr(value, "dtype"):
        try:
            value = value.item()
        except Exception:
            pass
        kind = type(value)
    if kind is bool or value is None:
        return value
    if kind is int:
        return value if -(1 << 63) <= value < 1 << 63 else str(value)
    if kind is float:
        return value if value - value == 0 else None
    if kind.__name__ in ("NaTType", "NAType"):
        return None
    try:
        if hasattr(value, "isoformat"):
            return _cut(value.isoformat())
        if isinstance(value, (bytes, bytearray)):
            return _cut(repr(bytes(value[:CELL_MAX])))
        from .display import plain

        return _cut(plain(value) if hasattr(value, "__len__") else str(value))
    except Exception as error:
        return "<%s: %s>" % (kind.__name__, type(error).__name__)


def table(frame) -> dict:
    """The first rows, with the metadata needed to read them. Rows are lists: names may repeat."""
    row_count, column_count = frame.shape
    head = frame.iloc[:ROWS_MAX, :COLUMNS_MAX]
    columns, values = [], []
    index = head.index
    if not (type(index).__name__ == "RangeIndex" and index.name is None
            and index.start == 0 and index.step == 1):
        for level in range(index.nlevels):
            part = index.get_level_values(level)
            name = "" if part.name is None else _name(part.name)
            columns.append({"name": name, "type": _type_name(part.dtype),
                            "dtype": str(part.dtype), "index": True})
            values.append([cell(item) for item in part])
    for number, name in enumerate(head.columns):
        column = head.iloc[:, number]
        columns.append({"name": _name(name), "type": _type_name(column.dtype),
                        "dtype": str(column.dtype)})
        values.append([cell(item) for item in column])
    rows = [list(row) for row in zip(*values)] if values else [[] for _ in range(len(head))]
    return {"columns": columns, "rows": rows, "row_count": row_count, "column_count": column_count}


# ---- figures ----


def _describe_figure(figure, bundle) -> None:
    bundle.attempt("image/png", _figure_png, figure, bundle.room)


def _figure_png(figure, room):
    """Smaller if it would not fit: a figure with less detail is better than none."""
    dpi = float(figure.dpi)
    box = _figure_box(figure, dpi)
    width, height = figure.get_size_inches() if box is None else (box.width, box.height)
    dpi = min(dpi, (PIXELS_MAX / (width * height)) ** 0.5, SIDE_MAX / max(width, height))
    for part in (1, 0.5, 0.25):
        data = _figure_draw(figure, dpi * part, box)
        if len(data) * 4 // 3 < room - 1024:
            break
    return data


def _figure_box(figure, dpi):
    """The part that is not empty; None if that makes no sense. To find it the figure is laid out at
    its own size, which must not use up all memory."""
    try:
        width, height = figure.get_size_inches()
        if width * height * dpi * dpi > PIXELS_MAX:
            return None
        figure.draw_without_rendering()
        box = figure.get_tightbbox().padded(0.1)
        if 0 < box.width * box.height * dpi * dpi < PIXELS_MAX and min(box.width, box.height) > 0:
            return box
    except Exception:
        pass
    return None


def _figure_draw(figure, dpi, box) -> bytes:
    from io import BytesIO

    out = BytesIO()
    figure.canvas.print_figure(out, format="png", dpi=dpi, bbox_inches=box,
                               facecolor=figure.get_facecolor(),
                               edgecolor=figure.get_edgecolor())
    return out.getvalue()


def _describe_plotly(figure, bundle) -> None:
    try:
        bundle.add_json(PLOTLY_MIME, _plotly_json(figure))
    except Exception as error:
        from .display import reason

        bundle.failed[PLOTLY_MIME] = reason(error)


def _plotly_json(figure) -> bytes:
    import re

    from .display import _utf8, encode_json

    text = figure.to_json()
    # Whole numbers of more than 64 bits, and values that only Python accepts as JSON.
    if re.search(r"\d{19}|NaN|Infinity|\\u[dD][89a-fA-F]|\\u0000", text):
        import json

        return encode_json(json.loads(text))
    return _utf8(text)


def _describe_image(image, bundle) -> None:
    bundle.attempt("image/png", _image_png, image)


def _image_png(image) -> bytes:
    from io import BytesIO

    width, height = image.size
    if width * height > PIXELS_MAX:
        part = (PIXELS_MAX / (width * height)) ** 0.5
        image = image.resize((max(1, int(width * part)), max(1, int(height * part))))
    out = BytesIO()
    try:
        image.save(out, "PNG")
    except (OSError, KeyError):
        out = BytesIO()
        image.convert("RGB").save(out, "PNG")
    return out.getvalue()


_KINDS = (
    ("pandas.core.frame", "DataFrame", _describe_frame),
    ("pandas.core.series", "Series", _describe_series),
    ("matplotlib.figure", "Figure", _describe_figure),
    ("plotly.basedatatypes", "BaseFigure", _describe_plotly),
    ("PIL.Image", "Image", _describe_image),
)
