"""
Profiles of attached files (src/mark/attach/profile.py), without a box and with the standard library
alone: what is found in good files, and what is said about bad ones.
"""

import datetime
import importlib.util
import io
import json
import pathlib
import sqlite3
import struct
import zipfile

import pytest

SOURCE = pathlib.Path(__file__).parents[2] / "src/mark/attach/profile.py"
SPEC = importlib.util.spec_from_file_location("attachment_profile", SOURCE)
profile = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(profile)


@pytest.fixture
def look(tmp_path):
    def look(data, kind, seconds=60):
        path = tmp_path / "input"
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        text = profile.shrink(profile.profile_of(str(path), kind, seconds))
        assert len(text) <= 64 * 1024
        return json.loads(text)

    return look


def column(found, name):
    return next(c for c in found["columns"] if c["name"] == name)


# ---- CSV ---------------------------------------------------------------------------------------


def test_csv(look):
    found = look(
        'id,name,when,amount,code,flag\n1,"Ann\nLee",2026-01-02,"1,234.50",007,yes\n'
        '2,Bob,2026-02-03,12.00,008,no\n2,Bob,2026-02-03,12.00,008,no\n3,,2026-03-31,NA,010,yes\n',
        "csv",
    )
    assert found["encoding"] == "utf-8" and found["delimiter"] == "," and found["header"]
    assert found["rows"] == 4 and found["rows_exact"] and found["columns_total"] == 6
    assert found["duplicate_rows"] == 1 and "sampled" not in found
    assert column(found, "id")["type"] == "integer" and column(found, "id")["max"] == 3
    assert column(found, "name")["nulls"] == 1 and column(found, "name")["distinct"] == 2
    when = column(found, "when")
    assert (when["type"], when["min"], when["max"]) == ("date", "2026-01-02", "2026-03-31")
    assert when["formats"] == ["%Y-%m-%d"]
    assert column(found, "amount")["max"] == 1234.5 and column(found, "amount")["nulls"] == 1
    assert column(found, "code")["type"] == "text" and "zeros" in column(found, "code")["notes"][0]
    assert column(found, "flag")["type"] == "boolean"


@pytest.mark.parametrize("encoding, name", [
    ("utf-8", "utf-8"), ("utf-8-sig", "utf-8 with BOM"), ("utf-16", "utf-16"), ("cp1252", "cp1252"),
])
@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_csv_forms(look, encoding, name, delimiter):
    rows = [["Größe", "Preis"], ["klein", "5"], ["groß", "7"]]
    text = "\r\n".join(delimiter.join(row) for row in rows) + "\r\n"
    found = look(text.encode(encoding), "tsv" if delimiter == "\t" else "csv")
    assert found["encoding"] == name and found["delimiter"] == delimiter
    assert [c["name"] for c in found["columns"]] == ["Größe", "Preis"] and found["rows"] == 2
    assert column(found, "Preis")["max"] == 7


@pytest.mark.parametrize("values, kind, low, high", [
    (["1.234,56 €", "7,00 €"], "number", 7.0, 1234.56),
    (["12%", "7.5%"], "number", 7.5, 12.0),
    (["31.12.2025", "01.01.2026"], "date", "2025-12-31", "2026-01-01"),
    (["13/4/2026", "1/4/2026"], "date", "2026-04-01", "2026-04-13"),
    (["4/13/2026", "4/1/2026"], "date", "2026-04-01", "2026-04-13"),
    (["2026-01-01T10:00:00Z", "2026-01-01 09:00"], "datetime", "2026-01-01T09:00:00",
     "2026-01-01T10:00:00"),
    (["Jan 5, 2026", "Feb 1, 2026"], "date", "2026-01-05", "2026-02-01"),
    (["1e3", "-2.5"], "number", -2.5, 1000.0),
    (["2026-13-45", "hello"], "text", None, None),
    (["12345678901234567890123", "2"], "text", None, None),
])
def test_types(look, values, kind, low, high):
    found = column(look("n;v\n" + "".join(f"{i};{v}\n" for i, v in enumerate(values)), "csv"), "v")
    assert (found["type"], found.get("min"), found.get("max")) == (kind, low, high)


