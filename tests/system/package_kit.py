"""
A package index for tests: wheels that the test makes, served on a free port of the host's loopback.

`Index` speaks the simple API, with hashes. What it is told to serve it serves as it is, so that wheels
can be as bad as a test wants them.
"""

import base64
import contextlib
import functools
import hashlib
import http.server
import importlib.util
import io
import os
import pathlib
import shutil
import socket
import ssl
import subprocess
import sys
import tarfile
import threading
import zipfile

PATIENCE = 400  # seconds: pip is slow, and a machine can be too

ROOT = pathlib.Path(__file__).resolve().parents[2]


@functools.lru_cache(maxsize=None)
def find_uv():
    """The machine's uv, or the one that Glovebox would fetch, kept in the user's cache; or None."""
    found = shutil.which("uv")
    if found:
        return found
    lock = ROOT / "src" / "service" / "package" / "uv.lock"
    key = hashlib.sha256(lock.read_bytes()).hexdigest()[:16]
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    kit = cache / "glovebox" / f"uv-{key}"
    if not (kit / "bin" / "uv").exists():
        part = kit.with_name(f"{kit.name}.{os.getpid()}")
        got = subprocess.run(["/usr/bin/python3", "-m", "pip", "install", "-q", "--only-binary", ":all:",
                              "--no-deps", "--require-hashes", "--retries", "0", "--target", part, "-r",
                              lock], capture_output=True, timeout=PATIENCE)
        if got.returncode == 0:
            with contextlib.suppress(OSError):
                part.rename(kit)
        shutil.rmtree(part, ignore_errors=True)
    return str(kit / "bin" / "uv") if (kit / "bin" / "uv").exists() else None


# This machine's own configuration is not the test's. Without uv the tests are of pip.
ALONE = {"GLOVEBOX_UV": find_uv() or "none",
         "PIP_CONFIG_FILE": "/dev/null", "PIP_FIND_LINKS": None, "PIP_INDEX_URL": None,
         "PIP_EXTRA_INDEX_URL": None, "PIP_CERT": None, "PIP_NO_INDEX": None, "PIP_PROXY": None,
         "HTTPS_PROXY": None, "https_proxy": None}

TLS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tls")


def make_wheel(name, version, files=None, requires=(), members=None, tag="py3-none-any"):
    """The name of the file and its bytes. Without @files it is one module that knows its version."""
    stem = name.replace("-", "_")
    info = f"{stem}-{version}.dist-info"
    contents = dict(files if files is not None else {f"{stem}.py": f"version = {version!r}\n"})
    contents[f"{info}/METADATA"] = (f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
                                    + "".join(f"Requires-Dist: {r}\n" for r in requires))
    contents[f"{info}/WHEEL"] = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: " + tag + "\n"
    contents.update(members or {})
    data = {path: text if isinstance(text, bytes) else text.encode()
            for path, text in contents.items()}
    rows = [f"{path},sha256={_record_hash(text)},{len(text)}\n" for path, text in data.items()]
    data[f"{info}/RECORD"] = "".join([*rows, f"{info}/RECORD,,\n"]).encode()
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, text in data.items():
            archive.writestr(zipfile.ZipInfo(path, (2020, 1, 1, 0, 0, 0)), text)
    return f"{stem}-{version}-{tag}.whl", out.getvalue()


def make_compiled_wheel(name, version):
    """A package with a compiled module, one of the standard library under a new roof."""
    file = importlib.util.find_spec("_json").origin
    with open(file, "rb") as module:
        code = module.read()
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    return make_wheel(name, version, {
        f"{name}/__init__.py": f"from ._json import encode_basestring\nversion = {version!r}\n",
        f"{name}/{os.path.basename(file)}": code,
    }, tag=f"{python}-{python}-linux_{os.uname().machine}")


class Endless:
    """A file of so many zeros, which are never all there."""

    def __init__(self, size):
        self.size, self.sent = size, 0

    def write_to(self, stream):
        while self.sent < self.size:
            stream.write(bytes(1 << 16))
            self.sent += 1 << 16


