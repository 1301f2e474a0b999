"""The profile of an attached file: what it is, its columns, what is missing, which dates it has.

Theory of operation. This text is embedded in the program and runs in a throw-away box, over a file that may be hostile,
damaged or huge; the box bounds what it can do, and the host checks what it prints. profile_main() prints one JSON object.

It works with the standard library alone: text, CSV, JSON, workbooks and SQLite are read here, row by row. Parquet and Arrow
files are read with pyarrow where the box has it, old Excel files with pandas and xlrd. Statistics are of the first rows, as
many as fit into CELLS_MAX cells; the rest is counted while there is time. Whatever is not the whole is called so: "sampled"
is less than "rows", "rows_exact" is false, or a note says what was left out.
"""
import codecs
import collections
import csv
import datetime
import itertools
import json
import math
import re
import sys
import time

ROWS_MAX = 100_000  # that statistics are of
CELLS_MAX = 1_000_000
CELL_BYTES_MAX = 48_000_000  # of those cells together
COLUMNS_MAX = 200  # that are described
LINE_MAX = 8_000_000  # characters
ENCODING_BYTES_MAX = 128_000_000  # that are looked at to find the encoding
TABLES_MAX = 40
UNPACKED_MAX = 1_000_000_000  # bytes of a workbook
TEXT_CUT = 60
OUTPUT_MAX = 56_000

NULLS = frozenset(["", "na", "n/a", "nan", "null", "none", "nil", "-", "--", "#n/a", "nat", "?", "(null)", "\\n"])


class Refused(Exception):
    """The file cannot be profiled; the text says why."""


class Late(Exception):
    """There is no time left."""


class Clock:
    def __init__(self, seconds):
        self.end = time.monotonic() + seconds

    def is_over(self):
        return time.monotonic() > self.end


def cut(value, size=TEXT_CUT):
    value = value if isinstance(value, str) else str(value)
    return value if len(value) <= size else value[: size - 1] + "\u2026"


# ---- types of values ----

INTEGER = re.compile(r"[+-]?\d{1,18}\Z")
NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3})?\Z")
THOUSANDS = re.compile(r"[+-]?\d{1,3}(?:,\d{3})+(?:\.\d+)?\Z")
COMMA = re.compile(r"[+-]?(?:\d{1,3}(?:\.\d{3})+|\d+),\d+\Z")
POINTS = re.compile(r"[+-]?\d{1,3}(?:\.\d{3}){2,}\Z")
ZEROS = re.compile(r"0\d+\Z")
AROUND = re.compile(r"(?:([$\u20ac\u00a3\u00a5])\s?)?(.*?)(?:\s?(%|[$\u20ac\u00a3\u00a5]|EUR|USD|GBP|CHF))?\Z", re.S)
BOOLEANS = frozenset(["true", "false", "yes", "no", "t", "f", "y", "n"])
MONTHS = {m: i % 12 + 1 for i, m in enumerate("jan feb mar apr may jun jul aug sep oct nov dec".split())}

DAY = r"(?P<{0}>\d{{1,2}})"
TIME = r"(?:[T ](?P<H>\d{1,2}):(?P<M>\d{2})(?::(?P<S>\d{2})(?:[.,]\d{1,9})?)?\s?(?P<Z>Z|[+-]\d{2}:?\d{2}|[AaPp][Mm])?)?\Z"
DATES = [
    (re.compile(r"(?P<y>\d{4})-(?P<m>\d{1,2})-(?P<d>\d{1,2})" + TIME), "%Y-%m-%d"),
    (re.compile(r"(?P<y>\d{4})/(?P<m>\d{1,2})/(?P<d>\d{1,2})" + TIME), "%Y/%m/%d"),
    (re.compile(r"(?P<d>\d{1,2})\.(?P<m>\d{1,2})\.(?P<y>\d{4}|\d{2})" + TIME), "%d.%m.%Y"),
    (re.compile(r"(?P<a>\d{1,2})/(?P<b>\d{1,2})/(?P<y>\d{4}|\d{2})" + TIME), "/"),
    (re.compile(r"(?P<a>\d{1,2})-(?P<b>\d{1,2})-(?P<y>\d{4})" + TIME), "-"),
    (re.compile(r"(?P<d>\d{1,2})[ -](?P<n>[A-Za-z]{3})[a-z]*[ -](?P<y>\d{4}|\d{2})" + TIME), "%d %b %Y"),
    (re.compile(r"(?P<n>[A-Za-z]{3})[a-z]*\.? (?P<d>\d{1,2}), (?P<y>\d{4})" + TIME), "%b %d, %Y"),
    (re.compile(r"(?P<y>\d{4})-(?P<m>\d{2})\Z"), "%Y-%m"),
]


def as_number(text):
    """The number that a text means and how it is written ("" for plain), or None."""
    if not 0 < len(text) <= 40:
        return None
    if INTEGER.match(text):
        return int(text), ""
    if text.isdigit():
        return None  # longer than any number that can be computed with exactly: an identifier
    if NUMBER.match(text):
        value = float(text)
        return (value, "") if math.isfinite(value) else None
    before, core, after = AROUND.match(text).groups()
    sign = before or after or ""
    if THOUSANDS.match(core):
        return float(core.replace(",", "")), "1,234.5" + sign
    if COMMA.match(core):
        return float(core.replace(".", "").replace(",", ".")), "1.234,5" + sign
    if POINTS.match(core):
        return float(core.replace(".", "")), "1.234.567" + sign
    if sign and (INTEGER.match(core) or NUMBER.match(core)) and len(core) < 40:
        return float(core), "1234.5" + sign
    return None


def as_date(text, day_first):
    """(ISO text, format, is a time) or None."""
    if not 6 <= len(text) <= 40 or not any(c.isdigit() for c in text):
        return None
    for pattern, form in DATES:
        match = pattern.match(text)
        if match:
            return date_of(match.groupdict(), form, day_first)
    return None


