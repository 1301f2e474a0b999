"""
The HTTP dialects: the simple API's packages, the code-session API, the locals API, each as its
clients send and read it.
"""

import json
import re
import threading
import urllib.parse

from conftest import wait_for
from serve_kit import serve, server, wait_running  # noqa: F401

CSV = "A,B\n1,4\n2,5\n3,6\n"


def form(content, filename="file", field="file", extra=()):
    """A multipart body as the requests library makes it, and its Content-Type."""
    boundary = "0b47e3a9d4c5f6a7"
    parts = [*extra, (field, filename, content)]
    body = b""
    for name, file, data in parts:
        file = "" if file is None else '; filename="%s"' % file
        body += ('--%s\r\nContent-Disposition: form-data; name="%s"%s\r\n\r\n'
                 % (boundary, name, file)).encode()
        body += (data.encode() if isinstance(data, str) else data) + b"\r\n"
    return body + b"--%s--\r\n" % boundary.encode(), "multipart/form-data; boundary=" + boundary


class CodeSession:
    """What a client of the code-session API does: five calls, each giving the decoded reply."""

    def __init__(self, server, label=None):
        self.server = server
        self.headers = {"X_Session_Id": label} if label else {}

    def ask(self, method, path, body=None, **headers):
        return self.server.ask(method, path, body, **self.headers, **headers)

    def upload(self, name, content, **kwargs):
        body, kind = form(content, **kwargs)
        return self.ask("POST", "/uploadfile/" + urllib.parse.quote(name, safe="/"), body,
                        Content_Type=kind)

    def upload_file(self, name, content):
        return self.upload(name, content).json

    def get_files(self):
        return self.ask("GET", "/files/").json

    def download_file(self, name):
        return self.ask("GET", "/downloadfile/" + urllib.parse.quote(name)).json

    def execute(self, code):
        return self.ask("POST", "/execute_code/", {"code": code}, Content_Type="application/json")

    def execute_code(self, code):
        return self.execute(code).json

    def names(self, code):
        reply = self.execute(code)
        assert reply.status == 200, reply
        assert isinstance(reply.json, str)
        return json.loads(reply.json)

    def clear_state(self):
        return self.ask("GET", "/clear_state/").json

    def failed(self, code):
        """A 400 that carries both shapes."""
        reply = self.execute(code)
        assert reply.status == 400, reply
        return both_shapes(reply)


def both_shapes(reply):
    found = reply.json
    assert found["detail"] == found["error"] and found["success"] is False, found
    assert isinstance(found["error_type"], str) and isinstance(found["traceback"], str)
    return found


# ---- simple ----


def test_pip_install(serve):
    """Without any index; test_packages.py installs."""
    server = serve("--index-url", "none", env={"PIP_CONFIG_FILE": "/dev/null", "PIP_FIND_LINKS": None})
    for body in ({"package": "requests", "version": "latest"}, {"package": "numpy"},
                 {"package": "uvicorn[standard, x]", "version": "1!2.0rc1+local.7", "odd": 1}):
        found = server.good("POST", "/pip_install", body)
        assert set(found) == {"success", "message", "installed_version", "installation_time"}
        assert found["success"] is False and found["installed_version"] is None
        assert "no package index" in found["message"] and found["installation_time"] >= 0
    session = server.session()
    server.good("POST", "/pip_install/", {"package": "a", "session_id": session})
    server.problem(404, "POST", "/pip_install", {"package": "a", "session_id": "nope"})
    for body in ({}, {"package": 1}, {"package": ""}, {"package": "a b"}, {"package": "-e ."},
                 {"package": "../x"}, {"package": "a/b"}, {"package": "requests==2.0"},
                 {"package": "a[b"}, {"package": "a[]"}, {"package": "a."}, {"package": "x" * 300},
                 {"package": "git+https://x/y"}, {"package": "é"},
                 {"package": "a", "version": "; rm"}, {"package": "a", "version": ">=2"},
                 {"package": "a", "version": 2}, {"package": "a", "version": "newest"}):
        server.problem(422, "POST", "/pip_install", body)
    server.problem(400, "POST", "/pip_install", "x")


# ---- code-session ----


