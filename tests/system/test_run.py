"""`glovebox run` does what the command line promises and what python3 would do."""

import json
import os
import pty
import re
import select
import stat
import subprocess
import textwrap

import pytest

from conftest import Glovebox, wait_for
from serve_kit import Server

PYTHON = "/usr/bin/python3"  # the interpreter in the box, to compare with


def write(path, text):
    path.write_text(textwrap.dedent(text).lstrip("\n"))
    return path


def last_json(result):
    """The program's last line, read as JSON; shows stderr when there is none."""
    assert result.code == 0, (result.code, result.out[-500:], result.err[-3000:])
    return json.loads(result.out.strip().splitlines()[-1])


# ---- where the program comes from --------------------------------------------------------------


def test_program_from_stdin(gb):
    r = gb("run", "-", stdin="print(sum(range(10)))")
    assert (r.code, r.out, r.err) == (0, "45\n", "")


def test_program_from_command(gb):
    r = gb("run", "-c", "print('hello', 'wörld ☃')")
    assert (r.code, r.out, r.err) == (0, "hello wörld ☃\n", "")


def test_program_from_file(gb, tmp_path):
    prog = write(tmp_path / "prog.py", "print('from a file')")
    r = gb("run", prog)
    assert (r.code, r.out, r.err) == (0, "from a file\n", "")


def test_relative_file_name(gb, tmp_path):
    write(tmp_path / "prog.py", "print('relative')")
    assert gb("run", "prog.py", cwd=tmp_path).out == "relative\n"


def test_byte_order_mark(gb, tmp_path):
    (tmp_path / "bom.py").write_bytes(b"\xef\xbb\xbfprint('bom')\n")
    assert gb("run", tmp_path / "bom.py").out == "bom\n"


def test_crlf_and_no_final_newline(gb, tmp_path):
    (tmp_path / "dos.py").write_bytes(b"if True:\r\n    print('dos')\r\nprint('end')")
    assert gb("run", tmp_path / "dos.py").out == "dos\nend\n"


def test_the_last_expression_is_not_printed(gb):
    assert gb("run", "-c", "40 + 2").out == ""


# ---- arguments, main module --------------------------------------------------------------------

SHOW_MAIN = """
import sys, json
print(json.dumps({
    "name": __name__, "argv": sys.argv, "file": globals().get("__file__"),
    "is_main": sys.modules["__main__"].__dict__ is globals(),
    "names": sorted(n for n in globals() if not n.startswith("__") and n not in ("sys", "json")),
}))
"""


def test_main_module_of_a_file(gb, tmp_path):
    prog = write(tmp_path / "prog.py", SHOW_MAIN)
    got = last_json(gb("run", prog, "a", "--json", "-x", "", "é", "two words"))
    assert got["argv"][1:] == ["a", "--json", "-x", "", "é", "two words"]
    assert os.path.basename(got["argv"][0]) == "prog.py"
    assert os.path.basename(got["file"]) == "prog.py"
    assert got["name"] == "__main__" and got["is_main"] and got["names"] == []


def test_main_module_of_a_command(gb):
    got = last_json(gb("run", "-c", SHOW_MAIN, "--timeout", "5"))
    assert got["argv"] == ["-c", "--timeout", "5"]
    assert got["file"] is None
    assert got["name"] == "__main__" and got["is_main"] and got["names"] == []


def test_main_module_of_stdin(gb):
    got = last_json(gb("run", "-", "one", stdin=SHOW_MAIN))
    assert got["argv"] == ["-", "one"] and got["name"] == "__main__" and got["is_main"]


def test_the_program_file_can_be_opened(gb, tmp_path):
    prog = write(tmp_path / "prog.py", "print(open(__file__).read().splitlines()[0])  # me")
    assert gb("run", prog).out.strip().endswith("# me")


def test_pickle_of_a_class_in_main(gb):
    r = gb.py("""
        import pickle
        class C:
            x = 1
        print(type(pickle.loads(pickle.dumps(C()))) is C)
    """)
    assert r.out == "True\n", r.err


def test_double_dash_ends_the_options(gb, tmp_path):
    write(tmp_path / "-c.py", "import sys; print(sys.argv[1:])")
    assert gb("run", "--", "-c.py", "--json", cwd=tmp_path).out == "['--json']\n"


# ---- stdin -------------------------------------------------------------------------------------


def test_stdin_is_passed(gb, tmp_path):
    prog = write(tmp_path / "p.py", "import sys; print(len(sys.stdin.buffer.read()))")
    assert gb("run", prog, stdin=b"\x00\xff" * 500_000).out == "1000000\n"


def test_input_reads_lines_and_ends_with_eof(gb):
    code = """
        print(input("name? ") + "!")
        try:
            input()
        except EOFError:
            print("eof")
    """
    r = gb.py(code, stdin="Ada\n")
    assert r.out == "name? Ada!\neof\n", r.err