def date_of(parts, form, day_first):
    year = int(parts["y"])
    if len(parts["y"]) == 2:
        year += 2000 if year < 70 else 1900
        form = form.replace("%Y", "%y")
    if form in "/-":
        a, b = int(parts["a"]), int(parts["b"])
        day, month = (a, b) if day_first else (b, a)
        form = form.join(["%d", "%m", "%Y"] if day_first else ["%m", "%d", "%Y"])
    else:
        day = int(parts.get("d") or 1)
        month = MONTHS.get((parts.get("n") or "").lower()) if parts.get("n") else int(parts["m"])
    hour = parts.get("H")
    try:
        date = datetime.date(year, month or 0, day)
        if hour is None:
            return date.isoformat(), form, False
        clock = datetime.time(int(hour), int(parts["M"]), int(parts["S"] or 0))
    except ValueError:
        return None
    form += "T%H:%M" + (":%S" if parts["S"] else "") + (" " + ("AM/PM" if parts["Z"][-1] in "mM" else "zone") if parts["Z"] else "")
    return f"{date.isoformat()}T{clock.isoformat()}", form, True


def days_first(texts):
    """Whether days come before months in 3/4/2026: only a part above 12 tells."""
    first = second = 0
    for text in texts:
        match = re.match(r"(\d{1,2})[/-](\d{1,2})[/-]\d{2,4}", text)
        if match:
            first, second = max(first, int(match[1])), max(second, int(match[2]))
    return first > 12, first <= 12 and second <= 12 and first > 0


# ---- columns ----


def text_column(name, counts, nulls):
    """Describes a column of texts: @counts says how often each value occurs, without the missing ones."""
    total = sum(counts.values())
    column = {"name": cut(name, 120), "type": "empty", "nulls": nulls, "distinct": len(counts)}
    if total == 0:
        return column
    stripped = {text: text.strip() for text in counts}
    kinds = classify(counts, stripped)
    kind, matching = kinds["kind"], kinds["matching"]
    column["type"] = kind
    if 0 < matching < total:
        column["odd"] = total - matching
        column["notes"] = [f"not of that type, e.g. {cut(kinds['odd'], 30)!r}"]
    notes = column.setdefault("notes", [])
    notes.extend(kinds["notes"])
    if any(text != stripped[text] for text in counts):
        notes.append("some values begin or end with blanks")
    if kinds["formats"]:
        column["formats"] = [cut(f, 32) for f in kinds["formats"][:6]]
    if kinds["low"] is not None:
        column["min"], column["max"] = kinds["low"], kinds["high"]
    if kind == "text":
        column["min_length"] = min(map(len, counts))
        column["max_length"] = max(map(len, counts))
    common = [text for text, _ in counts.most_common(12)]
    if kind in ("text", "boolean", "integer") and len(counts) <= 12:
        column["values"] = [cut(text, 40) for text in sorted(common)]
    else:
        column["examples"] = [cut(text, 40) for text in itertools.islice(counts, 3)]
    if not notes:
        del column["notes"]
    return column


def classify(counts, stripped):
    """The kind of most values, with their range and the formats of dates and numbers."""
    result = {"kind": "text", "matching": 0, "formats": [], "low": None, "high": None, "odd": "", "notes": []}
    total = sum(counts.values())
    need = 0.9 * total
    numbers = {text: as_number(core) for text, core in stripped.items()}
    matching = sum(counts[text] for text, number in numbers.items() if number)
    if matching >= need:
        return classify_numbers(counts, stripped, numbers, matching, result)
    if all(core.lower() in BOOLEANS for core in stripped.values()):
        return {**result, "kind": "boolean", "matching": total}
    first, unclear = days_first(stripped.values())
    dates = {text: as_date(core, first) for text, core in stripped.items()}
    matching = sum(counts[text] for text, date in dates.items() if date)
    if matching < need:
        return result
    found = [date for date in dates.values() if date]
    result["kind"] = "datetime" if any(date[2] for date in found) else "date"
    result["matching"] = matching
    result["formats"] = [form for form, _ in collections.Counter(date[1] for date in found).most_common()]
    result["low"], result["high"] = min(date[0] for date in found), max(date[0] for date in found)
    result["odd"] = next((text for text, date in dates.items() if not date), "")
    if unclear:
        result["notes"].append("no date tells whether the day or the month comes first")
    if len(result["formats"]) > 1:
        result["notes"].append("dates are written in several ways")
    return result


def classify_numbers(counts, stripped, numbers, matching, result):
    zeros = sum(1 for core in stripped.values() if ZEROS.match(core))
    if zeros and zeros * 2 > len(stripped):
        result["notes"].append("digits with leading zeros: probably an identifier, not a number")
        return result
    found = [number for number in numbers.values() if number]
    values = [number[0] for number in found]
    result["kind"] = "integer" if all(isinstance(value, int) for value in values) else "number"
    result["matching"] = matching
    result["formats"] = [form for form in dict.fromkeys(number[1] for number in found) if form]
    result["low"], result["high"] = min(values), max(values)
    result["odd"] = next((text for text, number in numbers.items() if not number), "")
    return result


