"""
BigQuery from end to end: a source is added, its catalogue read, a program of an answer asks it.

The model runs what the question says (model_kit.programmed). BigQuery is the stand-in of
bigquery_kit.py, which verifies what the service signs.
"""

import datetime
import decimal
import json
import pathlib

import pytest

from bigquery_kit import Answer, BigQuery, field
from conftest import wait_for
from mark_kit import explain, person
from model_kit import ModelServer, programmed
from secret_kit import FOUND_NONE, box_scan, check_boxes, check_files
from serve_kit import serve  # noqa: F401

SALES = "SELECT region, SUM(amount) AS total FROM orders GROUP BY region"
TYPES = "SELECT * FROM types"
DEAR = "SELECT * FROM orders"


@pytest.fixture
def bq():
    with BigQuery() as server:
        table = ("test-project", "shop", "orders")
        amount = [field("region", "STRING"), field("total", "NUMERIC")]
        server.answers[SALES] = Answer(amount, [["North", decimal.Decimal("1234.50")], ["South", None]],
                                       bytes=5 << 30, tables=[table])
        server.answers[DEAR] = Answer(amount, [], bytes=2 << 40, tables=[table])
        server.answers["DELETE FROM orders WHERE TRUE"] = Answer(amount, [], statement="DELETE")
        server.answers["SELECT 1"] = Answer([field("x", "INTEGER")], [[1]])
        server.add_table("shop", "orders", [field("region", "STRING", description="where it was sold"),
                                            field("amount", "NUMERIC")], [["North", decimal.Decimal("1.5")]])
        yield server


@pytest.fixture
def ann(bq, serve):  # noqa: F811
    """An operator of a service with that model and that source."""
    with ModelServer(programmed) as model:
        server = serve("--model", f"m=openai:test@{model.openai}", preload="pandas")
        who = person(server)
        who.model = model
        who.good("POST", "/api/v1/sources", {
            "name": "sales", "kind": "bigquery", "project": "test-project", "dataset": "shop", "url": bq.url,
            "location": "US", "credentials": bq.credentials(), "limits": {"bytes_billed": 1 << 40}}, 201)
        yield who
        server.stop()


def ask(who, code, story="Done.", status="ok", **more):
    return who.ask_mark(f"Please compute. <<<{code}>>> [[[{story}]]]", status=status, **more)


def test_question(bq, ann):
    reply = ask(ann, f"""
f = mark.query("sales", "{SALES}")
mark.value("north", f.total[0], unit="EUR")
print(f.total.tolist())
""", "North sold for {{north}}.")
    assert "1,234.5" in reply["answer_story"] or "1 234.5" in reply["answer_story"], explain(reply)
    assert "Decimal('1234.50')" in reply["steps"][0]["receipt"]["stdout"]
    (query,) = reply["steps"][0]["queries"]
    assert (query["source"], query["status"], query["rows"], query["cost"]) == ("sales", "ok", 2, 5 << 30)
    assert query["estimate"]["bytes"] == 5 << 30 and abs(query["money"] - 6.25 * 5 / 1024) < 1e-9
    same = ann.message(reply["message_id"], "recheck", "POST")
    assert same["equal"] is True and len(bq.jobs) == 1  # replayed
    ask(ann, f'mark.query("sales", "{SALES}")')
    assert len(bq.called("/token")) == 1 and len(bq.jobs) == 2  # the token was kept


def test_refusals_reach_the_program(bq, ann):
    reply = ask(ann, f"""
for sql in ("{DEAR}", "DELETE FROM orders WHERE TRUE", "SELEC"):
    try:
        mark.query("sales", sql)
    except mark.QueryError as e:
        print(e.word, "|", e)
""")
    lines = reply["steps"][0]["receipt"]["stdout"].splitlines()
    assert [line.split()[0] for line in lines] == ["too-expensive", "read-only", "sql"], lines
    assert "12.50 USD" in lines[0] and "Syntax error" in lines[2]
    assert [q["status"] for q in reply["steps"][0]["queries"]] == ["too-expensive", "read-only", "sql"]
    assert not bq.jobs


