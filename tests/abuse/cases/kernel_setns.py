# tries: join namespaces through /proc
for pid in ("self", "1", str(os.getppid())):
    for name in ("user", "mnt", "pid", "net", "ipc", "uts", "cgroup", "time", "pid_for_children"):
        try:
            fd = os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY)
        except OSError:
            continue
        if pid != "self":
            escaped(f"opened /proc/{pid}/ns/{name}")
        must_fail(f"setns {pid} {name}", syscall, "setns", fd, 0)
        try:
            parent = __import__("fcntl").ioctl(fd, 0xB702)  # NS_GET_PARENT
            escaped(f"parent of {name}: {parent}")
        except OSError:
            pass
finish()
