"""Cells of a session against Jupyter's kernel: tests/notebook has the probes and what ipykernel answered."""

import json
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "notebook"))

import compare  # noqa: E402
from accepted import ACCEPTED  # noqa: E402
from probes import GROUPS  # noqa: E402
from serve_kit import serve  # noqa: E402, F401

GRADES = ("better", "same", "missing")


def needs_of(group):
    return {probe[2] for probe in GROUPS[group] if len(probe) > 2}


@pytest.fixture(scope="module")
def machine():
    """What the sessions have, told by the first one."""
    return {}


@pytest.fixture
def session(serve, machine):  # noqa: F811
    server = serve(preload="all")
    if not machine:
        code = ("import importlib.util, IPython\n"
                "print(IPython.version_info[0], *[n for n in %r if importlib.util.find_spec(n)])" %
                (sorted(set().union(*map(needs_of, GROUPS))),))
        receipt = server.run(server.session(), code)
        assert receipt["status"] == "ok", receipt
        major, *modules = receipt["stdout"].split()
        machine.update(major=int(major), modules=set(modules))
    return server


def test_probes(session, machine):
    """Each probe is the same, or different as accepted."""
    recorded = compare.load(machine["major"])
    bad, counts = [], dict.fromkeys(("equal", "not here", *GRADES), 0)
    for group, probes in GROUPS.items():
        name = session.session()
        for probe, cells, *needs in probes:
            if not machine["modules"].issuperset(needs):
                counts["not here"] += 1
                continue
            answers = [compare.session_answer(session.run(name, cell)) for cell in cells]
            found = [compare.differences(*pair) for pair in zip(answers, recorded[probe])]
            if not any(found):
                counts["equal"] += 1
            elif probe in ACCEPTED and ACCEPTED[probe][2] in json.dumps(answers, ensure_ascii=False):
                counts[ACCEPTED[probe][0]] += 1
            else:
                bad.append((group, probe, found))
        session.good("DELETE", "/v1/sessions/" + name, status=204)
    assert not bad, "\n".join(map(repr, bad))
    good = sum(counts[grade] for grade in ("equal", "better", "same"))
    assert good >= 0.93 * (good + counts["missing"]), counts


def test_lists():
    """Every probe is recorded, and every difference is one of a probe and has a reason."""
    names = [probe[0] for probes in GROUPS.values() for probe in probes]
    assert len(set(names)) == len(names)
    assert set(ACCEPTED) <= set(names)
    for grade, reason, text in ACCEPTED.values():
        assert grade in GRADES and reason and text
    for major in (8, 9):
        assert set(compare.load(major)) == set(names)
