"""The package itself: Python 3.9, nothing but the standard library, typed."""

import ast
import os
import subprocess
import sys

import pytest
from conftest import PACKAGE, ROOT

SOURCES = sorted((PACKAGE / "glovebox").rglob("*.py"))
# Modules that are newer than 3.9, and those that only exist elsewhere, are not in here.
ALLOWED = {"__future__", "asyncio", "atexit", "base64", "binascii", "contextlib", "contextvars",
           "dataclasses", "functools", "hashlib", "struct", "html", "http", "io", "json", "logging", "os", "posixpath",
           "re", "selectors", "shlex", "shutil", "socket", "ssl", "subprocess", "tarfile",
           "tempfile", "threading", "time", "typing", "urllib", "uuid"}
# Names that came after 3.9: the parser does not know about these.
NEWER = {"aclosing", "anext", "aiter", "TaskGroup", "timeout_at", "ExceptionGroup", "pairwise",
         "TypeAlias", "ParamSpec", "Self", "add_note", "removesuffix_all", "StrEnum"}


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_syntax_of_3_9(path):
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text, feature_version=(3, 9))
    names = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
    names |= {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute)}
    assert not names & NEWER
    assert max(map(len, text.splitlines())) <= 100
    assert text.count("\n") < 800


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_only_the_standard_library(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found = {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            found = {node.module.split(".")[0]}
        else:
            continue
        # pandas is imported within what returns a frame, and for type checkers.
        assert found <= (ALLOWED | ({"pandas"} if node.col_offset else set()))


def test_importing_it_needs_nothing():
    code = "import sys, glovebox, glovebox.openmanus; print('pandas' in sys.modules)"
    env = {**os.environ, "PYTHONPATH": str(PACKAGE)}
    done = subprocess.run([sys.executable, "-S", "-W", "error", "-c", code], env=env, text=True,
                          stdout=subprocess.PIPE, check=True)
    assert done.stdout == "False\n"


def test_it_is_typed_and_names_what_it_has():
    import glovebox
    import glovebox.openmanus

    assert (PACKAGE / "glovebox" / "py.typed").exists()
    for module in (glovebox, glovebox.openmanus):
        assert all(hasattr(module, name) for name in module.__all__)
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                assert node.returns is not None, (path.name, node.name)


def test_versions_agree():
    import glovebox

    text = (PACKAGE / "pyproject.toml").read_text(encoding="utf-8")
    assert f'version = "{glovebox.__version__}"' in text
    build = (ROOT / "meson.build").read_text(encoding="utf-8")
    assert f"version: '{glovebox.__version__}'" in build
