"""PostgreSQL as a source, against a real server: values, statements, limits, cancelling, the end of a
server in the middle."""

import datetime
import decimal
import os
import time

import pytest
from connector_kit import connector, from_base64  # noqa: F401
from postgres_kit import PASSWORD, postgres, postgres_new  # noqa: F401

from conftest import wait_for

D, UTC = decimal.Decimal, datetime.timezone.utc


def source_of(server, database="postgres", user="reader", password=PASSWORD, **more):
    return {"kind": "postgresql", "host": "127.0.0.1", "port": server.port, "dbname": database,
            "user": user, "password": password, "sslmode": "disable", **more}


def order_of(server, sql, params=None, op="query", masked=(), limits=(), source=(), **more):
    return {"op": op, "source": source_of(server, **dict(source)), "sql": sql, "params": params,
            "masked": list(masked),
            "limits": {"rows": 100000, "bytes": 1 << 26, "ms": 60000, **dict(limits)}, **more}


@pytest.fixture(scope="module")
def db(postgres):
    postgres.create_database("types")
    postgres.sql(
        """CREATE EXTENSION hstore; CREATE EXTENSION citext;
        CREATE TYPE mood AS ENUM ('sad', 'so "so"');
        CREATE DOMAIN money2 AS numeric(12,2) CHECK (VALUE >= 0);
        CREATE TYPE part AS (name text, n int, tags text[]);
        CREATE TYPE whole AS (id int8, parts part[], at timestamptz, blob bytea, ok bool, x float8);
        CREATE TABLE t (id int, v text)""", "types")
    return postgres


def one(connector, db, expression, **how):
    """(type, repeated, source_type, value) of one expression."""
    result = connector.good(order_of(db, f"SELECT {expression} AS x", source={"database": "types"}, **how))
    column = result.columns[0]
    return column["type"], column["repeated"], column["source_type"], result.rows[0][0]


VALUES = [
    ("true", "bool", "boolean", True),
    ("'-32768'::int2", "int", "smallint", -32768),
    ("2147483647::int4", "int", "integer", 2147483647),
    ("'-9223372036854775808'::int8", "int", "bigint", -(2**63)),
    ("4294967295::oid", "int", "oid", 4294967295),
    ("0.1::float4", "float", "real", 0.1),
    ("'1.7976931348623157e308'::float8", "float", "double precision", 1.7976931348623157e308),
    ("'-Infinity'::float8", "float", "double precision", float("-inf")),
    ("1.50::numeric(10,2)", "decimal", "numeric(10,2)", D("1.50")),
    ("repeat('9', 300)::numeric", "decimal", "numeric", D("9" * 300)),
    ("'Infinity'::numeric", "decimal", "numeric", D("Infinity")),
    ("'naïve 🐘'::text", "text", "text", "naïve 🐘"),
    ("'a'::char(3)", "text", "character(3)", "a  "),
    ("'x'::name", "text", "name", "x"),
    ("'ABC'::citext", "text", "citext", "ABC"),
    ("'so \"so\"'::mood", "text", "mood", 'so "so"'),
    ("'\\x00ff10'::bytea", "bytes", "bytea", b"\0\xff\x10"),
    ("''::bytea", "bytes", "bytea", b""),
    ("'2024-02-29'::date", "date", "date", datetime.date(2024, 2, 29)),
    ("'infinity'::date", "date", "date", "infinity"),
    ("'24:00:00'::time", "time", "time without time zone", 86400000000),
    ("'04:05:06.789'::time(3)", "time", "time(3) without time zone", 14706789000),
    ("'04:05:06+02'::timetz", "text", "time with time zone", "04:05:06+02"),
    ("'1999-12-31 23:59:59.999999'::timestamp", "timestamp", "timestamp without time zone",
     datetime.datetime(1999, 12, 31, 23, 59, 59, 999999)),
    ("'-infinity'::timestamp", "timestamp", "timestamp without time zone", "-infinity"),
    ("'2024-07-01 12:00+02'::timestamptz", "timestamptz", "timestamp with time zone",
     datetime.datetime(2024, 7, 1, 10, tzinfo=UTC)),
    ("'1 year 2 mons 3 days 04:05:06.5'::interval", "interval", "interval", "P1Y2M3DT4H5M6.5S"),
    ("'{\"a\": [1, 2.50]}'::json", "json", "json", '{"a": [1, 2.50]}'),
    ("'{\"b\": null}'::jsonb", "json", "jsonb", '{"b": null}'),
    ("'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid", "uuid", "uuid", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),
    ("'10.1.2.3/8'::inet", "text", "inet", "10.1.2.3/8"),
    ("'08:00:2b:01:02:03'::macaddr", "text", "macaddr", "08:00:2b:01:02:03"),
    ("12.34::money", "text", "money", "$12.34"),
    ("B'101'::bit(3)", "text", "bit(3)", "101"),
    ("'<a/>'::xml", "text", "xml", "<a/>"),
    ("'fat cat'::tsvector", "text", "tsvector", "'cat' 'fat'"),
    ("point(1,2)", "text", "point", "(1,2)"),
    ("int4range(1,5)", "text", "int4range", "[1,5)"),
    ("'{[1,3)}'::int4multirange", "text", "int4multirange", "{[1,3)}"),
    ("'a=>1'::hstore", "text", "hstore", '"a"=>"1"'),
    ("9.5::money2", "decimal", "numeric(12,2)", D("9.50")),
    ("row(1,'x')", "text", "record", "(1,x)"),
    ("'1 2'::int2vector", "text", "int2vector", "1 2"),
    ("'pg_class'::regclass", "text", "regclass", "pg_class"),
]


