"""The playground in the browser: cells, interrupt, plots, a terminal, notebooks out and in, panels, shares."""

import json
import re

import pytest

from page_kit import PHONE, cell, editor, expect, panel, run_cell, saved, screen_text, terminal, visit, world  # noqa: F401 isort:skip
from conftest import need, wait_for
from test_serve_sessions import make_key


@pytest.fixture(scope="module")
def server(world):  # noqa: F811
    return world.serve("--mark", "off")


def menu(page, item):
    page.get_by_role("button", name="Notebook", exact=True).click()
    page.get_by_role("menuitem", name=item).click()


def test_run_and_receipt(server, visit):  # noqa: F811
    page = visit(server, "/play")[1]
    out = run_cell(page, 1, "x = 6 * 7\nprint('the answer', x)\nx")
    expect(out).to_contain_text("the answer 42")
    receipt = cell(page, 1).get_by_label("Receipt")
    expect(receipt).to_contain_text("Done")
    expect(receipt).to_contain_text("CPU")
    # The next cell has the same interpreter.
    expect(run_cell(page, 2, "print(x + 1)")).to_contain_text("43")
    # A failure shows what happened and where.
    out = run_cell(page, 3, "def f():\n    return {}['missing']\nf()")
    expect(out).to_contain_text("KeyError")
    expect(out).to_contain_text("line 2")


def test_interrupt(server, visit):  # noqa: F811
    page = visit(server, "/play")[1]
    run_cell(page, 1, "x = 1\nprint('started', flush=True)\nwhile True: pass", wait=False)
    expect(cell(page, 1).get_by_role("group", name="Output of cell 1")).to_contain_text("started")
    cell(page, 1).get_by_role("button", name="Interrupt this cell").click()
    expect(cell(page, 1)).to_contain_text("Interrupted")
    expect(cell(page, 1)).to_contain_text("KeyboardInterrupt")
    expect(run_cell(page, 2, "print('still', x)")).to_contain_text("still 1")


def test_why_it_ended(server, visit):  # noqa: F811
    """Limits: test_page_box.py."""
    page = visit(server, "/play")[1]
    run_cell(page, 1, "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)")
    expect(cell(page, 1)).to_contain_text("The interpreter was killed")
    run_cell(page, 2, "a = bytearray(64 << 30)")
    expect(cell(page, 2)).to_contain_text("MemoryError")


def test_plots(server, visit):  # noqa: F811
    page = visit(server, "/play")[1]
    out = run_cell(page, 1, "from IPython.display import display\n"
                            "display({'application/vnd.plotly.v1+json': {'data': [{'type': 'bar', 'x': ['a', 'b'], 'y': [3, 5]}],"
                            " 'layout': {'title': {'text': 'Bars'}}}}, raw=True)")
    expect(out.frame_locator("iframe[title='Bars']").locator("svg .gtitle")).to_have_text("Bars")
    out = run_cell(page, 2, "import matplotlib.pyplot as plt\nplt.plot([1, 4, 9]); plt.show()")
    expect(out.locator("img").first).to_be_visible()
    assert out.locator("img").first.evaluate("(image) => image.decode().then(() => image.naturalWidth)") > 100
    out = run_cell(page, 3, "import pandas\npandas.DataFrame({'n': [1, 2], 'word': ['one', 'two']})")
    expect(out.frame_locator("iframe").locator("td", has_text="two").or_(out.get_by_role("cell", name="two")).first).to_be_visible()