def typed_column(name, values):
    """Describes a column of Python values, as JSON, workbooks and databases have them."""
    present = [value for value in values if value is not None and value != "" and value == value]
    nulls = len(values) - len(present)
    kinds = collections.Counter(map(kind_of, present))
    if not kinds or set(kinds) == {"text"}:
        texts = collections.Counter(cut(value, 2000) for value in present)
        return text_column(name, texts, nulls)
    wide = {"integer": "number", "date": "datetime"}
    if set(kinds) in ({"integer", "number"}, {"date", "datetime"}):
        kind, odd = ("number" if kinds["number"] else "datetime"), 0
    else:
        kind = kinds.most_common(1)[0][0]
        odd = len(present) - kinds[kind]
    same = [v for v in present if kind in (kind_of(v), wide.get(kind_of(v)))]
    column = {"name": cut(name, 120), "type": kind, "nulls": nulls}
    plain = [plain_of(value) for value in present]
    column["distinct"] = len(set(map(str, plain)))
    if odd:
        column["odd"] = odd
        column["notes"] = ["has values of several types: " + ", ".join(sorted(kinds))]
    if kind in ("integer", "number", "date", "datetime"):
        ordered = [plain_of(value) for value in same]
        column["min"], column["max"] = bound(min(ordered)), bound(max(ordered))
    if kind in ("list", "object"):
        column["examples"] = [cut(json.dumps(value, ensure_ascii=False, default=str)) for value in same[:1]]
    else:
        column["examples"] = [bound(value) for value in dict.fromkeys(plain[:50])][:3]
    return column


def bound(value):
    """A number as it is if JSON can carry it, else text."""
    if isinstance(value, bool) or (isinstance(value, int) and abs(value) < 2**63):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return cut(value)


def kind_of(value):
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "integer"
    if isinstance(value, (float,)):
        return "number"
    if isinstance(value, datetime.datetime):
        return "datetime"
    if isinstance(value, datetime.date):
        return "date"
    if isinstance(value, (list, tuple)):
        return "list"
    if isinstance(value, dict):
        return "object"
    if isinstance(value, (bytes, bytearray, memoryview)):
        return "binary"
    if isinstance(value, str):
        return "text"
    return "number" if type(value).__name__ == "Decimal" else "text"


def plain_of(value):
    if isinstance(value, (datetime.date, datetime.datetime, datetime.time)):
        return value.isoformat()
    if isinstance(value, (bytes, bytearray, memoryview)):
        return f"{len(bytes(value))} bytes"
    if type(value).__name__ == "Decimal":
        return float(value)
    if isinstance(value, (list, tuple, dict)):
        return cut(json.dumps(value, default=str), 200)
    return value


# ---- tables ----


class Sample:
    """The first rows of a table, as many as its bounds allow, and the number of all."""

    def __init__(self, clock):
        self.clock = clock
        self.rows = []
        self.cells = self.bytes = self.total = 0
        self.exact = True
        self.widest = 0

    def fill(self, rows):
        try:
            self.take(iter(rows))
        except Late:
            self.exact = False

    def take(self, rows):
        for row in rows:
            self.total += 1
            self.widest = max(self.widest, len(row))
            self.rows.append(row[:COLUMNS_MAX] if len(row) > COLUMNS_MAX else row)
            self.cells += min(len(row), COLUMNS_MAX) + 1
            self.bytes += sum(len(c) if isinstance(c, str) else 16 for c in self.rows[-1])
            if self.total >= ROWS_MAX or self.cells >= CELLS_MAX or self.bytes >= CELL_BYTES_MAX or self.is_late(0.5):
                self.count(rows)
                return

    def is_late(self, share):
        return self.total % 256 == 0 and time.monotonic() > self.clock.end - (1 - share) * LATE

    def count(self, rows):
        while True:
            chunk = list(map(len, itertools.islice(rows, 4096)))
            if not chunk:
                return
            self.total += len(chunk)
            self.widest = max(self.widest, max(chunk))
            if self.clock.is_over():
                self.exact = False
                return

    def describe(self):
        table = {"rows": self.total, "rows_exact": self.exact, "columns_total": self.widest}
        if len(self.rows) < self.total:
            table["sampled"] = len(self.rows)
        return table


LATE = 10.0  # seconds of the whole time; set by profile_main()


def duplicates(rows):
    try:
        return len(rows) - len(set(map(tuple, rows)))
    except TypeError:
        return len(rows) - len({repr(row) for row in rows})


def describe_texts(sample, header, names):
    """A table of texts, with statistics of its sample."""
    rows, table = sample.rows, sample.describe()
    width = max(sample.widest, len(names))
    table["columns_total"] = width
    table["header"] = header
    if rows:
        table["duplicate_rows"] = duplicates(rows)
    notes = []
    odd = sum(1 for row in rows if len(row) < min(width, COLUMNS_MAX))
    if odd:
        notes.append(f"{odd} rows have fewer fields than the widest, which has {width}")
    repeated = [name for name, count in collections.Counter(names).items() if count > 1]
    if repeated:
        notes.append("column names occur more than once: " + ", ".join(repr(cut(n, 30)) for n in repeated[:5]))
    columns = []
    for i in range(min(width, COLUMNS_MAX)):
        counts = collections.Counter(row[i] if i < len(row) else "" for row in rows)
        nulls = sum(counts.pop(text) for text in list(counts) if text.strip().lower() in NULLS)
        columns.append(text_column(names[i] if i < len(names) else f"column {i + 1}", counts, nulls))
        if sample.clock.is_over():
            notes.append(f"there was time for {i + 1} columns only")
            break
    if width > len(columns) and width > COLUMNS_MAX:
        notes.append(f"only the first {len(columns)} of {width} columns are described")
    table["columns"] = columns
    if notes:
        table["notes"] = notes
    return table


def describe_values(sample, names):
    """A table of Python values."""
    rows, table = sample.rows, sample.describe()
    table["columns_total"] = max(len(names), sample.widest)
    if rows:
        table["duplicate_rows"] = duplicates(rows)
    table["columns"] = [
        typed_column(str(name), [row[i] if i < len(row) else None for row in rows]) for i, name in enumerate(names[:COLUMNS_MAX])
    ]
    return table


