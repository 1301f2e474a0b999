# tries: read and write another process's memory by system call
buf = ctypes.create_string_buffer(64)
iov = (ctypes.c_ulong * 2)(ctypes.addressof(buf), 64)
pid = os.fork()
if pid == 0:
    time.sleep(30)
    os._exit(0)
for target in (1, os.getppid(), pid):
    must_fail(f"readv {target}", syscall, "process_vm_readv", target, iov, 1, iov, 1, 0)
    must_fail(f"writev {target}", syscall, "process_vm_writev", target, iov, 1, iov, 1, 0)
    must_fail(f"kcmp {target}", syscall, "kcmp", target, os.getpid(), 0, 0, 0)
os.kill(pid, 9)
finish()
