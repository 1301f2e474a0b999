# tries: hide a forbidden argument behind bits that the kernel does not look at
high = 1 << 32
must_fail("AF_PACKET", syscall, "socket", 17 | high, 3, 0)
must_fail("AF_ALG", syscall, "socket", 38 | high, 5, 0)
must_fail("raw", syscall, "socket", 2 | high, 3 | high, 1)
must_fail("netlink", syscall, "socket", 16 | high, 3, 4 | high)
must_fail("unshare", syscall, "unshare", 0x10000000 | high)
try:
    pid = syscall("clone", 0x10000000 | high | signal.SIGCHLD, 0, 0, 0, 0)
    if pid == 0:
        os._exit(0)
    escaped("clone")
except OSError:
    pass
m, s = os.openpty()
for request in (0x5412, 0x541C):
    must_fail(f"ioctl {request:#x}", syscall, "ioctl", s, request | high, b"x")
finish()
