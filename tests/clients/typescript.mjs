// Drives holm with the TypeScript packages: node typescript.mjs URL|PROGRAM 1|MODE
// A running `holm serve` for a URL (its key in HOLM_API_KEY), `holm mcp` for a program.
// 1 is `@modelcontextprotocol/sdk` 1.x; a mode is one of `@modelcontextprotocol/client` 2.x: legacy,
// auto, or a revision.

import assert from "node:assert/strict";
import { createRequire } from "node:module";
import path from "node:path";

// The packages are not beside this file.
const require = createRequire(path.join(process.env.HOLM_TEST_MODULES, "here.js"));
const [target, mode] = process.argv.slice(2);

let Client, Transport, Stdio, options;
if (mode === "1") {
  ({ Client } = require("@modelcontextprotocol/sdk/client/index.js"));
  ({ StreamableHTTPClientTransport: Transport } =
    require("@modelcontextprotocol/sdk/client/streamableHttp.js"));
  ({ StdioClientTransport: Stdio } = require("@modelcontextprotocol/sdk/client/stdio.js"));
} else {
  ({ Client, StreamableHTTPClientTransport: Transport } =
    require("@modelcontextprotocol/client"));
  ({ StdioClientTransport: Stdio } = require("@modelcontextprotocol/client/stdio"));
  const known = mode === "legacy" || mode === "auto";
  options = { versionNegotiation: { mode: known ? mode : { pin: mode } } };
}

const client = new Client({ name: "holm-test", version: "1" }, options);
const headers = { Authorization: `Bearer ${process.env.HOLM_API_KEY}` };
const transport = target.startsWith("http")
  ? new Transport(new URL(target), { requestInit: { headers } })
  : new Stdio({ command: target, args: ["mcp"], env: process.env });
await client.connect(transport);

async function call(name, args, more) {
  const params = { name, arguments: args };
  return mode === "1"
    ? client.callTool(params, undefined, more)
    : client.callTool(params, more);
}

async function ok(name, args, more) {
  const result = await call(name, args, more);
  assert.ok(!result.isError, `${name}: ${JSON.stringify(result)}`);
  return result.structuredContent;
}

const names = (await client.listTools()).tools.map((tool) => tool.name);
assert.equal(names.length, 25, names.join());
const { sandbox_id } = await ok("create_sandbox", { name: "typescript", timeout_minutes: 5 });
const text = "é 日本語 \u2028 `id` $(id)\r\n".repeat(100_000);
const wrote = await ok("write_file", { sandbox_id, path: "text", content: text });
assert.equal(wrote.bytes_written, Buffer.byteLength(text));
const ran = await ok("run_command", { sandbox_id, command: "wc -c < text; pwd" });
assert.equal(ran.stdout, `${Buffer.byteLength(text)}\n/workspace\n`);

// Longer than the server's first report: the answer comes behind it on the same stream.
const reports = [];
const slow = await ok("run_command", { sandbox_id, command: "sleep 11; echo done" }, {
  onprogress: (report) => reports.push(report.progress),
});
assert.equal(slow.stdout, "done\n");
assert.ok(reports.length >= 1, "no progress");

// What is given up on the client's side is over on the server's: the next call finds it gone.
const controller = new AbortController();
const endless = call("run_command", { sandbox_id, command: "touch on; exec sleep 4242" }, {
  signal: controller.signal,
});
endless.catch(() => {});
while ((await call("read_file", { sandbox_id, path: "on" })).isError);
controller.abort();
await assert.rejects(endless);
const find = "cat /proc/[0-9]*/cmdline | tr '\\0' ' ' | grep -c '^sleep 4242\\|[ ]sleep 4242' || true";
let left;
do {
  left = (await ok("run_command", { sandbox_id, command: find })).stdout;
} while (left !== "0\n");

await ok("destroy_sandbox", { sandbox_id });
if (transport.sessionId) await transport.terminateSession();
await client.close();
