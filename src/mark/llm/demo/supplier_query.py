by_supplier = mark.query(@SOURCE@, '''
    SELECT p.supplier, count(*) AS orders,
           sum(o.units * o.price * (1 - coalesce(o.discount, 0))) AS revenue,
           sum(o.units * (o.price * (1 - coalesce(o.discount, 0)) - p.cost)) AS profit
    FROM @ORDERS@ AS o JOIN @PRODUCTS@ AS p ON p.product = o.product
    GROUP BY p.supplier
    ORDER BY profit DESC
''')
