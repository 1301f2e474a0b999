"""/docs: complete without script, and with it a form that tries every route."""

import re

import pytest

from page_kit import PHONE, expect, push, visit, world  # noqa: F401 isort:skip
from mark_kit import person


@pytest.fixture(scope="module")
def server(world):  # noqa: F811
    return world.serve("--model", "demo")


def test_without_script(server, visit):  # noqa: F811
    page = visit(server, "/docs", java_script_enabled=False, **PHONE)[1]
    text = page.locator("body").inner_text()
    for path, methods in server.good("GET", "/openapi.json")["paths"].items():
        assert path in text, path
        for method in methods:
            assert page.locator(f"article[data-method='{method}'][data-path='{path}']").count() == 1, (method, path)
    assert page.locator("html").evaluate("(e) => e.scrollWidth") == PHONE["viewport"]["width"]


def test_fits_a_phone(server, visit):  # noqa: F811
    """A browser of a phone would make the page smaller rather than wider, so this is a narrow window."""
    page = visit(server, "/docs", viewport={"width": 320, "height": 700})[1]
    expect(page.get_by_role("button", name="Try it: GET /health", exact=True)).to_be_visible()
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    page.evaluate("document.querySelectorAll('article.route button[aria-expanded=false]').forEach((one) => one.click())")
    expect(page.locator("form.try").last).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") == 320


def test_try_it(server, visit):  # noqa: F811
    page = visit(server, "/docs")[1]
    push(page.get_by_role("button", name="Try it: GET /health", exact=True))
    form = page.locator("article[data-path='/health'] form.try")
    push(form.get_by_role("button", name="Send"))
    expect(form.locator(".reply")).to_contain_text('"status"')
    push(page.get_by_role("button", name="Try it: POST /execute", exact=True))
    form = page.locator("article[data-method='post'][data-path='/execute'] form.try")
    form.get_by_label("Body").fill('{"code": "print(6 * 7)"}')
    push(form.get_by_role("button", name="Send"))
    expect(form.locator(".reply")).to_contain_text("42")
    form.get_by_label("Body").fill("{nonsense")
    push(form.get_by_role("button", name="Send"))
    expect(form.locator(".badge.bad")).to_contain_text("4")


def test_copy_from_another_machine(server, visit):  # noqa: F811
    """Without TLS, browsers have no navigator.clipboard on addresses other than loopback."""
    page = visit(server, "/docs")[1]
    page.add_init_script("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    page.reload()
    push(page.get_by_role("button", name="Try it: GET /health", exact=True))
    form = page.locator("article[data-path='/health'] form.try")
    push(form.get_by_role("button", name="Copy as curl"))
    expect(form.get_by_role("button", name="Copied")).to_be_visible()
    search = page.get_by_role("searchbox", name="Filter routes")
    search.focus()
    page.keyboard.press("Control+V")
    expect(search).to_have_value(re.compile("^curl .*/health"))


def test_every_route_has_a_form(server, visit):  # noqa: F811
    page = visit(server, "/docs")[1]
    buttons = page.get_by_role("button", name=re.compile("^Try it: "))
    count = sum(len(methods) for methods in server.good("GET", "/openapi.json")["paths"].values())
    expect(buttons).to_have_count(count)
    page.evaluate("document.querySelectorAll('article.route button[aria-expanded=false]').forEach((one) => one.click())")
    expect(page.locator("form.try")).to_have_count(count)


def test_as_an_operator(world, visit):  # noqa: F811
    """Who is signed in tries as that account, and an operator finds the way back to the dashboard."""
    server = world.serve("--model", "demo")
    ann, bob = person(server), person(server, "bob@example.com")
    for who, status in ((ann, "200"), (bob, "403")):
        page = visit.signed_in(server, who, "/docs")
        expect(page.locator(".identity")).to_contain_text(f"You try routes as {who.account['email']}")
        expect(page.get_by_role("link", name="Dashboard")).to_have_count(1 if who is ann else 0)
        article = page.locator("article[data-path='/admin/v1/overview']")
        expect(article).to_contain_text("Needs the access token of an operator's account")
        push(article.get_by_role("button", name=re.compile("^Try it")))
        push(article.get_by_role("button", name="Send"))
        expect(article.locator(".reply-line .badge")).to_contain_text(status)


def test_filter(server, visit):  # noqa: F811
    page = visit(server, "/docs")[1]
    page.get_by_role("searchbox", name="Filter routes").fill("post execute")
    expect(page.locator("article.route:visible").first).to_be_visible()
    expect(page.locator("article[data-path='/health']")).to_be_hidden()
