"""
Stands before every case: test_abuse.py joins this text and the case into one program.

A case calls escaped() when an attack worked and finish() at its end. finish() says CONTAINED only
when nothing escaped, so a case that dies on the way says neither and its header must allow that.
"""

import ctypes
import errno
import os
import platform
import signal
import socket
import struct
import sys
import time

libc = ctypes.CDLL(None, use_errno=True)
_escapes = []


def escaped(what):
    _escapes.append(what)
    print("ESCAPED:", what, flush=True)


def finish():
    if not _escapes:
        print("CONTAINED", flush=True)


def held(what):
    """All of it was taken and is still held. A cgroup would have ended this before; where our watch
    is the limit it looks from time to time, and on a busy machine not at once."""
    end = time.monotonic() + 20
    while time.monotonic() < end:
        time.sleep(0.1)
    escaped(what)


def must_fail(label, call, *args, **kwargs):
    """Calls; that it works is an escape. Gives the error, or None."""
    try:
        got = call(*args, **kwargs)
    except OSError as e:
        return e
    escaped(f"{label}: {got!r:.200}")
    return None


def must_not_read(path, size=200):
    """Opening may work for an empty, masked file; content is an escape."""
    try:
        with open(path, "rb") as f:
            got = f.read(size)
    except OSError:
        return
    if got:
        escaped(f"read {path}: {got!r:.200}")


_X86 = dict(
    ptrace=101, personality=135, pivot_root=155, chroot=161, acct=163, settimeofday=164, mount=165,
    umount2=166, swapon=167, swapoff=168, reboot=169, sethostname=170, setdomainname=171, iopl=172,
    ioperm=173, init_module=175, delete_module=176, quotactl=179, syslog=103, lookup_dcookie=212,
    kexec_load=246, add_key=248, request_key=249, keyctl=250, unshare=272, vmsplice=278,
    move_pages=279, perf_event_open=298, fanotify_init=300, name_to_handle_at=303,
    open_by_handle_at=304, clock_adjtime=305, setns=308, process_vm_readv=310,
    process_vm_writev=311, kcmp=312, finit_module=313, seccomp=317, kexec_file_load=320, bpf=321,
    userfaultfd=323, clone=56, setuid=105, setgid=106, setgroups=116, setresuid=117, capset=126,
    adjtimex=159, clock_settime=227, socket=41, ioctl=16, prctl=157, modify_ldt=154, uselib=134,
    sysfs=139, ustat=136, vhangup=153, migrate_pages=256, kill=62, getpid=39, ioprio_set=251,
)  # fmt: skip
_ARM = dict(
    ptrace=117, personality=92, pivot_root=41, chroot=51, acct=89, settimeofday=170, mount=40,
    umount2=39, swapon=224, swapoff=225, reboot=142, sethostname=161, setdomainname=162,
    init_module=105, delete_module=106, quotactl=60, syslog=116, lookup_dcookie=18, kexec_load=104,
    add_key=217, request_key=218, keyctl=219, unshare=97, vmsplice=75, move_pages=239,
    perf_event_open=241, fanotify_init=262, name_to_handle_at=264, open_by_handle_at=265,
    clock_adjtime=266, setns=268, process_vm_readv=270, process_vm_writev=271, kcmp=272,
    finit_module=273, seccomp=277, kexec_file_load=294, bpf=280, userfaultfd=282, clone=220,
    setuid=146, setgid=144, setgroups=159, setresuid=147, capset=91, adjtimex=171,
    clock_settime=112, socket=198, ioctl=29, prctl=167, migrate_pages=238, kill=129, getpid=172,
    ioprio_set=30,
)  # fmt: skip
_BOTH = dict(
    pidfd_send_signal=424, io_uring_setup=425, io_uring_enter=426, io_uring_register=427,
    open_tree=428, move_mount=429, fsopen=430, fsconfig=431, fsmount=432, fspick=433,
    pidfd_open=434, clone3=435, pidfd_getfd=438, process_madvise=440, mount_setattr=442,
    quotactl_fd=443, landlock_create_ruleset=444, landlock_restrict_self=446, memfd_secret=447,
    process_mrelease=448, set_mempolicy_home_node=450, statmount=457, listmount=458,
)  # fmt: skip
NR = {**(_X86 if platform.machine() == "x86_64" else _ARM), **_BOTH}


def raw(number, *args):
    """A system call by number; raises OSError."""
    ctypes.set_errno(0)
    words = [a if isinstance(a, (ctypes._SimpleCData, ctypes.Array)) or hasattr(a, "_obj")
             else ctypes.c_char_p(a) if isinstance(a, bytes) else ctypes.c_long(a)
             for a in args]  # fmt: skip
    libc.syscall.restype = ctypes.c_long
    got = libc.syscall(ctypes.c_long(number), *words)
    if got == -1 and ctypes.get_errno():
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return got


def syscall(name, *args):
    """A system call by name; one that this machine does not have fails as if unknown."""
    if name not in NR:
        raise OSError(errno.ENOSYS, "not on this machine")
    return raw(NR[name], *args)


def in_child(call, *args):
    """Runs call in a forked child; gives (exit code or None, signal or None, what it printed)."""
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 99
        try:
            os.dup2(w, 1)
            code = call(*args) or 0
            sys.stdout.flush()
        except BaseException as e:
            os.write(1, repr(e).encode())
        finally:
            os._exit(code)
    os.close(w)
    text = b""
    while chunk := os.read(r, 65536):
        text += chunk
    os.close(r)
    status = os.waitpid(pid, 0)[1]
    if os.WIFSIGNALED(status):
        return None, os.WTERMSIG(status), text
    return os.WEXITSTATUS(status), None, text


def reach(family, kind, address, data=None):
    """Connects, or sends @data without connecting; raises OSError as the calls do."""
    with socket.socket(family, kind) as s:
        s.settimeout(5)
        return s.connect(address) if data is None else s.sendto(data, address)


def sockets():
    """Descriptors above 2 that are sockets; the control socket is among them, if it is in reach."""
    found = []
    for fd in range(3, 4096):
        try:
            if os.fstat(fd).st_mode & 0o170000 == 0o140000:
                found.append(fd)
        except OSError:
            pass
    return found


def packet(kind, payload=b"", version=1, flags=0, length=None, total=None):
    """A packet of the frame protocol, honest unless told otherwise."""
    length = len(payload) if length is None else length
    total = len(payload) if total is None else total
    return struct.pack("<BBHII", version, kind, flags, length, total) + payload


def field(key, data):
    return struct.pack("<HI", key, len(data)) + data


def forge(data, fds=None):
    """Sends bytes over everything that may be the control socket; looking for it takes time."""
    for fd in sockets() if fds is None else fds:
        try:
            s = socket.socket(fileno=os.dup(fd))
            s.setblocking(False)
            s.send(data)
            s.close()
        except OSError:
            pass


# ---- the case ----
