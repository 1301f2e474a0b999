# tries: create, change, rename and remove in every directory of the system
targets = ["/", "/usr", "/usr/bin", "/usr/lib", "/usr/lib/python3/dist-packages", "/usr/local",
           "/usr/local/lib", "/etc", "/bin", "/lib", "/dev", "/dev/pts", "/proc", "/var", "/run",
           "/home", "/opt", "/sys", "/sbin"]
for d in targets:
    must_fail(f"create in {d}", os.open, d + "/gb-evil", os.O_CREAT | os.O_WRONLY)
    must_fail(f"mkdir in {d}", os.mkdir, d + "/gb-evil-dir")
    must_fail(f"symlink in {d}", os.symlink, "/tmp", d + "/gb-evil-link")
    must_fail(f"rename {d}", os.rename, d, d + "-moved")
for f in ("/etc/passwd", "/etc/hosts", "/etc/ld.so.preload", "/etc/ld.so.cache", "/usr/bin/env",
          os.__file__, sys.executable):
    must_fail(f"write {f}", os.open, f, os.O_WRONLY)
    must_fail(f"truncate {f}", os.truncate, f, 0)
    must_fail(f"chmod {f}", os.chmod, f, 0o777)
    must_fail(f"chown {f}", os.chown, f, 1000, 1000)
    must_fail(f"utime {f}", os.utime, f, (1, 1))
    must_fail(f"remove {f}", os.remove, f)
    must_fail(f"setxattr {f}", os.setxattr, f, "user.x", b"1")
finish()
