"""Files over HTTP: upload, download, ranges, listing, moves, archives; memory stays flat."""

import io
import tarfile

import pytest

from serve_kit import serve, server  # noqa: F401


@pytest.fixture
def files(server):
    return f"/v1/sessions/{server.session()}/files"


def multipart(*parts, boundary=b"limit-of-parts", end=True):
    body = b"".join(
        b"--" + boundary + b'\r\nContent-Disposition: form-data; name="file"'
        + (b'; filename="' + name + b'"' if name is not None else b"")
        + b"\r\nContent-Type: application/octet-stream\r\n\r\n" + data + b"\r\n"
        for name, data in parts
    )
    return body + (b"--" + boundary + b"--\r\n" if end else b"")


TYPE = "multipart/form-data; boundary=limit-of-parts"


def test_up_and_down(server, files):
    data = bytes(range(256)) * 100
    made = server.good("PUT", files + "/a/b/data%20file.bin", data, 201)
    assert made["path"] == "a/b/data file.bin" and made["size"] == len(data)
    server.good("PUT", files + "/a/b/data%20file.bin", data, 200)
    reply = server.ask("GET", files + "/a/b/data%20file.bin")
    assert reply.body == data and reply.headers["Content-Type"] == "application/octet-stream"
    assert "attachment" in reply.headers["Content-Disposition"]
    etag = reply.headers["ETag"]
    assert server.ask("GET", files + "/a/b/data%20file.bin", If_None_Match=etag).status == 304
    part = server.ask("GET", files + "/a/b/data%20file.bin", Range="bytes=10-19")
    assert part.status == 206 and part.body == data[10:20]
    assert part.headers["Content-Range"] == f"bytes 10-19/{len(data)}"
    assert server.ask("GET", files + "/a/b/data%20file.bin", Range="bytes=-5").body == data[-5:]
    assert server.ask("GET", files + "/a/b/data%20file.bin", Range="bytes=99999-").status == 416
    head = server.ask("HEAD", files + "/a/b/data%20file.bin")
    assert head.status == 200 and head.headers["Content-Length"] == str(len(data)) and not head.body
    server.good("PUT", files + "/a/b/data%20file.bin", b"new", 200)
    assert server.ask("GET", files + "/a/b/data%20file.bin", If_None_Match=etag).body == b"new"


def test_the_program_sees_them(server):
    session = server.session()
    files = f"/v1/sessions/{session}/files"
    server.good("PUT", files + "/in.txt", b"from outside", 201)
    receipt = server.run(session, "print(open('in.txt').read())\nopen('out.txt', 'w').write('x')")
    assert receipt["stdout"] == "from outside\n"
    assert [(f["path"], f["change"]) for f in receipt["files"]] == [("out.txt", "created")]
    assert server.ask("GET", files + "/out.txt").body == b"x"


def test_multipart(server, files):
    body = multipart((b"one.txt", b"1"), (b"sub/two.bin", b"\r\n--limit\r\n" * 1000), (b"empty", b""))
    made = server.good("POST", files + "?dir=up", body, 201, Content_Type=TYPE)
    assert [(f["path"], f["size"]) for f in made["files"]] == [
        ("up/one.txt", 1), ("up/sub/two.bin", 11000), ("up/empty", 0)]
    assert server.ask("GET", files + "/up/sub/two.bin").body == b"\r\n--limit\r\n" * 1000
    for broken in (b"", b"rubbish", multipart((b"x", b"1"), end=False), multipart((b"x", b"1"))[:-30],
                   multipart((b"\xff\xfe", b"1")), multipart((b"../../x", b"1"))):
        problem = server.problem(400, "POST", files, broken, Content_Type=TYPE)
        assert problem["detail"]
    server.problem(422, "POST", files, multipart((None, b"1")), Content_Type=TYPE)
    server.problem(415, "POST", files, b"x", Content_Type="text/plain")
    server.problem(400, "POST", files, b"x", Content_Type="multipart/form-data")
    server.problem(422, "POST", files + "?nope=1", multipart((b"x", b"1")), Content_Type=TYPE)
    assert server.ask("GET", files + "/x").status == 404  # what was broken off is not there


