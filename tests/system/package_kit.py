"""
A package index for tests: wheels that the test makes, served on a free port of the host's loopback.

`Index` speaks the simple API, with hashes. What it is told to serve it serves as it is, so that wheels
can be as bad as a test wants them.
"""

import base64
import contextlib
import hashlib
import http.server
import io
import os
import socket
import ssl
import tarfile
import threading
import zipfile

PATIENCE = 400  # seconds: pip is slow, and a machine can be too

# This machine's own configuration is not the test's.
ALONE = {"PIP_CONFIG_FILE": "/dev/null", "PIP_FIND_LINKS": None, "PIP_INDEX_URL": None,
         "PIP_EXTRA_INDEX_URL": None, "PIP_CERT": None, "PIP_NO_INDEX": None}

TLS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tls")


def make_wheel(name, version, files=None, requires=(), members=None):
    """The name of the file and its bytes. Without @files it is one module that knows its version."""
    stem = name.replace("-", "_")
    info = f"{stem}-{version}.dist-info"
    contents = dict(files if files is not None else {f"{stem}.py": f"version = {version!r}\n"})
    contents[f"{info}/METADATA"] = (f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
                                    + "".join(f"Requires-Dist: {r}\n" for r in requires))
    contents[f"{info}/WHEEL"] = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    contents.update(members or {})
    data = {path: text if isinstance(text, bytes) else text.encode()
            for path, text in contents.items()}
    rows = [f"{path},sha256={_record_hash(text)},{len(text)}\n" for path, text in data.items()]
    data[f"{info}/RECORD"] = "".join([*rows, f"{info}/RECORD,,\n"]).encode()
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, text in data.items():
            archive.writestr(zipfile.ZipInfo(path, (2020, 1, 1, 0, 0, 0)), text)
    return f"{stem}-{version}-py3-none-any.whl", out.getvalue()


def _record_hash(data):
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def make_sdist(name, version, setup):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for path, text in (("setup.py", setup), ("PKG-INFO", f"Metadata-Version: 1.0\nName: {name}\n"
                                                             f"Version: {version}\n")):
            entry = tarfile.TarInfo(f"{name}-{version}/{path}")
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    return f"{name}-{version}.tar.gz", out.getvalue()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def do_GET(self):
        index = self.server
        index.seen.append(self.path)
        index.gate.wait()
        if index.user and self.headers.get("Authorization") != index.user:
            return self.answer(401, b"who are you?")
        kind, _, name = self.path.strip("/").partition("/")
        if kind == "simple" and name in index.projects:
            return self.answer(200, index.page(name), "text/html")
        if kind == "files" and name in index.files:
            return self.answer(200, index.files[name], "application/octet-stream")
        return self.answer(404, b"not here")

    def answer(self, status, body, kind="text/plain"):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        with contextlib.suppress(OSError):
            self.wfile.write(body)


class Index(http.server.ThreadingHTTPServer):
    daemon_threads = False
    block_on_close = True

    def __init__(self, user=None, tls=False):
        self.projects, self.files, self.seen, self.connections = {}, {}, [], set()
        self.gate = threading.Event()  # closed, the index hangs
        self.gate.set()
        self.user = user and "Basic " + base64.b64encode(user.encode()).decode()
        self.context = None
        if tls:
            self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.context.load_cert_chain(os.path.join(TLS, "server.pem"),
                                         os.path.join(TLS, "server.key"))
        super().__init__(("127.0.0.1", 0), Handler)
        self.port = self.server_address[1]
        scheme = "https" if tls else "http"
        host = f"{user}@secret.test" if user else "127.0.0.1"  # the name in the certificate
        self.url = f"{scheme}://{host}:{self.port}/simple"
        self.thread = threading.Thread(target=self.serve_forever, args=(0.05,))
        self.thread.start()

    def add(self, file, data, project=None):
        project = project or file.split("-")[0].replace("_", "-")
        self.files[file] = data
        self.projects.setdefault(project, []).append(file)

    def wheel(self, name, version, *args, **how):
        self.add(*make_wheel(name, version, *args, **how))

    def page(self, project):
        links = (f'<a href="/files/{file}#sha256={hashlib.sha256(self.files[file]).hexdigest()}">'
                 f"{file}</a>" for file in self.projects[project])
        return ("<!DOCTYPE html><html><body>" + "\n".join(links) + "</body></html>").encode()

    def fetched(self):
        return [path for path in self.seen if path.startswith("/files/")]

    def process_request(self, request, client_address):
        self.connections.add(request)
        super().process_request(request, client_address)

    def finish_request(self, request, client_address):
        if self.context is None:
            return super().finish_request(request, client_address)
        with self.context.wrap_socket(request, server_side=True) as wrapped:
            return super().finish_request(wrapped, client_address)

    def shutdown_request(self, request):
        self.connections.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request, client_address):
        pass  # clients that go away are part of the tests

    def close(self):
        self.gate.set()
        self.shutdown()
        self.thread.join()
        for request in list(self.connections):
            with contextlib.suppress(OSError):
                request.shutdown(socket.SHUT_RDWR)
        self.server_close()
