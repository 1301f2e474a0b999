# tries: fill our memory with output on both streams at once
# options: --output 4m
# ends: output error killed
import threading
def flood(fd):
    while True:
        try:
            os.write(fd, b"x" * 65536)
        except OSError:
            pass
for fd in (1, 2):
    threading.Thread(target=flood, args=(fd,)).start()
