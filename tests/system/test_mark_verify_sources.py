"""Verified answers that asked a data source: what it said then is kept, and who may see them follows its access."""

import pathlib

from mark_kit import answer, person, run, scripted
from postgres_kit import postgres  # noqa: F401
from serve_kit import serve  # noqa: F401
from test_mark_sources import JOIN, add_source, ask, mark, model, shop  # noqa: F401


def results(server):
    return [p.name for p in pathlib.Path(server.data, "mark/results").iterdir() if len(p.name) == 64]


def test_outlives_the_source_and_the_chat(mark, postgres, shop, gb, tmp_path):  # noqa: F811
    server = mark()
    ann, bob = person(server), person(server, "bob@example.com")
    add_source(ann, postgres, shop, access=[{"who": "ann@example.com"}])
    made = ask(ann, "import mark\n" + JOIN, story="Nora sold for {{nora}}.")
    kept = ann.good("POST", f"/api/v1/messages/{made['message_id']}/verify", {"shared": True}, 201)
    # It is shared, and yet not with somebody who may not use the source.
    assert bob.good("GET", "/api/v1/verified")["verified"] == []
    assert "examples" not in bob.message(ask(bob, "pass")["message_id"], "trace")["decisions"]
    ann.good("PATCH", "/api/v1/sources/shop", {"access": [{"who": "ann@example.com"}, {"who": "bob@example.com"}]})
    assert [v["verified_id"] for v in bob.good("GET", "/api/v1/verified")["verified"]] == [kept["verified_id"]]
    assert "examples" in bob.message(ask(bob, "pass")["message_id"], "trace")["decisions"]
    # A command asks the source with its own rights, and says so.
    model = scripted(tmp_path / "again.json", [run("import mark\n" + JOIN), answer("Nora sold for {{nora}}.")], "again")
    again = gb("mark", "verify", "--ask", *model, "--data", server.data, "--preload", "none", "--quiet")
    assert again.code == 0 and "(now) data sources were asked with your rights" in again.out, again.out + again.err
    postgres.sql("UPDATE orders SET amount = 0", shop)
    assert ann.ask("DELETE", f"/api/v1/chats/{made['chat_id']}").status == 204
    source = ann.good("GET", "/api/v1/sources")["sources"][0]["source_id"]
    assert ann.ask("DELETE", f"/api/v1/sources/{source}").status == 204
    assert len(results(server)) >= 1
    found = ann.good("POST", f"/api/v1/verified/{kept['verified_id']}/check")
    assert found["status"] == "ok" and found["result"]["checked"] == 2, found
    # Commands open the store next to the service, and sweep it as a service does when it starts.
    again = gb("mark", "verify", "--data", server.data, "--preload", "none", "--quiet")
    assert again.code == 0 and "1 of 1" in again.out, again.out + again.err
    assert len(results(server)) >= 1


def test_results_that_are_gone(mark, postgres, shop):  # noqa: F811
    server = mark()
    ann = person(server)
    add_source(ann, postgres, shop)
    first, second = (ask(ann, "import mark\n" + JOIN, story="Nora sold for {{nora}}.") for _ in range(2))
    ann.good("POST", f"/api/v1/messages/{first['message_id']}/verify", {}, 201)
    for made in (first, second):
        assert ann.ask("DELETE", f"/api/v1/chats/{made['chat_id']}").status == 204
    assert len(results(server)) == 1
    # It goes with the last one who has it.
    assert ann.ask("DELETE", f"/api/v1/messages/{first['message_id']}/verify").status == 204
    assert results(server) == []
    # As if a chat had been deleted at the same moment.
    third = ask(ann, "import mark\n" + JOIN, story="Nora sold for {{nora}}.")
    for name in results(server):
        pathlib.Path(server.data, "mark/results", name).unlink()
    refused = ann.problem(409, "POST", f"/api/v1/messages/{third['message_id']}/verify", {})
    assert refused["type"].endswith("not-verifiable") and "queries" in refused["detail"], refused
    assert ann.good("GET", "/api/v1/verified")["verified"] == []
