"""Bad input: one line on stderr that says what to change, exit 2, nothing started."""

import ctypes
import os
import platform
import resource
import signal
import struct

import pytest

RAN = "print('RAN')"

# ---- no box ------------------------------------------------------------------------------------

PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, SECCOMP_MODE_FILTER = 22, 38, 2
KILL, NO_SUCH_CALL, ALLOW = 0x80000000, 0x00050000 | 38, 0x7FFF0000  # 38: ENOSYS
LOAD, AND, IS, RETURN = 0x20, 0x54, 0x15, 0x06  # instructions of a filter
NUMBER, FIRST_ARGUMENT = 0, 16  # where they are in what a filter is given
CLONE, FORK, VFORK = {"x86_64": (56, 57, 58), "aarch64": (220, 220, 220)}[platform.machine()]
CLONE3 = 435
CLONE_VM, CLONE_VFORK = 0x100, 0x4000

# Whoever starts a process is killed. Threads may be started, and the helper of the leak sanitizer:
# they share the memory and nobody waits for them, while posix_spawn() does. A filter cannot see what
# clone3() is asked for; where that is missing the C library uses clone().
NO_PROCESSES = [
    (LOAD, 0, 0, NUMBER),
    (IS, 0, 1, CLONE3), (RETURN, 0, 0, NO_SUCH_CALL),
    (IS, 4, 0, CLONE),
    (IS, 2, 0, FORK),
    (IS, 1, 0, VFORK),
    (RETURN, 0, 0, ALLOW),
    (RETURN, 0, 0, KILL),
    (LOAD, 0, 0, FIRST_ARGUMENT), (AND, 0, 0, CLONE_VM | CLONE_VFORK), (IS, 0, 1, CLONE_VM),
    (RETURN, 0, 0, ALLOW),
    (RETURN, 0, 0, KILL),
]  # fmt: skip


@pytest.fixture(scope="module")
def no_processes():
    """To be called between fork and exec: from then on, starting a process is deadly."""
    libc = ctypes.CDLL(None, use_errno=True)
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *i) for i in NO_PROCESSES))
    program = ctypes.create_string_buffer(
        struct.pack("HP", len(NO_PROCESSES), ctypes.addressof(code)))  # fmt: skip
    words = [ctypes.c_ulong(n) for n in (1, 0, 0, 0)]

    def forbid():
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if (libc.prctl(PR_SET_NO_NEW_PRIVS, *words) != 0
                or libc.prctl(PR_SET_SECCOMP, ctypes.c_ulong(SECCOMP_MODE_FILTER), program) != 0):
            raise OSError(ctypes.get_errno(), "seccomp")

    forbid.code = code  # lives as long
    return forbid


@pytest.fixture
def refused(gb, no_processes):
    """Runs the binary and checks that it refused, without a box; gives the line."""

    def run(*args, mention="", code=2, **how):
        r = gb(*args, preexec_fn=no_processes, **how)
        assert r.code != -signal.SIGSYS, "a box was started"
        assert r.code == code, (r.code, r.out[:300], r.err[:1000])
        assert r.out == "", "something ran"
        assert r.err.endswith("\n") and r.err.count("\n") == 1, r.err
        assert mention.lower() in r.err.lower(), r.err
        return r.err

    return run


def test_a_box_would_be_seen(gb, no_processes):
    """Or the tests below prove nothing."""
    r = gb("run", "-c", RAN, preexec_fn=no_processes)
    assert (r.code, r.out) == (-signal.SIGSYS, ""), r


# ---- the program -------------------------------------------------------------------------------


def test_missing_file(refused):
    refused("run", "/nonexistent/prog.py", mention="prog.py")


def test_directory(refused, tmp_path):
    refused("run", tmp_path, mention="directory")


@pytest.mark.parametrize(
    "data, mention",
    [(b"print('\xff\xfe')\n", "utf-8"), (b"x = '\xed\xa0\x80'\n", "utf-8"),
     (b"print('RAN')\n\x00\n", "nul")],
)  # fmt: skip
def test_bytes_that_are_no_program(refused, tmp_path, data, mention):
    prog = tmp_path / "prog.py"
    prog.write_bytes(data)
    refused("run", prog, mention=mention)
    refused("run", "-", stdin=data, mention=mention)
    if b"\0" not in data:
        refused("run", "-c", data, mention=mention)


