"""
The compatible APIs as their clients really send them: the requests in tests/compat/recorded, byte
for byte, are those of the requests library and of curl (tests/compat/record.py made them).
"""

import json
import pathlib
import re

from serve_kit import serve, server  # noqa: F401

RECORDED = pathlib.Path(__file__).parent.parent / "compat" / "recorded"


def play(server, name):
    """The status and the decoded reply of a recorded request."""
    data = (RECORDED / (name + ".http")).read_bytes().replace(b":PORT\r\n", b":%d\r\n" % server.port)
    # Else the connection stays open for the next one, and raw() would wait for its end.
    data = data.replace(b"Connection: keep-alive\r\n", b"Connection: close\r\n")
    if b"Connection: close" not in data:
        data = data.replace(b"Accept: */*\r\n", b"Accept: */*\r\nConnection: close\r\n", 1)
    head, _, body = server.raw(data).partition(b"\r\n\r\n")
    return int(re.match(rb"HTTP/1.1 (\d+) ", head)[1]), json.loads(body)


def test_code_session(server):
    assert play(server, "upload") == (200, {"message": "File df has been uploaded"})
    assert play(server, "files") == (200, {"files": ["df"]})
    status, records = play(server, "download")
    assert status == 200
    assert json.loads(records) == [{"A": 1, "B": 4}, {"A": 2, "B": 5}, {"A": 3, "B": 6}]
    assert play(server, "execute_code") == (200, '{"result": "6"}')
    assert play(server, "clear_state") == (200, {"message": "State has been cleared"})
    status, found = play(server, "execute_code")
    assert status == 400 and found["detail"] == "name 'df' is not defined"


def test_locals(server):
    assert play(server, "local_dict") == (200, {
        "result": {"values": [1, 2.5], "factor": 10, "scaled": [10, 25.0]}, "success": True})


def test_simple(serve):
    server = serve("--index-url", "none", env={"PIP_CONFIG_FILE": "/dev/null", "PIP_FIND_LINKS": None})
    status, receipt = play(server, "curl_execute")
    assert status == 200 and receipt["stdout"] == "π = 3.141592653589793\n"
    assert receipt["success"] is True and receipt["exit_code"] == 0 and receipt["stderr"] == ""
    for name in ("curl_pip_install", "curl_pip_form"):
        status, found = play(server, name)
        assert status == 200 and found["success"] is False and found["message"]
    assert play(server, "curl_health")[1]["status"] == "healthy"
