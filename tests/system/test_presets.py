"""Sets with pinned versions: `glovebox template add --lock`, presets, `template update`, `serve --set-up`.
What is in the preset data itself is in test_data.py."""

import os
import re
import signal
import subprocess

import pytest

from conftest import wait_for
from package_kit import ALONE, PATIENCE, Index, find_uv, make_wheel
from serve_kit import serve  # noqa: F401  a fixture

PRESETS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "presets")


@pytest.fixture
def index():
    index = Index()
    for made in (make_wheel("alpha-one", "1.0", requires=["beta"]), make_wheel("alpha-one", "2.0"),
                 make_wheel("beta", "1.5"), make_wheel("beta", "1.6")):
        index.add(*made)
    yield index
    index.close()


@pytest.fixture
def data(tmp_path):
    return str(tmp_path / "data")


@pytest.fixture
def template(gb, data, index):
    def run(*args, code=0, url=None):
        r = gb("template", *args, "--data", data, *(
            ("--index-url", url or index.url) if args[0] in ("add", "update") else ()),
            env=ALONE, timeout=PATIENCE)
        assert r.code == code, (r.code, r.out, r.err)
        return r

    return run


def locked(index, *pins, spoil=None):
    """A lock file of these versions; the hashes of @spoil are wrong."""
    text = "# a comment\n"
    for pin in pins:
        name, _, version = pin.partition("==")
        digest = index.digest(f"{name.replace('-', '_')}-{version}-py3-none-any.whl")
        text += f"{pin} \\\n    --hash=sha256:{'0' * 64 if name == spoil else digest}\n"
    return text


@pytest.fixture
def lock(index, tmp_path):
    """Writes a lock file."""

    def write(*pins, text=None, **how):
        path = tmp_path / "some.lock"
        path.write_text(text if text is not None else locked(index, *pins, **how))
        return str(path)

    return write


def test_lock(template, lock, gb, data, index):
    made = template("add", "lab", "--lock", lock("alpha-one==1.0", "beta==1.5"), "--preload", "beta")
    assert "lab: looking up the packages" in made.err and re.search(r"fetching, [12] of 2 packages, .* kB of .* kB", made.err)
    code = "import alpha_one, beta; print(alpha_one.version, beta.version)"
    r = gb("run", "--data", data, "--template", "lab", "-c", code)
    assert r.out == "1.0 1.5\n", r
    listed = template("list", "--json").receipt["templates"][1]
    assert listed["packages"] == ["alpha-one==1.0", "beta==1.5"] and listed["preload"] == "beta"
    # Again: everything is there already.
    fetched = len(index.fetched())
    template("add", "other", "--lock", lock("alpha-one==1.0", "beta==1.5"), "--preload", "none")
    assert len(index.fetched()) == fetched
    # One more is one more file.
    template("add", "lab", "--replace", "--lock", lock("alpha-one==2.0", "beta==1.5"), "--preload", "none")
    assert len(index.fetched()) == fetched + 1
    assert gb("run", "--data", data, "--template", "lab", "-c", code).out == "2.0 1.5\n"


def test_files_that_are_not_what_the_lock_says(template, lock, index, data):
    path = lock("alpha-one==1.0", "beta==1.5", spoil="beta")
    assert "hash" in template("add", "lab", "--lock", path, "--preload", "none", code=1).err
    # The index tells the right hash and delivers something else.
    path = lock("alpha-one==1.0", "beta==1.5")
    good = index.files["beta-1.5-py3-none-any.whl"]
    page = index.page("beta")
    index.files["beta-1.5-py3-none-any.whl"] = good[:-1] + b"x"
    index.page = lambda project: page if project == "beta" else Index.page(index, project)
    r = template("add", "lab", "--lock", path, "--preload", "none", code=1)
    assert "does not match its hash" in r.err, r.err
    assert [t["name"] for t in template("list", "--json").receipt["templates"]] == ["system"]
    index.files["beta-1.5-py3-none-any.whl"] = good
    template("add", "lab", "--lock", path, "--preload", "none")


H = "0" * 64
BAD_LOCKS = [
    ("", "is empty"),
    ("# only a comment\n", "is empty"),
    ("beta==1.5\n", "has no hash"),
    ("beta==1.5 \\\n    --hash=md5:00\n", "line 2"),
    (f"beta==1.5 \\\n    --hash=sha256:{H[1:]}\n", "line 2"),
    (f"beta>=1.5 \\\n    --hash=sha256:{H}\n", "line 1"),
    (f"beta @ https://localhost/b.whl \\\n    --hash=sha256:{H}\n", "line 1"),
    ("--index-url https://localhost/simple\n", "line 1"),
    ("-r other.txt\n", "line 1"),
    (f"beta==1.5 --config-settings=x \\\n    --hash=sha256:{H}\n", "line 1"),
    (f"beta==1.5 ; python_version > '3' --pre \\\n    --hash=sha256:{H}\n", "line 1"),
    (f"    --hash=sha256:{H}\n", "line 1"),
    (f"../etc==1 \\\n    --hash=sha256:{H}\n", "line 1"),
    (f"beta==1.5;rm -rf / \\\n    --hash=sha256:{H}\n", None),
    ("beta==1.5 \x1b[31m\n", "line 1"),
]


