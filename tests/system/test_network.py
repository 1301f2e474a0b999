"""The way out of a box: `glovebox run --allow-host` reaches what was named, and nothing else."""

import os

import pytest

from net_kit import CA, KIT, Web, names, web  # noqa: F401  fixtures


def contacts(receipt):
    return {(c["host"], c["port"]): c for c in receipt.get("network", [])}


def told(gb, code, *options):
    """What the program printed last, as Python has it."""
    receipt = gb.receipt(KIT + code, *options)
    assert receipt["status"] == "ok", receipt
    return eval(receipt["stdout"]), receipt  # the test's own program printed it


def test_reaches_what_was_named_and_nothing_else(gb, web):
    (here, there, named, tunnel), receipt = told(gb, f"""
print((get("http://127.0.0.1:{web.port}/"), get("http://127.0.0.1:1/"), get("http://example.com/"),
       get("https://example.com/")))
""", "--allow-host", f"127.0.0.1:{web.port}")
    assert here == (200, "hello from the host\n")
    for status, text in (there, named):
        assert status == 403 and "--allow-host" in text
    assert tunnel[0] == 0 and "403" in tunnel[1] and "--allow-host" in tunnel[1]
    assert receipt["usage"]["hosts"] == [f"127.0.0.1:{web.port}"]
    found = contacts(receipt)
    assert found[("127.0.0.1", web.port)]["requests"] == 1
    assert found[("127.0.0.1", web.port)]["bytes_received"] > len("hello from the host\n")
    assert found[("127.0.0.1", 1)]["refused"] == found[("example.com", 443)]["refused"] == 1
    assert len(web.seen) == 1


def test_without_it_all_is_shut(gb, web):
    (env, answer), receipt = told(gb, f"""
print(([k for k in os.environ if "proxy" in k.lower()], get("http://127.0.0.1:{web.port}/")))
""")
    assert env == [] and answer[0] == 0 and "network" not in receipt
    assert receipt["usage"]["hosts"] == [] and web.seen == []


def test_environment(gb, web):
    (env, dns), _ = told(gb, """
def lookup():
    try:
        return socket.getaddrinfo("example.com", 80)
    except OSError as e:
        return "no"
print(({k: v for k, v in os.environ.items() if "proxy" in k.lower()}, lookup()))
""", "--allow-host", "example.com")
    wanted = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), "http://127.0.0.1:3128")
    wanted["NO_PROXY"] = "localhost,127.0.0.1,::1"
    assert env == {**wanted, **{name.lower(): value for name, value in wanted.items()}}
    assert dns == "no"


def test_a_server_of_the_box_itself(gb):
    answer, receipt = told(gb, """
import http.server, threading
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(b"mine")
    def log_message(self, *args): pass
s = http.server.HTTPServer(("127.0.0.1", 0), H)
threading.Thread(target=s.serve_forever, daemon=True).start()
print(get(f"http://127.0.0.1:{s.server_port}/"))
""", "--allow-host", "example.com")
    assert answer == (200, "mine") and "network" not in receipt


@pytest.mark.parametrize("host", [
    "127.0.0.2", "0.0.0.0", "127.1", "2130706433", "0x7f000001", "017700000001",
    "[::1]", "[::ffff:127.0.0.1]", "[64:ff9b::7f00:1]", "localhost", "127.0.0.1%00", "a@127.0.0.1",
])  # fmt: skip
def test_other_ways_to_write_an_address(gb, web, host):
    (plain, tunnel), _ = told(gb, f"""
print((raw(b"GET http://{host}:{web.port}/ HTTP/1.1\\r\\n\\r\\n").split(" ")[1],
       raw(b"CONNECT {host}:{web.port} HTTP/1.1\\r\\n\\r\\n").split(" ")[1]))
""", "--allow-host", f"127.0.0.1:{web.port}", "--allow-host", "*")
    assert plain in ("400", "403", "502") and tunnel in ("400", "403", "502")
    assert web.seen == []


