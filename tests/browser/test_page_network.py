"""Networks that are slow or break, and a server that is restarted: while an answer comes, in a terminal, during an upload."""

import re
import signal

import pytest

from page_kit import cell, expect, run_cell, screen_text, terminal, visit, world  # noqa: F401 isort:skip
from breaker import Breaker
from mark_kit import answer, person
from stage import scripted_model

STORY = [{"asked": "long story", "piece_ms": 5, **answer("Word after word. " * 150 + "The end.")}]
ENDLESS = [{"asked": "long story", "piece_ms": 1000, **answer("Word after word. " * 2000)}]


@pytest.fixture(scope="module")
def server(world):  # noqa: F811
    return world.serve(*scripted_model(world.folder / "model", STORY))


@pytest.fixture(scope="module")
def ann(server):
    return person(server)


def ask(page, question):
    box = page.get_by_role("textbox", name="Question").last
    box.fill(question)
    box.press("Enter")


def throttle(visitor, page, **how):
    control = visitor.context.new_cdp_session(page)
    control.send("Network.enable")
    control.send("Network.emulateNetworkConditions",
                 {"offline": False, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1, **how})


@pytest.fixture
def breaker(server):
    """What stands between the page and the server; visit(breaker, …) goes through it."""
    made = Breaker(server.port)
    yield made
    made.close()


def events_of(visitor, what):
    return [url for url in visitor.requests if re.search(rf"/{what}/[^/]+/events$", url)]


def test_broken_while_an_answer_comes(breaker, ann, visit):  # noqa: F811
    """The stream of the question is cut, then the one that follows it."""
    visitor, page = visit(breaker, "/", ann)
    page.get_by_role("textbox", name="Question").wait_for()
    breaker.cut(r"POST /api/v1/chat |GET /api/v1/messages/[^/]+/events ", after=2500, times=2)
    ask(page, "Tell a long story")
    one = page.get_by_role("article", name="Answer")
    expect(one).to_contain_text("The end.")
    expect(one).to_have_attribute("aria-busy", "false")
    assert one.locator(".story").inner_text().count("Word") == 150  # nothing twice, nothing missing
    expect(one).to_contain_text(re.compile("The connection broke (once|2 times) meanwhile; nothing is missing"))
    assert breaker.cuts == 2 and len(events_of(visitor, "messages")) >= 2
    assert len([url for url in visitor.requests if url.endswith("/api/v1/chat")]) == 1  # the question is not sent twice
    page.reload()
    expect(page.get_by_role("article", name="Answer")).to_have_count(1)
    expect(page.get_by_role("article", name="Answer")).to_contain_text("The end.")


def test_question_that_does_not_arrive(server, ann, visit):  # noqa: F811
    visitor, page = visit(server, "/", ann)
    page.get_by_role("textbox", name="Question").wait_for()
    page.route("**/api/v1/chat", lambda route: route.abort("connectionreset"))
    ask(page, "hello")
    expect(page.get_by_role("alert").first).to_contain_text("Nothing was lost")
    page.unroute("**/api/v1/chat")
    page.get_by_role("button", name="Send again").click()
    expect(page.get_by_role("article", name="Answer").last).to_contain_text("What do you want to know?")


def test_slow(server, ann, visit):  # noqa: F811
    """400 ms and 60 KB/s: the page comes, an upload shows its progress and can be called off, an answer arrives."""
    visitor, page = visit(server, "/settings", ann)
    throttle(visitor, page, latency=400, downloadThroughput=60_000, uploadThroughput=60_000)
    page.goto("/")
    page.get_by_role("textbox", name="Question").wait_for()
    file = {"name": "slow.csv", "mimeType": "text/csv", "buffer": b"a,b\n" + b"1,2\n" * 100_000}
    page.get_by_label("Files to attach").set_input_files(file)
    expect(page.get_by_role("progressbar", name="Upload of slow.csv")).to_be_visible()
    expect(page.get_by_role("button", name="Send")).to_be_disabled()
    page.get_by_role("button", name="Remove slow.csv").click()
    expect(page.get_by_role("progressbar")).to_have_count(0)
    ask(page, "hello")
    expect(page.get_by_role("article", name="Answer")).to_contain_text("What do you want to know?")


