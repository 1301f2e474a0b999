# tries: reach a terminal of somebody else by /dev/tty and /dev/pts, and take one over
import fcntl
import termios
must_fail("open /dev/tty", os.open, "/dev/tty", os.O_RDWR)
must_fail("open /dev/tty to write", os.open, "/dev/tty", os.O_WRONLY | os.O_NOCTTY)
for name in ("tty0", "tty1", "console", "ttyS0", "pts/0", "pts/1", "pts/2", "vcs", "hvc0"):
    must_fail(f"open /dev/{name}", os.open, f"/dev/{name}", os.O_RDWR | os.O_NOCTTY)
for fd in (0, 1, 2):
    must_fail(f"take over {fd}", fcntl.ioctl, fd, termios.TIOCSCTTY, 1)
    must_fail(f"open the other side of {fd}", fcntl.ioctl, fd, 0x5441, os.O_RDWR)  # TIOCGPTPEER
m, s = os.openpty()
for fd in (m, s):
    must_fail("redirect the console", fcntl.ioctl, fd, termios.TIOCCONS, 0)
    must_fail("lock the settings", fcntl.ioctl, fd, 0x5457, b"\xff" * 64)  # TIOCSLCKTRMIOS
    must_fail("hang up", fcntl.ioctl, fd, 0x5437, 0)  # TIOCVHANGUP
finish()
