"""The parts of tests/run.py that decide what is run, what counts, and what is written down."""

import pathlib
import threading

import pytest

from harness import pytests, report, suites
from harness.pytests import Failure, Job, judge, read_junit
from harness.queue import Queue, run_all
from harness.report import ROOT, Tally, write_costs, write_unsteady

SYSTEM = {path.name for path in (ROOT / "tests/system").glob("test_*.py")}


def names(files):
    return {pathlib.Path(file[0].partition("::")[0]).name for file in files}


def test_every_file_is_in_a_job():
    assert names(suites.files_of("system", "root", [])) == SYSTEM
    assert names(suites.files_of("system", "self", [])) == SYSTEM
    assert names(suites.files_of("system", "user", [])) == SYSTEM - set(suites.NOT_AS_USER)
    assert names(suites.files_of("system", "subids", [])) == set(suites.SUBIDS_ONLY)
    for who in ("root", "user", "subids", "self"):
        assert names(suites.files_of("abuse", who, [])) == {"test_abuse.py"}


def test_every_name_in_the_lists_exists():
    listed = {*suites.NOT_AS_USER, *suites.SUBIDS_ONLY, *suites.AS_USER_ONLY,
              *suites.NOT_AS_USER_TESTS}
    assert listed <= SYSTEM
    everywhere = {path.name for path in (ROOT / "tests").glob("*/test_*.py")}
    assert set(suites.SECONDS) <= everywhere
    for name, tests in [*suites.AS_USER_ONLY.items(), *suites.NOT_AS_USER_TESTS.items()]:
        text = (ROOT / "tests/system" / name).read_text()
        assert all(f"\ndef {test}(" in text for test in tests)


def test_only():
    assert suites.files_of("system", "user", ["test_key.py"]) == [["tests/system/test_key.py"]]
    # A suite without such a file is run whole.
    assert names(suites.files_of("abuse", "user", ["test_key.py"])) == {"test_abuse.py"}


@pytest.mark.parametrize("who", ("root", "user"))
def test_cut_loses_nothing(who):
    files = suites.files_of("system", who, [])
    cuts = suites.cut(files)
    told = [word for _, where in cuts for word in where]
    assert sorted(told) == sorted(word for file in files for word in file)
    assert all(seconds <= suites.JOB_SECONDS or len({word.partition("::")[0] for word in where
                                                       if not word.startswith("-")}) == 1
               for seconds, where in cuts)


def test_cut_of_one_file_is_one_job():
    assert [where for _, where in suites.cut([["a::x", "a::y"]])] == [["a::x", "a::y"]]


REPORT = """<testsuites><testsuite>
<testcase classname="a" name="good" time="1.5"/>
<testcase classname="a" name="bad"><failure message="first\nsecond">text</failure></testcase>
<testcase classname="a" name="broken"><error message="">text</error></testcase>
<testcase classname="a" name="not here"><skipped message="no zsh"/></testcase>
</testsuite></testsuites>"""


def test_report_of_pytest(tmp_path):
    (tmp_path / "report.xml").write_text(REPORT)
    passed, failures, skipped, seconds = read_junit(tmp_path / "report.xml")
    assert passed == 1
    assert [failure.name for failure in failures] == ["a.bad", "a.broken"]
    assert skipped == ["skipped a.not here: no zsh"]
    assert (1.5, "a.good") in seconds and len(seconds) == 4


class Pretended(Job):
    """A job that has run, and passes or fails when looked at again."""

    def __init__(self, suite, failures, steady):
        super().__init__(suite, ["x"], user="root")
        self.failures = [Failure(f"t{i}", "why") for i in range(failures)]
        self.steady, self.looks = steady, 0

    def look_again(self):
        self.looks += 1
        return self.steady


def test_few_failures_get_a_second_look():
    tally, jobs = Tally(), [Pretended("s", 1, True), Pretended("s", 2, False), Pretended("t", 0, True)]
    judge(jobs, tally)
    assert (tally.passed, tally.failed) == (1, 2)
    assert tally.unsteady == [("s", "t0", "root")]
    assert "s: UNSTEADY t0: why" in tally.notes
    assert jobs[2].looks == 0


def test_many_failures_are_failures():
    """Counted over the whole suite, not job by job."""
    tally, jobs = Tally(), [Pretended("s", 2, True), Pretended("s", pytests.UNSTEADY_MAX - 1, True)]
    judge(jobs, tally)
    assert (tally.passed, tally.failed) == (0, pytests.UNSTEADY_MAX + 1)
    assert tally.unsteady == [] and [job.looks for job in jobs] == [0, 0]


def test_unsteady_log_is_appended_to(tmp_path):
    tally, log = Tally(), tmp_path / "state" / "unsteady.log"
    write_unsteady(tally, log)
    assert not log.exists()
    tally.add_unsteady("s", "root", [("t1", "why"), ("t2", "why")])
    write_unsteady(tally, log)
    write_unsteady(tally, log)
    lines = log.read_text().splitlines()
    events = [line.split("\t") for line in lines if not line.startswith("#")]
    assert len(lines) == len(events) + report.UNSTEADY_HEADER.count("\n")
    assert [event[2:] for event in events] == 2 * [["s", "t1", "root"], ["s", "t2", "root"]]
    assert all(len(event) == 5 and event[0].endswith("Z") and event[1] for event in events)


def test_unsteady_log_that_cannot_be_written(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    tally = Tally()
    tally.add_unsteady("s", "root", [("t", "why")])
    write_unsteady(tally, tmp_path / "file" / "unsteady.log")
    assert "cannot write" in capsys.readouterr().out


def test_where_the_log_is(monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    monkeypatch.delenv("GB_UNSTEADY_LOG", raising=False)
    assert report.unsteady_log() == pathlib.Path("/state/glovebox/unsteady.log")
    monkeypatch.setenv("GB_UNSTEADY_LOG", "/elsewhere")
    assert report.unsteady_log() == pathlib.Path("/elsewhere")


def test_costs(tmp_path):
    tally = Tally()
    tally.add_costs([(2.0, 1.0, "a")])
    write_costs(tally, tmp_path / "costs", "build: ")
    write_costs(tally, tmp_path / "costs", "other: ")
    assert (tmp_path / "costs").read_text() == "2.0\t1.0\tbuild: a\n2.0\t1.0\tother: a\n"


class Step:
    def __init__(self, weight, done, fails=False):
        self.weight, self.done, self.fails = weight, done, fails

    def run(self, tally):
        if self.fails:
            raise RuntimeError("broken")
        self.done.append(self.weight)


def test_longest_first():
    queue, done = Queue(), []
    queue.add([Step(weight, done) for weight in (1, 3, 2)])
    run_all(queue, 1, None)
    assert done == [3, 2, 1]


def test_workers_wait_for_what_comes_later():
    queue, done = Queue(), []
    queue.expect()

    def later():
        queue.add([Step(7, done)])
        queue.arrived()

    run_all(queue, 2, None, later)
    assert done == [7]


def test_exception_ends_all(monkeypatch):
    stopped = threading.Event()
    monkeypatch.setattr("harness.queue.stop_running", stopped.set)
    queue, done = Queue(), []
    queue.expect()  # nobody brings it: only the exception lets the workers go
    queue.add([Step(1, done, fails=True)])
    with pytest.raises(RuntimeError):
        run_all(queue, 2, None)
    assert stopped.is_set()
