# tries: find sysfs, control groups, debugfs or another pseudo file system
own = {"/sys": {".meminfo", "devices", "fs"},  # written by us, about this box
       "/sys/fs/cgroup": {"cgroup.controllers", "cpu", "cpu,cpuacct", "cpu.max", "memory",
                          "memory.max"},
       "/sys/devices/system/cpu": {"online", "possible", "present"}}
for path, names in own.items():
    if set(os.listdir(path)) != names:
        escaped(f"{path}: {os.listdir(path)}")
    for name in names:
        file = os.path.join(path, name)
        if os.path.isfile(file):
            must_fail(f"write {file}", os.open, file, os.O_WRONLY)
            must_fail(f"chmod {file}", os.chmod, file, 0o666)
            must_fail(f"remove {file}", os.remove, file)
must_fail("write /proc/meminfo", os.open, "/proc/meminfo", os.O_WRONLY)
must_fail("truncate /proc/meminfo", os.truncate, "/proc/meminfo", 0)
for path in ("/sys/kernel/debug", "/sys/kernel/security", "/sys/class",
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
