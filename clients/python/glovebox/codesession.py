"""`CodeSession`: the five calls of the code-session API, with DataFrames and names.

Replies are passed on unchanged, as programs written for other servers of that API expect:
`execute_code()` returns a JSON string with the names that were assigned, or an object with `detail`
if the code failed.
"""

from __future__ import annotations

import io
import re
import uuid
from typing import TYPE_CHECKING, Any, Dict, Optional, Union

from .errors import BadRequest, NotFound, ProtocolError, RequestError
from .transport import Transport, json_bytes, parse_json, quote

if TYPE_CHECKING:
    import pandas

_LABEL = re.compile(r"[A-Za-z0-9._-]{1,64}")


class CodeSession:
    """`session` is a label of your choice, or the id of a session. Without one, all clients of an
    address share one session, as is usual for that API."""

    def __init__(
        self, url: str, session: Optional[str] = None, api_key: Optional[str] = None
    ) -> None:
        self.url = url
        self._transport = Transport(url, api_key, timeout=330.0)
        self._headers: Dict[str, str] = {}
        if session is not None:
            if not _LABEL.fullmatch(session):
                raise ValueError(f"{session!r}: must be 1 to 64 characters of A-Z a-z 0-9 . _ -")
            self._headers["X-Session-Id"] = session

    def upload_file(
        self, file_name: str, data: Union["pandas.DataFrame", str, bytes]
    ) -> Any:
        """Stores `data`, a DataFrame or CSV text, in the variable `file_name`."""
        text = data if isinstance(data, (str, bytes)) else data.to_csv(index=False)
        content = text.encode() if isinstance(text, str) else text
        boundary = uuid.uuid4().hex
        head = (f"--{boundary}\r\nContent-Disposition: form-data; name=\"file\"; "
                "filename=\"data.csv\"\r\nContent-Type: text/csv\r\n\r\n")
        body = head.encode() + content + f"\r\n--{boundary}--\r\n".encode()
        kind = f"multipart/form-data; boundary={boundary}"
        return self._ask("POST", f"/uploadfile/{quote(file_name)}", body, kind)

    def get_files(self) -> Any:
        """The names of the uploaded variables."""
        return self._ask("GET", "/files/")

    def download_file(self, file_name: str) -> "pandas.DataFrame":
        """The variable as a DataFrame, with all changes made by code; needs pandas."""
        import pandas

        text = self._ask("GET", f"/downloadfile/{quote(file_name)}")
        if not isinstance(text, str):
            detail = text.get("detail") if isinstance(text, dict) else text
            raise BadRequest(str(detail), 400, text if isinstance(text, dict) else None)
        try:
            return pandas.read_json(io.StringIO(text))
        except (ValueError, TypeError) as error:
            raise ProtocolError(f"not a DataFrame: {error}") from None

    def execute_code(self, code: str) -> Any:
        """Runs code. Returns a JSON string with the names it assigned, or an object with
        `detail`."""
        return self._ask("POST", "/execute_code/", json_bytes({"code": code}), "application/json")

    def clear_state(self) -> Any:
        """Forgets all variables and uploads."""
        return self._ask("GET", "/clear_state/")

    def _ask(self, method: str, path: str, body: Optional[bytes] = None, kind: str = "") -> Any:
        headers = {**self._headers, **({"Content-Type": kind} if kind else {})}
        with self._transport.open(method, path, body=body, headers=headers) as reply:
            if 200 <= reply.status < 300:
                return parse_json(reply.read(self._transport.max_reply))
            error = self._transport.refusal(reply)
        # In this API, errors caused by the request are replies; all others are exceptions.
        if isinstance(error, RequestError) and isinstance(error, (BadRequest, NotFound)):
            return error.problem
        raise error

    def close(self) -> None:
        self._transport.close()

    def __enter__(self) -> "CodeSession":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
