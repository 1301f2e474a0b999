"""The module mark of a session of Mark: how code hands over what it computed.

    mark.value("revenue", frame["amount"].sum(), unit="EUR")   the story says {{revenue}}
    mark.table("Revenue by region", by_region)                 the rows behind the answer
    mark.chart(fig)                                            a chart of plotly or matplotlib
    pandas.read_csv(mark.attachment("sales.csv"))              a file that was attached
    mark.query("shop", "SELECT ...")                           rows of a data source, as a DataFrame
    pandas.read_csv(mark.path("archive", "2024/orders.csv"))   a file of a data source that is a directory

Everything travels as a display of the cell: a MIME bundle with the type MIME below, which ends up in
the receipt. Nothing here is a boundary. The program shares the interpreter and can display any bundle
it likes, so the service checks each one again; what is checked here is checked to help whoever wrote
the code. Libraries are not imported here, only recognised when the program has loaded them, but for the
result of a query, which is a DataFrame.
"""

import builtins as _builtins
import math as _math
import re as _re
import sys as _sys

__all__ = ["value", "table", "chart", "attachment", "attachments", "query", "sources", "tables", "path"]

MIME = "application/vnd.glovebox.mark+json"
PLOTLY_MIME = "application/vnd.plotly.v1+json"

NAME_MAX = 64
UNIT_MAX = 32
TEXT_MAX = 1000  # characters of a text value, a cell, a name or a title
ROWS_MAX = 1000
COLUMNS_MAX = 200
TABLE_BYTES_MAX = 1 << 20
CHART_BYTES_MAX = (8 << 20) - 4096  # what is around it in a bundle, which has 8 MB, counts too
TYPE_ROWS = 200  # rows that are looked at to find the type of a column of objects

_NAME = _re.compile(r"[A-Za-z_][A-Za-z0-9_.]*\Z")
# The part of Python's format specifications that the service fills in by.
_FORMAT = _re.compile(r"[+ ]?[,_]?(\.\d{1,2})?[deEfFgGs%]?\Z", _re.ASCII)

_attachments = {}  # name -> path; set by the service in the first cell of a session


# ---- single values ----


def _kind(x) -> str:
    return type(x).__name__


def _of(x, module: str, *names: str) -> bool:
    """Whether it is an instance of a class of a module that the program has loaded."""
    module = _sys.modules.get(module)
    for name in names:
        cls = getattr(module, name, None)
        if isinstance(cls, type) and isinstance(x, cls):
            return True
    return False


def _cut(text: str, most: int = TEXT_MAX) -> str:
    # A lone surrogate, as in a file name that was not UTF-8, is no text for JSON.
    text = str(text).encode("utf-8", "replace").decode("utf-8")
    return text if len(text) <= most else text[: most - 1] + "…"


def _whole(x: int):
    """JSON has whole numbers of 64 bits here; a longer one is text, so that no digit is lost."""
    x = int(x)
    if -(1 << 63) <= x < 1 << 63:
        return x
    if x.bit_length() > 3000:
        raise ValueError("mark: a whole number of %d bits is too long" % x.bit_length())
    return str(x)


def _real(x: float):
    x = float(x)
    return x if _math.isfinite(x) else None


def _is_missing(x) -> bool:
    return x is None or _kind(x) in ("NAType", "NaTType")


def _scalar(x):
    """One value as JSON has it, or NotImplemented if it is not a single value."""
    if _is_missing(x):
        return None
    if isinstance(x, bool):
        return bool(x)
    if isinstance(x, int):
        return _whole(x)
    if isinstance(x, float):
        return _real(x)
    if isinstance(x, str):
        return _cut(x)
    if _of(x, "decimal", "Decimal"):
        if not x.is_finite():
            return None
        if x.adjusted() < 60 and x == x.to_integral_value():
            return _whole(int(x))
        return _real(float(x))
    if _of(x, "fractions", "Fraction"):
        return _real(float(x))
    if _of(x, "numpy", "generic") or (_of(x, "numpy", "ndarray") and x.ndim == 0):
        return _numpy_scalar(x)
    if _of(x, "datetime", "date", "datetime", "time"):
        return _cut(x.isoformat())
    if _of(x, "datetime", "timedelta") or _of(x, "uuid", "UUID"):
        return _cut(str(x))
    if _kind(x) in ("Period", "Interval"):  # of pandas
        return _cut(str(x))
    return NotImplemented


def _numpy_scalar(x):
    if x.dtype.kind in "mM":  # item() of nanoseconds is a bare number
        text = str(x)
        return None if text == "NaT" else _cut(text)
    if x.dtype.kind in "iubfU" or x.dtype.kind == "O":
        return _scalar(x.item())
    return NotImplemented


def _single(x):
    """The value in a Series, an Index or an array of one item; anything else as it is."""
    if _scalar(x) is not NotImplemented:
        return x
    try:
        is_array = hasattr(x, "item") and hasattr(x, "__len__")
        if is_array and getattr(x, "size", None) == 1 or (is_array and len(x) == 1):
            return x.item()
        if callable(getattr(x, "item", None)) and not is_array:  # a tensor without dimensions
            return x.item()
    except Exception:
        pass
    return x


def _advice(x) -> str:
    kind = _kind(x)
    if callable(x):
        return "x is a function or method: call it, as in x()"
    if kind in ("DataFrame", "Series", "Index", "ndarray") or isinstance(x, (list, tuple, dict, set)):
        return ("x is a %s with more than one value: pass a single number, text or date, "
                "as in x.sum() or x.iloc[0], or hand it over with mark.table(title, x)" % kind)
    if isinstance(x, (bytes, bytearray)):
        return "x is bytes: decode it first"
    if isinstance(x, complex) or kind.startswith("complex"):
        return "x is a complex number: pass x.real, x.imag or abs(x)"
    return "x is a %s: pass a single number, text, date or None" % kind


def _check_name(name) -> str:
    if not isinstance(name, str):
        raise TypeError("mark.value(name, x): name must be a text such as 'revenue', not %s"
                        % _kind(name))
    if len(name) > NAME_MAX or not _NAME.match(name):
        better = _re.sub(r"[^A-Za-z0-9_.]+", "_", name[:NAME_MAX]).strip("_") or "value"
        if not _NAME.match(better):
            better = "_" + better
        raise ValueError("mark.value: %r is not a name: use letters, digits, '_' and '.', at most "
                         "%d, not starting with a digit, such as %r"
                         % (name[:80], NAME_MAX, better[:NAME_MAX]))
    return name


