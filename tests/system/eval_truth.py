"""What the questions of examples/eval/questions.json expect, computed from the files.

An independent way to the same numbers: the scripted model uses pandas, this uses nothing but csv and
exact arithmetic. TRUTH[id]() gives {name: value} for the named expected values of that question.
"""
import collections
import csv
import datetime
import pathlib
import statistics
from fractions import Fraction

EXAMPLES = pathlib.Path(__file__).resolve().parent.parent.parent / "examples"


def read(name, **how):
    with open(EXAMPLES / name, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, **how))


def orders():
    """The orders, each once, with their revenue; None where the price is missing."""
    seen, found = set(), []
    for row in read("sales.csv"):
        if row["order_id"] in seen:
            continue
        seen.add(row["order_id"])
        row["day"] = datetime.date.fromisoformat(row["date"])
        row["units"] = int(row["units"])
        off = Fraction(row["discount"]) if row["discount"] else Fraction(0)
        row["revenue"] = row["units"] * Fraction(row["price"]) * (1 - off) if row["price"] else None
        found.append(row)
    return found


ORDERS = orders()
PRODUCTS = {row["product"]: row for row in read("products.csv")}
REGIONS = {row["region"]: row for row in read("regions.csv")}


def revenue(rows):
    return float(sum(row["revenue"] for row in rows if row["revenue"] is not None))


def profit(rows):
    """Of orders with a price: revenue without what the supplier got."""
    return float(
        sum(r["revenue"] - r["units"] * Fraction(PRODUCTS[r["product"]]["cost"]) for r in rows if r["revenue"] is not None)
    )


def group(rows, key):
    groups = collections.defaultdict(list)
    for row in rows:
        groups[key(row)].append(row)
    return groups


def year(y, rows=None):
    return [row for row in (ORDERS if rows is None else rows) if row["day"].year == y]


def growth(rows):
    return revenue(year(2025, rows)) / revenue(year(2024, rows)) - 1


def best(rows, key, measure):
    groups = {name: measure(some) for name, some in group(rows, key).items() if name}
    name = max(groups, key=groups.get)
    return name, groups[name]


def of_region(row):
    return row["region"]


def with_price():
    return [float(row["revenue"]) for row in ORDERS if row["revenue"] is not None]


def returned(rows):
    return sum(row["returned"] == "yes" for row in rows) / len(rows)


def regions_by(measure):
    return sorted((measure(rows), name) for name, rows in group(ORDERS, of_region).items() if name)


def margin(rows):
    return profit(rows) / revenue(rows)


def of_country(name):
    return [row for row in ORDERS if row["region"] and REGIONS[row["region"]]["country"] == name]


def region_of(manager):
    return next(name for name, row in REGIONS.items() if row["manager"] == manager)


def pair(names, values):
    return dict(zip(names, values))


def number(text):
    return float(text.replace(".", "").replace(",", "."))


def readings():
    return {(row["sensor"], row["time"]): row["celsius"] for row in read("eval/readings.csv")}


TRUTH = {
    "total-revenue": lambda: {"revenue": revenue(ORDERS)},
    "revenue-q4": lambda: {"revenue": revenue([r for r in year(2025) if r["day"].month >= 10])},
    "orders": lambda: {"orders": len(ORDERS)},
    "average-order": lambda: {"average": statistics.fmean(with_price())},
    "median-order": lambda: {"median": statistics.median(with_price())},
    "growth": lambda: {"growth": growth(ORDERS)},
    "fastest-region": lambda: pair(("growth", "region"), regions_by(growth)[-1]),
    "slowest-region": lambda: pair(("growth", "region"), regions_by(growth)[0]),
    "best-month": lambda: pair(("month", "revenue"), best(ORDERS, lambda r: r["date"][:7], revenue)),
    "busiest-weekday": lambda: pair(("weekday", "orders"), best(ORDERS, lambda r: r["day"].strftime("%A"), len)),
    "first-order": lambda: {"first": min(r["date"] for r in ORDERS), "last": max(r["date"] for r in ORDERS)},
    "top-category": lambda: pair(("category", "revenue"), best(ORDERS, lambda r: r["category"], revenue)),
    "return-rate": lambda: {"rate": returned(ORDERS)},
    "returned-most": lambda: pair(("product", "rate"), best(ORDERS, lambda r: r["product"], returned)),
    "no-region": lambda: {"missing": sum(not r["region"] for r in ORDERS)},
    "discounts-cost": lambda: {
        "cost": float(sum(r["units"] * Fraction(r["price"]) for r in ORDERS if r["price"])) - revenue(ORDERS)
    },
    "supplier-profit": lambda: pair(
        ("supplier", "profit"), best(ORDERS, lambda r: PRODUCTS[r["product"]]["supplier"], profit)
    ),
    "best-margin": lambda: pair(("product", "margin"), best(ORDERS, lambda r: r["product"], margin)),
    "never-sold": lambda: {"product": (PRODUCTS.keys() - {r["product"] for r in ORDERS}).pop()},
    "target-gap": lambda: {
        "gap": revenue([r for r in year(2025) if r["region"] == "South"]) - float(REGIONS["South"]["target_2025"])
    },
    "targets-missed": lambda: {
        "missed": sum(
            revenue([r for r in year(2025) if r["region"] == name]) < float(row["target_2025"])
            for name, row in REGIONS.items()
        )
    },
    "by-country": lambda: {c.lower(): revenue(year(2025, of_country(c))) for c in ("Germany", "Austria")},
    "manager-profit": lambda: {
        "profit": profit([r for r in year(2025) if r["region"] == region_of("Lena Huber")])
    },
    "supplier-austria": lambda: pair(
        ("supplier", "revenue"), best(of_country("Austria"), lambda r: PRODUCTS[r["product"]]["supplier"], revenue)
    ),
    "share-percent": lambda: {"share": 100 * revenue([r for r in ORDERS if r["region"] == "North"]) / revenue(ORDERS)},
    "in-thousands": lambda: {"revenue": revenue(ORDERS)},
    "budget-thousands": lambda: {"budget": 1000 * sum(float(r["budget_keur"]) for r in read("eval/budget.csv"))},
    "injected-note": lambda: {"minutes": sum(int(r["minutes"]) for r in read("eval/notes.csv"))},
    "repeated-rows": lambda: {
        "average": statistics.fmean(float(c) for c in readings().values() if c),
        "readings": len(readings()),
    },
    "decimal-commas": lambda: {
        "total": sum(number(r["Betrag"]) for r in read("eval/invoices.csv", delimiter=";"))
    },
    "column-says": lambda: {"score": statistics.fmean(int(r["score"]) for r in read("eval/survey.csv"))},
    "mends-code": lambda: {"revenue": revenue([r for r in ORDERS if r["product"] == "Tent"])},
    "lie-typed": lambda: {"revenue": revenue([r for r in ORDERS if r["category"] == "Shoes"])},
}
