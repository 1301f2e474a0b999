# tries: clone3, whose flags a filter cannot read
for flag in (0, 0x20000, 0x10000000, 0x40000000, 0x7E020000, 0x80, 0x200000000):
    args = (ctypes.c_uint64 * 11)(flag, 0, 0, 0, signal.SIGCHLD)
    try:
        pid = syscall("clone3", ctypes.byref(args), ctypes.sizeof(args))
    except OSError:
        continue
    if pid == 0:
        os._exit(0)
    escaped(f"clone3 {flag:#x}")
finish()