def _check_unit(unit):
    if unit is None or unit == "":
        return None
    if not isinstance(unit, str):
        raise TypeError("mark.value: unit must be a text such as 'EUR', not %s" % _kind(unit))
    unit = unit.strip()
    if len(unit) > UNIT_MAX or not unit.isprintable() or any(c.isdigit() for c in unit[:1]):
        raise ValueError("mark.value: %r is not a unit: at most %d printable characters that do not "
                         "start with a digit" % (unit[:80], UNIT_MAX))
    return unit or None


def _check_format(spec, x):
    if spec is None or spec == "":
        return None
    if not isinstance(spec, str):
        raise TypeError("mark.value: format must be a text such as ',.2f', not %s" % _kind(spec))
    spec = spec.strip()
    if spec.startswith("{:") and spec.endswith("}"):
        spec = spec[2:-1]
    if spec[:1] == ":":
        spec = spec[1:]
    if not _FORMAT.match(spec):
        raise ValueError("mark.value: %r is not a format: use one such as ',.0f', '.1%%', '+.2f', "
                         "'.3g', '.2e' or ',d'" % spec[:80])
    if isinstance(x, str) != spec.endswith("s") and x is not None:
        raise ValueError("mark.value: format %r does not fit %r" % (spec, x))
    if isinstance(x, float) and spec.endswith("d"):
        raise ValueError("mark.value: format %r is for whole numbers and this is %r; use %r"
                         % (spec, x, spec[:-1] + ".0f"))
    return spec or None


def _is_date_format(x, spec) -> bool:
    return isinstance(spec, str) and "%" in spec[:-1] and hasattr(x, "strftime")


def value(name, x, unit=None, format=None):
    """Hands over one computed value. The story refers to it as {{name}}.

    x is a number, a text, a date or None; also one of numpy or pandas, or a Series of length 1.
    unit is text such as "EUR", "%" or "kg"; "%" only names the unit: 12.5 is shown as 12.5 %.
    format is a part of Python's format specifications: ",.2f", ".1%" (0.125 is shown as 12.5 %).
    A date takes a format of strftime, such as "%d %B %Y".
    """
    name = _check_name(name)
    x = _single(x)
    if _is_date_format(x, format) and not _is_missing(x):
        x, format = x.strftime(format), None
    plain = _scalar(x)
    if plain is NotImplemented:
        raise TypeError("mark.value(%r, x): %s" % (name, _advice(x)))
    unit = _check_unit(unit)
    format = _check_format(format, plain)
    text = "%s = %s%s" % (name, "no value" if plain is None else plain, " " + unit if unit else "")
    if isinstance(x, str) and len(x) > TEXT_MAX:
        text += " (cut to %d characters)" % TEXT_MAX
    _show(_here({"kind": "value", "name": name, "value": plain, "unit": unit, "format": format}), text)


# ---- tables ----


def _cell(x):
    plain = _scalar(x)
    if plain is not NotImplemented:
        return plain
    try:
        if isinstance(x, (bytes, bytearray)):
            return _cut(repr(bytes(x[:TEXT_MAX])))
        if isinstance(x, (list, tuple, set, frozenset, dict)) and len(x) > TEXT_MAX:
            return "<%s of %d items>" % (_kind(x), len(x))
        return _cut(str(x))
    except Exception as error:
        return "<%s: %s>" % (_kind(x), _kind(error))


def _label(name) -> str:
    if isinstance(name, tuple):
        return _cut(", ".join(map(str, name)))
    return _cut(name)


_DATE = _re.compile(r"\d{4}-\d\d-\d\d\Z", _re.ASCII)
_DTYPES = {"i": "integer", "u": "integer", "f": "number", "b": "boolean", "M": "datetime"}


def _object_type(items) -> str:
    """The type of a column by its first items."""
    found = set()
    for x in items[:TYPE_ROWS]:
        if _is_missing(x) or isinstance(x, float) and x != x:
            continue
        if isinstance(x, bool) or _kind(x) in ("bool_", "bool"):
            found.add("boolean")
        elif isinstance(x, int) or _of(x, "numpy", "integer"):
            found.add("integer")
        elif isinstance(x, float) or _of(x, "numpy", "floating") or _of(x, "decimal", "Decimal"):
            found.add("number")
        elif _of(x, "datetime", "datetime") or _of(x, "numpy", "datetime64"):
            found.add("datetime")
        elif _of(x, "datetime", "date"):
            found.add("date")
        else:
            return "text"
    if found == {"integer", "number"}:
        return "number"
    return found.pop() if len(found) == 1 else "text"


class _Table:
    """Columns as (name, items, type or None), and how many rows there were in all."""

    def __init__(self, row_count: int) -> None:
        self.row_count = row_count
        self.columns = []
        self.left_out = 0

    def add(self, name, items, type=None) -> None:
        if len(self.columns) >= COLUMNS_MAX:
            self.left_out += 1
            return
        items = list(items)[:ROWS_MAX]
        self.columns.append((_label(name), [_cell(x) for x in items], type or _object_type(items)))


def _from_pandas(frame) -> _Table:
    out = _Table(len(frame))
    head = frame.iloc[:ROWS_MAX]
    index = head.index
    # The usual numbering of rows says nothing.
    if not (_kind(index) == "RangeIndex" and index.name is None and frame.index.start == 0):
        for level in range(index.nlevels):
            part = index.get_level_values(level)
            name = part.name
            if name is None:
                name = "index" if index.nlevels == 1 else "level_%d" % level
            out.add(name, part, _dtype(part.dtype))
    out.left_out += max(0, frame.shape[1] - COLUMNS_MAX)
    for number in range(min(frame.shape[1], COLUMNS_MAX)):
        column = head.iloc[:, number]
        out.add(frame.columns[number], column, _dtype(column.dtype))
    return out


def _dtype(dtype):
    name = str(dtype).lower()
    if name == "category":
        return None  # its items say it
    return _DTYPES.get(getattr(dtype, "kind", ""))


def _from_polars(frame) -> _Table:
    if not hasattr(frame, "get_columns"):  # a Series
        frame = frame.to_frame()
    out = _Table(frame.height)
    for column in frame.head(ROWS_MAX).get_columns():
        out.add(column.name, column.to_list())
    return out


def _from_arrow(frame) -> _Table:
    out = _Table(frame.num_rows)
    head = frame.slice(0, ROWS_MAX)
    for name in frame.column_names[: COLUMNS_MAX + 1]:
        out.add(name, head.column(frame.column_names.index(name)).to_pylist())
    return out


