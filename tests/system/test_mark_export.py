"""
Exports of Mark: what is in the files, that notebooks compute the same numbers elsewhere, and that nothing
hostile in a chat gets out of its place.
"""

import base64
import csv
import hashlib
import html.parser
import io
import json
import os
import re
import subprocess
import sys
import urllib.parse
import zipfile

import nbformat
import pytest

from mark_kit import SAMPLE, answer, person, run, scripted
from serve_kit import serve  # noqa: F401

NOBODY = "00000000-0000-4000-8000-000000000000"

# Runs a notebook as somebody would who got the file: nothing of ours, no network, no files.
RUNNER = """
import sys, nbformat
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
class Manager(AsyncKernelManager):
    def __init__(self, **more):
        super().__init__(transport="ipc", **more)
notebook = nbformat.read(sys.argv[1], 4)
NotebookClient(notebook, timeout=300, kernel_manager_class=Manager).execute()
nbformat.write(notebook, sys.argv[2])
"""


def run_notebook(path, directory):
    """The notebook at @path with its outputs, run in @directory without a network."""
    home = directory / "home"
    home.mkdir()
    done = directory / "done.ipynb"
    alone = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--user", "--map-current-user", "--net"]
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "TMPDIR": str(home), "JUPYTER_ALLOW_INSECURE_WRITES": "1",
           "PYDEVD_DISABLE_FILE_VALIDATION": "1", "LC_ALL": "C.UTF-8"}
    result = subprocess.run([*alone, sys.executable, "-c", RUNNER, str(path), str(done)], cwd=directory, env=env,
                            capture_output=True, text=True, timeout=600)
    assert result.returncode == 0, result.stderr[-4000:]
    return nbformat.read(done, 4)


def printed(cell):
    return "".join(output.get("text", "") for output in cell.outputs)


def export(who, kind, id, format, **more):
    query = urllib.parse.urlencode({"format": format, **more})
    reply = who.ask("GET", f"/api/v1/{kind}/{id}/export?{query}")
    assert reply.status == 200, reply
    return reply


def ask_demo(who):
    """A chat of three answers, of which the later ones use variables of the first."""
    file = who.upload("orders.csv")
    first = who.ask_mark("Which region grew fastest?", files=[file])
    chat = first["chat_id"]
    return [first, who.ask_mark("Show revenue by month", chat), who.ask_mark("and by quarter?", chat)], file


def test_a_notebook_gives_the_same_numbers_elsewhere(serve, tmp_path):
    ann = person(serve("--model", "demo=demo", "--model", "none", preload="pandas"))
    answers, file = ask_demo(ann)
    chat = answers[0]["chat_id"]
    count = sum(len(a["values"]) for a in answers)
    tables = sum(len(a["data"]) for a in answers)
    assert count > 10 and tables > 0

    reply = export(ann, "chats", chat, "ipynb")
    assert reply.headers["Content-Type"] == "application/x-ipynb+json"
    assert reply.headers["Content-Disposition"].startswith('attachment; filename="Which region grew fastest_.ipynb"')
    notebook = nbformat.reads(reply.body.decode(), 4)
    nbformat.validate(notebook)
    assert (notebook.nbformat, notebook.nbformat_minor) == (4, 5)
    assert len({cell.id for cell in notebook.cells}) == len(notebook.cells)
    assert any("application/vnd.plotly.v1+json" in output.get("data", {})
               for cell in notebook.cells for output in cell.get("outputs", []))
    path = tmp_path / "chat.ipynb"
    path.write_bytes(reply.body)
    place = tmp_path / "elsewhere"
    place.mkdir()
    ran = run_notebook(path, place)
    assert printed(ran.cells[-1]) == f"{count} of {count} values equal, {tables} of {tables} tables equal\n", printed(ran.cells[-1])
    assert not list((place / "home").glob("mark-*"))

    # The last answer alone: with what it builds on; and the inputs beside it.
    archive = zipfile.ZipFile(io.BytesIO(export(ann, "messages", answers[2]["message_id"], "zip").body))
    place = tmp_path / "unpacked"
    archive.extractall(place)
    assert (place / "inputs/files/1").read_bytes() == SAMPLE
    ran = run_notebook(place / "notebook.ipynb", place)
    only = len(answers[2]["values"])
    assert printed(ran.cells[-1]).startswith(f"{only} of {only} values equal"), printed(ran.cells[-1])

    # A value that is not the same is named.
    changed = reply.body.replace(b"_mark_notebook.summary()", b"print(0)").replace(
        b'"source": "_mark_notebook.check(', b'"source": "for n in _mark_notebook.values: _mark_notebook.values[n] = 1\\n_mark_notebook.check(', 1)
    assert changed.count(b"for n in _mark_notebook") == 1
    path.write_bytes(changed)
    place = tmp_path / "changed"
    place.mkdir()
    ran = run_notebook(path, place)
    told = "".join(printed(cell) for cell in ran.cells if cell.cell_type == "code")
    assert f"0 of {len(answers[0]['values'])} values equal" in told and " is 1 now" in told

    # Without the file there is no notebook, but there is everything to read.
    ann.good("DELETE", f"/api/v1/attachments/{file['attachment_id']}", status=204)
    for format in ("ipynb", "zip"):
        problem = ann.problem(409, "GET", f"/api/v1/chats/{chat}/export?format={format}")
        assert problem["type"].endswith(":inputs-gone") and "orders.csv" in problem["detail"]
    for format in ("html", "md", "json"):
        assert b"212,166" in export(ann, "chats", chat, format).body
    whole = export(ann, "chats", chat, "json").json
    assert whole["attachments"] == [{"attachment_id": file["attachment_id"], "deleted": True}]
