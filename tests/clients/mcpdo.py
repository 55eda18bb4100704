"""Drives `holm mcp` with `mcpdo`, the MCP Inspector's program that connects once for many calls.

The whole way of an agent over one connection. `mcpdo` takes a call as one argument, which Linux
bounds at 128 KiB: the line of 3 MB goes by `inspector_web.py`.
"""

import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import time

import payload

MCPDO, HOLM, MODE = sys.argv[1:4]
NAME = "holm-client-test"


def mcpdo(*arguments, code=0):
    """One run of the program; returns the JSON that it prints."""
    done = subprocess.run(
        [MCPDO, "--format", "json", *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == code, (arguments[:4], done.returncode, done.stdout, done.stderr)
    return json.loads(done.stdout) if done.stdout.strip() else None


def call(tool, /, *, code=0, **arguments):
    told = json.dumps(arguments, ensure_ascii=False)
    result = mcpdo("--connection", NAME, "tools/call", tool, "--tool-args-json", told, code=code)
    return result["structuredContent"]


def flow():
    listed = mcpdo("--connection", NAME, "tools/list")["tools"]
    assert payload.TOOLS <= {tool["name"] for tool in listed}, listed
    box = call("create_sandbox", name="mcpdo", timeout_minutes=5)
    assert box["status"] == "running", box
    sandbox = {"sandbox_id": box["sandbox_id"]}
    text, path = payload.script(payload.SHORT_LINE), "/workspace/awkward.py"
    wrote = call("write_file", path=path, content=text, **sandbox)
    assert wrote["bytes_written"] == len(text.encode()), wrote
    ran = call("run_command", command=f"python3 {path}", **sandbox)
    expected = (0, payload.output(payload.SHORT_LINE), "")
    assert (ran["exit_code"], ran["stdout"], ran["stderr"]) == expected, ran
    listed = call("list_files", path="/workspace", **sandbox)
    sizes = {row["path"]: row["size"] for row in listed["files"] if row["type"] == "file"}
    assert sizes == {path: len(text.encode()), "/workspace/made-by-run.txt": 9}, sizes
    made = call("read_file", path="/workspace/made-by-run.txt", **sandbox)
    assert made["content"] == "made `id`", made
    back = call("read_file", path=path, **sandbox)
    assert back["content"] == text, "the script came back changed"
    assert call("list_sandboxes")["sandboxes"][0]["sandbox_id"] == box["sandbox_id"]
    call("destroy_sandbox", **sandbox)
    gone = call("run_command", command="true", code=5, **sandbox)
    assert gone["error"]["code"] == "sandbox_gone", gone
    states = [row["status"] for row in call("list_sandboxes")["sandboxes"]]
    assert "running" not in states, states


def main():
    # A daemon of its own, so that no other connection on this machine is touched. The path of its
    # socket must be short.
    place = tempfile.mkdtemp(prefix="mcpdo-")
    os.environ["MCP_INSPECTOR_DAEMON_DIR"] = os.path.join(place, "d")
    os.environ["MCP_INSPECTOR_DAEMON_TOKEN"] = secrets.token_urlsafe(32)
    os.environ["HOME"] = place
    server = {
        "command": HOLM,
        "args": ["mcp", "--local"],
        "env": {key: value for key, value in os.environ.items() if key.startswith("HOLM_")},
    }
    config = os.path.join(place, "servers.json")
    with open(config, "w", encoding="utf-8") as file:
        json.dump({"mcpServers": {NAME: server}}, file)
    try:
        connected = mcpdo("connect", NAME, "--config", config, "--era", MODE)
        assert connected["protocolEra"] == MODE, connected
        try:
            flow()
        finally:
            mcpdo("disconnect", NAME)
    finally:
        daemon = mcpdo("daemon", "status")["pid"]
        mcpdo("daemon", "stop")
        # It ends a little later than it says, and removes its socket itself.
        for _ in range(3000):
            if not os.path.exists(f"/proc/{daemon}"):
                break
            time.sleep(0.01)
        shutil.rmtree(place)


main()
