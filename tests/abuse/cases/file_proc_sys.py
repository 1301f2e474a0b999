# tries: open kernel settings for writing (and writes nothing, so that success harms nobody)
import glob
paths = ["/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sys/kernel/hotplug",
         "/proc/sys/vm/overcommit_memory", "/proc/sys/vm/panic_on_oom", "/proc/sys/kernel/hostname",
         "/proc/sys/fs/file-max", "/proc/sys/kernel/pid_max", "/proc/sys/kernel/ns_last_pid",
         "/proc/sys/net/ipv4/ip_forward", "/proc/sys/user/max_user_namespaces",
         "/proc/sys/kernel/domainname", "/proc/sys/kernel/shmmax", "/proc/sys/fs/mqueue/msg_max"]
for path in paths + glob.glob("/proc/sys/kernel/*") + glob.glob("/proc/sys/net/ipv4/*"):
    if not os.path.isdir(path):
        must_fail(f"open {path} for writing", os.open, path, os.O_WRONLY)
finish()
