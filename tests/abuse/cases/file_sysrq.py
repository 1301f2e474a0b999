# tries: the magic SysRq trigger (asks for its harmless help text only) and its kin
for path, data in (("/proc/sysrq-trigger", b"h"), ("/proc/sys/kernel/sysrq", b"1"),
                   ("/proc/sys/vm/drop_caches", b"0"), ("/proc/sys/fs/binfmt_misc/register", b""),
                   ("/proc/irq/default_smp_affinity", b"1"), ("/proc/mtrr", b""),
                   ("/proc/acpi/wakeup", b""), ("/proc/bus/pci/00/00.0", b"")):
    must_fail(f"write {path}", lambda: os.write(os.open(path, os.O_WRONLY), data))
finish()
