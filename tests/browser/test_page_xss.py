"""
Scripts that came in as data: 98 payloads (payloads.py). All of them go through what a model writes, what a program prints and
displays, and the terminal; every other place of the page that shows what a program, a model, a file or a person wrote gets a
selection. None may run, ask another server for something, or get as far as the shell's policy.
"""

import contextlib
import json
import re
import socket
import urllib.parse

import pytest

from page_kit import Error, cell, expect, push, run_cell, terminal, visit, world  # noqa: F401 isort:skip
from mark_kit import answer, person, run
from payloads import ANSI, MARKDOWN, MARKUP, SOME, pieces
from stage import archive, scripted_model

# Whatever could run a script or load something, anywhere in the shell, shadow trees included.
SCAN = r"""() => {
  const bad = [];
  const walk = (root) => {
    for (const node of root.querySelectorAll("*")) {
      const name = node.localName;
      if (name === "script" && !new URL(node.src || "x:").pathname.startsWith("/assets/")) bad.push(node.outerHTML.slice(0, 200));
      if (["object", "embed", "base", "foreignObject", "animate", "set", "marquee", "math"].includes(name)) bad.push(node.outerHTML.slice(0, 200));
      if (name === "iframe" && (node.sandbox.value !== "allow-scripts" || node.srcdoc || (node.hasAttribute("src") && !/^\/frames\/[a-z]+$/.test(new URL(node.src, location).pathname)))) bad.push(node.outerHTML.slice(0, 200));
      for (const { name: key, value } of node.attributes) {
        if (key.startsWith("on")) bad.push(`${name} ${key}`);
        if (/^\s*(javascript|vbscript|data:text)/i.test(value.replace(/[\t\n\r]/g, "")) && ["href", "src", "action", "formaction", "xlink:href", "data"].includes(key)) bad.push(`${name} ${key}=${value}`);
      }
      if (node.shadowRoot) walk(node.shadowRoot);
    }
  };
  walk(document);
  if (window.__pwned !== undefined) bad.push("a script ran");
  return bad;
}"""

ALL = [*MARKUP, *MARKDOWN]
# XML without a fault: a picture that is shown.
SVG = ("<svg xmlns='http://www.w3.org/2000/svg' xmlns:xlink='http://www.w3.org/1999/xlink' width='80' height='40' onload='top.__pwned=1'>"
       "<script>top.__pwned=1;alert(1)</script><image href='https://example.com/pwned.png' width='9' height='9' onerror='top.__pwned=1'/>"
       "<a xlink:href='javascript:alert(1)'><text y='20'>click</text></a></svg>")


def file_name(payload):
    """Not quite what Visitor.check() looks for in addresses, because names of tables are parts of ours; its dialog still opens."""
    return payload.replace("/", "∕").replace("\n", " ").replace('"', "'").replace("pwned", "Pwned")[:100]


def hostile_csv():
    """Column names and cells."""
    header = ",".join('"' + p.replace('"', '""').replace("\n", " ") + '"' for p in MARKUP[:30])
    return header + "\n" + header + "\n"


@pytest.fixture(scope="module")
def server(world):  # noqa: F811
    stories = pieces(ALL, 14)
    replies = []
    for i, group in enumerate(stories):
        replies += [{"asked": f"story {i}.", **answer("\n\n".join(group))}]
    table = (f"import mark\nnames = {[p.replace(chr(10), ' ')[:200] for p in MARKUP[:40]]!r}\n"
             "mark.table(names[0], [{n: c for n in names[:8]} for c in names])\n"
             "mark.value('x', 1, unit=\"<b onclick=alert(1)>\")\n"
             "mark.chart({'data': [{'type': 'bar', 'name': names[18], 'x': names, 'y': list(range(len(names))), 'text': names,"
             " 'hovertemplate': names[17]}, {'type': 'pie', 'labels': names[:5], 'values': [1, 2, 3, 4, 5]}],"
             " 'layout': {'title': {'text': names[18] + \"<a href='javascript:top.__pwned=1'>click</a>\"},"
             " 'xaxis': {'title': {'text': names[26]}}, 'annotations': [{'text': n, 'x': i, 'y': 1} for i, n in enumerate(names[17:27])],"
             " 'images': [{'source': 'https://example.com/pwned.png', 'x': 0, 'y': 1, 'sizex': 1, 'sizey': 1}]}})\n"
             f"import sys\nfor line in {[*ANSI, *MARKUP]!r}: print(line); print(line, file=sys.stderr)\n")
    replies += [{"asked": "table of it", **run(table)}, {"asked": "table of it", **answer("It is {{x}}.")}]
    replies += [{"asked": "raise it", "thinking": MARKUP[0], **run(f"raise ValueError({MARKUP[17]!r})")},
                {"asked": "raise it", **answer(MARKUP[18])}]
    root = archive(world.folder / "files", {file_name(payload) + ".csv": hostile_csv() for payload in SOME})
    server = world.serve(*scripted_model(world.folder / "model", replies), "--source-root", root)
    server.archive = root / "archive"
    return server


