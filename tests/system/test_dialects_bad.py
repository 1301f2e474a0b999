"""Bad input in each dialect: the answer that its clients understand, with the reason in it."""

import http.client
import json

from serve_kit import serve, server  # noqa: F401
from test_dialects import CSV, CodeSession, Locals, both_shapes, form

GIGABYTE = 10**9
PIECE = b"12345678,some text\n" * 3400


def send_long(server, method, path, size, chunked, multipart=True, **headers):
    """Sends a CSV of @size bytes without ever having it; gives status, headers and body."""
    body, kind = form(b"a,b\n", "big.csv")
    head, tail = body[: body.rindex(b"\r\n--")], body[body.rindex(b"\r\n--"):]
    if not multipart:
        head = tail = b""
    pieces = size // len(PIECE) + 1

    def stream():
        yield head
        for _ in range(pieces):
            yield PIECE
        yield tail

    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    if multipart:
        sent["Content-Type"] = kind
    if not chunked:
        sent["Content-Length"] = str(len(head) + pieces * len(PIECE) + len(tail))
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=300)
    try:
        connection.request(method, path, stream(), sent, encode_chunked=chunked)
        reply = connection.getresponse()
        return reply.status, reply.read()
    finally:
        connection.close()


def test_a_gigabyte_is_refused_in_words(serve):  # noqa: F811
    """The whole body was sent before anybody looks for a reply: it must still be there."""
    server = serve("--session-disk", "32m")
    before = server.memory()
    status, body = send_long(server, "POST", "/uploadfile/df", GIGABYTE, True, X_Session_Id="a")
    assert status == 413 and "detail" in json.loads(body), body
    status, body = send_long(server, "POST", "/upload_file/", GIGABYTE, False, X_Session_Id="b")
    found = json.loads(body)
    assert status == 413 and found["detail"] == found["error"] and not found["success"], body
    session = server.session()
    status, body = send_long(server, "PUT", f"/v1/sessions/{session}/files/big.csv", GIGABYTE,
                             False, multipart=False)
    assert status == 413 and json.loads(body)["status"] == 413, body
    assert server.memory() - before < 64 << 20
    # All of them go on, with nothing of it.
    assert CodeSession(server, "a").get_files() == {"files": []}
    assert Locals(server, "b").run("import os\nfound = os.listdir('.')", {}) == {"found": []}
    assert server.run(session, "import os\nos.listdir('.')")["result"]["text/plain"] == "[]"


def test_a_table_that_memory_does_not_hold(serve):  # noqa: F811
    server = serve("--memory", "256m", "--default-timeout", "280")  # memory is to end it, not time
    session = CodeSession(server, "a")
    session.names("x = 1")
    rows = "".join(f"w{i},v{i}\n" for i in range(100000))
    reply = session.upload("df", "a,b\n" + rows * 40)
    assert reply.status == 400 and "memory" in reply.json["detail"], reply
    assert session.get_files() == {"files": []}


def test_uploads_of_the_locals_api(server):  # noqa: F811
    def upload(content, filename):
        body, kind = form(content, filename)
        return server.ask("POST", "/upload_file/", body, Content_Type=kind, X_Session_Id="a")

    client = Locals(server, "a")
    # What is in a file is the code's business here: not a CSV, nothing at all.
    assert upload(b"\xff\xfe\x00\x01,\x80\n", "odd.csv").status == 200
    assert upload("", "empty.csv").status == 200
    found = client.run("import os\nsizes = sorted((n, os.path.getsize(n)) for n in os.listdir('.'))")
    assert found["sizes"] == [["empty.csv", 0], ["odd.csv", 7]]
    assert "codec can't decode" in client.failed("import pandas\npandas.read_csv('odd.csv')")["error"]
    found = client.failed("import pandas\npandas.read_csv('empty.csv')")
    assert found["error_type"] == "EmptyDataError"
    for name in ("../x", "a/../../x", "..", ".", "/etc/x", "a/b"):
        reply = upload(CSV, name)
        if reply.status == 200:  # a directory in the workspace is a place like any other
            assert name == "a/b"
            continue
        assert reply.status in (400, 422), (name, reply)
        assert both_shapes(reply)["detail"], reply


