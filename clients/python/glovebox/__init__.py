"""Client of Glovebox, which runs Python that nobody has read in a box.

    import glovebox

    print(glovebox.run("6 * 7").text)

    with glovebox.Session() as session:
        session.upload("sales.csv")
        session.run("import pandas as pd; frame = pd.read_csv('sales.csv')")
        print(session.run("frame.describe()").table())

`Client` names the service (GLOVEBOX_URL, GLOVEBOX_API_KEY), `Session` keeps variables and files,
`AsyncClient` and `AsyncSession` are awaited. `glovebox.local` starts a service by itself,
`CodeSession` and `glovebox.openmanus` speak to programs that were written for other sandboxes.
"""

from . import local
from .aio import AsyncClient, AsyncSession, AsyncStream
from .client import Client, File, Session, run
from .codesession import CodeSession
from .errors import *  # noqa: F403
from .errors import __all__ as _errors
from .result import Display, ErrorInfo, Figure, FileChange, Result
from .stream import Event, Stream

__version__ = "0.1.0"

__all__ = [
    "AsyncClient", "AsyncSession", "AsyncStream", "Client", "CodeSession", "Display", "ErrorInfo",
    "Event", "Figure", "File", "FileChange", "Result", "Session", "Stream", "local", "run",
    *_errors,
]
