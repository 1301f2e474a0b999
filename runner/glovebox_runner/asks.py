"""Requests of a cell to the supervisor: one JSON object out, one back, over the control socket.

packages.py asks for installs, the module mark of a session of Mark for queries. Waiting takes as
long as it takes: that time is not the cell's, up to a bound that the supervisor knows. Only the
thread that runs cells may ask. Another one could still be waiting when the cell has ended, and would
then read the message that begins the next.
"""

import json
from _thread import get_ident

ASK_MAX = 262144  # bytes; engine/run/cell_request.c has the same

_asked = 0
_publisher = None


class AskError(Exception):
    """Nobody can be asked. The message is for the user."""


def use(publisher) -> None:
    """Sets the publisher through which a session talks to the supervisor."""
    global _publisher
    _publisher = publisher


def ask(op: str, **more) -> dict:
    """Asks the supervisor and waits. An interrupt is passed on: nobody waits for the answer then, and
    the supervisor gives up too."""
    global _asked
    if _publisher is None or not _publisher.in_cell:
        raise AskError("only a running cell can ask the service")
    if _publisher.thread != get_ident():
        raise AskError("only the thread that runs the cell can ask the service; ask one after the "
                       "other, outside of threads")
    text = json.dumps({"op": op, **more}).encode()
    if len(text) > ASK_MAX:
        raise AskError("the request is %d bytes and can have at most %d" % (len(text), ASK_MAX))
    _asked += 1
    answer = _publisher.ask(_asked, text)
    if answer is None:
        raise AskError("there is no service to ask: see glovebox serve")
    answer = json.loads(answer)
    return answer if isinstance(answer, dict) else {}
