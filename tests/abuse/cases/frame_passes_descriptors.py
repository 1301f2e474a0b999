# tries: hand us descriptors, hoping that we keep them (and what they hold)
# exit: 9
import array
fds = array.array("i", [os.open("/dev/null", os.O_RDONLY) for _ in range(200)])
for fd in sockets():
    s = socket.socket(fileno=os.dup(fd))
    s.setblocking(False)
    for _ in range(100):
        try:
            s.sendmsg([packet(3, field(10, b"{}"))], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
        except OSError:
            break
finish()
sys.stdout.flush()
os._exit(9)
