"""Temporary ordinary users: throwaway ids, and a copy of tree and binary that they can read.

Every job gets its own id, home and range of subordinate ids, so that jobs of the same kind of user
can run side by side without seeing each other's processes and files as their own.
"""

import contextlib
import os
import pathlib
import pwd
import shlex
import shutil
import subprocess
import tempfile
import threading

from .report import ROOT

PLACE = "/srv"  # where templates for tests are created: boxes have their own /tmp
UIDS = range(64001, 65000)
SUBID_START, SUBID_COUNT = 1_800_000_000, 65536


def has_mount_namespaces():
    command = ["unshare", "--mount", "true"]
    return subprocess.run(command, stderr=subprocess.DEVNULL).returncode == 0


def with_place(uid, wrap):
    """The command @wrap in a private mount namespace where PLACE is a directory of @uid; unchanged
    if no such namespace can be created."""
    if not has_mount_namespaces():
        return wrap
    script = f'mount -t tmpfs -o mode=0755,uid={uid},gid={uid} glovebox-test {PLACE} && exec "$@"'
    return ["unshare", "--mount", "--propagation=private", "sh", "-c", script, "sh", *wrap]


def setpriv(uid):
    return ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--inh-caps=-all"]


def with_subids(folder, uid):
    """The prefix that runs a command as @uid with a name and subordinate ids. newuidmap looks these
    up in /etc, so copies of four of its files with one more line are bind-mounted over the
    originals, in a private mount namespace."""
    start = SUBID_START + (uid - UIDS.start) * SUBID_COUNT
    lines = {
        "passwd": f"gbtest:x:{uid}:{uid}::{folder}/home:/bin/sh",
        "group": f"gbtest:x:{uid}:",
        "subuid": f"gbtest:{start}:{SUBID_COUNT}",
        "subgid": f"gbtest:{start}:{SUBID_COUNT}",
    }
    binds = []
    (folder / "etc").mkdir()
    (folder / "etc").chmod(0o755)
    for name, line in lines.items():
        copy = folder / "etc" / name
        text = pathlib.Path("/etc", name).read_text()
        copy.write_text(text + ("\n" if text and not text.endswith("\n") else "") + line + "\n")
        copy.chmod(0o644)
        binds.append(f"mount --bind {shlex.quote(str(copy))} /etc/{name}")
    script = " && ".join(binds) + ' && exec "$@"'
    return ["unshare", "--mount", "--propagation=private", "sh", "-c", script, "sh", *setpriv(uid)]


def why_no_subids():
    if not shutil.which("newuidmap"):
        return "no newuidmap (Debian: uidmap)"
    if not all(os.path.exists(f"/etc/{name}") for name in ("subuid", "subgid")):
        return "no /etc/subuid and /etc/subgid"
    if not has_mount_namespaces():
        return "no mount namespaces"
    return None


def not_for_the_stage(folder, names):
    """Anything that is not part of the sources: builds, caches, anything but files, links and
    directories."""
    skip = {".git", "__pycache__", "build", "node_modules"} | {name for name in names if name.startswith("build-")}
    paths = {name: pathlib.Path(folder, name) for name in names}
    return skip | {name for name, path in paths.items()
                   if not (path.is_symlink() or path.is_dir() or path.is_file())}


class Stage:
    """A copy of tree and binary, created when first needed; removed by close()."""

    def __init__(self, binary):
        self._binary = binary
        self._lock = threading.Lock()
        self._top = None
        self._uids = set()

    def _copy(self):
        self._top = pathlib.Path(tempfile.mkdtemp(prefix="glovebox-test-"))
        self._top.chmod(0o755)
        shutil.copytree(ROOT, self._top / "tree", symlinks=True, ignore=not_for_the_stage)
        # A checkout created under a restrictive umask must be readable all the same.
        subprocess.run(["chmod", "-R", "a+rX", self._top / "tree"], check=True)
        shutil.copy2(self._binary, self._top / "glovebox")
        (self._top / "glovebox").chmod(0o755)

    def _free_uid(self):
        """An id that no account, no running process and no other job has."""
        used = {entry.pw_uid for entry in pwd.getpwall()} | self._uids
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                used.add(os.stat(f"/proc/{pid}").st_uid)
        uid = next(uid for uid in UIDS if uid not in used)
        self._uids.add(uid)
        return uid

    def user(self, who):
        """A new user of the kind @who, as keywords that say how to run pytest."""
        with self._lock:
            if self._top is None:
                self._copy()
            uid = self._free_uid()
        folder = self._top / str(uid)
        folder.mkdir()
        folder.chmod(0o755)
        for name in ("home", "tmp"):
            (folder / name).mkdir(mode=0o700)
            os.chown(folder / name, uid, uid)
        wrap = with_place(uid, with_subids(folder, uid) if who == "subids" else setpriv(uid))
        env = {"GLOVEBOX": f"{self._top}/glovebox", "GB_AS": who, "HOME": f"{folder}/home",
               "TMPDIR": f"{folder}/tmp", "USER": "gbtest", "LOGNAME": "gbtest"}
        return {"tree": self._top / "tree", "env": env, "wrap": wrap, "scratch": folder / "home"}

    def close(self):
        if self._top is not None:
            shutil.rmtree(self._top, ignore_errors=True)