def test_output_comes_while_the_program_runs(gb):
    code = "print('first', flush=True); print('got', input())"
    p = gb.start("run", "-c", code)
    assert p.stdout.readline() == b"first\n"
    assert p.poll() is None
    r = gb.finish(p, b"answer\n")
    assert (r.code, r.out) == (0, "got answer\n")


def test_stderr_comes_while_the_program_runs(gb):
    p = gb.start("run", "-c", "import sys; sys.stderr.write('warn\\n'); input()")
    assert p.stderr.readline() == b"warn\n"
    assert p.poll() is None
    assert gb.finish(p, b"\n").code == 0


def test_large_output_is_whole_and_in_order(gb):
    r = gb.py("for i in range(200000): print(i)")
    assert r.out == "".join(f"{i}\n" for i in range(200000))


def test_binary_output_is_untouched(gb):
    r = gb.py("import sys; sys.stdout.buffer.write(bytes(range(256)) * 1000)")
    assert r.raw_out == bytes(range(256)) * 1000


def test_streams_stay_apart(gb):
    r = gb.py("import sys; print('out'); print('err', file=sys.stderr)")
    assert (r.out, r.err) == ("out\n", "err\n")


# ---- how it ends -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "code, exit_code, err",
    [
        ("import sys; sys.exit()", 0, ""),
        ("import sys; sys.exit(None)", 0, ""),
        ("import sys; sys.exit(0)", 0, ""),
        ("import sys; sys.exit(3)", 3, ""),
        ("import sys; sys.exit(True)", 1, ""),
        ("import sys; sys.exit(261)", 5, ""),
        ("import sys; sys.exit(-1)", 255, ""),
        ("import sys; sys.exit('sorry')", 1, "sorry\n"),
        ("import sys; sys.exit((1, 2))", 1, "(1, 2)\n"),
        ("raise SystemExit(9)", 9, ""),
        ("exit(4)", 4, ""),
        ("import os; os._exit(7)", 7, ""),
        ("import sys; sys.exit(124)", 124, ""),
        ("import sys; sys.exit(137)", 137, ""),
        ("import threading, sys; threading.Thread(target=sys.exit, args=(5,)).start()", 0, ""),
    ],
)
def test_exit_code(gb, code, exit_code, err):
    r = gb("run", "-c", code)
    assert (r.code, r.err) == (exit_code, err)


@pytest.mark.parametrize("name, number", [("SIGKILL", 9), ("SIGTERM", 15), ("SIGSEGV", 11)])
def test_exit_by_signal(gb, name, number):
    r = gb.py(f"import os, signal; os.kill(os.getpid(), signal.{name})", "--json")
    assert r.code == 128 + number
    assert (r.receipt["status"], r.receipt["exit_code"]) == ("killed", 128 + number)
    assert r.receipt["limit"] is None and r.receipt["success"] is False


def test_uncaught_keyboard_interrupt(gb):
    r = gb("run", "-c", "raise KeyboardInterrupt")
    assert r.code == 130 and "KeyboardInterrupt" in r.err


def test_atexit_and_unflushed_output(gb):
    r = gb.py("""
        import atexit, sys
        atexit.register(print, "bye")
        sys.stdout.write("no newline, no flush;")
        sys.exit(2)
    """)
    assert (r.code, r.out) == (2, "no newline, no flush;bye\n")


def test_non_daemon_threads_are_waited_for(gb):
    r = gb.py("""
        import threading, time
        def late():
            threading.main_thread().join()
            print("late")
        threading.Thread(target=late).start()
        print("main")
    """)
    assert (r.code, r.out) == (0, "main\nlate\n")


FAILING = """
import json

def outer(n):
    return inner(n)

def inner(n):
    try:
        json.loads("{")
    except ValueError as e:
        raise RuntimeError(f"bad {n}") from e

outer(3)
"""


def frames(text):
    return re.findall(r'File "([^"]+)", line (\d+), in (\S+)', text)


def test_traceback_is_python3s(gb, tmp_path):
    """Line by line what python3 prints, but for the directory of the file."""
    prog = write(tmp_path / "prog.py", FAILING)
    ours = gb("run", prog)
    theirs = subprocess.run([PYTHON, prog], capture_output=True, text=True, check=False)
    assert ours.code == theirs.returncode == 1

    def bare(text):
        return re.sub(r'File "[^"]*/', 'File "', text)

    assert bare(ours.err) == bare(theirs.stderr)


def test_traceback_of_a_command_is_python3s(gb):
    """The same frames; that ours also shows the source line, as newer Pythons do, is welcome."""
    ours = gb("run", "-c", FAILING)
    theirs = subprocess.run([PYTHON, "-c", FAILING], capture_output=True, text=True, check=False)
    assert frames(ours.err) == frames(theirs.stderr)
    assert ours.err.splitlines()[-1] == theirs.stderr.splitlines()[-1]


@pytest.mark.parametrize("code", ["def f(:\n  pass", "  x = 1", "print('a'", "f(**{1: 2}, *)"])
def test_syntax_error_is_python3s(gb, code):
    ours = gb("run", "-c", code)
    theirs = subprocess.run([PYTHON, "-c", code], capture_output=True, text=True, check=False)
    assert (ours.code, ours.err) == (theirs.returncode, theirs.stderr)


