"""Client and Session against a real service."""

import io
import os
import subprocess
import threading
import time
import tracemalloc

import glovebox
import pytest
from conftest import BINARY
from glovebox.local import LocalService

# ---- programs ----


def test_run_gives_a_result(client):
    result = client.run("print('hello')\n6 * 7")
    assert result and result.success and result.status == "ok" and result.exit_code == 0
    assert result.stdout == "hello\n" and result.text == "hello\n42"
    assert result.execution_id.startswith("exec_") and result.session_id is None
    assert result.receipt["stdout"] == "hello\n" and result.usage["processes"] >= 1
    assert result.check() is result


def test_run_over_tcp_and_by_environment(service, monkeypatch):
    monkeypatch.setenv("GLOVEBOX_URL", service.http)
    assert glovebox.run("print(1)").stdout == "1\n"
    assert glovebox.Client(service.http + "/").health()["service"] == "glovebox"


def test_run_takes_what_the_service_takes(client):
    code = "import os, sys\nprint(input(), os.environ['WHO'], __name__)\nsys.exit(3)"
    result = client.run(code, stdin="in\n", env={"WHO": "me"}, script=True, timeout=20,
                        limits={"memory": "256m"})
    assert result.stdout == "in me __main__\n" and result.exit_code == 3
    assert result.reason.startswith("exit code 3")


@pytest.mark.parametrize("code, options, error", [
    ("1 / 0", {}, glovebox.ExecutionError),
    ("import time; time.sleep(60)", {"timeout": 0.2}, glovebox.ExecutionTimeout),
    ("x = bytearray(10**9); print(len(x))", {"limits": {"memory": "100m"}}, glovebox.OutOfMemory),
    ("import os; os.kill(os.getpid(), 9)", {}, glovebox.ExecutionKilled),
])
def test_check_raises_with_the_receipt(client, code, options, error):
    with pytest.raises(error) as caught:
        client.run(code, check=True, **options)
    assert type(caught.value) is error
    assert caught.value.receipt["status"] == caught.value.result.status != "ok"
    assert str(caught.value) == caught.value.result.reason


def test_error_is_told(client):
    result = client.run("print('before')\nundefined")
    assert not result and result.error.name == "NameError" and "before" in result.stdout
    assert result.reason == "NameError: name 'undefined' is not defined"
    assert "NameError" in str(result)


@pytest.mark.parametrize("options", [
    {"timeout": 10**6}, {"timeout": "long"}, {"limits": {"memroy": "1g"}}, {"env": {"A": 1}},
    {"reply_bytes": "many"},
])
def test_refusals_say_what_to_change(client, options):
    with pytest.raises(glovebox.BadRequest) as caught:
        client.run("1", **options)
    assert caught.value.status == 422 and caught.value.kind and caught.value.problem["errors"]


def test_code_that_cannot_be_sent(client):
    with pytest.raises(ValueError):
        client.run(object())
    with pytest.raises(ValueError):
        client.run("1", timeout=float("nan"))


# ---- sessions ----


def test_session_keeps_variables(client):
    with client.session(env={"A": "b"}, files={"in/x.txt": "text"}, memory="256m") as session:
        session.run("import os; x = os.environ['A']", check=True)
        assert session.run("x + open('in/x.txt').read()").text == "'btext'"
        assert session.info()["limits"]["memory"] == 256 * 1024 * 1024
        assert session.keep_alive()["session_id"] == session.id
        assert session.id in {entry["session_id"] for entry in client.sessions()}
    assert session.closed
    session.close()
    with pytest.raises(glovebox.SessionGone) as caught:
        session.run("x")
    assert isinstance(caught.value, LookupError)


def test_what_a_session_knows(client, session):
    session.run("größe = [1, 2]\ndef double(amount): 'Twice.'")
    found = session.complete("x = grö + 1", 7)
    assert found["matches"] == [{"text": "größe", "type": "instance"}] and not found["busy"]
    assert (found["start"], found["end"]) == (4, 7)
    assert [m["text"] for m in session.complete("double(am")["matches"]] == ["amount="]
    assert session.inspect("double")["text"] == "double(amount)\n\nTwice."
    assert not session.inspect("nothing")["found"]
    listed = session.variables()["variables"]
    assert [(v["name"], v["type"]) for v in listed] == [("größe", "list"), ("double", "function")]
    assert listed[0]["shape"] == [2]
    with pytest.raises(glovebox.BadRequest):
        session.complete("x", -1)
    with session.stream("import time\nprint('begun', flush=True)\ntime.sleep(600)") as events:
        for event in events:
            if "begun" in str(event):
                break
        assert session.variables()["busy"] and session.complete("x")["busy"]
        session.interrupt()


