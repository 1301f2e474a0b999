"""Packages: from an index of the test's own into live sessions and default sets, and what is refused."""

import concurrent.futures
import json
import os
import subprocess

import pytest

from mcp_wire import MODERN, Http, call, failed, ran
from net_kit import CA, names  # noqa: F401  a fixture
from package_kit import ALONE, PATIENCE, Index, make_sdist, make_wheel
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
    assert receipt["stdout"] == "Already there: gamma 2.0\n", receipt
    detail = refused(server, 409, "package-conflict", "delta>=2", session=session)
    assert "delta" in detail, detail
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
    refused(server, 422, "package-not-found", "nosuchthing", session=session)
    assert "1.0" in refused(server, 422, "version-not-found", "fine==9")
    refused(server, 422, "no-wheel", "source-only", session=session)
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


def test_too_large(serve, index):
    index.wheel("large", "1.0", {"large/__init__.py": "", "large/data.bin": os.urandom(3 << 20)})
    index.wheel("bomb", "1.0", {"bomb/__init__.py": "", "bomb/zeros": bytes(8 << 20)})
    server = serve("--index-url", index.url, "--package-size", "2m", env=ALONE)
    for name in ("large", "bomb"):
        detail = refused(server, 413, "packages-too-large", name)
        assert "--package-size" in detail
    assert store(server, "layers") == store(server, "work") == []


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
        return  # only root can make a small disk
    index.wheel("wide", "1.0", {f"wide/f{i}.bin": os.urandom(1 << 20) for i in range(8)})
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", small], check=True)
    try:
        data = small / "data"
        server = serve("--index-url", index.url, "--disk", "16m", data=data, env=ALONE)
        detail = refused(server, 503, "disk-full", "wide")
        assert "disk" in detail
        assert store(server, "layers") == store(server, "work") == []
        index.wheel("tiny", "1.0")
        assert install(server, "tiny")["success"]
        assert server.stop() == 0
    finally:
        subprocess.run(["umount", small], check=True)


def test_the_real_index(serve, tmp_path):
    """Where it can be reached, as this machine's pip is configured."""
    names = ("requests", "six", "humanize", "ujson")
    probe = subprocess.run(["/usr/bin/python3", "-m", "pip", "download", "--no-deps", "--retries", "0",
                            "--dest", tmp_path, "humanize"], capture_output=True, timeout=300)
    if probe.returncode != 0:
        return
    server = serve()
    session = server.session()
    reply = install(server, *names, session=session)
    there = {p["name"] for p in reply["installed"] + reply["present"]}
    assert set(names) <= there and {p["name"] for p in reply["installed"]} >= {"humanize", "ujson"}
    receipt = server.run(session, "import requests, six, humanize, ujson\n"
                                  "print(humanize.naturalsize(10**6), ujson.dumps({'a': 1}))\n"
                                  "ujson.__file__.startswith('/packages/')")
    assert receipt["stdout"] == '1.0 MB {"a":1}\n', receipt
    assert receipt["result"]["text/plain"] == "True"


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
