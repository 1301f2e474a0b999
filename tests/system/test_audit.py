"""`glovebox audit`: the chain is checked, tampering is seen, entries are shown.

The entries are written by this file, with nothing but docs/AUDIT.md: so the document is tested too.
"""

import contextlib
import hashlib
import json
import os
import sqlite3
import time

import pytest

ZERO = "0" * 64
HOUR_US = 3600 * 1_000_000
LIMITS = {
    "cpu_milli": 1000, "cpu_us": 0, "disk_bytes": 67108864, "disk_inodes": 16384,
    "file_bytes": 67108864, "memory_bytes": 536870912, "open_files": 1024,
    "output_bytes": 67108864, "pids": 64, "wall_us": 30000000,
}  # fmt: skip


def chain(prev_hash, seq, time_us, session_id, fields):
    text = f"glovebox audit 1\n{prev_hash}\n{seq}\n{time_us}\n{session_id or ''}\n{fields}"
    return hashlib.sha256(text.encode("ascii")).hexdigest()


class Log:
    """The log in a data directory, as somebody with the file in hand sees it."""

    def __init__(self, gb, path):
        self.gb, self.path = gb, path

    def sql(self, *statements):
        db = sqlite3.connect(self.path + "/glovebox.db")
        with contextlib.closing(db), db:
            for statement in statements:
                db.execute(*statement if isinstance(statement, tuple) else (statement,))

    def tamper(self, *statements):
        names = ["audit_log_no_update", "audit_log_no_delete", "audit_log_no_replace",
                 "audit_head_no_delete", "audit_head_grows"]  # fmt: skip
        self.sql(*(f"DROP TRIGGER IF EXISTS {name}" for name in names), *statements)

    def append(self, count, **changes):
        db = sqlite3.connect(self.path + "/glovebox.db")
        seq, head = db.execute("SELECT seq, hash FROM audit_head").fetchone()
        for _ in range(count):
            seq += 1
            row = {
                "code_bytes": 9, "code_sha256": hashlib.sha256(b"print(1)\n").hexdigest(),
                "cpu_us": 1800, "execution_id": f"exec_{seq}", "exit_code": 0, "kind": "cell",
                "limit": None, "limits": LIMITS, "memory_peak_bytes": None, "output_bytes": 2,
                "status": "ok", "wall_us": 2100, "who": "local", **changes,
            }  # fmt: skip
            time_us = row.pop("time_us", int(time.time() * 1e6))
            session = row.pop("session_id", None)
            fields = json.dumps(row, sort_keys=True, separators=(",", ":"))
            after = chain(head, seq, time_us, session, fields)
            values = (seq, time_us, session, head, after, fields)
            db.execute("INSERT INTO audit_log VALUES (?, ?, ?, ?, ?, ?)", values)
            head = after
        db.execute("UPDATE audit_head SET seq = ?, hash = ?", (seq, head))
        db.commit()
        db.close()
        return head

    def __call__(self, *args, code=0):
        r = self.gb("audit", *args, "--data", self.path)
        assert r.code == code, (r.code, r.out, r.err)
        return r

    def verify(self, *args, code=0):
        return self("verify", "--json", *args, code=code).receipt

    def show(self, *args):
        return self("show", "--json", *args).receipt["entries"]


@pytest.fixture
def log(gb, tmp_path):
    path = str(tmp_path / "data")
    assert gb("key", "create", "--data", path).code == 0
    return Log(gb, path)


# ---- verify ------------------------------------------------------------------------------------


def test_empty(log):
    assert log.verify() == {"whole": True, "count": 0, "head": ZERO, "broken": None}
    assert log("verify").out == f"intact: 0 entries, head {ZERO}\n"
    assert log.verify("--head", ZERO)["whole"] is True
    assert log.show() == [] and log("show").out == ""


def test_whole(log):
    head = log.append(3)
    assert log.verify() == {"whole": True, "count": 3, "head": head, "broken": None}
    assert log("verify").out == f"intact: 3 entries, head {head}\n"
    later = log.append(2000)
    assert log.verify("--head", head)["head"] == later


@pytest.mark.parametrize(
    "change, seq, why",
    [
        ("UPDATE audit_log SET fields = replace(fields, 'print', 'x') || ' ' WHERE seq = 3", 3,
         "hash"),
        ("UPDATE audit_log SET time_us = 1 WHERE seq = 1", 1, "hash"),
        ("DELETE FROM audit_log WHERE seq = 3", 3, "missing"),
        ("DELETE FROM audit_log WHERE seq > 4", 5, "truncated"),
        ("UPDATE audit_log SET seq = 7 - seq + 100 WHERE seq IN (3, 4)", 3, "missing"),
        ("INSERT INTO audit_log SELECT 7, time_us, session_id, hash, hash, fields FROM audit_log "
         "WHERE seq = 6", 7, "hash"),
    ],
)  # fmt: skip
def test_tampered(log, change, seq, why):
    head = log.append(6)
    log.tamper(change)
    report = log.verify(code=1)
    assert report["whole"] is False and report["broken"]["seq"] == seq
    assert why in report["broken"]["why"]
    text = log("verify", code=1).out
    assert text.startswith(f"BROKEN at entry {seq}: ") and report["head"] in text
    assert report["count"] == seq - 1 and (report["head"] == head) == (seq == 7)


def test_swapped(log):
    log.append(6)
    log.tamper("UPDATE audit_log SET seq = 99 WHERE seq = 3",
               "UPDATE audit_log SET seq = 3 WHERE seq = 4",
               "UPDATE audit_log SET seq = 4 WHERE seq = 99")  # fmt: skip
    assert log.verify(code=1)["broken"]["seq"] == 3


