# tries: rarely used calls with a record of kernel bugs
buf = ctypes.create_string_buffer(4096)
allow_all = ctypes.create_string_buffer(struct.pack("<HBBI", 6, 0, 0, 0x7FFF0000))
program = (ctypes.c_ulong * 2)(1, ctypes.addressof(allow_all))
r, w = os.pipe()
iov = (ctypes.c_ulong * 2)(ctypes.addressof(buf), 64)
for name, args in (
    ("vmsplice", (w, iov, 1, 8)), ("move_pages", (1, 0, 0, 0, 0, 0)), ("modify_ldt", (1, buf, 16)),
    ("migrate_pages", (1, 0, 0, 0)), ("landlock_create_ruleset", (0, 0, 1)),
    ("seccomp", (1, 0, ctypes.byref(program))), ("seccomp", (1, 8, ctypes.byref(program))),
    ("seccomp", (2, 0, struct.pack("<I", 0x7FC00000))),
):
    must_fail(name, syscall, name, *args)
finish()
