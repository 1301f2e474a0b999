"""
The documents as tests see them: their blocks of commands, made into programs that can be run.

A block marked `sh`, `console` or `python` is run, all blocks of a document in order and in one shell,
so that variables carry over. A comment right above a block says what is special about it:

    <!-- run: service -->            a service with default options is running before this block
    <!-- run: exit 124 -->           the command has to end with this code, not with 0
    <!-- run: box -->                a Python block that is a program for a box: `glovebox run` gets it
    <!-- run: argument TEXT -->      a Python block gets this argument
    <!-- run: any output -->         what is shown is an example; do not compare
    <!-- not run: REASON -->         cannot be run here; REASON is printed by the test

In a `console` block a line that begins with `$ ` is a command and what follows is its output, which
is compared without regard to white space; `…` stands for anything. Ids are any ids.

`glovebox serve` in a document starts a service in the background, on a free port that takes the place
of 8080 everywhere, and ends the one before. A document that calls psql has a PostgreSQL of the test at
127.0.0.1:5432, whose superuser it is. /srv is a directory of the test. `make` only checks that the target exists. An HTTP error,
or an execution that failed, fails the block. So does a command that would change the host, such as pip.
"""

import os
import pathlib
import re
import shlex
import socket
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
FILES = pathlib.Path(__file__).resolve().parent / "doc_files"

RUNNABLE = ("sh", "bash", "console", "python")
MARKER = re.compile(r"<!-- (run|not run): (.*?) -->$")
IDS = re.compile(r"(ses|exec|req|key)_(?:[0-9a-f]+|…)")
FAILED = (r'"success": ?false|"status": ?'
          r'"(error|timeout|oom|killed|pids|disk|output|cancelled|system)"')
PORTS = (8080, 8081, 9000)

PRELUDE = r"""
set -e -o pipefail
stop_service() {
    [ -n "${SERVE_PID-}" ] || return 0
    kill "$SERVE_PID" && wait "$SERVE_PID"
    SERVE_PID=
}
glovebox() {
    if [ "${1-}" != serve ]; then
        command glovebox "$@"
        return
    fi
    stop_service
    rm -f "$GLOVEBOX_PORT_FILE"
    command glovebox "$@" </dev/null >"$DOC_STATE/serve.out" 2>"$DOC_STATE/serve.log" &
    SERVE_PID=$!
    until [ -s "$GLOVEBOX_PORT_FILE" ]; do
        kill -0 "$SERVE_PID" 2>/dev/null || { cat "$DOC_STATE/serve.log"; SERVE_PID=; return 1; }
        sleep 0.05
    done
    cat "$DOC_STATE/serve.out"
}
refuse() { echo "this would change the host; say: not run" >&2; return 98; }
for word in apt apt-get claude npm pip pip3 sudo systemctl systemd-run useradd usermod; do
    eval "$word() { refuse; }"
done
make() { command make -n "$@" >/dev/null; }
curl() { command curl --fail-with-body --max-time 100 "$@"; }
trap 'stop_service' EXIT
"""


class Block:
    def __init__(self, document, line, language, text, marker):
        self.document, self.line, self.language, self.text = document, line, language, text
        kind, words = marker or ("run", "")
        self.reason = words if kind == "not run" else None
        self.words = [w.strip() for w in words.split(",") if w.strip()] if kind == "run" else []
        self.runnable = language in RUNNABLE and self.reason is None

    @property
    def where(self):
        return f"{self.document}:{self.line}"

    def exit_code(self):
        return next((int(w.split()[1]) for w in self.words if w.startswith("exit ")), 0)


class Step:
    """One program text for the shell, and what it has to print (None: anything)."""

    def __init__(self, block, line, text, output=None):
        self.block, self.line, self.text, self.output = block, line, text, output

    @property
    def where(self):
        return f"{self.block.document}:{self.line}"


