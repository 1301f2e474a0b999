"""The preset data, from the configured package index: everything in it can be imported, and the code that
models write today runs in the default box. This fetches half a gigabyte; how presets work in general is
in test_presets.py."""

import os
import re
import shutil
import sqlite3
import subprocess

import pytest

from conftest import BINARY, SLOW
from mark_kit import answer, explain, person, run, scripted
from package_kit import PATIENCE
from serve_kit import serve  # noqa: F401  a fixture

PRESETS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "presets")
AUTO = {"GLOVEBOX_DEFAULT_TEMPLATE": None}

# Names of modules that are not those of their packages.
MODULES = {"beautifulsoup4": "bs4", "ipython": "IPython", "opencv-python-headless": "cv2", "pillow": "PIL",
           "python-dateutil": "dateutil", "python-docx": "docx", "python-pptx": "pptx", "pyyaml": "yaml",
           "scikit-image": "skimage", "scikit-learn": "sklearn", "vl-convert-python": "vl_convert"}

# Each is a line of its own in the result; what fails says so and does not stop the others.
TODAY = r"""
import io, traceback
import numpy as np, pandas as pd

df = pd.DataFrame({"city": list("abab") * 5, "n": range(20), "d": pd.date_range("2026-01-01", periods=20)})
failed = []

def tried(test):
    try:
        test()
    except BaseException:
        failed.append(test.__name__ + ": " + traceback.format_exc().splitlines()[-1][:200])

@tried
def month_end():
    assert len(pd.date_range("2026-01-01", periods=3, freq="ME")) == 3
    df.set_index("d").resample("ME")["n"].sum()

@tried
def include_groups():
    assert df.groupby("city").apply(lambda g: g.n.sum(), include_groups=False)["a"] == 90

@tried
def frame_map():
    df.map(str)

@tried
def dtype_backend():
    assert "pyarrow" in str(pd.read_csv(io.StringIO("a,b\n1,2"), dtype_backend="pyarrow").dtypes["a"])

@tried
def case_when():
    assert df.n.case_when([(df.n > 2, 0)]).sum() == 3

@tried
def trapezoid():
    assert np.trapezoid([1, 2, 3]) == 4

@tried
def target_encoder():
    from sklearn.preprocessing import TargetEncoder
    TargetEncoder().fit_transform(df[["city"]], df.n / 7)

@tried
def forest():
    from sklearn.ensemble import RandomForestClassifier
    RandomForestClassifier(n_estimators=5, n_jobs=2).fit(df[["n"]], df.city)

@tried
def parquet():
    df.to_parquet("f.parquet")
    assert pd.read_parquet("f.parquet").equals(df)

@tried
def style_and_markdown():
    assert "<table" in df.style.to_html() and "| city" in df.to_markdown()

@tried
def excel():
    df.to_excel("f.xlsx")
    df.to_excel("g.xlsx", engine="xlsxwriter")
    assert len(pd.read_excel("f.xlsx")) == 20

@tried
def polars():
    import polars as pl
    assert pl.from_pandas(df).group_by("city").agg(pl.col("n").sum()).height == 2

@tried
def duckdb():
    import duckdb
    assert duckdb.sql("select sum(n) from df").fetchall() == [(190,)]

@tried
def seaborn():
    import matplotlib.pyplot as plt, seaborn as sns
    sns.barplot(df, x="city", y="n")
    plt.savefig("s.png")
    plt.close()

@tried
def altair_as_png():
    import altair as alt
    alt.Chart(df).mark_bar().encode(x="city", y="n").save("a.png")
    assert open("a.png", "rb").read(4) == b"\x89PNG"

@tried
def plotly():
    import plotly.express as px
    chart = px.bar(df, x="city", y="n")
    chart.write_html("p.html")
    chart.write_image("p.png")
    assert open("p.png", "rb").read(4) == b"\x89PNG" and chart.to_image("svg").startswith(b"<svg")

@tried
def statsmodels():
    import statsmodels.formula.api as smf
    assert "R-squared" in str(smf.ols("n ~ city", df).fit().summary())

@tried
def lightgbm():
    import lightgbm as lgb
    lgb.LGBMRegressor(n_estimators=2, min_child_samples=1, verbose=-1).fit(df[["n"]], df.n)

@tried
def numba():
    import numba
    assert numba.njit(lambda x: x + 1)(1) == 2

@tried
def documents():
    import docx, pdfplumber, pptx, pypdf
    from reportlab.pdfgen import canvas
    page = canvas.Canvas("c.pdf")
    page.drawString(10, 10, "hello")
    page.save()
    assert "hello" in pdfplumber.open("c.pdf").pages[0].extract_text()
    assert "hello" in pypdf.PdfReader("c.pdf").pages[0].extract_text()
    docx.Document().save("d.docx")
    pptx.Presentation().save("p.pptx")

@tried
def maps():
    import geopandas as gpd, shapely
    gpd.GeoDataFrame(geometry=[shapely.Point(1, 2)], crs=4326).to_crs(3857).to_file("g.geojson")

@tried
def images_and_sound():
    import cv2, skimage.filters, soundfile
    cv2.imwrite("i.png", np.zeros((9, 9), np.uint8))
    skimage.filters.sobel(np.zeros((9, 9)))
    soundfile.write("a.wav", np.zeros(800), 8000)

@tried
def database():
    import sqlalchemy
    engine = sqlalchemy.create_engine("sqlite://")
    df.to_sql("t", engine)
    assert len(pd.read_sql("select * from t", engine)) == 20

@tried
def words():
    from wordcloud import WordCloud
    WordCloud().generate("a few words of text").to_file("w.png")

print("failed:", failed)
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory, is_root):
    """A data directory in which the preset is set up."""
    if not is_root:
        pytest.skip("once is enough, as root")
    path = tmp_path_factory.mktemp("preset") / "data"
    done = subprocess.run([BINARY, "template", "add", "data", "--data", path], capture_output=True, text=True,
                          timeout=PATIENCE * SLOW)
    if done.returncode and re.search("no package index|index cannot be reached", done.stderr):
        pytest.skip("no package index: " + done.stderr.splitlines()[-1])
    assert done.returncode == 0, done.stderr
    assert "fetching, " in done.stderr and re.search(r"\d+ MB of \d+ MB", done.stderr), done.stderr
    yield str(path)
    shutil.rmtree(path)


def wanted():
    with open(os.path.join(PRESETS, "data.in"), encoding="utf-8") as file:
        lines = [line.partition("#")[0].strip() for line in file]
    return [line.partition("=")[0] for line in lines if line]


def test_every_package_can_be_imported(gb, data):
    modules = [MODULES.get(name, name.replace("-", "_")) for name in wanted()]
    code = ("import importlib, sys\n"
            f"for name in {modules!r}:\n"
            "    try:\n        module = importlib.import_module(name)\n"
            "    except BaseException as error:\n        print(name, repr(error))\n        continue\n"
            "    if not module.__file__.startswith('/opt/python/'):\n        print(name, module.__file__)\n"
            "print(len(sys.modules) > 1000, [p for p in sys.path if 'dist-packages' in p])\n")
    r = gb("run", "--data", data, "--memory", "3g", "--timeout", "300", "-c", code, env=AUTO, timeout=PATIENCE)
    assert (r.code, r.out) == (0, "True []\n"), (r.out, r.err)


def test_code_of_today(data, serve):
    server = serve(data=data, env=AUTO, preload="auto")
    assert server.good("GET", "/health")["template"] == "data"
    (first, *_) = server.good("GET", "/v1/templates")["templates"]
    versions = {p["name"]: p["version"] for p in first["packages"]}
    assert first["default"] and set(wanted()) <= set(versions) and versions["pandas"] >= "3"
    session = server.good("POST", "/v1/sessions", {"limits": {"memory": "1g", "timeout": 300}}, 201)["session_id"]
    receipt = server.run(session, TODAY)
    assert receipt["template"] == "data" and receipt["stdout"].endswith("failed: []\n"), receipt
    receipt = server.run(session, "%%capture said\nprint(6 * 7)\n")
    assert receipt["status"] == "ok" and server.run(session, "said.stdout")["result"]["text/plain"] == "'42\\n'"
    # What is preloaded costs a program nothing.
    receipt = server.good("POST", "/v1/execute", {
        "code": "import sys\n[n in sys.modules for n in ('pandas', 'pyarrow', 'plotly.express', 'polars')]"})
    assert receipt["result"]["text/plain"] == "[True, True, True, False]", receipt


# Of a source of files: one of each kind, joined by DuckDB in the box, and nothing can be written.
ASK_FILES = """
frame = mark.query("archive", '''SELECT o.id, c.name, p.price, x.who, j.note FROM orders o JOIN customers_names c USING (id)
    JOIN prices p USING (id) JOIN staff x USING (id) JOIN notes j USING (id) WHERE o.id >= ? ORDER BY o.id''', [1])
