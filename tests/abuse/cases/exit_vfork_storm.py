# tries: be somewhere else each time it is killed
# options: --timeout 2 --pids 64
# ends: timeout pids
import subprocess
for _ in range(20):
    if os.fork() == 0:
        os.setsid()
        break
while True:
    try:
        subprocess.Popen(["/bin/true"], close_fds=False)
    except BaseException:
        pass
