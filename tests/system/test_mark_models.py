"""
How Mark asks models, over the servers of model_kit.py.

llm_probe (tests/unit/llm_probe.c) makes one call and prints what happened. The last tests have the
vendors' own packages talk to the same servers, so that the servers are known to be faithful.
"""

import dataclasses
import json
import os
import subprocess
import time

import pytest

from conftest import BINARY, ROOT, need
from model_kit import ModelServer, Reply, call, http_date

PROBE = os.path.join(os.path.dirname(BINARY), "tests", "unit", "llm_probe")
CANARY = "sk-canary-5f2b9c7e1d"
DIALECTS = ("openai", "anthropic")
TOOLS = [{"name": "run_python", "description": "Runs Python.",
          "parameters": {"type": "object", "properties": {"code": {"type": "string"}}, "required": ["code"]}}]
ASK = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "How much is it? Größe €"}]


class Outcome:
    """What llm_probe printed."""

    def __init__(self, lines):
        self.lines = lines
        self.replies = [line["reply"] for line in lines if "reply" in line]
        self.errors = [line["error"] for line in lines if "error" in line]

    reply = property(lambda self: self.replies[-1])
    error = property(lambda self: self.errors[-1])
    message = property(lambda self: self.reply["message"])
    waits = property(lambda self: [line["waiting"]["us"] for line in self.lines if "waiting" in line])

    def joined(self, kind):
        """The pieces after the last restart."""
        pieces = []
        for line in self.lines:
            if "restart" in line:
                pieces = []
            if kind in line:
                pieces.append(line[kind])
        return "".join(pieces)

    def called(self):
        """[(name, text)] of the calls, as they were streamed."""
        calls = {}
        for line in self.lines:
            if "restart" in line:
                calls = {}
            if "call" in line:
                name, text = calls.get(line["call"]["index"], (None, ""))
                calls[line["call"]["index"]] = (line["call"]["name"], text + line["call"]["text"])
        return [calls[i] for i in sorted(calls)]


def probe(config, code=0, env=None, **more):
    need(os.path.exists(PROBE), f"no {PROBE}: build with -Dtests=enabled")
    done = subprocess.run([PROBE], input=json.dumps({"config": config, **more}), capture_output=True,
                          text=True, timeout=120, env={**os.environ, **(env or {})})
    assert done.returncode == code, done
    assert CANARY not in done.stdout + done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def ask(server, dialect, messages=ASK, tools=TOOLS, config=None, key=None, **more):
    spec = f"m={dialect}:test@{getattr(server, dialect)}"
    request = {"messages": messages, "tools": tools, **more.pop("request", {})}
    settings = {"models": [spec], "retries": 0, **({"model_keys": [f"m={key}"]} if key else {}), **(config or {})}
    return Outcome(probe(settings, request=request, **more))


@pytest.fixture
def key_file(tmp_path):
    path = tmp_path / "key"
    path.write_text(f"  {CANARY}\n")
    path.chmod(0o600)
    return str(path)


# ---- replies ----


@pytest.mark.parametrize("dialect", DIALECTS)
def test_stream(dialect):
    """However it is cut, and however its lines end."""
    reply = Reply(text="It is 12 € – naïve 🙂.", thinking="Let me see… 🙃",
                  calls=[call("run_python", "c1", code="print('ü')"), call("answer", "c2", story="x")])
    cut = [dataclasses.replace(reply, piece=piece, newline=newline)
           for piece in (0, 1, 7) for newline in ("\n", "\r\n", "\r")]
    with ModelServer(cut) as server:
        for _ in cut:
            check_stream(ask(server, dialect), reply, server.posts[-1])


def check_stream(out, reply, post):
    assert out.message["content"] == out.joined("text") == reply.text
    assert out.joined("thinking") == reply.thinking
    assert [(c["id"], c["name"], c["arguments"]) for c in out.message["tool_calls"]] == [
        ("c1", "run_python", {"code": "print('ü')"}), ("c2", "answer", {"story": "x"})]
    assert [(name, json.loads(text)) for name, text in out.called()] == [
        ("run_python", {"code": "print('ü')"}), ("answer", {"story": "x"})]
    assert out.reply["finish"] == "stop"
    assert out.reply["usage"] == {"prompt": 11, "completion": 7, "cached": 3, "cost": -1.0}
    trace = out.reply["trace"]
    assert trace["attempts"] == 1 and trace["status"] == 200 and trace["request_id"] == "req_1"
    assert trace["request"] == post.body
    assert trace["reply"]["message"] == out.message


