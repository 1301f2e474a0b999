"""
BigQuery as a source, over an emulator that runs SQL: bqemulator, which has DuckDB behind it.

Google's own client asks the same emulator the same questions, and what the connector returns must be
what that client makes of it: values and types of results, parameters, pages, refusals, catalogue.

The emulator is not BigQuery. What is left out here because of that:

- GEOGRAPHY: it downloads an extension of DuckDB for it, so it is started without.
- BIGNUMERIC has at most 38 digits and cannot be the type of a column.
- BYTES literals have to be UTF-8; FROM_HEX() makes others.
- RANGE is one only as a column of a table; RANGE() makes a STRUCT.
- Parameters of type BYTES and JSON become STRING, those of BIGNUMERIC become NUMERIC.
- Timestamps are microseconds, whether they were asked for or not (formatOptions.useInt64Timestamp).
- A dry run does not say how many bytes would be read, nor from which tables. The fence around a
  dataset, masks and ceilings are tested in test_bigquery.py.
- Jobs have ended when jobs.insert returns, so none can be cancelled.

What it does that the connector notices is in `DIFFERENCES`.
"""

import datetime
import json
import pickle
import re
import subprocess

import pytest

from bigquery_kit import BigQuery, kit_python
from conftest import SLOW, wait_for
from connector_kit import PATIENCE, connector, from_base64, value_of  # noqa: F401

PROJECT = "test-project"

VALUES = {
    "INT64": "SELECT 0 AS a, 9223372036854775807 AS b, -9223372036854775808 AS c, CAST(NULL AS INT64) AS d",
    "FLOAT64": "SELECT 1.5 AS a, -0.0 AS b, 5e-324 AS c, 0.1 AS d, 1.7976931348623157e308 AS e, CAST(NULL AS FLOAT64) AS f",
    "NUMERIC": "SELECT NUMERIC '99999999999999999999999999999.999999999' AS a, NUMERIC '-1.50' AS b, CAST(NULL AS NUMERIC) AS c",
    "BIGNUMERIC": f"SELECT BIGNUMERIC '-0.{'0' * 37}1' AS a, BIGNUMERIC '{'9' * 28}.5' AS b, CAST(NULL AS BIGNUMERIC) AS c",
    "BOOL": "SELECT TRUE AS a, FALSE AS b, CAST(NULL AS BOOL) AS c",
    "STRING": r"""SELECT '' AS a, 'Grüße 😀' AS b, "o'; --\t\n" AS c, CAST(NULL AS STRING) AS d""",
    "BYTES": "SELECT FROM_HEX('00ff80') AS a, b'abc' AS b, FROM_HEX('') AS c, CAST(NULL AS BYTES) AS d",
    "DATE": "SELECT DATE '0001-01-01' AS a, DATE '9999-12-31' AS b, DATE '2024-02-29' AS c, CAST(NULL AS DATE) AS d",
    "TIME": "SELECT TIME '23:59:59.999999' AS a, TIME '00:00:00' AS b, TIME '12:30:00.5' AS c, CAST(NULL AS TIME) AS d",
    "DATETIME": "SELECT DATETIME '0001-01-01 00:00:00' AS a, DATETIME '2026-11-16 18:30:01.000005' AS b, "
                "DATETIME '9999-12-31 23:59:59.999999' AS c, CAST(NULL AS DATETIME) AS d",
    "TIMESTAMP": "SELECT TIMESTAMP '0001-01-01 00:00:00+00' AS a, TIMESTAMP '1969-12-31 23:59:59.999999+00' AS b, "
                 "TIMESTAMP '2026-11-16 18:30:01.000005+02' AS c, TIMESTAMP '9999-12-31 23:59:59.999999+00' AS d, "
                 "CAST(NULL AS TIMESTAMP) AS e",
    "JSON": """SELECT JSON '{"a": [1, 2.50, null]}' AS a, JSON 'null' AS b, JSON '"x"' AS c, CAST(NULL AS JSON) AS d""",
    "INTERVAL": "SELECT MAKE_INTERVAL(1, 2, 3, 4, 5, 6) AS a, INTERVAL -1 DAY AS b",
    "STRUCT": "SELECT STRUCT(1 AS a, 'x' AS b, TIMESTAMP '2026-11-16 00:00:00+00' AS c, [1, 2] AS d, STRUCT("
              "FROM_HEX('ff') AS z, NUMERIC '1.50' AS y, 0.1 AS x, TRUE AS w) AS e, CAST(NULL AS STRING) AS f) AS s",
    "ARRAY": "SELECT [1, 2] AS a, ['x', 'y'] AS b, [0.1, 1e300] AS c, [DATE '1970-01-03'] AS d, [FROM_HEX('ff')] AS e, "
             "[NUMERIC '1.50'] AS f, [TRUE, FALSE] AS g, ARRAY<INT64>[] AS h, [STRUCT(1 AS a, 'x' AS b), STRUCT(2, NULL)] AS i, "
             "[TIME '23:59:59.999999'] AS j, [DATETIME '2026-11-16 18:30:01.000005'] AS k, CAST(NULL AS ARRAY<INT64>) AS l",
    "rows": "SELECT x, x * 0.5 AS y FROM UNNEST([1, NULL, 3]) AS x ORDER BY x",
    "no rows": "SELECT x FROM UNNEST([1]) AS x WHERE FALSE",
    "table": "SELECT * FROM shop.orders ORDER BY id",
    "view": "SELECT * FROM shop.recent ORDER BY id",
    "aggregates": "SELECT COUNT(*) AS c, SUM(n) AS s, AVG(f) AS a, MAX(t) AS t FROM shop.orders",
}
PAGES = "SELECT x, CAST(x AS STRING) AS s FROM UNNEST(GENERATE_ARRAY(1, 25000)) AS x ORDER BY x"

