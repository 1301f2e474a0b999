# tries: read and write the memory, descriptors and environment of PID 1
for name in ("mem", "maps", "environ", "auxv", "syscall", "stack", "pagemap", "smaps", "io"):
    must_not_read(f"/proc/1/{name}")
must_fail("write /proc/1/mem", os.open, "/proc/1/mem", os.O_RDWR)
try:
    numbers = os.listdir("/proc/1/fd")  # with a single id the numbers show, what is behind does not
except OSError:
    numbers = range(256)
for number in numbers:
    must_fail(f"descriptor {number} of PID 1", os.readlink, f"/proc/1/fd/{number}")
    must_fail(f"open descriptor {number} of PID 1", os.open, f"/proc/1/fd/{number}", os.O_PATH)
    must_fail(f"fdinfo {number} of PID 1", os.open, f"/proc/1/fdinfo/{number}", os.O_RDONLY)
must_fail("list ns of PID 1", os.readlink, "/proc/1/ns/user")
must_fail("exe of PID 1", os.readlink, "/proc/1/exe")
finish()
