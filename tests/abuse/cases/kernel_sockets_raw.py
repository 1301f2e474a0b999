# tries: raw and packet sockets
for family in (2, 10):
    for proto in (1, 6, 17, 58, 255):
        must_fail(f"raw {family} {proto}", syscall, "socket", family, 3, proto)
        must_fail(f"packet type {family}", syscall, "socket", family, 10, proto)
for kind in (2, 3, 10):
    must_fail("AF_PACKET", syscall, "socket", 17, kind, 0x0300)
for proto in (1, 132, 33):
    for kind in (1, 2, 5, 6):
        must_fail(f"protocol {proto}", syscall, "socket", 2, kind, proto)
finish()