print(frame.values.tolist(), sorted(t["kind"] for t in mark.tables("archive")))
for name in ("orders.csv", "prices.parquet", "new.csv"):
    try:
        open(mark.path("archive") + "/" + name, "a")
        print("WROTE", name)
    except OSError:
        pass
try:
    mark.query("archive", "COPY (SELECT 1) TO '%s/copied.csv'" % mark.path("archive"))
    print("WROTE")
except mark.QueryError as error:
    print(error.word)
"""


def test_files_of_each_kind(data, serve, tmp_path):
    archive = tmp_path / "archive"
    archive.mkdir(mode=0o755)
    (archive / "orders.csv").write_text("id,day\n1,2026-01-01\n2,2026-01-02\n")
    (archive / "notes.json").write_text('[{"id": 1, "note": "Ä"}, {"id": 2, "note": "ö"}]')
    with sqlite3.connect(archive / "customers.sqlite") as database:
        database.execute("CREATE TABLE names (id INTEGER, name TEXT)")
        database.execute("INSERT INTO names VALUES (1, 'Ann'), (2, 'Bob')")
    database.close()
    server = serve(*scripted(tmp_path / "model", [run(ASK_FILES), answer("Done.")]), "--model", "none",
                   "--source-root", archive, data=data, env=AUTO)
    ann = person(server)
    session = ann.session()
    made = ann.run(session, "import pandas as pd\npd.DataFrame({'id': [1, 2], 'price': [1.5, None]}).to_parquet('prices.parquet')\n"
                            "pd.DataFrame({'id': [1, 2], 'who': ['x', 'y']}).to_excel('staff.xlsx', index=False)")
    assert made["status"] == "ok", made
    for name in ("prices.parquet", "staff.xlsx"):
        (archive / name).write_bytes(ann.good("GET", f"/v1/sessions/{session}/files/{name}").body)
    for path in archive.iterdir():
        path.chmod(0o644)
    ann.good("POST", "/api/v1/sources", {"name": "archive", "kind": "files", "directory": str(archive)}, 201)
    tables = {t["name"]: [c["name"] for c in t["columns"]] for t in ann.good("GET", "/api/v1/sources/archive/tables")["tables"]}
    assert tables == {"orders.csv": ["id", "day"], "notes.json": ["id", "note"], "customers.sqlite:names": ["id", "name"],
                      "prices.parquet": ["id", "price"], "staff.xlsx:Sheet1": ["id", "who"]}
    reply = ann.ask_mark("Please compute.")
    lines = reply["steps"][0]["receipt"]["stdout"].splitlines()
    assert lines == ["[[1, 'Ann', 1.5, 'x', 'Ä'], [2, 'Bob', nan, 'y', 'ö']] ['csv', 'json', 'parquet', 'sqlite', 'xlsx']",
                     "sql"], explain(reply)
    assert len(list(archive.iterdir())) == 5
