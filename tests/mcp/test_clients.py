"""
The official clients, over each transport that they have.

A driver (drivers/) connects with one client and does everything that an assistant would: it lists
tools, runs Python, draws, follows, cancels, reads files. It reports what it got, and each test
looks at one part of that. Several drivers run at a time, each with a key of its own: with one for
all, each would be notified of the others' files. The Python client 2.x fails if a notification
arrives on its SSE stream in the moment in which it leaves.
"""

import base64
import concurrent.futures
import contextlib
import json
import os
import tempfile
import urllib.error
import urllib.request

import pytest

from conftest import BINARY, wait_for
from mcp_kit import HERE, KIT, NODE, kit, python, run, service  # noqa: F401

TOOLS = {"execute_python", "pip_install", "create_session", "close_session", "run_command",
         "upload_file", "read_file", "list_files", "interrupt"}
MODERN = "2026-07-28"
CONTENT = "three blind mice, héhé\n"

# client, transport, era. The newest revision has no HTTP+SSE; clients of the 1.x lines do not know
# it at all.
LINES = [(client, transport, "legacy")
         for client in ("ts1", "ts2", "py1", "py2")
         for transport in ("http", "sse", "sse-state", "stdio", "stdio-url")]
LINES += [(client, transport, "modern")
          for client in ("ts2", "py2") for transport in ("http", "stdio", "stdio-url")]
IDS = ["-".join(line) for line in LINES]


def keeps_state(transport, era):
    """Whether calls without a session_id share one."""
    return transport == "sse-state" or (transport != "sse" and era == "legacy") \
        or transport == "stdio"


def configuration(client, transport, era, server, env, key):
    mode = "legacy"
    if era == "modern":
        mode = {"pin": MODERN} if client == "ts2" else MODERN
    paths = {"sse": "/mcp/sse", "sse-state": "/mcp/sse?state=session"}
    command = [BINARY, "mcp"]
    if transport == "stdio-url":
        command += ["--url", server.url]
    else:
        command += ["--preload", "none", "--data", tempfile.mkdtemp(dir=server.data)]
    return {
        "kit": os.path.join(KIT, "node"), "transport": transport.split("-")[0], "mode": mode,
        "url": server.url + paths.get(transport, "/mcp"), "command": command, "env": env,
        "state": keeps_state(transport, era), "headers": {"X-API-Key": key},
    }


def create_keys(server, lines):
    """line -> its key, all of them known to the service, which looks for new ones every second"""
    keys = {line: server.gb("key", "create", "--data", f"{server.data}/data").out.strip()
            for line in lines}

    def known():
        request = urllib.request.Request(f"{server.url}/v1/sessions",
                                         headers={"X-API-Key": keys[lines[-1]]})
        with contextlib.suppress(urllib.error.HTTPError), urllib.request.urlopen(request):
            return True

    wait_for(known, 60, "the service to know the keys")
    return keys


def drive(line, server, key):
    client, transport, era = line
    env = server.gb.environment({"GLOVEBOX_API_KEY": key} if transport == "stdio-url" else None)
    words = json.dumps(configuration(client, transport, era, server, env, key))
    script = os.path.join(HERE, "drivers", client)
    if client.startswith("ts"):
        command = [NODE, script + ".mjs", words]
    else:
        command = [python("v" + client[2:]), "-B", script + ".py", words]
    code, out, err = run(command, env=env)
    try:
        return json.loads(out), err
    except ValueError:
        return {"connect": {"error": f"exit {code}: {out}"}}, err


@pytest.fixture(scope="module")
def reports(request):
    """line -> what its driver reports; those that tests were collected for run side by side."""
    wanted = []
    for item in request.session.items:
        line = getattr(item, "callspec", None) and item.callspec.params.get("line")
        if line and line not in wanted:
            wanted.append(line)
    with service(preload="matplotlib") as server, concurrent.futures.ThreadPoolExecutor(3) as pool:
        keys = create_keys(server, wanted)
        yield {line: pool.submit(drive, line, server, keys[line]) for line in wanted}


@pytest.fixture(params=LINES, ids=IDS, scope="module")
def line(request):
    return request.param


@pytest.fixture
def step(reports, line):
    report, err = reports[line].result()

    def value(name):
        assert "connect" not in report, (report["connect"], err[-2000:])
        assert "value" in report[name], (report[name], err[-2000:])
        return report[name]["value"]

    return value


def test_connects_and_leaves(step, line):
    assert step("close") is True
    version = step("version")
    if line[2] == "modern":
        assert version == MODERN
    elif version is not None:  # the first of them does not always tell
        assert version == "2025-11-25"


def test_tools(step):
    tools = {tool["name"]: tool for tool in step("tools")}
    assert set(tools) == TOOLS
    for tool in tools.values():
        assert len(tool["description"]) > 40 and tool["input"]["type"] == "object"
        assert tool["output"]["type"] == "object" and tool["annotations"]
    properties = tools["execute_python"]["input"]["properties"]
    assert set(properties) == {"code", "timeout", "session_id"}
    assert tools["execute_python"]["input"]["required"] == ["code"]
    assert {"package", "version"} <= set(tools["pip_install"]["input"]["properties"])


def test_state(step, line):
    alone = step("alone")
    if keeps_state(*line[1:]):
        assert not alone["isError"] and "42" in alone["text"], alone
    else:
        assert alone["isError"] and "NameError" in alone["text"], alone
    session = step("session")
    assert not session["ran"]["isError"] and "21" in session["ran"]["text"]
    assert not session["closed"]["isError"]
    assert session["after"]["isError"] and "session" in session["after"]["text"]


def test_structured_content(step):
    ran = step("session")["ran"]
    assert ran["structured"]["stdout"] == "21\n" and ran["structured"]["status"] == "ok"
    assert json.loads(ran["text"]) == ran["structured"]


def test_plot(step):
    plot = step("plot")
    assert not plot["isError"] and plot["mime"] == "image/png"
    assert base64.b64decode(plot["data"]).startswith(b"\x89PNG\r\n\x1a\n")


def test_progress(step):
    progress = step("progress")
    values = [one["progress"] for one in progress["seen"]]
    assert values and values == sorted(set(values)), "it rises"
    assert any("line" in (one.get("message") or "") for one in progress["seen"])
    assert progress["structured"]["stdout"].count("line") == 3


def test_cancel(step):
    cancel = step("cancel")
    assert cancel["ended"] == "cancelled"
    assert not cancel["after"]["isError"] and "alive" in cancel["after"]["text"]


def test_files(step):
    files = step("file")
    assert not any(one["isError"] for one in files.values()), files
    assert files["ran"]["structured"]["stdout"] == CONTENT + "\n"
    assert files["read"]["structured"]["content"] == CONTENT
    assert "notes/data.txt" in [one["path"] for one in files["list"]["structured"]["files"]]


def test_resource(step, line):
    resource = step("resource")
    [content] = resource["contents"]
    assert content["text"] == CONTENT and content["uri"] == resource["uri"]
    # Without a session of the protocol nobody knows whose files these would be.
    is_listed = resource["uri"] in resource["uris"]
    assert is_listed == (line[2] == "legacy" or line[1] == "stdio"), resource["uris"]


def test_failure(step):
    failure = step("failure")
    assert failure["isError"] and "ZeroDivisionError" in failure["text"]


def test_unknown_tool(step):
    unknown = step("unknown_tool")
    assert unknown.get("code") == -32602 and "tool" in unknown["message"], unknown


def test_prompts(step):
    prompts = step("prompts")
    assert prompts["names"] and "data.csv" in json.dumps(prompts["messages"])
