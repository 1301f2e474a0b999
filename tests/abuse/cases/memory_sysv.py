# tries: hide memory in System V segments that nobody is attached to
# options: --memory 128m
# ends: oom
libc.shmat.restype = ctypes.c_void_p
for i in range(64):
    ident = libc.shmget(0, ctypes.c_size_t(32 << 20), 0o1600)
    if ident < 0:
        finish()
        sys.exit()
    address = libc.shmat(ident, None, 0)
    ctypes.memset(address, 1, 32 << 20)
    libc.shmdt(ctypes.c_void_p(address))
held("2 GiB in System V segments")
