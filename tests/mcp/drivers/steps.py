"""What every client is asked to do, for both Python clients; steps.mjs is the same in JavaScript
and says how a driver is started and what it prints."""

import asyncio
import json
import sys

CONFIG = json.loads(sys.argv[1])


def brief(result):
    content = result["content"]
    return {
        "isError": result.get("isError") or False,
        "text": "".join(c["text"] for c in content if c["type"] == "text"),
        "structured": result.get("structuredContent"),
        "kinds": [c["type"] for c in content],
    }


class Steps:
    """@client: call(name, arguments, on_progress) and the like, which give plain objects."""

    def __init__(self, client):
        self.client, self.words = client, {}

    async def python(self, code, words=None, on_progress=None):
        arguments = {"code": code, "timeout": 100, **(words or {})}
        return await self.client.call("execute_python", arguments, on_progress)

    async def version(self):
        return self.client.version

    async def tools(self):
        tools = (await self.client.list_tools())["tools"]
        return [{"name": t["name"], "description": t["description"], "input": t["inputSchema"],
                 "output": t.get("outputSchema"), "annotations": t.get("annotations")}
                for t in tools]

    async def alone(self):
        await self.python("x = 41")
        return brief(await self.python("print(x + 1)"))

    async def session(self):
        made = await self.client.call("create_session", {})
        words = {"session_id": made["structuredContent"]["session_id"]}
        await self.python("y = 20", words)
        ran = brief(await self.python("print(y + 1)", words))
        closed = brief(await self.client.call("close_session", words))
        return {"ran": ran, "closed": closed, "after": brief(await self.python("print(y)", words))}

    async def scope(self):
        if not CONFIG["state"]:
            made = await self.client.call("create_session", {})
            self.words = {"session_id": made["structuredContent"]["session_id"]}
        return self.words

    async def plot(self):
        code = "import matplotlib.pyplot as plt\nplt.plot([1, 2, 3])\nplt.show()"
        result = await self.python(code)
        image = next((c for c in result["content"] if c["type"] == "image"), {})
        return {**brief(result), "mime": image.get("mimeType"), "data": image.get("data")}

    async def progress(self):
        seen = []

        async def on_progress(progress, total, message):
            seen.append({"progress": progress, "total": total, "message": message})

        code = 'import time\nfor i in range(3):\n    print("line", i, flush=True)\n    time.sleep(0.3)'
        return {**brief(await self.python(code, None, on_progress)), "seen": seen}

    async def cancel(self):
        # The loop says that it runs; only then is it cancelled.
        code = 'import time\nprint("begun", flush=True)\nwhile True: time.sleep(0.05)'
        ended = await self.client.cancelled(
            "execute_python", {"code": code, "timeout": 100, **self.words})
        return {"ended": ended, "after": brief(await self.python('print("alive")', self.words))}

    async def file(self):
        where, content = {"path": "notes/data.txt", **self.words}, "three blind mice, héhé\n"
        up = brief(await self.client.call("upload_file", {**where, "content": content}))
        ran = brief(await self.python('print(open("notes/data.txt").read())', self.words))
        read = brief(await self.client.call("read_file", where))
        listed = brief(await self.client.call("list_files", {"recursive": True, **self.words}))
        return {"up": up, "ran": ran, "read": read, "list": listed}

    async def resource(self):
        uris = [one["uri"] for one in (await self.client.list_resources())["resources"]]
        # Without sessions of the protocol files are not listed, but can be read.
        named = f"glovebox://sessions/{self.words.get('session_id')}/files/notes/data.txt"
        uri = next((one for one in uris if one.endswith("/files/notes/data.txt")), named)
        contents = (await self.client.read_resource(uri))["contents"]
        return {"uri": uri, "uris": uris, "contents": contents}

    async def failure(self):
        return brief(await self.python("1 / 0"))

    async def unknown_tool(self):
        try:
            return brief(await self.client.call("no_such_tool", {}))
        except Exception as error:
            return {"code": getattr(error, "code", None) or error.error.code, "message": str(error)}

    async def prompts(self):
        prompts = (await self.client.list_prompts())["prompts"]
        words = {a["name"]: "data.csv" for a in prompts[0].get("arguments") or []}
        got = await self.client.get_prompt(prompts[0]["name"], words)
        return {"names": [p["name"] for p in prompts], "messages": got["messages"]}


STEPS = ("version", "tools", "alone", "session", "scope", "plot", "progress", "cancel", "file",
         "resource", "failure", "unknown_tool", "prompts")


def innermost(error):
    while getattr(error, "exceptions", None):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"


async def take_steps(connect, report):
    try:
        async with connect() as client:
            steps = Steps(client)
            for name in STEPS:
                try:
                    report[name] = {"value": await getattr(steps, name)()}
                except Exception as error:
                    report[name] = {"error": innermost(error)}
        report["close"] = {"value": True}
    except BaseException as error:
        report["connect"] = {"error": innermost(error)}


def drive(connect):
    report = {}
    asyncio.run(take_steps(connect, report))
    print(json.dumps(report), flush=True)
