"""mark.query() of the box: what it asks for, and the DataFrame that it makes of a result's file."""

import builtins
import datetime
import decimal
import json
import math
import pathlib
import random
import struct
import sys
import types
import uuid

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src/mark/box/mark.py"

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import gbresult  # noqa: E402

numpy = pytest.importorskip("numpy")
pandas = pytest.importorskip("pandas")

OLD = int(pandas.__version__.split(".")[0]) < 2
UTC = datetime.timezone.utc
LOW, HIGH = -(1 << 63), (1 << 63) - 1


@pytest.fixture
def mark(monkeypatch):
    module = types.ModuleType("mark")
    exec(compile(SOURCE.read_text(encoding="utf-8"), "mark", "exec"), module.__dict__)
    monkeypatch.setattr(builtins, "display", lambda *values, raw=False: None, raising=False)
    return module


def us(*args):
    at = datetime.datetime(*args, tzinfo=UTC) - datetime.datetime(1970, 1, 1, tzinfo=UTC)
    return at.days * 86400 * 10**6 + at.seconds * 10**6 + at.microseconds


def decode(mark, columns, *batches):
    return mark._frame(mark._load(gbresult.encode(columns, batches)), {})


def one(mark, type, *values, **more):
    return decode(mark, [{"name": "x", "type": type, **more}], [list(values)])["x"]


# ---- types ----


def test_whole_numbers(mark):
    whole = one(mark, "int", 1, LOW, HIGH)
    assert whole.dtype == "int64" and whole.tolist() == [1, LOW, HIGH]
    missing = one(mark, "int", 1, None, HIGH)
    assert str(missing.dtype) == "Int64" and missing[2] == HIGH and missing[1] is pandas.NA


def test_truth_and_floats(mark):
    assert one(mark, "bool", 1, 0).dtype == bool
    missing = one(mark, "bool", 1, None, 0)
    assert str(missing.dtype) == "boolean" and missing.tolist() == [True, pandas.NA, False]
    real = one(mark, "float", 0.1, None, math.inf)
    assert real.dtype == "float64" and real[0] == 0.1 and math.isnan(real[1]) and real[2] == math.inf


def test_texts(mark):
    for values in (["a", "", None, "bc"], ["ä€", None, "𝄞", "x"]):
        made = one(mark, "text", *values)
        assert [None if pandas.isna(x) else x for x in made] == values
        assert all(type(x) is str for x in made if not pandas.isna(x))
    assert one(mark, "bytes", b"\x00\xff", None).tolist() == [b"\x00\xff", None]
    assert one(mark, "uuid", "c0ffee00-0000-4000-8000-000000000000")[0].startswith("c0ffee00")


def test_decimals_keep_every_digit(mark):
    made = one(mark, "decimal", "12345678901234567890.123456789", "NaN", None, "-0.10")
    assert made[0] == decimal.Decimal("12345678901234567890.123456789")
    assert made[1].is_nan() and made[2] is None and str(made[3]) == "-0.10"
    assert sum(one(mark, "decimal", "0.1", "0.2")) == decimal.Decimal("0.3")


def test_timestamps(mark):
    at = us(2026, 11, 16, 12, 30, 0, 123456)
    plain = one(mark, "timestamp", at, None)
    assert plain.dtype == ("M8[ns]" if OLD else "M8[us]")
    assert plain[0] == pandas.Timestamp("2026-11-16 12:30:00.123456") and plain[1] is pandas.NaT
    zoned = one(mark, "timestamptz", at, None)
    assert str(zoned.dt.tz) == "UTC" and zoned[1] is pandas.NaT
    assert zoned[0] == pandas.Timestamp("2026-11-16 12:30:00.123456", tz="UTC")
    assert zoned.dt.tz_convert("Europe/Berlin")[0].hour == 13


def test_dates(mark):
    made = one(mark, "date", 0, 20000, None)
    assert made.dtype.kind == "M" and made[1] == pandas.Timestamp("2024-10-04")
    assert made[2] is pandas.NaT


def test_dates_that_pandas_does_not_have(mark):
    made = one(mark, "timestamp", us(1, 1, 1), us(9999, 12, 31, 23, 59, 59, 999999))
    assert made[0] == datetime.datetime(1, 1, 1)
    if OLD:
        assert made.dtype == object
    infinite = one(mark, "timestamptz", LOW, HIGH, us(2026, 1, 1), None)
    assert infinite.dtype == object
    assert infinite.tolist() == [-math.inf, math.inf, datetime.datetime(2026, 1, 1, tzinfo=UTC), None]
    assert one(mark, "date", HIGH, 3).tolist() == [math.inf, datetime.date(1970, 1, 4)]
    assert one(mark, "date", 10**8, 3)[0] == str(numpy.datetime64(10**8, "D"))


