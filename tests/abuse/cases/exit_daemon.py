# tries: outlive the run as a daemon
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for fd in range(0, 100):
            try:
                os.close(fd)
            except OSError:
                pass
        while True:
            time.sleep(1000)
    os._exit(0)
os.wait()
finish()
