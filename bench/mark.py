#!/usr/bin/python3
"""What Mark adds to a model and to the code that it writes.

usage: bench/mark.py GLOVEBOX OUT.JSON

Steps: a scripted model, which takes no time, sends eleven programs for one question and one for another;
what ten more steps take, divided by ten, is a step. A step less the time that its cell ran (its receipt
says) is Mark's own part: asking the model, running the cell, reading what it handed over, events, the
trace. The same cell by POST /v1/sessions/{id}/execute, in turns with the questions, is what it is
compared with.

Chats: so many people at one time, each with a chat. First all ask a question that makes the chat's session;
then all ask one whose story the model writes piece by piece, over about two seconds, and read its events.
All must end well. Round after round, the memory of the service's process is read when the chats of a round
have been deleted.
"""

import asyncio
import http.client
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

TURNS, STEPS, TARGET_MS = 40, 10, 10.0
CHATS, ROUNDS, OWNERS, PIECES, PIECE_MS = 200, 5, 20, 60, 30

CELL = "import mark\nstep = %d\nmark.value('answer', 6 * 7)"  # the same program twice would end the answer
MODULE = pathlib.Path(__file__).resolve().parent.parent / "src/mark/box/mark.py"
SET_UP = "import sys, types\nmark = sys.modules['mark'] = types.ModuleType('mark')\nexec(%r, mark.__dict__)"
STORY = "The answer is {{answer}}. " * PIECES


