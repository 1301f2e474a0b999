# tries: connect to an abstract Unix socket of the host, and to one with a path
# args: {abstract} {unix_path}
for name in ("\0" + sys.argv[1], sys.argv[2]):
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET):
        must_fail(f"connect {name!r}", socket.socket(socket.AF_UNIX, kind).connect, name)
finish()
