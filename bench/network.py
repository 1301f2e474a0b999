#!/usr/bin/python3
"""Requests through the proxy of a box, compared with the same requests made directly.

usage: bench/network.py GLOVEBOX OUT.JSON

One client, the same few lines of Python each time: it connects, asks, reads to the end. On the host it
asks a server on loopback directly; in a box it asks the same server through the box's proxy, once in
plain HTTP and once through a tunnel. Rounds are interleaved, so that a slow moment affects all alike.
"""

import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile

ROUNDS, REQUESTS, TARGET_MS = 5, 300, 1.0

CLIENT = """
import json, socket, sys, time
how, port, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
to = ("127.0.0.1", 3128 if how != "direct" else port)
url = f"http://127.0.0.1:{port}/" if how == "proxy" else "/"
ask = f"GET {url} HTTP/1.1\\r\\nHost: 127.0.0.1:{port}\\r\\nConnection: close\\r\\n\\r\\n".encode()
tunnel = f"CONNECT 127.0.0.1:{port} HTTP/1.1\\r\\n\\r\\n".encode()
found = []
for i in range(count + 20):
    start = time.perf_counter()
    with socket.create_connection(to) as s:
        if how == "tunnel":
            s.sendall(tunnel)
            assert b"200" in s.recv(4096)
        s.sendall(ask)
        reply = b""
        while piece := s.recv(65536):
            reply += piece
    assert reply.endswith(b"hello"), reply
    if i >= 20:
        found.append(time.perf_counter() - start)
print(json.dumps(found))
"""


def serve(listening):
    """Answers one connection after the other, until it is killed."""
    reply = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello"
    while True:
        connection, _ = listening.accept()
        with connection:
            data = b""
            while b"\r\n\r\n" not in data and (piece := connection.recv(4096)):
                data += piece
            connection.sendall(reply)


def measure(binary, client, how, port):
    args = [client, how, str(port), str(REQUESTS)]
    if how == "direct":
        command = ["/usr/bin/python3", *args]
    else:
        command = [binary, "run", "--allow-host", f"127.0.0.1:{port}", *args]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)


def main():
    binary, out = sys.argv[1:3]
    times = {"direct": [], "proxy": [], "tunnel": []}
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listening:
        port = listening.getsockname()[1]
        child = os.fork()
        if child == 0:
            serve(listening)
    try:
        with tempfile.TemporaryDirectory(prefix="glovebox-test-bench.") as directory:
            client = os.path.join(directory, "client.py")
            with open(client, "w", encoding="utf-8") as f:
                f.write(CLIENT)
            for _ in range(ROUNDS):
                for how, found in times.items():
                    found += measure(binary, client, how, port)
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)
    p50 = {how: statistics.median(found) * 1000 for how, found in times.items()}
    result = {f"{how}_p50_ms": value for how, value in p50.items()}
    print("network  p50 " + ", ".join(f"{how} {value:.3f} ms" for how, value in p50.items()))
    for how in ("proxy", "tunnel"):
        more = p50[how] - p50["direct"]
        result[f"{how}_more_ms"] = more
        print(f"  {'ms more than directly, ' + how:<44} {more:10.2f}   goal ≤ {TARGET_MS:.2f}   "
              f"{'yes' if more <= TARGET_MS else 'NO'}")
    with open(out, "w", encoding="utf-8") as f:
        json.dump({"network": result, "target_ms": TARGET_MS}, f, indent=2)
    print(f"saved as {out}")


if __name__ == "__main__":
    main()
