"""
The service and Mark with their store in PostgreSQL: chats over HTTP, a database that is restarted
under them, and the way from a data directory to the database and back.
"""

import json
import os
import pathlib
import signal

import pytest

from conftest import wait_for
from mark_kit import Person, answer, person, run, scripted
from postgres_kit import PASSWORD, postgres, postgres_new  # noqa: F401
from serve_kit import serve  # noqa: F401

CODE = "import mark\nmark.value('total', 42)"


@pytest.fixture
def model(tmp_path):
    return scripted(tmp_path / "model.json", [run(CODE), answer("The total is {{total}}."),
                                              run(CODE), answer("Still {{total}}."),
                                              run(CODE), answer("And {{total}} again.")])


def ask(who, text, chat=None):
    reply = who.ask_mark(text, chat)
    assert "42" in reply["answer_story"]
    return reply["chat_id"]


def verify(gb, *where):
    done = gb("audit", "verify", "--json", *where)
    assert done.code == 0, done
    report = json.loads(done.out)
    assert report["whole"]
    return report


def chats_of(who):
    return {chat["chat_id"]: [m["status"] for m in who.messages(chat["chat_id"])]
            for chat in who.good("GET", "/api/v1/chats")["chats"]}


def test_chats_a_restart_and_the_way_back(gb, serve, postgres_new, model, tmp_path):
    server = postgres_new()
    url = server.url(server.create_database("glovebox"))
    secret = tmp_path / "password"
    secret.write_text(PASSWORD + "\n")
    secret.chmod(0o600)
    bare = url.replace(":" + PASSWORD, "")
    there = ["--database", bare, "--database-password-file", secret]
    service = serve(*model, *there)
    ann = person(service)
    chat = ask(ann, "How much?")

    # a restart between two questions is not noticed
    server.restart()
    assert ask(ann, "And now?", chat) == chat
    assert chats_of(ann) == {chat: ["ok"] * 4}

    # without it: an error that says so, no crash, and everything is back afterwards
    server.kill()
    reply = ann.ask("GET", "/api/v1/chats")
    assert reply.status in (500, 503), reply
    assert PASSWORD not in reply.body.decode()
    server.start()
    wait_for(lambda: ann.ask("GET", "/api/v1/chats").status == 200, 60, "the chats")
    assert chats_of(ann) == {chat: ["ok"] * 4}

    # one service at a time; commands work beside it
    other = gb("serve", "--listen", "127.0.0.1:0", "--data", tmp_path / "other", *there)
    assert other.code != 0 and "already serving" in other.err
    done = gb("key", "create", "--name", "beside", *there)
    assert done.code == 0
    copy = gb("store", "copy", "--from", url, "--to", tmp_path / "back")
    assert copy.code != 0 and "--from is in use by another glovebox; stop its service first" in copy.err
    copy = gb("store", "copy", "--from", url, "--to", url)
    assert copy.code != 0 and "the same store" in copy.err
    assert service.stop() == 0
    log = pathlib.Path(service.log).read_text()
    assert PASSWORD not in log and not (service.data / "glovebox.db").exists()

    # back into a file of the same data directory, and served from there
    before = verify(gb, *there)
    assert before["count"] >= 2
    copy = gb("store", "copy", "--from", url, "--to", service.data)
    assert copy.code == 0, copy
    assert verify(gb, "--data", service.data) == before
    again = serve(*model, data=service.data)
    ann = Person(again, ann.key, ann.account)
    assert chats_of(ann) == {chat: ["ok"] * 4}
    ask(ann, "Once more?", chat)
    assert again.stop() == 0

    # and to the database again, in another schema
    new = url + "?schema=second"
    copy = gb("store", "copy", "--json", "--from", service.data, "--to", new)
    assert copy.code == 0, copy
    assert json.loads(copy.out)["audit_entries"] == verify(gb, "--database", new)["count"]
    refused = gb("store", "copy", "--from", service.data, "--to", new)
    assert refused.code != 0 and "not empty" in refused.err
    third = serve(*model, "--database", new, data=service.data)
    assert chats_of(Person(third, ann.key)) == {chat: ["ok"] * 6}
    assert third.stop() == 0

    # whoever owns the tables can change an entry, and the chain tells
    server.sql("ALTER TABLE second.audit_log DISABLE TRIGGER ALL; UPDATE second.audit_log SET fields = "
               "replace(fields, '\"ok\"', '\"error\"') WHERE seq = 1", "glovebox")
    done = gb("audit", "verify", "--json", "--database", new)
    report = json.loads(done.out)
    assert done.code == 1 and not report["whole"] and report["broken"]["seq"] == 1, done
    copy = gb("store", "copy", "--from", new, "--to", tmp_path / "broken")
    assert copy.code == 1 and "was BROKEN at entry 1 before" in copy.out, copy


def test_nobody_sees_the_password(gb, serve, postgres):
    url = postgres.url(postgres.create_database("seen"))
    service = serve("--database", url)
    assert service.good("GET", "/health")
    with open(f"/proc/{service.process.pid}/cmdline", "rb") as f:
        line = f.read()
    assert PASSWORD.encode() not in line and b"postgresql://postgres:****" in line
    for bad in (url.replace(PASSWORD, "wrong-" + PASSWORD), url.replace("127.0.0.1", "db.example.com"),
                url.replace("/seen", "/unseen"), url + "?sslmode=verify-full"):
        done = gb("key", "list", "--database", bad)
        assert done.code != 0 and PASSWORD not in done.err, done.err
    report = gb("doctor", "--json", "--database", url)
    assert PASSWORD not in report.out + report.err


def test_tls(gb, postgres, tmp_path):
    url = postgres.url(postgres.create_database("tls"))
    ca = tmp_path / "ca.pem"
    ca.write_text(postgres.ca)
    good = gb("key", "create", "--database", f"{url}?sslmode=verify-full&sslrootcert={ca}")
    assert good.code == 0, good
    wrong = tmp_path / "wrong.pem"
    wrong.write_text((pathlib.Path(__file__).parent / "tls/ca.pem").read_text())
    bad = gb("key", "create", "--database", f"{url}?sslmode=verify-full&sslrootcert={wrong}")
    assert bad.code != 0, bad


def test_a_server_that_hangs(gb, postgres_new):
    """The postmaster accepts connections, but nobody answers."""
    server = postgres_new()
    url = server.url()
    os.kill(server.process.pid, signal.SIGSTOP)
    try:
        done = gb("key", "list", "--database", url)
        assert done.code != 0 and "does not answer" in done.err, done
    finally:
        os.kill(server.process.pid, signal.SIGCONT)
