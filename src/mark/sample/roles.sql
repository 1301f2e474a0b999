-- Who sees what of the sample data, for psql, run by a superuser after `glovebox mark sample sql`:
--
--     glovebox mark sample sql-roles | psql demo
--     glovebox mark sample sql-roles | psql -v password="$(cat FILE)" demo
--
-- Roles, each of which can log in and sees the orders of its regions and nothing else:
--
--     shop_north, shop_east, shop_south, shop_west    one region
--     shop_germany                                    North and West, about half of the orders
--     shop_austria                                    East and South
--     shop_all                                        everything, also orders without a region
--     shop_mark                                       nothing itself; may become any of them (SET ROLE)
--
-- They have no password unless one is given with -v password=..., so they can log in only where the
-- server trusts the connection. Roles belong to the whole server, everything else to this database.

\set ON_ERROR_STOP on
BEGIN;

DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['shop_north', 'shop_east', 'shop_south', 'shop_west',
                                'shop_germany', 'shop_austria', 'shop_all', 'shop_mark'] LOOP
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = name) THEN
            EXECUTE format('CREATE ROLE %I', name);
        END IF;
        EXECUTE format('ALTER ROLE %I LOGIN NOSUPERUSER NOBYPASSRLS NOCREATEDB NOCREATEROLE', name);
        EXECUTE format('ALTER ROLE %I SET default_transaction_read_only = on', name);
    END LOOP;
END
$$;

\if :{?password}
ALTER ROLE shop_north PASSWORD :'password';
ALTER ROLE shop_east PASSWORD :'password';
ALTER ROLE shop_south PASSWORD :'password';
ALTER ROLE shop_west PASSWORD :'password';
ALTER ROLE shop_germany PASSWORD :'password';
ALTER ROLE shop_austria PASSWORD :'password';
ALTER ROLE shop_all PASSWORD :'password';
ALTER ROLE shop_mark PASSWORD :'password';
\endif

GRANT shop_north, shop_west TO shop_germany;
GRANT shop_east, shop_south TO shop_austria;

-- The login for SET ROLE has no rights of its own, only those of the role it takes.
ALTER ROLE shop_mark NOINHERIT;
GRANT shop_north, shop_east, shop_south, shop_west, shop_germany, shop_austria, shop_all TO shop_mark;

-- Whoever can call set_config() inside a query can change the role there, and undo SET ROLE.
REVOKE EXECUTE ON FUNCTION pg_catalog.set_config(text, text, boolean) FROM PUBLIC;
REVOKE UPDATE ON pg_catalog.pg_settings FROM PUBLIC;

REVOKE ALL ON SCHEMA shop FROM PUBLIC;
REVOKE ALL ON ALL TABLES IN SCHEMA shop FROM PUBLIC;
GRANT USAGE ON SCHEMA shop
    TO shop_north, shop_east, shop_south, shop_west, shop_germany, shop_austria, shop_all, shop_mark;
GRANT SELECT ON shop.orders, shop.products, shop.regions
    TO shop_north, shop_east, shop_south, shop_west, shop_all;

-- Only a view that is the reader's own: another would show all rows.
SELECT current_setting('server_version_num')::int >= 150000 AS can_invoke \gset
\if :can_invoke
GRANT SELECT ON shop.monthly TO shop_north, shop_east, shop_south, shop_west, shop_all;
\endif

ALTER TABLE shop.orders ENABLE ROW LEVEL SECURITY;
ALTER TABLE shop.regions ENABLE ROW LEVEL SECURITY;

CREATE POLICY north ON shop.orders FOR SELECT TO shop_north USING (region = 'North');
CREATE POLICY east ON shop.orders FOR SELECT TO shop_east USING (region = 'East');
CREATE POLICY south ON shop.orders FOR SELECT TO shop_south USING (region = 'South');
CREATE POLICY west ON shop.orders FOR SELECT TO shop_west USING (region = 'West');
CREATE POLICY everything ON shop.orders FOR SELECT TO shop_all USING (true);

CREATE POLICY north ON shop.regions FOR SELECT TO shop_north USING (region = 'North');
CREATE POLICY east ON shop.regions FOR SELECT TO shop_east USING (region = 'East');
CREATE POLICY south ON shop.regions FOR SELECT TO shop_south USING (region = 'South');
CREATE POLICY west ON shop.regions FOR SELECT TO shop_west USING (region = 'West');
CREATE POLICY everything ON shop.regions FOR SELECT TO shop_all USING (true);

COMMIT;
