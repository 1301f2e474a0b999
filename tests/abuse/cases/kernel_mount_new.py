# tries: every call of the new mount family
for kind in (b"tmpfs", b"proc", b"ext4", b"overlay", b"cgroup2", b"sysfs"):
    must_fail(f"fsopen {kind}", syscall, "fsopen", kind, 0)
for path in (b"/", b"/usr", b"/proc", b"/workspace"):
    must_fail("open_tree", syscall, "open_tree", -100, path, 1)
    must_fail("fspick", syscall, "fspick", -100, path, 0)
    attr = (ctypes.c_uint64 * 4)(0, 1, 0, 0)
    must_fail("mount_setattr", syscall, "mount_setattr", -100, path, 0, attr, 32)
    fd = os.open(path, os.O_PATH)
    must_fail("move_mount", syscall, "move_mount", fd, b"", -100, b"/workspace", 4)
must_fail("fsmount", syscall, "fsmount", 0, 0, 0)
finish()