def test_odd_values(look):
    found = column(look("v,w\n" + "5,x\n" * 19 + "oops,x\n", "csv"), "v")
    assert found["type"] == "integer" and found["odd"] == 1 and "oops" in found["notes"][0]


def test_header(look):
    assert look("1,2\n3,4\n", "csv")["header"] is False
    assert look("1,2\n3,4\n", "csv")["rows"] == 2
    assert look("a,b\nc,d\ne,f\n", "csv")["header"] is True
    assert look("a,b\nc,d\na,f\n", "csv")["header"] is False
    assert look("Region,2024,2025\nN,1,2\n", "csv")["header"] is True
    repeated = look("a,a,b\n1,2,3\n", "csv")
    assert repeated["columns_total"] == 3


def test_many_rows_are_sampled(look, monkeypatch):
    monkeypatch.setattr(profile, "ROWS_MAX", 1000)
    text = "id,v\n" + "".join(f'{i},"a\n{i}"\n' for i in range(5000))
    found = look(text, "csv")
    assert found["rows"] == 5000 and found["rows_exact"] and found["sampled"] == 1000
    assert column(found, "id")["max"] == 999


def test_no_time(look):
    found = look("id,v\n" + "1,2\n" * 200000, "csv", seconds=0)
    assert found["rows_exact"] is False and found["rows"] >= 1


def test_100_000_columns(look):
    line = ",".join(str(i) for i in range(100_000))
    found = look(",".join(f"c{i}" for i in range(100_000)) + "\n" + (line + "\n") * 3, "csv")
    assert found["columns_total"] == 100_000 and found["rows"] == 3
    assert len(found["columns"]) <= 200 and any("100000" in note for note in found["notes"])


def test_long_names_and_cells(look):
    cells = "\u202eevil\x1b[31m" + "x" * 10_000
    found = look("\n".join([",".join(cells + str(i) for i in range(300))] * 3), "csv")
    assert found["columns_total"] == 300
    assert all(len(c["name"]) <= 120 for c in found["columns"])


@pytest.mark.parametrize("data", [
    b"", b"\n\n\n", b"a", b'"', b'a,b\n"never closed\n1,2\n', b"\xff\xfe", b"\0" * 100, b"," * 100_000,
    b'a,b\n1,"' + b"x" * 9_000_000 + b'"\n', b"x" * 9_000_000, bytes(range(256)) * 50,
])
@pytest.mark.parametrize("kind", ["csv", "tsv", "text", "json", "jsonl"])
def test_bad_text(look, data, kind):
    found = look(data, kind)
    assert "error" in found or "rows" in found or "shape" in found


# ---- JSON --------------------------------------------------------------------------------------


def test_json(look):
    found = look('[{"a": 1, "b": {"c": [1, 2]}}, {"a": 2.5, "d": "2026-01-01"}]', "json")
    assert found["rows"] == 2 and found["columns_total"] == 3
    assert column(found, "a")["max"] == 2.5 and column(found, "b")["nulls"] == 1
    assert column(found, "d")["type"] == "date"
    assert found["shape"][0]["b"] == {"c": ["integer", "2 items"]}
    nested = look('{"data": [{"a": 1}, {"a": 2}], "meta": {"n": 2}}', "json")
    assert nested["tables"][0]["name"] == "data" and nested["tables"][0]["rows"] == 2
    assert nested["shape"]["meta"] == {"n": "integer"}


def test_json_lines(look):
    found = look('{"a": 1}\n\n{"a": null, "b": true}\nbroken\n[1]\n', "jsonl")
    assert found["rows"] == 4 and found["sampled"] == 2
    assert any("not valid" in note for note in found["notes"])


def test_json_large(look):
    text = "[" + ",".join(json.dumps({"i": i, "t": "x" * 200}) for i in range(80_000)) + "]"
    found = look(text, "json")
    assert found["rows_exact"] is False and found["rows"] > 1000


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "{", "[1,", '"', "nul", '[{"a": 1e999}]'])
def test_json_bad(look, text):
    found = look(text, "json")
    assert "error" in found or found["columns_total"] == 1
    assert "error" in look(text, "jsonl") or text.startswith("[{")


# ---- workbooks ---------------------------------------------------------------------------------

SHEET = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
RELATION = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"


