"""The web page as HTTP sees it: its shell, its files, its frames, and their policies."""

import gzip
import html
import re

import pytest

from serve_kit import serve, server  # noqa: F401

SHELL = ["/", "/chat/0", "/sources", "/sources/0", "/settings", "/play", "/shared/0", "/admin", "/admin/users"]
SHELL_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "font-src 'self'; connect-src 'self'; frame-src 'self'; manifest-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; "
    "trusted-types dompurify")
FRAMES = ["html", "live", "chart", "pdf", "terminal"]


def look(server, path, method="GET", **headers):
    return server.ask(method, path, Accept="text/html,application/xhtml+xml,*/*;q=0.8", **headers)


def assets(server, path="/"):
    """The files that a document loads itself."""
    return re.findall(r'(?:src|href)="(/assets/[^"]+)"', look(server, path).body.decode())


def test_shell(server):
    """Every place of the page is the same document with the same policy, which allows nothing inline."""
    bodies = set()
    for path in SHELL:
        reply = look(server, path)
        assert reply.status == 200 and reply.headers["Content-Type"] == "text/html; charset=utf-8"
        assert reply.headers["Content-Security-Policy"] == SHELL_POLICY
        assert reply.headers["Cache-Control"] == "no-cache"
        assert reply.headers["Referrer-Policy"] == "no-referrer"
        assert reply.headers["X-Content-Type-Options"] == "nosniff"
        assert reply.headers["Cross-Origin-Opener-Policy"] == "same-origin"
        assert "camera=()" in reply.headers["Permissions-Policy"]
        bodies.add(reply.body)
    page = bodies.pop().decode()
    assert not bodies
    # Nothing of it would be stopped by the policy, and nothing comes from elsewhere.
    assert not re.search(r"<style|\son\w+=|\sstyle=|javascript:|https?://", page), page
    assert all("src=" in tag for tag in re.findall(r"<script[^>]*>", page))
    # A program gets JSON at the same address.
    assert server.good("GET", "/")["status"] == "healthy"


def test_everything_that_it_loads_is_there(server):
    for path in ["/"] + [f"/frames/{name}" for name in FRAMES]:
        files = assets(server, path)
        assert files, path
        for file in files:
            reply = server.ask("GET", file, Accept_Encoding="gzip", Origin="null",
                               Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="cors")
            assert reply.status == 200 and reply.body
            assert reply.headers["Cache-Control"] == "public, max-age=31536000, immutable"
            assert reply.headers["Access-Control-Allow-Origin"] == "*"
            assert reply.headers["Cross-Origin-Resource-Policy"] == "cross-origin"
            assert reply.headers["Content-Type"].split(";")[0] in (
                "text/javascript", "text/css", "image/svg+xml")


def test_encoding(server):
    """gzip for who asks for it; others get what they can read."""
    for path in ["/", *assets(server), "/frames/chart", *assets(server, "/frames/chart")]:
        packed = look(server, path, Accept_Encoding="gzip, deflate, br")
        assert packed.headers["Content-Encoding"] == "gzip"
        assert "Accept-Encoding" in packed.headers["Vary"]
        plain = look(server, path)
        assert "Content-Encoding" not in plain.headers and "Accept-Encoding" in plain.headers["Vary"]
        assert plain.body == gzip.decompress(packed.body)
        assert int(plain.headers["Content-Length"]) == len(plain.body)
        for coding in ("identity", "gzip;q=0", "br", "", "x" * 5000):
            assert look(server, path, Accept_Encoding=coding).body == plain.body


def test_etags(server):
    for path in ["/", "/play", assets(server)[0], "/frames/html"]:
        first = look(server, path)
        etag = first.headers["ETag"]
        for match in (etag, etag[2:], "*", '"x", ' + etag):
            again = look(server, path, If_None_Match=match)
            assert again.status == 304 and again.body == b"" and again.headers["ETag"] == etag
            assert again.headers.get("Content-Security-Policy") == \
                first.headers.get("Content-Security-Policy")
        # Not one that only has ours in it.
        for match in ('"x"', "", "W/", etag[2:-2], '"x' + etag[3:], etag[:-1] + 'x"', '"' * 2000):
            assert look(server, path, If_None_Match=match).status == 200, match


def test_head_and_options(server):
    for path in [*SHELL, assets(server)[0], "/frames/pdf"]:
        whole = look(server, path)
        head = look(server, path, "HEAD")
        assert head.status == 200 and head.body == b""
        for name in ("Content-Length", "Content-Type", "ETag", "Content-Security-Policy"):
            assert head.headers.get(name) == whole.headers.get(name)
        reply = server.ask("OPTIONS", path)
        assert reply.status == 204 and reply.headers["Allow"] == "GET, HEAD, OPTIONS"
        for method in ("POST", "PUT", "PATCH", "DELETE"):
            server.problem(405, method, path)


@pytest.mark.parametrize("name", FRAMES)
def test_frame(server, name):
    """A frame has an origin of its own, even if it is opened by itself, and no network."""
    reply = look(server, f"/frames/{name}")
    rules = dict(rule.partition(" ")[::2]
                 for rule in reply.headers["Content-Security-Policy"].split("; "))
    assert rules["sandbox"] == "allow-scripts"
    assert rules["default-src"] == "'none'" and rules["frame-ancestors"] == "'self'"
    assert rules["form-action"] == "'none'" and rules["base-uri"] == "'none'"
    assert "connect-src" not in rules and "frame-src" not in rules
    for rule in ("img-src", "media-src", "font-src"):
        assert set(rules[rule].split()) <= {"data:", "blob:", "'self'"}
    # Only in one of them may what it shows run scripts.
    loose = {"'unsafe-inline'", "'unsafe-eval'"} & set(rules["script-src"].split())
    assert bool(loose) == (name == "live")


