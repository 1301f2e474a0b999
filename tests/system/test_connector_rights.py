"""Who sees what in PostgreSQL: roles, session variables, schemas and masked columns, against SQL that
tries to get around them. Each row that a caller must not see has the word LEAK in it, with the name of
what protects it; no answer and no error may ever show it."""

import pytest
from connector_kit import connector  # noqa: F401
from postgres_kit import postgres  # noqa: F401
from test_connector_postgres import order_of

SETUP = """
CREATE SCHEMA app; CREATE SCHEMA private;
CREATE TABLE app.orders (id int, region text, owner text, note text);
INSERT INTO app.orders SELECT i, CASE WHEN i % 2 = 0 THEN 'north' ELSE 'south' END,
    CASE WHEN i % 2 = 0 THEN 'ann@x' ELSE 'bob@x' END,
    CASE WHEN i % 2 = 0 THEN 'fine' ELSE 'LEAK-row' END FROM generate_series(1, 20) i;
CREATE TABLE app.people (id int PRIMARY KEY, name text, dept text, email text, "Odd Name" text);
INSERT INTO app.people SELECT i, 'name' || i, 'd' || i % 3, 'LEAK-mask' || i, 'LEAK-mask' || i
    FROM generate_series(1, 50) i;
CREATE TABLE app.events (id int, email text, at date) PARTITION BY RANGE (at);
CREATE TABLE app.events_1 PARTITION OF app.events FOR VALUES FROM ('2024-01-01') TO ('2025-01-01');
INSERT INTO app.events VALUES (1, 'LEAK-mask', '2024-05-05');
CREATE TABLE private.salaries (who text, amount text); INSERT INTO private.salaries VALUES ('x', 'LEAK-schema');
CREATE VIEW app.contacts AS SELECT id, email AS address FROM app.people;
CREATE VIEW app.renamed AS SELECT x.name FROM app.people AS x(id, email, dept, name);
CREATE VIEW app.window_to_private AS SELECT amount AS a FROM private.salaries;
CREATE FUNCTION app.mail_of(int) RETURNS text LANGUAGE sql STABLE SECURITY DEFINER
    AS 'SELECT email FROM app.people WHERE id = $1';
CREATE FUNCTION app.mail_const(int) RETURNS text LANGUAGE plpgsql IMMUTABLE SECURITY DEFINER
    AS 'BEGIN RETURN (SELECT email FROM app.people WHERE id = $1); END';
CREATE FUNCTION app.salary_table() RETURNS SETOF text LANGUAGE sql STABLE SECURITY DEFINER
    AS 'SELECT amount FROM private.salaries';
CREATE FUNCTION app.people_mail(app.people) RETURNS text LANGUAGE plpgsql IMMUTABLE AS 'BEGIN RETURN $1.email; END';
CREATE FUNCTION app.op_mail(int, int) RETURNS text LANGUAGE sql STABLE SECURITY DEFINER
    AS 'SELECT email FROM app.people WHERE id = $1';
CREATE OPERATOR app.@#@ (LEFTARG = int, RIGHTARG = int, FUNCTION = app.op_mail);
CREATE INDEX ON app.people (email);
ALTER TABLE app.orders ENABLE ROW LEVEL SECURITY;
CREATE POLICY by_role ON app.orders TO rights_north USING (region = 'north');
CREATE POLICY by_role_south ON app.orders TO rights_south USING (region = 'south');
CREATE POLICY by_variable ON app.orders TO rights_app USING (owner = current_setting('app.user', true));
GRANT USAGE ON SCHEMA app, private TO PUBLIC;
GRANT SELECT ON ALL TABLES IN SCHEMA app, private TO PUBLIC;
ANALYZE;
"""
ROLES = """
CREATE ROLE rights_north LOGIN PASSWORD 'north-password'; CREATE ROLE rights_south LOGIN PASSWORD 'south-password';
CREATE ROLE rights_app LOGIN PASSWORD 'app-password'; CREATE ROLE rights_boss LOGIN SUPERUSER PASSWORD 'boss-password';
CREATE ROLE rights_bypass LOGIN BYPASSRLS PASSWORD 'bypass-password';
CREATE ROLE rights_reader LOGIN PASSWORD 'reader-password' IN ROLE pg_read_all_data;
CREATE ROLE rights_switch LOGIN NOINHERIT PASSWORD 'switch-password' IN ROLE rights_north, rights_south;
"""
NAMES = ["north", "south", "app", "boss", "bypass", "reader", "switch"]
REVOKE = """REVOKE EXECUTE ON FUNCTION pg_catalog.set_config(text, text, boolean) FROM PUBLIC;
REVOKE UPDATE ON pg_catalog.pg_settings FROM PUBLIC;"""


