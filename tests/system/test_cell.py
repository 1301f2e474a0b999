"""`glovebox run --cell`: values, displays, tables and figures in the receipt, and bad input."""

import base64
import json
import struct

import pytest

TABLE = "application/vnd.glovebox.table+json"
PLOTLY = "application/vnd.plotly.v1+json"
MIB = 1 << 20

RICH = """
class A:
    def __init__(self, **kwargs):
        for name, value in kwargs.items():
            setattr(self, '_repr_%s_' % name, lambda value=value, **k: value)
    def __repr__(self): return 'A'
"""


@pytest.fixture
def cell(gb):
    """Runs a cell and checks what holds for every receipt: strictly valid, and bounded."""

    def refuse(word):
        raise AssertionError("not JSON: " + word)

    def run(code, *options, **how):
        result = gb.py(code, "--json", "--cell", *options, **how)
        assert len(result.raw_out) < 40 * MIB
        receipt = json.loads(result.raw_out.decode(), parse_constant=refuse)
        assert receipt["status"] != "system"
        assert result.code == receipt["exit_code"]
        assert set(receipt["truncated"]) == {"stdout", "stderr", "outputs"}
        for output in receipt["outputs"]:
            assert set(output) == {"data", "metadata", "stdout_offset", "stderr_offset"}
        return receipt

    return run


def png_size(data):
    raw = base64.b64decode(data, validate=True)
    assert raw.startswith(b"\x89PNG\r\n\x1a\n")
    return struct.unpack(">II", raw[16:24])


# ---- values ------------------------------------------------------------------------------------


def test_value(cell):
    r = cell("x = 40\nprint('printed')\nx + 2")
    assert (r["status"], r["exit_code"], r["stdout"]) == ("ok", 0, "printed\n")
    assert r["result"] == {"text/plain": "42"} and r["result_metadata"] == {}
    assert r["outputs"] == [] and r["error"] is None
    assert r["truncated"] == {"stdout": 0, "stderr": 0, "outputs": 0}


@pytest.mark.parametrize("code", ["x = 1", "None", "5;", "# nothing", "print(1)"])
def test_no_value(cell, code):
    r = cell(code)
    assert r["status"] == "ok" and r["result"] is None and "result_metadata" not in r


def test_a_script_has_no_value(gb):
    r = gb.receipt("40 + 2")
    assert r["result"] is None and r["outputs"] == []


def test_value_of_a_file(gb, tmp_path):
    (tmp_path / "c.py").write_text("import sys\nsys.argv[1:] + [__file__]")
    r = gb("run", "--cell", "--json", tmp_path / "c.py", "a", "b").receipt
    assert r["result"] == {"text/plain": "['a', 'b', '/workspace/c.py']"}
    assert r["files"] == []


def test_value_of_standard_input(gb):
    assert gb("run", "--cell", "--json", "-", stdin="6 * 7").receipt["result"] == {
        "text/plain": "42"
    }


def test_printed_as_in_a_terminal(gb):
    r = gb("run", "--cell", "-c", "print('a')\ndisplay('shown')\n'é' * 2")
    assert (r.code, r.out, r.err) == (0, "a\n'shown'\n'éé'\n", "")
    assert gb("run", "--cell", "-c", "x = 5").out == ""
    assert gb("run", "--cell", "-c", "5;").out == ""


def test_from_the_environment(gb):
    assert gb("run", "-c", "7", env={"GLOVEBOX_CELL": "yes"}).out == "7\n"


def test_top_level_await(cell):
    r = cell("import asyncio\nawait asyncio.gather(asyncio.sleep(0, 1), asyncio.sleep(0, 2))")
    assert r["result"] == {"text/plain": "[1, 2]"}


def test_error(cell):
    r = cell("display(1)\ndef f():\n    return nothing\nf()")
    assert (r["status"], r["exit_code"], r["result"]) == ("error", 1, None)
    assert r["error"]["name"] == "NameError" and len(r["outputs"]) == 1
    text = 'File "<string>", line 3, in f\n    return nothing'
    assert text in r["error"]["traceback"] and text in r["stderr"]
    assert "glovebox" not in r["stderr"]


@pytest.mark.parametrize("code", [0, 3, 255])
def test_exit(cell, code):
    r = cell(f"import sys\nsys.exit({code})")
    assert (r["status"], r["exit_code"]) == ("error" if code else "ok", code)
    assert r["error"] is None


