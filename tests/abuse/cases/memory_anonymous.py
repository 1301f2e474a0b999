# tries: use far more memory than allowed, swap included
# options: --memory 128m
# ends: oom
blocks = []
for i in range(256):
    blocks.append(bytearray(b"x" * (8 << 20)))
held("touched 2 GiB")
