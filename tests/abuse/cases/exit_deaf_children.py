# tries: outlive the run with children that ignore all signals and hold the pipes
for _ in range(10):
    if os.fork() == 0:
        os.setsid()
        for s in signal.valid_signals():
            try:
                signal.signal(s, signal.SIG_IGN)
            except (OSError, ValueError):
                pass
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        while True:
            time.sleep(1000)
finish()
