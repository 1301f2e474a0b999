"""
What boxes reach in tests: a web server, the same with TLS, and a name server, each on a free port of
the host's loopback and each in threads of the test itself.
"""

import contextlib
import http.server
import json
import os
import socket
import socketserver
import ssl
import struct
import threading

import pytest

TLS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tls")
CA = os.path.join(TLS, "ca.pem")


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def answer(self, body, kind="text/plain"):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.server.seen.append((self.command, self.path, dict(self.headers)))
        if self.path == "/flood":
            return self.flood()
        if self.path == "/headers":
            return self.answer(json.dumps(dict(self.headers)).encode())
        return self.answer(b"hello from the host\n")

    do_HEAD = do_DELETE = do_GET

    def do_POST(self):
        if self.headers.get("Transfer-Encoding") == "chunked":
            body = b""
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.seen.append((self.command, self.path, dict(self.headers)))
        self.answer(body)

    def flood(self):
        """Never ends by itself."""
        self.send_response(200)
        self.end_headers()
        with contextlib.suppress(OSError):
            while True:
                self.wfile.write(b"x" * 65536)


class Web(http.server.ThreadingHTTPServer):
    daemon_threads = False
    block_on_close = True
    request_queue_size = 128

    def __init__(self, address="127.0.0.1", port=0, tls=False):
        self.seen, self.open_sockets, self.tls = [], set(), None
        if tls:
            self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.tls.load_cert_chain(os.path.join(TLS, "server.pem"), os.path.join(TLS, "server.key"))
        super().__init__((address, port), Handler)
        self.port = self.server_address[1]
        self.thread = threading.Thread(target=self.serve_forever, args=(0.05,))
        self.thread.start()

    def process_request(self, request, client_address):
        self.open_sockets.add(request)
        super().process_request(request, client_address)

    def finish_request(self, request, client_address):
        if self.tls:
            with self.tls.wrap_socket(request, server_side=True) as wrapped:
                super().finish_request(wrapped, client_address)
        else:
            super().finish_request(request, client_address)

    def shutdown_request(self, request):
        self.open_sockets.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request, client_address):
        pass  # clients that go away are part of the tests

    def close(self):
        self.shutdown()
        self.thread.join()
        for request in list(self.open_sockets):
            with contextlib.suppress(OSError):
                request.shutdown(socket.SHUT_RDWR)
        self.server_close()


class Names(socketserver.UDPServer):
    """Answers questions for A; each name has a list of answers, of which the last one stays."""

    def __init__(self):
        self.answers, self.asked = {}, []
        super().__init__(("127.0.0.1", 0), self.handle)
        self.port = self.server_address[1]
        self.address = f"127.0.0.1:{self.port}"
        self.thread = threading.Thread(target=self.serve_forever, args=(0.05,))
        self.thread.start()

    def handle(self, request, client_address, _server):
        data, sock = request
        at, labels = 12, []
        while data[at]:
            labels.append(data[at + 1 : at + 1 + data[at]].decode())
            at += 1 + data[at]
        name, question = ".".join(labels).lower(), data[12 : at + 5]
        (kind,) = struct.unpack(">H", data[at + 1 : at + 3])
        self.asked.append((name, kind))
        known = self.answers.get(name)
        found = []
        if known and kind == 1:
            found = known.pop(0) if len(known) > 1 else known[0]
        code = 0 if known else 3
        reply = data[:2] + struct.pack(">HHHHH", 0x8180 | code, 1, len(found), 0, 0) + question
        for address in found:
            reply += b"\xc0\x0c" + struct.pack(">HHIH", 1, 1, 0, 4) + socket.inet_aton(address)
        sock.sendto(reply, client_address)

    def close(self):
        self.shutdown()
        self.thread.join()
        self.server_close()


@pytest.fixture
def web(nothing_left):
    server = Web()
    yield server
    server.close()


@pytest.fixture
def names(nothing_left):
    server = Names()
    yield server
    server.close()


# For programs in boxes: the text of a reply whatever its status, and raw bytes to the proxy.
KIT = """
import contextlib, http.client, json, os, socket, urllib.error, urllib.request

def get(url, data=None, method=None, headers={}):
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data, headers, method=method)) as r:
            return r.status, r.read().decode()
    except urllib.error.HTTPError as e:
        with e:
            return e.code, e.read().decode()
    except urllib.error.URLError as e:
        return 0, str(e.reason)

def raw(data):
    with socket.create_connection(("127.0.0.1", 3128)) as s:
        with contextlib.suppress(ConnectionError):
            s.sendall(data)
        found = b""
        with contextlib.suppress(ConnectionError):
            while piece := s.recv(65536):
                found += piece
        return found.decode("latin-1")

"""
