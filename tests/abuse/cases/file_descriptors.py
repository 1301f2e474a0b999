# tries: use whatever descriptors were left open
for fd in range(3, 65536):
    try:
        kind = os.fstat(fd).st_mode & 0o170000
    except OSError:
        continue
    if kind != 0o140000:
        escaped(f"descriptor {fd} is {oct(kind)} {os.readlink(f'/proc/self/fd/{fd}')}")
if len(sockets()) > 1:
    escaped(f"sockets {sockets()}")
for fd in (0, 1, 2):
    if os.fstat(fd).st_mode & 0o170000 not in (0o010000, 0o020000, 0o100000):
        escaped(f"descriptor {fd} is {oct(os.fstat(fd).st_mode)}")
finish()
