"""BigQuery as a source: the driver of the connector, over the stand-in of bigquery_kit.py."""

import concurrent.futures
import contextlib
import datetime
import decimal
import json
import math
import os
import subprocess
import textwrap
import threading

import pytest

from bigquery_kit import MIB, Answer, BigQuery, Fault, Wire, field, kit_python
from bigquery_kit import Connection as HttpConnection, Server as HttpServer
from conftest import BINARY, ROOT, wait_for
from connector_kit import PATIENCE, Connector, connector  # noqa: F401
from tls_kit import REFUSED, certificates

UTC = datetime.timezone.utc
AGAIN = {"Retry-After": "0"}
ONE = "SELECT 1 AS x"


@pytest.fixture
def bq():
    with BigQuery() as server:
        server.answers[ONE] = server.answers["SELECT 1"] = Answer([field("x", "INTEGER")], [[1]])
        yield server


def order(bq, sql=ONE, op="query", source=None, **more):
    return {"op": op, "source": bq.source(**(source or {})), "sql": sql, "params": None, **more}


# ---- values -------------------------------------------------------------------------------------

INNER = [field("a", "INTEGER"), field("when", "TIMESTAMP"), field("tags", "STRING", "REPEATED")]

# type, values, result type, values as the box gets them
TYPES = [
    ("INTEGER", [0, 2**63 - 1, -(2**63)], "int", None),
    ("FLOAT", [1.5, float("inf"), float("-inf"), 5e-324, 0.1], "float", None),
    ("NUMERIC", [decimal.Decimal("99999999999999999999999999999.999999999")], "decimal", None),
    ("BIGNUMERIC", [decimal.Decimal("-0." + "0" * 37 + "1")], "decimal", None),
    ("BOOLEAN", [True, False], "bool", None),
    ("STRING", ["", "Grüße \U0001f600", "a\x00b", "'; DROP TABLE x; --"], "text", None),
    ("BYTES", [b"", b"\x00\xff", bytes(range(256))], "bytes", None),
    ("DATE", [datetime.date(1, 1, 1), datetime.date(9999, 12, 31), datetime.date(2024, 2, 29)], "date", None),
    ("TIME", [datetime.time(23, 59, 59, 999999), datetime.time(0, 0)], "time", [86399999999, 0]),
    ("DATETIME", [datetime.datetime(1, 1, 1), datetime.datetime(2026, 11, 16, 18, 30, 1, 5)], "timestamp", None),
    ("TIMESTAMP", [datetime.datetime(9999, 12, 31, 23, 59, 59, 999999, UTC),
                   datetime.datetime(1969, 12, 31, 23, 59, 59, 999999, UTC)], "timestamptz", None),
    ("GEOGRAPHY", ["POINT(1 2)"], "geography", None),
    ("JSON", ['{"a": [1, 2.50]}'], "json", None),
    ("INTERVAL", ["1-2 3 4:5:6.7"], "interval", None),
    ("RANGE", ["[2020-01-01, UNBOUNDED)"], "text", None),
]


def test_every_type_is_exact(bq, connector):
    rows = max(len(values) for _, values, _, _ in TYPES) + 1
    schema = [field(f"c{i}", kind) for i, (kind, *_) in enumerate(TYPES)]
    schema[-1]["rangeElementType"] = {"type": "DATE"}
    table = [[values[i] if i < len(values) else None for _, values, _, _ in TYPES] for i in range(rows)]
    bq.answers["SELECT types"] = Answer(schema, table)
    found = connector.good(order(bq, "SELECT types"))
    assert [c["type"] for c in found.columns] == [word for _, _, word, _ in TYPES]
    assert found.columns[0]["source_type"] == "INT64" and found.columns[-1]["source_type"] == "RANGE<DATE>"
    for i, (kind, values, _, shown) in enumerate(TYPES):
        column = [row[i] for row in found.rows]
        assert column == list(shown or values) + [None] * (rows - len(values)), kind


def test_nan_and_minus_zero(bq, connector):
    bq.answers["SELECT f"] = Answer([field("f", "FLOAT")], [[float("nan")], [-0.0], [None]])
    (nan,), (zero,), (null,) = connector.good(order(bq, "SELECT f")).rows
    assert math.isnan(nan) and zero == 0 and math.copysign(1, zero) == -1 and null is None


def test_nested_and_repeated(bq, connector):
    when = datetime.datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)
    schema = [field("r", "RECORD", fields=INNER), field("list", "FLOAT", "REPEATED"),
              field("rr", "RECORD", "REPEATED", INNER), field("b", "BYTES", "REPEATED"),
              field("n", "NUMERIC", "REPEATED"), field("d", "DATE", "REPEATED")]
    bq.answers["SELECT nested"] = Answer(schema, [
        [[2**53 + 1, when, ["x", "y"]], [1.5, float("nan")], [[1, None, []], [None, when, ["z"]]],
         [b"\xff"], [decimal.Decimal("1.50")], [datetime.date(1970, 1, 3)]],
        [None, [], [], [], [], []]])
    found = connector.good(order(bq, "SELECT nested"))
    assert found.rows == [
        ({"a": 2**53 + 1, "when": 1000000, "tags": ["x", "y"]}, ["1.5", "NaN"],
         [{"a": 1, "when": None, "tags": []}, {"a": None, "when": 1000000, "tags": ["z"]}], ["/w=="], ["1.50"], [2]),
        (None, [], [], [], [], [])]
    record, floats = found.columns[0], found.columns[1]
    assert record["type"] == "record" and not record["repeated"]
    assert [f["type"] for f in record["fields"]] == ["int", "timestamptz", "text"]
    assert record["fields"][2]["repeated"] and floats["repeated"] and floats["source_type"] == "ARRAY<FLOAT64>"