@pytest.mark.parametrize("dialect", DIALECTS)
def test_plain_body_for_a_stream(dialect):
    with ModelServer([Reply(text="Hello", calls=[call("run_python", "c1", code="1")], stream=False)]) as server:
        out = ask(server, dialect)
    assert out.message["content"] == "Hello" and out.message["tool_calls"][0]["arguments"] == {"code": "1"}
    assert out.reply["usage"]["prompt"] == 11


@pytest.mark.parametrize("dialect", DIALECTS)
def test_broken_arguments(dialect):
    for text, finish in (('{"code": nonsense}', "stop"), ('{"code": "print(', "length")):
        with ModelServer([Reply(calls=[call("run_python", "c1", arguments_text=text)])]) as server:
            out = ask(server, dialect)
        tool_call = out.message["tool_calls"][0]
        assert tool_call["arguments_text"] == text and "arguments" not in tool_call
        assert out.reply["finish"] == finish


def test_calls_that_are_not_counted():
    """As Ollama sends them: whole, all with index 0, without ids, arguments as objects."""
    calls = [call("run_python", code="1"), call("run_python", code="2"), call("answer", story="s")]
    with ModelServer([Reply(calls=calls, together=True, finish="stop")]) as server:
        out = ask(server, "openai")
    assert [(c["name"], c["arguments"]) for c in out.message["tool_calls"]] == [
        ("run_python", {"code": "1"}), ("run_python", {"code": "2"}), ("answer", {"story": "s"})]
    ids = [c["id"] for c in out.message["tool_calls"]]
    assert len(set(ids)) == 3 and all(ids)


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
def test_thoughts_of_local_servers(field):
    with ModelServer([Reply(thinking="Hm.", text="Yes", thinking_field=field)]) as server:
        out = ask(server, "openai")
    assert out.joined("thinking") == "Hm." and out.message["content"] == "Yes"


@pytest.mark.parametrize("dialect, finish, expected", [
    ("openai", "length", "length"), ("openai", "content_filter", "refused"), ("openai", "stop", "stop"),
    ("anthropic", "max_tokens", "length"), ("anthropic", "model_context_window_exceeded", "length"),
    ("anthropic", "refusal", "refused"), ("anthropic", "stop_sequence", "stop")])
def test_finish(dialect, finish, expected):
    with ModelServer([Reply(text="Some", finish=finish)]) as server:
        assert ask(server, dialect).reply["finish"] == expected


@pytest.mark.parametrize("dialect", DIALECTS)
def test_refusal(dialect):
    with ModelServer([Reply(refusal="I will not.")]) as server:
        out = ask(server, dialect)
    assert out.reply["finish"] == "refused" and out.message["content"] == "I will not."


@pytest.mark.parametrize("usage", [None, {"prompt": -5, "completion": 10**15, "cached": 0},
                                   {"prompt": 1, "completion": 2, "cached": 99}])
def test_wrong_usage(usage):
    with ModelServer([Reply(text="x", usage=usage)]) as server:
        told = ask(server, "openai").reply["usage"]
    assert told["prompt"] == (1 if usage and usage["prompt"] == 1 else -1)
    assert told["cached"] <= max(told["prompt"], 0)


def test_paused_turn_goes_on():
    with ModelServer([Reply(text="Half ", finish="pause_turn"), Reply(text="and half.")]) as server:
        out = ask(server, "anthropic")
    assert out.message["content"] == "Half and half."
    assert server.posts[1].body["messages"][-1] == {
        "role": "assistant", "content": [{"type": "text", "text": "Half "}]}


# ---- conversations ----


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_loop_of_tools(dialect):
    """Each reply goes back with its results; the server checks that it is a valid conversation."""
    replies = [Reply(thinking="First…", text="I look.", calls=[call("run_python", code="a")]),
               Reply(calls=[call("run_python", arguments_text="{broken"), call("no such tool!", x=1)]),
               Reply(text="Done.")]
    messages = list(ASK)
    with ModelServer(replies) as server:
        for _ in replies:
            message = ask(server, dialect, messages).message
            messages.append(message)
            messages += [{"role": "tool", "tool_call_id": c["id"], "name": c["name"], "content": "out", "error": True}
                         for c in message.get("tool_calls", [])]
    assert message["content"] == "Done."
    last = server.posts[2].body["messages"]
    if dialect == "anthropic":
        assert last[1]["content"][0] == {"type": "thinking", "thinking": "First…", "signature": "c2lnbmVk"}
        assert last[2]["content"][0]["is_error"] is True
        assert [b["type"] for b in last[4]["content"]] == ["tool_result", "tool_result"]
        assert server.posts[2].body["system"][0]["cache_control"] == {"type": "ephemeral"}
        assert last[4]["content"][1]["cache_control"] == {"type": "ephemeral"}
    else:
        assert last[2]["reasoning_content"] == "First…"
        assert last[2]["tool_calls"][0]["function"]["arguments"] == '{"code":"a"}'