def looks_like_header(rows):
    """Whether the first row names the columns: texts, all different, none of them data."""
    first = [cell.strip() for cell in rows[0]]
    if len(rows) < 2 or not any(first):
        return len(rows) == 1 and bool(any(first)) and not any(as_number(cell) for cell in first)
    filled = [cell for cell in first if cell]
    if len(set(filled)) < len(filled) * 0.9 or len(filled) < len(first) * 0.5:
        return False
    if any(as_number(cell) or as_date(cell, True) for cell in filled):
        years = all(re.match(r"(19|20)\d\d\Z", cell) for cell in filled if as_number(cell))
        return years and any(not as_number(cell) for cell in filled)
    below = [row[i].strip() for row in rows[1:200] for i in range(min(len(row), len(first))) if i < 50]
    if any(as_number(cell) or as_date(cell, True) for cell in below):
        return True
    # All texts: a header is not repeated below.
    return not any(cell in column for cell, column in zip(first[:50], map(set, zip(*(row[:50] for row in rows[1:200])))) if cell)


# ---- text files ----


def find_encoding(path):
    with open(path, "rb") as file:
        head = file.read(4)
        for mark, name in (
            (codecs.BOM_UTF8, "utf-8-sig"),
            (codecs.BOM_UTF32_LE, "utf-32"),
            (codecs.BOM_UTF32_BE, "utf-32"),
            (codecs.BOM_UTF16_LE, "utf-16"),
            (codecs.BOM_UTF16_BE, "utf-16"),
        ):
            if head.startswith(mark):
                return name
        file.seek(0)
        decoder = codecs.getincrementaldecoder("utf-8")()
        odd = set()
        try:
            for piece in iter(lambda: file.read(1 << 20), b""):
                decoder.decode(piece)
                if file.tell() >= ENCODING_BYTES_MAX:
                    return "utf-8"
            decoder.decode(b"", True)
            return "utf-8"
        except UnicodeDecodeError:
            file.seek(0)
        for piece in iter(lambda: file.read(1 << 20), b""):
            odd.update(piece)
            if file.tell() >= ENCODING_BYTES_MAX:
                break
        # cp1252 has five bytes without a meaning; text in latin-1 proper hardly has others of that range
        return "latin-1" if odd & {0x81, 0x8D, 0x8F, 0x90, 0x9D} else "cp1252"


def lines_of(file):
    while True:
        line = file.readline(LINE_MAX)
        if not line:
            return
        if len(line) >= LINE_MAX and not line.endswith("\n"):
            raise Refused(f"a line has more than {LINE_MAX} characters")
        yield line.replace("\0", "") if "\0" in line else line


def open_text(path, encoding):
    return open(path, encoding=encoding, errors="replace", newline="")


def find_delimiter(path, encoding, expected):
    """The one that splits the first rows most evenly, and those rows."""
    with open_text(path, encoding) as file:
        head, size = [], 0
        for line in lines_of(file):
            head.append(line)
            size += len(line)
            if len(head) == 100 or (size > 2_000_000 and len(head) > 1):
                break
    best, best_score, best_rows = expected, (0, 0), None
    for delimiter in dict.fromkeys([expected, ",", ";", "\t", "|"]):
        try:
            rows = [row for row in csv.reader(head, delimiter=delimiter) if row]
        except csv.Error:
            continue
        rows = rows[:-1] if len(head) == 100 and len(rows) > 1 else rows  # the last may go on
        if not rows:
            continue
        width, count = collections.Counter(map(len, rows)).most_common(1)[0]
        score = (count / len(rows) if width > 1 else 0, width)
        if best_rows is None or (score[0] > best_score[0] + 0.05 or (score[0] >= best_score[0] - 0.05 and score[1] > best_score[1])):
            best, best_score, best_rows = delimiter, score, rows
    return best, best_rows or [[]]


def profile_csv(path, clock, expected=","):
    csv.field_size_limit(LINE_MAX)
    encoding = find_encoding(path)
    delimiter, head = find_delimiter(path, encoding, expected)
    header = looks_like_header(head)
    sample, notes, names = Sample(clock), [], []
    with open_text(path, encoding) as file:
        reader = (row for row in csv.reader(lines_of(file), delimiter=delimiter) if row)
        try:
            if header:
                names = next(reader, [])
                sample.widest = len(names)
            sample.fill(reader)
        except csv.Error as error:
            if not sample.rows:
                raise Refused(f"it cannot be read as CSV: {error}") from None
            sample.exact = False
            notes.append(f"reading stopped after {sample.total} rows: {error}")
    result = {"encoding": encoding.replace("-sig", " with BOM"), "delimiter": delimiter}
    result.update(describe_texts(sample, header, names))
    if encoding in ("cp1252", "latin-1"):
        notes.append(f"it is not UTF-8; {encoding} is a guess")
    notes += result.pop("notes", [])
    if notes:
        result["notes"] = notes
    return result


def profile_text(path, clock):
    encoding = find_encoding(path)
    lines = longest = 0
    first = []
    with open_text(path, encoding) as file:
        for line in lines_of(file):
            lines += 1
            longest = max(longest, len(line))
            if lines <= 3:
                first.append(cut(line.rstrip("\r\n"), 60))
            if lines % 65536 == 0 and clock.is_over():
                break
    column = {"name": "line", "type": "text", "max_length": longest, "examples": first}
    return {"encoding": encoding, "rows": lines, "rows_exact": not clock.is_over(), "columns_total": 1, "header": False, "columns": [column]}


# ---- JSON ----


def shape_of(value, depth=5):
    if isinstance(value, dict):
        if depth == 0:
            return "object"
        shape = {cut(key, 60): shape_of(item, depth - 1) for key, item in itertools.islice(value.items(), 40)}
        if len(value) > 40:
            shape["..."] = f"{len(value) - 40} more"
        return shape
    if isinstance(value, list):
        if not value or depth == 0:
            return "list"
        return [shape_of(merge(value[:50]), depth - 1), f"{len(value)} items"]
    return kind_of(value) if value is not None else "null"


def merge(items):
    """One item that stands for all: of objects, one with the members of each."""
    if all(isinstance(item, dict) for item in items):
        whole = {}
        for item in items:
            for key, value in item.items():
                if whole.get(key) is None:
                    whole[key] = value
        return whole
    return items[0]


