"""A PostgreSQL server for tests: Debian's, in a temporary directory, on a unix socket and a loopback
port, fast instead of durable. Needs no pytest: tests/run.py starts one for the unit tests in C, which
find it in GB_POSTGRES. tests/system/postgres_kit.py has the fixtures.
"""

import contextlib
import glob
import os
import pathlib
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time

PASSWORD = "superuser-secret-0815"  # of the user postgres
START_SECONDS = 120

# Commits stay synchronous, so that what a test wrote before it kills the server is there afterwards.
SETTINGS = """
fsync = off
full_page_writes = off
wal_level = minimal
max_wal_senders = 0
autovacuum = off
jit = off
shared_buffers = 16MB
max_connections = 80
logging_collector = off
log_min_messages = warning
listen_addresses = '127.0.0.1'
unix_socket_permissions = 0777
password_encryption = scram-sha-256
timezone = 'UTC'
"""

# The superuser comes in without a password only by the socket, and only in tests.
HBA = """
local all postgres trust
local all all scram-sha-256
host all all 127.0.0.1/32 scram-sha-256
"""


def bin_dir():
    """Where initdb and postgres are, or None. Debian keeps them out of the PATH."""
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin/initdb"),
                   key=lambda path: int(path.split("/")[4]))
    if not found and shutil.which("initdb"):
        found = [shutil.which("initdb")]
    return pathlib.Path(found[-1]).parent if found else None


