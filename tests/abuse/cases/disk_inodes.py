# tries: use up inodes with files, directories, links and fifos
# options: --inodes 200
for place in ("/workspace", "/tmp", "/dev/shm"):
    made = 0
    makers = (lambda p: open(p, "w").close(), os.mkdir, lambda p: os.symlink("x", p), os.mkfifo)
    for kind, make in enumerate(makers):
        for i in range(1000):
            try:
                make(f"{place}/{kind}-{i}")
                made += 1
            except OSError:
                break
    if made > 200:
        escaped(f"{made} inodes in {place}")
finish()
