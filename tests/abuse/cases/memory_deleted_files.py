# tries: hide memory in files that are deleted but open
# options: --memory 128m
# ends: oom disk error
files = []
for i in range(64):
    f = open(f"/tmp/{i}", "wb")
    os.remove(f"/tmp/{i}")
    f.write(b"x" * (32 << 20))
    f.flush()
    files.append(f)
held("wrote 2 GiB into deleted files")
