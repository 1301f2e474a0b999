"""`glovebox doctor`: what it says must be what is so, as root and as an ordinary user."""

import json
import os
import pty
import re
import select
import shutil
import subprocess
import time

import pytest
from conftest import need

STATES = {"active", "missing", "off", "failed"}
MAY_BE_MISSING = {"ids", "landlock", "landlock_scope", "cgroups", "swap", "cpu_share", "packages",
                  "workspace_quota", "machine", "locales"}  # fmt: skip
WALLS = {
    "box", "user_namespace", "ids", "namespaces", "capabilities", "no_new_privs", "seccomp",
    "system_calls", "host_files", "read_only", "proc", "devices", "descriptors", "init", "network",
    "landlock", "landlock_scope",
}  # fmt: skip
LIMITS = {
    "cgroups", "memory", "swap", "processes", "cpu_share", "cpu_time", "wall_time", "leftovers",
    "disk", "inodes", "workspace_quota", "file_size", "output", "machine",
}  # fmt: skip


def report_of(result):
    assert result.err == "" and result.receipt is not None, (result.out[:2000], result.err)
    return result.receipt


def checks_of(report):
    return {check["name"]: check for check in report["checks"]}


@pytest.fixture(scope="module")
def kept():
    return []


@pytest.fixture
def report(gb, kept):
    """Of this host as it is; made once, for all tests that only read it."""
    if not kept:
        r = gb("doctor", "--json")
        assert r.code == 0, r.out
        kept.append(report_of(r))
    return kept[0]


# ---- models ------------------------------------------------------------------------------------


def test_models(gb, tmp_path):
    """Where each comes from and whether its server is there, and never a key."""
    (tmp_path / "script").write_text("[]")
    (tmp_path / "key").write_text("sk-very-secret\n")
    (tmp_path / "key").chmod(0o600)
    options = ["--model", f"big=script:{tmp_path / 'script'}",
               "--model", "gone=openai:gpt-x@http://127.0.0.1:9/v1",
               "--model-key", f"gone={tmp_path / 'key'}", "--model", "none"]
    models = report_of(gb("doctor", "--json", *options))["models"]
    assert [(m["name"], m["provider"], m["reachable"]) for m in models] == [
        ("big", "script", True), ("gone", "openai", False)]
    assert models[1]["reason"] and models[1]["source"] == "--model"
    assert "secret" not in json.dumps(models)


def test_a_bad_model_is_told_and_nothing_else_is_lost(gb):
    r = gb("doctor", "--model", "x=openai:nonsense@ftp://y")
    assert r.code == 0 and "glovebox: models: " in r.err and "Code is isolated here" in r.out


# ---- a host that works -------------------------------------------------------------------------


def test_schema(report):
    assert set(report) == {"isolated", "checks", "host", "models", "store"} and report["isolated"] is True
    assert [c["name"] for c in report["checks"]] == list(checks_of(report)), "a name twice"
    assert set(checks_of(report)) == WALLS | LIMITS | {"python", "packages", "locales"}
    for check in report["checks"]:
        assert set(check) == {"name", "group", "state", "required", "reason", "cure"}
        assert check["state"] in STATES and isinstance(check["required"], bool)
        assert check["reason"].isprintable() and check["reason"].isascii()
        assert check["required"] != (check["name"] in MAY_BE_MISSING), check
        assert (check["state"] == "active") == (check["cure"] is None), check


def test_every_required_protection_holds(report):
    for check in report["checks"]:
        assert check["state"] != "failed", check
        if check["required"]:
            assert check["state"] == "active", check


def test_host(report, is_root):
    host = report["host"]
    assert set(host) == {
        "kernel", "machine", "uid", "id_mode", "cgroups", "cgroups_note", "landlock_abi", "swap", "template",
        "python", "packages",
    }  # fmt: skip
    assert host["kernel"] == os.uname().release and host["machine"] == os.uname().machine
    assert host["uid"] == os.geteuid()
    expected = {"root": {"root"}, "user": {"single"}, "subids": {"range"}}
    modes = expected.get(os.environ.get("GB_AS"), {"root"} if is_root else {"range", "single"})
    assert host["id_mode"] in modes
    assert host["cgroups"] in ("v2", "v1", "none")
    assert re.fullmatch(r"3\.\d+\.\d+\S*", host["python"])


