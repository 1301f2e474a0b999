# tries: connect to a service on the host's loopback (the test listens there)
# args: {port}
port = int(sys.argv[1])
for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET, "0.0.0.0"),
                        (socket.AF_INET, "127.1.2.3"), (socket.AF_INET6, "::1"),
                        (socket.AF_INET6, "::ffff:127.0.0.1")):
    must_fail(f"connect {address}", reach, family, socket.SOCK_STREAM, (address, port))
    try:
        reach(family, socket.SOCK_DGRAM, (address, port), b"gb-datagram")  # the test listens
    except OSError:
        pass
s = socket.socket()
s.bind(("127.0.0.1", port))  # taken on the host: that it is free here shows that here is elsewhere
finish()
