"""A small web application as an agent would write one: a page, an interface, a WebSocket."""

from flask import Flask, jsonify, request
from flask_sock import Sock

app = Flask(__name__)
sock = Sock(app)
notes = []

PAGE = """<!doctype html>
<meta charset="utf-8">
<title>Notes</title>
<style>body { font: 20px sans-serif; margin: 2em; background: #f4f1ea } li { margin: .4em 0 }</style>
<h1>Notes from a sandbox</h1>
<ul id="notes"></ul>
<p>WebSocket: <b id="echo">waiting</b></p>
<p>Received: <b id="size">nothing</b></p>
<p>Host: <b id="host"></b></p>
<script>
const text = (id, value) => document.getElementById(id).textContent = value;
const show = async () => {
  const { notes, host, headers } = await (await fetch("/api/notes")).json();
  document.getElementById("notes").replaceChildren(...notes.map(note => {
    const item = document.createElement("li");
    item.textContent = note;
    return item;
  }));
  text("host", host);
  window.seen = headers;
};
const socket = new WebSocket(location.origin.replace(/^http/, "ws") + "/echo");
socket.binaryType = "arraybuffer";
socket.onopen = () => socket.send("grüße");
socket.onmessage = event => {
  if (typeof event.data === "string") {
    text("echo", event.data);
    socket.send(new Uint8Array(1 << 20).fill(7));
  } else {
    text("size", `${event.data.byteLength} bytes`);
    socket.send("bye");
  }
};
socket.onclose = event => window.ending = [event.code, event.reason];
fetch("/api/notes", { method: "POST", body: "written by the page" }).then(show);
</script>
"""


@app.get("/")
def page():
    return PAGE, {"Set-Cookie": "theme=warm; Path=/"}


@app.get("/api/notes")
def listed():
    return jsonify(notes=notes, host=request.host, headers=dict(request.headers))


@app.post("/api/notes")
def added():
    notes.append(request.get_data(as_text=True))
    return "", 204


@sock.route("/echo")
def echo(ws):
    while (message := ws.receive()) != "bye":
        ws.send(message)
    ws.close(4001, "enough")
