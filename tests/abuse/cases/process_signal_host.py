# tries: signal a process of the host by its pid (the test looks whether it lives)
# args: {host_pid}
pid = int(sys.argv[1])
if pid not in {int(p) for p in os.listdir("/proc") if p.isdigit()}:
    must_fail("kill", os.kill, pid, signal.SIGKILL)
    must_fail("pidfd_open", syscall, "pidfd_open", pid, 0)
    must_fail("sigqueue", syscall, "kill", pid, 0)
finish()
