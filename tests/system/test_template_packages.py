"""`glovebox template add --packages`: sets of packages as templates, alone and through the service."""

import concurrent.futures
import json
import os
import re
import shutil

import pytest

from conftest import wait_for
from mcp_wire import Http, request
from package_kit import ALONE, PATIENCE, make_wheel
from serve_kit import serve  # noqa: F401  a fixture

ANY = None  # exit code
SITE = "/opt/python/lib/%s/site-packages" % os.path.basename(os.path.realpath("/usr/bin/python3"))

GAMMA = {"gamma/__init__.py": "version = '2.0'\n", "gamma/deep.py": "", "_gamma.py": "",
         "tests/__init__.py": "raise SystemExit\n", "space/inner/__init__.py": "here = 1\n"}


@pytest.fixture
def wheels(tmp_path):
    """A directory of wheels."""
    path = tmp_path / "wheels"
    path.mkdir(mode=0o755)
    for made in (make_wheel("alpha-one", "1.0", requires=["beta>=1"]), make_wheel("beta", "1.5"),
                 make_wheel("gamma", "2.0", GAMMA), make_wheel("delta", "1.0"),
                 make_wheel("broken", "1.0", {"broken.py": "raise RuntimeError('not today')\n"}),
                 make_wheel("needs-blocked", "1.0", requires=["delta"])):
        (path / made[0]).write_bytes(made[1])
    return path


@pytest.fixture
def data(tmp_path):
    return str(tmp_path / "data")


@pytest.fixture
def template(gb, data, wheels):
    """`glovebox template` in that data directory, with those wheels and no other."""

    def run(action, *args, code=0, index=True):
        options = ("--index-url", "none", *(("--wheels", wheels) if index else ()))
        r = gb("template", action, *args, *(options if action == "add" else ()), "--data", data,
               env=ALONE, timeout=PATIENCE)
        assert code == ANY or r.code == code, (r.code, r.out, r.err)
        return r

    return run


@pytest.fixture
def box(gb, data):
    """What a program prints in a box of a template."""

    def run(code, *options, template="lab"):
        r = gb("run", "--data", data, "--template", template, *options, "-c", code)
        assert r.code == 0, (r.out, r.err)
        return r.out

    return run


def definition(data, name="lab"):
    with open(os.path.join(data, "templates", name + ".json"), encoding="utf-8") as f:
        return json.load(f)


def tamper(data, name="lab", **changes):
    path = os.path.join(data, "templates", name + ".json")
    changed = {**definition(data, name), **changes}
    with open(path, "w", encoding="utf-8") as f:
        json.dump(changed, f)


def layers(data):
    path = os.path.join(data, "packages", "layers")
    return sorted(os.listdir(path)) if os.path.isdir(path) else []


