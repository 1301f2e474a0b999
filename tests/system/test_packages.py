"""Packages: from an index of the test's own into live sessions and default sets, and what is refused."""

import concurrent.futures
import contextlib
import json
import os
import subprocess
import threading
import time

import pytest

from conftest import wait_for
from mcp_wire import MODERN, Http, call, failed, messages_of, ran
from net_kit import CA, names  # noqa: F401  a fixture
from package_kit import (ALONE, PATIENCE, Cut, Endless, Index, make_built, make_compiled_wheel, make_sdist,
                         make_wheel)
from serve_kit import serve  # noqa: F401  a fixture


@pytest.fixture
def index():
    made = Index()
    yield made
    made.close()


def ask(server, method, path, body=None):
    """As server.ask(), with patience."""
    connection = server.connect(timeout=PATIENCE)
    try:
        connection.request(method, path, None if body is None else json.dumps(body),
                           server.headers({}))
        reply = connection.getresponse()
        return reply.status, json.loads(reply.read() or b"null")
    finally:
        connection.close()


def install(server, *packages, session=None, **more):
    path = f"/v1/sessions/{session}/packages" if session else "/v1/packages"
    status, reply = ask(server, "POST", path, {"packages": list(packages), **more})
    assert status == 200, reply
    return reply


def refused(server, status, kind, *packages, session=None):
    path = f"/v1/sessions/{session}/packages" if session else "/v1/packages"
    got, problem = ask(server, "POST", path, {"packages": list(packages)})
    assert got == status and problem["type"].endswith(":" + kind), problem
    return problem["detail"]


def store(server, part):
    return sorted(os.listdir(os.path.join(server.data, "packages", part)))


def value(server, session, code):
    receipt = server.run(session, code)
    assert receipt["status"] == "ok", receipt
    return receipt["result"]["text/plain"]


def test_default_set(serve, index, gb):
    index.wheel("alpha-one", "1.0", requires=["beta>=1"])
    index.wheel("beta", "1.5")
    server = serve("--index-url", index.url, env=ALONE)
    status, reply = ask(server, "POST", "/pip_install", {"package": "Alpha.One", "version": "latest"})
    assert status == 200 and reply["success"] is True and reply["installed_version"] == "1.0", reply
    assert reply["installation_time"] > 0
    receipt = server.good("POST", "/execute", {"code": "import alpha_one, beta\n"
                                                       "print(alpha_one.version, beta.__file__)"})
    assert receipt["stdout"] == "1.0 /packages/beta.py\n", receipt
    # Once more: known, and nothing is asked of the index.
    seen = len(index.seen)
    status, reply = ask(server, "POST", "/pip_install", {"package": "alpha-one"})
    assert reply["success"] is True and reply["installed_version"] == "1.0", reply
    # A session is a fresh box as well, and so is a script.
    session = server.session()
    assert value(server, session, "import beta\nbeta.version") == "'1.5'"
    receipt = server.good("POST", "/v1/execute", {"code": "import alpha_one as a\nprint(a.version)",
                                                  "mode": "script"})
    assert receipt["stdout"] == "1.0\n", receipt
    assert len(index.seen) == seen
    listed = server.good("GET", "/v1/packages")
    assert [(p["name"], p["version"], p["requested"]) for p in listed["packages"]] == [
        ("alpha-one", "1.0", True), ("beta", "1.5", False)]
    assert all(len(p["sha256"]) == 64 for p in listed["packages"])
    metrics = server.ask("GET", "/metrics").body.decode()
    assert "\nsandbox_package_installs_total 2\n" in metrics
    assert "\nglovebox_package_layers 1\n" in metrics
    # The command line sees the same sets, and the service what the command line does.
    who = f"127.0.0.1:{server.port}"
    frozen = gb("pip", "freeze", "--data", server.data, "--for", who)
    assert frozen.code == 0 and "alpha-one==1.0 --hash=sha256:" in frozen.out, frozen
    assert "beta" in gb("pip", "list", "--data", server.data).out
    assert gb("pip", "reset", "--data", server.data, "--for", who).code == 0
    receipt = server.good("POST", "/execute", {"code": "import beta"})
    assert receipt["error"]["name"] == "ModuleNotFoundError", receipt
    assert value(server, session, "beta.version") == "'1.5'"  # who has it keeps it
    server.good("DELETE", "/v1/packages", status=204)
    entries = json.loads(gb("audit", "show", "--json", "--data", server.data).out)
    kinds = [e["kind"] for e in (entries["entries"] if isinstance(entries, dict) else entries)]
    assert kinds.count("install") == 2, kinds


