"""The programs of the README run."""

import os
import re
import subprocess
import sys

import pytest
from conftest import BINARY, PACKAGE


def test_all_programs_of_the_readme(service, tmp_path):
    pytest.importorskip("pandas")  # one of them makes a DataFrame on our side
    text = (PACKAGE / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 6
    (tmp_path / "sales.csv").write_text("city,visits\nOslo,3\nRome,5\nOslo,4\n")
    env = {**os.environ, "PYTHONPATH": str(PACKAGE), "GLOVEBOX_URL": service.url,
           "GLOVEBOX": BINARY}
    done = subprocess.run([sys.executable, "-W", "error", "-c", "\n".join(blocks)], env=env,
                          cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          timeout=240)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    for words in ("hello\n42", "hit the time limit timeout", "Oslo       7", "/tmp\nme",
                  "0\n1\n2\nok", "42\nstart\nstdout\nreceipt", "\n3\n"):
        assert words in done.stdout, (words, done.stdout)
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "summary.csv").exists()
