"""
MCP over the wire, where the official clients do not look: revisions, streams that are resumed, what
is said apart from calls, who may come in, the forwarder, the configurations that it prints.

The conformance suite and the official clients are in tests/mcp; wrong input has a file of its own.
"""

import contextlib
import json
import os
import re

import pytest

from conftest import ROOT, wait_for
from mcp_wire import (LEGACY, MODERN, Http, Sse, Stdio, call, events, failed, hello, loop,
                      messages_of, notification, ran, request)
from serve_kit import serve, server  # noqa: F401

REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
COUNT = 'import time\nfor i in range(4):\n    print("line", i, flush=True)\n    time.sleep(0.2)'


# ---- revisions ---------------------------------------------------------------------------------


@pytest.mark.parametrize("version", REVISIONS)
def test_every_revision_with_sessions(server, version):
    client = Http(server, version)
    assert client.welcome["protocolVersion"] == version
    assert client.welcome["serverInfo"]["name"] and client.welcome["instructions"]
    assert {"tools", "resources", "prompts", "logging"} <= set(client.welcome["capabilities"])
    ran(client.python("x = 41"))
    assert "42" in ran(client.python("print(x + 1)"))
    assert client.end().status in (200, 204)


def test_a_revision_from_the_future_gets_our_latest(server):
    for version in ("2031-01-01", "1999-01-01", "x"):
        reply = server.ask("POST", "/mcp", hello(version), Content_Type="application/json",
                           Accept="application/json, text/event-stream")
        assert messages_of(reply)[0]["result"]["protocolVersion"] == LEGACY


def test_discover(server):
    found = Http(server, MODERN).ask(request("server/discover"))["result"]
    assert MODERN in found["supportedVersions"]
    assert found["resultType"] == "complete" and found["capabilities"]["tools"] is not None
    assert found["ttlMs"] >= 0 and found["cacheScope"] in ("public", "private")


def test_the_eras_live_side_by_side(server):
    old, new = Http(server), Http(server, MODERN)
    ran(old.python("x = 1"))
    assert "NameError" in failed(new.python("print(x)"))
    assert "1" in ran(old.python("print(x)"))
    made = new.ask(call("create_session"))["result"]["structuredContent"]["session_id"]
    ran(new.python("y = 2", session_id=made))
    assert "2" in ran(old.python("print(y)", session_id=made))  # the same caller's
    ran(old.ask(call("close_session", session_id=made)))
    assert "session" in failed(new.python("print(y)", session_id=made))


# ---- sessions ----------------------------------------------------------------------------------


def sessions(server):
    return server.good("GET", "/v1/sessions")["sessions"]


def test_a_session_ends_with_its_box(server):
    client = Http(server)
    assert sessions(server) == []  # no box before there is something to run
    ran(client.python("x = 1"))
    assert len(sessions(server)) == 1
    assert client.end().status in (200, 204)
    wait_for(lambda: not sessions(server), 60, "the end of its box")


def test_a_closed_box_is_replaced(server):
    """When the box of a client is gone, it is told once and has a new one."""
    client = Http(server)
    ran(client.python("x = 1"))
    [session] = sessions(server)
    assert server.ask("DELETE", "/v1/sessions/" + session["session_id"]).status in (200, 204)
    wait_for(lambda: not sessions(server), 60, "its end")
    client.python("pass")
    assert "NameError" in failed(client.python("print(x)"))
    assert "42" in ran(client.python("print(6 * 7)"))


def test_fresh_boxes_leave_no_sessions(server):
    client = Http(server, MODERN)
    for _ in range(3):
        ran(client.python("x = 1"))
    assert sessions(server) == []
    sse = Sse(server)
    ran(sse.python("x = 1"))
    assert "NameError" in failed(sse.python("print(x)"))
    assert sessions(server) == []
    sse.close()


def test_sse_keeps_state_when_asked(server):
    client = Sse(server, "/mcp/sse?state=session")
    ran(client.python("x = 41"))
    assert "42" in ran(client.python("print(x + 1)"))
    assert len(sessions(server)) == 1
    client.close()
    wait_for(lambda: not sessions(server), 60, "the end of its box")
    reply = server.ask("GET", "/mcp/sse?state=perhaps", Accept="text/event-stream")
    assert reply.status in (400, 422)


# ---- streams -----------------------------------------------------------------------------------


