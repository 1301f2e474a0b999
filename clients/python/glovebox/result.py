"""The result of an execution: the receipt as an object that can also display itself in a
notebook."""

from __future__ import annotations

import base64
import binascii
import html
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Dict, List, Mapping, Optional, Tuple

from .errors import EXECUTION_ERRORS, ExecutionError, ProtocolError

if TYPE_CHECKING:
    import pandas

TABLE = "application/vnd.glovebox.table+json"
PLOTLY = "application/vnd.plotly.v1+json"
FIGURE_TYPES = ("image/png", "image/jpeg", "image/svg+xml", PLOTLY)


@dataclass(frozen=True)
class Display:
    """Something that was displayed, by MIME type; images are base64. `stdout_offset` and
    `stderr_offset` are how many bytes of each whole stream had been printed before; None for the
    value of the last expression, which comes after everything."""

    data: Dict[str, Any]
    metadata: Dict[str, Any] = field(default_factory=dict)
    stdout_offset: Optional[int] = None
    stderr_offset: Optional[int] = None

    @classmethod
    def from_json(cls, output: Dict[str, Any]) -> "Display":
        """An element of the receipt's `outputs`, or a `display` event."""
        places = (output.get("stdout_offset"), output.get("stderr_offset"))
        return cls(dict(output["data"]), dict(output.get("metadata") or {}),
                   *(int(place) if place is not None else None for place in places))

    def _repr_mimebundle_(self, **_: Any) -> Tuple[Dict[str, Any], Dict[str, Any]]:
        return self.data, self.metadata


@dataclass(frozen=True)
class Figure:
    """A chart or an image. `data` is the content of a file of its type, such as a PNG."""

    mime: str
    data: bytes

    @property
    def suffix(self) -> str:
        known = {"image/png": ".png", "image/jpeg": ".jpg", "image/svg+xml": ".svg"}
        return known.get(self.mime, ".json")

    def save(self, path: Any) -> None:
        with open(path, "wb") as f:
            f.write(self.data)

    def __repr__(self) -> str:
        return f"Figure({self.mime!r}, {len(self.data)} bytes)"

    def _repr_mimebundle_(self, **_: Any) -> Dict[str, Any]:
        if self.mime in ("image/png", "image/jpeg"):
            return {self.mime: base64.b64encode(self.data).decode("ascii")}
        if self.mime == PLOTLY:
            import json

            return {self.mime: json.loads(self.data)}
        return {self.mime: self.data.decode("utf-8", "replace")}


@dataclass(frozen=True)
class ErrorInfo:
    """An uncaught exception."""

    name: str
    value: str
    traceback: str


@dataclass(frozen=True)
class FileChange:
    """A file that the execution created, modified or deleted."""

    path: str
    size: int
    change: str


