"""What a program in a box really sees and can do; `glovebox doctor` runs this in one.

Prints one fact per line, a name and its value. Nothing is judged here: verdict.c does that, in the
supervisor. The arguments are paths of the host that must not be visible. Another tenant waits in
the same box. Standard library only, and a failing fact must not prevent the others from being
reported.
"""

import ctypes
import errno
import locale
import os
import platform
import socket
import stat
import sys

NAMESPACES = ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup")
DEVICES = "null zero full random urandom tty shm pts ptmx fd stdin stdout stderr core".split()
MASKED = "cmdline kallsyms kcore keys modules partitions sysrq-trigger timer_list".split()
LOCALES = "de_DE en_US es_ES fr_FR ja_JP zh_CN".split()
CLONE_NEWUSER = 0x10000000
SIGCHLD = 17

_X86 = {"ptrace": 101, "mount": 165, "umount2": 166, "pivot_root": 155, "unshare": 272,
        "setns": 308, "keyctl": 250, "perf_event_open": 298, "bpf": 321, "userfaultfd": 323,
        "clone": 56, "init_module": 175, "kexec_load": 246, "process_vm_readv": 310}  # fmt: skip
_ARM = {"ptrace": 117, "mount": 40, "umount2": 39, "pivot_root": 41, "unshare": 97,
        "setns": 268, "keyctl": 219, "perf_event_open": 241, "bpf": 280, "userfaultfd": 282,
        "clone": 220, "init_module": 105, "kexec_load": 104, "process_vm_readv": 270}  # fmt: skip
_NEW = {"io_uring_setup": 425, "open_tree": 428, "fsopen": 430, "clone3": 435, "pidfd_getfd": 438}
NUMBERS = {"x86_64": {**_X86, **_NEW}, "aarch64": {**_ARM, **_NEW}}.get(platform.machine(), _NEW)

# For each call, arguments that would work without a filter if that is harmless;
# otherwise zeros.
ARGUMENTS = {"unshare": (CLONE_NEWUSER,), "clone": (CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0),
             "ptrace": (0, 0, 0, 0), "mount": (b"none", b"/tmp", b"tmpfs", 0, 0),
             "umount2": (b"/tmp", 0), "pivot_root": (b"/", b"/"), "setns": (0, CLONE_NEWUSER),
             "open_tree": (-100, b"/", 0), "fsopen": (b"tmpfs", 0)}  # fmt: skip

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long


def say(name, value):
    os.write(1, f"{name} {value}\n".encode("ascii", "backslashreplace"))


def words(items):
    return " ".join(map(str, items)) or "-"


def failure(call, *args):
    """The name of the error that the call raises, or "ok"."""
    try:
        call(*args)
    except OSError as e:
        return errno.errorcode.get(e.errno, str(e.errno))
    return "ok"


def system_call(name):
    values = [ctypes.c_char_p(a) if isinstance(a, bytes) else ctypes.c_long(a)
              for a in ARGUMENTS.get(name, (0, 0, 0, 0, 0))]  # fmt: skip
    got = libc.syscall(ctypes.c_long(NUMBERS[name]), *values)
    if got == 0 and name == "clone":
        os._exit(0)  # the new child: should never get here
    return errno.errorcode.get(ctypes.get_errno(), "?") if got == -1 else "ok"


def tell_ids():
    with open("/proc/self/status", encoding="ascii", errors="replace") as f:
        status = dict(line.rstrip("\n").split(":", 1) for line in f)
    sets = [int(status[key], 16) for key in status if key.startswith("Cap")]
    say("ids", words(sorted(set(status["Uid"].split() + status["Gid"].split()))))
    say("groups", words(status["Groups"].split()))
    say("caps", f"{max(sets):x}")
    say("no_new_privs", status["NoNewPrivs"].strip())
    say("seccomp", status["Seccomp"].strip())
    say("filters", status.get("Seccomp_filters", "?").strip())


def tell_namespaces():
    for kind in NAMESPACES:
        say("ns_" + kind, os.stat("/proc/self/ns/" + kind).st_ino)


def tell_calls():
    """In a child: a call that succeeds may leave it in an odd state."""
    child = os.fork()
    if child == 0:
        refused, let = [], []
        for name in NUMBERS:
            answer = system_call(name)
            (refused if answer in ("EPERM", "ENOSYS") else let).append(f"{name}={answer}")
        say("calls_refused", len(refused))
        say("calls_let", words(let))
        os._exit(0)
    os.waitpid(child, 0)