def test_scalars(connector, db):
    found = connector.good(order_of(db, "SELECT " + ", ".join(f"{e} AS c{i}" for i, (e, *_) in enumerate(VALUES)),
                                    source={"database": "types"}))
    for (expression, kind, source_type, value), column, got in zip(VALUES, found.columns, found.rows[0]):
        assert (column["type"], column["source_type"], got) == (kind, source_type, value), expression
        assert not column["repeated"]
    nan = one(connector, db, "'NaN'::float8")[3]
    assert nan != nan
    assert one(connector, db, "'NaN'::numeric")[3].is_nan()
    # Before our era: days and microseconds, which Python's own dates cannot have.
    assert one(connector, db, "'0044-03-15 BC'::date")[3] == -735160
    assert one(connector, db, "'0001-01-01 BC'::timestamp")[3] == -62167219200000000
    assert one(connector, db, "'1900-01-01 00:00:00+00:19:32'::timestamptz")[3] == datetime.datetime(
        1899, 12, 31, 23, 40, 28, tzinfo=UTC)


def test_zone_of_the_database_stays(connector, db):
    db.sql("ALTER DATABASE types SET timezone = 'Asia/Kathmandu'")
    try:
        found = connector.good(order_of(db, "SELECT '2024-01-01 00:00'::timestamptz AS x, "
                                            "date_trunc('day', '2024-01-01 00:00+00'::timestamptz)::date",
                                        source={"database": "types"}))
        assert found.rows[0][0] == datetime.datetime(2023, 12, 31, 18, 15, tzinfo=UTC)
    finally:
        db.sql("ALTER DATABASE types RESET timezone")