def test_terminal(server, visit):  # noqa: F811
    page = visit(server, "/play")[1]
    run_cell(page, 1, "open('from_cell.txt', 'w').write('hello from the cell')")
    panel(page, "Terminal")
    frame, text = terminal(page)
    keys = page.keyboard
    frame.locator(".xterm").click()
    keys.type("cat from_cell.txt; echo\n")
    expect(text).to_contain_text("hello from the cell")
    # Ctrl-C ends what runs, and only that.
    keys.type("sleep 1000\n")
    keys.type("echo never\n")
    keys.press("Control+c")
    keys.type("echo $((40 + 2))\n")
    expect(text).to_contain_text("42")
    # The size of the window is the size of the terminal.
    keys.type("stty size\n")
    expect(text).to_contain_text(re.compile(r"\d+ \d+"))
    rows, columns = size_of(text)
    page.set_viewport_size({"width": 900, "height": 800})
    keys.type("clear\n")
    keys.type("stty size\n")
    expect(text).not_to_contain_text(f"{rows} {columns}")
    expect(text).to_contain_text(re.compile(r"\d+ \d+"))
    assert size_of(text)[1] < columns
    # UTF-8, both ways.
    keys.insert_text("echo Grüße 日本 €")
    keys.press("Enter")
    expect(text).to_contain_text("Grüße 日本 €")


def size_of(text):
    found = re.findall(r"^(\d+) (\d+)\s*$", screen_text(text), re.M)
    return tuple(map(int, found[-1]))


def test_several_terminals(server, visit):  # noqa: F811
    page = visit(server, "/play")[1]
    run_cell(page, 1, "print('a box')")
    side = panel(page, "Terminal")
    tabs = side.get_by_role("tab")
    frame, text = terminal(page)
    frame.locator(".xterm").click()
    page.keyboard.type("mine=first; echo in-$mine\n")
    expect(text).to_contain_text("in-first")
    side.get_by_role("button", name="New terminal").click()
    expect(tabs).to_have_count(2)
    expect(tabs.nth(1)).to_have_attribute("aria-selected", "true")
    frame, text = terminal(page)
    frame.locator(".xterm").click()
    page.keyboard.type("echo in-${mine:-another}\n")
    expect(text).to_contain_text("in-another")
    # Back: the first one has what it had.
    tabs.nth(0).click()
    frame, text = terminal(page)
    expect(text).to_contain_text("in-first")
    frame.locator(".xterm").click()
    page.keyboard.type("echo again-$mine\n")
    expect(text).to_contain_text("again-first")
    side.get_by_role("button", name="End this terminal").click()
    expect(tabs).to_have_count(1)
    expect(terminal(page)[1]).to_contain_text("in-another")


def test_vim_in_the_terminal(server, visit):  # noqa: F811
    vim = server.run(server.session(), "import shutil; print(shutil.which('vim') or shutil.which('vi') or '')")["stdout"].strip()
    need(vim, "no vim (Debian: vim-tiny)")
    page = visit(server, "/play")[1]
    run_cell(page, 1, "open('poem.txt', 'w').write('roses are red\\n')")
    panel(page, "Terminal")
    frame, text = terminal(page)
    frame.locator(".xterm").click()
    keys = page.keyboard
    keys.type(f"{vim} poem.txt\n")
    expect(text).to_contain_text("roses are red")
    keys.type("Goviolets are blue")
    expect(text).to_contain_text("violets are blue")
    keys.press("Escape")
    keys.type(":wq\n")
    expect(text).not_to_contain_text("violets are blue")
    keys.type("wc -l poem.txt\n")
    expect(text).to_contain_text("2 poem.txt")


def test_notebook_out_and_in(server, visit, tmp_path):  # noqa: F811
    page = visit(server, "/play")[1]
    run_cell(page, 1, "print('kept', 1 + 1)")
    page.get_by_label("Title of the notebook").fill("My notes")
    page.get_by_label("Title of the notebook").press("Enter")
    page.get_by_role("button", name="Notebook", exact=True).click()
    name, content = saved(page, lambda: page.get_by_role("menuitem", name="Download .ipynb").click())
    book = json.loads(content)
    assert name.endswith(".ipynb") and book["nbformat"] == 4
    assert "".join(book["cells"][0]["source"]) == "print('kept', 1 + 1)"
    assert "kept 2" in json.dumps(book["cells"][0]["outputs"])

    book["cells"].append({"cell_type": "markdown", "metadata": {}, "source": ["# A heading\n", "and *text*"]})
    book["cells"].append({"cell_type": "code", "metadata": {}, "execution_count": 7, "source": "1/0", "outputs": [
        {"output_type": "error", "ename": "ZeroDivisionError", "evalue": "division by zero", "traceback": ["\x1b[31mTraceback\x1b[0m"]}]})
    changed = tmp_path / "changed.ipynb"
    changed.write_text(json.dumps(book))
    page.get_by_role("button", name="Notebook", exact=True).click()
    with page.expect_file_chooser() as chooser:
        page.get_by_role("menuitem", name="Open .ipynb or .py").click()
    chooser.value.set_files(changed)
    expect(page.get_by_role("heading", name="A heading")).to_be_visible()
    expect(cell(page, 1)).to_contain_text("kept 2")
    expect(cell(page, 3)).to_contain_text("division by zero")
    # It runs again from the top.
    page.get_by_role("button", name="Run all").click()
    expect(cell(page, 3).get_by_label("Receipt")).to_contain_text("Failed")


