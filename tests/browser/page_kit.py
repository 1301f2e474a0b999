"""
The page in a browser: what all tests of tests/browser share.

`world` lives as long as its module: it starts services and one Chromium, and whatever these leave behind is looked for
when they have ended. `world.visitor(server)` is a browser of its own (a context: storage, cookies, cache) of somebody
who visits that server; the fixture `visit` does the same for one test and then calls `check()`, which fails if, in any
page of it, a request left the server, a script failed, a dialog opened or the content security policy had to
stop something in the shell.

Selectors are roles and accessible names wherever possible: what a screen reader cannot find, these tests cannot either.
"""

import contextlib
import glob
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import urllib.parse

import pytest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "system")]

from conftest import ROOT, SLOW, Glovebox, descendants, leaves_nothing, need, process_table  # noqa: E402
from mark_kit import PASSWORD  # noqa: E402
from serve_kit import start_server, stop_servers  # noqa: E402

PATIENCE = 60_000 * SLOW  # ms; only ends what hangs
PHONE = {"viewport": {"width": 360, "height": 740}, "has_touch": True, "is_mobile": True}


def kit_directory():
    """Where tools/browser_kit.sh has installed Playwright and axe."""
    return os.environ.get("GB_BROWSER_KIT") or subprocess.run(
        [os.path.join(ROOT, "tools", "browser_kit.sh"), "--where"], stdout=subprocess.PIPE, text=True,
        check=True).stdout.strip()


KIT = kit_directory()
sys.path += glob.glob(f"{KIT}/venv/lib/python3*/site-packages")
try:
    from playwright.sync_api import Error, expect, sync_playwright
    expect.set_options(timeout=PATIENCE)
except ImportError:  # the fixture world says what is missing
    Error = expect = sync_playwright = None
AXE = pathlib.Path(KIT, "axe/node_modules/axe-core/axe.min.js")


def chromium():
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)


# Nothing but our pages: no updates, no field trials, no first run, no QUIC. Software rendering; shared memory in /tmp.
FLAGS = ["--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--disable-extensions",
         "--disable-breakpad", "--font-render-hinting=none"]


# Runs in every document before its scripts do. `__report` is ours; a frame may call it with nonsense. What Chromium itself
# does to the text of an editor when a selection is replaced (it makes a style attribute) is nobody's attack.
WATCH = """
addEventListener("securitypolicyviolation", (event) => {
  const editing = event.effectiveDirective === "style-src-attr" && event.composedPath().some((one) => one.classList?.contains("cm-content"));
  if (!editing) __report("policy", self === top ? "shell" : "frame", `${event.effectiveDirective} ${event.blockedURI} ${event.sourceFile ?? ""} ${event.sample ?? ""}`);
});
"""


