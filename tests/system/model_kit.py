"""
Model servers for tests: OpenAI's Chat Completions and Responses and Anthropic's Messages, as a script
tells them.

    with ModelServer([Reply(text="Hello"), Reply(calls=[call("run_python", code="print(1)")])]) as server:
        ... f"--model=m=openai:test@{server.openai}" or f"--model=m=anthropic:test@{server.anthropic}"
        server.requests[0].body["messages"]

A scenario is a list of replies, one for each request (the last is for all that follow if `repeat`), or
a function of the Request that returns a Reply. The same server speaks all of them, checks requests as
the vendors do (so a client that passes here sends what they accept), and streams unless the request
does not ask for it. tests/system/test_mark_models.py has the vendors' own packages talk to it.
"""

import dataclasses
import http.server
import json
import re
import socket
import threading
import time


def call(name, id=None, **arguments):
    """A tool call; arguments_text=... for arguments as they are, valid or not."""
    if set(arguments) == {"arguments_text"}:
        return {"name": name, "id": id, "text": arguments["arguments_text"]}
    return {"name": name, "id": id, "text": json.dumps(arguments)}


@dataclasses.dataclass
class Reply:
    """What to answer. Lengths are in bytes of the body."""

    text: str = ""
    thinking: str = ""
    calls: list = dataclasses.field(default_factory=list)
    refusal: str = ""
    finish: str = None  # the server's own word; by default what fits
    usage: dict = dataclasses.field(default_factory=lambda: {"prompt": 11, "completion": 7, "cached": 3})
    status: int = 200
    error: dict = None  # the vendor's error object: instead of a reply, or at the end of a stream
    headers: dict = dataclasses.field(default_factory=dict)
    body: bytes = None  # instead of all of this
    events: list = None  # data of the events instead of those that follow from the above
    piece: int = 0  # bytes per write; 0: all at once
    delay: float = 0  # seconds before the first byte
    pause: float = 0  # seconds between writes
    hang_up: int = None  # closes the connection after so many bytes
    silent: int = None  # sends nothing more after so many bytes, until the server is closed
    newline: str = "\n"  # of the event stream
    stream: bool = None  # False: answers with plain JSON although a stream was asked for
    thinking_field: str = "reasoning_content"  # of Chat Completions
    together: bool = False  # calls whole in one chunk, all with index 0, without ids, as Ollama


@dataclasses.dataclass
class Request:
    number: int
    method: str
    path: str
    headers: dict
    body: dict

    @property
    def dialect(self):
        ends = {"/messages": "anthropic", "/responses": "responses"}
        return next((name for end, name in ends.items() if self.path.endswith(end)), "openai")

    @property
    def messages(self):
        return self.body["input" if self.dialect == "responses" else "messages"]

    @property
    def last(self):
        """The content of the last message, as text."""
        last = self.messages[-1]
        content = last.get("content", last.get("output"))
        if isinstance(content, list):
            return "".join(str(part.get("text", part.get("content", ""))) for part in content)
        return content or ""

    @property
    def spoken(self):
        """How many messages of the assistant the conversation has."""
        return sum(message.get("role") == "assistant" for message in self.messages)


def programmed(request):
    """A scenario: runs the program between <<< and >>> of the last question, then tells the story
    between [[[ and ]]]."""
    content = [m for m in request.messages if m.get("role") == "user"][-1]["content"]
    if isinstance(content, list):
        content = "".join(part.get("text", "") for part in content)
    code = re.findall(r"<<<(.*?)>>>", content, re.S)
    story = re.findall(r"\[\[\[(.*?)\]\]\]", content, re.S)
    if request.messages[-1].get("role") == "user" and code:
        return Reply(calls=[call("run_python", code=code[-1])])
    return Reply(calls=[call("answer", story=story[-1] if story else "Done.")])


class Refused(Exception):
    """The request is not what the vendor's server accepts."""

    def __init__(self, message, param=None, status=400):
        super().__init__(message)
        self.message, self.param, self.status = message, param, status


# ---- requests ----


def need(condition, message, param=None):
    if not condition:
        raise Refused(message, param)