@pytest.mark.parametrize("content, says", [
    (b'{"nbformat": 4, "cells": [{"cell_type": "code", "source": 5}]}', "The text of a cell is malformed"),
    (b'{"nbformat": 3, "worksheets": []}', "Opened bad.ipynb")])
def test_damaged_notebook(server, visit, tmp_path, content, says):  # noqa: F811
    """What can be read is shown, and can be worked with."""
    page = visit(server, "/play")[1]
    run_cell(page, 1, "print('other')")
    open_file(page, tmp_path, content)
    expect(page.locator(".toast").filter(has_text=says)).to_be_visible()
    expect(cell(page, 1)).not_to_contain_text("other")
    expect(run_cell(page, 1, "print('works')")).to_contain_text("works")


def open_file(page, folder, content):
    bad = folder / "bad.ipynb"
    bad.write_bytes(content)
    page.get_by_role("button", name="Notebook", exact=True).click()
    with page.expect_file_chooser() as chooser:
        page.get_by_role("menuitem", name="Open .ipynb or .py").click()
    chooser.value.set_files(bad)


def test_completion_and_variables(server, visit):  # noqa: F811
    page = visit(server, "/play")[1]
    run_cell(page, 1, "long_name_of_mine = [1, 2, 3]\nother = 'text'")
    code = editor(page, 2)
    page.keyboard.insert_text("long_na")
    # A click and not Enter, which the editor takes for a line break in the first moment, so that nobody completes by mistake.
    page.get_by_role("option", name=re.compile("long_name_of_mine")).first.click()
    expect(code).to_have_text("long_name_of_mine")
    page.keyboard.insert_text(".app")
    expect(page.get_by_role("option", name=re.compile("append")).first).to_be_visible()
    page.keyboard.press("Escape")
    # Keys as well, by Tab.
    run_cell(page, 2, "prices = {'first price': 1}")
    code = editor(page, 3)
    page.keyboard.insert_text("prices['fi")
    page.keyboard.press("Tab")
    page.get_by_role("option", name="first price").click()
    expect(code).to_have_text("prices['first price")
    variables = panel(page, "Variables").get_by_role("list", name="Variables")
    expect(variables).to_contain_text("long_name_of_mine")
    expect(variables).to_contain_text("list")


def test_variables_are_asked_for_again(server, visit):  # noqa: F811
    """The box may be busy with a completion just then."""
    page = visit(server, "/play")[1]
    replies = []

    def busy_at_first(route):
        replies.append(route)
        if len(replies) > 2:
            route.continue_()
        else:
            route.fulfill(json={"variables": [], "truncated": False, "busy": True})

    page.route("**/variables", busy_at_first)
    run_cell(page, 1, "price = 5")
    expect(panel(page, "Variables").get_by_role("list", name="Variables")).to_contain_text("price")
    assert len(replies) > 2


def answer_with(reply):
    return lambda route: route.fulfill(json=reply)


