# tries: every call of the old mount family
os.mkdir("m")
for source, target, kind, flags in (
    (b"none", b"m", b"tmpfs", 0), (b"proc", b"m", b"proc", 0), (b"sysfs", b"m", b"sysfs", 0),
    (b"/usr", b"m", b"", 4096), (b"none", b"/usr", b"", 32 | 4096), (b"none", b"/proc", b"", 32),
    (b"none", b"/", b"", 1 << 18), (b"/", b"m", b"", 4096 | 16384), (b"m", b"/etc", b"", 8192),
    (b"none", b"m", b"cgroup2", 0), (b"none", b"m", b"overlay", 0), (b"none", b"m", b"devpts", 0),
):
    must_fail(f"mount {source} {target} {kind}", syscall, "mount", source, target, kind, flags, 0)
for target in (b"/proc", b"/usr", b"/workspace", b"/tmp", b"/dev", b"/", b"/etc"):
    for flags in (0, 2, 8):
        must_fail(f"umount {target}", syscall, "umount2", target, flags)
must_fail("pivot_root", syscall, "pivot_root", b".", b"m")
finish()
