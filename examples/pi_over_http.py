#!/usr/bin/env python3
"""Computes pi with the simple HTTP API. Needs no client library, only a URL.

    examples/pi_over_http.py [URL]        URL defaults to http://127.0.0.1:8080
"""

import json
import os
import sys
import urllib.request

CODE = """
def digits(count):
    "Machin's formula, with integers."
    unit = 10 ** (count + 10)

    def arctan_inverse(x):
        term = total = unit // x
        n, sign = 3, -1
        while term:
            term //= x * x
            total += sign * (term // n)
            n, sign = n + 2, -sign
        return total

    pi = 4 * (4 * arctan_inverse(5) - arctan_inverse(239))
    text = str(pi // 10**10)
    return text[0] + "." + text[1:]

print(digits(50))
"""


def main():
    default = os.environ.get("GLOVEBOX_URL", "http://127.0.0.1:8080")
    url = (sys.argv[1] if len(sys.argv) > 1 else default).rstrip("/")
    body = json.dumps({"code": CODE, "timeout": 10}).encode()
    request = urllib.request.Request(url + "/execute", body, {"Content-Type": "application/json"})
    if os.environ.get("GLOVEBOX_API_KEY"):
        request.add_header("Authorization", "Bearer " + os.environ["GLOVEBOX_API_KEY"])
    with urllib.request.urlopen(request, timeout=60) as reply:
        receipt = json.load(reply)
    if not receipt["success"]:
        sys.exit(receipt["stderr"])
    print(receipt["stdout"], end="")
    print(f"in {receipt['execution_time'] * 1000:.1f} ms, status {receipt['status']}")


if __name__ == "__main__":
    main()
