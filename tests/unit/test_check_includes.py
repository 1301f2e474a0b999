"""tools/check_includes.py: each rule refuses a tree that breaks it."""

import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]

# A tree in which everything is allowed; each test adds one file to it.
GOOD = {
    "src/base/banned.h": "#pragma once\n",
    "src/base/io.h": "#pragma once\n",
    "src/engine/engine.h": '#include "base/io.h"\n',
    "src/engine/shared/wire.h": "#pragma once\n",
    "src/engine/box/box.h": '#include "engine/shared/wire.h"\n',
    "src/engine/builder/rootfs.h": '#include "engine/box/box.h"\n#include "engine/seal/seal.h"\n',
    "src/engine/builder/internal.h": "#pragma once\n",
    "src/engine/cgroup/internal.h": "#pragma once\n",
    "src/engine/cgroup/read.h": "#pragma once\n",
    "src/engine/disk/disk.h": "#pragma once\n",
    "src/engine/doctor/doctor.h": '#include "engine/cgroup/read.h"\n',
    "src/engine/run/internal.h": '#include "engine/supervisor/supervisor.h"\n',
    "src/engine/seal/seal.h": '#include "engine/shared/wire.h"\n',
    "src/engine/supervisor/supervisor.h": '#include "engine/disk/disk.h"\n',
    "src/service/service.h": '#include "engine/engine.h"\n#include "engine/disk/disk.h"\n',
    "src/service/service_internal.h": '#include "service/session/session.h"\n',
    "src/service/access/keys.h": "#pragma once\n",
    "src/service/session/session.h": '#include "service/execution/execution.h"\n',
    "src/service/execution/execution.h": '#include "service/access/keys.h"\n',
    "src/service/package/internal.h": '#include "service/package/packages.h"\n',
    "src/service/package/packages.h": '#include "service/service_internal.h"\n',
    "src/service/template/use.h": '#include "service/package/packages.h"\n',
    "src/store/internal.h": "#pragma once\n",
    "src/mcp/mcp.h": "#pragma once\n",
    "src/mcp/protocol/internal.h": '#include "mcp/mcp.h"\n',
    "src/mcp/protocol/call.h": '#include "mcp/protocol/internal.h"\n',
    "src/mcp/catalog/tools.h": '#include "service/access/keys.h"\n',
    "src/server/http/sse.h": "#pragma once\n",
    "src/server/v1/schemas.h": '#include "server/http/sse.h"\n',
    "src/server/compat/dialect.h": '#include "server/v1/schemas.h"\n',
    "src/cli/cmd.h": '#include "engine/doctor/doctor.h"\n#include "cli/options/options.h"\n',
    "src/cli/options/options.h": "#pragma once\n",
    "src/cli/terminal/say.h": '#include "cli/cmd.h"\n',
}


def check(tmp_path, files):
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    done = subprocess.run([sys.executable, ROOT / "tools/check_includes.py", tmp_path],
                          stdout=subprocess.PIPE, text=True, check=False)
    return done.returncode, done.stdout.splitlines()


def test_this_tree_and_a_good_one_pass(tmp_path):
    assert check(tmp_path, GOOD) == (0, [])
    assert subprocess.run([ROOT / "tools/check_includes.py"], check=False).returncode == 0


@pytest.mark.parametrize("path, include, reason", [
    # between rooms of the engine
    ("supervisor/bad.h", '"engine/builder/rootfs.h"', "engine/supervisor may include disk"),
    ("supervisor/bad.h", '"engine/box/box.h"', "engine/supervisor may include disk"),
    ("supervisor/bad.h", '"engine/seal/seal.h"', "engine/supervisor may include disk"),
    ("run/bad.h", '"engine/builder/rootfs.h"', "engine/run may include supervisor"),
    ("builder/bad.h", '"engine/supervisor/supervisor.h"', "engine/builder may include box"),
    ("box/bad.h", '"engine/builder/rootfs.h"', "engine/box may include seal"),
    ("seal/bad.h", '"engine/box/box.h"', "engine/seal may include no other room"),
    ("python/bad.h", '"engine/box/box.h"', "engine/python may include seal"),
    ("disk/bad.h", '"engine/supervisor/supervisor.h"', "engine/disk may include no other room"),
    ("bad.h", '"engine/disk/disk.h"', "engine/ may include no other room"),
    # internal headers, also where the room itself may be included
    ("builder/bad.h", '"engine/cgroup/internal.h"', "is internal to engine/cgroup/"),
    ("doctor/bad.h", '"engine/cgroup/internal.h"', "is internal to engine/cgroup/"),
    ("bad.h", '"engine/run/internal.h"', "is internal to engine/run/"),
    # others
    ("seal/bad.h", '"service/service.h"', "engine may include base"),
    ("seal/bad.h", '"engine/seal/missing.h"', 'is not "module/header.h"'),
    ("seal/bad.h", "<Python.h>", "is only for engine/python/"),
    ("attic/bad.h", '"engine/shared/wire.h"', "engine/attic is not a room of the table"),
])
def test_an_include_that_is_not_allowed_is_named(tmp_path, path, include, reason):
    name = f"src/engine/{path}"
    code, mistakes = check(tmp_path, {**GOOD, name: f"#include {include}\n"})
    assert code == 1
    assert len(mistakes) == 1
    assert mistakes[0].startswith(f"{name}:1: ") and reason in mistakes[0]


