"""The dashboard: every view has something to show, keys and users can be managed, sessions ended; and nobody else gets in."""

import re
import sqlite3

import pytest

from page_kit import expect, visit, world  # noqa: F401 isort:skip
from screens import ADMIN_VIEWS
from serve_kit import Server
from stage import Stage, scripted_model


@pytest.fixture(scope="module")
def stage(world):  # noqa: F811
    stage = Stage(world.serve(*scripted_model(world.folder / "model")))
    stage.session = stage.bob.session()
    stage.bob.run(stage.session, "print(1)")
    stage.bob.run(stage.session, "1 / 0")
    assert stage.bob.run(stage.session, "while True: pass", timeout=1)["status"] == "timeout"
    stage.ann.ask_mark("hello")
    return stage


@pytest.mark.parametrize("view", ADMIN_VIEWS)
def test_view(stage, visit, view):  # noqa: F811
    page = visit.signed_in(stage.server, stage.ann, f"/admin/{view}" if view else "/admin")
    expect(page.get_by_role("navigation", name="Dashboard").locator("[aria-current=page]")).to_be_visible()
    expect(page.locator("main .spinner")).to_have_count(0)
    expect(page.locator("main .note.bad")).to_have_count(0)
    expect(page.get_by_role("heading", level=1)).not_to_have_text("Not found")


@pytest.mark.parametrize("view", ADMIN_VIEWS)
def test_fits_small_screens(stage, visit, view):  # noqa: F811
    page = visit.signed_in(stage.server, stage.ann, f"/admin/{view}" if view else "/admin", viewport={"width": 360, "height": 740})
    expect(page.locator("main .spinner")).to_have_count(0)
    for width in (360, 768, 1024):
        page.set_viewport_size({"width": width, "height": 740})
        assert page.evaluate("document.documentElement.scrollWidth") == width


def test_overview(stage, visit):  # noqa: F811
    """Why things were stopped, and plots with values in them."""
    page = visit.signed_in(stage.server, stage.ann, "/admin")
    stopped = page.locator("section.card").filter(has=page.get_by_role("heading", name="Why things were stopped"))
    expect(stopped).to_contain_text(re.compile(r"(Wall|CPU) time"))
    ended = page.locator("section.card").filter(has=page.get_by_role("heading", name="How executions ended"))
    expect(ended).to_contain_text("Hit the time limit")
    expect(ended).to_contain_text("Error of the program")
    for title in ("Executions", "How long they took", "Sessions and executions", "Memory"):
        expect(page.get_by_role("img", name=re.compile(rf"^{title} from \d\d:\d\d to .*highest "))).to_be_visible()
    sessions = page.get_by_role("img", name=re.compile("^Sessions and executions"))
    expect(sessions).to_have_attribute("aria-label", re.compile(r"sessions: last [1-9]"))
    expect(sessions.locator("svg .line, svg .dot").first).to_be_attached()
    expect(page.locator("a.tile").filter(has_text="Audit log")).to_contain_text("intact")


def test_sessions_appear(stage, visit):  # noqa: F811
    page = visit.signed_in(stage.server, stage.ann, "/admin/sessions")
    expect(page.get_by_role("button", name=f"End session {stage.session}")).to_be_visible()
    session = stage.bob.session()
    row = page.get_by_role("table", name="Sessions").get_by_role("row").filter(has=page.get_by_role("button", name=f"End session {session}"))
    expect(row).to_contain_text("bob@example.com")
    stage.bob.good("DELETE", f"/v1/sessions/{session}", status=204)
    expect(row).to_have_count(0)


def test_use_of_a_key(stage, visit):  # noqa: F811
    page = visit.signed_in(stage.server, stage.ann, "/admin/keys")
    made = stage.ann.good("POST", "/admin/v1/keys", {"name": "counter", "sessions": 3, "executions": 2, "rate_per_minute": 50}, 201)
    robot = Server(stage.server.process, stage.server.port, stage.server.data, made["token"])
    session = robot.session()
    row = page.get_by_role("table", name="API keys").get_by_role("row").filter(has_text="counter")
    expect(row.locator("[data-label=Sessions]")).to_have_text("1 of 3")
    expect(row.locator("[data-label=Executions]")).to_have_text("0 of 2")
    expect(row.locator("[data-label='Per minute']")).to_have_text("50")
    expect(row.locator("[data-label='Last used']")).not_to_have_text("never")
    robot.good("DELETE", f"/v1/sessions/{session}", status=204)
    expect(row.locator("[data-label=Sessions]")).to_have_text("0 of 3")


