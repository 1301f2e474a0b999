# tries: flood the control socket with displays and unfinished messages until the time is up
# options: --timeout 3
# ends: timeout error
data = [packet(3, field(10, b'{"text/plain": "' + b"x" * 50000 + b'"}')),
        packet(4, b"x" * 60000, flags=1, total=32 << 20), packet(2, b"x", flags=1, total=2)]
found = [socket.socket(fileno=os.dup(fd)) for fd in sockets()]
while True:
    for s in found:
        for d in data:
            try:
                s.send(d)
            except OSError:
                pass
    if not found:
        time.sleep(10)
