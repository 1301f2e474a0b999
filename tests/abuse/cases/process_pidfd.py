# tries: take descriptors out of PID 1 and join it by pidfd
for pid in {1, os.getppid()} - {0}:
    try:
        fd = syscall("pidfd_open", pid, 0)
    except OSError:
        continue
    for number in range(0, 64):
        must_fail(f"pidfd_getfd {pid} {number}", syscall, "pidfd_getfd", fd, number, 0)
    must_fail(f"setns {pid}", syscall, "setns", fd, 0x7E020000)
    must_fail(f"mrelease {pid}", syscall, "process_mrelease", fd, 0)
finish()
