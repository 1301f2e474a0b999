"""Large amounts: what is not looked at is not drawn. Bounds are numbers of elements, never times."""

import json
import re

import pytest

from page_kit import cell, expect, push, run_cell, saved, visit, world  # noqa: F401 isort:skip
from mark_kit import answer, person, run
from stage import scripted_model

CHATS, ROWS = 500, 100_000
ELEMENTS_MAX = 6000

COUNT = """() => { let n = 0; const walk = (root) => { for (const one of root.querySelectorAll("*")) { n++; if (one.shadowRoot) walk(one.shadowRoot); } }; walk(document); return n; }"""
# A figure whose JSON has more than 5,000,000 bytes.
FIGURE = """\
import json
figure = {"data": [{"type": "heatmap", "z": [[(r * c % 9973 + 1) / 7 for c in range(640)] for r in range(500)]}],
          "layout": {"title": {"text": "Large"}}}
size = len(json.dumps(figure, separators=(",", ":")))
assert size > 5_000_000, size
"""
REPLIES = [{"asked": "large chart", **run(FIGURE + "import mark\nmark.chart(figure)\nmark.value('bytes', size)")},
           {"asked": "large chart", **answer("The chart has {{bytes}} bytes.")},
           {"asked": "many rows", **run(f"import mark\nmark.table('Many', [{{'n': i, 'square': i * i}} for i in range({ROWS})])\nmark.value('rows', {ROWS})")},
           {"asked": "many rows", **answer("There are {{rows}} rows.")}]


@pytest.fixture(scope="module")
def server(world):  # noqa: F811
    return world.serve(*scripted_model(world.folder / "model", REPLIES))


@pytest.fixture(scope="module")
def ann(server):
    return person(server)


def small(page):
    elements = page.evaluate(COUNT)
    assert elements < ELEMENTS_MAX, elements


def test_many_chats(server, ann, visit):  # noqa: F811
    for i in range(CHATS):
        ann.ask_mark(f"hello number {i}")
    page = visit.signed_in(server, ann)
    chats = page.get_by_role("navigation", name="Chats")
    expect(chats.get_by_role("link").first).to_be_visible()
    small(page)
    seen = set()
    for _ in range(200):
        seen.update(link.inner_text() for link in chats.get_by_role("link").all())
        if len(seen) >= CHATS:
            break
        chats.evaluate("(box) => { box.scrollTop += box.clientHeight * 0.8; }")
        page.wait_for_timeout(30)
    assert len(seen) >= CHATS
    small(page)
    page.get_by_role("searchbox", name="Search chats").fill("number 7")
    expect(chats.get_by_role("link", name="hello number 77")).to_be_visible()
    small(page)


def test_many_rows(server, ann, visit):  # noqa: F811
    reply = ann.ask_mark("Show many rows")
    page = visit.signed_in(server, ann, f"/chat/{reply['chat_id']}")
    push(page.get_by_role("button", name="Show all 100,000 rows"))
    table = page.get_by_role("table", name="Many")
    expect(table).to_have_attribute("aria-rowcount", str(ROWS + 1))
    small(page)
    page.get_by_role("region", name="Many", exact=True).last.evaluate("(box) => { box.scrollTop = box.scrollHeight; }")
    expect(table.get_by_role("cell", name=str(ROWS - 1), exact=True)).to_be_visible()
    header = table.get_by_role("columnheader", name="square")
    push(header.get_by_role("button"))
    expect(header).to_have_attribute("aria-sort", "ascending")
    push(header.get_by_role("button"))
    expect(header).to_have_attribute("aria-sort", "descending")
    page.get_by_role("region", name="Many", exact=True).last.evaluate("(box) => { box.scrollTop = 0; }")
    first = table.locator("[role=row][aria-rowindex='2'] [role=cell]")
    expect(first).to_have_text([str(ROWS - 1), str((ROWS - 1) ** 2)])
    small(page)
    page.get_by_role("button", name="Save Many").click()
    name, data = saved(page, lambda: page.get_by_role("menuitem", name="CSV, all rows").click())
    lines = data.decode().splitlines()
    assert name == "Many.csv" and len(lines) == ROWS + 1
    assert lines[0] == "n,square" and lines[-1] == f"{ROWS - 1},{(ROWS - 1) ** 2}"