@pytest.mark.parametrize("dialect", DIALECTS)
def test_conversations_that_were_cut(dialect):
    """Calls without results, results without calls, ids of other vendors, empty texts."""
    messages = [
        {"role": "system", "content": "s"},
        {"role": "assistant", "content": "Welcome"},
        {"role": "tool", "tool_call_id": "lost", "name": "run_python", "content": "orphan"},
        {"role": "assistant", "content": "", "tool_calls": [{"id": "call:1/ü", "name": "run_python", "arguments": {}},
                                                            {"id": "b", "name": "x" * 99, "arguments": {}}]},
        {"role": "tool", "tool_call_id": "b", "name": "x", "content": ""},
        {"role": "user", "content": "again"},
        {"role": "assistant", "content": ""},
        {"role": "user", "content": ""},
        {"role": "assistant", "content": "t", "raw": {"provider": "anthropic", "model": "other", "content": [
            {"type": "thinking", "thinking": "x", "signature": "s"}]}},
        {"role": "user", "content": "go"},
    ]
    with ModelServer([Reply(text="fine")]) as server:
        assert ask(server, dialect, messages).message["content"] == "fine"
    assert "orphan" in json.dumps(server.posts[0].body)
    assert "thinking" not in json.dumps(server.posts[0].body)


def test_thoughts_that_are_refused_are_left_out():
    raw = {"provider": "anthropic", "model": "test", "content": [
        {"type": "thinking", "thinking": "x", "signature": "s"}, {"type": "text", "text": "t"}]}
    messages = [*ASK, {"role": "assistant", "content": "t", "raw": raw}, {"role": "user", "content": "go"}]

    def scenario(request):
        if "signature" in json.dumps(request.body):
            return Reply(status=400, error={"type": "invalid_request_error",
                                            "message": "Invalid signature in thinking block"})
        return Reply(text="fine")

    with ModelServer(scenario) as server:
        assert ask(server, "anthropic", messages).message["content"] == "fine"


def test_forced_tool():
    for dialect, choice in (("openai", {"type": "function", "function": {"name": "run_python"}}),
                            ("anthropic", {"type": "tool", "name": "run_python",
                                           "disable_parallel_tool_use": True})):
        with ModelServer([Reply(calls=[call("run_python", code="1")])]) as server:
            ask(server, dialect, request={"tool": "run_python"})
        assert server.posts[0].body["tool_choice"] == choice


def test_limit_of_the_reply():
    with ModelServer([Reply(text="x")], repeat=True) as server:
        ask(server, "openai", request={"max_tokens": 99})
        ask(server, "anthropic", request={"max_tokens": 99})
        ask(server, "anthropic")
    assert [post.body.get("max_tokens") for post in server.posts] == [99, 99, 16384]


# ---- parameters that servers refuse ----


@pytest.mark.parametrize("refuse", ["max_tokens", "stream_options", "parallel_tool_calls", "tool_choice"])
def test_refused_parameter(refuse):
    """Left out at once, and in every request after it."""
    with ModelServer([Reply(text="x")], refuse=[refuse], repeat=True) as server:
        out = ask(server, "openai", request={"max_tokens": 50, "tool": "run_python"}, times=2)
    assert len(out.replies) == 2 and not out.waits
    assert [refuse in post.body for post in server.posts] == [True, False, False]
    if refuse == "max_tokens":
        assert server.posts[2].body["max_completion_tokens"] == 50


def test_all_parameters_refused():
    refuse = ["max_tokens", "max_completion_tokens", "stream_options", "parallel_tool_calls", "tool_choice"]
    with ModelServer([Reply(text="x")], refuse=refuse) as server:
        out = ask(server, "openai", request={"max_tokens": 50, "tool": "run_python"})
    assert out.error["failure"] == "invalid" and "max_" in out.error["message"]


def test_tools_only_without_reasoning():
    """OpenAI's newer models over Chat Completions, at a gateway that has nothing else."""
    def scenario(request):
        if request.body.get("reasoning_effort") != "none":
            return Reply(status=400, error={
                "message": "Function tools with reasoning_effort are not supported for gpt-5.6 in /v1/chat/completions. "
                "To use function tools, use /v1/responses or set reasoning_effort to 'none'.",
                "param": "reasoning_effort"})
        return Reply(text="x")

    with ModelServer(scenario) as server:
        out = ask(server, "openai", times=2)
        assert [reply["message"]["content"] for reply in out.replies] == ["x", "x"]
    assert [post.path[4:] for post in server.posts] == [
        "chat/completions", "responses", "chat/completions", "chat/completions"]


