# tries: be somewhere else each time it is killed
# options: --timeout 2 --pids 64
# ends: timeout pids
import subprocess
for _ in range(20):
    try:
        if os.fork() == 0:
            os.setsid()
            break
    except BlockingIOError:
        pass  # the first children have filled the box already
while True:
    try:
        subprocess.Popen(["/bin/true"], close_fds=False)
    except BaseException:
        pass
