"""Volumes: what the operator lists can be had, nothing else, and nobody is led out of it."""

import contextlib
import json
import os
import platform
import signal
import subprocess
import threading

import pytest
from conftest import need, process_table, read_proc, wait_for

from serve_kit import serve  # noqa: F401

OWNER, GROUP = 12345, 12346  # of what boxes may write to, where root has to give it to somebody


def give(path):
    """Boxes of root do not write to root's files; those of a user write as that user."""
    if os.getuid() == 0:
        for place, _, names in os.walk(path):
            for name in ["", *names]:
                os.chown(os.path.join(place, name), OWNER, GROUP, follow_symlinks=False)
    return path


@pytest.fixture
def sets(tmp_path):
    """A directory to read, with one in it, a link that leads out, and a neighbour to keep out of."""
    place = tmp_path / "sets"
    (place / "one").mkdir(parents=True)
    (place / "one" / "a.csv").write_text("x,y\n1,2\n")
    (place / "out").symlink_to("../secret")
    (place / "file").write_text("no directory")
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "key").write_text("SECRET")
    (tmp_path / "sets-not").mkdir()
    return give(place)


@pytest.fixture
def results(tmp_path):
    place = tmp_path / "results"
    place.mkdir()
    (place / "old").write_text("kept")
    (place / "old").chmod(0o600)
    return give(place)


@pytest.fixture
def server(serve, sets, results):  # noqa: F811
    return serve("--volume-root", sets, "--volume-root", f"{results}:rw", "--max-sessions", "4")


def volume(source, target, mode=None):
    wanted = {"source": str(source), "target": target}
    return {**wanted, "mode": mode} if mode else wanted


def out(server, session, code):
    receipt = server.run(session, code)
    assert receipt["status"] == "ok", receipt
    return receipt["stdout"].strip()


def writable(server, *volumes, **body):
    """A session that writes; on kernels before 6.3 not every file system lets root's boxes."""
    reply = server.ask("POST", "/v1/sessions", {"volumes": list(volumes), **body})
    if reply.status == 422 and "idmapped" in reply.json["detail"]:
        release = tuple(int(n) for n in platform.release().split("-")[0].split(".")[:2])
        need(release < (6, 3), f"this file system has no idmapped mounts: {reply}")
        pytest.skip("this file system has no idmapped mounts on this kernel")
    assert reply.status == 201, reply
    return reply.json["session_id"]


# ---- reading -----------------------------------------------------------------------------------


def test_reading(server, sets):
    made = server.good("POST", "/v1/sessions", {"volumes": [volume(sets / "one", "/data")]}, 201)
    session = made["session_id"]
    assert made["volumes"] == [{**volume(sets / "one", "/data"), "mode": "ro"}]
    assert server.good("GET", f"/v1/sessions/{session}")["volumes"] == made["volumes"]
    listed = server.good("GET", "/v1/sessions")["sessions"]
    assert [s["volumes"] for s in listed] == [made["volumes"]]
    assert out(server, session, "print(open('/data/a.csv').read())") == "x,y\n1,2"
    for attempt in ("open('/data/new', 'w')", "open('/data/a.csv', 'a')", "os.remove('/data/a.csv')",
                    "os.chmod('/data/a.csv', 0o777)", "os.mkdir('/data/d')", "os.mkdir('/new')"):
        receipt = server.run(session, "import os\n" + attempt)
        assert receipt["status"] == "error" and receipt["error"]["name"] in (
            "OSError", "PermissionError"), receipt
    for shell in (False, True):
        receipt = server.good("POST", f"/v1/sessions/{session}/commands",
                              {"command": "cat /data/a.csv && ! touch /data/x", "shell": shell})
        assert receipt["exit_code"] == 0 and receipt["stdout"] == "x,y\n1,2\n", receipt
    assert sorted(p.name for p in (sets / "one").iterdir()) == ["a.csv"]


