#!/usr/bin/python3
"""Runs the test suites and adds them up; the last line is `N passed, N failed`.

usage: tests/run.py [--build DIR] [--as WHO,...] [--only FILE,...] [--counts FILE] [SUITE...]

Suites: unit (cmocka programs, through meson), python (pytest over tests/unit), client (pytest over
clients/python, against services of the built binary), mcp (pytest over tests/mcp: the official
conformance suite and clients, which tools/mcp_kit.sh installs to mcp-kit of the build directory, or
to GB_MCP_KIT), system and abuse (pytest, through the built binary, named to them in GLOVEBOX).
System and abuse suites are run once for each kind of user that this one can become:

  self     an ordinary user: whoever called.
  root     root itself; boxes get host ids of their own.
  user     a throwaway id without a passwd entry: an ordinary user for whom newuidmap does nothing,
           so boxes share one id. setpriv drops everything that root had.
  subids   the same id with a name and a range of subordinate ids. newuidmap looks these up in
           /etc, so the suite runs in a private mount namespace where copies of four files of /etc
           with one line more are bound over the originals; nothing of the machine is changed, and
           all of it ends with the last process. Of the system tests only those in which ids
           matter are run: files, processes, what dies and what stays.

After the unit tests three lanes run side by side, since most tests wait for something: runner,
client and MCP, what runs as root, and the other users behind each other. What a lane prints is
shown when a suite of it is done.

A test that fails here may have failed because others ran beside it on a machine that stalled. Where
no more than UNSTEADY_MAX of a suite did, those are run again, three times: one that passes each
time is counted as passed and named in the summary as UNSTEADY, which is a fault to look for, in the
test or in what it tests. One that fails once more has failed.

For the throwaway id the tree and the binary are copied to a temporary directory, since the checkout
may lie where only root can read.
"""
import argparse
import concurrent.futures
import contextlib
import functools
import json
import os
import pathlib
import pwd
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import xml.etree.ElementTree

ROOT = pathlib.Path(__file__).resolve().parent.parent
PYTHON = "/usr/bin/python3"
SUITES = ("unit", "python", "client", "mcp", "system", "abuse")
THROUGH_BINARY = ("system", "abuse")
SUITE_SECONDS = 5400  # a suite that hangs is a failure, not a reason to wait for ever
UNSTEADY_MAX = 3  # more than that in one suite is no accident
SECOND_LOOKS = 3
SUBIDS_ONLY = ["test_robust.py", "test_serve_files.py", "test_volumes.py", "test_template.py"]
# Nothing in these depends on who runs them.
NOT_AS_USER = ["test_docs.py", "test_cell.py", "test_dialects.py", "test_dialects_bad.py",
               "test_compat.py", "test_mcp.py", "test_mcp_bad_input.py", "test_key.py",
               "test_audit.py", "test_serve_api.py"]
# Of these the ones in which an ordinary user's mounts and ids have a part.
AS_USER_ONLY = {
    "test_packages.py": ["test_live_session", "test_offline", "test_pruning", "test_two_at_once"],
    "test_template_packages.py": ["test_set", "test_layer_stays_as_long_as_it_is_named"],
}
PRINTING = threading.Lock()
RUNNING = []  # processes of suites
STOPPED = threading.Event()  # no more of them
SUBID_START, SUBID_COUNT = 1_800_000_000, 65536


class Tally:
    def __init__(self):
        self.passed = self.failed = self.skipped = 0
        self.notes = []
        self._lock = threading.Lock()

    def add(self, suite, passed=0, failed=0, skipped=0, notes=()):
        with self._lock:
            self.passed += passed
            self.failed += failed
            self.skipped += skipped
            self.notes += [f"{suite}: {note}" for note in notes]

    def line(self):
        text = f"{self.passed} passed, {self.failed} failed"
        return text + (f", {self.skipped} skipped" if self.skipped else "")


def say(text):
    print(f"\n== {text}", flush=True)


def show(name, output):
    """What a suite printed, as a whole."""
    output.seek(0)
    with PRINTING:
        say(name)
        shutil.copyfileobj(output, sys.stdout.buffer)
        sys.stdout.flush()


def run(command, **kwargs):
    """Runs it in a process group of its own, which is killed when it takes too long."""
    if STOPPED.is_set():
        return None
    process = subprocess.Popen(command, start_new_session=True, **kwargs)
    RUNNING.append(process)
    try:
        return process.wait(timeout=SUITE_SECONDS)
    except BaseException as reason:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if isinstance(reason, subprocess.TimeoutExpired):
            return None
        raise
    finally:
        RUNNING.remove(process)


def look_again(command, **kwargs):
    """Whether what failed passes each time now."""
    return all(run(command, **kwargs) == 0 for _ in range(SECOND_LOOKS))