def test_times(mark):
    noon = 12 * 3600 * 10**6 + 1
    made = one(mark, "time", 0, noon, None, 86400 * 10**6)
    assert made.tolist() == [datetime.time(0), datetime.time(12, 0, 0, 1), None, "24:00:00"]


def test_json_and_nested(mark):
    made = one(mark, "json", '{"a": [1, 2.5]}', "null", None, "[1, 2]")
    assert made.tolist() == [{"a": [1, 2.5]}, None, None, [1, 2]]
    fields = [{"name": "at", "type": "timestamptz"}, {"name": "price", "type": "decimal"},
              {"name": "tags", "type": "text", "repeated": True}, {"name": "raw", "type": "bytes"},
              {"name": "share", "type": "float"}]
    record = {"at": us(2026, 1, 2), "price": "1.10", "tags": ["a", None], "raw": "AP8=", "share": "NaN"}
    for form in (fields, json.dumps(fields)):
        made = one(mark, "record", json.dumps(record), None, fields=form)[0]
        assert made["at"] == datetime.datetime(2026, 1, 2, tzinfo=UTC)
        assert made["price"] == decimal.Decimal("1.10") and made["tags"] == ["a", None]
        assert made["raw"] == b"\x00\xff" and math.isnan(made["share"])
    rows = one(mark, "record", json.dumps([record, record]), "[]", repeated=True, fields=fields)
    assert rows[0][1]["price"] == decimal.Decimal("1.10") and rows[1] == []
    assert one(mark, "int", "[1, null, 3]", "[[1], [2]]", repeated=True).tolist() == [[1, None, 3], [[1], [2]]]
    assert one(mark, "date", "[1]", repeated=True)[0] == [datetime.date(1970, 1, 2)]


def test_batches_are_one_frame(mark):
    columns = [{"name": "n", "type": "int"}, {"name": "t", "type": "text"}]
    made = decode(mark, columns, [[1, 2], ["a", "b"]], [[3], [None]], [[], []])
    assert made["n"].tolist() == [1, 2, 3] and made["t"].isna().tolist() == [False, False, True]
    assert made.index.tolist() == [0, 1, 2]
    empty = decode(mark, columns)
    assert len(empty) == 0 and list(empty.columns) == ["n", "t"] and empty["n"].dtype == "int64"
    assert decode(mark, []).shape == (0, 0)


def test_columns_of_the_same_name_stay(mark):
    columns = [{"name": "id", "type": "int"}, {"name": "id", "type": "text"}, {"name": "", "type": "int"}]
    made = decode(mark, columns, [[1], ["a"], [2]])
    assert list(made.columns) == ["id", "id", ""] and made.iloc[0].tolist() == [1, "a", 2]


# ---- files that are not right ----


def refused(mark, data):
    with pytest.raises(mark.QueryError) as caught:
        mark._frame(mark._load(data), {})
    assert caught.value.word == "broken"
    return str(caught.value)


GOOD = gbresult.encode([{"name": "n", "type": "int"}, {"name": "t", "type": "text"},
                        {"name": "d", "type": "decimal"}, {"name": "j", "type": "json"},
                        {"name": "w", "type": "timestamptz"}, {"name": "b", "type": "bool"},
                        {"name": "r", "type": "record", "repeated": True,
                         "fields": [{"name": "a", "type": "date"}]}],
                       [[[1, None], ["ä", "b"], ["1.5", None], ["[1]", "{}"], [us(2026, 1, 1), None],
                         [1, 0], ['[{"a": 3}]', None]]])


