# tries: find sysfs, control groups, debugfs or another pseudo file system
for path in ("/sys", "/sys/fs/cgroup", "/sys/kernel/debug", "/sys/kernel/security", "/sys/class",
             "/proc/fs", "/run/systemd", "/var/run/docker.sock", "/run/docker.sock",
             "/run/dbus/system_bus_socket", "/run/user"):
    try:
        names = os.listdir(path) if os.path.isdir(path) else [os.stat(path)]
    except OSError:
        continue
    if names and path != "/proc/fs":
        escaped(f"{path}: {names[:5]}")
for line in open("/proc/self/mountinfo"):
    kind = line.split(" - ")[1].split()[0]
    if kind in ("sysfs", "cgroup", "cgroup2", "debugfs", "securityfs", "tracefs", "bpf", "mqueue"):
        escaped("mounted: " + line)
finish()