def test_live_session(serve, index):
    tool = {"gamma/__init__.py": "version = '2.0'\ndef main():\n    print('a tool')\n",
            "gamma/deep.py": "x = 1\n"}
    index.wheel("gamma", "2.0", tool, members={
        "gamma-2.0.dist-info/entry_points.txt": "[console_scripts]\ngamma-tool = gamma:main\n"})
    index.wheel("delta", "1.0")
    index.wheel("delta", "2.0")
    server = serve("--index-url", index.url, env=ALONE)
    session, other = server.session(), server.session()
    assert server.run(session, "import gamma")["error"]["name"] == "ModuleNotFoundError"
    reply = install(server, "gamma", "delta<2", session=session)
    assert reply["success"] and not reply["cached"], reply
    assert [(p["name"], p["version"]) for p in reply["installed"]] == [("delta", "1.0"),
                                                                       ("gamma", "2.0")]
    assert value(server, session, "import gamma, delta, sys\n"
                                  "gamma.version, delta.version, sys.path.count('/packages')"
                 ) == "('2.0', '1.0', 1)"
    command = server.good("POST", f"/v1/sessions/{session}/commands",
                          {"command": "gamma-tool && python3 -c 'import gamma.deep as d; print(d.x)'"
                                      " && touch /packages/x"})
    assert command["stdout"] == "a tool\n1\n" and "Read-only" in command["stderr"], command
    # The same set elsewhere, in another order: the layer that is there, and nothing is fetched.
    seen = len(index.seen)
    again = install(server, "delta<2", "gamma", session=other)
    assert again["cached"] and again["layer"] == reply["layer"] and len(index.seen) == seen
    assert value(server, other, "import gamma\ngamma.version") == "'2.0'"
    # More comes on top; what is there stays what it is.
    index.wheel("eps", "1.0", {"eps.py": "import gamma.deep\nversion = '1.0'\n"}, requires=["delta"])
    status, receipt = ask(server, "POST", f"/v1/sessions/{session}/execute",
                          {"code": "%pip install -q eps\nimport eps\neps.version, delta.version",
                           "timeout": 300})
    assert receipt["result"]["text/plain"] == "('1.0', '1.0')", receipt
    assert receipt["stdout"] == "Installed eps 1.0\n", receipt
    receipt = server.run(session, "!pip install gamma\nimport gamma.deep\ngamma.deep.x")
    assert receipt["stdout"] == "Already installed: gamma 2.0\n", receipt
    names = {p["name"]: p["requested"] for p in
             server.good("GET", f"/v1/sessions/{session}/packages")["packages"]}
    assert names == {"gamma": True, "delta": True, "eps": True}
    assert server.run(other, "import eps")["error"]["name"] == "ModuleNotFoundError"
    # From the start, and once for one run only.
    status, made = ask(server, "POST", "/v1/sessions", {"packages": ["gamma", "delta<2"]})
    assert status == 201, made
    assert value(server, made["session_id"], "import delta\ndelta.version") == "'1.0'"
    status, receipt = ask(server, "POST", "/v1/execute",
                          {"code": "%pip install gamma 'delta<2'\nimport gamma\ngamma.version",
                           "timeout": 300})
    assert receipt["result"]["text/plain"] == "'2.0'", receipt
    assert server.good("POST", "/execute", {"code": "import gamma"})["status"] == "error"


def shown(server, path):
    return [(p["name"], p["version"]) for p in server.good("GET", path)["packages"]]


def test_versions_change(serve, index, gb):
    """Raised, lowered, removed: in a session and in a default set."""
    for version in ("1.0", "2.0", "3.0"):
        index.wheel("delta", version)
    index.wheel("gamma", "1.0", requires=["delta>=2"])
    index.wheel("omega", "1.0")
    server = serve("--index-url", index.url, env=ALONE)
    session = server.session()
    path = f"/v1/sessions/{session}/packages"
    install(server, "delta<2", "omega", session=session)
    assert value(server, session, "import delta\ndelta.version") == "'1.0'"
    # A dependency needs another version: it changes, and the session is told what it still has.
    index.projects["delta"].remove("delta-3.0-py3-none-any.whl")
    refused(server, 409, "package-conflict", "gamma", "delta<2", session=session)
    reply = install(server, "gamma", "delta", session=session)
    assert [(p["name"], p["version"]) for p in reply["installed"]] == [("delta", "2.0"),
                                                                       ("gamma", "1.0")]
    assert "delta 1.0 was replaced" in reply["warnings"][0], reply
    assert value(server, session, "delta.version") == "'1.0'"
    assert value(server, session, "import importlib\nimportlib.reload(delta).version") == "'2.0'"
    index.projects["delta"].append("delta-3.0-py3-none-any.whl")
    assert install(server, "delta", session=session)["cached"]
    receipt = server.run(session, "%pip install -U delta\n%pip list")
    assert receipt["status"] == "ok", receipt
    assert receipt["stdout"].startswith("Installed delta 3.0\n"), receipt
    assert "\ndelta " in receipt["stdout"] and "delta 2.0 was replaced" in receipt["stderr"], receipt
    assert shown(server, path) == [("delta", "3.0"), ("gamma", "1.0"), ("omega", "1.0")]
    # Nothing is asked of the index to remove something.
    seen = len(index.seen)
    receipt = server.run(session, "%pip uninstall -y omega gamma")
    assert receipt["stdout"] == "Removed gamma 1.0, omega 1.0\n", receipt
    assert server.run(session, "import omega")["error"]["name"] == "ModuleNotFoundError"
    status, problem = ask(server, "DELETE", path + "/omega")
    assert status == 404 and problem["type"].endswith("package-not-installed"), problem
    for name in ("pip%20install", "delta==3.0", "..%2Fx"):
        assert ask(server, "DELETE", f"{path}/{name}")[0] in (404, 422)
    status, reply = ask(server, "DELETE", path + "/Delta")
    assert status == 200 and reply["removed"] == [{"name": "delta", "version": "3.0"}], reply
    assert shown(server, path) == [] and len(index.seen) == seen
    fresh = server.run(session, "import sys\nsys.modules.pop('delta', 0)\nimport delta")
    assert fresh["error"]["name"] == "ModuleNotFoundError", fresh
    # The default set.
    install(server, "delta==1.0", "omega")
    install(server, "delta", newest=True)
    assert shown(server, "/v1/packages") == [("delta", "3.0"), ("omega", "1.0")]
    status, reply = ask(server, "DELETE", "/v1/packages/omega")
    assert status == 200 and reply["message"] == "Removed omega 1.0", reply
    who = f"127.0.0.1:{server.port}"
    gone = gb("pip", "uninstall", "--preload", "none", "--data", server.data, "--for", who, "delta",
              env=ALONE)
    assert gone.code == 0 and gone.out == "Removed delta 3.0\n", gone
    assert shown(server, "/v1/packages") == []
    again = gb("pip", "uninstall", "--preload", "none", "--data", server.data, "--for", who, "delta",
              env=ALONE)
    assert again.code == 1 and "not installed" in again.err, again


