"""Jobs of pytest: some files of a suite, as one kind of user."""

import collections
import contextlib
import json
import os
import pathlib
import subprocess
import tempfile
import time
import xml.etree.ElementTree

from .processes import SUITE_SECONDS, run
from .report import ROOT, show

PYTHON = "/usr/bin/python3"
UNSTEADY_MAX = 3  # more than that in one suite is not a coincidence
SECOND_LOOKS = 3

Failure = collections.namedtuple("Failure", "name why")


def read_junit(path):
    """(number of passed tests, [Failure], [note of a skipped test], [(seconds, test)])"""
    passed, failures, skipped, seconds = 0, [], [], []
    for case in xml.etree.ElementTree.parse(path).iter("testcase"):
        name = f"{case.get('classname')}.{case.get('name')}"
        seconds.append((float(case.get("time") or 0), name))
        bad = case.find("failure") if case.find("failure") is not None else case.find("error")
        skip = case.find("skipped")
        if bad is not None:
            first = (bad.get("message") or "").strip().splitlines()
            failures.append(Failure(name, first[0] if first else ""))
        elif skip is not None:
            skipped.append(f"skipped {name}: {skip.get('message')}")
        else:
            passed += 1
    return passed, failures, skipped, seconds


class Job:
    """Runs @where of @tree, prefixed with the command @wrap. Jobs with a larger @weight start
    first. @prepare, if given, returns more keywords (tree, env, wrap, scratch) when the job
    starts."""

    def __init__(self, suite, where, *, user="self", weight=0, tree=ROOT, env=None, wrap=(),
                 scratch=None, prepare=None):
        self.suite, self.where, self.user, self.weight = suite, where, user, weight
        self._how = {"tree": tree, "env": env or {}, "wrap": wrap, "scratch": scratch}
        self._prepare = prepare
        self._stack = contextlib.ExitStack()
        self.failures = []  # may still pass when repeated

    def title(self):
        """The suite, and the files of it that this job runs."""
        files = dict.fromkeys(pathlib.Path(path.partition("::")[0]).name for path in self.where)
        return f"{self.suite}: {' '.join(files)}"

    def close(self):
        self._stack.close()

    def _set_up(self):
        if self._prepare:
            self._how.update(self._prepare())
        if self._how["scratch"] is None:
            self._how["scratch"] = self._stack.enter_context(
                tempfile.TemporaryDirectory(prefix="glovebox-test-"))

    def _pytest(self, where, shown):
        tree, scratch = self._how["tree"], self._how["scratch"]
        command = [*self._how["wrap"], PYTHON, "-m", "pytest", "-q", "-rs", "-p", "harness.costs",
                   "-o", f"cache_dir={scratch}/pytest", "-o", "faulthandler_timeout=120",
                   f"--rootdir={tree}", f"--junitxml={scratch}/report.xml"]
        environment = dict(os.environ, PYTHONDONTWRITEBYTECODE="1",
                           PYTHONPATH=f"{tree}/runner:{tree}/tests", GB_COSTS=f"{scratch}/costs.json",
                           **self._how["env"])
        pathlib.Path(scratch, "report.xml").unlink(missing_ok=True)
        return run([*command, *where], cwd=tree, env=environment, stdin=subprocess.DEVNULL,
                   stdout=shown, stderr=subprocess.STDOUT)

    def run(self, tally):
        self._set_up()
        start = time.monotonic()
        with tempfile.TemporaryFile() as shown:
            code = self._pytest(self.where, shown)
            show(f"{self.title()} ({time.monotonic() - start:.0f} s)", shown)
        if code is None:
            tally.add(self.suite, failed=1, notes=[f"FAILED: not done after {SUITE_SECONDS} s"])
            return
        try:
            passed, failures, skipped, seconds = read_junit(f"{self._how['scratch']}/report.xml")
        except (OSError, xml.etree.ElementTree.ParseError) as error:
            tally.add(self.suite, failed=1,
                      notes=[f"FAILED: pytest exit {code}, no report: {error}"])
            return
        self.failures = failures
        tally.add(self.suite, passed, 0, len(skipped), skipped)
        tally.add_costs(self._costs(), [(wall, f"{self.suite}: {name}") for wall, name in seconds])
        if code != 0 and not failures:
            tally.add(self.suite, failed=1, notes=[f"FAILED: pytest exit {code}"])

    def _costs(self):
        with contextlib.suppress(OSError, ValueError):
            costs = json.loads(pathlib.Path(self._how["scratch"], "costs.json").read_text())
            return [(cost["wall"], cost["cpu"], f"{self.suite}: {pathlib.Path(file).name}")
                    for file, cost in costs.items()]
        return []

    def look_again(self):
        """Whether the failed tests pass each time now."""
        # As pytest names them; the report does not.
        names = json.loads(pathlib.Path(self._how["scratch"],
                                        "pytest/v/cache/lastfailed").read_text())
        with tempfile.TemporaryFile() as shown:
            steady = all(self._pytest(list(names), shown) == 0 for _ in range(SECOND_LOOKS))
            show(f"{self.suite}, once more", shown)
        return steady


def judge(jobs, tally):
    """Counts the failures of @jobs, after repeating them if a suite had only a few."""
    suites = collections.defaultdict(list)
    for job in jobs:
        if job.failures:
            suites[job.suite].append(job)
    for suite, failed in suites.items():
        few = sum(len(job.failures) for job in failed) <= UNSTEADY_MAX
        for job in failed:
            if few and job.look_again():
                tally.add_unsteady(suite, job.user, job.failures)
                continue
            tally.add(suite, failed=len(job.failures),
                      notes=[f"FAILED {name}: {why}" for name, why in job.failures])