@pytest.fixture(scope="module")
def rights(postgres):
    postgres.sql(ROLES)
    for database in ("rights", "rights_loose"):
        postgres.create_database(database)
        postgres.sql(SETUP, database)
    postgres.sql(REVOKE, "rights")
    yield postgres
    for database in ("rights", "rights_loose"):
        postgres.sql(f"DROP DATABASE {database} WITH (FORCE)")
    postgres.sql("".join(f"DROP ROLE rights_{name};" for name in NAMES))


def asked(server, sql, who, database="rights", source=(), **more):
    return order_of(server, sql, source={"database": database, "user": f"rights_{who}",
                                         "password": f"{who}-password", **dict(source)}, **more)


def answer(connector, order):
    """The messages and the result as text: what a caller can see at all."""
    messages, raw = connector.run(order)
    return messages[-1], str(messages) + raw.decode("utf-8", "replace")


# What SQL tries in order to become somebody else. Every one is run as a caller who may see only the
# even orders.
TRICKS = [
    "SELECT * FROM app.orders",
    "SELECT set_config('role', 'rights_south', false), note FROM app.orders",
    "SELECT note FROM app.orders, (SELECT set_config('role', 'rights_south', true)) x",
    "WITH x AS MATERIALIZED (SELECT set_config('role', 'rights_south', true) AS y) SELECT note FROM x, app.orders",
    "SELECT set_config('app.user', 'bob@x', false), note FROM app.orders",
    "SELECT query_to_xml('SELECT set_config(''role'', ''rights_south'', false)', true, false, ''), note FROM app.orders",
    "SELECT query_to_xml('SELECT set_config(''app.user'', ''bob@x'', false)', true, false, ''), "
    "query_to_xml('SELECT * FROM app.orders', true, false, '')",
    "SELECT query_to_xml('SET ROLE rights_south', true, false, ''), query_to_xml('SELECT * FROM app.orders', "
    "true, false, '')",
    "SELECT table_to_xml('app.orders', true, false, '')",
    "SELECT schema_to_xml('app', true, false, '')",
    "SELECT database_to_xml(true, false, '')",
    "SELECT * FROM ts_stat('SELECT to_tsvector(note) FROM app.orders')",
    "SET ROLE rights_south",
    "RESET ROLE",
    "SET SESSION AUTHORIZATION rights_south",
    "SET app.user = 'bob@x'",
    "RESET ALL",
    "DISCARD ALL",
    "DO $$ BEGIN SET ROLE rights_south; RAISE EXCEPTION '%', (SELECT string_agg(note, ',') FROM app.orders); END $$",
    "SELECT 1; SET ROLE rights_south; SELECT * FROM app.orders",
    "UPDATE pg_settings SET setting = 'rights_south' WHERE name = 'role'",
    "UPDATE pg_settings SET setting = 'bob@x' WHERE name = 'app.user' RETURNING *",
    "WITH x AS (UPDATE pg_settings SET setting = 'rights_south' WHERE name = 'role' RETURNING 1) SELECT * FROM app.orders",
    "SELECT set_config('row_security', 'off', false), note FROM app.orders",
    "SELECT * FROM app.orders WHERE note LIKE 'LEAK%' OR (note || (1/0)::text) = ''",
    "SELECT CAST(note AS int) FROM app.orders WHERE region = 'south'",
    "SELECT most_common_vals, histogram_bounds FROM pg_stats WHERE tablename = 'orders'",
    "SELECT stavalues1::text FROM pg_statistic",
    "TABLE app.orders",
    "SELECT o, row_to_json(o), array_agg(o) OVER () FROM app.orders o",
    "SELECT pg_read_file('pg_hba.conf')",
    "COPY app.orders TO STDOUT",
    "COPY app.orders TO PROGRAM 'cat'",
    "DECLARE c CURSOR FOR SELECT * FROM app.orders",
    "PREPARE x AS SELECT * FROM app.orders",
    "EXPLAIN ANALYZE SELECT * FROM app.orders",
    "SELECT has_table_privilege('rights_south', 'app.orders', 'SELECT'), note FROM app.orders",
    "SELECT xmlserialize(CONTENT query_to_xml('TABLE app.orders', false, false, '') AS text)",
]