def test_end_written_anew(log):
    """Hashes that fit do not help against a head that was kept elsewhere."""
    early, kept = log.append(3), log.append(3)
    log.tamper("DELETE FROM audit_log WHERE seq > 3",
               ("UPDATE audit_head SET seq = 3, hash = ?", (early,)))  # fmt: skip
    assert log.verify()["whole"] is True
    log.append(3, who="somebody-else")
    assert log.verify("--head", early)["whole"] is True
    report = log.verify("--head", kept, code=1)
    assert report["count"] == 6 and "not in the log" in report["broken"]["why"]


def test_triggers(log):
    log.append(2)
    for statement in ("UPDATE audit_log SET fields = '{}'", "DELETE FROM audit_log",
                      "REPLACE INTO audit_log VALUES (1, 1, NULL, 'a', 'b', '{}')"):  # fmt: skip
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            log.sql(statement)
    assert log.verify()["whole"] is True


def test_damaged_file(log):
    log.append(200)
    with open(log.path + "/glovebox.db", "r+b") as f:
        f.seek(4096)
        f.write(b"\xa5" * (os.path.getsize(log.path + "/glovebox.db") - 4096))
    r = log.gb("audit", "verify", "--data", log.path)
    assert r.code in (1, 125) and "intact:" not in r.out and r.out + r.err != ""


# ---- show --------------------------------------------------------------------------------------


def test_show(log):
    log.append(2)
    log.append(1, session_id="s-1", status="timeout", limit="wall_time", exit_code=124, who="k1")
    entries = log.show()
    assert [e["seq"] for e in entries] == [1, 2, 3]
    last = entries[2]
    assert last["session_id"] == "s-1" and last["status"] == "timeout" and last["who"] == "k1"
    assert last["limits"] == LIMITS and last["memory_peak_bytes"] is None
    assert len(last["hash"]) == 64 and last["time"].endswith("Z")
    assert last["code_sha256"] == hashlib.sha256(b"print(1)\n").hexdigest()
    assert entries[0]["session_id"] is None
    lines = log("show").out.splitlines()
    assert len(lines) == 3 and "timeout" in lines[2] and "exit 124" in lines[2]
    assert lines[2].startswith("3  ") and "  k1  s-1  exec_3  cell  " in lines[2]


def test_show_some(log):
    now = int(time.time() * 1e6)
    log.append(3, time_us=now - 5 * HOUR_US)
    log.append(2, time_us=now - HOUR_US, session_id="s-1")
    log.append(1, time_us=1_600_000_000_000_000)
    seqs = lambda *args: [e["seq"] for e in log.show(*args)]  # noqa: E731
    assert seqs("--last", "2") == [5, 6] and seqs("--last", "100") == [1, 2, 3, 4, 5, 6]
    assert seqs("--session", "s-1") == [4, 5] and seqs("--session", "s-2") == []
    assert seqs("--session", "s-1", "--last", "1") == [5]
    assert seqs("--since", "2h") == [4, 5] and seqs("--since", "1000h") == [1, 2, 3, 4, 5]
    assert seqs("--since", "2020-09-13") == [1, 2, 3, 4, 5, 6]
    assert seqs("--since", "2020-09-13T12:26:41Z") == [1, 2, 3, 4, 5]
    assert seqs("--since", "9999-12-31") == []


def test_show_many(log):
    log.append(2500)
    assert [e["seq"] for e in log.show()] == list(range(1, 2501))


def test_show_is_safe(log):
    """What somebody wrote into the file cannot drive a terminal, nor pass for what is ours."""
    log.append(4)
    log.tamper(
        ("UPDATE audit_log SET fields = ? WHERE seq = 1", ('{"who":"\\u001b[2J","seq":9}',)),
        "UPDATE audit_log SET fields = 'no JSON' WHERE seq = 2",
        "UPDATE audit_log SET session_id = char(27) || '[2J' WHERE seq = 3",
        "UPDATE audit_log SET time_us = 9223372036854775807 WHERE seq = 4",
    )
    assert "\x1b" not in log("show").out and "\x1b" not in log("show", "--json").out
    entries = log.show()
    assert [e["seq"] for e in entries] == [1, 2, 3, 4] and entries[1]["malformed"] is True
    assert entries[2]["malformed"] is True and entries[3]["time"] == "-"


def test_show_to_a_closed_pipe(log):
    log.append(2000)
    with open("/dev/full", "w") as full:
        r = log.gb.finish(log.gb.start("audit", "show", "--data", log.path, stdout=full))
    assert r.code == 125 and r.err.count("\n") == 1


# ---- bad input ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "args",
    [
        (), ("list",), ("verify", "x"), ("show", "x"), ("verify", "--last", "1"),
        ("show", "--head", ZERO), ("verify", "--head", "12"), ("verify", "--head", "G" * 64),
        ("verify", "--head", ZERO + "0"), ("show", "--last", "0"), ("show", "--last", "-1"),
        ("show", "--last", "100001"), ("show", "--last", "x"), ("show", "--since", "yesterday"),
        ("show", "--since", "2026-02-30"), ("show", "--since", "1969-01-01"), ("show", "--since", ""),
        ("show", "--session", ""), ("show", "--session", "a b"), ("show", "--session", "x" * 65),
        ("show", "--name", "x"),
    ],
)  # fmt: skip
def test_bad_usage(log, args):
    r = log(*args, code=2)
    assert r.out == "" and r.err.count("\n") == 1


def test_no_store(gb, tmp_path):
    for action in ("verify", "show"):
        r = gb("audit", action, "--data", str(tmp_path / "none"))
        assert r.code == 125 and "none" in r.err and r.out == ""
    assert not (tmp_path / "none").exists()
