# tries: run from the killer: fork, let the parent die, again
# options: --timeout 2 --pids 64
# ends: timeout
parent = os.getpid()
for _ in range(8):
    if os.fork() == 0:
        while True:
            try:
                if os.fork():
                    os._exit(0)
            except OSError:
                pass
while True:
    try:
        time.sleep(1000)
    except KeyboardInterrupt:
        pass