def test_bad_lock_files(template, lock, tmp_path, data, index):
    for text, message in BAD_LOCKS:
        r = template("add", "lab", "--lock", lock(text=text), "--preload", "none",
                     code=2 if message else 1)
        assert (message or "") in r.err and "\x1b" not in r.err, (text, r.err)
    for path, message in ((tmp_path / "nothing", "No such file"), (tmp_path, "not a lock file"),
                          ("/dev/zero", "not a lock file")):
        r = template("add", "lab", "--lock", path, code=2 if "not a" in message else 1)
        assert message in r.err, r.err
    os.mkfifo(tmp_path / "fifo")
    assert "not a lock file" in template("add", "lab", "--lock", tmp_path / "fifo", code=2).err
    (tmp_path / "zero").write_bytes(b"beta==1.5\0\n")
    assert "not a text file" in template("add", "lab", "--lock", tmp_path / "zero", code=2).err
    with open(tmp_path / "huge", "wb") as file:
        file.truncate(5 << 20)
    assert "not a lock file" in template("add", "lab", "--lock", tmp_path / "huge", code=2).err
    assert [t["name"] for t in template("list", "--json").receipt["templates"]] == ["system"]
    assert not index.fetched()


def test_bad_options(template):
    for args, message in (
            (("add", "lab"), "or the name of a preset: data, minimal, ml"),
            (("add", "lab", "--preset", "nope"), "there is no preset 'nope'; there are: data, minimal, ml"),
            (("add", "lab", "--preset", "data", "--packages", "beta"), "give one of"),
            (("add", "lab", "--preset", "data", "--venv", "/x"), "leave out --python and --venv"),
            (("add", "lab", "--lock", "x", "--packages", "beta"), "give one of"),
            (("check", "lab", "--preset", "data"), "are for template add"),
            (("update", "lab", "--preset", "data"), "template update takes"),
            (("update", "lab", "--lock", "/tmp/x"), "is not a preset"),
            (("update", "lab", "--packages", "beta"), "say where to write"),
            (("update",), "no NAME")):
        assert message in template(*args, code=2).err, args


def test_goes_on_where_it_was(template, lock, index, gb, data):
    """A file is missing, the index is gone, or the user loses patience: what was fetched stays."""
    names = [f"part{i}" for i in range(70)]
    for name in names:
        index.wheel(name, "1.0")
    path = lock(*(f"{name}==1.0" for name in names))
    file = f"{names[-1]}-1.0-py3-none-any.whl"
    pages = {name: index.page(name) for name in index.projects}
    index.page = pages.__getitem__
    last = index.files.pop(file)
    r = template("add", "lab", "--lock", path, "--preload", "none", code=1)
    assert names[-1] in r.err and "404" in r.err, r.err
    first = set(index.fetched())
    assert len(first) >= 64
    # It hangs in the middle, and is interrupted.
    index.files[file] = last
    index.gate.clear()
    process = gb.start("template", "add", "lab", "--lock", path, "--preload", "none", "--data", data,
                       "--index-url", index.url, env=ALONE)
    seen = len(index.seen)
    wait_for(lambda: len(index.seen) > seen, what="a request to the index")
    process.send_signal(signal.SIGINT)
    assert gb.finish(process).code == -signal.SIGINT
    index.gate.set()
    # The index is gone.
    r = template("add", "lab", "--lock", path, "--preload", "none", code=1, url="http://127.0.0.1:9/simple")
    assert "index" in r.err, r.err
    # It is back: only what is missing is fetched.
    index.seen.clear()
    template("add", "lab", "--lock", path, "--preload", "none")
    assert 1 <= len(index.fetched()) <= 70 - 64, index.fetched()
    assert gb("run", "--data", data, "--template", "lab", "-c",
              f"import part0, {names[-1]}; print(part0.version)").out == "1.0\n"


def test_full_disk(gb, lock, index, tmp_path, is_root):
    if not is_root:
        pytest.skip("only root can make a small disk")
    index.wheel("wide", "1.0", {f"wide/f{i}.bin": os.urandom(1 << 20) for i in range(8)})
    small = tmp_path / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=6m", "tmpfs", small], check=True)
    try:
        line = ("template", "add", "lab", "--lock", lock("wide==1.0"), "--preload", "none", "--data",
                small / "data", "--index-url", index.url)
        r = gb(*line, env={**ALONE, "GLOVEBOX_UV": "none"}, timeout=PATIENCE)
        assert r.code == 1 and "disk" in r.err, r.err
        subprocess.run(["mount", "-o", "remount,size=64m", small], check=True)
        r = gb(*line, env={**ALONE, "GLOVEBOX_UV": "none"}, timeout=PATIENCE)
        assert r.code == 0, r.err
    finally:
        subprocess.run(["umount", small], check=True)