def test_no_frame_of_ours_in_a_formatted_exception(gb):
    r = gb.py("""
        import traceback
        try:
            1 / 0
        except ZeroDivisionError as e:
            print(traceback.format_exc().count("File"), len(traceback.extract_tb(e.__traceback__)))
    """)
    assert r.out == "1 1\n", r.err


def test_excepthook_of_the_program_is_used(gb):
    r = gb.py("""
        import sys
        sys.excepthook = lambda t, v, tb: print("hook", t.__name__)
        1 / 0
    """)
    assert (r.code, r.out, r.err) == (1, "hook ZeroDivisionError\n", "")


def test_recursion_error(gb):
    r = gb.receipt("def f(): f()\nf()")
    assert (r["status"], r["exit_code"], r["error"]["name"]) == ("error", 1, "RecursionError")


# ---- files in and out --------------------------------------------------------------------------


def test_file_is_copied_in(gb, tmp_path):
    (tmp_path / "data.csv").write_bytes(b"a,b\n1,2\n\xff")
    (tmp_path / "name with spaces é").write_text("x")
    r = gb.py(
        """
        import os
        print(sorted(os.listdir(".")), os.getcwd())
        print(open("data.csv", "rb").read())
        open("data.csv", "a").write("mine now")
        """,
        "--file", tmp_path / "data.csv", "--file", tmp_path / "name with spaces é",
    )
    assert r.code == 0, r.err
    names, content = r.out.splitlines()
    assert names == "['data.csv', 'name with spaces é'] /workspace"
    assert content == repr(b"a,b\n1,2\n\xff")
    assert (tmp_path / "data.csv").read_bytes() == b"a,b\n1,2\n\xff"  # ours is untouched


def test_file_through_a_symlink_of_the_user(gb, tmp_path):
    (tmp_path / "real").write_text("content")
    (tmp_path / "link").symlink_to("real")
    r = gb.py("print(open('link').read())", "--file", tmp_path / "link")
    assert r.out == "content\n", r.err


def test_out_gets_what_was_made_and_changed(gb, tmp_path):
    (tmp_path / "same.txt").write_text("same")
    (tmp_path / "edit.txt").write_text("before")
    out = tmp_path / "out"
    out.mkdir()
    r = gb.py(
        """
        import os
        open("edit.txt", "w").write("after")
        open("new.bin", "wb").write(bytes(range(256)))
        os.makedirs("sub/deep")
        open("sub/deep/x.txt", "w").write("deep")
        open("run.sh", "w").write("#!/bin/sh\\n"); os.chmod("run.sh", 0o755)
        open("empty", "w").close()
        """,
        "--file", tmp_path / "same.txt", "--file", tmp_path / "edit.txt", "--out", out,
    )
    assert r.code == 0, r.err
    made = sorted(os.path.relpath(os.path.join(d, f), out) for d, _, fs in os.walk(out) for f in fs)
    assert made == ["edit.txt", "empty", "new.bin", "run.sh", "sub/deep/x.txt"]
    assert (out / "edit.txt").read_text() == "after"
    assert (out / "new.bin").read_bytes() == bytes(range(256))
    assert (out / "run.sh").stat().st_mode & stat.S_IXUSR
    assert not (out / "new.bin").stat().st_mode & 0o111
    for path in made:
        info = (out / path).stat()
        assert (info.st_uid, info.st_gid) == (os.geteuid(), os.getegid())
        assert not info.st_mode & (stat.S_ISUID | stat.S_ISGID | stat.S_IWOTH)


def test_out_directory_is_made_when_missing(gb, tmp_path):
    r = gb.py("open('a', 'w').write('1')", "--out", tmp_path / "fresh")
    assert r.code == 0, r.err
    assert (tmp_path / "fresh" / "a").read_text() == "1"


def test_out_replaces_an_older_file(gb, tmp_path):
    (tmp_path / "a").write_text("a longer, older text")
    assert gb.py("open('a', 'w').write('new')", "--out", tmp_path).code == 0
    assert (tmp_path / "a").read_text() == "new"


def test_out_after_an_error_and_a_timeout(gb, tmp_path):
    r = gb.py("open('a', 'w').write('1'); 1 / 0", "--out", tmp_path)
    assert r.code == 1 and (tmp_path / "a").read_text() == "1"
    code = "import time; open('b', 'w').write('2'); time.sleep(1000)"
    r = gb.py(code, "--timeout", "5", "--out", tmp_path)  # it has written by then
    assert r.code == 124 and (tmp_path / "b").read_text() == "2"