def test_program_of_50_megabytes(refused, tmp_path):
    prog = tmp_path / "prog.py"
    prog.write_bytes(b"print('RAN')\n" + b"#" * 50_000_000)
    refused("run", prog, mention="8")
    with open(prog, "rb") as f:
        refused("run", "-", stdin=f.read())


def test_program_just_small_enough(gb, tmp_path):
    prog = tmp_path / "prog.py"
    prog.write_bytes(b"print('RAN')\n" + b"#" * (8 * 1024 * 1024 - 100))
    assert gb("run", prog).out == "RAN\n"


def test_empty_program(refused, tmp_path):
    prog = tmp_path / "prog.py"
    prog.write_text("")
    refused("run", prog, mention="empty")
    refused("run", "-", mention="empty")
    refused("run", "-c", "", mention="empty")


@pytest.mark.parametrize("text", ["\n", "# nothing\n", "   \n\t\n"])
def test_program_that_does_nothing(gb, tmp_path, text):
    prog = tmp_path / "prog.py"
    prog.write_text(text)
    for r in (gb("run", prog), gb("run", "-", stdin=text), gb("run", "-c", text)):
        assert (r.code, r.out, r.err) == (0, "", "")


def test_unreadable_file(refused, tmp_path, is_root):
    if is_root:
        pytest.skip("root may read every file")
    prog = tmp_path / "prog.py"
    prog.write_text(RAN)
    prog.chmod(0)
    refused("run", prog, mention="prog.py")
    data = tmp_path / "data"
    data.write_text("x")
    data.chmod(0)
    refused("run", "--file", data, "-c", RAN, mention="data")


def test_pipe_as_program(gb):
    """What a shell makes of `glovebox run <(generate)`."""
    r, w = os.pipe()
    os.write(w, RAN.encode())
    os.close(w)
    try:
        assert gb("run", f"/dev/fd/{r}", pass_fds=(r,)).out == "RAN\n"
    finally:
        os.close(r)


def test_endless_device_as_program(refused):
    refused("run", "/dev/zero")


# ---- the command line --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "args, mention",
    [
        ([], ""),
        (["--frobnicate", "-c", RAN], "--frobnicate"),
        (["-Z", "-c", RAN], "-Z"),
        (["-c"], "-c"),
        (["--timeout"], "--timeout"),
        (["--json"], ""),
        (["--cgroups", "banana", "-c", RAN], "--cgroups"),
        (["--landlock", "maybe", "-c", RAN], "--landlock"),
        (["--preload", "os; import sys", "-c", RAN], "preload"),
        (["--preload", "../x", "-c", RAN], "preload"),
        (["--allow-host", "http://example.com", "-c", RAN], "--allow-host"),
        (["--network-address", "10.0.0.1/8", "-c", RAN], "--network-address"),
        (["--network-secret", "example.com", "-c", RAN], "--network-secret"),
    ],
)
def test_bad_usage(refused, args, mention):
    refused("run", *args, mention=mention)


def test_allow_host_gives_a_reason(refused):
    line = refused("run", "--allow-host", "127.1", "-c", RAN)
    assert len(line.split()) > 5, line


def test_unknown_command(refused):
    refused("frobnicate", mention="frobnicate")


SIZES = ["--memory", "--disk", "--output"]
COUNTS = ["--pids", "--inodes", "--open-files"]
TIMES = ["--timeout", "--cpus"]
ZERO_MEANS_NONE = ["--cpu-time", "--file-size"]


@pytest.mark.parametrize("option", SIZES + COUNTS + TIMES + ZERO_MEANS_NONE)
@pytest.mark.parametrize(
    "value",
    ["0", "-1", "1e99", "512x", "", "nan", "inf", "banana", "99999999999999999999999",
     "9223372036854775807", "18446744073709551617", "-0.5", "5 5", "0x10", "1,5", "5\n"],
)  # fmt: skip
def test_absurd_limit(refused, gb, option, value):
    if value == "0" and option in ZERO_MEANS_NONE:
        assert gb("run", option, value, "-c", RAN).out == "RAN\n"
        return
    refused("run", f"{option}={value}", "-c", RAN, mention=option)


@pytest.mark.parametrize("option, value", [("--pids", "1.5"), ("--memory", "1k"), ("--disk", "g")])
def test_limit_that_cannot_work(refused, option, value):
    refused("run", option, value, "-c", RAN, mention=option)


