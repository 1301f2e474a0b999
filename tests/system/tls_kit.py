"""
Certificates of servers: one that is right, and those that a client must refuse.

`certificates(directory)` makes an authority (its PEM is `ca.pem` there) and gives {name: ssl context of a
server}; the names are those of REFUSED and "good". All are signed by that authority but "unknown".
"""

import ssl
import subprocess

HERE = "subjectAltName=DNS:localhost,IP:127.0.0.1"
ELSEWHERE = "subjectAltName=DNS:db.example.org,IP:192.0.2.1"

# What is wrong, and what libpq and curl say then, with OpenSSL or GnuTLS.
VERIFY = ("certificate verify failed", "verification failed")
REFUSED = {"name": ("does not match", "no alternative certificate subject name matches"),
           "expired": ("expired", *VERIFY), "unknown": ("issuer", *VERIFY)}


def openssl(directory, *words):
    done = subprocess.run(["openssl", *words], cwd=directory, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def certificates(directory):
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    for authority in ("ca", "other"):
        openssl(directory, "req", "-x509", *key, "-keyout", f"{authority}.key", "-out", f"{authority}.pem",
                "-days", "3650", "-subj", f"/CN=Test authority {authority}")
    openssl(directory, "req", *key, "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=a server")
    found = {}
    for name, names, days, authority in (("good", HERE, 3650, "ca"), ("name", ELSEWHERE, 3650, "ca"),
                                         ("expired", HERE, -1, "ca"), ("unknown", HERE, 3650, "other")):
        (directory / "names").write_text(names)
        openssl(directory, "x509", "-req", "-in", "server.csr", "-CA", f"{authority}.pem", "-CAkey", f"{authority}.key",
                "-CAcreateserial", "-days", str(days), "-extfile", "names", "-out", f"{name}.crt")
        found[name] = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        found[name].load_cert_chain(directory / f"{name}.crt", directory / "server.key")
    return found
