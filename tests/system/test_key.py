"""`glovebox key`: keys are made, listed and revoked; the token is nowhere but on standard output."""

import os
import re
import sqlite3
import stat
import subprocess

import pytest

TOKEN = re.compile(r"gb_([0-9a-f]{12})_([0-9a-f]{64})\n")


@pytest.fixture
def data(tmp_path):
    return str(tmp_path / "state" / "glovebox")


@pytest.fixture
def key(gb, data):
    """`glovebox key` in that data directory; fails the test on any exit code but @code."""

    def run(*args, code=0, **how):
        r = gb("key", *args, "--data", data, **how)
        assert r.code == code, (r.code, r.out, r.err)
        assert r.err.count("\n") <= 1, r.err
        return r

    return run


def made(key, *options):
    match = TOKEN.fullmatch(key("create", *options).out)
    assert match
    return match[1]


def listed(key):
    return {k["id"]: k for k in key("list", "--json").receipt["keys"]}


def test_create(key, data):
    r = key("create", "--name", "my laptop")
    token = TOKEN.fullmatch(r.out)
    assert token and token[1] in r.err and token[2] not in r.err
    assert stat.S_IMODE(os.stat(data).st_mode) == 0o700
    for name in os.listdir(data):
        path = os.path.join(data, name)
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
        with open(path, "rb") as f:
            content = f.read()
        assert token[2].encode() not in content and bytes.fromhex(token[2]) not in content


def test_create_json(key):
    r = key("create", "--json", "--name", "b\u00e4r", "--sessions", "3", "--executions", "2",
            "--rate", "600")  # fmt: skip
    made_key = r.receipt
    assert r.err == "" and TOKEN.fullmatch(made_key.pop("token") + "\n")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", made_key["created"])
    assert made_key["name"] == "b\u00e4r" and made_key["rate_per_minute"] == 600
    assert made_key["sessions"] == 3 and made_key["executions"] == 2
    assert made_key["last_used"] is None and made_key["revoked"] is None
    assert listed(key) == {made_key["id"]: made_key}
    assert "token" not in key("list").out and "hash" not in key("list", "--json").out


def test_list(key):
    one, two = made(key), made(key, "--name", "two", "--rate", "5")
    lines = key("list").out.splitlines()
    assert lines[0].split()[:2] == ["ID", "CREATED"] and len(lines) == 3
    assert lines[1].startswith(one) and lines[2].startswith(two)
    assert "'two'" in lines[2] and "default" in lines[1]
    assert listed(key)[one]["rate_per_minute"] is None


def test_revoke(key):
    one, two = made(key), made(key)
    assert one in key("revoke", one).err
    assert listed(key)[one]["revoked"] is not None and listed(key)[two]["revoked"] is None
    when = listed(key)[one]["revoked"]
    assert "already" in key("revoke", one, code=1).err
    assert listed(key)[one]["revoked"] == when
    assert key("revoke", "--json", two).receipt == {"id": two, "revoked": True}


def test_unknown_key(key):
    made(key)
    assert "key '000000000000' does not exist" in key("revoke", "000000000000", code=1).err


@pytest.mark.parametrize("bad", ["", "a b", "../../etc", "x" * 65, "\u00e4", "a\nb"])
def test_bad_id(key, bad):
    made(key)
    assert "id" in key("revoke", bad, code=2).err


@pytest.mark.parametrize(
    "option, value",
    [
        ("--sessions", "0"), ("--sessions", "-1"), ("--sessions", "x"), ("--sessions", "1.5"),
        ("--executions", "0"), ("--executions", ""), ("--executions", "9" * 30),
        ("--rate", "0"), ("--rate", "1k"), ("--rate", " 1"),
        ("--name", ""), ("--name", "x" * 129), ("--name", "a\tb"), ("--name", "\x1b[2J"),
        ("--name", "\x7f"), ("--name", b"\xff"),
    ],
)  # fmt: skip
def test_bad_option(key, data, option, value):
    r = key("create", option, value, code=2)
    assert r.out == "" and r.err != ""
    if os.path.exists(data):
        assert listed(key) == {}


@pytest.mark.parametrize(
    "args", [(), ("make",), ("create", "x"), ("list", "x"), ("revoke",), ("revoke", "a", "b"),
             ("list", "--name", "x"), ("revoke", "a", "--rate", "1"), ("create", "--since", "2h")]
)  # fmt: skip
def test_bad_usage(key, data, args):
    assert key(*args, code=2).out == ""
    assert not os.path.exists(data)