def test_picoseconds_are_cut_and_told(bq, connector):
    schema = [field("t", "TIMESTAMP", timestampPrecision="12")]
    bq.answers["SELECT t"] = Answer(schema, [[Wire("2026-11-16T01:02:03.123456789012Z")], [Wire("5")]])
    found = connector.good(order(bq, "SELECT t"))
    assert found.rows[0][0] == datetime.datetime(2026, 11, 16, 1, 2, 3, 123456, UTC)
    assert "picoseconds" in found.done["notices"][0]


@pytest.mark.parametrize("kind, value", [
    ("INTEGER", "1.0"), ("INTEGER", "9223372036854775808"), ("INTEGER", ""), ("INTEGER", 7), ("INTEGER", "0x10"),
    ("FLOAT", "nan"), ("FLOAT", "1e999"), ("FLOAT", "1,5"), ("NUMERIC", "NaN"), ("BOOLEAN", "TRUE"),
    ("DATE", "2023-02-29"), ("DATE", "0000-01-01"), ("TIME", "24:00:00"), ("DATETIME", "2023-01-01"),
    ("TIMESTAMP", "1.7E9"), ("TIMESTAMP", "9223372036854775807"), ("BYTES", "a"), ("BYTES", "a=b="),
    ("STRING", ["x"]), ("STRING", {"f": []}), ("RECORD", {"f": []}), ("RECORD", "x"),
])
def test_values_that_lie_about_their_type(bq, connector, kind, value):
    column = field("bad", kind, fields=[field("a", "INTEGER")] if kind == "RECORD" else None)
    bq.answers["SELECT bad"] = Answer([column], [[Wire(value)]])
    error = connector.bad(order(bq, "SELECT bad"), "broken")
    assert "bad" in error["text"], error


# ---- parameters ---------------------------------------------------------------------------------


def test_parameters(bq, connector):
    seen = []

    def answer(config):
        seen.append(config)
        return Answer([field("x", "INTEGER")], [[1]])

    bq.answers["SELECT p"] = answer
    connector.good(order(bq, "SELECT p", params={
        "i": 5, "f": 1.5, "s": "o'; --", "b": True, "none": None, "l": [1, 2.5], "d": {"type": "DATE", "value": "2026-11-16"}}))
    assert seen[-1]["parameterMode"] == "NAMED"
    assert {p["name"]: (p["parameterType"]["type"], p["parameterValue"].get("value"))
            for p in seen[-1]["queryParameters"]} == {
        "i": ("INT64", "5"), "f": ("FLOAT64", "1.5"), "s": ("STRING", "o'; --"), "b": ("BOOL", "true"),
        "none": ("STRING", None), "l": ("ARRAY", None), "d": ("DATE", "2026-11-16")}
    assert seen[-1]["queryParameters"][5]["parameterType"]["arrayType"] == {"type": "FLOAT64"}
    connector.good(order(bq, "SELECT p", params=[1, "x"]))
    assert seen[-1]["parameterMode"] == "POSITIONAL" and "name" not in seen[-1]["queryParameters"][0]
    connector.good(order(bq, "SELECT p", params=[]))
    assert "queryParameters" not in seen[-1]


@pytest.mark.parametrize("params", [{"a b": 1}, {"": 1}, [{"x": 1}], [[[1]]], [[1, "x"]], [{"type": "NOPE", "value": 1}],
                                    [{"type": "DATE", "value": [1]}], list(range(1001))])
def test_parameters_that_cannot_be_carried(bq, connector, params):
    connector.bad(order(bq, params=params), "unsupported")
    assert not bq.called("/jobs")


# ---- what it costs ------------------------------------------------------------------------------

TABLE = ("test-project", "shop", "orders")


def test_estimate_and_bill(bq, connector):
    bq.answers["SELECT t"] = Answer([field("x", "INTEGER")], [[1]], bytes=3 << 40, tables=[TABLE])
    found = connector.good(order(bq, "SELECT t"))
    estimate = found.messages[0]
    assert (estimate["message"], estimate["bytes"], estimate["cost"], estimate["money"]) == (
        "estimate", 3 << 40, 3 << 40, 18.75)
    assert (found.done["bytes"], found.done["cost"], found.done["money"]) == (3 << 40, 3 << 40, 18.75)
    found = connector.good(order(bq, "SELECT t", source={"price": None}))
    assert found.messages[0]["money"] is None and found.done["money"] is None


def test_small_queries_are_billed_for_ten_mib_of_each_table(bq, connector):
    bq.answers["SELECT t"] = Answer([field("x", "INTEGER")], [[1]], bytes=5, tables=[TABLE, TABLE])
    found = connector.good(order(bq, "SELECT t"))
    assert found.messages[0]["cost"] == found.done["cost"] == 20 * MIB


def test_cached_results_cost_nothing(bq, connector):
    bq.answers["SELECT t"] = Answer([field("x", "INTEGER")], [[1]], bytes=1 << 40, tables=[TABLE], cache_hit=True)
    found = connector.good(order(bq, "SELECT t"))
    assert found.done["cache_hit"] is True and found.done["cost"] == 0 and found.messages[0]["cost"] == 1 << 40