# name, type, value; a list is an ARRAY
NAMED = [("i", "INT64", 2**53 + 1), ("f", "FLOAT64", 0.1), ("s", "STRING", "o'; -- ü"), ("b", "BOOL", True),
         ("none", "STRING", None), ("d", "DATE", "2026-11-16"), ("n", "NUMERIC", "1.50"), ("ti", "TIME", "23:59:59.999999"),
         ("dt", "DATETIME", "2026-11-16 18:30:01.000005"), ("t", "TIMESTAMP", "2026-11-16 18:30:01.000005+00"),
         ("l", "INT64", [3, 1, 2]), ("w", "STRING", ["x", ""])]
PARAMETERS = {
    "SELECT " + ", ".join(f"@{name} AS {name}" for name, _, _ in NAMED): NAMED,
    "SELECT x FROM UNNEST(@l) AS x ORDER BY x": [("l", "INT64", [3, 1, 2])],
    "SELECT id FROM shop.orders WHERE day = @day": [("day", "STRING", "2026-11-16")],
    "SELECT ? AS a, ? AS b": [(None, "INT64", 5), (None, "STRING", "x")],
}

WRITES = [
    "INSERT INTO shop.orders (id) VALUES (3)",
    "UPDATE shop.orders SET s = 'x' WHERE TRUE",
    "DELETE FROM shop.orders WHERE TRUE",
    "MERGE shop.orders a USING shop.orders b ON a.id = b.id WHEN MATCHED THEN DELETE",
    "TRUNCATE TABLE shop.orders",
    "CREATE TABLE shop.copied AS SELECT 1 AS x",
    "DROP TABLE shop.orders",
    "SELECT 1; SELECT 2",
    "DECLARE x INT64 DEFAULT 1; SELECT x",
]

WRONG = ["SELEC 1", "SELECT nope FROM shop.orders", "SELECT * FROM shop.nope", "SELECT * FROM nope.nope",
         "SELECT 1 / 0", "SELECT ERROR('boom')"]

# statement, what becomes of it here, what BigQuery does
DIFFERENCES = [
    ("SELECT IEEE_DIVIDE(0, 0) AS x", "broken",
     'it writes "nan" and "inf"; BigQuery writes "NaN", "Infinity" and "-Infinity", which are the only ones that '
     "Google's client for Ruby knows"),
    ("SELECT 1 AS x UNION ALL SELECT 2", "read-only",
     "its dry run has no statementType for it; BigQuery says SELECT"),
]

EMULATOR = '''
import asyncio, os, sys
from bqemulator.config import LogLevel, Settings
from bqemulator.server import EmulatorServer
from bqemulator.storage.engine import DuckDBEngine

DuckDBEngine._load_spatial = lambda self: None

async def main():
    server = EmulatorServer(Settings(rest_port=0, grpc_port=0, enable_format_extensions=False, log_level=LogLevel.ERROR))
    await server.start()
    with open("url.new", "w") as file:
        file.write(server.rest_url)
    os.rename("url.new", "url")
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await server.stop()

asyncio.run(main())
'''

