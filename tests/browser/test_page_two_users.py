"""Two people who try each other's addresses: pages, and every request that the other's browser made."""

import json
import re
import urllib.parse

import pytest

from page_kit import cell, expect, push, run_cell, terminal, visit, world  # noqa: F401 isort:skip
from mark_kit import answer, run
from stage import Stage, scripted_model

SECRET = "zebra-4711"  # in everything that ann has, and in nothing else
REPLIES = [{"asked": "my secret", **run(f"import mark\nprint('{SECRET}')\nmark.value('x', 7)\nopen('{SECRET}.txt', 'w').write('{SECRET}')")},
           {"asked": "my secret", **answer(f"It is {SECRET}: {{{{x}}}}.")}]

# A request as bob's page makes it, with his token.
FETCH = """async ([method, path]) => {
  const tokens = JSON.parse(localStorage.getItem("glovebox.identity")).tokens;
  const reply = await fetch(path, { method, headers: { Authorization: `Bearer ${tokens.access_token}` }, cache: "no-store", signal: AbortSignal.timeout(5000) });
  let text = "";
  try { text = await reply.text(); } catch {}
  return [reply.status, text];
}"""

SOCKET = """(path) => new Promise((done) => {
  const tokens = JSON.parse(localStorage.getItem("glovebox.identity")).tokens;
  const socket = new WebSocket(path.replace(/^http/, "ws"), ["glovebox.v1", `glovebox.bearer.${tokens.access_token}`]);
  socket.onopen = () => { socket.close(); done("opened"); };
  socket.onerror = () => done("refused");
})"""


@pytest.fixture(scope="module")
def stage(world):  # noqa: F811
    return Stage(world.serve(*scripted_model(world.folder / "model", REPLIES)))


def test_each_others_addresses(stage, visit):  # noqa: F811
    # Ann (not the one who tries to look: an operator may see more) is bob here; ann is the operator.
    server = stage.server
    owner, page = visit(server, "/", stage.bob)
    methods = []
    owner.context.on("request", lambda request: methods.append((request.method, request.url)))
    page.get_by_label("Files to attach").set_input_files({"name": f"{SECRET}.csv", "mimeType": "text/csv", "buffer": f"{SECRET}\n1\n".encode()})
    expect(page.get_by_role("list", name="Files for the next question")).to_contain_text("1 row")
    box = page.get_by_role("textbox", name="Question")
    box.fill(f"What is my secret {SECRET}?")
    box.press("Enter")
    expect(page.get_by_role("article", name="Answer")).to_contain_text(f"It is {SECRET}")
    push(page.get_by_role("button", name="More about this answer"))
    push(page.get_by_role("menuitem", name="What the model saw"))
    expect(page.get_by_role("dialog")).to_contain_text("Call 1")
    page.wait_for_url("**/chat/*")
    chat = page.url
    play = owner.page("/play")
    run_cell(play, 1, f"secret = '{SECRET}'\nopen('{SECRET}', 'w').write(secret)\nprint(secret)")
    for name in ("Variables", "Files", "Terminal"):
        play.get_by_role("group", name="Panels").get_by_role("button", name=name).click()
    frame, text = terminal(play)
    frame.locator(".xterm").click()
    play.keyboard.type(f"cat {SECRET}\n")
    expect(text).to_contain_text(SECRET)
    play.wait_for_url("**session=*")

    # All of it, by somebody else: nothing is there, and nothing changes.
    for person in (stage.ann, None):
        _, other = visit(server, "/settings", person)
        for address in (chat, play.url):
            other.goto(address)
            expect(other.locator("main")).not_to_be_empty()
            other.wait_for_load_state("networkidle")
            assert SECRET not in other.locator("body").inner_text()
            assert SECRET not in other.title()
    _, other = visit(server, "/settings", stage.ann)
    expect(other.get_by_role("heading", name="Settings")).to_be_visible()
    tried = 0
    for method, url in dict.fromkeys(methods):
        path = urllib.parse.urlsplit(url)
        if not path.path.startswith(("/api/", "/v1/", "/auth/")) or path.path in ("/auth/refresh", "/auth/signout", "/auth/me"):
            continue
        if url.startswith("http") and path.path.endswith("/stream"):
            continue
        status, reply = other.evaluate(FETCH, [method, path.path + (f"?{path.query}" if path.query else "")])
        assert SECRET not in reply, (method, url, reply[:300])
        if re.search(r"[0-9a-f]{16}", path.path):
            assert status in (404, 403, 405, 415, 422, 400), (method, url, status)
            tried += 1
    assert tried >= 5, methods
    sockets = [url for url in owner.requests if "/terminals/" in url and "/stream" in url]
    assert sockets
    for url in sockets:
        assert other.evaluate(SOCKET, url) == "refused"
    # And the owner still has all of it.
    page.goto(chat)
    expect(page.get_by_role("article", name="Answer")).to_contain_text(SECRET)
    expect(cell(play, 1)).to_contain_text(SECRET)


def test_signing_out_leaves_nothing(stage, visit):  # noqa: F811
    """The next person at the same browser sees nothing of the one before."""
    visitor, page = visit(stage.server, "/", stage.bob)
    stage.bob.ask_mark(f"What is my secret {SECRET}?")
    page.reload()
    expect(page.get_by_role("navigation", name="Chats")).to_contain_text(SECRET)
    page.get_by_role("button", name="Account").click()
    page.get_by_role("menuitem", name="Sign out").click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    assert SECRET not in page.locator("body").inner_text()
    page.get_by_label("E-mail address").fill("ann@example.com")
    page.get_by_label("Password").fill("correct horse battery staple")
    page.get_by_role("button", name="Sign in", exact=True).click()
    expect(page.get_by_role("heading", name="What do you want to know?")).to_be_visible()
    assert SECRET not in page.locator("body").inner_text()
    assert SECRET not in json.dumps(page.evaluate("Object.entries(localStorage)"))