def test_too_expensive_is_not_started(bq, connector):
    bq.answers["SELECT t"] = Answer([field("x", "INTEGER")], [[1]], bytes=2 << 40, tables=[TABLE])
    error = connector.bad(order(bq, "SELECT t", limits={"cost": 1 << 30}), "too-expensive")
    assert error["estimate"]["bytes"] == 2 << 40 and error["estimate"]["money"] == 12.5
    assert "2.0 TiB" in error["text"] and "12.50 USD" in error["text"] and "1.0 GiB" in error["text"]
    assert not bq.jobs


def test_ceiling_holds_at_bigquery_too(bq, connector):
    bq.answers["SELECT t"] = Answer([field("x", "INTEGER")], [[1]], bytes=5, tables=[TABLE], billed=1 << 40)
    error = connector.bad(order(bq, "SELECT t", limits={"cost": 1 << 30}), "too-expensive")
    assert "limit for bytes billed: 1073741824" in error["text"]
    (job,) = bq.jobs.values()
    assert job["configuration"]["query"]["maximumBytesBilled"] == "1073741824"
    assert job["configuration"]["labels"] == {"tool": "glovebox"} and int(job["configuration"]["jobTimeoutMs"]) > 0


def test_not_confirmed_is_not_run(bq, connector):
    running = connector.start(order(bq, confirm=True))
    assert running.message()["message"] == "estimate"
    running.cancel()
    assert running.wait() in (0, 125)
    assert not bq.jobs


# ---- what may be read ---------------------------------------------------------------------------


@pytest.mark.parametrize("statement", ["INSERT", "CREATE_TABLE", "SCRIPT", "CALL", "EXPORT_DATA", "DROP_TABLE", None])
def test_only_select(bq, connector, statement):
    bq.answers["BAD"] = Answer([field("x", "INTEGER")], statement=statement)
    error = connector.bad(order(bq, "BAD"), "read-only")
    assert not bq.jobs and (statement is None or statement in error["text"])


def test_dataset_is_a_fence(bq, connector):
    for sql, tables in (("IN", [TABLE]), ("OUT", [TABLE, ("test-project", "hr", "pay")]),
                        ("OTHER", [("elsewhere", "shop", "orders")]), ("MANY", [TABLE] * 50)):
        bq.answers[sql] = Answer([field("x", "INTEGER")], [[1]], bytes=1, tables=tables)
    bq.answers["HIDDEN"] = Answer([field("x", "INTEGER")], [[1]], bytes=1)
    inside = {"dataset": "shop"}
    connector.good(order(bq, "IN", source=inside))
    connector.good(order(bq, ONE, source=inside))
    job = next(iter(bq.jobs.values()))
    assert job["configuration"]["query"]["defaultDataset"] == {"projectId": "test-project", "datasetId": "shop"}
    bq.jobs.clear()
    elsewhere = ["SELECT * FROM EXTERNAL_QUERY('c', 'SELECT 1')", "SELECT * FROM `external\\x5fquery`('c', 'SELECT 1')"]
    for sql in elsewhere:
        bq.answers[sql] = Answer([field("x", "INTEGER")], [[1]], bytes=0)
    for sql in ("OUT", "OTHER", "MANY", "HIDDEN", *elsewhere):
        connector.bad(order(bq, sql, source=inside), "denied")
    assert not bq.jobs
    connector.good(order(bq, "OUT"))


@pytest.mark.parametrize("table", ["orders", "ORDERS", "orders$20261116", "ord*", "orders@-3600000"])
def test_masked_tables_are_not_read(bq, connector, table):
    bq.answers["SELECT m"] = Answer([field("x", "INTEGER")], [[1]], bytes=1, tables=[("test-project", "shop", table)])
    masked = [{"table": "shop.orders", "columns": ["email"]}]
    error = connector.bad(order(bq, "SELECT m", masked=masked), "masked")
    assert "email" in error["text"] and not bq.jobs
    masked = [{"table": "shop.customers", "columns": ["email"]}, {"table": "workshop.orders", "columns": ["x"]},
              {"table": "shop.orders", "columns": []}]
    connector.good(order(bq, "SELECT m", masked=masked))


def test_stored_functions_may_not_look_behind_a_mask(bq, connector):
    bq.answers["SELECT f()"] = Answer([field("x", "INTEGER")], [[1]], routines=[{"routineId": "f"}])
    connector.bad(order(bq, "SELECT f()", masked=[{"table": "shop.orders", "columns": ["email"]}]), "masked")
    connector.good(order(bq, "SELECT f()"))


# ---- pages, jobs, retries -----------------------------------------------------------------------


def test_pages(bq, connector):
    rows = [[i, "x" * (i % 50)] for i in range(1000)]
    bq.answers["SELECT many"] = Answer([field("i", "INTEGER"), field("s", "STRING")], rows, page=83)
    found = connector.good(order(bq, "SELECT many"))
    assert found.rows == [tuple(row) for row in rows]
    assert len(bq.called(r"/queries/.*pageToken")) == 12
    assert all("location=US" in path for path in bq.called("/queries/|/jobs/"))
    assert any(m["message"] == "progress" for m in found.messages)


def test_no_rows(bq, connector):
    bq.answers["SELECT none"] = Answer([field("i", "INTEGER")])
    assert connector.good(order(bq, "SELECT none")).rows == []


