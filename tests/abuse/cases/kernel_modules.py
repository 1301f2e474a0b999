# tries: load modules and a new kernel (with arguments that cannot work even if allowed)
for name, args in (("init_module", (0, 0, b"")), ("finit_module", (-1, b"", 0)),
                   ("delete_module", (b"gb-no-such-module", 0)), ("kexec_load", (0, 0, 0, 0)),
                   ("kexec_file_load", (-1, -1, 0, b"", 0))):
    e = must_fail(name, syscall, name, *args)
    if e and e.errno not in (errno.EPERM, errno.ENOSYS):
        escaped(f"{name} got past the filter: {e}")
finish()