@dataclass(frozen=True, eq=False)
class Result:
    """The result of an execution. `receipt` is the unchanged reply of the server."""

    status: str
    exit_code: int
    stdout: str
    stderr: str
    execution_time: float
    execution_id: str
    receipt: Dict[str, Any] = field(repr=False)
    limit: Optional[str] = None
    result: Optional[Dict[str, Any]] = None
    result_metadata: Dict[str, Any] = field(default_factory=dict)
    outputs: List[Display] = field(default_factory=list)
    error: Optional[ErrorInfo] = None
    files: List[FileChange] = field(default_factory=list)
    truncated: Dict[str, int] = field(default_factory=dict)
    usage: Dict[str, Any] = field(default_factory=dict)
    session_id: Optional[str] = None
    execution_count: int = 0
    session_lost: bool = False
    shell_lost: bool = False

    @classmethod
    def from_receipt(cls, receipt: Any) -> "Result":
        """Reads a receipt. Raises ProtocolError if it is malformed."""
        try:
            return cls._read(receipt)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ProtocolError(f"malformed receipt: {type(error).__name__}: {error}") from None

    @classmethod
    def _read(cls, receipt: Mapping[str, Any]) -> "Result":
        error = receipt.get("error")
        return cls(
            status=_text(receipt["status"]),
            exit_code=int(receipt["exit_code"]),
            stdout=_text(receipt["stdout"]),
            stderr=_text(receipt["stderr"]),
            execution_time=float(receipt["execution_time"]),
            execution_id=_text(receipt["execution_id"]),
            receipt=dict(receipt),
            limit=receipt.get("limit"),
            result=_object(receipt.get("result")),
            result_metadata=_object(receipt.get("result_metadata")) or {},
            outputs=[Display.from_json(o) for o in receipt.get("outputs") or ()],
            error=error and ErrorInfo(_text(error["name"]), _text(error["value"]),
                                      _text(error["traceback"])),
            files=[FileChange(_text(f["path"]), int(f.get("size") or 0), _text(f["change"]))
                   for f in receipt.get("files") or ()],
            truncated=_object(receipt.get("truncated")) or {},
            usage=_object(receipt.get("usage")) or {},
            session_id=receipt.get("session_id"),
            execution_count=int(receipt.get("execution_count") or 0),
            session_lost=bool(receipt.get("session_lost")),
            shell_lost=bool(receipt.get("shell_lost")),
        )

    # ---- reading it ----

    @property
    def success(self) -> bool:
        return self.status == "ok"

    def __bool__(self) -> bool:
        return self.success

    @property
    def text(self) -> str:
        """The text a notebook would show: the printed output, then the value of the last
        expression."""
        value = (self.result or {}).get("text/plain")
        return self.stdout + value if isinstance(value, str) else self.stdout

    @property
    def reason(self) -> str:
        """Why it ended, in one line."""
        if self.status == "error" and self.error:
            return f"{self.error.name}: {self.error.value}".rstrip(": ")
        if self.status == "error":
            last = self.stderr.strip().rpartition("\n")[2]
            return f"exit code {self.exit_code}" + (f": {last}" if last else "")
        reasons = {
            "ok": "completed",
            "timeout": "hit the time limit",
            "oom": "hit the memory limit",
            "killed": f"killed by signal {self.exit_code - 128}",
            "cancelled": "interrupted",
            "pids": "hit the limit on processes",
            "disk": "hit the limit on disk space",
            "output": "hit the limit on output",
            "system": "the server failed to run it",
        }
        text = reasons.get(self.status, self.status)
        if self.session_lost:
            text += "; the variables of the session were lost"
        return text

    @property
    def displays(self) -> List[Display]:
        """Everything that was displayed; the value of the last expression comes last."""
        last = [Display(self.result, self.result_metadata)] if self.result else []
        return [*self.outputs, *last]

    @property
    def figures(self) -> List[Figure]:
        """Charts and images, in the order in which they were displayed."""
        found = (_figure(display) for display in self.displays)
        return [figure for figure in found if figure]

    def table(self) -> "pandas.DataFrame":
        """The last table that was displayed, as a DataFrame; needs pandas. It has the first rows
        only: `frame.attrs["row_count"]` is the number of rows in the original."""
        for display in reversed(self.displays):
            if TABLE in display.data:
                return _frame(display.data[TABLE])
        raise LookupError("no table was displayed: end the program with a table as its value")

    def check(self) -> "Result":
        """Returns itself if the program succeeded; otherwise raises the matching exception."""
        if self.success:
            return self
        raise EXECUTION_ERRORS.get(self.status, ExecutionError)(self)

    # ---- displaying it ----

    def __str__(self) -> str:
        return self.text if self.success else f"{self.text}{self.stderr}"

    def _repr_html_(self) -> str:
        parts = self._html_in_order()
        parts.append(_pre(self.stderr, "background: #fdd"))
        if self.result:
            parts.append(_html_of(self.displays[-1]))
        if not self.success:
            parts.append(f"<p><b>{html.escape(self.status)}</b>: {html.escape(self.reason)}</p>")
        return "\n".join(part for part in parts if part)

    def _html_in_order(self) -> List[str]:
        """Printed text and displays, each where it belongs. If text is missing in the middle, the
        places after that are not known, and the displays come after the text."""
        whole = not self.truncated.get("stdout")
        data = self.stdout.encode("utf-8", "surrogatepass")
        parts, done = [], 0
        for display in self.outputs:
            place = display.stdout_offset
            if whole and place is not None and place > done:
                parts.append(_pre(data[done:place].decode("utf-8", "replace")))
                done = min(place, len(data))
            elif not whole and not parts:
                parts.append(_pre(self.stdout))
                done = len(data)
            parts.append(_html_of(display))
        return [*parts, _pre(data[done:].decode("utf-8", "replace"))]

    def _repr_mimebundle_(self, **_: Any) -> Dict[str, Any]:
        bundle = {"text/plain": str(self), "text/html": self._repr_html_()}
        # HTML cannot contain this chart; if it is the only output, the notebook displays it itself.
        if len(self.displays) == 1 and not self.stdout and PLOTLY in self.displays[0].data:
            bundle[PLOTLY] = self.displays[0].data[PLOTLY]
        return bundle


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.80} is not a string")
    return value


