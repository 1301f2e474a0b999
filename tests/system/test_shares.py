"""Shares: notebooks that others may read. Whose they are, what is accepted as one, and how they end."""

import contextlib
import json
import sqlite3

import pytest

from conftest import wait_for
from mark_kit import PASSWORD, person
from serve_kit import serve, server  # noqa: F401
from test_serve_sessions import make_key

MIB = 1024 * 1024
CELL = {"cell_type": "code", "id": "a", "execution_count": 1, "metadata": {}, "source": ["x = 1\n", "x"],
        "outputs": [{"output_type": "execute_result", "execution_count": 1, "metadata": {},
                     "data": {"text/plain": "1", "text/html": "<script>alert('é😀')</script>"}}]}
NOTEBOOK = {"nbformat": 4, "nbformat_minor": 5, "metadata": {"kernelspec": {"name": "python3"}},
            "cells": [CELL, {"cell_type": "markdown", "metadata": {}, "source": "# Title"}]}


def share(server, notebook=NOTEBOOK, status=201, **more):
    return server.good("POST", "/v1/shares", {"title": "Numbers", "notebook": notebook, **more}, status)


def padded(size):
    """A notebook of about that many bytes."""
    return {**NOTEBOOK, "metadata": {"padding": "x" * size}}


def test_share(server):
    made = share(server)
    identity = made["share_id"]
    assert len(identity) == 36 and identity.startswith("shr_") and int(identity[4:], 16)
    assert made["url"] == "/shared/" + identity and made["title"] == "Numbers"
    assert made["expires"] - made["created"] == pytest.approx(30 * 86400)
    assert made["size"] == len(json.dumps(NOTEBOOK, ensure_ascii=False, separators=(",", ":")).encode())
    assert server.good("GET", "/v1/shares") == {"shares": [made]}
    assert server.good("GET", "/v1/shares/" + identity) == {**made, "notebook": NOTEBOOK}
    reply = server.ask("GET", made["url"], Accept="text/html")
    assert reply.status == 200 and reply.headers["Content-Type"].startswith("text/html")
    server.good("DELETE", "/v1/shares/" + identity, status=204)
    server.problem(404, "DELETE", "/v1/shares/" + identity)
    assert server.problem(404, "GET", "/v1/shares/" + identity)["type"].endswith("share-unknown")
    assert server.good("GET", "/v1/shares") == {"shares": []}
    assert share(server)["share_id"] != identity


def test_titles(server):
    for title in ("é" * 400, "a", "<b>&\"'"):
        assert share(server, title=title)["title"] == title
    for body in ({"notebook": NOTEBOOK}, {"notebook": NOTEBOOK, "title": ""},
                 {"notebook": NOTEBOOK, "title": None}):
        assert server.good("POST", "/v1/shares", body, 201)["title"] == "Untitled notebook"
    for title in ("a\nb", "\x1b[31m", "\x7f", "x" * 801, 7, ["x"], "a\0b"):
        server.problem(422, "POST", "/v1/shares", {"title": title, "notebook": NOTEBOOK})


def cells(*found):
    return {**NOTEBOOK, "cells": list(found)}


def test_what_is_a_notebook(server):
    for good in (cells(), {"nbformat": 4, "cells": []}, cells({"cell_type": "raw", "source": ""}),
                 cells({**CELL, "outputs": []}), cells({**CELL, "source": []})):
        share(server, good)
    for bad in ({}, {"nbformat": 4}, {**NOTEBOOK, "nbformat": 3}, {**NOTEBOOK, "nbformat": "4"},
                {**NOTEBOOK, "nbformat": 4.0}, {**NOTEBOOK, "nbformat_minor": -1},
                {**NOTEBOOK, "nbformat_minor": "x"}, {**NOTEBOOK, "metadata": []},
                {**NOTEBOOK, "cells": {}}, cells(1), cells(None), cells([]), cells({}),
                cells({**CELL, "cell_type": "html"}), cells({**CELL, "cell_type": 1}),
                cells({**CELL, "source": 1}), cells({**CELL, "source": ["x", 1]}),
                cells({**CELL, "source": None}), cells({**CELL, "metadata": []}),
                cells({**CELL, "outputs": {}}), cells({**CELL, "outputs": [1]}),
                cells(*[{"cell_type": "raw", "source": ""}] * 10001)):
        problem = server.problem(422, "POST", "/v1/shares", {"notebook": bad})
        assert problem["type"].endswith("notebook-malformed"), bad
    for bad in (None, [], "x", 1):
        server.problem(422, "POST", "/v1/shares", {"notebook": bad})
    server.problem(422, "POST", "/v1/shares", {})
    server.problem(422, "POST", "/v1/shares", {"notebook": NOTEBOOK, "colour": "red"})
    server.problem(422, "POST", "/v1/shares", {"notebook": {**NOTEBOOK, "x": "a\0b"}})
    deep = "[" * 100 + "]" * 100
    server.problem(400, "POST", "/v1/shares", '{"notebook": {"nbformat": 4, "cells": [], "x": %s}}' % deep)
    server.problem(400, "POST", "/v1/shares", "{")
    server.problem(413, "POST", "/v1/shares", {"notebook": padded(21 * MIB)})
    problem = server.problem(413, "POST", "/v1/shares", {"notebook": padded(8 * MIB)})
    assert problem["type"].endswith("notebook-too-large")


