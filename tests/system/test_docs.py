"""The option table's other readers: --help, the manual, the completions.

The generator is named by GEN_DOCS, else looked for beside the binary. Completions are asked for in
real shells; the list of options comes from the Markdown reference, which is the plain table.
"""

import os
import pty
import re
import select
import shutil
import signal
import subprocess
import time

import pytest
from conftest import BINARY, ROOT, need

PROSE = os.path.join(ROOT, "docs", "glovebox.1.md")
PATIENCE = 120.0


def find_generator():
    named = os.environ.get("GEN_DOCS")
    if named:
        return os.path.abspath(os.path.join(ROOT, named))
    build = os.path.dirname(BINARY)
    for path in (os.path.join(build, "gen_docs"), os.path.join(build, "tools/gen_docs/gen_docs")):
        if os.access(path, os.X_OK):
            return path
    return None


@pytest.fixture(scope="session")
def pages(tmp_path_factory):
    """kind -> path of each document."""
    generator = find_generator()
    if generator is None and os.environ.get("GB_AS") in ("user", "subids"):
        pytest.skip("the pages are the same whoever reads them")
    need(generator is not None, "there is no gen_docs; name it with GEN_DOCS=PATH")
    where = tmp_path_factory.mktemp("pages")
    made = {}
    for kind, name in (
        ("man", "glovebox.1"),
        ("bash", "glovebox.bash"),
        ("zsh", "_glovebox"),
        ("fish", "glovebox.fish"),
        ("markdown", "options.md"),
    ):
        made[kind] = str(where / name)
        prose = [PROSE] if kind == "man" else []
        subprocess.run([generator, kind, made[kind], *prose], check=True, timeout=180)
    return made


@pytest.fixture(scope="session")
def long_options(pages):
    """command -> its long options, as the table has them; those of all commands are under ''."""
    found, command = {}, None
    with open(pages["markdown"], encoding="ascii") as f:
        for line in f:
            heading = re.match(r"## `glovebox ([^\s`]+)", line)
            if heading:
                command = heading[1] if heading[1].islower() else ""
                found.setdefault(command, set())
            row = re.match(r"\| `([^`]*)`", line)
            if row:
                found[command].update(re.findall(r"--[a-z-]+", row[1]))
    assert len(found["run"]) > 15 and "--memory" in found["run"], found
    return found


def quiet_env(home, **extra):
    keep = {k: os.environ[k] for k in ("PATH",) if k in os.environ}
    return {**keep, "HOME": str(home), "LC_ALL": "C.UTF-8", "TERM": "xterm", **extra}


# ---- help --------------------------------------------------------------------------------------


def test_help_names_every_option(gb, long_options):
    r = gb("run", "--help")
    assert r.code == 0 and r.err == ""
    for option in long_options["run"] | long_options[""] | {"-c CODE"}:
        assert re.search(rf"^ .*{re.escape(option)}\b", r.out, re.M), option
    assert max(map(len, r.out.splitlines())) <= 80
    assert "Examples:" in r.out


def test_help_of_all(gb, long_options):
    r = gb("--help")
    assert r.code == 0 and r.err == ""
    for word in ["run", "serve", "doctor", "key", "audit", "mcp", "pip", "template", "help", "version", *long_options[""]]:
        assert re.search(rf"^ .*{re.escape(word)}\b", r.out, re.M), word
    assert gb("help").out == r.out
    assert gb("help", "run").out == gb("run", "--help").out


def test_help_works_in_a_bad_environment(gb):
    r = gb("run", "--help", env={"GLOVEBOX_MEMORY": "512x"})
    assert r.code == 0 and "--memory" in r.out and r.err == ""


# ---- values from elsewhere ---------------------------------------------------------------------


def test_bad_variable_is_named(gb):
    r = gb("run", "-c", "print(1)", env={"GLOVEBOX_MEMORY": "512x"})
    assert r.code == 2 and r.out == ""
    assert "GLOVEBOX_MEMORY" in r.err and "512x" in r.err and r.err.count("\n") == 1


def test_bad_file_is_named(gb, tmp_path):
    (tmp_path / "glovebox").mkdir()
    (tmp_path / "glovebox" / "glovebox.conf").write_text("# mine\nmemroy = 1g\n")
    r = gb("run", "-c", "print(1)", env={"XDG_CONFIG_HOME": str(tmp_path)})
    assert r.code == 2 and r.out == ""
    assert "line 2" in r.err and "did you mean 'memory'" in r.err and r.err.count("\n") == 1


# ---- the manual --------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def manual(pages, tmp_path_factory):
    need(shutil.which("man") and shutil.which("groff"), "man and groff are not installed")
    r = subprocess.run(
        ["man", "-l", "--warnings", pages["man"]],
        env=quiet_env(tmp_path_factory.mktemp("home"), MANWIDTH="80", MANPAGER="cat"),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=180,
    )
    assert r.returncode == 0
    assert r.stderr.decode() == "", "warnings"
    return re.sub(r".\x08|\x1b\[[0-9;]*m", "", r.stdout.decode())