def test_what_comes_of_pip(serve, index):
    """A failed %pip is a failed cell; the time it takes is not the cell's; it can be interrupted."""
    index.wheel("alpha", "1.0")
    index.wheel("broken", "1.0", {"broken.py": "raise ImportError('libmissing.so.1: cannot open')\n"})
    server = serve("--index-url", index.url, env=ALONE)
    session = server.session()
    for line, words in (("%pip install nosuchthing", "no such package"),
                        ("!pip install 'x; rm'", "not a requirement"),
                        ("%pip install broken", "libmissing.so.1"),
                        ("%pip install --target /tmp alpha", "remove --target"),
                        ("%pip uninstall nothere", "not installed"),
                        ("%pip download x", "not supported"),
                        ("%pip show nothere", "not installed")):
        receipt = server.run(session, line + "\nprint('not reached')")
        assert receipt["status"] == "error" and receipt["exit_code"] == 1, receipt
        assert receipt["error"]["name"] == "InstallError", receipt
        assert words in receipt["error"]["value"], receipt
        assert receipt["stdout"] == "" and "glovebox_runner" not in receipt["stderr"], receipt
    assert server.good("GET", f"/v1/sessions/{session}/packages")["packages"] == []
    index.gate.clear()
    with concurrent.futures.ThreadPoolExecutor() as pool:
        code = {"code": "%pip install alpha\nimport alpha\nalpha.version", "timeout": 1}
        waiting = pool.submit(ask, server, "POST", f"/v1/sessions/{session}/execute", code)
        time.sleep(2.5)  # longer than the cell may take
        index.gate.set()
        status, receipt = waiting.result(PATIENCE)
        assert receipt["status"] == "ok" and receipt["result"]["text/plain"] == "'1.0'", receipt
        index.wheel("beta", "1.0")
        index.gate.clear()
        seen = len(index.seen)
        waiting = pool.submit(ask, server, "POST", f"/v1/sessions/{session}/execute",
                              {"code": "%pip install beta", "timeout": 60})
        wait_for(lambda: len(index.seen) > seen, 60, "the index to be asked")
        server.good("POST", f"/v1/sessions/{session}/interrupt")
        status, receipt = waiting.result(PATIENCE)
        index.gate.set()
    assert receipt["status"] == "cancelled", receipt
    assert "interrupted; nothing was changed" in receipt["stderr"], receipt
    wait_for(lambda: "beta: failed" in server.log.read_text(), 60, "the install to end")
    assert shown(server, f"/v1/sessions/{session}/packages") == [("alpha", "1.0")]
    # A cell that is stuck for another reason still ends.
    assert server.run(session, "while True: pass", timeout=1)["status"] == "timeout"


def test_what_is_refused(serve, index):
    index.wheel("fine", "1.0")
    index.wheel("evil", "1.0", members={"../../escaped.py": "x = 1\n"})
    index.wheel("shadow", "1.0", {"random.py": "x = 1\n"})
    index.wheel("needs-bad", "1.0", requires=["bad-one"])
    index.wheel("bad-one", "1.0")
    index.wheel("left", "1.0", requires=["fine<1"])
    index.wheel("garbled", "1.0")
    index.files["garbled-1.0-py3-none-any.whl"] = b"PK\x03\x04 this is not a wheel"
    index.add(*make_sdist("source-only", "1.0", "raise SystemExit(open('/workspace/ran', 'w'))"),
              project="source-only")
    server = serve("--index-url", index.url, "--blocked-packages", "bad_one, os", env=ALONE)
    session = server.session()
    for text in ("x; rm -rf /", "../../etc", "-r /etc/passwd", "--index-url=http://x", "", "a b",
                 "fine==", "fine\n--pre"):
        refused(server, 422, "requirement-malformed", text, session=session)
    for text in ("x @ https://example.com/x.whl", "git+https://example.com/x", "https://a/x.whl"):
        assert "operator" in refused(server, 403, "package-url", text)
    refused(server, 403, "package-blocked", "OS")
    refused(server, 403, "package-blocked", "bad.one")
    assert "bad-one" in refused(server, 403, "package-blocked", "needs-bad", session=session)
    assert "nosuchthing" in refused(server, 422, "package-not-found", "nosuchthing", session=session)
    assert "fine==9; the index has 1.0" in refused(server, 422, "version-not-found", "fine==9")
    assert "source-only" in refused(server, 422, "no-wheel", "source-only", session=session)
    refused(server, 422, "bad-wheel", "evil", session=session)
    refused(server, 422, "bad-wheel", "garbled", session=session)
    refused(server, 409, "package-shadows", "shadow")
    refused(server, 409, "package-conflict", "left", "fine==1.0", session=session)
    status, reply = ask(server, "POST", "/pip_install", {"package": "nosuchthing"})
    assert status == 200 and reply["success"] is False and reply["installed_version"] is None
    assert "no such package" in reply["message"], reply
    status, problem = ask(server, "POST", "/pip_install", {"package": "x; rm -rf /"})
    assert status == 422
    status, problem = ask(server, "POST", "/v1/sessions", {"packages": ["../x"]})
    assert status == 422 and problem["type"].endswith("requirement-malformed"), problem
    # Nothing of it is left, and nobody was hurt.
    assert store(server, "layers") == store(server, "records") == store(server, "work") == []
    assert server.good("GET", f"/v1/sessions/{session}/packages")["packages"] == []
    index.wheel("reqests", "1.0")
    warned = install(server, "fine", "reqests", session=session)
    assert "requests" in warned["warnings"][0], warned
    assert value(server, session, "import fine\nfine.version") == "'1.0'"