def documents():
    found = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "clients/python/README.md"]
    return [p.relative_to(ROOT).as_posix() for p in found + sorted((ROOT / "docs").rglob("*.md"))]


def blocks(document, text=None):
    """Every fenced block of a document, also those that are no commands."""
    if text is None:
        text = (ROOT / document).read_text(encoding="utf-8")
    found, opened, marker = [], None, None
    for number, line in enumerate(text.split("\n"), 1):
        fence = re.match(r" *```(\S*)", line)
        if fence and opened is None:
            opened = (number, fence[1], marker, [])
        elif fence:
            start, language, its_marker, lines = opened
            found.append(Block(document, start, language, "\n".join(lines) + "\n", its_marker))
            opened, marker = None, None
        elif opened is not None:
            opened[3].append(line)
        elif MARKER.match(line):
            marker = MARKER.match(line).groups()
        elif line.strip():
            marker = None
    return found


def is_whole(command):
    """Whether a shell would not wait for another line."""
    try:
        shlex.split(command, comments=True)
    except ValueError:
        return False
    return not command.endswith("\\")


def console_steps(block):
    found = []
    for number, line in enumerate(block.text.rstrip("\n").split("\n"), block.line + 1):
        if found and not is_whole(found[-1].text):
            found[-1].text += "\n" + line.removeprefix("> ")
        elif line.startswith("$ "):
            found.append(Step(block, number, line[2:], ""))
        elif found:
            found[-1].output += line + "\n"
        else:
            raise ValueError(f"{block.where}: output before the first command")
    for step in found:
        if "any output" in block.words or not step.output.strip():
            step.output = None
    return found


def steps(document, found=None):
    """What the shell does for one document, in order."""
    made, python, arguments, at = [], {}, [], None
    for block in found if found is not None else blocks(document):
        if not block.runnable:
            continue
        if "service" in block.words:
            made.append(Step(block, block.line, "glovebox serve"))
        if block.language == "console":
            made += console_steps(block)
        elif block.language == "python" and "box" in block.words:
            made.append(Step(block, block.line, f"glovebox run - <<'END'\n{block.text}END"))
        elif block.language == "python":
            python.update(enumerate(block.text.split("\n"), block.line + 1))
            arguments += [w.split(" ", 1)[1] for w in block.words if w.startswith("argument ")]
            at = block
        else:
            made.append(Step(block, block.line, block.text))
    if python:  # one program; a traceback names the lines of the document
        source = "\n".join(python.get(n, "") for n in range(1, max(python) + 1)) + "\n"
        runner = "import sys; t = sys.stdin.read(); del sys.argv[0]; " \
                 "exec(compile(t, sys.argv[0], 'exec'), {'__name__': '__main__'})"
        made.append(Step(at, at.line, '[ -n "${SERVE_PID-}" ] || glovebox serve'))
        made.append(Step(at, at.line, f'/usr/bin/python3 -W error -c "{runner}" '
                                      + " ".join([document, *arguments]) +
                                      f" <<'END'\n{source}END"))
    return made


def free_ports():
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in PORTS]
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


def localised(text, ports, where):
    """Addresses and directories of an operator become those of this test."""
    for public, ours in zip(PORTS, ports):
        text = re.sub(rf"(127\.0\.0\.1|localhost):{public}\b", f"127.0.0.1:{ours}", text)
    return re.sub(r"(?<![\w.])/srv/", f"{where}/srv/", text)


def wants_postgres(made):
    return any(re.search(r"\bpsql\b", step.text) for step in made)


def with_postgres(made, server):
    """Has the steps use @server; returns variables for its clients."""
    for step in made:
        step.text = step.text.replace("127.0.0.1:5432", f"127.0.0.1:{server.port}")
    return {"PGHOST": str(server.socket_dir), "PGPORT": str(server.port), "PGUSER": "postgres"}


