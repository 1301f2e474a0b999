"""What the page may weigh, and that none of its files comes from elsewhere. `make bench` prints times (bench/page.py)."""

import gzip
import pathlib
import re

import pytest

from page_kit import ROOT, expect, visit, world  # noqa: F401 isort:skip

DIST = pathlib.Path(ROOT, "web/dist")
SHELL_MAX = 80 * 1024  # bytes, gzipped: what is loaded before a view is chosen
LIMITS = {"play": 120, "docs": 120}  # KB of script and style of a view, gzipped, with what it imports


@pytest.fixture(scope="module")
def server(world):  # noqa: F811
    return world.serve("--model", "demo")


def packed(reply):
    assert reply.status == 200 and reply.headers.get("Content-Encoding") == "gzip", reply
    return len(reply.body)


def test_shell_is_small(server):
    page = server.ask("GET", "/", Accept="text/html", Accept_Encoding="gzip")
    names = set(re.findall(r'(?:src|href)="(/assets/[^"]+)"', gzip.decompress(page.body).decode()))
    assert names
    total = packed(page) + sum(packed(server.ask("GET", name, Accept_Encoding="gzip")) for name in names)
    assert total <= SHELL_MAX, f"{total} bytes in {sorted(names)}"


def test_first_visit_loads_only_the_shell(server, visit):  # noqa: F811
    visitor, page = visit(server)
    expect(page.get_by_role("heading", name="Welcome to Glovebox")).to_be_visible()
    heavy = [url for url in visitor.requests if re.search(r"/assets/(chart|pdf|terminal|editor|markdown)-", url)]
    assert not heavy


@pytest.mark.parametrize("path,name", [("/play", "play"), ("/docs", "docs")])
def test_views_are_small(server, visit, path, name):  # noqa: F811
    visitor, page = visit(server, path)
    page.wait_for_load_state("networkidle")
    assets = {url.removeprefix(visitor.url) for url in visitor.requests if "/assets/" in url}
    light = [one for one in assets if not re.search(r"/(editor|code|chart|pdf|terminal)-", one)]
    total = sum(packed(server.ask("GET", one, Accept_Encoding="gzip")) for one in light)
    assert total <= LIMITS[name] * 1024, (total, sorted(light))


def test_nothing_from_elsewhere():
    """Addresses in our own code (not in plotly.js and pdf.js, which are in frames without a network) are not loaded from."""
    for file in DIST.rglob("*.html"):
        for address in re.findall(r'(?:src|href)="([^"]+)"', file.read_text()):
            assert address.startswith("/") and not address.startswith("//"), (file, address)
    for file in DIST.rglob("*.css"):
        text = file.read_text()
        assert "@import" not in text and not re.search(r"url\((?!data:)", text), file
