"""Budgets of the day, over HTTP and by command: asking, being refused, what is left."""

import json

from mark_kit import answer, explain, person, run, scripted
from model_kit import ModelServer, programmed
from serve_kit import serve  # noqa: F401
from test_mark_bigquery import SALES, bq  # noqa: F401

CODE = "import mark\nmark.value('total', 42)"


def replies(path, count):
    turns = []
    for _ in range(count):
        turns += [run(CODE), answer("The total is {{total}}.")]
    return scripted(path, turns)


def test_shown_spent_and_refused(gb, serve, tmp_path):
    server = serve(*replies(tmp_path / "m.json", 3), "--budget-tokens", "1000000", "--budget-seconds", "1h")
    ann = person(server)
    before = ann.good("GET", "/api/v1/budget")
    assert before["limits"] == {"bytes": None, "cost": None, "tokens": 1000000, "seconds": 3600.0}
    assert before["used"]["tokens"] == 0 and before["left"]["seconds"] == 3600.0
    assert 0 < before["resets_in"] <= 86400

    reply = ann.ask_mark("How much?")
    used = reply["budget"]["used"]
    assert used["tokens"] > 0 and used["seconds"] > 0 and used["bytes"] == 0
    after = ann.good("GET", "/api/v1/budget")
    assert after["used"]["tokens"] == used["tokens"]
    assert after["left"]["tokens"] == 1000000 - used["tokens"] == reply["budget"]["left"]["tokens"]

    # one person gets less: at once, beside the running service
    done = gb("user", "budget", "ann@example.com", "tokens=600", "cost=2.50", "--json",
              "--data", server.data)
    assert done.code == 0, done
    shown = json.loads(done.out)
    assert shown["limits"] == {"bytes": "default", "cost": 2.5, "tokens": 600, "seconds": "default"}
    assert shown["used"]["tokens"] == used["tokens"]
    chats = ann.good("GET", "/api/v1/chats")["chats"]
    problem = ann.problem(429, "POST", "/api/v1/chat", {"query": "And more?"})
    assert problem["type"].endswith("budget-spent")
    for words in ("600 tokens a day", "are left", "needs about 500 tokens", "resets in"):
        assert words in problem["detail"], problem
    assert ann.good("GET", "/api/v1/chats")["chats"] == chats  # nothing was stored
    ann.problem(429, "POST", f"/api/v1/messages/{reply['message_id']}/regenerate")

    # somebody else is not concerned
    bob = person(server, "bob@example.com")
    bob.ask_mark("How much?")

    assert gb("user", "budget", "ann@example.com", "reset", "--data", server.data).code == 0
    assert ann.good("GET", "/api/v1/budget")["limits"]["tokens"] == 1000000
    ann.ask_mark("Now?")


def test_ends_in_the_middle(gb, serve, tmp_path):
    server = serve(*scripted(tmp_path / "m.json", [run(CODE + f"\n# {i}") for i in range(40)]),
                   "--budget-tokens", "30000", "--mark-steps", "40")
    ann = person(server)
    reply = ann.good("POST", "/api/v1/chat", {"query": "Go on and on."})
    assert reply["status"] == "error" and reply["steps"], reply
    assert "30000 tokens a day" in reply["answer_story"] and "resets in" in reply["answer_story"]
    left = ann.good("GET", "/api/v1/budget")
    assert 20000 < left["used"]["tokens"] <= 31000, left
    assert left["left"]["tokens"] == max(0, 30000 - left["used"]["tokens"])  # nothing stays reserved


def test_queries_cost(bq, gb, serve):  # noqa: F811
    """5 GiB are 0.0305 US dollars: once they fit into the budget, twice they do not."""
    with ModelServer(programmed) as model:
        server = serve("--model", f"m=openai:test@{model.openai}", "--budget-cost", "0.05", preload="pandas")
        ann = person(server)
        ann.good("POST", "/api/v1/sources", {
            "name": "sales", "kind": "bigquery", "project": "test-project", "dataset": "shop", "url": bq.url,
            "location": "US", "credentials": bq.credentials(), "limits": {"bytes_billed": 1 << 40}}, 201)
        question = f"Compute. <<<import mark\nprint(len(mark.query('sales', {SALES!r})))>>> [[[Done.]]]"
        reply = ann.ask_mark(question)
        query = reply["steps"][0]["queries"][0]
        assert query["status"] == "ok" and 0.03 < query["money"] < 0.031, query
        assert abs(reply["budget"]["used"]["cost"] - query["money"]) < 2e-6, reply["budget"]
        assert reply["budget"]["used"]["bytes"] == query["bytes"] == 5 << 30
        left = ann.good("GET", "/api/v1/budget")["left"]["cost"]
        assert 0.019 < left < 0.02

        reply = ann.good("POST", "/api/v1/chat", {"query": question})
        query = reply["steps"][0]["queries"][0]
        assert query["status"] == "budget", explain(reply)
        for words in ("$0.05 a day", "are left", "needs about $0.0305", "resets in"):
            assert words in query["message"], query
        assert words in reply["steps"][0]["receipt"]["stderr"], explain(reply)
        assert reply["budget"]["used"]["cost"] == 0
        assert ann.good("GET", "/api/v1/budget")["left"]["cost"] == left  # nothing was billed or stays reserved

        assert gb("user", "budget", "ann@example.com", "cost=none", "bytes=6g", "--data", server.data).code == 0
        (query,) = ann.good("POST", "/api/v1/chat", {"query": question})["steps"][0]["queries"]
        assert query["status"] == "budget" and len(bq.jobs) == 1
        for words in ("6.0 GiB a day", "1.0 GiB are left", "needs about 5.0 GiB", "resets in"):
            assert words in query["message"], query
        server.stop()


def test_bad_words(gb, serve, tmp_path):
    server = serve("--model", "demo=demo")
    person(server)
    for words in (["tokens"], ["tokens=-1"], ["tokens=x"], ["bytes=1e400"], ["cost=9999999999999"],
                  ["seconds="], ["rows=5"], ["=5"], ["reset", "tokens=1"]):
        done = gb("user", "budget", "ann@example.com", *words, "--data", server.data)
        assert done.code == 2, (words, done)
    assert gb("user", "budget", "nobody@example.com", "--data", server.data).code == 1
    done = gb("user", "budget", "key:0123456789ab", "tokens=5", "--data", server.data)
    assert done.code == 1 and "there is no key 0123456789ab" in done.err, done
    done = gb("user", "budget", "ann@example.com", "cost=2.5", "seconds=90", "--data", server.data)
    assert [line.split() for line in done.out.splitlines()[1:]] == [
        ["bytes", "default", "0"], ["cost", "2.50", "0.00"], ["tokens", "default", "0"],
        ["seconds", "90.0", "0.0"]], done
    assert gb("user", "budget", "ann@example.com", "reset", "--data", server.data).code == 0
    shown = json.loads(gb("user", "budget", "ann@example.com", "--json", "--data", server.data).out)
    assert set(shown["limits"].values()) == {"default"}
