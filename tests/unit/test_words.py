"""The tables of src/base/words/*.def against everything that cannot be made from them: the Python client
and the documentation. C code includes the tables; the rest is compared here, so that a word nobody
wrote down is a failed test.
"""

import pathlib
import re
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "clients/python"))

from glovebox import errors  # noqa: E402
from glovebox.result import Result  # noqa: E402

API = (ROOT / "docs/API.md").read_text(encoding="utf-8")
AUDIT = (ROOT / "docs/AUDIT.md").read_text(encoding="utf-8")
MANUAL = (ROOT / "docs/glovebox.1.md").read_text(encoding="utf-8")

TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[(),]|[^"(),\s]+')


def rows(name, macro):
    """The arguments of each macro(...) in src/base/words/name: strings joined and without quotes."""
    text = (ROOT / "src/base/words" / name).read_text(encoding="utf-8")
    text = re.sub(r"/\*.*?\*/|^#.*?(?<!\\)$", "", text, flags=re.S | re.M)
    found = []
    for match in re.finditer(rf"^{macro}\(", text, flags=re.M):
        depth, row, cell = 0, [], []
        for token in TOKEN.finditer(text, match.end() - 1):
            token = token.group()
            if token == "(":
                depth += 1
            elif token == ")":
                depth -= 1
                if depth == 0:
                    break
            elif token == "," and depth == 1:
                row.append("".join(cell))
                cell = []
            else:
                cell.append(token[1:-1] if token.startswith('"') else token)
        found.append([*row, "".join(cell)])
    return found


def tabled(text, word):
    """The words in backticks in the first column of the table that has @word there."""
    for table in re.findall(r"(?:^\|.*\n)+", text, flags=re.M):
        cells = [line.split("|")[1] for line in table.splitlines()]
        words = [name for cell in cells for name in re.findall(r"`([^`]+)`", cell)]
        if word in words:
            return words
    return []


def listed(text, word):
    """The bold words that begin the items of the list that has @word there."""
    for items in re.findall(r"(?:^(?:- |  ).*\n)+", text, flags=re.M):
        words = []
        for item in re.findall(r"^- ([^:]*):", items, flags=re.M):
            words += re.findall(r"\*\*([\w-]+)\*\*", item)
        if word in words:
            return words
    return []


def test_the_tables_are_read():
    """Known rows: otherwise the comparisons below might compare nothing with nothing."""
    statuses = rows("status.def", "STATUS")
    assert [row[1] for row in statuses][:4] == ["ok", "error", "timeout", "oom"]
    assert all(len(row) == 8 for row in statuses)
    capped = rows("limits.def", "LIMIT_CAPPED")
    assert [row[0] for row in capped][:2] == ["max-timeout", "max-memory"]
    assert all(len(row) == 22 for row in capped)
    plain = rows("limits.def", "LIMIT")
    assert "open_files" in [row[3] for row in plain] and all(len(row) == 19 for row in plain)
    assert [row[1] for row in rows("limits.def", "LIMIT_END")][:2] == ["wall_time", "cpu_time"]


# ---- statuses ----

STATUSES = [row[1] for row in rows("status.def", "STATUS")]


def test_statuses_of_the_client_are_the_table_s():
    assert sorted(errors.EXECUTION_ERRORS) == sorted(set(STATUSES) - {"ok"})


@pytest.mark.parametrize("status", STATUSES)
def test_the_client_says_why(status):
    receipt = {
        "status": status, "exit_code": 139, "success": status == "ok", "stdout": "", "stderr": "",
        "limit": None, "error": None, "result": None, "outputs": [], "files": [], "usage": {},
        "truncated": {"stdout": 0, "stderr": 0, "outputs": 0}, "execution_time": 0.1,
        "session_id": None, "execution_id": "exec_1", "execution_count": 1,
    }
    reason = Result.from_receipt(receipt).reason
    assert reason and reason != status


def test_statuses_of_the_documentation_are_the_table_s():
    assert tabled(API, "oom") == STATUSES
    assert listed(MANUAL, "oom") == STATUSES


# ---- limits ----

LIMITS = [row[3:] for row in rows("limits.def", "LIMIT_CAPPED")] + rows("limits.def", "LIMIT")


def test_limits_of_the_documentation_are_the_table_s():
    assert sorted(tabled(API, "cpu_time")) == sorted(row[3] for row in LIMITS)
    for row in LIMITS:
        assert re.search(rf"\b{row[0]}\b", AUDIT), f"docs/AUDIT.md does not name {row[0]}"


def test_the_limits_that_end_a_run_are_documented():
    words = [row[1] for row in rows("limits.def", "LIMIT_END")]
    text = MANUAL.partition("The limit is one of")[2].partition(".\n")[0]
    assert re.findall(r"`(\w+)`", text) == words
    [line] = re.findall(r"^\| `limit` \|.*$", API, flags=re.M)
    assert re.findall(r"`(\w+)`", line)[1:] == words


# ---- problems ----


def test_problems_have_one_meaning_each():
    problems = rows("problems.def", "PROBLEM")
    assert len(problems) > 100 and all(len(row) == 4 for row in problems)
    pairs = [(row[1], row[2]) for row in problems]
    assert len(set(pairs)) == len(pairs), "a word with the same status twice"
    assert len({row[0] for row in problems}) == len(problems)
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", row[1]) for row in problems)
    assert all(row[2] in ("400", "401", "403", "404", "405", "406", "409", "413", "414", "415",
                          "421", "422", "426", "429", "500", "503") for row in problems)


def test_problems_of_the_documentation_are_the_table_s():
    section = API.partition("\n## Problem types\n")[2].partition("\n## ")[0]
    assert re.findall(r"^\| `.*$", section, flags=re.M) == [
        f"| `{word}` | {status} | {meaning} |"
        for _, word, status, meaning in rows("problems.def", "PROBLEM")
    ]


def test_problems_that_the_client_knows_exist():
    words = {row[1] for row in rows("problems.def", "PROBLEM")}
    assert set(errors._BY_KIND) <= words
