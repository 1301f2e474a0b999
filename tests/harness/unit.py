"""The unit tests in C: cmocka programs, run through meson, counted from their TAP output."""

import json
import re
import resource
import subprocess
import tempfile
import time

from .postgres import for_c_tests
from .processes import run
from .pytests import SECOND_LOOKS, UNSTEADY_MAX
from .report import show


def count_tap(entry):
    """The counts of one entry of meson's log: (passed, failed, skipped, notes)."""
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
        # It died, hung or violated the protocol: that is a separate failure.
        notes.append(f"FAILED {name}: {entry['result']}, return code {entry.get('returncode')}")
        return len(results) - len(skipped), 1, len(skipped), notes
    passed = len(results) - len(skipped) - len(failed) if results else 1
    return passed, len(failed), len(skipped), notes


def meson_test(build, *names):
    return ["meson", "test", "-C", str(build), "--no-rebuild", "--print-errorlogs", *names]


def look_again(build, names):
    """Whether the tests @names pass each time now."""
    with tempfile.TemporaryFile() as shown, for_c_tests() as env:
        steady = all(run(meson_test(build, *names), env=env, stdout=shown, stderr=subprocess.STDOUT) == 0
                     for _ in range(SECOND_LOOKS))
        show("unit tests, once more", shown)
    return steady


def children_cpu():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def suite_unit(build, tally):
    """Must run alone: CPU time is counted over all children of this process."""
    log = build / "meson-logs" / "testlog.json"
    log.unlink(missing_ok=True)
    wall, cpu = time.monotonic(), children_cpu()
    with tempfile.TemporaryFile() as shown, for_c_tests() as env:
        code = run(meson_test(build), env=env, stdout=shown, stderr=subprocess.STDOUT)
        show("unit tests", shown)
    tally.add_costs([(time.monotonic() - wall, children_cpu() - cpu, "unit tests")])
    if not log.exists():
        tally.add("unit", failed=1, notes=[f"FAILED meson test: no log, exit {code}"])
        return
    entries = [json.loads(line) for line in log.read_text().splitlines() if line.strip()]
    tally.add_costs(tests=[(entry["duration"], f"unit: {entry['name']}") for entry in entries])
    failed = [entry for entry in entries if entry["result"] not in ("OK", "SKIP")]
    if 0 < len(failed) <= UNSTEADY_MAX and look_again(build, [entry["name"] for entry in failed]):
        tally.add_unsteady("unit", "self", [(entry["name"], entry["result"]) for entry in failed])
        entries = [entry for entry in entries if entry not in failed]
        code = 0
    before = tally.failed
    for entry in entries:
        tally.add("unit", *count_tap(entry))
    if not entries or (code != 0 and tally.failed == before):
        tally.add("unit", failed=1, notes=[f"FAILED meson test: exit {code}"])
