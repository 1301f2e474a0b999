"""A plugin for pytest: wall-clock and CPU time of each test file.

GB_COSTS names the file that gets one JSON object per test file. CPU time is that of the test process
and of all its children that have ended by then, user and system together. A server that a test leaves
to a fixture is added to the test in which it ends, which is why files are counted, not tests.
"""

import json
import os
import resource
import time


def cpu_seconds():
    whose = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(used.ru_utime + used.ru_stime for used in map(resource.getrusage, whose))


class Costs:
    def __init__(self):
        self.files = {}
        self.wall, self.cpu = time.monotonic(), 0.0  # start-up and imports are part of the first file

    def add(self, *names):
        wall, cpu = time.monotonic(), cpu_seconds()
        for name in names:
            entry = self.files.setdefault(name, {"wall": 0.0, "cpu": 0.0, "tests": 0})
            entry["wall"] += wall - self.wall
            entry["cpu"] += cpu - self.cpu
            entry["tests"] += 1
        self.wall, self.cpu = wall, cpu


COSTS = Costs()


def pytest_runtest_logfinish(nodeid):
    COSTS.add(nodeid.partition("::")[0], *[nodeid] if os.environ.get("GB_COSTS_TESTS") else [])


def pytest_unconfigure():
    if os.environ.get("GB_COSTS"):
        with open(os.environ["GB_COSTS"], "w", encoding="utf-8") as out:
            json.dump(COSTS.files, out)
