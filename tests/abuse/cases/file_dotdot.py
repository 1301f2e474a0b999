# tries: climb above / by descriptors of directories
# args: {secret}
for start in ("/", "/usr", "/proc", "/dev", "/workspace", "/tmp"):
    fd = os.open(start, os.O_PATH)
    for depth in range(40):
        path = "../" * depth + sys.argv[1][1:]
        try:
            escaped(f"{start} {depth}: " + repr(os.read(os.open(path, os.O_RDONLY, dir_fd=fd), 99)))
        except OSError:
            pass
finish()