def test_a_name_that_leads_to_loopback(gb, web, names):
    names.answers = {"evil.test": [["127.0.0.1"]], "meta.test": [["169.254.169.254"]],
                     "both.test": [["10.9.8.7", "127.0.0.1"]]}
    options = ("--network-resolver", names.address, "--allow-host", f"*.test:{web.port}")
    code = f"""
print([get(f"http://{{n}}.test:{web.port}/") for n in ("evil", "meta", "both", "none")])
"""
    answers, receipt = told(gb, code, *options)
    assert [a[0] for a in answers] == [403, 403, 403, 502], answers
    assert "127.0.0.1, a loopback address" in answers[0][1] and "--network-address" in answers[0][1]
    assert "metadata" in answers[1][1] and "no such host name" in answers[3][1]
    assert receipt["usage"]["hosts"] == [] and web.seen == []
    # "*" is for public ones, whatever the operator lists.
    (answer,), _ = told(gb, f'print([get("http://evil.test:{web.port}/")])\n', "--network-resolver",
                        names.address, "--allow-host", "*:*", "--network-address", "127.0.0.1")
    assert answer[0] == 403 and web.seen == []
    # A name that the operator wrote may lead where the operator listed; only there.
    answers, _ = told(gb, code, *options, "--network-address", "127.0.0.0/8")
    assert [a[0] for a in answers] == [200, 403, 200, 502], answers


def test_an_answer_that_changes(gb, web, names):
    """What is connected to is what was checked: a second answer is never asked for."""
    other = Web("127.0.0.2", web.port)
    try:
        names.answers = {"turn.test": [["127.0.0.1"], ["127.0.0.2"]]}
        answers, _ = told(gb, f'print([get("http://turn.test:{web.port}/") for i in range(2)])\n',
                          "--network-resolver", names.address, "--allow-host", f"turn.test:{web.port}",
                          "--network-address", "127.0.0.1")
        assert [a[0] for a in answers] == [200, 403], answers
        assert other.seen == [] and len(web.seen) == 1
        assert names.asked.count(("turn.test", 1)) == 2
    finally:
        other.close()


def test_connect(gb, web):
    (through, port, method), receipt = told(gb, f"""
def tunnel(port):
    c = http.client.HTTPConnection("127.0.0.1", 3128)
    try:
        c.set_tunnel("127.0.0.1", port)
        c.request("GET", "/tunnel")
        return c.getresponse().read().decode()
    except OSError as e:
        return str(e)
    finally:
        c.close()
print((tunnel({web.port}), tunnel(22), raw(b"CONNECT 127.0.0.1 HTTP/1.1\\r\\n\\r\\n")))
""", "--allow-host", f"127.0.0.1:{web.port}")
    assert through == "hello from the host\n"
    assert "403" in port and "127.0.0.1:22" in port and method.startswith("HTTP/1.1 400 ")
    assert contacts(receipt)[("127.0.0.1", web.port)]["requests"] == 1


def test_methods(gb, web):
    (got, posted, tunnel), _ = told(gb, f"""
print((get("http://127.0.0.1:{web.port}/"), get("http://127.0.0.1:{web.port}/", b"x"),
       raw(b"CONNECT 127.0.0.1:{web.port} HTTP/1.1\\r\\n\\r\\n")))
""", "--allow-host", f"GET,HEAD 127.0.0.1:{web.port}")
    assert got[0] == 200 and posted[0] == 403 and "POST" in posted[1]
    assert tunnel.startswith("HTTP/1.1 403 ") and "CONNECT would hide" in tunnel
    assert [s[0] for s in web.seen] == ["GET"]


def test_bodies(gb, web):
    answers, _ = told(gb, f"""
url = "http://127.0.0.1:{web.port}/"
def pieces():
    for i in range(50):
        yield b"%03d" % i * 1000
a = get(url, b"x" * 300000)
b = get(url, pieces(), headers={{"Transfer-Encoding": "chunked"}})
c = raw(b"POST %s HTTP/1.1\\r\\nContent-Length: 2\\r\\nExpect: 100-continue\\r\\n\\r\\nok" % url.encode())
print((a == (200, "x" * 300000), b == (200, "".join("%03d" % i * 1000 for i in range(50))), c[-2:],
       get(url, method="HEAD"), get(url, method="DELETE")[0]))
""", "--allow-host", f"127.0.0.1:{web.port}")
    assert answers == (True, True, "ok", (200, ""), 200)


