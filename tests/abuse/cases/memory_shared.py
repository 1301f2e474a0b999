# tries: hide memory in shared mappings whose maker has died
# options: --memory 128m
# ends: oom
# needs: cgroups
import mmap
maps = []
for i in range(64):
    m = mmap.mmap(-1, 32 << 20)
    maps.append(m)
    pid = os.fork()
    if pid == 0:
        for k in range(0, 32 << 20, 4096):
            m[k] = 1
        os._exit(0)
    if os.waitpid(pid, 0)[1]:
        os.kill(os.getpid(), 9)
held("2 GiB in shared mappings")
