"""
Every screen of the page, for axe and for screenshots: SCREENS is (name, who, function). `who` is nobody, ann (the operator) or bob;
the function brings a page to the screen and returns when all of it is there. `Gallery` is the furnished service behind them.
"""

import re

from page_kit import cell, expect, push, run_cell, signed_in, terminal
from stage import Stage, archive, scripted_model

PLOT = """\
import math
xs = [x / 10 for x in range(100)]
from IPython.display import display
display({"application/vnd.plotly.v1+json": {
    "data": [{"type": "scatter", "x": xs, "y": [math.sin(x) for x in xs], "name": "sin"},
             {"type": "scatter", "x": xs, "y": [math.cos(x) for x in xs], "name": "cos"}],
    "layout": {"title": {"text": "Two waves"}, "height": 300}}}, raw=True)
"""


class Gallery:
    """@fresh: somebody's first run. @server: people have used it."""

    def __init__(self, world, fresh=True):
        self.world = world
        self.fresh = world.serve("--model", "demo") if fresh else None
        root = archive(world.folder / "gallery-files")
        self.server = world.serve(*scripted_model(world.folder / "gallery"), "--source-root", root)
        self.stage = Stage(self.server).furnish()
        ann = self.stage.ann
        self.failed = ann.ask_mark("Does it work if nobody replies?", status="error")["chat_id"]
        ann.good("POST", "/api/v1/sources", {"name": "archive", "kind": "files", "directory": str(root / "archive"),
                                             "description": "Orders of all years", "access": [{"who": "*"}]}, 201)
        ann.good("PATCH", "/api/v1/sources/archive/tables/orders.csv", {
            "description": "One row for each order.", "synonyms": ["sales"],
            "columns": [{"name": "amount", "unit": "EUR", "description": "Price after the discount"}]})
        self.share = self.stage.ann.ask("POST", "/v1/shares", {"title": "Waves", "notebook": {
            "nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [
                {"cell_type": "markdown", "metadata": {}, "source": "## Waves\n\nTwo of them."},
                {"cell_type": "code", "metadata": {}, "execution_count": 1, "source": "print(6 * 7)",
                 "outputs": [{"output_type": "stream", "name": "stdout", "text": "42\n"}]}]}})

    def visitor(self, who, **options):
        server = self.fresh if who == "stranger" else self.server
        visitor = self.world.visitor(server, **options)
        if who in ("ann", "bob"):
            signed_in(visitor, getattr(self.stage, who))
        return visitor


def welcome(gallery, page):
    page.goto("/")
    expect(page.get_by_role("heading", name="Welcome to Glovebox")).to_be_visible()


def sign_in(gallery, page):
    page.goto("/")
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


def mark_new(gallery, page):
    page.goto("/")
    expect(page.get_by_role("heading", name="What do you want to know?")).to_be_visible()
    expect(page.get_by_label("Model").or_(page.locator(".model-name")).first).to_be_visible()


def mark_chat(gallery, page):
    page.goto(f"/chat/{gallery.stage.chat}")
    expect(page.get_by_role("button", name="Good answer")).to_have_count(2)
    first = page.get_by_role("article", name="Answer").first
    first.scroll_into_view_if_needed()
    expect(first.frame_locator("iframe.frame-chart").locator(".gtitle")).to_have_text("Revenue by region")
    page.get_by_text("What is the revenue by region?").last.evaluate("e => e.scrollIntoView({block: 'start'})")


def mark_step(gallery, page):
    mark_chat(gallery, page)
    push(page.get_by_role("button", name=re.compile("Computed in step 1")).first)
    expect(page.locator(".cm-marked").first).to_be_visible()


def mark_recheck(gallery, page):
    mark_chat(gallery, page)
    push(page.get_by_role("button", name="Recheck").first)
    page.get_by_role("dialog").get_by_role("button", name="Run it").click()
    expect(page.get_by_role("dialog")).to_contain_text("Same result")


def mark_trace(gallery, page):
    mark_chat(gallery, page)
    push(page.get_by_role("button", name="More about this answer").first)
    push(page.get_by_role("menuitem", name="What the model saw"))
    expect(page.get_by_role("dialog").get_by_role("region", name="Call 1")).to_be_visible()


def sources(gallery, page):
    page.goto("/sources")
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    expect(page.get_by_role("status").get_by_text("Loading")).to_have_count(0)


def source(gallery, page):
    page.goto("/sources/archive")
    catalogue = page.get_by_role("region", name="Catalogue")
    push(catalogue.get_by_role("button", name=re.compile("orders.csv")))
    expect(catalogue.get_by_role("region", name="Columns of orders.csv")).to_contain_text("Price after the discount")


def source_notes(gallery, page):
    source(gallery, page)
    push(page.get_by_role("button", name="Write about it"))
    expect(page.get_by_label("Unit of amount")).to_have_value("EUR")