def test_set(template, box, gb, data, serve, tmp_path, wheels):
    made = template("add", "lab", "--packages", "alpha-one>=1,<2, gamma", "--json").receipt
    assert made["kind"] == "packages" and made["packages"] == ["alpha-one>=1,<2", "gamma"]
    assert layers(data) == [made["layer"]]
    # The packages that were named, not what they need, and nothing that only came along.
    assert made["preload"] == "alpha_one gamma space.inner", made
    listed = template("list")
    assert re.search(r"^lab +packages +[0-9.]+ kB +alpha-one>=1,<2, gamma$", listed.out, re.M), listed.out
    assert re.search(r"^system +python +/usr/bin/python3  \(default\)$", listed.out, re.M), listed.out
    (_, entry) = template("list", "--json").receipt["templates"]
    assert entry["packages"] == made["packages"] and entry["problem"] is None and entry["bytes"] > 0
    checked = template("check", "lab").out
    assert "requested  alpha-one>=1,<2\n" in checked and "package    beta 1.5\n" in checked
    code = ("import os, subprocess, alpha_one, beta, gamma\n"
            "print(alpha_one.version, beta.__file__, gamma.__file__, os.access(beta.__file__, os.W_OK))\n"
            "subprocess.run(['python3', '-c', 'import space.inner as s; print(s.__file__)'])\n")
    expected = (f"1.0 {SITE}/beta.py {SITE}/gamma/__init__.py False\n"
                f"{SITE}/space/inner/__init__.py\n")
    assert box(code) == expected
    shared = tmp_path / "shared"
    shared.mkdir()
    assert box(code, "--volume", f"{shared}:/data") == expected
    # Boxes of others see nothing of it.
    assert gb("run", "-c", "import beta").code == 1
    server = serve("--index-url", "none", "--wheels", str(wheels), data=data, env=ALONE)
    (_, seen) = server.good("GET", "/v1/templates")["templates"]
    assert seen == {"name": "lab", "kind": "packages", "default": False, "preload": made["preload"],
                    "requirements": made["packages"],
                    "packages": [{"name": "alpha-one", "version": "1.0"}, {"name": "beta", "version": "1.5"},
                                 {"name": "gamma", "version": "2.0"}]}
    session = server.session(template="lab")
    receipt = server.run(session, "import sys\n"
                                  "[n in sys.modules for n in ('alpha_one', 'space.inner', 'beta')]")
    assert receipt["result"]["text/plain"] == "[True, True, False]" and receipt["template"] == "lab"
    assert server.run(session, code)["stdout"] == expected
    for body in ({}, {"mode": "script"}):
        receipt = server.good("POST", "/v1/execute", {"code": code, "template": "lab", **body})
        assert receipt["stdout"] == expected, receipt
    command = {"command": "python3 -c 'import beta; print(beta.version)'"}
    assert server.good("POST", f"/v1/sessions/{session}/commands", command)["stdout"] == "1.5\n"
    # More packages go over its own, by the same rules as elsewhere.
    session = server.session(template="lab", packages=["delta"])
    assert server.run(session, "import alpha_one, delta; print(delta.__file__)")["stdout"] == "/packages/delta.py\n"
    added = server.good("POST", f"/v1/sessions/{session}/packages", {"packages": ["needs-blocked", "beta"]})
    assert [p["name"] for p in added["installed"]] == ["needs-blocked"], added
    assert [p["name"] for p in added["present"]] == ["beta"], added
    fresh = server.session(template="lab")
    assert server.run(fresh, "%pip install -q delta")["status"] == "ok"
    receipt = server.run(fresh, "import beta, delta; print(delta.version, beta.__file__)")
    assert receipt["stdout"] == f"1.0 {SITE}/beta.py\n", receipt
    receipt = server.good("POST", "/v1/execute", {"template": "lab", "code": "%pip install delta"})
    assert receipt["status"] == "ok" and "delta" in receipt["stdout"], receipt
    # The same packages over another template are another set.
    session = server.session(packages=["needs-blocked"])
    assert "No module named 'beta'" in server.run(session, "import delta, beta")["stderr"]


def test_preload(template, data):
    """What it preloads can be said, and what cannot be imported is told."""
    made = template("add", "lab", "--packages", "gamma", "--packages", "beta", "--preload", "beta",
                    "--json").receipt
    assert made["preload"] == "beta" and made["packages"] == ["gamma", "beta"]
    r = template("add", "bad", "--packages", "broken", "--preload", "broken", code=2)
    assert "broken: RuntimeError: not today" in r.err
    r = template("add", "bad", "--packages", "broken,beta")
    assert "not preloaded: broken: RuntimeError: not today" in r.err
    assert "broken" not in definition(data, "bad")["preload"].split()
    assert definition(data, "bad")["preload"].split()[-1] == "beta"
    # Nothing at all is not a template, and neither is what only the machine has.
    r = template("add", "own", "--packages", "beta; python_version < '3'", "--preload", "none", code=1)
    assert "none of these packages applies to this Python" in r.err
    r = template("add", "own", "--packages", "pip", "--preload", "none", code=1)
    assert "no such package" in r.err
    # Unchecked, with the modules that are known.
    made = template("add", "fast", "--packages", "delta", "--no-check", "--json").receipt
    assert made["version"] is None and made["preload"].split()[-1] == "delta"
    r = template("add", "fast", "--packages", "beta", "--preload", "beta", code=1)
    assert "template 'fast' already exists" in r.err
    template("add", "fast", "--packages", "beta", "--preload", "beta", "--replace")
    assert definition(data, "fast")["packages"] == ["beta"]


