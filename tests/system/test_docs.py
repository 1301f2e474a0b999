"""The option table's other readers (--help, the manual, the completions), and the documents.

The generator is named by GEN_DOCS, else looked for beside the binary. Completions are asked for in
real shells; the list of options comes from the Markdown reference, which is the plain table.

Every command in the documents is run (doc_kit.py says how), and what they name has to exist.
"""

import glob
import importlib.util
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import subprocess
import time

import doc_kit
import pytest
from conftest import BINARY, ROOT, need
from package_kit import ALONE, Index
from postgres_kit import bin_dir, postgres  # noqa: F401
from test_template import place  # noqa: F401

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


def test_manual_has_the_version(pages):
    with open(os.path.join(ROOT, "meson.build"), encoding="utf-8") as f:
        version = re.search(r"^\s+version: '([^']+)'", f.read(), re.M)[1]
    with open(pages["man"], encoding="utf-8") as f:
        head = [line for line in f if line.startswith(".TH ")]
    assert head == [f'.TH GLOVEBOX 1 "" "glovebox {version}" "User Commands"\n']


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
        ("# DESCRIPTION\n\n<!-- no end\n", "line 3"),
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


COMMANDS = {"run", "serve", "ask", "mark", "user", "doctor", "key", "audit", "source", "store", "mcp", "pip", "shell",
            "template", "help", "version"}