@pytest.fixture(scope="module")
def ann(server):
    return person(server)


@pytest.fixture(scope="module")
def bob(server, ann):
    """Not the operator."""
    return person(server, "bob@example.com")


def check(page):
    assert page.evaluate(SCAN) == []
    for frame in page.frames[1:]:
        origin = "null"
        with contextlib.suppress(Error):  # a frame that leads itself elsewhere at this moment has none
            origin = frame.evaluate("self.origin")
        assert origin == "null"


def open_all(page):
    """Everything that is folded in an answer is unfolded."""
    for name in ("work-head", "step-head"):
        for button in page.locator(f".{name} button[aria-expanded=false]").all():
            push(button)


def test_model_text(server, ann, visit):  # noqa: F811
    page = None
    for i in range(len(pieces(ALL, 14))):
        reply = ann.ask_mark(f"Tell story {i}.")
        page = page or visit.signed_in(server, ann)
        page.goto(f"/chat/{reply['chat_id']}")
        expect(page.locator(".story").first).not_to_be_empty()
        expect(page.get_by_role("button", name="Good answer")).to_be_visible()
        check(page)
        for link in page.locator(".story a[href]").all():
            assert link.get_attribute("href").startswith(("http", "mailto:", "#")), link.evaluate("(e) => e.outerHTML")


def test_table_chart_and_output(server, ann, visit):  # noqa: F811
    reply = ann.ask_mark("Make a table of it")
    page = visit.signed_in(server, ann, f"/chat/{reply['chat_id']}")
    chart = page.frame_locator("iframe.frame-chart").first
    expect(chart.locator(".main-svg").first).to_be_visible()
    expect(chart.locator(".gtitle").first).to_be_attached()
    open_all(page)
    expect(page.get_by_text("alert(1)").first).to_be_visible()
    check(page)
    # Links of a chart lead nowhere.
    for link in chart.locator("a").all():
        assert not (link.get_attribute("xlink:href") or link.get_attribute("href") or "").strip().lower().startswith("javascript")


def test_error_title_and_question(server, ann, visit):  # noqa: F811
    """The title of a chat is its question: payloads as questions, and as titles that somebody chose."""
    chats = [ann.ask_mark(f"raise it {payload}"[:4000])["chat_id"] for payload in MARKUP[:6]]
    for chat, payload in zip(chats, MARKUP[17:]):
        ann.good("PATCH", f"/api/v1/chats/{chat}", {"title": payload[:80]})
    page = visit.signed_in(server, ann, f"/chat/{chats[0]}")
    expect(page.get_by_role("button", name="Good answer")).to_be_visible()
    open_all(page)
    check(page)
    assert "alert(1)" in page.title() or "onerror" in page.title() or "pwned" in page.title()
    page.get_by_role("searchbox", name="Search chats").fill("<img")
    check(page)


def test_file_and_column_names(server, ann, visit):  # noqa: F811
    content = hostile_csv().encode()
    files = [ann.upload(payload.replace("/", "_").replace("\n", " ").replace('"', "'").replace("\r", "")[:120] + ".csv", content)
             for payload in MARKUP[17:23]]
    reply = ann.ask_mark("hello", files=files)
    page = visit.signed_in(server, ann, f"/chat/{reply['chat_id']}")
    chips = page.get_by_role("list", name="Files of this question").get_by_role("button")
    expect(chips).to_have_count(len(files))
    chips.first.click()
    expect(page.get_by_role("dialog").get_by_role("rowheader").first).to_be_visible()
    check(page)


