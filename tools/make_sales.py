#!/usr/bin/python3
"""Makes examples/sales.csv, the sample data of Mark: two years of orders of a shop that does not exist.

usage: tools/make_sales.py >examples/sales.csv

The same bytes every time: nothing but random.random(), whose sequence for a seed is the same in every
Python, decides. There is something to find (a region that grows, one that shrinks, December, a product
that comes back too often, a price rise) and something to stumble over, as in real exports: missing
regions, prices and discounts, and a few orders that were written twice.
"""
import csv
import datetime
import random
import sys

ROWS, SEED = 2000, 20251231
FIRST, DAYS = datetime.date(2024, 1, 1), 731

# weight in the first year, weight in the second
REGIONS = {"North": (30, 31), "South": (18, 34), "East": (22, 26), "West": (30, 25)}

# category, price in the first and the second year, weight, share that is returned
PRODUCTS = {
    "Rain jacket": ("Clothing", 89.00, 94.00, 14, 0.21),
    "Wool socks": ("Clothing", 12.50, 12.50, 20, 0.02),
    "Trail shoes": ("Shoes", 119.00, 129.00, 12, 0.12),
    "Day pack": ("Bags", 64.00, 64.00, 13, 0.04),
    "Tent": ("Camping", 249.00, 259.00, 5, 0.06),
    "Sleeping bag": ("Camping", 139.00, 139.00, 8, 0.05),
    "Head torch": ("Camping", 34.90, 36.90, 15, 0.03),
    "Water bottle": ("Accessories", 18.00, 19.50, 18, 0.01),
}
SEASON = [0.75, 0.72, 0.9, 1.0, 1.15, 1.2, 1.1, 0.95, 1.0, 0.95, 1.15, 1.75]
UNITS = {1: 58, 2: 25, 3: 10, 4: 5, 6: 2}
DISCOUNTS = {0.0: 62, 0.05: 14, 0.1: 14, 0.2: 8, 0.3: 2}


def pick(chance, weights):
    """A key of @weights, each as often as its weight says."""
    at = chance.random() * sum(weights.values())
    for key, weight in weights.items():
        at -= weight
        if at < 0:
            return key
    return key


def order(chance, day):
    second = day.year - FIRST.year
    product = pick(chance, {name: row[3] for name, row in PRODUCTS.items()})
    category, first_price, second_price, _, returns = PRODUCTS[product]
    region = pick(chance, {name: weights[second] for name, weights in REGIONS.items()})
    if region == "West" and product == "Rain jacket":
        returns *= 1.6
    return {
        "date": day.isoformat(),
        "region": region if chance.random() >= 0.012 else "",
        "product": product,
        "category": category,
        "units": pick(chance, UNITS),
        "price": f"{second_price if second else first_price:.2f}" if chance.random() >= 0.006 else "",
        "discount": f"{pick(chance, DISCOUNTS):.2f}" if chance.random() >= 0.03 else "",
        "returned": "yes" if chance.random() < returns else "no",
    }


def main():
    chance = random.Random(SEED)
    days = {FIRST + datetime.timedelta(n): 0 for n in range(DAYS)}
    for day in days:
        days[day] = SEASON[day.month - 1] * (1.3 if day.weekday() >= 5 else 1.0) \
            * (1.12 if day.year > FIRST.year else 1.0)
    rows = [order(chance, day) for day in sorted(pick(chance, days) for _ in range(ROWS))]
    for number, row in enumerate(rows, 100001):
        row["order_id"] = number
    for _ in range(5):
        at = int(chance.random() * len(rows))
        rows.insert(at, rows[at])
    writer = csv.DictWriter(sys.stdout, ["order_id", *(name for name in rows[0] if name != "order_id")],
                            lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)


if __name__ == "__main__":
    main()
