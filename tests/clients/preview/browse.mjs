// A browser looks at a web application that runs in a sandbox.
// Usage: browse.mjs WHEELS SCREENSHOT, with a service in HOLM_URL and a key in HOLM_API_KEY.

import assert from "node:assert/strict";
import { readdir, readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const { chromium } = createRequire(join(process.env.HOLM_TEST_MODULES, "x"))("playwright-core");
const here = dirname(fileURLToPath(import.meta.url));
const [wheels, screenshot] = process.argv.slice(2);
const service = new URL(process.env.HOLM_URL).origin;
const GUARD = 120_000;

async function ask(method, path, body) {
  const raw = body instanceof Uint8Array;
  const response = await fetch(service + path, {
    method,
    headers: {
      "x-api-key": process.env.HOLM_API_KEY,
      ...(body && !raw && { "content-type": "application/json" }),
    },
    body: raw ? body : body && JSON.stringify(body),
  });
  const text = await response.text();
  assert(response.ok, `${method} ${path}: ${response.status} ${text}`);
  return text && JSON.parse(text);
}

const sandbox = await ask("POST", "/v1/sandboxes", { timeout_minutes: 10 });
const path = `/v1/sandboxes/${sandbox.id}`;
const upload = async (name, file) =>
  ask("PUT", `${path}/files/raw?path=${encodeURIComponent(name)}`, new Uint8Array(await readFile(file)));
async function run(command) {
  const ran = await ask("POST", `${path}/exec`, { command, timeout_ms: GUARD });
  assert.equal(ran.exit_code, 0, JSON.stringify(ran));
  return ran.stdout;
}

// The address is there before anything listens.
const exposed = await ask("POST", `${path}/ports`, { port: 5000 });
const preview = new URL(exposed.url);
const digits = sandbox.id.replace("sbx_", "");
assert.equal(preview.hostname, `5000-${digits}.localhost`);
assert.notEqual(preview.origin, service);
assert.equal(exposed.public, false);

const browser = await chromium.launch({
  executablePath: "/usr/bin/chromium",
  args: [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
  ],
});
try {
  const visitor = await browser.newContext({ viewport: { width: 900, height: 600 } });
  const page = await visitor.newPage();
  page.setDefaultTimeout(GUARD);
  // The link opens it once; nothing listens yet, and the page says so and asks again by itself.
  const early = await page.goto(exposed.link);
  assert.equal(early.status(), 502);
  assert.equal(new URL(page.url()).search, "", "the token is not in the address any more");

  await upload("app.py", join(here, "app.py"));
  await upload("requirements.txt", join(here, "requirements.txt"));
  for (const wheel of (await readdir(wheels)).filter(name => name.endsWith(".whl"))) await upload(`wheels/${wheel}`, join(wheels, wheel));
  await run("python3 -m venv .venv && .venv/bin/pip install -q --no-index --find-links wheels -r requirements.txt");
  await run("setsid .venv/bin/gunicorn --threads 8 --bind 127.0.0.1:5000 app:app >server.log 2>&1 </dev/null & true");

  await page.waitForSelector("#echo");
  await page.waitForFunction(() => document.getElementById("size")?.textContent === "1048576 bytes");
  await page.waitForFunction(() => window.ending && window.seen);
  const text = id => page.locator(id).textContent();
  assert.equal(await page.title(), "Notes");
  assert.equal(await text("h1"), "Notes from a sandbox");
  assert.equal(await text("#echo"), "grüße");
  assert.match(await text("#notes"), /written by the page/);
  assert.equal(await text("#host"), preview.host, "the host as the visitor sees it");
  assert.deepEqual(await page.evaluate(() => window.ending), [4001, "enough"]);

  // Of what lets the visitor in, nothing reaches the program, nor a script of the page.
  const names = (await page.evaluate(() => document.cookie)).split("; ").map(one => one.split("=")[0]);
  assert.deepEqual(names, ["theme"]);
  const headers = await page.evaluate(() => window.seen);
  assert.equal(headers.Cookie, "theme=warm");
  assert(!JSON.stringify(headers).includes("holm"), JSON.stringify(headers));
  assert.equal(headers["X-Forwarded-Host"] ?? preview.host, preview.host);
  await page.screenshot({ path: screenshot });

  // Somebody without the link, and the link once more, do not get in; nor does the page get at the API.
  const stranger = await (await browser.newContext()).newPage();
  for (const url of [exposed.url, exposed.link]) {
    const refused = await stranger.goto(url);
    assert([401, 403, 404].includes(refused.status()), `${url}: ${refused.status()}`);
    assert.equal(await stranger.locator("h1", { hasText: "Notes from a sandbox" }).count(), 0);
  }
  const across = await page.evaluate(async url => {
    try {
      return (await fetch(url, { credentials: "include" })).status;
    } catch (error) {
      return error.name;
    }
  }, `${service}/v1/sandboxes`);
  assert.equal(across, "TypeError", "the API's origin is another one");

  // It ends with the sandbox, and says so.
  await ask("DELETE", path);
  const gone = await page.reload();
  assert([404, 410, 502].includes(gone.status()), `${gone.status()}`);
  assert.equal(await page.locator("h1", { hasText: "Notes from a sandbox" }).count(), 0);
} finally {
  await browser.close();
}