def test_unknown(server):
    for path in ("/assets/nope.js", "/assets/", "/assets/index.html", "/assets/..%2findex.html",
                 "/assets/%2e%2e/index.html", "/assets/../index.html", "/assets/" + "a" * 4000,
                 "/assets/" + "%41" * 1000, "/assets/a/b", "/frames/nope", "/frames/html.html",
                 "/frames/../index", "/frames/" + "h" * 300, "/index.html", "/web/src/main.tsx",
                 "/chat/1/2", "/playground"):
        reply = look(server, path)
        assert reply.status in (400, 404), (path, reply)
        assert reply.headers["Content-Type"] == "application/problem+json"
        assert "Access-Control-Allow-Origin" not in reply.headers
    for path in ("/assets/%00", "/assets/index%00.js", "/frames/html%00", "/chat/%00", "/chat/%ff",
                 "/%"):
        assert look(server, path).status == 400, path
    server.problem(414, "GET", "/assets/" + "a" * 20000)


def test_other_sites(server):
    """They may link to the page, but not read or embed it."""
    for path in SHELL + ["/docs"]:
        assert look(server, path, Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="navigate",
                    Sec_Fetch_Dest="document").status == 200
        for headers in ({"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "cors"},
                        {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "no-cors"},
                        {"Sec_Fetch_Site": "same-site"},
                        {"Origin": "https://evil.example"}, {"Origin": "null"}):
            reply = look(server, path, **headers)
            assert reply.status == 403 and "Access-Control-Allow-Origin" not in reply.headers
        assert "frame-ancestors 'none'" in look(server, path).headers["Content-Security-Policy"]
    # Another name for this machine is not ours.
    server.problem(421, "GET", "/", Host="evil.example", Accept="text/html")
    server.problem(421, "GET", assets(server)[0], Host="evil.example")


def test_page_needs_no_key(serve, gb, tmp_path):
    """On an address that needs a key the page still loads: it has the form for the key."""
    data = tmp_path / "keys"
    gb("key", "create", "someone", "--data", data)
    server = serve("--require-key", data=data)
    for path in SHELL + ["/frames/html", "/docs", assets(server)[0]]:
        assert look(server, path).status == 200
    server.problem(401, "GET", "/v1/sessions")


def test_docs(server):
    """/docs is complete before any script runs: each route, with all that /openapi.json says of it."""
    spec = server.good("GET", "/openapi.json")
    reply = look(server, "/docs")
    assert reply.headers["Content-Security-Policy"] == SHELL_POLICY
    page = reply.body.decode()
    assert "<!--DOCS-->" not in page
    assert not re.search(r"<style|\son\w+=|\sstyle=|javascript:|(?:src|href)=\"(?!/|#)", page)
    # The same through the other encoding, and to whoever has it already.
    packed = look(server, "/docs", Accept_Encoding="gzip")
    assert gzip.decompress(packed.body) == reply.body and len(packed.body) < 80_000
    assert look(server, "/docs", If_None_Match=reply.headers["ETag"]).status == 304
    articles = dict(re.findall(r'<article class="route" id="(\w+)"(.*?)</article>', page, re.S))
    assert len(articles) == sum(len(item) for item in spec["paths"].values())
    for path, item in spec["paths"].items():
        for method, operation in item.items():
            article = html.unescape(articles[operation["operationId"]])
            assert f'data-method="{method}" data-path="{path}"' in article
            assert operation["summary"] in article and operation.get("description", "") in article
            assert "curl -s" in article
            for parameter in operation["parameters"]:
                assert f"<code>{parameter['name']}</code>" in article
                assert parameter.get("description", "") in article
            for status in operation["responses"]:
                assert f"<code>{status}</code>" in article
            for media in operation.get("requestBody", {}).get("content", {}).values():
                name = media.get("schema", {}).get("$ref", "").rpartition("/")[2]
                for field in spec["components"]["schemas"].get(name, {}).get("properties", {}):
                    assert f"<code>{field}</code>" in article, (path, field)
            assert f'<a href="#{operation["operationId"]}">' in page
    for name in spec["components"]["schemas"]:
        assert f'id="schema-{name}"' in page
    # Every link of it leads somewhere.
    ids = set(re.findall(r'\sid="([^"]+)"', page))
    assert set(re.findall(r'href="#([^"]+)"', page)) <= ids
    words = page.partition('<section id="problems">')[2]
    for word in ("bad-framing", "too-many-guests", "no-such-route", "busy"):
        assert f"<code>{word}</code>" in words, word


def test_size_of_the_shell(server):
    """What a browser loads before it shows anything: the document, its scripts and its styles."""
    def loads(path, found):
        reply = look(server, path, Accept_Encoding="gzip")
        found[path] = len(reply.body)
        text = gzip.decompress(reply.body).decode()
        if path.endswith(".js"):  # static imports only; import() comes later
            names = re.findall(r'(?:from|import)\s*"\./([^"]+)"', text)
            wanted = ["/assets/" + name for name in names]
        else:
            wanted = re.findall(r'(?:src|href)="(/assets/[^"]+\.(?:js|css))"', text)
        for one in wanted:
            if one not in found:
                loads(one, found)
        return found

    shell = loads("/", {})
    assert any(path.endswith(".js") for path in shell) and any(path.endswith(".css") for path in shell)
    assert sum(shell.values()) <= 80 * 1024, shell
    assert sum(loads("/docs", {}).values()) <= 120 * 1024
