"""Results: what they tell and how they show themselves."""

import base64
import json
import pickle

import glovebox
import pytest
from glovebox.result import PLOTLY, TABLE, Result

PNG = base64.b64encode(b"\x89PNG").decode()


def receipt(**fields):
    return {"status": "ok", "success": True, "exit_code": 0, "stdout": "", "stderr": "",
            "execution_time": 0.1, "execution_id": "exec_1", "execution_count": 1, "outputs": [],
            "files": [], "result": None, "error": None, **fields}


def test_fields():
    made = Result.from_receipt(receipt(
        files=[{"path": "a", "size": 1, "change": "created"}], session_id="ses_1", new_field=1,
        error={"name": "E", "value": "v", "traceback": "t"}, status="error", exit_code=1))
    assert made.files[0].path == "a" and made.error.name == "E" and made.receipt["new_field"] == 1
    assert made.reason == "E: v" and not made
    assert pickle.loads(pickle.dumps(made)).receipt == made.receipt


@pytest.mark.parametrize("bad", [
    None, [], "x", {}, receipt(status=5), receipt(stdout=None), receipt(exit_code="x"),
    receipt(outputs=[1]), receipt(outputs=[{"data": {}, "stdout_offset": "x"}]), receipt(result=[]), receipt(error={"name": "E"}), receipt(files="x"),
])
def test_what_is_no_receipt(bad):
    with pytest.raises(glovebox.ProtocolError):
        Result.from_receipt(bad)


@pytest.mark.parametrize("status, error", [
    ("error", glovebox.ExecutionError), ("timeout", glovebox.ExecutionTimeout),
    ("oom", glovebox.OutOfMemory), ("killed", glovebox.ExecutionKilled),
    ("pids", glovebox.LimitExceeded), ("disk", glovebox.LimitExceeded),
    ("output", glovebox.LimitExceeded), ("cancelled", glovebox.ExecutionCancelled),
    ("system", glovebox.ExecutionError), ("new-one", glovebox.ExecutionError),
])
def test_each_status_has_its_exception(status, error):
    with pytest.raises(error) as caught:
        Result.from_receipt(receipt(status=status, exit_code=137)).check()
    assert type(caught.value) is error and caught.value.receipt["status"] == status
    assert isinstance(pickle.loads(pickle.dumps(caught.value)), error)


def test_prints_and_displays_in_their_order():
    def shown(text, place):
        return {"data": {"text/plain": text}, "metadata": {}, "stdout_offset": place,
                "stderr_offset": 0}

    outputs = [shown("D1", 3), shown("D2", 3), shown("D3", 5)]
    made = Result.from_receipt(receipt(stdout="é\nb\nc\n", outputs=outputs, result={
        "text/plain": "R"}))
    page = made._repr_html_()
    order = [page.index(word) for word in ("é\n", "D1", "D2", "b\n", "D3", "c\n", "R")]
    assert order == sorted(order)
    assert [display.stdout_offset for display in made.displays] == [3, 3, 5, None]
    # Places in text that is not all there, beyond its end, or missing in an old receipt.
    cut = Result.from_receipt(receipt(stdout="head … tail", outputs=outputs,
                                      truncated={"stdout": 9, "stderr": 0, "outputs": 0}))
    assert cut._repr_html_().index("tail") < cut._repr_html_().index("D1")
    far = Result.from_receipt(receipt(stdout="ab", outputs=[shown("D1", 99), shown("D2", 100)]))
    assert far._repr_html_().count("ab") == 1 and "D2" in far._repr_html_()
    old = Result.from_receipt(receipt(stdout="ab", outputs=[{"data": {"text/plain": "D1"}}]))
    assert "ab" in old._repr_html_() and old.outputs[0].stdout_offset is None


def test_figures():
    made = Result.from_receipt(receipt(
        outputs=[{"data": {"image/png": PNG, "text/plain": "<Figure>"}, "metadata": {}},
                 {"data": {"text/plain": "no figure"}},
                 {"data": {"image/png": "not base64!", "image/svg+xml": "<svg/>"}}],
        result={PLOTLY: {"data": []}}))
    assert [(f.mime, f.suffix) for f in made.figures] == [
        ("image/png", ".png"), ("image/svg+xml", ".svg"), (PLOTLY, ".json")]
    assert made.figures[0].data == b"\x89PNG"
    assert json.loads(made.figures[2].data) == {"data": []}
    assert made.figures[0]._repr_mimebundle_() == {"image/png": PNG}
    assert made.figures[2]._repr_mimebundle_() == {PLOTLY: {"data": []}}


def test_figures_are_saved(tmp_path):
    made = Result.from_receipt(receipt(result={"image/png": PNG}))
    made.figures[0].save(tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes() == b"\x89PNG"


def test_a_notebook_shows_it_without_trusting_it():
    made = Result.from_receipt(receipt(
        status="error", stdout="<b>out", stderr="<i>err",
        outputs=[{"data": {"text/html": "<script>alert(1)</script>\"x"}},
                 {"data": {"image/png": '"><script>'}}],
        result={"text/plain": "<script>", "image/svg+xml": "<svg onload=x>"}))
    page = made._repr_html_()
    assert "<script" not in page and "<svg" not in page and "&lt;b&gt;out" in page
    assert page.count("<iframe sandbox srcdoc=") == 2 and "<b>error</b>" in page
    bundle = made._repr_mimebundle_()
    assert set(bundle) == {"text/plain", "text/html"} and "<i>err" in bundle["text/plain"]
    one = Result.from_receipt(receipt(result={PLOTLY: {"data": []}}))
    assert one._repr_mimebundle_()[PLOTLY] == {"data": []}


def test_tables_are_written_anew():
    table = {"columns": [{"name": "<a>"}], "rows": [["<script>"], [None]], "row_count": 5}
    page = Result.from_receipt(receipt(result={TABLE: table, "text/html": "<table>"}))._repr_html_()
    assert "<script" not in page and "<th>&lt;a&gt;</th>" in page and "3 more rows" in page
    for bad in ({}, {"columns": [1], "rows": []}, {"columns": [], "rows": [5], "row_count": 1}):
        made = Result.from_receipt(receipt(result={TABLE: bad, "text/plain": "plain"}))
        assert "plain" in made._repr_html_()


def test_table_of_a_real_frame(session):
    pandas = pytest.importorskip("pandas")
    made = session.run(
        "import pandas as pd\n"
        "pd.DataFrame({'n': [1, 2], 's': ['x', None], 't': pd.to_datetime(['2020-01-02', None])},"
        " index=pd.Index(['a', 'b'], name='key'))", check=True)
    frame = made.table()
    assert list(frame.columns) == ["n", "s", "t"] and list(frame.index) == ["a", "b"]
    assert frame.index.name == "key" and frame.attrs["row_count"] == 2
    assert frame["t"].iloc[0] == pandas.Timestamp("2020-01-02") and pandas.isna(frame["t"].iloc[1])
    with pytest.raises(LookupError):
        session.run("1").table()


@pytest.mark.parametrize("table", [None, {}, {"columns": [], "rows": 5, "row_count": 1},
                                   {"columns": [{}], "rows": [[1]], "row_count": 1},
                                   {"columns": [{"name": "a"}], "rows": [[1, 2]], "row_count": 1}])
def test_tables_that_are_none(table):
    pytest.importorskip("pandas")
    with pytest.raises(glovebox.ProtocolError):
        Result.from_receipt(receipt(result={TABLE: table})).table()