class Service:
    def __init__(self, binary, directory):
        env = {k: v for k, v in os.environ.items()
               if not k.startswith(("GLOVEBOX", "OPENAI_", "ANTHROPIC_"))}
        self.data, port_file = directory / "data", directory / "port"
        cells = [{"asked": "go", "calls": [{"name": "run_python", "arguments": {"code": CELL % n}}]}
                 for n in range(STEPS + 1)]
        end = {"asked": "go", "calls": [{"name": "answer", "arguments": {"story": "It is {{answer}}."}}]}
        slow = {"asked": "go", "calls": [{"name": "answer", "arguments": {"story": STORY}}],
                "piece_ms": PIECE_MS}
        models = {"many": [*cells, end], "one": [cells[0], end], "slow": [cells[0], slow]}
        options = []
        for name, replies in models.items():
            (directory / name).write_text(json.dumps(replies))
            options += ["--model", f"{name}=script:{directory / name}"]
        made = subprocess.run([binary, "key", "create", "--data", self.data, "--json", "--rate", "1000000"],
                              env=env, stdout=subprocess.PIPE, check=True)
        self.keys = [json.loads(made.stdout)["token"]]
        for _ in range(OWNERS - 1):
            made = subprocess.run([binary, "key", "create", "--data", self.data, "--json"], env=env,
                                  stdout=subprocess.PIPE, check=True)
            self.keys.append(json.loads(made.stdout)["token"])
        self.process = subprocess.Popen(
            [binary, "serve", "--listen", "127.0.0.1:0", "--port-file", port_file, "--data", self.data,
             "--max-sessions", str(2 * CHATS), "--preload", "none", "--mark-steps", str(STEPS + 2),
             "--log-level", "warning", *options], env=env, stdout=subprocess.DEVNULL)
        while not port_file.exists():
            assert self.process.poll() is None, "the service ended"
            time.sleep(0.05)
        self.port = int(port_file.read_text())
        self.http = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)

    def ask(self, method, path, body=None, key=0):
        self.http.request(method, path, None if body is None else json.dumps(body),
                          {"Authorization": "Bearer " + self.keys[key]})
        reply = self.http.getresponse()
        data = reply.read()
        assert reply.status in (200, 201, 204), data
        return json.loads(data) if data else None

    def memory(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        return int(next(line for line in status.splitlines() if line.startswith("VmRSS:")).split()[1]) * 1024

    def stop(self):
        self.http.close()
        self.process.terminate()
        self.process.wait()


def time_of(function, *args):
    start = time.perf_counter()
    found = function(*args)
    return (time.perf_counter() - start) * 1000, found


def measure_steps(service):
    chats = {name: service.ask("POST", "/api/v1/chat/session", {})["chat_id"] for name in ("many", "one")}
    session = service.ask("POST", "/v1/sessions", {})["session_id"]
    service.ask("POST", f"/v1/sessions/{session}/execute", {"code": SET_UP % MODULE.read_text("utf-8")})
    times = {"many": [], "one": [], "execute": [], "cell": []}
    for turn in range(TURNS + 3):
        for name, chat in chats.items():
            ms, reply = time_of(service.ask, "POST", "/api/v1/chat",
                                {"query": "go", "chat_id": chat, "model": name})
            assert reply["status"] == "ok" and reply["numbers"]["checked"] == 1, reply
            if turn >= 3:  # the first ones make the session
                times[name].append(ms)
                times["cell"] += [s["receipt"]["execution_time"] * 1000 for s in reply["steps"]]
        for _ in range(STEPS):
            ms, receipt = time_of(service.ask, "POST", f"/v1/sessions/{session}/execute", {"code": CELL % 0})
            assert receipt["status"] == "ok"
            if turn >= 3:
                times["execute"].append(ms)
    p50 = {name: statistics.median(found) for name, found in times.items()}
    step = (p50["many"] - p50["one"]) / STEPS
    service.ask("DELETE", f"/v1/sessions/{session}")
    for chat in chats.values():
        service.ask("DELETE", f"/api/v1/chats/{chat}")
    return {"step_p50_ms": step, "own_p50_ms": max(0.0, step - p50["cell"]), "cell_p50_ms": p50["cell"],
            "execute_p50_ms": p50["execute"], "step_against_execute": step / p50["execute"],
            "one_step_answer_p50_ms": p50["one"]}


async def follow(service, number, chat, model):
    """One question, read as events to its end: its chat, whether it ended well, how many events."""
    reader, writer = await asyncio.open_connection("127.0.0.1", service.port, limit=1 << 22)
    body = json.dumps({"query": "go", "model": model, **({"chat_id": chat} if chat else {})}).encode()
    writer.write(b"POST /api/v1/chat HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\n"
                 b"Content-Type: application/json\r\nConnection: close\r\nAuthorization: Bearer %s\r\n"
                 b"Content-Length: %d\r\n\r\n%s"
                 % (service.keys[number % OWNERS].encode(), len(body), body))
    events, done, name = 0, False, b""
    async for line in reader:
        if line.startswith(b"event:"):
            name, events = line.split()[1], events + 1
        elif line.startswith(b"data:") and name == b"chat":
            chat = json.loads(line[5:])["chat_id"]
        elif line.startswith(b"data:") and name == b"done":
            done = json.loads(line[5:])["status"] == "ok"
    writer.close()
    return chat, done, events


async def follow_all(service, chats, model):
    return await asyncio.gather(*(follow(service, n, chat, model) for n, chat in enumerate(chats)))


def measure_chats(service):
    memory, first, streams, complete, events = [], [], [], CHATS, 0
    for _ in range(ROUNDS):
        chats = [None] * CHATS
        for model, times in (("one", first), ("slow", streams)):
            ms, found = time_of(asyncio.run, follow_all(service, chats, model))
            times.append(ms / 1000)
            chats = [chat for chat, _, _ in found]
            complete = min(complete, sum(done for _, done, _ in found))
        events = sum(count for _, _, count in found)
        for number, chat in enumerate(chats):
            if chat:
                service.ask("DELETE", f"/api/v1/chats/{chat}", key=number % OWNERS)
        memory.append(service.memory())
    stream = statistics.median(streams)
    return {"chats": CHATS, "rounds": ROUNDS, "complete": complete, "first_s": statistics.median(first),
            "stream_s": stream, "stream_alone_s": len(STORY) // 24 * PIECE_MS / 1000,
            "events_per_second": events / stream, "memory_bytes": memory,
            "memory_growth": memory[-1] / memory[1]}


def main():
    binary, out = sys.argv[1:3]
    with tempfile.TemporaryDirectory(prefix="glovebox-test-bench.") as directory:
        service = Service(binary, pathlib.Path(directory))
        try:
            steps, chats = measure_steps(service), measure_chats(service)
        finally:
            service.stop()
    own = steps["own_p50_ms"]
    print(f"Mark  a step {steps['step_p50_ms']:.2f} ms, its cell {steps['cell_p50_ms']:.0f} ms, the cell by "
          f"itself over HTTP {steps['execute_p50_ms']:.2f} ms")
    print(f"  {'Mark alone, ms a step':<44} {own:10.2f}   goal ≤ {TARGET_MS:.2f}   "
          f"{'yes' if own <= TARGET_MS else 'NO'}")
    print(f"  {'a step against the cell over HTTP':<44} {steps['step_against_execute']:10.2f}")
    print(f"  {f'of {CHATS} chats at once complete':<44} {chats['complete']:10d}   goal = {CHATS}     "
          f"{'yes' if chats['complete'] == CHATS else 'NO'}")
    print(f"  {'seconds for all to stream a story':<44} {chats['stream_s']:10.2f}   the model alone "
          f"{chats['stream_alone_s']:.2f}; the first answers, with new sessions, {chats['first_s']:.1f}")
    print(f"  {'memory after the last round against the 2nd':<44} {chats['memory_growth']:10.2f}   goal ≤ 1.10   "
          f"{'yes' if chats['memory_growth'] <= 1.1 else 'NO'}")
    with open(out, "w", encoding="utf-8") as f:
        json.dump({"mark": {**steps, **chats}, "target_ms": TARGET_MS}, f, indent=2)
    print(f"saved as {out}")


if __name__ == "__main__":
    main()