WAYS = {
    "a login": {"who": "north"},
    "a role": {"who": "switch", "source": {"role": "rights_north"}},
    "a variable": {"who": "app", "source": {"variables": {"app.user": "ann@x"}}},
}


@pytest.mark.parametrize("way", WAYS)
def test_rows_of_others(connector, rights, way):
    how = dict(WAYS[way])
    who, source = how["who"], how.get("source", {})
    fine = connector.good(asked(rights, "SELECT id, note FROM app.orders ORDER BY id", who, source=source))
    assert fine.rows == [(i, "fine") for i in range(2, 21, 2)]
    for trick in TRICKS:
        message, seen = answer(connector, asked(rights, trick, who, source={**source, "personal": True}))
        # What the statement itself says may be repeated by the server in an error.
        assert "LEAK-row" not in seen, (trick, seen[:2000])
        assert message["message"] in ("done", "error")


def test_where_a_role_would_not_hold(connector, rights):
    """The same database without the two REVOKEs: SQL can undo role and variables, so neither is used."""
    for how in WAYS.values():
        order = asked(rights, "SELECT * FROM app.orders", how["who"], "rights_loose", how.get("source", {}))
        if "source" not in how:
            assert connector.good(order).rows  # a login of one's own needs nothing
            continue
        error = connector.bad(order, "unsafe")
        assert "REVOKE EXECUTE ON FUNCTION pg_catalog.set_config(text, text, boolean) FROM PUBLIC" in error["text"]
        assert "REVOKE UPDATE ON pg_catalog.pg_settings FROM PUBLIC" in error["text"]
        check = connector.good({**order, "op": "check"}).done
        assert not check["ok"] and "set_config" in str(check["checks"])
        connector.bad({**order, "op": "catalogue"}, "unsafe")
    # One of the two is not enough.
    rights.sql(REVOKE.splitlines()[0], "rights_loose")
    try:
        connector.bad(asked(rights, "SELECT 1", "switch", "rights_loose", {"role": "rights_north"}), "unsafe")
    finally:
        rights.sql("GRANT EXECUTE ON FUNCTION pg_catalog.set_config(text, text, boolean) TO PUBLIC", "rights_loose")


def test_logins_that_see_everything(connector, rights):
    for who, why in (("boss", "superuser"), ("bypass", "BYPASSRLS"), ("reader", "pg_read_all_data")):
        error = connector.bad(asked(rights, "SELECT * FROM app.orders", who, source={"personal": True}), "unsafe")
        assert why in error["text"]
        if who != "boss":
            connector.good(asked(rights, "SELECT 1 AS x", who))  # for everybody alike: as the operator wants it
    connector.bad(asked(rights, "SELECT pg_read_file('PG_VERSION')", "boss"), "unsafe")
    assert connector.good({**asked(rights, "", "boss"), "op": "check"}).done["ok"] is False
    assert "warning" in str(connector.good({**asked(rights, "", "bypass"), "op": "check"}).done)
    connector.bad(asked(rights, "SELECT 1", "boss", source={"role": "rights_north"}), "unsafe")


def test_variables_do_not_hold_for_the_owner_of_a_table(connector, rights):
    """Row policies are not applied to whoever owns the table: everybody would see all rows."""
    order = asked(rights, "SELECT count(*) FROM app.owned", "app", source={"variables": {"app.user": "ann@x"}})
    rights.sql("""CREATE TABLE app.owned AS SELECT owner FROM app.orders; ALTER TABLE app.owned OWNER TO rights_app;
        ALTER TABLE app.owned ENABLE ROW LEVEL SECURITY;
        CREATE POLICY own ON app.owned USING (owner = current_setting('app.user', true));""", "rights")
    try:
        assert "app.owned" in connector.bad(order, "unsafe")["text"]
        rights.sql("ALTER TABLE app.owned FORCE ROW LEVEL SECURITY", "rights")
        assert connector.good(order).rows == [(10,)]
    finally:
        rights.sql("DROP TABLE app.owned", "rights")


