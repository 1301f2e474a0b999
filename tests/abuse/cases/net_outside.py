# tries: reach addresses outside, over TCP and UDP, IPv4 and IPv6
for family, address in ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET, "198.51.100.1"),
                        (socket.AF_INET6, "2001:db8::1"), (socket.AF_INET, "255.255.255.255")):
    for port in (53, 80, 443):
        e = must_fail(f"connect {address}", reach, family, socket.SOCK_STREAM, (address, port))
        if isinstance(e, socket.timeout):
            escaped(f"{address} has a route")
        must_fail(f"send to {address}", reach, family, socket.SOCK_DGRAM, (address, port), b"x")
finish()