def test_nested(connector, db):
    assert one(connector, db, "ARRAY[1,NULL,3]")[::3] == ("int", [1, None, 3])
    assert one(connector, db, "ARRAY[[1.5,2],[NULL,'NaN']]::numeric[]")[3] == [["1.5", "2"], [None, "NaN"]]
    assert one(connector, db, "'[0:1]={a,\"b\\\"c,{}\"}'::text[]")[3] == ["a", 'b"c,{}']
    assert one(connector, db, "ARRAY['NULL', '', NULL]")[3] == ["NULL", "", None]
    assert one(connector, db, "'{}'::int[]")[:2] == ("int", True)
    assert one(connector, db, "ARRAY['2024-01-02'::date]")[3] == [19724]
    assert one(connector, db, "ARRAY[true,false]")[3] == [True, False]
    assert one(connector, db, "ARRAY['(1,1),(0,0)'::box, '(3,3),(2,2)']")[3] == ["(1,1),(0,0)", "(3,3),(2,2)"]
    assert from_base64(one(connector, db, "ARRAY['\\x0001ff'::bytea]")[3][0]) == b"\0\1\xff"
    result = connector.good(order_of(
        db, """SELECT row(7, ARRAY[row('a "b", c', 1, ARRAY['x,y', NULL]), row(NULL, NULL, '{}')]::part[],
               '2024-01-01 00:00+00', '\\x00', true, 0.25)::whole AS w""", source={"database": "types"}))
    column = result.columns[0]
    assert column["type"] == "record" and column["source_type"] == "whole"
    fields = {f["name"]: (f["type"], f["repeated"]) for f in column["fields"]}
    assert fields == {"id": ("int", False), "parts": ("record", True), "at": ("timestamptz", False),
                      "blob": ("bytes", False), "ok": ("bool", False), "x": ("float", False)}
    assert [f["name"] for f in column["fields"][1]["fields"]] == ["name", "n", "tags"]
    assert result.rows[0][0] == {
        "id": 7, "parts": [{"name": 'a "b", c', "n": 1, "tags": ["x,y", None]},
                           {"name": None, "n": None, "tags": []}],
        "at": 1704067200000000, "blob": "AA==", "ok": True, "x": "0.25"}


def test_what_cannot_be_carried(connector, db):
    error = connector.bad(order_of(db, "SELECT '294276-12-31'::timestamp AS far"), "unsupported")
    assert "far" in error["text"] and "text" in error["text"]
    db.create_database("ascii", "ENCODING 'SQL_ASCII' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'")
    error = connector.bad(order_of(db, r"SELECT E'caf\xe9' AS drink", source={"database": "ascii"}), "unsupported")
    assert "convert_from" in error["text"]
    db.sql(r"CREATE TABLE old AS SELECT E'caf\xe9' AS drink", "ascii")
    connector.bad(order_of(db, "SELECT drink FROM old", source={"database": "ascii"}), "unsupported")
    found = connector.good(order_of(db, r"SELECT convert_from(E'\\xe9'::bytea, 'LATIN1') AS x",
                                    source={"database": "types"}))
    assert found.rows == [("é",)]


def test_names_of_columns(connector, db):
    found = connector.good(order_of(db, 'SELECT 1 AS a, 2 AS a, 3 AS "ä b", 4'))
    assert [c["name"] for c in found.columns] == ["a", "a", "ä b", "?column?"]
    assert found.rows == [(1, 2, 3, 4)]
    found = connector.good(order_of(db, "SELECT 1 AS x WHERE false"))
    assert found.rows == [] and found.done["rows"] == 0
    many = connector.good(order_of(db, "SELECT " + ", ".join(["1"] * 1600)))
    assert len(many.rows[0]) == 1600
    connector.bad(order_of(db, "SELECT " + ", ".join(["1"] * 10000)), "sql")
    connector.bad(order_of(db, "SELECT 1, 2, 3", limits={"columns": 2}), "too-large")