def test_timeout(cell):
    r = cell("display('before')\nimport time\ntime.sleep(1000)", "--timeout", "5")
    assert (r["status"], r["exit_code"]) == ("timeout", 124)
    assert r["outputs"][0]["data"] == {"text/plain": "'before'"}


def test_the_workspace_is_reported(cell):
    r = cell("!echo data > made.txt\n_exit_code")
    assert r["result"] == {"text/plain": "0"}
    assert [f["path"] for f in r["files"]] == ["made.txt"]


# ---- text for notebooks ------------------------------------------------------------------------


def test_shell(cell):
    r = cell("n = 3\n!echo number {n}; echo err >&2\nlines = !seq 2\nlines")
    assert (r["stdout"], r["stderr"]) == ("number 3\n", "err\n")
    assert r["result"] == {"text/plain": "['1', '2']"}


def test_a_script_has_no_shell(gb):
    """Also if the template has loaded IPython."""
    r = gb.py("""
        import builtins, sys
        print([n for n in ('get_ipython', 'display', '__IPYTHON__') if hasattr(builtins, n)])
        print([n for n in ('In', 'Out', '_') if n in globals()], hasattr(sys, 'ps1'))
        from IPython import get_ipython
        from IPython.core.interactiveshell import InteractiveShell
        from IPython.display import display
        print(get_ipython(), InteractiveShell.initialized(), sys.modules['__main__'].__name__)
        display(5)
    """, "--preload", "IPython")
    assert (r.code, r.out) == (0, "[]\n[] False\nNone False __main__\n5\n"), r


def test_shell_streams_with_the_rest(cell):
    r = cell("print('a')\n!echo b\nprint('c')")
    assert r["stdout"] == "a\nb\nc\n"


def test_pip(cell):
    """Of a single run; test_packages.py has those of a service."""
    for line in ("%pip install numpy no-such-thing", "!pip install another-thing"):
        r = cell(line + "\n1")
        assert "packages can only be installed through a service" in r["error"]["value"]
        assert r["status"] == "error"


def test_magics(cell):
    r = cell("    %matplotlib inline\n    %time x = 5\n    x")
    assert r["result"] == {"text/plain": "5"} and "Wall time" in r["stdout"]
    r = cell("%%time\nx = 6\nx")
    assert r["result"] == {"text/plain": "6"} and "Wall time" in r["stdout"]


def test_unknown_magic(cell):
    r = cell("print('ran')\n%frobnicate now")
    assert (r["status"], r["stdout"]) == ("error", "ran\n")
    assert r["error"]["name"] == "UsageError" and "%frobnicate" in r["error"]["value"]
    assert r["stderr"] == r["error"]["traceback"] == "UsageError: %s\n" % r["error"]["value"]


def test_updated_and_cleared(cell):
    r = cell("""
        from IPython.display import clear_output
        print('one'); display(1); clear_output(); print('two')
        h = display('a', display_id='h'); display('b'); h.update('c')
    """)
    assert [o["data"]["text/plain"] for o in r["outputs"]] == ["'c'", "'b'"]
    assert [o["metadata"] for o in r["outputs"]] == [{"glovebox": {"display_id": "h"}}, {}]
    assert [o["stdout_offset"] for o in r["outputs"]] == [8, 8]
    assert r["stdout"] == "one\ntwo\n" and r["cleared"] == {"stdout_offset": 4, "stderr_offset": 0}


# ---- what is shown -----------------------------------------------------------------------------


def test_display(cell):
    r = cell("""
        from IPython.display import display, HTML, Markdown
        display(HTML('<b>h</b>'), Markdown('*m*'))
        display({'application/json': {'a': [1, None]}}, raw=True)
    """)
    data = [output["data"] for output in r["outputs"]]
    assert data[0]["text/html"] == "<b>h</b>" and data[1]["text/markdown"] == "*m*"
    assert data[2] == {"application/json": {"a": [1, None]}}


@pytest.mark.parametrize("preload", ["auto", "none"])
def test_data_frame(cell, preload):
    r = cell("""
        import pandas as pd
        pd.DataFrame({'city': ['Oslo', 'Rome'], 'visits': [3, 5], 'share': [0.5, None]})
    """, "--preload", preload)
    assert set(r["result"]) == {"text/plain", "text/html", TABLE}
    assert r["result"][TABLE] == {
        "columns": [
            {"name": "city", "type": "string", "dtype": "object"},
            {"name": "visits", "type": "integer", "dtype": "int64"},
            {"name": "share", "type": "number", "dtype": "float64"},
        ],
        "rows": [["Oslo", 3, 0.5], ["Rome", 5, None]],
        "row_count": 2,
        "column_count": 3,
    }
    assert "<table" in r["result"]["text/html"]