def _from_dict(data) -> _Table:
    parts = {key: _items(x) for key, x in data.items()}
    if parts and all(x is not None for x in parts.values()):
        counts = {len(x) for x in parts.values()}
        if len(counts) > 1:
            raise ValueError("mark.table: the columns have different lengths: %s"
                             % ", ".join("%s: %d" % (_label(k), len(x)) for k, x in
                                         list(parts.items())[:10]))
        out = _Table(counts.pop())
        for key, items in parts.items():
            out.add(key, items)
        return out
    out = _Table(len(data))
    out.add("name", [_label(key) for key in list(data)[:ROWS_MAX]], "text")
    out.add("value", list(data.values())[:ROWS_MAX])
    return out


def _items(x):
    """A column of a dict as a list; None for a single value."""
    if isinstance(x, (list, tuple)):
        return list(x)
    if isinstance(x, (str, bytes, dict)) or not hasattr(x, "__len__"):
        return None
    try:
        return list(x)
    except TypeError:
        return None


def _from_rows(rows) -> _Table:
    head = rows[:ROWS_MAX]
    out = _Table(len(rows))
    if head and all(isinstance(row, dict) for row in head):
        names = list(dict.fromkeys(key for row in head for key in row))
        for name in names:
            out.add(name, [row.get(name) for row in head])
    elif head and all(isinstance(row, (list, tuple)) for row in head):
        names = getattr(head[0], "_fields", None)  # a named tuple
        width = max(map(len, head))
        for n in range(width):
            name = names[n] if names and n < len(names) else "column %d" % (n + 1)
            out.add(name, [row[n] if n < len(row) else None for row in head])
    else:
        out.add("value", head)
    return out


def _read(frame) -> _Table:
    if _of(frame, "pandas", "Series", "Index"):
        return _from_pandas(frame.to_frame(**({} if frame.name is not None else {"name": "value"})))
    if _of(frame, "pandas", "DataFrame"):
        return _from_pandas(frame)
    if _of(frame, "pandas.io.formats.style", "Styler"):
        return _from_pandas(frame.data)
    if _of(frame, "polars", "LazyFrame"):
        return _from_polars(frame.collect())
    if _of(frame, "polars", "DataFrame", "Series"):
        return _from_polars(frame)
    if _of(frame, "pyarrow", "Table"):
        return _from_arrow(frame)
    if _of(frame, "numpy", "ndarray") and 0 < frame.ndim < 3:
        out = _from_rows(frame[:ROWS_MAX].tolist())
        out.row_count = len(frame)
        return out
    if isinstance(frame, dict):
        return _from_dict(frame)
    if isinstance(frame, (list, tuple)):
        return _from_rows(list(frame))
    if callable(getattr(frame, "to_pandas", None)):
        return _read_again(frame.to_pandas())
    raise TypeError("mark.table(title, frame): frame must be a DataFrame, a Series, a list of rows or a "
                    "dict of columns, not %s%s" % (_kind(frame), _hint(frame)))


def _read_again(frame) -> _Table:
    if not _of(frame, "pandas", "DataFrame", "Series"):
        raise TypeError("mark.table(title, frame): to_pandas() returned %s" % _kind(frame))
    return _read(frame)


def _hint(frame) -> str:
    if "GroupBy" in _kind(frame):
        return ": aggregate it first, as in frame.sum()"
    if callable(frame):
        return ": call it first"
    return ""


def _fit(rows, room):
    """As many of the first rows as JSON of @room bytes holds."""
    import json

    for count, row in enumerate(rows):
        room -= len(json.dumps(row, ensure_ascii=False).encode()) + 2
        if room < 0:
            return rows[:count]
    return rows


def table(*args, title=None, frame=None):
    """Hands over rows behind the answer: mark.table(title, frame).

    frame is a DataFrame or Series of pandas or polars, a list of rows (lists or dicts), or a dict of
    columns. The first 1,000 rows travel, at most 1 MB.
    """
    for arg in args[:2]:
        if isinstance(arg, str) and title is None:
            title = arg
        elif frame is None:
            frame = arg
        else:
            raise TypeError("mark.table(title, frame): the title must be a text, not %s" % _kind(arg))
    if len(args) > 2 or frame is None:
        raise TypeError("mark.table takes a title and a frame: mark.table('Revenue by region', frame)")
    if title is not None and not isinstance(title, str):
        raise TypeError("mark.table(title, frame): the title must be a text, not %s" % _kind(title))
    read = _read(frame)
    title = _cut(" ".join((title or "Table").split()) or "Table", 200)
    columns = [{"name": name, "type": type} for name, _, type in read.columns]
    rows = [list(row) for row in zip(*(items for _, items, _ in read.columns))]
    rows = _fit(rows, TABLE_BYTES_MAX - 4096 - len(repr(columns).encode("utf-8", "replace")))
    _show(_here({"kind": "table", "title": title, "columns": columns, "rows": rows,
                 "row_count": read.row_count}), _describe_table(title, read, len(rows)))


def _describe_table(title, read, shown) -> str:
    text = "%s: %d rows, %d columns" % (title, read.row_count, len(read.columns) + read.left_out)
    if shown < read.row_count:
        text += "; the first %d rows are handed over" % shown
    if read.left_out:
        text += "; the last %d columns are left out" % read.left_out
    return text


# ---- charts ----


def _matplotlib(fig):
    """The figure of a Figure, an Axes, a list of Axes, a grid of seaborn, or of pyplot itself."""
    if fig is _sys.modules.get("matplotlib.pyplot") and fig is not None:
        return fig.gcf()
    if _of(fig, "matplotlib.figure", "Figure"):
        return fig
    if _of(fig, "numpy", "ndarray") and fig.size:
        fig = fig.flat[0]
    elif isinstance(fig, (list, tuple)) and fig:
        fig = fig[0]
    for name in ("figure", "fig"):
        inside = getattr(fig, name, None)
        if _of(inside, "matplotlib.figure", "Figure"):
            return inside
    return None


def _plotly(fig):
    """Its specification as JSON has it, or None."""
    import json

    if _of(fig, "plotly.basedatatypes", "BaseFigure"):
        text = fig.to_json()
    elif isinstance(fig, dict) and isinstance(fig.get("data"), (list, tuple)):
        text = json.dumps(fig, default=_json_default)
    else:
        return None
    if len(text) > CHART_BYTES_MAX:
        raise ValueError("mark.chart: the chart is %.1f MB and can be at most %d MB; draw fewer points, "
                         "for example by aggregating or sampling the data first"
                         % (len(text) / (1 << 20), (CHART_BYTES_MAX >> 20) + 1))
    return json.loads(text)


def _json_default(x):
    if callable(getattr(x, "to_plotly_json", None)):
        return x.to_plotly_json()
    if callable(getattr(x, "tolist", None)):
        return x.tolist()
    return _cell(x)