def test_progress(serve, index, gb, tmp_path):
    index.wheel("heavy", "1.0", {"heavy.py": "version = '1.0'\n", "heavy.bin": os.urandom(9 << 20)})
    index.wheel("light", "1.0", requires=["heavy"])
    server = serve("--index-url", index.url, env=ALONE)
    session = server.session()
    path = f"/v1/sessions/{session}/packages"
    for accept in ("application/x-ndjson", "text/event-stream"):
        connection, reply = server.stream(path, {"packages": ["nosuchthing"]}, accept=accept)
        text = reply.read().decode()
        connection.close()
        assert "package-not-found" in text.splitlines()[-1 if "json" in accept else -2], text
    receipt = server.run(session, "%pip install light\nimport heavy\nheavy.version", timeout=1)
    assert receipt["result"]["text/plain"] == "'1.0'", receipt
    assert receipt["stdout"].splitlines()[0] == "Fetching 2 packages, 9.4 MB", receipt
    assert receipt["stdout"].endswith("Installed heavy 1.0, light 1.0\n"), receipt
    data = tmp_path / "data"
    done = gb("pip", "install", "--data", data, "--preload", "none", "--index-url", index.url, "light",
              env=ALONE, timeout=PATIENCE)
    assert done.code == 0 and done.out == "Installed heavy 1.0, light 1.0\n", done
    assert "looking up the packages\n" in done.err and "fetching, 0 of 2 packages" in done.err, done
    server = serve("--index-url", index.url, env=ALONE)
    connection, reply = server.stream(f"/v1/sessions/{server.session()}/packages",
                                      {"packages": ["light"]})
    events = [json.loads(line) for line in reply.read().splitlines()]
    connection.close()
    assert events[-1]["event"] == "installed" and events[-1]["data"]["success"], events
    told = [e["data"] for e in events if e["event"] == "progress"]
    assert [t["stage"] for t in told[:1]] == ["resolving"] and told[-1]["stage"] == "unpacking", told
    fetching = [t for t in told if t["stage"] == "fetching"]
    assert fetching and all(t["total"] == 2 and t["bytes"] <= t["bytes_total"] for t in fetching)
    assert {"heavy", "light"} >= {t["name"] for t in fetching} - {""}, told


def test_progress_over_mcp(serve, index):
    index.wheel("alpha-one", "1.0")
    server = serve("--index-url", index.url, env=ALONE)
    asked = call("pip_install", package="alpha-one")
    asked["params"]["_meta"] = {"progressToken": "p"}
    client = Http(server)
    *told, done = messages_of(client.post({**asked, "id": 77}))
    assert "1.0" in ran(done), done
    assert told and all(t["method"] == "notifications/progress" for t in told), told
    assert told[0]["params"]["message"] == "resolving" and told[0]["params"]["total"] == 1, told


def test_an_interrupted_install_goes_on(serve, index):
    """What was complete is not fetched again."""
    for name in ("one", "two"):
        index.wheel(name, "1.0")
    file, data = make_wheel("three", "1.0", requires=["one", "two"])
    index.add(file, Cut(data))
    server = serve("--index-url", index.url, env=ALONE)
    session = server.session()
    assert "three" in refused(server, 503, "index-unreachable", "three", session=session)
    assert store(server, "layers") == store(server, "records") == store(server, "work") == []
    index.files[file] = data
    index.seen.clear()
    install(server, "three", session=session)
    assert index.fetched() == ["/files/" + file], index.seen
    assert value(server, session, "import one, two, three\nthree.version") == "'1.0'"
    # One more package costs one more package, and links to the rest.
    index.wheel("four", "1.0")
    index.seen.clear()
    layers = [server.good("GET", f"/v1/sessions/{session}/packages")["layer"],
              install(server, "four", session=session)["layer"]]
    assert index.fetched() == ["/files/four-1.0-py3-none-any.whl"], index.seen
    inodes = {os.stat(os.path.join(server.data, "packages", "layers", layer, "one.py")).st_ino
              for layer in layers}
    assert len(inodes) == 1
    # It hangs in the middle: the install ends in time, and can be repeated.
    file, data = make_wheel("five", "1.0")
    gate = threading.Event()
    index.add(file, Cut(data, gate))
    try:
        slow = serve("--index-url", index.url, "--package-timeout", "5", env=ALONE)
        problem = refused(slow, 503, "install-timeout", "five")
        assert "--package-timeout" in problem and store(slow, "work") == []
    finally:
        gate.set()
    index.files[file] = data
    assert install(slow, "five")["success"]