@pytest.mark.parametrize("preload", ["auto", "none"])
def test_matplotlib(cell, preload):
    r = cell("""
        import warnings
        warnings.simplefilter('error')
        import matplotlib.pyplot as plt
        plt.plot([1, 2]); plt.title('shown 中文 한국어 日本語 😀🎉🫠')
        plt.show()
        plt.plot([2, 1]); plt.title('open at the end')
        None
    """, "--preload", preload)
    assert r["status"] == "ok" and r["stderr"] == "", r["stderr"]
    assert len(r["outputs"]) == 2
    for output in r["outputs"]:
        assert output["metadata"] == {}
        width, height = png_size(output["data"]["image/png"])
        assert 300 < width < 800 and 200 < height < 600


@pytest.mark.parametrize("preload", ["auto", "none"])
def test_plotly(cell, preload):
    r = cell("""
        import plotly.graph_objects as go
        fig = go.Figure(go.Bar(x=['a', 'b'], y=[1, 2.5]))
        fig.show()
        fig
    """, "--preload", preload)
    for data in (r["outputs"][0]["data"], r["result"]):
        assert data[PLOTLY]["data"][0]["y"] == [1, 2.5]
        assert "layout" in data[PLOTLY]


def test_pillow(cell):
    r = cell("from PIL import Image\nImage.new('RGB', (30, 20))")
    assert png_size(r["result"]["image/png"]) == (30, 20)


def test_everything_at_once(cell):
    """A last value, a DataFrame, a matplotlib figure and a plotly figure in one receipt."""
    r = cell("""
        import pandas as pd, matplotlib.pyplot as plt, plotly.express as px
        df = pd.DataFrame({'x': [1, 2], 'y': [3, 4]})
        display(df)
        df.plot(x='x', y='y')
        plt.show()
        px.line(df, x='x', y='y').show()
        df['y'].sum()
    """)
    kinds = [set(output["data"]) for output in r["outputs"]]
    assert TABLE in kinds[0] and "image/png" in kinds[1] and PLOTLY in kinds[2]
    assert r["result"] == {"text/plain": "7"}


# ---- bad input ---------------------------------------------------------------------------------

# name: (code, the result's text, what its metadata says, the exit code)
BAD = {
    "html_raises": (
        RICH + "class B(A):\n    def _repr_html_(self): raise ValueError('no')\nB()",
        "A", {"failed": {"text/html": "ValueError: no"}}, 0),
    "html_wrong_type": (
        RICH + "A(html=5)", "A", {"failed": {"text/html": "TypeError: must be str, not int"}}, 0),
    "html_large": (
        RICH + "A(html='x' * (20 << 20))", "A", {"left_out": {"text/html": 20 << 20}}, 0),
    "repr_prints": (
        "class B:\n    def __repr__(self):\n        print('aside')\n        return 'B'\nB()",
        "B", None, 0),
    "repr_exits": ("class B:\n    def __repr__(self): exit(7)\nB()", None, None, 7),
    "repr_exits_hard": (
        "import os\nclass B:\n    def __repr__(self): os._exit(9)\nB()", None, None, 9),
    "repr_forks": (
        "import os\nclass B:\n    def __repr__(self): return 'B%d' % (os.fork() > 0)\nB()",
        "B1", None, 0),
    "name_that_is_no_utf8": (
        "import os\nopen(b'\\xff.txt', 'w').close()\n"
        "class B:\n    def __repr__(self): return os.listdir()[0]\nB()",
        "\ufffd.txt", None, 0),
    "html_that_is_no_utf8": (RICH + "A(html='\\udcff')", "A", None, 0),
    "closes_everything": ("import os\nos.closerange(0, 1024)\n5", None, None, 0),
    "closes_stdout": ("import os, sys\nos.close(1); sys.stdout.close()\n5", "5", None, 0),
    "breaks_builtins": (
        "import builtins\nfor n in dir(builtins):\n"
        "    if n[0] != '_': builtins.__dict__[n] = None\n",
        None, None, 0),
}