def test_the_five_calls(server):
    session = CodeSession(server)
    assert session.get_files() == {"files": []}
    assert session.upload_file("df", CSV) == {"message": "File df has been uploaded"}
    assert session.get_files() == {"files": ["df"]}
    records = session.download_file("df")
    assert isinstance(records, str)
    assert json.loads(records) == [{"A": 1, "B": 4}, {"A": 2, "B": 5}, {"A": 3, "B": 6}]
    assert session.execute_code("result = df['A'].sum()") == '{"result": "6"}'
    assert session.names("df['C'] = df['A'] * 2") == {}
    assert json.loads(session.download_file("df"))[2] == {"A": 3, "B": 6, "C": 6}
    assert session.names("part = df[['A']]") == {"part": '{"A":{"0":1,"1":2,"2":3}}'}
    assert session.get_files() == {"files": ["df"]}  # uploads only
    assert session.download_file("unknown") == "[]"
    assert session.clear_state() == {"message": "State has been cleared"}
    assert session.get_files() == {"files": []}
    assert session.download_file("df") == "[]"
    assert "df" in session.failed("df")["detail"]
    # Nothing of ours stays in the workspace.
    sessions = server.good("GET", "/v1/sessions")["sessions"]
    assert len(sessions) == 1
    files = server.good("GET", f"/v1/sessions/{sessions[0]['session_id']}/files?recursive=true")
    assert files["files"] == []


def test_values(server):
    session = CodeSession(server)
    found = session.names(
        "a, b, c, d = 1, 2.5, 'é', True\ne = None\nf = (1, 2)\ng = [1, (2, None), {3}]\n"
        "h = {1: float('nan')}\ni = 2 ** 200\nj = {1}\nk = object\nl = [1]\nl.append(l)\n"
        "class A:\n    def __str__(self): raise ValueError('no')\nm = A()")
    assert found.pop("A").startswith("<class ")
    assert found == {
        "a": 1, "b": 2.5, "c": "é", "d": True, "e": "None", "f": "(1, 2)",
        "g": [1, [2, None], "{3}"], "h": {"1": "nan"}, "i": 2**200, "j": "{1}",
        "k": "<class 'object'>", "l": [1, "[1, [...]]"],
        "m": "<A object, whose str() failed: ValueError: no>"}
    assert session.names("a = 1") == {"a": 1}
    assert session.names("print('x')\na") == {}
    assert session.names("") == {}
    assert session.names("def f():\n    return a + n\nn = 2\nr = f()")["r"] == 3


def test_errors(server):
    session = CodeSession(server)
    found = session.failed("x = 1\n1 / 0")
    assert found["detail"] == "division by zero" and found["error_type"] == "ZeroDivisionError"
    assert found["traceback"].startswith("Traceback")
    assert re.search(r'File "<cell \d+>", line 2', found["traceback"])
    assert session.failed("nothing")["detail"] == "name 'nothing' is not defined"
    assert session.failed("assert False")["detail"] == "AssertionError"
    assert session.failed("x = ")["error_type"] == "SyntaxError"
    found = session.failed("import sys\nsys.exit(3)")
    assert found["error_type"] == "SystemExit" and "3" in found["detail"]
    found = session.failed("big = 'x' * (10 << 20)")
    assert found["error_type"] == "ValueError" and "big cannot be returned" in found["detail"]
    assert session.names("part = len(big)") == {"part": 10 << 20}
    reply = session.execute("print('seen')\n1 / 0")
    execution = reply.headers["X-Execution-Id"]
    assert server.good("GET", f"/v1/executions/{execution}")["stdout"] == "seen\n"
    for body in ({}, {"code": None}, "", {"local_dict": {}}, {"code": "", "local_dict": None}):
        reply = server.ask("POST", "/execute_code/", body)
        assert reply.status == 400
        assert both_shapes(reply)["detail"] == "No code provided in request body"
    for status, body in ((400, "x"), (400, '{"code"'), (422, []), (422, {"code": 1}),
                         (422, {"code": "1", "local_dict": [1]}), (422, {"code": "#" * (9 << 20)}),
                         (413, json.dumps({"code": "#" * (30 << 20)})),
                         (400, '{"code": "1", "local_dict": {"a": NaN}}')):
        reply = server.ask("POST", "/execute_code/", body)
        assert reply.status == status, reply
        both_shapes(reply)


