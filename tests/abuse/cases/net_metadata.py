# tries: find a route to the cloud's metadata service (connects UDP sockets, sends nothing)
for family, address in ((socket.AF_INET, "169.254.169.254"), (socket.AF_INET, "100.100.100.200"),
                        (socket.AF_INET6, "fd00:ec2::254"), (socket.AF_INET, "10.0.0.1"),
                        (socket.AF_INET, "172.17.0.1"), (socket.AF_INET, "192.168.0.1"),
                        (socket.AF_INET, "169.254.1.1")):
    must_fail(f"route to {address}", reach, family, socket.SOCK_DGRAM, (address, 80))
finish()