def test_workspace_quota(report, is_root):
    """Hard where root can mount an image, else watched, with the reason."""
    check = checks_of(report)["workspace_quota"]
    has_loop = is_root and all(
        map(os.path.exists, ("/dev/loop-control", "/usr/sbin/mke2fs"))
    )
    assert check["state"] == ("active" if has_loop else "missing"), check
    assert check["reason"].startswith("hard: " if has_loop else "watched, not hard ("), check


def test_states_are_those_of_the_host(report):
    host, checks = report["host"], checks_of(report)
    has_own_ids = host["id_mode"] != "single"
    assert checks["ids"]["state"] == ("active" if has_own_ids else "missing")
    assert checks["cgroups"]["state"] == ("missing" if host["cgroups"] == "none" else "active")
    abi = host["landlock_abi"]
    assert checks["landlock"]["state"] == ("active" if abi else "missing")
    assert checks["landlock_scope"]["state"] == ("active" if abi >= 6 else "missing")
    if not has_own_ids:
        assert re.search("uidmap|usermod", checks["ids"]["cure"]), checks["ids"]
    if host["cgroups"] == "none":
        assert checks["cpu_share"]["state"] == "missing"
        assert "the watcher" in checks["memory"]["reason"]


def test_packages_are_those_of_the_box(gb, report):
    """What a program in a box really can import."""
    names = report["host"]["packages"]
    assert {"numpy", "pandas", "matplotlib", "PIL"} <= set(names)
    code = """
        import importlib.util, sys
        print(*(n for n in sys.argv[1:] if importlib.util.find_spec(n)))
        """
    found = gb.py(code, argv=sorted(names)).out.split()
    assert found == sorted(name for name, version in names.items() if version)
    wanted = "active" if all(names.values()) else "missing"
    assert checks_of(report)["packages"]["state"] == wanted


def test_table(gb):
    r = gb("doctor", "--model", "none")
    assert r.code == 0 and r.err == ""
    lines = r.out.splitlines()
    assert max(map(len, lines)) <= 100 and not any(line != line.rstrip() for line in lines)
    assert "\x1b" not in r.out
    rows = dict(re.findall(r"^  (\S.{15}) (active|missing|off|failed) +\S", r.out, re.M))
    assert {name.strip().replace(" ", "_") for name in rows} - {"none", "sqlite"} == WALLS | LIMITS | {
        "python",
        "packages",
        "locales",
    }
    assert [line for line in lines if line and line[0] != " "][1:4] == ["Walls", "Limits", "Python"]
    assert "Mark has no language model" in r.out and "OPENAI_API_KEY" in r.out
    counts = r"\d+ active, \d+ missing, 0 off, 0 failed"
    assert re.fullmatch(rf"Code is isolated here: {counts}\.", lines[-1])


# ---- switched off ------------------------------------------------------------------------------


def test_without_cgroups(gb):
    r = gb("doctor", "--json", "--cgroups", "none")
    report = report_of(r)
    checks = checks_of(report)
    assert r.code == 0 and report["isolated"] and report["host"]["cgroups"] == "none"
    assert checks["cgroups"]["state"] == checks["cpu_share"]["state"] == "off"
    assert "--cgroups none" in checks["cgroups"]["reason"]
    assert "--cgroups" in checks["cgroups"]["cure"]
    assert checks["memory"]["state"] == "active" and "the watcher" in checks["memory"]["reason"]
    assert checks["processes"]["state"] == "active"


def test_without_landlock(gb):
    r = gb("doctor", "--json", env={"GLOVEBOX_LANDLOCK": "off"})
    checks = checks_of(report_of(r))
    assert r.code == 0
    for name in ("landlock", "landlock_scope"):
        assert checks[name]["state"] == "off" and "--landlock" in checks[name]["cure"]
    text = gb("doctor", "--landlock", "off").out
    assert re.search(r"^  landlock +off +switched off", text, re.M), text
    assert re.search(r"2 off, 0 failed\.$", text), text


@pytest.mark.parametrize("mode", ["v1", "v2"])
def test_a_cgroup_version_by_force(gb, mode):
    """As `run`: either it is used, or that is no isolation as it was asked for."""
    runs = gb.py("pass", "--cgroups", mode).code == 0
    r = gb("doctor", "--json", "--cgroups", mode)
    report = report_of(r)
    check = checks_of(report)["cgroups"]
    assert (r.code == 0) == runs == report["isolated"]
    assert check["state"] == ("active" if runs else "failed"), check
    if runs:
        assert report["host"]["cgroups"] == mode
    else:
        assert check["required"] and f"cgroup {mode} cannot be used" in check["reason"]