def test_answers_as_json_or_as_a_stream(server):
    client = Http(server)
    plain = client.post(request("tools/list", number=5))
    assert plain.headers["Content-Type"].startswith("application/json")
    told = client.post(call("execute_python", 6, progress="p", code=COUNT))
    assert told.headers["Content-Type"].startswith("text/event-stream")
    found = messages_of(told)
    assert found[-1]["id"] == 6 and all("id" not in one for one in found[:-1])
    progress = [one["params"] for one in found if one.get("method") == "notifications/progress"]
    assert progress and all(one["progressToken"] == "p" for one in progress)
    values = [one["progress"] for one in progress]
    assert values == sorted(set(values))


def test_a_stream_is_resumed(server):
    client = Http(server)
    connection, reply = client.open(call("execute_python", 6, progress="p", code=COUNT))
    with contextlib.closing(connection), contextlib.closing(reply):
        for number, _, data in events(reply):
            if data:
                seen = json.loads(data)
                break
    assert number, "an event to come back to"
    connection, reply = client.open(None, "GET", Last_Event_ID=number, Accept="text/event-stream")
    found = []
    with contextlib.closing(connection), contextlib.closing(reply):
        assert reply.status == 200
        for _, _, data in events(reply):
            if data:
                found.append(json.loads(data))
                if found[-1].get("id") == 6:
                    break
    assert found[-1]["result"]["structuredContent"]["stdout"].count("line") == 4
    assert seen not in found, "the rest, and not what was seen already"


def test_what_is_said_apart_from_calls(server):
    """Subscriptions, over the stream of a session."""
    client = Http(server)
    ran(client.ask(call("upload_file", path="a.txt", content="one")))
    found = client.ask(request("resources/list"))["result"]["resources"]
    uri = next(one["uri"] for one in found if one["uri"].endswith("a.txt"))
    assert client.ask(request("resources/subscribe", {"uri": uri}))["result"] == {}
    connection, reply = client.open(None, "GET", Accept="text/event-stream")
    with contextlib.closing(connection), contextlib.closing(reply):
        assert reply.status == 200
        ran(client.python("open('a.txt', 'w').write('two')"))
        for _, _, data in events(reply):
            if data and json.loads(data)["method"] == "notifications/resources/updated":
                break
        assert json.loads(data)["params"]["uri"] == uri
    read = client.ask(request("resources/read", {"uri": uri}))["result"]["contents"]
    assert read[0]["text"] == "two"
    assert client.ask(request("resources/unsubscribe", {"uri": uri}))["result"] == {}


def test_paths_as_models_write_them(server):
    client = Http(server)
    for place in ("/workspace", "/mnt/data", "/home/user"):
        ran(client.ask(call("upload_file", path=place + "/d/a.txt", content=place)))
        for path in ("d/a.txt", place + "/d/a.txt"):
            assert f'"content":"{place}"' in ran(client.ask(call("read_file", path=path)))
        listed = client.ask(call("list_files", path=place))["result"]["structuredContent"]
        assert [one["path"] for one in listed["files"]] == ["d"]
    for bad in ("/mnt/data/../../etc/passwd", "/mnt/database/a.txt", "/mnt", "/home/user2/a"):
        failed(client.ask(call("upload_file", path=bad, content="x")))


def test_listen(server):
    """The same without sessions: a request that is answered by what happens."""
    client = Http(server, MODERN)
    made = client.ask(call("create_session"))["result"]["structuredContent"]["session_id"]
    ran(client.ask(call("upload_file", path="a.txt", content="one", session_id=made)))
    uri = f"glovebox://sessions/{made}/files/a.txt"
    wanted = {"notifications": {"resourceSubscriptions": [uri]}}
    connection, reply = client.open(request("subscriptions/listen", wanted, 9))
    with contextlib.closing(connection), contextlib.closing(reply):
        stream = (json.loads(data) for _, _, data in events(reply) if data)
        first = next(stream)
        assert first["method"] == "notifications/subscriptions/acknowledged", first
        ran(client.python("open('a.txt', 'w').write('two')", session_id=made))
        updated = next(one for one in stream if one["method"] == "notifications/resources/updated")
        assert updated["params"]["uri"] == uri
    ran(client.ask(call("close_session", session_id=made)))


