# tries: signal everything it may, its own group and everybody
signal.signal(signal.SIGUSR1, signal.SIG_IGN)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for call in (lambda: os.kill(-1, signal.SIGKILL), lambda: os.kill(0, signal.SIGTERM),
             lambda: os.killpg(os.getpgrp(), signal.SIGUSR1),
             lambda: os.kill(os.getppid() or 1, signal.SIGKILL)):
    try:
        call()
    except OSError:
        pass
time.sleep(0.3)
finish()
