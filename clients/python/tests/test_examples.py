"""The examples do what they say: with a service that runs, and with one of their own."""

import os
import subprocess
import sys

import pytest
from conftest import BINARY, PACKAGE, ROOT


def run(name, *arguments, code=0, **env):
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE), "PYTHONDONTWRITEBYTECODE": "1", **env}
    done = subprocess.run([sys.executable, ROOT / "examples" / name, *map(str, arguments)],
                          env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, timeout=240)
    assert done.returncode == code, done.stderr
    return done.stdout if code == 0 else done.stderr


@pytest.fixture
def url(service):
    return {"GLOVEBOX_URL": service.url}


def test_sum_column(url, tmp_path):
    assert run("sum_column.py", **url) == "sum of visits: 42\nrows: 3\n"
    (tmp_path / "a.csv").write_text("it's,b\n1.5,x\n2.5,y\n")
    assert "sum of it's: 4.0\n" in run("sum_column.py", tmp_path / "a.csv", "it's", **url)
    assert "KeyError" in run("sum_column.py", tmp_path / "a.csv", "nope", code=1, **url)
    (tmp_path / "empty.csv").write_text("")
    assert "EmptyDataError" in run("sum_column.py", tmp_path / "empty.csv", "a", code=1, **url)


def test_pi(service):
    out = run("pi_over_http.py", service.http)
    assert out.startswith("3.14159265358979323846264338327950288419716939937510\n")


def test_chart(url, tmp_path):
    assert "image/png" in run("chart.py", tmp_path / "c.png", **url)
    assert (tmp_path / "c.png").read_bytes().startswith(b"\x89PNG\r\n")


def test_agent_loop_with_a_service_of_its_own():
    out = run("agent_loop.py", GLOVEBOX=BINARY, GLOVEBOX_POOL="1")
    assert "1. run wc -w < notes.txt\n   11\n" in out and "No such file" in out
    assert "4. run python3 count.py\n   the 4\n" in out
    assert "timed out after 5 seconds" in out


def test_locals_call(service):
    assert run("locals_call.py", service.http) == (
        "{'prices': [10, 20, 30], 'tax': 0.25, 'gross': 75.0, 'dearest': 30}\n"
        "NameError: name 'tax' is not defined\n")
