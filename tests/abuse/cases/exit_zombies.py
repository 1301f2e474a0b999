# tries: fill the process table with children that it does not wait for
# options: --pids 64
made = 0
try:
    for _ in range(5000):
        if os.fork() == 0:
            os._exit(0)
        made += 1
except OSError:
    pass
if made > 64:
    escaped(f"{made} children at once")
finish()
