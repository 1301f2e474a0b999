# tries: end or change the process that holds its memory, and end all the same
children = []
for name in os.listdir("/proc"):
    if name.isdigit():
        with open(f"/proc/{name}/stat") as f:
            if int(f.read().rpartition(")")[2].split()[1]) == os.getpid():
                children.append(int(name))
try:
    os.wait()
    print("a child that nobody made")
    os._exit(3)
except ChildProcessError:
    pass
for pid in children:
    for name in os.listdir(f"/proc/{pid}/fd"):
        print("the holder has descriptor", name)
        os._exit(3)
    os.kill(pid, signal.SIGSTOP)
    os.kill(pid, signal.SIGCONT)
    os.kill(pid, signal.SIGTERM)
    os.kill(pid, signal.SIGKILL)
print("done")
