# tries: userfaultfd, the stopwatch of kernel exploits
for flags in (0, 1, os.O_CLOEXEC, os.O_NONBLOCK | 1):
    must_fail("userfaultfd", syscall, "userfaultfd", flags)
must_fail("/dev/userfaultfd", os.open, "/dev/userfaultfd", os.O_RDWR)
finish()
