# tries: clone into every new namespace
flags = dict(NS=0x20000, CGROUP=0x2000000, UTS=0x4000000, IPC=0x8000000, USER=0x10000000,
             PID=0x20000000, NET=0x40000000)
for name, flag in flags.items():
    for extra in (0, flags["USER"]):
        try:
            pid = syscall("clone", flag | extra | signal.SIGCHLD, 0, 0, 0, 0)
        except OSError:
            continue
        if pid == 0:
            os._exit(0)
        escaped(f"clone {name}")
finish()
