"""
Records the requests of the compatible APIs as their clients send them: run once, by hand, where the
requests library, pandas and curl are installed. test_compat.py plays the files back.

A socket takes whatever one client sends, answers with an empty JSON object and writes the bytes to
recorded/NAME.http, with PORT in place of the port.
"""

import io
import os
import socket
import subprocess
import sys
import threading

import pandas
import requests

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "recorded")
FRAME = pandas.DataFrame({"A": [1, 2, 3], "B": [4, 5, 6]})


def upload(url):
    requests.post(url + "/uploadfile/df", files={"file": io.StringIO(FRAME.to_csv(index=False))})


def execute_code(url):
    requests.post(url + "/execute_code/", json={"code": "result = df['A'].sum()"})


def local_dict(url):
    code = "def scale(v):\n    return [x * factor for x in v]\nfactor = 10\nscaled = scale(values)"
    requests.post(url + "/execute_code/", json={"code": code, "local_dict": {"values": [1, 2.5]}})


def curl(*args):
    return lambda url: subprocess.run(["curl", "-s", *(a.replace("URL", url) for a in args)],
                                      check=True, stdout=subprocess.DEVNULL)


CALLS = {
    "upload": upload,
    "files": lambda url: requests.get(url + "/files/"),
    "download": lambda url: requests.get(url + "/downloadfile/df"),
    "execute_code": execute_code,
    "clear_state": lambda url: requests.get(url + "/clear_state/"),
    "local_dict": local_dict,
    "curl_execute": curl(
        "-X", "POST", "URL/execute", "-H", "Content-Type: application/json", "-d",
        '{\n    "code": "import math\\nprint(f\\"\\u03c0 = {math.pi}\\")",\n    "timeout": 10\n  }'),
    "curl_pip_install": curl("-X", "POST", "URL/pip_install", "-H", "Content-Type: application/json",
                             "-d", '{\n    "package": "requests",\n    "version": "latest"\n  }'),
    "curl_pip_form": curl("-X", "POST", "URL/pip_install", "-d", '{"package": "suspicious-package"}'),
    "curl_health": curl("URL/health"),
}


def receive(connection):
    """One request, by its Content-Length."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += connection.recv(65536)
    head, _, body = data.partition(b"\r\n\r\n")
    length = 0
    for line in head.split(b"\r\n"):
        if line.lower().startswith(b"content-length:"):
            length = int(line.split(b":")[1])
    while len(body) < length:
        body += connection.recv(65536)
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                       b"Content-Length: 2\r\nConnection: close\r\n\r\n{}")
    return head + b"\r\n\r\n" + body


def main():
    os.makedirs(HERE, exist_ok=True)
    for name, call in CALLS.items():
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
            thread = threading.Thread(target=call, args=("http://127.0.0.1:%d" % port,))
            thread.start()
            connection, _ = server.accept()
            with connection:
                data = receive(connection)
            thread.join()
        with open(os.path.join(HERE, name + ".http"), "wb") as file:
            file.write(data.replace(b":%d\r\n" % port, b":PORT\r\n"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