def test_first_cell_runs(server, visit):  # noqa: F811
    """It uses what the template has."""
    for packages, word in ((["numpy", "plotly"], "plotly"), (["numpy", "matplotlib"], "matplotlib"), ([], "Counter")):
        page = visit(server, "/settings")[1]
        reply = {"templates": [{"name": "system", "kind": "system", "default": True, "packages": [{"name": n, "version": "1"} for n in packages]}]}
        page.route("**/v1/templates", answer_with(reply))
        page.goto("/play")
        expect(cell(page, 1).get_by_role("textbox")).to_contain_text(word)
    editor(page, 1)
    page.keyboard.press("Control+Enter")
    expect(cell(page, 1).get_by_label("Receipt")).to_contain_text("Done")


def test_highlighting(server, visit):  # noqa: F811
    page = visit(server, "/play")[1]
    code = editor(page, 1)
    page.keyboard.press("Control+a")
    page.keyboard.insert_text("def name(): return 'text'")
    expect(code).to_contain_text("'text'")
    tokens = code.locator(".cm-line > span")
    look = "(one) => getComputedStyle(one).color"
    colours = [tokens.filter(has_text=re.compile(rf"^{word}$")).first.evaluate(look) for word in ("def", "name", "'text'")]
    assert len({*colours, code.evaluate(look)}) == 4, colours