def test_bad_roles_and_variables(connector, rights):
    connector.bad(asked(rights, "SELECT 1", "switch", source={"role": "rights_app"}), "denied")
    connector.bad(asked(rights, "SELECT 1", "switch", source={"role": "no such role"}))
    connector.bad(asked(rights, "SELECT 1", "switch", source={"role": 'x"; SET ROLE rights_south; --'}))
    for name in ("role", "search_path", "app.user; SET ROLE x", "app.a.b", ".x", "x.", "session_authorization"):
        connector.bad(asked(rights, "SELECT 1", "app", source={"variables": {name: "x"}}), "unsafe")
    odd = "it's \\ \"quoted\" $1 é"
    found = connector.good(asked(rights, "SELECT current_setting('app.user') AS x", "app",
                                 source={"variables": {"app.user": odd}}))
    assert found.rows == [(odd,)]


MASKED = [{"table": "app.people", "columns": ["email", "Odd Name"]}, {"table": "app.events", "columns": ["email"]}]

MASK_TRICKS = [
    "SELECT email FROM app.people",
    "SELECT * FROM app.people",
    "SELECT p FROM app.people p",
    "SELECT p.* FROM app.people p",
    "SELECT row_to_json(p) FROM app.people p",
    "SELECT to_jsonb(p) - 'email' FROM app.people p",
    "SELECT p::text FROM app.people p",
    "SELECT count(p) FROM app.people p",
    "SELECT (p).email FROM app.people p",
    "SELECT x.a FROM app.people AS x(i, n, d, a, o)",
    "SELECT x.name FROM app.people AS x(id, email, dept, name, o)",
    "SELECT x.name FROM app.people x (id, email, dept, name)",
    "SELECT x.name FROM app.people * x/**/(id, email, dept, name)",
    "SELECT x.name FROM ONLY (app.people) \"x\"(id, email, dept, name)",
    "SELECT a.name, b.id FROM app.people a(id, email, dept, name), app.people b",
    "SELECT x.name FROM app.people y, app.people x(id, email, dept, name) WHERE x.id = y.id",
    "SELECT x.name FROM (SELECT id FROM app.people x) y, app.people x(id, email, dept, name) WHERE x.id = y.id",
    "SELECT name FROM app.people TABLESAMPLE SYSTEM (100) AS x(id, email, dept, name)",
    "SELECT name FROM app.people AS x(id, email, dept, name) TABLESAMPLE SYSTEM (100)",
    "SELECT name FROM app.people JOIN (SELECT 1 AS one) z ON true, app.people AS count(id, email, dept, name)",
    "SELECT j.b FROM (app.people JOIN (SELECT 1 AS one) z ON true) AS j(a, x, c, b)",
    "SELECT q.b FROM (SELECT * FROM app.people) AS q(a, x, c, b)",
    "WITH q(a, x, c, b) AS (SELECT * FROM app.people) SELECT b FROM q",
    "SELECT name FROM app.renamed",
    "SELECT x.id2 FROM app.events AS x(id1, id2, at)",
    "SELECT x.id2 FROM app.events_1 AS x(id1, id2, at)",
    "SELECT count(x.id2) FROM app.events AS x(id1, id2, at)",
    "SELECT v.a FROM app.contacts v(i, a)",
    "SELECT a FROM (SELECT email AS a FROM app.people OFFSET 0) s",
    "SELECT b FROM (SELECT a AS b FROM (SELECT email AS a FROM app.people LIMIT 5) s LIMIT 3) t",
    "WITH w AS MATERIALIZED (SELECT email AS a FROM app.people) SELECT a FROM w",
    "WITH RECURSIVE w(a) AS (SELECT email FROM app.people UNION SELECT a FROM w WHERE false) SELECT a FROM w",
    "SELECT (SELECT email FROM app.people LIMIT 1)",
    "SELECT ARRAY(SELECT email FROM app.people)",
    "SELECT min(email) FROM app.people",
    "SELECT string_agg(email, ',') FROM app.people GROUP BY dept",
    "SELECT dept FROM app.people GROUP BY dept HAVING max(email) > 'a'",
    "SELECT id FROM app.people WHERE email LIKE 'LEAK-mask1%'",
    "SELECT id FROM app.people ORDER BY email",
    "SELECT row_number() OVER (ORDER BY email), id FROM app.people",
    "SELECT lag(email) OVER () FROM app.people",
    "SELECT 1 FROM app.people WHERE email IS NOT NULL",
    "SELECT a.id FROM app.people a JOIN app.people b USING (email)",
    "SELECT email FROM app.people UNION SELECT 'x'",
    "SELECT address FROM app.contacts",
    "SELECT c FROM app.contacts c",
    "SELECT address FROM app.contacts WHERE id = 3",
    "SELECT email FROM app.events",
    "SELECT email FROM app.events_1",
    "SELECT * FROM app.events_1",
    'SELECT "Odd Name" FROM app.people',
    'SELECT U&"\\0065mail" FROM app.people',
    "SELECT app.mail_of(1)",
    "SELECT mail_of(1)",
    "SELECT app.mail_const(1)",
    "SELECT \"mail_const\" (1)",
    "SELECT U&\"mail\\005fconst\"(1)",
    "SELECT /**/mail_const/**/ -- x\n (1)",
    "SELECT p.people_mail FROM app.people p",
    "SELECT people_mail(p) FROM app.people p",
    "SELECT 1 OPERATOR(app.@#@) 2",
    "SELECT 1 @#@ 2",
    "SELECT query_to_xml('SELECT email FROM app.people', true, false, '')",
    "SELECT pg_catalog.query_to_xml('SELECT email FROM app.people', true, false, '')",
    "SELECT table_to_xml('app.people', true, false, '')",
    "SELECT schema_to_xml('app', true, false, '')",
    "SELECT * FROM ts_stat('SELECT to_tsvector(email) FROM app.people')",
    "SELECT * FROM pg_stats WHERE tablename = 'people'",
    "SELECT histogram_bounds FROM pg_stats",
    "SELECT stavalues1 FROM pg_statistic",
    "SELECT query FROM pg_stat_activity",
    "SELECT * FROM pg_stat_get_activity(NULL)",
    "SELECT unnest(ARRAY(SELECT email FROM app.people))",
    "SELECT x FROM app.people, LATERAL (SELECT email AS x) l",
    "SELECT x FROM app.people, LATERAL unnest(ARRAY[email]) x",
    "SELECT j->>'email' FROM app.people p, LATERAL (SELECT to_json(p) AS j) l",
    "VALUES ((SELECT email FROM app.people LIMIT 1))",
    "SELECT CASE WHEN email > 'LEAK' THEN 1 END FROM app.people",
    "SELECT 1 FROM app.people WHERE length(email) > (SELECT 1)",
    "SELECT id FROM app.people p WHERE EXISTS (SELECT FROM app.people q WHERE q.email < p.email)",
    "SELECT DISTINCT ON (email) id FROM app.people",
    "SELECT id FROM app.people TABLESAMPLE SYSTEM (100) WHERE email <> ''",
    "SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY email) FROM app.people",
    "SELECT count(*) FILTER (WHERE email LIKE '%1') FROM app.people",
    "SELECT dept, email FROM app.people GROUP BY GROUPING SETS ((dept), (email))",
    "SELECT a FROM app.people CROSS JOIN LATERAL (VALUES (email)) v(a)",
    "SELECT coalesce(x.e, '') FROM (SELECT p.email AS e, d.id FROM app.people p FULL JOIN app.events d ON d.id = p.id) x",
    "(SELECT email FROM app.people) EXCEPT (SELECT 'x')",
    # What EXPLAIN leaves out: lists of VALUES, counts, frames, what is compared with a subquery.
    "SELECT v.a FROM app.people p, LATERAL (VALUES (p.email), ('')) v(a)",
    "SELECT v.a FROM app.people p, LATERAL (VALUES (p::text), ('')) v(a)",
    "SELECT v.a FROM app.people date, LATERAL (VALUES (''), (date::text)) v(a)",
    "SELECT (SELECT max(a) FROM (VALUES (p.email), ('')) v(a)) FROM app.people p",
    "SELECT (SELECT max(a) FROM (VALUES (''::text), ('' || s.d)) v(a)) FROM (SELECT * FROM app.people) s(a, b, c, d)",
    "SELECT (SELECT ARRAY(VALUES (p), (NULL))) FROM app.people p",
    "SELECT (SELECT count(*) FROM (SELECT 1 FROM generate_series(1, 999) LIMIT ascii(email)) x) FROM app.people",
    "SELECT (SELECT count(*) FROM (SELECT 1 FROM generate_series(1, 999) LIMIT length(p::text)) x) FROM app.people p",
    "SELECT (SELECT count(*) FROM (SELECT 1 FROM generate_series(1, 999) LIMIT 1 + length(p::text)) x) FROM app.people p",
    "SELECT (SELECT count(*) FROM (SELECT 1 FROM generate_series(1, 999) OFFSET (length(p::text))) x) FROM app.people p",
    "SELECT (SELECT count(*) FROM (SELECT 1 FROM generate_series(1, 999) FETCH FIRST (length(p::text)) ROWS ONLY) x) "
    "FROM app.people p",
    "SELECT (SELECT max(s) FROM (SELECT sum(1) OVER (ROWS BETWEEN length(p::text) PRECEDING AND CURRENT ROW) s "
    "FROM generate_series(1, 99)) x) FROM app.people p",
    "SELECT id, email IN (SELECT 'LEAK' || g FROM generate_series(1, 9) g) FROM app.people",
    "SELECT id FROM app.people WHERE email NOT IN (SELECT 'LEAK' || g FROM generate_series(1, 9) g)",
    "SELECT id FROM app.people p WHERE p::text NOT IN (SELECT 'LEAK' || g FROM generate_series(1, 9) g)",
    "SELECT id FROM app.people p WHERE p::text NOT IN ((SELECT 'LEAK') UNION (SELECT 'x'))",
    "SELECT id FROM app.people p WHERE p::text > ALL (SELECT 'LEAK' || g FROM generate_series(1, 9) g)",
    "SELECT id FROM app.people p WHERE (id, p::text) < (SELECT p.id, 'LEAK')",
    "SELECT id FROM app.people p WHERE (id, p::text) OPERATOR(pg_catalog.<) (SELECT p.id, 'LEAK')",
    "SELECT id FROM app.people p WHERE ROW(p::text) LIKE (SELECT '%LEAK-mask7,%' || left(p.id::text, 0))",
    "SELECT id FROM app.people p WHERE ROW(p::text) NOT ILIKE ((SELECT '%leak-mask7,%' || left(p.id::text, 0)))",
    "SELECT id, ROW(p::text) LIKE /**/ (WITH q AS (SELECT p.id) SELECT '%K-mask7,%' || left(id::text, 0) FROM q) FROM app.people p",
    "SELECT id FROM app.people p WHERE ROW(p::text) BETWEEN (SELECT '(7,' || left(p.id::text, 0)) AND '(8'",
    "SELECT id FROM app.people p WHERE ROW(p::text) BETWEEN '(7,' AND (SELECT '(8' || left(p.id::text, 0))",
    "SELECT id FROM app.people p WHERE ROW(p::text) NOT BETWEEN SYMMETRIC (SELECT '(7,' || left(p.id::text, 0)) AND '(8'",
    "SELECT id FROM app.contacts c WHERE ROW(address) LIKE (SELECT '%mask7' || left(c.id::text, 0))",
    # What the planner runs already, with the value in its error.
    "SELECT id FROM app.people WHERE id = (table_to_xml('app.people'::regclass, true, false, '')::text)::int",
    "SELECT 1 FROM app.orders WHERE id = substr(schema_to_xml('app', true, false, '')::text, 400, 200)::int",
    "SELECT id FROM app.people WHERE id = app.mail_of(1)::int",
    "SELECT app.mail_const(1)::int",
    "SELECT id FROM app.people WHERE id < (1 OPERATOR(app.@#@) 2)::int",
    "SELECT pg_stat_get_backend_activity(x) FROM pg_stat_get_backend_idset() x",
    # A string with escapes goes on in the next line with escapes.
    "SELECT id, E''\n'\\'' , (SELECT max(a) FROM (VALUES (p.email), ('')) v(a)) FROM app.people p --'",
    "SELECT E'' -- x\n'\\'', id FROM app.people WHERE id = (table_to_xml('app.people', true, false, '')::text)::int --'",
]

