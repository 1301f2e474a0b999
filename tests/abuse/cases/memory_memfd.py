# tries: hide memory in memfds, which are no file system of ours
# options: --memory 128m
# ends: oom error disk
fds = [os.memfd_create(f"m{i}") for i in range(32)]
for fd in fds:
    for _ in range(64):
        os.write(fd, b"x" * (1 << 20))
held("wrote 2 GiB into memfds")
