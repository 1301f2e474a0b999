# tries: find a writable mount that is not nosuid and nodev, or a writable one it should not have
seen = set()
for line in open("/proc/self/mountinfo"):
    words = line.split()
    where, flags = words[4], words[5].split(",")
    if words[3] in ("/null", "/zero", "/full", "/random", "/urandom"):
        continue  # devices, also where they cover a file
    if where in seen and where != "/tmp":
        escaped(f"something is hidden beneath {where}")
    seen.add(where)
    if where in ("/workspace", "/tmp", "/dev/shm"):
        if not {"nosuid", "nodev", "rw"} <= set(flags):
            escaped(f"{where} is {flags}")
    elif "rw" in flags and not where.startswith("/dev"):
        escaped(f"{where} is writable")
    elif "nosuid" not in flags:
        escaped(f"{where} honours setuid: {flags}")
finish()
