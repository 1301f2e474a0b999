# tries: spread memory over many children, each below the limit
# options: --memory 128m
# ends: oom
r, w = os.pipe()
for _ in range(40):
    pid = os.fork()
    if pid == 0:
        block = bytearray(b"x" * (32 << 20))
        os.write(w, b"1")
        time.sleep(1000)
alive = 0
os.set_blocking(r, False)
end = time.monotonic() + 20
while time.monotonic() < end and alive < 40:
    try:
        alive += len(os.read(r, 100))
    except BlockingIOError:
        time.sleep(0.05)
    try:
        if os.waitpid(-1, os.WNOHANG)[0]:
            os.kill(os.getpid(), 9)
    except ChildProcessError:
        break
if alive == 40:
    held("40 children with 32 MiB each")
finish()
