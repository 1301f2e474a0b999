"""src/engine/shared/banned_after_clone.h: the compiler refuses malloc, stdio and locks in engine/seal/."""

import os
import pathlib
import re
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEADER = ROOT / "src/engine/shared/banned_after_clone.h"
COMPILERS = [c for c in (os.environ.get("CC", "cc"), "clang") if shutil.which(c)]

# As a file of seal/ looks; what is tested comes after its includes.
HEAD = """#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include "base/autoclean.h"
#include "engine/shared/wire.h"
#include "engine/shared/banned_after_clone.h"
#include "base/banned.h"
int probe(char *buf, size_t size);
"""


def compile_it(compiler, text):
    return subprocess.run([compiler, "-fsyntax-only", "-std=gnu17", "-D_GNU_SOURCE", "-O2",
                           f"-I{ROOT / 'src'}",
                           "-fno-diagnostics-color", "-ferror-limit=0"
                           if "clang" in compiler else "-fmax-errors=0", "-x", "c", "-"],
                          input=text, stderr=subprocess.PIPE, text=True, check=False)


@pytest.mark.parametrize("compiler", COMPILERS)
def test_what_seal_does_is_allowed(compiler):
    done = compile_it(compiler, HEAD + "int probe(char *buf, size_t size)\n"
                      '{\n    autoclose int fd = -EBADF;\n    return snprintf(buf, size, "%d", fd);\n}\n')
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("compiler", COMPILERS)
def test_each_banned_name_is_refused(compiler):
    names = re.findall(r"\w+", " ".join(re.findall(r"#pragma GCC poison (.*)", HEADER.read_text())))
    assert {"malloc", "free", "autofree", "printf", "fopen", "pthread_create", "exit"} <= set(names)
    uses = "".join(f"    use({name});\n" for name in names)
    done = compile_it(compiler, f"{HEAD}int probe(char *buf, size_t size)\n{{\n{uses}}}\n")
    assert done.returncode != 0
    first = HEAD.count("\n") + 3
    refused = {int(line) for line in re.findall(r"^<stdin>:(\d+):\d+: error: .*poison", done.stderr,
                                                re.MULTILINE)}
    assert refused == set(range(first, first + len(names)))
