"""Python client for Glovebox, a sandbox for untrusted Python code.

    import glovebox

    print(glovebox.run("6 * 7").text)

    with glovebox.Session() as session:
        session.upload("sales.csv")
        session.run("import pandas as pd; frame = pd.read_csv('sales.csv')")
        print(session.run("frame.describe()").table())

`Client` connects to a server (GLOVEBOX_URL, GLOVEBOX_API_KEY), `Session` keeps variables and files,
and `AsyncClient` and `AsyncSession` are their async versions. `glovebox.local` starts a local
server. `CodeSession` and `glovebox.openmanus` are for programs that were written for other
sandboxes.
"""

from . import local
from .aio import AsyncClient, AsyncSession, AsyncStream, AsyncTerminal
from .client import Client, File, Session, run
from .codesession import CodeSession
from .errors import *  # noqa: F403
from .errors import __all__ as _errors
from .result import Display, ErrorInfo, Figure, FileChange, Result
from .stream import Event, Stream
from .terminal import Terminal

__version__ = "0.1.0"

__all__ = [
    "AsyncClient", "AsyncSession", "AsyncStream", "AsyncTerminal", "Client", "CodeSession",
    "Display", "ErrorInfo", "Event", "Figure", "File", "FileChange", "Result", "Session", "Stream",
    "Terminal", "local", "run",
    *_errors,
]
