"""Drives `holm mcp` with the MCP Inspector's web application, as its page does.

The page gives each message to the Inspector's own server, which speaks to `holm mcp` and tells what
it hears as events. Nothing here passes through an argument of a program, so the line of 3 MB goes
this way too.
"""

import asyncio
import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

from flow import flow

INSPECTOR, HOLM = sys.argv[1:3]
REVISION = "2025-11-25"


class Page:
    """What the Inspector's page does: one connection to one MCP server."""

    def __init__(self, port, token):
        self.base = f"http://127.0.0.1:{port}/api/mcp/"
        self.headers = {
            "content-type": "application/json",
            "origin": f"http://127.0.0.1:{port}",
            "x-mcp-remote-auth": f"Bearer {token}",
        }
        self.answers = {}
        self.heard = threading.Condition()
        self.number = 0

    def post(self, route, body):
        request = urllib.request.Request(
            self.base + route, json.dumps(body).encode(), self.headers, method="POST"
        )
        with urllib.request.urlopen(request, timeout=120) as answer:
            return json.load(answer)

    def connect(self):
        given = {key: value for key, value in os.environ.items() if key.startswith("HOLM_")}
        server = {"type": "stdio", "command": HOLM, "args": ["mcp", "--local"], "env": given}
        self.session = self.post("connect", {"config": server})["sessionId"]
        threading.Thread(target=self.listen, daemon=True).start()
        hello = {
            "protocolVersion": REVISION,
            "capabilities": {},
            "clientInfo": {"name": "page", "version": "1"},
        }
        assert self.request("initialize", hello)["protocolVersion"] == REVISION
        self.send({"method": "notifications/initialized"})

    def listen(self):
        url = self.base + "events?sessionId=" + self.session
        with urllib.request.urlopen(
            urllib.request.Request(url, headers=self.headers), timeout=300
        ) as events:
            for line in events:
                if not line.startswith(b"data:"):
                    continue
                event = json.loads(line[5:])
                message = event.get("data") if event.get("type") == "message" else None
                if isinstance(message, dict) and "id" in message:
                    with self.heard:
                        self.answers[message["id"]] = message
                        self.heard.notify_all()

    def send(self, message):
        body = {"sessionId": self.session, "message": {"jsonrpc": "2.0", **message}}
        sent = self.post("send", body)
        assert sent == {"ok": True}, sent

    def request(self, method, params):
        self.number += 1
        number = self.number
        self.send({"id": number, "method": method, "params": params})
        with self.heard:
            assert self.heard.wait_for(lambda: number in self.answers, timeout=120), method
            answer = self.answers.pop(number)
        assert "result" in answer, answer
        return answer["result"]

    async def list_tools(self):
        return {tool["name"] for tool in self.request("tools/list", {})["tools"]}

    async def call(self, name, arguments):
        result = self.request("tools/call", {"name": name, "arguments": arguments})
        return result["structuredContent"], result.get("isError", False)

    def disconnect(self):
        self.post("disconnect", {"sessionId": self.session})


def free_port():
    # The Inspector wants to be told a port.
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_until_up(inspector, port):
    while True:
        assert inspector.poll() is None, "the Inspector ended"
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.05)


def main():
    home = tempfile.mkdtemp(prefix="inspector-")
    port, token = free_port(), secrets.token_hex(32)
    environment = {
        **os.environ,
        "HOME": home,
        "CLIENT_PORT": str(port),
        "MCP_AUTO_OPEN_ENABLED": "false",
        "MCP_INSPECTOR_API_TOKEN": token,
        "MCP_INSPECTOR_SECRET_STORE": "memory",
        "MCP_SANDBOX_PORT": "0",
    }
    inspector = subprocess.Popen(
        [INSPECTOR, "--web"], env=environment, stdout=subprocess.DEVNULL, cwd=home
    )
    try:
        wait_until_up(inspector, port)
        page = Page(port, token)
        page.connect()
        asyncio.run(flow(page.list_tools, page.call))
        page.disconnect()
    finally:
        inspector.terminate()
        inspector.wait(timeout=30)
        shutil.rmtree(home)


main()