def test_parameters(connector, db):
    def rows(sql, params):
        return connector.good(order_of(db, sql, params, source={"database": "types"})).rows

    assert rows("SELECT $1::int + 1, $2::text, $3::bool, $4::float8, $5::text",
                [41, "a'b\\", True, 0.5, None]) == [(42, "a'b\\", True, 0.5, None)]
    assert rows("SELECT x FROM generate_series(1,9) x WHERE x = ANY ($1)", [[2, 3]]) == [(2,), (3,)]
    assert rows("SELECT $1::text[]", [['a"b', "c,d", None, ""]]) == [(['a"b', "c,d", None, ""],)]
    assert rows("SELECT $1::jsonb->>'a'", [{"a": "x"}]) == [("x",)]
    assert rows("SELECT $1::numeric * 2, $2::date", ["1.10", "2024-02-29"]) == [
        (D("2.20"), datetime.date(2024, 2, 29))]
    assert rows("SELECT :a::int + :b::int, ':a', \":a\", $$:a$$ /* :a */ -- :b\n FROM (SELECT 1 AS \":a\") x "
                "WHERE :a::int > 0", {"a": 1, "b": 2}) == [(3, ":a", 1, ":a")]
    assert rows("SELECT (ARRAY[1,2,3])[1:2]", None) == [([1, 2],)]
    for sql, params, word in [("SELECT $1", [], "sql"), ("SELECT 1", [1], "sql"), ("SELECT :x", {"y": 1}, "sql"),
                              ("SELECT :x", {"x": 1, "y": 1}, "sql"), ("SELECT (ARRAY[1])[1:n]", {"n": 1}, "unsupported"),
                              ("SELECT $1::int", ["x"], "sql"), ("SELECT $1::text", ["; DROP TABLE t"], None)]:
        if word:
            connector.bad(order_of(db, sql, params), word)
        else:
            assert rows(sql, params) == [(params[0],)]


REFUSED = [
    ("INSERT INTO t VALUES (1, 'x')", "read-only"),
    ("INSERT INTO t VALUES (1, 'x') RETURNING id", "read-only"),
    ("WITH w AS (DELETE FROM t RETURNING *) SELECT * FROM w", "read-only"),
    ("UPDATE t SET v = 'x' RETURNING *", "read-only"),
    ("SELECT * FROM t FOR UPDATE", "read-only"),
    ("CREATE TABLE made AS SELECT 1", "read-only"),
    ("CREATE TABLE made (x int)", "read-only"),
    ("SELECT 1 INTO made", "read-only"),
    ("DROP TABLE t", "read-only"),
    ("TRUNCATE t", "read-only"),
    ("DO $$ BEGIN CREATE TABLE made (x int); END $$", "read-only"),
    ("COPY t TO PROGRAM 'touch /tmp/made'", "read-only"),
    ("COPY t TO STDOUT", "read-only"),
    ("SET ROLE postgres", "read-only"),
    ("RESET ALL", "read-only"),
    ("COMMIT", "read-only"),
    ("BEGIN; CREATE TABLE made (x int); COMMIT", "sql"),
    ("SELECT 1; CREATE TABLE made (x int)", "sql"),
    ("LISTEN x", "read-only"),
    ("SHOW ALL", "read-only"),
    ("EXPLAIN ANALYZE DELETE FROM t", "read-only"),
    ("EXECUTE glovebox", "read-only"),
    ("SELECT nextval('seq')", "read-only"),
    ("SELECT set_config('transaction_read_only', 'off', false)", "sql"),
    ("SELECT pg_terminate_backend(pg_backend_pid())", "broken"),
    ("SELECT nothing FROM t", "sql"),
    ("SELECT 'unfinished", "sql"),
    ("SELECT 1/0", "sql"),
    ("-- nothing", "read-only"),
]


def test_statements_that_do_more_than_read(connector, db):
    # With every right that there is, so that what refuses is that it would write.
    db.sql("CREATE SEQUENCE IF NOT EXISTS seq; GRANT ALL ON ALL TABLES IN SCHEMA public TO reader;"
           " GRANT ALL ON SEQUENCE seq TO reader; GRANT ALL ON SCHEMA public TO reader", "types")
    for sql, word in REFUSED:
        error = connector.bad(order_of(db, sql, source={"database": "types"}))
        assert error["word"] == word, (sql, error)
    connector.run(order_of(db, "SELECT lo_create(0)", source={"database": "types"}))  # undone, or refused
    assert db.sql("SELECT count(*) FROM pg_class WHERE relname = 'made'", "types") == "0"
    assert db.sql("SELECT count(*) FROM t", "types") == "0"
    assert db.sql("SELECT count(*) FROM pg_largeobject_metadata", "types") == "0"
    assert not os.path.exists("/tmp/made")
    error = connector.bad(order_of(db, "SELECT 1,\n  mistake\nFROM t", source={"database": "types"}), "sql")
    assert "mistake" in error["text"] and "line 2" in error["text"]


