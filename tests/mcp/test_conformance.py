"""
The official conformance suite against the service, on the wire of both revisions.

The suite runs once for each revision; each of its scenarios is a test here. It knows a server by
fixtures of its own (tools, prompts and resources that it calls), which mcp_fixture_server (fixtures/)
registers beside the real ones: it is the product's server otherwise. What a revision requires must pass, and so must what it reports without requiring
it, but for extensions: of those we offer none.
"""

import json
import os
import re

import pytest

from conftest import ROOT, need
from mcp_kit import FIXTURE_SERVER, KIT, NODE, kit, run, service  # noqa: F401

SUITE = os.path.join(KIT, "node", "node_modules", "@modelcontextprotocol", "conformance")
REVISIONS = ("2025-11-25", "2026-07-28")
SCENARIO_MS = "180000"  # only ends what hangs
DOCUMENT = os.path.join(ROOT, "docs", "MCP.md")

# (revision, scenario) -> why it fails. One that passes must leave this list.
EXPECTED_FAILURES = {}


def scenarios(revision):
    """[(scenario, reason for which it is not required, or None)] of what is asked of a server."""
    path = os.path.join(SUITE, "requirements", revision + ".yaml")
    if not os.path.exists(path):
        return []  # no kit: the fixture says so
    with open(path, encoding="utf-8") as f:
        text = f.read()
    required = re.search(r"^server:\n((?:  - .*\n)+)", text, re.M)[1]
    found = [(name, None) for name in re.findall(r"- (\S+)", required)]
    entry = r"- scenario: (\S+)\n    leg: server\n    reason: (\S+)"
    others = re.findall(entry, text.partition("\nnot_scored:")[2])
    return found + [(name, reason) for name, reason in others if reason != "extension"]


ALL = [(revision, *one) for revision in REVISIONS for one in scenarios(revision)]


class Results:
    def __init__(self, code, out, folder):
        self.code, self.out = code, out
        self.checks = {}  # scenario -> its checks
        for name in os.listdir(folder) if os.path.isdir(folder) else []:
            scenario = re.fullmatch(r"server-(.*)-\d{4}-\d\d-\d\dT[\d-]+Z", name)[1]
            with open(os.path.join(folder, name, "checks.json"), encoding="utf-8") as f:
                self.checks[scenario] = json.load(f)

    def count(self, status, names):
        return sum(c["status"] == status for name in names for c in self.checks.get(name, []))

    def failed(self, scenario):
        return [c for c in self.checks[scenario] if c["status"] == "FAILURE"]


@pytest.fixture(scope="module")
def server():
    need(os.access(FIXTURE_SERVER, os.X_OK), "no mcp_fixture_server: build with -Dtests=enabled")
    with service(binary=FIXTURE_SERVER) as running:
        yield running


@pytest.fixture(scope="module")
def results(server, tmp_path_factory):
    found = {}

    def of(revision):
        if revision not in found:
            folder = tmp_path_factory.mktemp("conformance") / revision
            code, out, err = run([NODE, os.path.join(SUITE, "dist", "index.js"), "server",
                                  "--url", server.url + "/mcp", "--requirements", revision,
                                  "--timeout", SCENARIO_MS, "-o", str(folder)],
                                 cwd=str(folder.parent))
            found[revision] = Results(code, out + err, str(folder))
        return found[revision]

    return of


@pytest.mark.parametrize("revision,scenario", [one[:2] for one in ALL],
                         ids=[f"{one[0]}-{one[1]}" for one in ALL])
def test_scenario(results, revision, scenario):
    found = results(revision)
    assert found.checks.get(scenario), found.out[-3000:]
    failed = found.failed(scenario)
    if (revision, scenario) in EXPECTED_FAILURES:
        assert failed, "it passes: take it off EXPECTED_FAILURES"
        return
    told = [{k: c.get(k) for k in ("id", "description", "errorMessage", "details")} for c in failed]
    assert not failed, json.dumps(told, indent=1)[:4000]


@pytest.mark.parametrize("revision", REVISIONS)
def test_revision(results, revision):
    """The suite's own verdict."""
    found = results(revision)
    required = [name for name, reason in scenarios(revision) if reason is None]
    if not any((revision, name) in EXPECTED_FAILURES for name in required):
        assert found.code == 0, found.out[-3000:]
    assert len(required) >= 30 and set(required) <= set(found.checks)


def rows(results):
    """The summary's lines, as docs/MCP.md has them."""
    made = []
    for revision in REVISIONS:
        found = results(revision)
        required = [name for name, reason in scenarios(revision) if reason is None]
        others = [name for name, reason in scenarios(revision) if reason is not None]
        passed = [name for name in required if name in found.checks and not found.failed(name)]
        more = [name for name in others if name in found.checks and not found.failed(name)]
        made.append(f"| {revision} | {len(passed)} of {len(required)} "
                    f"| {found.count('SUCCESS', required)} passed, "
                    f"{found.count('FAILURE', required)} failed "
                    f"| {len(more)} of {len(others)} |")
    return made


def test_summary_in_the_document(results):
    with open(DOCUMENT, encoding="utf-8") as f:
        lines = f.read().splitlines()
    with open(os.path.join(SUITE, "package.json"), encoding="utf-8") as f:
        version = json.load(f)["version"]
    assert any(version in line for line in lines)
    for row in rows(results):
        assert row in lines, "docs/MCP.md should have:\n" + "\n".join(rows(results))
    for _, name in EXPECTED_FAILURES:
        assert any(f"`{name}`" in line for line in lines), name
