"""Mark in the browser: from the first run to the exported answer, and what one does with answers on the way."""

import json
import re

import pytest

from page_kit import PHONE, ROOT, expect, push, saved, sign_up, visit, world  # noqa: F401 isort:skip
from mark_kit import PASSWORD, SAMPLE, Person, answer, person, run, scripted
from stage import scripted_model

SALES = f"{ROOT}/examples/sales.csv"
LINE = """\
import mark
mark.chart({"data": [{"type": "scatter", "mode": "lines", "x": list(range(101)), "y": [n * n for n in range(101)]}],
            "layout": {"title": {"text": "Squares"}}})
"""
# What comes in pieces takes long enough to be seen, and the story longer than anybody waits.
REPLIES = [
    {"asked": "draw squares", **run(LINE)},
    {"asked": "draw squares", **answer("Here they are.")},
    {"asked": "draw a circle", **run(
        "from IPython.display import display\n"
        "display({'image/svg+xml': '<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"9\" height=\"9\"><circle r=\"4\"/></svg>'}, raw=True)")},
    {"asked": "draw a circle", **answer("A circle.")},
    {"asked": "piece by piece", "thinking": "First I think about the squares. " * 40, "piece_ms": 40,
     **run("# each line of this is written before it runs\n" * 40 + LINE)},
    {"asked": "piece by piece", "piece_ms": 60, **answer("Word after word after word. " * 1500)},
]


@pytest.fixture(scope="module")
def server(world):  # noqa: F811
    return world.serve(*scripted_model(world.folder / "model", REPLIES))


@pytest.fixture
def ann(server):
    """Somebody with an account of her own."""
    ann.count = getattr(ann, "count", 0) + 1
    return person(server, f"ann{ann.count}@example.com")


def ask(page, question):
    box = page.get_by_role("textbox", name="Question").last
    box.fill(question)
    box.press("Enter")


def answers(page):
    return page.get_by_role("article", name="Answer")


def done(page, n=0):
    """The n-th answer, when it is complete."""
    one = answers(page).nth(n)
    expect(one).to_have_attribute("aria-busy", "false")
    return one


def attach(page, *files):
    page.get_by_label("Files to attach").set_input_files(list(files))


def test_first_run_to_export(world, visit):  # noqa: F811
    server = world.serve(*scripted_model(world.folder / "model"))
    _, page = visit(server)
    expect(page.get_by_role("heading", name="Welcome to Glovebox")).to_be_visible()
    sign_up(page)

    # Upload: progress, then what is in it.
    attach(page, SALES)
    files = page.get_by_role("list", name="Files for the next question")
    expect(files).to_contain_text("2,005 rows, 9 columns")
    files.get_by_role("button", name="sales.csv", exact=True).click()
    profile = page.get_by_role("dialog", name="sales.csv")
    expect(profile.get_by_role("rowheader", name="discount")).to_be_visible()
    profile.get_by_role("button", name="Close").click()

    # Ask.
    ask(page, "What is the revenue by region?")
    expect(page.get_by_role("heading", name="What is the revenue by region?", level=2)).to_be_visible()
    answer = done(page)
    page.wait_for_url("**/chat/*")
    expect(answer).to_contain_text("2005 orders")

    # Chart, in a frame of its own.
    chart = answer.frame_locator("iframe[title='Revenue by region']")
    expect(chart.locator("svg .gtitle")).to_have_text("Revenue by region")
    name, content = saved(page, lambda: answer.get_by_role("button", name="SVG").click())
    assert name == "revenue-by-region.svg" and content.startswith(b"<svg")
    name, content = saved(page, lambda: answer.get_by_role("button", name="PNG").click())
    assert name == "revenue-by-region.png" and content.startswith(b"\x89PNG")
    name, content = saved(page, lambda: answer.get_by_role("button", name="JSON").click())
    assert json.loads(content)["data"][0]["type"] == "bar"

    # Numbers: one that was computed leads to its line, one that was not is marked as such.
    push(answer.get_by_role("button", name=re.compile(r"Computed in step 1, line \d+.*EUR")).first)
    marked = answer.locator(".cm-marked")
    expect(marked).to_contain_text('mark.value("total"')
    expect(answer.locator(".number.unsupported")).to_contain_text("17.3")
    expect(answer.get_by_role("note")).to_contain_text("1 number was not computed")

    # The table sorts, and all of its rows can be saved.
    table = answer.get_by_role("table", name="Revenue by region")
    push(table.get_by_role("button", name="region"))
    regions = [cell.inner_text() for cell in table.get_by_role("row").locator("[role=cell]:first-child").all()]
    assert regions == sorted(regions, key=str.lower) and len(regions) > 2
    push(answer.get_by_role("button", name="Save Revenue by region"))
    name, content = saved(page, lambda: page.get_by_role("menuitem", name="CSV, all rows").click())
    assert name.endswith(".csv") and content.count(b"\n") >= len(regions)

    # Recheck.
    push(answer.get_by_role("button", name="Recheck"))
    dialog = page.get_by_role("dialog", name="Recheck")
    dialog.get_by_role("button", name="Run it").click()
    expect(dialog.get_by_role("status").first).to_contain_text("Same result")
    dialog.get_by_role("button", name="Close").last.click()

    # Export.
    push(answer.get_by_role("button", name="More about this answer"))
    name, content = saved(page, lambda: page.get_by_role("menuitem", name="Notebook (.ipynb)").click())
    notebook = json.loads(content)
    assert name.endswith(".ipynb") and notebook["nbformat"] == 4
    assert any("mark.value" in "".join(cell["source"]) for cell in notebook["cells"])