def test_upload_that_breaks(server, ann, visit):  # noqa: F811
    visitor, page = visit(server, "/", ann)
    page.get_by_role("textbox", name="Question").wait_for()
    page.route("**/api/v1/attachments", lambda route: route.abort("connectionreset"))
    page.get_by_label("Files to attach").set_input_files({"name": "lost.csv", "mimeType": "text/csv", "buffer": b"a\n1\n"})
    files = page.get_by_role("list", name="Files for the next question")
    expect(files).to_contain_text("cannot be reached")
    page.unroute("**/api/v1/attachments")
    page.get_by_role("button", name="Remove lost.csv").click()
    page.get_by_label("Files to attach").set_input_files({"name": "found.csv", "mimeType": "text/csv", "buffer": b"a\n1\n"})
    expect(files).to_contain_text("1 row")


def test_broken_while_a_cell_runs(breaker, ann, visit):  # noqa: F811
    visitor, page = visit(breaker, "/play", ann)
    run_cell(page, 1, "print('ready')")
    breaker.cut(r"GET /v1/executions/[^/]+/events ", after=1500, times=2)
    before = len(events_of(visitor, "executions"))
    out = run_cell(page, 2, "import time\nfor i in range(200):\n    print('line', i, flush=True)\n    time.sleep(.005)\nprint('all of it')")
    expect(out).to_contain_text("all of it")
    assert re.findall(r"line (\d+)", out.inner_text()) == [str(i) for i in range(200)]
    assert breaker.cuts == 2 and len(events_of(visitor, "executions")) - before >= 3


def test_broken_while_a_terminal_prints(breaker, ann, visit):  # noqa: F811
    """The socket is cut twice while numbers come; each is on the screen once."""
    visitor, page = visit(breaker, "/play", ann)
    run_cell(page, 1, "1")
    breaker.cut(r"GET /v1/sessions/[^/]+/terminals/[^/]+/stream", after=900, times=2)
    page.get_by_role("group", name="Panels").get_by_role("button", name="Terminal").click()
    frame, text = terminal(page)
    frame.locator(".xterm").click()
    page.keyboard.type("clear; for i in $(seq 1 200); do echo -n $i,; sleep .005; done; echo all of it\n")
    expect(text).to_contain_text("200,all")  # the command that was typed has other words around it
    assert ",".join(map(str, range(1, 201))) + ",all of it" in screen_text(text).replace("\n", "")
    assert breaker.cuts == 2
    assert len([url for url in visitor.requests if "/stream" in url]) >= 3
    page.keyboard.type("echo works $((40 + 2))\n")
    expect(text).to_contain_text("works 42")


def test_terminal_comes_back(server, ann, visit):  # noqa: F811
    visitor, page = visit(server, "/play", ann)
    run_cell(page, 1, "1")
    page.get_by_role("group", name="Panels").get_by_role("button", name="Terminal").click()
    frame, text = terminal(page)
    frame.locator(".xterm").click()
    page.keyboard.type("here=$((40 + 2))\n")
    page.reload()
    frame, text = terminal(page)
    frame.locator(".xterm").click()
    page.keyboard.type("echo still $here\n")
    expect(text).to_contain_text("still 42")
    expect(text).to_contain_text("here=")  # what was on the screen before


def test_old_questions_of_programs_are_not_answered_again(server, ann, visit):  # noqa: F811
    """What a program asked the terminal is in the output that is shown again after a reload; the answer is not typed at
    the prompt."""
    visitor, page = visit(server, "/play", ann)
    run_cell(page, 1, "1")
    page.get_by_role("group", name="Panels").get_by_role("button", name="Terminal").click()
    frame, text = terminal(page)
    frame.locator(".xterm").click()
    page.keyboard.type(r"printf '\033[c'; read -rsd c answer; echo got ${#answer} bytes" + "\n")
    expect(text).to_contain_text(re.compile(r"got\s[1-9]"))  # the first time it is
    page.reload()
    frame, text = terminal(page)
    frame.locator(".xterm").click()
    page.keyboard.type("echo 'works' $((40 + 2))\n")
    expect(text).to_contain_text("works 42")
    assert "$ echo 'works'" in screen_text(text), screen_text(text)