def chart(fig):
    """Hands over a chart: a figure of plotly (also its dict), or a figure or axes of matplotlib."""
    spec = _plotly(fig)
    if spec is not None:
        about = _here({"kind": "chart"})
        bundle = {PLOTLY_MIME: spec, "text/plain": _describe_chart(spec)}
        if "line" in about:
            bundle[MIME] = about
        _display(bundle, raw=True)
        return
    figure = _matplotlib(fig)
    if figure is not None:
        _display(figure)
        pyplot = _sys.modules.get("matplotlib.pyplot")
        if pyplot is not None:
            pyplot.close(figure)  # or it is shown again at the end of the cell
        return
    if callable(getattr(fig, "_repr_mimebundle_", None)) or callable(getattr(fig, "_repr_png_", None)):
        _display(fig)  # altair, bokeh and others show themselves as well as they can
        return
    raise TypeError("mark.chart(fig): fig must be a figure of plotly or matplotlib, not %s" % _kind(fig))


def _describe_chart(spec) -> str:
    layout = spec.get("layout")
    title = layout.get("title") if isinstance(layout, dict) else None
    if isinstance(title, dict):
        title = title.get("text")
    kinds = [str(t.get("type", "scatter"))[:40] for t in spec["data"] if isinstance(t, dict)]
    text = "Chart" + (": " + _cut(title, 200) if isinstance(title, str) and title else "")
    return text + " (%s)" % (", ".join(list(dict.fromkeys(kinds))[:5]) or "empty")


# ---- files ----


def attachments():
    """The names of the attached files."""
    return sorted(_attachments)


def attachment(name):
    """The path of an attached file."""
    if not isinstance(name, str):
        raise TypeError("mark.attachment(name): name must be the name of a file, not %s" % _kind(name))
    if name in _attachments:
        return _attachments[name]
    for known in _attachments:
        if known.lower() == name.lower() or _attachments[known] == name:
            return _attachments[known]
    names = ", ".join(map(repr, attachments()[:20])) or "no files"
    raise FileNotFoundError("mark.attachment: no attached file is called %r; there are: %s"
                            % (name[:200], names))


# ---- data sources ----

WORKSPACE = "/workspace"

# In an exported notebook: {key: [path, bytes, or {"word", "message"} of a query that failed, ...]}, what
# query() returned when the answer was made. None: ask the service.
_replay = None
_replayed = {}  # key -> how many were used


class QueryError(RuntimeError):
    """A data source could not be asked, or refused. @word is for programs: "sql", "denied", ..."""

    def __init__(self, message, word="internal"):
        super().__init__(message)
        self.word = word


SourceError = QueryError


def _ask(op, **more):
    """Asks the service, which asks the source."""
    try:
        from glovebox_runner import asks
    except ImportError:
        raise QueryError("data sources can be asked only in a session of Mark; this program runs "
                         "elsewhere", "unreachable") from None
    try:
        answer = asks.ask(op, **more)
    except asks.AskError as error:
        raise QueryError(str(error), "unsupported") from None
    if answer.get("success") is not True:
        raise QueryError(str(answer.get("message") or "the service did not say why"),
                         str(answer.get("word") or "internal"))
    return answer


def _param(x, inside=False):
    """A parameter as JSON has it."""
    if _is_missing(x):
        return None
    if _of(x, "numpy", "generic"):
        x = x.item()
    if isinstance(x, bool):
        return bool(x)
    if isinstance(x, int):
        return int(x) if -(1 << 63) <= x < 1 << 63 else str(int(x))
    if isinstance(x, float):
        if x != x:
            return None  # pandas' way to say that there is nothing
        return float(x) if _math.isfinite(x) else "Infinity" if x > 0 else "-Infinity"
    if isinstance(x, str):
        return str(x)
    if _of(x, "datetime", "date", "datetime", "time"):
        return x.isoformat()
    if _of(x, "decimal", "Decimal") or _of(x, "uuid", "UUID"):
        return str(x)
    if _of(x, "numpy", "ndarray") or _of(x, "pandas", "Series", "Index"):
        x = x.tolist()
    if isinstance(x, (set, frozenset)):
        x = sorted(x)
    if isinstance(x, (list, tuple)) and not inside:
        return [_param(item, True) for item in x]
    raise TypeError("mark.query: a parameter must be a number, a text, a date, None or a list of them, "
                    "not %s" % _kind(x))


def _params(params):
    if params is None:
        return None
    if isinstance(params, dict):
        for key in params:
            if not isinstance(key, str):
                raise TypeError("mark.query: names of parameters must be text, not %s" % _kind(key))
        return {key: _param(x) for key, x in params.items()}
    if isinstance(params, (list, tuple)):
        return [_param(x) for x in params]
    return [_param(params)]


def _canonical(x) -> bytes:
    """What a key is made of; broker/key.c has the same."""
    if x is None:
        return b"n"
    if isinstance(x, bool):
        return b"t" if x else b"f"
    if isinstance(x, int):
        return b"i%d;" % x
    if isinstance(x, float):
        import struct

        return b"d" + struct.pack(">d", x).hex().encode()
    if isinstance(x, str):
        x = x.encode()
        return b"s%d:" % len(x) + x
    if isinstance(x, list):
        return b"l%d:" % len(x) + b"".join(map(_canonical, x))
    items = sorted((key.encode(), key) for key in x)
    return b"o%d:" % len(x) + b"".join(_canonical(key) + _canonical(x[key]) for _, key in items)


def _query_key(source, sql, params) -> str:
    import hashlib

    text = b"glovebox query 1\n" + _canonical(source) + _canonical(sql) + _canonical(_params(params))
    return hashlib.sha256(text).hexdigest()


def _replay_query(source, sql, params):
    key = _query_key(source, sql, params)
    items = _replay.get(key)
    if not items:
        raise QueryError("this query was not recorded with the answer, and the source %r cannot be "
                         "asked here" % source, "not-recorded")
    number = _replayed.get(key, 0)
    _replayed[key] = number + 1
    item = items[min(number, len(items) - 1)]
    if isinstance(item, dict):
        raise QueryError(str(item.get("message")), str(item.get("word")))
    return _frame(_load(item), {"source": source, "sql": sql})


