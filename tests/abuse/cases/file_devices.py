# tries: open devices of the host that may have been left in /dev
for path in ("/dev/mem", "/dev/kmem", "/dev/port", "/dev/kmsg", "/dev/kvm", "/dev/fuse",
             "/dev/net/tun", "/dev/loop-control", "/dev/loop0", "/dev/sda", "/dev/vda",
             "/dev/nvme0n1", "/dev/mapper/control", "/dev/userfaultfd", "/dev/vhost-net",
             "/dev/vsock", "/dev/uinput", "/dev/console", "/dev/tty0", "/dev/tty1", "/dev/rtc0",
             "/dev/watchdog", "/dev/cpu_dma_latency", "/dev/btrfs-control", "/dev/autofs",
             "/dev/snapshot", "/dev/hwrng", "/dev/mqueue", "/dev/hugepages", "/dev/dri"):
    must_fail(f"open {path}", os.open, path, os.O_RDONLY)
known = set("null zero full random urandom shm pts ptmx fd stdin stdout stderr tty".split())
if extra := set(os.listdir("/dev")) - known:
    escaped(f"unexpected devices {sorted(extra)}")
finish()
