"""The report of a run of the suites: counts, notes, where the time went, and which tests were
unsteady."""

import datetime
import os
import pathlib
import shutil
import subprocess
import sys
import threading

ROOT = pathlib.Path(__file__).resolve().parents[2]
PRINTING = threading.Lock()
SLOWEST = 10

UNSTEADY_HEADER = """\
# Tests that failed and then passed three times in a row (see tests/run.py). Each is a fault to look
# for, in the test or in what it tests. Runs only append; delete the file when it has been dealt with.
# date\tcommit\tsuite\ttest\tuser
"""


def say(text):
    print(f"\n== {text}", flush=True)


def show(name, output):
    """Prints everything that a suite wrote to the file @output."""
    output.seek(0)
    with PRINTING:
        say(name)
        sys.stdout.flush()
        shutil.copyfileobj(output, sys.stdout.buffer)
        sys.stdout.flush()


class Tally:
    """Counts and notes of all suites; used by several threads."""

    def __init__(self):
        self.passed = self.failed = self.skipped = 0
        self.notes = []
        self.unsteady = []  # (suite, test, user)
        self.files = []  # (wall seconds, CPU seconds, name)
        self.tests = []  # (wall seconds, name)
        self._lock = threading.Lock()

    def add(self, suite, passed=0, failed=0, skipped=0, notes=()):
        with self._lock:
            self.passed += passed
            self.failed += failed
            self.skipped += skipped
            self.notes += [f"{suite}: {note}" for note in notes]

    def add_unsteady(self, suite, user, tests):
        with self._lock:
            self.passed += len(tests)
            self.notes += [f"{suite}: UNSTEADY {test}: {why}" for test, why in tests]
            self.unsteady += [(suite, test, user) for test, _ in tests]

    def add_costs(self, files=(), tests=()):
        with self._lock:
            self.files += files
            self.tests += tests

    def line(self):
        text = f"{self.passed} passed, {self.failed} failed"
        return text + (f", {self.skipped} skipped" if self.skipped else "")


def print_costs(tally):
    """The files and tests that took longest. CPU time is what counts when CI is slow: other suites
    run at the same time, and a test that waits costs them nothing."""
    say(f"the {SLOWEST} files that took most CPU time, of {sum(row[1] for row in tally.files):.0f} s")
    for wall, cpu, name in sorted(tally.files, key=lambda row: -row[1])[:SLOWEST]:
        print(f"{cpu:8.1f} s CPU {wall:8.1f} s  {name}")
    say(f"the {SLOWEST} slowest tests")
    for wall, name in sorted(tally.tests, reverse=True)[:SLOWEST]:
        print(f"{wall:8.1f} s  {name}")


def write_costs(tally, path, label):
    """Appends a line for each file: seconds, CPU seconds, name."""
    with open(path, "a", encoding="utf-8") as out:
        for wall, cpu, name in tally.files:
            out.write(f"{wall:.1f}\t{cpu:.1f}\t{label}{name}\n")


def unsteady_log():
    """The default file for unsteady tests."""
    state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return pathlib.Path(os.environ.get("GB_UNSTEADY_LOG") or f"{state}/glovebox/unsteady.log")


def commit():
    """The tested commit, with a + if the tree has been changed since."""
    said = subprocess.run(["git", "describe", "--always", "--exclude=*", "--dirty=+"], cwd=ROOT,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                          stderr=subprocess.DEVNULL) if shutil.which("git") else None
    return said.stdout.strip() if said and said.returncode == 0 else "unknown"


def write_unsteady(tally, path):
    """Appends a line for each unsteady test. It is not a failure if the log cannot be written."""
    if not tally.unsteady:
        return
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    lines = ["\t".join((now, commit(), suite, test, user)) + "\n"
             for suite, test, user in tally.unsteady]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "a", encoding="utf-8") as log:
            if log.tell() == 0:
                log.write(UNSTEADY_HEADER)
            log.writelines(lines)
    except OSError as error:
        print(f"cannot write unsteady tests to {path}: {error}")
        return
    print(f"{len(lines)} unsteady: written to {path}")