def test_list_move_delete(server, files):
    base = files.removesuffix("/files")
    for name in ("b", "a", "dir/c", "dir/d"):
        server.good("PUT", f"{files}/{name}", name.encode(), 201)
    assert [f["path"] for f in server.good("GET", files)["files"]] == ["a", "b", "dir"]
    page = server.good("GET", files + "?recursive=true&limit=3")
    assert [f["path"] for f in page["files"]] == ["a", "b", "dir"] and page["more"]
    page = server.good("GET", files + "?recursive=true&after=dir")
    assert [f["path"] for f in page["files"]] == ["dir/c", "dir/d"] and not page["more"]
    assert [f["path"] for f in server.good("GET", files + "?dir=dir")["files"]] == ["dir/c", "dir/d"]
    server.good("POST", base + "/move", {"from": "a", "to": "new/place"})
    assert server.ask("GET", files + "/new/place").body == b"a"
    server.problem(409, "POST", base + "/move", {"from": "b", "to": "new/place"})
    server.good("POST", base + "/move", {"from": "b", "to": "new/place", "replace": True})
    server.problem(404, "POST", base + "/move", {"from": "nope", "to": "x"})
    server.problem(400, "POST", base + "/move", {"from": "dir", "to": "../../etc"})
    server.problem(422, "POST", base + "/move", {"from": "dir"})
    server.good("POST", base + "/directories", {"path": "x/y"}, 201)
    server.problem(422, "POST", base + "/directories", {"path": ""})
    server.problem(409, "DELETE", files + "/dir")
    server.good("DELETE", files + "/dir?recursive=true", status=204)
    server.problem(404, "DELETE", files + "/dir")
    assert server.problem(404, "GET", files + "/nothing")["detail"]


def test_archive(server, files):
    base = files.removesuffix("/files")
    for name in ("a.txt", "dir/b.bin"):
        server.good("PUT", f"{files}/{name}", name.encode() * 1000, 201)
    reply = server.ask("GET", base + "/archive")
    assert reply.status == 200 and reply.headers["Content-Type"] == "application/gzip"
    with tarfile.open(fileobj=io.BytesIO(reply.body)) as tar:
        names = {m.name.removeprefix("./").rstrip("/") for m in tar.getmembers()}
        assert {"a.txt", "dir/b.bin"} <= names
        member = next(m for m in tar.getmembers() if m.name.endswith("a.txt"))
        assert tar.extractfile(member).read() == b"a.txt" * 1000
    server.problem(404, "GET", base + "/archive?dir=nope")


def test_bad_paths(server, files):
    for path in ("/../x", "/%2e%2e/x", "/a/%2e%2e/%2e%2e/x", "/a%00b", "/a//b", "/%ff", "/%zz"):
        for method in ("GET", "PUT", "DELETE"):
            server.problem(400, method, files + path, b"" if method == "PUT" else None)
    for method in ("GET", "PUT", "DELETE"):
        server.problem(414, method, files + "/" + "a" * 5000, b"" if method == "PUT" else None)
        reply = server.ask(method, files + "/" + "a" * 300, b"" if method == "PUT" else None)
        assert 400 <= reply.status < 500
    # %2F is a slash, and leads no further than one.
    server.problem(400, "GET", files + "/..%2f..%2fetc%2fpasswd")


def test_planted_links(server):
    session = server.session()
    files = f"/v1/sessions/{session}/files"
    server.run(session, "import os\nos.symlink('/etc/passwd', 'l')\nos.symlink('/etc', 'd')\n"
                        "os.mkfifo('f')")
    for path in ("/l", "/d/passwd", "/f"):
        reply = server.ask("GET", files + path)
        assert 400 <= reply.status < 500, (path, reply)
    # An upload replaces the link itself, never what it points to.
    reply = server.ask("PUT", files + "/l", b"mine")
    assert reply.status in (200, 201) and server.ask("GET", files + "/l").body == b"mine"
    assert 400 <= server.ask("PUT", files + "/d/x", b"no").status < 500


def test_quota(server):
    session = server.session(limits={"disk": "2m"})
    files = f"/v1/sessions/{session}/files"
    server.problem(413, "PUT", files + "/big", b"x" * (3 << 20))
    assert server.ask("GET", files + "/big").status == 404
    server.good("PUT", files + "/small", b"x" * 1000, 201)


def test_memory_stays_flat(server):
    """64 MiB up and down as a stream, in pieces; the server keeps none of it."""
    session = server.session()
    path, size = f"/v1/sessions/{session}/files/big", 64 << 20
    piece = b"0123456789abcdef" * 4096
    server.good("PUT", path, b"warm", 201)
    before = server.memory()

    def pieces():
        for _ in range(size // len(piece)):
            yield piece

    connection = server.connect()
    connection.request("PUT", path, pieces(), encode_chunked=True,
                       headers={"Transfer-Encoding": "chunked"})
    assert connection.getresponse().read()
    connection.request("GET", path)
    reply, got = connection.getresponse(), 0
    while data := reply.read(1 << 20):
        got += len(data)
    connection.close()
    assert got == size
    assert server.memory() - before < 16 << 20