def test_wheels_that_are_not_what_they_seem(serve, index):
    index.wheel("liar", "1.0")
    index.lies["liar-1.0-py3-none-any.whl"] = "0" * 64
    index.wheel("truth", "1.0", requires=["liar"])
    for number, name in enumerate(("a\\b.py", "/etc/x.py", "./x.py", "a//b.py", "a/../../x.py")):
        index.wheel(f"odd{number}", "1.0", members={name: "x = 1\n"})
    index.wheel("control", "1.0", members={"a\x01b.py": "x = 1\n"})
    index.wheel("deep", "1.0", members={"d/" * 60 + "x.py": "x = 1\n"})
    index.wheel("left", "1.0", {"left.py": "", "common.py": "x = 'left'\n", "same.txt": "same"})
    index.wheel("right", "1.0", {"right.py": "", "common.py": "x = 'right'\n", "same.txt": "same"})
    index.wheel("wall", "1.0", {"wall.py": "", "common.py/x.txt": "a directory"})
    server = serve("--index-url", index.url, env=ALONE)
    session = server.session()
    refused(server, 422, "hash-mismatch", "truth", session=session)
    for name in ("odd0", "odd1", "odd2", "odd3", "odd4", "control", "deep"):
        refused(server, 422, "bad-wheel", name, session=session)
    # Two packages with one file: that of the later one. A file and a directory: neither.
    install(server, "right", "left", session=session)
    assert value(server, session, "import common\ncommon.x") == "'right'"
    assert "directory" in refused(server, 409, "package-conflict", "wall", session=session)
    assert shown(server, f"/v1/sessions/{session}/packages") == [("left", "1.0"), ("right", "1.0")]
    assert store(server, "work") == []


def test_an_index_that_hangs(serve, index):
    index.wheel("slow", "1.0")
    index.gate.clear()
    server = serve("--index-url", index.url, "--package-timeout", "4", env=ALONE)
    session = server.session()
    with concurrent.futures.ThreadPoolExecutor() as pool:
        waiting = pool.submit(ask, server, "POST", f"/v1/sessions/{session}/packages",
                              {"packages": ["slow"]})
        assert value(server, session, "6 * 7") == "42"  # nobody else waits
        status, problem = waiting.result(PATIENCE)
    assert status == 503 and problem["type"].endswith(("install-timeout", "index-unreachable"))
    assert store(server, "layers") == store(server, "work") == []


def test_a_proxy_of_pip(serve, index):
    """It is not used. Who needs it is told."""
    index.wheel("near", "1.0")
    away = Index()
    away.close()
    proxied = {**ALONE, "PIP_PROXY": "http://127.0.0.1:9"}
    server = serve("--index-url", index.url, env=proxied)
    assert install(server, "near")["success"]  # the index can be reached without it
    for env in (proxied, {**ALONE, "HTTPS_PROXY": "http://127.0.0.1:9"}):
        server = serve("--index-url", away.url, env=env)
        assert "PIP_PROXY" in refused(server, 503, "index-unreachable", "near")
        assert "PIP_PROXY" in server.log.read_text()
    server = serve("--index-url", away.url, env=ALONE)
    assert "PIP_PROXY" not in refused(server, 503, "index-unreachable", "near")


def test_too_large(serve, index):
    index.wheel("large", "1.0", {"large/__init__.py": "", "large/data.bin": os.urandom(3 << 20)})
    index.wheel("bomb", "1.0", {"bomb/__init__.py": "", "bomb/zeros": bytes(8 << 20)})
    server = serve("--index-url", index.url, "--package-size", "2m", env=ALONE)
    for name in ("large", "bomb"):
        detail = refused(server, 413, "packages-too-large", name)
        assert "--package-size" in detail
    assert store(server, "layers") == store(server, "work") == []


def test_two_gigabytes(serve, index):
    """The service does not wait for the end of such a wheel, and neither does it keep any of it."""
    huge = Endless(2 << 30)
    index.add("huge-1.0-py3-none-any.whl", huge)
    index.wheel("small", "1.0")
    server = serve("--index-url", index.url, "--package-size", "2m", env=ALONE)
    session = server.session()
    assert "--package-size" in refused(server, 413, "packages-too-large", "huge", session=session)
    assert 0 < huge.sent < 1 << 28
    assert store(server, "layers") == store(server, "work") == []
    assert install(server, "small", session=session)["success"]


def test_two_at_once(serve, index):
    index.wheel("zeta", "1.0")
    server = serve("--index-url", index.url, env=ALONE)
    sessions = [server.session() for _ in range(3)]
    with concurrent.futures.ThreadPoolExecutor() as pool:
        replies = list(pool.map(lambda s: install(server, "zeta", session=s), sessions))
    assert len({r["layer"] for r in replies}) == 1 and len(store(server, "layers")) == 1
    assert sum(not r["cached"] for r in replies) == 1, replies
    assert len(index.fetched()) <= 2  # one install, in two steps
    assert all(value(server, s, "import zeta\nzeta.version") == "'1.0'" for s in sessions)


def test_offline(serve, gb, tmp_path):
    wheels = tmp_path / "wheels"
    wheels.mkdir(mode=0o755)
    for name, requires in (("eta", ["theta"]), ("theta", [])):
        file, data = make_wheel(name, "1.0", requires=requires)
        (wheels / file).write_bytes(data)
    data = tmp_path / "data"
    options = ("--data", data, "--preload", "none", "--index-url", "none", "--for", "somekey")
    result = gb("pip", "install", *options, "eta", env=ALONE)
    assert result.code == 1 and "no package index" in result.err, result
    result = gb("pip", "install", *options, "--wheels", wheels, "eta", env=ALONE, timeout=PATIENCE)
    assert result.code == 0 and result.out == "Installed eta 1.0, theta 1.0\n", result
    result = gb("pip", "install", *options, "--wheels", wheels, "iota", env=ALONE, timeout=PATIENCE)
    assert result.code == 1 and "no such package" in result.err, result
    result = gb("pip", "install", *options, "x; rm -rf /", env=ALONE)
    assert result.code == 2 and "not a requirement" in result.err, result
    listed = gb("pip", "list", "--json", "--data", data)
    assert [p["name"] for p in json.loads(listed.out)["sets"][0]["packages"]] == ["eta", "theta"]
    # A directory that pip itself is configured with.
    server = serve("--index-url", "none", data=data, env={**ALONE, "PIP_FIND_LINKS": str(wheels)})
    session = server.session()
    assert install(server, "theta", session=session)["installed"][0]["name"] == "theta"
    assert value(server, session, "import theta\ntheta.version") == "'1.0'"