@pytest.mark.parametrize("name", BAD)
def test_bad(cell, name):
    code, text, metadata, exit_code = BAD[name]
    r = cell(code)
    assert r["exit_code"] == exit_code, r["stderr"]
    assert (r["result"] or {}).get("text/plain") == text
    if metadata is not None:
        assert r["result_metadata"] == {"glovebox": metadata}


def test_html_of_a_gigabyte(cell):
    r = cell(RICH + "A(html='x' * (1 << 30))", "--memory", "2g")
    assert r["result_metadata"] == {"glovebox": {"left_out": {"text/html": 1 << 30}}}
    assert cell(RICH + "A(html='x' * (1 << 30))")["status"] == "oom"


def test_html_that_loops(cell):
    r = cell("class B:\n    def _repr_html_(self):\n        while True: pass\nB()",
             "--timeout", "2")
    assert (r["status"], r["exit_code"]) == ("timeout", 124)


def test_html_that_loops_and_does_not_listen(cell):
    r = cell("import signal\nclass B:\n    def _repr_html_(self):\n"
             "        signal.signal(2, signal.SIG_IGN)\n        while True: pass\nB()",
             "--timeout", "2")
    assert (r["status"], r["exit_code"]) == ("timeout", 124)


def test_figure_of_a_million_points(cell):
    r = cell("import numpy as np, matplotlib.pyplot as plt\n"
             "plt.plot(np.random.rand(1_000_000));")
    png_size(r["outputs"][0]["data"]["image/png"])
    r = cell("import numpy as np, plotly.graph_objects as go\n"
             "go.Figure(go.Scattergl(y=np.random.rand(1_000_000)))", "--memory", "2g")
    assert PLOTLY in r["result_metadata"]["glovebox"]["left_out"]
    assert "text/plain" in r["result"]


def test_figure_as_large_as_memory(cell):
    r = cell("import matplotlib.pyplot as plt\nplt.figure(figsize=(600, 600)); plt.plot([1]);")
    width, height = png_size(r["outputs"][0]["data"]["image/png"])
    assert width * height <= 16_500_000


def test_frame_of_ten_million_rows(cell):
    r = cell("import numpy as np, pandas as pd\n"
             "pd.DataFrame({'a': np.arange(10_000_000), 'b': 0.5})")
    table = r["result"][TABLE]
    assert table["row_count"] == 10_000_000 and len(table["rows"]) == 100


def test_frame_with_everything_odd(cell):
    r = cell("""
        import pandas as pd, numpy as np
        pd.DataFrame([[1, b'\\xff', np.nan, np.inf, '\\udcff', 2**64, None, [1], 1j]],
                     columns=['a', 'a', 5, b'b', '\\ud800', None, 1.5, ('t', 1), np.nan])
    """)
    table = r["result"][TABLE]
    assert table["rows"] == [
        [1, "b'\\xff'", None, None, "\ufffd", str(2**64), None, "[1]", "1j"]
    ]
    assert [c["name"] for c in table["columns"]][:4] == ["a", "a", "5", "b'b'"]


def test_more_displays_than_are_kept(cell):
    r = cell("for i in range(1000): display(i)\n'end'")
    assert len(r["outputs"]) == 200 and r["truncated"]["outputs"] == 800
    assert r["result"] == {"text/plain": "'end'"}


def test_more_bytes_than_are_kept(cell):
    r = cell(RICH + "for i in range(8): display(A(html='x' * (4 << 20)))")
    kept = [output for output in r["outputs"] if "text/html" in output["data"]]
    assert len(kept) == 5
    assert r["outputs"][-1]["metadata"] == {"glovebox": {"left_out": {"text/html": 4 << 20}}}


# A tenant that does not keep the rules: it writes to the socket itself.
HOSTILE = """
import json, os, socket, struct
control = socket.socket(fileno=os.dup(3))
def send(type, payload):
    for at in range(0, max(1, len(payload)), 65524):
        part = payload[at:at + 65524]
        more = at + len(part) < len(payload)
        try:
            control.send(struct.pack('<BBHII', 1, type, more, len(part), len(payload)) + part)
        except OSError:
            return False
    return True
def bundle(text, type=3):
    return send(type, struct.pack('<HI', 10, len(text)) + text)
"""

