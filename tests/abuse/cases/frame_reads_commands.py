# tries: read from the control socket what was meant for somebody else
for fd in sockets():
    s = socket.socket(fileno=os.dup(fd))
    s.setblocking(False)
    for _ in range(10):
        try:
            data, extra, _, _ = s.recvmsg(65536, 4096)
        except OSError:
            break
        if extra:
            escaped(f"received descriptors {extra}")
        if not data:
            break
finish()