def test_tools_only_over_responses():
    """OpenAI's newest: the other API, from the first refusal on."""
    replies = [Reply(thinking="First…", text="I look 🙂.", calls=[call("run_python", "c1", code="a"),
                                                                  call("answer", "c2", story="é")], piece=3),
               Reply(text="Done.", stream=False), Reply(text="Cut", finish="max_output_tokens"),
               Reply(refusal="I will not."), Reply(calls=[call("run_python", arguments_text='{"code": "print(')]),
               Reply(text="x", error={"code": "server_error", "message": "went wrong"}), Reply(text="y", hang_up=900)]
    with ModelServer(replies, responses=True) as server:
        out = ask(server, "openai")
        assert out.joined("thinking") == "First…" and out.message["content"] == out.joined("text") == "I look 🙂."
        assert [c["arguments"] for c in out.message["tool_calls"]] == [{"code": "a"}, {"story": "é"}]
        assert out.called()[1] == ("answer", '{"story": "\\u00e9"}')
        assert out.reply["usage"] == {"prompt": 11, "completion": 7, "cached": 3, "cost": -1.0}
        results = [{"role": "tool", "tool_call_id": c["id"], "name": c["name"], "content": "out"}
                   for c in out.message["tool_calls"]]
        messages = [*ASK, out.message, *results]
        assert ask(server, "openai", messages).message["content"] == "Done."
        assert ask(server, "openai").reply["finish"] == "length"
        out = ask(server, "openai")
        assert out.reply["finish"] == "refused" and out.message["content"] == "I will not."
        out = ask(server, "openai")
        assert out.reply["finish"] == "length" and out.message["tool_calls"][0]["arguments_text"]
        assert "went wrong" in ask(server, "openai").error["message"]
        assert ask(server, "openai").error["failure"] == "unreachable"
    again = next(p.body for p in server.posts if p.path.endswith("/responses") and "reasoning" in str(p.body["input"]))
    assert [item.get("type", item.get("role")) for item in again["input"]] == [
        "system", "user", "reasoning", "assistant", "function_call", "function_call", "function_call_output",
        "function_call_output"]
    assert again["input"][2]["encrypted_content"] == "c2VhbGVk"


def test_model_without_tools():
    def scenario(request):
        if "tools" in request.body:
            return Reply(status=400, error={"message": "registry.ollama.ai/library/x does not support tools",
                                            "type": "api_error"})
        return Reply(text="x")

    with ModelServer(scenario) as server:
        assert ask(server, "openai").error["failure"] == "invalid"
        assert ask(server, "openai", tools=None).message["content"] == "x"


def test_forced_tool_of_a_model_that_thinks():
    def scenario(request):
        if request.body["tool_choice"]["type"] == "tool":
            return Reply(status=400, error={"type": "invalid_request_error", "message":
                                            "Thinking may not be enabled when tool_choice forces tool use."})
        return Reply(text="x")

    with ModelServer(scenario) as server:
        assert ask(server, "anthropic", request={"tool": "run_python"}).message["content"] == "x"


# ---- failures and retries ----


STATUSES = [
    (400, {"message": "no"}, "invalid", 1),
    (401, {"message": "Incorrect API key"}, "denied", 1),
    (402, {"type": "billing_error", "message": "pay"}, "unpaid", 1),
    (403, {"type": "permission_error", "message": "no"}, "denied", 1),
    (404, {"message": "The model does not exist"}, "invalid", 1),
    (408, {"message": "slow"}, "unreachable", 2),
    (409, {"message": "conflict"}, "invalid", 2),
    (413, {"type": "request_too_large", "message": "large"}, "too_long", 1),
    (429, {"type": "rate_limit_error", "message": "too many"}, "busy", 2),
    (429, {"code": "insufficient_quota", "message": "quota"}, "unpaid", 1),
    (429, {"message": "limit", "details": {"error_code": "enforced_spend_limit_reached"}}, "unpaid", 1),
    (500, {"message": "oops"}, "unreachable", 2),
    (503, {"message": "down"}, "busy", 2),
    (529, {"type": "overloaded_error", "message": "Overloaded"}, "busy", 2),
    (400, {"code": "context_length_exceeded", "message": "This model's maximum context length is 8192 tokens"},
     "too_long", 1),
    (400, {"type": "invalid_request_error", "message": "prompt is too long: 250000 tokens > 200000 maximum"},
     "too_long", 1),
]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_statuses(dialect):
    replies = [Reply(status=status, error=error, headers={"retry-after-ms": "1"})
               for status, error, _, attempts in STATUSES for _ in range(attempts)]
    with ModelServer(replies) as server:
        for status, error, failure, attempts in STATUSES:
            before = len(server.posts)
            out = ask(server, dialect, config={"retries": 1})
            assert out.error["failure"] == failure and out.error["status"] == status, (error, out.error)
            assert len(server.posts) - before == attempts == out.error["trace"]["attempts"]
            assert str(status) in out.error["message"]