class Visitor:
    """A browser of somebody, with what it saw: requests, dialogs, failures of scripts, violations of policies."""

    def __init__(self, browser, server, **options):
        self.server, self.url = server, f"http://127.0.0.1:{server.port}"
        self.requests, self.blocked, self.dialogs, self.errors, self.violations = [], [], [], [], []
        self.console = []
        options = {"viewport": {"width": 1280, "height": 800}, "locale": "en-GB", "timezone_id": "UTC",
                   "reduced_motion": "reduce", "color_scheme": "light", "accept_downloads": True, **options}
        self.context = browser.new_context(base_url=self.url, **options)
        self.context.set_default_timeout(PATIENCE)
        self.context.set_default_navigation_timeout(PATIENCE)
        self.context.expose_binding("__report", self._report)
        self.context.add_init_script(WATCH)
        self.context.on("request", lambda request: self.requests.append(request.url))
        self.context.on("requestfailed", self._failed)
        self.context.on("page", self._page)
        self.context.on("console", lambda message: self.console.append((message.type, message.text)))
        self.context.on("weberror", lambda error: self.errors.append(str(error.error)))

    def _report(self, source, *words):
        if words and words[0] == "policy":
            self.violations.append((words[1], words[2]) if len(words) == 3 else ("frame", "nonsense"))

    def _failed(self, request):
        if "csp" in (request.failure or "").lower():
            self.blocked.append(request.url)

    def _page(self, page):
        page.on("dialog", self._dialog)
        page.on("websocket", lambda socket: self.requests.append(socket.url.replace("ws", "http", 1)))

    def _dialog(self, dialog):
        self.dialogs.append(dialog.message)
        dialog.dismiss()

    def page(self, path="/"):
        page = self.context.new_page()
        page.goto(path)
        return page

    def left(self):
        """Requests that were sent to somebody else."""
        ours = urllib.parse.urlsplit(self.url).netloc
        return [url for url in self.requests
                if urllib.parse.urlsplit(url).scheme not in ("data", "blob", "about")
                and urllib.parse.urlsplit(url).netloc != ours and url not in self.blocked]

    def check(self):
        assert not self.left(), self.left()
        assert not [url for url in self.requests if "pwned" in url and url not in self.blocked]
        assert not self.dialogs, self.dialogs
        assert not self.errors, self.errors
        # The sanitizer parses in a document that is not shown, where the policy stops handlers and styles as well.
        assert not [what for where, what in self.violations if where == "shell" and "/assets/markdown-" not in what], self.violations

    def close(self):
        self.context.close()


class World:
    def __init__(self, gb, folder, playwright):
        self.gb, self.folder, self.playwright = gb, folder, playwright
        self.servers, self.browser, self.visitors = [], None, []

    def serve(self, *options, **how):
        self.servers.append(start_server(self.gb, self.folder, len(self.servers), *options, **how))
        return self.servers[-1]

    def restart(self, server, *options, sig=signal.SIGTERM):
        """The same service again, on the same port and data."""
        server.stop(sig)
        server.port_file.unlink(missing_ok=True)
        new = start_server(self.gb, self.folder, len(self.servers), *options, data=server.data, port=server.port)
        self.servers.append(new)
        return new

    def kill_browser(self):
        """For a page that hangs: what waits for it fails then."""
        table = process_table()
        for pid in descendants(os.getpid(), table):
            if table[pid][2].startswith("chromium"):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def start_browser(self):
        if self.browser is None or not self.browser.is_connected():
            home = self.folder / "browser"
            home.mkdir(exist_ok=True)
            flags = FLAGS + (["--no-sandbox"] if os.geteuid() == 0 else [])
            environment = {**os.environ, "HOME": str(home), "TMPDIR": str(home), "XDG_CONFIG_HOME": str(home),
                           "XDG_CACHE_HOME": str(home)}
            self.browser = self.playwright.chromium.launch(
                executable_path=chromium(), args=flags, chromium_sandbox=os.geteuid() != 0, env=environment)
        return self.browser

    def visitor(self, server, **options):
        self.visitors.append(Visitor(self.start_browser(), server, **options))
        return self.visitors[-1]

    def close(self):
        for visitor in self.visitors:
            with contextlib.suppress(Exception):
                visitor.close()
        if self.browser:
            self.browser.close()
        stop_servers(self.servers)


@contextlib.contextmanager
def new_world():
    home = tempfile.mkdtemp(prefix="gbtest-home-")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="gbtest-page-"))
    before = os.environ.get("TMPDIR")
    gb = Glovebox(home)
    try:
        with leaves_nothing(home):
            os.environ["TMPDIR"] = str(folder)  # of Playwright's own process
            with sync_playwright() as playwright:
                made = World(gb, folder, playwright)
                try:
                    yield made
                finally:
                    made.close()
                    gb.close()
    finally:
        os.environ.pop("TMPDIR")
        if before is not None:
            os.environ["TMPDIR"] = before
        shutil.rmtree(home, ignore_errors=True)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def world():
    need(chromium(), "no Chromium (Debian: chromium)")
    need(sync_playwright and AXE.exists(), f"no kit: run tools/browser_kit.sh {KIT}")
    with new_world() as made:
        yield made