@pytest.mark.parametrize("head, status", [
    ("Content-Length: 5\\r\\nContent-Length: 5", 400),
    ("Content-Length: 5\\r\\nTransfer-Encoding: chunked", 400),
    ("Transfer-Encoding: chunked\\r\\nTransfer-Encoding: identity", 501),
    ("Transfer-Encoding:\\x0bchunked", 400),
    ("Content-Length: 5\\n", 400),
    ("X: a\\r\\n Content-Length: 5", 400),
    ("Content-Length : 5", 400),
    ("X: " + "a" * 20000, 431),
    ("\\r\\n".join(f"X-{i}: a" for i in range(150)), 431),
], ids=range(9))  # fmt: skip
def test_heads_that_are_refused(gb, web, head, status):
    (answer,), _ = told(gb, f"""
print([raw(b"POST http://127.0.0.1:{web.port}/ HTTP/1.1\\r\\n{head}\\r\\n\\r\\n0\\r\\n\\r\\n")])
""", "--allow-host", f"127.0.0.1:{web.port}")
    assert answer.startswith(f"HTTP/1.1 {status} ") and "Connection: close" in answer
    assert web.seen == []


def test_nothing_follows_a_request(gb, web):
    """A second request in the same connection reaches nobody, however the first one ends."""
    second = f"GET http://127.0.0.1:{web.port}/second HTTP/1.1\\r\\n\\r\\n"
    answers, _ = told(gb, f"""
url = b"http://127.0.0.1:{web.port}/first"
print([raw(a) for a in (
    b"GET " + url + b" HTTP/1.1\\r\\n\\r\\n{second}",
    b"POST " + url + b" HTTP/1.1\\r\\nContent-Length: 2\\r\\n\\r\\nok{second}",
    b"POST " + url + b" HTTP/1.1\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n2\\r\\nok\\r\\n0\\r\\n\\r\\n{second}",
    b"POST " + url + b" HTTP/1.1\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n2;x\\r\\nok\\r\\n0\\r\\n\\r\\n{second}",
)])
""", "--allow-host", f"127.0.0.1:{web.port}")
    assert [a.split(" ")[1] for a in answers] == ["200", "200", "200", "400"], answers
    assert [s[1] for s in web.seen] == ["/first"] * 3


def test_a_flood_ends_at_the_limit(gb, web):
    (flood, after), receipt = told(gb, f"""
def drain():
    try:
        return len(urllib.request.urlopen("http://127.0.0.1:{web.port}/flood").read())
    except OSError as e:
        return type(e).__name__
print((drain(), get("http://127.0.0.1:{web.port}/")))
""", "--allow-host", f"127.0.0.1:{web.port}", "--network-bytes", "1m")
    assert flood == "ConnectionResetError"
    assert after[0] == 403 and "--network-bytes" in after[1]
    assert contacts(receipt)[("127.0.0.1", web.port)]["bytes_received"] < (1 << 20) + (1 << 18)


def test_a_server_that_is_not_there(gb, web):
    port = web.port
    web.close()
    answer, receipt = told(gb, f'print(get("http://127.0.0.1:{port}/"))\n', "--allow-host",
                           f"127.0.0.1:{port}")
    assert answer[0] == 502 and "refused" in answer[1]
    assert contacts(receipt)[("127.0.0.1", port)]["failed"] == 1
    assert receipt["usage"]["hosts"] == []
    web.__init__()  # for the fixture to close


def test_ten_thousand_connections(gb, web):
    """They cost the box its own descriptors; once they are gone the proxy serves it as before."""
    answer, _ = told(gb, f"""
held = []
for i in range(10000):
    s = socket.socket()
    s.setblocking(False)
    s.connect_ex(("127.0.0.1", 3128))
    held.append(s)
    if len(held) == 200:
        for s in held:
            s.close()
        held = []
del held
print(get("http://127.0.0.1:{web.port}/"))
""", "--allow-host", f"127.0.0.1:{web.port}", "--timeout", "300")
    assert answer == (200, "hello from the host\n")