def test_bounds(connector, db):
    error = connector.bad(order_of(db, "SELECT * FROM generate_series(1, 1000000000)", limits={"cost": 1000}),
                          "too-expensive")
    assert error["estimate"]["cost"] > 1e6 and error["estimate"]["rows"] == 1000000000
    assert "1000" in error["text"]
    error = connector.bad(order_of(db, "SELECT g, g FROM generate_series(1, 100000) g CROSS JOIN "
                                       "generate_series(1, 10000)", limits={"rows": 5000}), "too-large")
    assert "5000 rows" in error["text"] and "LIMIT" in error["text"]
    connector.bad(order_of(db, "SELECT repeat('x', 1000) FROM generate_series(1, 100000)",
                           limits={"bytes": 1 << 20}), "too-large")
    connector.bad(order_of(db, "SELECT repeat('x', 40000000)"), "too-large")  # folded into the plan
    connector.bad(order_of(db, "SELECT repeat('x', g) FROM generate_series(50000000, 50000001) g",
                           limits={"bytes": 1 << 20}), "too-large")
    connector.bad(order_of(db, "SELECT pg_sleep(100)", limits={"ms": 700}), "timeout")
    # Nothing of theirs is still at work.
    wait_for(lambda: db.sql("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'glovebox'") == "0")


def test_the_server_has_bounds_too(connector, db):
    """So that a statement ends there even if nobody is left to cancel it."""
    settings = ("transaction_read_only", "transaction_isolation", "row_security", "statement_timeout", "lock_timeout",
                "idle_in_transaction_session_timeout")
    found = connector.good(order_of(db, "SELECT " + ", ".join(f"current_setting('{name}')" for name in settings),
                                    limits={"ms": 30000})).rows[0]
    assert found[:3] == ("on", "repeatable read", "on")
    times = db.sql("; ".join(f"SELECT extract(epoch FROM '{text}'::interval)" for text in found[3:])).split()
    assert 0 < float(times[0]) <= 30 and 0 < float(times[1]) <= 10 and float(times[2]) > 0, found


def test_estimate_waits_for_a_word(connector, db):
    running = connector.start(order_of(db, "SELECT 42 AS x", confirm=True))
    assert running.message()["message"] == "estimate"
    assert db.sql("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'glovebox' AND state = "
                  "'idle in transaction'") == "1"
    running.control.sendall(b'\x0c\0\0\0{"go": true}')
    assert running.message()["message"] == "done"
    assert running.wait() == 0
    running.close()
    running = connector.start(order_of(db, "SELECT 43 AS x", confirm=True))
    assert running.message()["message"] == "estimate"
    running.cancel()
    running.wait()
    assert running.result()[-24:-16] != b"END \0\0\0\0"


def test_cancelled(connector, db):
    running = connector.start(order_of(db, "SELECT pg_sleep(1000) AS long_sleep"))
    asleep = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%long_sleep%' AND wait_event = 'PgSleep'"
    wait_for(lambda: db.sql(asleep) == "1")
    running.cancel()
    running.wait()
    wait_for(lambda: db.sql(asleep) == "0", what="the end of the statement at the server")


def test_sealed_while_it_works(connector, db, is_root):
    running = connector.start(order_of(db, "SELECT pg_sleep(1000)"))
    wait_for(lambda: running.message()["message"] == "estimate")
    with open(f"/proc/{running.pid}/status", encoding="ascii") as f:
        status = dict(line.rstrip("\n").split(":\t", 1) for line in f if ":\t" in line)
    assert status["Seccomp"] == "2" and status["NoNewPrivs"] == "1"
    assert status["CapEff"] == status["CapPrm"] == status["CapBnd" if is_root else "CapEff"] == "0" * 16
    if is_root:
        assert status["Uid"].split() == ["65534"] * 4
    running.cancel()
    running.wait()