def records_table(records, clock, total=None, exact=True):
    """A table of objects: one column for each member."""
    sample = Sample(clock)
    names = list(itertools.islice(dict.fromkeys(key for record in records for key in record), 100_000))
    shown = names[:COLUMNS_MAX]
    sample.fill([record.get(name) for name in shown] for record in records)
    if total is not None:
        sample.total, sample.exact = total, exact
    table = describe_values(sample, shown)
    table["columns_total"] = len(names)
    return table


def first_elements(path, encoding, size):
    """The elements of a large JSON array that are in its first characters."""
    with open_text(path, encoding) as file:
        text = file.read(size)
    decoder, items, at = json.JSONDecoder(), [], text.find("[") + 1
    if at == 0 or text[: at - 1].strip("\ufeff \t\r\n"):
        return None
    while len(items) < ROWS_MAX:
        at = re.compile(r"[\s,]*").match(text, at).end()
        try:
            item, at = decoder.raw_decode(text, at)
        except ValueError:
            return items
        items.append(item)
    return items


def profile_json(path, clock):
    encoding = find_encoding(path)
    notes, exact = [], True
    with open(path, "rb") as file:
        size = file.seek(0, 2)
    if size > 16_000_000:
        value = first_elements(path, encoding, 8_000_000)
        exact = False
        if not value:
            raise Refused("the file is too large to be read as one value; make it JSON lines, one record in each line")
        notes.append(f"the file is large: this is of its first {len(value)} elements")
    else:
        with open_text(path, encoding) as file:
            try:
                value = json.load(file)
            except RecursionError:
                raise Refused("it is nested too deeply") from None
            except ValueError as error:
                raise Refused(f"it is not valid JSON: {cut(error, 120)}") from None
    result = {"encoding": encoding, "shape": shape_of(value)}
    records = value if isinstance(value, list) else None
    if records and all(isinstance(item, dict) for item in records):
        result.update(records_table(records, clock))
        result["rows_exact"] = exact
    elif isinstance(value, dict):
        # {"data": [{...}, ...]}: the longest list of objects in it
        lists = {k: v for k, v in value.items() if isinstance(v, list) and v and all(isinstance(i, dict) for i in v)}
        tables = sorted(lists.items(), key=lambda item: -len(item[1]))[:10]
        if tables:
            result["tables"] = [{"name": cut(key, 120), **records_table(items, clock)} for key, items in tables]
    if notes:
        result["notes"] = notes
    return result


def profile_jsonl(path, clock):
    encoding = find_encoding(path)
    records, total, bad, size, exact = [], 0, 0, 0, True
    with open_text(path, encoding) as file:
        for line in lines_of(file):
            if not line.strip():
                continue
            total += 1
            if size < CELL_BYTES_MAX // 2 and len(records) < ROWS_MAX and not (total % 256 == 0 and time.monotonic() > clock.end - LATE / 2):
                size += len(line)
                try:
                    records.append(json.loads(line))
                except (ValueError, RecursionError):
                    bad += 1
            elif total % 4096 == 0 and clock.is_over():
                exact = False
                break
    objects = [record for record in records if isinstance(record, dict)]
    if not objects:
        raise Refused("its lines are not JSON objects" if records or bad else "the file is empty")
    result = {"encoding": encoding, **records_table(objects, clock, total, exact)}
    result["sampled"] = len(objects)
    notes = []
    if bad:
        notes.append(f"{bad} of the first {len(records) + bad} lines are not valid JSON")
    if len(objects) < len(records):
        notes.append(f"{len(records) - len(objects)} lines are not objects")
    if any(isinstance(v, (dict, list)) for record in objects[:100] for v in record.values()):
        result["shape"] = shape_of(objects[:50])
    if notes:
        result["notes"] = notes
    return result


# ---- workbooks: streamed from their XML, so that a large or hostile one costs no memory ----


def open_zip(path):
    import zipfile

    try:
        archive = zipfile.ZipFile(path)
        infos = archive.infolist()
    except (zipfile.BadZipFile, NotImplementedError, ValueError, OSError) as error:
        raise Refused(f"the workbook is damaged: {cut(error, 100)}") from None
    if len(infos) > 10_000:
        raise Refused(f"the workbook has {len(infos)} parts, which no spreadsheet program writes")
    size = sum(info.file_size for info in infos)
    if size > UNPACKED_MAX:
        raise Refused(f"unpacked, the workbook would have {size // 1_000_000} MB; save what you need of it as CSV")
    if any(info.flag_bits & 1 for info in infos):
        raise Refused("the workbook is protected by a password; save it without one")
    return archive


def xml_events(archive, name, clock, events=("end",)):
    """Elements of a part, each forgotten once it was seen."""
    from xml.etree import ElementTree

    with archive.open(name) as file:
        head = file.read(4096)
        if b"<!DOCTYPE" in head or b"<!ENTITY" in head:
            raise Refused("the workbook defines XML entities, which no spreadsheet program does")
    above = []
    with archive.open(name) as file:
        for number, (event, element) in enumerate(ElementTree.iterparse(file, events=("start", "end"))):
            tag = element.tag.rpartition("}")[2]
            if event == "end":
                above.pop()
            if event in events:
                yield event, tag, element
            if event == "start":
                above.append(element)
            elif tag in FORGET and above:
                above[-1].clear()
            if number % 16_384 == 0 and clock.is_over():
                raise Late


FORGET = frozenset(["row", "si", "table-row"])
LETTERS = re.compile(r"([A-Z]{1,4})")


def column_number(reference, default):
    match = LETTERS.match(reference or "")
    if not match:
        return default
    number = 0
    for letter in match[1]:
        number = number * 26 + ord(letter) - 64
    return min(number - 1, 20_000)


