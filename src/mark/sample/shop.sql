-- The sample data of Mark, for psql: two years of orders of a shop that does not exist.
--
--     createdb demo && glovebox mark sample sql | psql demo
--
-- It makes the schema "shop", and nothing if there is one already. An order that the CSV file has
-- twice is here once.

\set ON_ERROR_STOP on
BEGIN;

CREATE SCHEMA shop;
COMMENT ON SCHEMA shop IS 'A shop for outdoor equipment: orders of 2024 and 2025. All of it is made up.';

CREATE TABLE shop.regions (
    region      text PRIMARY KEY,
    country     text NOT NULL,
    manager     text NOT NULL,
    target_2025 numeric(12, 2) NOT NULL
);
COMMENT ON TABLE shop.regions IS 'Sales regions, with what each was to bring in 2025';
COMMENT ON COLUMN shop.regions.region IS 'Name of the region';
COMMENT ON COLUMN shop.regions.country IS 'Country the region is in';
COMMENT ON COLUMN shop.regions.manager IS 'Who is responsible for it';
COMMENT ON COLUMN shop.regions.target_2025 IS 'Target for the revenue of 2025, in EUR';

CREATE TABLE shop.products (
    product  text PRIMARY KEY,
    category text NOT NULL,
    supplier text NOT NULL,
    cost     numeric(10, 2) NOT NULL
);
COMMENT ON TABLE shop.products IS 'What the shop sells, and where it buys it';
COMMENT ON COLUMN shop.products.product IS 'Name of the product';
COMMENT ON COLUMN shop.products.category IS 'Group of products';
COMMENT ON COLUMN shop.products.supplier IS 'Company that the shop buys the product from';
COMMENT ON COLUMN shop.products.cost IS 'What the shop pays its supplier for one unit, in EUR';

CREATE TABLE shop.orders (
    order_id integer PRIMARY KEY,
    date     date NOT NULL,
    region   text REFERENCES shop.regions,
    product  text NOT NULL REFERENCES shop.products,
    units    integer NOT NULL,
    price    numeric(10, 2),
    discount numeric(4, 2),
    returned boolean NOT NULL
);
COMMENT ON TABLE shop.orders IS 'One row for each order. Revenue is units * price * (1 - discount)';
COMMENT ON COLUMN shop.orders.order_id IS 'Number of the order';
COMMENT ON COLUMN shop.orders.date IS 'Day of the order';
COMMENT ON COLUMN shop.orders.region IS 'Where it came from; NULL if nobody wrote it down';
COMMENT ON COLUMN shop.orders.product IS 'What was ordered';
COMMENT ON COLUMN shop.orders.units IS 'How many';
COMMENT ON COLUMN shop.orders.price IS 'List price of one unit on that day, in EUR; NULL if it is missing';
COMMENT ON COLUMN shop.orders.discount IS 'Share taken off the price, 0.10 for 10%; NULL means none was noted: count it as 0';
COMMENT ON COLUMN shop.orders.returned IS 'Whether the customer sent it back';

COPY shop.regions FROM STDIN WITH (FORMAT csv);
@regions@
\.

COPY shop.products FROM STDIN WITH (FORMAT csv);
@products@
\.

CREATE TEMPORARY TABLE given (
    order_id integer, date date, region text, product text, category text, units integer,
    price numeric, discount numeric, returned text
) ON COMMIT DROP;
COPY given FROM STDIN WITH (FORMAT csv);
@sales@
\.

INSERT INTO shop.orders
SELECT DISTINCT order_id, date, region, product, units, price, discount, returned = 'yes'
FROM given ORDER BY order_id;

CREATE INDEX ON shop.orders (date);
CREATE INDEX ON shop.orders (product);

CREATE VIEW shop.monthly AS
SELECT date_trunc('month', date)::date AS month, region, count(*) AS orders, sum(units) AS units,
       sum(units * price * (1 - coalesce(discount, 0))) AS revenue
FROM shop.orders GROUP BY 1, 2;
COMMENT ON VIEW shop.monthly IS 'Orders by month and region';
COMMENT ON COLUMN shop.monthly.month IS 'First day of the month';
COMMENT ON COLUMN shop.monthly.revenue IS 'In EUR, after discounts, returned orders included';

-- A view shows what its owner may see, unless it is told to be the reader's (PostgreSQL 15 or
-- later). Row policies on the tables would not hold for it otherwise.
SELECT current_setting('server_version_num')::int >= 150000 AS can_invoke \gset
\if :can_invoke
ALTER VIEW shop.monthly SET (security_invoker = true);
\endif

COMMIT;
ANALYZE shop.orders, shop.products, shop.regions;
