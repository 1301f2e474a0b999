# tries: open a world-readable file of the host by its path
# args: {secret}
must_not_read(sys.argv[1])
must_not_read(os.path.relpath(sys.argv[1], "/workspace"))
for depth in range(1, 30):
    must_not_read("../" * depth + sys.argv[1].lstrip("/"))
finish()