def test_ids(server):
    for identity in ("x", "shr_", "shr_" + "0" * 32, "shr_" + "G" * 32, "shr_" + "0" * 31, "%00",
                     "shr_" + "0" * 33, "..%2Fx", "'%20OR%201=1", "%C3%A9", "%FF", "x" * 500):
        for method in ("GET", "DELETE"):
            assert server.ask(method, "/v1/shares/" + identity).status in (400, 404), identity
    server.problem(405, "PUT", "/v1/shares/x", {})


def test_bounds(server):
    """Each caller has 50, with 64 MiB in all."""
    made = [share(server)["share_id"] for _ in range(50)]
    problem = server.problem(413, "POST", "/v1/shares", {"notebook": NOTEBOOK})
    assert problem["type"].endswith("shares-quota")
    for identity in made:
        server.good("DELETE", "/v1/shares/" + identity, status=204)
    big = padded(8 * MIB - 2000)
    made = [share(server, big)["share_id"] for _ in range(8)]
    problem = server.problem(413, "POST", "/v1/shares", {"notebook": big})
    assert problem["type"].endswith("shares-quota")
    assert server.good("GET", "/v1/shares/" + made[3])["notebook"] == big
    server.good("DELETE", "/v1/shares/" + made[0], status=204)
    share(server, big)
    share(server)  # the little room that is left


def test_two_keys(gb, serve, tmp_path):
    data = tmp_path / "data"
    ann, bob = make_key(gb, data), make_key(gb, data)
    server = serve("--require-key", data=data)
    server.key = ann
    made = share(server)
    path = "/v1/shares/" + made["share_id"]
    server.key = bob
    assert server.good("GET", path)["notebook"] == NOTEBOOK
    assert server.good("GET", "/v1/shares") == {"shares": []}
    server.problem(404, "DELETE", path)
    server.key = None
    for method, target in (("GET", path), ("DELETE", path), ("GET", "/v1/shares"), ("POST", "/v1/shares")):
        server.problem(401, method, target)
    server.key = "gb_nonsense"
    server.problem(401, "GET", path)
    server.key = ann
    server.good("DELETE", path, status=204)


def test_a_key_takes_its_shares_with_it(gb, serve, tmp_path):
    """Nobody could take them back any more."""
    data = tmp_path / "data"
    ann, bob = make_key(gb, data), make_key(gb, data)
    server = serve("--require-key", "--sweep", "0.1", data=data)
    server.key = bob
    of_bob = share(server)
    server.key = ann
    of_ann = share(server)
    assert gb("key", "revoke", ann.split("_")[1], "--data", data).code == 0
    server.key = bob
    server.problem(404, "GET", "/v1/shares/" + of_ann["share_id"])
    assert server.good("GET", "/v1/shares/" + of_bob["share_id"])["notebook"] == NOTEBOOK

    def stored():
        with contextlib.closing(sqlite3.connect(data / "glovebox.db")) as db:
            return db.execute("SELECT id FROM shares").fetchall()

    wait_for(lambda: stored() == [(of_bob["share_id"],)], 60, "the sweep")


def test_an_account_takes_its_shares_with_it(serve):
    server = serve("--model", "none")
    ann, bob = person(server), person(server, "bob@example.com")
    of_ann, of_bob, of_nobody = share(ann), share(bob), share(server)
    assert [s["share_id"] for s in bob.good("GET", "/v1/shares")["shares"]] == [of_bob["share_id"]]
    bob.problem(404, "DELETE", "/v1/shares/" + of_ann["share_id"])
    server.problem(404, "DELETE", "/v1/shares/" + of_ann["share_id"])
    bob.good("DELETE", "/auth/me", {"current_password": PASSWORD}, 204)
    server.problem(404, "GET", "/v1/shares/" + of_bob["share_id"])
    for kept in (of_ann, of_nobody):
        assert server.good("GET", "/v1/shares/" + kept["share_id"])["notebook"] == NOTEBOOK


def test_restart_and_end(serve, tmp_path):
    """They survive a restart, are not shown after their end, and are then removed."""
    data = tmp_path / "data"
    server = serve(data=data)
    made, other = share(server), share(server)
    assert server.stop() == 0

    def database(statement):
        with contextlib.closing(sqlite3.connect(data / "glovebox.db")) as db, db:
            return db.execute(statement).fetchall()

    database(f"UPDATE shares SET expires_us = 1 WHERE id = '{other['share_id']}'")
    server = serve("--sweep", "0.1", data=data)
    assert [s["share_id"] for s in server.good("GET", "/v1/shares")["shares"]] == [made["share_id"]]
    server.problem(404, "GET", "/v1/shares/" + other["share_id"])
    assert server.good("GET", "/v1/shares/" + made["share_id"])["notebook"] == NOTEBOOK
    wait_for(lambda: database("SELECT count(*) FROM shares") == [(1,)], 60, "the sweep")
