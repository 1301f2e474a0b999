"""What a cell answered, in a form that can be compared: no addresses, times, numbers of cells or directories."""

import re

# Each of these is replaced in all text.
_RULES = [(re.compile(pattern, flags), text) for pattern, text, flags in (
    (r"\x1b\[[0-9;]*m", "", 0),
    (r"\r\n", "\n", 0),
    (r"0x[0-9a-fA-F]{6,}|object at [0-9a-f]{10,}", "0x0", 0),
    (r"(?:/tmp/ipykernel_\d+/\d+\.py|<ipython-input-[^>]*>|<cell[^>]*>|<cell \d+>|/\S*/ipykernel_\S*\.py|\d{7,}\.py)", "<cell>", 0),
    (r"~/<cell>", "<cell>", 0),
    (r"\d+(?:\.\d+)?(?:e[+-]\d+)? (?:ns|[µμ]s|us|ms|s|min)\b", "N s", 0),
    (r"^(?:The slowest run took|  ?could mean|This could mean).*\n", "", re.M),
    (r"[`‘’]", "'", 0),
    (r"/(?:[\w.-]+/)*(?:notebook-probes|workspace)\b", "<here>", 0),
    (r"pip \d\S* from .*", "pip", 0),
    (r"\b\d+ function calls[^\n]*", "N function calls", 0),
    (r"cell_id=\w+", "cell_id=None", 0),
)]


def text(value):
    if not isinstance(value, str):
        return value
    for pattern, new in _RULES:
        value = pattern.sub(new, value)
    return value


def bundle(data, metadata=None):
    """The types of an output, and the text of those that are text."""
    ours = {"application/vnd.glovebox.table+json"}
    shown = {"types": sorted(mime for mime in data if mime not in ours)}
    if "text/plain" in data:
        shown["text"] = text(data["text/plain"])
    for mime in ("text/html", "text/markdown", "text/latex"):
        if mime in data and len(data[mime]) < 100:
            shown[mime] = text(data[mime])
    kept = {key: value for key, value in (metadata or {}).items() if key != "glovebox"}
    if kept:
        shown["metadata"] = sorted(kept)
    return shown


def answer(out="", err="", shown=(), result=None, error=None, **more):
    """One cell; what is empty is left out."""
    cell = {"out": text(out), "err": text(err), "shown": list(shown), "result": result}
    if error is not None:
        cell["error"] = [error[0], text(error[1])]
    cell.update(more)
    return {key: value for key, value in cell.items() if value not in ("", [], None, {})}
