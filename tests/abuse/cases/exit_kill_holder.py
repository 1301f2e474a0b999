# tries: end or change the process that holds its memory
children = []
for name in os.listdir("/proc"):
    if name.isdigit():
        with open(f"/proc/{name}/stat") as f:
            if int(f.read().rpartition(")")[2].split()[1]) == os.getpid():
                children.append(int(name))
try:
    escaped(f"a child that nobody made: {os.wait()}")
except ChildProcessError:
    pass
for pid in children:
    if os.listdir(f"/proc/{pid}/fd"):
        escaped("the holder has descriptors")
    for sig in (signal.SIGSTOP, signal.SIGCONT, signal.SIGTERM, signal.SIGKILL):
        os.kill(pid, sig)
finish()