def stop_running():
    """Lanes wait in threads, which no signal reaches: what they wait for ends."""
    STOPPED.set()
    for process in list(RUNNING):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


# ---- cmocka programs, through meson ----


def count_tap(entry):
    """What one entry of meson's log adds: (passed, failed, skipped, notes)."""
    name, text = entry["name"], entry.get("stdout", "")
    results = re.findall(r"^(not ok|ok)\b([^\n]*)", text, re.MULTILINE)
    skipped = [rest for _, rest in results if re.search(r"# *skip", rest, re.IGNORECASE)]
    failed = [rest for word, rest in results if word == "not ok" and rest not in skipped]
    notes = [f"FAILED {name}:{rest}" for rest in failed]
    notes += [f"skipped {name}:{rest}" for rest in skipped]
    if entry["result"] == "SKIP" and not skipped:
        why = entry.get("stderr", "").strip().splitlines()
        return 0, 0, 1, [f"skipped {name}: {why[-1] if why else 'exit 77'}"]
    if entry["result"] not in ("OK", "SKIP") and not failed:
        # It died, hung or broke the protocol: that is a failure of its own.
        notes.append(f"FAILED {name}: {entry['result']}, return code {entry.get('returncode')}")
        return len(results) - len(skipped), 1, len(skipped), notes
    passed = len(results) - len(skipped) - len(failed) if results else 1
    return passed, len(failed), len(skipped), notes


def meson_test(build, *names):
    return ["meson", "test", "-C", str(build), "--no-rebuild", "--print-errorlogs", *names]


def suite_unit(build, tally):
    log = build / "meson-logs" / "testlog.json"
    log.unlink(missing_ok=True)
    with tempfile.TemporaryFile() as shown:
        code = run(meson_test(build), stdout=shown, stderr=subprocess.STDOUT)
        show("unit tests", shown)
    if not log.exists():
        tally.add("unit", failed=1, notes=[f"FAILED meson test: no log, exit {code}"])
        return
    entries = [json.loads(line) for line in log.read_text().splitlines() if line.strip()]
    failed = [entry for entry in entries if entry["result"] not in ("OK", "SKIP")]
    if 0 < len(failed) <= UNSTEADY_MAX:
        names = [entry["name"] for entry in failed]
        with tempfile.TemporaryFile() as shown:
            steady = look_again(meson_test(build, *names), stdout=shown, stderr=subprocess.STDOUT)
            show("unit tests, once more", shown)
        if steady:
            tally.add("unit", passed=len(names), notes=[f"UNSTEADY {name}" for name in names])
            entries = [entry for entry in entries if entry not in failed]
            code = 0
    before = tally.failed
    for entry in entries:
        passed, failed, skipped, notes = count_tap(entry)
        tally.add("unit", passed, failed, skipped, notes)
    if not entries or (code != 0 and tally.failed == before):
        tally.add("unit", failed=1, notes=[f"FAILED meson test: exit {code}"])


# ---- pytest ----


def count_junit(path):
    passed, failed, skipped, notes = 0, 0, 0, []
    for case in xml.etree.ElementTree.parse(path).iter("testcase"):
        name = f"{case.get('classname')}.{case.get('name')}"
        bad = case.find("failure") if case.find("failure") is not None else case.find("error")
        skip = case.find("skipped")
        if bad is not None:
            failed += 1
            first = (bad.get("message") or "").strip().splitlines()
            notes.append(f"FAILED {name}: {first[0] if first else ''}")
        elif skip is not None:
            skipped += 1
            notes.append(f"skipped {name}: {skip.get('message')}")
        else:
            passed += 1
    return passed, failed, skipped, notes


def last_failed(scratch):
    """As pytest names them."""
    return list(json.loads(pathlib.Path(scratch, "pytest/v/cache/lastfailed").read_text()))


