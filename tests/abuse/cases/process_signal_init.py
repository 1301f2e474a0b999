# tries: kill PID 1 of the box with every signal there is
for number in range(1, 65):
    try:
        os.kill(1, number)
    except OSError:
        pass
try:
    syscall("pidfd_send_signal", syscall("pidfd_open", 1, 0), signal.SIGKILL, 0, 0)
except OSError:
    pass
time.sleep(0.3)
in_child(lambda: 0)  # a box without PID 1 cannot fork
finish()