def test_apart_from_the_system(template, box, wheels):
    """The set is all that there is, for programs and for the Pythons that they start, whatever the
    system has."""
    for made in (make_wheel("numpy", "99.0"), make_wheel("tool", "1.0", {
            "tool.py": "def main():\n    import numpy, sys\n    print(numpy.version, sys.prefix)\n",
            "tool-1.0.dist-info/entry_points.txt": "[console_scripts]\ntool = tool:main\n"})):
        (wheels / made[0]).write_bytes(made[1])
    template("add", "lab", "--packages", "numpy>=99, tool")
    code = ("import importlib.util, numpy, os, subprocess, sys\n"
            "print(numpy.version, numpy.__file__, sys.executable, sys.prefix)\n"
            "print([p for p in sys.path if 'dist-packages' in p])\n"
            "print([importlib.util.find_spec(n) for n in ('pip', 'yaml', 'pandas', 'apt')])\n"
            "for line in (['tool'], ['python', '-m', 'tool'], [sys.executable, '-c', 'import yaml'],\n"
            "             ['python3', '-c', 'import tool; tool.main()']):\n"
            "    sys.stdout.flush()\n"
            "    print(subprocess.run(line, stderr=subprocess.DEVNULL).returncode)\n"
            "try:\n    open('/opt/python/pyvenv.cfg', 'w')\n"
            "except OSError as error:\n    print(type(error).__name__)\n")
    expected = (f"99.0 {SITE}/numpy.py /opt/python/bin/python3 /opt/python\n[]\n"
                "[None, None, None, None]\n"
                "99.0 /opt/python\n0\n0\n1\n99.0 /opt/python\n0\nOSError\n")
    assert box(code) == expected
    # The directory is not there for others.
    assert box("import os; print(os.path.exists('/opt/python'))", template="default") == "False\n"


BAD = [
    (["os"], 2, "os is blocked"),
    (["alpha-one", "beta; rm -rf /"], 2, "not a requirement"),
    (["../../etc"], 2, "not a requirement"),
    (["--index-url=x"], 2, "not a requirement"),
    (["alpha-one,"], 2, "not a requirement"),
    (["a b c"], 2, "not a requirement"),
    (["alpha-one[x"], 2, "not a requirement"),
    ([""], 2, "--packages"),
    (["x" * 2000], 2, "400 bytes"),
    ([",".join(f"p{i}" for i in range(65))], 2, "at most 64"),
    (["alpha-one @ https://localhost/a,b.whl"], 2, "URL"),
    (["nope"], 1, "no such package"),
    (["alpha-one>=9"], 1, "the index has 1.0"),
]


def test_bad_input(template, data):
    for lists, code, message in BAD:
        r = template("add", "lab", "--preload", "none",
                     *(f"--packages={text}" for text in lists), code=code)
        assert message in r.err, (lists, r.err)
    for options, code, message in (
            (["--packages", "beta", "--allowed-packages", "gamma"], 2, "list of allowed packages"),
            (["--packages", "needs-blocked", "--blocked-packages", "delta"], 1, "delta, a dependency"),
            (["--packages", "beta", "--venv", "/nowhere"], 2, "leave out --python and --venv"),
            (["--packages", "beta", "--python", "/usr/bin/python3"], 2, "leave out --python and --venv"),
            ([], 2, "or the name of a preset")):
        assert message in template("add", "lab", "--preload", "none", *options, code=code).err
    assert "no package index" in template("add", "lab", "--packages", "beta", "--preload", "none",
                                          code=1, index=False).err
    assert "for template add" in template("check", "lab", "--packages", "beta", code=2).err
    assert "not a valid template name" in template("add", "../lab", "--packages", "beta", code=2).err
    assert layers(data) == [] and len(template("list", "--json").receipt["templates"]) == 1


