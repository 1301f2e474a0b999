# tries: write more than the quota, everywhere that can be written
# options: --disk 8m --memory 512m
total = 0
for place in ("/workspace", "/tmp", "/dev/shm", "/", "/dev", "/var/tmp", "/run", "/dev/pts"):
    for i in range(64):
        try:
            with open(f"{place}/fill{place.replace('/', '-')}{i}", "wb", buffering=0) as f:
                while True:
                    total += f.write(b"x" * 65536)
        except OSError:
            pass
if total > 26 << 20:
    escaped(f"wrote {total} bytes")
finish()