def xlsx_strings(archive, clock):
    if "xl/sharedStrings.xml" not in archive.namelist():
        return []
    strings, size = [], 0
    for _, tag, element in xml_events(archive, "xl/sharedStrings.xml", clock):
        if tag == "si":
            text = "".join(node.text or "" for node in element.iter() if node.tag.endswith("}t"))
            strings.append(text[:2000])
            size += len(strings[-1]) + 50
            if size > 120_000_000:
                raise Refused("the workbook has more text than can be looked at")
    return strings


def xlsx_dates(archive, clock):
    """Numbers of the styles that show a number as a date."""
    if "xl/styles.xml" not in archive.namelist():
        return set()
    formats, styles, inside = {}, [], False
    for event, tag, element in xml_events(archive, "xl/styles.xml", clock, ("start", "end")):
        if tag == "cellXfs":
            inside = event == "start"
        elif event == "start" and tag == "numFmt":
            formats[element.get("numFmtId")] = element.get("formatCode") or ""
        elif event == "start" and tag == "xf" and inside:
            styles.append(element.get("numFmtId") or "0")
    known = {str(i) for i in [*range(14, 23), *range(27, 37), *range(45, 48), *range(50, 59)]}

    def is_date(number):
        code = re.sub(r'"[^"]*"|\\.|\[[^\]]*\]', "", formats.get(number, ""))
        return number in known if number not in formats else bool(re.search(r"[ymdhs]", code, re.I)) and "0.0" not in code

    return {str(i) for i, number in enumerate(styles) if is_date(number)}


def xlsx_cell(cell, strings, dates, epoch):
    kind, style = cell.get("t"), cell.get("s")
    if kind == "inlineStr":
        return "".join(node.text or "" for node in cell.iter() if node.tag.endswith("}t"))[:2000]
    text = next((node.text for node in cell if node.tag.endswith("}v")), None)
    if text is None:
        return None
    try:
        if kind == "s":
            return strings[int(text)]
        if kind == "b":
            return text == "1"
        if kind in ("str", "e", "d"):
            return text[:2000]
        number = float(text)
        if style in dates and 0 < number < 2_958_466:
            moment = epoch + datetime.timedelta(days=number)
            return moment.replace(microsecond=0) if number % 1 else moment.date()
        return int(number) if number.is_integer() and abs(number) < 1e15 else number
    except (ValueError, IndexError, OverflowError):
        return text[:2000]


def xlsx_rows(archive, part, strings, dates, epoch, clock):
    for _, tag, element in xml_events(archive, part, clock):
        if tag != "row":
            continue
        row = []
        for cell in element:
            at = column_number(cell.get("r"), len(row))
            value = xlsx_cell(cell, strings, dates, epoch)
            if value is not None and at >= len(row):
                row.extend([None] * (at - len(row)))
                row.append(value)
        yield row


def profile_xlsx(path, clock):
    archive = open_zip(path)
    try:
        names, parts, epoch = xlsx_sheets(archive, clock)
        strings, dates = xlsx_strings(archive, clock), xlsx_dates(archive, clock)
        rows = [xlsx_rows(archive, part, strings, dates, epoch, clock) for part in parts if part in archive.namelist()]
        sheets = sheet_tables(names, rows, clock)
    except (Refused, Late):
        raise
    except Exception as error:  # whatever the XML or the zip did wrong
        raise Refused(f"the workbook is damaged: {cut(type(error).__name__ + ': ' + str(error), 120)}") from None
    return {"sheets_total": len(names), "sheets": sheets}


def xlsx_sheets(archive, clock):
    relations = {}
    for _, tag, element in xml_events(archive, "xl/_rels/workbook.xml.rels", clock):
        if tag == "Relationship":
            relations[element.get("Id")] = element.get("Target") or ""
    names, parts, epoch = [], [], datetime.datetime(1899, 12, 30)
    for _, tag, element in xml_events(archive, "xl/workbook.xml", clock):
        if tag == "workbookPr" and element.get("date1904") in ("1", "true"):
            epoch = datetime.datetime(1904, 1, 1)
        if tag == "sheet":
            relation = next((value for key, value in element.attrib.items() if key.endswith("}id")), "")
            target = relations.get(relation, "")
            names.append(element.get("name") or "")
            parts.append(target.lstrip("/") if target.startswith("/") else "xl/" + target)
    return names, parts, epoch


def sheet_tables(names, rows, clock):
    tables = []
    try:
        for name, sheet in itertools.islice(zip(names, rows), TABLES_MAX):
            tables.append(sheet_table(name, sheet, clock))
    except Late:
        if not tables:
            raise
    return tables


def sheet_table(name, rows, clock):
    """A sheet: its first filled row names the columns if it is all text."""
    rows = (row for row in rows if any(cell is not None and cell != "" for cell in row))
    first = next(rows, None)
    if first is None:
        return {"name": cut(name, 120), "rows": 0, "rows_exact": True, "columns_total": 0, "columns": []}
    header = sum(isinstance(cell, str) for cell in first) >= max(1, 0.8 * sum(cell is not None for cell in first))
    sample = Sample(clock)
    sample.fill(rows if header else itertools.chain([first], rows))
    width = max(sample.widest, len(first))
    names = [str(first[i]) if header and i < len(first) and first[i] is not None else f"column {i + 1}" for i in range(width)]
    table = {"name": cut(name, 120), **describe_values(sample, names), "header": header}
    if width > COLUMNS_MAX:
        table["notes"] = [f"only the first {COLUMNS_MAX} of {width} columns are described"]
    return table


def ods_cell(cell):
    values = {key.rpartition("}")[2]: value for key, value in cell.attrib.items()}
    kind = values.get("value-type")
    text = "\n".join("".join(node.itertext()) for node in cell if node.tag.endswith("}p"))[:2000]
    try:
        if kind in ("float", "currency", "percentage"):
            number = float(values["value"])
            value = int(number) if number.is_integer() and abs(number) < 1e15 else number
        elif kind == "date":
            date = values["date-value"]
            value = datetime.datetime.fromisoformat(date[:19]) if "T" in date else datetime.date.fromisoformat(date)
        elif kind == "boolean":
            value = values.get("boolean-value") == "true"
        else:
            value = text or None
    except (KeyError, ValueError):
        value = text or None
    return value, max(1, min(int(values.get("number-columns-repeated") or 1), 20_000))