def test_rate(serve, gb, tmp_path):
    data = tmp_path / "data"
    made = json.loads(gb("key", "create", "--json", "--data", data).out)
    server = serve("--require-key", "--index-url", "none", "--package-rate", "1", env=ALONE,
                   data=data, key=made["token"])
    refused(server, 503, "no-index", "fine")
    refused(server, 429, "rate-limit", "fine")


def test_password_of_an_index(serve, gb, names, tmp_path):
    """It is used, and it never enters the box."""
    index = Index(user="alice:s3cret", tls=True)
    try:
        index.wheel("private", "1.0")
        names.answers = {"secret.test": [["127.0.0.1"]]}
        server = serve("--index-url", index.url, "--network-ca", CA, "--network-resolver",
                       names.address, "--network-address", "127.0.0.1", "--network-allow",
                       f"secret.test:{index.port}", env=ALONE)
        assert install(server, "private")["success"]
        log = server.log.read_text()
        assert "s3cret" not in log and "s3cret" not in json.dumps(server.good("GET", "/v1/packages"))
        plain = gb("serve", "--index-url", "http://alice:s3cret@localhost/simple", "--data",
                   tmp_path / "other", env=ALONE)
        assert plain.code == 125 and "https" in plain.err and "s3cret" not in plain.err, plain
    finally:
        index.close()


def test_full_disk(serve, index, tmp_path, is_root):
    if not is_root:
        pytest.skip("only root can make a small disk")
    index.wheel("wide", "1.0", {f"wide/f{i}.bin": os.urandom(1 << 20) for i in range(8)})
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", small], check=True)
    try:
        data = small / "data"
        server = serve("--index-url", index.url, "--disk", "16m", "--uv", "none", data=data, env=ALONE)
        detail = refused(server, 503, "disk-full", "wide")
        assert "disk" in detail
        assert store(server, "layers") == store(server, "work") == []
        index.wheel("tiny", "1.0")
        assert install(server, "tiny")["success"]
        assert server.stop() == 0
    finally:
        subprocess.run(["umount", small], check=True)


def keys_for(gb, data, count):
    return [json.loads(gb("key", "create", "--json", "--data", data).out)["token"]
            for _ in range(count)]


def test_builds(serve, index, gb, tmp_path):
    """Code of a package runs only if the operator says so: in the installer's box, and what it
    makes is its caller's alone."""
    mark = tmp_path / "of-the-host"
    mark.touch()
    index.add(*make_built("built", "1.0", f"""
import os, socket

def probe():
    try:
        socket.create_connection(("127.0.0.1", {index.port}), timeout=5).close()
        direct = "reached"
    except OSError:
        direct = "refused"
    return direct, os.path.exists({str(mark)!r}), os.getcwd().startswith("/workspace")
"""))
    index.wheel("plain", "1.0")
    data = tmp_path / "data"
    keys = keys_for(gb, data, 2)
    server = serve("--require-key", "--index-url", index.url, data=data, env=ALONE, key=keys[0])
    refused(server, 422, "no-wheel", "built")
    assert store(server, "layers") == []
    assert server.stop() == 0
    server = serve("--require-key", "--index-url", index.url, "--package-builds", data=data,
                   env=ALONE, key=keys[0])
    first = install(server, "built")
    receipt = server.good("POST", "/v1/execute", {"code": "import built\nbuilt.probe"})
    assert receipt["result"]["text/plain"] == "('refused', False, True)", receipt
    server.key = keys[1]
    second = install(server, "built")
    assert not second["cached"] and second["layer"] != first["layer"], second
    assert install(server, "built")["cached"]
    # A wheel is a wheel: that of all.
    shared = [install(server, "plain", session=server.session())["layer"]]
    server.key = keys[0]
    shared.append(install(server, "plain", session=server.session())["layer"])
    assert shared[0] != shared[1]  # each has what its caller built in it as well
    server.good("DELETE", "/v1/packages", status=204)
    alone = install(server, "plain", session=server.session())["layer"]
    server.key = keys[1]
    server.good("DELETE", "/v1/packages", status=204)
    assert install(server, "plain", session=server.session())["layer"] == alone


def test_urls(serve, index):
    index.add(*make_wheel("direct", "1.0"), project="somewhere-else")
    url = f"http://127.0.0.1:{index.port}/files/direct-1.0-py3-none-any.whl"
    server = serve("--index-url", index.url, env=ALONE)
    assert "--package-urls" in refused(server, 403, "package-url", f"direct @ {url}")
    assert index.seen == []
    server = serve("--index-url", index.url, "--package-urls", env=ALONE)
    session = server.session()
    reply = install(server, f"direct @ {url}", session=session)
    assert [(p["name"], p["version"]) for p in reply["installed"]] == [("direct", "1.0")], reply
    assert value(server, session, "import direct\ndirect.version") == "'1.0'"
    for bad in ("direct @ file:///etc/passwd", "direct @ http://me:secret@127.0.0.1/x.whl",
                "direct @ ssh://127.0.0.1/x", "-e git+https://127.0.0.1/x", "direct @ https://*/x",
                "direct @ https:///x"):
        refused(server, 422, "requirement-malformed", bad)
    # Elsewhere in this machine there is nothing to be had: the operator named this port only.
    other = Index()
    try:
        other.add(*make_wheel("direct", "2.0"))
        url = f"http://127.0.0.1:{other.port}/files/direct-2.0-py3-none-any.whl"
        path = f"/v1/sessions/{server.session()}/packages"
        status, problem = ask(server, "POST", path, {"packages": [f"direct @ {url}"]})
        assert status >= 400 and other.seen == [], problem
    finally:
        other.close()