def test_attached_sessions_stay(client, session):
    session.run("x = 5")
    with client.attach(session.id) as again:
        assert again.run("x").text == "5"
    assert session.run("x").text == "5"
    with pytest.raises(glovebox.SessionGone):
        client.attach("ses_nope")
    for bad in ("", "..", "."):
        with pytest.raises(ValueError):
            client.attach(bad)


def test_a_file_that_cannot_be_made_ends_the_new_session(client):
    before = len(list(client.sessions()))
    with pytest.raises(ValueError):
        client.session(files={"../x": "y"})
    assert len(list(client.sessions())) == before


def test_commands_and_the_shell(session):
    assert session.command("echo out; echo err >&2; exit 2").exit_code == 2
    session.shell("cd /tmp && export A=1", check=True)
    assert session.shell("pwd; echo $A").stdout == "/tmp\n1\n"
    assert session.command("cat", stdin="in").stdout == "in"
    with pytest.raises(glovebox.ExecutionError):
        session.command("false", check=True)


def test_lost_variables_are_told_once(session):
    session.run("x = 1")
    # A loop in C that SIGINT cannot stop.
    result = session.run("sum(range(10**13))", timeout=3)  # it is in there by then
    assert result.status == "timeout" and result.session_lost and "variables" in result.reason
    with pytest.raises(glovebox.SessionLost) as caught:
        session.run("x")
    assert caught.value.result is result
    assert session.run("'x' in globals()").text == "False"


def test_interrupt_from_another_thread(session):
    stream = session.stream("print('up', flush=True)\nimport time\ntime.sleep(60)")
    kinds = []
    for event in stream:
        kinds.append(event.kind)
        if event.text == "up\n":
            threading.Thread(target=session.interrupt).start()
    assert stream.result.status == "cancelled" and kinds[-1] == "receipt"
    with pytest.raises(glovebox.ExecutionCancelled):
        stream.result.check()


def test_ctrl_c_interrupts_the_execution(service, tmp_path):
    """A program that waits in run() and gets SIGINT leaves nothing that runs."""
    code = (
        "import glovebox, sys\n"
        f"session = glovebox.Session({service.url!r})\n"
        "print(session.id, flush=True)\n"
        "session.run('open(\"up\", \"w\").close()\\nimport time; time.sleep(100)')\n"
    )
    env = {**os.environ, "PYTHONPATH": os.path.dirname(os.path.dirname(glovebox.__file__))}
    process = subprocess.Popen(["/usr/bin/python3", "-c", code], env=env, stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL)
    with process:
        client = glovebox.Client(service.url)
        session = client.attach(process.stdout.readline().decode().strip())
        wait_for(lambda: any(f.path == "up" for f in session.files()))
        process.send_signal(2)
        process.wait(60)
    # The next one would wait in line for a hundred seconds.
    assert session.run("1", timeout=60).text == "1"
    session.close()


