"""Packages that the supervisor provides in a box: a read-only directory, perhaps mounted while we
run.

Before each program, and after each install of our own, refresh() checks whether something was
mounted there. If so, it is added to sys.path after the standard library and before the packages of
the machine, and the caches of importlib are invalidated. A package that is already imported stays
unchanged.

pip() is %pip. To install and uninstall it asks the supervisor over the control socket and waits for
the answer, which takes as long as it takes: that time is not the cell's.
"""

import os
import sys

from . import asks

PLACE = "/packages"

_seen = None  # device and inode of the directory at the last look


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


class InstallError(Exception):
    """%pip could not do what it was asked for. The message is for the user."""

    __module__ = "builtins"  # so that it is shown without the name of ours
    glovebox_ends_here = True  # see script._without_our_frames()


def _ask(op: str, **more) -> dict:
    """The answer has "message" and, if all is well, "success"."""
    try:
        answer = asks.ask(op, **more)
    except KeyboardInterrupt:
        stop = KeyboardInterrupt("the installation was interrupted; nothing was changed")
        stop.glovebox_ends_here = True
        raise stop from None
    except asks.AskError as error:
        return {"message": "packages can only be installed through a service: %s" % error}
    refresh()
    return answer


def install(requirements: list, newest: bool = False) -> dict:
    return _ask("install", requirements=requirements, newest=newest)


# ---- %pip ----

# Options often given to pip that have no effect here.
_NOISE = {"-q", "--quiet", "-qq", "-qqq", "-v", "--verbose", "--user", "--no-cache-dir", "--no-input",
          "--disable-pip-version-check", "--break-system-packages", "-y", "--yes", "--prefer-binary",
          "--progress-bar=off", "--root-user-action=ignore", "--no-warn-script-location"}
_UPGRADE = {"-U", "--upgrade"}


def pip(line: str) -> None:
    """What %pip and !pip do. install and uninstall are sent to the service; the rest is answered
    here, so that it also works where pip is not installed. Raises InstallError."""
    import shlex

    try:
        words = shlex.split(line.partition(" #")[0])
    except ValueError as error:
        raise InstallError("%%pip: %s" % error) from None
    command, options = (words[0] if words else "help"), [w for w in words[1:] if w not in _NOISE]
    if command == "install":
        _pip_install(options)
    elif command in ("uninstall", "remove"):
        _pip_change("uninstall", _names(command, options))
    elif command in ("list", "freeze"):
        _pip_list(command == "freeze")
    elif command == "show":
        _pip_show(_names(command, options))
    else:
        raise InstallError("pip %s is not supported in a box; there are install, uninstall, list, "
                           "freeze and show" % command)


def _names(command: str, options: list) -> list:
    odd = [word for word in options if word.startswith("-")]
    if odd:
        raise InstallError("pip %s accepts only package names here; remove %s" % (command,
                                                                                  " ".join(odd)))
    if not options:
        raise InstallError("pip %s: name at least one package" % command)
    return options


def _pip_install(options: list) -> None:
    newest = any(word in _UPGRADE for word in options)
    names = _names("install", [word for word in options if word not in _UPGRADE])
    _pip_change("install", names, newest=newest)


def _pip_change(op: str, names: list, **more) -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except Exception:
            pass
    answer = _ask(op, requirements=names, **more)
    message = answer.get("message") or "no message from the service"
    if answer.get("success") is not True:
        raise InstallError(message)
    print(message)
    for warning in answer.get("warnings") or ():
        print("WARNING: %s" % warning, file=sys.stderr)


def _distributions() -> list:
    """The first of each name in sys.path is the one that is imported."""
    from importlib import metadata

    found = {}
    for about in metadata.distributions():
        name = about.metadata["Name"]
        if name:
            found.setdefault(name.lower().replace("_", "-"), (name, about))
    return [found[key] for key in sorted(found)]


def _pip_list(freeze: bool) -> None:
    rows = [(name, about.version) for name, about in _distributions()]
    if freeze:
        print("\n".join("%s==%s" % row for row in rows))
        return
    width = max([len("Package"), *(len(name) for name, _ in rows)])
    print("%-*s Version" % (width, "Package"))
    print("%s %s" % ("-" * width, "-" * len("Version")))
    for name, version in rows:
        print("%-*s %s" % (width, name, version))


def _pip_show(names: list) -> None:
    known = {name.lower().replace("_", "-"): (name, about) for name, about in _distributions()}
    missing = [name for name in names if name.lower().replace("_", "-") not in known]
    for number, name in enumerate(name for name in names if name not in missing):
        name, about = known[name.lower().replace("_", "-")]
        if number:
            print("---")
        print("Name: %s\nVersion: %s" % (name, about.version))
        for field in ("Summary", "Home-page", "License"):
            if about.metadata[field]:
                print("%s: %s" % (field, about.metadata[field]))
        print("Location: %s" % about.locate_file(""))
        print("Requires: %s" % ", ".join(about.requires or ()))
    if missing:
        raise InstallError("not installed: %s" % ", ".join(missing))
