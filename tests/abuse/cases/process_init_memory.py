# tries: read and write the memory, descriptors and environment of PID 1
for name in ("mem", "maps", "environ", "auxv", "syscall", "stack", "pagemap", "smaps", "io"):
    must_not_read(f"/proc/1/{name}")
must_fail("write /proc/1/mem", os.open, "/proc/1/mem", os.O_RDWR)
must_fail("list fds of PID 1", os.listdir, "/proc/1/fd")
must_fail("list ns of PID 1", os.readlink, "/proc/1/ns/user")
must_fail("exe of PID 1", os.readlink, "/proc/1/exe")
finish()
