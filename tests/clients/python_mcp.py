"""Drives holm with the Python `mcp` package: python_mcp.py PROGRAM|URL [MODE]

`holm mcp` for a program, a running `holm serve` for a URL (its key in HOLM_API_KEY). Without a
mode the package is 1.x, with one it is 2.x.
"""

import asyncio
import os
import sys

from flow import flow


def environment():
    return {key: value for key, value in os.environ.items() if key.startswith("HOLM_")}


def headers():
    return {"Authorization": f"Bearer {os.environ['HOLM_API_KEY']}"}


async def version_1(holm):
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client
    from mcp.client.streamable_http import streamablehttp_client

    if holm.startswith("http"):
        transport = streamablehttp_client(holm, headers=headers())
    else:
        server = StdioServerParameters(command=holm, args=["mcp"], env=environment())
        transport = stdio_client(server)
    async with transport as (read, write, *_), ClientSession(read, write) as session:
        await session.initialize()

        async def list_tools():
            return {tool.name for tool in (await session.list_tools()).tools}

        async def call(name, arguments):
            result = await session.call_tool(name, arguments)
            return result.structuredContent, result.isError

        await flow(list_tools, call)


async def version_2(holm, mode):
    from mcp.client.client import Client
    from mcp.client.stdio import StdioServerParameters, stdio_client
    from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client

    if holm.startswith("http"):
        http = create_mcp_http_client(headers=headers())
        transport = streamable_http_client(holm, http_client=http)
    else:
        server = StdioServerParameters(command=holm, args=["mcp"], env=environment())
        transport = stdio_client(server)
    async with Client(transport, mode=mode) as client:

        async def list_tools():
            return {tool.name for tool in (await client.list_tools()).tools}

        async def call(name, arguments):
            result = await client.call_tool(name, arguments)
            return result.structured_content, result.is_error

        await flow(list_tools, call)


if len(sys.argv) > 2:
    asyncio.run(version_2(sys.argv[1], sys.argv[2]))
else:
    asyncio.run(version_1(sys.argv[1]))