def test_logging(server):
    client = Http(server)
    code = "print('to be heard', flush=True)"
    assert client.ask(request("logging/setLevel", {"level": "debug"}))["result"] == {}
    found = messages_of(client.post(call("execute_python", 6, code=code)))
    heard = [one for one in found if one.get("method") == "notifications/message"]
    assert any("to be heard" in json.dumps(one["params"]["data"]) for one in heard), found
    assert client.ask(request("logging/setLevel", {"level": "loud"}))["error"]["code"] == -32602


@pytest.mark.parametrize(
    "level, heard",
    [("debug", {"info", "warning"}), ("info", {"info", "warning"}), ("notice", {"warning"}),
     ("warning", {"warning"}), ("error", set()), ("critical", set()), ("alert", set()),
     ("emergency", set())],
)  # fmt: skip
def test_logging_levels(server, level, heard):
    """Every word of the specification is taken, also those that are no level of ours."""
    client = Http(server)
    code = "import sys; print('out', flush=True); print('err', file=sys.stderr, flush=True)"
    assert client.ask(request("logging/setLevel", {"level": level}))["result"] == {}
    found = messages_of(client.post(call("execute_python", 6, code=code)))
    logged = [one["params"] for one in found if one.get("method") == "notifications/message"]
    assert {one["level"] for one in logged} == heard, found
    assert {one["logger"] for one in logged if one["level"] == "warning"} <= {"stderr"}


# ---- tools -------------------------------------------------------------------------------------


def test_structured_and_text_agree(server):
    client = Http(server)
    schemas = {tool["name"]: tool["outputSchema"]
               for tool in client.ask(request("tools/list"))["result"]["tools"]}
    result = client.python("print('hi')\n6 * 7")["result"]
    assert set(schemas["execute_python"]["required"]) <= set(result["structuredContent"])
    assert result["structuredContent"]["stdout"] == "hi\n"
    assert json.loads(result["content"][0]["text"]) == result["structuredContent"]
    result = client.ask(call("run_command", command="echo $((6 * 7)); exit 3"))["result"]
    assert result["structuredContent"]["exit_code"] == 3 and "42" in result["content"][0]["text"]


def test_big_output_is_linked(server):
    client = Http(server)
    result = client.python("for i in range(20000): print('line', i)")["result"]
    links = [part for part in result["content"] if part["type"] == "resource_link"]
    assert links and len(json.dumps(result)) < 100_000
    whole = client.ask(request("resources/read", {"uri": links[0]["uri"]}))["result"]["contents"]
    assert "line 19999" in whole[0]["text"]


def test_interrupt(server):
    client = Http(server)
    made = client.ask(call("create_session"))["result"]["structuredContent"]["session_id"]
    with client.underway(loop(7, session_id=made)) as messages:
        ran(client.ask(call("interrupt", session_id=made)))
        *_, (_, last) = messages
    assert last["id"] == 7 and "KeyboardInterrupt" in failed(last)
    assert "alive" in ran(client.python("print('alive')", session_id=made))


def test_files_as_resources(server):
    client = Http(server)
    ran(client.python("open('chart.bin', 'wb').write(bytes(range(256)))\nopen('sub dir.txt', 'w')"))
    listed = client.ask(request("resources/list"))["result"]["resources"]
    found = {one["name"]: one for one in listed}
    assert "chart.bin" in found, found
    templates = client.ask(request("resources/templates/list"))["result"]["resourceTemplates"]
    assert any("{" in one["uriTemplate"] for one in templates)
    uri = found["chart.bin"]["uri"]
    [content] = client.ask(request("resources/read", {"uri": uri}))["result"]["contents"]
    assert "blob" in content and "text" not in content


# ---- who may come in ---------------------------------------------------------------------------


def test_origin_and_host(server):
    body = hello()
    good = {"Content_Type": "application/json", "Accept": "application/json, text/event-stream"}
    for headers in ({"Origin": "http://evil.example"}, {"Host": "evil.example"},
                    {"Origin": "null"}, {"Host": "127.0.0.1.evil.example"}):
        assert 400 <= server.ask("POST", "/mcp", body, **good, **headers).status < 500, headers
        assert 400 <= server.ask("GET", "/mcp/sse", Accept="text/event-stream",
                                 **headers).status < 500, headers
    for headers in ({"Origin": f"http://127.0.0.1:{server.port}"},
                    {"Host": f"localhost:{server.port}"}):
        assert server.ask("POST", "/mcp", body, **good, **headers).status == 200, headers