def test_the_box_has_its_own_root_and_all_else_in_it(server, sets):
    session = server.session(volumes=[volume(sets, "/mnt/deep/er/sets"), volume(sets, "/home/x")])
    assert out(server, session, "import os\nprint(sorted(os.listdir('/mnt/deep/er/sets')))") == \
        "['file', 'one', 'out']"
    plain = server.session()
    look = ("import os, ssl, socket, subprocess\n"
            "assert socket.gethostbyname('localhost') == '127.0.0.1'\n"
            "assert subprocess.run(['/bin/sh', '-c', 'echo $HOME']).returncode == 0\n"
            "open('/dev/null', 'w').write('x'); open('/tmp/x', 'w'); open('/dev/shm/x', 'w')\n"
            "print(sorted(set(os.listdir('/')) - {'mnt', '.volumes'}),\n"
            "      sorted(os.listdir('/etc')), sorted(os.listdir('/dev')), os.listdir('/root'),\n"
            "      os.readlink('/proc/self'), os.path.exists('/proc/1'), os.getcwd())\n")
    assert out(server, session, look) == out(server, plain, look)


def test_links_lead_nowhere(server, sets, tmp_path):
    """Neither one that the box follows nor one in the source; the box has other files there."""
    session = server.session(volumes=[volume(sets, "/data")])
    code = (f"import os\nprint(os.path.lexists('/data/out'), os.path.exists('/data/out/key'), "
            f"os.path.exists('/data/../secret/key'), os.path.exists({str(tmp_path)!r}))")
    assert out(server, session, code) == "True False False False"
    problem = server.problem(422, "POST", "/v1/sessions",
                             {"volumes": [volume(sets / "out", "/data")]})
    assert problem["type"].endswith("volume-not-available") and "link" in problem["detail"]


def test_mounts_are_nosuid_and_nodev(server, sets, results):
    session = writable(server, volume(sets, "/data"), volume(results, "/results", "rw"))
    mounts = {}
    for line in out(server, session, "print(open('/proc/self/mountinfo').read())").splitlines():
        mounts[line.split()[4]] = line.split()[5].split(",")
    assert {"ro", "nosuid", "nodev"} <= set(mounts["/data"])
    assert {"rw", "nosuid", "nodev"} <= set(mounts["/results"])
    assert "ro" in mounts["/"]


def test_what_is_mounted_beneath_is_there_and_as_read_only(serve, sets):  # noqa: F811
    if os.getuid() != 0:
        pytest.skip("only root can mount something")
    (sets / "one" / "disk").mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "none", sets / "one" / "disk"], check=True)
    try:
        (sets / "one" / "disk" / "b").write_text("beneath")
        server = serve("--volume-root", sets)
        session = server.session(volumes=[volume(sets / "one", "/data")])
        assert out(server, session, "print(open('/data/disk/b').read())") == "beneath"
        receipt = server.run(session, "open('/data/disk/c', 'w')")
        assert "Read-only" in receipt["error"]["value"]
        assert server.stop() == 0
    finally:
        subprocess.run(["umount", sets / "one" / "disk"], check=True)


# ---- writing -----------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["/results", "/workspace/in/results"])
def test_writing(server, results, target):
    session = writable(server, volume(results, target, "rw"))
    code = (f"import os\nos.chdir({target!r})\nprint(open('old').read(), os.stat('old').st_uid)\n"
            "os.mkdir('d'); open('d/new', 'w').write('x' * 100); os.rename('d/new', 'd/b')\n"
            "os.chmod('old', 0o640)\nprint(os.stat('d/b').st_uid, os.stat('d/b').st_gid)")
    assert out(server, session, code) == "kept 1000\n1000 1000"
    receipt = server.good("POST", f"/v1/sessions/{session}/commands",
                          {"command": f"cd {target} && echo from sh > sh && rm d/b"})
    assert receipt["exit_code"] == 0, receipt
    server.good("DELETE", f"/v1/sessions/{session}", status=204)
    assert (results / "sh").read_text() == "from sh\n" and not (results / "d" / "b").exists()
    owner = results.stat()
    for path in (results / "sh", results / "d"):
        assert (path.stat().st_uid, path.stat().st_gid) == (owner.st_uid, owner.st_gid)