def test_restart(world, visit):  # noqa: F811
    """The page notices, tries again by itself, and goes on where it was."""
    options = scripted_model(world.folder / "model", STORY)
    server = world.serve(*options)
    ann = person(server)
    visitor, page = visit(server, "/", ann)
    ask(page, "hello")
    expect(page.get_by_role("article", name="Answer")).to_contain_text("What do you want to know?")
    _, play = visit(server, "/play", ann)
    run_cell(play, 1, "n = 1\nprint('kept', n)")
    server.stop()
    ask(page, "hello again")
    expect(page.get_by_role("alert").filter(has_text="Trying again")).to_be_visible()
    world.restart(server, *options)
    expect(page.get_by_role("alert").filter(has_text="Trying again")).to_have_count(0)
    page.reload()
    expect(page.get_by_role("article", name="Answer").first).to_contain_text("What do you want to know?")
    ask(page, "hello once more")
    expect(page.get_by_role("article", name="Answer").last).to_contain_text("What do you want to know?")
    # The box is gone, and the notebook is not: it says so, and a new box takes its place.
    editor_says = play.get_by_role("alert").filter(has_text=re.compile("gone|ended"))
    expect(editor_says).to_be_visible()
    play.get_by_role("button", name="Start a new one and run all").click()
    expect(cell(play, 1).get_by_label("Receipt")).to_contain_text("Done")
    expect(cell(play, 1)).to_contain_text("kept 1")


@pytest.mark.parametrize("sig, words", [(signal.SIGTERM, "shut down before this answer was complete"),
                                        (signal.SIGKILL, "I was interrupted before I could answer")])
def test_restart_in_the_middle(world, visit, sig, words):  # noqa: F811
    """An answer, a cell and a terminal are under way when the server goes: the page says of each what became of it, by itself."""
    server = world.serve(*scripted_model(world.folder / "model", ENDLESS))
    ann = person(server)
    page = visit.signed_in(server, ann)
    ask(page, "Tell a long story")
    one = page.get_by_role("article", name="Answer")
    expect(one).to_contain_text("Word")
    play = visit.signed_in(server, ann, "/play")
    run_cell(play, 1, "1")
    play.get_by_role("group", name="Panels").get_by_role("button", name="Terminal").click()
    terminal(play)
    if sig == signal.SIGKILL:  # a service that is told to stop waits for what runs
        run_cell(play, 2, "import time\nprint('begun', flush=True)\ntime.sleep(600)", wait=False)
        expect(cell(play, 2)).to_contain_text("begun")
    world.restart(server, *scripted_model(world.folder / "model", STORY), sig=sig)
    # Mark: an answer that was interrupted, and another one for the same question.
    expect(one).to_contain_text(words)
    expect(one).to_have_attribute("aria-busy", "false")
    one.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("article", name="Answer").last).to_contain_text("The end.")
    expect(page.get_by_role("article", name="Answer").last).to_contain_text("2 of 2")
    # The playground: the box ended, and with it the run and the terminal.
    expect(play.get_by_role("alert").filter(has_text="the notebook is all here")).to_be_visible()
    if sig == signal.SIGKILL:
        expect(cell(play, 2).get_by_role("alert")).to_contain_text("The server no longer knows this run")
        expect(cell(play, 2)).to_have_attribute("aria-busy", "false")
        expect(cell(play, 2)).to_contain_text("begun")  # what was printed stays
    expect(play.get_by_role("complementary", name="Terminal")).to_contain_text("The terminals ended with their box")
    play.get_by_role("button", name="Only start a new one").click()
    terminal(play)
    expect(run_cell(play, 1, "print('works again')")).to_contain_text("works again")