def test_bad_uploads(server):
    session = CodeSession(server, "bad")
    reply = session.upload("df", "")
    assert reply.status == 400 and reply.json == {"detail": "No columns to parse from file"}
    reply = session.upload("df", b"\xff\xfe\x00\x01,\x80\n")
    assert reply.status == 400 and "codec can't decode" in reply.json["detail"]
    reply = session.upload("df", "a,b\n1\n2,3,4,5\n")
    assert reply.status == 400 and "Error tokenizing data" in reply.json["detail"]
    for name in ("1x", "a b", "a/b", "a-b", "a.csv", "a%b", "x" * 300):
        reply = session.upload(name, CSV)
        assert reply.status == 400 and "identifier" in reply.json["detail"], reply
    for name in ("class", "None", "__builtins__", "€"):
        reply = session.upload(name, CSV)
        assert reply.status == 400 and "variable" in reply.json["detail"], reply
    assert session.upload("größe", CSV).status == 200
    assert session.names("n = len(größe)") == {"n": 3}
    assert len(json.loads(session.download_file("größe"))) == 3
    # The part may lack a filename, and have others beside it.
    assert session.upload("df", CSV, filename=None, extra=[("x", None, "y"), ("y", "z", "")]).status == 200
    assert session.get_files() == {"files": ["größe", "df"]}
    for body, kind, status in (
            (*form(CSV, field="data"), 422), (b"", "multipart/form-data; boundary=x", 400),
            (CSV.encode(), "text/csv", 415), (form(CSV)[0][:-20], form(CSV)[1], 400),
            (*form(CSV, extra=[("file", "a", "b")]), 422)):
        reply = session.ask("POST", "/uploadfile/df", body, Content_Type=kind)
        assert reply.status == status and reply.json["detail"], reply
    session.names("del df")
    assert session.get_files() == {"files": ["größe"]} and session.download_file("df") == "[]"
    session.names("größe = 5")
    assert session.get_files() == {"files": []} and session.download_file("größe") == "[]"


def test_a_large_table(serve):
    server = serve("--memory", "1g", "--default-timeout", "120")
    session = CodeSession(server)
    rows = 400000
    assert session.upload("df", "n,text\n" + "".join("%d,some words\n" % i for i in range(rows))
                          ).status == 200
    assert session.names("n = len(df)") == {"n": rows}
    assert len(json.loads(session.download_file("df"))) == rows  # more than a bundle holds
    assert "cannot be returned" in session.failed("copy = df")["detail"]


def test_more_than_fits(serve):
    server = serve("--session-disk", "8m")
    reply = CodeSession(server).upload("df", b"a,b\n" * (4 << 20))
    assert reply.status == 413 and "detail" in reply.json


def test_labels(serve):
    server = serve()
    one, two, default = CodeSession(server, "one"), CodeSession(server, "Two.2_x-y"), CodeSession(server)
    one.names("x = 1")
    two.names("x = 2")
    default.names("x = 3")
    assert [s.names("y = x")["y"] for s in (one, two, default)] == [1, 2, 3]
    assert len(server.good("GET", "/v1/sessions")["sessions"]) == 3
    assert "shared-session" in server.log.read_text()
    one.clear_state()
    assert two.names("y = x") == {"y": 2}
    assert "x" in one.failed("x")["detail"]
    for label in ("a b", "x" * 65, "ä", "a/b", ""):
        for method, path in (("POST", "/execute_code/"), ("GET", "/files/"), ("GET", "/clear_state"),
                             ("GET", "/downloadfile/a")):
            reply = server.ask(method, path, '{"code": "1"}' if method == "POST" else None,
                               X_Session_Id=label.encode() if label == "ä" else label)
            assert reply.status == 400 and "X-Session-Id" in reply.json["detail"], reply
    # A session of /v1 by its id.
    session = server.session()
    server.run(session, "x = 'v1'")
    by_id = CodeSession(server, session)
    assert by_id.names("y = x") == {"y": "v1"}
    assert by_id.clear_state() == {"message": "State has been cleared"}
    assert "x" in by_id.failed("x")["detail"]
    assert server.run(session, "1")["status"] == "ok"
    server.good("DELETE", f"/v1/sessions/{session}", status=204)
    reply = by_id.execute("1")
    assert reply.status == 404 and "deleted" in both_shapes(reply)["detail"]
    assert CodeSession(server, "ses_" + "0" * 32).execute("1").status == 404