@pytest.mark.parametrize("action", ["list", "revoke"])
def test_no_store(gb, tmp_path, action):
    args = ["000000000000"] if action == "revoke" else []
    r = gb("key", action, *args, "--data", str(tmp_path / "none"))
    assert r.code == 1 and str(tmp_path) in r.err
    assert not (tmp_path / "none").exists()
    assert gb("key", "list", "--data", str(tmp_path)).code == 1
    assert gb("key", "create", "--data", "").code == 2
    (tmp_path / "file").touch()
    assert gb("key", "create", "--data", str(tmp_path / "file")).code == 125


def test_data_of_others(key, data, is_root):
    made(key)
    os.chmod(data, 0o770)
    assert "chmod 700" in key("list", code=125).err
    os.chmod(data, 0o700)
    os.chmod(data + "/glovebox.db", 0o644)
    assert "chmod 600" in key("create", code=125).err
    os.chmod(data + "/glovebox.db", 0o600)
    if is_root:
        os.chown(data + "/glovebox.db", 12345, 12345)
        assert "12345" in key("list", code=125).err
        os.chown(data + "/glovebox.db", 0, 0)
    assert len(listed(key)) == 1


def test_newer_store(key, data):
    made(key)
    with sqlite3.connect(data + "/glovebox.db") as db:
        db.execute("PRAGMA user_version = 99")
    db.close()
    assert "newer Glovebox" in key("list", code=125).err


def test_broken_store(key, data):
    made(key)
    with open(data + "/glovebox.db", "r+b") as f:
        f.write(b"x" * 4096)
    assert "not a Glovebox database" in key("list", code=125).err


def test_a_damaged_row_is_no_key(key, data):
    made(key)
    with sqlite3.connect(data + "/glovebox.db") as db:
        db.execute("UPDATE api_keys SET hash = 'x'")
    db.close()
    assert "damaged" in key("list", code=125).err


def test_default_directory(gb, tmp_path, is_root):
    if is_root:
        pytest.skip("as root the default is the machine's own directory")
    made_in = tmp_path / "state"
    assert gb("key", "create", env={"XDG_STATE_HOME": str(made_in)}).code == 0
    assert (made_in / "glovebox" / "glovebox.db").exists()
    env = {"XDG_STATE_HOME": "relative", "HOME": str(tmp_path / "home")}
    assert gb("key", "create", env=env).code == 0
    assert (tmp_path / "home" / ".local" / "state" / "glovebox" / "glovebox.db").exists()
    assert "--data" in gb("key", "create", env={"XDG_STATE_HOME": None, "HOME": None}).err


def test_data_from_the_environment(gb, data):
    assert gb("key", "create", env={"GLOVEBOX_DATA": data}).code == 0
    assert os.path.exists(data + "/glovebox.db")


def test_many_at_once(gb, key, data):
    """Those that start together make the store once and lose no key."""
    running = [gb.start("key", "create", "--data", data) for _ in range(6)]
    results = [gb.finish(p) for p in running]
    assert [r.code for r in results] == [0] * 6, [r.err for r in results]
    assert {TOKEN.fullmatch(r.out)[1] for r in results} == set(listed(key))


def test_a_token_that_nobody_saw(gb, key, data):
    """When it cannot be printed the key is revoked: it would be a key that nobody knows of."""
    made(key)
    with open("/dev/full", "w") as full:
        r = gb.finish(gb.start("key", "create", "--data", data, stdout=full))
    assert r.code == 125 and "print" in r.err
    revoked = [k["revoked"] for k in listed(key).values()]
    assert len(revoked) == 2 and revoked.count(None) == 1


def test_store_is_plain_sqlite(key, data):
    made(key, "--name", "x")
    db = sqlite3.connect(data + "/glovebox.db")
    assert db.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert db.execute("SELECT length(hash) FROM api_keys").fetchone() == (64,)
    db.close()


def test_terminal_is_safe(key, data):
    """A name that somebody wrote into the file cannot drive a terminal."""
    made(key, "--name", "x")
    with sqlite3.connect(data + "/glovebox.db") as db:
        db.execute("UPDATE api_keys SET name = char(27) || '[2J' || char(0x9b) || '1m'")
    db.close()
    assert "\x1b" not in key("list").out and "\x9b" not in key("list").out
    assert "\x1b" not in key("list", "--json").out


def test_stdin_is_not_read(gb, data):
    p = gb.start("key", "create", "--data", data, stdin=subprocess.DEVNULL)
    assert gb.finish(p, None).code == 0