def test_every_type_in_a_frame(bq, ann):
    utc = datetime.timezone.utc
    bq.answers[TYPES] = Answer(
        [field("i", "INTEGER"), field("n", "NUMERIC"), field("t", "TIMESTAMP"), field("d", "DATE"), field("b", "BYTES"),
         field("r", "RECORD", fields=[field("a", "INTEGER"), field("when", "TIMESTAMP"), field("f", "FLOAT", "REPEATED")]),
         field("l", "NUMERIC", "REPEATED"), field("j", "JSON"), field("rr", "RECORD", "REPEATED", [field("s", "STRING")]),
         field("plain", "DATETIME"), field("ok", "BOOLEAN"), field("x", "FLOAT")],
        [[2**63 - 1, decimal.Decimal("0.1"), datetime.datetime(2026, 11, 16, 18, 30, 0, 1, utc), datetime.date(1, 1, 1),
          b"\x00\xff", [2**53 + 1, datetime.datetime(1970, 1, 1, 0, 0, 1, tzinfo=utc), [1.5]], [decimal.Decimal("2.50")],
          '{"a": [1, {"b": null}]}', [["x"], [None]], datetime.datetime(2026, 11, 16, 1, 2, 3), True, 0.5],
         [None] * 5 + [None, [], None, [], None, None, None]])
    reply = ask(ann, f"""
import datetime, decimal
f = mark.query("sales", "{TYPES}")
row = f.iloc[0]
assert int(row.i) == 2**63 - 1 and str(f.i.dtype) == "Int64", f.i
assert row.n == decimal.Decimal("0.1") and row.b == b"\\x00\\xff", row
assert row.t == datetime.datetime(2026, 11, 16, 18, 30, 0, 1, datetime.timezone.utc), row.t
assert row.r["a"] == 2**53 + 1 and row.r["f"] == [1.5] and row.l == [decimal.Decimal("2.50")], row.r
assert row.r["when"] == datetime.datetime(1970, 1, 1, 0, 0, 1, tzinfo=datetime.timezone.utc), row.r
assert row.j == {{"a": [1, {{"b": None}}]}} and row.rr == [{{"s": "x"}}, {{"s": None}}] and row.x == 0.5, row
assert row.plain == datetime.datetime(2026, 11, 16, 1, 2, 3) and row.plain.tzinfo is None and row.t.tzinfo, row
assert str(f.ok.dtype) == "boolean" and bool(row.ok), f.ok
assert f.isna().iloc[1].tolist()[:5] == [True] * 5 and f.j[1] is None and f.l[1] == [] and f.rr[1] == []
print("exact", row.d)
""")
    assert "exact" in reply["steps"][0]["receipt"]["stdout"], explain(reply)


def test_catalogue_and_check(bq, ann):
    assert ann.good("POST", "/api/v1/sources/sales/sync")["tables"] == 1
    (table,) = ann.good("GET", "/api/v1/sources/sales/tables")["tables"]
    assert table["name"] == "shop.orders"
    assert "where it was sold" in json.dumps(table)
    assert ann.good("POST", "/api/v1/sources/sales/check")["ok"] is True
    assert len(bq.called("/token")) == 1
    ask(ann, "print(1)")
    assert "where it was sold" in json.dumps([r.body for r in ann.model.requests])


def test_masked_tables(bq, ann):
    ann.good("POST", "/api/v1/sources/sales/sync")
    ann.good("PATCH", "/api/v1/sources/sales/tables/shop.orders", {"columns": [{"name": "region", "masked": True}]})
    reply = ask(ann, f"""
try:
    mark.query("sales", "{SALES}")
except mark.QueryError as e:
    print(e.word)
""")
    assert reply["steps"][0]["receipt"]["stdout"].strip() == "masked" and not bq.jobs


