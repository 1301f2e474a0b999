# tries: read a file of the host through links of every kind in the workspace
# args: {secret}
os.symlink(sys.argv[1], "a")
os.symlink("/proc/self/root" + sys.argv[1], "b")
os.symlink("/proc/1/root" + sys.argv[1], "c")
os.symlink("/", "d")
for path in ("a", "b", "c", "d" + sys.argv[1], "/proc/self/cwd/a"):
    must_not_read(path)
finish()