def server_user():
    """Who runs the server: PostgreSQL refuses root. (uid, gid), or None for ourselves."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            entry = pwd.getpwnam(name)
            return entry.pw_uid, entry.pw_gid
    raise RuntimeError("no user to run PostgreSQL as")


def as_user(command):
    user = server_user()
    if user is None:
        return command
    return ["setpriv", f"--reuid={user[0]}", f"--regid={user[1]}", "--clear-groups", *command]


def with_a_name(command):
    """initdb asks for the name of its user id, which the throwaway users of tests/run.py do not
    have: in a user namespace they are somebody else."""
    try:
        pwd.getpwuid(os.geteuid())
    except KeyError:
        return ["unshare", "--user", "--map-user=1", "--map-group=1", *command]
    return command


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Postgres:
    """A server. `start`, `stop` and `kill` as often as a test likes; `close` removes everything."""

    def __init__(self, tls=False):
        self.bin = bin_dir()
        self.top = pathlib.Path(tempfile.mkdtemp(prefix="gbtest-pg-"))
        self.data, self.socket_dir = self.top / "data", self.top
        self.port, self.process, self.ca = free_port(), None, None
        self.top.chmod(0o755)
        try:
            self._own(self.top)
            self._initdb()
            if tls:
                self._make_tls()
            self.start()
            # A source is never asked as a superuser.
            self.sql(f"CREATE ROLE reader LOGIN PASSWORD '{PASSWORD}' IN ROLE pg_read_all_data")
        except BaseException:
            self.close()
            raise

    def _own(self, path):
        if server_user():
            os.chown(path, *server_user())

    def _run(self, *command):
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, cwd="/", check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{command}: {done.stdout.decode(errors='replace')[-2000:]}")

    def _initdb(self):
        secret = self.top / "pw"
        secret.write_text(PASSWORD)
        self._own(secret)
        self._run(*as_user(with_a_name(
            [str(self.bin / "initdb"), "-D", str(self.data), "-U", "postgres", "--pwfile", str(secret),
             "-A", "scram-sha-256", "-E", "UTF8", "--locale=C", "--no-sync", "--no-instructions"])))
        secret.unlink()
        with open(self.data / "postgresql.conf", "a", encoding="ascii") as f:
            f.write(SETTINGS + f"port = {self.port}\nunix_socket_directories = '{self.socket_dir}'\n")
        (self.data / "pg_hba.conf").write_text(HBA)

    def _make_tls(self):
        """An authority and a certificate for localhost and 127.0.0.1, made now."""
        key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
        ca, ca_key = self.top / "ca.pem", self.top / "ca.key"
        server, server_key, request = (self.data / n for n in ("server.crt", "server.key", "server.csr"))
        names = self.top / "names"
        names.write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
        self._run("openssl", "req", "-x509", *key, "-keyout", str(ca_key), "-out", str(ca),
                  "-days", "3650", "-subj", "/CN=Glovebox test authority")
        self._run("openssl", "req", *key, "-keyout", str(server_key), "-out", str(request),
                  "-subj", "/CN=localhost")
        self._run("openssl", "x509", "-req", "-in", str(request), "-CA", str(ca), "-CAkey", str(ca_key),
                  "-CAcreateserial", "-days", "3650", "-extfile", str(names), "-out", str(server))
        server_key.chmod(0o600)
        for path in (server, server_key):
            self._own(path)
        self.ca = ca.read_text()
        with open(self.data / "postgresql.conf", "a", encoding="ascii") as f:
            f.write("ssl = on\n")

    def start(self):
        log = open(self.top / "log", "ab")
        command = as_user([str(self.bin / "postgres"), "-D", str(self.data)])
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                        cwd="/", start_new_session=True)
        log.close()
        end = time.monotonic() + START_SECONDS
        while not self.is_ready():
            if self.process.poll() is not None or time.monotonic() > end:
                raise RuntimeError("PostgreSQL does not start: " +
                                   (self.top / "log").read_text(errors="replace")[-3000:])
            time.sleep(0.03)

    def is_ready(self):
        """pg_isready is not in the server's package; the last line of its file is."""
        with contextlib.suppress(OSError, IndexError):
            lines = (self.data / "postmaster.pid").read_text().splitlines()
            return int(lines[0]) == self.process.pid and lines[7].strip() == "ready"
        return False

    def stop(self):
        """Fast: connections are ended."""
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            self.process.wait(60)

    def kill(self):
        """As when the machine loses power: the postmaster is killed, and its children notice."""
        if self.process and self.process.poll() is None:
            children = self.backends()
            self.process.kill()
            self.process.wait(60)
            end = time.monotonic() + 60
            while any(os.path.exists(f"/proc/{pid}") and self._alive(pid) for pid in children):
                if time.monotonic() > end:
                    raise RuntimeError("processes of PostgreSQL outlive it")
                time.sleep(0.02)

    @staticmethod
    def _alive(pid):
        with contextlib.suppress(OSError):
            return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
        return False

    def backends(self):
        with contextlib.suppress(OSError):
            text = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
            return [int(pid) for pid in text.split()]
        return []

    def restart(self):
        self.stop()
        self.start()

    def close(self):
        with contextlib.suppress(Exception):
            self.stop()
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait(60)
        shutil.rmtree(self.top, ignore_errors=True)

    def url(self, database="postgres", user="postgres", password=PASSWORD, query=""):
        return f"postgresql://{user}:{password}@127.0.0.1:{self.port}/{database}{query}"

    def sql(self, text, database="postgres", user="postgres", password=PASSWORD, check=True):
        """Runs a script with psql; gives its output without decoration."""
        env = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "PGPASSWORD": password, "LC_ALL": "C.UTF-8"}
        done = subprocess.run(
            ["psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-h", str(self.socket_dir),
             "-p", str(self.port), "-U", user, "-d", database, "-f", "-"],
            input=text.encode(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env, cwd="/",
            check=False)
        if check and done.returncode != 0:
            raise RuntimeError(done.stderr.decode(errors="replace"))
        return done.stdout.decode(errors="replace").strip()

    @contextlib.contextmanager
    def holding(self, text, database="postgres"):
        """Somebody who has run @text and stays connected."""
        env = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LC_ALL": "C.UTF-8"}
        with subprocess.Popen(["psql", "-X", "-q", "-A", "-t", "-h", str(self.socket_dir), "-p", str(self.port),
                               "-U", "postgres", "-d", database, "-f", "-"], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, env=env, cwd="/") as psql:
            psql.stdin.write(text.encode() + b";\n\\echo held\n")
            psql.stdin.flush()
            while psql.stdout.readline() not in (b"held\n", b""):
                pass
            yield
            psql.stdin.close()

    def create_database(self, name, more=""):
        self.sql(f'CREATE DATABASE "{name}" {more}')
        return name


@contextlib.contextmanager
def for_c_tests():
    """The environment for unit tests in C: with GB_POSTGRES if there is a server to start."""
    if bin_dir() is None or os.environ.get("GB_POSTGRES"):
        yield dict(os.environ)
        return
    server = Postgres()
    try:
        yield dict(os.environ, GB_POSTGRES=server.url())
    finally:
        server.close()
