"""Which files belong to a suite, who runs them, and how they are split into jobs."""

import functools
import os
import pathlib
import subprocess
import tempfile

from .processes import run
from .pytests import Job
from .report import ROOT, say, show
from .users import why_no_subids

THROUGH_BINARY = ("system", "abuse")
# Run once, as the calling user, when tools/SUITE_kit.sh has installed what they need: suite -> title.
WITH_KIT = {"mcp": "MCP proofs", "browser": "browser tests"}
SUBIDS_ONLY = ["test_robust.py", "test_serve_files.py", "test_volumes.py", "test_template.py"]
# Nothing in these depends on who runs them.
NOT_AS_USER = ["test_docs.py", "test_cell.py", "test_dialects.py", "test_dialects_bad.py",
               "test_compat.py", "test_mcp.py", "test_mcp_bad_input.py", "test_key.py",
               "test_audit.py", "test_serve_api.py", "test_mark_models.py", "test_connector_rights.py",
               "test_connector_hostile.py", "test_bigquery.py", "test_bigquery_emulator.py",
               "test_mark_accounts.py", "test_mark_agent.py", "test_mark_bigquery.py", "test_mark_budgets.py",
               "test_mark_data.py", "test_mark_eval.py", "test_mark_export.py", "test_mark_http.py",
               "test_mark_mcp.py", "test_mark_verify.py", "test_mark_verify_command.py",
               "test_mark_verify_sources.py", "test_sources.py", "test_store_postgres.py"]
# Of these, the files that involve an ordinary user's mounts and ids.
AS_USER_ONLY = {
    "test_packages.py": ["test_live_session", "test_offline", "test_pruning", "test_two_at_once"],
    "test_template_packages.py": ["test_set", "test_layer_stays_as_long_as_it_is_named"],
}
# Of these the ones in which only Python and its libraries have a part are left out.
NOT_AS_USER_TESTS = {
    "test_run.py": ["test_libraries", "test_preload_variants", "test_preload_is_not_visible_as_names",
                    "test_random_numbers_differ_between_boxes", "test_seeded_random_numbers_repeat",
                    "test_options_from_the_environment", "test_no_progress_off_a_terminal",
                    "test_quiet_shows_no_progress"],
}
# Seconds that a file takes, roughly. The longest start first, and short ones share a process; a
# wrong number only costs time. `tests/run.py --costs FILE` measures them.
SECONDS = {
    "test_packages.py": 200, "test_abuse.py": 150, "test_robust.py": 130, "test_limits.py": 120,
    "test_run.py": 110, "test_template_packages.py": 100, "test_clients.py": 90, "test_cell.py": 55,
    "test_template.py": 40, "test_volumes.py": 30, "test_dialects.py": 28, "test_mcp.py": 20,
    "test_mcp_bad_input.py": 20, "test_mark_models.py": 25, "test_conformance.py": 20, "test_doctor.py": 15,
    "test_connector_postgres.py": 15, "test_connector_rights.py": 15, "test_connector_hostile.py": 20,
    "test_docs.py": 90, "test_mark_export.py": 60, "test_mark_sources.py": 45, "test_bigquery.py": 30,
    "test_bigquery_emulator.py": 15, "test_mark_bigquery.py": 25, "test_store_postgres.py": 30, "test_mark_budgets.py": 20, "test_sources.py": 20,
    "test_mark_data.py": 25, "test_mark_directories.py": 20, "test_network.py": 15, "test_bad_input.py": 14, "test_key.py": 5,
    "test_compat.py": 2, "test_page_axe.py": 100, "test_page_play.py": 60, "test_page_admin.py": 45, "test_page_xss.py": 60,
    "test_page_mark.py": 40, "test_page_large.py": 60, "test_page_network.py": 50, "test_page_docs.py": 20,
    "test_page_two_users.py": 20,
}
ALONE_FROM = 40  # a file this long is a separate job
JOB_SECONDS = 60  # several files together take no longer


def seconds_of(path):
    return SECONDS.get(pathlib.Path(path).name, 10)