def test_labels_belong_to_keys(serve, gb, tmp_path):
    data = tmp_path / "keys"
    tokens = []
    for name in ("a", "b"):
        tokens.append(gb("key", "create", "--name", name, "--data", data).out.strip())
    server = serve("--require-key", data=data)
    assert server.ask("POST", "/execute_code/", {"code": "1"}).status == 401
    both_shapes(server.ask("POST", "/execute_code/", {"code": "1"}))
    for label in ("same", None):
        server.key = tokens[0]
        CodeSession(server, label).names("secret = 1")
        server.key = tokens[1]
        assert "secret" in CodeSession(server, label).failed("secret")["detail"]


def test_calls_queue(server):
    session = CodeSession(server, "queue")
    session.names("n = 0")
    threads = [threading.Thread(target=session.names,
                                args=("import time\nm = n\ntime.sleep(.02)\nn = m + 1",))
               for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert session.names("total = n") == {"total": 6}


def test_first_use_at_once(server):
    session = CodeSession(server, "race")
    replies = []
    threads = [threading.Thread(target=lambda: replies.append(session.execute("x = 1")))
               for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [r.status for r in replies] == [200] * 6
    assert len(server.good("GET", "/v1/sessions")["sessions"]) == 1


def test_loss(server):
    session = CodeSession(server, "loss")
    session.names("x = 1")
    found = session.failed("import os\nos._exit(9)")
    assert "variables of the session are lost" in found["detail"]
    assert session.get_files() == {"files": []}  # does not need them, and leaves the words
    assert session.upload("df", CSV).status == 200
    found = session.failed("y = x")
    assert "variables" in found["detail"] and "lost" in found["detail"]
    assert session.names("n = len(df)") == {"n": 3}
    session.failed("import os\nos._exit(9)")
    reply = session.ask("GET", "/downloadfile/df")
    assert reply.status == 400 and "lost" in reply.json["detail"]
    assert session.download_file("df") == "[]"
    # One that was deleted, or cleared, or found dead.
    made = server.good("GET", "/v1/sessions")["sessions"][0]["session_id"]
    server.good("DELETE", f"/v1/sessions/{made}", status=204)
    assert "deleted" in session.failed("1")["detail"]
    assert session.names("y = 1") == {"y": 1}
    session.failed("import os\nos._exit(9)")
    assert session.clear_state() == {"message": "State has been cleared"}
    assert session.names("y = 1") == {"y": 1}
    session.names("import os, threading, time\ndef die():\n"
                  "    while not os.path.exists('die'): time.sleep(.01)\n    os._exit(0)\n"
                  "threading.Thread(target=die, daemon=True).start()")
    # It dies between two calls; whichever comes first after that hears of it.
    made = server.good("GET", "/v1/sessions")["sessions"][0]["session_id"]
    server.good("PUT", f"/v1/sessions/{made}/files/die", b"", 201)
    lost = wait_for(lambda: (lambda r: r if r.status != 200 else None)(session.execute("1")), 60, "loss")
    assert "lost" in both_shapes(lost)["detail"]
    assert session.names("y = 1") == {"y": 1}


def test_expiry_is_a_loss(serve):
    server = serve("--idle", "1", "--sweep", "1")
    session = CodeSession(server, "idle")
    session.names("x = 1")
    wait_for(lambda: not server.good("GET", "/v1/sessions")["sessions"], 60, "the end")
    assert "expired" in session.failed("y = x")["detail"]
    assert session.names("x = 1") == {"x": 1}


# ---- locals ----


class Locals:
    """A client of the locals API; without a local_dict only where the listener knows it."""

    def __init__(self, server, label=None):
        self.server = server
        self.headers = {"X_Session_Id": label} if label else {}

    def ask(self, code, **body):
        return self.server.ask("POST", "/execute_code/", {"code": code, **body},
                               Content_Type="application/json", **self.headers)

    def run(self, code, local_dict=None):
        reply = self.ask(code, local_dict=local_dict)
        assert reply.status == 200, reply
        found = reply.json
        assert set(found) == {"result", "success"} and found["success"] is True
        return found["result"]

    def failed(self, code, local_dict=None):
        reply = self.ask(code, local_dict=local_dict)
        assert reply.status == 400, reply
        return both_shapes(reply)


def test_locals(server):
    client = Locals(server)
    assert client.run("c = a + b", {"a": 1, "b": 2}) == {"a": 1, "b": 2, "c": 3}
    assert client.run("x = 1", {}) == {"x": 1} and client.run("x = 1") == {"x": 1}
    # Functions see the names of the top level, their own among them.
    assert client.run("import math\nk = 3\ndef fact(n):\n    return 1 if n < 2 else n * fact(n - 1)\n"
                      "def area(r):\n    return math.floor(math.pi * r * k)\n"
                      "f, a = fact(30), area(n)", {"n": 2}) == {
        "k": 3, "f": 265252859812191058636308480000000, "a": 18, "n": 2}
    # What is not JSON is left out; what nearly is, is null.
    assert client.run("s = {1}\nf = len\nn = float('nan')\nl = []\nl.append(l)\nt = (1, 'é')\nb = b''"
                      ) == {"n": None, "t": [1, "é"]}
    assert client.run("d['k'].append(0.1)\ndel gone", {"d": {"k": [1.5, None, "x"]}, "gone": 1}) == {
        "d": {"k": [1.5, None, "x", 0.1]}}
    assert client.run("pass", {"not a name": 1}) == {"not a name": 1}
    # A box of its own for each.
    client.run("open('f', 'w').write('x')\nleft = 1")
    assert client.failed("left")["error_type"] == "NameError"
    assert client.run("import os\nfiles = os.listdir('.')")["files"] == []
    assert not server.good("GET", "/v1/sessions")["sessions"]


def test_locals_errors(server):
    client = Locals(server)
    found = client.failed("def f():\n    return 1 / 0\nf()")
    assert found["error"] == "division by zero" and found["error_type"] == "ZeroDivisionError"
    assert "in f" in found["traceback"] and "glovebox" not in found["traceback"]
    assert client.failed("x", {"__builtins__": {}})["error_type"] == "ValueError"
    assert client.failed("s = 'x' * (10 << 20)")["error_type"] == "ValueError"
    assert client.failed("while True:\n    m = bytearray(1 << 30)\n    m[::4096] = b'x' * (1 << 18)\n"
                         "    keep = keep + [m] if 'keep' in globals() else [m]"
                         )["error_type"] == "MemoryError"
    assert client.failed("import os\nos.kill(os.getpid(), 9)")["success"] is False


def test_locals_timeout(serve):
    server = serve("--default-timeout", "4")  # also for what must not take so long
    client = Locals(server)
    for code in ("while True: pass", "class A(dict): pass\na = 1\nimport time\ntime.sleep(60)"):
        assert client.failed(code)["error_type"] == "TimeoutError"
    session = CodeSession(server)
    session.names("kept = 1")
    for code in ("import time\ntime.sleep(60)",
                 "class A:\n    def __str__(self):\n        while True: pass\na = A()"):
        assert session.failed(code)["error_type"] == "TimeoutError"
    assert session.names("x = kept") == {"x": 1}


def test_locals_session(server):
    client = Locals(server, "mine")
    assert client.run("total = n", {"n": 1}) == {"n": 1, "total": 1}
    assert client.run("total += 1") == {"total": 2}
    assert CodeSession(server, "mine").names("x = total") == {"x": 2}
    body, kind = form(CSV, "data.csv")
    found = server.good("POST", "/upload_file/", body, Content_Type=kind, X_Session_Id="mine")
    assert found["message"] == "File data.csv has been uploaded" and found["size"] == len(CSV)
    assert client.run("text = open('data.csv').read()") == {"text": CSV}
    # Without a label it gets a session of its own.
    found = server.good("POST", "/upload_file", body, Content_Type=kind)
    other = Locals(server, found["session_id"])
    assert other.run("text = open('data.csv').read()") == {"text": CSV}
    body, kind = form(CSV, "../x")
    reply = server.ask("POST", "/upload_file/", body, Content_Type=kind, X_Session_Id="mine")
    assert reply.status == 400 and both_shapes(reply)
    body, kind = form(CSV, None)
    assert server.ask("POST", "/upload_file/", body, Content_Type=kind, X_Session_Id="mine").status == 422


def test_download_result(server):
    client = Locals(server)
    reply = client.ask("n = 2 ** 100", local_dict={"a": 1})
    path = "/download_result/" + reply.headers["X-Execution-Id"]
    assert server.good("GET", path) == reply.json == {
        "result": {"a": 1, "n": 2**100}, "success": True}
    reply = client.ask("1 / 0", local_dict=None)
    again = server.ask("GET", "/download_result/%s/" % reply.headers["X-Execution-Id"])
    assert again.status == 400 and again.json == reply.json
    receipt = server.good("POST", "/v1/execute", {"code": "6 * 7"})
    found = server.good("GET", "/download_result/" + receipt["execution_id"])
    assert found["result"]["text/plain"] == "42"
    reply = server.ask("GET", "/download_result/nope")
    assert reply.status == 404 and both_shapes(reply)
    session = server.session()
    execution = server.good("POST", f"/v1/sessions/{session}/execute",
                            {"code": "import time\ntime.sleep(60)", "detach": True}, 202)["execution_id"]
    wait_running(server, execution)
    assert server.ask("GET", "/download_result/" + execution).status == 409
    server.good("POST", f"/v1/executions/{execution}/interrupt")


def test_nobody_is_fooled(server):
    """What a program prints is not what it binds; what it shows by our own type fools only itself."""
    session = CodeSession(server)
    mime = "application/vnd.glovebox.names+json"
    assert session.names("print('{\"x\": 1}')\ny = 1") == {"y": 1}
    assert session.names(f"display({{'{mime}': 'no JSON'}}, raw=True)\ny = 2") == {"y": 2}
    code = ("import sys\nclass C:\n    def text(self): return '{]'\n"
            "sys.modules['glovebox_runner.names'].Collector.text = C.text\n")
    found = Locals(server).failed(code)
    assert found["detail"] == "the result of the code is not JSON"
    # A list of files that would be a gigabyte if it were parsed.
    session.names("import sys\nnames = sys.modules['glovebox_runner.names']\n"
                  "sys.modules['glovebox_runner.display']._nodes = lambda text: 0\n"
                  "names.uploads = lambda: names.Shown('{\"files\":[' + '[],' * 10**6 + '[]]}')")
    before = server.memory()
    assert len(session.get_files()["files"]) == 10**6 + 1
    assert server.memory() - before < 100 << 20
    session.names("names.uploads = lambda: names.Shown('[]')")
    reply = session.ask("GET", "/files/")
    assert reply.status == 400 and "JSON" in reply.json["detail"]


# ---- listeners ----


def test_a_listener_of_one_dialect(serve):
    server = serve("--listen", "127.0.0.1:0,dialect=locals", "--listen",
                   "127.0.0.1:0,dialect=code-session")
    ports = [int(word) for word in server.port_file.read_text().split()]
    assert len(ports) == 3
    server.port = ports[1]
    assert server.good("POST", "/execute_code/", {"code": "x = 1"}) == {
        "result": {"x": 1}, "success": True}
    assert Locals(server).run("y = a", {"a": 2}) == {"a": 2, "y": 2}
    server.port = ports[2]
    assert json.loads(server.good("POST", "/execute_code", {"code": "x = 1", "local_dict": {}})) == {"x": 1}
    assert CodeSession(server).names("y = x") == {"y": 1}
    server.port = ports[0]
    assert "x" in CodeSession(server).failed("x")["detail"]  # each listener has its own session


def test_described(server):
    paths = server.good("GET", "/openapi.json")["paths"]
    for path in ("/pip_install", "/uploadfile/{name}", "/files", "/downloadfile/{name}",
                 "/execute_code", "/clear_state", "/upload_file", "/download_result/{id}"):
        assert path in paths
    names = [p["name"] for p in paths["/uploadfile/{name}"]["post"]["parameters"]]
    assert names == ["name", "X-Session-Id"]