MASK_FINE = [
    ("SELECT count(*) FROM app.people", [(50,)]),
    ("SELECT dept, count(*) FROM app.people GROUP BY dept ORDER BY dept", [("d0", 16), ("d1", 17), ("d2", 17)]),
    ("SELECT id, name FROM app.people WHERE id = 7", [(7, "name7")]),
    ("SELECT max(a.id) FROM app.people a JOIN app.people b ON a.id = b.id", [(50,)]),
    ("SELECT count(*) FROM (SELECT DISTINCT dept FROM app.people ORDER BY dept LIMIT 10) x", [(3,)]),
    ("SELECT sum(id) OVER (PARTITION BY dept) FROM app.people WHERE id = 1", [(1,)]),
    ("SELECT 'email'::text AS x", [("email",)]),
    ("SELECT count(*) FROM information_schema.columns WHERE table_name = 'people' AND column_name = 'email'", [(1,)]),
    ("SELECT id FROM app.events", [(1,)]),
    ("SELECT id FROM app.contacts WHERE id = 5", [(5,)]),
    ("SELECT p.id, v.b FROM app.people p JOIN (VALUES (1, 'x', NULL, '1'::double precision), (2, 'y', true, 2), "
     "(99, 'z', false, -3)) v(a, b) ON v.a = p.id ORDER BY 1", [(1, "x"), (2, "y")]),
    ("SELECT id FROM app.people WHERE id IN (SELECT id FROM app.events)", [(1,)]),
    ("SELECT id FROM app.people p WHERE NOT EXISTS (SELECT FROM app.events e WHERE e.id < p.id)", [(1,)]),
    ("SELECT id FROM app.people p WHERE id < 3 AND (SELECT count(*) FROM app.events e WHERE e.id = p.id) > 0", [(1,)]),
    ("SELECT id FROM app.people ORDER BY id LIMIT 1 OFFSET 2", [(3,)]),
    ("SELECT id FROM app.people ORDER BY id OFFSET 1 ROWS FETCH NEXT 1 ROWS ONLY", [(2,)]),
    ("SELECT sum(id) OVER (ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM app.people WHERE id < 3", [(1,), (3,)]),
]


