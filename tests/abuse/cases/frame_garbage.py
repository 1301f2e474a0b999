# tries: send what is no frame
# exit: 9
import random
found = sockets()
for i in range(500):
    forge(random.Random(i).randbytes(i * 3), found)
for kind in range(256):
    forge(packet(kind, b"\xff" * 40), found)
forge(packet(2, field(6, b"0") + b"\x06\x00\xff\xff\xff\xff"), found)
finish()
sys.stdout.flush()
os._exit(9)
