# tries: close and shut down the control socket, then go on and fail
# exit: 9
for fd in sockets():
    try:
        socket.socket(fileno=os.dup(fd)).shutdown(2)
    except OSError:
        pass
    os.close(fd)
time.sleep(0.2)
finish()
sys.stdout.flush()
os._exit(9)
