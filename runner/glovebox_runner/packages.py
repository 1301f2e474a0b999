"""Packages that the supervisor provides in a box: a read-only directory, perhaps mounted while we
run.

Before each program, and after each install of our own, refresh() checks whether something was
mounted there. If so, it is added to sys.path after the standard library and before the packages of
the machine, and the caches of importlib are invalidated. A package that is already imported stays
unchanged.

install() is %pip install: it asks the supervisor over the control socket and waits for the answer.
"""

import os
import sys

PLACE = "/packages"
ANSWER_MAX = 65536

_seen = None  # device and inode of the directory at the last look
_asked = 0
_publisher = None


def _look():
    try:
        status = os.stat(PLACE)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def prepare_template() -> None:
    """Records the state of the directory before anything more is mounted there."""
    global _seen
    _seen = _look()


def refresh() -> bool:
    """Whether there is something new."""
    global _seen
    here = _look()
    if here == _seen or here is None:
        return False
    _seen = here
    import importlib

    first = PLACE not in sys.path
    if first:
        sys.path.insert(_position(), PLACE)
    sys.path_importer_cache.pop(PLACE, None)
    importlib.invalidate_caches()
    _run_pth_files()
    return True


def _position() -> int:
    for index, entry in enumerate(sys.path):
        if isinstance(entry, str) and entry.rstrip("/").endswith(("/dist-packages",
                                                                  "/site-packages")):
            return index
    return len(sys.path)


def _run_pth_files() -> None:
    try:
        names = sorted(name for name in os.listdir(PLACE) if name.endswith(".pth"))
    except OSError:
        return
    if names:
        import site

        for name in names:
            site.addpackage(PLACE, name, set(sys.path))


def use(publisher) -> None:
    """Sets the publisher through which a session talks to the supervisor."""
    global _publisher
    _publisher = publisher


def install(requirements: list) -> dict:
    """Asks for packages and waits. The answer has "message" and, if all is well, "success"."""
    global _asked
    if _publisher is None:
        return {"message": "packages can only be installed from a cell"}
    import json

    _asked += 1
    ask = json.dumps({"op": "install", "requirements": requirements}).encode()
    if len(ask) > ANSWER_MAX:
        return {"message": "too many requirements in one line"}
    answer = _publisher.ask(_asked, ask)
    if answer is None:
        return {"message": "packages can only be installed through a service: see glovebox serve"}
    refresh()
    answer = json.loads(answer)
    return answer if isinstance(answer, dict) else {}
