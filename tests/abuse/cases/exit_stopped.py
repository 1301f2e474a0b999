# tries: stop itself and its children, so that nothing more can be delivered
# options: --timeout 2
# ends: timeout
if os.fork() == 0:
    os.kill(os.getpid(), signal.SIGSTOP)
os.kill(os.getpid(), signal.SIGSTOP)
escaped("was continued")
