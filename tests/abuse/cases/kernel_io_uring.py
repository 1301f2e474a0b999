# tries: io_uring, which would do system calls past the filter
params = ctypes.create_string_buffer(120)
must_fail("io_uring_setup", syscall, "io_uring_setup", 8, params)
for fd in range(0, 16):
    must_fail("io_uring_enter", syscall, "io_uring_enter", fd, 1, 0, 0, 0, 0)
    must_fail("io_uring_register", syscall, "io_uring_register", fd, 0, 0, 0)
finish()
