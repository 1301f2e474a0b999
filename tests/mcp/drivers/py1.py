"""The official Python client 1.x."""

import asyncio
import contextlib
from datetime import timedelta

from mcp import ClientSession, StdioServerParameters, types
from mcp.client.sse import sse_client
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamablehttp_client
from steps import CONFIG, drive

PATIENCE = timedelta(seconds=90)


def plain(result):
    return result.model_dump(mode="json", by_alias=True, exclude_none=True)


class Adapter:
    def __init__(self, session, version):
        self.session, self.version = session, version

    async def call(self, name, arguments, on_progress=None):
        return plain(await self.session.call_tool(name, arguments, PATIENCE, on_progress))

    async def cancelled(self, name, arguments):
        """This client leaves it to its user to tell the server."""
        begun, number = asyncio.Event(), self.session._request_id

        async def on_progress(*_):
            begun.set()

        call = asyncio.create_task(self.session.call_tool(name, arguments, PATIENCE, on_progress))
        waiting = asyncio.create_task(begun.wait())
        await asyncio.wait([call, waiting], return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if call.done():
            return f"came back: {call.exception() or call.result()}"
        params = types.CancelledNotificationParams(requestId=number, reason="enough")
        await self.session.send_notification(types.ClientNotification(
            types.CancelledNotification(params=params)))
        call.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await call
        return "cancelled"

    async def list_tools(self):
        return plain(await self.session.list_tools())

    async def list_resources(self):
        return plain(await self.session.list_resources())

    async def read_resource(self, uri):
        return plain(await self.session.read_resource(uri))

    async def list_prompts(self):
        return plain(await self.session.list_prompts())

    async def get_prompt(self, name, arguments):
        return plain(await self.session.get_prompt(name, arguments))


def transport():
    headers = CONFIG.get("headers")
    if CONFIG["transport"] == "http":
        return streamablehttp_client(CONFIG["url"], headers)
    if CONFIG["transport"] == "sse":
        return sse_client(CONFIG["url"], headers)
    command, *words = CONFIG["command"]
    return stdio_client(StdioServerParameters(command=command, args=words, env=CONFIG["env"]))


@contextlib.asynccontextmanager
async def connect():
    async with transport() as streams:
        async with ClientSession(streams[0], streams[1]) as session:
            yield Adapter(session, (await session.initialize()).protocolVersion)


drive(connect)