def test_threads_share_a_client(client):
    found = []
    threads = [threading.Thread(target=lambda n=n: found.append((n, client.run(f"{n}").text)))
               for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == [(n, str(n)) for n in range(8)]


# ---- streams and broken connections ----


def test_stream_in_order(client):
    with client.stream("print(1)\ndisplay(2)\n3") as stream:
        events = list(stream)
    assert [e.kind for e in events] == ["start", "stdout", "display", "result", "receipt"]
    assert [e.text for e in events[1:4]] == ["1\n", "2", "3"]
    assert events[2].display.data == {"text/plain": "2"} and stream.result.success
    assert stream.execution_id == stream.result.execution_id == events[0].data["execution_id"]


def test_stream_that_is_refused(client, session):
    with pytest.raises(glovebox.BadRequest):
        client.stream("1", timeout=10**6)
    session.close()
    with pytest.raises(glovebox.SessionGone):
        session.stream("1")


def test_leaving_a_stream_leaves_the_execution(client, session):
    with session.stream("print('a', flush=True)\ninput()\n7", stdin="\n") as stream:
        next(stream)
    result = client.receipt(stream.execution_id, wait=120)
    assert result.text == "a\n7"
    assert "".join(client.output(stream.execution_id)) == "a\n"
    assert client.events(stream.execution_id).wait().text == "a\n7"
    with pytest.raises(glovebox.ExecutionGone):
        client.receipt("exec_nope")


CHATTY = "import sys\nfor i in range(3000):\n    print(i)\n    if i % 500 == 0: display(i)\n'end'"


def test_stream_is_picked_up_where_it_broke(breaker):
    client = glovebox.Client(breaker.url)
    breaker.cut(3, 6000)
    stream = client.stream(CHATTY)
    events = list(stream)
    assert breaker.connections >= 4
    text = "".join(event.text for event in events if event.kind == "stdout")
    assert text == "".join(f"{i}\n" for i in range(3000)) == stream.result.stdout
    assert [e.kind for e in events if e.kind not in ("stdout", "display")] == [
        "start", "result", "receipt"]
    assert [e.text for e in events if e.kind == "display"] == [str(i) for i in range(0, 3000, 500)]


def test_run_survives_a_broken_connection(breaker):
    client = glovebox.Client(breaker.url)
    breaker.cut(2, 600)
    assert client.run(CHATTY).result["text/plain"] == "'end'"
    assert breaker.connections >= 3


def test_a_broken_connection_does_not_run_it_twice(breaker, session):
    client = glovebox.Client(breaker.url)
    again = client.attach(session.id)
    client.close()
    breaker.cut(1, 20)  # within the head of the reply: the execution is not known yet
    with pytest.raises(glovebox.ConnectionLost) as caught:
        again.run("open('ran', 'a').write('x')")
    assert caught.value.execution_id is None
    assert session.run("open('ran').read()").text == "'x'"


def test_a_service_that_does_not_come_back(breaker, monkeypatch):
    monkeypatch.setattr(glovebox.stream, "RETURNS", 2)
    client = glovebox.Client(breaker.url)
    stream = client.stream("print(1, flush=True)\nimport time; time.sleep(100)", timeout=30)
    next(stream)
    breaker.refuse = True
    breaker.cut(1, 0)
    stream._reply._connection.sock.shutdown(2)
    with pytest.raises(glovebox.ConnectionLost) as caught:
        list(stream)
    assert caught.value.execution_id == stream.execution_id


def test_much_output_is_not_held(client):
    tracemalloc.start()
    result = client.run("for i in range(300000): print('x' * 100)", reply_bytes=1000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(result.stdout) < 2000 and result.truncated["stdout"] > 30_000_000
    assert peak < 8_000_000
    assert sum(map(len, client.output(result.execution_id))) == 30_300_000


# ---- files ----


def test_files_come_and_go(session, tmp_path):
    (tmp_path / "a.bin").write_bytes(b"\0\1\2")
    assert session.upload(tmp_path / "a.bin").path == "a.bin"
    assert session.upload(str(tmp_path / "a.bin"), "d/with space é.bin").size == 3
    session.upload(io.BytesIO(b"open"), "open.txt")
    assert session.read("d/with space é.bin") == b"\0\1\2"
    assert session.read_text("open.txt") == "open"
    assert {f.path for f in session.files(recursive=True)} == {
        "a.bin", "d", "d/with space é.bin", "open.txt"}
    assert [f.path for f in session.files("d")] == ["d/with space é.bin"]
    assert session.download("a.bin", tmp_path / "b.bin") == 3
    assert (tmp_path / "b.bin").read_bytes() == b"\0\1\2"
    (tmp_path / "in").mkdir()
    session.download("open.txt", tmp_path / "in")
    assert (tmp_path / "in" / "open.txt").read_text() == "open"
    session.move("open.txt", "new/open.txt")
    session.mkdir("empty/one")
    session.delete("d", recursive=True)
    assert {f.path for f in session.files(recursive=True)} == {
        "a.bin", "new", "new/open.txt", "empty", "empty/one"}
    session.archive(tmp_path / "all.tar.gz")
    assert subprocess.run(["gzip", "-t", tmp_path / "all.tar.gz"]).returncode == 0
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.bin", "all.tar.gz", "b.bin", "in"]


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "a/../../b", "", "a//b", ".", "a\0b"])
def test_paths_that_lead_out(session, path):
    for call in (session.read, session.delete, lambda p: session.write(p, b"")):
        with pytest.raises(ValueError):
            call(path)