@pytest.mark.parametrize(
    "option, value",
    [("--memory", "256m"), ("--memory", "256MiB"), ("--memory", "256Mb"), ("--memory", "262144K"),
     ("--memory", "1g"), ("--memory", "268435456"), ("--timeout", "60.5"), ("--timeout", "120.25"),
     ("--cpus", "0.5"), ("--cpus", "2"), ("--disk", "1mib"), ("--pids", "32")],
)  # fmt: skip
def test_limit_in_every_spelling(gb, option, value):
    r = gb("run", option, value, "-c", RAN)
    assert (r.code, r.out, r.err) == (0, "RAN\n", "")


@pytest.mark.parametrize(
    "name, value", [("TIMEOUT", "banana"), ("MEMORY", "-5"), ("PIDS", "0"), ("CGROUPS", "x")]
)
def test_bad_environment(refused, name, value):
    refused("run", "-c", RAN, env={"GLOVEBOX_" + name: value}, mention=name)


def test_very_many_arguments(gb):
    """Either they arrive or they are refused in one line."""
    r = gb("run", "-c", "import sys; print(len(sys.argv))", *["x"] * 5000)
    assert (r.code, r.out) == (0, "5001\n") or (r.code == 2 and r.err.count("\n") == 1), r.err


def test_a_long_argument(gb):
    r = gb("run", "-c", "import sys; print(len(sys.argv[1]))", "x" * 120_000)
    assert (r.code, r.out) == (0, "120000\n"), r.err


def test_argument_that_is_not_utf8(gb):
    """python3 hands such bytes on as surrogates."""
    r = gb("run", "-c", "import sys; print(ascii(sys.argv[1]))", b"a\xff")
    assert (r.code, r.out) == (0, "'a\\udcff'\n"), r.err


# ---- files in and out --------------------------------------------------------------------------


def test_file_missing(refused):
    refused("run", "--file", "/nonexistent/data.csv", "-c", RAN, mention="data.csv")


def test_file_is_a_directory(refused, tmp_path):
    refused("run", "--file", tmp_path, "-c", RAN, mention="directory")


@pytest.mark.parametrize("name", ["..", ".", "/", "", "x/..", "./"])
def test_file_without_a_name(refused, name, tmp_path):
    refused("run", "--file", name, "-c", RAN, cwd=tmp_path)


def test_file_is_a_fifo_or_a_device(refused, tmp_path):
    os.mkfifo(tmp_path / "fifo")
    refused("run", "--file", tmp_path / "fifo", "-c", RAN, mention="fifo")
    refused("run", "--file", "/dev/zero", "-c", RAN, mention="zero")


def test_file_too_big_for_the_disk(refused, tmp_path):
    big = tmp_path / "big"
    with open(big, "wb") as f:
        f.truncate(3 * 1024 * 1024)
    refused("run", "--disk", "1m", "--file", big, "-c", RAN, mention="disk")


def test_files_too_big_together(refused, tmp_path):
    for name in ("a", "b"):
        with open(tmp_path / name, "wb") as f:
            f.truncate(700 * 1024)
    args = ("--file", tmp_path / "a", "--file", tmp_path / "b")
    refused("run", "--disk", "1m", *args, "-c", RAN, mention="disk")


def test_files_with_the_same_name(refused, tmp_path):
    (tmp_path / "d").mkdir()
    (tmp_path / "data").write_text("1")
    (tmp_path / "d" / "data").write_text("2")
    args = ("--file", tmp_path / "data", "--file", tmp_path / "d" / "data")
    refused("run", *args, "-c", RAN, mention="data")


def test_out_is_a_file(refused, tmp_path):
    (tmp_path / "out").write_text("mine")
    refused("run", "--out", tmp_path / "out", "-c", RAN, mention="out")
    assert (tmp_path / "out").read_text() == "mine"


def test_out_cannot_be_made(refused):
    refused("run", "--out", "/proc/no-such-place/out", "-c", RAN, mention="out")


def test_out_is_not_writable(refused, tmp_path, is_root):
    if is_root:
        pytest.skip("root may write everywhere")
    (tmp_path / "out").mkdir(mode=0o555)
    refused("run", "--out", tmp_path / "out", "-c", RAN, mention="out")
