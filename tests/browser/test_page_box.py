"""The box of the playground in the browser: its limits and its template, its files and their previews, its packages."""

import os
import shutil
import tempfile

import pytest

from page_kit import cell, expect, panel, run_cell, visit, world  # noqa: F401 isort:skip
from conftest import need
from package_kit import ALONE, Index
from test_template import find_place, make_venv


@pytest.fixture(scope="module")
def index():
    made = Index()
    made.wheel("alpha-one", "1.0", requires=["beta>=1"])
    made.wheel("beta", "1.5")
    yield made
    made.close()


@pytest.fixture(scope="module")
def lab(world):  # noqa: F811
    """A data directory with a second template."""
    place = find_place()
    need(place, "there is no directory outside /tmp to write to")
    place = tempfile.mkdtemp(prefix="gbtest-", dir=place)
    os.chmod(place, 0o755)
    data = world.folder / "lab"
    added = world.gb("template", "add", "lab", "--venv", make_venv(place), "--no-check", "--data", data)
    assert added.code == 0, added.err
    yield data
    shutil.rmtree(place, ignore_errors=True)


@pytest.fixture(scope="module")
def server(world, index, lab):  # noqa: F811
    return world.serve("--mark", "off", "--index-url", index.url, env=ALONE, data=lab)


def box(page):
    page.get_by_title("The box: template, limits, a new one").click()
    return page.get_by_role("dialog", name="The box")


def test_time_limit(server, visit):  # noqa: F811
    page = visit(server, "/play")[1]
    dialog = box(page)
    dialog.get_by_label("Time limit of a cell").select_option(label="10 s")
    dialog.get_by_role("button", name="Save").click()
    run_cell(page, 1, "while True: pass")
    expect(cell(page, 1).get_by_label("Receipt")).to_contain_text("Time is up")
    reason = cell(page, 1).get_by_role("status")
    expect(reason).to_contain_text("Stopped after 10 s: the time limit of a cell")
    # It leads to what can be changed, and the change counts.
    reason.get_by_role("button", name="Change the time limit").click()
    limit = page.get_by_role("dialog", name="The box").get_by_label("Time limit of a cell")
    expect(limit).to_be_focused()
    expect(limit).to_have_value("10")


def test_memory_limit(server, visit):  # noqa: F811
    page = visit(server, "/play")[1]
    run_cell(page, 1, "print('a box with more')")
    dialog = box(page)
    dialog.get_by_label("Memory").select_option(label="256 MB")
    expect(dialog.get_by_text("These changes need a new box")).to_be_in_viewport()
    expect(dialog.get_by_role("button", name="Start a new box")).to_be_in_viewport(ratio=1)
    dialog.get_by_role("button", name="Start a new box").click()
    expect(page.get_by_title("The box: template, limits, a new one")).to_contain_text("256 MB")
    run_cell(page, 2, "kept = []\nwhile True: kept.append(bytearray(b'x') * (8 << 20))")
    expect(cell(page, 2).get_by_label("Receipt")).to_contain_text("Out of memory")
    reason = cell(page, 2).get_by_role("status")
    expect(reason).to_contain_text("the memory of 256 MB was full")
    reason.get_by_role("button", name="Change the box").click()
    expect(page.get_by_role("dialog", name="The box").get_by_label("Memory")).to_be_focused()


def test_template(server, visit):  # noqa: F811
    page = visit(server, "/play")[1]
    dialog = box(page)
    dialog.get_by_label("Template").select_option("lab")
    dialog.get_by_role("button", name="Save").click()
    expect(run_cell(page, 1, "import sys\nprint(sys.prefix)")).to_contain_text("/venv")
    expect(page.get_by_title("The box: template, limits, a new one")).to_contain_text("lab")


def open_preview(page, name):
    page.get_by_role("complementary", name="Files").get_by_role("button", name="More about " + name).click()
    page.get_by_role("menuitem", name="Preview").click()
    return page.get_by_role("dialog", name=name)


def close(dialog):
    dialog.get_by_role("button", name="Close").first.click()
    expect(dialog).to_have_count(0)


FILES = """\
import matplotlib.pyplot as plt
plt.plot([1, 4, 9])
plt.savefig("plot.png")
plt.savefig("plot.pdf")
open("bad.pdf", "wb").write(b"%PDF-1.4\\n" + bytes(200))
open("bad.png", "wb").write(b"\\x89PNG\\r\\n" + bytes(200))
open("note.txt", "w").write("a note <b>of mine</b>")
open("drawn.svg", "w").write('<svg xmlns="http://www.w3.org/2000/svg" width="30" height="20" onload="alert(1)">'
                             '<script>alert(2)</script><rect width="30" height="20"/></svg>')
"""


def test_previews(server, visit):  # noqa: F811
    page = visit(server, "/play")[1]
    run_cell(page, 1, FILES)
    panel(page, "Files")
    size = "(image) => image.decode().then(() => image.naturalWidth)"
    dialog = open_preview(page, "plot.png")
    assert dialog.get_by_role("img", name="plot.png").evaluate(size) > 100
    close(dialog)
    # A picture as well, and no more: the test would see a dialog of its scripts.
    dialog = open_preview(page, "drawn.svg")
    assert dialog.get_by_role("img", name="drawn.svg").evaluate(size) == 30
    assert dialog.locator("svg rect").count() == 0
    close(dialog)
    dialog = open_preview(page, "plot.pdf")
    sheet = dialog.frame_locator("iframe.frame-pdf").get_by_role("img", name="Page 1 of 1")
    expect(sheet).to_be_visible()
    # The curve is on it: not all is white.
    drawn = """(canvas) => new Promise((done) => { const look = () => {
        const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
        for (let i = 0; i < data.length; i += 4) if (data[i + 3] && data[i] < 100) return done(true);
        requestAnimationFrame(look);
    }; look(); })"""
    assert sheet.evaluate(drawn)
    expect(dialog.locator(".note.bad")).to_have_count(0)
    close(dialog)
    dialog = open_preview(page, "bad.pdf")
    expect(dialog.locator(".note.bad")).to_contain_text("This PDF cannot be shown")
    close(dialog)
    dialog = open_preview(page, "bad.png")
    expect(dialog.locator(".note.bad")).to_contain_text("not a picture")
    close(dialog)
    expect(open_preview(page, "note.txt")).to_contain_text("a note <b>of mine</b>")