def test_manual_has_its_sections(manual):
    wanted = "NAME SYNOPSIS DESCRIPTION OPTIONS ENVIRONMENT FILES EXAMPLES".split()
    wanted += ["EXIT STATUS", "SEE ALSO", "RECEIPTS AND STATUSES", "KEYS", "AUDIT LOG"]
    for title in wanted:
        assert re.search(rf"^{title}$", manual, re.M), title


def test_manual_tells_every_option(manual, long_options):
    flat = re.sub(r"\s+", " ", manual)
    for option in long_options["run"]:
        assert re.search(rf"^ +(-\w, )?{option}\b", manual, re.M), option
        assert "GLOVEBOX_" + option[2:].upper().replace("-", "_") in flat
    for variable in ("MAX_EXECUTION_TIME", "MAX_MEMORY_MB", "MAX_OUTPUT_SIZE"):
        assert variable in flat
    assert "Default: 512m." in flat
    assert "$XDG_CONFIG_HOME/glovebox/glovebox.conf" in flat


def test_manual_shows_code_without_its_language(manual):
    assert re.search(r"^ +glovebox run --cell -c ", manual, re.M)
    assert not re.search(r"^\s*(`|(sh|text|json)$)", manual, re.M)


@pytest.mark.parametrize(
    "prose, mention",
    [
        ("text\n", "line 1"),
        ("# DESCRIPTION\n\nan *odd* word\n", "line 3"),
        ("# DESCRIPTION\n\n| a | table |\n", "line 3"),
        ("# DESCRIPTION\n\n```\nno end\n", "without an end"),
        ("# DESCRIPTION\n\n```sh\n```sh\n", "without an end"),
        ("# DESCRIPTION\n\n```two words\n```\n", "line 3"),
        ("# DESCRIPTION\n\n`no end\n", "line 3"),
        ("# DESCRIPTION\n\n\u00fcber\n", "line 3"),
        ("# DESCRIPTION\n\nfine\n", "no section"),
    ],
)
def test_bad_prose_is_refused(pages, tmp_path, prose, mention):
    source, page = tmp_path / "prose.md", tmp_path / "page.1"
    source.write_text(prose, encoding="utf-8")
    command = [find_generator(), "man", page, source]
    r = subprocess.run(command, capture_output=True, text=True, timeout=180)
    assert r.returncode == 1 and mention in r.stderr, r.stderr
    assert not page.exists()


# ---- completions -------------------------------------------------------------------------------


class Terminal:
    """An interactive shell on a terminal of its own."""

    def __init__(self, command, env):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            try:
                os.execvpe(command[0], command, env)
            finally:
                os._exit(127)
        self.seen = ""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.fd)

    def type(self, text):
        self.seen = ""
        os.write(self.fd, text.encode())

    def wait(self, pattern):
        """Reads until the screen shows @pattern."""
        end = time.monotonic() + PATIENCE
        while not re.search(pattern, self.seen):
            ready, _, _ = select.select([self.fd], [], [], max(0, end - time.monotonic()))
            assert ready, f"never saw {pattern!r} in {self.seen!r}"
            try:
                data = os.read(self.fd, 65536).decode("utf-8", "replace")
            except OSError:
                pytest.fail(f"the shell ended: {self.seen!r}")
            self.seen += re.sub(r"\x1b(\[[0-9;?]*[A-Za-z]|[=>])|[\x00\x07\x08]", "", data)


