# tries: trace PID 1, its parent and a child of its own
ATTACH, SEIZE, TRACEME = 16, 0x4206, 0
for pid in {1, os.getppid()} - {0}:
    must_fail(f"attach {pid}", syscall, "ptrace", ATTACH, pid, 0, 0)
    must_fail(f"seize {pid}", syscall, "ptrace", SEIZE, pid, 0, 0)
pid = os.fork()
if pid == 0:
    time.sleep(30)
    os._exit(0)
must_fail("attach child", syscall, "ptrace", ATTACH, pid, 0, 0)
os.kill(pid, 9)
if in_child(lambda: must_fail("traceme", syscall, "ptrace", TRACEME, 0, 0, 0) is None)[0]:
    escaped("traceme")
finish()