def test_packages(stage, visit):  # noqa: F811
    page = visit.signed_in(stage.server, stage.ann, "/admin/packages")
    templates = stage.ann.good("GET", "/admin/v1/templates")["templates"]
    assert templates
    for one in templates:
        card = page.locator("section.card").filter(has=page.get_by_role("heading", level=3, name=re.compile("^" + re.escape(one["name"]))))
        expect(card).to_contain_text(one["kind"])
        expect(card).to_contain_text(re.compile(rf"{len(one['packages'])} packages?"))
    expect(page.get_by_role("heading", level=3).filter(has_text="default").first).to_be_visible()


def test_models(stage, visit):  # noqa: F811
    page = visit.signed_in(stage.server, stage.ann, "/admin/models")
    row = page.get_by_role("table", name="Models").get_by_role("row").filter(has_text="script")
    calls = row.locator("[data-label=Calls]")
    expect(calls).to_have_text(re.compile("^[1-9]"))
    before = int(calls.inner_text())
    stage.ann.ask_mark("hello")
    expect(calls).to_have_text(str(before + 1))  # without a reload
    expect(row.locator("[data-label=Failed]")).to_have_text("0")


def test_keys(stage, visit):  # noqa: F811
    page = visit.signed_in(stage.server, stage.ann, "/admin/keys")
    page.get_by_role("button", name="New key").click()
    dialog = page.get_by_role("dialog", name="New API key")
    dialog.get_by_label("Name").fill("a <b>robot</b>")
    dialog.get_by_label("Sessions at one time").fill("3")
    dialog.get_by_role("button", name="Create the key").click()
    shown = page.get_by_role("dialog", name="The new key")
    expect(shown).to_be_visible()
    token = re.search(r"gbx?_[A-Za-z0-9_]+", shown.inner_text() + " ".join(
        one.input_value() for one in shown.locator("input, textarea").all())).group()
    robot = Server(stage.server.process, stage.server.port, stage.server.data, token)
    robot.good("GET", "/v1/sessions")
    page.keyboard.press("Escape")
    row = page.get_by_role("table", name="API keys").get_by_role("row").filter(has_text="a <b>robot</b>")
    row.get_by_role("button", name=re.compile("Revoke")).click()
    page.get_by_role("dialog").get_by_role("button", name="Revoke the key").click()
    expect(row).to_have_count(0)
    assert robot.ask("GET", "/v1/sessions").status == 401
    page.get_by_label("Show revoked keys").check()
    expect(row).to_contain_text("revoked")
    row.get_by_role("link", name=re.compile("in the audit log")).click()
    expect(page.get_by_label("Who", exact=True)).to_have_value(re.compile("^[0-9a-f]{12}$"))


def test_a_guest_is_no_colleague(stage, visit):  # noqa: F811
    """Its quotas are smaller; it has no password, and cannot become an operator."""
    stage.server.good("POST", "/auth/guest", {}, 201)
    page = visit.signed_in(stage.server, stage.ann, "/admin/users")
    row = page.get_by_role("table", name="Accounts").get_by_role("row").filter(has_text="guest.invalid")
    expect(row.locator("[data-label=Sessions]")).to_have_text("0 of 4")
    expect(row.locator("[data-label=Running]")).to_have_text("0 of 2")
    row.get_by_role("button", name=re.compile("^Manage")).click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("button", name="Delete the account")).to_be_visible()
    expect(dialog.get_by_role("button", name="New password")).to_have_count(0)
    expect(dialog.get_by_role("button", name="Make operator")).to_have_count(0)


def test_invite_and_manage(stage, visit):  # noqa: F811
    page = visit.signed_in(stage.server, stage.ann, "/admin/users")
    accounts = page.get_by_role("table", name="Accounts")
    expect(accounts).to_contain_text("bob@example.com")
    page.get_by_role("button", name="Invite somebody").click()
    dialog = page.get_by_role("dialog", name="Invitation")
    expect(dialog).to_be_visible()
    page.keyboard.press("Escape")
    stage.ann.good("POST", "/auth/signup", {"email": "eve@example.com", "password": "a long pass phrase"}, 201)
    page.get_by_role("searchbox").fill("eve")
    expect(accounts.get_by_role("row")).to_have_count(2)
    accounts.get_by_role("button", name="Manage eve@example.com").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete the account").click()
    page.get_by_role("dialog", name="Delete this account?").get_by_role("button", name="Delete everything").click()
    expect(page.get_by_text("Nobody matches.")).to_be_visible()