def listing(server, layer):
    top = os.path.join(server.data, "packages", "layers", layer)
    return sorted(os.path.relpath(os.path.join(place, name), top)
                  for place, _, names in os.walk(top) for name in names)


def test_without_uv(serve, index, gb, tmp_path):
    """pip resolves where there is no uv. The result is the same."""
    index.wheel("kappa", "1.0", {"kappa/__init__.py": "version = '1.0'\ndef x():\n    print('k')\n",
                                 "kappa-1.0.data/scripts/kappa-script": "#!python\nprint('script')\n",
                                 "kappa-1.0.data/purelib/kappa_pure.py": "x = 1\n",
                                 "kappa-1.0.data/data/share/kappa.txt": "text\n",
                                 "kappa-1.0.data/headers/kappa.h": "int x;\n"},
                requires=["lambda-one>=1"], members={
        "kappa-1.0.dist-info/entry_points.txt": "[console_scripts]\nkappa-tool = kappa:x\n"})
    index.wheel("lambda-one", "1.0")
    index.wheel("lambda-one", "2.0")
    seen = []
    for options in ((), ("--uv", "none")):
        server = serve("--index-url", index.url, *options, env=ALONE)
        session = server.session()
        reply = install(server, "kappa", "lambda-one<2", session=session)
        command = server.good("POST", f"/v1/sessions/{session}/commands",
                              {"command": "kappa-tool && kappa-script && python3 -c 'import kappa_pure, "
                                          "importlib.metadata as m; print(len(m.files(\"kappa\")))'"})
        assert command["stdout"] == "k\nscript\n11\n", command
        seen.append((reply["layer"], reply["message"], listing(server, reply["layer"])))
    assert seen[0] == seen[1]
    # Where it could be fetched, but the index does not have it.
    paths = "/usr/sbin:/usr/bin:/sbin:/bin"
    server = serve("--index-url", index.url, "--uv", "auto", env={**ALONE, "PATH": paths})
    assert install(server, "kappa", "lambda-one<2")["layer"] == seen[0][0]
    if not any(os.path.exists(f"/usr/{place}bin/uv") for place in ("", "local/")):
        assert "uv could not be fetched, pip is used instead" in server.log.read_text()
        assert store(server, "tools") == []
    assert gb("serve", "--uv", "/no/such/file", "--data", tmp_path / "d", env=ALONE).code == 125
    assert {"bin/kappa-tool", "bin/kappa-script", "share/kappa.txt", "include/kappa/kappa.h",
            "kappa-1.0.dist-info/INSTALLER"} <= {*seen[0][2]}


def test_a_broken_pip(serve, index, tmp_path, is_root):
    """The reply says why pip does not start. It is broken for this service only."""
    pip = "/usr/lib/python3/dist-packages/pip/_internal/__init__.py"
    if not is_root or not os.path.exists(pip):
        pytest.skip("only root can show a service another pip, and only Debian's")
    broken = tmp_path / "broken.py"
    broken.write_text("raise RuntimeError('half an upgrade')\n")
    broken.chmod(0o644)
    index.wheel("mu", "1.0")
    script = 'mount --bind "$1" "$2" && shift 2 && exec "$@"'
    server = serve("--index-url", index.url, "--uv", "none", env=ALONE, prefix=(
        "unshare", "--mount", "sh", "-c", script, "sh", str(broken), pip))
    session = server.session()
    detail = refused(server, 422, "install-failed", "mu", session=session)
    assert "half an upgrade" in detail


def test_pruning(serve, index, gb):
    """What somebody has stays; the rest goes when it is old, or when all of it is too much."""
    for name in ("live", "ofset", "gone", "young"):
        index.wheel(name, "1.0", {f"{name}.py": "version = '1.0'\n",
                                  f"{name}.bin": os.urandom(600 << 10)})

    def keep(server, name, end=True):
        session = server.session()
        layer = install(server, name, session=session)["layer"]
        if end:
            server.good("DELETE", f"/v1/sessions/{session}", status=204)
        return layer, session

    def age(server, layer, days):
        record = os.path.join(server.data, "packages", "records", layer + ".json")
        with contextlib.suppress(FileNotFoundError):
            os.utime(record, (os.stat(record).st_mtime - days * 86400,) * 2)

    server = serve("--index-url", index.url, "--sweep", "0.1", "--packages-age", "48h", env=ALONE)
    live, session = keep(server, "live", end=False)
    gone, _ = keep(server, "gone")
    young, _ = keep(server, "young")
    ofset = install(server, "ofset")["layer"]
    assert server.good("POST", "/execute", {"code": "import ofset"})["status"] == "ok"
    age(server, young, 1)
    for layer in (live, ofset, gone):
        age(server, layer, 3)
    wait_for(lambda: gone not in store(server, "layers"), 60, "the sweeper")
    assert store(server, "layers") == sorted([live, ofset, young])
    assert store(server, "records") == sorted(k + ".json" for k in (live, ofset, young))
    assert value(server, session, "import live\nlive.version") == "'1.0'"
    server.good("DELETE", "/v1/packages", status=204)
    wait_for(lambda: age(server, ofset, 3) or ofset not in store(server, "layers"), 60,
             "the sweeper")  # its last use is when the service lets go of it, so ever again
    # Who wants it back gets it.
    again = install(server, "gone", session=server.session())
    assert again["layer"] == gone and not again["cached"], again
    data = server.data
    assert server.stop() == 0
    # By size: the longest unused first. The session with the large one holds it.
    assert store(server, "layers") == sorted([live, gone, young])
    for layer, days in ((gone, 1), (young, 5), (live, 9)):
        age(server, layer, days)
    server = serve("--index-url", index.url, "--sweep", "0.1", "--packages-disk", "1300k",
                   "--packages-age", "8760h", data=data, env=ALONE)
    wait_for(lambda: len(store(server, "layers")) == 2, 60, "the sweeper")
    assert store(server, "layers") == sorted([gone, young])
    keep(server, "live", end=False)
    wait_for(lambda: len(store(server, "layers")) == 2, 60, "the sweeper")
    assert store(server, "layers") == sorted([gone, live])
    assert gb("serve", "--packages-disk", "many", "--data", data).code == 2
    assert gb("serve", "--packages-age", "-1", "--data", data).code == 2