@pytest.mark.parametrize("options, text", [
    (("--allow-host", "https://example.com/"), "without scheme"),
    (("--allow-host", "127.1"), "expected HOST[:PORT]"),
    (("--allow-host", "example.com:99999"), "expected HOST[:PORT]"),
    (("--allow-host", "TRACE example.com"), "methods such as"),
    (("--network-address", "10.0.0.1/8"), "expected an address"),
    (("--network-secret", "example.com"), "HOST[:PORT]/HEADER=FILE"),
    (("--network-secret", "example.com/X-Key=/nonexistent"), "cannot read"),
    (("--network-secret", "*.example.com/X-Key=/etc/hostname"), "one host"),
    (("--network-secret", "example.com/Host=/etc/hostname"), "cannot hold a secret"),
])  # fmt: skip
def test_bad_options(gb, options, text):
    result = gb.py("print(1)", *options)
    assert result.code == 2 and text in result.err and "1\n" not in result.out


# ---- secrets -----------------------------------------------------------------------------------

SECRET = "Bearer s3cr3t-0123456789abcdef"


@pytest.fixture
def vault(names, tmp_path):
    server = Web(tls=True)
    names.answers = {"secret.test": [["127.0.0.1"]], "other.test": [["127.0.0.1"]]}
    server.file = tmp_path / "key"
    server.file.write_text(SECRET + "\n")
    server.options = (
        "--network-resolver", names.address, "--network-address", "127.0.0.1", "--network-ca", CA,
        "--network-secret", f"secret.test:{server.port}/Authorization={server.file}",
    )
    yield server
    server.close()


def test_a_secret_is_used_and_not_seen(gb, vault):
    (answer, seen), receipt = told(gb, f"""
answer = get("http://secret.test:{vault.port}/headers", headers={{"Authorization": "mine", "X-A": "1",
                                                                 "Connection": "authorization"}})
found = "".join(os.environ.values()) + open("/proc/self/environ").read()
print((answer, "s3cr" + "3t" in found))
""", *vault.options)
    (method, path, headers), = vault.seen
    assert (method, path, headers["Authorization"], headers["X-A"]) == ("GET", "/headers", SECRET, "1")
    assert headers["Host"] == f"secret.test:{vault.port}"
    # The server gave it back: the box sees stars.
    assert answer[0] == 200 and "s3cr3t" not in answer[1] and "*" * len(SECRET) in answer[1]
    assert not seen and "s3cr3t" not in str(receipt)
    assert receipt["usage"]["hosts"] == [f"secret.test:{vault.port}"]


def test_a_secret_goes_to_its_host_only(gb, vault, web):
    (trace, tunnel, plain), _ = told(gb, f"""
s = socket.create_connection(("127.0.0.1", 3128))
s.sendall(b"CONNECT secret.test:{vault.port} HTTP/1.1\\r\\n\\r\\n")
s.recv(1000)
import ssl
context = ssl.create_default_context()
context.check_hostname = False
context.verify_mode = ssl.CERT_NONE
with context.wrap_socket(s) as t:
    t.sendall(b"GET /tunnel HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n\\r\\n")
    while t.recv(65536):
        pass
print((raw(b"TRACE http://secret.test:{vault.port}/ HTTP/1.1\\r\\n\\r\\n")[:12], True,
       get("http://127.0.0.1:{web.port}/headers")))
""", *vault.options, "--allow-host", f"127.0.0.1:{web.port}")
    assert trace == "HTTP/1.1 405" and plain[0] == 200
    assert [s[1] for s in vault.seen] == ["/tunnel"]
    assert "Authorization" not in vault.seen[0][2] and "Authorization" not in web.seen[0][2]


def test_a_certificate_that_does_not_fit(gb, vault):
    options = [o.replace("secret.test", "other.test") for o in vault.options]
    answer, receipt = told(gb, f'print(get("http://other.test:{vault.port}/"))\n', *options)
    assert answer[0] == 502 and "certificate" in answer[1]
    options = [o for o in vault.options if o not in ("--network-ca", CA)]
    answer, _ = told(gb, f'print(get("http://secret.test:{vault.port}/"))\n', *options)
    assert answer[0] == 502 and "certificate" in answer[1]
    assert vault.seen == [] and receipt["usage"]["hosts"] == []
    assert os.path.exists(vault.file)