def test_paths_are_quoted(session):
    name = "a?b#c%2F..%2F\r\nX: y"
    session.write(name, "odd")
    assert session.read(name) == b"odd"
    assert [f.path for f in session.files()] == [name]


def test_names_that_are_not_utf8(session):
    session.run("open(b'\\xff\\xfe', 'w').write('raw')", check=True)
    (file,) = session.files()
    assert file.raw == b"\xff\xfe" and file.size == 3
    for path in (b"\xff\xfe", "\udcff"):
        with pytest.raises(ValueError):
            session.read(path)


def test_missing_and_refused_files(session, tmp_path):
    with pytest.raises(glovebox.NotFound) as caught:
        session.download("nope", tmp_path / "x")
    assert not isinstance(caught.value, glovebox.SessionGone) and not list(tmp_path.iterdir())
    with pytest.raises(FileNotFoundError):
        session.upload(tmp_path / "nope")
    with pytest.raises(ValueError):
        session.upload(io.BytesIO(b""))
    with pytest.raises(TypeError):
        session.upload(io.StringIO("text"), "x")
    session.mkdir("d")
    with pytest.raises(glovebox.RequestError):
        session.write("d", b"x")


def test_too_large_a_file(client):
    with client.session(disk="1m") as session:
        with pytest.raises(glovebox.TooLarge):
            session.upload(io.BytesIO(bytes(4_000_000)), "big")
        assert session.files() == []


class Endless(io.RawIOBase):
    """Bytes without a length, made as they are read."""

    def __init__(self, size):
        self.left = size

    def readable(self):
        return True

    def readinto(self, buffer):
        size = min(len(buffer), self.left)
        buffer[:size] = bytes(size)
        self.left -= size
        return size


class Sink(io.RawIOBase):
    size = 0

    def writable(self):
        return True

    def write(self, data):
        self.size += len(data)
        return len(data)


def test_big_files_need_little_memory(session):
    tracemalloc.start()
    session.upload(Endless(100_000_000), "big")
    sink = Sink()
    assert session.download("big", sink) == sink.size == 100_000_000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8_000_000


def test_download_is_picked_up_where_it_broke(breaker, session):
    data = os.urandom(3_000_000)
    session.write("big", data)
    broken = glovebox.Client(breaker.url).attach(session.id)
    breaker.cut(2, 1_000_000)
    target = io.BytesIO()
    assert broken.download("big", target) == len(data) and target.getvalue() == data
    breaker.cut(10, 100_000)
    with pytest.raises(glovebox.ConnectionLost):
        broken.download("big", io.BytesIO())


# ---- keys ----


def wait_for(condition, seconds=60):
    end = time.monotonic() + seconds
    while True:
        found = condition()
        if found:
            return found
        assert time.monotonic() < end
        time.sleep(0.05)


def run_if_known(client):
    """A service that runs looks for new keys now and then."""
    try:
        return client.run("1")
    except glovebox.NotAllowed:
        return None


def test_keys(tmp_path):
    with LocalService(BINARY, ["--require-key", "--preload", "none", "--pool", "1"]) as service:
        with pytest.raises(glovebox.NotAllowed) as caught:
            glovebox.Client(service.url).run("1")
        assert caught.value.status == 401
        made = subprocess.run([BINARY, "key", "create", "--name", "t", "--data",
                               os.path.join(service.directory, "data")],
                              stdout=subprocess.PIPE, text=True, check=True)
        key = next(word for word in made.stdout.split() if word.startswith("gb_"))
        client = glovebox.Client(service.url, key)
        assert wait_for(lambda: run_if_known(client)).text == "1"
    for bad in ("a\r\nX: y", "a\0b", "é\u4e00"):
        with pytest.raises(ValueError):
            glovebox.Client("http://127.0.0.1:1", bad)