def test_two_sessions_share_a_directory(server, results):
    one = writable(server, volume(results, "/results", "rw"))
    two = writable(server, volume(results, "/other", "rw"))
    out(server, one, "open('/results/shared', 'w').write('from one')")
    assert out(server, two, "print(open('/other/shared').read())") == "from one"
    out(server, two, "open('/other/shared', 'a').write(' and two')")
    assert out(server, one, "print(open('/results/shared').read())") == "from one and two"


def test_the_operator_decides_what_auto_is(server, sets, results):
    session = writable(server, volume(sets, "/sets", "auto"), volume(results, "/results", "auto"))
    found = server.good("GET", f"/v1/sessions/{session}")["volumes"]
    assert [v["mode"] for v in found] == ["ro", "rw"]
    out(server, session, "open('/results/x', 'w')")
    assert server.run(session, "open('/sets/x', 'w')")["status"] == "error"


def test_the_workspace_is_something_else(server, results):
    """Neither its quota, nor its files, nor what changed in it."""
    session = writable(server, volume(results, "/workspace/results", "rw"), limits={"disk": "1m"})
    receipt = server.run(session, "open('/workspace/results/big', 'wb').write(b'x' * 900_000)\n"
                                  "open('/workspace/results/more', 'wb').write(b'x' * 900_000)\n"
                                  "open('mine', 'w')")
    assert receipt["status"] == "ok", receipt
    assert [f["path"] for f in receipt["files"]] == ["mine"] and not receipt.get("files_incomplete")
    files = f"/v1/sessions/{session}/files"
    listed = server.good("GET", files + "?recursive=true")
    assert sorted(f["path"] for f in listed["files"]) == ["mine", "results"]
    for method, path in (("GET", "/results/big"), ("PUT", "/results/new"), ("DELETE", "/results/old"),
                         ("DELETE", "/results?recursive=true")):
        reply = server.ask(method, files + path, b"x" if method == "PUT" else None)
        assert 400 <= reply.status < 500, (method, path, reply)
    assert server.ask("GET", f"/v1/sessions/{session}/archive").status in (200, 404)
    assert sorted(p.name for p in results.iterdir()) == ["big", "more", "old"]


def test_root_owned_directories_are_not_written_to(serve, tmp_path):  # noqa: F811
    if os.getuid() != 0:
        pytest.skip("for root only")
    (tmp_path / "roots").mkdir()
    server = serve("--volume-root", f"{tmp_path / 'roots'}:rw")
    wanted = {"volumes": [volume(tmp_path / "roots", "/data", "rw")]}
    problem = server.problem(422, "POST", "/v1/sessions", wanted)
    assert "belongs to root" in problem["detail"] and "chown" in problem["detail"]
    (tmp_path / "roots" / "private").write_text("x")
    (tmp_path / "roots" / "private").chmod(0o600)
    session = server.session(volumes=[volume(tmp_path / "roots", "/data", "ro")])
    assert server.run(session, "open('/data/private')")["error"]["name"] == "PermissionError"


def test_no_set_uid_files_are_left(server, results):
    """They would be those of the directory's owner, for everybody on the host."""
    session = writable(server, volume(results, "/results", "rw"))
    code = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
open('/results/f', 'w')
fd = os.open('/results', os.O_RDONLY)
calls = [lambda: os.chmod('/results/f', 0o4755),
         lambda: os.chmod('f', 0o6755, dir_fd=fd),
         lambda: os.fchmod(os.open('/results/f', os.O_RDWR), 0o4755),
         lambda: os.open('/results/g', os.O_CREAT | os.O_WRONLY, 0o4755),
         lambda: os.mknod('/results/h', 0o104755),
         lambda: libc.syscall(437, fd, b'i', None, 0) == -1 and ctypes.get_errno() == 38 and 1/0]
for n, call in enumerate(calls):
    try:
        call()
        print('done', n)
    except (OSError, ZeroDivisionError):
        pass