def test_numbers_sort_as_numbers(server, visit):  # noqa: F811
    """Also with all the digits that pandas writes; names of digits stay as they are."""
    page = visit(server, "/play")[1]
    run_cell(page, 1, "open('t.csv', 'w').write('share,id\\n10.123456789012345,00012\\n0.1,12345678901234567890\\n0.016666666666666666,7\\n-2.5,8\\n')")
    panel(page, "Files")
    table = open_preview(page, "t.csv").get_by_role("table")
    table.get_by_role("columnheader", name="share").get_by_role("button").click()
    expect(table.get_by_role("columnheader", name="share")).to_have_attribute("aria-sort", "ascending")
    rows = table.get_by_role("row")
    expect(rows).to_contain_text(["share", "-2.5", "0.016667", "0.1", "10.123457"])
    expect(rows.nth(3)).to_contain_text("12345678901234567890")
    expect(rows.nth(4)).to_contain_text("00012")


def test_a_slow_folder_does_not_come_back(server, visit):  # noqa: F811
    page = visit(server, "/play")[1]
    run_cell(page, 1, "import os\nos.makedirs('slow')\nopen('slow/inside.txt', 'w')\nopen('root.txt', 'w')")
    held = []
    page.route("**/files?*dir=slow*", lambda route: held.append(route))
    side = panel(page, "Files")
    side.get_by_role("button", name="slow", exact=True).click()
    expect(side.get_by_role("navigation", name="Folder")).to_contain_text("slow")
    side.get_by_role("button", name="/workspace").click()
    expect(side.get_by_role("list", name="Files")).to_contain_text("root.txt")
    with page.expect_response("**/files?*dir=slow*"):
        held[0].continue_()
    page.wait_for_timeout(300)
    expect(side.get_by_role("list", name="Files")).to_contain_text("root.txt")
    expect(side).not_to_contain_text("inside.txt")


DROP = """(target, names) => {
    const data = new DataTransfer();
    for (const name of names) data.items.add(new File([`text of ${name}`], name));
    target.dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true, composed: true }));
}"""


def test_drop_on_the_notebook(server, visit):  # noqa: F811
    page = visit(server, "/play")[1]
    expect(run_cell(page, 1, "print('before')")).to_contain_text("before")
    # On an editor, which has a use of its own for dropped files.
    code = cell(page, 1).get_by_role("textbox")
    code.evaluate(DROP, ["one.txt", "two.txt"])
    entries = page.get_by_role("complementary", name="Files").get_by_role("list", name="Files")
    expect(entries.get_by_role("listitem")).to_have_count(2)
    # With the panel open.
    page.locator(".notebook").evaluate(DROP, ["three.txt"])
    expect(entries.get_by_role("listitem")).to_have_count(3)
    expect(run_cell(page, 2, "print(sorted(open(f'{n}.txt').read() for n in ('one', 'two', 'three')))")).to_contain_text(
        "['text of one.txt', 'text of three.txt', 'text of two.txt']")
    expect(code).to_have_text("print('before')")
    # Not a notebook, whatever its name says.
    page.locator(".notebook").evaluate(DROP, ["bad.ipynb"])
    expect(page.locator(".toast.bad")).to_contain_text("not a notebook")
    expect(entries.get_by_role("listitem")).to_have_count(3)


def test_packages(server, index, visit):  # noqa: F811
    page = visit(server, "/play")[1]
    run_cell(page, 1, "print('a box')")
    side = panel(page, "Packages")
    index.gate.clear()  # the index hangs, so that there is something to see
    try:
        side.get_by_label("Install packages").fill("alpha-one >= 1, < 2")
        side.get_by_role("button", name="Install", exact=True).click()
        expect(side.get_by_role("progressbar", name="Installing")).to_be_visible()
        expect(side.get_by_role("button", name="Cancel")).to_be_visible()
    finally:
        index.gate.set()
    mine = side.get_by_role("list", name="Installed in this box")
    expect(mine.get_by_role("listitem")).to_have_count(2)
    expect(mine).to_contain_text("alpha-one 1.0")
    expect(mine).to_contain_text("beta 1.5")
    expect(side.get_by_role("progressbar")).to_have_count(0)
    expect(run_cell(page, 2, "import alpha_one, beta\nprint('has', alpha_one.version, beta.version)")).to_contain_text("has 1.0 1.5")
    mine.get_by_role("button", name="Remove alpha-one").click()
    expect(mine).not_to_contain_text("alpha-one")
    side.get_by_label("Install packages").fill("there-is-no-such-package")
    side.get_by_role("button", name="Install", exact=True).click()
    expect(side.locator(".note.bad")).to_contain_text("there-is-no-such-package")
    expect(side.get_by_role("button", name="Install", exact=True)).to_be_visible()
