"""
A stand-in for BigQuery's REST API and Google's token endpoint.

    with BigQuery() as bq:
        bq.answers["SELECT 1 AS x"] = Answer([field("x", "INTEGER")], [[1]])
        bq.faults.append(Fault("/jobs", status=503, headers={"Retry-After": "0"}))
        order = {"op": "query", "source": bq.source(), "sql": "SELECT 1 AS x"}

It has no SQL: a statement is looked up in `answers`, and what is not there is a syntax error. What
surrounds a statement is as Google has it: assertions are verified and change into tokens that expire,
dry runs tell statement type, tables and bytes, jobs have ids that exist once, results come in pages,
jobs take as many polls as they are told, and ceilings of bytes are kept. test_bigquery.py has Google's
own client talk to it, so that we know that it does.
"""

import base64
import contextlib
import dataclasses
import datetime
import decimal
import hashlib
import http.server
import json
import os
import re
import socket
import subprocess
import tempfile
import threading
import time
import urllib.parse
import uuid

from conftest import ROOT, need

MIB = 1 << 20
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)


def field(name, type, mode="NULLABLE", fields=None, **more):
    found = {"name": name, "type": type, "mode": mode, **more}
    if fields:
        found["fields"] = fields
    return found


@dataclasses.dataclass
class Answer:
    """What a statement gives. Rows have Python values, or `Wire` for values as they are."""

    schema: list
    rows: list = dataclasses.field(default_factory=list)
    bytes: int = 0
    statement: str = "SELECT"
    tables: list = dataclasses.field(default_factory=list)  # (project, dataset, table)
    routines: list = dataclasses.field(default_factory=list)
    polls: int = 0  # how often the job is not complete yet
    page: int = None  # rows of a page, below what is asked for
    error: tuple = None  # (reason, message) of the job, after the dry run
    dry_error: tuple = None
    cache_hit: bool = False
    total: int = None  # what totalRows says, if it lies
    hold: threading.Event = None  # the job runs until it is set
    billed: int = None  # what was billed, if it was more than the dry run said


class Wire:
    """A value as it is on the wire, valid or not."""

    def __init__(self, value):
        self.value = value


@dataclasses.dataclass
class Fault:
    """What happens to requests whose "METHOD path" matches, instead of or with a reply."""

    path: str  # a regular expression
    times: int = 1  # how many; None: all
    status: int = None
    reason: str = "backendError"
    message: str = "Please try again."
    body: bytes = None
    headers: dict = dataclasses.field(default_factory=dict)
    hang_up: int = None  # after so many bytes of the reply, head and all
    silent: bool = False  # never answers
    delay: float = 0
    length: int = None  # what Content-Length says
    after: bool = False  # the request is served first, and then this is sent


class Refused(Exception):
    def __init__(self, status, reason, message):
        super().__init__(message)
        self.status, self.reason, self.message = status, reason, message