def test_look_around(world, visit):  # noqa: F811
    """Without an account, with the demo."""
    server = world.serve("--model", "demo")
    _, page = visit(server)
    page.get_by_role("button", name="Look around with the demo").click()
    page.get_by_role("button", name="Show revenue by month").click()
    answer = done(page)
    expect(answer.locator("iframe.frame-chart").first).to_be_visible()
    assert answer.get_by_role("button", name=re.compile("Computed in step")).count() > 0
    page.get_by_role("button", name="Account").click()
    expect(page.get_by_role("menuitem", name="Guest (demo)")).to_be_visible()


def test_steps_are_folded_with_output_and_receipt(server, ann, visit):  # noqa: F811
    reply = ann.ask_mark("A step that fails once")
    visitor = visit.signed_in(server, ann, f"/chat/{reply['chat_id']}")
    answer = done(visitor)
    expect(answer.get_by_text("ZeroDivisionError")).to_have_count(0)
    answer.get_by_role("button", name=re.compile(r"^\s*2 steps")).click()
    step = answer.get_by_role("button", name=re.compile("Step 1"))
    expect(step).to_contain_text("error")
    step.click()
    expect(answer.get_by_text("ZeroDivisionError").first).to_be_visible()
    expect(answer.get_by_label("Program of step 1")).to_contain_text("print(1 / 0)")
    expect(answer.locator(".receipt").first).to_contain_text("memory")


def test_edit_and_resend(server, ann, visit):  # noqa: F811
    page = visit.signed_in(server, ann)
    ask(page, "hello")
    expect(done(page)).to_contain_text("What do you want to know?")
    page.get_by_role("button", name="Change the question").click()
    form = page.locator("form.edit")
    form.get_by_role("textbox", name="Question").fill("A step that fails once")
    form.get_by_role("button", name="Ask again").click()
    expect(answers(page)).to_have_count(1)
    expect(done(page)).to_contain_text("After a second try it is 42")
    expect(page.get_by_role("heading", level=2)).to_have_text(["A step that fails once"])
    page.reload()
    expect(done(page)).to_contain_text("After a second try it is 42")
    expect(page.get_by_role("heading", level=2)).to_have_text(["A step that fails once"])


