# tries: push characters into a terminal, and the console's ioctls
import fcntl
m, s = os.openpty()
for fd in (s, m, 0, 1, 2):
    for request in (0x5412, 0x541C):
        must_fail(f"ioctl {request:#x} on {fd}", fcntl.ioctl, fd, request, b"\x03")
must_fail("/dev/tty", lambda: fcntl.ioctl(os.open("/dev/tty", os.O_RDWR), 0x5412, b"x"))
finish()