def test_server_ends_in_the_middle(connector, postgres_new):
    server = postgres_new()
    running = connector.start(order_of(server, "SELECT pg_sleep(1000)"))
    assert running.message()["message"] == "estimate"
    server.kill()
    error = running.message()
    assert error["message"] == "error" and error["word"] == "broken", error
    running.wait()
    connector.bad(order_of(server, "SELECT 1"), "unreachable")
    server.start()
    assert connector.good(order_of(server, "SELECT 1 AS x")).rows == [(1,)]
    running = connector.start(order_of(server, "SELECT pg_sleep(1000)"))
    assert running.message()["message"] == "estimate"
    server.restart()
    assert running.message()["word"] == "broken"


def test_connections(connector, postgres):
    def tried(**source):
        return order_of(postgres, "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()", source=source)

    verified = {"sslmode": "verify-full", "sslrootcert": postgres.ca}
    assert connector.good(tried(**verified)).rows == [(True,)]
    assert connector.good(tried(**verified, host="localhost")).rows == [(True,)]
    assert connector.good(tried(host=str(postgres.socket_dir))).rows == [(False,)]
    with open(os.path.join(os.path.dirname(__file__), "tls/ca.pem"), encoding="ascii") as f:
        other = f.read()
    error = connector.bad(tried(sslmode="verify-full", sslrootcert=other), "unreachable")
    assert "certificate" in error["text"]
    connector.bad(tried(sslmode="verify-full"), "unreachable")  # the system's store does not know it
    connector.bad(tried(sslmode="verify-full", sslrootcert="rubbish"), "unreachable")
    connector.bad(tried(host="db.example.org"), "unsafe")
    connector.bad(tried(host="no-such-host.invalid", sslmode="verify-full", sslrootcert=postgres.ca), "unreachable")
    error = connector.bad(tried(password="not-the-secret-4711"), "denied")
    assert "4711" not in str(error)
    connector.bad(tried(user="nobody_there", password="nope-nope"), "denied")
    postgres.sql("CREATE ROLE expired LOGIN PASSWORD 'once-was-good' VALID UNTIL '2001-01-01'")
    assert "once-was-good" not in str(connector.bad(tried(user="expired", password="once-was-good"), "denied"))
    postgres.sql("DROP ROLE expired")
    connector.bad(tried(database="nothing_there"), "unreachable")
    # A program and a model are not told where the server is; an operator who checks the source is.
    for how in ({"port": 1}, {"host": "localhost", "port": 1}, {"host": "no-such-host.invalid"}, {"host": "/tmp/no-such-dir"},
                {"password": "not-it"}, {"host": "localhost", "sslmode": "verify-full", "sslrootcert": other}):
        order = {**tried(), "source": {**tried()["source"], "sslmode": "verify-full", "sslrootcert": postgres.ca, **how}}
        text, host, port = connector.bad(order)["text"], order["source"]["host"], str(order["source"]["port"])
        assert host not in text and "127.0.0.1" not in text and port not in text.split(), text
        checked = connector.good({**order, "op": "check"}).done
        assert not checked["ok"] and host in str(checked), checked
    connector.bad({**tried(), "source": {**tried()["source"], "port": 1}}, "unreachable")
    connector.bad({**tried(), "source": {**tried()["source"], "port": 99999}}, "unreachable")
    connector.bad({**tried(), "source": {"kind": "postgresql"}}, "unreachable")


def test_secrets_stay_inside(connector, postgres):
    error = connector.bad(order_of(postgres, f"SELECT '{PASSWORD}'::int"), "sql")
    assert PASSWORD not in str(error) and "***" in error["text"]