@pytest.mark.parametrize("data", [
    b"", b"GBRESULT", GOOD[:-8], GOOD + GOOD, b"x" * 100, GOOD.replace(b"GBRESULT", b"GBRESULX"),
    GOOD.replace(b"BTCH", b"HCTB"),
    gbresult.encode([{"name": "x", "type": "int"}], [[[1]]], end=2),
    gbresult.encode([{"name": "x", "type": "money"}], []),
    gbresult.encode([{"name": 3, "type": "int"}], []),
    gbresult.encode([{"name": "x", "type": "int"}] * 1601, []),
    gbresult.encode([{"name": "x", "type": "bool"}], [[[7]]]),
    gbresult.encode([{"name": "x", "type": "time"}], [[[-1]]]),
    gbresult.encode([{"name": "x", "type": "decimal"}], [[["twelve"]]]),
    gbresult.encode([{"name": "x", "type": "text"}], [[[b"\xff"]]]),
    gbresult.encode([{"name": "x", "type": "json"}], [[["{"]]]),
    gbresult.encode([{"name": "x", "type": "json"}], [[["[" * 100000]]]),
    gbresult.encode([{"name": "x", "type": "record"}], [[["3"]]]),
    b"GBRESULT" + gbresult.chunk(b"SCHM", b"[]"),
    b"GBRESULT" + gbresult.chunk(b"SCHM", b'{"columns": [{"name": "x", "type": "int"}]}')
    + gbresult.chunk(b"BTCH", struct.pack("<QQ", 1 << 62, 0)),
    b"GBRESULT" + b"SCHM" + bytes(4) + struct.pack("<Q", (1 << 64) - 1),
])
def test_damaged_files(mark, data):
    refused(mark, data)


def test_offsets_that_lie(mark):
    for offsets in ([0, 9], [0, -1], [1, 2], [0, 1 << 62]):
        batch = struct.pack("<QQqq", 1, 0, *offsets) + b"ab\0\0\0\0\0\0"
        refused(mark, b"GBRESULT" + gbresult.chunk(b"SCHM", b'{"columns": [{"name": "x", "type": "text"}]}')
                + gbresult.chunk(b"BTCH", batch) + gbresult.chunk(b"END ", b'{"rows": 1}'))


def test_random_damage(mark):
    """Whatever the bytes are: a frame, or our error."""
    chance = random.Random(14)
    assert mark._frame(mark._load(GOOD), {}).shape == (2, 7)
    for _ in range(1500):
        data = bytearray(GOOD)
        for _ in range(chance.randint(1, 6)):
            data[chance.randrange(len(data))] = chance.choice([0, 1, 255, chance.randrange(256)])
        if chance.random() < 0.2:
            del data[chance.randrange(len(data)):]
        try:
            mark._frame(mark._load(bytes(data)), {})
        except mark.QueryError:
            pass


# ---- asking ----


@pytest.fixture
def service(mark, monkeypatch, tmp_path):
    """A service that notes what it is asked, and answers with what it has."""
    state = types.SimpleNamespace(asked=[], answer={}, data=None)
    asks = types.ModuleType("glovebox_runner.asks")

    class AskError(Exception):
        pass

    def ask(op, **more):
        state.asked.append(json.loads(json.dumps({"op": op, **more})))
        if state.data is not None:
            (tmp_path / ".mark").mkdir()
            (tmp_path / ".mark/q1.gbr").write_bytes(state.data)
        return state.answer

    asks.ask, asks.AskError = ask, AskError
    package = types.ModuleType("glovebox_runner")
    package.asks = asks
    monkeypatch.setitem(sys.modules, "glovebox_runner", package)
    monkeypatch.setitem(sys.modules, "glovebox_runner.asks", asks)
    mark.WORKSPACE = str(tmp_path)
    state.workspace = tmp_path
    return state


def test_a_query(mark, service, capsys):
    service.data = gbresult.encode([{"name": "n", "type": "int"}], [[[7]]])
    service.answer = {"success": True, "path": ".mark/q1.gbr", "rows": 1, "ms": 3, "notices": ["careful"]}
    made = mark.query("shop", "SELECT $1", [7])
    assert made["n"].tolist() == [7]
    assert service.asked == [{"op": "query", "source": "shop", "sql": "SELECT $1", "params": [7]}]
    assert made.attrs["query"]["source"] == "shop" and made.attrs["query"]["rows"] == 1
    assert "careful" in capsys.readouterr().err
    assert list(service.workspace.iterdir()) == []  # nothing is left behind


def test_a_damaged_result_is_removed_too(mark, service):
    service.data = b"nonsense"
    service.answer = {"success": True, "path": ".mark/q1.gbr"}
    with pytest.raises(mark.QueryError):
        mark.query("shop", "SELECT 1")
    assert list(service.workspace.iterdir()) == []


def test_a_refusal(mark, service):
    service.answer = {"success": False, "word": "too-expensive", "message": "it would cost 1 USD"}
    with pytest.raises(mark.QueryError, match="it would cost 1 USD") as caught:
        mark.query("shop", "SELECT 1")
    assert caught.value.word == "too-expensive" and isinstance(caught.value, RuntimeError)


