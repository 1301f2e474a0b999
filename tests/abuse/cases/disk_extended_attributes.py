# tries: store data in extended attributes, which are not counted as blocks
# options: --disk 8m --memory 128m --inodes 500
# ends: oom
stored = 0
for i in range(400):
    try:
        open(f"f{i}", "w").close()
        for k in range(8):
            os.setxattr(f"f{i}", f"user.{k}", b"x" * 60000)
            stored += 60000
    except OSError:
        pass
if stored > 160 << 20:
    escaped(f"{stored} bytes in attributes")
finish()