def query(source, sql, params=None):
    """Asks a data source and returns a DataFrame: mark.query("shop", "SELECT ...").

    source is a name that mark.sources() lists. sql is one statement that reads, in the source's own
    SQL. params are its parameters: a list for $1, $2, ... of PostgreSQL and ? of BigQuery, a dict for
    @name of BigQuery. A source of files is asked in DuckDB's SQL, with ? and $name; mark.tables() tells
    what its files are called there. A refused or failed query raises mark.QueryError, which says what to
    change.
    """
    if not isinstance(source, str) or not isinstance(sql, str):
        raise TypeError("mark.query(source, sql, params): source and sql must be texts")
    source = source.encode("utf-8", "replace").decode()
    sql = sql.encode("utf-8", "replace").decode()
    if source in _directories:
        return _query_files(source, sql, params)
    if _replay is not None:
        return _replay_query(source, sql, params)
    import os

    answer = _ask("query", source=source, sql=sql, params=_params(params))
    path = os.path.join(WORKSPACE, str(answer["path"]))
    try:
        data = _load(path)
    finally:
        _remove(path)
    about = {"source": source, "sql": sql}
    for name in ("rows", "bytes", "ms", "cost", "money", "sha256"):
        about[name] = answer.get(name)
    for notice in answer.get("notices") or ():
        print("mark.query: %s" % notice, file=_sys.stderr)
    return _frame(data, about)


def _remove(path) -> None:
    import os

    try:
        os.unlink(path)
        os.rmdir(os.path.dirname(path))
    except OSError:
        pass  # the service removes what is left


def sources():
    """The data sources that this program may ask: a list of {"name", "kind", "description"}."""
    if _replay is not None:
        return []
    return _ask("sources")["sources"]


def tables(source=None):
    """The tables of a data source, or of all: a list of {"source", "name", "rows", "columns", ...}.

    Of a source of files: {"source", "name" (of the file), "sql" (what it is called in a query), "bytes"}.
    """
    if source in _directories:
        return _tables_of_files(source)
    if _replay is not None:
        return [t for name in _directories for t in _tables_of_files(name)] if source is None else []
    return _ask("tables", source=source)["tables"]


# ---- sources that are directories ----
#
# The operator's files are mounted read-only; programs open them as they like, or ask DuckDB for them.
# Links are not followed, hidden files are not listed, and the list ends at some number of files.

_directories = {}  # name of a source -> its directory; set by the service in the first cell of a session
_databases = {}  # name of a source -> its connection of DuckDB, and what it has already

FILES_MAX = 1000
_ENTRIES_MAX = 20000  # that are looked at
_DEPTH_MAX = 4
_SHEETS_MAX = 100  # of a workbook, and tables of a database
_KINDS = {".csv": "csv", ".tsv": "tsv", ".tab": "tsv", ".json": "json", ".jsonl": "jsonl",
          ".ndjson": "jsonl", ".parquet": "parquet", ".xlsx": "xlsx", ".xls": "xls", ".sqlite": "sqlite",
          ".sqlite3": "sqlite", ".db": "sqlite"}


def _walk(root):
    """The regular files beneath a directory by name: (path beneath it, kind, stat), and whether there are
    more."""
    import os
    import stat

    found, seen, more = [], 0, False
    waiting = [("", 0)]
    while waiting:
        place, depth = waiting.pop(0)
        try:
            with os.scandir(os.path.join(root, place) if place else root) as entries:
                names = []
                for entry in entries:
                    seen += 1
                    if seen > _ENTRIES_MAX:
                        more = True
                        break
                    names.append(entry.name)
        except OSError:
            if not place:
                raise
            continue
        for name in sorted(names):
            inner = "%s/%s" % (place, name) if place else name
            if name.startswith("."):
                continue
            try:
                about = os.lstat(os.path.join(root, inner))
            except OSError:
                continue
            kind = _KINDS.get(os.path.splitext(name)[1].lower())
            if stat.S_ISDIR(about.st_mode) and depth + 1 < _DEPTH_MAX and len(waiting) < FILES_MAX:
                waiting.append((inner, depth + 1))
            elif stat.S_ISREG(about.st_mode) and kind:
                if len(found) == FILES_MAX:
                    return found, True
                found.append((inner, kind, about))
    return found, more


def _name_views(files):
    """What the files are called in SQL: their stems, as names; the second of a name gets a number."""
    import os

    names, taken = {}, set()
    for path, _, _ in files:
        stem = os.path.splitext(os.path.basename(path))[0]
        name = _re.sub(r"\W+", "_", stem.lower()).strip("_") or "file"
        if name[0].isdigit():
            name = "t_" + name
        name, n = name[:60], 1
        while name in taken:
            n += 1
            name = "%s_%d" % (name[:60].rstrip("_0123456789") if n > 2 else name, n)
        taken.add(name)
        names[path] = name
    return names


def _files_of(source):
    try:
        return _walk(_directories[source])
    except OSError as error:
        raise QueryError("the directory of the source %s cannot be read: %s; ask the operator"
                         % (source, error.strerror), "unreachable") from None


def path(source, file=None):
    """The path of a file of a source that is a directory; without file, the directory itself."""
    import os

    if not isinstance(source, str) or not (file is None or isinstance(file, str)):
        raise TypeError("mark.path(source, file): both must be texts")
    if source not in _directories:
        names = ", ".join(map(repr, sorted(_directories)[:20])) or "none"
        raise LookupError("mark.path: no source of files is called %r; there are: %s"
                          % (source[:80], names))
    root = _directories[source]
    if file is None:
        return root
    place = os.path.normpath(os.path.join(root, file))
    if place.startswith(root + "/") and os.path.isfile(place):
        return place
    names = [name for name, _, _ in _files_of(source)[0]]
    same = [name for name in names if os.path.basename(name).lower() == os.path.basename(file).lower()]
    if len(same) == 1:
        return os.path.join(root, same[0])
    shown = ", ".join(repr(_cut(name, 100)) for name in (same or names)[:20]) or "no files"
    raise FileNotFoundError("mark.path: the source %s has no file %r; there are: %s"
                            % (source, file[:200], shown))


def _tables_of_files(source):
    files, more = _files_of(source)
    views = _name_views(files)
    found = [{"source": source, "name": _cut(name, 300), "sql": views[name], "kind": kind,
              "bytes": about.st_size} for name, kind, about in files]
    if more:
        print("mark.tables: %s has more files than are listed here" % source, file=_sys.stderr)
    return found


def _query_files(source, sql, params):
    try:
        import duckdb
        import pandas  # noqa: F401
    except ImportError:
        raise QueryError("files are asked with DuckDB, which the template of this session does not have: read "
                         "them with mark.path(%r, file) instead, or have the operator run `glovebox template "
                         "add data`" % source, "unsupported") from None
    if source not in _databases:
        _databases[source] = (duckdb.connect(":memory:"), set())
    database, made = _databases[source]
    try:
        _make_views(source, database, made, sql)
        if isinstance(params, dict):
            params = {str(key): value for key, value in params.items()}
        elif params is not None:
            params = list(params)
        return _duck_frame(database.execute(sql, params) if params is not None else database.execute(sql))
    except duckdb.CatalogException as error:
        names = ", ".join(_cut(table["sql"], 80) for table in _tables_of_files(source)[:50])
        raise QueryError("%s\nThe files are called: %s" % (_cut(error, 1000), names or "(there are none)"),
                         "sql") from None
    except duckdb.Error as error:
        raise QueryError(_cut(error, 1500), "sql") from None