def test_jobs_that_outlast_a_request(bq, connector):
    bq.answers["SELECT slow"] = Answer([field("i", "INTEGER")], [[1]], polls=4)
    assert connector.good(order(bq, "SELECT slow")).rows == [(1,)]
    assert len(bq.called("GET .*/queries/")) == 5


@pytest.mark.parametrize("where", ["/token", "POST .*/jobs", "/queries/"])
@pytest.mark.parametrize("status, reason", [(503, "backendError"), (429, "rateLimitExceeded"), (500, "internalError"),
                                            (403, "jobRateLimitExceeded")])
def test_retries(bq, connector, where, status, reason):
    bq.faults.append(Fault(where, times=2, status=status, reason=reason, headers=AGAIN))
    assert connector.good(order(bq)).rows == [(1,)]
    assert len(bq.jobs) == 1


def test_retries_end(bq, connector):
    bq.faults.append(Fault("POST .*/jobs", times=None, status=503, headers=AGAIN))
    error = connector.bad(order(bq), "unreachable")
    assert "try again later" in error["text"] and len(bq.called("/jobs")) == 6


def test_a_job_that_was_started_and_not_confirmed_runs_once(bq, connector):
    """The reply to jobs.insert is lost: the next try finds the job by its id."""
    seen = []
    bq.answers["SELECT once"] = lambda config: seen.append(config) or Answer([field("x", "INTEGER")], [[1]])
    running = connector.start(order(bq, "SELECT once", confirm=True))
    assert running.message()["message"] == "estimate"
    bq.faults.append(Fault("POST .*/jobs", status=503, after=True, headers=AGAIN))
    text = json.dumps({"go": True}).encode()
    running.control.sendall(len(text).to_bytes(4, "little") + text)
    assert running.messages()[-1]["message"] == "done"
    assert len(bq.jobs) == 1 and len(seen) == 2 and len(bq.called("POST .*/jobs")) == 3


def test_expired_token_is_renewed_and_handed_back(bq, connector):
    found = connector.good(order(bq, source={"token": "ya29.expired"}))
    assert found.done["token"] in bq.tokens and found.done["expires_in"] == 3600
    assert len(bq.called("/token")) == 1
    found = connector.good(order(bq, source={"token": found.done["token"]}))
    assert "token" not in found.done and len(bq.called("/token")) == 1


def test_token_that_expires_in_the_middle(bq, connector):
    rows = [[i] for i in range(10)]

    def answer(config):
        return Answer([field("i", "INTEGER")], rows, page=3)

    bq.answers["SELECT many"] = answer
    token = bq.token()
    running = connector.start(order(bq, "SELECT many", source={"token": token}, confirm=True))
    assert running.message()["message"] == "estimate"
    bq.tokens[token] = 0
    text = json.dumps({"go": True}).encode()
    running.control.sendall(len(text).to_bytes(4, "little") + text)
    done = running.messages()[-1]
    assert done["message"] == "done" and done["rows"] == 10 and done["token"] in bq.tokens


# ---- credentials --------------------------------------------------------------------------------


def no_secrets(bq, source, *messages):
    text = json.dumps(messages)
    for secret in (source["assertion"], source["assertion"].split(".")[-1], *bq.tokens):
        assert secret not in text


def test_wrong_credentials(bq, connector):
    for bad in ({"assertion": bq.assertion(iss="other@example.com")}, {"assertion": bq.assertion(exp=1)},
                {"assertion": bq.assertion()[:-10] + "AAAAAAAAAA"}, {"assertion": "rubbish"}):
        how = order(bq, source=bad)
        error = connector.bad(how, "denied")
        assert "invalid_grant" in error["text"]
        no_secrets(bq, how["source"], error)
    error = connector.bad({"op": "query", "sql": ONE, "source": {
        "kind": "bigquery", "url": bq.url, "project": "test-project", "token": "ya29.expired"}}, "denied")
    assert "ya29" not in error["text"]


def test_no_right(bq, connector):
    bq.denied = ("accessDenied", "Access Denied: User does not have bigquery.jobs.create permission")
    assert "bigquery.jobs.create" in connector.bad(order(bq), "denied")["text"]


def test_secrets_in_what_a_server_says(bq, connector):
    token = bq.token()
    how = order(bq, source={"token": token})
    bq.faults.append(Fault("/jobs", status=400, reason="invalidQuery",
                           message=f"your token {token} and {how['source']['assertion']}"))
    error = connector.bad(how, "sql")
    assert "***" in error["text"]
    no_secrets(bq, how["source"], error)


def test_a_new_token_is_a_secret_too(bq, connector):
    with BigQuery() as echo:
        echo.token = lambda: echo.tokens.setdefault("ya29.thenewtoken", 1e18) and "ya29.thenewtoken"
        echo.faults.append(Fault("/jobs", status=400, reason="invalidQuery", message="you sent ya29.thenewtoken"))
        assert connector.bad(order(echo), "sql")["text"] == "you sent ***"


def test_tokens_do_not_travel_in_the_clear(bq, connector):
    error = connector.bad(order(bq, source={"url": "http://bigquery.example"}), "unreachable")
    assert "https" in error["text"]
    connector.bad(order(bq, source={"token_uri": "http://token.example/"}), "denied")
    assert not bq.requests


def test_redirects_are_not_followed(bq, connector):
    bq.faults.append(Fault("/jobs", status=307, reason="", headers={"Location": bq.url + "/stolen"}))
    connector.bad(order(bq), "broken")
    assert not bq.called("stolen")


# ---- limits, time, cancelling -------------------------------------------------------------------