def ods_rows(archive, wanted, clock):
    """The rows of sheet number @wanted."""
    number = -1
    for event, tag, element in xml_events(archive, "content.xml", clock, ("start", "end")):
        if event == "start" and tag == "table":
            number += 1
        if event != "end" or tag != "table-row" or number != wanted:
            if number > wanted:
                return
            continue
        row = []
        for cell in element:
            value, times = ods_cell(cell)
            if value is not None or times < 1000:
                row.extend([value] * times)
            if len(row) > 20_000:
                break
        while row and row[-1] is None:
            row.pop()
        repeated = next((v for k, v in element.attrib.items() if k.endswith("}number-rows-repeated")), "1")
        for _ in range(min(int(repeated), 1_000_000) if row else 0):
            yield row


def profile_ods(path, clock):
    archive = open_zip(path)
    try:
        names = []
        for event, tag, element in xml_events(archive, "content.xml", clock, ("start",)):
            if tag == "table":
                names.append(next((v for k, v in element.attrib.items() if k.endswith("}name")), ""))
        sheets = sheet_tables(names, [ods_rows(archive, i, clock) for i in range(len(names))], clock)
    except (Refused, Late):
        raise
    except Exception as error:
        raise Refused(f"the workbook is damaged: {cut(type(error).__name__ + ': ' + str(error), 120)}") from None
    return {"sheets_total": len(names), "sheets": sheets}


def frame_rows(frame):
    for row in frame.itertuples(index=False, name=None):
        yield [None if value is None or value != value else getattr(value, "item", lambda value=value: value)() for value in row]


def profile_xls(path, clock):
    try:
        import pandas
        import xlrd  # noqa: F401: pandas reads old workbooks with it
    except ImportError:
        raise Refused("old Excel files (.xls) cannot be read here; save it as .xlsx or CSV") from None
    try:
        frames = pandas.read_excel(path, sheet_name=None, engine="xlrd")
    except Exception as error:
        raise Refused(f"it cannot be read as an Excel file: {cut(error, 120)}") from None
    sheets = []
    for name, frame in itertools.islice(frames.items(), TABLES_MAX):
        sample = Sample(clock)
        sample.fill(frame_rows(frame))
        sheets.append({"name": cut(name, 120), **describe_values(sample, list(map(str, frame.columns)))})
    return {"sheets_total": len(frames), "sheets": sheets}


# ---- SQLite ----


def profile_sqlite(path, clock):
    import sqlite3

    database = sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True)
    database.text_factory = lambda raw: raw.decode("utf-8", "replace")
    database.set_progress_handler(lambda: clock.is_over(), 10_000)
    try:
        names = [
            row[0]
            for row in database.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite!_%' ESCAPE '!' ORDER BY name"
            )
        ]
    except sqlite3.Error as error:
        raise Refused(f"it cannot be read as an SQLite database: {cut(error, 100)}") from None
    tables = []
    for name in names[:TABLES_MAX]:
        tables.append({"name": cut(name, 120), **sqlite_table(database, name, clock)})
        if clock.is_over():
            break
    return {"tables_total": len(names), "tables": tables}


def sqlite_table(database, name, clock):
    import sqlite3

    quoted = '"' + name.replace('"', '""') + '"'
    sample = Sample(clock)
    try:
        cursor = database.execute(f"SELECT * FROM {quoted} LIMIT 20000")
        names = [column[0] for column in cursor.description]
        sample.fill([cut(value, 2000) if isinstance(value, str) else value for value in row] for row in cursor)
        if sample.total >= 20000:
            try:
                sample.total = database.execute(f"SELECT COUNT(*) FROM {quoted}").fetchone()[0]
            except sqlite3.Error:
                sample.exact = False
        return describe_values(sample, names)
    except sqlite3.Error as error:
        return {"notes": [f"the table cannot be read: {cut(error, 100)}"]}


# ---- Parquet and Arrow ----


def arrow_table(batches, schema, total, clock):
    sample = Sample(clock)
    names = list(schema.names)

    def rows():
        for batch in batches:
            columns = [column.to_pylist() for column in batch.columns]
            yield from map(list, zip(*columns))
            if sample.total >= 50_000 or clock.is_over():
                return

    sample.fill(rows())
    table = describe_values(sample, names[:COLUMNS_MAX])
    table["columns_total"] = len(names)
    if total is not None and total >= len(sample.rows):
        table["rows"], table["rows_exact"] = total, True
        if len(sample.rows) < total:
            table["sampled"] = len(sample.rows)
    return table


def profile_parquet(path, clock):
    try:
        import pyarrow.parquet
    except ImportError:
        return parquet_footer(path)
    try:
        file = pyarrow.parquet.ParquetFile(path)
        schema = file.schema_arrow
        batches = file.iter_batches(batch_size=5_000, columns=schema.names[:COLUMNS_MAX])
        return arrow_table(batches, schema, file.metadata.num_rows, clock)
    except Exception as error:
        raise Refused(f"it cannot be read as Parquet: {cut(error, 120)}") from None


def profile_arrow(path, clock):
    try:
        import pyarrow
        import pyarrow.feather
    except ImportError:
        raise Refused("Arrow and Feather files need pyarrow, which this template has not; use a template with it, or save it as CSV") from None
    try:
        with open(path, "rb") as file:
            old = file.read(4) == b"FEA1"
        if old:
            table = pyarrow.feather.read_table(path)
            return arrow_table(table.to_batches(5_000), table.schema, table.num_rows, clock)
        with pyarrow.memory_map(path) as source:
            reader = pyarrow.ipc.open_file(source)
            batches = (reader.get_batch(i) for i in range(reader.num_record_batches))
            total = sum(reader.get_batch(i).num_rows for i in range(min(reader.num_record_batches, 10_000)))
            return arrow_table(batches, reader.schema, total, clock)
    except Exception as error:
        raise Refused(f"it cannot be read as Arrow: {cut(error, 120)}") from None


