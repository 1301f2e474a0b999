"""
A service with something to look at: people, chats, files, cells. What is the same on every run looks the same: names,
questions and numbers are fixed, and the model is a script (src/mark/llm/script.c).
"""

import json

from mark_kit import SAMPLE, answer, person, run

REVENUE = '''\
import collections, csv, mark

def paid(row):
    return int(row["units"]) * float(row["price"] or 0) * (1 - float(row["discount"] or 0))

rows = list(csv.DictReader(open(mark.attachment("sales.csv"))))
revenue = collections.Counter()
for row in rows:
    revenue[row["region"] or "unknown"] += paid(row)
best = max(revenue, key=revenue.get)
mark.value("orders", len(rows))
mark.value("total", sum(revenue.values()), unit="EUR", format=",.0f")
mark.value("share", revenue[best] / sum(revenue.values()), format=".1%")
mark.table("Revenue by region", [{"region": r, "revenue": round(v, 2)} for r, v in revenue.most_common()])
mark.chart({"data": [{"type": "bar", "x": [r for r, _ in revenue.most_common()],
                      "y": [v for _, v in revenue.most_common()], "marker": {"color": "#0b6e5f"}}],
            "layout": {"title": {"text": "Revenue by region"}, "yaxis": {"title": {"text": "EUR"}}}})
print("best:", best)
'''
REVENUE_STORY = (
    "All regions together sold for **{{total}}** in {{orders}} orders; the largest one has a share of {{share}}.\n\n"
    "Others in this trade grew by 17.3 % in the same time.")

MONTHS = '''\
months = collections.Counter()
for row in rows:
    months[row["date"][:7]] += paid(row)
mark.value("months", len(months))
mark.value("best_month", max(months, key=months.get))
mark.table("Revenue by month", [{"month": m, "revenue": round(v, 2)} for m, v in sorted(months.items())])
mark.chart({"data": [{"type": "scatter", "mode": "lines+markers", "x": sorted(months), "y": [months[m] for m in sorted(months)]}],
            "layout": {"title": {"text": "Revenue by month"}}})
'''

# The n-th reply of a question is for the n-th turn of the model.
REPLIES = [
    {"asked": "revenue by region", "thinking": "I sum up units times price, less the discount.", **run(REVENUE)},
    {"asked": "revenue by region", **answer(REVENUE_STORY)},
    {"asked": "by month", **run(MONTHS)},
    {"asked": "by month", **answer("Over {{months}} months the best one was {{best_month}}.")},
    {"asked": "how many orders", **run("import csv, mark\nmark.value('orders', sum(1 for _ in csv.DictReader(open(mark.attachment('sales.csv')))))")},
    {"asked": "how many orders", **answer("There are {{orders}} orders.")},
    {"asked": "slowly", "piece_ms": 60, **answer("Word after word after word. " * 400)},
    {"asked": "wait for it", **run("import time\nprint('started', flush=True)\ntime.sleep(600)")},
    {"asked": "fails once", **run("print(1 / 0)")},
    {"asked": "fails once", **run("import mark\nmark.value('x', 42)")},
    {"asked": "fails once", **answer("After a second try it is {{x}}.")},
    {"asked": "which one", "calls": [{"name": "ask_user", "arguments": {"question": "Which year do you mean?"}}]},
    {"asked": "nobody replies", "error": {"failure": "denied", "status": 401, "message": "the key is not valid"}},
    {"asked": "hello", **answer("Hello. What do you want to know?")},
]


def scripted_model(path, replies=()):
    """Options of a service with this model; more @replies come first."""
    path.write_text(json.dumps([*replies, *REPLIES]), encoding="utf-8")
    return ["--model", f"script=script:{path}"]


def archive(root, files=None):
    """@root for --source-root, with a directory `archive` of CSV files in it that boxes may read."""
    place = root / "archive"
    place.mkdir(parents=True)
    for name, text in (files or {"orders.csv": "region,amount\nnorth,10\nsouth,32\n"}).items():
        (place / name).write_text(text, encoding="utf-8")
    for path in (root, place, *place.iterdir()):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return root


class Stage:
    """@ann is the operator, @bob somebody else."""

    def __init__(self, server):
        self.server = server
        self.ann = person(server)
        self.bob = person(server, "bob@example.com")

    def furnish(self):
        """Chats, a file, a session with variables and files in its workspace."""
        self.file = self.ann.upload("sales.csv", SAMPLE)
        self.answer = self.ann.ask_mark("What is the revenue by region?", files=[self.file])
        self.chat = self.answer["chat_id"]
        self.ann.ask_mark("And by month?", chat=self.chat)
        self.ann.ask_mark("A step that fails once")
        self.ann.ask_mark("hello")
        return self