def kit_python(which="venv"):
    """The interpreter of the kit with Google's packages, or of "emulator"; installed the first time."""
    script = os.path.join(ROOT, "tools", "model_kit.sh")
    where = os.environ.get("GB_MODEL_KIT") or subprocess.run(
        [script, "--where"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    done = subprocess.run([script, where], capture_output=True, text=True, timeout=900)
    need(done.returncode == 0, f"tools/model_kit.sh failed: {done.stderr[-300:]}")
    python = os.path.join(where, which, "bin", "python")
    need(os.path.exists(python), f"{which} needs a newer Python (tools/model_kit.sh)")
    return python


# ---- keys ---------------------------------------------------------------------------------------

SHA256_INFO = bytes.fromhex("3031300d060960864801650304020105000420")


def openssl(*words, data=None):
    return subprocess.run(["openssl", *words], input=data, capture_output=True, check=True).stdout


class Key:
    """An RSA key, made by openssl."""

    def __init__(self):
        self.pem = openssl("genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048")
        text = openssl("rsa", "-noout", "-modulus", data=self.pem).decode()
        self.modulus = int(text.strip().partition("=")[2], 16)

    def sign(self, data):
        with tempfile.NamedTemporaryFile() as file:
            file.write(self.pem)
            file.flush()
            return openssl("dgst", "-sha256", "-sign", file.name, data=data)

    def verify(self, data, signature):
        size = (self.modulus.bit_length() + 7) // 8
        end = SHA256_INFO + hashlib.sha256(data).digest()
        right = b"\x00\x01" + b"\xff" * (size - len(end) - 3) + b"\x00" + end
        return pow(int.from_bytes(signature, "big"), 65537, self.modulus).to_bytes(size, "big") == right


def to_base64url(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def from_base64url(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


KEYS = []


def shared_key():
    """One for all tests: making it takes a while."""
    if not KEYS:
        KEYS.append(Key())
    return KEYS[0]


# ---- values -------------------------------------------------------------------------------------


def encode_scalar(kind, value, int64):
    if kind in ("BOOLEAN", "BOOL"):
        return "true" if value else "false"
    if kind in ("FLOAT", "FLOAT64"):
        if value != value:
            return "NaN"
        return {float("inf"): "Infinity", float("-inf"): "-Infinity"}.get(value, repr(value))
    if kind == "BYTES":
        return base64.b64encode(value).decode()
    if kind == "TIMESTAMP":
        us = (value - EPOCH) // datetime.timedelta(microseconds=1)
        return str(us) if int64 else repr(us / 1e6)
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, decimal.Decimal):
        return format(value, "f")
    return str(value)


def encode(column, value, int64, inside=False):
    if isinstance(value, Wire):
        return value.value
    if value is None:
        return None
    if column["mode"] == "REPEATED" and not inside:
        return [{"v": encode(column, item, int64, True)} for item in value]
    if column["type"] in ("RECORD", "STRUCT"):
        return {"f": [{"v": encode(c, v, int64)} for c, v in zip(column["fields"], value)]}
    return encode_scalar(column["type"], value, int64)


# ---- the server ---------------------------------------------------------------------------------


class BigQuery:
    def __init__(self, project="test-project", location="US"):
        self.project, self.location = project, location
        self.key = shared_key()
        self.answers, self.faults, self.requests, self.jobs = {}, [], [], {}
        self.cancelled, self.tokens, self.revoked = [], {}, set()
        self.datasets = {}  # name -> {table name: resource}
        self.rows = {}  # (dataset, table) -> (schema, rows) or (status, reason, message)
        self.token_life = 3600
        self.denied = None  # (reason, message) for everything but tokens
        self.lock, self.closing = threading.Lock(), threading.Event()
        self.most_rows = 100000
        self.sizes = {}  # path -> bytes of the last reply, head and all

    def __enter__(self):
        kit = self

        class Handler(Connection):
            bq = kit

        self.server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02})
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.closing.set()
        for job in self.jobs.values():
            if job["answer"].hold:
                job["answer"].hold.set()
        self.server.shutdown()
        self.server.close_all()
        self.server.server_close()
        self.thread.join()

    # what a client needs

    def credentials(self, **other):
        return {"type": "service_account", "project_id": self.project, "private_key_id": "key-1",
                "private_key": self.key.pem.decode(), "client_id": "1", "token_uri": self.url + "/token",
                "client_email": f"mark@{self.project}.iam.gserviceaccount.com", **other}

    def assertion(self, **other):
        now = int(time.time())
        account = self.credentials()
        claims = {"iss": account["client_email"], "aud": account["token_uri"], "iat": now, "exp": now + 3600,
                  "scope": "https://www.googleapis.com/auth/bigquery", **other}
        parts = [{"alg": "RS256", "typ": "JWT", "kid": "key-1"}, claims]
        text = ".".join(to_base64url(json.dumps(part).encode()) for part in parts)
        return text + "." + to_base64url(self.key.sign(text.encode()))

    def token(self):
        """A token that is good already."""
        text = "ya29." + uuid.uuid4().hex
        self.tokens[text] = time.monotonic() + self.token_life
        return text

    def source(self, **other):
        """The "source" of an order."""
        return {"kind": "bigquery", "url": self.url, "project": self.project, "location": self.location,
                "token_uri": self.url + "/token", "assertion": self.assertion(), "price": 6.25, **other}

    def called(self, pattern):
        return [path for path in self.requests if re.search(pattern, path)]

    # what it does

    def handle(self, method, path, query, headers, body):
        if path == "/token":
            return self.sign_in(headers, body)
        self.check_token(headers)
        if self.denied:
            raise Refused(403, *self.denied)
        found = re.fullmatch(r"/bigquery/v2/projects/([^/]+)/(.*)", path)
        if not found or found[1] != self.project:
            raise Refused(404, "notFound", f"Not found: {path}")
        rest = [urllib.parse.unquote(part) for part in found[2].split("/")]
        for verb, pattern, call in ROUTES:
            if verb == method and len(pattern) == len(rest) and all(
                    p == r or p == "*" for p, r in zip(pattern, rest)):
                parts = [r for p, r in zip(pattern, rest) if p == "*"]
                with self.lock:
                    return call(self, *parts, query=query, body=body)
        raise Refused(404, "notFound", f"Not found: {method} {path}")

    def sign_in(self, headers, body):
        """Checks an assertion as Google's endpoint does."""
        form = {k: v[0] for k, v in urllib.parse.parse_qs(body.decode()).items()}
        try:
            assert headers["content-type"].startswith("application/x-www-form-urlencoded"), "content type"
            assert form["grant_type"] == "urn:ietf:params:oauth:grant-type:jwt-bearer", "grant type"
            head, claims, signature = form["assertion"].split(".")
            assert json.loads(from_base64url(head)) == {"alg": "RS256", "typ": "JWT", "kid": "key-1"}, "header"
            assert self.key.verify(f"{head}.{claims}".encode(), from_base64url(signature)), "signature"
            claims, now = json.loads(from_base64url(claims)), time.time()
            account = self.credentials()
            assert claims["iss"] == account["client_email"], "iss"
            # Google's client always says the first, wherever it sends it.
            assert claims["aud"] in ("https://oauth2.googleapis.com/token", account["token_uri"]), "aud"
            assert "https://www.googleapis.com/auth/bigquery" in claims["scope"].split(), "scope"
            assert claims["iat"] <= now + 300 and now < claims["exp"] <= claims["iat"] + 3600, "times"
            assert claims["iss"] not in self.revoked, "revoked"
        except (AssertionError, ValueError, KeyError) as e:
            return 400, {"error": "invalid_grant", "error_description": f"Invalid JWT: {e}"}
        with self.lock:
            return 200, {"access_token": self.token(), "expires_in": self.token_life, "token_type": "Bearer"}

    def check_token(self, headers):
        kind, _, token = headers.get("authorization", "").partition(" ")
        if kind != "Bearer" or self.tokens.get(token, 0) < time.monotonic():
            raise Refused(401, "authError", "Request had invalid authentication credentials.")

    def find(self, config):
        """The answer to a query, with what Google checks before it runs."""
        if config.get("useLegacySql", True) is not False:
            raise Refused(400, "invalidQuery", "Legacy SQL is not known here")
        for parameter in config.get("queryParameters", []):
            if "parameterType" not in parameter or "parameterValue" not in parameter:
                raise Refused(400, "invalid", "Query parameter without type or value")
            if (config["parameterMode"] == "NAMED") != ("name" in parameter):
                raise Refused(400, "invalid", "Query parameters must all be named or all be positional")
        answer = self.answers.get(config["query"])
        if answer is None:
            raise Refused(400, "invalidQuery", f'Syntax error: Unexpected "{config["query"][:40]}" at [1:1]')
        return answer(config) if callable(answer) else answer

    def billed(self, answer):
        if answer.cache_hit or answer.bytes == 0:
            return 0
        if answer.billed is not None:
            return answer.billed
        return max(-(-answer.bytes // MIB) * MIB, 10 * MIB * max(1, len(answer.tables)))

    def statistics(self, answer, dry):
        tables = [dict(zip(("projectId", "datasetId", "tableId"), table)) for table in answer.tables]
        query = {"statementType": answer.statement, "totalBytesProcessed": str(answer.bytes)}
        if tables:
            query["referencedTables"] = tables
        if answer.routines:
            query["referencedRoutines"] = answer.routines
        if dry:
            query |= {"schema": {"fields": answer.schema}, "totalBytesProcessedAccuracy": "PRECISE",
                      "totalBytesBilled": "0", "cacheHit": False}
        else:
            query |= {"totalBytesBilled": str(self.billed(answer)), "cacheHit": answer.cache_hit}
        return {"totalBytesProcessed": str(answer.bytes), "query": query, "creationTime": "1790000000000"}

    def resource(self, job):
        done = job["left"] == 0
        status = {"state": "DONE" if done else "RUNNING"}
        if done and job["error"]:
            status["errorResult"] = {"reason": job["error"][0], "message": job["error"][1]}
            status["errors"] = [status["errorResult"]]
        return {"kind": "bigquery#job", "id": f"{self.project}:{self.location}.{job['id']}", "status": status,
                "jobReference": {"projectId": self.project, "jobId": job["id"], "location": self.location},
                "configuration": job["configuration"], "user_email": "mark@example.com",
                "statistics": self.statistics(job["answer"], False)}

    def start(self, id, configuration):
        answer = self.find(configuration["query"])
        error, ceiling = answer.error, configuration["query"].get("maximumBytesBilled")
        assert ceiling is None or isinstance(ceiling, str)
        if ceiling is not None and self.billed(answer) > int(ceiling):
            error = ("bytesBilledLimitExceeded",
                     f"Query exceeded limit for bytes billed: {ceiling}. {self.billed(answer)} or higher required.")
        job = {"id": id, "answer": answer, "left": answer.polls, "configuration": configuration, "error": error}
        self.jobs[id] = job
        return job

    def insert(self, query, body):
        request = json.loads(body)
        configuration = request["configuration"]
        assert set(configuration) <= {"dryRun", "labels", "jobTimeoutMs", "query", "jobType"}, configuration
        id = request.get("jobReference", {}).get("jobId") or "job_" + uuid.uuid4().hex
        if id in self.jobs:
            raise Refused(409, "duplicate", f"Already Exists: Job {self.project}:{self.location}.{id}")
        if configuration.get("dryRun"):
            answer = self.find(configuration["query"])
            if answer.dry_error:
                raise Refused(400, *answer.dry_error)
            return 200, {"kind": "bigquery#job", "configuration": configuration, "status": {"state": "DONE"},
                         "jobReference": {"projectId": self.project, "location": self.location},
                         "statistics": self.statistics(answer, True)}
        return 200, self.resource(self.start(id, configuration))

    def page(self, job, query):
        answer = job["answer"]
        found = {"kind": "bigquery#getQueryResultsResponse", "jobComplete": job["left"] == 0,
                 "jobReference": {"projectId": self.project, "jobId": job["id"], "location": self.location}}
        if job["left"] > 0:
            job["left"] -= 1
            return found
        if job["error"]:
            raise Refused(400, *job["error"])
        start = int(query.get("pageToken") or query.get("startIndex") or 0)
        count = min(int(query.get("maxResults", self.most_rows)), answer.page or self.most_rows)
        int64 = query.get("formatOptions.useInt64Timestamp", "").lower() == "true"
        rows = answer.rows[start : start + count]
        found |= {"schema": {"fields": answer.schema}, "cacheHit": answer.cache_hit,
                  "totalRows": str(len(answer.rows) if answer.total is None else answer.total),
                  "totalBytesProcessed": str(0 if answer.cache_hit else answer.bytes)}
        if rows:
            found["rows"] = [{"f": [{"v": encode(c, v, int64)} for c, v in zip(answer.schema, row)]}
                             for row in rows]
        if start + count < len(answer.rows):
            found["pageToken"] = str(start + count)
        return found

    def job(self, id):
        if id not in self.jobs:
            raise Refused(404, "notFound", f"Not found: Job {self.project}:{self.location}.{id}")
        return self.jobs[id]

    def hold(self, job, query):
        """Waits as long as it is asked to, at most."""
        hold = job["answer"].hold
        if hold and not job["error"]:
            self.lock.release()
            try:
                end = time.monotonic() + int(query.get("timeoutMs", 10000)) / 1000
                while not hold.wait(0.02) and time.monotonic() < end and not self.closing.is_set():
                    if job["error"]:
                        return
            finally:
                self.lock.acquire()
            job["left"] = 0 if hold.is_set() else 1

    def results(self, id, query, body):
        job = self.job(id)
        self.hold(job, query)
        return 200, self.page(job, query)

    def query(self, query, body):
        request = json.loads(body)
        answer = self.find(request)
        if request.get("dryRun"):
            return 200, {"kind": "bigquery#queryResponse", "jobComplete": True, "schema": {"fields": answer.schema},
                         "totalBytesProcessed": str(answer.bytes), "cacheHit": False,
                         "jobReference": {"projectId": self.project, "location": self.location}}
        job = self.start("job_" + uuid.uuid4().hex, {"query": request, "jobType": "QUERY"})
        options = {"formatOptions.useInt64Timestamp": str(request.get("formatOptions", {}).get("useInt64Timestamp", False))}
        if "maxResults" in request:
            options["maxResults"] = request["maxResults"]
        return 200, self.page(job, options) | {"kind": "bigquery#queryResponse"}

    def get_job(self, id, query, body):
        return 200, self.resource(self.job(id))

    def cancel(self, id, query, body):
        job = self.job(id)
        self.cancelled.append(id)
        job["error"], job["left"] = ("stopped", "Job execution was cancelled: User requested cancellation"), 0
        return 200, {"kind": "bigquery#jobCancelResponse", "job": self.resource(job)}

    # metadata

    def list_datasets(self, query, body):
        found = [{"kind": "bigquery#dataset", "id": f"{self.project}:{name}", "location": self.location,
                  "datasetReference": {"projectId": self.project, "datasetId": name}}
                 for name in sorted(self.datasets)]
        return 200, self.listed("datasets", found, query)

    def listed(self, what, items, query):
        start = int(query.get("pageToken") or 0)
        count = min(int(query.get("maxResults", 50)), 3)  # small pages
        reply = {"kind": f"bigquery#{what}List", what: items[start : start + count]}
        if start + count < len(items):
            reply["nextPageToken"] = str(start + count)
        return reply

    def dataset(self, name):
        if name not in self.datasets:
            raise Refused(404, "notFound", f"Not found: Dataset {self.project}:{name}")
        return self.datasets[name]

    def get_dataset(self, name, query, body):
        self.dataset(name)
        return 200, {"kind": "bigquery#dataset", "id": f"{self.project}:{name}", "location": self.location,
                     "datasetReference": {"projectId": self.project, "datasetId": name}}

    def list_tables(self, dataset, query, body):
        found = [{"kind": "bigquery#table", "id": f"{self.project}:{dataset}.{name}", "type": table["type"],
                  "tableReference": table["tableReference"]} for name, table in self.dataset(dataset).items()]
        return 200, self.listed("tables", found, query)

    def get_table(self, dataset, table, query, body):
        found = self.dataset(dataset).get(table)
        if not found:
            raise Refused(404, "notFound", f"Not found: Table {self.project}:{dataset}.{table}")
        return 200, found

    def table_data(self, dataset, table, query, body):
        found = self.rows.get((dataset, table), ([], []))
        if isinstance(found[0], int):
            raise Refused(*found)
        schema, rows = found
        wanted = query.get("selectedFields", "").split(",") if query.get("selectedFields") else None
        int64 = query.get("formatOptions.useInt64Timestamp", "").lower() == "true"
        count = int(query.get("maxResults", 100))
        return 200, {"kind": "bigquery#tableDataList", "totalRows": str(len(rows)),
                     "rows": [{"f": [{"v": encode(c, v, int64)} for c, v in zip(schema, row)
                                     if wanted is None or c["name"] in wanted]} for row in rows[:count]]}

    def add_table(self, dataset, name, schema, rows=(), type="TABLE", **more):
        self.datasets.setdefault(dataset, {})[name] = {
            "kind": "bigquery#table", "id": f"{self.project}:{dataset}.{name}", "type": type,
            "tableReference": {"projectId": self.project, "datasetId": dataset, "tableId": name},
            "schema": {"fields": schema}, "numRows": str(len(rows)), "numBytes": str(100 * len(rows)),
            "location": self.location, **more}
        self.rows[dataset, name] = (schema, [list(row) for row in rows])


ROUTES = [
    ("POST", ["jobs"], BigQuery.insert),
    ("POST", ["queries"], BigQuery.query),
    ("GET", ["queries", "*"], BigQuery.results),
    ("GET", ["jobs", "*"], BigQuery.get_job),
    ("POST", ["jobs", "*", "cancel"], BigQuery.cancel),
    ("GET", ["datasets"], BigQuery.list_datasets),
    ("GET", ["datasets", "*"], BigQuery.get_dataset),
    ("GET", ["datasets", "*", "tables"], BigQuery.list_tables),
    ("GET", ["datasets", "*", "tables", "*"], BigQuery.get_table),
    ("GET", ["datasets", "*", "tables", "*", "data"], BigQuery.table_data),
]


# ---- HTTP ---------------------------------------------------------------------------------------


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = False
    block_on_close = True
    request_queue_size = 64

    def __init__(self, *how):
        self.open, self.open_lock = set(), threading.Lock()
        super().__init__(*how)

    def close_all(self):
        """Ends connections that clients keep: server_close() waits for their threads."""
        with self.open_lock:
            for connection in self.open:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def process_request(self, request, address):
        with self.open_lock:
            self.open.add(request)
        super().process_request(request, address)

    def shutdown_request(self, request):
        with self.open_lock:
            self.open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request, address):
        pass  # clients hang up, that is what tests are about


class Connection(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    bq = None

    def log_message(self, *_):
        pass

    def take_fault(self, path):
        with self.bq.lock:
            for fault in self.bq.faults:
                if re.search(fault.path, path) and fault.times != 0:
                    if fault.times is not None:
                        fault.times -= 1
                    return fault
        return None

    def reply(self, status, body, headers=None, fault=None):
        length = len(body) if not fault or fault.length is None else fault.length
        head = f"HTTP/1.1 {status} X\r\nContent-Type: application/json; charset=UTF-8\r\nContent-Length: {length}\r\n"
        head += "".join(f"{name}: {value}\r\n" for name, value in (headers or {}).items())
        data = head.encode() + b"\r\n" + body
        self.bq.sizes[self.path] = len(data)
        if fault and fault.hang_up is not None:
            data, self.close_connection = data[: fault.hang_up], True
        if fault and fault.length is not None:
            self.close_connection = True
        self.wfile.write(data)
        self.wfile.flush()

    def serve(self):
        url = urllib.parse.urlsplit(self.path)
        query = {k: v[-1] for k, v in urllib.parse.parse_qs(url.query).items()}
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        fault = self.take_fault(f"{self.command} {self.path}")
        self.bq.requests.append(f"{self.command} {self.path}")
        if fault and fault.silent:
            self.bq.closing.wait()
            self.close_connection = True
            return
        if fault and fault.delay:
            self.bq.closing.wait(fault.delay)
        status, found = 200, None
        if not fault or fault.after or (fault.status is None and fault.body is None):
            try:
                status, found = self.bq.handle(self.command, url.path, query, headers, body)
            except Refused as e:
                status, found = e.status, problem(e.status, e.reason, e.message)
        if fault and fault.status is not None:
            status, found = fault.status, problem(fault.status, fault.reason, fault.message)
        data = fault.body if fault and fault.body is not None else json.dumps(found).encode()
        self.reply(status, data, fault.headers if fault else None, fault)

    do_GET = do_POST = serve


def problem(status, reason, message):
    return {"error": {"code": status, "message": message, "status": "INVALID_ARGUMENT" if status == 400 else "X",
                      "errors": [{"message": message, "domain": "global", "reason": reason}]}}