def check_name(name):
    need(isinstance(name, str) and re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", name), f"bad name {name!r}")


def check_openai_call(tool_call):
    need(set(tool_call) == {"id", "type", "function"} and tool_call["type"] == "function", "bad tool call")
    check_name(tool_call["function"]["name"])
    need(isinstance(tool_call["function"]["arguments"], str), "arguments must be a string")
    json.loads(tool_call["function"]["arguments"])  # templates of local servers parse them
    return tool_call["id"]


def check_openai_messages(messages):
    need(isinstance(messages, list) and messages, "messages must not be empty", "messages")
    waiting = []
    for message in messages:
        role, content = message.get("role"), message.get("content")
        if role == "tool":
            need(message["tool_call_id"] in waiting, "a tool message must follow its call", "messages")
            need(isinstance(content, str), "content of a tool must be text", "messages")
            waiting.remove(message["tool_call_id"])
            continue
        need(not waiting, f"no tool messages for {waiting}", "messages")
        need(role in ("system", "developer", "user", "assistant"), f"role {role!r}", "messages")
        if role == "assistant":
            need(content is None or isinstance(content, str), "bad content", "messages")
            need(content is not None or message.get("tool_calls"), "content or tool_calls", "messages")
            waiting = [check_openai_call(c) for c in message.get("tool_calls", [])]
        else:
            need(isinstance(content, (str, list)) and content, "content must not be empty", "messages")
    need(not waiting, f"no tool messages for {waiting}", "messages")


def check_openai(body):
    known = {"model", "messages", "stream", "stream_options", "tools", "tool_choice", "parallel_tool_calls",
             "max_tokens", "max_completion_tokens", "store", "prompt_cache_key", "reasoning_effort",
             "temperature"}
    for name in body:
        need(name in known, f"Unrecognized request argument supplied: {name}", name)
    need(isinstance(body.get("model"), str) and body["model"], "you must provide a model parameter", "model")
    check_openai_messages(body.get("messages"))
    for tool in body.get("tools", []):
        need(tool["type"] == "function", "bad tool", "tools")
        check_name(tool["function"]["name"])
        need(isinstance(tool["function"].get("parameters", {}), dict), "bad parameters", "tools")
    if not body.get("tools"):
        for name in ("tool_choice", "parallel_tool_calls"):
            need(name not in body, f"{name} is only allowed when tools are specified", name)
    if not body.get("stream"):
        need("stream_options" not in body, "stream_options needs stream", "stream_options")


def check_responses(body):
    known = {"model", "input", "instructions", "stream", "store", "include", "tools", "tool_choice",
             "parallel_tool_calls", "max_output_tokens", "prompt_cache_key", "reasoning"}
    for name in body:
        need(name in known, f"Unknown parameter: '{name}'.", name)
    need(isinstance(body.get("model"), str), "Missing required parameter: 'model'.", "model")
    waiting = []
    for item in [{"role": "user"}] if isinstance(body["input"], str) else body["input"]:
        if item.get("type") == "function_call":
            need(isinstance(item["arguments"], str), "bad arguments", "input")
            check_name(item["name"])
            waiting.append(item["call_id"])
        elif item.get("type") == "function_call_output":
            need(item["call_id"] in waiting, "No tool call found for function call output", "input")
            waiting.remove(item["call_id"])
        elif item.get("type") == "reasoning":
            need(item["encrypted_content"] and isinstance(item["summary"], list), "bad reasoning", "input")
        else:
            need(item["role"] in ("user", "assistant", "system", "developer"), "bad role", "input")
    need(not waiting, f"No tool output found for function call {waiting}", "input")
    for tool in body.get("tools", []):
        need(tool["type"] == "function", "bad tool", "tools")
        check_name(tool["name"])


def check_anthropic_content(role, content, waiting):
    """The ids of the calls in @content."""
    if isinstance(content, str):
        need(content and not waiting, f"tool_use ids without tool_result: {waiting}")
        return []
    need(isinstance(content, list) and content, "content must not be empty")
    results = [b["tool_use_id"] for b in content if b["type"] == "tool_result"]
    need(sorted(results) == sorted(waiting), f"tool_result {results} for tool_use {waiting}")
    first = [b["type"] == "tool_result" for b in content]
    need(first == sorted(first, reverse=True), "tool_result blocks must come first")
    for block in content:
        if block["type"] == "text":
            need(block["text"].strip(), "text content blocks must be non-empty")
        elif block["type"] == "tool_use":
            need(role == "assistant" and isinstance(block["input"], dict), "bad tool_use")
            need(re.fullmatch(r"[a-zA-Z0-9_-]+", block["id"]), "bad id")
            check_name(block["name"])
        elif block["type"] in ("thinking", "redacted_thinking"):
            need(role == "assistant" and (block.get("signature") or block.get("data")),
                 "thinking blocks need their signature")
        else:
            need(block["type"] == "tool_result" and role == "user", f"bad block {block['type']}")
    return [b["id"] for b in content if b["type"] == "tool_use"]


def check_anthropic(body):
    known = {"model", "messages", "max_tokens", "stream", "system", "tools", "tool_choice", "cache_control",
             "thinking", "metadata", "temperature"}
    for name in body:
        need(name in known, f"{name}: Extra inputs are not permitted")
    need(isinstance(body.get("model"), str), "model: Field required")
    need(isinstance(body.get("max_tokens"), int) and body["max_tokens"] > 0, "max_tokens: Field required")
    need(isinstance(body.get("messages"), list) and body["messages"], "messages: Field required")
    need(json.dumps(body).count('"cache_control"') <= 4, "A maximum of 4 blocks with cache_control")
    role, waiting = "assistant", []
    for message in body["messages"]:
        need(message["role"] in ("user", "assistant"), "messages: role must be user or assistant")
        need(message["role"] != role, "roles must alternate")
        role = message["role"]
        waiting = check_anthropic_content(role, message["content"], waiting if role == "user" else [])
    need(body["messages"][0]["role"] == "user", "first message must use the user role")
    for tool in body.get("tools", []):
        check_name(tool["name"])
        need(tool["input_schema"]["type"] == "object", "tools: input_schema must be an object")
    need("tool_choice" not in body or body.get("tools"), "tool_choice needs tools")


# ---- replies ----


def parts(text, count=3):
    """@text in up to @count pieces."""
    size = max(1, -(-len(text) // count))
    return [text[i:i + size] for i in range(0, len(text), size)]


def openai_usage(usage):
    return {"prompt_tokens": usage["prompt"], "completion_tokens": usage["completion"],
            "total_tokens": usage["prompt"] + usage["completion"],
            "prompt_tokens_details": {"cached_tokens": usage["cached"]}}


def openai_finish(reply):
    return reply.finish or ("tool_calls" if reply.calls else "stop")


def openai_deltas(reply):
    yield {"role": "assistant", "content": ""}
    for piece in parts(reply.thinking):
        yield {reply.thinking_field: piece}
    for piece in parts(reply.text):
        yield {"content": piece}
    for piece in parts(reply.refusal):
        yield {"refusal": piece}
    for i, tool_call in enumerate(reply.calls):
        if reply.together:
            yield {"tool_calls": [{"index": 0, "function": {"name": tool_call["name"],
                                                            "arguments": json.loads(tool_call["text"])}}]}
            continue
        yield {"tool_calls": [{"index": i, "id": tool_call["id"] or f"call_{i}", "type": "function",
                               "function": {"name": tool_call["name"], "arguments": ""}}]}
        for piece in parts(tool_call["text"], 5):
            yield {"tool_calls": [{"index": i, "function": {"arguments": piece}}]}


def openai_chunks(request, reply):
    base = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": request.body["model"]}
    wanted = (request.body.get("stream_options") or {}).get("include_usage")
    more = {"usage": None} if wanted else {}
    for delta in openai_deltas(reply):
        yield {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": None}], **more}
    if reply.error:
        yield {"error": reply.error}
        return
    yield {**base, "choices": [{"index": 0, "delta": {}, "finish_reason": openai_finish(reply)}], **more}
    if wanted and reply.usage:
        yield {**base, "choices": [], "usage": openai_usage(reply.usage)}


def openai_body(request, reply):
    message = {"role": "assistant", "content": reply.text or None, "refusal": reply.refusal or None}
    if reply.calls:
        message["tool_calls"] = [{"id": c["id"] or f"call_{i}", "type": "function",
                                  "function": {"name": c["name"], "arguments": c["text"]}}
                                 for i, c in enumerate(reply.calls)]
    return {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": request.body["model"],
            "choices": [{"index": 0, "message": message, "finish_reason": openai_finish(reply),
                         "logprobs": None}],
            "usage": openai_usage(reply.usage)}


def anthropic_usage(usage):
    """Theirs does not count what came from the cache."""
    return {"input_tokens": usage["prompt"] - usage["cached"], "cache_read_input_tokens": usage["cached"],
            "cache_creation_input_tokens": 0, "output_tokens": usage["completion"]}


def anthropic_finish(reply):
    return reply.finish or ("refusal" if reply.refusal else "tool_use" if reply.calls else "end_turn")


def anthropic_blocks(reply):
    """Pairs of the whole block and its deltas."""
    if reply.thinking:
        yield ({"type": "thinking", "thinking": reply.thinking, "signature": "c2lnbmVk"},
               [{"type": "thinking_delta", "thinking": p} for p in parts(reply.thinking)]
               + [{"type": "signature_delta", "signature": "c2lnbmVk"}])
    if reply.text or reply.refusal:
        text = reply.text or reply.refusal
        yield {"type": "text", "text": text}, [{"type": "text_delta", "text": p} for p in parts(text)]
    for i, tool_call in enumerate(reply.calls):
        try:
            value = json.loads(tool_call["text"] or "{}")
        except ValueError:
            value = {}
        yield ({"type": "tool_use", "id": tool_call["id"] or f"toolu_{i}", "name": tool_call["name"],
                "input": value},
               [{"type": "input_json_delta", "partial_json": p} for p in ["", *parts(tool_call["text"], 5)]])


def anthropic_events(request, reply):
    usage = anthropic_usage(reply.usage)
    yield {"type": "message_start",
           "message": {"id": "msg_1", "type": "message", "role": "assistant", "model": request.body["model"],
                       "content": [], "stop_reason": None, "stop_sequence": None,
                       "usage": {**usage, "output_tokens": 1}}}
    yield {"type": "ping"}
    for i, (block, deltas) in enumerate(anthropic_blocks(reply)):
        empty = {"text": "", "thinking": "", "signature": "", "input": {}}
        start = {**block, **{k: v for k, v in empty.items() if k in block}}
        yield {"type": "content_block_start", "index": i, "content_block": start}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": i, "delta": delta}
        yield {"type": "content_block_stop", "index": i}
    if reply.error:
        yield {"type": "error", "error": reply.error}
        return
    yield {"type": "message_delta", "delta": {"stop_reason": anthropic_finish(reply), "stop_sequence": None},
           "usage": {"output_tokens": reply.usage["completion"]}}
    yield {"type": "message_stop"}


def anthropic_body(request, reply):
    return {"id": "msg_1", "type": "message", "role": "assistant", "model": request.body["model"],
            "content": [block for block, _ in anthropic_blocks(reply)],
            "stop_reason": anthropic_finish(reply), "stop_sequence": None,
            "usage": anthropic_usage(reply.usage)}


def responses_items(reply):
    """The items of a reply."""
    if reply.thinking:
        yield {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": reply.thinking}],
               "encrypted_content": "c2VhbGVk"}
    if reply.text or reply.refusal:
        part = {"type": "output_text", "text": reply.text, "annotations": []}
        if not reply.text:
            part = {"type": "refusal", "refusal": reply.refusal}
        yield {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]}
    for i, tool_call in enumerate(reply.calls):
        yield {"type": "function_call", "id": f"fc_{i}", "call_id": tool_call["id"] or f"call_{i}",
               "name": tool_call["name"], "arguments": tool_call["text"], "status": "completed"}


def responses_body(request, reply):
    usage = {"input_tokens": reply.usage["prompt"], "output_tokens": reply.usage["completion"],
             "total_tokens": reply.usage["prompt"] + reply.usage["completion"],
             "input_tokens_details": {"cached_tokens": reply.usage["cached"], "cache_write_tokens": 0},
             "output_tokens_details": {"reasoning_tokens": 0}}
    return {"id": "resp_1", "object": "response", "created_at": 1, "model": request.body["model"],
            "status": "incomplete" if reply.finish else "completed", "error": None, "metadata": {},
            "incomplete_details": {"reason": reply.finish} if reply.finish else None,
            "output": list(responses_items(reply)), "usage": usage, "parallel_tool_calls": False,
            "tool_choice": "auto", "tools": [], "instructions": None}


def responses_item_events(i, item):
    at = {"output_index": i, "item_id": item["id"]}
    if item["type"] == "reasoning":
        for piece in parts(item["summary"][0]["text"]):
            yield {"type": "response.reasoning_summary_text.delta", **at, "summary_index": 0, "delta": piece}
    elif item["type"] == "function_call":
        for piece in parts(item["arguments"], 5):
            yield {"type": "response.function_call_arguments.delta", **at, "delta": piece}
        yield {"type": "response.function_call_arguments.done", **at, "arguments": item["arguments"],
               "name": item["name"]}
    else:
        part = item["content"][0]
        kind, field = ("output_text", "text") if "text" in part else ("refusal", "refusal")
        empty = {**part, field: ""}
        yield {"type": "response.content_part.added", **at, "content_index": 0, "part": empty}
        for piece in parts(part[field]):
            yield {"type": f"response.{kind}.delta", **at, "content_index": 0, "delta": piece, "logprobs": []}
        yield {"type": f"response.{kind}.done", **at, "content_index": 0, field: part[field], "logprobs": []}
        yield {"type": "response.content_part.done", **at, "content_index": 0, "part": part}


def responses_plain_events(request, reply):
    body = responses_body(request, reply)
    under_way = {**body, "status": "in_progress", "output": [], "usage": None, "incomplete_details": None}
    yield {"type": "response.created", "response": under_way}
    yield {"type": "response.in_progress", "response": under_way}
    for i, item in enumerate(body["output"]):
        empty = {"content": [], "arguments": "", "summary": [], "status": "in_progress"}
        start = {**item, **{k: v for k, v in empty.items() if k in item}}
        yield {"type": "response.output_item.added", "output_index": i, "item": start}
        yield from responses_item_events(i, item)
        yield {"type": "response.output_item.done", "output_index": i, "item": item}
    if reply.error:
        yield {"type": "response.failed", "response": {**body, "status": "failed", "error": reply.error}}
    else:
        yield {"type": f"response.{body['status']}", "response": body}


def responses_events(request, reply):
    for i, event in enumerate(responses_plain_events(request, reply)):
        yield {**event, "sequence_number": i}


def stream_text(request, reply):
    """The event stream of a reply."""
    end = reply.newline
    if reply.events is not None:
        events = reply.events
    elif request.dialect == "anthropic":
        events = anthropic_events(request, reply)
    elif request.dialect == "responses":
        events = responses_events(request, reply)
    else:
        events = [*openai_chunks(request, reply), *([] if reply.error else ["[DONE]"])]
    lines = []
    for event in events:
        data = event if isinstance(event, str) else json.dumps(event, ensure_ascii=False)
        if request.dialect != "openai" and isinstance(event, dict):
            lines.append(f"event: {event.get('type', 'message')}{end}")
        lines.append(f"data: {data}{end}{end}")
    return "".join(lines).encode()


def render(request, reply):
    """Status, content type and body."""
    if reply.body is not None:
        return reply.status, reply.headers.get("Content-Type", "text/event-stream"), reply.body
    if reply.status != 200:
        error = {"error": reply.error or {"message": f"status {reply.status}", "type": "server_error"}}
        if request.dialect == "anthropic":
            error = {"type": "error", **error, "request_id": "req_1"}
        return reply.status, "application/json", json.dumps(error).encode()
    stream = request.body.get("stream") if reply.stream is None else reply.stream
    if stream:
        return 200, "text/event-stream; charset=utf-8", stream_text(request, reply)
    whole = {"anthropic": anthropic_body, "responses": responses_body, "openai": openai_body}[request.dialect]
    return 200, "application/json", json.dumps(whole(request, reply)).encode()


# ---- the server ----


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 60

    def log_message(self, *args):
        pass

    def setup(self):
        super().setup()
        self.connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def do_GET(self):
        kit = self.server.kit
        kit.keep(self, {})
        if kit.key and kit.key_of(self.headers) != kit.key:
            self.send_whole(401, "application/json", b'{"error": {"message": "no"}}')
        elif self.path.partition("?")[0].endswith("/models") and kit.models is not None:
            body = json.dumps({"object": "list", "data": [
                {"id": name, "object": "model", "created": 1, "owned_by": "test"} for name in kit.models]})
            self.send_whole(200, "application/json", body.encode())
        else:
            self.send_whole(404, "text/plain", b"no")

    def do_POST(self):
        kit = self.server.kit
        raw = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        try:
            request = kit.keep(self, json.loads(raw))
            kit.check(request)
            reply = kit.next_reply(request)
        except (Refused, LookupError, TypeError, ValueError) as error:
            refused = error if isinstance(error, Refused) else Refused(f"malformed: {error!r}")
            request = Request(-1, "POST", self.path, {}, {})
            reply = Reply(status=refused.status, error={
                "message": refused.message, "type": "invalid_request_error", "param": refused.param,
                "code": None})
        status, kind, body = render(request, reply)
        try:
            self.send_reply(reply, status, kind, body)
        except OSError:
            self.close_connection = True  # the client has left

    def send_whole(self, status, kind, body, headers=()):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def send_reply(self, reply, status, kind, body):
        stop = self.server.kit.stopping
        headers = [("x-request-id", "req_1"), *((k, v) for k, v in reply.headers.items() if k != "Content-Type")]
        stop.wait(reply.delay)
        if not kind.startswith("text/event-stream") and reply.hang_up is None and reply.silent is None:
            self.send_whole(status, kind, body, headers)
            return
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Type", kind)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        end = min((n for n in (reply.hang_up, reply.silent) if n is not None), default=len(body))
        size = reply.piece or max(end, 1)
        for i in range(0, end, size):
            piece = body[i:min(i + size, end)]
            self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            if reply.pause and stop.wait(reply.pause):
                return
        if reply.hang_up is not None:
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        if reply.silent is not None:
            self.close_connection = True
            stop.wait(60)
            return
        self.wfile.write(b"0\r\n\r\n")


class Listener(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def process_request(self, request, client_address):
        thread = threading.Thread(target=self.process_request_thread, args=(request, client_address), daemon=True)
        self.handlers.append(thread)
        thread.start()

    def handle_error(self, request, client_address):
        """A client that has left is not worth a traceback."""


class ModelServer:
    """@key: what requests must be authorised with. @refuse: parameters that are answered with a 400.
    @models: the ids at /v1/models. @responses: has the Responses API, and takes tools only there."""

    def __init__(self, scenario, key=None, refuse=(), repeat=False, models=None, responses=False, port=0):
        self.responses = responses
        self.scenario, self.key, self.refuse, self.repeat = scenario, key, set(refuse), repeat
        self.models, self.requests, self.replies = models, [], 0
        self.lock, self.stopping = threading.Lock(), threading.Event()
        self.listener = Listener(("127.0.0.1", port), Handler)
        self.listener.kit, self.listener.handlers = self, []
        self.port = self.listener.server_address[1]
        self.thread = threading.Thread(target=self.listener.serve_forever, args=(0.05,), daemon=True)

    openai = property(lambda self: f"http://127.0.0.1:{self.port}/v1")
    anthropic = property(lambda self: f"http://127.0.0.1:{self.port}")

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *args):
        self.stopping.set()
        self.listener.shutdown()
        self.listener.server_close()
        self.thread.join()
        for handler in self.listener.handlers:  # they close their connections, for which a test would be blamed
            handler.join(10)

    @property
    def posts(self):
        return [request for request in self.requests if request.method == "POST"]

    def keep(self, handler, body):
        headers = {name.lower(): value for name, value in handler.headers.items()}
        with self.lock:
            request = Request(len(self.requests), handler.command, handler.path, headers, body)
            self.requests.append(request)
        return request

    @staticmethod
    def key_of(headers):
        return headers.get("x-api-key") or headers.get("authorization", "")[7:]

    def check(self, request):
        if request.path not in ("/v1/chat/completions", "/v1/messages", "/v1/responses"):
            raise Refused(f"Unknown request URL: POST {request.path}", status=404)
        if self.key:
            if self.key_of(request.headers) != self.key:
                raise Refused(f"Incorrect API key provided: {self.key_of(request.headers)}", status=401)
        for name in self.refuse & set(request.body):
            raise Refused(f"Unsupported parameter: '{name}' is not supported with this model.", name)
        if request.dialect == "anthropic":
            need(request.headers.get("anthropic-version") in ("2023-06-01", "2026-10-21"),
                 "anthropic-version: header is required")
            check_anthropic(request.body)
        elif request.dialect == "responses":
            if not self.responses:
                raise Refused("Unknown request URL: POST /v1/responses", status=404)
            check_responses(request.body)
        else:
            if self.responses and request.body.get("tools"):
                raise Refused("Function tools with reasoning_effort are not supported for this model in "
                              "/v1/chat/completions. Please use /v1/responses instead.", "reasoning_effort")
            check_openai(request.body)

    def next_reply(self, request):
        if callable(self.scenario):
            return self.scenario(request)
        with self.lock:
            n, self.replies = self.replies, self.replies + 1
        if n >= len(self.scenario) and not self.repeat:
            raise Refused("the scenario has no more replies", status=418)
        return self.scenario[min(n, len(self.scenario) - 1)]


def http_date(seconds):
    """The time @seconds from now, as headers have it."""
    return time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(time.time() + seconds))
