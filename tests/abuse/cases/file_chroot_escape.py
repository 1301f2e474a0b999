# tries: the classic escape, chroot below an open directory and climb out
# args: {secret}
os.mkdir("jail")
top = os.open("/", os.O_RDONLY)
if must_fail("chroot", os.chroot, "jail") is None:
    os.fchdir(top)
    for _ in range(100):
        os.chdir("..")
    os.chroot(".")
    must_not_read(sys.argv[1])
finish()