@pytest.mark.parametrize("path, name, reason", [
    # the service's rooms
    ("service/access/bad.h", "service/session/session.h", "service/access may include no other"),
    ("service/template/bad.h", "service/session/session.h", "service/template may include package"),
    ("service/template/bad.h", "service/package/internal.h", "is internal to service/package/"),
    ("service/bad.h", "service/package/internal.h", "is internal to service/package/"),
    ("service/attic/bad.h", "service/service.h", "service/attic is not a room of the table"),
    # other modules
    ("server/v1/bad.h", "server/compat/dialect.h", "server/v1 may include http, schema"),
    ("server/bad.h", "server/v1/schemas.h", "server/ may include http"),
    ("mcp/catalog/bad.h", "mcp/protocol/call.h", "mcp/catalog may include no other room"),
    ("mcp/catalog/bad.h", "mcp/protocol/internal.h", "is internal to mcp/protocol/"),
    ("cli/terminal/bad.h", "cli/options/options.h", "cli/terminal may include no other room"),
])
def test_the_rooms_of_every_module_have_rules(tmp_path, path, name, reason):
    code, mistakes = check(tmp_path, {**GOOD, f"src/{path}": f'#include "{name}"\n'})
    assert code == 1 and len(mistakes) == 1 and reason in mistakes[0]


def test_internal_headers_stay_in_rooms_without_a_table(tmp_path):
    tree = {**GOOD, "src/store/sqlite/internal.h": "", "src/store/bad.h":
            '#include "store/sqlite/internal.h"\n#include "store/internal.h"\n'}
    code, mistakes = check(tmp_path, tree)
    assert code == 1 and len(mistakes) == 1 and "is internal to store/sqlite/" in mistakes[0]


@pytest.mark.parametrize("path, name, reason", [
    ("service", "engine/box/box.h", "is in a room of engine and not public"),
    ("service", "engine/run/internal.h", "is internal to engine"),
    ("cli", "service/session/session.h", "is in a room of service and not public"),
    ("cli", "mcp/catalog/tools.h", "is in a room of mcp and not public"),
])
def test_other_modules_come_in_by_the_doors(tmp_path, path, name, reason):
    code, mistakes = check(tmp_path, {**GOOD, f"src/{path}/bad.h": f'#include "{name}"\n'})
    assert code == 1 and len(mistakes) == 1 and reason in mistakes[0]


def test_a_source_that_no_build_file_names_is_a_mistake(tmp_path):
    source = '#include "engine/shared/wire.h"\n\n#include "base/banned.h"\n'
    tree = {**GOOD, "src/engine/frame.c": source, "src/engine/meson.build": "# 'frame.c'\n"}
    code, mistakes = check(tmp_path, tree)
    assert code == 1 and mistakes == ["src/engine/frame.c:1: not listed in src/engine/meson.build"]
    assert check(tmp_path, {"src/engine/meson.build": "files('frame.c')\n"}) == (0, [])


def test_a_source_must_end_its_includes_with_banned_h(tmp_path):
    tree = {**GOOD, "src/engine/shared/wire.c": '#include "base/banned.h"\n#include <errno.h>\n',
            "src/engine/meson.build": "files('shared/wire.c')\n"}
    code, mistakes = check(tmp_path, tree)
    assert code == 1 and "banned.h" in mistakes[0]


@pytest.mark.parametrize("path", ["seal/seal.c", "shared/wire.c"])
def test_what_runs_after_a_clone_includes_what_it_must_not_call(tmp_path, path):
    head, last = '#include "engine/shared/wire.h"\n', '#include "base/banned.h"\n'
    tree = {**GOOD, f"src/engine/{path}": head + last, "src/engine/shared/banned_after_clone.h": "",
            "src/engine/meson.build": f"files('{path}')\n"}
    code, mistakes = check(tmp_path, tree)
    assert code == 1 and len(mistakes) == 1 and "banned_after_clone.h" in mistakes[0]
    early = '#include "engine/shared/banned_after_clone.h"\n' + head + last
    assert check(tmp_path, {f"src/engine/{path}": early})[0] == 1
    good = head + '#include "engine/shared/banned_after_clone.h"\n' + last
    assert check(tmp_path, {f"src/engine/{path}": good}) == (0, [])
