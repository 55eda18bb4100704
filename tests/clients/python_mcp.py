"""Drives `holm mcp` with the Python `mcp` package, 1.x (no second argument) or 2.x (its mode)."""

import asyncio
import os
import sys

import payload


async def flow(list_tools, call):
    """The whole way of an agent; `call` returns (structured result, is_error)."""
    assert payload.TOOLS <= await list_tools(), "a tool is missing"

    async def ok(name, /, **arguments):
        result, is_error = await call(name, arguments)
        assert not is_error, (name, result)
        return result

    box = await ok("create_sandbox", name="client-test", timeout_minutes=5)
    sandbox = {"sandbox_id": box["sandbox_id"]}
    assert box["status"] == "running", box
    path = "/workspace/awkward.py"
    wrote = await ok("write_file", path=path, content=payload.TEXT, **sandbox)
    assert wrote["bytes_written"] == len(payload.TEXT.encode()), wrote
    ran = await ok("run_command", command=f"python3 {path}", **sandbox)
    assert (ran["exit_code"], ran["stdout"], ran["stderr"]) == (0, payload.STDOUT, ""), ran
    listed = await ok("list_files", path="/workspace", **sandbox)
    sizes = {row["path"]: row["size"] for row in listed["files"] if row["type"] == "file"}
    assert sizes[path] == len(payload.TEXT.encode()), sizes
    assert "/workspace/made-by-run.txt" in sizes, sizes
    made = await ok("read_file", path="/workspace/made-by-run.txt", **sandbox)
    assert made["content"] == "made `id`", made
    back = await ok("read_file", path=path, **sandbox)
    assert back["content"] == payload.TEXT, "the script came back changed"
    failed, is_error = await call("run_command", {"command": "exit 3", **sandbox})
    assert is_error and failed["exit_code"] == 3, failed
    await ok("destroy_sandbox", **sandbox)
    gone, is_error = await call("run_command", {"command": "true", **sandbox})
    assert is_error, gone


def environment():
    return {key: value for key, value in os.environ.items() if key.startswith("HOLM_")}


async def version_1(holm):
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client

    server = StdioServerParameters(command=holm, args=["mcp"], env=environment())
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
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

    server = StdioServerParameters(command=holm, args=["mcp"], env=environment())
    async with Client(stdio_client(server), mode=mode) as client:

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