def test_default(template, gb, data, serve, wheels, tmp_path):
    """--default-template: what a box has for which nobody names a template, everywhere."""
    template("add", "data", "--packages", "gamma,beta", "--preload", "gamma")
    env = {**ALONE, "GLOVEBOX_DEFAULT_TEMPLATE": None}
    where = "import beta, sys; print(sys.prefix, 'gamma' in sys.modules)"
    r = gb("run", "--data", data, "--json", "-c", where, env=env)
    assert r.receipt["template"] == "data" and r.receipt["stdout"].startswith("/opt/python "), r
    r = gb("run", "--data", data, "--template", "system", "--json", "-c", where, env=env)
    assert r.receipt["template"] == "system" and "No module named 'beta'" in r.receipt["stderr"]
    r = gb("run", "--data", data, "--default-template", "nope", "-c", "1", env=env)
    assert r.code == 2 and "no such template: 'nope'; available: system, data" in r.err
    r = gb("doctor", "--data", data, "--json", env=env, timeout=PATIENCE)
    assert r.receipt["host"]["template"] == "data", r
    server = serve("--index-url", "none", "--wheels", str(wheels), data=data, env=env, preload="auto")
    assert server.good("GET", "/health")["template"] == "data"
    first, second = server.good("GET", "/v1/templates")["templates"]
    assert (first["name"], first["default"], second["name"], second["default"]) == (
        "data", True, "system", False)
    for wanted in ({}, {"template": "data"}, {"template": "default"}, {"template": "python:3.12"}):
        receipt = server.good("POST", "/v1/execute", {"code": where, **wanted})
        assert receipt["template"] == "data" and receipt["stdout"] == "/opt/python True\n", receipt
    assert server.good("POST", "/v1/execute", {"code": "import sys; print(sys.prefix)",
                                               "template": "system"})["stdout"] == "/usr\n"
    # A model is told what it has to work with.
    client = Http(server)
    (tool,) = [tool for tool in client.ask(request("tools/list"))["result"]["tools"]
               if tool["name"] == "execute_python"]
    assert "Installed are gamma 2.0, beta 1.5 and the standard library" in tool["description"], tool
    # More can be installed into its sessions, over what it has.
    session = server.session()
    added = server.good("POST", f"/v1/sessions/{session}/packages", {"packages": ["alpha-one"]})
    assert [p["name"] for p in added["installed"]] == ["alpha-one"], added
    code = ("import subprocess, alpha_one, beta; print(alpha_one.__file__, beta.__file__)\n"
            "subprocess.run(['python3', '-c', 'import alpha_one, gamma; print(alpha_one.__file__)'])")
    assert server.run(session, code)["stdout"] == (
        f"/packages/alpha_one.py {SITE}/beta.py\n/packages/alpha_one.py\n")
    # Replaced or removed: this service keeps what it began with.
    template("remove", "data")
    assert server.good("POST", "/v1/execute", {"code": where})["stdout"] == "/opt/python True\n"
    assert server.good("GET", "/v1/templates")["templates"][0]["name"] == "data"


def test_default_that_cannot_be_used(template, gb, data, serve):
    """auto does without it and says so, a name is a name."""
    template("add", "data", "--packages", "beta", "--preload", "none")
    tamper(data, "data", made_for="/usr/bin/python3.1")
    env = {**ALONE, "GLOVEBOX_DEFAULT_TEMPLATE": None}
    r = gb("run", "--data", data, "-c", "import sys; print(sys.prefix)", env=env)
    assert (r.code, r.out) == (0, "/usr\n") and "using the system's Python instead" in r.err, r
    r = gb("run", "--data", data, "--default-template", "data", "-c", "1", env=env)
    assert r.code == 2 and "add it again with --replace" in r.err
    server = serve(data=data, env=env)
    assert server.good("GET", "/health")["template"] == "system"
    r = gb("serve", "--data", str(data) + "2", "--default-template", "data", env=env)
    assert r.code == 125 and "no such template: 'data'" in r.err, r