def test_regenerate(server, ann, visit):  # noqa: F811
    page = visit.signed_in(server, ann)
    ask(page, "hello")
    done(page).get_by_role("button", name="Answer again").click()
    expect(answers(page)).to_contain_text("2 of 2")
    done(page).get_by_role("button", name="Earlier answer").click()
    expect(answers(page)).to_contain_text("1 of 2")


def test_stop(server, ann, visit):  # noqa: F811
    page = visit.signed_in(server, ann)
    ask(page, "Please wait for it")
    expect(answers(page)).to_contain_text("started")  # its output, live
    page.get_by_role("button", name="Stop the answer").click()
    expect(done(page)).to_contain_text("Stopped")
    ask(page, "hello")
    expect(done(page, 1)).to_contain_text("What do you want to know?")


def test_escape_stops_a_story(server, ann, visit):  # noqa: F811
    page = visit.signed_in(server, ann)
    ask(page, "Tell it slowly")
    expect(answers(page).locator(".story")).to_contain_text("Word after word")
    page.keyboard.press("Escape")
    answer = done(page)
    expect(answer).to_contain_text("Stopped")
    assert answer.locator(".story").inner_text().count("Word") < 400


def test_many_questions_in_line(server, ann, visit):  # noqa: F811
    """A browser has six connections to a server; answers that wait for their turn do not take all of them."""
    page = visit.signed_in(server, ann)
    ask(page, "Please wait for it")
    expect(answers(page)).to_contain_text("started")
    page.wait_for_url("**/chat/*")
    for n in range(7):
        ask(page, f"hello {n}")
        expect(answers(page)).to_have_count(n + 2)
        expect(answers(page).last).to_contain_text("Waiting for the answer above")
    page.get_by_role("button", name="Stop the answer").click()
    expect(page.locator("article[aria-busy=true]")).to_have_count(0)
    expect(answers(page).last).to_contain_text("Stopped")
    ask(page, "hello again")
    expect(done(page, 8)).to_contain_text("What do you want to know?")


def test_leave_and_come_back(server, ann, visit):  # noqa: F811
    visitor, page = visit(server, "/", ann)
    ask(page, "Tell it slowly")
    story = answers(page).locator(".story")
    expect(story).to_contain_text("Word after word")
    page.wait_for_url("**/chat/*")
    page.keyboard.press("Control+k")
    ask(page, "hello")
    expect(done(page)).to_contain_text("What do you want to know?")
    assert not [url for url in visitor.requests if url.endswith("/events")]  # nobody follows what is not shown
    page.get_by_role("navigation", name="Chats").get_by_role("link", name="Tell it slowly").click()
    expect(story).to_contain_text("Word after word")
    before = len(story.inner_text())
    page.wait_for_function("n => document.querySelector('.story').textContent.length > n + 20", arg=before)
    assert len([url for url in visitor.requests if url.endswith("/events")]) == 1
    page.keyboard.press("Escape")
    expect(done(page)).to_contain_text("Stopped")


def ask_held(page, question):
    """A question that stays on its way to the server until the test lets it go."""
    waiting = []
    page.route("**/api/v1/chat", lambda route: waiting.append(route))
    ask(page, question)
    expect(answers(page)).to_have_count(1)
    while not waiting:
        page.wait_for_timeout(50)
    return waiting[0]


def test_what_is_written_while_a_chat_begins(server, ann, visit):  # noqa: F811
    page = visit.signed_in(server, ann)
    question = ask_held(page, "hello")
    box = page.get_by_role("textbox", name="Question").last
    box.fill("and then")
    question.continue_()
    page.wait_for_url("**/chat/*")
    done(page)
    expect(box).to_have_value("and then")
    page.keyboard.press("Control+k")
    expect(page.get_by_role("textbox", name="Question")).to_have_value("")