def script(made, ports, where):
    """The whole document as one program of the shell."""
    lines, state = [PRELUDE], where / "state"
    for number, step in enumerate(made):
        text = re.sub(r"^(glovebox serve.*?) &$", r"\1", localised(step.text, ports, where),
                      flags=re.M)
        code = step.block.exit_code()
        lines.append(f"echo {number} >{state}/step")
        if code:
            lines.append(f"set +e\n{{\n{text}\n}} >{state}/{number}.out 2>&1 </dev/null\n"
                         f"[ $? = {code} ] || exit 99\nset -e")
        else:
            lines.append(f"{{\n{text}\n}} >{state}/{number}.out 2>&1 </dev/null")
    lines.append(f"stop_service\necho end >{state}/step")
    return "\n".join(lines) + "\n"


def squeeze(text):
    return re.sub(r"\s+", "", IDS.sub(r"\1_…", text))


def matches(wanted, got):
    pattern = ".*".join(re.escape(part) for part in squeeze(wanted).split("…"))
    return re.fullmatch(pattern, squeeze(got), re.S) is not None


def complaint(step, got, ports, where):
    """What is wrong with the output of a step that ended as it should; None if nothing is."""
    if step.output is not None and not matches(localised(step.output, ports, where), got):
        return f"printed\n{got}\ninstead of\n{step.output}"
    failed = re.search(FAILED, got)
    if failed and step.output is None and not step.block.exit_code() \
            and "any output" not in step.block.words:
        return f"an execution failed ({failed[0]}):\n{got}"
    return None


def work_dir(path):
    """A directory that looks like a checkout, with the input files of the documents."""
    path.mkdir(parents=True)
    for entry in ("clients", "docs", "examples", "src", "tests", "tools", "Makefile", "packages.txt"):
        (path / entry).symlink_to(ROOT / entry)
    for file in FILES.iterdir():
        (path / file.name).write_bytes(file.read_bytes())


def run(document, made, where, env, binary):
    """Runs all steps; returns the complaints."""
    work, state, ports = where / "work", where / "state", free_ports()
    work_dir(work)
    for folder in ("state", "bin", "srv/wheels", "home/sets", "home/results"):
        (where / folder).mkdir(parents=True)
    if os.geteuid() == 0:
        os.chown(where / "home/results", 1000, 1000)  # the manual's reader is an ordinary user
    (where / "home/sets/sales.csv").write_bytes((FILES / "sales.csv").read_bytes())
    (where / "bin" / "glovebox").symlink_to(binary)
    (work / "build").symlink_to(pathlib.Path(binary).parent)
    env = {**env, "HOME": str(where / "home"), "TMPDIR": str(state), "DOC_STATE": str(state),
           "PATH": f"{where / 'bin'}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
           "GLOVEBOX": binary, "GLOVEBOX_LISTEN": f"127.0.0.1:{ports[0]}",
           "GLOVEBOX_PORT_FILE": str(state / "port"), "GLOVEBOX_DATA": str(where / "data"),
           "GLOVEBOX_URL": f"http://127.0.0.1:{ports[0]}", "PYTHONPATH": str(ROOT / "clients/python"),
           "GLOVEBOX_PRELOAD": "none"}
    (state / "script").write_text(script(made, ports, where), encoding="utf-8")
    shell = subprocess.run(["bash", "--norc", state / "script"], cwd=work, env=env, timeout=600,
                           stdin=subprocess.DEVNULL, capture_output=True, text=True)
    last = (state / "step").read_text().strip()
    found = []
    for number, step in enumerate(made):
        out = state / f"{number}.out"
        got = out.read_text(encoding="utf-8", errors="replace") if out.exists() else ""
        if last == str(number):
            found.append(f"{step.where}: ended with {shell.returncode}\n{step.text}\n{got}{shell.stderr}")
            break
        wrong = complaint(step, got, ports, where)
        if wrong:
            found.append(f"{step.where}: {step.text}\n{wrong}")
    if not found and last != "end":
        found.append(f"{document}: the service did not end well\n{shell.stderr}")
    return found
