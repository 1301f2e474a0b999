"""The shell and its frames, below every view: policies, sandboxes, what a frame can reach."""

import pytest

from page_kit import visit, world  # noqa: F401

FRAMES = ("html", "live", "chart", "pdf", "terminal")

# What a script in a frame could want. Each line must throw or give nothing.
REACHES = """() => {
  const tries = {
    parent: () => parent.document.title,
    top: () => top.localStorage.length,
    storage: () => localStorage.length,
    cookie: () => document.cookie,
    popup: () => { const w = window.open("/"); if (w) return "opened"; throw new Error("no window"); },
    navigate: () => { top.location.href = "/pwned"; },
  };
  const found = {};
  for (const [name, attempt] of Object.entries(tries)) {
    try { found[name] = String(attempt()); } catch (error) { found[name] = "refused"; }
  }
  found.origin = self.origin;
  return found;
}"""


@pytest.fixture(scope="module")
def server(world):  # noqa: F811
    return world.serve()


def add_frame(page, name):
    """A frame as the shell makes them; the Frame of Playwright."""
    page.evaluate("""(name) => new Promise((ready) => {
        const frame = document.createElement("iframe");
        frame.sandbox = "allow-scripts";
        frame.title = name;
        addEventListener("message", (event) => event.data?.type === "ready" && event.source === frame.contentWindow && ready());
        frame.src = `/frames/${name}`;
        document.body.append(frame);
    })""", name)
    return next(frame for frame in page.frames if frame.url.endswith(f"/frames/{name}"))


@pytest.mark.parametrize("name", FRAMES)
def test_frame_reaches_nothing(server, visit, name):  # noqa: F811
    visitor, page = visit(server)
    frame = add_frame(page, name)
    found = frame.evaluate(REACHES)
    assert found.pop("origin") == "null"
    assert set(found.values()) == {"refused"}, found
    # No network either, not even to us.
    sent = frame.evaluate("""async () => {
        const tried = [];
        for (const url of ["/health", "http://127.0.0.1:9/", "https://example.com/pwned"]) {
            try { await fetch(url); tried.push(url); } catch {}
            try { await new Promise((ok, no) => { const s = new WebSocket(new URL(url, "ws://127.0.0.1:9")); s.onopen = ok; s.onerror = no; }); tried.push("ws " + url); } catch {}
            const image = new Image(); image.src = url; await new Promise((done) => { image.onload = () => { tried.push("img " + url); done(); }; image.onerror = done; });
        }
        return tried;
    }""")
    assert sent == []
    visitor.requests = [url for url in visitor.requests if url.startswith(visitor.url)]  # judged above


def test_policies(server):
    """No policy allows inline scripts or eval, but for the frame that is there to run them."""
    for path in ("/", "/play", "/admin", "/settings", "/docs", *(f"/frames/{name}" for name in FRAMES)):
        reply = server.ask("GET", path, Accept="text/html")
        policy = {words.split()[0]: words.split()[1:] for words in reply.headers["Content-Security-Policy"].split(";")}
        assert policy["default-src"] == ["'none'"], path
        scripts = set(policy["script-src"])
        assert not {"*", "http:", "https:"} & scripts, path
        if path != "/frames/live":
            assert not {"'unsafe-inline'", "'unsafe-eval'", "data:", "blob:"} & scripts, path
        if path.startswith("/frames/"):
            assert policy["sandbox"] == ["allow-scripts"] and "connect-src" not in policy, path
        else:
            assert "'unsafe-inline'" not in policy["style-src"], path
        assert policy["base-uri"] == ["'none'"] and policy["form-action"] == ["'none'"], path
        assert reply.headers["X-Content-Type-Options"] == "nosniff", path


def test_without_script(server, visit):  # noqa: F811
    """Without JavaScript the shell says so and leads to what can be read without it."""
    _, page = visit(server, java_script_enabled=False)
    page.get_by_role("link", name="description of the API").click()
    assert page.url.endswith("/docs")