def test_limits(bq, connector):
    bq.answers["SELECT many"] = Answer([field("s", "STRING")], [["x" * 100]] * 1000, page=100)
    error = connector.bad(order(bq, "SELECT many", limits={"rows": 999}), "too-large")
    assert "1000 rows" in error["text"] and "999" in error["text"]
    connector.bad(order(bq, "SELECT many", limits={"bytes": 50000}), "too-large")
    assert len(connector.good(order(bq, "SELECT many", limits={"rows": 1000})).rows) == 1000
    for columns in (5, 10000):
        bq.answers["SELECT wide"] = Answer([field(f"c{i}", "STRING") for i in range(columns)], [["x"] * columns])
        assert str(columns) in connector.bad(order(bq, "SELECT wide", limits={"columns": 4}), "too-large")["text"]


def test_cancel(bq, connector):
    bq.answers["SELECT slow"] = Answer([field("i", "INTEGER")], [[1]], hold=threading.Event())
    running = connector.start(order(bq, "SELECT slow"))
    wait_for(lambda: bq.called("/queries/"), PATIENCE, "the job")
    running.cancel()
    running.wait()
    (id,) = bq.jobs
    assert bq.cancelled == [id]


def test_deadline(bq, connector):
    bq.answers["SELECT slow"] = Answer([field("i", "INTEGER")], [[1]], hold=threading.Event())
    error = connector.bad(order(bq, "SELECT slow", limits={"ms": 1500}), "timeout")
    assert "time" in error["text"] and bq.cancelled == list(bq.jobs)


@pytest.mark.parametrize("where", ["/token", "POST .*/jobs", "/queries/"])
def test_a_server_that_hangs(bq, connector, where):
    bq.faults.append(Fault(where, times=None, silent=True))
    connector.bad(order(bq, limits={"ms": 1000}), "timeout")


# ---- servers that send rubbish ------------------------------------------------------------------


@pytest.mark.parametrize("body", [
    b"", b"[]", b"null", b"{", b"\xff\xfe", b'{"a": "\xff"}', b"[" * 100000, b"<html></html>", b'{"a":1}{"b":2}',
    b'{"jobComplete": true}', b'{"jobComplete": true, "totalRows": "1", "schema": {"fields": []}}',
    b'{"jobComplete": true, "totalRows": "-1", "schema": {"fields": [{"name": "x", "type": "INTEGER"}]}}',
    b'{"jobComplete": true, "totalRows": "1", "schema": {"fields": [{"name": "x", "type": "INTEGER"}]}, "rows": {}}',
    b'{"jobComplete": true, "totalRows": "1", "schema": {"fields": [{"name": "x", "type": "INTEGER"}]}, "rows": [1]}',
    b'{"jobComplete": true, "totalRows": "1", "schema": {"fields": [{"name": "x", "type": "INTEGER"}]}, "rows": [{"f": []}]}',
    b'{"jobComplete": true, "totalRows": "1", "schema": {"fields": [{"name": "x", "type": "INTEGER"}]}, "rows": [{"f": [{}]}]}',
    b'{"jobComplete": true, "totalRows": "2", "schema": {"fields": [{"name": "x", "type": "INTEGER"}]}, "rows": [{"f": [{"v": "1"}]}]}',
    b'{"jobComplete": true, "totalRows": "0", "schema": {"fields": [{"name": "x", "type": "INTEGER"}]}, "rows": [{"f": [{"v": "1"}]}]}',
])
def test_rubbish(bq, connector, body):
    bq.faults.append(Fault("GET .*/queries/", body=body))
    connector.bad(order(bq), "broken")


@pytest.mark.parametrize("where, word", [("/token", "broken"), ("POST .*/jobs", None)])
def test_rubbish_elsewhere(bq, connector, where, word):
    for body in (b"", b"[]", b"{}", b'{"access_token": "a b", "statistics": 7}', b'{"statistics": {"query": []}}'):
        bq.faults[:] = [Fault(where, body=body)]
        assert connector.bad(order(bq), word)["word"] in ("broken", "read-only")
    assert not bq.jobs


def test_pages_without_end(bq, connector):
    schema = b'"totalRows": "3", "schema": {"fields": [{"name": "x", "type": "INTEGER"}]}'
    for rows in (b"", b', "rows": [{"f": [{"v": "1"}]}]'):
        bq.faults[:] = [Fault("/queries/", times=None, body=b'{"jobComplete": true, "pageToken": "again", %s%s}' % (schema, rows))]
        connector.bad(order(bq), "broken")


def test_unknown_types(bq, connector):
    bq.answers["SELECT new"] = Answer([field("x", "TENSOR")], [])
    assert "TENSOR" in connector.bad(order(bq, "SELECT new"), "unsupported")["text"]
    twice = field("r", "RECORD", fields=[field("a", "INTEGER"), field("a", "INTEGER")])
    bq.answers["SELECT twice"] = Answer([twice], [])
    connector.bad(order(bq, "SELECT twice"), "unsupported")


def test_a_line_that_breaks(bq, connector):
    """Hangs up in the middle of a reply, once; the next try goes well."""
    for at in (0, 1, 17, 90, 150):
        bq.faults[:] = [Fault(where, hang_up=at) for where in ("/token", "POST .*/jobs", "/queries/")]
        assert connector.good(order(bq)).rows == [(1,)], at


