# tries: run from the killer: fork, let the parent die, again
# options: --timeout 2 --pids 64
# ends: timeout
parent = os.getpid()
for _ in range(8):
    try:
        first = os.fork()
    except BlockingIOError:
        break  # those that hop leave their dead behind faster than PID 1 takes them away
    if first == 0:
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
