# tries: find a map of ids that holds more than its own
for name in ("uid_map", "gid_map"):
    rows = [[int(x) for x in line.split()] for line in open(f"/proc/self/{name}")]
    if sum(row[2] for row in rows) > 65536:
        escaped(f"{name} {rows}")
    if any(row[0] == 0 for row in rows):
        escaped(f"{name} has root: {rows}")
for path in ("/etc/passwd", "/usr/bin/env", "/"):
    # With a single id the box's own root directory is the tenant's; then it is read-only.
    if os.stat(path).st_uid == os.getuid() and os.access(path, os.W_OK):
        escaped(f"owns {path}")
finish()