def test_out_does_not_follow_symlinks(gb, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("SECRET")
    out = tmp_path / "out"
    r = gb.py(
        f"""
        import os
        os.symlink({str(secret)!r}, "file-link")
        os.symlink({str(tmp_path)!r}, "dir-link")
        os.symlink("/etc/passwd", "passwd")
        os.mkfifo("fifo")
        open("plain", "w").write("ok")
        """,
        "--out", out,
    )
    assert r.code == 0, r.err
    assert (out / "plain").read_text() == "ok"
    for name in ("file-link", "dir-link", "passwd", "fifo"):
        path = out / name
        if path.is_symlink():
            continue  # a link may come out as a link, its target's content may not
        assert not path.exists(), f"{name} was followed"


def test_receipt_lists_the_files(gb, tmp_path):
    for name in ("keep", "edit", "drop"):
        (tmp_path / name).write_text("12345")
    got = gb.receipt(
        """
        import os
        open("edit", "a").write("678")
        os.remove("drop")
        os.mkdir("d"); open("d/new", "w").write("x")
        """,
        "--file", tmp_path / "keep", "--file", tmp_path / "edit", "--file", tmp_path / "drop",
    )
    changes = {f["path"]: (f["change"], f["size"]) for f in got["files"]}
    assert changes["edit"] == ("modified", 8)
    assert changes["d/new"] == ("created", 1)
    assert changes["drop"][0] == "deleted"
    assert "keep" not in changes


# ---- the receipt -------------------------------------------------------------------------------


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def check_receipt(r):
    """Every field of API.md, of the right kind."""
    assert isinstance(r["status"], str) and isinstance(r["success"], bool)
    assert r["success"] == (r["status"] == "ok")
    assert isinstance(r["exit_code"], int) and not isinstance(r["exit_code"], bool)
    assert isinstance(r["stdout"], str) and isinstance(r["stderr"], str)
    assert is_number(r["execution_time"]) and r["execution_time"] >= 0
    assert r["result"] is None or isinstance(r["result"], dict)
    assert isinstance(r["outputs"], list) and isinstance(r["files"], list)
    if r["error"] is not None:
        assert {"name", "value", "traceback"} <= set(r["error"])
    assert set(r["truncated"]) >= {"stdout", "stderr"}
    usage = r["usage"]
    for key in ("cpu_ms", "peak_memory_bytes", "wall_ms", "processes", "oom_kills"):
        assert key in usage and (usage[key] is None or is_number(usage[key])), key
    assert usage["hosts"] == []
    assert r["session_id"] is None
    assert isinstance(r["execution_id"], str) and r["execution_id"]
    assert isinstance(r["execution_count"], int) and r["template"] == "system"
    assert "limit" in r


def test_receipt_of_a_good_run(gb):
    r = gb.receipt("import sys; print('out'); print('err', file=sys.stderr)")
    check_receipt(r)
    assert (r["status"], r["exit_code"], r["stdout"], r["stderr"]) == ("ok", 0, "out\n", "err\n")
    assert r["error"] is None and r["result"] is None and r["limit"] is None
    assert r["truncated"] == {"stdout": 0, "stderr": 0, "outputs": 0}
    assert r["usage"]["wall_ms"] >= 0 and r["usage"]["processes"] >= 1


def test_receipt_of_an_exception(gb):
    r = gb.receipt("def f():\n    raise ValueError('née ' + chr(0x1f40d))\nf()")
    check_receipt(r)
    assert (r["status"], r["exit_code"]) == ("error", 1)
    assert (r["error"]["name"], r["error"]["value"]) == ("ValueError", "née \U0001f40d")
    assert "ValueError" in r["error"]["traceback"] and r["error"]["traceback"] in r["stderr"]


def test_receipt_of_its_own_exit_code(gb):
    r = gb.py("import sys; sys.exit(3)", "--json")
    check_receipt(r.receipt)
    assert r.code == 3
    assert (r.receipt["status"], r.receipt["exit_code"]) == ("error", 3)


def test_receipt_with_binary_output(gb):
    r = gb.receipt("import os; os.write(1, b'\\xff\\x00\\x1b\\xe2\\x98'); print('end')")
    check_receipt(r)
    assert r["stdout"].endswith("end\n") and "\ufffd" in r["stdout"] and "\x00" in r["stdout"]


def test_receipt_says_how_much_was_left_out(gb):
    r = gb.receipt("print('a' * 3_000_000); print('THE END')")
    check_receipt(r)
    left_out = r["truncated"]["stdout"]
    assert r["status"] == "ok" and left_out > 0
    assert r["stdout"].startswith("aaaa") and r["stdout"].endswith("THE END\n")
    assert abs(len(r["stdout"]) + left_out - 3_000_009) < 200  # a line may say what is missing


def test_receipts_have_different_ids(gb):
    assert gb.receipt("pass")["execution_id"] != gb.receipt("pass")["execution_id"]


def test_cut_never_splits_a_character(gb):
    r = gb.receipt("print('x' + '☃' * 1_000_000)")
    assert "\ufffd" not in r["stdout"]


# ---- options -----------------------------------------------------------------------------------


def test_version(gb):
    r = gb("--version")
    assert r.code == 0 and re.search(r"\d+\.\d+", r.out) and r.err == ""
    assert gb("run", "--version").code == 0


def test_help_names_every_option(gb):
    r = gb("run", "--help")
    assert r.code == 0 and r.err == ""
    for option in (
        "--json --timeout --cpu-time --memory --cpus --pids --disk --inodes --file-size "
        "--open-files --output --file --out --allow-host --preload --cgroups --quiet"
    ).split():
        assert option in r.out, option
    assert gb("--help").code == 0


@pytest.mark.parametrize("preload", ["auto", "all", "none", "json", "numpy,pandas"])
def test_preload_variants(gb, preload):
    r = gb.py("import numpy; print(numpy.arange(4).sum())", "--preload", preload)
    assert (r.code, r.out, r.err) == (0, "6\n", "")


def test_preload_is_not_visible_as_names(gb):
    r = gb.py("print('numpy' in globals(), 'np' in globals())", "--preload", "all")
    assert r.out == "False False\n"


def test_options_from_the_environment(gb):
    r = gb.py("while True: pass", "--json", env={"GLOVEBOX_TIMEOUT": "1"})
    assert (r.code, r.receipt["limit"]) == (124, "wall_time")
    r = gb.py("while True: pass", "--json", "--timeout", "1", env={"GLOVEBOX_TIMEOUT": "100"})
    assert (r.code, r.receipt["limit"]) == (124, "wall_time")


def on_terminal(gb, *args):
    """Runs with stderr on a terminal; gives (exit code, stdout, what the terminal saw)."""
    master, slave = pty.openpty()
    try:
        p = gb.start(*args, stdin=subprocess.DEVNULL, stderr=slave)
        os.close(slave)
        slave = -1
        seen = b""
        while True:
            ready, _, _ = select.select([master], [], [], 180)
            assert ready, "nothing on the terminal for minutes"
            try:
                chunk = os.read(master, 65536)
            except OSError:  # EIO: the last holder of the other end is gone
                break
            if not chunk:
                break
            seen += chunk
        out = p.stdout.read()
        return p.wait(60), out, seen.decode("utf-8", "replace")
    finally:
        os.close(master)
        if slave >= 0:
            os.close(slave)


def test_progress_on_a_terminal(gb):
    code, out, seen = on_terminal(gb, "run", "--preload", "all", "-c", "print('x')")
    assert (code, out) == (0, b"x\n")
    assert re.search(r"(?i)load|import|warm", seen) and re.search(r"\d", seen), seen


def test_quiet_shows_no_progress(gb):
    code, out, seen = on_terminal(gb, "run", "--quiet", "--preload", "all", "-c", "print('x')")
    assert (code, out, seen) == (0, b"x\n", "")


def test_no_progress_off_a_terminal(gb):
    assert gb.py("pass", "--preload", "all").err == ""


# ---- the world inside --------------------------------------------------------------------------


def test_time_zone_is_passed(gb):
    r = gb.py("import time; print(time.tzname[0])", env={"TZ": "Asia/Tokyo"})
    assert r.out == "JST\n", r.err
    r = gb.py("import time; print(time.timezone)", env={"TZ": "UTC"})
    assert r.out == "0\n"


def test_language_is_passed(gb):
    r = gb.py("import os; print(os.environ.get('LANG'))", env={"LANG": "C.UTF-8"})
    assert r.out == "C.UTF-8\n"


def test_locale_can_be_set(gb):
    r = gb.py(
        "import locale; locale.setlocale(locale.LC_ALL, ''); print(locale.getpreferredencoding())",
        env={"LANG": "C.UTF-8", "LC_ALL": None},
    )
    assert r.out == "UTF-8\n", r.err


def test_text_is_utf8_even_in_the_c_locale(gb):
    r = gb.py("print('☃')", env={"LANG": "C", "LC_ALL": "C"})
    assert r.out == "☃\n", r.err


def test_who_and_where(gb):
    got = last_json(gb.py("""
        import getpass, json, os, pathlib, pwd, socket
        print(json.dumps([getpass.getuser(), os.getuid(), os.getgid(), os.getcwd(),
                          str(pathlib.Path.home()), os.environ["HOME"], socket.gethostname(),
                          pwd.getpwuid(os.getuid()).pw_name]))
    """))
    assert got == ["user", 1000, 1000, "/workspace", "/workspace", "/workspace", "glovebox", "user"]


def test_workspace_starts_empty(gb):
    assert gb.py("import os; print(os.listdir('/workspace'), os.listdir('/tmp'))").out == "[] []\n"


def test_localhost_resolves(gb):
    got = last_json(gb.py("""
        import json, socket
        names = {a[4][0] for a in socket.getaddrinfo("localhost", 80)}
        print(json.dumps([socket.gethostbyname("localhost"), sorted(names)]))
    """))
    assert got[0] == "127.0.0.1" and set(got[1]) <= {"127.0.0.1", "::1"}


def test_subprocess(gb):
    r = gb.py("""
        import subprocess, sys
        p = subprocess.run(["/bin/sh", "-c", "cat; echo oops >&2; exit 3"], input=b"fed",
                           capture_output=True)
        print(p.returncode, p.stdout, p.stderr)
        print(subprocess.check_output("echo $((6*7)) | tr 4 5", shell=True, text=True).strip())
        print(subprocess.check_output([sys.executable, "-c", "print(__name__)"], text=True).strip())
        subprocess.run(["ls", "/nonexistent"])
    """)
    assert r.out == "3 b'fed' b'oops\\n'\n52\n__main__\n", r.err
    assert "nonexistent" in r.err


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_multiprocessing(gb, tmp_path, method):
    prog = write(tmp_path / "prog.py", f"""
        import multiprocessing as mp

        def square(n):
            return n * n

        if __name__ == "__main__":
            with mp.get_context("{method}").Pool(3) as pool:
                print(pool.map(square, range(6)))
    """)
    r = gb("run", prog)
    assert (r.code, r.out) == (0, "[0, 1, 4, 9, 16, 25]\n"), r.err


def test_multiprocessing_shared_memory_and_queue(gb):
    r = gb.py("""
        import multiprocessing as mp
        from multiprocessing import shared_memory
        def child(q, v, name):
            shm = shared_memory.SharedMemory(name=name)
            shm.buf[0] = 7
            shm.close()
            with v.get_lock():
                v.value += 1
            q.put("from the child")
        q, v = mp.Queue(), mp.Value("i", 41)
        shm = shared_memory.SharedMemory(create=True, size=4096)
        p = mp.Process(target=child, args=(q, v, shm.name)); p.start()
        print(q.get(), end=" "); p.join()
        print(v.value, shm.buf[0]); shm.close(); shm.unlink()
    """)
    assert (r.code, r.out) == (0, "from the child 42 7\n"), r.err


def test_concurrent_futures_process_pool(gb):
    r = gb.py("""
        from concurrent.futures import ProcessPoolExecutor
        with ProcessPoolExecutor(2) as pool:
            print(list(pool.map(abs, [-1, -2, 3])))
    """)
    assert (r.code, r.out) == (0, "[1, 2, 3]\n"), r.err


def test_threads(gb):
    r = gb.py("""
        from concurrent.futures import ThreadPoolExecutor
        import threading
        with ThreadPoolExecutor(8) as pool:
            print(sum(pool.map(lambda n: n * n, range(1000))))
        e = threading.Event(); t = threading.Timer(0.01, e.set); t.start(); print(e.wait(10))
    """)
    assert r.out == "332833500\nTrue\n", r.err


def test_asyncio_server_and_client(gb):
    r = gb.py("""
        import asyncio
        async def serve(reader, writer):
            writer.write((await reader.readline()).upper())
            writer.close()
        async def main():
            for host in ("127.0.0.1", "localhost"):
                server = await asyncio.start_server(serve, host, 0)
                port = server.sockets[0].getsockname()[1]
                reader, writer = await asyncio.open_connection(host, port)
                writer.write(b"hello\\n")
                print(await reader.read())
                writer.close(); server.close()
            p = await asyncio.create_subprocess_exec("echo", "sub", stdout=-1)
            print((await p.communicate())[0])
        asyncio.run(main())
    """)
    assert r.out == "b'HELLO\\n'\nb'HELLO\\n'\nb'sub\\n'\n", r.err


def test_requests_to_a_local_server(gb):
    r = gb.py("""
        import http.server, requests, threading
        class H(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(200); self.end_headers(); self.wfile.write(b"served")
            def log_message(self, *a): pass
        s = http.server.ThreadingHTTPServer(("127.0.0.1", 0), H)
        threading.Thread(target=s.serve_forever, daemon=True).start()
        print(requests.get(f"http://127.0.0.1:{s.server_port}/").text)
    """)
    assert r.out == "served\n", r.err


def test_tempfile_and_sqlite(gb):
    r = gb.py("""
        import os, sqlite3, tempfile
        with tempfile.NamedTemporaryFile() as f, tempfile.TemporaryDirectory() as d:
            f.write(b"x"); f.flush(); print(os.path.getsize(f.name), os.path.isdir(d))
        db = sqlite3.connect("data.db")
        db.execute("pragma journal_mode=wal")
        db.execute("create table t(a)"); db.executemany("insert into t values(?)", [(1,), (2,)])
        db.commit(); print(db.execute("select sum(a) from t").fetchone())
    """)
    assert r.out == "1 True\n(3,)\n", r.err


@pytest.fixture(scope="module")
def with_all(tmp_path_factory):
    """A service that has all libraries in memory, for a fresh box per request. Loading them takes two
    seconds of CPU time, so it is done once. There are no boxes in advance: the leak check of a test
    would find the next one."""
    where = tmp_path_factory.mktemp("all")
    home, port_file = where / "home", where / "port"
    home.mkdir()
    box = Glovebox(str(home))
    try:
        process = box.start("serve", "--listen", "127.0.0.1:0", "--port-file", port_file,
                            "--data", where / "data", "--preload", "all", "--pool", "0",
                            "--log-file", where / "log", stdin=subprocess.DEVNULL)
        wait_for(lambda: port_file.exists() or process.poll() is not None, what="the port file")
        assert process.poll() is None, process.stderr.read()
        server = Server(process, int(port_file.read_text().split()[0]), where / "data")
        yield server
        assert server.stop() == 0
    finally:
        box.close()


LIBRARIES = pytest.mark.parametrize(
    "code, expected",
    [
        ("import requests; print(requests.Request('GET', 'http://a/b').prepare().path_url)", "/b"),
        ("from scipy import optimize; print(round(optimize.brentq(lambda x: x*x-2, 0, 2), 4))",
         "1.4142"),
        ("from sklearn.linear_model import LinearRegression as L\n"
         "print(round(float(L().fit([[0],[1],[2]], [1,3,5]).coef_[0]), 3))", "2.0"),
        ("import openpyxl; w = openpyxl.Workbook(); w.active['A1'] = 5; w.save('a.xlsx')\n"
         "print(openpyxl.load_workbook('a.xlsx').active['A1'].value)", "5"),
        ("from PIL import Image; Image.new('RGB', (3, 2), 'red').save('a.png')\n"
         "print(Image.open('a.png').size)", "(3, 2)"),
        ("import numpy as np; print(np.linalg.det(np.eye(50) * 1.0))", "1.0"),
        ("import pandas as pd; print(pd.DataFrame({'a': [1, 2]}).a.mean())", "1.5"),
        ("import pandas as pd; pd.DataFrame({'a': [1]}).to_excel('x.xlsx')\n"
         "print(pd.read_excel('x.xlsx').a[0])", "1"),
        ("import matplotlib.pyplot as plt; plt.plot([1, 2]); plt.title('é')\n"
         "plt.savefig('f.png')\n"
         "print(open('f.png', 'rb').read(4))", "b'\\x89PNG'"),
        ("import plotly.graph_objects as go, json\n"
         "print(json.loads(go.Figure(go.Scatter(y=[1, 2])).to_json())['data'][0]['type'])",
         "scatter"),
        ("import ssl, hashlib; print(bool(ssl.create_default_context().get_ca_certs()))", "True"),
        ("import zoneinfo; print(zoneinfo.ZoneInfo('Europe/Vienna').key)", "Europe/Vienna"),
        ("import ctypes, ctypes.util; print(ctypes.CDLL(None).abs(-5))", "5"),
        ("import faulthandler, resource, readline, curses, lzma, bz2, zlib; print('ok')", "ok"),
        ("import platform; print(platform.node(), platform.system())", "glovebox Linux"),
        ("import os; print(os.cpu_count() > 0, len(os.sched_getaffinity(0)) > 0)", "True True"),
        ("import email, xml.etree.ElementTree as E; print(E.fromstring('<a b=\"1\"/>').get('b'))",
         "1"),
    ],
)  # fmt: skip


@LIBRARIES
def test_libraries(gb, code, expected):
    r = gb("run", "--preload", "auto", "-c", code)
    assert (r.code, r.out.strip()) == (0, expected), r.err[-3000:]


@LIBRARIES
def test_libraries_in_memory(with_all, code, expected):
    receipt = with_all.good("POST", "/v1/execute", {"code": code, "mode": "script"})
    assert (receipt["exit_code"], receipt["stdout"].strip()) == (0, expected), receipt


DRAW = """
import json, os, random, secrets, ssl, tempfile, uuid
import numpy as np
print(json.dumps([
    random.random(), random.SystemRandom().random(), float(np.random.rand()),
    float(np.random.default_rng().random()), secrets.token_hex(), str(uuid.uuid4()),
    ssl.RAND_bytes(8).hex(), os.urandom(8).hex(), next(tempfile._get_candidate_names()),
    random.Random().random(), float(np.random.RandomState().rand()), str(uuid.uuid1())[:8],
]))
"""


@pytest.mark.parametrize("preload", ["all", "none"])
def test_random_numbers_differ_between_boxes(gb, preload):
    args = ("run", "--preload", preload, "-c", DRAW)
    draws = [last_json(gb(*args)), last_json(gb(*args))]
    pair = [gb.start(*args), gb.start(*args)]
    draws += [last_json(gb.finish(p)) for p in pair]
    for values in zip(*draws):
        assert len(set(values)) == len(draws), values


def test_random_numbers_differ_between_forked_children(gb):
    r = gb.py("""
        import multiprocessing as mp, random
        def draw(_):
            return random.random()
        with mp.get_context("fork").Pool(2) as pool:
            a = pool.map(draw, range(4), chunksize=1)
        print(len(set(a)))
    """)
    assert r.out == "4\n", r.err


def test_seeded_random_numbers_repeat(gb):
    code = "import random, numpy as np; random.seed(1); np.random.seed(1); " \
           "print(random.random(), np.random.rand())"
    theirs = subprocess.run([PYTHON, "-c", code], capture_output=True, text=True, check=True)
    assert gb.py(code, "--preload", "all").out == theirs.stdout


def test_devices(gb):
    r = gb.py("""
        import errno, os
        open("/dev/null", "wb").write(b"x")
        print(open("/dev/null", "rb").read(), open("/dev/zero", "rb").read(3),
              len(open("/dev/urandom", "rb").read(9)), len(open("/dev/random", "rb").read(9)))
        try:
            os.write(os.open("/dev/full", os.O_WRONLY), b"x")
        except OSError as e:
            print(errno.errorcode[e.errno])
        open("/dev/stdout", "w").write("by name\\n")
        known = set("null zero full random urandom shm pts ptmx fd stdin stdout stderr tty".split())
        print(sorted(set(os.listdir("/dev")) - known))
    """)
    assert r.out == "b'' b'\\x00\\x00\\x00' 9 9\nENOSPC\nby name\n[]\n", r.err


def test_terminals_inside(gb):
    r = gb.py("""
        import os, pty, subprocess
        m, s = pty.openpty()
        print(os.isatty(s), os.ttyname(s).startswith("/dev/pts/"))
        p = subprocess.Popen(["tty"], stdin=s, stdout=s)
        p.wait(); print(os.read(m, 100).strip().startswith(b"/dev/pts/"))
    """)
    assert r.out == "True True\nTrue\n", r.err


def test_file_system_inside(gb):
    r = gb.py("""
        import os
        for d in ("/workspace", "/tmp", "/dev/shm"):
            path = os.path.join(d, "f")
            open(path, "w").write("x"); os.rename(path, path + "2")
            os.chmod(path + "2", 0o600); os.utime(path + "2", (1, 1)); os.remove(path + "2")
        os.symlink("a", "b"); os.mkfifo("p"); open("a", "w").close(); os.link("a", "c")
        print(os.access("/sys", os.W_OK), os.access("/usr", os.W_OK), os.access("/etc", os.W_OK))
        print(os.statvfs("/workspace").f_bavail * os.statvfs("/workspace").f_frsize <= 64 << 20)
    """)
    assert r.out == "False False False\nTrue\n", r.err


def test_signals_work_inside(gb):
    r = gb.py("""
        import os, signal, time
        signal.signal(signal.SIGUSR1, lambda *a: print("usr1"))
        os.kill(os.getpid(), signal.SIGUSR1)
        rung = []
        signal.signal(signal.SIGALRM, lambda *a: rung.append(print("alarm")))
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        while not rung: time.sleep(0.01)  # pause() would sleep on if it came before
        try:
            os.kill(os.getpid(), signal.SIGINT)
        except KeyboardInterrupt:
            print("interrupt")
        print(signal.pthread_sigmask(signal.SIG_BLOCK, []))
        print([signal.getsignal(s) == signal.SIG_DFL for s in (signal.SIGCHLD, signal.SIGTERM)])
    """)
    assert r.out == "usr1\nalarm\ninterrupt\nset()\n[True, True]\n", r.err


def test_children_are_reaped_by_pid_1(gb):
    r = gb.py("""
        import os, time
        for _ in range(20):
            if os.fork() == 0:
                if os.fork() == 0:
                    os._exit(0)
                os._exit(0)
            os.wait()
        def zombies():
            n = 0
            for p in filter(str.isdigit, os.listdir("/proc")):
                try:
                    n += open(f"/proc/{p}/stat").read().rsplit(")", 1)[1].split()[0] == "Z"
                except OSError:
                    pass
            return n
        for _ in range(5000):
            if not zombies(): break
            time.sleep(0.01)
        print(zombies())
    """)
    assert r.out == "0\n", r.err


def test_children_die_with_the_run(gb):
    """A one-shot ends with its program; a child that lives on does not hold it up."""
    r = gb.py("""
        import subprocess
        subprocess.Popen(["sleep", "1000"])
        print("done")
    """, "--timeout", "600")
    assert (r.code, r.out) == (0, "done\n")


def test_no_bytecode_or_cache_warnings(gb):
    assert gb.py("import matplotlib.pyplot, json", "--preload", "none").err == ""


def test_sys_path_and_import_of_a_copied_module(gb, tmp_path):
    (tmp_path / "mymod.py").write_text("value = 99\n")
    prog = write(tmp_path / "prog.py", "import mymod; print(mymod.value)")
    assert gb("run", "--file", tmp_path / "mymod.py", prog).out == "99\n"
    assert gb.py("import mymod; print(mymod.value)", "--file", tmp_path / "mymod.py").out == "99\n"


def test_flags_of_the_interpreter(gb):
    got = last_json(gb.py("""
        import json, sys
        print(json.dumps([sys.flags.interactive, sys.flags.optimize, sys.flags.isolated,
                          sys.flags.ignore_environment, sys.version_info[0],
                          sys.gettrace() is None, sys.getrecursionlimit()]))
    """))
    assert got[0] == 0 and got[1] == 0 and got[4:] == [3, True, 1000]