os.chmod('/results/f', 0o755)
os.chmod('/results/f', 0o1755)
"""
    assert out(server, session, code) == ""
    for path in results.iterdir():
        assert path.stat().st_mode & 0o4000 == 0, path


# ---- what is refused ---------------------------------------------------------------------------


REFUSED = [
    ("/etc", "/data", None, 403, "operator"),
    ("/", "/data", None, 403, "operator"),
    ("{0}/secret", "/data", None, 403, "operator"),
    ("{0}/sets-not", "/data", None, 403, "operator"),
    ("{0}", "/data", None, 403, "operator"),
    ("{0}/sets", "/data", "rw", 403, "is read-only"),
    ("{0}/sets/../secret", "/data", None, 422, "'..'"),
    ("{0}/sets/./one", "/data", None, 422, "'..'"),
    ("{0}/sets//one", "/data", None, 422, "'..'"),
    ("sets", "/data", None, 422, "absolute"),
    ("{0}/sets/out", "/data", None, 422, "link"),
    ("{0}/sets/out/deeper", "/data", None, 422, "link"),
    ("{0}/sets/file", "/data", None, 422, "not a directory"),
    ("{0}/sets/none", "/data", None, 422, "does not exist"),
    ("{0}/sets", "/", None, 422, "box itself"),
    ("{0}/sets", "/proc/x", None, 422, "box itself"),
    ("{0}/sets", "/usr", None, 422, "box itself"),
    ("{0}/sets", "/etc/x", None, 422, "box itself"),
    ("{0}/sets", "/dev/shm/x", None, 422, "box itself"),
    ("{0}/sets", "/tmp/x", None, 422, "box itself"),
    ("{0}/sets", "/.volumes/0", None, 422, "box itself"),
    ("{0}/sets", "/workspace", None, 422, "/workspace/data"),
    ("{0}/sets", "/workspace/", None, 422, "/workspace/data"),
    ("{0}/sets", "/workspace/../etc", None, 422, "'..'"),
    ("{0}/sets", "data", None, 422, "absolute"),
    ("{0}/sets", "/" + "x" * 255, None, 422, ""),
    ("{0}/sets", "/data\n", None, 422, ""),
    ("{0}/sets", "", None, 422, ""),
    ("{0}/sets", "/data", "rx", 422, ""),
    ("", "/data", None, 422, ""),
]


def test_refused(server, tmp_path):
    for source, target, mode, status, word in REFUSED:
        wanted = [volume(source.format(tmp_path), target, mode)]
        problem = server.problem(status, "POST", "/v1/sessions", {"volumes": wanted})
        assert word in problem["detail"] + json.dumps(problem.get("errors")), problem
        assert "SECRET" not in json.dumps(problem)
    assert server.good("GET", "/v1/sessions")["sessions"] == []


def test_refused_lists(server, sets):
    one = volume(sets, "/data")
    for wanted in ([one, one], [one, volume(sets, "/data/in")], [volume(sets, "/data/in"), one],
                   [volume(sets, f"/data{n}") for n in range(17)], [one, "/data"], {"a": "b"}, "x",
                   [{"source": str(sets)}], [{**one, "more": 1}], [{**one, "source": 5}]):
        server.problem(422, "POST", "/v1/sessions", {"volumes": wanted})
    assert server.good("POST", "/v1/sessions", {"volumes": []}, 201)["volumes"] == []
    names = [f"/data{n}" for n in range(16)]
    session = server.session(volumes=[volume(sets, name) for name in names])
    code = f"import os\nprint(all(os.path.isfile(d + '/file') for d in {names}))"
    assert out(server, session, code) == "True"


def test_nothing_is_taken_by_what_was_refused(server, sets):
    for _ in range(8):  # more than there may be sessions
        server.problem(422, "POST", "/v1/sessions", {"volumes": [volume(sets / "none", "/data")]})
    made = [server.session(volumes=[volume(sets, "/data")]) for _ in range(4)]
    server.problem(429, "POST", "/v1/sessions", {})
    assert len(made) == 4


def test_without_an_operators_word_there_are_none(serve, sets):  # noqa: F811
    server = serve()
    problem = server.problem(403, "POST", "/v1/sessions", {"volumes": [volume(sets, "/data")]})
    assert "--volume-root" in problem["detail"]
    assert server.good("GET", "/v1/limits")["volumes"] == []


def test_what_may_be_had_is_shown(server, sets, results):
    assert server.good("GET", "/v1/limits")["volumes"] == [
        {"source": str(sets), "mode": "ro"}, {"source": str(results), "mode": "rw"}]


def test_a_link_that_comes_and_goes(server, sets, tmp_path):
    """A directory and a link to somewhere else take turns at one name: the box has the directory,
    or there is none."""
    (sets / "turn").mkdir()
    (sets / "turn" / "a").write_text("inside")
    (sets / "link").symlink_to(tmp_path / "secret")
    stop = threading.Event()

    def turn():
        while not stop.is_set():
            with contextlib.suppress(OSError):
                os.rename(sets / "turn", sets / "held")
                os.rename(sets / "link", sets / "turn")
                os.rename(sets / "turn", sets / "link")
                os.rename(sets / "held", sets / "turn")

    thread = threading.Thread(target=turn)
    thread.start()
    try:
        for _ in range(40):
            reply = server.ask("POST", "/v1/sessions", {"volumes": [volume(sets / "turn", "/data")]})
            if reply.status == 422:
                continue
            assert reply.status == 201, reply
            session = reply.json["session_id"]
            assert out(server, session, "import os\nprint(os.listdir('/data'))") == "['a']"
            server.good("DELETE", f"/v1/sessions/{session}", status=204)
    finally:
        stop.set()
        thread.join()
    session = server.session(volumes=[volume(sets / "turn", "/data")])
    assert out(server, session, "print(open('/data/a').read())") == "inside"


# ---- the operator's list -----------------------------------------------------------------------


@pytest.mark.parametrize("roots, word", [
    (["/"], "whole machine"),
    (["/proc"], "kernel"),
    (["/sys/kernel"], "kernel"),
    (["/dev"], "kernel"),
    (["{0}/none"], "No such file"),
    (["{0}/sets/file"], "not a directory"),
    (["{0}/sets/../sets"], "'..'"),
    (["sets"], "absolute"),
    (["{0}/sets", "{0}/sets/one:rw"], "contain each other"),
    (["{0}/sets", "{0}/sets/"], "contain each other"),
])
def test_lists_that_are_refused(gb, sets, tmp_path, roots, word):
    options = [o for root in roots for o in ("--volume-root", root.format(tmp_path))]
    r = gb("serve", "--listen", "127.0.0.1:0", "--data", tmp_path / "data", *options)
    assert r.code == 2 and word in r.err, r
    assert r.err.count("\n") == 1


def test_the_operators_own_path_may_be_a_link(serve, sets, tmp_path):  # noqa: F811
    (tmp_path / "alias").symlink_to(sets)
    server = serve("--volume-root", f"{tmp_path / 'alias'}/")
    session = server.session(volumes=[volume(tmp_path / "alias" / "one", "/data/")])
    assert out(server, session, "print(open('/data/a.csv').read())") == "x,y\n1,2"
    server.problem(403, "POST", "/v1/sessions", {"volumes": [volume(sets / "one", "/data")]})


def test_a_list_in_the_environment(serve, sets, results):  # noqa: F811
    server = serve(env={"GLOVEBOX_VOLUME_ROOT": f"{sets},{results}:rw"})
    assert [v["mode"] for v in server.good("GET", "/v1/limits")["volumes"]] == ["ro", "rw"]


# ---- what dies, what stays ---------------------------------------------------------------------


def builders(server):
    """Those of the server: its children by that name which are no PID 1, as those of boxes are."""
    found = []
    for pid, (ppid, state, name) in process_table().items():
        if ppid == server.process.pid and name == "glovebox-build" and state != "Z":
            numbers = read_proc(pid, "status").partition(b"NSpid:")[2].partition(b"\n")[0].split()
            if numbers and numbers[-1] != b"1":
                found.append(pid)
    return found


def one_builder(server):
    """What it clones has its name until it executes something."""
    found = builders(server)
    return found if len(found) == 1 else None


def test_a_new_builder(server, sets, tmp_path):
    old = server.session(volumes=[volume(sets, "/data")])
    (pid,) = wait_for(lambda: one_builder(server), what="one builder and none in the making")
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: pid not in builders(server), what="the builder's end")
    assert out(server, old, "print(open('/data/file').read())") == "no directory"
    receipt = server.good("POST", f"/v1/sessions/{old}/commands", {"command": "cat /data/file"})
    assert receipt["stdout"] == "no directory"
    new = server.session(volumes=[volume(sets / "one", "/data")])
    assert out(server, new, "print(open('/data/a.csv').read())") == "x,y\n1,2"
    # A directory that was replaced is not the operator's any more.
    sets.rename(tmp_path / "moved")
    (tmp_path / "sets").mkdir()
    (pid,) = wait_for(lambda: one_builder(server), what="one builder and none in the making")
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: pid not in builders(server), what="the builder's end")
    problem = server.problem(422, "POST", "/v1/sessions", {"volumes": [volume(sets, "/data")]})
    assert "replaced" in problem["detail"]
    assert out(server, server.session(), "print(1)") == "1"
    assert out(server, new, "print(open('/data/a.csv').read())") == "x,y\n1,2"


def test_a_lost_interpreter_keeps_its_volumes(server, sets):
    session = server.session(volumes=[volume(sets, "/data")])
    assert server.run(session, "import os; os._exit(3)")["session_lost"]
    receipt = server.run(session, "print(open('/data/file').read())", accept_loss=True)
    assert receipt["stdout"] == "no directory\n"


def test_the_directory_can_go_while_a_box_has_it(server, sets):
    session = server.session(volumes=[volume(sets / "one", "/data")])
    (sets / "one" / "a.csv").unlink()
    (sets / "one").rmdir()
    assert out(server, session, "import os\nprint(os.listdir('/data'))") == "[]"


def test_the_audit_log_has_them(gb, server, sets):
    session = server.session(volumes=[volume(sets, "/data")])
    out(server, session, "print(1)")
    out(server, server.session(), "print(2)")
    assert server.stop() == 0
    r = gb("audit", "show", "--json", "--data", server.data)
    entries = json.loads(r.out)["entries"]
    assert [e.get("volumes") for e in entries] == [[{**volume(sets, "/data"), "mode": "ro"}], None]
    assert gb("audit", "verify", "--data", server.data).code == 0
    assert "with volumes" in server.log.read_text()


# ---- glovebox run ------------------------------------------------------------------------------


def test_run(gb, sets, results, tmp_path):
    r = gb("run", "--volume", "sets:/data", "-c", "print(open('/data/file').read())", cwd=tmp_path)
    assert (r.code, r.out) == (0, "no directory\n"), r
    r = gb("run", "--volume", f"{sets}:/data", "-c", "open('/data/x', 'w')")
    assert r.code == 1 and "Read-only" in r.err
    tmp_path.chmod(0o755)
    r = gb("run", "--volume", f"{tmp_path}:/all", "--volume", f"{results}:/results:rw", "-c",
           "open('/results/run', 'w').write('x'); print(open('/all/results/run').read())")
    if r.code == 125 and "idmapped" in r.err:
        pytest.skip("this file system has no idmapped mounts on this kernel")
    assert (r.code, r.out) == (0, "x\n"), r
    assert (results / "run").stat().st_uid == results.stat().st_uid
    # The files of the run are those of the workspace.
    r = gb.receipt("open('/data/x', 'w')", "--volume", f"{results}:/data:rw")
    assert r["status"] == "ok" and r["files"] == []


@pytest.mark.parametrize("given, word", [
    ("{0}/none:/data", "No such file"), ("{0}/sets/file:/data", "not a directory"),
    ("{0}/sets:/usr/x", "box itself"), ("{0}/sets:/", "box itself"), ("/:/data", "whole machine"),
    ("/proc:/data", "kernel"), ("{0}/sets", "DIR:PLACE"), (":/data", "DIR:PLACE"),
    ("{0}/sets:/data/../x", "'..'"), ("{0}/sets:data", "DIR:PLACE"),
    ("{0}/sets:/data:rx", ""),
])
def test_run_refuses(gb, sets, tmp_path, given, word):
    r = gb("run", "--volume", given.format(tmp_path), "-c", "print(1)")
    if given.endswith(":rx"):  # a colon is as good a letter as any in a name
        assert r.code == 0
        return
    assert r.code == 2 and word in r.err and r.err.count("\n") == 1, r
