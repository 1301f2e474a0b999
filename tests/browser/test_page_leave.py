"""What stays in the browser when somebody leaves: notebooks in IndexedDB, the last keystrokes, drafts."""

import json

import pytest

from page_kit import cell, editor, expect, run_cell, visit, world  # noqa: F401 isort:skip
from mark_kit import PASSWORD
from stage import Stage, scripted_model

UNSAVED = "glovebox.play.unsaved"

# [owner, text of the first cell] of each notebook that this browser has.
STORED = """() => new Promise((done, fail) => {
    const request = indexedDB.open("glovebox.play", 1);
    request.onupgradeneeded = () => request.result.createObjectStore("notebooks", { keyPath: "id" });
    request.onerror = () => fail(request.error);
    request.onsuccess = () => {
        const all = request.result.transaction("notebooks").objectStore("notebooks").getAll();
        all.onsuccess = () => { request.result.close(); done(all.result.map((one) => [one.owner, one.cells[0].source])); };
    };
})"""


@pytest.fixture(scope="module")
def stage(world):  # noqa: F811
    return Stage(world.serve(*scripted_model(world.folder / "model")))


def wait_for_stored(page, want):
    page.wait_for_function(f"(want) => ({STORED})().then((is) => JSON.stringify(is.sort()) === want)",
                           arg=json.dumps(sorted(map(list, want)), separators=(",", ":"), ensure_ascii=False))


def sign_out(page):
    page.get_by_role("button", name="Account", exact=True).click()
    page.get_by_role("menuitem", name="Sign out").click()
    expect(page.get_by_role("button", name="Account", exact=True)).to_have_count(0)


def sign_in(page, person):
    page.get_by_label("E-mail address").fill(person.account["email"])
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in", exact=True).click()
    expect(page.get_by_role("button", name="Account", exact=True)).to_be_visible()


def go(page, name):
    """Within the page: a reload would forget what is wrong in its memory."""
    page.get_by_role("navigation").get_by_role("link", name=name).first.click()


def test_the_next_person(stage, visit):  # noqa: F811
    ann, bob = stage.ann, stage.bob
    page = visit.signed_in(stage.server, ann)
    page.get_by_role("textbox", name="Question").fill("a draft of ann's")
    go(page, "Playground")
    run_cell(page, 1, "print('of ann')")
    wait_for_stored(page, [(ann.account["user_id"], "print('of ann')")])
    # The last keystrokes are not stored yet when she leaves, or are under way.
    editor(page, 1)
    page.keyboard.press("Control+a")
    page.keyboard.insert_text("secret = 4711")
    sign_out(page)
    sign_in(page, bob)
    expect(page.get_by_role("textbox", name="Question")).to_have_value("")
    go(page, "Playground")
    run_cell(page, 1, "print('of bob')")
    expect(cell(page, 1)).to_contain_text("of bob")
    want = [(ann.account["user_id"], "secret = 4711"), (bob.account["user_id"], "print('of bob')")]
    wait_for_stored(page, want)
    # What a page that was closed left behind goes to where its owner's notebooks are.
    page.evaluate("""([key, owner]) => localStorage.setItem(key, JSON.stringify({ id: "left", owner, title: "left", updated: 1, revision: 0,
        session: null, metadata: {}, running: {}, whole: true, cells: [{ id: "c", kind: "code", source: "left = 1", outputs: [], metadata: {} }] }))""",
                  [UNSAVED, bob.account["user_id"]])
    sign_out(page)
    wait_for_stored(page, [*want, (bob.account["user_id"], "left = 1")])
    assert page.evaluate("(key) => localStorage.getItem(key)", UNSAVED) is None


def test_a_guest_leaves_nothing(stage, visit):  # noqa: F811
    page = visit(stage.server)[1]
    page.get_by_role("button", name="Look around with the demo").click()
    expect(page.get_by_role("button", name="Account", exact=True)).to_be_visible()
    go(page, "Playground")
    run_cell(page, 1, "print('of a guest')")
    page.wait_for_function(f"() => ({STORED})().then((is) => is.length === 1)")
    editor(page, 1)
    page.keyboard.insert_text("# more")
    sign_out(page)
    wait_for_stored(page, [])
    # Nor does it come back with the next view.
    sign_in(page, stage.ann)
    go(page, "Playground")
    run_cell(page, 1, "print('of ann')")
    wait_for_stored(page, [(stage.ann.account["user_id"], "print('of ann')")])


def test_a_deleted_account_leaves_nothing(stage, visit):  # noqa: F811
    page = visit.signed_in(stage.server, stage.bob, "/play")
    run_cell(page, 1, "print('of bob')")
    wait_for_stored(page, [(stage.bob.account["user_id"], "print('of bob')")])
    # Somebody else's stay.
    page.evaluate("""() => new Promise((done) => { const request = indexedDB.open("glovebox.play", 1); request.onsuccess = () => {
        const change = request.result.transaction("notebooks", "readwrite");
        change.objectStore("notebooks").put({ id: "other", owner: "another", title: "", updated: 1, revision: 1, session: null, metadata: {}, running: {}, cells: [{ source: "kept" }] });
        change.oncomplete = () => { request.result.close(); done(); };
    }; })""")
    page.get_by_role("button", name="Account", exact=True).click()
    page.get_by_role("menuitem", name=stage.bob.account["email"]).click()
    page.get_by_role("button", name="Delete my account").click()
    dialog = page.get_by_role("dialog", name="Delete the account")
    dialog.get_by_label("Your password").fill(PASSWORD)
    dialog.get_by_role("button", name="Delete everything").click()
    expect(page.get_by_role("button", name="Account", exact=True)).to_have_count(0)
    wait_for_stored(page, [("another", "kept")])