# name: (code, outputs, at least so many left out)
HOSTILE_CASES = {
    "not_json": ("for t in (b'', b'x', b'\\xff', b'[]', b'{}', b'null'): bundle(t)", 0, 6),
    "wrong_shape": (
        "for d in (5, [], {'a': 1}, {'text/html': 5}, {'<x>': ''}, {'image/png': '\"><b>'}):\n"
        "    bundle(json.dumps({'data': d}).encode())", 0, 6),
    "invalid_text": ("bundle(b'{\"data\":{\"text/plain\":\"\\xff\"}}')", 0, 1),
    "nan": ("bundle(b'{\"data\":{\"application/json\":NaN}}')", 0, 1),
    "too_large": (
        "bundle(json.dumps({'data': {'text/plain': 'x' * (9 << 20)}}).encode())", 0, 1),
    "too_many": ("for i in range(300): bundle(b'{\"data\":{}}')", 200, 100),
    "amplifying": (
        "bundle(b'{\"data\":{\"application/json\":[0' + b',{}' * 2600000 + b']}}')", 0, 1),
    "deep": ("bundle(b'{\"data\":{\"application/json\":' + b'[' * 900000)", 0, 1),
    "two_results": ("bundle(b'{\"data\":{}}', 4); bundle(b'{\"data\":{}}', 4)", 0, 1),
    "flood": ("while bundle(b'{\"data\":{}}'): pass", 200, 100),
    "claims": ("send(2, struct.pack('<HI', 13, 2) + b'-5')", 0, 0),
    # Acknowledgements that nobody reads, malformed ones, and some of the tenant's own making.
    "acks_unread": ("ack = struct.pack('<HI', 18, 1) + b'7'\n"
                    "while send(3, struct.pack('<HI', 10, 11) + b'{\"data\":{}}' + ack): pass",
                    200, 100),
    "acks_malformed": (
        "for a in (b'', b'x', b'-1', b'9' * 40, b'\\0'):\n"
        "    send(3, struct.pack('<HI', 10, 11) + b'{\"data\":{}}'"
        " + struct.pack('<HI', 18, len(a)) + a)\n", 5, 0),
    "sends_acks": ("send(6, struct.pack('<HI', 18, 1) + b'1')\nbundle(b'{\"data\":{}}')", 0, 0),
    "sends_run": ("send(1, b'')\nbundle(b'{\"data\":{}}')", 0, 0),
    "garbage": ("control.send(b'garbage')\nbundle(b'{\"data\":{}}')", 0, 0),
}


@pytest.mark.parametrize("name", HOSTILE_CASES)
def test_hostile(cell, name):
    code, outputs, left_out = HOSTILE_CASES[name]
    r = cell(HOSTILE + code)
    assert r["status"] == "ok", r["stderr"]
    assert len(r["outputs"]) == outputs
    assert r["truncated"]["outputs"] >= left_out


def test_an_honest_send_ends_when_nobody_listens(cell):
    """After garbage the supervisor does not read; a display must not wait for it for ever."""
    r = cell(HOSTILE + RICH + "control.send(b'garbage')\n"
             "for i in range(3): display(A(html='x' * (6 << 20)))\nprint('end')")
    assert (r["status"], r["stdout"], r["outputs"]) == ("ok", "end\n", [])


def test_order_of_prints_and_displays(cell):
    """By their position in the whole stream, also when the receipt has only its ends."""
    r = cell("""
        import os, subprocess, sys
        print('é')
        display(1)
        print('err', file=sys.stderr)
        print('b', end='')
        display(2)
        os.write(1, b'c')
        display(3)
        subprocess.run(['echo', 'd'])
        display(4)
    """)
    data = r["stdout"].encode()
    assert data == "é\nbcd\n".encode()
    assert [o["stdout_offset"] for o in r["outputs"]] == [3, 4, 5, 7]
    assert [o["stderr_offset"] for o in r["outputs"]] == [0, 4, 4, 4]
    r = cell("print('x' * 3000000)\ndisplay(1)\nprint('end')")
    assert r["truncated"]["stdout"] > 0
    assert r["outputs"][0]["stdout_offset"] == 3000001


def test_a_display_in_output_beyond_the_limit(cell):
    r = cell("import os\nos.write(1, b'x' * 3000)\ndisplay(1)\nprint('y' * 99999)",
             "--output", "2000")
    assert r["limit"] == "output"
    assert all(o["stdout_offset"] <= 2000 for o in r["outputs"])
