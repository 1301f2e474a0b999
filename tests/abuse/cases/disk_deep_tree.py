# tries: break whoever scans the workspace with deep and oddly named trees
for i in range(3000):
    try:
        os.mkdir("d" * 200)
        os.chdir("d" * 200)
    except OSError:
        break
os.chdir("/workspace")
for name in (b"\xff\xfe", b"new\nline", b"\x1b[2J", b"-rf", b" ", b"..." , b"%s%n", b"a" * 255):
    with open(name, "wb") as f:
        f.write(b"x")
os.chmod("d" * 200, 0)
finish()
