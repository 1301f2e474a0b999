"""
The whole way of issue 14 with a real PostgreSQL: a source is added, its catalogue synced, a question that
needs a join is asked by somebody whose login sees half of the rows, the chat is kept in PostgreSQL too, and
what is exported gives the same numbers elsewhere. The model is the demo, whose programs are really run.
"""

import json
import urllib.parse

import pytest

from eval_truth import ORDERS, PRODUCTS, best, of_country, profit, revenue, year
from mark_kit import person
from postgres_kit import postgres  # noqa: F401
from serve_kit import serve  # noqa: F401
from test_mark_export import printed, run_notebook

PASSWORD = "what-the-logins-of-the-shop-have"
JOIN = "Which supplier brings the most profit?"


def supplier(row):
    return PRODUCTS[row["product"]]["supplier"]


@pytest.fixture
def shop(gb, postgres, tmp_path):  # noqa: F811
    """The sample data in a database of its own, its logins, and a file with their password."""
    database = postgres.create_database("shop_" + tmp_path.name)
    postgres.sql(gb("mark", "sample", "sql").out, database)
    postgres.sql(f"\\set password '{PASSWORD}'\n" + gb("mark", "sample", "sql-roles").out, database)
    secret = tmp_path / "password"
    secret.write_text(PASSWORD)
    secret.chmod(0o600)
    return f"postgresql://shop_all@127.0.0.1:{postgres.port}/{database}", secret


def values_of(reply):
    return {v["name"]: v["value"] for v in reply["values"]}


def check_answer(reply, rows):
    """Everything that an answer about a source has to show, of these orders."""
    name, most = best(rows, supplier, profit)
    values = values_of(reply)
    assert values["supplier"] == name and values["profit"] == pytest.approx(most)
    assert values["orders"] == len(rows)
    assert reply["numbers"]["unsupported"] == [] and reply["numbers"]["checked"] > 5
    (query,) = [q for step in reply["steps"] for q in step.get("queries", [])]
    assert query["source"] == "shop" and "JOIN" in query["sql"] and query["status"] == "ok"
    assert query["rows"] == 4 and query["cost"] > 0 and query["estimate"]["cost"] > 0
    assert name in reply["answer_story"] and PASSWORD not in json.dumps(reply)


def test_the_whole_way(gb, serve, postgres, shop, tmp_path):  # noqa: F811
    url, secret = shop
    store = postgres.url(postgres.create_database("store_of_issue"))
    model = ["--model", "demo=demo", "--model", "none"]
    service = serve("--database", store, *model, preload="pandas")
    place = ["--data", service.data, "--database", store]
    ann, bob = person(service, "ann@example.com"), person(service, "bob@example.com")

    added = gb("source", "add", "shop", url, "--password-file", secret, "--allow", "ann@example.com",
               "--login", f"bob@example.com=shop_germany:{secret}", *place)
    assert added.code == 0, added.err
    synced = gb("source", "sync", "shop", *place)
    assert synced.code == 0, synced.err
    assert "shop.products" in gb("source", "tables", "shop", *place).out

    # Bob's login sees the orders of Germany, which are about half of all; ann's sees everything.
    germany = of_country("Germany")
    assert 0.4 < len(germany) / len(ORDERS) < 0.6
    half = bob.ask_mark(JOIN)
    check_answer(half, germany)
    check_answer(ann.ask_mark(JOIN), ORDERS)
    chat = half["chat_id"]
    targets = bob.ask_mark("How far is each region from its target?", chat)
    assert values_of(targets)["regions"] == 2  # of four
    north = revenue([r for r in year(2025) if r["region"] == "North"])
    assert [row for row in targets["data"][0]["rows"] if "North" in row][0][3] == pytest.approx(north, abs=0.01)

    # Nobody else's, and not with anybody's rights.
    assert person(service, "eve@example.com").ask("GET", f"/api/v1/chats/{chat}").status == 404

    # The chat is in PostgreSQL: a new service finds it, and runs the answer again from what was recorded.
    assert int(postgres.sql("SELECT count(*) FROM glovebox.mark_messages", "store_of_issue")) >= 6
    assert service.stop() == 0
    again = serve("--database", store, *model, preload="pandas", data=service.data)
    bob.port = again.port
    kept = bob.good("GET", f"/api/v1/chats/{chat}/messages")["messages"]
    assert [m["response"]["answer_story"] for m in kept if m["role"] == "assistant"] == [
        half["answer_story"], targets["answer_story"]]
    assert bob.message(half["message_id"], "recheck", "POST")["equal"] is True

    # The notebook gives the same numbers without us, the network and the database.
    reply = bob.ask("GET", f"/api/v1/chats/{chat}/export?" + urllib.parse.urlencode({"format": "ipynb"}))
    assert reply.status == 200 and PASSWORD.encode() not in reply.body
    notebook = tmp_path / "chat.ipynb"
    notebook.write_bytes(reply.body)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    count = len(half["values"]) + len(targets["values"])
    assert printed(run_notebook(notebook, elsewhere).cells[-1]).startswith(f"{count} of {count} values equal")


def test_questions_about_a_source(gb, shop, tmp_path):
    """ask and mark eval without a service, with the sources of the data directory."""
    url, secret = shop
    data = ["--data", tmp_path / "data"]
    assert gb("source", "add", "shop", url, "--password-file", secret, *data).code == 0
    asked = gb("ask", JOIN, "--source", "shop", "--model", "demo", "--json", *data)
    assert asked.code == 0, asked.err
    check_answer(json.loads(asked.out), ORDERS)

    name, most = best(ORDERS, supplier, profit)
    questions = {"sources": ["shop"], "questions": [
        {"id": "join", "question": JOIN, "expect": {
            "values": [{"name": "profit", "value": most, "unit": "EUR"}, {"value": name}],
            "unsupported": {"max": 0}}}]}
    path = tmp_path / "questions.json"
    path.write_text(json.dumps(questions), encoding="utf-8")
    done = gb("mark", "eval", path, "--source", "shop", "--model", "demo", "--json", *data)
    assert done.code == 0, (done.out, done.err)
    assert json.loads(done.out)["contenders"][0]["totals"]["false_numbers"] == 0

    gone = gb("ask", JOIN, "--source", "nothing", "--model", "demo", *data)
    assert gone.code == 2 and "nothing" in gone.err