@pytest.mark.parametrize("headers, low, high", [
    ({"retry-after-ms": "20"}, 20_000, 20_000),
    ({"retry-after": "0.03"}, 30_000, 30_000),
    ({"retry-after-ms": "30.5", "retry-after": "9"}, 30_500, 30_500),
    ({}, 375_000, 500_000),
    ({"retry-after": "soon"}, 375_000, 500_000),
])
def test_waits(headers, low, high):
    with ModelServer([Reply(status=429, headers=headers), Reply(text="x")]) as server:
        out = ask(server, "openai", config={"retries": 1})
    assert out.message["content"] == "x"
    assert [low <= wait <= high for wait in out.waits] == [True], out.waits


def test_wait_until_a_date():
    with ModelServer([Reply(status=429, headers={"retry-after": http_date(2.5)}), Reply(text="x")]) as server:
        out = ask(server, "openai", config={"retries": 1})
    assert out.message["content"] == "x" and 0 < out.waits[0] <= 3_000_000


def test_wait_can_be_cancelled():
    with ModelServer([Reply(status=429, headers={"retry-after": "100"})], repeat=True) as server:
        out = ask(server, "openai", config={"retries": 1}, cancel_at=1)
    assert out.waits == [100_000_000]
    assert out.error["failure"] == "cancelled"


def test_nobody_waits_for_an_hour():
    with ModelServer([Reply(status=429, headers={"retry-after": "3600"})], repeat=True) as server:
        out = ask(server, "openai", config={"retries": 1})
    assert not out.waits and len(server.posts) == 1
    assert out.error["failure"] == "busy" and out.error["retry_us"] == 3_600_000_000


@pytest.mark.parametrize("header, status, attempts", [("false", 500, 1), ("true", 400, 2)])
def test_the_server_decides_about_retries(header, status, attempts):
    reply = Reply(status=status, error={"message": "x"}, headers={"x-should-retry": header, "retry-after-ms": "1"})
    with ModelServer([reply], repeat=True) as server:
        ask(server, "openai", config={"retries": 1})
    assert len(server.posts) == attempts


@pytest.mark.parametrize("error, failure", [
    ({"type": "overloaded_error", "message": "Overloaded"}, "busy"),
    ({"type": "server_error", "message": "The server had an error"}, "unreachable"),
    ({"type": "invalid_request_error", "message": "bad"}, "invalid"),
    ({"code": "insufficient_quota", "message": "quota"}, "unpaid"),
])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_error_in_a_stream(dialect, error, failure):
    with ModelServer([Reply(text="Some text", error=error)]) as server:
        out = ask(server, dialect)
    assert out.error["failure"] == failure and error["message"] in out.error["message"]
    assert out.error["trace"]["reply"]["error"] == error