def test_a_line_that_breaks_at_each_byte(connector):
    """Of a page of rows: a page for each byte, and several queries at a time, because what broke is tried
    again after a while."""
    sql, at_a_time = "SELECT many", 16

    def ask(cuts):
        """The page after the first is cut at cuts[0], the next one at cuts[1], ...; bytes of a page."""
        rows = [[10**6 + i] for i in range(len(cuts) + 3)]
        with BigQuery() as bq:
            bq.answers[sql] = Answer([field("i", "INTEGER")], rows, page=1)
            bq.faults += [Fault(rf"/queries/.*pageToken={n}(&|$)", hang_up=at) for n, at in enumerate(cuts, 1)]
            assert connector.good(order(bq, sql)).rows == [tuple(row) for row in rows]
            assert len(bq.called("/queries/.*pageToken")) == 2 * len(cuts) + 2 and len(bq.jobs) == 1
            return next(size for path, size in bq.sizes.items() if "pageToken=1" in path)

    length = ask([])
    with concurrent.futures.ThreadPoolExecutor(at_a_time) as pool:
        list(pool.map(ask, [range(first, length, at_a_time) for first in range(at_a_time)]))


def test_a_line_that_always_breaks(bq, connector):
    bq.faults.append(Fault("/queries/", times=None, hang_up=120))
    connector.bad(order(bq), "broken")
    assert bq.cancelled == list(bq.jobs)  # nobody knows whether it has ended


def test_lengths_that_lie(bq, connector):
    bq.faults.append(Fault("/queries/", length=10))
    connector.bad(order(bq), "broken")
    bq.faults[:] = [Fault("/queries/", length=10**6)]
    assert connector.good(order(bq)).rows == [(1,)]


def test_nobody_is_there(bq, connector):
    error = connector.bad(order(bq, source={"token_uri": "http://127.0.0.1:1/token"}), "unreachable")
    assert "cannot reach" in error["text"]


