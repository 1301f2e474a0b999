by_region = mark.query(@SOURCE@, '''
    SELECT r.region, r.manager, r.target_2025 AS target,
           sum(o.units * o.price * (1 - coalesce(o.discount, 0))) AS revenue
    FROM @REGIONS@ AS r JOIN @ORDERS@ AS o ON o.region = r.region
    WHERE o.date >= '2025-01-01' AND o.date < '2026-01-01'
    GROUP BY r.region, r.manager, r.target_2025
''')