GOOGLE = '''
import json, pickle, sys
from dateutil.relativedelta import relativedelta
from google.api_core import exceptions
from google.auth.credentials import AnonymousCredentials
from google.cloud import bigquery
from google.cloud.bigquery import ArrayQueryParameter, QueryJobConfig, ScalarQueryParameter, SchemaField as Field

ask = json.load(sys.stdin)
client = bigquery.Client(project=ask["project"], credentials=AnonymousCredentials(), location="US",
                         client_options={"api_endpoint": ask["url"]})
never = {"retry": None, "timeout": ask["patience"]}

def plain(value):
    if isinstance(value, relativedelta):
        return "interval", *(getattr(value, unit) for unit in ("years", "months", "days", "hours", "minutes", "seconds"))
    return value

def kind(field):
    name = {"INTEGER": "INT64", "FLOAT": "FLOAT64", "BOOLEAN": "BOOL", "RECORD": "STRUCT"}.get(field.field_type, field.field_type)
    if field.range_element_type:
        name += f"<{field.range_element_type.element_type}>"
    return f"ARRAY<{name}>" if field.mode == "REPEATED" else name

def query(sql, **config):
    rows = client.query(sql, job_config=QueryJobConfig(**config), job_retry=None, **never).result(
        page_size=9000, job_retry=None, **never)
    return [(f.name, kind(f)) for f in rows.schema], [tuple(plain(v) for v in row.values()) for row in rows]

def parameter(name, type, value):
    return (ArrayQueryParameter if isinstance(value, list) else ScalarQueryParameter)(name, type, value)

def dry_run(sql):
    return client.query(sql, job_config=QueryJobConfig(dry_run=True, use_query_cache=False), job_retry=None, **never)

def failure(sql):
    try:
        return query(sql)
    except exceptions.GoogleAPICallError as e:
        return e.errors[0]["reason"], e.errors[0]["message"]

def described(fields, prefix=""):
    for f in fields:
        yield prefix + f.name, kind(f), f.mode != "REQUIRED", f.description or ""
        yield from described(f.fields, prefix + f.name + ".")

for name in ("shop", "empty"):
    client.create_dataset(name, **never)
orders = bigquery.Table(ask["project"] + ".shop.orders", schema=[
    Field("id", "INTEGER", "REQUIRED", description="number of the order"), Field("day", "DATE"), Field("t", "TIMESTAMP"),
    Field("dt", "DATETIME"), Field("ti", "TIME"), Field("n", "NUMERIC"), Field("f", "FLOAT"), Field("ok", "BOOLEAN"),
    Field("s", "STRING"), Field("b", "BYTES"), Field("j", "JSON"), Field("iv", "INTERVAL"),
    Field("r", "RANGE", range_element_type="DATE"), Field("tags", "STRING", "REPEATED"),
    Field("items", "RECORD", "REPEATED", fields=[Field("sku", "STRING", description="article"), Field("n", "INTEGER")]),
    Field("address", "RECORD", fields=[Field("city", "STRING"), Field("since", "TIMESTAMP")])])
orders.description = "all orders"
orders.time_partitioning = bigquery.TimePartitioning(field="day")
orders.clustering_fields = ["id"]
client.create_table(orders, **never)
assert client.insert_rows_json(orders, ask["rows"], **never) == []
query("CREATE VIEW shop.recent AS SELECT id, day FROM shop.orders WHERE day IS NOT NULL")

found = {"values": {name: query(sql) for name, sql in ask["values"].items()},
         "parameters": {sql: query(sql, query_parameters=[parameter(*one) for one in how])
                        for sql, how in ask["parameters"].items()},
         "writes": {sql: dry_run(sql).statement_type for sql in ask["writes"]},
         "wrong": {sql: failure(sql) for sql in ask["wrong"]}, "tables": {}}
for dataset in client.list_datasets(**never):
    for item in client.list_tables(dataset.dataset_id, **never):
        table = client.get_table(item, **never)
        found["tables"][f"{dataset.dataset_id}.{table.table_id}"] = {
            "kind": table.table_type.lower(), "comment": table.description or "", "columns": list(described(table.schema)),
            "rows": table.num_rows if table.table_type == "TABLE" else None,
            "partitioned": table.time_partitioning and table.time_partitioning.field, "clustered": table.clustering_fields}
pickle.dump(found, sys.stdout.buffer)
'''