def test_parameters(mark, service):
    service.answer = {"success": False, "message": "no"}
    given = [None, True, 3, 1 << 70, 0.5, math.nan, math.inf, "ä", datetime.date(2026, 1, 2),
             datetime.datetime(2026, 1, 2, 3, tzinfo=UTC), decimal.Decimal("1.10"), uuid.UUID(int=1),
             numpy.int64(4), numpy.float64(0.25), pandas.Timestamp("2026-01-02"), pandas.NaT, [1, "a"],
             numpy.array([1, 2]), {3, 1}]
    sent = [None, True, 3, str(1 << 70), 0.5, None, "Infinity", "ä", "2026-01-02",
            "2026-01-02T03:00:00+00:00", "1.10", str(uuid.UUID(int=1)), 4, 0.25, "2026-01-02T00:00:00",
            None, [1, "a"], [1, 2], [1, 3]]
    for params, form in ((given, sent), ({"a": 1, "b": None}, {"a": 1, "b": None}), (5, [5]), ("x", ["x"])):
        with pytest.raises(mark.QueryError):
            mark.query("shop", "SELECT 1", params)
        assert service.asked[-1]["params"] == form
    for params in ([b"x"], [[[1]]], [object()], {1: 2}):
        with pytest.raises(TypeError):
            mark.query("shop", "SELECT 1", params)
    with pytest.raises(TypeError):
        mark.query("shop", 3)


def test_sources_and_tables(mark, service):
    service.answer = {"success": True, "sources": [{"name": "shop"}], "tables": [{"name": "orders"}]}
    assert mark.sources() == [{"name": "shop"}] and mark.tables("shop") == [{"name": "orders"}]
    assert service.asked == [{"op": "sources"}, {"op": "tables", "source": "shop"}]


def test_without_a_service(mark, monkeypatch):
    monkeypatch.setitem(sys.modules, "glovebox_runner", None)
    with pytest.raises(mark.QueryError, match="session of Mark"):
        mark.query("shop", "SELECT 1")


# ---- recorded results ----


def test_keys(mark):
    """tests/unit/test_broker.c has the same."""
    assert mark._query_key("shop", "SELECT 1", None) == (
        "547e796dd314b3511147a7d86cf1eb0a40ce9d97d6e7e1b8f587c3b9fe6be5d0")
    assert mark._query_key("shop", "SELECT $1", [None, True, -3, 0.5, "ä", [1, "x"]]) == (
        "5ff8389b6bf7f629a83e668a17394e513b83443bcd008e36c75dd523b4707c66")
    assert mark._query_key("bq", "SELECT @b", {"b": 1, "a": "z", "ä": None}) == (
        "68828fa2663957fb794785f2d64fcc769311900a37e78636f61567e3463f9755")
    base = mark._query_key("shop", "SELECT 1", [1, "a"])
    others = [("shop2", "SELECT 1", [1, "a"]), ("shop", "SELECT 2", [1, "a"]), ("shop", "SELECT 1", [1]),
              ("shop", "SELECT 1", ["1", "a"]), ("shop", "SELECT 1", [1.0, "a"]), ("shop", "SELECT 1", None),
              ("shop", "SELECT 1", [True, "a"]), ("shop", "SELECT 1", [[1, "a"]])]
    keys = {mark._query_key(*other) for other in others}
    assert len(keys) == len(others) and base not in keys
    assert mark._query_key("s", "q", {"b": 1, "a": 2}) == mark._query_key("s", "q", {"a": 2, "b": 1})


def test_replay(mark, tmp_path):
    first = gbresult.encode([{"name": "n", "type": "int"}], [[[1]]])
    (tmp_path / "second").write_bytes(gbresult.encode([{"name": "n", "type": "int"}], [[[2]]]))
    mark._replay = {mark._query_key("shop", "SELECT n", None): [first, str(tmp_path / "second")],
                    mark._query_key("shop", "bad", None): [{"word": "sql", "message": "no such table"}]}
    got = [mark.query("shop", "SELECT n")["n"][0] for _ in range(3)]
    assert got == [1, 2, 2]  # the same SQL had two results
    with pytest.raises(mark.QueryError, match="no such table") as caught:
        mark.query("shop", "bad")
    assert caught.value.word == "sql"
    with pytest.raises(mark.QueryError, match="not recorded") as caught:
        mark.query("shop", "SELECT 2")
    assert caught.value.word == "not-recorded" and mark.sources() == []