def test_end_a_session(stage, visit):  # noqa: F811
    session = stage.bob.session()
    page = visit.signed_in(stage.server, stage.ann, "/admin/sessions")
    page.get_by_role("button", name=f"End session {session}").click()
    page.get_by_role("dialog").get_by_role("button", name="End the session").click()
    expect(page.get_by_role("button", name=f"End session {session}")).to_have_count(0)
    assert stage.bob.ask("GET", f"/v1/sessions/{session}").status in (404, 410)


def test_audit(stage, visit):  # noqa: F811
    page = visit.signed_in(stage.server, stage.ann, "/admin/audit")
    entries = page.get_by_role("table", name="Entries of the audit log")
    expect(entries.get_by_role("row").nth(1)).to_be_visible()
    page.get_by_label("Session", exact=True).fill(stage.session)
    page.get_by_role("button", name="Search", exact=True).click()
    expect(entries).to_contain_text(stage.session[:8])
    expect(page.get_by_role("heading", name="Chain intact")).to_be_visible()
    expect(page.get_by_text("no entry was changed, removed or added")).to_be_visible()


def test_audit_of_a_terminal(stage, visit):  # noqa: F811
    path = f"/v1/sessions/{stage.session}/terminals"
    made = stage.bob.good("POST", path, {}, 201)
    stage.bob.good("DELETE", f"{path}/{made['terminal_id']}", status=204)
    page = visit.signed_in(stage.server, stage.ann, "/admin/audit")
    entries = page.get_by_role("table", name="Entries of the audit log")
    for kind in ("terminal", "terminal_end"):
        page.get_by_label("Kind").select_option(kind)
        page.get_by_role("button", name="Search", exact=True).click()
        expect(entries.locator("[data-label=What]").first).to_contain_text(re.compile(rf"^{kind} in"))
        expect(entries.get_by_role("row")).to_have_count(2)


def test_somebody_changed_the_log(stage, visit):  # noqa: F811
    """The chain that was intact is found to be broken when it is checked from the start, and the overview says so."""
    page = visit.signed_in(stage.server, stage.ann, "/admin/audit")
    expect(page.get_by_role("heading", name="Chain intact")).to_be_visible()
    db = sqlite3.connect(stage.server.data / "glovebox.db", timeout=30)
    sql = db.execute("SELECT sql FROM sqlite_master WHERE name = 'audit_log_no_update'").fetchone()[0]
    db.execute("DROP TRIGGER audit_log_no_update")

    def change(old, new):
        db.execute("UPDATE audit_log SET fields = replace(fields, ?, ?) WHERE seq = 2", (old, new))
        db.commit()

    try:
        change('"kind"', '"Kind"')
        page.get_by_role("button", name="Check from the start").click()
        expect(page.get_by_role("heading", name="Chain broken")).to_be_visible()
        expect(page.get_by_text(re.compile("The chain is broken. Entry 2: "))).to_be_visible()
        page.get_by_role("navigation", name="Dashboard").get_by_role("link", name="Overview").click()
        expect(page.locator("a.tile").filter(has_text="Audit log")).to_contain_text("broken")
    finally:
        change('"Kind"', '"kind"')
        db.execute(sql)
        db.commit()
        db.close()
    page.get_by_role("navigation", name="Dashboard").get_by_role("link", name="Audit log").click()
    page.get_by_role("button", name="Check from the start").click()
    expect(page.get_by_role("heading", name="Chain intact")).to_be_visible()


@pytest.mark.parametrize("who", ["bob", None])
def test_closed_to_others(stage, visit, who):  # noqa: F811
    for view in ADMIN_VIEWS:
        visitor, page = visit(stage.server, f"/admin/{view}" if view else "/admin", getattr(stage, who) if who else None)
        expect(page.get_by_role("heading", name="The dashboard is for operators" if who else "Sign in")).to_be_visible()
        assert not [url for url in visitor.requests if "/admin/v1" in url]
