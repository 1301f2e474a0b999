"""
The peer of the service in benchmarks: FastAPI and uvicorn, exec() in their own process. No isolation,
no limits, no streams, no files: the minimum of such an endpoint. Namespaces are kept per session.

usage: peer.py PORT-FILE
"""

import contextlib
import io
import os
import socket
import sys
import time
from typing import Optional

import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

app = FastAPI()
namespaces = {}


class Request(BaseModel):
    code: str
    session_id: Optional[str] = None


@app.post("/execute")
async def execute(request: Request):
    namespace = namespaces.setdefault(request.session_id, {}) if request.session_id else {}
    out, err, start = io.StringIO(), io.StringIO(), time.perf_counter()
    error = None
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            exec(request.code, namespace)
        except Exception as e:
            error = repr(e)
    return {
        "success": error is None, "stdout": out.getvalue(), "stderr": err.getvalue(), "error": error,
        "result": repr(namespace.get("result")), "execution_time": time.perf_counter() - start,
    }


def main():
    # Names the protocol, like uvicorn's own sockets: otherwise asyncio does not set TCP_NODELAY.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    listener.listen(128)
    with open(sys.argv[1] + ".tmp", "w", encoding="ascii") as f:
        print(listener.getsockname()[1], file=f)
    os.rename(sys.argv[1] + ".tmp", sys.argv[1])
    config = uvicorn.Config(app, access_log=False, log_level="warning")
    uvicorn.Server(config).run(sockets=[listener])


main()
