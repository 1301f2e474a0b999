"""
What needs no browser of the page: notebook files of the playground, in and out (web/src/play/notebook.ts), names of packages
(web/src/play/requirements.ts), and what Mark's view computes (web/tests/mark.test.ts). Both run in Node.js, which tools/web.sh finds or installs.
"""

import json
import pathlib
import subprocess

import pytest

from conftest import ROOT

WEB = pathlib.Path(ROOT) / "web"


@pytest.fixture(scope="module")
def program():
    """The path of Node.js, with the packages of web/ installed."""
    return subprocess.run([pathlib.Path(ROOT) / "tools/web.sh", "--node"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


@pytest.fixture(scope="module")
def node(program, tmp_path_factory):
    """Calls node(javascript, input): the module is `book`, the input is `given`, and what is returned comes back as JSON."""
    built = tmp_path_factory.mktemp("notebook") / "notebook.mjs"
    entry = built.with_name("entry.ts")
    entry.write_text("".join(f"export * from {json.dumps(str(WEB / 'src/play' / name))};\n" for name in ("notebook.ts", "requirements.ts")))
    subprocess.run([program, "node_modules/rolldown/bin/cli.mjs", entry, "--format", "esm", "--file", built],
                   cwd=WEB, check=True, capture_output=True)

    def call(code, given=None):
        source = (f"import * as book from {json.dumps(built.as_uri())};\n"
                  "let text = ''; for await (const part of process.stdin) text += part;\n"
                  f"const given = JSON.parse(text); const run = () => {{ {code} }};\n"
                  "try { console.log(JSON.stringify({ value: run() })); }\n"
                  "catch (error) { console.log(JSON.stringify({ refused: error instanceof book.NotebookError, message: error.message })); }\n")
        done = subprocess.run([program, "--input-type=module", "-e", source], input=json.dumps(given), capture_output=True, text=True, check=True)
        return json.loads(done.stdout)

    return call


READ = "return book.parseNotebook(given, 'dir/my file.ipynb');"


def notebook(*cells, **more):
    return {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": list(cells), **more}


def test_there_and_back(node):
    outputs = [
        {"output_type": "stream", "name": "stdout", "text": ["a\n", "b"]},
        {"output_type": "display_data", "data": {"image/png": "iVBORw0=", "text/plain": ["<Figure>"]}, "metadata": {}},
        {"output_type": "execute_result", "data": {"application/vnd.plotly.v1+json": {"data": [1]}, "text/html": ["<b>\n", "x</b>"]},
         "metadata": {"x": 1}, "execution_count": 3},
        {"output_type": "error", "ename": "E", "evalue": "v", "traceback": ["one", "two"]},
    ]
    cells = [
        {"cell_type": "code", "id": "first", "metadata": {"tags": ["t"]}, "source": ["x = 1\n", "x"], "execution_count": 3, "outputs": outputs},
        {"cell_type": "markdown", "id": "second", "metadata": {}, "source": ["# \u00fc\u4e2d\U0001f600"], "attachments": {"a.png": {"image/png": "iVBORw0="}}},
        {"cell_type": "raw", "id": "third", "metadata": {}, "source": []},
    ]
    made = node("return book.toIpynb(book.readNotebook(given).notebook);", notebook(*cells))["value"]
    assert made["cells"] == cells
    assert (made["nbformat"], made["nbformat_minor"]) == (4, 5)
    assert made["metadata"]["kernelspec"]["name"] == "python3"
    bare = node("return book.toIpynb(book.readNotebook(given).notebook, false);", notebook(*cells))["value"]
    assert bare["cells"][0]["outputs"] == [] and bare["cells"][0]["execution_count"] is None


def test_receipts_travel_without_the_execution(node):
    receipt = {"status": "timeout", "limit": "wall_time", "execution_time": 30, "memory_limit": 1, "execution_id": "exec_secret", "hosts": [5], "files": "x"}
    cell = {"cell_type": "code", "id": "a", "metadata": {"glovebox": {"receipt": receipt}}, "source": "", "outputs": []}
    read = node("return book.readNotebook(given).notebook.cells[0];", notebook(cell))["value"]
    assert read["receipt"]["status"] == "timeout" and read["receipt"]["hosts"] == [] and read["receipt"]["files"] == []
    made = node("return book.toIpynb(book.readNotebook(given).notebook);", notebook(cell))["value"]
    assert "exec_secret" not in json.dumps(made)


def test_version_3(node):
    old = {"nbformat": 3, "metadata": {"name": ""}, "worksheets": [{"cells": [
        {"cell_type": "heading", "level": 2, "source": ["Old"]},
        {"cell_type": "code", "input": ["print(1)"], "prompt_number": 7, "outputs": [
            {"output_type": "pyout", "prompt_number": 7, "text": ["1"], "png": "iVBORw0="},
            {"output_type": "pyerr", "ename": "E", "evalue": "v", "traceback": ["t"]}]}]}]}
    cells = node(READ, json.dumps(old))["value"]["notebook"]["cells"]
    assert cells[0]["kind"] == "markdown" and cells[0]["source"] == "## Old"
    assert cells[1]["source"] == "print(1)" and cells[1]["count"] == 7
    assert cells[1]["outputs"][0]["data"] == {"text/plain": "1", "image/png": "iVBORw0="}
    assert cells[1]["outputs"][1]["output_type"] == "error"


@pytest.mark.parametrize("text, word", [
    ("", "empty"), ("<!doctype html><p>", "web page"), ("{\"cells\": [{", "not JSON"), ("[1]", "no cells"), ("5", "no cells"), ("{}", "no list of cells"),
    ("{\"cells\": {\"a\": 1}}", "no list of cells"), ("{\"cells\": [1, null, \"x\"]}", "no readable cell"),
])
def test_what_is_no_notebook_is_refused(node, text, word):
    reply = node(READ, text)
    assert reply["refused"] and word in reply["message"]


def test_odd_files_are_read_as_far_as_possible(node):
    odd = notebook(
        {"cell_type": "code", "source": 5, "outputs": [{"output_type": "weird"}, 7, {"output_type": "stream", "text": "kept"}]},
        {"cell_type": "sql", "source": "select 1"},
        {"cell_type": "code", "id": "same", "source": "1\r\n2", "outputs": "no list", "execution_count": "x"},
        {"cell_type": "code", "id": "same", "source": ["a", 1]},
        {"cell_type": "markdown", "id": "not/allowed", "source": "x", "metadata": 4},
        None, nbformat=9, metadata={"kernelspec": {"language": "R"}})
    reply = node(READ, "\ufeff" + json.dumps(odd))["value"]
    cells, warnings = reply["notebook"]["cells"], " ".join(reply["warnings"])
    assert [cell["kind"] for cell in cells] == ["code", "raw", "code", "code", "markdown"]
    assert [output.get("text") for output in cells[0]["outputs"]] == ["kept"]
    assert cells[2]["source"] == "1\n2" and cells[2]["count"] is None and cells[2]["outputs"] == []
    assert len({cell["id"] for cell in cells}) == 5 and cells[4]["id"] != "not/allowed"
    assert reply["notebook"]["title"] == "my file"
    for word in ("version 9", "written for R", "unknown type", "malformed", "not an object"):
        assert word in warnings


def test_long_output_keeps_its_beginning_and_its_end(node):
    last = node("let outputs = []; for (let i = 0; i < 400; i++) outputs = book.appendStream(outputs, 'stdout', `${i}:`.padEnd(9999, 'x') + '\\n');"
                "const [one] = outputs; return { n: outputs.length, length: one.text.length, out: one.left_out, start: one.text.slice(0, 2), end: one.text.slice(-10000, -9990) };")["value"]
    assert last["n"] == 1 and last["start"] == "0:" and last["end"].startswith("399:")
    assert last["length"] < 2_500_000 and abs(last["length"] + last["out"] - 4_000_000) < 100


def test_long_output_is_not_cut_in_a_character(node):
    text = node("let outputs = []; for (let i = 0; i < 40; i++) outputs = book.appendStream(outputs, 'stdout', (i ? '' : 'x') + '\\u{1f600}'.repeat(50_000) + '\\n');"
                "return outputs[0].text;")["value"]
    assert text.encode("utf-8") and "\u22ee" in text  # a half would not be encoded


def test_what_the_server_does_not_take(node):
    """NUL, halves of characters and integers of more than 64 bits, which programs print and draw."""
    text = node("return book.toText({ a: 'x\\0y', b: ['\\ud800', 'a\\udc00\\ud83d\\ude00'], big: [1e20, -1e20, 2 ** 63, 1e300], n: 5, f: 0.5, none: null });")["value"]
    assert "\\u" not in text
    assert json.loads(text, parse_int=lambda digits: int(digits) if len(digits) < 19 else "too big") == {
        "a": "x\ufffdy", "b": ["\ufffd", "a\ufffd\U0001f600"], "big": [1e20, -1e20, 2.0**63, 1e300], "n": 5, "f": 0.5, "none": None}


@pytest.mark.parametrize("text, want", [
    ("", []), (" , ", []), ("humanize", ["humanize"]), ("a b,c\nd", ["a", "b", "c", "d"]),
    ("pandas>=2,<3", ["pandas>=2,<3"]), ("pandas >= 2, < 3 , numpy", ["pandas>=2,<3", "numpy"]), ("polars ~=1.0 x==2.*", ["polars~=1.0", "x==2.*"]),
    ("a[b, c]>=1 d", ["a[b,c]>=1", "d"]), ("pip install one two", ["one", "two"]), ("!pip3 install one", ["one"]), ("%pip install one", ["one"]),
    ("x @ https://example.com/x-1.whl", ["x @ https://example.com/x-1.whl"]), ("x; python_version < '3.9'", ["x; python_version < '3.9'"]),
    ("good >", ["good", ">"]), ("$x", ["$x"]), ("-r file.txt", ["-r", "file.txt"])])
def test_names_of_packages(node, text, want):
    assert node("return book.requirementsOf(given);", text)["value"] == want


def test_a_traceback_is_shown_once(node):
    trace = "Traceback (most recent call last):\nValueError: x\n"
    outputs = node("return book.appendError(book.appendStream([], 'stderr', 'warning\\n' + given), { name: 'ValueError', value: 'x', traceback: given });", trace)["value"]
    assert [one.get("text") for one in outputs] == ["warning\n", None] and outputs[1]["traceback"] == trace


def test_what_mark_computes(program, tmp_path):
    subprocess.run([program, "node_modules/vite/bin/vite.js", "build", "--ssr", "tests/mark.test.ts", "--outDir", tmp_path,
                    "--emptyOutDir", "--logLevel", "error"], cwd=WEB, check=True)
    subprocess.run([program, tmp_path / "mark.test.js"], check=True)
