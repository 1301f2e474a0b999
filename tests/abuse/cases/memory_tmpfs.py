# tries: hide memory in files of the three tmpfs
# options: --memory 128m --disk 2g
# ends: oom
for place in ("/dev/shm", "/tmp", "/workspace"):
    with open(place + "/big", "wb") as f:
        for _ in range(1024):
            f.write(b"x" * (1 << 20))
held("wrote 3 GiB")
