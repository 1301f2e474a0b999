# tries: the kernel's keyrings, which are not in any namespace of ours
for ring in range(-8, 0):
    must_fail(f"keyctl get id {ring}", syscall, "keyctl", 0, ring, 1)
    must_fail(f"add_key {ring}", syscall, "add_key", b"user", b"gb", b"x", 1, ring)
must_fail("request_key", syscall, "request_key", b"user", b"gb", 0, 0)
must_fail("join session", syscall, "keyctl", 1, 0)
finish()