def test_keys(gb, serve, tmp_path):
    key = gb("key", "create", "--data", tmp_path / "keyed").out.strip()
    server = serve("--require-key", data=tmp_path / "keyed")
    good = {"Content_Type": "application/json", "Accept": "application/json, text/event-stream"}
    for headers in ({}, {"Authorization": "Bearer gb_nope"}):
        reply = server.ask("POST", "/mcp", hello(), **good, **headers)
        assert reply.status == 401, reply
        challenge = reply.headers["WWW-Authenticate"]
        assert challenge.startswith("Bearer")
        url = re.search(r'resource_metadata="([^"]+)"', challenge)[1]
    path = "/" + url.split("/", 3)[3]
    assert path.startswith("/.well-known/oauth-protected-resource")
    told = server.good("GET", path)
    assert told["resource"].endswith("/mcp") and told["bearer_methods_supported"] == ["header"]
    assert server.ask("GET", "/mcp/sse", Accept="text/event-stream").status == 401
    client = Http(server, key=key)
    assert "42" in ran(client.python("print(6 * 7)"))


# ---- stdio -------------------------------------------------------------------------------------


def test_stdio_with_an_engine_of_its_own(gb):
    client = Stdio(gb)
    ran(client.python("x = 41"))
    assert "42" in ran(client.python("print(x + 1)"))
    assert client.hang_up() == 0, client.errors


def test_stdio_forwards(gb, server):
    client = Stdio(gb, "--url", f"http://127.0.0.1:{server.port}")
    ran(client.python("x = 41"))
    assert "42" in ran(client.python("print(x + 1)"))
    assert len(sessions(server)) == 1  # it runs there
    client.send(loop(7))
    client.lines.notified("notifications/progress")
    client.send(notification("notifications/cancelled", {"requestId": 7}))
    assert "42" in ran(client.python("print(x + 1)"))
    assert client.hang_up() == 0, client.errors
    wait_for(lambda: not sessions(server), 60, "the end of its box")


def test_stdio_forwards_with_a_key(gb, serve, tmp_path):
    key = gb("key", "create", "--data", tmp_path / "keyed").out.strip()
    server = serve("--require-key", data=tmp_path / "keyed")
    url = f"http://127.0.0.1:{server.port}"
    client = Stdio(gb, "--url", url, env={"GLOVEBOX_API_KEY": key})
    assert "42" in ran(client.python("print(6 * 7)"))
    assert client.hang_up() == 0, client.errors
    client = Stdio(gb, "--url", url, version=None)
    error = client.ask(hello())["error"]
    assert "key" in error["message"].lower() or "401" in error["message"], error
    client.hang_up()


def test_stdio_and_a_service_that_is_not_there(gb, server):
    url = f"http://127.0.0.1:{server.port}"
    client = Stdio(gb, "--url", url)
    ran(client.python("x = 1"))
    assert server.stop() == 0
    assert client.ask(call("execute_python", code="1")).get("error"), "told, and not left waiting"
    client.hang_up()
    client = Stdio(gb, "--url", url, version=None)
    assert client.ask(hello())["error"]["message"]
    client.hang_up()
    for wrong in ("nonsense", "ftp://127.0.0.1/", "http://", ""):
        r = gb("mcp", "--url", wrong)
        assert r.code == 2 and r.out == "" and r.err, wrong


# ---- configurations ----------------------------------------------------------------------------


def blocks(text):
    """The fenced blocks of a Markdown text, without indentation."""
    return re.findall(r"^```\w*\n(.*?)^```$", text, re.M | re.S)


@pytest.mark.parametrize("name", ["claude-desktop", "claude-code", "cursor", "vscode", "mcpo",
                                  "open-webui"])
def test_printed_configuration_is_the_documented_one(gb, name):
    r = gb("mcp", "--print-config", name)
    assert r.code == 0 and r.err == "", r.err
    with open(os.path.join(ROOT, "docs", "MCP.md"), encoding="utf-8") as f:
        documented = blocks(f.read())
    # Where the program lies is the only thing that a page cannot know.
    printed = r.out.replace(gb.binary, "glovebox")
    assert printed.strip() in [block.strip() for block in documented], printed
    if printed.lstrip().startswith("{"):
        json.loads(r.out)


def test_print_config_of_nobody(gb):
    r = gb("mcp", "--print-config", "nobody")
    assert r.code == 2 and r.out == "" and "claude-code" in r.err


def test_the_product_has_no_flag_for_tests(gb):
    for command in ("serve", "mcp"):
        assert gb(command, "--mcp-fixtures").code == 2