def test_the_command(bq, gb, serve, tmp_path):  # noqa: F811
    """The address of Google's API is no option of the command: a service beside it sets the stand-in's."""
    account, data = tmp_path / "account.json", ["--data", tmp_path / "own"]

    def run(*arguments, code=0):
        done = gb("source", *arguments, *data)
        assert done.code == code, done
        assert "PRIVATE KEY" not in done.out + done.err
        return done.out + done.err

    where = ("bigquery://test-project/shop", "--no-check", "--cost", "50g")
    assert "--credentials" in run("add", "sales", *where, code=2)
    for wrong in ("", "{}", '{"private_key": "-----BEGIN PRIVATE KEY-----"}', json.dumps(bq.credentials(private_key="x"))):
        account.write_text(wrong)
        account.chmod(0o600)
        run("add", "sales", *where, "--credentials", account, code=2)
    account.write_text(json.dumps(bq.credentials()))
    run("add", "sales", *where, "--credentials", account)
    (listed,) = json.loads(run("list", "--json"))["sources"]
    assert (listed["kind"], listed["settings"]["project"], listed["settings"]["dataset"]) == ("bigquery", "test-project", "shop")
    assert listed["settings"]["limits"]["bytes_billed"] == 50 << 30 and listed["has_secret"]
    operator = person(serve(data=tmp_path / "own"))
    operator.good("PATCH", "/api/v1/sources/sales", {"url": bq.url, "location": "US", "credentials": bq.credentials()})
    assert "ok    jobs" in run("check", "sales")
    assert "sales: 1 table," in run("sync", "sales") and "shop.orders" in run("tables", "sales")
    bq.revoked.add(bq.credentials()["client_email"])
    bq.tokens.clear()
    assert "invalid_grant" in run("check", "sales", code=1)
    run("remove", "sales")
    assert json.loads(run("list", "--json"))["sources"] == []
    check_files([tmp_path / "own"], [bq.key.pem.decode().splitlines()[3]])


def test_wrong_credentials(bq, ann):
    for bad in ({}, {"type": "authorized_user"}, bq.credentials(private_key="nonsense"),
                bq.credentials(token_uri="http://example.com/token")):
        body = {"name": "bad", "kind": "bigquery", "project": "p", "credentials": bad}
        problem = ann.good("POST", "/api/v1/sources", body, 422)
        assert "PRIVATE KEY" not in json.dumps(problem)
    bq.revoked.add(bq.credentials()["client_email"])
    bq.tokens.clear()
    reply = ask(ann, """
try:
    mark.query("sales", "SELECT 1")
except mark.QueryError as e:
    print(e.word, e)
""")
    assert reply["steps"][0]["receipt"]["stdout"].startswith("denied"), explain(reply)


def test_stopping_cancels_the_job(bq, ann):
    import threading

    bq.answers["SELECT slow"] = Answer([field("x", "INTEGER")], [[1]], hold=threading.Event())
    result = []
    thread = threading.Thread(target=lambda: result.append(ann.good("POST", "/api/v1/chat", {
        "query": '<<<mark.query("sales", "SELECT slow")>>> [[[Done.]]]'})))
    thread.start()
    wait_for(lambda: bq.called("/queries/"), what="the job")
    (chat,) = ann.good("GET", "/api/v1/chats")["chats"]
    ann.ask("POST", f"/api/v1/chats/{chat['chat_id']}/stop")
    thread.join(120)
    assert result and result[0]["status"] == "stopped"
    wait_for(lambda: bq.cancelled == list(bq.jobs), what="the end of the job at BigQuery")


def test_secrets_are_nowhere(bq, ann):
    """Neither key nor token in what a program finds in its box, in the memory of boxes, or in what the
    model, people and the data directory get to see."""
    query = f'mark.query("sales", "{SALES}")'
    first = ask(ann, query)
    secrets = [*bq.tokens, bq.key.pem.decode().splitlines()[3]]
    assert len(secrets) > 1
    check_boxes(ann, secrets)
    reply = ask(ann, box_scan(query, secrets), chat=first["chat_id"])
    assert reply["steps"][0]["receipt"]["stdout"] == FOUND_NONE, explain(reply)
    assert list(bq.tokens) == secrets[:-1]  # the token that was looked for is the one that was used
    seen = json.dumps([reply, ann.message(reply["message_id"], "trace"), ann.good("GET", "/api/v1/sources"),
                       [r.body for r in ann.model.requests]])
    assert not [secret for secret in secrets if secret in seen]
    check_files([ann.data], secrets)
