# tries: read what the kernel tells about the whole host
for path in ("/proc/kcore", "/proc/kmsg", "/proc/keys", "/proc/key-users", "/proc/timer_list",
             "/proc/sched_debug", "/proc/kpagecount", "/proc/kpageflags", "/proc/latency_stats",
             "/proc/timer_stats", "/proc/scsi/scsi", "/proc/acpi/alarm", "/proc/sysrq-trigger",
             "/proc/config.gz", "/proc/iomem", "/proc/ioports", "/proc/slabinfo",
             "/proc/vmallocinfo", "/proc/pagetypeinfo", "/proc/asound/cards"):
    must_not_read(path)
try:
    for line in open("/proc/kallsyms"):
        if int(line.split()[0], 16):
            escaped("kallsyms shows addresses: " + line)
            break
except OSError:
    pass
finish()
