# tries: reserve and seek far beyond the quota
# options: --disk 8m
for place in ("/workspace", "/tmp", "/dev/shm"):
    with open(f"{place}/s", "wb") as f:
        must_fail("fallocate", os.posix_fallocate, f.fileno(), 0, 1 << 30)
        must_fail("truncate", f.truncate, 1 << 40)
        must_fail("write far out", os.pwrite, f.fileno(), b"x", 1 << 40)
finish()