def test_two_at_once(template, data, box):
    def add(name):
        return template("add", name, "--packages", "alpha-one", "--preload", "alpha_one", code=ANY)

    with concurrent.futures.ThreadPoolExecutor() as pool:
        results = list(pool.map(add, ["lab", "lab", "other"]))
    assert sorted(r.code for r in results[:2]) == [0, 1] and results[2].code == 0, results
    assert "already" in next(r.err for r in results if r.code)
    assert layers(data) == [definition(data)["layer"]] == [definition(data, "other")["layer"]]
    assert box("import beta; print(beta.version)", template="other") == "1.5\n"


def test_layer_stays_as_long_as_it_is_named(template, data, serve, wheels):
    template("add", "lab", "--packages", "alpha-one", "--preload", "alpha_one")
    (layer,) = layers(data)
    options = ("--sweep", "0.2", "--packages-age", "0", "--packages-disk", "0", "--idle-templates", "0",
               "--index-url", "none", "--wheels", str(wheels))
    server = serve(*options, data=data, env=ALONE)

    def swept():
        """A layer that nobody has comes and goes."""
        session = server.session(packages=["delta"])
        assert len(layers(data)) == 2
        server.good("DELETE", f"/v1/sessions/{session}", status=204)
        wait_for(lambda: len(layers(data)) < 2, what="the layer that nobody has")

    swept()
    assert layers(data) == [layer]
    session = server.session(template="lab")
    template("remove", "lab")
    swept()
    assert layers(data) == [layer]
    code = "import beta; print(beta.__file__)"
    assert server.run(session, "import os; os._exit(1)")["session_lost"]
    assert server.run(session, code, accept_loss=True)["stdout"] == f"{SITE}/beta.py\n"
    server.good("DELETE", f"/v1/sessions/{session}", status=204)
    wait_for(lambda: layers(data) == [], what="the layer of the template")


def test_tampered(template, data, serve, gb):
    template("add", "lab", "--packages", "beta", "--preload", "beta")
    good = definition(data)
    server = serve(data=data, env=ALONE)
    os.makedirs(os.path.join(data, "packages", "x"), exist_ok=True)
    for changes, message in (({"layer": "../x"}, "this version does not understand"),
                             ({"layer": 7}, "this version does not understand"),
                             ({"packages": []}, "this version does not understand"),
                             ({"packages": ["-r /etc/passwd"]}, "this version does not understand"),
                             ({"layer": ""}, "this version does not understand"),
                             ({"python": "/usr/bin/python3"}, "this version does not understand"),
                             ({"layer": "0" * 64}, "are gone from the store"),
                             ({"made_for": "/usr/bin/python3.1"}, "are for /usr/bin/python3.1, but")):
        tamper(data, **{**good, **changes})
        assert message in template("check", "lab", code=1).err
        assert message in template("list").out
        r = gb("run", "--data", data, "--template", "lab", "-c", "print(1)")
        assert r.code == 2 and message in r.err and r.out == "", r
        server.problem(503, "POST", "/v1/sessions", {"template": "lab"})
        server.problem(503, "POST", "/v1/execute", {"template": "lab", "code": "1"})
        assert [t["name"] for t in server.good("GET", "/v1/templates")["templates"]] == ["system"]
    tamper(data, **good)
    template("check", "lab")


def test_layer_that_is_gone(template, data, serve, gb):
    """Removed by hand, also while a service has the template warm: no box without its packages."""
    template("add", "lab", "--packages", "beta", "--preload", "none")
    server = serve(data=data, env=ALONE)
    code = "import beta; print(beta.version)"
    assert server.run(server.session(template="lab"), code)["stdout"] == "1.5\n"
    shutil.rmtree(os.path.join(data, "packages", "layers", definition(data)["layer"]))
    server.problem(503, "POST", "/v1/sessions", {"template": "lab"})
    for r in (template("check", "lab", code=1),
              gb("run", "--data", data, "--template", "lab", "-c", code)):
        assert "are gone from the store" in r.err and "--replace" in r.err and r.out == "", r
    assert "are gone" in template("check", "lab", "--json", code=1).receipt["problem"]
    template("add", "lab", "--packages", "beta", "--preload", "none", "--replace")
    assert server.run(server.session(template="lab"), code)["stdout"] == "1.5\n"
