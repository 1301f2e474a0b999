#!/usr/bin/env python3
"""Runs code with variables in and out, using the locals API.

    examples/locals_call.py [URL]        URL defaults to http://127.0.0.1:8080

Needs no client library. Functions can use the variables; nothing has to be passed explicitly.
"""

import json
import os
import sys
import urllib.error
import urllib.request

CODE = """
def total(prices):
    return sum(prices) * (1 + tax)

gross = total(prices)
dearest = max(prices)
"""


def call(url, code, variables):
    """Returns the variables after the code has run."""
    body = json.dumps({"code": code, "local_dict": variables}).encode()
    request = urllib.request.Request(url + "/execute_code/", body)
    if os.environ.get("GLOVEBOX_API_KEY"):
        request.add_header("Authorization", "Bearer " + os.environ["GLOVEBOX_API_KEY"])
    try:
        with urllib.request.urlopen(request, timeout=60) as reply:
            return json.load(reply)["result"]
    except urllib.error.HTTPError as error:
        failure = json.load(error)
        raise RuntimeError(f"{failure.get('error_type')}: {failure.get('error')}") from None


def main():
    default = os.environ.get("GLOVEBOX_URL", "http://127.0.0.1:8080")
    url = (sys.argv[1] if len(sys.argv) > 1 else default).rstrip("/")
    print(call(url, CODE, {"prices": [10, 20, 30], "tax": 0.25}))
    try:
        call(url, CODE, {"prices": []})
    except RuntimeError as error:
        print(error)


if __name__ == "__main__":
    main()