def test_masked_columns(connector, rights):
    for trick in MASK_TRICKS:
        message, seen = answer(connector, asked(rights, trick, "south", source={"schemas": None}, masked=MASKED))
        assert "LEAK-mask" not in seen.replace(trick, ""), (trick, seen[:2000])
        assert message["message"] == "error" and message["word"] in ("masked", "sql", "denied"), (trick, message)
        assert "estimate" not in seen, trick  # how many rows it expects would tell, too
    for sql, rows in MASK_FINE:
        assert connector.good(asked(rights, sql, "south", masked=MASKED)).rows == rows, sql


SCHEMA_TRICKS = [
    "SELECT * FROM private.salaries",
    "SELECT a FROM app.window_to_private",
    "SELECT * FROM app.salary_table()",
    "SELECT app.salary_table()",
    "SELECT salary_table()",
    "SELECT id FROM app.people WHERE name < (SELECT max(amount) FROM private.salaries)",
    "SELECT query_to_xml('SELECT * FROM private.salaries', true, false, '')",
    "SELECT table_to_xml('private.salaries', true, false, '')",
    "SELECT id FROM app.people WHERE id = (table_to_xml('private.salaries', true, false, '')::text)::int",
    "SELECT * FROM pg_catalog.pg_stats",
    "SELECT * FROM pg_catalog.pg_class",
    "SELECT * FROM information_schema.tables",
]


