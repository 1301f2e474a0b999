# tries: the calls of an administrator: clocks, names, swap, accounting, quota, reboot, log
for name, args in (
    ("settimeofday", (0, 0)), ("clock_settime", (0, 0)), ("sethostname", (b"evil", 4)),
    ("setdomainname", (b"evil", 4)), ("swapon", (b"/workspace/x", 0)), ("swapoff", (b"/x",)),
    ("acct", (0,)), ("quotactl", (0, 0, 0, 0)), ("reboot", (0, 0, 0, 0)), ("syslog", (3, b"", 0)),
    ("syslog", (10, 0, 0)), ("iopl", (3,)), ("ioperm", (0, 1, 1)), ("vhangup", ()),
    ("lookup_dcookie", (0, b"", 0)), ("fanotify_init", (0, 0)), ("uselib", (b"x",)),
    ("sysfs", (3,)), ("quotactl_fd", (0, 0, 0, 0)), ("listmount", (0, 0, 0, 0)),
):
    e = must_fail(name, syscall, name, *args)
    if e and e.errno not in (errno.EPERM, errno.ENOSYS):
        escaped(f"{name} got past the filter: {e}")
class Timex(ctypes.Structure):
    _fields_ = [("modes", ctypes.c_uint), ("rest", ctypes.c_char * 300)]
t = Timex(modes=0x4000)  # set the tick, to nonsense that would be refused later
must_fail("adjtimex", syscall, "adjtimex", ctypes.byref(t))
must_fail("clock_adjtime", syscall, "clock_adjtime", 0, ctypes.byref(t))
finish()
