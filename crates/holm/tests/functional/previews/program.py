# The program behind a preview: answers what it was asked, and misbehaves where it is told to.
import base64
import hashlib
import json
import socket
import sys
import threading
import time

ended = threading.Event()


def read_head(stream):
    lines = []
    while True:
        line = stream.readline()
        if line in (b"\r\n", b"\n", b""):
            return lines
        lines.append(line.decode("latin-1").rstrip("\r\n"))


def body_of(stream, headers):
    given = {name.lower(): value for name, value in headers}
    if given.get("transfer-encoding", "").lower() == "chunked":
        while True:
            size = int(stream.readline(), 16)
            if size == 0:
                trailers = read_head(stream)
                if trailers:
                    yield ("trailers", trailers)
                return
            yield ("data", stream.read(size))
            stream.readline()
    left = int(given.get("content-length", 0))
    while left:
        part = stream.read(min(left, 65536))
        if not part:
            return
        left -= len(part)
        yield ("data", part)


def frames(stream):
    while True:
        head = stream.read(2)
        if len(head) < 2:
            return
        length = head[1] & 127
        if length == 126:
            length = int.from_bytes(stream.read(2), "big")
        elif length == 127:
            length = int.from_bytes(stream.read(8), "big")
        mask = stream.read(4)
        data = bytearray(stream.read(length))
        for at in range(length):
            data[at] ^= mask[at % 4]
        yield head[0], bytes(data)


def frame(first, data):
    length = len(data)
    if length < 126:
        return bytes([first, length]) + data
    if length < 65536:
        return bytes([first, 126]) + length.to_bytes(2, "big") + data
    return bytes([first, 127]) + length.to_bytes(8, "big") + data


def websocket(out, stream, given):
    key = given["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
    accept = base64.b64encode(hashlib.sha1(key.encode()).digest()).decode()
    out(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Accept: {accept}\r\n\r\n".encode()
        + frame(0x81, b"first")
    )
    for first, data in frames(stream):
        kind = first & 15
        if kind == 9:
            out(frame(0x8A, data))
        elif kind == 8:
            out(frame(0x88, data))
            return
        elif kind == 10:
            out(frame(0x81, b"pong " + data))
        else:
            out(frame(first, data))


def whole(out, text, extra=""):
    data = text.encode()
    out(f"HTTP/1.1 200 OK\r\nContent-Length: {len(data)}\r\n{extra}\r\n".encode() + data)


def answer(out, stream, method, path, headers, number):
    given = {name.lower(): value for name, value in headers}
    route = path.split("?")[0]
    if route == "/ws" and given.get("upgrade", "").lower() == "websocket":
        websocket(out, stream, given)
        return False
    if route == "/echo":
        out(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n")
        total, seen = 0, []
        for kind, part in body_of(stream, headers):
            if kind == "trailers":
                seen = part
                continue
            total += len(part)
            out(f"{len(part):x}\r\n".encode() + part + b"\r\n")
        out(f"0\r\nX-Sum: {total} {','.join(seen)}\r\n\r\n".encode())
        return True
    if route == "/count":
        # It is a hash of the bytes and how many there were.
        total, digest = 0, hashlib.sha256()
        for kind, part in body_of(stream, headers):
            if kind == "data":
                total += len(part)
                digest.update(part)
        whole(out, f"{total} {digest.hexdigest()}")
        return True
    if route == "/early":
        # Answers first, then reads until there is no more, which a later request may ask for.
        whole(out, "early")
        while stream.read(1):
            pass
        ended.set()
        return False
    for _ in body_of(stream, headers):
        pass
    if route == "/ended":
        ended.wait()
        whole(out, "ended")
    elif route == "/headers":
        whole(out, json.dumps({"line": [method, path], "headers": headers, "number": number}))
    elif route == "/sse":
        out(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\n\r\n")
        count = 0
        while True:
            out(f"data: {count}\n\n".encode())
            count += 1
            time.sleep(0.2)
    elif route == "/large":
        size = int(path.split("?")[1])
        out(f"HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n\r\n".encode())
        if method != "HEAD":
            part = b"x" * 65536
            while size:
                out(part[: min(size, len(part))])
                size -= min(size, len(part))
    elif route == "/hostile":
        # What it says is in the address.
        out(base64.urlsafe_b64decode(path.split("?")[1]))
        return False
    elif route == "/set":
        whole(
            out,
            "set",
            "Set-Cookie: own=1; Path=/\r\nSet-Cookie: wide=1; Domain=localhost; Path=/\r\n"
            "Set-Cookie: holm-preview=forged; Path=/\r\nAlt-Svc: h3=\":1\"\r\n"
            "Strict-Transport-Security: max-age=1; includeSubDomains\r\n"
            "Clear-Site-Data: \"*\"\r\nX-Accel-Redirect: /etc/passwd\r\nConnection: X-Hop\r\n"
            "X-Hop: 1\r\nX-Own: kept\r\n",
        )
    elif method == "HEAD":
        out(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n")
    else:
        whole(out, f"hello {method} {path}")
    return given.get("connection", "").lower() != "close"


def serve(connection, number):
    stream = connection.makefile("rb")
    try:
        while True:
            lines = read_head(stream)
            if not lines:
                break
            method, path, _ = lines[0].split(" ")
            headers = [line.split(": ", 1) for line in lines[1:]]
            if not answer(connection.sendall, stream, method, path, headers, number):
                break
    except OSError:
        pass
    connection.close()


def listen(address, port):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if family == socket.AF_INET6:
        listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    listener.bind((address, port))
    listener.listen(64)
    count = 0
    while True:
        connection, _ = listener.accept()
        count += 1
        threading.Thread(target=serve, args=(connection, count), daemon=True).start()


places = [place.rsplit("@", 1) for place in sys.argv[1:]]
threads = [threading.Thread(target=listen, args=(where, int(port))) for port, where in places]
for thread in threads:
    thread.start()
