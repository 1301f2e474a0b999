"""CodeSession: the bytes it sends, and what it makes of the answers."""

import json

import glovebox
import pytest
from conftest import reply
from glovebox import CodeSession

pandas = pytest.importorskip("pandas")


def test_what_it_sends(fake):
    server = fake(reply(200, '{"message": "File df has been uploaded"}'),
                  reply(200, '{"files": ["df"]}'), reply(200, json.dumps('{"result": 6}')),
                  reply(200, '{"message": "State has been cleared"}'))
    session = CodeSession(server.url + "/", session="mine")
    frame = pandas.DataFrame({"A": [1, 2, 3]})
    assert session.upload_file("df", frame) == {"message": "File df has been uploaded"}
    assert session.get_files() == {"files": ["df"]}
    assert session.execute_code("result = df['A'].sum()") == '{"result": 6}'
    assert session.clear_state() == {"message": "State has been cleared"}
    lines = [request.split(b"\r\n")[0] for request in server.requests]
    assert lines == [b"POST /uploadfile/df HTTP/1.1", b"GET /files/ HTTP/1.1",
                     b"POST /execute_code/ HTTP/1.1", b"GET /clear_state/ HTTP/1.1"]
    assert all(b"X-Session-Id: mine\r\n" in request for request in server.requests)
    assert b'name="file"; filename=' in server.requests[0] and b"A\n1\n2\n3\n" in server.requests[0]
    assert server.requests[2].endswith(b'{"code": "result = df[\'A\'].sum()"}')


def test_download(fake):
    server = fake(reply(200, json.dumps('[{"A":1,"B":"x"},{"A":2,"B":null}]')),
                  reply(200, json.dumps("[]")), reply(200, json.dumps("no frame")),
                  reply(400, '{"detail": "the state was lost"}'))
    session = CodeSession(server.url)
    assert session.download_file("df").to_dict("list") == {"A": [1, 2], "B": ["x", None]}
    assert session.download_file("nope").empty
    with pytest.raises(glovebox.ProtocolError):
        session.download_file("df")
    with pytest.raises(glovebox.BadRequest, match="the state was lost"):
        session.download_file("df")


def test_failed_code_is_an_answer(fake):
    server = fake(reply(400, '{"detail": "division by zero"}'))
    assert CodeSession(server.url).execute_code("1/0") == {"detail": "division by zero"}


def test_what_is_no_answer(fake):
    for bad, error in ((reply(200, "<html>"), glovebox.ProtocolError),
                       (reply(502, "<html>", "text/html"), glovebox.ServerError),
                       (reply(401, '{"detail": "a key"}'), glovebox.NotAllowed),
                       (reply(429, "{}", extra="Retry-After: 3\r\n"), glovebox.TooManyRequests),
                       (reply(302, b"", extra="Location: /x\r\n"), glovebox.ProtocolError)):
        with pytest.raises(error):
            CodeSession(fake(bad).url).get_files()


@pytest.mark.parametrize("label", ["", "a b", "x" * 65, "a\r\nX: y", "é", "a/b"])
def test_labels_that_are_none(label):
    with pytest.raises(ValueError):
        CodeSession("http://127.0.0.1:1", session=label)


def test_names_are_quoted(fake):
    server = fake(reply(422, '{"detail": "no identifier"}'))
    session = CodeSession(server.url)
    assert session.upload_file("a/../b?c\r\nX: y", "A\n1\n") == {"detail": "no identifier"}
    line = server.requests[0].split(b"\r\n")[0]
    assert line == b"POST /uploadfile/a%2F..%2Fb%3Fc%0D%0AX%3A%20y HTTP/1.1"
    for bad in ("", "..", "."):
        with pytest.raises(ValueError):
            session.download_file(bad)


# ---- against a real service ----


@pytest.fixture
def session(service, request):
    with CodeSession(service.url, session=request.node.name[:64].replace("[", ".").strip("]")) as s:
        yield s
        s.clear_state()


def test_the_five_calls(session):
    frame = pandas.DataFrame({"A": [1, 2, 3], "B": ["x", "y", None]})
    assert session.upload_file("df", frame) == {"message": "File df has been uploaded"}
    assert session.get_files() == {"files": ["df"]}
    assert session.download_file("df").equals(frame)
    assert json.loads(session.execute_code("total = int(df['A'].sum()); df['A'] += 1")) == {
        "total": 6}
    assert json.loads(session.execute_code("more = total + 1")) == {"more": 7}
    assert list(session.download_file("df")["A"]) == [2, 3, 4]
    assert session.clear_state() == {"message": "State has been cleared"}
    assert session.get_files() == {"files": []} and session.download_file("df").empty


def test_failures(session):
    said = session.execute_code("1 / 0")
    assert said["detail"] == "division by zero" and "1 / 0" in said["traceback"]
    assert "detail" in session.upload_file("no identifier", "A\n1\n")
    assert "detail" in session.upload_file("a/b", "A\n1\n")
    assert "detail" in session.upload_file("df", "")
    assert session.get_files() == {"files": []}


def test_sessions_are_apart(service, session):
    session.execute_code("mine = 1")
    with CodeSession(service.http, session="another-one") as other:
        assert "mine" in other.execute_code("mine")["detail"]
        other.clear_state()
