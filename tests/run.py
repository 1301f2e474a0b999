#!/usr/bin/python3
"""Runs the test suites and adds them up; the last line is `N passed, N failed`.

Suites: unit (cmocka programs, through meson), python (pytest over tests/unit), client (pytest over
clients/python, against services of the built binary), mcp (pytest over tests/mcp: the official
conformance suite and clients, which tools/mcp_kit.sh installs to a cache directory, or to
GB_MCP_KIT), browser (pytest over tests/browser: the page in Chromium, driven by what
tools/browser_kit.sh installs, or by GB_BROWSER_KIT), system and abuse (pytest, through the built
binary, named to them in GLOVEBOX).
System and abuse suites are run once for each kind of user that this one can become:

  self     an ordinary user: whoever called.
  root     root itself; boxes get host ids of their own.
  user     a throwaway id without a passwd entry: an ordinary user for whom newuidmap does nothing,
           so boxes share one id. setpriv drops everything that root had.
  subids   such an id with a name and a range of subordinate ids, written to copies of files of /etc
           that only this suite sees. Of the system tests only those in which ids matter are run:
           files, processes, what dies and what stays.

After the unit tests the files of all suites go into one queue, longest first, for two workers more
than there are processors, since a test waits for about half of its time. Output is shown when a job
is done. At the end come the files that took most CPU time.

A test may fail because others ran beside it on a machine that stalled. When no more than three of a
suite did, those are run again at the end, three times. A test that passes each time counts as passed
and is named in the summary as UNSTEADY, which is a fault to look for, in the test or in what it
tests. It is also written to a log that every run appends to: one line per event with date, commit,
suite, test and user. The log is ~/.local/state/glovebox/unsteady.log (XDG_STATE_HOME is honoured);
--unsteady-log or GB_UNSTEADY_LOG name another file.
"""
import argparse
import functools
import os
import pathlib
import signal
import sys

from harness.pytests import judge
from harness.queue import Queue, run_all
from harness.report import (ROOT, Tally, print_costs, say, unsteady_log, write_costs,
                            write_unsteady)
from harness.suites import THROUGH_BINARY, WITH_KIT, binary_jobs, kit_jobs, plain_jobs
from harness.unit import suite_unit
from harness.users import Stage

SUITES = ("unit", "python", "client", *WITH_KIT, *THROUGH_BINARY)


def identities():
    return ["root", "user", "subids"] if os.geteuid() == 0 else ["self"]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build",
                        help="the build directory (default: build)")
    parser.add_argument("--as", dest="who", default=",".join(identities()),
                        help="of " + ", ".join(identities()) + " (default: all)")
    parser.add_argument("--only", help="files of the system, abuse, mcp or browser suite (default: all)")
    parser.add_argument("--jobs", type=int, default=(os.cpu_count() or 1) + 2, metavar="N",
                        help="how many at the same time (default: two more than processors)")
    parser.add_argument("--counts", type=pathlib.Path,
                        help="also write 'PASSED FAILED SKIPPED' to this file")
    parser.add_argument("--costs", type=pathlib.Path,
                        help="append a line for each test file to this file: seconds, CPU seconds, name")
    parser.add_argument("--unsteady-log", type=pathlib.Path, default=unsteady_log(), metavar="FILE",
                        help="append tests that were UNSTEADY to this file (default: %(default)s)")
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=", ".join(SUITES))
    args = parser.parse_args()
    args.who = args.who.split(",")
    for word in args.suites:
        if word not in SUITES:
            parser.error(f"no suite '{word}'; there are {', '.join(SUITES)}")
    for word in args.who:
        if word not in identities():
            parser.error(f"cannot run as '{word}' here; can as {', '.join(identities())}")
    if args.jobs < 1:
        parser.error("--jobs must be at least 1")
    return args


def handle_signals():
    # A caller in the background or under nohup ignores signals that tests are about.
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    # So that a suite that is under way is killed and temporary directories are removed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))


def run_suites(args, suites, tally):
    build, only = args.build.resolve(), args.only.split(",") if args.only else []
    stage, queue, jobs, others = Stage(build / "glovebox"), Queue(), [], []
    if "unit" in suites:
        suite_unit(build, tally)  # some kill engines, whose leftovers others would find for a moment
    for suite in suites:
        if suite in THROUGH_BINARY:
            for who in args.who:
                jobs += binary_jobs(suite, who, build, only, stage, tally)
        elif suite in WITH_KIT:
            queue.expect()
            others.append(functools.partial(kit_jobs, suite, build, only, queue, tally, jobs))
        elif suite != "unit":
            jobs += plain_jobs(suite, build)
    queue.add(jobs)
    try:
        run_all(queue, args.jobs, tally, *others)
        judge(jobs, tally)
    finally:
        for job in jobs:
            job.close()
        stage.close()


def main():
    args, tally = arguments(), Tally()
    handle_signals()
    run_suites(args, args.suites or SUITES, tally)
    print_costs(tally)
    if args.costs:
        write_costs(tally, args.costs, f"{args.build.name}: ")
    say("summary")
    for note in tally.notes:
        print(note)
    write_unsteady(tally, args.unsteady_log)
    if args.counts:
        args.counts.write_text(f"{tally.passed} {tally.failed} {tally.skipped}\n")
    print(tally.line(), flush=True)
    return 1 if tally.failed or not tally.passed else 0


if __name__ == "__main__":
    sys.exit(main())