def test_catalogue(connector, postgres):
    postgres.create_database("shop1")
    postgres.sql(
        """CREATE SCHEMA shop; CREATE SCHEMA other;
        CREATE TABLE shop.customers (id int PRIMARY KEY, name text NOT NULL, email text);
        CREATE TABLE shop.orders (id int PRIMARY KEY, customer int REFERENCES shop.customers, at timestamptz);
        CREATE TABLE shop.secrets (x text); ALTER TABLE shop.secrets ENABLE ROW LEVEL SECURITY;
        CREATE VIEW shop.mails AS SELECT email AS m FROM shop.customers;
        CREATE TABLE shop.parts (k int, d date) PARTITION BY RANGE (d);
        CREATE TABLE shop.parts_2024 PARTITION OF shop.parts FOR VALUES FROM ('2024-01-01') TO ('2025-01-01');
        CREATE TABLE other.hidden (x int); CREATE TABLE shop.closed (x int);
        COMMENT ON TABLE shop.customers IS 'Who buys'; COMMENT ON COLUMN shop.orders.at IS 'UTC';
        INSERT INTO shop.customers SELECT i, 'name ' || i, 'mail' || i FROM generate_series(1, 30) i;
        INSERT INTO shop.orders SELECT i, 1 + i % 30, '2024-01-01' FROM generate_series(1, 90) i;
        INSERT INTO shop.secrets VALUES ('deep'); ANALYZE;
        CREATE ROLE shop1 LOGIN PASSWORD 'shop1-password';
        GRANT USAGE ON SCHEMA shop TO shop1; GRANT SELECT ON ALL TABLES IN SCHEMA shop TO shop1;
        REVOKE SELECT ON shop.closed FROM shop1""", "shop1")
    try:
        order = order_of(postgres, "", op="catalogue", samples=5,
                         masked=[{"table": "shop.customers", "columns": ["email"]}],
                         source={"database": "shop1", "user": "shop1", "password": "shop1-password"})
        found = connector.good(order)
        tables = {t["name"]: t for t in found.rows["tables"]}
        assert sorted(tables) == found.rows["readable"] == [
            "shop.customers", "shop.mails", "shop.orders", "shop.parts", "shop.secrets"]
        customers = {c["name"]: c for c in tables["shop.customers"]["columns"]}
        assert tables["shop.customers"]["comment"] == "Who buys" and tables["shop.customers"]["rows"] == 30
        assert customers["id"]["key"] and not customers["name"]["nullable"]
        assert len(customers["name"]["samples"]) == 5 and "samples" not in customers["email"]
        orders = {c["name"]: c for c in tables["shop.orders"]["columns"]}
        assert orders["customer"]["references"] == "shop.customers.id"
        assert orders["at"]["comment"] == "UTC" and orders["at"]["type"] == "timestamptz"
        assert tables["shop.secrets"]["row_security"] and tables["shop.secrets"]["rows"] is None
        assert "deep" not in found.raw.decode() and "mail1" not in found.raw.decode()
        assert tables["shop.parts"]["partitioning"] == "RANGE (d)"
        order["source"]["schemas"] = ["other"]
        assert connector.good(order).rows["tables"] == []
        check = connector.good({**order, "op": "check"}).done
        assert not check["ok"] and "no table can be read in the schemas" in check["checks"][-1]["text"], check
        order["source"]["schemas"] = ["shop"]
        check = connector.good({**order, "op": "check"}).done
        assert check["ok"] and {"connect", "tls", "rights", "tables"} <= {c["name"] for c in check["checks"]}
        order["source"]["password"] = "wrong-wrong"
        check = connector.good({**order, "op": "check"}).done
        assert not check["ok"] and "password" in check["checks"][0]["text"]
    finally:
        postgres.sql("DROP DATABASE shop1; DROP ROLE shop1")


def test_time_is_bounded(connector, postgres):
    """A lock that somebody holds must not be waited for beyond the deadline."""
    postgres.sql("CREATE TABLE IF NOT EXISTS locked (x int)")
    running = connector.start(order_of(postgres, "SELECT pg_sleep(1000)"))
    assert running.message()["message"] == "estimate"
    start = time.monotonic()
    connector.bad(order_of(postgres, "SELECT pg_sleep(1000) FROM locked RIGHT JOIN (SELECT 1) x ON true",
                           limits={"ms": 500}), "timeout")
    assert time.monotonic() - start < 60
    running.cancel()
    running.wait()
