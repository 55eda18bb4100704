"""Drives `holm mcp` with the MCP Inspector's command line.

The Inspector starts one server for each call, and a sandbox ends with the server that made it, so
each step of the flow is a call that needs nothing of the one before; `mcpdo.py` goes the whole way
over one connection. A script longer than one argument of a program may be (128 KiB) goes by
`inspector_web.py`.
"""

import json
import os
import subprocess
import sys

INSPECTOR, HOLM = sys.argv[1], sys.argv[2]
SCRIPT = "print('it`s', \"$(id)\", '${HOME}')\nprint('é日本語', len('" + "x" * 100_000 + "'))"


def inspect(*arguments, code=0):
    """One call; returns the JSON that the Inspector prints."""
    passed = [f"-e{key}={value}" for key, value in os.environ.items() if key.startswith("HOLM_")]
    command = [INSPECTOR, "--cli", *passed, HOLM, "mcp", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == code, (arguments[:4], done.returncode, done.stdout, done.stderr)
    return json.loads(done.stdout)


def call(tool, /, **arguments):
    pairs = [f"{key}={value}" for key, value in arguments.items()]
    extra = ["--tool-arg", *pairs] if pairs else []
    return inspect("--method", "tools/call", "--tool-name", tool, *extra)


def main():
    import payload

    tools = {tool["name"] for tool in inspect("--method", "tools/list", "--strict")["tools"]}
    assert payload.TOOLS <= tools, tools
    created = call("create_sandbox", size="small", name="inspector")["structuredContent"]
    assert created["status"] == "running", created
    wrote = call("write_file", path="/workspace/a.py", content=SCRIPT)["structuredContent"]
    assert wrote["bytes_written"] == len(SCRIPT.encode()), wrote
    ran = call("run_code", language="python", code=SCRIPT)["structuredContent"]
    assert ran["stdout"] == "it`s $(id) ${HOME}\né日本語 100000\n", ran
    listed = call("list_files", path="/etc/alternatives")["structuredContent"]
    assert listed["files"], listed
    read = call("read_file", path="/etc/passwd")["structuredContent"]
    assert "sandbox:x:1000:1000" in read["content"], read
    info = call("get_service_info")["structuredContent"]
    assert info["enforced"], info


main()