def _literal(text):
    return "'%s'" % text.replace("'", "''")


def _make_views(source, database, made, sql):
    """Views of those files that the statement may mean: all of them would have to be looked into."""
    import os

    files, _ = _files_of(source)
    views = _name_views(files)
    words = set(_re.findall(r"\w+", sql.lower()))
    for name, kind, about in files:
        view = views[name]
        state = (view, about.st_mtime_ns, about.st_size)
        if state in made or not (view in words or any(word.startswith(view + "_") for word in words)):
            continue
        place = os.path.join(_directories[source], name)
        if kind in ("xlsx", "xls"):
            _load_workbook(database, view, place)
        elif kind == "sqlite":
            _load_sqlite(database, view, place, words)
        else:
            reader = {"csv": "read_csv(%s)", "tsv": "read_csv(%s, delim='\t')", "parquet": "read_parquet(%s)",
                      "json": "read_json(%s)", "jsonl": "read_json(%s, format='newline_delimited')"}[kind]
            # A name is a pattern to DuckDB: those with wildcards in them are escaped.
            pattern = _re.sub(r"([*?\[])", r"[\1]", place)
            database.execute('CREATE OR REPLACE VIEW "%s" AS SELECT * FROM %s' % (view, reader % _literal(pattern)))
        if kind != "sqlite":
            made.add(state)


def _register(database, view, frame):
    frame.columns = [str(column) for column in frame.columns]
    database.register("_" + view, frame)
    database.execute('CREATE OR REPLACE TABLE "%s" AS SELECT * FROM "_%s"' % (view, view))
    database.unregister("_" + view)


def _load_workbook(database, view, place):
    """A workbook's first sheet has the name of the file, the others that and theirs."""
    import pandas

    try:
        sheets = pandas.read_excel(place, sheet_name=None)
    except Exception as error:
        raise QueryError("%s cannot be read: %s" % (place, _cut(error, 300)), "sql") from None
    for n, (sheet, frame) in enumerate(list(sheets.items())[:_SHEETS_MAX]):
        name = _re.sub(r"\W+", "_", str(sheet).lower()).strip("_")
        if n == 0:
            _register(database, view, frame)
        _register(database, "%s_%s" % (view, name or n + 1), frame)


def _load_sqlite(database, view, place, words):
    """The tables of a database that the statement may mean, as FILE_TABLE."""
    import sqlite3

    import pandas

    try:
        inside = sqlite3.connect("file:%s?mode=ro&immutable=1" % place.replace("%", "%25").replace("?", "%3f")
                                 .replace("#", "%23"), uri=True)
        try:
            names = [row[0] for row in inside.execute(
                "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') ORDER BY name")][:_SHEETS_MAX]
            for table in names:
                name = "%s_%s" % (view, _re.sub(r"\W+", "_", table.lower()).strip("_"))
                if name in words:
                    frame = pandas.read_sql_query('SELECT * FROM "%s"' % table.replace('"', '""'), inside)
                    _register(database, name, frame)
        finally:
            inside.close()
    except (sqlite3.Error, pandas.errors.DatabaseError) as error:
        raise QueryError("%s cannot be read: %s" % (place, _cut(error, 300)), "sql") from None


_ZONED = "TIMESTAMP WITH TIME ZONE"


def _duck_frame(result):
    """The rows as a DataFrame: whole numbers stay whole when some are missing."""
    import pandas

    names = [column[0] for column in result.description or ()]
    types = [str(column[1]) for column in result.description or ()]
    if any(kind.startswith("DECIMAL") for kind in types):
        made = _by_rows(result, types)
    else:  # in order; those of the same name have other names there
        made = [_duck_column(values, kind) for values, kind in zip(result.fetchnumpy().values(), types)]
    frame = pandas.DataFrame(dict(enumerate(made)))
    frame.columns = names
    return frame


def _duck_column(values, kind):
    import numpy
    import pandas

    masked = isinstance(values, numpy.ma.MaskedArray)
    mask = numpy.ma.getmaskarray(values) if masked else None
    values = values.data if masked else values
    if mask is not None and not mask.any():
        mask = None
    if values.dtype == "M8[us]":  # a zone is not part of it: the times are UTC's
        maker = _MAKERS["timestamptz" if kind == _ZONED else "timestamp"]
        return pandas.Series(maker(values.view("i8"), mask))
    return _with_mask(values, mask)


def _by_rows(result, types):
    """Decimals are floats in DuckDB's arrays."""
    import datetime

    import numpy
    import pandas

    rows = result.fetchall()
    made = []
    for n, kind in enumerate(types):
        values = [row[n] for row in rows]
        if _re.fullmatch(r"U?(TINY|SMALL|BIG)?INT(EGER)?", kind) or kind == "BOOLEAN":
            mask = numpy.array([x is None for x in values], bool)
            plain = numpy.array([0 if x is None else x for x in values], bool if kind == "BOOLEAN" else "i8")
            made.append(_with_mask(plain, mask if mask.any() else None))
        elif kind.startswith("DECIMAL"):
            made.append(pandas.Series(values, dtype=object))
        elif kind == _ZONED:
            made.append(pandas.Series([x and x.astimezone(datetime.timezone.utc) for x in values]))
        else:
            made.append(pandas.Series(values))
    return made


def _with_mask(values, mask):
    import numpy
    import pandas

    if mask is None:
        return pandas.Series(values)
    if values.dtype.kind == "i":
        return pandas.Series(pandas.arrays.IntegerArray(values.astype("i8"), mask))
    if values.dtype.kind == "u":
        return pandas.Series(pandas.arrays.IntegerArray(values, mask))
    if values.dtype.kind == "b":
        return pandas.Series(pandas.arrays.BooleanArray(values, mask))
    if values.dtype.kind == "f":
        return pandas.Series(numpy.where(mask, numpy.nan, values))
    return pandas.Series(values).mask(mask, None)


# ---- results of queries ----
#
# The file that the connector wrote; src/connect/result.h has the format. Nothing in it is trusted: a
# file that is not right raises QueryError.

_FIXED = ("bool", "int", "float", "date", "time", "timestamp", "timestamptz")
_VARIABLE = ("text", "bytes", "decimal", "json", "uuid", "interval", "geography", "record")
_INT_MIN, _INT_MAX = -(1 << 63), (1 << 63) - 1
_DAY_US = 86400 * 1000000
# From 0001-01-01 to 9999-12-31, what Python's dates have.
_US_MIN, _US_MAX = -62135596800 * 1000000, 253402300800 * 1000000 - 1
_RESULT_COLUMNS_MAX = 1600