def test_what_is_loaded_already(serve, index):
    """Versions are picked that go together with what every box has in memory, or it is refused."""
    index.wheel("numpy", "999.0")
    index.wheel("counts", "1.0", requires=["numpy"])
    index.wheel("counts", "2.0", requires=["numpy>=999"])
    index.wheel("deeper", "1.0", requires=["counts==2.0"])
    index.wheel("iniconfig", "999.0")  # pytest needs one, so /usr has one
    server = serve("--index-url", index.url, "--preload", "numpy", env=ALONE)
    session = server.session()
    loaded = value(server, session, "import numpy\nprint(end=numpy.__version__)\n0")
    loaded = server.run(session, "numpy.__version__")["result"]["text/plain"].strip("'")
    for wanted in ("counts==2.0", "deeper", "numpy==999.0", "numpy>=999"):
        detail = refused(server, 409, "package-preloaded", wanted, session=session)
        assert "numpy 999.0" in detail and f"numpy {loaded}" in detail, detail
    # The newest that fits, beside what is loaded, which the index does not even have.
    reply = install(server, "counts", "numpy", session=session, newest=True)
    assert [(p["name"], p["version"]) for p in reply["installed"]] == [("counts", "1.0")], reply
    assert [(p["name"], p["version"]) for p in reply["present"]] == [("numpy", loaded)], reply
    assert value(server, session, "import counts\ncounts.version, numpy.__version__"
                 ) == f"('1.0', '{loaded}')"
    assert install(server, f"numpy=={loaded}", session=session)["installed"] == []
    # What is in /usr but not in memory can be had newer.
    assert [p["name"] for p in install(server, "iniconfig", session=session)["present"]] == [
        "iniconfig"]
    install(server, "iniconfig", session=session, newest=True)
    assert value(server, session, "import iniconfig\niniconfig.version") == "'999.0'"


FOUR = ("requests", "six", "humanize", "ujson")


def test_four_packages(serve, index):
    """What the next test takes from the real index, from one of ours: one of them is compiled."""
    index.wheel("requests", "999.0", requires=["six"])
    index.wheel("six", "999.0")
    index.wheel("humanize", "999.0")
    index.add(*make_compiled_wheel("ujson", "999.0"))
    server = serve("--index-url", index.url, env=ALONE)
    session = server.session()
    reply = install(server, *FOUR, session=session, newest=True)
    assert [p["name"] for p in reply["installed"]] == sorted(FOUR), reply
    assert value(server, session, "import requests, six, humanize, ujson\n"
                                  "requests.version, ujson.encode_basestring('a'), "
                                  "ujson._json.__file__.startswith('/packages/ujson/')"
                 ) == "('999.0', '\"a\"', True)"


def test_the_real_index(serve, tmp_path):
    """Where it can be reached, as this machine's pip is configured."""
    probe = subprocess.run(["/usr/bin/python3", "-m", "pip", "download", "--no-deps", "--retries", "0",
                            "--dest", tmp_path, "humanize"], capture_output=True, timeout=300)
    if probe.returncode != 0:
        pytest.skip("there is no package index here that pip can reach")
    server = serve()
    session = server.session()
    reply = install(server, *FOUR, session=session, newest=True)
    installed = {p["name"]: p["version"] for p in reply["installed"]}
    there = {p["name"] for p in reply["present"]}  # six is, where pandas is loaded
    assert set(FOUR) <= {*installed, *there} and {"requests", "humanize", "ujson"} <= {*installed}
    receipt = server.run(session, "import requests, six, humanize, ujson\n"
                                  "print(humanize.naturalsize(10**6), ujson.dumps({'a': 1}))\n"
                                  "requests.__version__, requests.__file__, "
                                  "ujson.__file__.startswith('/packages/')")
    assert receipt["stdout"] == '1.0 MB {"a":1}\n', receipt
    assert receipt["result"]["text/plain"] == (
        f"('{installed['requests']}', '/packages/requests/__init__.py', True)"), receipt


def test_over_mcp(serve, index):
    index.wheel("alpha-one", "1.0")
    index.wheel("beta", "1.5")
    server = serve("--index-url", index.url, env=ALONE)
    old, new = Http(server), Http(server, MODERN)
    # With sessions: into that of the conversation, and of nobody else.
    done = old.ask(call("pip_install", package="alpha-one"))
    assert "1.0" in ran(done) and done["result"]["structuredContent"]["success"] is True
    assert "1.0" in ran(old.python("import alpha_one; print(alpha_one.version)"))
    assert "ModuleNotFoundError" in failed(new.python("import alpha_one"))
    # Without: into the caller's fresh boxes.
    ran(new.ask(call("pip_install", package="beta", version="1.5")))
    assert "1.5" in ran(new.python("import beta; print(beta.version)"))
    assert "nothere" in failed(old.ask(call("pip_install", package="nothere")))
    assert "package" in failed(old.ask(call("pip_install", package="x; rm -rf /")))
