# tries: use kernel memory as full pipes and socket buffers
# options: --memory 128m --open-files 1024
# ends: oom
# needs: cgroups
total = 0
held = []
def fill(fd):
    n = 0
    os.set_blocking(fd, False)
    try:
        while True:
            n += os.write(fd, b"x" * 65536)
    except OSError:
        return n
try:
    for _ in range(200):
        r, w = os.pipe()
        a, b = socket.socketpair()
        b.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8 << 20)
        held += [r, w, a, b]
        try:
            __import__("fcntl").fcntl(w, 1031, 1 << 20)
        except OSError:
            pass
        total += fill(w) + fill(b.fileno())
except OSError:
    pass
if total > 512 << 20:
    escaped(f"{total >> 20} MiB in kernel buffers")
finish()