@pytest.fixture
def play(server, ann, visit):  # noqa: F811
    return visit.signed_in(server, ann, "/play")


def test_printed(play):
    lines = [*ANSI, *MARKUP, *MARKDOWN]
    out = run_cell(play, 1, f"import sys\nfor line in {lines!r}:\n    print(line)\n    print(line, file=sys.stderr)\n")
    expect(out).to_contain_text("alert(1)")
    check(play)
    out = run_cell(play, 2, f"class {'E'}(Exception): pass\nE.__name__ = {MARKUP[17]!r}\nraise E({MARKUP[18]!r} + {ANSI[0]!r})")
    expect(out).to_contain_text("alert(1)")
    check(play)


def test_displays(play, visit):  # noqa: F811
    """HTML, SVG, Markdown, LaTeX, JSON, a picture that is none: in frames or as text; a click runs scripts, in a frame only."""
    groups = [*pieces(MARKUP, 12)]
    code = ["from IPython.display import display"]
    for group in groups:
        html = "\n".join(group)
        code.append(f"display({{'text/html': {html!r}, 'text/plain': 'plain'}}, raw=True)")
    code.append(f"display({{'image/svg+xml': {SVG!r}}}, raw=True)")
    for payload in MARKDOWN:
        code.append(f"display({{'text/markdown': {payload!r}}}, raw=True)")
    code.append(f"display({{'text/markdown': {chr(10).join(MARKUP)!r}}}, raw=True)")
    code.append(f"display({{'text/latex': {'$' + MARKUP[17] + '$'!r}}}, raw=True)")
    code.append(f"display({{'application/json': {json.dumps(MARKUP)}}}, raw=True)")
    code.append(f"display({{'image/png': {MARKUP[17]!r}}}, raw=True)")
    code.append(f"display({{'application/pdf': {MARKUP[17]!r}}}, raw=True)")
    code.append(f"display({{'application/x-{'<script>'}': 'x', {MARKUP[17]!r}: 1, 'text/plain': {MARKUP[17]!r}}}, raw=True)")
    out = run_cell(play, 1, "\n".join(code))
    expect(out.locator("iframe").first).to_be_visible()
    check(play)
    # Their scripts, after a click: they run, and reach nothing.
    for button in out.get_by_role("button", name="Run them").all()[:3]:
        push(button)
    expect(out.locator("iframe.frame-live").first).to_be_visible()
    check(play)
    visit.visitors[-1].errors.clear()  # of the scripts in the frames