def bash_complete(script, line, cwd):
    """What the function offers for the last word of @line, split as bash splits at '='."""
    words = re.findall(r"=|[^\s=]+", line)
    if line.endswith(" "):
        words.append("")
    quoted = " ".join("'" + w.replace("'", "'\\''") + "'" for w in words)
    program = (
        f"source '{script}'; COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; "
        "_glovebox; printf '%s\\n' \"${COMPREPLY[@]}\""
    )
    r = subprocess.run(
        ["bash", "--norc", "--noprofile", "-c", program],
        cwd=cwd,
        env=quiet_env(cwd),
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert r.returncode == 0 and r.stderr == "", r.stderr
    return set(r.stdout.split("\n")) - {""}


@pytest.mark.parametrize(
    "line, offered",
    [
        ("glovebox ", {"run", "serve", "doctor", "key", "audit", "mcp", "pip", "template", "help", "version"}),
        ("glovebox r", {"run"}),
        ("glovebox --v", {"--version"}),
        ("glovebox help ", {"run", "serve", "doctor", "key", "audit", "mcp", "pip", "template", "help", "version"}),
        ("glovebox run --mem", {"--memory"}),
        ("glovebox run --memory 1g --ti", {"--timeout"}),
        ("glovebox run --memory=1g --ti", {"--timeout"}),
        ("glovebox run --json --cgroups ", {"auto", "v2", "v1", "none"}),
        ("glovebox run --cgroups v", {"v1", "v2"}),
        ("glovebox run --cgroups=", {"auto", "v2", "v1", "none"}),
        ("glovebox run --cgroups=v", {"v1", "v2"}),
        ("glovebox run --memory ", set()),
        ("glovebox run --out ", {"folder"}),
        ("glovebox run --file a", {"a b.csv", "a.py"}),
        ("glovebox run ", {"folder", "a b.csv", "a.py"}),
        ("glovebox run a.py --mem", set()),  # the program's own argument
        ("glovebox run -c pass --mem", set()),
        ("glovebox run -- --mem", set()),
        ("glovebox run a.py ", {"folder", "a b.csv", "a.py"}),
        ("glovebox key ", {"create", "list", "revoke"}),
        ("glovebox audit v", {"verify"}),
        ("glovebox key create --data f", {"folder"}),
        ("glovebox audit show --la", {"--last"}),
        ("glovebox doctor --", {"--json", "--cgroups", "--landlock", "--help", "--version"}),
    ],
)
def test_bash_offers(pages, tmp_path, line, offered):
    (tmp_path / "folder").mkdir()
    (tmp_path / "a.py").touch()
    (tmp_path / "a b.csv").touch()
    assert bash_complete(pages["bash"], line, tmp_path) == offered


def test_bash_offers_every_option(pages, long_options, tmp_path):
    offered = bash_complete(pages["bash"], "glovebox run --", tmp_path)
    assert offered == long_options["run"] | long_options[""]


def test_bash_at_the_terminal(pages, tmp_path):
    (tmp_path / "two words.py").touch()
    env = quiet_env(tmp_path, PS1="ready> ", INPUTRC="/dev/null", HISTFILE="/dev/null")
    with Terminal(["bash", "--norc", "--noprofile", "-i"], env) as shell:
        shell.wait("ready> ")
        shell.type(f"cd '{tmp_path}'; source '{pages['bash']}' && echo loa''ded\n")
        shell.wait(r"loaded\s+ready> ")
        shell.type("glovebox run --mem\t")
        shell.wait("--memory ")
        shell.type("\x15glovebox run --cgroups=no\t")
        shell.wait("--cgroups=none")
        shell.type("\x15glovebox run two\t")
        shell.wait(r"two\\ words\.py")


def test_zsh_parses(pages):
    need(shutil.which("zsh"), "zsh is not installed")
    r = subprocess.run(["zsh", "-n", pages["zsh"]], capture_output=True, text=True, timeout=180)
    assert r.returncode == 0 and r.stderr == ""


def test_zsh_at_the_terminal(pages, tmp_path):
    need(shutil.which("zsh"), "zsh is not installed")
    env = quiet_env(tmp_path, PS1="ready> ", HISTFILE="/dev/null")
    with Terminal(["zsh", "-f", "-i"], env) as shell:
        shell.wait("ready> ")
        shell.type("unsetopt prompt_sp; autoload -Uz compinit && compinit -u -D && echo a''b\n")
        shell.wait(r"ab\s+ready> ")
        shell.type(f"source '{pages['zsh']}' && echo loa''ded\n")
        shell.wait(r"loaded\s+ready> ")
        shell.type("glovebox ver\t")
        shell.wait("glovebox version ")
        shell.type("\x15glovebox run --mem\t")
        shell.wait("--memory")
        shell.type("\x15glovebox run --cgroups no\t")
        shell.wait("--cgroups none")
        shell.type("\x15glovebox run --json --lan\t")
        shell.wait("--landlock")


def test_zsh_names_every_option(pages, long_options):
    with open(pages["zsh"], encoding="ascii") as f:
        text = f.read()
    for option in long_options["run"] | long_options[""]:
        assert re.search(rf"'\*?{option}=?\[", text), option


def fish_complete(pages, line, cwd):
    r = subprocess.run(
        ["fish", "--no-config", "-c", f"source '{pages['fish']}'; complete -C '{line}'"],
        cwd=cwd,
        env=quiet_env(cwd),
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert r.returncode == 0 and r.stderr == "", r.stderr
    return {row.split("\t")[0] for row in r.stdout.splitlines()}


def test_fish(pages, long_options, tmp_path):
    need(shutil.which("fish"), "fish is not installed")
    r = subprocess.run(
        ["fish", "-n", pages["fish"]], capture_output=True, env=quiet_env(tmp_path), timeout=180
    )
    assert r.returncode == 0 and r.stderr == b""
    (tmp_path / "a.py").touch()
    assert fish_complete(pages, "glovebox run --", tmp_path) == {
        *long_options["run"],
        *long_options[""],
    }
    assert fish_complete(pages, "glovebox ver", tmp_path) == {"version"}
    assert fish_complete(pages, "glovebox run --cgroups ", tmp_path) == {"auto", "v2", "v1", "none"}
    assert "a.py" in fish_complete(pages, "glovebox run a", tmp_path)