def test_files(server, visit, tmp_path):  # noqa: F811
    page = visit(server, "/play")[1]
    run_cell(page, 1, "open('made.txt', 'w').write('made by a cell')")
    side = panel(page, "Files")
    entries = side.get_by_role("list", name="Files")
    expect(entries.get_by_role("button", name=re.compile("^made.txt")).first).to_be_visible()
    table = tmp_path / "table.csv"
    table.write_text("a,b\n" + "".join(f"{i},{i * i}\n" for i in range(50)))
    side.get_by_label("Files to upload").set_input_files(table)
    entries.get_by_role("button", name=re.compile("^table.csv")).first.click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("table")).to_contain_text("49")
    name, content = saved(page, lambda: dialog.get_by_role("button", name="Download").click())
    assert (name, content) == ("table.csv", table.read_bytes())
    dialog.get_by_role("button", name="Close").first.click()
    expect(run_cell(page, 2, "print(len(open('table.csv').readlines()))")).to_contain_text("51")
    entries.get_by_role("button", name="More about made.txt").click()
    page.get_by_role("menuitem", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(entries.get_by_role("button", name=re.compile("^made.txt"))).to_have_count(0)


def test_share(server, visit):  # noqa: F811
    page = visit(server, "/play")[1]
    # A NUL and a number of more than 64 bits are no reason to refuse it.
    run_cell(page, 1, "print('to be shared', chr(0))\n"
                      "display({'application/json': {'big': 1e20}, 'text/plain': 'x'}, raw=True)")
    menu(page, "Share a read-only copy")
    dialog = page.get_by_role("dialog", name="Share a read-only copy")
    dialog.get_by_label("Title").fill("For you")
    dialog.get_by_role("button", name="Make a link").click()
    address = dialog.get_by_label("Link to the shared notebook").input_value()
    assert address.startswith(f"http://127.0.0.1:{server.port}/shared/")

    other = visit(server, "/shared/" + address.rpartition("/")[2])[1]
    expect(other.get_by_role("heading", name="For you")).to_be_visible()
    expect(other.get_by_role("region", name="Cell 1")).to_contain_text("to be shared")
    expect(other.get_by_role("region", name="Cell 1")).to_contain_text("100000000000000000000")
    expect(other.get_by_role("button", name=re.compile("^Run"))).to_have_count(0)

    dialog.get_by_role("button", name="Take back the link to For you").click()
    page.get_by_role("button", name="Take it back").click()
    expect(dialog.get_by_role("list", name="Your links")).to_have_count(0)
    other.reload()
    expect(other.get_by_role("alert")).to_contain_text("no such notebook")


def test_share_with_a_key(world, visit, tmp_path):  # noqa: F811
    """Where keys are needed, the link alone is not enough, and any key is."""
    data = tmp_path / "data"
    ann, bob = make_key(world.gb, data), make_key(world.gb, data)
    server = world.serve("--mark", "off", "--require-key", data=data)
    server.key = ann
    cells = [{"cell_type": "code", "metadata": {}, "execution_count": 1, "source": "6 * 7", "outputs": [
        {"output_type": "stream", "name": "stdout", "text": "the answer\n"}]}]
    made = server.good("POST", "/v1/shares", {"title": "For keys", "notebook": {"nbformat": 4, "cells": cells}}, 201)
    page = visit(server, made["url"])[1]
    expect(page.get_by_role("heading", name="Sign in").or_(page.get_by_label("API key"))).to_be_visible()
    assert "the answer" not in page.locator("body").inner_text()
    use = page.get_by_role("button", name="Use an API key")
    if use.count():
        use.click()
    page.get_by_label("API key").fill(bob)
    page.get_by_role("button", name="Use this key").click()
    expect(page.get_by_role("heading", name="For keys")).to_be_visible()
    expect(page.get_by_role("region", name="Cell 1")).to_contain_text("the answer")
    # A copy of it runs in a box of the one who opened it.
    page.get_by_role("button", name="Open a copy").click()
    expect(cell(page, 1)).to_contain_text("the answer")
    cell(page, 1).get_by_role("textbox").press("Control+Enter")
    expect(cell(page, 1).get_by_role("group", name="Output of cell 1")).to_contain_text("42")


def test_share_of_a_hostile_size(server, visit):  # noqa: F811
    """Colours at each letter and much Markdown: only what is looked at is drawn."""
    colours = {"output_type": "stream", "name": "stdout", "text": "\x1b[1mx\x1b[0my" * 8000}
    cells = [{"cell_type": "code", "metadata": {}, "execution_count": 1, "source": "x", "outputs": [colours] * 12} for _ in range(2)]
    cells += [{"cell_type": "markdown", "metadata": {}, "source": "*a* `b` " * 50} for _ in range(1000)]
    made = server.good("POST", "/v1/shares", {"title": "Much", "notebook": {"nbformat": 4, "cells": cells}}, 201)
    page = visit(server, made["url"])[1]
    expect(page.get_by_label("Printed").first).to_contain_text("xyxy")
    assert page.evaluate("document.querySelectorAll('*').length") < 40_000  # of about 300,000
    last = page.get_by_role("region", name="Cell 1002")
    last.scroll_into_view_if_needed()
    expect(last.locator("em").first).to_have_text("a")
    assert page.evaluate("document.querySelectorAll('*').length") < 60_000


def test_keeps_the_notebook(server, visit):  # noqa: F811
    """A reload has the notebook, its outputs and its box."""
    page = visit(server, "/play")[1]
    expect(run_cell(page, 1, "n = 5\nprint('n is', n)")).to_contain_text("n is 5")
    page.wait_for_url("**session=*")
    page.reload()
    expect(cell(page, 1)).to_contain_text("n is 5")
    expect(run_cell(page, 2, "print(n + 1)")).to_contain_text("6")


# What Chromium does when its disk is full: the request succeeds, and the transaction does not.
FULL = """() => {
    const put = IDBObjectStore.prototype.put;
    window.full = true;
    IDBObjectStore.prototype.put = function (...words) {
        const request = put.apply(this, words);
        if (window.full) request.addEventListener("success", () => this.transaction.abort());
        return request;
    };
}"""


def test_browser_is_full(server, visit):  # noqa: F811
    """It is said, and the page goes on."""
    page = visit(server, "/play")[1]
    run_cell(page, 1, "print('stored')")
    expect(page.locator(".play-saved")).to_have_text("Stored in this browser")
    page.evaluate(FULL)
    run_cell(page, 2, "print('not stored')")
    full = page.get_by_role("alert").filter(has_text="could not store the notebook")
    expect(full).to_be_visible()
    page.evaluate("window.full = false")
    expect(run_cell(page, 3, "print('goes on')")).to_contain_text("goes on")
    expect(full).to_have_count(0)
    page.reload()
    expect(cell(page, 2)).to_contain_text("not stored")


def test_closed_before_it_was_stored(server, visit):  # noqa: F811
    """A notebook that no save has reached yet is there after a reload, from the last keystrokes."""
    page = visit(server, "/play")[1]
    cell(page, 1).wait_for()
    page.evaluate(FULL)
    expect(run_cell(page, 1, "n = 5\nprint('n is', n)")).to_contain_text("n is 5")
    page.wait_for_url("**session=*")
    page.reload()
    expect(cell(page, 1)).to_contain_text("n is 5")
    expect(run_cell(page, 2, "print(n + 1)")).to_contain_text("6")


# A browser whose owner lets pages store nothing.
BLOCKED = """for (const name of ["localStorage", "sessionStorage", "indexedDB"])
    Object.defineProperty(window, name, { get() { throw new DOMException("blocked", "SecurityError"); } });"""


def test_browser_stores_nothing(server, visit):  # noqa: F811
    visitor, page = visit(server, "/docs")
    visitor.context.add_init_script(BLOCKED)
    page.goto("/play")
    expect(page.locator(".toast").filter(has_text="does not store notebooks")).to_be_visible()
    expect(run_cell(page, 1, "print('works')")).to_contain_text("works")
    expect(page.get_by_role("alert").filter(has_text="could not store the notebook")).to_be_visible()


def test_deleted_notebook(server, visit):  # noqa: F811
    """Its box goes with it, which would otherwise count until it is idle for too long."""
    page = visit(server, "/play")[1]
    run_cell(page, 1, "print('old')")
    page.wait_for_url("**session=*")
    session = re.search(r"session=(\w+)", page.url).group(1)
    title = page.get_by_label("Title of the notebook")
    title.fill("Old one")
    title.press("Enter")
    expect(page.locator(".play-saved")).to_have_text("Stored in this browser")
    menu(page, "New notebook")
    expect(title).to_have_value("Untitled")
    server.good("GET", f"/v1/sessions/{session}")
    menu(page, "Notebooks in this browser")
    page.get_by_role("button", name="Delete Old one").click()
    page.get_by_role("dialog", name="Delete Old one?").get_by_role("button", name="Delete").click()
    expect(page.get_by_role("button", name="Delete Old one")).to_have_count(0)
    wait_for(lambda: server.ask("GET", f"/v1/sessions/{session}").status == 404, 60, "the end of its box")


def leave(page, n):
    """From the editor of a cell to the cell; a list of completions takes the first Escape."""
    for _ in range(2):
        page.keyboard.press("Escape")
    expect(cell(page, n)).to_be_focused()


def test_command_keys(server, visit):  # noqa: F811
    page = visit(server, "/play")[1]
    cells = page.get_by_role("region", name=re.compile(r"^Code cell \d+$"))
    editor(page, 1)
    page.keyboard.press("Control+a")
    page.keyboard.insert_text("first = 1")
    leave(page, 1)
    page.keyboard.press("b")
    expect(cells).to_have_count(2)
    expect(cell(page, 2)).to_be_focused()
    page.keyboard.press("Enter")
    expect(cell(page, 2).get_by_role("textbox")).to_be_focused()
    page.keyboard.insert_text("second = 2")
    leave(page, 2)
    page.keyboard.press("k")
    expect(cell(page, 1)).to_be_focused()
    # Twice within a moment, however slow this machine is.
    cell(page, 1).evaluate("e => [1, 2].forEach(() => e.dispatchEvent(new KeyboardEvent('keydown', { key: 'd', bubbles: true })))")
    expect(cells).to_have_count(1)
    expect(cell(page, 1).get_by_role("textbox")).to_have_text("second = 2")
    page.keyboard.press("z")
    expect(cells).to_have_count(2)
    expect(cell(page, 1).get_by_role("textbox")).to_have_text("first = 1")


def test_phone(server, visit):  # noqa: F811
    page = visit(server, "/play", viewport={"width": 360, "height": 740}, has_touch=True)[1]
    expect(run_cell(page, 1, "print('x' * 500)")).to_contain_text("xxx")
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["viewport"]["width"]  # innerWidth grows with the page
    panel(page, "Files")
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["viewport"]["width"]  # innerWidth grows with the page