def files_of(suite, who, only):
    """[[arguments of pytest for one file]]: the suite's files, or those requested."""
    folder = f"tests/{suite}"
    have = sorted(path.name for path in (ROOT / folder).glob("test_*.py"))
    asked = [name for name in only if (ROOT / folder / name).exists()]
    if asked or only:
        return [[f"{folder}/{name}"] for name in asked or have]
    if who == "subids":
        have = [name for name in have if name in SUBIDS_ONLY] or have
    if who == "user":
        have = [name for name in have if name not in NOT_AS_USER]
        return [[f"{folder}/{name}::{test}" for test in AS_USER_ONLY.get(name, [])]
                or [f"{folder}/{name}", *(f"--deselect={folder}/{name}::{test}"
                                          for test in NOT_AS_USER_TESTS.get(name, []))]
                for name in have]
    return [[f"{folder}/{name}"] for name in have]


def cut(files):
    """[(seconds, [arguments of pytest])]: long files alone, the others several per process, since
    each process of pytest takes half a second to start."""
    weighed = sorted(((seconds_of(file[0].partition("::")[0]), file) for file in files),
                     key=lambda pair: -pair[0])
    cuts = []
    for seconds, file in weighed:
        for i, (sum_of, together) in enumerate(cuts):
            if seconds < ALONE_FROM and sum_of + seconds <= JOB_SECONDS:
                cuts[i] = (sum_of + seconds, together + file)
                break
        else:
            cuts.append((seconds, list(file)))
    return cuts


def binary_jobs(suite, who, build, only, stage, tally):
    """Jobs of a suite that runs through the binary, as one kind of user."""
    name = f"{suite} tests as {who}"
    reason = why_no_subids() if who == "subids" else None
    if reason:
        say(f"{name}: skipped, {reason}")
        tally.add(name, skipped=1, notes=[f"skipped: {reason}"])
        return []
    how = {"env": {"GLOVEBOX": str(build / "glovebox"), "GB_AS": who}}
    if who not in ("root", "self"):
        how = {"prepare": functools.partial(stage.user, who)}
    return [Job(name, where, user=who, weight=seconds, **how)
            for seconds, where in cut(files_of(suite, who, only))]


def plain_jobs(suite, build):
    """Jobs of the suites that are run once, as the calling user."""
    if suite == "python":
        return [Job("Python unit tests", ["tests/unit"], weight=20,
                    env={"GB_EXTENSION": str(build / "src/engine/_glovebox.so")})]
    env = {"GLOVEBOX": str(build / "glovebox")}
    return [Job("client tests", ["clients/python"], weight=100, env=env)]


def default_kit(suite):
    """Where the programs that a suite needs are installed: outside of the build, so that the next
    build finds them, in a directory for each set of pins."""
    if os.environ.get(f"GB_{suite.upper()}_KIT"):
        return pathlib.Path(os.environ[f"GB_{suite.upper()}_KIT"]).resolve()
    named = subprocess.run([str(ROOT / "tools" / f"{suite}_kit.sh"), "--where"],
                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=True)
    return pathlib.Path(named.stdout.strip())


def kit_jobs(suite, build, only, queue, tally, jobs):
    """Installs the programs of a suite of WITH_KIT in the background; then adds its jobs to the queue
    and to @jobs."""
    title = WITH_KIT[suite]
    try:
        kit = default_kit(suite)
        with tempfile.TemporaryFile() as shown:
            code = run([str(ROOT / "tools" / f"{suite}_kit.sh"), str(kit)], stdin=subprocess.DEVNULL,
                       stdout=shown, stderr=subprocess.STDOUT)
            if code != 0:
                show(f"installing what the {title} need", shown)
                tally.add(title, failed=1, notes=[f"FAILED: tools/{suite}_kit.sh, exit {code}"])
                return
        env = {"GLOVEBOX": str(build / "glovebox"), f"GB_{suite.upper()}_KIT": str(kit)}
        ready = [Job(title, where, weight=seconds, env=env)
                 for seconds, where in cut(files_of(suite, "self", only))]
        jobs += ready
        queue.add(ready)
    finally:
        queue.arrived()