def test_update(template, lock, index, tmp_path):
    """A lock file of the newest versions, and what has changed."""
    if find_uv() is None:
        pytest.skip("there is no uv, and it could not be fetched")
    path = lock("alpha-one==1.0", "beta==1.5")
    r = template("update", "lab", "--packages", "alpha-one<2", "--lock", path)
    assert r.out == "  beta 1.5 -> 1.6\n" and f"wrote {path}" in r.err, r
    with open(path, encoding="utf-8") as file:
        text = file.read()
    assert "alpha-one==1.0 \\\n    --hash=sha256:" in text and "://" not in text
    assert index.digest("beta-1.6-py3-none-any.whl") in text
    assert template("update", "lab", "--packages", "alpha-one<2", "--lock", path).out == "no changes\n"
    template("add", "lab", "--lock", path, "--preload", "none")
    r = template("update", "lab", "--packages", "alpha-one>=2", "--lock", path)
    assert r.out == "- beta 1.6\n  alpha-one 1.0 -> 2.0\n", r.out
    fresh = tmp_path / "fresh.lock"
    assert template("update", "lab", "--packages", "beta", "--lock", fresh).out == "+ beta 1.6\n"
    # Only wheels for Linux, and for these versions of Python.
    for tag in ("cp311-cp311-manylinux_2_28_x86_64", "cp310-cp310-manylinux_2_28_x86_64",
                "cp311-abi3-manylinux2014_aarch64", "cp314-cp314t-manylinux_2_28_x86_64",
                "cp311-cp311-win_amd64", "cp311-cp311-musllinux_1_2_x86_64", "cp312-cp312-macosx_11_0_arm64"):
        index.add(*make_wheel("many", "1.0", {"many.py": f"tag = {tag!r}\n"}, tag=tag))
    template("update", "lab", "--packages", "many", "--lock", fresh)
    kept = fresh.read_text()
    assert kept.count("--hash") == 2
    for tag in ("cp311-cp311-manylinux_2_28_x86_64", "cp311-abi3-manylinux2014_aarch64"):
        assert index.digest(f"many-1.0-{tag}.whl") in kept
    for wanted, message in (("nope", "nope"), ("beta>9", "beta"), ("beta; rm", "not a requirement"),
                            ("--index-url=x", "not a requirement")):
        before = fresh.read_text()
        r = template("update", "lab", f"--packages={wanted}", "--lock", fresh,
                     code=2 if "requirement" in message else 1)
        assert message in r.err and fresh.read_text() == before, r.err
    r = template("update", "lab", "--packages", "beta", "--lock", tmp_path / "no" / "such", code=1)
    assert "No such file" in r.err
    assert not [name for name in os.listdir(tmp_path) if name.endswith(".new")]


def test_preset_without_an_index(gb, data, serve):
    env = {**ALONE, "GLOVEBOX_DEFAULT_TEMPLATE": None}
    r = gb("template", "add", "data", "--data", data, "--index-url", "none", env=env, timeout=PATIENCE)
    assert r.code == 1 and "no package index is configured" in r.err, r.err
    # A service does without, and says so.
    server = serve("--set-up", "--index-url", "none", data=data, env=env)
    assert server.good("GET", "/health")["template"] == "system"
    assert server.good("POST", "/v1/execute", {"code": "6 * 7"})["status"] == "ok"


def test_set_up_once(template, lock, gb, data, serve):
    """What is there stays, whatever it is."""
    template("add", "data", "--lock", lock("beta==1.5"), "--preload", "none")
    server = serve("--set-up", "--index-url", "none", data=data,
                   env={**ALONE, "GLOVEBOX_DEFAULT_TEMPLATE": None})
    assert server.good("GET", "/health")["template"] == "data"
    receipt = server.good("POST", "/v1/execute", {"code": "import beta; print(beta.version)"})
    assert receipt["stdout"] == "1.5\n"


@pytest.mark.parametrize("name", ["data", "minimal", "ml"])
def test_lock_files_of_presets(name):
    """They are made of their lists, for all versions of Python that presets are for, and name no index."""
    with open(os.path.join(PRESETS, name + ".in"), encoding="utf-8") as file:
        wanted = [line.partition("#")[0].strip() for line in file]
    with open(os.path.join(PRESETS, name + ".lock"), encoding="utf-8") as file:
        text = file.read()
    wanted = {re.sub(r"[-_.]+", "-", re.split("[[=]", line)[0]).lower() for line in wanted if line}
    have = set(re.findall(r"^([a-z0-9-]+)==", text, re.M))
    assert wanted <= have, wanted - have
    assert "://" not in text and "@" not in text
    for block in re.split(r"\n(?=[a-z])", text):
        assert block.startswith("#") or re.search(r"--hash=sha256:[0-9a-f]{64}", block), block[:200]
    text.encode("ascii")