def test_a_question_that_is_refused_behind_ones_back(server, ann, visit):  # noqa: F811
    page = visit.signed_in(server, ann)
    question = ask_held(page, "hello pears")
    page.keyboard.press("Control+k")
    expect(page.get_by_role("heading", name="What do you want to know?")).to_be_visible()
    question.fulfill(status=429, json={"type": "urn:glovebox:problem:busy", "detail": "too many answers are under way"})
    expect(page.locator(".toast.bad")).to_contain_text("“hello pears” was not asked: Too many answers are under way")


def test_svg_is_a_picture(server, ann, visit):  # noqa: F811
    reply = ann.ask_mark("draw a circle")
    page = visit.signed_in(server, ann, f"/chat/{reply['chat_id']}")
    answer = done(page)
    answer.get_by_role("button", name=re.compile(r"^\s*1 step")).click()
    answer.get_by_role("button", name=re.compile("Step 1")).click()
    picture = answer.get_by_role("img", name="Picture that the program drew")
    expect(picture).to_have_attribute("src", re.compile("^data:image/svg"))
    page.wait_for_function("() => document.querySelector('.picture img').naturalWidth === 9")
    name, content = saved(page, lambda: answer.get_by_role("button", name="Save", exact=True).click())
    assert name == "picture.svg" and content.startswith(b"<svg")


def test_question_back(server, ann, visit):  # noqa: F811
    page = visit.signed_in(server, ann)
    ask(page, "which one")
    expect(done(page)).to_contain_text("Which year do you mean?")
    ask(page, "hello")
    expect(done(page, 1)).to_contain_text("Hello.")


def test_feedback_and_trace(server, ann, visit):  # noqa: F811
    page = visit.signed_in(server, ann)
    ask(page, "hello")
    answer = done(page)
    answer.get_by_role("button", name="Bad answer").click()
    dialog = page.get_by_role("dialog", name="What is wrong with it?")
    dialog.get_by_label("Something is missing").check()
    dialog.get_by_label("In your words").fill("The year is missing.")
    dialog.get_by_role("button", name="Send").click()
    expect(answer.get_by_role("button", name="Bad answer")).to_have_attribute("aria-pressed", "true")
    page.reload()
    answer = done(page)
    expect(answer.get_by_role("button", name="Bad answer")).to_have_attribute("aria-pressed", "true")

    answer.get_by_role("button", name="More about this answer").click()
    page.get_by_role("menuitem", name="What the model saw").click()
    trace = page.get_by_role("dialog", name="What the model saw")
    expect(trace.get_by_role("region", name="Call 1")).to_contain_text("hello")


def test_verify(server, ann, visit):  # noqa: F811
    file = ann.upload()
    reply = ann.ask_mark("how many orders are there?", files=[file])
    page = visit.signed_in(server, ann, f"/chat/{reply['chat_id']}")
    answer = done(page)
    answer.get_by_role("button", name="Verify").click()
    dialog = page.get_by_role("dialog", name="Verify this answer")
    dialog.get_by_label("Note").fill("Returned orders count.")
    dialog.get_by_role("button", name="Verify").click()
    expect(answer.get_by_text("Verified", exact=True)).to_be_visible()