def pytest(name, where, tally, tree=ROOT, env=None, wrap=(), scratch=None):
    """Runs pytest on @where of @tree, after the words of @wrap, and counts its report."""
    with contextlib.ExitStack() as stack:
        shown = stack.enter_context(tempfile.TemporaryFile())
        stack.callback(show, name, shown)
        if scratch is None:
            scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="glovebox-test-"))
        report = pathlib.Path(scratch) / "report.xml"
        report.unlink(missing_ok=True)
        command = [*wrap, PYTHON, "-m", "pytest", "-q", "-rs", "--durations=12",
                   "-o", f"cache_dir={scratch}/pytest", "-o", "faulthandler_timeout=120",
                   f"--rootdir={tree}"]
        environment = dict(os.environ, PYTHONDONTWRITEBYTECODE="1", PYTHONPATH=f"{tree}/runner",
                           **(env or {}))
        how = {"cwd": tree, "env": environment, "stdin": subprocess.DEVNULL, "stdout": shown,
               "stderr": subprocess.STDOUT}
        code = run([*command, f"--junitxml={report}", *where], **how)
        if code is None:
            tally.add(name, failed=1, notes=[f"FAILED: not done after {SUITE_SECONDS} s"])
            return
        try:
            passed, failed, skipped, notes = count_junit(report)
        except (OSError, xml.etree.ElementTree.ParseError) as error:
            tally.add(name, failed=1, notes=[f"FAILED: pytest exit {code}, no report: {error}"])
            return
        if 0 < failed <= UNSTEADY_MAX and look_again([*command, *last_failed(scratch)], **how):
            passed, failed, code = passed + failed, 0, 0
            notes = [note.replace("FAILED", "UNSTEADY", 1) for note in notes]
        tally.add(name, passed, failed, skipped, notes)
        if code != 0 and failed == 0:
            tally.add(name, failed=1, notes=[f"FAILED: pytest exit {code}"])


def suite_mcp(build, tally):
    """The official programs are fetched first, beside what the other lanes do."""
    kit = pathlib.Path(os.environ.get("GB_MCP_KIT") or build / "mcp-kit").resolve()
    with tempfile.TemporaryFile() as shown:
        code = run([str(ROOT / "tools" / "mcp_kit.sh"), str(kit)], stdin=subprocess.DEVNULL,
                   stdout=shown, stderr=subprocess.STDOUT)
        if code != 0:
            show("what the MCP proofs need", shown)
            tally.add("MCP proofs", failed=1, notes=[f"FAILED: tools/mcp_kit.sh, exit {code}"])
            return
    pytest("MCP proofs", ["tests/mcp"], tally,
           env={"GLOVEBOX": str(build / "glovebox"), "GB_MCP_KIT": str(kit)})


# ---- an ordinary user, for a while ----


def free_uid():
    """An id that no account and no running process has."""
    used = {entry.pw_uid for entry in pwd.getpwall()}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            used.add(os.stat(f"/proc/{pid}").st_uid)
    return next(uid for uid in range(64001, 65000) if uid not in used)


PLACE = "/srv"  # where templates for tests are made: boxes have a /tmp of their own


def with_place(uid, wrap):
    """The words of @wrap in a private mount namespace where PLACE is a directory of @uid's own; as
    they are where there is none to be had."""
    if subprocess.run(["unshare", "--mount", "true"], stderr=subprocess.DEVNULL).returncode:
        return wrap
    script = f'mount -t tmpfs -o mode=0755,uid={uid},gid={uid} glovebox-test {PLACE} && exec "$@"'
    return ["unshare", "--mount", "--propagation=private", "sh", "-c", script, "sh", *wrap]


def setpriv(uid):
    return ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--inh-caps=-all"]


def with_subids(stage, uid):
    """The words that run a command as @uid with a name and subordinate ids; see the top."""
    lines = {
        "passwd": f"gbtest:x:{uid}:{uid}::{stage}/home:/bin/sh",
        "group": f"gbtest:x:{uid}:",
        "subuid": f"gbtest:{SUBID_START}:{SUBID_COUNT}",
        "subgid": f"gbtest:{SUBID_START}:{SUBID_COUNT}",
    }
    binds = []
    for name, line in lines.items():
        copy = stage / "etc" / name
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
    if subprocess.run(["unshare", "--mount", "true"], stderr=subprocess.DEVNULL).returncode:
        return "no mount namespace to be had"
    return None


def not_for_the_stage(folder, names):
    """What is no part of the sources: builds, caches, anything that is no file."""
    skip = {".git", "__pycache__", "build"} | {name for name in names if name.startswith("build-")}
    paths = {name: pathlib.Path(folder, name) for name in names}
    return skip | {name for name, path in paths.items()
                   if not (path.is_symlink() or path.is_dir() or path.is_file())}


@contextlib.contextmanager
def staged(binary, uid):
    """A copy of tree and binary that @uid can read, with a home of its own."""
    stage = pathlib.Path(tempfile.mkdtemp(prefix="glovebox-test-"))
    try:
        stage.chmod(0o755)
        (stage / "etc").mkdir()
        shutil.copytree(ROOT, stage / "tree", symlinks=True, ignore=not_for_the_stage)
        # A checkout made under a tight umask has to be readable all the same.
        subprocess.run(["chmod", "-R", "a+rX", stage / "tree"], check=True)
        shutil.copy2(binary, stage / "glovebox")
        (stage / "glovebox").chmod(0o755)
        for name in ("home", "tmp"):
            (stage / name).mkdir(mode=0o700)
            os.chown(stage / name, uid, uid)
        yield stage
    finally:
        shutil.rmtree(stage, ignore_errors=True)


