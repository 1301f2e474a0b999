"""A directory as a data source, in the browser: the operator adds it and writes about it; others read what was written."""

import re

import pytest

from page_kit import expect, visit, world  # noqa: F401 isort:skip
from stage import Stage, archive, scripted_model


@pytest.fixture(scope="module")
def stage(world):  # noqa: F811
    root = archive(world.folder / "files")
    stage = Stage(world.serve(*scripted_model(world.folder / "model"), "--source-root", root))
    stage.directory = root / "archive"
    return stage


def open_table(page, name="orders.csv"):
    """The catalogue's entry of a table, unfolded, with all of its columns."""
    catalogue = page.get_by_role("region", name="Catalogue")
    catalogue.get_by_role("button", name=re.compile(re.escape(name))).click()
    expect(catalogue.get_by_role("region", name=f"Columns of {name}")).to_be_visible()
    return catalogue


def test_add_write_and_read(stage, visit):  # noqa: F811
    page = visit.signed_in(stage.server, stage.ann, "/sources")
    page.get_by_role("button", name="Add a source").click()
    dialog = page.get_by_role("dialog", name="Add a data source")
    dialog.get_by_role("radio", name="Files").check()
    dialog.get_by_label("Name", exact=True).fill("archive")
    dialog.get_by_label("Description (optional)").fill("Orders of all years")

    # A directory that the service may not read is refused, and what was written stays.
    dialog.get_by_label("Directory", exact=True).fill("/proc/self")
    dialog.get_by_role("button", name="Add", exact=True).click()
    expect(dialog.locator(".note.bad")).to_be_visible()
    expect(dialog.get_by_label("Name", exact=True)).to_have_value("archive")
    dialog.get_by_label("Directory", exact=True).fill(str(stage.directory))
    expect(dialog.get_by_role("textbox", name="Who")).to_have_value("*")
    dialog.get_by_role("button", name="Add", exact=True).click()

    # The catalogue.
    page.wait_for_url("**/sources/archive")
    expect(page.get_by_text("Orders of all years")).to_be_visible()
    catalogue = open_table(page)
    columns = catalogue.get_by_role("region", name="Columns of orders.csv")
    expect(columns.get_by_role("rowheader")).to_have_text(["region", "amount"])
    expect(columns).to_contain_text("north")

    # What a row is, and what a column means.
    catalogue.get_by_role("button", name="Write about it").click()
    catalogue.get_by_label("What a row is").fill("One row for each order.")
    catalogue.get_by_label("Meaning of amount").fill("Price after the discount")
    catalogue.get_by_label("Unit of amount").fill("EUR")
    catalogue.get_by_role("button", name="Save").click()
    expect(columns).to_contain_text("Price after the discount")
    page.reload()
    catalogue = open_table(page)
    expect(catalogue.get_by_text("One row for each order.")).to_be_visible()
    expect(columns.get_by_role("row").filter(has_text="amount")).to_contain_text("Price after the discountEUR")
    table = stage.ann.good("GET", "/api/v1/sources/archive/tables/orders.csv")
    amount = next(column for column in table["columns"] if column["name"] == "amount")
    assert table["description"] == "One row for each order."
    assert (amount["description"], amount["unit"]) == ("Price after the discount", "EUR")

    # Somebody else reads it, and that is all.
    other = visit.signed_in(stage.server, stage.bob, "/sources")
    expect(other.get_by_role("button", name="Add a source")).to_have_count(0)
    other.get_by_role("link", name=re.compile("archive")).click()
    catalogue = open_table(other)
    expect(catalogue).to_contain_text("One row for each order.")
    expect(catalogue).to_contain_text("Price after the discount")
    for name in ("Write about it", "Sync", "Check", "Change"):
        expect(other.get_by_role("button", name=name)).to_have_count(0)
    expect(other.get_by_text(str(stage.directory))).to_have_count(0)
    change = {"description": "mine", "columns": [{"name": "amount", "unit": "USD"}]}
    assert stage.bob.ask("PATCH", "/api/v1/sources/archive/tables/orders.csv", change).status in (403, 404)
    assert stage.bob.ask("PATCH", "/api/v1/sources/archive", {"description": "mine"}).status in (403, 404)
    assert stage.bob.ask("DELETE", "/api/v1/sources/archive").status in (403, 404)
    assert stage.ann.good("GET", "/api/v1/sources/archive/tables/orders.csv") == table