def is_there(path):
    """A file, or a directory that is not empty: programs expect some empty ones, and some with
    links into the box."""
    try:
        return any(not entry.is_symlink() for entry in os.scandir(path))
    except NotADirectoryError:
        return True
    except OSError:
        return False


def tell_files():
    say("host_seen", words(path for path in sys.argv[1:] if is_there(path)))
    places = ("/", "/usr", "/usr/bin", "/etc", "/dev", "/proc/self/comm", "/usr/bin/env")
    flags = os.O_WRONLY | os.O_CREAT
    probes = [p + "/.glovebox" if os.path.isdir(p) else p for p in places]
    say("written", words(p for p in probes if failure(os.open, p, flags) == "ok"))
    say("workspace", failure(os.close, os.open("/workspace/.try", flags)))
    os.unlink("/workspace/.try")


def is_holder(pid):
    """A tenant's only child that the tenant did not start holds its memory
    (src/engine/seal/seal.c). The parent of a tenant is not visible, and orphans have PID 1."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as f:
            return int(f.read().rpartition(b")")[2].split()[1]) > 1
    except OSError:
        return False


def tell_proc():
    processes = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    processes = [pid for pid in processes if not is_holder(pid)]
    leaks = []
    for name in MASKED:
        try:
            with open("/proc/" + name, "rb") as f:
                if f.read(1):
                    leaks.append(name)
        except OSError:
            pass
    say("processes", len(processes))
    say("proc_unmasked", words(leaks))
    say("proc_write", failure(os.open, "/proc/self/comm", os.O_WRONLY))
    others = [pid for pid in processes if pid not in (1, os.getpid())]
    say("sibling", failure(os.readlink, f"/proc/{others[0]}/exe") if others else "none")
    say("signal_init", failure(os.kill, 1, 0))
    say("init_memory", failure(os.open, "/proc/1/mem", os.O_RDONLY))
    say("init_root", failure(os.readlink, "/proc/1/root"))


def tell_devices():
    say("devices", words(sorted(set(os.listdir("/dev")) - set(DEVICES))))
    say("mknod", failure(os.mknod, "/tmp/device", stat.S_IFCHR | 0o600, os.makedev(1, 3)))


def connect(kind):
    # A documentation address (RFC 5737): nobody answers there.
    with socket.socket(socket.AF_INET, kind) as s:
        s.settimeout(0.5)
        s.connect(("192.0.2.1", 9))


def loopback():
    with socket.create_server(("127.0.0.1", 0)) as server:
        socket.create_connection(server.getsockname(), 2).close()


def tell_network():
    say("interfaces", words(sorted(name for _, name in socket.if_nameindex())))
    say("outside_tcp", failure(connect, socket.SOCK_STREAM))
    say("outside_udp", failure(connect, socket.SOCK_DGRAM))
    say("loopback", failure(loopback))
    say("raw", failure(socket.socket, socket.AF_INET, socket.SOCK_RAW, 1))
    say("packet", failure(socket.socket, socket.AF_PACKET, socket.SOCK_RAW, 0))


def tell_descriptors():
    open_now = []
    for name in os.listdir("/proc/self/fd"):
        try:
            os.fstat(int(name))
        except OSError:
            continue  # the directory that was just listed
        open_now.append(int(name))
    say("descriptors", words(sorted(open_now)))


def tell_machine():
    with open("/proc/meminfo", encoding="ascii") as f:
        say("memory_kb", f.readline().split()[1])
    say("cpus", os.cpu_count())


def has_locale(name):
    try:
        locale.setlocale(locale.LC_TIME, name + ".UTF-8")
    except locale.Error:
        return False
    locale.setlocale(locale.LC_TIME, "C")
    return True


def tell_locales():
    say("locales", words(name for name in LOCALES if has_locale(name)))
    say("no_locales", words(name for name in LOCALES if not has_locale(name)))


def tell_python():
    say("python", platform.python_version())


for tell in (tell_python, tell_ids, tell_namespaces, tell_descriptors, tell_files, tell_proc,
             tell_devices, tell_network, tell_machine, tell_locales, tell_calls):  # fmt: skip
    try:
        tell()
    except Exception as e:
        say("trouble", f"{tell.__name__}: {e!r}"[:150])