def test_names_with_dots_and_slashes(server):  # noqa: F811
    session = CodeSession(server, "a")
    for name in ("..", "%2e%2e", "../x", "..%2fx", "a/../b", ".", "a\\b"):
        for method, path in (("POST", "/uploadfile/"), ("GET", "/downloadfile/")):
            body, kind = form(CSV) if method == "POST" else (None, "text/plain")
            reply = session.ask(method, path + name, body, Content_Type=kind)
            if method == "GET" and reply.status == 200:  # no such frame is an empty one
                assert reply.json == "[]", (name, reply)
                continue
            assert 400 <= reply.status < 500 and reply.json["detail"], (method, name, reply)
    assert session.get_files() == {"files": []}


def test_results_that_are_no_json(server):  # noqa: F811
    """Of the native and the simple API; the other two are in test_dialects.py."""
    for code, text in (("float('nan')", "nan"), ("{1}", "{1}"), ("l = []; l.append(l); l", "[[...]]"),
                       ("object", "object"), ("[float('inf'), {2}]", "[inf, {2}]"), ("b'\\xff'", "xff")):
        receipt = server.good("POST", "/v1/execute", {"code": code})
        assert receipt["status"] == "ok" and text in receipt["result"]["text/plain"], receipt
        receipt = server.good("POST", "/execute", {"code": f"{code}\nprint({text!r})"})
        assert receipt["success"] and receipt["stdout"] == text + "\n", receipt
    receipt = server.good("POST", "/v1/execute", {"code": "'x' * (10 << 20)"})
    assert receipt["status"] == "ok" and len(json.dumps(receipt)) < 30 << 20
    receipt = server.good("POST", "/execute", {"code": "print('x' * (10 << 20))"})
    assert receipt["success"] and receipt["truncated"]["stdout"] > 0
    assert len(receipt["stdout"]) + receipt["truncated"]["stdout"] >= 10 << 20


def test_an_object_that_cannot_be_told(server):  # noqa: F811
    code = "class A:\n    def __repr__(self): raise ValueError('no')\nA()"
    receipt = server.good("POST", "/v1/execute", {"code": code})
    assert receipt["status"] in ("ok", "error"), receipt
    deep = "x = []\nfor _ in range(100000): x = [x]"
    assert CodeSession(server, "deep").execute(deep).status in (200, 400)
    assert Locals(server).ask(deep, local_dict={}).status in (200, 400)
    assert CodeSession(server, "deep").names("y = 1") == {"y": 1}


def test_more_sessions_than_there_may_be(serve):  # noqa: F811
    server = serve("--max-sessions", "1")
    CodeSession(server, "one").names("x = 1")
    problem = server.problem(429, "POST", "/v1/sessions", {})
    assert "sessions are in use" in problem["detail"]
    reply = CodeSession(server, "two").execute("x")
    assert reply.status == 429 and "sessions are in use" in both_shapes(reply)["detail"]
    reply = CodeSession(server, "two").upload("df", CSV)
    assert reply.status == 429 and "sessions are in use" in reply.json["detail"]
    reply = Locals(server, "three").ask("x = 1", local_dict={})
    assert reply.status == 429 and both_shapes(reply)
    body, kind = form(CSV, "data.csv")
    reply = server.ask("POST", "/upload_file/", body, Content_Type=kind)
    assert reply.status == 429 and both_shapes(reply)
    # What needs no session goes on, and so does the one there is.
    assert Locals(server).run("y = 2", {}) == {"y": 2}
    assert server.good("POST", "/execute", {"code": "print(3)"})["stdout"] == "3\n"
    assert CodeSession(server, "one").names("y = x") == {"y": 1}


def test_bindings_are_for_sessions_of_v1(server):  # noqa: F811
    """The dialects ignore what they do not know; the native API says that it is not there."""
    volumes = [{"source": "/etc", "target": "/data"}]
    server.problem(422, "POST", "/v1/execute", {"code": "1", "volumes": volumes})
    server.problem(403, "POST", "/v1/sessions", {"volumes": volumes})
    code = "import os; print(os.path.exists('/data'))"
    assert server.good("POST", "/execute", {"code": code, "volumes": volumes})["stdout"] == "False\n"