@pytest.mark.parametrize(
    "line, offered",
    [
        ("glovebox ", COMMANDS),
        ("glovebox r", {"run"}),
        ("glovebox --v", {"--version"}),
        ("glovebox help ", COMMANDS),
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
        ("glovebox doctor --", {"--json", "--cgroups", "--landlock", "--data", "--database",
                              "--database-password-file", "--default-template", "--model", "--model-key", "--help", "--version"}),
        ("glovebox ask --mark-str", {"--mark-strict"}),
        ("glovebox serve --signup ", {"auto", "open", "invite", "closed"}),
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


# ---- the documents -----------------------------------------------------------------------------

NOT_RUN_MOST = 15  # blocks; raise it if one more has a good reason
ELSEWHERE = {("clients/python/README.md", "python")}  # clients/python/tests/test_readme.py runs these
COMMAND = re.compile(r"^(\$ |(sudo |\w+=\S+ )*(glovebox|curl|make|pip|apt|apt-get|claude|python3|git) )")


@pytest.fixture
def index():
    made = Index()
    made.wheel("humanize", "4.16.0", {"humanize.py": "def naturalsize(n):\n    return '1.0 MB'\n"})
    made.wheel("ujson", "6.1.0", {"ujson.py": "from json import dumps, loads\n"})
    yield made
    made.close()


def document_env(gb, index):
    return gb.environment({**ALONE, "GLOVEBOX_INDEX_URL": index.url})


@pytest.fixture(scope="session")
def server_or_none(request):
    """Of the session, so that it is there before a test looks at what is left behind."""
    return request.getfixturevalue("postgres") if bin_dir() else None


@pytest.mark.parametrize("document", doc_kit.documents())
def test_documented_commands(server_or_none, gb, index, place, document):
    found = [b for b in doc_kit.blocks(document) if (document, b.language) not in ELSEWHERE]
    made = doc_kit.steps(document, found)
    if not made:
        return
    if os.geteuid() != 0:
        pytest.skip("operators' commands, such as install -o, are run as root")
    need(shutil.which("curl") and shutil.which("jq"), "curl and jq are not installed")
    env = document_env(gb, index)
    if doc_kit.wants_postgres(made):
        need(server_or_none, "there is no PostgreSQL server here (Debian: postgresql)")
        env.update(doc_kit.with_postgres(made, server_or_none))
    wrong = doc_kit.run(document, made, pathlib.Path(place, "doc"), env, BINARY)
    assert not wrong, "\n\n".join(wrong)


@pytest.mark.parametrize(
    "text, mention",
    [
        ("```sh\ntrue\nglovebox run -c 'print(1)' && false\n```", "a.md:1"),
        ("```sh\ntrue\n```\n\n```sh\nglovebox run --no-such-option x.py\n```", "a.md:5"),
        ("```console\n$ true\n$ echo 41\n42\n```", "a.md:3"),
        ("<!-- run: exit 3 -->\n```sh\nexit_with() { return $1; }; exit_with 4\n```", "a.md:2"),
        ("```sh\nmake no-such-target\n```", "a.md:1"),
        ("```sh\npip install x\n```", "say: not run"),
        ("<!-- run: service -->\n```sh\ncurl http://127.0.0.1:8080/v1/no-such-route\n```", "a.md:2"),
        ("<!-- run: service -->\n```sh\n"
         "curl http://127.0.0.1:8080/v1/execute -d '{\"code\": \"1/0\"}'\n```", "execution failed"),
        ("```sh\nglovebox serve --memory 1x\n```", "a.md:1"),
        ("one\n\n```python\nimport glovebox\nglovebox.run('1/0', check=True)\n```", '"a.md", line 5'),
        ("<!-- run: box -->\n```python\nraise SystemExit(1)\n```", "a.md:2"),
    ],
    ids=["fails", "option", "output", "exit code", "make", "pip", "404", "execution", "serve", "python", "box"],
)
def test_a_wrong_document_is_found(gb, index, place, text, mention):
    made = doc_kit.steps("a.md", doc_kit.blocks("a.md", text))
    wrong = doc_kit.run("a.md", made, pathlib.Path(place, "doc"), document_env(gb, index), BINARY)
    assert len(wrong) == 1 and mention in wrong[0], wrong


def test_right_documents_pass(gb, index, place):
    text = ("```sh\nNAME=box\n```\n\n```console\n$ echo \"$NAME\" 'a\nb'\nbox a\nb\n$ echo 123 45\n…45\n```\n"
            "<!-- run: exit 3 -->\n```sh\nglovebox run -c 'raise SystemExit(3)'\n```\n"
            "<!-- not run: it would fail -->\n```sh\nfalse\n```\n```\nno commands\n```\n"
            "```sh\nmake help\nglovebox serve --pool 1 &\ncurl localhost:8080/health\n```\n"
            "```python\nimport glovebox\nassert glovebox.run('6 * 7').text == '42'\n```\n")
    found = doc_kit.blocks("a.md", text)
    assert [b.reason for b in found if b.reason] == ["it would fail"]
    made = doc_kit.steps("a.md", found)
    assert len(made) == 7
    assert doc_kit.run("a.md", made, pathlib.Path(place, "doc"), document_env(gb, index), BINARY) == []


def test_few_blocks_are_not_run():
    found = [b for d in doc_kit.documents() for b in doc_kit.blocks(d) if b.reason is not None]
    for block in found:
        print(f"not run: {block.where}: {block.reason}")
        assert len(block.reason) > 10, block.where
    assert len(found) <= NOT_RUN_MOST


def test_commands_stand_in_marked_blocks():
    """Whoever writes no language, or another word for a shell, has forgotten that it is run."""
    hidden = []
    for document in doc_kit.documents():
        for block in doc_kit.blocks(document):
            if block.language not in (*doc_kit.RUNNABLE, "text", "json", "c", "ini"):
                hidden += [f"{block.where}: {line}" for line in block.text.split("\n")
                           if COMMAND.match(line) or block.language]
    assert not hidden, "mark these sh or console, or text:\n" + "\n".join(hidden)


def test_documented_options_exist(gb, long_options):
    """Also those of commands that are not run, and of those in the text."""
    wrong = []
    for document in [*doc_kit.documents(), "SECURITY.md"]:
        with open(os.path.join(ROOT, document), encoding="utf-8") as f:
            text = re.sub(r"\\\n", " ", f.read())
        for command, rest in re.findall(r"\bglovebox (\w+)((?: [^`\n|]*)?)", text):
            if command not in long_options:
                continue
            rest = re.split(r" -c | -- |[;#&]", rest)[0]
            for option in re.findall(r"(?<=\s)--[a-z][a-z-]*", rest):
                if option not in long_options[command] | long_options[""]:
                    wrong.append(f"{document}: glovebox {command} {option}")
    assert not wrong, "\n".join(wrong)


def test_picture_is_not_stale(gb, tmp_path):
    """The terminal in README.md shows what the binary prints, but for numbers."""
    need(shutil.which("jq"), "jq is not installed")
    fresh, kept = tmp_path / "terminal.svg", os.path.join(ROOT, "docs", "img", "terminal.svg")
    tool = os.path.join(ROOT, "tools", "picture.py")
    subprocess.run([tool, "--binary", BINARY, "--out", fresh], check=True, timeout=300,
                   env=gb.environment())
    with open(kept, encoding="utf-8") as f:
        drawn = re.sub(r"[\d.]+", "0", f.read())
    assert re.sub(r"[\d.]+", "0", fresh.read_text()) == drawn, "make it again with tools/picture.py"


# ---- what the documents name -------------------------------------------------------------------

PLACE = re.compile(r"(?<![\w./<-])((?:src|tests|tools|bench|runner|examples|clients|docs)/[\w.*{},/-]*\w[*}]?)")
FILE_NAME = re.compile(r"`((?:[\w-]+/)*[\w*-]+\.(?:c|h|def|py|sh))`")


def prose():
    for document in [*doc_kit.documents(), "SECURITY.md"]:
        with open(os.path.join(ROOT, document), encoding="utf-8") as f:
            yield document, f.read()


def spread(pattern):
    """a{b,c}d as a shell spreads it."""
    group = re.search(r"\{([^{}]*)\}", pattern)
    if not group:
        return [pattern]
    return [p for word in group[1].split(",")
            for p in spread(pattern[: group.start()] + word + pattern[group.end():])]


def test_named_places_exist():
    wrong = [f"{document}: {place}" for document, text in prose()
             for place in PLACE.findall(re.sub(r"https?://\S+", "", text))
             for path in spread(place) if not glob.glob(os.path.join(ROOT, path))]
    assert not wrong, "\n".join(wrong)


def test_named_files_exist():
    """A file in backquotes that has the name of a source: somewhere in the tree, or shown here."""
    tree = {os.path.relpath(os.path.join(top, name), ROOT) for folder in
            ("src", "tests", "tools", "bench", "runner", "examples", "clients")
            for top, _, names in os.walk(os.path.join(ROOT, folder)) for name in names}
    wrong = []
    for document, text in prose():
        for name in FILE_NAME.findall(text):
            pattern = re.compile("(.*/)?" + re.escape(name).replace(r"\*", "[^/]*"))
            shown = text.count(name) > text.count(f"`{name}`")
            if not any(map(pattern.fullmatch, tree)) and not shown:
                wrong.append(f"{document}: {name}")
    assert not wrong, "\n".join(wrong)


def anchors(path):
    """The fragments of a page's headings, as GitHub makes them."""
    with open(path, encoding="utf-8") as f:
        heads = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", f.read(), flags=re.M | re.S), re.M)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in heads}


def test_links_lead_somewhere():
    wrong = []
    for document, text in prose():
        text = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
        for target in re.findall(r"\]\(([^)\s]+)\)|src=\"([^\"]+)\"", text):
            path, _, fragment = "".join(target).partition("#")
            if re.match(r"https?:|mailto:", path):
                continue
            full = os.path.normpath(os.path.join(ROOT, os.path.dirname(document), path))
            full = full if path else os.path.join(ROOT, document)
            if not os.path.exists(full) or (fragment and fragment not in anchors(full)):
                wrong.append(f"{document}: {path}#{fragment}")
    assert not wrong, "\n".join(wrong)


def test_every_room_has_its_paragraph():
    """ARCHITECTURE.md is a map: each folder of sources begins a paragraph there, and no other does."""
    with open(os.path.join(ROOT, "docs", "ARCHITECTURE.md"), encoding="utf-8") as f:
        paragraphs = f.read().split("\n\n")
    described = {m[1]: p for p in paragraphs if (m := re.match(r"\*\*`(src/[\w/]+)`\*\*", p))}
    folders = {os.path.relpath(top, ROOT) for top, _, names in os.walk(os.path.join(ROOT, "src"))
               if names and "__pycache__" not in top}
    assert set(described) == folders
    for folder, paragraph in described.items():
        assert len(paragraph) > 100, folder


def test_module_table_is_the_checked_one():
    """Who may include whom, as ARCHITECTURE.md says it and as tools/check_includes.py checks it."""
    spec = importlib.util.spec_from_file_location(
        "check_includes", os.path.join(ROOT, "tools", "check_includes.py"))
    checker = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(checker)
    with open(os.path.join(ROOT, "docs", "ARCHITECTURE.md"), encoding="utf-8") as f:
        rows = re.findall(r"^\| `src/(\w+)` \|.*\| ([^|]*) \|$", f.read(), re.M)
    exist = set(os.listdir(os.path.join(ROOT, "src")))
    assert [name for name, _ in rows if name in exist] == [name for name, _ in rows]
    said = {name: set(re.findall(r"\w+", who)) & exist for name, who in rows}
    assert said == {name: set(who) & exist for name, who in checker.MAY_INCLUDE.items()
                    if name in exist}


def test_readme_is_a_landing_page():
    with open(os.path.join(ROOT, "README.md"), encoding="utf-8") as f:
        assert len(f.readlines()) <= 150