def test_schemas(connector, rights):
    only = {"schemas": ["app"]}
    for trick in SCHEMA_TRICKS:
        message, seen = answer(connector, asked(rights, trick, "south", source=only))
        assert "LEAK-schema" not in seen, (trick, seen[:2000])
        assert message["message"] == "error" and message["word"] in ("masked", "denied"), (trick, message)
    fine = connector.good(asked(rights, "SELECT count(*) FROM people", "south", source=only))
    assert fine.rows == [(50,)]  # they are the search path
    names = [t["name"] for t in connector.good({**asked(rights, "", "south", source=only), "op": "catalogue"}).rows["tables"]]
    assert names and all(name.startswith("app.") for name in names)


def test_samples_of_a_catalogue(connector, rights):
    """Values of a catalogue are values: they come from nowhere that a query could not read. Without row security
    in the database views are sampled, too."""
    rights.create_database("rights_samples")
    rights.sql("""CREATE SCHEMA app; CREATE SCHEMA private;
        CREATE TABLE private.salaries (who text, amount text); INSERT INTO private.salaries VALUES ('x', 'LEAK-schema');
        CREATE VIEW app.window_to_private AS SELECT amount AS a FROM private.salaries;
        CREATE TABLE app.all_people (id int, email text);
        CREATE TABLE private.people () INHERITS (app.all_people); INSERT INTO private.people VALUES (7, 'LEAK-child');
        CREATE TABLE app.fine (x text); INSERT INTO app.fine VALUES ('shown');
        GRANT USAGE ON SCHEMA app, private TO PUBLIC; GRANT SELECT ON ALL TABLES IN SCHEMA app, private TO PUBLIC;""",
               "rights_samples")
    try:
        for how in ({"source": {"schemas": ["app"]}},
                    {"masked": [{"table": "private.people", "columns": ["email"]},
                                {"table": "private.salaries", "columns": ["amount"]}]}):
            order = {**asked(rights, "", "south", "rights_samples", **how), "op": "catalogue", "samples": 5}
            seen = connector.good(order).raw.decode()
            assert "LEAK" not in seen and "window_to_private" in seen and "shown" in seen, seen
        everything = {**asked(rights, "", "south", "rights_samples"), "op": "catalogue", "samples": 5}
        assert "LEAK-schema" in connector.good(everything).raw.decode()
    finally:
        rights.sql("DROP DATABASE rights_samples WITH (FORCE)")