ROWS = [{"id": 1, "day": "2026-11-16", "t": "2026-11-16T18:30:01.000005Z", "dt": "2026-11-16T18:30:01.000005",
         "ti": "23:59:59.999999", "n": "1.50", "f": 0.1, "ok": True, "s": "Grüße", "b": "AP8=", "j": '{"a": [1, 2.50]}',
         "iv": "1-2 3 4:5:6", "r": {"start": "2020-01-01", "end": None}, "tags": ["p", "q"],
         "items": [{"sku": "x", "n": 1}, {"sku": None, "n": 2}], "address": {"city": "Köln", "since": "2026-11-16T00:00:00Z"}},
        {"id": 2}]


# ---- the emulator, and Google's client ----------------------------------------------------------


@pytest.fixture(scope="module")
def emulator(tmp_path_factory):
    """Its URL."""
    where = tmp_path_factory.mktemp("emulator")
    python = kit_python("emulator")
    with open(where / "log", "wb") as log:
        process = subprocess.Popen([python, "-c", EMULATOR], stdin=subprocess.PIPE, stdout=log, stderr=log, cwd=where,
                                   env={"HOME": str(where), "TMPDIR": str(where), "PATH": "/usr/bin:/bin"})
    said = (where / "log").read_text
    try:
        wait_for(lambda: (where / "url").exists() or process.poll() is not None, 180, "the emulator")
        assert process.poll() is None, said()[-3000:]
        yield (where / "url").read_text()
        process.stdin.close()
        assert process.wait(60 * SLOW) == 0, said()[-3000:]
    finally:
        process.stdin.close()
        process.kill()
        process.wait()


@pytest.fixture(scope="module")
def google(emulator):
    """What Google's client says to all that is asked here; it fills the emulator, too."""
    ask = {"url": emulator, "project": PROJECT, "patience": PATIENCE, "rows": ROWS,
           "values": {**VALUES, "pages": PAGES}, "parameters": PARAMETERS, "writes": WRITES, "wrong": WRONG}
    done = subprocess.run([kit_python(), "-c", GOOGLE], input=json.dumps(ask).encode(), capture_output=True,
                          timeout=300 * SLOW)
    assert done.returncode == 0, done.stderr.decode()[-3000:]
    return pickle.loads(done.stdout)


@pytest.fixture
def order(emulator, google):
    """Orders for the connector. Nobody looks at the token; test_sign_in gets one from Google's endpoint."""

    def make(sql="SELECT 1 AS x", op="query", params=None, source=None, **more):
        return {"op": op, "sql": sql, "params": params, **more, "source": {
            "kind": "bigquery", "url": emulator, "project": PROJECT, "token": "ya29.any", **(source or {})}}

    return make


# ---- values, as Google's client has them --------------------------------------------------------


def from_json(column, value):
    """A value inside of a STRUCT or ARRAY, as it would be alone."""
    kind = column["type"]
    if kind == "float":
        return float(value)
    if kind == "bytes":
        return from_base64(value)
    return value_of(column, value.encode() if isinstance(value, str) else value)


def interval(text):
    sign, years, months, days, minus, hours, minutes, seconds = re.fullmatch(
        r"(-?)(\d+)-(\d+) (-?\d+) (-?)(\d+):(\d+):(\d+)", text).groups()
    a, b = (-1 if one else 1 for one in (sign, minus))
    return ("interval", a * int(years), a * int(months), int(days), b * int(hours), b * int(minutes), b * int(seconds))


def as_google(column, value, inside=False):
    kind = column["type"]
    if value is None:
        return None
    if column["repeated"]:
        return [as_google({**column, "repeated": False}, one, True) for one in value]
    if kind == "record":
        return {field["name"]: as_google(field, value[field["name"]], True) for field in column["fields"]}
    if inside:
        value = from_json(column, value)
    if kind == "time":
        return (datetime.datetime(1970, 1, 1) + datetime.timedelta(microseconds=value)).time()
    if kind == "json":
        return json.loads(value)
    if kind == "interval":
        return interval(value)
    if column["source_type"] == "RANGE<DATE>":
        ends = [None if end == "UNBOUNDED" else datetime.date.fromisoformat(end) for end in value[1:-1].split(", ")]
        return dict(zip(("start", "end"), ends))
    return value


def same(found, google):
    """By repr(), for which 1, 1.0 and True differ, and 0.0 and -0.0."""
    columns, rows = google
    assert [(c["name"], c["source_type"]) for c in found.columns] == columns
    ours = [tuple(as_google(c, v) for c, v in zip(found.columns, row)) for row in found.rows]
    assert len(ours) == len(rows)
    for row, wanted in zip(ours, rows):
        assert repr(row) == repr(wanted)