class Cut:
    """A file that ends in the middle: the connection is closed, or it hangs until the gate opens."""

    def __init__(self, data, gate=None):
        self.data, self.size, self.gate = data, len(data), gate

    def write_to(self, stream):
        stream.write(self.data[:self.size // 2])
        stream.flush()
        if self.gate is not None:
            self.gate.wait()
        raise OSError("cut")


def _record_hash(data):
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def make_sdist(name, version, setup=None, files=None):
    """With @setup as its setup.py, or with @files."""
    out = io.BytesIO()
    contents = dict(files or {"setup.py": setup})
    contents["PKG-INFO"] = f"Metadata-Version: 1.0\nName: {name}\nVersion: {version}\n"
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for path, text in contents.items():
            entry = tarfile.TarInfo(f"{name}-{version}/{path}")
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    return f"{name}-{version}.tar.gz", out.getvalue()


# A build backend that needs nothing but itself: what its PROBE comes to is in the module it builds.
BACKEND = """
import zipfile

def get_requires_for_build_wheel(config_settings=None):
    return []

def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    info = "{name}-{version}.dist-info/"
    file = "{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel_directory + "/" + file, "w") as wheel:
        wheel.writestr("{name}.py", "probe = %r\\n" % (probe(),))
        wheel.writestr(info + "METADATA", "Metadata-Version: 2.1\\nName: {name}\\nVersion: {version}\\n")
        wheel.writestr(info + "WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\n"
                                       "Tag: py3-none-any\\n")
        wheel.writestr(info + "RECORD", "")
    return file
"""


def make_built(name, version, probe):
    """An sdist whose build runs @probe, the source of a function probe()."""
    return make_sdist(name, version, files={
        "pyproject.toml": '[build-system]\nrequires = []\nbuild-backend = "backend"\n'
                          'backend-path = ["."]\n',
        "backend.py": probe + BACKEND.format(name=name, version=version)})


def bytes_of(data):
    return b"" if isinstance(data, Endless) else data.data if isinstance(data, Cut) else data


def metadata_of(data):
    """The METADATA of a wheel, or nothing."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            name = next(n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
            return archive.read(name)
    except (zipfile.BadZipFile, StopIteration):
        return b""


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def do_GET(self):
        index = self.server
        if self.command != "HEAD":
            index.seen.append(self.path)
        index.gate.wait()
        if index.user and self.headers.get("Authorization") != index.user:
            return self.answer(401, b"who are you?")
        kind, _, name = self.path.strip("/").partition("/")
        if kind == "simple" and name in index.projects:
            return self.answer(200, index.page(name), "text/html")
        if kind == "files" and name in index.files:
            return self.answer(200, index.files[name], "application/octet-stream")
        if kind == "files" and name.endswith(".metadata") and name[:-9] in index.files:
            return self.answer(200, metadata_of(bytes_of(index.files[name[:-9]])))
        return self.answer(404, b"not here")

    do_HEAD = do_GET

    def answer(self, status, body, kind="text/plain"):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        endless = isinstance(body, (Endless, Cut))
        self.send_header("Content-Length", str(body.size if endless else len(body)))
        self.end_headers()
        if self.command == "HEAD":
            return
        try:
            body.write_to(self.wfile) if endless else self.wfile.write(body)
        except OSError:
            self.close_connection = True


class Index(http.server.ThreadingHTTPServer):
    daemon_threads = False
    block_on_close = True

    def __init__(self, user=None, tls=False):
        self.projects, self.files, self.seen, self.connections = {}, {}, [], set()
        self.lies = {}  # {file: a hash that is not its own}
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
        links = (f'<a href="/files/{file}#sha256={self.digest(file)}"{self.has_metadata(file)}>{file}</a>'
                 for file in self.projects[project])
        return ("<!DOCTYPE html><html><body>" + "\n".join(links) + "</body></html>").encode()

    def has_metadata(self, file):
        """PEP 658: nobody needs the whole file to know what it requires."""
        good = metadata_of(bytes_of(self.files[file]))
        return ' data-dist-info-metadata="true"' if good else ""

    def digest(self, file):
        return self.lies.get(file) or hashlib.sha256(bytes_of(self.files[file])).hexdigest()

    def fetched(self):
        return [path for path in self.seen
                if path.startswith("/files/") and not path.endswith(".metadata")]

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