class Visit:
    """visit(server, path="/", **context options) -> (visitor, page); visit.signed_in(server, person, path) -> page"""

    def __init__(self, world):
        self.world, self.visitors = world, []

    def __call__(self, server, path="/", person=None, **options):
        visitor = self.world.visitor(server, **options)
        self.visitors.append(visitor)
        if person:
            signed_in(visitor, person)
        return visitor, visitor.page(path)

    def signed_in(self, server, person, path="/", **options):
        return self(server, path, person, **options)[1]


@pytest.fixture
def visit(world):
    """Browsers of one test, checked at its end."""
    made = Visit(world)
    watchdog = threading.Timer(5 * PATIENCE / 1000, world.kill_browser)  # not every call of Playwright has a limit
    watchdog.start()
    yield made
    watchdog.cancel()
    watchdog.join()
    for visitor in made.visitors:
        visitor.close()
        world.visitors.remove(visitor)
    for visitor in made.visitors:
        visitor.check()


# ---- what people do ----


def push(button):
    """By the keyboard. Right after a page has scrolled, Chromium may still give a click to the frame that was there."""
    button.press("Enter")


def saved(page, click):
    """What the browser saved after @click(): (name, bytes)"""
    with page.expect_download() as waiting:
        click()
    return waiting.value.suggested_filename, pathlib.Path(waiting.value.path()).read_bytes()


def sign_up(page, email="ann@example.com", password=PASSWORD):
    page.get_by_label("E-mail address").fill(email)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Create the operator's account").or_(
        page.get_by_role("button", name="Create account")).click()


def signed_in(visitor, person):
    """Puts the tokens of a Person of mark_kit into the browser, as if it had signed in."""
    account = person.account
    user = {"user_id": account["user_id"], "email": account["email"], "name": account.get("name"),
            "role": account.get("role", "user")}
    tokens = {"access_token": account["access_token"], "refresh_token": account["refresh_token"],
              "expires": 4102444800000, "user": user}
    script = (f"if (location.origin === {json.dumps(visitor.url)} && !localStorage.getItem('glovebox.test')) {{"
              "localStorage.setItem('glovebox.test', '1');"
              f"localStorage.setItem('glovebox.identity', JSON.stringify({json.dumps({'tokens': tokens})})); }}")
    visitor.context.add_init_script(f"try {{ {script} }} catch {{}}")
    return visitor


# ---- the playground ----


def cell(page, n):
    return page.get_by_role("region", name=re.compile(rf"^(Code|Markdown|Plain) cell {n}$"))


def editor(page, n):
    """The text box of the n-th cell, which is there or comes next."""
    one = cell(page, n)
    cell(page, max(1, n - 1)).wait_for()
    if one.count() == 0:
        push(page.locator(".add-cells").get_by_role("button", name="Code"))
    box = one.get_by_role("textbox")
    box.focus()
    return box


def run_cell(page, n, code, wait=True):
    """Writes the n-th cell and runs it; what came out, when it has ended."""
    box, one = editor(page, n), cell(page, n)
    page.keyboard.press("Control+a")
    page.keyboard.insert_text(code)
    box.press("Control+Enter")
    if wait:
        expect(one.get_by_label("Receipt")).to_be_visible()
        expect(one).to_have_attribute("aria-busy", "false")
    return one.get_by_role("group", name=f"Output of cell {n}")


def panel(page, name):
    page.get_by_role("group", name="Panels").get_by_role("button", name=name).click()
    return page.get_by_role("complementary", name=name)


def terminal(page):
    """The terminal that is shown: its frame, and what it has on its screen."""
    frame = page.frame_locator("iframe[title='Terminal in the box']:visible")
    rows = frame.locator(".xterm-rows")
    expect(rows).to_contain_text(re.compile(r"[$#>]"))
    return frame, rows


def screen_text(rows):
    """The lines of a terminal; its spaces are not always plain ones."""
    return "\n".join(line.replace("\xa0", " ").rstrip() for line in rows.locator("> div").all_inner_texts())