def test_chats(server, ann, visit):  # noqa: F811
    for question in ("hello apples", "hello pears"):
        ann.ask_mark(question)
    page = visit.signed_in(server, ann)
    chats = page.get_by_role("navigation", name="Chats")
    expect(chats.get_by_role("link")).to_have_count(2)
    page.get_by_role("searchbox", name="Search chats").fill("apples")
    expect(chats.get_by_role("link")).to_have_count(1)
    page.get_by_role("searchbox", name="Search chats").fill("")
    expect(chats.get_by_role("link")).to_have_count(2)
    chats.get_by_role("button", name=re.compile("More about hello pears")).click()
    page.get_by_role("menuitem", name="Rename").click()
    page.get_by_role("dialog", name="Rename the chat").get_by_label("Title").fill("Plums")
    page.get_by_role("button", name="Rename", exact=True).click()
    expect(chats.get_by_role("link", name="Plums")).to_be_visible()
    chats.get_by_role("button", name="More about Plums").click()
    page.get_by_role("menuitem", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(chats.get_by_role("link")).to_have_count(1)


def test_drop_and_paste(server, ann, visit):  # noqa: F811
    page = visit.signed_in(server, ann)
    page.get_by_role("textbox", name="Question").wait_for()
    give = """([kind, name, text]) => {
        const data = new DataTransfer();
        data.items.add(new File([text ?? "a,b\\n1,2\\n"], name, { type: "text/csv" }));
        const target = document.getElementById("composer");
        target.dispatchEvent(kind === "paste" ? new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true })
                                              : new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
    }"""
    page.evaluate(give, ["drop", "dropped.csv"])
    page.evaluate(give, ["paste", "pasted.csv"])
    files = page.get_by_role("list", name="Files for the next question").get_by_role("listitem")
    expect(files).to_have_count(2)
    expect(files).to_contain_text(["1 row, 2 columns", "1 row, 2 columns"])
    page.get_by_role("button", name="Remove pasted.csv").click()
    expect(files).to_have_count(1)
    page.evaluate(give, ["drop", "broken.parquet", "PAR1 and no more"])
    expect(files.nth(1)).to_contain_text("could not be read")


def test_keyboard_and_phone(server, ann, visit):  # noqa: F811
    ann.ask_mark("hello")
    page = visit.signed_in(server, ann, **PHONE)
    page.get_by_role("textbox", name="Question").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["viewport"]["width"]  # innerWidth grows with the page
    page.get_by_role("button", name="Chats").click()
    page.get_by_role("navigation", name="Chats").get_by_role("link", name="hello").click()
    expect(done(page)).to_contain_text("What do you want to know?")
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["viewport"]["width"]  # innerWidth grows with the page
    push(page.get_by_role("button", name="More about this answer"))
    menu = page.get_by_role("menu", name="More about this answer").bounding_box()
    assert menu["x"] >= 0 and menu["x"] + menu["width"] <= 360, menu
    page.keyboard.press("Escape")
    page.get_by_role("textbox", name="Question").blur()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys and help")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("Control+k")
    expect(page.get_by_role("heading", name="What do you want to know?")).to_be_visible()


# Notes what an answer shows while it is under way: the lengths of the thought and of the program, in order.
WATCH_ANSWER = """() => {
  const seen = (window.__seen = []);
  const note = (what, text) => { if (text && !seen.some(([w, n]) => w === what && n === text.length)) seen.push([what, text.length]); };
  new MutationObserver(() => {
    const answer = document.querySelector("article.answer[aria-busy=true]");
    note("thought", answer?.querySelector(".work-live .thought")?.textContent);
    note("program", answer?.querySelector(".live-window .writing")?.textContent);
  }).observe(document.body, { subtree: true, childList: true, characterData: true });
}"""


def test_an_answer_is_seen_as_it_comes(server, ann, visit):  # noqa: F811
    page = visit.signed_in(server, ann)
    page.get_by_role("textbox", name="Question").wait_for()
    page.evaluate(WATCH_ANSWER)
    ask(page, "Draw it piece by piece")
    one = answers(page)
    expect(one.locator(".story")).to_contain_text("Word after word")
    expect(one.frame_locator("iframe.frame-chart").locator(".gtitle")).to_have_text("Squares")
    expect(one).to_have_attribute("aria-busy", "true")  # all of this before it is complete
    seen = page.evaluate("window.__seen")
    names = [name for name, _ in seen]
    assert names.count("thought") > 1 and names.count("program") > 1, seen
    assert names.index("thought") < names.index("program")
    program = [length for name, length in seen if name == "program"]
    assert program == sorted(program) and program[0] < program[-1]
    page.keyboard.press("Escape")
    expect(done(page)).to_contain_text("Stopped")
    expect(one.locator("iframe.frame-chart")).to_have_count(1)


def squares(server, ann, visit):  # noqa: F811
    """A page with a chart, drawn and in view."""
    reply = ann.ask_mark("draw squares")
    page = visit.signed_in(server, ann, f"/chat/{reply['chat_id']}")
    chart = done(page).frame_locator("iframe.frame-chart")
    expect(chart.locator(".gtitle")).to_have_text("Squares")
    page.locator("iframe.frame-chart").scroll_into_view_if_needed()
    return page, chart


def test_a_chart_zooms(server, ann, visit):  # noqa: F811
    page, chart = squares(server, ann, visit)
    ticks = chart.locator(".xtick text")
    before = ticks.all_text_contents()
    assert before[0] == "0" and before[-1] == "100"
    area = chart.locator(".nsewdrag").first
    area.hover()
    box = area.bounding_box()
    for x, act in ((0.3, page.mouse.down), (0.6, page.mouse.up)):
        page.mouse.move(box["x"] + x * box["width"], box["y"] + box["height"] / 2, steps=8)
        act()
    expect(ticks.first).not_to_have_text("0")
    inside = [float(text) for text in ticks.all_text_contents()]
    assert 20 < inside[0] < inside[-1] < 70
    for _ in range(10):  # two clicks are one double click only if the browser is quick enough
        page.mouse.dblclick(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        if ticks.first.text_content() == "0":
            break
    expect(ticks).to_have_text(before)


def test_colours(server, ann, visit):  # noqa: F811
    page, chart = squares(server, ann, visit)
    root, frame = page.locator("html"), chart.locator("html")

    def shown(colours):
        expect(root).to_have_attribute("data-theme", colours)
        expect(frame).to_have_css("color-scheme", colours)
        expect(chart.locator(".gtitle")).to_have_css("fill", "rgb(230, 228, 223)" if colours == "dark" else "rgb(29, 33, 38)")

    shown("light")
    page.get_by_role("button", name="Dark colours").click()
    shown("dark")
    page.reload()
    shown("dark")
    page.get_by_role("button", name="Light colours").click()
    shown("light")


def test_keys(server, ann, visit):  # noqa: F811
    reply = ann.ask_mark("hello")
    page = visit.signed_in(server, ann, f"/chat/{reply['chat_id']}")
    done(page)
    box = page.get_by_role("textbox", name="Question")
    expect(box).to_be_focused()
    page.keyboard.type("a/b?")  # in a text they are letters
    expect(box).to_have_value("a/b?")
    box.blur()
    page.keyboard.press("/")
    search = page.get_by_role("searchbox", name="Search chats")
    expect(search).to_be_focused()
    expect(search).to_have_value("")
    page.keyboard.press("Escape")
    expect(search).not_to_be_focused()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys and help")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.keyboard.press("Control+k")
    expect(page.get_by_role("heading", name="What do you want to know?")).to_be_visible()
    expect(page.get_by_role("textbox", name="Question")).to_be_focused()


def test_choose_a_model(world, visit):  # noqa: F811
    options = [option for name in "ab" for option in scripted(
        world.folder / f"model-{name}", [{"asked": "who are you", **answer(f"This is model {name}.")}], name)]
    server = world.serve(*options)
    ann = person(server)  # noqa: F811
    page = visit.signed_in(server, ann)
    model = page.get_by_label("Model")
    expect(model).to_have_value("a")
    ask(page, "who are you?")
    expect(done(page)).to_contain_text("This is model a.")
    page.keyboard.press("Control+k")
    expect(page.get_by_role("heading", name="What do you want to know?")).to_be_visible()
    model.select_option("b")
    ask(page, "who are you?")
    expect(done(page)).to_contain_text("This is model b.")
    page.wait_for_url("**/chat/*")
    page.reload()
    expect(done(page)).to_contain_text("This is model b.")
    expect(model).to_have_value("b")
    # The same question, to the other one.
    model.select_option("a")
    done(page).get_by_role("button", name="Answer again").click()
    expect(answers(page)).to_contain_text("2 of 2")
    expect(done(page)).to_contain_text("This is model a.")
    # In a browser where nobody has chosen, a chat goes on with its own model.
    other = visit.signed_in(server, ann, page.url)
    done(other)
    expect(other.get_by_label("Model")).to_have_value("b")
    ask(other, "who are you now?")
    expect(done(other, 1)).to_contain_text("This is model b.")


@pytest.fixture(scope="module")
def closed(world):  # noqa: F811
    """A service that one needs an invitation for, and its operator."""
    server = world.serve(*scripted_model(world.folder / "model"), "--signup", "invite")
    code = world.gb("user", "invite", "--data", server.data).out.strip()
    account = server.good("POST", "/auth/signup", {"email": "op@example.com", "password": PASSWORD, "invitation": code}, 201)
    return Person(server, account["access_token"], account)


def test_invitation(closed, visit):  # noqa: F811
    made = closed.good("POST", "/admin/v1/invitations", {}, 201)
    link = made["url"][made["url"].index("/?"):]
    _, page = visit(closed, link)
    expect(page.get_by_role("heading", name="Create an account")).to_be_visible()
    expect(page.get_by_label("Invitation")).to_have_value(made["invitation"])
    page.get_by_label("Invitation").fill("not-" + made["invitation"])
    sign_up(page, "invited@example.com")
    expect(page.locator(".note.bad")).to_be_visible()
    page.get_by_label("Invitation").fill(made["invitation"])
    sign_up(page, "invited@example.com")
    expect(page.get_by_role("heading", name="What do you want to know?")).to_be_visible()
    expect(page).to_have_url(re.compile(r"/$"))  # without the code
    page.get_by_role("button", name="Account").click()
    expect(page.get_by_role("menuitem", name="invited@example.com")).to_be_visible()

    _, late = visit(closed, link)  # it works once
    sign_up(late, "late@example.com")
    expect(late.locator(".note.bad")).to_be_visible()
    assert "late@example.com" not in str(closed.good("GET", "/admin/v1/users"))


def test_api_key(closed, visit):  # noqa: F811
    token = closed.good("POST", "/admin/v1/keys", {"name": "robot"}, 201)["token"]
    _, page = visit(closed)

    def give(key):
        page.get_by_role("button", name="Use an API key").click()
        page.get_by_label("API key").fill(key)
        page.get_by_role("button", name="Use this key").click()

    give(token[:-4] + "AAAA")
    expect(page.get_by_role("alert")).to_be_visible()  # it is not kept
    assert not page.evaluate("localStorage.getItem('glovebox.identity')")
    page.get_by_label("API key").fill(token)
    page.get_by_role("button", name="Use this key").click()
    expect(page.get_by_role("heading", name="What do you want to know?")).to_be_visible()
    ask(page, "hello")
    expect(done(page)).to_contain_text("What do you want to know?")
    page.get_by_role("button", name="Account").click()
    page.get_by_role("menuitem", name="Forget the key").click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    assert token not in page.evaluate("JSON.stringify({ ...localStorage, ...sessionStorage })")


def test_a_sign_in_that_was_ended_elsewhere(server, ann, visit):  # noqa: F811
    page = visit.signed_in(server, ann)
    page.get_by_role("textbox", name="Question").wait_for()
    ann.good("PATCH", "/auth/me", {"password": PASSWORD + "!", "current_password": PASSWORD})
    ask(page, "hello")
    expect(page.get_by_text("You have been signed out")).to_be_visible()
    page.get_by_label("E-mail address").fill(ann.account["email"])
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("The address or the password is wrong")
    page.get_by_label("Password").fill(PASSWORD + "!")
    page.get_by_role("button", name="Sign in", exact=True).click()
    expect(page.get_by_role("heading", name="What do you want to know?")).to_be_visible()


def test_sample_is_ours():
    assert SAMPLE == open(SALES, "rb").read()