class Thrift:
    """As much of Thrift's compact protocol as the footer of a Parquet file needs: structs as dicts by field number."""

    def __init__(self, data):
        self.data, self.at, self.items = data, 0, 0

    def byte(self):
        self.at += 1
        return self.data[self.at - 1]

    def varint(self):
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128 or shift > 70:
                return value

    def value(self, kind, depth=0):
        self.items += 1
        if depth > 20 or self.items > 2_000_000:
            raise ValueError("too much metadata")
        if kind in (1, 2):
            return kind == 1
        if kind == 3:
            return self.byte()
        if kind in (4, 5, 6):
            number = self.varint()
            return (number >> 1) ^ -(number & 1)
        if kind == 7:
            self.at += 8
            return None
        if kind == 8:
            size = self.varint()
            self.at += size
            return self.data[self.at - size : self.at]
        if kind in (9, 10):
            head = self.byte()
            size = head >> 4 if head >> 4 != 15 else self.varint()
            return [self.value(head & 15, depth + 1) if head & 15 not in (1, 2) else self.byte() == 1 for _ in range(size)]
        if kind == 12:
            return self.struct(depth + 1)
        raise ValueError("unknown metadata")

    def struct(self, depth=0):
        fields, number = {}, 0
        while True:
            head = self.byte()
            if head == 0:
                return fields
            if head >> 4:
                number += head >> 4
            else:
                packed = self.varint()
                number = (packed >> 1) ^ -(packed & 1)
            fields[number] = self.value(head & 15, depth)


def parquet_footer(path):
    kinds = {0: "boolean", 1: "integer", 2: "integer", 3: "datetime", 4: "number", 5: "number", 6: "text", 7: "binary"}
    meant = {5: "number", 6: "date", 9: "datetime", 10: "datetime"}  # of the types that are stored as others
    try:
        with open(path, "rb") as file:
            size = file.seek(0, 2)
            file.seek(size - 8)
            tail = file.read(8)
            length = int.from_bytes(tail[:4], "little")
            if tail[4:] != b"PAR1" or length > min(size, 64_000_000):
                raise ValueError("no footer")
            file.seek(size - 8 - length)
            footer = Thrift(file.read(length)).struct()
        leaves = [field for field in footer[2][1:] if not field.get(5)]
        columns = [
            {"name": cut(field[4].decode("utf-8", "replace"), 120), "type": meant.get(field.get(6)) or kinds.get(field.get(1), "text")}
            for field in leaves[:COLUMNS_MAX]
        ]
        rows = footer[3]
    except (IndexError, KeyError, ValueError, TypeError, AttributeError, OSError) as error:
        raise Refused(f"it cannot be read as Parquet: {cut(error, 100)}") from None
    note = "this template has no pyarrow: only names and types of the columns are known, and pandas cannot read the file here"
    return {"rows": rows, "rows_exact": True, "columns_total": len(leaves), "columns": columns, "notes": [note]}


# ---- the whole ----

READERS = {
    "csv": profile_csv,
    "tsv": lambda path, clock: profile_csv(path, clock, "\t"),
    "text": profile_text,
    "json": profile_json,
    "jsonl": profile_jsonl,
    "xlsx": profile_xlsx,
    "ods": profile_ods,
    "xls": profile_xls,
    "sqlite": profile_sqlite,
    "parquet": profile_parquet,
    "arrow": profile_arrow,
}


def shrink(result):
    """The result as JSON of at most OUTPUT_MAX bytes: examples go first, then columns."""
    tables = [result, *result.get("sheets", []), *result.get("tables", [])]
    text = json.dumps(result, allow_nan=False)
    share, rounds = COLUMNS_MAX, 0
    while len(text) > OUTPUT_MAX:
        share, rounds = share // 2, rounds + 1
        if rounds > 40:
            return json.dumps({"error": "there is more to say about the file than fits into a profile"})
        for table in tables:
            for column in table.get("columns", []):
                for name in ("values", "examples", "notes", "formats") if share < COLUMNS_MAX // 2 else ("values",):
                    column.pop(name, None)
            if len(table.get("columns", [])) > max(share, 1):
                table["columns"] = table["columns"][: max(share, 1)]
                note = f"only {max(share, 1)} columns are described"
                table["notes"] = [n for n in table.get("notes", []) if not n.startswith("only ")] + [note]
        if share == 0:
            for key in ("sheets", "tables", "shape"):
                if isinstance(result.get(key), list):
                    result[key] = result[key][: max(1, len(result[key]) // 2)]
                else:
                    result.pop(key, None)
            tables = [result, *result.get("sheets", []), *result.get("tables", [])]
            if len(tables) <= 2:
                for table in tables:
                    table.pop("columns", None)
        text = json.dumps(result, allow_nan=False)
    return text


def profile_of(path, kind, seconds):
    global LATE
    LATE = seconds
    try:
        return READERS[kind](path, Clock(seconds))
    except Refused as refused:
        return {"error": str(refused)}
    except Late:
        return {"error": "the file takes too long to look at"}
    except MemoryError:
        return {"error": "the file needs more memory than a box has"}
    except RecursionError:
        return {"error": "it is nested too deeply"}
    except (UnicodeError, ValueError, KeyError, IndexError, OSError, TypeError, OverflowError, AttributeError, EOFError) as error:
        return {"error": "it cannot be read: " + cut(f"{type(error).__name__}: {error}", 160)}


def profile_main(path, kind, seconds):
    text = shrink(profile_of(path, kind, seconds))
    sys.stdout.write(text)
    sys.stdout.flush()
