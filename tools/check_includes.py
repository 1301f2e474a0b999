#!/usr/bin/python3
"""Checks that the modules use only what they may, and that the build lists every source.

usage: tools/check_includes.py      prints one line a mistake, exits 1 if there are any

The first table is the architecture: a module may include its own headers and those of the modules
in its row. The second says who may know an outside library at all.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

MAY_INCLUDE = {
    "base": [],
    "schema": ["base"],
    "store": ["base"],
    "engine": ["base"],
    "egress": ["base"],
    "service": ["base", "store", "engine", "egress"],
    "mark": ["base", "store", "service"],
    "mcp": ["base", "schema", "service"],
    "server": ["base", "schema", "service", "mark", "mcp"],
    "cli": ["base", "engine", "egress", "service", "mcp", "server"],
}

OUTSIDE = {
    "Python.h": ["engine/python/"],
    "seccomp.h": [],  # tools/gen_seccomp only
    "jansson.h": ["schema/", "service/", "mark/", "mcp/", "server/", "cli/"],
    "sqlite3.h": ["store/db_sqlite.c"],
    "libpq-fe.h": ["store/db_postgres.c"],
    "microhttpd.h": ["server/"],
    "wslay/wslay.h": ["server/http/ws_protocol.c"],
    "gnutls/gnutls.h": ["egress/", "server/http/ws_protocol.c"],
    "gnutls/crypto.h": ["server/http/ws_protocol.c"],
    "ares.h": ["egress/resolve.c"],
    "sodium.h": ["egress/policy.c", "service/", "mark/", "mcp/", "server/", "cli/mcp/"],
    "archive.h": ["service/"],
    "archive_entry.h": ["service/"],
    "curl/curl.h": ["service/", "mark/", "cli/mcp/"],
}

GENERATED = {"seccomp_policy.h"}  # made in the build directory, next to nothing else

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.MULTILINE)


def check_quoted(source, module, name):
    """A header of ours: yields what is wrong with this module including it."""
    target, _, header = name.partition("/")
    if name in GENERATED:
        return
    if not header or target not in MAY_INCLUDE or not (ROOT / "src" / name).exists():
        yield f'"{name}" is not "module/header.h" or "module/room/header.h"'
    elif target != module and target not in MAY_INCLUDE[module]:
        allowed = ", ".join(MAY_INCLUDE[module]) or "no other module"
        yield f'"{name}": {module} may include {allowed}'
    elif target != module and header.endswith("internal.h"):
        yield f'"{name}" is internal to {target}'


def check_file(path):
    source = path.relative_to(ROOT / "src").as_posix()
    module = source.partition("/")[0]
    text = path.read_text(encoding="utf-8")
    includes = list(INCLUDE.finditer(text))
    for match in includes:
        line = text.count("\n", 0, match.start(2)) + 1
        name = match.group(2)
        if match.group(1) == '"':
            for mistake in check_quoted(source, module, name):
                yield f"{line}: {mistake}"
        elif not any(source.startswith(who) for who in OUTSIDE.get(name, [source])):
            yield f"{line}: <{name}> is only for {', '.join(OUTSIDE[name])}"
    headers = [i for i in includes if not i.group(2).endswith(".def")]  # a table, where it is used
    if path.suffix == ".c" and headers and headers[-1].group(2) != "base/banned.h":
        yield '1: does not include "base/banned.h" last'


def check_listed():
    """Sources that no build file names would be dead without anyone noticing."""
    for folder, pattern in (("src", "*.c"), ("runner", "*.py"), ("tests/unit", "test_*.c")):
        for path in sorted((ROOT / folder).rglob(pattern)):
            build = next(p / "meson.build" for p in path.parents if (p / "meson.build").exists())
            text = re.sub(r"#.*", "", build.read_text(encoding="utf-8"))
            words = re.findall(r"'([^']*)'", text)
            name = path.relative_to(build.parent).as_posix()
            if name not in words and re.sub(r"^test_(.*)\.c$", r"\1", name) not in words:
                yield f"{path.relative_to(ROOT)}:1: not listed in {build.relative_to(ROOT)}"


def main():
    mistakes = list(check_listed())
    for path in sorted((ROOT / "src").rglob("*.[ch]")):
        if path.relative_to(ROOT / "src").parts[0] not in MAY_INCLUDE:
            mistakes.append(f"{path.relative_to(ROOT)}:1: not in a module of the table")
            continue
        mistakes += [f"{path.relative_to(ROOT)}:{m}" for m in check_file(path)]
    print("\n".join(mistakes), end="\n" if mistakes else "")
    return 1 if mistakes else 0


if __name__ == "__main__":
    sys.exit(main())