def xlsx(rows, strings="", more=()):
    """A workbook with one sheet, as small as one can be; style 1 is a date."""
    parts = {
        "xl/workbook.xml": f'<workbook xmlns="{SHEET}" xmlns:r="{RELATION}"><sheets>'
                           '<sheet name="Sales" sheetId="1" r:id="rId1"/></sheets></workbook>',
        "xl/_rels/workbook.xml.rels": '<Relationships xmlns="x"><Relationship Id="rId1" '
                                      'Target="worksheets/sheet1.xml"/></Relationships>',
        "xl/styles.xml": f'<styleSheet xmlns="{SHEET}"><cellXfs><xf numFmtId="0"/><xf numFmtId="14"/>'
                         "</cellXfs></styleSheet>",
        "xl/sharedStrings.xml": f'<sst xmlns="{SHEET}">{strings}</sst>',
        "xl/worksheets/sheet1.xml": f'<worksheet xmlns="{SHEET}"><sheetData>{rows}</sheetData></worksheet>',
        **dict(more),
    }
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in parts.items():
            archive.writestr(name, text)
    return out.getvalue()


STRINGS = "<si><t>region</t></si><si><t>when</t></si><si><r><t>No</t></r><r><t>rth</t></r></si>"
ROWS = ('<row r="1"><c r="A1" t="s"><v>0</v></c><c r="B1" t="s"><v>1</v></c></row>'
        '<row r="2"><c r="A2" t="s"><v>2</v></c><c r="B2" s="1"><v>46023</v></c></row>'
        '<row r="4"><c r="B4" s="1"><v>46024.5</v></c></row>')


def test_xlsx(look):
    found = look(xlsx(ROWS, STRINGS), "xlsx")
    assert found["sheets_total"] == 1
    sheet = found["sheets"][0]
    assert sheet["name"] == "Sales" and sheet["rows"] == 2 and sheet["header"]
    assert column(sheet, "region")["nulls"] == 1 and column(sheet, "region")["values"] == ["North"]
    when = column(sheet, "when")
    assert when["type"] == "datetime" and when["min"] == "2026-01-01"
    assert when["max"] == "2026-01-02T12:00:00"


def test_xlsx_with_openpyxl(look):
    openpyxl = pytest.importorskip("openpyxl")
    book, out = openpyxl.Workbook(), io.BytesIO()
    book.active.append(["id", "when", "value", "good"])
    book.active.append([1, datetime.date(2026, 1, 2), 2.5, True])
    book.active.append([2, datetime.date(2026, 1, 3), None, False])
    book.create_sheet("Empty")
    book.save(out)
    first, second = look(out.getvalue(), "xlsx")["sheets"]
    assert [c["type"] for c in first["columns"]] == ["integer", "date", "number", "boolean"]
    assert second["name"] == "Empty" and second["rows"] == 0


def test_ods(look):
    content = (
        '<d xmlns:t="urn:oasis:names:tc:opendocument:xmlns:table:1.0" '
        'xmlns:o="urn:oasis:names:tc:opendocument:xmlns:office:1.0" xmlns:x="text">'
        '<t:table t:name="First"><t:table-row><t:table-cell><x:p>name</x:p></t:table-cell>'
        '<t:table-cell><x:p>n</x:p></t:table-cell><t:table-cell t:number-columns-repeated="16000"/>'
        '</t:table-row><t:table-row t:number-rows-repeated="3"><t:table-cell><x:p>a</x:p></t:table-cell>'
        '<t:table-cell o:value-type="float" o:value="2.5"><x:p>2,5</x:p></t:table-cell></t:table-row>'
        '<t:table-row t:number-rows-repeated="1048000"><t:table-cell/></t:table-row></t:table>'
        '<t:table t:name="Second"/></d>'
    )
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("content.xml", content)
    first, second = look(out.getvalue(), "ods")["sheets"]
    assert first["name"] == "First" and first["rows"] == 3 and first["columns_total"] == 2
    assert column(first, "n")["max"] == 2.5 and second["rows"] == 0


