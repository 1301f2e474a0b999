#!/usr/bin/python3
"""Checks that modules include only what they may, and that the build lists every source.

usage: tools/check_includes.py [ROOT]      prints one line per mistake, exits 1 if there are any

The first table is the architecture: a module may include its own headers and those of the modules
in its row. The second does the same for the rooms (folders) of a module. The last says which module
may use an external library at all.
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
    "connect": ["base"],
    "service": ["base", "store", "engine", "egress"],
    "mark": ["base", "schema", "store", "service", "connect"],
    "mcp": ["base", "schema", "service", "mark"],
    "server": ["base", "schema", "service", "mark", "mcp"],
    "cli": ["base", "engine", "egress", "service", "connect", "mark", "mcp", "server"],
}

# Which other rooms a room may include. Every room may include the headers directly in the module's
# folder ("") and those of "shared". A room's *internal.h is for that room only.
ROOMS = {
    # Processes, or parts of one. The supervisor's (supervisor, run, doctor) and the builder's
    # (builder, box) share no headers except those in engine/ and engine/shared/, which are types and
    # messages; seal and python run between clone and sealed box, or in a tenant, and may include
    # only those.
    "engine": {
        "": [],  # visible to other modules
        "shared": [],  # types and messages of several processes
        "supervisor": ["disk"],
        "run": ["supervisor"],
        "doctor": ["cgroup"],  # only to inspect the host: cgroup/read.h
        "builder": ["box", "seal", "cgroup", "disk"],
        "box": ["seal", "cgroup", "disk"],
        "seal": [],
        "python": ["seal"],
        "cgroup": [],
        "disk": [],
    },
    # Access (keys, principals, the audit log) depends on no other room, templates only on packages.
    # Sessions and executions need each other: executions queue in a session.
    "service": {
        "": ["access", "session", "execution", "template", "package", "terminal", "watch"],
        "access": [],
        "session": ["access", "execution", "package", "terminal"],
        "terminal": ["access", "session"],
        "watch": ["access", "session", "execution", "package"],
        "execution": ["access", "session", "package"],
        "template": ["package"],
        "package": ["access", "session", "execution", "template"],
    },
    # The agent is on top: it asks models, reads attachments and writes chats. The others know nothing
    # of each other; "" (mark.c) opens them all.
    "mark": {
        "": ["auth", "chat", "attach", "agent", "llm", "source", "broker", "budget", "export",
             "verify", "eval"],
        "auth": [],
        "chat": [],
        "attach": [],
        "llm": [],
        "box": [],  # programs that run in boxes, as text
        "numeral": [],  # pure functions, and so are those of story
        "story": ["numeral"],
        "source": ["attach", "box"],  # what there is to ask
        "broker": ["source"],  # how programs ask it
        "budget": [],
        "agent": ["attach", "box", "broker", "budget", "chat", "llm", "numeral", "prompts", "source", "story"],
        "export": ["agent", "attach", "box", "broker", "chat", "source", "story"],
        "verify": ["agent", "attach", "broker", "chat", "source", "story"],
        "eval": ["agent", "attach", "llm", "numeral", "source", "story", "verify"],
        "prompts": [],
        "sample": [],  # scripts for psql, as text
    },
    # These two meet only in mcp_internal.h and tool.h.
    "mcp": {
        "": [],
        "protocol": [],
        "catalog": [],
    },
    # Dialects do not include each other, except that compat uses fields of v1. The router and OpenAPI
    # list the routes of all of them.
    "server": {
        "": ["http"],
        "http": ["schema", "about", "page", "v1", "compat", "mcp", "mark", "admin"],
        "schema": ["about", "v1", "compat", "mcp", "mark", "admin"],
        "admin": ["http", "schema"],
        "about": ["http", "schema"],
        "page": ["http", "schema"],
        "v1": ["http", "schema"],
        "compat": ["http", "schema", "v1"],
        "mcp": ["http", "schema"],
        "mark": ["http", "schema", "v1"],
    },
    # Commands use all four rooms, and no room uses another.
    "cli": {
        "": ["options", "terminal", "mcp", "shell"],
        "options": [],
        "terminal": [],
        "mcp": [],
        "shell": [],
    },
}

# Headers of rooms that other modules may include; everything else comes from the headers directly
# in the module's folder.
DOORS = {
    "mark": [
        "agent/agent.h",
        "attach/attachments.h",
        "auth/auth.h",
        "chat/chats.h",
        "llm/llm.h",
        "eval/eval.h",
        "export/export.h",
        "broker/broker.h",
        "budget/budget.h",
        "source/files.h",
        "source/sources.h",
        "verify/verify.h",
    ],
    "engine": ["doctor/doctor.h", "disk/disk.h"],
    "service": [
        "access/audit.h",
        "access/data.h",
        "access/keys.h",
        "execution/receipt.h",  # for `glovebox run`, which has no service
        "package/layers.h",
        "package/lock.h",
        "package/requirement.h",
        "session/network.h",  # likewise
        "template/presets.h",
        "template/templates.h",
        "watch/watch.h",
    ],
}

# Code between clone and sealed box: the compiler refuses malloc, stdio and locks there.
AFTER_CLONE = ("engine/seal/", "engine/shared/wire.c")
BANNED_AFTER_CLONE = "engine/shared/banned_after_clone.h"

OUTSIDE = {
    "Python.h": ["engine/python/"],
    "seccomp.h": [],  # tools/gen_seccomp only
    "jansson.h": ["connect/", "schema/", "service/", "mark/", "mcp/", "server/", "cli/"],
    "sqlite3.h": ["store/db_sqlite.c", "store/db_sqlite_backup.c"],
    "libpq-fe.h": ["connect/", "store/postgres/"],
    "microhttpd.h": ["server/"],
    "zlib.h": ["server/page/"],
    "wslay/wslay.h": ["server/http/ws_protocol.c"],
    "gnutls/gnutls.h": ["egress/", "mark/source/", "server/http/ws_protocol.c"],
    "gnutls/crypto.h": ["server/http/ws_protocol.c"],
    "ares.h": ["egress/resolve.c"],
    "sodium.h": ["base/text/base64.h", "egress/policy.c", "service/", "mark/", "mcp/", "server/", "cli/mcp/", "cli/shell/"],
    "archive.h": ["service/", "mark/export/"],
    "archive_entry.h": ["service/", "mark/export/"],
    "cmark-gfm.h": ["mark/export/prose.c"],
    "cmark-gfm-core-extensions.h": ["mark/export/prose.c"],
    "curl/curl.h": ["connect/", "service/", "mark/", "cli/mcp/", "cli/shell/"],
}

GENERATED = {"seccomp_policy.h", "connect_policy.h", "server/page_files.h"}  # generated in the build directory

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.MULTILINE)


def room_of(name):
    """The room of "module/room/file"; "" for a file directly in the module."""
    return name.split("/")[1] if name.count("/") > 1 else ""


def check_room(source, module, name):
    """A header of the same module: yields what is wrong with this room including it."""
    rooms, own, room = ROOMS.get(module), room_of(source), room_of(name)
    if room in ("", "shared", own):
        return
    if name.endswith("internal.h"):
        yield f'"{name}" is internal to {module}/{room}/'
    elif rooms is not None and room not in rooms.get(own, []):
        allowed = ", ".join(rooms.get(own, [])) or "no other room"
        yield f'"{name}": {module}/{own} may include {allowed}'


def check_door(module, target, header, name):
    """A header of another module."""
    if target not in MAY_INCLUDE[module]:
        allowed = ", ".join(MAY_INCLUDE[module]) or "no other module"
        yield f'"{name}": {module} may include {allowed}'
    elif header.endswith("internal.h"):
        yield f'"{name}" is internal to {target}'
    elif target in ROOMS and "/" in header and header not in DOORS.get(target, []):
        yield f'"{name}" is in a room of {target} and not public'


def check_quoted(root, source, module, name):
    """One of our headers: yields what is wrong with this module including it."""
    target, _, header = name.partition("/")
    if name in GENERATED:
        return
    if not header or target not in MAY_INCLUDE or not (root / "src" / name).exists():
        yield f'"{name}" is not "module/header.h" or "module/room/header.h"'
    elif target == module:
        yield from check_room(source, module, name)
    else:
        yield from check_door(module, target, header, name)


def check_file(root, path):
    source = path.relative_to(root / "src").as_posix()
    module = source.partition("/")[0]
    text = path.read_text(encoding="utf-8")
    includes = list(INCLUDE.finditer(text))
    if module in ROOMS and room_of(source) not in ROOMS[module]:
        yield f"1: {module}/{room_of(source)} is not a room of the table"
    for match in includes:
        line = text.count("\n", 0, match.start(2)) + 1
        name = match.group(2)
        if match.group(1) == '"':
            for mistake in check_quoted(root, source, module, name):
                yield f"{line}: {mistake}"
        elif not any(source.startswith(who) for who in OUTSIDE.get(name, [source])):
            yield f"{line}: <{name}> is only for {', '.join(OUTSIDE[name]) or 'tools'}"
    # A .def is a table, included where it is used.
    includes = [match for match in includes if not match.group(2).endswith(".def")]
    if path.suffix == ".c" and includes and includes[-1].group(2) != "base/banned.h":
        yield '1: does not include "base/banned.h" last'
    if path.suffix == ".c" and source.startswith(AFTER_CLONE):
        if [match.group(2) for match in includes[-2:-1]] != [BANNED_AFTER_CLONE]:
            yield f'1: does not include "{BANNED_AFTER_CLONE}" just before the last'


def check_listed(root):
    """Sources that no build file lists would be dead without anyone noticing."""
    for folder, pattern in (("src", "*.c"), ("runner", "*.py"), ("tests/unit", "test_*.c")):
        for path in sorted((root / folder).rglob(pattern)):
            build = next(p / "meson.build" for p in path.parents if (p / "meson.build").exists())
            text = re.sub(r"#.*", "", build.read_text(encoding="utf-8"))
            words = re.findall(r"'([^']*)'", text)
            name = path.relative_to(build.parent).as_posix()
            if name not in words and re.sub(r"^test_(.*)\.c$", r"\1", name) not in words:
                yield f"{path.relative_to(root)}:1: not listed in {build.relative_to(root)}"


def main(root=ROOT):
    mistakes = list(check_listed(root))
    for path in sorted((root / "src").rglob("*.[ch]")):
        if path.relative_to(root / "src").parts[0] not in MAY_INCLUDE:
            mistakes.append(f"{path.relative_to(root)}:1: not in a module of the table")
            continue
        mistakes += [f"{path.relative_to(root)}:{m}" for m in check_file(root, path)]
    print("\n".join(mistakes), end="\n" if mistakes else "")
    return 1 if mistakes else 0


if __name__ == "__main__":
    sys.exit(main(*map(pathlib.Path, sys.argv[1:2])))
