# tries: unshare every namespace, alone and with a user namespace
flags = dict(NS=0x20000, CGROUP=0x2000000, UTS=0x4000000, IPC=0x8000000, USER=0x10000000,
             PID=0x20000000, NET=0x40000000, TIME=0x80)
for name, flag in flags.items():
    must_fail(f"unshare {name}", syscall, "unshare", flag)
    must_fail(f"unshare USER|{name}", syscall, "unshare", flag | flags["USER"])
finish()