def _broken(why):
    return QueryError("the result of the query is damaged: %s" % why, "broken")


def _load(item):
    """Bytes, or the content of a file, as numpy has it."""
    import numpy

    if isinstance(item, (bytes, bytearray, memoryview)):
        return numpy.frombuffer(item, numpy.uint8)
    try:
        return numpy.fromfile(item, numpy.uint8)
    except OSError as error:
        raise QueryError("the result of the query is not there: %s" % error, "broken") from None


class _Reader:
    """Takes pieces from the front of an array of bytes."""

    def __init__(self, data):
        self.data = data
        self.at = 0

    def left(self) -> int:
        return len(self.data) - self.at

    def take(self, size):
        if size < 0 or size > self.left():
            raise _broken("it ends too early")
        piece = self.data[self.at : self.at + size]
        self.at += size
        return piece

    def number(self) -> int:
        return int.from_bytes(self.take(8).tobytes(), "little")

    def numbers(self, count, dtype):
        if count > self.left() // 8:
            raise _broken("it ends too early")
        return self.take(8 * count).view(dtype)

    def pad(self) -> None:
        self.take(min(-self.at % 8, self.left()))


def _aligned(data):
    """Numbers are read in place, so they must be where numpy finds them."""
    return data if data.ctypes.data % 8 == 0 else data.copy()


def _chunks(data):
    reader = _Reader(_aligned(data))
    if reader.take(8).tobytes() != b"GBRESULT":
        raise _broken("it is not a result")
    while reader.left():
        tag = reader.take(4).tobytes()
        if reader.take(4).any():
            raise _broken("a part of it has a bad head")
        yield tag, reader.take(reader.number())
        reader.pad()


def _check_column(column, depth=0):
    name, type = column["name"], column["type"]
    if not isinstance(name, str) or type not in _FIXED + _VARIABLE or depth > 20:
        raise _broken("a column is not right")
    fields = column.get("fields")
    if isinstance(fields, str):
        import json

        fields = column["fields"] = json.loads(fields)
    for field in fields or ():
        _check_column(field, depth + 1)


def _schema(payload):
    import json

    columns = json.loads(payload.tobytes().decode())["columns"]
    if not isinstance(columns, list) or len(columns) > _RESULT_COLUMNS_MAX:
        raise _broken("it has too many columns")
    for column in columns:
        _check_column(column)
    return columns


def _is_fixed(column) -> bool:
    return column["type"] in _FIXED and not column.get("repeated")


def _batch(payload, columns, parts) -> int:
    """Adds (rows, nulls or None, values or (offsets, bytes)) of each column."""
    import numpy

    reader = _Reader(payload)
    rows = reader.number()
    if rows > (1 << 40) or (columns and rows > reader.left()):
        raise _broken("it has too many rows")
    for column, part in zip(columns, parts):
        mask = None
        nulls = reader.number()
        if nulls:
            mask = reader.take(rows) != 0
            reader.pad()
            if int(mask.sum()) != nulls:
                raise _broken("its nulls do not add up")
        if _is_fixed(column):
            values = reader.numbers(rows, "<f8" if column["type"] == "float" else "<i8")
        else:
            offsets = reader.numbers(rows + 1, "<i8")
            if offsets[0] != 0 or (numpy.diff(offsets) < 0).any():
                raise _broken("its offsets do not add up")
            values = offsets, reader.take(int(offsets[-1])).tobytes()
            reader.pad()
        part.append((rows, mask, values))
    if reader.left():
        raise _broken("a batch is too long")
    return rows


def _parse(data):
    """The columns, their parts, and the number of rows."""
    import json

    columns, parts, rows, ended = None, [], 0, False
    for tag, payload in _chunks(data):
        if ended or (columns is None) != (tag == b"SCHM"):
            raise _broken("its parts are not in order")
        if tag == b"SCHM":
            columns = _schema(payload)
            parts = [[] for _ in columns]
        elif tag == b"BTCH":
            rows += _batch(payload, columns, parts)
        elif tag == b"END ":
            ended = json.loads(payload.tobytes().decode())["rows"] == rows
        else:
            raise _broken("it has an unknown part")
    if not ended:
        raise _broken("it is not complete")
    return columns, parts, rows


def _frame(data, about):
    import pandas

    try:
        columns, parts, rows = _parse(data)
        made = {n: _column(column, part) for n, (column, part) in enumerate(zip(columns, parts))}
        frame = pandas.DataFrame(made, index=pandas.RangeIndex(rows), copy=False)
        frame.columns = [column["name"] for column in columns]
    except (QueryError, MemoryError):
        raise
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError,
            ValueError) as error:
        raise _broken("%s: %s" % (_kind(error), _cut(error, 200))) from None
    frame.attrs["query"] = about
    return frame


def _column(column, parts):
    import numpy

    if not _is_fixed(column):
        return _objects(column, parts)
    kind = column["type"]
    values = [values for _, _, values in parts]
    values = numpy.concatenate(values) if values else numpy.empty(0, "<i8")
    mask = None
    if any(mask is not None for _, mask, _ in parts):
        mask = numpy.concatenate([numpy.zeros(rows, bool) if mask is None else mask
                                  for rows, mask, _ in parts])
    if kind == "float":
        values = values.astype("f8", copy=False)
        return values if mask is None else numpy.where(mask, numpy.nan, values)
    values = values.astype("i8", copy=False)
    return _MAKERS[kind](values, mask)


def _make_int(values, mask):
    import pandas

    return values if mask is None else pandas.arrays.IntegerArray(values, mask)


def _make_bool(values, mask):
    import pandas

    good = (values == 0) | (values == 1)
    if mask is not None:
        good |= mask
    if not good.all():
        raise _broken("a truth value is neither 0 nor 1")
    values = values == 1
    return values if mask is None else pandas.arrays.BooleanArray(values, mask)


def _make_time(values, mask):
    return _array([None if x is None else _time(x) for x in _with_none(values, mask)])


def _with_none(values, mask):
    values = values.tolist()
    if mask is not None:
        for n in mask.nonzero()[0].tolist():
            values[n] = None
    return values


def _array(items, nested=False):
    """An array of objects; @nested: they may be lists, which numpy would spread."""
    import numpy

    out = numpy.empty(len(items), object)
    if nested:
        for n, item in enumerate(items):
            out[n] = item
    else:
        out[:] = items
    return out