@pytest.mark.parametrize("dialect", DIALECTS)
def test_hang_up_at_every_place(dialect):
    """Wherever the stream breaks, the second attempt is told whole, and nothing of the first."""
    whole = Reply(text="It is 12 €.", calls=[call("run_python", "c1", code="1")], headers={"retry-after-ms": "1"})

    def scenario(request):
        return whole if request.number % 2 else Reply(**{**vars(whole), "hang_up": places[request.number // 2]})

    places = list(range(0, 1500, 23))
    with ModelServer(scenario) as server:
        out = ask(server, dialect, config={"retries": 1}, times=len(places))
    assert len(out.replies) == len(places)
    assert all(reply["message"]["content"] == whole.text for reply in out.replies)
    assert out.joined("text").endswith(whole.text)
    assert any("restart" in line for line in out.lines)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_no_retry_of_what_was_told_without_a_way_back(dialect):
    with ModelServer([Reply(text="It is twelve.", hang_up=900)], repeat=True) as server:
        out = ask(server, dialect, config={"retries": 2}, no_restart=True)
    assert out.joined("text") and out.error["failure"] == "unreachable"
    assert len(server.posts) == 1


@pytest.mark.parametrize("dialect", DIALECTS)
def test_stream_that_just_ends(dialect):
    events = ['{"choices": [{"index": 0, "delta": {"content": "Ha"}}]}'] if dialect == "openai" else [
        {"type": "message_start", "message": {}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "Ha"}}]
    with ModelServer([Reply(events=events)]) as server:
        out = ask(server, dialect)
    assert out.error["failure"] == "unreachable" and "ended in the middle" in out.error["message"]


def test_counts_in_every_chunk():
    """They do not say that the reply is whole."""
    events = [{"choices": [{"index": 0, "delta": {"content": text}}],
               "usage": {"prompt_tokens": 1, "completion_tokens": 1}} for text in ("It is ", "not ", "twelve.")]
    with ModelServer([Reply(events=events, hang_up=200), Reply(events=events)]) as server:
        out = ask(server, "openai")
        assert out.joined("text") and out.error["failure"] == "unreachable"
        assert ask(server, "openai").message["content"] == "It is not twelve."


@pytest.mark.parametrize("dialect", DIALECTS)
def test_silence(dialect):
    with ModelServer([Reply(text="x", silent=0), Reply(text="y", silent=150)], repeat=True) as server:
        for _ in range(2):
            out = ask(server, dialect, config={"idle_ms": 200})
            assert out.error["failure"] == "unreachable" and "sent nothing" in out.error["message"]


def test_slow_is_not_silent():
    """The limit is for the time without a byte, not for the whole."""
    with ModelServer([Reply(text="x" * 40, piece=200, pause=0.15)]) as server:
        started = time.monotonic()
        out = ask(server, "openai", config={"idle_ms": 10000})
    assert out.message["content"] == "x" * 40
    assert time.monotonic() - started > 0.3


def test_end_without_the_end_of_the_body():
    """All has been said, and the connection stays open."""
    whole = b'data: {"choices": [{"delta": {"content": "x"}, "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n'
    with ModelServer([Reply(body=whole, silent=len(whole))]) as server:
        assert ask(server, "openai").message["content"] == "x"


@pytest.mark.parametrize("dialect", DIALECTS)
def test_cancel_in_the_middle(dialect):
    with ModelServer([Reply(text="abc", silent=1000)]) as server:
        out = ask(server, dialect, cancel_at=1)
    assert out.error["failure"] == "cancelled"


def test_nobody_there():
    with ModelServer([]) as server:
        url = server.openai
    lines = probe({"models": [f"m=openai:test@{url}"], "retries": 0}, request={"messages": ASK})
    error = lines[-1]["error"]
    assert error["failure"] == "unreachable" and "127.0.0.1" in error["message"]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_too_much(dialect):
    with ModelServer([Reply(text="x" * 300_000)]) as server:
        out = ask(server, dialect, config={"reply_bytes_max": 100_000})
    assert out.error["failure"] == "broken" and "100000 bytes" in out.error["message"]


def test_endless_reply():
    def endless(request):
        return Reply(events=['{"choices": [{"delta": {"content": "%s"}}]}' % ("x" * 1000)] * 3000)

    with ModelServer(endless) as server:
        assert ask(server, "openai", config={"reply_bytes_max": 1_000_000}).error["failure"] == "broken"


@pytest.mark.parametrize("dialect", DIALECTS)
def test_nonsense(dialect):
    bodies = [b"<html>login</html>", b"", b"\0\1\2", b"data: nonsense\n\n", b'{"a": 1}', b"[" * 100_000,
              b'{"choices": ' + b"[" * 100_000, b"data: " + b'{"a":' * 5000 + b"\n\n"]
    with ModelServer([Reply(body=body) for body in bodies]) as server:
        for body in bodies:
            assert ask(server, dialect).error["failure"] in ("broken", "unreachable"), body[:50]


def test_redirects_are_not_followed():
    with ModelServer([Reply(text="x")], repeat=True) as other:
        with ModelServer([Reply(status=307, headers={"Location": f"{other.openai}/chat/completions"})]) as server:
            out = ask(server, "openai")
    assert out.error["failure"] == "invalid" and "redirects" in out.error["message"]
    assert not other.requests


# ---- keys ----


@pytest.mark.parametrize("dialect", DIALECTS)
def test_key_is_sent_and_not_shown(dialect, key_file):
    """Whatever the server does with it: probe() looks for it in all that is printed."""
    def scenario(request):
        echo = f"key {request.headers.get('x-api-key') or request.headers['authorization']}"
        return [Reply(text="fine"),
                Reply(status=400, error={"message": "x" * 130 + echo}),
                Reply(status=500, body=echo.encode()),
                Reply(text=echo, calls=[call("run_python", code=echo)], piece=5),
                Reply(error={"type": "api_error", "message": echo})][request.number % 5]

    with ModelServer(scenario, key=CANARY) as server:
        out = ask(server, dialect, key=key_file)
        assert out.message["content"] == "fine"
        for _ in range(2):
            assert ask(server, dialect, key=key_file).error
        # Streamed pieces are passed on as they come, so only the message is looked at.
        spec = f"m={dialect}:test@{getattr(server, dialect)}"
        done = subprocess.run([PROBE], text=True, capture_output=True, timeout=120, input=json.dumps(
            {"config": {"models": [spec], "model_keys": [f"m={key_file}"]}, "request": {"messages": ASK}}))
        assert "[key]" in done.stdout.splitlines()[-1] and CANARY not in done.stdout.splitlines()[-1]
        assert "[key]" in ask(server, dialect, key=key_file).error["message"]
    with ModelServer([], key="another") as server:
        assert ask(server, dialect, key=key_file).error["failure"] == "denied"


def test_headers(key_file):
    with ModelServer([Reply(text="x")], repeat=True) as server:
        ask(server, "openai", key=key_file)
        ask(server, "anthropic", key=key_file)
        ask(server, "openai")
    first, second, third = (post.headers for post in server.posts)
    assert first["authorization"] == second["authorization"] == f"Bearer {CANARY}"
    assert second["x-api-key"] == CANARY and "x-api-key" not in first and "authorization" not in third


def test_proxies_are_not_for_this_machine():
    with ModelServer([Reply(text="x")]) as server:
        out = ask(server, "openai", env={"http_proxy": "http://127.0.0.1:9", "ALL_PROXY": "http://127.0.0.1:9"})
    assert out.message["content"] == "x"


def test_proxy_is_used():
    """For a host elsewhere: the proxy is asked, and refuses."""
    with ModelServer([]) as proxy:
        lines = probe({"models": ["m=openai:test@http://models.invalid/v1"], "retries": 0},
                      request={"messages": ASK}, env={"http_proxy": f"http://127.0.0.1:{proxy.port}"})
    assert lines[-1]["error"]["status"] in (404, 501)
    assert proxy.requests[0].path == "http://models.invalid/v1/chat/completions"


# ---- which models there are ----


def test_vendors_variables():
    with ModelServer([Reply(text="x")], repeat=True, key=CANARY) as server:
        environ = [f"OPENAI_API_KEY={CANARY}", f"OPENAI_BASE_URL={server.openai}", "OPENAI_MODEL=o",
                   f"ANTHROPIC_API_KEY= {CANARY}\n", f"ANTHROPIC_BASE_URL={server.anthropic}", "ANTHROPIC_MODEL=a"]
        models = probe({"environ": environ, "demo": True})[0]["models"]
        assert [(m["name"], m["provider"], m["source"]) for m in models] == [
            ("o", "openai", "OPENAI_API_KEY"), ("a", "anthropic", "ANTHROPIC_API_KEY"), ("demo", "demo", "built in")]
        for name in "oa":
            lines = probe({"environ": environ}, model=name, request={"messages": ASK})
            assert lines[-1]["reply"]["message"]["content"] == "x"
    assert [post.body["model"] for post in server.posts] == ["o", "a"]


def test_probe(key_file):
    """What `glovebox doctor` says of a model, without asking it."""
    def said(server, dialect="openai", model="test", key=None):
        config = {"models": [f"m={dialect}:{model}@{getattr(server, dialect)}"],
                  "model_keys": [f"m={key}"] if key else []}
        return probe(config, probe_ms=5000)[0]["models"][0]["probe"]

    with ModelServer([], models=["test", "llama3:latest"], key=CANARY) as server:
        assert said(server, key=key_file) == said(server, "anthropic", key=key_file) == ""
        assert said(server, model="llama3", key=key_file) == ""
        assert "has no model 'other'" in said(server, model="other", key=key_file)
        assert "needs a key" in said(server)
    with ModelServer([], models=["test"], key="another") as server:
        assert "does not accept the key" in said(server, key=key_file)
    with ModelServer([]) as server:
        assert said(server) == ""  # no list, but there
    assert "no connection" in said(server)
    assert server.posts == []


# ---- the vendors' own packages ----


@pytest.fixture(scope="module")
def kit():
    """The Python that has them; installed the first time."""
    script = os.path.join(ROOT, "tools", "model_kit.sh")
    where = os.environ.get("GB_MODEL_KIT") or subprocess.run(
        [script, "--where"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    done = subprocess.run([script, where], capture_output=True, text=True)
    need(done.returncode == 0, f"tools/model_kit.sh failed: {done.stderr[-300:]}")
    return os.path.join(where, "venv", "bin", "python")


OPENAI_CLIENT = """
import json, openai, sys
client = openai.OpenAI(base_url=sys.argv[1], api_key="k", max_retries=1)
ask = dict(model="test", messages=[{"role": "user", "content": "hi"}], tools=[{"type": "function", "function": {
    "name": "run_python", "parameters": {"type": "object", "properties": {}}}}])
out = {}
with client.chat.completions.stream(**ask, stream_options={"include_usage": True}) as stream:
    out["kinds"] = sorted({event.type for event in stream})
    last = stream.get_final_completion()
plain = client.chat.completions.create(**ask)
for name, c in (("stream", last), ("plain", plain)):
    m = c.choices[0].message
    out[name] = [m.content, [[t.function.name, t.function.arguments] for t in m.tool_calls],
                 c.choices[0].finish_reason, c.usage.prompt_tokens, c.usage.completion_tokens]
for name, messages in (("retried", ask["messages"]), ("rate", ask["messages"]), ("bad", [{"role": "tool"}])):
    try:
        out[name] = client.chat.completions.create(**{**ask, "messages": messages}).choices[0].message.content
    except openai.APIStatusError as e:
        out[name] = [type(e).__name__, e.status_code]
try:
    for chunk in client.chat.completions.create(**ask, stream=True): pass
except openai.APIError as e:
    out["in_stream"] = e.message
print(json.dumps(out))
"""

ANTHROPIC_CLIENT = """
import anthropic, json, sys
client = anthropic.Anthropic(base_url=sys.argv[1], api_key="k", max_retries=1)
ask = dict(model="test", max_tokens=99, messages=[{"role": "user", "content": "hi"}], tools=[{
    "name": "run_python", "input_schema": {"type": "object", "properties": {}}}])
out = {}
with client.messages.stream(**ask) as stream:
    out["kinds"] = sorted({event.type for event in stream})
    last = stream.get_final_message()
plain = client.messages.create(**ask)
for name, m in (("stream", last), ("plain", plain)):
    out[name] = [[b.text for b in m.content if b.type == "text"][0],
                 [[b.name, json.dumps(b.input)] for b in m.content if b.type == "tool_use"],
                 m.stop_reason, m.usage.input_tokens + m.usage.cache_read_input_tokens, m.usage.output_tokens]
for name, messages in (("retried", ask["messages"]), ("rate", ask["messages"]), ("bad", [
        {"role": "assistant", "content": "x"}])):
    try:
        out[name] = client.messages.create(**{**ask, "messages": messages}).content[0].text
    except anthropic.APIStatusError as e:
        out[name] = [type(e).__name__, e.status_code]
try:
    for event in client.messages.create(**ask, stream=True): pass
except anthropic.APIError as e:
    out["in_stream"] = str(e)
print(json.dumps(out))
"""


RESPONSES_CLIENT = """
import json, openai, sys
client = openai.OpenAI(base_url=sys.argv[1], api_key="k", max_retries=1)
ask = dict(model="test", input=[{"role": "user", "content": "hi"}], store=False, tools=[{
    "type": "function", "name": "run_python", "parameters": {"type": "object", "properties": {}}, "strict": False}])
out = {}
with client.responses.stream(**ask) as stream:
    for event in stream: pass
    last = stream.get_final_response()
plain = client.responses.create(**ask)
for name, r in (("stream", last), ("plain", plain)):
    out[name] = [r.output_text, [[i.name, i.arguments] for i in r.output if i.type == "function_call"],
                 r.status, r.usage.input_tokens, r.usage.output_tokens]
print(json.dumps(out))
"""


def test_official_package_over_responses(kit):
    full = Reply(text="It is 12 €.", thinking="Hm", calls=[call("run_python", code="1")], piece=13)
    with ModelServer([full, full], responses=True) as server:
        done = subprocess.run([kit, "-c", RESPONSES_CLIENT, server.openai], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-3000:]
    out = json.loads(done.stdout)
    assert out["stream"] == out["plain"] == ["It is 12 €.", [["run_python", '{"code": "1"}']], "completed", 11, 7]


@pytest.mark.parametrize("dialect, client", [("openai", OPENAI_CLIENT), ("anthropic", ANTHROPIC_CLIENT)],
                         ids=DIALECTS)
def test_official_package(kit, dialect, client):
    full = Reply(text="It is 12 €.", calls=[call("run_python", code="1")], piece=13)
    limited = Reply(status=429, error={"type": "rate_limit_error", "message": "slow"},
                    headers={"retry-after-ms": "1"})
    broken = Reply(text="x", error={"type": "overloaded_error", "message": "Overloaded here"})
    with ModelServer([full, full, limited, Reply(text="later"), limited, limited, broken]) as server:
        done = subprocess.run([kit, "-c", client, getattr(server, dialect)], capture_output=True, text=True,
                              timeout=120)
        assert done.returncode == 0, done.stderr[-3000:]
        out = json.loads(done.stdout)
        assert len(server.posts) == 8
    reason = "tool_use" if dialect == "anthropic" else "tool_calls"
    expected = ["It is 12 €.", [["run_python", '{"code": "1"}']], reason, 11, 7]
    assert out["stream"] == out["plain"] == expected
    assert out["retried"] == "later"
    assert out["rate"] == ["RateLimitError", 429] and out["bad"] == ["BadRequestError", 400]
    assert "Overloaded here" in out["in_stream"]