@pytest.mark.parametrize("name", VALUES)
def test_values(order, google, connector, name):
    found = connector.good(order(VALUES[name]))
    same(found, google["values"][name])
    assert name == "no rows" or found.rows


def test_pages(order, google, connector):
    found = connector.good(order(PAGES))
    assert [m["rows"] for m in found.messages if m["message"] == "progress"] == [20000]
    assert found.rows == [(i, str(i)) for i in range(1, 25001)] == google["values"]["pages"][1]


@pytest.mark.parametrize("sql", PARAMETERS)
def test_parameters(order, google, connector, sql):
    words = {"INT64", "FLOAT64", "STRING", "BOOL"}  # of what JSON has itself
    params = {name: value if kind in words else {"type": kind, "value": value} for name, kind, value in PARAMETERS[sql]}
    if None in params:
        params = [value for _, _, value in PARAMETERS[sql]]
    found = connector.good(order(sql, params=params))
    same(found, google["parameters"][sql])
    assert found.rows


def test_default_dataset(order, google, connector):
    found = connector.good(order("SELECT * FROM orders ORDER BY id", source={"dataset": "shop"}))
    same(found, google["values"]["table"])


# ---- refusals -----------------------------------------------------------------------------------


def test_only_select(order, google, connector):
    for sql in WRITES:
        error = connector.bad(order(sql), "read-only")
        assert error["text"].endswith(f" {google['writes'][sql]}"), (sql, error)
    assert connector.good(order("SELECT COUNT(*) AS n, COUNT(s) AS s FROM shop.orders")).rows == [(2, 1)]
    connector.bad(order("SELECT * FROM shop.copied"), "sql")


@pytest.mark.parametrize("sql", WRONG)
def test_errors(order, google, connector, sql):
    reason, message = google["wrong"][sql]
    assert connector.bad(order(sql), "sql")["text"] == message[:400], reason


@pytest.mark.parametrize("sql, word, why", DIFFERENCES)
def test_differences(order, connector, sql, word, why):
    """If one of these fails, the emulator has learned it: then the statement belongs to VALUES."""
    connector.bad(order(sql), word)


# ---- catalogue, check, signing in ---------------------------------------------------------------


def test_catalogue(order, google, connector):
    tables = {table["name"]: table for table in connector.good(order(op="catalogue", samples=3)).rows["tables"]}
    assert sorted(tables) == sorted(google["tables"]) == ["shop.orders", "shop.recent"]
    for name, wanted in google["tables"].items():
        table = tables[name]
        assert (table["kind"], table["comment"], table["rows"]) == (wanted["kind"], wanted["comment"], wanted["rows"])
        assert [(c["name"], c["source_type"], c["nullable"], c["comment"]) for c in table["columns"]] == wanted["columns"]
    assert google["tables"]["shop.orders"]["partitioned"] == "day" and google["tables"]["shop.orders"]["clustered"] == ["id"]
    assert tables["shop.orders"]["partitioning"] == "by day, DAY; clustered by id"


def test_samples_can_be_used_in_a_query(order, connector):
    (orders,) = [table for table in connector.good(order(op="catalogue", samples=3)).rows["tables"]
                 if table["name"] == "shop.orders"]
    samples = {column["name"]: column.get("samples") for column in orders["columns"]}
    for name in ("id", "day", "t", "dt", "ti", "n", "f", "ok", "s"):
        literal = samples[name][0] if name in ("id", "n", "f", "ok") else f"'{samples[name][0]}'"
        assert connector.good(order(f"SELECT id FROM shop.orders WHERE {name} = {literal}")).rows == [(1,)], name


def test_check(order, connector):
    done = connector.good(order(op="check", source={"dataset": "shop"})).done
    assert done["ok"] and [check["name"] for check in done["checks"]] == ["jobs", "data"]
    done = connector.good(order(op="check", source={"dataset": "nope"})).done
    assert not done["ok"] and "nope" in done["checks"][1]["text"]


def test_sign_in(order, emulator, connector):
    with BigQuery(project=PROJECT) as tokens:
        found = connector.good(order(source={**tokens.source(url=emulator), "token": None}))
        assert found.rows == [(1,)] and found.done["token"] in tokens.tokens and len(tokens.requests) == 1