def test_html_connects_to_nobody(play):
    """Browsers connect before they ask the policy, and the name of a machine can carry data. A tree is moved, not parsed twice."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        away = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        hints = (f"<link rel=preconnect href={away}><link rel=dns-prefetch href={away}><base href={away}>"
                 f"<meta http-equiv=refresh content='0;url={away}'><iframe src={away}></iframe>")
        html = (f"<p id=there>there</p>{hints}<noscript><p title='</noscript>{hints}'></noscript>"
                f"<svg><style><!--</style>{hints}--></svg><math><mtext><table><mglyph><style><!--</style>{hints}"
                f"</mglyph></table></mtext></math><template>{hints}</template>"
                f"<a href={away}>away</a><svg><a xlink:href={away}><text>away</text></a></svg><a href=#there>here</a>")
        out = run_cell(play, 1, f"from IPython.display import display\ndisplay({{'text/html': {html!r}}}, raw=True)")
        shown = out.frame_locator("iframe.frame-html")
        expect(shown.locator("#there")).to_be_visible()
        play.wait_for_timeout(1000)
        assert shown.locator("link, base, meta[http-equiv], iframe, object, embed").count() == 0
        assert shown.locator("a").evaluate_all("all => all.map((a) => a.getAttribute('href') ?? a.getAttribute('xlink:href'))") == [None, None, "#there"]
        listener.settimeout(0.1)
        with pytest.raises(TimeoutError):
            listener.accept()
    check(play)


def test_live_frame_cannot_get_out(play):
    """A script that somebody let run tries the network, the page around it, other frames, and to lead the page away."""
    tries = """<p id=p>waiting</p><script>
    const found = [];
    const attempt = async (name, work) => { try { await work(); found.push(name); } catch {} };
    (async () => {
      await attempt("parent", () => parent.document.body.innerText);
      await attempt("storage", () => localStorage.setItem("a", "b"));
      await attempt("cookie", () => { document.cookie = "a=b"; if (!document.cookie) throw 0; });
      await attempt("fetch", () => fetch("/health"));
      await attempt("fetch away", () => fetch("https://example.com/pwned"));
      await attempt("import", () => import("/assets/x.js"));
      await attempt("worker", () => new Promise((ok, no) => { const w = new Worker("/assets/x.js"); w.onmessage = ok; w.onerror = no; }));
      await attempt("window", () => { if (!window.open("/pwned")) throw 0; });
      await attempt("top", () => { top.location = "/pwned"; });
      const form = document.createElement("form"); form.action = "/pwned"; document.body.append(form);
      await attempt("form", () => { form.submit(); throw 0; });
      parent.postMessage({ type: "size", height: 1e300 }, "*");
      parent.postMessage({ type: "ready" }, "*");
      parent.postMessage({ type: "image", id: 1, url: "data:text/html,<script>top.__pwned=1<\\/script>" }, "*");
      parent.postMessage({ type: "input", bytes: new Uint8Array([10]) }, "*");
      parent.postMessage(null, "*");
      document.getElementById("p").textContent = "reached: " + found.join(", ");
    })();
    </script>"""
    out = run_cell(play, 1, f"from IPython.display import display\ndisplay({{'text/html': {tries!r}}}, raw=True)")
    push(out.get_by_role("button", name="Run them"))
    expect(out.frame_locator("iframe.frame-live").locator("#p")).to_have_text("reached: ")
    check(play)


def test_plot_in_a_cell(play):
    figure = {"data": [{"type": "scatter", "x": MARKUP, "y": list(range(len(MARKUP))), "text": MARKUP, "name": MARKUP[17]}],
              "layout": {"title": {"text": MARKUP[18]}, "showlegend": True}}
    out = run_cell(play, 1, "from IPython.display import display\n"
                            f"display({{'application/vnd.plotly.v1+json': {figure!r}}}, raw=True)")
    expect(out.frame_locator("iframe.frame-chart").locator(".main-svg").first).to_be_visible()
    check(play)


def test_titles_of_charts(play):
    """Of the figure, which the shell shows too (the frame's name), of axes and legends, and in annotations."""
    figures = [{"data": [{"type": "scatter", "x": [0, 1], "y": [0, 1], "name": p, "hovertext": p}],
                "layout": {"title": {"text": p + " end"}, "height": 200, "showlegend": True, "annotations": [{"text": p, "x": 0, "y": 0}],
                           "xaxis": {"title": {"text": p}}, "yaxis": {"ticktext": [p], "tickvals": [0]}}} for p in (*SOME, MARKUP[30])]
    for n, group in enumerate(pieces(figures, 4), 1):  # each is a frame with plotly.js in it
        out = run_cell(play, n, "from IPython.display import display\n"
                                f"for f in {group!r}: display({{'application/vnd.plotly.v1+json': f}}, raw=True)")
        frames = out.locator("iframe.frame-chart")
        expect(frames).to_have_count(len(group))
        for i in range(len(group)):
            chart = frames.nth(i).content_frame
            frames.nth(i).scroll_into_view_if_needed()
            expect(chart.locator(".gtitle")).to_contain_text("end")
            for link in chart.locator("a").all():
                target = (link.get_attribute("xlink:href") or link.get_attribute("href") or "").strip().lower()
                assert not target.startswith("javascript"), target
        check(play)


def test_previews(play):
    """What the playground shows of a file: a table, a picture, a page, Markdown, text."""
    files = {"a.csv": hostile_csv(), "b.svg": SVG, "c.html": "\n".join(MARKUP[:12]), "d.html": "\n".join(MARKUP[17:]),
             "e.md": "\n\n".join(MARKDOWN), "f.md": "\n\n".join(MARKUP[17:60]), "g.txt": "\n".join([*ANSI, *MARKUP])}
    run_cell(play, 1, f"for name, text in {files!r}.items(): open(name, 'w').write(text)")
    play.get_by_role("group", name="Panels").get_by_role("button", name="Files").click()
    for name in files:
        push(play.get_by_role("list", name="Files").get_by_role("button", name=re.compile(rf"^{re.escape(name)}")))
        dialog = play.get_by_role("dialog", name=name)
        expect(dialog.locator(".preview > *").first).to_be_attached()
        if name.endswith(".csv"):
            expect(dialog.get_by_role("table")).to_contain_text("onerror")
        elif name.endswith(".svg"):
            expect(dialog.locator("img[src^='blob:']")).to_be_visible()  # in which no script runs
        elif name.endswith(".html"):
            expect(dialog.locator("iframe.frame-html")).to_be_visible()
        else:
            expect(dialog.locator(".preview")).to_contain_text(re.compile(r"click|alert\(1\)"))
        check(play)
        play.keyboard.press("Escape")
        expect(play.get_by_role("dialog")).to_have_count(0)


def test_files_and_variables(play):
    names = [p.replace("/", "∕").replace("\n", " ")[:100] for p in MARKUP]
    run_cell(play, 1, f"names = {names!r}\nfor n in names: open(n, 'w').write(n)\n"
                      "class Odd:\n    def __repr__(self): return names[17]\nOdd.__name__ = names[18]\nodd = Odd()\n")
    panels = play.get_by_role("group", name="Panels")
    panels.get_by_role("button", name="Files").click()
    expect(play.get_by_role("list", name="Files").get_by_role("listitem").first).to_be_visible()
    check(play)
    panels.get_by_role("button", name="Variables").click()
    expect(play.get_by_role("list", name="Variables")).to_contain_text("odd")
    check(play)


def test_terminal(play):
    run_cell(play, 1, f"open('hostile', 'wb').write({chr(10).join([*ANSI, *MARKUP])!r}.encode())")
    play.get_by_role("group", name="Panels").get_by_role("button", name="Terminal").click()
    frame, text = terminal(play)
    title = play.title()
    frame.locator(".xterm").click()
    play.keyboard.type("cat hostile; clear; echo done $((1 + 1))\n")
    expect(text).to_contain_text("done 2")
    check(play)
    assert play.title() == title
    assert frame.locator("script:not([src^='/assets/'])").count() == 0


def hostile_book():
    cells = [{"cell_type": "markdown", "metadata": {}, "source": p} for p in [*MARKDOWN, *MARKUP[:20]]]
    cells += [{"cell_type": "code", "metadata": {}, "source": p, "execution_count": 1, "outputs": [
        {"output_type": "stream", "name": "stdout", "text": p}, {"output_type": "display_data", "metadata": {}, "data": {"text/html": p}}]}
        for p in MARKUP[20:26]]
    return {"nbformat": 4, "nbformat_minor": 5, "metadata": {"title": MARKUP[17]}, "cells": cells}


def test_hostile_notebook(server, ann, visit, tmp_path):  # noqa: F811
    file = tmp_path / "hostile.ipynb"
    file.write_text(json.dumps(hostile_book()))
    page = visit.signed_in(server, ann, "/play")
    page.get_by_role("button", name="Notebook", exact=True).click()
    with page.expect_file_chooser() as chooser:
        page.get_by_role("menuitem", name="Open .ipynb or .py").click()
    chooser.value.set_files(file)
    expect(cell(page, 5)).to_be_visible()
    check(page)


def test_shared_notebook(server, ann, bob, visit):  # noqa: F811
    """Written by one, opened by another: the one place where a person's scripts would run as somebody else."""
    outputs = [{"output_type": "display_data", "metadata": {}, "data": data} for p in SOME for data in (
        {"image/svg+xml": SVG + p}, {"text/markdown": p}, {"text/latex": p}, {p: p, "text/plain": p}, {"image/png": p})]
    outputs += [{"output_type": "error", "ename": p, "evalue": p, "traceback": [p, ANSI[0] + p]} for p in SOME]
    book = hostile_book()
    book["cells"].insert(0, {"cell_type": "code", "metadata": {}, "source": SOME[0], "execution_count": 1, "outputs": outputs})
    page = None
    for payload in SOME:
        share = ann.good("POST", "/v1/shares", {"title": payload[:120], "notebook": book if page is None else {**book, "cells": book["cells"][20:24]}}, 201)
        page = page or visit.signed_in(server, bob)
        page.goto(f"/shared/{share['share_id']}")
        expect(page.get_by_role("heading", level=1)).to_have_text(payload[:120])
        for region in page.get_by_role("region", name=re.compile(r"^Cell \d+$")).all():
            region.scroll_into_view_if_needed()  # cells are drawn when they come near
        check(page)
    # The one who wrote them sees their titles in a list.
    mine = visit.signed_in(server, ann, "/play")
    mine.get_by_role("button", name="Notebook", exact=True).click()
    mine.get_by_role("menuitem", name="Share a read-only copy").click()
    expect(mine.get_by_role("list", name="Your links").get_by_role("listitem")).to_have_count(len(SOME))
    check(mine)


def test_catalogue(server, ann, bob, visit):  # noqa: F811
    """Names of tables and columns and their values come from files, descriptions from people."""
    ann.good("POST", "/api/v1/sources", {"name": "archive", "kind": "files", "directory": str(server.archive),
                                         "description": SOME[2], "access": [{"who": "*"}]}, 201)
    path = "/api/v1/sources/archive/tables"
    tables = ann.good("GET", path)["tables"]
    assert len(tables) == len(SOME)
    for table, payload in zip(tables, SOME):
        ann.good("PATCH", f"{path}/{urllib.parse.quote(table['name'], safe='')}", {
            "description": payload, "synonyms": [SOME[2]],
            "columns": [{"name": table["columns"][0]["name"], "description": payload, "unit": payload[:90]}]})
    for who, path in ((ann, "/sources"), (ann, "/sources/archive"), (bob, "/sources/archive"), (ann, "/admin/sources")):
        page = visit.signed_in(server, who, path)
        expect(page.locator("main")).to_contain_text("archive")
        if path == "/sources/archive":
            heads = page.locator(".table-item h3 button")
            expect(heads).to_have_count(len(SOME))
            for head in heads.all():
                push(head)
            expect(page.locator("table.catalogue")).to_have_count(len(SOME))
            expect(page.locator("table.catalogue").first).to_contain_text("alert(1)")
        check(page)
    page = visit.signed_in(server, ann, "/sources/archive")
    push(page.locator(".table-item h3 button").first)
    page.get_by_role("button", name="Write about it").click()
    expect(page.get_by_label("What a row is")).to_be_visible()
    check(page)


def test_dashboard(server, ann, bob, visit):  # noqa: F811
    """Names of people and keys, as the operator sees them, who has most to lose. Labels of sessions cannot be hostile."""
    reply = ann.ask("POST", "/execute_code/", {"code": "1"}, X_Session_Id=SOME[2])
    assert reply.status == 400 and "X-Session-Id" in reply.json["detail"], reply
    for payload in SOME:
        ann.good("POST", "/admin/v1/keys", {"name": payload[:100]}, 201)
    bob.good("PATCH", "/auth/me", {"name": SOME[2]})
    bob.run(bob.session(), f"raise ValueError({SOME[0]!r})")
    for view in ("", "sessions", "executions?state=finished", "keys", "users", "audit"):
        page = visit.signed_in(server, ann, f"/admin/{view}")
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        expect(page.locator("main .spinner")).to_have_count(0)
        if view == "keys":
            expect(page.get_by_role("table", name="API keys").get_by_role("row").filter(has_text="alert(1)")).to_have_count(len(SOME))
            page.get_by_role("button", name=re.compile(r"^Revoke")).first.click()
            expect(page.get_by_role("dialog")).to_be_visible()
        elif view == "users":
            expect(page.get_by_role("table", name="Accounts")).to_contain_text(SOME[2])
        elif view == "sessions":
            expect(page.get_by_role("table", name="Sessions")).to_be_visible()
        check(page)
