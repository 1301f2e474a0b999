"""Stands for a program that reaches a host; in tests there may be no network, and that is no failure."""
import os
import urllib.error
import urllib.request

assert os.environ["HTTP_PROXY"]
try:
    with urllib.request.urlopen("http://not-allowed.example/", timeout=10) as reply:
        raise SystemExit(f"the proxy let a host through that nobody allowed: {reply.status}")
except urllib.error.HTTPError as refused:
    assert refused.code == 403, refused