FOREIGN = """
CREATE EXTENSION postgres_fdw;
CREATE SERVER self FOREIGN DATA WRAPPER postgres_fdw OPTIONS (host '127.0.0.1', port '%(port)d', dbname 'rights');
CREATE USER MAPPING FOR PUBLIC SERVER self OPTIONS (user 'rights_south', password 'south-password');
CREATE FOREIGN TABLE app.f_people (id int, dept text, mail text OPTIONS (column_name 'email')) SERVER self
    OPTIONS (schema_name 'app', table_name 'people');
CREATE FOREIGN TABLE app.f_events (id int, email text) SERVER self OPTIONS (schema_name 'app', table_name 'events');
CREATE FOREIGN TABLE private.f_salaries (who text, amount text) SERVER self
    OPTIONS (schema_name 'private', table_name 'salaries');
CREATE VIEW app.f_contacts AS SELECT id, mail AS address FROM app.f_people;
GRANT SELECT ON app.f_people, app.f_events, app.f_contacts, private.f_salaries TO PUBLIC;
"""


def test_foreign_tables(connector, rights):
    """What another server joins or aggregates is one node of the plan, without the names of the tables."""
    rights.sql(FOREIGN % {"port": rights.port}, "rights")
    masked = [{"table": "app.f_people", "columns": ["mail"]}]
    try:
        for trick in ["SELECT count(*), max(amount) FROM private.f_salaries",
                      "SELECT e.id, s.amount FROM app.f_events e JOIN private.f_salaries s ON s.who < 'z' || e.id",
                      "SELECT amount FROM private.f_salaries"]:
            message, seen = answer(connector, asked(rights, trick, "south", source={"schemas": ["app"]}))
            assert "LEAK" not in seen and "estimate" not in seen, (trick, seen[:2000])
            assert message["word"] in ("masked", "denied"), (trick, message)
        for trick in ["SELECT dept, count(*), max(mail) FROM app.f_people GROUP BY dept",
                      "SELECT p.mail FROM app.f_people p JOIN app.f_people q ON p.id = q.id AND p.dept < q.dept || 'x'",
                      "SELECT mail FROM app.f_people",
                      "SELECT id FROM app.f_contacts WHERE address = 'LEAK-mask7'"]:
            message, seen = answer(connector, asked(rights, trick, "south", masked=masked))
            assert "LEAK" not in seen.replace(trick, "") and "estimate" not in seen, (trick, seen[:2000])
            assert message["word"] == "masked", (trick, message)
        apart = "WITH e AS MATERIALIZED (SELECT id FROM app.f_events) SELECT count(*) FROM e"
        assert connector.good(asked(rights, apart, "south", masked=masked)).rows == [(1,)]
        assert connector.good(asked(rights, "SELECT count(*) FROM app.f_events", "south")).rows == [(1,)]
    finally:
        rights.sql("DROP EXTENSION postgres_fdw CASCADE", "rights")
