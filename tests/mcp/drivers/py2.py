"""The official Python client 2.x, which speaks both eras."""

import contextlib

import anyio
import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from steps import CONFIG, drive


def plain(result):
    return result.model_dump(mode="json", by_alias=True, exclude_none=True)


class Adapter:
    def __init__(self, client):
        self.client, self.version = client, client.protocol_version

    async def call(self, name, arguments, on_progress=None):
        return plain(await self.client.call_tool(name, arguments, progress_callback=on_progress))

    async def cancelled(self, name, arguments):
        with anyio.CancelScope() as scope:
            async def on_progress(*_):
                scope.cancel()

            result = await self.call(name, arguments, on_progress)
            return f"came back: {result}"
        return "cancelled"

    async def list_tools(self):
        return plain(await self.client.list_tools())

    async def list_resources(self):
        return plain(await self.client.list_resources())

    async def read_resource(self, uri):
        return plain(await self.client.read_resource(uri))

    async def list_prompts(self):
        return plain(await self.client.list_prompts())

    async def get_prompt(self, name, arguments):
        return plain(await self.client.get_prompt(name, arguments))


def server(http):
    if CONFIG["transport"] == "http":
        return streamable_http_client(CONFIG["url"], http_client=http)
    if CONFIG["transport"] == "sse":
        return sse_client(CONFIG["url"], CONFIG.get("headers"))
    command, *words = CONFIG["command"]
    return StdioServerParameters(command=command, args=words, env=CONFIG["env"])


@contextlib.asynccontextmanager
async def connect():
    timeout = httpx2.Timeout(30, read=300)
    async with httpx2.AsyncClient(headers=CONFIG.get("headers"), timeout=timeout) as http:
        async with Client(server(http), mode=CONFIG["mode"], read_timeout_seconds=90) as client:
            yield Adapter(client)


drive(connect)
