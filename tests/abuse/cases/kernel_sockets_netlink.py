# tries: netlink families other than the one that lists interfaces
for proto in range(1, 32):
    for kind in (2, 3):
        must_fail(f"netlink {proto}", syscall, "socket", 16, kind, proto)
finish()