def _time(us):
    import datetime

    if us == _DAY_US:
        return "24:00:00"  # which PostgreSQL has and Python has not
    if not 0 <= us < _DAY_US:
        raise _broken("a time is none")
    return datetime.time(us // 3600000000, us // 60000000 % 60, us // 1000000 % 60, us % 1000000)


def _date(days):
    import datetime

    if days in (_INT_MIN, _INT_MAX):
        return _infinite(days)
    if _US_MIN <= days * _DAY_US <= _US_MAX:
        return datetime.date(1970, 1, 1) + datetime.timedelta(days)
    return _far(days, "D")


def _timestamp(us, zone=None):
    import datetime

    if us in (_INT_MIN, _INT_MAX):
        return _infinite(us)
    if _US_MIN <= us <= _US_MAX:
        return datetime.datetime(1970, 1, 1, tzinfo=zone) + datetime.timedelta(microseconds=us)
    return _far(us, "us")


def _timestamptz(us):
    import datetime

    return _timestamp(us, datetime.timezone.utc)


def _infinite(x) -> float:
    return _math.inf if x > 0 else -_math.inf


def _far(x, unit) -> str:
    """A date that Python has not, as text."""
    import numpy

    return str(numpy.datetime64(x, unit))


def _moments(values, mask, factor, single, zone):
    """Dates and timestamps: an array of datetime64, or objects if one of them does not fit."""
    import numpy
    import pandas

    old = int(pandas.__version__.split(".")[0]) < 2
    low, high = (_INT_MIN // 1000 + 1, _INT_MAX // 1000) if old else (_US_MIN, _US_MAX)
    bad = (values < low // factor) | (values > high // factor)
    if mask is not None:
        bad &= ~mask
    if bad.any():
        return _array([None if x is None else single(x) for x in _with_none(values, mask)])
    if mask is not None:
        values = numpy.where(mask, 0, values)
    out = (values * factor).astype("M8[us]")
    if mask is not None:
        out[mask] = numpy.datetime64("NaT")
    out = out.astype("M8[ns]") if old else out
    if zone:
        return pandas.DatetimeIndex(out).tz_localize("UTC").array
    return out


_MAKERS = {
    "int": _make_int,
    "bool": _make_bool,
    "time": _make_time,
    "date": lambda values, mask: _moments(values, mask, _DAY_US, _date, False),
    "timestamp": lambda values, mask: _moments(values, mask, 1, _timestamp, False),
    "timestamptz": lambda values, mask: _moments(values, mask, 1, _timestamptz, True),
}


def _pieces(parts, text):
    """The values of a variable column in order: texts or bytes, or None."""
    out = []
    for _, mask, (offsets, raw) in parts:
        ends = offsets.tolist()
        if not text:
            items = [raw[a:b] for a, b in zip(ends, ends[1:])]
        elif raw.isascii():
            whole = raw.decode("ascii")
            items = [whole[a:b] for a, b in zip(ends, ends[1:])]
        else:
            items = [raw[a:b].decode() for a, b in zip(ends, ends[1:])]
        if mask is not None:
            for n in mask.nonzero()[0].tolist():
                items[n] = None
        out += items
    return out


def _objects(column, parts):
    import json
    from decimal import Decimal

    kind = column["type"]
    items = _pieces(parts, column.get("repeated") or kind != "bytes")
    if column.get("repeated") or kind == "record":
        convert = _converter(column)
        return _array([None if x is None else convert(json.loads(x)) for x in items], True)
    if kind == "decimal":
        return _array([None if x is None else Decimal(x) for x in items])
    if kind == "json":
        return _array([None if x is None else json.loads(x) for x in items], True)
    return _texts(items) if kind != "bytes" else _array(items)


def _texts(items):
    import pandas

    if int(pandas.__version__.split(".")[0]) >= 3:
        return pandas.array(items, dtype="str")
    return _array(items)


def _converter(column):
    """A function that turns the JSON of a nested column into its values."""
    one = _converter_of_one(column)

    def convert(x):
        if x is None:
            return None
        return [convert(item) for item in x] if isinstance(x, list) else one(x)

    if not column.get("repeated"):
        return lambda x: None if x is None else one(x)
    return convert


def _converter_of_one(column):
    import base64
    import json
    from decimal import Decimal

    kind = column["type"]
    if kind == "record":
        fields = {field["name"]: _converter(field) for field in column.get("fields") or ()}
        same = _converter({"type": "text", "repeated": True})
        return lambda x: {key: fields.get(key, same)(item) for key, item in x.items()}
    plain = {
        "float": float,
        "decimal": Decimal,
        "bytes": lambda x: base64.b64decode(x, validate=True),
        "date": _date,
        "time": _time,
        "timestamp": _timestamp,
        "timestamptz": _timestamptz,
        "json": json.loads,
    }
    return plain.get(kind, lambda x: x)


# ---- where in the program ----

_CELL = _re.compile(r"<(?:step|cell) \d+>\Z")
_FRAMES_MAX = 500  # of the stack that are looked at


def _is_own(code, filename) -> bool:
    """Whether the function is one of the cell that runs now. Steps of several answers have the same
    names, so the text under that name is asked whether it has such a function there."""
    lines = getattr(_sys.modules.get("linecache"), "cache", {}).get(filename)
    if code.co_filename != filename or not lines or len(lines) < 3:
        return False
    first = code.co_firstlineno - 1
    word = {"<lambda>": "lambda", "<genexpr>": "for", "<listcomp>": "for", "<setcomp>": "for",
            "<dictcomp>": "for"}.get(code.co_name, code.co_name)
    return any(word in line for line in lines[2][first:first + 5])  # after its decorators


def _line():
    """The line of the cell that runs now which hands something over, or None if that is not known,
    as in a thread."""
    frames, frame, cell = [], _sys._getframe(1), None
    while frame is not None and len(frames) < _FRAMES_MAX:
        frames.append((frame.f_code, frame.f_lineno))
        if frame.f_code.co_name == "<module>" and _CELL.match(frame.f_code.co_filename):
            cell = len(frames) - 1  # the outermost
        frame = frame.f_back
    if cell is None:
        return None
    for code, line in frames[:cell]:
        if _is_own(code, frames[cell][0].co_filename):
            return line
    return frames[cell][1]


def _here(content):
    try:
        line = _line()
    except Exception:  # a program may have changed anything; what it hands over is worth more
        line = None
    if line is not None:
        content["line"] = line
    return content


# ---- showing ----


def _display(*values, **options) -> None:
    display = getattr(_builtins, "display", None)
    if callable(display):
        display(*values, **options)
    else:  # a notebook exported from Mark, a plain interpreter
        for x in values:
            print(x.get("text/plain", "") if isinstance(x, dict) else x)


def _show(content, text) -> None:
    _display({MIME: content, "text/plain": text}, raw=True)