def paths_of(suite, who, only):
    """The suite's folder, or those of its files that are asked for."""
    files = only or (SUBIDS_ONLY if who == "subids" else [])
    if who == "user" and not only:
        names = sorted(path.name for path in (ROOT / "tests" / suite).glob("test_*.py"))
        files = [name for name in names if name not in NOT_AS_USER]
    found = [f"tests/{suite}/{file}" for file in files if (ROOT / "tests" / suite / file).exists()]
    if who == "user" and not only:
        found = [path + test for path in found
                 for test in [f"::{name}" for name in AS_USER_ONLY.get(path.rpartition("/")[2], [])]
                 or [""]]
    return found or [f"tests/{suite}"]


def suite_binary(suite, who, build, only, tally):
    binary = build / "glovebox"
    name = f"{suite} tests as {who}"
    where = paths_of(suite, who, only)
    if who in ("root", "self"):
        pytest(name, where, tally, env={"GLOVEBOX": str(binary), "GB_AS": who})
        return
    reason = why_no_subids() if who == "subids" else None
    if reason:
        say(f"{name}: skipped, {reason}")
        tally.add(name, skipped=1, notes=[f"skipped: {reason}"])
        return
    uid = free_uid()
    with staged(binary, uid) as stage:
        wrap = with_place(uid, with_subids(stage, uid) if who == "subids" else setpriv(uid))
        env = {"GLOVEBOX": f"{stage}/glovebox", "GB_AS": who, "HOME": f"{stage}/home",
               "TMPDIR": f"{stage}/tmp", "USER": "gbtest", "LOGNAME": "gbtest"}
        pytest(name, where, tally, tree=stage / "tree", env=env, wrap=wrap,
               scratch=stage / "home")


# ---- all of it ----


def run_lanes(lanes):
    """Each lane in a thread of its own; the first exception is ours too."""
    with concurrent.futures.ThreadPoolExecutor() as pool:
        running = [pool.submit(lambda jobs=jobs: [job() for job in jobs]) for jobs in lanes]
        try:
            for lane in running:
                lane.result()
        except BaseException:
            stop_running()
            raise



def identities():
    return ["root", "user", "subids"] if os.geteuid() == 0 else ["self"]


def main():
    parser = argparse.ArgumentParser(description="runs the test suites and adds them up")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--as", dest="who", default=",".join(identities()),
                        help="of " + ", ".join(identities()) + " (default: all)")
    parser.add_argument("--only", help="files of the system or abuse suite (default: all)")
    parser.add_argument("--counts", type=pathlib.Path,
                        help="also write 'PASSED FAILED SKIPPED' to this file")
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=", ".join(SUITES))
    args = parser.parse_args()
    who = args.who.split(",")
    for word in args.suites:
        if word not in SUITES:
            parser.error(f"no suite '{word}'; there are {', '.join(SUITES)}")
    for word in who:
        if word not in identities():
            parser.error(f"cannot run as '{word}' here; can as {', '.join(identities())}")

    # A caller in the background or under nohup ignores signals that tests are about.
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    # So that a suite that is under way is killed and temporary directories are removed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))

    build, tally = args.build.resolve(), Tally()
    suites = args.suites or SUITES
    only = args.only.split(",") if args.only else []
    alone = {
        "unit": functools.partial(suite_unit, build, tally),
        "python": functools.partial(pytest, "Python unit tests", ["tests/unit"], tally,
                                    env={"GB_EXTENSION":
                                         str(build / "src/engine/_glovebox.so")}),
        "client": functools.partial(pytest, "client tests", ["clients/python"], tally,
                                    env={"GLOVEBOX": str(build / "glovebox")}),
        "mcp": functools.partial(suite_mcp, build, tally),
    }
    through_binary = [suite for suite in suites if suite in THROUGH_BINARY]
    lanes = [[alone[suite] for suite in suites if suite in alone and suite != "unit"]]
    for lane in (["root"], ["user", "subids", "self"]):
        lanes.append([functools.partial(suite_binary, suite, one, build, only, tally)
                      for suite in through_binary for one in who if one in lane])
    if "unit" in suites:
        alone["unit"]()  # some kill engines, and what those leave for a moment others would find
    run_lanes(lanes)

    say("summary")
    for note in tally.notes:
        print(note)
    if args.counts:
        args.counts.write_text(f"{tally.passed} {tally.failed} {tally.skipped}\n")
    print(tally.line(), flush=True)
    return 1 if tally.failed or not tally.passed else 0


if __name__ == "__main__":
    sys.exit(main())