def test_zip_bomb(look):
    """Tens of gigabytes by their own word, or many megabytes of nothing: neither is unpacked."""
    data = xlsx(ROWS, STRINGS, {"xl/media/x": "\0" * 50_000_000}.items())
    assert len(data) < 100_000
    at = data.rindex(b"PK\1\2", 0, data.rindex(b"PK\5\6"))
    lie = data[:at + 24] + struct.pack("<I", 0xFFFFFF00) + data[at + 28:]
    assert "MB" in look(lie, "xlsx")["error"]
    assert look(data, "xlsx")["sheets"][0]["rows"] == 2  # the part is not looked at
    entities = '<!DOCTYPE a [<!ENTITY b "bb"><!ENTITY c "&b;&b;">]>'
    sheet = entities + f'<worksheet xmlns="{SHEET}"><sheetData>{ROWS}</sheetData></worksheet>'
    assert "entities" in look(xlsx(ROWS, STRINGS, {"xl/worksheets/sheet1.xml": sheet}.items()), "xlsx")["error"]


@pytest.mark.parametrize("cut", [0, 10, 100, 500, -30, -1])
def test_xlsx_broken(look, cut):
    assert "error" in look(xlsx(ROWS, STRINGS)[:cut] if cut else b"PK\3\4", "xlsx")


def test_xlsx_hostile_cells(look):
    rows = ('<row><c r="ZZZZ1"><v>1</v></c><c r="A1" t="s"><v>99999999</v></c><c t="s"><v>-5</v></c>'
            '<c s="1"><v>1e308</v></c><c><v>nan</v></c><c><v>x</v></c></row>') * 3
    assert look(xlsx(rows, STRINGS), "xlsx")["sheets"][0]["columns_total"] <= 20_010


# ---- databases and Parquet ---------------------------------------------------------------------


def test_sqlite(look, tmp_path):
    path = tmp_path / "made.db"
    database = sqlite3.connect(path)
    database.execute('CREATE TABLE "odd ""name" (a INTEGER, b TEXT, c BLOB)')
    database.executemany('INSERT INTO "odd ""name" VALUES (?, ?, ?)',
                         [(i, "x" if i % 2 else None, b"\0\xff") for i in range(25_000)])
    database.execute("CREATE VIEW endless AS WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n FROM r) SELECT n FROM r")
    database.commit()
    database.close()
    found = look(path.read_bytes(), "sqlite")
    assert found["tables_total"] == 1
    table = found["tables"][0]
    assert table["name"] == 'odd "name' and table["rows"] == 25_000 and table["sampled"] == 20_000
    assert column(table, "b")["nulls"] == 10_000 and column(table, "c")["type"] == "binary"
    broken = bytearray(path.read_bytes())
    broken[4096:] = b"\xff" * (len(broken) - 4096)
    found = look(bytes(broken), "sqlite")
    assert "error" in found or any("notes" in table for table in found["tables"])
    assert "error" in look(b"SQLite format 3\0" + b"\1" * 50, "sqlite")


def parquet():
    """The footer of a file with 7 rows and the columns id and name; no data."""
    def field(name, kind):
        return b"\x15" + bytes([kind * 2]) + b"\x25\x00\x18" + bytes([len(name)]) + name + b"\x00"

    root = b"\x48\x04root\x15\x04\x00"
    schema = b"\x19\x3c" + root + field(b"id", 2) + field(b"name", 6)
    footer = b"\x15\x02" + schema + b"\x16\x0e" + b"\x00"
    return b"PAR1" + footer + struct.pack("<I", len(footer)) + b"PAR1"


def test_parquet_footer(look, tmp_path):
    path = tmp_path / "file.parquet"
    path.write_bytes(parquet())
    found = profile.parquet_footer(str(path))
    assert found["rows"] == 7 and [(c["name"], c["type"]) for c in found["columns"]] == [
        ("id", "integer"), ("name", "text")]


@pytest.mark.parametrize("data", [b"PAR1", b"PAR1" + b"\xff" * 200 + b"\xc8\0\0\0PAR1", b"PAR1\xff\xff\xff\x7fPAR1",
                                  b"PAR1" + b"\x1c" * 500 + b"\xf4\1\0\0PAR1"])
def test_parquet_bad(look, data):
    assert "error" in look(data, "parquet")


def test_what_other_formats_need(look):
    assert "error" in look(b"ARROW1\0\0nothing", "arrow")
    assert "error" in look(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1nothing", "xls")