def _object(value: Any) -> Optional[Dict[str, Any]]:
    if value is not None and not isinstance(value, dict):
        raise TypeError(f"{value!r:.80} is not an object")
    return value


def _figure(display: Display) -> Optional[Figure]:
    for mime in FIGURE_TYPES:
        value = display.data.get(mime)
        if value is None:
            continue
        if mime in ("image/png", "image/jpeg"):
            try:
                return Figure(mime, base64.b64decode(value))
            except (binascii.Error, TypeError, ValueError):
                continue
        if mime == PLOTLY:
            import json

            return Figure(mime, json.dumps(value).encode())
        return Figure(mime, str(value).encode())
    return None


def _frame(table: Any) -> "pandas.DataFrame":
    import pandas

    try:
        columns = table["columns"]
        frame = pandas.DataFrame(table["rows"], columns=range(len(columns)))
        for i, column in enumerate(columns):
            if column.get("type") == "datetime":
                frame[i] = pandas.to_datetime(frame[i], errors="coerce")
        levels = [i for i, column in enumerate(columns) if column.get("index")]
        if levels:
            frame = frame.set_index(levels)
            frame.index.names = [columns[i]["name"] or None for i in levels]
        frame.columns = pandas.Index([columns[i]["name"] for i in frame.columns])
        frame.attrs["row_count"] = int(table["row_count"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ProtocolError(f"malformed table: {error}") from None
    return frame


def _pre(text: str, style: str = "") -> str:
    if not text:
        return ""
    return f'<pre style="margin: 0; {style}">{html.escape(text)}</pre>'


def _html_of(display: Display) -> str:
    """The program's displays are not trusted in the user's page: tables are rendered here, images
    stay images, and other HTML and SVG goes into an iframe without scripts and without an
    origin."""
    data = display.data
    if isinstance(data.get(TABLE), dict):
        try:
            return _html_table(data[TABLE])
        except (KeyError, TypeError, ValueError):
            pass
    for mime in ("image/png", "image/jpeg"):
        if isinstance(data.get(mime), str):
            return f'<img src="data:{mime};base64,{html.escape(data[mime])}">'
    for mime in ("text/html", "image/svg+xml"):
        if isinstance(data.get(mime), str):
            source = html.escape(data[mime])
            return (f'<iframe sandbox srcdoc="{source}" '
                    'style="width: 100%; border: 0; resize: vertical"></iframe>')
    return _pre(str(data.get("text/plain", "")))


def _html_table(table: Dict[str, Any]) -> str:
    head = "".join(f"<th>{html.escape(str(column['name']))}</th>" for column in table["columns"])
    rows = "".join(
        "<tr>" + "".join(f"<td>{_cell(value)}</td>" for value in row) + "</tr>"
        for row in table["rows"]
    )
    more = int(table["row_count"]) - len(table["rows"])
    note = f"<p>and {more} more rows</p>" if more > 0 else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{note}"


def _cell(value: Any) -> str:
    return "" if value is None else html.escape(str(value))
