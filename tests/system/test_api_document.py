"""docs/API.md names every route, query parameter, field and status that the server describes."""

import os

from conftest import ROOT
from serve_kit import serve, server  # noqa: F401

# The fields of all other schemas are documented only at /docs.
SCHEMAS = ["receipt", "execute", "session_execute", "command", "simple_execute", "session_create",
           "limits", "network", "secret", "volume", "new_file", "session", "file", "file_page",
           "output", "progress", "problem", "contact", "move", "mkdir", "packages_add",
           "pip_install", "execute_code", "health"]


def test_document_is_complete(server):
    with open(os.path.join(ROOT, "docs", "API.md"), encoding="utf-8") as f:
        text = f.read()
    spec = server.good("GET", "/openapi.json")
    reference = text.partition("\n## Route reference\n")[2]
    missing = []
    for path, item in spec["paths"].items():
        for method, operation in item.items():
            route = f"`{method.upper()} {path}`"
            row = next((line for line in reference.splitlines() if route in line), None)
            if path == "/.well-known/oauth-protected-resource/{path}":
                continue  # in the row of the route without a path
            if row is None:
                missing.append(route)
                continue
            queries = [p["name"] for p in operation["parameters"] if p["in"] == "query"]
            missing += [f"{route} {name}" for name in queries if f"`{name}`" not in row]
    for name in SCHEMAS:
        for field in spec["components"]["schemas"][name]["properties"]:
            if f"`{field}`" not in text and f'"{field}"' not in text:
                missing.append(f"{name}.{field}")
    statuses = spec["components"]["schemas"]["receipt"]["properties"]["status"]["enum"]
    rows = text.partition("\n## Receipts\n")[2].partition("\n## ")[0].splitlines()
    first = " ".join(row.split("|")[1] for row in rows if row.startswith("|"))
    missing += [status for status in statuses if f"`{status}`" not in first]
    assert missing == []