@contextlib.contextmanager
def behind_tls(bq, context):
    """The same stand-in once more, at https."""

    class Handler(HttpConnection):
        pass

    Handler.bq = bq
    server = HttpServer(("127.0.0.1", 0), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"https://localhost:{server.server_port}"
    finally:
        server.shutdown()
        server.close_all()
        server.server_close()
        thread.join()


def test_certificates_are_verified(bq, connector, tmp_path):
    """Name, time and authority. As root with our authority as the only one of the machine, seen by this
    connector alone; else with one that the machine does not know."""
    binary = BINARY
    if os.geteuid() == 0:
        binary = str(tmp_path / "connector")
        (tmp_path / "connector").write_text(
            f"#!/bin/sh\nexec unshare --mount sh -c 'mount --bind {tmp_path}/ca.pem /etc/ssl/certs/ca-certificates.crt "
            f"&& exec {BINARY} internal-connector'\n")
        (tmp_path / "connector").chmod(0o755)
    for name, context in certificates(tmp_path).items():
        if os.geteuid() != 0 and name != "unknown":
            continue
        with behind_tls(bq, context) as url:
            how = order(bq, source={"url": url, "token": bq.token()})
            kit = Connector(binary)
            if name == "good":
                assert kit.good(how).rows == [(1,)]
                bq.requests.clear()
                continue
            error = kit.bad(how, "unreachable")
            assert any(words in error["text"] for words in REFUSED[name]), (name, error)
            assert not bq.called("/jobs")


# ---- errors of BigQuery's -----------------------------------------------------------------------


def test_sql_that_is_wrong(bq, connector):
    error = connector.bad(order(bq, "SELEC"), "sql")
    assert "Syntax error" in error["text"] and "[1:1]" in error["text"]


@pytest.mark.parametrize("reason, word", [
    ("invalidQuery", "sql"), ("notFound", "sql"), ("accessDenied", "denied"), ("resourcesExceeded", "too-large"),
    ("quotaExceeded", "too-expensive"), ("stopped", "cancelled"), ("surprise", "sql")])
def test_jobs_that_fail(bq, connector, reason, word):
    bq.answers["SELECT boom"] = Answer([field("x", "INTEGER")], error=(reason, "division by zero: 1 / 0"))
    assert "division by zero" in connector.bad(order(bq, "SELECT boom"), word)["text"]
    bq.answers["SELECT boom"].polls = 1
    assert "division by zero" in connector.bad(order(bq, "SELECT boom"), word)["text"]


# ---- catalogue and check ------------------------------------------------------------------------


@pytest.fixture
def shop(bq):
    orders = [field("id", "INTEGER", "REQUIRED", description="number of the order"), field("customer", "INTEGER"),
              field("email", "STRING"), field("when", "TIMESTAMP"), field("shape", "TENSOR"),
              field("open", "RANGE", rangeElementType={"type": "DATE"}),
              field("items", "RECORD", "REPEATED", [field("sku", "STRING", description="article"), field("n", "INTEGER")])]
    when = [datetime.datetime(2026, 1, 2, tzinfo=UTC), datetime.datetime(1969, 12, 31, 23, 59, 59, 999999, UTC)]
    bq.add_table("shop", "orders", orders, [[i, i % 2, f"secret{i}@example.com", when[i % 2], Wire("x"),
                                             "[2026-01-02, UNBOUNDED)", []] for i in range(30)],
                 description="all orders", timePartitioning={"type": "DAY", "field": "when"},
                 requirePartitionFilter=True, clustering={"fields": ["customer"]},
                 tableConstraints={"primaryKey": {"columns": ["id"]}, "foreignKeys": [{
                     "referencedTable": {"projectId": "test-project", "datasetId": "shop", "tableId": "customers"},
                     "columnReferences": [{"referencingColumn": "customer", "referencedColumn": "id"}]}]})
    bq.add_table("shop", "customers", [field("id", "INTEGER"), field("name", "STRING")], [[1, "Ä" * 80], [2, ""], [3, None]])
    bq.add_table("shop", "recent", [field("id", "INTEGER")], type="VIEW")
    for day in range(1, 8):
        bq.add_table("shop", f"events_2026010{day}", [field(f"day{day}", "INTEGER")], [[day]])
    bq.add_table("hr", "pay", [field("salary", "INTEGER")], [[100]])
    bq.rows["hr", "pay"] = (403, "accessDenied", "row access policy")
    return bq


def catalogue(bq, connector, **more):
    found = connector.good(order(bq, op="catalogue", **more))
    return {table["name"]: table for table in found.rows["tables"]}, found


def test_catalogue(shop, connector):
    tables, found = catalogue(shop, connector, samples=3, masked=[{"table": "shop.orders", "columns": ["email"]}])
    assert sorted(tables) == ["hr.pay", "shop.customers", "shop.events_*", "shop.orders", "shop.recent"]
    assert found.rows["readable"] is None and found.done["token"] in shop.tokens
    orders = tables["shop.orders"]
    assert (orders["kind"], orders["comment"], orders["rows"], orders["bytes"]) == ("table", "all orders", 30, 3000)
    assert orders["partitioning"] == "by when, DAY, a filter is needed; clustered by customer"
    columns = {column["name"]: column for column in orders["columns"]}
    assert list(columns) == ["id", "customer", "email", "when", "shape", "open", "items", "items.sku", "items.n"]
    assert columns["id"]["key"] and not columns["id"]["nullable"] and columns["id"]["comment"] == "number of the order"
    assert columns["id"]["samples"] == ["0", "1", "2", "3", "4"] and columns["customer"]["samples"] == ["0", "1"]
    assert columns["customer"]["references"] == "shop.customers.id"
    assert columns["items"]["source_type"] == "ARRAY<STRUCT>" and columns["items.sku"]["comment"] == "article"
    assert columns["shape"]["source_type"] == "TENSOR" and columns["open"]["source_type"] == "RANGE<DATE>"
    assert columns["when"]["samples"] == ["2026-01-02 00:00:00+00", "1969-12-31 23:59:59.999999+00"]
    assert "samples" not in columns["email"] and "secret" not in found.raw.decode()
    assert all("email" not in path for path in shop.called("selectedFields"))
    assert tables["shop.customers"]["columns"][1]["samples"] == ["Ä" * 50]
    assert (tables["shop.recent"]["kind"], tables["shop.recent"]["rows"]) == ("view", None)
    assert [c["name"] for c in tables["shop.events_*"]["columns"]] == ["day7"]
    assert tables["hr.pay"]["row_security"] and tables["hr.pay"]["rows"] is None
    assert not shop.jobs and not shop.called("POST .*/(jobs|queries)")  # nothing that is billed


def test_catalogue_of_a_dataset_without_samples(shop, connector):
    tables, _ = catalogue(shop, connector, source={"dataset": "hr"})
    assert list(tables) == ["hr.pay"] and not shop.called(r"/data\?")
    assert "Not found: Dataset" in connector.bad(order(shop, op="catalogue", source={"dataset": "nope"}))["text"]


def test_catalogue_while_tables_vanish(shop, connector):
    shop.faults.append(Fault("/tables/orders", status=404, reason="notFound"))
    tables, _ = catalogue(shop, connector)
    assert "shop.orders" not in tables and "shop.customers" in tables


@pytest.mark.parametrize("body", [b"{}", b'{"tables": 7}', b'{"tables": [1, {"tableReference": {"tableId": 5}}]}'])
def test_catalogue_of_rubbish(shop, connector, body):
    shop.faults.append(Fault("/tables", times=None, body=body))
    tables, _ = catalogue(shop, connector)
    assert all(table["columns"] == [] for table in tables.values())


def test_check(shop, connector):
    done = connector.good(order(shop, op="check", source={"dataset": "shop"})).done
    assert done["ok"] and [check["name"] for check in done["checks"]] == ["jobs", "data"]
    done = connector.good(order(shop, op="check", source={"dataset": "nope"})).done
    assert not done["ok"] and "nope" in done["checks"][1]["text"]
    shop.denied = ("accessDenied", "no bigquery.jobs.create")
    done = connector.good(order(shop, op="check")).done
    assert not done["ok"] and "bigquery.jobs.create" in done["checks"][0]["text"]
    connector.bad(order(shop, op="check", source={"assertion": "rubbish"}), "denied")
    assert not shop.jobs


# ---- the stand-in, as Google's client sees it ---------------------------------------------------

GOOGLE = '''
import datetime, decimal, json, math, sys
from google.cloud import bigquery
from google.oauth2 import service_account
from google.api_core import exceptions

account, url = json.loads(sys.argv[1]), sys.argv[2]
scopes = ["https://www.googleapis.com/auth/bigquery"]
credentials = service_account.Credentials.from_service_account_info(account, scopes=scopes)
client = bigquery.Client(project="test-project", credentials=credentials, location="US",
                         client_options={"api_endpoint": url})

def rows(sql, **how):
    return [tuple(row.values()) for row in client.query(sql, **how).result()]

config = bigquery.QueryJobConfig(dry_run=True, use_query_cache=False)
dry = client.query("SELECT types", job_config=config)
assert dry.total_bytes_processed == 12345 and dry.statement_type == "SELECT"
assert [t.table_id for t in dry.referenced_tables] == ["orders"], dry.referenced_tables
assert [f.field_type for f in dry.schema][0] == "INTEGER"

(row,) = rows("SELECT types")
utc = datetime.timezone.utc
assert row[0] == 2**63 - 1 and row[1] == 1.5 and row[2] == decimal.Decimal("1.50") and row[3] is True
assert row[4] == "Gr\\u00fc\\u00dfe" and row[5] == b"\\x00\\xff" and row[6] == datetime.date(2024, 2, 29)
assert row[7] == datetime.time(1, 2, 3, 4) and row[8] == datetime.datetime(2026, 11, 16, 18, 30, 1, 5)
assert row[9] == datetime.datetime(2026, 11, 16, 18, 30, 1, 5, tzinfo=utc)
assert row[10] == {"a": 1, "when": row[9], "tags": ["x"]} and row[11] == [1, 2] and row[12] is None
assert row[13] == {"start": datetime.date(2020, 1, 1), "end": None}

assert rows("SELECT many") == [(i,) for i in range(100)]
assert rows("SELECT slow") == [(1,)]
job = client.query("SELECT slow", job_id="once")
try:
    client.query("SELECT slow", job_id="once", job_retry=None, retry=None)
    raise AssertionError("an id twice")
except exceptions.Conflict:
    pass
try:
    rows("SELEC")
    raise AssertionError("a syntax error")
except exceptions.BadRequest as e:
    assert "Syntax error" in str(e) and e.errors[0]["reason"] == "invalidQuery"
try:
    client.query("SELECT types", job_config=bigquery.QueryJobConfig(maximum_bytes_billed=1)).result()
    raise AssertionError("a ceiling")
except exceptions.GoogleAPICallError as e:
    assert "bytes billed" in str(e) and e.errors[0]["reason"] == "bytesBilledLimitExceeded", e
assert rows("SELECT p", job_config=bigquery.QueryJobConfig(
    query_parameters=[bigquery.ScalarQueryParameter("n", "INT64", 5)])) == [(5,)]
assert [d.dataset_id for d in client.list_datasets()] == ["shop"]
assert sorted(t.table_id for t in client.list_tables("shop")) == ["a", "b", "c", "d", "orders"]
table = client.get_table("shop.orders")
assert table.num_rows == 2 and table.schema[0].description == "number" and table.time_partitioning.field == "day"
assert [tuple(r) for r in client.list_rows(table, max_results=1)] == [(1, datetime.date(2026, 1, 1))]
job = client.query("SELECT held")
job.cancel()
try:
    job.result()
    raise AssertionError("cancelled")
except exceptions.GoogleAPICallError as e:
    assert "cancel" in str(e)
try:
    bad = service_account.Credentials.from_service_account_info({**account, "client_email": "x@y.z"}, scopes=scopes)
    bigquery.Client(project="test-project", credentials=bad, client_options={"api_endpoint": url}).query("SELECT 1")
    raise AssertionError("signed in")
except Exception as e:
    assert "invalid_grant" in str(e), e
print("google-cloud-bigquery", bigquery.__version__, "agrees")
'''


def test_googles_own_client_agrees_with_the_stand_in(bq, tmp_path):
    when = datetime.datetime(2026, 11, 16, 18, 30, 1, 5, UTC)
    schema = [field(f"c{i}", kind) for i, kind in enumerate(
        ["INTEGER", "FLOAT", "NUMERIC", "BOOLEAN", "STRING", "BYTES", "DATE", "TIME", "DATETIME", "TIMESTAMP"])]
    schema += [field("r", "RECORD", fields=INNER), field("l", "INTEGER", "REPEATED"), field("n", "STRING"),
               field("range", "RANGE", rangeElementType={"type": "DATE"})]
    bq.answers |= {
        "SELECT types": Answer(schema, [[2**63 - 1, 1.5, decimal.Decimal("1.50"), True, "Grüße", b"\x00\xff",
                                         datetime.date(2024, 2, 29), datetime.time(1, 2, 3, 4),
                                         when.replace(tzinfo=None), when, [1, when, ["x"]], [1, 2], None,
                                         "[2020-01-01, UNBOUNDED)"]],
                               bytes=12345, tables=[TABLE]),
        "SELECT many": Answer([field("i", "INTEGER")], [[i] for i in range(100)], page=30),
        "SELECT slow": Answer([field("i", "INTEGER")], [[1]], polls=2),
        "SELECT held": Answer([field("i", "INTEGER")], [[1]], hold=threading.Event()),
        "SELECT p": lambda config: Answer([field("n", "INTEGER")], [
            [int(config["queryParameters"][0]["parameterValue"]["value"])]]),
    }
    for name in "abcd":
        bq.add_table("shop", name, [field("x", "INTEGER")])
    bq.add_table("shop", "orders", [field("id", "INTEGER", description="number"), field("day", "DATE")],
                 [[1, datetime.date(2026, 1, 1)], [2, None]], timePartitioning={"type": "DAY", "field": "day"})
    program = tmp_path / "ask_google.py"
    program.write_text(textwrap.dedent(GOOGLE))
    done = subprocess.run([kit_python(), str(program), json.dumps(bq.credentials()), bq.url],
                          capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "agrees" in done.stdout