def source_new(gallery, page):
    sources(gallery, page)
    push(page.get_by_role("button", name="Add a source"))
    expect(page.get_by_role("dialog", name="Add a data source")).to_be_visible()


def mark_failed(gallery, page):
    page.goto(f"/chat/{gallery.failed}")
    expect(page.get_by_role("article", name="Answer").get_by_role("alert")).to_be_visible()


def settings(gallery, page):
    page.goto("/settings")
    expect(page.get_by_role("heading", name="Spent today")).to_be_visible()


def play_fresh(gallery, page):
    page.goto("/play")
    expect(cell(page, 1)).to_be_visible()


def play(gallery, page):
    page.goto("/play")
    expect(run_cell(page, 1, "words = ['sealed', 'box']\nprint(len(words), 'words')\nwords")).to_contain_text("2 words")
    out = run_cell(page, 2, PLOT)
    expect(out.frame_locator("iframe.frame-chart").locator(".gtitle")).to_have_text("Two waves")
    expect(run_cell(page, 3, "{}['missing']")).to_contain_text("KeyError")
    cell(page, 1).evaluate("e => e.scrollIntoView({block: 'start'})")


def play_panel(name):
    def show(gallery, page):
        page.goto("/play")
        run_cell(page, 1, "total = 6 * 7\nnames = ['a', 'b']\nopen('notes.txt', 'w').write('hello')\nopen('data.csv', 'w').write('a,b\\n1,2\\n')\nprint(total)")
        page.get_by_role("group", name="Panels").get_by_role("button", name=name).click()
        if name == "Terminal":
            frame, text = terminal(page)
            frame.locator(".xterm").click()
            page.keyboard.type("ls -l; python3 -c 'print(6*7)'\n")
            expect(text).to_contain_text("42")
        elif name == "Packages":
            expect(page.get_by_label("Install packages")).to_be_visible()
        else:
            expect(page.get_by_role("list", name=name).get_by_role("listitem").first).to_be_visible()
    return show


def play_menu(item, dialog):
    def show(gallery, page):
        play_fresh(gallery, page)
        push(page.get_by_role("button", name="Notebook", exact=True))
        push(page.get_by_role("menuitem", name=item))
        expect(page.get_by_role("dialog", name=dialog)).to_be_visible()
    return show


def play_box(gallery, page):
    play_fresh(gallery, page)
    push(page.locator(".box-chip"))
    expect(page.get_by_role("dialog", name="The box").get_by_label("Memory")).to_be_visible()


def shared(gallery, page):
    assert gallery.share.status == 201, gallery.share
    page.goto(gallery.share.json["url"])
    expect(page.get_by_role("heading", name="Waves").first).to_be_visible()


def admin(view):
    def show(gallery, page):
        page.goto(f"/admin/{view}" if view else "/admin")
        expect(page.get_by_role("heading").first).to_be_visible()
        expect(page.locator("main .spinner")).to_have_count(0)
    return show


def admin_dialog(view, button, dialog):
    def show(gallery, page):
        admin(view)(gallery, page)
        push(page.get_by_role("button", name=button))
        expect(page.get_by_role("dialog", name=dialog)).to_be_visible()
    return show


def docs(gallery, page):
    page.goto("/docs")
    expect(page.get_by_role("heading").first).to_be_visible()


ADMIN_VIEWS = ("", "sessions", "executions", "keys", "users", "audit", "packages", "sources", "models")

SCREENS = [
    ("welcome", "stranger", welcome),
    ("sign-in", "nobody", sign_in),
    ("mark-new", "bob", mark_new),
    ("mark-chat", "ann", mark_chat),
    ("mark-step", "ann", mark_step),
    ("mark-recheck", "ann", mark_recheck),
    ("mark-trace", "ann", mark_trace),
    ("mark-failed", "ann", mark_failed),
    ("sources", "ann", sources),
    ("source", "ann", source),
    ("source-notes", "ann", source_notes),
    ("source-new", "ann", source_new),
    ("settings", "ann", settings),
    ("play-fresh", "bob", play_fresh),
    ("play", "bob", play),
    ("play-files", "bob", play_panel("Files")),
    ("play-variables", "bob", play_panel("Variables")),
    ("play-packages", "bob", play_panel("Packages")),
    ("play-terminal", "bob", play_panel("Terminal")),
    ("play-share", "bob", play_menu("Share a read-only copy", "Share a read-only copy")),
    ("play-keys", "bob", play_menu("Keys", "Keys")),
    ("play-box", "bob", play_box),
    ("shared", "bob", shared),
    *((f"admin-{view or 'overview'}", "ann", admin(view)) for view in ADMIN_VIEWS),
    ("admin-new-key", "ann", admin_dialog("keys", "New key", "New API key")),
    ("admin-invitation", "ann", admin_dialog("users", "Invite somebody", "Invitation")),
    ("docs", "nobody", docs),
]