# ---- a host that cannot ------------------------------------------------------------------------


def can_unshare():
    if not shutil.which("unshare"):
        return False
    done = subprocess.run(["unshare", "-Ur", "true"], capture_output=True, check=False)
    return done.returncode == 0


@pytest.fixture
def forbidden():
    """The words that run a command where no more user namespaces can be made."""
    need(can_unshare(), "no user namespaces for the test itself")
    if os.geteuid() == 0:
        pytest.skip("root is refused for its id before it comes to that")
    script = 'echo 0 > /proc/sys/user/max_user_namespaces || exit 77; exec "$@"'
    return ("unshare", "-Ur", "sh", "-c", script, "sh")


def test_user_namespaces_forbidden(gb, forbidden):
    r = gb("doctor", "--json", prefix=forbidden)
    need(r.code != 77, "the test cannot forbid user namespaces here")
    report = report_of(r)
    checks = checks_of(report)
    assert r.code == 1 and report["isolated"] is False
    assert checks["box"]["state"] == "failed"
    assert "user namespace" in checks["box"]["reason"]
    assert "sysctl user.max_user_namespaces=" in checks["box"]["cure"]
    for name, check in checks.items():
        if name != "box":
            assert check["state"] == "missing" and "not tried" in check["reason"]
    assert report["host"]["python"] is None and set(report["host"]["packages"].values()) == {None}


def test_user_namespaces_forbidden_in_words(gb, forbidden):
    r = gb("doctor", prefix=forbidden)
    need(r.code != 77, "the test cannot forbid user namespaces here")
    assert r.code == 1 and r.err == ""
    assert "user.max_user_namespaces" in r.out and len(r.out.splitlines()) < 18, r.out
    assert r.out.endswith("Code cannot be isolated here.\n")
    assert re.search(r"\b\d+ more were not tried", r.out)


def test_inside_a_user_namespace(gb):
    need(can_unshare(), "no user namespaces for the test itself")
    r = gb("doctor", "--json", prefix=("unshare", "-Ur"))
    report = report_of(r)
    if os.geteuid() == 0:  # its one id is root's, which no box may have
        assert r.code == 1 and "host's root" in checks_of(report)["box"]["reason"]
        return
    assert r.code == 0 and report["host"]["id_mode"] == "single"
    assert "outside this user namespace" in checks_of(report)["ids"]["cure"]


# ---- the command -------------------------------------------------------------------------------


def test_takes_no_arguments(gb):
    r = gb("doctor", "now")
    assert (r.code, r.out) == (2, "") and "'now'" in r.err
    r = gb("doctor", "--memory", "1g")
    assert (r.code, r.out) == (2, "") and "--memory" in r.err


def test_help(gb):
    r = gb("doctor", "--help")
    assert r.code == 0 and r.out == gb("help", "doctor").out
    for option in ("--json", "--cgroups", "--landlock"):
        assert option in r.out
    assert "--memory" not in r.out


def test_a_closed_pipe(gb):
    """Nobody reads: that is our failure, not a verdict."""
    with open("/dev/full", "wb") as full:
        process = gb.start("doctor", stdout=full)
        r = gb.finish(process)
    assert r.code == 125 and r.err.count("\n") == 1, r.err


def test_on_a_terminal(gb):
    """Colours, and progress that is wiped before the table comes."""
    ours, theirs = pty.openpty()
    try:
        process = gb.start("doctor", env={"TERM": "xterm"}, stdout=theirs, stderr=theirs)
        os.close(theirs)
        shown, end = b"", time.monotonic() + 180
        while time.monotonic() < end:
            if select.select([ours], [], [], 0.2)[0]:
                try:
                    shown += os.read(ours, 65536)
                except OSError:  # the last one has closed it
                    break
        assert process.wait(60) == 0
    finally:
        os.close(ours)
    text = shown.decode()
    assert "glovebox: trying the memory limit" in text
    assert "\x1b[32mactive " in text
    assert re.search(r"\r\x1b\[KLinux ", text), text[:300]
    table = re.sub(r"\x1b\[[0-9;]*[mK]", "", text[text.index("\x1b[KLinux") :])
    assert max(map(len, table.split("\r\n"))) <= 100
