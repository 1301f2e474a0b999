"""
Mark for tests: a person with an account, and models that say what a test wrote down.

`person(server)` signs somebody up; its methods are the routes of Mark. `scripted(path, replies)` writes
the file of a model that replies in order (src/mark/llm/script.c), `run(code)` and `answer(story)` are
its tool calls.
"""

import json
import pathlib
import uuid

from serve_kit import Server

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SAMPLE = (ROOT / "examples/sales.csv").read_bytes()
PASSWORD = "correct horse battery staple"


def multipart(name, content, media_type="text/csv"):
    """A form with one file, and the value of its Content-Type."""
    boundary = "x" + uuid.uuid4().hex
    if isinstance(name, str):
        name = name.encode()
    head = (b'--%s\r\nContent-Disposition: form-data; name="file"; filename="%s"\r\nContent-Type: %s\r\n\r\n'
            % (boundary.encode(), name, media_type.encode()))
    return head + content + b"\r\n--%s--\r\n" % boundary.encode(), "multipart/form-data; boundary=" + boundary


class Person(Server):
    """A server as one user of Mark sees it."""

    def __init__(self, server, token, account=None):
        super().__init__(server.process, server.port, server.data, token)
        self.account = account

    def upload(self, name="sales.csv", content=SAMPLE, media_type="text/csv"):
        body, kind = multipart(name, content, media_type)
        return self.good("POST", "/api/v1/attachments", body, 201, Content_Type=kind)

    def question(self, query, chat=None, files=(), **more):
        body = {"query": query, **more}
        if chat:
            body["chat_id"] = chat
        if files:
            body["attachments"] = [f["attachment_id"] for f in files]
        return body

    def ask_mark(self, query, chat=None, files=(), status="ok", **more):
        reply = self.good("POST", "/api/v1/chat", self.question(query, chat, files, **more))
        assert reply["status"] == status, explain(reply)
        return reply

    def follow(self, path, body=None, method="POST", after=None, stop_at=None):
        """The events of a stream as (id, name, data), to its end or to the first named @stop_at."""
        connection = self.connect()
        headers = {"Accept": "text/event-stream"}
        if after is not None:
            headers["Last-Event-ID"] = str(after)
        found = []
        try:
            connection.request(method, path, None if body is None else json.dumps(body),
                               self.headers(headers))
            reply = connection.getresponse()
            assert reply.status == 200, reply.read()
            event = {}
            for line in reply:
                line = line.decode().rstrip("\r\n")
                if line:
                    name, _, value = line.partition(":")
                    event[name] = value.removeprefix(" ")
                elif "data" in event:
                    found.append((int(event["id"]), event["event"], json.loads(event["data"])))
                    if event["event"] == stop_at:
                        break
                    event = {}
                else:
                    event = {}
        finally:
            connection.close()
        return found

    def message(self, message_id, what, method="GET", body=None, status=200):
        return self.good(method, f"/api/v1/messages/{message_id}/{what}", body, status)

    def messages(self, chat):
        return self.good("GET", f"/api/v1/chats/{chat}/messages")["messages"]


def explain(reply):
    """What a failed assertion about an answer needs to show."""
    return json.dumps({**reply, "steps": [{"code": s["code"], "stderr": s["receipt"].get("stderr")}
                                          for s in reply.get("steps", [])],
                       "visualization": None, "visualizations": len(reply.get("visualizations") or [])},
                      indent=1)[:6000]


def person(server, email="ann@example.com"):
    account = server.good("POST", "/auth/signup", {"email": email, "password": PASSWORD}, 201)
    return Person(server, account["access_token"], account)


def call(name, **arguments):
    return {"name": name, "arguments": arguments}


def run(code):
    """A reply of a scripted model: this program."""
    return {"calls": [call("run_python", code=code)]}


def answer(story, **more):
    return {"calls": [call("answer", story=story, **more)]}


def scripted(path, replies, name="script"):
    """Writes a scripted model; returns the options of a service that has it."""
    path.write_text(json.dumps(replies), encoding="utf-8")
    return ["--model", f"{name}=script:{path}"]
