# tries: reach the host's root through the magic links in /proc
# args: {secret}
for pid in [p for p in os.listdir("/proc") if p.isdigit()] + ["self", "thread-self", "1"]:
    for link in ("root", "cwd", "task/1/root", "map_files"):
        must_not_read(f"/proc/{pid}/{link}{sys.argv[1]}")
    for depth in range(1, 6):
        must_not_read(f"/proc/{pid}/cwd/" + "../" * depth + sys.argv[1][1:])
must_fail("list /proc/1/root", os.listdir, "/proc/1/root")
must_fail("list /proc/1/cwd", os.listdir, "/proc/1/cwd")
finish()