def drawn(place):
    """The chart in @place is drawn, with the picture of its values, and can be saved."""
    chart = place.locator("figure.chart")
    expect(chart.get_by_role("button", name="PNG")).to_be_enabled()
    frame = chart.frame_locator("iframe[title='Large']")
    expect(frame.locator(".main-svg").first).to_be_visible()
    expect(frame.locator(".heatmaplayer image")).to_have_attribute("href", re.compile("^data:image/png"))
    expect(place.locator(".note.bad")).to_have_count(0)


def test_large_chart(server, ann, visit):  # noqa: F811
    """5 MB of JSON in an answer of Mark; live, and from the store."""
    page = visit.signed_in(server, ann)
    box = page.get_by_role("textbox", name="Question")
    box.fill("Draw a large chart")
    box.press("Enter")
    one = page.get_by_role("article", name="Answer").last
    expect(one).to_contain_text("The chart has")
    expect(one).to_have_attribute("aria-busy", "false")
    expect(one.get_by_role("list", name="Notices")).to_have_count(0)  # nothing was left out
    drawn(one)
    page.reload()
    drawn(page.get_by_role("article", name="Answer").last)
    small(page)
    box.fill("hello")
    box.press("Enter")
    expect(page.get_by_role("article", name="Answer").last).to_contain_text("What do you want to know?")


def test_large_outputs(server, ann, visit):  # noqa: F811
    """A table of 10,000 cells as HTML, a chart of 5 MB, a file of 100,000 lines, half a million printed lines."""
    page = visit.signed_in(server, ann, "/play")
    out = run_cell(page, 1, "from IPython.display import display\n"
                            "rows = ''.join('<tr>' + ''.join(f'<td>{i * j}</td>' for j in range(100)) + '</tr>' for i in range(100))\n"
                            "display({'text/html': f'<table class=dataframe>{rows}</table>'}, raw=True)")
    expect(out.frame_locator("iframe").locator("td").last).to_have_text("9801")
    small(page)
    out = run_cell(page, 2, FIGURE + "display({'application/vnd.plotly.v1+json': figure}, raw=True)")
    drawn(out)
    small(page)
    out = run_cell(page, 3, "for i in range(500_000): print('line', i)")
    expect(out).to_contain_text("line 0")
    small(page)
    run_cell(page, 4, f"open('many.csv', 'w').write('a,b\\n' + ''.join(f'{{i}},{{i * i}}\\n' for i in range({ROWS})))")
    page.get_by_role("group", name="Panels").get_by_role("button", name="Files").click()
    page.get_by_role("list", name="Files").get_by_role("button", name="many.csv").first.click()
    expect(page.get_by_role("dialog").get_by_role("table")).to_be_visible()
    small(page)
    push(page.get_by_role("dialog").get_by_role("button", name="Close").first)
    expect(run_cell(page, 5, "print('still here')").first).to_contain_text("still here")


def test_long_notebook(server, ann, visit, tmp_path):  # noqa: F811
    cells = [{"cell_type": "code", "metadata": {}, "execution_count": i, "source": f"print({i})", "outputs": [
        {"output_type": "stream", "name": "stdout", "text": f"{i}\n"}]} for i in range(1000)]
    file = tmp_path / "long.ipynb"
    file.write_text(json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells}))
    page = visit.signed_in(server, ann, "/play")
    page.get_by_role("button", name="Notebook", exact=True).click()
    with page.expect_file_chooser() as chooser:
        page.get_by_role("menuitem", name="Open .ipynb or .py").click()
    chooser.value.set_files(file)
    last = cell(page, 1000)
    last.scroll_into_view_if_needed()
    expect(last).to_contain_text("999")
    editors = page.evaluate("document.querySelectorAll('.editor').length")
    assert editors < 100, editors  # the heavy part of a cell is drawn near the screen only
