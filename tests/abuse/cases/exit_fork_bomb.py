# tries: the fork bomb that holds on
# options: --pids 64 --timeout 2
# ends: timeout pids
for _ in range(3):
    try:
        if os.fork() == 0:
            os.setsid()
    except OSError:
        pass
while True:
    try:
        os.fork()
    except BaseException:
        pass
