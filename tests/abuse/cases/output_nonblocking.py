# tries: confuse our reading end by the flags and the size of the shared pipe
import fcntl
for fd in (0, 1, 2):
    try:
        fcntl.fcntl(fd, fcntl.F_SETFL, os.O_NONBLOCK | os.O_ASYNC | os.O_DIRECT)
        fcntl.fcntl(fd, 1031, 4096)
    except OSError:
        pass
for _ in range(2000):
    try:
        os.write(1, b"y" * 4096)
    except BlockingIOError:
        time.sleep(0.001)
for fd in (0, 1, 2):
    fcntl.fcntl(fd, fcntl.F_SETFL, 0)
finish()
