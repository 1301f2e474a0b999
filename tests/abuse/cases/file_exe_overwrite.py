# tries: overwrite the program that runs it, or that of PID 1, through /proc (as a known escape did)
for pid in ("self", "1"):
    for flags in (os.O_WRONLY, os.O_RDWR, os.O_WRONLY | os.O_TRUNC):
        e = must_fail(f"open /proc/{pid}/exe", os.open, f"/proc/{pid}/exe", flags)
        if e and e.errno == errno.ETXTBSY:
            escaped(f"/proc/{pid}/exe would be writable once it is idle")
for line in open("/proc/self/maps"):
    path = line.split(maxsplit=5)[5].strip() if len(line.split()) > 5 else ""
    if path.startswith("/") and "(deleted)" not in path:
        e = must_fail(f"open {path}", os.open, path, os.O_WRONLY)
        if e and e.errno == errno.ETXTBSY:
            escaped(f"{path} would be writable once it is idle")
finish()
